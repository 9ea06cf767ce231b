//! The protocol's rules written down naively: a list of leases, a list of overrides, changed in
//! place, in the order in which `protocol.md` 1.8, 1.9 and 3 say it. No log, no index, no counts.

use super::*;
use crate::registry::instance::ActionType;
use crate::registry::rules::{
    LeaseExpiry, MetadataUpdate, OverrideLift, OverrideScope, ReplicatedVersion,
    SameStatusOverride, StatusByRenewal, UnknownOverride,
};
use crate::registry::{hash_code_of, status::Status};

/// A lease with all its times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) instance: Instance,
    reported: Status,
    duration_ms: u64,
    registered_at: Millis,
    service_up_at: Millis,
    renewed: Now,
}

/// The naive registry.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    rules: Rules,
    entries: Vec<Entry>,
    overrides: Vec<(AppName, InstanceId, Status)>,
    /// What the server cancelled: its version, and when it said that was.
    cancelled: Vec<(AppName, InstanceId, i64, i64)>,
}

impl Model {
    pub(crate) fn new(rules: &Rules) -> Self {
        Self {
            rules: rules.clone(),
            entries: Vec::new(),
            overrides: Vec::new(),
            cancelled: Vec::new(),
        }
    }

    /// Carries a command out. Which leases an eviction takes is chance: `gone` says it.
    pub(crate) fn carry_out(
        &mut self,
        command: &Command,
        context: &Context,
        gone: &[(AppName, InstanceId)],
    ) -> Said {
        match command {
            Command::Register(sent) => {
                self.register(sent, None, context.now, context.is_replication);
                Said::Done
            }
            Command::Adopt(_)
            | Command::Expire { .. }
            | Command::Hold { .. }
            | Command::EndHolds(_) => unreachable!("no command of the protocol"),
            Command::Renew { app, id, renewal } => self.renew(app, id, *renewal, context),
            Command::Cancel { app, id, .. } => self.cancel(app, id, context.now),
            Command::SetStatus {
                app,
                id,
                status,
                dirty,
            } => self.set(app, id, *status, *dirty, context),
            Command::DeleteOverride {
                app,
                id,
                status,
                dirty,
            } => self.lift(app, id, *status, *dirty, context),
            Command::UpdateMetadata { app, id, entries } => {
                self.put_metadata(app, id, entries, context)
            }
            Command::Evict(eviction) => self.evict(eviction, context, gone),
        }
    }

