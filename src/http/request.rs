//! What handlers need of a request's head: headers as text, the query, and who is asking.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{ACCEPT_ENCODING, HeaderName, USER_AGENT};
use hyper::http::request::Parts;

use crate::registry::change::{Actor, Origin};
use crate::replication::transport::{Identity, NODE};
use crate::wire::{Dialect, accept};

static REPLICATION: HeaderName = HeaderName::from_static("x-netflix-discovery-replication");
static IDENTITY_ID: HeaderName = HeaderName::from_static("discoveryidentity-id");
static X_REASON: HeaderName = HeaderName::from_static("x-reason");

/// The first value of a header, if it is text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// All values of a header as one list, the way a client could have written it.
pub(super) fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut all = values.next()?.to_owned();
    for value in values {
        all.push_str(", ");
        all.push_str(value);
    }
    Some(all)
}

/// Length of the request line and the headers, bytes, as they came.
pub(super) fn head_bytes(parts: &Parts) -> usize {
    let path = parts
        .uri
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    let headers: usize = parts
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    path + parts.method.as_str().len() + "  HTTP/1.1\r\n".len() + headers
}

/// Whether a peer sent it: the value is exactly `true` (`protocol.md` 1.5).
pub(super) fn is_replication(headers: &HeaderMap) -> bool {
    headers
        .get(&REPLICATION)
        .is_some_and(|value| value.as_bytes() == b"true")
}

/// Whether a node of our own kind sent it: it says who it is, which Java peers do not.
pub(super) fn is_our_kind(headers: &HeaderMap) -> bool {
    headers.contains_key(&NODE)
}

/// The node of our own kind that sent it.
pub(super) fn identity(headers: &HeaderMap) -> Option<Identity> {
    Identity::parse(headers.get(&NODE)?.to_str().ok()?)
}

/// Whether a node of our own kind reads answers in gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = joined(headers, &ACCEPT_ENCODING);
    accept::accepts_gzip(accepted.as_deref(), Dialect::Tolerant)
}

/// Where a change comes from.
pub(super) fn origin(
    headers: &HeaderMap,
    is_replication: bool,
    address: IpAddr,
    otherwise: Origin,
) -> Origin {
    if is_replication {
        let identity = text(headers, &IDENTITY_ID).filter(|id| !id.is_empty());
        Origin::Peer(identity.map_or_else(|| address.to_string().into(), Actor::cut))
    } else {
        otherwise
    }
}

/// Who asks, for the history.
pub(super) fn actor(headers: &HeaderMap, address: IpAddr) -> Actor {
    Actor {
        principal: None,
        address: Some(address.to_string().into()),
        user_agent: text(headers, &USER_AGENT).map(Actor::cut),
        reason: headers
            .get(&X_REASON)
            .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
            .map(str::trim)
            .filter(|reason| !reason.is_empty())
            .map(Actor::cut),
    }
}

/// The reason that the query gives (`?reason=`), for requests whose parameters do not mean anything
/// else.
pub(super) fn reason(query: Option<&str>) -> Option<Arc<str>> {
    let reason = parameter(query, "reason")?;
    Some(Actor::cut(reason.trim())).filter(|reason| !reason.is_empty())
}

/// The first value of a query parameter, decoded.
pub(super) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    form_urlencoded::parse(query?.as_bytes())
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

/// All query parameters, the first value of each, in order.
pub(super) fn parameters(query: Option<&str>) -> Vec<(Arc<str>, Arc<str>)> {
    let mut all: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if !all.iter().any(|(known, _)| **known == *key) {
            all.push((key.into(), value.into()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_parameter_counts() {
        assert_eq!(
            parameter(Some("a=1&b=x%20y+z&a=2"), "a").as_deref(),
            Some("1")
        );
        assert_eq!(
            parameter(Some("a=1&b=x%20y+z"), "b").as_deref(),
            Some("x y z")
        );
        assert_eq!(parameter(Some("a"), "a").as_deref(), Some(""));
        assert_eq!(parameter(None, "a"), None);
        assert_eq!(
            parameters(Some("e=&f&e=2")),
            vec![("e".into(), "".into()), ("f".into(), "".into())]
        );
    }

    #[test]
    fn a_reason_is_text_and_not_nothing() {
        let reason_of = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            let value = hyper::header::HeaderValue::from_bytes(value).unwrap();
            headers.insert(X_REASON.clone(), value);
            actor(&headers, IpAddr::from([10, 0, 0, 1])).reason
        };
        assert_eq!(reason_of(b" deploy 4711 ").as_deref(), Some("deploy 4711"));
        assert_eq!(
            reason_of("überlastet".as_bytes()).as_deref(),
            Some("überlastet")
        );
        assert_eq!(reason_of(b"\xff"), None);
        assert_eq!(reason_of(b"  "), None);
        assert_eq!(reason(Some("value=UP&reason=a+b")).as_deref(), Some("a b"));
        assert_eq!(reason(Some("reason=&value=UP")), None);
        assert_eq!(reason(None), None);
    }

    #[test]
    fn long_headers_are_cut_at_a_character() {
        let long = "é".repeat(200);
        assert_eq!(Actor::cut(&long).len(), 256);
        assert_eq!(&*Actor::cut("short"), "short");
    }
}
