//! One peer's task: asks the [`Sender`] what to do, does it over HTTP, hands the answer back, and
//! carries out what follows. All decisions are the sender's.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Context;
use super::behind::{Behind, LogRecords};
use super::exchange::{self, Message, Reading, Repairing};
use super::look::{look, take_over};
use super::notes::Notes;
use super::outbound::BATCH_ITEMS;
use super::past::Removed;
use super::patience::Patience;
use super::reconcile::Digests;
use super::sender::{Ask, Effect, Failure, Kind, Next, Outcome, Place, REPAIRS_MAX, Sender};
use super::skew::PeerClock;
use super::transport::{Answer, COPYING, Call, Wait};
use crate::changelog::Request;
use crate::config::ServiceUrl;
use crate::registry::change::{Actor, Origin};
use crate::registry::command::{Command, Overrides};
use crate::types::Millis;
use crate::wire::{Draft, Limits};

/// Changes that come in quick succession go together: how long the first waits for others.
const GATHER: Duration = Duration::from_millis(10);
/// Longest time between two looks at who is at a URL that led to this node itself.
const ASK_SELF_EVERY: Duration = Duration::from_secs(30);

pub(super) struct PeerTask {
    pub(super) context: Arc<Context>,
    pub(super) url: ServiceUrl,
    /// The URL without credentials: its name in logs, states and the store.
    pub(super) name: String,
    pub(super) stop: CancellationToken,
    /// Whether the peer said last that it has not got its registry together.
    pub(super) is_copying: AtomicBool,
    pub(super) clock: Arc<PeerClock>,
}

/// Why a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    /// The URL leads to this very node.
    Ourselves,
}

/// What a sender does next.
struct Step {
    next: Next,
    message: Option<Message>,
    /// Wall time of the oldest record that the peer is still to be told of.
    untold_since: Option<Millis>,
}

/// A request that could not be answered with an outcome.
enum Exchanged {
    /// With what the answer says about who gave it.
    Outcome(Outcome, Option<Kind>),
    /// The peer is this very node.
    Ourselves,
}

impl PeerTask {
    pub(super) async fn run(&self) -> End {
        let now = self.context.clock.now();
        let recovered = self.context.recovered;
        let mut notes = Notes::of(self.context.clone(), self.name.clone());
        let note = notes.load().await;
        let mut sender = Sender::new(note, recovered, now.mono);
        let (peers, states) = (&self.context.peers, &self.context.states);
        let mut patience = Patience::new(peers.read_timeout + peers.connect_timeout);
        states.update(&self.name, |_| {});
        let mut moved = self.context.log.subscribe();
        let mut behind = Behind::default();
        loop {
            let copies = !self.context.gate.is_open(self.context.clock.now().mono);
            let has_it = !self.is_copying.load(atomic::Ordering::Relaxed);
            let is_leaving = self.context.finish.is_cancelled();
            sender.hold_back((copies && has_it) || is_leaving);
            let step;
            (sender, behind, step) = self.step(sender, behind).await;
            self.show(&sender, step.untold_since);
            notes.take(&sender).await;
            match (step.next, step.message) {
                (Next::Ask(ask), Some(message)) => {
                    match self.exchange(&ask, message, &sender, &mut patience).await {
                        Exchanged::Outcome(outcome, from) => {
                            let outcome = sender.recognise(outcome, from);
                            let states = &self.context.states;
                            states.count(&self.name, |traffic| traffic.ended(&outcome));
                            self.take(&mut sender, outcome).await;
                        }
                        Exchanged::Ourselves => {
                            info!(peer.url = %self.name, "{} is this node itself, and no peer", self.name);
                            self.context.states.remove(&self.name);
                            return End::Ourselves;
                        }
                    }
                }
                (Next::Ask(_), None) => {}
                // Nothing is left to tell. Who does not answer is tried until the node stops waiting.
                (Next::Wait(until), _)
                    if self.context.finish.is_cancelled()
                        && !sender.is_failing()
                        && until > self.context.clock.now().mono =>
                {
                    self.stop.cancel();
                }
                (Next::Wait(until), _) => {
                    let pause = until.since(self.context.clock.now().mono).min(60_000);
                    let finish = &self.context.finish;
                    tokio::select! {
                        biased;
                        () = self.stop.cancelled() => {}
                        () = finish.cancelled(), if !finish.is_cancelled() => {}
                        () = tokio::time::sleep(Duration::from_millis(pause)) => {}
                        changed = moved.changed(), if !sender.is_failing() => {
                            if changed.is_err() {
                                return End::Stopped;
                            }
                            tokio::time::sleep(GATHER).await;
                        }
                    }
                }
            }
            if self.stop.is_cancelled() {
                notes.take_now(&sender).await;
                return End::Stopped;
            }
        }
    }

