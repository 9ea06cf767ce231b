//! Reads instances and lists from JSON.
//!
//! The exact dialect walks the tokens as the original's decoder does: the token after a key is its
//! value, whatever it is, and unknown values are not skipped but walked on through. What that does
//! to odd bodies is on record (core/register-shapes). The tolerant dialect takes the same bodies and
//! more, skips what it does not know, and says what is wrong with what it refuses.

use crate::registry::instance::{ActionType, DataCenter, Metadata};
use crate::registry::status::Status;
use crate::types::AppName;
use crate::wire::draft::{MetadataDraft, check_field};
use crate::wire::json::coerce::{as_bool, as_int, as_long, number_in_text};
use crate::wire::json::token::{Token, Tokens};
use crate::wire::text::shown;
use crate::wire::{DataCenterDraft, DecodeError, Dialect, Draft, Limits, names};

/// What every function of this module needs.
#[derive(Clone, Copy, Debug)]
pub(in crate::wire) struct Context<'l> {
    pub(in crate::wire) dialect: Dialect,
    pub(in crate::wire) limits: &'l Limits,
    /// Stands in for a dirty timestamp that was not sent, ms since the epoch.
    pub(in crate::wire) now_ms: i64,
}

impl Context<'_> {
    fn is_exact(&self) -> bool {
        self.dialect == Dialect::Exact
    }
}

/// Decodes `{"instance":{...}}`.
pub(in crate::wire) fn registration(
    body: &[u8],
    context: &Context<'_>,
) -> Result<Draft, DecodeError> {
    let mut tokens = Tokens::new(body, context.limits);
    match tokens.next()? {
        Token::StartObject => {}
        Token::Null => return Err(DecodeError::null_body()),
        other => return Err(tokens.error(format!("the body is {}, not an object", other.kind()))),
    }
    match tokens.next()? {
        Token::Name(name) if name == "instance" => {}
        Token::Name(name) => {
            let name = shown(&name);
            return Err(tokens.error(format!("the root key is {name}, not \"instance\"")));
        }
        _ => return Err(tokens.error("the root object is empty")),
    }
    let first = tokens.next()?;
    let draft = instance(&mut tokens, &first, context)?;
    match tokens.next()? {
        Token::EndObject => Ok(draft),
        other => {
            let other = shown(other.text());
            Err(tokens.error(format!(
                "{other} follows the instance where the body should end"
            )))
        }
    }
}

/// Decodes an instance whose first token was read.
pub(in crate::wire) fn instance(
    tokens: &mut Tokens<'_>,
    first: &Token<'_>,
    context: &Context<'_>,
) -> Result<Draft, DecodeError> {
    if *first != Token::StartObject {
        return Err(tokens.error(format!("an instance is {}, not an object", first.kind())));
    }
    let mut draft = Draft::new(context.now_ms);
    let mut has_app = false;
    loop {
        let name = tokens.next()?;
        if name == Token::EndObject {
            break;
        }
        let value = tokens.next()?;
        if value == Token::Null {
            unknown(&value, tokens, context)?;
            continue;
        }
        has_app |= name.text() == "app";
        field(&mut draft, name.text(), &value, tokens, context)?;
    }
    if !has_app {
        return Err(tokens.error("the instance has no \"app\""));
    }
    take_id_from_metadata(&mut draft);
    Ok(draft)
}

/// Old Spring clients put their id into the metadata; it counts when nothing else is there.
fn take_id_from_metadata(draft: &mut Draft) {
    if draft.instance_id.is_some() {
        return;
    }
    let Some(id) = draft
        .metadata
        .get("instanceId")
        .filter(|id| !id.trim().is_empty())
    else {
        return;
    };
    let host = draft.host_name.as_deref().unwrap_or("");
    draft.instance_id = Some(if host.trim().is_empty() || id.starts_with(host) {
        id.clone()
    } else {
        format!("{host}:{id}").into()
    });
}

