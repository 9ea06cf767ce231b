//! Random logs that follow the rules, and what a scan of all of it finds in them.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::query::{Order, Question, Walk};
use super::{Before, Entry, Filter, Index};
use crate::registry::change::{Actor, Origin, Record};
use crate::registry::command::{Command, Eviction};
use crate::registry::rules::Rules;
use crate::registry::status::Status;
use crate::registry::tests::Scene;
use crate::store::testing::{instance, options};
use crate::store::{CheckpointSource, Durability, LogReader, MemDisk, Opened, StoreOptions};
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// A generator with a fixed sequence per seed; a failure says the seed.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).expect("below a usize")
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

pub(super) const APPS: [&str; 4] = ["SHOP", "CART", "SEARCH", "RARE"];

/// A registry under random commands.
#[derive(Debug)]
pub(super) struct Source {
    scene: Scene,
    told: usize,
    pub(super) random: Random,
    /// All that happened.
    pub(super) log: Vec<Arc<Record>>,
}

impl Source {
    pub(super) fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self {
            scene: Scene::new(&Rules::default()),
            told: 0,
            random: Random(seed),
            log: Vec::new(),
        }
    }

    /// The next `count` records, at least.
    pub(super) fn more(&mut self, count: usize) -> Vec<Arc<Record>> {
        while self.scene.log.len() - self.told < count {
            self.step();
        }
        let fresh = self.scene.log[self.told..].to_vec();
        self.told = self.scene.log.len();
        let records: Vec<_> = fresh.iter().map(|record| self.dressed(record)).collect();
        self.log.extend(records.iter().cloned());
        records
    }

    fn step(&mut self) {
        let random = &mut self.random;
        let app = if random.below(50) == 0 {
            "RARE"
        } else {
            random.pick(&APPS[..3])
        };
        let id = format!("host-{}", random.below(12));
        let what = random.below(20);
        let status = random.pick(&[Status::OutOfService, Status::Down, Status::Up]);
        let (name, instance_id) = (AppName::new(app), InstanceId::new(&id));
        let dirty = None;
        let command = match what {
            0..8 => {
                let mut instance = instance(app, &id);
                instance.last_dirty_timestamp = i64::try_from(self.scene.log.len()).unwrap_or(0);
                Command::Register(instance.into())
            }
            8..11 => Command::SetStatus {
                app: name,
                id: instance_id,
                status,
                dirty,
            },
            11..13 => Command::DeleteOverride {
                app: name,
                id: instance_id,
                status: None,
                dirty,
            },
            13..16 => Command::UpdateMetadata {
                app: name,
                id: instance_id,
                entries: vec![("version".into(), random.below(100).to_string().into())],
            },
            16..19 => Command::Cancel {
                app: name,
                id: instance_id,
                dirty,
            },
            _ => Command::Evict(Eviction {
                extra_ms: 0,
                renewal_percent_threshold: 0.0,
                seed: 1,
            }),
        };
        let pass = random.below(10_000) as u64;
        // Clocks are stepped back now and then.
        if random.below(60) == 0 {
            self.scene.now.wall = Millis(self.scene.now.wall.0 - 60_000);
        }
        self.scene.pass(pass);
        self.scene.client(&command);
    }

    fn dressed(&mut self, record: &Record) -> Arc<Record> {
        let random = &mut self.random;
        let text = |text: &str| Some(Arc::from(text));
        Arc::new(Record {
            origin: match random.below(4) {
                0 => Origin::Operator,
                1 => Origin::Peer("peer-1".into()),
                _ => Origin::Client,
            },
            actor: Actor {
                principal: None,
                address: text(random.pick(&["10.0.0.1", "10.0.1.2", "::1"])),
                user_agent: text(random.pick(&["curl/8", "Java-EurekaClient/2"])),
                reason: (random.below(3) == 0).then(|| "Deploy 4711".into()),
            },
            ..record.clone()
        })
    }
}

/// A log in memory with small segments.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) source: Source,
    pub(super) opened: Opened,
}

impl Rig {
    pub(super) fn new(seed: u64, records: usize) -> Self {
        Self::with(seed, records, |_| {})
    }

    pub(super) fn with(seed: u64, records: usize, change: impl FnOnce(&mut StoreOptions)) -> Self {
        let mut options = options("mem");
        change(&mut options);
        let opened = MemDisk::new(options).open(Millis(1));
        Self::on(opened, seed, records)
    }

    pub(super) fn on(opened: Opened, seed: u64, records: usize) -> Self {
        let mut rig = Self {
            source: Source::new(seed),
            opened,
        };
        rig.append(records);
        rig
    }

