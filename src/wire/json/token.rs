//! A bounded pull parser over the tokens of a JSON text.
//!
//! The original's decoders walk tokens, not trees, and what they do with odd bodies follows from
//! that walk (`leaseInfo` as a string swallows the next object). A reader of the same kind is what
//! reproduces it; it also keeps duplicates and order, needs memory for nothing but escaped strings,
//! and stops at the first thing that is wrong. What follows the document is not read.

use std::borrow::Cow;

use crate::wire::text::shown;
use crate::wire::{DecodeError, Limits};

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::wire) enum Token<'a> {
    StartObject,
    EndObject,
    StartArray,
    EndArray,
    /// Key of an object's member.
    Name(Cow<'a, str>),
    Text(Cow<'a, str>),
    /// A number as it was written.
    Number(&'a str),
    Bool(bool),
    Null,
}

impl Token<'_> {
    /// What a text accessor makes of the token: every token has a text.
    pub(in crate::wire) fn text(&self) -> &str {
        match self {
            Self::StartObject => "{",
            Self::EndObject => "}",
            Self::StartArray => "[",
            Self::EndArray => "]",
            Self::Name(text) | Self::Text(text) => text,
            Self::Number(text) => text,
            Self::Bool(true) => "true",
            Self::Bool(false) => "false",
            Self::Null => "null",
        }
    }

    /// The token in words, for messages.
    pub(in crate::wire) fn kind(&self) -> &'static str {
        match self {
            Self::StartObject => "an object",
            Self::EndObject => "the end of an object",
            Self::StartArray => "an array",
            Self::EndArray => "the end of an array",
            Self::Name(_) => "a key",
            Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Bool(_) => "a boolean",
            Self::Null => "null",
        }
    }

    pub(in crate::wire) fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Text(_) | Self::Number(_) | Self::Bool(_) | Self::Null
        )
    }
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// A value: at the start, after a key, after a comma in an array.
    Value,
    /// A value or the end of the array that was just opened.
    FirstItem,
    /// A key or the end of the object that was just opened.
    FirstName,
    /// A comma or the end of the container; at the outermost level the end of the document.
    Next,
}

/// The parser. Cloning it marks a place to come back to.
#[derive(Clone, Debug)]
pub(in crate::wire) struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    /// The open containers, true for objects.
    open: Vec<bool>,
    expect: Expect,
    depth_max: usize,
    text_max: usize,
    /// The key read last, for messages.
    last_name: Cow<'a, str>,
}

impl<'a> Tokens<'a> {
    pub(in crate::wire) fn new(text: &'a [u8], limits: &Limits) -> Self {
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        Self {
            text,
            at: 0,
            open: Vec::new(),
            expect: Expect::Value,
            depth_max: limits.depth,
            text_max: limits.field_bytes,
            last_name: Cow::Borrowed(""),
        }
    }

    /// An error at the current place, with the key it belongs to.
    pub(in crate::wire) fn error(&self, what: impl AsRef<str>) -> DecodeError {
        let what = what.as_ref();
        if self.last_name.is_empty() {
            DecodeError::new(format!("{what} at byte {}", self.at))
        } else {
            let name = shown(&self.last_name);
            DecodeError::new(format!("{what} at byte {}, near key {name}", self.at))
        }
    }

