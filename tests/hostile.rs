//! Input that no client should send, over raw sockets: each piece gets the right status, changes
//! nothing, and leaves the server well and small.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fmt::Write as _;

use support::http::request;
use support::victim::{GZIP, JSON, Victim, XML, gzip, post, with};
use support::{Connection, Listing, Random, Registration};

#[test]
fn bodies_that_cannot_be_read_are_refused() {
    let mut victim = Victim::start(&[]);
    let laughs = billion_laughs();
    let external = r#"<?xml version="1.0"?><!DOCTYPE instance [<!ENTITY x SYSTEM "file:///etc/passwd">]>
        <instance><instanceId>evil</instanceId><hostName>&x;</hostName><app>EVIL</app></instance>"#;
    let nested_json = ["{\"a\":".repeat(100_000), "}".repeat(100_000)].concat();
    let nested_list = ["{\"instance\":", &"[".repeat(200_000)].concat();
    let nested_xml = ["<a>".repeat(50_000), "</a>".repeat(50_000)].concat();
    let cases: &[(&str, &str, &[u8])] = &[
        ("nothing", JSON, b""),
        ("half an object", JSON, b"{"),
        ("null", JSON, b"null"),
        ("a list", JSON, b"[]"),
        ("a number", JSON, b"42"),
        ("no instance in it", JSON, b"{}"),
        ("a list for an instance", JSON, b"{\"instance\":[]}"),
        ("a text for an instance", JSON, b"{\"instance\":\"evil\"}"),
        ("bytes of nothing", JSON, b"\x00\x01\x02\xff\xfe"),
        ("a cut escape", JSON, b"{\"instance\":{\"app\":\"\\ud8"),
        ("objects without end", JSON, nested_json.as_bytes()),
        ("lists without end", JSON, nested_list.as_bytes()),
        ("no XML", XML, b"{\"instance\":{}}"),
        ("XML that does not end", XML, b"<instance><app>EVIL"),
        ("elements without end", XML, nested_xml.as_bytes()),
        ("a billion laughs", XML, laughs.as_bytes()),
        ("an external entity", XML, external.as_bytes()),
    ];
    for (name, content_type, body) in cases {
        victim.expect(name, &post(&[content_type], body), 400);
        victim.assert_untouched();
    }
    for content_type in [
        "text/plain",
        "application/octet-stream",
        "multipart/form-data",
    ] {
        let header = format!("Content-Type: {content_type}");
        let body = Registration::new("EVIL", "evil").body();
        let answer = victim.expect(content_type, &post(&[&header], &body), 415);
        assert!(answer.body.is_empty(), "a body to {content_type}");
    }
    victim.assert_untouched();
}

fn billion_laughs() -> String {
    let mut text = String::from("<?xml version=\"1.0\"?><!DOCTYPE instance [<!ENTITY l0 \"lol\">");
    for level in 1..10 {
        let previous = format!("&l{};", level - 1).repeat(10);
        let _ = write!(text, "<!ENTITY l{level} \"{previous}\">");
    }
    text.push_str("]><instance><instanceId>evil</instanceId><hostName>&l9;</hostName></instance>");
    text
}

#[test]
fn fields_of_the_wrong_kind_are_refused_or_taken_for_their_default() {
    let mut victim = Victim::start(&[]);
    let long = "x".repeat(10_000);
    let refused = [
        ("port", serde_json::json!([1, 2])),
        ("instanceId", long.as_str().into()),
        ("app", long.as_str().into()),
        ("hostName", serde_json::Value::Null),
        ("hostName", "h".repeat(300_000).into()),
        ("dataCenterInfo", serde_json::Value::Null),
        ("dataCenterInfo", "MyOwn".into()),
        ("metadata", "none".into()),
    ];
    for (field, value) in refused {
        victim.expect(field, &post(&[JSON], &with(field, value)), 400);
        victim.assert_untouched();
    }
    // What the original takes too: words that it does not know mean UNKNOWN, numbers that are none
    // mean nothing.
    let taken = [
        ("status", serde_json::json!({ "a": 1 }), "UNKNOWN"),
        ("status", "FLYING".into(), "UNKNOWN"),
        (
            "port",
            serde_json::json!({ "$": "eighty", "@enabled": "true" }),
            "UP",
        ),
        ("lastDirtyTimestamp", "yesterday".into(), "UP"),
        ("lastDirtyTimestamp", "99999999999999999999999".into(), "UP"),
        ("leaseInfo", serde_json::json!([]), "UP"),
    ];
    let key = ("EVIL".to_owned(), "evil".to_owned());
    for (field, value, status) in taken {
        victim.expect(field, &post(&[JSON], &with(field, value)), 204);
        let now = Listing::of(victim.server.port()).instances();
        assert_eq!(now[&key].status, status, "{field}");
        let gone = request("DELETE", "/eureka/apps/EVIL/evil", &[], b"");
        victim.expect(field, &gone, 200);
        victim.assert_untouched();
    }
}

