//! `protocol.md` 1.8 and 3.3: heartbeats.

use super::*;
use crate::registry::instance::ActionType;

#[test]
fn renew_of_an_unknown_instance_is_not_found_and_changes_nothing() {
    for (_, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        assert_eq!(scene.renew("SHOP", "2"), Said::NotFound);
        assert_eq!(scene.renew("CART", "1"), Said::NotFound);
        assert_eq!(scene.log.len(), 1);
        assert_eq!(scene.renewals, 0);
    }
}

/// The table of 1.8: the lease is renewed in every row of it.
#[test]
fn the_dirty_timestamp_decides_the_answer_and_the_lease_is_renewed_in_every_row() {
    let rows = [
        (None, Said::Done, Said::Done),
        (Some(100), Said::Done, Said::Done),
        (Some(101), Said::SenderIsNewer, Said::SenderIsNewer),
        (Some(99), Said::Done, Said::Conflict),
    ];
    for (name, rules) in both() {
        let shown = match rules.lease_expiry {
            crate::registry::rules::LeaseExpiry::Exact => START + 1_000,
            crate::registry::rules::LeaseExpiry::Eureka => START + 91_000,
        };
        for (dirty, to_client, to_peer) in rows {
            for (is_peer, answer) in [(false, to_client), (true, to_peer)] {
                let mut scene = Scene::new(&rules);
                scene.register(instance("SHOP", "1"));
                scene.pass(1_000);
                let said = scene.carry_out(&renew("SHOP", "1", dirty, None), is_peer);
                assert_eq!(said, answer, "{name}: {dirty:?}, peer: {is_peer}");
                let lease = scene.lease("SHOP", "1");
                assert_eq!(lease.clock.renewed_wall(), Millis(shown), "{name}");
                assert_eq!(scene.renewals, 1);
                assert_eq!(scene.log.len(), 1, "a renewal is no change");
            }
        }
    }
}

#[test]
fn versions_are_not_compared_when_that_is_switched_off() {
    let rules = Rules {
        sync_when_timestamp_differs: false,
        ..Rules::default()
    };
    let mut scene = Scene::new(&rules);
    scene.register(instance("SHOP", "1"));
    assert_eq!(
        scene.client(&renew("SHOP", "1", Some(101), None)),
        Said::Done
    );
    assert_eq!(scene.peer(&renew("SHOP", "1", Some(99), None)), Said::Done);
}

#[test]
fn a_conflict_shows_the_instance_that_is_stored() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    let decision = scene
        .registry
        .decide(&renew("SHOP", "1", Some(1), None), &scene.context(true));
    assert!(
        matches!(&decision.reply, Reply::Conflict(lease) if lease.instance().last_dirty_timestamp == 100)
    );
}

/// The original renews first and compares then: by that time nothing is expired.
#[test]
fn an_expired_lease_can_be_renewed_and_its_versions_are_compared_all_the_same() {
    for (name, rules) in both() {
        for (dirty, is_peer, answer) in [
            (101, false, Said::SenderIsNewer),
            (101, true, Said::SenderIsNewer),
            (99, true, Said::Conflict),
            (99, false, Said::Done),
        ] {
            let mut scene = Scene::new(&rules);
            scene.register(instance("SHOP", "1"));
            scene.pass(500_000);
            let said = scene.carry_out(&renew("SHOP", "1", Some(dirty), None), is_peer);
            assert_eq!(said, answer, "{name} {dirty}");
            assert!(!scene.lease("SHOP", "1").is_expired(scene.now.mono, 0));
        }
    }
}

#[test]
fn an_instance_whose_status_is_unknown_has_to_register_again() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(saying(Status::Unknown, instance("SHOP", "1")));
        scene.pass(1_000);
        assert_eq!(scene.renew("SHOP", "1"), Said::NotFound, "{name}");
        assert_eq!(
            scene.lease("SHOP", "1").clock.renewed_wall(),
            Millis(START),
            "not renewed"
        );
    }
}

/// A peer that is newer brings its override along; the status follows at the next renewal.
#[test]
fn a_newer_peers_override_is_stored_and_the_status_follows_at_the_next_renewal() {
    for (name, rules) in both() {
        let is_silent = name == "eureka";
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.pass(1_000);
        let brings = renew("SHOP", "1", Some(101), Some(Status::OutOfService));
        assert_eq!(scene.peer(&brings), Said::SenderIsNewer);
        assert_eq!(scene.kinds(1), [ChangeKind::OverrideStored]);
        assert_eq!(scene.last().change.visible, !is_silent);
        let stored = scene.instance("SHOP", "1");
        assert_eq!(
            (stored.status, stored.overridden_status),
            (Status::Up, Status::OutOfService),
            "{name}"
        );
        // Said again, it is known already.
        assert_eq!(scene.peer(&brings), Said::SenderIsNewer);
        assert_eq!(
            scene.instance("SHOP", "1").status,
            Status::OutOfService,
            "the renewal before restored it"
        );
        assert_eq!(
            scene.kinds(1),
            [ChangeKind::OverrideStored, ChangeKind::StatusRestored]
        );
        let stored = scene.instance("SHOP", "1");
        if is_silent {
            assert_eq!(stored.action_type, Some(ActionType::Added));
            assert_eq!(stored.last_updated_timestamp, shown(START));
            assert_eq!(scene.delta.told_len(), 1);
        } else {
            assert_eq!(stored.action_type, Some(ActionType::Modified));
            assert_eq!(stored.last_updated_timestamp, shown(START + 1_000));
            assert_eq!(scene.delta.told_len(), 3);
        }
        assert_eq!(
            scene.lease("SHOP", "1").image.registered_at,
            Millis(START),
            "the lease goes on"
        );
    }
}

#[test]
fn an_override_that_comes_with_a_restored_status_does_not_undo_it() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.peer(&renew("SHOP", "1", Some(101), Some(Status::OutOfService)));
        scene.peer(&renew("SHOP", "1", Some(101), Some(Status::Starting)));
        let stored = scene.instance("SHOP", "1");
        assert_eq!(
            (stored.status, stored.overridden_status),
            (Status::OutOfService, Status::Starting),
            "{name}"
        );
        assert_eq!(scene.override_of("SHOP", "1"), Some(Status::Starting));
    }
}

#[test]
fn a_heartbeats_override_counts_only_from_a_newer_peer() {
    let out = Some(Status::OutOfService);
    let cases = [
        (false, Some(101), out),
        (true, Some(100), out),
        (true, Some(99), out),
        (true, None, out),
        (true, Some(101), Some(Status::Unknown)),
        (true, Some(101), None),
    ];
    for (_, rules) in both() {
        for (is_peer, dirty, overridden) in cases {
            let mut scene = Scene::new(&rules);
            scene.register(instance("SHOP", "1"));
            scene.carry_out(&renew("SHOP", "1", dirty, overridden), is_peer);
            assert_eq!(scene.override_of("SHOP", "1"), None);
            assert_eq!(scene.log.len(), 1);
        }
    }
}
