//! Replication batches (`protocol.md` 7.3, 7.4): the list that a peer sends and the answer to it.
//!
//! Real servers reject a whole batch for one key that they do not know and send a batch again and
//! again if the answer holds one; so what is written here never has more than the original's keys, but
//! for a node of our own kind.

use std::sync::Arc;

use crate::registry::change::Actor;
use crate::registry::status::Status;

use super::json::coerce::{as_long, number_in_text};
use super::json::read::{Context, instance, members};
use super::json::token::{Token, Tokens};
use super::json::write::push_str;
use super::text::{push_int, shown};
use super::xml::write::Elements;
use super::{
    Caller, DecodeError, Detail, Dialect, Draft, Format, InstanceView, Limits, write_instance_bare,
};

/// What a batch item asks for; the names are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Register,
    Heartbeat,
    Cancel,
    StatusUpdate,
    DeleteStatusOverride,
}

impl Action {
    pub const ALL: [Self; 5] = [
        Self::Register,
        Self::Heartbeat,
        Self::Cancel,
        Self::StatusUpdate,
        Self::DeleteStatusOverride,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Register => "Register",
            Self::Heartbeat => "Heartbeat",
            Self::Cancel => "Cancel",
            Self::StatusUpdate => "StatusUpdate",
            Self::DeleteStatusOverride => "DeleteStatusOverride",
        }
    }

    /// Reads the exact word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }
}

/// One item of a received batch; what was absent or null is `None`. The statuses are as they were
/// sent, for what a bad one means depends on the action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchItem {
    pub app: Option<Arc<str>>,
    pub id: Option<Arc<str>>,
    /// The sender's dirty timestamp, ms since the epoch.
    pub last_dirty_timestamp: Option<i64>,
    pub overridden_status: Option<Arc<str>>,
    pub status: Option<Arc<str>>,
    pub instance: Option<Draft>,
    pub action: Option<Action>,
    /// Who asked the sender for it. Not of the protocol: nodes of our own kind say it to each other.
    pub caller: Option<Actor>,
}

/// Decodes a batch.
///
/// In the exact dialect the list (or the whole body) and each item of it may be null, which the
/// original answers with 500, and an unknown key refuses the batch; the tolerant dialect refuses
/// nulls and skips what it does not know.
pub fn decode_batch(
    body: &[u8],
    dialect: Dialect,
    limits: &Limits,
    now_ms: i64,
) -> Result<Option<Vec<Option<BatchItem>>>, DecodeError> {
    let context = Context {
        dialect,
        limits,
        now_ms,
    };
    let mut tokens = Tokens::new(body, limits);
    let first = tokens.next()?;
    let mut list = None;
    if first != Token::Null {
        members(&mut tokens, &first, |tokens, name, value| match name {
            "replicationList" => {
                list = items(tokens, &value, &context)?;
                Ok(())
            }
            _ => unknown_key(tokens, name, &value, dialect),
        })?;
    }
    match (list, dialect) {
        (None, Dialect::Tolerant) => Err(DecodeError::new("the batch has no replicationList")),
        (list, _) => Ok(list),
    }
}

fn unknown_key<'a>(
    tokens: &mut Tokens<'a>,
    name: &str,
    value: &Token<'a>,
    dialect: Dialect,
) -> Result<(), DecodeError> {
    match dialect {
        Dialect::Tolerant => tokens.skip(value),
        Dialect::Exact => Err(tokens.error(format!("unknown key {} in a batch", shown(name)))),
    }
}

fn items<'a>(
    tokens: &mut Tokens<'a>,
    value: &Token<'a>,
    context: &Context<'_>,
) -> Result<Option<Vec<Option<BatchItem>>>, DecodeError> {
    match value {
        Token::StartArray => {}
        Token::Null => return Ok(None),
        other => {
            return Err(tokens.error(format!("replicationList is {}, not an array", other.kind())));
        }
    }
    let mut list = Vec::new();
    loop {
        let first = tokens.next()?;
        if first == Token::EndArray {
            return Ok(Some(list));
        }
        let max = context.limits.batch_items;
        if list.len() >= max {
            return Err(DecodeError::too_many_items(format!(
                "more than {max} items (limit batch_items)"
            )));
        }
        list.push(match (&first, context.dialect) {
            (Token::Null, Dialect::Exact) => None,
            (Token::Null, Dialect::Tolerant) => return Err(tokens.error("a batch item is null")),
            _ => Some(item(tokens, &first, context)?),
        });
    }
}

