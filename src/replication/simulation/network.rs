//! The network of a simulation: what senders ask is carried, lost, delayed, repeated, or cut off, and so
//! are the answers.

use std::time::Duration;

use super::log::DurablePast;
use super::node::{CONNECT_TIMEOUT, Handled, Link, Sick, SimNode, Waiting};
use super::trace::{heard, told};
use super::world::{Event, World};
use crate::registry::change::Origin;
use crate::registry::command::{Command, Overrides};
use crate::replication::exchange::{self, Message, Reading, Repairing};
use crate::replication::learned::{Unheard, learn};
use crate::replication::past::Removed;
use crate::replication::sender::{Ask, Effect, Failure, Kind, Next, Outcome};
use crate::replication::skew::Skew;
use crate::wire::{Draft, Limits};

impl World {
    pub(super) fn start_links(&mut self, node: usize) {
        for peer in 0..self.nodes.len() {
            if peer == node {
                continue;
            }
            let time = self.time;
            self.nodes[node].link(peer, time);
            let epoch = self.nodes[node].epoch;
            self.after(1, Event::Wake { node, peer, epoch });
            if let Some(link) = self.nodes[node].links.get_mut(&peer) {
                link.wake_at = time + 1;
            }
        }
    }

    /// Asks a sender and sends what it wants.
    pub(super) fn step(&mut self, node: usize, peer: usize) {
        let Some(mut link) = self.nodes[node].links.remove(&peer) else {
            return;
        };
        let mono = self.nodes[node].now(self.time).mono;
        let next = {
            let this = &self.nodes[node];
            link.sender.next(mono, &this.published, &mut this.records())
        };
        self.most_remembered = self.most_remembered.max(link.sender.remembered());
        match next {
            Next::Wait(_) if link.flight.is_some() => {}
            Next::Wait(until) => {
                link.wake_at = SimNode::time_of(until).max(self.time + 1);
                let epoch = self.nodes[node].epoch;
                let at = link.wake_at;
                self.at(at, Event::Wake { node, peer, epoch });
            }
            Next::Ask(ask) => {
                assert!(link.flight.is_none(), "n{node} asks n{peer} twice at once");
                let since = link.last_sent.map_or(u64::MAX, |at| self.time - at);
                assert!(
                    !link.has_failed || since >= 1000,
                    "n{node} asks n{peer} again {since} ms after a failure"
                );
                self.requests += 1;
                let request = self.requests;
                link.last_sent = Some(self.time);
                let this = &self.nodes[node];
                let digests = this.digests.of(&this.published.registry);
                let kind = link.sender.kind();
                let (state, own_id) = (&this.published, &this.name);
                let now = this.now(self.time);
                let message = exchange::message(&ask, kind, state, &digests, own_id, now);
                if let Ask::Batch(items) = &ask {
                    self.items += items.len() as u64;
                }
                self.note(|| format!("n{node} -> n{peer} #{request} {}", told(&ask)));
                link.flight = Some((request, ask));
                self.transmit((node, peer), request, &mut link, message);
            }
        }
        self.nodes[node].links.insert(peer, link);
    }

    /// Puts a request on its way: over the connection that there is, or a new one.
    fn transmit(
        &mut self,
        (from, to): (usize, usize),
        request: u64,
        link: &mut Link,
        message: Message,
    ) {
        let is_up = self.nodes[to].is_up;
        let is_cut = self.blocked[from][to] || self.blocked[to][from];
        let fail = |failure| Event::Fail {
            node: from,
            peer: to,
            request,
            failure,
        };
        let Some(epoch) = link.connected_to else {
            if is_up && !is_cut {
                link.connected_to = Some(self.nodes[to].epoch);
                return self.carry((from, to), request, link, message);
            }
            // Refused, if there is a machine that says so.
            let is_refused = !is_cut && self.random.chance(50);
            let after = if is_refused {
                1
            } else {
                millis(CONNECT_TIMEOUT)
            };
            let failure = if is_refused {
                Failure::Refused("refused".into())
            } else {
                Failure::Connect("no connection".into())
            };
            return self.after(after, fail(failure));
        };
        if !is_cut && (!is_up || self.nodes[to].epoch != epoch) {
            return self.after(1, fail(Failure::Broken("connection reset".into())));
        }
        self.carry((from, to), request, link, message);
    }

