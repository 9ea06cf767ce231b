//! Requests as a peer reads them, and answers of all kinds.

use super::*;
use crate::registry::change::Origin;
use crate::registry::rules::Rules;
use crate::registry::tests::{Scene, cancel, instance, version};
use crate::replication::batch::{Known, Plan, Terms};
use crate::replication::outbound::{Backlog, Key};
use crate::types::Lsn;
use crate::wire::Dialect;
use crate::wire::batch::{ItemAnswer, decode_batch, write_batch_response};

#[derive(Debug)]
struct NoLog;

impl Past for NoLog {
    fn removals(&self, _: &[Key]) -> Removed {
        Removed::default()
    }
}

fn reading<'a>(digests: &'a Digests, registry: &'a Registry) -> Reading<'a> {
    Reading {
        digests,
        compared: None,
        registry,
        past: &NoLog,
        limits: Limits::default(),
        now: 0,
        skew: Skew::default(),
    }
}

#[test]
fn a_question_that_is_too_long_is_no_failure() {
    let (digests, scene) = (Digests::default(), Scene::new(&Rules::default()));
    let reading = reading(&digests, &scene.registry);
    let heard = outcome(
        &Ask::Compare {
            asked: Vec::new(),
            answer_bytes: 1,
        },
        Kind::default(),
        413,
        b"",
        &reading,
    );
    assert!(matches!(heard, Outcome::TooLong), "{heard:?}");
}

