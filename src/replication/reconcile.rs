//! Comparing registries without sending them: fingerprints of instances, digests of applications,
//! and what two nodes of our own kind do about a difference (design 4, anti-entropy).
//!
//! The rules are those of the protocol, `lastDirtyTimestamp` first. Where a lease is on one side only,
//! the other side's memory decides: what it cancelled in that version or a newer one is cancelled on
//! both, what it evicted stays away until a renewal says that it lives.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use crate::registry::lease::Lease;
use crate::registry::status::Status;
use crate::registry::{Application, Registry};
use crate::types::{AppName, InstanceId, Lsn, Millis};

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
    write_text(&mut hasher, instance.status.as_str());
    write_text(&mut hasher, instance.overridden_status.as_str());
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
        let apps: BTreeMap<String, u64> = registry
            .apps()
            .map(|(name, app)| (name.to_string(), app_digest(app)))
            .collect();
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

    /// The applications in which two registries differ, at most `at_most` of them.
    pub fn differences(&self, other: &Self, at_most: usize) -> Vec<String> {
        let names: BTreeSet<&String> = self.apps.keys().chain(other.apps.keys()).collect();
        names
            .into_iter()
            .filter(|name| self.apps.get(*name) != other.apps.get(*name))
            .take(at_most)
            .cloned()
            .collect()
    }
}

/// One instance as one side has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub id: String,
    pub dirty: i64,
    pub status: String,
    pub overridden: String,
    /// When the server changed it last, ms; breaks ties of equal versions.
    pub updated: i64,
}

/// An instance that is gone on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    pub id: String,
    pub dirty: i64,
    /// Whether somebody cancelled it; otherwise its lease expired.
    pub cancelled: bool,
}

/// One application as one side has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppView {
    pub instances: Vec<Listed>,
    pub gone: Vec<Gone>,
    /// Those of the instances whose last change is on its way to the other side: no difference that
    /// they make is one.
    #[serde(default)]
    pub on_the_way: BTreeSet<String>,
}

/// What one side asks the other to compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    pub apps: BTreeMap<String, AppView>,
}

impl Comparison {
    /// The named applications as this registry has them. What is `moving` is
    /// marked.
    pub fn of(registry: &Registry, names: &[String], moving: Moving) -> Self {
        let apps = names
            .iter()
            .map(|name| (name.clone(), view_of(registry, name, moving)))
            .collect();
        Self { apps }
    }
}

fn view_of(registry: &Registry, name: &str, moving: Moving) -> AppView {
    let leases = || registry.app(name).into_iter().flat_map(Application::leases);
    let instances = leases().map(|lease| listed(lease)).collect();
    let on_the_way = leases()
        .filter(|lease| is_on_the_way(lease, moving))
        .map(|lease| lease.instance().id().to_string())
        .collect();
    let gone = registry
        .tombstones_of(name)
        .map(|(id, tombstone)| Gone {
            id: id.to_string(),
            dirty: tombstone.dirty,
            cancelled: tombstone.is_cancelled,
        })
        .collect();
    AppView {
        instances,
        gone,
        on_the_way,
    }
}

/// Which changes may not have come round yet: no difference that they make is one. Without this a
/// comparison between two nodes would undo what a third one has told only one of them so far.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    /// The other side has been told of everything up to here, if that is known.
    pub told: Option<Lsn>,
    /// What changed here after this moment (wall time) may still be on its way to somebody.
    pub settled: Millis,
}

/// How long a change takes to come round at most, ms, while nodes can reach each other.
const COMES_ROUND_MS: u64 = 2000;

impl Moving {
    pub fn new(told: Option<Lsn>, now: Millis) -> Self {
        Self {
            told,
            settled: Millis(now.0.saturating_sub(COMES_ROUND_MS)),
        }
    }
}

fn is_on_the_way(lease: &Lease, moving: Moving) -> bool {
    let settled = i64::try_from(moving.settled.0).unwrap_or(i64::MAX);
    moving.told.is_some_and(|told| lease.lsn > told)
        || lease.instance().last_updated_timestamp > settled
}

fn listed(lease: &Lease) -> Listed {
    let instance = lease.instance();
    Listed {
        id: instance.id().to_string(),
        dirty: instance.last_dirty_timestamp,
        status: instance.status.as_str().to_owned(),
        overridden: instance.overridden_status.as_str().to_owned(),
        updated: instance.last_updated_timestamp,
    }
}

/// What has to happen so that both sides agree, seen from the side that was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// We want their version.
    pub wanted: Vec<(AppName, InstanceId)>,
    /// They should have ours.
    pub ours_newer: Vec<(AppName, InstanceId)>,
    /// They should cancel what we cancelled.
    pub cancelled_here: Vec<(AppName, InstanceId, i64)>,
    /// We should cancel what they cancelled.
    pub cancelled_there: Vec<(AppName, InstanceId, i64)>,
}

impl Repairs {
    pub fn len(&self) -> usize {
        self.wanted.len()
            + self.ours_newer.len()
            + self.cancelled_here.len()
            + self.cancelled_there.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Compares what the other side has with `registry`. What is `moving` on either
/// side is left alone.
pub fn compare(registry: &Registry, theirs: &Comparison, moving: Moving) -> Repairs {
    let mut repairs = Repairs::default();
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
            let mine = registry.lease(app.as_str(), &their.id);
            let is_moving = mine.is_some_and(|lease| is_on_the_way(lease, moving));
            if !is_moving && !view.on_the_way.contains(&their.id) {
                compare_one(registry, &app, their, &mut repairs);
            }
        }
        let mine = registry
            .app(app.as_str())
            .into_iter()
            .flat_map(Application::leases);
        for lease in mine {
            let id = lease.instance().id();
            if listed.contains_key(id.as_str()) || is_on_the_way(lease, moving) {
                continue;
            }
            let dirty = lease.instance().last_dirty_timestamp;
            match gone.get(id.as_str()).filter(|gone| gone.dirty >= dirty) {
                Some(gone) if gone.cancelled => {
                    repairs.cancelled_there.push((app.clone(), id, gone.dirty));
                }
                Some(_) => {}
                None => repairs.ours_newer.push((app.clone(), id)),
            }
        }
    }
    repairs
}

fn compare_one(registry: &Registry, app: &AppName, their: &Listed, repairs: &mut Repairs) {
    let id = InstanceId::new(&their.id);
    let key = (app.clone(), id.clone());
    let Some(lease) = registry.lease(app.as_str(), id.as_str()) else {
        match registry
            .tombstone(app, &id)
            .filter(|t| t.dirty >= their.dirty)
        {
            Some(t) if t.is_cancelled => repairs.cancelled_here.push((app.clone(), id, t.dirty)),
            Some(_) => {}
            None => repairs.wanted.push(key),
        }
        return;
    };
    let mine = listed(lease);
    let content = |one: &Listed| (one.dirty, one.status.clone(), one.overridden.clone());
    if content(&mine) == content(their) {
        return;
    }
    let rank = |one: &Listed| {
        (
            one.dirty,
            one.updated,
            override_rank(one),
            one.status.clone(),
        )
    };
    match rank(&mine).cmp(&rank(their)) {
        std::cmp::Ordering::Less => repairs.wanted.push(key),
        std::cmp::Ordering::Greater => repairs.ours_newer.push(key),
        std::cmp::Ordering::Equal => {}
    }
}

/// Among equals an operator's word outranks none.
fn override_rank(one: &Listed) -> (bool, String) {
    let is_set = Status::parse(&one.overridden).is_some_and(|status| status != Status::Unknown);
    (is_set, one.overridden.clone())
}
