//! What is asked of a Java peer beside what it is told.

use super::*;
use crate::replication::learned::Unheard;
use crate::replication::sender::java::READ_EVERY_MS;

/// A Java peer that says when it began, with one lease.
fn met(born: Option<i64>) -> Rig {
    let mut rig = Rig::unmet(
        Scene::new(&Rules::default()),
        Place::Cursor(Lsn::ZERO),
        Lsn::ZERO,
        Kind::Java,
    );
    rig.sender = Sender::new(Place::Cursor(Lsn::ZERO), Lsn::ZERO, rig.scene.now.mono);
    rig.is_ageless = false;
    rig.scene.register(instance("SHOP", "1"));
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(Kind::Java));
    assert!(matches!(rig.ask(), Ask::Born));
    rig.answer(Outcome::Born(born));
    assert_eq!(rig.batch(), ["register 1"]);
    rig.took(1);
    assert_eq!(reads(&mut rig, &[]), (0, 0));
    rig
}

/// An override that nobody heard of, said at a time.
fn unheard(id: &str, updated: i64) -> Unheard {
    Unheard {
        key: (AppName::new("SHOP"), InstanceId::new(id)),
        updated,
        cancelled: None,
    }
}

/// Lets time pass, all else answered well, until it is asked what changed lately, which are these. After how long,
/// ms, and how many changes are taken over.
fn reads(rig: &mut Rig, changes: &[(&str, i64)]) -> (u64, usize) {
    let begun = rig.scene.now.mono;
    loop {
        match rig.next() {
            Next::Wait(until) => {
                let pause = until.since(rig.scene.now.mono);
                rig.scene.pass(pause);
            }
            Next::Ask(Ask::Probe) => {
                rig.answer(Outcome::Known(Kind::Java));
            }
            Next::Ask(Ask::Recent) => break,
            Next::Ask(ask) => panic!("it asks {ask:?}"),
        }
    }
    let waited = rig.scene.now.mono.since(begun);
    let list = changes.iter().map(|(id, updated)| unheard(id, *updated));
    let effects = rig.answer(Outcome::Recent(list.collect()));
    let taken = effects.iter().map(|effect| match effect {
        Effect::Learn(unheard) => unheard.len(),
        other => panic!("it does {other:?}"),
    });
    (waited, taken.sum())
}

/// The link is cut for some time, while a client renews its lease here; then the peer answers a probe.
fn is_cut_for(rig: &mut Rig, ms: u64) {
    let end = rig.scene.now.mono.plus(ms);
    while rig.scene.now.mono < end {
        match rig.next() {
            Next::Wait(until) => {
                let pause = until.since(rig.scene.now.mono);
                rig.scene.pass(pause.max(1));
            }
            Next::Ask(_) => {
                rig.scene.pass(200);
                rig.answer(Outcome::Failed(Failure::Connect("cut".into())));
            }
        }
        rig.renew("1");
    }
    if let Next::Wait(until) = rig.next() {
        let pause = until.since(rig.scene.now.mono);
        rig.scene.pass(pause);
        assert!(matches!(rig.ask(), Ask::Probe));
    }
    rig.answer(Outcome::Known(Kind::Java));
}

fn asks_born(rig: &mut Rig, born: Option<i64>) {
    assert!(matches!(rig.ask(), Ask::Born));
    rig.answer(Outcome::Born(born));
}

#[test]
fn what_changed_lately_is_asked_for_every_few_seconds() {
    let mut rig = met(Some(1));
    for _ in 0..10 {
        assert_eq!(reads(&mut rig, &[]), (READ_EVERY_MS, 0));
    }
    rig.sender.hold_back(true);
    rig.scene.pass(READ_EVERY_MS);
    assert!(!matches!(rig.next(), Next::Ask(Ask::Recent)));
}

