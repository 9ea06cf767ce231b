//! What follows from the end of a request, and from who answered it.

use std::collections::BTreeSet;

use super::flight::{Flight, Lane};
use super::{
    COMPARE_AGAIN_MS, Effect, Failure, ItemResult, Kind, LOOK_AFTER_MS, Outcome, REPAIRS_MAX,
    SUSPECT_MS, SWEEP_AFTER_MS, Sender, Sweep,
};
use crate::registry::command::Overrides;
use crate::replication::inbound::Compared;
use crate::replication::outbound::{BATCH_ITEMS, Item, Key, Told};
use crate::replication::portion::Portion;
use crate::types::{AppName, InstanceId, Millis};

/// Items of a batch that is not made smaller because it was late. How long it takes is the latency of the
/// link.
const SMALL_BATCH: usize = 4;
/// After how long without an answer, ms, a batch is too much for the link.
const LATE_MS: u64 = 2000;

/// The instances that the peer has newer than it was told.
fn newer_there(flight: &Flight, results: &[ItemResult]) -> BTreeSet<Key> {
    let told = flight.items().iter().zip(results);
    told.filter(|(_, result)| result.entity.is_some())
        .map(|(item, _)| item.key())
        .collect()
}

impl Sender {
    /// What the end of the request in flight comes to, given who answered: before [`Self::answered`].
    ///
    /// What was told to another kind of node than it was meant for counts as not told. Between nodes of
    /// our own kind the form is the same, so only what is thought of the peer changes.
    pub fn recognise(&mut self, outcome: Outcome, from: Option<Kind>) -> Outcome {
        let outcome = match (&self.flight, outcome) {
            (
                Some(Flight::Recent),
                Outcome::Failed(failure @ (Failure::TimedOut | Failure::Broken(_))),
            ) => Outcome::Unread(failure),
            (_, outcome) => outcome,
        };
        let Some(from) = from else { return outcome };
        let is_probe = matches!(self.flight, None | Some(Flight::Probe));
        if from == self.kind || is_probe {
            return outcome;
        }
        match outcome {
            // What stands between here and the peer has bounds of its own.
            Outcome::TooLong | Outcome::Refused(413) => outcome,
            // It may have come from there too.
            Outcome::Failed(_) | Outcome::Unread(_) => {
                self.kind = Kind::Unknown;
                outcome
            }
            _ if from.is_ours() && self.kind.is_ours() => {
                self.meet(from);
                outcome
            }
            _ => Outcome::Failed(Failure::Another),
        }
    }

    /// Somebody of this kind is at the peer's place.
    fn meet(&mut self, kind: Kind) {
        // What is told depends on the kind.
        self.backlog
            .take_if(|backlog| backlog.is_our_kind() != kind.is_ours());
        if self.kind == Kind::Unknown {
            // It may have been set up otherwise.
            self.pace.forget_length();
        }
        if self.met != kind {
            self.differing.clear();
            self.miscounts = 0;
            self.suspect = None;
            self.batch_max = [BATCH_ITEMS; Lane::COUNT];
            if self.met != Kind::Unknown {
                // The cursor is about another node.
                self.is_unsure = kind.is_ours();
                if !self.is_unsure {
                    self.sweep_beside();
                }
            }
        }
        if kind == Kind::Java && self.met != kind {
            self.java.is_met();
        }
        self.met = kind.clone();
        self.kind = kind;
    }

