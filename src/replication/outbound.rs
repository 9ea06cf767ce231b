//! What a peer is told: from records of the log, or from renewals, to the items of a batch.
//!
//! A record says that something happened; what is sent is how things are now. So several changes of
//! one instance become the one or two items that bring a peer from any of the states in between to
//! the present one.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::registry::Registry;
use crate::registry::change::{Actor, ChangeKind, Record};
use crate::registry::lease::{Lease, LeaseClock};
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId, Lsn, Millis, Now};

/// Most items of one batch, as Java peers send them (`protocol.md` 7.2).
pub const BATCH_ITEMS: usize = 250;

/// One thing that a peer is told.
#[derive(Clone, Debug)]
pub enum Item {
    /// The whole instance as it is, and who made it so last.
    Register { lease: Arc<Lease>, caller: Actor },
    /// It was renewed here by its client; with the override that holds here.
    Heartbeat {
        lease: Arc<Lease>,
        overridden: Option<Status>,
    },
    /// It is gone; as it was when it was cancelled, and by whom.
    Cancel { lease: Arc<Lease>, caller: Actor },
    /// The override that holds.
    SetStatus { lease: Arc<Lease>, status: Status },
    /// No override holds; the status is what the instance has now.
    DeleteOverride(Arc<Lease>),
}

impl Item {
    pub fn key(&self) -> Key {
        (self.app(), self.id())
    }

    pub fn app(&self) -> AppName {
        match self {
            Self::Register { lease, .. }
            | Self::Cancel { lease, .. }
            | Self::Heartbeat { lease, .. }
            | Self::SetStatus { lease, .. }
            | Self::DeleteOverride(lease) => lease.instance().app.clone(),
        }
    }

    pub fn id(&self) -> InstanceId {
        match self {
            Self::Register { lease, .. }
            | Self::Cancel { lease, .. }
            | Self::Heartbeat { lease, .. }
            | Self::SetStatus { lease, .. }
            | Self::DeleteOverride(lease) => lease.instance().id(),
        }
    }
}

/// An instance, by application and id.
pub type Key = (AppName, InstanceId);

/// Whether an instance was registered in a stretch of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Registered {
    #[default]
    No,
    Yes,
    /// After a removal, which took the override along.
    Anew,
}

/// What happened to an instance in a stretch of the log, as far as this node has to pass it on.
#[derive(Clone, Debug, Default)]
struct Happened {
    registered: Registered,
    was_overridden: bool,
    /// The override that it was registered with last.
    registered_with: Option<Status>,
    /// It was cancelled last in this state, by this caller.
    cancelled: Option<(Arc<Lease>, Actor)>,
    /// The last of it, and who asked for that.
    last: Lsn,
    caller: Actor,
    /// Some of it happened since this process started, so that the peer cannot know it all.
    is_fresh: bool,
    /// The peer was asked, and has nothing newer than what was cancelled.
    is_cancel_due: bool,
}

/// What a stretch of the log changed, each instance once, in the order of its first change: what a
/// peer that was away has to be told, however often things changed meanwhile.
///
/// What came by replication is not passed on: the mesh is full, its source tells everybody itself.
/// Evictions are not either, as in the original: each node judges by the renewals that reach it.
#[derive(Debug)]
pub struct Backlog {
    order: VecDeque<Key>,
    happened: HashMap<Key, Happened>,
    /// Instances of whose override a peer told us.
    heard: HashSet<Key>,
    recovered: Lsn,
    is_our_kind: bool,
    /// The end of the stretch.
    pub upto: Lsn,
    /// Whether what happens meanwhile is taken in: as long as nothing of it has arrived. Later that
    /// would keep it from ever coming to an end.
    pub is_open: bool,
}

/// An instance of a [`Backlog`] that is on its way.
#[derive(Debug)]
pub struct Told {
    key: Key,
    happened: Happened,
    /// What was sent only asks whether the peer has the instance newer than it was when it was cancelled.
    is_question: bool,
}

impl Told {
    /// The instance, if the peer was only asked about it.
    pub fn question(&self) -> Option<&Key> {
        self.is_question.then_some(&self.key)
    }
}

impl Backlog {
    /// Nothing yet, behind `cursor`. Up to `recovered` the log is of an earlier life of this node, and
    /// the cursor may lag behind what was told then.
    pub fn behind(cursor: Lsn, recovered: Lsn, is_our_kind: bool) -> Self {
        Self {
            order: VecDeque::new(),
            happened: HashMap::new(),
            heard: HashSet::new(),
            recovered,
            is_our_kind,
            upto: cursor,
            is_open: true,
        }
    }

