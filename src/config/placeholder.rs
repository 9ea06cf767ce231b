//! `${name:default}` in values: other properties first, then environment variables, then what
//! Spring Cloud and this server know without being told.

use super::machine::Machine;
use super::property::Properties;

/// Longer results come from placeholders that double themselves.
const RESULT_BYTES_MAX: usize = 64 << 10;
const DEPTH_MAX: usize = 32;

/// Where placeholders look.
#[derive(Debug)]
pub(crate) struct Lookup<'a> {
    pub(crate) properties: &'a Properties,
    pub(crate) variables: &'a [(String, String)],
    pub(crate) machine: &'a Machine,
}

impl Lookup<'_> {
    /// The text with all placeholders replaced, or why that cannot be done.
    pub(crate) fn resolve(&self, text: &str) -> Result<String, String> {
        self.resolve_at(text, 0)
    }

    fn resolve_at(&self, text: &str, depth: usize) -> Result<String, String> {
        if depth > DEPTH_MAX {
            return Err("placeholders lead in a circle".to_owned());
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            out.push_str(before);
            let Some(end) = closing(from) else {
                // Without an end it is plain text, as in Spring.
                out.push_str(from);
                return Ok(out);
            };
            let inner = from.get(2..end).unwrap_or_default();
            out.push_str(&self.one(inner, depth)?);
            rest = from.get(end + 1..).unwrap_or_default();
            if out.len() > RESULT_BYTES_MAX {
                return Err(format!(
                    "placeholders give more than {RESULT_BYTES_MAX} bytes"
                ));
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The value of what stands between the braces.
    fn one(&self, inner: &str, depth: usize) -> Result<String, String> {
        let inner = self.resolve_at(inner, depth + 1)?;
        // The whole may be a name with a colon in it; else the colon begins the default.
        if let Some(value) = self.value(&inner) {
            return self.resolve_at(&value, depth + 1);
        }
        match inner.split_once(':') {
            Some((name, default)) => match self.value(name) {
                Some(value) => self.resolve_at(&value, depth + 1),
                None => Ok(default.to_owned()),
            },
            None => Err(format!("${{{inner}}} is set nowhere and has no default")),
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        let name = name.trim();
        if let Some(property) = self.properties.get(name) {
            return Some(property.value.clone());
        }
        let in_environment = |wanted: &str| {
            self.variables
                .iter()
                .find(|(variable, _)| variable == wanted)
                .map(|(_, v)| v.clone())
        };
        in_environment(name)
            .or_else(|| in_environment(&name.replace(['.', '-'], "_").to_uppercase()))
            .or_else(|| in_environment(&name.replace('.', "_").replace('-', "").to_uppercase()))
            .or_else(|| self.built_in(name))
    }

    fn built_in(&self, name: &str) -> Option<String> {
        let machine = self.machine;
        match name {
            "spring.cloud.client.hostname" | "eureka.instance.hostname" => {
                Some(machine.host_name.clone())
            }
            "spring.cloud.client.ip-address" => Some(machine.ip_address.clone()),
            "server.port" => Some(super::ServerConfig::default().port.to_string()),
            "random.value" => Some(format!("{:016x}{:016x}", self.random(1), self.random(2))),
            "random.uuid" => {
                let (high, low) = (self.random(1), self.random(2));
                Some(format!(
                    "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
                    high >> 32,
                    (high >> 16) & 0xffff,
                    high & 0xfff,
                    (low >> 48) & 0x3fff | 0x8000,
                    low & 0xffff_ffff_ffff
                ))
            }
            "random.int" => Some((self.random(3) >> 33).to_string()),
            "random.long" => Some((self.random(4) >> 1).to_string()),
            _ => None,
        }
    }

    /// The n-th number after the seed (splitmix64): unlike in Spring, the same for one process.
    fn random(&self, n: u64) -> u64 {
        let mut z = self
            .machine
            .seed
            .wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Where the brace that a text begins with (`${`) is closed, counting those in between.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"${") => {
                depth += 1;
                at += 2;
                continue;
            }
            _ if bytes.get(at) == Some(&b'}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::property::{Origin, Property};

    fn resolve(properties: &[(&str, &str)], text: &str) -> Result<String, String> {
        let layer = properties.iter().map(|(name, value)| Property {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            origin: Origin::CommandLine,
        });
        let mut all = Properties::default();
        all.overlay(layer.collect());
        let machine = Machine {
            host_name: "node-1".into(),
            ip_address: "192.0.2.7".into(),
            seed: 1,
        };
        let variables = [("HOME_PORT".to_owned(), "7".to_owned())];
        Lookup {
            properties: &all,
            variables: &variables,
            machine: &machine,
        }
        .resolve(text)
    }

    #[test]
    fn placeholders_find_properties_variables_defaults_and_the_machine() {
        let known = [("a.b-c", "1"), ("d", "<${a.bC}>"), ("which", "a.b-c")];
        for (text, expected) in [
            ("x${a.b-c}y", "x1y"),
            ("${d}${d}", "<1><1>"),
            ("${HOME_PORT}", "7"),
            ("${home.port}", "7"),
            ("${missing:5}", "5"),
            ("${missing:}", ""),
            ("${missing:${also:${a.b-c}}}", "1"),
            ("${missing:http://x:1}", "http://x:1"),
            ("${${which}}", "1"),
            ("${spring.cloud.client.hostname}", "node-1"),
            ("cost $5 {a}", "cost $5 {a}"),
            ("${open", "${open"),
        ] {
            assert_eq!(resolve(&known, text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn circles_bombs_and_the_unknown_are_errors() {
        assert!(resolve(&[("a", "${b}"), ("b", "${a}")], "${a}").is_err());
        assert!(
            resolve(&[], "${nothing}")
                .unwrap_err()
                .contains("${nothing}")
        );
        let names: Vec<String> = (0..25).map(|n| format!("p{n}")).collect();
        let values: Vec<String> = (0..25)
            .map(|n| format!("${{p{}}}", n + 1).repeat(2))
            .collect();
        let mut bomb: Vec<(&str, &str)> = names
            .iter()
            .map(String::as_str)
            .zip(values.iter().map(String::as_str))
            .collect();
        bomb.push(("p25", "xxxxxxxx"));
        assert!(resolve(&bomb, "${p0}").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_resolved_or_refused_without_a_panic(text in "[$}{a:é]{0,40}") {
            let _ = resolve(&[("a", "${a:é}")], &text);
        }
    }
}
