//! `/metrics`: the text is what the format's description says, word by word; its figures move with
//! what happens; and every name that the alerts and the dashboard use is there.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::float_cmp, reason = "figures are whole numbers, and few")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use support::http::request;
use support::{Connection, Registration, Server, wait_for};

/// Labels by name.
type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug)]
struct Family {
    kind: String,
    samples: Vec<(String, Labels, f64)>,
}

/// A whole exposition, by the names of its families.
#[derive(Clone, Debug, Default)]
struct Scrape(BTreeMap<String, Family>);

impl Scrape {
    fn of(port: u16, target: &str) -> Self {
        let mut connection = Connection::open(port).unwrap();
        let answer = connection
            .exchange(&request("GET", target, &[], b""))
            .unwrap();
        assert_eq!(answer.status, 200, "{target}");
        assert_eq!(
            answer.header("content-type"),
            Some("text/plain; version=0.0.4; charset=utf-8")
        );
        Self::parse(std::str::from_utf8(&answer.body).unwrap())
    }

    /// Takes nothing that the format does not have: each family once, with help and type before its
    /// samples, names and labels of their alphabets, no sample twice, sums that are sums.
    fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut found = Self::default();
        let mut helped: Option<&str> = None;
        let mut current: Option<String> = None;
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect(line);
                assert!(is_name(name) && !help.is_empty(), "{line}");
                assert!(!found.0.contains_key(name), "{name} is there twice");
                helped = Some(name);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect(line);
                assert_eq!(helped.take(), Some(name), "{line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let family = Family {
                    kind: kind.to_owned(),
                    samples: Vec::new(),
                };
                found.0.insert(name.to_owned(), family);
                current = Some(name.to_owned());
            } else {
                let (series, value) = line.rsplit_once(' ').expect(line);
                let value: f64 = value.parse().expect(line);
                assert!(value.is_finite(), "{line}");
                assert!(seen.insert(series.to_owned()), "{series} is there twice");
                let (name, labels) = match series.split_once('{') {
                    None => (series, Labels::new()),
                    Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect(line))),
                };
                assert!(is_name(name), "{line}");
                let family = found.0.get_mut(current.as_deref().expect(line)).unwrap();
                let whole = current.as_deref().unwrap();
                let end = name.strip_prefix(whole).expect(line);
                let ends: &[&str] = match family.kind.as_str() {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                assert!(ends.contains(&end), "{line}");
                assert_eq!(labels.contains_key("le"), end == "_bucket", "{line}");
                assert!(family.kind == "gauge" || value >= 0.0, "{line}");
                family.samples.push((name.to_owned(), labels, value));
            }
        }
        assert_eq!(helped, None, "help without a type");
        for (name, family) in &found.0 {
            assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name}");
            if family.kind == "histogram" {
                check_histogram(name, family);
            }
        }
        found
    }

    /// The sum of the samples that have these labels.
    fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        let matches = |labels: &Labels| {
            let has = |(name, value): &(&str, &str)| labels.get(*name).is_some_and(|v| v == value);
            wanted.iter().all(has)
        };
        self.0
            .values()
            .flat_map(|family| &family.samples)
            .filter(|(known, labels, _)| known == name && matches(labels))
            .map(|(_, _, value)| value)
            .sum()
    }

    /// Every name that a query may use.
    fn names(&self) -> BTreeSet<String> {
        let of = |(name, family): (&String, &Family)| match family.kind.as_str() {
            "histogram" => ["_bucket", "_sum", "_count"]
                .map(|end| format!("{name}{end}"))
                .to_vec(),
            _ => vec![name.clone()],
        };
        self.0.iter().flat_map(of).collect()
    }
}

fn is_name(text: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_fine)
}

/// `a="1",b="2"`, with the escapes of values.
fn labels(text: &str) -> Labels {
    let mut labels = Labels::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"").expect(text);
        assert!(is_name(name), "{text}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect(text) {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next().expect(text).1 {
                    'n' => '\n',
                    c @ ('"' | '\\') => c,
                    other => panic!("\\{other} in {text}"),
                }),
                (_, c) => value.push(c),
            }
        };
        let before = labels.insert(name.to_owned(), value);
        assert_eq!(before, None, "{name} is there twice in {text}");
        let after = &after[end + 1..];
        let Some(more) = after.strip_prefix(',') else {
            assert_eq!(after, "", "{text}");
            return labels;
        };
        rest = more;
    }
}

