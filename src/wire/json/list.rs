//! Reads a peer's whole registry from JSON.

use std::sync::Arc;

use crate::wire::json::read::{Context, instance, members};
use crate::wire::json::token::{Token, Tokens};
use crate::wire::{DecodeError, Dialect, Draft, Limits};

/// A peer's registry as it was read. One instance that does not decode costs nothing but itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerList {
    /// `versions__delta`, `apps__hashcode`, if they were there.
    pub version: Option<Arc<str>>,
    pub hash: Option<Arc<str>>,
    /// The instances in their order; an instance's lease times are the peer's.
    pub drafts: Vec<Draft>,
    /// How many instances did not decode, and what was wrong with the first of them.
    pub refused: usize,
    pub first_refusal: Option<DecodeError>,
}

/// Decodes a full list, `{"applications":{...}}`, as a peer answers it.
///
/// Unknown keys are skipped, and an object is taken for an array of one, for other servers of the
/// protocol write that.
pub fn decode_applications(
    body: &[u8],
    limits: &Limits,
    now_ms: i64,
) -> Result<PeerList, DecodeError> {
    let context = Context {
        dialect: Dialect::Tolerant,
        limits,
        now_ms,
    };
    let mut tokens = Tokens::new(body, limits);
    let mut list = PeerList::default();
    let mut has_root = false;
    let first = tokens.next()?;
    members(&mut tokens, &first, |tokens, name, value| {
        if name != "applications" {
            return tokens.skip(&value);
        }
        has_root = true;
        applications(tokens, &value, &mut list, &context)
    })?;
    if has_root {
        Ok(list)
    } else {
        Err(DecodeError::new("the list has no \"applications\""))
    }
}

fn applications<'a>(
    tokens: &mut Tokens<'a>,
    value: &Token<'a>,
    list: &mut PeerList,
    context: &Context<'_>,
) -> Result<(), DecodeError> {
    members(tokens, value, |tokens, name, value| match name {
        "application" => each(tokens, value, |tokens, value| {
            members(tokens, &value, |tokens, name, value| match name {
                "instance" => each(tokens, value, |tokens, value| {
                    peer_instance(tokens, &value, list, context)
                }),
                _ => tokens.skip(&value),
            })
        }),
        "versions__delta" if value.is_scalar() => {
            list.version = Some(value.text().into());
            Ok(())
        }
        "apps__hashcode" if value.is_scalar() => {
            list.hash = Some(value.text().into());
            Ok(())
        }
        _ => tokens.skip(&value),
    })
}

fn peer_instance<'a>(
    tokens: &mut Tokens<'a>,
    value: &Token<'a>,
    list: &mut PeerList,
    context: &Context<'_>,
) -> Result<(), DecodeError> {
    let max = context.limits.list_instances;
    if list.drafts.len() + list.refused >= max {
        return Err(tokens.error(format!("more than {max} instances (limit list_instances)")));
    }
    let mut ahead = tokens.clone();
    match instance(&mut ahead, value, context) {
        Ok(draft) => {
            list.drafts.push(draft);
            *tokens = ahead;
            Ok(())
        }
        Err(error) => {
            // What is wrong with the text itself, not with the instance, shows here and ends it.
            tokens.skip(value)?;
            list.refused += 1;
            list.first_refusal.get_or_insert(error);
            Ok(())
        }
    }
}

/// Hands every item of an array to `take`; a value that is no array is its own only item, null none.
fn each<'a>(
    tokens: &mut Tokens<'a>,
    value: Token<'a>,
    mut take: impl FnMut(&mut Tokens<'a>, Token<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    match value {
        Token::Null => Ok(()),
        Token::StartArray => loop {
            let item = tokens.next()?;
            if item == Token::EndArray {
                return Ok(());
            }
            take(tokens, item)?;
        },
        value => take(tokens, value),
    }
}
