//! The past as it was: random histories with checkpoints, trims, restarts, crashes, compactions and
//! steps of the clock, beside a model that remembers every moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::diff::{Different, Sort, compare};
use super::position::{Moment, by_lsn, by_time};
use super::travel::{Oldest, Past, TravelError, Traveller, oldest, registry_at};
use crate::changelog::{Published, write_checkpoint};
use crate::registry::change::{LeaseImage, OverrideEffect, Record};
use crate::registry::delta::DeltaTail;
use crate::registry::rules::{OverrideScope, Rules};
use crate::registry::status::Status;
use crate::registry::tests::steps::{Step, cases, rules, step};
use crate::registry::tests::{START, Scene};
use crate::registry::{OverrideKey, Registry};
use crate::store::testing::{options, registered};
use crate::store::{self, Durability, LogReader, MemDisk, OnDamage, Opened, StoreOptions};
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// The registry at a position, as a list and no more.
#[derive(Clone, Debug, Default, PartialEq)]
struct Naive {
    leases: BTreeMap<(AppName, InstanceId), (Lsn, LeaseImage)>,
    overrides: BTreeMap<OverrideKey, Status>,
}

/// A lease without what renewals move.
fn settled(image: &LeaseImage) -> LeaseImage {
    LeaseImage {
        renewed_at: Millis::ZERO,
        ..image.clone()
    }
}

impl Naive {
    fn apply(&mut self, record: &Record, scope: OverrideScope) {
        let change = &record.change;
        let key = OverrideKey {
            app: (scope == OverrideScope::Instance).then(|| change.app.clone()),
            id: change.id.clone(),
        };
        match change.override_effect {
            OverrideEffect::Keep => {}
            OverrideEffect::Set(status) => {
                self.overrides.insert(key, status);
            }
            OverrideEffect::Remove => {
                self.overrides.remove(&key);
            }
        }
        let name = (change.app.clone(), change.id.clone());
        match &change.lease {
            Some(_) if change.kind.removes() => {
                self.leases.remove(&name);
            }
            Some(lease) => {
                self.leases.insert(name, (record.lsn, settled(lease)));
            }
            None => {}
        }
    }

