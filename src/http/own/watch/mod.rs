//! Changes as they happen: a stream of server-sent events, and a long poll for those who have none.
//!
//! Both are a [`Watcher`], a position that pulls. What the client has not taken stays where it is,
//! in the log: a client that is cut off goes on from the last position that it saw.

mod question;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{HeaderMap, Method, Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::warn;

use super::Answered;
use super::problem::Problem;
use crate::history::feed::{Bounds, Full, Told, Watcher};
use crate::http::answer::{Answer, Endless};
use crate::http::{Api, Head, request};
use crate::store::StoreError;
use crate::types::Lsn;
use question::Question;
use stream::Events;

/// What a stream takes at once.
const STREAM_BOUNDS: Bounds = Bounds {
    changes: 64,
    bytes: 32 << 10,
    looked: 1024,
};
/// Bytes after which a poll takes no further change.
const POLL_BYTES: usize = 4 << 20;
/// Changes that one poll looks at.
const POLL_LOOKED: usize = 100_000;

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
static X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The newest position when the answer was made.
static X_EUREKAD_LSN: HeaderName = HeaderName::from_static("x-eurekad-lsn");

impl Api {
    /// `GET /watch`.
    pub(super) fn watch(&self, head: &Head<'_>) -> Answered {
        let newest = self.feed.newest();
        let seen = last_event_id(head.headers)?;
        let question = Question::of(head, &["from", "since", "app", "kind"], seen, newest)?;
        let after = question.after.map_or(newest, |(_, lsn)| lsn);
        if !self.feed.reaches_back_to(after) {
            return Ok(self.gone(after, newest));
        }
        let mut stream = Response::new(Body::empty());
        if *head.method == Method::GET {
            let watcher = match self.feed.watch(after, question.selection) {
                Ok(watcher) => watcher,
                Err(full) => return Ok(full_up(full)),
            };
            *stream.body_mut() = Body::new(Events::new(watcher));
            stream.extensions_mut().insert(Endless);
        }
        let headers = stream.headers_mut();
        let fixed = HeaderValue::from_static;
        headers.insert(CONTENT_TYPE, fixed("text/event-stream"));
        headers.insert(CACHE_CONTROL, fixed("no-store"));
        headers.insert(X_ACCEL_BUFFERING.clone(), fixed("no"));
        // Nothing comes after a stream, and nobody waits for it to end.
        headers.insert(CONNECTION, fixed("close"));
        headers.insert(X_EUREKAD_LSN.clone(), newest.0.into());
        Ok(stream)
    }

    /// `GET /changes`.
    pub(super) async fn changes(&self, head: &Head<'_>) -> Answered {
        let newest = self.feed.newest();
        let known = ["since", "wait", "limit", "app", "kind"];
        let question = Question::of(head, &known, None, newest)?;
        let after = question.after.map_or(newest, |(_, lsn)| lsn);
        let mut watcher = match self.feed.watch(after, question.selection) {
            Ok(watcher) => watcher,
            Err(full) => return Ok(full_up(full)),
        };
        let wait = match *head.method {
            Method::GET => question.wait,
            _ => Duration::ZERO,
        };
        let found = collect(&mut watcher, question.limit, Instant::now() + wait).await;
        let newest = self.feed.newest();
        let told = match found {
            Ok(told) => told,
            Err(error) if matches!(*error, StoreError::Trimmed { .. }) => {
                return Ok(self.gone(watcher.position(), newest));
            }
            Err(error) => return Err(unreadable(&error)),
        };
        let entries: Result<Vec<&RawValue>, _> = told
            .iter()
            .map(|told| serde_json::from_slice(told.entry()))
            .collect();
        let mut answer = super::json(&Changes {
            entries: entries.map_err(|error| Problem::internal(error.to_string()))?,
            next: watcher.position(),
            newest_lsn: newest,
            oldest_lsn: self.feed.oldest(),
        })?;
        let headers = answer.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_EUREKAD_LSN.clone(), newest.0.into());
        Ok(answer)
    }

    /// 410: what is behind the position is no longer kept.
    fn gone(&self, after: Lsn, newest: Lsn) -> Answer {
        let reader = self.log.reader();
        let (oldest_lsn, segments) = (reader.first_lsn(), reader.segments());
        let oldest = segments.first().map(|segment| segment.earliest);
        let detail = format!(
            "not every change behind LSN {after} is kept, the log begins at LSN {oldest_lsn}; \
             read /eureka/apps, then go on since LSN {newest}"
        );
        let problem = Problem::gone(detail, oldest_lsn, oldest).with("newest_lsn", json!(newest));
        let mut answer = problem.into_answer();
        answer
            .headers_mut()
            .insert(X_EUREKAD_LSN.clone(), newest.0.into());
        answer
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    match headers.get(&LAST_EVENT_ID) {
        None => Ok(None),
        Some(_) => request::text(headers, &LAST_EVENT_ID)
            .map(Some)
            .ok_or_else(|| Problem::bad_request("Last-Event-ID: not an LSN; use a whole number")),
    }
}

fn full_up(full: Full) -> Answer {
    let problem = Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!(
            "{} watch already and eurekad.max-watchers allows no more; watch another node, or come \
             back later",
            full.watchers_max
        ),
    );
    let mut answer = problem.into_answer();
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}

