//! A lease: an instance and the clock that says until when it counts as alive.
//!
//! The lease itself is immutable and replaced by changes; its [`LeaseClock`] is shared between the
//! versions and is the one thing that renewals touch: two atomics, no lock, no record in the log
//! (design 1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::registry::change::LeaseImage;
use crate::registry::instance::Instance;
use crate::registry::rules::LeaseExpiry;
use crate::types::{Lsn, Millis, Now};

/// A registered instance with its lease.
#[derive(Clone, Debug)]
pub struct Lease {
    /// What the log knows of it.
    pub image: LeaseImage,
    pub clock: Arc<LeaseClock>,
    /// Position of the last change.
    pub lsn: Lsn,
}

impl Lease {
    pub fn instance(&self) -> &Arc<Instance> {
        &self.image.instance
    }

    /// Whether the lease is over at `now` with `extra_ms` of grace (`protocol.md` 5.1).
    pub fn is_expired(&self, now: Millis, extra_ms: u64) -> bool {
        let due = self
            .clock
            .renewed()
            .plus(self.image.duration_ms)
            .plus(extra_ms);
        self.image.evicted_at > Millis::ZERO || now > due
    }

    /// Milliseconds until the lease is over, 0 if it is.
    pub fn remaining_ms(&self, now: Millis) -> u64 {
        self.clock.renewed().plus(self.image.duration_ms).since(now)
    }

    /// Renews the lease. The original sets the last renewal one duration into the future, so that
    /// a renewed lease lives twice as long; `expiry` says whether to do the same.
    pub fn renew(&self, now: Now, expiry: LeaseExpiry) {
        let ahead = match expiry {
            LeaseExpiry::Exact => 0,
            LeaseExpiry::Eureka => self.image.duration_ms,
        };
        self.clock.set(Now {
            wall: now.wall.plus(ahead),
            mono: now.mono.plus(ahead),
        });
    }

    /// The lease as it is to be stored, with the clock's last renewal.
    pub fn to_image(&self) -> LeaseImage {
        LeaseImage {
            renewed_at: self.clock.renewed_wall(),
            ..self.image.clone()
        }
    }
}

/// When a lease was renewed last, on both clocks. Relaxed order is enough: nothing else is
/// published through these two, and a reader that sees one new and one old value is off by one
/// renewal, as it would be a microsecond earlier.
#[derive(Debug)]
pub struct LeaseClock {
    mono: AtomicU64,
    wall: AtomicU64,
    by_client: AtomicU64,
}

impl LeaseClock {
    pub fn new(renewed: Now) -> Self {
        Self {
            mono: AtomicU64::new(renewed.mono.0),
            wall: AtomicU64::new(renewed.wall.0),
            by_client: AtomicU64::new(0),
        }
    }

    /// Monotonic time of the last renewal; decides expiry.
    pub fn renewed(&self) -> Millis {
        Millis(self.mono.load(Ordering::Relaxed))
    }

    /// Wall time of the last renewal; shown as `lastRenewalTimestamp`.
    pub fn renewed_wall(&self) -> Millis {
        Millis(self.wall.load(Ordering::Relaxed))
    }

    /// Monotonic time of the last renewal that the client itself brought to this node, 0 if none:
    /// what peers have to be told.
    pub fn renewed_by_client(&self) -> Millis {
        Millis(self.by_client.load(Ordering::Relaxed))
    }

    pub fn set_renewed_by_client(&self, mono: Millis) {
        self.by_client.store(mono.0, Ordering::Relaxed);
    }

    pub fn set(&self, renewed: Now) {
        self.mono.store(renewed.mono.0, Ordering::Relaxed);
        self.wall.store(renewed.wall.0, Ordering::Relaxed);
    }

    /// Gives the lease a full duration from `mono` on, without touching what is shown: the grace
    /// of a lease that was recovered (design 2).
    pub fn restart(&self, mono: Millis) {
        self.mono.store(mono.0, Ordering::Relaxed);
    }
}
