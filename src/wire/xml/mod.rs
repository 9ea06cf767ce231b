//! The XML form: one writer, one reader, and the element names that `XStream` makes of map keys.

pub(super) mod list;
pub(super) mod name;
pub(super) mod read;
pub(super) mod status;
pub(super) mod tree;
pub(super) mod write;
