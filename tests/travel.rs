//! The registry of the past as the program tells it: the forms of the list, the moments that there
//! are not, differences, and a log that was trimmed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;

use eurekad::changelog::{Published, write_checkpoint};
use eurekad::registry::Registry;
use eurekad::registry::delta::DeltaTail;
use eurekad::store::testing::registered;
use eurekad::store::{self, Durability, StoreOptions};
use eurekad::types::{Lsn, Millis};
use serde_json::{Value, json};
use support::http::request;
use support::{Answer, Connection, Registration, Server};

fn get(port: u16, target: &str, headers: &[&str]) -> Answer {
    Connection::open(port)
        .unwrap()
        .exchange(&request("GET", target, headers, b""))
        .unwrap()
}

fn put(port: u16, target: &str) {
    let bytes = request("PUT", target, &[], b"");
    let answer = Connection::open(port).unwrap().exchange(&bytes).unwrap();
    assert_eq!(answer.status, 200, "{target}");
}

fn register(port: u16, app: &str, id: &str) {
    let bytes = Registration::new(app, id).register();
    let answer = Connection::open(port).unwrap().exchange(&bytes).unwrap();
    assert_eq!(answer.status, 204);
}

fn lsn(answer: &Answer) -> u64 {
    answer.header("x-eurekad-lsn").unwrap().parse().unwrap()
}

/// The body without the times that renewals move.
fn settled(answer: &Answer) -> String {
    let text = String::from_utf8(answer.body.clone()).unwrap();
    let mut rest = text.as_str();
    let mut settled = String::new();
    while let Some(place) = rest.find("lastRenewalTimestamp") {
        let (before, after) = rest.split_at(place);
        settled.push_str(before);
        rest = after
            .trim_start_matches(|c: char| !c.is_ascii_digit())
            .trim_start_matches(|c: char| c.is_ascii_digit());
    }
    settled + rest
}

const JSON: &str = "Accept: application/json";
const XML: &str = "Accept: application/xml";
const FORMS: [&[&str]; 6] = [
    &[JSON],
    &[XML],
    &[],
    &[JSON, "X-Eureka-Accept: compact"],
    &[XML, "X-Eureka-Accept: compact"],
    &[JSON, "Accept-Encoding: gzip"],
];

#[test]
fn a_moment_has_the_forms_of_the_list_of_applications() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("data"), &[]);
    let port = server.port();
    for n in 0..20 {
        register(port, ["SHOP", "CART"][n % 2], &format!("host-{n}"));
    }
    put(port, "/eureka/apps/SHOP/host-4/status?value=OUT_OF_SERVICE");
    let mut then = Vec::new();
    for form in FORMS {
        let list = get(port, "/eureka/apps", form);
        for target in ["/registry", "/registry?at=now"] {
            let now = get(port, target, form);
            assert_eq!(now.status, 200, "{target} {form:?}");
            assert_eq!(now.body, list.body, "{target} {form:?}");
            for name in ["content-type", "content-encoding", "content-length"] {
                assert_eq!(now.header(name), list.header(name), "{name} of {form:?}");
            }
            assert_eq!(now.header("x-eurekad-complete"), Some("true"));
        }
        then.push(list);
    }
    let position = lsn(&get(port, "/registry", &[JSON]));

    // What happens later does not change what was.
    register(port, "SHOP", "late");
    put(port, "/eureka/apps/CART/host-1/status?value=DOWN");
    let target = format!("/registry?lsn={position}");
    for (form, list) in FORMS.iter().zip(&then) {
        let past = get(port, &target, form);
        assert_eq!((past.status, lsn(&past)), (200, position), "{form:?}");
        assert_eq!(past.header("content-type"), list.header("content-type"));
        if list.header("content-encoding").is_none() {
            assert_eq!(settled(&past), settled(list), "{form:?}");
        }
    }
    let at = get(port, &target, &[JSON]);
    let at = at.header("x-eurekad-at").unwrap().to_owned();
    let by_time = get(port, &format!("/registry?at={at}"), &[JSON]);
    assert_eq!(
        (lsn(&by_time), settled(&by_time)),
        (position, settled(&then[0]))
    );

    let cart = get(port, &format!("{target}&app=cart"), &[JSON]).json();
    let apps = cart["applications"]["application"].as_array().unwrap();
    assert_eq!(apps.len(), 1);
    assert_eq!(apps[0]["name"], "CART");
    assert_eq!(cart["applications"]["apps__hashcode"], "UP_10_");
    let nobody = get(port, &format!("{target}&app=NOBODY"), &[JSON]);
    assert_eq!(nobody.status, 200);
    assert_eq!(nobody.json()["applications"]["application"], json!([]));
    server.assert_well();
}

