//! What is asked of a Java peer beside what it is told.
//!
//! When its process began, when it is met, and when it answers again after a request came to nothing: one that lives
//! on has what it had, and what is missing there was cancelled there; one that began anew has forgotten everything.
//!
//! And what it lists as changed lately, every few seconds: a Java node gives up telling others what they do not
//! take within half a minute, and if only that direction is cut, this node would notice nothing. What it lists may be
//! minutes old, and what is new may be on its way here, so only what is still unheard a moment
//! later, and confirmed, is taken over.

use std::collections::BTreeMap;

use crate::replication::learned::Unheard;
use crate::replication::outbound::Key;
use crate::types::Millis;

/// Least time between two looks at what changed lately, ms. What is said while a cut lasts is known before the
/// other node gives up telling it, or a few seconds later. No whole seconds: where the seconds of its dates end is
/// to differ from look to look ([`Skew`](crate::replication::skew::Skew)).
pub(super) const READ_EVERY_MS: u64 = 2618;
/// The same while something is in doubt.
const READ_AGAIN_MS: u64 = 1618;
/// A look that took long is followed by a pause of so many times that, and one that failed by one of twice the
/// last, ms at most.
const PAUSE_TIMES: u64 = 20;
const PAUSE_MAX_MS: u64 = 60_000;
const AGAIN_TIMES: u64 = 4;
/// How long something is in doubt before it is taken over, ms; how much of that at once; and after how long that is
/// tried again if it is in doubt still, ms.
const SURE_AFTER_MS: u64 = 1000;
const AT_ONCE_MAX: usize = 1000;
const TRY_AGAIN_MS: u64 = 30_000;
/// How long renewals wait for a peer that lived on while it did not answer, ms: until it has told what was cancelled
/// there. Told of a renewal from before that, it would ask for the instance.
const CANCELS_WAIT_MS: u64 = 3000;
/// How long they are not held up again after that, ms: on a link that comes and goes they would never be told.
const NO_WAIT_MS: u64 = 10_000;
/// How often a peer is asked when it began without an answer.
const TRIES_MAX: u32 = 3;

/// Something that was not heard here.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// When it was said, by the clock there, ms: something else said of the same instance is another doubt.
    updated: i64,
    since: Millis,
    /// When it was to be taken over.
    tried_at: Option<Millis>,
}

/// One Java peer.
#[derive(Debug)]
pub(super) struct Java {
    born: Option<i64>,
    asks_born: bool,
    tries: u32,
    read_at: Millis,
    pause: u64,
    doubts: BTreeMap<Key, Doubt>,
    renewals_from: Millis,
}

impl Java {
    /// A peer of which this was noted, at `now` (monotonic).
    pub(super) fn new(born: Option<i64>, now: Millis) -> Self {
        Self {
            born,
            asks_born: false,
            tries: 0,
            read_at: now,
            pause: READ_EVERY_MS,
            doubts: BTreeMap::new(),
            renewals_from: Millis::ZERO,
        }
    }

    /// When its process began, as far as it is known.
    pub(super) fn born(&self) -> Option<i64> {
        self.born
    }

    /// It is met, or answers again after it did not.
    pub(super) fn is_met(&mut self) {
        self.asks_born = true;
    }

    /// A request has come to nothing, which a restart may have been the reason of. A peer that never says when it
    /// began is asked only when it was away.
    pub(super) fn has_failed(&mut self) {
        self.asks_born |= self.tries < TRIES_MAX;
    }

    /// Whether it is to be asked when it began.
    pub(super) fn asks_born(&self) -> bool {
        self.asks_born
    }

    /// When it is to be asked what changed lately (monotonic).
    pub(super) fn read_at(&self) -> Millis {
        self.read_at
    }

    /// Before which moment it is told no renewals (monotonic).
    pub(super) fn renewals_from(&self) -> Millis {
        self.renewals_from
    }

    /// It says when it began, or does not; it `was_away` if it did not answer before. Whether it has to be told
    /// everything.
    pub(super) fn was_born(&mut self, born: Option<i64>, was_away: bool, now: Millis) -> bool {
        self.asks_born = false;
        if born.is_some() {
            self.tries = 0;
        }
        let before = self.born;
        self.born = born.or(before);
        let lives_on = born.is_some() && born == before;
        if was_away && lives_on {
            if now >= self.renewals_from.plus(NO_WAIT_MS) || self.renewals_from == Millis::ZERO {
                self.renewals_from = now.plus(CANCELS_WAIT_MS);
            }
            self.read_at = now;
        }
        let is_other = born.is_some() && before.is_some() && !lives_on;
        is_other || (was_away && !lives_on)
    }

    /// There was no answer to when it began. Whether it is asked again, once it has answered something else.
    pub(super) fn has_not_said(&mut self) -> bool {
        self.asks_born = false;
        self.tries += 1;
        self.tries < TRIES_MAX
    }

    /// It lists what changed lately, of which this was not heard here. What of that is to be taken over.
    pub(super) fn read(&mut self, unheard: Vec<Unheard>, now: Millis, took: u64) -> Vec<Unheard> {
        let before = std::mem::take(&mut self.doubts);
        let mut sure = Vec::new();
        let mut is_open = false;
        for one in unheard {
            let known = before.get(&one.key).copied();
            let mut doubt = known
                .filter(|doubt| doubt.updated == one.updated)
                .unwrap_or(Doubt {
                    updated: one.updated,
                    since: now,
                    tried_at: None,
                });
            let is_due = doubt
                .tried_at
                .is_none_or(|at| now.since(at) >= TRY_AGAIN_MS);
            let key = one.key.clone();
            if is_due && now.since(doubt.since) >= SURE_AFTER_MS && sure.len() < AT_ONCE_MAX {
                doubt.tried_at = Some(now);
                sure.push(one);
            }
            is_open |= doubt.tried_at.is_none();
            self.doubts.insert(key, doubt);
        }
        self.pause = (took * PAUSE_TIMES).clamp(READ_EVERY_MS, PAUSE_MAX_MS);
        let pause = if is_open {
            READ_AGAIN_MS.max(took * AGAIN_TIMES)
        } else {
            self.pause
        };
        self.read_at = now.plus(pause);
        sure
    }

    /// It is not asked what changed lately.
    #[cfg(test)]
    pub(super) fn is_never_read(&mut self) {
        self.read_at = Millis(u64::MAX);
    }

    /// It does not say what changed lately.
    pub(super) fn was_not_read(&mut self, now: Millis) {
        self.pause = (self.pause * 2).min(PAUSE_MAX_MS);
        self.read_at = now.plus(self.pause);
    }
}
