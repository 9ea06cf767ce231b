//! Holds: an operator takes an instance out of service for a time (design 6).
//!
//! A *drain* sends clients away now and cancels the instance when its time is over. A *quarantine* keeps
//! an id from coming back UP until its time is over, whether or not it is there, whoever registers it.
//! Both are overrides with an end: everything that reads overrides, Java peers among them, sees
//! `OUT_OF_SERVICE`.
//!
//! A quarantine is the stronger word: it ends a drain, and no drain ends it or is accepted beside it.
//!
//! Nodes of our own kind exchange their holds. Of two of one kind about one instance the later word counts
//! ([`Hold::is_later_than`]); a released one is remembered until its time would have been over anyway, so
//! that no node brings it back. The kinds are kept apart, so that it does not matter which of them a node
//! hears of first: a drain that a node accepted which had not heard of an earlier quarantine waits behind it,
//! and is all that is left where the quarantine turns out to have been released before.

use std::sync::Arc;

use super::Registry;
use super::change::{Change, ChangeKind, HoldEffect, LeaseImage, OverrideEffect};
use super::command::{Context, Decision, Reply};
use super::decide::{change_of, first_up, mark_modified};
use super::instance::Instance;
use super::lease::Lease;
use super::status::Status;
use crate::types::{AppName, InstanceId, Millis};

/// Most holds of a registry: operators' work, not programs'.
pub const HOLDS_MAX: usize = 10_000;
/// Holds that end in one command.
const ENDED_AT_ONCE: usize = 1_000;

/// What is done with an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldKind {
    /// Out of service now, cancelled at the end.
    Drain,
    /// Not UP until the end, and free after it.
    Quarantine,
}

impl HoldKind {
    pub const ALL: [Self; 2] = [Self::Drain, Self::Quarantine];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Quarantine => "quarantine",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// An instance that an operator holds, or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub kind: HoldKind,
    /// Wall time of its end, by the clock of this node: each ends it by itself.
    pub until: Millis,
    /// Wall time of the word that made it what it is, by the clock of the node where it was given.
    pub at: Millis,
    /// It is over: kept only so that nobody takes it for news.
    pub is_released: bool,
}

impl Hold {
    /// Whether it holds at all; it may be due.
    pub fn is_active(&self) -> bool {
        !self.is_released
    }

    /// Whether this word counts rather than the other one of the same kind about the same instance. All
    /// nodes agree: of two words with one `at`, which only their ends tell apart (both came right behind one
    /// whose clock was ahead, say), each node keeps its own until the one that ends first ends both.
    pub fn is_later_than(&self, other: &Self) -> bool {
        let order = |hold: &Self| (hold.at, hold.is_released);
        order(self) > order(other)
    }

    /// Whether this is a quarantine that ends that drain of the same instance.
    fn ends(&self, drain: &Self) -> bool {
        self.kind == HoldKind::Quarantine && self.is_active() && self.at >= drain.at
    }

    fn released(self, at: Millis) -> Self {
        Self {
            at,
            is_released: true,
            ..self
        }
    }
}

impl Registry {
    /// Everything that is known of holds, released ones included.
    pub fn holds(&self) -> impl Iterator<Item = (&AppName, &InstanceId, &Hold)> {
        self.holds
            .iter()
            .map(|((app, id, _), hold)| (app, id, hold))
    }

    /// The hold of an instance, if one is in force.
    pub fn hold_of(&self, app: &AppName, id: &InstanceId) -> Option<&Hold> {
        self.quarantine_of(app, id)
            .or_else(|| self.active_hold(app, id, HoldKind::Drain))
    }

    /// The drain that waits behind the quarantine of an instance; it is in force where there is none.
    pub fn drain_of(&self, app: &AppName, id: &InstanceId) -> Option<&Hold> {
        self.active_hold(app, id, HoldKind::Drain)
    }

    /// What is known of an instance's holds of a kind, be it that one was released.
    pub fn known_hold(&self, app: &AppName, id: &InstanceId, kind: HoldKind) -> Option<&Hold> {
        if self.holds.is_empty() {
            return None;
        }
        self.holds.get(&(app.clone(), id.clone(), kind))
    }

    fn active_hold(&self, app: &AppName, id: &InstanceId, kind: HoldKind) -> Option<&Hold> {
        self.known_hold(app, id, kind)
            .filter(|hold| hold.is_active())
    }

