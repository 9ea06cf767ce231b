//! Which records of an open store cannot be read: exactly, LSN by LSN.

use crate::store::{LogReader, StoreError};
use crate::types::{Lsn, Millis};

/// Records that are read in one go where nothing is damaged.
const AT_ONCE: usize = 256;
/// Bytes that are read in one go.
const BYTES_AT_ONCE: usize = 1 << 20;

/// LSNs, first and last of each range, oldest first, that cannot be read although they are not left out on
/// purpose: records of the log that are damaged, and what the start at `noticed` found to be lost.
///
/// # Errors
/// Something else went wrong.
pub(super) fn lost(reader: &dyn LogReader, noticed: Millis) -> Result<Vec<(Lsn, Lsn)>, StoreError> {
    let losses = reader.losses().into_iter();
    let mut ranges: Vec<(Lsn, Lsn)> = losses
        .filter(|range| range.noticed == noticed)
        .map(|range| (range.first, range.last))
        .collect();
    for segment in reader.segments() {
        let mut from = segment.first;
        while from <= segment.last {
            let left = segment.last.0 - from.0 + 1;
            let count = usize::try_from(left).unwrap_or(AT_ONCE).min(AT_ONCE);
            if let Some(end) = readable_from(reader, from, count)? {
                from = end.next();
                continue;
            }
            // One of them is damaged: each by itself.
            let to = Lsn(from.0 + count as u64 - 1);
            while from <= to {
                if readable_from(reader, from, 1)?.is_none() && !is_readable_back(reader, from)? {
                    ranges.push((from, from));
                }
                from = from.next();
            }
        }
    }
    ranges.sort_unstable();
    let mut joined: Vec<(Lsn, Lsn)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= end.next() => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    Ok(joined)
}

/// The last of some records that can be read in order, `None` if one of them cannot.
fn readable_from(
    reader: &dyn LogReader,
    from: Lsn,
    count: usize,
) -> Result<Option<Lsn>, StoreError> {
    match reader.read(from, count, BYTES_AT_ONCE) {
        Ok(records) => Ok(records
            .first()
            .filter(|record| record.lsn == from)
            .and(records.last())
            .map(|record| record.lsn)),
        Err(StoreError::Damaged { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The way up may fail on the page behind a record.
fn is_readable_back(reader: &dyn LogReader, lsn: Lsn) -> Result<bool, StoreError> {
    match reader.read_back(lsn, 1, 1) {
        Ok(records) => Ok(records.first().is_some_and(|record| record.lsn == lsn)),
        Err(StoreError::Damaged { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}
