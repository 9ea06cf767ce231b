//! What to send to one peer next, and what follows from its answers: a state machine without I/O.
//!
//! There is at most one request in flight. Changes have every second one, if there are any; renewals, what
//! the peer asked for, a sweep of the whole registry and comparisons take turns in the others, so that none of
//! them holds another up. Nothing waits in a queue: what has to be sent is found in the log and in the registry
//! when its turn comes. With a peer of our own kind that has everything, registries are compared
//! every few seconds, and at once when it answers again after a failure, with questions and answers of a
//! bounded size, which is halved if the peer finds them too long or the link does not carry them in time
//! (`pace`), and so are batches. A peer that has not been asked anything for a
//! while is probed, so that it is known whether it is there.
//!
//! Every answer says what kind of node gave it. If that is not the kind that was asked, the request
//! counts as failed, since it may have been in the wrong form; whoever is there is asked what it is, and
//! a node that was not there before is swept or compared, beside what lies behind the cursor.

mod answers;
mod failures;
mod flight;
mod java;
mod pace;
mod place;
#[cfg(test)]
mod tests;
mod turns;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::outbound::{BATCH_ITEMS, Backlog, Key};
use super::portion::Portion;
use crate::changelog::Published;
use crate::types::{Lsn, Millis};
use flight::{Cut, Flight, Lane, Suspect};
use java::Java;
use pace::Pace;
pub use place::{Note, Place};
use turns::Turn;
pub use words::{
    Ask, Counters, Effect, Failure, ItemResult, Kind, Next, Outcome, RECORDS_AT_ONCE, Records,
    differing,
};

/// Least time between two flushes of renewals, ms.
const RENEWALS_EVERY_MS: u64 = 1000;
/// Renewals of one digest at most.
const DIGEST_ITEMS: usize = 20_000;
/// First pause after a failure, ms; doubled by each further one.
const BACK_OFF_MIN_MS: u64 = 1000;
/// Longest pause: a peer that is back is to be up to date within seconds.
const BACK_OFF_MAX_MS: u64 = 1500;
/// Least time between two comparisons, ms.
const COMPARE_EVERY_MS: u64 = 2000;
/// The same after one that found something: what was repaired here others may lack too.
const COMPARE_AGAIN_MS: u64 = 500;
/// Rounds of repairs in a row after which what still differs is not going to go away soon: one side
/// refuses it.
pub const REPAIRS_MAX: u32 = 20;
/// Applications that one look at the digests finds at most.
pub const COMPARE_APPS: usize = 20_000;
/// How long a comparison waits for changes to come to an end, ms: on a busy node they never do.
const COMPARE_WAITS_MS: u64 = 1000;
/// Instances of the log that are told as one piece; behind them the log is read again.
const BACKLOG_MAX: usize = 100_000;
/// Records that are read in one step, about: renewals have their turn in between.
const RECORDS_PER_STEP: usize = 4 * RECORDS_AT_ONCE;
/// How often answers of the wrong length are taken for an accident.
const MISCOUNTS_MAX: u32 = 3;
/// How long an instance that was refused alone is remembered, ms.
const SUSPECT_MS: u64 = 60_000;
/// After how long without an answer, ms, a peer is probed that there is nothing to tell.
const PROBE_AFTER_MS: u64 = 3000;
/// After how long without an answer, ms, a Java peer may have given up telling this node things: its queue keeps
/// them for half a minute, and it may have been out of reach for longer than it was asked anything.
const LOOK_AFTER_MS: u64 = 15_000;
/// After how long without an answer, ms, a Java peer may have been restarted, though nobody refused a connection
/// in between: what stands before it does not.
const SWEEP_AFTER_MS: u64 = 5000;

/// How far the telling of the whole registry is.
#[derive(Debug, Default)]
struct Sweep {
    /// The last instance that the peer has been told.
    after: Option<Key>,
}

