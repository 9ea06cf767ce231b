//! Changes as they happen: a stream of server-sent events, and a long poll for those who have none.
//!
//! Both are a [`Watcher`], a position that pulls. What the client has not taken stays where it is,
//! in the log: a client that is cut off goes on from the last position that it saw.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{HeaderMap, Method, Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::ReusableBoxFuture;
use tracing::{debug, warn};

use super::problem::Problem;
use super::{Answered, Parameters};
use crate::history::feed::{Bounds, Full, Selection, Step, Told, Watcher};
use crate::history::filter::{BadFilter, Filter};
use crate::history::times;
use crate::http::answer::{Answer, Endless};
use crate::http::{Api, Head, request};
use crate::store::StoreError;
use crate::types::{Lsn, Millis};

/// Between two signs of life of a stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Between two tries to read a log that cannot be read right now.
const RETRY: Duration = Duration::from_secs(1);
/// What a stream takes at once.
const STREAM_BOUNDS: Bounds = Bounds {
    changes: 64,
    bytes: 32 << 10,
    looked: 1024,
};
/// Longest wait of a long poll, ms.
const WAIT_MAX_MS: u64 = 60_000;
/// Changes in an answer to a poll, by default and at most.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;
/// Bytes after which a poll takes no further change.
const POLL_BYTES: usize = 4 << 20;
/// Changes that one poll looks at.
const POLL_LOOKED: usize = 100_000;

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
static X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The newest position when the answer was made.
static X_EUREKAD_LSN: HeaderName = HeaderName::from_static("x-eurekad-lsn");

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// The parameter that says the position, and the position after which changes are wanted.
    after: Option<(&'static str, Lsn)>,
    selection: Selection,
    wait: Duration,
    limit: usize,
}

impl Question {
    fn of(
        head: &Head<'_>,
        known: &[&'static str],
        last_seen: Option<&str>,
        newest: Lsn,
    ) -> Result<Self, Problem> {
        let mut filter = Filter::default();
        let (mut since, mut from) = (None, None);
        let (mut wait, mut limit) = (Duration::ZERO, LIMIT);
        Parameters::of(head).each(known, |name, value| {
            let Some(name) = known.iter().copied().find(|known| *known == name) else {
                return Ok(false);
            };
            match name {
                "since" => since = position(name, value)?,
                "from" => from = position(name, value)?,
                "wait" => wait = waiting(value)?,
                "limit" => limit = limited(value)?,
                _ => return Ok(filter.set(name, value, Millis::ZERO)?),
            }
            Ok(true)
        })?;
        let before = |lsn: Lsn| Lsn(lsn.0.saturating_sub(1));
        let after = match (since, from) {
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request(
                    "from and since both say where to begin; give one of them",
                ));
            }
            (Some(since), None) => Some(("since", since)),
            (None, Some(from)) => Some(("from", before(from))),
            (None, None) => None,
        };
        let resumed = match last_seen {
            Some(text) => position("Last-Event-ID", text)?,
            None => None,
        };
        let after = match resumed {
            Some(lsn) => Some(("Last-Event-ID", lsn)),
            None => after,
        };
        if let Some((name, lsn)) = after.filter(|(_, lsn)| *lsn > newest) {
            let asked = if name == "from" { lsn.next() } else { lsn };
            return Err(Problem::bad_request(format!(
                "{name}: LSN {asked} is in the future, the newest is {newest}; positions are those \
                 of one node, another node has others"
            ))
            .with("newest_lsn", json!(newest)));
        }
        Ok(Self {
            after,
            selection: Selection {
                apps: filter.apps,
                kinds: filter.kinds,
            },
            wait,
            limit,
        })
    }
}

/// A position; an empty text is none.
fn position(name: &'static str, text: &str) -> Result<Option<Lsn>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten();
    match number {
        Some(number) => Ok(Some(Lsn(number))),
        None => Err(refused(name, text, "not an LSN; use a whole number")),
    }
}

