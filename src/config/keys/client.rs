//! `eureka.instance.*`, `eureka.client.*` and the few keys of the page: the server as an instance, and
//! as a peer of others.

use super::{Key, honoured, idle, later};

const ONE_SENDER: &str = "each peer has one sender with one request in flight and its own back-off";
const OWN_CERTIFICATE: &str = "Java's key stores are not read; name PEM files in eurekad.peer-cert-file and eurekad.peer-key-file";
const TRUSTED: &str = "Java's key stores are not read; name a PEM file in eurekad.peer-ca-file";
const JAVA_CLIENT: &str = "it configures a library of the Java client";

/// `eureka.instance.*`, `eureka.dashboard.*`, and the two names that the page shows.
pub(super) const EUREKA_INSTANCE: &[Key] = &[
    honoured("eureka.dashboard.enabled"),
    honoured("eureka.dashboard.path"),
    honoured("eureka.environment"),
    honoured("eureka.datacenter"),
    honoured("eureka.instance.registry.default-open-for-traffic-count"),
    honoured("eureka.instance.registry.expected-number-of-clients-sending-renews"),
    honoured("eureka.instance.hostname"),
    honoured("eureka.instance.ip-address"),
    honoured("eureka.instance.prefer-ip-address"),
    honoured("eureka.instance.instance-id"),
    honoured("eureka.instance.appname"),
    honoured("eureka.instance.virtual-host-name"),
    honoured("eureka.instance.secure-virtual-host-name"),
    honoured("eureka.instance.app-group-name"),
    honoured("eureka.instance.a-s-g-name"),
    honoured("eureka.instance.non-secure-port"),
    honoured("eureka.instance.non-secure-port-enabled"),
    honoured("eureka.instance.secure-port"),
    honoured("eureka.instance.secure-port-enabled"),
    honoured("eureka.instance.lease-renewal-interval-in-seconds"),
    honoured("eureka.instance.lease-expiration-duration-in-seconds"),
    honoured("eureka.instance.initial-status"),
    honoured("eureka.instance.metadata-map.*"),
    honoured("eureka.instance.home-page-url"),
    honoured("eureka.instance.home-page-url-path"),
    honoured("eureka.instance.status-page-url"),
    honoured("eureka.instance.status-page-url-path"),
    honoured("eureka.instance.health-check-url"),
    honoured("eureka.instance.health-check-url-path"),
    honoured("eureka.instance.secure-health-check-url"),
    idle(
        "eureka.instance.instance-enabled-onit",
        "the node registers as soon as it has its registry",
    ),
    idle(
        "eureka.instance.data-center-info",
        "this node is always of MyOwn",
    ),
    idle(
        "eureka.instance.data-center-info.*",
        "this node is always of MyOwn",
    ),
    idle(
        "eureka.instance.async-client-initialization",
        "the start never waits for a client",
    ),
    idle("eureka.instance.environment", "it concerns clients only"),
    idle("eureka.instance.namespace", "it concerns clients only"),
    idle(
        "eureka.instance.default-address-resolution-order",
        "it concerns clients only",
    ),
];

