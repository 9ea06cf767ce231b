//! Instances in the portable form.

use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::record::{is_default, status};
use crate::registry::instance::{ActionType, DataCenter, Instance, LeaseTerms, Metadata, Port};
use crate::registry::status::Status;
use crate::types::AppName;

type Text = Arc<str>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PortableInstance {
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
