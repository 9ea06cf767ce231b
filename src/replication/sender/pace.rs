//! How much goes into one request and one answer. What a link does not carry in the time that a peer is
//! given is asked for in smaller pieces, and in larger ones again when those are quick: so a difference
//! of any size heals over any link that moves data at all.

use super::DIGEST_ITEMS;
use crate::replication::inbound::{ANSWER_BYTES, ANSWER_BYTES_MIN};
use crate::replication::portion::{QUESTION_BYTES, QUESTION_BYTES_MIN};
use crate::types::Millis;

/// Renewals of a digest that are not fallen short of.
const DIGEST_ITEMS_MIN: usize = 250;
/// How much longer than a small request, and a quarter of that, a quick one takes at most, ms. Twice as much
/// of it takes twice as long.
const QUICK_MS: u64 = 200;
/// Least time between two probes that only measure the latency, ms.
const MEASURE_EVERY_MS: u64 = 10_000;
/// How long after a question was too long longer ones are tried again, ms: what stood before the peer and
/// refused it may be gone.
const LONGER_AFTER_MS: u64 = 30_000;
/// Halvings after which both questions and answers are as small as they become.
const HALVED_MAX: u32 = {
    let (answer, question) = (
        (ANSWER_BYTES / ANSWER_BYTES_MIN).ilog2(),
        (QUESTION_BYTES / QUESTION_BYTES_MIN).ilog2(),
    );
    if answer > question { answer } else { question }
};

/// What one peer is sent and asked for at once.
#[derive(Debug)]
pub(super) struct Pace {
    /// How often the pieces of comparisons have been halved.
    halved: u32,
    /// Bytes of a question that the peer has not found too long, and when it found one so last.
    question_max: usize,
    too_long_at: Option<Millis>,
    renewals: usize,
    /// When the request in flight was made (monotonic).
    asked_at: Millis,
    /// How long an empty or small batch took last, or a later one of digests if that was quicker, ms.
    latency: u64,
    /// When it was measured last.
    measured_at: Millis,
    /// Something that is smaller than it might be took longer than the latency says: it may be the latency.
    is_in_doubt: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            halved: 0,
            question_max: QUESTION_BYTES,
            too_long_at: None,
            renewals: DIGEST_ITEMS,
            asked_at: Millis::ZERO,
            latency: 0,
            measured_at: Millis::ZERO,
            is_in_doubt: false,
        }
    }
}

impl Pace {
    /// Bytes of a comparison's question, as estimated.
    pub(super) fn question_bytes(&self) -> usize {
        (self.question_max >> self.halved).max(QUESTION_BYTES_MIN)
    }

    /// Bytes of instances that a comparison's answer is to have.
    pub(super) fn answer_bytes(&self) -> usize {
        (ANSWER_BYTES >> self.halved).max(ANSWER_BYTES_MIN)
    }

    /// Renewals of a digest.
    pub(super) fn renewals(&self) -> usize {
        self.renewals
    }

    /// A request goes out.
    pub(super) fn asked(&mut self, now: Millis) {
        self.asked_at = now;
    }

    /// A probe was answered, or something as small.
    pub(super) fn probed(&mut self, now: Millis) {
        self.latency = now.since(self.asked_at);
        self.measured_at = now;
    }

    /// Whether a probe is to measure the latency now.
    pub(super) fn measures(&mut self) -> bool {
        std::mem::take(&mut self.is_in_doubt)
    }

    /// Digests were answered: they may be long, but not quicker than a probe would have been.
    pub(super) fn digested(&mut self, now: Millis) {
        self.latency = self.latency.min(now.since(self.asked_at));
    }

    /// How long the request in flight has been under way, ms.
    pub(super) fn waited(&self, now: Millis) -> u64 {
        now.since(self.asked_at)
    }

    /// Whether twice as much could have been asked for, after an answer to less than the most that is.
    pub(super) fn is_quick(&mut self, now: Millis) -> bool {
        let longest = self.latency.saturating_add(self.latency / 4 + QUICK_MS);
        let is_quick = now.since(self.asked_at) <= longest;
        self.is_in_doubt |= !is_quick && now.since(self.measured_at) >= MEASURE_EVERY_MS;
        is_quick
    }

    /// The peer does not read a question of this length; `false` if it cannot become shorter.
    pub(super) fn is_too_long(&mut self, now: Millis) -> bool {
        let length = self.question_bytes();
        self.too_long_at = Some(now);
        self.question_max = (length / 2).max(QUESTION_BYTES_MIN);
        length > QUESTION_BYTES_MIN
    }

    /// Whoever is there may read longer questions.
    pub(super) fn forget_length(&mut self) {
        self.question_max = QUESTION_BYTES;
        self.too_long_at = None;
    }

    /// A comparison did not come to its end; `false` if it cannot become smaller.
    pub(super) fn compare_less(&mut self) -> bool {
        let is_least = self.halved >= HALVED_MAX;
        self.halved = (self.halved + 1).min(HALVED_MAX);
        !is_least
    }

    /// A comparison came to its end.
    pub(super) fn compared(&mut self, now: Millis) {
        let is_long_ago = |at: Millis| now.since(at) >= LONGER_AFTER_MS;
        if self.question_max < QUESTION_BYTES && self.too_long_at.is_none_or(is_long_ago) {
            self.question_max = (self.question_max * 2).min(QUESTION_BYTES);
        }
        if self.halved > 0 && self.is_quick(now) {
            self.halved -= 1;
        }
    }

    /// A digest of renewals did not come to its end.
    pub(super) fn renew_less(&mut self) {
        self.renewals = (self.renewals / 2).max(DIGEST_ITEMS_MIN);
    }

    /// A digest of renewals came to its end.
    pub(super) fn renewed(&mut self, now: Millis) {
        if self.renewals < DIGEST_ITEMS && self.is_quick(now) {
            self.renewals = (self.renewals * 2).min(DIGEST_ITEMS);
        }
    }
}
