//! HTTP: the protocol's endpoints on top of the change log and the response cache.
//!
//! [`path`] says what a URL means, the handlers (`reads`, `lease`, `batch`, `pages`) what is done,
//! `answer` how it is told; [`server`] owns the sockets. Handlers decide nothing about the registry:
//! they turn a request into commands and replies into statuses.

mod answer;
mod batch;
mod between;
mod body;
mod gathered;
mod lease;
mod metrics;
mod own;
mod pages;
pub mod path;
mod reads;
mod refusals;
mod request;
mod room;
pub mod server;
mod status_document;
mod timed_stream;
mod traffic;
mod turns;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use bytes::Bytes;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};

use crate::cache::ResponseCache;
use crate::changelog::ChangeLog;
use crate::clock::Clock;
use crate::config::{
    BadInputStatus, Compress, Config, Decoder, GzipRequestBodies, Negotiation, Paths,
};
use crate::history;
use crate::history::feed::Feed;
use crate::history::travel::Traveller;
use crate::replication::ReadsGate;
use crate::replication::inbound::Fingerprints;
use crate::replication::past::Past;
use crate::replication::reconcile::DigestCache;
use crate::replication::state::PeerStates;
use crate::replication::transport::{COPYING, Identity, NODE};
use crate::types::Millis;
use crate::wire::accept;
use crate::wire::{Detail, Dialect, Limits};
use answer::Answer;
use body::{BodyReader, Decoding};
use metrics::Scraper;
use path::{PathRules, Route};
use refusals::Refusals;
use room::Budget;
use traffic::{Asked, Traffic};

/// Memory that request bodies in flight may take together, KiB: those of which up to 16 KiB have come, up
/// to 1 MiB, and longer ones.
const BODY_BUDGET_KIB: [usize; 3] = [32 * 1024, 32 * 1024, 64 * 1024];

static X_EUREKA_ACCEPT: HeaderName = HeaderName::from_static("x-eureka-accept");

/// Everything that the handlers work with. One per node.
#[derive(Debug)]
pub struct Api {
    pub(crate) config: Arc<Config>,
    pub(crate) log: Arc<ChangeLog>,
    pub(crate) cache: Arc<ResponseCache>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Has to be driven by [`Feed::follow`].
    pub(crate) feed: Arc<Feed>,
    started: Millis,
    gate: Arc<ReadsGate>,
    pub(crate) peers: Arc<PeerStates>,
    identity: HeaderValue,
    fingerprints: Arc<Fingerprints>,
    digests: Arc<DigestCache>,
    removals: Arc<dyn Past>,
    past: own::Past,
    paths: PathRules,
    decoder: Dialect,
    negotiation: Dialect,
    limits: Limits,
    bodies: BodyReader,
    travels: own::travel::Travels,
    pub(super) traffic: Arc<Traffic>,
    refused_registrations: Refusals,
    /// `/openapi.json`, once it was asked for.
    openapi: OnceLock<Bytes>,
}

/// What the handlers know of replication.
#[derive(Debug)]
pub struct Peering {
    /// Closed until the registry is together.
    pub gate: Arc<ReadsGate>,
    pub states: Arc<PeerStates>,
    pub digests: Arc<DigestCache>,
    pub past: Arc<dyn Past>,
    pub identity: Identity,
}

/// What the handlers know of the log's past.
#[derive(Debug)]
pub struct Remembered {
    pub index: Arc<history::Index>,
    /// Of the log: positions of another one mean nothing.
    pub incarnation: String,
}

/// A request's head, in the words of the protocol.
struct Head<'a> {
    method: &'a Method,
    query: Option<&'a str>,
    headers: &'a HeaderMap,
    address: IpAddr,
}

