//! Peers: replication out of the change log, towards Java nodes and nodes of our own in one mesh
//! (design 4, `protocol.md` 7).
//!
//! Each peer has a cursor on the log ([`sender`]): what lies behind it is sent, newest state per
//! instance, and the cursor moves when the answers are in. There is no queue to overflow or expire:
//! a peer that was away gets what it missed, once. Renewals are not in the log; they are coalesced by
//! time, one item per lease however often it was renewed.
//!
//! The pure part ([`outbound`], [`sender`], [`exchange`], [`batch`], [`reconcile`]) knows neither sockets nor clocks, so that
//! whole clusters can run in one deterministic test; `task` and [`transport`] move its requests over
//! HTTP. [`inbound`] answers what nodes of our own kind ask beyond the original's protocol.

pub mod batch;
mod bootstrap;
pub mod exchange;
pub mod inbound;
pub mod outbound;
pub mod reconcile;
mod self_registration;
pub mod sender;
#[cfg(test)]
mod simulation;
pub mod state;
mod task;
pub mod transport;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

pub use bootstrap::ReadsGate;
pub use inbound::Compared;
use reconcile::DigestCache;

use crate::changelog::ChangeLog;
use crate::clock::Clock;
use crate::config::{Config, PeersConfig, ServiceUrl};
use state::PeerStates;
use task::PeerTask;
use transport::{Identity, Transport};

/// Below a peer's base URL: renewals as numbers.
pub const RENEWALS_PATH: &str = "eurekad/renewals";
/// Below a peer's base URL: the digests of its registry.
pub const DIGEST_PATH: &str = "eurekad/digest";
/// Below a peer's base URL: a comparison of applications.
pub const COMPARE_PATH: &str = "eurekad/compare";

/// What the tasks of all peers share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) log: Arc<ChangeLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) transport: Transport,
    pub(crate) states: Arc<PeerStates>,
    pub(crate) identity: Identity,
    /// Of this log; cursors of another one are void.
    pub(crate) incarnation: String,
    pub(crate) peers: PeersConfig,
    pub(crate) own_id: Arc<str>,
    pub(crate) digests: Arc<DigestCache>,
    seed: AtomicU64,
}

impl Context {
    /// Spreads retries; not for secrets.
    pub(crate) fn random(&self) -> u64 {
        let step = self
            .seed
            .fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (step ^ (step >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 31)
    }
}

/// What a node needs to replicate.
#[derive(Debug)]
pub struct Parts {
    pub config: Arc<Config>,
    pub log: Arc<ChangeLog>,
    pub clock: Arc<dyn Clock>,
    pub states: Arc<PeerStates>,
    pub digests: Arc<DigestCache>,
    pub identity: Identity,
    pub incarnation: String,
    /// The store was empty: the registry has to be copied from a peer first.
    pub is_empty: bool,
    /// Opened when the copy is done.
    pub gate: Arc<ReadsGate>,
}

/// Starts replication: the copy if the store is empty, a task per peer, the refresh of the list of
/// peers, and the node's own registration.
pub fn start(parts: Parts, tasks: &TaskTracker, stop: &CancellationToken) {
    let peers = parts.config.peers.clone();
    let now = parts.clock.now();
    let context = Arc::new(Context {
        transport: Transport::new(
            &parts.identity,
            &parts.config.instance.ip_address,
            peers.connect_timeout,
            peers.connection_idle_timeout,
        ),
        log: parts.log,
        clock: parts.clock,
        states: parts.states,
        digests: parts.digests,
        identity: parts.identity,
        incarnation: parts.incarnation,
        own_id: parts.config.instance.instance_id.as_str().into(),
        peers,
        seed: AtomicU64::new(now.wall.0 ^ now.mono.0.rotate_left(32)),
    });
    let (gate, config) = (parts.gate, parts.config);
    let (is_empty, stop, tracker) = (parts.is_empty, stop.clone(), tasks.clone());
    tasks.spawn(async move {
        if is_empty && context.peers.fetch_registry {
            bootstrap::copy(&context, &config, &gate, &stop).await;
        }
        gate.open();
        if config.peers.register_with_eureka {
            let own = self_registration::run(context.clone(), config.clone(), stop.clone());
            tracker.spawn(own);
        }
        supervise(context, tracker, stop).await;
    });
}

/// Keeps a task per peer as the list of peers changes. An empty list that comes from a failing look-up
/// is not believed: the last good one stays.
async fn supervise(context: Arc<Context>, tasks: TaskTracker, stop: CancellationToken) {
    let mut running: BTreeMap<String, CancellationToken> = BTreeMap::new();
    let mut interval = tokio::time::interval(context.peers.update_interval);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = interval.tick() => {}
        }
        let urls: BTreeMap<String, ServiceUrl> = context
            .peers
            .urls()
            .into_iter()
            .map(|url| (url.to_string(), url.clone()))
            .collect();
        running.retain(|name, token| {
            let stays = urls.contains_key(name);
            if !stays {
                info!(peer.url = %name, "{name} is no peer any more");
                token.cancel();
                context.states.remove(name);
            }
            stays
        });
        for (name, url) in urls {
            if running.contains_key(&name) {
                continue;
            }
            if url.secure {
                warn!(peer.url = %name, "{name}: peers over https are not supported yet");
                continue;
            }
            let token = stop.child_token();
            let task = PeerTask {
                context: context.clone(),
                url,
                name: name.clone(),
                stop: token.clone(),
            };
            tasks.spawn(task.run());
            running.insert(name, token);
        }
    }
}
