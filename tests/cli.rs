//! The command line as people and scripts use it: the real program, against real nodes, stopped
//! stores, damaged ones, and a stand-in that answers what a node would.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use support::http::request;
use support::{Connection, Listing, Registration, Server, wait_for};

/// What a command did.
#[derive(Debug)]
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Holds that it ended with this code, and gives what it wrote.
    #[track_caller]
    fn with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {}", self.out))
    }

    fn lines(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn eurekad(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eurekad"));
    command
        .args(arguments)
        .env_remove("EUREKAD_SERVER")
        .env_remove("EUREKAD_USER")
        .env_remove("EUREKAD_PASSWORD")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Done {
    Done::of(eurekad(arguments).output().unwrap())
}

fn run_with_input(arguments: &[&str], input: &str) -> Done {
    let mut child = eurekad(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = thread::spawn(move || {
        // It may refuse the input before it has read all of it.
        let _ = stdin.write_all(input.as_bytes());
    });
    let done = Done::of(child.wait_with_output().unwrap());
    writer.join().unwrap();
    done
}

/// A data directory with some history in it, its node stopped.
struct Stopped {
    _dir: tempfile::TempDir,
    data: PathBuf,
}

impl Stopped {
    /// Three instances; one out of service by an operator's word, one cancelled.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let server = Server::start(&data, &[]);
        let mut connection = Connection::open(server.port()).unwrap();
        for id in ["shop-1", "shop-2", "shop-3"] {
            let bytes = Registration::new("SHOP", id).register();
            assert_eq!(connection.exchange(&bytes).unwrap().status, 204);
        }
        for (method, target) in [
            (
                "PUT",
                "/eureka/apps/SHOP/shop-1/status?value=OUT_OF_SERVICE",
            ),
            ("PUT", "/eureka/apps/SHOP/shop-2/metadata?colour=red"),
            ("DELETE", "/eureka/apps/SHOP/shop-3"),
        ] {
            let bytes = request(method, target, &["X-Reason: deploy 4711"], b"");
            assert_eq!(connection.exchange(&bytes).unwrap().status, 200);
        }
        drop(connection);
        server.terminate();
        let (status, log) = server.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        Self { _dir: dir, data }
    }

    fn dir(&self) -> &str {
        self.data.to_str().unwrap()
    }
}

fn url(server: &Server) -> String {
    format!("http://127.0.0.1:{}", server.port())
}

#[test]
fn the_servers_own_command_line_is_what_it_was() {
    let help = run(&["--help"]).with(0);
    assert!(
        help.out.contains("Usage: eurekad [COMMAND] [OPTIONS]"),
        "{}",
        help.out
    );
    assert!(help.out.contains("eureka.server.enable-self-preservation"));
    assert!(run(&["--version"]).with(0).out.starts_with("eurekad "));
    let config = run(&["config", "--server.port=1234"]).with(0);
    assert!(config.out.contains("server.port = 1234"), "{}", config.out);
    assert_eq!(config.err, "");
    let warned = run(&[
        "config",
        "--server.port=1234",
        "--server.prot=1",
        "--server.ssl.enabled=true",
    ])
    .with(0);
    assert!(warned.out.contains("server.port = 1234"), "{}", warned.out);
    assert!(!warned.out.contains("warning"), "{}", warned.out);
    for told in ["did you mean server.port?", "server.ssl.enabled"] {
        assert!(warned.err.contains(told), "{told}: {}", warned.err);
    }
    let slip = run(&["help", "histroy"]).with(2);
    assert!(
        slip.err.contains("did you mean eurekad help history?"),
        "{}",
        slip.err
    );
    assert!(
        run(&["help", "nope"])
            .with(2)
            .err
            .contains("no such command")
    );
    assert_eq!(run(&["help", "serve"]).with(0).out, help.out);
    let slip = run(&["histor"]).with(2);
    assert!(slip.err.contains("did you mean history?"), "{}", slip.err);
    let late = run(&["--server.port=1", "history"]);
    assert!(late.code == 2 || late.err.contains("history"), "{late:?}");
    let mut quiet = eurekad(&["config"]);
    quiet
        .env("EUREKAD_SERVER", "http://h:1")
        .env("EUREKAD_PASSWORD", "hush");
    let quiet = Done::of(quiet.output().unwrap()).with(0);
    assert!(!(quiet.out + &quiet.err).contains("EUREKAD_PASSWORD"));
}

#[test]
fn every_command_has_help_with_examples_and_exit_codes() {
    for command in [
        "history",
        "at",
        "diff",
        "watch",
        "explain",
        "drain",
        "quarantine",
        "release",
        "overrides",
        "peers",
        "status",
        "export",
        "import",
        "store",
        "completions",
        "man",
    ] {
        let help = run(&[command, "--help"]).with(0);
        assert!(help.out.contains("Exit codes:"), "{command}: {}", help.out);
        assert!(help.out.contains("Examples:"), "{command}: {}", help.out);
        assert_eq!(run(&["help", command]).with(0).out, help.out);
    }
    for command in [
        ["overrides", "list"],
        ["overrides", "lift"],
        ["store", "check"],
        ["store", "repair"],
        ["store", "stats"],
        ["store", "compact"],
    ] {
        let help = run(&["help", command[0], command[1]]).with(0);
        assert!(help.out.contains("Examples:"), "{command:?}: {}", help.out);
    }
    for wrong in [
        &["history", "--nonsense"][..],
        &["at"],
        &["drain", "A/a"],
        &["quarantine", "A/a"],
        &["store"],
        &["explain", "BILLING", "--server", "http://127.0.0.1:1"],
        &["history", "/id", "--server", "http://127.0.0.1:1"],
        &["history", "--server", "nonsense"],
        &["history", "--data-dir", "x", "--server", "http://h"],
        &["import", "--history"],
        &[
            "export",
            "--history",
            "--format",
            "xml",
            "--server",
            "http://127.0.0.1:1",
        ],
    ] {
        let done = run(wrong).with(2);
        assert!(!done.err.is_empty(), "{wrong:?}");
    }
}

#[test]
fn a_server_that_is_not_there_or_not_ours_is_said_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let nobody = format!("http://user:hush@127.0.0.1:{port}");
    for arguments in [
        &["history"][..],
        &["watch"],
        &["explain", "A/a"],
        &["status"],
        &["export"],
        &["drain", "A/a", "--for", "1m"],
    ] {
        let mut all = arguments.to_vec();
        all.extend(["--server", &nobody]);
        let done = run(&all).with(3);
        assert!(
            done.err.contains("cannot reach http://127.0.0.1"),
            "{}",
            done.err
        );
        assert!(
            !done.err.contains("hush") && done.out.is_empty(),
            "{done:?}"
        );
    }
    let other = StandIn::start(|_, stream| answer(stream, 404, "text/html", "<h1>404</h1>"));
    let done = run(&["history", "--server", &other.url()]).with(3);
    assert!(done.err.contains("is it an eurekad"), "{}", done.err);
    let other = StandIn::start(|_, stream| answer(stream, 200, "text/html", "<h1>Hello</h1>"));
    let done = run(&["status", "--server", &other.url()]).with(3);
    assert!(done.err.contains("not JSON"), "{}", done.err);
}

/// A server that answers every request by a function, on a connection that is closed after it.
struct StandIn {
    port: u16,
    asked: mpsc::Receiver<String>,
}

impl StandIn {
    fn start(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (told, asked) = mpsc::sync_channel(1000);
        // It ends with the test program.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
                answer(&head, &mut stream);
                let _ = told.try_send(head);
            }
        });
        Self { port, asked }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The head of the next request that was answered.
    fn asked(&self) -> String {
        self.asked
            .recv_timeout(support::PATIENCE)
            .expect("a request")
    }
}

