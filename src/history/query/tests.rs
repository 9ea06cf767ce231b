//! Walks against a scan of everything: in turns, while the log grows and is trimmed, and against
//! what the rules say of random commands.

use proptest::prelude::*;

use super::*;
use crate::history::horizon::Horizon;
use crate::history::testing::{Random, Rig, entry, naive, question, walked};
use crate::history::{Before, Entry};
use crate::registry::Registry;
use crate::registry::change::Record;
use crate::registry::rules::Rules;
use crate::registry::tests::Scene;
use crate::registry::tests::steps::{cases, steps};
use crate::store::testing::{CountingReader, options};
use crate::store::{Durability, MemDisk};
use crate::types::{AppName, Millis};

#[test]
fn turns_add_up_to_the_whole_answer_in_both_orders() {
    for seed in 21..=24 {
        let rig = Rig::new(seed, 600);
        let index = Arc::new(Index::new(None));
        let mut random = Random(seed);
        for round in 0..60 {
            let question = question(&mut random, rig.kept());
            let bounds = (1 + random.below(40), 1 + random.below(300));
            let goes_on = random.below(2) == 0;
            let found = walked(&rig.reader(), &index, &question, bounds, goes_on);
            let expected = naive(rig.kept(), &question);
            assert_eq!(
                found, expected,
                "seed {seed}, round {round}, {bounds:?}, {goes_on}: {question:?}"
            );
        }
    }
}

/// What is appended while pages are taken comes to a walk from the oldest on, and does not disturb
/// one from the newest.
#[test]
fn pages_hold_while_records_are_appended() {
    for (seed, order) in [
        (31, Order::Newest),
        (32, Order::Oldest),
        (33, Order::Newest),
    ] {
        let mut rig = Rig::new(seed, 300);
        let index = Arc::new(Index::new(None));
        let mut random = Random(seed);
        let asked = Question {
            order,
            ..question(&mut random, rig.kept())
        };
        let begun = rig.kept().len();
        let mut position = None;
        let mut found: Vec<Entry> = Vec::new();
        for page in 0.. {
            if page < 10 {
                rig.append(37);
            }
            let mut walk = Walk::new(rig.reader(), index.clone(), asked.clone());
            walk = match position {
                Some(position) => walk.starting_at(position),
                None if order == Order::Newest => walk.starting_at(rig.source.log[begun - 1].lsn),
                None => walk,
            };
            walk.take(7, 100, &mut |record, before| {
                found.push(entry(record, before));
                ControlFlow::Continue(())
            })
            .unwrap();
            position = walk.next();
            if position.is_none() {
                break;
            }
        }
        let expected = match order {
            Order::Newest => naive(&rig.source.log[..begun], &asked),
            Order::Oldest => naive(&rig.source.log, &asked),
        };
        // From the oldest on, the end may have been reached before the last were appended.
        assert!(expected.starts_with(&found), "seed {seed}: {asked:?}");
        if order == Order::Newest {
            assert_eq!(found, expected, "seed {seed}: {asked:?}");
        }
    }
}

