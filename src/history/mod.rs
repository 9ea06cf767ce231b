//! The log as an answer to questions: who changed what, when, from where and why.
//!
//! Nothing here is a second copy of anything: an [`Entry`] is a record of the change log beside the
//! record of the same instance that came before it, a [`Filter`] says which records are asked for,
//! and a [`Walk`] finds them. The [`Index`] that it goes by is made of the log and can be thrown away.
//! A [`position`] is where a moment lies in the log, [`travel`] gives the registry as it was there, and
//! [`diff`] what two of those do not share.

pub mod cursor;
pub mod diff;
pub mod entry;
pub mod feed;
pub mod filter;
pub mod follow;
pub mod horizon;
pub mod index;
pub mod position;
pub mod query;
#[cfg(test)]
mod testing;
pub mod times;
pub mod travel;
#[cfg(test)]
mod travel_tests;

pub use entry::{Before, Entry};
pub use filter::Filter;
pub use horizon::Horizon;
pub use index::Index;
pub use query::{Order, Question, Walk};
