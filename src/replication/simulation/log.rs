//! The log of a simulated node, as it is asked and read.

use std::sync::Arc;

use super::node::SimNode;
use crate::registry::Tombstone;
use crate::registry::change::Record;
use crate::replication::outbound::Key;
use crate::replication::past::{Past, Removed};
use crate::replication::sender::{RECORDS_AT_ONCE, Records};
use crate::types::{Lsn, Millis};

/// The log as it is asked for removals.
#[derive(Debug)]
pub(super) struct DurablePast<'a>(pub(super) &'a [Arc<Record>]);

impl Past for DurablePast<'_> {
    fn removals(&self, keys: &[Key]) -> Removed {
        let last = |(app, id): &Key| {
            let is_it = |record: &&Arc<Record>| {
                let change = &record.change;
                change.app == *app && change.id == *id && change.lease.is_some()
            };
            let record = self.0.iter().rev().find(is_it)?;
            Some(((app.clone(), id.clone()), Tombstone::of(record)?))
        };
        let mut removed = Removed::default();
        removed.extend(keys.iter().filter_map(last));
        removed
    }

    fn decided(&self, change: Lsn) -> Option<Millis> {
        let record = self.0.iter().rev().find(|record| record.lsn == change);
        record.map(|record| record.at)
    }
}

/// The log as a sender reads it.
pub(super) struct LogRecords<'a> {
    pub(super) node: &'a SimNode,
}

impl Records for LogRecords<'_> {
    fn since(&mut self, first: Lsn) -> Option<Vec<Arc<Record>>> {
        if let Some(records) = self.node.published.delta.since(first) {
            return Some(records.take(RECORDS_AT_ONCE).cloned().collect());
        }
        if first < self.node.floor {
            return None;
        }
        let skipped = usize::try_from(first.0 - 1).expect("a position");
        let rest = self.node.durable.iter().skip(skipped);
        Some(rest.take(RECORDS_AT_ONCE).cloned().collect())
    }
}
