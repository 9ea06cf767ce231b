//! One segment of the log: a sled tree `log-<first lsn, 20 digits>`.
//!
//! Key: LSN and part number, both big endian. Value: up to [`PART_BYTES`] of an enveloped record;
//! larger values would leave the database file. The log is cut into trees because dropping a tree
//! is several times cheaper than removing its rows, and leaves no holes.

use std::ops::ControlFlow;
use std::sync::{Mutex, RwLock, RwLockReadGuard};

use sled::{IVec, Tree};

use crate::store::db::{damaged, guarded};
use crate::store::v1::SegmentV1;
use crate::store::{SegmentFacts, StoreError};
use crate::types::{Lsn, Millis};

/// Largest value in the database, bytes.
pub(super) const PART_BYTES: usize = 4096;
/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 10;
const PREFIX: &str = "log-";

/// What a segment covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Covered {
    /// The newest record, [`Lsn::ZERO`] while there is none.
    pub(super) last: Lsn,
    pub(super) bytes: u64,
    pub(super) earliest: Millis,
    pub(super) latest: Millis,
}

impl Covered {
    pub(super) const NOTHING: Self = Self {
        last: Lsn::ZERO,
        bytes: 0,
        earliest: Millis(u64::MAX),
        latest: Millis::ZERO,
    };

    /// Counts a record in.
    pub(super) fn add(&mut self, lsn: Lsn, at: Millis, bytes: usize) {
        self.last = lsn;
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.earliest = self.earliest.min(at);
        self.latest = self.latest.max(at);
    }
}

/// A segment that is in use.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) first: Lsn,
    /// See [`SegmentV1::after`].
    pub(super) after: Lsn,
    /// See [`SegmentV1::base`].
    pub(super) base: Lsn,
    covered: Mutex<Covered>,
    /// `None` once the segment was dropped or the store closed. A tree that is dropped while it is
    /// read would send the reader in circles, so readers hold this lock.
    tree: RwLock<Option<Tree>>,
}

impl Segment {
    pub(super) fn new(first: Lsn, after: Lsn, base: Lsn, covered: Covered, tree: Tree) -> Self {
        Self {
            first,
            after,
            base,
            covered: Mutex::new(covered),
            tree: RwLock::new(Some(tree)),
        }
    }

    pub(super) fn covered(&self) -> Covered {
        *self.covered.lock().expect("holders of this lock only copy")
    }

    pub(super) fn set_covered(&self, covered: Covered) {
        *self.covered.lock().expect("holders of this lock only copy") = covered;
    }

    /// What goes into the `meta` tree; `is_closed` adds what the segment covers.
    pub(super) fn facts(&self, is_closed: bool) -> SegmentV1 {
        let covered = if is_closed {
            self.covered()
        } else {
            Covered::NOTHING
        };
        SegmentV1 {
            first: self.first.0,
            after: self.after.0,
            base: self.base.0,
            last: covered.last.0,
            bytes: covered.bytes,
            earliest: covered.earliest.0,
            latest: covered.latest.0,
        }
    }

    /// What readers are told of it.
    pub(super) fn told(&self) -> SegmentFacts {
        let covered = self.covered();
        SegmentFacts {
            first: self.first,
            last: covered.last,
            bytes: covered.bytes,
            earliest: covered.earliest,
            latest: covered.latest,
            after: self.after,
            base: self.base,
        }
    }

    /// The tree, kept from being dropped while the guard lives.
    pub(super) fn tree(&self) -> RwLockReadGuard<'_, Option<Tree>> {
        self.tree
            .read()
            .expect("holders of the write lock only take")
    }

    /// Waits for the readers and takes the tree away from later ones.
    pub(super) fn take_tree(&self) -> Option<Tree> {
        self.tree
            .write()
            .expect("holders of the write lock only take")
            .take()
    }
}

/// Name of the tree of the segment that begins with `first`.
pub(super) fn tree_name(first: Lsn) -> String {
    format!("{PREFIX}{:020}", first.0)
}

/// The first LSN of the segment with this tree name.
pub(super) fn parse_tree_name(name: &[u8]) -> Option<Lsn> {
    let digits = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok().map(Lsn))?
}

