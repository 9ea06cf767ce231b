//! Configuration: what every other module may know of the outside.

pub mod choice;
mod compatibility;
mod instance;
mod log;
mod pages;
mod peers;
mod registry;
mod server;
mod service_url;
mod store;

pub use choice::Choice;
pub use compatibility::*;
pub use instance::{InitialStatus, OwnInstance};
pub use log::{LogConfig, LogFormat, LogLevel};
pub use pages::{DashboardConfig, ManagementConfig, ShowDetails};
pub use peers::{DnsPeers, PeersConfig};
pub use registry::{CacheConfig, RegistryConfig};
pub use server::ServerConfig;
pub use service_url::{Credentials, Secret, ServiceUrl};
pub use store::{Durability, LimitsConfig, OnDamagedStore, OnStoreFailure, StoreConfig};

/// Everything that can be set, checked and complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub server: ServerConfig,
    pub compatibility: Compatibility,
    pub registry: RegistryConfig,
    pub cache: CacheConfig,
    pub store: StoreConfig,
    pub limits: LimitsConfig,
    pub instance: OwnInstance,
    pub peers: PeersConfig,
    pub dashboard: DashboardConfig,
    pub management: ManagementConfig,
    pub log: LogConfig,
}
