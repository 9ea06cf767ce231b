//! A restart: the state that comes back is the state that was there.

use proptest::prelude::*;

use super::*;
use crate::registry::change::LeaseImage;
use crate::registry::command::Eviction;
use crate::registry::status::Status;
use crate::registry::tests::steps::{Step, cases, rules, step};
use crate::registry::tests::{instance, set, version};
use crate::store::testing::through_bytes;
use crate::types::{AppName, InstanceId, Millis};

/// A lease without the times that renewals move.
fn settled(image: &LeaseImage) -> LeaseImage {
    LeaseImage {
        renewed_at: Millis::ZERO,
        ..image.clone()
    }
}

type Row = (AppName, InstanceId, Lsn, LeaseImage);

fn rows(registry: &Registry) -> Vec<Row> {
    let leases = registry.leases().map(|lease| {
        let instance = lease.instance();
        (
            instance.app.clone(),
            instance.id(),
            lease.lsn,
            settled(&lease.image),
        )
    });
    leases.collect()
}

fn assert_same(live: &Registry, found: &Registry) {
    found.check().unwrap();
    assert_eq!(rows(live), rows(found));
    let overrides = |r: &Registry| -> Vec<_> {
        r.overrides()
            .map(|(key, status)| (key.clone(), status))
            .collect()
    };
    assert_eq!(overrides(live), overrides(found));
    assert_eq!(live.status_counts(), found.status_counts());
    assert_eq!(live.hash_code(), found.hash_code());
    let expected = [live, found].map(Registry::expected_renewals_per_minute);
    assert!((expected[0] - expected[1]).abs() < 1e-6, "{expected:?}");
    assert_eq!(live.lsn(), found.lsn());
    for is_secure in [false, true] {
        for vip in ["a", "b", "c"] {
            let apps = |r: &Registry| -> Option<Vec<AppName>> {
                r.vip(vip, is_secure)
                    .map(|(_, apps)| apps.cloned().collect())
            };
            assert_eq!(apps(live), apps(found), "{vip}");
        }
    }
}

fn net(state: &Published) -> Vec<(AppName, Vec<LeaseImage>)> {
    let net = state.delta.net(&state.registry).into_iter();
    net.map(|(app, images)| (app, images.iter().map(settled).collect()))
        .collect()
}

/// Positions of what can be read by itself, exact where nothing but records was read.
fn positions(registry: &Registry) -> Vec<(String, Lsn)> {
    let apps = registry
        .apps()
        .map(|(name, app)| (name.to_string(), app.lsn()));
    let vips = [false, true].into_iter().flat_map(|is_secure| {
        ["a", "b", "c"].into_iter().filter_map(move |vip| {
            let lsn = registry.vip(vip, is_secure)?.0;
            Some((format!("{vip} {is_secure}"), lsn))
        })
    });
    apps.chain(vips).collect()
}

#[derive(Clone, Debug)]
enum Move {
    Step(Step),
    Checkpoint,
    Kill(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        20 => step().prop_map(Move::Step),
        1 => Just(Move::Checkpoint),
        1 => prop_oneof![Just(0), 0..1_000_000u64].prop_map(Move::Kill),
    ];
    prop::collection::vec(one, 1..60)
}

