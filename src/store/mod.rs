//! Durability: the change log on disk, and what a restart needs of it.
//!
//! [`LogStore`] is the only door to the disk for the writer thread; [`LogReader`] the one for
//! everybody who reads the log by position. The registry itself never comes here: it lives in
//! memory and is rebuilt from the newest checkpoint and the records behind it.
//!
//! The promises:
//! - **Order.** LSNs are dense and strictly increasing. A batch is in the log as a whole or not at
//!   all. An LSN is never given out twice, not even after a crash that lost records.
//! - **Durability.** After [`LogStore::commit`] with [`Durability::Disk`] the records appended
//!   before it survive a power loss, with [`Durability::Flush`] the death of the process. Readers
//!   see committed records only, so nobody can pass on what a crash could take back.
//! - **Fail-stop.** After a failed append or commit the handle is poisoned: every later write fails
//!   at once and nothing is retried. Recovery means closing and opening again.
//! - **No silent loss.** A watermark outside the database says what was acknowledged;
//!   [`open`] compares. What can be mended without loss is mended and told in
//!   [`Opened::notes`]; what cannot is refused or moved aside, never dropped.
//!
//! On disk (byte by byte: `migrations/README.md`): the sled database
//! `log/`, checkpoints `checkpoint-<lsn>` (the two newest, older ones as bases of the past), the `watermark` and the `lock` file, and
//! `reserve`, space for a start on a full volume.

mod bases;
mod check;
mod checkpoint;
mod compact;
mod db;
mod error;
mod files;
mod finding;
mod import;
mod inspect;
mod intern;
mod lost;
mod mem_store;
mod migrate;
mod record;
mod recovery;
mod replayed;
mod reserve;
mod salvage;
mod salvage_meta;
mod scratch;
mod segment;
mod shared;
mod sled_reader;
mod sled_store;
#[cfg(test)]
mod suite;
mod survey;
pub mod testing;
mod v1;
mod v2;
mod watermark;

use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;

pub use bases::base_spacing;
pub use check::{Rehearsed, check, open_copy, rehearse, stats};
pub use compact::{Compacted, compact};
pub use error::StoreError;
pub use finding::{CheckpointFacts, Finding, KindFacts, Severity, Survey};
pub use import::open_at;
pub use mem_store::MemDisk;
#[cfg(test)]
pub(crate) use record::tests::any_record;
pub use scratch::Scratch;

use crate::registry::change::{LeaseImage, Record};
use crate::registry::hold::Hold;
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// How safe a commit makes what was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Handed to the operating system: survives the death of the process.
    Flush,
    /// On the disk: survives a power loss.
    Disk,
}

/// What to do with a store that cannot be mended without losing acknowledged records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Change nothing and say where it is damaged and what the way out is.
    Refuse,
    /// Move everything into `<dir>/quarantine-<time>` and start an empty store behind the lost
    /// LSNs, as a new incarnation that has to be filled from the peers.
    MoveAside,
    /// Keep what can still be read and go on behind the lost LSNs, as a new incarnation. Only a log
    /// that cannot be read at all is moved aside.
    KeepRest,
}

/// Where the store is and its bounds. [`StoreOptions::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The data directory; created if it is not there.
    pub dir: PathBuf,
    /// A segment of the log is closed once it holds more than this, bytes.
    pub segment_bytes: u64,
    /// A segment of the log is closed once its first record is older than this, ms.
    pub segment_age_ms: u64,
    /// Page cache of the database, bytes.
    pub cache_bytes: u64,
    /// Segments whose last record is older than this may be dropped, ms.
    pub history_max_age_ms: u64,
    /// Oldest segments are dropped while log and bases are larger than this, bytes.
    pub history_max_bytes: u64,
    /// Least number of records between two checkpoints that are kept as bases of the past.
    pub base_records: u64,
    /// How long to wait for another process to leave the directory, ms.
    pub lock_wait_ms: u64,
    /// Free space below which the store takes no changes, bytes. `None`: 256 MiB or a quarter of the
    /// database file, whichever is more, but no more than a tenth of the volume.
    pub min_free_bytes: Option<u64>,
    /// Whether a store with less free space is opened all the same, and the lack told in
    /// [`Opened::short_of_space`]; it is [`StoreError::NoSpace`] otherwise.
    pub opens_when_short: bool,
    pub on_damage: OnDamage,
}

