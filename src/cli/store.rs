//! `eurekad store check`, `repair`, `stats` and `compact`: the store of a stopped node.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::args::{CheckArgs, CompactArgs, RepairArgs, RepairMode, StatsArgs};
use super::failure::{Exit, Failure, Outcome};
use super::offline;
use super::screen::{Cell, Paint, Screen, Table};
use super::text::{rfc3339, size};
use crate::history::entry::event_word;
use crate::store::{
    self, Loss, OnDamage, Progress, Rehearsed, Severity, StoreError, StoreOptions, Survey,
};

/// `store check`.
pub(super) fn check(arguments: &CheckArgs, screen: &mut Screen) -> Outcome {
    let temp_dir = temp_dir(arguments.temp_dir.as_deref());
    let found = store::check(&arguments.dir.data_dir, &temp_dir, &mut |step| {
        show_progress(&step, screen);
    });
    let found = found.map_err(unreadable)?;
    let is_sound = found.worst() == Severity::Note;
    if arguments.json {
        let mut document = document(&found);
        document["sound"] = is_sound.into();
        document["lost"] = found
            .lost
            .iter()
            .map(|(first, last)| json!({"first_lsn": first.0, "last_lsn": last.0}))
            .collect();
        screen.document(document.to_string().as_bytes())?;
    } else {
        show_findings(&found, screen)?;
        let verdict = match found.worst() {
            Severity::Note => "sound",
            Severity::Mendable if found.acknowledged.is_none() => {
                "damaged, but the next start mends it; whether the newest changes are missing cannot \
                 be told"
            }
            Severity::Mendable => "damaged, but nothing is lost: the next start mends it",
            Severity::History if found.lost.is_empty() => {
                "the registry is whole and the server starts, but its history is not what it should be"
            }
            Severity::History => {
                "the registry is whole and the server starts, but a part of the history is lost"
            }
            Severity::State => "damaged: the server does not start on it as it is",
        };
        let records = found.records;
        screen.line(&format!(
            "{}: {verdict} ({records} records, lsn {} to {}, {} checkpoints)",
            arguments.dir.data_dir.display(),
            found.segments.first().map_or(0, |segment| segment.first.0),
            found.segments.last().map_or(0, |segment| segment.last.0),
            found.checkpoints.len(),
        ))?;
    }
    Ok(if is_sound { Exit::Done } else { Exit::No })
}

/// The words for a store that cannot be looked at.
fn unreadable(error: StoreError) -> Failure {
    match &error {
        StoreError::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::refused(format!(
                "there is no store in {}: --data-dir names the data directory",
                path.display()
            ))
        }
        // These commands cannot ask a server.
        StoreError::Locked { dir, pid } => Failure::refused(format!(
            "a running eurekad{} has {}: stop it first",
            pid.map_or_else(String::new, |pid| format!(" (pid {pid})")),
            dir.display()
        )),
        _ => error.into(),
    }
}

fn show_findings(found: &Survey, screen: &mut Screen) -> Result<(), Failure> {
    if found.findings.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["SEVERITY", "WHERE", "WHAT", "WAY OUT"]);
    for finding in &found.findings {
        let paint = match finding.severity {
            Severity::Note => Paint::Dim,
            Severity::Mendable | Severity::History => Paint::Yellow,
            Severity::State => Paint::Red,
        };
        table.row([
            Cell::painted(finding.severity.as_str(), paint),
            Cell::new(&finding.place),
            Cell::new(&finding.what),
            Cell::new(&finding.way_out),
        ]);
    }
    screen.table(&table)?;
    screen.line("")
}

