//! Every property that a user of a Eureka server may have set, and what becomes of it here. The
//! tables say it; this file looks names up.
//!
//! A test holds that the keys called honoured are exactly those that the loader reads.

mod client;
mod own;
mod server;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::name::{list_index, map_key, slips, squashed, uniform};

/// What setting a property does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What its documentation says.
    Honoured,
    /// Nothing, and why that is fine.
    NoEffect(&'static str),
    /// Nothing: it configures Amazon's services, and only matters there.
    Aws,
    /// Nothing yet, and what is missing.
    Later(&'static str),
    /// Nothing: it is the bare Netflix server's name, and this is Spring's.
    Netflix(&'static str),
}

/// A property, in Spring's canonical form. A name that ends with `.*` stands for all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    pub effect: Effect,
}

impl Key {
    /// The name without `.*`, if this is a family.
    fn family(&self) -> Option<&'static str> {
        self.name.strip_suffix(".*")
    }
}

/// Keys that are read, checked and shown, but that nothing acts on yet, and why.
const NOT_ACTED_ON: &[(&str, &str)] = &[
    ("eureka.environment", "the dashboard is still to come"),
    ("eureka.datacenter", "the dashboard is still to come"),
    ("eureka.instance.initial-status", "the node registers as UP"),
    (
        "eureka.instance.registry.expected-number-of-clients-sending-renews",
        "renewals are counted from default-open-for-traffic-count",
    ),
    (
        "eureka.server.registry-sync-retries",
        "the copy is tried until wait-time-in-ms-when-sync-empty is over",
    ),
    (
        "eureka.server.registry-sync-retry-wait-ms",
        "the copy is tried every second",
    ),
    (
        "eureka.server.initial-capacity-of-response-cache",
        "the cache is bounded by bytes, eurekad.response-cache-max-bytes",
    ),
];

/// Why nothing acts on a key that is read, if nothing does.
pub(crate) fn not_acted_on(key: &Key) -> Option<&'static str> {
    NOT_ACTED_ON
        .iter()
        .find(|(name, _)| *name == key.name)
        .map(|(_, why)| *why)
}

const fn honoured(name: &'static str) -> Key {
    Key {
        name,
        effect: Effect::Honoured,
    }
}

const fn idle(name: &'static str, why: &'static str) -> Key {
    Key {
        name,
        effect: Effect::NoEffect(why),
    }
}

const fn aws(name: &'static str) -> Key {
    Key {
        name,
        effect: Effect::Aws,
    }
}

const fn later(name: &'static str, missing: &'static str) -> Key {
    Key {
        name,
        effect: Effect::Later(missing),
    }
}

const fn netflix(name: &'static str, spring: &'static str) -> Key {
    Key {
        name,
        effect: Effect::Netflix(spring),
    }
}

/// Every known key.
pub fn all() -> impl Iterator<Item = &'static Key> {
    let tables = [
        own::EUREKAD,
        own::SPRING_BOOT,
        server::EUREKA_SERVER,
        client::EUREKA_INSTANCE,
        client::EUREKA_CLIENT,
        server::NETFLIX,
    ];
    tables.into_iter().flatten()
}

/// The tables, ready to be looked up in.
struct Index {
    /// By uniform name.
    exact: BTreeMap<String, &'static Key>,
    /// By what an environment variable shows of the name. Netflix's names are left out: nobody sets
    /// them in the environment, and `EUREKA_PORT` is what Kubernetes sets for a service `eureka`.
    variables: BTreeMap<String, &'static Key>,
    /// Uniform and squashed names without `.*`.
    families: Vec<(String, String, &'static str, &'static Key)>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index {
        exact: BTreeMap::new(),
        variables: BTreeMap::new(),
        families: Vec::new(),
    };
    for key in all() {
        if let Some(family) = key.family() {
            index
                .families
                .push((uniform(family) + ".", squashed(family), family, key));
            continue;
        }
        index.exact.insert(uniform(key.name), key);
        if !matches!(key.effect, Effect::Netflix(_)) {
            index.variables.insert(squashed(key.name), key);
        }
    }
    index
});

/// The key that a name in any spelling belongs to. An exact name goes before a family.
pub fn find(name: &str) -> Option<&'static Key> {
    let name = uniform(list_index(name).map_or(name, |(stem, _)| stem));
    INDEX.exact.get(&name).copied().or_else(|| {
        let mut families = INDEX.families.iter();
        families
            .find(|(family, ..)| name.starts_with(family))
            .map(|(.., key)| *key)
    })
}

/// The property that an environment variable means: `SERVER_PORT` is `server.port`. Below a family
/// every underscore is a dot, since the variable cannot say more.
pub fn of_variable(variable: &str) -> Option<String> {
    if let Some(key) = INDEX.variables.get(&squashed(variable)) {
        return Some(key.name.to_owned());
    }
    // NAME_0 or NAME_0_: one item of a list.
    if let Some((stem, index)) = variable.trim_end_matches('_').rsplit_once('_')
        && index.parse::<usize>().is_ok()
        && let Some(key) = INDEX.variables.get(&squashed(stem))
    {
        return Some(format!("{}[{index}]", key.name));
    }
    INDEX
        .families
        .iter()
        .find_map(|(_, family_squashed, family, _)| {
            let rest = after_family(variable, family_squashed)?;
            let rest = rest.trim_matches('_').to_lowercase().replace('_', ".");
            (!rest.is_empty()).then(|| format!("{family}.{rest}"))
        })
}

