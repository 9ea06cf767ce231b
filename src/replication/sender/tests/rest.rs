//! Whatever a peer answers: after a failure there is a pause before the next request, and when all is
//! well and told, nothing is asked but what comes up from time to time.

use proptest::prelude::*;

use super::*;

/// More requests than there can be to make at one moment.
const AT_ONCE_MAX: usize = 100;

impl Rig {
    /// A request of this sender as a peer answers it that is well and lacks nothing.
    fn well(&self, ask: &Ask) -> Outcome {
        match ask {
            Ask::Probe => Outcome::Known(self.kind.clone()),
            Ask::Batch(items) => Outcome::Items(results(items.len(), 200)),
            Ask::Renewals(_) => Outcome::Unknown(Vec::new()),
            Ask::Digests => Outcome::Digests(Vec::new()),
            Ask::Born => Outcome::Born(None),
            Ask::Recent => Outcome::Recent(Vec::new()),
            Ask::Compare { .. } => Outcome::Compared(Box::default()),
        }
    }

    /// Answers well until there is nothing more to ask at this moment. How many requests that took.
    fn comes_to_rest(&mut self) -> usize {
        for asked in 0..AT_ONCE_MAX {
            match self.next() {
                Next::Wait(_) => return asked,
                Next::Ask(ask) => {
                    let outcome = self.well(&ask);
                    self.hear(outcome);
                }
            }
        }
        panic!("{AT_ONCE_MAX} requests without a pause");
    }

    /// The same for some time. How many requests that took.
    fn rests_for(&mut self, ms: u64) -> usize {
        let end = self.scene.now.mono.plus(ms);
        let mut asked = 0;
        while self.scene.now.mono < end {
            asked += self.comes_to_rest();
            let pause = self.pause().min(end.since(self.scene.now.mono));
            self.scene.pass(pause.max(1));
        }
        asked
    }
}

fn results(count: usize, status: u16) -> Vec<ItemResult> {
    let result = || ItemResult {
        status,
        entity: None,
    };
    std::iter::repeat_with(result).take(count).collect()
}

/// A peer that refuses the one instance that there is, but takes an empty batch.
fn suspicious(kind: Kind) -> Rig {
    let mut rig = Rig::with(kind.clone());
    rig.scene.register(instance("SHOP", "1"));
    assert_eq!(rig.batch(), ["register 1"]);
    rig.answer(Outcome::Refused(500));
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(kind));
    rig
}

#[test]
fn a_refused_instance_that_is_gone_is_forgotten() {
    for kind in [Kind::Java, ours()] {
        let mut rig = suspicious(kind);
        rig.scene.peer(&cancel("SHOP", "1"));
        assert!(rig.comes_to_rest() < 5);
        assert!(!rig.sender.is_failing());
    }
}

#[test]
fn what_was_refused_once_and_then_ended_otherwise_does_not_make_probes_run_without_a_pause() {
    for kind in [Kind::Java, ours()] {
        for outcome in [
            Outcome::WrongCount { sent: 1, got: 0 },
            Outcome::Failed(Failure::TimedOut),
        ] {
            let mut rig = suspicious(kind.clone());
            assert_eq!(rig.batch(), ["register 1"]);
            rig.answer(outcome);
            rig.scene.peer(&cancel("SHOP", "1"));
            rig.rest();
            rig.comes_to_rest();
            // Much later, a request fails that has nothing to do with it.
            rig.scene.pass(86_400_000);
            let asked = rig.ask();
            assert!(matches!(asked, Ask::Digests | Ask::Probe));
            rig.answer(failed());
            rig.rest();
            assert!(rig.comes_to_rest() < 5);
            assert!(!rig.sender.is_failing());
        }
    }
}

#[test]
fn a_digest_of_renewals_that_is_refused_is_told_as_items() {
    let mut rig = Rig::with(ours());
    for id in ["1", "2"] {
        rig.scene.register(instance("SHOP", id));
    }
    rig.settle();
    rig.scene.pass(1);
    rig.renew("1");
    rig.renew("2");
    rig.scene.pass(1000);
    assert!(matches!(rig.ask(), Ask::Renewals(items) if items.len() == 2));
    rig.answer(Outcome::Refused(413));
    rig.rest();
    assert_eq!(rig.batch(), ["beat 1", "beat 2"]);
    rig.took(2);
    rig.comes_to_rest();
    rig.scene.pass(1000);
    assert_eq!(rig.comes_to_rest(), 0);
}

#[test]
fn what_was_to_be_compared_is_not_asked_of_another_node() {
    let mut rig = Rig::with(ours());
    rig.settle();
    rig.scene.pass(5000);
    assert!(matches!(rig.ask(), Ask::Digests));
    rig.answer(Outcome::Digests(vec!["SHOP".into()]));
    rig.scene.register(instance("SHOP", "1"));
    assert_eq!(rig.batch(), ["register 1"]);
    for kind in [Kind::Java, ours()] {
        rig.kind = kind.clone();
        rig.answer(Outcome::Failed(Failure::Connect("refused".into())));
        rig.rest();
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(Outcome::Known(kind.clone()));
        assert_eq!(rig.batch(), ["register 1"]);
    }
    rig.took(1);
    assert!(matches!(rig.ask(), Ask::Digests));
}

