//! What a Java peer tells that has not heard of everything.

use super::*;
use crate::registry::rules::Rules;
use crate::registry::tests::{Scene, cancel, instance, version};
use crate::replication::exchange;
use crate::replication::outbound::Item;
use crate::replication::reconcile::Digests;
use crate::replication::sender::{Ask, Kind};
use crate::wire::batch::decode_batch;
use crate::wire::{Dialect, Limits};

/// The batch with which a Java peer tells that SHOP/1 was registered with it in this version.
fn registers(dirty: i64) -> Vec<BatchItem> {
    let mut there = Scene::new(&Rules::eureka());
    there.register(version(dirty, instance("SHOP", "1")));
    let ask = Ask::Batch(vec![Item::Register {
        lease: there.lease("SHOP", "1").clone(),
        caller: Actor::UNKNOWN,
    }]);
    let (state, now) = (there.published(), there.now);
    let message = exchange::message(&ask, &Kind::Java, &state, &Digests::default(), "java", now);
    let items = decode_batch(&message.body, Dialect::Exact, &Limits::default(), 0);
    let items = items.expect("a batch").expect("a list");
    items.into_iter().flatten().collect()
}

/// Whether such a registration of this sender is carried out.
fn is_taken(here: &Scene, dirty: i64, sender: &str) -> bool {
    are_taken(here, registers(dirty), sender)
}

fn are_taken(here: &Scene, items: Vec<BatchItem>, sender: &str) -> bool {
    let terms = Terms {
        is_our_kind: false,
        validates_data_center_id: false,
    };
    let known = Known {
        state: &here.published(),
        removed: &Removed::default(),
        sender: &Origin::Peer(sender.into()),
    };
    let plan = Plan::of(items, terms, known, |_, _, _| None);
    let is_taken = !plan.commands.is_empty();
    let replies = vec![Reply::Done; plan.commands.len()];
    let answers = plan.answers(&replies, &here.registry);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].status, 200, "it is not to say it again");
    is_taken
}

#[test]
fn a_java_peer_that_has_not_heard_of_a_cancel_brings_nothing_back() {
    let mut here = Scene::new(&Rules::default());
    here.register(version(200, instance("SHOP", "1")));
    assert!(is_taken(&here, 200, "java"), "it is the same");
    here.client(&cancel("SHOP", "1"));
    for (dirty, expected) in [(199, false), (200, false), (201, true)] {
        assert_eq!(is_taken(&here, dirty, "java"), expected, "{dirty}");
    }
    // By then it keeps nothing of before.
    here.pass(1);
    here.delta.trim(here.now.mono, 0);
    assert!(is_taken(&here, 200, "java"));
}

#[test]
fn a_java_peer_that_told_of_the_cancel_itself_may_register_the_same_again() {
    let mut here = Scene::new(&Rules::default());
    here.register(version(200, instance("SHOP", "1")));
    here.peer(&cancel("SHOP", "1"));
    assert!(is_taken(&here, 200, "peer-1"));
    assert!(!is_taken(&here, 200, "peer-2"));
}

#[test]
fn what_a_java_peer_registers_for_a_heartbeat_of_before_its_own_cancel_is_not_taken() {
    let mut here = Scene::new(&Rules::default());
    here.register(version(200, instance("SHOP", "1")));
    here.peer(&cancel("SHOP", "1"));
    let mut items = registers(200);
    for draft in items.iter_mut().filter_map(|item| item.instance.as_mut()) {
        draft.action_type = Some(ActionType::Deleted);
    }
    assert!(!are_taken(&here, items.clone(), "peer-1"));
    let exact = Scene::new(&Rules::eureka());
    assert!(are_taken(&exact, items, "peer-1"));
}

#[test]
fn in_the_profile_of_the_original_it_does_as_the_original_does() {
    let mut here = Scene::new(&Rules::eureka());
    here.register(version(200, instance("SHOP", "1")));
    here.client(&cancel("SHOP", "1"));
    assert!(is_taken(&here, 200, "java"));
}
