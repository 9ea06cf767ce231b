//! What is sent of a stretch of the log, of a sweep and of renewals.

use super::*;
use crate::registry::command::Command;
use crate::registry::rules::Rules;
use crate::registry::tests::{Scene, cancel, instance, lift, set, version};

const OUT: Status = Status::OutOfService;

fn scene() -> Scene {
    Scene::new(&Rules::default())
}

fn words(items: &[Item]) -> Vec<String> {
    let word = |item: &Item| {
        let id = item.id();
        match item {
            Item::Register { .. } => format!("register {id}"),
            Item::Heartbeat { overridden, .. } => match overridden {
                Some(status) => format!("beat {id} {status}"),
                None => format!("beat {id}"),
            },
            Item::Cancel { .. } => format!("cancel {id}"),
            Item::SetStatus { status, .. } => format!("set {id} {status}"),
            Item::DeleteOverride(_) => format!("lift {id}"),
        }
    };
    items.iter().map(word).collect()
}

/// All that a peer is told of a log, in one piece.
fn told(scene: &Scene, recovered: Lsn, is_our_kind: bool) -> Vec<String> {
    let mut backlog = Backlog::behind(Lsn::ZERO, recovered, is_our_kind);
    backlog.take_in(&scene.log);
    assert_eq!(backlog.upto, scene.registry.lsn());
    let (items, _) = backlog.next_items(1000, &scene.registry, Lsn::ZERO);
    assert!(backlog.is_empty());
    words(&items)
}

#[test]
fn each_instance_is_told_once_and_as_it_is_now() {
    let mut scene = scene();
    for dirty in [100, 200, 300] {
        for id in ["1", "2"] {
            scene.register(version(dirty, instance("SHOP", id)));
        }
    }
    scene.client(&set("SHOP", "1", OUT, None));
    scene.client(&lift("SHOP", "1", None, None));
    for is_our_kind in [false, true] {
        let expected = ["register 1", "lift 1", "register 2"];
        assert_eq!(told(&scene, Lsn::ZERO, is_our_kind), expected);
    }
}

/// The reasons of those who are named for the items that say what an instance is.
fn reasons(scene: &Scene) -> Vec<Option<String>> {
    let mut backlog = Backlog::behind(Lsn::ZERO, Lsn::ZERO, true);
    backlog.take_in(&scene.log);
    let (items, _) = backlog.next_items(1000, &scene.registry, Lsn::ZERO);
    let reason = |item: &Item| match item {
        Item::Register { caller, .. } | Item::Cancel { caller, .. } => {
            Some(caller.reason.as_deref().map(str::to_owned))
        }
        Item::Heartbeat { .. } | Item::SetStatus { .. } | Item::DeleteOverride(_) => None,
    };
    items.iter().filter_map(reason).collect()
}

#[test]
fn the_last_caller_is_named_unless_a_peer_has_changed_it_since() {
    let mut scene = scene();
    let because = |scene: &mut Scene, reason: &str, command: &Command| {
        scene.caller.reason = Some(reason.into());
        scene.client(command);
    };
    because(
        &mut scene,
        "start",
        &Command::Register(instance("SHOP", "1").into()),
    );
    because(&mut scene, "deploy", &set("SHOP", "1", OUT, None));
    assert_eq!(reasons(&scene), [Some("deploy".into())]);
    let mut changed = scene.clone();
    changed.pass(1);
    changed.peer(&lift("SHOP", "1", None, None));
    assert_eq!(reasons(&changed), [None]);
    because(&mut scene, "scaled in", &cancel("SHOP", "1"));
    assert_eq!(reasons(&scene), [Some("scaled in".into())]);
}

#[test]
fn what_came_from_peers_and_what_expired_is_not_passed_on() {
    let mut scene = scene();
    scene.peer(&Command::Register(instance("SHOP", "1").into()));
    scene.peer(&set("SHOP", "1", OUT, None));
    scene.peer(&cancel("SHOP", "1"));
    assert!(told(&scene, Lsn::ZERO, true).is_empty());
    assert!(told(&scene, Lsn::ZERO, false).is_empty());
}

