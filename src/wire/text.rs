//! Small pieces of text that both formats need: numbers, truth values.

/// Appends a decimal number without allocating.
pub(super) fn push_int(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        // A remainder of ten always fits.
        digits[start] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

pub(super) fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Cuts a text for an error message, so that a log line stays a line.
pub(super) fn shown(text: &str) -> String {
    const MAX: usize = 80;
    let mut shown: String = text.chars().take(MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_displayed() {
        for value in [0, 7, -1, 10, 1_796_055_617_032, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_int(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn long_texts_are_cut_in_messages() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        assert!(shown(&"ä".repeat(10_000)).len() < 200);
    }
}
