//! The write path on a store that fails, waits and counts on purpose: what an acknowledgement
//! means, what a failing disk does, and what a restart brings back.

mod acknowledgement;
mod failure;
mod recovery;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::clock::ManualClock;
use crate::registry::rules::Rules;
use crate::registry::tests::{START, Said, Scene};
use crate::store::testing::{FaultStore, Faults, options};
use crate::store::{Durability, MemDisk, StoreError};

/// How long deltas show a change, ms.
pub(crate) const RETENTION_MS: u64 = 180_000;

impl Scene {
    /// What a change log shows of it.
    pub(crate) fn published(&self) -> Published {
        Published {
            registry: self.registry.clone(),
            delta: self.delta.clone(),
        }
    }
}

/// A change log on a disk in memory, with clocks in the hand of the test. Leases expire: there is
/// no self-preservation.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) log: Arc<ChangeLog>,
    pub(crate) disk: MemDisk,
    pub(crate) clock: Arc<ManualClock>,
    /// Of the store that the log was started on; one that is opened again has no faults.
    pub(crate) faults: Faults,
    pub(crate) facts: Facts,
    rules: Rules,
    durability: Option<Durability>,
    /// Whether the disk refuses to be opened again.
    is_closed_off: Arc<AtomicBool>,
}

impl Rig {
    pub(crate) fn start(rules: &Rules, durability: Option<Durability>) -> Self {
        let disk = MemDisk::new(options("mem"));
        let clock = Arc::new(ManualClock::at(START));
        Self::on(disk, clock, rules, durability)
    }

    /// Default rules, acknowledged when on the disk.
    pub(crate) fn sync() -> Self {
        Self::start(&Rules::default(), Some(Durability::Disk))
    }

    pub(crate) fn on(
        disk: MemDisk,
        clock: Arc<ManualClock>,
        rules: &Rules,
        durability: Option<Durability>,
    ) -> Self {
        let (opened, faults) = FaultStore::wrap(disk.open(clock.now().wall));
        let shared = Arc::new(rules.clone());
        let recovered = recover(opened, shared, RETENTION_MS, clock.now(), &mut |_, _| {})
            .expect("a disk in memory can be read");
        let facts = recovered.facts.clone();
        let is_closed_off = Arc::new(AtomicBool::new(false));
        let opener = {
            let (disk, clock, is_closed_off) = (disk.clone(), clock.clone(), is_closed_off.clone());
            Box::new(move || {
                if is_closed_off.load(Ordering::SeqCst) {
                    return Err(no_space());
                }
                Ok(disk.open(clock.now().wall))
            })
        };
        let protection = Settings {
            enabled: false,
            renewal_percent_threshold: 0.85,
            expected_client_renewal_interval_secs: 30,
            max_protection_ms: 0,
        };
        let log = ChangeLog::start(
            recovered,
            WriterSettings { durability, opener },
            Arc::new(RenewalMeter::new(0)),
            protection,
            clock.clone(),
        )
        .expect("a thread can be started");
        Self {
            log,
            disk,
            clock,
            faults,
            facts,
            rules: rules.clone(),
            durability,
            is_closed_off,
        }
    }

    /// Kills the node and starts it again after `downtime_ms`: what was not committed is gone.
    pub(crate) fn kill(self, downtime_ms: u64) -> Self {
        let wall = self.clock.now().wall.plus(downtime_ms);
        let clock = Arc::new(ManualClock::at(wall.0));
        // The new one takes the disk away from the old one, which may still be running.
        Self::on(self.disk, clock, &self.rules, self.durability)
    }

    pub(crate) async fn submit(
        &self,
        commands: Vec<Command>,
        is_replication: bool,
    ) -> Result<Vec<Said>, Unavailable> {
        let request = Request {
            commands,
            origin: if is_replication {
                Origin::Peer("peer-1".into())
            } else {
                Origin::Client
            },
            actors: Actor::default().into(),
        };
        let replies = self.log.submit(request).await?;
        Ok(replies.iter().map(Said::from).collect())
    }

    /// One command of a client.
    pub(crate) async fn client(&self, command: Command) -> Result<Said, Unavailable> {
        Ok(self.submit(vec![command], false).await?[0])
    }

    /// Housekeeping, done when this returns.
    pub(crate) async fn maintain(&self, what: Maintenance) {
        self.log.maintain(what).await;
        // The writer keeps the order: when it answers this, the other is done.
        let nobody = crate::registry::tests::cancel("NOBODY", "0");
        assert_eq!(self.client(nobody).await, Ok(Said::NotFound));
    }

    pub(crate) async fn tick(&self) {
        self.maintain(Maintenance::Tick).await;
    }

    /// As many ticks as the writer lets pass before it opens a failed store again.
    pub(crate) async fn ticks_until_reopened(&self) {
        for _ in 0..5 {
            self.tick().await;
        }
    }

    pub(crate) fn checkpoint(&self) {
        let (reader, state) = (self.log.reader(), self.log.snapshot());
        write_checkpoint(&reader, &state, self.clock.now().wall).expect("memory takes it");
    }

    pub(crate) fn health(&self) -> StoreHealth {
        self.log.health().borrow().clone()
    }

    pub(crate) fn close_off(&self, is_on: bool) {
        self.is_closed_off.store(is_on, Ordering::SeqCst);
    }

    /// What the disk has, by LSN.
    pub(crate) fn stored(&self) -> Vec<u64> {
        let reader = self.log.reader();
        let all = reader.read(reader.first_lsn(), usize::MAX, usize::MAX);
        let all = all.expect("the disk can be read");
        all.iter().map(|record| record.lsn.0).collect()
    }

    pub(crate) fn has(&self, app: &str, id: &str) -> bool {
        self.log.published().registry.lease(app, id).is_some()
    }
}

fn no_space() -> StoreError {
    StoreError::NoSpace {
        path: "mem".into(),
        cause: "no space left on device".into(),
    }
}

fn register(id: &str) -> Command {
    Command::Register(crate::registry::tests::instance("SHOP", id).into())
}
