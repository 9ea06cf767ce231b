//! Mends a damaged log without touching it: on a copy, which takes its place once it is known to be
//! good. The damaged log is kept beside it if anything of it is missing in the new one.
//!
//! Two ways, in this order. sled's own snapshot and settings hold nothing that the log does not say,
//! so a copy without them is rebuilt from the log alone, and nothing is lost. If that cannot be opened
//! or is not whole, everything that can still be read is saved into a new database
//! ([`crate::store::salvage`]); whether the registry is whole then is for the comparison with the
//! watermark to say.

use std::fs;
use std::path::Path;

use super::anew::{QUARANTINE, told, with_ways_out};
use super::losses::{hole_ranges, note_loss};
use super::{Failed, Recovery, Started, Verdict};
use crate::store::db::{Database, guarded};
use crate::store::files::{self, remove_dir};
use crate::store::inspect::MendedLog;
use crate::store::salvage::{Salvaged, salvage};
use crate::store::shared::keys;
use crate::store::{LossCause, OnDamage, Progress, StoreError, checkpoint, migrate};
use crate::types::Lsn;

/// A copy without sled's snapshots and settings.
const REBUILT: &str = "log.rebuilt";
/// What is saved of a damaged log, while it is being written.
const SALVAGED: &str = "log.salvaged";
/// A log that is to take the place of the damaged one.
const MENDED: &str = "log.mended";
/// A damaged log of which nothing is missing in the one that took its place.
const REPLACED: &str = "log.replaced";
/// Pieces of what is kept by name that are told one by one if they are gone.
const TOLD_MAX: usize = 20;
/// Free space to leave beside a copy, bytes.
const SPARE: u64 = 16 << 20;

/// Undoes or finishes what an interrupted mending left. The lock must be held.
pub(super) fn finish_interrupted(dir: &Path) -> Result<(), StoreError> {
    let (log, mended) = (dir.join("log"), dir.join(MENDED));
    if mended.exists() && !log.exists() {
        rename(&mended, &log)?;
        files::sync_dir(dir)?;
    }
    for name in [REBUILT, SALVAGED, MENDED] {
        remove_dir(&dir.join(name))?;
    }
    for aside in files::list(dir, |name| name.starts_with(QUARANTINE))? {
        // Nothing had been moved into it yet.
        if files::list(&aside, |_| true)?.is_empty() {
            remove_dir(&aside)?;
        }
    }
    Ok(())
}

/// Removes the damaged log that a mended one took the place of, once that one is open.
pub(super) fn remove_replaced(dir: &Path) -> Result<(), StoreError> {
    let replaced = dir.join(REPLACED);
    if replaced.exists() {
        remove_dir(&replaced)?;
    }
    Ok(())
}

/// What came of a mending.
enum Mended {
    /// It has taken the place of the damaged log.
    Good(Box<Started>),
    /// Acknowledged records are lost, and the options say to change nothing then.
    Rest(Salvaged),
    /// Or there was no space to try.
    Nothing(Option<StoreError>),
}

