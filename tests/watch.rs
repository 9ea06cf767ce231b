//! Programs that follow the real server: every change once, in order, whatever is cut, restarted or
//! killed, and nothing kept for those who do not read.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use support::http::request;
use support::{
    Connection, Random, Registration, Server, get_json, number_from_env, seed, wait_for,
};

/// One event of a stream, or a sign of life.
#[derive(Clone, Debug, Default, PartialEq)]
struct Event {
    id: Option<u64>,
    name: String,
    data: Option<Value>,
}

/// A stream as `EventSource` reads it.
struct Stream {
    input: BufReader<TcpStream>,
    head: String,
}

impl Stream {
    fn open(port: u16, query: &str, last_event_id: Option<u64>) -> io::Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        socket.set_read_timeout(Some(Duration::from_mins(1)))?;
        let seen = last_event_id.map(|id| format!("Last-Event-ID: {id}"));
        let headers: Vec<&str> = seen.as_deref().into_iter().collect();
        socket.write_all(&request("GET", &format!("/watch{query}"), &headers, b""))?;
        let mut input = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if input.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(io::Error::other(head));
        }
        Ok(Self { input, head })
    }

    /// The next piece, `None` at an end that the server has said.
    fn chunk(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        self.input.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16)
            .map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let mut bytes = vec![0; size + 2];
        self.input.read_exact(&mut bytes)?;
        bytes.truncate(size);
        let text = String::from_utf8(bytes).expect("UTF-8");
        Ok((size > 0).then_some(text))
    }

    /// The next events: pieces are whole events.
    fn events(&mut self) -> io::Result<Option<Vec<Event>>> {
        let Some(text) = self.chunk()? else {
            return Ok(None);
        };
        let mut events = Vec::new();
        let mut event = Event::default();
        for line in text.lines() {
            match line.split_once(": ") {
                None if line.is_empty() => events.push(std::mem::take(&mut event)),
                Some(("id", id)) => event.id = Some(id.parse().expect("an LSN")),
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("data", data)) => event.data = serde_json::from_str(data).ok(),
                Some(("", "heartbeat")) => {}
                _ => panic!("a strange line: {line:?}"),
            }
        }
        assert_eq!(event, Event::default(), "a piece ends with its last event");
        Ok(Some(events))
    }
}

/// A change as the model has it: position, kind, application, instance.
type Change = (u64, String, String, String);

fn change_of(entry: &Value) -> Change {
    let text = |name: &str| entry[name].as_str().expect("a text").to_owned();
    let lsn = entry["lsn"].as_u64().expect("an LSN");
    (lsn, text("kind"), text("app"), text("instance"))
}

/// The registry as the test knows it, and everything that it has caused.
#[derive(Default)]
struct Model {
    present: BTreeMap<(String, String), bool>,
    changes: Vec<Change>,
}

impl Model {
    /// Carries out something random that changes something; acknowledged when this returns.
    fn change(&mut self, random: &mut Random, connection: &mut Connection) {
        let app = random.pick(&["SHOP", "CART", "SEARCH"]).to_owned();
        let id = format!("i-{}", random.below(4));
        let path = format!("/eureka/apps/{app}/{id}");
        let key = (app.clone(), id.clone());
        let number = self.changes.len() + 1;
        let registration = || Registration {
            dirty: 1000 + i64::try_from(number).unwrap(),
            ..Registration::new(&app, &id)
        };
        let (kind, bytes) = match (self.present.get(&key).copied(), random.below(5)) {
            (None, _) => {
                self.present.insert(key, false);
                ("registered", registration().register())
            }
            (Some(_), 0) => {
                self.present.remove(&key);
                ("cancelled", request("DELETE", &path, &[], b""))
            }
            (Some(false), 1) => {
                self.present.insert(key, true);
                let target = format!("{path}/status?value=OUT_OF_SERVICE");
                ("override-set", request("PUT", &target, &[], b""))
            }
            (Some(true), 1) => {
                self.present.insert(key, false);
                let target = format!("{path}/status");
                ("override-lifted", request("DELETE", &target, &[], b""))
            }
            (Some(_), 2) => ("re-registered", registration().register()),
            (Some(_), _) => {
                let target = format!("{path}/metadata?number={number}");
                ("metadata-updated", request("PUT", &target, &[], b""))
            }
        };
        let status = connection.exchange(&bytes).unwrap().status;
        assert!(matches!(status, 200 | 204), "{kind} {path}: {status}");
        self.changes.push((number as u64, kind.to_owned(), app, id));
    }
}

