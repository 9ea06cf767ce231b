//! The command line beside the server: `eurekad history`, `at`, `diff`, `watch`, `explain`, `drain`,
//! `export`, `store check` and so on.
//!
//! Most commands ask a running node over its API and show the answer as a table, or with `--json`
//! exactly as it came. Those about the past also read the store of a stopped node. The server's own
//! command line, which takes every property as an option, stays in [`crate::config`]; [`run`] says
//! whether the arguments are for this module at all.

mod args;
mod at;
mod call;
mod changes;
mod client;
mod diff;
mod explain;
mod export;
mod failure;
mod history;
mod holds;
mod import;
mod import_file;
mod import_history;
mod instances;
mod lines;
mod node;
mod offline;
mod operate;
mod pages;
mod past;
mod screen;
mod sink;
mod store;
mod text;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _};

use self::args::{Cli, Command, OverridesCommand, StoreCommand, ViewArgs};
use self::client::{Client, ServerEnvironment};
use self::failure::{Exit, Failure, Outcome};
use self::screen::Screen;
use self::text::Moments;
use crate::config::{CLIENT_COMMANDS, Secret, mask};

/// Runs the command that `arguments` (behind the program's name) ask for, to its end; `None` if they
/// are for the server.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Option<ExitCode> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_ours = |argument: Option<&OsString>| {
        argument
            .and_then(|argument| argument.to_str())
            .is_some_and(|argument| CLIENT_COMMANDS.contains(&argument))
    };
    if arguments.first().is_some_and(|first| first == "help") && is_ours(arguments.get(1)) {
        // `help store check` is `store check --help`.
        arguments.remove(0);
        arguments.push("--help".into());
    } else if !is_ours(arguments.first()) {
        return None;
    }
    let words = std::iter::once("eurekad".into()).chain(arguments);
    let parsed = command()
        .try_get_matches_from(words)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let mut cli = match parsed {
        Ok(cli) => cli,
        Err(mut error) => {
            mask_urls(&mut error);
            // Help goes to standard output, which may be closed by now.
            let _ = error.print();
            let code = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            return Some(code.into());
        }
    };
    let environment = Environment::read(variables);
    let mut screen = Screen::new(cli.command.view(), environment.has_no_color);
    cli.command.read_times(&screen.moments);
    let outcome = dispatch(cli.command, &environment, &mut screen).and_then(|exit| {
        screen.finish()?;
        Ok(exit)
    });
    Some(match outcome {
        Ok(exit) => exit.into(),
        Err(Failure::PipeClosed) => ExitCode::SUCCESS,
        Err(Failure::Told { exit, text }) => {
            // What was written before it belongs before it.
            let _ = screen.finish();
            screen.note(&text);
            exit.into()
        }
    })
}

/// The command line as clap knows it, with the exit codes below every command.
fn command() -> clap::Command {
    fn with_exit_codes(command: clap::Command) -> clap::Command {
        let after = command.get_after_help().map(ToString::to_string);
        let after = match after {
            Some(examples) => format!("{examples}\n\n{}", args::EXIT_CODES),
            None => args::EXIT_CODES.to_owned(),
        };
        let names: Vec<String> = command
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect();
        let mut command = command.after_help(after);
        for name in names {
            command = command.mut_subcommand(name, with_exit_codes);
        }
        command
    }
    with_exit_codes(Cli::command())
}

/// What the environment says.
#[derive(Debug, Default)]
struct Environment {
    server: ServerEnvironment,
    has_no_color: bool,
}

impl Environment {
    fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut read = Self::default();
        for (name, value) in variables {
            let (Some(name), Ok(value)) = (name.to_str(), value.into_string()) else {
                continue;
            };
            if value.is_empty() {
                continue;
            }
            match name {
                "EUREKAD_SERVER" => read.server.server = Some(value),
                "EUREKAD_USER" => read.server.user = Some(value),
                "EUREKAD_PASSWORD" => read.server.password = Some(Secret::new(value)),
                "NO_COLOR" => read.has_no_color = true,
                _ => {}
            }
        }
        read
    }
}

impl Command {
    /// Reads the times that were typed in the zone in which times are written: from here on all name
    /// theirs.
    fn read_times(&mut self, moments: &Moments) {
        let times = match self {
            Self::History(arguments) => vec![&mut arguments.from, &mut arguments.to],
            Self::At(arguments) => vec![&mut arguments.time],
            Self::Export(arguments) => vec![&mut arguments.at],
            Self::Diff(arguments) => {
                arguments.from = moments.read(&arguments.from);
                arguments.to = moments.read(&arguments.to);
                return;
            }
            _ => return,
        };
        for time in times.into_iter().flatten() {
            *time = moments.read(time);
        }
    }

    fn view(&self) -> ViewArgs {
        match self {
            Self::History(arguments) => arguments.view,
            Self::At(arguments) => arguments.view,
            Self::Diff(arguments) => arguments.view,
            Self::Watch(arguments) => arguments.view,
            Self::Explain(arguments) => arguments.view,
            Self::Drain(arguments) | Self::Quarantine(arguments) => arguments.view,
            Self::Release(arguments) => arguments.view,
            Self::Overrides(OverridesCommand::Lift(arguments)) => arguments.view,
            Self::Overrides(OverridesCommand::List(arguments)) => arguments.view,
            Self::Peers(arguments) | Self::Status(arguments) => arguments.view,
            Self::Store(StoreCommand::Check(arguments)) => arguments.view,
            Self::Store(StoreCommand::Repair(arguments)) => arguments.view,
            Self::Store(StoreCommand::Stats(arguments)) => arguments.view,
            Self::Export(arguments) => ViewArgs {
                utc: arguments.utc,
                ..ViewArgs::default()
            },
            Self::Serve(_)
            | Self::Config(_)
            | Self::Import(_)
            | Self::Store(StoreCommand::Compact(_))
            | Self::Completions { .. }
            | Self::Man { .. } => ViewArgs::default(),
        }
    }
}

