//! What is known of each peer, for `/status`, health and the log.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::sender::{Counters, Kind};
use crate::types::{Lsn, Millis};

/// One peer as of its last request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerState {
    pub kind: Kind,
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
    /// Instances that a comparison repaired, on either side.
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
    pub connect_errors: u64,
    pub time_outs: u64,
    /// Answers that broke off or cannot be used.
    pub broken_answers: u64,
    /// Answers whose status is no success.
    pub status_errors: u64,
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

    pub fn remove(&self, url: &str) {
        self.states
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(url);
    }

    /// Up to where a node of our own kind has been told of this log, if it is a peer that answers.
    pub fn told(&self, node_id: &str) -> Option<Lsn> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |kind: &Kind| matches!(kind, Kind::Ours { node_id: known } if known == node_id);
        let state = states.values().find(|state| is_it(&state.kind))?;
        state.is_reachable.then_some(state.cursor)
    }

    pub fn all(&self) -> BTreeMap<String, PeerState> {
        self.states
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
