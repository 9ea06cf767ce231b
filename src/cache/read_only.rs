//! The tier that requests read: a map that is swapped as a whole, so that a hit costs a look-up and
//! no lock that a writer could hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::Key;
use super::payload::Payload;

/// Names beyond this are served from the read-write tier: the original keeps every name that was
/// ever asked for, for ever.
const KEYS_MAX: usize = 4096;

type Slots = HashMap<Key, Option<Arc<Payload>>>;

#[derive(Debug, Default)]
pub(super) struct ReadOnly {
    slots: ArcSwap<Slots>,
    /// One writer at a time; holds nothing.
    writing: Mutex<()>,
}

/// What the tier knows of a key.
pub(super) enum Looked {
    Payload(Arc<Payload>),
    /// Asked for before, and not there.
    Absent,
    Unknown,
}

impl ReadOnly {
    pub(super) fn look(&self, key: &Key) -> Looked {
        match self.slots.load().get(key) {
            Some(Some(payload)) => Looked::Payload(payload.clone()),
            Some(None) => Looked::Absent,
            None => Looked::Unknown,
        }
    }

    /// Puts what the read-write tier has, unless it is there.
    pub(super) fn put(&self, key: &Key, payload: Option<Arc<Payload>>) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = self.slots.load();
        let is_known = match (slots.get(key), &payload) {
            (Some(Some(old)), Some(new)) => Arc::ptr_eq(old, new),
            (Some(None), None) => true,
            (_, _) => false,
        };
        if is_known || (slots.len() >= KEYS_MAX && !slots.contains_key(key)) {
            return;
        }
        let mut next = Slots::clone(&slots);
        next.insert(key.clone(), payload);
        self.slots.store(Arc::new(next));
    }

    /// Reads every known key again. What is gone is kept as absent if `keep_absent`, else dropped.
    pub(super) fn refresh(&self, keep_absent: bool, load: impl Fn(&Key) -> Option<Arc<Payload>>) {
        // Loading takes its time: not under the lock. What is put meanwhile is newer and stays.
        let before = self.slots.load_full();
        let loaded: Slots = before.keys().map(|key| (key.clone(), load(key))).collect();
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.slots.load();
        let mut next = Slots::with_capacity(now.len());
        for (key, slot) in now.iter() {
            let is_untouched = before
                .get(key)
                .is_some_and(|old| same(old.as_ref(), slot.as_ref()));
            let slot = if is_untouched {
                loaded.get(key).unwrap_or(slot)
            } else {
                slot
            };
            if slot.is_some() || keep_absent {
                next.insert(key.clone(), slot.clone());
            }
        }
        self.slots.store(Arc::new(next));
    }
}

fn same(a: Option<&Arc<Payload>>, b: Option<&Arc<Payload>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        (_, _) => false,
    }
}
