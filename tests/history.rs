//! The history over HTTP, on a store with a million records that another life left: questions cost
//! their answers, pages add up, and bad input is told what is wrong with it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the environment and wait on the system's clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use eurekad::registry::change::{
    Actor, Change, ChangeKind, LeaseImage, Origin, OverrideEffect, Record,
};
use eurekad::registry::status::Status;
use eurekad::store::{
    CheckpointLease, CheckpointSource, Durability, LogReader, StoreOptions, testing,
};
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
        let (kind, override_effect) = match round {
            0 => (ChangeKind::Registered, OverrideEffect::Keep),
            _ => (ChangeKind::OverrideSet, OverrideEffect::Set(status)),
        };
        Arc::new(Record {
            lsn: Lsn(lsn),
            at: Millis(START + lsn * STEP),
            origin: Origin::Operator,
            actor: actor.clone(),
            change: Change {
                app,
                id,
                kind,
                lease: Some(images[place][usize::try_from(round % 2).unwrap()].clone()),
                override_effect,
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
            let own = if instance <= (lsn - 1) % INSTANCES { round } else { round - 1 };
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

fn lsns(page: &Value) -> Vec<u64> {
    let entries = page["entries"].as_array().expect("entries");
    entries.iter().map(|entry| entry["lsn"].as_u64().unwrap()).collect()
}

#[test]
fn a_million_records() {
    let begun = std::time::Instant::now();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    write_log(&data, RECORDS);
    println!("{:?} written", begun.elapsed());
    let mut server = Server::start(&data, &["--eurekad.durability=process", "--logging.level.eurekad=info"]);
    println!("{:?} started", begun.elapsed());
    let port = server.port();
    wait_for("the index", || {
        let node = get_json(port, "/node");
        let segments = node["store"]["segments"].as_u64()?;
        let indexed = node["store"]["history"]["index"]["segments"].as_u64()?;
        (indexed + 1 >= segments).then_some(())
    });
    println!("{:?} indexed", begun.elapsed());
    server.assert_well();
}
