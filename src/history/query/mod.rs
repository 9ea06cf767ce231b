//! Walks through the log for a question: from its newest or its oldest record on, past the pieces
//! that cannot hold an answer, with each record beside the one before it of the same instance.
//!
//! A question about instances or applications goes by the [`Index`]; any other one reads every
//! record of the time that it asks for. A walk looks at a bounded number of records at a time and
//! can be put down and taken up again at a position, by itself or by a later one.

mod memory;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Filter;
use super::index::{Budget, Index, Key, Stop};
use crate::registry::change::{ChangeKind, OverrideEffect, Record};
use crate::store::{LogReader, SegmentFacts, StoreError};
use crate::types::Lsn;
use memory::Memory;

/// Most records that are read at once, and their bytes.
const CHUNK: usize = 1024;
const CHUNK_BYTES: usize = 2 << 20;
/// Places of a key that lie so close are read together with what is between them.
const NEIGHBOURS: u64 = 4;
/// Records that are looked at to find out whether there is anything behind a full page.
const PEEK: usize = 2000;

/// Where an answer begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    #[default]
    Newest,
    Oldest,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    pub filter: Filter,
    pub order: Order,
}

/// Is given each record that is asked for and the one before it of the same instance, if that
/// matters and is kept. Breaks to end the walk behind this record.
pub type Sink<'s> = dyn FnMut(&Arc<Record>, Option<&Arc<Record>>) -> ControlFlow<()> + 's;

/// A question on its way through the log. Reading may wait for the disk: keep it off the threads
/// that serve requests.
#[derive(Debug)]
pub struct Walk {
    reader: Arc<dyn LogReader>,
    index: Arc<Index>,
    question: Question,
    /// What the filter names, if the index knows it.
    keys: Option<Vec<Key>>,
    /// The next record to look at; `None` at the end.
    next: Option<Lsn>,
    /// The newest record when the walk began: what comes later is not its affair.
    newest: Lsn,
    /// The oldest record when the walk began.
    oldest: Lsn,
    has_missed: bool,
    looked_at: u64,
    memory: Memory,
}

/// How a walk through a segment ended.
enum Flow {
    Through,
    /// The walk is put down here.
    Stopped(Lsn),
}

/// One call of [`Walk::take`].
struct Turn<'t> {
    segments: Vec<SegmentFacts>,
    budget: Budget,
    /// Records that may still be told.
    left: usize,
    sink: &'t mut Sink<'t>,
}

impl Walk {
    /// A walk from the newest or the oldest record.
    pub fn new(reader: Arc<dyn LogReader>, index: Arc<Index>, question: Question) -> Self {
        let (oldest, newest) = (reader.first_lsn(), reader.last_lsn());
        let start = match question.order {
            Order::Newest => newest,
            Order::Oldest => oldest,
        };
        Self {
            keys: keys(&index, &question.filter),
            reader,
            index,
            question,
            next: Some(start).filter(|start| *start != Lsn::ZERO),
            newest,
            oldest,
            has_missed: false,
            looked_at: 0,
            memory: Memory::default(),
        }
    }

    /// The same, from a position on.
    #[must_use]
    pub fn starting_at(mut self, position: Lsn) -> Self {
        self.next = Some(match self.question.order {
            Order::Newest => position.min(self.newest),
            Order::Oldest => position,
        });
        self
    }

    /// Where it would go on; `None` once there is nothing left.
    pub fn next(&self) -> Option<Lsn> {
        self.next
    }

    /// Whether records were dropped before the walk came to them, or cannot be read.
    pub fn has_missed(&self) -> bool {
        self.has_missed
    }

    /// Records that have been looked at, for this question or to index them.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Goes on until `limit` records were told, some `looks` were looked at (a segment that has to
    /// be indexed is finished), or the log ends. Segments that are dropped meanwhile or damaged are
    /// passed over.
    ///
    /// # Errors
    /// The log or its index cannot be read.
    pub fn take(
        &mut self,
        limit: usize,
        looks: usize,
        sink: &mut Sink<'_>,
    ) -> Result<(), StoreError> {
        self.memory.forget_places();
        self.index.tidy(&*self.reader);
        let mut turn = Turn {
            segments: self.reader.segments(),
            budget: Budget::new(looks),
            left: limit,
            sink: &mut |record, before| sink(record, before),
        };
        let walked = self.walk(&mut turn);
        self.looked_at += turn.budget.taken();
        walked
    }

