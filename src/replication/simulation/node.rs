//! A node of the simulation: the real registry, the real rules of the writer and of the endpoints
//! for peers, real senders; only disk, clock and sockets are played. What is committed survives a
//! crash, what is not is lost, and the cursors are those that were noted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::log::{DurablePast, LogRecords};
use crate::changelog::{Asked, Published, apply};
use crate::registry::Registry;
use crate::registry::change::{Actor, Origin, Record};
use crate::registry::command::{Command, Context, Renewal, Reply};
use crate::registry::delta::DeltaTail;
use crate::registry::rules::Rules;
use crate::registry::status::Status;
use crate::replication::batch::{Known, Plan, Terms};
use crate::replication::exchange;
use crate::replication::inbound::{self, Fingerprints};
use crate::replication::learned::tests::{delta_of, listed};
use crate::replication::past::{self, Past};
use crate::replication::patience::Patience;
use crate::replication::reconcile::{Comparison, DigestCache};
use crate::replication::sender::{Ask, Kind, Note, Place, Sender};
use crate::types::{AppName, InstanceId, Lsn, Millis, Now};
use crate::wire::batch::{BatchItem, ItemAnswer, decode_batch, write_batch_response};
use crate::wire::{Dialect, Draft, Format, Limits};

/// Wall time at which a simulation begins.
pub(super) const START: u64 = 1_700_000_000_000;
/// Monotonic time at which it begins.
const MONO: u64 = 3_600_000;
/// Records that a restart finds for the delta window.
const WINDOW: usize = 400;

/// How long a Java node answers what changed lately with what it answered before, ms (`protocol.md` 6).
pub(super) const LISTED_FOR: u64 = 30_000;

/// How long a sender waits for an answer at first (connect and read time-out).
const TIMEOUT: Duration = Duration::from_millis(400);
/// How long it waits for a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);

/// How a node is out of order as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sick {
    No,
    /// It answers with this status and does nothing.
    Status(u16),
    /// It does what it is asked and answers nonsense.
    Garbage,
    /// It does what it is asked and answers one item too few.
    WrongCount,
}

/// A sender and its request in flight.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) sender: Sender,
    pub(super) patience: Patience,
    /// The life of the peer that the connection leads to.
    pub(super) connected_to: Option<u32>,
    pub(super) flight: Option<(u64, Ask)>,
    /// When it is woken next; earlier wake-ups that are still planned are void.
    pub(super) wake_at: u64,
    pub(super) last_sent: Option<u64>,
    pub(super) has_failed: bool,
}

/// Who waits for a commit.
#[derive(Debug)]
pub(super) enum Waiting {
    Client {
        request: u64,
        replies: Vec<Reply>,
    },
    Batch {
        from: usize,
        request: u64,
        plan: Plan,
        replies: Vec<Reply>,
        is_our_kind: bool,
    },
    Peer {
        from: usize,
        request: u64,
        status: u16,
        body: Vec<u8>,
    },
    Nobody,
}

/// What a request to a node came to.
pub(super) enum Handled {
    Answer(u16, Vec<u8>),
    /// The answer comes with the next commit.
    AtCommit,
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known of it, one by one"
)]
pub(super) struct SimNode {
    pub(super) name: Arc<str>,
    /// Plays a Java node: no states, no digests, its own rules.
    pub(super) is_java: bool,
    /// What it lists as changed lately if it plays a Java node, which keeps such answers for a while; since when.
    listed: Option<(u64, Vec<u8>)>,
    skew: i64,
    rules: Arc<Rules>,
    pub(super) expires: bool,
    pub(super) is_up: bool,
    pub(super) epoch: u32,
    pub(super) durable: Vec<Arc<Record>>,
    /// The writer's state; ahead of what is published until a commit.
    state: Published,
    pub(super) published: Published,
    uncommitted: Vec<Arc<Record>>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) commit_planned: bool,
    pub(super) links: BTreeMap<usize, Link>,
    pub(super) noted: BTreeMap<usize, Note>,
    /// What lies before is trimmed for readers.
    pub(super) floor: Lsn,
    /// The end of the log when it started last.
    recovered: Lsn,
    /// How much later than usual its answers come, ms.
    pub(super) slow: u64,
    fingerprints: Fingerprints,
    pub(super) digests: DigestCache,
    pub(super) sick: Sick,
    /// Bytes of a comparison's question that it reads, and of instances in an answer.
    pub(super) compare_bytes: usize,
}

