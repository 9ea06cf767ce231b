//! A mending that is stopped at any of its steps: whatever it leaves on the disk, the next start comes to
//! what an undisturbed one would have come to, and says so.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::mem::{Discriminant, discriminant};
use std::rc::Rc;

use super::*;
use crate::store::files::steps::{self, Step};
use crate::store::suite::{OnSled, Place, all, checkpoint, lsns, put};
use crate::store::{Opened, StoreOptions};
use crate::types::{Lsn, Millis};

/// A damaged store, and what its operator wants to be done about it.
struct Case {
    name: &'static str,
    place: OnSled,
    on_damage: OnDamage,
    /// What can be read of the log is saved in another one.
    is_saved: bool,
}

fn filled(checkpoints: &[u64]) -> OnSled {
    let place = OnSled::new(|options| options.segment_bytes = 4 << 10);
    let mut opened = place.open();
    for start in (1..=100).step_by(5) {
        put(&mut *opened.store, start..=start + 4);
    }
    for lsn in checkpoints {
        checkpoint(&*opened.reader, *lsn, 3).unwrap();
    }
    opened.store.close(Millis(2_000)).unwrap();
    place
}

/// Takes a record away behind the back of a closed store.
fn without(place: OnSled, lsn: u64) -> OnSled {
    let database = Database::open(&place.options.dir.join("log"), 1 << 20).unwrap();
    let key = crate::store::segment::key(Lsn(lsn), 0);
    let removed = database.db.tree_names().into_iter().filter(|name| {
        crate::store::segment::parse_tree_name(name).is_some()
            && database
                .db
                .open_tree(name)
                .unwrap()
                .remove(key)
                .unwrap()
                .is_some()
    });
    assert_eq!(removed.count(), 1);
    database.flush().unwrap();
    database.let_go(Vec::new()).unwrap();
    place
}

fn without_watermark(place: OnSled) -> OnSled {
    fs::remove_file(place.options.dir.join("watermark")).unwrap();
    place
}

/// Nothing of the log is left but that it was there.
fn unreadable(place: OnSled) -> OnSled {
    let database = Database::open(&place.options.dir.join("log"), 1 << 20).unwrap();
    for name in database.db.tree_names() {
        if crate::store::segment::parse_tree_name(&name).is_some() {
            database.db.drop_tree(name).unwrap();
        }
    }
    database.flush().unwrap();
    database.let_go(Vec::new()).unwrap();
    place
}

fn with_bad_snapshots(place: OnSled) -> OnSled {
    place.open().store.close(Millis(2_000)).unwrap();
    let log = place.options.dir.join("log");
    let snapshots = files::list(&log, |name| name.starts_with("snap.")).unwrap();
    assert!(!snapshots.is_empty());
    for path in snapshots {
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 0x21;
        fs::write(&path, bytes).unwrap();
    }
    place
}

fn cases() -> Vec<Case> {
    let case = |name, on_damage, place| Case {
        name,
        place,
        on_damage,
        is_saved: false,
    };
    let saved = |name, on_damage, place| Case {
        is_saved: true,
        ..case(name, on_damage, place)
    };
    vec![
        case(
            "snapshots are rebuilt",
            OnDamage::Refuse,
            with_bad_snapshots(filled(&[])),
        ),
        saved(
            "history is lost",
            OnDamage::Refuse,
            without(without(filled(&[90, 100]), 93), 97),
        ),
        saved(
            "the rest is kept",
            OnDamage::KeepRest,
            without(filled(&[]), 60),
        ),
        saved(
            "the rest is kept without a watermark",
            OnDamage::KeepRest,
            without_watermark(without(filled(&[]), 60)),
        ),
        saved(
            "the rest is kept behind a checkpoint, without a watermark",
            OnDamage::KeepRest,
            without_watermark(without(without(filled(&[30]), 20), 60)),
        ),
        case(
            "all is moved aside",
            OnDamage::MoveAside,
            without(filled(&[20]), 60),
        ),
        case(
            "a log is moved aside that the checkpoints make up for",
            OnDamage::Refuse,
            unreadable(filled(&[90, 100])),
        ),
        case(
            "a log is moved aside, and the checkpoints are what is kept",
            OnDamage::KeepRest,
            unreadable(filled(&[90])),
        ),
    ]
}

fn open(place: &OnSled, on_damage: OnDamage, now: u64) -> Result<Opened, StoreError> {
    let options = StoreOptions {
        on_damage,
        ..place.options.clone()
    };
    crate::store::open(&options, Millis(now), &mut |_| {})
}

/// What a start came to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    records: Vec<u64>,
    next: Lsn,
    checkpoint: Option<Lsn>,
    /// First, last and next one of each.
    losses: Vec<(Lsn, Lsn, Lsn)>,
    lost: Option<(Lsn, Lsn, Discriminant<LossCause>)>,
    node: String,
    is_another_incarnation: bool,
}

impl Outcome {
    fn of(opened: &Opened, incarnation: &str) -> Self {
        let losses = opened.reader.losses();
        Self {
            records: lsns(&all(&*opened.reader)),
            next: opened.next_lsn,
            checkpoint: opened.checkpoint.as_ref().map(|newest| newest.lsn),
            losses: losses.iter().map(|l| (l.first, l.last, l.next)).collect(),
            lost: opened
                .lost
                .as_ref()
                .map(|lost| (lost.first, lost.last, discriminant(&lost.cause))),
            node: opened.node_id.clone(),
            is_another_incarnation: opened.incarnation != incarnation,
        }
    }
}

