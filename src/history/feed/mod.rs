//! Everybody who watches follows the log here.
//!
//! One follower per node makes each committed record into one encoded change and keeps the newest
//! ones in a ring. A [`Watcher`] is a position and nothing more: it pulls what is behind it, out of
//! the ring, or out of the log ([`pages`]) where the ring does not reach back. Nothing is queued for
//! anybody, so a slow watcher costs no more than a fast one, and one that comes back after a
//! restart goes on from its position like one that never left.
//!
//! The follower costs no disk: the records are in the delta window of the state that is told as
//! committed, and what an instance was before a change is in the state before. While nobody watches
//! it sleeps and holds nothing.

mod pages;
mod ring;
#[cfg(test)]
mod tests;
mod told;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use pages::Predecessors;
pub use told::{Bounds, Selection, Step, Told};

use crate::changelog::{ChangeLog, Published};
use crate::registry::change::Record;
use crate::store::StoreError;
use crate::types::Lsn;
use pages::Pages;
use ring::Ring;
use told::lease_after;

/// Most changes in the ring, and their bytes.
const RING_CHANGES: usize = 16_384;
const RING_BYTES: usize = 32 << 20;
/// How long the ring is kept when the last watcher has left: most come back at once.
const LINGER: Duration = Duration::from_mins(2);
/// Changes that are encoded before others get a turn on the thread.
const ENCODED_AT_ONCE: usize = 64;

/// Where the follower is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    end: Lsn,
    /// The node stops: nothing more comes.
    is_over: bool,
}

/// The changes of a node, for those who watch. One per node.
#[derive(Debug)]
pub struct Feed {
    committed: watch::Receiver<Arc<Published>>,
    log: Arc<ChangeLog>,
    ring: Mutex<Ring>,
    pages: Pages,
    moved: watch::Sender<Progress>,
    watching: watch::Sender<usize>,
    places: Arc<Semaphore>,
    watchers_max: usize,
}

/// Why a watcher cannot be taken: there are as many as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    pub watchers_max: usize,
}

impl Feed {
    /// The feed of a log for at most `watchers_max` at a time. It has to be driven by
    /// [`Feed::follow`].
    pub fn new(
        log: Arc<ChangeLog>,
        predecessors: Arc<dyn Predecessors>,
        watchers_max: usize,
    ) -> Self {
        Self::with_ring(log, predecessors, watchers_max, RING_CHANGES, RING_BYTES)
    }

    fn with_ring(
        log: Arc<ChangeLog>,
        predecessors: Arc<dyn Predecessors>,
        watchers_max: usize,
        changes_max: usize,
        bytes_max: usize,
    ) -> Self {
        let watchers_max = watchers_max.min(Semaphore::MAX_PERMITS);
        Self {
            committed: log.committed(),
            ring: Mutex::new(Ring::new(changes_max, bytes_max)),
            pages: Pages::new(log.clone(), predecessors),
            moved: watch::Sender::default(),
            watching: watch::Sender::new(0),
            places: Arc::new(Semaphore::new(watchers_max)),
            watchers_max,
            log,
        }
    }

    /// Newest position that can be told.
    pub fn newest(&self) -> Lsn {
        self.committed.borrow().lsn()
    }

    /// The oldest record that the log keeps, or the next position if it keeps none.
    pub fn oldest(&self) -> Lsn {
        self.log.reader().first_lsn()
    }

    /// Whether everything behind a position can still be told.
    pub fn reaches_back_to(&self, position: Lsn) -> bool {
        position.next() >= self.oldest() || self.ring().covers(position)
    }

    /// Watchers that there are now.
    pub fn watchers(&self) -> usize {
        *self.watching.borrow()
    }

