//! One change as it is told to people and programs: the same in the history, to watchers, in long
//! polls and on the command line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::times::At;
use crate::registry::change::{
    Change, ChangeEvent, ChangeKind, HoldEffect, LeaseImage, Origin, OverrideEffect, Record,
};
use crate::registry::instance::{DataCenter, Instance, Metadata, Port};
use crate::registry::status::Status;
use crate::types::Lsn;

/// A change of one instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Position in the log of the node that tells it.
    pub lsn: Lsn,
    pub at: At,
    /// See [`word`].
    pub kind: Cow<'static, str>,
    pub app: String,
    pub instance: String,
    /// What the caller gave as reason, otherwise what the kind says.
    pub reason: String,
    /// `client`, `operator`, `peer` or `timer`.
    pub origin: Cow<'static, str>,
    pub actor: Who,
    /// What differs from the change before, by the names of the protocol's JSON.
    pub changes: BTreeMap<String, FieldChange>,
    /// The lease after the change, or as it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseFacts>,
    /// The drain or quarantine that the change began or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldFacts>,
}

/// Who asked for a change, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub principal: Option<String>,
    pub address: Option<String>,
    pub user_agent: Option<String>,
    /// The peer by which it came, for replicated changes.
    pub peer: Option<String>,
}

/// A field that changed; null where there was or is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    pub before: Value,
    pub after: Value,
}

/// A drain or quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldFacts {
    /// `drain` or `quarantine`.
    pub kind: Cow<'static, str>,
    /// When it ends, or would have ended.
    pub until: At,
    pub released: bool,
}

/// What matters of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseFacts {
    pub registered_at: At,
    /// The last renewal that the change knew of.
    pub renewed_at: At,
    /// How old that renewal was at the change, ms.
    pub renewal_age_ms: u64,
    /// The lease's duration, ms.
    pub duration_ms: u64,
}

/// The words of all changes, as [`word`] says them: in the history, in metrics, in figures of a store.
pub const WORDS: [&str; 13] = [
    "registered",
    "re-registered",
    "override-set",
    "override-lifted",
    "override-stored",
    "override-forgotten",
    "status-restored",
    "metadata-updated",
    "cancelled",
    "evicted",
    "drained",
    "quarantined",
    "released",
];

/// What happened, in the words of queries and answers, which have no spaces.
pub fn word(change: &Change) -> &'static str {
    event_word(change.event())
}

/// The word of an event, see [`WORDS`].
pub fn event_word(event: ChangeEvent) -> &'static str {
    match event {
        ChangeEvent::Kind(kind) => kind_word(kind),
        ChangeEvent::Drained => "drained",
        ChangeEvent::Quarantined => "quarantined",
        ChangeEvent::Released => "released",
    }
}

/// The word of a kind: one without spaces.
pub fn kind_word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Registered => "registered",
        ChangeKind::Reregistered => "re-registered",
        ChangeKind::OverrideSet => "override-set",
        ChangeKind::OverrideLifted => "override-lifted",
        ChangeKind::OverrideStored => "override-stored",
        ChangeKind::OverrideForgotten => "override-forgotten",
        ChangeKind::StatusRestored => "status-restored",
        ChangeKind::MetadataUpdated => "metadata-updated",
        ChangeKind::Cancelled => "cancelled",
        ChangeKind::Evicted => "evicted",
    }
}

/// The kind of a word.
pub fn parse_kind(word: &str) -> Option<ChangeKind> {
    ChangeKind::ALL
        .into_iter()
        .find(|kind| kind_word(*kind) == word)
}

/// What is known of an instance before a change.
#[derive(Clone, Copy, Debug)]
pub enum Before<'a> {
    /// The record before this one of the same instance.
    Record(&'a Record),
    /// What the registry held right before it: the lease, if there was one, and the override.
    State(Option<&'a LeaseImage>, Option<Status>),
    /// It was never there, or what came before is no longer kept.
    Nothing,
}

impl<'a> Before<'a> {
    /// From the record before, if there is one.
    pub fn record(record: Option<&'a Record>) -> Self {
        record.map_or(Self::Nothing, Self::Record)
    }

    /// The lease that was there.
    fn lease(self) -> Option<&'a LeaseImage> {
        match self {
            Self::Record(record) if record.change.kind.removes() => None,
            Self::Record(record) => record.change.lease.as_ref(),
            Self::State(image, _) => image,
            Self::Nothing => None,
        }
    }

    fn override_(self) -> Option<Status> {
        match self {
            Self::Record(record) => override_after(record),
            Self::State(_, status) => status,
            Self::Nothing => None,
        }
        // One to UNKNOWN, which only the `eureka` profile keeps, is not to be told from none by what
        // follows it.
        .filter(|status| *status != Status::Unknown)
    }
}

