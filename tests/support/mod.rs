//! What the tests that run the real program share: the program as a child process, a small HTTP/1.1
//! client over plain sockets, instances as clients describe them, and seeded randomness.
//!
//! Everything blocks and has a bound: a server that hangs fails the test and does not stop it.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses a part of this"
)]
#![allow(
    clippy::print_stdout,
    reason = "the test harness shows what a failed test has printed"
)]

pub(crate) mod client_model;
pub(crate) mod client_wire;
pub(crate) mod delta_client;
pub(crate) mod http;
pub(crate) mod instance;
pub(crate) mod mount;
pub(crate) mod random;
pub(crate) mod server;
pub(crate) mod trace;
pub(crate) mod victim;

use std::time::{Duration, Instant};

pub(crate) use http::{Answer, Connection, get_json};
pub(crate) use instance::{Listing, Registration};
pub(crate) use random::{Random, seed};
pub(crate) use server::Server;

/// How long anything that is waited for may take before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until `look` finds something; gives up after [`PATIENCE`].
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(LOOK);
    }
}

/// A number from the environment, for runs that are longer or smaller than usual.
pub(crate) fn number_from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}
