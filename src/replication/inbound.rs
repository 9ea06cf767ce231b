//! What nodes of our own kind ask of each other beyond the original's protocol: renewals as numbers,
//! and comparisons of registries. Java peers never see these paths.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::holds::{self, Told};
use super::outbound::Key;
use super::past::Past;
use super::reconcile::{self, Comparison, Repairs};
use crate::cache::view_for_peer;
use crate::changelog::Published;
use crate::registry::change::Actor;
use crate::registry::command::{Command, Reply};
use crate::registry::lease::Lease;
use crate::registry::version::Version;
use crate::types::{AppName, InstanceId, Lsn, Millis, Now};
use crate::wire::{self, Caller, Detail, Format};

/// Bytes of instances in an answer at most, of which one is told in any case.
pub const ANSWER_BYTES: usize = 4 << 20;
/// The least that a node asks for.
pub const ANSWER_BYTES_MIN: usize = 16 << 10;

/// The answer to a [`Comparison`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Compared {
    /// What the asked side wants to be told of.
    pub wanted: Vec<(String, String)>,
    /// What the asking side should cancel, with the version that was cancelled: dirty timestamp and
    /// time of the change.
    pub cancelled: Vec<(String, String, i64, i64)>,
    /// What ran out at the asked side, and nobody vouches for: the asking side should end it too.
    #[serde(default)]
    pub expired: Vec<(String, String, i64, i64)>,
    /// What the asked side has newer, as a list in the original's JSON.
    pub newer: Option<Box<RawValue>>,
    /// How many that are.
    pub newer_count: usize,
    /// The last of them, by application and id, if there are more behind it: what lies there has to be
    /// asked again.
    #[serde(default)]
    pub told_upto: Option<(String, String)>,
    /// What the asked side cancelled because the asking one had, or ended because it ran out there.
    pub cancelled_here: usize,
    /// What the asked side knows of holds, if it was asked.
    #[serde(default)]
    pub holds: Vec<Told>,
    /// Who made what is told newer, cancelled or expired so, where the asked side's log says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<CallerOf>,
}

/// Who asked the asked side for the last change of an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallerOf {
    app: String,
    id: String,
    caller: Caller,
}

impl Compared {
    /// Instances that differed.
    pub fn len(&self) -> usize {
        // Two of them are the peer's word.
        (self.wanted.len() + self.cancelled.len() + self.expired.len() + self.holds.len())
            .saturating_add(self.newer_count)
            .saturating_add(self.cancelled_here)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Who asked the asked side for what it tells, by instance.
    pub fn callers(&self) -> HashMap<Key, Actor> {
        let one = |of: &CallerOf| {
            let key = (AppName::new(&of.app), InstanceId::new(&of.id));
            (key, of.caller.actor())
        };
        self.callers.iter().map(one).collect()
    }
}

/// Finds leases by their fingerprints.
#[derive(Debug, Default)]
pub struct Fingerprints {
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    /// Everything up to here is in.
    lsn: Lsn,
    /// Entries of versions that are gone stay until the next build: a look-up checks.
    leases: HashMap<u64, (AppName, InstanceId)>,
}

impl Index {
    fn follow(&mut self, state: &Published) {
        if self.lsn == state.lsn() {
            return;
        }
        let most = 2 * state.registry.len() + 1024;
        let is_crowded = self.leases.len() as u64 > most;
        let records = state.delta.since(self.lsn.next()).filter(|_| !is_crowded);
        if let Some(records) = records {
            for record in records {
                let change = &record.change;
                let lease = state
                    .registry
                    .lease(change.app.as_str(), change.id.as_str());
                if let Some(lease) = lease {
                    self.insert(lease);
                }
            }
        } else {
            self.leases.clear();
            for lease in state.registry.leases() {
                self.insert(lease);
            }
        }
        self.lsn = state.lsn();
    }

    fn insert(&mut self, lease: &Lease) {
        let instance = lease.instance();
        self.leases.insert(
            reconcile::fingerprint(lease),
            (instance.app.clone(), instance.id()),
        );
    }
}

impl Fingerprints {
    /// Renews the leases of a digest, each by `renew`, which says `None` if that changed something
    /// and was not done. The places of those that are not here in that version.
    pub fn renew(
        &self,
        state: &Published,
        digest: &[u8],
        mut renew: impl FnMut(&str, &str) -> Option<Reply>,
    ) -> Vec<u32> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.follow(state);
        let mut unknown = Vec::new();
        for (place, bytes) in digest.as_chunks::<8>().0.iter().enumerate() {
            let fingerprint = u64::from_be_bytes(*bytes);
            let renewed = index
                .leases
                .get(&fingerprint)
                .filter(|(app, id)| {
                    let lease = state.registry.lease(app.as_str(), id.as_str());
                    lease.is_some_and(|lease| reconcile::fingerprint(lease) == fingerprint)
                })
                .and_then(|(app, id)| renew(app.as_str(), id.as_str()));
            if !matches!(renewed, Some(Reply::Done)) {
                unknown.push(u32::try_from(place).unwrap_or(u32::MAX));
            }
        }
        unknown
    }
}