    fn walk(&mut self, turn: &mut Turn<'_>) -> Result<(), StoreError> {
        while let Some(at) = self.next {
            let Some(segment) = self.segment_at(&turn.segments, at) else {
                self.has_missed |= self.question.order == Order::Newest && at >= self.oldest;
                self.next = None;
                return Ok(());
            };
            let begins_later = turn.segments.first().is_some_and(|first| at < first.first);
            self.has_missed |= self.question.order == Order::Oldest && begins_later;
            let is_passed_over = if self.may_hold(&segment) {
                match self.through(&segment, at, turn) {
                    Ok(Flow::Through) => false,
                    Ok(Flow::Stopped(at)) => {
                        self.next = Some(at);
                        return Ok(());
                    }
                    Err(Stop::Trimmed | Stop::Damaged(_)) => {
                        self.has_missed = true;
                        true
                    }
                    Err(Stop::Spent) => return Ok(()),
                    Err(Stop::Store(error)) => return Err(error),
                }
            } else {
                true
            };
            if is_passed_over {
                // What came last of an instance is no longer known.
                self.memory.forget_latest();
            }
            self.next = self.beyond(&segment);
        }
        Ok(())
    }

    /// The piece of the log that holds a position, or the next one in the order of the walk.
    fn segment_at(&self, segments: &[SegmentFacts], at: Lsn) -> Option<SegmentFacts> {
        match self.question.order {
            Order::Newest => segments.iter().rev().find(|s| s.first <= at),
            Order::Oldest => segments
                .iter()
                .find(|s| s.last >= at)
                .filter(|s| s.first <= self.newest),
        }
        .copied()
    }

    /// The position behind a segment.
    fn beyond(&self, segment: &SegmentFacts) -> Option<Lsn> {
        match self.question.order {
            Order::Newest => self.after(segment.first),
            Order::Oldest => self.after(segment.last),
        }
    }

    /// The position behind a record.
    fn after(&self, lsn: Lsn) -> Option<Lsn> {
        match self.question.order {
            Order::Newest => Some(Lsn(lsn.0.saturating_sub(1))).filter(|lsn| *lsn != Lsn::ZERO),
            Order::Oldest => Some(lsn.next()).filter(|lsn| *lsn <= self.newest),
        }
    }

    /// Whether the times of a segment overlap with those asked for.
    fn may_hold(&self, segment: &SegmentFacts) -> bool {
        let filter = &self.question.filter;
        filter.from.is_none_or(|from| segment.latest >= from)
            && filter.to.is_none_or(|to| segment.earliest < to)
    }

    fn through(
        &mut self,
        segment: &SegmentFacts,
        at: Lsn,
        turn: &mut Turn<'_>,
    ) -> Result<Flow, Stop> {
        let (low, high) = match self.question.order {
            Order::Newest => (segment.first, at.min(segment.last)),
            Order::Oldest => (at.max(segment.first), segment.last.min(self.newest)),
        };
        let mut ranges = match self.ranges(segment, (low, high), turn) {
            Ok(ranges) => ranges,
            Err(Stop::Spent) => return Ok(Flow::Stopped(at)),
            Err(other) => return Err(other),
        };
        if self.question.order == Order::Newest {
            ranges.reverse();
        }
        for range in ranges {
            if let Flow::Stopped(at) = self.through_range(range, turn)? {
                return Ok(Flow::Stopped(at));
            }
        }
        Ok(Flow::Through)
    }

    /// The pieces of a segment that have to be read, ascending.
    fn ranges(
        &mut self,
        segment: &SegmentFacts,
        (low, high): (Lsn, Lsn),
        turn: &mut Turn<'_>,
    ) -> Result<Vec<(Lsn, Lsn)>, Stop> {
        let Some(keys) = &self.keys else {
            return Ok(vec![(low, high)]);
        };
        let mut places = Vec::new();
        for key in keys {
            places.extend(
                self.index
                    .places(&*self.reader, segment, *key, &mut turn.budget)?,
            );
        }
        if keys.len() > 1 {
            places.sort_unstable();
            places.dedup();
        }
        let mut ranges: Vec<(Lsn, Lsn)> = Vec::new();
        for place in places {
            let lsn = Lsn(segment.first.0 + u64::from(place));
            if lsn < low || lsn > high {
                continue;
            }
            match ranges.last_mut() {
                Some((_, end)) if lsn.0 - end.0 <= NEIGHBOURS => *end = lsn,
                _ => ranges.push((lsn, lsn)),
            }
        }
        Ok(ranges)
    }

    fn through_range(&mut self, range: (Lsn, Lsn), turn: &mut Turn<'_>) -> Result<Flow, Stop> {
        let mut at = match self.question.order {
            Order::Newest => range.1,
            Order::Oldest => range.0,
        };
        loop {
            if turn.budget.is_spent() {
                return Ok(Flow::Stopped(at));
            }
            let chunk = self.read(at, range, turn)?;
            let Some(last) = chunk.last().map(|record| record.lsn) else {
                return Err(Stop::Trimmed);
            };
            for record in &chunk {
                if self.question.filter.matches(record) {
                    if turn.left == 0 {
                        return Ok(Flow::Stopped(record.lsn));
                    }
                    let before = match self.before(record, &chunk, turn) {
                        Err(Stop::Spent) => return Ok(Flow::Stopped(record.lsn)),
                        before => before?,
                    };
                    turn.left -= 1;
                    if turn.left == 0 {
                        turn.budget.limit(PEEK);
                    }
                    let flow = (turn.sink)(record, before.as_ref());
                    self.pass(record);
                    if flow.is_break() {
                        return Ok(match self.after(record.lsn) {
                            Some(at) => Flow::Stopped(at),
                            None => Flow::Through,
                        });
                    }
                } else {
                    self.pass(record);
                }
            }
            match self.after(last) {
                Some(next) if next >= range.0 && next <= range.1 => at = next,
                _ => return Ok(Flow::Through),
            }
        }
    }

