//! Element names for arbitrary keys, as `XStream` escapes them (`protocol.md` 2.2): `_` becomes `__`,
//! `$` becomes `_-`, and a character that XML allows no name to hold there becomes `_.` and four
//! hex digits of its UTF-16 code unit. Users' configurations name the escaped forms, so they count.

use std::borrow::Cow;

fn is_name_start(c: char) -> bool {
    matches!(c,
        ':' | '_' | 'A'..='Z' | 'a'..='z'
        | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}'
        | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}'
        | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}')
}

fn is_name_part(c: char) -> bool {
    is_name_start(c)
        || matches!(c,
            '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// Appends the element name for a key; the key must not be empty.
pub(super) fn push(out: &mut Vec<u8>, key: &str) {
    let mut buffer = [0; 4];
    for (at, c) in key.char_indices() {
        match c {
            '_' => out.extend_from_slice(b"__"),
            '$' => out.extend_from_slice(b"_-"),
            _ if is_name_start(c) || at > 0 && is_name_part(c) => {
                out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
            _ => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    push_unit(out, *unit);
                }
            }
        }
    }
}

fn push_unit(out: &mut Vec<u8>, unit: u16) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"_.");
    for shift in [12, 8, 4, 0] {
        out.push(HEX[usize::from(unit >> shift & 15)]);
    }
}

/// The key that an element name stands for. `None` if an escape is broken; half of a surrogate pair
/// becomes U+FFFD.
pub(super) fn unescape(name: &str) -> Option<Cow<'_, str>> {
    if !name.contains('_') {
        return Some(Cow::Borrowed(name));
    }
    let mut units: Vec<u16> = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("_.") {
            let digits = after
                .get(..4)
                .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
            units.push(u16::from_str_radix(digits, 16).ok()?);
            rest = &after[4..];
        } else if let Some(after) = rest.strip_prefix("_-") {
            units.push(u16::from(b'$'));
            rest = after;
        } else if let Some(after) = rest.strip_prefix("__") {
            units.push(u16::from(b'_'));
            rest = after;
        } else {
            units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
            rest = &rest[c.len_utf8()..];
        }
    }
    Some(Cow::Owned(String::from_utf16_lossy(&units)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(key: &str) -> String {
        let mut out = Vec::new();
        push(&mut out, key);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_are_escaped_as_recorded() {
        for (key, name) in [
            ("a b", "a_.0020b"),
            ("c_d", "c__d"),
            ("e$f", "e_-f"),
            ("1x", "_.0031x"),
            ("k:v", "k:v"),
            ("<t>", "_.003ct_.003e"),
            ("@x", "_.0040x"),
            ("a.b-c", "a.b-c"),
            ("é", "é"),
            ("😀", "_.d83d_.de00"),
        ] {
            assert_eq!(escaped(key), name);
            assert_eq!(unescape(name).unwrap(), key, "{name}");
        }
    }

    #[test]
    fn a_single_underscore_stays_and_a_broken_escape_is_none() {
        assert_eq!(unescape("a_b").unwrap(), "a_b");
        assert_eq!(unescape("a_.00"), None);
        assert_eq!(unescape("a_.00zz"), None);
        assert_eq!(unescape("a_.00ä"), None);
        assert_eq!(unescape("_.d83dx").unwrap(), "\u{FFFD}x");
        assert_eq!(unescape("_.d83d_.d83d_.de00").unwrap(), "\u{FFFD}😀");
        assert_eq!(unescape("_.de00").unwrap(), "\u{FFFD}");
    }
}
