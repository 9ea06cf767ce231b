//! Texts for people: what came from elsewhere made harmless for a terminal, times, spans, sizes.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Shows a text that somebody else chose: control characters, which could steer the terminal, and
/// those that turn the direction of writing around are written as escapes.
pub(super) fn clean(text: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.chars().any(is_harmful) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let (escaped, plain) = if is_harmful(c) {
                (Some(c.escape_default()), None)
            } else {
                (None, Some(c))
            };
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// At most `most` characters of a text, with a mark where it was cut.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Writes and reads moments in one zone.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    /// `None` is UTC, written with a Z.
    zone: Option<TimeZone>,
}

impl Moments {
    pub(super) fn new(is_utc: bool) -> Self {
        Self {
            zone: (!is_utc).then(TimeZone::system),
        }
    }

    /// A moment given in RFC 3339; anything else is shown as it is.
    pub(super) fn show(&self, text: &str) -> String {
        match text.parse::<Timestamp>() {
            Ok(moment) => self.of(moment),
            Err(_) => clean(text),
        }
    }

    /// A moment given in ms since the epoch.
    pub(super) fn show_ms(&self, ms: u64) -> String {
        i64::try_from(ms)
            .ok()
            .and_then(|ms| Timestamp::from_millisecond(ms).ok())
            .map_or_else(|| ms.to_string(), |moment| self.of(moment))
    }

    /// A text that the server or this program wrote, with the moments in it as [`Moments::show`] has
    /// them: these are RFC 3339 in UTC with milliseconds, and nothing else is.
    pub(super) fn in_text(&self, text: &str) -> String {
        const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
        let is_moment = |bytes: &[u8]| {
            bytes.len() == FORM.len()
                && bytes.iter().zip(FORM).all(|(byte, form)| match form {
                    b'0' => byte.is_ascii_digit(),
                    _ => byte == form,
                })
        };
        let mut out = String::with_capacity(text.len());
        let mut told = 0;
        let mut at = 0;
        while let Some(bytes) = text.as_bytes().get(at..at + FORM.len()) {
            let is_within = at > told && text.as_bytes()[at - 1].is_ascii_alphanumeric();
            if is_within || !is_moment(bytes) {
                at += 1;
                continue;
            }
            // Both ends are ASCII, so they are ends of characters.
            out.push_str(&text[told..at]);
            out.push_str(&self.show(&text[at..at + FORM.len()]));
            at += FORM.len();
            told = at;
        }
        out.push_str(&text[told..]);
        out
    }

    /// A moment that somebody typed, for the server: without a zone it is one of the zone in which
    /// moments are written here, while the server takes it for UTC. Anything else stays as it is.
    pub(super) fn read(&self, text: &str) -> String {
        let typed = text.trim();
        let is_number = typed.bytes().all(|byte| byte.is_ascii_digit());
        if is_number || typed.starts_with('-') || typed.parse::<Timestamp>().is_ok() {
            return text.to_owned();
        }
        let zone = self.zone.clone().unwrap_or(TimeZone::UTC);
        typed
            .parse::<DateTime>()
            .and_then(|time| zone.to_timestamp(time))
            .map_or_else(|_| text.to_owned(), |moment| format!("{moment:.3}"))
    }

    fn of(&self, moment: Timestamp) -> String {
        match &self.zone {
            None => moment.strftime("%Y-%m-%d %H:%M:%S%.3fZ").to_string(),
            Some(zone) => moment
                .to_zoned_datetime(zone.clone())
                .strftime("%Y-%m-%d %H:%M:%S%.3f%:z")
                .to_string(),
        }
    }
}

/// A moment as the API writes it: RFC 3339 in UTC with milliseconds.
pub(super) fn rfc3339(ms: u64) -> Option<String> {
    let ms = i64::try_from(ms).ok()?;
    let moment = Timestamp::from_millisecond(ms).ok()?;
    Some(moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// A span in its two largest units.
pub(super) fn span(ms: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
    ];
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    let mut parts = Vec::new();
    let mut rest = ms;
    for (unit, size) in UNITS {
        if rest >= size && parts.len() < 2 {
            parts.push(format!("{}{unit}", rest / size));
        } else if parts.is_empty() {
            continue;
        } else {
            break;
        }
        rest %= size;
    }
    parts.join(" ")
}

/// A size in the unit that suits it.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_steer_a_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(clean("x\u{202e}y\u{9b}"), "x\\u{202e}y\\u{9b}");
        assert_eq!(clean("Größe 😀"), "Größe 😀");
    }

    #[test]
    fn long_texts_are_cut_at_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
    }

    #[test]
    fn spans_and_sizes_are_short() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1s"),
            (61_500, "1m 1s"),
            (3_600_000, "1h"),
            (90_061_000, "1d 1h"),
            (86_400_000 + 5_000, "1d"),
        ] {
            assert_eq!(span(ms), text);
        }
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (16 << 20, "16.0 MiB"),
            (3 << 40, "3.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn times_are_shown_in_utc_if_asked() {
        let utc = Moments::new(true);
        assert_eq!(
            utc.show("2026-11-30T22:11:42.123+01:00"),
            "2026-11-30 21:11:42.123Z"
        );
        assert_eq!(utc.show_ms(0), "1970-01-01 00:00:00.000Z");
        assert_eq!(utc.show("no time"), "no time");
        assert_eq!(
            utc.in_text("ended at 2026-11-30T21:11:42.123Z."),
            "ended at 2026-11-30 21:11:42.123Z."
        );
        assert_eq!(utc.read("2026-11-30"), "2026-11-30T00:00:00.000Z");
        assert_eq!(rfc3339(1_500).unwrap(), "1970-01-01T00:00:01.500Z");
        assert_eq!(rfc3339(u64::MAX), None);
    }

    #[test]
    fn moments_are_written_and_read_in_the_same_zone() {
        let moments = Moments {
            zone: Some(TimeZone::fixed(jiff::tz::offset(-5))),
        };
        for (typed, read) in [
            ("2026-11-30T23:30:00", "2026-12-01T04:30:00.000Z"),
            ("2026-11-30 23:30", "2026-12-01T04:30:00.000Z"),
            ("2026-12-01", "2026-12-01T05:00:00.000Z"),
            // A zone wins, and what names no moment of a day is nobody's.
            ("2026-11-30T23:30:00Z", "2026-11-30T23:30:00Z"),
            ("2026-11-30T23:30:00+01:00", "2026-11-30T23:30:00+01:00"),
            ("-15m", "-15m"),
            ("now", "now"),
            ("1700000000", "1700000000"),
            ("20261130", "20261130"),
            ("yesterday", "yesterday"),
            ("", ""),
        ] {
            assert_eq!(moments.read(typed), read);
        }
        for (text, shown) in [
            ("", ""),
            ("no time", "no time"),
            (
                "2026-12-01T04:30:00.000Z, until 2026-12-01T04:30:00.000Z",
                "2026-11-30 23:30:00.000-05:00, until 2026-11-30 23:30:00.000-05:00",
            ),
            (
                "größer ü2026-12-01T04:30:00.000Zß",
                "größer ü2026-11-30 23:30:00.000-05:00ß",
            ),
            // What others wrote in their own form stays theirs.
            ("2026-12-01T04:30:00Z", "2026-12-01T04:30:00Z"),
            ("12026-12-01T04:30:00.000Z", "12026-12-01T04:30:00.000Z"),
            ("9999-99-99T99:99:99.999Z", "9999-99-99T99:99:99.999Z"),
        ] {
            assert_eq!(moments.in_text(text), shown);
        }
    }
}