    fn carry(&mut self, (from, to): (usize, usize), request: u64, link: &Link, message: Message) {
        let timed_out = Event::Fail {
            node: from,
            peer: to,
            request,
            failure: Failure::TimedOut,
        };
        let Some((_, ask)) = &link.flight else {
            return;
        };
        let timeout = millis(link.patience.timeout(ask));
        self.after(timeout, timed_out);
        if self.is_lost(from, to, (from, to), request) {
            return;
        }
        let (path, body) = (message.path, message.body);
        let carrying = self.carrying(&body);
        if carrying > timeout {
            // The connection is closed before all of it is there.
            return;
        }
        if !self.is_calm && self.random.chance(self.setup.twice) {
            let late = self.delay() + self.random.within(0, 5000);
            let body = body.clone();
            self.after(
                late,
                Event::Deliver {
                    from,
                    to,
                    request,
                    path,
                    body,
                },
            );
        }
        let delay = self.delay() + carrying;
        self.after(
            delay,
            Event::Deliver {
                from,
                to,
                request,
                path,
                body,
            },
        );
    }

    /// Whether a message on its way `from` one node `to` another gets lost. If it is not because the
    /// nodes are cut off from each other, the connection breaks, which the asking one notices.
    fn is_lost(&mut self, from: usize, to: usize, asking: (usize, usize), request: u64) -> bool {
        if self.blocked[from][to] {
            return true;
        }
        let is_lost = !self.is_calm && self.random.chance(self.setup.loss);
        if is_lost {
            let (node, peer) = asking;
            let noticed = self.random.within(1, 20);
            self.after(
                noticed,
                Event::Fail {
                    node,
                    peer,
                    request,
                    failure: Failure::Broken("connection reset".into()),
                },
            );
        }
        is_lost
    }

    /// How long a link takes for a body, ms.
    fn carrying(&self, body: &[u8]) -> u64 {
        self.rate.map_or(0, |rate| (body.len() / rate) as u64)
    }

    pub(super) fn delay(&mut self) -> u64 {
        if self.is_calm || self.random.chance(80) {
            self.random.within(1, 8)
        } else {
            self.random.within(1, self.setup.delay)
        }
    }

    pub(super) fn deliver(
        &mut self,
        from: usize,
        to: usize,
        request: u64,
        path: &'static str,
        body: &[u8],
    ) {
        if !self.nodes[to].is_up {
            return;
        }
        if let Sick::Status(status) = self.nodes[to].sick {
            self.respond(to, from, request, status, Vec::new());
            return;
        }
        let sender = &self.nodes[from];
        let (name, is_java) = (sender.name.clone(), sender.is_java);
        let time = self.time;
        let handled = self.nodes[to].handle((from, &name, is_java), request, path, body, time);
        match handled {
            Handled::Answer(status, body) => self.respond(to, from, request, status, body),
            Handled::AtCommit => self.plan_commit(to),
        }
    }

    pub(super) fn respond(
        &mut self,
        node: usize,
        to: usize,
        request: u64,
        status: u16,
        body: Vec<u8>,
    ) {
        if self.is_lost(node, to, (to, node), request) {
            return;
        }
        let kind = if self.nodes[to].is_java {
            Kind::Java
        } else {
            self.nodes[node].kind()
        };
        let delay = self.delay() + self.nodes[node].slow + self.carrying(&body);
        self.after(
            delay,
            Event::Answer {
                from: node,
                to,
                request,
                status,
                body,
                kind,
            },
        );
    }

    pub(super) fn answered(
        &mut self,
        node: usize,
        peer: usize,
        request: u64,
        status: u16,
        body: &[u8],
        kind: Kind,
    ) {
        let now = self.nodes[node].wall(self.time);
        let skew = self.skew(node, peer);
        let state = self.nodes[node].published.clone();
        let digests = self.nodes[node].digests.of(&state.registry);
        let Some(link) = self.nodes[node].links.get(&peer) else {
            return;
        };
        let reads_past = matches!(link.flight, Some((_, Ask::Recent)));
        let durable = reads_past.then(|| self.nodes[node].durable.clone());
        let past = DurablePast(durable.as_deref().unwrap_or_default());
        let compared = link.sender.compared().map(str::to_owned);
        let from = Some(kind.clone());
        self.take(node, peer, request, from, |ask| {
            let reading = Reading {
                digests: &digests,
                compared: compared.as_deref(),
                registry: &state.registry,
                past: &past,
                limits: Limits::default(),
                now,
                skew,
            };
            exchange::outcome(ask, kind, status, body, &reading)
        });
    }

