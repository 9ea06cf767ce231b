//! Self-preservation: when so few renewals come in that the network is the likelier culprit than
//! the clients, nothing is evicted (`protocol.md` 5.5, 5.6).
//!
//! The original keeps a counter of expected clients that only rises between two updates of a timer,
//! counts one phantom client and assumes one interval for all. Here the expectation is the sum over
//! the leases that exist, each by its own interval, unless [`Thresholds::Eureka`] asks for the old
//! arithmetic.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::registry::Registry;
use crate::registry::rules::Thresholds;
use crate::types::Millis;

/// Settings of self-preservation, from `eureka.server.*`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub enabled: bool,
    /// Share of the expected renewals below which nothing expires.
    pub renewal_percent_threshold: f64,
    /// The common interval that [`Thresholds::Eureka`] assumes, seconds.
    pub expected_client_renewal_interval_secs: u64,
    /// After this long under protection leases expire all the same, ms; 0 means never.
    pub max_protection_ms: u64,
}

/// Renewals per minute at or below which leases do not expire.
pub fn threshold(registry: &Registry, settings: &Settings, phantom_clients: u64) -> u64 {
    let expected = match registry.rules().thresholds {
        Thresholds::Leases => registry.expected_renewals_per_minute(),
        Thresholds::Eureka => {
            let interval = settings.expected_client_renewal_interval_secs.max(1);
            let clients = registry.len().saturating_add(phantom_clients);
            to_f64(clients) * (60.0 / to_f64(interval))
        }
    };
    to_u64(expected * settings.renewal_percent_threshold)
}

/// Whether leases may expire now. `protected_for_ms` is how long renewals have been too few.
pub fn expiration_enabled(
    settings: &Settings,
    threshold: u64,
    renewals_last_minute: u64,
    protected_for_ms: u64,
) -> bool {
    if !settings.enabled {
        return true;
    }
    let is_healthy = threshold > 0 && renewals_last_minute > threshold;
    let is_overdue =
        settings.max_protection_ms > 0 && protected_for_ms > settings.max_protection_ms;
    is_healthy || is_overdue
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of clients are far below 2^52"
)]
fn to_f64(n: u64) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rounded down, non-negative count; `as` saturates"
)]
fn to_u64(x: f64) -> u64 {
    x.max(0.0).floor() as u64
}

/// Counts renewals by the minute: the last complete bucket is what the rules look at, as in the
/// original. Shared and lock-free, since every heartbeat counts.
#[derive(Debug, Default)]
pub struct RenewalMeter {
    current: AtomicU64,
    last_minute: AtomicU64,
    total: AtomicU64,
    /// Monotonic time since which renewals were too few; 0 if they are not.
    protected_since: AtomicU64,
    phantom_clients: AtomicU64,
}

impl RenewalMeter {
    pub fn new(phantom_clients: u64) -> Self {
        Self {
            phantom_clients: AtomicU64::new(phantom_clients),
            ..Self::default()
        }
    }

    /// One renewal.
    pub fn count(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes the bucket; called once a minute.
    pub fn roll(&self) {
        let current = self.current.swap(0, Ordering::Relaxed);
        self.last_minute.store(current, Ordering::Relaxed);
        self.total.fetch_add(current, Ordering::Relaxed);
    }

    /// Renewals in the last complete minute.
    pub fn last_minute(&self) -> u64 {
        self.last_minute.load(Ordering::Relaxed)
    }

    /// Renewals since the start.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed) + self.current.load(Ordering::Relaxed)
    }

    /// Clients that the original's count assumes without having seen them.
    pub fn phantom_clients(&self) -> u64 {
        self.phantom_clients.load(Ordering::Relaxed)
    }

    /// The threshold update of the original: the expectation becomes what is there, unless that
    /// would hide a large loss (`protocol.md` 5.5). Only the phantom can be dropped, since the rest
    /// follows the registry at all times.
    pub fn update_threshold(&self, registry: &Registry, settings: &Settings) {
        let known = to_f64(registry.len());
        let expected = known + to_f64(self.phantom_clients());
        if known > settings.renewal_percent_threshold * expected || !settings.enabled {
            self.phantom_clients.store(0, Ordering::Relaxed);
        }
    }

    /// Looks at the state of protection at `now` (monotonic) and says whether leases may expire.
    pub fn expiration_enabled(
        &self,
        registry: &Registry,
        settings: &Settings,
        now: Millis,
    ) -> bool {
        let threshold = threshold(registry, settings, self.phantom_clients());
        let renewals = self.last_minute();
        if expiration_enabled(settings, threshold, renewals, 0) {
            self.protected_since.store(0, Ordering::Relaxed);
            return true;
        }
        let since = match self.protected_since.load(Ordering::Relaxed) {
            0 => {
                self.protected_since.store(now.0.max(1), Ordering::Relaxed);
                now
            }
            since => Millis(since),
        };
        expiration_enabled(settings, threshold, renewals, now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        enabled: true,
        renewal_percent_threshold: 0.85,
        expected_client_renewal_interval_secs: 30,
        max_protection_ms: 0,
    };

    #[test]
    fn leases_expire_only_while_renewals_are_strictly_above_the_threshold() {
        assert!(!expiration_enabled(&SETTINGS, 86, 86, 0));
        assert!(expiration_enabled(&SETTINGS, 86, 87, 0));
        assert!(!expiration_enabled(&SETTINGS, 0, 5, 0));
        assert!(expiration_enabled(
            &Settings {
                enabled: false,
                ..SETTINGS
            },
            86,
            0,
            0
        ));
    }

    #[test]
    fn protection_ends_after_its_longest_time() {
        let settings = Settings {
            max_protection_ms: 1000,
            ..SETTINGS
        };
        assert!(!expiration_enabled(&settings, 10, 0, 1000));
        assert!(expiration_enabled(&settings, 10, 0, 1001));
    }

    #[test]
    fn a_bucket_counts_only_when_it_is_complete() {
        let meter = RenewalMeter::new(1);
        meter.count();
        assert_eq!((meter.last_minute(), meter.total()), (0, 1));
        meter.roll();
        assert_eq!((meter.last_minute(), meter.total()), (1, 1));
        meter.roll();
        assert_eq!((meter.last_minute(), meter.total()), (0, 1));
    }
}
