//! What a look-up may cost, and why one did not come to its end.

use crate::store::StoreError;

/// How many records may still be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    left: usize,
    taken: u64,
}

impl Budget {
    pub(crate) fn new(looks: usize) -> Self {
        Self {
            left: looks,
            taken: 0,
        }
    }

    pub(in crate::history) fn take(&mut self, looks: usize) {
        self.left = self.left.saturating_sub(looks);
        self.taken += looks as u64;
    }

    /// Leaves at most so many.
    pub(in crate::history) fn limit(&mut self, looks: usize) {
        self.left = self.left.min(looks);
    }

    pub(in crate::history) fn left(&self) -> usize {
        self.left
    }

    pub(in crate::history) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Records that were looked at.
    pub(in crate::history) fn taken(&self) -> u64 {
        self.taken
    }
}

/// Why a look-up did not come to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The budget is used up; a later call goes on from what has been indexed by now.
    Spent,
    /// The segment is no longer there.
    Trimmed,
    /// The segment is there and cannot be read.
    Damaged(StoreError),
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Trimmed { .. } => Self::Trimmed,
            StoreError::Damaged { .. } => Self::Damaged(error),
            other => Self::Store(other),
        }
    }
}
