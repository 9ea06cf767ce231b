//! The log as an answer to questions: who changed what, when, from where and why.
//!
//! Nothing here is a second copy of anything: an [`Entry`] is a record of the change log beside the
//! record of the same instance that came before it, a [`Filter`] says which records are asked for,
//! and a [`Walk`] finds them. The [`Index`] that it goes by is made of the log and can be thrown away.

pub mod cursor;
pub mod entry;
pub mod feed;
pub mod filter;
pub mod follow;
pub mod horizon;
pub mod index;
pub mod query;
#[cfg(test)]
mod testing;
pub mod times;

pub use entry::{Before, Entry};
pub use filter::Filter;
pub use horizon::Horizon;
pub use index::Index;
pub use query::{Order, Question, Walk};
