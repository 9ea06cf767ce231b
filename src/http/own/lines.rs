//! A walk through the log as a body: a piece is read when the one before it has been taken, off the
//! threads that serve. Nothing is read for a client that takes nothing, and it ends with the client.

use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::HeaderMap;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::history::{COMPLETE, boolean, tell, write_line};
use crate::history::Walk;

/// A piece ends behind the entry with which it exceeds this, bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Records that are looked at for one piece.
const LOOKS: usize = 20_000;

/// Entries as lines of JSON.
#[derive(Debug)]
pub(super) struct Lines {
    state: State,
    is_complete: bool,
    /// The place among the streams that are under way.
    _place: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum State {
    Reading(JoinHandle<Piece>),
    /// All has been told but how complete it was.
    Told,
    Done,
}

/// What a job brings back: the walk with the entries that are left, and the lines.
type Piece = (Walk, usize, io::Result<Vec<u8>>);

impl Lines {
    /// `limit` entries at most; `is_complete` says whether all that is asked for was kept when the
    /// walk began.
    pub(super) fn new(
        walk: Walk,
        limit: usize,
        is_complete: bool,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            state: State::Reading(read(walk, limit)),
            is_complete,
            _place: place,
        }
    }
}

fn read(mut walk: Walk, mut left: usize) -> JoinHandle<Piece> {
    tokio::task::spawn_blocking(move || {
        let mut lines = Vec::new();
        let mut written = Ok(());
        let taken = walk.take(left, LOOKS, &mut |record, before| {
            left -= 1;
            written = write_line(&mut lines, &tell(record, before));
            if written.is_err() || lines.len() > PIECE_BYTES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let outcome = taken.map_err(io::Error::other).and(written).map(|()| lines);
        (walk, left, outcome)
    })
}

impl Body for Lines {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            match &mut self.state {
                State::Reading(job) => {
                    let piece = ready!(Pin::new(job).poll(context));
                    let (walk, left, outcome) = match piece {
                        Ok(piece) => piece,
                        Err(error) => return self.fail(io::Error::other(error)),
                    };
                    let lines = match outcome {
                        Ok(lines) => lines,
                        Err(error) => return self.fail(error),
                    };
                    self.is_complete &= !walk.has_missed();
                    self.state = if walk.next().is_some() && left > 0 {
                        State::Reading(read(walk, left))
                    } else {
                        State::Told
                    };
                    if !lines.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(lines.into()))));
                    }
                }
                State::Told => {
                    self.state = State::Done;
                    let mut trailers = HeaderMap::new();
                    trailers.insert(COMPLETE.clone(), boolean(self.is_complete));
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Done)
    }
}

impl Lines {
    /// Cuts the body off, so that nobody takes it for a whole one.
    fn fail(&mut self, error: io::Error) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.state = State::Done;
        Poll::Ready(Some(Err(error)))
    }
}
