//! The way from a data directory to an open store, one rung after the other: lock, leftovers, free
//! space, open and inspect, mend and try again, compare with the watermark, decide.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use crate::store::bases::Bounds;
use crate::store::db::{Database, damaged, guarded};
use crate::store::files::{self, DirLock};
use crate::store::inspect::{Inspected, inspect};
use crate::store::shared::{Shared, keys};
use crate::store::sled_reader::SledReader;
use crate::store::sled_store::SledStore;
use crate::store::watermark::{self, Found, Watermark, WatermarkFile};
use crate::store::{
    Loss, LossCause, OnDamage, Opened, Progress, StoreError, StoreOptions, checkpoint, compact,
    migrate,
};
use crate::types::{Lsn, Millis};

/// LSNs that are left out after a loss. More than can be given out between two syncs of the
/// watermark, so that none is given out twice.
const SKIP: u64 = 20_000;

/// Opens the store; see [`super::open`].
pub(super) fn open(
    options: &StoreOptions,
    now_wall: Millis,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, StoreError> {
    files::create_dir(&options.dir)?;
    let lock = DirLock::take(&options.dir, options.lock_wait_ms, progress)?;
    compact::finish_interrupted(&options.dir)?;
    let mut recovery = Recovery {
        options,
        now_wall,
        log: options.dir.join("log"),
        boot_id: watermark::boot_id(),
        mark: None,
        notes: Vec::new(),
        progress,
    };
    let (database, inspected, verdict) = recovery.recover()?;
    recovery.start(database, inspected, verdict, lock)
}

/// What the comparison with the watermark says.
#[derive(Debug)]
struct Verdict {
    /// The LSN before the next one.
    end: Lsn,
    /// The checkpoint that leads over the hole in front of the next LSN.
    base: Lsn,
    lost: Option<Loss>,
}

struct Recovery<'a> {
    options: &'a StoreOptions,
    now_wall: Millis,
    log: PathBuf,
    boot_id: u128,
    /// The watermark of the run before, if there is a readable one.
    mark: Option<Watermark>,
    notes: Vec<String>,
    progress: &'a mut dyn FnMut(Progress),
}

