//! Nothing is acknowledged or shown before it is as safe as configured.

use super::*;
use crate::registry::status::Status;
use crate::registry::tests::{instance, renew, set, version};
use crate::store::testing::{Call, Operation};

/// Lets tasks that were spawned reach the point where they wait for the writer.
async fn hand_over() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn in_sync_mode_no_answer_and_no_publication_precede_the_commit_to_the_disk() {
    let rig = Arc::new(Rig::sync());
    let moved = rig.log.subscribe();
    rig.faults.block_commits();
    let waiting = {
        let rig = rig.clone();
        tokio::spawn(async move { rig.client(register("1")).await })
    };
    hand_over().await;
    rig.faults.wait_for_blocked_commit();
    hand_over().await;
    assert_eq!(
        rig.faults.calls(),
        [Call::Append(Lsn(1), Lsn(1)), Call::Commit(Durability::Disk)]
    );
    assert!(!waiting.is_finished());
    assert!(!rig.has("SHOP", "1"));
    assert_eq!(rig.log.published().lsn(), Lsn::ZERO);
    assert!(!moved.has_changed().unwrap());
    assert_eq!(
        rig.stored(),
        [] as [u64; 0],
        "nor do readers of the log see it"
    );

    rig.faults.release_commits();
    assert_eq!(waiting.await.unwrap(), Ok(Said::Done));
    assert!(rig.has("SHOP", "1"), "published before it is answered");
    assert_eq!(*moved.borrow(), Lsn(1));
    assert_eq!(rig.stored(), [1]);
    assert_eq!(rig.log.changes().map(|(_, n)| n).sum::<u64>(), 1);
}

#[tokio::test]
async fn what_waits_during_a_commit_goes_into_one_commit_together() {
    let rig = Arc::new(Rig::sync());
    rig.faults.block_commits();
    let mut waiting = Vec::new();
    for id in 0..21 {
        let shared = rig.clone();
        waiting.push(tokio::spawn(async move {
            shared.client(register(&id.to_string())).await
        }));
        hand_over().await;
        if id == 0 {
            rig.faults.wait_for_blocked_commit();
        }
    }
    rig.faults.release_commits();
    for answer in waiting {
        assert_eq!(answer.await.unwrap(), Ok(Said::Done));
    }
    assert_eq!(rig.faults.count(Operation::Commit), 2);
    assert_eq!(rig.stored().len(), 21);
}

#[tokio::test]
async fn the_commands_of_a_request_see_each_other_and_are_answered_in_order() {
    let rig = Rig::sync();
    let commands = vec![
        renew("SHOP", "1", None, None),
        register("1"),
        renew("SHOP", "1", Some(101), None),
        set("SHOP", "1", Status::OutOfService, None),
        Command::Register(version(1, instance("SHOP", "1")).into()),
    ];
    let said = rig.submit(commands, false).await.unwrap();
    assert_eq!(
        said,
        [
            Said::NotFound,
            Said::Done,
            Said::SenderIsNewer,
            Said::Done,
            Said::Done
        ]
    );
    assert_eq!(rig.faults.count(Operation::Commit), 1);
    assert_eq!(rig.stored(), [1, 2, 3]);
    assert_eq!(rig.submit(Vec::new(), false).await, Ok(Vec::new()));
}

#[tokio::test]
async fn what_changes_nothing_is_answered_without_the_disk() {
    let rig = Rig::sync();
    rig.client(register("1")).await.unwrap();
    rig.faults.fill_disk(Operation::Append, 1);
    let nobody = crate::registry::tests::cancel("SHOP", "2");
    assert_eq!(rig.client(nobody).await, Ok(Said::NotFound));
    assert_eq!(
        rig.client(renew("SHOP", "1", None, None)).await,
        Ok(Said::Done)
    );
    assert_eq!(rig.faults.count(Operation::Append), 1);
}

#[tokio::test]
async fn in_process_mode_an_acknowledgement_follows_a_flush() {
    let rig = Rig::start(&Rules::default(), Some(Durability::Flush));
    rig.client(register("1")).await.unwrap();
    let calls = rig.faults.calls();
    assert_eq!(
        calls[..2],
        [
            Call::Append(Lsn(1), Lsn(1)),
            Call::Commit(Durability::Flush)
        ]
    );
    let rig = rig.kill(1_000);
    assert!(rig.has("SHOP", "1"), "it survives the process");
}

#[tokio::test]
async fn in_interval_mode_an_answer_comes_at_once_and_the_disk_at_the_tick() {
    let rig = Rig::start(&Rules::default(), None);
    rig.client(register("1")).await.unwrap();
    rig.client(register("2")).await.unwrap();
    assert!(rig.has("SHOP", "2"));
    assert_eq!(rig.faults.count(Operation::Commit), 0);
    // The watermark claims nothing that a crash could take.
    assert!(rig.faults.calls().contains(&Call::Watermark(Lsn(0))));
    assert!(!rig.faults.calls().contains(&Call::Watermark(Lsn(1))));
    rig.tick().await;
    assert_eq!(rig.faults.count(Operation::Commit), 1);
    assert_eq!(rig.stored(), [1, 2]);
    assert_eq!(rig.faults.calls().last(), Some(&Call::Watermark(Lsn(2))));

    rig.client(register("3")).await.unwrap();
    let rig = rig.kill(1_000);
    assert!(rig.has("SHOP", "2") && !rig.has("SHOP", "3"));
}

