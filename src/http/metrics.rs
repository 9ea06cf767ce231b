//! `/metrics` and `/actuator/prometheus`: the node's figures for Prometheus. Each is read where it is
//! kept when somebody asks; names end with their unit (seconds, bytes, `_total`), labels come from
//! closed sets but for the peers' URLs, and, only if the original's gauge is wanted
//! (`eureka.server.metrics.enabled`), the names of applications.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};

use super::answer::{self, Answer};
use super::traffic::BOUNDS_US;
use super::{Api, Head, own};
use crate::changelog::{Published, StoreHealth};
use crate::config::Choice as _;
use crate::history::entry::event_word;
use crate::registry::change::{ChangeEvent, ChangeKind};
use crate::registry::self_preservation;
use crate::registry::status::Status;
use crate::replication::sender::Kind as PeerKind;
use crate::replication::state::PeerState;
use crate::telemetry::exposition::{CONTENT_TYPE, Exposition, Kind};
use crate::telemetry::process::{self, Usage};
use crate::types::Millis;

/// Who asks, which decides on some names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scraper {
    /// `/metrics`.
    Own,
    /// `/actuator/prometheus`: with what dashboards for Spring Boot look for besides.
    Spring,
}

/// Instances by application and status, as the original's gauge has them.
type ByApplication = BTreeMap<String, [u64; Status::ALL.len()]>;