#[test]
fn moments_that_there_are_not_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("data"), &[]);
    let port = server.port();
    register(port, "SHOP", "one");
    let refused = |target: &str, status: u16, part: &str| {
        let answer = get(port, target, &[JSON]);
        assert_eq!(answer.status, status, "{target}");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        let body = answer.json();
        assert_eq!(body["status"], status, "{target}");
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{target}: {detail}");
        body
    };
    refused("/registry?at=soon", 400, "RFC 3339");
    refused("/registry?at=2999-01-01", 400, "future");
    refused("/registry?lsn=999999", 400, "future");
    refused("/registry?lsn=-1", 400, "not a number");
    refused("/registry?lsn=1&at=now", 400, "once");
    refused("/registry?when=now", 400, "known are at, lsn, app");
    refused("/registry/diff", 400, "from");
    refused("/registry/diff?from=now&to=-1h", 400, "later than to");
    refused("/registry/diff?from=-1h&to=2999-01-01", 400, "future");
    for target in ["/registry?at=", "/registry?lsn=", "/registry/diff?from="] {
        assert_eq!(get(port, target, &[]).status, 400, "{target}");
    }
    assert_eq!(get(port, "/registry", &["Accept: text/html"]).status, 406);
    let post = request("POST", "/registry", &[], b"{}");
    let answer = Connection::open(port).unwrap().exchange(&post).unwrap();
    assert_eq!(answer.status, 405);
    server.assert_well();
}

#[test]
fn a_diff_names_what_came_went_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("data"), &[]);
    let port = server.port();
    for id in ["stays", "goes", "changes", "held"] {
        register(port, "SHOP", id);
    }
    let before = get(port, "/registry?lsn=4", &[JSON]);
    let from = before.header("x-eurekad-at").unwrap().to_owned();
    // The next change is a millisecond later at least.
    support::wait_for("the next millisecond", || {
        let now = get(port, "/registry", &[JSON]);
        (now.header("x-eurekad-at").unwrap() > from.as_str()).then_some(())
    });
    let delete = request("DELETE", "/eureka/apps/SHOP/goes", &[], b"");
    let answer = Connection::open(port).unwrap().exchange(&delete).unwrap();
    assert_eq!(answer.status, 200);
    register(port, "CART", "comes");
    put(port, "/eureka/apps/SHOP/changes/metadata?version=2");
    put(port, "/eureka/apps/SHOP/held/status?value=OUT_OF_SERVICE");
    let diff = |query: &str| get(port, &format!("/registry/diff?from={from}{query}"), &[]).json();
    let all = diff("");
    assert_eq!(all["from"], json!({ "at": from, "lsn": 4 }));
    assert_eq!(all["to"]["lsn"], 8);
    assert_eq!(all["complete"], true);
    let one = |app, id| json!([{ "app": app, "instance": id, "status": "UP" }]);
    assert_eq!(all["added"], one("CART", "comes"));
    assert_eq!(all["removed"], one("SHOP", "goes"));
    let changed = all["changed"].as_array().unwrap();
    assert_eq!(changed.len(), 2, "{changed:?}");
    assert_eq!(changed[0]["instance"], "changes");
    let version = &changed[0]["changes"]["metadata.version"];
    assert_eq!(*version, json!({ "before": null, "after": "2" }));
    assert_eq!(changed[1]["instance"], "held");
    let lies = json!({ "before": "UP", "after": "OUT_OF_SERVICE" });
    assert_eq!(changed[1]["changes"]["status"], lies);
    let held = json!({ "before": null, "after": "OUT_OF_SERVICE" });
    assert_eq!(changed[1]["changes"]["override"], held);
    let cart = diff("&app=cart");
    assert_eq!(
        (&cart["added"], &cart["changed"]),
        (&all["added"], &json!([]))
    );
    let nothing = diff(&format!("&to={from}"));
    assert_eq!(
        (&nothing["added"], &nothing["removed"]),
        (&json!([]), &json!([]))
    );
    server.assert_well();
}

