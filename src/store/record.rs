//! From records to bytes and back; the only module that names bincode.
//!
//! A stored record is an envelope of four bytes (envelope version, kind of record, schema version
//! as `u16` little endian) and a bincode payload: variable-length integers, little endian, no
//! trailing bytes. The envelope decides which frozen struct reads the payload; an unknown one is
//! refused, never skipped. The size is checked before anything is decoded, and decoding reads from
//! a slice only, which cannot be talked into allocating more than the slice accounts for.

use bincode::Options;
use serde::{Deserialize, Serialize};

use crate::registry::change::{HoldEffect, Record};
use crate::store::intern::Interner;
use crate::store::v1::{CheckpointLeaseV1, CheckpointOverrideV1, RecordV1, SegmentV1};
use crate::store::v2::{CheckpointHoldV2, RecordV2};
use crate::store::{CheckpointHold, CheckpointLease, CheckpointOverride, StoreError};

/// Largest record or checkpoint entry, bytes, envelope included.
pub(super) const RECORD_MAX: usize = 2 << 20;

const ENVELOPE_VERSION: u8 = 1;
const ENVELOPE_LEN: usize = 4;

/// The schema version of what is written in the first shape: all that says nothing of holds.
const FIRST: u16 = 1;
/// The schema version of what says something of holds.
const HOLDS: u16 = 2;

/// What an envelope holds. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Change = 1,
    Lease = 2,
    Override = 3,
    Segment = 4,
    Hold = 5,
}

/// Why bytes are not a record.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("written by a newer version: {what} {found}, known up to {known}")]
    Newer {
        what: &'static str,
        found: u16,
        known: u16,
    },
    #[error("{0}")]
    Damaged(String),
}

fn options() -> impl Options {
    bincode::DefaultOptions::new()
        .with_varint_encoding()
        .reject_trailing_bytes()
}

fn seal<T: Serialize>(
    kind: Kind,
    schema: u16,
    value: &T,
    what: impl Fn() -> String,
) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(1024);
    bytes.extend([ENVELOPE_VERSION, kind as u8]);
    bytes.extend(schema.to_le_bytes());
    options()
        .serialize_into(&mut bytes, value)
        .map_err(|error| StoreError::Damaged {
            place: what(),
            cause: format!("cannot be encoded: {error}"),
            way_out: "report this".into(),
        })?;
    if bytes.len() > RECORD_MAX {
        return Err(StoreError::TooLarge {
            what: what(),
            size: bytes.len(),
            limit: RECORD_MAX,
        });
    }
    Ok(bytes)
}

/// The schema version of an enveloped record, and its payload.
fn open(kind: Kind, bytes: &[u8]) -> Result<(u16, &[u8]), DecodeError> {
    if bytes.len() > RECORD_MAX {
        return Err(DecodeError::Damaged(format!(
            "{} bytes long, the limit is {RECORD_MAX}",
            bytes.len()
        )));
    }
    let Some((&[envelope, found_kind, low, high], payload)) =
        bytes.split_first_chunk::<ENVELOPE_LEN>()
    else {
        return Err(DecodeError::Damaged("shorter than its envelope".into()));
    };
    if envelope != ENVELOPE_VERSION {
        return Err(if envelope > ENVELOPE_VERSION {
            DecodeError::Newer {
                what: "envelope",
                found: envelope.into(),
                known: ENVELOPE_VERSION.into(),
            }
        } else {
            DecodeError::Damaged(format!("no envelope version {envelope}"))
        });
    }
    if found_kind != kind as u8 {
        return Err(DecodeError::Damaged(format!(
            "kind {found_kind} instead of {}",
            kind as u8
        )));
    }
    match u16::from_le_bytes([low, high]) {
        0 => Err(DecodeError::Damaged("no schema version".into())),
        schema => Ok((schema, payload)),
    }
}

fn payload<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, DecodeError> {
    options()
        .deserialize(payload)
        .map_err(|error| DecodeError::Damaged(format!("does not decode: {error}")))
}