/// `store repair`.
pub(super) fn repair(arguments: &RepairArgs, screen: &mut Screen) -> Outcome {
    let dir = &arguments.dir.data_dir;
    if !arguments.dry_run && !arguments.yes {
        return Err(Failure::usage(
            "a repair may give up records that cannot be read: try it with --dry-run, do it with --yes",
        ));
    }
    offline::check_there(dir)?;
    let now = offline::now();
    let options = StoreOptions {
        on_damage: match arguments.mode {
            RepairMode::KeepRest => OnDamage::KeepRest,
            RepairMode::MoveAside => OnDamage::MoveAside,
        },
        ..offline::options(dir)
    };
    let done = if arguments.dry_run {
        let temp_dir = temp_dir(arguments.temp_dir.as_deref());
        store::rehearse(&options, now, &temp_dir, &mut |step| {
            show_progress(&step, screen);
        })
        .map_err(unreadable)?
    } else {
        offline::check_owner(dir)?;
        let opened = store::open(&options, now, &mut |step| show_progress(&step, screen))
            .map_err(unreadable)?;
        let done = Rehearsed::of(&opened);
        let alive = opened.last_alive;
        drop(opened.reader);
        opened.store.close(alive)?;
        done
    };
    tell_mended(&done.notes, done.lost.as_ref(), screen)?;
    let is_clean = done.notes.is_empty() && done.lost.is_none();
    screen.line(match (is_clean, arguments.dry_run) {
        (true, _) => "there is nothing to repair",
        (false, true) => "this is what would be done; nothing has been changed",
        (false, false) => "done: the server can be started",
    })?;
    Ok(Exit::Done)
}

/// What was mended, and what that lost.
fn tell_mended(notes: &[String], lost: Option<&Loss>, screen: &mut Screen) -> Result<(), Failure> {
    for note in notes {
        screen.line(note)?;
    }
    if let Some(lost) = lost {
        screen.line(&lost.to_string())?;
    }
    Ok(())
}

/// `store stats`.
pub(super) fn stats(arguments: &StatsArgs, screen: &mut Screen) -> Outcome {
    let dir = &arguments.dir.data_dir;
    let found = store::stats(dir, &std::env::temp_dir(), &mut |step| {
        show_progress(&step, screen);
    })
    .map_err(unreadable)?;
    if arguments.json {
        screen.document(document(&found).to_string().as_bytes())?;
        return Ok(Exit::Done);
    }
    let when = |ms: Option<u64>, screen: &Screen| {
        ms.filter(|ms| *ms > 0 && *ms < u64::MAX)
            .map_or_else(|| "-".to_owned(), |ms| screen.moments.show_ms(ms))
    };
    let mut segments = Table::new(&["SEGMENT", "LAST LSN", "RECORDS", "SIZE", "FROM", "TO"]);
    for segment in &found.segments {
        segments.row([
            Cell::new(segment.first),
            Cell::new(segment.last),
            Cell::new((segment.last.0 + 1).saturating_sub(segment.first.0)),
            Cell::new(size(segment.bytes)),
            Cell::new(when(Some(segment.earliest.0), screen)),
            Cell::new(when(Some(segment.latest.0), screen)),
        ]);
    }
    screen.table(&segments)?;
    screen.line("")?;
    let mut kinds = Table::new(&["KIND", "RECORDS", "SIZE", "PER RECORD"]);
    for (kind, facts) in &found.kinds {
        kinds.row([
            Cell::new(event_word(*kind)),
            Cell::new(facts.records),
            Cell::new(size(facts.bytes)),
            Cell::new(size(facts.bytes / facts.records.max(1))),
        ]);
    }
    screen.table(&kinds)?;
    screen.line("")?;
    let mut checkpoints = Table::new(&["CHECKPOINT", "TAKEN", "LEASES", "OVERRIDES", "SIZE"]);
    for facts in &found.checkpoints {
        checkpoints.row([
            Cell::new(facts.lsn),
            Cell::new(when(facts.at.map(|at| at.0), screen)),
            Cell::new(facts.leases),
            Cell::new(facts.overrides),
            Cell::new(size(facts.bytes)),
        ]);
    }
    screen.table(&checkpoints)?;
    screen.line("")?;
    let oldest = found
        .segments
        .iter()
        .map(|segment| segment.earliest.0)
        .min();
    for (label, value) in [
        ("records", found.records.to_string()),
        ("oldest change", when(oldest, screen)),
        (
            "last known alive",
            when(found.alive_at.map(|at| at.0), screen),
        ),
        ("log", size(found.log_bytes())),
        ("database file", size(found.file_bytes)),
    ] {
        screen.line(&format!("{label:<18}{value}"))?;
    }
    if found.worst() > Severity::Note {
        screen.note("something is wrong with this store: eurekad store check");
    }
    Ok(Exit::Done)
}

