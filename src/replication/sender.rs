//! What to send to one peer next, and what follows from its answers: a state machine without I/O.
//!
//! There is at most one request in flight. Changes and renewals take turns, so that neither a flood of
//! changes nor a noisy client holds the other up; a sweep of the whole registry goes on in what time
//! is left. Nothing waits in a queue: what has to be sent is found in the log and in the registry
//! when its turn comes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::outbound::{self, BATCH_ITEMS, Backlog, Item, Told};
use crate::changelog::Published;
use crate::registry::change::Record;
use crate::types::{AppName, InstanceId, Lsn, Millis};
use crate::wire::Draft;

/// Least time between two flushes of renewals, ms.
const RENEWALS_EVERY_MS: u64 = 1000;
/// Renewals of one digest at most.
const DIGEST_ITEMS: usize = 20_000;
/// First pause after a failure, ms; doubled by each further one.
const BACK_OFF_MIN_MS: u64 = 1000;
/// Longest pause. Short, since a pause that outlives a partition is a partition that goes on: all
/// nodes are to be equal 5 s after its end. One request in two seconds burdens nobody.
const BACK_OFF_MAX_MS: u64 = 2000;
/// Instances of the log that are told as one piece; behind them the log is read again.
const BACKLOG_MAX: usize = 100_000;
/// How often answers of the wrong length are taken for an accident.
const MISCOUNTS_MAX: u32 = 3;
/// Records looked at in one step; the next step goes on behind them.
pub const RECORDS_AT_ONCE: usize = 5000;

type Key = (AppName, InstanceId);

/// What is known of the kind of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// It has not answered yet.
    #[default]
    Unknown,
    /// It speaks the original's protocol only.
    Java,
    /// A node of our own kind.
    Ours { node_id: String },
}

/// What to do next.
#[derive(Debug)]
pub enum Next {
    /// Nothing before this moment (monotonic), unless the log moves.
    Wait(Millis),
    /// Send these items as one batch.
    Batch(Vec<Item>),
    /// Send these renewals as a digest: one number per lease, see [`super::reconcile::fingerprint`].
    Digest(Vec<Item>),
}

/// The records behind a position, from memory or from the disk.
pub trait Records {
    /// At most [`RECORDS_AT_ONCE`] records from `first` on, oldest first. `None` if the log does not
    /// reach back so far.
    fn since(&mut self, first: Lsn) -> Option<Vec<Arc<Record>>>;
}

/// How a request ended.
#[derive(Debug)]
pub enum Outcome {
    /// One result per item, in order.
    Items(Vec<ItemResult>),
    /// The leases of a digest that the peer does not have in that version, by their place in it.
    Unknown(Vec<usize>),
    /// Success, but not one result per item.
    WrongCount { sent: usize, got: usize },
    /// The peer understood the request and refuses what is in it: 400, 413, 500.
    Refused(u16),
    /// Anything else: try again later.
    Failed(Failure),
}

/// The answer to one item.
#[derive(Debug)]
pub struct ItemResult {
    pub status: u16,
    /// The peer's instance, where it is newer.
    pub entity: Option<Draft>,
}

/// Why a request should be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection.
    Connect(String),
    /// No answer in time.
    TimedOut,
    /// The connection broke, or the answer is not what it should be.
    Broken(String),
    /// An answer that is about the peer, not about the items: 404, 503, 401 and their like.
    Status(u16),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(why) => write!(f, "cannot connect: {why}"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Broken(why) => write!(f, "the answer cannot be used: {why}"),
            Self::Status(status) => write!(f, "it answers with status {status}"),
        }
    }
}

/// What follows from an answer.
#[derive(Debug)]
pub enum Effect {
    /// The peer has a newer version: register it here, as replication.
    Adopt(Box<Draft>),
    /// The cursor moved: keep it.
    Cursor(Lsn),
    /// An item was given up, since the peer refuses it whatever comes with it.
    GaveUp {
        app: AppName,
        id: InstanceId,
        status: u16,
    },
}

