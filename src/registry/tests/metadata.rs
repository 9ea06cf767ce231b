//! `protocol.md` 1.9: metadata, as a change of its own and as the original's re-registration.

use super::*;
use crate::registry::instance::ActionType;
use crate::registry::rules::MetadataBounds;

fn entries(scene: &Scene) -> Vec<(String, String)> {
    let metadata = &scene.instance("SHOP", "1").metadata;
    metadata
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn entries_are_added_and_overwritten_and_never_removed() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        let mut body = instance("SHOP", "1");
        body.metadata = [("a".into(), "1".into()), ("b".into(), "2".into())]
            .into_iter()
            .collect();
        scene.register(body);
        let put = put_metadata("SHOP", "1", &[("c", "3"), ("a", ""), ("c", "4")]);
        assert_eq!(scene.client(&put), Said::Done, "{name}");
        assert_eq!(
            entries(&scene),
            [pair("a", ""), pair("b", "2"), pair("c", "4")]
        );
        // The client's next description replaces them.
        scene.register(version(200, instance("SHOP", "1")));
        assert_eq!(entries(&scene), []);
        let unknown = put_metadata("SHOP", "2", &[("a", "b")]);
        assert_eq!(scene.client(&unknown), Said::NotFound);
    }
}

#[test]
fn metadata_is_a_change_of_its_own_that_makes_the_instance_a_little_newer() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    scene.pass(10_000);
    scene.client(&put_metadata("SHOP", "1", &[("a", "b")]));
    assert_eq!(scene.kinds(1), [ChangeKind::MetadataUpdated]);
    let lease = scene.lease("SHOP", "1");
    assert_eq!(lease.image.registered_at, Millis(START));
    assert_eq!(lease.clock.renewed_wall(), Millis(START), "no renewal");
    let stored = lease.instance();
    assert_eq!(stored.last_dirty_timestamp, 101);
    assert_eq!(stored.action_type, Some(ActionType::Modified));
    assert_eq!(stored.last_updated_timestamp, shown(START + 10_000));
    // An older beat of the client does not undo it.
    assert_eq!(
        scene.client(&renew("SHOP", "1", Some(100), None)),
        Said::Done
    );
    // Said again, or nothing said, nothing happens.
    scene.client(&put_metadata("SHOP", "1", &[("a", "b")]));
    scene.client(&put_metadata("SHOP", "1", &[]));
    assert_eq!(scene.log.len(), 2);
}

#[test]
fn metadata_registers_again_in_the_original() {
    let mut scene = Scene::new(&Rules::eureka());
    scene.register(saying(Status::Starting, instance("SHOP", "1")));
    for entries in [&[("a", "b")][..], &[]] {
        scene.pass(10_000);
        // From a peer or not: it is taken as a client's.
        scene.peer(&put_metadata("SHOP", "1", entries));
        let lease = scene.lease("SHOP", "1");
        assert_eq!(scene.last().change.kind, ChangeKind::Reregistered);
        assert_eq!(lease.image.registered_at, scene.now.wall);
        assert_eq!(lease.clock.renewed_wall(), scene.now.wall);
        assert_eq!(lease.instance().last_dirty_timestamp, 100);
        assert_eq!(lease.instance().action_type, Some(ActionType::Added));
        assert_eq!(lease.instance().status, Status::Starting);
        assert_eq!(lease.image.reported, Status::Starting);
    }
}

#[test]
fn metadata_leaves_the_override_and_the_clients_report_alone() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.client(&set("SHOP", "1", Status::OutOfService, None));
        scene.client(&put_metadata("SHOP", "1", &[("a", "b")]));
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
fn metadata_grows_by_puts_as_far_as_registrations_may_have_it() {
    let rules = Rules {
        metadata: MetadataBounds {
            entries: 3,
            bytes: 20,
        },
        ..Rules::default()
    };
    for rules in [
        rules.clone(),
        Rules {
            metadata: rules.metadata,
            ..Rules::eureka()
        },
    ] {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        let mut put = |entries: &[(&str, &str)]| scene.client(&put_metadata("SHOP", "1", entries));
        assert_eq!(put(&[("a", "1"), ("b", "2")]), Said::Done);
        assert_eq!(put(&[("c", "3"), ("d", "4")]), Said::TooMuchMetadata);
        assert_eq!(put(&[("c", "3")]), Said::Done);
        // Whoever is at the bound may go on changing what is there.
        assert_eq!(put(&[("a", "a value of 16 by")]), Said::TooMuchMetadata);
        assert_eq!(put(&[("a", "of 15 bytes ...")]), Said::Done);
        assert_eq!(put(&[("b", ""), ("c", "33")]), Said::Done);
        assert_eq!(put(&[("d", "")]), Said::TooMuchMetadata);
    }
}

#[test]
fn metadata_that_is_beyond_its_bound_already_may_shrink() {
    let rules = Rules {
        metadata: MetadataBounds {
            entries: 0,
            bytes: 0,
        },
        ..Rules::default()
    };
    let mut scene = Scene::new(&rules);
    let mut one = instance("SHOP", "1");
    one.metadata = [("a".into(), "long".into())].into_iter().collect();
    scene.register(one);
    assert_eq!(
        scene.client(&put_metadata("SHOP", "1", &[("a", "longer")])),
        Said::TooMuchMetadata
    );
    assert_eq!(
        scene.client(&put_metadata("SHOP", "1", &[("a", "l")])),
        Said::Done
    );
}
