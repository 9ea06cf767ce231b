//! What is asked or told next: what has its turn, and its request.

use super::flight::{Cut, Flight, Lane};
use super::{
    Ask, BACKLOG_MAX, COMPARE_EVERY_MS, COMPARE_WAITS_MS, Kind, Next, RECORDS_PER_STEP,
    RENEWALS_EVERY_MS, Records, Sender,
};
use crate::changelog::Published;
use crate::registry::change::Actor;
use crate::replication::outbound::{self, BATCH_ITEMS, Backlog, Item};
use crate::replication::portion;
use crate::types::Millis;

/// What takes turns between changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Renewals,
    Owed,
    Sweep,
    Comparison,
    Recent,
}

impl Turn {
    pub(super) const ALL: [Self; 5] = [
        Self::Renewals,
        Self::Owed,
        Self::Sweep,
        Self::Comparison,
        Self::Recent,
    ];
}

impl Sender {
    /// Of what has something to send besides changes, that which has waited longest.
    pub(super) fn next_turn(&mut self, now: Millis, state: &Published) -> Option<Next> {
        let mut turns = Turn::ALL;
        turns.sort_by_key(|turn| self.had_turn[*turn as usize]);
        for turn in turns {
            let next = match turn {
                Turn::Renewals if now >= self.renewals_at() => self.next_renewals(now, state),
                Turn::Owed => self.next_owed(state),
                Turn::Sweep => self.next_sweep(state),
                Turn::Comparison if self.is_comparison_overdue(now) => {
                    self.next_comparison(now, state)
                }
                Turn::Recent if self.reads_recent() && now >= self.java.read_at() => {
                    Some(self.ask(Flight::Recent, Ask::Recent))
                }
                Turn::Renewals | Turn::Comparison | Turn::Recent => None,
            };
            if next.is_some() {
                self.had_turn[turn as usize] = self.counters.requests;
                return next;
            }
        }
        None
    }

    /// How many items of this sort a batch may have.
    fn most(&self, lane: Lane) -> usize {
        self.batch_max[lane as usize]
    }

    pub(super) fn renewals_at(&self) -> Millis {
        // A flush that has begun is gone on with at once.
        let flush_at = match &self.cut {
            Some(_) => Millis::ZERO,
            None => self.renewed_upto.plus(RENEWALS_EVERY_MS + 1),
        };
        flush_at.max(self.java.renewals_from())
    }

    pub(super) fn ask(&mut self, flight: Flight, ask: Ask) -> Next {
        self.was_changes = matches!(flight, Flight::Changes { .. });
        self.counters.requests += 1;
        self.counters.items += flight.items().len() as u64;
        self.flight = Some(flight);
        Next::Ask(ask)
    }

    fn send(&mut self, flight: Flight) -> Next {
        let items = flight.items().to_vec();
        let is_digest = matches!(flight, Flight::Renewals { .. }) && self.kind.is_ours();
        let ask = if is_digest {
            Ask::Renewals(items)
        } else {
            Ask::Batch(items)
        };
        self.ask(flight, ask)
    }

    fn next_owed(&mut self, state: &Published) -> Option<Next> {
        let most = self.most(Lane::Owed);
        let at_most = most.max(2);
        let mut items = Vec::new();
        while items.len() + 2 <= at_most
            && let Some(((app, id), is_meant)) = self.owed.pop_first()
        {
            let Some(lease) = state.registry.lease(app.as_str(), id.as_str()) else {
                continue;
            };
            let is_meant = is_meant && !lease.image.is_untouched();
            let has_override = is_meant || !self.kind.is_ours();
            items.extend(outbound::state_of(
                lease,
                &state.registry,
                has_override,
                Actor::UNKNOWN,
            ));
        }
        let is_alone = most == 1 && !items.is_empty();
        while items.len() < most
            && !is_alone
            && let Some((app, id)) = self.owed_renewals.pop_first()
        {
            let Some(lease) = state.registry.lease(app.as_str(), id.as_str()) else {
                continue;
            };
            let overridden = state.registry.override_of(&app, &id);
            items.push(Item::Heartbeat {
                lease: lease.clone(),
                overridden,
            });
        }
        (!items.is_empty()).then(|| self.send(Flight::Owed { items }))
    }