/// Counters of one peer, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub requests: u64,
    pub items: u64,
    pub failures: u64,
    pub item_errors: u64,
    pub adopted: u64,
}

/// What is in flight.
#[derive(Debug)]
enum Flight {
    Changes {
        items: Vec<Item>,
        told: Vec<Told>,
    },
    Owed {
        items: Vec<Item>,
    },
    Renewals {
        items: Vec<Item>,
        cut: Cut,
    },
    Sweep {
        items: Vec<Item>,
        rest: Option<Key>,
    },
    /// An empty batch: is it the peer that is ill, or the item that it refused?
    Doubt,
}

impl Flight {
    fn items(&self) -> &[Item] {
        match self {
            Self::Changes { items, .. }
            | Self::Owed { items }
            | Self::Renewals { items, .. }
            | Self::Sweep { items, .. } => items,
            Self::Doubt => &[],
        }
    }

    /// Whether it is about one instance only.
    fn is_of_one_instance(&self) -> bool {
        let mut items = self.items().iter();
        let Some(first) = items.next() else {
            return true;
        };
        items.all(|item| item.id() == first.id() && item.app() == first.app())
    }
}

/// What is known when a peer refuses a batch about a single instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    None,
    /// Whether it takes anything at all has to be asked.
    Asking,
    /// It takes an empty batch: the instance is what it refuses.
    OfItem,
}

/// A flush of renewals under way: all up to `until`, those behind `after` are still to be sent.
#[derive(Clone, Debug)]
struct Cut {
    until: Millis,
    after: Option<Key>,
}

/// One peer's sender.
#[derive(Debug)]
pub struct Sender {
    /// The peer has everything up to here; `None` if it has to be swept first.
    cursor: Option<Lsn>,
    /// While sweeping: the position that a complete sweep brings the peer to, and how far it is.
    sweep: Option<(Lsn, Option<Key>)>,
    renewed_upto: Millis,
    cut: Option<Cut>,
    /// Instances that the peer asked for; true if it is to give up an override that does not hold
    /// here.
    owed: BTreeMap<Key, bool>,
    /// Renewals that a digest could not tell the peer.
    owed_renewals: BTreeSet<Key>,
    /// The end of the log when this process started.
    recovered: Lsn,
    /// What of the log is still to be told before the cursor moves.
    backlog: Option<Backlog>,
    flight: Option<Flight>,
    doubt: Doubt,
    miscounts: u32,
    /// Items per batch of changes: halved while the peer refuses batches, to find the bad item.
    batch_max: usize,
    failures: u32,
    quiet_until: Millis,
    was_changes: bool,
    kind: Kind,
    counters: Counters,
}

impl Sender {
    /// A sender that goes on at `cursor`, or sweeps first without one. `now` is monotonic: what was
    /// renewed before it is not told again.
    pub fn new(cursor: Option<Lsn>, now: Millis) -> Self {
        Self {
            cursor,
            sweep: None,
            renewed_upto: now,
            cut: None,
            owed: BTreeMap::new(),
            owed_renewals: BTreeSet::new(),
            recovered: Lsn::ZERO,
            backlog: None,
            flight: None,
            doubt: Doubt::None,
            miscounts: 0,
            batch_max: BATCH_ITEMS,
            failures: 0,
            quiet_until: Millis::ZERO,
            was_changes: false,
            kind: Kind::Unknown,
            counters: Counters::default(),
        }
    }

    /// The log up to `lsn` is of an earlier life of this node, when the peer may have been told more
    /// than the cursor says.
    pub fn recovered_at(&mut self, lsn: Lsn) {
        self.recovered = lsn;
    }