fn dispatch(asked: Command, environment: &Environment, screen: &mut Screen) -> Outcome {
    let server = &environment.server;
    match asked {
        // The server reads these itself; they come here only if somebody asks for them by mistake.
        Command::Serve(_) | Command::Config(_) => {
            Err(Failure::usage("this belongs to the server's command line"))
        }
        Command::History(arguments) => {
            if let Some(dir) = &arguments.source.data_dir {
                return past::history(dir, &arguments, screen);
            }
            let client = Client::new(&arguments.source.server, server)?;
            wait(history::run(&client, &arguments, screen))
        }
        Command::At(arguments) => {
            if let Some(dir) = &arguments.source.data_dir {
                return past::at(dir, &arguments, screen);
            }
            let client = Client::new(&arguments.source.server, server)?;
            wait(at::run(&client, &arguments, screen))
        }
        Command::Diff(arguments) => {
            if let Some(dir) = &arguments.source.data_dir {
                return past::diff(dir, &arguments, screen);
            }
            let client = Client::new(&arguments.source.server, server)?;
            wait(diff::run(&client, &arguments, screen))
        }
        Command::Watch(arguments) => {
            let client = Client::new(&arguments.server, server)?;
            wait(watch::run(&client, &arguments, screen))
        }
        Command::Explain(arguments) => {
            let client = Client::new(&arguments.server, server)?;
            wait(explain::run(&client, &arguments, screen))
        }
        Command::Drain(arguments) => {
            let client = Client::new(&arguments.server, server)?;
            wait(operate::hold(&client, "drain", &arguments, screen))
        }
        Command::Quarantine(arguments) => {
            let client = Client::new(&arguments.server, server)?;
            wait(operate::hold(&client, "quarantine", &arguments, screen))
        }
        Command::Release(arguments) => {
            let client = Client::new(&arguments.server, server)?;
            wait(operate::release(&client, &arguments, screen))
        }
        Command::Overrides(OverridesCommand::Lift(arguments)) => {
            let client = Client::new(&arguments.server, server)?;
            wait(operate::lift(&client, &arguments, screen))
        }
        Command::Overrides(OverridesCommand::List(arguments)) => {
            let client = Client::new(&arguments.server, server)?;
            wait(operate::list(&client, &arguments, screen))
        }
        Command::Peers(arguments) => {
            let client = Client::new(&arguments.server, server)?;
            wait(node::peers(&client, &arguments, screen))
        }
        Command::Status(arguments) => {
            let client = Client::new(&arguments.server, server)?;
            wait(node::status(&client, &arguments, screen))
        }
        Command::Export(arguments) => export::run(&arguments, server, screen),
        Command::Import(arguments) => {
            if let Some(dir) = &arguments.data_dir {
                return import_history::run(dir, &arguments, screen);
            }
            let client = Client::new(&arguments.server, server)?;
            wait(import::run(&client, &arguments, screen))
        }
        Command::Store(StoreCommand::Check(arguments)) => store::check(&arguments, screen),
        Command::Store(StoreCommand::Repair(arguments)) => store::repair(&arguments, screen),
        Command::Store(StoreCommand::Stats(arguments)) => store::stats(&arguments, screen),
        Command::Store(StoreCommand::Compact(arguments)) => store::compact(&arguments, screen),
        Command::Completions { shell } => pages::completions(shell, command(), screen),
        Command::Man { dir } => pages::man(dir.as_deref(), command(), screen),
    }
}

/// Waits for an answer, on this thread: there is nothing else to do meanwhile.
fn wait(answer: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::refused(format!("cannot start the runtime: {error}")))?
        .block_on(answer)
}

/// What was typed at the wrong place may be a URL with a password, and is repeated in the message.
fn mask_urls(error: &mut clap::Error) {
    let typed = [ContextKind::InvalidArg, ContextKind::InvalidValue];
    for kind in typed {
        let masked = match error.get(kind) {
            Some(ContextValue::String(text)) if text.contains("://") => mask("", text),
            Some(_) | None => continue,
        };
        error.insert(kind, ContextValue::String(masked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_known_to_the_server_s_command_line() {
        let mut ours: Vec<String> = command()
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .filter(|name| name != "serve" && name != "config")
            .collect();
        let mut told: Vec<&str> = CLIENT_COMMANDS.to_vec();
        ours.sort();
        told.sort_unstable();
        assert_eq!(ours, told);
    }

    #[test]
    fn the_definition_of_the_commands_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn the_server_s_arguments_are_left_to_the_server() {
        for arguments in [
            &[][..],
            &["serve"],
            &["config"],
            &["help"],
            &["--help"],
            &["--version"],
            &["--server.port=0"],
            &["--data-dir", "history"],
            &["histroy"],
            &["help", "serve"],
        ] {
            let arguments = arguments.iter().map(OsString::from);
            assert!(run(arguments, std::iter::empty()).is_none());
        }
    }

    #[test]
    fn a_url_at_the_wrong_place_is_repeated_without_its_secrets() {
        for words in [
            ["eurekad", "peers", "http://alice:s3cret@n1/"],
            ["eurekad", "peers", "--limit=http://n1/?token=s3cret"],
            ["eurekad", "history", "--limit=http://n1/?token=s3cret"],
        ] {
            let mut error = Cli::command().try_get_matches_from(words).unwrap_err();
            mask_urls(&mut error);
            let text = error.render().to_string();
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}