/// Buckets rise in bound and count, the last is `+Inf` and equals the count.
fn check_histogram(name: &str, family: &Family) {
    let mut by_labels: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for (sample, labels, value) in &family.samples {
        let mut labels = labels.clone();
        if let Some(bound) = labels.remove("le") {
            assert!(sample.ends_with("_bucket"));
            let bound = bound.replace("+Inf", "inf").parse().unwrap();
            by_labels.entry(labels).or_default().push((bound, *value));
        }
    }
    for (labels, buckets) in by_labels {
        assert!(buckets.is_sorted(), "{name} {labels:?}: {buckets:?}");
        assert!(
            buckets.is_sorted_by_key(|(_, count)| *count),
            "{name} {labels:?}"
        );
        let (bound, all) = *buckets.last().unwrap();
        assert!(bound.is_infinite(), "{name} {labels:?}");
        let counts = family
            .samples
            .iter()
            .filter(|(sample, known, _)| sample.ends_with("_count") && *known == labels);
        let counts: Vec<f64> = counts.map(|(_, _, value)| *value).collect();
        assert_eq!(counts, [all], "{name} {labels:?}");
    }
}

fn beat(id: &str) -> Vec<u8> {
    request("PUT", &format!("/eureka/apps/METRICS/{id}"), &[], b"")
}

#[test]
fn figures_move_with_what_happens() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(
        &dir.path().join("data"),
        &["--eureka.server.metrics.enabled=true"],
    );
    let before = Scrape::of(server.port(), "/metrics");
    assert_eq!(before.sum("eurekad_instances", &[]), 0.0);
    assert_eq!(before.sum("eurekad_store_healthy", &[]), 1.0);

    let mut connection = Connection::open(server.port()).unwrap();
    let mut status = |bytes: &[u8]| connection.exchange(bytes).unwrap().status;
    for id in ["one", "two"] {
        assert_eq!(status(&Registration::new("METRICS", id).register()), 204);
    }
    for _ in 0..3 {
        assert_eq!(status(&beat("one")), 200);
    }
    assert_eq!(status(&beat("nobody")), 404);
    assert_eq!(status(&request("GET", "/eureka/apps", &[], b"")), 200);
    assert_eq!(status(&request("GET", "/eureka/apps", &[], b"")), 200);
    let away = request(
        "PUT",
        "/eureka/apps/METRICS/two/status?value=OUT_OF_SERVICE",
        &[],
        b"",
    );
    assert_eq!(status(&away), 200);
    assert_eq!(
        status(&request("DELETE", "/eureka/apps/METRICS/one", &[], b"")),
        200
    );
    assert_eq!(status(&request("GET", "/%zz", &[], b"")), 400);
    assert_eq!(
        status(&request("GET", "/nothing/of/that/name", &[], b"")),
        404
    );

    let after = Scrape::of(server.port(), "/metrics");
    let sum = |name: &str, labels: &[(&str, &str)]| after.sum(name, labels);
    assert_eq!(sum("eurekad_instances", &[]), 1.0);
    assert_eq!(sum("eurekad_applications", &[]), 1.0);
    assert_eq!(sum("eurekad_leases", &[("status", "OUT_OF_SERVICE")]), 1.0);
    assert_eq!(sum("eurekad_leases", &[("status", "UP")]), 0.0);
    let here = [("application", "METRICS"), ("status", "OUT_OF_SERVICE")];
    assert_eq!(sum("eureka_server_instances", &here), 1.0);
    assert_eq!(sum("eurekad_renewals_total", &[]), 3.0);
    assert_eq!(sum("eurekad_renewals_expected_per_minute", &[]), 2.0);
    for (kind, count) in [
        ("registered", 2.0),
        ("override-set", 1.0),
        ("cancelled", 1.0),
        ("drained", 0.0),
        ("quarantined", 0.0),
        ("released", 0.0),
    ] {
        assert_eq!(
            sum("eurekad_changes_total", &[("kind", kind)]),
            count,
            "{kind}"
        );
    }
    assert_eq!(sum("eurekad_changes_total", &[]), 4.0);
    assert_eq!(sum("eurekad_log_lsn", &[]), 4.0);
    assert_eq!(sum("eurekad_log_first_lsn", &[]), 1.0);
    assert!(sum("eurekad_store_syncs_total", &[]) > before.sum("eurekad_store_syncs_total", &[]));
    assert_eq!(
        sum("eurekad_cache_requests_total", &[("result", "miss")]),
        1.0
    );
    assert_eq!(
        sum("eurekad_cache_requests_total", &[("result", "hit")]),
        1.0
    );

    let requests = |route: &str, method: &str, status: &str| {
        let labels = [("route", route), ("method", method), ("status", status)];
        after.sum("eurekad_http_requests_total", &labels)
    };
    assert_eq!(requests("app", "POST", "2xx"), 2.0);
    assert_eq!(requests("instance", "PUT", "2xx"), 3.0);
    assert_eq!(requests("instance", "PUT", "4xx"), 1.0);
    assert_eq!(requests("instance", "DELETE", "2xx"), 1.0);
    assert_eq!(requests("instance_status", "PUT", "2xx"), 1.0);
    assert_eq!(requests("malformed", "GET", "4xx"), 1.0);
    assert_eq!(requests("not_found", "GET", "4xx"), 1.0);
    assert_eq!(requests("metrics", "GET", "2xx"), 1.0);
    let beats = [("route", "instance"), ("method", "PUT")];
    assert_eq!(
        sum("eurekad_http_request_duration_seconds_count", &beats),
        4.0
    );
    assert!(sum("eurekad_http_request_duration_seconds_sum", &beats) > 0.0);
    assert!(sum("eurekad_http_connections", &[]) >= 2.0);
    assert!(sum("process_resident_memory_bytes", &[]) > 1e6);
    assert!(sum("process_cpu_seconds_total", &[]) > before.sum("process_cpu_seconds_total", &[]));
    assert!(sum("process_open_fds", &[]) > 3.0);
    assert!(sum("process_start_time_seconds", &[]) > 1.7e9);
}

