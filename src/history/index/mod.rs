//! Where in the log an instance or an application is, so that a question about it costs its answer
//! and not the log.
//!
//! All of it is derived: for each closed segment a sorted table in a file of its own ([`table`]),
//! for the segment that grows a map in memory ([`growing`]). It is made by reading the log, beside
//! the writer and never waited for by it: as the log grows by a task ([`super::follow`]), and by the
//! question itself for what that has not come to yet. A table that is missing, damaged or of
//! another version is made again from its segment; one whose segment was trimmed is removed.
//!
//! Memory: for each closed segment about 1.3 bytes an entry (two entries a record), for the growing
//! one eight bytes a record and some twenty for each instance and application in it. Tables that
//! cannot be written stay in memory, all together within [`MEMORY_MAX`].

mod budget;
mod growing;
mod key;
mod sieve;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tracing::{debug, warn};

use crate::registry::change::Record;
use crate::store::{LogReader, SegmentFacts, StoreError};
use crate::types::{AppName, InstanceId, Lsn};
pub(crate) use budget::{Budget, Stop};
use growing::Growing;
pub(super) use key::Key;
use key::KeyHash;
use table::Table;

/// The folder of the tables in the data directory.
pub const FOLDER: &str = "index";
/// Bytes that tables without a file may take together.
pub const MEMORY_MAX: usize = 128 << 20;
/// Records that are read at once to index them, and their bytes.
const CHUNK: usize = 1024;
const CHUNK_BYTES: usize = 1 << 20;
/// Times that a table is made again before its file is given up on.
const ATTEMPTS: usize = 3;
const PREFIX: &str = "index-";

/// The places of instances and applications in a log. One per log; shared by threads that may block.
#[derive(Debug)]
pub struct Index {
    /// Where the tables are; `None` keeps them in memory.
    dir: Option<PathBuf>,
    hash: KeyHash,
    memory_max: usize,
    state: RwLock<State>,
    /// Held while something is read from the log to be indexed, so that nothing is read twice.
    building: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// By the first LSN of the segment.
    closed: BTreeMap<Lsn, Arc<Table>>,
    growing: Option<Growing>,
    /// Closed segments that are damaged: nothing is looked up in them.
    damaged: BTreeMap<Lsn, String>,
    /// The beginning of the log when leftovers were looked for last.
    tidied: Option<Lsn>,
    has_warned: bool,
}

/// What the index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Closed segments with a table.
    pub segments: usize,
    /// Records of the growing segment that are in it.
    pub growing_records: usize,
    pub memory_bytes: usize,
}

