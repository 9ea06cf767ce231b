//! What a peer's registry says that this node has not heard: a whole list of instances (`GET apps/`), or what a
//! Java node lists as changed lately (`GET apps/delta`), against what is here. The whole list is used for the
//! first copy, and when a Java peer is met whose messages were missed; the other every few seconds.
//!
//! Of nodes of our own kind the registry takes the newer state itself. A Java node says no versions of its own,
//! and some of what it lists is no news: its answer may be minutes old, and it forgets overrides. So only what is
//! certainly newer than here is taken, and nothing is renewed; of what is here only what that node confirms when it
//! is asked for the instance itself. What was cancelled or evicted here stays so. That something is missing from a list
//! takes nothing away. A delta says that it went, and its times tell whether it was cancelled; what may have been
//! evicted there, each node judges for itself.

use std::collections::BTreeMap;

use super::exchange::adoption;
use super::outbound::Key;
use super::past::{self, Past, Removed};
use super::skew::Skew;
use crate::registry::command::{Command, Overrides};
use crate::registry::instance::{ActionType, Metadata};
use crate::registry::lease::Lease;
use crate::registry::status::Status;
use crate::registry::{Recalled, Registry};
use crate::types::{InstanceId, Lsn, Millis};
use crate::wire::Draft;

/// What has to happen here.
#[derive(Debug, Default)]
pub(super) struct Learned {
    pub(super) commands: Vec<Command>,
    /// Instances of which something is taken over.
    pub(super) instances: usize,
    /// Instances that are not valid.
    pub(super) refused: usize,
    /// Instances of which the log could not be asked whether they were removed here: they are left out.
    pub(super) unknown: usize,
    /// What seems to be new of instances that are here: to be confirmed first.
    pub(super) unheard: Vec<Unheard>,
}

/// Compares a peer's list with `registry`. `skew` is that of the clock of a Java node. May wait for
/// the disk, for as long as it takes to ask the log about all that is not here.
pub(super) fn learn(
    drafts: Vec<Draft>,
    is_our_kind: bool,
    skew: Skew,
    registry: &Registry,
    past: &dyn Past,
) -> Learned {
    let removed = past.all_removals(&past::unknown(registry, drafts.iter().map(key_of)));
    let mut learned = Learned::default();
    let cannot_tell = |draft: &&Draft| removed.of(&key_of(draft)) == Recalled::Unknown;
    learned.unknown = drafts.iter().filter(cannot_tell).count();
    for mut draft in drafts {
        // Whether it lives, the list does not say: a renewal will.
        draft.lease_times.vouched_ms = Some(0);
        let is_here = registry.lease(draft.app.as_str(), draft.id()).is_some();
        let known = (registry, &removed, past);
        if is_our_kind {
            learned.take(draft, true, registry, &removed);
        } else if is_here {
            learned.unheard.extend(Unheard::of(&draft, skew, known));
        } else {
            learned.take_news(draft, skew, known);
        }
    }
    learned
}

impl Learned {
    /// Why not all of the list is judged, if that is so.
    pub(super) fn unjudged(&self) -> Option<String> {
        (self.unknown > 0).then(|| {
            format!(
                "the log here cannot be read, which knows whether {} of its instances were removed",
                self.unknown
            )
        })
    }

    /// Takes what is new of an instance of a Java node.
    fn take_news(&mut self, draft: Draft, skew: Skew, known @ (registry, removed, _): Known<'_>) {
        match news_of(&draft, skew, known) {
            News::Instance => self.take(draft, false, registry, removed),
            News::Override => {
                let (app, id) = key_of(&draft);
                self.instances += 1;
                self.commands.push(Command::SetStatus {
                    app,
                    id,
                    status: draft.overridden_status,
                    dirty: None,
                });
            }
            // Of instances that are there.
            News::Cancel(_) | News::Nothing => {}
        }
    }

    fn take(&mut self, draft: Draft, is_our_kind: bool, registry: &Registry, removed: &Removed) {
        // Right after a registration that node may not have heard of an override.
        let is_untouched = draft.is_untouched();
        let is_here = registry.lease(draft.app.as_str(), draft.id()).is_some();
        let overrides = if is_here && is_untouched {
            Overrides::Merged
        } else {
            Overrides::Whole
        };
        match adoption(draft, is_our_kind, overrides, registry, removed) {
            Ok(commands) => {
                self.instances += usize::from(!commands.is_empty());
                self.commands.extend(commands);
            }
            Err(_) => self.refused += 1,
        }
    }
}

/// Something that was said at a Java node and has not been heard here, as a list has it, which may be old.
#[derive(Clone, Debug)]
pub struct Unheard {
    pub key: Key,
    /// When it was said, ms by the clock there.
    pub updated: i64,
    /// That it was cancelled, while the last change here is this one.
    pub cancelled: Option<Lsn>,
}

impl Unheard {
    fn of(draft: &Draft, skew: Skew, known: Known<'_>) -> Option<Self> {
        let cancelled = match news_of(draft, skew, known) {
            News::Nothing => return None,
            News::Instance | News::Override => None,
            News::Cancel(lsn) => Some(lsn),
        };
        Some(Self {
            key: key_of(draft),
            updated: draft.last_updated_timestamp,
            cancelled,
        })
    }

