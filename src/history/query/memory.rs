//! What a walk remembers on its way, within bounds of its own: it may all be forgotten at any time
//! and costs a look into the log then.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::super::index::Key;
use crate::registry::change::Record;
use crate::types::{AppName, InstanceId, Lsn};

/// Bytes of records that came last of their instance.
const LATEST_BYTES: usize = 4 << 20;
/// Bytes of records that were read as the one before.
const KEPT_BYTES: usize = 1 << 20;
/// Lists of places that are kept.
const LISTS: usize = 8;
/// Bytes that a record takes beside its texts, about.
const RECORD_BYTES: usize = 600;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The last record of each instance that a walk from the oldest on has seen.
    latest: HashMap<(AppName, InstanceId), Arc<Record>>,
    latest_bytes: usize,
    kept: VecDeque<Arc<Record>>,
    kept_bytes: usize,
    lists: VecDeque<(Lsn, Key, Arc<[u32]>)>,
}

impl Memory {
    /// Notes a record of a walk that leaves none out.
    pub(super) fn see(&mut self, record: &Arc<Record>) {
        self.latest_bytes += weight(record);
        if self.latest_bytes > LATEST_BYTES {
            self.forget_latest();
        }
        let change = &record.change;
        self.latest
            .insert((change.app.clone(), change.id.clone()), record.clone());
    }

    /// The last record of the same instance.
    pub(super) fn latest(&self, record: &Record) -> Option<Arc<Record>> {
        let change = &record.change;
        self.latest
            .get(&(change.app.clone(), change.id.clone()))
            .cloned()
    }

    pub(super) fn forget_latest(&mut self) {
        self.latest.clear();
        self.latest_bytes = 0;
    }

    /// Keeps a record that will soon be asked for.
    pub(super) fn keep(&mut self, record: &Arc<Record>) {
        if self.record(record.lsn).is_some() {
            return;
        }
        self.kept_bytes += weight(record);
        self.kept.push_back(record.clone());
        while self.kept_bytes > KEPT_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            self.kept_bytes -= weight(&oldest);
        }
    }

    pub(super) fn record(&self, lsn: Lsn) -> Option<Arc<Record>> {
        self.kept
            .iter()
            .rev()
            .find(|record| record.lsn == lsn)
            .cloned()
    }

    /// Keeps the places of a key in a segment.
    pub(super) fn keep_places(&mut self, segment: Lsn, key: Key, places: Vec<u32>) -> Arc<[u32]> {
        let places: Arc<[u32]> = places.into();
        if !places.is_empty() {
            if self.lists.len() == LISTS {
                self.lists.pop_front();
            }
            self.lists.push_back((segment, key, places.clone()));
        }
        places
    }

    pub(super) fn places(&self, segment: Lsn, key: Key) -> Option<Arc<[u32]>> {
        self.lists
            .iter()
            .find(|(first, of, _)| (*first, *of) == (segment, key))
            .map(|(.., places)| places.clone())
    }

    /// Places are those of a moment.
    pub(super) fn forget_places(&mut self) {
        self.lists.clear();
    }
}

/// Bytes that a record keeps in memory, about.
fn weight(record: &Record) -> usize {
    let Some(lease) = &record.change.lease else {
        return RECORD_BYTES;
    };
    let instance = &lease.instance;
    let texts = [
        &instance.home_page_url,
        &instance.status_page_url,
        &instance.health_check_url,
        &instance.secure_health_check_url,
        &instance.vip_address,
        &instance.secure_vip_address,
        &instance.asg_name,
        &instance.app_group_name,
        &instance.sid,
        &instance.instance_id,
    ];
    let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
    let metadata: usize = instance
        .metadata
        .iter()
        .map(|(key, value)| key.len() + value.len() + 32)
        .sum();
    RECORD_BYTES + texts + instance.host_name.len() + instance.ip_addr.len() + metadata
}
