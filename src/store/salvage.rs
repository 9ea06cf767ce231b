//! Saves what can still be read of a damaged database: copies it, record by record, into an empty one.
//!
//! A page that cannot be read takes the records on it along, and no more: what lies before and behind
//! is copied, and the hole is noted in front of the segment that goes on. LSNs that were left out on
//! purpose are no part of a hole. Behind a hole that no checkpoint leads over nothing is copied, since
//! the registry could not be told there. The damaged database is only read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sled::Tree;

use crate::store::db::{Database, guarded};
use crate::store::intern::Interner;
use crate::store::salvage_meta::{SavedMeta, copy_meta};
use crate::store::segment::{self, Covered, Direction, PART_BYTES, tree_name};
use crate::store::shared::segment_key;
use crate::store::sled_reader::decode;
use crate::store::v1::SegmentV1;
use crate::store::{Progress, StoreError, record};
use crate::types::{Lsn, Millis};

/// Records between two reports of progress.
const REPORT_EVERY: u64 = 10_000;
/// Bytes of one batch.
const BATCH_BYTES: usize = 256 << 10;
/// Positions that are tried one by one behind a page that cannot be read; then the steps double, so
/// that what nobody can read does not take hours.
const SINGLE_STEPS: u32 = 1024;

/// What was copied.
#[derive(Debug, Default)]
pub(super) struct Salvaged {
    pub(super) records: u64,
    /// LSNs that could not be read, first and last, in front of records that were copied.
    pub(super) holes: Vec<(Lsn, Lsn)>,
    /// What else could not be read: between which keys of the `meta` tree.
    pub(super) unread: Vec<String>,
    /// Where copying stopped, because the registry is not known behind the hole before it.
    pub(super) cut_at: Option<Lsn>,
}

