//! What a peer is told: from records of the log, or from renewals, to the items of a batch.
//!
//! A record says that something happened; what is sent is how things are now. So several changes of
//! one instance become the one or two items that bring a peer from any of the states in between to
//! the present one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::registry::Registry;
use crate::registry::change::{Change, ChangeKind, Record};
use crate::registry::lease::Lease;
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// Most items of one batch, as Java peers send them (`protocol.md` 7.2).
pub const BATCH_ITEMS: usize = 250;

type Key = (AppName, InstanceId);

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
    /// It is gone; with its last version, which Java peers ignore.
    Cancel {
        app: AppName,
        id: InstanceId,
        dirty: Option<i64>,
    },
    /// The override that holds.
    SetStatus { lease: Arc<Lease>, status: Status },
    /// No override holds; the status is what the instance has now.
    DeleteOverride(Arc<Lease>),
}

impl Item {
    pub fn app(&self) -> AppName {
        match self {
            Self::Cancel { app, .. } => app.clone(),
            Self::Register(lease)
            | Self::Heartbeat { lease, .. }
            | Self::SetStatus { lease, .. }
            | Self::DeleteOverride(lease) => lease.instance().app.clone(),
        }
    }

    pub fn id(&self) -> InstanceId {
        match self {
            Self::Cancel { id, .. } => id.clone(),
            Self::Register(lease)
            | Self::Heartbeat { lease, .. }
            | Self::SetStatus { lease, .. }
            | Self::DeleteOverride(lease) => lease.instance().id(),
        }
    }
}

/// What happened to an instance in a stretch of the log, as far as this node has to pass it on.
#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    was_registered: bool,
    /// It was registered or changed before this process started, and the peer may know already.
    was_registered_before: bool,
    /// The version that was cancelled.
    cancelled: Option<i64>,
    was_overridden: bool,
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
    recovered: Lsn,
    is_our_kind: bool,
    /// The end of the stretch.
    pub upto: Lsn,
}

/// An instance of a [`Backlog`] that is on its way.
#[derive(Debug)]
pub struct Told {
    key: Key,
    happened: Happened,
}

impl Backlog {
    /// Nothing yet, behind `cursor`. Up to `recovered` the log is of an earlier life of this node, and
    /// the cursor may lag behind what was told then.
    pub fn behind(cursor: Lsn, recovered: Lsn, is_our_kind: bool) -> Self {
        Self {
            recovered,
            is_our_kind,
            order: VecDeque::new(),
            happened: HashMap::new(),
            upto: cursor,
        }
    }

    /// Adds records that follow.
    pub fn take_in<'a>(&mut self, records: impl IntoIterator<Item = &'a Arc<Record>>) {
        for record in records {
            let change = &record.change;
            self.upto = record.lsn;
            if record.origin.is_replication() || !is_passed_on(change.kind) {
                continue;
            }
            let is_of_before = record.lsn <= self.recovered;
            let is_override = matches!(
                change.kind,
                ChangeKind::OverrideSet | ChangeKind::OverrideLifted
            );
            if is_of_before && is_override && self.is_our_kind {
                // Said again, it would undo a later word at the peer. If it never arrived, the next
                // comparison brings it.
                continue;
            }
            let key = (change.app.clone(), change.id.clone());
            let entry = self.happened.entry(key.clone()).or_insert_with(|| {
                self.order.push_back(key);
                Happened::default()
            });
            entry.note(change, is_of_before);
        }
    }

    /// Instances that are still to be told of.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The next items, as things now stand: of as many instances as there is room for, but of one at
    /// least.
    pub fn next_items(&mut self, at_most: usize, state: &Registry) -> (Vec<Item>, Vec<Told>) {
        let (mut items, mut told) = (Vec::new(), Vec::new());
        while let Some(key) = self.order.front() {
            let happened = self.happened.get(key).copied().unwrap_or_default();
            let is_full = !told.is_empty() && items.len() + happened.items_at_most() > at_most;
            if is_full {
                break;
            }
            let Some(key) = self.order.pop_front() else {
                break;
            };
            self.happened.remove(&key);
            let before = items.len();
            push_items(&mut items, &key, happened, state);
            if items.len() > before {
                told.push(Told { key, happened });
            }
        }
        (items, told)
    }

    /// What did not arrive comes first again.
    pub fn put_back(&mut self, told: Vec<Told>) {
        for Told { key, happened } in told.into_iter().rev() {
            self.happened.insert(key.clone(), happened);
            self.order.push_front(key);
        }
    }
}

/// The whole registry, for a peer that the log cannot bring up to date: one heartbeat per lease (a
/// peer that lacks it, or has it older, asks for it; one that has it newer says so) and every
/// override. Starts behind `after` and stops at a batch; the last key is where to go on.
pub fn sweep(
    state: &Registry,
    after: Option<&(AppName, InstanceId)>,
) -> (Vec<Item>, Option<(AppName, InstanceId)>) {
    let mut items = Vec::new();
    let mut last = None;
    for lease in state.leases_after(after) {
        let (app, id) = (lease.instance().app.clone(), lease.instance().id());
        let overridden = state.override_of(&app, &id);
        if items.len() + 2 > BATCH_ITEMS {
            return (items, last);
        }
        items.push(Item::Heartbeat {
            lease: lease.clone(),
            overridden,
        });
        if let Some(status) = overridden {
            items.push(Item::SetStatus {
                lease: lease.clone(),
                status,
            });
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
    after: Option<&(AppName, InstanceId)>,
    at_most: usize,
) -> (Vec<Item>, Option<(AppName, InstanceId)>) {
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
    fn note(&mut self, change: &Change, is_of_before: bool) {
        match change.kind {
            ChangeKind::OverrideSet | ChangeKind::OverrideLifted => self.was_overridden = true,
            ChangeKind::Cancelled => {
                let instance = change.lease.as_ref().map(|lease| &lease.instance);
                self.cancelled = instance.map(|instance| instance.last_dirty_timestamp);
            }
            _ if is_of_before => self.was_registered_before = true,
            _ => self.was_registered = true,
        }
    }

    fn is_back(self) -> bool {
        self.was_registered || self.was_registered_before
    }

    fn items_at_most(self) -> usize {
        usize::from(self.is_back())
            + usize::from(self.cancelled.is_some())
            + usize::from(self.was_overridden)
    }
}

fn push_items(
    items: &mut Vec<Item>,
    key: &(AppName, InstanceId),
    happened: Happened,
    state: &Registry,
) {
    let (app, id) = key;
    let lease = state.lease(app.as_str(), id.as_str());
    // A lease that is there again without having been registered here came from a peer: the cancel
    // is history.
    if happened.cancelled.is_some() && (lease.is_none() || happened.is_back()) {
        items.push(Item::Cancel {
            app: app.clone(),
            id: id.clone(),
            dirty: happened.cancelled,
        });
    }
    let Some(lease) = lease else { return };
    if happened.was_registered {
        items.push(Item::Register(lease.clone()));
    } else if happened.was_registered_before {
        // A registration told twice would undo what the peer changed in between without a new
        // version. A heartbeat asks: it is answered 404 if the peer lacks that version.
        items.push(Item::Heartbeat {
            lease: lease.clone(),
            overridden: state.override_of(app, id),
        });
    }
    if happened.was_overridden {
        items.push(match state.override_of(app, id) {
            Some(status) => Item::SetStatus {
                lease: lease.clone(),
                status,
            },
            None => Item::DeleteOverride(lease.clone()),
        });
    }
}