impl Recovery<'_> {
    /// Mends what `damage` tells of, or does what the options say if acknowledged records are lost.
    /// `was_open` tells whether the database itself can be opened.
    pub(super) fn mend(
        &mut self,
        damage: StoreError,
        was_open: bool,
    ) -> Result<Started, StoreError> {
        (self.progress)(Progress::Mending(told(&damage)));
        let dir = self.options.dir.clone();
        let mended = self.try_to_mend(&damage, was_open);
        let cleaned = [REBUILT, SALVAGED]
            .iter()
            .try_for_each(|name| remove_dir(&dir.join(name)));
        match mended? {
            Mended::Good(started) => cleaned.map(|()| *started),
            Mended::Rest(salvaged) => {
                Err(with_ways_out(tell_what_is_left(damage, &salvaged), &dir))
            }
            Mended::Nothing(short) => cleaned
                .and_then(|()| self.give_up(damage))
                .map_err(|refused| short.unwrap_or(refused)),
        }
    }

    fn try_to_mend(&mut self, damage: &StoreError, was_open: bool) -> Result<Mended, StoreError> {
        let dir = self.options.dir.clone();
        let notes = self.notes.len();
        let (rebuilt, target) = (dir.join(REBUILT), dir.join(SALVAGED));
        let mut source = was_open.then(|| self.log.clone());
        // How many records there are in what was rebuilt, if it can be read to its end.
        let mut sound = None;
        let copied = match self.copy_without_snapshots(was_open) {
            Err(short @ StoreError::NoSpace { .. }) => return Ok(Mended::Nothing(Some(short))),
            copied => copied?,
        };
        if let Some(removed) = copied {
            let attempted = self.attempt(&rebuilt);
            self.notes.truncate(notes);
            match attempted {
                Ok((database, inspected)) => {
                    let verdict = self.judge(&inspected);
                    sound = Some(inspected.records());
                    drop(inspected);
                    database.let_go(Vec::new())?;
                    // Without a watermark nobody knows what there was. What the machine took with it when
                    // it went down is no fault of the log's.
                    let is_whole = |verdict: Verdict| {
                        let lost = verdict.lost.map(|lost| lost.cause);
                        matches!(lost, None | Some(LossCause::NotSynced))
                    };
                    if self.mark.is_some() && verdict.is_ok_and(is_whole) {
                        let note = format!(
                            "mended the database by rebuilding {removed}: {}",
                            told(damage)
                        );
                        let mended = MendedLog {
                            noticed: self.now_wall,
                            is_cut: false,
                            note,
                        };
                        self.note_mended(&rebuilt, &mended, None)?;
                        let replaced = dir.join(REPLACED);
                        remove_dir(&replaced)?;
                        return self.take_over(&rebuilt, &replaced);
                    }
                    source = source.or_else(|| Some(rebuilt.clone()));
                }
                Err(Failed {
                    error: StoreError::Damaged { .. },
                    was_open,
                }) => source = source.or_else(|| was_open.then(|| rebuilt.clone())),
                Err(other) => return Err(other.error),
            }
        }
        let Some(source) = source else {
            return Ok(Mended::Nothing(None));
        };
        if sound.is_none() && source != rebuilt {
            remove_dir(&rebuilt)?;
        }
        let salvaged = match self.salvage(&source, &target) {
            Ok(salvaged) if salvaged.records > 0 => Some(salvaged),
            Ok(_) | Err(StoreError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        let (good, salvaged) = match (salvaged, sound.filter(|records| *records > 0)) {
            (Some(salvaged), Some(records)) if records < salvaged.records => (target, salvaged),
            (Some(salvaged), None) => (target, salvaged),
            (_, Some(records)) => {
                let salvaged = Salvaged {
                    records,
                    ..Salvaged::default()
                };
                (rebuilt, salvaged)
            }
            (None, None) => return Ok(Mended::Nothing(None)),
        };
        let is_whole = match self.attempt(&good) {
            Ok((database, inspected)) => {
                let verdict = self.judge(&inspected);
                drop(inspected);
                database.let_go(Vec::new())?;
                self.mark.is_some() && verdict.is_ok() && salvaged.cut_at.is_none()
            }
            Err(Failed {
                error: StoreError::Damaged { .. },
                ..
            }) => return Ok(Mended::Nothing(None)),
            Err(other) => return Err(other.error),
        };
        self.notes.truncate(notes);
        if !is_whole {
            match self.options.on_damage {
                OnDamage::KeepRest => {}
                OnDamage::MoveAside => return Ok(Mended::Nothing(None)),
                OnDamage::Refuse => return Ok(Mended::Rest(salvaged)),
            }
        }
        let aside = self.quarantine()?;
        let mended = MendedLog {
            noticed: self.now_wall,
            // Without a watermark nobody knows what there was.
            is_cut: salvaged.cut_at.is_some() || self.mark.is_none(),
            note: tell_what_is_saved(damage, &salvaged, &aside),
        };
        self.note_mended(&good, &mended, Some(&salvaged.holes))?;
        self.take_over(&good, &aside.join("log"))
    }

    /// Copies the log, all but what sled can rebuild, and tells what was left out. `None` if there is
    /// nothing to rebuild, or no space.
    fn copy_without_snapshots(&mut self, was_open: bool) -> Result<Option<String>, StoreError> {
        // Settings that are damaged keep the database from being opened.
        let is_rebuilt = |name: &str| name.starts_with("snap.") || (name == "conf" && !was_open);
        let removed = files::list(&self.log, is_rebuilt)?;
        if removed.is_empty() {
            return Ok(None);
        }
        let copied = files::list(&self.log, |name| !is_rebuilt(name))?;
        let bytes: u64 = copied
            .iter()
            .filter_map(|path| fs::metadata(path).ok())
            .map(|facts| facts.len())
            .sum();
        let dir = &self.options.dir;
        let needed = bytes.saturating_add(SPARE);
        files::require_space(
            dir,
            needed,
            "needed for a copy of the log, which is damaged and cannot be mended without",
        )?;
        let copy = dir.join(REBUILT);
        files::create_dir(&copy)?;
        for path in copied.iter().filter(|path| path.is_file()) {
            if let Some(name) = path.file_name() {
                files::copy(path, &copy.join(name), "copy the database")?;
            }
        }
        let removed: Vec<String> = removed
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Ok(Some(removed.join(" and ")))
    }

    /// Saves what can be read of the database in `source` into a new one in `target`.
    fn salvage(&mut self, source: &Path, target: &Path) -> Result<Salvaged, StoreError> {
        let covered = checkpoint::newest_good(&self.options.dir)?.unwrap_or_default();
        let from = Database::open(source, self.options.cache_bytes)?;
        let salvaged = Database::open(target, self.options.cache_bytes).and_then(|to| {
            let salvaged = migrate::run(&to, self.progress).and_then(|()| {
                salvage(
                    &from,
                    &to,
                    covered,
                    self.options.segment_bytes,
                    self.progress,
                )
            });
            to.let_go(Vec::new())?;
            salvaged
        });
        from.let_go(Vec::new())?;
        salvaged
    }

    /// Notes in what takes the place of the damaged log how it came about, so that whoever opens it next can
    /// tell, should this process end before it has; and what is missing, if it is another log for that.
    fn note_mended(
        &self,
        good: &Path,
        mended: &MendedLog,
        missing: Option<&[(Lsn, Lsn)]>,
    ) -> Result<(), StoreError> {
        let database = Database::open(good, self.options.cache_bytes)?;
        let mut batch = sled::Batch::default();
        batch.insert(keys::MENDED, mended.encode());
        if let Some(holes) = missing {
            batch.remove(keys::INCARNATION);
            for range in hole_ranges(holes, mended.noticed) {
                note_loss(&range, &mut batch);
            }
        }
        let noted = guarded("note how the log was mended", || {
            database.meta.apply_batch(batch)
        });
        let noted = noted
            .and_then(|()| database.flush())
            .and_then(|()| database.sync());
        database.let_go(Vec::new())?;
        noted
    }

    /// Puts a good log in the place of the damaged one, which goes to `aside`.
    fn take_over(&mut self, good: &Path, aside: &Path) -> Result<Mended, StoreError> {
        let dir = self.options.dir.clone();
        let (log, mended) = (self.log.clone(), dir.join(MENDED));
        remove_dir(&mended)?;
        for path in files::list(good, |_| true)?
            .iter()
            .filter(|path| path.is_file())
        {
            fs::File::open(path)
                .and_then(|file| file.sync_all())
                .map_err(|error| StoreError::io("sync the mended log", path, error))?;
        }
        files::sync_dir(good)?;
        rename(good, &mended)?;
        files::sync_dir(&dir)?;
        rename(&log, aside)?;
        if let Some(parent) = aside.parent() {
            files::sync_dir(parent)?;
        }
        rename(&mended, &log)?;
        files::sync_dir(&dir)?;
        let (database, inspected) = self.attempt(&log).map_err(|failed| failed.error)?;
        // What cannot be told to be whole comes here only if the options say so.
        let verdict = match self.judge_mended(&inspected) {
            Ok(verdict) => verdict,
            Err(_) => self.accept(&inspected),
        };
        Ok(Mended::Good(Box::new(Started {
            database,
            inspected,
            verdict,
        })))
    }
}

/// What was saved of a log that is in `aside` now, and what was not.
fn tell_what_is_saved(damage: &StoreError, salvaged: &Salvaged, aside: &Path) -> String {
    let mut note = format!(
        "saved the {} records of the damaged log that can be read: {}; it is now in {}",
        salvaged.records,
        told(damage),
        aside.display()
    );
    if !salvaged.unread.is_empty() {
        let told = salvaged.unread.len().min(TOLD_MAX);
        note.push_str(
            "; of what is kept by name (how far peers were told, earlier losses) some cannot be read \
             and is gone: ",
        );
        note.push_str(&salvaged.unread[..told].join(", "));
        if told < salvaged.unread.len() {
            note.push_str(" and more");
        }
    }
    note
}

/// Damage, with what keeping the rest would keep.
fn tell_what_is_left(damage: StoreError, salvaged: &Salvaged) -> StoreError {
    let StoreError::Damaged {
        place,
        cause,
        way_out,
    } = damage
    else {
        return damage;
    };
    let behind = salvaged.cut_at.map_or_else(String::new, |lsn| {
        format!(", none of them from lsn {lsn} on")
    });
    StoreError::Damaged {
        place,
        cause: format!("{cause} ({} records can be kept{behind})", salvaged.records),
        way_out,
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    files::rename(from, to, "rename the database")
}

#[cfg(test)]
#[path = "mend_tests.rs"]
mod tests;
