//! The server as an instance of its own registry: `eureka.instance.*`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::ServerConfig;
use super::bind::{Binder, is_secret};
use super::choice::choice;
use super::machine::Machine;
use super::property::Origin;
use super::value::Unit;

/// Longest address that is told to peers, characters.
const ADDRESS_MAX: usize = 255;
/// Longest id of an instance that nodes take unless told otherwise (`eurekad.max-id-bytes`), bytes.
const ID_MAX: usize = 4096;

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

/// The node's own metadata. `Debug` shows the keys alone: values may be credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OwnMetadata(pub BTreeMap<String, String>);

impl fmt::Debug for OwnMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
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
    /// `eureka.instance.instance-id`; unless set HOST:APPLICATION:PORT, without an application that
    /// has no name.
    pub instance_id: String,
    /// `eureka.instance.appname`, else `spring.application.name`, else `unknown`, in the case in
    /// which it was written.
    pub app_name: String,
    /// `eureka.instance.virtual-host-name`.
    pub vip_address: String,
    /// `eureka.instance.secure-virtual-host-name`.
    pub secure_vip_address: String,
    /// `eureka.instance.app-group-name`.
    pub app_group_name: Option<String>,
    /// `eureka.instance.a-s-g-name`.
    pub asg_name: Option<String>,
    /// `eureka.instance.non-secure-port`, the server's port unless set. 0 if the system is to
    /// choose that one; what is built from the port then holds a 0 as well.
    pub port: u16,
    pub port_enabled: bool,
    /// `eureka.instance.secure-port`.
    pub secure_port: u16,
    pub secure_port_enabled: bool,
    /// `eureka.instance.lease-renewal-interval-in-seconds`.
    pub renewal_interval: Duration,
    /// `eureka.instance.lease-expiration-duration-in-seconds`.
    pub lease_duration: Duration,
    /// `eureka.instance.initial-status`.
    pub initial_status: InitialStatus,
    /// `eureka.instance.metadata-map.*`; `management.port` is added, as Spring does.
    pub metadata: OwnMetadata,
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

impl OwnInstance {
    /// Puts in the port that the system chose, where port 0 was asked for: everything that was
    /// derived from it follows.
    pub fn set_port(&mut self, port: u16) {
        if self.port == 0 {
            self.port = port;
        }
        if let Some(start) = self.instance_id.strip_suffix(":0") {
            self.instance_id = format!("{start}:{port}");
        }
        for url in [
            &mut self.home_page_url,
            &mut self.status_page_url,
            &mut self.health_check_url,
        ] {
            *url = url.replacen(":0/", &format!(":{port}/"), 1);
        }
    }
}

impl Default for OwnInstance {
    fn default() -> Self {
        Self {
            host_name: "localhost".to_owned(),
            ip_address: "127.0.0.1".to_owned(),
            prefer_ip_address: false,
            instance_id: "localhost:8761".to_owned(),
            app_name: "unknown".to_owned(),
            vip_address: "unknown".to_owned(),
            secure_vip_address: "unknown".to_owned(),
            app_group_name: None,
            asg_name: None,
            port: 8761,
            port_enabled: true,
            secure_port: 443,
            secure_port_enabled: false,
            renewal_interval: Duration::from_secs(30),
            lease_duration: Duration::from_secs(90),
            initial_status: InitialStatus::Up,
            metadata: OwnMetadata::default(),
            home_page_url: "http://localhost:8761/".to_owned(),
            status_page_url: "http://localhost:8761/actuator/info".to_owned(),
            health_check_url: "http://localhost:8761/actuator/health".to_owned(),
            secure_health_check_url: None,
            environment: "test".to_owned(),
            data_center: "default".to_owned(),
        }
    }
}

