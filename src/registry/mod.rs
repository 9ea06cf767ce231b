//! The pure core: what the registry is and how it changes. No I/O, no clock, no lock, no hash order.
//!
//! [`Registry::decide`] turns a command into changes without changing anything; the change log
//! makes them durable; [`Registry::evolve`] is the only way by which state changes, live, in
//! recovery and in every model. The collections are persistent (`imbl`): a clone costs nothing and
//! shares everything, so the writer works on its own copy and publishes it when the changes are on
//! disk, and every reader has a consistent view at one position of the log without a lock.
//!
//! Invariants: counts by status, expected renewals and the vip index always agree with the leases
//! (`debug_assert`ed by tests through [`Registry::check`]); an application without leases does not
//! exist.

mod adopt;
pub mod change;
pub mod command;
mod decide;
pub mod delta;
mod eviction;
pub mod hold;
pub mod instance;
pub mod lease;
pub mod rules;
pub mod self_preservation;
pub mod status;
#[cfg(test)]
pub(crate) mod tests;
mod tombstones;
pub mod version;
mod vips;

use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use change::{LeaseImage, OverrideEffect, Record};
use hold::{Hold, HoldKind};
use lease::{Lease, LeaseClock};
use rules::{OverrideScope, Rules};
use status::Status;
use tombstones::Tombstones;
pub use tombstones::{KEPT_MS as TOMBSTONES_KEPT_MS, Recalled, Tombstone};
use vips::VipIndex;

use crate::types::{AppName, InstanceId, Lsn, Millis, Now};

/// The registry at one position of the log.
#[derive(Clone, Debug)]
pub struct Registry {
    rules: Arc<Rules>,
    apps: OrdMap<AppName, Application>,
    overrides: OrdMap<OverrideKey, Status>,
    holds: OrdMap<(AppName, InstanceId, HoldKind), Hold>,
    vips: VipIndex,
    tombstones: Tombstones,
    /// Leases by status, in the order of [`Status::ALL`].
    statuses: [u64; 5],
    /// Sum of the expected renewals per minute of all leases, in thousandths.
    expected_millirenewals: u64,
    lsn: Lsn,
    visible_lsn: Lsn,
}

/// The leases of one application.
#[derive(Clone, Debug, Default)]
pub struct Application {
    leases: OrdMap<InstanceId, Arc<Lease>>,
    lsn: Lsn,
}

impl Application {
    /// Position of the last change that clients can see.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    pub fn len(&self) -> usize {
        self.leases.len()
    }

    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// The ids in their order.
    pub fn ids(&self) -> impl Iterator<Item = &InstanceId> {
        self.leases.keys()
    }

    /// The leases in the order of their ids.
    pub fn leases(&self) -> impl Iterator<Item = &Arc<Lease>> {
        self.leases.values()
    }
}

/// What an override is stored under; without an application it holds for every instance of that id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OverrideKey {
    pub app: Option<AppName>,
    pub id: InstanceId,
}

