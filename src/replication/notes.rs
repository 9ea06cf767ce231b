//! What the store keeps of each peer between two lives of this node ([`Note`]).

use std::sync::Arc;

use tracing::{debug, warn};

use super::Context;
use super::sender::{Note, Place, Sender};
use crate::types::{Lsn, Millis};

/// Least time between two notes of how far a peer is.
const NOTE_EVERY_MS: u64 = 1000;

/// The note of one peer.
#[derive(Debug)]
pub(super) struct Notes {
    context: Arc<Context>,
    /// The peer's name in logs.
    peer: String,
    /// As it was written last, and when (monotonic).
    written: Option<Note>,
    written_at: Millis,
}

impl Notes {
    pub(super) fn of(context: Arc<Context>, peer: String) -> Self {
        Self {
            context,
            peer,
            written: None,
            written_at: Millis::ZERO,
        }
    }

    /// Under which the note lies in the store.
    fn key(&self) -> String {
        format!("cursor/{}", self.peer)
    }

    /// What was noted. A peer that nothing is known of is swept, and told what goes from now on, though
    /// it may be met later; one of which it is not known any more what it heard, because the note cannot be read
    /// or is about a log that has lost its end, is told the whole log besides.
    pub(super) async fn load(&self) -> Note {
        let (reader, key) = (self.context.log.reader(), self.key());
        let end = self.context.log.published().lsn();
        let read = tokio::task::spawn_blocking(move || reader.meta_get(&key)).await;
        match read {
            Ok(Ok(None)) => Place::Sweep(end).into(),
            Ok(Ok(Some(text))) => Note::read(&text, &self.context.incarnation, end)
                .unwrap_or(Place::Sweep(Lsn::ZERO).into()),
            Ok(Err(error)) => {
                warn!(
                    peer.url = %self.peer, %error,
                    "the cursor of {} cannot be read, so it is told everything: {error}", self.peer
                );
                Place::Sweep(Lsn::ZERO).into()
            }
            // The runtime is going down.
            Err(_) => Place::Sweep(end).into(),
        }
    }

    /// Notes where the sender is, not too often: after a crash a stale note means that something is sent again.
    pub(super) async fn take(&mut self, sender: &Sender) {
        if self.context.clock.now().mono.since(self.written_at) >= NOTE_EVERY_MS {
            self.take_now(sender).await;
        }
    }

    /// The same at once, because nothing more will be noted.
    pub(super) async fn take_now(&mut self, sender: &Sender) {
        let note = sender.note();
        if Some(note) == self.written {
            return;
        }
        let (reader, key) = (self.context.log.reader(), self.key());
        let text = note.text(&self.context.incarnation);
        let put = tokio::task::spawn_blocking(move || reader.meta_put(&key, text.as_bytes())).await;
        self.written_at = self.context.clock.now().mono;
        if let Ok(Err(error)) = put {
            debug!(peer.url = %self.peer, %error, "noting the cursor of {}: {error}", self.peer);
        } else {
            self.written = Some(note);
        }
    }
}
