//! Peers that were gone, and a node that was.

use super::*;

fn refused() -> Outcome {
    Outcome::Failed(Failure::Refused("nobody".into()))
}

/// Fails the next request like this, lets the pause pass and has the same peer answer the probe.
fn comes_back(rig: &mut Rig, failure: Outcome) -> Vec<Effect> {
    rig.scene.pass(PROBE_AFTER_MS + 1);
    assert!(matches!(rig.ask(), Ask::Probe | Ask::Digests));
    rig.answer(failure);
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(rig.kind.clone()))
}

#[test]
fn a_java_peer_that_refused_connections_is_swept_once() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    comes_back(&mut rig, refused());
    assert_eq!(rig.batch(), ["beat 1"]);
    rig.took(1);
    assert_eq!(rig.sender.cursor(), Some(Lsn(1)));
    assert!(matches!(rig.next(), Next::Wait(_)));
    for failure in [failed(), Outcome::Failed(Failure::Connect("late".into()))] {
        rig.scene.pass(PROBE_AFTER_MS + 1);
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(failure);
        rig.rest();
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(Outcome::Known(Kind::Java));
        assert!(
            matches!(rig.next(), Next::Wait(_)),
            "it was there all along"
        );
    }
}

#[test]
fn a_java_peer_that_refused_connections_from_the_start_is_swept() {
    let scene = Scene::new(&Rules::default());
    let sender = Sender::new(Some(Lsn(1)), Lsn(1), scene.now.mono);
    let mut rig = Rig {
        scene,
        sender,
        kind: Kind::Java,
        first: Lsn(1),
    };
    rig.scene.register(instance("SHOP", "1"));
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(refused());
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    let effects = rig.answer(Outcome::Known(Kind::Java));
    // This node had a store: that peer may know more by now.
    assert!(matches!(effects[..], [Effect::Look]), "{effects:?}");
    assert_eq!(rig.batch(), ["beat 1"]);
}

#[test]
fn a_peer_of_our_own_kind_that_refused_connections_is_compared() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    comes_back(&mut rig, refused());
    assert!(matches!(rig.ask(), Ask::Digests));
}

#[test]
fn a_java_peer_that_was_away_for_longer_than_a_lease_is_looked_at() {
    for (away, is_looked_at) in [(60_000, false), (LOOK_AFTER_MS, true)] {
        let mut rig = Rig::with(Kind::Java);
        assert!(matches!(rig.next(), Next::Wait(_)), "a new node copies");
        rig.scene.pass(PROBE_AFTER_MS + 1);
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(failed());
        rig.scene.pass(away);
        assert!(matches!(rig.ask(), Ask::Probe));
        let effects = rig.answer(Outcome::Known(Kind::Java));
        assert_eq!(matches!(effects[..], [Effect::Look]), is_looked_at);
        let effects = comes_back(&mut rig, failed());
        assert!(effects.is_empty(), "once: {effects:?}");
    }
}

#[test]
fn a_node_that_copies_tells_but_does_not_compare() {
    let mut rig = Rig::with(ours());
    rig.sender.hold_back(true);
    rig.scene.register(instance("SHOP", "1"));
    assert_eq!(rig.batch(), ["register 1"]);
    rig.took(1);
    for _ in 0..20 {
        rig.scene.pass(1000);
        if let Next::Ask(ask) = rig.next() {
            assert!(matches!(ask, Ask::Probe), "it asks {ask:?}");
            rig.answer(Outcome::Known(ours()));
        }
    }
    rig.sender.hold_back(false);
    assert!(matches!(rig.ask(), Ask::Digests));
}
