//! A cancel that a Java peer is told late, when the client may have registered there anew: whatever was
//! registered later stays.

use super::*;

/// A peer that could not be told that SHOP/1 was cancelled.
fn was_away() -> Rig {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(version(200, instance("SHOP", "1")));
    rig.settle();
    rig.scene.client(&cancel("SHOP", "1"));
    assert_eq!(rig.batch(), ["cancel 1"], "at once it is told as it is");
    rig.answer(failed());
    rig.rest();
    assert_eq!(rig.batch(), ["beat 1"]);
    rig
}

#[test]
fn a_late_cancel_asks_first_and_is_told_when_nothing_newer_is_there() {
    for status in [200, 404] {
        let mut rig = was_away();
        rig.statuses(&[status]);
        assert_eq!(
            rig.sender.cursor(),
            Some(Lsn(1)),
            "it has not been told yet"
        );
        assert_eq!(rig.batch(), ["cancel 1"]);
        // Once more, and it does not ask again.
        rig.answer(failed());
        rig.rest();
        assert_eq!(rig.batch(), ["cancel 1"]);
        rig.took(1);
        assert_eq!(rig.sender.cursor(), Some(Lsn(2)));
        assert!(matches!(rig.next(), Next::Wait(_)));
    }
}

#[test]
fn a_late_cancel_is_not_told_where_the_client_has_registered_since() {
    let mut rig = was_away();
    let mut there = Scene::new(&Rules::eureka());
    there.register(version(300, instance("SHOP", "1")));
    let entity = crate::replication::learned::tests::listed(&there.registry, &there.log).pop();
    let effects = rig.answer(Outcome::Items(vec![ItemResult {
        status: 409,
        entity,
    }]));
    assert!(matches!(effects[..], [Effect::Adopt(_)]), "{effects:?}");
    assert!(matches!(rig.next(), Next::Wait(_)));
    assert_eq!(rig.sender.cursor(), Some(Lsn(2)));
    assert_eq!(rig.sender.remembered(), 0);
}

#[test]
fn what_was_registered_again_after_a_late_cancel_is_told_whatever_the_peer_has() {
    for is_newer in [false, true] {
        let mut rig = was_away();
        rig.answer(failed());
        rig.scene.register(version(300, instance("SHOP", "1")));
        rig.rest();
        assert_eq!(rig.batch(), ["beat 1"]);
        let mut there = Scene::new(&Rules::eureka());
        there.register(version(400, instance("SHOP", "1")));
        let entity = crate::replication::learned::tests::listed(&there.registry, &there.log).pop();
        rig.answer(Outcome::Items(vec![ItemResult {
            status: if is_newer { 409 } else { 404 },
            entity: entity.filter(|_| is_newer),
        }]));
        if is_newer {
            assert_eq!(rig.batch(), ["register 1"]);
            rig.took(1);
        } else {
            assert_eq!(rig.batch(), ["cancel 1", "register 1"]);
            rig.took(2);
        }
        assert_eq!(rig.sender.cursor(), Some(Lsn(3)));
    }
}

#[test]
fn a_question_that_the_peer_refuses_alone_does_not_hold_up_the_others() {
    let mut rig = was_away();
    rig.answer(Outcome::Refused(500));
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(Kind::Java));
    assert_eq!(rig.batch(), ["beat 1"]);
    let effects = rig.answer(Outcome::Refused(500));
    assert!(
        matches!(effects[..], [Effect::GaveUp { .. }]),
        "{effects:?}"
    );
    rig.scene.register(instance("SHOP", "2"));
    rig.rest();
    assert_eq!(rig.batch(), ["register 2"]);
    rig.took(1);
    assert_eq!(rig.sender.cursor(), Some(Lsn(3)));
}

#[test]
fn our_own_kind_is_told_the_version_with_a_cancel_and_not_asked() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    rig.scene.client(&cancel("SHOP", "1"));
    assert_eq!(rig.batch(), ["cancel 1"]);
    rig.answer(failed());
    rig.rest();
    assert_eq!(rig.batch(), ["cancel 1"]);
}
