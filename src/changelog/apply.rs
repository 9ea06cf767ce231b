//! One command: decided, turned into records, applied. The writer does this for every command of a
//! batch; simulations of whole clusters do the same, so that there is one way only.

use std::sync::Arc;

use super::Published;
use crate::registry::change::{Actor, Origin, Record};
use crate::registry::command::{Command, Context, Reply};
use crate::types::Now;

/// Who asks, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) actor: &'a Actor,
    pub(crate) now: Now,
    /// Whether expired leases count as gone.
    pub(crate) expiration_enabled: bool,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) reply: Reply,
    /// Whether it is a renewal that counts in the renewals of the last minute.
    pub(crate) counts: bool,
}

/// Carries `command` out on `state`; the records that have to be stored go to the end of `records`.
pub(crate) fn apply(
    state: &mut Published,
    command: &Command,
    asked: &Asked<'_>,
    records: &mut Vec<Arc<Record>>,
) -> Applied {
    let now = asked.now;
    let context = Context {
        now,
        is_replication: asked.origin.is_replication(),
        expiration_enabled: asked.expiration_enabled,
    };
    let decision = state.registry.decide(command, &context);
    if let Some(lease) = &decision.renews {
        lease.renew(now, state.registry.rules().lease_expiry);
        if decision.counts && !context.is_replication {
            lease.clock.set_renewed_by_client(now.mono);
        }
    }
    if let Some((lease, vouched_ms)) = &decision.prolongs {
        lease.run_for(now, *vouched_ms);
    }
    let counts = decision.renews.is_some() && decision.counts;
    for change in decision.changes {
        let record = Arc::new(Record {
            lsn: state.registry.lsn().next(),
            at: now.wall,
            origin: asked.origin.clone(),
            actor: asked.actor.clone(),
            change,
        });
        state.registry.evolve(&record, now.mono);
        state.delta.push(&record, now.mono);
        records.push(record);
    }
    Applied {
        reply: decision.reply,
        counts,
    }
}
