//! States that nodes of our own kind tell each other: the newer one stays.

use super::*;
use crate::registry::Recalled;
use crate::registry::command::{Adoption, Overrides};
use crate::registry::version::Version;

const OUT: Status = Status::OutOfService;

/// The state of an instance as one node has it, for another.
fn state(scene: &Scene, overrides: Overrides) -> Command {
    let lease = scene.lease("SHOP", "1");
    Command::Adopt(Adoption {
        instance: lease.instance().clone(),
        registered: shown(lease.image.registered_at.0),
        vouched_ms: Some(lease.vouched_ms(scene.now.mono)),
        recalled: Recalled::Nothing,
        overrides,
    })
}

/// Two nodes whose clocks are five minutes apart; the first has an instance that the second knows.
fn pair() -> (Scene, Scene) {
    let (mut first, mut second) = (Scene::new(&Rules::default()), Scene::new(&Rules::default()));
    first.now.wall = first.now.wall.plus(300_000);
    first.register(instance("SHOP", "1"));
    assert_eq!(second.peer(&state(&first, Overrides::Merged)), Said::Done);
    (first, second)
}

fn assert_same(first: &Scene, second: &Scene) {
    let (mine, theirs) = (first.instance("SHOP", "1"), second.instance("SHOP", "1"));
    assert_eq!(Version::of(mine), Version::of(theirs));
    assert_eq!(mine.status, theirs.status);
    assert_eq!(
        first.override_of("SHOP", "1"),
        second.override_of("SHOP", "1")
    );
}

#[test]
fn a_state_arrives_as_it_is_and_again_changes_nothing() {
    let (first, mut second) = pair();
    assert_same(&first, &second);
    let before = second.log.len();
    assert_eq!(second.peer(&state(&first, Overrides::Whole)), Said::Done);
    assert_eq!(second.log.len(), before);
}

#[test]
fn an_override_of_the_node_with_the_slow_clock_wins_over_what_it_changed() {
    let (mut first, mut second) = pair();
    assert_eq!(second.client(&set("SHOP", "1", OUT, None)), Said::Done);
    assert_eq!(first.peer(&state(&second, Overrides::Whole)), Said::Done);
    assert_same(&first, &second);
    assert_eq!(first.override_of("SHOP", "1"), Some(OUT));
    assert_eq!(second.client(&lift("SHOP", "1", None, None)), Said::Done);
    assert_eq!(first.peer(&state(&second, Overrides::Whole)), Said::Done);
    assert_eq!(first.override_of("SHOP", "1"), None);
    assert_eq!(first.instance("SHOP", "1").status, Status::Up);
}

#[test]
fn an_older_state_that_comes_late_is_answered_with_the_newer_one() {
    let (mut first, mut second) = pair();
    let early = state(&second, Overrides::Whole);
    second.client(&set("SHOP", "1", OUT, None));
    let later = state(&second, Overrides::Whole);
    assert_eq!(first.peer(&later), Said::Done);
    assert_eq!(first.peer(&early), Said::Conflict);
    assert_same(&first, &second);
}

#[test]
fn an_override_holds_when_the_client_describes_itself_anew_where_nobody_had_heard_of_it() {
    let (mut first, mut second) = pair();
    first.client(&set("SHOP", "1", OUT, None));
    second.register(version(200, instance("SHOP", "1")));
    assert_eq!(first.peer(&state(&second, Overrides::Merged)), Said::Done);
    assert_eq!(first.instance("SHOP", "1").last_dirty_timestamp, 200);
    assert_eq!(first.override_of("SHOP", "1"), Some(OUT));
    // And that is the newer state of the two.
    assert_eq!(second.peer(&state(&first, Overrides::Merged)), Said::Done);
    assert_same(&first, &second);
    assert_eq!(second.instance("SHOP", "1").status, OUT);
}

#[test]
fn an_override_is_lifted_by_a_new_description_whose_node_means_it() {
    let (mut first, mut second) = pair();
    first.client(&set("SHOP", "1", OUT, None));
    second.peer(&state(&first, Overrides::Whole));
    second.register(version(200, instance("SHOP", "1")));
    second.client(&lift("SHOP", "1", None, None));
    assert_eq!(first.peer(&state(&second, Overrides::Whole)), Said::Done);
    assert_same(&first, &second);
    assert_eq!(first.override_of("SHOP", "1"), None);
}