    fn of(registry: &Registry) -> Self {
        registry.check().unwrap();
        let leases = registry.leases().map(|lease| {
            let instance = lease.instance();
            let name = (instance.app.clone(), instance.id());
            (name, (lease.lsn, settled(&lease.image)))
        });
        Self {
            leases: leases.collect(),
            overrides: registry.overrides().map(|(k, s)| (k.clone(), s)).collect(),
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Do(Vec<Step>),
    Checkpoint,
    Trim { by_bytes: bool, age_ms: u64 },
    Restart { is_clean: bool },
    Compact,
    StepClock(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => prop::collection::vec(step(), 1..12).prop_map(Act::Do),
        6 => Just(Act::Checkpoint),
        2 => (any::<bool>(), 0..200_000u64)
            .prop_map(|(by_bytes, age_ms)| Act::Trim { by_bytes, age_ms }),
        1 => any::<bool>().prop_map(|is_clean| Act::Restart { is_clean }),
        1 => Just(Act::Compact),
        1 => (-50_000..50_000i64).prop_map(Act::StepClock),
    ]
}

/// Where the log is.
enum Disk {
    Memory(MemDisk),
    Sled(
        StoreOptions,
        #[expect(dead_code, reason = "removes it")] tempfile::TempDir,
    ),
}

impl Disk {
    fn open(&self) -> Opened {
        match self {
            Self::Memory(disk) => disk.open(Millis(START)),
            Self::Sled(options, _) => store::open(options, Millis(START), &mut |_| {}).unwrap(),
        }
    }
}

/// A few records a segment, a few segments a base.
fn small(dir: &Path) -> StoreOptions {
    StoreOptions {
        segment_bytes: 2 << 10,
        base_records: 8,
        history_max_age_ms: 400_000,
        history_max_bytes: 24 << 10,
        ..options(dir)
    }
}

struct World {
    disk: Disk,
    opened: Option<Opened>,
    scene: Scene,
    rules: Arc<Rules>,
    /// How far the wall clock is off, ms.
    step: i64,
    written: usize,
    /// Every record ever written, and the state after each.
    log: Vec<Arc<Record>>,
    states: Vec<Naive>,
}

impl World {
    fn new(disk: Disk, rules: &Rules) -> Self {
        let opened = disk.open();
        Self {
            disk,
            opened: Some(opened),
            scene: Scene::new(rules),
            rules: Arc::new(rules.clone()),
            step: 0,
            written: 0,
            log: Vec::new(),
            states: vec![Naive::default()],
        }
    }

    fn opened(&mut self) -> &mut Opened {
        self.opened.as_mut().unwrap()
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.opened.as_ref().unwrap().reader.clone()
    }

    fn wall(&self, at: Millis) -> Millis {
        Millis(at.0.saturating_add_signed(self.step))
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Do(steps) => {
                for step in steps {
                    self.scene.take(step);
                }
                let fresh: Vec<Arc<Record>> = self.scene.log[self.written..]
                    .iter()
                    .map(|record| {
                        let at = self.wall(record.at);
                        Arc::new(Record {
                            at,
                            ..(**record).clone()
                        })
                    })
                    .collect();
                self.written += fresh.len();
                for record in &fresh {
                    let mut state = self.states.last().unwrap().clone();
                    state.apply(record, self.rules.override_scope);
                    self.states.push(state);
                }
                self.opened().store.append(&fresh).unwrap();
                self.opened().store.commit(Durability::Disk).unwrap();
                self.log.extend(fresh);
            }
            Act::Checkpoint => {
                let state = Published {
                    registry: self.scene.registry.clone(),
                    delta: DeltaTail::default(),
                };
                let at = self.wall(self.scene.now.wall);
                write_checkpoint(&self.reader(), &state, at).unwrap();
            }
            Act::Trim { by_bytes, age_ms } => {
                let at = self.wall(self.scene.now.wall);
                let now = if *by_bytes {
                    Millis(0)
                } else {
                    at.plus(*age_ms)
                };
                self.opened().store.trim(Lsn(u64::MAX), now).unwrap();
            }
            Act::Restart { is_clean } => self.restart(*is_clean),
            Act::Compact => {
                if let Disk::Sled(options, _) = &self.disk {
                    let options = options.clone();
                    self.opened
                        .take()
                        .unwrap()
                        .store
                        .close(Millis(START))
                        .unwrap();
                    store::compact(&options, Millis(START), &mut |_| {}).unwrap();
                    self.opened = Some(self.disk.open());
                }
            }
            Act::StepClock(ms) => self.step += ms,
        }
    }

    fn restart(&mut self, is_clean: bool) {
        let opened = self.opened.take().unwrap();
        if is_clean {
            opened.store.close(Millis(START)).unwrap();
        } else {
            drop(opened);
        }
        self.opened = Some(self.disk.open());
    }

    /// Asks for every position and many moments.
    fn examine(&self, times: &[u64]) {
        let reader = &*self.reader();
        let newest = self.log.len() as u64;
        let oldest = oldest(reader).unwrap();
        let traveller = Traveller::new(self.rules.clone());
        let mut before: Option<Arc<Past>> = None;
        for (lsn, state) in (0..).zip(&self.states) {
            let found = by_lsn(reader, Lsn(lsn))
                .map_err(Arc::new)
                .and_then(|moment| {
                    assert_eq!((moment.lsn, moment.lost), (Lsn(lsn), None));
                    // The way must not matter.
                    let hint = before.as_deref().filter(|_| lsn % 3 == 0);
                    traveller.at(reader, moment.lsn, hint)
                });
            match found {
                Ok(past) => {
                    assert_eq!(Naive::of(&past.registry), *state, "{lsn}");
                    assert_eq!(past.lost, None);
                    before = Some(past);
                }
                Err(error) => {
                    assert!(Lsn(lsn) < oldest.lsn, "{lsn} is kept: {error}");
                    let TravelError::TooOld(told) = &*error else {
                        panic!("{error}")
                    };
                    assert!(told.lsn >= oldest.lsn);
                }
            }
        }
        assert!(matches!(
            by_lsn(reader, Lsn(newest + 1)),
            Err(TravelError::Future { .. })
        ));
        let first = reader.first_lsn();
        for at in times {
            let at = Millis(START + at);
            let expected = self
                .log
                .iter()
                .rev()
                .find(|record| record.lsn >= first && record.at <= at)
                .map(|record| record.lsn);
            match (by_time(reader, at), expected) {
                (Ok(moment), Some(lsn)) => assert_eq!((moment.lsn, moment.at), (lsn, at)),
                // A base right in front of the first record says what was before.
                (Ok(moment), None) => {
                    assert_eq!(moment.lsn.next(), first);
                    assert_eq!(moment.since.is_some(), first == Lsn(1) && newest > 0);
                }
                (Err(TravelError::TooOld(_)), None) => assert_ne!(first, Lsn(1), "{at}"),
                (Err(error), expected) => panic!("{at}: {error} instead of {expected:?}"),
            }
        }
    }
}

fn histories() -> impl Strategy<Value = (Rules, Vec<Act>, Vec<u64>)> {
    let acts = prop::collection::vec(act(), 1..40);
    let times = prop::collection::vec(0..1_500_000u64, 20);
    (rules(), acts, times)
}

fn check(disk: Disk, rules: &Rules, acts: &[Act], times: &[u64]) {
    let mut world = World::new(disk, rules);
    for (place, act) in acts.iter().enumerate() {
        world.act(act);
        if place % 10 == 9 {
            world.examine(times);
        }
    }
    world.examine(times);
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn every_kept_moment_is_told_as_it_was_from_a_disk_in_memory(
        (rules, acts, times) in histories()
    ) {
        let disk = MemDisk::new(small(Path::new("mem")));
        check(Disk::Memory(disk), &rules, &acts, &times);
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn every_kept_moment_is_told_as_it_was_from_sled((rules, acts, times) in histories()) {
        let dir = tempfile::tempdir().unwrap();
        let options = small(&dir.path().join("data"));
        check(Disk::Sled(options, dir), &rules, &acts, &times);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn a_diff_leads_from_one_state_to_the_other(
        rules in rules(),
        steps in prop::collection::vec(step(), 1..60),
        (a, b) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let mut scene = Scene::new(&rules);
        let mut states = vec![scene.registry.clone()];
        for step in &steps {
            scene.take(step);
            states.push(scene.registry.clone());
        }
        let mut places = [a.index(states.len()), b.index(states.len())];
        places.sort_unstable();
        let [before, after] = places.map(|place| &states[place]);
        let (was, is) = (Naive::of(before), Naive::of(after));
        let mut told = Vec::new();
        compare(before, after, &[], &mut |sort, different| {
            let name = (different.app.map(AppName::new), different.instance.clone().into_owned());
            told.push((sort, name, different.clone()));
        });
        for (sort, (app, id), different) in &told {
            let Some(app) = app else { continue };
            let key = (app.clone(), InstanceId::new(id));
            let there = (was.leases.contains_key(&key), is.leases.contains_key(&key));
            let is_override = different.changes.contains_key("override");
            match sort {
                Sort::Added => prop_assert_eq!(there, (false, true)),
                Sort::Removed => prop_assert_eq!(there, (true, false)),
                Sort::Changed => prop_assert!(there.0 == there.1 && (there.0 || is_override)),
            }
        }
        let named = |sort: Sort, key: &(AppName, InstanceId)| {
            told.iter().any(|(s, (app, id), _)| {
                *s == sort && app.as_ref() == Some(&key.0) && *id == key.1.as_str()
            })
        };
        for (key, (_, image)) in &is.leases {
            match was.leases.get(key) {
                None => prop_assert!(named(Sort::Added, key)),
                Some((_, old)) if old.instance.status != image.instance.status
                    || old.instance.metadata != image.instance.metadata =>
                {
                    prop_assert!(named(Sort::Changed, key));
                }
                Some(_) => {}
            }
        }
        for key in was.leases.keys().filter(|key| !is.leases.contains_key(key)) {
            prop_assert!(named(Sort::Removed, key));
        }
        let overrides = told.iter().filter(|(_, _, d)| d.changes.contains_key("override"));
        let differing = was.overrides != is.overrides;
        prop_assert_eq!(overrides.count() > 0, differing);
    }
}

/// A store in a directory, with registrations one a second: LSN n at `n * 1000`.
struct Shelf {
    options: StoreOptions,
    _dir: tempfile::TempDir,
}

impl Shelf {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            options: StoreOptions {
                base_records: 10,
                ..options(dir.path().join("data"))
            },
            _dir: dir,
        }
    }

    fn open(&self) -> Opened {
        store::open(&self.options, Millis(1), &mut |_| {}).unwrap()
    }

    fn checkpoint_path(&self, lsn: u64) -> std::path::PathBuf {
        self.options.dir.join(format!("checkpoint-{lsn:020}"))
    }
}

fn put(opened: &mut Opened, lsns: std::ops::RangeInclusive<u64>) {
    let records: Vec<_> = lsns.map(|n| Arc::new(registered(n, n * 1000))).collect();
    opened.store.append(&records).unwrap();
    opened.store.commit(Durability::Disk).unwrap();
    let last = records.last().unwrap();
    opened.store.touch_watermark(last.lsn, last.at).unwrap();
}

/// A checkpoint of the registrations up to `lsn`, taken half a second later.
fn checkpoint(opened: &Opened, lsn: u64) {
    let mut registry = Registry::new(Arc::default());
    for n in 1..=lsn {
        registry.evolve(&registered(n, n * 1000), Millis::ZERO);
    }
    let state = Published {
        registry,
        delta: DeltaTail::default(),
    };
    write_checkpoint(&opened.reader, &state, Millis(lsn * 1000 + 500)).unwrap();
}

fn at(opened: &Opened, lsn: u64) -> Result<Past, TravelError> {
    registry_at(&*opened.reader, &Arc::default(), Lsn(lsn), None)
}

#[test]
fn damaged_bases_are_passed_over() {
    let shelf = Shelf::new();
    let mut opened = shelf.open();
    // Five instances that register again and again.
    let change = |n: u64| {
        let mut record = registered(n % 5, n * 1000);
        record.lsn = Lsn(n);
        record
    };
    let mut registry = Registry::new(Arc::default());
    for n in 1..=100 {
        let record = change(n);
        registry.evolve(&record, Millis::ZERO);
        opened.store.append(&[Arc::new(record)]).unwrap();
        opened.store.commit(Durability::Disk).unwrap();
        if n % 10 == 0 {
            let state = Published {
                registry: registry.clone(),
                delta: DeltaTail::default(),
            };
            write_checkpoint(&opened.reader, &state, Millis(n * 1000)).unwrap();
        }
    }
    let bases: Vec<u64> = opened.reader.bases().iter().map(|b| b.lsn.0).collect();
    assert_eq!(bases, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    for lsn in [30, 40] {
        std::fs::write(shelf.checkpoint_path(lsn), b"damaged").unwrap();
    }
    std::fs::remove_file(shelf.checkpoint_path(50)).unwrap();
    for lsn in 0..=100 {
        let past = at(&opened, lsn).unwrap();
        let changes = past.registry.leases().map(|lease| lease.lsn.0);
        let mut changes: Vec<u64> = changes.collect();
        changes.sort_unstable();
        let expected: Vec<u64> = (lsn.saturating_sub(5) + 1..=lsn).collect();
        assert_eq!(changes, expected, "{lsn}");
    }
}

#[test]
fn what_was_trimmed_is_too_old_and_says_since_when() {
    let mut shelf = Shelf::new();
    shelf.options.history_max_bytes = 40 << 10;
    let mut opened = shelf.open();
    for end in (10..=300).step_by(10) {
        put(&mut opened, end - 9..=end);
        checkpoint(&opened, end);
    }
    while opened
        .store
        .trim(Lsn(u64::MAX), Millis(1))
        .unwrap()
        .segments
        > 0
    {}
    let reader = &*opened.reader;
    let first = reader.first_lsn();
    assert!(first > Lsn(1));
    let oldest = oldest(reader).unwrap();
    assert!(oldest.lsn.next() >= first && oldest.lsn < Lsn(300));
    assert_eq!(oldest.at, Some(Millis(oldest.lsn.0 * 1000)));
    for lsn in oldest.lsn.0..=300 {
        assert_eq!(at(&opened, lsn).unwrap().registry.len(), lsn);
    }
    let error = at(&opened, oldest.lsn.0 - 1).unwrap_err();
    assert!(
        matches!(error, TravelError::TooOld(Oldest { lsn, .. }) if lsn == oldest.lsn),
        "{error}"
    );
    assert!(matches!(
        by_time(reader, Millis(500)),
        Err(TravelError::TooOld(_))
    ));
    assert!(matches!(
        by_lsn(reader, Lsn(5)),
        Err(TravelError::TooOld(_))
    ));
}

#[test]
fn a_question_while_the_log_is_trimmed_is_answered_rightly_or_is_too_old() {
    let mut shelf = Shelf::new();
    shelf.options.history_max_bytes = 40 << 10;
    let mut opened = shelf.open();
    let reader = opened.reader.clone();
    std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(1);
        let asking = scope.spawn(move || {
            let mut answered = 0;
            for n in 0.. {
                if stopped.try_recv().is_ok() {
                    return answered;
                }
                let newest = reader.last_lsn().0;
                let asked = newest.saturating_sub(n % 150);
                match registry_at(&*reader, &Arc::default(), Lsn(asked), None) {
                    Ok(past) => assert_eq!((past.registry.len(), past.lost), (asked, None)),
                    Err(TravelError::TooOld(_)) => {}
                    Err(error) => panic!("{asked}: {error}"),
                }
                answered += 1;
            }
            answered
        });
        for end in (10..=800).step_by(10) {
            put(&mut opened, end - 9..=end);
            checkpoint(&opened, end);
            opened.store.trim(Lsn(u64::MAX), Millis(1)).unwrap();
        }
        stop.send(()).unwrap();
        assert!(asking.join().unwrap() > 0);
    });
    assert!(opened.reader.first_lsn() > Lsn(500));
}

