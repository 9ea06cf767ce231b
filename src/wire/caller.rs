//! Who asked a node of our own kind for what it tells, as the two write it to each other: as a member of
//! an item of a batch, and beside what a comparison tells. Java peers never see it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::DecodeError;
use super::json::read::members;
use super::json::token::{Token, Tokens};
use crate::registry::change::Actor;

/// An [`Actor`] between two nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Caller {
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Caller {
    /// `None` if nothing is known.
    pub fn of(actor: &Actor) -> Option<Self> {
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        (*actor != Actor::UNKNOWN).then(|| Self {
            principal: text(&actor.principal),
            address: text(&actor.address),
            user_agent: text(&actor.user_agent),
            reason: text(&actor.reason),
        })
    }

    /// As it goes into a record: whatever the other side says, it is not longer than ours.
    pub fn actor(&self) -> Actor {
        let text = |text: &Option<String>| text.as_deref().map(Actor::cut);
        Actor {
            principal: text(&self.principal),
            address: text(&self.address),
            user_agent: text(&self.user_agent),
            reason: text(&self.reason),
        }
    }

    /// Appends it as JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        // A struct of texts always serializes, and a vector takes everything.
        let _ = serde_json::to_writer(out, self);
    }

    /// Reads a member's value; what is not known is skipped.
    pub(super) fn read<'a>(
        tokens: &mut Tokens<'a>,
        value: &Token<'a>,
    ) -> Result<Option<Actor>, DecodeError> {
        if *value == Token::Null {
            return Ok(None);
        }
        let mut caller = Self::default();
        members(tokens, value, |tokens, name, value| {
            let known = match name {
                "principal" => &mut caller.principal,
                "address" => &mut caller.address,
                "userAgent" => &mut caller.user_agent,
                "reason" => &mut caller.reason,
                _ => return tokens.skip(&value),
            };
            if value != Token::Null && !value.is_scalar() {
                return Err(tokens.error(format!("{name} is {}, not a text", value.kind())));
            }
            *known = (value != Token::Null).then(|| value.text().to_owned());
            Ok(())
        })?;
        Ok(Some(caller.actor()))
    }
}
