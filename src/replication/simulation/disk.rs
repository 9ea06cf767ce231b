//! The writers of a simulation: commits that take their time, and who waits for them.

use super::node::Waiting;
use super::trace::recorded;
use super::world::{Event, World};
use crate::registry::change::Origin;
use crate::registry::command::Command;

/// How long a sender waits for more changes once the log has moved, ms.
const GATHER: u64 = 10;

impl World {
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

    pub(super) fn plan_commit(&mut self, node: usize) {
        if self.nodes[node].commit_planned {
            return;
        }
        self.nodes[node].commit_planned = true;
        // Now and then the disk takes longer than a peer waits.
        let is_slow = !self.is_calm && self.random.chance(2);
        let delay = if is_slow {
            self.random.within(300, 900)
        } else {
            self.random.within(0, 6)
        };
        let epoch = self.nodes[node].epoch;
        self.after(delay, Event::Commit { node, epoch });
    }

    pub(super) fn commit(&mut self, node: usize, epoch: u32) {
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

    pub(super) fn release(&mut self, node: usize, waiting: Waiting) {
        match waiting {
            Waiting::Client { request, replies } => {
                self.client_done(node, request, replies.into_iter().next());
            }
            Waiting::Batch {
                from,
                request,
                plan,
                replies,
                is_our_kind,
            } => {
                let is_ours_at = is_our_kind.then_some(self.time);
                let body = self.nodes[node].batch_answer(plan, &replies, is_ours_at);
                self.respond(node, from, request, 200, body);
            }
            Waiting::Peer {
                from,
                request,
                status,
                body,
            } => {
                self.respond(node, from, request, status, body);
            }
            Waiting::Nobody => {}
        }
    }
}
