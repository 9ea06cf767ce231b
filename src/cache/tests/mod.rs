//! The two-tier cache: what is fresh, what is shared, what is remembered, and that every form of an
//! answer says the same.

mod client;
mod delta;
mod forms;
mod tiers;

use std::io::Read as _;

use super::*;
use crate::registry::rules::Rules;
use crate::registry::tests::{Scene, instance};

fn settings() -> Settings {
    Settings {
        use_read_only: true,
        early_refresh: true,
        expire_after: Duration::from_mins(3),
        max_bytes: 64 << 20,
        own_instance_id: "own".into(),
    }
}

/// As the original: the read-only tier is stale until its timer comes.
fn original() -> ResponseCache {
    ResponseCache::new(Settings {
        early_refresh: false,
        ..settings()
    })
}

fn key(entity: Entity) -> Key {
    Key {
        entity,
        format: Format::Json,
        detail: Detail::Full,
        is_gzip: false,
    }
}

fn app(name: &str) -> Key {
    key(Entity::App(AppName::new(name)))
}

fn vip(address: &str) -> Key {
    key(Entity::Vip(address.into()))
}

/// A scene with one instance in each of the applications.
fn scene(apps: &[&str]) -> Scene {
    let mut scene = Scene::new(&Rules::default());
    for app in apps {
        scene.register(instance(app, "1"));
    }
    scene
}

/// What a request gets.
fn ask(cache: &ResponseCache, key: &Key, scene: &Scene) -> Option<Arc<Payload>> {
    let state = scene.published();
    match cache.peek(key, &state) {
        Some(at_hand) => at_hand,
        None => cache.load(key, &state),
    }
}

fn text(payload: &Payload) -> String {
    String::from_utf8(payload.to_vec()).unwrap()
}

fn unzip(payload: &Payload) -> String {
    let bytes = payload.to_vec();
    let mut plain = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&bytes[..]);
    decoder.read_to_string(&mut plain).unwrap();
    plain
}