/// Copies everything that can be read of `from` into `to`, which is empty but for its schema.
/// `covered` is the newest checkpoint that can be loaded.
///
/// # Errors
/// `to` cannot be written, or something was written by a newer version.
pub(super) fn salvage(
    from: &Database,
    to: &Database,
    covered: Lsn,
    segment_bytes: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Salvaged, StoreError> {
    let mut names: BTreeMap<Lsn, sled::IVec> = BTreeMap::new();
    let listed = guarded("list the trees", || Ok(from.db.tree_names()));
    for name in from_the_damaged(listed)?.unwrap_or_default() {
        if let Some(first) = segment::parse_tree_name(&name) {
            names.insert(first, name);
        }
    }
    let firsts: Vec<Lsn> = names.keys().copied().collect();
    let SavedMeta {
        facts,
        lacks_facts,
        unread,
    } = copy_meta(from, to, &firsts)?;
    let mut trees: BTreeMap<Lsn, Tree> = BTreeMap::new();
    for (first, name) in names {
        // One without facts was being dropped, unless it is the facts that cannot be read.
        if !lacks_facts && !facts.contains_key(&first) {
            continue;
        }
        let opened = guarded("open a segment", || from.db.open_tree(&name));
        if let Some(tree) = from_the_damaged(opened)? {
            trees.insert(first, tree);
        }
    }
    let front = facts.keys().chain(trees.keys()).min().copied();
    let front = front.map_or(Lsn::ZERO, |first| match facts.get(&first) {
        Some(facts) => Lsn(facts.after),
        // Whether LSNs were left out in front of it is not known.
        None => Lsn(first.0.saturating_sub(1)),
    });
    let mut target = Target {
        to,
        segment_bytes,
        covered,
        last: front,
        facts,
        current: None,
        batch: sled::Batch::default(),
        batch_bytes: 0,
        salvaged: Salvaged {
            unread,
            ..Salvaged::default()
        },
        progress,
    };
    let firsts: Vec<Lsn> = trees.keys().copied().collect();
    for (place, (first, tree)) in trees.iter().enumerate() {
        let limit = firsts
            .get(place + 1)
            .map_or(Lsn(u64::MAX), |next| Lsn(next.0.saturating_sub(1)));
        if target.copy(*first, limit, tree)?.is_break() {
            break;
        }
    }
    target.finish()
}

/// What reading the damaged side gave; what it could not give is nothing.
pub(super) fn from_the_damaged<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Damaged { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Reads one record without looking at its neighbours; `None` if it cannot be read or is not there.
fn read_one(tree: &Tree, lsn: Lsn) -> Result<Option<Vec<u8>>, StoreError> {
    let mut bytes = Vec::new();
    for part in 0..=u16::MAX {
        let read = guarded("read the log", || tree.get(segment::key(lsn, part)));
        match from_the_damaged(read)? {
            Some(Some(value)) => {
                bytes.extend_from_slice(&value);
                if value.len() < PART_BYTES {
                    return Ok(Some(bytes));
                }
            }
            Some(None) if part > 0 => return Ok(Some(bytes)),
            Some(None) | None => return Ok(None),
        }
    }
    Ok(None)
}

/// The segment that is being written.
struct Writing {
    facts: SegmentV1,
    covered: Covered,
    tree: Tree,
}

struct Target<'a> {
    to: &'a Database,
    segment_bytes: u64,
    /// The newest checkpoint that can be loaded.
    covered: Lsn,
    /// The newest record that was copied, or what comes before the first.
    last: Lsn,
    /// Of the damaged database.
    facts: BTreeMap<Lsn, SegmentV1>,
    current: Option<Writing>,
    batch: sled::Batch,
    batch_bytes: usize,
    salvaged: Salvaged,
    progress: &'a mut dyn FnMut(Progress),
}

impl Target<'_> {
    /// Copies what can be read of a segment; breaks where copying has to stop.
    fn copy(&mut self, first: Lsn, limit: Lsn, tree: &Tree) -> Result<ControlFlow<()>, StoreError> {
        let mut strings = Interner::default();
        let mut from = first;
        let mut failures = 0;
        let mut step: u64 = 1;
        while from < Lsn(u64::MAX) {
            let mut newest = None;
            let mut outcome = Ok(ControlFlow::Continue(()));
            let all = (from, Lsn(u64::MAX));
            let walked = segment::walk(tree, all, Direction::Up, &mut |lsn, bytes| {
                newest = Some(lsn);
                // What goes wrong on this side is no damage of the other.
                outcome = self.take(lsn, bytes, &mut strings);
                Ok(match &outcome {
                    Ok(flow) => *flow,
                    Err(_) => ControlFlow::Break(()),
                })
            });
            if outcome?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if from_the_damaged(walked)?.is_some() {
                break;
            }
            if let Some(newest) = newest {
                (failures, step) = (0, 1);
                from = newest.next();
                continue;
            }
            // The walk may have failed on the page behind this record.
            if let Some(bytes) = read_one(tree, from)? {
                if self.take(from, &bytes, &mut strings)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                (failures, step) = (0, 1);
            } else {
                failures += 1;
                if failures > SINGLE_STEPS {
                    step = step.saturating_mul(2);
                }
            }
            from = Lsn(from.0.saturating_add(step));
            if from > limit {
                break;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Copies a record, unless it does not decode.
    fn take(
        &mut self,
        lsn: Lsn,
        bytes: &[u8],
        strings: &mut Interner,
    ) -> Result<ControlFlow<()>, StoreError> {
        match from_the_damaged(decode(lsn, bytes, strings))? {
            Some(record) => self.put(lsn, bytes, record.at),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn put(&mut self, lsn: Lsn, bytes: &[u8], at: Millis) -> Result<ControlFlow<()>, StoreError> {
        if lsn <= self.last {
            // Two segments claim it: the older one has it.
            return Ok(ControlFlow::Continue(()));
        }
        let goes_on = self.current.as_ref().is_some_and(|current| {
            current.covered.last.next() == lsn && current.covered.bytes <= self.segment_bytes
        });
        if !goes_on && self.begin(lsn)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let size = segment::insert(&mut self.batch, lsn, bytes);
        if let Some(current) = &mut self.current {
            current.covered.add(lsn, at, size);
        }
        self.last = lsn;
        self.batch_bytes += size;
        self.salvaged.records += 1;
        if self.salvaged.records.is_multiple_of(REPORT_EVERY) {
            (self.progress)(Progress::Salvaging {
                records: self.salvaged.records,
            });
        }
        if self.batch_bytes >= BATCH_BYTES {
            self.write_batch()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What is missing between the newest record that was copied and `first`, all but LSNs that were left
    /// out on purpose; and the checkpoint that led over those.
    fn missing_before(&self, first: Lsn) -> (Vec<(Lsn, Lsn)>, Lsn) {
        let mut missing: Vec<(Lsn, Lsn)> = Vec::new();
        let mut base = Lsn::ZERO;
        let mut from = self.last.next();
        let mut is_missing = |from: Lsn, to: Lsn| match missing.last_mut() {
            _ if from > to => {}
            Some((_, last)) if last.next() == from => *last = to,
            _ => missing.push((from, to)),
        };
        for (begin, facts) in self.facts.range(from..=first) {
            is_missing(from, Lsn(facts.after.min(begin.0.saturating_sub(1))));
            base = base.max(Lsn(facts.base));
            from = *begin;
        }
        is_missing(from, Lsn(first.0.saturating_sub(1)));
        (missing, base)
    }

    /// Begins a segment; breaks if the registry in front of it is not known.
    fn begin(&mut self, first: Lsn) -> Result<ControlFlow<()>, StoreError> {
        self.close()?;
        let (missing, mut base) = self.missing_before(first);
        if let Some((_, last)) = missing.last() {
            base = base.max(*last);
        }
        if self.covered < base {
            self.salvaged.cut_at = Some(first);
            return Ok(ControlFlow::Break(()));
        }
        self.salvaged.holes.extend(missing);
        let facts = SegmentV1 {
            first: first.0,
            after: self.last.0,
            base: base.0,
            last: 0,
            bytes: 0,
            earliest: 0,
            latest: 0,
        };
        let tree = guarded("begin a segment", || self.to.db.open_tree(tree_name(first)))?;
        self.current = Some(Writing {
            facts,
            covered: Covered::NOTHING,
            tree,
        });
        Ok(ControlFlow::Continue(()))
    }

    fn write_batch(&mut self) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        if let Some(current) = &self.current {
            guarded("copy the log", || current.tree.apply_batch(batch))?;
            self.to.flush()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.write_batch()?;
        let Some(Writing { facts, covered, .. }) = self.current.take() else {
            return Ok(());
        };
        let facts = SegmentV1 {
            last: covered.last.0,
            bytes: covered.bytes,
            earliest: covered.earliest.0,
            latest: covered.latest.0,
            ..facts
        };
        let encoded = record::encode_segment(&facts)?;
        let key = segment_key(Lsn(facts.first));
        guarded("copy the facts of a segment", || {
            self.to.meta.insert(key, encoded)
        })?;
        Ok(())
    }

    fn finish(mut self) -> Result<Salvaged, StoreError> {
        self.close()?;
        self.to.flush()?;
        self.to.sync()?;
        Ok(self.salvaged)
    }
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
mod tests;