/// Compares at `now`: the answer, and the commands that end here what the other side cancelled
/// or what ran out there, each with who asked for it there. May wait for the disk. If the log does not take them now, the next comparison finds the same again.
///
/// `told` is up to where the other side has heard of our changes; `None` if it is told nothing. What
/// was changed here behind it is not asked for: first that change has to get there. Of what is newer
/// here, `answer_bytes` are told, or fewer if fewer are asked for, and where that ends.
pub fn compare(
    state: &Published,
    question: &Comparison,
    told: Option<Lsn>,
    (own_id, past): (&str, &dyn Past),
    now: Now,
    answer_bytes: usize,
) -> (Compared, Vec<(Command, Actor)>) {
    let mut repairs = reconcile::compare(&state.registry, question, past, now.mono);
    if let Some(told) = told {
        let records = state.delta.since(told.next());
        if let Some(records) = records {
            let own = records.filter(|record| !record.origin.is_replication());
            let untold: HashSet<(&AppName, &InstanceId)> = own
                .map(|record| (&record.change.app, &record.change.id))
                .collect();
            repairs
                .wanted
                .retain(|(app, id)| !untold.contains(&(app, id)));
        } else if told < state.lsn() {
            repairs.wanted.clear();
        }
    }
    let wished = question.answer_bytes.unwrap_or(answer_bytes);
    let answer_bytes = answer_bytes.min(wished);
    // So that where the answer ends says what is missing.
    repairs.ours_newer.sort();
    let mut answer = answer(state, &repairs, own_id, now.mono, answer_bytes);
    answer.callers = callers(state, &repairs, answer.newer_count, past);
    // Holds first: they decide what becomes of the states behind them.
    let mut commands = Vec::new();
    if let Some(theirs) = &question.holds {
        let news = holds::news(&state.registry, theirs, now.wall.signed());
        commands.extend(news.map(|(command, caller)| (command, caller.unwrap_or_default())));
        answer.holds = holds::all(&state.registry, now.wall);
        holds::name_callers(&mut answer.holds, &state.delta);
    }
    let endings = reconcile::endings(repairs.cancelled_there, repairs.expired_there);
    commands.extend(endings.map(|command| (command, Actor::UNKNOWN)));
    (answer, commands)
}

fn answer(
    state: &Published,
    repairs: &Repairs,
    own_id: &str,
    now: Millis,
    answer_bytes: usize,
) -> Compared {
    let names = |keys: &[(AppName, InstanceId)]| {
        keys.iter()
            .map(|(app, id)| (app.to_string(), id.to_string()))
            .collect()
    };
    let versions = |gone: &[(AppName, InstanceId, Version)]| {
        let texts = gone.iter().map(|(app, id, version)| {
            let (app, id) = (app.to_string(), id.to_string());
            (app, id, version.dirty, version.updated)
        });
        texts.collect()
    };
    let newer = list_of(state, &repairs.ours_newer, own_id, now, answer_bytes);
    let newer_count = newer.as_ref().map_or(0, |newer| newer.count);
    let is_all = newer_count == repairs.ours_newer.len();
    let last = newer_count.checked_sub(1).filter(|_| !is_all);
    let told_upto = last.and_then(|last| repairs.ours_newer.get(last));
    Compared {
        wanted: names(&repairs.wanted),
        cancelled: versions(&repairs.cancelled_here),
        expired: versions(&repairs.expired_here),
        newer: newer.map(|newer| newer.list),
        newer_count,
        told_upto: told_upto.map(|(app, id)| (app.to_string(), id.to_string())),
        cancelled_here: repairs.cancelled_there.len() + repairs.expired_there.len(),
        holds: Vec::new(),
        callers: Vec::new(),
    }
}

