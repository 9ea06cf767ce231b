//! How a command ends: the exit codes, and what went wrong in words.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::store::StoreError;

/// What the exit code says. The numbers are what scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    /// The answer is "no": not there, differences, damaged.
    No = 1,
    /// Wrong usage or input.
    Usage = 2,
    /// Server or store not reachable, or it refused.
    Refused = 3,
    /// Further back than what is kept.
    Trimmed = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not get to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// To be told.
    Told { exit: Exit, text: String },
    /// Whoever read the output has seen enough: nothing to tell.
    PipeClosed,
}

impl Failure {
    pub(super) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self::Told {
            exit,
            text: text.into(),
        }
    }

    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self::new(Exit::Refused, text)
    }

    /// Files an error of writing the output.
    pub(super) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::PipeClosed
        } else {
            Self::refused(format!("cannot write the output: {error}"))
        }
    }
}

impl From<io::Error> for Failure {
    /// Only the output is written with `?`; everything else says what it was about.
    fn from(error: io::Error) -> Self {
        Self::output(&error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Locked { dir, pid } => Self::refused(format!(
                "a running eurekad{} has {}: ask it with --server instead of --data-dir, or stop it",
                pid.map_or_else(String::new, |pid| format!(" (pid {pid})")),
                dir.display()
            )),
            StoreError::Trimmed { .. } => Self::new(Exit::Trimmed, error.to_string()),
            StoreError::Damaged { .. } => Self::new(
                Exit::No,
                format!(
                    "{error}; `eurekad store check` says more, `eurekad store repair` mends it"
                ),
            ),
            _ => Self::refused(error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told { text, .. } => f.write_str(text),
            Self::PipeClosed => f.write_str("the output was closed"),
        }
    }
}

/// How a command ends.
pub(super) type Outcome = Result<Exit, Failure>;
