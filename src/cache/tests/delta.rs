//! Deltas as real clients use them: whenever a client polls within the window, full fetch plus
//! deltas is what a full fetch would give, hash code included, over restarts as well.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::client::{JavaClient, settled};
use super::*;
use crate::changelog::Maintenance;
use crate::changelog::tests::{RETENTION_MS, Rig};
use crate::registry::rules::StatusByRenewal;
use crate::registry::tests::steps::{Step, cases, step};
use crate::store::Durability;

const CLIENTS: usize = 3;

#[derive(Clone, Debug)]
enum Move {
    Step(Step),
    Poll(usize),
    Checkpoint,
    /// The node is killed and comes back so many milliseconds later.
    Kill(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        14 => step().prop_map(Move::Step),
        6 => (0..CLIENTS).prop_map(Move::Poll),
        1 => Just(Move::Checkpoint),
        1 => prop_oneof![Just(0), 0..1_000_000u64].prop_map(Move::Kill),
    ];
    prop::collection::vec(one, 1..80)
}

/// All switches in which deltas are as they should be: the original's silent changes are not.
fn rules() -> impl Strategy<Value = Rules> {
    let original = Rules {
        status_by_renewal: StatusByRenewal::Change,
        ..Rules::eureka()
    };
    prop_oneof![Just(Rules::default()), Just(original)]
}

/// A client and when it polled last.
#[derive(Debug, Default)]
struct Poller {
    client: JavaClient,
    /// Wall time of the last poll, and time in which the node lived since then.
    polled_at: u64,
    lived_ms: u64,
    /// The window does not reach back to the last poll any more.
    has_missed: bool,
}

/// A node with its cache and what watches it.
struct World {
    rig: Rig,
    cache: ResponseCache,
    pollers: Vec<Poller>,
    /// The last delta that anybody saw: its version and its instances.
    version: u64,
    told: BTreeMap<(String, String), Value>,
}

impl World {
    fn new(rules: &Rules) -> Self {
        Self {
            rig: Rig::start(rules, Some(Durability::Disk)),
            cache: ResponseCache::new(settings()),
            pollers: (0..CLIENTS).map(|_| Poller::default()).collect(),
            version: 0,
            told: BTreeMap::new(),
        }
    }

    fn fetch(&self, entity: Entity) -> Value {
        let state = self.rig.log.snapshot();
        let key = key(entity);
        let payload = match self.cache.peek(&key, &state) {
            Some(at_hand) => at_hand,
            None => self.cache.load(&key, &state),
        };
        serde_json::from_slice(&payload.unwrap().to_vec()).unwrap()
    }

    async fn take(&mut self, step: &Step) {
        match step {
            Step::Do {
                is_replication,
                command,
            } => {
                let commands = vec![command.clone()];
                self.rig.submit(commands, *is_replication).await.unwrap();
            }
            Step::Pass(ms) => {
                self.rig.clock.advance(*ms);
                for poller in &mut self.pollers {
                    poller.lived_ms += ms;
                    poller.has_missed |= poller.lived_ms > RETENTION_MS;
                }
                self.rig.tick().await;
                let retention_ms = RETENTION_MS;
                let trim = Maintenance::TrimDelta { retention_ms };
                self.rig.maintain(trim).await;
            }
            Step::Protect(_) => {}
        }
    }

    fn kill(mut self, downtime_ms: u64) -> Self {
        use crate::clock::Clock as _;
        // A restart counts by the wall clock: an earlier absence ages what came before it.
        let wall = self.rig.clock.now().wall.0;
        for poller in &mut self.pollers {
            poller.lived_ms = poller.lived_ms.max(wall - poller.polled_at);
            poller.has_missed |= poller.lived_ms > RETENTION_MS;
        }
        self.rig = self.rig.kill(downtime_ms);
        self.cache = ResponseCache::new(settings());
        self
    }

    fn poll(&mut self, number: usize) {
        use crate::clock::Clock as _;
        let delta = self.fetch(Entity::Delta);
        let full = self.fetch(Entity::All);
        self.watch(&delta);
        let mut expected = JavaClient::default();
        expected.store(&full);

        let now = self.rig.clock.now().wall.0;
        let poller = &mut self.pollers[number];
        if poller.client.is_empty() || poller.has_missed {
            poller.client.store(&full);
        } else {
            poller.client.apply(&delta);
        }
        let hash = delta["applications"]["apps__hashcode"].as_str().unwrap();
        assert_eq!(poller.client.hash_code(), hash);
        assert_eq!(full["applications"]["apps__hashcode"].as_str(), Some(hash));
        assert_eq!(poller.client.held(), expected.held());
        // Deltas overlap: the same one again is harmless.
        poller.client.apply(&delta);
        assert_eq!(poller.client.held(), expected.held());
        assert_eq!(full["applications"]["versions__delta"], "1");
        poller.polled_at = now;
        poller.lived_ms = 0;
        poller.has_missed = false;
    }

    /// The version never goes back, and moves when something new is told.
    fn watch(&mut self, delta: &Value) {
        let applications = &delta["applications"];
        let version = applications["versions__delta"].as_str().unwrap();
        let version: u64 = version.parse().unwrap();
        let mut told = BTreeMap::new();
        for app in applications["application"].as_array().unwrap() {
            for instance in app["instance"].as_array().unwrap() {
                let text = |field: &str| instance[field].as_str().unwrap().to_owned();
                told.insert((text("app"), text("instanceId")), settled(instance));
            }
        }
        let is_news = told
            .iter()
            .any(|(name, one)| self.told.get(name) != Some(one));
        assert!(version >= self.version, "{version} after {}", self.version);
        assert!(version > self.version || !is_news, "{version} again");
        self.version = version;
        self.told = told;
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn full_fetch_and_deltas_are_a_full_fetch(rules in rules(), moves in moves()) {
        let runtime = runtime();
        let mut world = World::new(&rules);
        for one in &moves {
            match one {
                Move::Step(step) => runtime.block_on(world.take(step)),
                Move::Poll(number) => world.poll(*number),
                Move::Checkpoint => world.rig.checkpoint(),
                Move::Kill(downtime) => world = world.kill(*downtime),
            }
        }
        for number in 0..CLIENTS {
            world.poll(number);
        }
    }
}

/// A client that knows nothing of an application takes it over from the delta with the ones that
/// are gone; they must leave it again.
#[test]
fn an_application_that_was_emptied_and_refilled_leaves_no_ghost() {
    use crate::registry::tests::cancel;
    let runtime = runtime();
    let mut world = World::new(&Rules::default());
    let register = |app: &str, id: &str| Step::Do {
        is_replication: false,
        command: crate::registry::command::Command::Register(instance(app, id).into()),
    };
    let gone = |id: &str| Step::Do {
        is_replication: false,
        command: cancel("SHOP", id),
    };
    runtime.block_on(world.take(&register("CART", "1")));
    world.poll(0);
    for step in [
        register("SHOP", "1"),
        register("SHOP", "2"),
        gone("1"),
        gone("2"),
        register("SHOP", "3"),
        gone("3"),
        register("SHOP", "2"),
    ] {
        runtime.block_on(world.take(&step));
    }
    world.poll(0);
    let held = world.pollers[0].client.held();
    let names: Vec<_> = held.keys().map(|(app, id)| format!("{app}/{id}")).collect();
    assert_eq!(names, ["CART/1", "SHOP/2"]);
}
