//! The HTTP listener: where it listens and how much it takes from one connection.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

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
            max_header_bytes: 8 * 1024,
            worker_threads: 0,
        }
    }
}