    fn find(&self, app: &AppName, id: &InstanceId) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| entry.instance.app == *app && entry.instance.id() == *id)
    }

    /// 1.6: an expired lease counts as not found.
    fn find_alive(&self, app: &AppName, id: &InstanceId, context: &Context) -> Option<usize> {
        self.find(app, id).filter(|place| {
            !(context.expiration_enabled && self.entries[*place].is_over(context.now.mono, 0))
        })
    }

    fn override_of(&self, app: &AppName, id: &InstanceId) -> Option<Status> {
        let is_shared = self.rules.override_scope == OverrideScope::Id;
        self.overrides
            .iter()
            .find(|(a, i, _)| i == id && (is_shared || a == app))
            .map(|(_, _, status)| *status)
    }

    fn drop_override(&mut self, app: &AppName, id: &InstanceId) {
        let is_shared = self.rules.override_scope == OverrideScope::Id;
        self.overrides
            .retain(|(a, i, _)| !(i == id && (is_shared || a == app)));
    }

    fn put_override(&mut self, app: &AppName, id: &InstanceId, status: Status) {
        self.drop_override(app, id);
        self.overrides.push((app.clone(), id.clone(), status));
    }

    /// 3.1, without the ASG rule.
    fn chain(own: Status, over: Option<Status>, existing: Option<Status>, peer: bool) -> Status {
        let is_open = |s: Status| s == Status::Up || s == Status::OutOfService;
        if !is_open(own) {
            return own;
        }
        if let Some(status) = over {
            return status;
        }
        if let Some(status) = existing
            && !peer
            && is_open(status)
        {
            return status;
        }
        own
    }

    /// 3.2. `reported` is given where it is not the client that speaks.
    fn register(&mut self, sent: &Instance, reported: Option<Status>, now: Now, peer: bool) {
        let (app, id) = (sent.app.clone(), sent.id());
        let duration_ms = match sent.lease.duration_secs {
            secs if secs > 0 => u64::from(secs.unsigned_abs()) * 1000,
            _ => 90_000,
        };
        let existing = self
            .find(&app, &id)
            .map(|place| self.entries[place].clone());
        let mut info = sent.clone();
        let repeats_override =
            sent.overridden_status != Status::Unknown && sent.status == sent.overridden_status;
        let mut said = if repeats_override {
            existing.as_ref().map_or(Status::Up, |e| e.reported)
        } else {
            sent.status
        };
        if let Some(existing) = &existing
            && existing.instance.last_dirty_timestamp > sent.last_dirty_timestamp
        {
            info = existing.instance.clone();
            said = existing.reported;
        }
        let mut service_up_at = existing.as_ref().map_or(Millis::ZERO, |e| e.service_up_at);
        if info.overridden_status != Status::Unknown && self.override_of(&app, &id).is_none() {
            self.put_override(&app, &id, info.overridden_status);
        }
        let over = self.override_of(&app, &id);
        if let Some(status) = over {
            info.overridden_status = status;
        }
        let before = existing.as_ref().map(|e| e.instance.status);
        info.status = Self::chain(info.status, over, before, peer);
        if info.status == Status::Up && service_up_at == Millis::ZERO {
            service_up_at = now.wall;
        }
        // Later than what it replaces, and than the cancel before it.
        let of_this = |(a, i, ..): &&(AppName, InstanceId, i64, i64)| *a == app && *i == id;
        let replaced = existing.as_ref().map(|e| e.instance.last_updated_timestamp);
        let cancelled = self
            .cancelled
            .iter()
            .filter(of_this)
            .map(|(_, _, dirty, at)| {
                // Fourteen minutes later, unless the client says itself that it is a newer one.
                let is_newer = sent.last_dirty_timestamp > *dirty;
                if is_newer { *at } else { at + 840_000 - 1 }
            });
        let was_cancelled = self.cancelled.iter().any(|stone| of_this(&stone));
        info.last_updated_timestamp = replaced.into_iter().chain(cancelled).max().unwrap_or(0);
        self.cancelled.retain(|(a, i, ..)| *a != app || *i != id);
        info.touch(ActionType::Added, now);
        let updated = u64::try_from(info.last_updated_timestamp).expect("a time of a test");
        // It says that the override of the one before is gone.
        info.last_updated_timestamp += i64::from(was_cancelled && !peer);
        let entry = Entry {
            instance: info,
            reported: reported.unwrap_or(said),
            duration_ms,
            registered_at: if peer && !was_cancelled {
                now.wall
            } else {
                Millis(updated)
            },
            service_up_at,
            renewed: now,
        };
        match self.find(&app, &id) {
            Some(place) => self.entries[place] = entry,
            None => self.entries.push(entry),
        }
    }

    /// 3.3, then the table of 1.8.
    fn renew(
        &mut self,
        app: &AppName,
        id: &InstanceId,
        renewal: Renewal,
        context: &Context,
    ) -> Said {
        let is_silent = self.rules.status_by_renewal == StatusByRenewal::Silent;
        let over = self.override_of(app, id);
        let Some(place) = self.find(app, id) else {
            return Said::NotFound;
        };
        let entry = &mut self.entries[place];
        let own = entry.instance.status;
        let status = Self::chain(own, over, Some(own), context.is_replication);
        if status == Status::Unknown {
            return Said::NotFound;
        }
        if status != own {
            entry.instance.status = status;
            if !is_silent {
                entry.instance.touch(ActionType::Modified, context.now);
                entry.mark_up(context.now);
            }
        }
        entry.renew(context.now, self.rules.lease_expiry);

        let ours = entry.instance.last_dirty_timestamp;
        let Some(theirs) = renewal.dirty else {
            return Said::Done;
        };
        if theirs > ours {
            if let Some(status) = renewal.overridden
                && context.is_replication
                && status != Status::Unknown
                && over != Some(status)
            {
                entry.instance.overridden_status = status;
                self.put_override(app, id, status);
            }
            return Said::SenderIsNewer;
        }
        if theirs < ours && context.is_replication {
            return Said::Conflict;
        }
        Said::Done
    }

    /// 3.4.
    fn cancel(&mut self, app: &AppName, id: &InstanceId, now: Now) -> Said {
        let found = self.find(app, id);
        if found.is_some() || self.rules.override_scope == OverrideScope::Id {
            self.drop_override(app, id);
        }
        let Some(place) = found else {
            return Said::NotFound;
        };
        let mut instance = self.entries.remove(place).instance;
        instance.touch(ActionType::Deleted, now);
        self.cancelled.push((
            app.clone(),
            id.clone(),
            instance.last_dirty_timestamp,
            instance.last_updated_timestamp,
        ));
        Said::Done
    }

    /// Whether the dirty timestamp that comes with an override counts.
    fn raises(&self, context: &Context) -> bool {
        !context.is_replication || self.rules.replicated_version == ReplicatedVersion::Original
    }

    /// 3.5.
    fn set(
        &mut self,
        app: &AppName,
        id: &InstanceId,
        status: Status,
        dirty: Option<i64>,
        context: &Context,
    ) -> Said {
        if status == Status::Unknown && self.rules.unknown_override == UnknownOverride::Lift {
            return self.lift(app, id, None, dirty, context);
        }
        let over = self.override_of(app, id);
        let Some(place) = self.find_alive(app, id, context) else {
            return Said::NotFound;
        };
        let raises = self.raises(context);
        let entry = &mut self.entries[place];
        entry.renew(context.now, self.rules.lease_expiry);
        let keeps_word = self.rules.same_status_override == SameStatusOverride::Stored;
        let is_news = entry.instance.status != status || keeps_word && over != Some(status);
        if is_news {
            entry.instance.status = status;
            entry.instance.overridden_status = status;
            entry.mark_up(context.now);
            entry.instance.raise(dirty.filter(|_| raises));
            entry.instance.touch(ActionType::Modified, context.now);
            self.put_override(app, id, status);
        }
        Said::Done
    }

    /// 3.6.
    fn lift(
        &mut self,
        app: &AppName,
        id: &InstanceId,
        status: Option<Status>,
        dirty: Option<i64>,
        context: &Context,
    ) -> Said {
        let over = self.override_of(app, id);
        let Some(place) = self.find_alive(app, id, context) else {
            return Said::NotFound;
        };
        let raises = self.raises(context);
        let entry = &mut self.entries[place];
        entry.renew(context.now, self.rules.lease_expiry);
        if over.is_some() {
            entry.instance.overridden_status = Status::Unknown;
            entry.instance.status = status.unwrap_or(Status::Unknown);
            if self.rules.override_lift == OverrideLift::Reported {
                if entry.instance.status == Status::Unknown {
                    entry.instance.status = entry.reported;
                }
                entry.mark_up(context.now);
            }
            entry.instance.raise(dirty.filter(|_| raises));
            entry.instance.touch(ActionType::Modified, context.now);
            self.drop_override(app, id);
        }
        Said::Done
    }

    /// 1.9.
    fn put_metadata(
        &mut self,
        app: &AppName,
        id: &InstanceId,
        entries: &[(Arc<str>, Arc<str>)],
        context: &Context,
    ) -> Said {
        let Some(place) = self.find_alive(app, id, context) else {
            return Said::NotFound;
        };
        let entry = &mut self.entries[place];
        let mut all: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        let old = entry.instance.metadata.iter();
        let old: Vec<_> = old.map(|(k, v)| (k.clone(), v.clone())).collect();
        for (key, value) in old.into_iter().chain(entries.iter().cloned()) {
            all.retain(|(known, _)| *known != key);
            all.push((key, value));
        }
        let metadata: Metadata = all.into_iter().collect();
        match self.rules.metadata_update {
            MetadataUpdate::Reregister => {
                let sent = Instance {
                    metadata,
                    ..entry.instance.clone()
                };
                let reported = entry.reported;
                self.register(&sent, Some(reported), context.now, false);
            }
            MetadataUpdate::Change => {
                if entry.instance.metadata != metadata {
                    entry.instance.metadata = metadata;
                    entry.instance.last_dirty_timestamp += 1;
                    entry.instance.touch(ActionType::Modified, context.now);
                }
            }
        }
        Said::Done
    }

    /// 5.4, except for the choice.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a handful of leases"
    )]
    fn evict(
        &mut self,
        eviction: &Eviction,
        context: &Context,
        gone: &[(AppName, InstanceId)],
    ) -> Said {
        if !context.expiration_enabled {
            assert!(gone.is_empty(), "nothing expires under protection");
            return Said::Evicted(0, 0);
        }
        let is_over = |entry: &Entry| entry.is_over(context.now.mono, eviction.extra_ms);
        let expired = self.entries.iter().filter(|entry| is_over(entry)).count();
        let size = self.entries.len();
        let kept = (size as f64 * eviction.renewal_percent_threshold).floor() as usize;
        for (app, id) in gone {
            let place = self.find(app, id).expect("who is evicted was there");
            assert!(is_over(&self.entries[place]), "who is evicted is over");
            self.cancel(app, id, context.now);
            // What expired is not remembered as cancelled.
            self.cancelled.pop();
        }
        Said::Evicted(expired.min(size - kept), expired)
    }

    /// Holds the registry to this list.
    pub(crate) fn compare(&self, registry: &Registry) {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|e| (e.instance.app.clone(), e.instance.id()));
        let stored: Vec<Entry> = registry.leases().map(Entry::from).collect();
        assert_eq!(stored.iter().collect::<Vec<_>>(), entries);
        assert_eq!(registry.len(), entries.len() as u64);

        for entry in &entries {
            let (app, id) = (&entry.instance.app, entry.instance.id());
            assert_eq!(registry.override_of(app, &id), self.override_of(app, &id));
        }
        assert_eq!(registry.overrides().count(), self.overrides.len());
        let statuses = entries.iter().map(|entry| &entry.instance.status);
        assert_eq!(registry.hash_code(), hash_code_of(statuses));
        for is_secure in [false, true] {
            for address in ["a", "b", "c", "a,b", ""] {
                let found = registry.vip(address, is_secure);
                let found: Vec<AppName> = found
                    .into_iter()
                    .flat_map(|(_, apps)| apps.cloned())
                    .collect();
                let has_vip = |entry: &&&Entry| {
                    let list = if is_secure {
                        &entry.instance.secure_vip_address
                    } else {
                        &entry.instance.vip_address
                    };
                    let mut parts = list.as_deref().unwrap_or("").split(',');
                    !address.is_empty() && parts.any(|part| part == address)
                };
                let mut apps: Vec<AppName> = entries
                    .iter()
                    .filter(has_vip)
                    .map(|entry| entry.instance.app.clone())
                    .collect();
                apps.dedup();
                assert_eq!(found, apps, "{address}");
            }
        }
    }
}