impl Api {
    pub fn new(
        config: Arc<Config>,
        log: Arc<ChangeLog>,
        cache: Arc<ResponseCache>,
        clock: Arc<dyn Clock>,
        peering: Peering,
        remembered: Remembered,
    ) -> Self {
        let knobs = &config.compatibility;
        let paths = PathRules {
            context_path: config.server.context_path.clone(),
            is_lenient: knobs.paths == Paths::Lenient,
            dashboard: config
                .dashboard
                .enabled
                .then(|| config.dashboard.path.clone()),
            actuator: config.management.base_path.clone(),
            serverinfo: knobs.serverinfo,
        };
        let decoder = match knobs.decoder {
            Decoder::Tolerant => Dialect::Tolerant,
            Decoder::Exact => Dialect::Exact,
        };
        let negotiation = match knobs.negotiation {
            Negotiation::Tolerant => Dialect::Tolerant,
            Negotiation::Exact => Dialect::Exact,
        };
        let limits = config.limits.of_decoders();
        let bodies = BodyReader {
            timeout: config.server.body_timeout,
            accept_gzip: knobs.gzip_request_bodies == GzipRequestBodies::Accept,
            budget: Budget::of(BODY_BUDGET_KIB),
            decoding: Decoding::default(),
        };
        let index = remembered.index.clone();
        let feed = Feed::new(log.clone(), index, config.server.max_watchers);
        Self {
            feed: Arc::new(feed),
            started: clock.now().mono,
            gate: peering.gate,
            peers: peering.states,
            identity: HeaderValue::from_str(&peering.identity.header())
                .unwrap_or(HeaderValue::from_static("unknown")),
            fingerprints: Arc::default(),
            digests: peering.digests,
            removals: peering.past,
            past: own::Past::new(remembered, peering.identity.node_id),
            paths,
            decoder,
            negotiation,
            limits,
            bodies,
            travels: own::travel::Travels::new(&log),
            traffic: Arc::default(),
            refused_registrations: Refusals::default(),
            openapi: OnceLock::new(),
            config,
            log,
            cache,
            clock,
        }
    }

    /// Answers one request of the client at `address`.
    pub async fn answer(&self, request: Request<Body>, address: IpAddr) -> Answer {
        let begun = self.clock.micros();
        let method = traffic::place_of(request.method());
        let mut asked = Asked::Malformed;
        let answer = self.answer_as(request, address, &mut asked).await;
        let took = self.clock.micros().saturating_sub(begun);
        self.traffic.count(asked, method, answer.status(), took);
        answer
    }

    /// The answer; says in `asked` what was asked for.
    async fn answer_as(
        &self,
        request: Request<Body>,
        address: IpAddr,
        asked: &mut Asked,
    ) -> Answer {
        let (parts, body) = request.into_parts();
        let Ok(route) = path::parse(parts.uri.path(), &self.paths) else {
            let why = "the path is none: a broken escape, or characters that a path must not have";
            let is_own = path::own_paths(parts.uri.path(), &self.paths).is_some();
            return bad_request(is_own, why);
        };
        *asked = Asked::of(&route);
        if request::head_bytes(&parts) > self.config.server.max_header_bytes {
            let why =
                "the path and the headers are longer than server.max-http-request-header-size";
            return bad_request(matches!(route, Route::Own(_)), why);
        }
        let head = Head {
            method: &parts.method,
            query: parts.uri.query(),
            headers: &parts.headers,
            address,
        };
        let meant_for = match route {
            Route::NotFound => path::own_paths(parts.uri.path(), &self.paths),
            _ => None,
        };
        let mut answer = match meant_for {
            Some(paths) => own::no_such_path(paths),
            None => self.dispatch(route, &head, body).await,
        };
        if request::is_our_kind(head.headers) {
            let headers = answer.headers_mut();
            headers.insert(&NODE, self.identity.clone());
            if !self.are_reads_open() {
                headers.insert(&COPYING, HeaderValue::from_static("1"));
            }
        }
        if *head.method == Method::HEAD {
            answer::without_body(&mut answer);
        }
        answer
    }

