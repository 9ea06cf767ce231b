//! `protocol.md` 5.4: which expired leases go in one run.

use std::collections::BTreeSet;

use super::*;
use crate::registry::instance::ActionType;

/// `total` instances of which the first `expired` are over.
fn crowd(rules: &Rules, total: usize, expired: usize) -> Scene {
    let mut scene = Scene::new(rules);
    for id in 0..expired {
        scene.register(instance("SHOP", &format!("{id:03}")));
    }
    scene.pass(90_001);
    for id in expired..total {
        scene.register(instance("SHOP", &format!("{id:03}")));
    }
    scene
}

fn ids(scene: &Scene) -> BTreeSet<String> {
    let leases = scene.registry.leases();
    leases
        .map(|lease| lease.instance().id().to_string())
        .collect()
}

#[test]
fn a_run_takes_no_more_than_the_threshold_leaves_over() {
    for (_, rules) in both() {
        let mut scene = crowd(&rules, 21, 20);
        let mut taken = Vec::new();
        let mut seed = 0;
        while scene.registry.len() > 1 {
            seed += 1;
            let left = usize::try_from(scene.registry.len()).unwrap();
            let Said::Evicted(evicted, expired) = scene.evict(0.85, seed) else {
                panic!("not an eviction");
            };
            assert_eq!(expired, left - 1);
            taken.push(evicted);
        }
        assert_eq!(taken, [4, 3, 3, 2, 2, 2, 1, 1, 1, 1]);
        assert_eq!(ids(&scene), BTreeSet::from(["020".to_owned()]));
    }
}

#[test]
fn the_choice_depends_on_the_seed_alone() {
    let scene = crowd(&Rules::default(), 30, 25);
    let left_after = |seed| {
        let mut scene = scene.clone();
        assert_eq!(scene.evict(0.85, seed), Said::Evicted(5, 25));
        ids(&scene)
    };
    assert_eq!(left_after(7), left_after(7));
    let outcomes: Vec<_> = (0..100).map(left_after).collect();
    let different: BTreeSet<_> = outcomes.iter().collect();
    assert!(different.len() > 90, "{} choices", different.len());
    // Everybody's turn comes, but never that of the living.
    let spared = |id: usize| {
        let id = format!("{id:03}");
        outcomes.iter().filter(|left| left.contains(&id)).count()
    };
    for id in 0..25 {
        assert!((60..100).contains(&spared(id)), "{id}: {}", spared(id));
    }
    for id in 25..30 {
        assert_eq!(spared(id), 100, "{id}");
    }
}

#[test]
fn the_lateness_of_a_run_is_given_to_every_lease() {
    let mut scene = crowd(&Rules::default(), 3, 2);
    let run = |extra_ms| {
        Command::Evict(Eviction {
            extra_ms,
            renewal_percent_threshold: 0.0,
            seed: 1,
        })
    };
    assert_eq!(scene.client(&run(1)), Said::Evicted(0, 0));
    assert_eq!(scene.client(&run(0)), Said::Evicted(2, 2));
}

#[test]
fn nothing_goes_while_leases_do_not_expire() {
    let mut scene = crowd(&Rules::default(), 10, 10);
    scene.expiration_enabled = false;
    assert_eq!(scene.evict(0.0, 1), Said::Evicted(0, 0));
    assert_eq!(scene.registry.len(), 10);
}

#[test]
fn an_evicted_lease_is_told_as_deleted_and_takes_its_override_along() {
    for (name, rules) in both() {
        let mut scene = crowd(&rules, 1, 1);
        scene.expiration_enabled = false;
        scene.client(&set("SHOP", "000", Status::OutOfService, None));
        scene.expiration_enabled = true;
        scene.pass(500_000);
        assert_eq!(scene.evict(0.85, 1), Said::Evicted(1, 1), "{name}");
        assert!(scene.registry.is_empty());
        assert_eq!(scene.override_of("SHOP", "000"), None);
        let change = &scene.last().change;
        assert_eq!(change.kind, ChangeKind::Evicted);
        let image = change.lease.as_ref().expect("as it was removed");
        assert_eq!(image.instance.action_type, Some(ActionType::Deleted));
        assert_eq!(image.evicted_at, scene.now.wall);
    }
}
