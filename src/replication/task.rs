//! One peer's task: asks the [`Sender`] what to do, does it over HTTP, hands the answer back, and
//! carries out what follows. All decisions are the sender's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Context;
use super::outbound::{BATCH_ITEMS, Item};
use super::reconcile::{self, Comparison, Digests, Moving};
use super::sender::{
    Effect, Failure, ItemResult, Kind, Next, Outcome, RECORDS_AT_ONCE, Records, Sender,
};
use super::transport::Answer;
use crate::cache::view_of;
use crate::changelog::{Published, Request};
use crate::config::ServiceUrl;
use crate::registry::change::{Actor, Origin, Record};
use crate::registry::command::Command;
use crate::registry::instance::Instance;
use crate::registry::status::Status;
use crate::store::{LogReader, StoreError};
use crate::types::{AppName, InstanceId, Lsn, Millis};
use crate::wire::batch::{Action, OutgoingItem, decode_batch_response, write_batch};
use crate::wire::{self, Draft, Limits};

/// Changes that come in quick succession go together: how long the first waits for others.
const GATHER: Duration = Duration::from_millis(10);
/// Bytes of records read from the disk in one step.
const RECORD_BYTES: usize = 8 << 20;
/// Least time between two notes of the cursor.
const NOTE_CURSOR_MS: u64 = 1000;
/// How often registries are compared with a peer of our own kind.
const COMPARE_EVERY: Duration = Duration::from_secs(3);
/// The same after a failure, and after a comparison that found something.
const COMPARE_SOON: Duration = Duration::from_millis(500);
/// The longest that an answer is waited for. A peer that is always late is given more time step by
/// step, up to this: otherwise it would be asked the same again and again, and never be done.
const PATIENCE_MAX: Duration = Duration::from_secs(5);
/// Applications compared in one step.
const COMPARE_APPS: usize = 200;

pub(super) struct PeerTask {
    pub(super) context: Arc<Context>,
    pub(super) url: ServiceUrl,
    /// The URL without credentials: its name in logs, states and the store.
    pub(super) name: String,
    pub(super) stop: CancellationToken,
    /// How long an answer is waited for at present, ms.
    pub(super) patience: AtomicU64,
}

/// What a first request found at the other end.
enum Found {
    Peer(Kind),
    /// This very node.
    Ourselves,
    /// Another node with our id.
    Double,
}

