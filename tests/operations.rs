//! Drains, quarantines and the lifting of overrides against the program itself, across `kill -9`.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use serde_json::{Value, json};
use support::http::{Answer, request};
use support::{Connection, Registration, Server, wait_for};

struct Node {
    server: Server,
}

impl Node {
    fn start(dir: &tempfile::TempDir) -> Self {
        Self {
            server: Server::start(&dir.path().join("data"), &[]),
        }
    }

    fn ask(&self, method: &str, target: &str, headers: &[&str]) -> Answer {
        let mut connection = Connection::open(self.server.port()).unwrap();
        let headers: Vec<&str> = headers
            .iter()
            .copied()
            .chain(["Connection: close"])
            .collect();
        connection
            .exchange(&request(method, target, &headers, b""))
            .unwrap()
    }

    fn register(&self, id: &str) {
        let mut connection = Connection::open(self.server.port()).unwrap();
        let bytes = Registration::new("SHOP", id).register();
        assert_eq!(connection.exchange(&bytes).unwrap().status, 204);
    }

    /// The status of an instance, `None` if it is not there.
    fn status(&self, id: &str) -> Option<String> {
        let target = format!("/eureka/apps/SHOP/{id}");
        let answer = self.ask("GET", &target, &["Accept: application/json"]);
        (answer.status == 200).then(|| {
            let status = &answer.json()["instance"]["status"];
            status.as_str().unwrap().to_owned()
        })
    }
}

fn detail(answer: &Answer) -> String {
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    let body: Value = answer.json();
    assert_eq!(body["status"], answer.status);
    body["detail"].as_str().unwrap().to_owned()
}

#[test]
fn a_drain_counts_down_survives_a_crash_and_cancels() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&dir);
    node.register("a");
    let drained = node.ask(
        "POST",
        "/drain/apps/shop/a?for=1500ms&reason=deploy%204711",
        &[],
    );
    assert_eq!(drained.status, 200);
    let drained = drained.json();
    assert_eq!(drained["app"], "SHOP");
    assert_eq!(drained["kind"], "drain");
    assert!(drained["remaining_ms"].as_u64().unwrap() <= 1500);
    assert_eq!(node.status("a").as_deref(), Some("OUT_OF_SERVICE"));
    node.server.kill();
    let node = Node::start(&dir);
    wait_for("the drained instance to be cancelled", || {
        node.status("a").is_none().then_some(())
    });
    let answer = node.ask("GET", "/drain/apps/SHOP/a", &[]);
    assert_eq!(answer.status, 404);
    assert_eq!(detail(&answer), "SHOP/a is not drained");
}

#[test]
fn a_quarantined_id_stays_out_until_it_is_released_or_its_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&dir);
    // Before it is there at all.
    let answer = node.ask(
        "POST",
        "/quarantine/apps/SHOP/a?for=1h",
        &["X-Reason: it lies"],
    );
    assert_eq!(answer.status, 200);
    node.register("a");
    assert_eq!(node.status("a").as_deref(), Some("OUT_OF_SERVICE"));
    node.server.kill();
    let node = Node::start(&dir);
    let refused = node.ask("PUT", "/eureka/apps/SHOP/a/status?value=UP", &[]);
    assert_eq!((refused.status, refused.body.len()), (409, 0));
    let why = refused.header("x-eurekad-reason").unwrap();
    assert!(why.starts_with("in quarantine until 2"), "{why}");
    assert_eq!(node.ask("DELETE", "/eureka/apps/SHOP/a", &[]).status, 200);
    node.register("a");
    assert_eq!(node.status("a").as_deref(), Some("OUT_OF_SERVICE"));
    let told = node.ask("GET", "/explain/apps/SHOP/a", &[]).json();
    assert_eq!(told["because"]["kind"], "quarantined");
    assert_eq!(told["because"]["reason"], "it lies");
    assert_eq!(told["override"]["set"]["kind"], "quarantined");
    // Nor does a deployment's drain end it.
    let refused = node.ask("POST", "/drain/apps/SHOP/a?for=1ms", &[]);
    assert_eq!(refused.status, 409);
    assert_eq!(refused.json()["hold"]["kind"], "quarantine");
    let why = detail(&refused);
    let is_clear = why.contains("quarantined until 2") && why.contains("DELETE /quarantine");
    assert!(is_clear, "{why}");
    assert_eq!(node.ask("DELETE", "/drain/apps/SHOP/a", &[]).status, 404);
    let released = node.ask("DELETE", "/quarantine/apps/SHOP/a", &[]);
    assert_eq!(released.status, 200);
    assert_eq!(released.json()["released"], true);
    assert_eq!(node.status("a").as_deref(), Some("UP"));
    let told = node.ask("GET", "/explain/apps/SHOP/a", &[]).json();
    assert_eq!(told["because"]["kind"], "registered");
    // One that never came.
    node.ask("POST", "/quarantine/apps/SHOP/never?for=1h", &[]);
    node.ask("DELETE", "/quarantine/apps/SHOP/never", &[]);
    let told = node.ask("GET", "/explain/apps/SHOP/never", &[]).json();
    let said = told["summary"][0].as_str().unwrap();
    assert!(said.contains("never was"), "{said}");
    node.ask("POST", "/quarantine/apps/SHOP/a?for=500ms", &[]);
    wait_for("the quarantine to end by itself", || {
        (node.status("a").as_deref() == Some("UP")).then_some(())
    });
}

