//! What a peer's batch comes to (`protocol.md` 7.4): a plan of commands, then an answer per item. Free
//! of HTTP and of the change log, so that the endpoint and the simulation of clusters share it.
//!
//! A node of our own kind sends whole states ([`Command::Adopt`]). A `Register` with an override item
//! of the same instance right behind it is one state whose override is meant; without one, the
//! override is only what that node knew.

use std::sync::Arc;

use tracing::debug;

use super::outbound::Key;
use super::past::Removed;
use crate::changelog::{Actors, Published};
use crate::registry::Registry;
use crate::registry::change::{Actor, Origin};
use crate::registry::command::{Adoption, Command, Overrides, Renewal, Reply};
use crate::registry::instance::{ActionType, Instance};
use crate::registry::lease::Lease;
use crate::registry::rules::ReplicatedVersion;
use crate::registry::status::Status;
use crate::registry::version::Version;
use crate::types::{AppName, InstanceId};
use crate::wire;
use crate::wire::batch::{Action, BatchItem};

/// Who sent the batch and how strictly it is read.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Whether the sender is a node of our own kind.
    pub is_our_kind: bool,
    /// Whether an Amazon data centre has to say an instance id.
    pub validates_data_center_id: bool,
}

/// What is known here, against which a batch is held.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub state: &'a Published,
    /// What the log says of instances that [`Plan::asks_about`] and the registry does not know.
    pub removed: &'a Removed,
    /// Who sent the batch, as the log will name it.
    pub sender: &'a Origin,
}

impl Known<'_> {
    /// Whether a Java peer tells of a registration only because it has not heard of a cancel: told that the
    /// instance is not here when it passes on a heartbeat of before, it sends the whole of it, and says no time.
    /// What it registers itself after a cancel that it told of is no such thing, nor is anything later than the
    /// delta window, which is longer than Java peers keep what they have to tell. If it was cancelled there too since
    /// that heartbeat, what it sends says so.
    fn was_cancelled(&self, instance: &Instance) -> bool {
        let (registry, delta) = (&self.state.registry, &self.state.delta);
        if registry.rules().replicated_version != ReplicatedVersion::Kept {
            return false;
        }
        if instance.action_type == Some(ActionType::Deleted) {
            return true;
        }
        let (app, id) = (&instance.app, &instance.id());
        let dirty = instance.last_dirty_timestamp;
        let stone = registry.tombstone(app, id);
        if !stone.is_some_and(|stone| stone.is_cancelled && dirty <= stone.version.dirty) {
            return false;
        }
        let cancelled = registry
            .removed_at(app, id)
            .and_then(|lsn| delta.since(lsn)?.next().filter(|record| record.lsn == lsn));
        cancelled.is_some_and(|record| record.origin != *self.sender)
    }
}

/// The answer to one item.
#[derive(Clone, Debug)]
pub struct ItemOutcome {
    pub status: u16,
    /// Our instance, where it is newer.
    pub entity: Option<Arc<Lease>>,
}

impl ItemOutcome {
    fn of(status: u16) -> Self {
        Self {
            status,
            entity: None,
        }
    }
}

/// What an item comes to: an answer, or the place of its command among those for the log.
#[derive(Debug)]
enum Step {
    Answered(ItemOutcome),
    Command {
        place: usize,
        has_bad_override: bool,
    },
}

/// A batch, ready to be carried out.
#[derive(Debug, Default)]
pub struct Plan {
    /// For the log, in this order.
    pub commands: Vec<Command>,
    /// Who asked the peer for each of them, where it says so.
    callers: Vec<Option<Actor>>,
    steps: Vec<Step>,
}

