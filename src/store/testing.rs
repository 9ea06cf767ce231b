//! Stores that fail, wait and count on purpose, and records to put into them: for the tests of the
//! whole crate.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::registry::change::{
    Actor, Change, ChangeKind, HoldEffect, LeaseImage, Origin, OverrideEffect, Record,
};
use crate::registry::instance::{
    ActionType, DEFAULT_DURATION_SECS, DataCenter, Instance, LeaseTerms, Metadata, Port,
};
use crate::registry::status::Status;
use crate::store::intern::Interner;
use crate::store::record::{decode, encode};
use crate::store::{
    BaseFacts, Checkpoint, CheckpointSource, Durability, LogReader, LogStore, LostRange, Opened,
    SegmentFacts, StoreError, StoreOptions, StoreStats, Trimmed,
};
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// What was asked of a store, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// First and last LSN of the batch.
    Append(Lsn, Lsn),
    Commit(Durability),
    Trim(Lsn),
    Watermark(Lsn),
    Close,
}

/// The operation that is to fail or wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Append,
    Commit,
    Trim,
    Watermark,
}

/// Builds the error of a planned failure.
type Failure = Arc<dyn Fn() -> StoreError + Send + Sync>;

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    /// Fails the call with this number (from 1) of an operation.
    failures: Vec<(Operation, usize, Failure)>,
    counts: [usize; 4],
    commits_blocked: bool,
    commits_waiting: usize,
    poison: Option<String>,
}

/// The remote control of a [`FaultStore`].
#[derive(Clone, Default)]
pub struct Faults {
    state: Arc<(Mutex<State>, Condvar)>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults")
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .0
            .lock()
            .expect("holders of this lock do not panic")
    }

    /// Makes the `nth` call (1 is the next one) of an operation fail. The store is poisoned by it,
    /// as a real one is.
    pub fn fail(
        &self,
        operation: Operation,
        nth: usize,
        error: impl Fn() -> StoreError + Send + Sync + 'static,
    ) {
        let mut state = self.state();
        let number = state.counts[operation as usize] + nth;
        state.failures.push((operation, number, Arc::new(error)));
    }

    /// Makes the `nth` call of an operation fail as on a full disk.
    pub fn fill_disk(&self, operation: Operation, nth: usize) {
        self.fail(operation, nth, || StoreError::NoSpace {
            path: "fault".into(),
            cause: "no space left on device".into(),
        });
    }

    /// Lets every commit wait until [`Faults::release_commits`].
    pub fn block_commits(&self) {
        self.state().commits_blocked = true;
    }

    /// Lets waiting and later commits go on.
    pub fn release_commits(&self) {
        self.state().commits_blocked = false;
        self.state.1.notify_all();
    }

    /// Waits until a commit waits: everything that precedes it has then been done.
    pub fn wait_for_blocked_commit(&self) {
        let state = self.state();
        let waiting = self
            .state
            .1
            .wait_while(state, |state| state.commits_waiting == 0);
        drop(waiting.expect("holders of this lock do not panic"));
    }

    /// Everything that was asked of the store, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// How often an operation was asked for.
    pub fn count(&self, operation: Operation) -> usize {
        self.state().counts[operation as usize]
    }

    /// How often the store was asked to sync to the disk.
    pub fn syncs(&self) -> usize {
        let state = self.state();
        state
            .calls
            .iter()
            .filter(|call| **call == Call::Commit(Durability::Disk))
            .count()
    }

    fn enter(&self, operation: Operation, call: Call) -> Result<(), StoreError> {
        let mut state = self.state();
        if let Some(cause) = &state.poison {
            return Err(StoreError::Poisoned(cause.clone()));
        }
        state.calls.push(call);
        state.counts[operation as usize] += 1;
        if operation == Operation::Commit && state.commits_blocked {
            state.commits_waiting += 1;
            self.state.1.notify_all();
            state = self
                .state
                .1
                .wait_while(state, |state| state.commits_blocked)
                .expect("holders of this lock do not panic");
            state.commits_waiting -= 1;
        }
        let count = state.counts[operation as usize];
        let failure = state
            .failures
            .iter()
            .find(|(o, n, _)| (*o, *n) == (operation, count));
        if let Some(error) = failure.map(|(_, _, failure)| failure()) {
            state.poison = Some(error.to_string());
            return Err(error);
        }
        Ok(())
    }
}

/// A store that does what its [`Faults`] say before it does what it is asked.
#[derive(Debug)]
pub struct FaultStore {
    inner: Box<dyn LogStore>,
    faults: Faults,
}

impl FaultStore {
    /// Puts a fault store in front of `inner`.
    pub fn new(inner: Box<dyn LogStore>) -> (Self, Faults) {
        let faults = Faults::default();
        (
            Self {
                inner,
                faults: faults.clone(),
            },
            faults,
        )
    }

