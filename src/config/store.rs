//! The durable log, and the bounds on what clients may put into it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::choice::choice;

/// `eurekad.durability`: when a change is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After the disk has it: survives power loss.
    #[default]
    Sync,
    /// After the operating system has it: survives the death of the process.
    Process,
    /// At once; committed every so often: a crash loses at most that.
    Interval(Duration),
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => f.write_str("sync"),
            Self::Process => f.write_str("process"),
            Self::Interval(every) => write!(f, "interval:{}", every.as_millis()),
        }
    }
}

choice! {
    /// `eurekad.on-store-failure`: what to do when the disk refuses a write.
    OnStoreFailure {
        /// Answer writes with 503, go on with reads and renewals, and try to reopen.
        Degrade = "degrade",
        /// Exit, so that a supervisor acts.
        Exit = "exit",
    }
}

choice! {
    /// `eurekad.on-damaged-store`: what to do when the store lost acknowledged records.
    OnDamagedStore {
        /// With peers: move it aside and copy from them. Without: refuse to start.
        Auto = "auto",
        /// Refuse to start.
        Refuse = "refuse",
        /// Move it aside and start empty.
        MoveAside = "move-aside",
    }
}

/// Where and how changes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// `eurekad.data-dir`, `--data-dir`.
    pub data_dir: PathBuf,
    /// `eurekad.durability`.
    pub durability: Durability,
    /// `eurekad.checkpoint-interval`: a checkpoint is written this long after the last one ...
    pub checkpoint_interval: Duration,
    /// `eurekad.checkpoint-records`: ... or after this many records, whichever is first.
    pub checkpoint_records: u64,
    /// `eurekad.history-max-age`: older history is dropped; zero = no bound by age.
    pub history_max_age: Duration,
    /// `eurekad.history-max-bytes`: more history is dropped, oldest first; 0 = no bound by size.
    pub history_max_bytes: u64,
    /// `eurekad.on-store-failure`.
    pub on_failure: OnStoreFailure,
    /// `eurekad.on-damaged-store`.
    pub on_damage: OnDamagedStore,
    /// `eurekad.store-lock-wait`: how long to wait for another process to leave the directory.
    pub lock_wait: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./eurekad-data"),
            durability: Durability::default(),
            checkpoint_interval: Duration::from_mins(1),
            checkpoint_records: 100_000,
            history_max_age: Duration::from_hours(7 * 24),
            history_max_bytes: 2 << 30,
            on_failure: OnStoreFailure::default(),
            on_damage: OnDamagedStore::default(),
            lock_wait: Duration::from_secs(5),
        }
    }
}

/// Bounds on what one request or one instance may be. All in bytes unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsConfig {
    /// `eurekad.max-body-bytes`: any request body but a batch, after decompression.
    pub body_bytes: usize,
    /// `eurekad.max-batch-bytes`: a replication batch, after decompression.
    pub batch_bytes: usize,
    /// `eurekad.max-nesting-depth`: levels of JSON objects and arrays, or XML elements.
    pub nesting_depth: usize,
    /// `eurekad.max-field-bytes`: one text field of an instance other than metadata.
    pub field_bytes: usize,
    /// `eurekad.max-id-bytes`: an application name or an instance id.
    pub id_bytes: usize,
    /// `eurekad.max-metadata-entries`: of one instance.
    pub metadata_entries: usize,
    /// `eurekad.max-metadata-bytes`: keys and values of one instance together.
    pub metadata_bytes: usize,
    /// `eurekad.max-instances`: registrations of new instances beyond it are refused; 0 = none.
    pub instances: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            batch_bytes: 10 << 20,
            nesting_depth: 64,
            field_bytes: 256 << 10,
            id_bytes: 4096,
            metadata_entries: 1024,
            metadata_bytes: 512 << 10,
            instances: 0,
        }
    }
}