/// Key of a part of a record.
pub(super) fn key(lsn: Lsn, part: u16) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&lsn.0.to_be_bytes());
    key[8..].copy_from_slice(&part.to_be_bytes());
    key
}

fn parse_key(key: &[u8]) -> Option<(Lsn, u16)> {
    let (lsn, part) = key.split_first_chunk::<8>()?;
    Some((
        Lsn(u64::from_be_bytes(*lsn)),
        u16::from_be_bytes(part.try_into().ok()?),
    ))
}

/// Puts an encoded record into a batch and gives the bytes that it takes.
pub(super) fn insert(batch: &mut sled::Batch, lsn: Lsn, bytes: &[u8]) -> usize {
    let mut size = 0;
    for (part, value) in (0..=u16::MAX).zip(bytes.chunks(PART_BYTES)) {
        batch.insert(&key(lsn, part), value);
        size += KEY_BYTES + value.len();
    }
    size
}

/// The parts of a record while they are being collected.
enum Parts {
    One(IVec),
    Many(Vec<u8>),
}

/// Which way to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// Is handed a record, and says whether to go on.
pub(super) type Visit<'a> = dyn FnMut(Lsn, &[u8]) -> Result<ControlFlow<()>, StoreError> + 'a;

/// Hands the records of a tree from `low` to `high` (both included) to `visit`, whole and in order,
/// until it breaks.
///
/// # Errors
/// The database failed, a key is not one of ours, or a part is missing; the walk ends there, for
/// sled's iterator repeats an error for ever.
pub(super) fn walk(
    tree: &Tree,
    (low, high): (Lsn, Lsn),
    direction: Direction,
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>, StoreError> {
    if low > high {
        return Ok(ControlFlow::Continue(()));
    }
    let mut range = tree.range(key(low, 0)..=key(high, u16::MAX));
    let mut current: Option<(Lsn, u16, Parts)> = None;
    loop {
        let entry = guarded("read the log", || match direction {
            Direction::Up => range.next().transpose(),
            Direction::Down => range.next_back().transpose(),
        })?;
        let Some((key, value)) = entry else { break };
        let Some((lsn, part)) = parse_key(&key) else {
            return Err(damaged("the log", format!("a key of {} bytes", key.len())));
        };
        let is_new = current.as_ref().is_none_or(|(last, ..)| *last != lsn);
        if is_new
            && let Some((done, part, parts)) = current.take()
            && emit(done, part, parts, direction, visit)?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        current = Some(match current {
            None => (lsn, part, Parts::One(value)),
            Some((_, before, parts)) => {
                let expected = match direction {
                    Direction::Up => before.checked_add(1),
                    Direction::Down => before.checked_sub(1),
                };
                if expected != Some(part) {
                    return Err(missing_part(lsn));
                }
                (lsn, part, parts.join(&value, direction))
            }
        });
        // Going up, a record begins with its part 0; going down, `emit` sees to it.
        if is_new && direction == Direction::Up && part != 0 {
            return Err(missing_part(lsn));
        }
    }
    match current {
        Some((lsn, part, parts)) => emit(lsn, part, parts, direction, visit),
        None => Ok(ControlFlow::Continue(())),
    }
}

impl Parts {
    fn join(self, value: &[u8], direction: Direction) -> Self {
        let mut bytes = match self {
            Self::One(first) => first.to_vec(),
            Self::Many(bytes) => bytes,
        };
        match direction {
            Direction::Up => bytes.extend_from_slice(value),
            Direction::Down => {
                bytes.splice(0..0, value.iter().copied());
            }
        }
        Self::Many(bytes)
    }
}

fn emit(
    lsn: Lsn,
    part: u16,
    parts: Parts,
    direction: Direction,
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>, StoreError> {
    if direction == Direction::Down && part != 0 {
        return Err(missing_part(lsn));
    }
    match parts {
        Parts::One(value) => visit(lsn, &value),
        Parts::Many(bytes) => visit(lsn, &bytes),
    }
}

fn missing_part(lsn: Lsn) -> StoreError {
    damaged(format!("lsn {lsn}"), "a part of the record is missing")
}

/// Bytes that a record of `len` bytes takes in the database, keys included.
pub(super) fn stored_bytes(len: usize) -> usize {
    len + len.div_ceil(PART_BYTES) * KEY_BYTES
}