    /// Puts a fault store in front of the one that was opened.
    pub fn wrap(opened: Opened) -> (Opened, Faults) {
        let (store, faults) = Self::new(opened.store);
        (
            Opened {
                store: Box::new(store),
                ..opened
            },
            faults,
        )
    }
}

impl LogStore for FaultStore {
    fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let lsn = |record: Option<&Arc<Record>>| record.map(|r| r.lsn).unwrap_or_default();
        let call = Call::Append(lsn(records.first()), lsn(records.last()));
        self.faults.enter(Operation::Append, call)?;
        self.inner.append(records)
    }

    fn commit(&mut self, durability: Durability) -> Result<(), StoreError> {
        self.faults
            .enter(Operation::Commit, Call::Commit(durability))?;
        self.inner.commit(durability)
    }

    fn trim(&mut self, floor: Lsn, now_wall: Millis) -> Result<Trimmed, StoreError> {
        self.faults.enter(Operation::Trim, Call::Trim(floor))?;
        self.inner.trim(floor, now_wall)
    }

    fn touch_watermark(&mut self, acknowledged: Lsn, now_wall: Millis) -> Result<(), StoreError> {
        self.faults
            .enter(Operation::Watermark, Call::Watermark(acknowledged))?;
        self.inner.touch_watermark(acknowledged, now_wall)
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }

    fn close(self: Box<Self>, now_wall: Millis) -> Result<(), StoreError> {
        let is_poisoned = {
            let mut state = self.faults.state();
            state.calls.push(Call::Close);
            state.poison.is_some()
        };
        if is_poisoned {
            // Let go without writing, as a real one; what had reached its disk may still be there.
            drop(self.inner);
            return Ok(());
        }
        self.inner.close(now_wall)
    }
}

/// A reader that counts the records that it gives, and may be damaged.
#[derive(Debug)]
pub struct CountingReader {
    inner: Arc<dyn LogReader>,
    records: AtomicU64,
    damaged: Option<Lsn>,
}

impl CountingReader {
    pub fn new(inner: Arc<dyn LogReader>) -> Self {
        Self {
            inner,
            records: AtomicU64::new(0),
            damaged: None,
        }
    }

    /// The record at `lsn` cannot be read.
    #[must_use]
    pub fn with_damage(self, lsn: Lsn) -> Self {
        Self {
            damaged: Some(lsn),
            ..self
        }
    }

    /// Records given since it was asked last.
    pub fn take_count(&self) -> u64 {
        self.records.swap(0, Ordering::Relaxed)
    }

    fn counted(&self, records: Vec<Arc<Record>>) -> Result<Vec<Arc<Record>>, StoreError> {
        if let Some(record) = records.iter().find(|r| Some(r.lsn) == self.damaged) {
            return Err(StoreError::Damaged {
                place: format!("lsn {}", record.lsn),
                cause: "a test".into(),
                way_out: "none".into(),
            });
        }
        self.records
            .fetch_add(records.len() as u64, Ordering::Relaxed);
        Ok(records)
    }
}

impl LogReader for CountingReader {
    fn first_lsn(&self) -> Lsn {
        self.inner.first_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        self.inner.last_lsn()
    }

    fn read(
        &self,
        from: Lsn,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        let records = self.inner.read(from, max_records, max_bytes)?;
        self.counted(records)
    }

    fn read_back(
        &self,
        upto: Lsn,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        let records = self.inner.read_back(upto, max_records, max_bytes)?;
        self.counted(records)
    }

    fn segments(&self) -> Vec<SegmentFacts> {
        self.inner.segments()
    }

    fn losses(&self) -> Vec<LostRange> {
        self.inner.losses()
    }

    fn bases(&self) -> Vec<BaseFacts> {
        self.inner.bases()
    }

    fn load_base(&self, lsn: Lsn) -> Result<Checkpoint, StoreError> {
        self.inner.load_base(lsn)
    }

    fn write_checkpoint(&self, source: CheckpointSource<'_>) -> Result<(), StoreError> {
        self.inner.write_checkpoint(source)
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.meta_get(key)
    }

    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.inner.meta_put(key, value)
    }

    fn meta_remove(&self, key: &str) -> Result<(), StoreError> {
        self.inner.meta_remove(key)
    }

    fn meta_list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.inner.meta_list(prefix)
    }
}

/// Options for a store in a test: small segments, no waiting, no demands on free space.
pub fn options(dir: impl Into<std::path::PathBuf>) -> StoreOptions {
    StoreOptions {
        segment_bytes: 16 << 10,
        cache_bytes: 4 << 20,
        lock_wait_ms: 0,
        min_free_bytes: Some(0),
        ..StoreOptions::new(dir)
    }
}

