//! Starts after everything that can happen to a data directory.

use std::path::Path;

use super::*;
use crate::store::segment::{key, tree_name};
use crate::store::suite::{OnSled, Place, all, batch, checkpoint, copy_dir, lsns, put};
use crate::store::testing::{options, registered};
use crate::store::{Durability, LogStore, StoreStats};

/// A directory as a process that was killed leaves it.
fn killed(place: &OnSled) -> OnSled {
    place.copied()
}

/// A place with records up to `last`, closed.
fn filled(last: u64) -> OnSled {
    let place = OnSled::new(|_| {});
    let mut opened = place.open();
    for start in (1..=last).step_by(50) {
        put(&mut *opened.store, start..=last.min(start + 49));
    }
    opened.store.close(Millis(2_000)).unwrap();
    place
}

fn try_open(place: &OnSled, on_damage: OnDamage) -> Result<Opened, StoreError> {
    let options = StoreOptions {
        on_damage,
        ..place.options.clone()
    };
    super::super::open(&options, Millis(9_000), &mut |_| {})
}

/// Changes the watermark of a closed store.
fn rewrite_watermark(place: &OnSled, change: impl FnOnce(&mut Watermark)) {
    let Found::Watermark(mut mark) = watermark::read(&place.options.dir).unwrap() else {
        panic!("no watermark")
    };
    change(&mut mark);
    WatermarkFile::open(&place.options.dir, mark).unwrap();
}

/// Opens the database of a closed store behind its back.
fn behind_its_back(place: &OnSled, change: impl FnOnce(&Database)) {
    let database = Database::open(&place.options.dir.join("log"), 1 << 20).unwrap();
    change(&database);
    database.flush().unwrap();
    database.let_go(Vec::new()).unwrap();
}

/// Takes away the newest records of a closed store, as sled's silent truncation does.
fn lose_behind(place: &OnSled, last: u64) {
    behind_its_back(place, |database| {
        for name in database.db.tree_names() {
            if crate::store::segment::parse_tree_name(&name).is_some() {
                let tree = database.db.open_tree(&name).unwrap();
                for entry in &tree {
                    let (found, _) = entry.unwrap();
                    if found.as_ref() >= key(Lsn(last + 1), 0).as_slice() {
                        tree.remove(found).unwrap();
                    }
                }
            }
        }
    });
}

#[test]
fn a_killed_process_loses_nothing_that_was_committed() {
    let place = OnSled::new(|_| {});
    let mut opened = place.open();
    for start in (1..=400).step_by(20) {
        let end = start + 19;
        opened.store.append(&batch(start..=end)).unwrap();
        opened.store.commit(Durability::Flush).unwrap();
        opened
            .store
            .touch_watermark(Lsn(end), Millis(1_000 + end))
            .unwrap();
    }
    let copy = killed(&place);
    let mut again = copy.open();
    assert_eq!(all(&*again.reader), batch(1..=400));
    assert_eq!(
        (again.next_lsn, again.last_alive),
        (Lsn(401), Millis(1_400))
    );
    assert_eq!(again.lost, None);
    assert_eq!(again.incarnation, opened.incarnation);
    put(&mut *again.store, 401..=410);
    let third = killed(&copy).open();
    assert_eq!(all(&*third.reader), batch(1..=410));
}

#[test]
fn an_uncommitted_tail_is_there_as_a_whole_or_not_at_all() {
    let place = OnSled::new(|_| {});
    let mut opened = place.open();
    put(&mut *opened.store, 1..=10);
    opened.store.append(&batch(11..=200)).unwrap();
    let again = killed(&place).open();
    let found = lsns(&all(&*again.reader));
    assert!(
        found.len() == 10 || found.len() == 200,
        "{} records",
        found.len()
    );
    assert_eq!(again.next_lsn, Lsn(found.len() as u64 + 1));
}

