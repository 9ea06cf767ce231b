//! From a moment to a position of the log.
//!
//! The position of a moment T is that of the last record written at or before T: the largest LSN
//! whose record says T or earlier. Where the clock was stepped back, records further on say earlier
//! times than those before them; the later position counts, for what was written later is what held
//! then. So a moment that the clock passed twice is the second one, and one that it leapt over is
//! the moment before the leap. Before the first record of a log from which nothing was dropped there was
//! nothing, at position 0.

use super::times;
use super::travel::{Past, TravelError, oldest};
use crate::store::{LogReader, SegmentFacts, StoreError};
use crate::types::{Lsn, Millis};

/// Records read at a time.
const CHUNK_RECORDS: usize = 1024;
const CHUNK_BYTES: usize = 4 << 20;

/// A moment and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub lsn: Lsn,
    /// The time that was asked for; for a position, that of its record.
    pub at: Millis,
    /// LSNs that may have held changes before that moment and that are lost.
    pub lost: Option<(Lsn, Lsn)>,
    /// The time of the first change of all, if the moment lies before it: nothing is lost, there was nothing.
    pub since: Option<Millis>,
}

impl Moment {
    /// The state behind everything that happened up to `at`, of which nothing is missing.
    pub fn whole(lsn: Lsn, at: Millis) -> Self {
        Self {
            lsn,
            at,
            lost: None,
            since: None,
        }
    }

    /// What is not known of it; `past` is the registry that it led to.
    pub fn what_is_lost(&self, past: Option<&Past>) -> Option<String> {
        let (first, last) = self.lost.or(past.and_then(|past| past.lost))?;
        Some(format!(
            "the changes from LSN {first} to {last} are lost; what they changed is not known"
        ))
    }

    /// Since when the log remembers, if the moment lies before that.
    pub fn beginning(&self) -> Option<String> {
        let since = times::format(self.since?);
        Some(format!(
            "nothing had been registered with this node then: its log begins at {since}"
        ))
    }
}

/// The position of a time, which must not lie in the future.
///
/// # Errors
/// [`TravelError::TooOld`] for a time before everything that is kept, unless nothing came before that; the
/// log cannot be read.
pub fn by_time(reader: &dyn LogReader, at: Millis) -> Result<Moment, TravelError> {
    let segments = reader.segments();
    let record = last_record(reader, &segments, at)?;
    // A checkpoint behind which LSNs were skipped tells more than the record before it; one in front
    // of the first record tells what the records go on from.
    let after = record.unwrap_or_default();
    let is_end = |segment: &SegmentFacts| segment.last == after;
    let next = segments.iter().find(|segment| segment.first > after);
    let base = reader
        .bases()
        .into_iter()
        .rev()
        .filter(|_| record.is_none() || segments.iter().any(is_end))
        .find(|base| {
            base.lsn > after
                && base.at <= at
                && next.is_none_or(|next| base.lsn >= next.after && base.lsn < next.first)
        });
    if let Some(base) = base {
        return Ok(Moment::whole(base.lsn, at));
    }
    let Some(lsn) = record else {
        let oldest = oldest(reader)?;
        if !begins_with_the_first_change(reader) {
            return Err(TravelError::TooOld(oldest));
        }
        return Ok(Moment {
            since: oldest.at.filter(|_| reader.last_lsn() > Lsn::ZERO),
            ..Moment::whole(Lsn::ZERO, at)
        });
    };
    let lost = next
        .filter(|next| next.after == lsn && next.has_hole_before())
        .map(|next| (lsn.next(), Lsn(next.first.0 - 1)));
    Ok(Moment {
        lost,
        ..Moment::whole(lsn, at)
    })
}

/// Whether nothing was ever dropped in front of the oldest record, or lost: a store that was moved aside
/// is followed by one that leaves out the LSNs that may have been given out.
fn begins_with_the_first_change(reader: &dyn LogReader) -> bool {
    reader.first_lsn() == Lsn(1)
}

/// The moment of a position: when its record was written. Where LSNs were skipped it is the record
/// before.
///
/// # Errors
/// [`TravelError::Future`] if there is no such position yet, [`TravelError::TooOld`] if it is not
/// kept any more; the log cannot be read.
pub fn by_lsn(reader: &dyn LogReader, lsn: Lsn) -> Result<Moment, TravelError> {
    let bases = reader.bases();
    let exact = bases.iter().find(|base| base.lsn == lsn).copied();
    // A checkpoint may reach further than a log that has lost its end.
    let newest = bases.last().map_or(Lsn::ZERO, |base| base.lsn);
    let newest = newest.max(reader.last_lsn());
    if lsn > newest {
        return Err(TravelError::Future { newest });
    }
    let segments = reader.segments();
    let before = segments.iter().rev().find(|segment| segment.first <= lsn);
    let record = match before {
        Some(segment) => {
            let wanted = lsn.min(segment.last);
            reader.read_back(wanted, 1, 1)?.first().cloned()
        }
        None => None,
    };
    let (lsn, at, lost) = match (record, exact) {
        (Some(record), _) if record.lsn == lsn => (lsn, record.at, None),
        (_, Some(base)) => (lsn, base.at, None),
        (Some(record), None) => (record.lsn, record.at, Some((record.lsn.next(), lsn))),
        (None, None) => match segments.first() {
            // Nothing had happened yet, or nothing since the store before this one was lost.
            Some(front) if front.begins_empty() && lsn.next() == front.first => {
                let lost = (lsn > Lsn::ZERO).then_some((Lsn(1), lsn));
                (lsn, front.earliest, lost)
            }
            _ => return Err(TravelError::TooOld(oldest(reader)?)),
        },
    };
    Ok(Moment {
        lost,
        ..Moment::whole(lsn, at)
    })
}

/// The largest LSN whose record was written at `at` or before.
///
/// Segments say which times they hold, and only the one that decides is read: from its end, since
/// where the clock was stepped back bisection would find any of several places.
fn last_record(
    reader: &dyn LogReader,
    segments: &[SegmentFacts],
    at: Millis,
) -> Result<Option<Lsn>, StoreError> {
    for segment in segments.iter().rev().filter(|s| s.earliest <= at) {
        if segment.latest <= at {
            return Ok(Some(segment.last));
        }
        let mut upto = segment.last;
        while upto >= segment.first {
            let records = reader.read_back(upto, CHUNK_RECORDS, CHUNK_BYTES)?;
            let inside = records.iter().take_while(|r| r.lsn >= segment.first);
            if let Some(found) = inside.clone().find(|record| record.at <= at) {
                return Ok(Some(found.lsn));
            }
            let Some(last) = inside.last() else { break };
            upto = Lsn(last.lsn.0.saturating_sub(1));
        }
    }
    Ok(None)
}