fn empty(rules: &Arc<Rules>) -> Published {
    Published {
        registry: Registry::new(rules.clone()),
        delta: DeltaTail::default(),
    }
}

impl SimNode {
    pub(super) fn new(index: usize, is_java: bool, skew: i64, expires: bool) -> Self {
        let rules = Arc::new(if is_java {
            Rules::eureka()
        } else {
            Rules::default()
        });
        Self {
            name: format!("n{index}").into(),
            is_java,
            listed: None,
            skew,
            expires,
            is_up: true,
            epoch: 0,
            durable: Vec::new(),
            state: empty(&rules),
            published: empty(&rules),
            rules,
            uncommitted: Vec::new(),
            waiting: Vec::new(),
            commit_planned: false,
            links: BTreeMap::new(),
            noted: BTreeMap::new(),
            floor: Lsn(1),
            recovered: Lsn::ZERO,
            slow: 0,
            fingerprints: Fingerprints::default(),
            digests: DigestCache::default(),
            sick: Sick::No,
            compare_bytes: inbound::ANSWER_BYTES,
        }
    }

    pub(super) fn now(&self, time: u64) -> Now {
        let wall = (START + time)
            .checked_add_signed(self.skew)
            .expect("a time");
        Now {
            wall: Millis(wall),
            mono: Millis(MONO + time),
        }
    }

    pub(super) fn wall(&self, time: u64) -> i64 {
        i64::try_from(self.now(time).wall.0).expect("a time")
    }

    /// Virtual time of a monotonic moment.
    pub(super) fn time_of(mono: Millis) -> u64 {
        mono.0.saturating_sub(MONO)
    }

    pub(super) fn link(&mut self, peer: usize, time: u64) {
        // Without a note, a peer is swept; a note may be older than what the peer has.
        let end = Place::Sweep(self.published.lsn());
        let note = *self.noted.entry(peer).or_insert(end.into());
        let link = Link {
            sender: Sender::new(note, self.recovered, self.now(time).mono),
            patience: Patience::new(TIMEOUT),
            connected_to: None,
            flight: None,
            wake_at: time,
            last_sent: None,
            has_failed: false,
        };
        self.links.insert(peer, link);
    }

    /// Gives up what a peer was still to be told, as the original does after half a minute.
    pub(super) fn give_up_telling(&mut self, peer: usize, time: u64) {
        let (end, now) = (self.published.lsn(), self.now(time).mono);
        self.noted.insert(peer, Place::Cursor(end).into());
        if let Some(link) = self.links.get_mut(&peer) {
            link.sender = Sender::new(Place::Cursor(end), end, now);
            link.flight = None;
        }
    }

    /// Commands through the writer. Says whether a commit has to be waited for.
    pub(super) fn submit(
        &mut self,
        commands: &[Command],
        origin: &Origin,
        time: u64,
    ) -> (Vec<Reply>, bool) {
        let actor = Actor::default();
        let asked = Asked {
            origin,
            actor: &actor,
            now: self.now(time),
            expiration_enabled: self.expires,
        };
        let replies = commands
            .iter()
            .map(|command| apply(&mut self.state, command, &asked, &mut self.uncommitted).reply)
            .collect();
        // What stands behind uncommitted changes in the queue is answered with them.
        (replies, !self.uncommitted.is_empty())
    }

    /// A heartbeat as the change log answers it without the writer; `None` if it changes something.
    pub(super) fn renew(
        &self,
        app: &str,
        id: &str,
        renewal: Renewal,
        is_replication: bool,
        time: u64,
    ) -> Option<Reply> {
        let context = Context {
            now: self.now(time),
            is_replication,
            expiration_enabled: self.expires,
        };
        let registry = &self.published.registry;
        let decision = registry.decide_renewal(app, id, renewal, &context);
        if !decision.changes.is_empty() {
            return None;
        }
        if let Some(lease) = &decision.renews {
            lease.renew(context.now, registry.rules().lease_expiry);
            if !is_replication {
                lease.clock.set_renewed_by_client(context.now.mono);
            }
        }
        Some(decision.reply)
    }

