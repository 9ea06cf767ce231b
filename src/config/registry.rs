//! The registry's rules and timers: `eureka.server.*`, `eureka.instance.registry.*`, and the caches
//! in front of it.

use std::time::Duration;

use super::bind::Binder;
use super::value::{self, Unit};

/// Self-preservation, eviction, delta, warm-up.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch that users know by name"
)]
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryConfig {
    /// `eureka.server.enable-self-preservation`.
    pub self_preservation: bool,
    /// `eurekad.max-protection-time`: self-preservation ends after this; zero = never by itself.
    pub max_protection_time: Duration,
    /// `eureka.server.renewal-percent-threshold`, 0 to 1: the part of the expected renewals below
    /// which nothing is evicted, and the part of the registry that one eviction run leaves.
    pub renewal_percent_threshold: f64,
    /// `eureka.server.renewal-threshold-update-interval-ms`.
    pub threshold_update_interval: Duration,
    /// `eureka.server.expected-client-renewal-interval-seconds`.
    pub expected_client_renewal_interval: Duration,
    /// `eureka.server.eviction-interval-timer-in-ms`.
    pub eviction_interval: Duration,
    /// `eureka.server.wait-time-in-ms-when-sync-empty`.
    pub wait_when_sync_empty: Duration,
    /// `eureka.server.registry-sync-retries`: 0 on a lone node, 5 with `register-with-eureka`.
    pub sync_retries: u32,
    /// `eureka.server.registry-sync-retry-wait-ms`.
    pub sync_retry_wait: Duration,
    /// `eureka.server.disable-delta`, turned round: false answers `/apps/delta` with 403.
    pub delta: bool,
    /// `eureka.server.retention-time-in-m-s-in-delta-queue`: how long a change stays in the delta.
    pub delta_retention: Duration,
    /// `eureka.server.delta-retention-timer-interval-in-ms`.
    pub delta_trim_interval: Duration,
    /// `eureka.server.sync-when-timestamp-differs`.
    pub sync_when_timestamp_differs: bool,
    /// `eureka.instance.registry.default-open-for-traffic-count`: instances assumed at the start
    /// when no peer had any; used by `eurekad.thresholds=eureka`, and 0 switches the 403 of an
    /// empty start on.
    pub open_for_traffic_count: u64,
    /// `eureka.instance.registry.expected-number-of-clients-sending-renews`.
    pub expected_clients_sending_renews: u64,
    /// `eureka.server.experimental.registration.validation.dataCenterInfoId`: Amazon info without
    /// an instance id is refused.
    pub validate_data_center_id: bool,
    /// `eureka.server.experimental.bugfix.934`: a 409 item of a batch brings the newer instance.
    pub conflict_brings_instance: bool,
    /// `eureka.server.metrics.enabled`: the gauge `eureka.server.instances`.
    pub instance_gauge: bool,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            self_preservation: true,
            max_protection_time: Duration::ZERO,
            renewal_percent_threshold: 0.85,
            threshold_update_interval: Duration::from_mins(15),
            expected_client_renewal_interval: Duration::from_secs(30),
            eviction_interval: Duration::from_mins(1),
            wait_when_sync_empty: Duration::from_mins(5),
            sync_retries: 0,
            sync_retry_wait: Duration::from_secs(30),
            delta: true,
            delta_retention: Duration::from_mins(3),
            delta_trim_interval: Duration::from_secs(30),
            sync_when_timestamp_differs: true,
            open_for_traffic_count: 1,
            expected_clients_sending_renews: 1,
            validate_data_center_id: false,
            conflict_brings_instance: true,
            instance_gauge: false,
        }
    }
}

/// The response cache. Whether its read-only level is refreshed early is a knob of
/// [`super::Compatibility`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// `eureka.server.use-read-only-response-cache`.
    pub read_only_level: bool,
    /// `eureka.server.response-cache-update-interval-ms`: refresh timer of the read-only level.
    pub update_interval: Duration,
    /// `eureka.server.response-cache-auto-expiration-in-seconds`.
    pub expire_after: Duration,
    /// `eureka.server.initial-capacity-of-response-cache`, entries.
    pub initial_capacity: usize,
    /// `eurekad.response-cache-max-bytes`: bound of the read-write level.
    pub max_bytes: u64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            read_only_level: true,
            update_interval: Duration::from_secs(30),
            expire_after: Duration::from_mins(3),
            initial_capacity: 1000,
            max_bytes: 256 << 20,
        }
    }
}

/// Timers may not be shorter than this.
const TICK: Duration = Duration::from_millis(1);

