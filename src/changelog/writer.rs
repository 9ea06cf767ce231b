//! The writer: one thread that owns the store. It takes whatever waits (never waiting to fill a
//! batch), decides on its own copy of the state, appends and commits once, and only then publishes
//! and answers (design 1 and 2). A batch that could not be stored leaves no trace: the copy is
//! thrown away.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, info, warn};

use super::apply::{Asked, apply};
use super::replay::replay;
use super::{
    ChangeLog, Maintenance, Published, Request, StoreHealth, Unavailable, write_checkpoint,
};
use crate::causes::with_causes;
use crate::registry::change::{ChangeKind, Record};
use crate::registry::command::Reply;
use crate::store::{Durability, LogStore, Opened, StoreError};
use crate::types::Lsn;

/// Commands that go into one commit at most: above this only latency grows.
const BATCH_MAX: usize = 256;
/// Acknowledged records that may wait for a commit; bounds memory with `interval` durability.
const UNCOMMITTED_MAX: usize = 10_000;
/// Ticks between two tries to open a failed store again.
const REOPEN_TICKS: u32 = 5;
/// The same after one that found it damaged.
const REOPEN_DAMAGED_TICKS: u32 = 300;

/// Opens the store again after a failure.
pub type Opener = Box<dyn FnMut() -> Result<Opened, StoreError> + Send>;

/// How the writer works.
#[expect(missing_debug_implementations, reason = "the opener is a closure")]
pub struct WriterSettings {
    /// What an acknowledgement means; `None` acknowledges at once and commits at ticks.
    pub durability: Option<Durability>,
    pub opener: Opener,
}

/// What the writer is asked for.
#[derive(Debug)]
pub(super) enum Job {
    Change {
        request: Request,
        reply: Answer,
    },
    Maintain(Maintenance),
    Close {
        done: oneshot::Sender<Result<(), String>>,
    },
}

type Answer = oneshot::Sender<Result<Vec<Reply>, Unavailable>>;

struct Writer {
    log: Arc<ChangeLog>,
    settings: WriterSettings,
    /// `None` while the store has failed.
    store: Option<Box<dyn LogStore>>,
    /// The store that failed, until it is let go: readers still hold its other side, and with it
    /// the directory.
    failed: Option<Box<dyn LogStore>>,
    /// The state with everything that was decided; ahead of what is published within a batch only.
    state: Published,
    /// Acknowledged records that are not committed yet (`interval` durability).
    uncommitted: Vec<Arc<Record>>,
    ticks_until_reopen: u32,
}

/// Starts the thread. A store that comes with a reason why nothing can be stored counts as failed:
/// it is opened anew when that may have passed.
pub(super) fn spawn(
    log: Arc<ChangeLog>,
    (store, cannot_store): (Box<dyn LogStore>, Option<StoreError>),
    settings: WriterSettings,
    jobs: mpsc::Receiver<Job>,
) -> std::io::Result<()> {
    let state = (*log.snapshot()).clone();
    let mut writer = Writer {
        log,
        settings,
        store: Some(store),
        failed: None,
        state,
        uncommitted: Vec::new(),
        ticks_until_reopen: 0,
    };
    if let Some(error) = cannot_store {
        writer.fail(&error);
    }
    std::thread::Builder::new()
        .name("changelog".into())
        .spawn(move || {
            let health = HealthGuard(writer.log.clone());
            writer.run(jobs);
            drop(health);
        })?;
    Ok(())
}

/// Whatever ends the thread, a panic too, the node learns that nothing is stored any more.
struct HealthGuard(Arc<ChangeLog>);

impl Drop for HealthGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            error!("the change log's writer panicked: changes are refused from now on");
            self.0
                .health
                .send_replace(StoreHealth::Failed("the writer panicked".into()));
        } else {
            self.0.health.send_replace(StoreHealth::Closed);
        }
    }
}

/// What one batch came to, while it is not safe yet.
#[derive(Default)]
struct Batch {
    records: Vec<Arc<Record>>,
    answers: Vec<(Answer, Vec<Reply>)>,
}

