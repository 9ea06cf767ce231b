//! How long the answer of one peer is waited for. A peer that is always late is given more time step by
//! step: otherwise it would be asked the same again and again, and never be done.
//!
//! Each kind of request has a time of its own, since a link may be quick with small answers and slow with
//! large ones: that a probe is answered at once says nothing of how long a comparison takes. But nothing
//! is quicker than a probe.
//!
//! Only a peer that takes a connection and is late nevertheless is slow. One that a connection of before
//! does not lead to any more may be cut off, and to wait long for it would only prolong that.

use std::time::Duration;

use super::sender::Ask;

/// The longest that an answer is waited for, unless the configuration says more.
const MOST: Duration = Duration::from_secs(5);
/// The same for an answer that may be long, and is asked for only after a short one has come in time.
const MOST_OF_LONG: Duration = Duration::from_secs(20);
/// Kinds of requests.
const KINDS: usize = 6;
/// The kind that is never the slowest.
const PROBES: usize = 0;

fn kind_of(ask: &Ask) -> usize {
    match ask {
        // Both are small, and the one is asked right after the other.
        Ask::Probe | Ask::Born => PROBES,
        Ask::Batch(_) => 1,
        Ask::Renewals(_) => 2,
        Ask::Digests => 3,
        Ask::Compare { .. } => 4,
        Ask::Recent => 5,
    }
}

/// The time that a peer is given.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    least: Duration,
    given: [Given; KINDS],
}

/// The time for one kind of request.
#[derive(Clone, Copy, Debug)]
struct Given {
    now: Duration,
    /// Whether an answer was late, and none has been quick since.
    is_late: bool,
}

impl Patience {
    /// `least` is the time of the configuration, and what a peer is given first.
    pub fn new(least: Duration) -> Self {
        let first = Given {
            now: least,
            is_late: false,
        };
        Self {
            least,
            given: [first; KINDS],
        }
    }

    /// How long the answer is waited for.
    pub fn timeout(&self, ask: &Ask) -> Duration {
        self.given[kind_of(ask)].now.max(self.given[PROBES].now)
    }

    /// There was no answer in time.
    pub fn exhausted(&mut self, ask: &Ask) {
        let most = match ask {
            // What changed lately may be long, but is not worth that nothing is told meanwhile.
            Ask::Probe | Ask::Born | Ask::Batch(_) | Ask::Renewals(_) | Ask::Recent => MOST,
            Ask::Digests | Ask::Compare { .. } => MOST_OF_LONG,
        };
        let (most, waited) = (most.max(self.least), self.timeout(ask));
        let given = &mut self.given[kind_of(ask)];
        if given.is_late {
            given.now = (waited * 2).min(most);
        }
        given.is_late = true;
    }

    /// There was no connection.
    pub fn unreachable(&mut self) {
        *self = Self::new(self.least);
    }

    /// An answer took so long: a peer that is quick again is given less.
    pub fn answered_after(&mut self, ask: &Ask, took: Duration) {
        let given = &mut self.given[kind_of(ask)];
        if took < given.now / 4 {
            given.is_late = false;
            given.now = (given.now / 2).max(self.least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(400);
    const QUICK: Duration = Duration::from_millis(3);

    fn compare() -> Ask {
        Ask::Compare {
            asked: Vec::new(),
            answer_bytes: 1,
        }
    }

    #[test]
    fn a_peer_that_needs_three_seconds_is_given_them_and_quick_answers_take_them_back() {
        let (mut patience, batch) = (Patience::new(LEAST), Ask::Batch(Vec::new()));
        assert_eq!(patience.timeout(&batch), LEAST);
        let late = Duration::from_secs(3);
        let mut tries = 0;
        while patience.timeout(&batch) < late {
            patience.exhausted(&batch);
            tries += 1;
        }
        assert_eq!(tries, 4);
        patience.answered_after(&batch, late);
        assert!(
            patience.timeout(&batch) > late,
            "a late answer is no reason to wait less"
        );
        for _ in 0..5 {
            patience.answered_after(&batch, QUICK);
        }
        assert_eq!(patience.timeout(&batch), LEAST);
    }

    #[test]
    fn a_comparison_that_is_always_late_is_given_more_though_all_else_is_quick() {
        let mut patience = Patience::new(LEAST);
        for _ in 0..4 {
            patience.exhausted(&compare());
            for quick in [Ask::Probe, Ask::Digests, Ask::Batch(Vec::new())] {
                patience.answered_after(&quick, QUICK);
                assert_eq!(patience.timeout(&quick), LEAST);
            }
        }
        assert_eq!(patience.timeout(&compare()), LEAST * 8);
    }

    #[test]
    fn what_comes_in_time_every_other_time_is_given_more() {
        let mut patience = Patience::new(LEAST);
        for _ in 0..3 {
            patience.exhausted(&compare());
            patience.answered_after(&compare(), LEAST / 2);
        }
        assert!(patience.timeout(&compare()) > LEAST);
    }

    #[test]
    fn nothing_is_given_less_than_a_probe() {
        let mut patience = Patience::new(LEAST);
        for _ in 0..4 {
            patience.exhausted(&Ask::Probe);
        }
        assert_eq!(patience.timeout(&compare()), LEAST * 8);
        assert_eq!(patience.timeout(&Ask::Digests), LEAST * 8);
    }

    #[test]
    fn a_peer_that_is_cut_off_is_not_waited_for_any_longer() {
        let mut patience = Patience::new(LEAST);
        for ask in [Ask::Probe, compare()] {
            for _ in 0..5 {
                patience.exhausted(&ask);
                assert_eq!(patience.timeout(&ask), LEAST);
                patience.unreachable();
            }
            patience.exhausted(&ask);
            patience.exhausted(&ask);
            assert_eq!(patience.timeout(&ask), LEAST * 2);
            patience.unreachable();
            assert_eq!(patience.timeout(&ask), LEAST);
        }
    }

    #[test]
    fn patience_ends_at_some_seconds_or_at_what_is_configured() {
        let (probe, compare) = (Ask::Probe, compare());
        for (ask, least, most) in [
            (&probe, 400, 5000),
            (&probe, 9000, 9000),
            (&compare, 400, 20_000),
            (&compare, 30_000, 30_000),
        ] {
            let mut patience = Patience::new(Duration::from_millis(least));
            for _ in 0..20 {
                patience.exhausted(ask);
            }
            assert_eq!(patience.timeout(ask), Duration::from_millis(most));
        }
    }
}
