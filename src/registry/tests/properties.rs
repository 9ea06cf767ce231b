//! What holds after any history: the registry agrees with the naive model, deciding changes
//! nothing, and everything that is kept by the way agrees with the leases.

use proptest::prelude::*;

use super::model::Model;
use super::steps::{Step, cases, rules, step, steps};
use super::*;

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn the_registry_agrees_with_the_naive_model(rules in rules(), steps in steps(1..60)) {
        let mut scene = Scene::new(&rules);
        let mut model = Model::new(&rules);
        for step in &steps {
            let (before, context) = (scene.log.len(), scene.context(false));
            let said = scene.take(step);
            if let Step::Do { is_replication, command } = step {
                let context = Context { is_replication: *is_replication, ..context };
                let gone: Vec<_> = scene.log[before..]
                    .iter()
                    .filter(|record| record.change.kind == ChangeKind::Evicted)
                    .map(|record| (record.change.app.clone(), record.change.id.clone()))
                    .collect();
                let expected = model.carry_out(command, &context, &gone);
                prop_assert_eq!(said, Some(expected), "{:?}", command);
                if let Said::Evicted(evicted, _) = expected {
                    prop_assert_eq!(gone.len(), evicted);
                }
            }
            model.compare(&scene.registry);
        }
    }

    #[test]
    fn deciding_is_pure(rules in rules(), history in steps(0..30), next in step()) {
        let mut scene = Scene::new(&rules);
        for step in &history {
            scene.take(step);
        }
        let Step::Do { is_replication, command } = &next else { return Ok(()) };
        let context = scene.context(*is_replication);
        let shown = |scene: &Scene| format!("{:?}", scene.registry);
        let before = shown(&scene);
        let twice: Vec<String> = (0..2)
            .map(|_| format!("{:?}", scene.registry.decide(command, &context)))
            .collect();
        prop_assert_eq!(&twice[0], &twice[1]);
        prop_assert_eq!(before, shown(&scene));
        // The same history gives the same state and the same decision.
        let mut again = Scene::new(&rules);
        for step in &history {
            again.take(step);
        }
        prop_assert_eq!(shown(&again), shown(&scene));
        let decision = format!("{:?}", again.registry.decide(command, &context));
        prop_assert_eq!(decision, twice[0].clone());
    }

    /// Positions of applications and vips never go back, and cover every visible change in them:
    /// what a cached answer relies on.
    #[test]
    fn what_changes_moves_its_position(rules in rules(), steps in steps(1..60)) {
        let mut scene = Scene::new(&rules);
        for step in &steps {
            let (before, from) = (scene.registry.clone(), scene.log.len());
            scene.take(step);
            prop_assert!(scene.registry.visible_lsn() >= before.visible_lsn());
            for record in &scene.log[from..] {
                let change = &record.change;
                if !change.visible {
                    continue;
                }
                prop_assert!(scene.registry.visible_lsn() >= record.lsn);
                if let Some(app) = scene.registry.app(change.app.as_str()) {
                    prop_assert!(app.lsn() >= record.lsn);
                }
                let was = before.lease(change.app.as_str(), change.id.as_str());
                let is = scene.registry.lease(change.app.as_str(), change.id.as_str());
                for lease in was.into_iter().chain(is) {
                    for is_secure in [false, true] {
                        for vip in lease.instance().vips(is_secure) {
                            if let Some((lsn, _)) = scene.registry.vip(vip, is_secure) {
                                prop_assert!(lsn >= record.lsn, "{}", vip);
                            }
                        }
                    }
                }
            }
        }
    }

    /// A record that was applied already changes nothing: replay is idempotent.
    #[test]
    fn replaying_what_is_there_changes_nothing(rules in rules(), steps in steps(1..40)) {
        let mut scene = Scene::new(&rules);
        for step in &steps {
            scene.take(step);
        }
        let before = format!("{:?}", scene.registry);
        for record in &scene.log {
            scene.registry.evolve(record, Millis(1));
        }
        prop_assert_eq!(before, format!("{:?}", scene.registry));
    }
}
