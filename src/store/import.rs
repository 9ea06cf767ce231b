//! Makes a store whose records keep the positions that they had elsewhere.

use crate::store::db::{Database, damaged, guarded};
use crate::store::files::{self, DirLock};
use crate::store::shared::keys;
use crate::store::{Opened, Progress, StoreError, StoreOptions, migrate, recovery};
use crate::types::{Lsn, Millis};

/// Opens the store in `options.dir`, creating it if there is none, so that the next record is
/// `next`. LSNs between the newest record and `next` are left out for good. What the log says from
/// `next` on does not build on what it says before, so a checkpoint at `next - 1` or later has to be
/// written before the store is closed: without one it is refused as damaged when it is opened again.
///
/// # Errors
/// Those of [`super::open`]; [`StoreError::OutOfOrder`] if `next` was given out already.
pub fn open_at(
    options: &StoreOptions,
    next: Lsn,
    now_wall: Millis,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, StoreError> {
    files::create_dir(&options.dir)?;
    let opened = if options.dir.join("log").join("db").exists() {
        Some(super::open(options, now_wall, progress)?)
    } else {
        None
    };
    if let Some(opened) = opened {
        if opened.next_lsn == next {
            return Ok(opened);
        }
        let expected = opened.next_lsn;
        let alive = opened.last_alive;
        drop(opened.reader);
        opened.store.close(alive)?;
        if next < expected {
            return Err(StoreError::OutOfOrder {
                expected,
                found: next,
            });
        }
    } else if next == Lsn(1) {
        return super::open(options, now_wall, progress);
    }
    note_position(options, next, progress)?;
    let opened = recovery::open(options, now_wall, progress)?;
    if opened.next_lsn == next {
        Ok(opened)
    } else {
        Err(damaged(
            format!("lsn {next}"),
            format!("the log goes on at lsn {} instead", opened.next_lsn),
        ))
    }
}

/// Writes into the closed store where the next start goes on.
fn note_position(
    options: &StoreOptions,
    next: Lsn,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let _lock = DirLock::take(&options.dir, options.lock_wait_ms, progress)?;
    let database = Database::open(&options.dir.join("log"), options.cache_bytes)?;
    let noted = migrate::run(&database, progress).and_then(|()| {
        let before = Lsn(next.0.saturating_sub(1));
        let mut batch = sled::Batch::default();
        batch.insert(keys::FLOOR, &next.0.to_le_bytes());
        batch.insert(keys::BASE, &before.0.to_le_bytes());
        guarded("note where the log goes on", || {
            database.meta.apply_batch(batch)
        })?;
        database.flush()?;
        database.sync()
    });
    database.let_go(Vec::new())?;
    noted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite::{OnSled, Place, all, checkpoint, lsns, put};

    #[test]
    fn a_store_may_begin_late_and_have_holes_if_a_checkpoint_leads_over_them() {
        let place = OnSled::new(|_| {});
        let open_at = |next| open_at(&place.options, Lsn(next), Millis(1), &mut |_| {});
        let mut opened = open_at(500).unwrap();
        put(&mut *opened.store, 500..=510);
        checkpoint(&*opened.reader, 510, 2).unwrap();
        opened.store.close(Millis(2)).unwrap();
        let mut opened = open_at(600).unwrap();
        put(&mut *opened.store, 600..=610);
        checkpoint(&*opened.reader, 610, 2).unwrap();
        opened.store.close(Millis(2)).unwrap();

        let mut opened = place.open();
        let expected: Vec<u64> = (500..=510).chain(600..=610).collect();
        assert_eq!(lsns(&all_with_holes(&*opened.reader)), expected);
        assert_eq!((opened.next_lsn, opened.lost.clone()), (Lsn(611), None));
        put(&mut *opened.store, 611..=612);
        assert_eq!(
            opened.checkpoint.map(|checkpoint| checkpoint.lsn),
            Some(Lsn(610))
        );
    }

    fn all_with_holes(
        reader: &dyn crate::store::LogReader,
    ) -> Vec<std::sync::Arc<crate::registry::change::Record>> {
        let found = all(reader);
        assert_eq!(
            found.first().map(|record| record.lsn),
            Some(reader.first_lsn())
        );
        found
    }

    #[test]
    fn without_a_checkpoint_it_is_refused() {
        let place = OnSled::new(|_| {});
        let mut opened = open_at(&place.options, Lsn(500), Millis(1), &mut |_| {}).unwrap();
        put(&mut *opened.store, 500..=510);
        opened.store.close(Millis(2)).unwrap();
        let error = crate::store::open(&place.options, Millis(3), &mut |_| {}).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }

    #[test]
    fn positions_never_go_back() {
        let place = OnSled::new(|_| {});
        let mut opened = open_at(&place.options, Lsn(1), Millis(1), &mut |_| {}).unwrap();
        put(&mut *opened.store, 1..=10);
        opened.store.close(Millis(2)).unwrap();
        let error = open_at(&place.options, Lsn(5), Millis(1), &mut |_| {}).unwrap_err();
        assert!(matches!(error, StoreError::OutOfOrder { .. }), "{error}");
    }
}
