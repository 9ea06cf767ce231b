//! batch
use std::sync::Arc;

use crate::registry::status::Status;

use super::{DecodeError, Dialect, Draft, Format, InstanceView, Limits};

/// What a batch item asks for; the names are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Register,
    Heartbeat,
    Cancel,
    StatusUpdate,
    DeleteStatusOverride,
}

/// One item of a received batch; what was absent or null is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchItem {
    pub app: Option<Arc<str>>,
    pub id: Option<Arc<str>>,
    pub last_dirty_timestamp: Option<i64>,
    pub overridden_status: Option<Arc<str>>,
    pub status: Option<Arc<str>>,
    pub instance: Option<Draft>,
    pub action: Option<Action>,
}

/// Decodes a batch. The list, and an item of it, may be null.
pub fn decode_batch(
    body: &[u8],
    dialect: Dialect,
    limits: &Limits,
    now_ms: i64,
) -> Result<Option<Vec<Option<BatchItem>>>, DecodeError> {
    let _ = (body, dialect, limits, now_ms);
    todo!()
}

/// The answer to one item.
#[derive(Clone, Copy, Debug)]
pub struct ItemAnswer<'a> {
    pub status: u16,
    pub entity: Option<InstanceView<'a>>,
}

pub fn write_batch_response<'a>(
    out: &mut Vec<u8>,
    format: Format,
    answers: impl IntoIterator<Item = ItemAnswer<'a>>,
) {
    let _ = (out, format, answers.into_iter().count());
    todo!()
}

/// One item of a batch that this node sends.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingItem<'a> {
    pub app: &'a str,
    pub id: &'a str,
    pub last_dirty_timestamp: Option<i64>,
    pub overridden_status: Option<Status>,
    pub status: Option<Status>,
    pub instance: Option<InstanceView<'a>>,
    pub action: Action,
}

pub fn write_batch<'a>(out: &mut Vec<u8>, items: impl IntoIterator<Item = OutgoingItem<'a>>) {
    let _ = (out, items.into_iter().count());
    todo!()
}

/// A peer's answer to one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemReply {
    pub status: i32,
    pub entity: Option<Draft>,
}

/// Decodes a peer's answer to a batch.
pub fn decode_batch_response(
    body: &[u8],
    limits: &Limits,
    now_ms: i64,
) -> Result<Vec<ItemReply>, DecodeError> {
    let _ = (body, limits, now_ms);
    todo!()
}