/// Reads a kind of record that has one shape so far.
fn unseal<'a, T: Deserialize<'a>>(
    kind: Kind,
    known: u16,
    bytes: &'a [u8],
) -> Result<T, DecodeError> {
    match open(kind, bytes)? {
        (schema, content) if schema == known => payload(content),
        (found, _) => Err(newer(found, known)),
    }
}

fn newer(found: u16, known: u16) -> DecodeError {
    if found > known {
        DecodeError::Newer {
            what: "schema",
            found,
            known,
        }
    } else {
        DecodeError::Damaged(format!("no schema version {found} of this kind"))
    }
}

/// The stored form of a record.
///
/// # Errors
/// [`StoreError::TooLarge`] past [`RECORD_MAX`].
pub(super) fn encode(record: &Record) -> Result<Vec<u8>, StoreError> {
    let what = || {
        format!(
            "record {} of {}/{}",
            record.lsn, record.change.app, record.change.id
        )
    };
    match record.change.hold_effect {
        HoldEffect::Keep => seal(Kind::Change, FIRST, &RecordV1::from(record), what),
        HoldEffect::Put(_) => seal(Kind::Change, HOLDS, &RecordV2::from(record), what),
    }
}

/// Reads what [`encode`] wrote; any other bytes are an error, never a panic.
pub(super) fn decode(bytes: &[u8], strings: &mut Interner) -> Result<Record, DecodeError> {
    match open(Kind::Change, bytes)? {
        (FIRST, content) => {
            payload::<RecordV1<'_>>(content).map(|record| record.into_record(strings))
        }
        (HOLDS, content) => {
            payload::<RecordV2<'_>>(content).map(|record| record.into_record(strings))
        }
        (found, _) => Err(newer(found, HOLDS)),
    }
}

pub(super) fn encode_lease(lease: &CheckpointLease) -> Result<Vec<u8>, StoreError> {
    seal(Kind::Lease, FIRST, &CheckpointLeaseV1::from(lease), || {
        format!("lease {}/{}", lease.app, lease.id)
    })
}

pub(super) fn decode_lease(
    bytes: &[u8],
    strings: &mut Interner,
) -> Result<CheckpointLease, DecodeError> {
    unseal::<CheckpointLeaseV1<'_>>(Kind::Lease, FIRST, bytes)
        .map(|lease| lease.into_lease(strings))
}

pub(super) fn encode_override(entry: &CheckpointOverride) -> Result<Vec<u8>, StoreError> {
    seal(
        Kind::Override,
        FIRST,
        &CheckpointOverrideV1::from(entry),
        || format!("override {}", entry.id),
    )
}

pub(super) fn decode_override(
    bytes: &[u8],
    strings: &mut Interner,
) -> Result<CheckpointOverride, DecodeError> {
    unseal::<CheckpointOverrideV1<'_>>(Kind::Override, FIRST, bytes)
        .map(|entry| entry.into_override(strings))
}

pub(super) fn encode_hold(entry: &CheckpointHold) -> Result<Vec<u8>, StoreError> {
    seal(Kind::Hold, HOLDS, &CheckpointHoldV2::from(entry), || {
        format!("hold of {}/{}", entry.app, entry.id)
    })
}

pub(super) fn decode_hold(
    bytes: &[u8],
    strings: &mut Interner,
) -> Result<CheckpointHold, DecodeError> {
    unseal::<CheckpointHoldV2<'_>>(Kind::Hold, HOLDS, bytes).map(|entry| entry.into_hold(strings))
}

pub(super) fn encode_segment(segment: &SegmentV1) -> Result<Vec<u8>, StoreError> {
    seal(Kind::Segment, FIRST, segment, || {
        format!("facts of segment {}", segment.first)
    })
}

pub(super) fn decode_segment(bytes: &[u8]) -> Result<SegmentV1, DecodeError> {
    unseal(Kind::Segment, FIRST, bytes)
}

#[cfg(test)]
#[path = "record_tests.rs"]
pub(super) mod tests;
