//! How far back the log goes, and what an answer has to say about it.

use super::Filter;
use super::times;
use crate::store::{LogReader, LostRange, SegmentFacts, StoreError};
use crate::types::{Lsn, Millis};

/// Times that the oldest record is looked for while the log is being trimmed.
const ATTEMPTS: usize = 8;

/// The beginning of what is kept, and what is missing in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    /// The oldest record that is kept, or the next one if there is none.
    pub oldest_lsn: Lsn,
    /// Wall time of that record. A clock that was stepped back may have left earlier times behind
    /// it; what was dropped is told by position, not by time.
    pub oldest: Option<Millis>,
    /// Neighbours between which records were lost.
    holes: Vec<(SegmentFacts, SegmentFacts)>,
    /// What was lost right in front of what is kept, first and last.
    lost_in_front: Option<(Lsn, Lsn)>,
    /// What was lost at the end of the log, behind the records of the segment.
    lost_at_end: Option<(SegmentFacts, LostRange)>,
}

/// What was lost with a damaged store right in front of what is kept: it did not go with its age.
pub(super) fn lost_in_front(reader: &dyn LogReader) -> Option<(Lsn, Lsn)> {
    let oldest = reader.first_lsn();
    let mut losses = reader.losses().into_iter();
    losses
        .find(|lost| lost.first < oldest && oldest <= lost.next)
        .map(|lost| (lost.first, lost.last))
}

impl Horizon {
    /// Looks; reads one record.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn of(reader: &dyn LogReader) -> Result<Self, StoreError> {
        let segments = reader.segments();
        let holes = segments
            .windows(2)
            .filter(|pair| pair[0].last.next() != pair[1].first)
            .map(|pair| (pair[0], pair[1]))
            .collect();
        let mut horizon = Self {
            oldest_lsn: reader.first_lsn(),
            oldest: None,
            holes,
            lost_in_front: lost_in_front(reader),
            lost_at_end: None,
        };
        let end = reader.segments().last().copied();
        horizon.lost_at_end = end.and_then(|end| {
            let mut losses = reader.losses().into_iter();
            losses
                .find(|lost| lost.first > end.last)
                .map(|lost| (end, lost))
        });
        for attempt in 1..=ATTEMPTS {
            horizon.oldest_lsn = reader.first_lsn();
            match reader.read(horizon.oldest_lsn, 1, 1) {
                Ok(records) => {
                    horizon.oldest = records.first().map(|record| record.at);
                    break;
                }
                Err(StoreError::Trimmed { .. }) if attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
        Ok(horizon)
    }

    /// What a question with these conditions cannot be told; `None` if everything that it asks for
    /// is kept.
    pub fn note(&self, filter: &Filter) -> Option<String> {
        let is_whole = self.oldest_lsn <= Lsn(1);
        let is_within = filter
            .from
            .is_some_and(|from| self.oldest.is_some_and(|oldest| from > oldest));
        if let Some((first, last)) = self.lost_in_front.filter(|_| !is_within) {
            return Some(match self.oldest {
                Some(oldest) => format!(
                    "what happened before {} (LSN {}) was lost with a damaged store: LSN {first} to \
                     {last}",
                    times::format(oldest),
                    self.oldest_lsn
                ),
                None => format!(
                    "what happened before was lost with a damaged store: LSN {first} to {last}"
                ),
            });
        }
        if !is_whole && !is_within {
            return Some(match self.oldest {
                Some(oldest) => format!(
                    "what happened before {} (LSN {}) is no longer kept",
                    times::format(oldest),
                    self.oldest_lsn
                ),
                None => format!(
                    "what happened before LSN {} is no longer kept",
                    self.oldest_lsn
                ),
            });
        }
        let hole = self.holes.iter().find(|(before, after)| {
            filter.from.is_none_or(|from| from <= after.latest)
                && filter.to.is_none_or(|to| to > before.earliest)
        });
        let between = |before: Lsn, after: Lsn| {
            format!("records between LSN {before} and LSN {after} were lost with a damaged store")
        };
        let hole = hole.map(|(before, after)| between(before.last, after.first));
        hole.or_else(|| {
            let (end, lost) = self.lost_at_end?;
            let is_asked = filter.from.is_none_or(|from| from <= lost.noticed)
                && filter.to.is_none_or(|to| to > end.earliest);
            is_asked.then(|| between(end.last, lost.next))
        })
    }
}