    /// Asks now and then who is at a URL that leads to this very node, since names come to stand for others
    /// and balancers choose. Whether somebody else is there, or nobody; otherwise the node ends.
    pub(super) async fn finds_another(&self) -> bool {
        let (context, peers) = (&self.context, &self.context.peers);
        // A connection that is kept open leads to where it always led.
        let unused = peers.connection_idle_timeout + Duration::from_secs(1);
        let pause = peers.update_interval.min(ASK_SELF_EVERY).max(unused);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return false,
                () = context.finish.cancelled() => return false,
                () = tokio::time::sleep(pause) => {}
            }
            let (state, now) = (context.log.snapshot(), context.clock.now());
            let nothing = Digests::default();
            let probe = Ask::Probe;
            let own_id = &context.own_id;
            let message = exchange::message(&probe, &Kind::Unknown, &state, &nothing, own_id, now);
            let timeout = peers.connect_timeout + peers.read_timeout;
            let call = call(message, &probe, timeout, &context.limits);
            let sent = context.transport.send(&self.url, call).await;
            let is_this_node = sent.is_ok_and(|answer| matches!(self.kind_of(&answer), Ok(None)));
            if !is_this_node {
                info!(peer.url = %self.name, "{} is not this node itself any more", self.name);
                return true;
            }
        }
    }

    /// Asks the sender and writes its request, on a thread that may wait for the disk.
    async fn step(&self, sender: Sender, behind: Behind) -> (Sender, Behind, Step) {
        let (context, peer) = (self.context.clone(), self.name.clone());
        let (mut sender, mut behind) = (sender, behind);
        let upto = sender.place().upto();
        let step = tokio::task::spawn_blocking(move || {
            let (state, reader) = (context.log.snapshot(), context.log.reader());
            let mut records = LogRecords {
                behind: &mut behind,
                state: &state,
                reader: &*reader,
                peer: &peer,
            };
            let now = context.clock.now();
            let next = sender.next(now.mono, &state, &mut records);
            let message = match &next {
                Next::Wait(_) => None,
                Next::Ask(ask) => {
                    let digests = matches!(ask, Ask::Digests)
                        .then(|| context.digests.of(&state.registry))
                        .unwrap_or_default();
                    let (kind, own_id) = (sender.kind(), &context.own_id);
                    Some(exchange::message(ask, kind, &state, &digests, own_id, now))
                }
            };
            let upto = sender.place().upto();
            let step = Step {
                next,
                message,
                untold_since: behind.oldest(upto, &state, &*reader),
            };
            (sender, behind, step)
        });
        match step.await {
            Ok(step) => step,
            // The runtime is going down, or the sender has a defect: begin again with a sweep.
            Err(error) => {
                self.fell(&error.to_string());
                let now = self.context.clock.now().mono;
                let step = Step {
                    next: Next::Wait(now.plus(1000)),
                    message: None,
                    untold_since: None,
                };
                let sender = Sender::new(Place::Sweep(upto), self.context.recovered, now);
                (sender, Behind::default(), step)
            }
        }
    }

    async fn exchange(
        &self,
        ask: &Ask,
        message: Message,
        sender: &Sender,
        patience: &mut Patience,
    ) -> Exchanged {
        let (transport, clock) = (&self.context.transport, &self.context.clock);
        let asked = clock.now();
        let call = call(message, ask, patience.timeout(ask), &self.context.limits);
        let answer = match transport.send(&self.url, call).await {
            Ok(answer) => answer,
            Err(failure) => {
                match failure {
                    Failure::TimedOut => patience.exhausted(ask),
                    Failure::Connect(_) | Failure::Refused(_) => patience.unreachable(),
                    Failure::Broken(_)
                    | Failure::SameId(_)
                    | Failure::Another
                    | Failure::Status(_) => {}
                }
                return Exchanged::Outcome(Outcome::Failed(failure), None);
            }
        };
        patience.answered_after(
            ask,
            Duration::from_millis(clock.now().mono.since(asked.mono)),
        );
        let is_copying = answer.headers.contains_key(&COPYING);
        self.is_copying.store(is_copying, atomic::Ordering::Relaxed);
        let kind = match self.kind_of(&answer) {
            Ok(Some(kind)) => kind,
            Ok(None) => return Exchanged::Ourselves,
            Err(failure) => return Exchanged::Outcome(Outcome::Failed(failure), None),
        };
        if matches!(ask, Ask::Probe) && kind != *sender.kind() {
            info!(peer.url = %self.name, %kind, "replicating to {}, {kind}", self.name);
        }
        let answered = clock.now().wall;
        let now = answered.signed();
        let skew = self
            .clock
            .heard(answer.skew(asked.wall, answered), answered);
        let (context, ask) = (self.context.clone(), ask.clone());
        let compared = sender.compared().map(str::to_owned);
        let from = kind.clone();
        let outcome = tokio::task::spawn_blocking(move || {
            let registry = &context.log.snapshot().registry;
            let digests = matches!(ask, Ask::Digests)
                .then(|| context.digests.of(registry))
                .unwrap_or_default();
            let reading = Reading {
                digests: &digests,
                compared: compared.as_deref(),
                registry,
                past: &*context.past,
                limits: context.limits,
                now,
                skew,
            };
            exchange::outcome(&ask, kind, answer.status, &answer.body, &reading)
        });
        let outcome = outcome
            .await
            .unwrap_or_else(|error| Outcome::Failed(Failure::Broken(error.to_string())));
        Exchanged::Outcome(outcome, Some(from))
    }

    /// What an answer says about who gave it; `None` if that is this very node.
    fn kind_of(&self, answer: &Answer) -> Result<Option<Kind>, Failure> {
        let Some(identity) = answer.identity() else {
            return Ok(Some(Kind::Java));
        };
        let own = &self.context.identity;
        if identity.node_id != own.node_id {
            return Ok(Some(Kind::Ours {
                node_id: identity.node_id,
            }));
        }
        if identity.boot == own.boot {
            return Ok(None);
        }
        Err(Failure::SameId(identity.node_id))
    }

    /// Shows that something panicked; where, the log says already.
    pub(super) fn fell(&self, why: &str) {
        let failure =
            format!("a defect of this node stopped replication to it, which begins anew: {why}");
        self.failed(&failure, true);
    }

    /// Shows what went wrong, and says so once: a peer that is away is not worth a line a second.
    fn failed(&self, failure: &str, is_grave: bool) {
        let known = self.context.states.all().remove(&self.name);
        let known = known.unwrap_or_default();
        let is_other = is_grave && known.error.as_deref() != Some(failure);
        if known.is_reachable || known.error.is_none() || is_other {
            warn!(peer.url = %self.name, error = %failure, "{}: {failure}", self.name);
        }
        self.context.states.update(&self.name, |state| {
            state.is_reachable = false;
            state.error = Some(failure.to_owned());
        });
    }

    async fn take(&self, sender: &mut Sender, outcome: Outcome) {
        let now = self.context.clock.now();
        match &outcome {
            Outcome::Failed(failure) => {
                let is_grave = matches!(failure, Failure::SameId(_));
                self.failed(&failure.to_string(), is_grave);
            }
            Outcome::Refused(status) => {
                self.failed(&Failure::Status(*status).to_string(), false);
            }
            Outcome::WrongCount { sent, got } => {
                self.failed(&format!("it answers {got} items of {sent}"), true);
            }
            Outcome::Unread(failure) => debug!(
                peer.url = %self.name, error = %failure,
                "what changed lately at {} is not known: {failure}", self.name
            ),
            Outcome::Known(_)
            | Outcome::Items(_)
            | Outcome::Unknown(_)
            | Outcome::Digests(_)
            | Outcome::Born(_)
            | Outcome::Recent(_)
            | Outcome::Compared(_)
            | Outcome::TooLong => self.answers(now.wall),
        }
        // All conflicts of a batch are one request to the log.
        let mut adopted = Vec::new();
        for effect in sender.answered(outcome, now.mono, self.context.random()) {
            match effect {
                Effect::Adopt(draft) => {
                    adopted.extend(self.adoption(*draft, sender.kind().is_ours()));
                }
                Effect::Repair {
                    found,
                    differed,
                    overrides,
                    repeated,
                } => {
                    self.differed(differed, repeated);
                    self.context
                        .states
                        .count_repaired(&self.name, differed as u64);
                    let wall = now.wall.signed();
                    let context = self.context.clone();
                    let repairs = tokio::task::spawn_blocking(move || {
                        let with = Repairing {
                            registry: &context.log.snapshot().registry,
                            past: &*context.past,
                            limits: context.limits,
                            now: wall,
                        };
                        exchange::repairs(&found, overrides, &with)
                    });
                    // It fails only when the runtime goes down; the next comparison finds it again.
                    let Ok(repaired) = repairs.await else {
                        continue;
                    };
                    let refused = repaired.refused;
                    if refused > 0 {
                        warn!(peer.url = %self.name, refused, "{refused} instances of {} cannot be read", self.name);
                    }
                    self.submit(repaired.commands).await;
                }
                Effect::Learn(unheard) => {
                    let (context, url) = (self.context.clone(), self.url.clone());
                    let (clock, stop) = (self.clock.clone(), self.stop.clone());
                    self.context.tasks.spawn(async move {
                        take_over(&context, &url, &clock, unheard, &stop).await;
                    });
                }
                Effect::Look => {
                    let (context, url) = (self.context.clone(), self.url.clone());
                    let looking = look(context, url, self.clock.clone(), self.stop.clone());
                    self.context.tasks.spawn(looking);
                }
                Effect::GaveUp { app, id, status } => warn!(
                    peer.url = %self.name, app.name = %app, instance.id = %id, status,
                    "{} refuses {app}/{id} with status {status}, going on without it", self.name
                ),
            }
        }
        let nobody = |command| (command, Actor::UNKNOWN);
        self.submit(adopted.into_iter().map(nobody).collect()).await;
    }

    /// Shows that it answers.
    fn answers(&self, now: Millis) {
        self.context.states.update(&self.name, |state| {
            if !state.is_reachable {
                info!(peer.url = %self.name, "{} answers", self.name);
            }
            state.is_reachable = true;
            state.last_success = now;
            state.error = None;
        });
    }

    /// Says that instances differed, and once that repairs do not help.
    fn differed(&self, differed: usize, repeated: u32) {
        let name = &self.name;
        match repeated.cmp(&REPAIRS_MAX) {
            Ordering::Less => info!(
                peer.url = %name, differed,
                "{differed} instances differed from {name} and are repaired"
            ),
            Ordering::Equal => warn!(
                peer.url = %name, differed,
                "{differed} instances differ from {name} after {repeated} repairs: one side refuses what the other \
                 has; compare the nodes' limits, and what they log about instances that they cannot take"
            ),
            Ordering::Greater => debug!(
                peer.url = %name, differed,
                "{differed} instances still differ from {name}"
            ),
        }
    }

    /// What takes over a peer's newer instance (`protocol.md` 7.5).
    fn adoption(&self, draft: Draft, is_our_kind: bool) -> Vec<Command> {
        let app = draft.app.to_string();
        let state = self.context.log.snapshot();
        // It is the answer to an instance that is here, or was a moment ago.
        let (registry, removed) = (&state.registry, Removed::default());
        exchange::adoption(draft, is_our_kind, Overrides::Merged, registry, &removed)
            .unwrap_or_else(|refusal| {
                warn!(
                    peer.url = %self.name, app.name = app, %refusal,
                    "cannot take over an instance of {app} from {}: {refusal}", self.name
                );
                Vec::new()
            })
    }

    /// Commands, each with who asked the peer for it.
    async fn submit(&self, commands: Vec<(Command, Actor)>) {
        if commands.is_empty() {
            return;
        }
        let origin = Origin::Peer(self.name.as_str().into());
        let request = Request::of_each(commands, origin);
        if let Err(why) = self.context.log.submit_in_pieces(request).await {
            warn!(peer.url = %self.name, reason = %why, "what {} has newer is not taken over: {why}", self.name);
        }
    }

    fn show(&self, sender: &Sender, untold_since: Option<Millis>) {
        let lsn = self.context.log.published().lsn();
        let lag_records = lsn.0.saturating_sub(sender.place().upto().0);
        let now = self.context.clock.now().wall;
        // What came since the step is young.
        let lag_ms = untold_since.map_or(0, |at| now.since(at));
        self.context.states.update(&self.name, |state| {
            state.kind = sender.kind().clone();
            match sender.kind() {
                Kind::Unknown => {}
                Kind::Java => state.node_id = None,
                Kind::Ours { node_id } => state.node_id = Some(node_id.clone()),
            }
            state.cursor = sender.cursor().unwrap_or_default();
            state.lag_records = lag_records;
            state.lag_ms = lag_ms;
            state.counters = sender.counters();
        });
    }
}

/// A question as a request.
fn call(message: Message, ask: &Ask, wait: Duration, limits: &Limits) -> Call<'static> {
    let Message {
        method,
        path,
        accept,
        content_type,
        body,
        packs,
    } = message;
    Call {
        method,
        path,
        accept,
        content_type,
        body,
        packs,
        wait: Wait::of(wait),
        answer_max: exchange::answer_max(ask, limits),
    }
}

const _: () = assert!(
    BATCH_ITEMS <= 250,
    "Java peers send no more, and may take no more"
);