#[test]
fn only_what_is_still_unheard_a_moment_later_is_taken_over_and_not_at_every_look() {
    let mut rig = met(Some(1));
    let both = [("1", 5), ("2", 6)];
    assert_eq!(reads(&mut rig, &both).1, 0, "it may be on its way");
    let (waited, taken) = reads(&mut rig, &[("1", 5)]);
    assert_eq!(taken, 1, "the other has arrived");
    assert!(waited < READ_EVERY_MS, "{waited}");
    // It is not wanted here, or could not be stored.
    let again: Vec<u64> = (0..24)
        .map(|_| reads(&mut rig, &[("1", 5)]))
        .filter_map(|(waited, taken)| (taken > 0).then_some(waited))
        .collect();
    assert_eq!(again, [READ_EVERY_MS; 2], "every half a minute");
    assert_eq!(reads(&mut rig, &[("1", 7)]).1, 0, "it is something else");
    assert_eq!(reads(&mut rig, &[("1", 7)]).1, 1);
}

#[test]
fn a_list_that_takes_long_or_is_not_to_be_had_is_asked_for_less_often() {
    let mut rig = met(Some(1));
    rig.scene.pass(READ_EVERY_MS);
    assert!(matches!(rig.ask(), Ask::Recent));
    rig.scene.pass(1000);
    rig.answer(Outcome::Recent(Vec::new()));
    assert_eq!(reads(&mut rig, &[]).0, 20_000);
    let mut pause = READ_EVERY_MS;
    rig.scene.pass(pause);
    for _ in 0..10 {
        assert!(matches!(rig.ask(), Ask::Recent));
        rig.answer(Outcome::Unread(Failure::Status(403)));
        assert!(!rig.sender.is_failing());
        pause = (pause * 2).min(60_000);
        let begun = rig.scene.now.mono;
        while rig.scene.now.mono < begun.plus(pause - 1) {
            rig.scene.pass(1);
            if let Next::Ask(ask) = rig.next() {
                assert!(matches!(ask, Ask::Probe), "it asks {ask:?}");
                rig.answer(Outcome::Known(Kind::Java));
            }
        }
        rig.scene.pass(1);
    }
}

#[test]
fn a_peer_that_lived_on_in_a_cut_is_not_swept_and_is_told_renewals_when_it_has_told_its_cancels() {
    let mut rig = met(Some(1));
    is_cut_for(&mut rig, 40_000);
    asks_born(&mut rig, Some(1));
    let (waited, _) = reads(&mut rig, &[]);
    assert_eq!(waited, 0, "what changed lately comes first");
    let begun = rig.scene.now.mono;
    let told = loop {
        match rig.next() {
            Next::Wait(until) => {
                let pause = until.since(rig.scene.now.mono);
                rig.scene.pass(pause);
            }
            Next::Ask(Ask::Batch(items)) => break items,
            Next::Ask(Ask::Recent) => {
                rig.answer(Outcome::Recent(Vec::new()));
            }
            Next::Ask(ask) => panic!("it asks {ask:?}"),
        }
    };
    assert_eq!(told.iter().map(word).collect::<Vec<_>>(), ["beat 1"]);
    assert_eq!(rig.scene.now.mono.since(begun), 3000);
}

#[test]
fn a_peer_that_began_anew_or_does_not_say_so_is_swept() {
    for (before, after) in [
        (Some(1), Some(2)),
        (Some(1), None),
        (None, Some(2)),
        (None, None),
    ] {
        let mut rig = met(before);
        is_cut_for(&mut rig, 6000);
        asks_born(&mut rig, after);
        assert_eq!(rig.sender.cursor(), None, "{before:?} {after:?}");
        assert_eq!(rig.sender.note().born, after.or(before));
    }
}

#[test]
fn a_peer_that_was_never_out_of_reach_for_long_is_swept_only_if_it_says_that_it_began_anew() {
    for (born, is_swept) in [(Some(1), false), (None, false), (Some(2), true)] {
        let mut rig = met(Some(1));
        is_cut_for(&mut rig, 1500);
        asks_born(&mut rig, born);
        assert_eq!(rig.sender.cursor().is_none(), is_swept, "{born:?}");
        assert_eq!(rig.batch(), ["beat 1"], "renewals do not wait");
    }
}