impl OwnInstance {
    /// The machine's names stand in for what is not set; `server` has the port.
    pub(super) fn bind(b: &mut Binder<'_>, server: &ServerConfig, machine: &Machine) -> Self {
        const MACHINE: Origin = Origin::Derived("the machine");
        const APP: Origin = Origin::Derived("the application's name");
        let d = Self::default();
        let ip = b.text_of(
            "eureka.instance.ip-address",
            machine.ip_address.clone(),
            MACHINE,
            |text| text.len() <= ADDRESS_MAX && text.chars().all(|c| c.is_ascii_graphic()),
            "up to 255 characters of ASCII without blanks: peers are told it in a header",
        );
        let prefer_ip = b.switch(&["eureka.instance.prefer-ip-address"], d.prefer_ip_address);
        let host = b.text(
            "eureka.instance.hostname",
            machine.host_name.clone(),
            MACHINE,
        );
        let host = if prefer_ip { ip.clone() } else { host };

        let name = b.optional_text("spring.application.name");
        let from_name = name.clone().unwrap_or_else(|| d.app_name.clone());
        let app_name = b.text(
            "eureka.instance.appname",
            from_name,
            Origin::Derived("spring.application.name"),
        );
        let vip = b.text("eureka.instance.virtual-host-name", app_name.clone(), APP);
        let secure_vip = b.text(
            "eureka.instance.secure-virtual-host-name",
            app_name.clone(),
            APP,
        );

        b.unset = Origin::Derived("server.port");
        let port = b.number(
            &["eureka.instance.non-secure-port"],
            server.port,
            0..=u16::MAX,
        );
        b.unset = Origin::Default;
        let id = match &name {
            Some(name) => format!("{host}:{name}:{port}"),
            None => format!("{host}:{port}"),
        };
        let urls = Urls::bind(b, &host, port, server);
        Self {
            instance_id: b.text_of(
                "eureka.instance.instance-id",
                id,
                Origin::Derived("host, application and port"),
                |text| text.len() <= ID_MAX && !text.chars().any(char::is_control),
                "up to 4096 bytes without control characters: peers take no longer ones",
            ),
            host_name: host,
            ip_address: ip,
            prefer_ip_address: prefer_ip,
            app_name,
            vip_address: vip,
            secure_vip_address: secure_vip,
            app_group_name: b.optional_text("eureka.instance.app-group-name"),
            asg_name: b.optional_text("eureka.instance.a-s-g-name"),
            port,
            port_enabled: b.switch(&["eureka.instance.non-secure-port-enabled"], d.port_enabled),
            secure_port: b.number(
                &["eureka.instance.secure-port"],
                d.secure_port,
                0..=u16::MAX,
            ),
            secure_port_enabled: b.switch(
                &["eureka.instance.secure-port-enabled"],
                d.secure_port_enabled,
            ),
            renewal_interval: b.duration_from(
                &["eureka.instance.lease-renewal-interval-in-seconds"],
                Unit::Seconds,
                d.renewal_interval,
                Duration::from_secs(1),
            ),
            lease_duration: b.duration_from(
                &["eureka.instance.lease-expiration-duration-in-seconds"],
                Unit::Seconds,
                d.lease_duration,
                Duration::from_secs(1),
            ),
            initial_status: b.choice("eureka.instance.initial-status", d.initial_status),
            metadata: metadata(b, port),
            home_page_url: urls.home_page,
            status_page_url: urls.status_page,
            health_check_url: urls.health_check,
            secure_health_check_url: b.optional_text("eureka.instance.secure-health-check-url"),
            environment: b.text("eureka.environment", d.environment, Origin::Default),
            data_center: b.text("eureka.datacenter", d.data_center, Origin::Default),
        }
    }
}

/// Where the node's pages are, as its registration tells.
struct Urls {
    home_page: String,
    status_page: String,
    health_check: String,
}

impl Urls {
    fn bind(b: &mut Binder<'_>, host: &str, port: u16, server: &ServerConfig) -> Self {
        let context = &server.context_path;
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let mut url = |name: &str, path_name: &str, path: String| {
            let path = b.text(path_name, path, Origin::Default);
            let slash = if path.starts_with('/') { "" } else { "/" };
            let url = format!("http://{host}:{port}{slash}{path}");
            b.text(name, url, Origin::Derived("its path"))
        };
        Self {
            home_page: url(
                "eureka.instance.home-page-url",
                "eureka.instance.home-page-url-path",
                "/".to_owned(),
            ),
            status_page: url(
                "eureka.instance.status-page-url",
                "eureka.instance.status-page-url-path",
                format!("{context}/actuator/info"),
            ),
            health_check: url(
                "eureka.instance.health-check-url",
                "eureka.instance.health-check-url-path",
                format!("{context}/actuator/health"),
            ),
        }
    }
}

fn metadata(b: &mut Binder<'_>, port: u16) -> OwnMetadata {
    let mut metadata = BTreeMap::new();
    for (key, found) in b.map("eureka.instance.metadata-map") {
        let name = format!("eureka.instance.metadata-map.{key}");
        let shown = if is_secret(&key) {
            "***".to_owned()
        } else {
            found.value.clone()
        };
        b.note(&name, shown, found.origin);
        metadata.insert(key, found.value);
    }
    metadata
        .entry("management.port".to_owned())
        .or_insert_with(|| port.to_string());
    OwnMetadata(metadata)
}
