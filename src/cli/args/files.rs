//! Registries and histories in files.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ServerArgs, SourceArgs};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ExportFormat {
    /// One registration, or one record, a line
    Ndjson,
    /// The document of /eureka/apps in JSON
    Json,
    /// The document of /eureka/apps in XML
    Xml,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    /// The form
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ExportFormat::Ndjson)]
    pub(in crate::cli) format: ExportFormat,
    /// The registry as it was at this moment
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "history"
    )]
    pub(in crate::cli) at: Option<String>,
    /// Take a time without a zone for one in UTC instead of this machine's zone
    #[arg(long)]
    pub(in crate::cli) utc: bool,
    /// The whole log instead of the registry; in NDJSON
    #[arg(long)]
    pub(in crate::cli) history: bool,
    /// Where to write, - for standard output; a file is replaced when it is complete, a device or a
    /// FIFO is written into
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(in crate::cli) output: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) source: SourceArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The file to read, - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(in crate::cli) file: PathBuf,
    /// Make a store of a history, in --data-dir
    #[arg(long, requires = "data_dir")]
    pub(in crate::cli) history: bool,
    /// The data directory to make, which must not hold a store yet; with --history
    #[arg(
        long,
        value_name = "DIR",
        requires = "history",
        conflicts_with_all = ["server", "user"]
    )]
    pub(in crate::cli) data_dir: Option<PathBuf>,
    /// Registrations in flight at a time
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    pub(in crate::cli) concurrency: u16,
    /// Why; it stands in the history
    #[arg(long, value_name = "TEXT", default_value = "import")]
    pub(in crate::cli) reason: String,
    /// Read and check the file, and change nothing
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
}
