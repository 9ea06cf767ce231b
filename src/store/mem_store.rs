//! The store in memory, for simulation and tests: the same promises on a disk that is a value.
//!
//! A [`MemDisk`] outlives the stores opened on it. Dropping a store without closing it is a crash:
//! what was not committed is gone, and with [`MemDisk::cut_power`] also what was only flushed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::registry::change::Record;
use crate::store::bases::{self, Bounds};
use crate::store::segment::{PART_BYTES, stored_bytes};
use crate::store::sled_store::encode_batch;
use crate::store::{
    BaseFacts, Checkpoint, CheckpointSource, Durability, LogReader, LogStore, Loss, LossCause,
    LostRange, Opened, SegmentFacts, StoreError, StoreOptions, StoreStats, Trimmed,
};
use crate::types::{Lsn, Millis};

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct MemDisk {
    content: Arc<Mutex<Content>>,
    options: Arc<StoreOptions>,
}

#[derive(Debug, Default)]
struct Content {
    /// Which opening owns the disk; 0: none.
    owner: u64,
    openings: u64,
    segments: VecDeque<Segment>,
    meta: BTreeMap<String, Vec<u8>>,
    checkpoints: Vec<Arc<Checkpoint>>,
    /// Newest appended, committed and synced record.
    appended: Lsn,
    committed: Lsn,
    synced: Lsn,
    /// LSNs up to here were given out or skipped.
    told: Lsn,
    is_unsynced: bool,
    alive_at: Millis,
    incarnation: u64,
    syncs: u64,
    flushes: u64,
}

#[derive(Debug)]
struct Segment {
    facts: SegmentFacts,
    records: Vec<(Arc<Record>, u64)>,
}

impl Content {
    fn first_lsn(&self) -> Lsn {
        self.segments
            .front()
            .map_or(self.told.max(self.appended).next(), |s| s.facts.first)
    }

    fn facts(&self) -> Vec<SegmentFacts> {
        self.segments.iter().map(|segment| segment.facts).collect()
    }

    fn bases(&self) -> Vec<BaseFacts> {
        let facts = self.checkpoints.iter().map(|kept| BaseFacts {
            lsn: kept.lsn,
            at: kept.at,
            leases: kept.leases.len() as u64,
            bytes: 0,
        });
        facts.collect()
    }

    /// Lets the checkpoints go that nothing needs any more.
    fn retain(&mut self, bounds: &Bounds) {
        let retained = bases::retained(&self.bases(), &self.facts(), bounds);
        self.checkpoints
            .retain(|kept| retained.iter().any(|facts| facts.lsn == kept.lsn));
    }

    /// Forgets the records behind `last`, as a crash does.
    fn cut(&mut self, last: Lsn) {
        for segment in &mut self.segments {
            segment.records.retain(|(record, _)| record.lsn <= last);
            segment.recount();
        }
        self.segments.retain(|segment| !segment.records.is_empty());
        self.appended = self.appended.min(last);
        self.committed = self.committed.min(last);
        self.synced = self.synced.min(last);
    }
}

impl Segment {
    fn recount(&mut self) {
        let Some((first, _)) = self.records.first() else {
            return;
        };
        self.facts = SegmentFacts {
            first: first.lsn,
            earliest: Millis(u64::MAX),
            after: self.facts.after,
            base: self.facts.base,
            ..SegmentFacts::default()
        };
        for (record, bytes) in &self.records {
            self.facts.last = record.lsn;
            self.facts.bytes += bytes;
            self.facts.earliest = self.facts.earliest.min(record.at);
            self.facts.latest = self.facts.latest.max(record.at);
        }
    }
}

