//! Records, leases and overrides as JSON that is complete: what is written here can be read back
//! into exactly what it was, by this version and later ones.
//!
//! It is the form of `eurekad export --history` and of `full=true` in the history, made for moving a
//! store to another machine, for backups and for other programs. The store itself has a form of its
//! own ([`crate::store`]). Times are ms since the epoch, spans ms or what the name says; names are
//! those of the protocol where it has one. Fields that hold nothing are left out. [`FORM`] counts the
//! changes of the form that older versions could not read; unknown fields are refused, since leaving
//! them out would lose what they say.

use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::history::entry::{kind_word, parse_kind};
use crate::registry::change::{
    Actor, Change, ChangeKind, LeaseImage, Origin, OverrideEffect, Record,
};
use crate::registry::instance::{ActionType, DataCenter, Instance, LeaseTerms, Metadata, Port};
use crate::registry::status::Status;
use crate::store::{CheckpointLease, CheckpointOverride};
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// The form that this version writes, and the newest that it reads.
pub const FORM: u32 = 1;

type Text = Arc<str>;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A [`Record`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortableRecord {
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
struct PortableLease {
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

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PortableInstance {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance_id: Option<Text>,
    app: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    app_group_name: Option<Text>,
    host_name: Text,
    ip_addr: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sid: Option<Text>,
    port: PortablePort,
    secure_port: PortablePort,
    country_id: i32,
    data_center: PortableDataCenter,
    #[serde(with = "status")]
    status: Status,
    #[serde(with = "status")]
    overridden_status: Status,
    renewal_interval_secs: i32,
    duration_secs: i32,
    #[serde(default, skip_serializing_if = "is_default")]
    metadata: Entries,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    home_page_url: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_page_url: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    health_check_url: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secure_health_check_url: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vip_address: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secure_vip_address: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asg_name: Option<Text>,
    last_updated_timestamp: i64,
    last_dirty_timestamp: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action_type: Option<PortableAction>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortablePort {
    number: i32,
    enabled: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum PortableDataCenter {
    MyOwn,
    Netflix,
    Amazon(Entries),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum PortableAction {
    Added,
    Modified,
    Deleted,
}

/// A map of texts that keeps its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entries(Metadata);

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries: Vec<(Text, Text)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries.into_iter().collect()))
            }
        }

        deserializer.deserialize_map(Map)
    }
}

