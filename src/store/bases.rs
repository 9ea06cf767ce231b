//! Which checkpoints stay, and how far the log may be trimmed: rules without I/O, the same for every
//! store.
//!
//! A restart needs the two newest checkpoints. Older ones are kept as *bases*, so that the registry
//! as of any kept moment is a base and a bounded number of records behind it. They stand apart by
//! records in proportion to what they hold, so that all of them together take no more than about
//! half of the log that they serve; and by half of the history's age, so that a quiet node has some
//! too. A base goes when the log has gone past it.

use crate::store::{BaseFacts, SegmentFacts, StoreOptions};
use crate::types::{Lsn, Millis};

/// Checkpoints that a restart needs: the newest, and the one to fall back to.
pub(super) const RESTART: usize = 2;

/// Least number of records between two bases, unless the options say otherwise.
pub(super) const RECORDS_MIN: u64 = 20_000;

/// Records between two bases of a registry with so many leases, by default.
pub fn base_spacing(leases: u64) -> u64 {
    spacing(RECORDS_MIN, leases)
}

fn spacing(records_min: u64, leases: u64) -> u64 {
    leases.saturating_mul(2).max(records_min)
}

/// The bounds of the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Least number of records between two bases.
    pub(super) base_records: u64,
    /// Age at which history may go, ms.
    pub(super) max_age_ms: u64,
    /// Size from which on history has to go, bytes of log and bases.
    pub(super) max_bytes: u64,
}

impl Bounds {
    pub(super) fn of(options: &StoreOptions) -> Self {
        Self {
            base_records: options.base_records,
            max_age_ms: options.history_max_age_ms,
            max_bytes: options.history_max_bytes,
        }
    }
}

impl SegmentFacts {
    /// Whether the registry was empty in front of its first record.
    pub fn begins_empty(&self) -> bool {
        self.after == Lsn::ZERO && self.base == Lsn::ZERO
    }

    /// Whether LSNs are missing in front of it, which is not so for the first one ever.
    pub fn has_hole_before(&self) -> bool {
        self.after.next() < self.first && !self.begins_empty()
    }
}

/// The older ones of the kept checkpoints.
pub(super) fn bases_of(kept: &[BaseFacts]) -> &[BaseFacts] {
    &kept[..kept.len().saturating_sub(RESTART)]
}

/// Whether a moment of this log can be told from a base: every record behind it is there, and no
/// later checkpoint lies before the first record too.
fn is_useful(base: &BaseFacts, kept: &[BaseFacts], log: &[SegmentFacts]) -> bool {
    let Some(front) = log.first() else {
        return false;
    };
    base.lsn >= front.after
        && !kept
            .iter()
            .any(|other| other.lsn > base.lsn && other.lsn < front.first)
}

/// What stays of the checkpoints (oldest first): the two newest, and the bases that serve this log.
/// Doing it twice changes nothing.
pub(super) fn retained(
    kept: &[BaseFacts],
    log: &[SegmentFacts],
    bounds: &Bounds,
) -> Vec<BaseFacts> {
    let bases = bases_of(kept);
    let mut retained: Vec<BaseFacts> = Vec::with_capacity(kept.len());
    for base in bases {
        if is_useful(base, kept, log)
            && (leads_over_a_hole(base, log) || is_due(base, retained.last(), log, bounds))
        {
            retained.push(*base);
        }
    }
    retained.extend(&kept[bases.len()..]);
    retained
}

/// Whether records are missing right behind a base: nothing older leads to what follows.
fn leads_over_a_hole(base: &BaseFacts, log: &[SegmentFacts]) -> bool {
    log.iter().any(|segment| {
        segment.has_hole_before() && base.lsn > segment.after && base.lsn < segment.first
    })
}

fn is_due(
    base: &BaseFacts,
    before: Option<&BaseFacts>,
    log: &[SegmentFacts],
    bounds: &Bounds,
) -> bool {
    let (lsn, at) = match (before, log.first()) {
        (Some(before), _) => (before.lsn, before.at),
        // The log goes back to an empty registry, which is as good as a base.
        (None, Some(front)) if front.begins_empty() => {
            (Lsn(front.first.0.saturating_sub(1)), front.earliest)
        }
        (None, _) => return true,
    };
    base.lsn.0.saturating_sub(lsn.0) >= spacing(bounds.base_records, base.leases)
        || base.at.since(at) >= (bounds.max_age_ms / 2).max(1)
}

/// How many of the oldest segments may be dropped; what lies at or behind `floor` is needed.
///
/// Bytes are a hard bound. By age a segment goes only when a checkpoint takes over from which every
/// younger moment can be told, so that history is kept up to one distance between bases longer, and
/// at most twice as long.
pub(super) fn droppable(
    log: &[SegmentFacts],
    kept: &[BaseFacts],
    floor: Lsn,
    now_wall: Millis,
    bounds: &Bounds,
) -> usize {
    // The newest segment is being written.
    let closed = &log[..log.len().saturating_sub(1)];
    let age = |segment: &SegmentFacts| now_wall.since(segment.latest);
    let old = closed
        .iter()
        .take_while(|segment| segment.last < floor && age(segment) > bounds.max_age_ms)
        .last()
        .map_or(Lsn::ZERO, |segment| segment.last);
    let mut bytes: u64 = log.iter().map(|segment| segment.bytes).sum();
    let mut count = 0;
    for segment in closed.iter().take_while(|segment| segment.last < floor) {
        let is_over = bytes.saturating_add(base_bytes(kept, &log[count..])) > bounds.max_bytes;
        let is_old = segment.last <= old
            && (!carries(segment, kept)
                || kept
                    .iter()
                    .any(|base| base.lsn >= segment.last && base.lsn <= old)
                || age(segment) > bounds.max_age_ms.saturating_mul(2));
        if !is_over && !is_old {
            break;
        }
        bytes = bytes.saturating_sub(segment.bytes);
        count += 1;
    }
    count
}