impl Plan {
    /// Plans a batch. `renew` answers a heartbeat at once if nothing changes by it; it is asked only
    /// as long as nothing before it waits for the log.
    pub fn of(
        items: Vec<BatchItem>,
        terms: Terms,
        known: Known<'_>,
        mut renew: impl FnMut(&str, &str, Renewal) -> Option<Reply>,
    ) -> Self {
        let mut plan = Self::default();
        let mut items = items.into_iter().peekable();
        while let Some(item) = items.next() {
            let is_state = terms.is_our_kind && item.action == Some(Action::Register);
            let explicit = items
                .next_if(|next| is_state && next.is_override_of(&item))
                .is_some();
            let overrides = if explicit {
                Overrides::Whole
            } else {
                Overrides::Merged
            };
            plan.add(item, terms, overrides, known, &mut renew);
            if explicit {
                plan.add_same();
            }
        }
        plan
    }

    /// Who asks for the commands: `sender` itself, unless it passes on what others asked of it.
    pub fn actors(&mut self, sender: Actor) -> Actors {
        let callers = std::mem::take(&mut self.callers);
        if callers.iter().all(Option::is_none) {
            return Actors::One(sender);
        }
        let each = callers
            .into_iter()
            .map(|caller| caller.unwrap_or_else(|| sender.clone()));
        Actors::Each(each.collect())
    }

    /// The instances of which a batch of our own kind tells the state.
    pub fn asks_about(items: &[BatchItem]) -> impl Iterator<Item = Key> {
        let states = items
            .iter()
            .filter(|item| item.action == Some(Action::Register));
        states.filter_map(|item| {
            let id = InstanceId::from_shared(item.id.clone()?);
            Some((AppName::new(item.app.as_ref()?), id))
        })
    }

    /// The answers, one per item. `registry` is the state after the batch, which may have changed
    /// what an earlier item was answered with: the sender takes it over.
    pub fn answers(self, replies: &[Reply], registry: &Registry) -> Vec<ItemOutcome> {
        let answers = self.steps.into_iter().map(|step| {
            let mut outcome = match step {
                Step::Answered(outcome) => outcome,
                Step::Command {
                    place,
                    has_bad_override,
                } => outcome_of(replies.get(place), has_bad_override),
            };
            if let Some(entity) = &mut outcome.entity {
                let instance = entity.instance();
                let now = registry.lease(instance.app.as_str(), instance.id().as_str());
                if let Some(lease) = now {
                    *entity = lease.clone();
                }
            }
            outcome
        });
        answers.collect()
    }

    /// Another item that is answered as the last one is.
    fn add_same(&mut self) {
        let same = match self.steps.last() {
            Some(Step::Command { place, .. }) => Step::Command {
                place: *place,
                has_bad_override: false,
            },
            Some(Step::Answered(outcome)) => Step::Answered(outcome.clone()),
            None => return,
        };
        self.steps.push(same);
    }

    fn add(
        &mut self,
        mut item: BatchItem,
        terms: Terms,
        overrides: Overrides,
        known: Known<'_>,
        renew: &mut impl FnMut(&str, &str, Renewal) -> Option<Reply>,
    ) {
        let caller = item.caller.take().filter(|_| terms.is_our_kind);
        let step = match command_of(item, terms, overrides, known) {
            Err(status) => Step::Answered(ItemOutcome::of(status)),
            Ok((command, has_bad_override)) => {
                let at_once = match &command {
                    Command::Renew { app, id, renewal } if self.commands.is_empty() => {
                        renew(app.as_str(), id.as_str(), *renewal)
                    }
                    _ => None,
                };
                if let Some(reply) = at_once {
                    Step::Answered(outcome_of(Some(&reply), has_bad_override))
                } else {
                    self.command(command, caller, has_bad_override)
                }
            }
        };
        self.steps.push(step);
    }

    fn command(&mut self, command: Command, caller: Option<Actor>, has_bad_override: bool) -> Step {
        self.commands.push(command);
        self.callers.push(caller);
        Step::Command {
            place: self.commands.len() - 1,
            has_bad_override,
        }
    }
}

