//! The sender by itself, peer and clock in the hand of the test.

mod compare;
mod java;
mod kinds;
mod late;
mod renewals;
mod rest;
mod restarts;
mod turns;

use std::sync::Arc;

use super::*;
use crate::registry::change::Record;
use crate::registry::command::{Command, Renewal};
use crate::registry::rules::Rules;
use crate::registry::status::Status;
use crate::registry::tests::{Scene, cancel, instance, set, version};
use crate::replication::inbound::Compared;
use crate::replication::outbound::Item;
use crate::types::{AppName, InstanceId};

fn ours() -> Kind {
    Kind::Ours {
        node_id: "other".into(),
    }
}

/// A node with one peer.
struct Rig {
    scene: Scene,
    sender: Sender,
    kind: Kind,
    /// The log that is left.
    first: Lsn,
    /// A Java peer that is asked when it began says that it does not know.
    is_ageless: bool,
}

struct Log<'a>(&'a [Arc<Record>], Lsn);

impl Records for Log<'_> {
    fn since(&mut self, first: Lsn) -> Option<Vec<Arc<Record>>> {
        if first < self.1 {
            return None;
        }
        let rest = self.0.iter().filter(|record| record.lsn >= first);
        Some(rest.take(RECORDS_AT_ONCE).cloned().collect())
    }
}

impl Rig {
    /// A peer of this kind that has not been asked anything, and its sender, which goes on at `place`.
    fn unmet(scene: Scene, place: Place, recovered: Lsn, kind: Kind) -> Self {
        let mut sender = Sender::new(place, recovered, scene.now.mono);
        sender.java.is_never_read();
        Self {
            scene,
            sender,
            kind,
            first: Lsn(1),
            is_ageless: true,
        }
    }

    /// A peer that has everything so far, and has said what it is.
    fn with(kind: Kind) -> Self {
        let scene = Scene::new(&Rules::default());
        let place = Place::Cursor(Lsn::ZERO);
        let mut rig = Self::unmet(scene, place, Lsn::ZERO, kind.clone());
        assert!(matches!(rig.ask(), Ask::Probe));
        rig.answer(Outcome::Known(kind));
        rig
    }

    /// A Java peer that has so many leases, for a second.
    fn with_leases(count: usize) -> Self {
        let mut rig = Self::with(Kind::Java);
        for id in 0..count {
            rig.scene.register(instance("SHOP", &format!("{id:04}")));
        }
        rig.settle();
        rig.scene.pass(1000);
        rig
    }

    fn next(&mut self) -> Next {
        let state = self.scene.published();
        loop {
            let mut log = Log(&self.scene.log, self.first);
            let next = self.sender.next(self.scene.now.mono, &state, &mut log);
            if !self.is_ageless || !matches!(next, Next::Ask(Ask::Born)) {
                return next;
            }
            self.hear(Outcome::Born(None));
        }
    }

    /// What it asks now.
    fn ask(&mut self) -> Ask {
        match self.next() {
            Next::Ask(ask) => ask,
            Next::Wait(until) => panic!("it waits until {until:?}"),
        }
    }

    /// The items of the batch that it sends now, as words.
    fn batch(&mut self) -> Vec<String> {
        match self.ask() {
            Ask::Batch(items) => items.iter().map(word).collect(),
            other => panic!("it asks {other:?}"),
        }
    }

    /// An answer of the kind of node that was asked.
    fn answer(&mut self, outcome: Outcome) -> Vec<Effect> {
        self.sender.answered(outcome, self.scene.now.mono, 0)
    }

    /// So many items have been taken.
    fn took(&mut self, count: usize) -> Vec<Effect> {
        self.statuses(&vec![200; count])
    }

    fn statuses(&mut self, statuses: &[u16]) -> Vec<Effect> {
        let results = statuses.iter().map(|status| ItemResult {
            status: *status,
            entity: None,
        });
        let results = results.collect();
        self.answer(Outcome::Items(results))
    }

    /// How long it waits after what it was just answered, ms.
    fn pause(&mut self) -> u64 {
        match self.next() {
            Next::Wait(until) => until.since(self.scene.now.mono),
            Next::Ask(ask) => panic!("it asks {ask:?} at once"),
        }
    }

    /// Lets the pause pass.
    fn rest(&mut self) -> u64 {
        let pause = self.pause();
        self.scene.pass(pause);
        pause
    }

