//! Freshness of the two tiers, and what they remember.

use super::*;
use crate::registry::status::Status;
use crate::registry::tests::{cancel, renew, set, version};

/// Whether both are the same payload, not just an equal one.
fn is_same<'a>(
    a: impl Into<Option<&'a Arc<Payload>>>,
    b: impl Into<Option<&'a Arc<Payload>>>,
) -> bool {
    match (a.into(), b.into()) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

#[test]
fn an_answer_is_encoded_once_until_something_changes() {
    let cache = ResponseCache::new(settings());
    let mut scene = scene(&["SHOP", "CART"]);
    for key in [
        key(Entity::All),
        key(Entity::Delta),
        app("SHOP"),
        vip("shop"),
    ] {
        let first = ask(&cache, &key, &scene);
        assert!(first.is_some());
        scene.renew("SHOP", "1");
        assert!(is_same(&first, &ask(&cache, &key, &scene)), "{key:?}");
    }
}

#[test]
fn a_change_is_seen_at_once_or_with_the_originals_timer() {
    let (fresh, stale) = (ResponseCache::new(settings()), original());
    let without = ResponseCache::new(Settings {
        use_read_only: false,
        early_refresh: false,
        ..settings()
    });
    let mut scene = scene(&["SHOP"]);
    for key in [
        key(Entity::All),
        key(Entity::Delta),
        app("SHOP"),
        vip("shop"),
    ] {
        let caches = [&fresh, &without, &stale];
        let before = caches.map(|cache| ask(cache, &key, &scene));
        let next = scene.instance("SHOP", "1").last_dirty_timestamp + 1;
        scene.register(version(next, instance("SHOP", "1")));
        scene.client(&set("SHOP", "1", Status::OutOfService, None));
        scene.client(&set("SHOP", "1", Status::Up, None));
        let after = caches.map(|cache| ask(cache, &key, &scene));
        let changed: Vec<bool> = before
            .iter()
            .zip(&after)
            .map(|(before, after)| !is_same(before, after))
            .collect();
        assert_eq!(changed, [true, true, false], "{key:?}");
        stale.refresh_read_only(&scene.published());
        let refreshed = ask(&stale, &key, &scene);
        assert_eq!(
            text(&refreshed.unwrap()),
            text(after[0].as_ref().unwrap()),
            "{key:?}"
        );
    }
}

#[test]
fn what_is_gone_is_gone_at_once_or_with_the_originals_timer() {
    let (fresh, stale) = (ResponseCache::new(settings()), original());
    let mut scene = scene(&["SHOP", "CART"]);
    for key in [app("SHOP"), vip("shop")] {
        assert!(ask(&fresh, &key, &scene).is_some());
        assert!(ask(&stale, &key, &scene).is_some());
    }
    scene.client(&cancel("SHOP", "1"));
    for key in [app("SHOP"), vip("shop")] {
        assert!(ask(&fresh, &key, &scene).is_none(), "{key:?}");
        assert!(ask(&stale, &key, &scene).is_some(), "{key:?}");
    }
    stale.refresh_read_only(&scene.published());
    assert!(ask(&stale, &app("SHOP"), &scene).is_none());
    scene.register(instance("SHOP", "1"));
    assert!(ask(&fresh, &app("SHOP"), &scene).is_some());
}

#[test]
fn an_unknown_name_is_not_remembered_or_until_the_originals_timer() {
    let (fresh, stale) = (ResponseCache::new(settings()), original());
    let mut scene = scene(&["CART"]);
    for cache in [&fresh, &stale] {
        assert!(ask(cache, &app("SHOP"), &scene).is_none());
    }
    let known = |cache: &ResponseCache| {
        let tier = cache.read_only.as_ref().unwrap();
        !matches!(tier.look(&app("SHOP")), Looked::Unknown)
    };
    assert!(!known(&fresh));
    assert!(known(&stale));
    scene.register(instance("SHOP", "1"));
    assert!(ask(&fresh, &app("SHOP"), &scene).is_some());
    assert!(ask(&stale, &app("SHOP"), &scene).is_none());
    stale.refresh_read_only(&scene.published());
    assert!(ask(&stale, &app("SHOP"), &scene).is_some());
}

#[test]
fn the_timer_drops_names_that_are_gone() {
    let cache = ResponseCache::new(settings());
    let mut scene = scene(&["SHOP"]);
    ask(&cache, &app("SHOP"), &scene);
    scene.client(&cancel("SHOP", "1"));
    cache.refresh_read_only(&scene.published());
    let tier = cache.read_only.as_ref().unwrap();
    assert!(matches!(tier.look(&app("SHOP")), Looked::Unknown));
}

/// The original remembers every name that was ever asked for.
#[test]
fn the_number_of_remembered_names_is_bounded() {
    let cache = original();
    let mut scene = scene(&["CART"]);
    for number in 0..4096 {
        assert!(ask(&cache, &app(&format!("NAME-{number}")), &scene).is_none());
    }
    assert!(ask(&cache, &app("ONE-MORE"), &scene).is_none());
    scene.register(instance("NAME-7", "1"));
    scene.register(instance("ONE-MORE", "1"));
    assert!(ask(&cache, &app("NAME-7"), &scene).is_none(), "remembered");
    assert!(ask(&cache, &app("ONE-MORE"), &scene).is_some(), "not kept");
    assert!(ask(&cache, &app("CART"), &scene).is_some());
}

#[test]
fn a_version_moves_with_its_entity_and_with_no_other() {
    let mut scene = scene(&["SHOP", "CART"]);
    let entities = [
        Entity::All,
        Entity::Delta,
        Entity::App(AppName::new("SHOP")),
        Entity::Vip("shop".into()),
        Entity::App(AppName::new("CART")),
        Entity::Vip("cart".into()),
    ];
    let versions = |scene: &Scene| {
        let state = scene.published();
        entities.clone().map(|entity| Version::of(&entity, &state))
    };
    let before = versions(&scene);
    scene.client(&set("SHOP", "1", Status::Down, None));
    let after = versions(&scene);
    let has_moved: Vec<bool> = before.iter().zip(&after).map(|(b, a)| a > b).collect();
    assert_eq!(has_moved, [true, true, true, true, false, false]);
    assert_eq!(before[4..], after[4..]);

    // A trim changes what the delta shows and nothing else.
    let before = versions(&scene);
    scene.pass(200_000);
    assert!(scene.delta.trim(scene.now.mono, 180_000));
    let after = versions(&scene);
    assert!(after[1] > before[1]);
    assert_eq!(before[0], after[0]);
    assert!(Version::of(&Entity::App(AppName::new("NONE")), &scene.published()).is_none());
    assert!(Version::of(&Entity::SecureVip("shop".into()), &scene.published()).is_none());
}

#[test]
fn a_vips_answer_is_made_anew_exactly_when_its_members_change() {
    let cache = ResponseCache::new(settings());
    let mut scene = scene(&["CART"]);
    let with_vip = |id: &str, dirty: i64, vips: &str| {
        let mut body = version(dirty, instance("SHOP", id));
        body.vip_address = Some(vips.into());
        body
    };
    scene.register(with_vip("1", 100, "a,b"));
    scene.register(with_vip("2", 100, "b"));
    let ask_both = |scene: &Scene| ["a", "b"].map(|address| ask(&cache, &vip(address), scene));
    let members = |payload: &Option<Arc<Payload>>| {
        let document: serde_json::Value =
            serde_json::from_slice(&payload.as_ref().unwrap().to_vec()).unwrap();
        let apps = document["applications"]["application"].as_array().unwrap();
        let all = apps
            .iter()
            .flat_map(|app| app["instance"].as_array().unwrap());
        all.map(|one| one["instanceId"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let first = ask_both(&scene);
    assert_eq!(members(&first[0]), ["1"]);
    assert_eq!(members(&first[1]), ["1", "2"]);

    scene.client(&set("CART", "1", Status::Down, None));
    scene.register(with_vip("3", 100, "c"));
    let unmoved = ask_both(&scene);
    assert!(is_same(&first[0], &unmoved[0]) && is_same(&first[1], &unmoved[1]));

    scene.client(&set("SHOP", "2", Status::Down, None));
    let one_moved = ask_both(&scene);
    assert!(is_same(&first[0], &one_moved[0]));
    assert!(!is_same(&first[1], &one_moved[1]));

    scene.register(with_vip("1", 101, "a"));
    let left = ask_both(&scene);
    assert_eq!(members(&left[0]), ["1"]);
    assert_eq!(members(&left[1]), ["2"], "it left");
}

#[test]
fn an_expired_answer_is_made_anew_though_nothing_changed() {
    let cache = ResponseCache::new(Settings {
        use_read_only: false,
        expire_after: Duration::ZERO,
        ..settings()
    });
    let mut scene = scene(&["SHOP"]);
    for key in [key(Entity::All), app("SHOP"), vip("shop")] {
        let before = ask(&cache, &key, &scene).unwrap();
        scene.pass(30_000);
        scene.renew("SHOP", "1");
        let after = ask(&cache, &key, &scene).unwrap();
        let shown = format!("\"lastRenewalTimestamp\":{}", scene.now.wall);
        assert!(!text(&before).contains(&shown), "{key:?}");
        assert!(text(&after).contains(&shown), "{key:?}");
    }
}

#[test]
fn a_silent_change_is_not_seen_before_something_else_changes() {
    let mut scene = Scene::new(&Rules::eureka());
    scene.register(instance("SHOP", "1"));
    scene.register(instance("SHOP", "2"));
    let cache = ResponseCache::new(settings());
    let before = ask(&cache, &key(Entity::All), &scene);
    scene.peer(&renew("SHOP", "1", Some(101), Some(Status::OutOfService)));
    scene.renew("SHOP", "1");
    assert_eq!(scene.instance("SHOP", "1").status, Status::OutOfService);
    assert!(is_same(&before, &ask(&cache, &key(Entity::All), &scene)));
    scene.client(&cancel("SHOP", "2"));
    let after = ask(&cache, &key(Entity::All), &scene).unwrap();
    assert!(text(&after).contains("\"apps__hashcode\":\"OUT_OF_SERVICE_1_\""));
}

#[test]
fn many_threads_that_miss_share_one_answer() {
    let cache = ResponseCache::new(settings());
    let mut scene = scene(&["SHOP", "CART"]);
    for round in 0..20 {
        scene.register(version(101 + round, instance("SHOP", "1")));
        let state = scene.published();
        let start = std::sync::Barrier::new(8);
        let answers: Vec<Arc<Payload>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        cache.load(&key(Entity::All), &state).unwrap()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        for answer in &answers {
            assert!(Arc::ptr_eq(answer, &answers[0]));
        }
    }
}

/// A thread that still holds an older state gets an answer whose hash code fits what it lists.
#[test]
fn an_answer_never_mixes_fragments_of_two_positions() {
    let cache = ResponseCache::new(settings());
    let mut scene = scene(&["SHOP", "CART"]);
    let old = scene.published();
    scene.client(&set("SHOP", "1", Status::Down, None));
    let mut other_form = key(Entity::All);
    // Another form, so that only the fragments could be shared.
    ask(&cache, &key(Entity::All), &scene);
    cache.read_write.invalidate(&other_form);
    let answer = cache.load(&other_form, &old).unwrap();
    assert!(text(&answer).contains("\"apps__hashcode\":\"UP_2_\""));
    assert!(!text(&answer).contains("\"status\":\"DOWN\""));
    other_form.is_gzip = true;
    assert!(ask(&cache, &other_form, &scene).is_some_and(|p| unzip(&p).contains("DOWN_1_UP_1_")));
}

#[test]
fn a_cache_without_room_still_answers_rightly_and_keeps_its_bound() {
    let small = ResponseCache::new(Settings {
        use_read_only: false,
        max_bytes: 4_000,
        ..settings()
    });
    let large = ResponseCache::new(settings());
    let names: Vec<String> = (0..30).map(|n| format!("APP-{n}")).collect();
    let mut scene = scene(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for round in 0..3 {
        scene.register(version(101 + round, instance("APP-3", "1")));
        for name in &names {
            let key = app(name);
            let answers = [&small, &large].map(|cache| ask(cache, &key, &scene).unwrap());
            assert_eq!(answers[0].to_vec(), answers[1].to_vec());
        }
        let answers = [&small, &large].map(|cache| ask(cache, &key(Entity::All), &scene).unwrap());
        assert_eq!(answers[0].to_vec(), answers[1].to_vec());
        small.run_pending_tasks();
        assert!(small.weighted_size() <= 4_000, "{}", small.weighted_size());
    }
    large.run_pending_tasks();
    assert!(large.weighted_size() > 30 * 500);
}
