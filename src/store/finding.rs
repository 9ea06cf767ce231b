//! What a look through a store has found: what it holds, what is wrong with it, and what that means for
//! the operator.

use std::collections::BTreeMap;

use crate::registry::change::ChangeEvent;
use crate::store::SegmentFacts;
use crate::types::{Lsn, Millis};

/// Whether it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// The next start mends it by itself.
    Mendable,
    /// A part of the history cannot be read; the registry is whole, and the server starts.
    History,
    /// Acknowledged records are gone or unreadable: the server does not start as it is.
    State,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Mendable => "mendable",
            Self::History => "history",
            Self::State => "state",
        }
    }
}

/// Something about a store that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// What it is about: a position, a file, a segment.
    pub place: String,
    pub what: String,
    /// What to do, empty if nothing has to be done.
    pub way_out: String,
    /// The records that it is about, first and last, if it is about records.
    pub(super) lsns: Option<(Lsn, Lsn)>,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        place: impl Into<String>,
        what: impl Into<String>,
    ) -> Self {
        let way_out = match severity {
            Severity::Note => "",
            Severity::Mendable => "nothing: the next start mends it",
            Severity::History => {
                "nothing for the registry: the server starts, and tells what is lost"
            }
            Severity::State => {
                "`eurekad store repair --mode keep-rest` keeps what can be read; with peers, `--mode \
                 move-aside` begins anew from them"
            }
        };
        Self {
            severity,
            place: place.into(),
            what: what.into(),
            way_out: way_out.to_owned(),
            lsns: None,
        }
    }

    /// The same about records from `first` to `last`.
    pub(super) fn about(self, first: Lsn, last: Lsn) -> Self {
        Self {
            lsns: Some((first, last)),
            ..self
        }
    }

    /// The same finding of another severity.
    pub(super) fn with_severity(&self, severity: Severity) -> Self {
        Self {
            lsns: self.lsns,
            ..Self::new(severity, self.place.as_str(), self.what.as_str())
        }
    }
}

/// What a checkpoint holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFacts {
    pub lsn: Lsn,
    /// Wall time at which it was taken; `None` if it cannot be read.
    pub at: Option<Millis>,
    pub leases: u64,
    pub overrides: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// Changes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindFacts {
    pub records: u64,
    /// Bytes of records and keys.
    pub bytes: u64,
}

/// What a store holds, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Oldest first.
    pub segments: Vec<SegmentFacts>,
    pub kinds: BTreeMap<ChangeEvent, KindFacts>,
    /// Oldest first.
    pub checkpoints: Vec<CheckpointFacts>,
    pub findings: Vec<Finding>,
    /// LSNs that cannot be read any more once a start has done what it can, first and last of each range,
    /// oldest first; only [`super::check()`] knows, and only of a store on which a start goes on.
    pub lost: Vec<(Lsn, Lsn)>,
    /// Records that were read.
    pub records: u64,
    /// Size of the database file; it is reused, never shrunk.
    pub file_bytes: u64,
    /// Highest LSN that was acknowledged, if the watermark can be read.
    pub acknowledged: Option<Lsn>,
    /// Until when the node is known to have lived, if the watermark can be read.
    pub alive_at: Option<Millis>,
    /// See [`super::inspect::Inspected`].
    pub(super) tail: Lsn,
    pub(super) floor: Lsn,
}

impl Survey {
    /// The worst of the findings, [`Severity::Note`] if there are none.
    pub fn worst(&self) -> Severity {
        self.findings
            .iter()
            .map(|finding| finding.severity)
            .max()
            .unwrap_or(Severity::Note)
    }

    /// Bytes of live records, keys included.
    pub fn log_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    pub(super) fn find(
        &mut self,
        severity: Severity,
        place: impl Into<String>,
        what: impl Into<String>,
    ) {
        self.findings.push(Finding::new(severity, place, what));
    }

    /// Something about records, first and last.
    pub(super) fn find_records(
        &mut self,
        (first, last): (Lsn, Lsn),
        severity: Severity,
        place: impl Into<String>,
        what: impl Into<String>,
    ) {
        let finding = Finding::new(severity, place, what);
        self.findings.push(finding.about(first, last.max(first)));
    }

    /// LSNs of the checkpoints that can be read, oldest first.
    pub(super) fn good_checkpoints(&self) -> Vec<Lsn> {
        let good = self.checkpoints.iter().filter(|facts| facts.at.is_some());
        good.map(|facts| facts.lsn).collect()
    }

    /// The newest record.
    pub(super) fn last(&self) -> Lsn {
        self.segments
            .last()
            .map_or(Lsn::ZERO, |segment| segment.last)
    }
}
