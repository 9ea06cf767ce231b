//! The forms of an answer, and what they share.

use std::collections::HashSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Body as _;

use super::*;
use crate::registry::status::Status;
use crate::registry::tests::{cancel, set};

/// The pieces that a client is sent, with their addresses.
fn pieces(payload: &Arc<Payload>) -> Vec<Bytes> {
    let mut body = pin!(Body::new(payload.clone()));
    let mut context = Context::from_waker(Waker::noop());
    let mut pieces = Vec::new();
    let mut left = payload.len();
    assert_eq!(body.size_hint().exact(), Some(left));
    while let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut context) {
        let piece = frame.into_data().unwrap();
        left -= piece.len() as u64;
        assert_eq!(body.size_hint().exact(), Some(left));
        pieces.push(piece);
    }
    assert!(body.is_end_stream());
    assert_eq!(left, 0);
    pieces
}

fn addresses(pieces: &[Bytes]) -> HashSet<*const u8> {
    let long = pieces.iter().filter(|piece| piece.len() > 100);
    long.map(|piece| piece.as_ptr()).collect()
}

#[test]
fn a_change_of_one_application_leaves_the_bytes_of_all_others_shared() {
    for is_gzip in [false, true] {
        let cache = ResponseCache::new(settings());
        let mut scene = scene(&["CART", "MAIL", "PAY", "SHOP"]);
        let all = Key {
            is_gzip,
            ..key(Entity::All)
        };
        let before = pieces(&ask(&cache, &all, &scene).unwrap());
        scene.client(&set("PAY", "1", Status::Down, None));
        let after = pieces(&ask(&cache, &all, &scene).unwrap());
        let (before, after) = (addresses(&before), addresses(&after));
        assert_eq!((before.len(), after.len()), (4, 4));
        assert_eq!(before.intersection(&after).count(), 3);
    }
}

#[test]
fn the_body_that_is_sent_is_the_whole_payload() {
    let cache = ResponseCache::new(settings());
    let scene = scene(&["CART", "SHOP"]);
    for key in [key(Entity::All), key(Entity::Delta), app("SHOP")] {
        let payload = ask(&cache, &key, &scene).unwrap();
        assert_eq!(pieces(&payload).concat(), payload.to_vec());
        assert_eq!(payload.len(), payload.to_vec().len() as u64);
        assert!(!payload.is_empty());
    }
}

#[test]
fn compressed_and_plain_say_the_same_in_every_form() {
    let cache = ResponseCache::new(settings());
    let mut full = scene(&["CART", "SHOP", "STRASSE-ß"]);
    full.client(&cancel("CART", "1"));
    let empty = scene(&[]);
    let entities = [
        Entity::All,
        Entity::Delta,
        Entity::App(AppName::new("SHOP")),
        Entity::Vip("shop".into()),
    ];
    for entity in entities {
        for format in [Format::Json, Format::Xml] {
            for detail in [Detail::Full, Detail::Compact] {
                for scene in [&full, &empty] {
                    let form = |is_gzip| Key {
                        entity: entity.clone(),
                        format,
                        detail,
                        is_gzip,
                    };
                    let cache = if scene.registry.is_empty() {
                        &ResponseCache::new(settings())
                    } else {
                        &cache
                    };
                    let plain = ask(cache, &form(false), scene);
                    let zipped = ask(cache, &form(true), scene);
                    assert_eq!(plain.is_some(), zipped.is_some());
                    let (Some(plain), Some(zipped)) = (plain, zipped) else {
                        continue;
                    };
                    assert_eq!(text(&plain), unzip(&zipped), "{:?}", form(true));
                    if format == Format::Json {
                        let document: serde_json::Value =
                            serde_json::from_str(&text(&plain)).unwrap();
                        assert!(document.is_object());
                    }
                }
            }
        }
    }
}

#[test]
fn forms_of_one_entity_do_not_stand_in_for_each_other() {
    let cache = ResponseCache::new(settings());
    let scene = scene(&["SHOP"]);
    let mut seen = HashSet::new();
    for format in [Format::Json, Format::Xml] {
        for detail in [Detail::Full, Detail::Compact] {
            for is_gzip in [false, true] {
                let key = Key {
                    entity: Entity::All,
                    format,
                    detail,
                    is_gzip,
                };
                assert!(seen.insert(ask(&cache, &key, &scene).unwrap().to_vec()));
            }
        }
    }
}

#[test]
fn an_empty_registry_is_the_recorded_document() {
    let cache = ResponseCache::new(settings());
    let answer = ask(&cache, &key(Entity::All), &scene(&[])).unwrap();
    assert_eq!(
        text(&answer),
        r#"{"applications":{"versions__delta":"1","apps__hashcode":"","application":[]}}"#
    );
}

#[test]
fn this_servers_own_instance_is_the_coordinating_one() {
    let cache = ResponseCache::new(settings());
    let mut scene = scene(&["SHOP"]);
    scene.register(instance("EUREKA", "own"));
    for key in [key(Entity::All), key(Entity::Delta)] {
        let answer = text(&ask(&cache, &key, &scene).unwrap());
        let yes = answer.matches("\"isCoordinatingDiscoveryServer\":\"true\"");
        let no = answer.matches("\"isCoordinatingDiscoveryServer\":\"false\"");
        assert_eq!((yes.count(), no.count()), (1, 1));
    }
}
