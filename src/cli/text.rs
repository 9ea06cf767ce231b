//! Texts for people: what came from elsewhere made harmless for a terminal, times, spans, sizes.

use jiff::Timestamp;
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

/// Writes moments in one zone.
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
        assert_eq!(rfc3339(1_500).unwrap(), "1970-01-01T00:00:01.500Z");
        assert_eq!(rfc3339(u64::MAX), None);
    }
}
