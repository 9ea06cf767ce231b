//! The store of a stopped node.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::ViewArgs;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum StoreCommand {
    /// Whether a store is sound; changes nothing in it
    #[command(
        long_about = "Look through the whole store of a stopped node: every segment, every record, \
            positions without holes, the watermark, the checkpoints. Nothing in the data directory is \
            changed: the database, which cannot be opened without writing, is copied first. What a start \
            would do is tried on another copy; one at a time they take as much space as the database, or \
            twice as much if it is damaged.\n\n\
            Exits with 0 if the store is sound, 1 if it is damaged, 3 if it cannot be read or is in use.",
        after_help = "\
Examples:
  eurekad store check --data-dir /var/lib/eurekad
  eurekad store check --data-dir /var/lib/eurekad --temp-dir /mnt/big --json"
    )]
    Check(CheckArgs),
    /// Make a damaged store usable again
    #[command(
        long_about = "Make a damaged store usable again. What can be mended without loss is mended by \
            every start of the server; this is for the rest.\n\n\
            keep-rest   keep what can still be read and go on behind the lost records\n\
            move-aside  move the store into quarantine-TIME and begin an empty one, which is filled \
            from the peers",
        after_help = "\
Examples:
  eurekad store repair --data-dir /var/lib/eurekad --dry-run
  eurekad store repair --data-dir /var/lib/eurekad --mode keep-rest --yes"
    )]
    Repair(RepairArgs),
    /// What a store holds: segments, kinds of changes, checkpoints
    #[command(after_help = "\
Examples:
  eurekad store stats --data-dir /var/lib/eurekad
  eurekad store stats --data-dir /var/lib/eurekad --json | jq .kinds")]
    Stats(StatsArgs),
    /// Rewrite the store of a stopped node to give back the space of dropped history
    #[command(
        long_about = "Rewrite the store of a stopped node to give back the space of dropped history. \
            There has to be space for a copy beside it.",
        after_help = "\
Examples:
  eurekad store compact --data-dir /var/lib/eurekad"
    )]
    Compact(CompactArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DataDirArgs {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "eurekad-data")]
    pub(in crate::cli) data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArgs {
    #[command(flatten)]
    pub(in crate::cli) dir: DataDirArgs,
    /// Where the copy of the database is put [default: the system's directory for such]
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) temp_dir: Option<PathBuf>,
    /// One JSON document
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum RepairMode {
    KeepRest,
    MoveAside,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RepairArgs {
    #[command(flatten)]
    pub(in crate::cli) dir: DataDirArgs,
    /// What to do with what cannot be mended without loss
    #[arg(long, value_enum, value_name = "MODE", default_value_t = RepairMode::KeepRest)]
    pub(in crate::cli) mode: RepairMode,
    /// Try it on a copy, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(in crate::cli) dry_run: bool,
    /// Where the copy is put for --dry-run [default: the system's directory for such]
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) temp_dir: Option<PathBuf>,
    /// Do it
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StatsArgs {
    #[command(flatten)]
    pub(in crate::cli) dir: DataDirArgs,
    /// One JSON document
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompactArgs {
    #[command(flatten)]
    pub(in crate::cli) dir: DataDirArgs,
}
