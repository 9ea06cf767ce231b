//! Checks and reads a store that is not in use, and changes nothing in it.
//!
//! sled cannot be opened without writing (its recovery alone does), so the database is copied into a
//! temporary directory first and looked through there; checkpoints, watermark and lock are read in
//! place. What a start would do is tried on another copy, by the code that does it: the verdict of a
//! check is that of a start.

use std::path::{Path, PathBuf};

use crate::store::db::Database;
use crate::store::files::{self, DirLock};
use crate::store::finding::{Finding, Severity, Survey};
use crate::store::inspect::Inspected;
use crate::store::lost::lost;
use crate::store::recovery::judge;
use crate::store::scratch::{Scratch, database_files};
use crate::store::survey::{survey, survey_checkpoints};
use crate::store::watermark::{self, Found};
use crate::store::{
    LogReader, LossCause, OnDamage, Opened, Progress, StoreError, StoreOptions, checkpoint,
    migrate, recovery,
};
use crate::types::{Lsn, Millis};

/// The moment of a rehearsal: no start is that old, so what it notices is told from what others did.
const NOW: Millis = Millis::ZERO;
/// Ranges of lost records that are told one by one.
const LOST_TOLD_MAX: usize = 20;

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
    let log = find_log(dir);
    if !log.join("db").exists() {
        let mut found = without_database(dir, leftovers, progress)?;
        compare_with_watermark(dir, &mut found)?;
        settle(dir, temp_dir, &mut found, progress)?;
        return Ok(found);
    }
    let mut found = survey_somehow(dir, &log, temp_dir, progress)?;
    found.findings.splice(0..0, leftovers.findings);
    compare_with_watermark(dir, &mut found)?;
    settle(dir, temp_dir, &mut found, progress)?;
    Ok(found)
}

