//! Our own keys, and those of Spring Boot that concern a server.

use super::Effect::{Honoured, Later, NoEffect};
use super::Key;

const fn honoured(name: &'static str) -> Key {
    Key {
        name,
        effect: Honoured,
    }
}

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
    honoured("eurekad.double-slash"),
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
    Key {
        name: "server.ssl.*",
        effect: Later("this server speaks plain HTTP; put a TLS proxy before it"),
    },
    Key {
        name: "spring.security.user.*",
        effect: Later("requests are not authenticated; put a proxy before the server"),
    },
    Key {
        name: "management.server.port",
        effect: NoEffect("the actuator endpoints are on the server's own port"),
    },
    Key {
        name: "spring.config.location",
        effect: NoEffect("name files with --config FILE, which may be given several times"),
    },
    Key {
        name: "spring.config.additional-location",
        effect: NoEffect("name files with --config FILE, which may be given several times"),
    },
    Key {
        name: "spring.config.name",
        effect: NoEffect("name files with --config FILE"),
    },
    Key {
        name: "spring.config.import",
        effect: NoEffect("nothing is imported; name files with --config FILE"),
    },
];
