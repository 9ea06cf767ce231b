//! An instance on its way in: decoded, with what was absent told apart from what was empty, and
//! then validated in the order that clients know (`protocol.md` 1.7).

use std::sync::Arc;

use crate::registry::change::is_untouched;
use crate::registry::instance::{
    ActionType, DEFAULT_DURATION_SECS, DEFAULT_PORT, DEFAULT_RENEWAL_INTERVAL_SECS,
    DEFAULT_SECURE_PORT, DataCenter, Instance, LeaseTerms, Metadata, Port,
};
use crate::registry::status::Status;
use crate::types::AppName;
use crate::wire::{DecodeError, LeaseTimes, Limits};

const INSTANCE_ID_KEY: &str = "instance-id";

/// An instance as it was sent, before validation: absent and null fields are `None`, defaults are
/// filled in where the protocol has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub instance_id: Option<Arc<str>>,
    /// Empty if it was sent empty.
    pub app: AppName,
    pub app_group_name: Option<Arc<str>>,
    pub host_name: Option<Arc<str>>,
    pub ip_addr: Option<Arc<str>>,
    pub sid: Option<Arc<str>>,
    pub port: Port,
    pub secure_port: Port,
    pub country_id: i32,
    pub data_center: Option<DataCenterDraft>,
    pub status: Status,
    pub overridden_status: Status,
    pub lease: LeaseTerms,
    /// Times of the lease as the sender saw them; only a copy of a peer's registry has use for them.
    pub lease_times: LeaseTimes,
    pub metadata: Metadata,
    pub home_page_url: Option<Arc<str>>,
    pub status_page_url: Option<Arc<str>>,
    pub health_check_url: Option<Arc<str>>,
    pub secure_health_check_url: Option<Arc<str>>,
    pub vip_address: Option<Arc<str>>,
    pub secure_vip_address: Option<Arc<str>>,
    pub asg_name: Option<Arc<str>>,
    /// As the sender saw it, 0 if it said nothing; a registration overwrites it.
    pub last_updated_timestamp: i64,
    /// The time of the decoding if the sender said nothing.
    pub last_dirty_timestamp: i64,
    pub action_type: Option<ActionType>,
}

/// Data-centre info as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataCenterDraft {
    /// It has no name.
    Nameless,
    Named(DataCenter),
}

impl Draft {
    /// The identity as [`Instance::id`] will derive it; empty if there is none.
    pub fn id(&self) -> &str {
        if let Some(id) = self.instance_id.as_deref().filter(|id| !id.is_empty()) {
            return id;
        }
        if let Some(DataCenterDraft::Named(DataCenter::Amazon { metadata })) = &self.data_center
            && let Some(id) = metadata.get(INSTANCE_ID_KEY).filter(|id| !id.is_empty())
        {
            return id;
        }
        self.host_name.as_deref().unwrap_or("")
    }

    /// Whether its node says that nothing has happened to it since it was registered
    /// ([`LeaseImage::is_untouched`](crate::registry::change::LeaseImage::is_untouched)).
    pub fn is_untouched(&self) -> bool {
        is_untouched(self.last_updated_timestamp, self.lease_times.registration)
    }

    /// The decoder's starting point: all defaults, no application yet.
    pub(super) fn new(now_ms: i64) -> Self {
        Self {
            instance_id: None,
            app: AppName::new(""),
            app_group_name: None,
            host_name: None,
            ip_addr: None,
            sid: None,
            port: Port {
                number: DEFAULT_PORT,
                enabled: true,
            },
            secure_port: Port {
                number: DEFAULT_SECURE_PORT,
                enabled: false,
            },
            country_id: 1,
            data_center: None,
            status: Status::Up,
            overridden_status: Status::Unknown,
            lease: LeaseTerms::default(),
            lease_times: LeaseTimes::default(),
            metadata: Metadata::default(),
            home_page_url: None,
            status_page_url: None,
            health_check_url: None,
            secure_health_check_url: None,
            vip_address: None,
            secure_vip_address: None,
            asg_name: None,
            last_updated_timestamp: 0,
            last_dirty_timestamp: now_ms,
            action_type: None,
        }
    }

