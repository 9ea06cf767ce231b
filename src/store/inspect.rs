//! Looks through an open database and the checkpoints before anything is served from them: is the
//! log contiguous, does everything that a restart needs decode, which checkpoint leads on?
//!
//! What lies before the older checkpoint is history that no restart needs; only its ends are looked
//! at, so that a start does not take longer the more history is kept.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use sled::Tree;

use crate::store::db::{Database, damaged, guarded};
use crate::store::intern::Interner;
use crate::store::segment::{self, Covered, Direction, Segment};
use crate::store::shared::{keys, segment_key};
use crate::store::sled_reader::decode;
use crate::store::v1::SegmentV1;
use crate::store::{Checkpoint, LostRange, Progress, StoreError, checkpoint, record};
use crate::types::{Lsn, Millis};

/// Records between two reports of progress.
const REPORT_EVERY: u64 = 10_000;

/// What is noted in a log that takes the place of a damaged one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MendedLog {
    /// Wall time of the start that mended it, as that of the losses which it noticed.
    pub(super) noticed: Millis,
    /// Records at its end were given up.
    pub(super) is_cut: bool,
    /// What was done, in words.
    pub(super) note: String,
}

impl MendedLog {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.noticed.0.to_le_bytes().to_vec();
        bytes.push(u8::from(self.is_cut));
        bytes.extend(self.note.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (noticed, rest) = bytes.split_first_chunk()?;
        let (is_cut, note) = rest.split_first()?;
        Some(Self {
            noticed: Millis(u64::from_le_bytes(*noticed)),
            is_cut: *is_cut != 0,
            note: String::from_utf8_lossy(note).into_owned(),
        })
    }
}

/// What a database and its checkpoints hold.
#[derive(Debug, Default)]
pub(super) struct Inspected {
    /// Oldest first.
    pub(super) segments: Vec<Arc<Segment>>,
    /// The newest record.
    pub(super) last: Lsn,
    pub(super) checkpoint: Option<Checkpoint>,
    /// LSNs of the checkpoints that a restart can use, oldest first: the newest, and the one to fall
    /// back to.
    pub(super) kept: Vec<Lsn>,
    /// Newer ones that are damaged, with what is wrong: whoever goes on with the others sets these aside.
    pub(super) damaged: Vec<(Lsn, String)>,
    /// LSNs of older ones, oldest first: bases of the past, which a start does not look into.
    pub(super) bases: Vec<Lsn>,
    /// The newest record when the store was opened before.
    pub(super) tail: Lsn,
    /// The next LSN when the store was opened before.
    pub(super) floor: Lsn,
    /// The checkpoint that leads over a hole behind `tail`.
    pub(super) base: Lsn,
    /// What was lost before.
    pub(super) losses: Vec<LostRange>,
    /// The log was mended, and nobody was told yet.
    pub(super) mended: Option<MendedLog>,
    pub(super) node_id: Option<u128>,
    pub(super) incarnation: Option<u128>,
    /// Wall time of the newest thing found.
    pub(super) latest: Millis,
}

impl Inspected {
    /// The LSN before the next one, unless records are missing: LSNs that were skipped when the
    /// store was opened before count only if everything from then is still there.
    pub(super) fn end(&self) -> Lsn {
        if self.last < self.tail {
            return self.last;
        }
        self.last.max(Lsn(self.floor.0.saturating_sub(1)))
    }

    /// How many records there are.
    pub(super) fn records(&self) -> u64 {
        let count = |segment: &Arc<Segment>| {
            let facts = segment.covered();
            facts
                .last
                .0
                .saturating_add(1)
                .saturating_sub(segment.first.0)
        };
        self.segments.iter().map(count).sum()
    }

    /// The newest checkpoint.
    pub(super) fn covered(&self) -> Lsn {
        self.kept.last().copied().unwrap_or_default()
    }
}

