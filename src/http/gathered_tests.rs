//! Pieces put together, and taken apart again wherever a write ends.

use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::HeaderMap;

use super::*;

type Said = Result<Frame<Bytes>, &'static str>;

/// A body of what it is to say.
struct Says(VecDeque<Said>);

impl http_body::Body for Says {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Said>> {
        Poll::Ready(self.0.pop_front())
    }
}

fn pieces(count: usize, len: usize) -> Vec<Bytes> {
    let piece = |place: usize| Bytes::from(format!("{place:0len$}"));
    (0..count).map(piece).collect()
}

fn body(pieces: &[Bytes], and_then: Option<Said>, says_length: bool) -> Gathered {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let said = pieces.iter().cloned().map(|piece| Ok(Frame::data(piece)));
    let mut answer = Response::new(Body::new(Says(said.chain(and_then).collect())));
    if says_length {
        answer.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    Gathered::of(answer).into_body()
}

/// The slices of each of the buffers that come of it, and what comes after them.
async fn buffers(mut body: Gathered) -> (Vec<Vec<Bytes>>, Option<Result<HeaderMap, axum::Error>>) {
    let mut buffers = Vec::new();
    while let Some(frame) = body.frame().await {
        assert!(!body.is_end_stream());
        match frame.map(Frame::into_data) {
            Ok(Ok(buffer)) => {
                let mut slices = [IoSlice::new(&[]); 64];
                let count = buffer.chunks_vectored(&mut slices);
                assert_eq!(count, 1 + buffer.rest.len());
                let sent: usize = slices.iter().map(|slice| slice.len()).sum();
                assert_eq!(sent, buffer.remaining());
                buffers.push(std::iter::once(buffer.first).chain(buffer.rest).collect());
            }
            Ok(Err(other)) => return (buffers, other.into_trailers().ok().map(Ok)),
            Err(error) => return (buffers, Some(Err(error))),
        }
    }
    (buffers, None)
}

#[tokio::test]
async fn small_pieces_go_together_and_are_not_copied() {
    let pieces = pieces(200, 100);
    let (buffers, _) = buffers(body(&pieces, None, true)).await;
    let lengths: Vec<usize> = buffers.iter().map(Vec::len).collect();
    assert_eq!(lengths, [63, 63, 63, 11]);
    let addresses = |pieces: &[Bytes]| -> Vec<_> { pieces.iter().map(|p| p.as_ptr()).collect() };
    assert_eq!(addresses(&buffers.concat()), addresses(&pieces));
}

#[tokio::test]
async fn a_few_large_pieces_are_enough() {
    let (buffers, _) = buffers(body(&pieces(5, 50_000), None, true)).await;
    let lengths: Vec<usize> = buffers.iter().map(Vec::len).collect();
    assert_eq!(lengths, [3, 2]);
}

#[tokio::test]
async fn what_is_made_while_it_is_read_goes_a_piece_at_a_time() {
    let (buffers, _) = buffers(body(&pieces(5, 10), None, false)).await;
    assert_eq!(buffers.len(), 5);
}

#[tokio::test]
async fn trailers_and_failures_come_after_the_pieces_before_them() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", hyper::header::HeaderValue::from_static("yes"));
    let pieces = pieces(3, 10);
    let and_then = Some(Ok(Frame::trailers(trailers.clone())));
    let (before, last) = buffers(body(&pieces, and_then, true)).await;
    assert_eq!(before.concat(), pieces);
    assert_eq!(last.unwrap().unwrap(), trailers);

    let (before, last) = buffers(body(&pieces, Some(Err("broken")), true)).await;
    assert_eq!(before.concat(), pieces);
    assert_eq!(last.unwrap().unwrap_err().to_string(), "broken");
}

#[tokio::test]
async fn a_buffer_is_left_wherever_a_write_ends() {
    let parts =
        ["", "first", "", "x", "the third", ""].map(|part| Bytes::from_static(part.as_bytes()));
    let whole = parts.concat();
    for step in 1..=whole.len() {
        let mut buffer = body(&parts, None, true).frame().await.unwrap().unwrap();
        let buffer = buffer.data_mut().unwrap();
        let mut sent = Vec::new();
        while buffer.has_remaining() {
            assert!(!buffer.chunk().is_empty());
            assert_eq!(buffer.remaining(), whole.len() - sent.len());
            let count = step.min(buffer.remaining());
            let mut slices = [IoSlice::new(&[]); 8];
            let filled = buffer.chunks_vectored(&mut slices);
            let all: Vec<u8> = slices[..filled]
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            sent.extend_from_slice(&all[..count]);
            buffer.advance(count);
        }
        assert_eq!(sent, whole, "{step}");
        assert!(buffer.chunk().is_empty());
        assert_eq!(buffer.chunks_vectored(&mut [IoSlice::new(&[])]), 0);
    }
}