fn answer(stream: &mut TcpStream, status: u16, content_type: &str, body: &str) {
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
}

fn entry(lsn: u64, kind: &str) -> Value {
    json!({
        "lsn": lsn, "at": "2026-11-30T21:11:42.123Z", "kind": kind, "app": "BILLING",
        "instance": "billing-1", "reason": "deploy 4711", "origin": "operator",
        "actor": {"principal": null, "address": "10.0.0.1", "user_agent": "curl/8", "peer": null},
        "changes": {"status": {"before": "UP", "after": "OUT_OF_SERVICE"}},
        "lease": {"registered_at": "2026-11-30T21:00:00.000Z", "renewed_at": "2026-11-30T21:11:40.000Z",
                  "renewal_age_ms": 2123, "duration_ms": 90000},
    })
}

#[test]
fn an_explanation_of_an_error_is_shown_and_told_by_the_exit_code() {
    for (status, code) in [
        (400, 2),
        (401, 3),
        (403, 3),
        (404, 1),
        (410, 4),
        (500, 3),
        (503, 3),
    ] {
        let problem = json!({"title": "X", "status": status, "detail": format!("because of {status}\u{1b}[31m")});
        let node = StandIn::start(move |_, stream| {
            answer(
                stream,
                status,
                "application/problem+json",
                &problem.to_string(),
            );
        });
        let done = run(&["diff", "-1h", "--server", &node.url()]).with(code);
        assert!(
            done.err.contains(&format!("because of {status}")),
            "{}",
            done.err
        );
        assert!(!done.err.contains('\u{1b}'), "{}", done.err);
    }
}

#[test]
fn the_history_is_a_table_for_people_and_the_servers_answer_for_programs() {
    let page = json!({"entries": [entry(12, "override-set")], "next": null, "oldest": null,
                      "oldest_lsn": 1, "complete": true});
    let text = page.to_string();
    let node = StandIn::start(move |_, stream| answer(stream, 200, "application/json", &text));
    let server = node.url() + "/ctx/eureka/";
    let table = run(&[
        "history",
        "BILLING/b 1",
        "--from",
        "-2h",
        "--kind",
        "override-set",
        "--reason",
        "a&b",
        "--utc",
        "--server",
        &server,
    ])
    .with(0);
    let asked = node.asked();
    let first = asked.lines().next().unwrap();
    assert_eq!(
        first,
        "GET /ctx/history/apps/BILLING/b%201?from=-2h&kind=override-set&reason=a%26b&order=newest\
         &limit=100 HTTP/1.1"
    );
    let lines: Vec<&str> = table.out.lines().collect();
    assert!(lines[0].starts_with("TIME"), "{}", table.out);
    assert!(lines[1].starts_with("2026-11-30 21:11:42.123Z  12   override-set  BILLING/billing-1"));
    assert!(
        lines[1].contains("status UP→OUT_OF_SERVICE"),
        "{}",
        lines[1]
    );
    assert!(
        lines[1].ends_with("operator 10.0.0.1 (curl/8)  deploy 4711"),
        "{}",
        lines[1]
    );
    assert!(!table.out.contains('\u{1b}'));
    let painted = run(&["history", "--color", "always", "--server", &server]).with(0);
    assert!(
        painted.out.contains("\u{1b}[33moverride-set\u{1b}[0m"),
        "{}",
        painted.out
    );
    let raw = run(&["history", "--json", "--server", &server]).with(0);
    assert_eq!(raw.out.trim_end(), page.to_string());
}