    /// Until it has nothing to say, all answered well.
    fn settle(&mut self) {
        loop {
            match self.next() {
                Next::Wait(_) => return,
                Next::Ask(Ask::Probe) => {
                    self.answer(Outcome::Known(self.kind.clone()));
                }
                Next::Ask(Ask::Batch(items)) => {
                    self.took(items.len());
                }
                Next::Ask(Ask::Renewals(_)) => {
                    self.answer(Outcome::Unknown(Vec::new()));
                }
                Next::Ask(Ask::Digests) => {
                    self.answer(Outcome::Digests(Vec::new()));
                }
                Next::Ask(ask @ (Ask::Born | Ask::Recent)) => panic!("it asks {ask:?}"),
                Next::Ask(Ask::Compare { .. }) => {
                    self.answer(Outcome::Compared(Box::default()));
                }
            }
        }
    }

    fn renew(&mut self, id: &str) {
        let command = Command::Renew {
            app: AppName::new("SHOP"),
            id: InstanceId::new(id),
            renewal: Renewal::default(),
        };
        self.scene.client(&command);
        let lease = self.scene.registry.lease("SHOP", id).expect("it is there");
        lease.clock.set_renewed_by_client(self.scene.now.mono);
    }
}

fn word(item: &Item) -> String {
    let id = item.id();
    match item {
        Item::Register { .. } => format!("register {id}"),
        Item::Heartbeat { .. } => format!("beat {id}"),
        Item::Cancel { .. } => format!("cancel {id}"),
        Item::SetStatus { status, .. } => format!("set {id} {status}"),
        Item::DeleteOverride(_) => format!("lift {id}"),
    }
}

fn failed() -> Outcome {
    Outcome::Failed(Failure::TimedOut)
}

#[test]
fn a_change_goes_out_at_once_and_moves_the_cursor_when_it_is_answered() {
    for kind in [Kind::Java, ours()] {
        let mut rig = Rig::with(kind);
        rig.scene.register(instance("SHOP", "1"));
        assert_eq!(rig.batch(), ["register 1"]);
        assert_eq!(rig.sender.cursor(), Some(Lsn::ZERO));
        // One request at a time.
        assert!(matches!(rig.next(), Next::Wait(Millis(u64::MAX))));
        rig.took(1);
        assert_eq!(rig.sender.place(), Place::Cursor(Lsn(1)));
    }
}

#[test]
fn pauses_grow_to_a_second_and_a_half_and_never_are_shorter_than_one() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    let mut pauses = Vec::new();
    for _ in 0..5 {
        assert_eq!(rig.batch(), ["register 1"]);
        rig.answer(failed());
        pauses.push(rig.rest());
    }
    assert_eq!(pauses, [1000, 1500, 1500, 1500, 1500]);
    let spread = |random| {
        let mut rig = Rig::with(Kind::Java);
        rig.scene.register(instance("SHOP", "1"));
        rig.batch();
        rig.sender.answered(failed(), rig.scene.now.mono, random);
        rig.pause()
    };
    let pauses: Vec<u64> = (0..2000).map(spread).collect();
    assert!(pauses.iter().all(|pause| (1000..=1500).contains(pause)));
    assert!(pauses.iter().any(|pause| *pause > 1400));
}

#[test]
fn who_does_not_answer_any_more_is_asked_what_it_is_and_that_ends_the_pauses() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    rig.batch();
    for _ in 0..3 {
        rig.answer(Outcome::Failed(Failure::Connect("refused".into())));
        rig.rest();
        assert!(matches!(rig.ask(), Ask::Probe));
    }
    rig.answer(Outcome::Known(ours()));
    assert!(!rig.sender.is_failing());
    assert_eq!(rig.batch(), ["register 1"]);
    rig.answer(failed());
    assert_eq!(rig.pause(), 1000, "it begins anew");
}

#[test]
fn another_kind_of_node_at_the_same_place_is_told_in_its_own_way() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    rig.scene.client(&cancel("SHOP", "1"));
    rig.scene.register(version(200, instance("SHOP", "1")));
    // A whole state says for itself that it is newer than the cancel, and what became of the override.
    assert_eq!(rig.batch(), ["register 1", "lift 1"]);
    rig.answer(Outcome::Failed(Failure::Connect("refused".into())));
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.kind = Kind::Java;
    rig.answer(Outcome::Known(Kind::Java));
    assert_eq!(rig.batch(), ["beat 1"], "it is late");
    rig.statuses(&[404]);
    assert_eq!(rig.batch(), ["beat 1"], "it is swept too");
    rig.took(1);
    assert_eq!(rig.batch(), ["cancel 1", "register 1"]);
}

