//! The log behind a peer's cursor: the records that the peer is still to be told of, from memory or from
//! the disk, and since when the oldest of them waits.

use std::sync::Arc;

use tracing::{info, warn};

use super::sender::{RECORDS_AT_ONCE, Records};
use crate::changelog::Published;
use crate::registry::change::Record;
use crate::store::{LogReader, StoreError};
use crate::types::{Lsn, Millis};

/// Bytes of records read from the disk in one step.
const RECORD_BYTES: usize = 8 << 20;

/// What one peer's task remembers of the log from step to step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behind {
    /// A cursor, and the time of the first record behind it: the disk is asked once for each cursor.
    waits: Option<(Lsn, Millis)>,
    /// Whether the last reading failed, though a later one may not.
    is_failing: bool,
}

impl Behind {
    /// Wall time of the oldest record behind `cursor`; `None` if there is none. Where the log does not
    /// reach back to the cursor, or cannot be read, that of the oldest record that there is. May wait for
    /// the disk.
    pub(super) fn oldest(
        &mut self,
        cursor: Lsn,
        state: &Published,
        reader: &dyn LogReader,
    ) -> Option<Millis> {
        if cursor >= state.lsn() {
            return None;
        }
        if let Some(mut records) = state.delta.since(cursor.next()) {
            return records.next().map(|record| record.at);
        }
        if let Some((of, at)) = self.waits
            && of == cursor
        {
            return Some(at);
        }
        let read = match reader.read(cursor.next(), 1, 1) {
            Err(StoreError::Trimmed { first, .. }) => reader.read(first, 1, 1),
            read => read,
        };
        if let Some(at) = read.ok().and_then(|read| read.first().map(|r| r.at)) {
            self.waits = Some((cursor, at));
            return Some(at);
        }
        // It waits for longer than anything in memory does.
        state.delta.oldest().map(|record| record.at)
    }
}

/// The log for one step of one peer's sender.
pub(super) struct LogRecords<'a> {
    pub(super) behind: &'a mut Behind,
    pub(super) state: &'a Published,
    pub(super) reader: &'a dyn LogReader,
    /// The peer, for the log.
    pub(super) peer: &'a str,
}

impl Records for LogRecords<'_> {
    fn since(&mut self, first: Lsn) -> Option<Vec<Arc<Record>>> {
        if let Some(records) = self.state.delta.since(first) {
            return Some(records.take(RECORDS_AT_ONCE).cloned().collect());
        }
        let peer = self.peer;
        match self.reader.read(first, RECORDS_AT_ONCE, RECORD_BYTES) {
            Ok(records) => {
                if std::mem::take(&mut self.behind.is_failing) {
                    info!(peer.url = %peer, lsn = %first, "the log can be read again for {peer}");
                }
                Some(records)
            }
            Err(StoreError::Trimmed { .. }) => None,
            // It will not get better: the peer is told what there is instead of what has changed, which
            // takes its cursor past the place, so that this is said once.
            Err(error @ (StoreError::Damaged { .. } | StoreError::NewerSchema { .. })) => {
                warn!(
                    peer.url = %peer, %error, lsn = %first,
                    "the log cannot be told to {peer} from LSN {first}, it gets the whole registry instead: {error}"
                );
                None
            }
            Err(error) => {
                if !std::mem::replace(&mut self.behind.is_failing, true) {
                    warn!(
                        peer.url = %peer, %error, lsn = %first,
                        "reading the log for {peer} from LSN {first}, trying again: {error}"
                    );
                }
                Some(Vec::new())
            }
        }
    }
}

#[cfg(test)]
#[path = "behind_tests.rs"]
mod tests;
