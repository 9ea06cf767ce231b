//! The readers' side of the store on sled.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::registry::change::Record;
use crate::store::db::{damaged, guarded};
use crate::store::intern::Interner;
use crate::store::record::{self, DecodeError};
use crate::store::segment::{self, Direction, PART_BYTES};
use crate::store::shared::{Shared, keys};
use crate::store::{
    BaseFacts, Checkpoint, CheckpointSource, LogReader, LostRange, SegmentFacts, StoreError,
};
use crate::types::Lsn;

/// [`LogReader`] on sled.
#[derive(Debug)]
pub(super) struct SledReader {
    pub(super) shared: Arc<Shared>,
}

/// Collects records until a bound is reached, and sees to it that none is left out.
struct Collector {
    records: Vec<Arc<Record>>,
    strings: Interner,
    max_records: usize,
    bytes_left: usize,
}

impl Collector {
    fn new(max_records: usize, max_bytes: usize) -> Self {
        Self {
            records: Vec::new(),
            strings: Interner::default(),
            max_records,
            bytes_left: max_bytes,
        }
    }

    /// Takes the record that has to be `expected`.
    fn take(
        &mut self,
        expected: Lsn,
        lsn: Lsn,
        bytes: &[u8],
    ) -> Result<ControlFlow<()>, StoreError> {
        if lsn != expected {
            return Err(damaged(format!("lsn {expected}"), "the record is missing"));
        }
        self.records
            .push(Arc::new(decode(lsn, bytes, &mut self.strings)?));
        self.bytes_left = self.bytes_left.saturating_sub(bytes.len());
        Ok(
            if self.records.len() >= self.max_records || self.bytes_left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            },
        )
    }
}

/// Decodes the record that is stored under `lsn`.
pub(super) fn decode(lsn: Lsn, bytes: &[u8], strings: &mut Interner) -> Result<Record, StoreError> {
    match record::decode(bytes, strings) {
        Ok(record) if record.lsn == lsn => Ok(record),
        Ok(record) => Err(damaged(
            format!("lsn {lsn}"),
            format!("record {} is stored there", record.lsn),
        )),
        Err(DecodeError::Newer { found, known, .. }) => Err(StoreError::NewerSchema {
            what: format!("the record at lsn {lsn}"),
            found: found.into(),
            known: known.into(),
        }),
        Err(DecodeError::Damaged(cause)) => Err(damaged(format!("lsn {lsn}"), cause)),
    }
}

impl LogReader for SledReader {
    fn first_lsn(&self) -> Lsn {
        self.shared.first_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        self.shared.committed()
    }

    fn read(
        &self,
        from: Lsn,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        self.shared.with(|_| Ok(()))?;
        let committed = self.shared.committed();
        let segments = self.shared.segments();
        let first = segments
            .first()
            .map_or_else(|| self.first_lsn(), |segment| segment.first);
        if from < first {
            return Err(StoreError::Trimmed { asked: from, first });
        }
        let mut collector = Collector::new(max_records, max_bytes);
        if max_records == 0 {
            return Ok(collector.records);
        }
        for segment in segments {
            let low = segment.first.max(from);
            let high = segment.covered().last.min(committed);
            if high < low {
                continue;
            }
            let tree = segment.tree();
            let Some(tree) = tree.as_ref() else {
                self.shared.with(|_| Ok(()))?;
                // It was trimmed meanwhile.
                return Err(StoreError::Trimmed {
                    asked: from,
                    first: self.first_lsn(),
                });
            };
            let mut expected = low;
            let flow = segment::walk(tree, (low, high), Direction::Up, &mut |lsn, bytes| {
                let flow = collector.take(expected, lsn, bytes);
                expected = expected.next();
                flow
            })?;
            if flow.is_break() {
                break;
            }
            if expected <= high {
                return Err(damaged(format!("lsn {expected}"), "the record is missing"));
            }
        }
        Ok(collector.records)
    }

    fn read_back(
        &self,
        upto: Lsn,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        self.shared.with(|_| Ok(()))?;
        let upto = upto.min(self.shared.committed());
        let mut collector = Collector::new(max_records, max_bytes);
        if max_records == 0 {
            return Ok(collector.records);
        }
        for segment in self.shared.segments().into_iter().rev() {
            let low = segment.first;
            let high = segment.covered().last.min(upto);
            if high < low {
                continue;
            }
            let tree = segment.tree();
            let Some(tree) = tree.as_ref() else {
                self.shared.with(|_| Ok(()))?;
                break;
            };
            let mut expected = high;
            let flow = segment::walk(tree, (low, high), Direction::Down, &mut |lsn, bytes| {
                let flow = collector.take(expected, lsn, bytes);
                expected = Lsn(expected.0.saturating_sub(1));
                flow
            })?;
            if flow.is_break() {
                break;
            }
            if expected >= low {
                return Err(damaged(format!("lsn {expected}"), "the record is missing"));
            }
        }
        Ok(collector.records)
    }

    fn segments(&self) -> Vec<SegmentFacts> {
        let committed = self.shared.committed();
        let facts = self.shared.facts().into_iter().map(|facts| SegmentFacts {
            last: facts.last.min(committed),
            ..facts
        });
        facts
            .filter(|segment| segment.last >= segment.first)
            .collect()
    }

    fn losses(&self) -> Vec<LostRange> {
        self.shared.losses.clone()
    }

    fn bases(&self) -> Vec<BaseFacts> {
        self.shared.checkpoints()
    }

    fn load_base(&self, lsn: Lsn) -> Result<Checkpoint, StoreError> {
        self.shared.load_base(lsn)
    }

    fn write_checkpoint(&self, source: CheckpointSource<'_>) -> Result<(), StoreError> {
        self.shared.write_checkpoint(source)
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = format!("{}{key}", keys::USER);
        self.shared
            .with(|database| guarded("read the meta tree", || database.meta.get(&key)))
            .map(|value| value.map(|value| value.to_vec()))
    }

    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        if value.len() > PART_BYTES {
            return Err(StoreError::TooLarge {
                what: format!("the value of {key}"),
                size: value.len(),
                limit: PART_BYTES,
            });
        }
        self.shared.put(&format!("{}{key}", keys::USER), value)
    }

    fn meta_remove(&self, key: &str) -> Result<(), StoreError> {
        let key = format!("{}{key}", keys::USER);
        self.shared
            .with(|database| guarded("write to the meta tree", || database.meta.remove(&key)))
            .map(|_| ())
    }

    fn meta_list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let prefix = format!("{}{prefix}", keys::USER);
        self.shared.with(|database| {
            guarded("read the meta tree", || {
                let mut found = Vec::new();
                for entry in database.meta.scan_prefix(&prefix) {
                    let (key, value) = entry?;
                    let key = String::from_utf8_lossy(&key[keys::USER.len()..]).into_owned();
                    found.push((key, value.to_vec()));
                }
                Ok(found)
            })
        })
    }
}
