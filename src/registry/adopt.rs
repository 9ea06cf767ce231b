//! What follows when a node of our own kind tells its state of an instance
//! ([`super::command::Command::Adopt`]). The newer state stays ([`super::version`]), so it makes no
//! difference in which order or how often states arrive: a late or repeated request undoes nothing.
//! What a registration has to say of its time for that to work is here too.

use std::cmp::Ordering;
use std::sync::Arc;

use super::change::{Change, ChangeKind, HoldEffect, LeaseImage, OverrideEffect};
use super::command::{Adoption, Context, Decision, Overrides, Reply};
use super::decide::{duration_ms, first_up, reported_status};
use super::instance::{ActionType, Instance};
use super::lease::{Lease, is_vouched, renewed_for};
use super::rules::ReplicatedVersion;
use super::status::{Status, effective};
use super::version::{self, Version};
use super::{Recalled, Registry};
use crate::types::{AppName, InstanceId, Millis};

impl Registry {
    /// The time of a registration: later than the state that it replaces and than the cancel of one
    /// before it, whatever the clocks of other nodes said of those. A peer's registration keeps the
    /// time that it had there ([`ReplicatedVersion::Kept`]).
    pub(super) fn registration_time(
        &self,
        sent: &Instance,
        existing: Option<&Arc<Lease>>,
        context: &Context,
    ) -> i64 {
        let now = context.now.wall;
        let keeps = self.rules.replicated_version == ReplicatedVersion::Kept;
        let made = if context.is_replication && keeps {
            version::told(now, sent.last_updated_timestamp)
        } else {
            now.signed()
        };
        let replaced = existing.map(|lease| lease.instance().last_updated_timestamp);
        let cancelled = self.cancelled_version(&sent.app, &sent.id());
        let earliest = cancelled
            .map(|cancelled| version::after_cancel(sent.last_dirty_timestamp, cancelled))
            .into_iter()
            .chain(replaced.map(|replaced| replaced.saturating_add(1)))
            .max();
        made.max(earliest.unwrap_or(0))
    }

    /// What was cancelled last of an instance that is not there.
    pub(super) fn cancelled_version(&self, app: &AppName, id: &InstanceId) -> Option<Version> {
        self.tombstone(app, id)
            .filter(|stone| stone.is_cancelled)
            .map(|stone| stone.version)
    }

    pub(super) fn decide_adopt(&self, adoption: &Adoption, context: &Context) -> Decision {
        let mut sent = (*adoption.instance).clone();
        sent.last_updated_timestamp = version::told(context.now.wall, sent.last_updated_timestamp);
        let registered = version::told(context.now.wall, adoption.registered);
        let (app, id) = (sent.app.clone(), sent.id());
        let duration_ms = duration_ms(sent.lease.duration_secs);
        let vouched_ms = adoption.vouched_ms.unwrap_or(duration_ms);
        let is_vouched = is_vouched(vouched_ms, duration_ms);
        let Some(existing) = self.lease(app.as_str(), id.as_str()) else {
            let born = Version::of(&sent).as_registered(registered);
            // It was cancelled here after it was registered, or ran out and nobody knows better: whoever
            // sent it learns that by a comparison.
            let stone = self.tombstone(&app, &id);
            let recalled = stone.map_or(adoption.recalled, |stone| Recalled::Removed(*stone));
            if recalled.keeps_out(born, is_vouched) {
                return Decision::reply(Reply::Done);
            }
            return self.take(sent, registered, vouched_ms, None, context);
        };
        let mine = existing.instance();
        let known_ms = existing.vouched_ms(context.now.mono);
        let prolongs =
            (is_vouched && vouched_ms > known_ms).then(|| (existing.clone(), vouched_ms));
        let order = Version::of(mine)
            .cmp(&Version::of(&sent))
            .then_with(|| version::tie(mine).cmp(&version::tie(&sent)));
        match order {
            Ordering::Greater => Decision::reply(Reply::Conflict(existing.clone())),
            Ordering::Equal => Decision {
                prolongs,
                ..Decision::reply(Reply::Done)
            },
            Ordering::Less => {
                if adoption.overrides == Overrides::Merged {
                    keep_override(existing, &mut sent);
                }
                let vouched_ms = vouched_ms.max(known_ms);
                Decision {
                    prolongs,
                    ..self.take(sent, registered, vouched_ms, Some(existing), context)
                }
            }
        }
    }

    /// The state is taken over. A lease that starts with it runs as long as somebody vouches for it.
    fn take(
        &self,
        mut instance: Instance,
        registered: i64,
        vouched_ms: u64,
        existing: Option<&Arc<Lease>>,
        context: &Context,
    ) -> Decision {
        let (app, id) = (instance.app.clone(), instance.id());
        self.keep_quarantine(&mut instance);
        let reported = reported_status(&instance, existing);
        let overridden = Some(instance.overridden_status).filter(|s| *s != Status::Unknown);
        instance.status = effective(instance.status, overridden, None, true);
        let before = self.override_of(&app, &id);
        let override_effect = match overridden {
            Some(status) if before == Some(status) => OverrideEffect::Keep,
            Some(status) => OverrideEffect::Set(status),
            None if before.is_some() => OverrideEffect::Remove,
            None => OverrideEffect::Keep,
        };
        let kind = match (existing, override_effect) {
            (None, _) => ChangeKind::Registered,
            (Some(_), OverrideEffect::Keep) => ChangeKind::Reregistered,
            (Some(_), OverrideEffect::Set(_)) => ChangeKind::OverrideSet,
            (Some(_), OverrideEffect::Remove) => ChangeKind::OverrideLifted,
        };
        instance.action_type = Some(if kind.restarts_lease() {
            ActionType::Added
        } else {
            ActionType::Modified
        });
        let up_before = existing.map_or(Millis::ZERO, |lease| lease.image.service_up_at);
        let service_up_at = first_up(up_before, instance.status, context);
        let duration_ms = duration_ms(instance.lease.duration_secs);
        let image = LeaseImage {
            reported,
            duration_ms,
            registered_at: Millis(u64::try_from(registered).unwrap_or(0)),
            service_up_at,
            evicted_at: Millis::ZERO,
            renewed_at: renewed_for(context.now.wall, vouched_ms, duration_ms),
            instance: Arc::new(instance),
        };
        let change = Change {
            kind,
            lease: Some(image),
            override_effect,
            hold_effect: if overridden == Some(Status::OutOfService) {
                HoldEffect::Keep
            } else {
                self.hold_ends(&app, &id, context)
            },
            app,
            id,
            visible: true,
        };
        Decision::change(change)
    }
}

/// The instance described itself anew at a node that may not have heard of the override that holds
/// here. It goes on holding, and the state with it is a newer one than either was.
fn keep_override(existing: &Lease, sent: &mut Instance) {
    let mine = existing.instance();
    let is_new_description = sent.last_dirty_timestamp > mine.last_dirty_timestamp;
    if !is_new_description
        || mine.overridden_status == Status::Unknown
        || sent.overridden_status != Status::Unknown
    {
        return;
    }
    sent.overridden_status = mine.overridden_status;
    let latest = sent.last_updated_timestamp.max(mine.last_updated_timestamp);
    sent.last_updated_timestamp = latest.saturating_add(1);
}
