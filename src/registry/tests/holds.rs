//! Drains and quarantines: out of service for a time, whoever says what meanwhile.

use proptest::prelude::*;

use super::steps::{Step, cases, step};
use super::*;
use crate::registry::hold::{HOLDS_MAX, Hold, HoldKind};
use crate::registry::status::Status;
use crate::store::testing::through_bytes;

const OUT: Status = Status::OutOfService;
const TEN_MINUTES: u64 = 600_000;

fn word(kind: HoldKind, until: u64, is_released: bool) -> Hold {
    Hold {
        kind,
        until: Millis(until),
        at: Millis::ZERO,
        is_released,
    }
}

fn told(id: &str, hold: Hold) -> Command {
    Command::Hold {
        app: AppName::new("SHOP"),
        id: InstanceId::new(id),
        hold,
    }
}

fn put(kind: HoldKind) -> Command {
    told("1", word(kind, START + TEN_MINUTES, false))
}

fn release(kind: HoldKind) -> Command {
    told("1", word(kind, START + TEN_MINUTES, true))
}

fn held(scene: &Scene) -> Option<HoldKind> {
    scene
        .registry
        .hold_of(&AppName::new("SHOP"), &InstanceId::new("1"))
        .map(|hold| hold.kind)
}

fn scene() -> Scene {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    scene.pass(1_000);
    scene
}

#[test]
fn a_drain_takes_out_of_service_now_and_cancels_at_its_end() {
    let mut scene = scene();
    assert_eq!(scene.client(&put(HoldKind::Drain)), Said::Done);
    assert_eq!(scene.instance("SHOP", "1").status, OUT);
    assert_eq!(scene.override_of("SHOP", "1"), Some(OUT));
    scene.client(&Command::EndHolds(HoldKind::Drain));
    assert_eq!(held(&scene), Some(HoldKind::Drain), "it is not over");
    // The client goes on, and tells of itself anew.
    scene.register(version(200, instance("SHOP", "1")));
    assert_eq!(scene.instance("SHOP", "1").status, OUT);
    scene.pass(TEN_MINUTES);
    scene.client(&Command::EndHolds(HoldKind::Quarantine));
    assert_eq!(held(&scene), Some(HoldKind::Drain), "that is another kind");
    scene.client(&Command::EndHolds(HoldKind::Drain));
    assert!(scene.registry.lease("SHOP", "1").is_none());
    assert_eq!((held(&scene), scene.override_of("SHOP", "1")), (None, None));
    assert_eq!(scene.last().change.kind, ChangeKind::Cancelled);
    // Who registers after that is a new one.
    scene.register(version(300, instance("SHOP", "1")));
    assert_eq!(scene.instance("SHOP", "1").status, Status::Up);
}

#[test]
fn a_drain_is_over_when_the_instance_goes_or_an_operator_says_otherwise() {
    let endings = [
        release(HoldKind::Drain),
        cancel("SHOP", "1"),
        lift("SHOP", "1", None, None),
        set("SHOP", "1", Status::Up, None),
    ];
    for ending in endings {
        let mut scene = scene();
        scene.client(&put(HoldKind::Drain));
        assert_eq!(scene.client(&ending), Said::Done, "{ending:?}");
        assert_eq!(held(&scene), None, "{ending:?}");
        scene.pass(2 * TEN_MINUTES);
        let before = scene.log.len();
        scene.client(&Command::EndHolds(HoldKind::Drain));
        assert_eq!(scene.log.len(), before, "{ending:?}");
    }
}

#[test]
fn a_quarantined_id_cannot_come_back_up() {
    let mut scene = scene();
    assert_eq!(scene.client(&put(HoldKind::Quarantine)), Said::Done);
    let set_up = set("SHOP", "1", Status::Up, None);
    let attempts = [
        (set_up.clone(), Said::Held),
        (lift("SHOP", "1", None, None), Said::Held),
        (lift("SHOP", "1", Some(Status::Up), None), Said::Held),
        (cancel("SHOP", "1"), Said::Done),
    ];
    for (attempt, expected) in attempts {
        assert_eq!(scene.client(&attempt), expected, "{attempt:?}");
        scene.pass(1_000);
        scene.register(version(500, instance("SHOP", "1")));
        assert_eq!(scene.instance("SHOP", "1").status, OUT, "{attempt:?}");
    }
    // Peers that do not know of it are not listened to.
    assert_eq!(scene.carry_out(&set_up, true), Said::Done);
    assert_eq!(scene.instance("SHOP", "1").status, OUT);

    scene.pass(TEN_MINUTES);
    scene.client(&Command::EndHolds(HoldKind::Quarantine));
    assert_eq!(held(&scene), None);
    assert_eq!(scene.instance("SHOP", "1").status, Status::Up);
}

