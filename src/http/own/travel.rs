//! `GET /registry` and `GET /registry/diff`: the registry as of a moment, and what two moments do not
//! share.
//!
//! The present is answered from memory, the past on blocking threads from the store, a few questions
//! at a time: each holds a registry until its answer has been taken.

use std::sync::Arc;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_LENGTH, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Answered, Parameters, Problem};
use crate::cache::{Form, Renewals, list_of};
use crate::changelog::{ChangeLog, Published};
use crate::history::diff::{Sort, compare};
use crate::history::position::{Moment, by_lsn, by_time};
use crate::history::times;
use crate::history::travel::{Past, TravelError, Traveller};
use crate::http::answer::{self, Answer};
use crate::http::{Api, Head, request};
use crate::registry::Registry;
use crate::store::StoreError;
use crate::types::{AppName, Lsn, Millis};
use crate::wire::accept;

/// Registries of the past that may be in use at once.
const PLACES: usize = 4;
/// Most names in `app`.
const APPS_MAX: usize = 256;
/// Seconds after which a client that found no place may ask again.
const RETRY_SECS: u64 = 1;

static LSN: HeaderName = HeaderName::from_static("x-eurekad-lsn");
static AT: HeaderName = HeaderName::from_static("x-eurekad-at");
static COMPLETE: HeaderName = HeaderName::from_static("x-eurekad-complete");
static NOTE: HeaderName = HeaderName::from_static("x-eurekad-note");

/// What questions to the past share.
#[derive(Debug)]
pub(in crate::http) struct Travels {
    traveller: Arc<Traveller>,
    places: Arc<Semaphore>,
}

impl Travels {
    pub(in crate::http) fn new(log: &ChangeLog) -> Self {
        let rules = log.published().registry.rules().clone();
        Self {
            traveller: Arc::new(Traveller::new(Arc::new(rules))),
            places: Arc::new(Semaphore::new(PLACES)),
        }
    }

    pub(in crate::http) fn traveller(&self) -> Arc<Traveller> {
        self.traveller.clone()
    }

    /// Places for so many registries; `None` if there are not as many.
    fn places(&self, count: u32) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_many_owned(count).ok()
    }
}

/// What is answered where there is no place.
fn busy() -> Answer {
    let mut answer = Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many questions about the past at once; ask again in a moment",
    )
    .into_answer();
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(RETRY_SECS));
    answer
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Time(Millis),
    Position(Lsn),
}

/// A registry and the moment that it shows.
struct Seen {
    moment: Moment,
    state: State,
}

enum State {
    Present(Arc<Published>),
    Past(Arc<Past>),
}

impl Seen {
    fn registry(&self) -> &Registry {
        match &self.state {
            State::Present(published) => &published.registry,
            State::Past(past) => &past.registry,
        }
    }

    fn past(&self) -> Option<&Past> {
        match &self.state {
            State::Present(_) => None,
            State::Past(past) => Some(past),
        }
    }

    fn renewals(&self) -> Renewals {
        match self.state {
            State::Present(_) => Renewals::Clock,
            State::Past(_) => Renewals::Image,
        }
    }

    fn note(&self) -> Note {
        let lost = self.moment.what_is_lost(self.past());
        Note {
            is_complete: lost.is_none(),
            text: lost.or_else(|| self.moment.beginning()),
        }
    }
}

/// What has to be said of a moment.
struct Note {
    is_complete: bool,
    text: Option<String>,
}

impl Note {
    /// Of two moments: what is not known comes first.
    fn or(self, other: Self) -> Self {
        let (more, less) = if self.is_complete && !other.is_complete {
            (other, self)
        } else {
            (self, other)
        };
        Self {
            is_complete: more.is_complete,
            text: more.text.or(less.text),
        }
    }
}

/// Looks at moments; on threads that may block.
struct Looker {
    log: Arc<ChangeLog>,
    traveller: Arc<Traveller>,
    now: Millis,
}

