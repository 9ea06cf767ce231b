//! Keeps the index of the history up with the log, beside everything else: the writer never waits
//! for it, and a question that comes first does the work itself.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Index;
use crate::changelog::ChangeLog;
use crate::store::StoreError;

/// How long changes are left to gather before they are indexed.
const PAUSE: Duration = Duration::from_millis(500);
/// How long to wait after a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Follows the log until `stop`.
pub async fn follow(log: Arc<ChangeLog>, index: Arc<Index>, stop: CancellationToken) {
    let mut moved = log.subscribe();
    let mut told: Option<String> = None;
    let mut made = 0_u64;
    loop {
        moved.mark_unchanged();
        let job = {
            let (reader, index) = (log.reader(), index.clone());
            move || index.catch_up(&*reader)
        };
        let caught_up = match tokio::task::spawn_blocking(job).await {
            Ok(outcome) => outcome,
            Err(error) => {
                warn!(%error, "indexing the history: {error}");
                return;
            }
        };
        let pause = match caught_up {
            Ok(true) => {
                made += 1;
                Duration::ZERO
            }
            Ok(false) => {
                if made > 1 {
                    info!(segments = made, "indexed {made} segments of the history");
                }
                (made, told) = (0, None);
                PAUSE
            }
            // The store is being opened again, or the node stops.
            Err(StoreError::Closed) => PAUSE,
            Err(error) => {
                let text = error.to_string();
                if told.as_ref() == Some(&text) {
                    debug!(%error, "indexing the history: {error}");
                } else {
                    warn!(%error, "indexing the history: {error}");
                }
                told = Some(text);
                PAUSE_AFTER_FAILURE
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if pause == PAUSE {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = moved.changed() => if changed.is_err() { return },
            }
        }
    }
}
