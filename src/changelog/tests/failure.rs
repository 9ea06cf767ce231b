//! A disk that fails: changes are refused and leave no trace, everything else goes on, and the
//! store is opened again (design 2).

use super::*;
use crate::registry::command::Renewal;
use crate::store::testing::{Operation, registered};
use crate::types::Millis;

fn is_refused<T>(answer: &Result<T, Unavailable>) -> bool {
    matches!(answer, Err(Unavailable::StoreFailed(reason)) if reason.contains("no space left"))
}

fn is_failed(rig: &Rig) -> bool {
    matches!(rig.health(), StoreHealth::Failed(reason) if reason.contains("no space left"))
}

#[tokio::test]
async fn a_failed_append_or_commit_refuses_the_whole_batch_and_shows_nothing_of_it() {
    for operation in [Operation::Append, Operation::Commit] {
        let rig = Rig::sync();
        rig.client(register("1")).await.unwrap();
        rig.faults.fill_disk(operation, 1);
        let commands = vec![register("2"), register("3")];
        let answer = rig.submit(commands, false).await;
        assert!(is_refused(&answer), "{operation:?}: {answer:?}");
        assert!(is_failed(&rig));
        assert!(!rig.has("SHOP", "2"));
        let state = rig.log.snapshot();
        assert_eq!((state.lsn(), state.delta.len()), (Lsn(1), 1));
        assert_eq!(*rig.log.subscribe().borrow(), Lsn(1));

        // Refused without touching the store again.
        let calls = rig.faults.calls().len();
        assert!(is_refused(&rig.client(register("4")).await));
        assert_eq!(rig.faults.calls().len(), calls);
        // Reads and renewals go on, and what changes nothing is answered.
        assert!(rig.has("SHOP", "1"));
        rig.clock.advance(1_000);
        let beat = rig.log.renew("SHOP", "1", Renewal::default(), false);
        assert_eq!(beat.as_ref().map(Said::from), Ok(Said::Done));
        let nobody = crate::registry::tests::cancel("SHOP", "9");
        assert_eq!(rig.client(nobody).await, Ok(Said::NotFound));
    }
}

#[tokio::test]
async fn a_failed_store_is_opened_again_after_a_few_ticks_and_takes_changes() {
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.faults.fill_disk(Operation::Commit, 1);
    assert!(is_refused(&rig.client(register("2")).await));
    for _ in 0..4 {
        rig.tick().await;
        assert!(is_failed(&rig), "not at every tick");
    }
    rig.tick().await;
    assert_eq!(rig.health(), StoreHealth::Working);
    assert_eq!(rig.client(register("3")).await, Ok(Said::Done));
    assert_eq!(rig.stored(), [1, 2], "the refused one is not there");
    assert!(!rig.has("SHOP", "2"));
    let rig = rig.kill(0);
    assert!(rig.has("SHOP", "1") && rig.has("SHOP", "3") && !rig.has("SHOP", "2"));
}

#[tokio::test]
async fn a_disk_that_stays_full_is_tried_again_and_again() {
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.faults.fill_disk(Operation::Append, 1);
    assert!(is_refused(&rig.client(register("2")).await));
    rig.close_off(true);
    rig.ticks_until_reopened().await;
    rig.ticks_until_reopened().await;
    assert!(is_failed(&rig));
    assert!(is_refused(&rig.client(register("2")).await));
    rig.close_off(false);
    rig.ticks_until_reopened().await;
    assert_eq!(rig.health(), StoreHealth::Working);
    assert_eq!(rig.client(register("2")).await, Ok(Said::Done));
}

#[tokio::test]
async fn a_refused_change_that_reached_the_disk_all_the_same_is_taken_over() {
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.faults.fill_disk(Operation::Commit, 1);
    assert!(is_refused(&rig.client(register("2")).await));
    // What the commit did before it reported a failure.
    let mut behind = rig.disk.open(rig.clock.now().wall);
    let record = Arc::new(registered(2, START));
    behind.store.append(std::slice::from_ref(&record)).unwrap();
    behind.store.commit(Durability::Disk).unwrap();
    drop(behind);

    let moved = rig.log.subscribe();
    rig.ticks_until_reopened().await;
    let state = rig.log.snapshot();
    assert_eq!(state.lsn(), Lsn(2));
    assert!(rig.has("SHOP", "host-2"));
    assert_eq!(state.delta.len(), 2, "clients are told");
    assert_eq!(*moved.borrow(), Lsn(2));
    state.registry.check().unwrap();
    assert_eq!(rig.client(register("3")).await, Ok(Said::Done));
    assert_eq!(rig.stored(), [1, 2, 3]);
}

#[tokio::test]
async fn acknowledged_changes_of_interval_mode_are_appended_again() {
    let rig = Rig::start(&Rules::default(), None);
    rig.client(register("1")).await.unwrap();
    rig.tick().await;
    rig.client(register("2")).await.unwrap();
    rig.client(register("3")).await.unwrap();
    rig.faults.fill_disk(Operation::Commit, 1);
    rig.tick().await;
    assert!(is_failed(&rig));
    assert!(is_refused(&rig.client(register("4")).await));
    assert!(rig.has("SHOP", "3"), "acknowledged is acknowledged");
    rig.ticks_until_reopened().await;
    assert_eq!(rig.health(), StoreHealth::Working);
    assert_eq!(rig.stored(), [1, 2, 3]);
    assert_eq!(rig.client(register("5")).await, Ok(Said::Done));
    rig.tick().await;
    let rig = rig.kill(0);
    assert_eq!(rig.log.published().registry.len(), 4);
}