impl StoreOptions {
    /// The defaults of `design.md` 2, in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: 16 << 20,
            segment_age_ms: 3_600_000,
            // A log that is written at its end and read in order gains nothing from more.
            cache_bytes: 16 << 20,
            history_max_age_ms: 7 * 24 * 3_600_000,
            history_max_bytes: 2 << 30,
            base_records: bases::RECORDS_MIN,
            lock_wait_ms: 10_000,
            min_free_bytes: None,
            opens_when_short: false,
            on_damage: OnDamage::Refuse,
        }
    }
}

/// What [`open`] is doing, for the log and the health endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another process holds the directory.
    WaitingForLock { pid: Option<u32> },
    /// So many bytes of a copy are written.
    Copying { done: u64, of: u64 },
    /// The database is being opened.
    Opening,
    /// Something is being mended; the text says what.
    Mending(String),
    /// A migration runs; `done` counts its finished batches.
    Migrating { name: &'static str, done: u64 },
    /// So many records of a damaged database have been saved.
    Salvaging { records: u64 },
    /// So many records have been checked.
    Verifying { records: u64 },
    /// The checkpoint is being loaded.
    LoadingCheckpoint { lsn: Lsn },
}

/// An open store and what it remembers.
#[derive(Debug)]
pub struct Opened {
    pub store: Box<dyn LogStore>,
    pub reader: Arc<dyn LogReader>,
    /// The state as of an LSN; replay the records behind it. `None`: replay from
    /// [`LogReader::first_lsn`], the log goes back to an empty registry.
    pub checkpoint: Option<Checkpoint>,
    /// The newest record in the log, [`Lsn::ZERO`] if there never was one.
    pub last_lsn: Lsn,
    /// What the next record has to be called.
    pub next_lsn: Lsn,
    /// Wall time until which the node is known to have lived, 0 if it never did.
    pub last_alive: Millis,
    /// Drawn once per data directory.
    pub node_id: String,
    /// Drawn anew whenever acknowledged records were lost: cursors of another incarnation are void.
    pub incarnation: String,
    /// What was mended, for the operator's log.
    pub notes: Vec<String>,
    /// Acknowledged records that are gone, if any.
    pub lost: Option<Loss>,
    /// [`StoreError::NoSpace`], if there is less space than the options ask for: what is there can be
    /// read, and nothing should be written.
    pub short_of_space: Option<StoreError>,
}

/// LSNs that were lost with a damaged store, as the log remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    pub first: Lsn,
    pub last: Lsn,
    /// The next one that was kept or given out; those in between were left out on purpose.
    pub next: Lsn,
    /// Wall time of the start that noticed.
    pub noticed: Millis,
}

/// Acknowledged records that the log does not have any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The first LSN that may be missing.
    pub first: Lsn,
    /// The last LSN that was acknowledged, as far as known.
    pub last: Lsn,
    pub cause: LossCause,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, cause } = self;
        match cause {
            LossCause::NotSynced => write!(
                f,
                "lsn {first} to {last} may be gone: the machine went down before they were on the \
                 disk, as eurekad.durability allows"
            ),
            LossCause::HistoryOnly => write!(
                f,
                "lsn {first} to {last} are gone from the history, as far as they cannot be read; a \
                 checkpoint has the registry as it was"
            ),
            LossCause::MovedAside(path) => write!(
                f,
                "lsn {first} to {last} are gone: the store begins anew behind them; the damaged one is \
                 in {}",
                path.display()
            ),
            LossCause::Accepted => write!(
                f,
                "lsn {first} to {last} are gone, as far as they cannot be read"
            ),
        }
    }
}

/// Why records are gone, and what is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The machine went down and the records had only been flushed, as configured. What is older
    /// is kept.
    NotSynced,
    /// The log is damaged, but a checkpoint covers what is missing: the state is complete, the
    /// history has a hole.
    HistoryOnly,
    /// The store was damaged and was moved aside to this path; the new one is empty.
    MovedAside(PathBuf),
    /// The log was damaged, and the operator chose to keep what is left.
    Accepted,
}

