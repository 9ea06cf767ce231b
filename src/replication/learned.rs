//! What a peer's registry says that this node has not heard: a whole list of instances (`GET apps/`) against
//! what is here. Used for the first copy, and when a Java peer is met whose messages were missed.
//!
//! Of nodes of our own kind the registry takes the newer state itself. A Java node says no versions of its own,
//! and some of what it lists is no news: its answer may be half a minute old, and it forgets
//! overrides. So of its list only what is newer than here is taken, nothing is taken away, and nothing
//! renewed; what was cancelled or evicted here stays so.

use std::collections::BTreeMap;

use super::exchange::adoption;
use super::outbound::Key;
use super::past::{self, Past, Removed};
use crate::registry::command::{Command, Overrides};
use crate::registry::instance::Metadata;
use crate::registry::status::Status;
use crate::registry::version::Version;
use crate::registry::{Recalled, Registry};
use crate::types::InstanceId;
use crate::wire::Draft;

/// What has to happen here.
#[derive(Debug, Default)]
pub(super) struct Learned {
    pub(super) commands: Vec<Command>,
    /// Instances that are taken over, in whole.
    pub(super) instances: usize,
    /// Overrides of instances that are here as they are there.
    pub(super) overrides: usize,
    /// Instances that are not valid.
    pub(super) refused: usize,
    /// Instances of which the log could not be asked whether they were removed here: they are left out.
    pub(super) unknown: usize,
}

