//! The memory that all bodies of requests take together, and who gives way where it is short.
//!
//! Bodies are of three sizes, each with a pool of its own, so that no flood of larger ones holds up what a
//! client sends: nearly all of that is tiny. What grows moves from one pool to the next, whatever it was
//! sent to. A body that finds no room waits its turn, the newest first; whose turn it is has those give way that hold
//! room and of which hardly anything comes, the slowest first, then those that hold room and wait for
//! more themselves, the oldest first, and, once it has waited for [`PATIENCE`], whatever comes the slowest.
//! What is there as a whole is being answered and does not give way while it needs no more. So room that is held for nothing is free within a
//! second or two, not only when the time for a body is over, and bodies that wait for each other do not
//! wait for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::turns::Turns;

/// How often who waits for room looks for somebody to give way.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long one whose turn it is waits for bodies that are coming well.
const PATIENCE: Duration = Duration::from_secs(2);
/// After so long what has come of a body counts half. With this one, what comes steadily counts about as
/// many bytes as come in a second.
const HALF_AFTER: Duration = Duration::from_millis(700);
/// What a body counts at most: whoever sent much at once and nothing more is slow after two halvings.
const CREDIT_MAX: usize = 64 << 10;
/// What it counts when it begins, and when it goes on after a wait: one halving.
const CREDIT: usize = 32 << 10;
/// Of what counts less than this, hardly anything comes.
const SLOW_BELOW: usize = 16 << 10;

/// There was no room in time, or somebody else got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// Memory for bodies, in pools by the size of what is read into it.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Pools>);

#[derive(Debug)]
struct Pools {
    by_size: [Pool; 3],
    bodies: Mutex<Bodies>,
}

#[derive(Debug)]
struct Pool {
    /// Longest body that is in it, bytes.
    longest: usize,
    free_kib: Arc<Semaphore>,
    all_kib: usize,
    /// Whose turn it is to wait for room.
    turns: Turns,
}

/// Those under way, by the order in which they began.
#[derive(Debug, Default)]
struct Bodies {
    begun: u64,
    by_number: BTreeMap<u64, Held>,
}

/// What is known of one body.
#[derive(Debug)]
struct Held {
    pool: usize,
    kib: usize,
    state: State,
    lately: Lately,
    gives_way: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is being received.
    Coming,
    /// It goes on when it has more room.
    Waiting,
    /// All of it is there.
    Whole,
}

/// Who gives way before whom: the lesser first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// By what came lately.
    Slow(usize),
    /// By number: the longer it has been under way, the sooner.
    Waiting(u64),
    Flowing(usize),
}

/// Bytes that came lately: the older, the less they count.
#[derive(Debug)]
struct Lately {
    bytes: usize,
    as_of: Instant,
}

impl Lately {
    fn begin(now: Instant) -> Self {
        Self {
            bytes: CREDIT,
            as_of: now,
        }
    }

    fn halvings(&self, now: Instant) -> u32 {
        let halvings = now.duration_since(self.as_of).as_millis() / HALF_AFTER.as_millis();
        u32::try_from(halvings).unwrap_or(u32::MAX)
    }

    fn as_of(&self, now: Instant) -> usize {
        self.bytes.checked_shr(self.halvings(now)).unwrap_or(0)
    }

    fn add(&mut self, bytes: usize, now: Instant) {
        let halvings = self.halvings(now);
        self.bytes = self.as_of(now).saturating_add(bytes).min(CREDIT_MAX);
        self.as_of += HALF_AFTER * halvings;
    }
}

impl Held {
    /// When it is to give way; `None` if it is not to.
    fn turn(&self, number: u64, is_urgent: bool, now: Instant) -> Option<Turn> {
        let lately = self.lately.as_of(now);
        let is_slow = lately < SLOW_BELOW;
        match self.state {
            State::Coming if is_slow => Some(Turn::Slow(lately)),
            State::Coming if is_urgent => Some(Turn::Flowing(lately)),
            State::Waiting if is_slow || is_urgent => Some(Turn::Waiting(number)),
            State::Coming | State::Waiting | State::Whole => None,
        }
    }
}