/// The registry as of an LSN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last change that it contains.
    pub lsn: Lsn,
    /// Wall time at which it was taken.
    pub at: Millis,
    pub leases: Vec<CheckpointLease>,
    pub overrides: Vec<CheckpointOverride>,
    pub holds: Vec<CheckpointHold>,
    /// Clients expected to renew, for the self-preservation threshold.
    pub expected_clients: u64,
}

/// One lease of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointLease {
    pub app: AppName,
    pub id: InstanceId,
    /// The change that made the lease what it is.
    pub lsn: Lsn,
    pub image: LeaseImage,
}

/// One override of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointOverride {
    /// `None` where overrides are keyed by id alone (`eureka` profile).
    pub app: Option<AppName>,
    pub id: InstanceId,
    pub status: Status,
}

/// One hold of a checkpoint, in force or released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointHold {
    pub app: AppName,
    pub id: InstanceId,
    pub hold: Hold,
}

/// What a trim did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    pub segments: u64,
    /// Bytes of live records that were dropped.
    pub bytes: u64,
    /// The oldest record that is left, or the next LSN if none is.
    pub first_lsn: Lsn,
}

/// Figures of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The oldest record, or the next LSN if there is none.
    pub first_lsn: Lsn,
    /// The newest committed record.
    pub last_lsn: Lsn,
    pub segments: u64,
    /// Bytes of live records, keys included.
    pub log_bytes: u64,
    /// Size of the database file; it is reused, never shrunk.
    pub file_bytes: u64,
    /// Times the file was synced to the disk.
    pub syncs: u64,
    /// Times the database was flushed.
    pub flushes: u64,
    /// The newest checkpoint, [`Lsn::ZERO`] if there is none.
    pub checkpoint_lsn: Lsn,
    /// Older checkpoints, kept as bases of the past, and what they take on the disk.
    pub bases: u64,
    pub base_bytes: u64,
    /// Files that the database put beside its own file; anything but 0 is a defect to report.
    pub blob_files: u64,
}

/// One piece of the log and what it covers, for readers that look for a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentFacts {
    pub first: Lsn,
    pub last: Lsn,
    /// Bytes of records and keys.
    pub bytes: u64,
    /// Wall time of the earliest and the latest record. A clock that was stepped back makes the
    /// ranges of neighbours overlap, never wrong.
    pub earliest: Millis,
    pub latest: Millis,
    /// The newest record before it, [`Lsn::ZERO`] if there never was one. LSNs between it and
    /// `first` were skipped after a loss.
    pub after: Lsn,
    /// The checkpoint from which the registry went on where LSNs were skipped in front of it,
    /// [`Lsn::ZERO`] if none was needed.
    pub base: Lsn,
}

/// A checkpoint that is kept: a state to begin a replay with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseFacts {
    /// The last change that it contains.
    pub lsn: Lsn,
    /// Wall time at which it was taken.
    pub at: Millis,
    /// Leases that it holds.
    pub leases: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// The writer's side of the store: one owner, one thread.
pub trait LogStore: Send + Debug {
    /// Appends the records as one atomic batch. Not durable, and not visible to readers, before
    /// the next [`LogStore::commit`].
    ///
    /// # Errors
    /// [`StoreError::OutOfOrder`] and [`StoreError::TooLarge`] refuse the batch and change
    /// nothing; every other error poisons the handle.
    fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError>;

    /// Makes everything appended so far durable and shows it to the readers.
    ///
    /// # Errors
    /// Every error poisons the handle: whether the records are safe is unknown.
    fn commit(&mut self, durability: Durability) -> Result<(), StoreError>;

    /// Drops whole segments that lie below `floor` (the first LSN that a reader still needs) and
    /// below the older of the two newest checkpoints, as far as age or size ask for it, and the
    /// bases that served them. What is too old goes only up to the next base, so that every moment
    /// that is left can be told.
    ///
    /// # Errors
    /// The database failed; the handle is poisoned.
    fn trim(&mut self, floor: Lsn, now_wall: Millis) -> Result<Trimmed, StoreError>;

    /// Notes what was acknowledged and that the node lives. Cheap: call it after every commit and
    /// at least once a second; it syncs to the disk at most once a second or each 10,000 records.
    ///
    /// # Errors
    /// The file could not be written; the handle is poisoned.
    fn touch_watermark(&mut self, acknowledged: Lsn, now_wall: Millis) -> Result<(), StoreError>;

