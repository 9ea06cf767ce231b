//! What can go wrong with the store, grouped by what the caller does next.

use std::io;
use std::path::{Path, PathBuf};

use crate::types::Lsn;

/// A failure of the store. The texts say path and cause, and what an operator can do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data directory: wait for it, or exit.
    #[error(
        "another eurekad{} uses {}: stop it, or give this node a data directory of its own",
        pid.map_or_else(String::new, |pid| format!(" (pid {pid})")),
        dir.display()
    )]
    Locked { dir: PathBuf, pid: Option<u32> },

    /// The disk is full: free space, then open again.
    #[error("no space left for {}: {cause}; free some space or move the data directory", path.display())]
    NoSpace { path: PathBuf, cause: String },

    /// The directory cannot be used as it is: exit and let the operator mend it.
    #[error(
        "cannot use {} as data directory: {source}; check that it is a directory that this user \
         may write to",
        path.display()
    )]
    Unusable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    /// What is stored is not what was written.
    #[error("the store is damaged at {place}: {cause}; {way_out}")]
    Damaged {
        place: String,
        cause: String,
        way_out: String,
    },

    /// A newer eurekad wrote the store: nothing was changed.
    #[error(
        "{what} has format {found}, this eurekad knows formats up to {known}: start the newer \
         version that wrote it, or use another data directory"
    )]
    NewerSchema {
        what: String,
        found: u32,
        known: u32,
    },

    /// One record or value is larger than the store takes; nothing was changed.
    #[error("{what} takes {size} bytes, the limit is {limit}")]
    TooLarge {
        what: String,
        size: usize,
        limit: usize,
    },

    /// The LSNs of a batch are not the next ones; nothing was changed.
    #[error("append at lsn {found}, but the next lsn is {expected}")]
    OutOfOrder { expected: Lsn, found: Lsn },

    /// What was asked for is no longer in the log.
    #[error("lsn {asked} is no longer in the log, it begins at {first}")]
    Trimmed { asked: Lsn, first: Lsn },

    /// The disk or the database failed while doing `attempt`.
    #[error("cannot {attempt} in {}: {source}", path.display())]
    Io {
        attempt: String,
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    /// An earlier failure stopped this handle: close it and open the store again.
    #[error("the store stopped after an earlier failure: {0}")]
    Poisoned(String),

    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Files a plain I/O error under what the caller can do about it.
    pub(crate) fn io(attempt: impl Into<String>, path: &Path, source: io::Error) -> Self {
        use io::ErrorKind as K;
        match source.kind() {
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Self::NoSpace {
                path: path.to_path_buf(),
                cause: format!("cannot {}: {source}", attempt.into()),
            },
            K::ReadOnlyFilesystem | K::PermissionDenied | K::NotADirectory | K::IsADirectory => {
                Self::Unusable {
                    path: path.to_path_buf(),
                    source,
                }
            }
            _ => Self::Io {
                attempt: attempt.into(),
                path: path.to_path_buf(),
                source,
            },
        }
    }

    /// Whether opening the store again may help once the disk takes writes.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::NoSpace { .. } | Self::Io { .. } | Self::Poisoned(_) | Self::Locked { .. }
        )
    }
}
