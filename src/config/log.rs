//! What is logged and in which shape; `telemetry` sets it up.

use super::choice::choice;

choice! {
    /// A level, as `logging.level.*` has it.
    LogLevel {
        Info = "info",
        Trace = "trace",
        Debug = "debug",
        Warn = "warn",
        Error = "error",
        Off = "off",
    }
}

choice! {
    /// `eurekad.log-format`.
    LogFormat {
        /// One line for people.
        Human = "human",
        /// One JSON object a line.
        Json = "json",
    }
}

/// Levels and format of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    /// `logging.level.root`.
    pub root: LogLevel,
    /// Other levels by log target (a module path such as `eurekad::store`), sorted.
    pub targets: Vec<(String, LogLevel)>,
    /// `eurekad.log-format`.
    pub format: LogFormat,
}
