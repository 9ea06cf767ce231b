//! One change as it is sent: encoded once, for everybody.

use std::ops::Range;

use bytes::Bytes;

use crate::history::{Before, Entry};
use crate::registry::change::{ChangeKind, LeaseImage, Record};
use crate::registry::status::Status;
use crate::types::{AppName, Lsn};

/// A change, encoded, and what watchers choose by.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub lsn: Lsn,
    pub app: AppName,
    pub kind: ChangeKind,
    event: Bytes,
    entry: Range<usize>,
}

impl Told {
    /// Tells a record, `previous` being the lease that was there right before it, as far as known.
    /// The same record and lease give the same bytes.
    pub(super) fn new(record: &Record, previous: Option<&LeaseImage>) -> Self {
        let change = &record.change;
        let state = |lease: Option<&LeaseImage>| lease.and_then(held);
        let before = match change.kind {
            ChangeKind::Registered | ChangeKind::OverrideForgotten => Before::Nothing,
            // A removal carries the lease as it was.
            ChangeKind::Cancelled | ChangeKind::Evicted => {
                Before::State(change.lease.as_ref(), state(change.lease.as_ref()))
            }
            ChangeKind::Reregistered
            | ChangeKind::OverrideSet
            | ChangeKind::OverrideLifted
            | ChangeKind::OverrideStored
            | ChangeKind::StatusRestored
            | ChangeKind::MetadataUpdated => match previous {
                Some(lease) => Before::State(Some(lease), held(lease)),
                None => Before::Nothing,
            },
        };
        let mut event = format!("id: {}\nevent: change\ndata: ", record.lsn).into_bytes();
        let start = event.len();
        serde_json::to_writer(&mut event, &Entry::new(record, before))
            .expect("texts, numbers and maps by text can be written");
        let entry = start..event.len();
        event.extend_from_slice(b"\n\n");
        Self {
            lsn: record.lsn,
            app: change.app.clone(),
            kind: change.kind,
            event: event.into(),
            entry,
        }
    }

    /// The change as a server-sent event.
    pub fn event(&self) -> &Bytes {
        &self.event
    }

    /// The change as JSON.
    pub fn entry(&self) -> &[u8] {
        &self.event[self.entry.clone()]
    }
}

/// The override that a lease shows. Every change that sets one writes it into the lease.
fn held(lease: &LeaseImage) -> Option<Status> {
    Some(lease.instance.overridden_status).filter(|status| *status != Status::Unknown)
}

/// The lease as a record leaves it.
pub(super) fn lease_after(record: &Record) -> Option<&LeaseImage> {
    record
        .change
        .lease
        .as_ref()
        .filter(|_| !record.change.kind.removes())
}

/// Whether what a record changed is known only from what came before it.
pub(super) fn needs_previous(record: &Record) -> bool {
    match record.change.kind {
        ChangeKind::Registered
        | ChangeKind::OverrideForgotten
        | ChangeKind::Cancelled
        | ChangeKind::Evicted => false,
        ChangeKind::Reregistered
        | ChangeKind::OverrideSet
        | ChangeKind::OverrideLifted
        | ChangeKind::OverrideStored
        | ChangeKind::StatusRestored
        | ChangeKind::MetadataUpdated => true,
    }
}

/// Which changes a watcher wants; the default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Empty: every application.
    pub apps: Vec<AppName>,
    /// Empty: every kind.
    pub kinds: Vec<ChangeKind>,
}

impl Selection {
    pub fn matches(&self, told: &Told) -> bool {
        (self.apps.is_empty() || self.apps.contains(&told.app))
            && (self.kinds.is_empty() || self.kinds.contains(&told.kind))
    }
}

/// Changes behind a position.
#[derive(Debug, Default)]
pub struct Step {
    /// Those that were asked for, in order.
    pub told: Vec<std::sync::Arc<Told>>,
    /// Up to here everything was looked at.
    pub position: Lsn,
    /// Changes that were looked at.
    pub looked: usize,
    /// There is nothing behind the position yet.
    pub is_end: bool,
}

/// How much one step gives at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub changes: usize,
    /// Bytes after which no further change is taken.
    pub bytes: usize,
    /// Changes that are looked at, asked for or not.
    pub looked: usize,
}

impl Step {
    /// Looks at changes in order until a bound is reached. Says whether all of them were looked at;
    /// otherwise the position is that of the last one.
    pub(super) fn look_at<'t>(
        &mut self,
        changes: impl Iterator<Item = &'t std::sync::Arc<Told>>,
        selection: &Selection,
        bounds: Bounds,
    ) -> bool {
        let mut bytes = 0;
        for told in changes {
            if self.told.len() >= bounds.changes
                || bytes >= bounds.bytes
                || self.looked >= bounds.looked
            {
                return false;
            }
            self.looked += 1;
            self.position = told.lsn;
            if selection.matches(told) {
                bytes += told.event.len();
                self.told.push(told.clone());
            }
        }
        true
    }
}