#[test]
fn what_happens_while_a_peer_is_away_is_told_once_when_it_is_back() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    rig.batch();
    rig.answer(failed());
    for dirty in 0..50 {
        rig.scene
            .register(version(200 + dirty, instance("SHOP", "1")));
        rig.scene
            .register(version(200 + dirty, instance("SHOP", "2")));
    }
    rig.scene
        .client(&set("SHOP", "2", Status::OutOfService, None));
    rig.rest();
    assert_eq!(
        rig.batch(),
        ["register 1", "register 2", "set 2 OUT_OF_SERVICE"]
    );
    rig.took(3);
    assert_eq!(rig.sender.cursor(), Some(rig.scene.registry.lsn()));
    assert!(matches!(rig.next(), Next::Wait(_)));
}

#[test]
fn one_bad_instance_does_not_hold_up_the_others() {
    let mut rig = Rig::with(Kind::Java);
    for id in 0..100 {
        rig.scene.register(instance("SHOP", &id.to_string()));
    }
    let (mut told, mut given_up, mut probes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..200 {
        match rig.next() {
            Next::Wait(_) if rig.sender.cursor() == Some(Lsn(100)) => break,
            Next::Wait(_) => {
                rig.rest();
            }
            Next::Ask(Ask::Probe) => {
                probes += 1;
                rig.answer(Outcome::Known(Kind::Java));
            }
            Next::Ask(Ask::Batch(items)) => {
                let ids: Vec<String> = items.iter().map(|item| item.id().to_string()).collect();
                let effects = if ids.iter().any(|id| id == "77") {
                    rig.answer(Outcome::Refused(500))
                } else {
                    told.extend(ids.clone());
                    rig.took(ids.len())
                };
                given_up.extend(effects.into_iter().filter_map(|effect| match effect {
                    Effect::GaveUp { id, status, .. } => Some((id.to_string(), status)),
                    _ => None,
                }));
            }
            Next::Ask(other) => panic!("it asks {other:?}"),
        }
    }
    assert_eq!(given_up, [("77".to_owned(), 500)]);
    assert!(probes > 0, "whether the peer is ill was asked");
    assert_eq!(rig.sender.cursor(), Some(Lsn(100)));
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 99);
}

#[test]
fn a_bad_instance_is_found_while_renewals_go_on_and_while_two_sorts_of_batches_are_refused() {
    for refuses_beats in [false, true] {
        let mut rig = Rig::with(Kind::Java);
        let beating: Vec<String> = (0..100).map(|id| format!("beating-{id}")).collect();
        for id in &beating {
            rig.scene.register(instance("SHOP", id));
        }
        rig.settle();
        for id in 0..100 {
            rig.scene.register(instance("SHOP", &id.to_string()));
        }
        let end = Some(rig.scene.registry.lsn());
        let is_bad = |item: &Item| match item {
            Item::Heartbeat { .. } => refuses_beats && item.id().as_str() == "beating-50",
            _ => item.id().as_str() == "50",
        };
        let mut given_up = Vec::new();
        for _ in 0..300 {
            for id in &beating {
                let lease = rig.scene.registry.lease("SHOP", id).expect("it is there");
                lease.clock.set_renewed_by_client(rig.scene.now.mono);
            }
            let outcome = match rig.next() {
                Next::Wait(_) => {
                    rig.rest();
                    continue;
                }
                Next::Ask(Ask::Probe) => Outcome::Known(Kind::Java),
                Next::Ask(Ask::Batch(items)) if items.iter().any(is_bad) => Outcome::Refused(500),
                Next::Ask(Ask::Batch(items)) => {
                    rig.took(items.len());
                    continue;
                }
                Next::Ask(other) => panic!("it asks {other:?}"),
            };
            let effects = rig.answer(outcome);
            given_up.extend(effects.into_iter().filter_map(|effect| match effect {
                Effect::GaveUp { id, .. } => Some(id.to_string()),
                _ => None,
            }));
        }
        assert_eq!(rig.sender.cursor(), end);
        assert!(given_up.contains(&"50".to_owned()), "{given_up:?}");
        let has_beat = given_up.contains(&"beating-50".to_owned());
        assert_eq!(has_beat, refuses_beats);
    }
}

