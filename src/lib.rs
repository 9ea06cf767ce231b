//! eurekad: a persistent Eureka service registry.
pub mod cache;
pub mod changelog;
pub mod clock;
pub mod config;
pub mod history;
pub mod http;
pub mod node;
pub mod own_instance;
pub mod registry;
pub mod replication;
pub mod store;
pub mod telemetry;
pub mod timers;
pub mod tls;
pub mod types;
pub mod wire;
