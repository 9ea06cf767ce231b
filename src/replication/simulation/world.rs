//! The world of a simulation: virtual time, the network between the nodes, crashes, and the order in
//! which everything happens, all from one seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::clients::Clients;
use super::node::{Handled, Sick, SimNode, Waiting};
use super::random::Random;
use crate::registry::change::Origin;
use crate::registry::command::{Command, Eviction, Overrides, Reply};
use crate::replication::exchange::{self, Reading};
use crate::replication::sender::{Ask, Effect, Failure, Kind, Next, Outcome};

/// How long a sender waits for an answer, ms (connect and read time-out).
const TIMEOUT: u64 = 400;
/// How long a sender waits for more changes once the log has moved, ms.
const GATHER: u64 = 10;
/// Least time between two notes of the cursors, ms.
const NOTE_EVERY: u64 = 1000;
const EVICT_EVERY: u64 = 5000;

/// What a simulation is made of.
#[derive(Clone, Debug)]
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
    Wake { node: usize, peer: usize, epoch: u32 },
    Deliver { from: usize, to: usize, request: u64, path: &'static str, body: Vec<u8> },
    Answer { from: usize, to: usize, request: u64, status: u16, body: Vec<u8>, kind: Kind },
    Fail { node: usize, peer: usize, request: u64, failure: Failure },
    Commit { node: usize, epoch: u32 },
    Note { node: usize },
    Evict { node: usize },
    Client { client: usize },
    Reply { request: u64, reply: Option<Reply> },
    Operate,
    Weather,
    Restart { node: usize },
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
    blocked: Vec<Vec<bool>>,
    pub(super) is_calm: bool,
    requests: u64,
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
                let skew = random.within(0, 2 * setup.skew).cast_signed() - setup.skew.cast_signed();
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
        self.queue.push(Reverse((time.max(self.time), self.sequence)));
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
            self.digest = (self.digest ^ time ^ sequence.rotate_left(20))
                .wrapping_mul(0x0000_0100_0000_01B3);
            self.happen(event);
        }
        self.time = until;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake { node, peer, epoch } => {
                let is_current = self.nodes[node].is_up && self.nodes[node].epoch == epoch;
                let is_due =
                    self.nodes[node].links.get(&peer).is_some_and(|l| l.wake_at <= self.time);
                if is_current && is_due {
                    self.step(node, peer);
                }
            }
            Event::Deliver { from, to, request, path, body } => {
                self.deliver(from, to, request, path, &body);
            }
            Event::Answer { from, to, request, status, body, kind } => {
                self.answered(to, from, request, status, &body, kind);
            }
            Event::Fail { node, peer, request, failure } => {
                self.take(node, peer, request, |_| Outcome::Failed(failure));
            }
            Event::Commit { node, epoch } => self.commit(node, epoch),
            Event::Note { node } => self.note_cursors(node),
            Event::Evict { node } => {
                if self.nodes[node].is_up {
                    let seed = self.random.next();
                    let eviction = Eviction { extra_ms: 0, renewal_percent_threshold: 0.0, seed };
                    self.submit(node, &[Command::Evict(eviction)], &Origin::Timer, Waiting::Nobody);
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

    fn start_links(&mut self, node: usize) {
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
    fn step(&mut self, node: usize, peer: usize) {
        let Some(mut link) = self.nodes[node].links.remove(&peer) else { return };
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
                let message = exchange::message(
                    &ask,
                    kind,
                    &this.published.registry,
                    &digests,
                    &this.name,
                );
                if let Ask::Batch(items) = &ask {
                    self.items += items.len() as u64;
                }
                self.note(|| format!("n{node} -> n{peer} #{request} {}", told(&ask)));
                link.flight = Some((request, ask));
                self.transmit(node, peer, request, message.path, message.body);
            }
        }
        self.nodes[node].links.insert(peer, link);
    }

    fn transmit(
        &mut self,
        from: usize,
        to: usize,
        request: u64,
        path: &'static str,
        body: Vec<u8>,
    ) {
        let timed_out = Event::Fail { node: from, peer: to, request, failure: Failure::TimedOut };
        self.after(TIMEOUT, timed_out);
        if !self.nodes[to].is_up {
            if self.random.chance(50) {
                let failure = Failure::Connect("refused".into());
                self.after(1, Event::Fail { node: from, peer: to, request, failure });
            }
            return;
        }
        if self.is_lost(from, to) {
            return;
        }
        if !self.is_calm && self.random.chance(self.setup.twice) {
            let late = self.delay() + self.random.within(0, 5000);
            let body = body.clone();
            self.after(late, Event::Deliver { from, to, request, path, body });
        }
        let delay = self.delay();
        self.after(delay, Event::Deliver { from, to, request, path, body });
    }

    fn is_lost(&mut self, from: usize, to: usize) -> bool {
        !self.is_calm && (self.blocked[from][to] || self.random.chance(self.setup.loss))
    }

    fn delay(&mut self) -> u64 {
        if self.is_calm || self.random.chance(80) {
            self.random.within(1, 8)
        } else {
            self.random.within(1, self.setup.delay)
        }
    }

    fn deliver(&mut self, from: usize, to: usize, request: u64, path: &'static str, body: &[u8]) {
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

    fn respond(&mut self, node: usize, to: usize, request: u64, status: u16, body: Vec<u8>) {
        if self.is_lost(node, to) {
            return;
        }
        let kind = if self.nodes[to].is_java { Kind::Java } else { self.nodes[node].kind() };
        let delay = self.delay();
        self.after(delay, Event::Answer { from: node, to, request, status, body, kind });
    }

    fn answered(
        &mut self,
        node: usize,
        peer: usize,
        request: u64,
        status: u16,
        body: &[u8],
        kind: Kind,
    ) {
        let now = self.nodes[node].wall(self.time);
        let digests = self.nodes[node].digests.of(&self.nodes[node].published.registry);
        let Some(link) = self.nodes[node].links.get(&peer) else { return };
        let compared = link.sender.compared().map(str::to_owned);
        self.take(node, peer, request, |ask| {
            let reading = Reading { digests: &digests, compared: compared.as_deref(), now };
            exchange::outcome(ask, kind, status, body, &reading)
        });
    }

    fn take(
        &mut self,
        node: usize,
        peer: usize,
        request: u64,
        outcome: impl FnOnce(&Ask) -> Outcome,
    ) {
        let Some(link) = self.nodes[node].links.get_mut(&peer) else { return };
        let Some((_, ask)) = link.flight.take_if(|(flying, _)| *flying == request) else { return };
        let outcome = outcome(&ask);
        link.has_failed = matches!(
            outcome,
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::WrongCount { .. }
        );
        let (random, time) = (self.random.next(), self.time);
        self.note(|| format!("n{node} <- n{peer} #{request} {}", heard(&outcome)));
        let mono = self.nodes[node].now(time).mono;
        let wall = self.nodes[node].wall(time);
        let Some(link) = self.nodes[node].links.get_mut(&peer) else { return };
        let effects = link.sender.answered(outcome, mono, random);
        let is_ours = link.sender.kind().is_ours();
        let origin = Origin::Peer(self.nodes[peer].name.clone());
        for effect in effects {
            let commands = match effect {
                Effect::Adopt(draft) => {
                    exchange::adoption(*draft, is_ours, Overrides::Merged).expect("an instance")
                }
                Effect::Repair { found, overrides, .. } => {
                    let (commands, refused) = exchange::repairs(&found, overrides, wall);
                    assert_eq!(refused, 0, "instances that cannot be read");
                    commands
                }
                Effect::Cursor(_) => continue,
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

    /// Commands through a node's writer.
    pub(super) fn submit(
        &mut self,
        node: usize,
        commands: &[Command],
        origin: &Origin,
        waiting: Waiting,
    ) {
        let time = self.time;
        let (replies, waits) = self.nodes[node].submit(commands, origin, time);
        let waiting = match waiting {
            Waiting::Client { request, .. } => Waiting::Client { request, replies },
            other => other,
        };
        if waits {
            self.nodes[node].waiting.push(waiting);
            self.plan_commit(node);
        } else {
            self.release(node, waiting);
        }
    }

    fn plan_commit(&mut self, node: usize) {
        if self.nodes[node].commit_planned {
            return;
        }
        self.nodes[node].commit_planned = true;
        // Now and then the disk takes longer than a peer waits.
        let is_slow = !self.is_calm && self.random.chance(2);
        let delay = if is_slow { self.random.within(300, 900) } else { self.random.within(0, 6) };
        let epoch = self.nodes[node].epoch;
        self.after(delay, Event::Commit { node, epoch });
    }

    fn commit(&mut self, node: usize, epoch: u32) {
        if !self.nodes[node].is_up || self.nodes[node].epoch != epoch {
            return;
        }
        self.nodes[node].commit_planned = false;
        let before = self.nodes[node].published.lsn();
        let has_moved = self.nodes[node].commit();
        if has_moved {
            let this = &self.nodes[node];
            let records: Vec<String> = this
                .published
                .delta
                .since(before.next())
                .into_iter()
                .flatten()
                .map(|record| recorded(record))
                .collect();
            let is_new = this
                .published
                .delta
                .since(before.next())
                .into_iter()
                .flatten()
                .any(|record| !record.origin.is_replication());
            if is_new {
                self.last_change = self.time;
            }
            for line in records {
                self.note(|| format!("n{node} {line}"));
            }
        }
        for waiting in std::mem::take(&mut self.nodes[node].waiting) {
            self.release(node, waiting);
        }
        if has_moved {
            let due = self.time + GATHER;
            let epoch = self.nodes[node].epoch;
            let peers: Vec<usize> = self.nodes[node]
                .links
                .iter()
                .filter(|(_, link)| link.flight.is_none() && !link.sender.is_failing())
                .filter(|(_, link)| link.wake_at > due)
                .map(|(peer, _)| *peer)
                .collect();
            for peer in peers {
                if let Some(link) = self.nodes[node].links.get_mut(&peer) {
                    link.wake_at = due;
                }
                self.at(due, Event::Wake { node, peer, epoch });
            }
        }
    }

    fn release(&mut self, node: usize, waiting: Waiting) {
        match waiting {
            Waiting::Client { request, replies } => {
                self.client_done(node, request, replies.into_iter().next());
            }
            Waiting::Batch { from, request, plan, replies } => {
                let body = self.nodes[node].batch_answer(plan, &replies);
                self.respond(node, from, request, 200, body);
            }
            Waiting::Peer { from, request, status, body } => {
                self.respond(node, from, request, status, body);
            }
            Waiting::Nobody => {}
        }
    }

    fn note_cursors(&mut self, node: usize) {
        let this = &mut self.nodes[node];
        if this.is_up {
            for (peer, link) in &this.links {
                if let Some(cursor) = link.sender.cursor() {
                    this.noted.insert(*peer, Some(cursor));
                }
            }
        }
        self.after(NOTE_EVERY, Event::Note { node });
    }

    /// The weather changes: links break and mend, nodes fall ill, crash, and lose their windows.
    fn weather(&mut self) {
        if self.is_calm {
            return;
        }
        let count = self.nodes.len();
        if self.setup.partitions {
            for from in 0..count {
                for to in 0..count {
                    let was = self.blocked[from][to];
                    let changes = self.random.chance(if was { 40 } else { 8 });
                    if changes {
                        self.blocked[from][to] = !was;
                        // Most partitions cut both ways.
                        if self.random.chance(70) {
                            self.blocked[to][from] = !was;
                        }
                    }
                }
            }
        }
        let node = self.random.place(count);
        if self.setup.sickness {
            self.nodes[node].sick = match self.random.within(0, 9) {
                0 => Sick::Status(503),
                1 => Sick::Status(500),
                2 => Sick::Garbage,
                3 => Sick::WrongCount,
                _ => Sick::No,
            };
        }
        if self.setup.crashes && self.nodes[node].is_up && self.random.chance(10) {
            self.note(|| format!("n{node} crashes"));
            self.nodes[node].crash();
            let pause = self.random.within(100, 8000);
            self.after(pause, Event::Restart { node });
        }
        if self.random.chance(10) {
            let time = self.time;
            self.nodes[node].forget_window(1000, time);
        }
        let next = self.random.within(200, 3000);
        self.after(next, Event::Weather);
    }

    fn restart(&mut self, node: usize) {
        if self.nodes[node].is_up {
            return;
        }
        self.note(|| format!("n{node} restarts"));
        let time = self.time;
        if self.random.chance(20) {
            self.nodes[node].noted.clear();
        }
        self.nodes[node].restart(time);
        self.start_links(node);
    }

    /// The end of the storm: everybody is up and every link works.
    pub(super) fn clear_up(&mut self) {
        self.note(|| "the weather clears".into());
        self.is_calm = true;
        for row in &mut self.blocked {
            row.fill(false);
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].sick = Sick::No;
            self.restart(node);
        }
        self.last_change = self.time;
    }

    pub(super) fn tell(&mut self, request: u64, reply: Option<Reply>) {
        let delay = self.random.within(1, 3);
        self.after(delay, Event::Reply { request, reply });
    }
}

fn told(ask: &Ask) -> String {
    use std::fmt::Write as _;
    match ask {
        Ask::Probe => "probe".into(),
        Ask::Digests => "digests".into(),
        Ask::Compare(names) => format!("compare {names:?}"),
        Ask::Renewals(items) => format!("{} renewals", items.len()),
        Ask::Batch(items) => {
            let mut text = String::new();
            for item in items {
                use crate::replication::outbound::Item;
                let what = match item {
                    Item::Register(lease) => {
                        let (dirty, updated) = version(lease.instance());
                        let o = lease.instance().overridden_status;
                        format!("register@{dirty}/{updated}/{o}")
                    }
                    Item::Heartbeat { lease, .. } => {
                        format!("beat@{}", version(lease.instance()).0)
                    }
                    Item::Cancel(lease) => format!("cancel@{:?}", version(lease.instance())),
                    Item::SetStatus { status, .. } => format!("set {status}"),
                    Item::DeleteOverride(_) => "lift".into(),
                };
                let _ = write!(text, "[{} {what}]", item.id());
            }
            text
        }
    }
}

/// Relative to the start, to be read by people.
fn version(instance: &crate::registry::instance::Instance) -> (i64, i64) {
    let start = super::node::START.cast_signed();
    (instance.last_dirty_timestamp - start, instance.last_updated_timestamp - start)
}

fn heard(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Items(results) => {
            let statuses: Vec<u16> = results.iter().map(|result| result.status).collect();
            format!("{statuses:?}")
        }
        Outcome::Compared(found) => format!(
            "compared: wanted {:?} cancelled {:?} newer {}",
            found.wanted, found.cancelled, found.newer_count
        ),
        other => format!("{other:?}"),
    }
}

fn recorded(record: &crate::registry::change::Record) -> String {
    let change = &record.change;
    let lease = change.lease.as_ref().map(|image| {
        let instance = &image.instance;
        format!(
            "{:?} {} over {}",
            version(instance),
            instance.status,
            instance.overridden_status
        )
    });
    format!(
        "@{} {}/{} {} by {:?}: {}",
        record.lsn,
        change.app,
        change.id,
        change.kind.as_str(),
        record.origin,
        lease.unwrap_or_default()
    )
}