impl MemDisk {
    /// An empty disk; of the options only the bounds of segments and history count.
    pub fn new(options: StoreOptions) -> Self {
        Self {
            content: Arc::default(),
            options: Arc::new(options),
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content
            .lock()
            .expect("holders of this lock do not panic")
    }

    /// Takes away everything that was not synced, as a power loss does; open stores stop.
    pub fn cut_power(&self) {
        let mut content = self.content();
        content.owner = 0;
        let synced = content.synced;
        content.cut(synced);
    }

    /// Opens the store on the disk as [`super::open`] does. A store that is still open was killed.
    pub fn open(&self, now_wall: Millis) -> Opened {
        let mut content = self.content();
        let committed = content.committed;
        content.cut(committed);
        let last = content.appended;
        let end = last.max(content.told);
        let lost = (content.told > last && content.is_unsynced).then(|| Loss {
            first: last.next(),
            last: content.told,
            cause: LossCause::NotSynced,
        });
        content.told = end;
        content.is_unsynced &= content.synced < content.committed;
        if lost.is_some() || content.incarnation == 0 {
            content.incarnation += 1;
        }
        content.openings += 1;
        content.owner = content.openings;
        let side = Side {
            disk: self.clone(),
            owner: content.owner,
        };
        let opened = Opened {
            store: Box::new(MemStore { side: side.clone() }),
            reader: Arc::new(MemReader { side }),
            checkpoint: content.checkpoints.last().map(|newest| (**newest).clone()),
            last_lsn: last,
            next_lsn: end.next(),
            last_alive: content.alive_at,
            node_id: "00000000-0000-0000-0000-000000000001".into(),
            incarnation: format!("00000000-0000-0000-0000-{:012}", content.incarnation),
            notes: Vec::new(),
            lost,
            short_of_space: None,
        };
        content.alive_at = now_wall;
        opened
    }
}

/// One opening of the disk.
#[derive(Clone, Debug)]
struct Side {
    disk: MemDisk,
    owner: u64,
}

impl Side {
    fn content(&self) -> Result<MutexGuard<'_, Content>, StoreError> {
        let content = self.disk.content();
        if content.owner == self.owner {
            Ok(content)
        } else {
            Err(StoreError::Closed)
        }
    }
}

#[derive(Debug)]
struct MemStore {
    side: Side,
}

