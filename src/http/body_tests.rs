//! Bodies that come in pieces, or not at all, and the memory that they take meanwhile.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Frame, SizeHint};
use hyper::header::HeaderValue;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;

pub(in crate::http) const REGISTRATION: usize = 1 << 20;
pub(in crate::http) const BATCH: usize = 10 << 20;

pub(in crate::http) type Piece = Result<Bytes, &'static str>;

/// A body whose pieces are sent by hand.
struct Pieces(mpsc::Receiver<Piece>, Option<usize>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        match self.1 {
            Some(length) => SizeHint::with_exact(length as u64),
            None => SizeHint::default(),
        }
    }
}

/// A body that stays open, of which so many bytes come, and which may say how many there will be.
pub(in crate::http) fn open(bytes: usize, announced: Option<usize>) -> (mpsc::Sender<Piece>, Body) {
    let (sender, receiver) = mpsc::channel(1 + bytes / (16 << 10));
    for piece in vec![b' '; bytes].chunks(16 << 10) {
        sender.try_send(Ok(Bytes::copy_from_slice(piece))).unwrap();
    }
    (sender, Body::new(Pieces(receiver, announced)))
}

/// A body that has come, without a length.
pub(in crate::http) fn chunked(bytes: usize) -> Body {
    open(bytes, None).1
}

pub(in crate::http) fn reader(kib: [usize; 3]) -> BodyReader {
    BodyReader {
        timeout: Duration::from_secs(30),
        accept_gzip: true,
        budget: Budget::of(kib),
        decoding: Decoding::default(),
    }
}

/// Kibibytes that nobody has.
pub(in crate::http) fn free(reader: &BodyReader) -> [usize; 3] {
    reader.budget.free_kib()
}

pub(in crate::http) type Reading = JoinHandle<Result<ReadBody, BodyRefused>>;

/// Reads a body until nothing more comes of it.
pub(in crate::http) async fn begin(reader: &BodyReader, body: Body, limit: usize) -> Reading {
    let reader = reader.clone();
    let reading = tokio::spawn(async move { reader.read(&HeaderMap::new(), body, limit).await });
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    reading
}

pub(in crate::http) async fn length(
    reader: &BodyReader,
    body: Body,
    limit: usize,
) -> Result<usize, StatusCode> {
    let read = reader.read(&HeaderMap::new(), body, limit).await;
    read.map(|read| read.bytes.len())
        .map_err(|refused| refused.0)
}

pub(in crate::http) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(in crate::http) async fn unzipped(
    reader: &BodyReader,
    packed: Vec<u8>,
    limit: usize,
) -> Result<ReadBody, BodyRefused> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    reader.read(&headers, Body::from(packed), limit).await
}

