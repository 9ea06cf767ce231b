//! The pieces of an answer, as many at a time as the system takes in one call.
//!
//! A whole registry is sent as a rope of a thousand small pieces. hyper holds sixteen buffers at most
//! before it writes, however short they are, and a call of the system for every sixteen cost as much as
//! all else that an answer takes. Here several pieces are one buffer; none of them is copied.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use hyper::Response;
use hyper::header::CONTENT_LENGTH;

use super::answer::Answer;

/// Pieces in one buffer: hyper writes 64 at once, of which the first may be the head.
const PIECES_MAX: usize = 63;
/// Enough for one buffer, bytes, so that one of large pieces keeps few of them.
const BYTES_ENOUGH: usize = 128 << 10;

type Polled<T> = Poll<Option<Result<Frame<T>, axum::Error>>>;

/// A body that gathers its pieces.
#[derive(Debug)]
pub(super) struct Gathered {
    body: Body,
    /// What says no length is made while it is read: it goes a piece at a time, so that no more of it is
    /// made than is sent.
    is_whole: bool,
    /// What came after the last pieces and is not one: trailers, or a failure.
    held: Option<Result<Frame<Bytes>, axum::Error>>,
}

impl Gathered {
    /// An answer whose pieces go together, if it says how long it is.
    pub(super) fn of(answer: Answer) -> Response<Self> {
        let is_whole = answer.headers().contains_key(CONTENT_LENGTH);
        answer.map(|body| Self {
            body,
            is_whole,
            held: None,
        })
    }

    fn poll_inner(&mut self, context: &mut Context<'_>) -> Polled<Bytes> {
        match self.held.take() {
            Some(held) => Poll::Ready(Some(held)),
            None => http_body::Body::poll_frame(Pin::new(&mut self.body), context),
        }
    }

    /// Puts together with `first` what is there already and fits.
    fn gather(&mut self, first: Bytes, context: &mut Context<'_>) -> Pieces {
        let mut pieces = Pieces::from(first);
        while self.is_whole
            && pieces.rest.len() + 1 < PIECES_MAX
            && pieces.left < BYTES_ENOUGH
            && self.held.is_none()
            && !http_body::Body::is_end_stream(&self.body)
        {
            // One that is at its end, or has nothing yet, says so again when it is asked next.
            let Poll::Ready(Some(next)) = self.poll_inner(context) else {
                break;
            };
            match next.map(Frame::into_data) {
                Ok(Ok(piece)) => pieces.push(piece),
                Ok(Err(other)) => self.held = Some(Ok(other)),
                Err(error) => self.held = Some(Err(error)),
            }
        }
        pieces
    }
}

impl http_body::Body for Gathered {
    type Data = Pieces;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled<Pieces> {
        let next = ready!(self.poll_inner(context));
        Poll::Ready(
            next.map(|next| next.map(|frame| frame.map_data(|first| self.gather(first, context)))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && http_body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        http_body::Body::size_hint(&self.body)
    }
}

/// Shared pieces, one after the other.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Empty only if nothing is left.
    first: Bytes,
    rest: VecDeque<Bytes>,
    left: usize,
}

impl From<Bytes> for Pieces {
    fn from(first: Bytes) -> Self {
        Self {
            left: first.len(),
            first,
            rest: VecDeque::new(),
        }
    }
}

impl Pieces {
    fn push(&mut self, piece: Bytes) {
        self.left += piece.len();
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            if self.rest.is_empty() {
                self.rest.reserve_exact(PIECES_MAX - 1);
            }
            self.rest.push_back(piece);
        }
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        if self.left == 0 {
            return 0;
        }
        let pieces = std::iter::once(&self.first).chain(&self.rest);
        let filled = slices.iter_mut().zip(pieces);
        filled
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    fn advance(&mut self, count: usize) {
        self.left -= count;
        let mut count = count;
        while count >= self.first.len() {
            count -= self.first.len();
            self.first = match self.rest.pop_front() {
                Some(next) => next,
                None => return self.first.clear(),
            };
        }
        self.first.advance(count);
    }
}

#[cfg(test)]
#[path = "gathered_tests.rs"]
mod tests;
