//! Asks a running node over HTTP. The one module of the command line that knows the HTTP client;
//! credentials go into one header and nowhere else.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

use super::args::ServerArgs;
pub(super) use super::call::{Call, Target};
use super::failure::{Exit, Failure};
use super::text::clean;
use crate::config::{Credentials, Secret, ServiceUrl};
use crate::tls::{self, Connector, TlsClient, TlsFiles};

/// Where a node is unless somebody says otherwise.
const DEFAULT_SERVER: &str = "http://localhost:8761";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer that is kept in memory as a whole, bytes. Streams have no bound.
const ANSWER_MAX: usize = 1 << 30;
/// Longest explanation of an error that is read, bytes.
const PROBLEM_MAX: usize = 64 << 10;

type Connection = hyper_util::client::legacy::Client<Connector<GaiResolver>, Full<Bytes>>;

/// What the environment may say of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerEnvironment {
    pub(super) server: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
}

/// A server to ask.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: Connection,
    /// Ends without a slash.
    base: String,
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    body: Incoming,
    /// Longest wait between two pieces of the body.
    idle: Duration,
}

impl Client {
    /// A client of the server that the options, or else the environment, name.
    ///
    /// # Errors
    /// The URL is none that can be asked.
    pub(super) fn new(
        arguments: &ServerArgs,
        environment: &ServerEnvironment,
    ) -> Result<Self, Failure> {
        let given = arguments
            .server
            .as_deref()
            .or(environment.server.as_deref())
            .unwrap_or(DEFAULT_SERVER);
        // The text may hold a password, so it is not repeated.
        let url = ServiceUrl::parse(given)
            .filter(|url| !url.by_srv)
            .ok_or_else(|| {
                Failure::usage(
                    "the server's URL has to look like http[s]://[user:password@]host[:port][/path]",
                )
            })?;
        let files = TlsFiles {
            ca: arguments.ca.clone(),
            certificate: arguments.cert.clone(),
            key: arguments.key.clone(),
        };
        let tls = if url.secure {
            TlsClient::load(&files)
        } else {
            TlsClient::without_roots()
        };
        let tls = tls.map_err(|error| Failure::usage(error.to_string()))?;
        let user = arguments.user.as_deref().or(environment.user.as_deref());
        let credentials = match user {
            Some(user) => Some(credentials(user, environment)),
            None => url.credentials.clone(),
        };
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(tls.connector(connector));
        let scheme = if url.secure { "https" } else { "http" };
        let path = url.path.trim_end_matches('/');
        // The URLs that clients have end with the protocol's own path.
        let path = ["/eureka/v2", "/eureka"]
            .iter()
            .find_map(|own| path.strip_suffix(own))
            .unwrap_or(path);
        Ok(Self {
            http,
            base: format!("{scheme}://{}{path}", url.authority()),
            authorization: credentials.map(|credentials| credentials.basic()),
            timeout: Duration::from_secs(arguments.timeout),
        })
    }

    /// The server's URL, without credentials.
    pub(super) fn url(&self) -> &str {
        &self.base
    }

    /// Sends a question and waits for the head of the answer, whatever its status.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(super) async fn send(&self, call: Call) -> Result<Reply, Failure> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.base, call.target.text()))
            .header(ACCEPT, call.accept)
            .header(
                USER_AGENT,
                concat!("eurekad-cli/", env!("CARGO_PKG_VERSION")),
            );
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let (body, content_type) = call.body.unzip();
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| Failure::usage(format!("this cannot be asked: {error}")))?;
        let answered = tokio::time::timeout(self.timeout, self.http.request(request)).await;
        match answered {
            Ok(Ok(response)) => Ok(self.reply(response)),
            Ok(Err(error)) => {
                let why = tls::explain(&error).unwrap_or_else(|| with_causes(&error));
                Err(self.unreachable(&why))
            }
            Err(_) => Err(self.unreachable(&format!(
                "no answer within {} s (--timeout)",
                self.timeout.as_secs()
            ))),
        }
    }

    fn reply(&self, response: Response<Incoming>) -> Reply {
        let (parts, body) = response.into_parts();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            idle: self.timeout.max(Duration::from_mins(1)),
        }
    }

    fn unreachable(&self, why: &str) -> Failure {
        Failure::refused(format!(
            "cannot reach {}: {why}; is it running, and is --server right?",
            self.base
        ))
    }

    /// Sends a question and takes only a good answer to it.
    ///
    /// # Errors
    /// The server cannot be reached, or says no; its explanation is the text.
    pub(super) async fn ask(&self, call: Call) -> Result<Reply, Failure> {
        let path = call.target.path.clone();
        let reply = self.send(call).await?;
        if (200..300).contains(&reply.status) {
            return Ok(reply);
        }
        Err(self.refusal(&path, reply).await)
    }

    /// What an answer that is not a good one means.
    pub(super) async fn refusal(&self, path: &str, reply: Reply) -> Failure {
        let status = reply.status;
        let reason = reply
            .headers
            .get("x-eurekad-reason")
            .and_then(|value| value.to_str().ok())
            .map(clean);
        let body = reply.bytes(PROBLEM_MAX).await.unwrap_or_default();
        let detail = detail(&body).or(reason);
        let exit = match status {
            400 | 405 | 406 | 413 | 415 | 422 => Exit::Usage,
            404 if detail.is_some() => Exit::No,
            409 => Exit::No,
            410 => Exit::Trimmed,
            _ => Exit::Refused,
        };
        let text = match (status, detail) {
            (401, detail) => format!(
                "{} wants to know who asks: --user NAME, and the password in EUREKAD_PASSWORD{}",
                self.base,
                detail.map_or_else(String::new, |detail| format!(" ({detail})"))
            ),
            (_, Some(detail)) => detail,
            (404, None) => format!(
                "{} does not know {path}: is it an eurekad, and is the context path in --server?",
                self.base
            ),
            (503, None) => format!("{} is not ready (503)", self.base),
            (status, None) => format!("{} answers {status} to {path}", self.base),
        };
        Failure::new(exit, text)
    }

    /// A document.
    ///
    /// # Errors
    /// As [`Client::ask`]; the answer is no JSON.
    pub(super) async fn json(&self, call: Call) -> Result<Value, Failure> {
        let path = call.target.path.clone();
        let body = self.ask(call).await?.bytes(ANSWER_MAX).await?;
        self.parse(&path, &body)
    }

    /// Reads a document that was answered.
    ///
    /// # Errors
    /// It is no JSON.
    pub(super) fn parse(&self, path: &str, body: &[u8]) -> Result<Value, Failure> {
        serde_json::from_slice(body).map_err(|error| {
            Failure::refused(format!(
                "{} answers {path} with something that is not JSON ({error}): is it an eurekad?",
                self.base
            ))
        })
    }
}

