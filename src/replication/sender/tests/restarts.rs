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
fn a_java_peer_behind_something_that_answers_for_it_is_swept_when_it_was_silent() {
    for failure in [
        Failure::Broken("closed".into()),
        Failure::Status(503),
        Failure::TimedOut,
    ] {
        let mut rig = Rig::with(Kind::Java);
        rig.scene.register(instance("SHOP", "1"));
        rig.settle();
        for dirty in 0..6 {
            rig.scene
                .register(version(1000 + dirty, instance("SHOP", "2")));
            assert!(matches!(rig.ask(), Ask::Batch(_)));
            rig.answer(Outcome::Failed(failure.clone()));
            rig.rest();
        }
        assert_eq!(rig.batch(), ["register 2"]);
        rig.took(1);
        assert_eq!(rig.batch(), ["beat 1", "beat 2"], "{failure}");
        rig.took(2);
        assert!(matches!(rig.next(), Next::Wait(_)));
    }
}

#[test]
fn a_java_peer_that_refused_connections_from_the_start_is_swept() {
    let scene = Scene::new(&Rules::default());
    let mut rig = Rig::unmet(scene, Place::Cursor(Lsn(1)), Lsn(1), Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(refused());
    rig.rest();
    rig.is_ageless = false;
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(Kind::Java));
    assert!(matches!(rig.ask(), Ask::Born));
    let effects = rig.answer(Outcome::Born(None));
    // This node had a store: that peer may know more by now.
    assert!(matches!(effects[..], [Effect::Look]), "{effects:?}");
    assert_eq!(rig.batch(), ["beat 1"]);
}

#[test]
fn what_is_gone_before_a_peer_is_first_met_is_told_beside_what_there_is() {
    for kind in [Kind::Java, ours()] {
        let mut scene = Scene::new(&Rules::default());
        scene.register(instance("SHOP", "before"));
        scene.register(instance("SHOP", "stays"));
        let begun = scene.registry.lsn();
        let mut rig = Rig::unmet(scene, Place::Sweep(begun), Lsn::ZERO, kind.clone());
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(failed());
        rig.scene.client(&cancel("SHOP", "before"));
        rig.rest();
        assert_eq!(rig.sender.place(), Place::Sweep(begun), "it goes on there");
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(Outcome::Known(kind.clone()));
        if kind == Kind::Java {
            assert_eq!(rig.batch(), ["beat before"], "it may be there anew");
            rig.took(1);
            assert_eq!(rig.batch(), ["beat stays"]);
            rig.took(1);
            assert_eq!(rig.batch(), ["cancel before"]);
            rig.took(1);
        } else {
            assert_eq!(rig.batch(), ["cancel before"]);
            rig.took(1);
            assert!(matches!(rig.ask(), Ask::Digests));
            let unsure = Place::Sweep(rig.scene.registry.lsn());
            assert_eq!(rig.sender.place(), unsure, "until they are equal");
            rig.answer(Outcome::Digests(Vec::new()));
        }
        assert_eq!(rig.sender.place(), Place::Cursor(rig.scene.registry.lsn()));
        assert!(matches!(rig.next(), Next::Wait(_)));
    }
}

#[test]
fn a_sweep_that_was_interrupted_is_made_anew_and_what_went_meanwhile_is_told() {
    let mut rig = Rig::with(Kind::Java);
    for id in ["1", "2", "3"] {
        rig.scene.register(instance("SHOP", id));
    }
    rig.settle();
    rig.sender.sweep_instead(rig.scene.registry.lsn());
    assert_eq!(rig.batch(), ["beat 1", "beat 2", "beat 3"]);
    let place = rig.sender.place();
    assert_eq!(place, Place::Sweep(Lsn(3)));
    // The node dies here.
    rig.scene.client(&cancel("SHOP", "2"));
    rig.sender = Sender::new(place, rig.scene.registry.lsn(), rig.scene.now.mono);
    rig.sender.java.is_never_read();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(Kind::Java));
    assert_eq!(rig.batch(), ["beat 2"]);
    rig.took(1);
    assert_eq!(rig.batch(), ["beat 1", "beat 3"]);
    rig.took(2);
    assert_eq!(rig.batch(), ["cancel 2"]);
    rig.took(1);
    assert_eq!(rig.sender.cursor(), Some(Lsn(4)));
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
fn a_java_peer_that_was_away_for_long_enough_to_give_up_is_looked_at() {
    for (away, is_looked_at) in [(10_000, false), (LOOK_AFTER_MS, true)] {
        let mut rig = Rig::with(Kind::Java);
        assert!(matches!(rig.next(), Next::Wait(_)), "a new node copies");
        rig.scene.pass(PROBE_AFTER_MS + 1);
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(failed());
        rig.scene.pass(away);
        assert!(matches!(rig.ask(), Ask::Probe));
        assert!(rig.answer(Outcome::Known(Kind::Java)).is_empty());
        rig.is_ageless = false;
        assert!(matches!(rig.ask(), Ask::Born));
        let effects = rig.answer(Outcome::Born(None));
        assert_eq!(matches!(effects[..], [Effect::Look]), is_looked_at);
        rig.is_ageless = true;
        rig.settle();
        let effects = comes_back(&mut rig, failed());
        assert!(effects.is_empty(), "once: {effects:?}");
    }
}

#[test]
fn a_java_peer_that_hung_is_looked_at_though_there_is_always_something_to_tell() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    assert!(matches!(rig.ask(), Ask::Batch(_)));
    rig.answer(failed());
    rig.is_ageless = false;
    let is_look = |effect: &&Effect| matches!(effect, Effect::Look);
    let mut looked = 0;
    for dirty in 0..60 {
        rig.scene.pass(3000);
        rig.scene
            .register(version(1000 + dirty, instance("SHOP", "1")));
        match rig.ask() {
            Ask::Batch(_) if dirty < 40 => {
                rig.answer(Outcome::Failed(Failure::Status(503)));
            }
            Ask::Batch(items) => {
                let effects = rig.took(items.len());
                looked += effects.iter().filter(is_look).count();
            }
            Ask::Born => {
                let effects = rig.answer(Outcome::Born(None));
                looked += effects.iter().filter(is_look).count();
            }
            other => panic!("it asks {other:?}"),
        }
    }
    assert_eq!(looked, 1);
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