/// Inspects, and changes nothing but what a crash left half done in the database; what is to be told of
/// that, and of old history, goes into `notes`.
pub(super) fn inspect(
    database: &Database,
    dir: &Path,
    notes: &mut Vec<String>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Inspected, StoreError> {
    let mut inspected = Inspected {
        tail: Lsn(meta_number(database, keys::TAIL)?),
        floor: Lsn(meta_number(database, keys::FLOOR)?),
        base: Lsn(meta_number(database, keys::BASE)?),
        losses: losses(database)?,
        mended: guarded("read the meta tree", || database.meta.get(keys::MENDED))?
            .and_then(|bytes| MendedLog::decode(&bytes)),
        node_id: meta_id(database, keys::NODE_ID)?,
        incarnation: meta_id(database, keys::INCARNATION)?,
        ..Inspected::default()
    };
    let found = find_segments(database, notes)?;
    let needed = found
        .iter()
        .map(|(facts, _)| Lsn(facts.base))
        .chain(found.first().map(|(facts, _)| Lsn(facts.after)))
        .max()
        .unwrap_or_default();
    choose_checkpoint(dir, needed, &mut inspected, progress)?;
    let oldest_kept = inspected.kept.first().copied().unwrap_or_default();
    let newest_kept = inspected.kept.last().copied().unwrap_or_default();

    let mut verified = Verified {
        records: 0,
        progress,
        strings: Interner::default(),
    };
    let count = found.len();
    let mut before: Option<Lsn> = None;
    for (place, (facts, tree)) in found.into_iter().enumerate() {
        let first = Lsn(facts.first);
        if before.is_some_and(|last| last.0 != facts.after) {
            return Err(damaged(
                format!("lsn {}", before.unwrap_or_default().next()),
                format!("the log has a hole in front of lsn {first}"),
            ));
        }
        let is_last = place + 1 == count;
        let covered = if is_last || facts.last == 0 {
            verified.scan(&tree, first, None, Lsn::ZERO)?
        } else {
            let covered = Covered {
                last: Lsn(facts.last),
                bytes: facts.bytes,
                earliest: Millis(facts.earliest),
                latest: Millis(facts.latest),
            };
            if covered.last > oldest_kept {
                verified.scan(&tree, first, Some(covered.last), newest_kept)?;
            } else if let Err(error) = check_ends(&tree, first, covered.last) {
                notes.push(format!(
                    "the history between lsn {first} and {} is damaged and cannot be read ({error}); \
                     the state is not touched by that",
                    covered.last
                ));
            }
            covered
        };
        inspected.latest = inspected.latest.max(covered.latest);
        before = Some(covered.last);
        inspected.segments.push(Arc::new(Segment::new(
            first,
            Lsn(facts.after),
            Lsn(facts.base),
            covered,
            tree,
        )));
    }
    inspected.last = before.unwrap_or_default();
    Ok(inspected)
}

/// The segments of the database, oldest first; finishes what a crash interrupted.
fn find_segments(
    database: &Database,
    notes: &mut Vec<String>,
) -> Result<Vec<(SegmentV1, Tree)>, StoreError> {
    let mut facts: BTreeMap<Lsn, SegmentV1> = BTreeMap::new();
    for entry in database.meta.scan_prefix(keys::SEGMENT) {
        let (_, value) = guarded("read the facts of the segments", || entry)?;
        let segment = record::decode_segment(&value)
            .map_err(|error| damaged("the facts of a segment", error.to_string()))?;
        facts.insert(Lsn(segment.first), segment);
    }
    let mut trees: BTreeMap<Lsn, Tree> = BTreeMap::new();
    for name in guarded("list the trees", || Ok(database.db.tree_names()))? {
        if let Some(first) = segment::parse_tree_name(&name) {
            if facts.contains_key(&first) {
                let tree = guarded("open a segment", || database.db.open_tree(&name))?;
                trees.insert(first, tree);
            } else if let Err(error) = guarded("drop a segment", || database.db.drop_tree(&name)) {
                notes.push(format!(
                    "cannot finish dropping the segment at lsn {first}: {error}"
                ));
            }
        }
    }
    if let Some(first) = facts.keys().find(|first| !trees.contains_key(first)) {
        return Err(damaged(
            format!("lsn {first}"),
            "a segment of the log is missing",
        ));
    }
    // A segment that was begun right before a crash may be empty.
    while let Some((&first, tree)) = trees.last_key_value() {
        if guarded("read a segment", || tree.first())?.is_some() {
            break;
        }
        trees.remove(&first);
        facts.remove(&first);
        guarded("drop a segment", || {
            database.meta.remove(segment_key(first))?;
            database.db.drop_tree(segment::tree_name(first))
        })?;
    }
    Ok(facts.into_values().zip(trees.into_values()).collect())
}

/// Loads the newest checkpoint that is whole and leads on to the log.
fn choose_checkpoint(
    dir: &Path,
    needed: Lsn,
    inspected: &mut Inspected,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let mut cause = "there is no checkpoint";
    let mut left = checkpoint::list(dir)?;
    while let Some(lsn) = left.pop() {
        if lsn < needed {
            left.push(lsn);
            cause = "the checkpoints that can be read are too old";
            break;
        }
        if inspected.checkpoint.is_some() {
            // The one to fall back to; it is looked into when it is needed.
            inspected.kept.insert(0, lsn);
            break;
        }
        progress(Progress::LoadingCheckpoint { lsn });
        match checkpoint::load(dir, lsn) {
            Ok(loaded) => {
                inspected.latest = inspected.latest.max(loaded.at);
                inspected.checkpoint = Some(loaded);
                inspected.kept.insert(0, lsn);
            }
            Err(error @ StoreError::Damaged { .. }) => {
                inspected.damaged.push((lsn, error.to_string()));
                cause = "no checkpoint can be read";
            }
            Err(error) => return Err(error),
        }
    }
    inspected.bases = left;
    if inspected.checkpoint.is_none() && needed > Lsn::ZERO {
        return Err(damaged(
            "the checkpoints",
            format!("{cause}, but the log does not go back to before lsn {needed}"),
        ));
    }
    Ok(())
}

struct Verified<'a> {
    records: u64,
    progress: &'a mut dyn FnMut(Progress),
    strings: Interner,
}

