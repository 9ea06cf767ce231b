//! Stores that fail on purpose, for the tests of the whole crate.
