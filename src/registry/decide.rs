//! The rules: what follows from a command (`protocol.md` 3). Nothing here changes anything; a
//! decision lists the changes that [`super::Registry::evolve`] would apply.

use std::sync::Arc;

use super::Registry;
use super::change::{Change, ChangeKind, HoldEffect, LeaseImage, OverrideEffect};
use super::command::{Command, Context, Decision, Renewal, Reply};
use super::instance::{ActionType, Instance};
use super::lease::Lease;
use super::rules::{
    MetadataUpdate, OverrideLift, OverrideScope, ReplicatedVersion, SameStatusOverride,
    StatusByRenewal, UnknownOverride,
};
use super::status::{Status, effective};
use super::version::{self, Version};
use crate::types::{AppName, InstanceId, Millis};

impl Registry {
    /// What follows from `command` in this state. Pure: the same state, command and context give
    /// the same decision.
    pub fn decide(&self, command: &Command, context: &Context) -> Decision {
        match command {
            Command::Register(instance) => self.decide_register(instance, context),
            Command::Renew { app, id, renewal } => {
                self.decide_renewal(app.as_str(), id.as_str(), *renewal, context)
            }
            Command::Adopt(adoption) => self.decide_adopt(adoption, context),
            Command::Cancel { app, id, version } => self.decide_cancel(app, id, *version, context),
            Command::Expire { app, id, version } => self.decide_expiry(app, id, *version, context),
            Command::SetStatus {
                app,
                id,
                status,
                dirty,
            } => self.decide_set_status(app, id, *status, *dirty, context),
            Command::DeleteOverride {
                app,
                id,
                status,
                dirty,
            } => self.decide_delete_override(app, id, *status, *dirty, context),
            Command::UpdateMetadata { app, id, entries } => {
                self.decide_metadata(app, id, entries, context)
            }
            Command::Evict(eviction) => self.decide_eviction(eviction, context),
            Command::Hold { app, id, hold } => self.decide_hold(app, id, hold, context),
            Command::EndHolds(kind) => self.decide_ended_holds(*kind, context),
        }
    }

    /// `protocol.md` 3.2. The older of two descriptions loses, but the lease starts anew either way.
    fn decide_register(&self, sent: &Arc<Instance>, context: &Context) -> Decision {
        let (app, id) = (sent.app.clone(), sent.id());
        let existing = self.lease(app.as_str(), id.as_str());
        if existing.is_none()
            && !context.is_replication
            && let Some(most) = self.rules.instances_max
            && self.len() >= most
        {
            return Decision::reply(Reply::TooManyInstances(most));
        }
        let kept =
            existing.filter(|e| e.instance().last_dirty_timestamp > sent.last_dirty_timestamp);
        let mut instance = (**kept.map_or(sent, |lease| lease.instance())).clone();
        let reported = match kept {
            Some(lease) => lease.image.reported,
            None => reported_status(sent, existing),
        };

        if let Some(sibling) = self.app(app.as_str()).and_then(|app| app.leases().next()) {
            instance.share_texts(sibling.instance());
        }

        let mut override_effect = OverrideEffect::Keep;
        let mut override_ = self.override_of(&app, &id);
        if let Some(status) = override_ {
            instance.overridden_status = status;
        } else if instance.overridden_status != Status::Unknown {
            override_ = Some(instance.overridden_status);
            override_effect = OverrideEffect::Set(instance.overridden_status);
        }
        let existing_status = existing.map(|lease| lease.instance().status);
        instance.status = effective(
            instance.status,
            override_,
            existing_status,
            context.is_replication,
        );
        instance.action_type = Some(ActionType::Added);
        let registered = self.registration_time(sent, existing, context);
        // Overrides went with a lease that is known to be cancelled: a state that says so is later than the
        // registration (`LeaseImage::is_untouched`).
        let was_cancelled = self.cancelled_version(&app, &id).is_some();
        let is_anew = was_cancelled && !context.is_replication;
        instance.last_updated_timestamp = registered.saturating_add(i64::from(is_anew));

        let up_before = existing.map_or(Millis::ZERO, |lease| lease.image.service_up_at);
        let service_up_at = first_up(up_before, instance.status, context);
        let image = LeaseImage {
            reported,
            duration_ms: duration_ms(sent.lease.duration_secs),
            // Of a peer's registration it is when it became known here; the cancel of the one before
            // it, which that peer may not have heard of, was earlier all the same.
            registered_at: if context.is_replication && !was_cancelled {
                context.now.wall
            } else {
                Millis(u64::try_from(registered).unwrap_or(0))
            },
            service_up_at,
            evicted_at: Millis::ZERO,
            renewed_at: context.now.wall,
            instance: Arc::new(instance),
        };
        let kind = match existing {
            Some(_) => ChangeKind::Reregistered,
            None => ChangeKind::Registered,
        };
        let change = Change {
            app,
            id,
            kind,
            lease: Some(image),
            override_effect,
            hold_effect: HoldEffect::Keep,
            visible: true,
        };
        Decision {
            changes: vec![change],
            ..Decision::reply(Reply::Done)
        }
    }