    /// The place of a plain text field, by its name on the wire.
    pub(super) fn text_field(&mut self, name: &str) -> Option<&mut Option<Arc<str>>> {
        Some(match name {
            "instanceId" => &mut self.instance_id,
            "hostName" => &mut self.host_name,
            "ipAddr" => &mut self.ip_addr,
            "sid" => &mut self.sid,
            "appGroupName" => &mut self.app_group_name,
            "homePageUrl" => &mut self.home_page_url,
            "statusPageUrl" => &mut self.status_page_url,
            "healthCheckUrl" => &mut self.health_check_url,
            "secureHealthCheckUrl" => &mut self.secure_health_check_url,
            "vipAddress" => &mut self.vip_address,
            "secureVipAddress" => &mut self.secure_vip_address,
            "asgName" => &mut self.asg_name,
            _ => return None,
        })
    }

    /// Takes one number of the lease; other names mean nothing. Terms that are not positive are
    /// the defaults.
    pub(super) fn set_lease_field(&mut self, name: &str, value: i64) {
        let terms = |default| match i32::try_from(value) {
            Ok(secs) if secs > 0 => secs,
            Ok(_) => default,
            Err(_) if value > 0 => i32::MAX,
            Err(_) => default,
        };
        match name {
            "renewalIntervalInSecs" => {
                self.lease.renewal_interval_secs = terms(DEFAULT_RENEWAL_INTERVAL_SECS);
            }
            "durationInSecs" => self.lease.duration_secs = terms(DEFAULT_DURATION_SECS),
            "registrationTimestamp" => self.lease_times.registration = value,
            // The second is an old name of the first.
            "lastRenewalTimestamp" | "renewalTimestamp" => self.lease_times.last_renewal = value,
            "evictionTimestamp" => self.lease_times.eviction = value,
            "serviceUpTimestamp" => self.lease_times.service_up = value,
            "vouchedMs" => self.lease_times.vouched_ms = u64::try_from(value).ok(),
            _ => {}
        }
    }
}

/// Collects metadata within the limits.
#[derive(Debug, Default)]
pub(super) struct MetadataDraft {
    entries: Vec<(Arc<str>, Arc<str>)>,
    bytes: usize,
}

impl MetadataDraft {
    /// Adds an entry. The key `@class` names a Java class and is dropped.
    pub(super) fn put(
        &mut self,
        key: &str,
        value: &str,
        limits: &Limits,
    ) -> Result<(), DecodeError> {
        if key == "@class" {
            return Ok(());
        }
        if self.entries.len() >= limits.metadata_entries {
            let max = limits.metadata_entries;
            return Err(DecodeError::new(format!(
                "more than {max} metadata entries (limit metadata_entries)"
            )));
        }
        check_length("metadata key", key, limits.id_bytes, "id_bytes")?;
        check_length("metadata value", value, limits.field_bytes, "field_bytes")?;
        self.bytes += key.len() + value.len();
        if self.bytes > limits.metadata_bytes {
            let max = limits.metadata_bytes;
            return Err(DecodeError::new(format!(
                "more than {max} bytes of metadata (limit metadata_bytes)"
            )));
        }
        self.entries.push((key.into(), value.into()));
        Ok(())
    }

    pub(super) fn finish(self) -> Metadata {
        self.entries.into_iter().collect()
    }
}

/// Checks the length of one text; the error names the field and the limit.
pub(super) fn check_length(
    what: &str,
    text: &str,
    max: usize,
    limit: &str,
) -> Result<(), DecodeError> {
    if text.len() <= max {
        return Ok(());
    }
    let length = text.len();
    Err(DecodeError::new(format!(
        "{what} has {length} bytes, more than {max} (limit {limit})"
    )))
}

/// Checks a text field by its name: what identifies is held shorter than what describes.
pub(super) fn check_field(name: &str, text: &str, limits: &Limits) -> Result<(), DecodeError> {
    match name {
        "instanceId" | "hostName" | "app" => check_length(name, text, limits.id_bytes, "id_bytes"),
        _ => check_length(name, text, limits.field_bytes, "field_bytes"),
    }
}