/// The override that holds after a change, as the record tells it.
fn override_after(record: &Record) -> Option<Status> {
    match record.change.override_effect {
        OverrideEffect::Set(status) => Some(status),
        OverrideEffect::Remove => None,
        OverrideEffect::Keep => record
            .change
            .lease
            .as_ref()
            .map(|lease| lease.instance.overridden_status)
            .filter(|status| *status != Status::Unknown),
    }
}

impl Entry {
    /// Tells a record, given what came before.
    pub fn new(record: &Record, before: Before<'_>) -> Self {
        let change = &record.change;
        let text = |part: &Option<std::sync::Arc<str>>| part.as_deref().map(str::to_owned);
        let actor = &record.actor;
        Self {
            lsn: record.lsn,
            at: At(record.at),
            kind: Cow::Borrowed(word(change)),
            app: change.app.as_str().to_owned(),
            instance: change.id.as_str().to_owned(),
            reason: reason(record).to_owned(),
            origin: Cow::Borrowed(record.origin.as_str()),
            actor: Who {
                principal: text(&actor.principal),
                address: text(&actor.address),
                user_agent: text(&actor.user_agent),
                peer: match &record.origin {
                    Origin::Peer(peer) => Some(peer.to_string()),
                    Origin::Client | Origin::Operator | Origin::Timer => None,
                },
            },
            changes: changes(record, before),
            lease: change.lease.as_ref().map(|lease| LeaseFacts {
                registered_at: At(lease.registered_at),
                renewed_at: At(lease.renewed_at),
                renewal_age_ms: record.at.since(lease.renewed_at),
                duration_ms: lease.duration_ms,
            }),
            hold: match change.hold_effect {
                HoldEffect::Keep => None,
                HoldEffect::Put(hold) => Some(HoldFacts {
                    kind: Cow::Borrowed(hold.kind.as_str()),
                    until: At(hold.until),
                    released: hold.is_released,
                }),
            },
        }
    }
}

/// The reason of a change: the caller's, otherwise what its kind says.
pub fn reason(record: &Record) -> &str {
    record
        .actor
        .reason
        .as_deref()
        .unwrap_or(record.change.as_str())
}

fn changes(record: &Record, before: Before<'_>) -> BTreeMap<String, FieldChange> {
    let mut differ = Differences::default();
    let after = record
        .change
        .lease
        .as_ref()
        .filter(|_| !record.change.kind.removes());
    match (before.lease(), after) {
        (Some(before), Some(after)) => leases(&mut differ, before, after),
        (Some(before), None) if record.change.kind.removes() => {
            differ.add("present", json!(true), json!(false));
            differ.add("status", status(before.instance.status), Value::Null);
        }
        (None, Some(after)) => {
            // A change of a lease whose past is no longer kept is not its beginning.
            if record.change.kind == ChangeKind::Registered {
                differ.add("present", json!(false), json!(true));
            }
            differ.add("status", Value::Null, status(after.instance.status));
        }
        (None, None) if record.change.kind.removes() => {
            let was = record.change.lease.as_ref();
            differ.add("present", json!(true), json!(false));
            differ.add(
                "status",
                was.map_or(Value::Null, |lease| status(lease.instance.status)),
                Value::Null,
            );
        }
        (Some(_) | None, None) => {}
    }
    if record.change.override_effect != OverrideEffect::Keep {
        let shown = |of: Option<Status>| of.map_or(Value::Null, status);
        // Of an id without a lease only a hold's own override is known.
        let was = match (&record.change.lease, record.change.hold_effect) {
            (Some(_), _) => before.override_(),
            (None, HoldEffect::Put(hold)) if !hold.is_active() => Some(Status::OutOfService),
            (None, _) => None,
        };
        differ.add("override", shown(was), shown(override_after(record)));
    }
    differ.0
}

/// The fields in which two descriptions of one instance differ.
pub fn differences(before: &LeaseImage, after: &LeaseImage) -> BTreeMap<String, FieldChange> {
    let mut differ = Differences::default();
    leases(&mut differ, before, after);
    differ.0
}

fn status(status: Status) -> Value {
    Value::from(status.as_str())
}

#[derive(Default)]
struct Differences(BTreeMap<String, FieldChange>);