#[derive(Clone, Debug)]
enum Step {
    Register(u8, u8),
    Cancel(u8),
    PeerCancels(u8),
    Renew(u8),
    Override(u8),
    Pass(u16),
    /// The log is trimmed.
    Trim,
    /// Another node stands at the peer's place from now on.
    Replace(u8),
    /// The next request is answered well, or in one of the ways in which it is not.
    Answer(u8, u8),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6_u8, 0..3_u8).prop_map(|(id, dirty)| Step::Register(id, dirty)),
        1 => (0..6_u8).prop_map(Step::Cancel),
        1 => (0..6_u8).prop_map(Step::PeerCancels),
        2 => (0..6_u8).prop_map(Step::Renew),
        1 => (0..6_u8).prop_map(Step::Override),
        4 => (0..3000_u16).prop_map(Step::Pass),
        1 => Just(Step::Trim),
        1 => (0..3_u8).prop_map(Step::Replace),
        20 => (0..12_u8, any::<u8>()).prop_map(|(way, random)| Step::Answer(way, random)),
    ]
}

impl Rig {
    /// An answer, and whether it counts as a failure.
    fn in_some_way(&self, ask: &Ask, way: u8) -> (Outcome, bool) {
        let outcome = match (way, ask) {
            (0, _) => Outcome::Failed(Failure::TimedOut),
            (1, _) => Outcome::Failed(Failure::Connect("refused".into())),
            (2, _) => Outcome::Failed(Failure::Broken("reset".into())),
            (3, _) => Outcome::Failed(Failure::Status(503)),
            (4 | 5, Ask::Batch(_) | Ask::Renewals(_)) => Outcome::Refused(500),
            (6, Ask::Batch(items)) => Outcome::WrongCount {
                sent: items.len(),
                got: items.len() + 1,
            },
            (7, Ask::Batch(items)) => {
                return (Outcome::Items(results(items.len(), 404)), false);
            }
            (7, Ask::Renewals(items)) => {
                return (Outcome::Unknown((0..items.len()).collect()), false);
            }
            (7, Ask::Digests) => return (Outcome::Digests(vec!["SHOP".into()]), false),
            (8, Ask::Compare { .. }) => return (Outcome::TooLong, false),
            (7 | 9, Ask::Compare { .. }) => {
                let key = ("SHOP".to_owned(), "1".to_owned());
                let found = Compared {
                    told_upto: (way == 9).then(|| key.clone()),
                    wanted: vec![key],
                    ..Compared::default()
                };
                return (Outcome::Compared(found.into()), false);
            }
            _ => return (self.well(ask), false),
        };
        (outcome, true)
    }

    fn play(&mut self, step: &Step) {
        match *step {
            Step::Register(id, dirty) => self.scene.register(version(
                100 + i64::from(dirty),
                instance("SHOP", &id.to_string()),
            )),
            Step::Cancel(id) => {
                self.scene.client(&cancel("SHOP", &id.to_string()));
            }
            Step::PeerCancels(id) => {
                self.scene.peer(&cancel("SHOP", &id.to_string()));
            }
            Step::Renew(id) => {
                if let Some(lease) = self.scene.registry.lease("SHOP", &id.to_string()) {
                    lease.clock.set_renewed_by_client(self.scene.now.mono);
                }
            }
            Step::Override(id) => {
                let command = set("SHOP", &id.to_string(), Status::OutOfService, None);
                self.scene.client(&command);
            }
            Step::Pass(ms) => self.scene.pass(u64::from(ms)),
            Step::Trim => self.first = self.scene.registry.lsn().next(),
            Step::Replace(kind) => {
                self.kind = match kind {
                    0 => Kind::Java,
                    1 => ours(),
                    _ => Kind::Ours {
                        node_id: "third".into(),
                    },
                };
            }
            Step::Answer(way, random) => {
                if let Next::Ask(ask) = self.next() {
                    let (outcome, is_failure) = self.in_some_way(&ask, way);
                    let from = (!is_failure || way > 3).then(|| self.kind.clone());
                    let outcome = self.sender.recognise(outcome, from);
                    let is_failure = matches!(
                        outcome,
                        Outcome::Failed(_) | Outcome::Refused(_) | Outcome::WrongCount { .. }
                    );
                    let now = self.scene.now.mono;
                    self.sender.answered(outcome, now, u64::from(random));
                    if is_failure {
                        assert!(self.pause() >= 1000, "{ask:?}");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_whatever_happened_the_sender_comes_to_rest(
        is_java in any::<bool>(),
        steps in prop::collection::vec(steps(), 1..80),
    ) {
        let mut rig = Rig::with(if is_java { Kind::Java } else { ours() });
        for step in steps {
            rig.play(&step);
        }
        if let Next::Wait(_) = rig.next() {
            let pause = rig.pause();
            rig.scene.pass(pause.min(5000));
        } else {
            rig.answer(failed());
            rig.rest();
        }
        rig.rests_for(30_000);
        prop_assert!(!rig.sender.is_failing());
        prop_assert_eq!(rig.sender.kind(), &rig.kind);
        prop_assert_eq!(rig.sender.remembered(), 0);
        prop_assert_eq!(rig.sender.cursor(), Some(rig.scene.registry.lsn()));
        let asked = rig.rests_for(20_000);
        prop_assert!(asked <= 11, "{} requests in 20 s", asked);
    }
}