/// One peer's sender.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known of the peer, one by one"
)]
pub struct Sender {
    /// The peer has everything up to here, once it has been swept.
    upto: Lsn,
    /// It is to be told the whole registry.
    sweep: Option<Sweep>,
    /// What of the log is still to be told before the cursor moves.
    backlog: Option<Backlog>,
    /// The end of the log when this process started.
    recovered: Lsn,
    /// Renewals up to this moment have been told.
    renewed_upto: Millis,
    cut: Option<Cut>,
    /// Instances that the peer needs; whether their override is meant (`outbound::state_of`).
    owed: BTreeMap<Key, bool>,
    /// Renewals that a digest could not tell the peer.
    owed_renewals: BTreeSet<Key>,
    compare_at: Millis,
    /// Rounds of comparisons in a row that found something, and whether this one has.
    repairs: u32,
    has_repaired: bool,
    /// The cursor was lost, or was of another node: until the registries are equal, the peer may not have heard of overrides
    /// that this node took, and what it says of them is taken with care.
    is_unsure: bool,
    /// What is still to be compared of the applications that differ.
    differing: VecDeque<Portion>,
    /// How much goes into a request and an answer.
    pace: Pace,
    /// The last one that was compared.
    compared: Option<String>,
    flight: Option<Flight>,
    /// Items per batch, for each [`Lane`]: halved while the peer refuses batches, to find the bad item, and
    /// when they do not get through in time.
    batch_max: [usize; Lane::COUNT],
    suspect: Option<Suspect>,
    miscounts: u32,
    failures: u32,
    quiet_until: Millis,
    /// A request has failed without an answer since there was one last.
    is_silent: bool,
    /// Whoever is there may have been started since it answered last.
    may_be_new: bool,
    java: Java,
    /// If it is a Java node, its registry is to be read: it may have been told things meanwhile that no log
    /// brings here.
    looks: bool,
    /// Comparisons wait.
    is_held_back: bool,
    /// The last answer came, of whatever sort.
    heard_at: Millis,
    was_changes: bool,
    /// How many requests had been made when each of [`Turn::ALL`] had its turn last.
    had_turn: [u64; Turn::ALL.len()],
    /// The log has not been read to its end, which takes another step.
    is_reading: bool,
    /// What happened up to here is told later than it happened.
    late_upto: Lsn,
    /// Requests have failed, or none was made: what happened until the next one is late.
    is_late: bool,
    kind: Kind,
    /// What it was when it was last known.
    met: Kind,
    counters: Counters,
}

impl Sender {
    /// A sender that goes on where the note says. Up to `recovered` the log is of an earlier life of this node, when
    /// the peer may have been told more than that. `now` is monotonic: what was renewed before it is not
    /// told again.
    pub fn new(note: impl Into<Note>, recovered: Lsn, now: Millis) -> Self {
        let Note { place, born } = note.into();
        let (upto, sweep) = match place {
            Place::Cursor(upto) => (upto, None),
            Place::Sweep(upto) => (upto, Some(Sweep::default())),
        };
        Self {
            upto,
            sweep,
            backlog: None,
            recovered,
            renewed_upto: now,
            cut: None,
            owed: BTreeMap::new(),
            owed_renewals: BTreeSet::new(),
            compare_at: now,
            repairs: 0,
            has_repaired: false,
            is_unsure: false,
            differing: VecDeque::new(),
            pace: Pace::default(),
            compared: None,
            flight: None,
            batch_max: [BATCH_ITEMS; Lane::COUNT],
            suspect: None,
            miscounts: 0,
            failures: 0,
            quiet_until: Millis::ZERO,
            is_silent: false,
            may_be_new: false,
            java: Java::new(born, now),
            looks: recovered > Lsn::ZERO,
            is_held_back: false,
            heard_at: now,
            was_changes: false,
            had_turn: [0; Turn::ALL.len()],
            is_reading: false,
            late_upto: Lsn::ZERO,
            is_late: true,
            kind: Kind::Unknown,
            met: Kind::Unknown,
            counters: Counters::default(),
        }
    }

