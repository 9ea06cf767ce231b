//! The configuration as a whole: sources, precedence, errors, warnings, and the tables of keys.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keys::Effect;
use super::name::uniform;
use super::*;

/// Files in memory.
#[derive(Debug, Default)]
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl FileSource for Files {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.get(path).cloned())
    }
}

/// A start with everything given by hand.
#[derive(Default)]
struct Start {
    args: Vec<&'static str>,
    env: Vec<(&'static str, &'static str)>,
    files: Files,
}

impl Start {
    fn args(args: &[&'static str]) -> Self {
        Self {
            args: args.to_vec(),
            ..Self::default()
        }
    }

    fn file(mut self, name: &str, text: &str) -> Self {
        self.files
            .0
            .insert(PathBuf::from(name), text.as_bytes().to_vec());
        self
    }

    fn yaml(text: &str) -> Self {
        Self::default().file("application.yml", text)
    }

    fn arg(mut self, arg: &'static str) -> Self {
        self.args.push(arg);
        self
    }

    fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    fn try_load(&self) -> Result<Loaded, ConfigErrors> {
        let machine = Machine {
            host_name: "node-1".into(),
            ip_address: "192.0.2.7".into(),
            seed: 7,
        };
        Config::load(
            self.args.iter().map(OsString::from),
            self.env
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
            &self.files,
            &machine,
        )
    }

    fn load(&self) -> Loaded {
        self.try_load().unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn config(&self) -> Config {
        self.load().config
    }

    /// The text of what is wrong.
    fn errors(&self) -> String {
        self.try_load()
            .expect_err("this start must be refused")
            .to_string()
    }

    /// The warnings in one text.
    fn warnings(&self) -> String {
        self.load().warnings.join("\n")
    }

    /// Value and origin of a setting in force.
    fn effective(&self, key: &str) -> (String, String) {
        let loaded = self.load();
        let setting = loaded.effective.iter().find(|setting| setting.key == key);
        let setting = setting.unwrap_or_else(|| panic!("{key} is not among the settings"));
        (setting.value.clone(), setting.origin.to_string())
    }
}

// Precedence and sources.

#[test]
fn command_line_wins_over_environment_over_files_over_defaults() {
    let start = Start::default();
    assert_eq!(start.config().server.port, 8761);
    assert_eq!(start.effective("server.port").1, "default");
    let start = start.file("application.yml", "server:\n  port: 1\n");
    assert_eq!(
        start.effective("server.port"),
        ("1".into(), "application.yml:2".into())
    );
    let start = start.env("SERVER_PORT", "2");
    let expected = (
        "2".to_owned(),
        "environment variable SERVER_PORT".to_owned(),
    );
    assert_eq!(start.effective("server.port"), expected);
    let start = start.env("SPRING_APPLICATION_JSON", r#"{"server":{"port":3}}"#);
    assert_eq!(start.config().server.port, 3);
    let start = start.arg("--server.port=4");
    assert_eq!(
        start.effective("server.port"),
        ("4".into(), "command line".into())
    );
    let start = start.arg("--server.port").arg("5");
    assert_eq!(start.config().server.port, 5);
}

#[test]
fn files_are_laid_over_each_other_as_spring_does() {
    let all = Start::default()
        .file("application.yaml", "server.port: 1")
        .file(
            "application.yml",
            "server.port: 2\neurekad.max-instances: 2",
        )
        .file("application.properties", "server.port=3")
        .file("config/application.yml", "server.port: 4");
    assert_eq!(all.config().server.port, 4);
    assert_eq!(all.config().limits.instances, 2);
    let without = Start::default()
        .file("application.yml", "server.port: 2")
        .file("application.properties", "server.port=3");
    assert_eq!(without.config().server.port, 3);
}

#[test]
fn a_named_file_is_read_alone_and_must_be_there() {
    let start = Start::args(&["--config", "a/b.properties"])
        .file(
            "application.yml",
            "server.port: 1\neurekad.max-instances: 5",
        )
        .file("a/b.properties", "server.port=2");
    assert_eq!(
        (start.config().server.port, start.config().limits.instances),
        (2, 0)
    );
    let two = start.arg("--config=c.yml").file("c.yml", "server.port: 9");
    assert_eq!(two.config().server.port, 9);
    assert_eq!(
        Start::args(&["--config=x.yml"]).errors(),
        "configuration: x.yml: there is no such file"
    );
    let toml = Start::args(&["--config=x.toml"]).file("x.toml", "");
    assert!(toml.errors().contains(".yml, .yaml or .properties"));
}

#[test]
fn documents_and_files_of_profiles_apply_only_when_active() {
    let text = "server.port: 1\n---\nspring.config.activate.on-profile: prod\nserver.port: 2\n";
    let start = Start::yaml(text).file("application-prod.yml", "eurekad.max-instances: 3");
    assert_eq!(
        (start.config().server.port, start.config().limits.instances),
        (1, 0)
    );
    let start = start.arg("--spring.profiles.active=eu,prod");
    assert_eq!(
        (start.config().server.port, start.config().limits.instances),
        (2, 3)
    );
    let old = Start::yaml("spring.profiles.active: a\n---\nspring.profiles: a\nserver.port: 7\n");
    assert_eq!(old.config().server.port, 7);
}

#[test]
fn files_that_cannot_be_read_stop_the_start_with_their_place() {
    let text = Start::yaml("server:\n  port: 1\n  port: 2\n").errors();
    assert_eq!(
        text,
        "configuration: application.yml:3: \"port\" is there twice"
    );
    let mut start = Start::default();
    start
        .files
        .0
        .insert("application.yml".into(), vec![0xff, 0xfe]);
    assert!(start.errors().contains("not UTF-8"));
}

#[test]
fn every_source_may_have_lists_by_comma_or_by_item() {
    let key = "management.endpoints.web.exposure.include";
    let yaml = "management.endpoints.web.exposure:\n  include:\n    - health\n    - info\n";
    let properties = format!("{key}[0]=health\n{key}[1]=info");
    for start in [
        Start::yaml(yaml),
        Start::args(&["--management.endpoints.web.exposure.include=health, info"]),
        Start::default().file("application.properties", &properties),
        Start::default()
            .env("MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE_0", "health")
            .env("MANAGEMENT_ENDPOINTS_WEB_EXPOSURE_INCLUDE_1", "info"),
    ] {
        assert_eq!(start.config().management.include, ["health", "info"]);
    }
    let star = Start::args(&[
        "--management.endpoints.web.exposure.include=*",
        "--management.endpoints.web.exposure.exclude=env",
    ]);
    let management = star.config().management;
    assert!(management.is_exposed("info") && !management.is_exposed("env"));
}

// Names.

/// Twenty keys, a value of each, and what the settings then show.
const SPELLED: &[(&str, &str, &str)] = &[
    ("server.port", "1234", "1234"),
    ("server.servlet.context-path", "/x", "/x"),
    ("server.max-http-request-header-size", "16KB", "16KiB"),
    ("eureka.server.enable-self-preservation", "false", "false"),
    ("eureka.server.renewal-percent-threshold", "0.5", "0.5"),
    (
        "eureka.server.eviction-interval-timer-in-ms",
        "400",
        "400ms",
    ),
    (
        "eureka.server.retention-time-in-m-s-in-delta-queue",
        "1000",
        "1s",
    ),
    ("eureka.server.use-read-only-response-cache", "no", "false"),
    (
        "eureka.server.response-cache-auto-expiration-in-seconds",
        "60",
        "1m",
    ),
    ("eureka.server.peer-node-read-timeout-ms", "2000", "2s"),
    (
        "eureka.server.experimental.registration.validation.dataCenterInfoId",
        "true",
        "true",
    ),
    (
        "eureka.instance.registry.default-open-for-traffic-count",
        "0",
        "0",
    ),
    ("eureka.instance.prefer-ip-address", "true", "true"),
    (
        "eureka.instance.lease-renewal-interval-in-seconds",
        "5",
        "5s",
    ),
    ("eureka.instance.a-s-g-name", "group", "group"),
    ("eureka.dashboard.path", "/dash", "/dash"),
    ("eureka.client.register-with-eureka", "true", "true"),
    ("eurekad.durability", "interval:50", "interval:50"),
    ("eurekad.history-max-bytes", "1GB", "1GiB"),
    ("eurekad.response-cache-early-refresh", "off", "false"),
];

#[test]
fn every_spelling_of_a_name_sets_the_same_key() {
    let camel = |key: &str| {
        let mut out = String::new();
        let mut upper = false;
        for c in key.chars() {
            match c {
                '-' => upper = true,
                c if upper => {
                    out.extend(c.to_uppercase());
                    upper = false;
                }
                c => out.push(c),
            }
        }
        out
    };
    for (key, value, shown) in SPELLED {
        let files = [
            (*key).to_owned(),
            camel(key),
            key.replace('-', "_"),
            key.to_uppercase(),
            key.replace('-', ""),
        ];
        for name in files {
            let start = Start::default().file("application.properties", &format!("{name}={value}"));
            assert_eq!(start.effective(key).0, *shown, "{name}");
        }
        let variables = [
            key.replace('.', "_").replace('-', "").to_uppercase(),
            key.replace(['.', '-'], "_").to_uppercase(),
            (*key).to_owned(),
        ];
        for name in variables {
            let start = Start {
                env: vec![(name.clone().leak(), value)],
                ..Start::default()
            };
            assert_eq!(start.effective(key).0, *shown, "{name}");
            assert_eq!(start.warnings(), "", "{name}");
        }
    }
}

// Placeholders.

#[test]
fn placeholders_are_replaced_in_every_source() {
    let text = "base: 40\nserver.port: ${base}${LAST:1}\n\
                spring.application.name: reg\n\
                eureka.instance.instance-id: ${spring.cloud.client.hostname}:${spring.application.name}:${server.port}\n";
    let config = Start::yaml(text).env("LAST", "7").config();
    assert_eq!(config.server.port, 407);
    assert_eq!(config.instance.instance_id, "node-1:reg:407");
    assert_eq!(Start::yaml(text).arg("--LAST=5").config().server.port, 405);
    let start = Start::yaml("x: 1\nserver:\n  port: ${nothing}");
    assert_eq!(
        start.errors(),
        "configuration: server.port = \"${nothing}\" (application.yml:3): ${nothing} is set \
         nowhere and has no default"
    );
}

// Wrong values.

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

// Warnings.

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

// The tables.

#[test]
fn every_property_of_a_spring_server_is_in_the_tables() {
    let names = include_str!("fixtures/spring-properties.txt");
    let names: Vec<&str> = names
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert!(names.len() > 150, "{}", names.len());
    for name in names {
        assert!(keys::find(name).is_some(), "{name} is in no table");
    }
}

#[test]
fn the_keys_called_honoured_are_those_that_are_read() {
    let loaded = Start::args(&[
        "--logging.level.x=info",
        "--eureka.instance.metadata-map.x=1",
        "--eureka.client.service-url.defaultZone=http://a/",
        "--eureka.client.availability-zones.us-east-1=defaultZone",
    ])
    .load();
    let read: Vec<String> = loaded.effective.iter().map(|s| uniform(&s.key)).collect();
    // Further names of a key that is read; the debug assertion in `found` looks at them.
    let other_names = [
        "spring.lifecycle.timeout-per-shutdown-phase",
        "server.tomcat.max-connections",
        "eureka.server.default-open-for-traffic-count",
        "eureka.server.expected-number-of-renews-per-min",
    ];
    for key in keys::all().filter(|key| key.effect == Effect::Honoured) {
        let name = uniform(key.name.trim_end_matches(".*"));
        let is_read = read.iter().any(|read| {
            *read == name || (key.name.ends_with(".*") && read.starts_with(&format!("{name}.")))
        });
        assert!(
            is_read || other_names.contains(&key.name),
            "{} is read by nothing",
            key.name
        );
    }
    for name in &read {
        let key = keys::find(name).unwrap_or_else(|| panic!("{name} is in no table"));
        assert_eq!(key.effect, Effect::Honoured, "{name}");
    }
}

#[test]
fn other_names_of_a_key_are_heard_where_the_first_is_not_set() {
    let start = Start::args(&[
        "--server.tomcat.max-connections=5",
        "--spring.lifecycle.timeout-per-shutdown-phase=3s",
        "--eureka.server.defaultOpenForTrafficCount=0",
        "--eureka.server.expectedNumberOfRenewsPerMin=4",
    ]);
    let config = start.config();
    assert_eq!(config.server.max_connections, 5);
    assert_eq!(config.server.shutdown_grace, Duration::from_secs(3));
    assert_eq!(config.registry.open_for_traffic_count, 0);
    assert_eq!(config.registry.expected_clients_sending_renews, 4);
    assert_eq!(
        start
            .arg("--eurekad.max-connections=6")
            .config()
            .server
            .max_connections,
        6
    );
}

#[test]
fn the_help_names_only_known_keys_with_their_true_defaults() {
    let help = args::help();
    let loaded = Start::args(&["--logging.level.root=info"]).load();
    let mut seen = 0;
    for line in help.lines() {
        let Some((name, rest)) = line
            .strip_prefix("  ")
            .and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        if !name.contains('.') || !line.ends_with(']') {
            continue;
        }
        assert!(keys::find(name).is_some(), "{name}");
        let default = rest.rsplit_once('[').unwrap().1.trim_end_matches(']');
        if default.contains(' ') || default == "none" {
            continue;
        }
        let setting = loaded.effective.iter().find(|setting| setting.key == name);
        assert_eq!(setting.map(|s| s.value.as_str()), Some(default), "{name}");
        seen += 1;
    }
    assert!(
        seen > 15,
        "only {seen} keys with defaults were found in the help"
    );
    assert!(
        help.lines().all(|line| line.chars().count() <= 100),
        "{help}"
    );
}

// Profile and knobs.

#[test]
fn the_profile_sets_every_knob_and_a_knob_alone_wins() {
    let default = Start::default().config().compatibility;
    assert_eq!(default, Compatibility::of(Profile::Default));
    let eureka = Start::args(&["--eurekad.profile=eureka"]);
    assert_eq!(
        eureka.config().compatibility,
        Compatibility::of(Profile::Eureka)
    );
    let shown = eureka.effective("eurekad.lease-expiry");
    assert_eq!(
        shown,
        ("eureka".into(), "default of eurekad.profile=eureka".into())
    );
    // Each knob differs between the profiles, so that none was forgotten.
    let defaults = Start::default().load().effective;
    let knobs = eureka.load().effective;
    let from_profile: Vec<&Setting> = knobs
        .iter()
        .filter(|setting| setting.origin == Origin::Profile)
        .collect();
    assert_eq!(from_profile.len(), 18);
    for knob in from_profile {
        assert!(
            !defaults
                .iter()
                .any(|d| d.key == knob.key && d.value == knob.value),
            "{knob:?}"
        );
    }

    let mixed = Start::args(&["--eurekad.profile=eureka", "--eurekad.lease-expiry=exact"]);
    let mixed = mixed.config().compatibility;
    assert_eq!(mixed.lease_expiry, LeaseExpiry::Exact);
    assert_eq!(mixed.decoder, Decoder::Exact);
    let single = Start::args(&["--eurekad.override-scope=ID", "--eurekad.serverinfo=off"]);
    let single = single.config().compatibility;
    let expected = Compatibility {
        override_scope: OverrideScope::Id,
        serverinfo: false,
        ..default
    };
    assert_eq!(single, expected);
}

// Defaults.

#[test]
fn nothing_set_gives_the_defaults_of_the_structs() {
    let config = Start::default().config();
    let expected = Config::default();
    assert_eq!(config.server, expected.server);
    assert_eq!(config.registry, expected.registry);
    assert_eq!(config.cache, expected.cache);
    assert_eq!(config.store, expected.store);
    assert_eq!(config.limits, expected.limits);
    assert_eq!(config.dashboard, expected.dashboard);
    assert_eq!(config.management, expected.management);
    assert_eq!(config.log, expected.log);
    assert_eq!(config.server.address, "0.0.0.0".parse::<IpAddr>().unwrap());
    assert!(Start::default().load().warnings.is_empty());
}

#[test]
fn the_own_instance_is_filled_in_from_the_machine_and_other_settings() {
    let start = Start::args(&["--server.port=9", "--spring.application.name=reg"]);
    let own = start.config().instance;
    assert_eq!(
        (own.host_name.as_str(), own.ip_address.as_str()),
        ("node-1", "192.0.2.7")
    );
    assert_eq!(own.instance_id, "node-1:reg:9");
    assert_eq!(
        (own.app_name.as_str(), own.vip_address.as_str(), own.port),
        ("reg", "reg", 9)
    );
    assert_eq!(own.home_page_url, "http://node-1:9/");
    assert_eq!(own.metadata.0["management.port"], "9");
    let own = start
        .arg("--eureka.instance.prefer-ip-address=true")
        .arg("--server.servlet.context-path=/x/")
        .arg("--eureka.instance.home-page-url-path=home")
        .arg("--eureka.instance.metadataMap.my-Zone=z1")
        .config()
        .instance;
    assert_eq!(own.host_name, "192.0.2.7");
    assert_eq!(own.home_page_url, "http://192.0.2.7:9/home");
    assert_eq!(own.health_check_url, "http://192.0.2.7:9/x/actuator/health");
    assert_eq!(own.metadata.0["my-Zone"], "z1");
    assert_eq!(
        Start::default().config().instance.instance_id,
        "node-1:8761"
    );
}

// Peers.

#[test]
fn a_node_without_service_urls_is_alone() {
    let config = Start::default().config();
    assert!(!config.peers.has_peers());
    assert!(!config.peers.register_with_eureka && !config.peers.fetch_registry);
    assert_eq!(config.registry.sync_retries, 0);
    // The usual file of a lone Spring server names the node itself.
    let own = Start::yaml(
        "eureka:\n  client:\n    service-url:\n      \
         defaultZone: http://localhost:${server.port}/eureka/\n",
    );
    assert!(!own.config().peers.has_peers());
}

#[test]
fn peers_are_the_urls_of_the_zones_of_the_own_region_without_the_node_itself() {
    let text = "eureka.client:\n  region: eu\n  availability-zones:\n    eu: b, a\n    us: c\n  \
                service-url:\n    a: http://n1:8761/eureka,http://NODE-1:8761/eureka/\n    \
                b: http://n2:8761/eureka/, http://n1:8761/eureka/\n    c: http://n3/eureka/\n";
    let start = Start::yaml(text);
    let loaded = start.load();
    let urls: Vec<String> = loaded
        .config
        .peers
        .urls()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(urls, ["http://n2:8761/eureka/", "http://n1:8761/eureka/"]);
    assert!(loaded.config.peers.register_with_eureka && loaded.config.peers.fetch_registry);
    assert_eq!(loaded.config.registry.sync_retries, 5);
    assert!(
        loaded.warnings[0].contains("not used: c"),
        "{:?}",
        loaded.warnings
    );
    let off = start.arg("--eureka.client.fetch-registry=false").config();
    assert!(off.peers.register_with_eureka && !off.peers.fetch_registry);
}

#[test]
fn a_second_node_on_the_same_machine_is_a_peer() {
    let config = Start::args(&[
        "--server.port=8762",
        "--eureka.client.serviceUrl.defaultZone=http://localhost:8761/eureka/,http://localhost:8762/eureka/",
    ])
    .config();
    let urls: Vec<String> = config
        .peers
        .urls()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(urls, ["http://localhost:8761/eureka/"]);
}

#[test]
fn the_default_zone_may_come_from_an_environment_variable() {
    let url = "http://n2:8761/eureka/";
    for name in [
        "EUREKA_CLIENT_SERVICEURL_DEFAULTZONE",
        "EUREKA_CLIENT_SERVICE_URL_DEFAULT_ZONE",
        "EUREKA_CLIENT_SERVICE_URL_DEFAULTZONE",
        "eureka.client.serviceUrl.defaultZone",
    ] {
        let config = Start::default().env(name, url).config();
        assert_eq!(config.peers.urls().len(), 1, "{name}");
    }
    let file = "eureka.client.service-url.defaultZone: http://n1/";
    let both = Start::yaml(file).env("EUREKA_CLIENT_SERVICEURL_DEFAULTZONE", url);
    let urls: Vec<String> = both
        .config()
        .peers
        .urls()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(urls, [url]);
}

#[test]
fn credentials_are_never_shown() {
    let start = Start::args(&[
        "--eureka.client.service-url.defaultZone=http://alice:s3cret@n2:8761/eureka/",
        "--eureka.server.my-url=http://alice:s3cret@node-1:8761/eureka/",
        "--eureka.instance.metadata-map.user.password=s3cret",
    ]);
    let loaded = start.load();
    let credentials = loaded.config.peers.urls()[0].credentials.clone().unwrap();
    assert_eq!(credentials.password.expose(), "s3cret");
    let shown = format!("{loaded:?}{}", loaded.print_effective());
    assert!(
        !shown.contains("s3cret") && !shown.contains("alice"),
        "{shown}"
    );
    assert!(shown.contains("http://n2:8761/eureka/"), "{shown}");

    for wrong in [
        "http://alice:s3cret@n2:x/",
        "alice:s3cret@n2:8761/",
        "http://alice:s3,cret@n2:8761/",
        "http://alice:s3cret/@n2/",
        "http://n1/,http://alice:s3cret@n2:x/${nothing}",
    ] {
        let argument = format!("--eureka.client.service-url.defaultZone={wrong}").leak();
        let text = Start::args(&[argument]).errors();
        assert!(!text.contains("s3") && !text.contains("alice"), "{text}");
    }
}

// The command line.

#[test]
fn commands_are_told_apart() {
    for args in [&[][..], &["serve"], &["serve", "--data-dir", "/d"]] {
        assert_eq!(Start::args(args).load().command, Command::Serve);
    }
    let config = Start::args(&["config", "--data-dir=/d"]).load();
    assert_eq!(config.command, Command::PrintConfig);
    assert_eq!(config.config.store.data_dir, Path::new("/d"));
    for args in [
        &["--version"][..],
        &["-V"],
        &["version"],
        &["serve", "--version"],
    ] {
        assert_eq!(Start::args(args).load().command, Command::Version);
    }
    for args in [
        &["--help"][..],
        &["-h"],
        &["help"],
        &["--server.port=x", "--help"],
    ] {
        assert!(matches!(Start::args(args).load().command, Command::Help(_)));
    }
}

#[test]
fn what_is_no_option_is_refused_with_the_closest_one() {
    for (args, part) in [
        (&["--datadir=/x"][..], "did you mean --data-dir?"),
        (&["--confg", "a.yml"], "did you mean --config?"),
        (&["--frobnicate"], "--help lists them"),
        (&["--server.port"], "needs a value"),
        (&["--data-dir"], "needs a value"),
        (&["serv"], "did you mean serve?"),
        (&["serve", "serve"], "command"),
        (&["-x"], "neither a command nor an option"),
    ] {
        let text = Start::args(args).errors();
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

// Printing, and the example.

#[test]
fn the_settings_are_printed_by_name_with_their_origin() {
    let text = Start::args(&["--server.port=9"]).load().print_effective();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.is_sorted(), "{text}");
    let line = lines
        .iter()
        .find(|line| line.starts_with("server.port = 9 "))
        .unwrap();
    assert!(line.ends_with("# command line"), "{line}");
}

#[test]
fn the_example_file_loads_without_a_warning() {
    let text = include_str!("../../ops/application.yml");
    let start = Start::args(&["--config=application.yml"]).file("application.yml", text);
    let loaded = start.load();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert_eq!(loaded.config.instance.host_name, "eureka-1");
    let urls: Vec<String> = loaded
        .config
        .peers
        .urls()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(urls, ["http://eureka-2:8761/eureka/"]);
    assert_eq!(loaded.config.store.data_dir, Path::new("/var/lib/eurekad"));
}

#[test]
fn the_commented_lines_of_the_example_show_the_defaults() {
    let text = include_str!("../../ops/application.yml");
    // "    # key: value" becomes "    key: value" where it is a setting and not a sentence.
    let active: Vec<String> = text
        .lines()
        .map(|line| match line.split_once("# ") {
            Some((indent, setting))
                if indent.trim().is_empty()
                    && setting.split_once(": ").is_some_and(|(key, _)| {
                        keys::all().any(|known| known.name.ends_with(key)) || key == "address"
                    }) =>
            {
                format!("{indent}{setting}")
            }
            _ => line.to_owned(),
        })
        .collect();
    let active = active.join("\n");
    assert_ne!(active, text.trim_end());
    let with = Start::yaml(&active).config();
    let without = Start::yaml(text).config();
    assert_eq!(with.server.port, without.server.port);
    assert_eq!(with.registry, without.registry);
    assert_eq!(
        with.peers.register_with_eureka,
        without.peers.register_with_eureka
    );
    assert_eq!(with.store, without.store);
    assert_eq!(with.compatibility, without.compatibility);
}