/// Compares a peer's list with `registry`. May wait for the disk, for as long as it takes to ask the log about
/// all that is not here.
pub(super) fn learn(
    drafts: Vec<Draft>,
    is_our_kind: bool,
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
        if is_our_kind {
            learned.take(draft, true, registry, &removed);
            continue;
        }
        match news_of(&draft, registry, &removed) {
            News::Instance => learned.take(draft, false, registry, &removed),
            News::Override => {
                let (app, id) = key_of(&draft);
                learned.overrides += 1;
                learned.commands.push(Command::SetStatus {
                    app,
                    id,
                    status: draft.overridden_status,
                    dirty: None,
                });
            }
            News::Nothing => {}
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

/// What is new of an instance of a Java node.
enum News {
    Instance,
    Override,
    Nothing,
}

fn news_of(draft: &Draft, registry: &Registry, removed: &Removed) -> News {
    let key = key_of(draft);
    let (app, id) = &key;
    let theirs = Version {
        dirty: draft.last_dirty_timestamp,
        updated: draft.last_updated_timestamp,
    };
    let Some(lease) = registry.lease(app.as_str(), id.as_str()) else {
        let stone = registry.tombstone(app, id);
        return match stone.map_or_else(|| removed.of(&key), |stone| Recalled::Removed(*stone)) {
            Recalled::Removed(stone) if theirs.dirty <= stone.version.dirty => News::Nothing,
            // The log could not be asked.
            Recalled::Unknown => News::Nothing,
            Recalled::Removed(_) | Recalled::Nothing => News::Instance,
        };
    };
    let ours = Version::of(lease.instance());
    if theirs.dirty > ours.dirty {
        return News::Instance;
    }
    // What was done here later, such as lifting it, the other node has not heard of, or had not when the
    // answer was made.
    let is_later = theirs.dirty == ours.dirty && theirs.updated > ours.updated;
    // Java nodes put metadata without a newer version of the client's.
    if is_later && entries(&draft.metadata) != entries(&lease.instance().metadata) {
        return News::Instance;
    }
    let is_other = draft.overridden_status != Status::Unknown
        && registry.override_of(app, id) != Some(draft.overridden_status);
    if is_later && is_other {
        News::Override
    } else {
        News::Nothing
    }
}

/// The entries in one order, without the one that Java's JSON adds for a map.
fn entries(metadata: &Metadata) -> BTreeMap<&str, &str> {
    let entries = metadata.iter().map(|(key, value)| (&**key, &**value));
    entries.filter(|(key, _)| *key != "@class").collect()
}

fn key_of(draft: &Draft) -> Key {
    (draft.app.clone(), InstanceId::new(draft.id()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cache::view_for_peer;
    use crate::registry::rules::Rules;
    use crate::registry::tests::{Scene, cancel, instance, lift, set, version};
    use crate::wire::batch::{ItemAnswer, decode_batch_response, write_batch_response};
    use crate::wire::{Format, Limits};

    /// What a Java node lists.
    pub(in crate::replication) fn listed(registry: &Registry) -> Vec<Draft> {
        let answers = registry.leases().map(|lease| ItemAnswer {
            status: 409,
            entity: Some(view_for_peer(lease, "java", None)),
        });
        let mut body = Vec::new();
        write_batch_response(&mut body, Format::Json, answers, false);
        let replies = decode_batch_response(&body, &Limits::default(), 0).expect("an answer");
        replies.into_iter().filter_map(|one| one.entity).collect()
    }

    /// What the log says of removals that the registry has forgotten.
    #[derive(Debug, Default)]
    struct Log(Removed);

    impl Past for Log {
        fn removals(&self, _: &[Key]) -> Removed {
            self.0.clone()
        }
    }

    fn learns(here: &mut Scene, java: &Scene) -> (usize, usize) {
        let log = Log::default();
        let learned = learn(listed(&java.registry), false, &here.registry, &log);
        assert_eq!(learned.refused, 0);
        for command in &learned.commands {
            here.peer(command);
        }
        (learned.instances, learned.overrides)
    }

    /// Both have heard of the instance; a moment has passed.
    fn both() -> (Scene, Scene) {
        let (mut here, mut java) = (Scene::new(&Rules::default()), Scene::new(&Rules::eureka()));
        here.register(version(200, instance("SHOP", "1")));
        java.pass(1);
        java.peer(&Command::Register(
            version(200, instance("SHOP", "1")).into(),
        ));
        for scene in [&mut here, &mut java] {
            scene.pass(10_000);
        }
        (here, java)
    }

    const OUT: Status = Status::OutOfService;

    #[test]
    fn what_is_the_same_changes_nothing_and_renews_nothing() {
        let (mut here, java) = both();
        let (lsn, renewed) = (here.registry.lsn(), here.lease("SHOP", "1").to_image());
        assert_eq!(learns(&mut here, &java), (0, 0));
        assert_eq!(here.registry.lsn(), lsn);
        let image = here.lease("SHOP", "1").to_image();
        assert_eq!(image.renewed_at, renewed.renewed_at);
    }

    #[test]
    fn an_override_that_was_set_there_later_is_taken_over_once() {
        let (mut here, mut java) = both();
        java.client(&set("SHOP", "1", OUT, None));
        assert_eq!(learns(&mut here, &java), (0, 1));
        assert_eq!(here.override_of("SHOP", "1"), Some(OUT));
        assert_eq!(here.instance("SHOP", "1").status, OUT);
        assert_eq!(learns(&mut here, &java), (0, 0));
    }

    #[test]
    fn an_override_that_was_lifted_or_set_here_later_stays_so() {
        let (mut here, mut java) = both();
        for scene in [&mut here, &mut java] {
            scene.client(&set("SHOP", "1", OUT, None));
            scene.pass(1000);
        }
        let mut lifted = here.clone();
        lifted.client(&lift("SHOP", "1", None, None));
        assert_eq!(learns(&mut lifted, &java), (0, 0));
        assert_eq!(lifted.override_of("SHOP", "1"), None);
        here.client(&set("SHOP", "1", Status::Down, None));
        assert_eq!(learns(&mut here, &java), (0, 0));
        assert_eq!(here.override_of("SHOP", "1"), Some(Status::Down));
    }

    #[test]
    fn an_override_that_the_other_node_has_forgotten_stays() {
        let (mut here, java) = both();
        here.client(&set("SHOP", "1", OUT, None));
        assert_eq!(learns(&mut here, &java), (0, 0));
        assert_eq!(here.override_of("SHOP", "1"), Some(OUT));
    }

    #[test]
    fn a_newer_description_is_taken_over_with_its_override_and_an_older_one_is_not() {
        let (mut here, mut java) = both();
        java.client(&set("SHOP", "1", OUT, None));
        java.register(version(300, instance("SHOP", "1")));
        assert_eq!(learns(&mut here, &java), (1, 0));
        assert_eq!(here.instance("SHOP", "1").last_dirty_timestamp, 300);
        assert_eq!(here.override_of("SHOP", "1"), Some(OUT));
        here.register(version(400, instance("SHOP", "1")));
        assert_eq!(learns(&mut here, &java), (0, 0));
        assert_eq!(here.instance("SHOP", "1").last_dirty_timestamp, 400);
    }

    #[test]
    fn metadata_that_was_put_there_later_is_taken_over_once() {
        let (mut here, mut java) = both();
        let mut described = version(200, instance("SHOP", "1"));
        described.metadata = described.metadata.with([("color".into(), "green".into())]);
        // The same version of the client's, as Java nodes leave it.
        java.peer(&Command::Register(described.into()));
        java.pass(1);
        java.client(&set("SHOP", "1", Status::Up, None));
        assert_eq!(learns(&mut here, &java), (1, 0));
        let metadata = &here.instance("SHOP", "1").metadata;
        assert!(
            metadata
                .iter()
                .any(|(key, value)| (&**key, &**value) == ("color", "green"))
        );
        assert_eq!(learns(&mut here, &java), (0, 0));
    }

    #[test]
    fn what_was_cancelled_here_stays_so_and_what_was_never_here_is_taken_over() {
        let (mut here, mut java) = both();
        here.client(&cancel("SHOP", "1"));
        java.register(version(200, instance("SHOP", "2")));
        assert_eq!(learns(&mut here, &java), (1, 0));
        assert!(!here.has("SHOP", "1") && here.has("SHOP", "2"));
        // The log remembers for longer than the registry.
        let gone = here
            .registry
            .tombstone(&crate::types::AppName::new("SHOP"), &InstanceId::new("1"));
        let stone = *gone.expect("it was cancelled");
        let key = (crate::types::AppName::new("SHOP"), InstanceId::new("1"));
        here.registry.forget_removals();
        let mut log = Log::default();
        log.0.extend([(key.clone(), stone)]);
        let learned = learn(listed(&java.registry), false, &here.registry, &log);
        assert!(learned.commands.is_empty());
        let log = Log(Removed::unknown(&[key]));
        let learned = learn(listed(&java.registry), false, &here.registry, &log);
        assert!(learned.commands.is_empty());
        assert_eq!(learned.unknown, 1);
    }
}