/// Who the store was, and as what it went on.
fn identity(place: &OnSled) -> String {
    let stored = {
        let log = place.options.dir.join("log");
        Database::open(&log, 1 << 20).and_then(|database| {
            let stored = guarded("read", || database.meta.get(keys::INCARNATION));
            database.let_go(Vec::new())?;
            stored
        })
    };
    let bytes = stored
        .ok()
        .flatten()
        .and_then(|b| b.as_ref().try_into().ok());
    bytes.map_or_else(String::new, |bytes| {
        super::super::format_id(u128::from_le_bytes(bytes))
    })
}

/// What a start leaves that is stopped.
struct Stopped {
    name: String,
    place: OnSled,
    is_before_sync: bool,
}

/// The states that a start leaves if it is stopped before any of its steps, or within one.
fn stopped(case: &Case) -> Vec<Stopped> {
    let place = Rc::new(case.place.copied());
    let states: Rc<RefCell<Vec<Stopped>>> = Rc::default();
    let (watched, told, case_name) = (place.clone(), states.clone(), case.name);
    let watcher = move |step: Step| {
        let mut states = told.borrow_mut();
        let name = format!(
            "{case_name}, stopped before step {}, {step:?}",
            states.len()
        );
        if let Step::RemoveDir(dir) = &step {
            let dir = dir.strip_prefix(&watched.options.dir).unwrap();
            for path in files::list(&watched.options.dir.join(dir), |_| true).unwrap() {
                let gone = path.file_name().unwrap();
                let place = watched.copied();
                let path = place.options.dir.join(dir).join(gone);
                let removed = if path.is_dir() {
                    fs::remove_dir_all(path)
                } else {
                    fs::remove_file(path)
                };
                removed.unwrap();
                states.push(Stopped {
                    name: format!("{name} without {}", gone.display()),
                    place,
                    is_before_sync: false,
                });
            }
        }
        states.push(Stopped {
            name,
            place: watched.copied(),
            is_before_sync: matches!(step, Step::Sync),
        });
    };
    steps::watched(watcher, || {
        drop(open(&place, case.on_damage, 9_000).unwrap());
    });
    states.take()
}

/// The names in the data directory that are no plain files.
fn directories(place: &OnSled) -> BTreeSet<String> {
    let all = files::list(&place.options.dir, |_| true).unwrap();
    all.iter()
        .filter(|path| path.is_dir())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect()
}

#[test]
fn a_mending_that_is_stopped_anywhere_is_finished_by_the_next_start() {
    let mut wrong = Vec::new();
    for case in cases() {
        let incarnation = identity(&case.place);
        let undisturbed = case.place.copied();
        let opened = open(&undisturbed, case.on_damage, 9_000).unwrap();
        let expected = Outcome::of(&opened, &incarnation);
        drop(opened);
        let states = stopped(&case);
        assert!(states.len() > 5, "{}: {}", case.name, states.len());
        // From there on the start is noted: what it lost is what was lost before.
        let noted = states.iter().rposition(|state| state.is_before_sync);
        for (number, state) in states.iter().enumerate() {
            let expected = if Some(number) < noted {
                expected.clone()
            } else {
                Outcome {
                    lost: None,
                    ..expected.clone()
                }
            };
            if let Err(why) = finish(&state.place, &case, &expected, &incarnation) {
                wrong.push(format!("{}: {why}", state.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Starts a store that a stopped mending left.
fn finish(
    place: &OnSled,
    case: &Case,
    expected: &Outcome,
    incarnation: &str,
) -> Result<(), String> {
    let opened = open(place, case.on_damage, 9_500).map_err(|error| error.to_string())?;
    let outcome = Outcome::of(&opened, incarnation);
    if outcome != *expected {
        return Err(format!(
            "{outcome:?} is not {expected:?}; {:?}",
            opened.notes
        ));
    }
    let notes = opened.notes.clone();
    opened.store.close(Millis(9_500)).unwrap();
    let (asides, others): (Vec<String>, Vec<String>) = directories(place)
        .into_iter()
        .partition(|name| name.starts_with("quarantine-"));
    if others != ["log"] {
        return Err(format!("it leaves {others:?}"));
    }
    let path = |aside: &String| place.options.dir.join(aside);
    if let Some(empty) = asides
        .iter()
        .find(|aside| fs::read_dir(path(aside)).unwrap().count() == 0)
    {
        return Err(format!("{empty} is empty"));
    }
    if asides.is_empty() != expected.losses.is_empty() {
        return Err(format!("damaged logs are in {asides:?}"));
    }
    if case.is_saved && expected.lost.is_some() {
        let log = asides
            .iter()
            .find(|aside| path(aside).join("log").join("db").exists());
        let log = log.ok_or("the damaged log is gone")?;
        let told = |note: &String| note.contains("can be read") && note.contains(log.as_str());
        if !notes.iter().any(told) {
            return Err(format!("nobody is told of {log}: {notes:?}"));
        }
    }
    let again = open(place, OnDamage::Refuse, 9_600).map_err(|error| error.to_string())?;
    if again.lost.is_some() || !again.notes.is_empty() {
        return Err(format!("told again: {:?}, {:?}", again.lost, again.notes));
    }
    if lsns(&all(&*again.reader)) != expected.records {
        return Err("records are gone at the start after it".to_owned());
    }
    Ok(())
}