    /// What takes it over, if it is so still: by what that node says of the instance itself, which is never old
    /// (`protocol.md` 3.7), or that it does not have it. May wait for the disk, a moment at most.
    pub(super) fn confirmed(
        &self,
        there: Option<Draft>,
        skew: Skew,
        registry: &Registry,
        past: &dyn Past,
    ) -> Learned {
        let mut learned = Learned::default();
        let (app, id) = self.key.clone();
        if let Some(mut draft) = there {
            let removed = past::removals(past, registry, [self.key.clone()]);
            // Whether it lives, a renewal will say.
            draft.lease_times.vouched_ms = Some(0);
            learned.take_news(draft, skew, (registry, &removed, past));
        } else if let Some(lsn) = self.cancelled {
            let here = registry.lease(app.as_str(), id.as_str());
            let version = None;
            if here.is_some_and(|lease| lease.lsn == lsn) {
                learned.instances += 1;
                learned.commands.push(Command::Cancel { app, id, version });
            }
        }
        learned
    }
}

/// Compares what a Java node lists as changed lately with `registry`. May wait for the disk, a moment at
/// most.
pub(super) fn unheard(
    drafts: &[Draft],
    skew: Skew,
    registry: &Registry,
    past: &dyn Past,
) -> Vec<Unheard> {
    let present = drafts.iter().filter(|draft| !is_deleted(draft));
    let removed = past::removals(past, registry, present.map(key_of));
    let unheard = |draft| Unheard::of(draft, skew, (registry, &removed, past));
    drafts.iter().filter_map(unheard).collect()
}

/// What is new of an instance of a Java node.
enum News {
    Instance,
    Override,
    /// While this is the last change here.
    Cancel(Lsn),
    Nothing,
}

/// What is here: the registry, what the log says of what is gone from it, and the log.
type Known<'a> = (&'a Registry, &'a Removed, &'a dyn Past);

fn news_of(draft: &Draft, skew: Skew, (registry, removed, past): Known<'_>) -> News {
    let key = key_of(draft);
    let (app, id) = &key;
    let dirty = draft.last_dirty_timestamp;
    let lease = registry.lease(app.as_str(), id.as_str());
    if is_deleted(draft) {
        return match lease {
            Some(lease)
                if is_cancelled(draft)
                    && dirty >= lease.instance().last_dirty_timestamp
                    && is_later(draft, skew, lease, past) =>
            {
                News::Cancel(lease.lsn)
            }
            _ => News::Nothing,
        };
    }
    let Some(lease) = lease else {
        let stone = registry.tombstone(app, id);
        return match stone.map_or_else(|| removed.of(&key), |stone| Recalled::Removed(*stone)) {
            Recalled::Removed(stone) if dirty <= stone.version.dirty => News::Nothing,
            // The log could not be asked.
            Recalled::Unknown => News::Nothing,
            Recalled::Removed(_) | Recalled::Nothing => News::Instance,
        };
    };
    let (ours, overridden) = (lease.instance(), registry.override_of(app, id));
    // Java nodes put metadata without a newer version of the client's. A put takes nothing away: what lacks some of
    // what is here only, is what was told there before a put, and arrived after it.
    let has_other_metadata = has_more(&draft.metadata, &ours.metadata);
    // A Java node that is told an override which the status is already, does not take it.
    let has_other_override = draft.overridden_status != Status::Unknown
        && overridden != Some(draft.overridden_status)
        && overridden != Some(draft.status);
    let is_newer = dirty > ours.last_dirty_timestamp;
    if is_newer && !has_other_override {
        return News::Instance;
    }
    // One that was registered again after an override may have that of an earlier life, which others have heard the
    // end of; it is news if it was the last that happened.
    let is_set = draft.action_type == Some(ActionType::Modified);
    let is_news = match (has_other_override, has_other_metadata) {
        (true, _) => is_set || is_newer,
        (false, has_other_metadata) => has_other_metadata,
    };
    // What was done here later, such as lifting it, the other node has not heard of, or had not when the
    // answer was made.
    if !is_news || dirty < ours.last_dirty_timestamp || !is_later(draft, skew, lease, past) {
        News::Nothing
    } else if is_newer || has_other_metadata {
        News::Instance
    } else {
        News::Override
    }
}

/// Whether what happened last to an instance there, happened certainly later than what happened to it last here. By the
/// clock here: the versions of nodes of our own kind follow the clock that is furthest ahead among them.
fn is_later(draft: &Draft, skew: Skew, lease: &Lease, past: &dyn Past) -> bool {
    let there = skew.earliest(draft.last_updated_timestamp);
    let here = past.decided(lease.lsn).map(Millis::signed);
    there > here.unwrap_or(lease.instance().last_updated_timestamp)
}

fn is_deleted(draft: &Draft) -> bool {
    draft.action_type == Some(ActionType::Deleted)
}

/// Whether an instance that is gone was cancelled: it was not old enough to be evicted. Both are removals to a Java
/// node, of which it tells others the one and not the other (`protocol.md` 3.4). The times are all of its clock.
fn is_cancelled(draft: &Draft) -> bool {
    let times = draft.lease_times;
    let duration = i64::from(draft.lease.duration_secs) * 1000;
    times.eviction > 0 && times.eviction <= times.last_renewal.saturating_add(duration)
}

/// Whether there are entries in `theirs` that `ours` lacks, or has with another value; but for the one that Java's JSON
/// adds for a map.
fn has_more(theirs: &Metadata, ours: &Metadata) -> bool {
    let ours: BTreeMap<&str, &str> = ours.iter().map(|(key, value)| (&**key, &**value)).collect();
    let mut theirs = theirs.iter().map(|(key, value)| (&**key, &**value));
    theirs.any(|(key, value)| key != "@class" && ours.get(key) != Some(&value))
}

fn key_of(draft: &Draft) -> Key {
    (draft.app.clone(), InstanceId::new(draft.id()))
}

#[cfg(test)]
#[path = "learned_tests.rs"]
pub(super) mod tests;
