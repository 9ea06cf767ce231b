//! `GET /history`: the changes of everything, of an application or of one instance, in pages or as
//! a stream of lines.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lines::Lines;
use super::problem::Problem;
use super::{Answered, Parameters};
use crate::history::cursor::{self, Cursor};
use crate::history::times::At;
use crate::history::{Before, Entry, Filter, Horizon, Index, Order, Question, Walk};
use crate::http::answer;
use crate::http::request;
use crate::http::{Api, Head, Remembered};
use crate::portable;
use crate::registry::change::Record;
use crate::store::{LogReader, StoreError};
use crate::types::{AppName, InstanceId, Lsn};

/// Pages that are read at once; more wait for [`WAIT`] and are then refused.
const PAGES: usize = 4;
/// Streams that are under way at once.
const STREAMS: usize = 4;
const WAIT: Duration = Duration::from_secs(2);
/// Entries of a page unless asked otherwise, and at most.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;
/// Records that are looked at for one page.
const LOOKS: usize = 200_000;
/// A page ends behind the entry with which it exceeds this, bytes.
const PAGE_BYTES: usize = 8 << 20;
/// Parameters beside those of the filter.
const NAMES: [&str; 5] = ["order", "limit", "cursor", "format", "full"];
const NDJSON: &str = "application/x-ndjson";

pub(super) static OLDEST_LSN: HeaderName = HeaderName::from_static("x-eurekad-oldest-lsn");
static OLDEST: HeaderName = HeaderName::from_static("x-eurekad-oldest");
pub(super) static COMPLETE: HeaderName = HeaderName::from_static("x-eurekad-complete");
/// How many records were looked at for a page.
static LOOKED_AT: HeaderName = HeaderName::from_static("x-eurekad-looked-at");

/// The way into the past, and who may go there at once.
#[derive(Debug)]
pub(in crate::http) struct Past {
    pub(super) index: Arc<Index>,
    pub(super) incarnation: String,
    pub(super) node_id: String,
    pages: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Held while the horizon is looked for; the last one that was found.
    horizon: Semaphore,
    found: Mutex<Option<Horizon>>,
}

impl Past {
    pub(in crate::http) fn new(remembered: Remembered, node_id: String) -> Self {
        Self {
            index: remembered.index,
            incarnation: remembered.incarnation,
            node_id,
            pages: Arc::new(Semaphore::new(PAGES)),
            streams: Arc::new(Semaphore::new(STREAMS)),
            horizon: Semaphore::new(1),
            found: Mutex::default(),
        }
    }

    /// How far back the log goes; reads it only when it has been trimmed. `None` while the store is
    /// closed.
    pub(super) async fn horizon(
        &self,
        reader: Arc<dyn LogReader>,
    ) -> Result<Option<Horizon>, Problem> {
        let _one_at_a_time = self.horizon.acquire().await;
        let known = self
            .found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(known) = known
            && known.oldest.is_some()
            && known.oldest_lsn == reader.first_lsn()
        {
            return Ok(Some(known));
        }
        let job = move || match Horizon::of(&*reader) {
            Err(StoreError::Closed) => Ok(None),
            horizon => horizon.map(Some),
        };
        let horizon = blocking(job).await?;
        (*self.found.lock().unwrap_or_else(PoisonError::into_inner)).clone_from(&horizon);
        Ok(horizon)
    }

    /// A place for a job that reads much of the log.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        place(&self.pages).await
    }
}

async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    match tokio::time::timeout(WAIT, places.clone().acquire_owned()).await {
        Ok(Ok(place)) => Ok(place),
        Ok(Err(_)) | Err(_) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many questions are being answered from the log; ask again in a moment",
        )),
    }
}

/// What a request asks for.
struct Asked {
    question: Question,
    identity: u64,
    position: Option<Lsn>,
    limit: Option<usize>,
    is_stream: bool,
    is_full: bool,
}

