//! The description against the routes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;
use crate::http::path::{self, Between, Own, Route};

/// The described path of every route, by an exhaustive match: a new route does not compile before it
/// has one. [`UNDESCRIBED`] is left out on purpose.
macro_rules! described {
    ($($pattern:pat => $path:expr,)*) => {
        fn path_of(route: &Route<'_>) -> &'static str {
            match route { $($pattern => $path,)* }
        }
        const DESCRIBED: &[&str] = &[$($path,)*];
    };
}

const UNDESCRIBED: &str = "";
/// The actuator decides by itself what is below it.
const ACTUATOR: &str = "/actuator";

described! {
    Route::Apps => "/eureka/apps",
    Route::Delta => "/eureka/apps/delta",
    Route::App(_) => "/eureka/apps/{app}",
    Route::Instance { .. } => "/eureka/apps/{app}/{id}",
    Route::InstanceStatus { .. } => "/eureka/apps/{app}/{id}/status",
    Route::InstanceMetadata { .. } => "/eureka/apps/{app}/{id}/metadata",
    Route::InstanceById(_) => "/eureka/instances/{id}",
    Route::Vip(_) => "/eureka/vips/{address}",
    Route::SecureVip(_) => "/eureka/svips/{address}",
    Route::Batch => "/eureka/peerreplication/batch",
    Route::Between(Between::Renewals | Between::Digest | Between::Compare) => UNDESCRIBED,
    Route::AsgStatus => "/eureka/asg/{name}/status",
    Route::ServerStatus => "/eureka/status",
    Route::StatusOverrides => "/eureka/serverinfo/statusoverrides",
    Route::Home => "/",
    Route::LastN => "/lastn",
    Route::Actuator(_) => ACTUATOR,
    Route::Metrics => "/metrics",
    Route::Own(Own::History { app: None, .. }) => "/history",
    Route::Own(Own::History { id: None, .. }) => "/history/apps/{app}",
    Route::Own(Own::History { .. }) => "/history/apps/{app}/{id}",
    Route::Own(Own::Registry) => "/registry",
    Route::Own(Own::RegistryDiff) => "/registry/diff",
    Route::Own(Own::Watch) => "/watch",
    Route::Own(Own::Changes) => "/changes",
    Route::Own(Own::Explain { .. }) => "/explain/apps/{app}/{id}",
    Route::Own(Own::Drain { .. }) => "/drain/apps/{app}/{id}",
    Route::Own(Own::Quarantine { .. }) => "/quarantine/apps/{app}/{id}",
    Route::Own(Own::Overrides) => "/overrides",
    Route::Own(Own::Node) => "/node",
    Route::Own(Own::OpenApi) => "/openapi.json",
    Route::NotFound => UNDESCRIBED,
}

fn rules() -> PathRules {
    PathRules {
        context_path: String::new(),
        is_lenient: true,
        dashboard: Some("/".into()),
        actuator: "/actuator".into(),
        serverinfo: true,
    }
}

fn served(rules: &PathRules) -> Value {
    serde_json::from_slice(&document(rules).unwrap()).unwrap()
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

/// The methods of every described path. OPTIONS is everywhere and HEAD goes with GET, as the
/// description says once.
fn methods() -> BTreeMap<String, BTreeSet<String>> {
    let document = served(&rules());
    let of_item = |item: &Value| {
        let members = object(item).keys().filter(|name| *name != "parameters");
        members.map(|name| name.to_uppercase()).collect()
    };
    object(&document["paths"])
        .iter()
        .map(|(path, item)| (path.clone(), of_item(item)))
        .collect()
}

/// The route of a described path, with some name in every brace.
fn route_of(path: &str) -> Route<'static> {
    let mut filled = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        filled += before;
        filled += "NAME";
        rest = after.split_once('}').expect("a closed brace").1;
    }
    filled += rest;
    path::parse(Box::leak(filled.into_boxed_str()), &rules()).unwrap()
}

