//! Requests to peers over HTTP/1.1, plain or in TLS: bounded in time and size, what is long in gzip, with the headers that Java peers send
//! and one of our own that says who is asking. Credentials of a URL go into one header and nowhere
//! else.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, DATE, HeaderName,
    HeaderValue, USER_AGENT,
};
use hyper::{HeaderMap, Method, Request};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::dns::Dns;
use super::metered::{Heads, Metered, READ_AHEAD};
use super::packing::{self, PACK_FROM};
use super::sender::Failure;
use super::skew::Skew;
use super::state::{PeerStates, Traffic};
use crate::config::{ServiceUrl, is_node_id};
use crate::tls::{self, Connector, TlsClient};
use crate::types::Millis;
use crate::wire::Format;

/// Who a node of our own kind is: `NODE-ID;BOOT`, the second part drawn at every start. In requests
/// and in answers to them; Java peers ignore it.
pub static NODE: HeaderName = HeaderName::from_static("x-eurekad-node");
/// Present while a node of our own kind has not got its registry together yet.
pub static COPYING: HeaderName = HeaderName::from_static("x-eurekad-copying");

/// Longest list of all instances that is read, bytes, before and after decompression.
pub const LIST_MAX: usize = 256 << 20;
/// What is read of an answer without success at most, bytes: only its status counts.
const ERROR_MAX: usize = 64 << 10;
/// Below a peer's base URL: batches, whether or not with a slash at the end.
const BATCHES: &str = "peerreplication/batch";

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Until the head of the answer is there.
    pub head: Duration,
    /// From one piece of the answer to the next.
    pub next: Duration,
    /// In all.
    pub whole: Duration,
}

impl Wait {
    /// No longer than this in all.
    pub fn of(whole: Duration) -> Self {
        Self {
            head: whole,
            next: whole,
            whole,
        }
    }
}

/// A request, and the bounds of its answer.
#[derive(Debug)]
pub struct Call<'a> {
    pub method: Method,
    /// Below the peer's base URL.
    pub path: &'a str,
    /// The format that the answer is to have.
    pub accept: Format,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    /// Whether the body may be compressed, which not every kind of peer reads.
    pub packs: bool,
    pub wait: Wait,
    /// Longest answer, bytes, before and after decompression.
    pub answer_max: usize,
}

impl<'a> Call<'a> {
    /// A question without a body that any list may answer.
    pub fn get(path: &'a str, wait: Wait) -> Self {
        Self {
            method: Method::GET,
            path,
            accept: Format::Json,
            content_type: "",
            body: Vec::new(),
            packs: false,
            wait,
            answer_max: LIST_MAX,
        }
    }
}

/// This node or another one of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Drawn once per data directory, or `eurekad.node-id`.
    pub node_id: String,
    /// Drawn at every start.
    pub boot: String,
}

impl Identity {
    /// As it stands in the header.
    pub fn header(&self) -> String {
        format!("{};{}", self.node_id, self.boot)
    }

