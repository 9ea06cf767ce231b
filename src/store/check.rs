//! Checks a store that is not in use, and changes nothing in it.
//!
//! sled cannot be opened without writing (its recovery alone does), so the database is copied into a
//! temporary directory first and looked through there; checkpoints, watermark and lock are read in
//! place.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::store::db::Database;
use crate::store::files::{self, DirLock};
use crate::store::finding::Severity;
use crate::store::inspect::Inspected;
use crate::store::recovery::judge;
use crate::store::survey::{Survey, survey};
use crate::store::watermark::{self, Found};
use crate::store::{
    LossCause, OnDamage, Opened, Progress, StoreError, StoreOptions, migrate, recovery,
};
use crate::types::Millis;

/// Bytes copied between two reports of progress.
const STEP: u64 = 16 << 20;
/// Free space that has to be left beside a copy, bytes: opening it writes a little.
const SPARE: u64 = 32 << 20;

/// Looks through the whole store in `dir`. The copy is put into `temp_dir` and removed again.
///
/// # Errors
/// The store is in use, there is none, it cannot be read, or there is no space for the copy. What is
/// wrong with the store itself is no error but a [`super::Finding`].
pub fn check(
    dir: &Path,
    temp_dir: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, StoreError> {
    let _lock = DirLock::look(dir)?;
    let mut leftovers = Survey::default();
    find_leftovers(dir, &mut leftovers)?;
    let log = match (dir.join("log"), dir.join("log.compacted")) {
        (log, original) if !log.exists() && original.exists() => original,
        (log, _) => log,
    };
    if !log.join("db").exists() {
        return without_database(dir, leftovers);
    }
    let mut found = survey_copy(dir, &log, temp_dir, false, progress)?;
    if found.worst() == Severity::State && has_snapshots(&log)? {
        // A start tries once more without what sled can rebuild.
        let mut second = survey_copy(dir, &log, temp_dir, true, progress)?;
        if second.worst() < Severity::State {
            let what = found
                .findings
                .iter()
                .find(|finding| finding.severity == Severity::State)
                .map_or_else(String::new, |finding| finding.what.clone());
            second.find(
                Severity::Mendable,
                "log/snap.*, log/conf",
                format!("they have to be rebuilt: {what}"),
            );
            found = second;
        }
    }
    found.findings.splice(0..0, leftovers.findings);
    compare_with_watermark(dir, &mut found)?;
    Ok(found)
}

/// Tries on a copy in `temp_dir` what opening with `options` would do, and tells what it did. The
/// directory of `options` is left as it is.
///
/// # Errors
/// Those of [`super::open`]; the store is in use, or there is no space for the copy.
pub fn rehearse(
    options: &StoreOptions,
    now_wall: Millis,
    temp_dir: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rehearsed, StoreError> {
    let _lock = DirLock::look(&options.dir)?;
    let scratch = Scratch::create(temp_dir)?;
    let mut files = Vec::new();
    for path in files::list(&options.dir, |name| {
        name == "watermark" || name.starts_with("checkpoint-")
    })? {
        if let Some(name) = path.file_name() {
            files.push((path.clone(), PathBuf::from(name)));
        }
    }
    files.extend(database_files(&options.dir.join("log"), Path::new("log"))?);
    scratch.copy(&files, progress)?;
    let opened = recovery::open(
        &StoreOptions {
            dir: scratch.path.clone(),
            min_free_bytes: 0,
            ..options.clone()
        },
        now_wall,
        progress,
    )?;
    let rehearsed = Rehearsed::of(&opened);
    let alive = opened.last_alive;
    drop(opened.reader);
    opened.store.close(alive)?;
    Ok(rehearsed)
}

/// What opening a store did to it, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    /// What was mended.
    pub notes: Vec<String>,
    pub lost: Option<crate::store::Loss>,
}

impl Rehearsed {
    pub fn of(opened: &Opened) -> Self {
        Self {
            notes: opened.notes.clone(),
            lost: opened.lost.clone(),
        }
    }
}

/// What an interrupted write, a mending or an operator left lying in the directory.
fn find_leftovers(dir: &Path, survey: &mut Survey) -> Result<(), StoreError> {
    let extension_is =
        |name: &str, wanted: &str| Path::new(name).extension().is_some_and(|e| e == wanted);
    for path in files::list(dir, |_| true)? {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name else { continue };
        let what = match name.as_str() {
            "log.compacting" | "log.compacted" => {
                "an interrupted compaction; the next start undoes or finishes it"
            }
            "log.before-mending" => "a copy from before a mending; may be removed",
            name if name.starts_with("quarantine-") => {
                "a damaged store that was moved aside; may be removed"
            }
            name if name.starts_with("checkpoint-") && extension_is(name, "tmp") => {
                "an unfinished checkpoint; the next start removes it"
            }
            name if name.starts_with("checkpoint-") && extension_is(name, "damaged") => {
                "a damaged checkpoint that was set aside; goes with the next one"
            }
            _ => continue,
        };
        survey.find(Severity::Note, name, what);
    }
    Ok(())
}

/// There is no database: nothing at all, or its checkpoints are all that is left.
fn without_database(dir: &Path, mut survey: Survey) -> Result<Survey, StoreError> {
    let is_begun =
        dir.join("watermark").exists() || !crate::store::checkpoint::list(dir)?.is_empty();
    if !is_begun {
        return Err(StoreError::Io {
            attempt: "find a store".into(),
            path: dir.to_path_buf(),
            source: std::io::ErrorKind::NotFound.into(),
        });
    }
    survey.find(Severity::State, "log/db", "the database is missing");
    Ok(survey)
}

fn has_snapshots(log: &Path) -> Result<bool, StoreError> {
    let found = files::list(log, |name| name.starts_with("snap.") || name == "conf")?;
    Ok(!found.is_empty())
}

/// Copies the database, opens the copy and looks through it.
fn survey_copy(
    dir: &Path,
    log: &Path,
    temp_dir: &Path,
    without_snapshots: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, StoreError> {
    let scratch = Scratch::create(temp_dir)?;
    let is_wanted = |to: &Path| {
        let name = to.file_name().unwrap_or_default().to_string_lossy();
        let is_snapshot = name.starts_with("snap.");
        let is_half = is_snapshot && name.ends_with(".generating");
        !is_half && !(without_snapshots && (is_snapshot || name == "conf"))
    };
    let mut files = database_files(log, Path::new("log"))?;
    files.retain(|(_, to)| is_wanted(to));
    scratch.copy(&files, progress)?;
    progress(Progress::Opening);
    let database = match Database::open(&scratch.path.join("log"), 16 << 20) {
        Ok(database) => database,
        Err(StoreError::Damaged { cause, .. }) => {
            let mut found = Survey::default();
            found.find(Severity::State, "log/db", cause);
            return Ok(found);
        }
        Err(other) => return Err(other),
    };
    let looked = migrate::run(&database, progress).and_then(|()| survey(&database, dir, progress));
    let let_go = database.let_go(Vec::new());
    match looked {
        Err(StoreError::Damaged { place, cause, .. }) => {
            let mut found = Survey::default();
            found.find(Severity::State, place, cause);
            Ok(found)
        }
        Ok(found) => let_go.map(|()| found),
        Err(other) => Err(other),
    }
}

/// What is there against what was promised, as a start compares it.
fn compare_with_watermark(dir: &Path, survey: &mut Survey) -> Result<(), StoreError> {
    let mark = match watermark::read(dir)? {
        Found::Watermark(mark) => Some(mark),
        Found::Unreadable => {
            survey.find(
                Severity::Mendable,
                "watermark",
                "it cannot be read: whether records are missing at the end cannot be told",
            );
            None
        }
        Found::Nothing => {
            survey.find(
                Severity::Mendable,
                "watermark",
                "it is missing: whether records are missing at the end cannot be told",
            );
            None
        }
    };
    survey.acknowledged = mark.map(|mark| mark.acknowledged);
    survey.alive_at = mark.map(|mark| mark.alive_at);
    let inspected = Inspected {
        last: survey.last(),
        kept: survey.good_checkpoints(),
        tail: survey.tail,
        floor: survey.floor,
        ..Inspected::default()
    };
    match judge(mark, watermark::boot_id(), &inspected) {
        Ok(verdict) => {
            let Some(lost) = verdict.lost else {
                return Ok(());
            };
            let place = format!("lsn {} to {}", lost.first, lost.last);
            match lost.cause {
                LossCause::HistoryOnly => survey.find(
                    Severity::History,
                    place,
                    "missing at the end of the log; a checkpoint has the registry as it was",
                ),
                LossCause::NotSynced | LossCause::MovedAside(_) | LossCause::Accepted => survey
                    .find(
                        Severity::Note,
                        place,
                        "may have been acknowledged and lost with the machine, as \
                         eurekad.durability allows",
                    ),
            }
        }
        Err(StoreError::Damaged { place, cause, .. }) => {
            survey.find(Severity::State, place, cause);
        }
        Err(other) => return Err(other),
    }
    Ok(())
}

/// The files of a database and where they go, blobs included.
fn database_files(log: &Path, to: &Path) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    let mut all = Vec::new();
    for path in files::list(log, |_| true)? {
        let Some(name) = path.file_name() else {
            continue;
        };
        let to = to.join(name);
        if path.is_dir() {
            all.extend(database_files(&path, &to)?);
        } else {
            all.push((path, to));
        }
    }
    Ok(all)
}

/// A directory of one's own, removed when dropped.
#[derive(Debug)]
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn create(parent: &Path) -> Result<Self, StoreError> {
        let mut number = 0u32;
        loop {
            let path = parent.join(format!("eurekad-check-{}-{number}", std::process::id()));
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            {
                // A registry may hold what not everybody on the machine should read.
                use std::os::unix::fs::DirBuilderExt as _;
                builder.mode(0o700);
            }
            match builder.create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error)
                    if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 =>
                {
                    number += 1;
                }
                Err(error) => return Err(StoreError::io("create the directory", &path, error)),
            }
        }
    }

    /// Copies files, if there is space for them.
    fn copy(
        &self,
        files: &[(PathBuf, PathBuf)],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), StoreError> {
        let of: u64 = files
            .iter()
            .filter_map(|(from, _)| fs::metadata(from).ok())
            .map(|facts| facts.len())
            .sum();
        let needed = of.saturating_add(SPARE);
        if let Some(free) = files::free_bytes(&self.path).filter(|free| *free < needed) {
            return Err(StoreError::NoSpace {
                path: self.path.clone(),
                cause: format!(
                    "a copy takes {} MiB, {} MiB are free; --temp-dir names another place",
                    needed >> 20,
                    free >> 20
                ),
            });
        }
        let mut done = 0;
        let mut buffer = vec![0; 1 << 20];
        for (from, to) in files {
            let to = self.path.join(to);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)
                    .map_err(|error| StoreError::io("create the directory", parent, error))?;
            }
            let failed_to_read = |error| StoreError::io("read", from, error);
            let failed_to_write = |error| StoreError::io("write", &to, error);
            let mut source = File::open(from).map_err(failed_to_read)?;
            let mut target = File::create(&to).map_err(failed_to_write)?;
            loop {
                let read = source.read(&mut buffer).map_err(failed_to_read)?;
                if read == 0 {
                    break;
                }
                target.write_all(&buffer[..read]).map_err(failed_to_write)?;
                let before = done / STEP;
                done += read as u64;
                if done / STEP != before {
                    progress(Progress::Copying { done, of });
                }
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, "cannot remove {}", self.path.display());
        }
    }
}

/// What a store that is not in use holds. It is opened for that, as a start does.
///
/// # Errors
/// Those of [`super::open`].
pub fn stats(
    options: &StoreOptions,
    now_wall: Millis,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, StoreError> {
    let dir = &options.dir;
    if !dir.join("log").join("db").exists() && !dir.join("log.compacted").exists() {
        // Opening would make one.
        return without_database(dir, Survey::default());
    }
    let opened = recovery::open(
        &StoreOptions {
            on_damage: OnDamage::Refuse,
            ..options.clone()
        },
        now_wall,
        progress,
    )?;
    let alive = opened.last_alive;
    drop(opened.reader);
    opened.store.close(alive)?;
    let _lock = DirLock::take(dir, options.lock_wait_ms, progress)?;
    let database = Database::open(&dir.join("log"), options.cache_bytes)?;
    let looked = survey(&database, dir, progress);
    database.let_go(Vec::new())?;
    let mut found = looked?;
    compare_with_watermark(dir, &mut found)?;
    Ok(found)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
