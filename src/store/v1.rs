//! The first stored shape of records and checkpoints. FROZEN: bincode has no field tags, so no
//! field here may ever be added, removed, reordered or retyped. A change is a new `v2.rs` with its
//! own structs, a new schema version in [`super::record`], and this file stays for reading.
//!
//! The structs borrow from what they are made of, in both directions: encoding copies nothing but
//! into the buffer, decoding allocates only the shared strings of the registry's own types.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::registry::change::{
    Actor, Change, ChangeKind, HoldEffect, LeaseImage, Origin, OverrideEffect, Record,
};
use crate::registry::instance::{ActionType, DataCenter, Instance, LeaseTerms, Metadata, Port};
use crate::registry::status::Status;
use crate::store::intern::Interner;
use crate::store::{CheckpointLease, CheckpointOverride};
use crate::types::{InstanceId, Lsn, Millis};

/// A pair of enums that are converted into each other by the names of their variants. Both matches
/// are complete, so that a new variant in the registry stops the build here.
macro_rules! stored_enum {
    ($stored:ident, $live:ident, [$($variant:ident),+]) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub(super) enum $stored {
            $($variant),+
        }

        impl From<$live> for $stored {
            fn from(live: $live) -> Self {
                match live {
                    $($live::$variant => Self::$variant),+
                }
            }
        }

        impl From<$stored> for $live {
            fn from(stored: $stored) -> Self {
                match stored {
                    $($stored::$variant => Self::$variant),+
                }
            }
        }
    };
}

pub(super) use stored_enum;

stored_enum!(
    StatusV1,
    Status,
    [Down, OutOfService, Starting, Unknown, Up]
);
stored_enum!(ActionV1, ActionType, [Added, Modified, Deleted]);
stored_enum!(
    KindV1,
    ChangeKind,
    [
        Registered,
        Reregistered,
        OverrideSet,
        OverrideLifted,
        OverrideStored,
        OverrideForgotten,
        StatusRestored,
        MetadataUpdated,
        Cancelled,
        Evicted
    ]
);

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OriginV1<'a> {
    Client,
    Operator,
    Peer(&'a str),
    Timer,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OverrideEffectV1 {
    Keep,
    Set(StatusV1),
    Remove,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordV1<'a> {
    pub(super) lsn: u64,
    at: u64,
    #[serde(borrow)]
    origin: OriginV1<'a>,
    principal: Option<&'a str>,
    address: Option<&'a str>,
    user_agent: Option<&'a str>,
    reason: Option<&'a str>,
    app: &'a str,
    id: &'a str,
    kind: KindV1,
    lease: Option<LeaseV1<'a>>,
    override_effect: OverrideEffectV1,
    visible: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeaseV1<'a> {
    #[serde(borrow)]
    instance: InstanceV1<'a>,
    reported: StatusV1,
    duration_ms: u64,
    registered_at: u64,
    service_up_at: u64,
    evicted_at: u64,
    renewed_at: u64,
}

type PairsV1<'a> = Vec<(&'a str, &'a str)>;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum DataCenterV1<'a> {
    MyOwn,
    Netflix,
    #[serde(borrow)]
    Amazon(PairsV1<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InstanceV1<'a> {
    instance_id: Option<&'a str>,
    app: &'a str,
    app_group_name: Option<&'a str>,
    host_name: &'a str,
    ip_addr: &'a str,
    sid: Option<&'a str>,
    port: (i32, bool),
    secure_port: (i32, bool),
    country_id: i32,
    #[serde(borrow)]
    data_center: DataCenterV1<'a>,
    status: StatusV1,
    overridden_status: StatusV1,
    renewal_interval_secs: i32,
    duration_secs: i32,
    metadata: PairsV1<'a>,
    home_page_url: Option<&'a str>,
    status_page_url: Option<&'a str>,
    health_check_url: Option<&'a str>,
    secure_health_check_url: Option<&'a str>,
    vip_address: Option<&'a str>,
    secure_vip_address: Option<&'a str>,
    asg_name: Option<&'a str>,
    last_updated_timestamp: i64,
    last_dirty_timestamp: i64,
    action_type: Option<ActionV1>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckpointLeaseV1<'a> {
    app: &'a str,
    id: &'a str,
    lsn: u64,
    #[serde(borrow)]
    lease: LeaseV1<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckpointOverrideV1<'a> {
    app: Option<&'a str>,
    id: &'a str,
    status: StatusV1,
}

/// What is known of a segment of the log, in the `meta` tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentV1 {
    pub(super) first: u64,
    /// The newest record before this segment when it was begun; 0: the log starts here, from an
    /// empty registry.
    pub(super) after: u64,
    /// Records before this segment were lost: only a checkpoint at or behind this LSN leads on.
    pub(super) base: u64,
    /// 0 while the segment is written.
    pub(super) last: u64,
    pub(super) bytes: u64,
    pub(super) earliest: u64,
    pub(super) latest: u64,
}

fn pairs(metadata: &Metadata) -> PairsV1<'_> {
    metadata.iter().map(|(k, v)| (&**k, &**v)).collect()
}

