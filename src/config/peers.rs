//! The other nodes: `eureka.client.service-url.*`, regions and zones, and how to talk to them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::service_url::ServiceUrl;

/// Peers from DNS TXT records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsPeers {
    /// `eureka.client.eureka-server-d-n-s-name`.
    pub name: String,
    /// `eureka.client.eureka-server-port`.
    pub port: Option<u16>,
    /// `eureka.client.eureka-server-u-r-l-context`, without slashes at its ends.
    pub context: String,
}

/// Who the peers are and how this node speaks to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersConfig {
    /// `eureka.client.service-url.ZONE`, as configured; empty on a lone node.
    pub service_urls: BTreeMap<String, Vec<ServiceUrl>>,
    /// `eureka.client.use-dns-for-fetching-service-urls` and what belongs to it.
    pub dns: Option<DnsPeers>,
    /// `eureka.client.region`.
    pub region: String,
    /// `eureka.client.availability-zones.REGION`, nearest first.
    pub availability_zones: BTreeMap<String, Vec<String>>,
    /// `eureka.client.prefer-same-zone-eureka`.
    pub prefer_same_zone: bool,
    /// `eureka.server.my-url`: the peer URL that is this node itself.
    pub own_url: Option<ServiceUrl>,
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
    /// `eureka.server.peer-node-connection-idle-timeout-seconds`.
    pub connection_idle_timeout: Duration,
    /// `eureka.server.min-available-instances-for-peer-replication`: peers that must answer for the
    /// status `isHealthy`; `None` makes no statement.
    pub min_available: Option<u32>,
    /// `eureka.client.registry-fetch-interval-seconds`.
    pub fetch_interval: Duration,
    /// `eureka.client.instance-info-replication-interval-seconds`: own changes to the peers.
    pub own_change_interval: Duration,
    /// `eureka.client.should-unregister-on-shutdown`.
    pub unregister_on_shutdown: bool,
}

impl PeersConfig {
    /// The URLs of all zones of the own region, in the order of the zones, each once.
    pub fn urls(&self) -> Vec<&ServiceUrl> {
        let mut urls: Vec<&ServiceUrl> = Vec::new();
        for url in self.service_urls.values().flatten() {
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        urls
    }
}

impl Default for PeersConfig {
    fn default() -> Self {
        Self {
            service_urls: BTreeMap::new(),
            dns: None,
            region: "us-east-1".to_owned(),
            availability_zones: BTreeMap::new(),
            prefer_same_zone: true,
            own_url: None,
            register_with_eureka: false,
            fetch_registry: false,
            update_interval: Duration::from_mins(10),
            connect_timeout: Duration::from_millis(200),
            read_timeout: Duration::from_millis(200),
            connection_idle_timeout: Duration::from_secs(30),
            min_available: None,
            fetch_interval: Duration::from_secs(30),
            own_change_interval: Duration::from_secs(30),
            unregister_on_shutdown: true,
        }
    }
}