#[test]
fn leftovers_of_an_interrupted_open_are_removed() {
    let place = filled(100);
    let leftover = place
        .options
        .dir
        .join("log/snap.0000000000000001.generating");
    fs::write(&leftover, b"short").unwrap();
    let opened = place.open();
    assert_eq!(all(&*opened.reader), batch(1..=100));
    assert!(!leftover.exists());
    assert!(
        opened.notes[0].starts_with("removed the unfinished"),
        "{:?}",
        opened.notes
    );
}

#[test]
fn damaged_snapshots_and_settings_are_mended_without_loss() {
    for pattern in ["snap.", "conf"] {
        for at in [0, 5, 9, 20] {
            let place = filled(100);
            place.open().store.close(Millis(1)).unwrap();
            let files = files::list(&place.options.dir.join("log"), |n| n.starts_with(pattern));
            let file = files.unwrap().pop().unwrap();
            let mut bytes = fs::read(&file).unwrap();
            if at >= bytes.len() {
                continue;
            }
            bytes[at] ^= 0x21;
            fs::write(&file, bytes).unwrap();
            let opened = try_open(&place, OnDamage::Refuse).unwrap();
            assert_eq!(all(&*opened.reader), batch(1..=100), "{pattern} at {at}");
            assert!(opened.notes.len() <= 1, "{:?}", opened.notes);
            assert!(!place.options.dir.join("log.before-mending").exists());
            if pattern == "snap." {
                assert!(
                    opened.notes[0].starts_with("mended the database by"),
                    "{at}"
                );
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_the_database_is_never_a_panic_and_never_a_silent_loss() {
    let before_snapshot = {
        let place = OnSled::new(|_| {});
        let mut opened = place.open();
        for start in (1..=300).step_by(50) {
            put(&mut *opened.store, start..=start + 49);
        }
        killed(&place)
    };
    let opened_once = filled(300);
    opened_once.open().store.close(Millis(2_000)).unwrap();

    let mut seen = [0; 2];
    for (pristine, step) in [(before_snapshot, 9_973), (opened_once, 10_007)] {
        let length = fs::metadata(pristine.options.dir.join("log/db"))
            .unwrap()
            .len();
        let mut at = 77;
        while at < length.min(400_000) {
            let copy = killed(&pristine);
            let file = copy.options.dir.join("log/db");
            let mut bytes = fs::read(&file).unwrap();
            bytes[usize::try_from(at).unwrap()] ^= 0x10;
            fs::write(&file, bytes).unwrap();
            match try_open(&copy, OnDamage::Refuse) {
                Ok(opened) => {
                    seen[0] += 1;
                    assert_eq!(all(&*opened.reader), batch(1..=300), "bit at {at}");
                }
                Err(error) => {
                    seen[1] += 1;
                    assert!(
                        matches!(error, StoreError::Damaged { .. }),
                        "bit at {at}: {error}"
                    );
                    let opened = try_open(&copy, OnDamage::MoveAside).unwrap();
                    assert_eq!(opened.next_lsn, Lsn(300 + SKIP + 1), "bit at {at}");
                    assert!(matches!(
                        opened.lost.unwrap().cause,
                        LossCause::MovedAside(path) if path.join("log/db").exists()
                    ));
                }
            }
            at += step;
        }
    }
    assert!(
        seen[0] > 0 && seen[1] > 0,
        "some flips hit, some do not: {seen:?}"
    );
}

#[test]
fn a_log_that_is_shorter_than_what_was_acknowledged_is_refused_and_left_as_it_is() {
    let place = filled(100);
    lose_behind(&place, 90);
    for _ in 0..2 {
        let error = try_open(&place, OnDamage::Refuse).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("lsn 91: the log ends at lsn 90, but lsn 100 was ack"),
            "{text}"
        );
        assert!(
            text.contains("eurekad.on-damaged-store=keep-rest"),
            "{text}"
        );
    }
}

#[test]
fn a_store_that_lost_records_is_moved_aside_and_begins_anew_behind_them() {
    let place = filled(100);
    let first = place.open();
    let (node, incarnation) = (first.node_id.clone(), first.incarnation.clone());
    first.store.close(Millis(3)).unwrap();
    lose_behind(&place, 90);
    let mut opened = try_open(&place, OnDamage::MoveAside).unwrap();
    let aside = place.options.dir.join("quarantine-9000");
    let lost = opened.lost.clone().unwrap();
    assert_eq!(lost.cause, LossCause::MovedAside(aside.clone()));
    assert_eq!((lost.last, opened.last_lsn), (Lsn(100), Lsn(0)));
    assert_eq!(opened.next_lsn, Lsn(100 + SKIP + 1));
    assert_eq!(opened.node_id, node, "peers know it by this");
    assert_ne!(opened.incarnation, incarnation);
    assert!(aside.join("log/db").exists() && aside.join("watermark").exists());
    let next = opened.next_lsn.0;
    put(&mut *opened.store, next..=next + 9);
    opened.store.close(Millis(1)).unwrap();
    let again = place.open();
    assert_eq!(
        lsns(&all(&*again.reader)),
        (next..next + 10).collect::<Vec<_>>()
    );
    assert_eq!((again.lost, again.notes.len()), (None, 0));
}

#[test]
fn a_repair_keeps_what_is_left_and_skips_what_was_lost() {
    let place = filled(100);
    lose_behind(&place, 90);
    let mut opened = try_open(&place, OnDamage::KeepRest).unwrap();
    let lost = opened.lost.clone().unwrap();
    assert_eq!(
        (lost.first, lost.last, lost.cause),
        (Lsn(91), Lsn(100), LossCause::Accepted)
    );
    let next = opened.next_lsn.0;
    assert_eq!(next, 100 + SKIP + 1);
    put(&mut *opened.store, next..=next + 1);
    let expected: Vec<u64> = (1..=90).chain(next..=next + 1).collect();
    assert_eq!(lsns(&all(&*opened.reader)), expected);
    assert_eq!(
        opened.reader.read(Lsn(95), 1, 1).unwrap()[0].lsn,
        Lsn(next),
        "over the hole"
    );
    let back = opened.reader.read_back(Lsn(next), 3, 1 << 20).unwrap();
    assert_eq!(lsns(&back), [next, 90, 89]);
    opened.store.close(Millis(1)).unwrap();
    let again = place.open();
    assert_eq!(lsns(&all(&*again.reader)), expected);
    assert_eq!(again.lost, None);
}

#[test]
fn a_lost_tail_that_a_checkpoint_covers_costs_history_but_no_state() {
    let place = filled(100);
    let opened = place.open();
    checkpoint(&*opened.reader, 80, 8).unwrap();
    checkpoint(&*opened.reader, 100, 10).unwrap();
    opened.store.close(Millis(1)).unwrap();
    lose_behind(&place, 90);
    let mut opened = try_open(&place, OnDamage::Refuse).unwrap();
    let lost = opened.lost.clone().unwrap();
    assert_eq!((lost.first, lost.last), (Lsn(91), Lsn(100)));
    assert_eq!(lost.cause, LossCause::HistoryOnly);
    assert_eq!(opened.checkpoint.as_ref().unwrap().lsn, Lsn(100));
    let next = opened.next_lsn.0;
    assert!(next > 100 + SKIP);
    put(&mut *opened.store, next..=next);
    opened.store.close(Millis(1)).unwrap();
    // The older checkpoint does not lead over the hole any more.
    fs::write(checkpoint::path(&place.options.dir, Lsn(100)), b"damaged").unwrap();
    let error = try_open(&place, OnDamage::Refuse).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("does not go back to before lsn 100"),
        "{error}"
    );
}

#[test]
fn after_a_power_loss_flushed_records_may_be_gone_but_their_lsns_are_not_used_again() {
    let place = filled(85);
    let mut before = place.open();
    let incarnation = before.incarnation.clone();
    put(&mut *before.store, 86..=100);
    before.store.close(Millis(1)).unwrap();
    lose_behind(&place, 90);
    rewrite_watermark(&place, |mark| {
        (mark.boot_id, mark.synced, mark.is_unsynced) = (1, Lsn(85), true);
    });
    let opened = try_open(&place, OnDamage::Refuse).unwrap();
    let lost = opened.lost.unwrap();
    assert_eq!(
        (lost.first, lost.last, lost.cause),
        (Lsn(91), Lsn(100), LossCause::NotSynced)
    );
    assert_ne!(opened.incarnation, incarnation, "cursors of peers are void");
    assert_eq!(opened.next_lsn, Lsn(100 + SKIP + 1));
    assert_eq!(
        lsns(&all(&*opened.reader)),
        (1..=90).collect::<Vec<_>>(),
        "the rest is kept"
    );
}

#[test]
fn a_power_loss_that_takes_synced_records_is_damage() {
    let place = filled(100);
    lose_behind(&place, 90);
    rewrite_watermark(&place, |mark| mark.boot_id = 1);
    assert!(matches!(
        try_open(&place, OnDamage::Refuse),
        Err(StoreError::Damaged { .. })
    ));
}

#[test]
fn what_was_told_before_its_commit_is_not_told_again() {
    let place = OnSled::new(|_| {});
    let mut opened = place.open();
    put(&mut *opened.store, 1..=10);
    opened.store.touch_watermark(Lsn(15), Millis(1)).unwrap();
    let again = killed(&place).open();
    let lost = again.lost.unwrap();
    assert_eq!(
        (lost.first, lost.last, lost.cause),
        (Lsn(11), Lsn(15), LossCause::NotSynced)
    );
    assert_eq!(again.next_lsn, Lsn(15 + SKIP + 1));
}

#[test]
fn a_loss_is_noticed_without_a_watermark_if_the_records_were_there_at_the_start_before() {
    let place = filled(100);
    place.open().store.close(Millis(1)).unwrap();
    lose_behind(&place, 90);
    fs::remove_file(place.options.dir.join("watermark")).unwrap();
    let error = try_open(&place, OnDamage::Refuse).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the log ends at lsn 90, but lsn 100 was"),
        "{error}"
    );
}

#[test]
fn a_missing_or_damaged_watermark_is_told_and_written_anew() {
    let place = filled(10);
    let path = place.options.dir.join("watermark");
    for damage in [true, false] {
        if damage {
            fs::write(&path, [7; 5_000]).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        let opened = place.open();
        assert_eq!(all(&*opened.reader), batch(1..=10));
        assert!(
            opened.notes[0].contains("cannot be told"),
            "{:?}",
            opened.notes
        );
        opened.store.close(Millis(1)).unwrap();
        assert_eq!(place.open().notes.len(), 0);
    }
}

#[test]
fn a_hole_in_the_middle_is_damage_with_its_place() {
    let place = filled(300);
    behind_its_back(&place, |database| {
        let tree = database.db.open_tree(tree_name(Lsn(101))).unwrap();
        assert!(tree.remove(key(Lsn(120), 0)).unwrap().is_some());
    });
    let error = try_open(&place, OnDamage::Refuse).unwrap_err();
    assert!(error.to_string().contains("damaged at lsn 120"), "{error}");
}

#[test]
fn a_lost_segment_is_damage_with_its_place() {
    let place = filled(300);
    behind_its_back(&place, |database| {
        assert!(database.db.drop_tree(tree_name(Lsn(101))).unwrap());
    });
    let error = try_open(&place, OnDamage::Refuse).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("damaged at lsn 101: a segment of the log is"),
        "{error}"
    );
}

#[test]
fn damage_in_old_history_does_not_stop_the_node() {
    let place = filled(300);
    let opened = place.open();
    checkpoint(&*opened.reader, 290, 1).unwrap();
    checkpoint(&*opened.reader, 300, 1).unwrap();
    opened.store.close(Millis(1)).unwrap();
    behind_its_back(&place, |database| {
        let tree = database.db.open_tree(tree_name(Lsn(101))).unwrap();
        assert!(tree.remove(key(Lsn(101), 0)).unwrap().is_some());
    });
    let opened = try_open(&place, OnDamage::Refuse).unwrap();
    assert!(opened.notes[0].starts_with("the history between lsn 101 and 200 is damaged"));
    assert!(matches!(
        opened.reader.read(Lsn(101), 1, 1),
        Err(StoreError::Damaged { .. })
    ));
    assert_eq!(opened.reader.read(Lsn(290), 99, 1 << 20).unwrap().len(), 11);
}

#[test]
fn interrupted_begins_and_drops_of_segments_are_finished() {
    let place = filled(300);
    behind_its_back(&place, |database| {
        // Begun, but the batch did not get in.
        let facts = crate::store::v1::SegmentV1 {
            first: 301,
            after: 300,
            base: 0,
            last: 0,
            bytes: 0,
            earliest: 0,
            latest: 0,
        };
        let bytes = crate::store::record::encode_segment(&facts).unwrap();
        database
            .meta
            .insert(crate::store::shared::segment_key(Lsn(301)), bytes)
            .unwrap();
        database.db.open_tree(tree_name(Lsn(301))).unwrap();
        // Dropped, but the tree is still there.
        database
            .db
            .open_tree(tree_name(Lsn(400)))
            .unwrap()
            .insert("x", "y")
            .unwrap();
    });
    let mut opened = place.open();
    assert_eq!((opened.last_lsn, opened.next_lsn), (Lsn(300), Lsn(301)));
    put(&mut *opened.store, 301..=310);
    assert_eq!(all(&*opened.reader), batch(1..=310));
    opened.store.close(Millis(1)).unwrap();
    behind_its_back(&place, |database| {
        let names = database.db.tree_names();
        assert!(
            !names
                .iter()
                .any(|name| *name == tree_name(Lsn(400)).as_bytes())
        );
    });
}

#[path = "recovery_refusal_tests.rs"]
mod refusals;

#[test]
fn bases_serve_a_restart_too_and_are_moved_aside_with_the_rest() {
    let place = OnSled::new(|options| options.base_records = 100);
    let mut opened = place.open();
    for end in (50..=500).step_by(50) {
        put(&mut *opened.store, end - 49..=end);
        checkpoint(&*opened.reader, end, 2).unwrap();
    }
    drop(opened);
    let dir = &place.options.dir;
    for lsn in [450, 500] {
        fs::write(checkpoint::path(dir, Lsn(lsn)), b"damaged").unwrap();
    }
    fs::write(checkpoint::path(dir, Lsn(200)), b"damaged").unwrap();
    let mut opened = place.open();
    assert_eq!(opened.checkpoint.as_ref().unwrap().lsn, Lsn(400));
    assert_eq!(opened.notes.len(), 2, "{:?}", opened.notes);
    let bases = |opened: &Opened| -> Vec<u64> {
        opened
            .reader
            .bases()
            .iter()
            .map(|base| base.lsn.0)
            .collect()
    };
    assert_eq!(bases(&opened), [100, 300, 400]);
    put(&mut *opened.store, 501..=510);
    checkpoint(&*opened.reader, 510, 2).unwrap();
    assert_eq!(
        checkpoint::list(dir).unwrap(),
        [100, 300, 400, 510].map(Lsn)
    );
    drop(opened);
    // What is left of log and checkpoints does not reach what was acknowledged.
    lose_behind(&place, 20);
    for lsn in [300, 400, 510] {
        fs::remove_file(checkpoint::path(dir, Lsn(lsn))).unwrap();
    }
    let opened = try_open(&place, OnDamage::MoveAside).unwrap();
    assert_eq!(bases(&opened), [0; 0]);
    assert!(checkpoint::list(dir).unwrap().is_empty());
}