/// `eureka.client.*`.
pub(super) const EUREKA_CLIENT: &[Key] = &[
    // By name as well, since an environment variable shows neither case nor dash of a map's key.
    honoured("eureka.client.service-url.defaultZone"),
    honoured("eureka.client.service-url.*"),
    honoured("eureka.client.availability-zones.*"),
    honoured("eureka.client.region"),
    honoured("eureka.client.prefer-same-zone-eureka"),
    honoured("eureka.client.use-dns-for-fetching-service-urls"),
    honoured("eureka.client.eureka-server-d-n-s-name"),
    honoured("eureka.client.eureka-server-port"),
    honoured("eureka.client.eureka-server-u-r-l-context"),
    honoured("eureka.client.register-with-eureka"),
    honoured("eureka.client.fetch-registry"),
    honoured("eureka.client.eureka-server-connect-timeout-seconds"),
    honoured("eureka.client.eureka-server-read-timeout-seconds"),
    honoured("eureka.client.should-unregister-on-shutdown"),
    idle(
        "eureka.client.enabled",
        "there is no client to take away; a lone node has no service-url",
    ),
    idle(
        "eureka.client.filter-only-up-instances",
        "the first copy takes every instance, whatever its status",
    ),
    idle(
        "eureka.client.registry-fetch-interval-seconds",
        "peers are kept equal by the log and by repair, not by fetching",
    ),
    idle(
        "eureka.client.disable-delta",
        "peers are kept equal by the log and by repair, not by fetching",
    ),
    idle(
        "eureka.client.log-delta-diff",
        "peers are kept equal by the log and by repair, not by fetching",
    ),
    idle(
        "eureka.client.cache-refresh-executor-thread-pool-size",
        "peers are kept equal by the log and by repair, not by fetching",
    ),
    idle(
        "eureka.client.cache-refresh-executor-exponential-back-off-bound",
        "peers are kept equal by the log and by repair, not by fetching",
    ),
    idle(
        "eureka.client.instance-info-replication-interval-seconds",
        "own changes go to the peers at once",
    ),
    idle(
        "eureka.client.initial-instance-info-replication-interval-seconds",
        "own changes go to the peers at once",
    ),
    idle(
        "eureka.client.on-demand-update-status-change",
        "own changes go to the peers at once",
    ),
    idle(
        "eureka.client.eureka-service-url-poll-interval-seconds",
        "the peer list is read every eureka.server.peer-eureka-nodes-update-interval-ms",
    ),
    idle("eureka.client.eureka-server-total-connections", ONE_SENDER),
    idle(
        "eureka.client.eureka-server-total-connections-per-host",
        ONE_SENDER,
    ),
    idle(
        "eureka.client.eureka-connection-idle-timeout-seconds",
        ONE_SENDER,
    ),
    idle(
        "eureka.client.heartbeat-executor-thread-pool-size",
        ONE_SENDER,
    ),
    idle(
        "eureka.client.heartbeat-executor-exponential-back-off-bound",
        ONE_SENDER,
    ),
    idle(
        "eureka.client.should-enforce-registration-at-init",
        "the node serves whether or not its peers take its registration",
    ),
    idle(
        "eureka.client.g-zip-content",
        "peers are asked for gzip, and may answer without",
    ),
    idle(
        "eureka.client.allow-redirects",
        "peers are never followed elsewhere",
    ),
    later(
        "eureka.client.fetch-remote-regions-registry",
        "other regions' registries are not served yet",
    ),
    idle(
        "eureka.client.registry-refresh-single-vip-address",
        "a server copies the whole registry",
    ),
    idle(
        "eureka.client.backup-registry-impl",
        "the durable store takes the place of a backup registry",
    ),
    idle(
        "eureka.client.dollar-replacement",
        "names in XML are written with the default replacements _- and __",
    ),
    idle(
        "eureka.client.escape-char-replacement",
        "names in XML are written with the default replacements _- and __",
    ),
    idle("eureka.client.encoder-name", "each format has one codec"),
    idle("eureka.client.decoder-name", "each format has one codec"),
    idle(
        "eureka.client.client-data-accept",
        "each format has one codec",
    ),
    idle("eureka.client.healthcheck.enabled", JAVA_CLIENT),
    idle("eureka.client.webclient.enabled", JAVA_CLIENT),
    idle("eureka.client.jersey.enabled", JAVA_CLIENT),
    idle("eureka.client.restclient.enabled", JAVA_CLIENT),
    idle("eureka.client.refresh.enable", JAVA_CLIENT),
    idle("eureka.client.order", JAVA_CLIENT),
    idle("eureka.client.property-resolver.*", JAVA_CLIENT),
    idle("eureka.client.transport.*", JAVA_CLIENT),
    idle("eureka.client.timeout.*", JAVA_CLIENT),
    idle("eureka.client.restclient.timeout.*", JAVA_CLIENT),
    idle("eureka.client.rest-template-timeout.*", JAVA_CLIENT),
    later(
        "eureka.client.proxy-host",
        "peers are reached directly, not through a proxy",
    ),
    later(
        "eureka.client.proxy-port",
        "peers are reached directly, not through a proxy",
    ),
    later(
        "eureka.client.proxy-user-name",
        "peers are reached directly, not through a proxy",
    ),
    later(
        "eureka.client.proxy-password",
        "peers are reached directly, not through a proxy",
    ),
    idle(
        "eureka.client.tls.enabled",
        "a service URL with https:// is what turns TLS on",
    ),
    later("eureka.client.tls.key-store", OWN_CERTIFICATE),
    later("eureka.client.tls.key-store-type", OWN_CERTIFICATE),
    later("eureka.client.tls.key-store-password", OWN_CERTIFICATE),
    later("eureka.client.tls.key-password", OWN_CERTIFICATE),
    later("eureka.client.tls.trust-store", TRUSTED),
    later("eureka.client.tls.trust-store-type", TRUSTED),
    later("eureka.client.tls.trust-store-password", TRUSTED),
];
