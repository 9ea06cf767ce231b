//! What the second stored shape added: holds. FROZEN like [`super::v1`], whose structs it holds whole.
//!
//! Only changes that touch a hold are written in it, so that a store without holds is one that older
//! versions read.

use serde::{Deserialize, Serialize};

use crate::registry::change::{HoldEffect, Record};
use crate::registry::hold::{Hold, HoldKind};
use crate::store::CheckpointHold;
use crate::store::intern::Interner;
use crate::store::v1::{RecordV1, stored_enum};
use crate::types::{InstanceId, Millis};

stored_enum!(HoldKindV2, HoldKind, [Drain, Quarantine]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HoldV2 {
    kind: HoldKindV2,
    until: u64,
    at: u64,
    is_released: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HoldEffectV2 {
    Keep,
    Put(HoldV2),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordV2<'a> {
    #[serde(borrow)]
    base: RecordV1<'a>,
    hold_effect: HoldEffectV2,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckpointHoldV2<'a> {
    app: &'a str,
    id: &'a str,
    hold: HoldV2,
}

impl From<Hold> for HoldV2 {
    fn from(hold: Hold) -> Self {
        let Hold {
            kind,
            until,
            at,
            is_released,
        } = hold;
        Self {
            kind: kind.into(),
            until: until.0,
            at: at.0,
            is_released,
        }
    }
}

impl From<HoldV2> for Hold {
    fn from(stored: HoldV2) -> Self {
        Self {
            kind: stored.kind.into(),
            until: Millis(stored.until),
            at: Millis(stored.at),
            is_released: stored.is_released,
        }
    }
}

impl<'a> From<&'a Record> for RecordV2<'a> {
    fn from(record: &'a Record) -> Self {
        Self {
            base: RecordV1::from(record),
            hold_effect: match record.change.hold_effect {
                HoldEffect::Keep => HoldEffectV2::Keep,
                HoldEffect::Put(hold) => HoldEffectV2::Put(hold.into()),
            },
        }
    }
}

impl RecordV2<'_> {
    pub(super) fn into_record(self, strings: &mut Interner) -> Record {
        let mut record = self.base.into_record(strings);
        record.change.hold_effect = match self.hold_effect {
            HoldEffectV2::Keep => HoldEffect::Keep,
            HoldEffectV2::Put(hold) => HoldEffect::Put(hold.into()),
        };
        record
    }
}

impl<'a> From<&'a CheckpointHold> for CheckpointHoldV2<'a> {
    fn from(entry: &'a CheckpointHold) -> Self {
        let CheckpointHold { app, id, hold } = entry;
        Self {
            app: app.as_str(),
            id: id.as_str(),
            hold: (*hold).into(),
        }
    }
}

impl CheckpointHoldV2<'_> {
    pub(super) fn into_hold(self, strings: &mut Interner) -> CheckpointHold {
        CheckpointHold {
            app: strings.app(self.app),
            id: InstanceId::from_shared(strings.text(self.id)),
            hold: self.hold.into(),
        }
    }
}