async fn take(rig: &Rig, step: &Step) {
    match step {
        Step::Do {
            is_replication,
            command,
        } => {
            rig.submit(vec![command.clone()], *is_replication)
                .await
                .unwrap();
        }
        Step::Pass(ms) => {
            rig.clock.advance(*ms);
            rig.tick().await;
            let retention_ms = RETENTION_MS;
            rig.maintain(Maintenance::TrimDelta { retention_ms }).await;
        }
        Step::Protect(_) => {}
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn a_restart_brings_back_the_state_and_the_delta(rules in rules(), moves in moves()) {
        let runtime = runtime();
        let mut rig = Rig::start(&rules, Some(Durability::Disk));
        let mut has_been_down = false;
        for one in moves.into_iter().chain([Move::Kill(1)]) {
            match one {
                Move::Step(step) => runtime.block_on(take(&rig, &step)),
                Move::Checkpoint => rig.checkpoint(),
                Move::Kill(downtime) => {
                    runtime.block_on(rig.tick());
                    let before = rig.log.snapshot();
                    rig = rig.kill(downtime);
                    let after = rig.log.snapshot();
                    assert_same(&before.registry, &after.registry);
                    // The time of an earlier absence does age what came before it.
                    if !has_been_down {
                        prop_assert_eq!(net(&before), net(&after));
                    }
                    has_been_down |= downtime > 0;
                    prop_assert!(after.registry.visible_lsn() >= before.registry.visible_lsn());
                    // Everybody has a full lease from now on.
                    let now = rig.clock.now();
                    for lease in after.registry.leases() {
                        prop_assert_eq!(lease.remaining_ms(now.mono), lease.image.duration_ms);
                    }
                }
            }
        }
    }

    #[test]
    fn replaying_stored_records_gives_the_state_and_every_position(
        rules in rules(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut live = crate::registry::tests::Scene::new(&rules);
        for step in &steps {
            live.take(step);
        }
        let mut found = Registry::new(Arc::new(rules));
        for record in &live.log {
            let read = through_bytes(record);
            prop_assert_eq!(&read, &**record);
            found.evolve(&read, Millis(1));
        }
        assert_same(&live.registry, &found);
        prop_assert_eq!(live.registry.visible_lsn(), found.visible_lsn());
        prop_assert_eq!(positions(&live.registry), positions(&found));
        let renewed = |r: &Registry| -> Vec<Millis> {
            r.leases().map(|lease| lease.image.renewed_at).collect()
        };
        prop_assert_eq!(renewed(&live.registry), renewed(&found));
    }
}

#[tokio::test]
async fn an_empty_disk_says_that_it_is_empty_and_a_used_one_does_not() {
    let rig = Rig::sync();
    assert!(rig.facts.is_empty);
    rig.client(register("1")).await.unwrap();
    rig.client(crate::registry::tests::cancel("SHOP", "1"))
        .await
        .unwrap();
    let rig = rig.kill(0);
    assert!(rig.log.published().registry.is_empty());
    assert!(!rig.facts.is_empty, "it was emptied, it is not new");
    assert_eq!(
        (rig.facts.replayed, rig.facts.checkpoint_lsn),
        (2, Lsn::ZERO)
    );
}

#[tokio::test]
async fn only_what_is_behind_the_checkpoint_is_replayed() {
    let rig = Rig::sync();
    for id in ["1", "2", "3"] {
        rig.client(register(id)).await.unwrap();
    }
    let out = set("SHOP", "2", Status::OutOfService, None);
    rig.client(out).await.unwrap();
    rig.checkpoint();
    rig.client(register("4")).await.unwrap();
    let rig = rig.kill(0);
    assert_eq!((rig.facts.replayed, rig.facts.checkpoint_lsn), (1, Lsn(4)));
    let state = rig.log.snapshot();
    assert_eq!(state.registry.hash_code(), "OUT_OF_SERVICE_1_UP_3_");
    assert_eq!(state.registry.overrides().count(), 1);
    assert_eq!(
        state.delta.len(),
        5,
        "the window reaches behind the checkpoint"
    );
}

#[tokio::test]
async fn a_checkpoint_knows_when_leases_were_renewed() {
    use crate::registry::command::Renewal;
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.clock.advance(30_000);
    rig.log
        .renew("SHOP", "1", Renewal::default(), false)
        .unwrap();
    rig.checkpoint();
    let rig = rig.kill(500_000);
    let state = rig.log.snapshot();
    let lease = state.registry.lease("SHOP", "1").unwrap();
    assert_eq!(lease.clock.renewed_wall(), Millis(START + 30_000));
}

#[tokio::test]
async fn a_recovered_lease_lives_one_more_duration_and_the_dead_still_go() {
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.clock.advance(80_000);
    let rig = rig.kill(3_600_000);
    let evict = || {
        Command::Evict(Eviction {
            extra_ms: 0,
            renewal_percent_threshold: 0.85,
            seed: 1,
        })
    };
    rig.clock.advance(90_000);
    assert_eq!(rig.client(evict()).await, Ok(Said::Evicted(0, 0)));
    rig.clock.advance(1);
    assert_eq!(rig.client(evict()).await, Ok(Said::Evicted(1, 1)));
}

#[tokio::test]
async fn the_delta_window_is_that_of_the_moment_when_the_node_last_lived() {
    let rig = Rig::sync();
    rig.client(register("old")).await.unwrap();
    rig.clock.advance(100_000);
    rig.client(register("young")).await.unwrap();
    rig.clock.advance(80_001);
    rig.tick().await;
    // An hour without the node ages nothing: "old" is over by one millisecond, "young" is not.
    let rig = rig.kill(3_600_000);
    assert_eq!(rig.log.published().delta.len(), 1);
    rig.clock.advance(99_999);
    let retention_ms = RETENTION_MS;
    rig.maintain(Maintenance::TrimDelta { retention_ms }).await;
    assert_eq!(rig.log.published().delta.len(), 1);
    rig.clock.advance(1);
    rig.maintain(Maintenance::TrimDelta { retention_ms }).await;
    assert_eq!(rig.log.published().delta.len(), 0);
}

#[tokio::test]
async fn a_wall_clock_that_was_set_back_does_not_age_the_delta_window() {
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.clock.step_wall(START - 3_600_000);
    let again = version(101, instance("SHOP", "1"));
    rig.client(Command::Register(again.into())).await.unwrap();
    rig.client(register("2")).await.unwrap();
    let rig = rig.kill(0);
    let retention_ms = RETENTION_MS;
    rig.maintain(Maintenance::TrimDelta { retention_ms }).await;
    assert_eq!(rig.log.published().delta.len(), 3);
}
