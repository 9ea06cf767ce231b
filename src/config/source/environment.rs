//! Environment variables as properties. A variable has lost its dots and dashes, so the table of
//! known keys says which property it means.

use std::ffi::OsString;

use crate::config::keys;
use crate::config::property::{Origin, Property};

/// What the environment brought.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// Every variable that is text, for `${NAME}`.
    pub(crate) variables: Vec<(String, String)>,
    /// Those that are properties.
    pub(crate) properties: Vec<Property>,
    /// `SPRING_APPLICATION_JSON`, flattened; it comes before the variables.
    pub(crate) json: Vec<Property>,
    /// Variables that look meant for this server, and are not known.
    pub(crate) unknown: Vec<String>,
    /// Why `SPRING_APPLICATION_JSON` could not be read.
    pub(crate) json_error: Option<String>,
}

/// Sorts the variables. Those that are not valid text are left out.
pub(crate) fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> Environment {
    let mut found = Environment::default();
    for (name, value) in variables {
        let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else {
            continue;
        };
        if is_service_address(&name, &value) {
            continue;
        }
        let origin = || Origin::Environment(name.clone());
        if name == "SPRING_APPLICATION_JSON" {
            match serde_json::from_str(&value) {
                Ok(json) => flatten("", &json, &origin(), &mut found.json),
                Err(error) => found.json_error = Some(error.to_string()),
            }
        } else if name.contains('.') {
            // Containers allow names as they are in the files.
            let property = Property {
                name: name.clone(),
                value: value.clone(),
                origin: origin(),
            };
            found.properties.push(property);
        } else if let Some(key) = keys::of_variable(&name) {
            let property = Property {
                name: key,
                value: value.clone(),
                origin: origin(),
            };
            found.properties.push(property);
        } else if looks_meant(&name) {
            found.unknown.push(name.clone());
        }
        found.variables.push((name, value));
    }
    found
}

/// `SERVER_PORT=tcp://10.0.0.1:80`: what Kubernetes sets for a service called `server`.
fn is_service_address(name: &str, value: &str) -> bool {
    name.ends_with("_PORT") && (value.starts_with("tcp://") || value.starts_with("udp://"))
}

/// Variables for the commands that ask a node ([`crate::cli`]).
const OF_CLIENT_COMMANDS: [&str; 3] = ["EUREKAD_SERVER", "EUREKAD_USER", "EUREKAD_PASSWORD"];

/// What the variables of Spring's keys begin with.
const SPRING: [&str; 4] = ["SERVER_", "SPRING_", "LOGGING_", "MANAGEMENT_"];

/// `EUREKA_...`, `EUREKAD_...`, and what is nearly a variable of one of Spring's keys that are read
/// here; except what is for other commands and what Kubernetes sets for a service of such a name.
fn looks_meant(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if OF_CLIENT_COMMANDS.contains(&upper.as_str()) {
        return false;
    }
    let is_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| upper.starts_with(prefix));
    let meant = is_of(&["EUREKA_", "EUREKAD_"])
        || is_of(&SPRING) && keys::slip_of_variable(&upper).is_some();
    let of_a_service = upper.ends_with("_SERVICE_HOST")
        || upper.contains("_SERVICE_PORT")
        || upper.ends_with("_PORT")
        || upper.contains("_TCP")
        || upper.contains("_UDP");
    meant && !of_a_service
}

fn flatten(name: &str, json: &serde_json::Value, origin: &Origin, out: &mut Vec<Property>) {
    use serde_json::Value;
    let value = match json {
        Value::Object(entries) => {
            for (key, value) in entries {
                let below = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
                flatten(&below, value, origin, out);
            }
            return;
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{name}[{index}]"), item, origin, out);
            }
            return;
        }
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => json.to_string(),
    };
    out.push(Property {
        name: name.to_owned(),
        value,
        origin: origin.clone(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        read(
            variables
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        )
    }

    #[test]
    fn variables_find_their_keys_with_or_without_underscores() {
        for name in [
            "EUREKA_SERVER_ENABLESELFPRESERVATION",
            "EUREKA_SERVER_ENABLE_SELF_PRESERVATION",
            "eureka_server_enableSelfPreservation",
        ] {
            let found = environment(&[(name, "false")]);
            assert_eq!(
                found.properties[0].name,
                "eureka.server.enable-self-preservation"
            );
        }
        let found = environment(&[("EUREKA_CLIENT_SERVICEURL_DEFAULTZONE", "x")]);
        assert_eq!(
            found.properties[0].name,
            "eureka.client.service-url.defaultZone"
        );
        let found = environment(&[("EUREKA_CLIENT_SERVICEURL_ZONE2", "x")]);
        assert_eq!(found.properties[0].name, "eureka.client.service-url.zone2");
        let found = environment(&[("LOGGING_LEVEL_COM_NETFLIX", "warn")]);
        assert_eq!(found.properties[0].name, "logging.level.com.netflix");
    }

    #[test]
    fn what_kubernetes_sets_for_a_service_is_not_taken_for_a_setting() {
        let found = environment(&[
            ("EUREKA_PORT", "tcp://10.0.0.1:8761"),
            ("SERVER_PORT", "tcp://10.0.0.2:80"),
            ("EUREKA_SERVICE_HOST", "10.0.0.1"),
            ("EUREKA_PORT_8761_TCP_ADDR", "10.0.0.1"),
            ("SERVER_SERVICE_PORT", "80"),
            ("SERVER_PORT_80_TCP_PORT", "80"),
            ("SERVER_SOFTWARE", "other"),
            ("EUREKAD_DURABILTY", "sync"),
            ("SPRING_PROFILE_ACTIVE", "prod"),
        ]);
        assert_eq!(
            found.unknown,
            ["EUREKAD_DURABILTY", "SPRING_PROFILE_ACTIVE"]
        );
        assert!(found.properties.is_empty());
    }

    #[test]
    fn the_json_variable_is_flattened() {
        let found = environment(&[(
            "SPRING_APPLICATION_JSON",
            r#"{"server":{"port":9},"a.b":[true,null]}"#,
        )]);
        let names: Vec<&str> = found.json.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["a.b[0]", "a.b[1]", "server.port"]);
        assert!(
            environment(&[("SPRING_APPLICATION_JSON", "{")])
                .json_error
                .is_some()
        );
    }
}
