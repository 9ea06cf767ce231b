//! Holds between nodes of our own kind: compared with the digests of the registry, exchanged whole,
//! since they are few. The overrides that they come with travel as any other change; Java peers hear of
//! nothing else.

use std::collections::HashMap;
use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use crate::registry::Registry;
use crate::registry::change::{Actor, HoldEffect};
use crate::registry::command::Command;
use crate::registry::delta::DeltaTail;
use crate::registry::hold::{HOLDS_MAX, Hold, HoldKind};
use crate::types::{AppName, InstanceId, Millis};
use crate::wire::Caller;

/// Among the digests of applications, the name under which holds are: no application is called so.
pub const NAME: &str = "";

/// A hold as one side knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    app: String,
    id: String,
    kind: String,
    until: u64,
    at: u64,
    released: bool,
    /// Who asked for it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<Caller>,
}

impl Told {
    fn hold(&self) -> Option<Hold> {
        Some(Hold {
            kind: HoldKind::parse(&self.kind)?,
            until: Millis(self.until),
            at: Millis(self.at),
            is_released: self.released,
        })
    }
}

/// The digest of the holds that are in force; `None` without any. Released ones are left out: each side
/// forgets them in its own time.
pub fn digest(registry: &Registry) -> Option<u64> {
    let mut hasher = SipHasher13::new();
    let mut count = 0_u64;
    for (app, id, hold) in registry.holds().filter(|(.., hold)| hold.is_active()) {
        count += 1;
        for text in [app.as_str(), id.as_str(), hold.kind.as_str()] {
            hasher.write_u64(text.len() as u64);
            hasher.write(text.as_bytes());
        }
        hasher.write_u64(hold.until.0);
        hasher.write_u64(hold.at.0);
    }
    (count > 0).then(|| hasher.finish())
}

/// Everything that is known of holds.
pub fn all(registry: &Registry) -> Vec<Told> {
    registry
        .holds()
        .map(|(app, id, hold)| Told {
            app: app.to_string(),
            id: id.to_string(),
            kind: hold.kind.as_str().into(),
            until: hold.until.0,
            at: hold.at.0,
            released: hold.is_released,
            caller: None,
        })
        .collect()
}

/// Names those who asked for holds within the delta window: what is news to another node is hardly older.
pub fn name_callers(told: &mut [Told], delta: &DeltaTail) {
    let mut callers = HashMap::new();
    for record in delta.records() {
        let change = &record.change;
        if let HoldEffect::Put(hold) = change.hold_effect
            && let Some(caller) = Caller::of(&record.actor)
        {
            let key = (change.app.as_str(), change.id.as_str(), hold.at.0);
            callers.insert(key, caller);
        }
    }
    if callers.is_empty() {
        return;
    }
    for one in told {
        let key = (one.app.as_str(), one.id.as_str(), one.at);
        one.caller = callers.get(&key).cloned();
    }
}

/// What the other side knows that is news here, as commands, each with who asked for it there; unreadable
/// ones are left out.
pub fn news(registry: &Registry, told: &[Told]) -> impl Iterator<Item = (Command, Option<Actor>)> {
    told.iter().take(HOLDS_MAX).filter_map(move |told| {
        let hold = told.hold()?;
        let (app, id) = (AppName::new(&told.app), InstanceId::new(&told.id));
        let known = registry.known_hold(&app, &id, hold.kind);
        known
            .is_none_or(|known| hold.is_later_than(known))
            .then(|| {
                let caller = told.caller.as_ref().map(Caller::actor);
                (Command::Hold { app, id, hold }, caller)
            })
    })
}