    /// Takes the end of the request in flight. `random` spreads the next try.
    pub fn answered(&mut self, outcome: Outcome, now: Millis, random: u64) -> Vec<Effect> {
        let Some(flight) = self.flight.take() else {
            return Vec::new();
        };
        match outcome {
            Outcome::Failed(_) => self.is_silent = true,
            Outcome::Unread(Failure::TimedOut | Failure::Broken(_)) => {}
            _ => self.heard(now),
        }
        self.suspect.take_if(|suspect| {
            let is_told = flight.items().iter().any(|item| item.key() == suspect.key);
            let is_over = now.since(suspect.since) >= SUSPECT_MS;
            is_over || (is_told && !matches!(outcome, Outcome::Refused(_)))
        });
        match outcome {
            Outcome::Known(kind) => {
                self.pace.probed(now);
                self.meet(kind);
                if let Some(suspect) = &mut self.suspect {
                    suspect.is_peer_fine = true;
                    // The item has still to be got through.
                } else {
                    self.succeeded(now);
                }
                self.look()
            }
            Outcome::Items(results) => {
                self.succeeded(now);
                if flight.items().len() <= SMALL_BATCH {
                    self.pace.probed(now);
                }
                self.widen(&flight, now);
                let newer = newer_there(&flight, &results);
                let mut effects = self.take_results(&flight, results);
                self.finish_knowing(flight, &newer);
                effects.extend(self.look());
                effects
            }
            Outcome::Unknown(places) => {
                self.succeeded(now);
                self.pace.renewed(now);
                if let Flight::Renewals { items, .. } = &flight {
                    let unknown = places.into_iter().filter_map(|place| items.get(place));
                    self.owed_renewals.extend(unknown.map(Item::key));
                }
                self.finish(flight);
                Vec::new()
            }
            Outcome::Digests(differing) => {
                self.succeeded(now);
                self.pace.digested(now);
                self.is_unsure &= !differing.is_empty();
                self.repairs = if std::mem::take(&mut self.has_repaired) {
                    self.repairs.saturating_add(1)
                } else {
                    0
                };
                self.differing = differing.iter().map(|app| Portion::whole(app)).collect();
                Vec::new()
            }
            Outcome::Born(born) => {
                self.succeeded(now);
                self.was_born(born, now);
                self.look()
            }
            Outcome::Recent(unheard) => {
                self.succeeded(now);
                let sure = self.java.read(unheard, now, self.pace.waited(now));
                let mut effects = self.look();
                if !sure.is_empty() {
                    effects.push(Effect::Learn(sure));
                }
                effects
            }
            Outcome::Unread(failure) => {
                if matches!(failure, Failure::Broken(_)) {
                    self.java.has_failed();
                }
                self.java.was_not_read(now);
                Vec::new()
            }
            Outcome::Compared(found) => {
                self.succeeded(now);
                self.pace.compared(now);
                if let (Flight::Compare { asked }, Some((app, id))) = (&flight, &found.told_upto) {
                    // Otherwise the same might be asked again and again.
                    let is_asked = |one: &Portion| one.app == *app && one.range.has(id);
                    if asked.iter().any(is_asked) {
                        let rest = asked.iter().filter_map(|one| one.behind((app, id)));
                        self.compare_first(rest.collect());
                    }
                }
                let effects = self.take_comparison(found, now);
                self.finish(flight);
                effects
            }
            Outcome::TooLong => {
                let is_shorter = self.pace.is_too_long(now);
                match flight {
                    Flight::Compare { asked } if is_shorter => {
                        self.succeeded(now);
                        self.compare_first(asked);
                    }
                    other => {
                        self.put_back(other);
                        self.back_off(now, random);
                    }
                }
                Vec::new()
            }
            Outcome::WrongCount { .. } => {
                self.miscounted(flight, now, random);
                Vec::new()
            }
            Outcome::Refused(status) => self.refused(flight, status, now, random),
            Outcome::Failed(failure) => {
                match failure {
                    Failure::TimedOut => {
                        let is_too_much = self.pace.waited(now) >= LATE_MS;
                        self.try_less(&flight, is_too_much);
                    }
                    Failure::Broken(_) => self.try_less(&flight, true),
                    _ => {}
                }
                if matches!(flight, Flight::Born) {
                    self.was_not_born(now);
                }
                self.put_back(flight);
                self.back_off(now, random);
                self.may_be_new |= matches!(failure, Failure::Refused(_));
                let is_unknown = match failure {
                    Failure::Connect(_)
                    | Failure::Refused(_)
                    | Failure::SameId(_)
                    | Failure::Another => true,
                    Failure::TimedOut | Failure::Broken(_) | Failure::Status(_) => false,
                };
                if is_unknown {
                    // Whoever answers next may be somebody else.
                    self.kind = Kind::Unknown;
                }
                Vec::new()
            }
        }
    }

    /// There is an answer. What may have happened while there was none?
    fn heard(&mut self, now: Millis) {
        if std::mem::take(&mut self.is_silent) {
            let away = now.since(self.heard_at);
            self.looks |= away >= LOOK_AFTER_MS;
            self.may_be_new |= away >= SWEEP_AFTER_MS;
            self.java.has_failed();
        }
        self.heard_at = now;
    }

    pub(super) fn succeeded(&mut self, now: Millis) {
        if self.failures > 0 {
            self.compare_at = now;
        }
        if self.kind == Kind::Java {
            if self.may_be_new {
                self.java.is_met();
            }
        } else {
            self.may_be_new = false;
        }
        self.failures = 0;
        self.miscounts = 0;
    }

    /// A Java node says when it began. One that began anew since it was told things has what it got of others, and
    /// cannot say what it lacks.
    fn was_born(&mut self, born: Option<i64>, now: Millis) {
        let was_away = std::mem::take(&mut self.may_be_new);
        let before = self.java.born();
        if self.java.was_born(born, was_away, now) {
            self.sweep_beside();
            // Whoever began anew has nothing to say that is older than that.
            self.looks &= born.is_none() || before.is_none();
        }
    }

    /// A Java node did not say when it began.
    fn was_not_born(&mut self, now: Millis) {
        if !self.java.has_not_said() {
            self.was_born(None, now);
        }
    }

    /// A Java node that said things meanwhile which nobody repeats is looked at.
    fn look(&mut self) -> Vec<Effect> {
        let is_due = self.kind == Kind::Java && !self.java.asks_born();
        let is_due = is_due && std::mem::take(&mut self.looks);
        is_due.then_some(Effect::Look).into_iter().collect()
    }