#[test]
fn a_cancel_spares_only_what_was_registered_after_it() {
    let (mut first, mut second) = pair();
    let (app, id) = (AppName::new("SHOP"), InstanceId::new("1"));
    let late = state(&first, Overrides::Whole);
    first.client(&cancel("SHOP", "1"));
    let stone = *first
        .registry
        .tombstone(&app, &id)
        .expect("it was cancelled");
    let told = Command::Cancel {
        app: app.clone(),
        id: id.clone(),
        version: Some(stone.version),
    };
    // What operators did in between does not keep it.
    second.now.wall = second.now.wall.plus(900_000);
    second.client(&set("SHOP", "1", OUT, None));
    assert_eq!(second.peer(&told), Said::Done);
    assert!(!second.has("SHOP", "1"));
    assert_eq!(
        second
            .registry
            .tombstone(&app, &id)
            .map(|stone| stone.is_cancelled),
        Some(true)
    );
    // A state from before the cancel brings nothing back.
    assert_eq!(second.peer(&late), Said::Done);
    assert!(!second.has("SHOP", "1"));
    // A registration after it does, though the client keeps its version and the clock is slow.
    second.now.wall = Millis(START);
    second.register(instance("SHOP", "1"));
    assert_eq!(first.peer(&state(&second, Overrides::Merged)), Said::Done);
    assert_eq!(second.peer(&told), Said::Conflict);
    assert_same(&first, &second);
}

#[test]
fn a_registration_after_a_cancel_outlives_another_cancel_of_the_same_that_came_later_elsewhere() {
    // The client's clock was ahead when it registered first, and is right when it comes again.
    let (mut first, mut second) = (Scene::new(&Rules::default()), Scene::new(&Rules::default()));
    let ahead = first.now.wall.signed() + 720_000;
    for scene in [&mut first, &mut second] {
        scene.register(version(ahead, instance("SHOP", "1")));
        scene.pass(1000);
    }
    // Each is told to cancel it, by clocks that differ.
    first.client(&cancel("SHOP", "1"));
    second.pass(239_999);
    second.client(&cancel("SHOP", "1"));
    let now = first.now.wall.signed();
    first.register(version(now, instance("SHOP", "1")));
    assert_eq!(second.peer(&state(&first, Overrides::Whole)), Said::Done);
    assert!(second.has("SHOP", "1"), "it was acknowledged");
    let lease = first.lease("SHOP", "1");
    let (app, id) = (AppName::new("SHOP"), InstanceId::new("1"));
    second.client(&cancel("SHOP", "1"));
    let stone = *second.registry.tombstone(&app, &id).expect("it is gone");
    assert!(
        stone.ends(Version::of_registration(&lease.image), true),
        "a cancel of that one is told"
    );
}

#[test]
fn states_made_of_one_in_the_same_millisecond_end_the_same_whatever_their_order() {
    let (mut first, mut second) = pair();
    second.now = first.now;
    first.pass(5);
    second.pass(5);
    first.client(&set("SHOP", "1", OUT, None));
    second.client(&set("SHOP", "1", Status::Down, None));
    let (mine, theirs) = (
        state(&first, Overrides::Whole),
        state(&second, Overrides::Whole),
    );
    let said = [first.peer(&theirs), second.peer(&mine)];
    assert!(
        said.contains(&Said::Done) && said.contains(&Said::Conflict),
        "{said:?}"
    );
    assert_same(&first, &second);
}

/// The second node's lease of what [`pair`] has ran out.
fn expired() -> (Scene, Scene) {
    let (mut first, mut second) = pair();
    for scene in [&mut first, &mut second] {
        scene.pass(200_000);
    }
    assert_eq!(second.evict(0.0, 1), Said::Evicted(1, 1));
    (first, second)
}

#[test]
fn what_ran_out_is_not_taken_over_again_from_a_node_that_knows_no_better() {
    let (mut first, mut second) = expired();
    // That node has just started and gives everybody a grace.
    first.lease("SHOP", "1").clock.restart(first.now.mono);
    assert_eq!(
        first.lease("SHOP", "1").remaining_ms(first.now.mono),
        90_000
    );
    assert_eq!(second.peer(&state(&first, Overrides::Merged)), Said::Done);
    assert!(!second.has("SHOP", "1"));
    // A heartbeat there makes the difference.
    first.renew("SHOP", "1");
    assert_eq!(second.peer(&state(&first, Overrides::Merged)), Said::Done);
    assert_same(&first, &second);
}

#[test]
fn a_state_that_nobody_vouches_for_gets_a_grace_and_vouches_for_nothing() {
    let (first, _) = expired();
    let mut third = Scene::new(&Rules::default());
    assert_eq!(third.peer(&state(&first, Overrides::Merged)), Said::Done);
    let lease = third.lease("SHOP", "1");
    assert_eq!(lease.remaining_ms(third.now.mono), 90_000);
    assert_eq!(lease.vouched_ms(third.now.mono), 0);
    third.renew("SHOP", "1");
    assert_eq!(third.lease("SHOP", "1").vouched_ms(third.now.mono), 90_000);
}