#[test]
fn where_the_clock_was_stepped_back_the_later_record_counts() {
    let disk = MemDisk::new(StoreOptions {
        segment_bytes: 1 << 10,
        ..options("mem")
    });
    let mut opened = disk.open(Millis(1));
    let times = [10, 20, 30, 90, 95, 40, 50, 60, 55, 70, 100];
    for (n, at) in (1..).zip(times) {
        opened.store.append(&[Arc::new(registered(n, at))]).unwrap();
        opened.store.commit(Durability::Disk).unwrap();
    }
    assert!(opened.reader.segments().len() > 2);
    for (at, lsn) in [
        (10, 1),
        (19, 1),
        (35, 3),
        (40, 6),
        (56, 9),
        (60, 9),
        (89, 10),
        (94, 10),
        (99, 10),
        (1_000, 11),
    ] {
        let moment = by_time(&*opened.reader, Millis(at)).unwrap();
        assert_eq!(moment.lsn, Lsn(lsn), "at {at}");
    }
    let before = by_time(&*opened.reader, Millis(9)).unwrap();
    assert_eq!((before.lsn, before.since), (Lsn::ZERO, Some(Millis(10))));
}

#[test]
fn a_hole_in_the_log_is_told() {
    let shelf = Shelf::new();
    let mut opened = shelf.open();
    put(&mut opened, 1..=80);
    checkpoint(&opened, 80);
    put(&mut opened, 81..=100);
    checkpoint(&opened, 100);
    drop(opened);
    // The records behind 90 vanish; the checkpoint at 100 has the state.
    let database = sled::open(shelf.options.dir.join("log")).unwrap();
    for name in database.tree_names() {
        if name.starts_with(b"log-") {
            let tree = database.open_tree(name).unwrap();
            for entry in &tree {
                let (key, _) = entry.unwrap();
                if key[..8] > 90u64.to_be_bytes()[..] {
                    tree.remove(key).unwrap();
                }
            }
        }
    }
    database.flush().unwrap();
    drop(database);

    let mut opened = shelf.open();
    let next = opened.next_lsn.0;
    assert!(opened.lost.is_some() && next > 101);
    put(&mut opened, next..=next + 9);
    for end in [next + 4, next + 9] {
        let mut registry = at(&opened, 100).unwrap().registry;
        for n in next..=end {
            registry.evolve(&registered(n, n * 1000), Millis::ZERO);
        }
        let state = Published {
            registry,
            delta: DeltaTail::default(),
        };
        write_checkpoint(&opened.reader, &state, Millis(end * 1000)).unwrap();
    }
    let told = |lsn| {
        let moment = by_lsn(&*opened.reader, Lsn(lsn)).unwrap();
        let past = at(&opened, lsn).unwrap();
        (past.registry.len(), past.lost, moment.lost)
    };
    let span = |first, last| Some((Lsn(first), Lsn(last)));
    assert_eq!(told(90), (90, None, None));
    assert_eq!(told(95), (90, span(91, 95), span(91, 95)));
    assert_eq!(told(100), (100, None, None));
    assert_eq!(told(next), (101, None, None));
    assert_eq!(told(next + 9), (110, None, None));
    let by = |at| by_time(&*opened.reader, Millis(at)).unwrap();
    assert_eq!(by(90_000).lsn, Lsn(90));
    let lost = span(91, next - 1);
    assert_eq!((by(95_000).lsn, by(95_000).lost), (Lsn(90), lost));
    let covered = Moment {
        lsn: Lsn(100),
        at: Millis(101_000),
        lost: None,
        since: None,
    };
    assert_eq!(by(101_000), covered);
    // Without the checkpoint that leads over it, what follows is not known in whole.
    std::fs::write(shelf.checkpoint_path(100), b"damaged").unwrap();
    let past = at(&opened, next).unwrap();
    assert_eq!((past.registry.len(), past.lost), (91, span(91, 100)));
}