impl LogStore for MemStore {
    fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let mut content = self.side.content()?;
        let encoded = encode_batch(content.appended.max(content.told).next(), records)?;
        let options = &self.side.disk.options;
        for (place, (record, bytes)) in records.iter().zip(encoded).enumerate() {
            let is_full = content.segments.back().is_none_or(|segment| {
                segment.facts.last.next() != record.lsn
                    || place == 0
                        && (segment.facts.bytes > options.segment_bytes
                            || record.at.since(segment.facts.earliest) > options.segment_age_ms)
            });
            if is_full {
                let after = content.appended;
                let covered = content.checkpoints.last().map(|newest| newest.lsn);
                let is_hole = after.next() != record.lsn;
                let facts = SegmentFacts {
                    after,
                    base: covered.filter(|_| is_hole).unwrap_or_default(),
                    ..SegmentFacts::default()
                };
                content.segments.push_back(Segment {
                    facts,
                    records: Vec::new(),
                });
            }
            if let Some(segment) = content.segments.back_mut() {
                segment
                    .records
                    .push((record.clone(), stored_bytes(bytes.len()) as u64));
                let facts = &mut segment.facts;
                if is_full {
                    facts.first = record.lsn;
                    facts.earliest = record.at;
                }
                facts.last = record.lsn;
                facts.bytes += stored_bytes(bytes.len()) as u64;
                facts.earliest = facts.earliest.min(record.at);
                facts.latest = facts.latest.max(record.at);
            }
            content.appended = record.lsn;
        }
        Ok(())
    }

    fn commit(&mut self, durability: Durability) -> Result<(), StoreError> {
        let mut content = self.side.content()?;
        content.committed = content.appended;
        content.flushes += 1;
        match durability {
            Durability::Flush => content.is_unsynced = true,
            Durability::Disk => {
                content.synced = content.appended;
                content.is_unsynced = content.told > content.synced;
                content.syncs += 1;
            }
        }
        Ok(())
    }

    fn trim(&mut self, floor: Lsn, now_wall: Millis) -> Result<Trimmed, StoreError> {
        let mut content = self.side.content()?;
        let kept = content.bases();
        let older = match &kept[..] {
            [.., older, _] => older.lsn.next(),
            _ => Lsn::ZERO,
        };
        let bounds = Bounds::of(&self.side.disk.options);
        let log = content.facts();
        let count = bases::droppable(&log, &kept, floor.min(older), now_wall, &bounds);
        let mut trimmed = Trimmed::default();
        for segment in content.segments.drain(..count) {
            trimmed.segments += 1;
            trimmed.bytes += segment.facts.bytes;
        }
        if count > 0 {
            content.retain(&bounds);
        }
        trimmed.first_lsn = content.first_lsn();
        Ok(trimmed)
    }

    fn touch_watermark(&mut self, acknowledged: Lsn, now_wall: Millis) -> Result<(), StoreError> {
        let mut content = self.side.content()?;
        content.is_unsynced |= acknowledged > content.committed;
        content.told = content.told.max(acknowledged);
        content.alive_at = now_wall;
        Ok(())
    }

    fn stats(&self) -> StoreStats {
        let content = self.side.disk.content();
        let log_bytes = content
            .segments
            .iter()
            .map(|segment| segment.facts.bytes)
            .sum();
        StoreStats {
            first_lsn: content.first_lsn(),
            last_lsn: content.committed,
            segments: content.segments.len() as u64,
            log_bytes,
            file_bytes: log_bytes,
            syncs: content.syncs,
            flushes: content.flushes,
            checkpoint_lsn: content
                .checkpoints
                .last()
                .map(|newest| newest.lsn)
                .unwrap_or_default(),
            bases: bases::bases_of(&content.bases()).len() as u64,
            base_bytes: 0,
            blob_files: 0,
        }
    }

    fn close(mut self: Box<Self>, now_wall: Millis) -> Result<(), StoreError> {
        self.commit(Durability::Disk)?;
        let mut content = self.side.content()?;
        content.is_unsynced = false;
        content.alive_at = now_wall;
        content.owner = 0;
        Ok(())
    }
}

#[derive(Debug)]
struct MemReader {
    side: Side,
}

/// Cuts a walk over records at the bounds of a read.
fn bounded<'a>(
    records: impl Iterator<Item = &'a (Arc<Record>, u64)>,
    max_records: usize,
    max_bytes: usize,
) -> Vec<Arc<Record>> {
    let mut left = max_bytes as u64;
    let mut taken: Vec<Arc<Record>> = Vec::new();
    for (record, bytes) in records.take(max_records) {
        if left == 0 && !taken.is_empty() {
            break;
        }
        left = left.saturating_sub(*bytes);
        taken.push(record.clone());
    }
    taken
}

impl LogReader for MemReader {
    fn first_lsn(&self) -> Lsn {
        self.side.disk.content().first_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        self.side.disk.content().committed
    }

    fn read(
        &self,
        from: Lsn,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        let content = self.side.content()?;
        let first = content.first_lsn();
        if from < first {
            return Err(StoreError::Trimmed { asked: from, first });
        }
        let records = content
            .segments
            .iter()
            .filter(|segment| segment.facts.last >= from)
            .flat_map(|segment| &segment.records)
            .filter(|(record, _)| record.lsn >= from && record.lsn <= content.committed);
        Ok(bounded(records, max_records, max_bytes))
    }

    fn read_back(
        &self,
        upto: Lsn,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        let content = self.side.content()?;
        let upto = upto.min(content.committed);
        let records = content
            .segments
            .iter()
            .rev()
            .filter(|segment| segment.facts.first <= upto)
            .flat_map(|segment| segment.records.iter().rev())
            .filter(|(record, _)| record.lsn <= upto);
        Ok(bounded(records, max_records, max_bytes))
    }

