//! Comparing registries without sending them: fingerprints of instances, digests of applications,
//! and what two nodes of our own kind do about a difference (design 4, anti-entropy).
//!
//! The rules are those of the protocol, `lastDirtyTimestamp` first. Where a lease is on one side only,
//! the other side's memory decides: what it cancelled in that version or a newer one is cancelled on
//! both. What it evicted is evicted on both, unless the side that has the lease knows of a renewal that
//! vouches for the instance: then both have it, for as long as that renewal lets it live.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::holds::{self, Told};
use super::past::{self, Past, Removed};
use super::portion::{Portion, Range};
use crate::registry::command::Command;
use crate::registry::lease::Lease;
use crate::registry::version::Version;
use crate::registry::{Application, Recalled, Registry, Tombstone};
use crate::types::{AppName, InstanceId, Lsn, Millis, Now};

/// A lease in one version: what a digest of renewals says instead of its names.
pub fn fingerprint(lease: &Lease) -> u64 {
    let instance = lease.instance();
    let mut hasher = SipHasher13::new();
    write_text(&mut hasher, instance.app.as_str());
    write_text(&mut hasher, instance.id().as_str());
    hasher.write_i64(instance.last_dirty_timestamp);
    hasher.finish()
}

/// A lease with everything that two nodes should agree on.
fn state_fingerprint(lease: &Lease) -> u64 {
    let instance = lease.instance();
    let mut hasher = SipHasher13::new();
    hasher.write_u64(fingerprint(lease));
    hasher.write_i64(instance.last_updated_timestamp);
    write_text(&mut hasher, instance.status.as_str());
    write_text(&mut hasher, instance.overridden_status.as_str());
    // In whatever order the entries came.
    let metadata = instance.metadata.iter().fold(0, |sum: u64, (key, value)| {
        let mut hasher = SipHasher13::new();
        write_text(&mut hasher, key);
        write_text(&mut hasher, value);
        sum.wrapping_add(hasher.finish())
    });
    hasher.write_u64(metadata);
    hasher.finish()
}

/// Length first, so that no two pairs of texts run together.
fn write_text(hasher: &mut SipHasher13, text: &str) {
    hasher.write_u64(text.len() as u64);
    hasher.write(text.as_bytes());
}

/// The digest of one application: equal if the leases are, whatever their order.
fn app_digest(app: &Application) -> u64 {
    app.leases()
        .fold(0, |digest, lease| digest ^ state_fingerprint(lease))
}

/// A registry's digests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Over all applications, with their names.
    pub root: u64,
    pub apps: BTreeMap<String, u64>,
}

impl Digests {
    pub fn of(registry: &Registry) -> Self {
        let mut apps: BTreeMap<String, u64> = registry
            .apps()
            .map(|(name, app)| (name.to_string(), app_digest(app)))
            .collect();
        apps.extend(holds::digest(registry).map(|digest| (holds::NAME.to_owned(), digest)));
        let mut hasher = SipHasher13::new();
        for (name, digest) in &apps {
            write_text(&mut hasher, name);
            hasher.write_u64(*digest);
        }
        Self {
            root: hasher.finish(),
            apps,
        }
    }

    /// The applications in which two registries differ, at most `at_most` of them: those behind
    /// `after` first, so that differences that stay do not hide the others.
    pub fn differences(&self, other: &Self, after: Option<&str>, at_most: usize) -> Vec<String> {
        let names: BTreeSet<&String> = self.apps.keys().chain(other.apps.keys()).collect();
        let differing = || {
            let is_different = |name: &&&String| self.apps.get(**name) != other.apps.get(**name);
            names.iter().filter(is_different).copied()
        };
        let is_behind = |name: &&String| after.is_some_and(|after| name.as_str() > after);
        let rest = differing().filter(|name| !is_behind(name));
        differing()
            .filter(is_behind)
            .chain(rest)
            .take(at_most)
            .cloned()
            .collect()
    }
}

/// One instance as one side has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub id: String,
    /// Its version (`registry::version`).
    pub dirty: i64,
    pub updated: i64,
    /// The version that a cancel has to reach.
    pub registered: (i64, i64),
    /// Over all that both sides should agree on.
    pub print: u64,
    /// Whether a sign of life vouches for it there (`Lease::is_vouched`).
    #[serde(default)]
    pub vouched: bool,
}

