//! What handlers need of a request: headers as text, the query, the body within its bounds, and who
//! is asking.

use std::io::Read;
use std::net::IpAddr;
use std::num::NonZero;
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
use crate::replication::transport::{Identity, NODE};

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
    /// Memory that bodies in flight may take together.
    pub budget: Budget,
    pub decoding: Decoding,
}

/// Memory for bodies. Small ones have a share of their own, so that a flood of large ones, or of
/// announcements of them, does not hold up registrations and real batches.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    small: Pool,
    large: Pool,
}

/// Kibibytes, and how many they are in all.
#[derive(Clone, Debug)]
struct Pool(Arc<Semaphore>, usize);

impl Pool {
    fn of(kib: usize) -> Self {
        Self(Arc::new(Semaphore::new(kib)), kib)
    }
}

impl Budget {
    /// Longest body that is small, bytes: more than 250 registrations of some size come to.
    const SMALL_MAX: usize = 1 << 20;

    pub(super) fn of(small_kib: usize, large_kib: usize) -> Self {
        Self {
            small: Pool::of(small_kib),
            large: Pool::of(large_kib),
        }
    }

    /// Where a body of so many bytes is to ask, and for how many kibibytes. One that is longer than all
    /// of it, as the configuration may allow, is read when no other is.
    fn of_body(&self, bytes: usize) -> (Arc<Semaphore>, u32) {
        let Pool(pool, all) = if bytes <= Self::SMALL_MAX {
            &self.small
        } else {
            &self.large
        };
        let kibibytes = (bytes / 1024 + 1).min(*all);
        (pool.clone(), u32::try_from(kibibytes).unwrap_or(u32::MAX))
    }
}

/// Reads what has been received, on a thread that may take its time if it is long: the threads that
/// answer requests are few.
#[derive(Clone, Debug)]
pub(super) struct Decoding(Arc<Semaphore>);

impl Default for Decoding {
    /// As many at a time as there are processors, but for one: a flood of long bodies is not to take the
    /// time of everything else.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new((processors - 1).max(1))))
    }
}

impl Decoding {
    /// Longest body that is read on the spot, bytes.
    const SHORT_MAX: usize = 64 << 10;

    /// What `decode` makes of a body of so many bytes; `None` if that ended in a panic.
    pub(super) async fn of<T: Send + 'static>(
        &self,
        bytes: usize,
        decode: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if bytes <= Self::SHORT_MAX {
            return Some(decode());
        }
        // Never closed.
        let _place = self.0.acquire().await.ok()?;
        tokio::task::spawn_blocking(decode).await.ok()
    }
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
            // However short it is, it may become as long as the limit.
            let unzipped = self
                .decoding
                .of(limit, move || unzip(&collected, limit))
                .await;
            unzipped.unwrap_or(Err(BodyRefused(StatusCode::BAD_REQUEST)))?
        } else {
            collected
        };
        Ok(ReadBody {
            bytes,
            _share: share,
        })
    }

    async fn share(&self, bytes: usize) -> Result<OwnedSemaphorePermit, BodyRefused> {
        let (pool, kibibytes) = self.budget.of_body(bytes);
        let wait = pool.acquire_many_owned(kibibytes);
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

    #[tokio::test]
    async fn large_bodies_leave_room_for_small_ones_and_none_is_too_large_to_be_read_alone() {
        let budget = Budget::of(4 << 10, 20 << 10);
        let mut held = Vec::new();
        for bytes in [10 << 20, 1 << 30] {
            let (pool, kibibytes) = budget.of_body(bytes);
            held.extend(pool.try_acquire_many_owned(kibibytes).ok());
            let (pool, kibibytes) = budget.of_body(1 << 20);
            assert!(pool.try_acquire_many(kibibytes).is_ok(), "{bytes}");
        }
        assert_eq!(held.len(), 1, "the second has to wait");
        held.clear();
        let (pool, kibibytes) = budget.of_body(1 << 30);
        assert!(pool.try_acquire_many(kibibytes).is_ok());
    }

    #[tokio::test]
    async fn long_bodies_are_read_on_threads_of_their_own_and_short_ones_on_the_spot() {
        let decoding = Decoding::default();
        let here = std::thread::current().id();
        let thread = |bytes| decoding.of(bytes, || std::thread::current().id());
        assert_eq!(thread(64 << 10).await, Some(here));
        assert!(thread((64 << 10) + 1).await.is_some_and(|id| id != here));
    }

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
