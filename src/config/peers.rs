//! The other nodes: `eureka.client.service-url.*`, regions and zones, and how to talk to them.
//!
//! Unlike in Spring, a node without a configured service URL has no peers: the default there is the
//! node itself, which only makes a lone node look for itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::bind::{Binder, Found};
use super::choice::choice;
use super::machine::Machine;
use super::name::uniform;
use super::property::Origin;
use super::service_url::{SERVICE_URLS, ServiceUrl};
use super::value::{self, Unit};
use super::{OwnInstance, ServerConfig};
use crate::tls::TlsFiles;

/// The zone whose URLs stand in for those of zones that have none.
const DEFAULT_ZONE: &str = "defaultZone";

choice! {
    /// `eurekad.peers-by-address`: whether a host name in a service URL stands for several peers, one
    /// at each address that it has, as that of a headless Kubernetes service does.
    PeersByAddress {
        /// It does as soon as it has more than one address of a family; `localhost` never does.
        Auto = "auto",
        /// It does, however many addresses it has; `localhost` never does.
        Always = "true",
        /// It is one peer, whatever its addresses.
        Never = "false",
    }
}

/// What `eurekad.dns-servers` looks like, for error texts.
const DNS_SERVERS: &str = "addresses by comma, each with or without a port, e.g. 10.0.0.10:53";

/// Peers from DNS TXT records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsPeers {
    /// `eureka.client.eureka-server-d-n-s-name`.
    pub name: String,
    /// `eureka.client.eureka-server-port`, 8761 unless set.
    pub port: u16,
    /// `eureka.client.eureka-server-u-r-l-context`, without slashes at its ends.
    pub context: String,
}

/// Who the peers are and how this node speaks to them.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch that users know by name"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersConfig {
    /// `eureka.client.service-url.ZONE`, as configured, this node itself included.
    pub service_urls: BTreeMap<String, Vec<ServiceUrl>>,
    /// `eureka.client.use-dns-for-fetching-service-urls` and what belongs to it.
    pub dns: Option<DnsPeers>,
    /// `eurekad.peers-by-address`.
    pub by_address: PeersByAddress,
    /// `eurekad.dns-servers`: who is asked instead of the system's servers; empty for those.
    pub dns_servers: Vec<SocketAddr>,
    /// `eurekad.peer-ca-file`, `eurekad.peer-cert-file`, `eurekad.peer-key-file`.
    pub tls: TlsFiles,
    /// `eureka.client.region`.
    pub region: String,
    /// `eureka.client.availability-zones.REGION`, nearest first.
    pub availability_zones: BTreeMap<String, Vec<String>>,
    /// `eureka.client.prefer-same-zone-eureka`.
    pub prefer_same_zone: bool,
    /// `eureka.server.my-url`: the peer URL that is this node itself.
    pub own_url: Option<ServiceUrl>,
    /// Names and addresses of this node; with `own_port` they tell its own URL in the list.
    pub own_hosts: Vec<String>,
    /// Ports of this node.
    pub own_ports: Vec<u16>,
    /// `eureka.client.register-with-eureka`: true unless there are no peers.
    pub register_with_eureka: bool,
    /// `eureka.client.fetch-registry`: true unless there are no peers.
    pub fetch_registry: bool,
    /// `eureka.server.peer-eureka-nodes-update-interval-ms`: how often the peer list is read.
    pub update_interval: Duration,
    /// `eureka.server.peer-node-connect-timeout-ms`.
    pub connect_timeout: Duration,
    /// `eureka.server.peer-node-read-timeout-ms`.
    pub read_timeout: Duration,
    /// `eureka.client.eureka-server-connect-timeout-seconds`: for the copy of a whole registry.
    pub copy_connect_timeout: Duration,
    /// `eureka.client.eureka-server-read-timeout-seconds`: for the copy of a whole registry.
    pub copy_read_timeout: Duration,
    /// `eureka.server.peer-node-connection-idle-timeout-seconds`.
    pub connection_idle_timeout: Duration,
    /// `eureka.server.min-available-instances-for-peer-replication`: peers that must answer for the
    /// status `isHealthy`; `None` makes no statement.
    pub min_available: Option<u32>,
    /// `eureka.client.should-unregister-on-shutdown`.
    pub unregister_on_shutdown: bool,
}

