//! Where settings come from: files, environment, command line, profiles, placeholders, names.

use super::*;

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

#[test]
fn the_disk_is_read_below_the_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("application.yml"), "server.port: 7").unwrap();
    let disk = DiskFiles {
        cwd: folder.path().to_owned(),
    };
    let machine = Machine::detect();
    assert!(!machine.host_name.is_empty());
    assert!(machine.ip_address.parse::<IpAddr>().is_ok());
    let load = |args: &[&str]| {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        Config::load(args.into_iter(), std::iter::empty(), &disk, &machine)
    };
    assert_eq!(load(&[]).unwrap().config.server.port, 7);
    assert_eq!(
        load(&["--config=application.yml"])
            .unwrap()
            .config
            .server
            .port,
        7
    );
    assert!(load(&["--config=missing.yml"]).is_err());
    let absolute = format!(
        "--config={}",
        folder.path().join("application.yml").display()
    );
    assert_eq!(load(&[&absolute]).unwrap().config.server.port, 7);
}