    /// The next token; an error at the end of the document and of the text.
    pub(in crate::wire) fn next(&mut self) -> Result<Token<'a>, DecodeError> {
        self.skip_space();
        match self.expect {
            Expect::Value => self.value(),
            Expect::FirstItem if self.peek() == Some(b']') => self.end(),
            Expect::FirstItem => self.value(),
            Expect::FirstName if self.peek() == Some(b'}') => self.end(),
            Expect::FirstName => self.name(),
            Expect::Next => match (self.open.last(), self.peek()) {
                (None, _) => Err(self.error("the document ends where more was expected")),
                (Some(true), Some(b'}')) | (Some(false), Some(b']')) => self.end(),
                (Some(is_object), Some(b',')) => {
                    let is_object = *is_object;
                    self.at += 1;
                    self.skip_space();
                    if is_object { self.name() } else { self.value() }
                }
                (Some(_), Some(_)) => Err(self.error("expected a comma or a closing bracket")),
                (Some(_), None) => Err(self.error("the text ends too early")),
            },
        }
    }

    /// Skips the rest of the value that began with `first`.
    pub(in crate::wire) fn skip(&mut self, first: &Token<'a>) -> Result<(), DecodeError> {
        if !matches!(first, Token::StartObject | Token::StartArray) {
            return Ok(());
        }
        let level = self.open.len();
        while self.open.len() >= level {
            self.next()?;
        }
        Ok(())
    }

    /// Whether the value just read is a member of an object, as far as brackets tell.
    pub(in crate::wire) fn is_keyed(&self, value: &Token<'_>) -> bool {
        let own = usize::from(matches!(value, Token::StartObject | Token::StartArray));
        self.open.iter().rev().nth(own) != Some(&false)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn start(&mut self, is_object: bool) -> Result<Token<'a>, DecodeError> {
        if self.open.len() >= self.depth_max {
            let depth = self.depth_max;
            return Err(self.error(format!("nested deeper than {depth} levels (limit depth)")));
        }
        self.at += 1;
        self.open.push(is_object);
        if is_object {
            self.expect = Expect::FirstName;
            Ok(Token::StartObject)
        } else {
            self.expect = Expect::FirstItem;
            Ok(Token::StartArray)
        }
    }

    fn end(&mut self) -> Result<Token<'a>, DecodeError> {
        self.at += 1;
        self.expect = Expect::Next;
        match self.open.pop() {
            Some(true) => Ok(Token::EndObject),
            Some(false) => Ok(Token::EndArray),
            None => Err(self.error("a closing bracket without its opening one")),
        }
    }

    fn value(&mut self) -> Result<Token<'a>, DecodeError> {
        let token = match self.peek() {
            Some(b'{') => return self.start(true),
            Some(b'[') => return self.start(false),
            Some(b'"') => Token::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => Token::Number(self.number()?),
            Some(b't') => self.word("true", Token::Bool(true))?,
            Some(b'f') => self.word("false", Token::Bool(false))?,
            Some(b'n') => self.word("null", Token::Null)?,
            Some(_) => return Err(self.error("expected a value")),
            None => return Err(self.error("the text ends too early")),
        };
        self.expect = Expect::Next;
        Ok(token)
    }

    fn name(&mut self) -> Result<Token<'a>, DecodeError> {
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a key in double quotes"));
        }
        let name = self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.error("expected a colon after a key"));
        }
        self.at += 1;
        self.expect = Expect::Value;
        self.last_name = name.clone();
        Ok(Token::Name(name))
    }

    fn word(&mut self, word: &str, token: Token<'a>) -> Result<Token<'a>, DecodeError> {
        let rest = &self.text[self.at..];
        let goes_on = rest.get(word.len()).is_some_and(u8::is_ascii_alphanumeric);
        if !rest.starts_with(word.as_bytes()) || goes_on {
            return Err(self.error("unknown word"));
        }
        self.at += word.len();
        Ok(token)
    }

    fn number(&mut self) -> Result<&'a str, DecodeError> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        let mut is_good = whole > 0 && !(leading_zero && whole > 1);
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_good &= self.digits() > 0;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            is_good &= self.digits() > 0;
        }
        if !is_good || self.peek().is_some_and(|b| b.is_ascii_alphanumeric()) {
            return Err(self.error("malformed number"));
        }
        if self.at - from > self.text_max {
            return Err(self.too_long());
        }
        std::str::from_utf8(&self.text[from..self.at]).map_err(|_| self.error("malformed number"))
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - from
    }

    fn too_long(&self) -> DecodeError {
        let max = self.text_max;
        self.error(format!(
            "a text is longer than {max} bytes (limit field_bytes)"
        ))
    }

    /// Reads a string from its opening quote.
    fn string(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        self.at += 1;
        let mut unescaped: Option<String> = None;
        loop {
            let from = self.at;
            while self
                .peek()
                .is_some_and(|b| b != b'"' && b != b'\\' && b >= 0x20)
            {
                self.at += 1;
            }
            let piece = std::str::from_utf8(&self.text[from..self.at])
                .map_err(|_| self.error("a text is not UTF-8"))?;
            if piece.len() + unescaped.as_ref().map_or(0, String::len) > self.text_max {
                return Err(self.too_long());
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(match unescaped {
                        None => Cow::Borrowed(piece),
                        Some(text) => Cow::Owned(text + piece),
                    });
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(piece);
                    self.at += 1;
                    let c = self.escape()?;
                    text.push(c);
                }
                Some(_) => return Err(self.error("an unescaped control character in a text")),
                None => return Err(self.error("the text ends within a string")),
            }
        }
    }

    /// Reads an escape behind its backslash. Half of a surrogate pair becomes U+FFFD.
    fn escape(&mut self) -> Result<char, DecodeError> {
        let byte = self.peek();
        self.at += 1;
        Ok(match byte {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let unit = self.unit()?;
                if (0xD800..0xDC00).contains(&unit) && self.text[self.at..].starts_with(b"\\u") {
                    let back = self.at;
                    self.at += 2;
                    let low = self.unit()?;
                    if let Some(Ok(c)) = char::decode_utf16([unit, low]).next() {
                        return Ok(c);
                    }
                    self.at = back;
                }
                char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(self.error("unknown escape in a text")),
        })
    }

    fn unit(&mut self) -> Result<u16, DecodeError> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits.and_then(|d| std::str::from_utf8(d).ok()) else {
            return Err(self.error("\\u needs four hex digits"));
        };
        self.at += 4;
        u16::from_str_radix(digits, 16).map_err(|_| self.error("\\u needs four hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Result<Vec<String>, DecodeError> {
        let mut tokens = Tokens::new(text, &Limits::default());
        let first = tokens.next()?;
        let mut list = vec![first.text().to_owned()];
        while !tokens.open.is_empty() {
            list.push(tokens.next()?.text().to_owned());
        }
        Ok(list)
    }

    #[test]
    fn tokens_come_in_the_order_of_the_text() {
        let list = all("\u{FEFF} {\"a\":[1,-2.5e+3,{}],\"b\" : null , \"a\":true} rest".as_bytes());
        assert_eq!(
            list.unwrap(),
            [
                "{", "a", "[", "1", "-2.5e+3", "{", "}", "]", "b", "null", "a", "true", "}"
            ]
        );
    }

    #[test]
    fn strings_are_unescaped() {
        let list = all(br#"["\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00","\ud83dx","\ude00"]"#).unwrap();
        assert_eq!(list[1], "\"\\/\u{8}\u{c}\n\r\tä😀");
        assert_eq!(list[2], "\u{FFFD}x");
        assert_eq!(list[3], "\u{FFFD}");
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "",
            " ",
            "{",
            "[1",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "{'a':1}",
            "[01]",
            "[1.]",
            "[1e]",
            "[-]",
            "[nul]",
            "[nulls]",
            "[\"a]",
            "[\"\\x\"]",
            "[\"\\u12\"]",
            "[\"\n\"]",
            "]",
            "[1 2]",
            "[1}",
            "{\"a\":1]",
            "[,1]",
            "[NaN]",
            "[// c\n1]",
        ] {
            assert!(all(text.as_bytes()).is_err(), "{text:?} was taken");
        }
        assert!(all(b"[\"\xE4\"]").is_err());
    }

    #[test]
    fn limits_are_named_when_they_are_exceeded() {
        let deep = "[".repeat(100_000);
        let error = all(deep.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("limit depth"), "{error}");
        let long = format!(
            "{{\"k\":\"{}\"}}",
            "x".repeat(Limits::default().field_bytes + 1)
        );
        let error = all(long.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("limit field_bytes") && error.contains("\"k\""),
            "{error}"
        );
        let escaped = format!("[\"{}\"]", "\\n".repeat(Limits::default().field_bytes + 1));
        assert!(
            all(escaped.as_bytes())
                .unwrap_err()
                .to_string()
                .contains("field_bytes")
        );
    }
}
