//! A peer that was away: it gets what changed, once, however much that was; and one that the log
//! cannot bring up to date gets everything.

use super::node::{START, Waiting};
use super::world::{Setup, World};
use crate::registry::Registry;
use crate::registry::change::Origin;
use crate::registry::command::{Command, Renewal};
use crate::registry::status::Status;
use crate::types::Lsn;

const INSTANCES: usize = 500;
const CHANGES: usize = 20_000;

/// So many nodes and clients in fine weather; the clients do nothing by themselves.
pub(super) fn calm(nodes: usize, java_nodes: usize, clients: usize) -> Setup {
    Setup {
        nodes,
        java_nodes,
        clients,
        storm: 0,
        loss: 0,
        twice: 0,
        delay: 10,
        skew: 300_000,
        expires: false,
        crashes: false,
        partitions: false,
        sickness: false,
        beats_in_calm: false,
    }
}

/// Every instance registered on the first node and known to the second, which then goes down.
fn begin(java_nodes: usize) -> World {
    let mut world = World::new(calm(2 - java_nodes, java_nodes, INSTANCES), 1, false);
    world.clear_up();
    for client in &mut world.clients.all {
        client.dirty = START.cast_signed();
    }
    change(
        &mut world,
        |world, number| Command::Register(world.clients.all[number].describe().into()),
        INSTANCES,
    );
    world.run(20_000);
    world.nodes[1].crash();
    world
}

/// So many changes on the first node, an instance after the other.
fn change(world: &mut World, command: impl Fn(&mut World, usize) -> Command, count: usize) {
    for step in 0..count {
        let command = command(world, step % INSTANCES);
        world.submit(0, &[command], &Origin::Client, Waiting::Nobody);
        if step % 50 == 0 {
            let next = world.time + 10;
            world.run(next);
        }
    }
    let next = world.time + 100;
    world.run(next);
}

fn describe_anew(world: &mut World, number: usize) -> Command {
    let (time, client) = (world.time, &mut world.clients.all[number]);
    client.dirty = (START + time).cast_signed().max(client.dirty + 1);
    Command::Register(client.describe().into())
}

pub(super) fn assert_same(world: &World) {
    let [first, second] = &world.nodes[..] else {
        panic!("two nodes")
    };
    let (first, second) = (&first.published.registry, &second.published.registry);
    assert_eq!(first.len(), second.len());
    for lease in first.leases() {
        let instance = lease.instance();
        let theirs = second.lease(instance.app.as_str(), instance.id().as_str());
        let theirs = theirs.expect("known there too").instance();
        assert_eq!(theirs.last_dirty_timestamp, instance.last_dirty_timestamp);
        assert_eq!(theirs.status, instance.status);
        assert_eq!(theirs.overridden_status, instance.overridden_status);
    }
}

#[test]
fn a_peer_that_missed_20000_changes_of_500_instances_is_told_of_each_instance_once() {
    for java_nodes in [0, 1] {
        let mut world = begin(java_nodes);
        change(&mut world, describe_anew, CHANGES);
        // Until somebody has found that nobody is there.
        let next = world.time + 20_000;
        world.run(next);
        let before = world.items;
        world.clear_up();
        let next = world.time + 20_000;
        world.run(next);
        assert_same(&world);
        // A Java node that was gone may lack everything: it is swept besides.
        let times = 1 + java_nodes as u64;
        let items = world.items - before;
        assert_eq!(items, times * INSTANCES as u64, "{java_nodes} Java");
    }
}

#[test]
fn overrides_that_were_set_and_lifted_meanwhile_arrive_as_they_are_now() {
    for java_nodes in [0, 1] {
        let mut world = begin(java_nodes);
        let operate = |world: &mut World, number: usize| {
            let client = &world.clients.all[number];
            let (app, id) = (client.app.clone(), client.id.clone());
            if world.random.chance(50) {
                let status = Status::OutOfService;
                Command::SetStatus {
                    app,
                    id,
                    status,
                    dirty: None,
                }
            } else {
                Command::DeleteOverride {
                    app,
                    id,
                    status: None,
                    dirty: None,
                }
            }
        };
        change(&mut world, operate, 4 * INSTANCES);
        world.clear_up();
        let next = world.time + 20_000;
        world.run(next);
        assert_same(&world);
    }
}

