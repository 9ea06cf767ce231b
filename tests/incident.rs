//! A night with an incident, as it went: a deploy, the crash of an instance, its eviction, a wrong
//! override, a drain. What was asked afterwards is answered by the command line alone.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use support::http::{get_json, request};
use support::{Connection, Registration, Server, wait_for};

/// What a command wrote; it must end with this code.
#[track_caller]
fn ask(code: i32, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_eurekad"))
        .args(arguments)
        .env_remove("EUREKAD_SERVER")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}\n{out}\n{err}"
    );
    out
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn said(entries: &[Value], field: &str) -> Vec<String> {
    entries
        .iter()
        .map(|entry| entry[field].as_str().unwrap().to_owned())
        .collect()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn billing(number: u32, version: &str, dirty: i64) -> Registration {
    let mut instance = Registration::new("BILLING", &format!("billing-{number}"));
    instance.metadata.insert("version".into(), version.into());
    instance.dirty = dirty;
    instance
}

/// The wall clock, ms; later than everything before.
fn moment() -> String {
    let now = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_millis()
    };
    let before = now();
    while now() <= before + 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let moment = now();
    while now() <= moment + 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    moment.to_string()
}

#[test]
fn what_happened_that_night_is_told_by_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(
        &data,
        &[
            "--eureka.server.enable-self-preservation=false",
            "--eureka.server.eviction-interval-timer-in-ms=200",
        ],
    );
    let url = format!("http://127.0.0.1:{}", server.port());
    let url = url.as_str();
    let mut connection = Connection::open(server.port()).unwrap();
    let mut send = |bytes: &[u8], status: u16| {
        assert_eq!(connection.exchange(bytes).unwrap().status, status);
    };

    // The evening: three instances, of which the third crashes later and is not heard of again.
    for number in 1..=3 {
        let mut instance = billing(number, "1", 1000);
        if number == 3 {
            instance.duration_secs = 4;
        }
        send(&instance.register(), 204);
    }
    let evening = moment();
    // The deploy of version 2.
    for number in 1..=2 {
        send(&billing(number, "2", 2000).register(), 204);
    }
    // The crash: after four seconds its lease is over.
    wait_for("the eviction of billing-3", || {
        // An expired lease is not shown even before it is evicted.
        let told = get_json(server.port(), "/explain/apps/BILLING/billing-3");
        (told["present"] == false).then_some(())
    });
    // Somebody means billing-3 and types billing-2.
    let headers = [
        "X-Reason: billing-3 is broken",
        "User-Agent: curl/8.5 (night shift)",
    ];
    let target = "/eureka/apps/BILLING/billing-2/status?value=OUT_OF_SERVICE";
    send(&request("PUT", target, &headers, b""), 200);
    ask(
        0,
        &[
            "drain",
            "BILLING/billing-1",
            "--for",
            "1h",
            "--reason",
            "roll back 4711",
            "--server",
            url,
        ],
    );

    // Why is billing-3 gone?
    let told = words(&ask(1, &["explain", "BILLING/billing-3", "--server", url]));
    assert!(
        told.contains("is not registered: it was evicted at"),
        "{told}"
    );
    assert!(told.contains("the lease lasts 4 s"), "{told}");
    // Why does billing-2 get no traffic, and who did that?
    let told = words(&ask(0, &["explain", "BILLING/billing-2", "--server", url]));
    for part in [
        "An override makes it OUT_OF_SERVICE",
        "by an operator at 127.0.0.1 with curl/8.5 (night shift)",
        "reason: billing-3 is broken",
        "the instance itself reports UP",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    // And billing-1?
    let told = words(&ask(0, &["explain", "BILLING/billing-1", "--server", url]));
    assert!(told.contains("It is being drained until"), "{told}");
    assert!(told.contains("reason: roll back 4711"), "{told}");

    // What did it look like in the evening, and what has changed since?
    let before: Value =
        serde_json::from_str(&ask(0, &["at", &evening, "--json", "--server", url])).unwrap();
    let instances = before["applications"]["application"][0]["instance"]
        .as_array()
        .unwrap();
    let shown: Vec<_> = instances
        .iter()
        .map(|instance| {
            (
                instance["instanceId"].as_str().unwrap(),
                instance["status"].as_str().unwrap(),
                instance["metadata"]["version"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("billing-1", "UP", "1"),
            ("billing-2", "UP", "1"),
            ("billing-3", "UP", "1")
        ]
    );
    let diff: Value =
        serde_json::from_str(&ask(0, &["diff", &evening, "--json", "--server", url])).unwrap();
    assert_eq!(diff["removed"][0]["instance"], "billing-3");
    let changed = diff["changed"].as_array().unwrap();
    assert_eq!(said(changed, "instance"), ["billing-1", "billing-2"]);
    for one in changed {
        assert_eq!(one["changes"]["metadata.version"]["before"], "1");
        assert_eq!(one["changes"]["metadata.version"]["after"], "2");
        assert_eq!(one["changes"]["status"]["after"], "OUT_OF_SERVICE");
    }

    // The whole night, in order.
    let history = |more: &[&str]| {
        let arguments = ["history", "--all", "--ndjson", "--oldest-first"];
        lines(&ask(0, &[&arguments[..], more].concat()))
    };
    let night = history(&["--server", url]);
    assert_eq!(
        said(&night, "kind"),
        [
            "registered",
            "registered",
            "registered",
            "re-registered",
            "re-registered",
            "evicted",
            "override-set",
            "drained",
        ]
    );
    let evicted = &night[5];
    assert_eq!(evicted["origin"], "timer");
    assert!(evicted["lease"]["renewal_age_ms"].as_u64().unwrap() >= 4_000);
    let by_operators = history(&["--origin", "operator", "--server", url]);
    assert_eq!(said(&by_operators, "kind"), ["override-set", "drained"]);
    let by_reason = history(&["--reason", "4711", "--server", url]);
    assert_eq!(said(&by_reason, "instance"), ["billing-1"]);
    let since = history(&["--from", &evening, "--server", url]);
    assert_eq!(since, night[3..]);
    // Who had watched would have seen the same.
    let watched = ask(
        0,
        &[
            "watch", "--from", "1", "--count", "8", "--json", "--server", url,
        ],
    );
    assert_eq!(lines(&watched), night);

    // Put right.
    let lifted = ask(
        0,
        &["overrides", "lift", "--app", "BILLING", "--server", url],
    );
    assert!(lifted.contains("lifted 1 override of BILLING"), "{lifted}");
    ask(
        0,
        &[
            "release",
            "BILLING/billing-1",
            "--reason",
            "all well",
            "--server",
            url,
        ],
    );
    let now: Value =
        serde_json::from_str(&ask(0, &["at", "now", "--json", "--server", url])).unwrap();
    let statuses = now["applications"]["application"][0]["instance"]
        .as_array()
        .unwrap();
    assert_eq!(said(statuses, "status"), ["UP", "UP"]);

    // It is taken along to another machine.
    let night = history(&["--server", url]);
    let file = dir.path().join("night.ndjson");
    let file = file.to_str().unwrap();
    ask(
        0,
        &["export", "--history", "--output", file, "--server", url],
    );
    let moved = dir.path().join("moved");
    let moved = moved.to_str().unwrap();
    ask(0, &["import", "--history", file, "--data-dir", moved]);
    assert_eq!(history(&["--data-dir", moved]), night);
    ask(0, &["store", "check", "--data-dir", moved]);

    // The node dies; the night is still known, from its store alone.
    drop(connection);
    server.kill();
    let data = data.to_str().unwrap();
    assert_eq!(history(&["--data-dir", data]), night);
    let then: Value =
        serde_json::from_str(&ask(0, &["at", &evening, "--json", "--data-dir", data])).unwrap();
    assert_eq!(then["applications"]["apps__hashcode"], "UP_3_");
}
