//! The clocks of a node. [`SystemClock`] is the only code that reads the time of the machine;
//! everything else is handed a [`Clock`], and the core is handed [`Now`].

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::types::{Millis, Now, millis};

/// A source of both clocks.
pub trait Clock: Send + Sync + Debug {
    /// Wall and monotonic time of this moment.
    fn now(&self) -> Now;

    /// The monotonic time in µs, for how long things take.
    fn micros(&self) -> u64 {
        self.now().mono.0.saturating_mul(1000)
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the module that reads the clock"
    )]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the module that reads the clock"
    )]
    fn now(&self) -> Now {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        // One hour is added so that "an hour ago" is still a moment of the monotonic clock.
        let mono = self.started.elapsed().as_millis() + 3_600_000;
        Now {
            wall: Millis(millis(wall)),
            mono: Millis(u64::try_from(mono).unwrap_or(u64::MAX)),
        }
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A clock that tests and simulations turn by hand.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicU64,
    mono: AtomicU64,
}

impl ManualClock {
    /// Starts at the given wall time, ms since the epoch.
    pub fn at(wall: u64) -> Self {
        Self {
            wall: AtomicU64::new(wall),
            mono: AtomicU64::new(3_600_000),
        }
    }

    /// Lets `ms` milliseconds pass on both clocks.
    pub fn advance(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
        self.mono.fetch_add(ms, Ordering::SeqCst);
    }

    /// Steps the wall clock alone, as an administrator or NTP does.
    pub fn step_wall(&self, to: u64) {
        self.wall.store(to, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        Now {
            wall: Millis(self.wall.load(Ordering::SeqCst)),
            mono: Millis(self.mono.load(Ordering::SeqCst)),
        }
    }
}
