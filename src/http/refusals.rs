//! Requests that are refused by the thousand while something is full: each is counted, and the log is
//! told of them once a minute.

use std::sync::Mutex;

use crate::types::Millis;

/// Between two warnings, ms.
const TOLD_EVERY_MS: u64 = 60_000;

/// What was refused since the start.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    total: u64,
    /// How many there had been when the log was told, and the monotonic time of that.
    told: Option<(u64, Millis)>,
}

impl Refusals {
    /// One more. If the log is to be told, how many there were since it was told last.
    pub(super) fn count(&self, mono: Millis) -> Option<u64> {
        let mut counts = self.counts();
        counts.total += 1;
        let before = match counts.told {
            Some((_, at)) if mono.since(at) < TOLD_EVERY_MS => return None,
            Some((total, _)) => total,
            None => 0,
        };
        counts.told = Some((counts.total, mono));
        Some(counts.total - before)
    }

    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.counts().total
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_at_once_and_then_once_a_minute_of_all_that_there_were() {
        let refusals = Refusals::default();
        let told: Vec<_> = [5, 6, 60_004, 60_005, 60_006, 200_000]
            .map(|mono| refusals.count(Millis(mono)))
            .into();
        assert_eq!(told, [Some(1), None, None, Some(3), None, Some(2)]);
        assert_eq!(refusals.total(), 6);
    }
}
