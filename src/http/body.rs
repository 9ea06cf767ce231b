//! The body of a request within its bounds.

use std::io::Read;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::CONTENT_ENCODING;
use hyper::{HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::request::text;

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
}
