//! The durable log, and the bounds on what clients may put into it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::bind::Binder;
use super::choice::choice;
use super::property::Origin;
use super::value::{self, Unit};
use crate::registry::rules::MetadataBounds;
use crate::wire::Limits;

/// Longest id of a node, characters.
const NODE_ID_MAX: usize = 128;

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
        /// Keep what can be read and go on without what was lost.
        KeepRest = "keep-rest",
    }
}

/// Where and how changes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// `eurekad.data-dir`, `--data-dir`.
    pub data_dir: PathBuf,
    /// `eurekad.node-id`: who this node is to its peers; drawn at the first start unless set.
    pub node_id: Option<String>,
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
    /// `eurekad.history-index`: whether the index of the history is kept up as the log grows; if not,
    /// it is made when something is asked.
    pub history_index: bool,
    /// `eurekad.on-store-failure`.
    pub on_failure: OnStoreFailure,
    /// `eurekad.on-damaged-store`.
    pub on_damage: OnDamagedStore,
    /// `eurekad.store-lock-wait`: how long to wait for another process to leave the directory.
    pub lock_wait: Duration,
    /// `eurekad.store-min-free`: free space on the disk, bytes, below which a start takes no changes;
    /// `None`: as [`crate::store::StoreOptions::min_free_bytes`] says.
    pub min_free_bytes: Option<u64>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./eurekad-data"),
            node_id: None,
            durability: Durability::default(),
            checkpoint_interval: Duration::from_mins(1),
            checkpoint_records: 100_000,
            history_max_age: Duration::from_hours(7 * 24),
            history_max_bytes: 2 << 30,
            history_index: true,
            on_failure: OnStoreFailure::default(),
            on_damage: OnDamagedStore::default(),
            lock_wait: Duration::from_secs(5),
            min_free_bytes: None,
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
    /// `eurekad.max-instances`: clients' registrations of new instances beyond it are refused; 0 = none.
    pub instances: u64,
}

impl LimitsConfig {
    /// What the decoders of requests and of peers' answers are held to.
    pub fn of_decoders(&self) -> Limits {
        Limits {
            depth: self.nesting_depth,
            field_bytes: self.field_bytes,
            id_bytes: self.id_bytes,
            metadata_entries: self.metadata_entries,
            metadata_bytes: self.metadata_bytes,
            ..Limits::default()
        }
    }

    /// What puts are held to.
    pub fn of_metadata(&self) -> MetadataBounds {
        MetadataBounds {
            entries: self.metadata_entries,
            bytes: self.metadata_bytes,
        }
    }
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

impl Durability {
    /// `sync`, `process` or `interval:MS`, where MS may carry a unit.
    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        match text.as_str() {
            "sync" => Some(Self::Sync),
            "process" => Some(Self::Process),
            _ => {
                let every = value::duration(text.strip_prefix("interval:")?, Unit::Millis)?;
                let range = Duration::from_millis(1)..=Duration::from_mins(1);
                range.contains(&every).then_some(Self::Interval(every))
            }
        }
    }
}

impl StoreConfig {
    pub(super) fn bind(b: &mut Binder<'_>) -> Self {
        let d = Self::default();
        Self {
            data_dir: b.other(
                &["eurekad.data-dir"],
                d.data_dir,
                |text| Some(PathBuf::from(text)),
                |path| path.display().to_string(),
                "a directory",
            ),
            node_id: node_id(b),
            durability: b.other(
                &["eurekad.durability"],
                d.durability,
                Durability::parse,
                Durability::to_string,
                "sync | process | interval:MS, from 1 ms to 1 minute",
            ),
            checkpoint_interval: b.duration_from(
                &["eurekad.checkpoint-interval"],
                Unit::Millis,
                d.checkpoint_interval,
                Duration::from_secs(1),
            ),
            checkpoint_records: b.number(
                &["eurekad.checkpoint-records"],
                d.checkpoint_records,
                1..=1_000_000_000,
            ),
            history_max_age: b.duration(
                &["eurekad.history-max-age"],
                Unit::Millis,
                d.history_max_age,
            ),
            history_max_bytes: b.large_size("eurekad.history-max-bytes", d.history_max_bytes),
            history_index: b.switch(&["eurekad.history-index"], d.history_index),
            on_failure: b.choice("eurekad.on-store-failure", d.on_failure),
            on_damage: b.choice("eurekad.on-damaged-store", d.on_damage),
            lock_wait: b.duration(&["eurekad.store-lock-wait"], Unit::Millis, d.lock_wait),
            min_free_bytes: b.other(
                &["eurekad.store-min-free"],
                d.min_free_bytes,
                |text| match text {
                    "auto" => Some(None),
                    text => value::size(text).map(Some),
                },
                |bytes| bytes.map_or_else(|| "auto".to_owned(), value::show_size),
                "auto | a size such as 64MiB",
            ),
        }
    }
}

/// Whether peers can tell a node by this: in the header that says who asks, a semicolon ends it.
pub fn is_node_id(text: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NODE_ID_MAX).contains(&text.len()) && text.chars().all(is_fine)
}

/// `eurekad.node-id`, where it is set.
fn node_id(b: &mut Binder<'_>) -> Option<String> {
    let id = b.text_of(
        "eurekad.node-id",
        String::new(),
        Origin::Default,
        is_node_id,
        "1 to 128 of the characters A-Z a-z 0-9 . _ -",
    );
    (!id.is_empty()).then_some(id)
}

impl LimitsConfig {
    pub(super) fn bind(b: &mut Binder<'_>) -> Self {
        let d = Self::default();
        let large = 1 << 30;
        Self {
            body_bytes: b.size(&["eurekad.max-body-bytes"], d.body_bytes, 1024..=large),
            batch_bytes: b.size(&["eurekad.max-batch-bytes"], d.batch_bytes, 1024..=large),
            // Readers recurse no deeper than this, so it has a bound of its own.
            nesting_depth: b.number(&["eurekad.max-nesting-depth"], d.nesting_depth, 8..=512),
            field_bytes: b.size(&["eurekad.max-field-bytes"], d.field_bytes, 64..=large),
            id_bytes: b.size(&["eurekad.max-id-bytes"], d.id_bytes, 16..=64 << 10),
            metadata_entries: b.number(
                &["eurekad.max-metadata-entries"],
                d.metadata_entries,
                0..=1_000_000,
            ),
            metadata_bytes: b.size(&["eurekad.max-metadata-bytes"], d.metadata_bytes, 0..=large),
            instances: b.number(
                &["eurekad.max-instances"],
                d.instances,
                0..=u64::from(u32::MAX),
            ),
        }
    }
}