#[test]
fn pages_are_followed_and_what_is_no_longer_kept_is_said() {
    let node = StandIn::start(|head, stream| {
        let page = if head.contains("cursor=abc") {
            json!({"entries": [entry(1, "registered")], "next": null, "complete": false,
                   "oldest": "2026-11-30T20:00:00.000Z", "oldest_lsn": 1})
        } else {
            json!({"entries": vec![entry(2, "evicted"); 1000], "next": "abc", "complete": true})
        };
        answer(stream, 200, "application/json", &page.to_string());
    });
    let done = run(&[
        "history",
        "--limit",
        "5000",
        "--utc",
        "--server",
        &node.url(),
    ])
    .with(0);
    // The head, however many pages follow.
    assert_eq!(done.out.lines().count(), 1 + 1001);
    assert!(
        done.err
            .contains("2026-11-30 20:00:00.000Z is no longer kept"),
        "{}",
        done.err
    );
    let done = run(&["history", "--limit", "1000", "--server", &node.url()]).with(0);
    assert!(done.err.contains("--all"), "{}", done.err);
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let lines = format!("{}\n", entry(7, "evicted")).repeat(20_000);
    let node = StandIn::start(move |_, stream| answer(stream, 200, "application/x-ndjson", &lines));
    for form in ["--ndjson", "--utc"] {
        let mut child = eurekad(&["history", "--all", form, "--server", &node.url()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        reader.read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        drop(reader);
        let done = Done::of(child.wait_with_output().unwrap());
        assert_eq!((done.code, done.err.as_str()), (0, ""));
    }
}

fn event(lsn: u64) -> String {
    format!(
        "id: {lsn}\nevent: change\ndata: {}\n\n",
        entry(lsn, "evicted")
    )
}

fn begin_stream(stream: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
}

#[test]
fn a_watch_goes_on_where_it_was_cut_and_tells_nothing_twice() {
    let node = StandIn::start(|head, stream| {
        begin_stream(stream);
        let events = if head.contains("last-event-id: 8") {
            event(8) + &event(9) + &event(10)
        } else {
            event(6) + "id: 7\n: heartbeat\n\n" + &event(8)
        };
        let _ = stream.write_all(events.as_bytes());
    });
    let done = run(&[
        "watch",
        "--from",
        "6",
        "--app",
        "BILLING,SHOP",
        "--json",
        "--count",
        "4",
        "--server",
        &node.url(),
    ])
    .with(0);
    let lsns: Vec<u64> = done
        .lines()
        .iter()
        .map(|e| e["lsn"].as_u64().unwrap())
        .collect();
    assert_eq!(lsns, [6, 8, 9, 10]);
    assert!(done.err.contains("going on behind lsn 8"), "{}", done.err);
    assert!(
        node.asked()
            .starts_with("GET /watch?app=BILLING%2CSHOP&from=6 HTTP/1.1\r\n")
    );
    assert!(
        node.asked()
            .starts_with("GET /watch?app=BILLING%2CSHOP HTTP/1.1\r\n")
    );
    let done = run(&["watch", "--no-reconnect", "--server", &node.url()]).with(3);
    assert_eq!(done.out.lines().count(), 2, "{}", done.out);
}

#[test]
fn a_watch_that_fell_behind_the_log_or_was_interrupted_ends() {
    let node = StandIn::start(|head, stream| {
        if head.contains("last-event-id") {
            let problem = json!({"detail": "trimmed: the log begins at LSN 50"});
            answer(
                stream,
                410,
                "application/problem+json",
                &problem.to_string(),
            );
        } else {
            begin_stream(stream);
            let _ = stream.write_all(event(8).as_bytes());
        }
    });
    let done = run(&["watch", "--utc", "--server", &node.url()]).with(4);
    assert!(done.out.contains("BILLING/billing-1"), "{}", done.out);
    assert!(done.err.contains("begins at LSN 50"), "{}", done.err);

    let node = StandIn::start(|_, stream| {
        begin_stream(stream);
        let _ = stream.write_all(event(8).as_bytes());
        // Until the other side goes.
        let _ = stream.read(&mut [0]);
    });
    let mut child = eurekad(&["watch", "--server", &node.url()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    assert!(
        line.contains("evicted"),
        "a change is shown when it comes: {line}"
    );
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn times_are_shown_and_read_in_one_zone() {
    let node = StandIn::start(|head, stream| {
        if head.starts_with("GET /explain/") {
            let document = json!({
                "app": "A", "instance": "a", "present": true, "status": "UP",
                "summary": ["It is there since 2026-11-30T21:11:42.123Z."],
                "next": [{"what": "It goes at 2026-11-30T23:00:00.000Z."}],
            });
            answer(stream, 200, "application/json", &document.to_string());
        } else {
            let problem = json!({"detail": "the log begins at 2026-11-30T21:00:00.000Z"});
            answer(
                stream,
                410,
                "application/problem+json",
                &problem.to_string(),
            );
        }
    });
    let url = node.url();
    let run = |arguments: &[&str]| {
        let mut command = eurekad(arguments);
        command.env("TZ", "EST5").env("EUREKAD_SERVER", &url);
        Done::of(command.output().unwrap())
    };
    let done = run(&["explain", "A/a"]).with(0);
    for part in [
        "2026-11-30 16:11:42.123-05:00",
        "2026-11-30 18:00:00.000-05:00",
    ] {
        assert!(done.out.contains(part), "{part}: {}", done.out);
    }
    let done = run(&["explain", "A/a", "--utc"]).with(0);
    assert!(
        done.out.contains("since 2026-11-30 21:11:42.123Z."),
        "{}",
        done.out
    );
    let raw = run(&["explain", "A/a", "--json"]).with(0);
    assert!(
        raw.out.contains("since 2026-11-30T21:11:42.123Z"),
        "{}",
        raw.out
    );
    for _ in 0..3 {
        node.asked();
    }
    for (arguments, asked) in [
        (
            &[
                "history",
                "--from",
                "2026-11-30T23:30:00",
                "--to",
                "2026-12-01",
            ][..],
            "from=2026-12-01T04%3A30%3A00.000Z&to=2026-12-01T05%3A00%3A00.000Z",
        ),
        (
            &["history", "--from", "2026-11-30T23:30:00", "--utc"],
            "from=2026-11-30T23%3A30%3A00.000Z",
        ),
        (
            &["history", "--from", "2026-11-30T23:30:00Z"],
            "from=2026-11-30T23%3A30%3A00Z",
        ),
        (
            &["at", "2026-11-30 23:30"],
            "at=2026-12-01T04%3A30%3A00.000Z",
        ),
        (
            &["diff", "2026-11-30", "-1h"],
            "from=2026-11-30T05%3A00%3A00.000Z&to=-1h",
        ),
        (
            &["export", "--at", "2026-11-30"],
            "at=2026-11-30T05%3A00%3A00.000Z",
        ),
        (
            &["export", "--at", "2026-11-30", "--utc"],
            "at=2026-11-30T00%3A00%3A00.000Z",
        ),
    ] {
        let done = run(arguments).with(4);
        let zone = if arguments.contains(&"--utc") {
            "2026-11-30 21:00:00.000Z"
        } else {
            "2026-11-30 16:00:00.000-05:00"
        };
        assert!(done.err.contains(zone), "{}", done.err);
        let head = node.asked();
        assert!(head.contains(asked), "{asked} in {head}");
    }
}

#[test]
fn an_explanation_reads_like_one() {
    let document = json!({
        "app": "BILLING", "instance": "billing-1", "present": false, "since": "2026-11-30T21:11:42.123Z",
        "summary": ["It is not there.", "Its lease expired."], "because": entry(12, "evicted"),
        "status": null, "lease": null, "override": null, "hold": null,
        "self_preservation": {"active": false},
        "peers": [{"peer": "eureka-2", "in_sync": true, "lag_records": 3}],
        "next": [{"what": "It would be forgotten.", "at": "2026-11-30T22:11:42.123Z", "in_ms": 3_600_000}],
    });
    let text = document.to_string();
    let node = StandIn::start(move |_, stream| answer(stream, 200, "application/json", &text));
    let done = run(&[
        "explain",
        "BILLING/billing-1",
        "--utc",
        "--server",
        &node.url(),
    ])
    .with(1);
    assert!(
        done.out.contains("It is not there. Its lease expired."),
        "{}",
        done.out
    );
    assert!(
        done.out.contains("in 1h: It would be forgotten."),
        "{}",
        done.out
    );
    assert!(
        done.out
            .contains("eureka-2: knows it as it is here, 3 changes behind")
    );
    let raw = run(&[
        "explain",
        "BILLING/billing-1",
        "--json",
        "--server",
        &node.url(),
    ])
    .with(1);
    assert_eq!(raw.json(), document);
}

#[test]
fn operators_hold_and_release_with_a_reason_and_credentials() {
    let node = StandIn::start(|head, stream| {
        if head.starts_with("DELETE /quarantine/") {
            let problem = json!({"detail": "it is not in quarantine"});
            answer(
                stream,
                404,
                "application/problem+json",
                &problem.to_string(),
            );
        } else {
            let body = json!({"hold": {"until": "2026-11-30T21:21:42.123Z"}, "lifted": 3});
            answer(stream, 200, "application/json", &body.to_string());
        }
    });
    let mut drain = eurekad(&[
        "drain", "A/a b", "--for", "10m", "--reason", "deploy", "--utc",
    ]);
    drain
        .env("EUREKAD_SERVER", node.url())
        .env("EUREKAD_USER", "alice")
        .env("EUREKAD_PASSWORD", "hush");
    let done = Done::of(drain.output().unwrap()).with(0);
    assert_eq!(
        done.out,
        "A/a b is drained until 2026-11-30 21:21:42.123Z\n"
    );
    let asked = node.asked();
    assert!(
        asked.starts_with("POST /drain/apps/A/a%20b?for=10m HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.contains("x-reason: deploy\r\n"), "{asked}");
    assert!(
        asked.contains("authorization: Basic YWxpY2U6aHVzaA==\r\n"),
        "{asked}"
    );
    let done = run(&["release", "A/a", "--server", &node.url()]).with(0);
    assert_eq!(done.out, "A/a is released\n");
    assert!(node.asked().starts_with("DELETE /quarantine/apps/A/a "));
    assert!(node.asked().starts_with("DELETE /drain/apps/A/a "));
    let done = run(&["overrides", "lift", "--app", "A", "--server", &node.url()]).with(0);
    assert_eq!(done.out, "lifted 3 overrides of A\n");
    let drain = ["drain", "A/a", "--for", "1m", "--reason", "a\nb"];
    run(&[&drain[..], &["--server", &node.url()]].concat()).with(2);
    let unsaid = run(&["drain", "A/a", "--server", &node.url()]).with(2);
    assert!(unsaid.err.contains("--for <DURATION>"), "{}", unsaid.err);
}

#[test]
fn a_node_and_its_peers_are_shown() {
    let document = json!({
        "version": "0.1.0", "uptime_ms": 90_061_000, "health": "UP",
        "store": {"file_bytes": 16 << 20, "durability": "sync"},
        "peers": [{"peer": "http://eureka-2:8761/eureka/", "in_sync": false, "lag_records": 7}],
    });
    let text = document.to_string();
    let node = StandIn::start(move |_, stream| answer(stream, 200, "application/json", &text));
    let done = run(&["status", "--server", &node.url()]).with(0);
    for part in [
        "uptime",
        "1d 1h",
        "store file",
        "16.0 MiB",
        "http://eureka-2",
    ] {
        assert!(done.out.contains(part), "{part} in {}", done.out);
    }
    let done = run(&["peers", "--json", "--server", &node.url()]).with(0);
    assert_eq!(done.json(), document["peers"]);
}

#[test]
fn a_registry_goes_from_one_node_to_another_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let stopped = Stopped::new();
    let from = Server::start(&stopped.data, &[]);
    let before = Listing::of(from.port());
    for form in ["ndjson", "json", "xml"] {
        let file = dir.path().join(form);
        let name = file.to_str().unwrap();
        run(&[
            "export",
            "--format",
            form,
            "--output",
            name,
            "--server",
            &url(&from),
        ])
        .with(0);
        assert!(!Path::new(&format!("{name}.part")).exists());
        let data = dir.path().join(format!("to-{form}"));
        let to = Server::start(&data, &["--server.servlet.context-path=/ctx"]);
        let there = format!("{}/ctx", url(&to));
        let dry = run(&["import", name, "--dry-run", "--server", &there]).with(0);
        assert!(
            dry.out.contains("2 instances can be registered"),
            "{}",
            dry.out
        );
        let done = run(&["import", name, "--server", &there]).with(0);
        assert!(done.out.contains("registered 2 instances"), "{}", done.out);
        assert!(
            done.out.contains("set 1 overrides, refused 0"),
            "{}",
            done.out
        );
        let after = Listing::fetch(to.port(), "/ctx/eureka/apps");
        assert_eq!(after.hash, before.hash, "{form}");
        for ((app, id), was) in before.instances() {
            let is = &after.instances()[&(app, id)];
            assert_eq!(
                (&is.status, &is.overridden),
                (&was.status, &was.overridden),
                "{form}"
            );
            assert_eq!(
                (&is.metadata, is.dirty),
                (&was.metadata, was.dirty),
                "{form}"
            );
        }
        let listed = run(&["overrides", "list", "--json", "--server", &there])
            .with(0)
            .json();
        assert_eq!(
            listed,
            json!([{"app": "SHOP", "instance": "shop-1", "status": "OUT_OF_SERVICE",
                    "override": "OUT_OF_SERVICE"}])
        );
    }
}

/// A drain that another node accepted, which had not heard of the quarantine here.
#[test]
fn a_drain_that_waits_behind_a_quarantine_is_exported_and_released_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("from");
    let from = Server::start(&data, &[]);
    let mut connection = Connection::open(from.port()).unwrap();
    let mut ask = |method: &str, target: &str, headers: &[&str], body: &str| {
        connection
            .exchange(&request(method, target, headers, body.as_bytes()))
            .unwrap()
    };
    let drains = ["a", "gone"].map(|id| {
        json!({
            "app": "SHOP", "id": id, "kind": "drain", "remaining_ms": 7_200_000,
            "at": 4_000_000_000_000_u64, "released": false,
        })
    });
    let told = json!({"apps": {}, "holds": drains});
    let register = Registration::new("SHOP", "a").register();
    let mut registering = Connection::open(from.port()).unwrap();
    assert_eq!(registering.exchange(&register).unwrap().status, 204);
    drop(registering);
    for id in ["a", "gone"] {
        let target = format!("/quarantine/apps/SHOP/{id}?for=1h");
        assert_eq!(ask("POST", &target, &[], "").status, 200);
    }
    let headers = ["x-eurekad-node: another"];
    let compared = ask(
        "POST",
        "/eureka/eurekad/compare",
        &headers,
        &told.to_string(),
    );
    assert_eq!(compared.status, 200);
    // Whatever it is asked of, and the ends are the same.
    let holds = |done: &Done| -> Vec<[Value; 4]> {
        let lines = done.lines().into_iter();
        lines
            .filter(|line| !line["hold"].is_null())
            .map(|line| {
                let (hold, instance) = (&line["hold"], &line["instance"]["instanceId"]);
                let id = if instance.is_null() {
                    &hold["id"]
                } else {
                    instance
                };
                [id, &hold["kind"], &hold["until"], &hold["drain"]["until"]].map(Clone::clone)
            })
            .collect()
    };
    let served = run(&["export", "--server", &url(&from)]).with(0);
    let told = holds(&served);
    assert_eq!(told.len(), 2, "{told:?}");
    for (hold, id) in told.iter().zip(["a", "gone"]) {
        assert_eq!((&hold[0], &hold[1]), (&json!(id), &json!("quarantine")));
        assert!(hold[3].is_string(), "{hold:?}");
    }
    let then = run(&["export", "--at", "now", "--server", &url(&from)]).with(0);
    assert_eq!(holds(&then), told[..1], "of those that are registered");
    let to = Server::start(&dir.path().join("to"), &[]);
    let done = run_with_input(&["import", "--server", &url(&to)], &served.out).with(0);
    let note = "SHOP/a, SHOP/gone: in quarantine but not drained behind it";
    assert!(done.err.contains(note), "{}", done.err);

    let done = run(&["release", "SHOP/a", "--server", &url(&from)]).with(0);
    assert_eq!(done.out, "SHOP/a is released\n");
    for kind in ["quarantine", "drain"] {
        let target = format!("/{kind}/apps/SHOP/a");
        assert_eq!(ask("GET", &target, &[], "").status, 404, "{kind}");
    }
    from.terminate();
    let (status, log) = from.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    let stored = run(&["export", "--data-dir", data.to_str().unwrap()]).with(0);
    assert_eq!(holds(&stored), told[1..]);
}

#[test]
fn drains_and_quarantines_keep_their_end_on_the_way_to_another_node() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("from");
    let from = Server::start(&data, &[]);
    let mut connection = Connection::open(from.port()).unwrap();
    for id in ["drained", "held", "out", "up"] {
        let bytes = Registration::new("SHOP", id).register();
        assert_eq!(connection.exchange(&bytes).unwrap().status, 204);
    }
    for (method, target) in [
        ("POST", "/drain/apps/SHOP/drained?for=1h"),
        ("POST", "/quarantine/apps/SHOP/held?for=2h"),
        ("POST", "/quarantine/apps/SHOP/gone?for=2h"),
        ("PUT", "/eureka/apps/SHOP/out/status?value=OUT_OF_SERVICE"),
    ] {
        let answer = connection
            .exchange(&request(method, target, &[], b""))
            .unwrap();
        assert_eq!(answer.status, 200, "{target}");
    }
    let holds = |server: &Server| -> Vec<(String, String, String)> {
        let mut connection = Connection::open(server.port()).unwrap();
        let listed = connection
            .exchange(&request("GET", "/overrides", &[], b""))
            .unwrap()
            .json();
        let mut all: Vec<_> = listed["overrides"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
                let hold = &one["hold"];
                (
                    text(&one["instance"]),
                    text(&hold["kind"]),
                    text(&hold["until"]),
                )
            })
            .collect();
        all.sort();
        all
    };
    let before = holds(&from);
    assert_eq!(before.len(), 4, "{before:?}");
    let import = |name: &str, text: &str| {
        let to = Server::start(&dir.path().join(name), &[]);
        let done = run_with_input(&["import", "--server", &url(&to)], text).with(0);
        (to, done)
    };
    let kept = |to: &Server| {
        let after = holds(to);
        assert_eq!(after.len(), 4, "{after:?}");
        for (was, is) in before.iter().zip(&after) {
            assert_eq!((&was.0, &was.1), (&is.0, &is.1));
        }
    };
    let served = run(&["export", "--server", &url(&from)]).with(0);
    let (to, done) = import("to-served", &served.out);
    assert!(
        done.out.contains("registered 4 instances") && done.out.contains("set 1 overrides"),
        "{}",
        done.out
    );
    assert!(
        done.out.contains("put back 3 drains and quarantines"),
        "{}",
        done.out
    );
    kept(&to);
    drop(to);

    // A form that cannot say it says so, on both ways.
    let plain = run(&["export", "--format", "json", "--server", &url(&from)]).with(0);
    assert!(
        plain.err.contains("3 drains and quarantines"),
        "{}",
        plain.err
    );
    let (_to, done) = import("to-json", &plain.out);
    assert!(
        done.err.contains("the overrides have no end"),
        "{}",
        done.err
    );
    let then = run(&["export", "--at", "now", "--server", &url(&from)]).with(0);
    let held = |done: &Done| -> Vec<String> {
        let lines = done.lines().into_iter();
        lines
            .filter(|line| !line["instance"].is_null() && !line["hold"].is_null())
            .map(|line| line["instance"]["instanceId"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(held(&then), ["drained", "held"]);

    drop(connection);
    from.terminate();
    let (status, log) = from.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    let stored = run(&["export", "--data-dir", data.to_str().unwrap()]).with(0);
    let (to, _) = import("to-stored", &stored.out);
    kept(&to);
}

#[test]
fn an_import_tells_what_it_could_not_take() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    let good = json!({"instance": Registration::new("A", "a").document()});
    let done = run_with_input(
        &["import", "--server", &url(&server)],
        &format!("{good}\n{{\"instance\":{{\"app\":\"A\",\"hostName\":\"h\"}}}}\nnonsense\n"),
    )
    .with(2);
    assert!(done.out.contains("registered 1 instances"), "{}", done.out);
    assert!(done.out.contains("refused 2"), "{}", done.out);
    assert!(done.err.contains("line 3"), "{}", done.err);
    for bad in ["", "nonsense", "<html></html>"] {
        run_with_input(&["import", "--server", &url(&server)], bad).with(2);
    }
    run(&["import", "/nowhere/file", "--server", &url(&server)]).with(2);
    let nobody = run_with_input(
        &["import", "--server", "http://127.0.0.1:1"],
        &good.to_string(),
    );
    nobody.with(3);
}

#[test]
fn an_import_says_what_a_node_that_is_full_said() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &["--eurekad.max-instances=1"]);
    let lines = ["a", "b"].map(|id| {
        let document = Registration::new("A", id).document();
        json!({ "instance": document }).to_string()
    });
    let done = run_with_input(
        &["import", "--server", &url(&server), "--concurrency", "1"],
        &lines.join("\n"),
    )
    .with(3);
    let is_told = done.err.contains("A/b") && done.err.contains("eurekad.max-instances");
    assert!(is_told, "{}", done.err);
}

#[test]
fn the_time_before_a_node_was_told_of_anything_was_empty() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    let mut connection = Connection::open(server.port()).unwrap();
    let bytes = Registration::new("SHOP", "shop-1").register();
    assert_eq!(connection.exchange(&bytes).unwrap().status, 204);
    let check = |from: &[&str; 2]| {
        let at = run(&[&["at", "-1h"], &from[..]].concat()).with(0);
        assert!(at.out.is_empty(), "{}", at.out);
        assert!(at.err.contains("its log begins at"), "{}", at.err);
        let export = run(&[&["export", "--at", "-1h"], &from[..]].concat()).with(0);
        assert!(export.out.is_empty(), "{}", export.out);
        assert!(export.err.contains("its log begins at"), "{}", export.err);
        let diff = run(&[&["diff", "-1h"], &from[..]].concat()).with(0);
        assert!(diff.out.contains("SHOP/shop-1"), "{}", diff.out);
        assert!(diff.err.contains("its log begins at"), "{}", diff.err);
        let diff = run(&[&["diff", "-1h", "--json"], &from[..]].concat()).with(0);
        assert_eq!(diff.json()["complete"], true);
        assert!(diff.json()["note"].is_string(), "{}", diff.out);
    };
    check(&["--server", &url(&server)]);
    server.terminate();
    server.wait();
    check(&["--data-dir", data.to_str().unwrap()]);
}

#[test]
fn a_stopped_store_answers_questions_about_its_past() {
    let stopped = Stopped::new();
    let dir = stopped.dir();
    let all = run(&["history", "--data-dir", dir, "--ndjson", "--oldest-first"]).with(0);
    let kinds: Vec<String> = all
        .lines()
        .iter()
        .map(|entry| entry["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "registered",
            "registered",
            "registered",
            "override-set",
            "metadata-updated",
            "cancelled"
        ]
    );
    let one = run(&["history", "shop/shop-1", "--data-dir", dir, "--json"])
        .with(0)
        .json();
    assert_eq!(one["complete"], true);
    assert_eq!(one["entries"][0]["kind"], "override-set");
    assert_eq!(one["entries"][0]["reason"], "deploy 4711");
    assert_eq!(
        one["entries"][0]["changes"]["status"],
        json!({"before": "UP", "after": "OUT_OF_SERVICE"})
    );
    let table = run(&[
        "history",
        "--data-dir",
        dir,
        "--reason",
        "DEPLOY",
        "--limit",
        "1",
    ])
    .with(0);
    assert!(
        table.out.contains("cancelled") && table.err.contains("there is more"),
        "{table:?}"
    );
    assert!(
        run(&["history", "NOBODY", "--data-dir", dir])
            .with(0)
            .out
            .is_empty()
    );

    let at = run(&["at", "--lsn", "3", "--data-dir", dir, "--json"])
        .with(0)
        .json();
    assert_eq!(at["applications"]["apps__hashcode"], "UP_3_");
    let at = run(&["at", "now", "--app", "SHOP", "--data-dir", dir]).with(0);
    assert!(
        at.out.contains("shop-2") && !at.out.contains("shop-3"),
        "{}",
        at.out
    );
    assert!(
        at.err.contains("2 instances of 1 application"),
        "{}",
        at.err
    );
    run(&["at", "now", "--app", "NOBODY", "--data-dir", dir]).with(1);
    assert!(
        run(&["at", "now", "--xml", "--data-dir", dir])
            .with(0)
            .out
            .contains("<applications>")
    );
    for bad in ["tomorrow", "2026-13-01", "+5m"] {
        run(&["at", bad, "--data-dir", dir]).with(2);
    }
    run(&["at", "--lsn", "999999", "--data-dir", dir]).with(2);

    run(&["diff", "now", "--exit-code", "--data-dir", dir]).with(0);
    let begin = all.lines()[0]["at"].as_str().unwrap().to_owned();
    let diff = run(&["diff", &begin, "--exit-code", "--json", "--data-dir", dir])
        .with(1)
        .json();
    assert_eq!(diff["to"]["lsn"], 6);
    let diff = run(&["diff", &begin, "--data-dir", dir]).with(0);
    assert!(diff.out.contains("SHOP/shop-2"), "{}", diff.out);
    let early = run(&["diff", "-1d", "--data-dir", dir]).with(0);
    assert!(early.err.contains("its log begins at"), "{}", early.err);

    // The server takes it back as if nobody had looked.
    let server = Server::start(&stopped.data, &[]);
    assert_eq!(Listing::of(server.port()).instances().len(), 2);
    assert!(!server.log().contains(" lost"), "{}", server.log());
}

#[test]
fn a_running_node_answers_questions_about_its_past() {
    let stopped = Stopped::new();
    let server = Server::start(&stopped.data, &["--server.servlet.context-path=/ctx"]);
    let there = format!("{}/ctx/eureka", url(&server));
    let ask = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend(["--server", &there]);
        run(&all)
    };
    let offline = |kind: &str| {
        let page = ask(&["history", "--json", "--kind", kind]).with(0).json();
        page["entries"].as_array().unwrap().clone()
    };
    assert_eq!(offline("registered").len(), 3);
    assert_eq!(offline("override-set")[0]["reason"], "deploy 4711");
    let lines = ask(&["history", "--all", "--ndjson", "--oldest-first"])
        .with(0)
        .lines();
    let lsns: Vec<u64> = lines
        .iter()
        .map(|entry| entry["lsn"].as_u64().unwrap())
        .collect();
    assert_eq!(lsns[..6], [1, 2, 3, 4, 5, 6]);
    // However many there are, they look the same.
    let all = ask(&["history", "--all"]).with(0);
    assert!(all.out.starts_with("TIME "), "{}", all.out);
    for limit in ["1000", "2000"] {
        assert_eq!(ask(&["history", "--limit", limit]).with(0).out, all.out);
    }
    let table = ask(&["history", "SHOP/shop-1"]).with(0);
    assert!(
        table.out.contains("status UP→OUT_OF_SERVICE"),
        "{}",
        table.out
    );
    assert_eq!(table.out.lines().count(), 3, "{}", table.out);
    let wrong = ask(&["history", "--kind", "vanished"]).with(2);
    assert!(wrong.err.contains("vanished"), "{}", wrong.err);

    let at = ask(&["at", "--lsn", "3", "--json"]).with(0).json();
    assert_eq!(at["applications"]["apps__hashcode"], "UP_3_");
    assert!(
        ask(&["at", "now", "--xml"])
            .with(0)
            .out
            .contains("<applications>")
    );
    assert!(
        ask(&["at", "now"])
            .with(0)
            .err
            .contains("2 instances of 1 application")
    );
    let early = ask(&["at", "-1d"]).with(0);
    assert!(early.err.contains("its log begins at"), "{}", early.err);
    ask(&["at", "yesterday"]).with(2);
    ask(&["diff", "now", "--exit-code"]).with(0);
    let begin = lines[0]["at"].as_str().unwrap();
    let diff = ask(&["diff", begin, "--exit-code"]).with(1);
    assert!(diff.out.contains("SHOP/shop-2"), "{}", diff.out);
    let before = ask(&["export", "--at", begin]).with(0).lines();
    assert!(!before.is_empty() && before.iter().all(|line| line["instance"].is_object()));

    let watched = ask(&[
        "watch",
        "--from",
        "1",
        "--kind",
        "cancelled",
        "--count",
        "1",
        "--json",
    ]);
    assert_eq!(watched.with(0).lines()[0]["instance"], "shop-3");
    let status = ask(&["status"]).with(0);
    assert!(
        status.out.contains("instances") && status.out.contains("uptime"),
        "{}",
        status.out
    );
    assert_eq!(ask(&["status", "--json"]).with(0).json()["instances"], 2);
    assert!(ask(&["peers"]).with(0).err.contains("no peers"));
}

#[test]
fn a_running_node_keeps_its_store_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &[]);
    let name = data.to_str().unwrap();
    let done = run(&["history", "--data-dir", name]).with(3);
    assert!(
        done.err.contains("--server instead of --data-dir"),
        "{}",
        done.err
    );
    for command in [
        &["check"][..],
        &["stats"],
        &["compact"],
        &["repair", "--yes"],
    ] {
        let arguments = [&["store"], command, &["--data-dir", name]].concat();
        let done = run(&arguments).with(3);
        assert!(done.err.contains("a running eurekad"), "{}", done.err);
        // They have no such option.
        assert!(!done.err.contains("--server"), "{}", done.err);
    }
    server.assert_well();
}

