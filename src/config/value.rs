//! Texts of configuration to values and back. Every reader returns what is allowed when it cannot
//! read; every writer writes what its reader takes.

use std::time::Duration;

/// Spans longer than this are surely mistakes, and keep later arithmetic far from overflow.
const LONGEST: Duration = Duration::from_hours(100 * 366 * 24);

/// What a number without a unit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Seconds,
}

impl Unit {
    fn of(self, number: u64) -> Duration {
        match self {
            Self::Millis => Duration::from_millis(number),
            Self::Seconds => Duration::from_secs(number),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Millis => "milliseconds",
            Self::Seconds => "seconds",
        }
    }

    /// What durations of this unit look like, for error texts.
    pub(crate) fn allowed(self) -> String {
        format!(
            "a duration up to 100 years: 500 ({}), 500ms, 10s, 5m, 1h, 7d or PT30S",
            self.name()
        )
    }
}

/// `500`, `500ms`, `10s`, `5m`, `1h`, `7d`, `PT30S`.
pub(crate) fn duration(text: &str, unit: Unit) -> Option<Duration> {
    let text = text.trim().trim_start_matches('+');
    let span = if text.starts_with(['P', 'p']) {
        iso_duration(text)?
    } else {
        let (number, suffix) = split_number(text)?;
        match suffix.to_ascii_lowercase().as_str() {
            "" => unit.of(number),
            "ns" => Duration::from_nanos(number),
            "us" => Duration::from_micros(number),
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            "d" => Duration::from_secs(number.checked_mul(86_400)?),
            _ => return None,
        }
    };
    (span <= LONGEST).then_some(span)
}

/// ISO 8601 as Java reads it: `PnDTnHnMn.nS`, without signs.
fn iso_duration(text: &str) -> Option<Duration> {
    let text = text.to_ascii_uppercase();
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None => (text.strip_prefix('P')?, ""),
    };
    let mut seconds: u64 = 0;
    let mut nanos: u32 = 0;
    if !days.is_empty() {
        seconds = days
            .strip_suffix('D')?
            .parse::<u64>()
            .ok()?
            .checked_mul(86_400)?;
    } else if time.is_empty() {
        return None;
    }
    let mut rest = time;
    for (letter, factor) in [('H', 3600), ('M', 60)] {
        if let Some((number, after)) = rest.split_once(letter) {
            let part = number.parse::<u64>().ok()?.checked_mul(factor)?;
            seconds = seconds.checked_add(part)?;
            rest = after;
        }
    }
    if !rest.is_empty() {
        let number = rest.strip_suffix('S')?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        seconds = seconds.checked_add(whole.parse::<u64>().ok()?)?;
        if fraction.is_empty() || fraction.len() > 9 {
            return None;
        }
        nanos = format!("{fraction:0<9}").parse().ok()?;
    }
    Some(Duration::new(seconds, nanos))
}

/// The shortest text that [`duration`] reads back, whatever the unit.
pub(crate) fn show_duration(span: Duration) -> String {
    let seconds = span.as_secs();
    match span.subsec_nanos() {
        0 if seconds == 0 => "0s".to_owned(),
        0 if seconds.is_multiple_of(86_400) => format!("{}d", seconds / 86_400),
        0 if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        0 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        0 => format!("{seconds}s"),
        nanos if nanos.is_multiple_of(1_000_000) => format!("{}ms", span.as_millis()),
        nanos if nanos.is_multiple_of(1000) => format!("{}us", span.as_micros()),
        _ => format!("{}ns", span.as_nanos()),
    }
}

/// What sizes look like, for error texts.
pub(crate) const SIZES: &str =
    "a size: 65536 (bytes), 64KB, 1MiB or 2GB (K, M, G, T are powers of 1024)";

/// Bytes; `64KB` and `64KiB` are the same, as in Spring.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, suffix) = split_number(text.trim())?;
    let shift = match suffix.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// The shortest text that [`size`] reads back.
pub(crate) fn show_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// `12` or `12 KB` into the number and the unit.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    Some((digits.parse().ok()?, suffix.trim()))
}

/// What switches look like, for error texts.
pub(crate) const SWITCHES: &str = "true | false (also on | off, yes | no, 1 | 0)";

/// Spring's words for yes and no.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// The parts of a list by comma, trimmed, without empty ones.
pub(crate) fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_in_every_notation() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("500", ms(500)),
            ("500ms", ms(500)),
            ("10s", ms(10_000)),
            ("10 s", ms(10_000)),
            ("5m", ms(300_000)),
            ("1H", ms(3_600_000)),
            ("7d", ms(604_800_000)),
            ("PT30S", ms(30_000)),
            ("pt1h30m", ms(5_400_000)),
            ("P1DT0.5S", ms(86_400_500)),
            ("0", ms(0)),
        ] {
            assert_eq!(duration(text, Unit::Millis), Some(expected), "{text}");
        }
        assert_eq!(duration("30", Unit::Seconds), Some(ms(30_000)));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "-1",
            "s",
            "1.5s",
            "10 apples",
            "PT",
            "P",
            "PTS",
            "PT1.S",
            "99999999999d",
            "P1H",
        ] {
            assert_eq!(duration(text, Unit::Millis), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("8KB"), Some(8192));
        assert_eq!(size("8 kib"), Some(8192));
        assert_eq!(size("1MiB"), Some(1 << 20));
        assert_eq!(size("2GB"), Some(2 << 30));
        assert_eq!(size("17"), Some(17));
        assert_eq!(size("-1"), None);
        assert_eq!(size("1XB"), None);
        assert_eq!(size("99999999999999TB"), None);
    }

    proptest! {
        #[test]
        fn a_shown_duration_reads_back_as_itself(ms in 0_u64..3_000_000_000_000) {
            let span = Duration::from_millis(ms);
            prop_assert_eq!(duration(&show_duration(span), Unit::Seconds), Some(span));
        }

        #[test]
        fn a_shown_size_reads_back_as_itself(bytes: u64) {
            prop_assert_eq!(size(&show_size(bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,40}") {
            let _ = (duration(&text, Unit::Millis), size(&text), switch(&text), list(&text));
        }

        #[test]
        fn iso_durations_of_seconds_are_exact(seconds in 0_u64..1_000_000, ms in 0_u64..1000) {
            let text = format!("PT{seconds}.{ms:03}S");
            let expected = Duration::from_secs(seconds) + Duration::from_millis(ms);
            prop_assert_eq!(duration(&text, Unit::Millis), Some(expected));
        }
    }
}