fn unreadable(error: &StoreError) -> Problem {
    warn!(%error, "reading the log for a watcher: {error}");
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("the log cannot be read: {error}"),
    )
}

/// What a poll is answered: as soon as there is anything, or when it has waited or looked enough.
async fn collect(
    watcher: &mut Watcher,
    limit: usize,
    until: Instant,
) -> Result<Vec<Arc<Told>>, Arc<StoreError>> {
    let mut told: Vec<Arc<Told>> = Vec::new();
    let (mut bytes, mut looked) = (0, 0);
    loop {
        let bounds = Bounds {
            changes: limit - told.len(),
            bytes: POLL_BYTES - bytes,
            looked: (POLL_LOOKED - looked).min(STREAM_BOUNDS.looked),
        };
        let step = match watcher.step(bounds).await {
            Ok(step) => step,
            // What was found is told; the next question meets the same.
            Err(_) if !told.is_empty() => return Ok(told),
            Err(error) => return Err(error),
        };
        looked += step.looked;
        bytes += step
            .told
            .iter()
            .map(|told| told.entry().len())
            .sum::<usize>();
        let is_end = step.is_end;
        told.extend(step.told);
        if told.len() >= limit || bytes >= POLL_BYTES || looked >= POLL_LOOKED {
            return Ok(told);
        }
        if !is_end {
            tokio::task::yield_now().await;
        } else if !told.is_empty()
            || !matches!(
                tokio::time::timeout_at(until, watcher.moved()).await,
                Ok(true)
            )
        {
            return Ok(told);
        }
    }
}

/// The answer to a poll.
#[derive(Serialize)]
struct Changes<'t> {
    entries: Vec<&'t RawValue>,
    /// What to go on since.
    next: Lsn,
    newest_lsn: Lsn,
    oldest_lsn: Lsn,
}

#[cfg(test)]
mod tests {
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

    #[tokio::test(start_paused = true)]
    async fn a_poll_waits_past_what_is_not_wanted_and_moves_on() {
        let rig = Rig::sync();
        let feed = Arc::new(Feed::new(rig.log.clone(), Arc::new(Index::new(None)), 10));
        tokio::spawn(feed.clone().follow(CancellationToken::new()));
        for id in 0..5 {
            rig.client(register("SHOP", &id.to_string())).await.unwrap();
        }
        let poll = async |since: u64, app: &str, limit: usize, wait: u64| {
            let selection = Selection {
                apps: vec![AppName::new(app)],
                ..Selection::default()
            };
            let mut watcher = feed.watch(Lsn(since), selection).unwrap();
            let until = Instant::now() + Duration::from_secs(wait);
            let told = collect(&mut watcher, limit, until).await.unwrap();
            let lsns: Vec<u64> = told.iter().map(|told| told.lsn.0).collect();
            (lsns, watcher.position().0)
        };
        assert_eq!(poll(0, "SHOP", 100, 0).await, (vec![1, 2, 3, 4, 5], 5));
        assert_eq!(poll(1, "SHOP", 2, 60).await, (vec![2, 3], 3));
        let begun = Instant::now();
        assert_eq!(poll(0, "CART", 100, 60).await, (vec![], 5));
        assert!(begun.elapsed() >= Duration::from_mins(1));
    }

    #[tokio::test]
    async fn a_poll_is_answered_when_what_it_waits_for_happens() {
        let rig = Rig::sync();
        let feed = Arc::new(Feed::new(rig.log.clone(), Arc::new(Index::new(None)), 10));
        tokio::spawn(feed.clone().follow(CancellationToken::new()));
        rig.client(register("SHOP", "1")).await.unwrap();
        let selection = Selection {
            apps: vec![AppName::new("CART")],
            ..Selection::default()
        };
        let mut watcher = feed.watch(Lsn(0), selection).unwrap();
        let until = Instant::now() + Duration::from_mins(1);
        let (told, registered) = tokio::join!(collect(&mut watcher, 100, until), async {
            while feed.watchers() == 0 {
                tokio::task::yield_now().await;
            }
            rig.client(register("SHOP", "2")).await?;
            rig.client(register("CART", "1")).await
        });
        registered.unwrap();
        let lsns: Vec<u64> = told.unwrap().iter().map(|told| told.lsn.0).collect();
        assert_eq!((lsns, watcher.position()), (vec![3], Lsn(3)));
    }
}
