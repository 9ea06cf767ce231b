//! The newest changes, encoded and shared by all watchers.

use std::collections::VecDeque;
use std::sync::Arc;

use super::told::{Bounds, Selection, Step, Told};
use crate::types::Lsn;

/// Every change of a stretch of the log, within bounds of number and bytes.
#[derive(Debug)]
pub(super) struct Ring {
    told: VecDeque<Arc<Told>>,
    bytes: usize,
    changes_max: usize,
    bytes_max: usize,
    /// What is behind it, up to the end, is here; `None` while nobody watches.
    covered: Option<(Lsn, Lsn)>,
}

impl Ring {
    pub(super) fn new(changes_max: usize, bytes_max: usize) -> Self {
        Self {
            told: VecDeque::new(),
            bytes: 0,
            changes_max,
            bytes_max,
            covered: None,
        }
    }

    /// Forgets everything and goes on behind `position`.
    pub(super) fn restart(&mut self, position: Lsn) {
        self.clear();
        self.covered = Some((position, position));
    }

    /// Forgets everything, and covers nothing from now on.
    pub(super) fn clear(&mut self) {
        self.told = VecDeque::new();
        self.bytes = 0;
        self.covered = None;
    }

    /// Takes what comes next, everything up to `end`; the oldest goes when there are too many.
    pub(super) fn extend(&mut self, told: Vec<Arc<Told>>, end: Lsn) {
        let Some((start, _)) = self.covered else {
            return;
        };
        self.bytes += told.iter().map(|told| told.event().len()).sum::<usize>();
        self.told.extend(told);
        let mut start = start;
        while self.told.len() > self.changes_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.told.pop_front() else {
                break;
            };
            self.bytes -= oldest.event().len();
            start = oldest.lsn;
        }
        self.covered = Some((start, end));
    }

    pub(super) fn covers(&self, position: Lsn) -> bool {
        self.covered.is_some_and(|(start, _)| position >= start)
    }

    /// What is behind `position`; `None` if that is not all here.
    pub(super) fn step(
        &self,
        position: Lsn,
        selection: &Selection,
        bounds: Bounds,
    ) -> Option<Step> {
        let (start, end) = self.covered?;
        if position < start {
            return None;
        }
        let mut step = Step {
            position,
            ..Step::default()
        };
        let place = self.told.partition_point(|told| told.lsn <= position);
        if step.look_at(self.told.range(place..), selection, bounds) {
            step.position = position.max(end);
            step.is_end = true;
        }
        Some(step)
    }

    /// Changes and bytes that are held.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.told.len(), self.bytes)
    }
}
