//! Names of the wire that both formats share.

use std::sync::Arc;

use crate::registry::instance::{DataCenter, Instance};

pub(super) const DEFAULT_DATA_CENTER_CLASS: &str =
    "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo";
pub(super) const MY_DATA_CENTER_CLASS: &str = "com.netflix.appinfo.MyDataCenterInfo";
pub(super) const AMAZON_CLASS: &str = "com.netflix.appinfo.AmazonInfo";
pub(super) const EMPTY_MAP_CLASS: &str = "java.util.Collections$EmptyMap";

/// What the compact form leaves of Amazon metadata.
pub(super) const COMPACT_AMAZON_KEYS: [&str; 5] = [
    "instance-id",
    "public-ipv4",
    "public-hostname",
    "local-ipv4",
    "availability-zone",
];

pub(super) fn data_center_class(data_center: &DataCenter) -> &'static str {
    match data_center {
        DataCenter::MyOwn | DataCenter::Netflix => DEFAULT_DATA_CENTER_CLASS,
        DataCenter::Amazon { .. } => AMAZON_CLASS,
    }
}

pub(super) fn data_center_name(data_center: &DataCenter) -> &'static str {
    match data_center {
        DataCenter::MyOwn => "MyOwn",
        DataCenter::Netflix => "Netflix",
        DataCenter::Amazon { .. } => "Amazon",
    }
}

/// The deprecated `sid`, unless it says nothing.
pub(super) fn shown_sid(instance: &Instance) -> Option<&Arc<str>> {
    instance
        .sid
        .as_ref()
        .filter(|sid| !matches!(&***sid, "na" | "unknown"))
}
