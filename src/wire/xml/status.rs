//! Reads, of the status document of a server of the original's kind (`protocol.md` 1.10), what tells one life of
//! it from another.

use crate::wire::xml::tree::{self, Element};
use crate::wire::{DecodeError, Dialect, Limits};

/// When the process of the server began, ms by its own clock: its own instance, which is made then, is shown with
/// that as its last update, and nothing updates it later.
///
/// # Errors
/// The document does not say so.
pub fn decode_server_birth(body: &[u8], limits: &Limits) -> Result<i64, DecodeError> {
    let document = tree::root(body, Dialect::Tolerant, limits)?;
    let own = child(&document, "instanceInfo")?;
    let updated = child(own, "lastUpdatedTimestamp")?;
    match updated.text.trim().parse() {
        Ok(born) if born > 0 => Ok(born),
        _ => Err(DecodeError::new("lastUpdatedTimestamp is no time")),
    }
}

fn child<'a>(element: &'a Element, name: &str) -> Result<&'a Element, DecodeError> {
    let children = &element.children;
    let found = children.iter().find(|child| child.name == name);
    found.ok_or_else(|| DecodeError::new(format!("{} has no {name}", element.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_birth_is_that_of_the_server_and_not_of_what_it_lists() {
        let body = "<com.netflix.eureka.util.StatusInfo><generalStats><server-uptime>00:02</server-uptime></generalStats>\
            <applicationStats/><instanceInfo><instanceId>x</instanceId><leaseInfo>\
            <registrationTimestamp>0</registrationTimestamp></leaseInfo><lastUpdatedTimestamp>1796129710571\
            </lastUpdatedTimestamp><lastDirtyTimestamp>1796129710730</lastDirtyTimestamp></instanceInfo>\
            </com.netflix.eureka.util.StatusInfo>";
        let born = decode_server_birth(body.as_bytes(), &Limits::default());
        assert_eq!(born, Ok(1_796_129_710_571));
    }

    #[test]
    fn what_does_not_say_when_the_server_began_is_an_error_that_says_what_is_missing() {
        let instance = |inner: &str| format!("<s><instanceInfo>{inner}</instanceInfo></s>");
        for (body, why) in [
            (
                "<html><body>It works!</body></html>".into(),
                "html has no instanceInfo",
            ),
            (instance(""), "instanceInfo has no lastUpdatedTimestamp"),
            (
                instance("<lastUpdatedTimestamp>soon</lastUpdatedTimestamp>"),
                "lastUpdatedTimestamp is no time",
            ),
            (
                instance("<lastUpdatedTimestamp>0</lastUpdatedTimestamp>"),
                "lastUpdatedTimestamp is no time",
            ),
            ("{}".into(), "text outside of the root element at byte 2"),
        ] {
            let born = decode_server_birth(body.as_bytes(), &Limits::default());
            assert_eq!(born.expect_err(&body).to_string(), why, "{body}");
        }
    }
}
