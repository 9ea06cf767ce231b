//! Configuration: what every other module may know of the outside.
//!
//! A Spring Eureka server's settings work unchanged: its names (relaxed), its files, its
//! environment variables, its command line. [`Config::load`] reads them in the order command line,
//! environment, files, defaults; each part of [`Config`] holds its own defaults and reads its own
//! keys. [`keys`] says of every known property what becomes of it here.
//!
//! Nothing here looks at the process by itself: arguments, variables, files and the machine's names
//! are handed in.

mod args;
mod bind;
pub mod choice;
mod compatibility;
mod effective;
mod error;
mod instance;
pub mod keys;
mod load;
mod log;
mod machine;
mod name;
mod pages;
mod peers;
mod placeholder;
mod property;
mod registry;
mod server;
mod service_url;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod value;

pub use args::{CLIENT_COMMANDS, Command};
pub use bind::Setting;
pub(crate) use bind::mask;
pub use choice::Choice;
pub use compatibility::*;
pub use error::{ConfigError, ConfigErrors};
pub use instance::{InitialStatus, OwnInstance, OwnMetadata};
pub use load::Loaded;
pub use log::{LogConfig, LogFormat, LogLevel};
pub use machine::Machine;
pub use pages::{DashboardConfig, ManagementConfig, ShowDetails};
pub use peers::{DnsPeers, PeersByAddress, PeersConfig};
pub use property::Origin;
pub use registry::{CacheConfig, RegistryConfig};
pub use server::ServerConfig;
pub use service_url::{Credentials, Secret, ServiceUrl};
pub use source::files::{DiskFiles, FileSource};
pub use store::{
    Durability, LimitsConfig, OnDamagedStore, OnStoreFailure, StoreConfig, is_node_id,
};

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