    pub(super) fn append(&mut self, records: usize) {
        let records = self.source.more(records);
        let mut rest = &records[..];
        while !rest.is_empty() {
            let count = (1 + self.source.random.below(9)).min(rest.len());
            let (batch, later) = rest.split_at(count);
            self.opened.store.append(batch).unwrap();
            rest = later;
        }
        self.opened.store.commit(Durability::Flush).unwrap();
    }

    /// Writes two checkpoints: only what lies before the older one may be dropped.
    pub(super) fn checkpoint(&self) {
        for back in [1, 0] {
            let source = CheckpointSource {
                lsn: Lsn(self.reader().last_lsn().0 - back),
                at: Millis(1),
                expected_clients: 0,
                leases: &mut std::iter::empty(),
                overrides: &mut std::iter::empty(),
            };
            self.reader().write_checkpoint(source).unwrap();
        }
    }

    /// Drops the oldest segments of the log.
    pub(super) fn trim(&mut self, segments: usize) {
        self.checkpoint();
        let floor = self.reader().segments()[segments].first;
        self.opened.store.trim(floor, Millis(u64::MAX)).unwrap();
        assert_eq!(self.reader().first_lsn(), floor);
    }

    pub(super) fn reader(&self) -> Arc<dyn LogReader> {
        self.opened.reader.clone()
    }

    /// What is kept of the log.
    pub(super) fn kept(&self) -> &[Arc<Record>] {
        let first = self.opened.reader.first_lsn();
        let at = self.source.log.partition_point(|r| r.lsn < first);
        &self.source.log[at..]
    }
}

/// What looking at every record finds.
pub(super) fn naive(log: &[Arc<Record>], question: &Question) -> Vec<Entry> {
    let mut found: Vec<Entry> = log
        .iter()
        .enumerate()
        .filter(|(_, record)| question.filter.matches(record))
        .map(|(place, record)| {
            let same = |other: &&Arc<Record>| {
                other.change.app == record.change.app && other.change.id == record.change.id
            };
            let before = log[..place].iter().rev().find(same);
            Entry::new(record, Before::record(before.map(|before| &**before)))
        })
        .collect();
    if question.order == Order::Newest {
        found.reverse();
    }
    found
}

/// Everything that a walk finds, in turns of `limit` entries and `looks` looks, each by a walk of
/// its own or by one that goes on.
pub(super) fn walked(
    reader: &Arc<dyn LogReader>,
    index: &Arc<Index>,
    question: &Question,
    (limit, looks): (usize, usize),
    goes_on: bool,
) -> Vec<Entry> {
    let mut walk = Walk::new(reader.clone(), index.clone(), question.clone());
    let mut found = Vec::new();
    while let Some(at) = walk.next() {
        if !goes_on {
            walk = Walk::new(reader.clone(), index.clone(), question.clone()).starting_at(at);
        }
        let before = found.len();
        walk.take(limit, looks, &mut |record, before| {
            found.push(entry(record, before));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(found.len() - before <= limit, "more than was asked for");
    }
    found
}

pub(super) fn entry(record: &Record, before: Option<&Arc<Record>>) -> Entry {
    Entry::new(record, Before::record(before.map(|before| &**before)))
}

/// A random question about what a [`Source`] makes.
pub(super) fn question(random: &mut Random, log: &[Arc<Record>]) -> Question {
    let mut filter = Filter::default();
    let mut set = |name: &str, value: &str| {
        assert_eq!(
            filter.set(name, value, Millis(0)),
            Ok(true),
            "{name}={value}"
        );
    };
    match random.below(4) {
        0 => {}
        1 => set("app", random.pick(&APPS)),
        2 => set("app", "SHOP,RARE"),
        _ => {
            set("app", random.pick(&APPS));
            set("instance", &format!("host-{}", random.below(13)));
        }
    }
    match random.below(8) {
        0 => set("kind", "cancelled,evicted"),
        1 => set("reason", "deploy"),
        2 => set("origin", "peer:PEER"),
        3 => set("actor", "curl"),
        4 => set("address", "10.0.0.0/16"),
        _ => {}
    }
    if random.below(3) == 0 && !log.is_empty() {
        let (a, b) = (random.below(log.len()), random.below(log.len()));
        let (a, b) = (log[a].at, log[b].at);
        let (from, to) = (a.min(b), a.max(b));
        filter.from = (random.below(3) > 0).then_some(from);
        filter.to = (random.below(3) > 0).then_some(to);
    }
    Question {
        filter,
        order: random.pick(&[Order::Newest, Order::Oldest]),
    }
}