#[test]
fn a_drain_does_not_end_a_quarantine_nor_does_its_release() {
    let mut scene = scene();
    scene.client(&put(HoldKind::Quarantine));
    let before = scene.log.len();
    assert_eq!(scene.client(&put(HoldKind::Drain)), Said::Held);
    assert_eq!(scene.client(&release(HoldKind::Drain)), Said::NotFound);
    assert_eq!(scene.log.len(), before);
    assert_eq!(held(&scene), Some(HoldKind::Quarantine));
    // Once it is released, the instance is as any other.
    scene.client(&release(HoldKind::Quarantine));
    assert_eq!(scene.client(&put(HoldKind::Drain)), Said::Done);
    assert_eq!(held(&scene), Some(HoldKind::Drain));
}

#[test]
fn a_quarantine_takes_the_place_of_a_drain() {
    let mut scene = scene();
    scene.client(&put(HoldKind::Drain));
    scene.client(&put(HoldKind::Quarantine));
    scene.client(&release(HoldKind::Quarantine));
    assert_eq!(held(&scene), None, "the drain is over too");
    assert_eq!(scene.instance("SHOP", "1").status, Status::Up);
    // A peer that still has the drain does not bring it back.
    let drain = word(HoldKind::Drain, START + TEN_MINUTES, false);
    let drain = Hold {
        at: Millis(START + 1_000),
        ..drain
    };
    scene.carry_out(&told("1", drain), true);
    assert_eq!(held(&scene), None);
}

/// Words that two nodes accepted before they heard of each other, exchanged whole until nothing is news.
fn exchange(nodes: &mut [Scene; 2]) {
    for _ in 0..2 {
        for (from, to) in [(0, 1), (1, 0)] {
            let all: Vec<_> = nodes[from]
                .registry
                .holds()
                .map(|(app, id, hold)| (app.clone(), id.clone(), *hold))
                .collect();
            for (app, id, hold) in all {
                nodes[to].carry_out(&Command::Hold { app, id, hold }, true);
            }
        }
    }
}

#[test]
fn a_quarantine_is_in_force_on_both_nodes_if_another_drained_before_it_heard_of_it() {
    for is_drain_later in [true, false] {
        let mut nodes = [scene(), scene()];
        nodes[usize::from(is_drain_later)].pass(1);
        nodes[0].client(&put(HoldKind::Quarantine));
        nodes[1].client(&put(HoldKind::Drain));
        exchange(&mut nodes);
        for scene in &mut nodes {
            assert_eq!(held(scene), Some(HoldKind::Quarantine));
            // The end of the drain is not felt.
            scene.pass(TEN_MINUTES);
            scene.client(&Command::EndHolds(HoldKind::Drain));
            assert_eq!(held(scene), Some(HoldKind::Quarantine));
            assert_eq!(scene.instance("SHOP", "1").status, OUT);
            scene.client(&Command::EndHolds(HoldKind::Quarantine));
            assert_eq!(held(scene), None);
            assert_eq!(scene.instance("SHOP", "1").status, Status::Up);
        }
    }
}

#[test]
fn a_drain_after_a_release_outlives_the_news_of_the_quarantine() {
    // The second node was out of touch: it knows of the quarantine, and not that it was released.
    for is_told_first in [0, 1] {
        let mut nodes = [scene(), scene()];
        nodes[0].client(&put(HoldKind::Quarantine));
        exchange(&mut nodes);
        nodes[0].pass(1);
        nodes[0].client(&release(HoldKind::Quarantine));
        nodes[0].client(&put(HoldKind::Drain));
        nodes.rotate_left(is_told_first);
        exchange(&mut nodes);
        for scene in &nodes {
            assert_eq!(held(scene), Some(HoldKind::Drain));
            assert_eq!(scene.instance("SHOP", "1").status, OUT);
        }
    }
}

#[test]
fn a_drain_that_waited_behind_a_quarantine_holds_when_that_is_released() {
    let mut nodes = [scene(), scene()];
    nodes[0].client(&put(HoldKind::Quarantine));
    nodes[1].pass(1);
    nodes[1].client(&put(HoldKind::Drain));
    exchange(&mut nodes);
    nodes[0].pass(2);
    nodes[0].client(&release(HoldKind::Quarantine));
    exchange(&mut nodes);
    for scene in &mut nodes {
        assert_eq!(held(scene), Some(HoldKind::Drain));
        assert_eq!(scene.instance("SHOP", "1").status, OUT);
        scene.client(&release(HoldKind::Drain));
        assert_eq!(scene.instance("SHOP", "1").status, Status::Up);
    }
}

#[test]
fn an_id_is_quarantined_before_it_is_there_and_drained_only_while_it_is() {
    let mut scene = Scene::new(&Rules::default());
    assert_eq!(scene.client(&put(HoldKind::Drain)), Said::NotFound);
    assert_eq!(scene.client(&release(HoldKind::Quarantine)), Said::NotFound);
    assert_eq!(scene.client(&put(HoldKind::Quarantine)), Said::Done);
    scene.register(instance("SHOP", "1"));
    assert_eq!(scene.instance("SHOP", "1").status, OUT);
    assert_eq!(scene.client(&release(HoldKind::Quarantine)), Said::Done);
    assert_eq!(scene.instance("SHOP", "1").status, Status::Up);
}

