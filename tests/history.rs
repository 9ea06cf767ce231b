//! The history over HTTP, on a store with a million records that another life left: questions cost
//! their answers, pages add up, and bad input is told what is wrong with it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::sync::Arc;

use eurekad::history::times;
use eurekad::registry::change::{
    Actor, Change, ChangeKind, HoldEffect, LeaseImage, Origin, OverrideEffect, Record,
};
use eurekad::registry::status::Status;
use eurekad::store::{CheckpointLease, CheckpointSource, Durability, StoreOptions, testing};
use eurekad::types::{AppName, InstanceId, Lsn, Millis};
use serde_json::Value;
use support::http::request;
use support::{Answer, Connection, Registration, Server, get_json, wait_for};

const RECORDS: u64 = 1_000_000;
const INSTANCES: u64 = 1_000;
const APPS: u64 = 20;
/// Wall time of the first record, ms, and what passes from one to the next.
const START: u64 = 1_700_000_000_000;
const STEP: u64 = 50;

fn app_of(instance: u64) -> String {
    format!("APP-{}", instance % APPS)
}

/// The lease of an instance, small: a million are written.
fn image(instance: u64, status: Status) -> LeaseImage {
    let (app, id) = (app_of(instance), format!("host-{instance}"));
    let mut lease = testing::lease(&app, &id);
    let mut slim = (*lease.instance).clone();
    slim.status = status;
    slim.overridden_status = status;
    slim.home_page_url = None;
    slim.status_page_url = None;
    slim.health_check_url = None;
    slim.metadata = std::iter::empty().collect();
    lease.instance = Arc::new(slim);
    // Outlives the test.
    lease.duration_ms = 86_400_000;
    lease
}

/// Writes the log: every instance is registered, then set out of service and back, in turns.
fn write_log(dir: &Path, records: u64) {
    let options = StoreOptions::new(dir);
    let mut opened = eurekad::store::open(&options, Millis(START), &mut |_| {}).unwrap();
    let statuses = [Status::Up, Status::OutOfService];
    let images: Vec<[LeaseImage; 2]> = (0..INSTANCES)
        .map(|instance| statuses.map(|status| image(instance, status)))
        .collect();
    let names: Vec<(AppName, InstanceId)> = (0..INSTANCES)
        .map(|instance| {
            let id = InstanceId::new(&format!("host-{instance}"));
            (AppName::new(&app_of(instance)), id)
        })
        .collect();
    let actor = Actor {
        address: Some("10.0.0.1".into()),
        ..Actor::default()
    };
    let record = |lsn: u64| {
        let instance = (lsn - 1) % INSTANCES;
        let round = (lsn - 1) / INSTANCES;
        let place = usize::try_from(instance).unwrap();
        let (app, id) = names[place].clone();
        let status = statuses[usize::try_from(round % 2).unwrap()];
        let is_told_in_full = round == 0 || round % 20 == 19;
        let (kind, override_effect) = match round {
            0 => (ChangeKind::Registered, OverrideEffect::Keep),
            _ if is_told_in_full => (ChangeKind::OverrideSet, OverrideEffect::Set(status)),
            // As small as a record can be: this is about their number.
            _ => (ChangeKind::OverrideForgotten, OverrideEffect::Remove),
        };
        let image = &images[place][usize::try_from(round % 2).unwrap()];
        Arc::new(Record {
            lsn: Lsn(lsn),
            at: Millis(START + lsn * STEP),
            origin: Origin::Operator,
            actor: actor.clone(),
            change: Change {
                app,
                id,
                kind,
                lease: is_told_in_full.then(|| image.clone()),
                override_effect,
                hold_effect: HoldEffect::Keep,
                visible: true,
            },
        })
    };
    let mut next = 1;
    while next <= records {
        let batch: Vec<_> = (next..=records.min(next + 9_999)).map(record).collect();
        opened.store.append(&batch).unwrap();
        opened.store.commit(Durability::Flush).unwrap();
        next += 10_000;
    }
    // Two checkpoints, so that a start replays next to nothing.
    for lsn in [records - 1, records] {
        let round = (lsn - 1) / INSTANCES;
        let mut leases = (0..INSTANCES).map(|instance| {
            let place = usize::try_from(instance).unwrap();
            let own = if instance <= (lsn - 1) % INSTANCES {
                round
            } else {
                round - 1
            };
            CheckpointLease {
                app: names[place].0.clone(),
                id: names[place].1.clone(),
                lsn: Lsn(own * INSTANCES + instance + 1),
                image: images[place][usize::try_from(own % 2).unwrap()].clone(),
            }
        });
        let source = CheckpointSource {
            lsn: Lsn(lsn),
            at: Millis(START),
            expected_clients: INSTANCES,
            leases: &mut leases,
            overrides: &mut std::iter::empty(),
            holds: &mut std::iter::empty(),
        };
        opened.reader.write_checkpoint(source).unwrap();
    }
    opened.store.close(Millis(START)).unwrap();
}