/// The part of a variable behind the underscore that ends a family's name.
fn after_family<'a>(variable: &'a str, family: &str) -> Option<&'a str> {
    let mut left = family.chars();
    for (at, c) in variable.char_indices() {
        if c == '_' {
            if left.as_str().is_empty() {
                return variable.get(at + 1..);
            }
        } else if left.next() != c.to_lowercase().next() {
            return None;
        }
    }
    None
}

/// The known key that a misspelt one was probably meant to be: one that differs by slips, one of which
/// only the end was given (`port` for `server.port`), or one that has the same last element elsewhere
/// below the same first one.
pub fn suggestion(name: &str) -> Option<String> {
    slip(name).or_else(|| {
        let name = uniform(name);
        let ours = || all().filter(|key| key.effect == Effect::Honoured);
        let end = format!(".{name}");
        let by_end = || ours().find(|key| uniform(key.name).ends_with(&end));
        let by_ends = || {
            let (first, last) = ends(&name)?;
            ours().find(|key| {
                let key = uniform(key.name);
                last.len() >= TELLING
                    && ends(&key).is_some_and(|(key_first, key_last)| {
                        key_last == last && slips(first, key_first).is_some()
                    })
            })
        };
        by_end().or_else(by_ends).map(|key| key.name.to_owned())
    })
}

/// Letters from which on an element says by itself which key is meant.
const TELLING: usize = 8;

/// First and last element of a dotted name.
fn ends(name: &str) -> Option<(&str, &str)> {
    Some((name.split_once('.')?.0, name.rsplit_once('.')?.1))
}

/// The known key from which a name differs by nothing but slips. Below a family what follows is kept.
pub fn slip(name: &str) -> Option<String> {
    let stem = list_index(name).map_or(name, |(stem, _)| stem);
    let uniform_name = uniform(stem);
    let slips_from = |key: &'static Key| {
        let Some(family) = key.family() else {
            return Some((
                slips(&uniform_name, &uniform(key.name))?,
                key.name.to_owned(),
            ));
        };
        let elements = family.split('.').count();
        let rest = map_key(stem, elements)?;
        let head: Vec<&str> = uniform_name.split('.').take(elements).collect();
        let count = slips(&head.join("."), &uniform(family))?;
        Some((count, format!("{family}.{rest}")))
    };
    all()
        .filter_map(slips_from)
        .min_by_key(|(count, _)| *count)
        .map(|(_, key)| key)
}

/// The same as [`slip`] for the name of an environment variable, which has lost its dots and dashes.
pub fn slip_of_variable(variable: &str) -> Option<String> {
    let dotted = variable.to_lowercase().replace('_', ".");
    slip(&dotted).or_else(|| {
        let name = squashed(variable);
        let close = INDEX.variables.iter().filter_map(|(known, key)| {
            let count = slips(&name, known)?;
            // All elements are one here, which must not add up what each may have.
            (count <= name.len() / SQUASHED_PER_SLIP).then_some((count, *key))
        });
        close
            .min_by_key(|(count, _)| *count)
            .map(|(_, key)| key.name.to_owned())
    })
}

/// Letters of a squashed name for each slip in it.
const SQUASHED_PER_SLIP: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_in_the_tables_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for key in all() {
            assert!(
                seen.insert(uniform(key.name)),
                "{} is there twice",
                key.name
            );
        }
    }

    #[test]
    fn families_take_what_is_below_them_and_nothing_else() {
        assert!(find("eureka.client.service-url.defaultZone").is_some());
        assert!(find("eureka.client.service-url").is_none());
        assert!(find("eureka.client.service-urls.defaultZone").is_none());
        assert!(find("management.endpoints.web.exposure.include[1]").is_some());
    }

    #[test]
    fn a_guess_differs_by_slips_or_by_its_place() {
        for (name, key) in [
            ("server.prot", Some("server.port")),
            ("port", Some("server.port")),
            ("logging.levl.com.x", Some("logging.level.com.x")),
            ("logging.levl[com.x]", Some("logging.level.com.x")),
            (
                "eureka.client.service-urls.defaultZone",
                Some("eureka.client.service-url.defaultZone"),
            ),
            (
                "eureka.server.register-with-eureka",
                Some("eureka.client.register-with-eureka"),
            ),
            (
                "management.endpoints.web.exposure.inclde[0]",
                Some("management.endpoints.web.exposure.include"),
            ),
            ("eureka.server.foo", None),
            ("eurekad.foo", None),
            ("eureka.server.port", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(suggestion(name).as_deref(), key, "{name}");
        }
        for (variable, key) in [
            ("EUREKAD_PROFIL", Some("eurekad.profile")),
            (
                "EUREKA_SERVER_ENABLE_SELF_PRESERVATON",
                Some("eureka.server.enable-self-preservation"),
            ),
            ("SPRING_PROFILE_ACTIVE", Some("spring.profiles.active")),
            ("LOGGING_LEVL_ROOT", Some("logging.level.root")),
            ("SERVER_PROT", Some("server.port")),
            ("SERVER_HOST", None),
            ("SERVER_NAME", None),
            ("SERVER_SOFTWARE", None),
            ("EUREKA_SERVER_FOO", None),
        ] {
            assert_eq!(slip_of_variable(variable).as_deref(), key, "{variable}");
        }
    }

    #[test]
    fn keys_of_netflix_lead_to_keys_that_are_there() {
        for key in all() {
            if let Effect::Netflix(spring) = key.effect {
                assert!(find(spring).is_some(), "{spring}");
            }
        }
    }
}
