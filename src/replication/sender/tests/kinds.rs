//! Who is at the peer's place, and whether anybody is.

use super::*;

fn third() -> Kind {
    Kind::Ours {
        node_id: "third".into(),
    }
}

impl Rig {
    /// An answer of the node that is there now. Whether it counts as a failure.
    pub(super) fn hear(&mut self, outcome: Outcome) -> bool {
        let outcome = self.sender.recognise(outcome, Some(self.kind.clone()));
        let is_failure = matches!(outcome, Outcome::Failed(_));
        self.answer(outcome);
        is_failure
    }
}

fn all_fine(count: usize) -> Outcome {
    let result = || ItemResult {
        status: 200,
        entity: None,
    };
    Outcome::Items(std::iter::repeat_with(result).take(count).collect())
}

#[test]
fn a_peer_that_there_is_nothing_to_tell_is_probed_every_three_seconds() {
    let mut rig = Rig::with(Kind::Java);
    let mut probes = 0;
    for _ in 0..1000 {
        rig.scene.pass(100);
        if let Next::Ask(ask) = rig.next() {
            assert!(matches!(ask, Ask::Probe), "it asks {ask:?}");
            probes += 1;
            rig.answer(Outcome::Known(Kind::Java));
        }
    }
    assert_eq!(probes, 33);
    // Nobody is there any more.
    while !matches!(rig.next(), Next::Ask(Ask::Probe)) {
        rig.scene.pass(100);
    }
    rig.answer(Outcome::Failed(Failure::Connect("refused".into())));
    assert!(rig.sender.is_failing());
}

#[test]
fn a_peer_that_is_told_something_is_not_probed() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    for _ in 0..20 {
        rig.scene.pass(5000);
        rig.renew("1");
        assert_eq!(rig.batch(), ["beat 1"]);
        rig.took(1);
        assert!(matches!(rig.next(), Next::Wait(_)));
    }
}

#[test]
fn what_another_kind_of_node_answers_is_no_answer() {
    for (before, after) in [(Kind::Java, ours()), (ours(), Kind::Java)] {
        let mut rig = Rig::with(before);
        rig.scene.register(instance("SHOP", "0"));
        rig.settle();
        rig.scene.register(instance("SHOP", "1"));
        assert_eq!(rig.batch(), ["register 1"]);
        rig.kind = after.clone();
        assert!(rig.hear(all_fine(1)));
        assert_eq!(rig.sender.cursor(), Some(Lsn(1)));
        assert!(rig.rest() >= 1000);
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.hear(Outcome::Known(after.clone()));
        assert!(!rig.sender.is_failing());
        // What was not told comes first, in the form of the new node.
        assert_eq!(rig.batch(), ["register 1"]);
        rig.took(1);
        // It need not have what the other one had.
        if after == Kind::Java {
            assert_eq!(rig.batch(), ["beat 0", "beat 1"]);
            rig.took(2);
        } else {
            assert!(matches!(rig.ask(), Ask::Digests));
            rig.answer(Outcome::Digests(Vec::new()));
        }
        assert_eq!(rig.sender.cursor(), Some(Lsn(2)));
        assert!(matches!(rig.next(), Next::Wait(_)));
    }
}

#[test]
fn renewals_that_another_kind_of_node_was_told_are_told_again() {
    for (before, after) in [(Kind::Java, ours()), (ours(), Kind::Java)] {
        let mut rig = Rig::with(before.clone());
        rig.scene.register(instance("SHOP", "1"));
        rig.settle();
        rig.scene.pass(1500);
        rig.renew("1");
        let answer = match rig.ask() {
            Ask::Batch(items) => all_fine(items.len()),
            // Java peers do not know the path.
            Ask::Renewals(_) => Outcome::Unknown(vec![0]),
            other => panic!("it asks {other:?}"),
        };
        rig.kind = after.clone();
        assert!(rig.hear(answer));
        rig.rest();
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.hear(Outcome::Known(after.clone()));
        match rig.ask() {
            Ask::Batch(items) => assert!(after == Kind::Java && items.len() == 1),
            Ask::Renewals(items) => assert!(after.is_ours() && items.len() == 1),
            other => panic!("it asks {other:?}"),
        }
    }
}

#[test]
fn a_refusal_of_another_kind_of_node_is_no_refusal() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    for _ in 0..3 {
        assert_eq!(rig.batch(), ["register 1"]);
        rig.kind = Kind::Java;
        assert!(rig.hear(Outcome::Refused(400)));
        rig.rest();
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.kind = ours();
        rig.hear(Outcome::Known(ours()));
    }
    assert_eq!(rig.batch(), ["register 1"]);
}

#[test]
fn an_error_from_something_in_between_leads_to_a_probe() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    assert_eq!(rig.batch(), ["register 1"]);
    // A proxy's answer does not say that it is of our kind.
    rig.kind = Kind::Java;
    rig.hear(Outcome::Failed(Failure::Status(502)));
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.kind = ours();
    rig.hear(Outcome::Known(ours()));
    assert_eq!(rig.batch(), ["register 1"]);
    rig.took(1);
    assert!(matches!(rig.ask(), Ask::Digests));
}

#[test]
fn what_something_in_between_finds_too_long_is_made_shorter() {
    let mut rig = Rig::with(ours());
    rig.settle();
    for id in 0..100 {
        rig.scene.register(instance("SHOP", &id.to_string()));
    }
    let (ours, proxy) = (rig.kind.clone(), Kind::Java);
    let mut refused = 0;
    while rig.sender.cursor() != Some(Lsn(100)) {
        let Ask::Batch(items) = rig.ask() else {
            panic!("it does not tell the changes");
        };
        if items.len() > 10 {
            refused += 1;
            rig.kind = proxy.clone();
            rig.hear(Outcome::Refused(413));
            rig.rest();
        } else {
            rig.kind = ours.clone();
            rig.hear(all_fine(items.len()));
        }
        assert!(refused < 50);
    }
    rig.kind = ours;
    rig.settle();
    rig.scene.pass(5000);
    while !matches!(rig.ask(), Ask::Digests) {
        rig.answer(Outcome::Unknown(Vec::new()));
    }
    rig.answer(Outcome::Digests(vec!["SHOP".into()]));
    assert!(matches!(rig.ask(), Ask::Compare { .. }));
    rig.kind = proxy;
    assert!(!rig.hear(Outcome::TooLong));
    assert!(matches!(rig.ask(), Ask::Compare { .. }));
}

#[test]
fn another_node_of_our_kind_has_been_told_but_may_not_have_heard_of_the_rest() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    rig.scene.register(instance("SHOP", "2"));
    assert_eq!(rig.batch(), ["register 2"]);
    rig.kind = third();
    assert!(!rig.hear(all_fine(1)));
    assert_eq!(rig.sender.kind(), &third());
    assert_eq!(rig.sender.cursor(), Some(Lsn(2)));
    // What it says of overrides is taken with care, until both are equal.
    for is_unsure in [true, false] {
        rig.scene.pass(5000);
        while !matches!(rig.ask(), Ask::Digests) {
            rig.answer(Outcome::Unknown(Vec::new()));
        }
        let effects = rig.finds_wanted();
        let expected = if is_unsure {
            crate::registry::command::Overrides::Merged
        } else {
            crate::registry::command::Overrides::Whole
        };
        assert!(
            matches!(&effects[..], [Effect::Repair { overrides, .. }] if *overrides == expected)
        );
        rig.settle();
        rig.scene.pass(5000);
        rig.settle();
    }
}