#[test]
fn a_cancel_is_told_unless_a_peer_has_brought_the_instance_back() {
    let mut scene = scene();
    scene.register(instance("SHOP", "1"));
    scene.client(&cancel("SHOP", "1"));
    assert_eq!(told(&scene, Lsn::ZERO, true), ["cancel 1"]);
    assert_eq!(told(&scene, Lsn::ZERO, false), ["cancel 1"]);
    let mut again = scene.clone();
    again.register(version(200, instance("SHOP", "1")));
    // Its override went with the cancel.
    assert_eq!(told(&again, Lsn::ZERO, true), ["register 1", "lift 1"]);
    assert_eq!(told(&again, Lsn::ZERO, false), ["cancel 1", "register 1"]);
}

#[test]
fn an_override_that_a_peer_told_is_told_with_the_description_that_came_after_it() {
    let mut scene = scene();
    scene.peer(&Command::Register(instance("SHOP", "1").into()));
    scene.peer(&set("SHOP", "1", OUT, None));
    scene.register(version(200, instance("SHOP", "1")));
    let items = told(&scene, Lsn::ZERO, true);
    assert_eq!(items, ["register 1", "set 1 OUT_OF_SERVICE"]);
}

#[test]
fn of_before_a_restart_java_peers_are_asked_and_our_own_kind_is_told() {
    let mut scene = scene();
    scene.register(instance("SHOP", "old"));
    scene.register(instance("SHOP", "word"));
    scene.client(&set("SHOP", "word", OUT, None));
    scene.register(instance("SHOP", "both"));
    let recovered = scene.registry.lsn();
    scene.register(version(200, instance("SHOP", "both")));
    scene.register(instance("SHOP", "new"));
    assert_eq!(
        told(&scene, recovered, false),
        [
            "beat old",
            "register word",
            "set word OUT_OF_SERVICE",
            "register both",
            "register new"
        ]
    );
    let ours = told(&scene, recovered, true);
    assert_eq!(ours[0], "register old");
    assert!(ours.iter().all(|word| !word.starts_with("beat")));
}

#[test]
fn pieces_are_no_longer_than_asked_but_never_empty_and_what_failed_comes_first_again() {
    let mut scene = scene();
    for id in ["1", "2", "3"] {
        scene.register(instance("SHOP", id));
        scene.client(&set("SHOP", id, OUT, None));
    }
    let mut backlog = Backlog::behind(Lsn::ZERO, Lsn::ZERO, true);
    backlog.take_in(&scene.log);
    let (items, _) = backlog.next_items(1, &scene.registry, Lsn::ZERO);
    assert_eq!(words(&items), ["register 1", "set 1 OUT_OF_SERVICE"]);
    backlog.is_open = false;
    let (items, told) = backlog.next_items(3, &scene.registry, Lsn::ZERO);
    assert_eq!(words(&items), ["register 2", "set 2 OUT_OF_SERVICE"]);
    assert!(!backlog.is_open);
    backlog.put_back(told);
    assert!(backlog.is_open);
    let (items, _) = backlog.next_items(4, &scene.registry, Lsn::ZERO);
    assert_eq!(items.len(), 4);
    assert_eq!(items[0].id().as_str(), "2");
    assert!(backlog.is_empty());
}

#[test]
fn a_sweep_and_the_renewals_go_on_behind_what_was_sent() {
    let mut scene = scene();
    for id in 0..5 {
        scene.register(instance("SHOP", &id.to_string()));
    }
    scene.client(&set("SHOP", "2", OUT, None));
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let (items, rest) = sweep(&scene.registry, after.as_ref(), 3);
        assert!(items.len() <= 3);
        seen.extend(words(&items));
        after = rest;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(
        seen,
        [
            "beat 0",
            "beat 1",
            "register 2",
            "set 2 OUT_OF_SERVICE",
            "beat 3",
            "beat 4"
        ]
    );
    for lease in scene.registry.leases() {
        lease.clock.set_renewed_by_client(Millis(100));
    }
    let (first, rest) = renewals(&scene.registry, Millis(99), None, 3);
    assert_eq!(first.len(), 3);
    let (second, end) = renewals(&scene.registry, Millis(99), rest.as_ref(), 3);
    assert_eq!((second.len(), end), (2, None));
    let none = renewals(&scene.registry, Millis(100), None, 3);
    assert!(none.0.is_empty());
}
