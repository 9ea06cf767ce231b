//! The body of a request within its bounds: its length, the time that it takes to come, and the memory
//! that all bodies take together ([`Budget`]).
//!
//! A body is charged for what has come of it, not for what it may become: who says that much will follow,
//! or does not say how much (chunked, as Java clients and peers send), and then sends little, keeps nobody
//! else out. It begins with a small share and takes more, twice as much each time, before it goes on
//! reading; a compressed one goes on so while it is unpacked. Hence bodies may hold memory and wait for
//! more, each for the others: who gives way then is said in [`super::room`]. Nobody waits for longer than
//! the time that a body may take.

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
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::answer::{self, Answer};
use super::request::text;
use super::room::{Budget, NoRoom, Share};

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

impl BodyRefused {
    /// Without a body, as all of the protocol's errors.
    pub(super) fn answer(self) -> Answer {
        match self.0 {
            StatusCode::SERVICE_UNAVAILABLE => {
                answer::not_taken("other requests have the memory for bodies, or came faster")
            }
            status => answer::empty(status),
        }
    }
}

/// A try later, or at the next server, may find room: Java peers repeat a batch that gets this status.
impl From<NoRoom> for BodyRefused {
    fn from(_: NoRoom) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE)
    }
}

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
    /// encoding says, 503 if other bodies have the memory that it needs, or need the memory that it has
    /// and come faster.
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
        share.complete()?;
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
        let mut room = Unzip::first(packed_len);
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
        let frame = tokio::select! {
            biased;
            () = share.gives_way() => return Err(NoRoom.into()),
            frame = tokio::time::timeout_at(share.deadline(), body.frame()) => frame,
        };
        let frame = frame.map_err(|_| BodyRefused(StatusCode::REQUEST_TIMEOUT))?;
        let Some(frame) = frame else {
            return Ok(received);
        };
        let frame = frame.map_err(|_| BodyRefused(StatusCode::BAD_REQUEST))?;
        // Trailers mean nothing here.
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        share.count(piece.len());
        let length = received.len() + piece.len();
        if length > limit {
            return Err(BodyRefused(StatusCode::PAYLOAD_TOO_LARGE));
        }
        if length > share.bytes() {
            let twice = share.bytes().saturating_mul(2).min(most);
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
    /// Room of the first round, bytes: enough for most that is short, and little where it is very short,
    /// so that a registration in gzip takes as little as one that is not.
    fn first(packed: usize) -> usize {
        packed.saturating_mul(6).clamp(4 << 10, 64 << 10)
    }

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
pub(super) mod tests;
