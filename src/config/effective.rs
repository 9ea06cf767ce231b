//! `eurekad config`: every setting in force and where it came from, as text. Secrets are masked
//! before they get here.

use std::fmt::Write as _;

use super::bind::Setting;

/// One line a setting, by name: `key = value   # origin`.
pub(crate) fn print(settings: &[Setting]) -> String {
    let mut sorted: Vec<&Setting> = settings.iter().collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    let line = |setting: &Setting| format!("{} = {}", setting.key, one_line(&setting.value));
    // One very long value should not push every origin out of sight.
    let width = sorted
        .iter()
        .map(|s| line(s).chars().count())
        .filter(|w| *w <= 80)
        .max();
    let width = width.unwrap_or_default();
    let mut out = String::new();
    for setting in sorted {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:width$}  # {}", line(setting), setting.origin);
    }
    out
}

fn one_line(value: &str) -> String {
    value
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