    /// A batch was taken: if that was quick, the next one of its sort may have more items.
    fn widen(&mut self, flight: &Flight, now: Millis) {
        if let Some(lane) = flight.lane() {
            let most = &mut self.batch_max[lane as usize];
            if *most < BATCH_ITEMS && self.pace.is_quick(now) {
                *most = (*most * 2).min(BATCH_ITEMS);
            }
        }
    }

    /// A batch was refused.
    pub(super) fn narrow(&mut self, flight: &Flight, most: usize) {
        if let Some(lane) = flight.lane() {
            self.batch_max[lane as usize] = most.clamp(1, BATCH_ITEMS);
        }
    }

    /// A request may have been too much for the link, or its answer for the time that it was given. Batches
    /// are small already, so that time helps first: `is_too_much` if it did not.
    fn try_less(&mut self, flight: &Flight, is_too_much: bool) {
        match flight {
            Flight::Probe | Flight::Digests | Flight::Born | Flight::Recent => {}
            Flight::Compare { asked } => {
                if self.pace.compare_less() {
                    self.compare_first(asked.clone());
                } else {
                    // It does not become smaller: what else differs comes first.
                    self.compared = asked.last().map(|last| last.app.clone());
                }
            }
            Flight::Renewals { .. } if self.kind.is_ours() => self.pace.renew_less(),
            Flight::Changes { items, .. }
            | Flight::Owed { items }
            | Flight::Renewals { items, .. }
            | Flight::Sweep { items, .. } => {
                if is_too_much && items.len() > SMALL_BATCH {
                    self.narrow(flight, (items.len() / 2).max(SMALL_BATCH));
                }
            }
        }
    }

    fn take_results(&mut self, flight: &Flight, results: Vec<ItemResult>) -> Vec<Effect> {
        let was_owed = matches!(flight, Flight::Owed { .. });
        // What it lacks is none of its business if it is gone here too.
        let questions: BTreeSet<&Key> = match flight {
            Flight::Changes { told, .. } => told.iter().filter_map(Told::question).collect(),
            _ => BTreeSet::new(),
        };
        let mut effects = Vec::new();
        for (item, result) in flight.items().iter().zip(results) {
            match (item, result.status) {
                (_, 200..=299) | (Item::Cancel { .. }, 404) => {}
                (_, 404) if questions.contains(&item.key()) => {}
                // It lacks the instance, or has it older. If it does after having been told the
                // whole of it, it does not take it.
                (_, 404) if !was_owed || matches!(item, Item::Heartbeat { .. }) => {
                    self.owed.entry(item.key()).or_insert(false);
                }
                (_, _) if result.entity.is_some() => {
                    self.counters.adopted += 1;
                    effects.extend(result.entity.map(|draft| Effect::Adopt(Box::new(draft))));
                }
                (_, _) => self.counters.item_errors += 1,
            }
        }
        effects
    }

    /// These are compared before what else differs.
    fn compare_first(&mut self, portions: Vec<Portion>) {
        for portion in portions.into_iter().rev() {
            self.differing.push_front(portion);
        }
    }

    fn take_comparison(&mut self, found: Box<Compared>, now: Millis) -> Vec<Effect> {
        let differed = found.len();
        if differed == 0 {
            return Vec::new();
        }
        self.has_repaired = true;
        // What does not go away is no reason to hurry.
        if self.repairs < REPAIRS_MAX {
            self.compare_at = now.plus(COMPARE_AGAIN_MS);
        }
        for (app, id) in &found.wanted {
            self.owed
                .insert((AppName::new(app), InstanceId::new(id)), !self.is_unsure);
        }
        let overrides = if self.is_unsure {
            Overrides::Merged
        } else {
            Overrides::Whole
        };
        vec![Effect::Repair {
            found,
            differed,
            overrides,
            repeated: self.repairs,
        }]
    }

    /// What a request that is done with moves.
    pub(super) fn finish(&mut self, flight: Flight) {
        self.finish_knowing(flight, &BTreeSet::new());
    }

    /// The same where the peer has a newer state of the instances in `newer`.
    pub(super) fn finish_knowing(&mut self, flight: Flight, newer: &BTreeSet<Key>) {
        match flight {
            Flight::Changes { told, .. } => {
                if let Some(backlog) = &mut self.backlog {
                    backlog.answered(told, newer);
                }
                if let Some(backlog) = self.backlog.take_if(|backlog| backlog.is_empty()) {
                    self.upto = backlog.upto.max(self.upto);
                }
            }
            Flight::Probe
            | Flight::Owed { .. }
            | Flight::Digests
            | Flight::Born
            | Flight::Recent => {}
            Flight::Compare { asked } => {
                self.compared = asked.into_iter().next_back().map(|last| last.app);
            }
            Flight::Renewals { cut, .. } => {
                if cut.after.is_some() {
                    self.cut = Some(cut);
                } else {
                    self.renewed_upto = cut.until;
                    self.cut = None;
                }
            }
            Flight::Sweep {
                rest: Some(rest), ..
            } => {
                self.sweep = Some(Sweep { after: Some(rest) });
            }
            Flight::Sweep { rest: None, .. } => self.sweep = None,
        }
    }
}
