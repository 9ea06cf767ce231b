//! Peers: replication out of the change log, towards Java nodes and nodes of our own in one mesh
//! (design 4, `protocol.md` 7).
//!
//! Each peer has a cursor on the log ([`sender`]): what lies behind it is sent, newest state per
//! instance, and the cursor moves when the answers are in. There is no queue to overflow or expire:
//! a peer that was away gets what it missed, once. Renewals are not in the log; they are coalesced by
//! time, one item per lease however often it was renewed.
//!
//! The pure part ([`outbound`], [`sender`], [`exchange`], [`batch`], [`reconcile`], [`portion`]) knows neither
//! sockets nor clocks, so that whole clusters run in one deterministic test (`simulation`); `task` and
//! [`transport`] move its requests over HTTP. [`inbound`] answers what nodes of our own kind ask beyond the original's protocol.

pub mod batch;
mod behind;
mod bootstrap;
mod confirm;
#[cfg(test)]
mod discovery_tests;
mod dns;
#[cfg(test)]
mod dns_server;
pub mod exchange;
pub mod holds;
pub mod inbound;
mod kept;
mod learned;
mod look;
mod membership;
mod metered;
mod notes;
pub mod outbound;
pub mod packing;
pub mod past;
pub mod patience;
pub mod portion;
pub mod reconcile;
mod self_registration;
pub mod sender;
#[cfg(test)]
mod simulation;
pub mod skew;
pub mod state;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod tls_tests;
pub mod transport;
#[cfg(test)]
mod transport_tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

pub use bootstrap::{ReadsGate, has_to_copy};
pub use inbound::Compared;
use reconcile::DigestCache;

use crate::changelog::{ChangeLog, Request, Unavailable};
use crate::clock::Clock;
use crate::config::{Config, PeersConfig, ServiceUrl};
use crate::registry::change::{Actor, Origin};
use crate::registry::command::Command;
use crate::tls::TlsClient;
use crate::types::Lsn;
use crate::wire::Limits;
use dns::{Dns, Names};
use membership::Membership;
use past::Past;
use state::PeerStates;
use task::{End, PeerTask};
use transport::{Identity, Transport, Wait};

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
    /// The end of the log when this process started.
    pub(crate) recovered: Lsn,
    pub(crate) peers: PeersConfig,
    pub(crate) own_id: Arc<str>,
    pub(crate) digests: Arc<DigestCache>,
    pub(crate) past: Arc<dyn Past>,
    pub(crate) limits: Limits,
    /// Open when this node has its registry together.
    pub(crate) gate: Arc<ReadsGate>,
    /// What goes on beside the tasks of the peers.
    pub(crate) tasks: TaskTracker,
    /// Held by whoever reads a peer's registry beside its task.
    pub(crate) looks: Semaphore,
    /// Cancelled when nothing more will be said: senders end when their peer has everything.
    pub(crate) finish: CancellationToken,
    seed: AtomicU64,
}

impl Context {
    /// How long a whole registry may take from a peer, `whole` at most unless its head alone may take longer.
    pub(crate) fn copy_wait(&self, whole: Duration) -> Wait {
        let next = self.peers.copy_read_timeout;
        let head = self.peers.copy_connect_timeout + next;
        Wait {
            head,
            next,
            whole: whole.max(head),
        }
    }

    /// Stores what a list of a peer leads to, which does not say who asked for it.
    pub(crate) async fn store_of(
        &self,
        url: &ServiceUrl,
        commands: Vec<Command>,
    ) -> Result<(), Unavailable> {
        let request = Request {
            commands,
            origin: Origin::Peer(url.to_string().into()),
            actors: Actor::default().into(),
        };
        self.log.submit_in_pieces(request).await
    }

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
    pub past: Arc<dyn Past>,
    pub identity: Identity,
    pub incarnation: String,
    /// The registry has to be copied from a peer first ([`has_to_copy`]).
    pub has_to_copy: bool,
    /// What connections to peers over https are made with.
    pub tls: TlsClient,
    /// Opened when the copy is done.
    pub gate: Arc<ReadsGate>,
}

/// Starts replication: the copy if there is to be one, a task per peer, the refresh of the list of
/// peers, and the node's own registration.
///
/// When `closing` is cancelled, no request comes any more and the copy is broken off: a node that has not
/// begun by then does not begin. When `leave` is cancelled, the node takes its registration back and ends
/// when every peer that answers has been told everything; `stop` ends all at once.
pub fn start(
    parts: Parts,
    tasks: &TaskTracker,
    closing: &CancellationToken,
    leave: &CancellationToken,
    stop: &CancellationToken,
) {
    let peers = parts.config.peers.clone();
    let dns = Dns::new(&peers.dns_servers, parts.clock.clone());
    let membership = Membership::new(&peers, dns.clone());
    let now = parts.clock.now();
    let context = Arc::new(Context {
        transport: Transport::new(
            &parts.identity,
            &parts.config.instance.ip_address,
            peers.connect_timeout,
            peers.connection_idle_timeout,
            dns,
            &parts.tls,
        )
        .counting(parts.states.clone()),
        recovered: parts.log.published().lsn(),
        log: parts.log,
        clock: parts.clock,
        states: parts.states,
        digests: parts.digests,
        past: parts.past,
        limits: parts.config.limits.of_decoders(),
        gate: parts.gate,
        tasks: tasks.clone(),
        looks: Semaphore::new(1),
        finish: CancellationToken::new(),
        identity: parts.identity,
        incarnation: parts.incarnation,
        own_id: parts.config.instance.instance_id.as_str().into(),
        peers,
        seed: AtomicU64::new(now.wall.0 ^ now.mono.0.rotate_left(32)),
    });
    let (config, has_to_copy) = (parts.config, parts.has_to_copy);
    let tracker = tasks.clone();
    let (closing, leave, stop) = (closing.clone(), leave.clone(), stop.clone());
    let (listing, list) = watch::channel(Listed::default());
    tasks.spawn(async move {
        let opening = tracker.spawn(open(
            context.clone(),
            config,
            has_to_copy.then_some(list),
            closing,
            leave.clone(),
        ));
        supervise(&context, membership, &listing, tracker, &leave, &stop).await;
        // If it panicked, the runtime has said so.
        let _ = opening.await;
        context.finish.cancel();
    });
}

