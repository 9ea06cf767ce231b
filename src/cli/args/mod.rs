//! What can be typed: the commands, their options, and the texts of `--help`.
//!
//! The server's own command line (`eurekad`, `serve`, `config`) takes every property as an option and
//! is read in [`crate::config`]; `serve` and `config` stand here for completions and pages alone.
//!
//! The comments on fields are what `--help` prints.

#![expect(
    clippy::doc_markdown,
    reason = "the comments are texts for a terminal, where backticks are only noise"
)]

mod files;
mod operate;
mod store;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(in crate::cli) use files::{ExportArgs, ExportFormat, ImportArgs};
pub(in crate::cli) use operate::{HoldArgs, LiftArgs, ListArgs, OverridesCommand, ReleaseArgs};
pub(in crate::cli) use store::{
    CheckArgs, CompactArgs, RepairArgs, RepairMode, StatsArgs, StoreCommand,
};

/// Printed below every command's help.
pub(in crate::cli) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the answer is no: not there, differences found (diff --exit-code), damaged
  2  wrong usage or input
  3  server or store not reachable, or it refused
  4  further back than what is kept

Environment:
  EUREKAD_SERVER    the server's URL, instead of --server
  EUREKAD_USER      the user, instead of --user
  EUREKAD_PASSWORD  the password of that user
  NO_COLOR          no colours
  TZ                this machine's zone: times are shown in it, and read in it if they name none";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "eurekad",
    version,
    about = "A Eureka service registry that remembers: every change is a record in a durable log",
    long_about = "A Eureka service registry that remembers: every change is a record in a durable log.\n\n\
        Without a command it is the server. The other commands ask a running node, or read the \
        store of a stopped one.",
    disable_help_subcommand = true,
    subcommand_required = true
)]
pub(in crate::cli) struct Cli {
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Run the server (what happens without a command)
    #[command(
        long_about = "Run the server, which is what happens without a command. Every property of a \
            Spring Eureka server can be given as --name=value; eurekad --help lists the important ones."
    )]
    Serve(AnyProperty),
    /// Print every setting in force and where it came from
    Config(AnyProperty),
    /// Who changed what, when and why
    #[command(after_help = "\
Examples:
  eurekad history                                   the last 100 changes
  eurekad history BILLING/billing-1 --from -2h      one instance, since two hours ago
  eurekad history --kind evicted,cancelled --from 2026-11-30T03:00:00Z --all
  eurekad history BILLING --origin operator --reason 'deploy 4711'
  eurekad history --data-dir /var/lib/eurekad --all --ndjson    of a stopped node")]
    History(HistoryArgs),
    /// The registry as it was at a moment
    #[command(after_help = "\
Examples:
  eurekad at -15m                                   a quarter of an hour ago
  eurekad at 2026-11-30T03:00:00+01:00 --app BILLING
  eurekad at --lsn 4711 --json                      right after change 4711, as /eureka/apps")]
    At(AtArgs),
    /// What differs between two moments
    #[command(after_help = "\
Examples:
  eurekad diff -1h                                  what the last hour has changed
  eurekad diff 2026-11-30T03:00:00Z 2026-11-30T03:30:00Z --app BILLING
  eurekad diff -5m --exit-code && echo nothing has changed")]
    Diff(DiffArgs),
    /// Print changes as they happen
    #[command(
        long_about = "Print changes as they happen, one line each. A connection that is cut is opened \
            again, and nothing is left out or told twice: the log is read on from the last change \
            that was printed.",
        after_help = "\
Examples:
  eurekad watch                                     everything, from now on
  eurekad watch --app BILLING,ORDERS --kind evicted
  eurekad watch --from 4711 --json                  from change 4711 on, one JSON object a line
  timeout 60 eurekad watch --app BILLING --count 1  wait until something happens to BILLING"
    )]
    Watch(WatchArgs),
    /// Why an instance is there, or no longer there
    #[command(after_help = "\
Examples:
  eurekad explain BILLING/billing-1
  eurekad explain BILLING/billing-1 --json | jq .because.reason")]
    Explain(ExplainArgs),
    /// Take an instance out of traffic for a while, gently
    #[command(after_help = "\
Examples:
  eurekad drain BILLING/billing-1 --for 10m --reason 'deploy 4711'
  eurekad release BILLING/billing-1                 before the ten minutes are over")]
    Drain(HoldArgs),
    /// Take an instance out of traffic for a while, whatever it says of itself
    #[command(after_help = "\
Examples:
  eurekad quarantine BILLING/billing-1 --for 2h --reason 'answers 500, see incident 12'")]
    Quarantine(HoldArgs),
    /// End a drain or a quarantine
    #[command(after_help = "\