/// Takes one field of an instance. `value` is its first token and not null.
fn field<'a>(
    draft: &mut Draft,
    name: &str,
    value: &Token<'a>,
    tokens: &mut Tokens<'a>,
    context: &Context<'_>,
) -> Result<(), DecodeError> {
    match name {
        "port" => port(&mut draft.port, value, tokens, context),
        "securePort" => port(&mut draft.secure_port, value, tokens, context),
        "leaseInfo" => lease(draft, value, tokens, context),
        "metadata" => {
            draft.metadata = metadata(value, tokens, context)?;
            Ok(())
        }
        "dataCenterInfo" => {
            draft.data_center = Some(data_center(value, tokens, context)?);
            Ok(())
        }
        "status" => {
            draft.status = status(value, tokens, context)?;
            Ok(())
        }
        "overriddenStatus" | "overriddenstatus" => {
            draft.overridden_status = status(value, tokens, context)?;
            Ok(())
        }
        "app" => {
            draft.app = AppName::new(scalar(name, value, tokens, context)?);
            Ok(())
        }
        "countryId" => {
            scalar(name, value, tokens, context)?;
            draft.country_id = as_int(value, tokens)?;
            Ok(())
        }
        "lastUpdatedTimestamp" => {
            scalar(name, value, tokens, context)?;
            draft.last_updated_timestamp = as_long(value, tokens)?;
            Ok(())
        }
        "lastDirtyTimestamp" => {
            scalar(name, value, tokens, context)?;
            draft.last_dirty_timestamp = as_long(value, tokens)?;
            Ok(())
        }
        "actionType" => {
            draft.action_type = ActionType::parse(scalar(name, value, tokens, context)?);
            Ok(())
        }
        _ => {
            let Some(slot) = draft.text_field(name) else {
                return unknown(value, tokens, context);
            };
            let text = scalar(name, value, tokens, context)?;
            *slot = Some(if name == "appGroupName" {
                text.to_uppercase().into()
            } else {
                text.into()
            });
            Ok(())
        }
    }
}

/// Passes over a value nobody asked for. The exact dialect walks on through it, and fails as the
/// original does where it looks for the key of what stands in an array.
fn unknown<'a>(
    value: &Token<'a>,
    tokens: &mut Tokens<'a>,
    context: &Context<'_>,
) -> Result<(), DecodeError> {
    if !context.is_exact() {
        tokens.skip(value)
    } else if tokens.is_keyed(value) {
        Ok(())
    } else {
        Err(tokens.error(format!(
            "{} in an array of an unknown field",
            shown(value.text())
        )))
    }
}

/// The text of a value that should be a scalar.
fn scalar<'v>(
    name: &str,
    value: &'v Token<'_>,
    tokens: &Tokens<'_>,
    context: &Context<'_>,
) -> Result<&'v str, DecodeError> {
    if !context.is_exact() && !value.is_scalar() {
        return Err(tokens.error(format!("{name} is {}, not a text or number", value.kind())));
    }
    check_field(name, value.text(), context.limits)?;
    Ok(value.text())
}

/// A status word; anything else, of any shape, is UNKNOWN.
fn status<'a>(
    value: &Token<'a>,
    tokens: &mut Tokens<'a>,
    context: &Context<'_>,
) -> Result<Status, DecodeError> {
    let status = Status::parse(value.text()).unwrap_or(Status::Unknown);
    if !context.is_exact() {
        tokens.skip(value)?;
    }
    Ok(status)
}

