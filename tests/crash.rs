//! Crash loop: the real program under load, killed with SIGKILL at a random moment, restarted on the
//! same directory, and compared with what was acknowledged.
//!
//! Writers keep the journal: what was sent, and what was answered. Each owns its instances and one
//! connection, so that of its unanswered requests exactly a prefix can have been applied; the model
//! ([`client_model`]) says which states that allows. Whatever else shows up was lost, invented or applied
//! by half. `EUREKAD_CRASH_ROUNDS` sets the rounds per durability mode, `EUREKAD_TEST_SEED` the seed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![expect(
    clippy::print_stdout,
    reason = "figures of a run, for whoever asks with --nocapture"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::client_model::{self, Op, State};
use support::client_wire::{app, decode, encode, instance};
use support::http::request;
use support::instance::{Listed, hash_code};
use support::{Answer, Connection, Listing, Random, Registration, Server, get_json};

const WRITERS: usize = 6;
const INSTANCES: u64 = 5;
const STATUSES: [&str; 4] = ["UP", "DOWN", "STARTING", "OUT_OF_SERVICE"];
/// Requests that one writer has under way at most.
const PIPELINE: u64 = 4;

#[test]
fn nothing_acknowledged_is_lost_by_kill_9_with_sync_durability() {
    crash_loop("sync");
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9_with_process_durability() {
    crash_loop("process");
}

/// One connection's worth of clients, and the journal of what they were told.
struct Writer {
    name: usize,
    random: Random,
    /// Every state that agrees with all answers and all readings so far; usually one.
    possible: Vec<State>,
    /// Sent and not answered, oldest first.
    unanswered: VecDeque<Op>,
    dirty: i64,
    acknowledged: u64,
}

impl Writer {
    fn new(name: usize, seed: u64) -> Self {
        Self {
            name,
            random: Random::new(seed ^ (name as u64).rotate_left(40)),
            possible: vec![State::default()],
            unanswered: VecDeque::new(),
            dirty: 1_000_000,
            acknowledged: 0,
        }
    }

    /// Sends until the connection breaks, or until `stop` and every answer is in.
    fn write(&mut self, port: u16, stop: &AtomicBool) {
        let broken = self.write_until_broken(port, stop);
        if let Err(error) = broken {
            let kind = error.kind();
            assert_ne!(kind, io::ErrorKind::InvalidData, "{error}");
            assert_ne!(kind, io::ErrorKind::WouldBlock, "no answer in time");
        }
    }

    fn write_until_broken(&mut self, port: u16, stop: &AtomicBool) -> io::Result<()> {
        let mut connection = Connection::open(port)?;
        while !stop.load(Ordering::Relaxed) {
            let count = 1 + self.random.below(PIPELINE);
            let mut bytes = Vec::new();
            for _ in 0..count {
                let op = self.next_op();
                bytes.extend(encode(self.name, &op));
                self.unanswered.push_back(op);
            }
            connection.send(&bytes)?;
            for _ in 0..count {
                let answer = connection.receive()?;
                self.acknowledge(&answer);
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, answer: &Answer) {
        let op = self.unanswered.pop_front().expect("an answer to something");
        let reply = decode(&op, answer);
        let before = self.possible.clone();
        self.possible.retain_mut(|state| state.apply(&op) == reply);
        self.possible.dedup();
        assert!(
            !self.possible.is_empty(),
            "writer {}: {op:?} was answered with {reply:?}, the model says otherwise in each of \
             {before:#?}",
            self.name
        );
        self.acknowledged += 1;
    }

    fn next_op(&mut self) -> Op {
        match self.random.below(20) {
            0..=2 => Op::Shared {
                value: self.random.next(),
            },
            3..=5 => {
                let count = 1 + self.random.below(8);
                Op::Batch((0..count).map(|_| self.simple_op(true)).collect())
            }
            _ => self.simple_op(false),
        }
    }

    fn simple_op(&mut self, is_replicated: bool) -> Op {
        let id = self.random.below(INSTANCES);
        let kinds = if is_replicated { 8 } else { 11 };
        match self.random.below(kinds) {
            0..=3 => {
                // One in eight brings an old version of the instance. Not as replication: whether that is news
                // depends on how far back the node remembers a cancel.
                let is_old = self.random.one_in(8) && !is_replicated;
                Op::Register {
                    id,
                    status: self.random.pick(&STATUSES),
                    dirty: if is_old { 500_000 } else { self.next_dirty() },
                    metadata: BTreeMap::from([("mark".to_owned(), self.random.next().to_string())]),
                }
            }
            4 | 5 => Op::SetStatus {
                id,
                status: self.random.pick(&STATUSES),
                dirty: self.next_dirty(),
            },
            6 => Op::Lift {
                id,
                dirty: self.next_dirty(),
            },
            7 => Op::Cancel { id },
            8 | 9 => Op::Metadata {
                id,
                key: format!("key{}", self.random.below(3)),
                value: self.random.next().to_string(),
            },
            _ => Op::Beat { id },
        }
    }

    fn next_dirty(&mut self) -> i64 {
        self.dirty += 10;
        self.dirty
    }

    /// Narrows the possible states to those that the registry shows.
    fn settle(&mut self, seen: &Seen) {
        let mut candidates = Vec::new();
        for state in &self.possible {
            let mut state = state.clone();
            candidates.push(state.clone());
            for op in &self.unanswered {
                state.apply(op);
                candidates.push(state.clone());
            }
        }
        let mine = seen.of(self.name);
        let fits = |state: &State| state.visible() == mine;
        let mut fitting: Vec<State> = candidates.iter().filter(|s| fits(s)).cloned().collect();
        fitting.dedup();
        assert!(
            !fitting.is_empty(),
            "writer {}: the registry shows {mine:#?}\nwhich is none of the states that were \
             acknowledged or under way: {:#?}\nunanswered: {:#?}",
            self.name,
            candidates.iter().map(State::visible).collect::<Vec<_>>(),
            self.unanswered
        );
        self.possible = fitting;
        self.unanswered.clear();
    }
}

/// The registry as it shows itself after a restart.
struct Seen {
    instances: BTreeMap<(String, String), Listed>,
    overrides: BTreeMap<String, String>,
    lsn: u64,
    version: u64,
}

impl Seen {
    /// Reads everything, and checks what must hold in any state.
    fn read(port: u16) -> Self {
        let full = Listing::of(port);
        let instances = full.instances();
        let hash = hash_code(instances.values().map(|listed| listed.status.as_str()));
        assert_eq!(full.hash, hash, "hash code of the list");
        let delta = Listing::fetch(port, "/eureka/apps/delta");
        assert_eq!(delta.hash, hash, "hash code of the delta");
        for (key, listed) in delta.instances() {
            match instances.get(&key) {
                Some(present) => assert_eq!(&listed, present, "{key:?} in the delta"),
                None => assert_eq!(listed.action, "DELETED", "{key:?} in the delta"),
            }
        }
        let overrides: BTreeMap<String, String> =
            serde_json::from_value(get_json(port, "/eureka/serverinfo/statusoverrides")).unwrap();
        Self {
            instances,
            overrides,
            lsn: lsn(port),
            version: delta.version,
        }
    }

    /// What one writer's instances look like.
    fn of(&self, writer: usize) -> client_model::Visible {
        let mut visible = client_model::Visible::default();
        for id in 0..INSTANCES {
            let (app, name) = (app(writer, id), instance(writer, id));
            let held = self.overrides.get(&name).cloned();
            if let Some(listed) = self.instances.get(&(app, name)) {
                let expected = held.clone().unwrap_or_else(|| "UNKNOWN".to_owned());
                assert_eq!(listed.overridden, expected, "override of {writer}-{id}");
                visible.instances.insert(
                    id,
                    client_model::Shown {
                        status: listed.status.clone(),
                        held,
                        dirty: listed.dirty,
                        metadata: listed.metadata.clone(),
                    },
                );
            } else {
                assert_eq!(
                    held, None,
                    "an override of {writer}-{id}, which is not there"
                );
            }
        }
        let shared = &self.instances[&("SHARED".to_owned(), "shared".to_owned())];
        visible.shared = shared.metadata.get(&format!("w{writer}")).cloned();
        visible
    }
}

fn lsn(port: u16) -> u64 {
    get_json(port, "/actuator/health")["components"]["store"]["details"]["lsn"]
        .as_u64()
        .expect("the LSN")
}

/// What a run came to.
#[derive(Default)]
struct Figures {
    acknowledged: u64,
    unanswered: u64,
    kept: u64,
    killed_at_start: u64,
    checkpointed: u64,
    mended: u64,
}

struct Loop {
    dir: tempfile::TempDir,
    durability: String,
    random: Random,
    writers: Vec<Writer>,
    /// Highest LSN and delta version that anybody was shown.
    lsn: u64,
    version: u64,
    figures: Figures,
}

fn crash_loop(durability: &str) {
    let rounds = support::number_from_env("EUREKAD_CRASH_ROUNDS", 8);
    let seed = support::seed(&format!("crash loop, {durability}"));
    let mut run = Loop {
        dir: tempfile::tempdir().unwrap(),
        durability: format!("--eurekad.durability={durability}"),
        random: Random::new(seed),
        writers: (0..WRITERS).map(|name| Writer::new(name, seed)).collect(),
        lsn: 0,
        version: 0,
        figures: Figures::default(),
    };
    run.begin();
    for round in 0..rounds {
        run.round(round);
    }
    let server = run.start(rounds);
    run.check(&server);
    let figures = &run.figures;
    println!(
        "{durability}: {rounds} rounds, {} acknowledged requests, {} under way when killed (of \
         these {} changes were kept), {} kills while starting, {} rounds on a checkpoint, {} \
         mended stores, LSN {}",
        figures.acknowledged,
        figures.unanswered,
        figures.kept,
        figures.killed_at_start,
        figures.checkpointed,
        figures.mended,
        run.lsn
    );
}

impl Loop {
    fn begin(&mut self) {
        let server = Server::start(&self.data_dir(), &self.arguments(0));
        let shared = Registration::new("SHARED", "shared").register();
        let mut connection = Connection::open(server.port()).unwrap();
        assert_eq!(connection.exchange(&shared).unwrap().status, 204);
        self.lsn = 1;
        server.kill();
    }

    fn data_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// In a third of the rounds checkpoints are written all the time.
    fn arguments(&self, round: u64) -> Vec<&str> {
        let mut arguments = vec![
            self.durability.as_str(),
            "--management.endpoint.health.show-details=always",
        ];
        if round % 3 == 1 {
            arguments.push("--eurekad.checkpoint-interval=1s");
            arguments.push("--eurekad.checkpoint-records=50");
        }
        arguments
    }

    /// Some starts are killed before one is let through.
    fn start(&mut self, round: u64) -> Server {
        let dir = self.data_dir();
        while self.random.one_in(3) {
            let server = Server::spawn(&dir, &self.arguments(round));
            std::thread::sleep(Duration::from_millis(self.random.below(250)));
            server.kill();
            self.figures.killed_at_start += 1;
        }
        Server::start(&dir, &self.arguments(round))
    }

    fn round(&mut self, round: u64) {
        let mut server = self.start(round);
        self.check(&server);
        let port = server.port();
        let stop = AtomicBool::new(false);
        let life = Duration::from_millis(100 + self.random.below(1100));
        let version = std::thread::scope(|scope| {
            for writer in &mut self.writers {
                scope.spawn(|| writer.write(port, &stop));
            }
            let poller = scope.spawn(|| poll(port));
            // Not to wait for anything: the moment of the kill is the point.
            std::thread::sleep(life);
            server.assert_well();
            server.kill();
            stop.store(true, Ordering::Relaxed);
            poller.join().expect("the poller")
        });
        assert!(
            version == 0 || version >= self.version,
            "versions__delta went back from {} to {version}",
            self.version
        );
        self.version = self.version.max(version);
    }

    /// Compares what is there with the journal.
    fn check(&mut self, server: &Server) {
        let seen = Seen::read(server.port());
        let log = server.log();
        self.figures.mended += u64::from(log.contains("the store was mended"));
        self.figures.checkpointed += u64::from(log.contains("loading the checkpoint"));
        assert!(
            seen.version >= self.version,
            "versions__delta went back from {} to {}",
            self.version,
            seen.version
        );
        self.version = seen.version;
        let (mut least, mut most, mut shared) = (self.lsn, self.lsn, 0);
        for writer in &mut self.writers {
            self.figures.unanswered += writer.unanswered.len() as u64;
            self.figures.acknowledged += std::mem::take(&mut writer.acknowledged);
            let answered = writer.possible.iter().map(|s| s.changes).max().unwrap();
            writer.settle(&seen);
            let changes = || writer.possible.iter().map(|state| state.changes);
            least += changes().min().unwrap();
            most += changes().max().unwrap();
            self.figures.kept += changes().max().unwrap().saturating_sub(answered);
            shared += writer.possible[0].shared_changes;
            for state in &mut writer.possible {
                state.changes = 0;
            }
            writer.possible.dedup();
        }
        // One record per change, none twice, none that nobody asked for.
        assert!(
            (least..=most).contains(&seen.lsn),
            "LSN {}, but the journal accounts for {least} to {most} changes",
            seen.lsn
        );
        self.lsn = seen.lsn;
        let known = self.writers.iter().flat_map(|writer| {
            (0..INSTANCES).map(|id| (app(writer.name, id), instance(writer.name, id)))
        });
        let known: Vec<_> = known.collect();
        for key in seen.instances.keys().filter(|(app, _)| app != "SHARED") {
            assert!(known.contains(key), "{key:?} was never registered");
        }
        // Every writer raises the version of the instance that they share by one per change.
        let dirty = seen.instances[&("SHARED".to_owned(), "shared".to_owned())].dirty;
        assert_eq!(dirty, 1000 + shared, "changes of the shared instance");
    }
}

/// Reads deltas until the server is gone; the highest version, which must never fall.
fn poll(port: u16) -> u64 {
    let bytes = request(
        "GET",
        "/eureka/apps/delta",
        &["Accept: application/json"],
        b"",
    );
    let mut highest = 0;
    let Ok(mut connection) = Connection::open(port) else {
        return highest;
    };
    while let Ok(answer) = connection.exchange(&bytes) {
        assert_eq!(answer.status, 200);
        let version = Listing::parse(&answer.json()).version;
        assert!(version >= highest, "versions__delta fell to {version}");
        highest = version;
    }
    highest
}
