//! `eureka.instance.*`, `eureka.client.*` and the few keys of the page: the server as an instance, and
//! as a peer of others.

use super::Effect::{Honoured, Later, NoEffect};
use super::Key;

const ONE_SENDER: &str = "each peer has one sender with one request in flight and its own back-off";
const JAVA_CLIENT: &str = "it configures a library of the Java client";

/// `eureka.instance.*`, `eureka.dashboard.*`, and the two names that the page shows.
pub(super) const EUREKA_INSTANCE: &[Key] = &[
    Key {
        name: "eureka.dashboard.enabled",
        effect: Honoured,
    },
    Key {
        name: "eureka.dashboard.path",
        effect: Honoured,
    },
    Key {
        name: "eureka.environment",
        effect: Honoured,
    },
    Key {
        name: "eureka.datacenter",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.registry.default-open-for-traffic-count",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.registry.expected-number-of-clients-sending-renews",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.hostname",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.ip-address",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.prefer-ip-address",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.instance-id",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.appname",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.virtual-host-name",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.secure-virtual-host-name",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.app-group-name",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.a-s-g-name",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.non-secure-port",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.non-secure-port-enabled",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.secure-port",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.secure-port-enabled",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.lease-renewal-interval-in-seconds",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.lease-expiration-duration-in-seconds",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.initial-status",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.metadata-map.*",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.home-page-url",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.home-page-url-path",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.status-page-url",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.status-page-url-path",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.health-check-url",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.health-check-url-path",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.secure-health-check-url",
        effect: Honoured,
    },
    Key {
        name: "eureka.instance.instance-enabled-onit",
        effect: NoEffect("the node registers as soon as it has its registry"),
    },
    Key {
        name: "eureka.instance.data-center-info",
        effect: NoEffect("this node is always of MyOwn"),
    },
    Key {
        name: "eureka.instance.data-center-info.*",
        effect: NoEffect("this node is always of MyOwn"),
    },
    Key {
        name: "eureka.instance.async-client-initialization",
        effect: NoEffect("the start never waits for a client"),
    },
    Key {
        name: "eureka.instance.environment",
        effect: NoEffect("it concerns clients only"),
    },
    Key {
        name: "eureka.instance.namespace",
        effect: NoEffect("it concerns clients only"),
    },
    Key {
        name: "eureka.instance.default-address-resolution-order",
        effect: NoEffect("it concerns clients only"),
    },
];

