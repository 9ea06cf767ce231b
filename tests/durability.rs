//! What the program does with its disk, seen from outside: when it syncs, what it says about a data
//! directory that it cannot use, and how it goes on when the disk is full.
//!
//! Needs strace and the right to mount; where these are missing the tests fail and say so.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use support::http::request;
use support::mount::Mounted;
use support::trace::{self, Trace};
use support::{Connection, Listing, Registration, Server, get_json, wait_for};

const DISK_MIB: u32 = 288;

fn register(connection: &mut Connection, number: usize) -> support::Answer {
    let registration = Registration::new("DISK", &format!("disk-{number}"));
    let answer = connection.exchange(&registration.register()).unwrap();
    assert!(answer.body.is_empty(), "a body to a lease call");
    answer
}

fn ids(port: u16) -> BTreeSet<String> {
    let instances = Listing::of(port).instances();
    instances.into_keys().map(|(_, id)| id).collect()
}

/// Registers over several connections at once under strace, and judges the system calls.
fn answers_without_sync(durability: &str) -> (usize, usize) {
    const CONNECTIONS: usize = 4;
    const EACH: usize = 15;
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("trace");
    let wrapper = trace::wrapper(&output);
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let durability = format!("--eurekad.durability={durability}");
    let mut server = Server::spawn_under(&wrapper, &dir.path().join("data"), &[&durability]);
    server.wait_until_serving();
    let port = server.port();
    thread::scope(|scope| {
        for first in 0..CONNECTIONS {
            scope.spawn(move || {
                let mut connection = Connection::open(port).unwrap();
                for number in 0..EACH {
                    let answer = register(&mut connection, first * EACH + number);
                    assert_eq!(answer.status, 204);
                }
            });
        }
    });
    server.terminate();
    let (status, log) = server.wait();
    assert!(status.success(), "{status}:\n{log}");
    let trace = Trace::parse(&fs::read_to_string(&output).unwrap());
    let (without, all) = trace.unsafe_answers("204");
    assert_eq!(all, CONNECTIONS * EACH, "answers in the trace");
    (without, all)
}

#[test]
fn with_sync_durability_every_204_comes_after_a_sync_that_began_after_the_request() {
    let (without, all) = answers_without_sync("sync");
    assert_eq!(without, 0, "of {all} answers");
}

/// Shows that the judge of the test above can tell.
#[test]
fn with_process_durability_answers_do_not_wait_for_the_disk() {
    let (without, _) = answers_without_sync("process");
    assert!(without > 0, "every answer waited for a sync");
}

/// Starts on a directory that it cannot use: it must end by itself, and say why.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let (status, log) = Server::spawn(dir, arguments).wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    assert!(!log.contains("serving on port"), "{log}");
    log
}

fn assert_says(log: &str, words: &[&str]) {
    for word in words {
        assert!(log.contains(word), "it does not say {word:?}:\n{log}");
    }
}

#[test]
fn a_data_directory_that_is_a_file_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::write(&data, "not a directory").unwrap();
    let log = refused(&data, &[]);
    assert_says(
        &log,
        &["cannot use", &data.display().to_string(), "directory"],
    );
    assert_eq!(fs::read(&data).unwrap(), b"not a directory");
}

#[test]
fn a_read_only_data_directory_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Mounted::tmpfs(dir.path(), DISK_MIB);
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    mounted.make_read_only();
    // The log of the server has to go elsewhere.
    let logs = tempfile::tempdir().unwrap();
    let link = logs.path().join("data");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let log = refused(&link, &[]);
    assert_says(
        &log,
        &["cannot use", &link.display().to_string(), "may write"],
    );
}

#[test]
fn a_second_process_on_the_same_directory_ends_and_names_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut first = Server::start(&data, &[]);
    let log = refused(&data, &["--eurekad.store-lock-wait=200ms"]);
    assert_says(
        &log,
        &[&format!("another eurekad (pid {})", first.pid()), "stop it"],
    );
    assert_eq!(
        register(&mut Connection::open(first.port()).unwrap(), 0).status,
        204
    );
    first.assert_well();
}

#[test]
fn a_process_that_takes_over_waits_for_the_one_before_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let first = Server::start(&data, &[]);
    register(&mut Connection::open(first.port()).unwrap(), 0);
    let mut second = Server::spawn(&data, &["--eurekad.store-lock-wait=1m"]);
    wait_for("the second to wait", || {
        second.log().contains("waiting for it to end").then_some(())
    });
    first.terminate();
    second.wait_until_serving();
    assert_eq!(ids(second.port()).len(), 1);
}

