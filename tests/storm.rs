//! A restart without a storm: a registry full of clients that heartbeat over kept connections, one
//! kill -9 that lasts longer than their leases, and afterwards nobody has to register again, nobody
//! is gone, and a client that follows the deltas goes on with deltas.
//!
//! `EUREKAD_STORM_INSTANCES` sets the number of instances.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::delta_client::DeltaClient;
use support::http::request;
use support::{Connection, Listing, Registration, Server, wait_for};

const CONNECTIONS: u64 = 200;
const APPLICATIONS: u64 = 40;
/// Short, so that leases really run out while the server is down.
const LEASE_SECS: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(2);
/// Instances that come and go, to have something in the deltas.
const CHURNING: u64 = 12;

/// What the clients saw, all together.
struct Tally {
    port: AtomicU16,
    stop: AtomicBool,
    registered: AtomicU64,
    renewed: AtomicU64,
    /// Heartbeats that were answered with anything but 200.
    refused: AtomicU64,
    reconnected: AtomicU64,
    /// Rounds of heartbeats that each connection has finished.
    rounds: Vec<AtomicU64>,
    deltas: AtomicU64,
}

impl Tally {
    fn new(port: u16) -> Self {
        Self {
            port: AtomicU16::new(port),
            stop: AtomicBool::new(false),
            registered: AtomicU64::new(0),
            renewed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            reconnected: AtomicU64::new(0),
            rounds: (0..CONNECTIONS).map(|_| AtomicU64::new(0)).collect(),
            deltas: AtomicU64::new(0),
        }
    }

    fn port(&self) -> u16 {
        self.port.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Waits until every connection has renewed all its leases once more.
    fn wait_for_a_round(&self) {
        let now = |rounds: &AtomicU64| rounds.load(Ordering::SeqCst);
        // Two, since a round may have begun before.
        let goals: Vec<u64> = self.rounds.iter().map(|rounds| now(rounds) + 2).collect();
        wait_for("a round of heartbeats", || {
            let mut all = self.rounds.iter().zip(&goals);
            all.all(|(rounds, goal)| now(rounds) >= *goal).then_some(())
        });
    }

    fn wait_for_deltas(&self, count: u64) {
        let goal = self.deltas.load(Ordering::SeqCst) + count;
        wait_for("the poller", || {
            (self.deltas.load(Ordering::SeqCst) >= goal).then_some(())
        });
    }
}

/// Ends the clients however the test ends.
struct StopAtEnd<'a>(&'a Tally);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

fn arguments() -> [&'static str; 4] {
    [
        // Nothing but the grace may keep the leases alive.
        "--eureka.server.enable-self-preservation=false",
        "--eureka.server.eviction-interval-timer-in-ms=500",
        "--eurekad.checkpoint-interval=5s",
        "--management.endpoint.health.show-details=always",
    ]
}

#[test]
fn a_restart_after_kill_9_makes_nobody_register_again() {
    let count = support::number_from_env("EUREKAD_STORM_INSTANCES", 5000);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &arguments());
    let tally = Tally::new(server.port());

    thread::scope(|scope| {
        let _stop = StopAtEnd(&tally);
        for connection in 0..CONNECTIONS {
            let mine: Vec<Registration> = (0..count)
                .filter(|number| number % CONNECTIONS == connection)
                .map(client)
                .collect();
            let tally = &tally;
            thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || heartbeat(connection, &mine, tally))
                .unwrap();
        }
        wait_for("every instance to register", || {
            (tally.registered.load(Ordering::SeqCst) >= count).then_some(())
        });
        scope.spawn(|| follow_deltas(&tally));
        churn(server.port(), 0);
        tally.wait_for_deltas(2);
        tally.wait_for_a_round();

        let before = Listing::of(server.port());
        server.assert_well();
        server.kill();
        let down = Instant::now();
        // Longer than the leases last: without grace all of them would be over.
        thread::sleep(Duration::from_secs(u64::from(LEASE_SECS) + 1));
        server = Server::start(&data, &arguments());
        let down = down.elapsed();
        let after = Listing::of(server.port());
        tally.port.store(server.port(), Ordering::SeqCst);

        assert_eq!(before.hash, after.hash, "hash codes before and after");
        assert_eq!(before.instances(), after.instances(), "before and after");
        tally.wait_for_a_round();
        tally.wait_for_deltas(2);
        churn(server.port(), 1);
        tally.wait_for_deltas(2);
        tally.wait_for_a_round();

        let end = Listing::of(server.port()).instances();
        let lost = (0..count)
            .map(client)
            .filter(|c| !end.contains_key(&(c.app.clone(), c.id.clone())))
            .count();
        assert_eq!(lost, 0, "instances that were evicted after the restart");
        server.assert_well();
        println!(
            "{count} instances over {CONNECTIONS} connections, down for {} ms: {} registrations, \
             {} heartbeats, {} of them refused, {} reconnections, {} deltas followed, {} KiB \
             resident",
            down.as_millis(),
            tally.registered.load(Ordering::SeqCst),
            tally.renewed.load(Ordering::SeqCst),
            tally.refused.load(Ordering::SeqCst),
            tally.reconnected.load(Ordering::SeqCst),
            tally.deltas.load(Ordering::SeqCst),
            server.resident_kib(),
        );
    });
    assert_eq!(
        tally.refused.load(Ordering::SeqCst),
        0,
        "refused heartbeats"
    );
    assert_eq!(tally.registered.load(Ordering::SeqCst), count);
}