impl Budget {
    /// Longest bodies of the pools but for the last, bytes: any registration that is not unusual, and what
    /// more than 250 registrations of some size come to.
    const LONGEST: [usize; 2] = [16 << 10, 1 << 20];
    /// What a body begins with, bytes: most registrations, and little enough that as many connections as
    /// there may be (8192 unless configured) leave half of the first pool free if they send no more.
    pub(super) const FIRST: usize = 2 << 10;

    /// Of so many kibibytes for bodies of each size.
    pub(super) fn of(kib: [usize; 3]) -> Self {
        let longest = [Self::LONGEST[0], Self::LONGEST[1], usize::MAX];
        let pool = |place: usize| Pool {
            longest: longest[place],
            free_kib: Arc::new(Semaphore::new(kib[place])),
            all_kib: kib[place],
            turns: Turns::default(),
        };
        Self(Arc::new(Pools {
            by_size: [0, 1, 2].map(pool),
            bodies: Mutex::default(),
        }))
    }

    /// Kibibytes that nobody has.
    #[cfg(test)]
    pub(super) fn free_kib(&self) -> [usize; 3] {
        [0, 1, 2].map(|place| self.0.by_size[place].free_kib.available_permits())
    }

    fn bodies(&self) -> MutexGuard<'_, Bodies> {
        self.0.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a body of so many bytes has its share, and how many kibibytes that is. One that is longer than
    /// all of it, as the configuration may allow, is read when no other is.
    fn of_body(&self, bytes: usize) -> (usize, usize) {
        let pools = &self.0.by_size;
        let place = pools.partition_point(|pool| pool.longest < bytes);
        (place, bytes.div_ceil(1024).clamp(1, pools[place].all_kib))
    }

    /// Waits its turn and then for room.
    async fn wait(
        &self,
        number: u64,
        place: usize,
        kib: usize,
    ) -> Result<OwnedSemaphorePermit, NoRoom> {
        let pool = &self.0.by_size[place];
        let _turn = pool.turns.take(number).await;
        let since = Instant::now();
        let mut room = std::pin::pin!(pool.free_kib.clone().acquire_many_owned(permits(kib)));
        loop {
            self.make_room(number, place, kib, since.elapsed() >= PATIENCE);
            if let Ok(room) = tokio::time::timeout(LOOK_EVERY, room.as_mut()).await {
                return room.map_err(|_| NoRoom);
            }
        }
    }

    /// Has as many give way as it takes until there is room for so much more in that pool, and as may be
    /// asked to.
    fn make_room(&self, for_number: u64, place: usize, kib: usize, is_urgent: bool) {
        let now = Instant::now();
        let bodies = self.bodies();
        // Who gives way already is as good as gone.
        let holders = bodies.by_number.iter().filter(|(_, held)| {
            held.pool == place && held.kib > 0 && !held.gives_way.is_cancelled()
        });
        let held: usize = holders.clone().map(|(_, held)| held.kib).sum();
        let mut missing = (held + kib).saturating_sub(self.0.by_size[place].all_kib);
        if missing == 0 {
            return;
        }
        let mut asked: Vec<_> = holders
            .filter(|(number, _)| **number != for_number)
            .filter_map(|(number, held)| Some((held.turn(*number, is_urgent, now)?, held)))
            .collect();
        asked.sort_by_key(|(turn, _)| *turn);
        // What becomes free is for who asks: the others wait for their turn.
        for (_, held) in asked {
            held.gives_way.cancel();
            missing = missing.saturating_sub(held.kib);
            if missing == 0 {
                return;
            }
        }
    }
}

fn permits(kib: usize) -> u32 {
    u32::try_from(kib).unwrap_or(u32::MAX)
}

