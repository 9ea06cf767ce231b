//! What a peer is told: from records of the log, or from renewals, to the items of a batch.
//!
//! A record says that something happened; what is sent is how things are now. So several changes of
//! one instance become the one or two items that bring a peer from any of the states in between to
//! the present one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::registry::Registry;
use crate::registry::change::{ChangeKind, Record};
use crate::registry::lease::{Lease, LeaseClock};
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId, Lsn, Millis, Now};

/// Most items of one batch, as Java peers send them (`protocol.md` 7.2).
pub const BATCH_ITEMS: usize = 250;

/// One thing that a peer is told.
#[derive(Clone, Debug)]
pub enum Item {
    /// The whole instance as it is.
    Register(Arc<Lease>),
    /// It was renewed here by its client; with the override that holds here.
    Heartbeat {
        lease: Arc<Lease>,
        overridden: Option<Status>,
    },
    /// It is gone; as it was when it was cancelled.
    Cancel(Arc<Lease>),
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
            Self::Register(lease)
            | Self::Cancel(lease)
            | Self::Heartbeat { lease, .. }
            | Self::SetStatus { lease, .. }
            | Self::DeleteOverride(lease) => lease.instance().app.clone(),
        }
    }

    pub fn id(&self) -> InstanceId {
        match self {
            Self::Register(lease)
            | Self::Cancel(lease)
            | Self::Heartbeat { lease, .. }
            | Self::SetStatus { lease, .. }
            | Self::DeleteOverride(lease) => lease.instance().id(),
        }
    }
}

/// An instance, by application and id.
pub type Key = (AppName, InstanceId);

/// What happened to an instance in a stretch of the log, as far as this node has to pass it on.
#[derive(Clone, Debug, Default)]
struct Happened {
    was_registered: bool,
    was_overridden: bool,
    /// The override that it was registered with last.
    registered_with: Option<Status>,
    /// It was cancelled last in this state.
    cancelled: Option<Arc<Lease>>,
}

/// What a peer was told of an instance while it catches up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Position of the state that it was told.
    pub as_of: Lsn,
    /// Whether the override was part of that.
    pub has_override: bool,
}

impl Told {
    /// Whether a record is part of what was told.
    fn covers(self, record: &Record) -> bool {
        let is_covered = self.has_override || !is_override(record.change.kind);
        record.lsn <= self.as_of && is_covered
    }
}

fn is_override(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::OverrideSet | ChangeKind::OverrideLifted)
}

/// A batch of changes, and the position up to which a peer that took it has everything.
#[derive(Clone, Debug)]
pub struct Changes {
    pub items: Vec<Item>,
    /// What the batch tells, by instance.
    pub told: Vec<(Key, Told)>,
    pub upto: Lsn,
}

/// What changes are made for.
#[derive(Debug)]
pub struct For<'a> {
    /// Whether the peer is of our own kind and takes whole states.
    pub is_our_kind: bool,
    /// Items at most; one instance may take more.
    pub at_most: usize,
    /// What the peer knows already of what the log still has.
    pub told: &'a HashMap<Key, Told>,
}

/// What to send for `records` (in order) when things now stand as in `state`. `upto` says how far a
/// peer that takes it has come; later records only add to what is said of the same instances.
///
/// What came by replication is not passed on: the mesh is full, its source tells everybody itself.
/// Evictions are not either, as in the original: each node judges by the renewals that reach it.
pub fn changes<'a>(
    records: impl IntoIterator<Item = &'a Arc<Record>>,
    state: &Registry,
    peer: &For<'_>,
) -> Changes {
    let mut upto = Lsn::ZERO;
    let mut is_full = false;
    let mut order: Vec<Key> = Vec::new();
    let mut happened: HashMap<Key, Happened> = HashMap::new();
    // Instances of whose override a peer told us.
    let mut heard: HashSet<Key> = HashSet::new();
    let mut count = 0;
    for record in records {
        let change = &record.change;
        if peer.is_our_kind && record.origin.is_replication() && is_override(change.kind) {
            heard.insert((change.app.clone(), change.id.clone()));
        }
        if !record.origin.is_replication() && is_passed_on(change.kind) {
            let key = (change.app.clone(), change.id.clone());
            let is_told = peer.told.get(&key).is_some_and(|told| told.covers(record));
            if !is_told {
                let before = happened.get(&key);
                if is_full && before.is_none() {
                    continue;
                }
                let mut after = before.cloned().unwrap_or_default();
                after.note(record);
                after.was_overridden |= heard.contains(&key);
                let had = before.map_or(0, |before| before.items(&key, state, peer).len());
                let grown = count - had + after.items(&key, state, peer).len();
                // One instance is told of as a whole, however few items a batch may have.
                let is_alone = order.is_empty() || order.len() == 1 && before.is_some();
                if grown > peer.at_most && grown > count && !is_alone {
                    is_full = true;
                    continue;
                }
                count = grown;
                if before.is_none() {
                    order.push(key.clone());
                }
                happened.insert(key, after);
            }
        }
        if !is_full {
            upto = record.lsn;
        }
    }
    let mut changes = Changes {
        items: Vec::with_capacity(count),
        told: Vec::new(),
        upto,
    };
    for key in order {
        let Some(happened) = happened.get(&key) else {
            continue;
        };
        let items = happened.items(&key, state, peer);
        if items.is_empty() {
            continue;
        }
        let is_gone = state.lease(key.0.as_str(), key.1.as_str()).is_none();
        let has_override = is_gone || items.len() > 1;
        changes.items.extend(items);
        changes.told.push((
            key,
            Told {
                as_of: state.lsn(),
                has_override,
            },
        ));
    }
    changes
}

