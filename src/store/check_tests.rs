//! The check finds what is wrong, tells what it means, and changes nothing.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::store::Durability;
use crate::store::suite::{OnSled, Place, checkpoint, put};
use crate::types::Lsn;

/// Every file below a directory with its bytes.
fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for (path, _) in database_files(dir, Path::new("")).unwrap() {
        all.insert(path.clone(), fs::read(&path).unwrap());
    }
    all
}

/// Checks, and holds that neither the store nor the temporary directory shows it.
fn look(place: &OnSled) -> Survey {
    let temp = tempfile::tempdir().unwrap();
    let before = files_below(&place.options.dir);
    let found = check(&place.options.dir, temp.path(), &mut |_| {}).unwrap();
    assert_eq!(files_below(&place.options.dir), before);
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    found
}

fn filled(records: u64) -> OnSled {
    let place = OnSled::new(|options| options.segment_bytes = 8 << 10);
    let mut opened = place.open();
    for start in (1..=records).step_by(20) {
        put(&mut *opened.store, start..=(start + 19).min(records));
    }
    opened.store.close(Millis(7_000)).unwrap();
    place
}

fn worst(found: &Survey, severity: Severity) {
    assert_eq!(found.worst(), severity, "{:#?}", found.findings);
}

#[test]
fn a_sound_store_is_sound_and_counted() {
    let place = filled(200);
    let found = look(&place);
    worst(&found, Severity::Note);
    assert_eq!((found.records, found.last()), (200, Lsn(200)));
    assert!(found.segments.len() > 3, "{}", found.segments.len());
    assert_eq!(found.acknowledged, Some(Lsn(200)));
    let kinds: u64 = found.kinds.values().map(|facts| facts.records).sum();
    assert_eq!(kinds, 200);
    let bytes: u64 = found.kinds.values().map(|facts| facts.bytes).sum();
    assert_eq!(bytes, found.log_bytes());
    let counted = {
        let temp = tempfile::tempdir().unwrap();
        stats(&place.options.dir, temp.path(), &mut |_| {}).unwrap()
    };
    assert_eq!(counted.segments, found.segments);
    worst(&counted, Severity::Note);
}

