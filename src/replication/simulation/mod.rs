//! Whole clusters in one deterministic test: nodes with the real registry, log rules, senders and
//! endpoints, on a network that loses, delays, repeats, reorders and cuts, with crashes, skewed
//! clocks, peers out of order and peers of the original's kind. One seed decides everything.
//!
//! `EUREKAD_SIM_SEED=n` runs one seed and prints the end of its event log, `EUREKAD_SIM_SEEDS=n` runs
//! that many instead of [`SEEDS`].

mod catch_up;
mod checks;
mod clients;
mod disk;
mod log;
mod network;
mod node;
mod partition;
mod random;
mod trace;
mod weather;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use node::LISTED_FOR;
use random::Random;
use world::{Setup, World};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 2000;
/// How soon after the last change nodes of our own kind are equal, ms.
const CONVERGED_AFTER: u64 = 5000;
/// What the nodes of some worlds read of a question: a few instances, so that comparisons are divided.
const COMPARE_BYTES: usize = 1500;
/// What the links of some worlds carry, bytes in a millisecond.
const SLOW_RATE: usize = 40;
/// Lines of the event log that a failure shows.
const SHOWN_LINES: usize = 400;

fn setup_of(seed: u64) -> Setup {
    let mut random = Random::new(seed ^ 0x5EED);
    let expires = random.chance(25);
    let has_java = random.chance(25);
    Setup {
        nodes: usize::try_from(random.within(2, 5)).expect("a small number"),
        java_nodes: if has_java { random.place(2) + 1 } else { 0 },
        clients: random.place(14) + 2,
        // Long enough for leases to run out while a node is away.
        storm: if expires {
            random.within(20_000, 150_000)
        } else {
            random.within(5_000, 40_000)
        },
        loss: if random.chance(70) {
            random.within(0, 25)
        } else {
            0
        },
        twice: if random.chance(60) {
            random.within(0, 20)
        } else {
            0
        },
        delay: random.within(10, 1500),
        skew: if random.chance(70) { 300_000 } else { 0 },
        expires,
        crashes: random.chance(50),
        partitions: random.chance(60),
        sickness: random.chance(40),
        beats_in_calm: expires || random.chance(60),
    }
}

/// Runs a seed to its end. The world, and what is wrong with it.
fn run(seed: u64, traces: bool) -> (World, Result<(), String>) {
    let setup = setup_of(seed);
    let mut world = World::new(setup, seed, traces);
    if seed.is_multiple_of(3) {
        for node in &mut world.nodes {
            node.compare_bytes = COMPARE_BYTES;
        }
    }
    if seed % 7 == 2 {
        world.rate = Some(SLOW_RATE);
    }
    let storm = world.setup.storm;
    world.run(storm);
    world.clear_up();
    let wait = if world.setup.java_nodes > 0 {
        LISTED_FOR + 2 * CONVERGED_AFTER
    } else {
        CONVERGED_AFTER
    };
    if world.setup.expires {
        // Whoever is dead goes: its lease, and the grace of a node that restarted, run out. Until then
        // the nodes agree on who is still there.
        while world.time < storm + 90_000 {
            world.run(world.time + 500);
            if world.time >= world.last_change + wait
                && let Err(error) = world.check_agreement()
            {
                return (world, Err(error));
            }
        }
    }
    // Who got no answer goes on asking until then, too.
    let latest = world.time + 120_000;
    while world.time < latest {
        let until = world.last_change + wait;
        if until <= world.time {
            break;
        }
        world.run(until);
    }
    let result = world.check();
    (world, result)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test takes its seeds from outside"
)]
fn number_in(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_cluster_agrees_after_the_storm() {
    if let Some(seed) = number_in("EUREKAD_SIM_SEED") {
        let (world, result) = run(seed, true);
        let trace = world.trace.unwrap_or_default();
        let from = trace.len().saturating_sub(
            number_in("EUREKAD_SIM_LINES").map_or(SHOWN_LINES, |n| usize::try_from(n).unwrap_or(0)),
        );
        for line in &trace[from..] {
            println!("{line}");
        }
        println!("{:?}", world.setup);
        assert_eq!(result, Ok(()), "seed {seed}");
        return;
    }
    let seeds = number_in("EUREKAD_SIM_SEEDS").unwrap_or(SEEDS);
    let first = number_in("EUREKAD_SIM_FIRST").unwrap_or(0);
    let next = AtomicU64::new(first);
    let work = || {
        let mut failures: Vec<(u64, String)> = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return failures;
            }
            let ended = std::panic::catch_unwind(|| run(seed, false).1);
            let result = ended.unwrap_or_else(|_| Err("it panicked".into()));
            failures.extend(result.err().map(|error| (seed, error)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut failures: Vec<(u64, String)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker"));
        ended.collect()
    });
    failures.sort();
    for (seed, error) in failures.iter().take(20) {
        println!("seed {seed}: {error}");
    }
    assert!(
        failures.is_empty(),
        "{} of {seeds} seeds failed",
        failures.len()
    );
}

#[test]
fn a_seed_runs_the_same_way_twice() {
    for seed in [3, 17, 42] {
        let (first, second) = (run(seed, true).0, run(seed, true).0);
        assert!(first.trace.as_ref().is_some_and(|trace| trace.len() > 50));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.digest, second.digest, "seed {seed}");
    }
}
