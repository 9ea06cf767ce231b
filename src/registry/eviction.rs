//! Which leases an eviction run takes (`protocol.md` 5.4): all that are over, but never more than
//! the share that self-preservation tolerates, chosen at random when there are more.

use std::sync::Arc;

use crate::registry::Registry;
use crate::registry::command::Eviction;
use crate::registry::lease::Lease;
use crate::types::Millis;

/// The leases to evict at `now` (monotonic), and how many are over in all.
pub(super) fn choose(
    registry: &Registry,
    eviction: &Eviction,
    now: Millis,
) -> (Vec<Arc<Lease>>, usize) {
    let mut expired: Vec<Arc<Lease>> = registry
        .leases()
        .filter(|lease| lease.is_expired(now, eviction.extra_ms))
        .cloned()
        .collect();
    let found = expired.len();
    let count = found.min(limit(registry.len(), eviction.renewal_percent_threshold));
    let mut random = SplitMix(eviction.seed);
    for place in 0..count {
        let other = place + random.below(found - place);
        expired.swap(place, other);
    }
    expired.truncate(count);
    (expired, found)
}

/// `size - floor(size * percent)`: with 1 to 6 instances and 85 % always one.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count far below 2^52; `as` saturates"
)]
fn limit(size: u64, percent: f64) -> usize {
    let kept = (size as f64 * percent.clamp(0.0, 1.0)).floor() as u64;
    usize::try_from(size.saturating_sub(kept)).unwrap_or(usize::MAX)
}

/// A small generator with a fixed sequence per seed, so that a run can be repeated. Not for secrets.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, near enough to uniform for a choice among leases.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_threshold_leaves_over() {
        assert_eq!(limit(1, 0.85), 1);
        assert_eq!(limit(6, 0.85), 1);
        assert_eq!(limit(21, 0.85), 4);
        assert_eq!(limit(17, 0.85), 3);
        assert_eq!(limit(100, 0.0), 100);
        assert_eq!(limit(0, 0.85), 0);
    }
}