#[test]
fn a_store_that_began_anew_has_no_past_before_that() {
    let mut shelf = Shelf::new();
    let mut opened = shelf.open();
    put(&mut opened, 1..=50);
    drop(opened);
    std::fs::remove_dir_all(shelf.options.dir.join("log")).unwrap();
    shelf.options.on_damage = OnDamage::MoveAside;
    let mut opened = shelf.open();
    let next = opened.next_lsn.0;
    assert!(next > 51);
    put(&mut opened, next..=next + 5);
    assert_eq!(at(&opened, next).unwrap().registry.len(), 1);
    assert_eq!(at(&opened, next + 5).unwrap().registry.len(), 6);
    for lsn in [5, 50, next - 2] {
        let error = by_lsn(&*opened.reader, Lsn(lsn)).unwrap_err();
        assert!(matches!(error, TravelError::TooOld(_)), "{error}");
    }
    assert_eq!(oldest(&*opened.reader).unwrap().lsn, Lsn(next));
    // What was lost is not nothing.
    let error = by_time(&*opened.reader, Millis(next * 1000 - 1)).unwrap_err();
    assert!(matches!(error, TravelError::TooOld(_)), "{error}");
    let before = by_lsn(&*opened.reader, Lsn(next - 1)).unwrap();
    assert_eq!(before.lost, Some((Lsn(1), Lsn(next - 1))));
}

