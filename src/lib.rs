//! eurekad: a persistent Eureka service registry.
pub mod clock;
pub mod config;
pub mod registry;
pub mod telemetry;
pub mod types;