impl Recovery<'_> {
    fn recover(&mut self) -> Result<(Database, Inspected, Verdict), StoreError> {
        self.remove_leftovers()?;
        self.check_free_space()?;
        match watermark::read(&self.options.dir)? {
            Found::Watermark(mark) => self.mark = Some(mark),
            Found::Unreadable => self.notes.push(
                "the watermark is damaged: whether acknowledged records are missing at the end of \
                 the log cannot be told"
                    .into(),
            ),
            Found::Nothing if self.log.join("db").exists() => self.notes.push(
                "the watermark is missing: whether acknowledged records are missing at the end of \
                 the log cannot be told"
                    .into(),
            ),
            Found::Nothing => {}
        }
        let damage = match self.attempt_mending() {
            Ok((database, inspected)) => match self.judge(&inspected) {
                Ok(verdict) => return Ok((database, inspected, verdict)),
                Err(damage) => {
                    let verdict = self.accept(&inspected);
                    if self.options.on_damage == OnDamage::KeepRest {
                        self.notes.push(format!("kept what is left: {damage}"));
                        return Ok((database, inspected, verdict));
                    }
                    drop(inspected);
                    database.let_go(Vec::new())?;
                    damage
                }
            },
            Err(damage @ StoreError::Damaged { .. }) => damage,
            Err(other) => return Err(other),
        };
        match self.options.on_damage {
            OnDamage::Refuse => Err(damage),
            OnDamage::MoveAside | OnDamage::KeepRest => self.begin_anew(&damage),
        }
    }

    /// Removes what can only come from an interrupted write. A short `snap.*.generating` would make
    /// every later open fail although nothing is missing.
    fn remove_leftovers(&mut self) -> Result<(), StoreError> {
        for path in files::list(&self.log, |name| {
            name.starts_with("snap.") && name.ends_with(".generating")
        })? {
            files::remove(&path)?;
            self.notes
                .push(format!("removed the unfinished {}", path.display()));
        }
        checkpoint::remove_leftovers(&self.options.dir)
    }

    fn check_free_space(&self) -> Result<(), StoreError> {
        let file_bytes = fs::metadata(self.log.join("db")).map_or(0, |facts| facts.len());
        let needed = self.options.min_free_bytes.max(file_bytes / 4);
        match files::free_bytes(&self.options.dir) {
            Some(free) if free < needed => Err(StoreError::NoSpace {
                path: self.options.dir.clone(),
                cause: format!(
                    "{} MiB are free, {} MiB are needed",
                    free >> 20,
                    needed >> 20
                ),
            }),
            _ => Ok(()),
        }
    }

    fn attempt(&mut self) -> Result<(Database, Inspected), StoreError> {
        (self.progress)(Progress::Opening);
        let database = Database::open(&self.log, self.options.cache_bytes)?;
        let inspected = migrate::run(&database, self.progress)
            .and_then(|()| inspect(&database, &self.options.dir, &mut self.notes, self.progress));
        match inspected {
            Ok(inspected) => Ok((database, inspected)),
            Err(error) => {
                database.let_go(Vec::new())?;
                Err(error)
            }
        }
    }

    /// Opens; if that finds damage, once more without sled's snapshots and settings, which hold
    /// nothing that the log does not say.
    fn attempt_mending(&mut self) -> Result<(Database, Inspected), StoreError> {
        let notes = self.notes.len();
        let damage = match self.attempt() {
            Err(damage @ StoreError::Damaged { .. }) => damage,
            other => return other,
        };
        self.notes.truncate(notes);
        (self.progress)(Progress::Mending(damage.to_string()));
        let copy = self.copy_aside()?;
        let mut removed = Vec::new();
        for path in files::list(&self.log, |name| {
            name.starts_with("snap.") || name == "conf"
        })? {
            files::remove(&path)?;
            removed.push(path.display().to_string());
        }
        let opened = self.attempt()?;
        self.notes.push(format!(
            "mended the database by rebuilding {}: {damage}",
            removed.join(" and ")
        ));
        // Whether nothing is missing is known only after the comparison with the watermark; the
        // copy stays until then.
        if self.judge(&opened.1).is_ok()
            && let Some(copy) = copy
        {
            fs::remove_dir_all(&copy)
                .map_err(|error| StoreError::io("remove the copy", &copy, error))?;
        }
        Ok(opened)
    }

    /// Copies the database before it is touched by a repair, if there is space. A copy that is
    /// there already is the older and better evidence.
    fn copy_aside(&mut self) -> Result<Option<PathBuf>, StoreError> {
        let copy = self.options.dir.join("log.before-mending");
        if copy.exists() {
            return Ok(Some(copy));
        }
        let paths = files::list(&self.log, |_| true)?;
        let bytes: u64 = paths
            .iter()
            .filter_map(|path| fs::metadata(path).ok())
            .map(|facts| facts.len())
            .sum();
        let free = files::free_bytes(&self.options.dir).unwrap_or(u64::MAX);
        if free < bytes.saturating_add(self.options.min_free_bytes) {
            self.notes
                .push("there is no space for a copy of the damaged database".into());
            return Ok(None);
        }
        let failed = |error| StoreError::io("copy the database", &copy, error);
        fs::create_dir(&copy).map_err(failed)?;
        for path in paths.iter().filter(|path| path.is_file()) {
            if let Some(name) = path.file_name() {
                fs::copy(path, copy.join(name)).map_err(failed)?;
            }
        }
        Ok(Some(copy))
    }

    /// Compares what is there with what was promised.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if acknowledged records are missing.
    fn judge(&self, inspected: &Inspected) -> Result<Verdict, StoreError> {
        let (end, covered) = (inspected.end(), inspected.covered());
        let mark = self.mark.unwrap_or_default();
        let promised = mark.promised(self.boot_id).max(inspected.tail);
        let (first, last) = (end.next(), mark.given_out.max(mark.acknowledged));
        if promised > end.max(covered) {
            return Err(damaged(
                format!("lsn {first}"),
                format!("the log ends at lsn {end}, but lsn {promised} was acknowledged"),
            ));
        }
        let loss = |cause, last: Lsn| {
            Some(Loss {
                first,
                last: last.max(first),
                cause,
            })
        };
        let skipped = Lsn(end.max(last).max(covered).0.saturating_add(SKIP));
        Ok(if covered > end {
            let lost = loss(LossCause::HistoryOnly, covered);
            Verdict {
                end: skipped,
                base: covered,
                lost,
            }
        } else if mark.may_have_told_more(end, self.boot_id) {
            let lost = loss(LossCause::NotSynced, last);
            Verdict {
                end: skipped,
                base: inspected.base,
                lost,
            }
        } else {
            Verdict {
                end,
                base: inspected.base,
                lost: None,
            }
        })
    }

    /// The verdict for going on with what is left.
    fn accept(&self, inspected: &Inspected) -> Verdict {
        let (end, covered) = (inspected.end(), inspected.covered());
        let mark = self.mark.unwrap_or_default();
        let last = mark
            .given_out
            .max(mark.acknowledged)
            .max(covered)
            .max(inspected.tail)
            .max(end);
        Verdict {
            end: Lsn(last.0.saturating_add(SKIP)),
            base: if covered > end {
                covered
            } else {
                inspected.base
            },
            lost: Some(Loss {
                first: end.next(),
                last,
                cause: LossCause::Accepted,
            }),
        }
    }

    /// Moves the damaged store into a directory of its own and opens an empty one.
    fn begin_anew(
        &mut self,
        damage: &StoreError,
    ) -> Result<(Database, Inspected, Verdict), StoreError> {
        let dir = &self.options.dir;
        let keeps_state = self.options.on_damage == OnDamage::KeepRest;
        let checkpoints = checkpoint::list(dir)?;
        // The clock may have been stepped back to a moment that has a quarantine already.
        let mut aside = dir.join(format!("quarantine-{}", self.now_wall));
        while aside.exists() {
            aside.as_mut_os_string().push("-again");
        }
        fs::create_dir_all(&aside)
            .map_err(|error| StoreError::io("create the directory", &aside, error))?;
        let is_ours = |name: &str| match name {
            "log" | "log.before-mending" => true,
            "watermark" => !keeps_state,
            name => !keeps_state && name.starts_with("checkpoint-"),
        };
        for path in files::list(dir, is_ours)? {
            if let Some(name) = path.file_name() {
                fs::rename(&path, aside.join(name))
                    .map_err(|error| StoreError::io("move aside", &path, error))?;
            }
        }
        files::sync_dir(&aside)?;
        files::sync_dir(dir)?;
        self.notes.push(format!(
            "moved the damaged store to {} and began an empty one: {damage}",
            aside.display()
        ));
        let mark = self.mark.unwrap_or_default();
        let last = checkpoints.into_iter().max().unwrap_or_default();
        let last = last.max(mark.given_out).max(mark.acknowledged);
        let (database, inspected) = self.attempt()?;
        let verdict = if keeps_state {
            self.accept(&inspected)
        } else {
            Verdict {
                end: Lsn(last.0.saturating_add(SKIP)),
                base: Lsn::ZERO,
                lost: Some(Loss {
                    first: Lsn(1),
                    last,
                    cause: LossCause::MovedAside(aside),
                }),
            }
        };
        Ok((database, inspected, verdict))
    }

    /// Notes who the node is and where the log goes on, and hands out the store.
    fn start(
        self,
        database: Database,
        inspected: Inspected,
        verdict: Verdict,
        lock: DirLock,
    ) -> Result<Opened, StoreError> {
        let mark = self.mark.unwrap_or_default();
        let known = |id: u128| (id != 0).then_some(id);
        let node_id = inspected
            .node_id
            .or_else(|| known(mark.node_id))
            .unwrap_or_else(random_id);
        let incarnation = match inspected.incarnation {
            Some(incarnation) if verdict.lost.is_none() => incarnation,
            _ => random_id(),
        };
        let end = verdict.end;
        let mut batch = sled::Batch::default();
        batch.insert(keys::NODE_ID, &node_id.to_le_bytes());
        batch.insert(keys::INCARNATION, &incarnation.to_le_bytes());
        batch.insert(keys::TAIL, &inspected.last.0.to_le_bytes());
        batch.insert(keys::FLOOR, &end.next().0.to_le_bytes());
        batch.insert(keys::BASE, &verdict.base.0.to_le_bytes());
        guarded("note where the log goes on", || {
            database.meta.apply_batch(batch)
        })?;
        database.flush()?;
        database.sync()?;
        let start = Watermark {
            sequence: mark.sequence,
            node_id,
            incarnation,
            boot_id: self.boot_id,
            is_unsynced: false,
            acknowledged: end,
            synced: end,
            given_out: end,
            alive_at: self.now_wall,
        };
        let watermark = WatermarkFile::open(&self.options.dir, start)?;
        let last = inspected.last;
        // One whose header cannot be read leads nowhere; its file goes with the next checkpoint.
        let checkpoints = inspected
            .bases
            .iter()
            .chain(&inspected.kept)
            .filter_map(|lsn| checkpoint::facts(&self.options.dir, *lsn).ok())
            .collect();
        let shared = Arc::new(Shared::new(
            self.options.dir.clone(),
            database,
            inspected.segments,
            (last, end.next()),
            checkpoints,
            Bounds::of(self.options),
            lock,
        ));
        let store = SledStore::new(
            shared.clone(),
            watermark,
            self.options,
            (last, end.next()),
            verdict.base,
        );
        Ok(Opened {
            store: Box::new(store),
            reader: Arc::new(SledReader { shared }),
            checkpoint: inspected.checkpoint,
            last_lsn: last,
            next_lsn: end.next(),
            last_alive: mark.alive_at.max(inspected.latest),
            node_id: format_id(node_id),
            incarnation: format_id(incarnation),
            notes: self.notes,
            lost: verdict.lost,
        })
    }
}

/// 128 random bits. The standard library seeds its hashers from the system; an id needs no more
/// than not to be drawn twice.
fn random_id() -> u128 {
    let state = RandomState::new();
    let half = |salt: u64| u128::from(state.hash_one((salt, std::process::id())));
    (half(1) << 64 | half(2)).max(1)
}

/// An id in the usual groups.
fn format_id(id: u128) -> String {
    let digits = format!("{id:032x}");
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