impl Writer {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut waiting = VecDeque::new();
        while let Some(first) = jobs.blocking_recv() {
            waiting.push_back(first);
            let mut commands = 0;
            while commands < BATCH_MAX
                && let Ok(job) = jobs.try_recv()
            {
                if let Job::Change { request, .. } = &job {
                    commands += request.commands.len();
                }
                waiting.push_back(job);
            }
            let mut batch = Batch::default();
            while let Some(job) = waiting.pop_front() {
                match job {
                    Job::Change { request, reply } => {
                        let replies = self.carry_out(&request, &mut batch);
                        batch.answers.push((reply, replies));
                    }
                    Job::Maintain(what) => {
                        self.finish(std::mem::take(&mut batch));
                        self.maintain(what);
                    }
                    Job::Close { done } => {
                        self.finish(std::mem::take(&mut batch));
                        // Refuse what comes from now on, and answer what has come.
                        jobs.close();
                        for job in waiting
                            .drain(..)
                            .chain(std::iter::from_fn(|| jobs.try_recv().ok()))
                        {
                            if let Job::Change { reply, .. } = job {
                                let _ = reply.send(Err(Unavailable::Closed));
                            }
                        }
                        let _ = done.send(self.close());
                        return;
                    }
                }
            }
            self.finish(batch);
        }
        if let Err(error) = self.close() {
            warn!(%error, "closing the store: {error}");
        }
    }

    /// Decides the commands of a request, one after the other, on the writer's own state.
    fn carry_out(&mut self, request: &Request, batch: &mut Batch) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(request.commands.len());
        for (place, command) in request.commands.iter().enumerate() {
            let asked = Asked {
                origin: &request.origin,
                actor: request.actors.of(place),
                now: self.log.clock.now(),
                expiration_enabled: self.log.expiration_enabled(&self.state.registry),
            };
            let applied = apply(&mut self.state, command, &asked, &mut batch.records);
            if applied.counts {
                self.log.meter.count();
            }
            replies.push(applied.reply);
        }
        replies
    }

    /// Makes a batch safe, publishes it and answers.
    fn finish(&mut self, batch: Batch) {
        let outcome = if batch.records.is_empty() {
            Ok(())
        } else {
            self.store_batch(&batch)
        };
        match outcome {
            Ok(()) => {
                if !batch.records.is_empty() {
                    self.publish();
                    for record in &batch.records {
                        self.log.count(record.change.event());
                        tell(record);
                    }
                }
                for (answer, replies) in batch.answers {
                    // Nobody waits any more: the client has gone. The change stands.
                    let _ = answer.send(Ok(replies));
                }
            }
            Err(unavailable) => {
                self.state = (*self.log.snapshot()).clone();
                for (answer, _) in batch.answers {
                    let _ = answer.send(Err(unavailable.clone()));
                }
            }
        }
    }

    fn store_batch(&mut self, batch: &Batch) -> Result<(), Unavailable> {
        let Some(store) = &mut self.store else {
            return Err(Unavailable::StoreFailed(self.failure()));
        };
        let stored = store
            .append(&batch.records)
            .and_then(|()| match self.settings.durability {
                Some(durability) => store.commit(durability),
                None => Ok(()),
            });
        if let Err(error) = stored {
            return Err(self.fail(&error));
        }
        if self.settings.durability.is_none() {
            let before = self.uncommitted.len();
            self.uncommitted.extend(batch.records.iter().cloned());
            if self.uncommitted.len() >= UNCOMMITTED_MAX
                && let Err(error) = self.commit_open()
            {
                // This batch is refused: it must not be appended again later.
                self.uncommitted.truncate(before);
                return Err(self.fail(&error));
            }
        }
        self.touch_watermark();
        Ok(())
    }

    /// A store that failed once is never written to again (design 2): it is let go, and opened anew
    /// at a later tick, since either may take its time.
    fn fail(&mut self, error: &StoreError) -> Unavailable {
        let reason = with_causes(error);
        error!(%reason, "the change log cannot be written, changes are refused: {reason}");
        if let Some(store) = self.store.take() {
            self.failed = Some(store);
        }
        self.ticks_until_reopen = REOPEN_TICKS;
        self.log
            .health
            .send_replace(StoreHealth::Failed(reason.clone()));
        Unavailable::StoreFailed(reason)
    }

    fn failure(&self) -> String {
        match &*self.log.health.borrow() {
            StoreHealth::Failed(reason) => reason.clone(),
            StoreHealth::Working | StoreHealth::Closed => "the store is closed".into(),
        }
    }

    fn publish(&mut self) {
        let state = Arc::new(self.state.clone());
        self.log.published.store(state.clone());
        self.log.moved.send_replace(state.lsn());
        if self.uncommitted.is_empty() {
            self.log.committed.send_replace(state);
        }
        self.refresh_stats();
    }

    fn refresh_stats(&self) {
        if let Some(store) = &self.store {
            let stats = store.stats();
            *self
                .log
                .stats
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner) = stats;
        }
    }

    fn touch_watermark(&mut self) {
        let now = self.log.clock.now().wall;
        let acknowledged = match self.uncommitted.first() {
            Some(record) => Lsn(record.lsn.0.saturating_sub(1)),
            None => self.state.lsn(),
        };
        if let Some(store) = &mut self.store
            && let Err(error) = store.touch_watermark(acknowledged, now)
        {
            self.fail(&error);
        }
    }

    fn maintain(&mut self, what: Maintenance) {
        match what {
            Maintenance::Tick => self.tick(),
            Maintenance::TrimDelta { retention_ms } => {
                if self
                    .state
                    .delta
                    .trim(self.log.clock.now().mono, retention_ms)
                {
                    self.publish();
                }
            }
            Maintenance::TrimLog { floor } => self.trim_log(floor),
        }
    }

    fn tick(&mut self) {
        if self.store.is_none() {
            self.ticks_until_reopen = self.ticks_until_reopen.saturating_sub(1);
            if self.ticks_until_reopen == 0 {
                self.reopen();
            }
            return;
        }
        if let Err(error) = self.commit_open() {
            self.fail(&error);
            return;
        }
        self.touch_watermark();
        self.refresh_stats();
    }

    /// Commits what was acknowledged before it was safe (`interval` durability).
    fn commit_open(&mut self) -> Result<(), StoreError> {
        if self.uncommitted.is_empty() {
            return Ok(());
        }
        if let Some(store) = &mut self.store {
            store.commit(Durability::Disk)?;
            self.uncommitted.clear();
            // Within a batch that is not published yet this is the state before it.
            self.log.committed.send_replace(self.log.snapshot());
        }
        Ok(())
    }

    fn trim_log(&mut self, floor: Lsn) {
        let now = self.log.clock.now().wall;
        let Some(store) = &mut self.store else { return };
        match store.trim(floor, now) {
            Ok(trimmed) if trimmed.segments > 0 => {
                info!(
                    segments = trimmed.segments,
                    bytes = trimmed.bytes,
                    first_lsn = %trimmed.first_lsn,
                    "dropped {} segments of the log, it begins at LSN {}",
                    trimmed.segments,
                    trimmed.first_lsn
                );
            }
            Ok(_) => {}
            Err(error) => {
                self.fail(&error);
            }
        }
    }

    /// Opens a failed store again and brings the two sides together: what the disk has and memory
    /// has not was stored but never acknowledged, and is taken over; what memory has and the disk
    /// has not is appended again.
    fn reopen(&mut self) {
        self.ticks_until_reopen = REOPEN_TICKS;
        self.let_go_of_failed();
        let reopened = (self.settings.opener)().and_then(|opened| self.reconcile(opened));
        match reopened {
            Ok(()) => {
                self.log.health.send_replace(StoreHealth::Working);
                info!(lsn = %self.state.lsn(), "the change log takes changes again");
            }
            Err(error) => {
                let reason = with_causes(&error);
                warn!(%reason, "the change log still cannot be opened: {reason}");
                // Every try goes through a damaged log whole, which does not mend by itself.
                if matches!(error, StoreError::Damaged { .. }) {
                    self.ticks_until_reopen = REOPEN_DAMAGED_TICKS;
                }
                self.log.health.send_replace(StoreHealth::Failed(reason));
            }
        }
    }

    fn let_go_of_failed(&mut self) {
        if let Some(store) = self.failed.take()
            && let Err(error) = store.close(self.log.clock.now().wall)
        {
            let reason = with_causes(&error);
            warn!(%reason, "letting go of the store that failed: {reason}");
        }
    }

    fn reconcile(&mut self, opened: Opened) -> Result<(), StoreError> {
        let mut store = opened.store;
        let now = self.log.clock.now();
        let reader = opened.reader;
        // On a copy, so that a failure halfway leaves no trace.
        let mut state = self.state.clone();
        let before = state.lsn();
        if opened.last_lsn > before {
            let registry = &mut state.registry;
            let range = (before.next().max(reader.first_lsn()), opened.last_lsn);
            replay(registry, &*reader, range, now.mono, &mut |_, _| {})?;
            for record in reader.read(before.next(), usize::MAX, usize::MAX)? {
                state.delta.push(&record, now.mono);
            }
        }
        let missing: Vec<Arc<Record>> = self
            .uncommitted
            .iter()
            .filter(|r| r.lsn > opened.last_lsn)
            .cloned()
            .collect();
        let mut stored = opened.last_lsn;
        if let (Some(first), Some(last)) = (missing.first(), missing.last())
            && first.lsn == opened.next_lsn
        {
            store.append(&missing)?;
            store.commit(Durability::Disk)?;
            stored = last.lsn;
        }
        // Positions that the store has left out are not given out again.
        if state.lsn().next() < opened.next_lsn {
            let last = Lsn(opened.next_lsn.0.saturating_sub(1));
            state.registry.restored_at(last);
        }
        if stored < before {
            // The disk lost what had been acknowledged; the state still has it.
            warn!(%stored, %before, "records behind LSN {stored} are gone, a checkpoint replaces them");
            write_checkpoint(&reader, &state, now.wall)?;
        }
        self.state = state;
        self.uncommitted.clear();
        self.store = Some(store);
        self.log.reader.store(Arc::new(reader));
        self.publish();
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        self.let_go_of_failed();
        if self.store.is_none() && !self.uncommitted.is_empty() {
            // The last chance for what was acknowledged before it was safe.
            self.reopen();
        }
        let Some(store) = self.store.take() else {
            return match self.uncommitted.len() {
                0 => Ok(()),
                lost => Err(format!(
                    "{lost} acknowledged changes were not stored: {}",
                    self.failure()
                )),
            };
        };
        // Closing commits to the disk.
        let closed = store.close(self.log.clock.now().wall);
        if closed.is_ok() {
            self.uncommitted.clear();
        }
        closed.map_err(|error| with_causes(&error))
    }
}

/// One line per change; what operators look for at `info`, the daily bread at `debug`.
fn tell(record: &Record) {
    let change = &record.change;
    let (app, id, lsn) = (&change.app, &change.id, record.lsn);
    let (what, origin) = (change.as_str(), record.origin.as_str());
    match change.kind {
        ChangeKind::Evicted
        | ChangeKind::OverrideSet
        | ChangeKind::OverrideLifted
        | ChangeKind::OverrideForgotten => {
            info!(app.name = %app, instance.id = %id, %lsn, origin, "{what}: {app}/{id}");
        }
        ChangeKind::Registered
        | ChangeKind::Reregistered
        | ChangeKind::OverrideStored
        | ChangeKind::StatusRestored
        | ChangeKind::MetadataUpdated
        | ChangeKind::Cancelled => {
            debug!(app.name = %app, instance.id = %id, %lsn, origin, "{what}: {app}/{id}");
        }
    }
}