#[test]
fn every_route_is_described() {
    let described = methods();
    for path in DESCRIBED.iter().filter(|path| **path != UNDESCRIBED) {
        assert!(described.contains_key(*path), "{path} is not described");
    }
}

#[test]
fn every_described_path_is_a_route_with_exactly_these_methods() {
    for (path, methods) in methods() {
        let route = route_of(&path);
        let expected = path_of(&route);
        if expected == ACTUATOR {
            assert!(path.starts_with(ACTUATOR));
        } else {
            assert_eq!(expected, path, "{route:?}");
        }
        let allowed: BTreeSet<String> = path::allowed(&route)
            .iter()
            .filter(|method| !matches!(**method, "OPTIONS" | "HEAD"))
            .map(|method| (*method).to_owned())
            .collect();
        assert_eq!(methods, allowed, "{path}");
    }
}

#[test]
fn parts_do_not_hide_one_another() {
    let mut seen = BTreeSet::new();
    for part in PARTS {
        let part: Document<'_> = serde_json::from_str(part).unwrap();
        for path in part.paths.into_keys() {
            assert!(seen.insert(path.clone()), "{path} comes twice");
        }
        for (kind, components) in part.components {
            for name in components.into_keys() {
                let name = format!("{kind}/{name}");
                assert!(seen.insert(name.clone()), "{name} comes twice");
            }
        }
    }
}

#[test]
fn references_resolve_and_every_component_is_used() {
    fn visit(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    found.insert(reference.clone());
                }
                members.values().for_each(|value| visit(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| visit(value, found)),
            _ => {}
        }
    }
    let document = served(&rules());
    let mut referred = BTreeSet::new();
    visit(&document, &mut referred);
    for reference in &referred {
        let pointer = reference.strip_prefix('#').expect("a local reference");
        assert!(
            document.pointer(pointer).is_some(),
            "{reference} is nowhere"
        );
    }
    for (kind, components) in object(&document["components"]) {
        for name in object(components).keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(referred.contains(&reference), "{reference} is not used");
        }
    }
}

#[test]
fn every_operation_says_what_it_is_and_how_it_may_end() {
    let document = served(&rules());
    let tags: BTreeSet<&str> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    let mut ids = BTreeSet::new();
    for (path, item) in object(&document["paths"]) {
        for (method, operation) in object(item)
            .iter()
            .filter(|(name, _)| *name != "parameters")
        {
            let at = format!("{method} {path}");
            let id = operation["operationId"].as_str().expect(&at);
            assert!(ids.insert(id), "{at}: {id} comes twice");
            assert!(operation["summary"].is_string(), "{at}");
            for tag in operation["tags"].as_array().expect(&at) {
                assert!(tags.contains(tag.as_str().unwrap()), "{at}: {tag}");
            }
            let responses = object(&operation["responses"]);
            assert!(responses.contains_key("405"), "{at}");
        }
    }
}

#[test]
fn the_kinds_of_changes_are_those_that_there_are() {
    let document = served(&rules());
    let described: BTreeSet<&str> = document["components"]["schemas"]["Kind"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind.as_str().unwrap())
        .collect();
    let there: BTreeSet<&str> = crate::history::entry::WORDS.into();
    assert_eq!(described, there);
}

#[test]
fn what_is_served_is_true_of_the_node() {
    let moved = PathRules {
        context_path: "/ctx".into(),
        is_lenient: false,
        dashboard: Some("/dash".into()),
        actuator: "/manage".into(),
        serverinfo: false,
    };
    let document = served(&moved);
    assert_eq!(document["servers"][0]["url"], "/ctx");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let paths = object(&document["paths"]);
    for there in ["/dash", "/dash/lastn", "/manage/health", "/eureka/apps"] {
        assert!(paths.contains_key(there), "{there}");
    }
    for gone in [
        "/",
        "/lastn",
        "/actuator",
        "/eureka/serverinfo/statusoverrides",
    ] {
        assert!(!paths.contains_key(gone), "{gone}");
    }
    let without = PathRules {
        dashboard: None,
        ..moved
    };
    assert!(!object(&served(&without)["paths"]).contains_key("/dash"));
}
