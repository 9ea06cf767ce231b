//! Moments and spans as people and programs write them. Questions take any usual form, answers have
//! one: RFC 3339 in UTC with milliseconds.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::types::Millis;

/// A number below this is read as seconds since the epoch, from here on as milliseconds: seconds of
/// the year 5138, milliseconds of March 1973.
const SECONDS_BELOW: u64 = 100_000_000_000;
/// Longest text that is looked at, bytes.
const TEXT_MAX: usize = 64;

/// Text that is no time.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a time; use RFC 3339 (2026-11-30T02:13:00Z), seconds or milliseconds since 1970, \
     or a span back from now such as -15m"
)]
pub struct BadTime(String);

/// Text that is no span of time.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a span of time; use 30s, 15m, 2h, 1h30m, 500ms, PT15M, or a number of seconds"
)]
pub struct BadSpan(String);

/// Reads a moment: RFC 3339, a date with or without a time (UTC), seconds or milliseconds since the
/// epoch, `now`, or a span back from now (`-15m`).
///
/// # Errors
/// [`BadTime`] for anything else, and for moments before 1970.
pub fn parse(text: &str, now: Millis) -> Result<Millis, BadTime> {
    let text = text.trim();
    let bad = || BadTime(shown(text));
    if text.is_empty() || text.len() > TEXT_MAX {
        return Err(bad());
    }
    if text.eq_ignore_ascii_case("now") {
        return Ok(now);
    }
    if let Some(back) = text.strip_prefix('-') {
        let ms = parse_span(back).map_err(|_| bad())?;
        return Ok(Millis(now.0.saturating_sub(ms)));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: u64 = text.parse().map_err(|_| bad())?;
        return Ok(if number < SECONDS_BELOW {
            Millis(number * 1000)
        } else {
            Millis(number)
        });
    }
    // In a query `+02:00` arrives as ` 02:00`.
    let repaired = restore_plus(text);
    let stamp = match repaired.parse::<Timestamp>() {
        Ok(stamp) => stamp,
        Err(_) => repaired
            .parse::<DateTime>()
            .and_then(|time| TimeZone::UTC.to_timestamp(time))
            .map_err(|_| bad())?,
    };
    u64::try_from(stamp.as_millisecond())
        .map(Millis)
        .map_err(|_| bad())
}

/// Puts the sign of an offset back that form decoding turned into a space.
fn restore_plus(text: &str) -> String {
    match text.rsplit_once(' ') {
        Some((time, offset)) if time.contains(['T', 't']) => format!("{time}+{offset}"),
        _ => text.to_owned(),
    }
}

/// Reads a span: `30s`, `1h30m`, `500ms`, `2d`, ISO 8601 (`PT15M`), or a number of seconds. In
/// milliseconds.
///
/// # Errors
/// [`BadSpan`] for anything else, and for negative spans.
pub fn parse_span(text: &str) -> Result<u64, BadSpan> {
    let text = text.trim();
    let bad = || BadSpan(shown(text));
    if text.is_empty() || text.len() > TEXT_MAX {
        return Err(bad());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds: u64 = text.parse().map_err(|_| bad())?;
        return seconds.checked_mul(1000).ok_or_else(bad);
    }
    // Days are no unit of a signed duration, since some have 23 hours; here they have 24.
    if let Some((days, rest)) = text.split_once('d')
        && let Ok(days) = days.parse::<u64>()
    {
        let rest = if rest.is_empty() {
            0
        } else {
            parse_span(rest)?
        };
        let ms = days.checked_mul(86_400_000).ok_or_else(bad)?;
        return ms.checked_add(rest).ok_or_else(bad);
    }
    let span: SignedDuration = text.parse().map_err(|_| bad())?;
    u64::try_from(span.as_millis()).map_err(|_| bad())
}

fn shown(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// RFC 3339 in UTC with milliseconds. Moments beyond the year 9999 are shown as its end.
pub fn format(at: Millis) -> String {
    let ms = at.signed();
    let stamp = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    format!("{stamp:.3}")
}

/// A moment that is written as text, for answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At(pub Millis);

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(self.0))
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        parse(&text, Millis::ZERO)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_796_073_102_123);

    #[test]
    fn every_usual_form_of_a_time_is_read() {
        for (text, expected) in [
            ("now", NOW.0),
            ("-15m", NOW.0 - 900_000),
            ("-1h30m", NOW.0 - 5_400_000),
            ("-2d", NOW.0 - 172_800_000),
            ("-1d2h", NOW.0 - 93_600_000),
            ("1700000000", 1_700_000_000_000),
            ("1700000000123", 1_700_000_000_123),
            ("2026-11-30T02:13:00Z", 1_796_004_780_000),
            ("2026-11-30T03:13:00+01:00", 1_796_004_780_000),
            ("2026-11-30T03:13:00 01:00", 1_796_004_780_000),
            ("2026-11-30T02:13:00.250Z", 1_796_004_780_250),
            ("2026-11-30 02:13", 1_796_004_780_000),
            ("2026-11-30T02:13:00", 1_796_004_780_000),
            ("2026-11-30", 1_795_996_800_000),
        ] {
            assert_eq!(parse(text, NOW), Ok(Millis(expected)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "yesterday",
            "-",
            "-5x",
            "1e9",
            "2026-13-01",
            "1969-12-31",
            "99999999999999999999",
        ] {
            let error = parse(text, NOW).unwrap_err().to_string();
            assert!(error.contains("RFC 3339"), "{text}: {error}");
        }
        let long = "9".repeat(10_000);
        assert!(parse(&long, NOW).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn spans_are_read_in_every_usual_form() {
        for (text, ms) in [
            ("90", 90_000),
            ("30s", 30_000),
            ("500ms", 500),
            ("15m", 900_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("PT15M", 900_000),
        ] {
            assert_eq!(parse_span(text), Ok(ms), "{text}");
        }
        for text in ["", "-5m", "m", "5 parsecs", "999999999999999999999"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        assert_eq!(
            format(Millis(1_796_004_780_250)),
            "2026-11-30T02:13:00.250Z"
        );
        assert_eq!(format(Millis::ZERO), "1970-01-01T00:00:00.000Z");
        assert_eq!(format(Millis(u64::MAX)), "9999-12-30T22:00:00.999Z");
        assert_eq!(parse(&format(NOW), Millis::ZERO), Ok(NOW));
    }
}
