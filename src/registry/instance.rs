//! What a client registers: the instance and its parts, as `protocol.md` 2 describes them, free of
//! any wire format. Built by the decoders of [`crate::wire`], stored whole in change records.

use std::sync::Arc;

use crate::registry::status::Status;
use crate::types::{AppName, InstanceId};

/// Default of `port` when a registration names none (`protocol.md` 2.5).
pub const DEFAULT_PORT: i32 = 7001;
/// Default of `securePort` when a registration names none.
pub const DEFAULT_SECURE_PORT: i32 = 7002;
/// Default lease renewal interval, seconds.
pub const DEFAULT_RENEWAL_INTERVAL_SECS: i32 = 30;
/// Default lease duration, seconds.
pub const DEFAULT_DURATION_SECS: i32 = 90;

/// One registered process, as its client described it last. Immutable: a change makes a new one.
///
/// Fields that were never sent are `None` and are left out of answers, never written as null:
/// strict clients reject what they did not send (`clients.md` 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The id, if the client sent one; otherwise [`Instance::id`] derives the identity and answers
    /// carry no `instanceId`.
    pub instance_id: Option<Arc<str>>,
    pub app: AppName,
    pub app_group_name: Option<Arc<str>>,
    pub host_name: Arc<str>,
    pub ip_addr: Arc<str>,
    /// Deprecated `sid`; `na` and `unknown` are not written.
    pub sid: Option<Arc<str>>,
    pub port: Port,
    pub secure_port: Port,
    pub country_id: i32,
    pub data_center: DataCenter,
    /// The effective status, after the override rules.
    pub status: Status,
    /// The operator's status; [`Status::Unknown`] means none.
    pub overridden_status: Status,
    /// The lease terms that the client asked for.
    pub lease: LeaseTerms,
    pub metadata: Metadata,
    pub home_page_url: Option<Arc<str>>,
    pub status_page_url: Option<Arc<str>>,
    pub health_check_url: Option<Arc<str>>,
    pub secure_health_check_url: Option<Arc<str>>,
    pub vip_address: Option<Arc<str>>,
    pub secure_vip_address: Option<Arc<str>>,
    pub asg_name: Option<Arc<str>>,
    /// Wall time, ms, of the last change that this server made (`protocol.md` 3.7).
    pub last_updated_timestamp: i64,
    /// The client's version of its own description, ms; decides conflicts.
    pub last_dirty_timestamp: i64,
    /// What happened last; `None` only in an instance that was never in a registry.
    pub action_type: Option<ActionType>,
}

impl Instance {
    /// The identity: the first non-empty of the id, Amazon's `instance-id`, the host name
    /// (`protocol.md` 0). Empty only if all of them are, which registration refuses.
    pub fn id(&self) -> InstanceId {
        InstanceId::from_shared(self.identity().clone())
    }

    /// The identity as text; see [`Instance::id`].
    pub fn id_text(&self) -> &str {
        self.identity()
    }

    fn identity(&self) -> &Arc<str> {
        if let Some(id) = self.instance_id.as_ref().filter(|id| !id.is_empty()) {
            return id;
        }
        if let DataCenter::Amazon { metadata } = &self.data_center
            && let Some(id) = metadata.get("instance-id").filter(|id| !id.is_empty())
        {
            return id;
        }
        &self.host_name
    }

    /// Takes over `sibling`'s copy of every text that is the same: instances of one application
    /// mostly differ in their ids, hosts and URLs.
    pub fn share_texts(&mut self, sibling: &Self) {
        self.app = sibling.app.clone();
        for (mine, theirs) in [
            (&mut self.vip_address, &sibling.vip_address),
            (&mut self.secure_vip_address, &sibling.secure_vip_address),
            (&mut self.app_group_name, &sibling.app_group_name),
            (&mut self.asg_name, &sibling.asg_name),
        ] {
            if mine == theirs {
                mine.clone_from(theirs);
            }
        }
        self.metadata = self.metadata.sharing(&sibling.metadata);
    }

    /// The elements of the comma-separated vip (or secure vip) address, untrimmed, as the original
    /// matches them.
    pub fn vips(&self, secure: bool) -> impl Iterator<Item = &str> {
        let address = if secure {
            &self.secure_vip_address
        } else {
            &self.vip_address
        };
        address
            .as_deref()
            .into_iter()
            .flat_map(|a| a.split(','))
            .filter(|v| !v.is_empty())
    }
}

/// A port and whether it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub number: i32,
    pub enabled: bool,
}