#[test]
fn a_port_that_cannot_be_opened_is_said_with_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", dir.path().join("data").display());
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = format!("--server.port={}", taken.local_addr().unwrap().port());
    let done = run(&[&data, &port]).with(1);
    assert!(
        done.err.contains("another program listens on port"),
        "{}",
        done.err
    );
    // An address for documentation: nobody's.
    let done = run(&[&data, "--server.port=0", "--server.address=192.0.2.1"]).with(1);
    assert!(
        done.err.contains("192.0.2.1 is no address of this machine"),
        "{}",
        done.err
    );
    assert!(!done.err.contains("another program"), "{}", done.err);
}

#[test]
fn where_there_is_no_store_none_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().to_str().unwrap();
    for arguments in [
        &["history"][..],
        &["at", "now"],
        &["export"],
        &["store", "check"],
        &["store", "stats"],
        &["store", "compact"],
        &["store", "repair", "--yes"],
    ] {
        let mut all = arguments.to_vec();
        all.extend(["--data-dir", name]);
        let done = run(&all).with(3);
        assert!(done.err.contains("there is no store in"), "{}", done.err);
    }
    run(&["store", "check", "--data-dir", "/nowhere"]).with(3);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Every file below a directory with its bytes and the time of its last change.
fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(snapshot(&path));
        } else {
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            all.push((path.clone(), fs::read(&path).unwrap(), changed));
        }
    }
    all.sort();
    all
}

