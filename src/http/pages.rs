//! Pages beside the protocol: health and info under the actuator's names, the last leases as the
//! log has them, and a front page that says where things are.

use std::fmt::Write as _;

use hyper::header::{ACCEPT, HOST};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::metrics::Scraper;
use super::request;
use super::{Api, Head};
use crate::changelog::StoreHealth;
use crate::config::{Profile, ShowDetails};
use crate::registry::change::ChangeKind;
use crate::registry::self_preservation;
use crate::replication::sender::Kind;
use crate::replication::state::PeerState;
use crate::store::StoreStats;

/// Leases listed on each half of `/lastn`, as in the original.
const LAST_N: usize = 1000;
/// Records looked through for them at most, so that a page costs the same whatever the log holds.
const LAST_N_RECORDS: usize = 50_000;
const LAST_N_BYTES: usize = 64 << 20;

impl Api {
    pub(super) async fn actuator(
        &self,
        below: &str,
        head: &Head<'_>,
        methods: &'static [&'static str],
    ) -> Answer {
        let (endpoint, rest) = below.split_once('/').unwrap_or((below, ""));
        let is_info_by_default = self.config.compatibility.profile == Profile::Default;
        let is_exposed = endpoint.is_empty()
            || self.config.management.is_exposed(endpoint)
            || endpoint == "info" && is_info_by_default;
        let known = match (endpoint, rest) {
            ("", "") => true,
            ("health", "" | "liveness" | "readiness") | ("info" | "prometheus", "") => is_exposed,
            _ => false,
        };
        if !known {
            return answer::empty(StatusCode::NOT_FOUND);
        }
        if !matches!(*head.method, Method::GET | Method::HEAD) {
            return answer::method_not_allowed(methods);
        }
        if endpoint == "prometheus" {
            return self.metrics(Scraper::Spring, head, methods).await;
        }
        if !accepts_json(request::joined(head.headers, &ACCEPT).as_deref()) {
            return answer::empty(StatusCode::NOT_ACCEPTABLE);
        }
        match endpoint {
            "health" => self.health(rest),
            "info" => json_answer(StatusCode::OK, &self.info()),
            _ => json_answer(StatusCode::OK, &self.actuator_links(head)),
        }
    }

    /// UP while changes can be stored; a failed store is DOWN, though reads go on. Liveness does
    /// not depend on it: a restart does not mend a disk.
    fn health(&self, part: &str) -> Answer {
        let store = self.log.health().borrow().clone();
        let is_up = match (&store, part) {
            (_, "liveness") => true,
            (StoreHealth::Working, "readiness") => self.are_reads_open(),
            (store, _) => *store == StoreHealth::Working,
        };
        let word = if is_up { "UP" } else { "DOWN" };
        let mut document = json!({ "status": word });
        if part.is_empty() {
            document["groups"] = json!(["liveness", "readiness"]);
            if self.config.management.health_details == ShowDetails::Always {
                document["components"] = self.health_details(&store);
            }
        }
        let status = if is_up {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        json_answer(status, &document)
    }

    fn health_details(&self, store: &StoreHealth) -> Value {
        let stats = self.log.stats();
        let state = self.log.snapshot();
        let meter = self.log.meter();
        let settings = self.log.protection();
        let threshold =
            self_preservation::threshold(&state.registry, settings, meter.phantom_clients());
        let (word, reason) = store_words(store);
        let mut details = store_facts(&stats);
        details["reason"] = json!(reason);
        details["lsn"] = json!(state.lsn().0);
        let reads = self.reads_facts();
        let reads_word = if reads["open"] == true {
            "UP"
        } else {
            "OUT_OF_SERVICE"
        };
        json!({
            "reads": { "status": reads_word, "details": reads },
            "store": { "status": word, "details": details },
            "registry": { "status": "UP", "details": {
                "instances": state.registry.len(),
                "applications": state.registry.app_count(),
                "renewals_last_minute": meter.last_minute(),
                "renewals_threshold": threshold,
                "lease_expiration_enabled": self.log.expiration_enabled(&state.registry),
            }},
            "peers": self.peer_details(),
        })
    }

    /// What is known of the peers. A peer that is down makes no node DOWN.
    fn peer_details(&self) -> Value {
        let peers: serde_json::Map<String, Value> = self
            .peers
            .all()
            .into_iter()
            .map(|(url, peer)| (url, peer_facts(&peer)))
            .collect();
        json!({ "status": "UP", "details": peers })
    }

    fn info(&self) -> Value {
        if self.config.compatibility.profile == Profile::Eureka {
            return json!({});
        }
        json!({ "build": { "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") } })
    }

    fn actuator_links(&self, head: &Head<'_>) -> Value {
        let host = request::text(head.headers, &HOST).unwrap_or("localhost");
        let base = format!(
            "http://{host}{}{}",
            self.config.server.context_path, self.config.management.base_path
        );
        let link = |path: &str, templated: bool| json!({ "href": format!("{base}{path}"), "templated": templated });
        let mut links = json!({ "self": link("", false) });
        if self.config.management.is_exposed("health") {
            links["health"] = link("/health", false);
            links["health-path"] = link("/health/{*path}", true);
        }
        for endpoint in ["info", "prometheus"] {
            if self.config.management.is_exposed(endpoint) {
                links[endpoint] = link(&format!("/{endpoint}"), false);
            }
        }
        json!({ "_links": links })
    }

    pub(super) fn home(&self, head: &Head<'_>, methods: &'static [&'static str]) -> Answer {
        if !matches!(*head.method, Method::GET | Method::HEAD) {
            return answer::method_not_allowed(methods);
        }
        let state = self.log.snapshot();
        let mut rows = String::new();
        for (name, app) in state.registry.apps() {
            let mut listed: Vec<String> = app
                .leases()
                .map(|lease| {
                    let instance = lease.instance();
                    format!("{} {}", instance.status, escape(instance.id().as_str()))
                })
                .collect();
            listed.sort();
            let _ = write!(
                rows,
                "<tr><td>{}</td><td>{}</td></tr>",
                escape(name.as_str()),
                listed.join("<br>")
            );
        }
        if rows.is_empty() {
            rows.push_str("<tr><td colspan=2>No instances available</td></tr>");
        }
        let summary = format!(
            "{} instances of {} applications, LSN {}",
            state.registry.len(),
            state.registry.app_count(),
            state.lsn()
        );
        page(
            "Eureka",
            &format!(
                "<p>{summary}</p><table><tr><th>Application</th><th>Status and instance</th></tr>{rows}</table>"
            ),
        )
    }

    /// The last leases that were registered and cancelled (or evicted), newest first. Read from the
    /// log, so they survive a restart; the original forgets them.
    pub(super) fn last_n(&self, head: &Head<'_>, methods: &'static [&'static str]) -> Answer {
        if !matches!(*head.method, Method::GET | Method::HEAD) {
            return answer::method_not_allowed(methods);
        }
        let reader = self.log.reader();
        let records = match reader.read_back(reader.last_lsn(), LAST_N_RECORDS, LAST_N_BYTES) {
            Ok(records) => records,
            Err(error) => {
                tracing::warn!(%error, "reading the last leases from the log: {error}");
                return answer::empty(StatusCode::SERVICE_UNAVAILABLE);
            }
        };
        let rows = |wanted: &dyn Fn(ChangeKind) -> bool| {
            let mut rows = String::new();
            for record in records
                .iter()
                .filter(|r| wanted(r.change.kind))
                .take(LAST_N)
            {
                let time =
                    jiff::Timestamp::from_millisecond(record.at.signed()).unwrap_or_default();
                let lease = format!("{}({})", record.change.app, record.change.id);
                let _ = write!(
                    rows,
                    "<tr><td>{}</td><td>{}</td></tr>",
                    time.strftime("%b %-d, %Y, %-I:%M:%S %p"),
                    escape(&lease)
                );
            }
            if rows.is_empty() {
                rows.push_str("<tr><td colspan=2>No results available</td></tr>");
            }
            rows
        };
        let head = "<tr><th>Timestamp</th><th>Lease</th></tr>";
        page(
            "Last 1000 leases",
            &format!(
                "<h2 id=cancelled>Last 1000 cancelled leases</h2><table>{head}{}</table>\
             <h2 id=registered>Last 1000 newly registered leases</h2><table>{head}{}</table>",
                rows(&ChangeKind::removes),
                rows(&ChangeKind::restarts_lease),
            ),
        )
    }
}

/// Whether changes can be stored, and why not.
pub(super) fn store_words(store: &StoreHealth) -> (&'static str, Option<&str>) {
    match store {
        StoreHealth::Working => ("UP", None),
        StoreHealth::Failed(reason) => ("DOWN", Some(reason.as_str())),
        StoreHealth::Closed => ("DOWN", Some("closed")),
    }
}

pub(super) fn store_facts(stats: &StoreStats) -> Value {
    json!({
        "first_lsn": stats.first_lsn.0,
        "checkpoint_lsn": stats.checkpoint_lsn.0,
        "log_bytes": stats.log_bytes,
        "file_bytes": stats.file_bytes,
        "segments": stats.segments,
        "syncs": stats.syncs,
    })
}

pub(super) fn peer_facts(peer: &PeerState) -> Value {
    json!({
        "kind": match &peer.kind {
            Kind::Unknown => "unknown",
            Kind::Java => "java",
            Kind::Ours { .. } => "eurekad",
        },
        "reachable": peer.is_reachable,
        "last_success": peer.last_success.0,
        "cursor": peer.cursor.0,
        "lag_records": peer.lag_records,
        "lag_ms": peer.lag_ms,
        "requests": peer.counters.requests,
        "items": peer.counters.items,
        "failures": peer.counters.failures,
        "item_errors": peer.counters.item_errors,
        "adopted": peer.counters.adopted,
        "repaired": peer.repaired,
        "error": peer.error,
    })
}

fn json_answer(status: StatusCode, document: &Value) -> Answer {
    answer::with_body(status, "application/json", document.to_string())
}

/// The actuator has JSON only.
fn accepts_json(accept: Option<&str>) -> bool {
    let Some(accept) = accept.filter(|a| !a.trim().is_empty()) else {
        return true;
    };
    accept.split(',').any(|range| {
        let kind = range
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        matches!(kind.as_str(), "*/*" | "application/*" | "application/json")
            || kind.starts_with("application/vnd.spring-boot.actuator")
    })
}

fn page(title: &str, body: &str) -> Answer {
    let html = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>{title}</title><style>\
         body{{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}}\
         table{{border-collapse:collapse;width:100%}}td,th{{border-bottom:1px solid #ddd;\
         padding:.3rem .6rem;text-align:left;vertical-align:top}}</style></head>\
         <body><p><a href=\"/\">Home</a> <a href=\"/lastn\">Last 1000 leases</a></p>\
         <h1>{title}</h1>{body}</body></html>"
    );
    answer::with_body(StatusCode::OK, "text/html;charset=UTF-8", html)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
