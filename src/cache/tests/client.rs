//! The Java client's copy of the registry, with its algorithm (`protocol.md` 4.5): one full fetch,
//! then deltas, and its own hash code over what it has.

use std::collections::BTreeMap;

use serde_json::Value;

/// An application object as the client holds it. It may come from a list or, whole, from a delta.
#[derive(Clone, Debug)]
struct Held {
    name: String,
    instances: Vec<Value>,
}

impl Held {
    fn from_document(app: &Value) -> Self {
        Self {
            name: app["name"].as_str().unwrap().to_owned(),
            instances: app["instance"].as_array().unwrap().clone(),
        }
    }

    /// `Application.addInstance`: replaces by id, at the end.
    fn put(&mut self, instance: &Value) {
        self.remove(instance);
        self.instances.push(instance.clone());
    }

    /// `Application.removeInstance`.
    fn remove(&mut self, instance: &Value) {
        self.instances
            .retain(|held| held["instanceId"] != instance["instanceId"]);
    }
}

/// A client.
#[derive(Clone, Debug, Default)]
pub(super) struct JavaClient {
    apps: Vec<Held>,
}

impl JavaClient {
    pub(super) fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }

    /// `getAndStoreFullRegistry`.
    pub(super) fn store(&mut self, document: &Value) {
        let apps = document["applications"]["application"].as_array().unwrap();
        self.apps = apps.iter().map(Held::from_document).collect();
    }

    /// `updateDelta`: an unknown application is taken over as the object that the delta has, with
    /// everything in it; then its instances are put or removed one by one.
    pub(super) fn apply(&mut self, delta: &Value) {
        for app in delta["applications"]["application"].as_array().unwrap() {
            for instance in app["instance"].as_array().unwrap() {
                let name = instance["app"].as_str().unwrap();
                let known = self.apps.iter().position(|held| held.name == name);
                match instance["actionType"].as_str().unwrap() {
                    "ADDED" | "MODIFIED" => {
                        let place = known.unwrap_or_else(|| {
                            self.apps.push(Held::from_document(app));
                            self.apps.len() - 1
                        });
                        self.apps[place].put(instance);
                    }
                    "DELETED" => {
                        if let Some(place) = known {
                            self.apps[place].remove(instance);
                            if self.apps[place].instances.is_empty() {
                                self.apps.remove(place);
                            }
                        }
                    }
                    other => panic!("no action type {other}"),
                }
            }
        }
    }

    /// `getReconcileHashCode`.
    pub(super) fn hash_code(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for instance in self.apps.iter().flat_map(|app| &app.instances) {
            *counts
                .entry(instance["status"].as_str().unwrap())
                .or_default() += 1;
        }
        let parts = counts
            .iter()
            .map(|(status, count)| format!("{status}_{count}_"));
        parts.collect()
    }

    /// What it holds, without the renewal times, which move without a change.
    pub(super) fn held(&self) -> BTreeMap<(String, String), Value> {
        let mut held = BTreeMap::new();
        for app in &self.apps {
            assert!(!app.instances.is_empty(), "{} is empty", app.name);
            for instance in &app.instances {
                let id = instance["instanceId"].as_str().unwrap().to_owned();
                let twice = held.insert((app.name.clone(), id), settled(instance));
                assert!(twice.is_none(), "an instance is held once");
            }
        }
        held
    }
}

/// An instance without its renewal time.
pub(super) fn settled(instance: &Value) -> Value {
    let mut instance = instance.clone();
    instance["leaseInfo"]["lastRenewalTimestamp"] = Value::Null;
    instance
}