fn item<'a>(
    tokens: &mut Tokens<'a>,
    first: &Token<'a>,
    context: &Context<'_>,
) -> Result<BatchItem, DecodeError> {
    let mut item = BatchItem::default();
    members(tokens, first, |tokens, name, value| {
        match name {
            "appName" => item.app = text(tokens, name, &value, context.limits.id_bytes)?,
            "id" => item.id = text(tokens, name, &value, context.limits.id_bytes)?,
            "lastDirtyTimestamp" => item.last_dirty_timestamp = timestamp(tokens, &value)?,
            "overriddenStatus" => {
                item.overridden_status = text(tokens, name, &value, context.limits.id_bytes)?;
            }
            "status" => item.status = text(tokens, name, &value, context.limits.id_bytes)?,
            "instanceInfo" if value == Token::Null => item.instance = None,
            "instanceInfo" => item.instance = Some(instance(tokens, &value, context)?),
            "action" => item.action = action(tokens, &value)?,
            "caller" => item.caller = Caller::read(tokens, &value)?,
            _ => unknown_key(tokens, name, &value, context.dialect)?,
        }
        Ok(())
    })?;
    Ok(item)
}

fn text(
    tokens: &Tokens<'_>,
    name: &str,
    value: &Token<'_>,
    max: usize,
) -> Result<Option<Arc<str>>, DecodeError> {
    if *value == Token::Null {
        return Ok(None);
    }
    if !value.is_scalar() {
        return Err(tokens.error(format!("{name} is {}, not a text", value.kind())));
    }
    super::draft::check_length(name, value.text(), max, "id_bytes")?;
    Ok(Some(value.text().into()))
}

/// A number or a number in a text; an empty text is none.
fn timestamp(tokens: &Tokens<'_>, value: &Token<'_>) -> Result<Option<i64>, DecodeError> {
    match value {
        Token::Null => Ok(None),
        Token::Number(_) => as_long(value, tokens).map(Some),
        Token::Text(text) if text.trim().is_empty() => Ok(None),
        Token::Text(text) => number_in_text(text).map(Some).ok_or_else(|| {
            tokens.error(format!(
                "lastDirtyTimestamp is {}, not a number",
                shown(text)
            ))
        }),
        other => Err(tokens.error(format!("lastDirtyTimestamp is {}", other.kind()))),
    }
}

fn action(tokens: &Tokens<'_>, value: &Token<'_>) -> Result<Option<Action>, DecodeError> {
    match value {
        Token::Null => Ok(None),
        Token::Text(text) => Action::parse(text)
            .map(Some)
            .ok_or_else(|| tokens.error(format!("unknown action {}", shown(text)))),
        other => Err(tokens.error(format!("action is {}, not a text", other.kind()))),
    }
}

/// The answer to one item.
#[derive(Clone, Copy, Debug)]
pub struct ItemAnswer<'a> {
    /// As an HTTP status.
    pub status: u16,
    /// Our instance, where it is newer than the sender's.
    pub entity: Option<InstanceView<'a>>,
}

/// Appends the answer to a batch, one answer per item in their order. `single_status_v1` is that of
/// [`super::write_instance`]; the original always maps here.
pub fn write_batch_response<'a>(
    out: &mut Vec<u8>,
    format: Format,
    answers: impl IntoIterator<Item = ItemAnswer<'a>>,
    single_status_v1: bool,
) {
    match format {
        Format::Json => {
            out.extend_from_slice(b"{\"responseList\":[");
            for (at, answer) in answers.into_iter().enumerate() {
                out.extend_from_slice(if at > 0 {
                    b",{\"statusCode\":"
                } else {
                    b"{\"statusCode\":"
                });
                push_int(out, answer.status.into());
                if let Some(view) = &answer.entity {
                    out.extend_from_slice(b",\"responseEntity\":");
                    write_instance_bare(out, view);
                }
                out.push(b'}');
            }
            out.extend_from_slice(b"]}");
        }
        Format::Xml => write_xml_response(out, answers, single_status_v1),
    }
}