impl Registry {
    /// An empty registry.
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            rules,
            apps: OrdMap::new(),
            overrides: OrdMap::new(),
            holds: OrdMap::new(),
            vips: VipIndex::default(),
            tombstones: Tombstones::default(),
            statuses: [0; 5],
            expected_millirenewals: 0,
            lsn: Lsn::ZERO,
            visible_lsn: Lsn::ZERO,
        }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Position of the last change.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Position of the last change that clients can see.
    pub fn visible_lsn(&self) -> Lsn {
        self.visible_lsn
    }

    /// Number of leases.
    pub fn len(&self) -> u64 {
        self.statuses.iter().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }

    /// The applications by name.
    pub fn apps(&self) -> impl Iterator<Item = (&AppName, &Application)> {
        self.apps.iter()
    }

    pub fn app_count(&self) -> usize {
        self.apps.len()
    }

    /// One application by its upper-case name.
    pub fn app(&self, name: &str) -> Option<&Application> {
        self.apps.get(name)
    }

    /// One lease by upper-case application name and id.
    pub fn lease(&self, app: &str, id: &str) -> Option<&Arc<Lease>> {
        self.apps.get(app)?.leases.get(id)
    }

    /// The first lease with this id in any application (`GET /instances/{id}`).
    pub fn lease_by_id(&self, id: &str) -> Option<&Arc<Lease>> {
        self.apps.values().find_map(|app| app.leases.get(id))
    }

    /// All leases, by application and id.
    pub fn leases(&self) -> impl Iterator<Item = &Arc<Lease>> {
        self.apps.values().flat_map(|app| app.leases.values())
    }

    /// The leases behind one of them, by application and id: the way to go through all of them in
    /// pieces while they change.
    pub fn leases_after<'a>(
        &'a self,
        after: Option<&(AppName, InstanceId)>,
    ) -> impl Iterator<Item = &'a Arc<Lease>> {
        let rest: Vec<&'a Arc<Lease>> = match after {
            Some((app, id)) => {
                let same = self.apps.get(app).into_iter();
                let bounds = (Bound::Excluded(id.clone()), Bound::Unbounded);
                same.flat_map(|app| app.leases.range(bounds.clone()).map(|(_, lease)| lease))
                    .collect()
            }
            None => Vec::new(),
        };
        let start = match after {
            Some((app, _)) => Bound::Excluded(app.clone()),
            None => Bound::Unbounded,
        };
        let others = self.apps.range((start, Bound::Unbounded));
        rest.into_iter()
            .chain(others.flat_map(|(_, app)| app.leases.values()))
    }

    /// The overrides and what they are stored under.
    pub fn overrides(&self) -> impl Iterator<Item = (&OverrideKey, Status)> {
        self.overrides.iter().map(|(key, status)| (key, *status))
    }

    /// The override that holds for an instance.
    pub fn override_of(&self, app: &AppName, id: &InstanceId) -> Option<Status> {
        self.overrides.get(&self.override_key(app, id)).copied()
    }

    /// What is remembered of a lease that is gone.
    pub fn tombstone(&self, app: &AppName, id: &InstanceId) -> Option<&Tombstone> {
        self.tombstones.get(app, id)
    }

    /// Where in the log its last removal is, as long as that is remembered.
    pub fn removed_at(&self, app: &AppName, id: &InstanceId) -> Option<Lsn> {
        self.tombstones.lsn(app, id)
    }

    /// What is remembered of an application's leases that are gone.
    pub fn tombstones_of(&self, app: &str) -> impl Iterator<Item = (&InstanceId, &Tombstone)> {
        self.tombstones.of_app(AppName::new(app))
    }

    /// Remembers a removal that a checkpoint does not tell of, unless the lease is there again.
    pub fn restore_tombstone(&mut self, record: &Record) {
        let change = &record.change;
        let is_there = self
            .lease(change.app.as_str(), change.id.as_str())
            .is_some();
        if let Some(stone) = Tombstone::of(record).filter(|_| !is_there) {
            self.tombstones
                .put(&change.app, &change.id, stone, record.lsn);
        }
    }

    /// Forgets all removals, as time would make it.
    #[cfg(test)]
    pub(crate) fn forget_removals(&mut self) {
        self.tombstones = Tombstones::default();
    }

    /// Position of the last visible change among the instances of a vip (or secure vip), and the
    /// applications that have any; `None` if nobody has that vip.
    pub fn vip(
        &self,
        address: &str,
        is_secure: bool,
    ) -> Option<(Lsn, impl Iterator<Item = &AppName>)> {
        self.vips.get(address, is_secure)
    }

    /// The hash code of the whole registry (`protocol.md` 4.4).
    pub fn hash_code(&self) -> String {
        hash_code(self.statuses)
    }

    /// Leases by status, in the order of [`Status::ALL`].
    pub fn status_counts(&self) -> [u64; 5] {
        self.statuses
    }

    /// Renewals per minute if every client keeps its own interval.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn expected_renewals_per_minute(&self) -> f64 {
        self.expected_millirenewals as f64 / 1000.0
    }

    fn override_key(&self, app: &AppName, id: &InstanceId) -> OverrideKey {
        match self.rules.override_scope {
            OverrideScope::Instance => OverrideKey {
                app: Some(app.clone()),
                id: id.clone(),
            },
            OverrideScope::Id => OverrideKey {
                app: None,
                id: id.clone(),
            },
        }
    }

    /// Applies a change. The only way by which a registry changes.
    ///
    /// `mono` is the monotonic time from which a lease that starts with this change runs. A record
    /// that was applied already (its position is not behind this registry's) changes nothing, so
    /// replay is idempotent.
    pub fn evolve(&mut self, record: &Record, mono: Millis) {
        if record.lsn <= self.lsn {
            return;
        }
        let change = &record.change;
        self.lsn = record.lsn;
        if change.visible {
            self.visible_lsn = record.lsn;
        }
        let key = self.override_key(&change.app, &change.id);
        match change.override_effect {
            OverrideEffect::Keep => {}
            OverrideEffect::Set(status) => {
                self.overrides.insert(key, status);
            }
            OverrideEffect::Remove => {
                self.overrides.remove(&key);
            }
        }
        self.evolve_hold(change, record.at);
        let Some(image) = &change.lease else { return };
        if change.kind.removes() {
            self.remove(&change.app, &change.id, record.lsn, change.visible);
            self.restore_tombstone(record);
        } else {
            let kept_clock = self
                .lease(change.app.as_str(), change.id.as_str())
                .filter(|_| !change.kind.restarts_lease())
                .map(|lease| lease.clock.clone());
            let clock = kept_clock
                .unwrap_or_else(|| Arc::new(LeaseClock::of_change(image, record.at, mono)));
            let lease = Lease {
                image: image.clone(),
                clock,
                lsn: record.lsn,
            };
            self.tombstones.forget(&change.app, &change.id);
            self.put(&change.app, &change.id, &Arc::new(lease), change.visible);
        }
    }

    /// Puts a lease as a checkpoint has it; `mono` as in [`Registry::evolve`].
    pub fn restore_lease(
        &mut self,
        app: &AppName,
        id: &InstanceId,
        image: LeaseImage,
        lsn: Lsn,
        mono: Millis,
    ) {
        let clock = Arc::new(LeaseClock::new(Now {
            wall: image.renewed_at,
            mono,
        }));
        self.put(app, id, &Arc::new(Lease { image, clock, lsn }), true);
    }

    /// Puts an override as a checkpoint has it, under the key that today's rules look for.
    pub fn restore_override(&mut self, key: OverrideKey, status: Status) {
        match (self.rules.override_scope, key.app) {
            (OverrideScope::Instance, None) => {
                let holders: Vec<AppName> = self
                    .apps
                    .iter()
                    .filter(|(_, app)| app.leases.contains_key(&key.id))
                    .map(|(name, _)| name.clone())
                    .collect();
                for app in holders {
                    let key = OverrideKey {
                        app: Some(app),
                        id: key.id.clone(),
                    };
                    self.overrides.insert(key, status);
                }
            }
            (OverrideScope::Instance, app) => {
                self.overrides
                    .insert(OverrideKey { app, id: key.id }, status);
            }
            (OverrideScope::Id, _) => {
                self.overrides.insert(
                    OverrideKey {
                        app: None,
                        id: key.id,
                    },
                    status,
                );
            }
        }
    }

    /// Says at which position a registry that was restored stands.
    pub fn restored_at(&mut self, lsn: Lsn) {
        self.lsn = lsn;
        self.visible_lsn = lsn;
    }

    fn put(&mut self, app: &AppName, id: &InstanceId, lease: &Arc<Lease>, visible: bool) {
        self.count(lease, true);
        let lsn = lease.lsn;
        // In place: only what a published state still shares is copied.
        if !self.apps.contains_key(app) {
            self.apps.insert(app.clone(), Application::default());
        }
        let previous = self.apps.get_mut(app).and_then(|application| {
            if visible {
                // A checkpoint comes in the order of names, not of positions.
                application.lsn = application.lsn.max(lsn);
            }
            application.leases.insert(id.clone(), lease.clone())
        });
        if let Some(previous) = &previous {
            self.count(previous, false);
        }
        self.vips
            .replace(app, previous.as_deref(), Some(lease), lsn, visible);
    }

    fn remove(&mut self, app: &AppName, id: &InstanceId, lsn: Lsn, visible: bool) {
        let Some(application) = self.apps.get_mut(app) else {
            return;
        };
        let Some(previous) = application.leases.remove(id) else {
            return;
        };
        application.lsn = lsn;
        if application.leases.is_empty() {
            self.apps.remove(app);
        }
        self.count(&previous, false);
        self.vips.replace(app, Some(&previous), None, lsn, visible);
    }

    fn count(&mut self, lease: &Lease, is_added: bool) {
        let instance = lease.instance();
        let place = status_place(instance.status);
        let interval = u64::try_from(instance.lease.renewal_interval_secs)
            .unwrap_or(1)
            .max(1);
        let renewals = 60_000 / interval;
        if is_added {
            self.statuses[place] += 1;
            self.expected_millirenewals += renewals;
        } else {
            self.statuses[place] = self.statuses[place].saturating_sub(1);
            self.expected_millirenewals = self.expected_millirenewals.saturating_sub(renewals);
        }
    }

    /// Compares what is kept by the way with what the leases say. For tests and models.
    ///
    /// # Errors
    /// Says what disagrees.
    pub fn check(&self) -> Result<(), String> {
        let mut fresh = Self::new(self.rules.clone());
        for (name, app) in self.apps() {
            if app.is_empty() {
                return Err(format!("{name} is kept without leases"));
            }
            for (id, lease) in &app.leases {
                let image = lease.image.clone();
                fresh.restore_lease(name, id, image, lease.lsn, lease.clock.renewed());
            }
        }
        if fresh.statuses != self.statuses {
            return Err(format!(
                "status counts {:?}, leases {:?}",
                self.statuses, fresh.statuses
            ));
        }
        if fresh.expected_millirenewals != self.expected_millirenewals {
            return Err("expected renewals disagree with the leases".into());
        }
        self.vips.same_members(&fresh.vips)
    }
}

fn status_place(status: Status) -> usize {
    match status {
        Status::Down => 0,
        Status::OutOfService => 1,
        Status::Starting => 2,
        Status::Unknown => 3,
        Status::Up => 4,
    }
}

/// `STATUS_count_` for every status that occurs, sorted by name (`protocol.md` 4.4).
pub fn hash_code(counts: [u64; 5]) -> String {
    let mut text = String::new();
    for (status, count) in Status::ALL.into_iter().zip(counts) {
        if count > 0 {
            let _ = write!(text, "{status}_{count}_");
        }
    }
    text
}

/// The hash code of a list of instances, such as a vip's.
pub fn hash_code_of<'a>(statuses: impl Iterator<Item = &'a Status>) -> String {
    let mut counts = [0; 5];
    for status in statuses {
        counts[status_place(*status)] += 1;
    }
    hash_code(counts)
}