fn ask(port: u16, target: &str, headers: &[&str]) -> Answer {
    let mut all = vec!["Connection: close"];
    all.extend(headers);
    Connection::open(port)
        .and_then(|mut connection| connection.exchange(&request("GET", target, &all, b"")))
        .unwrap_or_else(|error| panic!("GET {target}: {error}"))
}

fn page(port: u16, target: &str) -> Value {
    let answer = ask(port, target, &[]);
    assert_eq!(answer.status, 200, "GET {target}: {:?}", answer.json());
    answer.json()
}

fn lsns(entries: &[Value]) -> Vec<u64> {
    let lsn = |entry: &Value| entry["lsn"].as_u64().expect("an LSN");
    entries.iter().map(lsn).collect()
}

fn entries(page: &Value) -> Vec<Value> {
    page["entries"].as_array().expect("entries").clone()
}

/// All pages of a question.
fn pages(port: u16, target: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = page(port, &format!("{target}&cursor={cursor}"));
        all.extend(entries(&page));
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return all,
        }
    }
}

fn lines(answer: &Answer) -> Vec<Value> {
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "half a line");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// LSNs of an instance of the long log, oldest first.
fn lsns_of(instance: u64) -> Vec<u64> {
    (0..RECORDS / INSTANCES)
        .map(|round| round * INSTANCES + instance + 1)
        .collect()
}

fn newest(mut lsns: Vec<u64>) -> Vec<u64> {
    lsns.reverse();
    lsns
}

#[test]
fn a_million_records_are_asked_at_the_cost_of_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    write_log(&data, RECORDS);
    // The records are years old.
    let keep = "--eurekad.history-max-age=0";
    let mut server = Server::start(&data, &["--eurekad.durability=process", keep]);
    let port = server.port();
    wait_for_index(port);

    an_instance_costs_its_answer(port);
    times_and_kinds_narrow_the_answer(port);
    lines_are_the_pages(port);
    bad_input_is_told_what_is_wrong(port);
    cursors_are_for_their_own_question(port);
    streams_have_a_bound_and_end_with_their_client(port);

    let node = get_json(port, "/node");
    assert_eq!(node["oldest_lsn"], 1);
    assert_eq!(node["oldest"], "2023-11-14T22:13:20.050Z");
    assert_eq!(node["instances"], INSTANCES);
    assert_eq!(node["applications"], APPS);
    assert_eq!(node["health"], "UP");
    server.assert_well();
    the_command_line_says_the_same(server, &data);
}

/// Of the running node, and of its store once it is stopped.
fn the_command_line_says_the_same(server: Server, data: &Path) {
    let url = format!("http://127.0.0.1:{}", server.port());
    let told = |source: &[&str]| {
        let question = ["history", "APP-7/host-7", "--all", "--ndjson"];
        command(&[&question[..], source].concat())
    };
    let past = |source: &[&str]| {
        let moment = ["at", "--lsn", "500007", "--app", "APP-7", "--json"];
        let document: Value =
            serde_json::from_str(&command(&[&moment[..], source].concat())).unwrap();
        document["applications"]["application"][0]["instance"].clone()
    };
    let served = ["--server", url.as_str()];
    let (history, moment) = (told(&served), past(&served));
    let entries: Vec<Value> = history
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lsns(&entries), newest(lsns_of(7)));
    let instances = moment.as_array().unwrap();
    assert_eq!(instances.len() as u64, INSTANCES / APPS);
    server.terminate();
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    let stored = ["--data-dir", data.to_str().unwrap()];
    assert!(
        told(&stored) == history,
        "the stopped store tells another history"
    );
    assert_eq!(past(&stored), moment);
}

