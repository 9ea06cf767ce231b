//! What the writer and the readers of an open store share.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use crate::store::bases::{self, Bounds};
use crate::store::db::Database;
use crate::store::files::{self, DirLock};
use crate::store::segment::{Segment, tree_name};
use crate::store::{
    BaseFacts, Checkpoint, LostRange, SegmentFacts, StoreError, checkpoint, record,
};
use crate::types::Lsn;

/// Keys of the `meta` tree that are the store's own.
pub(super) mod keys {
    pub(in crate::store) const SCHEMA: &str = "store/schema";
    pub(in crate::store) const NODE_ID: &str = "store/node-id";
    pub(in crate::store) const INCARNATION: &str = "store/incarnation";
    /// The newest record when the store was opened last: what is older must be there.
    pub(in crate::store) const TAIL: &str = "store/tail";
    /// The next LSN when the store was opened last: those below were given out or skipped.
    pub(in crate::store) const FLOOR: &str = "store/floor";
    /// The checkpoint that leads over a hole in front of the next segment.
    pub(in crate::store) const BASE: &str = "store/base";
    /// What was lost, followed by its first LSN: the last one, the next one that was
    /// given out, and when that was noticed.
    pub(in crate::store) const LOST: &str = "store/lost/";
    /// What was mended of the log before it took the place of a damaged one, until a start has told it.
    pub(in crate::store) const MENDED: &str = "store/mended";
    /// Facts of a segment, followed by its first LSN.
    pub(in crate::store) const SEGMENT: &str = "store/segment/";
    /// Everything that others put.
    pub(in crate::store) const USER: &str = "user/";
}

/// The shared part of an open store.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) dir: PathBuf,
    /// `None` once closed.
    database: RwLock<Option<Database>>,
    /// Oldest first.
    segments: RwLock<Vec<Arc<Segment>>>,
    /// Readers see nothing behind this LSN.
    committed: AtomicU64,
    /// Up to here the log is on the disk.
    synced: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) flushes: AtomicU64,
    /// The next LSN when the store was opened: the log begins there if there are no segments.
    opened_at: Lsn,
    /// The kept checkpoints, oldest first: bases, then the two that a restart needs.
    checkpoints: Mutex<Vec<BaseFacts>>,
    /// What was lost with a damaged store, as far as the log goes back.
    pub(super) losses: Vec<LostRange>,
    pub(super) bounds: Bounds,
    /// Held while a checkpoint is written.
    checkpointing: Mutex<()>,
    lock: Mutex<Option<DirLock>>,
}

