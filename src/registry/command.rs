//! What can be asked of the registry. Each mutation of the outside world, whoever brings it, is one
//! of these; [`super::Registry::decide`] answers it with changes.

use std::sync::Arc;

use crate::registry::Recalled;
use crate::registry::change::Change;
use crate::registry::hold::{Hold, HoldKind};
use crate::registry::instance::Instance;
use crate::registry::lease::Lease;
use crate::registry::status::Status;
use crate::registry::version::Version;
use crate::types::{AppName, InstanceId, Now};

/// A request to the registry.
#[derive(Clone, Debug)]
pub enum Command {
    /// `POST /apps/{app}`: a validated instance.
    Register(Arc<Instance>),
    /// A peer of our own kind tells how an instance is there.
    Adopt(Adoption),
    /// `PUT /apps/{app}/{id}`.
    Renew {
        app: AppName,
        id: InstanceId,
        renewal: Renewal,
    },
    /// `DELETE /apps/{app}/{id}`.
    ///
    /// `version` is what a peer of our own kind cancelled: what was registered later stays. Java
    /// peers and clients cancel whatever is there.
    Cancel {
        app: AppName,
        id: InstanceId,
        version: Option<Version>,
    },
    /// On a node of our own kind the lease ran out, in this version: it ends here too, unless it is
    /// known here that the instance lives.
    Expire {
        app: AppName,
        id: InstanceId,
        version: Version,
    },
    /// `PUT /apps/{app}/{id}/status`.
    SetStatus {
        app: AppName,
        id: InstanceId,
        status: Status,
        dirty: Option<i64>,
    },
    /// `DELETE /apps/{app}/{id}/status`; `status` is the value that the caller wants instead.
    DeleteOverride {
        app: AppName,
        id: InstanceId,
        status: Option<Status>,
        dirty: Option<i64>,
    },
    /// `PUT /apps/{app}/{id}/metadata`.
    UpdateMetadata {
        app: AppName,
        id: InstanceId,
        entries: Vec<(Arc<str>, Arc<str>)>,
    },
    /// The eviction timer: all leases that are over, within the limit.
    Evict(Eviction),
    /// An operator drains, quarantines or releases an instance, or a node of our own kind tells of it.
    /// Of an operator's word the time is the node's, not `hold.at`.
    Hold {
        app: AppName,
        id: InstanceId,
        hold: Hold,
    },
    /// The holds of this kind whose time is over.
    EndHolds(HoldKind),
}

impl Command {
    /// The instance that it is about; `None` if it is about many.
    pub fn key(&self) -> Option<(AppName, InstanceId)> {
        match self {
            Self::Register(instance) | Self::Adopt(Adoption { instance, .. }) => {
                Some((instance.app.clone(), instance.id()))
            }
            Self::Renew { app, id, .. }
            | Self::Cancel { app, id, .. }
            | Self::Expire { app, id, .. }
            | Self::SetStatus { app, id, .. }
            | Self::DeleteOverride { app, id, .. }
            | Self::UpdateMetadata { app, id, .. }
            | Self::Hold { app, id, .. } => Some((app.clone(), id.clone())),
            Self::Evict(_) | Self::EndHolds(_) => None,
        }
    }
}

/// The state of an instance at a peer of our own kind.
#[derive(Clone, Debug)]
pub struct Adoption {
    pub instance: Arc<Instance>,
    /// When it was registered, wall time, ms; 0 if the peer does not say.
    pub registered: i64,
    /// For how long a sign of life that reached the peer vouches for it (`Lease::vouched_ms`); `None` if
    /// the peer does not say: then it is as good as registered now.
    pub vouched_ms: Option<u64>,
    /// What the log says of its last removal here, where the registry does not remember one.
    pub recalled: Recalled,
    pub overrides: Overrides,
}

/// What a newer state means for an override that holds here and not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrides {
    /// It was lifted there.
    Whole,
    /// If the client described itself anew, the peer may not have heard of it: it holds.
    Merged,
}

/// What a heartbeat says besides whose it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// The sender's version of the instance.
    pub dirty: Option<i64>,
    /// A peer's override; counts only when the peer is newer.
    pub overridden: Option<Status>,
}

/// Parameters of one eviction run (`protocol.md` 5.4).
#[derive(Clone, Copy, Debug)]
pub struct Eviction {
    /// Lateness of the run, added to every lease, ms.
    pub extra_ms: u64,
    /// At most the share `1 - renewal_percent_threshold` of the registry goes in one run.
    pub renewal_percent_threshold: f64,
    /// Seed of the choice among more expired leases than the limit allows.
    pub seed: u64,
}

/// The circumstances of a command.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub now: Now,
    /// Whether a peer sent it: peers' words are taken as they are, and never forwarded.
    pub is_replication: bool,
    /// Whether expired leases count as gone (`protocol.md` 5.6).
    pub expiration_enabled: bool,
}

/// The answer to a command.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Done, also if nothing had to change.
    Done,
    /// No such lease.
    NotFound,
    /// The lease was renewed, but the sender knows a newer version: it must register (404).
    SenderIsNewer,
    /// The lease was renewed, but a peer's version is older than ours: here is ours (409).
    Conflict(Arc<Lease>),
    /// So many leases were evicted of so many expired ones.
    Evicted { evicted: usize, expired: usize },
    /// The instance is quarantined: it cannot be UP before that is over.
    Held(Hold),
    /// There are [`super::hold::HOLDS_MAX`] holds.
    TooManyHolds,
    /// The instance would have more metadata than it may ([`super::rules::MetadataBounds`]).
    TooMuchMetadata,
    /// There are as many instances as there may be ([`super::rules::Rules::instances_max`], given here).
    TooManyInstances(u64),
}

/// What follows from a command: the answer, the changes to log, and the renewal that happens
/// whether or not anything changes.
#[derive(Debug)]
pub struct Decision {
    pub reply: Reply,
    pub changes: Vec<Change>,
    /// The lease whose clock the command moves.
    pub renews: Option<Arc<Lease>>,
    /// The lease that runs for so many ms more, since a peer vouches for that.
    pub prolongs: Option<(Arc<Lease>, u64)>,
    /// Whether that counts in the renewals of the last minute (`protocol.md` 3.5: an override does
    /// not).
    pub counts: bool,
}

impl Decision {
    /// One change, and done.
    pub(super) fn change(change: Change) -> Self {
        Self {
            changes: vec![change],
            ..Self::reply(Reply::Done)
        }
    }

    /// An answer without consequences.
    pub fn reply(reply: Reply) -> Self {
        Self {
            reply,
            changes: Vec::new(),
            renews: None,
            prolongs: None,
            counts: false,
        }
    }
}