/// Follows until `last`, being cut and coming back; what it has seen.
fn follow(port: &AtomicU16, last: &AtomicU64, query: &str, mut random: Random) -> Vec<Change> {
    let (mut seen, mut position) = (Vec::new(), 0);
    let mut start = format!("?since=0{query}");
    while position < last.load(Ordering::SeqCst) {
        let resumed = (position > 0).then_some(position);
        let Ok(mut stream) = Stream::open(port.load(Ordering::SeqCst), &start, resumed) else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        // The header wins over this from the second time on.
        start = format!("?from=1{query}");
        let cut_after = seen.len() + 1 + usize::try_from(random.below(40)).unwrap();
        while seen.len() < cut_after && position < last.load(Ordering::SeqCst) {
            let Ok(Some(events)) = stream.events() else {
                break;
            };
            for event in events {
                position = event.id.expect("every event has a position");
                if let Some(entry) = event.data {
                    assert_eq!(event.name, "change");
                    assert_eq!(entry["lsn"].as_u64(), Some(position));
                    seen.push(change_of(&entry));
                }
            }
        }
    }
    seen
}

/// The same by long polls.
fn poll(port: &AtomicU16, last: &AtomicU64, query: &str, mut random: Random) -> Vec<Change> {
    let (mut seen, mut position) = (Vec::new(), 0);
    while position < last.load(Ordering::SeqCst) {
        let limit = 1 + random.below(20);
        let target = format!("/changes?since={position}&wait=1s&limit={limit}{query}");
        let bytes = request("GET", &target, &["Connection: close"], b"");
        let answer = Connection::open(port.load(Ordering::SeqCst))
            .and_then(|mut connection| connection.exchange(&bytes));
        let Ok(answer) = answer else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        assert_eq!(answer.status, 200);
        let body = answer.json();
        let next = body["next"].as_u64().unwrap();
        assert!(next >= position);
        position = next;
        seen.extend(body["entries"].as_array().unwrap().iter().map(change_of));
    }
    seen
}

#[test]
fn every_change_is_seen_once_and_in_order_across_cuts_stops_and_kills() {
    let mut random = Random::new(seed("watch"));
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &[]);
    let port = Arc::new(AtomicU16::new(server.port()));
    let last = Arc::new(AtomicU64::new(u64::MAX));
    let filters = [
        "",
        "&app=shop",
        "&app=CART,SEARCH&kind=registered,cancelled",
        "&kind=metadata-updated",
        "&app=NOBODY",
    ];
    let followers: Vec<_> = (0..20)
        .map(|number: usize| {
            let filter = filters[number % filters.len()];
            let (port, last) = (port.clone(), last.clone());
            let random = Random::new(random.next());
            let by_polls = number >= 15;
            let follower = thread::spawn(move || {
                let watch = if by_polls { poll } else { follow };
                watch(&port, &last, filter, random)
            });
            (filter, follower)
        })
        .collect();
    let mut model = Model::default();
    for life in 0..5 {
        let mut connection = Connection::open(server.port()).unwrap();
        for _ in 0..number_from_env("EUREKAD_WATCH_CHANGES", 60) {
            model.change(&mut random, &mut connection);
        }
        server.assert_well();
        if life == 4 {
            break;
        }
        if life % 2 == 0 {
            server.kill();
        } else {
            server.terminate();
            let (status, log) = server.wait();
            assert_eq!(status.code(), Some(0), "{log}");
        }
        server = Server::start(&data, &[]);
        port.store(server.port(), Ordering::SeqCst);
    }
    // Streams that are open learn of the end by one more change, which all positions move past.
    last.store(model.changes.len() as u64, Ordering::SeqCst);
    let mut connection = Connection::open(server.port()).unwrap();
    let end = model.changes.len();
    let mut wake = |app: &str| {
        let bytes = Registration::new(app, "end").register();
        assert_eq!(connection.exchange(&bytes).unwrap().status, 204);
    };
    for app in ["SHOP", "CART"] {
        wake(app);
    }
    // Those who want nothing of it hear of it by a heartbeat, or at the next cut.
    server.assert_well();
    drop(connection);
    let restarted = {
        server.terminate();
        let _ = server.wait();
        Server::start(&data, &[])
    };
    port.store(restarted.port(), Ordering::SeqCst);
    for (filter, follower) in followers {
        let seen = follower.join().unwrap();
        let list = |name: &str| -> Option<BTreeSet<String>> {
            let (_, rest) = filter.split_once(&format!("{name}="))?;
            let values = rest.split('&').next().unwrap_or_default();
            Some(values.split(',').map(str::to_owned).collect())
        };
        let apps = list("app").map(|apps| apps.iter().map(|app| app.to_uppercase()).collect());
        let apps: Option<BTreeSet<String>> = apps;
        let kinds = list("kind");
        let wanted: Vec<Change> = model
            .changes
            .iter()
            .filter(|(_, kind, app, _)| {
                apps.as_ref().is_none_or(|apps| apps.contains(app))
                    && kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
            })
            .cloned()
            .collect();
        let seen: Vec<Change> = seen
            .into_iter()
            .filter(|(lsn, ..)| *lsn <= end as u64)
            .collect();
        assert_eq!(seen, wanted, "{filter}");
    }
}