    /// `protocol.md` 1.8 and 3.3. Takes plain texts, so that a heartbeat that changes nothing
    /// allocates nothing; names are upper case already.
    pub fn decide_renewal(
        &self,
        app: &str,
        id: &str,
        renewal: Renewal,
        context: &Context,
    ) -> Decision {
        let Some(lease) = self.lease(app, id) else {
            return Decision::reply(Reply::NotFound);
        };
        let instance = lease.instance();
        let override_ = if self.overrides.is_empty() {
            None
        } else {
            self.override_of(&instance.app, &instance.id())
        };
        let status = effective(
            instance.status,
            override_,
            Some(instance.status),
            context.is_replication,
        );
        if status == Status::Unknown {
            // "Status deleted, register again."
            return Decision::reply(Reply::NotFound);
        }
        let mut decision = Decision {
            reply: Reply::Done,
            changes: Vec::new(),
            renews: Some(lease.clone()),
            prolongs: None,
            counts: true,
        };
        if status != instance.status {
            decision
                .changes
                .push(self.status_restored(lease, status, context));
        }
        self.compare_versions(lease, renewal, context.is_replication, &mut decision);
        decision
    }

    fn status_restored(&self, lease: &Lease, status: Status, context: &Context) -> Change {
        let is_visible = self.rules.status_by_renewal == StatusByRenewal::Change;
        let mut instance = (**lease.instance()).clone();
        instance.status = status;
        let mut image = lease.to_image();
        if is_visible {
            mark_modified(&mut instance, context);
            image.service_up_at = first_up(image.service_up_at, status, context);
        }
        image.instance = Arc::new(instance);
        change_of(
            ChangeKind::StatusRestored,
            image,
            OverrideEffect::Keep,
            is_visible,
        )
    }

    /// The table of `protocol.md` 1.8; the lease is renewed in every row of it. Whether it had
    /// expired plays no part: the renewal comes first and brings it back.
    fn compare_versions(
        &self,
        lease: &Arc<Lease>,
        renewal: Renewal,
        is_replication: bool,
        decision: &mut Decision,
    ) {
        let Some(theirs) = renewal.dirty else { return };
        let instance = lease.instance();
        let ours = instance.last_dirty_timestamp;
        if theirs == ours || !self.rules.sync_when_timestamp_differs {
            return;
        }
        if theirs > ours {
            decision.reply = Reply::SenderIsNewer;
            let overridden = renewal.overridden.filter(|s| *s != Status::Unknown);
            if let Some(status) = overridden.filter(|_| is_replication)
                && self.override_of(&instance.app, &instance.id()) != Some(status)
                && !self.is_quarantined(&instance.app, &instance.id())
            {
                // On top of a status that the same renewal restored.
                let restored = decision.changes.last().and_then(|c| c.lease.clone());
                let image = restored.unwrap_or_else(|| lease.to_image());
                decision.changes.push(self.override_stored(image, status));
            }
        } else if is_replication {
            decision.reply = Reply::Conflict(lease.clone());
        }
    }

    /// "Store override if required" (`protocol.md` 3.6): the status follows at the next renewal.
    fn override_stored(&self, mut image: LeaseImage, status: Status) -> Change {
        let is_visible = self.rules.status_by_renewal == StatusByRenewal::Change;
        let mut instance = (*image.instance).clone();
        instance.overridden_status = status;
        image.instance = Arc::new(instance);
        change_of(
            ChangeKind::OverrideStored,
            image,
            OverrideEffect::Set(status),
            is_visible,
        )
    }

