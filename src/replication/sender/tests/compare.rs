//! Comparisons of applications that are too large for one question or one answer.

use super::*;
use crate::replication::inbound::{ANSWER_BYTES, ANSWER_BYTES_MIN};
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
        let Ask::Compare { asked, .. } = self.ask() else {
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
fn a_question_that_was_too_long_once_is_not_kept_short_for_ever() {
    let mut rig = Rig::differing(2000, &["SHOP"]);
    let length = |rig: &Rig| rig.sender.pace.question_bytes();
    for _ in 0..3 {
        rig.question();
        rig.answer(Outcome::TooLong);
    }
    let short = length(&rig);
    assert_eq!(short, QUESTION_BYTES / 8);
    for (ms, expected) in [(1000, short), (30_000, 2 * short), (1, 4 * short)] {
        rig.scene.pass(ms);
        loop {
            match rig.next() {
                Next::Ask(Ask::Compare { .. }) => break,
                Next::Ask(Ask::Digests) => {
                    rig.answer(Outcome::Digests(vec!["SHOP".into()]));
                }
                Next::Ask(_) => {
                    rig.answer(Outcome::Known(ours()));
                }
                Next::Wait(_) => {
                    rig.rest();
                }
            }
        }
        rig.answer(Outcome::Compared(Compared::default().into()));
        assert_eq!(length(&rig), expected, "after {ms} ms");
    }
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
            assert!(matches!(ask, Ask::Compare { .. }), "it asks {ask:?}");
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
fn a_question_that_failed_is_asked_in_smaller_pieces_and_then_those_behind_it() {
    let mut rig = Rig::differing(100, &["SHOP", "ZOO"]);
    let first = loop {
        let (asked, bytes) = rig.question();
        if bytes <= 5000 {
            break asked;
        }
        rig.answer(Outcome::TooLong);
    };
    rig.answer(failed());
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(ours()));
    let (mut asked_upto, mut pieces) = (None, 0);
    while asked_upto != first[0].range.upto {
        let (asked, _) = rig.question();
        assert_eq!(asked[0].range.after, asked_upto, "nothing is left out");
        asked_upto = asked[0].range.upto.clone();
        pieces += 1;
        rig.found_nothing();
    }
    assert_eq!(pieces, 2);
}

impl Rig {
    /// A link that needs `pace` ms for each KiB of what is asked for, with a peer that is given 5 s: how
    /// many bytes of instances the answers were to have, those that came first.
    fn over_a_link(&mut self, pace: u64, questions: usize) -> (Vec<usize>, usize) {
        let (mut came, mut failures) = (Vec::new(), 0);
        while came.len() < questions {
            match self.next() {
                Next::Wait(_) => {
                    self.rest();
                }
                Next::Ask(Ask::Compare { answer_bytes, .. }) => {
                    let took = pace * (answer_bytes as u64 >> 10);
                    self.scene.pass(took.min(5000));
                    if took > 5000 {
                        failures += 1;
                        self.answer(Outcome::Failed(Failure::TimedOut));
                    } else {
                        came.push(answer_bytes);
                        let found = Compared {
                            told_upto: Some(("SHOP".into(), format!("{:05}", came.len()))),
                            newer_count: 1,
                            ..Compared::default()
                        };
                        self.answer(Outcome::Compared(found.into()));
                    }
                }
                Next::Ask(Ask::Digests) => {
                    self.answer(Outcome::Digests(vec!["SHOP".into()]));
                }
                Next::Ask(_) => {
                    self.answer(Outcome::Known(ours()));
                }
            }
        }
        (came, failures)
    }
}

#[test]
fn an_answer_that_does_not_come_in_time_is_asked_for_in_smaller_pieces_that_go_on_from_each_other()
{
    // 4 MiB in 80 s.
    let mut rig = Rig::differing(100, &["SHOP"]);
    let (came, failures) = rig.over_a_link(20, 50);
    assert_eq!(came, [ANSWER_BYTES / 32; 50]);
    assert_eq!(failures, 5, "none but to find out what the link carries");
    let Ask::Compare { asked, .. } = rig.ask() else {
        panic!("it goes on");
    };
    assert_eq!(asked[0].range.after.as_deref(), Some("00050"));
}

#[test]
fn what_was_asked_for_in_small_pieces_is_asked_for_in_large_ones_when_these_are_quick() {
    let mut rig = Rig::differing(100, &["SHOP"]);
    rig.over_a_link(20, 1);
    let (came, failures) = rig.over_a_link(0, 20);
    assert_eq!((came[19], failures), (ANSWER_BYTES, 0));
}

#[test]
fn the_latency_of_a_link_is_no_reason_for_small_pieces() {
    let mut rig = Rig::differing(100, &["SHOP"]);
    for _ in 0..5 {
        rig.question();
        rig.answer(Outcome::Failed(Failure::TimedOut));
        rig.rest();
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.scene.pass(3000);
        rig.answer(Outcome::Known(ours()));
    }
    let mut bytes = Vec::new();
    for _ in 0..6 {
        let Ask::Compare { answer_bytes, .. } = rig.ask() else {
            panic!("it does not compare");
        };
        bytes.push(answer_bytes);
        rig.scene.pass(3100);
        let found = Compared {
            told_upto: Some(("SHOP".into(), format!("{:05}", bytes.len()))),
            ..Compared::default()
        };
        rig.answer(Outcome::Compared(found.into()));
    }
    assert_eq!(bytes.first(), Some(&(ANSWER_BYTES / 32)));
    assert_eq!(bytes.last(), Some(&ANSWER_BYTES));
}

#[test]
fn what_never_comes_in_time_lets_everything_else_go_first() {
    let mut rig = Rig::differing(3, &["OTHER", "SHOP"]);
    let mut pieces = BTreeSet::new();
    while !rig.sender.differing.is_empty() {
        match rig.next() {
            Next::Ask(Ask::Compare { answer_bytes, .. }) => {
                pieces.insert(answer_bytes);
                rig.answer(Outcome::Failed(Failure::TimedOut));
            }
            Next::Ask(_) => {
                rig.answer(Outcome::Known(ours()));
            }
            Next::Wait(_) => {
                rig.rest();
            }
        }
        if pieces.len() > 20 {
            break;
        }
    }
    assert_eq!(pieces.first(), Some(&ANSWER_BYTES_MIN));
    assert_eq!(rig.sender.compared(), Some("SHOP"));
}

#[test]
fn batches_and_digests_that_do_not_get_through_become_smaller_and_larger_again() {
    let mut rig = Rig::with(ours());
    for id in 0..1000 {
        rig.scene.register(instance("SHOP", &format!("{id:05}")));
    }
    let mut sizes = Vec::new();
    while sizes.len() < 8 {
        match rig.next() {
            Next::Ask(Ask::Batch(items)) => {
                let is_known = sizes.len() >= 5;
                sizes.push(items.len());
                // Forty milliseconds for each, later none.
                let took = if is_known { 0 } else { 40 * items.len() as u64 };
                rig.scene.pass(took.min(5000));
                if took > 5000 {
                    rig.answer(Outcome::Failed(Failure::TimedOut));
                } else {
                    rig.took(items.len());
                }
            }
            Next::Ask(_) => {
                rig.answer(Outcome::Known(ours()));
            }
            Next::Wait(_) => {
                rig.rest();
            }
        }
    }
    assert_eq!(sizes[..5], [250, 125, 125, 125, 125]);
    assert_eq!(sizes[6], 250);
    rig.settle();
    rig.scene.pass(1);
    for id in 0..1000 {
        rig.renew(&format!("{id:05}"));
    }
    rig.scene.pass(1000);
    let mut sizes = Vec::new();
    for _ in 0..6 {
        while !matches!(rig.sender.flight, Some(Flight::Renewals { .. })) {
            match rig.next() {
                Next::Ask(Ask::Renewals(items)) => sizes.push(items.len()),
                Next::Ask(Ask::Digests) => {
                    rig.answer(Outcome::Digests(Vec::new()));
                }
                Next::Ask(_) => {
                    rig.answer(Outcome::Known(ours()));
                }
                Next::Wait(_) => {
                    rig.rest();
                }
            }
        }
        rig.answer(Outcome::Failed(Failure::TimedOut));
    }
    assert_eq!(sizes, [1000, 1000, 1000, 1000, 1000, 625]);
}

#[test]
fn batches_that_are_small_and_late_are_no_smaller_than_the_latency_of_the_link_makes_them() {
    let mut rig = Rig::with(Kind::Java);
    for id in 0..2000 {
        rig.scene.register(instance("SHOP", &format!("{id:05}")));
    }
    // The peer died with a batch in its hands, more than once, and takes three seconds for everything now.
    for _ in 0..5 {
        assert!(!rig.batch().is_empty());
        rig.answer(Outcome::Failed(Failure::Broken("reset".into())));
        rig.rest();
    }
    let (mut sizes, mut probes) = (Vec::new(), 0);
    while sizes.len() < 10 {
        let ask = rig.ask();
        rig.scene.pass(3000);
        match ask {
            Ask::Batch(items) => {
                // It is swept too.
                if matches!(items[0], Item::Register { .. }) {
                    sizes.push(items.len());
                }
                rig.took(items.len());
            }
            Ask::Probe => {
                probes += 1;
                rig.answer(Outcome::Known(Kind::Java));
            }
            other => panic!("it asks {other:?}"),
        }
    }
    assert_eq!(sizes[0], 7);
    assert_eq!(sizes[9], 250, "{sizes:?}");
    assert_eq!(probes, 1);
}

#[test]
fn a_link_that_carries_no_more_is_measured_now_and_then_and_not_all_the_time() {
    let mut rig = Rig::with(Kind::Java);
    for id in 0..2000 {
        rig.scene.register(instance("SHOP", &format!("{id:05}")));
    }
    let (mut batches, mut probes) = (0, 0);
    while batches < 40 {
        match rig.next() {
            Next::Ask(Ask::Batch(items)) => {
                // Fifty milliseconds an item, and five seconds at most.
                let took = 50 * items.len() as u64;
                rig.scene.pass(took.min(5000));
                if took > 5000 {
                    rig.answer(Outcome::Failed(Failure::TimedOut));
                } else {
                    batches += 1;
                    assert!(items.len() <= 62, "no more than has once been too much");
                    rig.took(items.len());
                }
            }
            Next::Ask(Ask::Probe) => {
                probes += 1;
                rig.answer(Outcome::Known(Kind::Java));
            }
            Next::Ask(other) => panic!("it asks {other:?}"),
            Next::Wait(_) => {
                rig.rest();
            }
        }
        if rig.sender.remembered() == 0 {
            break;
        }
    }
    assert!((1..=15).contains(&probes), "{probes} of {batches}");
}
