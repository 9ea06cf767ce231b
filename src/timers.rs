//! The node's timers: what happens by itself, each as a plain job with an interval. Jobs hold no
//! state of their own; what they do is asked of the log, the cache or the meter.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::cache::ResponseCache;
use crate::changelog::{ChangeLog, Maintenance, Request, write_checkpoint};
use crate::clock::Clock;
use crate::config::Config;
use crate::history::travel::Traveller;
use crate::registry::change::{Actor, Origin};
use crate::registry::command::{Command, Eviction, Reply};
use crate::registry::hold::HoldKind;
use crate::registry::self_preservation;
use crate::store::base_spacing;
use crate::types::{Lsn, Millis, millis};

/// Length of the bucket that renewals are counted in.
const RENEWAL_BUCKET: Duration = Duration::from_mins(1);
/// How often the log is looked through for segments to drop.
const TRIM_LOG: Duration = Duration::from_mins(1);
/// How often the store is told that the node lives, and a failed one is tried again.
const TICK: Duration = Duration::from_secs(1);
/// How often drains and quarantines are looked at.
const END_HOLDS: Duration = Duration::from_secs(1);
/// How often the need of a checkpoint is looked at.
const CHECKPOINT_LOOK: Duration = Duration::from_secs(1);
/// How often expired cache entries are let go.
const CACHE_UPKEEP: Duration = Duration::from_secs(5);

/// What the jobs work on.
#[derive(Clone, Debug)]
pub struct Timers {
    pub config: Arc<Config>,
    pub log: Arc<ChangeLog>,
    pub cache: Arc<ResponseCache>,
    pub traveller: Arc<Traveller>,
    pub clock: Arc<dyn Clock>,
    /// Position of the checkpoint that the node started from.
    pub checkpoint_lsn: Lsn,
    /// How often `interval` durability commits; `None` in the other modes.
    pub commit_every: Option<Duration>,
}

impl Timers {
    /// Starts every job on `tasks`; they end with `stop`.
    pub fn start(self, tasks: &TaskTracker, stop: &CancellationToken) {
        let registry = &self.config.registry;
        let timers = Arc::new(self.clone());
        let every = |period: Duration, job: Job| {
            tasks.spawn(run(period, job, timers.clone(), stop.clone()));
        };
        every(RENEWAL_BUCKET, Job::RollRenewals);
        every(registry.threshold_update_interval, Job::UpdateThreshold);
        every(registry.delta_trim_interval, Job::TrimDelta);
        every(TRIM_LOG, Job::TrimLog);
        every(
            self.commit_every.map_or(TICK, |period| period.min(TICK)),
            Job::Tick,
        );
        every(END_HOLDS, Job::EndHolds);
        every(CACHE_UPKEEP, Job::KeepCache);
        if self.config.cache.read_only_level {
            every(self.config.cache.update_interval, Job::RefreshReadOnly);
        }
        tasks.spawn(evict(timers.clone(), stop.clone()));
        tasks.spawn(checkpoint(timers.clone(), stop.clone()));
    }

    async fn tick(&self, job: Job) {
        match job {
            Job::RollRenewals => self.log.meter().roll(),
            Job::UpdateThreshold => self.update_threshold(),
            Job::TrimDelta => {
                let retention_ms = millis(self.config.registry.delta_retention);
                self.log
                    .maintain(Maintenance::TrimDelta { retention_ms })
                    .await;
            }
            Job::TrimLog => {
                // The delta window lives in memory; a restart finds it by reading backwards.
                let floor = Lsn(self.log.stats().checkpoint_lsn.0 + 1);
                self.log.maintain(Maintenance::TrimLog { floor }).await;
            }
            Job::Tick => self.log.maintain(Maintenance::Tick).await,
            Job::EndHolds => self.end_holds().await,
            Job::KeepCache => {
                let (cache, traveller) = (self.cache.clone(), self.traveller.clone());
                let upkeep = move || {
                    cache.run_pending_tasks();
                    traveller.run_pending_tasks();
                };
                let _ = tokio::task::spawn_blocking(upkeep).await;
            }
            Job::RefreshReadOnly => {
                let (cache, state) = (self.cache.clone(), self.log.snapshot());
                let _ = tokio::task::spawn_blocking(move || cache.refresh_read_only(&state)).await;
            }
        }
    }

    fn update_threshold(&self) {
        let state = self.log.published();
        let (meter, settings) = (self.log.meter(), self.log.protection());
        meter.update_threshold(&state.registry, settings);
        let threshold =
            self_preservation::threshold(&state.registry, settings, meter.phantom_clients());
        info!(
            threshold,
            renewals_last_minute = meter.last_minute(),
            instances = state.registry.len(),
            "renewal threshold is {threshold} per minute"
        );
    }