#[test]
fn a_check_finds_damage_changes_nothing_and_a_repair_ends_it() {
    let stopped = Stopped::new();
    let dir = stopped.dir();
    let before = snapshot(&stopped.data);
    let sound = run(&["store", "check", "--data-dir", dir]).with(0);
    assert!(
        sound.out.contains(": sound (6 records, lsn 1 to 6"),
        "{}",
        sound.out
    );
    assert_eq!(
        run(&["store", "check", "--data-dir", dir, "--json"])
            .with(0)
            .json()["sound"],
        true
    );
    assert_eq!(snapshot(&stopped.data), before);
    run(&["history", "--data-dir", dir]).with(0);
    run(&["store", "stats", "--data-dir", dir]).with(0);
    run(&["export", "--history", "--data-dir", dir]).with(0);
    let done = run(&["store", "repair", "--dry-run", "--data-dir", dir]).with(0);
    assert!(done.out.contains("nothing to repair"), "{}", done.out);
    run(&["store", "repair", "--data-dir", dir]).with(2);
    assert_eq!(snapshot(&stopped.data), before);

    // A log without its pages, and no checkpoint to stand in: the watermark knows that more was there.
    fs::write(stopped.data.join("log").join("db"), vec![0; 1 << 16]).unwrap();
    for entry in fs::read_dir(&stopped.data).unwrap() {
        let path = entry.unwrap().path();
        if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("checkpoint-")
        {
            fs::remove_file(path).unwrap();
        }
    }
    let damaged = snapshot(&stopped.data);
    let done = run(&["store", "check", "--data-dir", dir]).with(1);
    assert!(
        done.out.contains("SEVERITY") && done.out.contains("repair --mode"),
        "{}",
        done.out
    );
    let report = run(&["store", "check", "--data-dir", dir, "--json"])
        .with(1)
        .json();
    assert_eq!(report["sound"], false);
    assert_eq!(report["findings"][0]["severity"], "state");
    let done = run(&["history", "--data-dir", dir]).with(1);
    assert!(done.err.contains("eurekad store check"), "{}", done.err);
    assert!(!done.err.contains("panicked"), "{}", done.err);
    run(&["diff", "-1m", "--data-dir", dir]).with(1);
    run(&["export", "--history", "--data-dir", dir]).with(1);
    run(&["store", "stats", "--data-dir", dir]).with(0);
    assert_eq!(snapshot(&stopped.data), damaged, "reading changes nothing");
    let dry = run(&[
        "store",
        "repair",
        "--mode",
        "move-aside",
        "--dry-run",
        "--data-dir",
        dir,
    ])
    .with(0);
    assert!(dry.out.contains("nothing has been changed"), "{}", dry.out);
    let done = run(&[
        "store",
        "repair",
        "--mode",
        "move-aside",
        "--yes",
        "--data-dir",
        dir,
    ])
    .with(0);
    assert!(
        done.out.contains("the server can be started"),
        "{}",
        done.out
    );
    let after = run(&["store", "check", "--data-dir", dir]).with(0);
    assert!(after.out.contains("quarantine-"), "{}", after.out);
    let server = Server::start(&stopped.data, &[]);
    assert_eq!(Listing::of(server.port()).instances().len(), 0);
}

