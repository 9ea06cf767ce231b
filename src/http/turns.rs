//! Whose turn it is, where one goes at a time: of those that wait, the last to begin. Where more wants in
//! than can be served, those that have waited for long are lost anyhow, and a flood of them must not keep
//! what comes after it waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    /// By number: the later it began, the higher. No more than there are connections.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// A place in the queue, and then the turn; dropped, it is the next one's.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    /// Waits for the turn of `number`, which nobody else has.
    pub(super) async fn take(&self, number: u64) -> Turn<'_> {
        let told = {
            let mut queue = self.queue();
            if queue.is_taken {
                let told = Arc::new(Notify::new());
                queue.waiting.insert(number, told.clone());
                Some(told)
            } else {
                queue.is_taken = true;
                None
            }
        };
        let turn = Turn {
            turns: self,
            number,
        };
        if let Some(told) = told {
            told.notified().await;
        }
        turn
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.turns.queue();
        if queue.waiting.remove(&self.number).is_some() {
            // It went before its turn came.
            return;
        }
        match queue.waiting.pop_last() {
            Some((_, next)) => next.notify_one(),
            None => queue.is_taken = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn one_goes_at_a_time_the_last_first_and_who_leaves_holds_up_nobody() {
        let turns = Arc::new(Turns::default());
        let (went, mut order) = mpsc::channel(8);
        let first = turns.take(1).await;
        let mut waiting = Vec::new();
        for number in [2, 5, 3, 4, 6] {
            let (turns, went) = (turns.clone(), went.clone());
            waiting.push(tokio::spawn(async move {
                let _turn = turns.take(number).await;
                went.send(number).await.unwrap();
                tokio::task::yield_now().await;
            }));
            tokio::task::yield_now().await;
        }
        assert!(order.try_recv().is_err(), "two at a time");
        // One leaves while it waits, one when it has just been told.
        waiting.remove(1).abort();
        tokio::task::yield_now().await;
        drop(first);
        waiting.pop().unwrap().abort();
        for number in [4, 3, 2] {
            assert_eq!(order.recv().await, Some(number));
        }
        for waiting in waiting {
            waiting.await.unwrap();
        }
        assert!(!turns.queue().is_taken);
    }
}