impl Api {
    pub(super) async fn metrics(
        &self,
        scraper: Scraper,
        head: &Head<'_>,
        methods: &'static [&'static str],
    ) -> Answer {
        if !matches!(*head.method, Method::GET | Method::HEAD) {
            return match scraper {
                Scraper::Own => own::method_not_allowed(head, methods),
                Scraper::Spring => answer::method_not_allowed(methods),
            };
        }
        let state = self.log.snapshot();
        let counted = state.clone();
        let is_by_application = self.config.registry.instance_gauge;
        // Files of the system, and a walk over the registry.
        let slow = tokio::task::spawn_blocking(move || {
            let by_application = is_by_application.then(|| by_application(&counted));
            (process::usage(), by_application)
        });
        let Ok((usage, by_application)) = slow.await else {
            return answer::empty(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let mut text = Exposition::default();
        self.of_registry(&mut text, &state, by_application.as_ref());
        self.of_renewals(&mut text, &state);
        self.of_log(&mut text, &state);
        self.of_cache(&mut text);
        self.of_http(&mut text);
        self.of_peers(&mut text);
        self.of_process(&mut text, &usage, scraper);
        answer::with_body(StatusCode::OK, CONTENT_TYPE, text.into_text())
    }

    fn of_registry(
        &self,
        text: &mut Exposition,
        state: &Published,
        by_application: Option<&ByApplication>,
    ) {
        text.family(
            "eurekad_build_info",
            Kind::Gauge,
            "1, with the version and the profile of this node.",
        )
        .sample(
            &[
                ("version", env!("CARGO_PKG_VERSION")),
                ("profile", self.config.compatibility.profile.as_str()),
            ],
            1,
        );
        let registry = &state.registry;
        text.gauge(
            "eurekad_instances",
            "Instances in the registry.",
            registry.len(),
        );
        text.gauge(
            "eurekad_applications",
            "Applications with at least one instance.",
            registry.app_count(),
        );
        let mut leases = text.family("eurekad_leases", Kind::Gauge, "Leases by effective status.");
        for (status, count) in Status::ALL.into_iter().zip(registry.status_counts()) {
            leases.sample(&[("status", status.as_str())], count);
        }
        text.gauge(
            "eurekad_reads_open",
            "Whether reads of the registry are answered: 0 while an empty node copies from a peer.",
            u8::from(self.are_reads_open()),
        );
        let mut changes = text.family(
            "eurekad_changes_total",
            Kind::Counter,
            "Changes of the registry since the start, by kind as the history has it.",
        );
        for (event, count) in self.log.changes() {
            changes.sample(&[("kind", event_word(event))], count);
        }
        let evictions = self.log.changes().find_map(|(event, count)| {
            (event == ChangeEvent::Kind(ChangeKind::Evicted)).then_some(count)
        });
        text.counter(
            "eurekad_evictions_total",
            "Leases that expired and were evicted, since the start.",
            evictions.unwrap_or(0),
        );
        if let Some(by_application) = by_application {
            let mut instances = text.family(
                "eureka_server_instances",
                Kind::Gauge,
                "Instances by application and status (eureka.server.metrics.enabled).",
            );
            for (application, counts) in by_application {
                for (status, count) in Status::ALL.into_iter().zip(counts) {
                    if *count > 0 {
                        instances.sample(
                            &[("application", application), ("status", status.as_str())],
                            count,
                        );
                    }
                }
            }
        }
    }

    fn of_renewals(&self, text: &mut Exposition, state: &Published) {
        let (meter, settings) = (self.log.meter(), self.log.protection());
        let threshold =
            self_preservation::threshold(&state.registry, settings, meter.phantom_clients());
        text.counter(
            "eurekad_renewals_total",
            "Renewals since the start, peers' included.",
            meter.total(),
        );
        text.gauge(
            "eurekad_renewals_last_minute",
            "Renewals in the last whole minute.",
            meter.last_minute(),
        );
        text.gauge(
            "eurekad_renewals_expected_per_minute",
            "Renewals that the leases come to, each by its own interval.",
            state.registry.expected_renewals_per_minute(),
        );
        text.gauge(
            "eurekad_renewals_threshold_per_minute",
            "Renewals at or below which nothing expires.",
            threshold,
        );
        text.gauge(
            "eurekad_self_preservation_enabled",
            "Whether too few renewals keep leases from expiring.",
            u8::from(settings.enabled),
        );
        text.gauge(
            "eurekad_self_preservation_active",
            "Whether nothing expires at present, since renewals are too few.",
            u8::from(!self.log.expiration_enabled(&state.registry)),
        );
    }

    fn of_log(&self, text: &mut Exposition, state: &Published) {
        let stats = self.log.stats();
        let is_healthy = *self.log.health().borrow() == StoreHealth::Working;
        text.gauge(
            "eurekad_store_healthy",
            "Whether changes can be stored.",
            u8::from(is_healthy),
        );
        text.gauge(
            "eurekad_log_lsn",
            "Position of the newest change.",
            state.lsn().0,
        );
        text.gauge(
            "eurekad_log_first_lsn",
            "Position of the oldest change that is kept.",
            stats.first_lsn.0,
        );
        text.gauge(
            "eurekad_checkpoint_lsn",
            "Position of the newest checkpoint.",
            stats.checkpoint_lsn.0,
        );
        text.gauge(
            "eurekad_log_bytes",
            "Bytes of the changes that are kept.",
            stats.log_bytes,
        );
        text.gauge(
            "eurekad_log_segments",
            "Segments of the log.",
            stats.segments,
        );
        text.gauge(
            "eurekad_store_file_bytes",
            "Size of the database file.",
            stats.file_bytes,
        );
        text.counter(
            "eurekad_store_syncs_total",
            "Times that the database file was synced to the disk.",
            stats.syncs,
        );
        text.counter(
            "eurekad_store_flushes_total",
            "Times that the database was flushed.",
            stats.flushes,
        );
    }

    fn of_cache(&self, text: &mut Exposition) {
        let (hits, misses) = self.cache.hits_and_misses();
        let mut requests = text.family(
            "eurekad_cache_requests_total",
            Kind::Counter,
            "Cached reads: answered with what was at hand (hit), or made for it (miss).",
        );
        requests.sample(&[("result", "hit")], hits);
        requests.sample(&[("result", "miss")], misses);
        text.gauge(
            "eurekad_cache_bytes",
            "Bytes held by cached answers, roughly.",
            self.cache.weighted_size(),
        );
        text.gauge(
            "eurekad_cache_max_bytes",
            "Bound of the bytes held by cached answers.",
            self.cache.max_bytes(),
        );
    }

    fn of_http(&self, text: &mut Exposition) {
        let counted = self.traffic.counted();
        let mut requests = text.family(
            "eurekad_http_requests_total",
            Kind::Counter,
            "Requests answered, by what was asked for, method and class of status.",
        );
        for cell in &counted {
            for (status, count) in &cell.classes {
                let labels = [
                    ("route", cell.route),
                    ("method", cell.method),
                    ("status", *status),
                ];
                requests.sample(&labels, count);
            }
        }
        let bounds = BOUNDS_US.map(seconds_of_micros);
        let mut durations = text.family(
            "eurekad_http_request_duration_seconds",
            Kind::Histogram,
            "From the end of a request's head to the head of its answer.",
        );
        for cell in &counted {
            let labels = [("route", cell.route), ("method", cell.method)];
            durations.histogram(
                &labels,
                &bounds,
                &cell.buckets,
                seconds_of_micros(cell.micros),
            );
        }
        let mut refused = text.family(
            "eurekad_batches_refused_total",
            Kind::Counter,
            "Replication batches of which nothing was done: no batches (content), too long (size), with too \
             many items (items), or not received (unread).",
        );
        for (reason, count) in self.traffic.refused_batches() {
            refused.sample(&[("reason", reason)], count);
        }
        text.counter(
            "eurekad_registrations_refused_total",
            "Registrations of new instances that eurekad.max-instances refused.",
            self.refused_registrations.total(),
        );
        let (accepted, open) = self.traffic.connections();
        text.counter(
            "eurekad_http_connections_total",
            "Connections accepted.",
            accepted,
        );
        text.gauge(
            "eurekad_http_connections",
            "Connections that are open.",
            open,
        );
        text.gauge(
            "eurekad_http_max_connections",
            "Connections that may be open.",
            self.config.server.max_connections,
        );
    }

    fn of_peers(&self, text: &mut Exposition) {
        let peers = self.peers.all();
        let mut info = text.family(
            "eurekad_peer_info",
            Kind::Gauge,
            "1, with the kind of the peer.",
        );
        for (url, peer) in &peers {
            let kind = match peer.kind {
                PeerKind::Unknown => "unknown",
                PeerKind::Java => "java",
                PeerKind::Ours { .. } => "eurekad",
            };
            info.sample(&[("peer", url), ("kind", kind)], 1);
        }
        let now = self.clock.now().wall;
        let age = |peer: &PeerState| seconds(now.since(peer.last_success));
        let mut ages = text.family(
            "eurekad_peer_last_success_age_seconds",
            Kind::Gauge,
            "Since the peer's last answer; absent before the first.",
        );
        for (url, peer) in peers.iter().filter(|(_, p)| p.last_success > Millis::ZERO) {
            ages.sample(&[("peer", url)], age(peer));
        }
        for (name, help, value) in PEER_GAUGES {
            let mut family = text.family(name, Kind::Gauge, help);
            for (url, peer) in &peers {
                family.sample(&[("peer", url)], value(peer));
            }
        }
        for (name, help, value) in PEER_COUNTERS {
            let mut family = text.family(name, Kind::Counter, help);
            for (url, peer) in &peers {
                family.sample(&[("peer", url)], value(peer));
            }
        }
        let mut errors = text.family(
            "eurekad_peer_errors_total",
            Kind::Counter,
            "Requests to the peer that failed, each in one class by what went wrong; of class item are \
             single items that answers refuse.",
        );
        for (url, peer) in &peers {
            let traffic = &peer.traffic;
            for (class, count) in [
                ("connect", traffic.connect_errors),
                ("timeout", traffic.time_outs),
                ("broken", traffic.broken_answers),
                ("status", traffic.status_errors),
                ("same_id", traffic.same_ids),
                ("item", peer.counters.item_errors),
            ] {
                errors.sample(&[("peer", url), ("class", class)], count);
            }
        }
    }

    fn of_process(&self, text: &mut Exposition, usage: &Usage, scraper: Scraper) {
        let now = self.clock.now();
        let up = now.mono.since(self.started);
        text.family(
            "process_cpu_seconds_total",
            Kind::Counter,
            "CPU time of this process.",
        )
        .sample(&[], usage.cpu_seconds);
        text.gauge(
            "process_resident_memory_bytes",
            "Memory of this process that is in RAM.",
            usage.memory.resident,
        );
        text.gauge(
            "process_open_fds",
            "Files and sockets that are open.",
            usage.open_files,
        );
        text.gauge(
            "process_max_fds",
            "Files and sockets that may be open, 0 for no bound.",
            usage.max_files,
        );
        text.gauge(
            "process_start_time_seconds",
            "When this process began to serve, since the epoch.",
            seconds(now.wall.since(Millis(up))),
        );
        if scraper == Scraper::Spring {
            text.gauge(
                "process_uptime_seconds",
                "Since this process serves.",
                seconds(up),
            );
            text.gauge(
                "process_files_open_files",
                "Files and sockets that are open.",
                usage.open_files,
            );
            text.gauge(
                "process_files_max_files",
                "Files and sockets that may be open, 0 for no bound.",
                usage.max_files,
            );
            let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            text.gauge(
                "system_cpu_count",
                "Processors that this process may use.",
                cpus,
            );
        }
    }
}

type PeerGauge = (&'static str, &'static str, fn(&PeerState) -> f64);
type PeerCounter = (&'static str, &'static str, fn(&PeerState) -> u64);

const PEER_GAUGES: &[PeerGauge] = &[
    (
        "eurekad_peer_reachable",
        "Whether the peer answered the last request.",
        |peer| f64::from(u8::from(peer.is_reachable)),
    ),
    (
        "eurekad_peer_cursor_lsn",
        "The peer has been told of everything up to this position.",
        |peer| number(peer.cursor.0),
    ),
    (
        "eurekad_peer_lag_records",
        "Changes behind that position.",
        |peer| number(peer.lag_records),
    ),
    (
        "eurekad_peer_lag_seconds",
        "Age of the oldest of these changes.",
        |peer| seconds(peer.lag_ms),
    ),
];

const PEER_COUNTERS: &[PeerCounter] = &[
    (
        "eurekad_peer_requests_total",
        "Requests sent to the peer, of every kind.",
        |peer| peer.traffic.requests,
    ),
    (
        "eurekad_peer_answered_total",
        "Requests that the peer answered as it should.",
        |peer| peer.traffic.answered,
    ),
    (
        "eurekad_peer_batches_total",
        "Batches sent to the peer.",
        |peer| peer.traffic.batches,
    ),
    (
        "eurekad_peer_items_total",
        "Changes and renewals that the peer was sent.",
        |peer| peer.counters.items,
    ),
    (
        "eurekad_peer_renewals_total",
        "Renewals that the peer was sent, in batches and digests.",
        |peer| peer.traffic.renewals,
    ),
    (
        "eurekad_peer_sent_bytes_total",
        "Bytes of the bodies sent to the peer.",
        |peer| peer.traffic.sent_bytes,
    ),
    (
        "eurekad_peer_received_bytes_total",
        "Bytes of the bodies that the peer answered with.",
        |peer| peer.traffic.received_bytes,
    ),
    (
        "eurekad_peer_adopted_total",
        "Instances of which the peer had a newer version, which was taken over.",
        |peer| peer.counters.adopted,
    ),
    (
        "eurekad_peer_repaired_total",
        "Instances that a comparison with the peer repaired, on either side.",
        |peer| peer.repaired,
    ),
];

fn by_application(state: &Published) -> ByApplication {
    let mut found = ByApplication::new();
    for (name, application) in state.registry.apps() {
        let counts = found.entry(name.to_string()).or_default();
        for lease in application.leases() {
            let status = lease.instance().status;
            let slots = Status::ALL.into_iter().zip(counts.iter_mut());
            for (_, count) in slots.filter(|(known, _)| *known == status) {
                *count += 1;
            }
        }
    }
    found
}

fn seconds(millis: impl Into<u64>) -> f64 {
    number(millis.into()) / 1e3
}

fn seconds_of_micros(micros: u64) -> f64 {
    number(micros) / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn number(n: u64) -> f64 {
    n as f64
}
