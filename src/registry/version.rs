//! Which of two states of an instance is the newer one, so that nodes which exchange their states end
//! up with the same whatever the order and however often (design 4).
//!
//! The client's `lastDirtyTimestamp` decides, as everywhere in the protocol. Among equals the later
//! change of a server does: `lastUpdatedTimestamp` never falls with a change, whatever the clocks of
//! the nodes say ([`after`]), and travels with the instance. States that two nodes made of the same
//! one in the same millisecond are told apart by what they say ([`tie`]).

use crate::registry::change::LeaseImage;
use crate::registry::instance::Instance;
use crate::registry::status::Status;
use crate::types::Millis;

/// A peer's clock is believed up to so far ahead, ms: a wild one must not use up the numbers. Wide, since
/// [`after_cancel`] runs ahead of the clock.
const AHEAD_MAX_MS: i64 = 10 * 365 * 24 * 3_600_000;
/// How long after a cancel, by the clocks of the servers, a registration without a newer dirty timestamp
/// still counts as the one that was cancelled, ms. Clocks of nodes are expected to differ by less.
const CANCEL_REACHES_MS: i64 = 600_000;
/// How much later another node may have heard of a cancel of its own of the same instance, ms: it compares what
/// is registered afterwards with that one.
const OTHER_CANCEL_MS: i64 = 240_000;

/// The version of an instance: the greater one is the newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The client's, ms.
    pub dirty: i64,
    /// Of the last change by a server, ms.
    pub updated: i64,
}

impl Version {
    pub fn of(instance: &Instance) -> Self {
        Self {
            dirty: instance.last_dirty_timestamp,
            updated: instance.last_updated_timestamp,
        }
    }

    /// The version that a cancel has to reach: that of the registration. What operators do to an
    /// instance afterwards does not keep it from being cancelled.
    pub fn of_registration(image: &LeaseImage) -> Self {
        Self::of(&image.instance).as_registered(image.registered_at.signed())
    }

    /// The version that was registered at this time, of one that may have been changed since.
    pub(super) fn as_registered(self, registered: i64) -> Self {
        Self {
            updated: self.updated.min(registered),
            ..self
        }
    }

    /// Whether what was registered in this version is what a removal in version `removed` is about.
    /// A newer description is not; nor is a registration at a node that knew of the cancel, which says
    /// so by its time ([`after_cancel`]).
    pub fn is_before_removal(self, removed: Self) -> bool {
        let reached = removed.updated.saturating_add(CANCEL_REACHES_MS);
        self.dirty <= removed.dirty && self.updated < reached
    }
}

/// The time of a change at `now` to what was changed at `previous` before.
pub(super) fn after(now: Millis, previous: i64) -> i64 {
    now.signed().max(previous.saturating_add(1))
}

/// The earliest time of a registration of version `dirty` after a cancel that is known. Clients that keep
/// their version, or whose clock was put back, register again with the same or an older one: their
/// registration has to tell all nodes, whatever the clocks say, that it is no late news of the one before.
pub(super) fn after_cancel(dirty: i64, cancelled: Version) -> i64 {
    let reach = if dirty > cancelled.dirty {
        1
    } else {
        CANCEL_REACHES_MS + OTHER_CANCEL_MS
    };
    cancelled.updated.saturating_add(reach)
}

/// The time of a change that a peer made, within bounds. 0 means that it did not say.
pub(super) fn told(now: Millis, theirs: i64) -> i64 {
    if theirs <= 0 {
        return now.signed();
    }
    theirs.min(now.signed().saturating_add(AHEAD_MAX_MS))
}

/// What is compared between two states of the same version: an order that all nodes share. An
/// operator's word outranks none, and a status that follows it one that does not yet.
pub(super) fn tie(instance: &Instance) -> impl Ord {
    let overridden = instance.overridden_status;
    let mut metadata: Vec<_> = instance
        .metadata
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    metadata.sort();
    (
        (
            overridden != Status::Unknown,
            overridden,
            instance.status == overridden,
            instance.status,
        ),
        metadata,
        (
            instance.host_name.clone(),
            instance.ip_addr.clone(),
            instance.port.number,
            instance.secure_port.number,
        ),
        (
            instance.vip_address.clone(),
            instance.secure_vip_address.clone(),
            instance.home_page_url.clone(),
            instance.health_check_url.clone(),
        ),
        (
            instance.lease.duration_secs,
            instance.lease.renewal_interval_secs,
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_later_than_what_it_changes_whatever_the_clock_says() {
        assert_eq!(after(Millis(500), 100), 500);
        assert_eq!(after(Millis(50), 100), 101);
        assert_eq!(after(Millis(100), 100), 101);
        assert_eq!(after(Millis(0), i64::MAX), i64::MAX);
    }

    #[test]
    fn a_peer_whose_clock_is_wild_is_believed_for_ten_years() {
        assert_eq!(told(Millis(1000), 5000), 5000);
        assert_eq!(told(Millis(1000), 0), 1000);
        assert_eq!(told(Millis(1000), i64::MAX), 1000 + AHEAD_MAX_MS);
    }
}