    /// `protocol.md` 3.4.
    fn decide_cancel(
        &self,
        app: &AppName,
        id: &InstanceId,
        cancelled: Option<Version>,
        context: &Context,
    ) -> Decision {
        if let Some(lease) = self.lease(app.as_str(), id.as_str()) {
            let registered = Version::of_registration(&lease.image);
            let cancelled = cancelled.map(|cancelled| Version {
                updated: version::told(context.now.wall, cancelled.updated),
                ..cancelled
            });
            if cancelled.is_some_and(|cancelled| !registered.is_before_removal(cancelled)) {
                return Decision::reply(Reply::Conflict(lease.clone()));
            }
            let mut change = self.removal(ChangeKind::Cancelled, lease, context);
            if let (Some(cancelled), Some(image)) = (cancelled, &mut change.lease) {
                // Both sides remember the same removal.
                let instance = Arc::make_mut(&mut image.instance);
                let reached = Version::of(lease.instance()).max(cancelled);
                instance.last_dirty_timestamp = reached.dirty;
                instance.last_updated_timestamp = reached.updated;
            }
            return Decision {
                changes: vec![change],
                ..Decision::reply(Reply::Done)
            };
        }
        let mut decision = Decision::reply(Reply::NotFound);
        if self.rules.override_scope == OverrideScope::Id
            && self.override_of(app, id).is_some()
            && !self.is_quarantined(app, id)
        {
            decision.changes.push(Change {
                app: app.clone(),
                id: id.clone(),
                kind: ChangeKind::OverrideForgotten,
                lease: None,
                override_effect: OverrideEffect::Remove,
                hold_effect: HoldEffect::Keep,
                visible: false,
            });
        }
        decision
    }

    /// The lease that an operator's request is about: an expired one counts as gone.
    fn visible_lease(
        &self,
        app: &AppName,
        id: &InstanceId,
        context: &Context,
    ) -> Option<&Arc<Lease>> {
        self.lease(app.as_str(), id.as_str())
            .filter(|lease| !context.expiration_enabled || !lease.is_expired(context.now.mono, 0))
    }

    /// `protocol.md` 3.5.
    fn decide_set_status(
        &self,
        app: &AppName,
        id: &InstanceId,
        status: Status,
        dirty: Option<i64>,
        context: &Context,
    ) -> Decision {
        if status == Status::Unknown && self.rules.unknown_override == UnknownOverride::Lift {
            return self.decide_delete_override(app, id, None, dirty, context);
        }
        let Some(lease) = self.visible_lease(app, id, context) else {
            return Decision::reply(Reply::NotFound);
        };
        let mut decision = Decision {
            renews: Some(lease.clone()),
            ..Decision::reply(Reply::Done)
        };
        if status == Status::Up
            && let Some(refused) = self.refused_by_quarantine(app, id, context)
        {
            return refused;
        }
        let is_stored = self.override_of(app, id) == Some(status);
        let is_same = lease.instance().status == status
            && (is_stored || self.rules.same_status_override == SameStatusOverride::Ignored);
        if is_same {
            return decision;
        }
        let mut instance = (**lease.instance()).clone();
        instance.status = status;
        instance.overridden_status = status;
        self.raise_dirty(&mut instance, dirty, context);
        mark_modified(&mut instance, context);
        let mut image = lease.to_image();
        image.service_up_at = first_up(image.service_up_at, status, context);
        image.instance = Arc::new(instance);
        let effect = OverrideEffect::Set(status);
        let mut change = change_of(ChangeKind::OverrideSet, image, effect, true);
        if status != Status::OutOfService {
            change.hold_effect = self.hold_ends(app, id, context);
        }
        decision.changes.push(change);
        decision
    }

    /// `protocol.md` 3.6. Without a value the original leaves UNKNOWN; here the status that the
    /// instance itself reported last comes back. Java peers send UNKNOWN for "no value".
    fn decide_delete_override(
        &self,
        app: &AppName,
        id: &InstanceId,
        status: Option<Status>,
        dirty: Option<i64>,
        context: &Context,
    ) -> Decision {
        let Some(lease) = self.visible_lease(app, id, context) else {
            return Decision::reply(Reply::NotFound);
        };
        let mut decision = Decision {
            renews: Some(lease.clone()),
            ..Decision::reply(Reply::Done)
        };
        if self.override_of(app, id).is_none() {
            return decision;
        }
        if let Some(refused) = self.refused_by_quarantine(app, id, context) {
            return refused;
        }
        let mut instance = (**lease.instance()).clone();
        instance.overridden_status = Status::Unknown;
        instance.status = match (self.rules.override_lift, status) {
            (OverrideLift::Reported, None | Some(Status::Unknown)) => lease.image.reported,
            (OverrideLift::Unknown, None) => Status::Unknown,
            (_, Some(status)) => status,
        };
        self.raise_dirty(&mut instance, dirty, context);
        mark_modified(&mut instance, context);
        let mut image = lease.to_image();
        // The original leaves this to the re-registration that it forces.
        if self.rules.override_lift == OverrideLift::Reported {
            image.service_up_at = first_up(image.service_up_at, instance.status, context);
        }
        image.instance = Arc::new(instance);
        let effect = OverrideEffect::Remove;
        let mut change = change_of(ChangeKind::OverrideLifted, image, effect, true);
        change.hold_effect = self.hold_ends(app, id, context);
        decision.changes.push(change);
        decision
    }

