//! What a comparison of two registries finds.

use super::*;
use crate::registry::command::{Adoption, Command, Overrides};
use crate::registry::rules::Rules;
use crate::registry::status::Status;
use crate::registry::tests::{Said, Scene, cancel, instance, set, version};

fn pair() -> (Scene, Scene) {
    let rules = Rules::default();
    let (mut mine, mut theirs) = (Scene::new(&rules), Scene::new(&rules));
    mine.register(instance("SHOP", "1"));
    theirs.peer(&state(&mine));
    (mine, theirs)
}

fn state(scene: &Scene) -> Command {
    let lease = scene.lease("SHOP", "1");
    Command::Adopt(Adoption {
        instance: lease.instance().clone(),
        registered: i64::try_from(lease.image.registered_at.0).expect("a time"),
        vouched_ms: Some(lease.vouched_ms(scene.now.mono)),
        recalled: Recalled::Nothing,
        overrides: Overrides::Whole,
    })
}

/// A log that goes back to nothing.
#[derive(Debug)]
struct Forgetful;

impl Past for Forgetful {
    fn removals(&self, _: &[(AppName, InstanceId)]) -> Removed {
        Removed::default()
    }
}

/// What the first side finds when the second one asks.
fn found(mine: &Scene, theirs: &Scene) -> Repairs {
    let portions = [Portion::whole("SHOP")];
    let question = Comparison::of(&theirs.registry, &portions, theirs.now);
    compare(&mine.registry, &question, &Forgetful, mine.now.mono)
}

fn key() -> (AppName, InstanceId) {
    (AppName::new("SHOP"), InstanceId::new("1"))
}

fn differ(mine: &Scene, theirs: &Scene) -> Vec<String> {
    let (mine, theirs) = (Digests::of(&mine.registry), Digests::of(&theirs.registry));
    assert_eq!(mine.root == theirs.root, mine.apps == theirs.apps);
    mine.differences(&theirs, None, 10)
}

#[test]
fn equal_registries_have_equal_digests_and_nothing_to_repair() {
    let (mine, mut theirs) = pair();
    assert!(differ(&mine, &theirs).is_empty());
    assert!(found(&mine, &theirs).is_empty());
    // When it was renewed, and where it stands in the log, is no difference.
    theirs.pass(5000);
    theirs.register(instance("OTHER", "2"));
    theirs.client(&cancel("OTHER", "2"));
    let lease = theirs.lease("SHOP", "1");
    lease.renew(theirs.now, theirs.registry.rules().lease_expiry);
    assert!(differ(&mine, &theirs).is_empty());
}

#[test]
fn the_newer_version_is_wanted_whichever_side_asks() {
    let (mine, mut theirs) = pair();
    theirs.pass(10);
    theirs.client(&set("SHOP", "1", Status::OutOfService, None));
    assert_eq!(differ(&mine, &theirs), ["SHOP"]);
    assert_eq!(found(&mine, &theirs).wanted, [key()]);
    let repairs = found(&theirs, &mine);
    assert_eq!((repairs.ours_newer, repairs.wanted), (vec![key()], vec![]));
    // A newer description outranks any later change of an older one.
    let mut mine = mine;
    mine.register(version(200, instance("SHOP", "1")));
    theirs.pass(60_000);
    theirs.client(&set("SHOP", "1", Status::Down, None));
    assert_eq!(found(&mine, &theirs).ours_newer, [key()]);
}

#[test]
fn two_states_of_one_version_are_exchanged_for_the_rule_to_decide() {
    let (mut mine, mut theirs) = pair();
    mine.pass(10);
    theirs.pass(10);
    mine.client(&set("SHOP", "1", Status::OutOfService, None));
    theirs.client(&set("SHOP", "1", Status::Down, None));
    let repairs = found(&mine, &theirs);
    assert_eq!(
        (repairs.wanted, repairs.ours_newer),
        (vec![key()], vec![key()])
    );
}

