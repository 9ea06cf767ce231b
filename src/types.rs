//! Names and numbers that must not be mixed up: checked once at the edge, trusted everywhere after.
//!
//! Everything here is plain data without I/O, so that the pure core ([`crate::registry`]) can build on it.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An application name, always upper case (`protocol.md` 0): the original upper-cases it from the
/// path and from the body, and so does the constructor, independent of any locale.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppName(Arc<str>);

impl AppName {
    /// Takes any text and keeps it in upper case.
    pub fn new(name: &str) -> Self {
        if name.chars().any(|c| c.is_lowercase() || !c.is_ascii()) {
            Self(name.to_uppercase().into())
        } else {
            Self(name.into())
        }
    }

    /// Wraps a string that is known to be upper case already, sharing its memory.
    pub fn from_upper(name: Arc<str>) -> Self {
        debug_assert_eq!(&*name, name.to_uppercase());
        Self(name)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shared text itself.
    pub fn shared(&self) -> &Arc<str> {
        &self.0
    }
}

/// An instance id: case-sensitive, percent-decoded, exactly as the client sent it (`protocol.md` 0).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(Arc<str>);

impl InstanceId {
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// Wraps a shared string without copying it.
    pub fn from_shared(id: Arc<str>) -> Self {
        Self(id)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shared text itself.
    pub fn shared(&self) -> &Arc<str> {
        &self.0
    }
}

macro_rules! text_like {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_like!(AppName);
text_like!(InstanceId);

/// A position in the change log: dense, strictly increasing, never reused (design 1). 0 is "before
/// the first record".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first record.
    pub const ZERO: Self = Self(0);

    /// The position right after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time in milliseconds. Which clock it belongs to (wall or monotonic) is said where it
/// is stored; the two never meet in arithmetic.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

impl Millis {
    pub const ZERO: Self = Self(0);

    /// This moment plus `ms` milliseconds, without overflow.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// As the wire and the versions of instances have times.
    pub fn signed(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// Milliseconds from `earlier` to this moment, 0 if it is not earlier.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A span in whole milliseconds.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The two clocks at one moment. Leases run on the monotonic one, so that a step of the system
/// clock neither expires nor immortalises them (design 3); what is shown and logged is wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the Unix epoch.
    pub wall: Millis,
    /// Milliseconds since an arbitrary moment of this process.
    pub mono: Millis,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn app_names_are_upper_case_whatever_the_locale() {
        assert_eq!(AppName::new("billing-i").as_str(), "BILLING-I");
        assert_eq!(AppName::new("straße").as_str(), "STRASSE");
        assert_eq!(AppName::new("FOO"), AppName::new("foo"));
    }

    #[test]
    fn spans_of_time_never_overflow() {
        assert_eq!(Millis(5).since(Millis(9)), 0);
        assert_eq!(Millis(u64::MAX).plus(1), Millis(u64::MAX));
    }
}
