//! What handlers need of a request: headers as text, the query, the body within its bounds, and who
//! is asking.

use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::{CONTENT_ENCODING, HeaderName, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::registry::change::{Actor, Origin};
use crate::replication::transport::NODE;

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

/// Where a change comes from.
pub(super) fn origin(
    headers: &HeaderMap,
    is_replication: bool,
    address: IpAddr,
    otherwise: Origin,
) -> Origin {
    if is_replication {
        let identity = text(headers, &IDENTITY_ID).filter(|id| !id.is_empty());
        Origin::Peer(identity.map_or_else(|| address.to_string().into(), cut))
    } else {
        otherwise
    }
}

/// Who asks, for the history.
pub(super) fn actor(headers: &HeaderMap, address: IpAddr) -> Actor {
    Actor {
        principal: None,
        address: Some(address.to_string().into()),
        user_agent: text(headers, &USER_AGENT).map(cut),
        reason: headers
            .get(&X_REASON)
            .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
            .map(str::trim)
            .filter(|reason| !reason.is_empty())
            .map(cut),
    }
}

/// The reason that the query gives (`?reason=`), for requests whose parameters do not mean anything
/// else.
pub(super) fn reason(query: Option<&str>) -> Option<Arc<str>> {
    let reason = parameter(query, "reason")?;
    Some(cut(reason.trim())).filter(|reason| !reason.is_empty())
}

/// A header's text, not longer than a record keeps.
fn cut(text: &str) -> Arc<str> {
    let mut end = text.len().min(Actor::TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
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

/// Reads bodies within bounds.
#[derive(Clone, Debug)]
pub(super) struct BodyReader {
    pub timeout: Duration,
    pub accept_gzip: bool,
    /// Kibibytes that all bodies in flight may take together.
    pub budget: Arc<Semaphore>,
}

/// A body that could not be read, and the status that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyRefused(pub StatusCode);

/// A body, and its share of the memory that bodies may take; dropped when the request is done.
#[derive(Debug)]
pub(super) struct ReadBody {
    pub bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

impl BodyReader {
    /// The whole body, at most `limit` bytes of it, before and after decompression.
    ///
    /// # Errors
    /// 413 if it is larger, 408 if it does not come in time, 400 if it is cut off or not what its
    /// encoding says, 503 if too many bodies are in flight.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        limit: usize,
    ) -> Result<ReadBody, BodyRefused> {
        let encoding = text(headers, &CONTENT_ENCODING)
            .map(str::trim)
            .unwrap_or_default();
        let is_gzip = match encoding.to_ascii_lowercase().as_str() {
            "" | "identity" => false,
            "gzip" | "x-gzip" if self.accept_gzip => true,
            // The original hands compressed bytes to its parsers, which refuse them.
            _ if !self.accept_gzip => false,
            _ => return Err(BodyRefused(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
        };
        let announced = http_body::Body::size_hint(&body).exact();
        let expected = match announced {
            Some(length) if length > limit as u64 => {
                return Err(BodyRefused(StatusCode::PAYLOAD_TOO_LARGE));
            }
            Some(length) if !is_gzip => usize::try_from(length).unwrap_or(limit),
            _ => limit,
        };
        let share = self.share(expected).await?;
        let collected = tokio::time::timeout(self.timeout, Limited::new(body, limit).collect())
            .await
            .map_err(|_| BodyRefused(StatusCode::REQUEST_TIMEOUT))?
            .map_err(|error| {
                BodyRefused(if error.is::<LengthLimitError>() {
                    StatusCode::PAYLOAD_TOO_LARGE
                } else {
                    StatusCode::BAD_REQUEST
                })
            })?
            .to_bytes();
        let bytes = if is_gzip {
            unzip(&collected, limit)?
        } else {
            collected
        };
        Ok(ReadBody {
            bytes,
            _share: share,
        })
    }

    async fn share(&self, bytes: usize) -> Result<OwnedSemaphorePermit, BodyRefused> {
        let kibibytes = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let wait = self.budget.clone().acquire_many_owned(kibibytes);
        match tokio::time::timeout(self.timeout, wait).await {
            Ok(Ok(share)) => Ok(share),
            Ok(Err(_)) | Err(_) => Err(BodyRefused(StatusCode::SERVICE_UNAVAILABLE)),
        }
    }
}

fn unzip(packed: &[u8], limit: usize) -> Result<Bytes, BodyRefused> {
    let mut text = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(packed).take(limit as u64 + 1);
    decoder
        .read_to_end(&mut text)
        .map_err(|_| BodyRefused(StatusCode::BAD_REQUEST))?;
    if text.len() > limit {
        return Err(BodyRefused(StatusCode::PAYLOAD_TOO_LARGE));
    }
    Ok(text.into())
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
        assert_eq!(cut(&long).len(), 256);
        assert_eq!(&*cut("short"), "short");
    }
}
