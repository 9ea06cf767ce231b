//! What the log remembers of instances that are gone. The registry keeps removals in mind for an hour
//! (`registry::tombstones`); a node that was away for longer still has those instances, and would bring
//! them back to everybody. So what is neither here nor in that memory is looked up in the log, which
//! remembers for as long as it is kept.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use tracing::{debug, warn};

use super::outbound::Key;
use crate::changelog::ChangeLog;
use crate::history::index::{Budget, Index, Stop};
use crate::registry::change::{Actor, Record};
use crate::registry::{Recalled, Registry, Tombstone};
use crate::store::StoreError;
use crate::types::{Lsn, Millis};

/// Looks into the log and its index for one question; after so many nothing more is looked for, and no
/// further piece of the index is made.
const LOOKS: usize = 50_000;

/// What the log says of instances.
#[derive(Clone, Debug, Default)]
pub struct Removed {
    stones: HashMap<Key, Tombstone>,
    /// Of these it could not be asked.
    unknown: HashSet<Key>,
}

impl Removed {
    /// Of none of these the log could be asked.
    #[cfg(test)]
    pub(crate) fn unknown(keys: &[Key]) -> Self {
        Self {
            unknown: keys.iter().cloned().collect(),
            ..Self::default()
        }
    }

    pub fn of(&self, key: &Key) -> Recalled {
        match self.stones.get(key) {
            Some(stone) => Recalled::Removed(*stone),
            None if self.unknown.contains(key) => Recalled::Unknown,
            None => Recalled::Nothing,
        }
    }
}

impl Extend<(Key, Tombstone)> for Removed {
    fn extend<T: IntoIterator<Item = (Key, Tombstone)>>(&mut self, stones: T) {
        self.stones.extend(stones);
    }
}

/// A memory of removals that is not bounded by time.
pub trait Past: Send + Sync + Debug {
    /// What became of `keys`: whether their last change was their removal. Waits for the disk.
    fn removals(&self, keys: &[Key]) -> Removed;

    /// The same for a question of this node's own, which is answered however long that takes; only where the log
    /// cannot be read it is not.
    fn all_removals(&self, keys: &[Key]) -> Removed {
        self.removals(keys)
    }

    /// Who asked for the changes at these positions, as far as it is known: of nobody, where only removals
    /// are remembered. Waits for the disk.
    fn callers(&self, _changes: &[Lsn]) -> HashMap<Lsn, Actor> {
        HashMap::new()
    }

    /// When the change at this position was decided, wall time here; `None` if that is not known any more. Waits for
    /// the disk.
    fn decided(&self, _change: Lsn) -> Option<Millis> {
        None
    }
}

/// The instances of which the registry knows nothing: neither a lease nor a removal.
pub fn unknown(registry: &Registry, keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
    let is_unknown = |(app, id): &Key| {
        registry.lease(app.as_str(), id.as_str()).is_none() && registry.tombstone(app, id).is_none()
    };
    let mut seen = HashSet::new();
    keys.into_iter()
        .filter(is_unknown)
        .filter(|key| seen.insert(key.clone()))
        .collect()
}

/// What the log says about the instances of which the registry knows nothing. Waits for the disk.
pub fn removals(
    past: &dyn Past,
    registry: &Registry,
    keys: impl IntoIterator<Item = Key>,
) -> Removed {
    let unknown = unknown(registry, keys);
    if unknown.is_empty() {
        Removed::default()
    } else {
        past.removals(&unknown)
    }
}

/// The log of this node.
#[derive(Debug)]
pub struct LogPast {
    log: Arc<ChangeLog>,
    index: Arc<Index>,
    looks: usize,
}

impl LogPast {
    pub fn new(log: Arc<ChangeLog>, index: Arc<Index>) -> Self {
        Self {
            log,
            index,
            looks: LOOKS,
        }
    }
}