/// A drain that another node accepted, which had not heard of the quarantine here.
#[test]
fn a_drain_that_waits_behind_a_quarantine_is_shown_and_can_be_ended_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&dir);
    node.register("a");
    let quarantined = node.ask("POST", "/quarantine/apps/SHOP/a?for=1h", &[]);
    assert_eq!(quarantined.status, 200);
    assert!(quarantined.json()["drain"].is_null());
    let tell_drain = |at: u64| {
        let told = json!({"apps": {}, "holds": [{
            "app": "SHOP", "id": "a", "kind": "drain", "remaining_ms": 7_200_000, "at": at,
            "released": false,
        }]});
        let mut connection = Connection::open(node.server.port()).unwrap();
        let headers = ["Connection: close", "x-eurekad-node: another"];
        let target = "/eureka/eurekad/compare";
        let body = told.to_string();
        let bytes = request("POST", target, &headers, body.as_bytes());
        assert_eq!(connection.exchange(&bytes).unwrap().status, 200);
    };
    // Later than any word here.
    let later = 4_000_000_000_000;
    tell_drain(later);
    let waiting = node.ask("GET", "/drain/apps/SHOP/a", &[]);
    assert_eq!(
        (waiting.status, &waiting.json()["kind"]),
        (200, &json!("drain"))
    );
    let listed = node.ask("GET", "/overrides", &[]).json();
    let hold = &listed["overrides"][0]["hold"];
    assert_eq!(
        (&hold["kind"], &hold["drain"]["kind"]),
        (&json!("quarantine"), &json!("drain"))
    );

    let ended = node.ask("DELETE", "/drain/apps/SHOP/a", &[]);
    assert_eq!(
        (ended.status, &ended.json()["released"]),
        (200, &json!(true))
    );
    assert_eq!(node.ask("DELETE", "/drain/apps/SHOP/a", &[]).status, 404);
    let kept = node.ask("GET", "/quarantine/apps/SHOP/a", &[]);
    assert_eq!((kept.status, kept.json()["drain"].is_null()), (200, true));
    assert_eq!(node.status("a").as_deref(), Some("OUT_OF_SERVICE"));

    // Told again by a later word, it comes behind the quarantine that is released first.
    tell_drain(2 * later);
    let released = node.ask("DELETE", "/quarantine/apps/SHOP/a", &[]).json();
    assert_eq!(
        (&released["released"], &released["drain"]["released"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(node.status("a").as_deref(), Some("OUT_OF_SERVICE"));
    assert_eq!(node.ask("DELETE", "/drain/apps/SHOP/a", &[]).status, 200);
    assert_eq!(node.status("a").as_deref(), Some("UP"));
}

#[test]
fn the_overrides_of_an_application_are_lifted_at_once_but_for_held_ones() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&dir);
    for id in ["a", "b", "c"] {
        node.register(id);
        let target = format!("/eureka/apps/SHOP/{id}/status?value=OUT_OF_SERVICE");
        assert_eq!(node.ask("PUT", &target, &[]).status, 200);
    }
    node.ask("POST", "/drain/apps/SHOP/c?for=1h", &[]);
    let listed = node.ask("GET", "/overrides?app=shop", &[]).json();
    assert_eq!(listed["overrides"].as_array().unwrap().len(), 3);
    assert_eq!(listed["overrides"][2]["hold"]["kind"], "drain");
    // Counted by the words of the history.
    let metrics = node.ask("GET", "/metrics", &[]);
    let metrics = String::from_utf8(metrics.body).unwrap();
    for (kind, count) in [("drained", 1), ("override-set", 3), ("registered", 3)] {
        let line = format!("eurekad_changes_total{{kind=\"{kind}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let unnamed = node.ask("DELETE", "/overrides", &[]);
    assert_eq!(unnamed.status, 400);
    assert!(detail(&unnamed).contains("app=*"));
    let lifted = node.ask("DELETE", "/overrides?app=SHOP", &[]).json();
    assert_eq!(lifted["lifted"], 2);
    assert_eq!(lifted["kept"][0]["instance"], "c");
    let statuses = ["a", "b", "c"].map(|id| node.status(id).unwrap());
    assert_eq!(statuses, ["UP", "UP", "OUT_OF_SERVICE"]);
}

#[test]
fn what_cannot_be_done_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&dir);
    node.register("a");
    let long_id = format!("/quarantine/apps/SHOP/{}?for=1m", "x".repeat(5_000));
    for (target, status, part) in [
        ("/drain/apps/SHOP/a", 400, "for=15m"),
        ("/drain/apps/SHOP/a?for=soon", 400, "not a span of time"),
        ("/drain/apps/SHOP/a?for=-5m", 400, "not a span of time"),
        ("/drain/apps/SHOP/a?for=0", 400, "366 days"),
        ("/drain/apps/SHOP/a?for=9999d", 400, "366 days"),
        (
            "/drain/apps/SHOP/a?for=1m&four=2",
            400,
            "known are for, reason",
        ),
        ("/drain/apps/SHOP/b?for=1m", 404, "SHOP/b is not registered"),
        (&long_id, 400, "the limit is"),
    ] {
        let answer = node.ask("POST", target, &[]);
        assert_eq!(answer.status, status, "{target}");
        let said = detail(&answer);
        assert!(said.contains(part), "{target}: {said}");
    }
    let answer = node.ask("DELETE", "/quarantine/apps/SHOP/a", &[]);
    assert_eq!(answer.status, 404);
    assert_eq!(node.ask("PUT", "/drain/apps/SHOP/a", &[]).status, 405);
    assert_eq!(node.status("a").as_deref(), Some("UP"));
}