#[test]
fn what_is_not_up_by_itself_shows_through() {
    let mut scene = scene();
    scene.client(&put(HoldKind::Quarantine));
    scene.register(Instance {
        status: Status::Down,
        ..version(200, instance("SHOP", "1"))
    });
    assert_eq!(scene.instance("SHOP", "1").status, Status::Down);
}

#[test]
fn a_later_word_of_an_operator_replaces_an_earlier_one_whatever_the_clock() {
    let mut scene = scene();
    scene.client(&put(HoldKind::Drain));
    scene.now.wall = Millis(START - 5_000);
    scene.client(&put(HoldKind::Quarantine));
    assert_eq!(held(&scene), Some(HoldKind::Quarantine));
    // An older word that comes by a peer changes nothing.
    let before = scene.log.len();
    scene.carry_out(&put(HoldKind::Drain), true);
    assert_eq!(scene.log.len(), before);
}

#[test]
fn there_is_a_bound() {
    let mut scene = Scene::new(&Rules::default());
    for n in 0..HOLDS_MAX {
        let hold = word(HoldKind::Quarantine, START + 1, false);
        let hold = Hold {
            at: Millis(1),
            ..hold
        };
        scene.registry.restore_hold(
            &AppName::new("SHOP"),
            &InstanceId::new(&n.to_string()),
            hold,
        );
    }
    let one_more = told("more", word(HoldKind::Quarantine, START + 1, false));
    assert_eq!(scene.client(&one_more), Said::TooManyHolds);
    // Released ones are forgotten when their time would have been over.
    scene.pass(10);
    for _ in 0..HOLDS_MAX.div_ceil(1_000) {
        scene.client(&Command::EndHolds(HoldKind::Quarantine));
    }
    assert_eq!(scene.client(&one_more), Said::Done);
}

fn hold_command() -> impl Strategy<Value = Command> {
    let id = prop::sample::select(vec!["1", "2", "3"]);
    let hold = (
        prop::sample::select(HoldKind::ALL.to_vec()),
        0..200_000u64,
        0..200_000u64,
        prop::bool::weighted(0.3),
    )
        .prop_map(|(kind, until, at, is_released)| Hold {
            kind,
            until: Millis(START + until),
            at: Millis(START + at),
            is_released,
        });
    prop_oneof![
        5 => (id, hold).prop_map(|(id, hold)| told(id, hold)),
        1 => Just(Command::EndHolds(HoldKind::Drain)),
        1 => Just(Command::EndHolds(HoldKind::Quarantine)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => step(),
        1 => (any::<bool>(), hold_command()).prop_map(|(is_replication, command)| Step::Do {
            // Timers are nobody's peers.
            is_replication: is_replication && !matches!(command, Command::EndHolds(_)),
            command,
        }),
    ]
}

proptest! {
    #![proptest_config(cases(256))]

    /// Whoever says what in whatever order: a quarantined id is not UP, and a restart knows the same.
    #[test]
    fn nothing_brings_a_quarantined_id_up(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut scene = Scene::new(&Rules::default());
        for step in &steps {
            scene.take(step);
            for (app, id, hold) in scene.registry.holds() {
                let lease = scene.registry.lease(app.as_str(), id.as_str());
                if let Some(lease) = lease.filter(|_| hold.is_active()) {
                    let status = lease.instance().status;
                    let is_quarantine = hold.kind == HoldKind::Quarantine;
                    prop_assert!(!is_quarantine || status != Status::Up, "{:?}", step);
                }
            }
        }
        let mut replayed = Registry::new(Arc::new(Rules::default()));
        for record in &scene.log {
            replayed.evolve(&through_bytes(record), Millis(1));
        }
        let holds = |registry: &Registry| -> Vec<_> {
            let all = registry.holds();
            all.map(|(app, id, hold)| (app.clone(), id.clone(), *hold)).collect()
        };
        prop_assert_eq!(holds(&replayed), holds(&scene.registry));
    }

    /// Nodes that tell each other everything they know come to know the same.
    #[test]
    fn holds_that_are_exchanged_become_equal(
        ours in prop::collection::vec(any_step(), 0..20),
        theirs in prop::collection::vec(any_step(), 0..20),
    ) {
        let mut nodes = [ours, theirs].map(|steps| {
            let mut scene = Scene::new(&Rules::default());
            for step in &steps {
                scene.take(step);
            }
            scene
        });
        let holds = |scene: &Scene| -> Vec<_> {
            let all = scene.registry.holds();
            all.map(|(app, id, hold)| (app.clone(), id.clone(), *hold)).collect()
        };
        for _ in 0..2 {
            for (from, to) in [(0, 1), (1, 0)] {
                for (app, id, hold) in holds(&nodes[from]) {
                    nodes[to].carry_out(&Command::Hold { app, id, hold }, true);
                }
            }
        }
        // What is over and forgotten on one side is no news to the other. Two words of one millisecond
        // may have ends of their own.
        let live = |scene: &Scene| -> Vec<_> {
            let active = holds(scene).into_iter().filter(|(.., hold)| hold.is_active());
            active.map(|(app, id, hold)| (app, id, hold.kind, hold.at)).collect()
        };
        prop_assert_eq!(live(&nodes[0]), live(&nodes[1]));
    }
}
