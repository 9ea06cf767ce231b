//! How far back the log goes, and what an answer has to say about it.

use super::Filter;
use super::times;
use crate::store::{LogReader, SegmentFacts, StoreError};
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
        };
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
        hole.map(|(before, after)| {
            format!(
                "records between LSN {} and LSN {} were lost with a damaged store",
                before.last, after.first
            )
        })
    }
}
