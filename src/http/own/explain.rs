//! `GET /explain/apps/{app}/{id}`: gathers what [`crate::history::explain`] puts together.

use std::ops::ControlFlow;

use serde_json::Value;

use super::history::{blocking, tell};
use super::{Answered, Parameters, json};
use crate::history::entry::HoldFacts;
use crate::history::explain::{Known, LeaseNow, PeerNow, Protection, explain};
use crate::history::times::At;
use crate::history::{Filter, Order, Question, Walk};
use crate::http::{Api, Head};
use crate::registry::Registry;
use crate::registry::lease::Lease;
use crate::registry::self_preservation;
use crate::replication::state::PeerState;
use crate::store::StoreError;
use crate::types::{AppName, InstanceId, Lsn, Now, millis};

/// Changes of the instance that are looked at for those that explain it.
const ENTRIES: usize = 500;
/// Records that are looked at for them.
const LOOKS: usize = 200_000;

impl Api {
    pub(super) async fn explain(&self, app: &str, id: &str, head: &Head<'_>) -> Answered {
        Parameters::of(head).each(&[], |_, _| Ok(false))?;
        let (app, id) = (AppName::new(app), InstanceId::new(id));
        let place = self.past.place().await?;
        let (reader, index) = (self.log.reader(), self.past.index.clone());
        let question = Question {
            filter: Filter {
                apps: vec![app.clone()],
                instance: Some(id.clone()),
                ..Filter::default()
            },
            order: Order::Newest,
        };
        let (entries, is_through) = blocking(move || -> Result<_, StoreError> {
            let _place = place;
            let mut found = Vec::new();
            let mut walk = Walk::new(reader, index, question);
            let walked = walk.take(ENTRIES, LOOKS, &mut |record, before| {
                found.push(tell(record, before));
                ControlFlow::Continue(())
            });
            match walked {
                Ok(()) => Ok((found, walk.next().is_none() && !walk.has_missed())),
                // What is in memory is explained all the same.
                Err(StoreError::Closed) => Ok((found, false)),
                Err(error) => Err(error),
            }
        })
        .await?;
        let horizon = self.past.horizon(self.log.reader()).await?;
        let is_whole = horizon
            .as_ref()
            .is_some_and(|horizon| horizon.note(&Filter::default()).is_none());

        let (state, now) = (self.log.snapshot(), self.clock.now());
        let registry = &state.registry;
        let lease = registry.lease(app.as_str(), id.as_str());
        // Evictions are no peer's business, and what came from a peer need not go back.
        let told_by = entries
            .iter()
            .find(|entry| entry.kind != "evicted" && entry.origin != "peer")
            .map_or(Lsn::ZERO, |entry| entry.lsn);
        let known = Known {
            lease: lease.map(|lease| lease_now(lease, now)),
            overridden: registry
                .override_of(&app, &id)
                .map(|status| status.to_string()),
            hold: registry.hold_of(&app, &id).map(|hold| HoldFacts {
                kind: hold.kind.as_str().into(),
                until: At(hold.until),
                released: false,
            }),
            protection: self.protection(registry),
            eviction_interval_ms: millis(self.config.registry.eviction_interval),
            peers: self
                .peers
                .all()
                .into_iter()
                .map(|(peer, state)| peer_now(peer, state, told_by))
                .collect(),
            entries,
            are_all: is_through && is_whole,
            oldest: horizon.and_then(|horizon| horizon.oldest),
            app: app.to_string(),
            instance: id.to_string(),
            now: now.wall,
        };
        json(&explain(known))
    }

    fn protection(&self, registry: &Registry) -> Protection {
        let (meter, settings) = (self.log.meter(), self.log.protection());
        Protection {
            enabled: settings.enabled,
            active: !self.log.expiration_enabled(registry),
            renewals_last_minute: meter.last_minute(),
            renewals_threshold: self_preservation::threshold(
                registry,
                settings,
                meter.phantom_clients(),
            ),
        }
    }

    /// Self-preservation as `/node` shows it.
    pub(super) fn self_preservation(&self) -> Value {
        let protection = self.protection(&self.log.published().registry);
        let mut shown = serde_json::to_value(protection).unwrap_or_default();
        shown["max_protection_ms"] = self.log.protection().max_protection_ms.into();
        shown
    }
}

fn lease_now(lease: &Lease, now: Now) -> LeaseNow {
    let renewed = lease.clock.renewed_wall();
    let (age, remaining) = (now.wall.since(renewed), lease.remaining_ms(now.mono));
    let duration = lease.image.duration_ms;
    let instance = lease.instance();
    let interval = u64::try_from(instance.lease.renewal_interval_secs).unwrap_or(0);
    LeaseNow {
        status: instance.status.to_string(),
        reported: lease.image.reported.to_string(),
        registered_at: At(lease.image.registered_at),
        renewed_at: At(renewed),
        renewal_age_ms: age,
        duration_ms: duration,
        remaining_ms: remaining,
        grace_ms: if lease.clock.is_grace() {
            remaining.saturating_sub(duration.saturating_sub(age))
        } else {
            0
        },
        renewal_interval_ms: interval.saturating_mul(1000),
    }
}

fn peer_now(peer: String, state: PeerState, told_by: Lsn) -> PeerNow {
    PeerNow {
        peer,
        reachable: state.is_reachable,
        in_sync: state.cursor >= told_by,
        lag_records: state.lag_records,
        cursor: state.cursor,
        error: state.error,
    }
}
