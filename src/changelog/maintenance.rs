//! Housekeeping that only the writer may do, since it alone owns the store and the published state.

use std::sync::Arc;

use super::Published;
use crate::registry::Registry;
use crate::store::{
    CheckpointHold, CheckpointLease, CheckpointOverride, CheckpointSource, LogReader, StoreError,
};
use crate::types::{Lsn, Millis};

/// What the timers ask the writer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// Commit what `interval` durability has left open, note that the node lives, and try to open a
    /// failed store again.
    Tick,
    /// Drop delta entries older than so many milliseconds.
    TrimDelta { retention_ms: u64 },
    /// Drop segments of the log that no reader needs from this LSN on.
    TrimLog { floor: Lsn },
}

/// Writes a checkpoint of `state`. Runs beside the writer, on any thread that may block.
///
/// # Errors
/// The file could not be written; older checkpoints stay.
pub fn write_checkpoint(
    reader: &Arc<dyn LogReader>,
    state: &Published,
    at: Millis,
) -> Result<(), StoreError> {
    let registry = &state.registry;
    reader.write_checkpoint(CheckpointSource {
        lsn: state.lsn(),
        at,
        expected_clients: registry.len(),
        leases: &mut leases_of(registry),
        overrides: &mut overrides_of(registry),
        holds: &mut holds_of(registry),
    })
}

/// The leases of a state, as a checkpoint has them.
pub(crate) fn leases_of(registry: &Registry) -> impl Iterator<Item = CheckpointLease> {
    registry.leases().map(|lease| CheckpointLease {
        app: lease.instance().app.clone(),
        id: lease.instance().id(),
        lsn: lease.lsn,
        image: lease.to_image(),
    })
}

/// The overrides of a state, as a checkpoint has them.
pub(crate) fn overrides_of(registry: &Registry) -> impl Iterator<Item = CheckpointOverride> {
    registry
        .overrides()
        .map(|(key, status)| CheckpointOverride {
            app: key.app.clone(),
            id: key.id.clone(),
            status,
        })
}

/// The holds of a state, as a checkpoint has them.
pub(crate) fn holds_of(registry: &Registry) -> impl Iterator<Item = CheckpointHold> {
    registry.holds().map(|(app, id, hold)| CheckpointHold {
        app: app.clone(),
        id: id.clone(),
        hold: *hold,
    })
}
