//! The log as an answer to questions: who changed what, when, from where and why.
//!
//! Nothing here is a second copy of anything: an [`Entry`] is a record of the change log beside the
//! record of the same instance that came before it, and a [`Filter`] says which records are asked for.

pub mod entry;
pub mod feed;
pub mod filter;
pub mod times;

pub use entry::{Before, Entry};
pub use filter::Filter;