fn metadata(pairs: &PairsV1<'_>, strings: &mut Interner) -> Metadata {
    pairs
        .iter()
        .map(|(k, v)| (strings.text(k), strings.text(v)))
        .collect()
}

impl<'a> From<&'a Record> for RecordV1<'a> {
    fn from(record: &'a Record) -> Self {
        let Record {
            lsn,
            at,
            origin,
            actor,
            change,
        } = record;
        let Actor {
            principal,
            address,
            user_agent,
            reason,
        } = actor;
        let Change {
            app,
            id,
            kind,
            lease,
            override_effect,
            // Written by the next shape, if there is anything to write.
            hold_effect: _,
            visible,
        } = change;
        Self {
            lsn: lsn.0,
            at: at.0,
            origin: match origin {
                Origin::Client => OriginV1::Client,
                Origin::Operator => OriginV1::Operator,
                Origin::Peer(peer) => OriginV1::Peer(peer),
                Origin::Timer => OriginV1::Timer,
            },
            principal: principal.as_deref(),
            address: address.as_deref(),
            user_agent: user_agent.as_deref(),
            reason: reason.as_deref(),
            app: app.as_str(),
            id: id.as_str(),
            kind: (*kind).into(),
            lease: lease.as_ref().map(LeaseV1::from),
            override_effect: match override_effect {
                OverrideEffect::Keep => OverrideEffectV1::Keep,
                OverrideEffect::Set(status) => OverrideEffectV1::Set((*status).into()),
                OverrideEffect::Remove => OverrideEffectV1::Remove,
            },
            visible: *visible,
        }
    }
}

impl RecordV1<'_> {
    pub(super) fn into_record(self, strings: &mut Interner) -> Record {
        Record {
            lsn: Lsn(self.lsn),
            at: Millis(self.at),
            origin: match self.origin {
                OriginV1::Client => Origin::Client,
                OriginV1::Operator => Origin::Operator,
                OriginV1::Peer(peer) => Origin::Peer(strings.text(peer)),
                OriginV1::Timer => Origin::Timer,
            },
            actor: Actor {
                principal: strings.option(self.principal),
                address: strings.option(self.address),
                user_agent: strings.option(self.user_agent),
                reason: strings.option(self.reason),
            },
            change: Change {
                app: strings.app(self.app),
                id: InstanceId::from_shared(strings.text(self.id)),
                kind: self.kind.into(),
                lease: self.lease.map(|lease| lease.into_image(strings)),
                override_effect: match self.override_effect {
                    OverrideEffectV1::Keep => OverrideEffect::Keep,
                    OverrideEffectV1::Set(status) => OverrideEffect::Set(status.into()),
                    OverrideEffectV1::Remove => OverrideEffect::Remove,
                },
                hold_effect: HoldEffect::Keep,
                visible: self.visible,
            },
        }
    }
}

impl<'a> From<&'a LeaseImage> for LeaseV1<'a> {
    fn from(image: &'a LeaseImage) -> Self {
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
            instance: InstanceV1::from(&**instance),
            reported: (*reported).into(),
            duration_ms: *duration_ms,
            registered_at: registered_at.0,
            service_up_at: service_up_at.0,
            evicted_at: evicted_at.0,
            renewed_at: renewed_at.0,
        }
    }
}

impl LeaseV1<'_> {
    fn into_image(self, strings: &mut Interner) -> LeaseImage {
        LeaseImage {
            instance: Arc::new(self.instance.into_instance(strings)),
            reported: self.reported.into(),
            duration_ms: self.duration_ms,
            registered_at: Millis(self.registered_at),
            service_up_at: Millis(self.service_up_at),
            evicted_at: Millis(self.evicted_at),
            renewed_at: Millis(self.renewed_at),
        }
    }
}