#[test]
fn a_log_that_was_never_written_shows_that_there_was_nothing() {
    let shelf = Shelf::new();
    let opened = shelf.open();
    let moment = by_time(&*opened.reader, Millis(1_000)).unwrap();
    assert_eq!(moment, Moment::whole(Lsn::ZERO, Millis(1_000)));
    assert!(at(&opened, 0).unwrap().registry.is_empty());
}

#[test]
fn a_hundred_thousand_instances_that_all_changed_are_compared() {
    let registry = |dirty: i64| {
        let mut registry = Registry::new(Arc::default());
        for n in 1..=100_000 {
            let mut record = registered(n, 1);
            if let Some(lease) = &mut record.change.lease {
                let mut instance = (*lease.instance).clone();
                instance.last_dirty_timestamp = dirty;
                lease.instance = Arc::new(instance);
            }
            record.lsn = Lsn(n + dirty.unsigned_abs() * 1_000_000);
            registry.evolve(&record, Millis::ZERO);
        }
        registry
    };
    let (before, after) = (registry(1), registry(2));
    let mut count = 0;
    compare(
        &before,
        &after,
        &[],
        &mut |sort, different: &Different<'_>| {
            assert_eq!((sort, different.changes.len()), (Sort::Changed, 1));
            count += 1;
        },
    );
    assert_eq!(count, 100_000);
    compare(
        &before,
        &after,
        &[AppName::new("CART")],
        &mut |_, different| panic!("{different:?} was not asked for"),
    );
}