#[test]
fn errors_of_our_own_paths_say_what_was_wrong_with_what() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&dir);
    node.register("a");
    for (target, part) in [
        ("/history/apps", "/history/apps/APP/ID"),
        ("/history/apps/A/b/c", "/history/apps/APP/ID"),
        ("/explain/apps/A", "/explain/apps/APP/ID"),
        ("/drain", "/drain/apps/APP/ID"),
        ("/registry/diffs", "/registry/diff"),
        ("/metrics/more", "/metrics"),
    ] {
        let answer = node.ask("GET", target, &[]);
        assert_eq!(answer.status, 404, "{target}");
        let said = detail(&answer);
        assert!(said.contains(part), "{target}: {said}");
    }
    for target in [
        "/history",
        "/registry",
        "/registry/diff",
        "/watch",
        "/changes",
        "/explain/apps/SHOP/a",
        "/drain/apps/SHOP/a",
        "/overrides",
        "/node",
        "/openapi.json",
        "/metrics",
    ] {
        let answer = node.ask("PATCH", target, &[]);
        assert_eq!(answer.status, 405, "{target}");
        assert!(answer.header("allow").unwrap().contains("GET"), "{target}");
        let said = detail(&answer);
        assert!(said.contains("PATCH is no method of this"), "{said}");
    }
    for (target, part) in [
        ("/history?limit=1&limit=2", "limit is given more than once"),
        ("/history?from=-1h&from=-2h", "from is given more than once"),
        ("/history?app=A&app=B", "app is given more than once"),
        ("/history?from=", "from: "),
        ("/history?to=", "to: "),
        ("/history?limit=", "limit: "),
        ("/registry?at=", "at: "),
        ("/registry?app=A&app=B", "app is given more than once"),
        ("/registry/diff?from=-1h&to=", "to: "),
        ("/watch?since=", "since: "),
        ("/changes?wait=1s&wait=2s", "wait is given more than once"),
        ("/overrides?app=A&app=B", "app is given more than once"),
        (
            "/openapi.json?x",
            "\"x\" is no parameter of this; it takes none",
        ),
        ("/node?x=1", "it takes none"),
        ("/explain/apps/SHOP/a?x", "it takes none"),
    ] {
        let answer = node.ask("GET", target, &[]);
        assert_eq!(answer.status, 400, "{target}");
        let said = detail(&answer);
        assert!(said.contains(part), "{target}: {said}");
    }
    // The protocol's own paths are as they were.
    for (method, target, status) in [
        ("GET", "/eureka/nowhere", 404),
        ("PATCH", "/eureka/apps", 405),
    ] {
        let answer = node.ask(method, target, &[]);
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{target}");
    }
}
