//! What is logged and in which shape; `telemetry` sets it up.

use std::collections::BTreeMap;

use super::bind::Binder;
use super::choice::{Choice, choice};
use super::name::uniform;

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

/// Java packages and the part of this server that does the same, longest first.
const PACKAGES: &[(&str, &str)] = &[
    (
        "com.netflix.eureka.registry.responsecacheimpl",
        "eurekad::cache",
    ),
    ("com.netflix.eureka.registry", "eurekad::registry"),
    ("com.netflix.eureka.cluster", "eurekad::replication"),
    ("com.netflix.eureka.resources", "eurekad::http"),
    ("com.netflix.eureka", "eurekad"),
    ("com.netflix.discovery", "eurekad::replication"),
    ("org.springframework.cloud.netflix.eureka", "eurekad"),
    ("org.springframework.web", "eurekad::http"),
    ("org.springframework.boot.actuate", "eurekad::http"),
    ("org.springframework.boot.web", "eurekad::http"),
    ("org.apache.catalina", "hyper"),
    ("org.apache.coyote", "hyper"),
    ("org.apache.tomcat", "hyper"),
];

/// The log target that a logger's name means here; `None` if nothing here is of that kind.
fn target(logger: &str) -> Option<String> {
    let name = uniform(logger);
    let is_below = |package: &str| {
        name.strip_prefix(package)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some((_, target)) = PACKAGES.iter().find(|(package, _)| is_below(package)) {
        return Some((*target).to_owned());
    }
    let is_module = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
    let is_java = ["com.", "org.", "io.", "net.", "java", "reactor."];
    let is_java = is_java.iter().any(|prefix| name.starts_with(prefix));
    (!is_java && logger.chars().all(is_module)).then(|| logger.replace('.', "::"))
}

/// A level in Spring's words.
fn level(text: &str) -> Option<LogLevel> {
    match text.to_ascii_lowercase().as_str() {
        "fatal" => Some(LogLevel::Error),
        "false" => Some(LogLevel::Off),
        "true" => Some(LogLevel::Debug),
        word => LogLevel::from_word(word),
    }
}

impl LogConfig {
    pub(super) fn bind(b: &mut Binder<'_>) -> Self {
        let mut config = Self::default();
        // (target, is our own name for it, level): an own name wins over a Java logger.
        let mut levels: Vec<(String, bool, LogLevel)> = Vec::new();
        for (logger, found) in b.map("logging.level") {
            if found.value.is_empty() {
                continue;
            }
            let Some(level) = level(&found.value) else {
                b.refuse(found, LogLevel::words());
                continue;
            };
            b.note(
                &format!("logging.level.{logger}"),
                level.as_str(),
                found.origin,
            );
            if logger.eq_ignore_ascii_case("root") {
                config.root = level;
            } else if let Some(target) = target(&logger) {
                let own = logger.replace('.', "::") == target;
                levels.push((target, own, level));
            }
        }
        levels.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let by_target: BTreeMap<String, LogLevel> = levels
            .into_iter()
            .map(|(target, _, level)| (target, level))
            .collect();
        config.targets = by_target.into_iter().collect();
        config.format = b.choice("eurekad.log-format", config.format);
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_loggers_mean_the_parts_that_do_the_same_here() {
        for (logger, expected) in [
            ("com.netflix.eureka", Some("eurekad")),
            ("com.netflix.eureka.registry", Some("eurekad::registry")),
            (
                "com.netflix.eureka.registry.ResponseCacheImpl",
                Some("eurekad::cache"),
            ),
            ("com.netflix.eurekas", None),
            ("org.springframework", None),
            (
                "org.springframework.cloud.netflix.eureka.server",
                Some("eurekad"),
            ),
            ("org.hibernate", None),
            ("eurekad", Some("eurekad")),
            ("eurekad.store", Some("eurekad::store")),
            ("eurekad::store", Some("eurekad::store")),
            ("a,b=trace", None),
        ] {
            assert_eq!(target(logger).as_deref(), expected, "{logger}");
        }
    }
}
