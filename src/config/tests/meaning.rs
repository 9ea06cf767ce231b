//! What settings mean together: profiles and knobs, defaults, the own instance, peers.

use super::*;
use crate::registry::rules::{LeaseExpiry, OverrideScope};

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
    assert_eq!(from_profile.len(), 19);
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
    let elsewhere = Start::yaml(text).arg("--eureka.client.prefer-same-zone-eureka=false");
    assert_eq!(elsewhere.config().peers.zones(), ["a", "b"]);
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
fn a_name_of_srv_records_is_a_peer_to_be_found() {
    let config =
        Start::args(&["--eureka.client.service-url.defaultZone=srv+http://_e._tcp.x.org/eureka/"])
            .config();
    assert!(config.peers.has_peers() && config.peers.register_with_eureka);
    assert_eq!(
        config.peers.urls()[0].to_string(),
        "srv+http://_e._tcp.x.org/eureka/"
    );
}

#[test]
fn who_answers_for_names_can_be_set() {
    let plain = Start::default().config().peers;
    assert!(plain.dns_servers.is_empty());
    assert_eq!(plain.by_address, PeersByAddress::Auto);
    let loaded =
        Start::yaml("eurekad:\n  peers-by-address: true\n  dns-servers: \"10.0.0.10, 127.0.0.1:5353, [::1]:54, ::1\"\n")
            .load();
    let peers = &loaded.config.peers;
    let servers: Vec<String> = peers.dns_servers.iter().map(ToString::to_string).collect();
    assert_eq!(
        servers,
        ["10.0.0.10:53", "127.0.0.1:5353", "[::1]:54", "[::1]:53"]
    );
    assert_eq!(peers.by_address, PeersByAddress::Always);
    let never = Start::args(&["--eurekad.peers-by-address=false"]).config();
    assert_eq!(never.peers.by_address, PeersByAddress::Never);
}

#[test]
fn peers_from_txt_records_take_the_place_of_service_urls() {
    let start = Start::args(&[
        "--eureka.client.use-dns-for-fetching-service-urls=true",
        "--eureka.client.eureka-server-d-n-s-name=eureka.example.com",
        "--eureka.client.eureka-server-u-r-l-context=/eureka/v2/",
    ]);
    let dns = start.config().peers.dns.expect("peers by DNS");
    assert_eq!((dns.port, dns.context.as_str()), (8761, "eureka/v2"));
    assert!(start.load().warnings.is_empty());
    let both = start.arg("--eureka.client.service-url.defaultZone=http://n2/");
    let warnings = both.load().warnings;
    assert!(warnings[0].contains("come from DNS"), "{warnings:?}");
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
    // That there are some is seen.
    for masked in [
        "http://***@n2:8761/eureka/",
        "http://***@node-1:8761/eureka/",
    ] {
        assert!(shown.contains(masked), "{shown}");
    }

    for wrong in [
        "http://alice:s3cret@n2:x/",
        "alice:s3cret@n2:8761/",
        "http://alice:s3,cret@n2:8761/",
        "http://alice:s3cret/@n2/",
        "http://n1/,http://alice:s3cret@n2:x/${nothing}",
        "http://n1/,http://alice:s3cret@n2/?a=b",
        "http://alice:pw@n2/?token=s3cret",
        "http://n2/?token=s3cret",
        "http://n2/?a=1,token=s3cret,http://n3/",
        "http://n2/#s3cret",
        "n2:8761/eureka/?token=s3cret",
        "http://n2/?mail=a@s3cret",
        "http://alice:s3?cr/et@n2/#x@y",
        "http://alice:pw@n2/eureka?token=s3cret,http://alice:s3cret@n3/",
    ] {
        let argument = format!("--eureka.client.service-url.defaultZone={wrong}").leak();
        let refused = Start::args(&[argument]).errors();
        // What was forgotten is a part of the message, and the value may be, too.
        let mistyped = Start::args(&[argument.trim_start_matches('-')]).errors();
        // As this node's own URL some of them will do.
        let own = format!("--eureka.server.my-url={wrong}").leak();
        let own = match Start::args(&[own]).try_load() {
            Ok(loaded) => loaded.print_effective(),
            Err(errors) => errors.to_string(),
        };
        for text in [refused, mistyped, own] {
            assert!(!text.contains("s3") && !text.contains("alice"), "{text}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_url_is_still_seen() {
    for (wrong, shown) in [
        ("http://n2:x/eureka/", "http://n2:x/eureka/"),
        ("http://n2/?q=1", "http://n2/?***"),
        ("http://u:p@n2/?q=1", "http://***@n2/?***"),
        ("http://n1/,http://u:p@n2:x/", "http://n1/,http://***@n2:x/"),
        ("http://n1/#", "http://n1/#"),
        ("tcp://u:p?q@n2/", "tcp://***"),
    ] {
        let argument = format!("--eureka.client.service-url.defaultZone={wrong}").leak();
        let text = Start::args(&[argument]).errors();
        assert!(text.contains(&format!("{shown:?}")), "{text}");
    }
}

#[test]
fn urls_in_force_are_shown_without_credentials_and_queries() {
    let start = Start::args(&[
        "--eureka.instance.home-page-url=http://alice:s3cret@n1/?token=s3cret",
        "--eureka.instance.metadata-map.callback=https://n1/hook?key=s3cret",
        "--eureka.instance.metadata-map.owner=team?@example.org",
    ]);
    let shown = start.load().print_effective();
    assert!(
        !shown.contains("s3cret") && !shown.contains("alice"),
        "{shown}"
    );
    for line in [
        "http://***@n1/?***",
        "https://n1/hook?***",
        "= team?@example.org",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}