impl PeerTask {
    pub(super) async fn run(self) {
        let now = self.context.clock.now();
        let mut sender = Sender::new(self.load_cursor().await, now.mono);
        sender.recovered_at(self.context.recovered);
        let mut moved = self.context.log.subscribe();
        let mut noted = (sender.cursor(), now.mono);
        let mut is_double = false;
        self.context.states.update(&self.name, |_| {});
        let mut compare = tokio::time::interval(COMPARE_EVERY);
        compare.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if *sender.kind() == Kind::Unknown {
                let found = self.probe(&mut sender, is_double).await;
                is_double = matches!(found, Some(Found::Double));
                match found {
                    Some(Found::Peer(kind)) => {
                        info!(peer.url = %self.name, kind = ?kind, "replicating to {}", self.name);
                        sender.set_kind(kind);
                        sender.reachable();
                        compare.reset_after(COMPARE_SOON);
                    }
                    Some(Found::Ourselves) => {
                        debug!(peer.url = %self.name, "{} is this node itself", self.name);
                        self.context.states.remove(&self.name);
                        return;
                    }
                    Some(Found::Double) | None => {}
                }
            }
            let next = if *sender.kind() == Kind::Unknown {
                let pause = 1000 + self.context.random() % 500;
                Next::Wait(self.context.clock.now().mono.plus(pause))
            } else {
                let step = self.step(sender).await;
                sender = step.0;
                step.1
            };
            self.show(&sender);
            noted = self.note_cursor(&sender, noted).await;
            let answered = match next {
                Next::Batch(items) => Some(self.send_batch(&items, sender.is_repairing()).await),
                Next::Digest(items) => Some(self.send_digest(&items).await),
                Next::Wait(until) => {
                    let pause = until.since(self.context.clock.now().mono).min(60_000);
                    tokio::select! {
                        biased;
                        () = self.stop.cancelled() => return,
                        () = tokio::time::sleep(Duration::from_millis(pause)) => {}
                        changed = moved.changed(), if is_well(&sender) => {
                            if changed.is_err() {
                                return;
                            }
                            tokio::time::sleep(GATHER).await;
                        }
                        _ = compare.tick() => {
                            if self.compare(&mut sender).await {
                                compare.reset_after(COMPARE_SOON);
                            }
                        }
                    }
                    None
                }
            };
            if let Some(outcome) = answered {
                let was_failing = sender.is_failing();
                self.take(&mut sender, outcome).await;
                if was_failing && !sender.is_failing() {
                    compare.reset_after(COMPARE_SOON);
                }
            }
            if self.stop.is_cancelled() {
                self.note_cursor(&sender, (None, Millis::ZERO)).await;
                return;
            }
        }
    }

    /// Asks the sender, on a thread that may wait for the disk.
    async fn step(&self, sender: Sender) -> (Sender, Next) {
        let (log, clock) = (self.context.log.clone(), self.context.clock.clone());
        let mut sender = sender;
        let step = tokio::task::spawn_blocking(move || {
            let state = log.snapshot();
            let mut records = LogRecords {
                state: state.clone(),
                reader: log.reader(),
            };
            let next = sender.next(clock.now().mono, &state, &mut records);
            (sender, next)
        });
        match step.await {
            Ok(step) => step,
            // The runtime is going down, or the sender has a defect: begin again with a sweep.
            Err(error) => {
                warn!(peer.url = %self.name, %error, "the sender to {} failed: {error}", self.name);
                let now = self.context.clock.now().mono;
                (Sender::new(None, now), Next::Wait(now.plus(1000)))
            }
        }
    }

    /// An empty batch: every kind of peer answers it, and says what it is by that.
    async fn probe(&self, sender: &mut Sender, is_double: bool) -> Option<Found> {
        let (clock, name) = (&self.context.clock, &self.name);
        let mut body = Vec::new();
        write_batch(&mut body, std::iter::empty());
        let sent = self
            .post("peerreplication/batch/", "application/json", body)
            .await;
        let answer = match sent {
            Ok(answer) if answer.status < 300 => answer,
            Ok(answer) => {
                self.failed(sender, &Failure::Status(answer.status));
                return None;
            }
            Err(failure) => {
                self.failed(sender, &failure);
                return None;
            }
        };
        let now = clock.now().wall;
        let Some(identity) = answer.identity() else {
            self.context
                .states
                .update(name, |state| state.last_success = now);
            return Some(Found::Peer(Kind::Java));
        };
        if identity.node_id != self.context.identity.node_id {
            return Some(Found::Peer(Kind::Ours {
                node_id: identity.node_id,
            }));
        }
        if identity.boot == self.context.identity.boot {
            return Some(Found::Ourselves);
        }
        let error = format!(
            "it has this node's id {}: give one of the two another data directory or eurekad.node-id",
            identity.node_id
        );
        if !is_double {
            warn!(peer.url = %name, "not replicating to {name}: {error}");
        }
        self.context.states.update(name, |state| {
            state.is_reachable = false;
            state.error = Some(error);
        });
        Some(Found::Double)
    }

    fn failed(&self, sender: &mut Sender, failure: &Failure) {
        let counters = sender.counters();
        let was_reachable = self
            .context
            .states
            .all()
            .get(&self.name)
            .is_some_and(|s| s.is_reachable);
        if was_reachable || counters.requests == 0 {
            warn!(peer.url = %self.name, error = %failure, "{}: {failure}", self.name);
        }
        self.context.states.update(&self.name, |state| {
            state.is_reachable = false;
            state.error = Some(failure.to_string());
        });
    }

    async fn post(
        &self,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<Answer, Failure> {
        let transport = &self.context.transport;
        let least = self.context.peers.read_timeout + self.context.peers.connect_timeout;
        let most = PATIENCE_MAX.max(least);
        let patience = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        let timeout = patience.clamp(least, most);
        let asked = self.context.clock.now().mono;
        let answer = transport
            .send(&self.url, Method::POST, path, content_type, body, timeout)
            .await;
        let took = Duration::from_millis(self.context.clock.now().mono.since(asked));
        let patience = match &answer {
            Err(Failure::TimedOut) => (timeout * 2).min(most),
            Ok(_) if took < timeout / 4 => (timeout / 2).max(least),
            Ok(_) | Err(_) => timeout,
        };
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.patience.store(patience, Ordering::Relaxed);
        answer
    }

    async fn send_batch(&self, items: &[Item], is_repair: bool) -> Outcome {
        let mut body = Vec::new();
        write_batch(
            &mut body,
            items
                .iter()
                .map(|item| outgoing(item, &self.context.own_id)),
        );
        let mut path = String::from("peerreplication/batch/");
        if is_repair {
            path.push('?');
            path.push_str(super::REPAIR);
        }
        let answer = match self.post(&path, "application/json", body).await {
            Ok(answer) => answer,
            Err(failure) => return Outcome::Failed(failure),
        };
        match answer.status {
            200..=299 => {}
            status @ (400 | 413 | 500) => return Outcome::Refused(status),
            status => return Outcome::Failed(Failure::Status(status)),
        }
        let now = i64::try_from(self.context.clock.now().wall.0).unwrap_or(i64::MAX);
        match decode_batch_response(&answer.body, &Limits::default(), now) {
            Ok(replies) if replies.len() == items.len() => Outcome::Items(
                replies
                    .into_iter()
                    .map(|reply| ItemResult {
                        status: reply.status,
                        entity: reply.entity,
                    })
                    .collect(),
            ),
            Ok(replies) => Outcome::WrongCount {
                sent: items.len(),
                got: replies.len(),
            },
            Err(error) => Outcome::Failed(Failure::Broken(error.to_string())),
        }
    }

    /// Renewals as numbers: eight bytes each instead of some hundred and fifty.
    async fn send_digest(&self, items: &[Item]) -> Outcome {
        let mut body = Vec::with_capacity(items.len() * 8);
        for item in items {
            let fingerprint = match item {
                Item::Heartbeat { lease, .. } => reconcile::fingerprint(lease),
                _ => 0,
            };
            body.extend_from_slice(&fingerprint.to_be_bytes());
        }
        let sent = self
            .post(super::RENEWALS_PATH, "application/octet-stream", body)
            .await;
        match sent {
            Ok(answer) if answer.status == 200 => Outcome::Unknown(
                answer
                    .body
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|place| usize::try_from(u32::from_be_bytes(*place)).unwrap_or(usize::MAX))
                    .collect(),
            ),
            // It was of our kind, and is not any more: everything as items again.
            Ok(answer) if answer.status == 404 => Outcome::Unknown((0..items.len()).collect()),
            Ok(answer) => Outcome::Failed(Failure::Status(answer.status)),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    async fn take(&self, sender: &mut Sender, outcome: Outcome) {
        let now = self.context.clock.now();
        let failure = match &outcome {
            Outcome::Failed(failure) => Some(failure.clone()),
            Outcome::Refused(status) => Some(Failure::Status(*status)),
            Outcome::WrongCount { sent, got } => {
                warn!(
                    peer.url = %self.name, sent, got,
                    "{} answered {got} items of {sent}", self.name
                );
                None
            }
            Outcome::Items(_) | Outcome::Unknown(_) => None,
        };
        match &failure {
            Some(failure) => {
                self.failed(sender, failure);
                // Whoever answers next may be somebody else.
                if matches!(failure, Failure::Connect(_)) {
                    sender.set_kind(Kind::Unknown);
                }
            }
            None => self.context.states.update(&self.name, |state| {
                if !state.is_reachable {
                    info!(peer.url = %self.name, "{} answers", self.name);
                }
                state.is_reachable = true;
                state.last_success = now.wall;
                state.error = None;
            }),
        }
        for effect in sender.answered(outcome, now.mono, self.context.random()) {
            match effect {
                Effect::Adopt(draft) => self.adopt(*draft).await,
                Effect::Cursor(_) => {}
                Effect::GaveUp { app, id, status } => warn!(
                    peer.url = %self.name, app.name = %app, instance.id = %id, status,
                    "{} refuses {app}/{id} with status {status}, going on without it", self.name
                ),
            }
        }
    }

    /// Takes over a peer's newer instance (`protocol.md` 7.5): its override first, then itself.
    async fn adopt(&self, draft: Draft) {
        let app = draft.app.to_string();
        match wire::validate(draft, &app, false) {
            Ok(instance) if self.is_cancelled(&instance) => {}
            Ok(instance) => {
                self.submit(adoption(instance)).await;
            }
            Err(refusal) => warn!(
                peer.url = %self.name, app.name = app, %refusal,
                "cannot take over an instance of {app} from {}: {refusal}", self.name
            ),
        }
    }

    /// Whether that version, or a newer one, was cancelled meanwhile.
    fn is_cancelled(&self, instance: &Instance) -> bool {
        let state = self.context.log.published();
        let stone = state.registry.tombstone(&instance.app, &instance.id());
        stone.is_some_and(|s| s.is_cancelled && s.dirty >= instance.last_dirty_timestamp)
    }

    async fn submit(&self, commands: Vec<Command>) {
        let request = Request {
            commands,
            origin: Origin::Peer(self.name.as_str().into()),
            actor: Actor::default(),
        };
        if let Err(why) = self.context.log.submit(request).await {
            warn!(peer.url = %self.name, reason = %why, "what {} has newer is not taken over: {why}", self.name);
        }
    }

    /// Compares registries with a peer of our own kind and repairs both (design 4). True if there was
    /// something to repair.
    async fn compare(&self, sender: &mut Sender) -> bool {
        match self.differences(sender).await {
            Some(found) if !found.is_empty() => {
                self.repair(sender, &found).await;
                true
            }
            Some(_) | None => false,
        }
    }

    async fn differences(&self, sender: &Sender) -> Option<super::Compared> {
        let told = sender.cursor()?;
        if !matches!(sender.kind(), Kind::Ours { .. }) || sender.is_failing() {
            return None;
        }
        let state = self.context.log.snapshot();
        let ours = tokio::task::spawn_blocking(move || Digests::of(&state.registry))
            .await
            .ok()?;
        let theirs = self
            .post(super::DIGEST_PATH, "application/json", to_json(&ours.root))
            .await;
        let theirs: Digests = match theirs {
            Ok(answer) if answer.status == 200 => serde_json::from_slice(&answer.body).ok()?,
            // 204: equal.
            _ => return None,
        };
        let names = ours.differences(&theirs, COMPARE_APPS);
        let moving = Moving::new(Some(told), self.context.clock.now().wall);
        let state = self.context.log.snapshot();
        let question = Comparison::of(&state.registry, &names, moving);
        let answer = self
            .post(super::COMPARE_PATH, "application/json", to_json(&question))
            .await
            .ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    async fn repair(&self, sender: &mut Sender, found: &super::Compared) {
        let now = i64::try_from(self.context.clock.now().wall.0).unwrap_or(i64::MAX);
        let repaired = found.len();
        sender.owe(
            found
                .wanted
                .iter()
                .map(|(app, id)| (AppName::new(app), InstanceId::new(id))),
        );
        let mut commands: Vec<Command> = Vec::new();
        for (app, id, dirty) in &found.cancelled {
            commands.push(Command::Cancel {
                app: AppName::new(app),
                id: InstanceId::new(id),
                dirty: Some(*dirty),
            });
        }
        if let Some(list) = &found.newer {
            let list = list.get().as_bytes();
            match wire::decode_applications(list, &Limits::default(), now) {
                Ok(list) => {
                    for draft in list.drafts {
                        let app = draft.app.to_string();
                        match wire::validate(draft, &app, false) {
                            Ok(instance) if !self.is_cancelled(&instance) => {
                                commands.extend(lift(&instance));
                                commands.extend(adoption(instance));
                            }
                            Ok(_) | Err(_) => {}
                        }
                    }
                }
                Err(error) => {
                    warn!(peer.url = %self.name, %error, "{} sent a list that cannot be read: {error}", self.name);
                }
            }
        }
        info!(
            peer.url = %self.name, repaired,
            "{repaired} instances differed from {} and are repaired", self.name
        );
        self.context
            .states
            .update(&self.name, |state| state.repaired += repaired as u64);
        if !commands.is_empty() {
            self.submit(commands).await;
        }
    }

    fn show(&self, sender: &Sender) {
        let state = self.context.log.published();
        let (lsn, cursor) = (state.lsn(), sender.cursor().unwrap_or_default());
        let lag_records = lsn.0.saturating_sub(cursor.0);
        let now = self.context.clock.now().wall;
        let oldest = state
            .delta
            .since(cursor.next())
            .and_then(|mut records| records.next());
        let lag_ms = oldest.map_or(0, |record| now.since(record.at));
        self.context.states.update(&self.name, |state| {
            state.kind = sender.kind().clone();
            state.cursor = cursor;
            state.lag_records = lag_records;
            state.lag_ms = if lag_records == 0 { 0 } else { lag_ms };
            state.counters = sender.counters();
        });
    }

    fn cursor_key(&self) -> String {
        format!("cursor/{}", self.name)
    }

    /// The cursor that was noted, if it is of this incarnation of the log and not ahead of it.
    async fn load_cursor(&self) -> Option<Lsn> {
        let (reader, key) = (self.context.log.reader(), self.cursor_key());
        let noted = tokio::task::spawn_blocking(move || reader.meta_get(&key))
            .await
            .ok()?
            .ok()??;
        let text = String::from_utf8(noted).ok()?;
        let (incarnation, lsn) = text.split_once(' ')?;
        let lsn = Lsn(lsn.parse().ok()?);
        let is_valid =
            incarnation == self.context.incarnation && lsn <= self.context.log.published().lsn();
        is_valid.then_some(lsn)
    }

    /// Notes the cursor, not too often: a stale one only means that something is sent again.
    async fn note_cursor(
        &self,
        sender: &Sender,
        noted: (Option<Lsn>, Millis),
    ) -> (Option<Lsn>, Millis) {
        let now = self.context.clock.now().mono;
        let cursor = sender.cursor();
        if cursor == noted.0 || now.since(noted.1) < NOTE_CURSOR_MS {
            return noted;
        }
        let Some(lsn) = cursor else { return noted };
        let (reader, key) = (self.context.log.reader(), self.cursor_key());
        let value = format!("{} {lsn}", self.context.incarnation);
        let put =
            tokio::task::spawn_blocking(move || reader.meta_put(&key, value.as_bytes())).await;
        if let Ok(Err(error)) = put {
            debug!(peer.url = %self.name, %error, "noting the cursor of {}: {error}", self.name);
        }
        (cursor, now)
    }
}

/// Whether changes can go out as they come. Otherwise they wait for the next try.
fn is_well(sender: &Sender) -> bool {
    !sender.is_failing() && *sender.kind() != Kind::Unknown
}

/// The commands that take over a newer instance.
pub(super) fn adoption(instance: Instance) -> Vec<Command> {
    let mut commands = Vec::new();
    let (app, id) = (instance.app.clone(), instance.id());
    let overridden = instance.overridden_status;
    commands.push(Command::Register(instance.into()));
    if overridden != Status::Unknown {
        commands.push(Command::SetStatus {
            app,
            id,
            status: overridden,
            dirty: None,
        });
    }
    commands
}

/// The command that lifts an override which a peer's newer state does not have.
fn lift(instance: &Instance) -> Option<Command> {
    (instance.overridden_status == Status::Unknown).then(|| Command::DeleteOverride {
        app: instance.app.clone(),
        id: instance.id(),
        status: Some(instance.status),
        dirty: None,
    })
}

fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    // Plain structs of texts and numbers always serialize.
    serde_json::to_vec(value).unwrap_or_default()
}

fn outgoing<'a>(item: &'a Item, own_id: &str) -> OutgoingItem<'a> {
    let of = |lease: &'a crate::registry::lease::Lease, action: Action| {
        let instance = lease.instance();
        OutgoingItem {
            app: instance.app.as_str(),
            id: lease_id(lease),
            last_dirty_timestamp: Some(instance.last_dirty_timestamp),
            overridden_status: None,
            status: Some(instance.status),
            instance: None,
            action,
        }
    };
    match item {
        Item::Register(lease) => OutgoingItem {
            instance: Some(view_of(lease, own_id)),
            ..of(lease, Action::Register)
        },
        Item::Heartbeat { lease, overridden } => OutgoingItem {
            overridden_status: *overridden,
            ..of(lease, Action::Heartbeat)
        },
        Item::SetStatus { lease, status } => OutgoingItem {
            status: Some(*status),
            ..of(lease, Action::StatusUpdate)
        },
        Item::DeleteOverride(lease) => of(lease, Action::DeleteStatusOverride),
        Item::Cancel { app, id, dirty } => OutgoingItem {
            app: app.as_str(),
            id: id.as_str(),
            last_dirty_timestamp: *dirty,
            overridden_status: None,
            status: None,
            instance: None,
            action: Action::Cancel,
        },
    }
}

/// The id as text that lives as long as the lease.
fn lease_id(lease: &crate::registry::lease::Lease) -> &str {
    lease.instance().id_text()
}

/// The log behind a cursor: from memory, or from the disk if it lies further back.
struct LogRecords {
    state: Arc<Published>,
    reader: Arc<dyn LogReader>,
}

impl Records for LogRecords {
    fn since(&mut self, first: Lsn) -> Option<Vec<Arc<Record>>> {
        if let Some(records) = self.state.delta.since(first) {
            return Some(records.take(RECORDS_AT_ONCE).cloned().collect());
        }
        match self.reader.read(first, RECORDS_AT_ONCE, RECORD_BYTES) {
            Ok(records) => Some(records),
            Err(StoreError::Trimmed { .. }) => None,
            Err(error) => {
                debug!(%error, lsn = %first, "reading the log for a peer from LSN {first}: {error}");
                Some(Vec::new())
            }
        }
    }
}

const _: () = assert!(
    BATCH_ITEMS <= 250,
    "Java peers send no more, and may take no more"
);
