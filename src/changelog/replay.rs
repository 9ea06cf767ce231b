//! From a checkpoint and records to a registry: the same for a restart, for a store that is opened
//! again, and for the registry as of a moment of the past.

use crate::registry::{OverrideKey, Registry};
use crate::store::{Checkpoint, LogReader, StoreError};
use crate::types::{Lsn, Millis};

/// Records read from the store at a time; bounds the memory of a replay.
pub(super) const CHUNK_RECORDS: usize = 4096;
pub(super) const CHUNK_BYTES: usize = 16 << 20;

/// Puts everything that a checkpoint holds into an empty registry; `mono` as in
/// [`Registry::evolve`].
pub(crate) fn restore(registry: &mut Registry, checkpoint: Checkpoint, mono: Millis) {
    for lease in checkpoint.leases {
        registry.restore_lease(&lease.app, &lease.id, lease.image, lease.lsn, mono);
    }
    for held in checkpoint.overrides {
        registry.restore_override(
            OverrideKey {
                app: held.app,
                id: held.id,
            },
            held.status,
        );
    }
    registry.restored_at(checkpoint.lsn);
}

/// Applies the records from `first` to `last`, as far as there are any. Says how many they were;
/// `progress` is told after each chunk how many of how many.
///
/// # Errors
/// The log could not be read; [`StoreError::Trimmed`] if it begins behind `first`.
pub(crate) fn replay(
    registry: &mut Registry,
    reader: &dyn LogReader,
    (first, last): (Lsn, Lsn),
    mono: Millis,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, StoreError> {
    let total = last.next().0.saturating_sub(first.0);
    let mut next = first;
    let mut done = 0;
    while next <= last {
        let left = usize::try_from(last.0 - next.0).unwrap_or(usize::MAX);
        let most = CHUNK_RECORDS.min(left.saturating_add(1));
        let records = reader.read(next, most, CHUNK_BYTES)?;
        let Some(newest) = records.last() else { break };
        next = newest.lsn.next();
        // Where LSNs were skipped, a read goes further than it was asked for.
        for record in records.iter().take_while(|record| record.lsn <= last) {
            registry.evolve(record, mono);
            done += 1;
        }
        progress(done, total);
    }
    Ok(done)
}
