//! What happens on both sides of a partition: one rule decides, and nothing that was cancelled comes
//! back.

use super::CONVERGED_AFTER;
use super::catch_up::{assert_same, calm};
use super::node::{START, Waiting};
use super::world::World;
use crate::registry::change::Origin;
use crate::registry::command::Command;
use crate::registry::status::Status;

const OUT: Status = Status::OutOfService;

/// Two nodes with the same clock that know one instance.
fn begin() -> World {
    let mut setup = calm(2, 0, 1);
    setup.skew = 0;
    let mut world = World::new(setup, 7, false);
    world.clear_up();
    register(&mut world, 0, START.cast_signed());
    pass(&mut world, CONVERGED_AFTER);
    assert!(has(&world, 0) && has(&world, 1));
    world
}

fn pass(world: &mut World, ms: u64) {
    let until = world.time + ms;
    world.run(until);
}

fn register(world: &mut World, node: usize, dirty: i64) {
    world.clients.all[0].dirty = dirty;
    let instance = world.clients.all[0].describe();
    submit(world, node, Command::Register(instance.into()));
}

fn submit(world: &mut World, node: usize, command: Command) {
    world.submit(node, &[command], &Origin::Operator, Waiting::Nobody);
}

/// An operator sets an override, or lifts it.
fn say(world: &mut World, node: usize, word: Option<Status>) {
    let client = &world.clients.all[0];
    let (app, id) = (client.app.clone(), client.id.clone());
    let command = match word {
        Some(status) => Command::SetStatus {
            app,
            id,
            status,
            dirty: None,
        },
        None => Command::DeleteOverride {
            app,
            id,
            status: None,
            dirty: None,
        },
    };
    submit(world, node, command);
}

fn cancel(world: &mut World, node: usize) {
    let client = &world.clients.all[0];
    let command = Command::Cancel {
        app: client.app.clone(),
        id: client.id.clone(),
        version: None,
    };
    submit(world, node, command);
}

fn cut(world: &mut World, is_cut: bool) {
    world.blocked[0][1] = is_cut;
    world.blocked[1][0] = is_cut;
}

fn has(world: &World, node: usize) -> bool {
    let (client, registry) = (&world.clients.all[0], &world.nodes[node].published.registry);
    registry
        .lease(client.app.as_str(), client.id.as_str())
        .is_some()
}

fn held(world: &World, node: usize) -> Option<Status> {
    let client = &world.clients.all[0];
    let registry = &world.nodes[node].published.registry;
    registry.override_of(&client.app, &client.id)
}

#[test]
fn words_of_one_version_on_both_sides_end_in_the_same_way_whichever_side_said_which() {
    for pair in [
        [Some(OUT), Some(Status::Down)],
        [Some(OUT), Some(Status::Up)],
        [Some(OUT), None],
        [Some(Status::Down), None],
    ] {
        let outcomes = [pair, [pair[1], pair[0]]].map(|words| {
            let mut world = begin();
            say(&mut world, 0, Some(Status::Starting));
            pass(&mut world, CONVERGED_AFTER);
            assert_eq!(held(&world, 1), Some(Status::Starting));
            cut(&mut world, true);
            // In the same millisecond.
            say(&mut world, 0, words[0]);
            say(&mut world, 1, words[1]);
            pass(&mut world, 30_000);
            assert_eq!([held(&world, 0), held(&world, 1)], words);
            cut(&mut world, false);
            pass(&mut world, CONVERGED_AFTER);
            assert_same(&world);
            assert_eq!(held(&world, 0), held(&world, 1), "{words:?}");
            held(&world, 0)
        });
        assert_eq!(outcomes[0], outcomes[1], "{pair:?}");
        assert!(outcomes[0].is_some(), "an operator's word outranks none");
    }
}

#[test]
fn the_later_word_holds_on_both_sides() {
    for words in [[Some(OUT), None], [Some(OUT), Some(Status::Down)]] {
        for first in [0, 1] {
            let mut world = begin();
            say(&mut world, 0, Some(Status::Starting));
            pass(&mut world, CONVERGED_AFTER);
            cut(&mut world, true);
            say(&mut world, first, words[0]);
            pass(&mut world, 10_000);
            say(&mut world, 1 - first, words[1]);
            pass(&mut world, 10_000);
            cut(&mut world, false);
            pass(&mut world, CONVERGED_AFTER);
            assert_eq!([held(&world, 0), held(&world, 1)], [words[1]; 2]);
        }
    }
}

#[test]
fn what_was_cancelled_on_one_side_does_not_come_back_from_the_other() {
    for word in [Some(OUT), None] {
        for side in [0, 1] {
            let mut world = begin();
            cut(&mut world, true);
            cancel(&mut world, side);
            pass(&mut world, 1000);
            say(&mut world, 1 - side, word);
            pass(&mut world, 30_000);
            cut(&mut world, false);
            pass(&mut world, CONVERGED_AFTER);
            for _ in 0..20 {
                assert!(!has(&world, 0) && !has(&world, 1), "{word:?} {side}");
                pass(&mut world, 1000);
            }
        }
    }
}