#[test]
fn only_a_batch_response_without_items_answers_a_probe() {
    let (digests, scene) = (Digests::default(), Scene::new(&Rules::default()));
    let reading = reading(&digests, &scene.registry);
    let heard = |status, body: &[u8]| outcome(&Ask::Probe, Kind::Java, status, body, &reading);
    // As the original answers an empty list.
    let fine = heard(200, br#"{"responseList":[]}"#);
    assert!(matches!(fine, Outcome::Known(Kind::Java)), "{fine:?}");
    for body in [
        "<html><body>It works!</body></html>",
        "",
        "{}",
        r#"{"responseList":[{"statusCode":200}]}"#,
    ] {
        let heard = heard(200, body.as_bytes());
        let is_broken = matches!(heard, Outcome::Failed(Failure::Broken(_)));
        assert!(is_broken, "{body}: {heard:?}");
    }
    for status in [404, 500, 503] {
        let heard = heard(status, br#"{"responseList":[]}"#);
        assert!(matches!(heard, Outcome::Failed(Failure::Status(_))));
    }
}

#[test]
fn who_asked_is_passed_on_to_our_own_kind_and_to_nobody_else() {
    let mut here = Scene::new(&Rules::default());
    here.register(instance("SHOP", "1"));
    here.caller = Actor {
        address: Some("10.1.2.3".into()),
        reason: Some("deploy \"4711\"".into()),
        ..Actor::UNKNOWN
    };
    here.client(&cancel("SHOP", "1"));
    here.register(instance("SHOP", "2"));
    here.caller = Actor::UNKNOWN;
    here.register(instance("SHOP", "3"));
    let mut backlog = Backlog::behind(Lsn::ZERO, Lsn::ZERO, true);
    backlog.take_in(&here.log);
    let (items, _) = backlog.next_items(100, &here.registry, Lsn::ZERO);
    let ours = Kind::Ours {
        node_id: "there".into(),
    };
    let digests = Digests::default();
    let ask = Ask::Batch(items);
    let state = here.published();
    let body = |kind: &Kind| message(&ask, kind, &state, &digests, "here", here.now).body;
    for is_our_kind in [false, true] {
        let bytes = body(if is_our_kind { &ours } else { &Kind::Java });
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.contains("\"caller\""), is_our_kind, "{text}");
    }
    let there = Scene::new(&Rules::default());
    let asked_by = |is_our_kind| {
        let bytes = body(&ours);
        let items = decode_batch(&bytes, Dialect::Exact, &Limits::default(), 0);
        let items = items.expect("a batch").expect("a list");
        let terms = Terms {
            is_our_kind,
            validates_data_center_id: false,
        };
        let known = Known {
            state: &there.published(),
            removed: &Removed::default(),
            sender: &Origin::Peer("peer-1".into()),
        };
        let items = items.into_iter().flatten().collect();
        let mut plan = Plan::of(items, terms, known, |_, _, _| None);
        let sender = Actor {
            address: Some("peer".into()),
            ..Actor::UNKNOWN
        };
        let actors = plan.actors(sender);
        let asked = (0..plan.commands.len()).map(|place| {
            let actor = actors.of(place);
            (actor.address.clone(), actor.reason.clone())
        });
        asked.collect::<Vec<_>>()
    };
    let caller = || (Some("10.1.2.3".into()), Some("deploy \"4711\"".into()));
    let sender = || (Some("peer".into()), None);
    assert_eq!(asked_by(true), [caller(), caller(), sender()]);
    // Anybody can write the key.
    assert_eq!(asked_by(false), [sender(), sender(), sender()]);
}

/// The instance as a peer answers a conflict with it.
fn conflict(peer: &Scene) -> Draft {
    let entity = Some(view_for_peer(peer.lease("SHOP", "1"), "peer", None));
    let answer = ItemAnswer {
        status: 409,
        entity,
    };
    let mut body = Vec::new();
    write_batch_response(&mut body, Format::Json, [answer], false);
    let mut replies = decode_batch_response(&body, &Limits::default(), 0).expect("an answer");
    replies.remove(0).entity.expect("an instance")
}

#[test]
fn what_was_cancelled_here_is_not_taken_over_from_any_kind_of_peer() {
    let (mut here, mut there) = (Scene::new(&Rules::default()), Scene::new(&Rules::default()));
    for scene in [&mut here, &mut there] {
        scene.register(version(200, instance("SHOP", "1")));
    }
    here.pass(10);
    here.client(&cancel("SHOP", "1"));
    for is_newer in [false, true] {
        if is_newer {
            there.register(version(300, instance("SHOP", "1")));
        }
        for is_our_kind in [false, true] {
            let mut here = here.clone();
            let draft = conflict(&there);
            let commands = adoption(
                draft,
                is_our_kind,
                Overrides::Merged,
                &here.registry,
                &Removed::default(),
            );
            for command in commands.expect("a valid instance") {
                here.peer(&command);
            }
            assert_eq!(here.has("SHOP", "1"), is_newer, "ours: {is_our_kind}");
        }
    }
}

#[test]
fn what_a_java_node_says_of_itself_and_lists_is_read_and_may_be_refused() {
    let (digests, scene) = (Digests::default(), Scene::new(&Rules::default()));
    let reading = reading(&digests, &scene.registry);
    let heard =
        |ask, status, body: &str| outcome(ask, Kind::Java, status, body.as_bytes(), &reading);
    let status =
        "<s><instanceInfo><lastUpdatedTimestamp>7</lastUpdatedTimestamp></instanceInfo></s>";
    for (code, body, born) in [
        (200, status, Some(7)),
        (200, "{}", None),
        (404, "", None),
        (500, "", None),
    ] {
        let heard = heard(&Ask::Born, code, body);
        assert!(
            matches!(heard, Outcome::Born(told) if told == born),
            "{heard:?}"
        );
    }
    // That is about the node.
    let busy = heard(&Ask::Born, 503, "");
    assert!(
        matches!(busy, Outcome::Failed(Failure::Status(503))),
        "{busy:?}"
    );
    let list = r#"{"applications":{"versions__delta":"1","apps__hashcode":"","application":[]}}"#;
    let heard_list = heard(&Ask::Recent, 200, list);
    assert!(matches!(heard_list, Outcome::Recent(ref unheard) if unheard.is_empty()));
    for code in [302, 403, 404, 500, 502, 503] {
        let heard = heard(&Ask::Recent, code, "");
        assert!(
            matches!(heard, Outcome::Unread(Failure::Status(told)) if told == code),
            "{heard:?}"
        );
    }
    let page = heard(&Ask::Recent, 200, "<html>It works!</html>");
    assert!(
        matches!(page, Outcome::Unread(Failure::Broken(_))),
        "{page:?}"
    );
}