impl LogPast {
    /// The record at a position, if it is still there and can be read.
    fn record(&self, lsn: Lsn) -> Result<Option<Arc<Record>>, StoreError> {
        let state = self.log.snapshot();
        let recent = state.delta.since(lsn).and_then(|mut since| since.next());
        let record = match recent {
            Some(record) => Some(record.clone()),
            None => match self.log.reader().read(lsn, 1, 1) {
                Ok(records) => records.into_iter().next(),
                Err(StoreError::Trimmed { .. } | StoreError::Damaged { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        Ok(record.filter(|record| record.lsn == lsn))
    }

    fn search(&self, keys: &[Key], mut budget: Budget) -> Removed {
        let reader = self.log.reader();
        let mut removed = Removed::default();
        for (done, (app, id)) in keys.iter().enumerate() {
            let place = (app, id, Lsn(u64::MAX));
            // A change without a lease is about an override or a hold alone.
            let is_of_lease = |record: &Record| record.change.lease.is_some();
            match self.index.newest(&*reader, place, &mut budget, is_of_lease) {
                Ok(record) => {
                    let stone = record.and_then(|record| Tombstone::of(&record));
                    removed.extend(stone.map(|stone| ((app.clone(), id.clone()), stone)));
                }
                Err(Stop::Trimmed | Stop::Damaged(_)) => {}
                Err(stop) => {
                    if let Stop::Store(error) = stop {
                        warn!(%error, "the log cannot say what was removed: {error}");
                    } else {
                        debug!("the log was not asked about all that was removed");
                    }
                    removed.unknown.extend(keys[done..].iter().cloned());
                    break;
                }
            }
        }
        removed
    }
}

impl Past for LogPast {
    fn removals(&self, keys: &[Key]) -> Removed {
        self.search(keys, Budget::new(self.looks))
    }

    fn all_removals(&self, keys: &[Key]) -> Removed {
        self.search(keys, Budget::new(usize::MAX))
    }

    fn callers(&self, changes: &[Lsn]) -> HashMap<Lsn, Actor> {
        let mut callers = HashMap::new();
        for lsn in changes.iter().take(self.looks) {
            match self.record(*lsn) {
                Ok(record) => callers.extend(record.map(|record| (*lsn, record.actor.clone()))),
                Err(error) => {
                    debug!(%error, "the log cannot say who asked for changes: {error}");
                    break;
                }
            }
        }
        callers
    }

    fn decided(&self, change: Lsn) -> Option<Millis> {
        self.record(change).ok().flatten().map(|record| record.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changelog::tests::Rig;
    use crate::changelog::{Actors, Maintenance, Request};
    use crate::registry::change::Origin;
    use crate::registry::command::Command;
    use crate::registry::rules::Rules;
    use crate::registry::status::Status;
    use crate::registry::tests::{cancel, instance, set, version};
    use crate::store::Durability;
    use crate::types::{AppName, InstanceId};

    fn key(id: &str) -> Key {
        (AppName::new("SHOP"), InstanceId::new(id))
    }

    fn register(id: &str) -> Command {
        Command::Register(instance("SHOP", id).into())
    }

    #[tokio::test]
    async fn the_log_knows_what_was_removed_last_and_what_was_not() {
        // Here overrides outlive their instances by a change of their own.
        let rig = Rig::start(&Rules::eureka(), Some(Durability::Disk));
        for id in ["gone", "again", "there", "word"] {
            rig.client(register(id)).await.expect("it is stored");
        }
        rig.client(set("SHOP", "word", Status::OutOfService, None))
            .await
            .expect("it is stored");
        for id in ["gone", "again", "word"] {
            rig.client(cancel("SHOP", id)).await.expect("it is stored");
        }
        let again = version(200, instance("SHOP", "again"));
        rig.client(Command::Register(again.into()))
            .await
            .expect("it is stored");
        let past = LogPast::new(rig.log.clone(), Arc::new(Index::new(None)));
        let keys = ["gone", "again", "there", "word", "never"].map(key);
        let removed = past.removals(&keys);
        let remembered = rig.log.snapshot();
        for (id, is_removed) in [
            ("gone", true),
            ("word", true),
            ("again", false),
            ("there", false),
            ("never", false),
        ] {
            let (app, id) = key(id);
            let stone = remembered.registry.tombstone(&app, &id).copied();
            let expected = stone.map_or(Recalled::Nothing, Recalled::Removed);
            assert_eq!(stone.is_some(), is_removed);
            assert_eq!(removed.of(&(app, id)), expected, "as the registry has it");
        }
    }

    #[tokio::test]
    async fn what_there_was_no_time_to_look_for_is_not_called_new() {
        let rig = Rig::sync();
        for id in ["a", "b", "c"] {
            rig.client(register(id)).await.expect("it is stored");
            rig.client(cancel("SHOP", id)).await.expect("it is stored");
        }
        let mut past = LogPast::new(rig.log.clone(), Arc::new(Index::new(None)));
        let keys = ["a", "b", "c"].map(key);
        // Made once, the index is there for the next question.
        assert!(matches!(
            past.removals(&keys).of(&keys[2]),
            Recalled::Removed(_)
        ));
        past.looks = 2;
        let removed = past.removals(&keys);
        assert!(matches!(removed.of(&keys[0]), Recalled::Removed(_)));
        assert_eq!(removed.of(&keys[1]), Recalled::Unknown);
        assert_eq!(removed.of(&keys[2]), Recalled::Unknown);
        // A question of this node's own takes its time.
        let removed = past.all_removals(&keys);
        let is_removed = |key: &Key| matches!(removed.of(key), Recalled::Removed(_));
        assert!(keys.iter().all(is_removed));
    }

    #[tokio::test]
    async fn who_asked_is_known_of_what_the_log_keeps_also_where_the_delta_window_has_passed() {
        let rig = Rig::sync();
        for id in ["a", "b"] {
            rig.client(register(id)).await.expect("it is stored");
        }
        rig.log
            .submit(Request {
                commands: vec![register("c"), register("d")],
                origin: Origin::Operator,
                actors: Actors::Each(["one", "two"].map(because).to_vec()),
            })
            .await
            .expect("it is stored");
        let past = LogPast::new(rig.log.clone(), Arc::new(Index::new(None)));
        let last = rig.log.published().lsn();
        let positions: Vec<Lsn> = (1..=last.0 + 1).map(Lsn).collect();
        let now = past.callers(&positions);
        let decided = |past: &LogPast| {
            positions
                .iter()
                .filter_map(|lsn| past.decided(*lsn))
                .count()
        };
        assert_eq!(decided(&past) + 1, positions.len());
        // The reader alone, as when the window has passed.
        rig.clock.advance(10);
        let retention_ms = 0;
        rig.log
            .maintain(Maintenance::TrimDelta { retention_ms })
            .await;
        rig.client(register("e")).await.expect("it is stored");
        assert!(rig.log.snapshot().delta.since(last).is_none());
        let later = past.callers(&positions[..positions.len() - 1]);
        assert_eq!(now, later);
        assert_eq!(decided(&past), positions.len(), "one more is there");
        let reasons: Vec<Option<&str>> = positions
            .iter()
            .filter_map(|lsn| now.get(lsn))
            .map(|actor| actor.reason.as_deref())
            .collect();
        assert_eq!(reasons, [None, None, Some("one"), Some("two")]);
    }

    fn because(reason: &str) -> Actor {
        Actor {
            reason: Some(reason.into()),
            ..Actor::UNKNOWN
        }
    }

    #[tokio::test]
    async fn only_what_the_registry_does_not_know_is_looked_up() {
        let rig = Rig::sync();
        for id in ["gone", "there"] {
            rig.client(register(id)).await.expect("it is stored");
        }
        rig.client(cancel("SHOP", "gone"))
            .await
            .expect("it is stored");
        let keys = ["gone", "there", "never"].map(key);
        let unknown = unknown(&rig.log.snapshot().registry, keys);
        assert_eq!(unknown, [key("never")]);
    }
}
