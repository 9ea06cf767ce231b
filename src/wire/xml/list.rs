//! Reads a list of applications, one application or one instance from XML, as any server of the
//! protocol writes them.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::wire::json::list::PeerList;
use crate::wire::json::read::Context;
use crate::wire::xml::read::registration;
use crate::wire::{DecodeError, Dialect, Limits};

/// Decodes every `<instance>` of a document. One that does not decode costs nothing but itself.
pub fn decode_applications_xml(
    body: &[u8],
    limits: &Limits,
    now_ms: i64,
) -> Result<PeerList, DecodeError> {
    let context = Context {
        dialect: Dialect::Tolerant,
        limits,
        now_ms,
    };
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let text = std::str::from_utf8(body)
        .map_err(|error| DecodeError::new(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    let mut reader = Reader::from_str(text);
    let malformed = |error: quick_xml::Error| DecodeError::new(format!("malformed XML: {error}"));
    let mut list = PeerList::default();
    let mut has_root = false;
    loop {
        let before = place(&reader);
        match reader.read_event().map_err(malformed)? {
            Event::Start(start) if start.name().as_ref() == "instance" => {
                reader.read_to_end(start.name()).map_err(malformed)?;
                let after = place(&reader);
                take(&text[before..after], &mut list, &context)?;
                has_root = true;
            }
            Event::Start(start) if !has_root => {
                has_root = matches!(start.name().as_ref(), "applications" | "application");
                if !has_root {
                    return Err(DecodeError::new("the document is no list of applications"));
                }
            }
            Event::Empty(_) => has_root = true,
            Event::DocType(_) => return Err(DecodeError::new("document types are refused")),
            Event::Eof if has_root => return Ok(list),
            Event::Eof => return Err(DecodeError::new("the document is empty")),
            _ => {}
        }
    }
}

fn place(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX)
}

fn take(text: &str, list: &mut PeerList, context: &Context<'_>) -> Result<(), DecodeError> {
    let max = context.limits.list_instances;
    if list.drafts.len() + list.refused >= max {
        return Err(DecodeError::new(format!(
            "more than {max} instances (limit list_instances)"
        )));
    }
    match registration(text.as_bytes(), context) {
        Ok(draft) => list.drafts.push(draft),
        Err(error) => {
            list.refused += 1;
            list.first_refusal.get_or_insert(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PeerList, DecodeError> {
        decode_applications_xml(text.as_bytes(), &Limits::default(), 1)
    }

    fn instance(id: &str) -> String {
        format!(
            "<instance><instanceId>{id}</instanceId><hostName>h</hostName><app>A</app>\
             <status>UP</status><metadata><instance>x</instance></metadata></instance>"
        )
    }

    #[test]
    fn every_instance_of_a_list_is_read() {
        let text = format!(
            "<?xml version=\"1.0\"?>\n<applications><versions__delta>1</versions__delta>\
             <application><name>A</name>{}{}</application></applications>",
            instance("ä-1"),
            instance("a-2")
        );
        let list = read(&text).unwrap();
        let ids: Vec<&str> = list.drafts.iter().map(crate::wire::Draft::id).collect();
        assert_eq!(ids, ["ä-1", "a-2"]);
        assert_eq!(list.refused, 0);
        assert_eq!(read(&instance("a")).unwrap().drafts.len(), 1);
        assert_eq!(read("<applications/>").unwrap().drafts.len(), 0);
    }

    #[test]
    fn one_bad_instance_costs_nothing_but_itself() {
        let text = format!(
            "<applications><application>{}<instance><port>x</port></instance></application>\
             </applications>",
            instance("a")
        );
        let list = read(&text).unwrap();
        assert_eq!((list.drafts.len(), list.refused), (1, 1));
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for bad in [
            "",
            "<html><body/></html>",
            "<applications><instance>",
            "<!DOCTYPE x [<!ENTITY a \"b\">]><applications/>",
            "{}",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