#[test]
fn a_peer_that_was_away_for_longer_than_the_log_goes_back_gets_everything() {
    for java_nodes in [0, 1] {
        let mut world = begin(java_nodes);
        change(&mut world, describe_anew, 2 * INSTANCES);
        world.nodes[0].floor = Lsn(world.nodes[0].published.lsn().0 - 10);
        let time = world.time;
        world.nodes[0].forget_window(0, time + 1);
        world.clear_up();
        let next = world.time + 20_000;
        world.run(next);
        assert_same(&world);
    }
}

#[test]
fn registries_that_are_larger_than_a_question_and_an_answer_are_compared_piece_by_piece() {
    let mut world = begin(0);
    change(&mut world, describe_anew, 2 * INSTANCES);
    world.nodes[0].floor = Lsn(world.nodes[0].published.lsn().0 - 10);
    let time = world.time;
    world.nodes[0].forget_window(0, time + 1);
    for node in &mut world.nodes {
        node.compare_bytes = 20_000;
    }
    world.clear_up();
    let next = world.time + 20_000;
    world.run(next);
    assert_same(&world);
}

/// Nodes whose comparison and whose changes do not go over the link in one piece in the time that a peer
/// is given at most.
#[test]
fn over_a_slow_link_everything_arrives_in_pieces() {
    for (java_nodes, is_trimmed) in [(0, false), (0, true), (1, false), (1, true)] {
        let mut world = begin(java_nodes);
        change(&mut world, describe_anew, 2 * INSTANCES);
        if is_trimmed {
            world.nodes[0].floor = Lsn(world.nodes[0].published.lsn().0 - 10);
            let time = world.time;
            world.nodes[0].forget_window(0, time + 1);
        }
        world.rate = Some(15);
        world.clear_up();
        let next = world.time + 120_000;
        world.run(next);
        assert_same(&world);
        let told = world.nodes[0].links[&1].sender.cursor();
        assert_eq!(told, Some(world.nodes[0].published.lsn()));
    }
}

#[test]
fn a_large_difference_heals_over_a_slow_link_whichever_side_lacks_it() {
    for lacking in [0, 1] {
        let mut world = World::new(calm(2, 0, INSTANCES), 1, false);
        world.clear_up();
        for client in &mut world.clients.all {
            client.dirty = START.cast_signed();
        }
        world.nodes[lacking].crash();
        let has = 1 - lacking;
        for number in 0..INSTANCES {
            let command = Command::Register(world.clients.all[number].describe().into());
            world.submit(has, &[command], &Origin::Operator, Waiting::Nobody);
        }
        world.run(10_000);
        // Nobody is told what is in the log, and only the lacking side asks.
        world.nodes[has].floor = Lsn(world.nodes[has].published.lsn().0);
        let time = world.time;
        world.nodes[has].forget_window(0, time + 1);
        world.rate = Some(15);
        world.clear_up();
        world.nodes[has].links.clear();
        let next = world.time + 120_000;
        world.run(next);
        assert_same(&world);
    }
}

#[test]
fn a_peer_that_needs_three_seconds_for_an_answer_gets_everything() {
    for java_nodes in [0, 1] {
        let mut world = begin(java_nodes);
        change(&mut world, describe_anew, 2 * INSTANCES);
        world.nodes[1].slow = 3000;
        world.clear_up();
        let next = world.time + 90_000;
        world.run(next);
        assert_same(&world);
        let told = world.nodes[0].links[&1].sender.cursor();
        assert_eq!(told, Some(world.nodes[0].published.lsn()));
    }
}

/// The override that every tenth instance is given.
fn override_some(world: &mut World, at: usize) {
    for number in (0..INSTANCES).step_by(10) {
        let client = &world.clients.all[number];
        let command = Command::SetStatus {
            app: client.app.clone(),
            id: client.id.clone(),
            status: Status::OutOfService,
            dirty: None,
        };
        world.submit(at, &[command], &Origin::Client, Waiting::Nobody);
    }
    let next = world.time + 1000;
    world.run(next);
}

