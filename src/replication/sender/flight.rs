//! A request of a sender that has not been answered yet.

use crate::replication::outbound::{Item, Key, Told};
use crate::replication::portion::Portion;
use crate::types::Millis;

/// What is in flight.
#[derive(Debug)]
pub(super) enum Flight {
    Probe,
    Changes { items: Vec<Item>, told: Vec<Told> },
    Owed { items: Vec<Item> },
    Renewals { items: Vec<Item>, cut: Cut },
    Sweep { items: Vec<Item>, rest: Option<Key> },
    Digests,
    Born,
    Recent,
    Compare { asked: Vec<Portion> },
}

/// A sort of batches. What is refused in one of them says nothing about the others, and while the bad item
/// is looked for in one, the others go on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane {
    Changes,
    Owed,
    Renewals,
    Sweep,
}

impl Lane {
    pub(super) const COUNT: usize = 4;
}

impl Flight {
    pub(super) fn lane(&self) -> Option<Lane> {
        match self {
            Self::Changes { .. } => Some(Lane::Changes),
            Self::Owed { .. } => Some(Lane::Owed),
            Self::Renewals { .. } => Some(Lane::Renewals),
            Self::Sweep { .. } => Some(Lane::Sweep),
            Self::Probe | Self::Digests | Self::Born | Self::Recent | Self::Compare { .. } => None,
        }
    }

    pub(super) fn items(&self) -> &[Item] {
        match self {
            Self::Changes { items, .. }
            | Self::Owed { items }
            | Self::Renewals { items, .. }
            | Self::Sweep { items, .. } => items,
            Self::Probe | Self::Digests | Self::Born | Self::Recent | Self::Compare { .. } => &[],
        }
    }

    /// Whether all of it is about one instance, so that no smaller request could be made.
    pub(super) fn is_single(&self) -> bool {
        let mut items = self.items().iter();
        let Some(first) = items.next() else {
            return true;
        };
        items.all(|item| item.key() == first.key())
    }
}

/// A flush of renewals under way: those behind `after` are still to be sent. What is renewed after
/// `until`, while it goes on, is told in the next flush, though this one may have told it already.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) until: Millis,
    pub(super) after: Option<Key>,
}

/// An instance that the peer refuses alone. It is given up once the peer has answered an empty batch
/// in between: otherwise it is the peer that is out of order. It is no suspect any more when a request
/// with it ends otherwise, when there is nothing to tell (then the instance is gone), or after a time.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    pub(super) key: Key,
    pub(super) is_peer_fine: bool,
    /// When it was refused (monotonic).
    pub(super) since: Millis,
}
