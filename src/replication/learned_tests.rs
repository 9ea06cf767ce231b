//! Lists of a Java node against what is here.

use std::sync::Arc;

use super::*;

use crate::cache::{view_for_peer, view_of_image};
use crate::changelog::Published;
use crate::registry::change::Record;
use crate::registry::command::Adoption;
use crate::registry::rules::Rules;
use crate::registry::tests::{Scene, cancel, instance, lift, put_metadata, saying, set, version};
use crate::replication::skew::tests::exactly;
use crate::types::Lsn;
use crate::wire::batch::{ItemAnswer, decode_batch_response, write_batch_response};
use crate::wire::{self, Detail, Format, Limits};

/// What a Java node with this log lists.
pub(in crate::replication) fn listed(registry: &Registry, log: &[Arc<Record>]) -> Vec<Draft> {
    let changed = last_changes(log);
    let answers = registry.leases().map(|lease| ItemAnswer {
        status: 409,
        entity: Some(view_for_peer(lease, "java", None)),
    });
    let mut body = Vec::new();
    write_batch_response(&mut body, Format::Json, answers, false);
    let replies = decode_batch_response(&body, &Limits::default(), 0).expect("an answer");
    let drafts = replies.into_iter().filter_map(|one| one.entity);
    let by_its_clock = drafts.map(|mut draft| {
        if let Some(at) = changed.get(&key_of(&draft)) {
            draft.last_updated_timestamp = *at;
        }
        draft
    });
    by_its_clock.collect()
}

/// When each instance was changed last, as a Java node says it: by its clock alone, while the nodes that play it
/// here keep their versions ahead of what others say.
fn last_changes(log: &[Arc<Record>]) -> BTreeMap<Key, i64> {
    let key = |record: &Record| (record.change.app.clone(), record.change.id.clone());
    log.iter()
        .map(|record| (key(record), record.at.signed()))
        .collect()
}

/// A Java node's answer to what changed lately.
pub(in crate::replication) fn delta_of(state: &Published, log: &[Arc<Record>]) -> Vec<u8> {
    let changed = last_changes(log);
    let (format, detail) = (Format::Json, Detail::Full);
    let mut body = Vec::new();
    wire::list_head(&mut body, format, detail, "1", "", false);
    for (place, (app, mut images)) in state.delta.net(&state.registry).into_iter().enumerate() {
        for image in &mut images {
            let at = changed.get(&(app.clone(), image.instance.id()));
            let instance = Arc::make_mut(&mut image.instance);
            instance.last_updated_timestamp = *at.expect("a change");
        }
        if place > 0 {
            body.extend_from_slice(wire::list_separator(format, detail));
        }
        let views = images.iter().map(|image| view_of_image(image, ""));
        wire::list_fragment(&mut body, format, detail, app.as_str(), views);
    }
    wire::list_tail(&mut body, format, detail, "1", "", false);
    body
}

/// What the log says of removals that the registry has forgotten, and of what is there.
#[derive(Debug, Default)]
struct Log(Removed, Vec<Arc<Record>>);

impl Log {
    fn of(scene: &Scene) -> Self {
        Self(Removed::default(), scene.log.clone())
    }
}

impl Past for Log {
    fn removals(&self, _: &[Key]) -> Removed {
        self.0.clone()
    }

    fn decided(&self, change: Lsn) -> Option<Millis> {
        let record = self.1.iter().find(|record| record.lsn == change);
        record.map(|record| record.at)
    }
}

/// What of `unheard` is taken over, asked for at the Java node.
fn confirm(here: &mut Scene, java: &Scene, skew: Skew, unheard: &[Unheard]) -> usize {
    let theirs = listed(&java.registry, &java.log);
    let mut taken = 0;
    for one in unheard {
        let there = theirs.iter().find(|draft| key_of(draft) == one.key);
        let learned = one.confirmed(there.cloned(), skew, &here.registry, &Log::of(here));
        taken += usize::from(!learned.commands.is_empty());
        for command in &learned.commands {
            here.peer(command);
        }
    }
    taken
}

/// Learns from the whole list of a Java node. How many instances are taken over that were not here, and how many
/// changes of others.
fn learns(here: &mut Scene, java: &Scene) -> (usize, usize) {
    let (log, skew) = (Log::of(here), exactly(0));
    let learned = learn(
        listed(&java.registry, &java.log),
        false,
        skew,
        &here.registry,
        &log,
    );
    assert_eq!(learned.refused, 0);
    for command in &learned.commands {
        here.peer(command);
    }
    let confirmed = confirm(here, java, skew, &learned.unheard);
    (learned.instances, confirmed)
}

