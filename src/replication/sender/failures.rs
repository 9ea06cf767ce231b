//! What follows from a request that has to be made again, or is given up.

use std::collections::BTreeSet;

use super::flight::{Flight, Suspect};
use super::{BACK_OFF_MAX_MS, BACK_OFF_MIN_MS, Effect, Kind, MISCOUNTS_MAX, Sender};
use crate::replication::outbound::Item;
use crate::types::Millis;

impl Sender {
    /// Success, but not one result per item. If that is no accident, it is success all the same, as the
    /// original takes it; what was not understood is found by heartbeats.
    pub(super) fn miscounted(&mut self, flight: Flight, now: Millis, random: u64) {
        self.counters.item_errors += 1;
        self.miscounts += 1;
        self.back_off(now, random);
        if self.miscounts > MISCOUNTS_MAX {
            self.miscounts = 0;
            self.finish(flight);
        } else {
            self.put_back(flight);
        }
    }

    /// The peer refuses a batch as a whole. One bad item must not hold up the others for ever: the
    /// batches become smaller until it stands alone, and then it is given up, if the peer answers
    /// anything at all.
    pub(super) fn refused(
        &mut self,
        flight: Flight,
        status: u16,
        now: Millis,
        random: u64,
    ) -> Vec<Effect> {
        self.counters.item_errors += 1;
        if let Flight::Renewals { items, .. } = &flight
            && self.kind.is_ours()
        {
            // A digest does not become smaller, but what it says can be told in batches.
            self.owed_renewals.extend(items.iter().map(Item::key));
            self.back_off(now, random);
            self.finish(flight);
            return Vec::new();
        }
        let count = flight.items().len();
        let first = flight.items().first().map(Item::key);
        let Some(key) = first.filter(|_| flight.is_single()) else {
            self.narrow(&flight, count / 2);
            self.put_back(flight);
            self.back_off(now, random);
            return Vec::new();
        };
        let is_proven = self
            .suspect
            .take()
            .is_some_and(|suspect| suspect.key == key && suspect.is_peer_fine);
        if !is_proven {
            self.suspect = Some(Suspect {
                key,
                is_peer_fine: false,
                since: now,
            });
            self.narrow(&flight, 1);
            self.put_back(flight);
            self.back_off(now, random);
            self.kind = Kind::Unknown;
            return Vec::new();
        }
        self.back_off(now, random);
        // Neither what it was told nor what it was asked is worth another try.
        self.finish_knowing(flight, &BTreeSet::from([key.clone()]));
        let (app, id) = key;
        vec![Effect::GaveUp { app, id, status }]
    }

    /// A request that has to be made again: what is not found by position is kept.
    pub(super) fn put_back(&mut self, flight: Flight) {
        let items = match flight {
            Flight::Changes { told, .. } => {
                if let Some(backlog) = &mut self.backlog {
                    backlog.put_back(told);
                }
                return;
            }
            Flight::Owed { items } => items,
            Flight::Probe
            | Flight::Renewals { .. }
            | Flight::Sweep { .. }
            | Flight::Digests
            | Flight::Born
            | Flight::Recent
            | Flight::Compare { .. } => return,
        };
        for item in items {
            let key = item.key();
            match item {
                Item::Heartbeat { .. } => {
                    self.owed_renewals.insert(key);
                }
                Item::SetStatus { .. } | Item::DeleteOverride(_) => {
                    self.owed.insert(key, true);
                }
                Item::Register { .. } | Item::Cancel { .. } => {
                    self.owed.entry(key).or_insert(false);
                }
            }
        }
    }

    /// Doubles the pause, up to a bound, and spreads it by half, so that peers that failed together are
    /// not tried together. Never more often than once a second.
    pub(super) fn back_off(&mut self, now: Millis, random: u64) {
        self.is_late = true;
        self.counters.failures += 1;
        self.failures = self.failures.saturating_add(1);
        let doubled = BACK_OFF_MIN_MS << (self.failures - 1).min(5);
        let pause = doubled.min(BACK_OFF_MAX_MS);
        self.quiet_until = now.plus(pause + random % (pause / 2 + 1));
    }
}