    /// Whether the writer knows the instance.
    pub(super) fn knows(&self, app: &AppName, id: &InstanceId) -> bool {
        self.state
            .registry
            .lease(app.as_str(), id.as_str())
            .is_some()
    }

    pub(super) fn has_override(&self, app: &AppName, id: &InstanceId) -> Option<Status> {
        self.state.registry.override_of(app, id)
    }

    /// Makes durable and public what was decided. Says whether there was anything.
    pub(super) fn commit(&mut self) -> bool {
        let records = std::mem::take(&mut self.uncommitted);
        let has_moved = !records.is_empty();
        self.durable.extend(records);
        self.published = self.state.clone();
        has_moved
    }

    pub(super) fn crash(&mut self) {
        self.is_up = false;
        self.epoch += 1;
        self.uncommitted.clear();
        self.waiting.clear();
        self.commit_planned = false;
        self.links.clear();
    }

    /// It has nothing on its disk, as the original.
    pub(super) fn lose_everything(&mut self) {
        self.durable.clear();
        self.noted.clear();
    }

    /// Recovers from what is durable; every lease gets a full duration.
    pub(super) fn restart(&mut self, time: u64) {
        let mono = self.now(time).mono;
        let mut state = empty(&self.rules);
        for record in &self.durable {
            state.registry.evolve(record, mono);
        }
        for lease in state.registry.leases() {
            lease.clock.restart(mono);
        }
        let window = self.durable.len().saturating_sub(WINDOW);
        for record in &self.durable[window..] {
            state.delta.push(record, mono);
        }
        self.recovered = state.lsn();
        self.published = state.clone();
        self.state = state;
        self.fingerprints = Fingerprints::default();
        self.digests = DigestCache::default();
        self.listed = None;
        self.is_up = true;
    }

    /// Forgets the window in memory, so that senders read the log itself.
    pub(super) fn forget_window(&mut self, keep_ms: u64, time: u64) {
        let now = self.now(time).mono;
        self.state.delta.trim(now, keep_ms);
        self.published.delta.trim(now, keep_ms);
    }

    /// Forgets what was removed, as an hour makes it.
    pub(super) fn forget_removals(&mut self) {
        self.state.registry.forget_removals();
        self.published.registry.forget_removals();
    }