/// What a Java node lists as changed lately and was not heard here, by a clock that is ahead by so much.
fn lists(here: &Scene, java: &Scene, ahead: i64) -> Vec<Unheard> {
    let body = delta_of(&java.published(), &java.log);
    let list = wire::decode_applications(&body, &Limits::default(), 0).expect("a list");
    unheard(&list.drafts, exactly(ahead), &here.registry, &Log::of(here))
}

/// Learns from what a Java node lists as changed lately. How many instances that concerns.
fn hears(here: &mut Scene, java: &Scene, ahead: i64) -> usize {
    let unheard = lists(here, java, ahead);
    let taken = confirm(here, java, exactly(ahead), &unheard);
    assert_eq!(taken, unheard.len());
    taken
}

/// Both have heard of the instance; a moment has passed.
fn both() -> (Scene, Scene) {
    both_with(0)
}

/// The same with the clock of the Java node ahead, ms.
fn both_with(ahead: i64) -> (Scene, Scene) {
    let (mut here, mut java) = (Scene::new(&Rules::default()), Scene::new(&Rules::eureka()));
    java.now.wall = Millis(java.now.wall.0.saturating_add_signed(ahead));
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
    assert_eq!(learns(&mut here, &java), (0, 1));
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
    assert_eq!(learns(&mut here, &java), (0, 1));
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
    let learn_with = |log: &Log| {
        let list = listed(&java.registry, &java.log);
        learn(list, false, exactly(0), &here.registry, log)
    };
    assert!(learn_with(&log).commands.is_empty());
    let learned = learn_with(&Log(Removed::unknown(&[key]), Vec::new()));
    assert!(learned.commands.is_empty());
    assert_eq!(learned.unknown, 1);
}

#[test]
fn what_both_have_heard_of_is_no_news_however_often_it_is_listed() {
    let (mut here, mut java) = both();
    for scene in [&mut here, &mut java] {
        scene.client(&set("SHOP", "1", OUT, None));
        scene.register(version(300, instance("SHOP", "2")));
        scene.client(&cancel("SHOP", "2"));
        scene.pass(60_000);
    }
    assert_eq!(hears(&mut here, &java, 0), 0);
}

#[test]
fn what_was_said_there_lately_is_heard_once_whatever_the_clocks_say() {
    for ahead in [0, 300_000, -300_000] {
        let (mut here, mut java) = both_with(ahead);
        java.client(&set("SHOP", "1", OUT, None));
        java.register(version(300, instance("SHOP", "new")));
        assert_eq!(hears(&mut here, &java, ahead), 2, "{ahead}");
        assert_eq!(here.override_of("SHOP", "1"), Some(OUT));
        assert!(here.has("SHOP", "new"));
        assert_eq!(hears(&mut here, &java, ahead), 0);
        // What is lifted here is lifted, though the list that is kept there for a while says otherwise.
        here.pass(3000);
        here.client(&lift("SHOP", "1", None, None));
        assert_eq!(hears(&mut here, &java, ahead), 0, "{ahead}");
        assert_eq!(here.override_of("SHOP", "1"), None);
    }
}

#[test]
fn versions_that_run_ahead_of_the_clock_here_are_no_reason_not_to_listen() {
    let (mut here, mut java) = both();
    // Another node, whose clock is ahead, has changed it last.
    let mut ahead = version(200, instance("SHOP", "1"));
    ahead.last_updated_timestamp = here.now.wall.signed() + 240_000;
    here.registry = Scene::new(&Rules::default()).registry;
    here.log.clear();
    here.peer(&Command::Adopt(Adoption {
        instance: ahead.into(),
        registered: 0,
        vouched_ms: None,
        recalled: Recalled::Nothing,
        overrides: Overrides::Whole,
    }));
    let updated = here.instance("SHOP", "1").last_updated_timestamp;
    assert!(updated > here.now.wall.signed() + 200_000);
    java.pass(5000);
    java.client(&set("SHOP", "1", OUT, None));
    assert_eq!(hears(&mut here, &java, 0), 1);
    assert_eq!(here.override_of("SHOP", "1"), Some(OUT));
}

#[test]
fn a_cancel_is_heard_and_an_eviction_is_not() {
    for (waits, is_gone) in [(20_000, true), (200_000, false)] {
        let (mut here, mut java) = both();
        java.pass(waits);
        if is_gone {
            java.client(&cancel("SHOP", "1"));
        } else {
            java.evict(0.0, 1);
        }
        assert!(!java.has("SHOP", "1"));
        assert_eq!(hears(&mut here, &java, 0), usize::from(is_gone));
        assert_eq!(here.has("SHOP", "1"), !is_gone);
        assert_eq!(hears(&mut here, &java, 0), 0);
    }
}

