//! The body of a request within its bounds: its length, the time that it takes to come, and the memory
//! that all bodies take together ([`Budget`]).
//!
//! A body is charged for what has come of it, not for what it may become: who says that much will follow,
//! or does not say how much (chunked, as Java clients and peers send), and then sends little, keeps nobody
//! else out. It begins with a small share and takes more, twice as much each time, before it goes on
//! reading; a compressed one goes on so while it is unpacked. Hence bodies may hold memory and wait for
//! more, each for the others. Nobody waits for longer than the time that a body may take: the one that
//! has waited for the longest is refused then, and what it held is the others'.

use std::io::Read;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use hyper::header::CONTENT_ENCODING;
use hyper::{HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::request::text;

/// Reads bodies within bounds.
#[derive(Clone, Debug)]
pub(super) struct BodyReader {
    /// How long a body may take to come, with what it waits for memory.
    pub timeout: Duration,
    pub accept_gzip: bool,
    /// Memory that bodies in flight may take together.
    pub budget: Budget,
    pub decoding: Decoding,
}

/// Memory for bodies. Small ones have a pool of their own, so that a flood of large ones does not hold up
/// registrations and real batches. What becomes large moves from the one to the other.
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
    /// What a body begins with, bytes: most registrations, and little enough that as many connections as
    /// there may be (8192 unless configured) leave half of the pool free if they send no more.
    const FIRST: usize = 2 << 10;

    pub(super) fn of(small_kib: usize, large_kib: usize) -> Self {
        Self {
            small: Pool::of(small_kib),
            large: Pool::of(large_kib),
        }
    }

    /// Where a body of so many bytes has its share, and how many kibibytes that is. One that is longer than
    /// all of it, as the configuration may allow, is read when no other is.
    fn of_body(&self, bytes: usize) -> (&Arc<Semaphore>, usize) {
        let Pool(pool, all) = if bytes <= Self::SMALL_MAX {
            &self.small
        } else {
            &self.large
        };
        (pool, bytes.div_ceil(1024).clamp(1, *all))
    }
}

/// What one body has of the [`Budget`]; given back when it is dropped.
#[derive(Debug)]
struct Share {
    budget: Budget,
    /// When the wait for more is over.
    deadline: Instant,
    /// Bytes that it is good for.
    bytes: usize,
    held: OwnedSemaphorePermit,
}

impl Share {
    /// # Errors
    /// 503 if there is not that much until `deadline`.
    async fn of(budget: &Budget, deadline: Instant, bytes: usize) -> Result<Self, BodyRefused> {
        let (pool, kib) = budget.of_body(bytes);
        Ok(Self {
            budget: budget.clone(),
            deadline,
            bytes,
            held: acquire(pool, kib, deadline).await?,
        })
    }

    /// Makes it good for so many bytes. What moves to the other pool keeps what it has until it has all of
    /// it there.
    ///
    /// # Errors
    /// 503 if there is not that much in time.
    async fn grow(&mut self, bytes: usize) -> Result<(), BodyRefused> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let (pool, kib) = self.budget.of_body(bytes);
        if Arc::ptr_eq(pool, self.held.semaphore()) {
            let more = kib.saturating_sub(self.held.num_permits());
            self.held.merge(acquire(pool, more, self.deadline).await?);
        } else {
            self.held = acquire(pool, kib, self.deadline).await?;
        }
        self.bytes = bytes;
        Ok(())
    }
}

