//! Requests to peers over HTTP/1.1, plain or in TLS: bounded in time and size, with the headers that Java peers send
//! and one of our own that says who is asking. Credentials of a URL go into one header and nowhere
//! else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::dns::Dns;
use super::sender::Failure;
use super::state::{PeerStates, Traffic};
use crate::config::{ServiceUrl, is_node_id};
use crate::tls::{self, Connector, TlsClient};

/// Who a node of our own kind is: `NODE-ID;BOOT`, the second part drawn at every start. In requests
/// and in answers to them; Java peers ignore it.
pub static NODE: HeaderName = HeaderName::from_static("x-eurekad-node");
/// Present while a node of our own kind has not got its registry together yet.
pub static COPYING: HeaderName = HeaderName::from_static("x-eurekad-copying");

/// Longest answer that is read, bytes.
const ANSWER_MAX: usize = 256 << 20;

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
}

/// The client side of one node.
#[derive(Clone, Debug)]
pub struct Transport {
    client: Client<Connector<Dns>, Full<Bytes>>,
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
            .build(tls.connector(connector));
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

    /// Sends a request and reads the whole answer within `timeout`.
    ///
    /// # Errors
    /// [`Failure::Connect`], [`Failure::Refused`], [`Failure::TimedOut`], or [`Failure::Broken`] if the answer is cut off
    /// or too long. Any status is an answer.
    pub async fn send(
        &self,
        url: &ServiceUrl,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Answer, Failure> {
        let Some(states) = &self.states else {
            return self
                .exchange(url, method, path, content_type, body, timeout)
                .await;
        };
        let name = url.to_string();
        states.count(&name, |traffic| count_request(traffic, path, &body));
        let sent = self
            .exchange(url, method, path, content_type, body, timeout)
            .await;
        if let Ok(answer) = &sent {
            let received = answer.body.len() as u64;
            states.count(&name, |traffic| traffic.received_bytes += received);
        }
        sent
    }

    async fn exchange(
        &self,
        url: &ServiceUrl,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Answer, Failure> {
        let host = if url.host.contains(':') {
            format!("[{}]", url.host)
        } else {
            url.host.clone()
        };
        let scheme = if url.secure { "https" } else { "http" };
        let uri = format!("{scheme}://{host}:{}{}{path}", url.port, url.path);
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("eurekad/", env!("CARGO_PKG_VERSION")))
            .header("DiscoveryIdentity-Name", "DefaultServer")
            .header("DiscoveryIdentity-Version", "1.0")
            .header("DiscoveryIdentity-Id", &self.own_address)
            .header(&NODE, &self.identity);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(credentials) = &url.credentials {
            request = request.header(AUTHORIZATION, credentials.basic());
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failure::Broken(error.to_string()))?;
        let exchange = async {
            let sent = self.client.request(request).await;
            let response = sent.map_err(|error| failure(&error))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_MAX)
                .collect()
                .await
                .map_err(|error| {
                    Failure::Broken(if error.is::<LengthLimitError>() {
                        format!("it is longer than {ANSWER_MAX} bytes")
                    } else {
                        error.to_string()
                    })
                })?;
            Ok(Answer {
                status: parts.status.as_u16(),
                headers: parts.headers,
                body: body.to_bytes(),
            })
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or(Err(Failure::TimedOut))
    }
}

/// Here and not where requests are made, so that each request counts, whoever makes it.
fn count_request(traffic: &mut Traffic, path: &str, body: &[u8]) {
    /// As [`crate::wire::batch::write_batch`] writes it. It cannot stand within a text, where its
    /// quotes would be escaped.
    const HEARTBEAT: &str = r#""action":"Heartbeat""#;
    traffic.requests += 1;
    traffic.sent_bytes += body.len() as u64;
    if path.starts_with("peerreplication/batch") {
        traffic.batches += 1;
        let items = std::str::from_utf8(body).unwrap_or_default();
        traffic.renewals += items.matches(HEARTBEAT).count() as u64;
    } else if path == super::RENEWALS_PATH {
        // Eight bytes each.
        traffic.renewals += body.len() as u64 / 8;
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