    pub(super) fn past(&self) -> DurablePast<'_> {
        DurablePast(&self.durable)
    }

    pub(super) fn records(&self) -> LogRecords<'_> {
        LogRecords { node: self }
    }

    pub(super) fn kind(&self) -> Kind {
        if self.is_java {
            Kind::Java
        } else {
            Kind::Ours {
                node_id: self.name.to_string(),
            }
        }
    }

    /// A request of a peer, as the endpoints answer it.
    pub(super) fn handle(
        &mut self,
        from: (usize, &str, bool),
        request: u64,
        path: &str,
        body: &[u8],
        time: u64,
    ) -> Handled {
        let (index, name, is_java) = from;
        let is_our_kind = !is_java && !self.is_java;
        match path {
            "peerreplication/batch/" => self.batch((index, name, is_our_kind), request, body, time),
            exchange::STATUS_PATH if self.is_java && !is_java => {
                Handled::Answer(200, self.status())
            }
            exchange::DELTA_PATH if self.is_java && !is_java => {
                Handled::Answer(200, self.changed_lately(time))
            }
            _ if !is_our_kind => Handled::Answer(404, Vec::new()),
            crate::replication::RENEWALS_PATH => {
                let unknown = self.fingerprints.renew(&self.published, body, |app, id| {
                    self.renew(app, id, Renewal::default(), true, time)
                });
                Handled::Answer(
                    200,
                    unknown.iter().flat_map(|at| at.to_be_bytes()).collect(),
                )
            }
            crate::replication::DIGEST_PATH => {
                let root: u64 = serde_json::from_slice(body).expect("a root");
                let digests = self.digests.of(&self.published.registry);
                if digests.root == root {
                    return Handled::Answer(204, Vec::new());
                }
                Handled::Answer(200, serde_json::to_vec(&*digests).expect("digests"))
            }
            crate::replication::COMPARE_PATH => {
                if body.len() > self.compare_bytes {
                    return Handled::Answer(413, Vec::new());
                }
                let (now, past) = (self.now(time), self.past());
                let question: Comparison = serde_json::from_slice(body).expect("a comparison");
                let told = self.links.get(&index).map(|link| link.sender.cursor());
                let told = told.map(Option::unwrap_or_default);
                let asked = (self.name.as_ref(), &past as &dyn Past);
                let bytes = self.compare_bytes;
                let (compared, commands) =
                    inbound::compare(&self.published, &question, told, asked, now, bytes);
                let origin = Origin::Peer(name.into());
                let commands: Vec<Command> =
                    commands.into_iter().map(|(command, _)| command).collect();
                let (_, waits) = self.submit(&commands, &origin, time);
                let body = serde_json::to_vec(&compared).expect("a comparison");
                if !waits {
                    return Handled::Answer(200, body);
                }
                self.waiting.push(Waiting::Peer {
                    from: index,
                    request,
                    status: 200,
                    body,
                });
                Handled::AtCommit
            }
            other => panic!("no such path: {other}"),
        }
    }

    /// What a Java node says of itself, as far as anybody reads it.
    fn status(&self) -> Vec<u8> {
        let born = START + u64::from(self.epoch);
        let own = format!("<lastUpdatedTimestamp>{born}</lastUpdatedTimestamp>");
        format!("<status><instanceInfo>{own}</instanceInfo></status>").into()
    }

    /// What a Java node lists.
    pub(super) fn listed(&self) -> Vec<Draft> {
        listed(&self.published.registry, &self.durable)
    }

    /// What a Java node lists as changed lately, which may be old.
    fn changed_lately(&mut self, time: u64) -> Vec<u8> {
        self.listed
            .take_if(|(since, _)| time - *since >= LISTED_FOR);
        let (_, body) = self
            .listed
            .get_or_insert_with(|| (time, delta_of(&self.published, &self.durable)));
        body.clone()
    }

    fn batch(
        &mut self,
        from: (usize, &str, bool),
        request: u64,
        body: &[u8],
        time: u64,
    ) -> Handled {
        let (index, name, is_our_kind) = from;
        let limits = Limits::default();
        let items = decode_batch(body, Dialect::Tolerant, &limits, self.wall(time))
            .expect("a batch that decodes")
            .expect("a list");
        let items: Vec<BatchItem> = items
            .into_iter()
            .map(|item| item.expect("an item"))
            .collect();
        assert!(items.len() <= 250, "a batch of {} items", items.len());
        let terms = Terms {
            is_our_kind,
            validates_data_center_id: false,
        };
        let state = &self.published;
        let removed = past::removals(&self.past(), &state.registry, Plan::asks_about(&items));
        let sender = Origin::Peer(name.into());
        let known = Known {
            state,
            removed: &removed,
            sender: &sender,
        };
        let mut plan = Plan::of(items, terms, known, |app, id, renewal| {
            self.renew(app, id, renewal, true, time)
        });
        let commands = std::mem::take(&mut plan.commands);
        let (replies, waits) = self.submit(&commands, &sender, time);
        if waits {
            self.waiting.push(Waiting::Batch {
                from: index,
                request,
                plan,
                replies,
                is_our_kind,
            });
            return Handled::AtCommit;
        }
        let body = self.batch_answer(plan, &replies, is_our_kind.then_some(time));
        Handled::Answer(200, body)
    }

    /// `is_ours_at` is the virtual time if the peer is of our own kind.
    pub(super) fn batch_answer(
        &self,
        plan: Plan,
        replies: &[Reply],
        is_ours_at: Option<u64>,
    ) -> Vec<u8> {
        let is_ours_at = is_ours_at.map(|time| self.now(time).mono);
        let outcomes = plan.answers(replies, &self.published.registry);
        let short = usize::from(self.sick == Sick::WrongCount && !outcomes.is_empty());
        let answers = outcomes.iter().skip(short).map(|outcome| ItemAnswer {
            status: outcome.status,
            entity: outcome
                .entity
                .as_deref()
                .map(|lease| crate::cache::view_for_peer(lease, &self.name, is_ours_at)),
        });
        let mut body = Vec::new();
        write_batch_response(&mut body, Format::Json, answers, false);
        if self.sick == Sick::Garbage {
            body.truncate(body.len() / 2);
        }
        body
    }
}