#[test]
fn a_peer_that_refuses_even_an_empty_batch_loses_nothing() {
    for status in [500, 400, 413] {
        let mut rig = Rig::with(Kind::Java);
        rig.scene.register(instance("SHOP", "1"));
        rig.scene.register(instance("SHOP", "2"));
        let mut seen = Vec::new();
        for _ in 0..30 {
            let outcome = match rig.next() {
                Next::Wait(_) => {
                    rig.rest();
                    continue;
                }
                Next::Ask(Ask::Probe) => Outcome::Failed(Failure::Status(status)),
                Next::Ask(_) => Outcome::Refused(status),
            };
            seen.extend(rig.answer(outcome));
        }
        assert!(seen.is_empty(), "{seen:?}");
        assert_eq!(rig.sender.cursor(), Some(Lsn::ZERO));
        // It is well again.
        for _ in 0..10 {
            rig.scene.pass(2000);
            rig.settle();
        }
        assert_eq!(rig.sender.cursor(), Some(Lsn(2)));
        assert_eq!(rig.sender.remembered(), 0);
    }
}

#[test]
fn an_answer_of_the_wrong_length_is_no_answer_three_times_and_then_success() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    for _ in 0..3 {
        assert_eq!(rig.batch(), ["register 1"]);
        let effects = rig.answer(Outcome::WrongCount { sent: 1, got: 0 });
        assert!(effects.is_empty());
        assert!(rig.rest() >= 1000);
    }
    assert_eq!(rig.batch(), ["register 1"]);
    rig.answer(Outcome::WrongCount { sent: 1, got: 0 });
    assert_eq!(rig.sender.cursor(), Some(Lsn(1)));
}

#[test]
fn who_lacks_what_a_heartbeat_is_about_gets_all_of_it() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    rig.scene
        .client(&set("SHOP", "1", Status::OutOfService, None));
    rig.settle();
    rig.scene.pass(5000);
    rig.renew("1");
    assert_eq!(rig.batch(), ["beat 1"]);
    rig.statuses(&[404]);
    assert_eq!(rig.batch(), ["register 1", "set 1 OUT_OF_SERVICE"]);
    // If it does not take that either, it is not told for ever.
    rig.statuses(&[404, 404]);
    assert!(matches!(rig.next(), Next::Wait(_)));
}

#[test]
fn an_owed_instance_is_owed_until_it_arrives_and_forgotten_when_it_is_gone() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    rig.scene.register(instance("SHOP", "2"));
    rig.settle();
    rig.scene.pass(1);
    rig.renew("1");
    rig.renew("2");
    rig.scene.pass(1000);
    assert!(matches!(rig.ask(), Ask::Renewals(items) if items.len() == 2));
    rig.answer(Outcome::Unknown(vec![0, 1, 99]));
    assert_eq!(rig.batch(), ["beat 1", "beat 2"]);
    rig.statuses(&[404, 404]);
    assert_eq!(rig.batch(), ["register 1", "register 2"]);
    rig.answer(failed());
    rig.scene.client(&cancel("SHOP", "2"));
    rig.rest();
    assert_eq!(rig.batch(), ["cancel 2"]);
    rig.took(1);
    assert_eq!(rig.batch(), ["register 1"]);
}

#[test]
fn renewals_are_told_once_a_second_however_many_there_are() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    let mut requests = 0;
    let start = rig.scene.now.mono;
    while rig.scene.now.mono.since(start) < 10_000 {
        rig.renew("1");
        if let Next::Ask(Ask::Batch(items)) = rig.next() {
            assert_eq!(items.len(), 1);
            requests += 1;
            rig.took(1);
        }
        rig.scene.pass(10);
    }
    assert!((9..=10).contains(&requests), "{requests}");
}

#[test]
fn a_log_that_does_not_reach_back_means_all_of_it_to_java_and_a_comparison_to_our_own_kind() {
    for kind in [Kind::Java, ours()] {
        let mut rig = Rig::with(kind.clone());
        for id in 0..300 {
            rig.scene.register(instance("SHOP", &id.to_string()));
        }
        rig.first = Lsn(290);
        if kind == Kind::Java {
            let first = rig.batch();
            assert!(first.iter().all(|word| word.starts_with("beat")));
            rig.took(first.len());
            let second = rig.batch();
            rig.took(second.len());
            assert_eq!(first.len() + second.len(), 300);
        } else {
            assert!(matches!(rig.ask(), Ask::Digests));
            rig.answer(Outcome::Digests(vec!["SHOP".into()]));
            assert!(
                matches!(rig.ask(), Ask::Compare { asked, .. } if asked == [Portion::whole("SHOP")])
            );
        }
        assert_eq!(rig.sender.cursor(), Some(Lsn(300)));
    }
}

