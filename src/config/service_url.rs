//! A peer's URL, taken apart once, or the URL of a name in DNS that stands for several peers. Its credentials are kept where no log line, error or page can
//! show them by accident.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// A text that is never shown: `Debug` and `Display` write stars.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// User and password of a service URL, percent-decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub user: Secret,
    pub password: Secret,
}

impl Credentials {
    /// The value of an `Authorization` header. Marked as sensitive, so that no log of headers shows
    /// it.
    pub fn basic(&self) -> hyper::header::HeaderValue {
        let pair = format!("{}:{}", self.user.expose(), self.password.expose());
        let text = format!("Basic {}", BASE64.encode(pair));
        let mut value = hyper::header::HeaderValue::from_str(&text)
            .unwrap_or(hyper::header::HeaderValue::from_static("Basic"));
        value.set_sensitive(true);
        value
    }
}

/// `http(s)://[user:password@]host[:port]/path/`, or `srv+http(s)://[user:password@]name/path/`.
/// `Display` leaves the credentials out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl {
    /// https.
    pub secure: bool,
    /// `host` is the name of SRV records, which give host and port of each peer.
    pub by_srv: bool,
    /// Name or address, an IPv6 address without its brackets.
    pub host: String,
    /// 80 or 443 where the URL has none; 0 if SRV records give it.
    pub port: u16,
    /// Begins and ends with a slash.
    pub path: String,
    pub credentials: Option<Credentials>,
}

/// What service URLs look like, for error texts.
pub(crate) const SERVICE_URLS: &str = "URLs by comma, each http[s]://[user:password@]host[:port]/path/, e.g. http://eureka-2:8761/eureka/; or srv+http[s]://name/path/ for SRV records";

impl ServiceUrl {
    /// Takes a URL apart; `None` if it is none. A missing last slash is added.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once("://")?;
        let (secure, by_srv) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, false),
            "https" => (true, false),
            "srv+http" => (false, true),
            "srv+https" => (true, true),
            _ => return None,
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user_info, host_port) = match authority.rsplit_once('@') {
            Some((user_info, host_port)) => (Some(user_info), host_port),
            None => (None, authority),
        };
        let (host, port) = split_port(host_port)?;
        let port = match port {
            Some(_) if by_srv => return None,
            None if by_srv => 0,
            Some(port) => port.parse().ok().filter(|port| *port != 0)?,
            None if secure => 443,
            None => 80,
        };
        if !Self::is_host(host) {
            return None;
        }
        // An address has no SRV records.
        if by_srv && host.parse::<std::net::IpAddr>().is_ok() {
            return None;
        }
        if path.contains(|c: char| matches!(c, '?' | '#' | '@') || c.is_whitespace()) {
            return None;
        }
        let url = Self {
            secure,
            by_srv,
            host: host.to_owned(),
            port,
            path: if path.ends_with('/') {
                path.to_owned()
            } else {
                format!("{path}/")
            },
            credentials: user_info.map(Credentials::parse),
        };
        // What no request could be sent to is to be told now, not by each request.
        let target = format!("http://{}{}", url.authority(), url.path);
        let is_target = target.is_ascii() && target.parse::<hyper::Uri>().is_ok();
        is_target.then_some(url)
    }

    /// Whether a text may stand as the host: a name in ASCII, or an address, IPv6 without brackets.
    pub fn is_host(text: &str) -> bool {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        !text.is_empty() && text.chars().all(is_fine)
    }

    /// The same URL at another host ([`Self::is_host`]) and port.
    #[must_use]
    pub fn at(&self, host: String, port: u16) -> Self {
        Self {
            by_srv: false,
            host,
            port,
            ..self.clone()
        }
    }

    /// The URL with stars where its credentials stand, so that it can be seen that it has some.
    pub fn masked(&self) -> String {
        let shown = self.to_string();
        match (&self.credentials, shown.split_once("://")) {
            (Some(_), Some((scheme, rest))) => format!("{scheme}://***@{rest}"),
            _ => shown,
        }
    }

    /// `host:port`, an IPv6 address in brackets.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Host and port of `host:port`, `host`, `[v6]:port` or `[v6]`.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return match after {
            "" => Some((host, None)),
            _ => Some((host, Some(after.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

impl Credentials {
    fn parse(user_info: &str) -> Self {
        let decode = |text: &str| {
            let text = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
            Secret::new(text.into_owned())
        };
        let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
        Self {
            user: decode(user),
            password: decode(password),
        }
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        if self.by_srv {
            return write!(f, "srv+{scheme}://{}{}", self.host, self.path);
        }
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = ServiceUrl::parse("https://us%40er:p%3Aw@[2001:db8::1]:8761/eureka").unwrap();
        assert!(url.secure);
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("2001:db8::1", 8761, "/eureka/")
        );
        let credentials = url.credentials.as_ref().unwrap();
        assert_eq!(
            (credentials.user.expose(), credentials.password.expose()),
            ("us@er", "p:w")
        );
        assert_eq!(
            ServiceUrl::parse("http://a").unwrap().to_string(),
            "http://a:80/"
        );
        assert_eq!(
            ServiceUrl::parse("https://a/x").unwrap().to_string(),
            "https://a:443/x/"
        );
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "",
            "eureka-2:8761/eureka",
            "ftp://a/",
            "http://",
            "http:///eureka",
            "http://a:x/",
            "http://a:0/",
            "http://a:70000/",
            "http://a:1:2/",
            "http://[zz]/",
            "http://a/?q=1",
            "http://a b/",
            "http://u:p/w@a/",
            "http://bücher.example/",
            "http://a/größe/",
            "http://a/\u{1}/",
            "http://a/<b>/",
            "srv+http://_eureka._tcp.example.com:8761/",
            "srv+http://192.0.2.1/",
            "srv+http://[::1]/",
            "srv://_eureka._tcp.example.com/",
            "tcp+http://a/",
        ] {
            assert_eq!(ServiceUrl::parse(text), None, "{text}");
        }
    }

    #[test]
    fn srv_urls_have_a_name_and_no_port() {
        let url = ServiceUrl::parse("srv+http://u:p@_eureka._tcp.example.com/eureka").unwrap();
        assert!(url.by_srv && !url.secure && url.port == 0);
        assert_eq!(
            url.to_string(),
            "srv+http://_eureka._tcp.example.com/eureka/"
        );
        let peer = url.at("node-2.example.com".to_owned(), 8762);
        assert_eq!(peer.to_string(), "http://node-2.example.com:8762/eureka/");
        assert_eq!(peer.credentials, url.credentials);
        let peer = ServiceUrl::parse("SRV+HTTPS://a.example").unwrap();
        assert_eq!(peer.to_string(), "srv+https://a.example/");
    }

    #[test]
    fn credentials_are_never_shown() {
        let url = ServiceUrl::parse("http://alice:s3cret@a:1/eureka/").unwrap();
        for shown in [
            format!("{url:?}"),
            format!("{url}"),
            format!("{:?}", url.credentials),
            url.masked(),
        ] {
            assert!(
                !shown.contains("alice") && !shown.contains("s3cret"),
                "{shown}"
            );
        }
        assert_eq!(url.masked(), "http://***@a:1/eureka/");
        for (text, masked) in [
            ("http://a:1/", "http://a:1/"),
            ("srv+https://u:p@a.example/", "srv+https://***@a.example/"),
        ] {
            assert_eq!(ServiceUrl::parse(text).unwrap().masked(), masked);
        }
    }
}