/// Opens the node for reads, once it has a copy of the registry where it needs one, and registers it from
/// then on until it leaves. One that is stopped before opens nothing and is no instance.
async fn open(
    context: Arc<Context>,
    config: Arc<Config>,
    copied_from: Option<watch::Receiver<Listed>>,
    closing: CancellationToken,
    leave: CancellationToken,
) {
    if let Some(list) = copied_from {
        if !bootstrap::copy(&context, &config, list, &closing).await {
            return;
        }
        context.gate.open();
        bootstrap::opened(&context, &leave).await;
    }
    if closing.is_cancelled() {
        return;
    }
    context.gate.open();
    if config.peers.register_with_eureka {
        self_registration::run(context, config, leave).await;
    }
}

/// Who the peers are.
#[derive(Clone, Debug, Default)]
struct Listed {
    urls: Vec<ServiceUrl>,
    /// Whether that is all of them, as far as DNS can tell.
    is_settled: bool,
}

/// Keeps a task per peer as the list of peers changes, and tells the list, until the node leaves. The tasks
/// end with `stop`.
async fn supervise<N: Names>(
    context: &Arc<Context>,
    mut membership: Membership<N>,
    listing: &watch::Sender<Listed>,
    tasks: TaskTracker,
    leave: &CancellationToken,
    stop: &CancellationToken,
) {
    let mut running = Running::default();
    loop {
        let urls = membership.urls();
        listing.send_replace(Listed {
            urls: urls.clone(),
            is_settled: membership.is_settled(),
        });
        running.follow(context, urls, &tasks, stop);
        tokio::select! {
            biased;
            () = leave.cancelled() => return,
            () = membership.due() => {}
        }
        tokio::select! {
            biased;
            () = leave.cancelled() => return,
            () = membership.refresh() => {}
        }
    }
}

/// The tasks of the peers, by the peers' names.
#[derive(Debug, Default)]
struct Running {
    /// Of the peers on the list, those included that are this very node for the time being.
    tasks: BTreeMap<String, (CancellationToken, JoinHandle<()>)>,
    /// Of peers that are gone, until they have come to an end.
    ending: BTreeMap<String, JoinHandle<()>>,
}

impl Running {
    /// Ends the tasks of peers that are not in the list any more, and starts those of new ones.
    fn follow(
        &mut self,
        context: &Arc<Context>,
        urls: Vec<ServiceUrl>,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let urls: BTreeMap<String, ServiceUrl> =
            urls.into_iter().map(|url| (url.to_string(), url)).collect();
        self.ending.retain(|_, ended| !ended.is_finished());
        let gone: Vec<String> = self
            .tasks
            .keys()
            .filter(|name| !urls.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            info!(peer.url = %name, "{name} is no peer any more");
            if let Some((token, ended)) = self.tasks.remove(&name) {
                token.cancel();
                self.ending.insert(name, ended);
            }
        }
        for (name, url) in urls {
            if self.tasks.contains_key(&name) {
                continue;
            }
            let token = stop.child_token();
            let before = self.ending.remove(&name);
            let peer = run_peer(context.clone(), url, before, token.clone());
            self.tasks.insert(name, (token, tracker.spawn(peer)));
        }
    }
}

/// A peer's task from the end of an earlier one for the same peer to its own end.
async fn run_peer(
    context: Arc<Context>,
    url: ServiceUrl,
    before: Option<JoinHandle<()>>,
    stop: CancellationToken,
) {
    let name = url.to_string();
    if let Some(before) = before {
        // If it panicked, the runtime has said so.
        let _ = before.await;
    }
    let (states, tasks) = (context.states.clone(), context.tasks.clone());
    let task = Arc::new(PeerTask {
        context,
        url,
        name: name.clone(),
        stop: stop.clone(),
        is_copying: AtomicBool::new(false),
        clock: Arc::default(),
    });
    loop {
        let run = || {
            let task = task.clone();
            tasks.spawn(async move { task.run().await })
        };
        let end = until_it_ends(run, |why| task.fell(why), &stop).await;
        if end == End::Stopped || !task.finds_another().await {
            break;
        }
    }
    if stop.is_cancelled() {
        states.remove(&name);
    }
}

/// How long a peer is left alone after its task panicked.
const FALLEN_PAUSE: Duration = Duration::from_secs(5);

/// Runs a peer's task, and anew after a pause if it panics: a defect that one peer's answers bring to light
/// is no reason to tell it nothing any more. `fell` says so.
async fn until_it_ends(
    run: impl Fn() -> JoinHandle<End>,
    fell: impl Fn(&str),
    stop: &CancellationToken,
) -> End {
    loop {
        let error = match run().await {
            Ok(end) => return end,
            Err(error) => error,
        };
        if !error.is_panic() || stop.is_cancelled() {
            return End::Stopped;
        }
        fell(&error.to_string());
        tokio::select! {
            biased;
            () = stop.cancelled() => return End::Stopped,
            () = tokio::time::sleep(FALLEN_PAUSE) => {}
        }
    }
}
