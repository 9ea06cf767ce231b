//! From an opened store to a state that can be served: the checkpoint, the records behind it, the
//! delta window, and grace for every lease.

use std::sync::Arc;

use super::Published;
use super::replay::{CHUNK_BYTES, CHUNK_RECORDS, replay, restore};
use crate::registry::change::Record;
use crate::registry::delta::DeltaTail;
use crate::registry::rules::Rules;
use crate::registry::{Registry, TOMBSTONES_KEPT_MS};
use crate::store::{LogReader, LogStore, Opened, StoreError};
use crate::types::{Lsn, Millis, Now};

/// Most records that are looked through for what was removed lately: a restart must not take as
/// long as the last hour was busy.
const TOMBSTONE_RECORDS_MAX: usize = 20_000;
/// Least room for entries that a recovered delta window takes over. Beyond it, and beyond a quarter
/// of the registry, the window is cut: a delta would be no shorter than the registry, and a client
/// that polled before it fetches in full, as its hash code tells it to.
const DELTA_RECORDS_MIN: usize = 20_000;

/// A state that is ready to be served, and the store behind it.
#[derive(Debug)]
pub struct Recovered {
    pub published: Published,
    pub store: Box<dyn LogStore>,
    pub reader: Arc<dyn LogReader>,
    pub facts: Facts,
    /// Why nothing can be stored for now: see [`Opened::short_of_space`].
    pub short_of_space: Option<StoreError>,
}

/// What a recovery found, for the log and the health endpoint.
#[derive(Clone, Debug)]
pub struct Facts {
    pub node_id: String,
    pub incarnation: String,
    /// Position of the checkpoint that the state was built on, [`Lsn::ZERO`] without one.
    pub checkpoint_lsn: Lsn,
    /// Records replayed behind it.
    pub replayed: u64,
    /// Whether there was any state: an empty store has to be filled from peers.
    pub is_empty: bool,
    /// Until when the node is known to have lived before, wall time.
    pub last_alive: Millis,
}

/// Builds the state. Whoever serves it starts the leases' clocks again first. `progress` is told after each chunk how many records of how many are
/// replayed.
///
/// # Errors
/// The log could not be read.
pub fn recover(
    opened: Opened,
    rules: Arc<Rules>,
    delta_retention_ms: u64,
    now: Now,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recovered, StoreError> {
    let mut registry = Registry::new(rules);
    let mut checkpoint_lsn = Lsn::ZERO;
    if let Some(checkpoint) = opened.checkpoint {
        checkpoint_lsn = checkpoint.lsn;
        restore(&mut registry, checkpoint, now.mono);
    }
    let reader = &*opened.reader;
    let first = registry.lsn().next().max(reader.first_lsn());
    let range = (first, opened.last_lsn);
    let replayed = replay(&mut registry, reader, range, now.mono, progress)?;
    // What a lost tail left out must not be given out again.
    if registry.lsn() < opened.next_lsn {
        let last = Lsn(opened.next_lsn.0.saturating_sub(1));
        registry.restored_at(last);
    }
    restore_tombstones(&mut registry, reader, opened.last_lsn, checkpoint_lsn)?;
    let most = usize::try_from(registry.len() / 4).unwrap_or(usize::MAX);
    let delta = delta_window(
        reader,
        most.max(DELTA_RECORDS_MIN),
        opened.last_lsn,
        opened.last_alive,
        delta_retention_ms,
        now.mono,
    )?;
    let facts = Facts {
        node_id: opened.node_id,
        incarnation: opened.incarnation,
        checkpoint_lsn,
        replayed,
        is_empty: opened.last_lsn == Lsn::ZERO && checkpoint_lsn == Lsn::ZERO,
        last_alive: opened.last_alive,
    };
    let published = Published { registry, delta };
    Ok(Recovered {
        published,
        store: opened.store,
        reader: opened.reader,
        facts,
        short_of_space: opened.short_of_space,
    })
}

/// What was removed in the last hour before the checkpoint: the checkpoint does not say, and the
/// records behind it were replayed.
fn restore_tombstones(
    registry: &mut Registry,
    reader: &dyn LogReader,
    last: Lsn,
    checkpoint: Lsn,
) -> Result<(), StoreError> {
    let mut removals: Vec<Arc<Record>> = Vec::new();
    let mut seen = 0;
    let mut upto = last;
    let mut newest = Millis::ZERO;
    'hour: while upto > Lsn::ZERO && seen < TOMBSTONE_RECORDS_MAX {
        let chunk = reader.read_back(upto, CHUNK_RECORDS, CHUNK_BYTES)?;
        let Some(oldest) = chunk.last() else { break };
        upto = Lsn(oldest.lsn.0.saturating_sub(1));
        seen += chunk.len();
        for record in chunk {
            newest = newest.max(record.at);
            if newest.since(record.at) > TOMBSTONES_KEPT_MS {
                break 'hour;
            }
            if record.lsn <= checkpoint && record.change.kind.removes() {
                removals.push(record);
            }
        }
    }
    for record in removals.iter().rev() {
        registry.restore_tombstone(record);
    }
    Ok(())
}

/// The delta window as it was when the node last lived: the time that it was down does not age the
/// entries, so that a client which polls again goes on with deltas.
fn delta_window(
    reader: &dyn LogReader,
    at_most: usize,
    last: Lsn,
    last_alive: Millis,
    retention_ms: u64,
    mono: Millis,
) -> Result<DeltaTail, StoreError> {
    let mut newest_first: Vec<Arc<Record>> = Vec::new();
    let mut upto = last;
    let mut end = last_alive;
    'window: while upto > Lsn::ZERO && newest_first.len() < at_most {
        let chunk = reader.read_back(upto, CHUNK_RECORDS, CHUNK_BYTES)?;
        let Some(oldest) = chunk.last() else { break };
        upto = Lsn(oldest.lsn.0.saturating_sub(1));
        for record in chunk {
            end = end.max(record.at);
            if end.since(record.at) > retention_ms {
                break 'window;
            }
            newest_first.push(record);
        }
    }
    let mut delta = DeltaTail::default();
    for record in newest_first.iter().rev() {
        let age = end.since(record.at);
        delta.push(record, Millis(mono.0.saturating_sub(age)));
    }
    Ok(delta)
}
