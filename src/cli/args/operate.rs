//! What operators do to instances.

use clap::{Args, Subcommand};

use super::{ServerArgs, ViewArgs};

#[derive(Debug, Args)]
pub(in crate::cli) struct HoldArgs {
    /// The instance as APP/ID
    #[arg(value_name = "APP/ID")]
    pub(in crate::cli) instance: String,
    /// For how long: 30s, 15m, 2h, PT15M
    #[arg(long = "for", value_name = "DURATION", required = true)]
    pub(in crate::cli) duration: String,
    /// Why; it stands in the history
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) reason: Option<String>,
    /// What the server answered
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReleaseArgs {
    /// The instance as APP/ID
    #[arg(value_name = "APP/ID")]
    pub(in crate::cli) instance: String,
    /// Why; it stands in the history
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) reason: Option<String>,
    /// What the server answered
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum OverridesCommand {
    /// Lift every override of an application
    #[command(after_help = "\
Examples:
  eurekad overrides lift --app BILLING --reason 'incident 12 is over'")]
    Lift(LiftArgs),
    /// List the instances whose status was set
    #[command(after_help = "\
Examples:
  eurekad overrides list
  eurekad overrides list --app BILLING --json | jq -r .[].instance")]
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LiftArgs {
    /// The application
    #[arg(long, value_name = "APP")]
    pub(in crate::cli) app: String,
    /// Why; it stands in the history
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) reason: Option<String>,
    /// What the server answered
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Only this application
    #[arg(long, value_name = "APP")]
    pub(in crate::cli) app: Option<String>,
    /// An array of {app, instance, status, override}
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) server: ServerArgs,
    #[command(flatten)]
    pub(in crate::cli) view: ViewArgs,
}
