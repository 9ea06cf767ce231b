//! What is said of settings that are wrong, unknown or without effect.

use super::*;

/// One wrong value for each kind of key, and what the error says is allowed.
const WRONG: &[(&str, &str, &str)] = &[
    ("server.port", "abc", "a number from 0 to 65535"),
    ("server.port", "65536", "a number from 0 to 65535"),
    ("server.address", "nowhere", "an IP address"),
    ("server.servlet.context-path", "x", "begins with a slash"),
    ("server.shutdown", "slow", "graceful | immediate"),
    (
        "server.max-http-request-header-size",
        "1KB",
        "from 8KiB to 16MiB",
    ),
    ("eurekad.header-timeout", "10 apples", "a duration"),
    ("eurekad.header-timeout", "0", "at least 1ms"),
    ("eurekad.history-max-bytes", "-1", "a size"),
    ("eurekad.max-nesting-depth", "1", "a number from 8 to 512"),
    ("eurekad.profile", "netflix", "default | eureka"),
    ("eurekad.lease-expiry", "double", "exact | eureka"),
    ("eurekad.bad-input-status", "404", "400 | 500"),
    ("eurekad.node-id", "dc1;a", "1 to 128 of the characters"),
    ("eurekad.node-id", "größe", "1 to 128 of the characters"),
    ("eureka.instance.ip-address", "größe", "characters of ASCII"),
    (
        "eureka.instance.instance-id",
        "a\u{1}b",
        "without control characters",
    ),
    (
        "eureka.client.service-url.defaultZone",
        "http://bücher.example/eureka/",
        "URLs by comma",
    ),
    (
        "eurekad.durability",
        "interval:0",
        "sync | process | interval:MS",
    ),
    (
        "eurekad.on-damaged-store",
        "ignore",
        "auto | refuse | move-aside",
    ),
    (
        "eureka.server.enable-self-preservation",
        "maybe",
        "true | false",
    ),
    (
        "eureka.server.renewal-percent-threshold",
        "1.5",
        "a number from 0 to 1",
    ),
    (
        "eureka.server.renewal-percent-threshold",
        "NaN",
        "a number from 0 to 1",
    ),
    (
        "eureka.server.eviction-interval-timer-in-ms",
        "0",
        "at least 1ms",
    ),
    (
        "eureka.server.min-available-instances-for-peer-replication",
        "-2",
        "or -1",
    ),
    ("eureka.instance.initial-status", "ALIVE", "UP | STARTING"),
    (
        "eureka.client.service-url.defaultZone",
        "eureka-2:8761",
        "http[s]://",
    ),
    (
        "eureka.client.use-dns-for-fetching-service-urls",
        "true",
        "d-n-s-name",
    ),
    ("eureka.server.my-url", "srv+http://a/", "http[s]://"),
    ("eurekad.peers-by-address", "yes", "auto | true | false"),
    ("eurekad.dns-servers", "dns.example", "addresses by comma"),
    (
        "eurekad.dns-servers",
        "10.0.0.10:0",
        "with or without a port",
    ),
    ("logging.level.root", "loud", "trace"),
    (
        "management.endpoint.health.show-details",
        "sometimes",
        "never | when-authorized | always",
    ),
];

