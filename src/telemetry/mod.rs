//! The log: levels by target, for people or as JSON, on standard error, so that standard output
//! stays free for what commands print.
//!
//! What the levels are comes from `config`; what is logged is each module's own affair.

pub mod exposition;
pub mod process;

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, fmt};

use crate::config::{LogConfig, LogFormat, LogLevel};

/// Sets the log up for this process. Colours only where a person looks at a terminal.
///
/// # Errors
/// If the process has a log already.
pub fn init(config: &LogConfig) -> Result<(), TryInitError> {
    let ansi = io::stderr().is_terminal();
    subscriber(config, io::stderr, ansi).try_init()
}

/// The log as it would write to `writer`, without making it the process's.
pub fn subscriber<W>(config: &LogConfig, writer: W, ansi: bool) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = match config.format {
        LogFormat::Human => fmt::layer().with_writer(writer).with_ansi(ansi).boxed(),
        LogFormat::Json => fmt::layer()
            .json()
            .flatten_event(true)
            .with_ansi(false)
            .with_writer(writer)
            .boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(levels(config)))
}

fn levels(config: &LogConfig) -> Targets {
    let targets = config
        .targets
        .iter()
        .map(|(target, level)| (target.clone(), filter(*level)));
    Targets::new()
        .with_default(filter(config.root))
        .with_targets(targets)
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing::{debug, info, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a log of this configuration writes for a few events.
    fn written(config: &LogConfig, ansi: bool) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = subscriber(config, move || writer.clone(), ansi);
        tracing::subscriber::with_default(subscriber, || {
            info!(target: "eurekad::store", lsn = 42, "committed");
            debug!(target: "eurekad::store", "batch taken");
            info!(target: "hyper", "connection");
            warn!(target: "hyper", "broken connection");
        });
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn levels_apply_by_target() {
        let text = written(&LogConfig::default(), false);
        assert!(
            text.contains("committed") && text.contains("connection"),
            "{text}"
        );
        assert!(!text.contains("batch taken"), "{text}");

        let config = LogConfig {
            root: LogLevel::Error,
            targets: vec![
                ("eurekad".to_owned(), LogLevel::Debug),
                ("hyper".to_owned(), LogLevel::Warn),
            ],
            ..LogConfig::default()
        };
        let text = written(&config, false);
        assert!(
            text.contains("committed") && text.contains("batch taken"),
            "{text}"
        );
        assert!(text.contains("broken connection"), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn colours_are_written_only_when_asked_for() {
        assert!(!written(&LogConfig::default(), false).contains('\u{1b}'));
        assert!(written(&LogConfig::default(), true).contains('\u{1b}'));
    }

    #[test]
    fn json_is_one_object_a_line_with_the_fields_at_the_top() {
        let config = LogConfig {
            format: LogFormat::Json,
            ..LogConfig::default()
        };
        let text = written(&config, true);
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["message"], "committed");
        assert_eq!(first["lsn"], 42);
        assert_eq!(first["level"], "INFO");
        assert_eq!(first["target"], "eurekad::store");
    }
}
