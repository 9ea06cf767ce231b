//! The log as an answer to questions: who changed what, when, from where and why.
//!
//! Nothing here is a second copy of anything: an [`Entry`] is a record of the change log beside the
//! record of the same instance that came before it, and a [`Filter`] says which records are asked for. A [`position`] is
//! where a moment lies in the log, [`travel`] gives the registry as it was there, and [`diff`] what two
//! of those do not share.

pub mod diff;
pub mod entry;
pub mod filter;
pub mod position;
pub mod times;
pub mod travel;
#[cfg(test)]
mod travel_tests;

pub use entry::{Before, Entry};
pub use filter::Filter;
