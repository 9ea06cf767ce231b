//! `protocol.md` 5: lease arithmetic, expected renewals, self-preservation, hash code, cancel.

use super::*;
use crate::registry::self_preservation::{RenewalMeter, Settings, threshold};

const SETTINGS: Settings = Settings {
    enabled: true,
    renewal_percent_threshold: 0.85,
    expected_client_renewal_interval_secs: 30,
    max_protection_ms: 0,
};

#[test]
fn a_lease_that_was_never_renewed_lives_one_duration() {
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.pass(90_000);
        assert!(
            !scene.lease("SHOP", "1").is_expired(scene.now.mono, 0),
            "{name}"
        );
        scene.pass(1);
        assert!(
            scene.lease("SHOP", "1").is_expired(scene.now.mono, 0),
            "{name}"
        );
        assert!(
            !scene.lease("SHOP", "1").is_expired(scene.now.mono, 1),
            "{name}"
        );
    }
}

#[test]
fn a_renewed_lease_lives_one_duration_or_two_as_the_original() {
    for ((name, rules), lives) in both().into_iter().zip([90_000, 180_000]) {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.pass(10_000);
        scene.renew("SHOP", "1");
        let shown = START + 10_000 + (lives - 90_000);
        assert_eq!(
            scene.lease("SHOP", "1").clock.renewed_wall(),
            Millis(shown),
            "{name}"
        );
        assert_eq!(scene.lease("SHOP", "1").remaining_ms(scene.now.mono), lives);
        scene.pass(lives);
        assert!(
            !scene.lease("SHOP", "1").is_expired(scene.now.mono, 0),
            "{name}"
        );
        scene.pass(1);
        assert!(
            scene.lease("SHOP", "1").is_expired(scene.now.mono, 0),
            "{name}"
        );
        // Registering again starts a single duration in both.
        scene.register(instance("SHOP", "1"));
        scene.pass(90_001);
        assert!(
            scene.lease("SHOP", "1").is_expired(scene.now.mono, 0),
            "{name}"
        );
    }
}

#[test]
fn durations_are_counted_in_64_bits_and_default_to_90_seconds() {
    for (secs, ms) in [
        (i32::MAX, 2_147_483_647_000),
        (2_147_484, 2_147_484_000),
        (1, 1_000),
        (0, 90_000),
        (-5, 90_000),
    ] {
        let mut scene = Scene::new(&Rules::eureka());
        let mut body = instance("SHOP", "1");
        body.lease.duration_secs = secs;
        scene.register(body);
        assert_eq!(scene.lease("SHOP", "1").image.duration_ms, ms, "{secs} s");
        scene.renew("SHOP", "1");
        assert!(!scene.lease("SHOP", "1").is_expired(scene.now.mono, 0));
    }
}

#[test]
fn a_step_of_the_wall_clock_neither_expires_nor_prolongs() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    scene.now.wall = Millis(START + 365 * 24 * 3_600_000);
    assert!(!scene.lease("SHOP", "1").is_expired(scene.now.mono, 0));
    scene.now.wall = Millis(1);
    scene.pass(90_001);
    assert!(scene.lease("SHOP", "1").is_expired(scene.now.mono, 0));
}

#[test]
fn a_change_that_is_no_registration_leaves_the_lease_running() {
    let commands = [
        set("SHOP", "1", Status::Down, None),
        put_metadata("SHOP", "1", &[("a", "b")]),
        lift("SHOP", "1", None, None),
    ];
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    let clock = scene.lease("SHOP", "1").clock.clone();
    for command in commands {
        scene.client(&command);
        assert!(Arc::ptr_eq(&clock, &scene.lease("SHOP", "1").clock));
        assert_eq!(scene.lease("SHOP", "1").image.registered_at, Millis(START));
    }
    scene.register(instance("SHOP", "1"));
    assert!(!Arc::ptr_eq(&clock, &scene.lease("SHOP", "1").clock));
}

#[test]
fn expected_renewals_are_the_sum_over_the_leases_each_by_its_own_interval() {
    let mut scene = Scene::new(&Rules::default());
    for (id, interval) in [("1", 30), ("2", 10), ("3", 60), ("4", 0)] {
        let mut body = instance("SHOP", id);
        body.lease.renewal_interval_secs = interval;
        scene.register(body);
    }
    // A zero interval cannot come from a decoder; it counts as one second.
    assert!((scene.registry.expected_renewals_per_minute() - 69.0).abs() < 1e-9);
    assert_eq!(threshold(&scene.registry, &SETTINGS, 5), 58, "no phantoms");
    scene.client(&cancel("SHOP", "4"));
    let mut slower = version(101, instance("SHOP", "2"));
    slower.lease.renewal_interval_secs = 60;
    scene.register(slower);
    assert!((scene.registry.expected_renewals_per_minute() - 4.0).abs() < 1e-9);
}