mod status {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Status};
    use serde::de::Error as _;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature is that of `with`"
    )]
    pub(super) fn serialize<S: Serializer>(status: &Status, to: S) -> Result<S::Ok, S::Error> {
        status.as_str().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Status, D::Error> {
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
    pub(super) fn serialize<S: Serializer>(kind: &ChangeKind, to: S) -> Result<S::Ok, S::Error> {
        kind_word(*kind).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ChangeKind, D::Error> {
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

impl From<&Instance> for PortableInstance {
    fn from(instance: &Instance) -> Self {
        let Instance {
            instance_id,
            app,
            app_group_name,
            host_name,
            ip_addr,
            sid,
            port,
            secure_port,
            country_id,
            data_center,
            status,
            overridden_status,
            lease,
            metadata,
            home_page_url,
            status_page_url,
            health_check_url,
            secure_health_check_url,
            vip_address,
            secure_vip_address,
            asg_name,
            last_updated_timestamp,
            last_dirty_timestamp,
            action_type,
        } = instance.clone();
        let of_port = |port: Port| PortablePort {
            number: port.number,
            enabled: port.enabled,
        };
        Self {
            instance_id,
            app: app.shared().clone(),
            app_group_name,
            host_name,
            ip_addr,
            sid,
            port: of_port(port),
            secure_port: of_port(secure_port),
            country_id,
            data_center: match data_center {
                DataCenter::MyOwn => PortableDataCenter::MyOwn,
                DataCenter::Netflix => PortableDataCenter::Netflix,
                DataCenter::Amazon { metadata } => PortableDataCenter::Amazon(Entries(metadata)),
            },
            status,
            overridden_status,
            renewal_interval_secs: lease.renewal_interval_secs,
            duration_secs: lease.duration_secs,
            metadata: Entries(metadata),
            home_page_url,
            status_page_url,
            health_check_url,
            secure_health_check_url,
            vip_address,
            secure_vip_address,
            asg_name,
            last_updated_timestamp,
            last_dirty_timestamp,
            action_type: action_type.map(|action| match action {
                ActionType::Added => PortableAction::Added,
                ActionType::Modified => PortableAction::Modified,
                ActionType::Deleted => PortableAction::Deleted,
            }),
        }
    }
}

impl From<PortableInstance> for Instance {
    fn from(from: PortableInstance) -> Self {
        let port = |port: PortablePort| Port {
            number: port.number,
            enabled: port.enabled,
        };
        Self {
            instance_id: from.instance_id,
            app: AppName::new(&from.app),
            app_group_name: from.app_group_name,
            host_name: from.host_name,
            ip_addr: from.ip_addr,
            sid: from.sid,
            port: port(from.port),
            secure_port: port(from.secure_port),
            country_id: from.country_id,
            data_center: match from.data_center {
                PortableDataCenter::MyOwn => DataCenter::MyOwn,
                PortableDataCenter::Netflix => DataCenter::Netflix,
                PortableDataCenter::Amazon(entries) => DataCenter::Amazon {
                    metadata: entries.0,
                },
            },
            status: from.status,
            overridden_status: from.overridden_status,
            lease: LeaseTerms {
                renewal_interval_secs: from.renewal_interval_secs,
                duration_secs: from.duration_secs,
            },
            metadata: from.metadata.0,
            home_page_url: from.home_page_url,
            status_page_url: from.status_page_url,
            health_check_url: from.health_check_url,
            secure_health_check_url: from.secure_health_check_url,
            vip_address: from.vip_address,
            secure_vip_address: from.secure_vip_address,
            asg_name: from.asg_name,
            last_updated_timestamp: from.last_updated_timestamp,
            last_dirty_timestamp: from.last_dirty_timestamp,
            action_type: from.action_type.map(|action| match action {
                PortableAction::Added => ActionType::Added,
                PortableAction::Modified => ActionType::Modified,
                PortableAction::Deleted => ActionType::Deleted,
            }),
        }
    }
}

/// A lease of the state, see [`CheckpointLease`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortableHeld {
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
pub struct PortableOverride {
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

/// Whether a record that was read can be one of a log: [`crate::registry`] relies on what is checked
/// here.
///
/// # Errors
/// Says what it lacks.
pub fn check(record: &Record) -> Result<(), String> {
    let change = &record.change;
    if record.lsn == Lsn::ZERO {
        return Err("lsn 0 is before the first record".to_owned());
    }
    match &change.lease {
        Some(image) => check_lease(image),
        None if change.kind == ChangeKind::OverrideForgotten => Ok(()),
        None => Err(format!("{} without a lease", kind_word(change.kind))),
    }
}

/// The same for a lease.
///
/// # Errors
/// Says what it lacks.
pub fn check_lease(image: &LeaseImage) -> Result<(), String> {
    let terms = image.instance.lease;
    if terms.renewal_interval_secs <= 0 || terms.duration_secs <= 0 {
        return Err("the terms of the lease are not positive".to_owned());
    }
    if image.instance.id_text().is_empty() {
        return Err("the instance has no id".to_owned());
    }
    Ok(())
}

/// A record as one JSON object.
pub fn encode(record: &Record) -> serde_json::Value {
    serde_json::to_value(PortableRecord::from(record))
        .expect("texts, numbers and maps with keys of text are JSON")
}

/// Reads what [`encode`] wrote; any other value is an error, never a panic.
///
/// # Errors
/// Says what is wrong with it.
pub fn decode(value: &serde_json::Value) -> Result<Record, String> {
    PortableRecord::deserialize(value)
        .map(Record::from)
        .map_err(|error| error.to_string())
}

impl<'de> Deserialize<'de> for PortableLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match RawLine::deserialize(deserializer)? {
            RawLine::Eurekad(head) => Self::Head(head),
            RawLine::Record(record) => Self::Record(Box::new((*record).into())),
            RawLine::State(state) => Self::State(state),
            RawLine::Lease(held) => Self::Lease(Box::new((*held).into())),
            RawLine::Override(held) => Self::Override(held.into()),
            RawLine::End(end) => Self::End(end),
        })
    }
}

/// One line of an exported history. The head comes first and the end last; between them records in
/// the order of their positions, and each state, with its leases and overrides right behind it,
/// behind the last record that it contains. The last state is that behind all records.
#[derive(Clone, Debug, PartialEq)]
pub enum PortableLine {
    Head(Head),
    Record(Box<Record>),
    State(State),
    Lease(Box<CheckpointLease>),
    Override(CheckpointOverride),
    End(End),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawLine {
    Eurekad(Head),
    Record(Box<PortableRecord>),
    State(State),
    Lease(Box<PortableHeld>),
    Override(PortableOverride),
    End(End),
}

/// What an exported history begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// `history`.
    pub what: String,
    /// See [`FORM`].
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
            Self::End(end) => RawLine::End(*end),
        };
        serde_json::to_string(&raw).expect("texts, numbers and maps with keys of text are JSON")
    }
}

#[cfg(test)]
#[path = "portable_tests.rs"]
mod tests;