#[test]
fn what_was_registered_anew_on_one_side_outlives_the_cancel_of_the_other() {
    for side in [0, 1] {
        let mut world = begin();
        cut(&mut world, true);
        cancel(&mut world, side);
        let newer = (START + world.time).cast_signed();
        register(&mut world, 1 - side, newer);
        pass(&mut world, 30_000);
        cut(&mut world, false);
        pass(&mut world, CONVERGED_AFTER);
        assert!(has(&world, 0) && has(&world, 1));
        assert_same(&world);
    }
}

#[test]
fn a_node_that_forgot_what_it_told_undoes_nothing_when_it_tells_that_again() {
    let mut world = begin();
    let noted = world.nodes[0].links[&1].sender.note();
    say(&mut world, 0, Some(OUT));
    pass(&mut world, CONVERGED_AFTER);
    assert_eq!(held(&world, 1), Some(OUT));
    say(&mut world, 1, None);
    pass(&mut world, CONVERGED_AFTER);
    assert_eq!(held(&world, 0), None);
    world.nodes[0].crash();
    world.nodes[0].noted.insert(1, noted);
    pass(&mut world, 1000);
    world.clear_up();
    pass(&mut world, CONVERGED_AFTER);
    assert_eq!([held(&world, 0), held(&world, 1)], [None, None]);
    assert_same(&world);
}

#[test]
fn what_was_cancelled_so_long_ago_that_only_the_log_knows_it_does_not_come_back() {
    for side in [0, 1] {
        for is_swept in [false, true] {
            let mut world = begin();
            world.nodes[1 - side].crash();
            cancel(&mut world, side);
            pass(&mut world, 60_000);
            world.nodes[side].forget_removals();
            if is_swept {
                // The node that knows does not tell it: the other has to ask.
                let node = &mut world.nodes[side];
                let (end, peer) = (node.published.lsn(), node.links.get_mut(&(1 - side)));
                peer.expect("a link").sender.sweep_instead(end);
            }
            world.clear_up();
            for _ in 0..20 {
                pass(&mut world, 1000);
                assert!(!has(&world, side), "side {side}, swept: {is_swept}");
            }
            assert!(!has(&world, 1 - side));
        }
    }
}

#[test]
fn an_override_that_went_with_a_cancel_does_not_come_back_with_the_next_registration() {
    for side in [0, 1] {
        for is_away in [false, true] {
            let mut world = begin();
            say(&mut world, side, Some(OUT));
            pass(&mut world, CONVERGED_AFTER);
            assert_eq!(held(&world, 1 - side), Some(OUT));
            if is_away {
                world.nodes[1 - side].crash();
            } else {
                cut(&mut world, true);
            }
            cancel(&mut world, side);
            pass(&mut world, 1000);
            let newer = (START + world.time).cast_signed();
            register(&mut world, side, newer);
            pass(&mut world, 30_000);
            world.clear_up();
            pass(&mut world, CONVERGED_AFTER);
            assert_same(&world);
            assert_eq!(held(&world, side), None, "side {side}, away: {is_away}");
        }
    }
}

#[test]
fn what_was_cancelled_before_a_java_peer_was_first_met_is_gone_there_too() {
    for (restarts, is_noted) in [(0, true), (1, true), (2, true), (1, false)] {
        let mut setup = calm(1, 1, 1);
        setup.skew = 0;
        let mut world = World::new(setup, 7, false);
        world.clear_up();
        cut(&mut world, true);
        // A client that came to one node after the other.
        register(&mut world, 1, START.cast_signed());
        register(&mut world, 0, START.cast_signed());
        pass(&mut world, 5000);
        let time = world.time;
        world.nodes[1].give_up_telling(0, time);
        for _ in 0..restarts {
            world.nodes[0].crash();
            pass(&mut world, 1000);
            world.restart(0);
            pass(&mut world, 5000);
        }
        cancel(&mut world, 0);
        pass(&mut world, 5000);
        for _ in 0..restarts {
            world.nodes[0].crash();
            if !is_noted {
                // What else there is to go by.
                world.nodes[0].noted.clear();
            }
            pass(&mut world, 1000);
            world.restart(0);
            pass(&mut world, 5000);
        }
        assert!(!has(&world, 0) && has(&world, 1), "they have not met");
        cut(&mut world, false);
        pass(&mut world, CONVERGED_AFTER);
        assert!(!has(&world, 0), "{restarts} restarts");
        assert_eq!(has(&world, 1), !is_noted, "{restarts} restarts");
    }
}

#[test]
fn who_registered_at_a_java_node_after_a_cancel_that_it_had_not_heard_of_stays() {
    let mut setup = calm(1, 1, 1);
    setup.skew = 0;
    let mut world = World::new(setup, 7, false);
    world.clear_up();
    register(&mut world, 0, START.cast_signed());
    pass(&mut world, CONVERGED_AFTER);
    cut(&mut world, true);
    cancel(&mut world, 0);
    pass(&mut world, 60_000);
    register(&mut world, 1, START.cast_signed() + 1);
    // The original says nothing by itself: it gives up after half a minute.
    world.nodes[1].links.clear();
    cut(&mut world, false);
    for _ in 0..CONVERGED_AFTER {
        pass(&mut world, 1);
        assert!(has(&world, 1), "not for a moment");
    }
    assert!(has(&world, 0), "it is told by the answer");
}