/// What a command writes.
fn command(arguments: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_eurekad"))
        .args(arguments)
        .env_remove("EUREKAD_SERVER")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

/// The index is made beside everything else, within minutes at the most.
fn wait_for_index(port: u16) {
    for _ in 0..20_u32 {
        let looks = std::time::Instant::now();
        while looks.elapsed() < support::PATIENCE / 2 {
            let store = get_json(port, "/node")["store"].clone();
            let segments = store["segments"].as_u64().unwrap();
            let indexed = store["history"]["index"]["segments"].as_u64().unwrap();
            let growing = store["history"]["index"]["growing_records"].as_u64();
            if indexed + 1 >= segments && growing > Some(0) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    panic!("waited in vain for the index");
}

fn an_instance_costs_its_answer(port: u16) {
    let target = "/history/apps/app-7/host-7";
    let answer = ask(port, target, &[]);
    let looked_at: u64 = answer
        .header("x-eurekad-looked-at")
        .unwrap()
        .parse()
        .unwrap();
    let first = answer.json();
    let expected = newest(lsns_of(7));
    assert_eq!(lsns(&entries(&first)), expected[..100]);
    assert!(looked_at <= 110, "{looked_at} records for 100 entries");
    assert_eq!(first["complete"], true);
    assert_eq!(first["oldest_lsn"], 1);

    let all = pages(port, &format!("{target}?limit=300"));
    assert_eq!(lsns(&all), expected);
    let last = all.last().unwrap();
    assert_eq!(last["kind"], "registered");
    assert_eq!(last["changes"]["present"]["after"], true);
    let oldest_first = pages(port, &format!("{target}?limit=777&order=oldest"));
    assert_eq!(lsns(&oldest_first), lsns_of(7));
    let turned: Vec<Value> = oldest_first.into_iter().rev().collect();
    assert_eq!(turned, all, "an entry depends on the order");

    let nobody = ask(port, "/history/apps/app-7/nobody", &[]);
    assert_eq!(nobody.header("x-eurekad-looked-at"), Some("0"));
    assert_eq!(entries(&nobody.json()), [] as [Value; 0]);
    assert_eq!(nobody.json()["next"], Value::Null);

    // The application: every twentieth record.
    let of_app = page(port, "/history/apps/APP-3?limit=1000");
    let expected: Vec<u64> = (0..1000).map(|n| RECORDS - 16 - n * APPS).collect();
    assert_eq!(lsns(&entries(&of_app)), expected);
}

fn times_and_kinds_narrow_the_answer(port: u16) {
    let middle = RECORDS / 2;
    let moment = |lsn: u64| START + lsn * STEP;
    let (from, to) = (moment(middle), moment(middle + 100));
    let expected: Vec<u64> = (middle..middle + 100).collect();
    let span = format!("from={from}&to={to}");
    let all = page(port, &format!("/history?{span}&limit=200&order=oldest"));
    assert_eq!(lsns(&entries(&all)), expected);
    assert_eq!(all["next"], Value::Null);
    let words = [from, to].map(|at| times::format(Millis(at)));
    let span_in_words = format!("from={}&to={}", words[0], words[1]);
    let all = page(port, &format!("/history?{span_in_words}&limit=200"));
    assert_eq!(lsns(&entries(&all)), newest(expected));
    let one = page(port, &format!("/history/apps/app-7/host-507?{span}"));
    assert_eq!(lsns(&entries(&one)), [] as [u64; 0]);
    let one = page(port, &format!("/history/apps/app-7/host-27?{span}"));
    assert_eq!(lsns(&entries(&one)), [middle + 28]);

    let registered = pages(port, "/history/apps/app-9?kind=registered&limit=7");
    let expected: Vec<u64> = (0..INSTANCES / APPS).map(|n| n * APPS + 10).collect();
    assert_eq!(lsns(&registered), newest(expected));
    for (filter, count) in [
        ("origin=operator", 5),
        ("origin=peer", 0),
        ("address=10.0.0.0/8", 5),
        ("address=192.168.0.0/16", 0),
        ("reason=OVERRIDE", 5),
        ("reason=outage", 0),
        ("actor=curl", 0),
    ] {
        let target = format!("/history/apps/app-7/host-7?limit=5&{filter}");
        assert_eq!(entries(&page(port, &target)).len(), count, "{filter}");
    }
}

fn lines_are_the_pages(port: u16) {
    let target = "/history/apps/app-7/host-7?order=oldest";
    let answer = ask(port, &format!("{target}&format=ndjson"), &[]);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(answer.header("x-eurekad-complete"), Some("true"));
    assert_eq!(answer.header("x-eurekad-oldest-lsn"), Some("1"));
    let streamed = lines(&answer);
    assert_eq!(streamed, pages(port, &format!("{target}&limit=1000")));

    let accept = ["Accept: application/x-ndjson"];
    let answer = ask(port, "/history?limit=1000", &accept);
    assert_eq!(lines(&answer).len(), 1000);
    let from = START + (RECORDS - 4_999) * STEP;
    let answer = ask(port, &format!("/history?from={from}"), &accept);
    let expected: Vec<u64> = (RECORDS - 4_999..=RECORDS).collect();
    assert_eq!(lsns(&lines(&answer)), newest(expected));
}

fn bad_input_is_told_what_is_wrong(port: u16) {
    let long = "x".repeat(1025);
    for (query, named) in [
        ("from=soon", "RFC 3339"),
        ("to=-", "to: "),
        ("from=200&to=100", "later than to"),
        ("kind=exploded", "re-registered"),
        ("origin=mars", "peer:NAME"),
        ("address=10.0.0.0/40", "address: "),
        ("order=random", "newest, oldest"),
        ("limit=0", "from 1 to 1000"),
        ("limit=1001", "from 1 to 1000"),
        ("limit=many", "limit: "),
        ("format=xml", "json, ndjson"),
        ("cursor=abc", "cursor: "),
        ("surprise=1", "no parameter"),
        (&format!("reason={long}"), "limit is 1024"),
        (&format!("kind={}", ",".repeat(300)), "256"),
    ] {
        let answer = ask(port, &format!("/history?{query}"), &[]);
        assert_eq!(answer.status, 400, "{query}");
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{query}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(named), "{query}: {detail}");
    }
    for (target, status) in [
        ("/history/apps/A?app=B", 400),
        ("/history/apps/A/b?instance=c", 400),
        ("/history/apps", 404),
        ("/history/apps/A/b/c", 404),
    ] {
        assert_eq!(ask(port, target, &[]).status, status, "{target}");
    }
    let put = request("PUT", "/history", &["Connection: close"], b"");
    let answer = Connection::open(port).unwrap().exchange(&put).unwrap();
    assert_eq!(answer.status, 405);
}

fn cursors_are_for_their_own_question(port: u16) {
    let first = page(port, "/history/apps/app-1?limit=10&reason=override");
    let cursor = first["next"].as_str().unwrap();
    for other in [
        "/history/apps/app-1?limit=10",
        "/history/apps/app-2?reason=override",
        "/history?reason=override",
        "/history/apps/app-1?reason=override&order=oldest",
        "/history/apps/app-1?reason=override&from=-1h",
    ] {
        let sign = if other.contains('?') { '&' } else { '?' };
        let answer = ask(port, &format!("{other}{sign}cursor={cursor}"), &[]);
        assert_eq!(answer.status, 400, "{other}");
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("another question"), "{other}: {detail}");
    }
    let second = format!("/history/apps/app-1?limit=5&reason=override&cursor={cursor}");
    assert_eq!(entries(&page(port, &second)).len(), 5, "another limit");
}

fn streams_have_a_bound_and_end_with_their_client(port: u16) {
    let bytes = request("GET", "/history?format=ndjson", &[], b"");
    // Clients that take nothing of a long answer: it waits for them and takes no memory.
    let mut clients: Vec<Connection> = Vec::new();
    for _ in 0..4 {
        let mut client = Connection::open(port).unwrap();
        client.send(&bytes).unwrap();
        clients.push(client);
    }
    let busy = wait_for("the bound", || {
        let answer = ask(port, "/history?format=ndjson&limit=1", &[]);
        (answer.status == 503).then_some(answer)
    });
    assert!(busy.header("retry-after").is_some());
    assert_eq!(
        ask(port, "/history?limit=1", &[]).status,
        200,
        "pages go on"
    );
    drop(clients);
    wait_for("a place after the clients have gone", || {
        let answer = ask(port, "/history?format=ndjson&limit=1", &[]);
        (answer.status == 200).then_some(())
    });
}

/// What clients and operators do, as it is told afterwards, in this life and in the next one.
#[test]
fn changes_are_told_with_who_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &["--eurekad.history-index=false"]);
    let send = |port: u16, bytes: &[u8]| {
        let answer = Connection::open(port).unwrap().exchange(bytes).unwrap();
        assert!(answer.status < 300, "{}", String::from_utf8_lossy(bytes));
    };
    let billing = Registration::new("BILLING", "billing-1");
    let port = server.port();
    send(port, &billing.register());
    send(port, &Registration::new("OTHER", "other-1").register());
    let put = |method: &str, target: &str, headers: &[&str]| {
        send(port, &request(method, target, headers, b""));
    };
    let instance = "/eureka/apps/BILLING/billing-1";
    let agent = "User-Agent: curl/8";
    put(
        "PUT",
        &format!("{instance}/status?value=OUT_OF_SERVICE&reason=deploy%204711"),
        &[agent],
    );
    put(
        "DELETE",
        &format!("{instance}/status?reason=parameter"),
        &[agent, "X-Reason: header"],
    );
    put(
        "PUT",
        &format!("{instance}/metadata?version=2&reason=kept"),
        &[],
    );
    put("DELETE", &format!("{instance}?reason=moved"), &[]);
    send(port, &billing.register());

    let told = entries(&page(port, "/history/apps/billing/billing-1?order=oldest"));
    let column = |name: &str| -> Vec<String> {
        let text = |entry: &Value| entry[name].as_str().unwrap().to_owned();
        told.iter().map(text).collect()
    };
    assert_eq!(
        column("kind"),
        [
            "registered",
            "override-set",
            "override-lifted",
            "metadata-updated",
            "cancelled",
            "registered"
        ]
    );
    assert_eq!(
        column("reason"),
        [
            "registered",
            "deploy 4711",
            "header",
            "metadata updated",
            "moved",
            "registered"
        ]
    );
    assert_eq!(told[1]["actor"]["user_agent"], "curl/8");
    assert_eq!(told[1]["actor"]["address"], "127.0.0.1");
    assert_eq!(told[1]["origin"], "operator");
    assert_eq!(told[1]["changes"]["status"]["before"], "UP");
    assert_eq!(told[1]["changes"]["status"]["after"], "OUT_OF_SERVICE");
    assert_eq!(told[2]["changes"]["override"]["before"], "OUT_OF_SERVICE");
    assert_eq!(told[2]["changes"]["override"]["after"], Value::Null);
    assert_eq!(told[3]["changes"]["metadata.version"]["after"], "2");
    // With metadata every parameter is an entry.
    assert_eq!(told[3]["changes"]["metadata.reason"]["after"], "kept");
    assert_eq!(told[4]["changes"]["present"]["after"], false);
    assert!(told[4]["lease"]["duration_ms"].is_u64());
    assert!(
        !data.join("index").exists(),
        "files without a closed segment"
    );

    let by_reason = page(port, "/history?reason=DEPLOY");
    assert_eq!(entries(&by_reason), [told[1].clone()]);
    let before = page(port, "/history");
    server.kill();
    let server = Server::start(&data, &[]);
    assert_eq!(page(server.port(), "/history"), before, "after kill -9");
}