#[test]
fn a_thousand_watchers_get_every_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("data"), &[]);
    let count = usize::try_from(number_from_env("EUREKAD_WATCHERS", 1000)).unwrap();
    let mut streams: Vec<Stream> = (0..count)
        .map(|_| {
            let mut stream = Stream::open(server.port(), "", None).unwrap();
            let first = stream.events().unwrap().unwrap();
            assert_eq!((first[0].id, first[0].data.is_none()), (Some(0), true));
            stream
        })
        .collect();
    let (mut model, mut random) = (Model::default(), Random::new(seed("watchers")));
    let mut connection = Connection::open(server.port()).unwrap();
    for _ in 0..30 {
        model.change(&mut random, &mut connection);
    }
    for stream in &mut streams {
        let mut seen = Vec::new();
        while seen.len() < model.changes.len() {
            let events = stream.events().unwrap().expect("it goes on");
            seen.extend(
                events
                    .iter()
                    .filter_map(|event| event.data.as_ref())
                    .map(change_of),
            );
        }
        assert_eq!(seen, model.changes);
    }
    server.assert_well();
}

#[test]
fn who_does_not_read_is_cut_costs_nothing_and_goes_on_from_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("data"), &["--eurekad.idle-timeout=1s"]);
    let mut registration = Registration::new("SHOP", "large");
    let send = {
        let port = server.port();
        move |registration: &Registration| {
            // Idle connections are closed after a second.
            let mut connection = Connection::open(port).unwrap();
            let status = connection
                .exchange(&registration.register())
                .unwrap()
                .status;
            assert_eq!(status, 204);
        }
    };
    send(&registration);
    let mut slow: Vec<Stream> = (0..10)
        .map(|_| Stream::open(server.port(), "?since=0", None).unwrap())
        .collect();
    let before = server.resident_kib();
    let changes = 400_u64;
    for number in 0..changes {
        registration.dirty += 1;
        for key in 0..8 {
            let value = format!("{number:06}").repeat(600);
            registration.metadata.insert(format!("key-{key}"), value);
        }
        send(&registration);
    }
    // Some 28 MB were told to each of ten: more than sockets hold.
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 100 << 10, "{grown} KiB more");
    let last = changes + 1;
    thread::sleep(Duration::from_secs(2));
    for mut stream in slow.drain(..) {
        let (mut position, mut next) = (0, 1);
        while let Ok(Some(events)) = stream.events() {
            for event in events {
                position = event.id.unwrap();
                if event.data.is_some() {
                    assert_eq!(position, next);
                    next += 1;
                }
            }
        }
        assert!(position < last, "it was cut before the end");
        let seen = (position > 0).then_some(position);
        let mut stream = Stream::open(server.port(), "?since=0", seen).unwrap();
        while position < last {
            for event in stream.events().unwrap().expect("it goes on") {
                position = event.id.unwrap();
                if event.data.is_some() {
                    assert_eq!(position, next);
                    next += 1;
                }
            }
        }
        assert_eq!(next, last + 1);
    }
    server.assert_well();
}

