//! The writer's side of the store on sled.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::registry::change::Record;
use crate::store::bases;
use crate::store::db::{Database, guarded};
use crate::store::segment::{self, Covered, Segment, tree_name};
use crate::store::shared::Shared;
use crate::store::watermark::WatermarkFile;
use crate::store::{
    Durability, LogStore, StoreError, StoreOptions, StoreStats, Trimmed, record, reserve,
};
use crate::types::{Lsn, Millis};

/// Segments that one trim drops: each takes some 20 ms during which nothing commits.
const DROPS_PER_TRIM: usize = 4;

/// [`LogStore`] on sled.
#[derive(Debug)]
pub(super) struct SledStore {
    shared: Arc<Shared>,
    watermark: WatermarkFile,
    segment_bytes: u64,
    segment_age_ms: u64,
    /// The next LSN to append.
    next: Lsn,
    /// The newest appended record.
    last: Lsn,
    /// The checkpoint that leads over a hole in front of the next segment.
    base: Lsn,
    /// Whether space is set aside for the next start.
    has_reserve: bool,
    /// Why the handle stopped.
    poison: Option<String>,
}

impl SledStore {
    pub(super) fn new(
        shared: Arc<Shared>,
        watermark: WatermarkFile,
        options: &StoreOptions,
        (last, next): (Lsn, Lsn),
        base: Lsn,
    ) -> Self {
        Self {
            shared,
            watermark,
            segment_bytes: options.segment_bytes,
            segment_age_ms: options.segment_age_ms,
            next,
            last,
            base,
            has_reserve: reserve::is_for(options),
            poison: None,
        }
    }

    /// Runs a write, and stops the handle for good if it fails.
    fn write<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(cause) = &self.poison {
            return Err(StoreError::Poisoned(cause.clone()));
        }
        let result = call(self);
        if let Err(error) = &result {
            self.poison = Some(error.to_string());
        }
        result
    }

    /// The segment that takes a batch which begins with `first`; begins a new one if need be.
    fn segment_for(&mut self, first: &Record) -> Result<Arc<Segment>, StoreError> {
        if let Some(current) = self.shared.last_segment() {
            let covered = current.covered();
            let is_full = covered.bytes > self.segment_bytes
                || first.at.since(covered.earliest) > self.segment_age_ms;
            if !is_full && covered.last.next() == first.lsn {
                return Ok(current);
            }
            self.shared.put_facts(&current, true)?;
        }
        let tree = self.shared.with(|database| {
            guarded("begin a segment", || {
                database.db.open_tree(tree_name(first.lsn))
            })
        })?;
        let is_hole = self.last.next() != first.lsn;
        let base = if is_hole { self.base } else { Lsn::ZERO };
        let segment = Arc::new(Segment::new(
            first.lsn,
            self.last,
            base,
            Covered::NOTHING,
            tree,
        ));
        self.shared.put_facts(&segment, false)?;
        self.shared.push_segment(segment.clone());
        Ok(segment)
    }

    fn append_encoded(
        &mut self,
        records: &[Arc<Record>],
        encoded: &[Vec<u8>],
    ) -> Result<(), StoreError> {
        let segment = self.segment_for(&records[0])?;
        let mut covered = segment.covered();
        let mut batch = sled::Batch::default();
        for (record, bytes) in records.iter().zip(encoded) {
            let size = segment::insert(&mut batch, record.lsn, bytes);
            covered.add(record.lsn, record.at, size);
        }
        {
            let tree = segment.tree();
            let tree = tree.as_ref().ok_or(StoreError::Closed)?;
            guarded("append to the log", || tree.apply_batch(batch))?;
        }
        segment.set_covered(covered);
        self.last = covered.last;
        self.next = covered.last.next();
        Ok(())
    }
}