impl RegistryConfig {
    /// `registers` is `eureka.client.register-with-eureka`, on which the retries' default depends.
    pub(super) fn bind(b: &mut Binder<'_>, registers: bool) -> Self {
        let d = Self::default();
        let retries = if registers { 5 } else { d.sync_retries };
        let delta_disabled = b.switch(&["eureka.server.disable-delta"], !d.delta);
        Self {
            self_preservation: b.switch(
                &["eureka.server.enable-self-preservation"],
                d.self_preservation,
            ),
            max_protection_time: b.duration(
                &["eurekad.max-protection-time"],
                Unit::Millis,
                d.max_protection_time,
            ),
            renewal_percent_threshold: b.number(
                &["eureka.server.renewal-percent-threshold"],
                d.renewal_percent_threshold,
                0.0..=1.0,
            ),
            threshold_update_interval: b.duration_from(
                &["eureka.server.renewal-threshold-update-interval-ms"],
                Unit::Millis,
                d.threshold_update_interval,
                TICK,
            ),
            expected_client_renewal_interval: b.other(
                &["eureka.server.expected-client-renewal-interval-seconds"],
                d.expected_client_renewal_interval,
                renewal_interval,
                |span| value::show_duration(*span),
                &Unit::Seconds.allowed(),
            ),
            eviction_interval: b.duration_from(
                &["eureka.server.eviction-interval-timer-in-ms"],
                Unit::Millis,
                d.eviction_interval,
                TICK,
            ),
            wait_when_sync_empty: b.duration(
                &["eureka.server.wait-time-in-ms-when-sync-empty"],
                Unit::Millis,
                d.wait_when_sync_empty,
            ),
            sync_retries: b.number(
                &["eureka.server.registry-sync-retries"],
                retries,
                0..=1_000_000,
            ),
            sync_retry_wait: b.duration(
                &["eureka.server.registry-sync-retry-wait-ms"],
                Unit::Millis,
                d.sync_retry_wait,
            ),
            delta: !delta_disabled,
            delta_retention: b.duration(
                &["eureka.server.retention-time-in-m-s-in-delta-queue"],
                Unit::Millis,
                d.delta_retention,
            ),
            delta_trim_interval: b.duration_from(
                &["eureka.server.delta-retention-timer-interval-in-ms"],
                Unit::Millis,
                d.delta_trim_interval,
                TICK,
            ),
            sync_when_timestamp_differs: b.switch(
                &["eureka.server.sync-when-timestamp-differs"],
                d.sync_when_timestamp_differs,
            ),
            open_for_traffic_count: b.number(
                &[
                    "eureka.instance.registry.default-open-for-traffic-count",
                    "eureka.server.default-open-for-traffic-count",
                ],
                d.open_for_traffic_count,
                0..=u64::from(u32::MAX),
            ),
            expected_clients_sending_renews: b.number(
                &[
                    "eureka.instance.registry.expected-number-of-clients-sending-renews",
                    "eureka.server.expected-number-of-renews-per-min",
                ],
                d.expected_clients_sending_renews,
                0..=u64::from(u32::MAX),
            ),
            validate_data_center_id: b.switch(
                &["eureka.server.experimental.registration.validation.dataCenterInfoId"],
                d.validate_data_center_id,
            ),
            conflict_brings_instance: b.switch(
                &["eureka.server.experimental.bugfix.934"],
                d.conflict_brings_instance,
            ),
            instance_gauge: b.switch(&["eureka.server.metrics.enabled"], d.instance_gauge),
        }
    }
}

/// Zero and less mean the default, as in the original.
fn renewal_interval(text: &str) -> Option<Duration> {
    if text.parse::<i64>().is_ok_and(|seconds| seconds <= 0) {
        return Some(RegistryConfig::default().expected_client_renewal_interval);
    }
    value::duration(text, Unit::Seconds).filter(|span| *span >= TICK)
}

impl CacheConfig {
    pub(super) fn bind(b: &mut Binder<'_>) -> Self {
        let d = Self::default();
        Self {
            read_only_level: b.switch(
                &["eureka.server.use-read-only-response-cache"],
                d.read_only_level,
            ),
            update_interval: b.duration_from(
                &["eureka.server.response-cache-update-interval-ms"],
                Unit::Millis,
                d.update_interval,
                TICK,
            ),
            expire_after: b.duration(
                &["eureka.server.response-cache-auto-expiration-in-seconds"],
                Unit::Seconds,
                d.expire_after,
            ),
            initial_capacity: b.number(
                &["eureka.server.initial-capacity-of-response-cache"],
                d.initial_capacity,
                0..=1_000_000,
            ),
            max_bytes: b.large_size("eurekad.response-cache-max-bytes", d.max_bytes),
        }
    }
}
