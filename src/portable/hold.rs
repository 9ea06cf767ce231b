//! Drains and quarantines in the portable form.

use serde::{Deserialize, Serialize};

use super::record::is_default;
use crate::registry::hold::{Hold, HoldKind};
use crate::types::Millis;

/// A drain or a quarantine, in force or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortableHold {
    kind: PortableHoldKind,
    until: u64,
    at: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    released: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PortableHoldKind {
    Drain,
    Quarantine,
}

impl From<Hold> for PortableHold {
    fn from(hold: Hold) -> Self {
        let Hold {
            kind,
            until,
            at,
            is_released,
        } = hold;
        Self {
            kind: match kind {
                HoldKind::Drain => PortableHoldKind::Drain,
                HoldKind::Quarantine => PortableHoldKind::Quarantine,
            },
            until: until.0,
            at: at.0,
            released: is_released,
        }
    }
}

impl From<PortableHold> for Hold {
    fn from(from: PortableHold) -> Self {
        Self {
            kind: match from.kind {
                PortableHoldKind::Drain => HoldKind::Drain,
                PortableHoldKind::Quarantine => HoldKind::Quarantine,
            },
            until: Millis(from.until),
            at: Millis(from.at),
            is_released: from.released,
        }
    }
}
