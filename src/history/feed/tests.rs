//! Watchers against the log itself, told record by record in the plainest way.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tokio::task::JoinHandle;

use super::*;
use crate::changelog::Maintenance;
use crate::changelog::tests::Rig;
use crate::history::{Before, Entry, Index};
use crate::registry::change::ChangeKind;
use crate::registry::command::Command;
use crate::registry::rules::Rules;
use crate::registry::tests::{instance, put_metadata, steps};
use crate::store::testing::Operation;
use crate::store::{Durability, LogReader};
use crate::types::AppName;

const ALL: Bounds = Bounds {
    changes: usize::MAX,
    bytes: usize::MAX,
    looked: usize::MAX,
};

fn index() -> Arc<Index> {
    Arc::new(Index::new(None))
}

fn register(app: &str, id: &str) -> Command {
    Command::Register(instance(app, id).into())
}

/// A feed and its follower.
struct Followed {
    feed: Arc<Feed>,
    stop: CancellationToken,
    follower: JoinHandle<()>,
}

impl Followed {
    /// With room for a few changes only, so that watchers fall behind.
    fn of(rig: &Rig, ring_changes: usize) -> Self {
        let feed = Arc::new(Feed::with_ring(
            rig.log.clone(),
            index(),
            100,
            ring_changes,
            1 << 20,
        ));
        let stop = CancellationToken::new();
        let follower = tokio::spawn(feed.clone().follow(stop.clone()));
        Self {
            feed,
            stop,
            follower,
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.follower.await.expect("the follower ends");
    }
}

/// What the whole log tells, by positions.
fn plain(reader: &dyn LogReader) -> Vec<(Arc<Record>, String)> {
    let records = reader.read(reader.first_lsn(), usize::MAX, usize::MAX);
    let mut last: HashMap<_, Arc<Record>> = HashMap::new();
    let mut told = Vec::new();
    for record in records.expect("memory can be read") {
        let key = (record.change.app.clone(), record.change.id.clone());
        let before = last.insert(key, record.clone());
        let entry = Entry::new(&record, Before::record(before.as_deref()));
        told.push((record, serde_json::to_string(&entry).expect("plain data")));
    }
    told
}

/// A client: what it wants, where it is, what it has seen, and its connection.
#[derive(Debug)]
struct Client {
    selection: Selection,
    began: Lsn,
    position: Lsn,
    seen: Vec<String>,
    watcher: Option<Watcher>,
}

impl Client {
    async fn read(&mut self, feed: &Arc<Feed>, bounds: Bounds) -> bool {
        let watcher = self.watcher.get_or_insert_with(|| {
            feed.watch(self.position, self.selection.clone())
                .expect("a place")
        });
        let step = watcher.step(bounds).await.expect("nothing was trimmed");
        self.position = watcher.position();
        assert_eq!(step.position, self.position);
        for told in step.told {
            self.seen
                .push(String::from_utf8(told.entry().to_vec()).expect("JSON"));
        }
        step.is_end
    }