/// Why a decoded registration is refused, always with status 400; displays as the plain text that
/// the client gets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("Missing instanceId")]
    MissingInstanceId,
    #[error("Missing hostname")]
    MissingHostName,
    #[error("Missing ip address")]
    MissingIpAddr,
    #[error("Missing appName")]
    MissingAppName,
    #[error("Mismatched appName, expecting {expected} but was {was}")]
    MismatchedAppName { expected: AppName, was: AppName },
    #[error("Missing dataCenterInfo")]
    MissingDataCenterInfo,
    #[error("Missing dataCenterInfo Name")]
    MissingDataCenterName,
    #[error("DataCenterInfo of type class com.netflix.appinfo.AmazonInfo must contain a valid id")]
    MissingDataCenterId,
}

/// Checks a draft in the order of `protocol.md` 1.7 against the application of the path (in any
/// case), and makes the instance of it.
///
/// Amazon info without an `instance-id` gets the instance's own id, unless `require_data_center_id`
/// (the experimental flag `registration.validation.dataCenterInfoId`) refuses it.
pub fn validate(
    draft: Draft,
    path_app: &str,
    require_data_center_id: bool,
) -> Result<Instance, Refusal> {
    let id: Arc<str> = draft.id().into();
    if id.is_empty() {
        return Err(Refusal::MissingInstanceId);
    }
    let host_name = filled(draft.host_name).ok_or(Refusal::MissingHostName)?;
    let ip_addr = filled(draft.ip_addr).ok_or(Refusal::MissingIpAddr)?;
    if draft.app.as_str().is_empty() {
        return Err(Refusal::MissingAppName);
    }
    let expected = AppName::new(path_app);
    if draft.app != expected {
        return Err(Refusal::MismatchedAppName {
            expected,
            was: draft.app,
        });
    }
    let data_center = match draft.data_center {
        None => return Err(Refusal::MissingDataCenterInfo),
        Some(DataCenterDraft::Nameless) => return Err(Refusal::MissingDataCenterName),
        Some(DataCenterDraft::Named(data_center)) => {
            with_id(data_center, &id, require_data_center_id)?
        }
    };
    Ok(Instance {
        instance_id: draft.instance_id,
        app: draft.app,
        app_group_name: draft.app_group_name,
        host_name,
        ip_addr,
        sid: draft.sid,
        port: draft.port,
        secure_port: draft.secure_port,
        country_id: draft.country_id,
        data_center,
        status: draft.status,
        overridden_status: draft.overridden_status,
        lease: draft.lease,
        metadata: draft.metadata,
        home_page_url: draft.home_page_url,
        status_page_url: draft.status_page_url,
        health_check_url: draft.health_check_url,
        secure_health_check_url: draft.secure_health_check_url,
        vip_address: draft.vip_address,
        secure_vip_address: draft.secure_vip_address,
        asg_name: draft.asg_name,
        last_updated_timestamp: draft.last_updated_timestamp,
        last_dirty_timestamp: draft.last_dirty_timestamp,
        action_type: draft.action_type,
    })
}

fn filled(text: Option<Arc<str>>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty())
}

fn with_id(
    data_center: DataCenter,
    id: &Arc<str>,
    require_data_center_id: bool,
) -> Result<DataCenter, Refusal> {
    let DataCenter::Amazon { metadata } = data_center else {
        return Ok(data_center);
    };
    match metadata.get(INSTANCE_ID_KEY) {
        Some(given) if !given.is_empty() => Ok(DataCenter::Amazon { metadata }),
        _ if require_data_center_id => Err(Refusal::MissingDataCenterId),
        // An empty id is kept as it was sent; only an absent one is filled in.
        Some(_) => Ok(DataCenter::Amazon { metadata }),
        None => {
            let entry = (Arc::from(INSTANCE_ID_KEY), id.clone());
            Ok(DataCenter::Amazon {
                metadata: metadata.with([entry]),
            })
        }
    }
}
