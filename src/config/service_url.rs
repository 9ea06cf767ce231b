//! A peer's URL, taken apart once. Its credentials are kept where no log line, error or page can
//! show them by accident.

use std::fmt;

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

/// `http(s)://[user:password@]host[:port]/path/`. `Display` leaves the credentials out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl {
    /// https.
    pub secure: bool,
    /// Name or address, an IPv6 address without its brackets.
    pub host: String,
    /// 80 or 443 where the URL has none.
    pub port: u16,
    /// Begins and ends with a slash.
    pub path: String,
    pub credentials: Option<Credentials>,
}
