//! What is looked up: instances and applications as 64-bit hashes. Two that share a hash are told
//! apart by the records themselves, so a collision costs a look and never an answer.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use crate::types::{AppName, InstanceId};

/// The hash of an instance, or of an application. The lowest bit says which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::history) struct Key(pub(super) u64);

/// Gives the hash of an application, or of one of its instances.
pub(super) type KeyHash = fn(app: &str, id: Option<&str>) -> u64;

/// The hash that index files are made with; another one needs another version of the format.
pub(super) fn stable_hash(app: &str, id: Option<&str>) -> u64 {
    let mut hasher = SipHasher13::new();
    for text in [Some(app), id].into_iter().flatten() {
        hasher.write(&(text.len() as u64).to_le_bytes());
        hasher.write(text.as_bytes());
    }
    hasher.finish()
}

impl Key {
    pub(super) fn instance(hash: KeyHash, app: &AppName, id: &InstanceId) -> Self {
        Self(hash(app.as_str(), Some(id.as_str())) | 1)
    }

    pub(super) fn app(hash: KeyHash, app: &AppName) -> Self {
        Self(hash(app.as_str(), None) & !1)
    }

    pub(super) fn is_instance(self) -> bool {
        self.0 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value is part of the stored format.
    #[test]
    fn hashes_stay_what_they_are() {
        assert_eq!(
            stable_hash("SHOP", Some("host-1")),
            13_259_883_935_099_136_723
        );
        assert_ne!(stable_hash("SHOP", None), stable_hash("SHOP", Some("")));
        assert_ne!(stable_hash("AB", Some("C")), stable_hash("A", Some("BC")));
    }
}
