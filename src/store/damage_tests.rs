//! A byte is flipped all over small stores, and what a check says is held against what a start, a
//! repair and a reading command do.

use std::collections::BTreeSet;

use super::*;
use crate::store::LogReader;
use crate::store::suite::{OnSled, Place, checkpoint, lsns};
use crate::types::Lsn;

/// How a store was left.
struct Left {
    name: &'static str,
    records: u64,
    checkpoints: &'static [u64],
    /// Opened once more, which leaves a snapshot of the database.
    is_opened_again: bool,
    /// Rewritten, so that the snapshot is older than most of the records.
    is_compacted: bool,
}

/// The database of the larger ones takes several of sled's segments, the others fit into one.
const LEFT: [Left; 6] = [
    Left {
        name: "log alone",
        records: 400,
        checkpoints: &[],
        is_opened_again: false,
        is_compacted: false,
    },
    Left {
        name: "log with a snapshot of the database",
        records: 400,
        checkpoints: &[],
        is_opened_again: true,
        is_compacted: false,
    },
    Left {
        name: "checkpoints behind everything",
        records: 400,
        checkpoints: &[390, 400],
        is_opened_again: false,
        is_compacted: false,
    },
    Left {
        name: "compacted",
        records: 3_000,
        checkpoints: &[2_990, 3_000],
        is_opened_again: true,
        is_compacted: true,
    },
    Left {
        name: "checkpoints behind everything, and a snapshot",
        records: 3_000,
        checkpoints: &[2_990, 3_000],
        is_opened_again: true,
        is_compacted: false,
    },
    Left {
        name: "checkpoints in the middle, and a snapshot",
        records: 3_000,
        checkpoints: &[1_400, 1_600],
        is_opened_again: true,
        is_compacted: false,
    },
];

/// Stopped, and left like that.
fn stopped(left: &Left) -> OnSled {
    let place = filled(left.records);
    let close = |opened: Opened| opened.store.close(Millis(7_000)).unwrap();
    if !left.checkpoints.is_empty() {
        let opened = place.open();
        for lsn in left.checkpoints {
            checkpoint(&*opened.reader, *lsn, *lsn).unwrap();
        }
        close(opened);
    }
    if left.is_compacted {
        crate::store::compact(&place.options, Millis(7_000), &mut |_| {}).unwrap();
    }
    if left.is_opened_again {
        close(place.open());
    } else {
        let log = place.options.dir.join("log");
        for snapshot in files::list(&log, |name| name.starts_with("snap.")).unwrap() {
            fs::remove_file(snapshot).unwrap();
        }
    }
    place
}

fn open(place: &OnSled, on_damage: OnDamage) -> Result<Opened, StoreError> {
    let options = StoreOptions {
        on_damage,
        ..place.options.clone()
    };
    crate::store::open(&options, Millis(9_000), &mut |_| {})
}

/// Every record that can be read.
fn kept(reader: &dyn LogReader) -> BTreeSet<u64> {
    let mut kept = BTreeSet::new();
    for segment in reader.segments() {
        let mut from = segment.first;
        while from <= segment.last {
            let read = reader
                .read(from, 64, 1 << 20)
                .or_else(|_| reader.read_back(from, 1, 1));
            let read = lsns(&read.unwrap_or_default());
            from = read.last().map_or(from.next(), |last| Lsn(last + 1));
            kept.extend(read);
        }
    }
    kept
}

/// LSNs as ranges, first and last of each.
fn ranges(all: impl Iterator<Item = u64>) -> Vec<(Lsn, Lsn)> {
    let mut ranges: Vec<(Lsn, Lsn)> = Vec::new();
    for lsn in all.map(Lsn) {
        match ranges.last_mut() {
            Some((_, last)) if last.next() == lsn => *last = lsn,
            _ => ranges.push((lsn, lsn)),
        }
    }
    ranges
}

/// The last of the records that a check has read without a gap from the beginning.
fn whole_up_to(found: &Survey) -> Lsn {
    let mut end = Lsn::ZERO;
    for segment in &found.segments {
        if segment.first != end.next() {
            break;
        }
        end = segment.last;
    }
    end
}