/// A stopped store with some instances, all of them only in the log.
fn stopped_store(dir: &Path, instances: usize) -> PathBuf {
    let data = dir.join("data");
    let server = Server::start(&data, &["--eurekad.checkpoint-interval=1h"]);
    let mut connection = Connection::open(server.port()).unwrap();
    for number in 0..instances {
        assert_eq!(register(&mut connection, number).status, 204);
    }
    server.terminate();
    let (status, log) = server.wait();
    assert!(status.success(), "{status}:\n{log}");
    data
}

#[test]
fn a_store_of_a_newer_schema_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let data = stopped_store(dir.path(), 3);
    let set_schema = |schema: u32| {
        let database = sled::open(data.join("log")).unwrap();
        let meta = database.open_tree("meta").unwrap();
        let before = meta.insert("store/schema", &schema.to_le_bytes()).unwrap();
        database.flush().unwrap();
        u32::from_le_bytes(before.unwrap().as_ref().try_into().unwrap())
    };
    let known = set_schema(99);
    let log = refused(&data, &[]);
    assert_says(&log, &["has format 99", "start the newer version"]);
    assert_eq!(set_schema(known), 99, "the schema after the refusal");
    let server = Server::start(&data, &[]);
    assert_eq!(ids(server.port()).len(), 3);
}

#[test]
fn a_damaged_store_is_refused_with_the_way_out_and_moved_aside_if_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let data = stopped_store(dir.path(), 60);
    let file = data.join("log/db");
    let mut bytes = fs::read(&file).unwrap();
    let (from, to) = (bytes.len() / 3, bytes.len() / 2);
    bytes[from..to].fill(0xA5);
    fs::write(&file, &bytes).unwrap();
    for _ in 0..2 {
        let log = refused(&data, &[]);
        assert_says(&log, &["damaged", "eurekad.on-damaged-store=keep-rest"]);
        assert!(!log.contains("panicked"), "{log}");
    }

    let server = Server::start(&data, &["--eurekad.on-damaged-store=move-aside"]);
    assert_says(&server.log(), &["moved the damaged store to"]);
    assert_eq!(ids(server.port()).len(), 0);
    let mut connection = Connection::open(server.port()).unwrap();
    assert_eq!(register(&mut connection, 7).status, 204);
    server.kill();
    let aside = fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("quarantine-")
        })
        .expect("the damaged store is kept");
    assert!(aside.join("log/db").exists(), "the damaged log is kept");
    let server = Server::start(&data, &[]);
    assert_eq!(ids(server.port()).len(), 1, "the new store is a store");
}

#[test]
fn a_store_that_lost_its_tail_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = stopped_store(dir.path(), 60);
    let file = fs::File::options()
        .write(true)
        .open(data.join("log/db"))
        .unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let log = refused(&data, &[]);
    assert_says(&log, &["damaged", "eurekad.on-damaged-store"]);
}

/// A stopped store with some instances, all of them in its newest checkpoint.
fn stopped_with_a_checkpoint(dir: &Path, instances: usize) -> PathBuf {
    let data = stopped_store(dir, instances);
    let server = Server::start(&data, &["--eurekad.checkpoint-interval=1s"]);
    let mut connection = Connection::open(server.port()).unwrap();
    assert_eq!(register(&mut connection, instances).status, 204);
    let newest = data.join(format!("checkpoint-{:020}", instances + 1));
    wait_for("a checkpoint of everything", || {
        newest.exists().then_some(())
    });
    server.terminate();
    let (status, log) = server.wait();
    assert!(status.success(), "{status}:\n{log}");
    data
}

#[test]
fn a_log_that_is_gone_beside_a_good_checkpoint_costs_history_and_that_is_said() {
    for part in [0, 1, 10] {
        let dir = tempfile::tempdir().unwrap();
        let data = stopped_with_a_checkpoint(dir.path(), 60);
        let file = data.join("log/db");
        let mut bytes = fs::read(&file).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[used * part / 20..].fill(0);
        fs::write(&file, &bytes).unwrap();
        let server = Server::start(&data, &[]);
        let port = server.port();
        assert_eq!(ids(port).len(), 61, "the registry is whole");
        let log = server.log();
        assert_says(&log, &["acknowledged changes are lost", "to 61 are gone"]);
        assert!(!log.contains("panicked"), "{log}");
        let history = get_json(port, "/history");
        assert_eq!(history["complete"], false, "{history}");
        let note = history["note"].as_str().unwrap_or_default();
        assert!(note.contains("lost with a damaged store"), "{history}");
        if part == 10 {
            let told = get_json(port, "/registry?lsn=30");
            assert!(!told.is_null(), "the registry before what was lost");
        }
        server.kill();
        // It is known after another start too.
        let server = Server::start(&data, &[]);
        let mut connection = Connection::open(server.port()).unwrap();
        assert_eq!(register(&mut connection, 70).status, 204);
        let bytes = request("GET", "/registry?lsn=1", &[], b"");
        let answer = connection.exchange(&bytes).unwrap();
        if part == 0 {
            assert_eq!(answer.status, 410);
            let told = answer.json()["detail"].to_string();
            assert!(told.contains("were lost with a damaged store"), "{told}");
        }
        let note = get_json(server.port(), "/history")["note"].to_string();
        assert!(note.contains("lost with a damaged store"), "{note}");
    }
}