/// Encodes a batch after checking that its LSNs are the next ones.
pub(super) fn encode_batch(next: Lsn, records: &[Arc<Record>]) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut expected = next;
    let mut encoded = Vec::with_capacity(records.len());
    for record in records {
        if record.lsn != expected {
            return Err(StoreError::OutOfOrder {
                expected,
                found: record.lsn,
            });
        }
        encoded.push(record::encode(record)?);
        expected = expected.next();
    }
    Ok(encoded)
}

impl LogStore for SledStore {
    fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        if let Some(cause) = &self.poison {
            return Err(StoreError::Poisoned(cause.clone()));
        }
        if records.is_empty() {
            return Ok(());
        }
        let encoded = encode_batch(self.next, records)?;
        self.write(|store| store.append_encoded(records, &encoded))
    }

    fn commit(&mut self, durability: Durability) -> Result<(), StoreError> {
        self.write(|store| {
            store.shared.flush()?;
            if durability == Durability::Disk {
                store.shared.sync(store.last)?;
            }
            store.shared.publish(store.last);
            Ok(())
        })
    }

    fn trim(&mut self, floor: Lsn, now_wall: Millis) -> Result<Trimmed, StoreError> {
        self.write(|store| {
            let floor = floor.min(store.shared.replay_floor());
            let (shared, mut trimmed) = (&store.shared, Trimmed::default());
            let (log, kept) = (shared.facts(), shared.checkpoints());
            let count = bases::droppable(&log, &kept, floor, now_wall, &shared.bounds);
            for segment in shared.segments().iter().take(count.min(DROPS_PER_TRIM)) {
                shared.drop_segment(segment)?;
                trimmed.segments += 1;
                trimmed.bytes = trimmed.bytes.saturating_add(segment.covered().bytes);
            }
            // What a file costs is no reason to stop the log; the next checkpoint tries again.
            if trimmed.segments > 0
                && let Err(error) = shared.retain_checkpoints(None)
            {
                tracing::warn!(%error, "cannot remove a checkpoint that is not needed: {error}");
            }
            if store.has_reserve {
                reserve::keep(&shared.dir, &shared.dir.join("log"));
            }
            trimmed.first_lsn = store.shared.first_lsn();
            Ok(trimmed)
        })
    }

    fn touch_watermark(&mut self, acknowledged: Lsn, now_wall: Millis) -> Result<(), StoreError> {
        self.write(|store| {
            let committed = store.shared.committed();
            store
                .watermark
                .note(acknowledged, committed, store.shared.synced(), now_wall)?;
            if store.watermark.is_due(now_wall) {
                // Not ahead of the log: what it promises has to be on the disk first.
                if store.shared.synced() < committed {
                    store.shared.sync(committed)?;
                    store
                        .watermark
                        .note(acknowledged, committed, committed, now_wall)?;
                }
                store.watermark.sync()?;
            }
            Ok(())
        })
    }

    fn stats(&self) -> StoreStats {
        let (segments, kept) = (self.shared.facts(), self.shared.checkpoints());
        let (file_bytes, blob_files) = self
            .shared
            .with(|database| Ok((Database::file_bytes(database), database.blob_files())))
            .unwrap_or_default();
        StoreStats {
            first_lsn: self.shared.first_lsn(),
            last_lsn: self.shared.committed(),
            segments: segments.len() as u64,
            log_bytes: segments.iter().map(|segment| segment.bytes).sum(),
            file_bytes,
            syncs: self.shared.syncs.load(Ordering::Relaxed),
            flushes: self.shared.flushes.load(Ordering::Relaxed),
            checkpoint_lsn: kept.last().map(|newest| newest.lsn).unwrap_or_default(),
            bases: bases::bases_of(&kept).len() as u64,
            base_bytes: bases::bases_of(&kept).iter().map(|base| base.bytes).sum(),
            blob_files,
        }
    }

    fn close(mut self: Box<Self>, now_wall: Millis) -> Result<(), StoreError> {
        let written = if self.poison.is_some() {
            Ok(())
        } else {
            self.commit(Durability::Disk)
                .and_then(|()| self.watermark.note_clean_end(now_wall))
        };
        written.and(self.shared.close())
    }
}