    /// Reads the header. What no node of our kind would call itself is none of them.
    pub fn parse(text: &str) -> Option<Self> {
        let (node_id, boot) = text.split_once(';')?;
        (is_node_id(node_id) && is_node_id(boot)).then(|| Self {
            node_id: node_id.to_owned(),
            boot: boot.to_owned(),
        })
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// Who answered, if it is of our own kind.
    pub fn identity(&self) -> Option<Identity> {
        Identity::parse(self.headers.get(&NODE)?.to_str().ok()?)
    }

    /// How far the clock of the peer is ahead of the one here, as far as the date of the answer tells; asked for, and
    /// received, at these moments (wall time). `None` if it has no date.
    pub fn skew(&self, asked: Millis, answered: Millis) -> Option<Skew> {
        let date = self.headers.get(DATE)?.to_str().ok()?;
        let date = httpdate::parse_http_date(date).ok()?;
        let date = date.duration_since(UNIX_EPOCH).ok()?.as_millis();
        let date = i64::try_from(date).ok()?;
        Some(Skew::of(date, asked, answered))
    }
}

/// The client side of one node.
#[derive(Clone, Debug)]
pub struct Transport {
    client: Client<Metered<Connector<Dns>>, Full<Bytes>>,
    identity: HeaderValue,
    own_address: HeaderValue,
    /// Where requests are counted; `None` counts nothing.
    states: Option<Arc<PeerStates>>,
}

impl Transport {
    /// `idle` is how long an unused connection is kept; `dns` finds the addresses of host names; `tls`
    /// says whom to trust where a URL is https.
    pub(crate) fn new(
        identity: &Identity,
        own_address: &str,
        connect_timeout: Duration,
        idle: Duration,
        dns: Dns,
        tls: &TlsClient,
    ) -> Self {
        let mut connector = HttpConnector::new_with_resolver(dns);
        connector.set_connect_timeout(Some(connect_timeout));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle)
            .http1_max_buf_size(READ_AHEAD)
            .build(Metered(tls.connector(connector)));
        let header =
            |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("unknown"));
        Self {
            client,
            identity: header(&identity.header()),
            own_address: header(own_address),
            states: None,
        }
    }

    /// Counts requests, and what comes back, for the peers that are on the list. How a request ended is
    /// known where the answer is read.
    #[must_use]
    pub fn counting(self, states: Arc<PeerStates>) -> Self {
        Self {
            states: Some(states),
            ..self
        }
    }

    /// Sends a request and reads the whole answer, within the bounds of the call.
    ///
    /// # Errors
    /// [`Failure::Connect`], [`Failure::Refused`], [`Failure::TimedOut`], or [`Failure::Broken`] if the answer is cut off
    /// or too long. Any status is an answer.
    pub async fn send(&self, url: &ServiceUrl, mut call: Call<'_>) -> Result<Answer, Failure> {
        let plain = std::mem::take(&mut call.body);
        let renewals = renewals_of(call.path, &plain);
        let (body, is_packed) = if call.packs && plain.len() >= PACK_FROM {
            packed(plain).await
        } else {
            (plain, false)
        };
        let name = self.states.as_ref().map(|_| url.to_string());
        let count = |change: &dyn Fn(&mut Traffic)| {
            if let (Some(states), Some(name)) = (&self.states, &name) {
                states.count(name, change);
            }
        };
        count(&|traffic| {
            traffic.requests += 1;
            traffic.sent_bytes += body.len() as u64;
            traffic.batches += u64::from(call.path.starts_with(BATCHES));
            traffic.renewals += renewals;
        });
        let mut received = 0;
        let whole = call.wait.whole;
        let exchange = self.exchange(url, &call, (body, is_packed), &mut received);
        let sent = tokio::time::timeout(whole, exchange).await;
        count(&|traffic| traffic.received_bytes += received);
        sent.unwrap_or(Err(Failure::TimedOut))
    }

    /// `received`: bytes of the answer's body so far, as they come.
    async fn exchange(
        &self,
        url: &ServiceUrl,
        call: &Call<'_>,
        (body, is_packed): (Vec<u8>, bool),
        received: &mut u64,
    ) -> Result<Answer, Failure> {
        let host = if url.host.contains(':') {
            format!("[{}]", url.host)
        } else {
            url.host.clone()
        };
        let scheme = if url.secure { "https" } else { "http" };
        let path = call.path;
        let uri = format!("{scheme}://{host}:{}{}{path}", url.port, url.path);
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(uri)
            .header(ACCEPT, call.accept.content_type())
            .header(ACCEPT_ENCODING, "gzip")
            .header(USER_AGENT, concat!("eurekad/", env!("CARGO_PKG_VERSION")))
            .header("DiscoveryIdentity-Name", "DefaultServer")
            .header("DiscoveryIdentity-Version", "1.0")
            .header("DiscoveryIdentity-Id", &self.own_address)
            .header(&NODE, &self.identity);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, call.content_type);
        }
        if is_packed {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        if let Some(credentials) = &url.credentials {
            request = request.header(AUTHORIZATION, credentials.basic());
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failure::Broken(error.to_string()))?;
        let sent = tokio::time::timeout(call.wait.head, self.client.request(request));
        let response = match sent.await {
            Ok(sent) => sent.map_err(|error| failure(&error))?,
            Err(_) => return Err(Failure::TimedOut),
        };
        if let Some(heads) = response.extensions().get::<Heads>() {
            heads.complete();
        }
        let (parts, body) = response.into_parts();
        let is_success = parts.status.is_success();
        let most = if is_success {
            call.answer_max
        } else {
            call.answer_max.min(ERROR_MAX)
        };
        let body = match receive(body, most, call.wait.next, received).await {
            // What an error says is of no use here.
            Err(Failure::Broken(_)) if !is_success => Vec::new(),
            body => body?,
        };
        let body = if is_gzip(&parts.headers) {
            unpacked(body, most).await?
        } else {
            body
        };
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.into(),
        })
    }
}

