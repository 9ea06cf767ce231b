use super::*;
use crate::registry::rules::Rules;
use crate::registry::tests::{Scene, instance};
use crate::replication::sender::{Ask, Kind, Next, Outcome, Place, Sender};
use crate::store::MemDisk;
use crate::store::testing::{CountingReader, options};
use crate::store::{CheckpointSource, Durability, LogStore};

/// Instances registered one after the other, a second apart.
const INSTANCES: u64 = 400;

/// A log on a disk, of which the window of memory has the last ten records.
struct Rig {
    state: Published,
    reader: CountingReader,
    store: Box<dyn LogStore>,
    times: Vec<Millis>,
}

impl Rig {
    fn new() -> Self {
        let mut scene = Scene::new(&Rules::default());
        for n in 0..INSTANCES {
            scene.pass(1000);
            scene.register(instance("SHOP", &n.to_string()));
        }
        let now = scene.now;
        scene.delta.trim(now.mono, 9500);
        let disk = MemDisk::new(crate::store::StoreOptions {
            history_max_age_ms: 1000,
            ..options("mem")
        });
        let mut opened = disk.open(now.wall);
        for records in scene.log.chunks(20) {
            opened.store.append(records).unwrap();
        }
        opened.store.commit(Durability::Disk).unwrap();
        Self {
            state: scene.published(),
            reader: CountingReader::new(opened.reader),
            store: opened.store,
            times: scene.log.iter().map(|record| record.at).collect(),
        }
    }

    fn at(&self, lsn: Lsn) -> Option<Millis> {
        self.times.get(usize::try_from(lsn.0).unwrap() - 1).copied()
    }

    fn oldest(&self, behind: &mut Behind, cursor: u64) -> Option<Millis> {
        behind.oldest(Lsn(cursor), &self.state, &self.reader)
    }

    /// Drops what is old from the log.
    fn trim(&mut self) -> Lsn {
        for lsn in [200, INSTANCES] {
            let checkpoint = CheckpointSource {
                lsn: Lsn(lsn),
                at: Millis(1),
                expected_clients: 0,
                leases: &mut std::iter::empty(),
                overrides: &mut std::iter::empty(),
                holds: &mut std::iter::empty(),
            };
            self.reader.write_checkpoint(checkpoint).unwrap();
        }
        let late = self.times.last().unwrap().plus(1_000_000);
        let end = self.state.lsn().next();
        while self.store.trim(end, late).unwrap().segments > 0 {}
        self.reader.first_lsn()
    }
}

#[test]
fn a_peer_lags_by_the_first_record_behind_its_cursor_wherever_that_is() {
    let rig = Rig::new();
    let mut behind = Behind::default();
    assert_eq!(rig.oldest(&mut behind, INSTANCES), None);
    assert_eq!(rig.oldest(&mut behind, INSTANCES - 1), rig.at(Lsn(400)));
    assert_eq!(rig.oldest(&mut behind, INSTANCES - 10), rig.at(Lsn(391)));
    assert_eq!(rig.reader.take_count(), 0, "memory has it");
    for cursor in [0, 41, 42, INSTANCES - 11] {
        for _ in 0..3 {
            let at = rig.oldest(&mut behind, cursor);
            assert_eq!(at, rig.at(Lsn(cursor + 1)), "{cursor}");
        }
        assert_eq!(rig.reader.take_count(), 1, "once for each cursor");
    }
}

#[test]
fn a_peer_whose_records_are_gone_lags_by_the_oldest_that_is_there() {
    let mut rig = Rig::new();
    let first = rig.trim();
    assert!(first > Lsn(1), "{first}");
    assert_eq!(rig.oldest(&mut Behind::default(), 0), rig.at(first));
    // What was known before stays known.
    rig = Rig::new();
    let mut behind = Behind::default();
    assert_eq!(rig.oldest(&mut behind, 0), rig.at(Lsn(1)));
    rig.trim();
    assert_eq!(rig.oldest(&mut behind, 0), rig.at(Lsn(1)));
}

#[test]
fn a_peer_lags_although_the_record_cannot_be_read() {
    let mut rig = Rig::new();
    rig.reader = rig.reader.with_damage(Lsn(43));
    let at = rig.oldest(&mut Behind::default(), 42);
    assert_eq!(at, rig.at(Lsn(391)), "it is older than that");
}

#[test]
fn a_damaged_log_makes_a_java_peer_get_everything_instead_of_nothing() {
    let mut rig = Rig::new();
    rig.reader = rig.reader.with_damage(Lsn(43));
    let now = Millis(1_000_000_000);
    let mut behind = Behind::default();
    let mut sender = Sender::new(Place::Cursor(Lsn(40)), Lsn::ZERO, now);
    let mut told = std::collections::BTreeSet::new();
    loop {
        let mut records = LogRecords {
            behind: &mut behind,
            state: &rig.state,
            reader: &rig.reader,
            peer: "http://peer/",
        };
        let outcome = match sender.next(now, &rig.state, &mut records) {
            Next::Ask(Ask::Probe) => Outcome::Known(Kind::Java),
            Next::Ask(Ask::Born) => Outcome::Born(None),
            Next::Ask(Ask::Recent) => Outcome::Recent(Vec::new()),
            Next::Ask(Ask::Batch(items)) => {
                told.extend(items.iter().map(crate::replication::outbound::Item::key));
                let done = || crate::replication::sender::ItemResult {
                    status: 200,
                    entity: None,
                };
                Outcome::Items(items.iter().map(|_| done()).collect())
            }
            Next::Ask(other) => panic!("{other:?}"),
            Next::Wait(_) => break,
        };
        sender.answered(outcome, now, 0);
    }
    assert_eq!(told.len() as u64, INSTANCES);
    assert_eq!(sender.cursor(), Some(rig.state.lsn()));
}

#[test]
fn a_log_that_cannot_be_read_for_the_moment_is_tried_again() {
    let rig = Rig::new();
    let mut behind = Behind::default();
    // Whoever opens a disk stops those before.
    let closed = MemDisk::new(options("mem"));
    let reader = closed.open(Millis(1)).reader;
    closed.open(Millis(2));
    let mut since = |reader: &dyn LogReader| {
        let mut records = LogRecords {
            behind: &mut behind,
            state: &rig.state,
            reader,
            peer: "http://peer/",
        };
        let found = records.since(Lsn(1)).map(|records| records.len());
        (found, behind.is_failing)
    };
    assert_eq!(since(&*reader), (Some(0), true));
    assert_eq!(since(&rig.reader), (Some(400), false));
}