    async fn read_to_end(&mut self, feed: &Arc<Feed>) {
        loop {
            let is_end = self.read(feed, ALL).await;
            if self.position >= feed.newest() {
                return;
            }
            if is_end {
                let watcher = self.watcher.as_mut().expect("it has read");
                assert!(watcher.moved().await, "the node does not stop");
            }
        }
    }
}

/// What a watcher sees on its way to a position.
async fn seen_up_to(watcher: &mut Watcher, position: Lsn) -> Vec<u64> {
    let mut seen = Vec::new();
    while watcher.position() < position {
        let step = watcher.step(ALL).await.expect("it can be read");
        seen.extend(step.told.iter().map(|told| told.lsn.0));
        if step.is_end && watcher.position() < position {
            assert!(watcher.moved().await, "the node does not stop");
        }
    }
    seen
}

#[derive(Clone, Debug)]
enum Act {
    Carry(Command, bool),
    Connect(Selection),
    /// The client of this number, of those that there are, is cut.
    Cut(usize),
    Read(usize, usize),
    Tick,
    Kill,
}

fn selection() -> impl Strategy<Value = Selection> {
    let apps = prop::sample::subsequence(vec!["SHOP", "CART"], 0..=1);
    let kinds = prop::sample::subsequence(ChangeKind::ALL.to_vec(), 0..=3);
    (apps, kinds).prop_map(|(apps, kinds)| Selection {
        apps: apps.into_iter().map(AppName::new).collect(),
        kinds,
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (steps::command(), any::<bool>()).prop_map(|(c, peer)| Act::Carry(c, peer)),
        2 => selection().prop_map(Act::Connect),
        2 => (0..8usize).prop_map(Act::Cut),
        6 => (0..8usize, 1..5usize).prop_map(|(who, most)| Act::Read(who, most)),
        1 => Just(Act::Tick),
        1 => Just(Act::Kill),
    ]
}

async fn play(acts: &[Act], rules: &Rules, durability: Option<Durability>) {
    let mut rig = Rig::start(rules, durability);
    let mut followed = Followed::of(&rig, 6);
    let mut clients: Vec<Client> = Vec::new();
    for act in acts {
        match act {
            Act::Carry(command, is_replication) => {
                rig.clock.advance(7);
                rig.submit(vec![command.clone()], *is_replication)
                    .await
                    .expect("the disk takes it");
            }
            Act::Connect(selection) if clients.len() < 8 => {
                let newest = followed.feed.newest();
                let mut client = Client {
                    selection: selection.clone(),
                    began: newest,
                    position: newest,
                    seen: Vec::new(),
                    watcher: None,
                };
                client.read(&followed.feed, ALL).await;
                clients.push(client);
            }
            Act::Connect(_) => {}
            Act::Cut(who) => {
                if let Some(client) = clients.get_mut(*who) {
                    client.watcher = None;
                }
            }
            Act::Read(who, most) => {
                if let Some(client) = clients.get_mut(*who) {
                    let bounds = Bounds {
                        changes: *most,
                        ..ALL
                    };
                    client.read(&followed.feed, bounds).await;
                }
            }
            Act::Tick => rig.tick().await,
            Act::Kill => {
                for client in &mut clients {
                    client.watcher = None;
                }
                followed.end().await;
                rig = rig.kill(1_000);
                followed = Followed::of(&rig, 6);
            }
        }
        // The follower may or may not get its turn between two acts.
        tokio::task::yield_now().await;
    }
    rig.tick().await;
    let told = plain(&*rig.log.reader());
    assert_eq!(followed.feed.newest(), rig.log.published().lsn());
    for client in &mut clients {
        client.read_to_end(&followed.feed).await;
        let wanted: Vec<&String> = told
            .iter()
            .filter(|(record, _)| {
                let (change, selection) = (&record.change, &client.selection);
                record.lsn > client.began
                    && (selection.apps.is_empty() || selection.apps.contains(&change.app))
                    && (selection.kinds.is_empty() || selection.kinds.contains(&change.kind))
            })
            .map(|(_, entry)| entry)
            .collect();
        assert_eq!(client.seen.iter().collect::<Vec<_>>(), wanted);
    }
}

proptest! {
    #![proptest_config(steps::cases(48))]

    /// Whatever is done, and however a watcher is cut and comes back: it sees every change that it
    /// asked for once, in order, and as the log tells it; with `interval` durability too, where a
    /// crash takes back what was acknowledged, and gives its positions out again.
    #[test]
    fn every_watcher_sees_every_change_once(
        acts in prop::collection::vec(act(), 0..120),
        rules in steps::rules(),
        is_interval in any::<bool>(),
    ) {
        let durability = (!is_interval).then_some(Durability::Disk);
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(play(&acts, &rules, durability));
    }
}

#[tokio::test]
async fn watchers_go_on_when_a_store_that_failed_is_opened_again() {
    let rig = Rig::sync();
    let followed = Followed::of(&rig, 100);
    let feed = &followed.feed;
    let mut near = feed.watch(Lsn::ZERO, Selection::default()).unwrap();
    rig.client(register("SHOP", "1")).await.unwrap();
    rig.faults.fill_disk(Operation::Commit, 1);
    assert!(rig.client(register("SHOP", "2")).await.is_err());
    rig.ticks_until_reopened().await;
    rig.client(register("SHOP", "3")).await.unwrap();
    let mut far = feed.watch(Lsn::ZERO, Selection::default()).unwrap();
    for watcher in [&mut near, &mut far] {
        assert_eq!(seen_up_to(watcher, Lsn(2)).await, [1, 2]);
    }
    followed.end().await;
    assert!(!near.moved().await, "the node stops");
}

#[tokio::test]
async fn a_position_that_is_no_longer_kept_is_refused_and_says_where_the_log_begins() {
    let rig = Rig::sync();
    for id in ["1", "2", "3"] {
        rig.client(register("SHOP", id)).await.unwrap();
        // A segment of its own.
        rig.clock.advance(2 * 3_600_000);
    }
    rig.clock.advance(8 * 24 * 3_600_000);
    for id in ["4", "5"] {
        rig.client(register("SHOP", id)).await.unwrap();
        rig.checkpoint();
    }
    let followed = Followed::of(&rig, 100);
    let feed = &followed.feed;
    let mut held = feed.watch(Lsn(2), Selection::default()).unwrap();
    assert_eq!(held.step(ALL).await.unwrap().told.len(), 3);
    let mut behind = feed.watch(Lsn(1), Selection::default()).unwrap();
    rig.maintain(Maintenance::TrimLog { floor: Lsn(4) }).await;
    assert_eq!(feed.oldest(), Lsn(4));
    assert!(!feed.reaches_back_to(Lsn(2)));
    assert!(feed.reaches_back_to(Lsn(3)));

    let error = behind.step(ALL).await.unwrap_err();
    assert!(
        matches!(*error, StoreError::Trimmed { first: Lsn(4), .. }),
        "{error}"
    );
    assert_eq!(behind.position(), Lsn(1), "it stays where it is");
    rig.client(register("SHOP", "6")).await.unwrap();
    assert_eq!(seen_up_to(&mut held, Lsn(6)).await, [6]);
    followed.end().await;
}

#[tokio::test]
async fn positions_that_the_store_left_out_are_passed_over() {
    let rig = Rig::sync();
    rig.client(register("SHOP", "1")).await.unwrap();
    let on = |rig: &Rig, durability| {
        let (disk, clock) = (rig.disk.clone(), rig.clock.clone());
        Rig::on(disk, clock, &Rules::default(), Some(durability))
    };
    let rig = on(&rig, Durability::Flush);
    for id in ["2", "3"] {
        rig.client(register("SHOP", id)).await.unwrap();
    }
    // What was flushed and not synced is gone, and its positions are not given out again.
    rig.disk.cut_power();
    let rig = on(&rig, Durability::Disk);
    assert_eq!(rig.log.published().lsn(), Lsn(3));
    let followed = Followed::of(&rig, 100);
    rig.client(register("SHOP", "4")).await.unwrap();
    for (position, sees) in [(0, vec![1, 4]), (1, vec![4]), (2, vec![4]), (3, vec![4])] {
        let mut watcher = followed
            .feed
            .watch(Lsn(position), Selection::default())
            .unwrap();
        assert_eq!(seen_up_to(&mut watcher, Lsn(4)).await, sees);
    }
    followed.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_ring_is_bounded_and_let_go_when_nobody_watches() {
    let rig = Rig::sync();
    let followed = Followed::of(&rig, 10);
    let feed = &followed.feed;
    rig.client(register("SHOP", "0")).await.unwrap();
    tokio::task::yield_now().await;
    assert!(!feed.ring().covers(Lsn(1)), "nobody has watched");
    let mut watcher = feed.watch(feed.newest(), Selection::default()).unwrap();
    let last = Lsn(41);
    for value in 0..40 {
        let text = value.to_string();
        let command = put_metadata("SHOP", "0", &[("key", &text)]);
        rig.client(command).await.unwrap();
    }
    while !feed.ring().covers(Lsn(31)) || feed.ring().covers(Lsn(30)) {
        assert!(watcher.moved().await);
        watcher.moved.mark_unchanged();
    }
    let (changes, bytes) = feed.ring().held();
    assert_eq!(changes, 10);
    assert!(bytes < 10_000, "{bytes}");
    let mut seen = 0;
    while watcher.position() < last {
        seen += watcher.step(ALL).await.unwrap().told.len();
    }
    assert_eq!(seen, 40, "what the ring let go comes from the log");
    drop(watcher);
    assert_eq!(feed.watchers(), 0);
    tokio::time::sleep(LINGER / 2).await;
    assert!(feed.ring().covers(last), "most come back");
    tokio::time::sleep(LINGER).await;
    assert!(!feed.ring().covers(last));
    followed.end().await;
}

/// Counts how often it is asked.
#[derive(Debug)]
struct Counting(AtomicUsize, Arc<Index>);

impl Predecessors for Counting {
    fn of(
        &self,
        reader: &dyn LogReader,
        records: &[Arc<Record>],
    ) -> Result<Vec<Option<Arc<Record>>>, StoreError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.of(reader, records)
    }
}

#[tokio::test]
async fn those_who_come_back_together_read_the_log_once() {
    let rig = Rig::sync();
    // Longer than a page, and the second page has to look into the first.
    rig.client(register("SHOP", "0")).await.unwrap();
    for value in 0..300 {
        let text = value.to_string();
        let command = put_metadata("SHOP", "0", &[("key", &text)]);
        rig.client(command).await.unwrap();
    }
    let asked = Arc::new(Counting(AtomicUsize::new(0), index()));
    let feed = Arc::new(Feed::new(rig.log.clone(), asked.clone(), 1000));
    let watchers: Vec<Watcher> = (0..1000)
        .map(|place| feed.watch(Lsn(place % 200), Selection::default()).unwrap())
        .collect();
    assert!(feed.watch(Lsn::ZERO, Selection::default()).is_err(), "full");
    let mut reading = tokio::task::JoinSet::new();
    for mut watcher in watchers {
        reading.spawn(async move {
            let (mut next, mut is_end) = (watcher.position().next(), false);
            while !is_end {
                let step = watcher.step(ALL).await.expect("memory can be read");
                for told in &step.told {
                    assert_eq!(told.lsn, next);
                    next = next.next();
                }
                is_end = step.is_end;
            }
            assert_eq!(next, Lsn(302));
        });
    }
    while let Some(done) = reading.join_next().await {
        done.expect("every watcher sees everything");
    }
    assert_eq!(
        asked.0.load(Ordering::SeqCst),
        1,
        "the first page asks nothing"
    );
}