#[test]
fn registries_are_compared_every_two_seconds_and_at_once_after_a_failure() {
    let mut rig = Rig::with(ours());
    rig.settle();
    let mut compared = 0;
    for _ in 0..100 {
        rig.scene.pass(100);
        if let Next::Ask(Ask::Digests) = rig.next() {
            compared += 1;
            rig.answer(Outcome::Digests(Vec::new()));
        }
    }
    assert_eq!(compared, 5);
    while !matches!(rig.next(), Next::Ask(Ask::Digests)) {
        rig.scene.pass(100);
    }
    rig.answer(failed());
    rig.rest();
    assert!(matches!(rig.ask(), Ask::Probe));
    rig.answer(Outcome::Known(ours()));
    assert!(matches!(rig.ask(), Ask::Digests));
}

#[test]
fn a_node_on_which_changes_never_end_is_compared_all_the_same() {
    let mut rig = Rig::with(ours());
    rig.settle();
    let mut compared = 0;
    for dirty in 0..1000 {
        rig.scene
            .register(version(1000 + dirty, instance("SHOP", "1")));
        match rig.ask() {
            Ask::Batch(items) => {
                rig.took(items.len());
            }
            Ask::Digests => {
                compared += 1;
                rig.answer(Outcome::Digests(Vec::new()));
            }
            Ask::Renewals(_) => {
                rig.answer(Outcome::Unknown(Vec::new()));
            }
            other => panic!("it asks {other:?}"),
        }
        rig.scene.pass(10);
    }
    assert!((2..=4).contains(&compared), "{compared}");
}

#[test]
fn java_peers_are_never_asked_what_only_our_own_kind_understands() {
    let mut rig = Rig::with(Kind::Java);
    rig.scene.register(instance("SHOP", "1"));
    for _ in 0..100 {
        rig.renew("1");
        match rig.next() {
            Next::Wait(_) => {}
            Next::Ask(Ask::Batch(items)) => {
                rig.took(items.len());
            }
            Next::Ask(other) => panic!("it asks {other:?}"),
        }
        rig.scene.pass(500);
    }
}

impl Rig {
    /// Digests that were asked for differ, and the peer wants SHOP/1.
    fn finds_wanted(&mut self) -> Vec<Effect> {
        self.answer(Outcome::Digests(vec!["SHOP".into()]));
        assert!(matches!(self.ask(), Ask::Compare { .. }));
        let found = Compared {
            wanted: vec![("SHOP".into(), "1".into())],
            ..Compared::default()
        };
        self.answer(Outcome::Compared(found.into()))
    }
}

#[test]
fn what_a_comparison_wants_is_sent_whole_and_the_next_one_comes_soon() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    rig.scene.pass(10);
    rig.scene
        .client(&set("SHOP", "1", Status::OutOfService, None));
    rig.settle();
    rig.scene.pass(5000);
    while !matches!(rig.ask(), Ask::Digests) {
        rig.answer(Outcome::Unknown(Vec::new()));
    }
    let effects = rig.finds_wanted();
    assert!(matches!(effects[..], [Effect::Repair { differed: 1, .. }]));
    assert_eq!(rig.batch(), ["register 1", "set 1 OUT_OF_SERVICE"]);
    rig.took(2);
    rig.scene.pass(500);
    assert!(matches!(rig.ask(), Ask::Digests));
}

#[test]
fn what_no_repair_helps_against_is_compared_less_often() {
    let mut rig = Rig::with(ours());
    rig.scene.register(instance("SHOP", "1"));
    rig.settle();
    let mut pauses = Vec::new();
    for round in 0..REPAIRS_MAX + 5 {
        let before = rig.scene.now.mono;
        while !matches!(rig.next(), Next::Ask(Ask::Digests)) {
            rig.scene.pass(100);
        }
        pauses.push(rig.scene.now.mono.since(before));
        let effects = rig.finds_wanted();
        assert!(
            matches!(effects[..], [Effect::Repair { repeated, .. }] if repeated == round),
            "{round}"
        );
        // It takes what it is told for granted, and does not keep it.
        rig.batch();
        rig.took(1);
    }
    assert_eq!(pauses[5], 500);
    assert_eq!(pauses[pauses.len() - 1], 2000);
}