impl Reply {
    /// A header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next piece of the body, `None` at its end.
    ///
    /// # Errors
    /// The connection broke, or nothing came for a minute.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = tokio::time::timeout(self.idle, self.body.frame())
                .await
                .map_err(|_| {
                    Failure::refused(format!(
                        "nothing came for {} s: the connection is dead",
                        self.idle.as_secs()
                    ))
                })?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(Failure::refused(format!(
                        "the answer was cut off: {}",
                        with_causes(&error)
                    )));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body, which may have `most` bytes.
    ///
    /// # Errors
    /// It is longer, or was cut off.
    pub(super) async fn bytes(mut self, most: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > most {
                return Err(Failure::refused(format!(
                    "the answer is longer than {most} bytes"
                )));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// The whole body of a document.
    ///
    /// # Errors
    /// As [`Reply::bytes`].
    pub(super) async fn document(self) -> Result<Vec<u8>, Failure> {
        self.bytes(ANSWER_MAX).await
    }
}

fn credentials(user: &str, environment: &ServerEnvironment) -> Credentials {
    let (name, password) = match user.split_once(':') {
        Some((name, password)) => (name, Some(Secret::new(password))),
        None => (user, None),
    };
    Credentials {
        user: Secret::new(name),
        password: password
            .or_else(|| environment.password.clone())
            .unwrap_or_else(|| Secret::new("")),
    }
}

/// The explanation in a problem document.
fn detail(body: &[u8]) -> Option<String> {
    let problem: Value = serde_json::from_slice(body).ok()?;
    let text = problem.get("detail").or_else(|| problem.get("title"))?;
    Some(clean(text.as_str()?))
}

/// An error with its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            let _ = write!(text, ": {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(server: &str) -> Result<Client, Failure> {
        let arguments = ServerArgs {
            server: Some(server.to_owned()),
            ..ServerArgs::default()
        };
        Client::new(&arguments, &ServerEnvironment::default())
    }

    #[tokio::test]
    async fn a_service_url_leads_to_the_same_server_as_its_base() {
        for (given, base) in [
            ("http://h:1", "http://h:1"),
            ("http://h:1/", "http://h:1"),
            ("http://u:p@h:1/eureka/", "http://h:1"),
            ("http://h:1/eureka/v2", "http://h:1"),
            ("http://h/ctx", "http://h:80/ctx"),
            ("http://h/ctx/eureka", "http://h:80/ctx"),
            ("http://[::1]:8761/", "http://[::1]:8761"),
        ] {
            assert_eq!(client(given).unwrap().url(), base, "{given}");
        }
        for bad in [
            "",
            "localhost:8761",
            "ftp://h",
            "srv+http://h/",
            "http://h/?q",
        ] {
            let failure = client(bad).unwrap_err();
            assert!(
                matches!(
                    failure,
                    Failure::Told {
                        exit: Exit::Usage,
                        ..
                    }
                ),
                "{bad}"
            );
        }
    }

    #[tokio::test]
    async fn a_password_is_in_no_text() {
        let client = client("http://user:hush@h:1/").unwrap();
        assert!(!format!("{client:?}").contains("hush"), "{client:?}");
        assert!(!client.unreachable("why").to_string().contains("hush"));
        let told = super::tests::client("http://user:hush@bad host/").unwrap_err();
        assert!(!told.to_string().contains("hush"), "{told}");
    }
}