    /// Where a sender that takes over goes on.
    pub fn place(&self) -> Place {
        // A node of our own kind is not swept, but compared with the same care.
        if self.sweep.is_some() || self.is_unsure {
            Place::Sweep(self.upto)
        } else {
            Place::Cursor(self.upto)
        }
    }

    /// What is to be noted for a sender that takes over.
    pub fn note(&self) -> Note {
        Note {
            place: self.place(),
            born: self.java.born(),
        }
    }

    /// Up to where the peer has everything, if that is so anywhere.
    pub fn cursor(&self) -> Option<Lsn> {
        self.sweep.is_none().then_some(self.upto)
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether the last request failed.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// The application that was compared last.
    pub fn compared(&self) -> Option<&str> {
        self.compared.as_deref()
    }

    /// Instances that are kept in mind for this peer, in all; bounded by those that there are.
    pub fn remembered(&self) -> usize {
        let untold = self.backlog.as_ref().map_or(0, Backlog::size);
        self.owed.len() + self.owed_renewals.len() + untold
    }

    /// Sends the whole registry, whose last change is at `end`, instead of what the log has no more.
    pub fn sweep_instead(&mut self, end: Lsn) {
        self.upto = end;
        self.backlog = None;
        self.sweep_beside();
    }

    /// Has the peer told the whole registry, beside what it is told of the log.
    fn sweep_beside(&mut self) {
        self.sweep = Some(Sweep::default());
    }

    /// Whether comparisons wait: a node that copies the registry from its peers does not ask those for it
    /// once more that have it.
    pub fn hold_back(&mut self, is_held_back: bool) {
        self.is_held_back = is_held_back;
    }

    /// What to do at `now` (monotonic). With a request in flight: nothing.
    pub fn next(&mut self, now: Millis, state: &Published, records: &mut impl Records) -> Next {
        if self.flight.is_some() {
            return Next::Wait(Millis(u64::MAX));
        }
        self.pace.asked(now);
        if now < self.quiet_until {
            return Next::Wait(self.quiet_until);
        }
        if self.kind == Kind::Unknown || self.pace.measures() {
            return self.ask(Flight::Probe, Ask::Probe);
        }
        if self.kind == Kind::Java && self.java.asks_born() {
            return self.ask(Flight::Born, Ask::Born);
        }
        self.skip_sweep();
        if std::mem::take(&mut self.is_late) {
            self.late_upto = state.lsn();
        }
        let had_changes = self.was_changes;
        if !had_changes && let Some(next) = self.next_changes(state, records) {
            return next;
        }
        if let Some(next) = self.next_turn(now, state) {
            return next;
        }
        if had_changes {
            // If the log does not reach back, there is a sweep to begin.
            let next = self.next_changes(state, records);
            if let Some(next) = next.or_else(|| self.next_turn(now, state)) {
                return next;
            }
        }
        if self.is_reading {
            return Next::Wait(now);
        }
        if self.failures > 0 {
            let is_fine = self.suspect.take_if(|suspect| suspect.is_peer_fine);
            if is_fine.is_none() {
                // There is nothing to tell, but to know whether it answers again.
                return self.ask(Flight::Probe, Ask::Probe);
            }
            // What it refused is gone, and it has answered since: there may be something to ask again.
            self.succeeded(now);
            return self.next(now, state, records);
        }
        if let Some(next) = self.next_comparison(now, state) {
            return next;
        }
        let probe_at = self.heard_at.plus(PROBE_AFTER_MS);
        if now >= probe_at {
            return self.ask(Flight::Probe, Ask::Probe);
        }
        let mut until = self.renewals_at().min(probe_at);
        if self.compares() {
            until = until.min(self.compare_at);
        }
        if self.reads_recent() {
            until = until.min(self.java.read_at());
        }
        Next::Wait(until)
    }
}