    /// What a node takes over of what it has not heard, of a peer that is asked for it.
    fn confirmed(&self, node: usize, peer: usize, unheard: &[Unheard]) -> Vec<Command> {
        let (skew, past) = (self.skew(node, peer), self.nodes[node].past());
        let registry = &self.nodes[node].published.registry;
        let theirs = self.nodes[peer].listed();
        let commands = unheard.iter().flat_map(|one| {
            let is_it = |draft: &&Draft| draft.app == one.key.0 && draft.id() == one.key.1.as_str();
            let there = theirs.iter().find(is_it).cloned();
            one.confirmed(there, skew, registry, &past).commands
        });
        commands.collect()
    }

    /// What an answer tells a node now of the clock of its peer.
    fn skew(&self, node: usize, peer: usize) -> Skew {
        let date = self.nodes[peer].wall(self.time) / 1000 * 1000;
        let now = self.nodes[node].now(self.time).wall;
        Skew::of(date, now, now)
    }

    pub(super) fn take(
        &mut self,
        node: usize,
        peer: usize,
        request: u64,
        from: Option<Kind>,
        outcome: impl FnOnce(&Ask) -> Outcome,
    ) {
        let Some(link) = self.nodes[node].links.get_mut(&peer) else {
            return;
        };
        let Some((_, ask)) = link.flight.take_if(|(flying, _)| *flying == request) else {
            return;
        };
        let outcome = link.sender.recognise(outcome(&ask), from);
        match &outcome {
            Outcome::Failed(Failure::TimedOut) | Outcome::Unread(Failure::TimedOut) => {
                link.patience.exhausted(&ask);
                link.connected_to = None;
            }
            Outcome::Failed(Failure::Connect(_) | Failure::Refused(_)) => {
                link.patience.unreachable();
            }
            Outcome::Failed(Failure::Broken(_)) | Outcome::Unread(_) => link.connected_to = None,
            _ => {
                let took = link.last_sent.map_or(0, |at| self.time - at);
                link.patience
                    .answered_after(&ask, Duration::from_millis(took));
            }
        }
        link.has_failed = matches!(
            outcome,
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::WrongCount { .. }
        );
        let (random, time) = (self.random.next(), self.time);
        self.note(|| format!("n{node} <- n{peer} #{request} {}", heard(&outcome)));
        let mono = self.nodes[node].now(time).mono;
        let wall = self.nodes[node].wall(time);
        let Some(link) = self.nodes[node].links.get_mut(&peer) else {
            return;
        };
        let effects = link.sender.answered(outcome, mono, random);
        let is_ours = link.sender.kind().is_ours();
        let origin = Origin::Peer(self.nodes[peer].name.clone());
        for effect in effects {
            let registry = &self.nodes[node].published.registry;
            let past = self.nodes[node].past();
            let commands = match effect {
                Effect::Adopt(draft) => exchange::adoption(
                    *draft,
                    is_ours,
                    Overrides::Merged,
                    registry,
                    &Removed::default(),
                )
                .expect("an instance"),
                Effect::Repair {
                    found, overrides, ..
                } => {
                    let with = Repairing {
                        registry,
                        past: &past,
                        limits: Limits::default(),
                        now: wall,
                    };
                    let repaired = exchange::repairs(&found, overrides, &with);
                    assert_eq!(repaired.refused, 0, "instances that cannot be read");
                    repaired
                        .commands
                        .into_iter()
                        .map(|(command, _)| command)
                        .collect()
                }
                Effect::Look => {
                    let theirs = self.nodes[peer].listed();
                    let skew = self.skew(node, peer);
                    let learned = learn(theirs, false, skew, registry, &past);
                    assert_eq!(learned.refused, 0, "instances that cannot be read");
                    let confirmed = self.confirmed(node, peer, &learned.unheard);
                    learned.commands.into_iter().chain(confirmed).collect()
                }
                Effect::Learn(unheard) => self.confirmed(node, peer, &unheard),
                Effect::GaveUp { app, id, status } => {
                    self.note(|| format!("n{node} gives up {app}/{id} for n{peer}: {status}"));
                    continue;
                }
            };
            if !commands.is_empty() {
                self.submit(node, &commands, &origin, Waiting::Nobody);
            }
        }
        self.step(node, peer);
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).expect("a time")
}