#[test]
fn new_instances_beyond_the_bound_are_refused_exactly_and_it_is_told() {
    const MOST: usize = 10;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &["--eurekad.max-instances=10"]);
    let port = server.port();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let connections: Vec<_> = (0..8)
            .map(|connection| {
                scope.spawn(move || {
                    let mut open = Connection::open(port).unwrap();
                    let mut register = |n| {
                        let id = format!("i{connection}-{n}");
                        let bytes = Registration::new("FULL", &id).register();
                        open.exchange(&bytes).unwrap()
                    };
                    (0..5).map(&mut register).collect::<Vec<_>>()
                })
            })
            .collect();
        let joined = connections.into_iter().flat_map(|one| one.join().unwrap());
        joined.collect()
    });
    let (refused, taken): (Vec<_>, Vec<_>) = answers.iter().partition(|one| one.status == 503);
    assert_eq!((taken.len(), refused.len()), (MOST, 40 - MOST));
    assert!(taken.iter().all(|answer| answer.status == 204));
    for answer in refused {
        let why = answer.header("x-eurekad-reason").unwrap();
        assert!(why.contains("10 instances") && why.contains("eurekad.max-instances"));
        assert_eq!(answer.header("retry-after"), Some("5"));
        assert!(answer.body.is_empty());
    }
    let scrape = Scrape::of(port, "/metrics");
    assert_eq!(scrape.sum("eurekad_instances", &[]), 10.0);
    assert_eq!(scrape.sum("eurekad_registrations_refused_total", &[]), 30.0);
    let log = server.log();
    let warnings = log.matches("as many as eurekad.max-instances allows");
    assert_eq!(warnings.count(), 1, "{log}");
}

#[test]
fn the_actuator_has_the_same_once_it_is_exposed_and_the_gauge_once_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let exposed = "--management.endpoints.web.exposure.include=health,prometheus";
    let server = Server::start(&dir.path().join("data"), &[exposed]);
    let own = Scrape::of(server.port(), "/metrics").names();
    let spring = Scrape::of(server.port(), "/actuator/prometheus").names();
    assert!(own.is_subset(&spring), "{:?}", own.difference(&spring));
    assert!(spring.contains("process_uptime_seconds"), "{spring:?}");
    assert!(!own.contains("eureka_server_instances"), "{own:?}");
    let mut connection = Connection::open(server.port()).unwrap();
    let mut answer = |method: &str, target: &str| {
        connection
            .exchange(&request(method, target, &[], b""))
            .unwrap()
    };
    assert_eq!(answer("POST", "/metrics").status, 405);
    let links = answer("GET", "/actuator").json();
    assert!(links["_links"]["prometheus"]["href"].is_string(), "{links}");

    let closed = Server::start(&dir.path().join("closed"), &[]);
    let mut connection = Connection::open(closed.port()).unwrap();
    let hidden = connection.exchange(&request("GET", "/actuator/prometheus", &[], b""));
    assert_eq!(hidden.unwrap().status, 404);
}

