//! Changes that are behind the ring, out of the log: in pages that are read and encoded once for
//! all who want them at about the same time, as after a restart.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::sync::Semaphore;

use super::told::{Bounds, Selection, Step, Told, lease_after, needs_previous};
use crate::changelog::ChangeLog;
use crate::history::Index;
use crate::history::index::{Budget, Stop};
use crate::registry::change::Record;
use crate::store::{LogReader, StoreError};
use crate::types::Lsn;

/// Positions of a page.
const PAGE: u64 = 256;
/// Stored bytes after which a page ends early.
const PAGE_BYTES: usize = 4 << 20;
/// Encoded bytes of the pages that are kept.
const KEPT_BYTES: u64 = 32 << 20;
const KEPT_FOR: Duration = Duration::from_mins(1);
/// Pages that are read at the same time; others wait.
const READS: usize = 4;

/// Finds what came before records in the log.
pub trait Predecessors: Send + Sync + Debug {
    /// For each record the one of the same instance before it, if the log still has it. Waits for
    /// the disk.
    ///
    /// # Errors
    /// The log could not be read.
    fn of(
        &self,
        reader: &dyn LogReader,
        records: &[Arc<Record>],
    ) -> Result<Vec<Option<Arc<Record>>>, StoreError>;
}

/// Everything behind `from`, up to `to`.
#[derive(Debug)]
struct Page {
    to: Lsn,
    told: Vec<Arc<Told>>,
}

/// The pages of the log.
#[derive(Debug)]
pub(super) struct Pages {
    log: Arc<ChangeLog>,
    predecessors: Arc<dyn Predecessors>,
    kept: Cache<(Lsn, Lsn), Arc<Page>>,
    reads: Semaphore,
}

impl Pages {
    pub(super) fn new(log: Arc<ChangeLog>, predecessors: Arc<dyn Predecessors>) -> Self {
        let weigh = |_: &(Lsn, Lsn), page: &Arc<Page>| {
            let bytes: usize = page.told.iter().map(|told| told.event().len()).sum();
            u32::try_from(bytes + 1024).unwrap_or(u32::MAX)
        };
        Self {
            log,
            predecessors,
            kept: Cache::builder()
                .weigher(weigh)
                .max_capacity(KEPT_BYTES)
                .time_to_live(KEPT_FOR)
                .build(),
            reads: Semaphore::new(READS),
        }
    }

    /// What is behind `position`, of the committed records up to `newest`.
    ///
    /// # Errors
    /// [`StoreError::Trimmed`] if something behind the position is no longer kept, or what reading
    /// came to.
    pub(super) async fn step(
        &self,
        position: Lsn,
        newest: Lsn,
        selection: &Selection,
        bounds: Bounds,
    ) -> Result<Step, Arc<StoreError>> {
        let reader = self.log.reader();
        let first = reader.first_lsn();
        if position.next() < first {
            return Err(Arc::new(StoreError::Trimmed {
                asked: position.next(),
                first,
            }));
        }
        // Pages begin at the same positions for everybody.
        let start = position.0 / PAGE * PAGE;
        let upto = Lsn(start.saturating_add(PAGE)).min(newest);
        let mut from = Lsn(start).max(Lsn(first.0.saturating_sub(1)));
        let page = loop {
            let page = self.page(&reader, from, upto).await?;
            if page.to > position || page.to >= upto {
                break page;
            }
            from = page.to;
        };
        let mut step = Step {
            position,
            ..Step::default()
        };
        let place = page.told.partition_point(|told| told.lsn <= position);
        if step.look_at(page.told[place..].iter(), selection, bounds) {
            step.position = position.max(page.to);
            step.is_end = step.position >= newest;
        }
        Ok(step)
    }

    async fn page(
        &self,
        reader: &Arc<dyn LogReader>,
        from: Lsn,
        upto: Lsn,
    ) -> Result<Arc<Page>, Arc<StoreError>> {
        if let Some(page) = self.kept.get(&(from, upto)) {
            return Ok(page);
        }
        let closed = |_| Arc::new(StoreError::Closed);
        let _place = self
            .reads
            .acquire()
            .await
            .map_err(|_| Arc::new(StoreError::Closed))?;
        let (kept, reader) = (self.kept.clone(), reader.clone());
        let predecessors = self.predecessors.clone();
        tokio::task::spawn_blocking(move || {
            kept.try_get_with((from, upto), || {
                load(&*reader, &*predecessors, from, upto).map(Arc::new)
            })
            .map_err(|error| (*error).clone())
        })
        .await
        .map_err(closed)?
    }
}

/// Reads and encodes the page behind `from`.
fn load(
    reader: &dyn LogReader,
    predecessors: &dyn Predecessors,
    from: Lsn,
    upto: Lsn,
) -> Result<Page, Arc<StoreError>> {
    let most = usize::try_from(upto.0.saturating_sub(from.0)).unwrap_or(usize::MAX);
    let mut records = reader.read(from.next(), most, PAGE_BYTES)?;
    records.retain(|record| record.lsn <= upto);
    // Positions that the store left out end a page where there is nothing more.
    let to = records.last().map_or(upto, |record| record.lsn);

    let mut latest: HashMap<_, &Arc<Record>> = HashMap::new();
    let mut previous: Vec<Option<Arc<Record>>> = Vec::with_capacity(records.len());
    let mut asked = Vec::new();
    for (place, record) in records.iter().enumerate() {
        let earlier = latest.insert((&record.change.app, &record.change.id), record);
        previous.push(earlier.cloned());
        if earlier.is_none() && needs_previous(record) {
            asked.push(place);
        }
    }
    if !asked.is_empty() {
        let of: Vec<Arc<Record>> = asked.iter().map(|place| records[*place].clone()).collect();
        for (place, found) in asked.into_iter().zip(predecessors.of(reader, &of)?) {
            previous[place] = found;
        }
    }
    let told = records
        .iter()
        .zip(&previous)
        .map(|(record, previous)| {
            let lease = previous.as_deref().and_then(lease_after);
            Arc::new(Told::new(record, lease))
        })
        .collect();
    Ok(Page { to, told })
}

impl Predecessors for Index {
    fn of(
        &self,
        reader: &dyn LogReader,
        records: &[Arc<Record>],
    ) -> Result<Vec<Option<Arc<Record>>>, StoreError> {
        let found = records.iter().map(|record| {
            let place = (&record.change.app, &record.change.id, record.lsn);
            let mut budget = Budget::new(usize::MAX);
            match self.newest(reader, place, &mut budget, |_| true) {
                Ok(found) => Ok(found),
                // What comes before a segment that was dropped, or cannot be read, is not known.
                Err(Stop::Trimmed | Stop::Spent | Stop::Damaged(_)) => Ok(None),
                Err(Stop::Store(error)) => Err(error),
            }
        });
        found.collect()
    }
}