/// An instance that is gone on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    pub id: String,
    /// The version in which it was removed.
    pub dirty: i64,
    pub updated: i64,
    /// Whether somebody cancelled it; otherwise its lease expired.
    pub cancelled: bool,
}

/// One application, or a range of it, as one side has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppView {
    /// Nothing is said of what lies outside it.
    #[serde(default)]
    pub range: Range,
    pub instances: Vec<Listed>,
    pub gone: Vec<Gone>,
}

/// What one side asks the other to compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    pub apps: BTreeMap<String, AppView>,
    /// What is known of holds, where they differ.
    #[serde(default)]
    pub holds: Option<Vec<Told>>,
    /// How many bytes of instances the answer is to have at most, as far as that can be kept to.
    #[serde(default)]
    pub answer_bytes: Option<usize>,
}

impl Comparison {
    /// These portions, of different applications, as this registry has them at `now`.
    pub fn of(registry: &Registry, portions: &[Portion], now: Now) -> Self {
        let apps = portions
            .iter()
            .filter(|portion| portion.app != holds::NAME)
            .map(|portion| (portion.app.clone(), view_of(registry, portion, now.mono)))
            .collect();
        let holds = portions
            .iter()
            .any(|portion| portion.app == holds::NAME)
            .then(|| holds::all(registry, now.wall));
        Self {
            apps,
            holds,
            answer_bytes: None,
        }
    }
}

fn view_of(registry: &Registry, Portion { app, range }: &Portion, now: Millis) -> AppView {
    let leases = registry.app(app).into_iter().flat_map(Application::leases);
    let instances = leases
        .filter(|lease| range.has(lease.instance().id_text()))
        .map(|lease| listed(lease, now))
        .collect();
    let gone = registry
        .tombstones_of(app)
        .filter(|(id, _)| range.has(id.as_str()))
        .map(|(id, tombstone)| Gone {
            id: id.to_string(),
            dirty: tombstone.version.dirty,
            updated: tombstone.version.updated,
            cancelled: tombstone.is_cancelled,
        })
        .collect();
    AppView {
        range: range.clone(),
        instances,
        gone,
    }
}

fn listed(lease: &Lease, now: Millis) -> Listed {
    let instance = lease.instance();
    let registered = Version::of_registration(&lease.image);
    Listed {
        id: instance.id().to_string(),
        dirty: instance.last_dirty_timestamp,
        updated: instance.last_updated_timestamp,
        registered: (registered.dirty, registered.updated),
        print: state_fingerprint(lease),
        vouched: lease.is_vouched(now),
    }
}

/// An instance that ended on one side, in which version.
pub type Ended = (AppName, InstanceId, Version);

/// The commands that end here what was cancelled or ran out on the other side.
pub fn endings(
    cancelled: impl IntoIterator<Item = Ended>,
    expired: impl IntoIterator<Item = Ended>,
) -> impl Iterator<Item = Command> {
    let cancels = cancelled
        .into_iter()
        .map(|(app, id, version)| Command::Cancel {
            app,
            id,
            version: Some(version),
        });
    let expiries = expired
        .into_iter()
        .map(|(app, id, version)| Command::Expire { app, id, version });
    cancels.chain(expiries)
}

/// What has to happen so that both sides agree, seen from the side that was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// We want their version.
    pub wanted: Vec<(AppName, InstanceId)>,
    /// They should have ours.
    pub ours_newer: Vec<(AppName, InstanceId)>,
    /// They should cancel what we cancelled.
    pub cancelled_here: Vec<Ended>,
    /// We should cancel what they cancelled.
    pub cancelled_there: Vec<Ended>,
    /// They should end what ran out here.
    pub expired_here: Vec<Ended>,
    /// We should end what ran out there.
    pub expired_there: Vec<Ended>,
}

