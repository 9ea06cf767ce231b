//! Requests and connections, counted: by what was asked for, and how long it took. Two additions of
//! atomics per request, no lock and no allocation; the labels come from closed sets, so nobody can make
//! series by asking for odd things.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::{Method, StatusCode};

use super::path::{Own, Route};

/// Upper bounds of the buckets of times, µs: from a read at hand to a request that waits for a disk.
pub(crate) const BOUNDS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 250_000, 1_000_000, 2_500_000,
    10_000_000,
];
const BUCKETS: usize = BOUNDS_US.len() + 1;
/// HEAD counts as GET; what is none of these is the last.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "other"];
/// Classes of statuses, 1xx to 5xx.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Apps,
    Delta,
    App,
    Instance,
    InstanceStatus,
    InstanceMetadata,
    InstanceById,
    Vip,
    SecureVip,
    Batch,
    Between,
    AsgStatus,
    ServerStatus,
    StatusOverrides,
    Pages,
    Actuator,
    Metrics,
    History,
    Registry,
    RegistryDiff,
    Watch,
    Changes,
    Explain,
    Hold,
    Overrides,
    Node,
    OpenApi,
    /// There is nothing of that name.
    Nothing,
    /// A path that is none.
    Malformed,
}

impl Asked {
    const ALL: [Self; 29] = [
        Self::Apps,
        Self::Delta,
        Self::App,
        Self::Instance,
        Self::InstanceStatus,
        Self::InstanceMetadata,
        Self::InstanceById,
        Self::Vip,
        Self::SecureVip,
        Self::Batch,
        Self::Between,
        Self::AsgStatus,
        Self::ServerStatus,
        Self::StatusOverrides,
        Self::Pages,
        Self::Actuator,
        Self::Metrics,
        Self::History,
        Self::Registry,
        Self::RegistryDiff,
        Self::Watch,
        Self::Changes,
        Self::Explain,
        Self::Hold,
        Self::Overrides,
        Self::Node,
        Self::OpenApi,
        Self::Nothing,
        Self::Malformed,
    ];

    pub(super) fn of(route: &Route<'_>) -> Self {
        match route {
            Route::Apps => Self::Apps,
            Route::Delta => Self::Delta,
            Route::App(_) => Self::App,
            Route::Instance { .. } => Self::Instance,
            Route::InstanceStatus { .. } => Self::InstanceStatus,
            Route::InstanceMetadata { .. } => Self::InstanceMetadata,
            Route::InstanceById(_) => Self::InstanceById,
            Route::Vip(_) => Self::Vip,
            Route::SecureVip(_) => Self::SecureVip,
            Route::Batch => Self::Batch,
            Route::Between(_) => Self::Between,
            Route::AsgStatus => Self::AsgStatus,
            Route::ServerStatus => Self::ServerStatus,
            Route::StatusOverrides => Self::StatusOverrides,
            Route::Home | Route::LastN => Self::Pages,
            Route::Actuator(_) => Self::Actuator,
            Route::Metrics => Self::Metrics,
            Route::Own(own) => match own {
                Own::History { .. } => Self::History,
                Own::Registry => Self::Registry,
                Own::RegistryDiff => Self::RegistryDiff,
                Own::Watch => Self::Watch,
                Own::Changes => Self::Changes,
                Own::Explain { .. } => Self::Explain,
                Own::Drain { .. } | Own::Quarantine { .. } => Self::Hold,
                Own::Overrides => Self::Overrides,
                Own::Node => Self::Node,
                Own::OpenApi => Self::OpenApi,
            },
            Route::NotFound => Self::Nothing,
        }
    }

    /// The value of the label.
    fn as_str(self) -> &'static str {
        match self {
            Self::Apps => "apps",
            Self::Delta => "delta",
            Self::App => "app",
            Self::Instance => "instance",
            Self::InstanceStatus => "instance_status",
            Self::InstanceMetadata => "instance_metadata",
            Self::InstanceById => "instance_by_id",
            Self::Vip => "vip",
            Self::SecureVip => "svip",
            Self::Batch => "batch",
            Self::Between => "between_nodes",
            Self::AsgStatus => "asg_status",
            Self::ServerStatus => "server_status",
            Self::StatusOverrides => "status_overrides",
            Self::Pages => "pages",
            Self::Actuator => "actuator",
            Self::Metrics => "metrics",
            Self::History => "history",
            Self::Registry => "registry_at",
            Self::RegistryDiff => "registry_diff",
            Self::Watch => "watch",
            Self::Changes => "changes",
            Self::Explain => "explain",
            Self::Hold => "hold",
            Self::Overrides => "overrides",
            Self::Node => "node",
            Self::OpenApi => "openapi",
            Self::Nothing => "not_found",
            Self::Malformed => "malformed",
        }
    }
}

/// The requests of one kind and method.
#[derive(Debug, Default)]
struct Cell {
    classes: [AtomicU64; CLASSES.len()],
    buckets: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

/// One kind and method, as counted so far.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) route: &'static str,
    pub(crate) method: &'static str,
    /// Class of statuses and how many, those that occurred.
    pub(crate) classes: Vec<(&'static str, u64)>,
    /// How many fell into each bucket of times.
    pub(crate) buckets: [u64; BUCKETS],
    pub(crate) micros: u64,
}

/// Why a replication batch was refused as a whole. The discriminant is its place in the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedBatch {
    /// It is no batch.
    Content,
    /// It is longer than `eurekad.max-batch-bytes`.
    Size,
    /// It has more items than any server sends.
    Items,
    /// It did not come in time, or there was no room for it.
    Unread,
}

