//! The HTTP listener: where it listens and how much it takes from one connection.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::bind::Binder;
use super::value::Unit;

/// Most watchers where nobody says how many.
const WATCHERS_MAX: usize = 10_000;

/// What the listener needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// `server.port`; 0 lets the system choose one.
    pub port: u16,
    /// `server.address`.
    pub address: IpAddr,
    /// `server.servlet.context-path`: empty, or begins with a slash and does not end with one.
    pub context_path: String,
    /// `eurekad.header-timeout`: from the first byte of a request to the end of its headers.
    pub header_timeout: Duration,
    /// `eurekad.idle-timeout`: a connection without a request is closed after this.
    pub idle_timeout: Duration,
    /// `eurekad.body-timeout`: from the end of the headers to the end of the body.
    pub body_timeout: Duration,
    /// `eurekad.shutdown-grace`, else `spring.lifecycle.timeout-per-shutdown-phase`: how long
    /// requests in flight may take after a signal to stop.
    pub shutdown_grace: Duration,
    /// `eurekad.max-connections`, else `server.tomcat.max-connections`.
    pub max_connections: usize,
    /// `eurekad.max-watchers`: streams and long polls at a time. By default 10,000, or three
    /// quarters of the connections if that is less, so that clients always get through.
    pub max_watchers: usize,
    /// `server.max-http-request-header-size`: request line and headers together, bytes.
    pub max_header_bytes: usize,
    /// `eurekad.worker-threads`: 0 means one per core.
    pub worker_threads: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            port: 8761,
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            context_path: String::new(),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            body_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(20),
            max_connections: 8192,
            max_watchers: 6144,
            max_header_bytes: 8 * 1024,
            worker_threads: 0,
        }
    }
}

impl ServerConfig {
    pub(super) fn bind(b: &mut Binder<'_>) -> Self {
        let d = Self::default();
        let immediate = b.other(
            &["server.shutdown"],
            false,
            |text| match text.to_ascii_lowercase().as_str() {
                "graceful" => Some(false),
                "immediate" => Some(true),
                _ => None,
            },
            |immediate| if *immediate { "immediate" } else { "graceful" }.to_owned(),
            "graceful | immediate",
        );
        let grace = if immediate {
            Duration::ZERO
        } else {
            d.shutdown_grace
        };
        let ms = Duration::from_millis(1);
        let max_connections = b.number(
            &["eurekad.max-connections", "server.tomcat.max-connections"],
            d.max_connections,
            1..=10_000_000,
        );
        let max_watchers = (max_connections - max_connections.div_ceil(4)).min(WATCHERS_MAX);
        let max_watchers = b.number(&["eurekad.max-watchers"], max_watchers, 0..=10_000_000);
        if max_watchers >= max_connections {
            b.warnings.push(format!(
                "eurekad.max-watchers ({max_watchers}) is no bound: each of them takes one of the \
                 {max_connections} connections of eurekad.max-connections, and when these are taken \
                 nobody else is served; set it lower, or that higher"
            ));
        }
        Self {
            port: b.number(&["server.port"], d.port, 0..=u16::MAX),
            address: b.other(
                &["server.address"],
                d.address,
                parse_address,
                IpAddr::to_string,
                "an IP address to listen on, 0.0.0.0 or :: for all, or localhost",
            ),
            context_path: b.other(
                &["server.servlet.context-path"],
                d.context_path,
                parse_path,
                String::clone,
                "a path that begins with a slash, such as /registry",
            ),
            header_timeout: b.duration_from(
                &["eurekad.header-timeout"],
                Unit::Millis,
                d.header_timeout,
                ms,
            ),
            idle_timeout: b.duration_from(
                &["eurekad.idle-timeout"],
                Unit::Millis,
                d.idle_timeout,
                ms,
            ),
            body_timeout: b.duration_from(
                &["eurekad.body-timeout"],
                Unit::Millis,
                d.body_timeout,
                ms,
            ),
            shutdown_grace: b.duration(
                &[
                    "eurekad.shutdown-grace",
                    "spring.lifecycle.timeout-per-shutdown-phase",
                ],
                Unit::Millis,
                grace,
            ),
            max_connections,
            max_watchers,
            // hyper cannot work with less than 8 KiB.
            max_header_bytes: b.size(
                &["server.max-http-request-header-size"],
                d.max_header_bytes,
                8192..=16 << 20,
            ),
            worker_threads: b.number(&["eurekad.worker-threads"], d.worker_threads, 0..=1024),
        }
    }
}

fn parse_address(text: &str) -> Option<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

/// A path with a slash before it and none behind; `/` is empty.
pub(super) fn parse_path(text: &str) -> Option<String> {
    let fine = text.starts_with('/')
        && !text.contains("//")
        && !text.contains(|c: char| c.is_whitespace() || matches!(c, '?' | '#' | '%'));
    fine.then(|| text.trim_end_matches('/').to_owned())
}
