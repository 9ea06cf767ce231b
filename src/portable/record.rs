//! Records and leases in the portable form.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hold::PortableHold;
use super::instance::PortableInstance;
use crate::history::entry::{kind_word, parse_kind};
use crate::registry::change::{
    Actor, Change, ChangeKind, HoldEffect, LeaseImage, Origin, OverrideEffect, Record,
};
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId, Lsn, Millis};

type Text = Arc<str>;

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A [`Record`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortableRecord {
    lsn: u64,
    at: u64,
    #[serde(with = "kind")]
    kind: ChangeKind,
    app: Text,
    id: Text,
    origin: PortableOrigin,
    #[serde(default, skip_serializing_if = "is_default")]
    actor: PortableActor,
    #[serde(default, rename = "override", skip_serializing_if = "is_default")]
    override_: PortableEffect,
    /// What the instance's drain or quarantine is from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<PortableHold>,
    /// Whether clients are told.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    visible: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<PortableLease>,
}

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is that of skip_serializing_if"
)]
fn is_yes(is: &bool) -> bool {
    *is
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PortableOrigin {
    Client,
    Operator,
    Timer,
    Peer(Text),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PortableActor {
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Text>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PortableEffect {
    #[default]
    Keep,
    Remove,
    #[serde(with = "status")]
    Set(Status),
}

/// A lease as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortableLease {
    #[serde(with = "status")]
    reported: Status,
    duration_ms: u64,
    registered_at: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    service_up_at: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    evicted_at: u64,
    renewed_at: u64,
    instance: PortableInstance,
}

pub(super) mod status {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Status};
    use serde::de::Error as _;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature is that of `with`"
    )]
    pub(in crate::portable) fn serialize<S: Serializer>(
        status: &Status,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        status.as_str().serialize(to)
    }

    pub(in crate::portable) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Status, D::Error> {
        let word = String::deserialize(from)?;
        Status::parse(&word).ok_or_else(|| D::Error::custom(format!("{word:?} is no status")))
    }
}

mod kind {
    use super::{ChangeKind, Deserialize, Deserializer, Serialize, Serializer};
    use super::{kind_word, parse_kind};
    use serde::de::Error as _;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature is that of `with`"
    )]
    pub(in crate::portable) fn serialize<S: Serializer>(
        kind: &ChangeKind,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        kind_word(*kind).serialize(to)
    }

    pub(in crate::portable) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<ChangeKind, D::Error> {
        let word = String::deserialize(from)?;
        parse_kind(&word).ok_or_else(|| D::Error::custom(format!("{word:?} is no kind of change")))
    }
}

impl From<&Record> for PortableRecord {
    fn from(record: &Record) -> Self {
        let Record {
            lsn,
            at,
            origin,
            actor,
            change,
        } = record;
        let Change {
            app,
            id,
            kind,
            lease,
            override_effect,
            hold_effect,
            visible,
        } = change;
        let Actor {
            principal,
            address,
            user_agent,
            reason,
        } = actor.clone();
        Self {
            lsn: lsn.0,
            at: at.0,
            kind: *kind,
            app: app.shared().clone(),
            id: id.shared().clone(),
            origin: match origin {
                Origin::Client => PortableOrigin::Client,
                Origin::Operator => PortableOrigin::Operator,
                Origin::Timer => PortableOrigin::Timer,
                Origin::Peer(peer) => PortableOrigin::Peer(peer.clone()),
            },
            actor: PortableActor {
                principal,
                address,
                user_agent,
                reason,
            },
            override_: match override_effect {
                OverrideEffect::Keep => PortableEffect::Keep,
                OverrideEffect::Remove => PortableEffect::Remove,
                OverrideEffect::Set(status) => PortableEffect::Set(*status),
            },
            hold: match hold_effect {
                HoldEffect::Keep => None,
                HoldEffect::Put(hold) => Some((*hold).into()),
            },
            visible: *visible,
            lease: lease.as_ref().map(PortableLease::from),
        }
    }
}

impl From<PortableRecord> for Record {
    fn from(from: PortableRecord) -> Self {
        Self {
            lsn: Lsn(from.lsn),
            at: Millis(from.at),
            origin: match from.origin {
                PortableOrigin::Client => Origin::Client,
                PortableOrigin::Operator => Origin::Operator,
                PortableOrigin::Timer => Origin::Timer,
                PortableOrigin::Peer(peer) => Origin::Peer(peer),
            },
            actor: Actor {
                principal: from.actor.principal,
                address: from.actor.address,
                user_agent: from.actor.user_agent,
                reason: from.actor.reason,
            },
            change: Change {
                app: AppName::new(&from.app),
                id: InstanceId::from_shared(from.id),
                kind: from.kind,
                lease: from.lease.map(LeaseImage::from),
                override_effect: match from.override_ {
                    PortableEffect::Keep => OverrideEffect::Keep,
                    PortableEffect::Remove => OverrideEffect::Remove,
                    PortableEffect::Set(status) => OverrideEffect::Set(status),
                },
                hold_effect: from
                    .hold
                    .map_or(HoldEffect::Keep, |hold| HoldEffect::Put(hold.into())),
                visible: from.visible,
            },
        }
    }
}

impl From<&LeaseImage> for PortableLease {
    fn from(image: &LeaseImage) -> Self {
        let LeaseImage {
            instance,
            reported,
            duration_ms,
            registered_at,
            service_up_at,
            evicted_at,
            renewed_at,
        } = image;
        Self {
            reported: *reported,
            duration_ms: *duration_ms,
            registered_at: registered_at.0,
            service_up_at: service_up_at.0,
            evicted_at: evicted_at.0,
            renewed_at: renewed_at.0,
            instance: PortableInstance::from(&**instance),
        }
    }
}

impl From<PortableLease> for LeaseImage {
    fn from(from: PortableLease) -> Self {
        Self {
            instance: Arc::new(from.instance.into()),
            reported: from.reported,
            duration_ms: from.duration_ms,
            registered_at: Millis(from.registered_at),
            service_up_at: Millis(from.service_up_at),
            evicted_at: Millis(from.evicted_at),
            renewed_at: Millis(from.renewed_at),
        }
    }
}