    /// Adds records that follow.
    pub fn take_in<'a>(&mut self, records: impl IntoIterator<Item = &'a Arc<Record>>) {
        for record in records {
            let change = &record.change;
            self.upto = record.lsn;
            let key = || (change.app.clone(), change.id.clone());
            if record.origin.is_replication() {
                if self.is_our_kind && is_override(change.kind) {
                    self.heard.insert(key());
                }
                continue;
            }
            if !is_passed_on(change.kind) {
                continue;
            }
            let key = key();
            let was_heard = self.heard.contains(&key);
            let happened = self.happened.entry(key.clone()).or_insert_with(|| {
                self.order.push_back(key);
                Happened::default()
            });
            happened.note(record);
            happened.was_overridden |= was_heard;
            happened.is_fresh |= record.lsn > self.recovered;
        }
    }

    pub fn is_our_kind(&self) -> bool {
        self.is_our_kind
    }

    /// Instances that are still to be told of.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Instances that are kept in mind: what has to be bounded.
    pub fn size(&self) -> usize {
        self.order.len() + self.heard.len()
    }

    /// The next items, as things now stand: of as many instances as there is room for, but of one at
    /// least. What happened up to `late_upto` is told later than it happened.
    pub fn next_items(
        &mut self,
        at_most: usize,
        state: &Registry,
        late_upto: Lsn,
    ) -> (Vec<Item>, Vec<Told>) {
        let (mut items, mut told) = (Vec::new(), Vec::new());
        while let Some(key) = self.order.pop_front() {
            let Some(happened) = self.happened.remove(&key) else {
                continue;
            };
            let mut of_it = happened.items(&key, state, self.is_our_kind);
            let question = happened.question(&of_it, late_upto, self.is_our_kind);
            let is_question = question.is_some();
            if let Some(question) = question {
                of_it = vec![question];
            }
            if of_it.is_empty() {
                continue;
            }
            let is_full = !items.is_empty() && items.len() + of_it.len() > at_most;
            let one = Told {
                key,
                happened,
                is_question,
            };
            if is_full {
                self.push_front(one);
                break;
            }
            items.extend(of_it);
            told.push(one);
        }
        (items, told)
    }

    /// What did not arrive comes first again, as it is when it is sent then.
    pub fn put_back(&mut self, told: Vec<Told>) {
        self.is_open = true;
        for one in told.into_iter().rev() {
            self.push_front(one);
        }
    }

    /// These have arrived, and of those in `newer` the peer has a newer state than was cancelled here. What was
    /// only asked for is told next.
    pub fn answered(&mut self, told: Vec<Told>, newer: &BTreeSet<Key>) {
        self.is_open = false;
        for mut one in told.into_iter().rev().filter(|one| one.is_question) {
            if newer.contains(&one.key) {
                one.happened.cancelled = None;
            } else {
                one.happened.is_cancel_due = true;
            }
            self.push_front(one);
        }
    }

    fn push_front(&mut self, Told { key, happened, .. }: Told) {
        self.happened.insert(key.clone(), happened);
        self.order.push_front(key);
    }
}

fn is_override(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::OverrideSet | ChangeKind::OverrideLifted)
}

/// One instance as it is, with its override, and who made it so, where that is known.
pub fn state_of(
    lease: &Arc<Lease>,
    state: &Registry,
    has_override: bool,
    caller: Actor,
) -> Vec<Item> {
    let mut items = vec![Item::Register {
        lease: lease.clone(),
        caller,
    }];
    if has_override {
        items.push(override_of(lease, state));
    }
    items
}

fn override_of(lease: &Arc<Lease>, state: &Registry) -> Item {
    let instance = lease.instance();
    match state.override_of(&instance.app, &instance.id()) {
        Some(status) => Item::SetStatus {
            lease: lease.clone(),
            status,
        },
        None => Item::DeleteOverride(lease.clone()),
    }
}

/// The whole registry, for a Java peer that the log cannot bring up to date: one heartbeat per lease (a
/// peer that lacks it, or has it older, asks for it; one that has it newer says so), and the whole
/// state where an override holds. Starts behind `after` and stops at a batch; the last key is where to go on.
pub fn sweep(state: &Registry, after: Option<&Key>, at_most: usize) -> (Vec<Item>, Option<Key>) {
    let mut items = Vec::new();
    let mut last = None;
    for lease in state.leases_after(after) {
        let (app, id) = (lease.instance().app.clone(), lease.instance().id());
        let overridden = state.override_of(&app, &id);
        if items.len() + 2 > at_most.max(2) {
            return (items, last);
        }
        match overridden {
            Some(_) => items.extend(state_of(lease, state, true, Actor::UNKNOWN)),
            None => items.push(Item::Heartbeat {
                lease: lease.clone(),
                overridden,
            }),
        }
        last = Some((app, id));
    }
    (items, None)
}

