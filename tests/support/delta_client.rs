//! The Java client's way with deltas (`DiscoveryClient.updateDelta`), its quirk included: of an
//! application that it does not know it takes over the whole object that the delta brings.

use std::collections::BTreeMap;

use super::instance::{Listed, Listing, hash_code};

type Instances = BTreeMap<String, Listed>;

/// A client's copy of the registry.
#[derive(Clone, Debug)]
pub(crate) struct DeltaClient {
    apps: BTreeMap<String, Instances>,
}

impl DeltaClient {
    /// After a full fetch.
    pub(crate) fn new(full: &Listing) -> Self {
        let mut client = Self {
            apps: BTreeMap::new(),
        };
        for (app, instances) in &full.apps {
            client
                .apps
                .insert(app.clone(), instances.iter().cloned().collect());
        }
        client
    }

    pub(crate) fn apply(&mut self, delta: &Listing) {
        for (app, instances) in &delta.apps {
            for (id, listed) in instances {
                match listed.action.as_str() {
                    "ADDED" | "MODIFIED" => {
                        self.apps
                            .entry(app.clone())
                            .or_insert_with(|| instances.iter().cloned().collect())
                            .insert(id.clone(), listed.clone());
                    }
                    "DELETED" => {
                        if let Some(known) = self.apps.get_mut(app) {
                            known.remove(id);
                            if known.is_empty() {
                                self.apps.remove(app);
                            }
                        }
                    }
                    other => panic!("{app}/{id} has the action {other:?}"),
                }
            }
        }
    }

    /// The hash code of the copy.
    pub(crate) fn hash(&self) -> String {
        let statuses = self.apps.values().flat_map(Instances::values);
        hash_code(statuses.map(|listed| listed.status.as_str()))
    }
}
