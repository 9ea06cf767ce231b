//! What is known of each peer, for `/status`, health and the log.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::sender::{Counters, Failure, Kind, Outcome};
use crate::types::{Lsn, Millis};

/// One peer as of its last request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerState {
    pub kind: Kind,
    /// The node of our own kind that answered last.
    pub node_id: Option<String>,
    /// Whether the last request was answered.
    pub is_reachable: bool,
    /// Wall time of the last answer, 0 if there was none.
    pub last_success: Millis,
    /// The peer has everything up to here; 0 before it is known.
    pub cursor: Lsn,
    /// Records that it still has to be told of.
    pub lag_records: u64,
    /// Age of the oldest of them, ms.
    pub lag_ms: u64,
    pub counters: Counters,
    /// Instances that a comparison repaired, on either side, and what was taken over of a Java peer's registry.
    pub repaired: u64,
    /// What went wrong last, if it still does.
    pub error: Option<String>,
    pub traffic: Traffic,
}

/// What went over the wire to one peer, since the peer is on the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests of every kind.
    pub requests: u64,
    /// Those of them that were batches of the original's protocol.
    pub batches: u64,
    /// Renewals in batches and digests.
    pub renewals: u64,
    /// Bytes of bodies; heads are not counted.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// How requests ended: each that did counts in one of these.
    pub answered: u64,
    pub connect_errors: u64,
    pub time_outs: u64,
    /// Answers that broke off or cannot be used, whatever their status.
    pub broken_answers: u64,
    /// Answers whose status is no success.
    pub status_errors: u64,
    /// Answers of another node with this node's id.
    pub same_ids: u64,
}

impl Traffic {
    /// Counts how a request ended.
    pub fn ended(&mut self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Known(_)
            | Outcome::Items(_)
            | Outcome::Unknown(_)
            | Outcome::Digests(_)
            | Outcome::Born(_)
            | Outcome::Recent(_)
            | Outcome::Compared(_) => &mut self.answered,
            Outcome::WrongCount { .. } => &mut self.broken_answers,
            Outcome::Refused(_) | Outcome::TooLong => &mut self.status_errors,
            Outcome::Failed(failure) | Outcome::Unread(failure) => match failure {
                Failure::Connect(_) | Failure::Refused(_) => &mut self.connect_errors,
                Failure::TimedOut => &mut self.time_outs,
                Failure::Broken(_) | Failure::Another => &mut self.broken_answers,
                Failure::SameId(_) => &mut self.same_ids,
                Failure::Status(_) => &mut self.status_errors,
            },
        };
        *counter += 1;
    }
}

/// All peers by URL without credentials.
#[derive(Debug, Default)]
pub struct PeerStates {
    states: Mutex<BTreeMap<String, PeerState>>,
}

impl PeerStates {
    pub fn update(&self, url: &str, change: impl FnOnce(&mut PeerState)) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        change(states.entry(url.to_owned()).or_default());
    }

    /// Counts for a peer that is on the list.
    pub fn count(&self, url: &str, count: impl FnOnce(&mut Traffic)) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get_mut(url) {
            count(&mut state.traffic);
        }
    }

    /// Counts what a comparison repaired, or what was taken over of a peer that is on the list: the peer's word.
    pub fn count_repaired(&self, url: &str, repaired: u64) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get_mut(url) {
            state.repaired = state.repaired.saturating_add(repaired);
        }
    }

    pub fn remove(&self, url: &str) {
        self.states
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(url);
    }

    /// Up to where the node with this id has heard of our changes, whether or not it can be reached at
    /// present; `None` if it is no peer.
    pub fn told(&self, node_id: &str) -> Option<Lsn> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |state: &&PeerState| state.node_id.as_deref() == Some(node_id);
        // One node may stand on the list under two URLs.
        let cursors = states.values().filter(is_it).map(|state| state.cursor);
        cursors.max()
    }

    pub fn all(&self) -> BTreeMap<String, PeerState> {
        self.states
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_request_is_counted_once() {
        use Failure as F;
        let classes = |traffic: &Traffic| {
            [
                traffic.answered,
                traffic.connect_errors,
                traffic.time_outs,
                traffic.broken_answers,
                traffic.status_errors,
                traffic.same_ids,
            ]
        };
        let ends = [
            (Outcome::Known(Kind::Java), 0),
            (Outcome::Items(Vec::new()), 0),
            (Outcome::Unknown(Vec::new()), 0),
            (Outcome::Digests(Vec::new()), 0),
            (Outcome::Born(None), 0),
            (Outcome::Recent(Vec::new()), 0),
            (Outcome::Unread(F::TimedOut), 2),
            (Outcome::Unread(F::Broken(String::new())), 3),
            (Outcome::Unread(F::Status(403)), 4),
            (Outcome::Failed(F::Connect(String::new())), 1),
            (Outcome::Failed(F::Refused(String::new())), 1),
            (Outcome::Failed(F::TimedOut), 2),
            (Outcome::Failed(F::Broken(String::new())), 3),
            (Outcome::WrongCount { sent: 2, got: 1 }, 3),
            (Outcome::Failed(F::Status(503)), 4),
            (Outcome::Refused(400), 4),
            (Outcome::Failed(F::SameId(String::new())), 5),
        ];
        for (outcome, class) in ends {
            let mut traffic = Traffic::default();
            traffic.ended(&outcome);
            let mut wanted = [0; 6];
            wanted[class] = 1;
            assert_eq!(classes(&traffic), wanted, "{outcome:?}");
        }
    }
}