#[test]
fn who_died_with_the_server_is_evicted_once_the_grace_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (mut alive, mut dead) = (client(0), client(1));
    alive.duration_secs = 3;
    dead.duration_secs = 3;
    let server = Server::start(&data, &arguments());
    let mut connection = Connection::open(server.port()).unwrap();
    for registration in [&alive, &dead] {
        let answer = connection.exchange(&registration.register()).unwrap();
        assert_eq!(answer.status, 204);
    }
    server.kill();

    let mut server = Server::start(&data, &arguments());
    let mut connection = Connection::open(server.port()).unwrap();
    wait_for("the dead instance to go", || {
        let answer = connection.exchange(&alive.renew()).unwrap();
        assert_eq!(answer.status, 200, "the one that lives");
        (Listing::of(server.port()).instances().len() == 1).then_some(())
    });
    server.assert_well();
}

fn client(number: u64) -> Registration {
    let app = format!("APP{}", number % APPLICATIONS);
    Registration {
        dirty: 1_700_000_000_000 + i64::try_from(number).unwrap(),
        interval_secs: 2,
        duration_secs: LEASE_SECS,
        ..Registration::new(&app, &format!("host{number}:{number}"))
    }
}

/// A process that holds several clients: registers them once, then renews their leases. Whoever is
/// told 404 would register again; here that ends the test.
fn heartbeat(number: u64, clients: &[Registration], tally: &Tally) {
    let rounds = &tally.rounds[usize::try_from(number).unwrap()];
    let mut connection = None;
    for client in clients {
        let status = exchange(&mut connection, &client.register(), tally);
        assert!(tally.is_over() || status == 204, "registration: {status}");
        tally.registered.fetch_add(1, Ordering::SeqCst);
    }
    while !tally.is_over() {
        let begun = Instant::now();
        for client in clients {
            let status = exchange(&mut connection, &client.renew(), tally);
            if tally.is_over() {
                return;
            }
            if status == 200 {
                tally.renewed.fetch_add(1, Ordering::SeqCst);
            } else {
                tally.refused.fetch_add(1, Ordering::SeqCst);
                panic!("a heartbeat of {} was answered with {status}", client.id);
            }
        }
        rounds.fetch_add(1, Ordering::SeqCst);
        thread::sleep(INTERVAL.saturating_sub(begun.elapsed()));
    }
}

/// The status of the answer; tries again, over a new connection, as long as nobody listens.
fn exchange(connection: &mut Option<Connection>, bytes: &[u8], tally: &Tally) -> u16 {
    loop {
        if tally.is_over() {
            return 0;
        }
        let Some(open) = connection else {
            *connection = Connection::open(tally.port()).ok();
            if connection.is_none() {
                thread::sleep(Duration::from_millis(100));
            }
            continue;
        };
        if let Ok(answer) = open.exchange(bytes) {
            assert!(answer.body.is_empty(), "a body to a lease call");
            return answer.status;
        }
        tally.reconnected.fetch_add(1, Ordering::SeqCst);
        *connection = None;
    }
}

/// One full fetch, then deltas alone for as long as the test runs.
fn follow_deltas(tally: &Tally) {
    let fetch = |target: &str, connection: &mut Option<Connection>| loop {
        if tally.is_over() {
            return None;
        }
        let bytes = request("GET", target, &["Accept: application/json"], b"");
        let answer = match connection.as_mut() {
            Some(open) => open.exchange(&bytes).ok(),
            None => None,
        };
        if let Some(answer) = answer {
            assert_eq!(answer.status, 200, "GET {target}");
            return Some(Listing::parse(&answer.json()));
        }
        thread::sleep(Duration::from_millis(50));
        *connection = Connection::open(tally.port()).ok();
    };
    let mut connection = None;
    let Some(full) = fetch("/eureka/apps/", &mut connection) else {
        return;
    };
    let mut client = DeltaClient::new(&full);
    let mut version = 0;
    while let Some(delta) = fetch("/eureka/apps/delta", &mut connection) {
        assert!(delta.version >= version, "versions__delta went back");
        version = delta.version;
        client.apply(&delta);
        assert_eq!(
            client.hash(),
            delta.hash,
            "after the delta of version {version} a client has to fetch everything"
        );
        tally.deltas.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(200));
    }
}

/// Every kind of change, and an application that empties and fills again within one delta.
fn churn(port: u16, generation: i64) {
    let mut connection = Connection::open(port).unwrap();
    for number in 0..CHURNING {
        let app = format!("CHURN{}", number % 3);
        let id = format!("churn{number}");
        let mut registration = Registration::new(&app, &id);
        registration.dirty = 1000 + generation;
        let target = format!("/eureka/apps/{app}/{id}");
        let put = |what: &str| request("PUT", &format!("{target}/{what}"), &[], b"");
        let steps = [
            registration.register(),
            put("status?value=OUT_OF_SERVICE"),
            put("metadata?zone=z2"),
            request("DELETE", &target, &[], b""),
            registration.register(),
            put("status?value=DOWN"),
            request("DELETE", &format!("{target}/status"), &[], b""),
        ];
        // Some end as gone, some as overridden, some as they began.
        let end = usize::try_from(number % 4).unwrap() + 4;
        for step in &steps[..end] {
            let status = connection.exchange(step).unwrap().status;
            assert!(matches!(status, 200 | 204), "{status}");
        }
    }
}