/// The leases that their clients renewed here after `since` (monotonic), at most a batch of them, and the
/// key behind which there are more.
///
/// Going on behind that key comes to an end however often leases are renewed meanwhile, so there is no
/// upper bound: a lease that is renewed all the time would always lie above it, and never be told.
pub fn renewals(
    state: &Registry,
    since: Millis,
    after: Option<&Key>,
    at_most: usize,
) -> (Vec<Item>, Option<Key>) {
    let mut items = Vec::new();
    for lease in state.leases_after(after) {
        let renewed = lease.clock.renewed_by_client();
        if renewed <= since {
            continue;
        }
        if items.len() == at_most {
            let last = items.last().map(|item: &Item| (item.app(), item.id()));
            return (items, last);
        }
        let instance = lease.instance();
        let overridden = state.override_of(&instance.app, &instance.id());
        items.push(Item::Heartbeat {
            lease: lease.clone(),
            overridden,
        });
    }
    (items, None)
}

fn is_passed_on(kind: ChangeKind) -> bool {
    match kind {
        ChangeKind::Registered
        | ChangeKind::Reregistered
        | ChangeKind::MetadataUpdated
        | ChangeKind::OverrideSet
        | ChangeKind::OverrideLifted
        | ChangeKind::Cancelled => true,
        ChangeKind::OverrideStored
        | ChangeKind::OverrideForgotten
        | ChangeKind::StatusRestored
        | ChangeKind::Evicted => false,
    }
}

impl Happened {
    fn note(&mut self, record: &Record) {
        let change = &record.change;
        self.last = record.lsn;
        self.caller = record.actor.clone();
        match change.kind {
            ChangeKind::OverrideSet | ChangeKind::OverrideLifted => self.was_overridden = true,
            ChangeKind::Cancelled => {
                self.cancelled = change.lease.as_ref().map(|image| {
                    let renewed = Now {
                        wall: image.renewed_at,
                        mono: Millis::ZERO,
                    };
                    let clock = Arc::new(LeaseClock::new(renewed));
                    let lease = Lease {
                        image: image.clone(),
                        clock,
                        lsn: record.lsn,
                    };
                    (Arc::new(lease), record.actor.clone())
                });
            }
            _ => {
                let image = change.lease.as_ref();
                let is_anew = change.kind == ChangeKind::Registered
                    && image.is_some_and(|image| !image.is_untouched());
                if is_anew {
                    self.registered = Registered::Anew;
                } else if self.registered == Registered::No {
                    self.registered = Registered::Yes;
                }
                self.registered_with = image.map(|image| image.instance.overridden_status);
            }
        }
    }

    /// What is sent first instead of `items`, if there is a cancel among them that is told late to a Java peer:
    /// the client may have registered there meanwhile, and a cancel says no version. A heartbeat asks: it is
    /// answered with what is newer there (`protocol.md` 7.5).
    fn question(&self, items: &[Item], late_upto: Lsn, is_our_kind: bool) -> Option<Item> {
        if is_our_kind || self.is_cancel_due {
            return None;
        }
        items.iter().find_map(|item| match item {
            Item::Cancel { lease, .. } if lease.lsn <= late_upto => Some(Item::Heartbeat {
                lease: lease.clone(),
                overridden: None,
            }),
            _ => None,
        })
    }

    /// What is sent of it.
    fn items(&self, key: &Key, state: &Registry, is_our_kind: bool) -> Vec<Item> {
        let lease = state.lease(key.0.as_str(), key.1.as_str());
        let was_registered = self.registered != Registered::No;
        let mut items = Vec::new();
        if let Some((cancelled, caller)) = &self.cancelled {
            // A lease that is there again without having been registered here came from a peer: the
            // cancel is history. A whole state says for itself that it is newer than the cancel.
            let is_sent = match lease {
                None => true,
                Some(_) => was_registered && !is_our_kind,
            };
            if is_sent {
                items.push(Item::Cancel {
                    lease: cancelled.clone(),
                    caller: caller.clone(),
                });
            }
        }
        let Some(lease) = lease.filter(|_| was_registered || self.was_overridden) else {
            return items;
        };
        if !is_our_kind && !self.is_fresh && !self.was_overridden {
            // Java peers take a registration that is told again for a new one, which undoes what
            // happened to it there without a new version. A heartbeat asks: a peer that lacks that
            // version answers 404.
            items.push(Item::Heartbeat {
                lease: lease.clone(),
                overridden: state.override_of(&key.0, &key.1),
            });
            return items;
        }
        // The description always comes first: a Java peer that has an older one would take the
        // version of an override for the version of that.
        let now = lease.instance().overridden_status;
        let has_changed = self.registered_with.is_some_and(|before| before != now);
        // An override from before a cancel went with that.
        let is_anew = self.registered == Registered::Anew || self.cancelled.is_some();
        let is_meant = is_our_kind && (has_changed || is_anew);
        let has_override = self.was_overridden || is_meant;
        // If a peer has made it what it is meanwhile, nobody here is to be named for that.
        let caller = if lease.lsn == self.last {
            self.caller.clone()
        } else {
            Actor::UNKNOWN
        };
        items.extend(state_of(lease, state, has_override, caller));
        items
    }
}

#[cfg(test)]
#[path = "outbound_tests.rs"]
mod tests;
