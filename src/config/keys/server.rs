//! `eureka.server.*`, and the names that the bare Netflix server has for the same.

use super::Effect::{Aws, Honoured, Later, Netflix, NoEffect};
use super::Key;

const ONE_CODEC: &str = "each format has one codec, which writes what the recorded server wrote";
const ONE_REQUEST: &str = "each peer has one sender with one request in flight";
const BY_POSITION: &str =
    "changes to peers are read from the log by position: nothing is queued, dropped or outdated";
const NO_LIMITER: &str = "the Spring server installs no rate limiter either";
const NO_REGIONS: &str = "other regions' registries are not served yet";
const DEAD: &str = "the Java server reads it nowhere either";

/// `eureka.server.*`.
pub(super) const EUREKA_SERVER: &[Key] = &[
    Key {
        name: "eureka.server.enable-self-preservation",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.renewal-percent-threshold",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.renewal-threshold-update-interval-ms",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.expected-client-renewal-interval-seconds",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.eviction-interval-timer-in-ms",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.wait-time-in-ms-when-sync-empty",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.registry-sync-retries",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.registry-sync-retry-wait-ms",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.use-read-only-response-cache",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.response-cache-update-interval-ms",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.response-cache-auto-expiration-in-seconds",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.initial-capacity-of-response-cache",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.disable-delta",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.retention-time-in-m-s-in-delta-queue",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.delta-retention-timer-interval-in-ms",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.sync-when-timestamp-differs",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.my-url",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.peer-eureka-nodes-update-interval-ms",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.peer-node-connect-timeout-ms",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.peer-node-read-timeout-ms",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.peer-node-connection-idle-timeout-seconds",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.min-available-instances-for-peer-replication",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.metrics.enabled",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.default-open-for-traffic-count",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.expected-number-of-renews-per-min",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.experimental.registration.validation.dataCenterInfoId",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.experimental.bugfix.934",
        effect: Honoured,
    },
    Key {
        name: "eureka.server.json-codec-name",
        effect: NoEffect(ONE_CODEC),
    },
    Key {
        name: "eureka.server.xml-codec-name",
        effect: NoEffect(ONE_CODEC),
    },
    Key {
        name: "eureka.server.peer-node-total-connections",
        effect: NoEffect(ONE_REQUEST),
    },
    Key {
        name: "eureka.server.peer-node-total-connections-per-host",
        effect: NoEffect(ONE_REQUEST),
    },
    Key {
        name: "eureka.server.max-threads-for-peer-replication",
        effect: NoEffect(ONE_REQUEST),
    },
    Key {
        name: "eureka.server.max-elements-in-peer-replication-pool",
        effect: NoEffect(BY_POSITION),
    },
    Key {
        name: "eureka.server.max-time-for-replication",
        effect: NoEffect(BY_POSITION),
    },
    Key {
        name: "eureka.server.max-threads-for-status-replication",
        effect: Aws,
    },
    Key {
        name: "eureka.server.max-elements-in-status-replication-pool",
        effect: Aws,
    },
    Key {
        name: "eureka.server.enable-replicated-request-compression",
        effect: NoEffect("it does nothing in the Java server either"),
    },
    Key {
        name: "eureka.server.version.filter.debug.response-header",
        effect: NoEffect("paths are not rewritten here, so there is nothing to show"),
    },
    Key {
        name: "eureka.server.experimental.transport.enabled",
        effect: NoEffect("the Netflix transport is not part of this server"),
    },
    Key {
        name: "eureka.server.rate-limiter-enabled",
        effect: NoEffect(NO_LIMITER),
    },
    Key {
        name: "eureka.server.rate-limiter-burst-size",
        effect: NoEffect(NO_LIMITER),
    },
    Key {
        name: "eureka.server.rate-limiter-registry-fetch-average-rate",
        effect: NoEffect(NO_LIMITER),
    },
    Key {
        name: "eureka.server.rate-limiter-full-fetch-average-rate",
        effect: NoEffect(NO_LIMITER),
    },
    Key {
        name: "eureka.server.rate-limiter-privileged-clients",
        effect: NoEffect(NO_LIMITER),
    },
    Key {
        name: "eureka.server.rate-limiter-throttle-standard-clients",
        effect: NoEffect(NO_LIMITER),
    },
    Key {
        name: "eureka.server.log-identity-headers",
        effect: NoEffect("the Spring server does not count identities either"),
    },
    Key {
        name: "eureka.server.remote-region-urls-with-name.*",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-urls",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-app-whitelist.*",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-registry-fetch-interval",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-fetch-thread-pool-size",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-connect-timeout-ms",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-read-timeout-ms",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-total-connections",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-total-connections-per-host",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-connection-idle-timeout-seconds",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-trust-store",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.remote-region-trust-store-password",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.g-zip-content-from-remote-region",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.disable-delta-for-remote-regions",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.disable-transparent-fallback-to-other-region",
        effect: Later(NO_REGIONS),
    },
    Key {
        name: "eureka.server.batch-replication",
        effect: NoEffect(DEAD),
    },
    Key {
        name: "eureka.server.number-of-replication-retries",
        effect: NoEffect(DEAD),
    },
    Key {
        name: "eureka.server.peer-eureka-status-refresh-time-interval-ms",
        effect: NoEffect(DEAD),
    },
    Key {
        name: "eureka.server.min-threads-for-peer-replication",
        effect: NoEffect(DEAD),
    },
    Key {
        name: "eureka.server.min-threads-for-status-replication",
        effect: NoEffect(DEAD),
    },
    Key {
        name: "eureka.server.max-idle-thread-age-in-minutes-for-peer-replication",
        effect: NoEffect(DEAD),
    },
    Key {
        name: "eureka.server.max-idle-thread-in-minutes-age-for-status-replication",
        effect: NoEffect(DEAD),
    },
    Key {
        name: "eureka.server.a-w-s-access-id",
        effect: Aws,
    },
    Key {
        name: "eureka.server.a-w-s-secret-key",
        effect: Aws,
    },
    Key {
        name: "eureka.server.a-s-g-query-timeout-ms",
        effect: Aws,
    },
    Key {
        name: "eureka.server.a-s-g-update-interval-ms",
        effect: Aws,
    },
    Key {
        name: "eureka.server.a-s-g-cache-expiry-timeout-ms",
        effect: Aws,
    },
    Key {
        name: "eureka.server.use-aws-asg-api",
        effect: Aws,
    },
    Key {
        name: "eureka.server.list-auto-scaling-groups-role-name",
        effect: Aws,
    },
    Key {
        name: "eureka.server.e-i-p-bind-rebind-retries",
        effect: Aws,
    },
    Key {
        name: "eureka.server.e-i-p-binding-retry-interval-ms",
        effect: Aws,
    },
    Key {
        name: "eureka.server.e-i-p-binding-retry-interval-ms-when-unbound",
        effect: Aws,
    },
    Key {
        name: "eureka.server.route53-bind-rebind-retries",
        effect: Aws,
    },
    Key {
        name: "eureka.server.route53-binding-retry-interval-ms",
        effect: Aws,
    },
    Key {
        name: "eureka.server.route53-domain-t-t-l",
        effect: Aws,
    },
    Key {
        name: "eureka.server.binding-strategy",
        effect: Aws,
    },
    Key {
        name: "eureka.server.prime-aws-replica-connections",
        effect: Aws,
    },
];

