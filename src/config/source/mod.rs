//! Where properties are read from: files, environment, command line. Each source only turns its
//! notation into [`Property`] lists; what a property means is decided elsewhere.

pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod java_properties;
pub(crate) mod profiles;
pub(crate) mod yaml;

use super::property::Property;

/// A part of a file that applies as a whole, or only under some profiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) properties: Vec<Property>,
}

impl Document {
    /// The last value of a property of this document alone.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let name = super::name::uniform(name);
        self.properties
            .iter()
            .rev()
            .find(|property| super::name::uniform(&property.name) == name)
            .map(|property| property.value.as_str())
    }

    /// The expression that says under which profiles this document applies.
    pub(crate) fn condition(&self) -> Option<&str> {
        self.get("spring.config.activate.on-profile")
            .or_else(|| self.get("spring.profiles"))
    }
}
