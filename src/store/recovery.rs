//! The way from a data directory to an open store, one rung after the other: lock, leftovers, free
//! space, open and inspect, mend ([`mend`]), compare with the watermark, decide.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::bases::Bounds;
use crate::store::db::{Database, damaged, guarded};
use crate::store::files::{self, DirLock};
use crate::store::inspect::{Inspected, inspect};
use crate::store::shared::{Shared, keys, set_checkpoint_aside};
use crate::store::sled_reader::SledReader;
use crate::store::sled_store::SledStore;
use crate::store::watermark::{self, Found, Watermark, WatermarkFile};
use crate::store::{
    Loss, LossCause, OnDamage, Opened, Progress, StoreError, StoreOptions, checkpoint, compact,
    migrate, reserve,
};
use crate::types::{Lsn, Millis};

#[path = "anew.rs"]
mod anew;
#[path = "losses.rs"]
mod losses;
#[path = "mend.rs"]
mod mend;

use anew::told;
use losses::{losses, mended_holes};

/// LSNs that are left out after a loss. More than can be given out between two syncs of the
/// watermark, so that none is given out twice.
const SKIP: u64 = 20_000;

/// Free space below which a store takes no changes, unless the options say otherwise, bytes.
const MIN_FREE: u64 = 256 << 20;

/// Opens the store; see [`super::open`].
pub(super) fn open(
    options: &StoreOptions,
    now_wall: Millis,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, StoreError> {
    files::create_dir(&options.dir)?;
    let lock = DirLock::take(&options.dir, options.lock_wait_ms, progress)?;
    compact::finish_interrupted(&options.dir)?;
    mend::finish_interrupted(&options.dir)?;
    let mut recovery = Recovery {
        options,
        now_wall,
        log: options.dir.join("log"),
        boot_id: watermark::boot_id(),
        mark: None,
        notes: Vec::new(),
        short_of_space: None,
        gave_back: false,
        progress,
    };
    let started = recovery.recover()?;
    recovery.start(started, lock)
}

/// What the comparison with the watermark says.
#[derive(Debug)]
pub(super) struct Verdict {
    /// The LSN before the next one.
    end: Lsn,
    /// The checkpoint that leads over the hole in front of the next LSN.
    base: Lsn,
    pub(super) lost: Option<Loss>,
    /// Holes that were found, besides what is missing at the end.
    holes: Vec<(Lsn, Lsn)>,
}

impl Verdict {
    /// All that is lost as one range: from the first hole to the end of the tail.
    fn told(&self) -> Option<Loss> {
        let (Some((first, _)), Some((_, last))) = (self.holes.first(), self.holes.last()) else {
            return self.lost.clone();
        };
        let tail = self.lost.as_ref();
        Some(Loss {
            first: *first,
            last: tail.map_or(*last, |lost| lost.last.max(*last)),
            cause: match tail {
                Some(lost) if lost.cause == LossCause::Accepted => LossCause::Accepted,
                _ => LossCause::HistoryOnly,
            },
        })
    }
}

/// A store that can be handed out.
struct Started {
    database: Database,
    inspected: Inspected,
    verdict: Verdict,
}

/// Why an attempt to open failed.
struct Failed {
    error: StoreError,
    /// Whether the database itself could be opened, so that parts of it can be read.
    was_open: bool,
}

struct Recovery<'a> {
    options: &'a StoreOptions,
    now_wall: Millis,
    log: PathBuf,
    boot_id: u128,
    /// The watermark of the run before, if there is a readable one.
    mark: Option<Watermark>,
    notes: Vec<String>,
    short_of_space: Option<StoreError>,
    /// Whether the space for this was given back.
    gave_back: bool,
    progress: &'a mut dyn FnMut(Progress),
}

