//! The two-tier response cache: what `/apps`, `/apps/delta`, `/apps/{app}`, `/vips` and `/svips`
//! answer, encoded once per change (`protocol.md` 6, design 5).
//!
//! The read-write tier is a moka cache bounded by bytes. A payload carries the position of the log
//! that it shows; older than the registry it is a miss, so nothing has to be invalidated on the
//! write path and nothing stale survives a race. Builds are single flight per key. `/apps` is a
//! rope of fragments, one per application, that are cached on their own ([`fragment`]), so a change
//! costs its application and not the registry.
//!
//! The read-only tier in front ([`read_only`]) is what requests read; its timer bounds how stale it
//! may be, and by default a moved log is seen at once.

mod build;
mod fragment;
mod gzip;
mod payload;
mod read_only;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;

pub use build::{Form, Renewals, list_of};
pub use payload::{Body, Payload, Version};
pub use view::{view_for_peer, view_of, view_of_image};

use crate::changelog::Published;
use crate::types::AppName;
use crate::wire::{Detail, Format};
use build::Builder;
use read_only::{Looked, ReadOnly};

/// What a cached answer is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entity {
    /// The whole registry.
    All,
    Delta,
    /// One application, by its upper-case name.
    App(AppName),
    Vip(Arc<str>),
    SecureVip(Arc<str>),
}

/// One encoded answer. Regions are no part of it: there are no remote ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub entity: Entity,
    pub format: Format,
    pub detail: Detail,
    pub is_gzip: bool,
}

/// Settings of the cache.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether requests read the read-only tier.
    pub use_read_only: bool,
    /// Whether the read-only tier gives way as soon as the log has moved.
    pub early_refresh: bool,
    /// Age at which an answer is built anew though nothing changed: lease times move without a
    /// change.
    pub expire_after: Duration,
    /// Bound of all payloads and fragments, bytes.
    pub max_bytes: u64,
    /// Id of this server's own instance.
    pub own_instance_id: Arc<str>,
}

/// The cache of one node.
#[derive(Debug)]
pub struct ResponseCache {
    read_write: Cache<Key, Arc<Payload>>,
    read_only: Option<ReadOnly>,
    builder: Builder,
    early_refresh: bool,
    max_bytes: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl ResponseCache {
    pub fn new(settings: Settings) -> Self {
        // Fragments hold the bytes, payloads mostly refer to them.
        let payload_bytes = settings.max_bytes / 4;
        Self {
            read_write: Cache::builder()
                .weigher(|key: &Key, payload: &Arc<Payload>| weight(key, payload))
                .max_capacity(payload_bytes)
                .time_to_live(settings.expire_after)
                .eviction_policy(moka::policy::EvictionPolicy::lru())
                .build(),
            read_only: settings.use_read_only.then(ReadOnly::default),
            builder: Builder::new(
                settings.max_bytes - payload_bytes,
                settings.expire_after,
                settings.own_instance_id,
            ),
            early_refresh: settings.early_refresh,
            max_bytes: settings.max_bytes,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The answer if it is at hand: `Some(None)` is a known "not there". `None` means that it has
    /// to be made with [`ResponseCache::load`].
    pub fn peek(&self, key: &Key, state: &Published) -> Option<Option<Arc<Payload>>> {
        let found = self.look(key, state);
        let counter = if found.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    #[expect(clippy::option_option, reason = "what both mean stands at `peek`")]
    fn look(&self, key: &Key, state: &Published) -> Option<Option<Arc<Payload>>> {
        if let Some(read_only) = &self.read_only {
            match read_only.look(key) {
                Looked::Payload(payload) => {
                    if !self.early_refresh {
                        return Some(Some(payload));
                    }
                    // What is gone has no version that any payload could show.
                    if Version::of(&key.entity, state).is_some_and(|now| payload.version() >= now) {
                        return Some(Some(payload));
                    }
                }
                Looked::Absent if !self.early_refresh => return Some(None),
                Looked::Absent | Looked::Unknown => {}
            }
        }
        let Some(version) = Version::of(&key.entity, state) else {
            self.remember(key, None);
            return Some(None);
        };
        let payload = self
            .read_write
            .get(key)
            .filter(|payload| payload.version() >= version)?;
        self.remember(key, Some(&payload));
        Some(Some(payload))
    }

    /// The answer, built if need be; at most one thread builds a key at a time. Encoding takes its
    /// time: call it where blocking is allowed.
    pub fn load(&self, key: &Key, state: &Published) -> Option<Arc<Payload>> {
        let payload = self.load_read_write(key, state);
        self.remember(key, payload.as_ref());
        payload
    }

    /// The read-only tier's timer: every known key is read again from the read-write tier.
    pub fn refresh_read_only(&self, state: &Published) {
        if let Some(read_only) = &self.read_only {
            read_only.refresh(!self.early_refresh, |key| self.load_read_write(key, state));
        }
    }

    /// Lets expired entries go; without traffic moka would keep them.
    pub fn run_pending_tasks(&self) {
        self.read_write.run_pending_tasks();
        self.builder.run_pending_tasks();
    }

    /// Requests that were answered with what was at hand, and those for which an answer had to be
    /// made, since the start.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (
            self.hits.load(Ordering::Relaxed),
            self.misses.load(Ordering::Relaxed),
        )
    }

    /// The bound of [`Self::weighted_size`].
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Bytes held by payloads and fragments, roughly.
    pub fn weighted_size(&self) -> u64 {
        self.read_write.weighted_size() + self.builder.weighted_size()
    }

    fn load_read_write(&self, key: &Key, state: &Published) -> Option<Arc<Payload>> {
        let version = Version::of(&key.entity, state)?;
        let is_stale = |payload: &Arc<Payload>| payload.version() < version;
        if let Some(payload) = self
            .read_write
            .get(key)
            .filter(|payload| !is_stale(payload))
        {
            return Some(payload);
        }
        let entry = self.read_write.entry_by_ref(key).or_insert_with_if(
            || Arc::new(self.builder.build(key, state, version)),
            is_stale,
        );
        Some(entry.into_value())
    }

    fn remember(&self, key: &Key, payload: Option<&Arc<Payload>>) {
        let Some(read_only) = &self.read_only else {
            return;
        };
        match payload {
            Some(payload) => read_only.put(key, Some(payload.clone())),
            // Unknown names are not remembered, unless the original is asked for (design 5).
            None if !self.early_refresh => read_only.put(key, None),
            None => {}
        }
    }
}

fn weight(key: &Key, payload: &Payload) -> u32 {
    let name = match &key.entity {
        Entity::All | Entity::Delta => 0,
        Entity::App(app) => app.as_str().len(),
        Entity::Vip(address) | Entity::SecureVip(address) => address.len(),
    };
    u32::try_from(payload.own_bytes() + name + 96).unwrap_or(u32::MAX)
}
