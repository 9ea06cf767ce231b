//! How the program begins and ends: what is under way at SIGTERM is finished, what was acknowledged
//! is there at the next start, and nobody is answered before the log has been replayed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use support::http::request;
use support::{Connection, Listing, Registration, Server, wait_for};

fn instance(number: usize) -> Registration {
    Registration::new("STOP", &format!("stop-{number}"))
}

fn names(port: u16) -> Vec<String> {
    let instances = Listing::of(port).instances();
    instances.into_keys().map(|(_, id)| id).collect()
}

#[test]
fn a_request_under_way_at_sigterm_is_answered_and_kept_and_idle_connections_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &["--eurekad.shutdown-grace=30s"]);
    let mut idle = Connection::open(server.port()).unwrap();
    let status = idle.exchange(&instance(0).register()).unwrap().status;
    assert_eq!(status, 204);
    let silent = Connection::open(server.port()).unwrap();
    let mut slow = Connection::open(server.port()).unwrap();
    let bytes = instance(1).register();
    let (first, second) = bytes.split_at(bytes.len() - 100);
    slow.send(first).unwrap();
    wait_for("the server to read what was sent", || {
        slow.is_all_taken().then_some(())
    });

    server.terminate();
    assert!(idle.is_closed(), "an idle connection goes on");
    assert!(
        { silent }.is_closed(),
        "a connection without a request goes on"
    );
    let port = server.port();
    wait_for("the port to be closed", || {
        Connection::open(port).is_err().then_some(())
    });
    slow.send(second).unwrap();
    let answer = slow.receive().unwrap();
    assert_eq!(answer.status, 204, "the request that was under way");
    assert!(slow.is_closed(), "the connection goes on");

    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("stopped"), "{log}");
    let server = Server::start(&data, &[]);
    assert_eq!(names(server.port()), ["stop-0", "stop-1"]);
}

#[test]
fn a_terminal_that_goes_away_stops_the_node_in_order_unless_that_is_ignored() {
    for name in ["TERM", "INT", "HUP"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(&dir.path().join("data"), &[]);
        server.signal(name);
        let (status, log) = server.wait();
        assert_eq!(status.code(), Some(0), "SIG{name}: {log}");
        let is_in_order = log.contains(&format!("stopping: SIG{name}")) && log.contains("stopped");
        assert!(is_in_order, "{log}");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::spawn_under(
        &["sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""],
        &dir.path().join("data"),
        &[],
    );
    server.wait_until_serving();
    server.signal("HUP");
    let mut connection = Connection::open(server.port()).unwrap();
    let status = connection.exchange(&instance(0).register()).unwrap().status;
    assert_eq!(status, 204);
    server.terminate();
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("stopping: SIGTERM"), "{log}");
}

/// A registration that never ends, as far as the server has read it.
fn endless(server: &Server) -> Connection {
    let mut endless = Connection::open(server.port()).unwrap();
    let bytes = instance(1).register();
    endless.send(&bytes[..bytes.len() - 1]).unwrap();
    wait_for("the server to read what was sent", || {
        endless.is_all_taken().then_some(())
    });
    endless
}

#[test]
fn a_request_that_never_ends_does_not_keep_the_node_beyond_its_grace() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &["--eurekad.shutdown-grace=300ms"]);
    let mut connection = Connection::open(server.port()).unwrap();
    let status = connection.exchange(&instance(0).register()).unwrap().status;
    assert_eq!(status, 204);
    let _endless = endless(&server);
    server.terminate();
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    let server = Server::start(&data, &[]);
    assert_eq!(names(server.port()), ["stop-0"]);
}

#[test]
fn a_stop_says_what_it_waits_for_and_a_second_signal_ends_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // Longer than the test may take.
    let server = Server::start(&data, &["--eurekad.shutdown-grace=1h"]);
    let mut connection = Connection::open(server.port()).unwrap();
    let status = connection.exchange(&instance(0).register()).unwrap().status;
    assert_eq!(status, 204);
    let _endless = endless(&server);
    server.signal("INT");
    wait_for("the stop to say what it waits for", || {
        let told = "waiting for the requests of 1 connections, for up to 3600 s";
        server.log().contains(told).then_some(())
    });
    server.signal("INT");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("SIGINT while stopping"), "{log}");
    assert!(log.contains("1 connections did not finish"), "{log}");
    // The store was closed in order.
    assert!(log.contains("stopped"), "{log}");
    let server = Server::start(&data, &[]);
    assert!(!server.log().contains("mended"), "{}", server.log());
    assert_eq!(names(server.port()), ["stop-0"]);
}

