//! How long the answer of one peer is waited for. A peer that is always late is given more time step by
//! step: otherwise it would be asked the same again and again, and never be done.
//!
//! Only a peer that takes a connection and is late nevertheless is slow. One that a connection of before
//! does not lead to any more may be cut off, and to wait long for it would only prolong that.

use std::time::Duration;

/// The longest that an answer is waited for, unless the configuration says more.
const MOST: Duration = Duration::from_secs(5);

/// The time that a peer is given.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    least: Duration,
    most: Duration,
    now: Duration,
    /// Whether the last request had no answer in time, so that the next one is on a new connection.
    is_late: bool,
}

impl Patience {
    /// `least` is the time of the configuration, and what a peer is given first.
    pub fn new(least: Duration) -> Self {
        Self {
            least,
            most: MOST.max(least),
            now: least,
            is_late: false,
        }
    }

    /// How long the next answer is waited for.
    pub fn timeout(&self) -> Duration {
        self.now
    }

    /// There was no answer in time.
    pub fn exhausted(&mut self) {
        if self.is_late {
            self.now = (self.now * 2).min(self.most);
        }
        self.is_late = true;
    }

    /// There was no connection.
    pub fn unreachable(&mut self) {
        *self = Self::new(self.least);
    }

    /// An answer took so long: a peer that is quick again is given less.
    pub fn answered_after(&mut self, took: Duration) {
        self.is_late = false;
        if took < self.now / 4 {
            self.now = (self.now / 2).max(self.least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(400);

    #[test]
    fn a_peer_that_needs_three_seconds_is_given_them_and_quick_answers_take_them_back() {
        let mut patience = Patience::new(LEAST);
        assert_eq!(patience.timeout(), LEAST);
        let late = Duration::from_secs(3);
        let mut tries = 0;
        while patience.timeout() < late {
            patience.exhausted();
            tries += 1;
        }
        assert_eq!(tries, 4);
        patience.answered_after(late);
        assert!(
            patience.timeout() > late,
            "a late answer is no reason to wait less"
        );
        for _ in 0..5 {
            patience.answered_after(Duration::from_millis(3));
        }
        assert_eq!(patience.timeout(), LEAST);
    }

    #[test]
    fn a_peer_that_is_cut_off_is_not_waited_for_any_longer() {
        let mut patience = Patience::new(LEAST);
        for _ in 0..5 {
            patience.exhausted();
            assert_eq!(patience.timeout(), LEAST);
            patience.unreachable();
        }
        patience.exhausted();
        patience.exhausted();
        assert_eq!(patience.timeout(), LEAST * 2);
        patience.unreachable();
        assert_eq!(patience.timeout(), LEAST);
    }

    #[test]
    fn patience_ends_at_five_seconds_or_at_what_is_configured() {
        for (least, most) in [(400, 5000), (9000, 9000)] {
            let mut patience = Patience::new(Duration::from_millis(least));
            for _ in 0..20 {
                patience.exhausted();
            }
            assert_eq!(patience.timeout(), Duration::from_millis(most));
        }
    }
}