    /// Figures for metrics and health.
    fn stats(&self) -> StoreStats;

    /// Commits to the disk, notes the watermark and lets the directory go, readers or not: they
    /// get [`StoreError::Closed`] from then on. A poisoned store is let go without writing.
    ///
    /// # Errors
    /// The last commit or the watermark failed; the directory is let go all the same.
    fn close(self: Box<Self>, now_wall: Millis) -> Result<(), StoreError>;
}

/// The readers' side of the store; shared by threads. Reading may wait for the disk: keep it off
/// the threads that serve requests.
pub trait LogReader: Send + Sync + Debug {
    /// The oldest record that is kept, or the next LSN if none is.
    fn first_lsn(&self) -> Lsn;

    /// The newest committed record, or what came before the first one.
    fn last_lsn(&self) -> Lsn;

    /// Committed records from `from` on, oldest first: at most `max_records`, and no more after
    /// `max_bytes` of stored size (but at least one record, if there is one).
    ///
    /// # Errors
    /// [`StoreError::Trimmed`] if `from` lies before [`LogReader::first_lsn`];
    /// [`StoreError::Damaged`] if a record is missing or does not decode.
    fn read(
        &self,
        from: Lsn,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError>;

    /// Committed records from `upto` backwards, newest first, ending at the oldest kept one. The
    /// bounds are those of [`LogReader::read`].
    ///
    /// # Errors
    /// As [`LogReader::read`], but never [`StoreError::Trimmed`].
    fn read_back(
        &self,
        upto: Lsn,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError>;

    /// The pieces of the log, oldest first.
    fn segments(&self) -> Vec<SegmentFacts>;

    /// What was lost with a damaged store, oldest first, as far as the log goes back.
    fn losses(&self) -> Vec<LostRange>;

    /// The kept checkpoints, oldest first: the two newest, and older ones at a distance as bases of
    /// the past.
    fn bases(&self) -> Vec<BaseFacts>;

    /// Loads one of them.
    ///
    /// # Errors
    /// [`StoreError::Trimmed`] if it is not kept any more; [`StoreError::Damaged`] if it is not what
    /// was written.
    fn load_base(&self, lsn: Lsn) -> Result<Checkpoint, StoreError>;

    /// Writes a checkpoint from a consistent snapshot of the state as of `lsn`, which must be
    /// committed. The two newest are kept, and older ones as [`LogReader::bases`]. One writer at a
    /// time; another one waits.
    ///
    /// # Errors
    /// The file could not be written; the checkpoints that were there stay.
    fn write_checkpoint(&self, source: CheckpointSource<'_>) -> Result<(), StoreError>;

    /// A value that was put before, for cursors and the like.
    ///
    /// # Errors
    /// The database failed.
    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Puts a value of at most 4 KiB; it becomes durable with the next commit.
    ///
    /// # Errors
    /// The database failed, or the value is too large.
    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Removes a value.
    ///
    /// # Errors
    /// The database failed.
    fn meta_remove(&self, key: &str) -> Result<(), StoreError>;

    /// All keys that start with `prefix`, with their values.
    ///
    /// # Errors
    /// The database failed.
    fn meta_list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
}

/// What goes into a checkpoint. The iterators run on the calling thread.
#[expect(
    missing_debug_implementations,
    reason = "iterators have nothing to show"
)]
pub struct CheckpointSource<'a> {
    pub lsn: Lsn,
    pub at: Millis,
    pub expected_clients: u64,
    pub leases: &'a mut dyn Iterator<Item = CheckpointLease>,
    pub overrides: &'a mut dyn Iterator<Item = CheckpointOverride>,
    pub holds: &'a mut dyn Iterator<Item = CheckpointHold>,
}

/// Opens the store in `options.dir`, creating it if there is none: waits for the lock, mends what
/// can be mended, migrates, verifies and loads the newest good checkpoint.
///
/// # Errors
/// See [`StoreError`]: each kind says what the operator can do.
pub fn open(
    options: &StoreOptions,
    now_wall: Millis,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, StoreError> {
    recovery::open(options, now_wall, progress)
}
