//! What is gone, for an hour: the memory that keeps a comparison of two registries from bringing
//! back what one of them cancelled. Follows from the records alone, so every node that has the same
//! log remembers the same.

use imbl::{OrdMap, Vector};

use crate::registry::change::{ChangeKind, Record};
use crate::registry::version::Version;
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// How long it is remembered, ms of the records' wall time.
pub const KEPT_MS: u64 = 3_600_000;
/// Most that is remembered, the oldest go first.
const KEPT_MAX: usize = 200_000;

/// A lease that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The version that was removed; its time of change is that of the removal.
    pub version: Version,
    /// Whether it was cancelled; otherwise it expired.
    pub is_cancelled: bool,
    /// Wall time of the removal.
    pub at: Millis,
}

/// What is known of the last removal of an instance that the registry remembers none of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recalled {
    /// There was none.
    #[default]
    Nothing,
    Removed(Tombstone),
    /// The log could not be asked, or not yet.
    Unknown,
}

impl Recalled {
    /// Whether an instance that is known elsewhere is not taken over: [`Tombstone::ends`]; and as long as
    /// nobody knows, what nobody vouches for can wait.
    pub fn keeps_out(&self, registration: Version, is_vouched: bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::Removed(stone) => stone.ends(registration, is_vouched),
            Self::Unknown => !is_vouched,
        }
    }
}

impl Tombstone {
    /// What a record leaves behind, if it removes a lease.
    pub fn of(record: &Record) -> Option<Self> {
        let change = &record.change;
        let image = change.lease.as_ref().filter(|_| change.kind.removes())?;
        Some(Self {
            version: Version::of(&image.instance),
            is_cancelled: change.kind == ChangeKind::Cancelled,
            at: record.at,
        })
    }

    /// Whether the removal ends a lease that is known elsewhere, registered in this version
    /// ([`Version::of_registration`]): if it is about that version, and, where it ran out, unless a sign of
    /// life that only the other node had vouches for the instance (`Lease::is_vouched`).
    pub fn ends(&self, registration: Version, is_vouched: bool) -> bool {
        registration.is_before_removal(self.version) && (self.is_cancelled || !is_vouched)
    }
}

type Key = (AppName, InstanceId);

#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones {
    /// Each with the position of the removal in the log.
    stones: OrdMap<Key, (Tombstone, Lsn)>,
    order: Vector<(Millis, Key)>,
}

impl Tombstones {
    pub(super) fn get(&self, app: &AppName, id: &InstanceId) -> Option<&Tombstone> {
        self.entry(app, id).map(|(stone, _)| stone)
    }

    pub(super) fn lsn(&self, app: &AppName, id: &InstanceId) -> Option<Lsn> {
        self.entry(app, id).map(|(_, lsn)| *lsn)
    }

    fn entry(&self, app: &AppName, id: &InstanceId) -> Option<&(Tombstone, Lsn)> {
        self.stones.get(&(app.clone(), id.clone()))
    }

    pub(super) fn of_app(&self, app: AppName) -> impl Iterator<Item = (&InstanceId, &Tombstone)> {
        let from = (app.clone(), InstanceId::new(""));
        self.stones
            .range(from..)
            .take_while(move |((of, _), _)| *of == app)
            .map(|((_, id), (stone, _))| (id, stone))
    }

    pub(super) fn put(&mut self, app: &AppName, id: &InstanceId, stone: Tombstone, lsn: Lsn) {
        let key = (app.clone(), id.clone());
        self.order.push_back((stone.at, key.clone()));
        self.stones.insert(key, (stone, lsn));
        while self.order.len() > KEPT_MAX
            || self
                .order
                .front()
                .is_some_and(|(at, _)| stone.at.since(*at) > KEPT_MS)
        {
            let Some((at, key)) = self.order.pop_front() else {
                return;
            };
            // A younger one of the same instance has an entry of its own.
            let removed_at = self.stones.get(&key).map(|(stone, _)| stone.at);
            if removed_at == Some(at) {
                self.stones.remove(&key);
            }
        }
    }

    pub(super) fn forget(&mut self, app: &AppName, id: &InstanceId) {
        self.stones.remove(&(app.clone(), id.clone()));
    }
}
