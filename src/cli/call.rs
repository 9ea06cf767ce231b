//! A question to a node: where it goes, and what comes with it.

use std::fmt::Write as _;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};

use super::failure::Failure;
use crate::wire::path_segment;

/// A path with its query, encoded.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) path: String,
    /// Encoded pairs, joined.
    query: String,
}

impl Target {
    /// `path` is taken as it is.
    pub(super) fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            query: String::new(),
        }
    }

    /// Appends a segment, encoded.
    #[must_use]
    pub(super) fn segment(mut self, text: &str) -> Self {
        let _ = write!(self.path, "/{}", path_segment(text));
        self
    }

    /// Appends a parameter.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        let mut pairs = form_urlencoded::Serializer::new(self.query);
        pairs.append_pair(name, value);
        self.query = pairs.finish();
        self
    }

    /// Appends a parameter if there is a value.
    #[must_use]
    pub(super) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(super) fn text(&self) -> String {
        if self.query.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, self.query)
        }
    }
}

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) accept: &'static str,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Option<(Bytes, &'static str)>,
}

impl Call {
    pub(super) fn new(method: Method, target: Target) -> Self {
        Self {
            method,
            target,
            accept: "application/json, application/problem+json",
            headers: Vec::new(),
            body: None,
        }
    }

    pub(super) fn get(target: Target) -> Self {
        Self::new(Method::GET, target)
    }

    #[must_use]
    pub(super) fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    #[must_use]
    pub(super) fn header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.push((HeaderName::from_static(name), value));
        self
    }

    /// Why it is asked for, for the history.
    ///
    /// # Errors
    /// The reason has characters that no header can hold.
    pub(super) fn reason(self, reason: Option<&str>) -> Result<Self, Failure> {
        let Some(reason) = reason else {
            return Ok(self);
        };
        let value = HeaderValue::from_bytes(reason.as_bytes()).map_err(|_| {
            Failure::usage("--reason holds characters that cannot be sent, such as line ends")
        })?;
        Ok(self.header("x-reason", value))
    }

    #[must_use]
    pub(super) fn json(mut self, body: Vec<u8>) -> Self {
        self.body = Some((Bytes::from(body), "application/json"));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_a_path_stays_in_its_segment() {
        let target = Target::new("/explain/apps")
            .segment("A B")
            .segment("../x?y#z%é")
            .segment("..")
            .with("from", "-15m")
            .with("reason", "a&b=c d");
        assert_eq!(
            target.text(),
            "/explain/apps/A%20B/..%2Fx%3Fy%23z%25%C3%A9/%2E%2E?from=-15m&reason=a%26b%3Dc+d"
        );
    }
}