/// Whether moments behind a segment are told by its records: something to begin with lies in or
/// right in front of it.
fn carries(segment: &SegmentFacts, kept: &[BaseFacts]) -> bool {
    segment.begins_empty()
        || kept
            .iter()
            .any(|base| base.lsn >= segment.after && base.lsn < segment.last)
}

/// What the bases that serve this log take on the disk.
pub(super) fn base_bytes(kept: &[BaseFacts], log: &[SegmentFacts]) -> u64 {
    bases_of(kept)
        .iter()
        .filter(|base| is_useful(base, kept, log))
        .map(|base| base.bytes)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        base_records: 100,
        max_age_ms: 1_000,
        max_bytes: u64::MAX,
    };

    fn base(lsn: u64, at: u64) -> BaseFacts {
        BaseFacts {
            lsn: Lsn(lsn),
            at: Millis(at),
            leases: 10,
            bytes: 7,
        }
    }

    /// Segments of ten records, one a millisecond, from `first` on.
    fn log(first: u64, last: u64) -> Vec<SegmentFacts> {
        (first..last)
            .step_by(10)
            .map(|first| SegmentFacts {
                first: Lsn(first),
                last: Lsn(first + 9),
                bytes: 50,
                earliest: Millis(first),
                latest: Millis(first + 9),
                after: Lsn(first - 1),
                base: Lsn::ZERO,
            })
            .collect()
    }

    fn lsns(kept: &[BaseFacts]) -> Vec<u64> {
        kept.iter().map(|base| base.lsn.0).collect()
    }

    #[test]
    fn bases_stand_apart_by_records_and_by_time() {
        let near: Vec<_> = (1..=40).map(|n| base(n * 10, n * 10)).collect();
        let kept = retained(&near, &log(1, 400), &BOUNDS);
        assert_eq!(lsns(&kept), [100, 200, 300, 390, 400]);
        assert_eq!(retained(&kept, &log(1, 400), &BOUNDS), kept);
        let slow: Vec<_> = (1..=9).map(|n| base(n, n * 200)).collect();
        let kept = retained(&slow, &log(1, 10), &BOUNDS);
        assert_eq!(lsns(&kept), [3, 6, 8, 9], "half of the age apart");
        let large: Vec<_> = near
            .iter()
            .map(|base| BaseFacts {
                leases: 100,
                ..*base
            })
            .collect();
        let kept = retained(&large, &log(1, 400), &BOUNDS);
        assert_eq!(lsns(&kept), [200, 390, 400], "twice the leases apart");
    }

    #[test]
    fn a_base_goes_with_the_records_behind_it_and_the_newest_before_the_first_one_stays() {
        let kept = [100, 200, 300, 390, 400].map(|lsn| base(lsn, lsn));
        let kept_of = |first| lsns(&retained(&kept, &log(first, 400), &BOUNDS));
        assert_eq!(kept_of(101), [100, 200, 300, 390, 400]);
        assert_eq!(kept_of(201), [200, 300, 390, 400]);
        assert_eq!(kept_of(211), [300, 390, 400], "211 does not go on from 200");
        assert_eq!(lsns(&retained(&kept, &[], &BOUNDS)), [390, 400]);
    }

    #[test]
    fn the_checkpoint_that_leads_over_a_hole_stays() {
        let mut segments = log(1, 200);
        segments.extend(log(501, 700));
        let place = segments.iter().position(|s| s.first == Lsn(501)).unwrap();
        segments[place].after = Lsn(200);
        segments[place].base = Lsn(210);
        let kept = [150, 210, 690, 700].map(|lsn| base(lsn, lsn));
        let kept = retained(&kept, &segments, &BOUNDS);
        assert_eq!(lsns(&kept), [150, 210, 690, 700]);
    }

    #[test]
    fn age_lets_go_up_to_a_checkpoint_that_takes_over_and_bytes_at_once() {
        let segments = log(1, 400);
        let kept = [100, 205, 390, 400].map(|lsn| base(lsn, lsn));
        let dropped =
            |now, bounds: &Bounds| droppable(&segments, &kept, Lsn(391), Millis(now), bounds);
        assert_eq!(dropped(1_095, &BOUNDS), 0, "no base among what is old yet");
        assert_eq!(dropped(1_155, &BOUNDS), 10, "the base at 100 takes over");
        assert_eq!(dropped(1_211, &BOUNDS), 20, "the next is at 205");
        assert_eq!(dropped(9_000, &BOUNDS), 39, "more than twice the age");
        assert_eq!(
            droppable(&segments, &kept, Lsn(51), Millis(9_000), &BOUNDS),
            5
        );
        let small = Bounds {
            max_bytes: 1_500 + 14,
            ..BOUNDS
        };
        assert_eq!(
            dropped(0, &small),
            10,
            "30 segments and two bases are left: {}",
            base_bytes(&kept, &segments)
        );
    }
}