#[tokio::test]
async fn closing_commits_what_is_open_and_refuses_what_comes_later() {
    for durability in [Some(Durability::Disk), None] {
        let rig = Rig::start(&Rules::default(), durability);
        rig.client(register("1")).await.unwrap();
        assert_eq!(rig.log.close().await, Ok(()));
        assert_eq!(rig.client(register("2")).await, Err(Unavailable::Closed));
        assert_eq!(rig.log.close().await, Ok(()), "once more does no harm");
        let mut health = rig.log.health();
        let closed = health.wait_for(|health| *health == StoreHealth::Closed);
        assert!(closed.await.is_ok());
        assert!(rig.log.has_ended());
        // Reads and renewals go on.
        assert!(rig.has("SHOP", "1"));
        let rig = rig.kill(0);
        assert!(
            rig.has("SHOP", "1") && !rig.has("SHOP", "2"),
            "{durability:?}"
        );
    }
}

#[tokio::test]
async fn requests_that_wait_behind_a_close_are_refused_and_those_before_it_are_not() {
    let rig = Arc::new(Rig::sync());
    rig.faults.block_commits();
    let spawn = |id: &'static str| {
        let rig = rig.clone();
        tokio::spawn(async move { rig.client(register(id)).await })
    };
    let first = spawn("1");
    hand_over().await;
    rig.faults.wait_for_blocked_commit();
    let second = spawn("2");
    hand_over().await;
    let closing = {
        let log = rig.log.clone();
        tokio::spawn(async move { log.close().await })
    };
    hand_over().await;
    let third = spawn("3");
    hand_over().await;
    rig.faults.release_commits();
    assert_eq!(first.await.unwrap(), Ok(Said::Done));
    assert_eq!(second.await.unwrap(), Ok(Said::Done));
    assert_eq!(closing.await.unwrap(), Ok(()));
    assert_eq!(third.await.unwrap(), Err(Unavailable::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_after_a_while_and_works_again_when_it_drains() {
    let rig = Arc::new(Rig::sync());
    rig.faults.block_commits();
    let first = {
        let rig = rig.clone();
        tokio::spawn(async move { rig.client(register("1")).await })
    };
    hand_over().await;
    rig.faults.wait_for_blocked_commit();
    for _ in 0..QUEUE_MAX {
        rig.log.maintain(Maintenance::Tick).await;
    }
    let refused = rig.client(register("2")).await;
    assert_eq!(refused, Err(Unavailable::Overloaded));
    rig.faults.release_commits();
    assert_eq!(first.await.unwrap(), Ok(Said::Done));
    // The paused clock runs ahead of the writer, which is a real thread.
    let accepted = loop {
        let answer = rig.client(register("3")).await;
        if answer != Err(Unavailable::Overloaded) {
            break answer;
        }
    };
    assert_eq!(accepted, Ok(Said::Done));
    assert!(!rig.has("SHOP", "2"));
}

#[tokio::test]
async fn a_heartbeat_that_changes_nothing_never_reaches_the_writer() {
    use crate::registry::command::Renewal;
    let rig = Arc::new(Rig::sync());
    rig.client(register("1")).await.unwrap();
    rig.faults.block_commits();
    let blocked = {
        let rig = rig.clone();
        tokio::spawn(async move { rig.client(register("2")).await })
    };
    hand_over().await;
    rig.faults.wait_for_blocked_commit();
    // The writer stands still; heartbeats do not.
    rig.clock.advance(50_000);
    let beat = |id: &str, renewal: Renewal, is_peer: bool| {
        let reply = rig.log.renew("SHOP", id, renewal, is_peer);
        reply.as_ref().map(Said::from).map_err(|needs| *needs)
    };
    assert_eq!(beat("1", Renewal::default(), false), Ok(Said::Done));
    assert_eq!(beat("2", Renewal::default(), false), Ok(Said::NotFound));
    let newer = Renewal {
        dirty: Some(101),
        overridden: Some(Status::OutOfService),
    };
    assert_eq!(beat("1", newer, false), Ok(Said::SenderIsNewer));
    assert_eq!(
        beat("1", newer, true),
        Err(NeedsLog),
        "it brings an override"
    );
    let state = rig.log.snapshot();
    let lease = state.registry.lease("SHOP", "1").unwrap();
    assert_eq!(lease.clock.renewed_wall().0, START + 50_000);
    assert_eq!(rig.log.meter().total(), 2);
    rig.faults.release_commits();
    blocked.await.unwrap().unwrap();

    // A version published meanwhile shares the clock: the renewal is not lost.
    let state = rig.log.snapshot();
    let lease = state.registry.lease("SHOP", "1").unwrap();
    assert_eq!(lease.clock.renewed_wall().0, START + 50_000);
}