impl Differences {
    fn add(&mut self, field: impl Into<String>, before: Value, after: Value) {
        if before != after {
            self.0.insert(field.into(), FieldChange { before, after });
        }
    }

    fn compare<T: PartialEq>(
        &mut self,
        field: &str,
        before: &T,
        after: &T,
        value: impl Fn(&T) -> Value,
    ) {
        if before != after {
            self.add(field, value(before), value(after));
        }
    }

    fn map(&mut self, prefix: &str, before: &Metadata, after: &Metadata) {
        if before == after {
            return;
        }
        for (key, was) in before.iter() {
            let is = after.get(key);
            if is != Some(was) {
                let is = is.map_or(Value::Null, |text| json!(**text));
                self.add(format!("{prefix}.{key}"), json!(**was), is);
            }
        }
        for (key, is) in after.iter() {
            if before.get(key).is_none() {
                self.add(format!("{prefix}.{key}"), Value::Null, json!(**is));
            }
        }
    }
}

fn leases(differ: &mut Differences, before: &LeaseImage, after: &LeaseImage) {
    instances(differ, &before.instance, &after.instance);
    differ.compare("reportedStatus", &before.reported, &after.reported, |s| {
        status(*s)
    });
}

/// What the protocol calls the fields. Left out is what moves with every change and says nothing
/// more: `lastUpdatedTimestamp` and `actionType`.
fn instances(differ: &mut Differences, before: &Instance, after: &Instance) {
    let text = |text: &std::sync::Arc<str>| json!(**text);
    let optional = |text: &Option<std::sync::Arc<str>>| {
        text.as_deref().map_or(Value::Null, |text| json!(text))
    };
    let number = |number: &i32| json!(number);
    differ.compare("status", &before.status, &after.status, |s| status(*s));
    differ.compare(
        "overriddenStatus",
        &before.overridden_status,
        &after.overridden_status,
        |s| status(*s),
    );
    differ.compare("hostName", &before.host_name, &after.host_name, text);
    differ.compare("ipAddr", &before.ip_addr, &after.ip_addr, text);
    differ.compare("sid", &before.sid, &after.sid, optional);
    differ.compare(
        "appGroupName",
        &before.app_group_name,
        &after.app_group_name,
        optional,
    );
    for (field, before, after) in [
        ("port", before.port, after.port),
        ("securePort", before.secure_port, after.secure_port),
    ] {
        differ.compare(field, &before, &after, |is| port(*is));
    }
    differ.compare("countryId", &before.country_id, &after.country_id, number);
    differ.compare(
        "dataCenterInfo",
        &before.data_center,
        &after.data_center,
        data_center,
    );
    differ.compare(
        "leaseInfo.renewalIntervalInSecs",
        &before.lease.renewal_interval_secs,
        &after.lease.renewal_interval_secs,
        number,
    );
    differ.compare(
        "leaseInfo.durationInSecs",
        &before.lease.duration_secs,
        &after.lease.duration_secs,
        number,
    );
    differ.map("metadata", &before.metadata, &after.metadata);
    for (field, before, after) in [
        ("homePageUrl", &before.home_page_url, &after.home_page_url),
        (
            "statusPageUrl",
            &before.status_page_url,
            &after.status_page_url,
        ),
        (
            "healthCheckUrl",
            &before.health_check_url,
            &after.health_check_url,
        ),
        (
            "secureHealthCheckUrl",
            &before.secure_health_check_url,
            &after.secure_health_check_url,
        ),
        ("vipAddress", &before.vip_address, &after.vip_address),
        (
            "secureVipAddress",
            &before.secure_vip_address,
            &after.secure_vip_address,
        ),
        ("asgName", &before.asg_name, &after.asg_name),
    ] {
        differ.compare(field, before, after, optional);
    }
    differ.compare(
        "lastDirtyTimestamp",
        &before.last_dirty_timestamp,
        &after.last_dirty_timestamp,
        |at| json!(at),
    );
}

fn port(port: Port) -> Value {
    json!({ "number": port.number, "enabled": port.enabled })
}

fn data_center(of: &DataCenter) -> Value {
    match of {
        DataCenter::MyOwn => json!({ "name": "MyOwn" }),
        DataCenter::Netflix => json!({ "name": "Netflix" }),
        DataCenter::Amazon { metadata } => {
            let map: serde_json::Map<String, Value> = metadata
                .iter()
                .map(|(key, value)| (key.to_string(), json!(**value)))
                .collect();
            json!({ "name": "Amazon", "metadata": map })
        }
    }
}