#[test]
fn open_streams_and_polls_end_at_once_when_the_node_stops() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &["--eurekad.shutdown-grace=10m"]);
    let mut stream = Stream::open(server.port(), "", None).unwrap();
    stream.events().unwrap().unwrap();
    let mut polling = Connection::open(server.port()).unwrap();
    polling
        .send(&request("GET", "/changes?wait=60s", &[], b""))
        .unwrap();
    wait_for("the poll to be read", || {
        polling.is_all_taken().then_some(())
    });
    let port = server.port();
    server.terminate();
    assert_eq!(stream.events().unwrap(), None, "an end that is said");
    // It was answered, or had not begun yet.
    if let Ok(answer) = polling.receive() {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["entries"], serde_json::json!([]));
    }
    wait_for("the port to be closed", || {
        Connection::open(port).is_err().then_some(())
    });
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn what_cannot_be_watched_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("data"), &["--eurekad.max-watchers=1"]);
    let mut connection = Connection::open(server.port()).unwrap();
    let registration = Registration::new("SHOP", "1");
    assert_eq!(
        connection
            .exchange(&registration.register())
            .unwrap()
            .status,
        204
    );
    let refusals = [
        ("/watch?since=x", "", 400, "whole number"),
        ("/watch?since=2", "", 400, "in the future"),
        ("/watch?from=1&since=1", "", 400, "one of them"),
        ("/watch?colour=red", "", 400, "colour"),
        ("/watch?kind=exploded", "", 400, "re-registered"),
        ("/watch", "Last-Event-ID: nine", 400, "Last-Event-ID"),
        ("/watch?since=0", "Last-Event-ID: 9", 400, "in the future"),
        ("/changes?since=-1", "", 400, "whole number"),
        ("/changes?wait=2m", "", 400, "at most 60s"),
        ("/changes?limit=0", "", 400, "1 to 1000"),
    ];
    for (target, header, status, says) in refusals {
        let headers: Vec<&str> = Some(header).filter(|h| !h.is_empty()).into_iter().collect();
        let answer = connection
            .exchange(&request("GET", target, &headers, b""))
            .unwrap();
        assert_eq!(answer.status, status, "{target}");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        let body = answer.json();
        assert_eq!(body["status"], status);
        assert!(
            body["detail"].as_str().unwrap().contains(says),
            "{target}: {body}"
        );
    }
    let options = connection
        .exchange(&request("OPTIONS", "/watch", &[], b""))
        .unwrap();
    assert_eq!(
        (options.status, options.header("allow")),
        (200, Some("GET,HEAD,OPTIONS"))
    );
    let posted = connection
        .exchange(&request("POST", "/changes", &[], b"x"))
        .unwrap();
    assert_eq!(posted.status, 405);

    let mut stream = Stream::open(server.port(), "?since=0", None).unwrap();
    for header in [
        "content-type: text/event-stream",
        "cache-control: no-store",
        "x-accel-buffering: no",
        "x-eurekad-lsn: 1",
        "connection: close",
    ] {
        assert!(
            stream.head.to_ascii_lowercase().contains(header),
            "{}",
            stream.head
        );
    }
    stream.events().unwrap().unwrap();
    let full = Connection::open(server.port())
        .unwrap()
        .exchange(&request("GET", "/changes", &[], b""))
        .unwrap();
    assert_eq!(full.status, 503);
    assert!(
        full.json()["detail"]
            .as_str()
            .unwrap()
            .contains("max-watchers")
    );
    assert_eq!(full.header("retry-after"), Some("5"));
    drop(stream);
    let listed = wait_for("the place to be free again", || {
        let bytes = request("GET", "/changes?since=0", &[], b"");
        let answer = Connection::open(server.port())
            .ok()?
            .exchange(&bytes)
            .ok()?;
        (answer.status == 200).then_some(answer)
    });
    let entry = &listed.json()["entries"][0];
    assert_eq!(
        change_of(entry),
        (1, "registered".into(), "SHOP".into(), "1".into())
    );
    assert_eq!(listed.header("x-eurekad-lsn"), Some("1"));
    let history = get_json(server.port(), "/changes?since=0&app=OTHER");
    assert_eq!(
        (&history["next"], &history["newest_lsn"]),
        (&1.into(), &1.into())
    );
    server.assert_well();
}