impl PeersConfig {
    /// The peers by URL: those of all zones of the own region, nearest zone first, each once,
    /// without this node itself.
    pub fn urls(&self) -> Vec<&ServiceUrl> {
        let mut urls: Vec<&ServiceUrl> = Vec::new();
        for zone in self.zones() {
            for url in self.of_zone(zone) {
                let known = urls
                    .iter()
                    .any(|known| known.to_string() == url.to_string());
                if !known && !self.is_own(url) {
                    urls.push(url);
                }
            }
        }
        urls
    }

    /// The zones of the own region, nearest first; the own zone is the first that is named. Where it is not
    /// to be preferred, the list starts behind it and comes round to it, as in the original.
    pub fn zones(&self) -> Vec<&str> {
        let region = uniform(&self.region);
        let zones = self
            .availability_zones
            .iter()
            .find(|(name, _)| uniform(name) == region);
        let Some((own, others)) = zones.and_then(|(_, zones)| zones.split_first()) else {
            return vec![DEFAULT_ZONE];
        };
        let another = others
            .iter()
            .position(|zone| !zone.eq_ignore_ascii_case(own));
        let start = match another {
            Some(place) if !self.prefer_same_zone => place + 1,
            _ => 0,
        };
        let mut zones: Vec<&str> = vec![own];
        zones.extend(others.iter().map(String::as_str));
        zones.rotate_left(start);
        zones
    }

    fn of_zone(&self, zone: &str) -> &[ServiceUrl] {
        let of = |zone: &str| {
            let zone = uniform(zone);
            let mut all = self.service_urls.iter();
            all.find(|(name, _)| uniform(name) == zone)
                .map(|(_, urls)| urls.as_slice())
        };
        of(zone)
            .filter(|urls| !urls.is_empty())
            .or_else(|| of(DEFAULT_ZONE))
            .unwrap_or_default()
    }

    /// Whether a URL is this node: `my-url`, or one of its names with one of its ports. The original
    /// looks at the name alone, and so takes a second node on one machine for itself. A URL by SRV
    /// records is never this node; the peers that it stands for may be.
    pub fn is_own(&self, url: &ServiceUrl) -> bool {
        let same = |own: &ServiceUrl| own.to_string() == url.to_string();
        self.own_url.as_ref().is_some_and(same)
            || (!url.by_srv
                && self.own_ports.contains(&url.port)
                && self
                    .own_hosts
                    .iter()
                    .any(|host| host.eq_ignore_ascii_case(&url.host)))
    }

    /// Whether TLS has to be ready: a service URL is https, or files for it are named.
    pub fn uses_tls(&self) -> bool {
        !self.tls.is_empty() || self.service_urls.values().flatten().any(|url| url.secure)
    }

    /// Whether there is anybody to talk to.
    pub fn has_peers(&self) -> bool {
        self.dns.is_some() || !self.urls().is_empty()
    }
}

impl Default for PeersConfig {
    fn default() -> Self {
        Self {
            service_urls: BTreeMap::new(),
            dns: None,
            by_address: PeersByAddress::Auto,
            dns_servers: Vec::new(),
            tls: TlsFiles::default(),
            region: "us-east-1".to_owned(),
            availability_zones: BTreeMap::new(),
            prefer_same_zone: true,
            own_url: None,
            own_hosts: Vec::new(),
            own_ports: Vec::new(),
            register_with_eureka: false,
            fetch_registry: false,
            update_interval: Duration::from_mins(10),
            connect_timeout: Duration::from_millis(200),
            read_timeout: Duration::from_millis(200),
            copy_connect_timeout: Duration::from_secs(5),
            copy_read_timeout: Duration::from_secs(8),
            connection_idle_timeout: Duration::from_secs(30),
            min_available: None,
            unregister_on_shutdown: true,
        }
    }
}