#[test]
fn peers_are_counted_each_by_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let other = Server::start(&dir.path().join("other"), &[]);
    // Nobody listens on the discard port.
    let peers = [
        format!("http://user:word@127.0.0.1:{}/eureka/", other.port()),
        "http://127.0.0.1:9/eureka/".to_owned(),
    ];
    let urls = format!(
        "--eureka.client.service-url.defaultZone={}",
        peers.join(",")
    );
    let server = Server::start(
        &dir.path().join("data"),
        &[
            &urls,
            "--eureka.client.register-with-eureka=false",
            "--eureka.client.fetch-registry=false",
        ],
    );
    let mut connection = Connection::open(server.port()).unwrap();
    let mut status = |bytes: &[u8]| connection.exchange(bytes).unwrap().status;
    assert_eq!(status(&Registration::new("METRICS", "one").register()), 204);
    assert_eq!(status(&beat("one")), 200);

    let alive = format!("http://127.0.0.1:{}/eureka/", other.port());
    let alive = [("peer", alive.as_str())];
    let scrape = wait_for("a renewal to reach the peer", || {
        let scrape = Scrape::of(server.port(), "/metrics");
        (scrape.sum("eurekad_peer_renewals_total", &alive) > 0.0).then_some(scrape)
    });
    let sum = |name: &str| scrape.sum(name, &alive);
    assert_eq!(sum("eurekad_peer_reachable"), 1.0);
    assert_eq!(sum("eurekad_peer_lag_records"), 0.0);
    assert_eq!(sum("eurekad_peer_cursor_lsn"), 1.0);
    assert!(sum("eurekad_peer_requests_total") >= 3.0);
    assert!(sum("eurekad_peer_batches_total") >= 2.0);
    assert!(sum("eurekad_peer_items_total") >= 1.0);
    assert!(sum("eurekad_peer_sent_bytes_total") > 300.0);
    assert!(sum("eurekad_peer_received_bytes_total") > 10.0);
    assert!(sum("eurekad_peer_last_success_age_seconds") < 3600.0);
    let kind = [alive[0], ("kind", "eurekad")];
    assert_eq!(scrape.sum("eurekad_peer_info", &kind), 1.0);

    let dead = ("peer", "http://127.0.0.1:9/eureka/");
    let failed = wait_for("the dead peer to be tried", || {
        let scrape = Scrape::of(server.port(), "/metrics");
        let labels = [dead, ("class", "connect")];
        let has_failed = scrape.sum("eurekad_peer_errors_total", &labels) > 0.0;
        let lags = scrape.sum("eurekad_peer_lag_records", &[dead]) > 0.0;
        (has_failed && lags).then_some(scrape)
    });
    assert_eq!(failed.sum("eurekad_peer_reachable", &[dead]), 0.0);
    assert_eq!(failed.sum("eurekad_peer_lag_records", &[dead]), 1.0);
    let all: Vec<&Labels> = failed
        .0
        .values()
        .flat_map(|family| &family.samples)
        .map(|(_, labels, _)| labels)
        .collect();
    assert!(
        all.iter()
            .all(|labels| labels.values().all(|value| !value.contains("word"))),
        "credentials are shown"
    );
}

/// The names of metrics in an expression: words of the families' prefixes.
fn names_in(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| {
            ["eurekad_", "eureka_", "process_", "system_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
        .map(str::to_owned)
        .collect()
}

/// Every expression below this value.
fn expressions(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(text) if key == "expr" || key == "query" => found.push(text.to_owned()),
                    _ => expressions(value, found),
                }
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn the_names_that_alerts_and_dashboard_use_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(
        &dir.path().join("data"),
        &["--eureka.server.metrics.enabled=true"],
    );
    let known = Scrape::of(server.port(), "/metrics").names();

    let alerts = names_in(include_str!("../ops/alerts.yml"));
    assert!(alerts.len() > 10, "{alerts:?}");
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../ops/grafana-dashboard.json")).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    let dashboard = names_in(&found.join("\n"));
    assert!(dashboard.len() > 15, "{dashboard:?}");
    let runbook = names_in(include_str!("../ops/runbook.md"));
    for name in alerts.iter().chain(&dashboard).chain(&runbook) {
        assert!(known.contains(name), "{name} is not in /metrics");
    }
}

/// As the original says it: in JSON, and in XML by its own spelling; and nothing without a minimum.
#[test]
fn the_status_says_whether_enough_peers_are_available_if_a_minimum_is_set() {
    let dir = tempfile::tempdir().unwrap();
    for (minimum, expected) in [("-1", None), ("0", Some(true)), ("1", Some(false))] {
        let key = "--eureka.server.min-available-instances-for-peer-replication";
        let setting = format!("{key}={minimum}");
        let server = Server::start(&dir.path().join(minimum), &[&setting]);
        let document = |form: &str| {
            let mut connection = Connection::open(server.port()).unwrap();
            let accept = format!("Accept: application/{form}");
            let ask = request("GET", "/eureka/status", &[&accept], b"");
            let answer = connection.exchange(&ask).unwrap();
            assert_eq!(answer.status, 200);
            String::from_utf8(answer.body).unwrap()
        };
        let json: serde_json::Value = serde_json::from_str(&document("json")).unwrap();
        assert_eq!(
            json.get("healthy").and_then(serde_json::Value::as_bool),
            expected
        );
        let element = expected.map(|is| format!("<isHeathly>{is}</isHeathly>"));
        let xml = document("xml");
        assert_eq!(xml.contains("<isHeathly>"), expected.is_some(), "{xml}");
        assert!(
            element.is_none_or(|element| xml.contains(&element)),
            "{xml}"
        );
    }
}
