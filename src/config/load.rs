//! From arguments, environment and files to a checked [`Config`]: reads the sources, merges them by
//! precedence, binds every part, and says what was set in vain.

use std::ffi::OsString;

use super::args::{self, Arguments, Command};
use super::bind::{Binder, Setting};
use super::error::{ConfigError, ConfigErrors};
use super::keys::{self, Effect};
use super::machine::Machine;
use super::name::closest;
use super::placeholder::Lookup;
use super::property::{Origin, Properties, Property};
use super::source::Document;
use super::source::environment::{self, Environment};
use super::source::files::{self, FileSource};
use super::source::profiles::ActiveProfiles;
use super::{
    CacheConfig, Compatibility, Config, DashboardConfig, LimitsConfig, LogConfig, ManagementConfig,
    OwnInstance, PeersConfig, RegistryConfig, ServerConfig, StoreConfig, value,
};

/// What a start has to work with.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub command: Command,
    pub config: Config,
    /// To be logged once the log is set up.
    pub warnings: Vec<String>,
    /// Every setting in force, in the order of binding; see [`Loaded::print_effective`].
    pub effective: Vec<Setting>,
}

impl Loaded {
    /// The text of `eurekad config`.
    pub fn print_effective(&self) -> String {
        super::effective::print(&self.effective)
    }
}

impl Config {
    /// Reads everything. `args` are the arguments behind the program's name. Nothing is logged, as
    /// the log is configured by what is read here.
    ///
    /// # Errors
    /// All that is wrong, together: values, files, arguments. `--help` and `--version` are answered
    /// without looking at anything else.
    pub fn load(
        args: impl Iterator<Item = OsString>,
        env: impl Iterator<Item = (OsString, OsString)>,
        files: &dyn FileSource,
        machine: &Machine,
    ) -> Result<Loaded, ConfigErrors> {
        let arguments = args::parse(args);
        if matches!(arguments.command, Command::Help(_) | Command::Version) {
            return Ok(Loaded {
                command: arguments.command,
                config: Self::default(),
                warnings: Vec::new(),
                effective: Vec::new(),
            });
        }
        let mut errors = arguments.errors.clone();
        let environment = environment::read(env);
        errors.extend(
            environment
                .json_error
                .as_ref()
                .map(|why| ConfigError::File {
                    file: "environment variable SPRING_APPLICATION_JSON".to_owned(),
                    why: why.clone(),
                }),
        );
        let properties = merge(&arguments, &environment, files, machine, &mut errors);
        let lookup = Lookup {
            properties: &properties,
            variables: &environment.variables,
            machine,
        };
        let mut binder = Binder::new(&lookup);
        let config = bind(&mut binder, machine);
        errors.append(&mut binder.errors);
        if !errors.is_empty() {
            return Err(ConfigErrors(errors));
        }
        let mut warnings = binder.warnings;
        warnings.extend(unknown_keys(&properties, &environment.unknown));
        warnings.extend(keys_without_effect(&properties));
        Ok(Loaded {
            command: arguments.command,
            config,
            warnings,
            effective: binder.settings,
        })
    }
}

fn bind(b: &mut Binder<'_>, machine: &Machine) -> Config {
    let server = ServerConfig::bind(b);
    let compatibility = Compatibility::bind(b);
    let instance = OwnInstance::bind(b, &server, machine);
    let peers = PeersConfig::bind(b, &server, &instance, machine);
    let registry = RegistryConfig::bind(b, peers.register_with_eureka);
    for name in ["spring.profiles.active", "spring.profiles.include"] {
        b.list(name, Vec::new());
    }
    Config {
        compatibility,
        registry,
        cache: CacheConfig::bind(b),
        store: StoreConfig::bind(b),
        limits: LimitsConfig::bind(b),
        dashboard: DashboardConfig::bind(b),
        management: ManagementConfig::bind(b),
        log: LogConfig::bind(b),
        server,
        instance,
        peers,
    }
}