/// What ends a page.
#[derive(Serialize)]
struct Rest {
    next: Option<String>,
    oldest: Option<At>,
    oldest_lsn: Lsn,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// How a record is told.
pub(super) fn tell(record: &Record, before: Option<&Arc<Record>>) -> Entry {
    Entry::new(record, Before::record(before.map(|before| &**before)))
}

impl Api {
    pub(super) async fn history(
        &self,
        app: Option<&str>,
        id: Option<&str>,
        head: &Head<'_>,
    ) -> Answered {
        let asked = self.read_question(app, id, head)?;
        if asked.is_stream {
            let place = place(&self.past.streams).await?;
            return self.stream(asked, place).await;
        }
        let place = self.past.place().await?;
        self.page(asked, place).await
    }

    fn read_question(
        &self,
        app: Option<&str>,
        id: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Asked, Problem> {
        let now = self.clock.now().wall;
        let mut filter = Filter {
            apps: app.map(AppName::new).into_iter().collect(),
            instance: id.map(InstanceId::new),
            ..Filter::default()
        };
        let known: Vec<&str> = Filter::NAMES
            .into_iter()
            .filter(|name| {
                let is_in_path =
                    *name == "app" && app.is_some() || *name == "instance" && id.is_some();
                !is_in_path
            })
            .chain(NAMES)
            .collect();
        let (mut from, mut to) = (String::new(), String::new());
        let (mut order, mut limit, mut given) = (Order::Newest, None, None);
        let mut is_full = false;
        let mut is_stream = request::joined(head.headers, &ACCEPT)
            .is_some_and(|accept| accept.to_ascii_lowercase().contains(NDJSON));
        Parameters::of(head).each(&known, |name, value| {
            if !known.contains(&name) {
                return Ok(false);
            }
            match name {
                "order" => order = read_order(value)?,
                "limit" => limit = read_limit(value)?,
                "cursor" => given = Some(value.to_owned()).filter(|text| !text.is_empty()),
                "format" => is_stream = read_format(value)?,
                "full" => is_full = read_full(value)?,
                _ => {
                    match name {
                        "from" => value.clone_into(&mut from),
                        "to" => value.clone_into(&mut to),
                        _ => {}
                    }
                    return Ok(filter.set(name, value, now)?);
                }
            }
            Ok(true)
        })?;
        let mut question = Question { filter, order };
        let identity = cursor::identity(&question, &from, &to);
        let position = match given {
            None => None,
            Some(text) => {
                let cursor = Cursor::decode(&text, identity, &self.past.incarnation)
                    .map_err(|error| Problem::bad_request(format!("cursor: {error}")))?;
                question.filter.from = cursor.from;
                question.filter.to = cursor.to;
                Some(cursor.position)
            }
        };
        Ok(Asked {
            question,
            identity,
            position,
            limit,
            is_stream,
            is_full,
        })
    }

    /// A walk for a question, and the horizon that it starts with.
    fn begin(&self, asked: &Asked) -> impl FnOnce() -> Result<(Walk, Horizon), StoreError> + use<> {
        let (reader, index) = (self.log.reader(), self.past.index.clone());
        let (question, position) = (asked.question.clone(), asked.position);
        move || {
            let horizon = Horizon::of(&*reader)?;
            let walk = Walk::new(reader, index, question);
            let walk = match position {
                Some(position) => walk.starting_at(position),
                None => walk,
            };
            Ok((walk, horizon))
        }
    }

    async fn page(&self, asked: Asked, place: OwnedSemaphorePermit) -> Answered {
        let begin = self.begin(&asked);
        let incarnation = self.past.incarnation.clone();
        let job = move || -> Result<_, StoreError> {
            let _place = place;
            let (mut walk, horizon) = begin()?;
            let mut body = b"{\"entries\":[".to_vec();
            let start = body.len();
            let mut written = Ok(());
            walk.take(
                asked.limit.unwrap_or(LIMIT),
                LOOKS,
                &mut |record, before| {
                    if body.len() > start {
                        body.push(b',');
                    }
                    written = write_entry(&mut body, record, before, asked.is_full);
                    if written.is_err() || body.len() > PAGE_BYTES {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                },
            )?;
            let filter = &asked.question.filter;
            let next = walk.next().map(|position| {
                Cursor::new(position, filter, asked.identity, &incarnation).encode()
            });
            let note = note(&horizon, &walk, filter);
            let rest = Rest {
                next,
                oldest: horizon.oldest.map(At),
                oldest_lsn: horizon.oldest_lsn,
                complete: note.is_none(),
                note,
            };
            body.push(b']');
            let rest = written.and_then(|()| serde_json::to_vec(&rest));
            Ok(rest.map(|rest| {
                body.push(b',');
                body.extend_from_slice(rest.get(1..).unwrap_or_default());
                (body, walk.looked_at())
            }))
        };
        let (body, looked_at) = blocking(job).await?.map_err(|error| unwritable(&error))?;
        let mut answer = answer::with_body(StatusCode::OK, "application/json", body);
        answer
            .headers_mut()
            .insert(LOOKED_AT.clone(), HeaderValue::from(looked_at));
        Ok(answer)
    }

    async fn stream(&self, asked: Asked, place: OwnedSemaphorePermit) -> Answered {
        let (walk, horizon) = blocking(self.begin(&asked)).await?;
        let is_complete = horizon.note(&asked.question.filter).is_none();
        let lines = Lines::new(
            walk,
            asked.limit.unwrap_or(usize::MAX),
            asked.is_full,
            is_complete,
            place,
        );
        let mut answer = Response::new(Body::new(lines));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(NDJSON));
        headers.insert(OLDEST_LSN.clone(), HeaderValue::from(horizon.oldest_lsn.0));
        let oldest = horizon.oldest.map(crate::history::times::format);
        if let Some(Ok(oldest)) = oldest.as_deref().map(HeaderValue::from_str) {
            headers.insert(OLDEST.clone(), oldest);
        }
        headers.insert(COMPLETE.clone(), boolean(is_complete));
        headers.insert(
            hyper::header::TRAILER,
            HeaderValue::from_static("x-eurekad-complete"),
        );
        Ok(answer)
    }
}

/// What an answer has to say of what it could not tell.
fn note(horizon: &Horizon, walk: &Walk, filter: &Filter) -> Option<String> {
    horizon.note(filter).or_else(|| {
        walk.has_missed().then(|| {
            "some records were dropped before they could be read, or are damaged".to_owned()
        })
    })
}

pub(super) fn boolean(value: bool) -> HeaderValue {
    HeaderValue::from_static(if value { "true" } else { "false" })
}

/// Runs a job that reads the disk off the threads that serve.
pub(super) async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(job).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => Err(Problem::internal(format!("reading the log: {error}"))),
    }
}

