//! The places of the segment that still grows, in memory: each record points to the one before it
//! of the same instance and of the same application.

use std::collections::HashMap;

use super::key::Key;
use crate::types::Lsn;

/// No record before.
const NONE: u32 = u32::MAX;

/// Eight bytes for each record, and an entry of a map for each instance and application.
#[derive(Debug)]
pub(super) struct Growing {
    first: Lsn,
    newest: HashMap<Key, u32>,
    /// Of each record, what was there before of its instance and of its application.
    before: Vec<[u32; 2]>,
}

impl Growing {
    pub(super) fn new(first: Lsn) -> Self {
        Self {
            first,
            newest: HashMap::new(),
            before: Vec::new(),
        }
    }

    pub(super) fn first(&self) -> Lsn {
        self.first
    }

    /// The first LSN that is not in it.
    pub(super) fn next(&self) -> Lsn {
        Lsn(self.first.0 + self.before.len() as u64)
    }

    /// Takes the keys of the record at [`Growing::next`]. False if there is no room for more.
    pub(super) fn push(&mut self, instance: Key, app: Key) -> bool {
        let Some(place) = u32::try_from(self.before.len())
            .ok()
            .filter(|place| *place != NONE)
        else {
            return false;
        };
        let mut link = |key| self.newest.insert(key, place).unwrap_or(NONE);
        let links = [link(instance), link(app)];
        self.before.push(links);
        true
    }

    /// The places of a key, as distances from the first record, ascending.
    pub(super) fn find(&self, key: Key) -> Vec<u32> {
        let mut places: Vec<u32> = self.chain(key).collect();
        places.reverse();
        places
    }

    /// All places with their keys, in no order.
    pub(super) fn entries(&self) -> Vec<(u64, u32)> {
        let mut all = Vec::with_capacity(self.before.len() * 2);
        for key in self.newest.keys() {
            all.extend(self.chain(*key).map(|place| (key.0, place)));
        }
        all
    }

    fn chain(&self, key: Key) -> impl Iterator<Item = u32> {
        let side = usize::from(!key.is_instance());
        let start = self.newest.get(&key).copied();
        std::iter::successors(start, move |place| {
            Some(self.before[*place as usize][side]).filter(|before| *before != NONE)
        })
    }

    pub(super) fn records(&self) -> usize {
        self.before.len()
    }

    /// Memory that it takes, bytes, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.before.capacity() * 8 + self.newest.capacity() * 20
    }
}