/// Who made what is told of `repairs` so; of what is newer here so many are told.
fn callers(state: &Published, repairs: &Repairs, newer: usize, past: &dyn Past) -> Vec<CallerOf> {
    let registry = &state.registry;
    let changed = repairs.ours_newer.iter().take(newer);
    let changed = changed.filter_map(|key| {
        let lease = registry.lease(key.0.as_str(), key.1.as_str())?;
        Some((lease.lsn, key.clone()))
    });
    let ended = repairs.cancelled_here.iter().chain(&repairs.expired_here);
    let ended = ended.filter_map(|(app, id, _)| {
        let lsn = registry.removed_at(app, id)?;
        Some((lsn, (app.clone(), id.clone())))
    });
    let changes: Vec<(Lsn, Key)> = changed.chain(ended).collect();
    let positions: Vec<Lsn> = changes.iter().map(|(lsn, _)| *lsn).collect();
    let actors = past.callers(&positions);
    let one = |(lsn, (app, id)): &(Lsn, Key)| {
        Some(CallerOf {
            app: app.to_string(),
            id: id.to_string(),
            caller: Caller::of(actors.get(lsn)?)?,
        })
    };
    changes.iter().filter_map(one).collect()
}

/// Instances as a list in the original's form, which every decoder of ours reads.
struct Newer {
    list: Box<RawValue>,
    /// How many of the keys it goes through.
    count: usize,
}

/// From the first key on, until the list has so many bytes.
fn list_of(
    state: &Published,
    keys: &[(AppName, InstanceId)],
    own_id: &str,
    now: Millis,
    bytes: usize,
) -> Option<Newer> {
    if keys.is_empty() {
        return None;
    }
    let (format, detail) = (Format::Json, Detail::Full);
    let mut text = Vec::new();
    wire::list_head(&mut text, format, detail, "1", "", false);
    let mut is_first = true;
    let mut count = 0;
    for (app, id) in keys {
        if !is_first && text.len() >= bytes {
            break;
        }
        count += 1;
        let Some(lease) = state.registry.lease(app.as_str(), id.as_str()) else {
            continue;
        };
        if !is_first {
            text.extend_from_slice(wire::list_separator(format, detail));
        }
        is_first = false;
        wire::list_fragment(
            &mut text,
            format,
            detail,
            app.as_str(),
            [view_for_peer(lease, own_id, Some(now))],
        );
    }
    wire::list_tail(&mut text, format, detail, "1", "", false);
    let list = RawValue::from_string(String::from_utf8(text).ok()?).ok()?;
    Some(Newer { list, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::rules::Rules;
    use crate::registry::tests::{Scene, instance};
    use crate::replication::past::Removed;
    use crate::replication::portion::Portion;
    use crate::wire::Limits;

    #[derive(Debug)]
    struct Forgetful;

    impl Past for Forgetful {
        fn removals(&self, _: &[Key]) -> Removed {
            Removed::default()
        }
    }

    #[test]
    fn an_answer_goes_as_far_as_its_bound_and_what_is_behind_can_be_asked() {
        let (mut here, there) = (Scene::new(&Rules::default()), Scene::new(&Rules::default()));
        for app in ["A", "B", "C"] {
            for id in 0..20 {
                here.register(instance(app, &format!("{id:02}")));
            }
        }
        let state = here.published();
        for bytes in [1, 10_000, ANSWER_BYTES] {
            let mut portions: Vec<Portion> = ["A", "B", "C"].map(Portion::whole).to_vec();
            let (mut told, mut answers) = (Vec::new(), 0);
            while !portions.is_empty() {
                let question = Comparison::of(&there.registry, &portions, there.now);
                let asked: (&str, &dyn Past) = ("here", &Forgetful);
                let now = here.now;
                let (answer, _) = compare(&state, &question, None, asked, now, bytes);
                let list = answer.newer.expect("a list");
                // One instance more than the bound, and what a list begins and ends with.
                assert!(list.get().len() < bytes + 2000);
                let list = wire::decode_applications(list.get().as_bytes(), &Limits::default(), 0);
                let drafts = list.expect("a list").drafts;
                assert_eq!(drafts.len(), answer.newer_count);
                told.extend(
                    drafts
                        .iter()
                        .map(|draft| format!("{}/{}", draft.app, draft.id())),
                );
                answers += 1;
                let behind = |portion: Portion| {
                    let (app, id) = answer.told_upto.as_ref()?;
                    portion.behind((app, id))
                };
                portions = portions.into_iter().filter_map(behind).collect();
            }
            let all = here.registry.leases().map(|lease| {
                let instance = lease.instance();
                format!("{}/{}", instance.app, instance.id())
            });
            assert_eq!(told, all.collect::<Vec<_>>());
            assert_eq!(answers == 1, bytes == ANSWER_BYTES, "{bytes}: {answers}");
        }
    }
}
