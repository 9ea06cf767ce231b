//! The registry's rules and timers: `eureka.server.*`, `eureka.instance.registry.*`, and the caches
//! in front of it.

use std::time::Duration;

/// Self-preservation, eviction, delta, warm-up.
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
