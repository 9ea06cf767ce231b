//! Records, leases and overrides as JSON that is complete: what is written here can be read back
//! into exactly what it was, by this version and later ones.
//!
//! It is the form of `eurekad export --history` and of `full=true` in the history, made for moving a
//! store to another machine, for backups and for other programs. The store itself has a form of its
//! own ([`crate::store`]). Times are ms since the epoch, spans ms or what the name says; names are
//! those of the protocol where it has one. Fields that hold nothing are left out. [`FORM`] counts the
//! changes of the form that older versions could not read; unknown fields are refused, since leaving
//! them out would lose what they say.

mod hold;
mod instance;
mod line;
mod record;

use serde::Deserialize as _;

pub use self::line::{End, Head, PortableLine, State};
use self::record::PortableRecord;
use crate::history::entry::kind_word;
use crate::registry::change::{ChangeKind, HoldEffect, LeaseImage, Record};
use crate::types::Lsn;

/// The form that this version writes, and the newest that it reads.
pub const FORM: u32 = 1;

/// Whether a record that was read can be one of a log: [`crate::registry`] relies on what is checked
/// here.
///
/// # Errors
/// Says what it lacks.
pub fn check(record: &Record) -> Result<(), String> {
    let change = &record.change;
    if record.lsn == Lsn::ZERO {
        return Err("lsn 0 is before the first record".to_owned());
    }
    match &change.lease {
        Some(image) => check_lease(image),
        // Holds of ids that were not there.
        None if change.hold_effect != HoldEffect::Keep => Ok(()),
        None if change.kind == ChangeKind::OverrideForgotten => Ok(()),
        None => Err(format!("{} without a lease", kind_word(change.kind))),
    }
}

/// The same for a lease.
///
/// # Errors
/// Says what it lacks.
pub fn check_lease(image: &LeaseImage) -> Result<(), String> {
    let terms = image.instance.lease;
    if terms.renewal_interval_secs <= 0 || terms.duration_secs <= 0 {
        return Err("the terms of the lease are not positive".to_owned());
    }
    if image.instance.id_text().is_empty() {
        return Err("the instance has no id".to_owned());
    }
    Ok(())
}

/// A record as one JSON object.
pub fn encode(record: &Record) -> serde_json::Value {
    serde_json::to_value(PortableRecord::from(record))
        .expect("texts, numbers and maps with keys of text are JSON")
}

/// Reads what [`encode`] wrote; any other value is an error, never a panic.
///
/// # Errors
/// Says what is wrong with it.
pub fn decode(value: &serde_json::Value) -> Result<Record, String> {
    PortableRecord::deserialize(value)
        .map(Record::from)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
