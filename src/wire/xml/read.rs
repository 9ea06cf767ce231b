//! Reads an instance from XML.
//!
//! The exact dialect reproduces what the original makes of a lease value that is no number: it loses
//! its place and never sees the rest of the document. The tolerant one ignores the value.

use crate::registry::instance::{ActionType, DataCenter, Metadata};
use crate::registry::status::Status;
use crate::types::AppName;
use crate::wire::draft::{MetadataDraft, check_field};
use crate::wire::json::read::Context;
use crate::wire::text::shown;
use crate::wire::xml::tree::{self, Element};
use crate::wire::{DataCenterDraft, DecodeError, Dialect, Draft};

/// Decodes `<instance>...</instance>`.
pub(in crate::wire) fn registration(
    body: &[u8],
    context: &Context<'_>,
) -> Result<Draft, DecodeError> {
    let root = tree::root(body, context.dialect, context.limits)?;
    if !matches!(
        root.name.as_str(),
        "instance" | "com.netflix.appinfo.InstanceInfo"
    ) {
        let name = shown(&root.name);
        return Err(DecodeError::new(format!(
            "the root element is {name}, not \"instance\""
        )));
    }
    let mut draft = Draft::new(context.now_ms);
    let mut has_app = false;
    for element in root.children {
        check_field(&element.name, &element.text, context.limits)?;
        has_app |= element.name == "app";
        if element.name == "leaseInfo" {
            if !lease(&mut draft, &element, context) {
                break;
            }
        } else {
            field(&mut draft, element, context)?;
        }
    }
    if has_app {
        Ok(draft)
    } else {
        Err(DecodeError::new("the instance has no \"app\""))
    }
}

fn field(draft: &mut Draft, element: Element, context: &Context<'_>) -> Result<(), DecodeError> {
    let text = element.text.as_str();
    match element.name.as_str() {
        "app" => draft.app = AppName::new(text),
        "port" => {
            draft.port.number = int(&element)?;
            draft.port.enabled = element.enabled.as_deref() != Some("false");
        }
        "securePort" => {
            draft.secure_port.number = int(&element)?;
            draft.secure_port.enabled = element.enabled.as_deref() == Some("true");
        }
        "countryId" => draft.country_id = int(&element)?,
        "status" => draft.status = status(text),
        "overriddenstatus" | "overriddenStatus" => draft.overridden_status = status(text),
        "lastUpdatedTimestamp" => {
            draft.last_updated_timestamp = text.parse().unwrap_or(draft.last_updated_timestamp);
        }
        "lastDirtyTimestamp" => {
            draft.last_dirty_timestamp = text.parse().unwrap_or(draft.last_dirty_timestamp);
        }
        "actionType" => draft.action_type = ActionType::parse(text),
        "metadata" => draft.metadata = metadata(&element, context)?,
        "dataCenterInfo" => draft.data_center = data_center(&element, context)?,
        name => {
            if let Some(slot) = draft.text_field(name) {
                *slot = Some(element.text.into());
            }
        }
    }
    Ok(())
}

fn int(element: &Element) -> Result<i32, DecodeError> {
    element.text.parse().map_err(|_| {
        let (name, text) = (&element.name, shown(&element.text));
        DecodeError::new(format!("{name} is {text}, not a whole number of 32 bits"))
    })
}

/// A status word in any case; anything else is UNKNOWN.
fn status(text: &str) -> Status {
    Status::parse(&text.to_uppercase()).unwrap_or(Status::Unknown)
}

/// Takes the lease; false if the rest of the document is lost on the exact dialect.
fn lease(draft: &mut Draft, element: &Element, context: &Context<'_>) -> bool {
    for value in &element.children {
        match value.text.parse() {
            Ok(number) => draft.set_lease_field(&value.name, number),
            Err(_) if context.dialect == Dialect::Exact => return false,
            Err(_) => {}
        }
    }
    true
}

fn metadata(element: &Element, context: &Context<'_>) -> Result<Metadata, DecodeError> {
    let mut map = MetadataDraft::default();
    for entry in &element.children {
        // The text around nested elements is layout.
        let value = if entry.children.is_empty() {
            entry.text.as_str()
        } else {
            ""
        };
        map.put(&entry.name, value, context.limits)?;
    }
    Ok(map.finish())
}

/// Data-centre info without any content counts as absent; its name decides, not its class.
fn data_center(
    element: &Element,
    context: &Context<'_>,
) -> Result<Option<DataCenterDraft>, DecodeError> {
    let mut found: Option<DataCenter> = None;
    let mut early = Metadata::default();
    for child in &element.children {
        match child.name.as_str() {
            "name" => {
                found = Some(match child.text.as_str() {
                    "MyOwn" => DataCenter::MyOwn,
                    "Netflix" => DataCenter::Netflix,
                    name if name.eq_ignore_ascii_case("Amazon") => DataCenter::Amazon {
                        metadata: std::mem::take(&mut early),
                    },
                    name => {
                        let name = shown(name);
                        return Err(DecodeError::new(format!(
                            "unknown name {name} of dataCenterInfo"
                        )));
                    }
                });
            }
            "metadata" => match &mut found {
                Some(DataCenter::Amazon { metadata: map }) => *map = metadata(child, context)?,
                Some(_) => {}
                None if context.dialect == Dialect::Exact => {
                    return Err(DecodeError::new(
                        "dataCenterInfo has metadata before its name",
                    ));
                }
                None => early = metadata(child, context)?,
            },
            _ => {}
        }
    }
    Ok(found.map(DataCenterDraft::Named))
}
