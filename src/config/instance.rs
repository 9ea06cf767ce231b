//! The server as an instance of its own registry: `eureka.instance.*`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::choice::choice;

choice! {
    /// `eureka.instance.initial-status`.
    InitialStatus {
        Up = "UP",
        Starting = "STARTING",
        OutOfService = "OUT_OF_SERVICE",
        Down = "DOWN",
        Unknown = "UNKNOWN",
    }
}

/// This node as its peers and its page show it. Everything is filled in: what is not configured
/// came from the machine or from other settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnInstance {
    /// `eureka.instance.hostname`; the address with `prefer-ip-address`.
    pub host_name: String,
    /// `eureka.instance.ip-address`.
    pub ip_address: String,
    /// `eureka.instance.prefer-ip-address`.
    pub prefer_ip_address: bool,
    /// `eureka.instance.instance-id`, HOST:APPLICATION:PORT unless set.
    pub instance_id: String,
    /// `eureka.instance.appname`, else `spring.application.name`, else `EUREKA-SERVER`.
    pub app_name: String,
    /// `eureka.instance.virtual-host-name`.
    pub vip_address: String,
    /// `eureka.instance.secure-virtual-host-name`.
    pub secure_vip_address: String,
    /// `eureka.instance.app-group-name`.
    pub app_group_name: Option<String>,
    /// `eureka.instance.a-s-g-name`.
    pub asg_name: Option<String>,
    /// `eureka.instance.non-secure-port`, the server's port unless set.
    pub port: u16,
    pub port_enabled: bool,
    /// `eureka.instance.secure-port`.
    pub secure_port: u16,
    pub secure_port_enabled: bool,
    /// `eureka.instance.lease-renewal-interval-in-seconds`.
    pub renewal_interval: Duration,
    /// `eureka.instance.lease-expiration-duration-in-seconds`.
    pub lease_duration: Duration,
    /// `eureka.instance.initial-status`; STARTING with `instance-enabled-onit=false` is the
    /// client's affair and not the server's.
    pub initial_status: InitialStatus,
    /// `eureka.instance.metadata-map.*`.
    pub metadata: BTreeMap<String, String>,
    /// `eureka.instance.home-page-url`, else from `-path`.
    pub home_page_url: String,
    /// `eureka.instance.status-page-url`, else from `-path`.
    pub status_page_url: String,
    /// `eureka.instance.health-check-url`, else from `-path`.
    pub health_check_url: String,
    /// `eureka.instance.secure-health-check-url`.
    pub secure_health_check_url: Option<String>,
    /// `eureka.environment`: shown on the page, used nowhere else.
    pub environment: String,
    /// `eureka.datacenter`: shown on the page, used nowhere else.
    pub data_center: String,
}

impl Default for OwnInstance {
    fn default() -> Self {
        Self {
            host_name: "localhost".to_owned(),
            ip_address: "127.0.0.1".to_owned(),
            prefer_ip_address: false,
            instance_id: "localhost:eureka-server:8761".to_owned(),
            app_name: "EUREKA-SERVER".to_owned(),
            vip_address: "eureka-server".to_owned(),
            secure_vip_address: "eureka-server".to_owned(),
            app_group_name: None,
            asg_name: None,
            port: 8761,
            port_enabled: true,
            secure_port: 443,
            secure_port_enabled: false,
            renewal_interval: Duration::from_secs(30),
            lease_duration: Duration::from_secs(90),
            initial_status: InitialStatus::Up,
            metadata: BTreeMap::new(),
            home_page_url: "http://localhost:8761/".to_owned(),
            status_page_url: "http://localhost:8761/actuator/info".to_owned(),
            health_check_url: "http://localhost:8761/actuator/health".to_owned(),
            secure_health_check_url: None,
            environment: "test".to_owned(),
            data_center: "default".to_owned(),
        }
    }
}