#[test]
fn check_start_repair_and_reading_agree_wherever_a_byte_is_flipped() {
    let mut seen = [0; 3];
    for left in &LEFT {
        let place = stopped(left);
        let db = place.options.dir.join("log").join("db");
        let good = fs::read(&db).unwrap();
        let used = good.iter().rposition(|byte| *byte != 0).unwrap();
        let step = used / 8;
        for at in (step / 2..used).step_by(step) {
            let what = format!("{}, byte {at}", left.name);
            let damaged = place.copied();
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            fs::write(damaged.options.dir.join("log").join("db"), bad).unwrap();
            let found = look(&damaged);
            let told = format!("{what}: {:#?}", found.findings);

            let temp = tempfile::tempdir().unwrap();
            let before = files_below(&damaged.options.dir);
            let read = open_copy(&damaged.options, Millis(9_000), temp.path(), &mut |_| {});
            assert_eq!(files_below(&damaged.options.dir), before, "{what}");

            let started = open(&damaged.copied(), OnDamage::Refuse);
            assert_eq!(read.is_ok(), started.is_ok(), "{told}");
            assert_eq!(started.is_err(), found.worst() == Severity::State, "{told}");
            match started {
                Ok(opened) => {
                    let kept = kept(&*opened.reader);
                    let gone = ranges((1..=left.records).filter(|lsn| !kept.contains(lsn)));
                    assert_eq!(found.lost, gone, "{told}; {:?}", opened.notes);
                    let is_history = found.worst() == Severity::History;
                    assert_eq!(
                        is_history,
                        !gone.is_empty(),
                        "{told}: {gone:?}; {:?}",
                        opened.notes
                    );
                    for lost in opened.reader.losses() {
                        let called = gone
                            .iter()
                            .any(|(f, l)| *f <= lost.first && lost.last <= *l);
                        assert!(called, "{told}: {lost:?}, {gone:?}");
                    }
                    seen[usize::from(!gone.is_empty())] += 1;
                    if opened.lost.is_some() {
                        assert_eq!(
                            opened.checkpoint.as_ref().map(|newest| newest.lsn),
                            found.good_checkpoints().last().copied(),
                            "{told}"
                        );
                        assert!(!opened.reader.losses().is_empty(), "{told}");
                    }
                }
                Err(error) => {
                    seen[2] += 1;
                    let text = error.to_string();
                    assert!(
                        matches!(error, StoreError::Damaged { .. }),
                        "{what}: {text}"
                    );
                    assert!(!text.contains("panic"), "{what}: {text}");
                }
            }

            let repaired = damaged.copied();
            let opened = open(&repaired, OnDamage::KeepRest).unwrap_or_else(|error| {
                panic!("{what}: {error}");
            });
            let kept = kept(&*opened.reader);
            let whole = whole_up_to(&found);
            assert!(
                (1..=whole.0).all(|lsn| kept.contains(&lsn)),
                "{told}: the check has read up to {whole}, {} are kept, not {:?}; {:?}",
                kept.len(),
                (1..=left.records)
                    .filter(|lsn| !kept.contains(lsn))
                    .collect::<Vec<_>>(),
                opened.notes,
            );
            opened.store.close(Millis(9_000)).unwrap();
            let again = open(&repaired, OnDamage::Refuse).unwrap_or_else(|error| {
                panic!("{what}, once repaired: {error}");
            });
            assert_eq!(again.lost, None, "{what}");
            // Damage in old history is told at each start until it goes with its age.
            let is_old = |note: &String| note.starts_with("the history between");
            assert!(again.notes.iter().all(is_old), "{what}: {:?}", again.notes);
        }
    }
    assert!(seen[1] > 0 && seen[2] > 0, "{seen:?}");
}

/// Nobody can say then whether a log that was rebuilt has everything.
#[test]
fn without_a_watermark_no_damaged_log_gives_way_to_another_unasked() {
    let mut seen = [0; 2];
    for left in &LEFT[..2] {
        let place = stopped(left);
        let db = place.options.dir.join("log").join("db");
        let good = fs::read(&db).unwrap();
        let used = good.iter().rposition(|byte| *byte != 0).unwrap();
        for at in (used / 16..used).step_by(used / 8) {
            let what = format!("{}, byte {at}", left.name);
            let damaged = place.copied();
            let dir = &damaged.options.dir;
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            fs::write(dir.join("log").join("db"), bad).unwrap();
            fs::remove_file(dir.join("watermark")).unwrap();
            let asides = |place: &OnSled| {
                let is_aside = |name: &str| name.starts_with("quarantine-");
                files::list(&place.options.dir, is_aside).unwrap().len()
            };

            let unasked = damaged.copied();
            let started = open(&unasked, OnDamage::Refuse);
            assert_eq!(asides(&unasked), 0, "{what}");
            let Err(error) = started else {
                seen[0] += 1;
                continue;
            };
            seen[1] += 1;
            assert!(
                matches!(error, StoreError::Damaged { .. }),
                "{what}: {error}"
            );
            let asked = damaged.copied();
            let opened = open(&asked, OnDamage::KeepRest).unwrap();
            assert_eq!(asides(&asked), 1, "{what}: {:?}", opened.notes);
            assert!(opened.lost.is_some(), "{what}");
        }
    }
    assert!(seen[1] > 0, "{seen:?}");
}
