//! Comparisons of applications that are too large for one question or one answer.

use super::*;
use crate::replication::portion::{QUESTION_BYTES, QUESTION_BYTES_MIN, Range};
use crate::replication::reconcile::Comparison;

impl Rig {
    /// A node of our own kind that has been told of so many instances, and finds that `apps` differ.
    fn differing(count: usize, apps: &[&str]) -> Self {
        let mut rig = Self::with(ours());
        for id in 0..count {
            rig.scene.register(instance("SHOP", &format!("{id:05}")));
        }
        rig.settle();
        rig.scene.pass(5000);
        assert!(matches!(rig.ask(), Ask::Digests));
        rig.answer(Outcome::Digests(
            apps.iter().map(|app| (*app).to_owned()).collect(),
        ));
        rig
    }

    fn question(&mut self) -> (Vec<Portion>, usize) {
        let Ask::Compare(asked) = self.ask() else {
            panic!("it does not compare");
        };
        let question = Comparison::of(&self.scene.registry, &asked, self.scene.now);
        let bytes = serde_json::to_vec(&question).expect("a question").len();
        (asked, bytes)
    }

    fn found_nothing(&mut self) {
        self.answer(Outcome::Compared(Box::default()));
    }
}

fn range(after: Option<&str>, upto: Option<&str>) -> Range {
    Range {
        after: after.map(Into::into),
        upto: upto.map(Into::into),
    }
}

#[test]
fn a_question_that_is_too_long_is_halved_until_it_is_read_and_that_is_no_failure() {
    let mut rig = Rig::differing(100, &["OTHER", "SHOP"]);
    let (mut asked_upto, mut refused, mut read) = (None, 0, 0);
    loop {
        let (asked, bytes) = rig.question();
        if bytes > 5000 {
            refused += 1;
            rig.answer(Outcome::TooLong);
            assert!(!rig.sender.is_failing());
            continue;
        }
        read += 1;
        let last = asked.last().expect("a portion");
        assert_eq!(last.app, "SHOP");
        assert_eq!(last.range.after, asked_upto, "nothing is left out");
        asked_upto = last.range.upto.clone();
        rig.found_nothing();
        if asked_upto.is_none() {
            break;
        }
    }
    assert!(refused <= 10 && read >= 4, "{refused} {read}");
    assert!(matches!(rig.next(), Next::Wait(_)));
}

#[test]
fn a_peer_that_reads_no_question_at_all_is_a_failure_but_not_for_ever() {
    let mut rig = Rig::differing(3, &["SHOP"]);
    let mut sizes = 0;
    while !rig.sender.is_failing() {
        rig.question();
        rig.answer(Outcome::TooLong);
        sizes += 1;
    }
    assert!(sizes > 1 && QUESTION_BYTES >> sizes <= QUESTION_BYTES_MIN);
    rig.rest();
    // Changes do not wait for it.
    rig.scene.register(instance("SHOP", "new"));
    assert_eq!(rig.batch(), ["register new"]);
}

#[test]
fn what_an_answer_leaves_out_is_asked_next() {
    let mut rig = Rig::differing(10, &["OTHER", "SHOP", "ZOO"]);
    let (asked, _) = rig.question();
    assert_eq!(asked, ["OTHER", "SHOP", "ZOO"].map(Portion::whole));
    let found = Compared {
        newer_count: 4,
        told_upto: Some(("SHOP".into(), "00003".into())),
        ..Compared::default()
    };
    rig.answer(Outcome::Compared(found.into()));
    let (asked, _) = rig.question();
    let rest = Portion {
        app: "SHOP".into(),
        range: range(Some("00003"), None),
    };
    assert_eq!(asked, [rest, Portion::whole("ZOO")]);
    rig.found_nothing();
    assert!(matches!(rig.next(), Next::Wait(_)));
}

#[test]
fn where_an_answer_ends_is_believed_only_within_the_question() {
    for told_upto in [("SHOP", "00003"), ("SHOP", ""), ("A", "1"), ("ZOO", "1")] {
        let mut rig = Rig::differing(10, &["SHOP"]);
        let mut questions = 0;
        while let Next::Ask(ask) = rig.next() {
            assert!(matches!(ask, Ask::Compare(_)), "it asks {ask:?}");
            questions += 1;
            assert!(questions < 5, "{told_upto:?}");
            let found = Compared {
                told_upto: Some((told_upto.0.into(), told_upto.1.into())),
                ..Compared::default()
            };
            rig.answer(Outcome::Compared(found.into()));
        }
    }
}

#[test]
fn a_question_that_failed_does_not_hold_up_those_behind_it() {
    let mut rig = Rig::differing(100, &["SHOP", "ZOO"]);
    rig.sender.question_bytes = 5000;
    let (first, _) = rig.question();
    rig.answer(failed());
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(ours()));
    let (second, _) = rig.question();
    assert_eq!(second[0].range.after, first[0].range.upto);
}