async fn acquire(
    pool: &Arc<Semaphore>,
    kib: usize,
    deadline: Instant,
) -> Result<OwnedSemaphorePermit, BodyRefused> {
    let kib = u32::try_from(kib).unwrap_or(u32::MAX);
    let wait = pool.clone().acquire_many_owned(kib);
    match tokio::time::timeout_at(deadline, wait).await {
        Ok(Ok(held)) => Ok(held),
        Ok(Err(_)) | Err(_) => Err(BodyRefused(StatusCode::SERVICE_UNAVAILABLE)),
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
    _share: Share,
}

impl BodyReader {
    /// For bodies of our own kind, which are in gzip where they are long, whatever is accepted of others.
    pub(super) fn of_our_kind(&self) -> Self {
        Self {
            accept_gzip: true,
            ..self.clone()
        }
    }

    /// The whole body, at most `limit` bytes of it, before and after decompression.
    ///
    /// # Errors
    /// 413 if it is larger, 408 if it does not come in time, 400 if it is cut off or not what its
    /// encoding says, 503 if other bodies have the memory that it needs.
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
        let most = match http_body::Body::size_hint(&body).exact() {
            Some(length) if length > limit as u64 => {
                return Err(BodyRefused(StatusCode::PAYLOAD_TOO_LARGE));
            }
            Some(length) => usize::try_from(length).unwrap_or(limit),
            None => limit,
        };
        let deadline = Instant::now() + self.timeout;
        let mut share = Share::of(&self.budget, deadline, most.min(Budget::FIRST)).await?;
        let received = receive(body, most, limit, &mut share).await?;
        let bytes = if is_gzip {
            self.unzip(received, limit, &mut share).await?
        } else {
            received
        };
        Ok(ReadBody {
            bytes: bytes.into(),
            _share: share,
        })
    }

    /// Unpacks in rounds, each of them as far as the share is good for.
    async fn unzip(
        &self,
        packed: Vec<u8>,
        limit: usize,
        share: &mut Share,
    ) -> Result<Vec<u8>, BodyRefused> {
        let packed_len = packed.len();
        let mut unzip = Unzip::new(packed);
        let mut room = Unzip::FIRST;
        loop {
            // The byte beyond the limit tells that there is more.
            let until = room.min(limit + 1);
            let bytes = packed_len + until;
            share.grow(bytes).await?;
            let round = self.decoding.of(bytes, move || unzip.until(until)).await;
            unzip = round.unwrap_or(Err(BodyRefused(StatusCode::BAD_REQUEST)))?;
            if unzip.text.len() < until {
                return Ok(unzip.text);
            }
            if until > limit {
                return Err(BodyRefused(StatusCode::PAYLOAD_TOO_LARGE));
            }
            room = room.saturating_mul(2);
        }
    }
}

/// The body as it comes: at most `limit` bytes, probably no more than `most`.
async fn receive(
    mut body: Body,
    most: usize,
    limit: usize,
    share: &mut Share,
) -> Result<Vec<u8>, BodyRefused> {
    let mut received = Vec::new();
    loop {
        let frame = tokio::time::timeout_at(share.deadline, body.frame())
            .await
            .map_err(|_| BodyRefused(StatusCode::REQUEST_TIMEOUT))?;
        let Some(frame) = frame else {
            return Ok(received);
        };
        let frame = frame.map_err(|_| BodyRefused(StatusCode::BAD_REQUEST))?;
        // Trailers mean nothing here.
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        let length = received.len() + piece.len();
        if length > limit {
            return Err(BodyRefused(StatusCode::PAYLOAD_TOO_LARGE));
        }
        if length > share.bytes {
            let twice = share.bytes.saturating_mul(2).min(most);
            share.grow(length.max(twice)).await?;
        }
        received.extend_from_slice(&piece);
    }
}

/// A compressed body on its way to what it says.
struct Unzip {
    from: MultiGzDecoder<Reader<Bytes>>,
    text: Vec<u8>,
}

impl Unzip {
    /// Room of the first round, bytes.
    const FIRST: usize = 64 << 10;

    fn new(packed: Vec<u8>) -> Self {
        Self {
            from: MultiGzDecoder::new(Bytes::from(packed).reader()),
            text: Vec::new(),
        }
    }

    /// Goes on until there are so many bytes; fewer if that is all.
    fn until(mut self, bytes: usize) -> Result<Self, BodyRefused> {
        let room = bytes.saturating_sub(self.text.len());
        (&mut self.from)
            .take(room as u64)
            .read_to_end(&mut self.text)
            .map_err(|_| BodyRefused(StatusCode::BAD_REQUEST))?;
        Ok(self)
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