#[test]
fn a_small_disk_takes_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let _mounted = Mounted::tmpfs(dir.path(), 64);
    let server = Server::start(&dir.path().join("data"), &[]);
    let mut connection = Connection::open(server.port()).unwrap();
    assert_eq!(register(&mut connection, 0).status, 204);
}

#[test]
fn a_start_without_the_space_that_is_to_be_left_serves_and_takes_changes_once_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let _mounted = Mounted::tmpfs(dir.path(), DISK_MIB);
    let data = dir.path().join("data");
    let settings = ["--eurekad.store-min-free=200MiB"];
    let server = Server::start(&data, &settings);
    let mut connection = Connection::open(server.port()).unwrap();
    assert_eq!(register(&mut connection, 0).status, 204);
    server.terminate();
    let (status, log) = server.wait();
    assert!(status.success(), "{status}:\n{log}");

    let filler = dir.path().join("filler");
    fs::write(&filler, vec![1; 128 << 20]).unwrap();
    let mut server = Server::start(&data, &settings);
    let port = server.port();
    assert_eq!(ids(port).len(), 1, "what is there is served");
    let mut connection = Connection::open(port).unwrap();
    let answer = register(&mut connection, 1);
    assert_eq!(answer.status, 503);
    let reason = answer.header("x-eurekad-reason").expect("a reason");
    assert!(reason.contains("eurekad.store-min-free"), "{reason}");
    assert_eq!(health(port), (503, "DOWN".to_owned()));
    let renewal = Registration::new("DISK", "disk-0").renew();
    assert_eq!(connection.exchange(&renewal).unwrap().status, 200);

    fs::remove_file(filler).unwrap();
    wait_for("the node to take changes", || {
        (register(&mut connection, 1).status == 204).then_some(())
    });
    assert_eq!(health(port), (200, "UP".to_owned()));
    server.assert_well();
}

#[test]
fn a_node_on_a_volume_without_a_free_byte_starts_again_and_again_and_serves() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Mounted::tmpfs(dir.path(), 64);
    let logs = tempfile::tempdir().unwrap();
    let data = logs.path().join("data");
    fs::create_dir(dir.path().join("data")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("data"), &data).unwrap();
    let server = Server::start(&data, &[]);
    let mut connection = Connection::open(server.port()).unwrap();
    for number in 0..20 {
        assert_eq!(register(&mut connection, number).status, 204);
    }
    let known = ids(server.port());
    server.kill();

    for start in 0..3 {
        // What the node left free is taken each time, as another program would.
        let filler = mounted.fill();
        fs::rename(filler, dir.path().join(format!("filler-{start}"))).unwrap();
        let mut server = Server::start(&data, &[]);
        let port = server.port();
        assert_eq!(ids(port), known, "start {start}");
        let mut connection = Connection::open(port).unwrap();
        let answer = register(&mut connection, 100);
        assert_eq!(answer.status, 503, "start {start}");
        let reason = answer.header("x-eurekad-reason").expect("a reason");
        assert!(reason.contains("eurekad.store-min-free"), "{reason}");
        let renewal = Registration::new("DISK", "disk-0").renew();
        assert_eq!(connection.exchange(&renewal).unwrap().status, 200);
        if start < 2 {
            server.kill();
            continue;
        }
        for start in 0..3 {
            fs::remove_file(dir.path().join(format!("filler-{start}"))).unwrap();
        }
        wait_for("the node to take changes", || {
            (register(&mut connection, 100).status == 204).then_some(())
        });
        server.assert_well();
        server.kill();
    }
    let mut all = known;
    all.insert("disk-100".to_owned());
    let server = Server::start(&data, &[]);
    assert_eq!(ids(server.port()), all);
    server.kill();

    // Without what was set aside there is nothing to start with, and that is said.
    fs::remove_file(data.join("reserve")).unwrap();
    mounted.fill();
    let (status, log) = Server::spawn(&data, &[]).wait();
    assert!(!status.success(), "{log}");
    assert!(log.contains("a start takes up to 5 MiB"), "{log}");
}