impl RefusedBatch {
    /// By the places of the counters, as the label has it.
    pub(super) const WORDS: [&str; 4] = ["content", "size", "items", "unread"];

    /// Why a body was not read, by the status that says so.
    pub(super) fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => Self::Size,
            StatusCode::REQUEST_TIMEOUT | StatusCode::SERVICE_UNAVAILABLE => Self::Unread,
            _ => Self::Content,
        }
    }
}

/// Counters of one node's listener.
#[derive(Debug)]
pub(crate) struct Traffic {
    cells: Box<[Cell]>,
    refused_batches: [AtomicU64; RefusedBatch::WORDS.len()],
    accepted: AtomicU64,
    closed: AtomicU64,
}

impl Default for Traffic {
    fn default() -> Self {
        let cells = Asked::ALL.len() * METHODS.len();
        Self {
            cells: std::iter::repeat_with(Cell::default).take(cells).collect(),
            refused_batches: std::array::from_fn(|_| AtomicU64::new(0)),
            accepted: AtomicU64::new(0),
            closed: AtomicU64::new(0),
        }
    }
}

impl Traffic {
    /// One request that has got its answer, body aside.
    pub(super) fn count(&self, asked: Asked, method: usize, status: StatusCode, micros: u64) {
        let Some(cell) = self.cells.get(asked as usize * METHODS.len() + method) else {
            return;
        };
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = cell.classes.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let bucket = BOUNDS_US.partition_point(|bound| *bound < micros);
        if let Some(counter) = cell.buckets.get(bucket) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        cell.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// One replication batch of which nothing was done.
    pub(super) fn refuse_batch(&self, why: RefusedBatch) {
        if let Some(counter) = self.refused_batches.get(why as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Replication batches of which nothing was done, by the reason.
    pub(crate) fn refused_batches(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self
            .refused_batches
            .iter()
            .map(|n| n.load(Ordering::Relaxed));
        RefusedBatch::WORDS.into_iter().zip(counts)
    }

    /// A connection begins.
    pub(super) fn accept(self: &std::sync::Arc<Self>) -> OpenConnection {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self.clone())
    }

    /// Connections since the start, and how many of them are open.
    pub(crate) fn connections(&self) -> (u64, u64) {
        let closed = self.closed.load(Ordering::Relaxed);
        let accepted = self.accepted.load(Ordering::Relaxed);
        (accepted, accepted.saturating_sub(closed))
    }

    /// What was asked for at least once.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let places = Asked::ALL
            .into_iter()
            .flat_map(|asked| METHODS.map(|method| (asked, method)));
        let counted = self
            .cells
            .iter()
            .zip(places)
            .map(|(cell, (asked, method))| {
                let classes = CLASSES.into_iter().zip(cell.classes.iter().map(load));
                Counted {
                    route: asked.as_str(),
                    method,
                    classes: classes.filter(|(_, count)| *count > 0).collect(),
                    buckets: std::array::from_fn(|place| cell.buckets.get(place).map_or(0, load)),
                    micros: load(&cell.micros),
                }
            });
        counted.filter(|cell| !cell.classes.is_empty()).collect()
    }
}

/// The place of a method among [`METHODS`].
pub(super) fn place_of(method: &Method) -> usize {
    match *method {
        Method::GET | Method::HEAD => 0,
        Method::POST => 1,
        Method::PUT => 2,
        Method::DELETE => 3,
        _ => 4,
    }
}

/// A connection that counts as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection(std::sync::Arc<Traffic>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_place_of_its_number_and_a_word_of_its_own() {
        let mut words: Vec<&str> = Asked::ALL.iter().map(|asked| asked.as_str()).collect();
        for (place, asked) in Asked::ALL.into_iter().enumerate() {
            assert_eq!(asked as usize, place);
        }
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Asked::ALL.len());
    }

    #[test]
    fn a_request_counts_once_in_its_class_and_in_its_bucket() {
        let traffic = Traffic::default();
        traffic.count(Asked::Instance, place_of(&Method::PUT), StatusCode::OK, 50);
        traffic.count(
            Asked::Instance,
            place_of(&Method::PUT),
            StatusCode::NOT_FOUND,
            51,
        );
        traffic.count(
            Asked::Malformed,
            place_of(&Method::TRACE),
            StatusCode::BAD_REQUEST,
            u64::MAX / 2,
        );
        let counted = traffic.counted();
        let [beats, odd] = &counted[..] else {
            panic!("{counted:?}")
        };
        assert_eq!((beats.route, beats.method), ("instance", "PUT"));
        assert_eq!(beats.classes, [("2xx", 1), ("4xx", 1)]);
        assert_eq!(
            (beats.buckets[0], beats.buckets[1], beats.micros),
            (1, 1, 101)
        );
        assert_eq!((odd.route, odd.method), ("malformed", "other"));
        assert_eq!(odd.buckets[BUCKETS - 1], 1);
    }
}
