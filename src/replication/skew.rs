//! By how much the clock of a peer differs from the one here, as far as the dates of its answers tell.
//!
//! A date says whole seconds, and when in the course of a request it was taken is not known: one answer tells the
//! difference to somewhat more than a second. Where that second ends differs from answer to answer, so several
//! of them together tell it to some hundredths.

use std::sync::{Mutex, PoisonError};

use crate::types::Millis;

/// How much later than a date says it may be, ms. Some servers make dates anew only when they are a second old, and
/// are believed a second too much: what is taken over is confirmed besides.
const DATE_MS: i64 = 999;
/// In how many ms clocks drift apart by one more.
const DRIFTS_IN_MS: u64 = 5000;
/// What is taken for granted of a peer that says no dates, ms.
const UNKNOWN_MS: i64 = 2000;

/// How far the clock of a peer is ahead of the one here, ms: somewhere between these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    least: i64,
    most: i64,
}

impl Default for Skew {
    /// Of a peer that says nothing.
    fn default() -> Self {
        Self {
            least: -UNKNOWN_MS,
            most: UNKNOWN_MS,
        }
    }
}

impl Skew {
    /// What an answer with this date (its second, in ms) tells, which was asked for and came at these moments here
    /// (wall time).
    pub fn of(date: i64, asked: Millis, answered: Millis) -> Self {
        // A clock that was set back in between.
        let asked = asked.min(answered);
        Self {
            least: date.saturating_sub(answered.signed()),
            most: date.saturating_add(DATE_MS).saturating_sub(asked.signed()),
        }
    }

    /// What this and an answer so many ms later tell together; only the later one, if they do not agree: a clock was
    /// set.
    #[must_use]
    fn and(self, later: Self, after: u64) -> Self {
        let drift = i64::try_from(after / DRIFTS_IN_MS).unwrap_or(i64::MAX);
        let drift = drift.saturating_add(1);
        let both = Self {
            least: later.least.max(self.least.saturating_sub(drift)),
            most: later.most.min(self.most.saturating_add(drift)),
        };
        if both.least <= both.most { both } else { later }
    }

    /// The earliest moment by the clock here at which the clock of the peer can have shown `there`, ms.
    pub fn earliest(self, there: i64) -> i64 {
        there.saturating_sub(self.most)
    }
}

/// What is known of the clock of one peer, and since when.
#[derive(Debug, Default)]
pub struct PeerClock(Mutex<Option<(Skew, Millis)>>);

impl PeerClock {
    /// What is known after an answer, now (wall time), that tells this, if it tells anything.
    pub fn heard(&self, told: Option<Skew>, now: Millis) -> Skew {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = told {
            let both = known.map_or(told, |(known, at)| known.and(told, now.since(at)));
            *known = Some((both, now));
        }
        known.map_or_else(Skew::default, |(skew, _)| skew)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A clock that is ahead by so much, exactly.
    pub(in crate::replication) fn exactly(ahead: i64) -> Skew {
        Skew {
            least: ahead,
            most: ahead,
        }
    }

    /// An answer, with its date, at a moment here, of a peer that is ahead by so much, after a millisecond each way.
    fn answer(at: u64, ahead: i64) -> Skew {
        let date = (at.cast_signed() + ahead) / 1000 * 1000;
        Skew::of(date, Millis(at - 1), Millis(at + 1))
    }

    #[test]
    fn one_answer_tells_a_second_and_several_tell_it_closely() {
        for ahead in [0, 1, 999, 1234, 300_000, -300_000, -1] {
            let mut skew = answer(1_700_000_000_000, ahead);
            let is_within = |skew: Skew| skew.least <= ahead && ahead <= skew.most;
            assert!(
                is_within(skew) && skew.most - skew.least <= 1001,
                "{skew:?}"
            );
            for step in 1..40 {
                skew = skew.and(answer(1_700_000_000_000 + step * 1037, ahead), 1037);
                assert!(is_within(skew), "{skew:?} {ahead}");
            }
            assert!(skew.most - skew.least <= 80, "{skew:?} {ahead}");
            let there = 1_700_000_100_000 + ahead;
            let earliest = skew.earliest(there);
            assert!((1_700_000_099_920..=1_700_000_100_000).contains(&earliest));
        }
    }

    #[test]
    fn a_clock_that_is_set_is_believed() {
        let before = answer(1_700_000_000_000, 0);
        let after = answer(1_700_000_001_000, 60_000);
        assert_eq!(before.and(after, 1000), after);
        let clock = PeerClock::default();
        assert_eq!(clock.heard(None, Millis(1)), Skew::default());
        assert_eq!(clock.heard(Some(before), Millis(1)), before);
        assert_eq!(clock.heard(Some(after), Millis(1001)), after);
        assert_eq!(clock.heard(None, Millis(1001)), after);
    }

    #[test]
    fn of_a_peer_that_says_no_dates_two_seconds_are_not_held_against_it() {
        assert_eq!(Skew::default().earliest(10_000), 8000);
        let wild = Skew::of(i64::MAX, Millis(5), Millis(1));
        assert!(wild.earliest(i64::MIN) < 0);
    }
}