fn port<'a>(
    port: &mut crate::registry::instance::Port,
    value: &Token<'a>,
    tokens: &mut Tokens<'a>,
    context: &Context<'_>,
) -> Result<(), DecodeError> {
    if *value != Token::StartObject {
        if let (Dialect::Tolerant, Token::Number(text)) = (context.dialect, value) {
            port.number = whole(text, tokens)?;
            return Ok(());
        }
        if let (Dialect::Tolerant, Token::Text(text)) = (context.dialect, value) {
            port.number = whole(text, tokens)?;
            return Ok(());
        }
        return Err(tokens.error(format!("a port is {}, not an object", value.kind())));
    }
    loop {
        let name = tokens.next()?;
        if name == Token::EndObject {
            return Ok(());
        }
        let value = tokens.next()?;
        match name.text() {
            "$" if value.is_scalar() || context.is_exact() => {
                port.number = as_int(&value, tokens)?;
            }
            "@enabled" if value.is_scalar() || context.is_exact() => {
                port.enabled = as_bool(&value);
            }
            key @ ("$" | "@enabled") => {
                return Err(tokens.error(format!("{key} of a port is {}", value.kind())));
            }
            key if context.is_exact() => {
                let key = shown(key);
                return Err(tokens.error(format!("unknown key {key} in a port")));
            }
            _ => tokens.skip(&value)?,
        }
    }
}

/// A port without its object: a number in any spelling, such as `8080.0`, as within the object.
fn whole(text: &str, tokens: &Tokens<'_>) -> Result<i32, DecodeError> {
    number_in_text(text)
        .and_then(|number| i32::try_from(number).ok())
        .ok_or_else(|| tokens.error(format!("{} is not a port", shown(text))))
}

fn lease<'a>(
    draft: &mut Draft,
    value: &Token<'a>,
    tokens: &mut Tokens<'a>,
    context: &Context<'_>,
) -> Result<(), DecodeError> {
    if *value != Token::StartObject && !context.is_exact() {
        // Whatever it is, it holds no lease terms.
        return tokens.skip(value);
    }
    loop {
        let name = tokens.next()?;
        if name == Token::EndObject {
            return Ok(());
        }
        let value = tokens.next()?;
        match name.text() {
            _ if value == Token::Null => {}
            name @ ("renewalIntervalInSecs" | "durationInSecs")
                if value.is_scalar() || context.is_exact() =>
            {
                draft.set_lease_field(name, as_int(&value, tokens)?.into());
            }
            name if value.is_scalar() => match as_long(&value, tokens) {
                Ok(number) => draft.set_lease_field(name, number),
                Err(error) if context.is_exact() => return Err(error),
                // Of a field that nobody knows, or of a time that the server sets anyway.
                Err(_) => {}
            },
            _ if context.is_exact() => {}
            _ => tokens.skip(&value)?,
        }
    }
}

fn metadata<'a>(
    value: &Token<'a>,
    tokens: &mut Tokens<'a>,
    context: &Context<'_>,
) -> Result<Metadata, DecodeError> {
    if *value != Token::StartObject {
        return Err(tokens.error(format!("metadata is {}, not an object", value.kind())));
    }
    entries(tokens, context)
}

/// Reads the entries of a map behind its opening bracket.
fn entries(tokens: &mut Tokens<'_>, context: &Context<'_>) -> Result<Metadata, DecodeError> {
    let mut map = MetadataDraft::default();
    loop {
        let key = tokens.next()?;
        if key == Token::EndObject {
            return Ok(map.finish());
        }
        let value = tokens.next()?;
        if !value.is_scalar() && !context.is_exact() {
            let (key, kind) = (shown(key.text()), value.kind());
            return Err(tokens.error(format!("metadata value {key} is {kind}, not a text")));
        }
        map.put(key.text(), value.text(), context.limits)?;
    }
}

/// What the class name of data-centre info stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Default,
    Amazon,
}