    /// The walk has come past a record.
    fn pass(&mut self, record: &Arc<Record>) {
        if self.question.order == Order::Oldest {
            self.memory.see(record);
        }
    }

    /// The next records of a range, in the order of the walk.
    fn read(
        &mut self,
        at: Lsn,
        range: (Lsn, Lsn),
        turn: &mut Turn<'_>,
    ) -> Result<Vec<Arc<Record>>, Stop> {
        let there = match self.question.order {
            Order::Newest => at.0 - range.0.0,
            Order::Oldest => range.1.0 - at.0,
        };
        let there = usize::try_from(there).unwrap_or(CHUNK).saturating_add(1);
        if there == 1
            && let Some(record) = self.memory.record(at)
        {
            return Ok(vec![record]);
        }
        // Not much more than what is wanted.
        let wanted = turn.left.saturating_add(1).clamp(16, CHUNK);
        let count = there.min(wanted).min(turn.budget.left());
        let records = match self.question.order {
            Order::Newest => self.reader.read_back(at, count, CHUNK_BYTES)?,
            Order::Oldest => self.reader.read(at, count, CHUNK_BYTES)?,
        };
        turn.budget.take(records.len());
        // Where the log was trimmed, reading backwards gives what lies before.
        let is_there = records.first().is_some_and(|record| record.lsn == at);
        Ok(if is_there { records } else { Vec::new() })
    }

    /// The record before this one of the same instance, where the entry needs it.
    fn before(
        &mut self,
        record: &Arc<Record>,
        chunk: &[Arc<Record>],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Arc<Record>>, Stop> {
        if !needs_before(record) {
            return Ok(None);
        }
        if self.question.order == Order::Oldest
            && let Some(latest) = self.memory.latest(record)
        {
            return Ok(Some(latest));
        }
        let change = &record.change;
        let key = self.index.instance_key(&change.app, &change.id);
        let mut below = record.lsn;
        while let Some(lsn) = self.place_before(key, below, turn)? {
            let nearby = chunk.iter().find(|record| record.lsn == lsn).cloned();
            let found = match nearby.or_else(|| self.memory.record(lsn)) {
                Some(found) => found,
                None => match self.reader.read(lsn, 1, 1) {
                    Ok(records) => {
                        turn.budget.take(records.len());
                        let Some(found) = records.into_iter().next() else {
                            return Ok(None);
                        };
                        found
                    }
                    Err(StoreError::Trimmed { .. } | StoreError::Damaged { .. }) => {
                        return Ok(None);
                    }
                    Err(error) => return Err(error.into()),
                },
            };
            if found.change.app == change.app && found.change.id == change.id {
                self.memory.keep(&found);
                return Ok(Some(found));
            }
            // Another instance with the same hash.
            below = lsn;
        }
        Ok(None)
    }

    /// The last place of a key before a position.
    fn place_before(
        &mut self,
        key: Key,
        below: Lsn,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Lsn>, Stop> {
        for segment in turn.segments.iter().rev() {
            if segment.first >= below {
                continue;
            }
            let known = self.memory.places(segment.first, key);
            let places = if let Some(known) = known {
                known
            } else {
                let index = &self.index;
                match index.places(&*self.reader, segment, key, &mut turn.budget) {
                    Ok(places) => self.memory.keep_places(segment.first, key, places),
                    // What lies before it is gone too, or cannot be told to be the one before.
                    Err(Stop::Trimmed | Stop::Damaged(_)) => return Ok(None),
                    Err(other) => return Err(other),
                }
            };
            let before = places
                .partition_point(|place| segment.first.0 + u64::from(*place) < below.0)
                .checked_sub(1);
            if let Some(before) = before {
                return Ok(Some(Lsn(segment.first.0 + u64::from(places[before]))));
            }
        }
        Ok(None)
    }
}

/// What the index can look up for a filter; `None` if every record has to be looked at.
fn keys(index: &Index, filter: &Filter) -> Option<Vec<Key>> {
    if filter.apps.is_empty() {
        return None;
    }
    let key = |app| match &filter.instance {
        Some(id) => index.instance_key(app, id),
        None => index.app_key(app),
    };
    Some(filter.apps.iter().map(key).collect())
}

/// Whether what an entry says depends on the record before. A new lease has nothing before it but
/// perhaps its end, which says no more.
fn needs_before(record: &Record) -> bool {
    record.change.kind != ChangeKind::Registered
        || record.change.override_effect != OverrideEffect::Keep
}