#[test]
fn a_sink_that_breaks_is_gone_on_behind_what_it_was_told() {
    let rig = Rig::new(41, 200);
    let index = Arc::new(Index::new(None));
    for order in [Order::Newest, Order::Oldest] {
        let asked = Question {
            order,
            ..Question::default()
        };
        let mut walk = Walk::new(rig.reader(), index.clone(), asked.clone());
        let mut found = Vec::new();
        while walk.next().is_some() {
            walk.take(usize::MAX, usize::MAX, &mut |record, before| {
                found.push(entry(record, before));
                if found.len() % 3 == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        }
        assert_eq!(found, naive(rig.kept(), &asked));
    }
}

#[test]
fn a_log_that_is_trimmed_under_a_walk_is_told_as_far_as_it_is_there() {
    for (seed, order) in [
        (51, Order::Newest),
        (52, Order::Oldest),
        (53, Order::Oldest),
    ] {
        let mut rig = Rig::new(seed, 800);
        let index = Arc::new(Index::new(None));
        let asked = Question {
            order,
            ..Question::default()
        };
        let all = naive(rig.kept(), &asked);
        let mut walk = Walk::new(rig.reader(), index, asked);
        let mut found: Vec<Lsn> = Vec::new();
        let mut turns = 0;
        while walk.next().is_some() {
            walk.take(30, 1000, &mut |record, _| {
                found.push(record.lsn);
                ControlFlow::Continue(())
            })
            .unwrap();
            turns += 1;
            if turns == 2 {
                rig.trim(4);
            }
        }
        let first = rig.reader().first_lsn();
        let expected: Vec<Lsn> = all
            .iter()
            .map(|entry| entry.lsn)
            .enumerate()
            .filter(|(place, lsn)| *place < 60 || *lsn >= first)
            .map(|(_, lsn)| lsn)
            .collect();
        assert_eq!(found, expected, "seed {seed}");
        assert_eq!(walk.has_missed(), found.len() < all.len(), "seed {seed}");
    }
}

/// A record that cannot be read takes its surroundings with it, and nothing else.
#[test]
fn damage_is_passed_over_and_said() {
    let rig = Rig::new(55, 600);
    let segments = rig.reader().segments();
    let hurt = segments[2];
    let reader = CountingReader::new(rig.reader()).with_damage(Lsn(hurt.first.0 + 3));
    let reader: Arc<dyn LogReader> = Arc::new(reader);
    let index = Arc::new(Index::new(None));
    while index.catch_up(&*reader).unwrap() {}
    assert_eq!(index.stats().segments, segments.len() - 2);
    let some = Filter {
        apps: vec![AppName::new("SHOP")],
        ..Filter::default()
    };
    for filter in [Filter::default(), some] {
        for order in [Order::Newest, Order::Oldest] {
            let filter = filter.clone();
            let mut walk = Walk::new(reader.clone(), index.clone(), Question { filter, order });
            let mut found = Vec::new();
            while walk.next().is_some() {
                walk.take(40, 200, &mut |record, _| {
                    found.push(record.lsn);
                    ControlFlow::Continue(())
                })
                .unwrap();
            }
            assert!(walk.has_missed());
            let is_told = |lsn: &Lsn| *lsn < hurt.first || *lsn > hurt.last;
            found.retain(is_told);
            found.sort();
            let asked = &walk.question.filter;
            let expected: Vec<Lsn> = rig
                .kept()
                .iter()
                .filter(|record| asked.matches(record) && is_told(&record.lsn))
                .map(|record| record.lsn)
                .collect();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn what_is_no_longer_kept_is_said() {
    let mut rig = Rig::new(61, 500);
    let filter = |from: Option<Millis>| Filter {
        from,
        ..Filter::default()
    };
    let whole = Horizon::of(&*rig.reader()).unwrap();
    assert_eq!(whole.oldest_lsn, Lsn(1));
    assert_eq!(whole.note(&filter(None)), None);
    assert_eq!(whole.note(&filter(Some(Millis(5)))), None);

    rig.trim(2);
    let cut = Horizon::of(&*rig.reader()).unwrap();
    let oldest = rig.kept()[0].at;
    assert_eq!(
        (cut.oldest_lsn, cut.oldest),
        (rig.kept()[0].lsn, Some(oldest))
    );
    let note = cut.note(&filter(None)).unwrap();
    assert!(note.contains("no longer kept"), "{note}");
    assert!(cut.note(&filter(Some(oldest))).is_some());
    assert_eq!(cut.note(&filter(Some(oldest.plus(1)))), None);
}

/// Both bounds of the history hold, and what is left says where it begins.
#[test]
fn history_is_kept_by_age_and_by_bytes() {
    const AGE_MS: u64 = 1_000_000;
    const BYTES: u64 = 200_000;
    for (max_age_ms, max_bytes) in [(AGE_MS, u64::MAX), (u64::MAX, BYTES)] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path().join("data"));
        options.history_max_age_ms = max_age_ms;
        options.history_max_bytes = max_bytes;
        let opened = crate::store::open(&options, Millis(1), &mut |_| {}).unwrap();
        let mut rig = Rig::on(opened, 62, 900);
        let index = Arc::new(Index::in_data_dir(&options.dir));
        while index.catch_up(&*rig.reader()).unwrap() {}
        let before = rig.reader().segments();
        let now = rig.source.log.iter().map(|record| record.at).max().unwrap();
        rig.checkpoint();
        while rig.opened.store.trim(Lsn(u64::MAX), now).unwrap().segments > 0 {}

        let left = rig.reader().segments();
        assert!(
            left.len() < before.len() && left.len() > 1,
            "{}",
            left.len()
        );
        let bytes: u64 = left.iter().map(|segment| segment.bytes).sum();
        assert!(bytes <= max_bytes, "{bytes} bytes are kept");
        assert!(now.since(left[0].latest) <= max_age_ms, "too old");
        // No more is dropped than has to be.
        let last_dropped = before[before.len() - left.len() - 1];
        let is_due =
            now.since(last_dropped.latest) > max_age_ms || bytes + last_dropped.bytes > max_bytes;
        assert!(is_due, "dropped too early");

        let horizon = Horizon::of(&*rig.reader()).unwrap();
        assert_eq!(horizon.oldest_lsn, left[0].first);
        assert_eq!(horizon.oldest, Some(rig.kept()[0].at));
        assert!(horizon.note(&Filter::default()).is_some());
        while index.catch_up(&*rig.reader()).unwrap() {}
        assert_eq!(index.stats().segments, left.len() - 1);
        let asked = Question::default();
        let found = walked(&rig.reader(), &index, &asked, (50, 500), true);
        assert_eq!(found, naive(rig.kept(), &asked));
    }
}

#[test]
fn a_hole_in_the_log_is_said_where_it_matters() {
    let disk = MemDisk::new(options("mem"));
    let mut source = crate::history::testing::Source::new(71);
    let mut opened = disk.open(Millis(1));
    let records = source.more(40);
    opened.store.append(&records).unwrap();
    opened.store.commit(Durability::Disk).unwrap();
    // Ten more were acknowledged and are lost.
    let last = records[records.len() - 1].lsn;
    opened
        .store
        .touch_watermark(Lsn(last.0 + 10), Millis(2))
        .unwrap();
    let mut opened = disk.open(Millis(3));
    let next = opened.next_lsn;
    assert_eq!(next, Lsn(last.0 + 11));
    let later: Vec<Arc<Record>> = source
        .more(40)
        .iter()
        .map(|record| {
            Arc::new(Record {
                lsn: Lsn(record.lsn.0 + 10),
                ..(**record).clone()
            })
        })
        .collect();
    opened.store.append(&later).unwrap();
    opened.store.commit(Durability::Disk).unwrap();

    let horizon = Horizon::of(&*opened.reader).unwrap();
    let note = horizon.note(&Filter::default()).unwrap();
    assert!(note.contains("were lost"), "{note}");
    let far = later.iter().map(|record| record.at).max().unwrap();
    let after = Filter {
        from: Some(far.plus(1)),
        ..Filter::default()
    };
    assert_eq!(horizon.note(&after), None);

    let all: Vec<Arc<Record>> = records.iter().chain(&later).cloned().collect();
    let index = Arc::new(Index::new(None));
    for order in [Order::Newest, Order::Oldest] {
        let asked = Question {
            order,
            ..Question::default()
        };
        let found = walked(&opened.reader, &index, &asked, (9, 50), true);
        assert_eq!(found, naive(&all, &asked));
    }
}

#[test]
fn an_empty_log_has_nothing_to_tell() {
    let opened = MemDisk::new(options("mem")).open(Millis(1));
    let index = Arc::new(Index::new(None));
    for order in [Order::Newest, Order::Oldest] {
        let asked = Question {
            order,
            ..Question::default()
        };
        assert_eq!(walked(&opened.reader, &index, &asked, (10, 10), true), []);
    }
    let horizon = Horizon::of(&*opened.reader).unwrap();
    assert_eq!(horizon.note(&Filter::default()), None);
    assert_eq!(horizon.oldest, None);
}

/// The entries of a log, each told from the registry as it was right before.
fn replayed(rules: &Rules, log: &[Arc<Record>]) -> Vec<Entry> {
    let mut registry = Registry::new(Arc::new(rules.clone()));
    log.iter()
        .map(|record| {
            let change = &record.change;
            let lease = registry
                .lease(change.app.as_str(), change.id.as_str())
                .map(|lease| lease.to_image());
            let override_ = registry.override_of(&change.app, &change.id);
            let entry = Entry::new(record, Before::State(lease.as_ref(), override_));
            registry.evolve(record, Millis(1));
            entry
        })
        .collect()
}

proptest! {
    #![proptest_config(cases(96))]

    /// An entry says what the change did to the registry, as the rules have it.
    #[test]
    fn entries_tell_what_the_registry_went_through(steps in steps(1..80)) {
        let rules = Rules::default();
        let mut scene = Scene::new(&rules);
        for step in &steps {
            scene.take(step);
        }
        let mut opened = MemDisk::new(options("mem")).open(Millis(1));
        opened.store.append(&scene.log).unwrap();
        opened.store.commit(Durability::Flush).unwrap();
        let index = Arc::new(Index::new(None));
        let mut expected = replayed(&rules, &scene.log);
        for order in [Order::Oldest, Order::Newest] {
            let asked = Question { order, ..Question::default() };
            let found = walked(&opened.reader, &index, &asked, (5, 100), true);
            prop_assert_eq!(&found, &expected);
            expected.reverse();
        }
    }
}