impl Repairs {
    pub fn len(&self) -> usize {
        self.wanted.len()
            + self.ours_newer.len()
            + self.cancelled_here.len()
            + self.cancelled_there.len()
            + self.expired_here.len()
            + self.expired_there.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Compares what the other side has with `registry` at `now` (monotonic). May wait for the disk.
pub fn compare(registry: &Registry, theirs: &Comparison, past: &dyn Past, now: Millis) -> Repairs {
    let mut repairs = Repairs::default();
    let their_keys = theirs.apps.iter().flat_map(|(name, view)| {
        let app = AppName::new(name);
        let ids = view.instances.iter().map(|one| InstanceId::new(&one.id));
        ids.map(move |id| (app.clone(), id))
    });
    let removed = past::removals(past, registry, their_keys);
    for (name, view) in &theirs.apps {
        let app = AppName::new(name);
        let listed: BTreeMap<&str, &Listed> = view
            .instances
            .iter()
            .map(|one| (one.id.as_str(), one))
            .collect();
        let gone: BTreeMap<&str, &Gone> =
            view.gone.iter().map(|one| (one.id.as_str(), one)).collect();
        for their in listed.values() {
            compare_one((registry, &removed), &app, their, &mut repairs);
        }
        let mine = registry
            .app(app.as_str())
            .into_iter()
            .flat_map(Application::leases);
        for lease in mine {
            let id = lease.instance().id();
            if listed.contains_key(id.as_str()) || !view.range.has(id.as_str()) {
                continue;
            }
            let registered = Version::of_registration(&lease.image);
            let gone = gone.get(id.as_str());
            let recalled = gone.map_or(Recalled::Nothing, |gone| recalled_of(gone));
            match judge(recalled, registered, lease.is_vouched(now)) {
                Verdict::Cancelled(version) => {
                    repairs.cancelled_there.push((app.clone(), id, version));
                }
                Verdict::Expired(version) => {
                    repairs.expired_there.push((app.clone(), id, version));
                }
                Verdict::Lives => repairs.ours_newer.push((app.clone(), id)),
                Verdict::Open => {}
            }
        }
    }
    repairs
}

fn compare_one(
    (registry, removed): (&Registry, &Removed),
    app: &AppName,
    their: &Listed,
    repairs: &mut Repairs,
) {
    let id = InstanceId::new(&their.id);
    let key = (app.clone(), id.clone());
    let Some(lease) = registry.lease(app.as_str(), id.as_str()) else {
        let registered = Version {
            dirty: their.registered.0,
            updated: their.registered.1,
        };
        let stone = registry.tombstone(app, &id);
        let recalled = stone.map_or_else(|| removed.of(&key), |stone| Recalled::Removed(*stone));
        match judge(recalled, registered, their.vouched) {
            Verdict::Cancelled(version) => repairs.cancelled_here.push((app.clone(), id, version)),
            Verdict::Expired(version) => repairs.expired_here.push((app.clone(), id, version)),
            Verdict::Lives => repairs.wanted.push(key),
            Verdict::Open => {}
        }
        return;
    };
    let theirs = Version {
        dirty: their.dirty,
        updated: their.updated,
    };
    match Version::of(lease.instance()).cmp(&theirs) {
        Ordering::Less => repairs.wanted.push(key),
        Ordering::Greater => repairs.ours_newer.push(key),
        // Two states of one version: each side takes the other's or keeps its own, by one rule.
        Ordering::Equal if state_fingerprint(lease) != their.print => {
            repairs.wanted.push(key.clone());
            repairs.ours_newer.push(key);
        }
        Ordering::Equal => {}
    }
}

/// What the side without a lease thinks of the other side's.
enum Verdict {
    /// It was cancelled after it was registered.
    Cancelled(Version),
    /// It ran out on the side without it, and nobody vouches for it on the other.
    Expired(Version),
    Lives,
    /// The log could not be asked: the next comparison finds it again.
    Open,
}

fn judge(recalled: Recalled, registered: Version, is_vouched: bool) -> Verdict {
    if !recalled.keeps_out(registered, is_vouched) {
        return Verdict::Lives;
    }
    match recalled {
        Recalled::Removed(stone) if stone.is_cancelled => Verdict::Cancelled(stone.version),
        Recalled::Removed(stone) => Verdict::Expired(stone.version),
        Recalled::Nothing | Recalled::Unknown => Verdict::Open,
    }
}

fn recalled_of(gone: &Gone) -> Recalled {
    Recalled::Removed(Tombstone {
        version: Version {
            dirty: gone.dirty,
            updated: gone.updated,
        },
        is_cancelled: gone.cancelled,
        at: Millis::ZERO,
    })
}

/// The digests of a registry, computed once per position of the log.
#[derive(Debug, Default)]
pub struct DigestCache {
    last: Mutex<Option<(Lsn, Arc<Digests>)>>,
}

impl DigestCache {
    pub fn of(&self, registry: &Registry) -> Arc<Digests> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((lsn, digests)) = &*last
            && *lsn == registry.lsn()
        {
            return digests.clone();
        }
        let digests = Arc::new(Digests::of(registry));
        *last = Some((registry.lsn(), digests.clone()));
        digests
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