/// What one body has of the [`Budget`]; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    number: u64,
    /// When the wait for more is over.
    deadline: Instant,
    /// Bytes that it is good for.
    bytes: usize,
    held: Option<OwnedSemaphorePermit>,
    gives_way: CancellationToken,
}

impl Share {
    /// # Errors
    /// If there is not that much until `deadline`.
    pub(super) async fn of(
        budget: &Budget,
        deadline: Instant,
        bytes: usize,
    ) -> Result<Self, NoRoom> {
        let gives_way = CancellationToken::new();
        let held = Held {
            pool: 0,
            kib: 0,
            state: State::Coming,
            lately: Lately::begin(Instant::now()),
            gives_way: gives_way.clone(),
        };
        let number = {
            let mut bodies = budget.bodies();
            bodies.begun += 1;
            let number = bodies.begun;
            bodies.by_number.insert(number, held);
            number
        };
        let mut share = Self {
            budget: budget.clone(),
            number,
            deadline,
            bytes: 0,
            held: None,
            gives_way,
        };
        share.take(bytes).await?;
        Ok(share)
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Bytes that it is good for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many more bytes have come.
    pub(super) fn count(&self, bytes: usize) {
        self.update(|held| held.lately.add(bytes, Instant::now()));
    }

    /// All of it has come.
    ///
    /// # Errors
    /// If it has to give way already.
    pub(super) fn complete(&self) -> Result<(), NoRoom> {
        self.update(|held| {
            held.state = State::Whole;
            if held.gives_way.is_cancelled() {
                Err(NoRoom)
            } else {
                Ok(())
            }
        })
    }

    /// Returns when somebody else is to have the room.
    pub(super) async fn gives_way(&self) {
        self.gives_way.cancelled().await;
    }

    /// Makes it good for so many bytes. What moves to another pool keeps what it has until it has all of
    /// it there.
    ///
    /// # Errors
    /// If there is not that much in time, or if it has to give way.
    pub(super) async fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if bytes <= self.bytes {
            return Ok(());
        }
        self.take(bytes).await
    }

    async fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let (place, kib) = self.budget.of_body(bytes);
        let free_kib = &self.budget.0.by_size[place].free_kib;
        let has = match &self.held {
            Some(held) if Arc::ptr_eq(held.semaphore(), free_kib) => held.num_permits(),
            Some(_) | None => 0,
        };
        let more = kib.saturating_sub(has);
        let room = match free_kib.clone().try_acquire_many_owned(permits(more)) {
            Ok(room) => room,
            Err(_) => self.wait(place, more).await?,
        };
        match &mut self.held {
            Some(held) if has > 0 => held.merge(room),
            other => *other = Some(room),
        }
        self.update(|held| (held.pool, held.kib) = (place, kib));
        self.bytes = bytes;
        Ok(())
    }

    async fn wait(&self, place: usize, kib: usize) -> Result<OwnedSemaphorePermit, NoRoom> {
        let before = self.update(|held| std::mem::replace(&mut held.state, State::Waiting));
        let waited = tokio::select! {
            biased;
            () = self.gives_way() => Err(NoRoom),
            waited = tokio::time::timeout_at(self.deadline, self.budget.wait(self.number, place, kib)) =>
                waited.unwrap_or(Err(NoRoom)),
        };
        self.update(|held| {
            held.state = before;
            // Nothing could come of it meanwhile.
            held.lately = Lately::begin(Instant::now());
            if held.gives_way.is_cancelled() {
                Err(NoRoom)
            } else {
                waited
            }
        })
    }

    fn update<T>(&self, update: impl FnOnce(&mut Held) -> T) -> T {
        let mut bodies = self.budget.bodies();
        let held = bodies.by_number.get_mut(&self.number);
        update(held.expect("a share is on the list until it is dropped"))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.bodies().by_number.remove(&self.number);
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