/// `eureka.client.*`.
pub(super) const EUREKA_CLIENT: &[Key] = &[
    Key {
        name: "eureka.client.service-url.*",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.availability-zones.*",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.region",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.prefer-same-zone-eureka",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.use-dns-for-fetching-service-urls",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.eureka-server-d-n-s-name",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.eureka-server-port",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.eureka-server-u-r-l-context",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.register-with-eureka",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.fetch-registry",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.eureka-server-connect-timeout-seconds",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.eureka-server-read-timeout-seconds",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.should-unregister-on-shutdown",
        effect: Honoured,
    },
    Key {
        name: "eureka.client.enabled",
        effect: NoEffect("there is no client to take away; a lone node has no service-url"),
    },
    Key {
        name: "eureka.client.filter-only-up-instances",
        effect: NoEffect("the first copy takes every instance, whatever its status"),
    },
    Key {
        name: "eureka.client.registry-fetch-interval-seconds",
        effect: NoEffect("peers are kept equal by the log and by repair, not by fetching"),
    },
    Key {
        name: "eureka.client.disable-delta",
        effect: NoEffect("peers are kept equal by the log and by repair, not by fetching"),
    },
    Key {
        name: "eureka.client.log-delta-diff",
        effect: NoEffect("peers are kept equal by the log and by repair, not by fetching"),
    },
    Key {
        name: "eureka.client.cache-refresh-executor-thread-pool-size",
        effect: NoEffect("peers are kept equal by the log and by repair, not by fetching"),
    },
    Key {
        name: "eureka.client.cache-refresh-executor-exponential-back-off-bound",
        effect: NoEffect("peers are kept equal by the log and by repair, not by fetching"),
    },
    Key {
        name: "eureka.client.instance-info-replication-interval-seconds",
        effect: NoEffect("own changes go to the peers at once"),
    },
    Key {
        name: "eureka.client.initial-instance-info-replication-interval-seconds",
        effect: NoEffect("own changes go to the peers at once"),
    },
    Key {
        name: "eureka.client.on-demand-update-status-change",
        effect: NoEffect("own changes go to the peers at once"),
    },
    Key {
        name: "eureka.client.eureka-service-url-poll-interval-seconds",
        effect: NoEffect(
            "the peer list is read every eureka.server.peer-eureka-nodes-update-interval-ms",
        ),
    },
    Key {
        name: "eureka.client.eureka-server-total-connections",
        effect: NoEffect(ONE_SENDER),
    },
    Key {
        name: "eureka.client.eureka-server-total-connections-per-host",
        effect: NoEffect(ONE_SENDER),
    },
    Key {
        name: "eureka.client.eureka-connection-idle-timeout-seconds",
        effect: NoEffect(ONE_SENDER),
    },
    Key {
        name: "eureka.client.heartbeat-executor-thread-pool-size",
        effect: NoEffect(ONE_SENDER),
    },
    Key {
        name: "eureka.client.heartbeat-executor-exponential-back-off-bound",
        effect: NoEffect(ONE_SENDER),
    },
    Key {
        name: "eureka.client.should-enforce-registration-at-init",
        effect: NoEffect("the node serves whether or not its peers take its registration"),
    },
    Key {
        name: "eureka.client.g-zip-content",
        effect: NoEffect("peers are asked for gzip, and may answer without"),
    },
    Key {
        name: "eureka.client.allow-redirects",
        effect: NoEffect("peers are never followed elsewhere"),
    },
    Key {
        name: "eureka.client.fetch-remote-regions-registry",
        effect: Later("other regions' registries are not served yet"),
    },
    Key {
        name: "eureka.client.registry-refresh-single-vip-address",
        effect: NoEffect("a server copies the whole registry"),
    },
    Key {
        name: "eureka.client.backup-registry-impl",
        effect: NoEffect("the durable store takes the place of a backup registry"),
    },
    Key {
        name: "eureka.client.dollar-replacement",
        effect: NoEffect("names in XML are written with the default replacements _- and __"),
    },
    Key {
        name: "eureka.client.escape-char-replacement",
        effect: NoEffect("names in XML are written with the default replacements _- and __"),
    },
    Key {
        name: "eureka.client.encoder-name",
        effect: NoEffect("each format has one codec"),
    },
    Key {
        name: "eureka.client.decoder-name",
        effect: NoEffect("each format has one codec"),
    },
    Key {
        name: "eureka.client.client-data-accept",
        effect: NoEffect("each format has one codec"),
    },
    Key {
        name: "eureka.client.healthcheck.enabled",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.webclient.enabled",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.jersey.enabled",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.restclient.enabled",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.refresh.enable",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.order",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.property-resolver.*",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.transport.*",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.timeout.*",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.restclient.timeout.*",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.rest-template-timeout.*",
        effect: NoEffect(JAVA_CLIENT),
    },
    Key {
        name: "eureka.client.proxy-host",
        effect: Later("peers are reached directly, not through a proxy"),
    },
    Key {
        name: "eureka.client.proxy-port",
        effect: Later("peers are reached directly, not through a proxy"),
    },
    Key {
        name: "eureka.client.proxy-user-name",
        effect: Later("peers are reached directly, not through a proxy"),
    },
    Key {
        name: "eureka.client.proxy-password",
        effect: Later("peers are reached directly, not through a proxy"),
    },
    Key {
        name: "eureka.client.tls.enabled",
        effect: Later("TLS to peers cannot be configured yet"),
    },
    Key {
        name: "eureka.client.tls.key-store",
        effect: Later("TLS to peers cannot be configured yet"),
    },
    Key {
        name: "eureka.client.tls.key-store-type",
        effect: Later("TLS to peers cannot be configured yet"),
    },
    Key {
        name: "eureka.client.tls.key-store-password",
        effect: Later("TLS to peers cannot be configured yet"),
    },
    Key {
        name: "eureka.client.tls.key-password",
        effect: Later("TLS to peers cannot be configured yet"),
    },
    Key {
        name: "eureka.client.tls.trust-store",
        effect: Later("TLS to peers cannot be configured yet"),
    },
    Key {
        name: "eureka.client.tls.trust-store-type",
        effect: Later("TLS to peers cannot be configured yet"),
    },
    Key {
        name: "eureka.client.tls.trust-store-password",
        effect: Later("TLS to peers cannot be configured yet"),
    },
];
