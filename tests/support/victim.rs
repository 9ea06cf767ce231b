//! A server to be mistreated, and bytes to do it with.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::http::{Answer, Connection, request};
use super::instance::{Listing, Registration};
use super::server::Server;

/// A server with one instance that nothing may touch.
pub(crate) struct Victim {
    pub(crate) server: Server,
    pub(crate) canary: Registration,
    listed: Listing,
    _dir: tempfile::TempDir,
}

impl Victim {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(&dir.path().join("data"), arguments);
        let canary = Registration::new("CANARY", "canary");
        let mut connection = Connection::open(server.port()).unwrap();
        let status = connection.exchange(&canary.register()).unwrap().status;
        assert_eq!(status, 204);
        let listed = Listing::of(server.port());
        Self {
            server,
            canary,
            listed,
            _dir: dir,
        }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.server.port()).unwrap()
    }

    /// Sends something over a connection of its own, and no more after it; the answer.
    pub(crate) fn send(&self, bytes: &[u8]) -> Option<Answer> {
        let mut connection = self.connect();
        // The server may have answered and closed before everything was written.
        let _ = connection.send(bytes);
        connection.receive().ok()
    }

    pub(crate) fn expect(&self, name: &str, bytes: &[u8], status: u16) -> Answer {
        let answer = self
            .send(bytes)
            .unwrap_or_else(|| panic!("{name}: no answer"));
        assert_eq!(answer.status, status, "{name}");
        answer
    }

    /// The registry is what it was, and the server lives and answers.
    pub(crate) fn assert_untouched(&mut self) {
        let now = Listing::of(self.server.port());
        assert_eq!(now.instances(), self.listed.instances());
        assert_eq!(now.hash, self.listed.hash);
        let answer = self.send(&self.canary.renew()).expect("an answer");
        assert_eq!((answer.status, answer.body.len()), (200, 0));
        self.server.assert_well();
    }
}

/// A registration with this body and these headers instead of a good one's.
pub(crate) fn post(headers: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}", body.len());
    let mut all = vec![length.as_str()];
    all.extend_from_slice(headers);
    let mut bytes = request("POST", "/eureka/apps/EVIL", &all, b"");
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) const JSON: &str = "Content-Type: application/json";
pub(crate) const XML: &str = "Content-Type: application/xml";
pub(crate) const GZIP: &str = "Content-Encoding: gzip";

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A good instance with one field replaced.
pub(crate) fn with(field: &str, value: serde_json::Value) -> Vec<u8> {
    let mut document = Registration::new("EVIL", "evil").document();
    document[field] = value;
    serde_json::json!({ "instance": document })
        .to_string()
        .into_bytes()
}
