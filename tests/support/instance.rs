//! Instances as clients send them, and the registry as clients read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::http::{get_json, request};

/// What a client says of one instance.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) app: String,
    pub(crate) id: String,
    pub(crate) status: &'static str,
    pub(crate) dirty: i64,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) interval_secs: u32,
    pub(crate) duration_secs: u32,
}

impl Registration {
    /// An instance whose lease outlives any test.
    pub(crate) fn new(app: &str, id: &str) -> Self {
        Self {
            app: app.to_owned(),
            id: id.to_owned(),
            status: "UP",
            dirty: 1000,
            metadata: BTreeMap::new(),
            interval_secs: 30,
            duration_secs: 86_400,
        }
    }

    /// The instance without its root, as batches hold it.
    pub(crate) fn document(&self) -> Value {
        json!({
            "instanceId": self.id,
            "hostName": "host.example",
            "app": self.app,
            "ipAddr": "192.0.2.10",
            "status": self.status,
            "overriddenStatus": "UNKNOWN",
            "port": { "$": 8080, "@enabled": "true" },
            "securePort": { "$": 443, "@enabled": "false" },
            "countryId": 1,
            "dataCenterInfo": {
                "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo",
                "name": "MyOwn",
            },
            "leaseInfo": {
                "renewalIntervalInSecs": self.interval_secs,
                "durationInSecs": self.duration_secs,
            },
            "metadata": self.metadata,
            "vipAddress": self.app.to_lowercase(),
            "lastUpdatedTimestamp": self.dirty.to_string(),
            "lastDirtyTimestamp": self.dirty.to_string(),
        })
    }

    /// The body of a registration.
    pub(crate) fn body(&self) -> Vec<u8> {
        json!({ "instance": self.document() })
            .to_string()
            .into_bytes()
    }

    /// The request that registers it.
    pub(crate) fn register(&self) -> Vec<u8> {
        request(
            "POST",
            &format!("/eureka/apps/{}", self.app),
            &["Accept: application/json"],
            &self.body(),
        )
    }

    /// The request that renews its lease, as the Java client sends it.
    pub(crate) fn renew(&self) -> Vec<u8> {
        let target = format!(
            "/eureka/apps/{}/{}?status={}&lastDirtyTimestamp={}",
            self.app, self.id, self.status, self.dirty
        );
        request("PUT", &target, &[], b"")
    }
}

/// One instance as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) status: String,
    pub(crate) overridden: String,
    pub(crate) dirty: i64,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) action: String,
}

/// A list of applications.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) version: u64,
    pub(crate) hash: String,
    /// Applications with their instances, in the order of the list.
    pub(crate) apps: Vec<(String, Vec<(String, Listed)>)>,
}

impl Listing {
    /// Reads the list at `target`.
    pub(crate) fn fetch(port: u16, target: &str) -> Self {
        Self::parse(&get_json(port, target))
    }

    /// The whole registry.
    pub(crate) fn of(port: u16) -> Self {
        Self::fetch(port, "/eureka/apps")
    }

    pub(crate) fn parse(document: &Value) -> Self {
        let root = &document["applications"];
        let list = |value: &Value| value.as_array().cloned().expect("a list");
        let apps = list(&root["application"])
            .iter()
            .map(|app| {
                let instances = list(&app["instance"]).iter().map(listed).collect();
                (text(&app["name"]), instances)
            })
            .collect();
        Self {
            version: text(&root["versions__delta"]).parse().expect("a version"),
            hash: text(&root["apps__hashcode"]),
            apps,
        }
    }

    /// Every instance by its application and id; none may be listed twice.
    pub(crate) fn instances(&self) -> BTreeMap<(String, String), Listed> {
        let mut all = BTreeMap::new();
        for (app, instances) in &self.apps {
            for (id, listed) in instances {
                let key = (app.clone(), id.clone());
                let before = all.insert(key, listed.clone());
                assert!(before.is_none(), "{app}/{id} is listed twice");
            }
        }
        all
    }
}

fn listed(instance: &Value) -> (String, Listed) {
    let metadata = instance["metadata"]
        .as_object()
        .expect("metadata")
        .iter()
        .filter(|(key, _)| *key != "@class")
        .map(|(key, value)| (key.clone(), text(value)))
        .collect();
    let listed = Listed {
        status: text(&instance["status"]),
        overridden: text(&instance["overriddenStatus"]),
        dirty: text(&instance["lastDirtyTimestamp"])
            .parse()
            .expect("a dirty timestamp"),
        metadata,
        action: text(&instance["actionType"]),
    };
    (text(&instance["instanceId"]), listed)
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The hash code of a registry with instances in these states.
pub(crate) fn hash_code<'a>(statuses: impl IntoIterator<Item = &'a str>) -> String {
    let mut counts = BTreeMap::new();
    for status in statuses {
        *counts.entry(status).or_insert(0_u64) += 1;
    }
    let mut hash = String::new();
    for (status, count) in counts {
        let _ = write!(hash, "{status}_{count}_");
    }
    hash
}
