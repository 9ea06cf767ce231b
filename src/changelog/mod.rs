//! The change log at run time: the one write path of the node and what it publishes.
//!
//! Every mutation is a [`Request`] to the writer thread ([`writer`]): it decides, appends, commits
//! and only then publishes the new state and answers. Readers take [`ChangeLog::published`], an
//! immutable view at one LSN, without a lock that anybody could wait on; who wants to know when the
//! log has moved subscribes. Heartbeats that change nothing never come here
//! ([`ChangeLog::renew`]).

mod apply;
mod maintenance;
mod recover;
pub(crate) mod replay;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

#[cfg(test)]
pub(crate) use apply::{Asked, apply};
pub use maintenance::{Maintenance, write_checkpoint};
pub(crate) use maintenance::{holds_of, leases_of, overrides_of};
pub use recover::{Facts, Recovered, recover};
pub use writer::{Opener, WriterSettings};

use crate::clock::Clock;
use crate::registry::Registry;
use crate::registry::change::{Actor, ChangeEvent, Origin};
use crate::registry::command::{Command, Context, Renewal, Reply};
use crate::registry::delta::DeltaTail;
use crate::registry::self_preservation::{RenewalMeter, Settings};
use crate::store::{LogReader, StoreStats};
use crate::types::Lsn;

/// Jobs that may wait for the writer; beyond that requests wait for a place, then get
/// [`Unavailable::Overloaded`]. The bytes behind them are bounded where bodies are read.
const QUEUE_MAX: usize = 8192;
/// How long a request waits for a place in the queue.
const QUEUE_WAIT: Duration = Duration::from_secs(2);

/// Commands of a long request that go to the writer at a time.
const PIECE: usize = 250;

/// The registry and its delta window at one position of the log.
#[derive(Clone, Debug)]
pub struct Published {
    pub registry: Registry,
    pub delta: DeltaTail,
}

impl Published {
    pub fn lsn(&self) -> Lsn {
        self.registry.lsn()
    }
}

/// Commands of one request, carried out in order and committed together.
#[derive(Debug)]
pub struct Request {
    pub commands: Vec<Command>,
    pub origin: Origin,
    pub actors: Actors,
}

impl Request {
    /// Each command with who asks for it.
    pub fn of_each(asked: Vec<(Command, Actor)>, origin: Origin) -> Self {
        let (commands, actors) = asked.into_iter().unzip();
        Self {
            commands,
            origin,
            actors: Actors::Each(actors),
        }
    }

    /// Keeps the first `count` commands; the others as a request of the same kind.
    fn split_off(&mut self, count: usize) -> Self {
        Self {
            commands: self.commands.split_off(count.min(self.commands.len())),
            origin: self.origin.clone(),
            actors: self.actors.split_off(count),
        }
    }
}

/// Who asks for the commands of a request.
#[derive(Clone, Debug)]
pub enum Actors {
    /// The same for all.
    One(Actor),
    /// One per command, in their order: a peer passes on what others asked of it.
    Each(Vec<Actor>),
}

impl Actors {
    /// Who asks for the command at `place`; of a command too many nothing is known.
    pub(crate) fn of(&self, place: usize) -> &Actor {
        static UNKNOWN: Actor = Actor::UNKNOWN;
        match self {
            Self::One(actor) => actor,
            Self::Each(actors) => actors.get(place).unwrap_or(&UNKNOWN),
        }
    }

    fn split_off(&mut self, count: usize) -> Self {
        match self {
            Self::One(actor) => Self::One(actor.clone()),
            Self::Each(actors) => Self::Each(actors.split_off(count.min(actors.len()))),
        }
    }
}

impl From<Actor> for Actors {
    fn from(actor: Actor) -> Self {
        Self::One(actor)
    }
}

/// Why a change was not accepted. Nothing of it was applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unavailable {
    #[error("the store does not take changes: {0}")]
    StoreFailed(String),
    #[error("too many changes are waiting")]
    Overloaded,
    #[error("the node is shutting down")]
    Closed,
}

/// Whether changes can be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    Working,
    /// Reads and renewals go on from memory, changes are refused; why.
    Failed(String),
    /// The node closed it.
    Closed,
}

/// Handle to the log; one per node, shared by everything.
#[derive(Debug)]
pub struct ChangeLog {
    published: ArcSwap<Published>,
    jobs: mpsc::Sender<writer::Job>,
    moved: watch::Sender<Lsn>,
    committed: watch::Sender<Arc<Published>>,
    health: watch::Sender<StoreHealth>,
    reader: ArcSwap<Arc<dyn LogReader>>,
    stats: Mutex<StoreStats>,
    meter: Arc<RenewalMeter>,
    protection: Settings,
    clock: Arc<dyn Clock>,
    /// Since the start, in the order of [`ChangeEvent::all`].
    changes: [AtomicU64; ChangeEvent::COUNT],
}

impl ChangeLog {
    /// Starts the writer thread on what [`recover()`] found.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        recovered: Recovered,
        settings: WriterSettings,
        meter: Arc<RenewalMeter>,
        protection: Settings,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Arc<Self>> {
        let (jobs, receiver) = mpsc::channel(QUEUE_MAX);
        let published = Arc::new(recovered.published);
        let log = Arc::new(Self {
            moved: watch::Sender::new(published.lsn()),
            committed: watch::Sender::new(published.clone()),
            health: watch::Sender::new(StoreHealth::Working),
            stats: Mutex::new(recovered.store.stats()),
            reader: ArcSwap::from_pointee(recovered.reader),
            published: ArcSwap::new(published),
            jobs,
            meter,
            protection,
            clock,
            changes: Default::default(),
        });
        writer::spawn(
            log.clone(),
            (recovered.store, recovered.short_of_space),
            settings,
            receiver,
        )?;
        Ok(log)
    }

