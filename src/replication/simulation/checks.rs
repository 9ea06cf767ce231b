//! What has to hold at the end of a simulation.

use std::collections::BTreeMap;

use super::clients::{Client, Life};
use super::node::{START, SimNode};
use super::world::World;
use crate::registry::Registry;
use crate::registry::hold::{Hold, HoldKind};
use crate::registry::status::Status;
use crate::registry::version::Version;
use crate::types::Millis;

/// The ends of one hold on two nodes are closer than that, ms: what the messages between them took.
const HOLDS_APART: u64 = 20_000;

/// What nodes have to agree on of one instance.
type Seen = (Version, String, String, Vec<(String, String)>);

fn seen(registry: &Registry) -> BTreeMap<String, Seen> {
    registry
        .leases()
        .map(|lease| {
            let instance = lease.instance();
            let mut metadata: Vec<_> = instance
                .metadata
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect();
            metadata.sort();
            let held = registry.override_of(&instance.app, &instance.id());
            let held = held.map_or("none".to_owned(), |status| status.to_string());
            let status = instance.status.to_string();
            (
                instance.id().to_string(),
                (Version::of(instance), status, held, metadata),
            )
        })
        .collect()
}

impl World {
    /// Everything; the first thing that is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        for node in &self.nodes {
            node.published.registry.check()?;
        }
        self.check_agreement()?;
        self.check_holds()?;
        self.check_senders()?;
        for client in &self.clients.all {
            self.check_client(client)?;
        }
        Ok(())
    }

    /// That our nodes have the same instances in the same states.
    pub(super) fn check_agreement(&self) -> Result<(), String> {
        let first = &self.nodes[0].published.registry;
        let expected = seen(first);
        for node in &self.nodes[1..self.setup.nodes] {
            let registry = &node.published.registry;
            let found = seen(registry);
            if found != expected {
                let mut names = expected.keys().chain(found.keys());
                let differing = names.find(|id| expected.get(*id) != found.get(*id));
                let id = differing.map_or("", String::as_str);
                return Err(format!(
                    "n0 and {} differ in {id}: {:?} and {:?}",
                    node.name,
                    expected.get(id),
                    found.get(id)
                ));
            }
            if registry.hash_code() != first.hash_code() {
                return Err(format!("hash codes of n0 and {} differ", node.name));
            }
        }
        Ok(())
    }

    /// Our nodes know the same holds, to end at the same moment whatever their clocks say, and none shows a
    /// quarantined instance as UP.
    fn check_holds(&self) -> Result<(), String> {
        let in_force = |node: &SimNode| -> Vec<(String, Hold)> {
            let by_clock_of_world = |hold: &Hold| {
                let skew = node.wall(self.time) - START.cast_signed() - self.time.cast_signed();
                let until = hold.until.signed() - skew;
                Millis(until.unsigned_abs())
            };
            let holds = node.published.registry.holds();
            let active = holds.filter(|(.., hold)| hold.is_active());
            active
                .map(|(_, id, hold)| {
                    let until = by_clock_of_world(hold);
                    (id.to_string(), Hold { until, ..*hold })
                })
                .collect()
        };
        let expected = in_force(&self.nodes[0]);
        for node in &self.nodes[..self.setup.nodes] {
            let registry = &node.published.registry;
            let found = in_force(node);
            let is_same = |(ours, theirs): (&(String, Hold), &(String, Hold))| {
                let late = ours.1.until.0.abs_diff(theirs.1.until.0);
                let until = ours.1.until;
                late < HOLDS_APART && *ours == (theirs.0.clone(), Hold { until, ..theirs.1 })
            };
            if found.len() != expected.len() || !found.iter().zip(&expected).all(is_same) {
                return Err(format!(
                    "n0 holds {expected:?} and {} holds {found:?}",
                    node.name
                ));
            }
            for (app, id, hold) in registry.holds() {
                let is_quarantined = hold.is_active() && hold.kind == HoldKind::Quarantine;
                let lease = registry.lease(app.as_str(), id.as_str());
                let is_up = lease.is_some_and(|lease| lease.instance().status == Status::Up);
                if is_quarantined && is_up {
                    return Err(format!("{id} is quarantined and UP at {}", node.name));
                }
            }
        }
        Ok(())
    }

    fn check_senders(&self) -> Result<(), String> {
        // Each instance at most once among what is owed, renewals that are, what happened, and what a peer
        // told of overrides.
        let bound = 4 * self.clients.all.len();
        if self.most_remembered > bound {
            return Err(format!(
                "a sender remembers {} instances",
                self.most_remembered
            ));
        }
        for node in &self.nodes {
            for (peer, link) in &node.links {
                let (cursor, end) = (link.sender.cursor(), node.published.lsn());
                if cursor != Some(end) {
                    return Err(format!(
                        "{} has told n{peer} up to {cursor:?} of {end}",
                        node.name
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_client(&self, client: &Client) -> Result<(), String> {
        let (app, id) = (client.app.as_str(), client.id.as_str());
        for (index, node) in self.nodes.iter().enumerate() {
            let lease = node.published.registry.lease(app, id);
            let is_ours = index < self.setup.nodes;
            match (client.life, lease) {
                (Life::Wanted, None)
                    if client.acknowledged.is_some()
                        && self.is_kept(is_ours)
                        && !self.is_mistaken(client)
                        && !self.is_ended_by_java(client, node)
                        && !is_about_to_learn(client) =>
                {
                    return Err(format!("{id} is lost at {}", node.name));
                }
                (Life::Wanted, Some(lease))
                    if self.is_kept(is_ours) && !self.is_mistaken(client) =>
                {
                    let has = lease.instance().last_dirty_timestamp;
                    let said = lease.instance().metadata.get("v").map(|v| v.parse::<i64>());
                    let said = said.and_then(Result::ok).unwrap_or(0);
                    // Java peers raise the version of a description that they do not have.
                    let is_old = |dirty| has < dirty || is_ours && said < dirty;
                    if client.acknowledged.is_some_and(is_old) {
                        return Err(format!(
                            "{id} at {} is of {has} and says {said}, {:?} was acknowledged",
                            node.name, client.acknowledged
                        ));
                    }
                }
                (Life::Dead, Some(_)) if self.setup.expires => {
                    return Err(format!("{id} is dead and alive at {}", node.name));
                }
                (Life::Gone, Some(_)) if self.setup.expires || self.is_surely_gone(client) => {
                    return Err(format!("{id} was cancelled and is alive at {}", node.name));
                }
                _ => {}
            }
        }
        self.check_words(client)
    }

    /// Whether a cancel has to hold at once, without the help of leases that run out. It need not where
    /// metadata was put meanwhile, nor where a client registered again and again without a newer dirty
    /// timestamp: nodes then take one of its registrations for a later one.
    fn is_surely_gone(&self, client: &Client) -> bool {
        client.is_cancelled
            && !client.has_metadata
            && self.setup.java_nodes == 0
            && !(client.is_stubborn && client.cancels > 1)
    }

    /// Whether nothing may be missing at a node: Java peers get what they missed by heartbeats only.
    fn is_kept(&self, is_ours: bool) -> bool {
        is_ours || self.setup.beats_in_calm
    }

    /// A cancel that is on its way to a Java peer does not say what was cancelled, and ends what is registered there
    /// meanwhile (one that is told later asks first). A client
    /// that registers after a cancel without a newer dirty timestamp, at a node that had not
    /// heard of the cancel, learns by its next heartbeat that it has to register again.
    fn is_mistaken(&self, client: &Client) -> bool {
        let has_java = self.setup.java_nodes > 0;
        (client.is_stubborn || has_java) && client.cancels > 0 && !self.setup.beats_in_calm
    }

    /// A cancel of a Java node does not say what it is about, and ends here what was registered at another one in
    /// between; that one tells it again, and is not believed before the cancel has left the delta window.
    fn is_ended_by_java(&self, client: &Client, node: &SimNode) -> bool {
        let removed = node.published.registry.removed_at(&client.app, &client.id);
        self.setup.java_nodes > 0 && client.cancels > 0 && removed.is_some()
    }

    /// Operators' words: the last one holds. A client that described itself anew on a node that had not
    /// heard of an override does not undo it; that it may undo the lifting of one is accepted.
    fn check_words(&self, client: &Client) -> Result<(), String> {
        let is_clear = client.life == Life::Wanted
            && client.cancels == 0
            && client.unanswered == 0
            && !client.had_metadata
            && !client.had_hold
            && !self.setup.expires
            && self.setup.java_nodes == 0;
        let Some(last) = client.words.iter().max_by_key(|word| word.version) else {
            return Ok(());
        };
        let is_tied = client
            .words
            .iter()
            .filter(|word| word.version == last.version)
            .count()
            > 1;
        // Words about different descriptions were said on nodes that had not heard of each other.
        let is_mixed = client
            .words
            .iter()
            .any(|word| word.version.dirty != last.version.dirty);
        if !is_clear || is_tied || is_mixed {
            return Ok(());
        }
        let registry = &self.nodes[0].published.registry;
        let held = registry.override_of(&client.app, &client.id);
        if client.dirty <= last.version.dirty {
            if held != last.status {
                return Err(format!(
                    "the last word on {} was {:?} at {:?}, {held:?} holds",
                    client.id, last.status, last.version
                ));
            }
        } else if client.words.iter().all(|word| word.status.is_some()) && held.is_none() {
            return Err(format!("the overrides of {} are forgotten", client.id));
        }
        Ok(())
    }
}

/// A client that registered after a cancel without a newer dirty timestamp, at a node that had not heard
/// of the cancel, and believes that it is registered: the 404 to its next heartbeat tells it. The calm may
/// end before that.
fn is_about_to_learn(client: &Client) -> bool {
    client.is_stubborn && client.cancels > 0 && client.is_registered
}
