//! Saves what can be read of the `meta` tree of a damaged database.
//!
//! sled's iterator does not get over a page that it cannot read, whichever way it goes. So the tree is
//! read from both ends, and what lies between two such pages from every key that is known to be there.

use std::collections::BTreeMap;
use std::ops::Bound;

use sled::Tree;

use super::salvage::from_the_damaged;
use crate::store::db::{Database, guarded};
use crate::store::segment::Direction;
use crate::store::shared::{keys, segment_key};
use crate::store::v1::SegmentV1;
use crate::store::{StoreError, record};
use crate::types::Lsn;

/// A key that was read or tried, and where what lies beside it begins.
type Edge = Bound<Vec<u8>>;

/// What was read of a `meta` tree.
#[derive(Debug, Default)]
pub(super) struct SavedMeta {
    /// The facts of the segments, by their first LSN; all else was copied.
    pub(super) facts: BTreeMap<Lsn, SegmentV1>,
    /// Facts of segments are among what could not be read.
    pub(super) lacks_facts: bool,
    /// Between which keys something could not be read, in words.
    pub(super) unread: Vec<String>,
}

/// Copies the `meta` tree as far as it can be read, all but the facts of the segments. `firsts` are those
/// of which there are trees.
///
/// # Errors
/// `to` cannot be written.
pub(super) fn copy_meta(
    from: &Database,
    to: &Database,
    firsts: &[Lsn],
) -> Result<SavedMeta, StoreError> {
    let own = [
        keys::BASE,
        keys::FLOOR,
        keys::INCARNATION,
        keys::LOST,
        keys::MENDED,
        keys::NODE_ID,
        keys::SCHEMA,
        keys::SEGMENT,
        keys::TAIL,
        keys::USER,
    ];
    let mut known: Vec<Vec<u8>> = own.map(|key| key.as_bytes().to_vec()).to_vec();
    known.extend(firsts.iter().map(|first| segment_key(*first).into_bytes()));
    known.sort_unstable();
    let mut copy = MetaCopy {
        from: &from.meta,
        to: &to.meta,
        saved: SavedMeta::default(),
    };
    copy.between(Bound::Unbounded, Bound::Unbounded, &known)?;
    Ok(copy.saved)
}

struct MetaCopy<'a> {
    from: &'a Tree,
    to: &'a Tree,
    saved: SavedMeta,
}

impl MetaCopy<'_> {
    /// Copies what lies between two keys; `known` are sorted, some of which may lie there.
    fn between(&mut self, low: Edge, high: Edge, known: &[Vec<u8>]) -> Result<(), StoreError> {
        let Some(low) = self.walk(low, high.clone(), Direction::Up)? else {
            return Ok(());
        };
        let Some(high) = self.walk(low.clone(), high, Direction::Down)? else {
            return Ok(());
        };
        let begin = known.partition_point(|key| !is_behind(key, &low));
        let end = known
            .partition_point(|key| is_before(key, &high))
            .max(begin);
        let within = &known[begin..end];
        let Some(middle) = within.get(within.len() / 2) else {
            self.give_up(&low, &high);
            return Ok(());
        };
        let (before, behind) = within.split_at(within.len() / 2);
        self.between(low, Bound::Excluded(middle.clone()), before)?;
        self.between(Bound::Included(middle.clone()), high, &behind[1..])
    }

    /// Copies entries one after the other. `None` if all were read, or else where what cannot be read begins.
    fn walk(
        &mut self,
        low: Edge,
        high: Edge,
        direction: Direction,
    ) -> Result<Option<Edge>, StoreError> {
        let mut reached = match direction {
            Direction::Up => low.clone(),
            Direction::Down => high.clone(),
        };
        let mut entries = self.from.range::<Vec<u8>, _>((low, high));
        loop {
            let entry = guarded("read the meta tree", || match direction {
                Direction::Up => entries.next().transpose(),
                Direction::Down => entries.next_back().transpose(),
            });
            let (key, value) = match from_the_damaged(entry)? {
                Some(Some(entry)) => entry,
                Some(None) => return Ok(None),
                None => return Ok(Some(reached)),
            };
            reached = Bound::Excluded(key.to_vec());
            self.take(&key, &value)?;
        }
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if !key.starts_with(keys::SEGMENT.as_bytes()) {
            guarded("copy the meta tree", || self.to.insert(key, value))?;
        } else if let Ok(segment) = record::decode_segment(value) {
            self.saved.facts.insert(Lsn(segment.first), segment);
        } else {
            self.saved.lacks_facts = true;
            self.saved.unread.push(name(key));
        }
        Ok(())
    }

    /// Notes that nothing more can be read between two keys.
    fn give_up(&mut self, low: &Edge, high: &Edge) {
        let facts = keys::SEGMENT.as_bytes();
        // The last key that begins so, and more.
        let last = [facts, b"~"].concat();
        self.saved.lacks_facts |= is_behind(&last, low) && is_before(facts, high);
        let told = match (low, high) {
            (Bound::Unbounded, Bound::Unbounded) => "everything".to_owned(),
            (Bound::Unbounded, Bound::Included(high) | Bound::Excluded(high)) => {
                format!("what lies before {}", name(high))
            }
            (Bound::Included(low) | Bound::Excluded(low), Bound::Unbounded) => {
                format!("what lies behind {}", name(low))
            }
            (
                Bound::Included(low) | Bound::Excluded(low),
                Bound::Included(high) | Bound::Excluded(high),
            ) => format!("what lies between {} and {}", name(low), name(high)),
        };
        self.saved.unread.push(told);
    }
}

/// Whether a key is none of those up to `low`.
fn is_behind(key: &[u8], low: &Edge) -> bool {
    match low {
        Bound::Included(low) | Bound::Excluded(low) => key > low.as_slice(),
        Bound::Unbounded => true,
    }
}

/// Whether a key is none of those from `high` on.
fn is_before(key: &[u8], high: &Edge) -> bool {
    match high {
        Bound::Included(high) | Bound::Excluded(high) => key < high.as_slice(),
        Bound::Unbounded => true,
    }
}

fn name(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}