#[test]
fn who_registered_here_after_a_cancel_there_stays() {
    for dirty in [200, 300] {
        let (mut here, mut java) = both();
        java.client(&cancel("SHOP", "1"));
        here.pass(10_000);
        here.register(version(dirty, instance("SHOP", "1")));
        assert_eq!(hears(&mut here, &java, 0), 0, "{dirty}");
    }
}

#[test]
fn what_was_taken_back_since_it_was_listed_is_not_taken_over() {
    let (mut here, mut java) = both();
    java.client(&set("SHOP", "1", OUT, None));
    let listed = lists(&here, &java, 0);
    assert_eq!(listed.len(), 1);
    java.client(&lift("SHOP", "1", None, None));
    assert_eq!(confirm(&mut here, &java, exactly(0), &listed), 0);
    java.client(&cancel("SHOP", "1"));
    let listed = lists(&here, &java, 0);
    assert!(listed[0].cancelled.is_some());
    java.register(version(200, instance("SHOP", "1")));
    assert_eq!(confirm(&mut here, &java, exactly(0), &listed), 0);
    // Nor if something happened here in between.
    java.client(&cancel("SHOP", "1"));
    let listed = lists(&here, &java, 0);
    here.client(&set("SHOP", "1", OUT, None));
    assert_eq!(confirm(&mut here, &java, exactly(0), &listed), 0);
    assert!(here.has("SHOP", "1"));
}

#[test]
fn an_override_that_a_java_node_did_not_take_since_the_status_was_that_already_stays() {
    let (mut here, mut java) = both();
    for scene in [&mut here, &mut java] {
        scene.client(&set("SHOP", "1", OUT, None));
        scene.register(version(300, saying(Status::Down, instance("SHOP", "1"))));
        scene.pass(5000);
    }
    here.client(&set("SHOP", "1", Status::Down, None));
    // What it is told of that.
    java.pass(60_000);
    java.peer(&Command::Register(
        version(300, saying(Status::Down, instance("SHOP", "1"))).into(),
    ));
    java.peer(&set("SHOP", "1", Status::Down, Some(300)));
    assert_eq!(java.override_of("SHOP", "1"), Some(OUT));
    assert!(lists(&here, &java, 0).is_empty());
}

#[test]
fn an_override_that_may_be_older_does_not_come_back_with_a_newer_description() {
    let (mut here, mut java) = both();
    for scene in [&mut here, &mut java] {
        scene.client(&set("SHOP", "1", OUT, None));
        scene.pass(5000);
    }
    java.register(version(300, instance("SHOP", "1")));
    here.pass(5000);
    here.client(&lift("SHOP", "1", None, None));
    assert!(lists(&here, &java, 0).is_empty());
    java.peer(&lift("SHOP", "1", None, Some(200)));
    assert_eq!(hears(&mut here, &java, 0), 1);
    assert_eq!(here.override_of("SHOP", "1"), None);
    assert_eq!(here.instance("SHOP", "1").last_dirty_timestamp, 300);
}

#[test]
fn an_override_of_an_earlier_life_is_no_news_when_the_client_registers_again() {
    let (mut here, mut java) = both();
    java.client(&set("SHOP", "1", OUT, None));
    for scene in [&mut here, &mut java] {
        scene.pass(5000);
    }
    here.client(&cancel("SHOP", "1"));
    here.register(version(300, instance("SHOP", "1")));
    java.pass(5000);
    java.peer(&Command::Register(
        version(300, instance("SHOP", "1")).into(),
    ));
    assert_eq!(java.override_of("SHOP", "1"), Some(OUT));
    assert_eq!(hears(&mut here, &java, 0), 0);
    java.client(&set("SHOP", "1", Status::Down, None));
    assert_eq!(hears(&mut here, &java, 0), 1, "a new word");
}

#[test]
fn metadata_that_a_java_node_lost_to_an_older_registration_stays_here() {
    let (mut here, mut java) = both();
    for scene in [&mut here, &mut java] {
        scene.client(&put_metadata("SHOP", "1", &[("color", "green")]));
        scene.pass(5000);
    }
    let dirty = java.instance("SHOP", "1").last_dirty_timestamp;
    java.peer(&Command::Register(
        version(dirty, instance("SHOP", "1")).into(),
    ));
    assert!(java.instance("SHOP", "1").metadata.get("color").is_none());
    assert_eq!(hears(&mut here, &java, 0), 0);
    let metadata = &here.instance("SHOP", "1").metadata;
    assert_eq!(metadata.get("color").map(|value| &**value), Some("green"));
}
