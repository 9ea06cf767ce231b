//! The body of a stream of server-sent events: pulled by the connection, one piece at a time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::ReusableBoxFuture;
use tracing::{debug, warn};

use super::STREAM_BOUNDS;
use crate::history::feed::{Step, Watcher};
use crate::store::StoreError;

/// Between two signs of life of a stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Between two tries to read a log that cannot be read right now.
const RETRY: Duration = Duration::from_secs(1);

/// The body of a stream.
pub(super) struct Events {
    next: ReusableBoxFuture<'static, Option<(Streaming, Bytes)>>,
    has_ended: bool,
}

impl Events {
    pub(super) fn new(watcher: Watcher) -> Self {
        let streaming = Streaming {
            watcher,
            beat_at: Instant::now(),
            has_failed: false,
            has_ended: false,
        };
        Self {
            next: ReusableBoxFuture::new(streaming.next()),
            has_ended: false,
        }
    }
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let Some((streaming, bytes)) = ready!(self.next.poll(context)) else {
            self.has_ended = true;
            return Poll::Ready(None);
        };
        self.next.set(streaming.next());
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

/// A stream between two of its pieces.
struct Streaming {
    watcher: Watcher,
    /// When the client hears of its position at the latest; at the beginning as soon as there is
    /// nothing to tell, so that it has one to come back with.
    beat_at: Instant,
    has_failed: bool,
    has_ended: bool,
}

impl Streaming {
    /// The next piece, when there is one; `None` at the end.
    async fn next(mut self) -> Option<(Self, Bytes)> {
        loop {
            if self.has_ended || self.watcher.is_over() {
                return None;
            }
            match self.watcher.step(STREAM_BOUNDS).await {
                Ok(step) if !step.told.is_empty() => {
                    self.has_failed = false;
                    self.beat_at = Instant::now() + HEARTBEAT;
                    return Some((self, joined(&step)));
                }
                Ok(step) if step.is_end => {
                    let moved = self.watcher.moved();
                    match tokio::time::timeout_at(self.beat_at, moved).await {
                        Ok(true) => {}
                        Ok(false) => return None,
                        Err(_) => return Some(self.heartbeat()),
                    }
                }
                Ok(_) if self.is_beat_due() => return Some(self.heartbeat()),
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => {
                    if let Some(last) = self.failed(&error) {
                        self.has_ended = true;
                        return Some((self, last));
                    }
                    let _ = tokio::time::timeout(RETRY, self.watcher.moved()).await;
                    if self.is_beat_due() {
                        return Some(self.heartbeat());
                    }
                }
            }
        }
    }

    fn is_beat_due(&self) -> bool {
        self.beat_at <= Instant::now()
    }

    /// An event without data: it moves what the client comes back with, and is not told to anybody.
    fn heartbeat(mut self) -> (Self, Bytes) {
        self.beat_at = Instant::now() + HEARTBEAT;
        let beat = format!("id: {}\n: heartbeat\n\n", self.watcher.position());
        (self, beat.into())
    }

    /// The last event, if a failure is the end.
    fn failed(&mut self, error: &StoreError) -> Option<Bytes> {
        let position = self.watcher.position();
        let (event, more) = match error {
            StoreError::Trimmed { first, .. } => (
                "trimmed",
                json!({ "position": position, "oldest_lsn": first }),
            ),
            StoreError::Damaged { .. } | StoreError::NewerSchema { .. } => {
                warn!(%error, %position, "a watcher at LSN {position} cannot go on: {error}");
                let detail = error.to_string();
                ("failed", json!({ "position": position, "detail": detail }))
            }
            _ => {
                if !self.has_failed {
                    debug!(%error, %position, "a watcher at LSN {position} waits: {error}");
                }
                self.has_failed = true;
                return None;
            }
        };
        Some(format!("event: {event}\ndata: {more}\n\n").into())
    }
}

/// Changes in one piece; a single one is not copied.
fn joined(step: &Step) -> Bytes {
    match &step.told[..] {
        [only] => only.event().clone(),
        several => {
            let events: Vec<&[u8]> = several.iter().map(|told| &told.event()[..]).collect();
            events.concat().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::changelog::tests::Rig;
    use crate::history::Index;
    use crate::history::feed::{Feed, Selection};
    use crate::registry::command::Command;
    use crate::registry::tests::instance;
    use crate::types::AppName;
    use tokio_util::sync::CancellationToken;

    fn register(app: &str, id: &str) -> Command {
        Command::Register(instance(app, id).into())
    }

    async fn piece(streaming: Streaming) -> Option<(Streaming, String)> {
        let (streaming, bytes) = streaming.next().await?;
        Some((streaming, String::from_utf8(bytes.to_vec()).unwrap()))
    }

    fn begin(feed: &Arc<Feed>, selection: Selection) -> Streaming {
        Streaming {
            watcher: feed.watch(feed.newest(), selection).unwrap(),
            beat_at: Instant::now(),
            has_failed: false,
            has_ended: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_tells_its_position_at_once_and_while_nothing_that_is_wanted_happens() {
        let rig = Rig::sync();
        let feed = Arc::new(Feed::new(rig.log.clone(), Arc::new(Index::new(None)), 10));
        let stop = CancellationToken::new();
        tokio::spawn(feed.clone().follow(stop.clone()));
        let selection = Selection {
            apps: vec![AppName::new("CART")],
            ..Selection::default()
        };
        let begun = Instant::now();
        let (streaming, beat) = piece(begin(&feed, selection)).await.unwrap();
        assert_eq!(beat, "id: 0\n: heartbeat\n\n");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        rig.client(register("SHOP", "1")).await.unwrap();
        rig.client(register("SHOP", "2")).await.unwrap();
        let (streaming, beat) = piece(streaming).await.unwrap();
        assert_eq!(beat, "id: 2\n: heartbeat\n\n", "past what was left out");
        rig.client(register("CART", "1")).await.unwrap();
        let (streaming, event) = piece(streaming).await.unwrap();
        assert!(
            event.starts_with("id: 3\nevent: change\ndata: {"),
            "{event}"
        );
        assert!(event.ends_with("}\n\n"), "{event}");

        stop.cancel();
        assert!(piece(streaming).await.is_none(), "the node stops");
        assert_eq!(feed.watchers(), 0);
    }
}
