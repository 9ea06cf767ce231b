//! The `eurekad` program: arguments, configuration, the node, and the wait for a signal to stop; or
//! one of the commands that ask a node.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use eurekad::causes::with_causes;
use eurekad::clock::SystemClock;
use eurekad::config::{Command, Config, DiskFiles, Loaded, Machine};
use eurekad::node::Node;
use eurekad::signals::Signals;
use eurekad::telemetry;
use tracing::{error, info, warn};

fn main() -> ExitCode {
    if let Some(code) = eurekad::cli::run(std::env::args_os().skip(1), std::env::vars_os()) {
        return code;
    }
    let loaded = Config::load(
        std::env::args_os().skip(1),
        std::env::vars_os(),
        &DiskFiles {
            cwd: std::env::current_dir().unwrap_or_default(),
        },
        &Machine::detect(),
    );
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(errors) => return complain(&errors.to_string(), 2),
    };
    let outcome = match &loaded.command {
        Command::Serve => serve(loaded),
        Command::PrintConfig => print_config(&loaded),
        Command::Help(text) => say(text),
        Command::Version => say(concat!("eurekad ", env!("CARGO_PKG_VERSION"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&with_causes(error.as_ref()), 1),
    }
}

/// Runs a node until a signal ends it.
fn serve(loaded: Loaded) -> Result<()> {
    telemetry::init(&loaded.config.log).context("setting up the log")?;
    for warning in &loaded.warnings {
        warn!("{warning}");
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if loaded.config.server.worker_threads > 0 {
        runtime.worker_threads(loaded.config.server.worker_threads);
    }
    let runtime = runtime
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        // Before the port is open, so that a signal is never lost.
        let mut signals = Signals::listen().context("listening for signals")?;
        let node = tokio::select! {
            node = Node::start(loaded.config, Arc::new(SystemClock::new())) => node?,
            _ = signals.next() => return Ok(()),
        };
        let ended = tokio::select! {
            biased;
            signal = signals.next() => Ok(signal),
            reason = node.failed() => Err(reason),
        };
        match ended {
            Ok(signal) => {
                info!(signal, "stopping: {signal}");
                signals.stop(node).await
            }
            Err(reason) => {
                error!(%reason, "the node cannot go on: {reason}");
                // The store is gone already; what is left to close may complain about that.
                let _ = signals.stop(node).await;
                bail!("the node cannot go on: {reason}")
            }
        }
    })
}

/// The settings on standard output, and beside them what a start would warn of.
fn print_config(loaded: &Loaded) -> Result<()> {
    say(&loaded.print_effective())?;
    let mut err = std::io::stderr();
    for warning in &loaded.warnings {
        // Nothing is left to tell it to if this fails.
        let _ = writeln!(err, "eurekad: warning: {warning}");
    }
    Ok(())
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{}", text.trim_end()).context("writing to standard output")
}

fn complain(text: &str, code: u8) -> ExitCode {
    // Nothing is left to tell it to if this fails.
    let _ = writeln!(std::io::stderr(), "eurekad: {text}");
    ExitCode::from(code)
}
