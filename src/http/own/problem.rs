//! What went wrong, as a body (RFC 9457).

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use crate::changelog::Unavailable;
use crate::history::filter::BadFilter;
use crate::history::times;
use crate::http::answer::{self, Answer};
use crate::store::StoreError;
use crate::types::{Lsn, Millis};

/// An error of an endpoint of our own.
#[derive(Debug)]
pub(in crate::http) struct Problem {
    status: StatusCode,
    detail: String,
    more: Map<String, Value>,
    /// A change that was not accepted: answered with the headers of the protocol's 503 too.
    unavailable: Option<Unavailable>,
}

impl Problem {
    pub(in crate::http) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            more: Map::new(),
            unavailable: None,
        }
    }

    /// `detail` names the parameter, what was wrong with it, and what is allowed.
    pub(in crate::http) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(in crate::http) fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    /// The question reaches further back than what is kept.
    pub(in crate::http) fn gone(
        detail: impl Into<String>,
        oldest_lsn: Lsn,
        oldest: Option<Millis>,
    ) -> Self {
        Self::new(StatusCode::GONE, detail)
            .with("oldest_lsn", json!(oldest_lsn))
            .with("oldest", json!(oldest.map(times::format)))
    }

    /// Adds a member to the body.
    #[must_use]
    pub(in crate::http) fn with(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    pub(in crate::http) fn into_answer(self) -> Answer {
        let mut body = Map::new();
        body.insert("type".into(), json!("about:blank"));
        body.insert(
            "title".into(),
            json!(self.status.canonical_reason().unwrap_or("Error")),
        );
        body.insert("status".into(), json!(self.status.as_u16()));
        body.insert("detail".into(), json!(self.detail));
        body.extend(self.more);
        let text = Value::Object(body).to_string();
        let mut answer = answer::with_body(self.status, answer::PROBLEM, text);
        if let Some(why) = self.unavailable {
            let headers = answer::unavailable(&why).headers().clone();
            let kept = headers
                .into_iter()
                .filter_map(|(name, value)| Some((name?, value)))
                .filter(|(name, _)| name != hyper::header::CONTENT_LENGTH);
            answer.headers_mut().extend(kept);
        } else if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let again = hyper::header::HeaderValue::from_static("5");
            answer
                .headers_mut()
                .insert(hyper::header::RETRY_AFTER, again);
        }
        answer
    }
}

impl From<BadFilter> for Problem {
    fn from(bad: BadFilter) -> Self {
        Self::bad_request(bad.to_string())
    }
}

impl From<Unavailable> for Problem {
    fn from(why: Unavailable) -> Self {
        Self {
            unavailable: Some(why.clone()),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, why.to_string())
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Trimmed { first, .. } => Self::gone(
                format!("{error}; begin at LSN {first}, or read the whole registry first"),
                first,
                None,
            ),
            StoreError::Closed => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            _ => Self::internal(error.to_string()),
        }
    }
}