fn unwritable(error: &serde_json::Error) -> Problem {
    Problem::internal(format!("an entry cannot be written: {error}"))
}

/// An entry, with `full` beside the record in the form that can be read back.
#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    entry: Entry,
    record: Value,
}

/// Appends a record as an entry.
pub(super) fn write_entry(
    out: &mut Vec<u8>,
    record: &Record,
    before: Option<&Arc<Record>>,
    is_full: bool,
) -> serde_json::Result<()> {
    let entry = tell(record, before);
    if is_full {
        let record = portable::encode(record);
        serde_json::to_writer(out, &Whole { entry, record })
    } else {
        serde_json::to_writer(out, &entry)
    }
}

fn read_full(value: &str) -> Result<bool, Problem> {
    match value {
        "" | "false" => Ok(false),
        "true" => Ok(true),
        _ => Err(unknown("full", value, "true, false")),
    }
}

fn read_order(value: &str) -> Result<Order, Problem> {
    match value {
        "" | "newest" => Ok(Order::Newest),
        "oldest" => Ok(Order::Oldest),
        _ => Err(unknown("order", value, "newest, oldest")),
    }
}

fn read_format(value: &str) -> Result<bool, Problem> {
    match value {
        "" | "json" => Ok(false),
        "ndjson" => Ok(true),
        _ => Err(unknown("format", value, "json, ndjson")),
    }
}

fn read_limit(value: &str) -> Result<Option<usize>, Problem> {
    match value.parse() {
        Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(Some(limit)),
        _ => Err(Problem::bad_request(format!(
            "limit: {:?} is not a number from 1 to {LIMIT_MAX}",
            shown(value)
        ))),
    }
}

fn unknown(name: &str, value: &str, allowed: &str) -> Problem {
    Problem::bad_request(format!("{name}: {:?} is none of {allowed}", shown(value)))
}

fn shown(value: &str) -> String {
    value.chars().take(64).collect()
}