#[test]
fn a_trimmed_log_is_told_from_its_bases_on_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let options = StoreOptions {
        segment_bytes: 16 << 10,
        base_records: 10,
        history_max_bytes: 60 << 10,
        min_free_bytes: Some(0),
        ..StoreOptions::new(&data)
    };
    let mut opened = store::open(&options, Millis(1), &mut |_| {}).unwrap();
    let mut registry = Registry::new(Arc::default());
    for n in 1..=400 {
        let record = registered(n, 1_700_000_000_000 + n * 1000);
        registry.evolve(&record, Millis(0));
        opened.store.append(&[Arc::new(record)]).unwrap();
        opened.store.commit(Durability::Flush).unwrap();
        if n % 20 == 0 {
            let state = Published {
                registry: registry.clone(),
                delta: DeltaTail::default(),
            };
            write_checkpoint(&opened.reader, &state, Millis(1_700_000_000_000 + n * 1000)).unwrap();
            opened.store.trim(Lsn(u64::MAX), Millis(1)).unwrap();
        }
    }
    let first = opened.reader.first_lsn().0;
    assert!(first > 100, "{first}");
    opened.store.close(Millis(1_700_000_500_000)).unwrap();

    for arguments in [[].as_slice(), &["--eurekad.profile=eureka"]] {
        let mut server = Server::start(&data, arguments);
        let port = server.port();
        let gone = get(port, "/registry?lsn=5", &[JSON]);
        assert_eq!(gone.status, 410);
        let oldest: Value = gone.json();
        let oldest_lsn = oldest["oldest_lsn"].as_u64().unwrap();
        assert!(oldest_lsn + 1 >= first && oldest_lsn < 400, "{oldest}");
        let at = oldest["oldest"].as_str().unwrap();
        for target in [
            format!("/registry?at={at}"),
            format!("/registry?lsn={oldest_lsn}"),
        ] {
            let answer = get(port, &target, &[JSON]);
            assert_eq!((answer.status, lsn(&answer)), (200, oldest_lsn), "{target}");
            let hash = answer.json()["applications"]["apps__hashcode"].clone();
            assert_eq!(hash, format!("UP_{oldest_lsn}_"));
        }
        for lsn in (oldest_lsn..=400).step_by(17) {
            let answer = get(port, &format!("/registry?lsn={lsn}"), &[JSON]);
            let hash = answer.json()["applications"]["apps__hashcode"].clone();
            assert_eq!(hash, format!("UP_{lsn}_"));
        }
        let before = get(port, "/registry/diff?from=1700000001", &[JSON]);
        assert_eq!(before.status, 410);
        server.assert_well();
    }
}

#[test]
fn before_the_first_change_there_was_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("data"), &[]);
    let port = server.port();
    let header = |answer: &Answer, name: &str| answer.header(name).map(ToOwned::to_owned);
    for has_begun in [false, true] {
        if has_begun {
            let bytes = Registration::new("FIRST", "a").register();
            let mut connection = Connection::open(port).unwrap();
            assert_eq!(connection.exchange(&bytes).unwrap().status, 204);
        }
        let answer = get(port, "/registry?at=-15m", &[JSON]);
        assert_eq!((answer.status, lsn(&answer)), (200, 0));
        assert_eq!(answer.json()["applications"]["application"], json!([]));
        assert_eq!(header(&answer, "x-eurekad-complete").unwrap(), "true");
        let note = header(&answer, "x-eurekad-note");
        let is_told = note.is_some_and(|note| note.contains("its log begins at 2"));
        assert_eq!(is_told, has_begun);

        let answer = get(port, "/registry/diff?from=-1h", &[JSON]);
        assert_eq!(answer.status, 200);
        let diff = answer.json();
        assert_eq!(diff["complete"], true);
        assert_eq!(
            diff["added"].as_array().unwrap().len(),
            usize::from(has_begun)
        );
        assert_eq!(diff["note"].is_string(), has_begun);
    }
    server.assert_well();
}