    fn quarantine_of(&self, app: &AppName, id: &InstanceId) -> Option<&Hold> {
        self.active_hold(app, id, HoldKind::Quarantine)
    }

    /// Whether the id may not be UP, whatever anybody says.
    pub(super) fn is_quarantined(&self, app: &AppName, id: &InstanceId) -> bool {
        self.quarantine_of(app, id).is_some()
    }

    /// What somebody hears who wants a quarantined instance back. Peers that do not know of it are not
    /// told: they would try again for ever.
    pub(super) fn refused_by_quarantine(
        &self,
        app: &AppName,
        id: &InstanceId,
        context: &Context,
    ) -> Option<Decision> {
        let hold = self.quarantine_of(app, id)?;
        Some(Decision::reply(if context.is_replication {
            Reply::Done
        } else {
            Reply::Held(*hold)
        }))
    }

    /// What the end of a drain, or of what it drained, does to it. A quarantine stays.
    pub(super) fn hold_ends(
        &self,
        app: &AppName,
        id: &InstanceId,
        context: &Context,
    ) -> HoldEffect {
        match self.active_hold(app, id, HoldKind::Drain) {
            Some(hold) => HoldEffect::Put(hold.released(context.now.wall.max(hold.at.plus(1)))),
            None => HoldEffect::Keep,
        }
    }

    /// An operator's word, or that of a node that had it from one.
    pub(super) fn decide_hold(
        &self,
        app: &AppName,
        id: &InstanceId,
        told: &Hold,
        context: &Context,
    ) -> Decision {
        let known = self.known_hold(app, id, told.kind);
        let quarantine = self
            .quarantine_of(app, id)
            .filter(|_| told.kind == HoldKind::Drain && !told.is_released);
        let mut hold = *told;
        if context.is_replication {
            let is_news = known.map_or(
                // Of what is over anyway nobody needs to know that it was released.
                !hold.is_released || hold.until > context.now.wall,
                |known| hold.is_later_than(known),
            );
            if !is_news || quarantine.is_some_and(|quarantine| quarantine.ends(&hold)) {
                return Decision::reply(Reply::Done);
            }
        } else if let Some(quarantine) = quarantine {
            return Decision::reply(Reply::Held(*quarantine));
        } else {
            // Later than what it replaces, whatever the clocks say.
            hold.at = HoldKind::ALL
                .iter()
                .filter_map(|kind| self.known_hold(app, id, *kind))
                .fold(context.now.wall, |at, known| at.max(known.at.plus(1)));
        }
        let is_known_active = known.is_some_and(Hold::is_active);
        if hold.is_released {
            if !context.is_replication && !is_known_active {
                return Decision::reply(Reply::NotFound);
            }
            return if is_known_active {
                Decision::change(self.released(app, id, hold, context))
            } else {
                Decision::change(bare(app, id, OverrideEffect::Keep, hold))
            };
        }
        if known.is_none() && self.holds.len() >= HOLDS_MAX {
            return Decision::reply(Reply::TooManyHolds);
        }
        let lease = self.lease(app.as_str(), id.as_str());
        match lease {
            // It waits behind the quarantine, which has done all this.
            _ if quarantine.is_some() => {
                Decision::change(bare(app, id, OverrideEffect::Keep, hold))
            }
            Some(lease) => {
                let mut decision = Decision::change(held(lease, hold, context));
                decision.renews = Some(lease.clone());
                decision
            }
            None if hold.kind == HoldKind::Quarantine => {
                let effect = OverrideEffect::Set(Status::OutOfService);
                Decision::change(bare(app, id, effect, hold))
            }
            // The lease may be on its way, with its override.
            None if context.is_replication => {
                Decision::change(bare(app, id, OverrideEffect::Keep, hold))
            }
            None => Decision::reply(Reply::NotFound),
        }
    }