    pub(super) fn next_changes(
        &mut self,
        state: &Published,
        records: &mut impl Records,
    ) -> Option<Next> {
        let mut left = RECORDS_PER_STEP;
        self.is_reading = false;
        loop {
            let (upto, is_ours) = (self.upto, self.kind.is_ours());
            let mut backlog = self
                .backlog
                .take()
                .unwrap_or_else(|| Backlog::behind(upto, self.recovered, is_ours));
            while backlog.is_open && backlog.upto < state.lsn() && backlog.size() < BACKLOG_MAX {
                if left == 0 {
                    self.is_reading = true;
                    self.backlog = Some(backlog);
                    return None;
                }
                let Some(mut read) = records.since(backlog.upto.next()) else {
                    // The log does not reach back so far.
                    self.sweep_instead(state.lsn());
                    self.skip_sweep();
                    return None;
                };
                // The log on the disk may be ahead of the registry that says what became of it.
                read.retain(|record| record.lsn <= state.lsn());
                if read.is_empty() {
                    break;
                }
                left = left.saturating_sub(read.len());
                backlog.take_in(&read);
            }
            let most = self.most(Lane::Changes);
            let (items, told) = backlog.next_items(most, &state.registry, self.late_upto);
            if !items.is_empty() {
                self.backlog = Some(backlog);
                return Some(self.send(Flight::Changes { items, told }));
            }
            if backlog.upto <= upto {
                return None;
            }
            self.upto = backlog.upto;
        }
    }

    fn next_renewals(&mut self, now: Millis, state: &Published) -> Option<Next> {
        let at_most = if self.kind.is_ours() {
            self.pace.renewals()
        } else {
            self.most(Lane::Renewals)
        };
        let cut = self.cut.clone().unwrap_or(Cut {
            // What is renewed within this very millisecond may come after this look.
            until: Millis(now.0.saturating_sub(1)),
            after: None,
        });
        let (items, after) = outbound::renewals(
            &state.registry,
            self.renewed_upto,
            cut.after.as_ref(),
            at_most,
        );
        if items.is_empty() {
            self.renewed_upto = cut.until;
            self.cut = None;
            return None;
        }
        let cut = Cut {
            until: cut.until,
            after,
        };
        Some(self.send(Flight::Renewals { items, cut }))
    }

    /// Nodes of our own kind are not swept: a comparison finds what they lack, and does not mistake an
    /// old state for news.
    pub(super) fn skip_sweep(&mut self) {
        if self.kind.is_ours() && self.sweep.take().is_some() {
            self.is_unsure = true;
        }
    }

    fn next_sweep(&mut self, state: &Published) -> Option<Next> {
        let sweep = self.sweep.as_ref()?;
        let most = self.most(Lane::Sweep);
        let (items, rest) = outbound::sweep(&state.registry, sweep.after.as_ref(), most);
        if items.is_empty() {
            self.sweep = None;
            return None;
        }
        Some(self.send(Flight::Sweep { items, rest }))
    }

    /// Whether registries are compared: only when the peer should have everything, since differences
    /// are to be expected while changes are on their way.
    pub(super) fn compares(&self) -> bool {
        self.kind.is_ours() && self.sweep.is_none() && !self.is_held_back
    }

    /// Whether a Java node is asked what changed there lately.
    pub(super) fn reads_recent(&self) -> bool {
        // What one that began anew has of others may be older than what it is about to be told.
        let is_busy = self.is_held_back || self.sweep.is_some() || self.failures > 0;
        self.kind == Kind::Java && !is_busy
    }

    /// Whether a comparison has waited long enough for changes to come to an end. A peer that was away
    /// is told first what it missed, and what it asked for: compared before that, it would be told twice.
    fn is_comparison_overdue(&self, now: Millis) -> bool {
        let untold = self.backlog.as_ref().map_or(0, Backlog::len) + self.owed.len();
        self.failures == 0
            && untold <= BATCH_ITEMS
            && (now >= self.compare_at.plus(COMPARE_WAITS_MS) || !self.differing.is_empty())
    }

    pub(super) fn next_comparison(&mut self, now: Millis, state: &Published) -> Option<Next> {
        if !self.compares() {
            return None;
        }
        if !self.differing.is_empty() {
            let (registry, bytes) = (&state.registry, self.pace.question_bytes());
            let asked = portion::next_question(registry, &mut self.differing, bytes);
            let flight = Flight::Compare {
                asked: asked.clone(),
            };
            let ask = Ask::Compare {
                asked,
                answer_bytes: self.pace.answer_bytes(),
            };
            return Some(self.ask(flight, ask));
        }
        (now >= self.compare_at).then(|| {
            self.compare_at = now.plus(COMPARE_EVERY_MS);
            self.ask(Flight::Digests, Ask::Digests)
        })
    }
}
