//! What was lost with a damaged log, as the `meta` tree remembers it.

use super::Verdict;
use crate::store::inspect::Inspected;
use crate::store::shared::keys;
use crate::store::{LossCause, LostRange};
use crate::types::{Lsn, Millis};

/// The holes that were noticed when the log was mended, if nobody was told yet.
pub(super) fn mended_holes(inspected: &Inspected) -> Vec<(Lsn, Lsn)> {
    let Some(mended) = &inspected.mended else {
        return Vec::new();
    };
    let noticed = |range: &&LostRange| range.noticed == mended.noticed;
    let ranges = inspected.losses.iter().filter(noticed);
    ranges.map(|range| (range.first, range.last)).collect()
}

/// The losses that the log shows: those noted before, unless the log was trimmed past them, and the
/// new ones. `batch` notes them.
pub(super) fn losses(
    inspected: &Inspected,
    verdict: &Verdict,
    noticed: Millis,
    batch: &mut sled::Batch,
) -> Vec<LostRange> {
    let front = inspected
        .segments
        .first()
        .map_or(Lsn::ZERO, |segment| segment.first);
    let (passed, mut losses): (Vec<LostRange>, Vec<LostRange>) = inspected
        .losses
        .iter()
        .partition(|range| range.next < front);
    for range in passed {
        batch.remove(loss_key(range.first).as_str());
    }
    let holes = hole_ranges(&verdict.holes, noticed);
    let tail = verdict
        .lost
        .iter()
        .filter(|lost| lost.cause != LossCause::NotSynced && lost.first > inspected.last)
        .map(|lost| LostRange {
            first: lost.first,
            last: lost.last,
            next: verdict.end.next(),
            noticed,
        });
    for range in holes.chain(tail) {
        note_loss(&range, batch);
        losses.retain(|known| known.first != range.first);
        losses.push(range);
    }
    losses
}

/// Holes as they are noted.
pub(super) fn hole_ranges(
    holes: &[(Lsn, Lsn)],
    noticed: Millis,
) -> impl Iterator<Item = LostRange> {
    holes.iter().map(move |(first, last)| LostRange {
        first: *first,
        last: *last,
        next: last.next(),
        noticed,
    })
}

pub(super) fn note_loss(range: &LostRange, batch: &mut sled::Batch) {
    let mut value = range.last.0.to_le_bytes().to_vec();
    value.extend(range.next.0.to_le_bytes());
    value.extend(range.noticed.0.to_le_bytes());
    batch.insert(loss_key(range.first).as_str(), value);
}

fn loss_key(first: Lsn) -> String {
    format!("{}{:020}", keys::LOST, first.0)
}
