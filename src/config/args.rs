//! The command line: `eurekad [serve|config] [--data-dir DIR] [--config FILE] [--any.property=value]`.
//!
//! Read by hand, since every property is an option: a parser that wants to know all options in
//! advance would refuse them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::bind::mask;
use super::error::ConfigError;
use super::keys;
use super::name::closest;
use super::property::{Origin, Property};

/// What the program is asked to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// Run the server.
    #[default]
    Serve,
    /// Print the settings in force and where each came from.
    PrintConfig,
    /// Print this text.
    Help(String),
    /// Print name and version.
    Version,
}

/// The command line, read but not judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) command: Command,
    /// `--config`, in order.
    pub(crate) config_files: Vec<PathBuf>,
    /// Everything that sets a property.
    pub(crate) properties: Vec<Property>,
    pub(crate) errors: Vec<ConfigError>,
}

/// The options that are not properties.
const OPTIONS: &[&str] = &["config", "data-dir", "help", "version"];
const COMMANDS: &[&str] = &["serve", "config", "help", "version"];

/// The commands that are not the server's ([`crate::cli`]); they come before everything else.
pub const CLIENT_COMMANDS: &[&str] = &[
    "history",
    "at",
    "diff",
    "watch",
    "explain",
    "drain",
    "quarantine",
    "release",
    "overrides",
    "peers",
    "status",
    "export",
    "import",
    "store",
    "completions",
    "man",
];

/// Reads the arguments behind the program's name.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Arguments {
    let mut read = Arguments::default();
    let mut texts = arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .peekable();
    let mut has_command = false;
    while let Some(argument) = texts.next() {
        match argument.as_str() {
            "-h" | "--help" => read.command = Command::Help(help()),
            "help" => match texts.next() {
                // Those of the commands that ask a node are read before (crate::cli).
                Some(about) if !about.starts_with('-') && !COMMANDS.contains(&about.as_str()) => {
                    read.errors.push(no_command(&about));
                }
                _ => read.command = Command::Help(help()),
            },
            "-V" | "--version" | "version" => read.command = Command::Version,
            "serve" if !has_command => has_command = true,
            "config" if !has_command => {
                has_command = true;
                read.command = Command::PrintConfig;
            }
            _ => {
                let Some(option) = argument.strip_prefix("--").filter(|o| !o.is_empty()) else {
                    read.errors.push(no_option(&argument));
                    continue;
                };
                let (name, value) = match option.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (option, texts.next_if(|next| !next.starts_with("--"))),
                };
                read.take(name, value);
            }
        }
        if matches!(read.command, Command::Help(_) | Command::Version) {
            break;
        }
    }
    read
}

impl Arguments {
    /// Takes `--name=value` or `--name value`.
    fn take(&mut self, name: &str, value: Option<String>) {
        let is_ours = OPTIONS.contains(&name);
        let is_property = name.contains('.') || keys::find(name).is_some();
        let Some(value) = value else {
            let why = if is_ours || is_property {
                format!("needs a value: --{name}=VALUE")
            } else {
                unknown(name)
            };
            self.errors.push(ConfigError::Argument {
                argument: mask("", &format!("--{name}")),
                why,
            });
            return;
        };
        match name {
            "config" if value.is_empty() => self.errors.push(ConfigError::Argument {
                argument: "--config".to_owned(),
                why: "needs the name of a file".to_owned(),
            }),
            "config" => self.config_files.push(PathBuf::from(value)),
            "data-dir" => self.add("eurekad.data-dir", value),
            // Any name may be set, for placeholders; but one that nearly is an option is a slip.
            _ if !is_property && closest(name, OPTIONS.iter().copied()).is_some() => {
                let argument = mask("", &format!("--{name}"));
                self.errors.push(ConfigError::Argument {
                    argument,
                    why: unknown(name),
                });
            }
            _ => self.add(name, value),
        }
    }

    fn add(&mut self, name: &str, value: String) {
        let origin = Origin::CommandLine;
        self.properties.push(Property {
            name: name.to_owned(),
            value,
            origin,
        });
    }
}

fn unknown(name: &str) -> String {
    let option = closest(name, OPTIONS.iter().copied()).map(str::to_owned);
    match option.or_else(|| keys::suggestion(name)) {
        Some(known) => format!("there is no such option; did you mean --{known}?"),
        None => "there is no such option; --help lists them".to_owned(),
    }
}

/// What was asked for behind `help`.
fn no_command(argument: &str) -> ConfigError {
    let known = COMMANDS.iter().chain(CLIENT_COMMANDS).copied();
    let why = match closest(argument, known) {
        Some(known) => {
            format!("there is no such command; did you mean eurekad help {known}?")
        }
        None => "there is no such command; eurekad --help lists them".to_owned(),
    };
    ConfigError::Argument {
        argument: mask("", argument),
        why,
    }
}

fn no_option(argument: &str) -> ConfigError {
    let known = COMMANDS.iter().chain(CLIENT_COMMANDS).copied();
    let why = match closest(argument, known) {
        Some(known) if known == argument => {
            format!("a command comes first: eurekad {known} ...")
        }
        Some(known) => format!("there is no such command; did you mean {known}?"),
        None => "neither a command nor an option; --help lists them".to_owned(),
    };
    ConfigError::Argument {
        argument: mask("", argument),
        why,
    }
}