    /// The version only rises (`protocol.md` 3.5).
    fn raise_dirty(&self, instance: &mut Instance, dirty: Option<i64>, context: &Context) {
        let raises = self.rules.replicated_version == ReplicatedVersion::Original;
        if let Some(dirty) = dirty.filter(|_| raises || !context.is_replication) {
            instance.last_dirty_timestamp = instance.last_dirty_timestamp.max(dirty);
        }
    }

    /// `protocol.md` 1.9, or, by default, a change of the metadata alone: its version is raised by
    /// the least that makes it newer than the client's, so that peers take it and older heartbeats
    /// do not undo it, and the client's own next description still replaces it.
    fn decide_metadata(
        &self,
        app: &AppName,
        id: &InstanceId,
        entries: &[(Arc<str>, Arc<str>)],
        context: &Context,
    ) -> Decision {
        let Some(lease) = self.visible_lease(app, id, context) else {
            return Decision::reply(Reply::NotFound);
        };
        let before = &lease.instance().metadata;
        let metadata = before.with(entries.iter().cloned());
        if self.rules.metadata.forbid(before, &metadata) {
            return Decision::reply(Reply::TooMuchMetadata);
        }
        match self.rules.metadata_update {
            MetadataUpdate::Reregister => {
                let instance = Instance {
                    metadata,
                    ..(**lease.instance()).clone()
                };
                let as_client = Context {
                    is_replication: false,
                    ..*context
                };
                let mut decision = self.decide_register(&Arc::new(instance), &as_client);
                for change in &mut decision.changes {
                    if let Some(image) = &mut change.lease {
                        image.reported = lease.image.reported;
                    }
                }
                decision
            }
            MetadataUpdate::Change if metadata == *before => Decision::reply(Reply::Done),
            MetadataUpdate::Change => {
                let mut instance = Instance {
                    metadata,
                    ..(**lease.instance()).clone()
                };
                instance.last_dirty_timestamp = instance.last_dirty_timestamp.saturating_add(1);
                mark_modified(&mut instance, context);
                let image = LeaseImage {
                    instance: Arc::new(instance),
                    ..lease.to_image()
                };
                let kind = ChangeKind::MetadataUpdated;
                let change = change_of(kind, image, OverrideEffect::Keep, true);
                Decision {
                    changes: vec![change],
                    ..Decision::reply(Reply::Done)
                }
            }
        }
    }
}

/// What the client says of itself. A registration that repeats an override as its status (a peer's,
/// or a client's copy of the server's answer) tells nothing about that; then the last word counts.
pub(super) fn reported_status(sent: &Instance, existing: Option<&Arc<Lease>>) -> Status {
    if sent.overridden_status != Status::Unknown && sent.status == sent.overridden_status {
        existing.map_or(Status::Up, |lease| lease.image.reported)
    } else {
        sent.status
    }
}

pub(super) fn change_of(
    kind: ChangeKind,
    image: LeaseImage,
    override_effect: OverrideEffect,
    visible: bool,
) -> Change {
    Change {
        app: image.instance.app.clone(),
        id: image.instance.id(),
        kind,
        lease: Some(image),
        override_effect,
        hold_effect: HoldEffect::Keep,
        visible,
    }
}

/// When an instance was first UP: `before`, or now if it never was and is.
pub(super) fn first_up(before: Millis, status: Status, context: &Context) -> Millis {
    if status == Status::Up && before == Millis::ZERO {
        context.now.wall
    } else {
        before
    }
}

pub(super) fn mark_modified(instance: &mut Instance, context: &Context) {
    instance.action_type = Some(ActionType::Modified);
    instance.last_updated_timestamp =
        version::after(context.now.wall, instance.last_updated_timestamp);
}

/// 64 bits all the way: the original overflows above 2,147,483 s (`protocol.md` 10.2).
pub(super) fn duration_ms(secs: i32) -> u64 {
    u64::try_from(secs)
        .ok()
        .filter(|s| *s > 0)
        .unwrap_or(90)
        .saturating_mul(1000)
}