#[test]
fn every_error_names_key_value_source_and_what_is_allowed() {
    for (key, value, allowed) in WRONG {
        let text = Start::yaml(&format!("\n{key}: \"{value}\"\n")).errors();
        for part in [
            *key,
            &format!("{value:?}"),
            "application.yml:2",
            "allowed is",
            allowed,
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
        let argument = format!("--{key}={value}").leak();
        let text = Start::args(&[argument]).errors();
        assert!(
            text.contains(key) && text.contains("command line"),
            "{text}"
        );
    }
}

#[test]
fn all_wrong_values_are_reported_together() {
    let start = Start::yaml("server.port: x\neurekad.durability: y").env("EUREKAD_PROFILE", "z");
    let errors = start.arg("--frob").try_load().unwrap_err();
    assert_eq!(errors.0.len(), 4, "{errors}");
    assert_eq!(errors.to_string().lines().count(), 5);
}

#[test]
fn a_key_set_to_nothing_has_its_default() {
    assert_eq!(Start::yaml("server:\n  port:\n").config().server.port, 8761);
    assert_eq!(
        Start::args(&["--server.port=${PORT:}"])
            .config()
            .server
            .port,
        8761
    );
}

#[test]
fn unknown_keys_are_named_in_one_warning_with_the_closest_known_key() {
    let start = Start::yaml(
        "eurekad.durabilty: sync\neureka:\n  server:\n    enable-self-preservaton: false",
    )
    .env("EUREKAD_PROFIL", "eureka")
    .arg("--eurka.server.disable-delta=true")
    .arg("--port=9000")
    .arg("--eureka.colour=red")
    .arg("--spring.jpa.show-sql=true")
    .arg("--my.own=1");
    let loaded = start.load();
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    let text = &loaded.warnings[0];
    for part in [
        "eurekad.durabilty (application.yml:1), did you mean eurekad.durability?",
        "eureka.server.enable-self-preservaton (application.yml:4), did you mean \
         eureka.server.enable-self-preservation?",
        "EUREKAD_PROFIL, did you mean eurekad.profile?",
        "eurka.server.disable-delta (command line), did you mean eureka.server.disable-delta?",
        "port (command line), did you mean server.port?",
        "eureka.colour (command line)",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert!(!text.contains("jpa") && !text.contains("my.own"), "{text}");
}

#[test]
fn slips_in_keys_of_spring_are_named_and_what_is_for_others_is_not() {
    let slips = [
        ("server.prot", "server.port"),
        ("logging.levl.root", "logging.level.root"),
        (
            "management.endpoints.web.exposure.inclde",
            "management.endpoints.web.exposure.include",
        ),
        ("spring.applicaton.name", "spring.application.name"),
        ("spring.profile.active", "spring.profiles.active"),
        ("sever.port", "server.port"),
    ];
    for (slip, key) in slips {
        let text = Start::yaml(&format!("{slip}: 1")).warnings();
        let told = format!("{slip} (application.yml:1), did you mean {key}?");
        assert!(text.contains(&told), "{slip}: {text}");
    }
    let text = Start::default().env("SERVER_PROT", "1").warnings();
    assert!(
        text.contains("SERVER_PROT, did you mean server.port?"),
        "{text}"
    );
    for legitimate in [
        "server.http2.enabled",
        "server.error.path",
        "server.servlet.session.timeout",
        "server.servlet.context-parameters.a",
        "server.max-http-header-size",
        "server.tomcat.max-threads",
        "server.jetty.max-connections",
        "server.compression.enabled",
        "server.host",
        "spring.application.admin.enabled",
        "spring.application.group",
        "spring.main.banner-mode",
        "spring.profiles.default",
        "spring.profiles.group.prod",
        "spring.cloud.config.uri",
        "spring.config.activate.on-cloud-platform",
        "spring.security.oauth2.client.x",
        "spring.webflux.base-path",
        "management.server.address",
        "management.server.base-path",
        "management.endpoints.jmx.exposure.include",
        "management.endpoints.web.path-mapping.health",
        "management.endpoints.web.cors.allowed-origins",
        "management.endpoint.health.show-components",
        "management.endpoint.health.probes.enabled",
        "management.metrics.tags.application",
        "logging.level.anything.at.all",
        "logging.file.name",
        "logging.group.tomcat",
        "logging.pattern.level",
        "logging.config",
        "my.server.port",
        "service.port",
    ] {
        let value = if legitimate.starts_with("logging.level") {
            "info"
        } else {
            "1"
        };
        let text = Start::yaml(&format!("{legitimate}: {value}")).warnings();
        assert_eq!(text, "", "{legitimate}");
    }
    let text = Start::yaml("eureka.server.foo: 1").warnings();
    assert!(
        text.ends_with("eureka.server.foo (application.yml:1)"),
        "{text}"
    );
}

#[test]
fn known_keys_without_effect_are_named_in_one_warning_with_the_reason() {
    let start = Start::args(&[
        "--eureka.server.rate-limiter-enabled=true",
        "--eureka.server.a-w-s-access-id=hush",
        "--eureka.enableSelfPreservation=false",
        "--server.ssl.key-store=/x",
        "--eureka.server.remote-region-urls-with-name.eu=http://u:hush@x/",
    ]);
    let loaded = start.load();
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    let text = &loaded.warnings[0];
    for part in [
        "rate-limiter-enabled (command line): the Spring server installs no rate limiter either",
        "a-w-s-access-id (command line): only for a server on Amazon's services",
        "use eureka.server.enable-self-preservation",
        "server.ssl.key-store (command line): not supported yet",
        "urls-with-name.eu (command line): not supported yet",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn more_watchers_than_connections_are_warned_of() {
    let text = |watchers: &'static str, connections: &'static str| {
        Start::default().arg(watchers).arg(connections).warnings()
    };
    let told = text(
        "--eurekad.max-watchers=100",
        "--eurekad.max-connections=100",
    );
    assert!(told.contains("eurekad.max-watchers (100)"), "{told}");
    let told = text("--eurekad.max-watchers=99", "--eurekad.max-connections=100");
    assert_eq!(told, "");
    // The default follows the connections.
    for connections in [
        "--eurekad.max-connections=1",
        "--eurekad.max-connections=9999999",
    ] {
        assert_eq!(Start::args(&[connections.to_owned().leak()]).warnings(), "");
    }
}