/// Lease terms of the client, seconds. Never zero or negative: decoders put the defaults in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    pub renewal_interval_secs: i32,
    pub duration_secs: i32,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self {
            renewal_interval_secs: DEFAULT_RENEWAL_INTERVAL_SECS,
            duration_secs: DEFAULT_DURATION_SECS,
        }
    }
}

/// Where an instance runs; decides the class name on the wire (`protocol.md` 2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataCenter {
    MyOwn,
    Netflix,
    Amazon { metadata: Metadata },
}

/// What happened to an instance last, as the delta tells clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionType {
    Added,
    Modified,
    Deleted,
}

impl ActionType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// Reads the exact upper-case word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ADDED" => Some(Self::Added),
            "MODIFIED" => Some(Self::Modified),
            "DELETED" => Some(Self::Deleted),
            _ => None,
        }
    }
}

/// A map of strings in the order in which its keys came first. Small and shared: a registry holds
/// one per instance.
#[derive(Clone, Debug, Default)]
pub struct Metadata(Arc<[(Arc<str>, Arc<str>)]>);

/// Equal whatever the order, as maps are.
impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.len() == other.0.len()
                && self
                    .0
                    .iter()
                    .all(|(k, v)| other.get(k).is_some_and(|w| w == v))
    }
}

impl Eq for Metadata {}

impl Metadata {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        self.0.iter().find(|(k, _)| &**k == key).map(|(_, v)| v)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Keys and values together, bytes.
    pub fn bytes(&self) -> usize {
        self.iter()
            .map(|(key, value)| key.len() + value.len())
            .sum()
    }

    /// The same map with `other`'s copies of keys and values where they stand in the same place.
    fn sharing(&self, other: &Self) -> Self {
        let shared = |mine: &Arc<str>, theirs: &Arc<str>| {
            if mine == theirs {
                theirs.clone()
            } else {
                mine.clone()
            }
        };
        let entries =
            self.0
                .iter()
                .enumerate()
                .map(|(place, (key, value))| match other.0.get(place) {
                    Some((k, v)) => (shared(key, k), shared(value, v)),
                    None => (key.clone(), value.clone()),
                });
        Self(entries.collect())
    }

    /// A copy in which each of `entries` was put: known keys keep their place, new ones go last.
    #[must_use]
    pub fn with<I>(&self, entries: I) -> Self
    where
        I: IntoIterator<Item = (Arc<str>, Arc<str>)>,
    {
        self.0.iter().cloned().chain(entries).collect()
    }
}

/// Later values of a key replace earlier ones, which keep their place.
impl FromIterator<(Arc<str>, Arc<str>)> for Metadata {
    fn from_iter<T: IntoIterator<Item = (Arc<str>, Arc<str>)>>(entries: T) -> Self {
        /// Up to here a look through the list is quicker than hashing.
        const SHORT: usize = 16;
        let entries = entries.into_iter();
        let mut list: Vec<(Arc<str>, Arc<str>)> = Vec::with_capacity(entries.size_hint().0.min(64));
        let mut places: std::collections::HashMap<Arc<str>, usize> =
            std::collections::HashMap::new();
        for (key, value) in entries {
            let known = if list.len() <= SHORT {
                list.iter().position(|(k, _)| *k == key)
            } else {
                if places.is_empty() {
                    places.extend(list.iter().enumerate().map(|(at, (k, _))| (k.clone(), at)));
                }
                places.get(&key).copied()
            };
            if let Some(place) = known {
                list[place].1 = value;
            } else {
                if !places.is_empty() {
                    places.insert(key.clone(), list.len());
                }
                list.push((key, value));
            }
        }
        Self(list.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_metadata_keeps_the_last_value_in_the_first_place_too() {
        let entries = (0..100).map(|n| (format!("k{}", n % 40), n.to_string()));
        let m: Metadata = entries.map(|(k, v)| (k.into(), v.into())).collect();
        let keys: Vec<_> = m.iter().map(|(k, _)| k.to_string()).collect();
        assert_eq!(keys, (0..40).map(|n| format!("k{n}")).collect::<Vec<_>>());
        assert_eq!(m.get("k5").map(|v| &**v), Some("85"));
        assert_eq!(m.get("k39").map(|v| &**v), Some("79"));
    }

    #[test]
    fn metadata_keeps_the_last_value_in_the_first_place() {
        let m: Metadata = [("a", "1"), ("b", "2"), ("a", "3")]
            .map(|(k, v)| (k.into(), v.into()))
            .into_iter()
            .collect();
        let all: Vec<_> = m
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect();
        assert_eq!(all, [("a".into(), "3".into()), ("b".into(), "2".into())]);
    }
}