impl Verified<'_> {
    /// Reads a segment through: every LSN from `first` on is there once, up to `last` if it is
    /// known, and those behind `decode_behind` decode.
    fn scan(
        &mut self,
        tree: &Tree,
        first: Lsn,
        last: Option<Lsn>,
        decode_behind: Lsn,
    ) -> Result<Covered, StoreError> {
        let mut covered = Covered::NOTHING;
        let mut expected = first;
        let all = (Lsn::ZERO, Lsn(u64::MAX));
        let _ = segment::walk(tree, all, Direction::Up, &mut |lsn, bytes| {
            if lsn != expected {
                return Err(damaged(
                    format!("lsn {expected}"),
                    format!("{lsn} comes instead"),
                ));
            }
            let mut at = Millis::ZERO;
            if lsn > decode_behind {
                at = decode(lsn, bytes, &mut self.strings)?.at;
            }
            covered.add(lsn, at, segment::stored_bytes(bytes.len()));
            expected = expected.next();
            self.records += 1;
            if self.records.is_multiple_of(REPORT_EVERY) {
                (self.progress)(Progress::Verifying {
                    records: self.records,
                });
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if covered.last < first || last.is_some_and(|last| last != covered.last) {
            return Err(damaged(
                format!("lsn {expected}"),
                "the records from here on are missing",
            ));
        }
        Ok(covered)
    }
}

/// Whether a segment begins and ends where it should.
fn check_ends(tree: &Tree, first: Lsn, last: Lsn) -> Result<(), StoreError> {
    for lsn in [first, last] {
        let mut is_there = false;
        let _ = segment::walk(tree, (lsn, lsn), Direction::Up, &mut |_, _| {
            is_there = true;
            Ok(ControlFlow::Break(()))
        })?;
        if !is_there {
            return Err(damaged(format!("lsn {lsn}"), "the record is missing"));
        }
    }
    Ok(())
}

fn meta_number(database: &Database, key: &str) -> Result<u64, StoreError> {
    let stored = guarded("read the meta tree", || database.meta.get(key))?;
    stored.map_or(Ok(0), |bytes| match bytes.as_ref().try_into() {
        Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
        Err(_) => Err(damaged(
            format!("meta key {key}"),
            format!("{} bytes", bytes.len()),
        )),
    })
}

/// The losses that were noted, oldest first.
fn losses(database: &Database) -> Result<Vec<LostRange>, StoreError> {
    let mut losses = Vec::new();
    for entry in database.meta.scan_prefix(keys::LOST) {
        let (key, value) = guarded("read what was lost before", || entry)?;
        let first = std::str::from_utf8(&key)
            .ok()
            .and_then(|key| key.strip_prefix(keys::LOST)?.parse().ok());
        let numbers: Vec<u64> = value
            .chunks_exact(8)
            .filter_map(|chunk| chunk.try_into().ok().map(u64::from_le_bytes))
            .collect();
        if let (Some(first), [last, next, noticed]) = (first, numbers.as_slice()) {
            losses.push(LostRange {
                first: Lsn(first),
                last: Lsn(*last),
                next: Lsn(*next),
                noticed: Millis(*noticed),
            });
        }
    }
    Ok(losses)
}

fn meta_id(database: &Database, key: &str) -> Result<Option<u128>, StoreError> {
    let stored = guarded("read the meta tree", || database.meta.get(key))?;
    stored
        .map(|bytes| match bytes.as_ref().try_into() {
            Ok(bytes) => Ok(u128::from_le_bytes(bytes)),
            Err(_) => Err(damaged(
                format!("meta key {key}"),
                format!("{} bytes", bytes.len()),
            )),
        })
        .transpose()
}