/// Keys of `eureka-server.properties`; each names the key to use instead.
pub(super) const NETFLIX: &[Key] = &[
    Key {
        name: "eureka.enableSelfPreservation",
        effect: Netflix("eureka.server.enable-self-preservation"),
    },
    Key {
        name: "eureka.renewalPercentThreshold",
        effect: Netflix("eureka.server.renewal-percent-threshold"),
    },
    Key {
        name: "eureka.renewalThresholdUpdateIntervalMs",
        effect: Netflix("eureka.server.renewal-threshold-update-interval-ms"),
    },
    Key {
        name: "eureka.expectedClientRenewalIntervalSeconds",
        effect: Netflix("eureka.server.expected-client-renewal-interval-seconds"),
    },
    Key {
        name: "eureka.evictionIntervalTimerInMs",
        effect: Netflix("eureka.server.eviction-interval-timer-in-ms"),
    },
    Key {
        name: "eureka.waitTimeInMsWhenSyncEmpty",
        effect: Netflix("eureka.server.wait-time-in-ms-when-sync-empty"),
    },
    Key {
        name: "eureka.numberRegistrySyncRetries",
        effect: Netflix("eureka.server.registry-sync-retries"),
    },
    Key {
        name: "eureka.registrySyncRetryWaitMs",
        effect: Netflix("eureka.server.registry-sync-retry-wait-ms"),
    },
    Key {
        name: "eureka.syncWhenTimestampDiffers",
        effect: Netflix("eureka.server.sync-when-timestamp-differs"),
    },
    Key {
        name: "eureka.retentionTimeInMSInDeltaQueue",
        effect: Netflix("eureka.server.retention-time-in-m-s-in-delta-queue"),
    },
    Key {
        name: "eureka.deltaRetentionTimerIntervalInMs",
        effect: Netflix("eureka.server.delta-retention-timer-interval-in-ms"),
    },
    Key {
        name: "eureka.disableDelta",
        effect: Netflix("eureka.server.disable-delta"),
    },
    Key {
        name: "eureka.responseCacheAutoExpirationInSeconds",
        effect: Netflix("eureka.server.response-cache-auto-expiration-in-seconds"),
    },
    Key {
        name: "eureka.responseCacheUpdateIntervalMs",
        effect: Netflix("eureka.server.response-cache-update-interval-ms"),
    },
    Key {
        name: "eureka.shouldUseReadOnlyResponseCache",
        effect: Netflix("eureka.server.use-read-only-response-cache"),
    },
    Key {
        name: "eureka.initialCapacityOfResponseCache",
        effect: Netflix("eureka.server.initial-capacity-of-response-cache"),
    },
    Key {
        name: "eureka.peerEurekaNodesUpdateIntervalMs",
        effect: Netflix("eureka.server.peer-eureka-nodes-update-interval-ms"),
    },
    Key {
        name: "eureka.peerNodeConnectTimeoutMs",
        effect: Netflix("eureka.server.peer-node-connect-timeout-ms"),
    },
    Key {
        name: "eureka.peerNodeReadTimeoutMs",
        effect: Netflix("eureka.server.peer-node-read-timeout-ms"),
    },
    Key {
        name: "eureka.peerNodeTotalConnections",
        effect: Netflix("eureka.server.peer-node-total-connections"),
    },
    Key {
        name: "eureka.peerNodeTotalConnectionsPerHost",
        effect: Netflix("eureka.server.peer-node-total-connections-per-host"),
    },
    Key {
        name: "eureka.peerNodeConnectionIdleTimeoutSeconds",
        effect: Netflix("eureka.server.peer-node-connection-idle-timeout-seconds"),
    },
    Key {
        name: "eureka.enableReplicatedRequestCompression",
        effect: Netflix("eureka.server.enable-replicated-request-compression"),
    },
    Key {
        name: "eureka.maxTimeForReplication",
        effect: Netflix("eureka.server.max-time-for-replication"),
    },
    Key {
        name: "eureka.maxElementsInPeerReplicationPool",
        effect: Netflix("eureka.server.max-elements-in-peer-replication-pool"),
    },
    Key {
        name: "eureka.maxThreadsForPeerReplication",
        effect: Netflix("eureka.server.max-threads-for-peer-replication"),
    },
    Key {
        name: "eureka.maxElementsInStatusReplicationPool",
        effect: Netflix("eureka.server.max-elements-in-status-replication-pool"),
    },
    Key {
        name: "eureka.maxThreadsForStatusReplication",
        effect: Netflix("eureka.server.max-threads-for-status-replication"),
    },
    Key {
        name: "eureka.minAvailableInstancesForPeerReplication",
        effect: Netflix("eureka.server.min-available-instances-for-peer-replication"),
    },
    Key {
        name: "eureka.myUrl",
        effect: Netflix("eureka.server.my-url"),
    },
    Key {
        name: "eureka.auth.shouldLogIdentityHeaders",
        effect: Netflix("eureka.server.log-identity-headers"),
    },
    Key {
        name: "eureka.rateLimiter.enabled",
        effect: Netflix("eureka.server.rate-limiter-enabled"),
    },
    Key {
        name: "eureka.rateLimiter.throttleStandardClients",
        effect: Netflix("eureka.server.rate-limiter-throttle-standard-clients"),
    },
    Key {
        name: "eureka.rateLimiter.privilegedClients",
        effect: Netflix("eureka.server.rate-limiter-privileged-clients"),
    },
    Key {
        name: "eureka.rateLimiter.burstSize",
        effect: Netflix("eureka.server.rate-limiter-burst-size"),
    },
    Key {
        name: "eureka.rateLimiter.registryFetchAverageRate",
        effect: Netflix("eureka.server.rate-limiter-registry-fetch-average-rate"),
    },
    Key {
        name: "eureka.rateLimiter.fullFetchAverageRate",
        effect: Netflix("eureka.server.rate-limiter-full-fetch-average-rate"),
    },
    Key {
        name: "eureka.remoteRegionUrlsWithName",
        effect: Netflix("eureka.server.remote-region-urls-with-name.NAME"),
    },
    Key {
        name: "eureka.remoteRegion.global.appWhiteList",
        effect: Netflix("eureka.server.remote-region-app-whitelist.global"),
    },
    Key {
        name: "eureka.remoteRegion.registryFetchIntervalInSeconds",
        effect: Netflix("eureka.server.remote-region-registry-fetch-interval"),
    },
    Key {
        name: "eureka.remoteRegion.fetchThreadPoolSize",
        effect: Netflix("eureka.server.remote-region-fetch-thread-pool-size"),
    },
    Key {
        name: "eureka.remoteRegionConnectTimeoutMs",
        effect: Netflix("eureka.server.remote-region-connect-timeout-ms"),
    },
    Key {
        name: "eureka.remoteRegionReadTimeoutMs",
        effect: Netflix("eureka.server.remote-region-read-timeout-ms"),
    },
    Key {
        name: "eureka.remoteRegionTotalConnections",
        effect: Netflix("eureka.server.remote-region-total-connections"),
    },
    Key {
        name: "eureka.remoteRegionTotalConnectionsPerHost",
        effect: Netflix("eureka.server.remote-region-total-connections-per-host"),
    },
    Key {
        name: "eureka.remoteRegionConnectionIdleTimeoutSeconds",
        effect: Netflix("eureka.server.remote-region-connection-idle-timeout-seconds"),
    },
    Key {
        name: "eureka.remoteRegion.gzipContent",
        effect: Netflix("eureka.server.g-zip-content-from-remote-region"),
    },
    Key {
        name: "eureka.remoteRegion.trustStoreFileName",
        effect: Netflix("eureka.server.remote-region-trust-store"),
    },
    Key {
        name: "eureka.remoteRegion.trustStorePassword",
        effect: Netflix("eureka.server.remote-region-trust-store-password"),
    },
    Key {
        name: "eureka.remoteRegion.disable.transparent.fallback",
        effect: Netflix("eureka.server.disable-transparent-fallback-to-other-region"),
    },
    Key {
        name: "eureka.disableDeltaForRemoteRegions",
        effect: Netflix("eureka.server.disable-delta-for-remote-regions"),
    },
    Key {
        name: "eureka.jsonCodecName",
        effect: Netflix("eureka.server.json-codec-name"),
    },
    Key {
        name: "eureka.xmlCodecName",
        effect: Netflix("eureka.server.xml-codec-name"),
    },
    Key {
        name: "eureka.experimental.bugfix.934",
        effect: Netflix("eureka.server.experimental.bugfix.934"),
    },
    Key {
        name: "eureka.experimental.registration.validation.dataCenterInfoId",
        effect: Netflix("eureka.server.experimental.registration.validation.dataCenterInfoId"),
    },
    Key {
        name: "eureka.experimental.transport.enabled",
        effect: Netflix("eureka.server.experimental.transport.enabled"),
    },
    Key {
        name: "eureka.numberOfReplicationRetries",
        effect: Netflix("eureka.server.number-of-replication-retries"),
    },
    Key {
        name: "eureka.peerEurekaStatusRefreshTimeIntervalMs",
        effect: Netflix("eureka.server.peer-eureka-status-refresh-time-interval-ms"),
    },
    Key {
        name: "eureka.minThreadsForPeerReplication",
        effect: Netflix("eureka.server.min-threads-for-peer-replication"),
    },
    Key {
        name: "eureka.maxIdleThreadAgeInMinutesForPeerReplication",
        effect: Netflix("eureka.server.max-idle-thread-age-in-minutes-for-peer-replication"),
    },
    Key {
        name: "eureka.minThreadsForStatusReplication",
        effect: Netflix("eureka.server.min-threads-for-status-replication"),
    },
    Key {
        name: "eureka.maxIdleThreadAgeInMinutesForStatusReplication",
        effect: Netflix("eureka.server.max-idle-thread-in-minutes-age-for-status-replication"),
    },
    Key {
        name: "eureka.shouldBatchReplication",
        effect: Netflix("eureka.server.batch-replication"),
    },
    Key {
        name: "eureka.remoteRegionUrls",
        effect: Netflix("eureka.server.remote-region-urls"),
    },
    Key {
        name: "eureka.awsAccessId",
        effect: Netflix("eureka.server.a-w-s-access-id"),
    },
    Key {
        name: "eureka.awsSecretKey",
        effect: Netflix("eureka.server.a-w-s-secret-key"),
    },
    Key {
        name: "eureka.awsBindingStrategy",
        effect: Netflix("eureka.server.binding-strategy"),
    },
    Key {
        name: "eureka.eipBindRebindRetries",
        effect: Netflix("eureka.server.e-i-p-bind-rebind-retries"),
    },
    Key {
        name: "eureka.eipBindRebindRetryIntervalMs",
        effect: Netflix("eureka.server.e-i-p-binding-retry-interval-ms"),
    },
    Key {
        name: "eureka.eipBindRebindRetryIntervalMsWhenUnbound",
        effect: Netflix("eureka.server.e-i-p-binding-retry-interval-ms-when-unbound"),
    },
    Key {
        name: "eureka.route53BindRebindRetries",
        effect: Netflix("eureka.server.route53-bind-rebind-retries"),
    },
    Key {
        name: "eureka.route53BindRebindRetryIntervalMs",
        effect: Netflix("eureka.server.route53-binding-retry-interval-ms"),
    },
    Key {
        name: "eureka.route53DomainTTL",
        effect: Netflix("eureka.server.route53-domain-t-t-l"),
    },
    Key {
        name: "eureka.shouldUseAwsAsgApi",
        effect: Netflix("eureka.server.use-aws-asg-api"),
    },
    Key {
        name: "eureka.asgQueryTimeoutMs",
        effect: Netflix("eureka.server.a-s-g-query-timeout-ms"),
    },
    Key {
        name: "eureka.asgUpdateIntervalMs",
        effect: Netflix("eureka.server.a-s-g-update-interval-ms"),
    },
    Key {
        name: "eureka.asgCacheExpiryTimeoutMs",
        effect: Netflix("eureka.server.a-s-g-cache-expiry-timeout-ms"),
    },
    Key {
        name: "eureka.listAutoScalingGroupsRoleName",
        effect: Netflix("eureka.server.list-auto-scaling-groups-role-name"),
    },
    Key {
        name: "eureka.primeAwsReplicaConnections",
        effect: Netflix("eureka.server.prime-aws-replica-connections"),
    },
    Key {
        name: "eureka.name",
        effect: Netflix("spring.application.name"),
    },
    Key {
        name: "eureka.port",
        effect: Netflix("server.port"),
    },
    Key {
        name: "eureka.hostname",
        effect: Netflix("eureka.instance.hostname"),
    },
    Key {
        name: "eureka.registration.enabled",
        effect: Netflix("eureka.client.register-with-eureka"),
    },
    Key {
        name: "eureka.shouldFetchRegistry",
        effect: Netflix("eureka.client.fetch-registry"),
    },
    Key {
        name: "eureka.region",
        effect: Netflix("eureka.client.region"),
    },
    Key {
        name: "eureka.serviceUrl.*",
        effect: Netflix("eureka.client.service-url.defaultZone"),
    },
    Key {
        name: "eureka.shouldUseDns",
        effect: Netflix("eureka.client.use-dns-for-fetching-service-urls"),
    },
    Key {
        name: "eureka.preferSameZone",
        effect: Netflix("eureka.client.prefer-same-zone-eureka"),
    },
    Key {
        name: "eureka.client.refresh.interval",
        effect: Netflix("eureka.client.registry-fetch-interval-seconds"),
    },
    Key {
        name: "eureka.shouldFilterOnlyUpInstances",
        effect: Netflix("eureka.client.filter-only-up-instances"),
    },
    Key {
        name: "eureka.us-east-1.availabilityZones",
        effect: Netflix("eureka.client.availability-zones.us-east-1"),
    },
    Key {
        name: "eureka.transport.applicationsResolverUseIp",
        effect: NoEffect("peers are reached as their URLs name them"),
    },
];