    /// The state that is on disk, at one LSN.
    pub fn published(&self) -> Guard<Arc<Published>> {
        self.published.load()
    }

    /// The same, to keep for longer than a request.
    pub fn snapshot(&self) -> Arc<Published> {
        self.published.load_full()
    }

    /// The log by position. Not to be kept: after a failure of the disk there is a new one.
    pub fn reader(&self) -> Arc<dyn LogReader> {
        Arc::clone(&self.reader.load())
    }

    /// Tells whenever the log has moved.
    pub fn subscribe(&self) -> watch::Receiver<Lsn> {
        self.moved.subscribe()
    }

    /// The newest state of which no crash of the process takes anything back, told whenever it is
    /// another one: what is published, but for `interval` durability, where it is behind. Who tells
    /// changes on by their positions goes by this: a position that was taken back is given out again.
    pub fn committed(&self) -> watch::Receiver<Arc<Published>> {
        self.committed.subscribe()
    }

    /// Tells when the store fails or works again.
    pub fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    /// Figures of the store as of the last commit or maintenance.
    pub fn stats(&self) -> StoreStats {
        *self
            .stats
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether the writer has ended, closed or by a panic: nothing is stored any more.
    pub fn has_ended(&self) -> bool {
        self.jobs.is_closed()
    }

    /// Changes since the start, by what happened.
    pub fn changes(&self) -> impl Iterator<Item = (ChangeEvent, u64)> {
        let counts = self.changes.iter().map(|n| n.load(Ordering::Relaxed));
        ChangeEvent::all().zip(counts)
    }

    fn count(&self, event: ChangeEvent) {
        let all = ChangeEvent::all().zip(&self.changes);
        for (_, counter) in all.filter(|(known, _)| *known == event) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn meter(&self) -> &RenewalMeter {
        &self.meter
    }

    pub fn protection(&self) -> &Settings {
        &self.protection
    }

    /// Whether expired leases count as gone, as of `state`.
    pub fn expiration_enabled(&self, state: &Registry) -> bool {
        self.meter
            .expiration_enabled(state, &self.protection, self.clock.now().mono)
    }

    /// A heartbeat. If nothing changes by it, it is answered right here: the lease's clock is moved
    /// and nobody waits for anybody. Otherwise `Err` says that it has to go through the log.
    ///
    /// # Errors
    /// [`NeedsLog`], not a failure: submit [`Command::Renew`].
    pub fn renew(
        &self,
        app: &str,
        id: &str,
        renewal: Renewal,
        is_replication: bool,
    ) -> Result<Reply, NeedsLog> {
        let state = self.published.load();
        let context = Context {
            now: self.clock.now(),
            is_replication,
            // Renewals do not ask: an expired lease that is still there can be renewed.
            expiration_enabled: false,
        };
        let decision = state.registry.decide_renewal(app, id, renewal, &context);
        if !decision.changes.is_empty() {
            return Err(NeedsLog);
        }
        if let Some(lease) = &decision.renews {
            lease.renew(context.now, state.registry.rules().lease_expiry);
            if !is_replication {
                lease.clock.set_renewed_by_client(context.now.mono);
            }
            if decision.counts {
                self.meter.count();
            }
        }
        Ok(decision.reply)
    }

    /// Hands the commands to the writer and waits until their changes are as safe as configured.
    /// One reply per command, in order.
    ///
    /// # Errors
    /// [`Unavailable`]: nothing was applied.
    pub async fn submit(&self, request: Request) -> Result<Vec<Reply>, Unavailable> {
        if request.commands.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        self.send(writer::Job::Change { request, reply }).await?;
        answer.await.unwrap_or(Err(Unavailable::Closed))
    }

    /// The same for a request of any length, which goes in pieces, so that others need not wait for all
    /// of it.
    ///
    /// # Errors
    /// [`Unavailable`]: nothing was applied from the piece on that was refused.
    pub async fn submit_in_pieces(&self, mut request: Request) -> Result<(), Unavailable> {
        while !request.commands.is_empty() {
            let rest = request.split_off(PIECE);
            self.submit(request).await?;
            request = rest;
        }
        Ok(())
    }

    /// Asks the writer for housekeeping. Returns when it has been taken up.
    pub async fn maintain(&self, what: Maintenance) {
        // A full queue means that the writer is busy; the next tick asks again.
        let _ = self.send(writer::Job::Maintain(what)).await;
    }

    /// Commits what there is, closes the store and ends the writer. Requests get
    /// [`Unavailable::Closed`] from then on.
    ///
    /// # Errors
    /// What kept the store from closing cleanly; what was acknowledged is safe all the same.
    pub async fn close(&self) -> Result<(), String> {
        let (done, closed) = oneshot::channel();
        if self.jobs.send(writer::Job::Close { done }).await.is_err() {
            return Ok(());
        }
        closed
            .await
            .unwrap_or_else(|_| Err("the writer ended before it had closed".into()))
    }

    async fn send(&self, job: writer::Job) -> Result<(), Unavailable> {
        match tokio::time::timeout(QUEUE_WAIT, self.jobs.send(job)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Unavailable::Closed),
            Err(_) => Err(Unavailable::Overloaded),
        }
    }
}

/// A heartbeat changes something and has to go through the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsLog;