impl PeersConfig {
    pub(super) fn bind(
        b: &mut Binder<'_>,
        server: &ServerConfig,
        own: &OwnInstance,
        machine: &Machine,
    ) -> Self {
        let own_hosts = [
            own.host_name.as_str(),
            own.ip_address.as_str(),
            machine.host_name.as_str(),
            "localhost",
            "127.0.0.1",
            "::1",
        ];
        let mut config = Self {
            own_hosts: own_hosts.map(str::to_owned).to_vec(),
            own_ports: vec![server.port, own.port],
            ..Self::default()
        };
        config.bind_places(b);
        config.warn_of_unused_zones(b);

        let lone = !config.has_peers();
        b.unset = Origin::Derived("whether there are peers");
        config.register_with_eureka = b.switch(&["eureka.client.register-with-eureka"], !lone);
        config.fetch_registry = b.switch(&["eureka.client.fetch-registry"], !lone);
        b.unset = Origin::Default;
        config.bind_times(b);
        config
    }

    /// Where the peers are.
    fn bind_places(&mut self, b: &mut Binder<'_>) {
        self.region = b.text("eureka.client.region", self.region.clone(), Origin::Default);
        self.prefer_same_zone = b.switch(
            &["eureka.client.prefer-same-zone-eureka"],
            self.prefer_same_zone,
        );
        for (region, found) in b.map("eureka.client.availability-zones") {
            let zones = value::list(&found.value);
            let name = format!("eureka.client.availability-zones.{region}");
            b.note(&name, zones.join(","), found.origin);
            self.availability_zones.insert(region, zones);
        }
        for (zone, found) in b.map("eureka.client.service-url") {
            if let Some(urls) = service_urls(b, found) {
                self.service_urls.insert(zone, urls);
            }
        }
        self.own_url = b.other(
            &["eureka.server.my-url"],
            None,
            |text| ServiceUrl::parse(text).filter(|url| !url.by_srv).map(Some),
            |url| url.as_ref().map(ServiceUrl::masked).unwrap_or_default(),
            SERVICE_URLS,
        );
        self.by_address = b.choice("eurekad.peers-by-address", self.by_address);
        self.dns_servers = b.other(
            &["eurekad.dns-servers"],
            Vec::new(),
            dns_servers,
            |servers| {
                let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
                servers.join(",")
            },
            DNS_SERVERS,
        );
        self.bind_dns(b);
        self.bind_tls(b);
    }