#[test]
fn a_side_that_cancelled_has_the_other_cancel() {
    let (mine, mut theirs) = pair();
    theirs.pass(10);
    theirs.client(&cancel("SHOP", "1"));
    let there = found(&mine, &theirs).cancelled_there;
    assert_eq!(there.len(), 1);
    let repairs = found(&theirs, &mine);
    assert_eq!(repairs.cancelled_here, there);
    assert!(repairs.wanted.is_empty());
    // A description that is newer than the cancel lives.
    let mut mine = mine;
    mine.register(version(200, instance("SHOP", "1")));
    assert_eq!(found(&mine, &theirs).ours_newer, [key()]);
    assert_eq!(found(&theirs, &mine).wanted, [key()]);
}

#[test]
fn what_is_only_on_one_side_and_was_never_on_the_other_is_told() {
    let mine = Scene::new(&Rules::default());
    let (theirs, _) = pair();
    assert_eq!(found(&mine, &theirs).wanted, [key()]);
    assert_eq!(found(&theirs, &mine).ours_newer, [key()]);
}

/// The lease runs out at the second node; the first one was `away` for that time, or not.
fn expired_there(away: bool) -> (Scene, Scene) {
    let (mut mine, mut theirs) = pair();
    for scene in [&mut mine, &mut theirs] {
        scene.pass(200_000);
    }
    assert_eq!(theirs.evict(0.0, 1), Said::Evicted(1, 1));
    if away {
        mine.lease("SHOP", "1").clock.restart(mine.now.mono);
    }
    (mine, theirs)
}

#[test]
fn what_ran_out_on_one_side_ends_on_the_other_if_nobody_vouches_for_it() {
    for away in [false, true] {
        let (mut mine, theirs) = expired_there(away);
        let there = found(&mine, &theirs).expired_there;
        assert_eq!(there.len(), 1);
        let repairs = found(&theirs, &mine);
        assert_eq!((repairs.len(), &repairs.expired_here), (1, &there));
        let (app, id, version) = there[0].clone();
        assert_eq!(mine.peer(&Command::Expire { app, id, version }), Said::Done);
        assert!(!mine.has("SHOP", "1"));
        assert!(differ(&mine, &theirs).is_empty());
        assert!(found(&mine, &theirs).is_empty());
    }
}

#[test]
fn who_is_known_to_live_on_one_side_comes_back_on_the_other_for_as_long_as_that_is_known() {
    let (mut mine, mut theirs) = expired_there(true);
    mine.renew("SHOP", "1");
    mine.pass(30_000);
    assert_eq!(found(&mine, &theirs).ours_newer, [key()]);
    assert_eq!(found(&theirs, &mine).wanted, [key()]);
    assert_eq!(theirs.peer(&state(&mine)), Said::Done);
    let (here, there) = (mine.lease("SHOP", "1"), theirs.lease("SHOP", "1"));
    let left = here.remaining_ms(mine.now.mono);
    assert_eq!(left, 60_000);
    assert_eq!(there.remaining_ms(theirs.now.mono), left, "the same end");
    assert!(differ(&mine, &theirs).is_empty());
    // It is over on both sides at the same time: there is no end to giving it back otherwise.
    for scene in [&mut mine, &mut theirs] {
        scene.pass(60_001);
    }
    assert_eq!(mine.evict(0.0, 1), Said::Evicted(1, 1));
    assert_eq!(found(&mine, &theirs).expired_here.len(), 1);
}

#[test]
fn the_last_quarter_of_a_lease_vouches_for_nothing() {
    for (silent_ms, lives) in [(67_499, true), (67_500, false)] {
        let (mut mine, theirs) = expired_there(true);
        mine.renew("SHOP", "1");
        mine.pass(silent_ms);
        let repairs = found(&mine, &theirs);
        assert_eq!(!repairs.ours_newer.is_empty(), lives, "{silent_ms}");
        assert_eq!(repairs.expired_there.is_empty(), lives, "{silent_ms}");
    }
}

#[test]
fn a_description_that_is_newer_than_what_ran_out_lives() {
    let (mut mine, theirs) = expired_there(true);
    mine.register(version(200, instance("SHOP", "1")));
    mine.lease("SHOP", "1").clock.restart(mine.now.mono);
    assert_eq!(found(&mine, &theirs).ours_newer, [key()]);
    assert_eq!(found(&theirs, &mine).wanted, [key()]);
}