#[test]
fn bodies_beyond_the_limit_are_refused_and_take_no_memory() {
    let mut victim = Victim::start(&["--eurekad.body-timeout=2s"]);
    let before = victim.server.resident_kib();
    let big = vec![b' '; (1 << 20) + 1];
    victim.expect("a MiB and a byte", &post(&[JSON], &big), 413);
    // A gzip file may consist of several: this one is made of 400 MiB.
    let bomb = gzip(&vec![b' '; 1 << 20]).repeat(400);
    assert!(bomb.len() < 1 << 20, "the bomb is small itself");
    for _ in 0..20 {
        victim.expect("a gzip bomb", &post(&[JSON, GZIP], &bomb), 413);
    }
    let packed = gzip(&Registration::new("EVIL", "evil").body());
    let cut = &packed[..packed.len() / 2];
    victim.expect("half of a gzip", &post(&[JSON, GZIP], cut), 400);
    let twice = gzip(&packed);
    victim.expect("gzip in gzip", &post(&[JSON, GZIP], &twice), 400);
    victim.expect(
        "no gzip at all",
        &post(&[JSON, GZIP], b"{\"instance\":{}}"),
        400,
    );
    let other = post(&[JSON, "Content-Encoding: br"], b"{}");
    victim.expect("another encoding", &other, 415);

    for length in ["1000000000000000", "4294967296"] {
        let header = format!("Content-Length: {length}");
        let head = request("POST", "/eureka/apps/EVIL", &[JSON, &header], b"");
        victim.expect(length, &head, 413);
    }
    for length in ["99999999999999999999999999", "-1", "0x10", "1, 2", "ten"] {
        let header = format!("Content-Length: {length}");
        let head = request("POST", "/eureka/apps/EVIL", &[JSON, &header], b"");
        victim.expect(length, &head, 400);
    }
    let two = ["Content-Length: 5", "Content-Length: 6", JSON];
    let head = request("POST", "/eureka/apps/EVIL", &two, b"");
    victim.expect("two lengths", &head, 400);
    let chunked = ["Transfer-Encoding: chunked", JSON];
    let head = request("POST", "/eureka/apps/EVIL", &chunked, b"");
    let mut endless = head.clone();
    for _ in 0..64 {
        endless.extend_from_slice(b"10000\r\n");
        endless.extend(vec![b' '; 0x10000]);
        endless.extend_from_slice(b"\r\n");
    }
    victim.expect("chunks without end", &endless, 413);
    let waiting = [&head[..], b"5\r\n{\"ins\r\n"].concat();
    victim.expect("a chunk that never comes", &waiting, 408);
    for size in ["zz", "-5", "ffffffffffffffffff"] {
        let bytes = [&head[..], size.as_bytes(), b"\r\n{}\r\n0\r\n\r\n"].concat();
        // That is not even HTTP: to be cut off is an answer too.
        let status = victim.send(&bytes).map_or(400, |answer| answer.status);
        assert_eq!(status, 400, "a chunk of {size} bytes");
    }
    victim.assert_untouched();
    let after = victim.server.resident_kib();
    assert!(
        after < before + (48 << 10),
        "{before} KiB before, {after} after"
    );
}

