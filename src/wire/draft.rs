//! draft
use std::sync::Arc;

use crate::registry::instance::{ActionType, DataCenter, Instance, LeaseTerms, Metadata, Port};
use crate::registry::status::Status;
use crate::types::AppName;

use super::LeaseTimes;

/// An instance as it was sent, before validation: absent and null fields are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub instance_id: Option<Arc<str>>,
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
    pub last_updated_timestamp: i64,
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
    MismatchedAppName { expected: String, was: String },
    #[error("Missing dataCenterInfo")]
    MissingDataCenterInfo,
    #[error("Missing dataCenterInfo Name")]
    MissingDataCenterName,
    #[error("DataCenterInfo of type class com.netflix.appinfo.AmazonInfo must contain a valid id")]
    MissingDataCenterId,
}

/// Checks a draft in the order of `protocol.md` 1.7 against the application of the path.
pub fn validate(
    draft: Draft,
    path_app: &str,
    require_data_center_id: bool,
) -> Result<Instance, Refusal> {
    let _ = (draft, path_app, require_data_center_id, DataCenter::MyOwn);
    todo!()
}
