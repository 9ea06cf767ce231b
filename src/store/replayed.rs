//! Whether the log leads from one checkpoint to the next one: the strongest thing that a check can hold
//! against both.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::registry::Registry;
use crate::registry::change::{LeaseImage, Record};
use crate::registry::rules::Rules;
use crate::store::Checkpoint;
use crate::store::finding::{Severity, Survey};
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// The state of the older checkpoint, led on by the log to the newer one: the two must agree.
#[derive(Debug)]
pub(super) struct Replay {
    /// Where it begins.
    from: Lsn,
    pair: Option<(Registry, Checkpoint)>,
}

impl Replay {
    pub(super) fn new(mut good: Vec<Checkpoint>) -> Self {
        let (newer, older) = (good.pop(), good.pop());
        let (Some(newer), Some(older)) = (newer, older) else {
            return Self {
                from: Lsn::ZERO,
                pair: None,
            };
        };
        let from = older.lsn;
        let mut registry = Registry::new(Arc::new(Rules::default()));
        for lease in older.leases {
            registry.restore_lease(&lease.app, &lease.id, lease.image, lease.lsn, Millis::ZERO);
        }
        registry.restored_at(older.lsn);
        Self {
            from,
            pair: Some((registry, newer)),
        }
    }

    /// The log has a hole over which only checkpoints from `base` on lead: there is nothing to compare if
    /// this one began before.
    pub(super) fn pass_hole(&mut self, base: Lsn) {
        if self.from < base {
            self.give_up();
        }
    }

    pub(super) fn take(&mut self, record: &Record) {
        if let Some((registry, newer)) = &mut self.pair
            && record.lsn <= newer.lsn
        {
            registry.evolve(record, Millis::ZERO);
        }
    }

    /// Something is missing: there is nothing to compare any more.
    pub(super) fn give_up(&mut self) {
        self.pair = None;
    }

    pub(super) fn compare(self, survey: &mut Survey) {
        let Some((registry, newer)) = self.pair else {
            return;
        };
        // Renewals are no changes, so their times differ.
        let settled = |image: &LeaseImage| LeaseImage {
            renewed_at: Millis::ZERO,
            ..image.clone()
        };
        let mut held: BTreeMap<(AppName, InstanceId), LeaseImage> = newer
            .leases
            .into_iter()
            .map(|lease| ((lease.app, lease.id), settled(&lease.image)))
            .collect();
        let mut differing = Vec::new();
        for (app, application) in registry.apps() {
            for lease in application.leases() {
                let key = (app.clone(), lease.instance().id());
                if held.remove(&key) != Some(settled(&lease.image)) {
                    differing.push(key);
                }
            }
        }
        differing.extend(held.into_keys());
        if let Some((app, id)) = differing.first() {
            survey.find(
                Severity::History,
                format!("checkpoint {}", newer.lsn),
                format!(
                    "{} of its leases are not what the log leads to, the first is {app}/{id}",
                    differing.len()
                ),
            );
        }
    }
}