#[test]
fn a_state_that_is_told_again_prolongs_no_lease() {
    let (mut first, mut second) = pair();
    for scene in [&mut first, &mut second] {
        scene.pass(60_000);
    }
    for _ in 0..3 {
        assert_eq!(second.peer(&state(&first, Overrides::Whole)), Said::Done);
    }
    let left = second.lease("SHOP", "1").remaining_ms(second.now.mono);
    assert_eq!(left, 30_000);
    // Nor does a newer one: it comes with the lease that it has there.
    first.client(&put_metadata("SHOP", "1", &[("a", "b")]));
    assert_eq!(second.peer(&state(&first, Overrides::Whole)), Said::Done);
    assert_same(&first, &second);
    let left = second.lease("SHOP", "1").remaining_ms(second.now.mono);
    assert_eq!(left, 30_000);
}

#[test]
fn an_expiry_elsewhere_ends_only_what_nobody_vouches_for() {
    let expire = |dirty| Command::Expire {
        app: AppName::new("SHOP"),
        id: InstanceId::new("1"),
        version: Version {
            dirty,
            updated: shown(START),
        },
    };
    let mut scene = Scene::new(&Rules::default());
    assert_eq!(scene.peer(&expire(100)), Said::NotFound);
    scene.register(instance("SHOP", "1"));
    assert_eq!(scene.peer(&expire(100)), Said::Conflict);
    scene.lease("SHOP", "1").clock.restart(scene.now.mono);
    assert_eq!(scene.peer(&expire(99)), Said::Conflict, "of an older one");
    assert_eq!(scene.peer(&expire(100)), Said::Done);
    assert!(!scene.has("SHOP", "1"));
    let last = scene.log.last().expect("a record");
    assert_eq!(last.change.kind, ChangeKind::Evicted);
}

#[test]
fn an_operators_word_outlives_an_eviction_on_another_node() {
    let (mut first, mut second) = expired();
    first.renew("SHOP", "1");
    assert_eq!(first.client(&set("SHOP", "1", OUT, None)), Said::Done);
    // The client fails over to the node that has evicted it, and that has never heard of the override.
    second.register(version(200, instance("SHOP", "1")));
    assert_eq!(first.peer(&state(&second, Overrides::Merged)), Said::Done);
    assert_eq!(first.override_of("SHOP", "1"), Some(OUT));
    let lease = second.lease("SHOP", "1");
    assert!(
        lease.image.is_untouched(),
        "it is told as a description alone"
    );
}

#[test]
fn a_state_that_is_taken_over_lets_a_lease_run_as_long_as_the_sender_vouches_and_no_longer() {
    let (mut first, mut second) = pair();
    for scene in [&mut first, &mut second] {
        scene.pass(60_000);
    }
    let left = |scene: &Scene| scene.lease("SHOP", "1").remaining_ms(scene.now.mono);
    // It was renewed there.
    first.renew("SHOP", "1");
    first.pass(10_000);
    second.pass(10_000);
    assert_eq!(second.peer(&state(&first, Overrides::Whole)), Said::Done);
    assert_eq!(left(&second), 80_000);
    // An override keeps the lease's clock: the dead do not live longer by it.
    first.client(&set("SHOP", "1", OUT, None));
    for scene in [&mut first, &mut second] {
        scene.pass(79_000);
    }
    assert_eq!(second.peer(&state(&first, Overrides::Whole)), Said::Done);
    assert_eq!(second.override_of("SHOP", "1"), Some(OUT));
    assert_eq!(
        left(&first),
        11_000,
        "the word renewed it where it was said"
    );
    assert_eq!(left(&second), 1_000);
    assert!(!second.lease("SHOP", "1").is_vouched(second.now.mono));
}

#[test]
fn as_long_as_the_log_cannot_be_asked_only_those_that_live_are_taken_over() {
    let (first, _) = pair();
    for (vouched_ms, is_taken) in [(Some(0), false), (Some(60_000), true), (None, true)] {
        let Command::Adopt(mut adoption) = state(&first, Overrides::Whole) else {
            panic!("it is a state");
        };
        adoption.vouched_ms = vouched_ms;
        adoption.recalled = Recalled::Unknown;
        let mut third = Scene::new(&Rules::default());
        assert_eq!(third.peer(&Command::Adopt(adoption)), Said::Done);
        assert_eq!(third.has("SHOP", "1"), is_taken, "{vouched_ms:?}");
    }
}
