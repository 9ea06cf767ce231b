//! `protocol.md` 3.5 and 3.6: setting and lifting overrides, and what they belong to.

use super::*;
use crate::registry::instance::ActionType;

const OUT: Status = Status::OutOfService;

#[test]
fn an_override_is_status_and_overridden_status_at_once() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.pass(1_000);
        assert_eq!(scene.client(&set("SHOP", "1", OUT, None)), Said::Done);
        let stored = scene.instance("SHOP", "1");
        assert_eq!(
            (stored.status, stored.overridden_status),
            (OUT, OUT),
            "{name}"
        );
        assert_eq!(stored.action_type, Some(ActionType::Modified));
        assert_eq!(stored.last_updated_timestamp, shown(START + 1_000));
        assert_eq!(stored.last_dirty_timestamp, 100);
        assert_eq!(scene.override_of("SHOP", "1"), Some(OUT));
        assert_eq!(scene.kinds(1), [ChangeKind::OverrideSet]);
        // It renews the lease, but is no renewal of the client's.
        assert!(scene.lease("SHOP", "1").clock.renewed_wall() >= Millis(START + 1_000));
        assert_eq!(scene.renewals, 0);
    }
}

#[test]
fn the_version_is_raised_by_a_larger_one_and_never_lowered() {
    for (_, rules) in both() {
        for (sent, kept) in [
            (None, 100),
            (Some(99), 100),
            (Some(100), 100),
            (Some(101), 101),
        ] {
            let mut scene = Scene::new(&rules);
            scene.register(instance("SHOP", "1"));
            scene.client(&set("SHOP", "1", OUT, sent));
            assert_eq!(scene.instance("SHOP", "1").last_dirty_timestamp, kept);
            scene.client(&lift("SHOP", "1", Some(Status::Up), sent.map(|t| t + 10)));
            let raised = sent.map_or(kept, |t| kept.max(t + 10));
            assert_eq!(scene.instance("SHOP", "1").last_dirty_timestamp, raised);
        }
    }
}

#[test]
fn setting_the_status_that_is_there_is_an_override_or_nothing_as_in_the_original() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    scene.client(&set("SHOP", "1", Status::Up, None));
    assert_eq!(scene.override_of("SHOP", "1"), Some(Status::Up));
    scene.client(&set("SHOP", "1", Status::Up, None));
    assert_eq!(scene.log.len(), 2, "the second time it is there already");

    let mut scene = Scene::new(&Rules::eureka());
    scene.register(instance("SHOP", "1"));
    scene.pass(1_000);
    assert_eq!(
        scene.client(&set("SHOP", "1", Status::Up, Some(500))),
        Said::Done
    );
    assert_eq!(scene.override_of("SHOP", "1"), None);
    assert_eq!(scene.instance("SHOP", "1").last_dirty_timestamp, 100);
    assert_eq!(scene.log.len(), 1);
    assert!(scene.lease("SHOP", "1").clock.renewed_wall() > Millis(START));
}

#[test]
fn a_lifted_override_brings_back_what_the_client_says_or_unknown_as_in_the_original() {
    use Status::{Down, Starting, Up};
    // (value of the request, default rules, eureka rules)
    let table = [
        (None, Up, Status::Unknown),
        (Some(Status::Unknown), Up, Status::Unknown),
        (Some(Up), Up, Up),
        (Some(Down), Down, Down),
        (Some(Starting), Starting, Starting),
    ];
    for (value, by_default, by_eureka) in table {
        for ((name, rules), status) in both().into_iter().zip([by_default, by_eureka]) {
            let mut scene = Scene::new(&rules);
            scene.register(instance("SHOP", "1"));
            scene.client(&set("SHOP", "1", OUT, None));
            assert_eq!(scene.client(&lift("SHOP", "1", value, None)), Said::Done);
            let stored = scene.instance("SHOP", "1");
            assert_eq!(
                (stored.status, stored.overridden_status),
                (status, Status::Unknown),
                "{name}: {value:?}"
            );
            assert_eq!(scene.override_of("SHOP", "1"), None);
            assert_eq!(scene.last().change.kind, ChangeKind::OverrideLifted);
            let is_known = status != Status::Unknown;
            let renewed = scene.renew("SHOP", "1");
            assert_eq!(renewed == Said::Done, is_known, "{name}: {value:?}");
        }
    }
}

#[test]
fn a_lifted_override_brings_back_the_report_that_came_under_it() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    scene.client(&set("SHOP", "1", OUT, None));
    scene.register(version(101, saying(Status::Down, instance("SHOP", "1"))));
    scene.client(&lift("SHOP", "1", None, None));
    assert_eq!(scene.instance("SHOP", "1").status, Status::Down);
}

#[test]
fn an_instance_that_is_up_for_the_first_time_by_a_lifted_override_has_a_service_up_time() {
    let mut scene = Scene::new(&Rules::default());
    let mut body = instance("SHOP", "1");
    body.overridden_status = OUT;
    scene.register(body);
    assert_eq!(scene.lease("SHOP", "1").image.service_up_at, Millis::ZERO);
    scene.pass(1_000);
    scene.client(&lift("SHOP", "1", None, None));
    assert_eq!(scene.instance("SHOP", "1").status, Status::Up);
    assert_eq!(
        scene.lease("SHOP", "1").image.service_up_at,
        Millis(START + 1_000)
    );
}