/// One instance as it is, with its override.
pub fn state_of(lease: &Arc<Lease>, state: &Registry, has_override: bool) -> Vec<Item> {
    let mut items = vec![Item::Register(lease.clone())];
    if has_override {
        items.push(override_of(lease, state));
    }
    items
}

/// Whether nothing has happened to it since it was registered: then its node may not have heard of an
/// override that holds elsewhere.
pub fn is_untouched(lease: &Lease) -> bool {
    let registered = i64::try_from(lease.image.registered_at.0).unwrap_or(i64::MAX);
    lease.instance().last_updated_timestamp <= registered
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
            Some(_) => items.extend(state_of(lease, state, true)),
            None => items.push(Item::Heartbeat {
                lease: lease.clone(),
                overridden,
            }),
        }
        last = Some((app, id));
    }
    (items, None)
}

/// The leases that their clients renewed here after `since` and up to `until` (monotonic), at most a
/// batch of them, and the key behind which there are more.
pub fn renewals(
    state: &Registry,
    since: Millis,
    until: Millis,
    after: Option<&Key>,
    at_most: usize,
) -> (Vec<Item>, Option<Key>) {
    let mut items = Vec::new();
    for lease in state.leases_after(after) {
        let renewed = lease.clock.renewed_by_client();
        if renewed <= since || renewed > until {
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
        match change.kind {
            ChangeKind::OverrideSet | ChangeKind::OverrideLifted => self.was_overridden = true,
            ChangeKind::Cancelled => {
                self.cancelled = change.lease.as_ref().map(|image| {
                    let renewed = Now {
                        wall: image.renewed_at,
                        mono: Millis::ZERO,
                    };
                    let clock = Arc::new(LeaseClock::new(renewed));
                    Arc::new(Lease {
                        image: image.clone(),
                        clock,
                        lsn: record.lsn,
                    })
                });
            }
            _ => {
                self.was_registered = true;
                let image = change.lease.as_ref();
                self.registered_with = image.map(|image| image.instance.overridden_status);
            }
        }
    }

    /// What is sent of it.
    fn items(&self, key: &Key, state: &Registry, peer: &For<'_>) -> Vec<Item> {
        let lease = state.lease(key.0.as_str(), key.1.as_str());
        let mut items = Vec::new();
        if let Some(cancelled) = &self.cancelled {
            // A lease that is there again without having been registered here came from a peer: the
            // cancel is history. A whole state says for itself that it is newer than the cancel.
            let is_sent = match lease {
                None => true,
                Some(_) => self.was_registered && !peer.is_our_kind,
            };
            if is_sent {
                items.push(Item::Cancel(cancelled.clone()));
            }
        }
        let Some(lease) = lease.filter(|_| self.was_registered || self.was_overridden) else {
            return items;
        };
        // The description always comes first: a Java peer that has an older one would take the
        // version of an override for the version of that.
        let now = lease.instance().overridden_status;
        let has_changed =
            peer.is_our_kind && self.registered_with.is_some_and(|before| before != now);
        items.extend(state_of(lease, state, self.was_overridden || has_changed));
        items
    }
}
