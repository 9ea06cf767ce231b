//! This node as an instance: how it shows itself in `/status`, and what it registers at its peers.

use std::sync::Arc;

use crate::config::OwnInstance;
use crate::registry::instance::{DataCenter, Instance, LeaseTerms, Port};
use crate::registry::status::Status;
use crate::types::AppName;

/// The instance that the configuration describes; `since` (ms) is the version of the description.
pub fn describe(own: &OwnInstance, since: i64) -> Instance {
    let text = |s: &String| Some(Arc::<str>::from(s.as_str()));
    let seconds = |d: std::time::Duration| i32::try_from(d.as_secs()).unwrap_or(i32::MAX);
    Instance {
        instance_id: text(&own.instance_id),
        app: AppName::new(&own.app_name),
        app_group_name: own.app_group_name.as_ref().and_then(text),
        host_name: own.host_name.as_str().into(),
        ip_addr: own.ip_address.as_str().into(),
        sid: None,
        port: Port {
            number: own.port.into(),
            enabled: own.port_enabled,
        },
        secure_port: Port {
            number: own.secure_port.into(),
            enabled: own.secure_port_enabled,
        },
        country_id: 1,
        data_center: DataCenter::MyOwn,
        status: Status::Up,
        overridden_status: Status::Unknown,
        lease: LeaseTerms {
            renewal_interval_secs: seconds(own.renewal_interval),
            duration_secs: seconds(own.lease_duration),
        },
        metadata: own
            .metadata
            .0
            .iter()
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect(),
        home_page_url: text(&own.home_page_url),
        status_page_url: text(&own.status_page_url),
        health_check_url: text(&own.health_check_url),
        secure_health_check_url: own.secure_health_check_url.as_ref().and_then(text),
        vip_address: text(&own.vip_address),
        secure_vip_address: text(&own.secure_vip_address),
        asg_name: own.asg_name.as_ref().and_then(text),
        last_updated_timestamp: since,
        last_dirty_timestamp: since,
        action_type: None,
    }
}