#[test]
fn a_list_that_breaks_off_may_be_the_first_sign_of_a_restart() {
    let mut rig = met(Some(1));
    rig.scene.pass(READ_EVERY_MS);
    assert!(matches!(rig.ask(), Ask::Recent));
    let broken = Outcome::Failed(Failure::Broken("reset".into()));
    let outcome = rig.sender.recognise(broken, None);
    rig.answer(outcome);
    assert!(!rig.sender.is_failing());
    asks_born(&mut rig, Some(2));
    assert_eq!(rig.batch(), ["beat 1"], "it is swept");
}

#[test]
fn when_a_peer_began_is_remembered_by_the_node() {
    for (born, is_swept) in [(Some(1), false), (Some(2), true), (None, false)] {
        let mut rig = met(Some(1));
        let note = rig.sender.note();
        assert_eq!(note.place, Place::Cursor(Lsn(1)));
        rig.sender = Sender::new(note, Lsn(1), rig.scene.now.mono);
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(Outcome::Known(Kind::Java));
        asks_born(&mut rig, born);
        assert_eq!(rig.sender.cursor().is_none(), is_swept, "{born:?}");
    }
}

#[test]
fn a_peer_that_never_answers_when_it_began_is_asked_three_times() {
    let mut rig = met(Some(1));
    is_cut_for(&mut rig, 6000);
    for _ in 0..3 {
        assert!(matches!(rig.ask(), Ask::Born));
        assert_eq!(rig.sender.cursor(), Some(Lsn(1)));
        rig.answer(failed());
        rig.rest();
        // What else there is to tell has its turn.
        assert_eq!(rig.batch(), ["beat 1"]);
        if rig.sender.cursor().is_none() {
            break;
        }
        rig.took(1);
        rig.renew("1");
    }
    assert_eq!(rig.sender.cursor(), None, "it may have begun anew");
    rig.took(1);
    for _ in 0..20 {
        rig.scene.pass(500);
        match rig.next() {
            Next::Ask(Ask::Born) => panic!("it is asked again"),
            Next::Ask(Ask::Batch(items)) => drop(rig.took(items.len())),
            Next::Ask(Ask::Recent) => drop(rig.answer(Outcome::Recent(Vec::new()))),
            Next::Ask(_) | Next::Wait(_) => {}
        }
    }
}

#[test]
fn a_peer_that_fails_to_say_when_it_began_is_asked_again_when_it_has_answered_something_else() {
    let scene = Scene::new(&Rules::default());
    let mut rig = Rig::unmet(scene, Place::Cursor(Lsn::ZERO), Lsn::ZERO, Kind::Java);
    rig.is_ageless = false;
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(Kind::Java));
    assert!(matches!(rig.ask(), Ask::Born));
    rig.answer(failed());
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(Kind::Java));
    asks_born(&mut rig, Some(1));
    assert_eq!(rig.sender.note().born, Some(1));
}

#[test]
fn while_a_peer_that_began_anew_is_swept_it_is_not_asked_what_changed() {
    let mut rig = met(Some(1));
    is_cut_for(&mut rig, 6000);
    asks_born(&mut rig, Some(2));
    assert_eq!(rig.sender.cursor(), None);
    while rig.sender.cursor().is_none() {
        let told = rig.batch().len();
        rig.took(told);
    }
    rig.scene.pass(READ_EVERY_MS);
    assert_eq!(reads(&mut rig, &[]).1, 0);
}

#[test]
fn on_a_link_that_comes_and_goes_renewals_are_told_all_the_same() {
    let mut rig = met(Some(1));
    let mut told = 0;
    for _ in 0..5 {
        is_cut_for(&mut rig, 6000);
        asks_born(&mut rig, Some(1));
        let end = rig.scene.now.mono.plus(2000);
        while rig.scene.now.mono < end {
            match rig.next() {
                Next::Wait(until) => {
                    let pause = until.since(rig.scene.now.mono).min(100);
                    rig.scene.pass(pause.max(1));
                }
                Next::Ask(Ask::Batch(items)) => {
                    told += 1;
                    rig.took(items.len());
                }
                Next::Ask(Ask::Recent) => drop(rig.answer(Outcome::Recent(Vec::new()))),
                Next::Ask(Ask::Probe) => drop(rig.answer(Outcome::Known(Kind::Java))),
                Next::Ask(ask) => panic!("it asks {ask:?}"),
            }
        }
    }
    assert!(told >= 2, "{told}");
}