    /// What https to peers is made of besides the system's certification authorities.
    fn bind_tls(&mut self, b: &mut Binder<'_>) {
        const CERTIFICATE: &str = "eurekad.peer-cert-file";
        const KEY: &str = "eurekad.peer-key-file";
        let mut file = |name| b.optional_text(name).map(PathBuf::from);
        self.tls = TlsFiles {
            ca: file("eurekad.peer-ca-file"),
            certificate: file(CERTIFICATE),
            key: file(KEY),
        };
        match (&self.tls.certificate, &self.tls.key) {
            (Some(_), None) => b.refuse_switch(CERTIFICATE, &format!("only together with {KEY}")),
            (None, Some(_)) => b.refuse_switch(KEY, &format!("only together with {CERTIFICATE}")),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }

    /// Peers from TXT records, which take the place of all service URLs.
    fn bind_dns(&mut self, b: &mut Binder<'_>) {
        let use_dns = b.switch(&["eureka.client.use-dns-for-fetching-service-urls"], false);
        let name = b.optional_text("eureka.client.eureka-server-d-n-s-name");
        let port = b.number(&["eureka.client.eureka-server-port"], 8761, 1..=u16::MAX);
        let context = b.text(
            "eureka.client.eureka-server-u-r-l-context",
            "eureka".to_owned(),
            Origin::Default,
        );
        if use_dns {
            if !self.service_urls.is_empty() {
                b.warnings.push(
                    "service URLs are not used, since the peers come from DNS \
                     (eureka.client.use-dns-for-fetching-service-urls)"
                        .to_owned(),
                );
            }
            match name {
                Some(name) => {
                    let context = context.trim_matches('/').to_owned();
                    self.dns = Some(DnsPeers {
                        name,
                        port,
                        context,
                    });
                }
                None => b.refuse_switch(
                    "eureka.client.use-dns-for-fetching-service-urls",
                    "true only together with eureka.client.eureka-server-d-n-s-name",
                ),
            }
        }
    }

    fn warn_of_unused_zones(&self, b: &mut Binder<'_>) {
        let zones: Vec<String> = self.zones().into_iter().map(uniform).collect();
        let unused: Vec<&str> = self
            .service_urls
            .keys()
            .filter(|zone| {
                let zone = uniform(zone);
                zone != uniform(DEFAULT_ZONE) && !zones.contains(&zone)
            })
            .map(String::as_str)
            .collect();
        if !unused.is_empty() {
            b.warnings.push(format!(
                "service URLs of zones that eureka.client.availability-zones.{} does not name are \
                 not used: {}",
                self.region,
                unused.join(", ")
            ));
        }
    }

    /// How long things may take.
    fn bind_times(&mut self, b: &mut Binder<'_>) {
        let tick = Duration::from_millis(1);
        let mut ms =
            |name: &str, default: Duration| b.duration_from(&[name], Unit::Millis, default, tick);
        self.update_interval = ms(
            "eureka.server.peer-eureka-nodes-update-interval-ms",
            self.update_interval,
        );
        self.connect_timeout = ms(
            "eureka.server.peer-node-connect-timeout-ms",
            self.connect_timeout,
        );
        self.read_timeout = ms("eureka.server.peer-node-read-timeout-ms", self.read_timeout);
        let mut seconds =
            |name: &str, default: Duration| b.duration_from(&[name], Unit::Seconds, default, tick);
        self.copy_connect_timeout = seconds(
            "eureka.client.eureka-server-connect-timeout-seconds",
            self.copy_connect_timeout,
        );
        self.copy_read_timeout = seconds(
            "eureka.client.eureka-server-read-timeout-seconds",
            self.copy_read_timeout,
        );
        self.connection_idle_timeout = seconds(
            "eureka.server.peer-node-connection-idle-timeout-seconds",
            self.connection_idle_timeout,
        );
        self.min_available = b.other(
            &["eureka.server.min-available-instances-for-peer-replication"],
            None,
            |text| match text.parse::<i64>().ok()? {
                -1 => Some(None),
                count => u32::try_from(count).ok().map(Some),
            },
            |count| count.map_or_else(|| "-1".to_owned(), |count| count.to_string()),
            "a number of peers, or -1 for no statement",
        );
        self.unregister_on_shutdown = b.switch(
            &["eureka.client.should-unregister-on-shutdown"],
            self.unregister_on_shutdown,
        );
    }
}

/// Addresses by comma; the port is 53 where there is none.
fn dns_servers(text: &str) -> Option<Vec<SocketAddr>> {
    let server = |text: &String| {
        let with_port = text.parse::<SocketAddr>().ok();
        let server = with_port.or_else(|| {
            let address = text.trim_start_matches('[').trim_end_matches(']');
            Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, 53))
        })?;
        (server.port() != 0).then_some(server)
    };
    value::list(text).iter().map(server).collect()
}

/// The URLs of one zone; notes them with their credentials masked.
fn service_urls(b: &mut Binder<'_>, found: Found) -> Option<Vec<ServiceUrl>> {
    let urls: Option<Vec<ServiceUrl>> = value::list(&found.value)
        .iter()
        .map(|text| ServiceUrl::parse(text))
        .collect();
    let Some(urls) = urls else {
        b.refuse(found, SERVICE_URLS);
        return None;
    };
    let shown: Vec<String> = urls.iter().map(ServiceUrl::masked).collect();
    b.note(&found.name, shown.join(","), found.origin);
    Some(urls)
}