fn waiting(text: &str) -> Result<Duration, Problem> {
    if text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let ms = times::parse_span(text)
        .map_err(|error| Problem::bad_request(format!("wait: {error}; at most 60s")))?;
    if ms > WAIT_MAX_MS {
        return Err(refused("wait", text, "too long; at most 60s"));
    }
    Ok(Duration::from_millis(ms))
}

fn limited(text: &str) -> Result<usize, Problem> {
    let number = text.parse().ok();
    number
        .filter(|limit| (1..=LIMIT_MAX).contains(limit))
        .ok_or_else(|| refused("limit", text, "not a number from 1 to 1000"))
}

fn refused(name: &'static str, text: &str, why: &str) -> Problem {
    let shown: String = text.chars().take(64).collect();
    BadFilter::new(name, format!("{shown:?} is {why}")).into()
}

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

/// The body of a stream.
struct Events {
    next: ReusableBoxFuture<'static, Option<(Streaming, Bytes)>>,
    has_ended: bool,
}

impl Events {
    fn new(watcher: Watcher) -> Self {
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
    use super::*;
    use crate::changelog::tests::Rig;
    use crate::history::Index;
    use crate::history::feed::Feed;
    use crate::registry::change::ChangeKind;
    use crate::registry::command::Command;
    use crate::registry::tests::instance;
    use crate::types::AppName;
    use tokio_util::sync::CancellationToken;

    fn ask(query: &str, last_seen: Option<&str>) -> Result<Question, String> {
        let head = Head {
            method: &Method::GET,
            query: Some(query),
            headers: &HeaderMap::new(),
            address: [127, 0, 0, 1].into(),
        };
        let known = ["from", "since", "wait", "limit", "app", "kind"];
        Question::of(&head, &known, last_seen, Lsn(40)).map_err(|problem| format!("{problem:?}"))
    }

    #[test]
    fn positions_are_after_since_before_from_and_after_the_last_event() {
        let after = |query, seen| ask(query, seen).map(|question| question.after);
        assert_eq!(after("", None), Ok(None));
        assert_eq!(after("since=&from=", Some("")), Ok(None));
        assert_eq!(after("since=7", None), Ok(Some(("since", Lsn(7)))));
        assert_eq!(after("from=7", None), Ok(Some(("from", Lsn(6)))));
        assert_eq!(after("from=0", None), Ok(Some(("from", Lsn(0)))));
        assert_eq!(after("from=41", None), Ok(Some(("from", Lsn(40)))));
        let resumed = Ok(Some(("Last-Event-ID", Lsn(9))));
        assert_eq!(after("from=7", Some("9")), resumed);
        let question = ask("app=shop,cart&kind=evicted&wait=30s&limit=5", None).unwrap();
        assert_eq!(question.selection.apps, ["SHOP", "CART"].map(AppName::new));
        assert_eq!(question.selection.kinds, [ChangeKind::Evicted]);
        assert_eq!((question.wait.as_secs(), question.limit), (30, 5));
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_what_is_allowed() {
        for (query, seen, says) in [
            ("since=x", None, "since: "),
            ("since=-1", None, "whole number"),
            ("since=99999999999999999999", None, "not an LSN"),
            ("since=41", None, "the newest is 40"),
            ("from=42", None, "LSN 42 is in the future"),
            ("since=1&from=2", None, "one of them"),
            ("", Some("abc"), "Last-Event-ID: "),
            ("", Some("41"), "in the future"),
            ("wait=61s", None, "at most 60s"),
            ("wait=soon", None, "wait: "),
            ("limit=0", None, "from 1 to 1000"),
            ("limit=1001", None, "from 1 to 1000"),
            ("kind=exploded", None, "re-registered"),
            ("instance=1", None, "known are from, since"),
        ] {
            let told = ask(query, seen).unwrap_err();
            assert!(told.contains(says), "{query}: {told}");
        }
    }

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