/// The numbers that the original's own tests pin down (`protocol.md` 10.3).
#[test]
fn with_fifty_clients_and_a_phantom_five_silent_ones_go_and_then_protection_is_back() {
    let mut scene = Scene::new(&Rules::eureka());
    let meter = RenewalMeter::new(1);
    for id in 0..50 {
        scene.register(instance("SHOP", &id.to_string()));
    }
    let limit = threshold(&scene.registry, &SETTINGS, meter.phantom_clients());
    assert_eq!(limit, 86);
    let tick = |scene: &mut Scene, renewing: u64| {
        for id in (0..renewing).chain(0..renewing) {
            assert_eq!(scene.renew("SHOP", &id.to_string()), Said::Done);
            meter.count();
        }
        meter.roll();
        scene.expiration_enabled =
            meter.expiration_enabled(&scene.registry, &SETTINGS, scene.now.mono);
    };
    scene.pass(100_000);
    tick(&mut scene, 43);
    assert!(!scene.expiration_enabled, "86 is not above 86");
    assert_eq!(scene.evict(0.85, 1), Said::Evicted(0, 0));
    tick(&mut scene, 45);
    assert!(scene.expiration_enabled, "90 is above 86");
    assert_eq!(scene.evict(0.85, 1), Said::Evicted(5, 5));
    assert_eq!(scene.registry.len(), 45);

    for id in 45..151 {
        scene.register(instance("SHOP", &id.to_string()));
    }
    meter.update_threshold(&scene.registry, &SETTINGS);
    assert_eq!(meter.phantom_clients(), 0);
    let limit = threshold(&scene.registry, &SETTINGS, meter.phantom_clients());
    assert_eq!(limit, 256);
    assert!(!meter.expiration_enabled(&scene.registry, &SETTINGS, scene.now.mono));
}

#[test]
fn protection_that_ends_lets_leases_expire_and_begins_again_later() {
    let settings = Settings {
        max_protection_ms: 60_000,
        ..SETTINGS
    };
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "1"));
    let meter = RenewalMeter::new(0);
    let enabled =
        |scene: &Scene| meter.expiration_enabled(&scene.registry, &settings, scene.now.mono);
    assert!(!enabled(&scene));
    scene.pass(60_000);
    assert!(!enabled(&scene));
    scene.pass(1);
    assert!(enabled(&scene));
    // Renewals come back: healthy, and the time under protection starts from zero.
    for _ in 0..2 {
        meter.count();
    }
    meter.roll();
    assert!(enabled(&scene));
    meter.roll();
    assert!(!enabled(&scene));
}

#[test]
fn the_hash_code_counts_by_status_in_the_order_of_their_names() {
    use Status::{Down, OutOfService, Starting, Unknown, Up};
    let mut scene = Scene::new(&Rules::default());
    assert_eq!(scene.registry.hash_code(), "");
    for (place, status) in [Up, Down, Up, Starting, Unknown, OutOfService]
        .into_iter()
        .enumerate()
    {
        let app = if place % 2 == 0 { "SHOP" } else { "CART" };
        scene.register(saying(status, instance(app, &place.to_string())));
    }
    assert_eq!(
        scene.registry.hash_code(),
        "DOWN_1_OUT_OF_SERVICE_1_STARTING_1_UNKNOWN_1_UP_2_"
    );
    scene.client(&cancel("SHOP", "0"));
    scene.client(&cancel("CART", "1"));
    assert_eq!(
        scene.registry.hash_code(),
        "OUT_OF_SERVICE_1_STARTING_1_UNKNOWN_1_UP_1_"
    );
}

#[test]
fn a_cancelled_lease_is_gone_and_told_as_deleted() {
    use crate::registry::instance::ActionType;
    for (name, rules) in both() {
        let mut scene = Scene::new(&rules);
        scene.register(instance("SHOP", "1"));
        scene.client(&set("SHOP", "1", Status::OutOfService, None));
        scene.pass(1_000);
        // Expired or not.
        scene.pass(500_000);
        assert_eq!(scene.client(&cancel("SHOP", "1")), Said::Done, "{name}");
        assert!(!scene.has("SHOP", "1"));
        assert!(scene.registry.is_empty(), "an application without leases");
        assert_eq!(scene.override_of("SHOP", "1"), None);
        let image = scene
            .last()
            .change
            .lease
            .clone()
            .expect("as it was removed");
        assert_eq!(image.evicted_at, Millis(START + 501_000));
        assert_eq!(image.instance.action_type, Some(ActionType::Deleted));
        assert_eq!(image.instance.status, Status::OutOfService);
        assert_eq!(
            image.instance.last_updated_timestamp,
            shown(START + 501_000)
        );
        assert_eq!(scene.client(&cancel("SHOP", "1")), Said::NotFound);
        assert_eq!(scene.delta.told_len(), 3);
    }
}

#[test]
fn an_instance_is_found_by_id_in_any_application() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(instance("SHOP", "x"));
    scene.register(instance("CART", "x"));
    scene.register(instance("SHOP", "y"));
    let app_of = |id: &str| {
        let lease = scene.registry.lease_by_id(id);
        lease.map(|lease| lease.instance().app.to_string())
    };
    assert_eq!(app_of("x").as_deref(), Some("CART"));
    assert_eq!(app_of("y").as_deref(), Some("SHOP"));
    assert_eq!(app_of("z"), None);
    assert_eq!(app_of("X"), None, "ids are case-sensitive");
}
