//! How leases go: what a removal is, which ones an eviction run takes (`protocol.md` 5.4: all that are
//! over, but never more than the share that self-preservation tolerates, chosen at random when there
//! are more), and what follows when one ran out on another node.

use std::sync::Arc;

use crate::registry::change::{Change, ChangeKind, LeaseImage, OverrideEffect};
use crate::registry::command::{Context, Decision, Eviction, Reply};
use crate::registry::decide::change_of;
use crate::registry::instance::ActionType;
use crate::registry::lease::Lease;
use crate::registry::version::{self, Version};
use crate::registry::{Registry, Tombstone};
use crate::types::{AppName, InstanceId, Millis};

impl Registry {
    /// A lease that goes. Its override goes with it, but for a quarantine's, which waits for the next.
    pub(super) fn removal(&self, kind: ChangeKind, lease: &Lease, context: &Context) -> Change {
        let mut instance = (**lease.instance()).clone();
        instance.action_type = Some(ActionType::Deleted);
        instance.last_updated_timestamp =
            version::after(context.now.wall, instance.last_updated_timestamp);
        let (app, id) = (instance.app.clone(), instance.id());
        let image = LeaseImage {
            instance: Arc::new(instance),
            evicted_at: context.now.wall,
            ..lease.to_image()
        };
        let effect = if self.is_quarantined(&app, &id) {
            OverrideEffect::Keep
        } else {
            OverrideEffect::Remove
        };
        Change {
            hold_effect: self.hold_ends(&app, &id, context),
            ..change_of(kind, image, effect, true)
        }
    }

    /// `protocol.md` 5.4: each eviction is a cancel of its own.
    pub(super) fn decide_eviction(&self, eviction: &Eviction, context: &Context) -> Decision {
        if !context.expiration_enabled {
            return Decision::reply(Reply::Evicted {
                evicted: 0,
                expired: 0,
            });
        }
        let (leases, expired) = choose(self, eviction, context.now.mono);
        let changes: Vec<Change> = leases
            .iter()
            .map(|lease| self.removal(ChangeKind::Evicted, lease, context))
            .collect();
        let reply = Reply::Evicted {
            evicted: changes.len(),
            expired,
        };
        Decision {
            changes,
            ..Decision::reply(reply)
        }
    }

    /// Evictions are not replicated (`protocol.md` 3.4). A node of our own kind that finds by a
    /// comparison that a lease ran out elsewhere ends it too, whatever protects leases here: no more is
    /// known of the client here than there.
    pub(super) fn decide_expiry(
        &self,
        app: &AppName,
        id: &InstanceId,
        version: Version,
        context: &Context,
    ) -> Decision {
        let Some(lease) = self.lease(app.as_str(), id.as_str()) else {
            return Decision::reply(Reply::NotFound);
        };
        let expired = Tombstone {
            version,
            is_cancelled: false,
            at: context.now.wall,
        };
        let registered = Version::of_registration(&lease.image);
        if !expired.ends(registered, lease.is_vouched(context.now.mono)) {
            return Decision::reply(Reply::Conflict(lease.clone()));
        }
        Decision::change(self.removal(ChangeKind::Evicted, lease, context))
    }
}

/// The leases to evict at `now` (monotonic), and how many are over in all.
fn choose(registry: &Registry, eviction: &Eviction, now: Millis) -> (Vec<Arc<Lease>>, usize) {
    let mut expired: Vec<Arc<Lease>> = registry
        .leases()
        .filter(|lease| lease.is_expired(now, eviction.extra_ms))
        .cloned()
        .collect();
    let found = expired.len();
    let count = found.min(limit(registry.len(), eviction.renewal_percent_threshold));
    let mut random = SplitMix(eviction.seed);
    for place in 0..count {
        let other = place + random.below(found - place);
        expired.swap(place, other);
    }
    expired.truncate(count);
    (expired, found)
}

/// `size - floor(size * percent)`: with 1 to 6 instances and 85 % always one.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count far below 2^52; `as` saturates"
)]
fn limit(size: u64, percent: f64) -> usize {
    let kept = (size as f64 * percent.clamp(0.0, 1.0)).floor() as u64;
    usize::try_from(size.saturating_sub(kept)).unwrap_or(usize::MAX)
}

/// A small generator with a fixed sequence per seed, so that a run can be repeated. Not for secrets.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, near enough to uniform for a choice among leases.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_threshold_leaves_over() {
        assert_eq!(limit(1, 0.85), 1);
        assert_eq!(limit(6, 0.85), 1);
        assert_eq!(limit(21, 0.85), 4);
        assert_eq!(limit(17, 0.85), 3);
        assert_eq!(limit(100, 0.0), 100);
        assert_eq!(limit(0, 0.85), 0);
    }
}