    fn segments(&self) -> Vec<SegmentFacts> {
        let content = self.side.disk.content();
        let committed = content.committed;
        content
            .segments
            .iter()
            .map(|segment| SegmentFacts {
                last: segment.facts.last.min(committed),
                ..segment.facts
            })
            .filter(|facts| facts.last >= facts.first)
            .collect()
    }

    fn losses(&self) -> Vec<LostRange> {
        Vec::new()
    }

    fn bases(&self) -> Vec<BaseFacts> {
        self.side.disk.content().bases()
    }

    fn load_base(&self, lsn: Lsn) -> Result<Checkpoint, StoreError> {
        let content = self.side.content()?;
        let kept = content.checkpoints.iter().find(|kept| kept.lsn == lsn);
        kept.map(|kept| (**kept).clone())
            .ok_or_else(|| StoreError::Trimmed {
                asked: lsn,
                first: content.first_lsn(),
            })
    }

    fn write_checkpoint(&self, source: CheckpointSource<'_>) -> Result<(), StoreError> {
        let checkpoint = Checkpoint {
            lsn: source.lsn,
            at: source.at,
            leases: source.leases.collect(),
            overrides: source.overrides.collect(),
            holds: source.holds.collect(),
            expected_clients: source.expected_clients,
        };
        let mut content = self.side.content()?;
        let newest = content
            .checkpoints
            .last()
            .map(|newest| newest.lsn)
            .unwrap_or_default();
        let covered = content.committed.max(content.told);
        if checkpoint.lsn > covered || checkpoint.lsn < newest {
            let expected = if checkpoint.lsn < newest {
                newest
            } else {
                covered
            };
            return Err(StoreError::OutOfOrder {
                expected,
                found: checkpoint.lsn,
            });
        }
        content
            .checkpoints
            .retain(|kept| kept.lsn != checkpoint.lsn);
        content.checkpoints.push(Arc::new(checkpoint));
        content.retain(&Bounds::of(&self.side.disk.options));
        Ok(())
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.side.content()?.meta.get(key).cloned())
    }

    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        if value.len() > PART_BYTES {
            return Err(StoreError::TooLarge {
                what: format!("the value of {key}"),
                size: value.len(),
                limit: PART_BYTES,
            });
        }
        self.side
            .content()?
            .meta
            .insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn meta_remove(&self, key: &str) -> Result<(), StoreError> {
        self.side.content()?.meta.remove(key);
        Ok(())
    }

    fn meta_list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let content = self.side.content()?;
        let from = content.meta.range(prefix.to_owned()..);
        Ok(from
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite::{all, batch, lsns};
    use crate::store::testing::options;

    #[test]
    fn a_killed_store_loses_what_was_not_committed_and_a_power_cut_what_was_not_synced() {
        let disk = MemDisk::new(options("mem"));
        let mut opened = disk.open(Millis(1));
        for (lsn, durability) in [(1, Durability::Disk), (2, Durability::Flush)] {
            opened.store.append(&batch(lsn..=lsn)).unwrap();
            opened.store.commit(durability).unwrap();
            opened.store.touch_watermark(Lsn(lsn), Millis(lsn)).unwrap();
        }
        opened.store.append(&batch(3..=3)).unwrap();
        let again = disk.open(Millis(2));
        assert_eq!(lsns(&all(&*again.reader)), [1, 2]);
        assert_eq!((again.next_lsn, again.lost.clone()), (Lsn(3), None));
        assert!(matches!(
            opened.store.commit(Durability::Disk),
            Err(StoreError::Closed)
        ));

        disk.cut_power();
        let third = disk.open(Millis(3));
        assert_eq!(lsns(&all(&*third.reader)), [1]);
        let lost = third.lost.unwrap();
        assert_eq!(
            (lost.first, lost.last, lost.cause),
            (Lsn(2), Lsn(2), LossCause::NotSynced)
        );
        assert_eq!(third.next_lsn, Lsn(3), "2 was told to somebody");
        assert_ne!(third.incarnation, again.incarnation);
    }
}