Examples:
  eurekad release BILLING/billing-1
  eurekad release BILLING/billing-1 --reason 'deploy 4711 is done'")]
    Release(ReleaseArgs),
    /// Statuses that operators have set
    #[command(
        subcommand,
        after_help = "\
Examples:
  eurekad overrides list --app BILLING
  eurekad overrides lift --app BILLING --reason 'incident 12 is over'"
    )]
    Overrides(OverridesCommand),
    /// How this node and its peers keep up with each other
    #[command(after_help = "\
Examples:
  eurekad peers                                     who is behind, and why
  eurekad peers --json | jq '.[] | select(.in_sync | not) | .peer'")]
    Peers(NodeArgs),
    /// How the node is
    #[command(after_help = "\
Examples:
  eurekad status --server http://eureka-1:8761
  eurekad status --json | jq -r .health")]
    Status(NodeArgs),
    /// Write the registry or its history to a file
    #[command(
        long_about = "Write the registry, or with --history the whole log, to standard output or a \
            file.\n\nThe registry in NDJSON is one registration a line, which `eurekad import` and \
            POST /eureka/apps/APP take; drains and quarantines stand in it with their end, which JSON \
            and XML, the documents of /eureka/apps, cannot say. The history in NDJSON holds every record in full and the \
            state at its end, and `eurekad import --history` makes a store of it.",
        after_help = "\
Examples:
  eurekad export > registry.ndjson
  eurekad export --format xml --at -1h --output before.xml
  eurekad export --history --output history.ndjson
  eurekad export --history --data-dir /var/lib/eurekad | gzip > history.ndjson.gz"
    )]
    Export(ExportArgs),
    /// Register what a file holds, or make a store of a history
    #[command(
        long_about = "Register every instance of a file with a running server, overrides included. \
            The file may be NDJSON of `eurekad export`, or the JSON or XML of /eureka/apps of any \
            Eureka server.\n\nDrains and quarantines in NDJSON come back with what is left of their \
            time; who was drained until before now is left out. To JSON, XML and servers that know \
            no such they are overrides without an end, and it is said that they are.\n\nWith --history, make a store of a history instead, in a data directory \
            that has none: positions in the log are kept, and a server can be started on it.",
        after_help = "\
Examples:
  curl -s http://old-eureka:8761/eureka/apps | eurekad import
  eurekad import registry.ndjson --server http://eureka-1:8761
  eurekad import --history history.ndjson --data-dir /var/lib/eurekad-new"
    )]
    Import(ImportArgs),
    /// Look into, mend and shrink the store of a stopped node
    #[command(
        subcommand,
        after_help = "\
Examples:
  eurekad store check --data-dir /var/lib/eurekad
  eurekad store stats --data-dir /var/lib/eurekad"
    )]
    Store(StoreCommand),
    /// Print the completions of a shell
    #[command(after_help = "\
Examples:
  eurekad completions bash > /etc/bash_completion.d/eurekad
  eurekad completions zsh > \"${fpath[1]}/_eurekad\"
  eurekad completions fish > ~/.config/fish/completions/eurekad.fish")]
    Completions { shell: Shell },
    /// Print the manual page, or write all of them into a directory
    #[command(after_help = "\
Examples:
  eurekad man | man -l -
  eurekad man --dir /usr/local/share/man/man1")]
    Man {
        /// Write the pages of all commands into this directory, which is created if need be
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Stands for the server's own options, which are read elsewhere.
#[derive(Debug, Args)]
pub(in crate::cli) struct AnyProperty {
    /// Where the log is kept [default: ./eurekad-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// A .yml, .yaml or .properties file; may be given several times
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Any property as --name=value
    #[arg(value_name = "--PROPERTY=VALUE", allow_hyphen_values = true)]
    properties: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Which server to ask, and as whom.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct ServerArgs {
    /// The server's URL, with its context path if it has one [default: http://localhost:8761]
    ///
    /// May hold user and password. A service URL, such as clients have it, will do: /eureka at its
    /// end is left off.
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(in crate::cli) server: Option<String>,
    /// Who asks; the password is taken from EUREKAD_PASSWORD unless it follows here
    #[arg(long, value_name = "NAME[:PASSWORD]", help_heading = "Server")]
    pub(in crate::cli) user: Option<String>,
    /// Trust the certification authorities of this file too, in PEM form
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub(in crate::cli) ca: Option<PathBuf>,
    /// Show this certificate to the server; needs --key
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "Server")]
    pub(in crate::cli) cert: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Server")]
    pub(in crate::cli) key: Option<PathBuf>,
    /// How long to wait for an answer to begin, s
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        help_heading = "Server"
    )]
    pub(in crate::cli) timeout: u64,
}

/// A running node or the store of a stopped one.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct SourceArgs {
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
    /// Read the store of a stopped node (a copy in TMPDIR) instead of asking a running one
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["server", "user"],
        help_heading = "Server"
    )]
    pub(in crate::cli) data_dir: Option<PathBuf>,
}

