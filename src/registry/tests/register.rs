//! `protocol.md` 3.2: registration and re-registration.

use super::*;
use crate::registry::change::OverrideEffect;
use crate::registry::instance::ActionType;

#[test]
fn a_new_instance_is_added_with_the_times_of_its_registration() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        let lease = scene.lease("SHOP", "1");
        let image = &lease.image;
        assert_eq!(
            (image.registered_at, image.service_up_at, image.evicted_at),
            (Millis(START), Millis(START), Millis::ZERO),
            "{name}"
        );
        assert_eq!(lease.clock.renewed_wall(), Millis(START));
        assert_eq!(image.instance.action_type, Some(ActionType::Added));
        assert_eq!(image.instance.last_updated_timestamp, shown(START));
        assert_eq!(image.instance.last_dirty_timestamp, 100);
        assert_eq!(scene.kinds(0), [ChangeKind::Registered]);
        assert!(scene.last().change.visible);
    }
}

#[test]
fn new_instances_are_refused_at_the_bound_but_for_those_that_peers_have() {
    for (name, rules) in both() {
        let rules = Rules {
            instances_max: Some(2),
            ..rules
        };
        let mut scene = Scene::new(&rules);
        let register = |id: &str| Command::Register(instance("SHOP", id).into());
        assert_eq!(scene.client(&register("1")), Said::Done, "{name}");
        assert_eq!(scene.client(&register("2")), Said::Done, "{name}");
        let before = scene.log.len();
        assert_eq!(
            scene.client(&register("3")),
            Said::TooManyInstances,
            "{name}"
        );
        assert_eq!(scene.log.len(), before, "{name}");
        // Whoever is there may describe itself anew.
        assert_eq!(scene.client(&register("2")), Said::Done, "{name}");
        // Otherwise the nodes would never have the same.
        assert_eq!(scene.carry_out(&register("4"), true), Said::Done, "{name}");
        assert_eq!(scene.registry.len(), 3, "{name}");
        scene.client(&cancel("SHOP", "4"));
        scene.client(&cancel("SHOP", "1"));
        assert_eq!(scene.client(&register("3")), Said::Done, "{name}");
    }
}

#[test]
fn the_newer_description_wins_and_an_equal_one_replaces() {
    // (version sent, whether its description is taken)
    for (sent, is_taken) in [(99, false), (100, true), (101, true)] {
        for (name, rules) in both() {
            let mut scene = Scene::new(&rules);
            scene.register(instance("SHOP", "1"));
            scene.pass(5_000);
            let mut second = version(sent, instance("SHOP", "1"));
            second.host_name = "host-2".into();
            scene.register(second);

            let stored = scene.instance("SHOP", "1");
            let (host, dirty) = if is_taken {
                ("host-2", sent)
            } else {
                ("host-1", 100)
            };
            assert_eq!(&*stored.host_name, host, "{name} {sent}");
            assert_eq!(stored.last_dirty_timestamp, dirty, "{name} {sent}");
            // The lease starts anew in every case, and clients are told.
            let lease = scene.lease("SHOP", "1");
            assert_eq!(lease.image.registered_at, Millis(START + 5_000));
            assert_eq!(lease.clock.renewed_wall(), Millis(START + 5_000));
            assert_eq!(stored.action_type, Some(ActionType::Added));
            assert_eq!(stored.last_updated_timestamp, shown(START + 5_000));
            assert_eq!(scene.last().change.kind, ChangeKind::Reregistered);
            assert_eq!(scene.delta.len(), 2);
        }
    }
}

#[test]
fn the_lease_duration_is_the_senders_even_if_its_description_loses() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    let mut older = version(1, instance("SHOP", "1"));
    older.lease.duration_secs = 7;
    scene.register(older);
    assert_eq!(scene.lease("SHOP", "1").image.duration_ms, 7_000);
    assert_eq!(scene.instance("SHOP", "1").lease.duration_secs, 90);
}

#[test]
fn the_time_of_being_up_first_is_kept_and_only_set_by_up() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(saying(Status::Starting, instance("SHOP", "1")));
        assert_eq!(
            scene.lease("SHOP", "1").image.service_up_at,
            Millis::ZERO,
            "{name}"
        );
        scene.pass(1_000);
        scene.register(version(101, instance("SHOP", "1")));
        scene.pass(1_000);
        scene.register(version(102, saying(Status::Down, instance("SHOP", "1"))));
        scene.register(version(103, instance("SHOP", "1")));
        assert_eq!(
            scene.lease("SHOP", "1").image.service_up_at,
            Millis(START + 1_000)
        );
    }
}