    /// A watcher that has seen everything up to `position`.
    ///
    /// # Errors
    /// [`Full`].
    pub fn watch(self: &Arc<Self>, position: Lsn, selection: Selection) -> Result<Watcher, Full> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| Full {
            watchers_max: self.watchers_max,
        })?;
        self.watching.send_modify(|watching| *watching += 1);
        Ok(Watcher {
            moved: self.moved.subscribe(),
            feed: self.clone(),
            _place: place,
            position,
            selection,
        })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("holders of this lock do not panic")
    }

    /// Follows the log while anybody watches, until `stop`; then every watcher's stream ends.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let following = async {
            let mut watching = self.watching.subscribe();
            while watching.wait_for(|watching| *watching > 0).await.is_ok() {
                self.follow_while_watched(&mut watching).await;
                self.ring().clear();
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = following => {}
        }
        self.moved.send_modify(|moved| moved.is_over = true);
    }

    async fn follow_while_watched(&self, watching: &mut watch::Receiver<usize>) {
        let mut committed = self.committed.clone();
        let mut state = committed.borrow_and_update().clone();
        self.ring().restart(state.lsn());
        self.tell_moved(state.lsn());
        let mut left_at: Option<Instant> = None;
        loop {
            let is_watched = *watching.borrow_and_update() > 0;
            left_at = (!is_watched).then(|| left_at.unwrap_or_else(Instant::now));
            let lingering = async {
                match left_at {
                    Some(at) => tokio::time::sleep_until(at + LINGER).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                moved = committed.changed() => {
                    if moved.is_err() {
                        return;
                    }
                    let next = committed.borrow_and_update().clone();
                    self.take_in(&state, &next).await;
                    state = next;
                }
                watched = watching.changed() => {
                    if watched.is_err() {
                        return;
                    }
                }
                () = lingering => return,
            }
        }
    }

    /// Encodes what happened between two states.
    async fn take_in(&self, before: &Published, after: &Published) {
        let end = after.lsn();
        if end <= before.lsn() {
            return;
        }
        let Some(records) = after.delta.since(before.lsn().next()) else {
            // The window is shorter than this took, or the store left positions out.
            self.ring().restart(end);
            self.tell_moved(end);
            return;
        };
        let mut earlier: HashMap<_, &Arc<Record>> = HashMap::new();
        let mut records = records.peekable();
        loop {
            let mut told = Vec::new();
            for record in records.by_ref().take(ENCODED_AT_ONCE) {
                let change = &record.change;
                let lease = match earlier.insert((&change.app, &change.id), record) {
                    Some(record) => lease_after(record),
                    None => before
                        .registry
                        .lease(change.app.as_str(), change.id.as_str())
                        .map(|lease| &lease.image),
                };
                told.push(Arc::new(Told::new(record, lease)));
            }
            let upto = match (records.peek(), told.last()) {
                (Some(_), Some(last)) => last.lsn,
                _ => end,
            };
            self.ring().extend(told, upto);
            self.tell_moved(upto);
            if upto == end {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    fn tell_moved(&self, end: Lsn) {
        self.moved.send_modify(|moved| moved.end = end);
    }
}

/// Somebody who watches: a position in the log, and which changes are wanted.
#[derive(Debug)]
pub struct Watcher {
    feed: Arc<Feed>,
    moved: watch::Receiver<Progress>,
    position: Lsn,
    selection: Selection,
    _place: OwnedSemaphorePermit,
}

impl Watcher {
    /// Everything up to here was looked at.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// The next changes, as far as there are any, without waiting for new ones; the position moves
    /// past what was looked at. Empty with [`Step::is_end`] means that there are none yet.
    ///
    /// # Errors
    /// [`StoreError::Trimmed`] if the log no longer has what is behind the position, and what else
    /// kept the log from being read. The position stays.
    pub async fn step(&mut self, bounds: Bounds) -> Result<Step, Arc<StoreError>> {
        // What moves from here on ends the next wait.
        self.moved.mark_unchanged();
        let step = self
            .feed
            .ring()
            .step(self.position, &self.selection, bounds);
        let newest = self.feed.newest();
        let step = match step {
            Some(step) => step,
            None if self.position >= newest => Step {
                position: self.position,
                is_end: true,
                ..Step::default()
            },
            None => {
                let pages = &self.feed.pages;
                pages
                    .step(self.position, newest, &self.selection, bounds)
                    .await?
            }
        };
        self.position = step.position;
        Ok(step)
    }

    /// Waits until the log has moved since the last step. Says whether it may go on; otherwise the
    /// node stops.
    pub async fn moved(&mut self) -> bool {
        !self.moved.borrow().is_over && self.moved.changed().await.is_ok() && !self.is_over()
    }

    /// Whether the node stops.
    pub fn is_over(&self) -> bool {
        self.moved.borrow().is_over
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.feed.watching.send_modify(|watching| *watching -= 1);
    }
}
