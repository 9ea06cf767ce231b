//! The configuration as a whole, by topic; here is what the topics share.

mod complaints;
mod keys;
mod meaning;
mod sources;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keys::Effect;
use super::name::uniform;
use super::*;

/// Files in memory.
#[derive(Debug, Default)]
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl FileSource for Files {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.get(path).cloned())
    }
}

/// A start with everything given by hand.
#[derive(Default)]
struct Start {
    args: Vec<&'static str>,
    env: Vec<(&'static str, &'static str)>,
    files: Files,
}

impl Start {
    fn args(args: &[&'static str]) -> Self {
        Self {
            args: args.to_vec(),
            ..Self::default()
        }
    }

    fn file(mut self, name: &str, text: &str) -> Self {
        self.files
            .0
            .insert(PathBuf::from(name), text.as_bytes().to_vec());
        self
    }

    fn yaml(text: &str) -> Self {
        Self::default().file("application.yml", text)
    }

    fn arg(mut self, arg: &'static str) -> Self {
        self.args.push(arg);
        self
    }

    fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    fn try_load(&self) -> Result<Loaded, ConfigErrors> {
        let machine = Machine {
            host_name: "node-1".into(),
            ip_address: "192.0.2.7".into(),
            seed: 7,
        };
        Config::load(
            self.args.iter().map(OsString::from),
            self.env
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
            &self.files,
            &machine,
        )
    }

    fn load(&self) -> Loaded {
        self.try_load().unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn config(&self) -> Config {
        self.load().config
    }

    /// The text of what is wrong.
    fn errors(&self) -> String {
        self.try_load()
            .expect_err("this start must be refused")
            .to_string()
    }

    /// The warnings in one text.
    fn warnings(&self) -> String {
        self.load().warnings.join("\n")
    }

    /// Value and origin of a setting in force.
    fn effective(&self, key: &str) -> (String, String) {
        let loaded = self.load();
        let setting = loaded.effective.iter().find(|setting| setting.key == key);
        let setting = setting.unwrap_or_else(|| panic!("{key} is not among the settings"));
        (setting.value.clone(), setting.origin.to_string())
    }
}
