//! `eureka.server.*`, and the names that the bare Netflix server has for the same.

use super::{Key, aws, honoured, idle, later, netflix};

const ONE_CODEC: &str = "each format has one codec, which writes what the recorded server wrote";
const ONE_REQUEST: &str = "each peer has one sender with one request in flight";
const BY_POSITION: &str =
    "changes to peers are read from the log by position: nothing is queued, dropped or outdated";
const NO_LIMITER: &str = "the Spring server installs no rate limiter either";
const NO_REGIONS: &str = "other regions' registries are not served yet";
const DEAD: &str = "the Java server reads it nowhere either";

/// `eureka.server.*`.
pub(super) const EUREKA_SERVER: &[Key] = &[
    honoured("eureka.server.enable-self-preservation"),
    honoured("eureka.server.renewal-percent-threshold"),
    honoured("eureka.server.renewal-threshold-update-interval-ms"),
    honoured("eureka.server.expected-client-renewal-interval-seconds"),
    honoured("eureka.server.eviction-interval-timer-in-ms"),
    honoured("eureka.server.wait-time-in-ms-when-sync-empty"),
    honoured("eureka.server.registry-sync-retries"),
    honoured("eureka.server.registry-sync-retry-wait-ms"),
    honoured("eureka.server.use-read-only-response-cache"),
    honoured("eureka.server.response-cache-update-interval-ms"),
    honoured("eureka.server.response-cache-auto-expiration-in-seconds"),
    honoured("eureka.server.initial-capacity-of-response-cache"),
    honoured("eureka.server.disable-delta"),
    honoured("eureka.server.retention-time-in-m-s-in-delta-queue"),
    honoured("eureka.server.delta-retention-timer-interval-in-ms"),
    honoured("eureka.server.sync-when-timestamp-differs"),
    honoured("eureka.server.my-url"),
    honoured("eureka.server.peer-eureka-nodes-update-interval-ms"),
    honoured("eureka.server.peer-node-connect-timeout-ms"),
    honoured("eureka.server.peer-node-read-timeout-ms"),
    honoured("eureka.server.peer-node-connection-idle-timeout-seconds"),
    honoured("eureka.server.min-available-instances-for-peer-replication"),
    honoured("eureka.server.metrics.enabled"),
    honoured("eureka.server.default-open-for-traffic-count"),
    honoured("eureka.server.expected-number-of-renews-per-min"),
    honoured("eureka.server.experimental.registration.validation.dataCenterInfoId"),
    honoured("eureka.server.experimental.bugfix.934"),
    idle("eureka.server.json-codec-name", ONE_CODEC),
    idle("eureka.server.xml-codec-name", ONE_CODEC),
    idle("eureka.server.peer-node-total-connections", ONE_REQUEST),
    idle(
        "eureka.server.peer-node-total-connections-per-host",
        ONE_REQUEST,
    ),
    idle(
        "eureka.server.max-threads-for-peer-replication",
        ONE_REQUEST,
    ),
    idle(
        "eureka.server.max-elements-in-peer-replication-pool",
        BY_POSITION,
    ),
    idle("eureka.server.max-time-for-replication", BY_POSITION),
    aws("eureka.server.max-threads-for-status-replication"),
    aws("eureka.server.max-elements-in-status-replication-pool"),
    idle(
        "eureka.server.enable-replicated-request-compression",
        "it does nothing in the Java server either",
    ),
    idle(
        "eureka.server.version.filter.debug.response-header",
        "paths are not rewritten here, so there is nothing to show",
    ),
    idle(
        "eureka.server.experimental.transport.enabled",
        "the Netflix transport is not part of this server",
    ),
    idle("eureka.server.rate-limiter-enabled", NO_LIMITER),
    idle("eureka.server.rate-limiter-burst-size", NO_LIMITER),
    idle(
        "eureka.server.rate-limiter-registry-fetch-average-rate",
        NO_LIMITER,
    ),
    idle(
        "eureka.server.rate-limiter-full-fetch-average-rate",
        NO_LIMITER,
    ),
    idle("eureka.server.rate-limiter-privileged-clients", NO_LIMITER),
    idle(
        "eureka.server.rate-limiter-throttle-standard-clients",
        NO_LIMITER,
    ),
    idle(
        "eureka.server.log-identity-headers",
        "the Spring server does not count identities either",
    ),
    later("eureka.server.remote-region-urls-with-name.*", NO_REGIONS),
    later("eureka.server.remote-region-urls", NO_REGIONS),
    later("eureka.server.remote-region-app-whitelist.*", NO_REGIONS),
    later(
        "eureka.server.remote-region-registry-fetch-interval",
        NO_REGIONS,
    ),
    later(
        "eureka.server.remote-region-fetch-thread-pool-size",
        NO_REGIONS,
    ),
    later("eureka.server.remote-region-connect-timeout-ms", NO_REGIONS),
    later("eureka.server.remote-region-read-timeout-ms", NO_REGIONS),
    later("eureka.server.remote-region-total-connections", NO_REGIONS),
    later(
        "eureka.server.remote-region-total-connections-per-host",
        NO_REGIONS,
    ),
    later(
        "eureka.server.remote-region-connection-idle-timeout-seconds",
        NO_REGIONS,
    ),
    later("eureka.server.remote-region-trust-store", NO_REGIONS),
    later(
        "eureka.server.remote-region-trust-store-password",
        NO_REGIONS,
    ),
    later("eureka.server.g-zip-content-from-remote-region", NO_REGIONS),
    later("eureka.server.disable-delta-for-remote-regions", NO_REGIONS),
    later(
        "eureka.server.disable-transparent-fallback-to-other-region",
        NO_REGIONS,
    ),
    idle("eureka.server.batch-replication", DEAD),
    idle("eureka.server.number-of-replication-retries", DEAD),
    idle(
        "eureka.server.peer-eureka-status-refresh-time-interval-ms",
        DEAD,
    ),
    idle("eureka.server.min-threads-for-peer-replication", DEAD),
    idle("eureka.server.min-threads-for-status-replication", DEAD),
    idle(
        "eureka.server.max-idle-thread-age-in-minutes-for-peer-replication",
        DEAD,
    ),
    idle(
        "eureka.server.max-idle-thread-in-minutes-age-for-status-replication",
        DEAD,
    ),
    aws("eureka.server.a-w-s-access-id"),
    aws("eureka.server.a-w-s-secret-key"),
    aws("eureka.server.a-s-g-query-timeout-ms"),
    aws("eureka.server.a-s-g-update-interval-ms"),
    aws("eureka.server.a-s-g-cache-expiry-timeout-ms"),
    aws("eureka.server.use-aws-asg-api"),
    aws("eureka.server.list-auto-scaling-groups-role-name"),
    aws("eureka.server.e-i-p-bind-rebind-retries"),
    aws("eureka.server.e-i-p-binding-retry-interval-ms"),
    aws("eureka.server.e-i-p-binding-retry-interval-ms-when-unbound"),
    aws("eureka.server.route53-bind-rebind-retries"),
    aws("eureka.server.route53-binding-retry-interval-ms"),
    aws("eureka.server.route53-domain-t-t-l"),
    aws("eureka.server.binding-strategy"),
    aws("eureka.server.prime-aws-replica-connections"),
];

