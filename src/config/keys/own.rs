//! Our own keys, and those of Spring Boot that concern a server.

use super::{Key, honoured, idle, later};

/// `eurekad.*`.
pub(super) const EUREKAD: &[Key] = &[
    honoured("eurekad.profile"),
    honoured("eurekad.lease-expiry"),
    honoured("eurekad.override-scope"),
    honoured("eurekad.status-by-renewal"),
    honoured("eurekad.metadata-update"),
    honoured("eurekad.same-status-override"),
    honoured("eurekad.override-lift"),
    honoured("eurekad.unknown-override"),
    honoured("eurekad.decoder"),
    honoured("eurekad.negotiation"),
    honoured("eurekad.gzip-request-bodies"),
    honoured("eurekad.compress"),
    honoured("eurekad.bad-input-status"),
    honoured("eurekad.thresholds"),
    honoured("eurekad.paths"),
    honoured("eurekad.xml-single-status"),
    honoured("eurekad.status-document"),
    honoured("eurekad.response-cache-early-refresh"),
    honoured("eurekad.serverinfo"),
    honoured("eurekad.data-dir"),
    honoured("eurekad.durability"),
    honoured("eurekad.checkpoint-interval"),
    honoured("eurekad.checkpoint-records"),
    honoured("eurekad.history-max-age"),
    honoured("eurekad.history-max-bytes"),
    honoured("eurekad.on-store-failure"),
    honoured("eurekad.on-damaged-store"),
    honoured("eurekad.store-lock-wait"),
    honoured("eurekad.store-min-free"),
    honoured("eurekad.max-body-bytes"),
    honoured("eurekad.max-batch-bytes"),
    honoured("eurekad.max-nesting-depth"),
    honoured("eurekad.max-field-bytes"),
    honoured("eurekad.max-id-bytes"),
    honoured("eurekad.max-metadata-entries"),
    honoured("eurekad.max-metadata-bytes"),
    honoured("eurekad.max-instances"),
    honoured("eurekad.max-protection-time"),
    honoured("eurekad.response-cache-max-bytes"),
    honoured("eurekad.header-timeout"),
    honoured("eurekad.idle-timeout"),
    honoured("eurekad.body-timeout"),
    honoured("eurekad.shutdown-grace"),
    honoured("eurekad.max-connections"),
    honoured("eurekad.worker-threads"),
    honoured("eurekad.log-format"),
];

/// What users of the Spring server set besides. Everything else of these prefixes is Spring's own
/// affair and passed over in silence.
pub(super) const SPRING_BOOT: &[Key] = &[
    honoured("server.port"),
    honoured("server.address"),
    honoured("server.servlet.context-path"),
    honoured("server.shutdown"),
    honoured("server.max-http-request-header-size"),
    honoured("server.tomcat.max-connections"),
    honoured("spring.application.name"),
    honoured("spring.profiles.active"),
    honoured("spring.profiles.include"),
    honoured("spring.lifecycle.timeout-per-shutdown-phase"),
    honoured("management.endpoints.web.exposure.include"),
    honoured("management.endpoints.web.exposure.exclude"),
    honoured("management.endpoints.web.base-path"),
    honoured("management.endpoint.health.show-details"),
    honoured("logging.level.*"),
    // These would change who can reach or read the server; silence would be a trap.
    later(
        "server.ssl.*",
        "this server speaks plain HTTP; put a TLS proxy before it",
    ),
    later(
        "spring.security.user.*",
        "requests are not authenticated; put a proxy before the server",
    ),
    idle(
        "management.server.port",
        "the actuator endpoints are on the server's own port",
    ),
    idle(
        "spring.config.location",
        "name files with --config FILE, which may be given several times",
    ),
    idle(
        "spring.config.additional-location",
        "name files with --config FILE, which may be given several times",
    ),
    idle("spring.config.name", "name files with --config FILE"),
    idle(
        "spring.config.import",
        "nothing is imported; name files with --config FILE",
    ),
];