impl BatchItem {
    fn is_override_of(&self, other: &Self) -> bool {
        let is_override = matches!(
            self.action,
            Some(Action::StatusUpdate | Action::DeleteStatusOverride)
        );
        is_override && self.app == other.app && self.id == other.id
    }
}

/// The command of an item and whether its override is no status; `Err` is the status that answers it.
fn command_of(
    item: BatchItem,
    terms: Terms,
    overrides: Overrides,
    known: Known<'_>,
) -> Result<(Command, bool), u16> {
    let (Some(app_text), Some(action), Some(id)) = (item.app, item.action, item.id) else {
        return Err(500);
    };
    let (app, id) = (AppName::new(&app_text), InstanceId::from_shared(id));
    let registry = &known.state.registry;
    let is_known = || registry.lease(app.as_str(), id.as_str()).is_some();
    let status = item.status.as_deref().and_then(Status::parse);
    let dirty = item.last_dirty_timestamp;
    let mut has_bad_override = false;
    let command = match action {
        Action::Register => {
            let draft = item.instance.ok_or(500_u16)?;
            let times = draft.lease_times;
            match wire::validate(draft, &app_text, terms.validates_data_center_id) {
                Ok(instance) if terms.is_our_kind => Command::Adopt(Adoption {
                    instance: instance.into(),
                    registered: times.registration,
                    vouched_ms: times.vouched_ms,
                    recalled: known.removed.of(&(app, id)),
                    overrides,
                }),
                Ok(instance) if known.was_cancelled(&instance) => {
                    debug!(app.name = %app, instance.id = %id, "a peer has not heard that {app}/{id} is cancelled");
                    return Err(200);
                }
                Ok(instance) => Command::Register(instance.into()),
                Err(refusal) => {
                    debug!(app.name = %app, instance.id = %id, %refusal, "a peer's registration is refused: {refusal}");
                    return Err(200);
                }
            }
        }
        Action::Heartbeat => {
            let overridden = item.overridden_status.as_deref().map(Status::parse);
            has_bad_override = overridden == Some(None);
            let renewal = Renewal {
                dirty,
                overridden: overridden.flatten().filter(|_| !terms.is_our_kind),
            };
            Command::Renew { app, id, renewal }
        }
        Action::Cancel => {
            // Java peers say nothing of what they cancelled.
            let version = item
                .instance
                .filter(|_| terms.is_our_kind)
                .map(|draft| Version {
                    dirty: draft.last_dirty_timestamp,
                    updated: draft.last_updated_timestamp,
                });
            Command::Cancel { app, id, version }
        }
        Action::StatusUpdate => match status {
            Some(status) => Command::SetStatus {
                app,
                id,
                status,
                dirty,
            },
            None => return Err(if is_known() { 500 } else { 404 }),
        },
        Action::DeleteStatusOverride => {
            let is_bad = item.status.is_some() && status.is_none();
            if (is_bad || dirty.is_none()) && is_known() {
                return Err(500);
            }
            Command::DeleteOverride {
                app,
                id,
                status,
                dirty,
            }
        }
    };
    Ok((command, has_bad_override))
}

fn outcome_of(reply: Option<&Reply>, has_bad_override: bool) -> ItemOutcome {
    match reply {
        Some(Reply::Done | Reply::Evicted { .. }) => ItemOutcome::of(200),
        Some(Reply::SenderIsNewer) if has_bad_override => ItemOutcome::of(500),
        Some(Reply::NotFound | Reply::SenderIsNewer) => ItemOutcome::of(404),
        Some(Reply::Conflict(lease)) => ItemOutcome {
            status: 409,
            entity: Some(lease.clone()),
        },
        // Replies to commands that no batch leads to.
        Some(
            Reply::Held(_)
            | Reply::TooManyHolds
            | Reply::TooMuchMetadata
            | Reply::TooManyInstances(_),
        )
        | None => ItemOutcome::of(500),
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