/// Keys of `eureka-server.properties`; each names the key to use instead.
pub(super) const NETFLIX: &[Key] = &[
    netflix(
        "eureka.enableSelfPreservation",
        "eureka.server.enable-self-preservation",
    ),
    netflix(
        "eureka.renewalPercentThreshold",
        "eureka.server.renewal-percent-threshold",
    ),
    netflix(
        "eureka.renewalThresholdUpdateIntervalMs",
        "eureka.server.renewal-threshold-update-interval-ms",
    ),
    netflix(
        "eureka.expectedClientRenewalIntervalSeconds",
        "eureka.server.expected-client-renewal-interval-seconds",
    ),
    netflix(
        "eureka.evictionIntervalTimerInMs",
        "eureka.server.eviction-interval-timer-in-ms",
    ),
    netflix(
        "eureka.waitTimeInMsWhenSyncEmpty",
        "eureka.server.wait-time-in-ms-when-sync-empty",
    ),
    netflix(
        "eureka.numberRegistrySyncRetries",
        "eureka.server.registry-sync-retries",
    ),
    netflix(
        "eureka.registrySyncRetryWaitMs",
        "eureka.server.registry-sync-retry-wait-ms",
    ),
    netflix(
        "eureka.syncWhenTimestampDiffers",
        "eureka.server.sync-when-timestamp-differs",
    ),
    netflix(
        "eureka.retentionTimeInMSInDeltaQueue",
        "eureka.server.retention-time-in-m-s-in-delta-queue",
    ),
    netflix(
        "eureka.deltaRetentionTimerIntervalInMs",
        "eureka.server.delta-retention-timer-interval-in-ms",
    ),
    netflix("eureka.disableDelta", "eureka.server.disable-delta"),
    netflix(
        "eureka.responseCacheAutoExpirationInSeconds",
        "eureka.server.response-cache-auto-expiration-in-seconds",
    ),
    netflix(
        "eureka.responseCacheUpdateIntervalMs",
        "eureka.server.response-cache-update-interval-ms",
    ),
    netflix(
        "eureka.shouldUseReadOnlyResponseCache",
        "eureka.server.use-read-only-response-cache",
    ),
    netflix(
        "eureka.initialCapacityOfResponseCache",
        "eureka.server.initial-capacity-of-response-cache",
    ),
    netflix(
        "eureka.peerEurekaNodesUpdateIntervalMs",
        "eureka.server.peer-eureka-nodes-update-interval-ms",
    ),
    netflix(
        "eureka.peerNodeConnectTimeoutMs",
        "eureka.server.peer-node-connect-timeout-ms",
    ),
    netflix(
        "eureka.peerNodeReadTimeoutMs",
        "eureka.server.peer-node-read-timeout-ms",
    ),
    netflix(
        "eureka.peerNodeTotalConnections",
        "eureka.server.peer-node-total-connections",
    ),
    netflix(
        "eureka.peerNodeTotalConnectionsPerHost",
        "eureka.server.peer-node-total-connections-per-host",
    ),
    netflix(
        "eureka.peerNodeConnectionIdleTimeoutSeconds",
        "eureka.server.peer-node-connection-idle-timeout-seconds",
    ),
    netflix(
        "eureka.enableReplicatedRequestCompression",
        "eureka.server.enable-replicated-request-compression",
    ),
    netflix(
        "eureka.maxTimeForReplication",
        "eureka.server.max-time-for-replication",
    ),
    netflix(
        "eureka.maxElementsInPeerReplicationPool",
        "eureka.server.max-elements-in-peer-replication-pool",
    ),
    netflix(
        "eureka.maxThreadsForPeerReplication",
        "eureka.server.max-threads-for-peer-replication",
    ),
    netflix(
        "eureka.maxElementsInStatusReplicationPool",
        "eureka.server.max-elements-in-status-replication-pool",
    ),
    netflix(
        "eureka.maxThreadsForStatusReplication",
        "eureka.server.max-threads-for-status-replication",
    ),
    netflix(
        "eureka.minAvailableInstancesForPeerReplication",
        "eureka.server.min-available-instances-for-peer-replication",
    ),
    netflix("eureka.myUrl", "eureka.server.my-url"),
    netflix(
        "eureka.auth.shouldLogIdentityHeaders",
        "eureka.server.log-identity-headers",
    ),
    netflix(
        "eureka.rateLimiter.enabled",
        "eureka.server.rate-limiter-enabled",
    ),
    netflix(
        "eureka.rateLimiter.throttleStandardClients",
        "eureka.server.rate-limiter-throttle-standard-clients",
    ),
    netflix(
        "eureka.rateLimiter.privilegedClients",
        "eureka.server.rate-limiter-privileged-clients",
    ),
    netflix(
        "eureka.rateLimiter.burstSize",
        "eureka.server.rate-limiter-burst-size",
    ),
    netflix(
        "eureka.rateLimiter.registryFetchAverageRate",
        "eureka.server.rate-limiter-registry-fetch-average-rate",
    ),
    netflix(
        "eureka.rateLimiter.fullFetchAverageRate",
        "eureka.server.rate-limiter-full-fetch-average-rate",
    ),
    netflix(
        "eureka.remoteRegionUrlsWithName",
        "eureka.server.remote-region-urls-with-name.NAME",
    ),
    netflix(
        "eureka.remoteRegion.global.appWhiteList",
        "eureka.server.remote-region-app-whitelist.global",
    ),
    netflix(
        "eureka.remoteRegion.registryFetchIntervalInSeconds",
        "eureka.server.remote-region-registry-fetch-interval",
    ),
    netflix(
        "eureka.remoteRegion.fetchThreadPoolSize",
        "eureka.server.remote-region-fetch-thread-pool-size",
    ),
    netflix(
        "eureka.remoteRegionConnectTimeoutMs",
        "eureka.server.remote-region-connect-timeout-ms",
    ),
    netflix(
        "eureka.remoteRegionReadTimeoutMs",
        "eureka.server.remote-region-read-timeout-ms",
    ),
    netflix(
        "eureka.remoteRegionTotalConnections",
        "eureka.server.remote-region-total-connections",
    ),
    netflix(
        "eureka.remoteRegionTotalConnectionsPerHost",
        "eureka.server.remote-region-total-connections-per-host",
    ),
    netflix(
        "eureka.remoteRegionConnectionIdleTimeoutSeconds",
        "eureka.server.remote-region-connection-idle-timeout-seconds",
    ),
    netflix(
        "eureka.remoteRegion.gzipContent",
        "eureka.server.g-zip-content-from-remote-region",
    ),
    netflix(
        "eureka.remoteRegion.trustStoreFileName",
        "eureka.server.remote-region-trust-store",
    ),
    netflix(
        "eureka.remoteRegion.trustStorePassword",
        "eureka.server.remote-region-trust-store-password",
    ),
    netflix(
        "eureka.remoteRegion.disable.transparent.fallback",
        "eureka.server.disable-transparent-fallback-to-other-region",
    ),
    netflix(
        "eureka.disableDeltaForRemoteRegions",
        "eureka.server.disable-delta-for-remote-regions",
    ),
    netflix("eureka.jsonCodecName", "eureka.server.json-codec-name"),
    netflix("eureka.xmlCodecName", "eureka.server.xml-codec-name"),
    netflix(
        "eureka.experimental.bugfix.934",
        "eureka.server.experimental.bugfix.934",
    ),
    netflix(
        "eureka.experimental.registration.validation.dataCenterInfoId",
        "eureka.server.experimental.registration.validation.dataCenterInfoId",
    ),
    netflix(
        "eureka.experimental.transport.enabled",
        "eureka.server.experimental.transport.enabled",
    ),
    netflix(
        "eureka.numberOfReplicationRetries",
        "eureka.server.number-of-replication-retries",
    ),
    netflix(
        "eureka.peerEurekaStatusRefreshTimeIntervalMs",
        "eureka.server.peer-eureka-status-refresh-time-interval-ms",
    ),
    netflix(
        "eureka.minThreadsForPeerReplication",
        "eureka.server.min-threads-for-peer-replication",
    ),
    netflix(
        "eureka.maxIdleThreadAgeInMinutesForPeerReplication",
        "eureka.server.max-idle-thread-age-in-minutes-for-peer-replication",
    ),
    netflix(
        "eureka.minThreadsForStatusReplication",
        "eureka.server.min-threads-for-status-replication",
    ),
    netflix(
        "eureka.maxIdleThreadAgeInMinutesForStatusReplication",
        "eureka.server.max-idle-thread-in-minutes-age-for-status-replication",
    ),
    netflix(
        "eureka.shouldBatchReplication",
        "eureka.server.batch-replication",
    ),
    netflix(
        "eureka.remoteRegionUrls",
        "eureka.server.remote-region-urls",
    ),
    netflix("eureka.awsAccessId", "eureka.server.a-w-s-access-id"),
    netflix("eureka.awsSecretKey", "eureka.server.a-w-s-secret-key"),
    netflix(
        "eureka.awsBindingStrategy",
        "eureka.server.binding-strategy",
    ),
    netflix(
        "eureka.eipBindRebindRetries",
        "eureka.server.e-i-p-bind-rebind-retries",
    ),
    netflix(
        "eureka.eipBindRebindRetryIntervalMs",
        "eureka.server.e-i-p-binding-retry-interval-ms",
    ),
    netflix(
        "eureka.eipBindRebindRetryIntervalMsWhenUnbound",
        "eureka.server.e-i-p-binding-retry-interval-ms-when-unbound",
    ),
    netflix(
        "eureka.route53BindRebindRetries",
        "eureka.server.route53-bind-rebind-retries",
    ),
    netflix(
        "eureka.route53BindRebindRetryIntervalMs",
        "eureka.server.route53-binding-retry-interval-ms",
    ),
    netflix(
        "eureka.route53DomainTTL",
        "eureka.server.route53-domain-t-t-l",
    ),
    netflix("eureka.shouldUseAwsAsgApi", "eureka.server.use-aws-asg-api"),
    netflix(
        "eureka.asgQueryTimeoutMs",
        "eureka.server.a-s-g-query-timeout-ms",
    ),
    netflix(
        "eureka.asgUpdateIntervalMs",
        "eureka.server.a-s-g-update-interval-ms",
    ),
    netflix(
        "eureka.asgCacheExpiryTimeoutMs",
        "eureka.server.a-s-g-cache-expiry-timeout-ms",
    ),
    netflix(
        "eureka.listAutoScalingGroupsRoleName",
        "eureka.server.list-auto-scaling-groups-role-name",
    ),
    netflix(
        "eureka.primeAwsReplicaConnections",
        "eureka.server.prime-aws-replica-connections",
    ),
    netflix("eureka.name", "spring.application.name"),
    netflix("eureka.port", "server.port"),
    netflix("eureka.hostname", "eureka.instance.hostname"),
    netflix(
        "eureka.registration.enabled",
        "eureka.client.register-with-eureka",
    ),
    netflix("eureka.shouldFetchRegistry", "eureka.client.fetch-registry"),
    netflix("eureka.region", "eureka.client.region"),
    netflix(
        "eureka.serviceUrl.*",
        "eureka.client.service-url.defaultZone",
    ),
    netflix(
        "eureka.shouldUseDns",
        "eureka.client.use-dns-for-fetching-service-urls",
    ),
    netflix(
        "eureka.preferSameZone",
        "eureka.client.prefer-same-zone-eureka",
    ),
    netflix(
        "eureka.client.refresh.interval",
        "eureka.client.registry-fetch-interval-seconds",
    ),
    netflix(
        "eureka.shouldFilterOnlyUpInstances",
        "eureka.client.filter-only-up-instances",
    ),
    netflix(
        "eureka.us-east-1.availabilityZones",
        "eureka.client.availability-zones.us-east-1",
    ),
    idle(
        "eureka.transport.applicationsResolverUseIp",
        "peers are reached as their URLs name them",
    ),
];