#[test]
fn a_store_in_use_and_one_that_is_not_there_are_errors() {
    let temp = tempfile::tempdir().unwrap();
    let place = OnSled::new(|_| {});
    let opened = place.open();
    let error = check(&place.options.dir, temp.path(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    opened.store.close(Millis(1)).unwrap();
    for dir in [temp.path().join("nowhere"), temp.path().to_path_buf()] {
        let error = check(&dir, temp.path(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    }
}

/// Writes into the database behind the store's back.
fn tamper(place: &OnSled, change: impl FnOnce(&Database)) {
    let database = Database::open(&place.options.dir.join("log"), 1 << 20).unwrap();
    change(&database);
    database.flush().unwrap();
    database.let_go(Vec::new()).unwrap();
}

fn tree_of(database: &Database, lsn: u64) -> sled::Tree {
    let mut first: Vec<u64> = database
        .db
        .tree_names()
        .iter()
        .filter_map(|name| crate::store::segment::parse_tree_name(name))
        .map(|first| first.0)
        .filter(|first| *first <= lsn)
        .collect();
    first.sort_unstable();
    let name = crate::store::segment::tree_name(Lsn(*first.last().unwrap()));
    database.db.open_tree(name).unwrap()
}

#[test]
fn a_missing_record_is_found_where_it_is() {
    let place = filled(100);
    tamper(&place, |database| {
        let tree = tree_of(database, 50);
        let key = crate::store::segment::key(Lsn(50), 0);
        tree.remove(key).unwrap().expect("the record was there");
    });
    let found = look(&place);
    worst(&found, Severity::State);
    let places: Vec<&str> = found.findings.iter().map(|f| f.place.as_str()).collect();
    assert!(places.contains(&"lsn 50"), "{places:?}");
    assert_eq!(found.records, 99);
}

#[test]
fn damage_before_the_checkpoints_is_history_and_every_bad_record_is_told() {
    let place = filled(100);
    {
        let opened = place.open();
        checkpoint(&*opened.reader, 99, 0).unwrap();
        checkpoint(&*opened.reader, 100, 0).unwrap();
        opened.store.close(Millis(7_000)).unwrap();
    }
    tamper(&place, |database| {
        for lsn in [10, 12] {
            let key = crate::store::segment::key(Lsn(lsn), 0);
            tree_of(database, lsn)
                .insert(key, b"\x01\x01\x01\x00nonsense")
                .unwrap();
        }
    });
    let found = look(&place);
    worst(&found, Severity::History);
    let places: Vec<&str> = found.findings.iter().map(|f| f.place.as_str()).collect();
    assert!(
        places.contains(&"lsn 10") && places.contains(&"lsn 12"),
        "{places:?}"
    );
    assert_eq!(found.records, 100, "the walk went on");
    assert_eq!(found.lost, [(Lsn(10), Lsn(10)), (Lsn(12), Lsn(12))]);
}

#[test]
fn what_is_lost_is_told_exactly_and_only_until_a_start_has_told_it() {
    let place = filled(100);
    {
        let opened = place.open();
        checkpoint(&*opened.reader, 90, 90).unwrap();
        checkpoint(&*opened.reader, 100, 100).unwrap();
        opened.store.close(Millis(7_000)).unwrap();
    }
    // In front of the checkpoints, where a start hardly looks, and behind, where it has to mend the log.
    tamper(&place, |database| {
        for lsn in [20, 93, 94, 97] {
            let key = crate::store::segment::key(Lsn(lsn), 0);
            tree_of(database, lsn).remove(key).unwrap().unwrap();
        }
    });
    let found = look(&place);
    worst(&found, Severity::History);
    let ranges = [(20, 20), (93, 94), (97, 97)].map(|(first, last)| (Lsn(first), Lsn(last)));
    assert_eq!(found.lost, ranges);
    let opened = place.open();
    let noted: Vec<_> = opened
        .reader
        .losses()
        .iter()
        .map(|l| (l.first, l.last))
        .collect();
    assert_eq!(noted, ranges);
    opened.store.close(Millis(7_000)).unwrap();
    let again = look(&place);
    worst(&again, Severity::Note);
    assert_eq!(again.lost, []);
}

#[test]
fn a_checkpoint_that_the_log_does_not_lead_to_is_told() {
    let place = filled(100);
    let opened = place.open();
    checkpoint(&*opened.reader, 50, 0).unwrap();
    checkpoint(&*opened.reader, 100, 0).unwrap();
    opened.store.close(Millis(7_000)).unwrap();
    let found = look(&place);
    worst(&found, Severity::History);
    let finding = &found.findings[0];
    assert!(
        finding
            .what
            .contains("leases are not what the log leads to"),
        "{finding:?}"
    );
}

/// Where the log cannot be followed, whatever the cause, it says nothing about the checkpoints.
#[test]
fn checkpoints_are_not_held_against_a_log_whose_segments_are_not_all_known() {
    let place = filled(200);
    {
        let opened = place.open();
        checkpoint(&*opened.reader, 60, 60).unwrap();
        checkpoint(&*opened.reader, 200, 200).unwrap();
        opened.store.close(Millis(7_000)).unwrap();
    }
    for lsn in [120, 200] {
        let damaged = place.copied();
        tamper(&damaged, |database| {
            let first = crate::store::segment::parse_tree_name(&tree_of(database, lsn).name());
            let key = crate::store::shared::segment_key(first.unwrap());
            let before = database
                .meta
                .insert(key, b"\x01\x01\x01\x00nonsense")
                .unwrap();
            before.expect("the facts were there");
        });
        let found = look(&damaged);
        worst(&found, Severity::Mendable);
        assert_eq!(found.lost, [], "{lsn}");
        let told = format!("{lsn}: {:#?}", found.findings);
        let is_said = |what: &str| found.findings.iter().any(|f| f.what.contains(what));
        assert!(!is_said("being dropped"), "{told}");
        assert!(!is_said("leases"), "{told}");
        let opened = damaged.open();
        assert_eq!((opened.last_lsn, opened.lost), (Lsn(200), None), "{told}");
    }
}

#[test]
fn a_damaged_checkpoint_is_mended_by_the_next_start() {
    let place = filled(100);
    let opened = place.open();
    checkpoint(&*opened.reader, 100, 3).unwrap();
    opened.store.close(Millis(7_000)).unwrap();
    let path = crate::store::checkpoint::path(&place.options.dir, Lsn(100));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let found = look(&place);
    worst(&found, Severity::Mendable);
    assert_eq!(found.checkpoints[0].at, None);
}

/// The database as it was before, with the watermark and the checkpoints of now.
fn put_back(place: &OnSled, older: BTreeMap<PathBuf, Vec<u8>>) {
    fs::remove_dir_all(place.options.dir.join("log")).unwrap();
    for (path, bytes) in older {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_lost_tail_and_a_lost_watermark_are_noticed() {
    let place = filled(100);
    let older = files_below(&place.options.dir.join("log"));
    {
        let mut opened = place.open();
        put(&mut *opened.store, 101..=140);
        opened.store.close(Millis(7_000)).unwrap();
    }
    put_back(&place, older);
    let found = look(&place);
    worst(&found, Severity::State);
    let told = &found.findings.last().unwrap().what;
    assert!(told.contains("lsn 140 was acknowledged"), "{told}");
    fs::remove_file(place.options.dir.join("watermark")).unwrap();
    worst(&look(&place), Severity::Mendable);
}

#[test]
fn a_lost_tail_that_a_start_has_told_is_no_news_to_the_next_check() {
    let place = filled(80);
    let older = files_below(&place.options.dir.join("log"));
    {
        let mut opened = place.open();
        put(&mut *opened.store, 81..=100);
        checkpoint(&*opened.reader, 90, 90).unwrap();
        checkpoint(&*opened.reader, 100, 100).unwrap();
        opened.store.close(Millis(7_000)).unwrap();
    }
    put_back(&place, older);
    let found = look(&place);
    worst(&found, Severity::History);
    assert_eq!(found.lost, [(Lsn(81), Lsn(100))]);
    let is_of_leases = |finding: &Finding| finding.what.contains("leases");
    assert!(
        !found.findings.iter().any(is_of_leases),
        "{:#?}",
        found.findings
    );
    place.open().store.close(Millis(7_000)).unwrap();
    let again = look(&place);
    worst(&again, Severity::Note);
    assert_eq!(again.lost, []);
}

#[test]
fn flipped_bytes_in_the_database_are_never_called_sound_if_a_start_would_refuse() {
    let place = filled(400);
    let path = place.options.dir.join("log").join("db");
    let good = fs::read(&path).unwrap();
    let used = good.iter().rposition(|byte| *byte != 0).unwrap();
    for part in 1..8 {
        let mut bad = good.clone();
        for byte in &mut bad[used * part / 8..][..64] {
            *byte ^= 0xff;
        }
        fs::write(&path, &bad).unwrap();
        let found = look(&place);
        let temp = tempfile::tempdir().unwrap();
        let started = rehearse(&place.options, Millis(9_000), temp.path(), &mut |_| {});
        match started {
            Ok(done) if done.notes.is_empty() && done.lost.is_none() => {}
            Ok(_) => assert!(found.worst() >= Severity::Mendable, "{found:#?}"),
            Err(_) => worst(&found, Severity::State),
        }
    }
    fs::write(&path, &good).unwrap();
}

#[test]
fn a_rehearsal_tells_what_a_repair_does_and_changes_nothing() {
    let place = filled(100);
    tamper(&place, |database| {
        let key = crate::store::segment::key(Lsn(50), 0);
        tree_of(database, 50).remove(key).unwrap();
    });
    let temp = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        on_damage: OnDamage::MoveAside,
        ..place.options.clone()
    };
    let before = files_below(&options.dir);
    let told = rehearse(&options, Millis(9_000), temp.path(), &mut |_| {}).unwrap();
    assert_eq!(files_below(&options.dir), before);
    assert!(told.lost.is_some(), "{told:?}");
    let opened = crate::store::open(&options, Millis(9_000), &mut |_| {}).unwrap();
    assert_eq!(
        opened.lost.map(|lost| lost.last),
        told.lost.map(|lost| lost.last)
    );
}

#[test]
fn leftovers_are_notes() {
    let place = filled(20);
    fs::create_dir(place.options.dir.join("quarantine-5")).unwrap();
    fs::write(place.options.dir.join("checkpoint-1.tmp"), b"half").unwrap();
    let found = look(&place);
    worst(&found, Severity::Note);
    assert_eq!(found.findings.len(), 2, "{:?}", found.findings);
}

#[test]
fn an_empty_store_is_sound() {
    let place = OnSled::new(|_| {});
    place.open().store.close(Millis(1)).unwrap();
    worst(&look(&place), Severity::Note);
    let mut opened = place.open();
    opened.store.commit(Durability::Disk).unwrap();
    opened.store.close(Millis(1)).unwrap();
}

#[path = "damage_tests.rs"]
mod damage;