#[test]
fn a_java_node_that_lost_everything_has_it_again_without_heartbeats() {
    let mut world = begin(1);
    override_some(&mut world, 0);
    let next = world.time + 60_000;
    world.run(next);
    world.nodes[1].lose_everything();
    world.clear_up();
    let next = world.time + 20_000;
    world.run(next);
    assert_same(&world);
    assert_eq!(world.nodes[1].published.registry.len(), INSTANCES as u64);
}

#[test]
fn what_a_java_node_was_told_while_nobody_heard_it_is_learned_after_a_restart() {
    let mut world = begin(1);
    world.clear_up();
    let next = world.time + 20_000;
    world.run(next);
    world.nodes[0].crash();
    override_some(&mut world, 1);
    let time = world.time;
    world.nodes[1].give_up_telling(0, time);
    world.clear_up();
    let next = world.time + 20_000;
    world.run(next);
    let here = &world.nodes[0].published.registry;
    assert_eq!(overridden(here), INSTANCES / 10);
    assert_same(&world);
}

/// A Java node that is told everything, and gives up telling what it has to say.
#[test]
fn what_a_java_node_cannot_tell_is_learned_though_nothing_else_is_wrong() {
    let mut world = begin(1);
    world.clear_up();
    let next = world.time + 20_000;
    world.run(next);
    world.nodes[1].links.clear();
    override_some(&mut world, 1);
    for number in [1, 2] {
        cancel(&mut world, 1, number);
    }
    let next = world.time + 100;
    world.run(next);
    let mut again = world.clients.all[2].describe();
    again.last_dirty_timestamp += 1;
    world.submit(
        1,
        &[Command::Register(again.into())],
        &Origin::Client,
        Waiting::Nobody,
    );
    // What it lists is half a minute old at most.
    let next = world.time + 35_000;
    world.run(next);
    assert_same(&world);
    let here = &world.nodes[0].published.registry;
    assert_eq!(here.len(), INSTANCES as u64 - 1);
    assert_eq!(overridden(here), INSTANCES / 10);
    // Once, whatever it goes on to list.
    let end = here.lsn();
    let next = world.time + 60_000;
    world.run(next);
    assert_eq!(world.nodes[0].published.lsn(), end);
}

/// A client that lives says goodbye at a node.
fn cancel(world: &mut World, at: usize, number: usize) {
    beat(world, at, number);
    let client = &world.clients.all[number];
    let command = Command::Cancel {
        app: client.app.clone(),
        id: client.id.clone(),
        version: None,
    };
    world.submit(at, &[command], &Origin::Client, Waiting::Nobody);
}

fn beat(world: &mut World, at: usize, number: usize) {
    let (client, time) = (&world.clients.all[number], world.time);
    let (app, id) = (client.app.as_str(), client.id.as_str());
    let renewed = world.nodes[at].renew(app, id, Renewal::default(), false, time);
    assert!(renewed.is_some(), "a renewal changes nothing");
}

/// Instances that are out of service by an override.
fn overridden(registry: &Registry) -> usize {
    let is_overridden = |lease: &&std::sync::Arc<crate::registry::lease::Lease>| {
        lease.instance().overridden_status == Status::OutOfService
    };
    registry.leases().filter(is_overridden).count()
}

/// A Java node that lives on while it is cut off, and in which a client says goodbye meanwhile.
#[test]
fn what_was_cancelled_at_a_java_node_in_a_cut_does_not_come_back() {
    for gives_up in [false, true] {
        let mut world = begin(1);
        world.clear_up();
        let next = world.time + 20_000;
        world.run(next);
        // This is told later.
        beat(&mut world, 0, 1);
        world.blocked[0][1] = true;
        world.blocked[1][0] = true;
        cancel(&mut world, 1, 1);
        let next = world.time + 40_000;
        world.run(next);
        if gives_up {
            let time = world.time;
            world.nodes[1].give_up_telling(0, time);
        }
        world.clear_up();
        let next = world.time + 10_000;
        world.run(next);
        assert_same(&world);
        let count = world.nodes[0].published.registry.len();
        assert_eq!(count, INSTANCES as u64 - 1, "{gives_up}");
    }
}
