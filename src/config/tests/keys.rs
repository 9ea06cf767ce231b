//! The tables of keys, the help and the example, held against what is really read.

use super::super::keys;
use super::*;

#[test]
fn every_property_of_a_spring_server_is_in_the_tables() {
    let names = include_str!("../fixtures/spring-properties.txt");
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
    let help = super::super::args::help();
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
    let text = include_str!("../../../ops/application.yml");
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
    let text = include_str!("../../../ops/application.yml");
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
    assert_eq!(with.peers.by_address, without.peers.by_address);
    assert_eq!(with.compatibility, without.compatibility);
}

#[test]
fn a_key_that_nothing_acts_on_is_named_in_the_warning() {
    let loaded = Start::args(&["--eureka.server.registry-sync-retries=2"]).load();
    let warning = loaded.warnings.join("\n");
    assert!(warning.contains("registry-sync-retries"), "{warning}");
    assert!(warning.contains("the copy is tried until"), "{warning}");
}
