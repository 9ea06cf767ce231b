//! How the original turns one kind of JSON value into another.

use crate::wire::DecodeError;
use crate::wire::json::token::{Token, Tokens};
use crate::wire::text::shown;

/// A truth value as the original coerces it: only `true`, `"true"` and numbers but 0 are true.
pub(super) fn as_bool(value: &Token<'_>) -> bool {
    match value {
        Token::Bool(value) => *value,
        Token::Text(text) => text.trim() == "true",
        Token::Number(text) => text.parse::<i64>().is_ok_and(|number| number != 0),
        _ => false,
    }
}

/// A 32-bit number as the original coerces it: a text that is no number is 0, a number that does not
/// fit is refused.
pub(super) fn as_int(value: &Token<'_>, tokens: &Tokens<'_>) -> Result<i32, DecodeError> {
    if let Token::Text(text) = value {
        return Ok(number_in_text(text)
            .and_then(|n| i32::try_from(n).ok())
            .unwrap_or(0));
    }
    i32::try_from(as_long(value, tokens)?)
        .map_err(|_| tokens.error(format!("{} does not fit 32 bits", shown(value.text()))))
}

/// A 64-bit number, by the same rules.
pub(in crate::wire) fn as_long(value: &Token<'_>, tokens: &Tokens<'_>) -> Result<i64, DecodeError> {
    match value {
        Token::Number(text) => whole_part(text)
            .ok_or_else(|| tokens.error(format!("{} does not fit 64 bits", shown(text)))),
        Token::Text(text) => Ok(number_in_text(text).unwrap_or(0)),
        Token::Bool(true) => Ok(1),
        _ => Ok(0),
    }
}

pub(in crate::wire) fn number_in_text(text: &str) -> Option<i64> {
    let text = text.trim();
    // Words that Rust takes for floats are no numbers here.
    let is_number = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    if is_number { whole_part(text) } else { None }
}

/// The whole part of a number, `None` if it does not fit.
fn whole_part(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    // 2^63 as a float; anything below it in magnitude fits.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the fraction goes, the range is checked"
    )]
    (number.abs() < 9_223_372_036_854_775_808.0).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_numbers_count_and_all_others_are_none() {
        for (text, number) in [
            ("8080", Some(8080)),
            (" -1 ", Some(-1)),
            ("+5", Some(5)),
            ("8080.7", Some(8080)),
            ("1e3", Some(1000)),
            ("-2.5E1", Some(-25)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("1e300", None),
            ("", None),
            ("x", None),
            ("inf", None),
            ("NaN", None),
            ("0x10", None),
            ("--1", None),
        ] {
            assert_eq!(number_in_text(text), number, "{text:?}");
        }
    }

    #[test]
    fn only_the_exact_word_is_true() {
        let text = |text: &'static str| Token::Text(text.into());
        for (value, expected) in [
            (text("true"), true),
            (text("TRUE"), false),
            (text("false"), false),
            (text("1"), false),
            (Token::Bool(true), true),
            (Token::Number("1"), true),
            (Token::Number("0"), false),
            (Token::Null, false),
            (Token::StartObject, false),
        ] {
            assert_eq!(as_bool(&value), expected, "{value:?}");
        }
    }
}