#[test]
fn a_node_that_is_stopped_while_it_copies_does_not_register_itself_first() {
    let dir = tempfile::tempdir().unwrap();
    // It takes connections and never answers.
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = peer.local_addr().unwrap().port();
    let peers = format!("--eureka.client.service-url.defaultZone=http://127.0.0.1:{port}/eureka/");
    let registers = "--eureka.client.register-with-eureka=true";
    let fetches = "--eureka.client.fetch-registry=true";
    let server = Server::start(&dir.path().join("data"), &[&peers, registers, fetches]);
    wait_for("the node to ask its peer", || peer.accept().ok());
    server.terminate();
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("copying the registry"), "{log}");
    assert!(!log.contains("registered this node"), "{log}");
}

#[test]
fn a_stop_under_load_loses_nothing_that_was_acknowledged() {
    const WRITERS: usize = 8;
    for durability in ["sync", "process", "interval:1m"] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let durability = format!("--eurekad.durability={durability}");
        let server = Server::start(&data, &[&durability]);
        let port = server.port();
        let acknowledged = AtomicUsize::new(0);
        let told: Vec<String> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let acknowledged = &acknowledged;
                    scope.spawn(move || write_until_closed(port, writer, acknowledged))
                })
                .collect();
            wait_for("some registrations", || {
                (acknowledged.load(Ordering::SeqCst) >= 200).then_some(())
            });
            server.terminate();
            writers
                .into_iter()
                .flat_map(|w| w.join().unwrap())
                .collect()
        });
        let (status, log) = server.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(!log.contains("panicked"), "{log}");

        let server = Server::start(&data, &[&durability]);
        let mut left = names(server.port());
        assert_eq!(left.len(), told.len(), "{durability}");
        let mut told = told;
        told.sort();
        left.sort();
        assert_eq!(left, told, "{durability}");
    }
}

/// Registers one instance after the other; those that were acknowledged. A request that a stop finds
/// on its way is either answered or was never read, since the node finishes what it has begun.
fn write_until_closed(port: u16, writer: usize, acknowledged: &AtomicUsize) -> Vec<String> {
    let mut told = Vec::new();
    let Ok(mut connection) = Connection::open(port) else {
        return told;
    };
    for number in 0.. {
        let registration = instance(writer * 1_000_000 + number);
        match connection.exchange(&registration.register()) {
            Ok(answer) => {
                assert_eq!(answer.status, 204);
                told.push(registration.id);
                acknowledged.fetch_add(1, Ordering::SeqCst);
                if answer.header("connection") == Some("close") {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    told
}

#[test]
fn nobody_is_answered_before_the_log_is_replayed() {
    const INSTANCES: usize = 2000;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // No checkpoint: all of it has to be replayed.
    let arguments = [
        "--eurekad.checkpoint-interval=1h",
        "--eurekad.durability=process",
    ];
    let server = Server::start(&data, &arguments);
    let mut connection = Connection::open(server.port()).unwrap();
    for chunk in 0..INSTANCES / 100 {
        let bytes: Vec<u8> = (0..100)
            .flat_map(|number| instance(chunk * 100 + number).register())
            .collect();
        connection.send(&bytes).unwrap();
        for _ in 0..100 {
            assert_eq!(connection.receive().unwrap().status, 204);
        }
    }
    server.kill();

    let port = free_port();
    let argument = format!("--server.port={port}");
    let mut server = Server::spawn(&data, &[&arguments[..], &[argument.as_str()]].concat());
    let bytes = request("GET", "/eureka/apps", &["Accept: application/json"], b"");
    let answer = wait_for("an answer", || {
        Connection::open(port).ok()?.exchange(&bytes).ok()
    });
    assert_eq!(answer.status, 200, "the first answer");
    let listing = Listing::parse(&answer.json());
    assert_eq!(listing.instances().len(), INSTANCES, "in the first answer");
    server.wait_until_serving();
    let log = server.log();
    assert!(
        log.contains(&format!("{INSTANCES} instances recovered")),
        "{log}"
    );
    server.assert_well();
}

/// A port that nobody listens on, below those that the system gives to clients: one of these could
/// connect to itself.
fn free_port() -> u16 {
    (18_800..18_900)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}