    pub fn cursor(&self) -> Option<Lsn> {
        self.cursor
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    pub fn set_kind(&mut self, kind: Kind) {
        self.kind = kind;
    }

    /// Whether the last request failed.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// The peer can be reached again: there is no reason to wait any longer.
    pub fn reachable(&mut self) {
        self.failures = 0;
        self.quiet_until = Millis::ZERO;
    }

    /// Whether the request in flight repeats what the peer may have cancelled meanwhile, instead of
    /// telling what clients did here.
    pub fn is_repairing(&self) -> bool {
        matches!(self.flight, Some(Flight::Owed { .. })) && matches!(self.kind, Kind::Ours { .. })
    }

    /// Sends the whole registry again, as after a loss on either side.
    pub fn sweep_again(&mut self) {
        self.cursor = None;
        self.sweep = None;
        self.backlog = None;
    }

    /// Instances that the peer is to be told of, whatever the log says (anti-entropy).
    pub fn owe(&mut self, keys: impl IntoIterator<Item = Key>) {
        self.owed.extend(keys.into_iter().map(|key| (key, true)));
    }

    /// What to do at `now` (monotonic). With a request in flight: nothing.
    pub fn next(&mut self, now: Millis, state: &Published, records: &mut impl Records) -> Next {
        if self.flight.is_some() {
            return Next::Wait(Millis(u64::MAX));
        }
        if now < self.quiet_until {
            return Next::Wait(self.quiet_until);
        }
        if self.doubt == Doubt::Asking {
            return self.send(Flight::Doubt);
        }
        let renewals_due = self.renewed_upto.plus(RENEWALS_EVERY_MS);
        let has_renewals = self.cut.is_some() || now >= renewals_due;
        if has_renewals
            && self.was_changes
            && let Some(next) = self.next_renewals(now, state)
        {
            return next;
        }
        if let Some(next) = self.next_owed(state) {
            return next;
        }
        if let Some(next) = self.next_changes(state, records) {
            return next;
        }
        if (self.cut.is_some() || now >= self.renewed_upto.plus(RENEWALS_EVERY_MS))
            && let Some(next) = self.next_renewals(now, state)
        {
            return next;
        }
        if let Some(next) = self.next_sweep(state) {
            return next;
        }
        Next::Wait(self.renewed_upto.plus(RENEWALS_EVERY_MS))
    }

    fn send(&mut self, flight: Flight) -> Next {
        self.was_changes = matches!(flight, Flight::Changes { .. } | Flight::Owed { .. });
        let is_digest = matches!(
            (&flight, &self.kind),
            (Flight::Renewals { .. }, Kind::Ours { .. })
        );
        let items = flight.items().to_vec();
        self.counters.requests += 1;
        self.counters.items += items.len() as u64;
        self.flight = Some(flight);
        if is_digest {
            Next::Digest(items)
        } else {
            Next::Batch(items)
        }
    }

    fn next_owed(&mut self, state: &Published) -> Option<Next> {
        let mut items = Vec::new();
        // One instance at least, which may be two items.
        while (items.is_empty() || items.len() + 2 <= self.batch_max)
            && let Some(((app, id), is_compared)) = self.owed.pop_first()
        {
            let Some(lease) = state.registry.lease(app.as_str(), id.as_str()) else {
                continue;
            };
            items.push(Item::Register(lease.clone()));
            items.push(match state.registry.override_of(&app, &id) {
                Some(status) => Item::SetStatus {
                    lease: lease.clone(),
                    status,
                },
                None if is_compared => Item::DeleteOverride(lease.clone()),
                None => continue,
            });
        }
        while items.len() < self.batch_max
            && let Some((app, id)) = self.owed_renewals.pop_first()
        {
            let Some(lease) = state.registry.lease(app.as_str(), id.as_str()) else {
                continue;
            };
            let overridden = state.registry.override_of(&app, &id);
            items.push(Item::Heartbeat {
                lease: lease.clone(),
                overridden,
            });
        }
        (!items.is_empty()).then(|| self.send(Flight::Owed { items }))
    }

    fn next_changes(&mut self, state: &Published, records: &mut impl Records) -> Option<Next> {
        let is_our_kind = matches!(self.kind, Kind::Ours { .. });
        loop {
            if let Some(backlog) = &mut self.backlog {
                let (items, told) = backlog.next_items(self.batch_max, &state.registry);
                if !items.is_empty() {
                    return Some(self.send(Flight::Changes { items, told }));
                }
                let upto = backlog.upto;
                self.backlog = None;
                self.advance(upto);
            }
            let cursor = self.cursor.or(self.sweep.as_ref().map(|(upto, _)| *upto))?;
            if cursor >= state.lsn() {
                return None;
            }
            let mut backlog = Backlog::behind(cursor, self.recovered, is_our_kind);
            while backlog.upto < state.lsn() && backlog.len() < BACKLOG_MAX {
                let Some(read) = records.since(backlog.upto.next()) else {
                    // The log does not reach back so far.
                    self.sweep_again();
                    return None;
                };
                if read.is_empty() {
                    break;
                }
                backlog.take_in(&read);
            }
            if backlog.upto == cursor {
                return None;
            }
            self.backlog = Some(backlog);
        }
    }

    /// Moves what a finished stretch of the log moves: the cursor, or, during a sweep, the position
    /// that the sweep leads to.
    fn advance(&mut self, upto: Lsn) {
        match (&mut self.cursor, &mut self.sweep) {
            (Some(cursor), _) => *cursor = upto.max(*cursor),
            (None, Some((target, _))) => *target = upto.max(*target),
            (None, None) => {}
        }
    }

    fn next_renewals(&mut self, now: Millis, state: &Published) -> Option<Next> {
        let at_most = match self.kind {
            Kind::Ours { .. } => DIGEST_ITEMS,
            Kind::Java | Kind::Unknown => BATCH_ITEMS,
        };
        let cut = self.cut.clone().unwrap_or(Cut {
            until: now,
            after: None,
        });
        let (items, after) = outbound::renewals(
            &state.registry,
            self.renewed_upto,
            cut.until,
            cut.after.as_ref(),
            at_most,
        );
        if items.is_empty() {
            self.renewed_upto = cut.until;
            self.cut = None;
            return None;
        }
        let cut = Cut {
            until: cut.until,
            after,
        };
        Some(self.send(Flight::Renewals { items, cut }))
    }

    fn next_sweep(&mut self, state: &Published) -> Option<Next> {
        if self.cursor.is_some() {
            return None;
        }
        let (_, after) = self
            .sweep
            .get_or_insert_with(|| (state.lsn(), None))
            .clone();
        let (items, rest) = outbound::sweep(&state.registry, after.as_ref());
        if items.is_empty() {
            self.cursor = self.sweep.take().map(|(target, _)| target);
            return None;
        }
        Some(self.send(Flight::Sweep { items, rest }))
    }

    /// Takes the end of the request in flight. `random` spreads the next try.
    pub fn answered(&mut self, outcome: Outcome, now: Millis, random: u64) -> Vec<Effect> {
        let Some(flight) = self.flight.take() else {
            return Vec::new();
        };
        match outcome {
            Outcome::Items(_) if matches!(flight, Flight::Doubt) => {
                self.failures = 0;
                self.doubt = Doubt::OfItem;
                Vec::new()
            }
            Outcome::Items(results) => {
                self.succeeded();
                let mut effects = self.take_results(&flight, results);
                effects.extend(self.finish(flight));
                effects
            }
            Outcome::Unknown(places) => {
                self.succeeded();
                if let Flight::Renewals { items, .. } = &flight {
                    let unknown = places.into_iter().filter_map(|place| items.get(place));
                    self.owed_renewals
                        .extend(unknown.map(|item| (item.app(), item.id())));
                }
                self.finish(flight)
            }
            Outcome::WrongCount { .. } => {
                self.counters.item_errors += 1;
                self.miscounts += 1;
                if self.miscounts > MISCOUNTS_MAX {
                    // The original takes such an answer for success.
                    self.miscounts = 0;
                    return self.finish(flight);
                }
                self.put_back(flight);
                self.back_off(now, random);
                Vec::new()
            }
            Outcome::Refused(status) => self.refused(flight, status, now, random),
            Outcome::Failed(_) => {
                self.put_back(flight);
                self.back_off(now, random);
                Vec::new()
            }
        }
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.miscounts = 0;
        self.doubt = Doubt::None;
        self.batch_max = (self.batch_max * 2).min(BATCH_ITEMS);
    }

    fn take_results(&mut self, flight: &Flight, results: Vec<ItemResult>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (item, result) in flight.items().iter().zip(results) {
            match (item, result.status) {
                (_, 200..=299) | (Item::Cancel { .. }, 404) => {}
                // It cancelled that version; its own cursor brings that here.
                (_, 410) => {}
                // It lacks the instance, or has it older.
                (_, 404) => {
                    self.owed.entry((item.app(), item.id())).or_default();
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

    /// What a request that is done with moves.
    fn finish(&mut self, flight: Flight) -> Vec<Effect> {
        match flight {
            Flight::Changes { .. } => {
                if let Some(backlog) = self.backlog.take_if(|backlog| backlog.is_empty()) {
                    self.advance(backlog.upto);
                }
            }
            Flight::Owed { .. } | Flight::Doubt => {}
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
                if let Some((_, after)) = &mut self.sweep {
                    *after = Some(rest);
                }
            }
            Flight::Sweep { rest: None, .. } => {
                self.cursor = self.sweep.take().map(|(target, _)| target);
            }
        }
        self.cursor.map(Effect::Cursor).into_iter().collect()
    }

    /// The peer refuses a batch as a whole. One bad item must not hold up the others for ever: the
    /// batches become smaller until one instance stands alone. If the peer takes an empty batch then,
    /// but not that one, it is given up; if it takes neither, the peer is ill, and nothing is.
    fn refused(&mut self, flight: Flight, status: u16, now: Millis, random: u64) -> Vec<Effect> {
        self.counters.item_errors += 1;
        self.back_off(now, random);
        let mut effects = Vec::new();
        match (&flight, flight.is_of_one_instance()) {
            (Flight::Doubt, _) => return effects,
            (Flight::Changes { .. } | Flight::Owed { .. }, false) => {
                self.batch_max = (flight.items().len() / 2).max(1);
                self.put_back(flight);
                return effects;
            }
            (_, _) if self.doubt != Doubt::OfItem => {
                self.doubt = Doubt::Asking;
                self.put_back(flight);
                return effects;
            }
            (_, _) => {}
        }
        self.doubt = Doubt::None;
        if let Some(item) = flight.items().first() {
            effects.push(Effect::GaveUp {
                app: item.app(),
                id: item.id(),
                status,
            });
        }
        effects.extend(self.finish(flight));
        effects
    }

    /// A request that has to be made again: what is not found by position is kept.
    fn put_back(&mut self, flight: Flight) {
        match flight {
            Flight::Changes { told, .. } => {
                if let Some(backlog) = &mut self.backlog {
                    backlog.put_back(told);
                }
            }
            Flight::Owed { items } => {
                for item in items {
                    let key = (item.app(), item.id());
                    match item {
                        Item::Heartbeat { .. } => {
                            self.owed_renewals.insert(key);
                        }
                        Item::DeleteOverride(_) => {
                            self.owed.insert(key, true);
                        }
                        _ => {
                            self.owed.entry(key).or_default();
                        }
                    }
                }
            }
            Flight::Renewals { .. } | Flight::Sweep { .. } | Flight::Doubt => {}
        }
    }

    /// Doubles the pause, up to its bound, and spreads it by half, so that peers that failed
    /// together are not tried together. Never more often than once a second.
    fn back_off(&mut self, now: Millis, random: u64) {
        self.counters.failures += 1;
        self.failures = self.failures.saturating_add(1);
        let doubled = BACK_OFF_MIN_MS << (self.failures - 1).min(5);
        let pause = doubled.min(BACK_OFF_MAX_MS);
        self.quiet_until = now.plus(pause + random % (pause / 2 + 1));
    }
}