/// Looks through a copy; if it cannot be opened, through one without what sled can rebuild.
fn survey_somehow(
    dir: &Path,
    log: &Path,
    temp_dir: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, StoreError> {
    let found = survey_copy(dir, log, temp_dir, false, progress)?;
    if found.records == 0 && found.worst() == Severity::State && has_snapshots(log)? {
        let second = survey_copy(dir, log, temp_dir, true, progress)?;
        if second.records > 0 || second.worst() < Severity::State {
            return Ok(second);
        }
    }
    Ok(found)
}

/// Makes the findings agree with what a start that refuses damage does.
fn settle(
    dir: &Path,
    temp_dir: &Path,
    found: &mut Survey,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let options = StoreOptions {
        on_damage: OnDamage::Refuse,
        lock_wait_ms: 0,
        ..StoreOptions::new(dir)
    };
    let is_suspect = found.worst() > Severity::Note;
    let tried = rehearse_copy(&options, NOW, temp_dir, progress, |rehearsed, reader| {
        if !is_suspect && rehearsed.notes.is_empty() && rehearsed.lost.is_none() {
            return Ok(Vec::new());
        }
        lost(reader, NOW)
    });
    let (rehearsed, lost) = match tried {
        Ok(tried) => tried,
        Err(StoreError::Damaged { place, cause, .. }) => {
            if found.worst() < Severity::State {
                found.find(Severity::State, place, cause);
            }
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    // The start goes on: the registry is whole, whatever the survey came upon, and what it came upon in the
    // history is lost only if it is not among what the start saves.
    let is_lost =
        |(first, last): (Lsn, Lsn)| lost.iter().any(|lost| lost.0 <= last && first <= lost.1);
    for finding in &mut found.findings {
        let severity = match (finding.severity, finding.lsns) {
            (Severity::State | Severity::History, Some(lsns)) if is_lost(lsns) => Severity::History,
            (Severity::State | Severity::History, Some(_)) => Severity::Mendable,
            (Severity::State, None) => Severity::Mendable,
            (severity, _) => severity,
        };
        *finding = finding.with_severity(severity);
    }
    if found.worst() < Severity::Mendable {
        for note in &rehearsed.notes {
            found.find(Severity::Mendable, "log", note);
        }
    }
    for (first, last) in lost.iter().take(LOST_TOLD_MAX) {
        let lsns = Some((*first, *last));
        let is_told =
            |finding: &Finding| finding.severity == Severity::History && finding.lsns == lsns;
        if !found.findings.iter().any(is_told) {
            let what = "lost: the next start goes on without, and nothing can read it";
            let place = range_name(*first, *last);
            found.find_records((*first, *last), Severity::History, place, what);
        }
    }
    if lost.len() > LOST_TOLD_MAX {
        let what = format!(
            "{} more pieces of the history are lost",
            lost.len() - LOST_TOLD_MAX
        );
        found.find(Severity::History, "log", what);
    }
    found.lost = lost;
    Ok(())
}

fn range_name(first: Lsn, last: Lsn) -> String {
    if first == last {
        format!("lsn {first}")
    } else {
        format!("lsn {first} to {last}")
    }
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
    rehearse_copy(options, now_wall, temp_dir, progress, |_, _| Ok(()))
        .map(|(rehearsed, ())| rehearsed)
}

/// Tries it, and lets `look` at what is open then.
fn rehearse_copy<T>(
    options: &StoreOptions,
    now_wall: Millis,
    temp_dir: &Path,
    progress: &mut dyn FnMut(Progress),
    look: impl FnOnce(&Rehearsed, &dyn LogReader) -> Result<T, StoreError>,
) -> Result<(Rehearsed, T), StoreError> {
    let (scratch, opened) = open_scratch(options, now_wall, temp_dir, progress)?;
    let mut rehearsed = Rehearsed::of(&opened);
    let (copy, dir) = (
        scratch.path().display().to_string(),
        options.dir.display().to_string(),
    );
    for note in &mut rehearsed.notes {
        *note = note.replace(&copy, &dir);
    }
    if let Some(lost) = &mut rehearsed.lost
        && let LossCause::MovedAside(path) = &mut lost.cause
        && let Ok(name) = path.strip_prefix(scratch.path())
    {
        *path = options.dir.join(name);
    }
    let seen = look(&rehearsed, &*opened.reader)?;
    let alive = opened.last_alive;
    drop(opened.reader);
    opened.store.close(alive)?;
    Ok((rehearsed, seen))
}

/// Opens a copy in `temp_dir` of the store in the directory of `options`, which must not be in use and
/// is left as it is. The copy goes with the [`Scratch`].
///
/// # Errors
/// Those of [`super::open`]; the store is in use, or there is no space for the copy.
pub fn open_copy(
    options: &StoreOptions,
    now_wall: Millis,
    temp_dir: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Scratch, Opened), StoreError> {
    let _lock = DirLock::look(&options.dir)?;
    open_scratch(options, now_wall, temp_dir, progress)
}

fn open_scratch(
    options: &StoreOptions,
    now_wall: Millis,
    temp_dir: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Scratch, Opened), StoreError> {
    let dir = &options.dir;
    let scratch = Scratch::create(temp_dir)?;
    let mut files = Vec::new();
    for path in files::list(dir, |name| {
        name == "watermark" || name.starts_with("checkpoint-")
    })? {
        if let Some(name) = path.file_name() {
            files.push((path.clone(), PathBuf::from(name)));
        }
    }
    let log = find_log(dir);
    for path in [log, dir.join("index")] {
        if let Some(name) = path.file_name() {
            files.extend(database_files(&path, Path::new(name))?);
        }
    }
    scratch.copy(&files, progress)?;
    let options = StoreOptions {
        dir: scratch.path().to_path_buf(),
        min_free_bytes: Some(0),
        ..options.clone()
    };
    match recovery::open(&options, now_wall, progress) {
        Ok(opened) => Ok((scratch, opened)),
        Err(error) => Err(in_place(error, dir, scratch.path())),
    }
}

/// An error about a copy in the words of the original.
fn in_place(error: StoreError, dir: &Path, copy: &Path) -> StoreError {
    let (dir, copy) = (dir.display().to_string(), copy.display().to_string());
    match error {
        StoreError::Damaged {
            place,
            cause,
            way_out,
        } => StoreError::Damaged {
            place: place.replace(&copy, &dir),
            cause: cause.replace(&copy, &dir),
            way_out: way_out.replace(&copy, &dir),
        },
        other => other,
    }
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
            "log.rebuilt" | "log.salvaged" | "log.mended" | "log.replaced" => {
                "an interrupted mending; the next start undoes or finishes it"
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
fn without_database(
    dir: &Path,
    mut survey: Survey,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, StoreError> {
    let is_begun = dir.join("watermark").exists() || !checkpoint::list(dir)?.is_empty();
    if !is_begun {
        return Err(StoreError::Io {
            attempt: "find a store".into(),
            path: dir.to_path_buf(),
            source: std::io::ErrorKind::NotFound.into(),
        });
    }
    survey.find(Severity::State, "log/db", "the database is missing");
    survey_checkpoints(dir, &mut survey, progress)?;
    Ok(survey)
}

/// The database, which an interrupted compaction or mending may have left elsewhere.
fn find_log(dir: &Path) -> PathBuf {
    ["log", "log.compacted", "log.mended"]
        .iter()
        .map(|name| dir.join(name))
        .find(|log| log.exists())
        .unwrap_or_else(|| dir.join("log"))
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
    let database = match Database::open(&scratch.path().join("log"), 16 << 20) {
        Ok(database) => database,
        Err(StoreError::Damaged { cause, .. }) => {
            return only_checkpoints(dir, "log/db", cause, progress);
        }
        Err(other) => return Err(other),
    };
    let looked = migrate::run(&database, progress).and_then(|()| survey(&database, dir, progress));
    let let_go = database.let_go(Vec::new());
    match looked {
        Err(StoreError::Damaged { place, cause, .. }) => {
            only_checkpoints(dir, place, cause, progress)
        }
        Ok(found) => let_go.map(|()| found),
        Err(other) => Err(other),
    }
}

/// What there is if nothing of the log can be read.
fn only_checkpoints(
    dir: &Path,
    place: impl Into<String>,
    cause: String,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, StoreError> {
    let mut found = Survey::default();
    found.find(Severity::State, place, cause);
    survey_checkpoints(dir, &mut found, progress)?;
    Ok(found)
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
                LossCause::HistoryOnly => {
                    let what =
                        "missing at the end of the log; a checkpoint has the registry as it was";
                    survey.find_records((lost.first, lost.last), Severity::History, place, what);
                }
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

/// What a store that is not in use holds, looked at in a copy as [`check`] does, but not compared with
/// what a start does.
///
/// # Errors
/// As [`check`].
pub fn stats(
    dir: &Path,
    temp_dir: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, StoreError> {
    let _lock = DirLock::look(dir)?;
    let log = find_log(dir);
    let mut found = if log.join("db").exists() {
        survey_somehow(dir, &log, temp_dir, progress)?
    } else {
        without_database(dir, Survey::default(), progress)?
    };
    compare_with_watermark(dir, &mut found)?;
    Ok(found)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