#[test]
fn only_what_lies_in_the_range_of_a_question_is_compared() {
    let rules = Rules::default();
    let (mut mine, mut theirs) = (Scene::new(&rules), Scene::new(&rules));
    for id in ["1", "2", "3", "4", "5"] {
        mine.register(instance("SHOP", id));
    }
    theirs.register(instance("SHOP", "4"));
    theirs.client(&cancel("SHOP", "4"));
    let range = |after: Option<&str>, upto: Option<&str>| Range {
        after: after.map(Into::into),
        upto: upto.map(Into::into),
    };
    let found = |after, upto| {
        let app = "SHOP".to_owned();
        let range = range(after, upto);
        let question = Comparison::of(&theirs.registry, &[Portion { app, range }], theirs.now);
        let repairs = compare(&mine.registry, &question, &Forgetful, mine.now.mono);
        let ids = |keys: &[(AppName, InstanceId)]| {
            let ids = keys.iter().map(|(_, id)| id.to_string());
            ids.collect::<String>()
        };
        (ids(&repairs.ours_newer), repairs.cancelled_there.len())
    };
    assert_eq!(found(None, Some("2")), ("12".to_owned(), 0));
    assert_eq!(found(Some("2"), Some("3")), ("3".to_owned(), 0));
    assert_eq!(found(Some("3"), None), ("5".to_owned(), 1));
    assert_eq!(found(None, None), ("1235".to_owned(), 1));
}

#[test]
fn what_ran_out_long_before_a_registration_says_nothing_of_it() {
    let (mut mine, mut theirs) = expired_there(true);
    for scene in [&mut mine, &mut theirs] {
        scene.pass(700_000);
    }
    // The client keeps its dirty timestamp; then this node is restarted.
    mine.register(instance("SHOP", "1"));
    mine.lease("SHOP", "1").clock.restart(mine.now.mono);
    assert_eq!(found(&mine, &theirs).ours_newer, [key()]);
    assert_eq!(found(&theirs, &mine).wanted, [key()]);
}

#[test]
fn what_the_log_cannot_be_asked_about_waits_unless_it_is_known_to_live() {
    #[derive(Debug)]
    struct Silent;
    impl Past for Silent {
        fn removals(&self, keys: &[(AppName, InstanceId)]) -> Removed {
            Removed::unknown(keys)
        }
    }
    let mine = Scene::new(&Rules::default());
    let (theirs, _) = pair();
    for is_grace in [false, true] {
        if is_grace {
            theirs.lease("SHOP", "1").clock.restart(theirs.now.mono);
        }
        let names = [Portion::whole("SHOP")];
        let question = Comparison::of(&theirs.registry, &names, theirs.now);
        let repairs = compare(&mine.registry, &question, &Silent, mine.now.mono);
        assert_eq!(repairs.wanted.is_empty(), is_grace);
        assert_eq!(repairs.is_empty(), is_grace);
    }
}

#[test]
fn differences_that_stay_do_not_hide_the_others() {
    let digests = |range: std::ops::Range<u64>| Digests {
        root: range.start,
        apps: range.map(|n| (format!("APP{n}"), n)).collect(),
    };
    let (mine, theirs) = (digests(0..5), digests(9..9));
    assert_eq!(mine.differences(&theirs, None, 2), ["APP0", "APP1"]);
    let next = mine.differences(&theirs, Some("APP1"), 2);
    assert_eq!(next, ["APP2", "APP3"]);
    let next = mine.differences(&theirs, Some("APP3"), 2);
    assert_eq!(next, ["APP4", "APP0"]);
}

#[test]
fn digests_are_made_once_for_each_position_of_the_log() {
    let (mut mine, _) = pair();
    let cache = DigestCache::default();
    let first = cache.of(&mine.registry);
    assert!(Arc::ptr_eq(&first, &cache.of(&mine.registry)));
    mine.register(instance("SHOP", "2"));
    assert_ne!(cache.of(&mine.registry).root, first.root);
}