    /// Carries out the end of drains and quarantines whose time is over. What is not done now, because
    /// the store does not take changes or there are too many, is due again at the next look.
    async fn end_holds(&self) {
        let now = self.clock.now().wall;
        for (kind, reason) in [
            (HoldKind::Drain, "the drain is over"),
            (HoldKind::Quarantine, "the quarantine is over"),
        ] {
            let is_due = self
                .log
                .published()
                .registry
                .holds()
                .any(|(.., hold)| hold.is_active() && hold.kind == kind && hold.until <= now);
            if !is_due {
                continue;
            }
            let request = Request {
                commands: vec![Command::EndHolds(kind)],
                origin: Origin::Timer,
                actors: Actor {
                    reason: Some(reason.into()),
                    ..Actor::default()
                }
                .into(),
            };
            if let Err(why) = self.log.submit(request).await {
                warn!(reason = %why, "{reason}, but that was not carried out: {why}");
            }
        }
    }

    /// One eviction run, `late_ms` after its time.
    async fn evict(&self, late_ms: u64) {
        let now = self.clock.now();
        let command = Command::Evict(Eviction {
            extra_ms: late_ms,
            renewal_percent_threshold: self.config.registry.renewal_percent_threshold,
            seed: now.wall.0 ^ now.mono.0.rotate_left(32),
        });
        let request = Request {
            commands: vec![command],
            origin: Origin::Timer,
            actors: Actor::default().into(),
        };
        match self.log.submit(request).await.as_deref() {
            Ok([Reply::Evicted { evicted, expired }]) if *expired > 0 => info!(
                evicted,
                expired, "evicted {evicted} of {expired} expired leases"
            ),
            Ok(_) => {}
            Err(why) => warn!(reason = %why, "the eviction run was not carried out: {why}"),
        }
    }
}

/// What is due at a fixed interval.
#[derive(Clone, Copy, Debug)]
enum Job {
    RollRenewals,
    UpdateThreshold,
    TrimDelta,
    TrimLog,
    Tick,
    EndHolds,
    KeepCache,
    RefreshReadOnly,
}

async fn run(period: Duration, job: Job, timers: Arc<Timers>, stop: CancellationToken) {
    let mut interval = tokio::time::interval(period.max(Duration::from_millis(1)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.tick().await;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = interval.tick() => timers.tick(job).await,
        }
    }
}

/// Eviction has a memory: the time since the previous run beyond the interval is given to every
/// lease, so that a node that stood still does not evict the living (`protocol.md` 5.4).
async fn evict(timers: Arc<Timers>, stop: CancellationToken) {
    let period = timers
        .config
        .registry
        .eviction_interval
        .max(Duration::from_millis(1));
    let mut previous: Option<Millis> = None;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(period) => {}
        }
        let now = timers.clock.now().mono;
        let late_ms = compensation(previous, now, millis(period));
        previous = Some(now);
        timers.evict(late_ms).await;
    }
}

/// Milliseconds by which a run is late; the first run is never.
fn compensation(previous: Option<Millis>, now: Millis, period_ms: u64) -> u64 {
    previous.map_or(0, |previous| now.since(previous).saturating_sub(period_ms))
}

/// Writes a checkpoint when the last one is old or far behind, beside everything else.
async fn checkpoint(timers: Arc<Timers>, stop: CancellationToken) {
    let settings = &timers.config.store;
    let mut last_lsn = timers.checkpoint_lsn;
    let mut last_at = timers.clock.now().mono;
    let mut interval = tokio::time::interval(CHECKPOINT_LOOK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = interval.tick() => {}
        }
        let now = timers.clock.now();
        let state = timers.log.snapshot();
        let behind = state.lsn().0.saturating_sub(last_lsn.0);
        let is_old = now.mono.since(last_at) >= millis(settings.checkpoint_interval);
        // Bases of the past are checkpoints: they cannot lie closer together than these.
        let most = settings
            .checkpoint_records
            .min(base_spacing(state.registry.len()));
        if behind == 0 || !(is_old || behind >= most) {
            continue;
        }
        let lsn = state.lsn();
        let reader = timers.log.reader();
        let written =
            tokio::task::spawn_blocking(move || write_checkpoint(&reader, &state, now.wall)).await;
        match written {
            Ok(Ok(())) => last_lsn = lsn,
            Ok(Err(error)) => warn!(%error, %lsn, "writing a checkpoint at LSN {lsn}: {error}"),
            Err(error) => warn!(%error, %lsn, "writing a checkpoint at LSN {lsn}: {error}"),
        }
        last_at = now.mono;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the original's own tests pin down (`protocol.md` 10.3).
    #[test]
    fn a_late_eviction_run_gives_its_lateness_to_the_leases() {
        assert_eq!(compensation(None, Millis(90_000), 60_000), 0);
        assert_eq!(compensation(Some(Millis(0)), Millis(60_000), 60_000), 0);
        assert_eq!(compensation(Some(Millis(0)), Millis(60_010), 60_000), 10);
        assert_eq!(compensation(Some(Millis(0)), Millis(59_990), 60_000), 0);
    }
}
