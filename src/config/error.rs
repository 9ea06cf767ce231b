//! What can be wrong with a configuration. All of it is collected, so that one start names
//! everything that has to be mended.

use std::fmt;

use super::property::Origin;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value that its key does not take.
    #[error("{key} = {value:?} ({origin}): allowed is {allowed}")]
    Value {
        key: String,
        value: String,
        origin: Origin,
        allowed: String,
    },
    /// A `${...}` that leads nowhere.
    #[error("{key} = {value:?} ({origin}): {why}")]
    Placeholder {
        key: String,
        value: String,
        origin: Origin,
        why: String,
    },
    /// A file that cannot be read or understood.
    #[error("{file}: {why}")]
    File { file: String, why: String },
    /// Something on the command line that is no option.
    #[error("{argument}: {why}")]
    Argument { argument: String, why: String },
}

/// Everything that is wrong, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "configuration: {one}"),
            all => {
                write!(f, "configuration: {} things are wrong", all.len())?;
                all.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for ConfigErrors {}