/// Registers until the disk refuses; the ids that were acknowledged.
fn register_until_refused(connection: &mut Connection) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    for number in 1000..100_000 {
        let answer = register(connection, number);
        if answer.status == 204 {
            acknowledged.insert(format!("disk-{number}"));
            continue;
        }
        assert_eq!(answer.status, 503);
        let reason = answer.header("x-eurekad-reason").expect("a reason");
        assert!(reason.contains("store does not take changes"), "{reason}");
        return acknowledged;
    }
    panic!("a full disk took every change");
}

fn health(port: u16) -> (u16, String) {
    let bytes = request("GET", "/actuator/health", &["Connection: close"], b"");
    let answer = Connection::open(port).unwrap().exchange(&bytes).unwrap();
    let word = answer.json()["status"].as_str().unwrap().to_owned();
    (answer.status, word)
}

#[test]
fn a_full_disk_refuses_changes_keeps_the_rest_going_and_is_left_behind_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Mounted::tmpfs(dir.path(), DISK_MIB);
    let logs = tempfile::tempdir().unwrap();
    let data = logs.path().join("data");
    fs::create_dir(dir.path().join("data")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("data"), &data).unwrap();
    let mut server = Server::start(&data, &[]);
    let port = server.port();
    let mut connection = Connection::open(port).unwrap();
    let mut acknowledged = BTreeSet::new();
    for number in 0..20 {
        assert_eq!(register(&mut connection, number).status, 204);
        acknowledged.insert(format!("disk-{number}"));
    }
    assert_eq!(health(port), (200, "UP".to_owned()));
    let version = Listing::fetch(port, "/eureka/apps/delta").version;

    let filler = mounted.fill();
    acknowledged.extend(register_until_refused(&mut connection));
    for number in 0..20 {
        let renewal = Registration::new("DISK", &format!("disk-{number}")).renew();
        let answer = connection.exchange(&renewal).unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 0), "a heartbeat");
    }
    assert_eq!(ids(port), acknowledged, "reads on a full disk");
    assert_eq!(health(port), (503, "DOWN".to_owned()));
    get_json(port, "/actuator/health/liveness");
    let target = "/eureka/apps/DISK/disk-0";
    for refused in [
        request("DELETE", target, &[], b""),
        request("PUT", &format!("{target}/status?value=DOWN"), &[], b""),
        request("PUT", &format!("{target}/metadata?a=b"), &[], b""),
    ] {
        let answer = connection.exchange(&refused).unwrap();
        assert_eq!((answer.status, answer.body.len()), (503, 0));
        assert!(answer.header("x-eurekad-reason").is_some());
    }
    assert_eq!(ids(port), acknowledged, "what was refused was not applied");

    fs::remove_file(filler).unwrap();
    wait_for("the node to take changes again", || {
        (register(&mut connection, 50).status == 204).then_some(())
    });
    acknowledged.insert("disk-50".to_owned());
    assert_eq!(health(port), (200, "UP".to_owned()));
    let now = ids(port);
    assert!(
        now.is_superset(&acknowledged),
        "lost: {:?}",
        &acknowledged - &now
    );
    // What was on the disk but never acknowledged is one batch at most.
    assert!(
        now.len() <= acknowledged.len() + 1,
        "{:?}",
        &now - &acknowledged
    );
    assert!(Listing::fetch(port, "/eureka/apps/delta").version >= version);
    let before = Listing::of(port);
    server.assert_well();
    server.kill();

    let server = Server::start(&data, &[]);
    let after = Listing::of(server.port());
    assert_eq!(
        before.instances(),
        after.instances(),
        "after another restart"
    );
    assert_eq!(before.hash, after.hash);
}

#[test]
fn a_full_disk_ends_the_node_if_it_is_to_exit_on_a_store_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Mounted::tmpfs(dir.path(), DISK_MIB);
    let logs = tempfile::tempdir().unwrap();
    let data = logs.path().join("data");
    fs::create_dir(dir.path().join("data")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("data"), &data).unwrap();
    let server = Server::start(&data, &["--eurekad.on-store-failure=exit"]);
    let mut connection = Connection::open(server.port()).unwrap();
    assert_eq!(register(&mut connection, 0).status, 204);
    let filler = mounted.fill();
    let mut acknowledged = register_until_refused(&mut connection);
    acknowledged.insert("disk-0".to_owned());
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert_says(&log, &["the node cannot go on"]);

    fs::remove_file(filler).unwrap();
    let server = Server::start(&data, &[]);
    assert!(ids(server.port()).is_superset(&acknowledged));
}
