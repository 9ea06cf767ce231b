//! What happened: the unit of the change log, of deltas, of replication and of the history.
//!
//! A [`Change`] carries the whole resulting lease, so that [`super::Registry::evolve`] needs nothing
//! but the change, and so that a reader of the log sees the instance as it was at that position.

use std::sync::Arc;

use crate::registry::hold::{Hold, HoldKind};
use crate::registry::instance::Instance;
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// One entry of the change log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub lsn: Lsn,
    /// Wall time at which the change was decided.
    pub at: Millis,
    pub origin: Origin,
    pub actor: Actor,
    pub change: Change,
}

/// A change of one (application, instance).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub app: AppName,
    pub id: InstanceId,
    pub kind: ChangeKind,
    /// The lease after the change; for [`ChangeKind::Cancelled`] and [`ChangeKind::Evicted`] as it
    /// was removed. `None` only where no lease was touched ([`ChangeKind::OverrideForgotten`], and holds
    /// of ids that have no lease).
    pub lease: Option<LeaseImage>,
    /// What the change does to the override of the instance.
    pub override_effect: OverrideEffect,
    /// What the change does to the hold of the instance.
    pub hold_effect: HoldEffect,
    /// Whether clients are told: false keeps the change out of deltas and leaves cached answers,
    /// as the original's silent status changes do (`protocol.md` 3.3; only in the `eureka` profile).
    pub visible: bool,
}

impl Change {
    /// What happened, in the words of logs.
    pub fn as_str(&self) -> &'static str {
        match self.event() {
            ChangeEvent::Kind(kind) => kind.as_str(),
            ChangeEvent::Drained => "drained",
            ChangeEvent::Quarantined => "quarantined",
            ChangeEvent::Released => "released",
        }
    }

    /// What happened: the kind, unless an operator's hold says more.
    pub fn event(&self) -> ChangeEvent {
        match (self.kind, self.hold_effect) {
            (ChangeKind::OverrideSet, HoldEffect::Put(hold)) if hold.is_active() => {
                match hold.kind {
                    HoldKind::Drain => ChangeEvent::Drained,
                    HoldKind::Quarantine => ChangeEvent::Quarantined,
                }
            }
            (ChangeKind::OverrideLifted, HoldEffect::Put(_)) => ChangeEvent::Released,
            (kind, _) => ChangeEvent::Kind(kind),
        }
    }
}

/// What happened by a change, as it is told and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeEvent {
    /// What the kind says.
    Kind(ChangeKind),
    /// An override that is a drain.
    Drained,
    /// An override that is a quarantine.
    Quarantined,
    /// The end of one of the two that is no removal.
    Released,
}

impl ChangeEvent {
    /// How many there are.
    pub const COUNT: usize = ChangeKind::ALL.len() + 3;

    /// All that there are.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = ChangeKind::ALL.into_iter().map(Self::Kind);
        kinds.chain([Self::Drained, Self::Quarantined, Self::Released])
    }
}

/// What kind of change. The order is part of the stored format: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// A new lease.
    Registered,
    /// A lease that was there was registered anew: it starts again.
    Reregistered,
    /// An operator (or peer) set an override.
    OverrideSet,
    /// An operator (or peer) lifted an override.
    OverrideLifted,
    /// A peer's heartbeat brought an override; the status follows at the next renewal.
    OverrideStored,
    /// An override was dropped although the cancelled lease was not there (`eureka` profile).
    OverrideForgotten,
    /// A renewal changed the effective status.
    StatusRestored,
    /// Metadata entries were put.
    MetadataUpdated,
    /// The client or an operator cancelled the lease.
    Cancelled,
    /// The lease expired.
    Evicted,
}

impl ChangeKind {
    pub const ALL: [Self; 10] = [
        Self::Registered,
        Self::Reregistered,
        Self::OverrideSet,
        Self::OverrideLifted,
        Self::OverrideStored,
        Self::OverrideForgotten,
        Self::StatusRestored,
        Self::MetadataUpdated,
        Self::Cancelled,
        Self::Evicted,
    ];

    /// The word used in logs; also the reason, unless someone gave another.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Reregistered => "re-registered",
            Self::OverrideSet => "override set",
            Self::OverrideLifted => "override lifted",
            Self::OverrideStored => "override stored",
            Self::OverrideForgotten => "override forgotten",
            Self::StatusRestored => "status restored",
            Self::MetadataUpdated => "metadata updated",
            Self::Cancelled => "cancelled",
            Self::Evicted => "lease expired",
        }
    }

    /// Whether the lease is gone after the change.
    pub fn removes(self) -> bool {
        matches!(self, Self::Cancelled | Self::Evicted)
    }

    /// Whether the lease starts anew with the change.
    pub fn restarts_lease(self) -> bool {
        matches!(self, Self::Registered | Self::Reregistered)
    }
}

/// A lease as it is stored: everything but its clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseImage {
    pub instance: Arc<Instance>,
    /// The status that the client itself reported last, before overrides; what a lifted override
    /// brings back (design 3).
    pub reported: Status,
    /// Lease duration, ms.
    pub duration_ms: u64,
    /// Wall time of the registration.
    pub registered_at: Millis,
    /// Wall time at which it was first UP, 0 if never.
    pub service_up_at: Millis,
    /// Wall time of cancel or eviction, 0 while the lease lives.
    pub evicted_at: Millis,
    /// Wall time of the last renewal that the change saw; a lease's own clock may be ahead.
    pub renewed_at: Millis,
}

impl LeaseImage {
    /// Whether nothing has happened to it since it was registered: then its node may not have heard of an
    /// override that holds elsewhere.
    pub fn is_untouched(&self) -> bool {
        is_untouched(
            self.instance.last_updated_timestamp,
            self.registered_at.signed(),
        )
    }
}

/// The same of a lease as another node tells it: when it was updated last, and registered.
pub fn is_untouched(last_updated: i64, registered: i64) -> bool {
    last_updated <= registered
}

/// What a change does to the override of its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideEffect {
    Keep,
    Set(Status),
    Remove,
}

/// What a change does to the hold of its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEffect {
    Keep,
    /// It is this from now on, in force or released.
    Put(Hold),
}

/// Where a change entered this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client's own request to this node.
    Client,
    /// An operator's request: overrides, metadata.
    Operator,
    /// Replication from a peer: its identity as far as it is known. Never forwarded again.
    Peer(Arc<str>),
    /// One of this node's timers.
    Timer,
}

impl Origin {
    pub fn is_replication(&self) -> bool {
        matches!(self, Self::Peer(_))
    }

    /// The word used in logs and answers.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Operator => "operator",
            Self::Peer(_) => "peer",
            Self::Timer => "timer",
        }
    }
}

/// Who asked for a change, as far as the request told. Of what a node of our own kind passed on it is who
/// asked that node; Java peers do not say, and stand for it themselves. Texts are cut with [`Actor::cut`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// The authenticated principal.
    pub principal: Option<Arc<str>>,
    /// Address of the other end of the connection, without port.
    pub address: Option<Arc<str>>,
    pub user_agent: Option<Arc<str>>,
    /// The reason that the caller gave; `None` means the kind of the change says it all.
    pub reason: Option<Arc<str>>,
}

impl Actor {
    /// Longest text that is kept, bytes.
    pub const TEXT_MAX: usize = 256;

    /// A text, not longer than a record keeps.
    pub fn cut(text: &str) -> Arc<str> {
        text[..text.floor_char_boundary(Self::TEXT_MAX)].into()
    }

    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        principal: None,
        address: None,
        user_agent: None,
        reason: None,
    };
}