impl From<&Arc<Lease>> for Entry {
    fn from(lease: &Arc<Lease>) -> Self {
        Self {
            instance: (**lease.instance()).clone(),
            reported: lease.image.reported,
            duration_ms: lease.image.duration_ms,
            registered_at: lease.image.registered_at,
            service_up_at: lease.image.service_up_at,
            renewed: Now {
                wall: lease.clock.renewed_wall(),
                mono: lease.clock.renewed(),
            },
        }
    }
}

impl Entry {
    /// 5.1.
    fn is_over(&self, now: Millis, extra_ms: u64) -> bool {
        now.0 > self.renewed.mono.0 + self.duration_ms + extra_ms
    }

    fn renew(&mut self, now: Now, expiry: LeaseExpiry) {
        let ahead = match expiry {
            LeaseExpiry::Exact => 0,
            LeaseExpiry::Eureka => self.duration_ms,
        };
        self.renewed = Now {
            wall: now.wall.plus(ahead),
            mono: now.mono.plus(ahead),
        };
    }

    fn mark_up(&mut self, now: Now) {
        if self.instance.status == Status::Up && self.service_up_at == Millis::ZERO {
            self.service_up_at = now.wall;
        }
    }
}

trait Touch {
    fn touch(&mut self, action: ActionType, now: Now);
    fn raise(&mut self, dirty: Option<i64>);
}

impl Touch for Instance {
    fn touch(&mut self, action: ActionType, now: Now) {
        self.action_type = Some(action);
        self.last_updated_timestamp = shown(now.wall.0).max(self.last_updated_timestamp + 1);
    }

    fn raise(&mut self, dirty: Option<i64>) {
        if let Some(dirty) = dirty
            && dirty > self.last_dirty_timestamp
        {
            self.last_dirty_timestamp = dirty;
        }
    }
}
