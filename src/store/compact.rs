//! Gives the space back that trimmed history took: sled reuses space but never shrinks its file, so
//! a stopped store is copied tree by tree into a new database, which then takes its place.

use std::path::Path;

use crate::store::db::{Database, guarded};
use crate::store::files::{self, DirLock, remove_dir};
use crate::store::{Loss, Progress, StoreError, StoreOptions, recovery};
use crate::types::Millis;

/// Where the copy is written.
const COPY: &str = "log.compacting";
/// Where the original waits until the copy has taken its place.
const ORIGINAL: &str = "log.compacted";
/// Free space to leave beside the copy, unless the options say otherwise, bytes.
const MARGIN: u64 = 64 << 20;
/// Entries of one batch.
const BATCH: usize = 256;

/// What a compaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Size of the database file before and after, bytes.
    pub before: u64,
    pub after: u64,
    /// What was mended when it was opened, and what that lost.
    pub notes: Vec<String>,
    pub lost: Option<Loss>,
}

/// Rewrites the store in `options.dir`, which must not be in use. The store is opened and checked
/// first, as a start does.
///
/// # Errors
/// Those of [`super::open`]; [`StoreError::NoSpace`] if the copy does not fit beside the original.
/// Whatever happens, the store that was there is there.
pub fn compact(
    options: &StoreOptions,
    now_wall: Millis,
    progress: &mut dyn FnMut(Progress),
) -> Result<Compacted, StoreError> {
    let opened = recovery::open(options, now_wall, progress)?;
    let live = opened.store.stats().log_bytes;
    let last_alive = opened.last_alive;
    let (notes, lost) = (opened.notes, opened.lost);
    opened.store.close(last_alive)?;

    let dir = &options.dir;
    let _lock = DirLock::take(dir, options.lock_wait_ms, progress)?;
    // The new file takes up to twice the live bytes.
    let needed = live
        .saturating_mul(2)
        .saturating_add(options.min_free_bytes.unwrap_or(MARGIN));
    files::require_space(dir, needed, "needed for the copy that a compaction makes")?;
    let (log, copy, original) = (dir.join("log"), dir.join(COPY), dir.join(ORIGINAL));
    remove_dir(&copy)?;
    let from = Database::open(&log, options.cache_bytes)?;
    let to = Database::open(&copy, options.cache_bytes)?;
    let copied = copy_trees(&from, &to).and_then(|()| {
        to.flush()?;
        to.sync()?;
        Ok(Compacted {
            before: from.file_bytes(),
            after: to.file_bytes(),
            notes,
            lost,
        })
    });
    from.let_go(Vec::new())?;
    to.let_go(Vec::new())?;
    let compacted = copied?;
    rename(&log, &original)?;
    rename(&copy, &log)?;
    files::sync_dir(dir)?;
    remove_dir(&original)?;
    Ok(compacted)
}

/// Undoes or finishes what an interrupted compaction left. The lock must be held.
pub(super) fn finish_interrupted(dir: &Path) -> Result<(), StoreError> {
    let (log, copy, original) = (dir.join("log"), dir.join(COPY), dir.join(ORIGINAL));
    if original.exists() && !log.exists() {
        rename(&original, &log)?;
        files::sync_dir(dir)?;
    }
    remove_dir(&original)?;
    remove_dir(&copy)
}

fn copy_trees(from: &Database, to: &Database) -> Result<(), StoreError> {
    for name in guarded("list the trees", || Ok(from.db.tree_names()))? {
        let source = guarded("open a tree", || from.db.open_tree(&name))?;
        let target = guarded("create a tree", || to.db.open_tree(&name))?;
        let mut entries = source.iter();
        loop {
            let mut batch = sled::Batch::default();
            let mut count = 0;
            while count < BATCH {
                let entry = guarded("read a tree", || entries.next().transpose())?;
                let Some((key, value)) = entry else { break };
                batch.insert(key, value);
                count += 1;
            }
            if count == 0 {
                break;
            }
            guarded("copy a tree", || target.apply_batch(batch))?;
            to.flush()?;
        }
    }
    Ok(())
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    files::rename(from, to, "rename the database")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::suite::{OnSled, Place, all, batch, checkpoint, lsns, put};
    use crate::types::Lsn;

    fn trimmed() -> (OnSled, u64) {
        let place = OnSled::new(|options| options.history_max_age_ms = 0);
        let mut opened = place.open();
        for start in (1..=3_000).step_by(100) {
            put(&mut *opened.store, start..=start + 99);
        }
        checkpoint(&*opened.reader, 2_999, 2).unwrap();
        checkpoint(&*opened.reader, 3_000, 2).unwrap();
        opened.reader.meta_put("cursor", b"5").unwrap();
        while opened
            .store
            .trim(Lsn(3_001), Millis(9_000_000))
            .unwrap()
            .segments
            > 0
        {}
        let first = opened.reader.first_lsn().0;
        opened.store.close(Millis(7_000)).unwrap();
        (place, first)
    }

    #[test]
    fn compaction_shrinks_the_file_and_keeps_everything() {
        let (place, first) = trimmed();
        let done = compact(&place.options, Millis(8_000), &mut |_| {}).unwrap();
        assert!(done.after * 2 < done.before, "{done:?}");
        let opened = place.open();
        assert_eq!(
            lsns(&all(&*opened.reader)),
            (first..=3_000).collect::<Vec<_>>()
        );
        assert_eq!(
            opened.reader.meta_get("cursor").unwrap().as_deref(),
            Some(&b"5"[..])
        );
        assert_eq!(
            (opened.next_lsn, opened.last_alive),
            (Lsn(3_001), Millis(7_000))
        );
        assert!(
            opened.lost.is_none() && opened.notes.is_empty(),
            "{:?}",
            opened.notes
        );
        assert!(!place.options.dir.join(ORIGINAL).exists());
    }

    #[test]
    fn a_store_in_use_is_not_compacted() {
        let place = OnSled::new(|_| {});
        let _opened = place.open();
        let error = compact(&place.options, Millis(1), &mut |_| {}).unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    }

    #[test]
    fn an_interrupted_compaction_leaves_the_store_as_it_was() {
        let place = OnSled::new(|_| {});
        let mut opened = place.open();
        put(&mut *opened.store, 1..=20);
        opened.store.close(Millis(1)).unwrap();
        let dir = &place.options.dir;
        // Stopped while copying, and stopped between the two renames.
        fs::create_dir(dir.join(COPY)).unwrap();
        fs::write(dir.join(COPY).join("db"), b"half").unwrap();
        place.open().store.close(Millis(1)).unwrap();
        assert!(!dir.join(COPY).exists());
        fs::rename(dir.join("log"), dir.join(ORIGINAL)).unwrap();
        fs::create_dir(dir.join(COPY)).unwrap();
        let opened = place.open();
        assert_eq!(all(&*opened.reader), batch(1..=20));
        assert!(!dir.join(ORIGINAL).exists());
    }
}
