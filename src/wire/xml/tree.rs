//! A bounded tree of an XML document: elements with their text, and of the attributes the one that
//! matters. Document types and entities are refused, what follows the root is not read.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::wire::text::shown;
use crate::wire::xml::name;
use crate::wire::{DecodeError, Dialect, Limits};

/// An element; its name is un-escaped.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    /// The attribute `enabled` of ports.
    pub(super) enabled: Option<String>,
    /// The text directly inside, without that of children.
    pub(super) text: String,
    pub(super) children: Vec<Self>,
}

/// Reads the root element.
pub(super) fn root(body: &[u8], dialect: Dialect, limits: &Limits) -> Result<Element, DecodeError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let text = std::str::from_utf8(body).map_err(|error| {
        DecodeError::new(format!(
            "the body is not UTF-8 at byte {}",
            error.valid_up_to()
        ))
    })?;
    let mut reader = Reader::from_str(text);
    let mut builder = Builder {
        dialect,
        limits,
        open: Vec::new(),
        count: 0,
    };
    loop {
        let event = reader.read_event();
        let at = reader.buffer_position();
        let done = match event {
            Ok(event) => builder.take(event),
            Err(error) => Err(DecodeError::new(format!("malformed XML: {error}"))),
        };
        match done.map_err(|error| DecodeError::new(format!("{error} at byte {at}")))? {
            None => {}
            Some(root) => return Ok(root),
        }
    }
}

struct Builder<'l> {
    dialect: Dialect,
    limits: &'l Limits,
    /// The elements that are open, outermost first.
    open: Vec<Element>,
    /// Elements so far.
    count: usize,
}

impl Builder<'_> {
    /// Takes one event; gives the root once it is closed.
    fn take(&mut self, event: Event<'_>) -> Result<Option<Element>, DecodeError> {
        match event {
            Event::Start(start) => self.start(&start)?,
            Event::Empty(start) => {
                self.start(&start)?;
                return Ok(self.end());
            }
            Event::End(_) => return Ok(self.end()),
            Event::Text(text) => self.text(&text.xml10_content())?,
            Event::CData(text) => self.text(&text.xml10_content())?,
            Event::GeneralRef(reference) => {
                let c = match reference.resolve_char_ref() {
                    Ok(Some(c)) if is_char(c) => c,
                    Ok(None) => predefined(&reference).ok_or_else(|| {
                        DecodeError::new(format!("unknown entity {}", shown(&reference)))
                    })?,
                    Ok(Some(_)) | Err(_) => {
                        return Err(DecodeError::new("illegal character reference"));
                    }
                };
                self.text(c.encode_utf8(&mut [0; 4]))?;
            }
            Event::DocType(_) => return Err(DecodeError::new("document types are refused")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => return Err(DecodeError::new("the document ends too early")),
        }
        Ok(None)
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), DecodeError> {
        let depth = self.limits.depth;
        if self.open.len() >= depth {
            return Err(DecodeError::new(format!(
                "nested deeper than {depth} levels (limit depth)"
            )));
        }
        // Room for the fields and every metadata entry, twice over.
        let most = self
            .limits
            .metadata_entries
            .saturating_mul(2)
            .saturating_add(256);
        self.count += 1;
        if self.count > most {
            return Err(DecodeError::new(format!(
                "more than {most} elements (limit metadata_entries)"
            )));
        }
        let qualified = start.name();
        let raw: &str = qualified.as_ref();
        let name = match (name::unescape(raw), self.dialect) {
            (Some(name), _) => name.into_owned(),
            (None, Dialect::Tolerant) => raw.to_owned(),
            (None, Dialect::Exact) => {
                return Err(DecodeError::new(format!(
                    "broken escape in name {}",
                    shown(raw)
                )));
            }
        };
        let mut element = Element {
            name,
            ..Element::default()
        };
        for attribute in start.attributes() {
            let attribute = attribute
                .map_err(|error| DecodeError::new(format!("malformed attribute: {error}")))?;
            let key: &str = attribute.key.as_ref();
            if key == "enabled" {
                let value = attribute
                    .normalized_value(quick_xml::XmlVersion::Explicit1_0)
                    .map_err(|error| DecodeError::new(format!("malformed attribute: {error}")))?;
                element.enabled = Some(value.into_owned());
            }
        }
        self.open.push(element);
        Ok(())
    }

    /// Closes the innermost element.
    fn end(&mut self) -> Option<Element> {
        let element = self.open.pop()?;
        match self.open.last_mut() {
            Some(parent) => {
                parent.children.push(element);
                None
            }
            None => Some(element),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), DecodeError> {
        let Some(element) = self.open.last_mut() else {
            return if text.trim().is_empty() {
                Ok(())
            } else {
                Err(DecodeError::new("text outside of the root element"))
            };
        };
        if let Some(c) = text.chars().find(|c| !is_char(*c)) {
            return Err(DecodeError::new(format!("illegal character {c:?}")));
        }
        let max = self.limits.field_bytes;
        if element.text.len() + text.len() > max {
            let name = shown(&element.name);
            return Err(DecodeError::new(format!(
                "the text of {name} is longer than {max} bytes (limit field_bytes)"
            )));
        }
        element.text.push_str(text);
        Ok(())
    }
}

/// Whether XML 1.0 allows the character at all.
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{FFFD}' | '\u{10000}'..)
}

fn predefined(entity: &str) -> Option<char> {
    Some(match entity {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}
