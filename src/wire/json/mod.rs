//! The JSON form: one writer, one reader, and the tokens that the reader works on.

pub(super) mod coerce;
pub(super) mod list;
pub(super) mod read;
pub(super) mod token;
pub(super) mod write;