impl Index {
    /// An index whose tables are files in `dir`, which need not be there yet. `None` keeps all in
    /// memory: some 25 bytes for each record.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self::with(dir, key::stable_hash, MEMORY_MAX)
    }

    fn with(dir: Option<PathBuf>, hash: KeyHash, memory_max: usize) -> Self {
        Self {
            dir,
            hash,
            memory_max,
            state: RwLock::default(),
            building: Mutex::default(),
        }
    }

    /// The index in the data directory of a store.
    pub fn in_data_dir(data_dir: &Path) -> Self {
        Self::new(Some(data_dir.join(FOLDER)))
    }

    pub fn stats(&self) -> IndexStats {
        let state = self.state();
        let tables: usize = state.closed.values().map(|table| table.bytes()).sum();
        let growing = state.growing.as_ref();
        IndexStats {
            segments: state.closed.len(),
            growing_records: growing.map_or(0, Growing::records),
            memory_bytes: tables + growing.map_or(0, Growing::bytes),
        }
    }

    /// Indexes one piece of what the index does not have yet: the newest closed segment, or else what
    /// has been added to the growing one. False: it has everything that was committed when it was
    /// asked.
    ///
    /// # Errors
    /// The log or the tables cannot be read or written.
    pub fn catch_up(&self, reader: &dyn LogReader) -> Result<bool, StoreError> {
        self.tidy(reader);
        let segments = reader.segments();
        let Some((growing, closed)) = segments.split_last() else {
            return Ok(false);
        };
        let is_missing = |segment: &&SegmentFacts| {
            !self.has(segment) && !self.state().damaged.contains_key(&segment.first)
        };
        let missing = closed.iter().rev().find(is_missing);
        if missing.is_none() && self.has(growing) {
            return Ok(false);
        }
        let mut budget = Budget::new(usize::MAX);
        match self.provide(reader, missing.unwrap_or(growing), &mut budget) {
            Ok(()) | Err(Stop::Trimmed | Stop::Spent) => Ok(missing.is_some()),
            Err(Stop::Damaged(_)) if missing.is_some() => Ok(true),
            Err(Stop::Damaged(error) | Stop::Store(error)) => Err(error),
        }
    }

    pub(super) fn instance_key(&self, app: &AppName, id: &InstanceId) -> Key {
        Key::instance(self.hash, app, id)
    }

    pub(super) fn app_key(&self, app: &AppName) -> Key {
        Key::app(self.hash, app)
    }

    /// The places of a key in a segment, as distances from its first record, ascending. Indexes the
    /// segment if that has not been done yet.
    pub(super) fn places(
        &self,
        reader: &dyn LogReader,
        segment: &SegmentFacts,
        key: Key,
        budget: &mut Budget,
    ) -> Result<Vec<u32>, Stop> {
        let mut cause = None;
        for _ in 0..ATTEMPTS {
            match self.look(segment, key) {
                Some(Ok(places)) => return Ok(places),
                Some(Err(error)) => {
                    debug!(%error, first = %segment.first, "an index of the history is made again: {error}");
                    self.forget(segment.first);
                    cause = Some(error);
                }
                None => {}
            }
            self.provide(reader, segment, budget)?;
        }
        match self.look(segment, key) {
            Some(Ok(places)) => Ok(places),
            _ => Err(Stop::Store(StoreError::io(
                "read an index of the history",
                self.dir.as_deref().unwrap_or(Path::new("memory")),
                cause.unwrap_or_else(|| io::Error::other("it is gone whenever it is made")),
            ))),
        }
    }

    /// The newest record of an instance before a position of which `is_wanted` is true, as far back as
    /// the log goes.
    pub(crate) fn newest(
        &self,
        reader: &dyn LogReader,
        (app, id, below): (&AppName, &InstanceId, Lsn),
        budget: &mut Budget,
        is_wanted: impl Fn(&Record) -> bool,
    ) -> Result<Option<Arc<Record>>, Stop> {
        let key = self.instance_key(app, id);
        for segment in reader.segments().iter().rev() {
            if segment.first >= below {
                continue;
            }
            if budget.is_spent() {
                return Err(Stop::Spent);
            }
            budget.take(1);
            let places = self.places(reader, segment, key, budget)?;
            let lsns = places
                .iter()
                .map(|place| Lsn(segment.first.0 + u64::from(*place)));
            for lsn in lsns.rev().filter(|lsn| *lsn < below) {
                budget.take(1);
                let found = reader.read(lsn, 1, 1)?.into_iter().next();
                // Another instance may have the same hash.
                let is_it = |found: &Arc<Record>| {
                    let change = &found.change;
                    found.lsn == lsn && change.app == *app && change.id == *id && is_wanted(found)
                };
                if let Some(found) = found.filter(is_it) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    fn look(&self, segment: &SegmentFacts, key: Key) -> Option<io::Result<Vec<u32>>> {
        let state = self.state();
        if let Some(table) = state.table(segment) {
            let table = table.clone();
            drop(state);
            return Some(table.find(key));
        }
        let growing = state.growing.as_ref()?;
        state.covers(segment).then(|| Ok(growing.find(key)))
    }

    /// Whether the segment is indexed up to where it is said to end.
    fn has(&self, segment: &SegmentFacts) -> bool {
        let state = self.state();
        state.table(segment).is_some() || state.covers(segment)
    }

    /// Makes the index of a segment.
    fn provide(
        &self,
        reader: &dyn LogReader,
        wanted: &SegmentFacts,
        budget: &mut Budget,
    ) -> Result<(), Stop> {
        let _one_at_a_time = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has(wanted) {
            return Ok(());
        }
        // As it is now: it may have been closed, or dropped.
        let segments = reader.segments();
        let place = segments
            .iter()
            .position(|segment| segment.first == wanted.first)
            .ok_or(Stop::Trimmed)?;
        if place + 1 == segments.len() {
            self.grow(reader, &segments, &segments[place], budget)
        } else {
            self.close(reader, &segments[place], budget)
        }
    }

    /// Brings the map of the growing segment up to date.
    fn grow(
        &self,
        reader: &dyn LogReader,
        segments: &[SegmentFacts],
        segment: &SegmentFacts,
        budget: &mut Budget,
    ) -> Result<(), Stop> {
        if budget.is_spent() {
            return Err(Stop::Spent);
        }
        let fits = |growing: &Growing| {
            growing.first() == segment.first && growing.next() <= segment.last.next()
        };
        let before = self.state_mut().growing.take();
        let mut growing = match before {
            Some(growing) if fits(&growing) => growing,
            other => {
                if let Some(before) = other {
                    self.retire(reader, segments, before);
                }
                Growing::new(segment.first)
            }
        };
        let filled = fill(&mut growing, reader, segment.last, self.hash, budget);
        self.state_mut().growing = Some(growing);
        filled
    }

    /// The segment that was growing is closed: its table is made of what is in memory. If that
    /// does not work, whoever needs it makes it of the log.
    fn retire(&self, reader: &dyn LogReader, segments: &[SegmentFacts], mut growing: Growing) {
        let closed = segments
            .iter()
            .find(|segment| segment.first == growing.first())
            .filter(|segment| growing.next() <= segment.last.next());
        let Some(segment) = closed else { return };
        let mut budget = Budget::new(usize::MAX);
        let made = fill(&mut growing, reader, segment.last, self.hash, &mut budget)
            .and_then(|()| self.install(Table::new(*segment, growing.entries())));
        if let Err(stop) = made {
            debug!(first = %segment.first, "the index of a closed segment was not made: {stop:?}");
        }
    }

    /// Loads or makes the table of a closed segment.
    fn close(
        &self,
        reader: &dyn LogReader,
        segment: &SegmentFacts,
        budget: &mut Budget,
    ) -> Result<(), Stop> {
        if let Some(path) = self.path(segment.first) {
            match Table::load(&path) {
                Ok(table) if table.facts() == segment => {
                    self.state_mut()
                        .closed
                        .insert(segment.first, Arc::new(table));
                    return Ok(());
                }
                Ok(_) => {
                    debug!(first = %segment.first, "an index of the history is of another segment");
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    debug!(%error, path = %path.display(), "an index of the history cannot be used: {error}");
                }
            }
        }
        if let Some(cause) = self.state().damaged.get(&segment.first) {
            return Err(Stop::Damaged(damaged(segment.first, cause)));
        }
        if budget.is_spent() {
            return Err(Stop::Spent);
        }
        let is_in_memory = |growing: &mut Growing| {
            growing.first() == segment.first && growing.next() <= segment.last.next()
        };
        let in_memory = self.state_mut().growing.take_if(is_in_memory);
        let mut growing = in_memory.unwrap_or_else(|| Growing::new(segment.first));
        let filled = fill(&mut growing, reader, segment.last, self.hash, budget);
        if let Err(Stop::Damaged(error)) = &filled {
            warn!(%error, "the history from LSN {} to {} cannot be read: {error}", segment.first, segment.last);
            let mut state = self.state_mut();
            state.damaged.insert(segment.first, error.to_string());
        }
        filled?;
        self.install(Table::new(*segment, growing.entries()))
    }

    /// Puts a table that was made into its file, or keeps it in memory.
    fn install(&self, mut table: Table) -> Result<(), Stop> {
        let first = table.facts().first;
        let failure = self.path(first).and_then(|path| {
            let error = write(&mut table, &path).err()?;
            Some(StoreError::io(
                "write an index of the history",
                &path,
                error,
            ))
        });
        let mut state = self.state_mut();
        if let Some(error) = &failure
            && !state.has_warned
        {
            warn!(%error, "an index of the history is kept in memory: {error}");
        }
        state.has_warned = failure.is_some();
        let size = state.blocks_in_memory() + table.bytes();
        if table.is_in_memory() && size > self.memory_max {
            let too_large = StoreError::TooLarge {
                what: "the index of the history in memory".into(),
                size,
                limit: self.memory_max,
            };
            return Err(Stop::Store(failure.unwrap_or(too_large)));
        }
        state.closed.insert(first, Arc::new(table));
        Ok(())
    }

    /// Drops a table whose file cannot be read.
    fn forget(&self, first: Lsn) {
        self.state_mut().closed.remove(&first);
        if let Some(path) = self.path(first) {
            // It is written anew; if it cannot be removed, that fails and says so.
            let _ = fs::remove_file(path);
        }
    }

    /// Removes the tables of segments that are no longer there, and what an interrupted write left.
    /// A file that cannot be removed costs its space and is tried again after the next start.
    pub(super) fn tidy(&self, reader: &dyn LogReader) {
        let first = reader.first_lsn();
        if self.state().tidied == Some(first) {
            return;
        }
        let _nothing_is_written = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: Vec<Lsn> = reader.segments().iter().map(|s| s.first).collect();
        {
            let mut state = self.state_mut();
            state.closed.retain(|first, _| kept.contains(first));
            state.damaged.retain(|first, _| kept.contains(first));
            state.tidied = Some(first);
        }
        let Some(entries) = self.dir.as_ref().and_then(|dir| fs::read_dir(dir).ok()) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
                continue;
            };
            if !rest.parse().is_ok_and(|lsn| kept.contains(&Lsn(lsn)))
                && let Err(error) = fs::remove_file(entry.path())
            {
                debug!(%error, "removing an index of the history: {error}");
            }
        }
    }

    fn path(&self, first: Lsn) -> Option<PathBuf> {
        let dir = self.dir.as_deref()?;
        Some(dir.join(format!("{PREFIX}{:020}", first.0)))
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The table that covers a segment.
    fn table(&self, segment: &SegmentFacts) -> Option<&Arc<Table>> {
        self.closed
            .get(&segment.first)
            .filter(|table| table.facts().last >= segment.last)
    }

    /// Whether the segment is the growing one, and in memory as far as it is said to reach.
    fn covers(&self, segment: &SegmentFacts) -> bool {
        self.growing.as_ref().is_some_and(|growing| {
            growing.first() == segment.first && growing.next() > segment.last
        })
    }

    fn blocks_in_memory(&self) -> usize {
        let in_memory = self.closed.values().filter(|table| table.is_in_memory());
        in_memory.map(|table| table.bytes()).sum()
    }
}

fn write(table: &mut Table, path: &Path) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    table.store(path)
}

/// Reads the log from where `growing` ends to `upto`.
fn fill(
    growing: &mut Growing,
    reader: &dyn LogReader,
    upto: Lsn,
    hash: KeyHash,
    budget: &mut Budget,
) -> Result<(), Stop> {
    while growing.next() <= upto {
        let from = growing.next();
        let left = usize::try_from(upto.0 - from.0 + 1).unwrap_or(CHUNK);
        let records = reader.read(from, left.min(CHUNK), CHUNK_BYTES)?;
        if records.is_empty() {
            return Err(Stop::Trimmed);
        }
        budget.take(records.len());
        for record in records {
            let change = &record.change;
            let instance = Key::instance(hash, &change.app, &change.id);
            let is_next = record.lsn == growing.next();
            if !is_next || !growing.push(instance, Key::app(hash, &change.app)) {
                return Err(damaged(from, "the segment is not contiguous").into());
            }
        }
    }
    Ok(())
}

fn damaged(at: Lsn, cause: &str) -> StoreError {
    StoreError::Damaged {
        place: format!("lsn {at}"),
        cause: cause.to_owned(),
        way_out: "what lies before and behind it is not touched by that".into(),
    }
}