impl Looker {
    /// `hint`: an earlier registry to go on from.
    fn look(&self, asked: Asked, hint: Option<&Past>) -> Result<Seen, Problem> {
        // The state first: the log may only be further then.
        let present = self.log.snapshot();
        let reader = self.log.reader();
        let moment = match asked {
            Asked::Time(at) if at >= self.now => Moment::whole(present.lsn(), at),
            Asked::Time(at) => by_time(&*reader, at).map_err(|error| problem(&error))?,
            Asked::Position(lsn) if lsn == present.lsn() => {
                // A position that the store has not committed yet has no time in the log.
                let at = by_lsn(&*reader, lsn).map_or(self.now, |moment| moment.at);
                Moment::whole(lsn, at)
            }
            Asked::Position(lsn) => by_lsn(&*reader, lsn).map_err(|error| problem(&error))?,
        };
        let state = if moment.lsn == present.lsn() {
            State::Present(present)
        } else {
            let past = self.traveller.at(&*reader, moment.lsn, hint);
            State::Past(past.map_err(|error| problem(&error))?)
        };
        Ok(Seen { moment, state })
    }
}

fn problem(error: &TravelError) -> Problem {
    match error {
        TravelError::TooOld(oldest) => Problem::gone(error.to_string(), oldest.lsn, oldest.at),
        TravelError::Future { .. } => Problem::bad_request(error.to_string()),
        TravelError::Store(StoreError::Closed) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        TravelError::Store(_) => Problem::internal(error.to_string()),
    }
}

/// A time of a query.
fn time(name: &str, value: &str, now: Millis) -> Result<Millis, Problem> {
    let at = times::parse(value, now)
        .map_err(|error| Problem::bad_request(format!("{name}: {error}")))?;
    if at > now {
        return Err(Problem::bad_request(format!(
            "{name}: {} lies in the future, it is {}",
            times::format(at),
            times::format(now)
        )));
    }
    Ok(at)
}

/// Names of applications, separated by commas.
fn names(value: &str, apps: &mut Vec<AppName>) -> Result<(), Problem> {
    let named = value.split(',').map(str::trim).filter(|n| !n.is_empty());
    apps.extend(named.take(APPS_MAX + 1).map(AppName::new));
    if apps.len() > APPS_MAX {
        return Err(Problem::bad_request(format!(
            "app: more than {APPS_MAX} names"
        )));
    }
    Ok(())
}

impl Api {
    fn looker(&self, now: Millis) -> Looker {
        Looker {
            log: self.log.clone(),
            traveller: self.travels.traveller(),
            now,
        }
    }

    /// The registry as of a moment, as `/eureka/apps` shows it.
    pub(super) async fn registry_at(&self, head: &Head<'_>) -> Answered {
        let now = self.clock.now().wall;
        let mut asked = None;
        let mut apps = Vec::new();
        Parameters::of(head).each(&["at", "lsn", "app"], |name, value| {
            let this = match name {
                "at" => Asked::Time(time(name, value, now)?),
                "lsn" => Asked::Position(Lsn(value.parse().map_err(|_| {
                    let shown: String = value.chars().take(64).collect();
                    Problem::bad_request(format!("lsn: {shown:?} is not a number"))
                })?)),
                "app" => {
                    names(value, &mut apps)?;
                    return Ok(true);
                }
                _ => return Ok(false),
            };
            if asked.replace(this).is_some() {
                return Err(Problem::bad_request(
                    "more than one moment: give at or lsn, once",
                ));
            }
            Ok(true)
        })?;
        let accepted = request::joined(head.headers, &ACCEPT);
        let Some(negotiated) = accept::negotiate(accepted.as_deref(), self.negotiation) else {
            return Err(Problem::new(
                StatusCode::NOT_ACCEPTABLE,
                "there is application/json and application/xml",
            ));
        };
        let form = Form {
            format: negotiated.body,
            detail: Self::detail(head.headers),
            is_gzip: self.wants_gzip(true, head.headers),
        };
        let Some(place) = self.travels.places(1) else {
            return Ok(busy());
        };
        let looker = self.looker(now);
        let own_id = self.own_id().to_owned();
        let look = move || {
            let seen = looker.look(asked.unwrap_or(Asked::Time(now)), None)?;
            let payload = list_of(seen.registry(), &apps, form, seen.renewals(), &own_id);
            Ok((seen.moment, seen.note(), payload))
        };
        let (moment, note, payload) = run(look).await?;
        let content_type = negotiated.body.content_type();
        let mut answer = answer::payload(Arc::new(payload), content_type.into(), form.is_gzip);
        tell(&mut answer, &moment, &note);
        Ok(held(answer, place))
    }

