//! What a registry does with the changes of one client, written down a second time and as plainly as
//! possible: the judge of the crash loop. Only the default rules, and only what the loop sends.

use std::collections::BTreeMap;

/// A request. Instances are numbered.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Register {
        id: u64,
        status: &'static str,
        dirty: i64,
        metadata: BTreeMap<String, String>,
    },
    SetStatus {
        id: u64,
        status: &'static str,
        dirty: i64,
    },
    Lift {
        id: u64,
        dirty: i64,
    },
    Metadata {
        id: u64,
        key: String,
        value: String,
    },
    Cancel {
        id: u64,
    },
    Beat {
        id: u64,
    },
    /// Metadata of the instance that all clients share; each has a key of its own.
    Shared {
        value: u64,
    },
    /// Several of the others from a peer: all of them or none.
    Batch(Vec<Self>),
}

/// Statuses of an answer, one per item of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    One(u16),
    Many(Vec<u16>),
}

/// One client's part of the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    instances: BTreeMap<u64, Instance>,
    shared: Option<String>,
    /// Changes to the shared instance, ever.
    pub(crate) shared_changes: i64,
    /// Records that the log must have taken since someone set this to 0.
    pub(crate) changes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Instance {
    status: &'static str,
    /// The status that the client said last, which comes back with the end of an override.
    reported: &'static str,
    held: Option<&'static str>,
    dirty: i64,
    metadata: BTreeMap<String, String>,
}

/// What others can see of a [`State`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visible {
    pub(crate) instances: BTreeMap<u64, Shown>,
    pub(crate) shared: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) status: String,
    pub(crate) held: Option<String>,
    pub(crate) dirty: i64,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl State {
    /// Does what the request asks for, and says how it is to be answered.
    pub(crate) fn apply(&mut self, op: &Op) -> Reply {
        match op {
            Op::Batch(items) => Reply::Many(items.iter().map(|op| self.one(op, true)).collect()),
            op => Reply::One(self.one(op, false)),
        }
    }

    fn one(&mut self, op: &Op, is_replicated: bool) -> u16 {
        match op {
            Op::Register {
                id,
                status,
                dirty,
                metadata,
            } => {
                let sent = Instance {
                    status,
                    reported: status,
                    held: None,
                    dirty: *dirty,
                    metadata: metadata.clone(),
                };
                self.register(*id, sent, is_replicated);
                if is_replicated { 200 } else { 204 }
            }
            Op::Shared { value } => {
                self.shared = Some(value.to_string());
                self.shared_changes += 1;
                self.changes += 1;
                200
            }
            Op::Cancel { id } => match self.instances.remove(id) {
                Some(_) => self.changed(),
                None => 404,
            },
            Op::SetStatus { id, .. }
            | Op::Lift { id, .. }
            | Op::Metadata { id, .. }
            | Op::Beat { id } => match self.instances.get_mut(id) {
                Some(instance) => {
                    if instance.take(op, is_replicated) {
                        self.changes += 1;
                    }
                    200
                }
                None => 404,
            },
            Op::Batch(_) => unreachable!("batches hold no batches"),
        }
    }

    fn changed(&mut self) -> u16 {
        self.changes += 1;
        200
    }

    /// An older description loses against the one that is there, but is a change all the same.
    fn register(&mut self, id: u64, sent: Instance, is_replicated: bool) {
        let existing = self.instances.get(&id);
        let mut next = match existing {
            Some(existing) if existing.dirty > sent.dirty => existing.clone(),
            _ => sent,
        };
        next.held = existing.and_then(|existing| existing.held);
        let before = existing.map(|existing| existing.status);
        if matches!(next.status, "UP" | "OUT_OF_SERVICE") {
            if let Some(held) = next.held {
                next.status = held;
            } else if let Some(before @ ("UP" | "OUT_OF_SERVICE")) = before
                && !is_replicated
            {
                next.status = before;
            }
        }
        self.instances.insert(id, next);
        self.changes += 1;
    }

    pub(crate) fn visible(&self) -> Visible {
        let shown = |instance: &Instance| Shown {
            status: instance.status.to_owned(),
            held: instance.held.map(str::to_owned),
            dirty: instance.dirty,
            metadata: instance.metadata.clone(),
        };
        Visible {
            instances: self
                .instances
                .iter()
                .map(|(id, instance)| (*id, shown(instance)))
                .collect(),
            shared: self.shared.clone(),
        }
    }
}

impl Instance {
    /// Whether anything changes. A peer's override says nothing of the version
    /// (`eurekad.replicated-version`).
    fn take(&mut self, op: &Op, is_replicated: bool) -> bool {
        let raised = |own: i64, told: i64| if is_replicated { own } else { own.max(told) };
        match op {
            Op::SetStatus { status, dirty, .. } => {
                if self.status == *status && self.held == Some(status) {
                    return false;
                }
                self.status = status;
                self.held = Some(status);
                self.dirty = raised(self.dirty, *dirty);
            }
            Op::Lift { dirty, .. } => {
                if self.held.take().is_none() {
                    return false;
                }
                self.status = self.reported;
                self.dirty = raised(self.dirty, *dirty);
            }
            Op::Metadata { key, value, .. } => {
                let before = self.metadata.insert(key.clone(), value.clone());
                if before.as_ref() == Some(value) {
                    return false;
                }
                self.dirty += 1;
            }
            Op::Beat { .. } => return false,
            other => unreachable!("{other:?} is about more than the instance"),
        }
        true
    }
}