#[tokio::test(start_paused = true)]
async fn bodies_that_trickle_or_are_only_announced_keep_nobody_out() {
    let reader = reader([32 << 10, 32 << 10, 96 << 10]);
    let mut trickling = Vec::new();
    for (limit, announced) in [
        (BATCH, None),
        (REGISTRATION, None),
        (BATCH, Some(BATCH)),
        (REGISTRATION, Some(REGISTRATION)),
    ] {
        for _ in 0..2048 {
            let (sender, body) = open(1, announced);
            trickling.push((sender, begin(&reader, body, limit).await));
        }
    }
    assert_eq!(length(&reader, chunked(3 << 20), BATCH).await, Ok(3 << 20));
    let registration = length(&reader, chunked(500 << 10), REGISTRATION).await;
    assert_eq!(registration, Ok(500 << 10));
    for (sender, reading) in trickling {
        drop(sender);
        assert_eq!(reading.await.unwrap().unwrap().bytes.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_hold_memory_and_wait_for_more_are_refused_in_the_end() {
    let reader = reader([1 << 10, 1 << 10, 8 << 10]);
    let all = free(&reader);
    // Each gets a part, and none of them as much as it needs.
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let (sender, body) = open(5 << 20, None);
        waiting.push((sender, begin(&reader, body, BATCH).await));
    }
    let mut refused = 0;
    for (sender, reading) in waiting {
        drop(sender);
        match reading.await.unwrap() {
            Ok(read) => assert_eq!(read.bytes.len(), 5 << 20),
            Err(why) => {
                assert_eq!(why, BodyRefused(StatusCode::SERVICE_UNAVAILABLE));
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    assert_eq!(free(&reader), all);
    assert_eq!(length(&reader, chunked(5 << 20), BATCH).await, Ok(5 << 20));
}

#[tokio::test(start_paused = true)]
async fn what_a_body_takes_follows_what_has_come_and_goes_with_it() {
    let reader = reader([32 << 10, 32 << 10, 96 << 10]);
    let all = free(&reader);
    for (bytes, of) in [
        (1, [1..=2, 0..=0, 0..=0]),
        (9 << 10, [9..=16, 0..=0, 0..=0]),
        (300 << 10, [0..=0, 300..=600, 0..=0]),
        (1 << 20, [0..=0, 1024..=1024, 0..=0]),
        (3 << 20, [0..=0, 0..=0, 3072..=6144]),
    ] {
        for end in ["broken off", "failed", "out of time", "complete"] {
            let (sender, body) = open(bytes, None);
            let reading = begin(&reader, body, BATCH).await;
            let left = free(&reader);
            for place in 0..3 {
                let taken = all[place] - left[place];
                assert!(of[place].contains(&taken), "{bytes} {left:?}");
            }
            match end {
                "broken off" => {
                    reading.abort();
                    assert!(reading.await.is_err());
                }
                "failed" => {
                    sender.send(Err("reset")).await.unwrap();
                    let refused = reading.await.unwrap().unwrap_err();
                    assert_eq!(refused.0, StatusCode::BAD_REQUEST);
                }
                "out of time" => {
                    let refused = reading.await.unwrap().unwrap_err();
                    assert_eq!(refused.0, StatusCode::REQUEST_TIMEOUT);
                }
                _ => {
                    drop(sender);
                    let read = reading.await.unwrap().unwrap();
                    assert_eq!(read.bytes.len(), bytes);
                    assert_ne!(free(&reader), all, "as long as it is there");
                }
            }
            assert_eq!(free(&reader), all, "{bytes} {end}");
        }
    }
}

#[tokio::test]
async fn packed_bodies_take_what_they_unpack_to() {
    let reader = reader([32 << 10, 32 << 10, 96 << 10]);
    let all = free(&reader);
    for bytes in [0, 1, 64 << 10, 200 << 10, 3 << 20, BATCH] {
        let text: Vec<u8> = (0..=255).cycle().take(bytes).collect();
        let packed = gzip(&text);
        let read = unzipped(&reader, packed.clone(), BATCH).await.unwrap();
        assert!(read.bytes == text, "{bytes}");
        let left = free(&reader);
        let taken = all.iter().sum::<usize>() - left.iter().sum::<usize>();
        assert!(taken >= bytes >> 10, "{bytes}: {taken} KiB");
        let both = (bytes + packed.len()) >> 10;
        assert!(taken <= 2 * both + 65, "{bytes}: {taken} KiB");
        drop(read);
        assert_eq!(free(&reader), all, "{bytes}");
    }
    let bomb = gzip(&vec![b' '; 1 << 20]).repeat(100);
    let refused = unzipped(&reader, bomb, BATCH).await.unwrap_err();
    assert_eq!(refused.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(free(&reader), all);
}

#[tokio::test]
async fn the_limit_counts_before_and_after_unpacking() {
    let reader = reader([32 << 10, 32 << 10, 96 << 10]);
    let exactly = length(&reader, chunked(REGISTRATION), REGISTRATION).await;
    assert_eq!(exactly, Ok(REGISTRATION));
    let more = length(&reader, chunked(REGISTRATION + 1), REGISTRATION).await;
    assert_eq!(more, Err(StatusCode::PAYLOAD_TOO_LARGE));
    let unpacked = |bytes: usize| unzipped(&reader, gzip(&vec![b' '; bytes]), REGISTRATION);
    assert!(unpacked(REGISTRATION).await.is_ok());
    let more = unpacked(REGISTRATION + 1).await.unwrap_err();
    assert_eq!(more.0, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn large_bodies_leave_room_for_small_ones_and_none_is_too_large_to_be_read_alone() {
    let reader = reader([1 << 10, 4 << 10, 20 << 10]);
    let all = free(&reader);
    let reading = begin(&reader, chunked(20 << 20), 1 << 30).await;
    let first = reading.await.unwrap().unwrap();
    assert_eq!(free(&reader), [all[0], all[1], 0]);
    assert_eq!(
        length(&reader, chunked(1 << 20), REGISTRATION).await,
        Ok(1 << 20)
    );
    drop(first);
    assert_eq!(
        length(&reader, chunked(40 << 20), 1 << 30).await,
        Ok(40 << 20)
    );
    assert_eq!(free(&reader), all);
}

#[tokio::test]
async fn long_bodies_are_read_on_threads_of_their_own_and_short_ones_on_the_spot() {
    let decoding = Decoding::default();
    let here = std::thread::current().id();
    let thread = |bytes| decoding.of(bytes, || std::thread::current().id());
    assert_eq!(thread(64 << 10).await, Some(here));
    assert!(thread((64 << 10) + 1).await.is_some_and(|id| id != here));
}
