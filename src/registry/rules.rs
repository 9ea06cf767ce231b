//! Where the rules of this server and of the original part (design 3). Each switch is one defect of
//! the original; the default is the mended behaviour, the other value is what the recorded server
//! does, for whoever depends on it. Configuration maps onto this, the core knows nothing else of it.

use super::instance::Metadata;

/// The switches. Built once per node; a registry keeps them behind an `Arc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub lease_expiry: LeaseExpiry,
    pub override_scope: OverrideScope,
    pub status_by_renewal: StatusByRenewal,
    pub metadata_update: MetadataUpdate,
    pub same_status_override: SameStatusOverride,
    pub override_lift: OverrideLift,
    pub unknown_override: UnknownOverride,
    pub replicated_version: ReplicatedVersion,
    pub thresholds: Thresholds,
    /// Compare dirty timestamps in renewals (`eureka.server.sync-when-timestamp-differs`).
    pub sync_when_timestamp_differs: bool,
    pub metadata: MetadataBounds,
    /// How many instances there may be before registrations of new ones are refused; `None` for no bound.
    /// What peers tell is taken all the same: nodes that were to differ in what they have would never agree.
    pub instances_max: Option<u64>,
}

/// What metadata may grow to by puts. Those who read registrations hold them to the same, nodes that are
/// told of an instance among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataBounds {
    pub entries: usize,
    /// Keys and values together.
    pub bytes: usize,
}

impl MetadataBounds {
    /// Whether `before` must not become `after`: it is too much, and more than it was.
    pub fn forbid(&self, before: &Metadata, after: &Metadata) -> bool {
        let is_beyond = |after, before, most| after > most && after > before;
        is_beyond(after.len(), before.len(), self.entries)
            || is_beyond(after.bytes(), before.bytes(), self.bytes)
    }
}

impl Default for MetadataBounds {
    fn default() -> Self {
        Self {
            entries: 1024,
            bytes: 512 << 10,
        }
    }
}

/// When a lease is over (`eurekad.lease-expiry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseExpiry {
    /// One duration after the last renewal.
    Exact,
    /// Two durations after it, as the original (`protocol.md` 5.1).
    Eureka,
}

/// What an override belongs to (`eurekad.override-scope`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideScope {
    /// One instance of one application.
    Instance,
    /// Every instance with that id, whatever its application, as the original (`protocol.md` 3.1).
    Id,
}

/// What a renewal that changes the effective status is (`eurekad.status-by-renewal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusByRenewal {
    /// A change like any other.
    Change,
    /// Silent, as the original (`protocol.md` 3.3): logged, but neither in deltas nor invalidating.
    Silent,
}

/// What putting metadata does besides (`eurekad.metadata-update`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataUpdate {
    /// Nothing: metadata and dirty timestamp change.
    Change,
    /// The instance is registered again, as the original does (`protocol.md` 1.9).
    Reregister,
}

/// Setting the status that an instance has already (`eurekad.same-status-override`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameStatusOverride {
    /// Stores the override: an operator's word is kept.
    Stored,
    /// Stores nothing, as the original (`protocol.md` 3.5).
    Ignored,
}

/// The status after an override is lifted without a value (`eurekad.override-lift`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideLift {
    /// What the instance reported last.
    Reported,
    /// UNKNOWN, so that the client must register again, as the original (`protocol.md` 3.6).
    Unknown,
}

/// Setting the override UNKNOWN (`eurekad.unknown-override`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownOverride {
    /// Lifts the override.
    Lift,
    /// Stores it, as the original: every renewal gets 404 until it is deleted (`protocol.md` 10.2).
    Store,
}

/// What becomes of the times by which versions are compared, in what a peer sends
/// (`eurekad.replicated-version`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicatedVersion {
    /// A registration keeps the `lastUpdatedTimestamp` that it had at the peer, so that all nodes have
    /// the same version of it. The dirty timestamp that comes with an override raises nothing: the
    /// description of that version is still to come, by the next renewal at the latest.
    Kept,
    /// As the original: a registration is of the moment when it came. An override raises the dirty
    /// timestamp; the older description passes for the newer one from then on, here and at every peer.
    Original,
}

/// How many renewals are expected (`eurekad.thresholds`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thresholds {
    /// The sum over the leases that exist, each by its own interval.
    Leases,
    /// Number of clients by one common interval, a phantom client included (`spring.md` 1).
    Eureka,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            lease_expiry: LeaseExpiry::Exact,
            override_scope: OverrideScope::Instance,
            status_by_renewal: StatusByRenewal::Change,
            metadata_update: MetadataUpdate::Change,
            same_status_override: SameStatusOverride::Stored,
            override_lift: OverrideLift::Reported,
            unknown_override: UnknownOverride::Lift,
            replicated_version: ReplicatedVersion::Kept,
            thresholds: Thresholds::Leases,
            sync_when_timestamp_differs: true,
            metadata: MetadataBounds::default(),
            instances_max: None,
        }
    }
}

impl Rules {
    /// Every switch as the recorded server has it.
    pub fn eureka() -> Self {
        Self {
            lease_expiry: LeaseExpiry::Eureka,
            override_scope: OverrideScope::Id,
            status_by_renewal: StatusByRenewal::Silent,
            metadata_update: MetadataUpdate::Reregister,
            same_status_override: SameStatusOverride::Ignored,
            override_lift: OverrideLift::Unknown,
            unknown_override: UnknownOverride::Store,
            replicated_version: ReplicatedVersion::Original,
            thresholds: Thresholds::Eureka,
            sync_when_timestamp_differs: true,
            metadata: MetadataBounds::default(),
            instances_max: None,
        }
    }
}