fn write_xml_response<'a>(
    out: &mut Vec<u8>,
    answers: impl IntoIterator<Item = ItemAnswer<'a>>,
    single_status_v1: bool,
) {
    const ROOT: &str = "com.netflix.eureka.cluster.protocol.ReplicationListResponse";
    const ITEM: &str = "com.netflix.eureka.cluster.protocol.ReplicationInstanceResponse";
    let mut elements = Elements::new(out, Detail::Full, 0);
    elements.open(ROOT);
    let mut answers = answers.into_iter().peekable();
    if answers.peek().is_none() {
        elements.out.extend_from_slice(b"  <responseList/>\n");
    } else {
        elements.open("responseList");
        for answer in answers {
            elements.open(ITEM);
            elements.int("statusCode", answer.status.into());
            if let Some(view) = &answer.entity {
                elements.instance("responseEntity", view, Detail::Full, single_status_v1);
                elements.line_end();
            }
            elements.close(ITEM);
            elements.line_end();
        }
        elements.close("responseList");
        elements.line_end();
    }
    elements.close(ROOT);
}

/// One item of a batch that this node sends.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingItem<'a> {
    pub app: &'a str,
    pub id: &'a str,
    /// ms since the epoch.
    pub last_dirty_timestamp: Option<i64>,
    pub overridden_status: Option<Status>,
    pub status: Option<Status>,
    pub instance: Option<InstanceView<'a>>,
    pub action: Action,
    /// Who asked for it; only a node of our own kind may be told.
    pub caller: Option<&'a Actor>,
}

/// Appends a batch as peers of every kind read it.
pub fn write_batch<'a>(out: &mut Vec<u8>, items: impl IntoIterator<Item = OutgoingItem<'a>>) {
    out.extend_from_slice(b"{\"replicationList\":[");
    for (at, item) in items.into_iter().enumerate() {
        out.extend_from_slice(if at > 0 {
            b",{\"appName\":"
        } else {
            b"{\"appName\":"
        });
        push_str(out, item.app);
        out.extend_from_slice(b",\"id\":");
        push_str(out, item.id);
        if let Some(timestamp) = item.last_dirty_timestamp {
            out.extend_from_slice(b",\"lastDirtyTimestamp\":");
            push_int(out, timestamp);
        }
        if let Some(status) = item.overridden_status {
            out.extend_from_slice(b",\"overriddenStatus\":");
            push_str(out, status.as_str());
        }
        if let Some(status) = item.status {
            out.extend_from_slice(b",\"status\":");
            push_str(out, status.as_str());
        }
        if let Some(view) = &item.instance {
            out.extend_from_slice(b",\"instanceInfo\":");
            write_instance_bare(out, view);
        }
        out.extend_from_slice(b",\"action\":");
        push_str(out, item.action.as_str());
        if let Some(caller) = item.caller.and_then(Caller::of) {
            out.extend_from_slice(b",\"caller\":");
            caller.write(out);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// A peer's answer to one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemReply {
    /// As an HTTP status; 0 if the peer said none.
    pub status: u16,
    /// The peer's instance, where it is newer than ours.
    pub entity: Option<Draft>,
}

/// Decodes a peer's answer to a batch; unknown keys are skipped.
pub fn decode_batch_response(
    body: &[u8],
    limits: &Limits,
    now_ms: i64,
) -> Result<Vec<ItemReply>, DecodeError> {
    let context = Context {
        dialect: Dialect::Tolerant,
        limits,
        now_ms,
    };
    let mut tokens = Tokens::new(body, limits);
    let first = tokens.next()?;
    let mut list = None;
    members(&mut tokens, &first, |tokens, name, value| {
        if name == "responseList" && value == Token::StartArray {
            list = Some(replies(tokens, &context)?);
            return Ok(());
        }
        tokens.skip(&value)
    })?;
    list.ok_or_else(|| DecodeError::new("the answer has no responseList"))
}

fn replies(tokens: &mut Tokens<'_>, context: &Context<'_>) -> Result<Vec<ItemReply>, DecodeError> {
    let mut list = Vec::new();
    loop {
        let first = tokens.next()?;
        if first == Token::EndArray {
            return Ok(list);
        }
        let max = context.limits.batch_items;
        if list.len() >= max {
            return Err(tokens.error(format!("more than {max} answers (limit batch_items)")));
        }
        let mut reply = ItemReply {
            status: 0,
            entity: None,
        };
        members(tokens, &first, |tokens, name, value| {
            match name {
                "statusCode" if value.is_scalar() => {
                    reply.status = u16::try_from(as_long(&value, tokens)?).unwrap_or(0);
                }
                "responseEntity" if value == Token::StartObject => {
                    reply.entity = Some(instance(tokens, &value, context)?);
                }
                _ => tokens.skip(&value)?,
            }
            Ok(())
        })?;
        list.push(reply);
    }
}
