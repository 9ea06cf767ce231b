//! Looks through an open database and all checkpoints to the end, whatever is wrong on the way, and
//! tells what there is and what is wrong with it.
//!
//! A start ([`super::inspect`]) stops at the first thing that it cannot go on with and leaves old
//! history alone; this is for the operator, who wants to know all of it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use sled::Tree;

use crate::store::db::{Database, damaged, guarded};
use crate::store::finding::{CheckpointFacts, Finding, Severity, Survey};
use crate::store::intern::Interner;
use crate::store::replayed::Replay;
use crate::store::segment::{self, Covered, Direction};
use crate::store::shared::keys;
use crate::store::sled_reader::decode;
use crate::store::v1::SegmentV1;
use crate::store::{Checkpoint, Progress, SegmentFacts, StoreError, checkpoint, record};
use crate::types::{Lsn, Millis};

/// Records between two reports of progress.
const REPORT_EVERY: u64 = 10_000;
/// Findings of one kind in one segment that are told one by one.
const TOLD_MAX: usize = 20;

/// Looks through everything. `dir` is where the checkpoints are.
///
/// # Errors
/// The disk failed, or something was written by a newer version.
pub(super) fn survey(
    database: &Database,
    dir: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, StoreError> {
    let mut survey = Survey {
        file_bytes: database.file_bytes(),
        ..Survey::default()
    };
    for (key, name) in [(keys::TAIL, "tail"), (keys::FLOOR, "floor")] {
        match meta_number(database, key) {
            Ok(number) if name == "tail" => survey.tail = Lsn(number),
            Ok(number) => survey.floor = Lsn(number),
            Err(error) => take(error, Severity::State, "the meta tree", &mut survey)?,
        }
    }
    let loaded = checkpoints(dir, &mut survey, progress)?;
    if database.blob_files() > 0 {
        survey.find(
            Severity::Note,
            "log/blobs",
            "the database put values beside its file, which it should not: report this",
        );
    }
    let mut replay = Replay::new(loaded);
    segments(database, &mut survey, &mut replay, progress)?;
    replay.compare(&mut survey);
    Ok(survey)
}

/// Files an error as a finding, unless nothing more can be found with it.
fn take(
    error: StoreError,
    severity: Severity,
    place: &str,
    survey: &mut Survey,
) -> Result<(), StoreError> {
    match error {
        StoreError::Damaged {
            place: at, cause, ..
        } => {
            let place = if at == "the log" || at == "the database" {
                place.to_owned()
            } else {
                at
            };
            survey.find(severity, place, cause);
            Ok(())
        }
        other => Err(other),
    }
}

/// Looks at the checkpoints alone.
///
/// # Errors
/// As [`survey`].
pub(super) fn survey_checkpoints(
    dir: &Path,
    survey: &mut Survey,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    checkpoints(dir, survey, progress).map(|_| ())
}

/// Loads every checkpoint and gives the good ones, oldest first.
fn checkpoints(
    dir: &Path,
    survey: &mut Survey,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Checkpoint>, StoreError> {
    let mut good = Vec::new();
    for lsn in checkpoint::list(dir)? {
        progress(Progress::LoadingCheckpoint { lsn });
        let mut facts = CheckpointFacts {
            lsn,
            at: None,
            leases: 0,
            overrides: 0,
            bytes: fs::metadata(checkpoint::path(dir, lsn)).map_or(0, |facts| facts.len()),
        };
        match checkpoint::load(dir, lsn) {
            Ok(loaded) => {
                facts.at = Some(loaded.at);
                facts.leases = loaded.leases.len() as u64;
                facts.overrides = loaded.overrides.len() as u64;
                good.push(loaded);
            }
            Err(error) => {
                // Whether another one can stand in shows later.
                let place = format!("checkpoint {lsn}");
                let cause = match error {
                    StoreError::Damaged { cause, .. } => cause,
                    other => return Err(other),
                };
                survey.find(Severity::Mendable, place, cause);
            }
        }
        survey.checkpoints.push(facts);
    }
    Ok(good)
}

/// Reads the facts and the trees of all segments, and walks through every record.
fn segments(
    database: &Database,
    survey: &mut Survey,
    replay: &mut Replay,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let mut facts: BTreeMap<Lsn, SegmentV1> = BTreeMap::new();
    let mut lacks_facts = false;
    let mut entries = database.meta.scan_prefix(keys::SEGMENT);
    loop {
        let (key, value) = match guarded("read the facts of the segments", || {
            entries.next().transpose()
        }) {
            Ok(None) => break,
            Ok(Some(entry)) => entry,
            // sled's iterator would repeat it for ever.
            Err(error) => {
                take(error, Severity::State, "the facts of the segments", survey)?;
                lacks_facts = true;
                break;
            }
        };
        match record::decode_segment(&value) {
            Ok(segment) => {
                facts.insert(Lsn(segment.first), segment);
            }
            Err(error) => {
                let name = String::from_utf8_lossy(&key).into_owned();
                survey.find(Severity::State, name, error.to_string());
                lacks_facts = true;
            }
        }
    }
    let mut trees: BTreeMap<Lsn, Tree> = BTreeMap::new();
    for name in guarded("list the trees", || Ok(database.db.tree_names()))? {
        let Some(first) = segment::parse_tree_name(&name) else {
            continue;
        };
        if !facts.contains_key(&first) {
            // Unless it is the facts that cannot be read, which was told.
            if !lacks_facts {
                survey.find(
                    Severity::Note,
                    format!("segment {first}"),
                    "it was being dropped; the next start finishes that",
                );
            }
            continue;
        }
        match guarded("open a segment", || database.db.open_tree(&name)) {
            Ok(tree) => {
                trees.insert(first, tree);
            }
            Err(error) => take(error, Severity::State, &format!("segment {first}"), survey)?,
        }
    }
    let good = survey.good_checkpoints();
    let kept = Kept {
        oldest: good
            .iter()
            .rev()
            .nth(1)
            .or(good.last())
            .copied()
            .unwrap_or_default(),
        newest: good.last().copied().unwrap_or_default(),
    };
    let mut walk = Walk {
        kept,
        survey,
        replay,
        progress,
        strings: Interner::default(),
        before: None,
    };
    let count = facts.len();
    let mut needed = Lsn::ZERO;
    for (place, (first, segment)) in facts.into_iter().enumerate() {
        if place == 0 {
            needed = needed.max(Lsn(segment.after));
        }
        needed = needed.max(Lsn(segment.base));
        let is_last = place + 1 == count;
        let Some(tree) = trees.get(&first) else {
            walk.survey.find_records(
                (first, Lsn(segment.last)),
                Severity::State,
                format!("segment {first}"),
                "its records are missing",
            );
            walk.before = None;
            continue;
        };
        walk.segment(&segment, tree, is_last)?;
    }
    if needed > kept.newest {
        let what = if survey.checkpoints.is_empty() {
            "there is no checkpoint"
        } else if good.is_empty() {
            "no checkpoint can be read"
        } else {
            "the checkpoints that can be read are too old"
        };
        survey.find(
            Severity::State,
            "the checkpoints",
            format!("{what}, but the log does not go back to before lsn {needed}"),
        );
    }
    Ok(())
}

/// The checkpoints that a start would use.
#[derive(Clone, Copy, Debug)]
struct Kept {
    oldest: Lsn,
    newest: Lsn,
}

struct Walk<'a> {
    kept: Kept,
    survey: &'a mut Survey,
    replay: &'a mut Replay,
    progress: &'a mut dyn FnMut(Progress),
    strings: Interner,
    /// The last record of the segment before.
    before: Option<Lsn>,
}

impl Walk<'_> {
    fn segment(&mut self, facts: &SegmentV1, tree: &Tree, is_last: bool) -> Result<(), StoreError> {
        let first = Lsn(facts.first);
        let place = format!("segment {first}");
        self.replay.begin_segment(facts);
        if let Some(before) = self.before
            && before.0 != facts.after
        {
            let severity = self.of_hole(first);
            self.survey.find_records(
                (before.next(), Lsn(facts.after)),
                severity,
                format!("lsn {}", before.next()),
                format!("the log has a hole in front of lsn {first}"),
            );
        }
        let mut covered = Covered::NOTHING;
        let mut expected = first;
        let mut told = 0;
        let mut untold: u64 = 0;
        let all = (Lsn::ZERO, Lsn(u64::MAX));
        let walked = segment::walk(tree, all, Direction::Up, &mut |lsn, bytes| {
            let mut finding = None;
            if lsn != expected {
                let severity = self.of_hole(expected);
                let what = if lsn > expected {
                    format!("missing up to lsn {}", lsn.0.saturating_sub(1))
                } else {
                    format!("lsn {lsn} stands there")
                };
                let last = Lsn(lsn.0.saturating_sub(1)).max(expected);
                let found = Finding::new(severity, format!("lsn {expected}"), what);
                finding = Some(found.about(expected, last));
            }
            let size = segment::stored_bytes(bytes.len());
            let mut at = Millis::ZERO;
            match decode(lsn, bytes, &mut self.strings) {
                Ok(record) => {
                    at = record.at;
                    let kind = self.survey.kinds.entry(record.change.event()).or_default();
                    kind.records += 1;
                    kind.bytes = kind.bytes.saturating_add(size as u64);
                    self.replay.take(&record);
                }
                Err(StoreError::Damaged { place, cause, .. }) => {
                    let severity = if lsn > self.kept.newest {
                        Severity::State
                    } else {
                        Severity::History
                    };
                    finding = Some(Finding::new(severity, place, cause).about(lsn, lsn));
                }
                Err(other) => return Err(other),
            }
            if let Some(finding) = finding {
                if told < TOLD_MAX {
                    self.survey.findings.push(finding);
                    told += 1;
                } else {
                    untold += 1;
                }
            }
            if at > Millis::ZERO {
                covered.add(lsn, at, size);
            } else {
                covered.last = lsn;
                covered.bytes = covered.bytes.saturating_add(size as u64);
            }
            expected = lsn.next();
            self.survey.records += 1;
            if self.survey.records.is_multiple_of(REPORT_EVERY) {
                (self.progress)(Progress::Verifying {
                    records: self.survey.records,
                });
            }
            Ok(ControlFlow::Continue(()))
        });
        if untold > 0 {
            self.survey.find_records(
                (first, covered.last),
                Severity::History,
                place.as_str(),
                format!("{untold} more records of it are damaged"),
            );
        }
        let is_readable = walked.is_ok();
        if let Err(error) = walked {
            let severity = self.of_hole(Lsn(facts.last).max(expected));
            take(error, severity, &place, self.survey)?;
            if let Some(finding) = self.survey.findings.last_mut() {
                // Where the segment ends is not known before it is closed.
                let last = if facts.last == 0 {
                    u64::MAX
                } else {
                    facts.last
                };
                finding.lsns = Some((expected.min(Lsn(last)), Lsn(last)));
            }
        }
        let is_closed = facts.last != 0;
        if covered.last < first {
            // One that was begun right before a crash may be empty, if it is the last.
            if is_readable && (is_closed || !is_last) {
                let severity = self.of_hole(Lsn(facts.last));
                self.survey.find_records(
                    (first, Lsn(facts.last)),
                    severity,
                    place,
                    "it has no records",
                );
            }
            self.before = is_closed.then_some(Lsn(facts.last));
            return Ok(());
        }
        if is_readable && is_closed && !is_last {
            self.compare_facts(facts, covered, &place);
        }
        self.survey.segments.push(SegmentFacts {
            first,
            last: covered.last,
            bytes: covered.bytes,
            earliest: covered.earliest,
            latest: covered.latest,
            after: Lsn(facts.after),
            base: Lsn(facts.base),
        });
        self.before = Some(if is_closed && !is_last {
            Lsn(facts.last)
        } else {
            covered.last
        });
        Ok(())
    }

    /// What a closed segment was said to cover, against what it covers.
    fn compare_facts(&mut self, facts: &SegmentV1, covered: Covered, place: &str) {
        if facts.last != covered.last.0 {
            let severity = self.of_hole(Lsn(facts.last));
            let (from, to) = (covered.last.next(), Lsn(facts.last));
            self.survey.find_records(
                (from, to),
                severity,
                format!("lsn {from}"),
                format!("missing up to lsn {to}, the end of {place}"),
            );
        } else if facts.bytes != covered.bytes {
            self.survey.find(
                Severity::Note,
                place,
                format!(
                    "it holds {} bytes, and {} were noted",
                    covered.bytes, facts.bytes
                ),
            );
        }
    }

    /// What it means that something is missing at a position: a start looks at what lies behind the
    /// older checkpoint.
    fn of_hole(&self, lsn: Lsn) -> Severity {
        if lsn > self.kept.oldest {
            Severity::State
        } else {
            Severity::History
        }
    }
}

fn meta_number(database: &Database, key: &str) -> Result<u64, StoreError> {
    let stored = guarded("read the meta tree", || database.meta.get(key))?;
    stored.map_or(Ok(0), |bytes| match bytes.as_ref().try_into() {
        Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
        Err(_) => Err(damaged(
            format!("meta key {key}"),
            format!("{} bytes", bytes.len()),
        )),
    })
}