#[test]
fn lifting_what_is_not_there_only_renews_the_lease() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.pass(1_000);
        let lifted = scene.client(&lift("SHOP", "1", Some(Status::Down), Some(500)));
        assert_eq!(lifted, Said::Done, "{name}");
        assert_eq!(scene.instance("SHOP", "1").status, Status::Up);
        assert_eq!(scene.instance("SHOP", "1").last_dirty_timestamp, 100);
        assert_eq!(scene.log.len(), 1);
        assert!(scene.lease("SHOP", "1").clock.renewed_wall() > Millis(START));
    }
}

#[test]
fn the_override_unknown_lifts_or_poisons_as_in_the_original() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    scene.client(&set("SHOP", "1", OUT, None));
    scene.client(&set("SHOP", "1", Status::Unknown, Some(300)));
    assert_eq!(scene.last().change.kind, ChangeKind::OverrideLifted);
    let stored = scene.instance("SHOP", "1");
    assert_eq!(
        (stored.status, stored.last_dirty_timestamp),
        (Status::Up, 300)
    );

    let mut scene = Scene::new(&Rules::eureka());
    scene.register(instance("SHOP", "1"));
    scene.client(&set("SHOP", "1", Status::Unknown, None));
    assert_eq!(scene.override_of("SHOP", "1"), Some(Status::Unknown));
    assert_eq!(scene.renew("SHOP", "1"), Said::NotFound);
    scene.register(version(200, instance("SHOP", "1")));
    assert_eq!(scene.instance("SHOP", "1").status, Status::Unknown);
    assert_eq!(scene.renew("SHOP", "1"), Said::NotFound);
    scene.client(&lift("SHOP", "1", Some(Status::Up), None));
    assert_eq!(scene.renew("SHOP", "1"), Said::Done);
}

#[test]
fn down_starting_and_unknown_show_through_and_the_override_comes_back_with_up() {
    for (name, rules) in both() {
        for own in [Status::Down, Status::Starting, Status::Unknown] {
            let mut scene = Scene::new(&rules);
            scene.register(instance("SHOP", "1"));
            scene.client(&set("SHOP", "1", OUT, None));
            scene.register(version(101, saying(own, instance("SHOP", "1"))));
            let stored = scene.instance("SHOP", "1");
            assert_eq!(
                (stored.status, stored.overridden_status),
                (own, OUT),
                "{name}"
            );
            assert_eq!(scene.override_of("SHOP", "1"), Some(OUT));
            scene.register(version(102, instance("SHOP", "1")));
            assert_eq!(scene.instance("SHOP", "1").status, OUT, "{name}");
        }
    }
}

#[test]
fn an_unknown_or_expired_instance_takes_no_override() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        let commands = [
            set("SHOP", "1", OUT, None),
            lift("SHOP", "1", None, None),
            put_metadata("SHOP", "1", &[("a", "b")]),
        ];
        scene.pass(90_001);
        for command in &commands {
            assert_eq!(scene.client(command), Said::NotFound, "{name}");
        }
        // Under protection nothing counts as expired.
        scene.expiration_enabled = false;
        for command in &commands {
            assert_eq!(scene.client(command), Said::Done, "{name}");
        }
        assert_eq!(scene.client(&set("SHOP", "2", OUT, None)), Said::NotFound);
        assert_eq!(scene.client(&lift("CART", "1", None, None)), Said::NotFound);
    }
}

#[test]
fn an_override_belongs_to_one_instance_or_to_the_id_as_in_the_original() {
    for ((name, rules), other) in both().into_iter().zip([Status::Up, OUT]) {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "x"));
        scene.register(instance("CART", "x"));
        scene.client(&set("SHOP", "x", OUT, None));
        assert_eq!(scene.instance("CART", "x").status, Status::Up, "{name}");
        scene.renew("CART", "x");
        assert_eq!(scene.instance("CART", "x").status, other, "{name}");
        // Cancelling one clears it for the other only where it is shared.
        scene.client(&cancel("CART", "x"));
        let is_shared = name == "eureka";
        assert_eq!(
            scene.override_of("SHOP", "x"),
            (!is_shared).then_some(OUT),
            "{name}"
        );
    }
}

#[test]
fn cancelling_an_unknown_application_forgets_an_override_that_is_kept_by_id() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "x"));
        scene.client(&set("SHOP", "x", OUT, None));
        assert_eq!(scene.client(&cancel("CART", "x")), Said::NotFound);
        if name == "eureka" {
            assert_eq!(scene.kinds(2), [ChangeKind::OverrideForgotten]);
            assert!(!scene.last().change.visible);
            assert_eq!(scene.override_of("SHOP", "x"), None);
            assert_eq!(scene.instance("SHOP", "x").overridden_status, OUT);
            assert_eq!(scene.delta.told_len(), 2);
        } else {
            assert_eq!(scene.kinds(2), []);
            assert_eq!(scene.override_of("SHOP", "x"), Some(OUT));
        }
    }
}

#[test]
fn overrides_of_a_checkpoint_are_found_under_todays_rules() {
    use crate::registry::OverrideKey;
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "x"));
        scene.register(instance("CART", "x"));
        for app in [None, Some(AppName::new("SHOP"))] {
            let mut restored = scene.registry.clone();
            let id = InstanceId::new("x");
            let key = OverrideKey {
                app: app.clone(),
                id: id.clone(),
            };
            restored.restore_override(key, OUT);
            let of = |name: &str| restored.override_of(&AppName::new(name), &id);
            assert_eq!(of("SHOP"), Some(OUT), "{name} {app:?}");
            let is_shared = name == "eureka" || app.is_none();
            assert_eq!(of("CART"), is_shared.then_some(OUT), "{name} {app:?}");
        }
    }
}