#[test]
fn names_and_values_that_are_none_are_refused_without_a_body() {
    let mut victim = Victim::start(&[]);
    let canary = "/eureka/apps/CANARY/canary";
    let long = "x".repeat(10_000);
    let longer_than_an_id = "x".repeat(5_000);
    let cases = [
        ("PUT", format!("/eureka/apps/EVIL/{long}"), 400),
        ("PUT", format!("/eureka/apps/EVIL/{longer_than_an_id}"), 404),
        (
            "DELETE",
            format!("/eureka/apps/{longer_than_an_id}/evil"),
            404,
        ),
        ("PUT", "/eureka/apps/CANARY/%ff%fe".to_owned(), 400),
        ("PUT", "/eureka/apps/CANARY/%zz".to_owned(), 400),
        ("PUT", "/eureka/apps/CANARY/%00".to_owned(), 400),
        ("PUT", "/eureka/apps/CANARY/a|b".to_owned(), 400),
        ("GET", "/eureka/apps/../../../etc/passwd".to_owned(), 404),
        (
            "GET",
            "/eureka/apps/%2e%2e/%2e%2e/etc/passwd".to_owned(),
            404,
        ),
        ("PUT", format!("{canary}/status?value=FLYING"), 400),
        ("PUT", format!("{canary}/status?value=up"), 400),
        ("PUT", format!("{canary}/status"), 400),
        ("PUT", format!("{canary}/status?value=%ff%ff"), 400),
        (
            "PUT",
            format!("{canary}/status?value=DOWN&lastDirtyTimestamp=x"),
            400,
        ),
        ("DELETE", format!("{canary}/status?value=FLYING"), 400),
        (
            "DELETE",
            format!("{canary}/status?lastDirtyTimestamp=1e9"),
            400,
        ),
        ("PUT", format!("{canary}?lastDirtyTimestamp=never"), 400),
        (
            "PUT",
            format!("{canary}?lastDirtyTimestamp=99999999999999999999"),
            400,
        ),
        (
            "PUT",
            format!("{canary}?status=FLYING&lastDirtyTimestamp=1000"),
            200,
        ),
        (
            "PUT",
            "/eureka/apps/EVIL/evil?lastDirtyTimestamp=never".to_owned(),
            404,
        ),
        (
            "PUT",
            "/eureka/apps/EVIL/evil/status?value=FLYING".to_owned(),
            404,
        ),
        ("PATCH", canary.to_owned(), 405),
        ("BREW", "/eureka/apps".to_owned(), 405),
        ("DELETE", "/eureka/apps".to_owned(), 405),
        ("DELETE", "/eureka/apps/CANARY".to_owned(), 405),
    ];
    for (method, target, status) in cases {
        let name = format!("{method} {}", &target[..target.len().min(80)]);
        let answer = victim.expect(&name, &request(method, &target, &[], b""), status);
        assert!(answer.body.is_empty(), "{name}: a body");
    }
    victim.assert_untouched();
    for (name, line) in [
        (
            "bytes that are no text",
            &b"PUT /eureka/apps/CANARY/\xff\xfe HTTP/1.1"[..],
        ),
        (
            "a blank in the path",
            b"PUT /eureka/apps/CANARY/a b HTTP/1.1",
        ),
        ("no path", b"PUT  HTTP/1.1"),
        ("no version", b"GET /eureka/apps"),
        ("a strange version", b"GET /eureka/apps HTTP/9.9"),
        (
            "no HTTP at all",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        ),
    ] {
        let answer = victim.send(&[line, b"\r\nHost: x\r\n\r\n"].concat());
        let status = answer.map_or(400, |answer| answer.status);
        assert_eq!(status, 400, "{name}");
    }
    let header = format!("X-Long: {}", "y".repeat(100_000));
    let answer = victim.send(&request("GET", "/eureka/apps", &[&header], b""));
    let status = answer.map_or(431, |answer| answer.status);
    assert!(matches!(status, 400 | 431), "a long header: {status}");
    let many: Vec<String> = (0..500).map(|n| format!("X-{n}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let answer = victim.send(&request("GET", "/eureka/apps", &many, b""));
    let status = answer.map_or(431, |answer| answer.status);
    assert!(matches!(status, 400 | 431), "many headers: {status}");
    victim.assert_untouched();
}

#[test]
fn batches_with_items_that_are_none_change_nothing() {
    let mut victim = Victim::start(&[]);
    let item = |fields: &str| format!("{{\"replicationList\":[{{{fields}}}]}}");
    let known = "\"appName\":\"CANARY\",\"id\":\"canary\"";
    let cancels = |count: usize| {
        let cancel = r#"{"appName":"EVIL","id":"x","action":"Cancel"}"#;
        let items = vec![cancel; count].join(",");
        format!("{{\"replicationList\":[{items}]}}")
    };
    let whole = [
        ("no JSON", "{".to_owned(), 400),
        ("null", "null".to_owned(), 400),
        ("no list", "{}".to_owned(), 400),
        (
            "a number in the list",
            "{\"replicationList\":[1]}".to_owned(),
            400,
        ),
        (
            "an unknown action",
            item(&format!("{known},\"action\":\"Explode\"")),
            400,
        ),
        ("as many items as are taken", cancels(1000), 200),
        ("one item more", cancels(1001), 413),
        ("very many items", cancels(150_000), 413),
    ];
    let send = |body: &str| {
        let bytes = request(
            "POST",
            "/eureka/peerreplication/batch/",
            &[],
            body.as_bytes(),
        );
        victim.send(&bytes).expect("an answer")
    };
    for (name, body, status) in whole {
        assert_eq!(send(&body).status, status, "{name}");
    }
    let single = [
        ("no action", item(known), 500),
        (
            "no id",
            item("\"appName\":\"CANARY\",\"action\":\"Cancel\""),
            500,
        ),
        (
            "nobody",
            item("\"appName\":\"EVIL\",\"id\":\"x\",\"action\":\"Cancel\""),
            404,
        ),
        (
            "an unknown status",
            item(&format!(
                "{known},\"action\":\"StatusUpdate\",\"status\":\"FLYING\""
            )),
            500,
        ),
        (
            "no instance",
            item(&format!("{known},\"action\":\"Register\"")),
            500,
        ),
    ];
    for (name, body, status) in single {
        let bytes = request(
            "POST",
            "/eureka/peerreplication/batch/",
            &["Accept: application/json"],
            body.as_bytes(),
        );
        let answer = victim.send(&bytes).expect("an answer");
        assert_eq!(answer.status, 200, "{name}");
        let found = answer.json()["responseList"][0]["statusCode"].as_u64();
        assert_eq!(found, Some(status), "{name}");
    }
    victim.assert_untouched();
}

#[test]
fn connections_that_dawdle_are_closed() {
    let short = [
        "--eurekad.header-timeout=500ms",
        "--eurekad.idle-timeout=500ms",
        "--eurekad.body-timeout=500ms",
    ];
    let mut victim = Victim::start(&short);
    let mut silent = victim.connect();
    assert!(silent.is_closed(), "a connection without a request");
    let mut used = victim.connect();
    assert_eq!(used.exchange(&victim.canary.renew()).unwrap().status, 200);
    assert!(used.is_closed(), "a connection without a second request");
    let mut half = victim.connect();
    half.send(b"GET /eureka/apps HTTP/1.1\r\nHost: x\r\nX-A")
        .unwrap();
    assert!(is_let_go(&mut half), "half a head");

    // A byte now and then does not help.
    let mut slow = victim.connect();
    let ended = std::iter::repeat_n(b"X-Slow: 1\r\n", 600).any(|line| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        slow.send(line).is_err()
    });
    assert!(ended, "a head that never ends was read for 30 s");

    let mut body = victim.connect();
    let bytes = Registration::new("EVIL", "evil").register();
    body.send(&bytes[..bytes.len() - 10]).unwrap();
    assert_eq!(body.receive().unwrap().status, 408, "half a body");
    victim.assert_untouched();
}

/// The time for a body is so long here that whoever waited for it would never be answered.
#[test]
fn large_bodies_that_never_end_hold_up_neither_clients_nor_peers() {
    let mut victim = Victim::start(&["--eurekad.body-timeout=1h"]);
    let batch = |length: usize, sent: usize| {
        let length = format!("Content-Length: {length}");
        let target = "/eureka/peerreplication/batch/";
        let mut bytes = request("POST", target, &[JSON, &length], b"");
        bytes.extend_from_slice(b"{\"replicationList\":[]");
        bytes.resize(bytes.len() + sent, b' ');
        bytes
    };
    let (told, first) = std::sync::mpsc::sync_channel(600);
    for sent in [150_000, 700_000].repeat(150) {
        let mut slow = victim.connect();
        // Whoever is refused already need not take the rest.
        let _ = slow.send(&batch(9_000_000, sent));
        let told = told.clone();
        std::thread::spawn(move || {
            if let Ok(answer) = slow.receive() {
                let _ = told.send(answer);
            }
        });
    }
    for id in ["one", "two", "three"] {
        let registration = Registration::new("GOOD", id);
        victim.expect(id, &registration.register(), 204);
        let gone = request("DELETE", &format!("/eureka/apps/GOOD/{id}"), &[], b"");
        victim.expect(id, &gone, 200);
    }
    let mut whole = batch(300_022, 300_000);
    whole.push(b'}');
    victim.expect("a peer's batch", &whole, 200);
    let refused = first.recv().expect("somebody had to give way");
    assert_eq!((refused.status, refused.body.len()), (503, 0));
    let reason = refused.header("x-eurekad-reason").unwrap_or_default();
    assert!(reason.contains("memory for bodies"), "{reason}");
    victim.assert_untouched();
}

#[test]
fn a_slow_head_is_closed_while_an_idle_connection_may_wait() {
    let mut victim = Victim::start(&[
        "--eurekad.header-timeout=500ms",
        "--eurekad.idle-timeout=10m",
    ]);
    let mut idle = victim.connect();
    assert_eq!(idle.exchange(&victim.canary.renew()).unwrap().status, 200);
    let mut half = victim.connect();
    half.send(b"GET /eureka/apps HTTP/1.1\r\nHost: x\r\nX-A")
        .unwrap();
    assert!(is_let_go(&mut half), "half a head");
    // By now it has been idle for longer than a head may take.
    assert_eq!(idle.exchange(&victim.canary.renew()).unwrap().status, 200);
    victim.assert_untouched();
}

/// Closed, perhaps with a 408 before it.
fn is_let_go(connection: &mut Connection) -> bool {
    match connection.receive() {
        Ok(answer) => answer.status == 408 && connection.is_closed(),
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[test]
fn connections_that_close_one_half_are_answered() {
    let mut victim = Victim::start(&[]);
    let mut connection = victim.connect();
    connection.send(&victim.canary.renew()).unwrap();
    connection.close_sending().unwrap();
    assert_eq!(connection.receive().unwrap().status, 200);
    assert!(connection.is_closed());

    let bytes = Registration::new("EVIL", "evil").register();
    for cut in [1, 20, bytes.len() / 2, bytes.len() - 1] {
        let mut connection = victim.connect();
        connection.send(&bytes[..cut]).unwrap();
        connection.close_sending().unwrap();
        if let Ok(answer) = connection.receive() {
            assert_eq!(answer.status, 400, "cut at {cut}");
        }
        assert!(connection.is_closed(), "cut at {cut}");
    }
    // Gone before the answer.
    for _ in 0..200 {
        let mut connection = victim.connect();
        connection.send(&victim.canary.renew()).unwrap();
    }
    victim.assert_untouched();
}

#[test]
fn odd_but_proper_http_is_understood() {
    let mut victim = Victim::start(&[]);
    let mut connection = victim.connect();
    let missing = request("PUT", "/eureka/apps/EVIL/evil", &[], b"");
    let pair = [victim.canary.renew(), missing].concat();
    connection.send(&pair.repeat(100)).unwrap();
    for place in 0..200 {
        let expected = if place % 2 == 0 { 200 } else { 404 };
        let answer = connection.receive().unwrap();
        assert_eq!((answer.status, answer.body.len()), (expected, 0), "{place}");
    }

    let mut old = victim.connect();
    old.send(b"GET /eureka/apps HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(old.receive().unwrap().status, 200);
    assert!(old.is_closed(), "HTTP/1.0 without keep-alive");

    let mut last = victim.connect();
    let bytes = request("GET", "/eureka/apps", &["Connection: close"], b"");
    assert_eq!(last.exchange(&bytes).unwrap().status, 200);
    assert!(last.is_closed(), "Connection: close");

    let upgrade = [
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    ];
    let mut connection = victim.connect();
    let bytes = request("GET", "/eureka/apps", &upgrade, b"");
    assert_eq!(connection.exchange(&bytes).unwrap().status, 200);

    let mut preface = victim.connect();
    preface
        .send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    if let Ok(answer) = preface.receive() {
        assert!(matches!(answer.status, 400 | 505), "{}", answer.status);
    }
    assert!(is_let_go(&mut preface), "the preface of HTTP/2 hangs");
    victim.assert_untouched();

    let mut expecting = victim.connect();
    let body = victim.canary.body();
    let length = format!("Content-Length: {}", body.len());
    let headers = [JSON, &length, "Expect: 100-continue"];
    expecting
        .send(&request("POST", "/eureka/apps/CANARY", &headers, b""))
        .unwrap();
    assert_eq!(expecting.receive_any().unwrap().status, 100);
    assert_eq!(expecting.exchange(&body).unwrap().status, 204);
    victim.server.assert_well();
}

#[test]
fn twenty_thousand_names_that_are_not_there_take_no_memory() {
    const NAMES: usize = 20_000;
    const AT_ONCE: usize = 100;
    let seed = support::seed("names that are not there");
    let mut random = Random::new(seed);
    let mut victim = Victim::start(&[]);
    let mut connection = victim.connect();
    let mut ask = |count: usize, random: &mut Random| {
        for _ in 0..count / AT_ONCE {
            let mut bytes = Vec::new();
            for place in 0..AT_ONCE {
                let name = format!("{:016x}{}", random.next(), "n".repeat(200));
                let (method, target) = match place % 5 {
                    0 => ("GET", format!("/eureka/apps/{name}")),
                    1 => ("GET", format!("/eureka/instances/{name}")),
                    2 => ("PUT", format!("/eureka/apps/{name}/{name}")),
                    3 => ("DELETE", format!("/eureka/apps/{name}/{name}")),
                    _ => ("GET", format!("/eureka/{name}")),
                };
                bytes.extend(request(method, &target, &[], b""));
            }
            connection.send(&bytes).unwrap();
            for _ in 0..AT_ONCE {
                let answer = connection.receive().unwrap();
                assert_eq!((answer.status, answer.body.len()), (404, 0));
            }
        }
    };
    ask(NAMES / 10, &mut random);
    let before = victim.server.resident_kib();
    ask(NAMES, &mut random);
    let after = victim.server.resident_kib();
    println!("{NAMES} names: {before} KiB before, {after} KiB after");
    assert!(
        after < before + (16 << 10),
        "{before} KiB before, {after} after"
    );
    victim.assert_untouched();
}

#[test]
fn answers_that_nobody_reads_take_no_memory() {
    const ASKED: usize = 400;
    let mut victim = Victim::start(&[]);
    let mut connection = victim.connect();
    for id in 0..60 {
        let mut registration = Registration::new("LARGE", &format!("large-{id}"));
        for key in 0..8 {
            let value = format!("{id:03}{key}").repeat(1000);
            registration.metadata.insert(format!("key-{key}"), value);
        }
        let answer = connection.exchange(&registration.register()).unwrap();
        assert_eq!(answer.status, 204);
    }
    let all = request("GET", "/eureka/apps", &["Accept: application/json"], b"");
    let bytes = connection.exchange(&all).unwrap().body.len();
    assert!(bytes > 1 << 20, "{bytes}");
    let before = victim.server.resident_kib();
    let mut deaf = victim.connect();
    deaf.send(&all.repeat(ASKED)).unwrap();
    // In that time it could have written all of them.
    for _ in 0..ASKED / 4 {
        let answer = connection.exchange(&all).unwrap();
        assert_eq!(answer.body.len(), bytes);
    }
    let after = victim.server.resident_kib();
    let asked = (ASKED * bytes) >> 10;
    println!("{asked} KiB asked for: {before} KiB before, {after} KiB after");
    assert!(
        after < before + (48 << 10),
        "{before} KiB before, {after} after"
    );
    assert!(
        deaf.receive()
            .is_ok_and(|answer| answer.body.len() == bytes)
    );
    victim.server.assert_well();
}
