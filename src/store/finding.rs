//! What is wrong with a store, and what that means for the operator.

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
        }
    }
}