#[test]
fn a_check_without_space_or_place_for_its_copy_says_so() {
    let stopped = Stopped::new();
    let arguments = [
        "store",
        "check",
        "--data-dir",
        stopped.dir(),
        "--temp-dir",
        "/nowhere/at/all",
    ];
    let done = run(&arguments).with(3);
    assert!(done.err.contains("/nowhere/at/all"), "{}", done.err);
}

#[test]
fn a_store_is_counted_and_shrunk() {
    let stopped = Stopped::new();
    let dir = stopped.dir();
    let stats = run(&["store", "stats", "--data-dir", dir, "--json"])
        .with(0)
        .json();
    assert_eq!(stats["records"], 6);
    assert_eq!(stats["kinds"]["registered"]["records"], 3);
    assert!(
        stats["segments"][0]["earliest"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    let table = run(&["store", "stats", "--data-dir", dir]).with(0);
    for part in [
        "SEGMENT",
        "KIND",
        "override-set",
        "CHECKPOINT",
        "oldest change",
    ] {
        assert!(table.out.contains(part), "{part} in {}", table.out);
    }
    let done = run(&["store", "compact", "--data-dir", dir]).with(0);
    assert!(done.out.contains("before"), "{}", done.out);
    let again = run(&["store", "stats", "--data-dir", dir, "--json"])
        .with(0)
        .json();
    assert_eq!(again["records"], 6);
}

#[test]
fn a_history_moves_to_another_directory_with_its_positions() {
    let stopped = Stopped::new();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("history.ndjson");
    let name = file.to_str().unwrap();
    run(&[
        "export",
        "--history",
        "--data-dir",
        stopped.dir(),
        "--output",
        name,
    ])
    .with(0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.lines()
            .next()
            .unwrap()
            .starts_with("{\"eurekad\":{\"what\":\"history\",\"form\":1,")
    );

    let new = place.path().join("new");
    let new_name = new.to_str().unwrap();
    let done = run(&["import", name, "--history", "--data-dir", new_name]).with(0);
    assert!(
        done.out
            .contains("6 records up to lsn 6, 2 leases, 1 overrides"),
        "{}",
        done.out
    );
    run(&["store", "check", "--data-dir", new_name]).with(0);
    let arguments = ["--ndjson", "--oldest-first", "--data-dir"];
    let history = |dir: &str| {
        let mut all = vec!["history"];
        all.extend(arguments);
        all.push(dir);
        run(&all).with(0).out
    };
    assert_eq!(history(new_name), history(stopped.dir()));
    let again = run(&["import", name, "--history", "--data-dir", new_name]).with(2);
    assert!(again.err.contains("holds a store already"), "{}", again.err);

    let old = Server::start(&stopped.data, &[]);
    let server = Server::start(&new, &[]);
    assert_eq!(
        Listing::of(server.port()).instances(),
        Listing::of(old.port()).instances()
    );
    let mut connection = Connection::open(server.port()).unwrap();
    let bytes = Registration::new("SHOP", "shop-9").register();
    assert_eq!(connection.exchange(&bytes).unwrap().status, 204);
    assert_eq!(support::get_json(server.port(), "/node")["lsn"], 7);
    server.kill();
    let server = Server::start(&new, &[]);
    assert_eq!(Listing::of(server.port()).instances().len(), 3);
}

#[test]
fn a_history_that_is_cut_off_or_changed_leaves_nothing_behind() {
    let stopped = Stopped::new();
    let place = tempfile::tempdir().unwrap();
    let new = place.path().join("new");
    let new_name = new.to_str().unwrap();
    let whole = run(&["export", "--history", "--data-dir", stopped.dir()])
        .with(0)
        .out;
    let lines: Vec<&str> = whole.lines().collect();
    let without = |at: usize| {
        let mut kept = lines.clone();
        kept.remove(at);
        kept.join("\n")
    };
    let last = lines.len() - 1;
    let swapped = [lines[0], lines[2], lines[1]].join("\n");
    for bad in [
        String::new(),
        "nonsense".to_owned(),
        whole[..whole.len() / 2].to_owned(),
        without(0),
        without(2),
        without(last),
        without(last - 1),
        swapped,
        whole.replace("\"form\":1", "\"form\":9"),
        whole.replace("\"kind\":\"cancelled\"", "\"kind\":\"vanished\""),
    ] {
        let done = run_with_input(&["import", "--history", "--data-dir", new_name], &bad).with(2);
        assert!(done.out.is_empty(), "{}", done.out);
        let left = fs::read_dir(&new).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{bad:.80}: {}", done.err);
    }
    let dry = ["import", "--history", "--dry-run", "--data-dir", new_name];
    run_with_input(&dry, &whole).with(0);
    assert_eq!(fs::read_dir(&new).unwrap().count(), 0);
}

#[test]
fn a_stopped_registry_is_exported_as_it_was() {
    let stopped = Stopped::new();
    let dir = stopped.dir();
    let lines = run(&["export", "--data-dir", dir]).with(0).lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["instance"]["status"], "OUT_OF_SERVICE");
    assert_eq!(lines[0]["reported"], "UP");
    let list = run(&["export", "--format", "json", "--data-dir", dir])
        .with(0)
        .json();
    assert_eq!(Listing::parse(&list).instances().len(), 2);
    let xml = run(&["export", "--format", "xml", "--data-dir", dir]).with(0);
    assert!(
        xml.out.contains("<instanceId>shop-1</instanceId>"),
        "{}",
        xml.out
    );
}

#[test]
fn completions_and_pages_are_well_formed() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).with(0).out;
        assert!(
            script.contains("quarantine") && script.contains("serve"),
            "{shell}"
        );
        if shell == "bash" {
            let mut bash = Command::new("bash")
                .arg("-n")
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            bash.stdin
                .take()
                .unwrap()
                .write_all(script.as_bytes())
                .unwrap();
            let checked = bash.wait_with_output().unwrap();
            assert!(
                checked.status.success(),
                "{}",
                String::from_utf8_lossy(&checked.stderr)
            );
        }
    }
    run(&["completions", "csh"]).with(2);
    let page = run(&["man"]).with(0).out;
    assert!(page.contains(".TH eurekad 1"), "{page:.300}");
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    run(&["man", "--dir", pages.to_str().unwrap()]).with(0);
    for name in ["eurekad.1", "eurekad-history.1", "eurekad-store-check.1"] {
        let page = fs::read_to_string(pages.join(name)).unwrap();
        assert!(page.contains(".SH NAME"), "{name}");
    }
}

#[test]
fn a_server_that_stops_answering_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let done = run(&["status", "--timeout", "1", "--server", &address]).with(3);
    assert!(done.err.contains("no answer within 1 s"), "{}", done.err);
    // The connection was made by the system; nobody ever took it.
    wait_for("the listener", || silent.accept().ok());
}