    /// What two moments do not share.
    pub(super) async fn registry_diff(&self, head: &Head<'_>) -> Answered {
        let now = self.clock.now().wall;
        let (mut from, mut to) = (None, None);
        let mut apps = Vec::new();
        Parameters::of(head).each(&["from", "to", "app"], |name, value| {
            match name {
                "from" => from = Some(time(name, value, now)?),
                "to" => to = Some(time(name, value, now)?),
                "app" => names(value, &mut apps)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let Some(from) = from else {
            return Err(Problem::bad_request("from: the first moment is missing"));
        };
        let to = to.unwrap_or(now);
        if from > to {
            return Err(Problem::bad_request("from: later than to"));
        }
        let Some(place) = self.travels.places(2) else {
            return Ok(busy());
        };
        let looker = self.looker(now);
        let pieces = run(move || {
            let before = looker.look(Asked::Time(from), None)?;
            let after = looker.look(Asked::Time(to), before.past())?;
            told(&before, &after, &apps)
        })
        .await?;
        let answer = answer::with_body(StatusCode::OK, "application/json", pieces);
        Ok(held(answer, place))
    }
}

/// Writes the differences of two moments.
fn told(before: &Seen, after: &Seen, apps: &[AppName]) -> Result<Vec<u8>, Problem> {
    let mut lists: [Vec<u8>; 3] = Default::default();
    let mut failed = None;
    compare(
        before.registry(),
        after.registry(),
        apps,
        &mut |sort, different| {
            let list = &mut lists[match sort {
                Sort::Added => 0,
                Sort::Removed => 1,
                Sort::Changed => 2,
            }];
            if !list.is_empty() {
                list.push(b',');
            }
            if let Err(error) = serde_json::to_writer(list, different) {
                failed = Some(error);
            }
        },
    );
    if let Some(error) = failed {
        return Err(Problem::internal(format!(
            "the answer cannot be written: {error}"
        )));
    }
    let of = |seen: &Seen| json!({ "at": times::At(seen.moment.at), "lsn": seen.moment.lsn });
    let note = before.note().or(after.note());
    let mut head = json!({ "from": of(before), "to": of(after), "complete": note.is_complete });
    if let Some(note) = note.text {
        head["note"] = json!(note);
    }
    let mut body = head.to_string().into_bytes();
    body.pop();
    for (name, list) in ["added", "removed", "changed"].into_iter().zip(&mut lists) {
        body.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        body.append(list);
        list.shrink_to_fit();
        body.push(b']');
    }
    body.push(b'}');
    Ok(body)
}

async fn run<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(look).await {
        Ok(seen) => seen,
        Err(error) => Err(Problem::internal(format!("the look failed: {error}"))),
    }
}

/// Says which moment an answer shows.
fn tell(answer: &mut Answer, moment: &Moment, note: &Note) {
    let headers = answer.headers_mut();
    headers.insert(LSN.clone(), HeaderValue::from(moment.lsn.0));
    if let Ok(at) = HeaderValue::from_str(&times::format(moment.at)) {
        headers.insert(AT.clone(), at);
    }
    let complete = if note.is_complete { "true" } else { "false" };
    headers.insert(COMPLETE.clone(), HeaderValue::from_static(complete));
    let text = note.text.as_deref();
    if let Some(note) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
        headers.insert(NOTE.clone(), note);
    }
}

/// The answer keeps its place until it has been taken or given up: it is as large as a registry.
fn held(answer: Answer, place: OwnedSemaphorePermit) -> Answer {
    let length = http_body::Body::size_hint(answer.body()).exact();
    let mut answer = answer.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _in_use = &place;
            frame
        }))
    });
    if let Some(length) = length {
        answer
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changelog::tests::Rig;

    #[test]
    fn more_questions_at_once_than_there_are_places_are_told_to_come_again() {
        let rig = Rig::sync();
        let travels = Travels::new(&rig.log);
        let mut held = vec![travels.places(2).unwrap(), travels.places(1).unwrap()];
        assert!(travels.places(2).is_none());
        let refused = busy();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[RETRY_AFTER], "1");
        let one = answer::with_body(StatusCode::OK, "text/plain", "x");
        let one = super::held(one, travels.places(1).unwrap());
        assert!(travels.places(1).is_none(), "an answer keeps its place");
        assert_eq!(one.headers()[CONTENT_LENGTH], "1");
        drop(one);
        held.clear();
        assert!(travels.places(4).is_some());
    }
}
