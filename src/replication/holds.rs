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
    /// How long it is to last yet, ms; less than 0 if it is over. Clocks differ: the end goes by the clock of
    /// each node.
    remaining_ms: i64,
    /// The word that it is, by the clock of the node where it was given; no more than a number to others.
    at: u64,
    released: bool,
    /// Who asked for it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<Caller>,
}

impl Told {
    /// As a hold by the clock that says `now` (wall time, ms).
    fn hold(&self, now: i64) -> Option<Hold> {
        let until = now.saturating_add(self.remaining_ms).max(0);
        Some(Hold {
            kind: HoldKind::parse(&self.kind)?,
            until: Millis(until.unsigned_abs()),
            at: Millis(self.at),
            is_released: self.released,
        })
    }
}

/// The digest of the holds that are in force; `None` without any. Released ones are left out: each side
/// forgets them in its own time, as it ends the others.
pub fn digest(registry: &Registry) -> Option<u64> {
    let mut hasher = SipHasher13::new();
    let mut count = 0_u64;
    for (app, id, hold) in registry.holds().filter(|(.., hold)| hold.is_active()) {
        count += 1;
        for text in [app.as_str(), id.as_str(), hold.kind.as_str()] {
            hasher.write_u64(text.len() as u64);
            hasher.write(text.as_bytes());
        }
        hasher.write_u64(hold.at.0);
    }
    (count > 0).then(|| hasher.finish())
}

/// Everything that is known of holds at `now` (wall time).
pub fn all(registry: &Registry, now: Millis) -> Vec<Told> {
    registry
        .holds()
        .map(|(app, id, hold)| Told {
            app: app.to_string(),
            id: id.to_string(),
            kind: hold.kind.as_str().into(),
            remaining_ms: hold.until.signed().saturating_sub(now.signed()),
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
            let (app, id) = (change.app.as_str(), change.id.as_str());
            let key = (app, id, hold.kind.as_str(), hold.at.0);
            callers.insert(key, caller);
        }
    }
    if callers.is_empty() {
        return;
    }
    for one in told {
        let key = (one.app.as_str(), one.id.as_str(), one.kind.as_str(), one.at);
        one.caller = callers.get(&key).cloned();
    }
}

/// What the other side knows that is news here at `now` (wall time, ms), as commands, each with who asked
/// for it there; unreadable ones are left out.
pub fn news(
    registry: &Registry,
    told: &[Told],
    now: i64,
) -> impl Iterator<Item = (Command, Option<Actor>)> {
    told.iter().take(HOLDS_MAX).filter_map(move |told| {
        let hold = told.hold(now)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::rules::Rules;
    use crate::registry::tests::{Scene, instance};

    const TWO_MINUTES: u64 = 120_000;

    #[test]
    fn a_hold_lasts_as_long_on_a_node_whose_clock_is_another() {
        for skew in [300_000_i64, -300_000] {
            let (mut here, mut there) =
                (Scene::new(&Rules::default()), Scene::new(&Rules::default()));
            there.now.wall = Millis(there.now.wall.0.saturating_add_signed(skew));
            for kind in HoldKind::ALL {
                let hold = Hold {
                    kind,
                    until: here.now.wall.plus(TWO_MINUTES),
                    at: Millis::ZERO,
                    is_released: false,
                };
                let (app, id) = (AppName::new("SHOP"), InstanceId::new(kind.as_str()));
                here.register(instance("SHOP", kind.as_str()));
                there.register(instance("SHOP", kind.as_str()));
                here.client(&Command::Hold { app, id, hold });
            }
            here.pass(1000);
            there.pass(1000);
            let told = all(&here.registry, here.now.wall);
            let now = there.now.wall.signed();
            for (command, _) in news(&there.registry, &told, now).collect::<Vec<_>>() {
                there.peer(&command);
            }
            assert_eq!(digest(&here.registry), digest(&there.registry));
            let again = all(&there.registry, there.now.wall);
            let back = news(&here.registry, &again, here.now.wall.signed());
            assert_eq!(back.count(), 0, "nothing goes back and forth");
            let in_force = |scene: &Scene| {
                scene
                    .registry
                    .holds()
                    .filter(|(.., h)| h.is_active())
                    .count()
            };
            for (passed, expected) in [(TWO_MINUTES - 1001, 2), (1, 0)] {
                there.pass(passed);
                for kind in HoldKind::ALL {
                    there.carry_out(&Command::EndHolds(kind), false);
                }
                assert_eq!(in_force(&there), expected, "{skew}");
            }
            assert!(!there.has("SHOP", HoldKind::Drain.as_str()));
            assert!(there.has("SHOP", HoldKind::Quarantine.as_str()));
        }
    }
}