#[test]
fn an_override_in_the_body_is_stored_unless_there_is_one() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        let mut body = instance("SHOP", "1");
        body.overridden_status = Status::OutOfService;
        scene.register(body.clone());
        assert_eq!(
            scene.override_of("SHOP", "1"),
            Some(Status::OutOfService),
            "{name}"
        );
        assert_eq!(scene.instance("SHOP", "1").status, Status::OutOfService);
        assert_eq!(
            scene.last().change.override_effect,
            OverrideEffect::Set(Status::OutOfService)
        );

        body.overridden_status = Status::Down;
        scene.register(version(101, body));
        assert_eq!(scene.override_of("SHOP", "1"), Some(Status::OutOfService));
        let stored = scene.instance("SHOP", "1");
        assert_eq!(stored.overridden_status, Status::OutOfService);
        assert_eq!(stored.status, Status::OutOfService);
        assert_eq!(scene.last().change.override_effect, OverrideEffect::Keep);
    }
}

#[test]
fn an_override_survives_a_newer_registration_and_shows_in_it() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.client(&set("SHOP", "1", Status::OutOfService, None));
        scene.register(version(200, instance("SHOP", "1")));
        let stored = scene.instance("SHOP", "1");
        assert_eq!(
            (stored.status, stored.overridden_status),
            (Status::OutOfService, Status::OutOfService),
            "{name}"
        );
        assert_eq!(scene.lease("SHOP", "1").image.reported, Status::Up);
    }
}

#[test]
fn what_a_client_says_is_stored_unless_it_moves_between_up_and_out_of_service() {
    use Status::{Down, OutOfService, Starting, Unknown, Up};
    // (stored status, said status, result from a client, result from a peer)
    let table = [
        (Up, Up, Up, Up),
        (Up, OutOfService, Up, OutOfService),
        (OutOfService, Up, OutOfService, Up),
        (OutOfService, OutOfService, OutOfService, OutOfService),
        (Up, Down, Down, Down),
        (Up, Starting, Starting, Starting),
        (Up, Unknown, Unknown, Unknown),
        (Down, Up, Up, Up),
        (Starting, OutOfService, OutOfService, OutOfService),
        (Unknown, Up, Up, Up),
    ];
    for (name, rules) in both() {
        for (stored, said, from_client, from_peer) in table {
            for (is_peer, result) in [(false, from_client), (true, from_peer)] {
                let mut scene = Scene::new(&rules);
                scene.register(saying(stored, instance("SHOP", "1")));
                let sent = saying(said, version(101, instance("SHOP", "1")));
                scene.carry_out(&Command::Register(sent.into()), is_peer);
                assert_eq!(
                    scene.instance("SHOP", "1").status,
                    result,
                    "{name}: {stored} then {said}, peer: {is_peer}"
                );
            }
        }
    }
}

#[test]
fn a_copy_of_the_servers_own_answer_is_no_report_of_the_client() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    scene.client(&set("SHOP", "1", Status::OutOfService, None));
    let copy = scene.instance("SHOP", "1").clone();
    scene.peer(&Command::Register(version(150, copy.clone()).into()));
    assert_eq!(scene.lease("SHOP", "1").image.reported, Status::Up);

    let mut elsewhere = Scene::new(&Rules::default());
    elsewhere.peer(&Command::Register(copy.into()));
    assert_eq!(elsewhere.lease("SHOP", "1").image.reported, Status::Up);
    assert_eq!(
        elsewhere.override_of("SHOP", "1"),
        Some(Status::OutOfService)
    );
}

#[test]
fn identity_comes_from_the_id_then_amazon_then_the_host() {
    let mut scene = Scene::new(&Rules::default());
    let mut amazon = instance("SHOP", "1");
    amazon.instance_id = None;
    amazon.data_center = DataCenter::Amazon {
        metadata: [("instance-id".into(), "i-1".into())].into_iter().collect(),
    };
    let mut host = instance("SHOP", "1");
    host.instance_id = Some("".into());
    for (body, id) in [
        (instance("SHOP", "1"), "1"),
        (amazon, "i-1"),
        (host, "host-1"),
    ] {
        scene.register(body);
        assert!(scene.has("SHOP", id), "{id}");
    }
    assert_eq!(scene.registry.len(), 3);
}