    async fn dispatch(&self, route: Route<'_>, head: &Head<'_>, body: Body) -> Answer {
        let methods = path::allowed(&route);
        match route {
            Route::NotFound => return answer::empty(StatusCode::NOT_FOUND),
            Route::Home => return self.home(head, methods),
            Route::Between(what) => return self.between(what, head, methods, body).await,
            Route::LastN => return self.last_n(head, methods),
            Route::Actuator(below) => return self.actuator(&below, head, methods).await,
            Route::Own(own) => return self.own(own, head, methods, body).await,
            Route::Metrics => return self.metrics(Scraper::Own, head, methods).await,
            _ => {}
        }
        let is_read =
            matches!(*head.method, Method::GET | Method::HEAD) && methods.contains(&"GET");
        let accepted = request::joined(head.headers, &ACCEPT);
        if head.method == Method::OPTIONS {
            return answer::options(methods, accepted.as_deref());
        }
        if !is_read && !methods.contains(&head.method.as_str()) {
            return answer::method_not_allowed(methods);
        }
        // A body of the wrong type is refused before anybody looks at what may be answered.
        let request_type = if head.method == Method::POST {
            let content_type = request::text(head.headers, &hyper::header::CONTENT_TYPE);
            match accept::request_format(content_type) {
                Ok(request_type) => Some(request_type),
                Err(accept::Unsupported::Malformed(_)) => {
                    return answer::empty(StatusCode::BAD_REQUEST);
                }
                Err(_) => return answer::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            }
        } else {
            None
        };
        let Some(negotiated) = accept::negotiate(accepted.as_deref(), self.negotiation) else {
            return answer::empty(StatusCode::NOT_ACCEPTABLE);
        };
        match (route, request_type) {
            (Route::App(app), Some(request_type)) => {
                self.register(&app, request_type, negotiated, head, body)
                    .await
            }
            (Route::Batch, Some(request_type)) => {
                self.batch(request_type, negotiated, head, body).await
            }
            (route, _) if is_read => self.read(route, negotiated, head).await,
            (Route::Instance { app, id }, _) if head.method == Method::PUT => {
                self.renew(&app, &id, negotiated, head).await
            }
            (Route::Instance { app, id }, _) => self.cancel(&app, &id, head).await,
            (Route::InstanceStatus { app, id }, _) if head.method == Method::PUT => {
                self.set_status(&app, &id, head).await
            }
            (Route::InstanceStatus { app, id }, _) => self.delete_status(&app, &id, head).await,
            (Route::InstanceMetadata { app, id }, _) => self.update_metadata(&app, &id, head).await,
            // ASG status belongs to AWS mode, which this server does not have (`protocol.md` 8.4).
            (Route::AsgStatus, _) => answer::empty(StatusCode::BAD_REQUEST),
            (_, _) => answer::empty(StatusCode::NOT_FOUND),
        }
    }

    /// The status for input that cannot be read: the original falls over with 500.
    fn bad_input(&self) -> StatusCode {
        match self.config.compatibility.bad_input_status {
            BadInputStatus::BadRequest => StatusCode::BAD_REQUEST,
            BadInputStatus::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether bad input is refused before anything is applied; the original applies first.
    fn validates_first(&self) -> bool {
        self.config.compatibility.bad_input_status == BadInputStatus::BadRequest
    }

    /// Whether an answer of this kind may be compressed for this client.
    fn wants_gzip(&self, is_list: bool, headers: &HeaderMap) -> bool {
        let is_offered = is_list || self.config.compatibility.compress == Compress::Any;
        is_offered
            && accept::accepts_gzip(
                request::joined(headers, &ACCEPT_ENCODING).as_deref(),
                self.negotiation,
            )
    }

    fn detail(headers: &HeaderMap) -> Detail {
        accept::detail(request::text(headers, &X_EUREKA_ACCEPT))
    }

    fn are_reads_open(&self) -> bool {
        self.gate.is_open(self.clock.now().mono)
    }

    /// Whether reads of the registry are answered, for documents about this node.
    fn reads_facts(&self) -> serde_json::Value {
        let opens_in_ms = self.gate.opens_in(self.clock.now().mono);
        if opens_in_ms == 0 {
            return serde_json::json!({ "open": true });
        }
        serde_json::json!({
            "open": false,
            "reason": "the store was empty when the node began: the registry is being copied from a peer",
            "opens_in_ms": opens_in_ms,
        })
    }

    fn own_id(&self) -> &str {
        &self.config.instance.instance_id
    }

    /// Who tells the past, to let go of what it remembers from time to time.
    pub fn traveller(&self) -> Arc<Traveller> {
        self.travels.traveller()
    }
}

/// 400 to what is no request: with the reason where a body may be read as what it is.
fn bad_request(is_own: bool, why: &str) -> Answer {
    if is_own {
        own::Problem::bad_request(why).into_answer()
    } else {
        answer::empty(StatusCode::BAD_REQUEST)
    }
}