/// How answers look.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(in crate::cli) struct ViewArgs {
    /// Times in UTC instead of this machine's zone, as shown and, without a zone, as given
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) utc: bool,
    /// When to use colours
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t = Colour::Auto,
        help_heading = "Output"
    )]
    pub(in crate::cli) color: Colour,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

/// Whose changes: `APP` or `APP/ID`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch on the command line"
)]
pub(in crate::cli) struct HistoryArgs {
    /// An application, or an instance as APP/ID [default: all]
    #[arg(value_name = "APP[/ID]")]
    pub(in crate::cli) of: Option<String>,
    /// From this moment on: RFC 3339, a date, epoch seconds or ms, or a span back such as -15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(in crate::cli) from: Option<String>,
    /// Up to this moment, which is left out itself
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(in crate::cli) to: Option<String>,
    /// Only these kinds, by comma: registered, re-registered, override-set, override-lifted,
    /// status-restored, metadata-updated, cancelled, evicted, drained, quarantined, released, ...
    #[arg(long, value_name = "KIND[,KIND...]")]
    pub(in crate::cli) kind: Option<String>,
    /// Only changes whose reason holds this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) reason: Option<String>,
    /// Only changes of a principal or user agent that holds this text
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) actor: Option<String>,
    /// Only changes that came from: client, operator, peer, timer, peer:NAME
    #[arg(long, value_name = "ORIGIN")]
    pub(in crate::cli) origin: Option<String>,
    /// Only changes asked for from this address or network
    #[arg(long, value_name = "IP[/PREFIX]")]
    pub(in crate::cli) address: Option<String>,
    /// The oldest change first
    #[arg(long)]
    pub(in crate::cli) oldest_first: bool,
    /// At most this many changes
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "all"
    )]
    pub(in crate::cli) limit: u64,
    /// All changes that there are
    #[arg(long)]
    pub(in crate::cli) all: bool,
    /// Go on behind this cursor, which a JSON answer gave as "next"
    #[arg(long, value_name = "CURSOR", conflicts_with_all = ["all", "data_dir"])]
    pub(in crate::cli) cursor: Option<String>,
    /// The server's JSON document, one page of at most 1000 changes
    #[arg(long, conflicts_with_all = ["ndjson", "all"], help_heading = "Output")]
    pub(in crate::cli) json: bool,
    /// One JSON object a line
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) ndjson: bool,
    #[command(flatten)]
    pub(in crate::cli) source: SourceArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AtArgs {
    /// The moment: RFC 3339, a date, epoch seconds or ms, now, or a span back such as -15m
    #[arg(
        value_name = "TIME",
        allow_hyphen_values = true,
        required_unless_present = "lsn",
        conflicts_with = "lsn"
    )]
    pub(in crate::cli) time: Option<String>,
    /// Right after this change
    #[arg(long, value_name = "LSN")]
    pub(in crate::cli) lsn: Option<u64>,
    /// Only this application
    #[arg(long, value_name = "APP")]
    pub(in crate::cli) app: Option<String>,
    /// The document of /eureka/apps in JSON
    #[arg(long, conflicts_with = "xml", help_heading = "Output")]
    pub(in crate::cli) json: bool,
    /// The document of /eureka/apps in XML
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) xml: bool,
    #[command(flatten)]
    pub(in crate::cli) source: SourceArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    /// The earlier moment: RFC 3339, a date, epoch seconds or ms, or a span back such as -15m
    #[arg(value_name = "FROM", allow_hyphen_values = true)]
    pub(in crate::cli) from: String,
    /// The later moment
    #[arg(value_name = "TO", allow_hyphen_values = true, default_value = "now")]
    pub(in crate::cli) to: String,
    /// Only this application
    #[arg(long, value_name = "APP")]
    pub(in crate::cli) app: Option<String>,
    /// Exit with 1 if there are differences
    #[arg(long)]
    pub(in crate::cli) exit_code: bool,
    /// The server's JSON document
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) source: SourceArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WatchArgs {
    /// The first change to print, by its LSN [default: whatever comes from now on]
    #[arg(long, value_name = "LSN")]
    pub(in crate::cli) from: Option<u64>,
    /// Only these applications, by comma
    #[arg(long, value_name = "APP[,APP...]")]
    pub(in crate::cli) app: Option<String>,
    /// Only these kinds, by comma; see history --help
    #[arg(long, value_name = "KIND[,KIND...]")]
    pub(in crate::cli) kind: Option<String>,
    /// End after this many changes
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(in crate::cli) count: Option<u64>,
    /// End with an error when the connection is cut, instead of opening it again
    #[arg(long)]
    pub(in crate::cli) no_reconnect: bool,
    /// One JSON object a line
    #[arg(long, visible_alias = "ndjson", help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
    /// The instance as APP/ID
    #[arg(value_name = "APP/ID")]
    pub(in crate::cli) instance: String,
    /// The server's JSON document
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct NodeArgs {
    /// The server's JSON
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}