/// A survey as one JSON document.
fn document(found: &Survey) -> Value {
    let time = |ms: u64| rfc3339(ms).filter(|_| ms > 0);
    json!({
        "records": found.records,
        "first_lsn": found.segments.first().map(|segment| segment.first.0),
        "last_lsn": found.segments.last().map(|segment| segment.last.0),
        "oldest": found.segments.iter().map(|segment| segment.earliest.0).min().and_then(time),
        "acknowledged_lsn": found.acknowledged.map(|lsn| lsn.0),
        "alive_at": found.alive_at.and_then(|at| time(at.0)),
        "log_bytes": found.log_bytes(),
        "file_bytes": found.file_bytes,
        "segments": found.segments.iter().map(|segment| json!({
            "first_lsn": segment.first.0,
            "last_lsn": segment.last.0,
            "bytes": segment.bytes,
            "earliest": time(segment.earliest.0),
            "latest": time(segment.latest.0),
        })).collect::<Vec<_>>(),
        "kinds": found.kinds.iter().map(|(kind, facts)| (
            event_word(*kind).to_owned(),
            json!({"records": facts.records, "bytes": facts.bytes}),
        )).collect::<serde_json::Map<_, _>>(),
        "checkpoints": found.checkpoints.iter().map(|facts| json!({
            "lsn": facts.lsn.0,
            "at": facts.at.and_then(|at| time(at.0)),
            "leases": facts.leases,
            "overrides": facts.overrides,
            "bytes": facts.bytes,
            "readable": facts.at.is_some(),
        })).collect::<Vec<_>>(),
        "findings": found.findings.iter().map(|finding| json!({
            "severity": finding.severity.as_str(),
            "place": finding.place,
            "what": finding.what,
            "way_out": finding.way_out,
        })).collect::<Vec<_>>(),
    })
}

/// `store compact`.
pub(super) fn compact(arguments: &CompactArgs, screen: &mut Screen) -> Outcome {
    let dir = &arguments.dir.data_dir;
    offline::check_there(dir)?;
    offline::check_owner(dir)?;
    let options = StoreOptions {
        min_free_bytes: None,
        ..offline::options(dir)
    };
    let done = store::compact(&options, offline::now(), &mut |step| {
        show_progress(&step, screen);
    })
    .map_err(unreadable)?;
    screen.line(&format!(
        "{}: {} before, {} now",
        dir.display(),
        size(done.before),
        size(done.after)
    ))?;
    tell_mended(&done.notes, done.lost.as_ref(), screen)?;
    Ok(Exit::Done)
}

/// Tells what a store is busy with.
pub(super) fn show_progress(step: &Progress, screen: &mut Screen) {
    let text = match step {
        Progress::WaitingForLock { pid: Some(pid) } => {
            format!("waiting for process {pid} to leave the directory")
        }
        Progress::WaitingForLock { pid: None } => {
            "waiting for another process to leave the directory".to_owned()
        }
        Progress::Copying { done, of } => format!("copying, {} of {}", size(*done), size(*of)),
        Progress::Opening => "opening the store".to_owned(),
        Progress::Mending(what) => format!("mending: {what}"),
        Progress::Migrating { name, done } => format!("migrating: {name}, batch {done}"),
        Progress::Salvaging { records } => format!("{records} records are saved"),
        Progress::Verifying { records } => format!("{records} records are read"),
        Progress::LoadingCheckpoint { lsn } => format!("loading the checkpoint at lsn {lsn}"),
    };
    screen.progress(&text);
}

fn temp_dir(given: Option<&Path>) -> PathBuf {
    given.map_or_else(std::env::temp_dir, Path::to_path_buf)
}
