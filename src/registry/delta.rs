//! The tail of the log: the changes of the last three minutes, for readers that are close behind
//! (peer senders), and the net result of them that clients are told (`protocol.md` 4, design 3).
//!
//! The tail is a window on the change log, kept in memory as shared records; it is published
//! together with the registry, so that entries and hash code come from one position.

use std::collections::HashMap;
use std::sync::Arc;

use imbl::Vector;

use super::Registry;
use super::change::{LeaseImage, Record};
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// Most entries of the window, some 150 MB of small instances. A flood of changes pushes the oldest out
/// before their time: who polled before that sees by the hash code that something is missing, and fetches
/// everything, which is no longer than such a delta.
const ENTRIES_MAX: usize = 200_000;

/// The window. A clone shares everything.
#[derive(Clone, Debug, Default)]
pub struct DeltaTail {
    entries: Vector<Entry>,
    generation: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    queued: Millis,
    record: Arc<Record>,
}

/// The last entry of an instance.
type LastEntry<'a> = (&'a InstanceId, &'a Arc<Record>);

impl DeltaTail {
    /// Takes the next record in. `queued` is monotonic.
    pub fn push(&mut self, record: &Arc<Record>, queued: Millis) {
        self.push_within(record, queued, ENTRIES_MAX);
    }

    fn push_within(&mut self, record: &Arc<Record>, queued: Millis, most: usize) {
        self.entries.push_back(Entry {
            queued,
            record: record.clone(),
        });
        if self.entries.len() > most {
            self.entries.pop_front();
            self.generation += 1;
        }
    }

    /// The records from `first` on, oldest first; `None` if the window does not reach back so far.
    pub fn since(&self, first: Lsn) -> Option<impl Iterator<Item = &Arc<Record>>> {
        if first < self.entries.front()?.record.lsn {
            return None;
        }
        // Positions are no places: a store that lost records leaves some out.
        let skipped = self
            .entries
            .binary_search_by_key(&first, |entry| entry.record.lsn)
            .unwrap_or_else(|place| place);
        Some(self.entries.iter().skip(skipped).map(|entry| &entry.record))
    }

    /// The records of the window, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.entries.iter().map(|entry| &entry.record)
    }

    /// The oldest record of the window.
    pub fn oldest(&self) -> Option<&Arc<Record>> {
        self.entries.front().map(|entry| &entry.record)
    }

    /// What clients are told of, with its place.
    fn told(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let is_told =
            |entry: &Entry| entry.record.change.visible && entry.record.change.lease.is_some();
        self.entries
            .iter()
            .enumerate()
            .filter(move |(_, entry)| is_told(entry))
    }

    /// Drops what is older than `retention_ms`, from the front up to the first young entry. Says
    /// whether anything went.
    pub fn trim(&mut self, now: Millis, retention_ms: u64) -> bool {
        let before = self.entries.len();
        while self
            .entries
            .front()
            .is_some_and(|entry| now.since(entry.queued) > retention_ms)
        {
            self.entries.pop_front();
        }
        let has_trimmed = self.entries.len() != before;
        if has_trimmed {
            self.generation += 1;
        }
        has_trimmed
    }

    /// Counts the trims: an answer made before one shows entries that are gone.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Entries that clients are told of.
    pub fn len(&self) -> usize {
        self.told().count()
    }

    pub fn is_empty(&self) -> bool {
        self.told().next().is_none()
    }

    /// The net change per instance: its state in `registry`, or its last one if it is gone.
    ///
    /// Applications come in the order of their first entry, instances in the order of their last,
    /// as in the original, except that within an application what is gone comes last. The Java
    /// client takes over the whole application object of a delta when it does not know the
    /// application yet; with the gone ones first they would come back to life in its list, and its
    /// hash code would not fit (`protocol.md` 4.5, `clients.md` 5).
    pub fn net(&self, registry: &Registry) -> Vec<(AppName, Vec<LeaseImage>)> {
        let mut places: HashMap<&AppName, usize> = HashMap::new();
        let mut apps: Vec<(&AppName, Vec<LastEntry<'_>>)> = Vec::new();
        let mut last: HashMap<(&AppName, &InstanceId), usize> = HashMap::new();
        for (position, entry) in self.told() {
            let change = &entry.record.change;
            last.insert((&change.app, &change.id), position);
        }
        for (position, entry) in self.told() {
            let change = &entry.record.change;
            let place = *places.entry(&change.app).or_insert_with(|| {
                apps.push((&change.app, Vec::new()));
                apps.len() - 1
            });
            if last.get(&(&change.app, &change.id)) == Some(&position) {
                apps[place].1.push((&change.id, &entry.record));
            }
        }
        apps.into_iter()
            .map(|(app, instances)| {
                let (mut present, mut gone) = (Vec::new(), Vec::new());
                for (id, record) in instances {
                    if let Some(lease) = registry.lease(app.as_str(), id.as_str()) {
                        present.push(lease.to_image());
                    } else if let Some(image) = &record.change.lease {
                        gone.push(image.clone());
                    }
                }
                present.append(&mut gone);
                (app.clone(), present)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::rules::Rules;
    use crate::registry::tests::{Scene, instance};

    #[test]
    fn a_flood_pushes_the_oldest_out() {
        let mut scene = Scene::new(&Rules::default());
        for id in ["1", "2", "3"] {
            scene.register(instance("SHOP", id));
        }
        let mut delta = DeltaTail::default();
        for record in &scene.log {
            delta.push_within(record, Millis(1), 2);
        }
        let kept: Vec<Lsn> = delta
            .since(Lsn(2))
            .unwrap()
            .map(|record| record.lsn)
            .collect();
        assert_eq!(kept, [Lsn(2), Lsn(3)]);
        assert!(
            delta.since(Lsn(1)).is_none(),
            "who is further behind is told so"
        );
        assert_eq!(
            delta.generation(),
            1,
            "answers that show what is gone are void"
        );
    }

    #[test]
    fn positions_that_a_store_left_out_do_not_shift_the_others() {
        let mut scene = Scene::new(&Rules::default());
        let mut tail = DeltaTail::default();
        for lsn in [1, 2, 9, 10] {
            scene.register(instance("SHOP", &lsn.to_string()));
            let record = Record {
                lsn: Lsn(lsn),
                ..scene.last().clone()
            };
            tail.push(&Arc::new(record), Millis::ZERO);
        }
        let since = |first| {
            let records = tail.since(Lsn(first))?;
            Some(records.map(|record| record.lsn.0).collect::<Vec<_>>())
        };
        assert_eq!(since(0), None);
        assert_eq!(since(2), Some(vec![2, 9, 10]));
        assert_eq!(since(3), Some(vec![9, 10]));
        assert_eq!(since(10), Some(vec![10]));
        assert_eq!(since(11), Some(vec![]));
    }
}