    /// The timer's look: what is over is carried out, drains by cancelling, quarantines by letting go.
    pub(super) fn decide_ended_holds(&self, kind: HoldKind, context: &Context) -> Decision {
        let now = context.now.wall;
        let due = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.is_active() && hold.kind == kind && hold.until <= now)
            .take(ENDED_AT_ONCE);
        let mut changes = Vec::new();
        for ((app, id, _), hold) in due {
            let over = hold.released(now.max(hold.at.plus(1)));
            let lease = self.lease(app.as_str(), id.as_str());
            changes.push(match (kind, lease) {
                (HoldKind::Drain, Some(lease)) if !self.is_quarantined(app, id) => {
                    self.removal(ChangeKind::Cancelled, lease, context)
                }
                _ => self.released(app, id, over, context),
            });
        }
        Decision {
            changes,
            ..Decision::reply(Reply::Done)
        }
    }

    /// The override of a hold goes with it, unless there is another one; the status that the instance
    /// reported last is back.
    fn released(&self, app: &AppName, id: &InstanceId, over: Hold, context: &Context) -> Change {
        // The override may have been lifted by a word that was quicker.
        let is_overridden = self.override_of(app, id) == Some(Status::OutOfService)
            && !HoldKind::ALL
                .into_iter()
                .any(|kind| kind != over.kind && self.active_hold(app, id, kind).is_some());
        let Some(lease) = self
            .lease(app.as_str(), id.as_str())
            .filter(|_| is_overridden)
        else {
            let effect = if is_overridden {
                OverrideEffect::Remove
            } else {
                OverrideEffect::Keep
            };
            return bare(app, id, effect, over);
        };
        let mut instance = (**lease.instance()).clone();
        instance.overridden_status = Status::Unknown;
        instance.status = lease.image.reported;
        mark_modified(&mut instance, context);
        let image = with_instance(lease, instance, context);
        Change {
            hold_effect: HoldEffect::Put(over),
            ..change_of(
                ChangeKind::OverrideLifted,
                image,
                OverrideEffect::Remove,
                true,
            )
        }
    }

    /// Takes over a hold, and forgets those whose time would have been over: nobody can bring them back. A
    /// quarantine ends a drain. Also for whoever goes through a log for the holds alone.
    pub(crate) fn evolve_hold(&mut self, change: &Change, at: Millis) {
        let HoldEffect::Put(hold) = change.hold_effect else {
            return;
        };
        let over: Vec<_> = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.is_released && hold.until < at)
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            self.holds.remove(&key);
        }
        self.restore_hold(&change.app, &change.id, hold);
        let ended = self
            .active_hold(&change.app, &change.id, HoldKind::Drain)
            .filter(|drain| hold.ends(drain))
            .map(|drain| drain.released(hold.at));
        if let Some(ended) = ended {
            self.restore_hold(&change.app, &change.id, ended);
        }
    }

    /// Puts a hold as a checkpoint has it.
    pub fn restore_hold(&mut self, app: &AppName, id: &InstanceId, hold: Hold) {
        self.holds
            .insert((app.clone(), id.clone(), hold.kind), hold);
    }

    /// What a quarantine does to a state that a peer sent. Not a newer version: either the peer learns
    /// of the quarantine and makes one, or this node learns that it is over and makes one.
    pub(super) fn keep_quarantine(&self, sent: &mut Instance) {
        if self.is_quarantined(&sent.app, &sent.id()) {
            sent.overridden_status = Status::OutOfService;
        }
    }
}

/// The change of a lease that an operator takes out of service.
fn held(lease: &Arc<Lease>, hold: Hold, context: &Context) -> Change {
    let is_so =
        [lease.instance().status, lease.instance().overridden_status] == [Status::OutOfService; 2];
    let image = if is_so {
        lease.to_image()
    } else {
        let mut instance = (**lease.instance()).clone();
        instance.status = Status::OutOfService;
        instance.overridden_status = Status::OutOfService;
        mark_modified(&mut instance, context);
        with_instance(lease, instance, context)
    };
    Change {
        hold_effect: HoldEffect::Put(hold),
        ..change_of(
            ChangeKind::OverrideSet,
            image,
            OverrideEffect::Set(Status::OutOfService),
            true,
        )
    }
}

fn with_instance(lease: &Lease, instance: Instance, context: &Context) -> LeaseImage {
    let mut image = lease.to_image();
    image.service_up_at = first_up(image.service_up_at, instance.status, context);
    image.instance = Arc::new(instance);
    image
}

/// The change of an id that has no lease.
fn bare(app: &AppName, id: &InstanceId, override_effect: OverrideEffect, hold: Hold) -> Change {
    let kind = if hold.is_active() {
        ChangeKind::OverrideSet
    } else {
        ChangeKind::OverrideLifted
    };
    Change {
        app: app.clone(),
        id: id.clone(),
        kind,
        lease: None,
        override_effect,
        hold_effect: HoldEffect::Put(hold),
        visible: false,
    }
}
