//! `GET /node`: the state of this node in one document, for programs.

use serde_json::{Value, json};

use super::{Answered, Parameters, json};
use crate::changelog::StoreHealth;
use crate::history::times;
use crate::http::pages::{peer_facts, store_facts, store_words};
use crate::http::{Api, Head};
use crate::replication::state::PeerState;
use crate::types::{Millis, millis};

impl Api {
    pub(super) async fn node(&self, head: &Head<'_>) -> Answered {
        Parameters::of(head).each(&[], |_, _| Ok(false))?;
        let horizon = self.past.horizon(self.log.reader()).await?;
        let state = self.log.snapshot();
        let stats = self.log.stats();
        let health = self.log.health().borrow().clone();
        let (word, reason) = store_words(&health);
        let settings = &self.config.store;
        let index = self.past.index.stats();

        let mut store = store_facts(&stats);
        store["status"] = json!(word);
        store["reason"] = json!(reason);
        store["durability"] = json!(settings.durability.to_string());
        store["history"] = json!({
            "max_age_ms": millis(settings.history_max_age),
            "max_bytes": settings.history_max_bytes,
            "index": {
                "kept_up": settings.history_index,
                "segments": index.segments,
                "growing_records": index.growing_records,
                "memory_bytes": index.memory_bytes,
            },
        });
        let document = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "node_id": self.past.node_id,
            "incarnation": self.past.incarnation,
            "uptime_ms": self.clock.now().mono.since(self.started),
            "lsn": state.lsn(),
            "oldest_lsn": horizon.as_ref().map_or(stats.first_lsn, |horizon| horizon.oldest_lsn),
            "oldest": horizon.and_then(|horizon| horizon.oldest).map(times::format),
            "instances": state.registry.len(),
            "applications": state.registry.app_count(),
            "reads": self.reads_facts(),
            "store": store,
            "self_preservation": self.self_preservation(),
            "peers": self.peer_list(),
            "health": if health == StoreHealth::Working { "UP" } else { "DOWN" },
        });
        json(&document)
    }

    fn peer_list(&self) -> Vec<Value> {
        let peers = self.peers.all();
        let tell = |(url, peer): (String, PeerState)| {
            let mut facts = peer_facts(&peer);
            facts["peer"] = json!(url);
            let last = Some(peer.last_success).filter(|at| *at != Millis::ZERO);
            facts["last_success"] = json!(last.map(times::format));
            facts
        };
        peers.into_iter().map(tell).collect()
    }
}
