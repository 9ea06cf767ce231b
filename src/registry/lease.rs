//! A lease: an instance and the clock that says until when it counts as alive.
//!
//! The lease itself is immutable and replaced by changes; its [`LeaseClock`] is shared between the
//! versions and is the one thing that renewals touch: two atomics, no lock, no record in the log
//! (design 1).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

    /// For how long a sign of life that reached this node still vouches for the instance, ms; 0 while
    /// the lease runs on a grace.
    pub fn vouched_ms(&self, now: Millis) -> u64 {
        if self.clock.is_grace() {
            0
        } else {
            self.remaining_ms(now)
        }
    }

    /// Whether it is known here that the instance lives, so that it stays though its lease ran out on
    /// another node ([`is_vouched`]).
    pub fn is_vouched(&self, now: Millis) -> bool {
        is_vouched(self.vouched_ms(now), self.image.duration_ms)
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

    /// Lets the lease run for `vouched_ms` more, as another node vouches for.
    pub fn run_for(&self, now: Now, vouched_ms: u64) {
        let duration_ms = self.image.duration_ms;
        self.clock.set(Now {
            wall: renewed_for(now.wall, vouched_ms, duration_ms),
            mono: renewed_for(now.mono, vouched_ms, duration_ms),
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

/// Whether a lease that runs for so many ms on a sign of life is known to be alive. In its last
/// quarter it is not: nodes learn of a renewal one after the other, and what is left by then of a lease
/// whose client is silent must not weigh against a node where it is over.
pub(super) fn is_vouched(vouched_ms: u64, duration_ms: u64) -> bool {
    vouched_ms > duration_ms / 4
}

/// When a lease was renewed last that runs for so many ms more at `now`; [`LeaseClock::of_change`] finds
/// its end in it. A renewed lease lives twice as long at most ([`Lease::renew`]).
pub(super) fn renewed_for(now: Millis, vouched_ms: u64, duration_ms: u64) -> Millis {
    let ends = now.plus(vouched_ms.min(duration_ms.saturating_mul(2)));
    Millis(ends.since(Millis(duration_ms)))
}

/// When a lease was renewed last, on both clocks. Relaxed order is enough: nothing else is
/// published through these two, and a reader that sees one new and one old value is off by one
/// renewal, as it would be a microsecond earlier.
#[derive(Debug)]
pub struct LeaseClock {
    mono: AtomicU64,
    wall: AtomicU64,
    by_client: AtomicU64,
    is_grace: AtomicBool,
}

impl LeaseClock {
    pub fn new(renewed: Now) -> Self {
        Self {
            mono: AtomicU64::new(renewed.mono.0),
            wall: AtomicU64::new(renewed.wall.0),
            by_client: AtomicU64::new(0),
            is_grace: AtomicBool::new(false),
        }
    }

    /// The clock of a lease that starts with a change at `at` (wall, and `mono` on the other clock).
    /// What the change knows of its last renewal may be older or, as the original counts, lie ahead:
    /// the lease runs to the same end ([`renewed_for`]). One that nobody vouches for any more gets a grace instead.
    pub fn of_change(image: &LeaseImage, at: Millis, mono: Millis) -> Self {
        let wall = image.renewed_at;
        let vouched_ms = wall.plus(image.duration_ms).since(at);
        if !is_vouched(vouched_ms, image.duration_ms) {
            let clock = Self::new(Now { wall, mono });
            clock.is_grace.store(true, Ordering::Relaxed);
            return clock;
        }
        let mono = mono.plus(wall.since(at)).0.saturating_sub(at.since(wall));
        Self::new(Now {
            wall,
            mono: Millis(mono),
        })
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

    /// Whether the lease runs only because nobody knows better: it was recovered, or taken over from a
    /// node that did not know either, and no sign of life came since.
    pub fn is_grace(&self) -> bool {
        self.is_grace.load(Ordering::Relaxed)
    }

    pub fn set(&self, renewed: Now) {
        self.mono.store(renewed.mono.0, Ordering::Relaxed);
        self.wall.store(renewed.wall.0, Ordering::Relaxed);
        self.is_grace.store(false, Ordering::Relaxed);
    }

    /// Gives the lease a full duration from `mono` on, without touching what is shown: the grace
    /// of a lease that was recovered (design 2).
    pub fn restart(&self, mono: Millis) {
        self.is_grace.store(true, Ordering::Relaxed);
        self.mono.store(mono.0, Ordering::Relaxed);
    }
}
