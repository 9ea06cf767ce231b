//! Drains, quarantines and the lifting of overrides against the program itself, across `kill -9`.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use serde_json::Value;
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
    let released = node.ask("DELETE", "/quarantine/apps/SHOP/a", &[]);
    assert_eq!(released.status, 200);
    assert_eq!(released.json()["released"], true);
    assert_eq!(node.status("a").as_deref(), Some("UP"));
    node.ask("POST", "/quarantine/apps/SHOP/a?for=500ms", &[]);
    wait_for("the quarantine to end by itself", || {
        (node.status("a").as_deref() == Some("UP")).then_some(())
    });
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