fn is_gzip(headers: &HeaderMap) -> bool {
    let encoding = headers.get(CONTENT_ENCODING);
    encoding.is_some_and(|name| {
        let is = |gzip: &str| name.as_bytes().eq_ignore_ascii_case(gzip.as_bytes());
        is("gzip") || is("x-gzip")
    })
}

/// The body of an answer as it comes, at most `most` bytes, each piece within `next` of the one before.
async fn receive(
    mut body: Incoming,
    most: usize,
    next: Duration,
    received: &mut u64,
) -> Result<Vec<u8>, Failure> {
    if http_body::Body::size_hint(&body).lower() > most as u64 {
        return Err(too_long(most));
    }
    let mut all = Vec::new();
    loop {
        let frame = tokio::time::timeout(next, body.frame()).await;
        let Some(frame) = frame.map_err(|_| Failure::TimedOut)? else {
            return Ok(all);
        };
        let frame = frame.map_err(|error| Failure::Broken(with_causes(&error)))?;
        // Trailers mean nothing here.
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        *received += piece.len() as u64;
        if all.len() + piece.len() > most {
            return Err(too_long(most));
        }
        all.extend_from_slice(&piece);
    }
}

fn too_long(most: usize) -> Failure {
    Failure::Broken(format!("it is longer than {most} bytes"))
}

/// A body in gzip, if that is shorter, and whether it is; made on a thread that may take its time.
async fn packed(body: Vec<u8>) -> (Vec<u8>, bool) {
    let pack = move || match packing::pack(&body) {
        Some(packed) => (packed, true),
        None => (body, false),
    };
    // It fails only when the runtime goes down: whoever reads nothing refuses it.
    tokio::task::spawn_blocking(pack).await.unwrap_or_default()
}

/// What an answer in gzip says, at most `most` bytes.
async fn unpacked(body: Vec<u8>, most: usize) -> Result<Vec<u8>, Failure> {
    if body.is_empty() {
        return Ok(body);
    }
    let unpack = move || packing::unpack(&body, most);
    let broken = |error: &dyn std::fmt::Display| Failure::Broken(error.to_string());
    let unpacked = tokio::task::spawn_blocking(unpack).await;
    let unpacked = unpacked.map_err(|error| broken(&error))?;
    let unpacked = unpacked.map_err(|error| broken(&error))?;
    unpacked.ok_or_else(|| too_long(most))
}

/// How many renewals a request tells of. Here and not where requests are made, so that each request counts,
/// whoever makes it.
fn renewals_of(path: &str, body: &[u8]) -> u64 {
    /// As [`crate::wire::batch::write_batch`] writes it. It cannot stand within a text, where its
    /// quotes would be escaped.
    const HEARTBEAT: &str = r#""action":"Heartbeat""#;
    if path.starts_with(BATCHES) {
        let items = std::str::from_utf8(body).unwrap_or_default();
        items.matches(HEARTBEAT).count() as u64
    } else if path == super::RENEWALS_PATH {
        // Eight bytes each.
        body.len() as u64 / 8
    } else {
        0
    }
}

/// Why there is no answer. In TLS 1.3 a server refuses a client's certificate only after the
/// handshake: that is no connection either.
fn failure(error: &Error) -> Failure {
    match tls::explain(error) {
        Some(why) => Failure::Connect(why),
        None if error.is_connect() && is_refused(error) => Failure::Refused(with_causes(error)),
        None if error.is_connect() => Failure::Connect(with_causes(error)),
        None => Failure::Broken(with_causes(error)),
    }
}

/// Whether a machine said that nobody takes connections there.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
}

/// An error with its causes on one line. URLs are no part of these texts.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        let identity = Identity {
            node_id: "a-b".into(),
            boot: "1f".into(),
        };
        assert_eq!(Identity::parse(&identity.header()), Some(identity));
        let long = format!("{};b", "x".repeat(129));
        for bad in [
            "", "a", ";", "a;", "a;b;c", "a b;c", "ä;b", "a;\u{7f}", &long,
        ] {
            assert_eq!(Identity::parse(bad), None, "{bad}");
        }
    }
}