impl<'a> From<&'a Instance> for InstanceV1<'a> {
    fn from(i: &'a Instance) -> Self {
        Self {
            instance_id: i.instance_id.as_deref(),
            app: i.app.as_str(),
            app_group_name: i.app_group_name.as_deref(),
            host_name: &i.host_name,
            ip_addr: &i.ip_addr,
            sid: i.sid.as_deref(),
            port: (i.port.number, i.port.enabled),
            secure_port: (i.secure_port.number, i.secure_port.enabled),
            country_id: i.country_id,
            data_center: match &i.data_center {
                DataCenter::MyOwn => DataCenterV1::MyOwn,
                DataCenter::Netflix => DataCenterV1::Netflix,
                DataCenter::Amazon { metadata } => DataCenterV1::Amazon(pairs(metadata)),
            },
            status: i.status.into(),
            overridden_status: i.overridden_status.into(),
            renewal_interval_secs: i.lease.renewal_interval_secs,
            duration_secs: i.lease.duration_secs,
            metadata: pairs(&i.metadata),
            home_page_url: i.home_page_url.as_deref(),
            status_page_url: i.status_page_url.as_deref(),
            health_check_url: i.health_check_url.as_deref(),
            secure_health_check_url: i.secure_health_check_url.as_deref(),
            vip_address: i.vip_address.as_deref(),
            secure_vip_address: i.secure_vip_address.as_deref(),
            asg_name: i.asg_name.as_deref(),
            last_updated_timestamp: i.last_updated_timestamp,
            last_dirty_timestamp: i.last_dirty_timestamp,
            action_type: i.action_type.map(ActionV1::from),
        }
    }
}

impl InstanceV1<'_> {
    fn into_instance(self, strings: &mut Interner) -> Instance {
        Instance {
            instance_id: strings.option(self.instance_id),
            app: strings.app(self.app),
            app_group_name: strings.option(self.app_group_name),
            host_name: strings.text(self.host_name),
            ip_addr: strings.text(self.ip_addr),
            sid: strings.option(self.sid),
            port: Port {
                number: self.port.0,
                enabled: self.port.1,
            },
            secure_port: Port {
                number: self.secure_port.0,
                enabled: self.secure_port.1,
            },
            country_id: self.country_id,
            data_center: match &self.data_center {
                DataCenterV1::MyOwn => DataCenter::MyOwn,
                DataCenterV1::Netflix => DataCenter::Netflix,
                DataCenterV1::Amazon(pairs) => DataCenter::Amazon {
                    metadata: metadata(pairs, strings),
                },
            },
            status: self.status.into(),
            overridden_status: self.overridden_status.into(),
            lease: LeaseTerms {
                renewal_interval_secs: self.renewal_interval_secs,
                duration_secs: self.duration_secs,
            },
            metadata: metadata(&self.metadata, strings),
            // Addresses hold the host and are hardly ever repeated: not worth a look.
            home_page_url: self.home_page_url.map(Arc::from),
            status_page_url: self.status_page_url.map(Arc::from),
            health_check_url: self.health_check_url.map(Arc::from),
            secure_health_check_url: self.secure_health_check_url.map(Arc::from),
            vip_address: strings.option(self.vip_address),
            secure_vip_address: strings.option(self.secure_vip_address),
            asg_name: strings.option(self.asg_name),
            last_updated_timestamp: self.last_updated_timestamp,
            last_dirty_timestamp: self.last_dirty_timestamp,
            action_type: self.action_type.map(ActionType::from),
        }
    }
}

impl<'a> From<&'a CheckpointLease> for CheckpointLeaseV1<'a> {
    fn from(lease: &'a CheckpointLease) -> Self {
        let CheckpointLease {
            app,
            id,
            lsn,
            image,
        } = lease;
        Self {
            app: app.as_str(),
            id: id.as_str(),
            lsn: lsn.0,
            lease: image.into(),
        }
    }
}

impl CheckpointLeaseV1<'_> {
    pub(super) fn into_lease(self, strings: &mut Interner) -> CheckpointLease {
        // Right before the instance, which mostly has the same id and then shares it.
        let id = InstanceId::from_shared(strings.text(self.id));
        CheckpointLease {
            app: strings.app(self.app),
            id,
            lsn: Lsn(self.lsn),
            image: self.lease.into_image(strings),
        }
    }
}

impl<'a> From<&'a CheckpointOverride> for CheckpointOverrideV1<'a> {
    fn from(entry: &'a CheckpointOverride) -> Self {
        let CheckpointOverride { app, id, status } = entry;
        Self {
            app: app.as_ref().map(crate::types::AppName::as_str),
            id: id.as_str(),
            status: (*status).into(),
        }
    }
}

impl CheckpointOverrideV1<'_> {
    pub(super) fn into_override(self, strings: &mut Interner) -> CheckpointOverride {
        CheckpointOverride {
            app: self.app.map(|app| strings.app(app)),
            id: InstanceId::from_shared(strings.text(self.id)),
            status: self.status.into(),
        }
    }
}
