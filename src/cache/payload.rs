//! An encoded answer as a rope: shared pieces that are sent one after the other without ever being
//! copied together.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::Entity;
use crate::changelog::Published;
use crate::types::Lsn;

/// The position that an answer shows: of the log, and of the delta window's trims. Older than the
/// state's version of the same entity means stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    lsn: Lsn,
    trims: u64,
}

impl Version {
    /// That of a list as of a position of the log.
    pub(super) fn at(lsn: Lsn) -> Self {
        Self { lsn, trims: 0 }
    }

    /// The version of an entity in `state`; `None` if it is not there. Unknown vips are answered
    /// with an empty list, not with 404, but that is no reason to cache them.
    pub fn of(entity: &Entity, state: &Published) -> Option<Self> {
        let registry = &state.registry;
        let lsn = match entity {
            Entity::All => registry.visible_lsn(),
            Entity::Delta => {
                let trims = state.delta.generation();
                return Some(Self {
                    lsn: registry.visible_lsn(),
                    trims,
                });
            }
            Entity::App(name) => registry.app(name.as_str())?.lsn(),
            Entity::Vip(address) => registry.vip(address, false)?.0,
            Entity::SecureVip(address) => registry.vip(address, true)?.0,
        };
        Some(Self { lsn, trims: 0 })
    }
}

/// An encoded answer.
#[derive(Debug)]
pub struct Payload {
    version: Version,
    pieces: Vec<Bytes>,
    len: u64,
    /// Bytes that no fragment accounts for.
    own_bytes: usize,
}

impl Payload {
    /// `own_bytes`: how much of it is not shared with a cached fragment.
    pub(super) fn new(version: Version, pieces: Vec<Bytes>, own_bytes: usize) -> Self {
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        let own_bytes = own_bytes + pieces.len() * size_of::<Bytes>();
        Self {
            version,
            pieces,
            len,
            own_bytes,
        }
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// Length of the body, bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// The whole body in one piece; for tests and tools.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

/// A payload on its way to a client.
#[derive(Debug)]
pub struct Body {
    payload: Arc<Payload>,
    next: usize,
    left: u64,
}

impl Body {
    pub fn new(payload: Arc<Payload>) -> Self {
        let left = payload.len;
        Self {
            payload,
            next: 0,
            left,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.payload.pieces.get(self.next).cloned() else {
            return Poll::Ready(None);
        };
        self.next += 1;
        self.left = self.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.payload.pieces.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