/// An instance as a Spring client registers it.
pub fn instance(app: &str, id: &str) -> Instance {
    let metadata: Metadata = [("management.port", "8080"), ("zone", "zone-a")]
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    Instance {
        instance_id: Some(id.into()),
        app: AppName::new(app),
        app_group_name: None,
        host_name: "host-1".into(),
        ip_addr: "10.0.0.1".into(),
        sid: Some("na".into()),
        port: Port {
            number: 8080,
            enabled: true,
        },
        secure_port: Port {
            number: 443,
            enabled: false,
        },
        country_id: 1,
        data_center: DataCenter::MyOwn,
        status: Status::Up,
        overridden_status: Status::Unknown,
        lease: LeaseTerms::default(),
        metadata,
        home_page_url: Some("http://host-1:8080/".into()),
        status_page_url: Some("http://host-1:8080/actuator/info".into()),
        health_check_url: Some("http://host-1:8080/actuator/health".into()),
        secure_health_check_url: None,
        vip_address: Some(app.to_lowercase().into()),
        secure_vip_address: Some(app.to_lowercase().into()),
        asg_name: None,
        last_updated_timestamp: 1_700_000_000_000,
        last_dirty_timestamp: 1_700_000_000_001,
        action_type: Some(ActionType::Added),
    }
}

/// The lease of [`instance`].
pub fn lease(app: &str, id: &str) -> LeaseImage {
    LeaseImage {
        instance: Arc::new(instance(app, id)),
        reported: Status::Up,
        duration_ms: u64::from(DEFAULT_DURATION_SECS.unsigned_abs()) * 1_000,
        registered_at: Millis(1_700_000_000_000),
        service_up_at: Millis(1_700_000_000_000),
        evicted_at: Millis::ZERO,
        renewed_at: Millis(1_700_000_000_000),
    }
}

/// The record as a restart reads it: through its stored bytes.
pub fn through_bytes(record: &Record) -> Record {
    let bytes = encode(record).expect("records of tests are small");
    decode(&bytes, &mut Interner::default()).expect("what was encoded decodes")
}

/// The registration of `SHOP/host-<lsn>` at wall time `at`.
pub fn registered(lsn: u64, at: u64) -> Record {
    let id = format!("host-{lsn}");
    Record {
        lsn: Lsn(lsn),
        at: Millis(at),
        origin: Origin::Client,
        actor: Actor {
            address: Some("10.0.0.1".into()),
            ..Actor::default()
        },
        change: Change {
            app: AppName::new("SHOP"),
            id: InstanceId::new(&id),
            kind: ChangeKind::Registered,
            lease: Some(lease("SHOP", &id)),
            override_effect: OverrideEffect::Keep,
            hold_effect: HoldEffect::Keep,
            visible: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemDisk;
    use crate::store::suite::{all, batch, lsns};

    #[test]
    fn a_planned_failure_comes_once_and_stops_the_handle() {
        let disk = MemDisk::new(options("mem"));
        let (mut opened, faults) = FaultStore::wrap(disk.open(Millis(1)));
        faults.fill_disk(Operation::Commit, 2);
        opened.store.append(&batch(1..=2)).unwrap();
        opened.store.commit(Durability::Disk).unwrap();
        opened.store.append(&batch(3..=3)).unwrap();
        let error = opened.store.commit(Durability::Disk).unwrap_err();
        assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
        assert!(matches!(
            opened.store.append(&batch(4..=4)),
            Err(StoreError::Poisoned(_))
        ));
        assert_eq!(lsns(&all(&*opened.reader)), [1, 2]);
        assert_eq!((faults.count(Operation::Append), faults.syncs()), (2, 2));
        assert_eq!(
            faults.calls(),
            [
                Call::Append(Lsn(1), Lsn(2)),
                Call::Commit(Durability::Disk),
                Call::Append(Lsn(3), Lsn(3)),
                Call::Commit(Durability::Disk),
            ]
        );
    }

    #[test]
    fn a_blocked_commit_shows_nothing_until_it_is_released() {
        let disk = MemDisk::new(options("mem"));
        let (opened, faults) = FaultStore::wrap(disk.open(Millis(1)));
        let Opened {
            mut store, reader, ..
        } = opened;
        faults.block_commits();
        std::thread::scope(|scope| {
            let commit = scope.spawn(move || {
                store.append(&batch(1..=2)).unwrap();
                store.commit(Durability::Disk)
            });
            faults.wait_for_blocked_commit();
            assert_eq!(reader.last_lsn(), Lsn(0));
            faults.release_commits();
            commit.join().unwrap().unwrap();
        });
        assert_eq!(reader.last_lsn(), Lsn(2));
    }
}
