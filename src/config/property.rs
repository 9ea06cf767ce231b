//! Properties as they were found: name, text, and where each came from; merged by precedence.

use std::collections::BTreeMap;
use std::fmt;

use super::name::{list_index, uniform};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    CommandLine,
    /// The variable's name.
    Environment(String),
    /// File as found, and line, from 1; 0 if it is not known.
    File(String, usize),
    /// Nobody set it.
    Default,
    /// Nobody set it, and `eurekad.profile=eureka` has its own default.
    Profile,
    /// Nobody set it; it follows from something else, named here.
    Derived(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::File(file, 0) => f.write_str(file),
            Self::File(file, line) => write!(f, "{file}:{line}"),
            Self::Default => f.write_str("default"),
            Self::Profile => f.write_str("default of eurekad.profile=eureka"),
            Self::Derived(from) => write!(f, "from {from}"),
        }
    }
}

/// One setting as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// Merged properties by their uniform name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Properties {
    by_name: BTreeMap<String, Property>,
}

impl Properties {
    /// Lays one source over what is there: its values win. `name[0]`, `name[1]` become one list,
    /// joined by comma, that replaces a list from below as a whole.
    pub(crate) fn overlay(&mut self, layer: Vec<Property>) {
        let mut lists: BTreeMap<String, BTreeMap<usize, Property>> = BTreeMap::new();
        for property in layer {
            match list_index(&property.name) {
                Some((stem, index)) => {
                    let stem = stem.to_owned();
                    let items = lists.entry(uniform(&stem)).or_default();
                    items.insert(
                        index,
                        Property {
                            name: stem,
                            ..property
                        },
                    );
                }
                None => self.put(property),
            }
        }
        for items in lists.into_values() {
            let values: Vec<&str> = items.values().map(|item| item.value.as_str()).collect();
            let joined = values.join(",");
            if let Some(first) = items.into_values().next() {
                self.put(Property {
                    value: joined,
                    ..first
                });
            }
        }
    }

    fn put(&mut self, property: Property) {
        let key = uniform(&property.name);
        match self.by_name.get_mut(&key) {
            // The spelling stays: an environment variable has lost it (DEFAULTZONE).
            Some(known) if matches!(property.origin, Origin::Environment(_)) => {
                known.value = property.value;
                known.origin = property.origin;
            }
            _ => {
                self.by_name.insert(key, property);
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Property> {
        self.by_name.get(&uniform(name))
    }

    /// Properties below `prefix`, by their uniform names.
    pub(crate) fn below(&self, prefix: &str) -> impl Iterator<Item = &Property> {
        let prefix = uniform(prefix) + ".";
        self.by_name
            .range(prefix.clone()..)
            .take_while(move |(name, _)| name.starts_with(&prefix))
            .map(|(_, property)| property)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Property)> {
        self.by_name
            .iter()
            .map(|(name, property)| (name.as_str(), property))
    }
}