fn data_center<'a>(
    value: &Token<'a>,
    tokens: &mut Tokens<'a>,
    context: &Context<'_>,
) -> Result<DataCenterDraft, DecodeError> {
    if *value != Token::StartObject {
        return Err(tokens.error(format!("dataCenterInfo is {}, not an object", value.kind())));
    }
    let class = class(tokens)?;
    if class == Class::Amazon && context.is_exact() {
        return amazon_exact(tokens, context);
    }
    let mut name: Option<String> = None;
    let mut map = Metadata::default();
    loop {
        let key = tokens.next()?;
        if key == Token::EndObject {
            break;
        }
        let value = tokens.next()?;
        match key.text() {
            "@class" => tokens.skip(&value)?,
            "name" if value == Token::Null => name = None,
            "name" if value.is_scalar() => name = Some(value.text().to_owned()),
            "name" => return Err(tokens.error("name of dataCenterInfo is not a text")),
            other if context.is_exact() => {
                let other = shown(other);
                return Err(tokens.error(format!("unknown key {other} in dataCenterInfo")));
            }
            "metadata" if value == Token::StartObject => map = entries(tokens, context)?,
            _ => tokens.skip(&value)?,
        }
    }
    let data_center = match (class, name.as_deref()) {
        // The class decides, and so does the name: what says Amazon under the other class is taken
        // at its word. The original takes it too and then fails at every read.
        (Class::Amazon, _) | (Class::Default, Some("Amazon")) => {
            DataCenter::Amazon { metadata: map }
        }
        (Class::Default, None) => return Ok(DataCenterDraft::Nameless),
        (Class::Default, Some("MyOwn")) => DataCenter::MyOwn,
        (Class::Default, Some("Netflix")) => DataCenter::Netflix,
        (Class::Default, Some(other)) => {
            let other = shown(other);
            return Err(tokens.error(format!("unknown name {other} of dataCenterInfo")));
        }
    };
    Ok(DataCenterDraft::Named(data_center))
}

/// Looks ahead for the class, which may stand anywhere in the object.
fn class(tokens: &Tokens<'_>) -> Result<Class, DecodeError> {
    let mut ahead = tokens.clone();
    loop {
        let key = ahead.next()?;
        if key == Token::EndObject {
            return Err(tokens.error("dataCenterInfo has no @class"));
        }
        let value = ahead.next()?;
        if key.text() != "@class" {
            ahead.skip(&value)?;
            continue;
        }
        return match value.text() {
            names::DEFAULT_DATA_CENTER_CLASS | names::MY_DATA_CENTER_CLASS => Ok(Class::Default),
            names::AMAZON_CLASS => Ok(Class::Amazon),
            other => {
                let other = shown(other);
                Err(ahead.error(format!("unknown @class {other} of dataCenterInfo")))
            }
        };
    }
}

/// Amazon info as the original reads it: anything up to `metadata`, and nothing behind that.
fn amazon_exact(
    tokens: &mut Tokens<'_>,
    context: &Context<'_>,
) -> Result<DataCenterDraft, DecodeError> {
    loop {
        let key = tokens.next()?;
        if key == Token::EndObject {
            return Err(tokens.error("Amazon dataCenterInfo has no metadata"));
        }
        let value = tokens.next()?;
        if key.text() != "metadata" {
            tokens.skip(&value)?;
            continue;
        }
        if value != Token::StartObject {
            return Err(tokens.error("metadata of dataCenterInfo is not an object"));
        }
        let metadata = entries(tokens, context)?;
        // The class may still come, for it was looked for ahead and left out.
        loop {
            match tokens.next()? {
                Token::EndObject => {
                    return Ok(DataCenterDraft::Named(DataCenter::Amazon { metadata }));
                }
                Token::Name(name) if name == "@class" => {
                    let value = tokens.next()?;
                    tokens.skip(&value)?;
                }
                other => {
                    let other = shown(other.text());
                    return Err(tokens.error(format!(
                        "{other} follows the metadata of Amazon dataCenterInfo"
                    )));
                }
            }
        }
    }
}

/// Hands every member of an object to `take`, which must read its value to the end.
pub(in crate::wire) fn members<'a>(
    tokens: &mut Tokens<'a>,
    value: &Token<'a>,
    mut take: impl FnMut(&mut Tokens<'a>, &str, Token<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    if *value != Token::StartObject {
        return Err(tokens.error(format!("expected an object, found {}", value.kind())));
    }
    loop {
        let name = tokens.next()?;
        if name == Token::EndObject {
            return Ok(());
        }
        let value = tokens.next()?;
        take(tokens, name.text(), value)?;
    }
}
