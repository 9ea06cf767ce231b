//! eurekad: a persistent Eureka service registry.
pub mod clock;
pub mod registry;
pub mod store;
pub mod types;
