//! The lines of an exported history.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::hold::PortableHold;
use super::record::{PortableLease, PortableRecord, status};
use crate::registry::change::Record;
use crate::registry::status::Status;
use crate::store::{CheckpointHold, CheckpointLease, CheckpointOverride};
use crate::types::{AppName, InstanceId, Lsn};

type Text = Arc<str>;

/// One line of an exported history. The head comes first and the end last; between them records in
/// the order of their positions, and each state, with its leases, overrides and holds right behind it,
/// behind the last record that it contains. The last state is that behind all records.
#[derive(Clone, Debug, PartialEq)]
pub enum PortableLine {
    Head(Head),
    Record(Box<Record>),
    State(State),
    Lease(Box<CheckpointLease>),
    Override(CheckpointOverride),
    Hold(CheckpointHold),
    End(End),
}

impl<'de> Deserialize<'de> for PortableLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match RawLine::deserialize(deserializer)? {
            RawLine::Eurekad(head) => Self::Head(head),
            RawLine::Record(record) => Self::Record(Box::new((*record).into())),
            RawLine::State(state) => Self::State(state),
            RawLine::Lease(held) => Self::Lease(Box::new((*held).into())),
            RawLine::Override(held) => Self::Override(held.into()),
            RawLine::Hold(held) => Self::Hold(held.into()),
            RawLine::End(end) => Self::End(end),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawLine {
    Eurekad(Head),
    Record(Box<PortableRecord>),
    State(State),
    Lease(Box<PortableHeld>),
    Override(PortableOverride),
    Hold(PortableHeldBack),
    End(End),
}

/// A lease of the state, see [`CheckpointLease`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortableHeld {
    app: Text,
    id: Text,
    lsn: u64,
    lease: PortableLease,
}

impl From<&CheckpointLease> for PortableHeld {
    fn from(held: &CheckpointLease) -> Self {
        let CheckpointLease {
            app,
            id,
            lsn,
            image,
        } = held;
        Self {
            app: app.shared().clone(),
            id: id.shared().clone(),
            lsn: lsn.0,
            lease: image.into(),
        }
    }
}

impl From<PortableHeld> for CheckpointLease {
    fn from(from: PortableHeld) -> Self {
        Self {
            app: AppName::new(&from.app),
            id: InstanceId::from_shared(from.id),
            lsn: Lsn(from.lsn),
            image: from.lease.into(),
        }
    }
}

/// An override of the state, see [`CheckpointOverride`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortableOverride {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    app: Option<Text>,
    id: Text,
    #[serde(with = "status")]
    status: Status,
}

impl From<&CheckpointOverride> for PortableOverride {
    fn from(held: &CheckpointOverride) -> Self {
        let CheckpointOverride { app, id, status } = held;
        Self {
            app: app.as_ref().map(|app| app.shared().clone()),
            id: id.shared().clone(),
            status: *status,
        }
    }
}

impl From<PortableOverride> for CheckpointOverride {
    fn from(from: PortableOverride) -> Self {
        Self {
            app: from.app.as_deref().map(AppName::new),
            id: InstanceId::from_shared(from.id),
            status: from.status,
        }
    }
}

/// A drain or quarantine of the state, see [`CheckpointHold`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortableHeldBack {
    app: Text,
    id: Text,
    hold: PortableHold,
}

impl From<&CheckpointHold> for PortableHeldBack {
    fn from(held: &CheckpointHold) -> Self {
        let CheckpointHold { app, id, hold } = held;
        Self {
            app: app.shared().clone(),
            id: id.shared().clone(),
            hold: (*hold).into(),
        }
    }
}

impl From<PortableHeldBack> for CheckpointHold {
    fn from(from: PortableHeldBack) -> Self {
        Self {
            app: AppName::new(&from.app),
            id: InstanceId::from_shared(from.id),
            hold: from.hold.into(),
        }
    }
}

/// What an exported history begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// `history`.
    pub what: String,
    /// See [`super::FORM`].
    pub form: u32,
    /// The oldest record, or the next LSN if there is none.
    pub first_lsn: u64,
    /// The newest record.
    pub last_lsn: u64,
    /// The node whose history it is.
    pub node_id: Option<String>,
    pub version: String,
}

/// A state follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The last change that it contains.
    pub lsn: u64,
    pub at: u64,
    pub expected_clients: u64,
}

/// How many there were of everything: a file without it is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub records: u64,
    pub leases: u64,
    pub overrides: u64,
    #[serde(default)]
    pub holds: u64,
}

impl PortableLine {
    /// The line, without its end.
    pub fn to_json(&self) -> String {
        let raw = match self {
            Self::Head(head) => RawLine::Eurekad(head.clone()),
            Self::Record(record) => RawLine::Record(Box::new((&**record).into())),
            Self::State(state) => RawLine::State(state.clone()),
            Self::Lease(held) => RawLine::Lease(Box::new((&**held).into())),
            Self::Override(held) => RawLine::Override(held.into()),
            Self::Hold(held) => RawLine::Hold(held.into()),
            Self::End(end) => RawLine::End(*end),
        };
        serde_json::to_string(&raw).expect("texts, numbers and maps with keys of text are JSON")
    }
}
