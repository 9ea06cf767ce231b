//! Whether the log leads from one checkpoint to the next one: the strongest thing that a check can hold
//! against both.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::registry::Registry;
use crate::registry::change::{LeaseImage, Record};
use crate::registry::rules::Rules;
use crate::store::Checkpoint;
use crate::store::finding::{Severity, Survey};
use crate::store::v1::SegmentV1;
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// The state of the older checkpoint, led on by the log to the newer one: the two must agree. Where the log
/// does not lead on without a gap, for whatever reason, there is nothing to compare.
#[derive(Debug)]
pub(super) struct Replay {
    /// Where it begins.
    from: Lsn,
    /// How far it has come: everything up to here was taken, or left out of the log on purpose.
    upto: Lsn,
    pair: Option<(Registry, Checkpoint)>,
}

impl Replay {
    pub(super) fn new(mut good: Vec<Checkpoint>) -> Self {
        let (newer, older) = (good.pop(), good.pop());
        let (Some(newer), Some(older)) = (newer, older) else {
            return Self {
                from: Lsn::ZERO,
                upto: Lsn::ZERO,
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
            upto: from,
            pair: Some((registry, newer)),
        }
    }

    /// A segment begins. LSNs may have been left out in front of it, over which only checkpoints from its
    /// base on lead: there is nothing to compare if this one began before.
    pub(super) fn begin_segment(&mut self, facts: &SegmentV1) {
        if self.from < Lsn(facts.base) {
            self.pair = None;
        } else if (facts.after..facts.first).contains(&self.upto.0) {
            self.upto = Lsn(facts.first - 1);
        }
    }

    /// Takes the next record that can be read. If that is not the next one of the log, something is missing.
    pub(super) fn take(&mut self, record: &Record) {
        let Some((registry, newer)) = &mut self.pair else {
            return;
        };
        if record.lsn <= self.upto || record.lsn > newer.lsn {
            return;
        }
        if record.lsn == self.upto.next() {
            registry.evolve(record, Millis::ZERO);
            self.upto = record.lsn;
        } else {
            self.pair = None;
        }
    }

    pub(super) fn compare(self, survey: &mut Survey) {
        let Some((registry, newer)) = self.pair else {
            return;
        };
        // The log ends before, or cannot be read up to there.
        if self.upto < newer.lsn {
            return;
        }
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
