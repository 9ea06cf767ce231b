//! What is answered: the few shapes of response that the protocol has.
//!
//! Errors have empty bodies. The Netflix client parses any body of a heartbeat's answer as an
//! instance; a body that is none keeps it from ever registering again (`protocol.md` 1.4). The only
//! texts are those of the 400s to registrations and batches, as recorded.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use hyper::header::{
    ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
};
use hyper::{Response, StatusCode};

use crate::cache::{Body as Rope, Payload};
use crate::changelog::Unavailable;
use crate::history::times;
use crate::registry::hold::Hold;
use crate::replication::packing::{self, PACK_FROM};

/// The media type of what is wrong with a question to an endpoint of our own.
pub(super) const PROBLEM: &str = "application/problem+json";

/// A response on its way out.
pub(super) type Answer = Response<Body>;

/// Marks an answer whose body goes on until somebody has enough of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endless;

/// Tells why a change was refused with 503, since the body has to stay empty.
static REASON: HeaderName = HeaderName::from_static("x-eurekad-reason");
static RETRY_AFTER: HeaderName = HeaderName::from_static("retry-after");

/// A status and nothing else.
pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    if status != StatusCode::NO_CONTENT {
        answer
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    answer
}

/// A body of a media type.
pub(super) fn with_body(
    status: StatusCode,
    content_type: impl Into<Cow<'static, str>>,
    body: impl Into<Bytes>,
) -> Answer {
    let body = body.into();
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, type_header(content_type.into()));
    answer
}

/// A body for a node of our own kind: in gzip if it is long and `takes_gzip`.
pub(super) async fn for_our_kind(
    content_type: impl Into<Cow<'static, str>>,
    body: Vec<u8>,
    takes_gzip: bool,
) -> Answer {
    if !takes_gzip || body.len() < PACK_FROM {
        return with_body(StatusCode::OK, content_type, body);
    }
    let pack = move || match packing::pack(&body) {
        Some(packed) => (packed, true),
        None => (body, false),
    };
    let Ok((body, is_gzip)) = tokio::task::spawn_blocking(pack).await else {
        return empty(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let mut answer = with_body(StatusCode::OK, content_type, body);
    if is_gzip {
        let headers = answer.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

/// An encoded entity from the cache.
pub(super) fn payload(
    payload: Arc<Payload>,
    content_type: Cow<'static, str>,
    is_gzip: bool,
) -> Answer {
    let length = payload.len();
    let mut answer = Response::new(Body::new(Rope::new(payload)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, type_header(content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    if is_gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

/// In the exact dialect the type may be the client's own words, which came in a header.
fn type_header(content_type: Cow<'static, str>) -> HeaderValue {
    match content_type {
        Cow::Borrowed(known) => HeaderValue::from_static(known),
        Cow::Owned(echoed) => HeaderValue::from_str(&echoed)
            .unwrap_or(HeaderValue::from_static("application/octet-stream")),
    }
}

/// 405 with the methods that there are.
pub(super) fn method_not_allowed(methods: &[&str]) -> Answer {
    let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
    allow(&mut answer, &methods.join(","));
    answer
}

/// The answer to OPTIONS.
pub(super) fn options(methods: &[&str], accepted: Option<&str>) -> Answer {
    let mut names: Vec<&str> = Vec::new();
    if methods.contains(&"GET") && !methods.contains(&"HEAD") {
        names.push("HEAD");
    }
    names.extend(methods);
    let mut answer = match accepted {
        Some("text/plain") => with_body(StatusCode::OK, "text/plain", names.join(", ")),
        Some("application/json") => {
            let mut answer = empty(StatusCode::OK);
            answer
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            answer
        }
        _ => empty(StatusCode::OK),
    };
    allow(&mut answer, &names.join(","));
    answer
}

/// The methods that there are.
pub(super) fn allow(answer: &mut Answer, methods: &str) {
    if let Ok(value) = HeaderValue::from_str(methods) {
        answer.headers_mut().insert(ALLOW, value);
    }
}

/// What HEAD gets: the head of what GET would. An error is labelled as the page that the original
/// would have sent with it.
pub(super) fn without_body(answer: &mut Answer) {
    let length = http_body::Body::size_hint(answer.body()).exact();
    *answer.body_mut() = Body::empty();
    let is_error = answer.status().is_client_error() || answer.status().is_server_error();
    let headers = answer.headers_mut();
    let is_own = headers
        .get(CONTENT_TYPE)
        .is_some_and(|label| label == PROBLEM);
    if is_error && !is_own {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    } else if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// A status that a quarantine forbids: 409 with an empty body, as all of the protocol's errors.
pub(super) fn held(hold: &Hold) -> Answer {
    let mut answer = empty(StatusCode::CONFLICT);
    let text = format!(
        "in {} until {}",
        hold.kind.as_str(),
        times::format(hold.until)
    );
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().insert(REASON.clone(), value);
    }
    answer
}

/// A change that was not accepted: clients go to the next server.
pub(super) fn unavailable(why: &Unavailable) -> Answer {
    not_taken(&why.to_string())
}

/// 503 to a change, with the reason where no client reads it by mistake.
pub(super) fn not_taken(why: &str) -> Answer {
    let mut answer = empty(StatusCode::SERVICE_UNAVAILABLE);
    let text: String = why
        .chars()
        .filter(|c| c.is_ascii() && !c.is_ascii_control())
        .take(400)
        .collect();
    let headers = answer.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(REASON.clone(), value);
    }
    headers.insert(RETRY_AFTER.clone(), HeaderValue::from_static("5"));
    answer
}