#[tokio::test]
async fn a_batch_that_interval_mode_refuses_is_not_appended_again() {
    let rig = Rig::start(&Rules::default(), None);
    rig.client(register("kept")).await.unwrap();
    rig.faults.fill_disk(Operation::Commit, 1);
    // So many open records have to be committed at once.
    let crowd = (0..10_000).map(|id| register(&id.to_string())).collect();
    let answer = rig.submit(crowd, false).await;
    assert!(is_refused(&answer));
    assert_eq!(rig.log.published().registry.len(), 1);
    rig.ticks_until_reopened().await;
    assert_eq!(rig.stored(), [1]);
    assert_eq!(rig.client(register("next")).await, Ok(Said::Done));
    assert_eq!(rig.log.published().lsn(), Lsn(2));
    assert_eq!(rig.health(), StoreHealth::Working);
}

#[tokio::test]
async fn closing_a_failed_store_tries_to_keep_what_was_acknowledged_and_says_so_if_it_cannot() {
    for can_open in [true, false] {
        let rig = Rig::start(&Rules::default(), None);
        rig.client(register("1")).await.unwrap();
        rig.faults.fill_disk(Operation::Commit, 1);
        rig.tick().await;
        rig.close_off(!can_open);
        let closed = rig.log.close().await;
        if can_open {
            assert_eq!(closed, Ok(()));
            assert!(rig.kill(0).has("SHOP", "1"));
        } else {
            let reason = closed.unwrap_err();
            assert!(reason.starts_with("1 acknowledged changes"), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_failed_watermark_or_trim_fails_the_store_but_not_what_is_committed() {
    let rig = Rig::sync();
    rig.faults.fill_disk(Operation::Watermark, 1);
    assert_eq!(rig.client(register("1")).await, Ok(Said::Done));
    assert!(is_failed(&rig));
    rig.ticks_until_reopened().await;
    assert_eq!(rig.health(), StoreHealth::Working);
    assert_eq!(rig.client(register("2")).await, Ok(Said::Done));
    assert_eq!(rig.stored(), [1, 2]);

    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.faults.fill_disk(Operation::Trim, 1);
    rig.maintain(Maintenance::TrimLog { floor: Lsn(2) }).await;
    assert!(is_failed(&rig));
}

/// After a loss the store leaves positions out, so that none is given out twice.
#[tokio::test]
async fn positions_that_a_reopened_store_leaves_out_are_not_given_out() {
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.faults.fill_disk(Operation::Commit, 1);
    assert!(is_refused(&rig.client(register("2")).await));
    let mut skipping = rig.disk.open(Millis(START));
    skipping
        .store
        .touch_watermark(Lsn(20_001), Millis(START))
        .unwrap();
    drop(skipping);
    rig.ticks_until_reopened().await;
    assert_eq!(rig.health(), StoreHealth::Working);
    assert_eq!(rig.client(register("3")).await, Ok(Said::Done));
    assert_eq!(rig.log.published().lsn(), Lsn(20_002));
    assert_eq!(rig.health(), StoreHealth::Working);
}

/// With `process` durability a power failure takes what was acknowledged; the memory still has it.
#[tokio::test]
async fn acknowledged_changes_that_the_disk_lost_are_saved_from_memory() {
    let rig = Rig::start(&Rules::default(), Some(Durability::Flush));
    rig.client(register("1")).await.unwrap();
    rig.client(register("2")).await.unwrap();
    rig.disk.cut_power();
    let refused = rig.client(register("3")).await;
    assert!(
        matches!(refused, Err(Unavailable::StoreFailed(_))),
        "{refused:?}"
    );
    rig.ticks_until_reopened().await;
    assert_eq!(rig.health(), StoreHealth::Working);
    assert_eq!(rig.client(register("4")).await, Ok(Said::Done));
    let rig = rig.kill(0);
    for id in ["1", "2", "4"] {
        assert!(rig.has("SHOP", id), "{id}");
    }
}

#[tokio::test]
async fn a_writer_that_panics_is_reported_and_refuses() {
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.faults
        .fail(Operation::Append, 1, || panic!("planned by a test"));
    let mut health = rig.log.health();
    assert_eq!(rig.client(register("2")).await, Err(Unavailable::Closed));
    let failed = health.wait_for(|health| matches!(health, StoreHealth::Failed(_)));
    assert_eq!(
        *failed.await.unwrap(),
        StoreHealth::Failed("the writer panicked".into())
    );
    assert!(rig.log.has_ended());
    assert!(rig.has("SHOP", "1") && !rig.has("SHOP", "2"));
    let beat = rig.log.renew("SHOP", "1", Renewal::default(), false);
    assert_eq!(beat.as_ref().map(Said::from), Ok(Said::Done));
}
