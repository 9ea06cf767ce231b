//! Durability: the change log on disk, and what a restart needs of it.
//!
//! [`LogStore`] is the only door to the disk for the writer; [`LogReader`] the one for everybody
//! who reads the log by position. The registry itself never comes here: it lives in memory and is
//! rebuilt by [`recovery`] from the newest checkpoint and the records behind it.