/// The text of `--help`. A test holds that every key in it is known, and every default right.
pub(crate) fn help() -> String {
    format!("eurekad {}\n{HELP}", env!("CARGO_PKG_VERSION"))
}

const HELP: &str = "\
A Eureka service registry that remembers: every change is a record in a durable log.

Usage: eurekad [COMMAND] [OPTIONS] [--PROPERTY=VALUE ...]

Commands:
  serve      run the server (what happens without a command)
  config     print every setting in force and where it came from
  help       print this, or with a command its options and examples
  version    print the version

Asking a running node (--server URL), or the store of a stopped one (--data-dir DIR):
  history    who changed what, when and why        at         the registry at a moment
  diff       what differs between two moments      export     registry or history to a file
Asking a running node:
  watch      changes as they happen                explain    why an instance is there, or not
  drain      out of traffic for a while, gently    quarantine out of traffic, whatever it says
  release    end of a drain or quarantine          overrides  list them, lift them
  status     how the node is                       peers      how its peers keep up
  import     register what a file holds, or make a store of a history
On a stopped node:
  store      check, repair, stats, compact
For the shell:
  completions bash|zsh|fish                        man        the manual pages

Options:
  --data-dir DIR   where the log is kept, short for --eurekad.data-dir [./eurekad-data]
  --config FILE    a .yml, .yaml or .properties file; several are laid over each other. Without it:
                   application.{yaml,yml,properties} here, then in ./config
  -h, --help       print this
  -V, --version    print the version

Every property of a Spring Eureka server can be given as --name=value, in a file, or as an
environment variable (EUREKA_SERVER_ENABLESELFPRESERVATION, SERVER_PORT). The command line wins over
SPRING_APPLICATION_JSON, that over the environment, that over files. Names are relaxed
(my-url = myUrl = MY_URL), ${NAME:default} is replaced. Durations: 500 (the unit in the name, else
ms), 500ms, 10s, 5m, 1h, 7d, PT30S. Sizes: bytes, 64KB, 1MiB, 2GB.

Server:
  server.port                                       [8761]
  server.address                                    [0.0.0.0]
  server.servlet.context-path                       path before everything [none]
  eurekad.max-connections                           [8192]
  eurekad.max-watchers                              streams and long polls at a time [6144]
  eurekad.shutdown-grace                            for requests in flight at the end [20s]

Durability:
  eurekad.durability                                sync | process | interval:MS [sync]
  eurekad.history-max-age                           0 = no bound [7d]
  eurekad.history-max-bytes                         0 = no bound [2GiB]
  eurekad.history-index                             false = made when something is asked [true]
  eurekad.on-store-failure                          degrade | exit [degrade]
  eurekad.on-damaged-store                          auto | refuse | move-aside | keep-rest [auto]
  eurekad.store-min-free                            a start with less space takes no changes; auto:
                                                    256 MiB or a quarter of the database file, at
                                                    most a tenth of the volume [auto]

Registry:
  eureka.server.enable-self-preservation            [true]
  eureka.server.renewal-percent-threshold           0 to 1 [0.85]
  eureka.server.eviction-interval-timer-in-ms       [1m]
  eureka.server.use-read-only-response-cache        [true]
  eureka.server.response-cache-update-interval-ms   [30s]
  eurekad.max-protection-time                       end of self-preservation, 0 = never [0s]
  eurekad.max-instances                             new registrations beyond it are 503; what
                                                    peers tell is taken; 0 = no bound [0]

Peers (none unless configured):
  eureka.client.service-url.defaultZone             their URLs, by comma; srv+http://NAME/eureka/
                                                    stands for the SRV records of NAME
  eurekad.peers-by-address                          a name with several addresses is several peers:
                                                    auto | true | false [auto]
  eurekad.dns-servers                               by comma, instead of the system's [none]
  eurekad.peer-ca-file                              for https URLs: PEM, besides the system's [none]
  eurekad.peer-cert-file                            PEM, shown to peers that ask [none]
  eurekad.peer-key-file                             PEM, the key of that [none]
  eureka.client.register-with-eureka                [true if there are peers]
  eureka.client.fetch-registry                      [true if there are peers]
  eureka.instance.hostname                          how peers name this node [the machine's]

Compatibility:
  eurekad.profile                                   default | eureka [default]
     eureka brings back what the Java server does, faults included; each of them also alone, e.g.
     eurekad.lease-expiry=eureka. `eurekad config` lists them all.

Log:
  logging.level.root                                trace | debug | info | warn | error | off [info]
  logging.level.eurekad                             or com.netflix.eureka, eurekad.store, ...
  eurekad.log-format                                human | json [human]

Examples:
  eurekad
  eurekad --server.port=8762 --data-dir /var/lib/eurekad
  eurekad --config /etc/eurekad/application.yml --eureka.instance.hostname=eureka-1
  eurekad config --eurekad.profile=eureka
";
