//! `GET /openapi.json`: the whole of the HTTP interface, described for people and generators.
//!
//! The description is written by hand, in the files beside this one, because most of what matters of
//! an interface that others defined (what is accepted, what an empty answer means) is in no type of
//! ours. Tests hold it: every route of `path.rs` with its methods is in it and nothing else, and a
//! generator of requests (`tests/api`) finds no answer of a running server that is not described.
//!
//! What is served is true of the node that serves it: its version, its context path, the places of
//! its pages. Order within a path or a schema is that of the files.

use std::collections::BTreeMap;

use bytes::Bytes;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::problem::Problem;
use super::{Answered, Parameters};
use crate::http::path::PathRules;
use crate::http::{Api, Head, answer};

/// The description, by subject.
const PARTS: [&str; 12] = [
    include_str!("info.json"),
    include_str!("registry.json"),
    include_str!("history.json"),
    include_str!("changes.json"),
    include_str!("operations.json"),
    include_str!("node.json"),
    include_str!("parts.json"),
    include_str!("own-parts.json"),
    include_str!("own-schemas.json"),
    include_str!("instance.json"),
    include_str!("xml.json"),
    include_str!("examples.json"),
];

/// A part, or all of them together. What is not looked into stays as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Document<'p> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    openapi: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    info: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    servers: Option<Value>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    tags: Option<&'p RawValue>,
    #[serde(borrow, default)]
    paths: BTreeMap<String, &'p RawValue>,
    #[serde(borrow, default)]
    components: BTreeMap<String, BTreeMap<String, &'p RawValue>>,
}

impl Document<'static> {
    /// All parts as one.
    fn whole() -> serde_json::Result<Self> {
        let mut whole = Self::default();
        for part in PARTS {
            let part: Self = serde_json::from_str(part)?;
            whole.openapi = whole.openapi.or(part.openapi);
            whole.tags = whole.tags.or(part.tags);
            whole.info.extend(part.info);
            whole.paths.extend(part.paths);
            for (kind, components) in part.components {
                whole.components.entry(kind).or_default().extend(components);
            }
        }
        Ok(whole)
    }

    /// As it is true of a node with these rules.
    fn of_node(mut self, rules: &PathRules) -> Self {
        self.info
            .insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        let url = match rules.context_path.as_str() {
            "" => "/",
            context_path => context_path,
        };
        self.servers = Some(json!([{ "url": url, "description": "This node." }]));
        self.paths = self
            .paths
            .into_iter()
            .filter_map(|(path, item)| Some((place(&path, rules)?, item)))
            .collect();
        self
    }
}

/// Where a described path is on a node with these rules; `None` if it is not there at all.
fn place(path: &str, rules: &PathRules) -> Option<String> {
    if let Some(below) = path.strip_prefix("/actuator") {
        return Some(format!("{}{below}", rules.actuator));
    }
    match path {
        "/" => rules.dashboard.clone(),
        "/lastn" => {
            let dashboard = rules.dashboard.as_deref()?;
            Some(format!("{}{path}", dashboard.trim_end_matches('/')))
        }
        "/eureka/serverinfo/statusoverrides" if !rules.serverinfo => None,
        _ => Some(path.to_owned()),
    }
}

/// The document of a node with these rules.
fn document(rules: &PathRules) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Document::whole()?.of_node(rules))
}

impl Api {
    pub(super) fn openapi(&self, head: &Head<'_>) -> Answered {
        Parameters::of(head).each(&[], |_, _| Ok(false))?;
        let body = if let Some(body) = self.openapi.get() {
            body.clone()
        } else {
            let made = document(&self.paths)
                .map_err(|error| Problem::internal(format!("the description: {error}")))?;
            self.openapi.get_or_init(|| Bytes::from(made)).clone()
        };
        Ok(answer::with_body(StatusCode::OK, "application/json", body))
    }
}

#[cfg(test)]
mod tests;
