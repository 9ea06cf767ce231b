//! Prometheus' text format 0.0.4. Families come with their help and type even if they have no
//! sample yet, so that a scrape shows every name there is.
//!
//! Written by hand: what is shown is read from where it is kept anyway when somebody asks, and the
//! format has three kinds of lines. A client library would want a second copy of each figure.

use std::fmt::{Display, Write as _};

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family's samples mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, but for a restart. The name ends with `_total`.
    Counter,
    Gauge,
    /// See [`Family::histogram`].
    Histogram,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Labels and their values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A text in the making.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a family. `help` is one line.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        debug_assert!(
            (kind == Kind::Counter) == name.ends_with("_total"),
            "{name} does not say what it is"
        );
        let _ = writeln!(self.text, "# HELP {name} {help}");
        let _ = writeln!(self.text, "# TYPE {name} {}", kind.as_str());
        Family {
            text: &mut self.text,
            name,
        }
    }

    /// A family of one sample that only rises.
    pub fn counter(&mut self, name: &'static str, help: &str, value: u64) {
        self.family(name, Kind::Counter, help).sample(&[], value);
    }

    /// A family of one sample.
    pub fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help).sample(&[], value);
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// A family whose samples are being written.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Family<'_> {
    /// One sample; the value is a number.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// A distribution: how many fell into each bucket, the last of which has no upper bound, and
    /// what they came to together.
    pub fn histogram(&mut self, labels: Labels<'_>, bounds: &[f64], counts: &[u64], sum: f64) {
        let mut upto = 0;
        for (place, count) in counts.iter().enumerate() {
            upto += count;
            let bound = bounds.get(place).copied();
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            self.line("_bucket", labels, Some(&bound), upto);
        }
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, upto);
    }

    fn line(&mut self, end: &str, labels: Labels<'_>, bound: Option<&str>, value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(end);
        let bound = bound.map(|bound| ("le", bound));
        let mut separator = '{';
        for (name, value) in labels.iter().copied().chain(bound) {
            self.text.push(separator);
            separator = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(self.text, value);
            self.text.push('"');
        }
        if separator == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_the_format_wants_them() {
        let mut exposition = Exposition::default();
        exposition.counter("a_total", "All a.", 3);
        let mut family = exposition.family("b", Kind::Gauge, "Some b.");
        family.sample(&[("x", "1\"2\\3\n4"), ("y", "ü")], 0.5);
        let mut family = exposition.family("c_seconds", Kind::Histogram, "c.");
        family.histogram(&[("x", "1")], &[0.25, 1.0], &[2, 0, 1], 7.5);
        let wanted = "\
# HELP a_total All a.
# TYPE a_total counter
a_total 3
# HELP b Some b.
# TYPE b gauge
b{x=\"1\\\"2\\\\3\\n4\",y=\"ü\"} 0.5
# HELP c_seconds c.
# TYPE c_seconds histogram
c_seconds_bucket{x=\"1\",le=\"0.25\"} 2
c_seconds_bucket{x=\"1\",le=\"1\"} 2
c_seconds_bucket{x=\"1\",le=\"+Inf\"} 3
c_seconds_sum{x=\"1\"} 7.5
c_seconds_count{x=\"1\"} 3
";
        assert_eq!(exposition.into_text(), wanted);
    }
}
