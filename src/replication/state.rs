//! What is known of each peer, for `/status`, health and the log.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::sender::{Counters, Kind};
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
    /// Instances that a comparison repaired, on either side.
    pub repaired: u64,
    /// What went wrong last, if it still does.
    pub error: Option<String>,
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
        states.values().find(is_it).map(|state| state.cursor)
    }

    pub fn all(&self) -> BTreeMap<String, PeerState> {
        self.states
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