/// A log whose beginning is gone says so, everywhere.
#[test]
fn what_is_no_longer_kept_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    write_log(&data, 30_000);
    let mut options = StoreOptions::new(&data);
    options.history_max_bytes = 1;
    options.segment_bytes = 1 << 20;
    let mut opened = eurekad::store::open(&options, Millis(START), &mut |_| {}).unwrap();
    // The next record begins a segment of its own; all before the older checkpoint may go then.
    let last = opened.last_lsn;
    for lsn in [last.next(), last.next().next()] {
        let record = Record {
            lsn,
            ..testing::registered(lsn.0, START + lsn.0 * STEP)
        };
        opened.store.append(&[Arc::new(record)]).unwrap();
        opened.store.commit(Durability::Disk).unwrap();
        let source = CheckpointSource {
            lsn,
            at: Millis(START),
            expected_clients: 0,
            leases: &mut std::iter::empty(),
            overrides: &mut std::iter::empty(),
            holds: &mut std::iter::empty(),
        };
        opened.reader.write_checkpoint(source).unwrap();
    }
    let trimmed = opened.store.trim(last.next(), Millis(START)).unwrap();
    assert_eq!(trimmed.first_lsn, last.next());
    opened.store.close(Millis(START)).unwrap();

    let server = Server::start(&data, &[]);
    let port = server.port();
    let all = page(port, "/history?order=oldest");
    assert_eq!(lsns(&entries(&all)), [30_001, 30_002]);
    assert_eq!(all["complete"], false);
    assert_eq!(all["oldest_lsn"], 30_001);
    let oldest = all["oldest"].as_str().unwrap();
    assert!(all["note"].as_str().unwrap().contains(oldest), "{all}");
    let from = START + 30_002 * STEP;
    let recent = page(port, &format!("/history?from={from}"));
    assert_eq!(
        (&recent["complete"], &recent["note"]),
        (&Value::Bool(true), &Value::Null)
    );
    let answer = ask(port, "/history?format=ndjson", &[]);
    assert_eq!(answer.header("x-eurekad-complete"), Some("false"));
    assert_eq!(answer.header("x-eurekad-oldest"), Some(oldest));
    let node = get_json(port, "/node");
    assert_eq!(node["oldest"], oldest);
    assert_eq!(node["oldest_lsn"], 30_001);
}