impl Shared {
    #[expect(
        clippy::too_many_arguments,
        reason = "these are the parts that a start has found, each of them once"
    )]
    pub(super) fn new(
        dir: PathBuf,
        database: Database,
        segments: Vec<Arc<Segment>>,
        (last, next): (Lsn, Lsn),
        checkpoints: Vec<BaseFacts>,
        losses: Vec<LostRange>,
        bounds: Bounds,
        lock: DirLock,
    ) -> Self {
        Self {
            dir,
            database: RwLock::new(Some(database)),
            segments: RwLock::new(segments),
            committed: AtomicU64::new(last.0),
            synced: AtomicU64::new(last.0),
            syncs: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            opened_at: next,
            checkpoints: Mutex::new(checkpoints),
            losses,
            bounds,
            checkpointing: Mutex::new(()),
            lock: Mutex::new(Some(lock)),
        }
    }

    /// Runs something with the database, unless it was closed.
    pub(super) fn with<T>(
        &self,
        call: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = self
            .database
            .read()
            .expect("holders of the write lock only take");
        call(database.as_ref().ok_or(StoreError::Closed)?)
    }

    pub(super) fn committed(&self) -> Lsn {
        Lsn(self.committed.load(Ordering::Acquire))
    }

    pub(super) fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::Acquire))
    }

    /// Shows the readers everything up to `lsn`.
    pub(super) fn publish(&self, lsn: Lsn) {
        self.committed.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Flushes the database.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.with(Database::flush)?;
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Puts the log on the disk; everything up to `flushed` was flushed before.
    pub(super) fn sync(&self, flushed: Lsn) -> Result<(), StoreError> {
        self.with(Database::sync)?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.synced.fetch_max(flushed.0, Ordering::AcqRel);
        Ok(())
    }

    /// A copy of the list, oldest first.
    pub(super) fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments
            .read()
            .expect("holders of this lock only copy")
            .clone()
    }

    pub(super) fn last_segment(&self) -> Option<Arc<Segment>> {
        self.segments
            .read()
            .expect("holders of this lock only copy")
            .last()
            .cloned()
    }

    /// The oldest record, or the next LSN if there is none that readers may see.
    pub(super) fn first_lsn(&self) -> Lsn {
        let segments = self
            .segments
            .read()
            .expect("holders of this lock only copy");
        segments
            .first()
            .map_or(self.opened_at, |segment| segment.first)
    }

    pub(super) fn push_segment(&self, segment: Arc<Segment>) {
        self.segments
            .write()
            .expect("holders of this lock only copy")
            .push(segment);
    }

    /// Drops the oldest segment with all its records.
    pub(super) fn drop_segment(&self, segment: &Segment) -> Result<(), StoreError> {
        self.segments
            .write()
            .expect("holders of this lock only copy")
            .retain(|kept| kept.first != segment.first);
        drop(segment.take_tree());
        self.with(|database| {
            let key = segment_key(segment.first);
            // Facts first: a tree without facts is what an interrupted drop leaves, and the next
            // start finishes it.
            super::db::guarded("drop a segment", || {
                database.meta.remove(key)?;
                database.db.drop_tree(tree_name(segment.first))
            })
        })
        .map(|_| ())
        .or_else(|error| match error {
            // The history was damaged and is to go anyway. Its pages are lost until a compaction.
            StoreError::Damaged { .. } => {
                tracing::warn!(%error, "cannot drop the segment that begins with {}", segment.first);
                Ok(())
            }
            other => Err(other),
        })
    }

    /// Writes the facts of a segment.
    pub(super) fn put_facts(&self, segment: &Segment, is_closed: bool) -> Result<(), StoreError> {
        let facts = record::encode_segment(&segment.facts(is_closed))?;
        self.put(&segment_key(segment.first), &facts)
    }

    pub(super) fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.with(|database| {
            super::db::guarded("write to the meta tree", || {
                database.meta.insert(key, value)
            })
        })
        .map(|_| ())
    }

    /// What the segments cover, oldest first; uncommitted records too.
    pub(super) fn facts(&self) -> Vec<SegmentFacts> {
        self.segments().iter().map(|s| s.told()).collect()
    }

    /// The kept checkpoints, oldest first.
    pub(super) fn checkpoints(&self) -> Vec<BaseFacts> {
        self.checkpoints
            .lock()
            .expect("holders of this lock only copy")
            .clone()
    }

    /// The first LSN that the older kept checkpoint needs; nothing may be trimmed while there are
    /// fewer than two, for then a damaged one leaves nothing to fall back to.
    pub(super) fn replay_floor(&self) -> Lsn {
        let kept = self.checkpoints();
        if kept.len() < bases::RESTART {
            Lsn::ZERO
        } else {
            kept[kept.len() - bases::RESTART].lsn.next()
        }
    }

    /// Loads a kept checkpoint.
    pub(super) fn load_base(&self, lsn: Lsn) -> Result<Checkpoint, StoreError> {
        self.with(|_| Ok(()))?;
        let gone = || StoreError::Trimmed {
            asked: lsn,
            first: self.first_lsn(),
        };
        if !self.checkpoints().iter().any(|kept| kept.lsn == lsn) {
            return Err(gone());
        }
        match checkpoint::load(&self.dir, lsn) {
            // It went meanwhile.
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                Err(gone())
            }
            loaded => loaded,
        }
    }

    /// Puts a new checkpoint among the kept ones, lets those go that serve no moment of the log any
    /// more, and removes their files.
    pub(super) fn retain_checkpoints(&self, newest: Option<BaseFacts>) -> Result<(), StoreError> {
        let log = self.facts();
        let retained = {
            let mut kept = self
                .checkpoints
                .lock()
                .expect("holders of this lock only copy");
            if let Some(newest) = newest {
                kept.retain(|known| known.lsn != newest.lsn);
                kept.push(newest);
            }
            *kept = bases::retained(&kept, &log, &self.bounds);
            kept.clone()
        };
        let newest = retained.last().map(|newest| newest.lsn);
        for old in checkpoint::list(&self.dir)? {
            // A newer one is being written by somebody else right now.
            if Some(old) <= newest && !retained.iter().any(|kept| kept.lsn == old) {
                files::remove(&checkpoint::path(&self.dir, old))?;
            }
        }
        Ok(())
    }

    pub(super) fn write_checkpoint(
        &self,
        source: super::CheckpointSource<'_>,
    ) -> Result<(), StoreError> {
        let lsn = source.lsn;
        // What was committed, or skipped when the store was opened.
        let committed = self
            .committed()
            .max(Lsn(self.opened_at.0.saturating_sub(1)));
        if lsn > committed {
            return Err(StoreError::OutOfOrder {
                expected: committed,
                found: lsn,
            });
        }
        // A panic of the caller's iterator leaves nothing behind but a file that is overwritten.
        let _one_at_a_time = self
            .checkpointing
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(newest) = self.checkpoints().last().filter(|newest| newest.lsn > lsn) {
            return Err(StoreError::OutOfOrder {
                expected: newest.lsn,
                found: lsn,
            });
        }
        // A checkpoint must never be ahead of the log on the disk.
        if self.synced() < lsn {
            self.sync(lsn)?;
        } else {
            self.with(|_| Ok(()))?;
        }
        checkpoint::write(&self.dir, source)?;
        self.retain_checkpoints(Some(checkpoint::facts(&self.dir, lsn)?))?;
        for evidence in files::list(&self.dir, checkpoint::is_evidence)? {
            files::remove(&evidence)?;
        }
        Ok(())
    }

    /// Closes the database and lets the directory go. Readers wait for nothing but their locks.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        let database = self
            .database
            .write()
            .expect("holders of the write lock only take")
            .take();
        let segments = std::mem::take(
            &mut *self
                .segments
                .write()
                .expect("holders of this lock only copy"),
        );
        let trees = segments
            .iter()
            .filter_map(|segment| segment.take_tree())
            .collect();
        let closed = database.map_or(Ok(()), |database| database.let_go(trees));
        let lock = self
            .lock
            .lock()
            .expect("holders of this lock only take")
            .take();
        if closed.is_ok() {
            drop(lock);
        } else {
            // sled still holds the files: nobody else may have them, even in this process.
            std::mem::forget(lock);
        }
        closed
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "cannot close the store");
        }
    }
}

/// Key of the facts of a segment.
pub(super) fn segment_key(first: Lsn) -> String {
    format!("{}{:020}", keys::SEGMENT, first.0)
}

/// Renames a damaged checkpoint, so that it is looked at no more but can be looked into.
pub(super) fn set_checkpoint_aside(dir: &std::path::Path, lsn: Lsn) -> Result<(), StoreError> {
    let path = checkpoint::path(dir, lsn);
    files::rename(
        &path,
        &path.with_extension("damaged"),
        "set aside the checkpoint",
    )
}