/// All sources in one, the strongest last.
fn merge(
    arguments: &Arguments,
    environment: &Environment,
    files: &dyn FileSource,
    machine: &Machine,
    errors: &mut Vec<ConfigError>,
) -> Properties {
    let mut read = |path: &std::path::Path, must_exist: bool| {
        files::read(files, path, must_exist).unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        })
    };
    let mut documents: Vec<Document> = Vec::new();
    if arguments.config_files.is_empty() {
        for path in files::default_names(None) {
            documents.extend(read(&path, false));
        }
    } else {
        for path in &arguments.config_files {
            documents.extend(read(path, true));
        }
    }

    // Which profiles are active is decided by what is always in force.
    let mut always = Properties::default();
    for document in documents
        .iter()
        .filter(|document| document.condition().is_none())
    {
        always.overlay(document.properties.clone());
    }
    lay_over(&mut always, arguments, environment);
    let profiles = active_profiles(&always, environment, machine);

    let mut merged = Properties::default();
    if arguments.config_files.is_empty() {
        for profile in profiles
            .names()
            .filter(|profile| !profile.contains(['/', '\\']))
        {
            for path in files::default_names(Some(profile)) {
                documents.extend(read(&path, false));
            }
        }
    }
    for document in documents {
        if document
            .condition()
            .is_none_or(|condition| profiles.accept(condition))
        {
            merged.overlay(document.properties);
        }
    }
    lay_over(&mut merged, arguments, environment);
    merged
}

/// Environment and command line over what the files say.
fn lay_over(properties: &mut Properties, arguments: &Arguments, environment: &Environment) {
    properties.overlay(environment.properties.clone());
    properties.overlay(environment.json.clone());
    properties.overlay(arguments.properties.clone());
}

fn active_profiles(
    properties: &Properties,
    environment: &Environment,
    machine: &Machine,
) -> ActiveProfiles {
    let lookup = Lookup {
        properties,
        variables: &environment.variables,
        machine,
    };
    let names = |name: &str| {
        let property = properties.get(name)?;
        lookup
            .resolve(&property.value)
            .ok()
            .map(|text| value::list(&text))
    };
    let mut all = names("spring.profiles.include").unwrap_or_default();
    all.extend(names("spring.profiles.active").unwrap_or_default());
    ActiveProfiles::new(all)
}

/// One warning that names every key that nobody knows, if it is of ours or of Eureka, and every other
/// one that is a slip of a key that is read here.
fn unknown_keys(properties: &Properties, variables: &[String]) -> Option<String> {
    let mut unknown: Vec<String> = properties
        .iter()
        .filter(|(name, property)| looks_meant(name, property) && keys::find(name).is_none())
        .map(|(_, property)| describe(property))
        .collect();
    unknown.extend(variables.iter().map(|variable| {
        let guess = did_you_mean(keys::slip_of_variable(variable));
        format!("environment variable {variable}{guess}")
    }));
    if unknown.is_empty() {
        return None;
    }
    Some(format!(
        "unknown settings are ignored: {}",
        unknown.join("; ")
    ))
}

/// `eureka.*`, `eurekad.*`, prefixes that are these but for a slip, and options such as `--port`,
/// which set nothing but a name for placeholders. Of what else may stand in the file of a Spring
/// application, which has much that is for others, only what is nearly a key of this server.
fn looks_meant(name: &str, property: &Property) -> bool {
    match name.split_once('.') {
        Some((prefix, _)) => {
            closest(prefix, ["eureka", "eurekad"].into_iter()).is_some()
                || keys::slip(name).is_some()
        }
        None => property.origin == Origin::CommandLine,
    }
}

fn describe(property: &Property) -> String {
    let Property { name, origin, .. } = property;
    format!("{name} ({origin}){}", did_you_mean(keys::suggestion(name)))
}

fn did_you_mean(guess: Option<String>) -> String {
    guess.map_or_else(String::new, |key| format!(", did you mean {key}?"))
}

/// One warning that names every known key that does nothing here, and why.
fn keys_without_effect(properties: &Properties) -> Option<String> {
    let mut idle: Vec<String> = Vec::new();
    for (name, property) in properties.iter() {
        let Some(key) = keys::find(name) else {
            continue;
        };
        let why = match key.effect {
            Effect::Honoured => match keys::not_acted_on(key) {
                Some(why) => why.to_owned(),
                None => continue,
            },
            Effect::NoEffect(why) => why.to_owned(),
            Effect::Aws => "only for a server on Amazon's services".to_owned(),
            Effect::Later(why) => format!("not supported yet: {why}"),
            Effect::Netflix(spring) => format!("the bare Netflix server's name, use {spring}"),
        };
        idle.push(format!("{} ({}): {why}", property.name, property.origin));
    }
    if idle.is_empty() {
        return None;
    }
    Some(format!("settings without effect here: {}", idle.join("; ")))
}