impl Recovery<'_> {
    fn recover(&mut self) -> Result<Started, StoreError> {
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
        let log = self.log.clone();
        let notes = self.notes.len();
        match self.attempt(&log) {
            Ok((database, inspected)) => match self.judge_mended(&inspected) {
                Ok(verdict) => Ok(Started {
                    database,
                    inspected,
                    verdict,
                }),
                Err(damage) if self.options.on_damage == OnDamage::KeepRest => {
                    if inspected.mended.is_none() {
                        self.notes
                            .push(format!("kept what is left: {}", told(&damage)));
                    }
                    let verdict = self.accept(&inspected);
                    Ok(Started {
                        database,
                        inspected,
                        verdict,
                    })
                }
                Err(damage) => {
                    drop(inspected);
                    database.let_go(Vec::new())?;
                    self.give_up(damage)
                }
            },
            Err(Failed {
                error: damage @ StoreError::Damaged { .. },
                was_open,
            }) => {
                self.notes.truncate(notes);
                self.mend(damage, was_open)
            }
            Err(other) => Err(reserve::explain(other.error, &self.log)),
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

    /// Compares the free space with what is to be left. A store that is short of it is refused, or
    /// opened for reading on: what is there is whole.
    fn check_free_space(&mut self) -> Result<(), StoreError> {
        let needed = self.options.min_free_bytes.unwrap_or_else(|| {
            let file_bytes = fs::metadata(self.log.join("db")).map_or(0, |facts| facts.len());
            let volume = files::volume(&self.options.dir);
            let tenth = volume.map_or(u64::MAX, |volume| volume.total / 10);
            MIN_FREE.max(file_bytes / 4).min(tenth)
        });
        let set_aside = if reserve::is_for(self.options) {
            reserve::missing(&self.options.dir, &self.log)
        } else {
            0
        };
        match files::require_space(
            &self.options.dir,
            needed.saturating_add(set_aside),
            "to be left (eurekad.store-min-free)",
        ) {
            Err(short) if self.options.opens_when_short => {
                self.short_of_space = Some(short);
                self.gave_back = reserve::give_back(&self.options.dir, &self.log);
                Ok(())
            }
            compared => compared,
        }
    }

    fn attempt(&mut self, log: &Path) -> Result<(Database, Inspected), Failed> {
        (self.progress)(Progress::Opening);
        let failed = |was_open| move |error| Failed { error, was_open };
        let database = Database::open(log, self.options.cache_bytes).map_err(failed(false))?;
        let inspected = migrate::run(&database, self.progress)
            .and_then(|()| inspect(&database, &self.options.dir, &mut self.notes, self.progress));
        match inspected {
            Ok(inspected) => Ok((database, inspected)),
            Err(error) => {
                database.let_go(Vec::new()).map_err(failed(false))?;
                Err(Failed {
                    error,
                    was_open: true,
                })
            }
        }
    }

    fn judge(&self, inspected: &Inspected) -> Result<Verdict, StoreError> {
        judge(self.mark, self.boot_id, inspected)
    }

    /// As [`Recovery::judge`]; if the log was mended and what it had at its end is not known, that was
    /// accepted when it was.
    fn judge_mended(&self, inspected: &Inspected) -> Result<Verdict, StoreError> {
        let mut verdict = self.judge(inspected)?;
        let Some(mended) = &inspected.mended else {
            return Ok(verdict);
        };
        if mended.is_cut {
            return Ok(self.accept(inspected));
        }
        verdict.holes = mended_holes(inspected);
        Ok(verdict)
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
                last: last.max(end.next()),
                cause: LossCause::Accepted,
            }),
            holes: mended_holes(inspected),
        }
    }

    /// Notes who the node is and where the log goes on, and hands out the store.
    fn start(mut self, started: Started, lock: DirLock) -> Result<Opened, StoreError> {
        let Started {
            database,
            inspected,
            verdict,
        } = started;
        let mark = self.mark.unwrap_or_default();
        let known = |id: u128| (id != 0).then_some(id);
        let node_id = inspected
            .node_id
            .or_else(|| known(mark.node_id))
            .unwrap_or_else(random_id);
        let incarnation = match inspected.incarnation {
            Some(incarnation) if verdict.told().is_none() => incarnation,
            _ => random_id(),
        };
        let end = verdict.end;
        let mut batch = sled::Batch::default();
        batch.insert(keys::NODE_ID, &node_id.to_le_bytes());
        batch.insert(keys::INCARNATION, &incarnation.to_le_bytes());
        batch.insert(keys::TAIL, &inspected.last.0.to_le_bytes());
        batch.insert(keys::FLOOR, &end.next().0.to_le_bytes());
        batch.insert(keys::BASE, &verdict.base.0.to_le_bytes());
        batch.remove(keys::MENDED);
        let losses = losses(&inspected, &verdict, self.now_wall, &mut batch);
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
        mend::remove_replaced(&self.options.dir)?;
        if self.gave_back {
            reserve::keep_rest(&self.options.dir, &self.log);
        } else if self.short_of_space.is_none() && reserve::is_for(self.options) {
            reserve::keep(&self.options.dir, &self.log);
        }
        if let Some(mended) = &inspected.mended {
            self.notes.push(mended.note.clone());
        }
        // Not before: what is looked at on the way here may be given up again with its notes, and a start
        // that is refused changes nothing.
        for (lsn, error) in &inspected.damaged {
            set_checkpoint_aside(&self.options.dir, *lsn)?;
            self.notes
                .push(format!("set aside a damaged checkpoint: {error}"));
        }
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
            losses,
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
            lost: verdict.told(),
            short_of_space: self.short_of_space,
        })
    }
}

/// Compares what is there with what was promised: the watermark of the run before, if it can be read.
///
/// # Errors
/// [`StoreError::Damaged`] if acknowledged records are missing.
pub(super) fn judge(
    mark: Option<Watermark>,
    boot_id: u128,
    inspected: &Inspected,
) -> Result<Verdict, StoreError> {
    let (end, covered) = (inspected.end(), inspected.covered());
    let mark = mark.unwrap_or_default();
    let promised = mark.promised(boot_id).max(inspected.tail);
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
            holes: Vec::new(),
        }
    } else if mark.may_have_told_more(end, boot_id) {
        let lost = loss(LossCause::NotSynced, last);
        Verdict {
            end: skipped,
            base: inspected.base,
            lost,
            holes: Vec::new(),
        }
    } else {
        Verdict {
            end,
            base: inspected.base,
            lost: None,
            holes: Vec::new(),
        }
    })
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
