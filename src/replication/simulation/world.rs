//! The world of a simulation: virtual time, the network between the nodes, crashes, and the order in
//! which everything happens, all from one seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::clients::Clients;
use super::node::{SimNode, Waiting};
use super::random::Random;
use crate::registry::change::Origin;
use crate::registry::command::{Command, Eviction, Reply};
use crate::replication::sender::{Failure, Kind, Outcome};

/// Least time between two notes of the cursors, ms.
pub(super) const NOTE_EVERY: u64 = 1000;
const EVICT_EVERY: u64 = 5000;

/// What a simulation is made of.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a list of switches")]
pub(super) struct Setup {
    pub(super) nodes: usize,
    pub(super) java_nodes: usize,
    pub(super) clients: usize,
    /// How long the weather is bad, ms.
    pub(super) storm: u64,
    /// Percent of messages that are lost, and that come twice.
    pub(super) loss: u64,
    pub(super) twice: u64,
    /// Longest delay, ms.
    pub(super) delay: u64,
    /// Clocks differ by up to so much, ms.
    pub(super) skew: u64,
    /// Whether leases expire and clients may die unheard.
    pub(super) expires: bool,
    pub(super) crashes: bool,
    pub(super) partitions: bool,
    pub(super) sickness: bool,
    /// Whether clients send heartbeats in the calm.
    pub(super) beats_in_calm: bool,
}

#[derive(Debug)]
pub(super) enum Event {
    Wake {
        node: usize,
        peer: usize,
        epoch: u32,
    },
    Deliver {
        from: usize,
        to: usize,
        request: u64,
        path: &'static str,
        body: Vec<u8>,
    },
    Answer {
        from: usize,
        to: usize,
        request: u64,
        status: u16,
        body: Vec<u8>,
        kind: Kind,
    },
    Fail {
        node: usize,
        peer: usize,
        request: u64,
        failure: Failure,
    },
    Commit {
        node: usize,
        epoch: u32,
    },
    Note {
        node: usize,
    },
    Evict {
        node: usize,
    },
    Client {
        client: usize,
    },
    Reply {
        request: u64,
        reply: Option<Reply>,
    },
    Operate,
    Weather,
    Restart {
        node: usize,
    },
}

pub(super) struct World {
    pub(super) setup: Setup,
    pub(super) random: Random,
    pub(super) time: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    sequence: u64,
    pub(super) nodes: Vec<SimNode>,
    pub(super) clients: Clients,
    /// Blocked directions.
    pub(super) blocked: Vec<Vec<bool>>,
    pub(super) is_calm: bool,
    /// Bytes that a link carries in a millisecond; `None` if it carries any number at once.
    pub(super) rate: Option<usize>,
    pub(super) requests: u64,
    /// Last time at which a client, an operator or a timer changed anything.
    pub(super) last_change: u64,
    pub(super) trace: Option<Vec<String>>,
    pub(super) digest: u64,
    pub(super) most_remembered: usize,
    /// Items sent, by sender and peer.
    pub(super) items: u64,
}

impl World {
    pub(super) fn new(setup: Setup, seed: u64, traces: bool) -> Self {
        let mut random = Random::new(seed);
        let count = setup.nodes + setup.java_nodes;
        let nodes = (0..count)
            .map(|index| {
                let skew =
                    random.within(0, 2 * setup.skew).cast_signed() - setup.skew.cast_signed();
                SimNode::new(index, index >= setup.nodes, skew, setup.expires)
            })
            .collect();
        let clients = Clients::new(setup.clients, count, &setup, &mut random);
        let mut world = Self {
            random,
            time: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            nodes,
            clients,
            blocked: vec![vec![false; count]; count],
            is_calm: false,
            rate: None,
            requests: 0,
            last_change: 0,
            trace: traces.then(Vec::new),
            digest: 0,
            most_remembered: 0,
            items: 0,
            setup,
        };
        for node in 0..count {
            world.start_links(node);
            world.at(NOTE_EVERY, Event::Note { node });
            if world.setup.expires {
                world.at(EVICT_EVERY + 100 * node as u64, Event::Evict { node });
            }
        }
        for client in 0..world.setup.clients {
            let start = world.random.within(0, 5000);
            world.at(start, Event::Client { client });
        }
        world.at(2000, Event::Operate);
        world.at(500, Event::Weather);
        world
    }

    /// Plans an event.
    pub(super) fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.queue
            .push(Reverse((time.max(self.time), self.sequence)));
        self.events.insert(self.sequence, event);
    }

    pub(super) fn after(&mut self, ms: u64, event: Event) {
        self.at(self.time + ms, event);
    }

    /// Writes a line of the event log.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>7} {}", self.time, line()));
        }
    }

    /// Lets everything happen up to `until`.
    pub(super) fn run(&mut self, until: u64) {
        while let Some(Reverse((time, sequence))) = self.queue.peek().copied() {
            if time > until {
                break;
            }
            self.queue.pop();
            self.time = time;
            let event = self.events.remove(&sequence).expect("an event once");
            self.digest =
                (self.digest ^ time ^ sequence.rotate_left(20)).wrapping_mul(0x0000_0100_0000_01B3);
            self.happen(event);
        }
        self.time = until;
    }

    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Wake { node, peer, epoch } => {
                let is_current = self.nodes[node].is_up && self.nodes[node].epoch == epoch;
                let is_due = self.nodes[node]
                    .links
                    .get(&peer)
                    .is_some_and(|l| l.wake_at <= self.time);
                if is_current && is_due {
                    self.step(node, peer);
                }
            }
            Event::Deliver {
                from,
                to,
                request,
                path,
                body,
            } => {
                self.deliver(from, to, request, path, &body);
            }
            Event::Answer {
                from,
                to,
                request,
                status,
                body,
                kind,
            } => {
                self.answered(to, from, request, status, &body, kind);
            }
            Event::Fail {
                node,
                peer,
                request,
                failure,
            } => {
                self.take(node, peer, request, None, |_| Outcome::Failed(failure));
            }
            Event::Commit { node, epoch } => self.commit(node, epoch),
            Event::Note { node } => self.note_places(node),
            Event::Evict { node } => {
                if self.nodes[node].is_up {
                    let seed = self.random.next();
                    let eviction = Eviction {
                        extra_ms: 0,
                        renewal_percent_threshold: 0.0,
                        seed,
                    };
                    self.submit(
                        node,
                        &[Command::Evict(eviction)],
                        &Origin::Timer,
                        Waiting::Nobody,
                    );
                }
                self.after(EVICT_EVERY, Event::Evict { node });
            }
            Event::Client { client } => self.client_acts(client),
            Event::Reply { request, reply } => self.client_hears(request, reply),
            Event::Operate => self.operator_acts(),
            Event::Weather => self.weather(),
            Event::Restart { node } => self.restart(node),
        }
    }

    pub(super) fn tell(&mut self, request: u64, reply: Option<Reply>) {
        let delay = self.random.within(1, 3);
        self.after(delay, Event::Reply { request, reply });
    }
}
