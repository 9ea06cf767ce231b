//! What only this server answers: questions to the log and operations beyond the protocol
//! (design 6). Unlike the protocol's, errors here have a body that says what was wrong with what
//! (RFC 9457): no Eureka client ever comes here.

mod explain;
mod history;
mod hold;
mod lines;
mod node;
mod openapi;
mod problem;
pub(super) mod travel;
mod watch;

use std::borrow::Cow;

use axum::body::Body;
use hyper::{Method, StatusCode};

use super::answer::{self, Answer};
use super::path::Own;
use super::{Api, Head};
use crate::registry::hold::HoldKind;
pub(super) use history::Past;
pub(super) use problem::Problem;

/// What a handler of our own gives.
pub(super) type Answered = Result<Answer, Problem>;

/// The parameters of a query, each looked at once.
pub(super) struct Parameters<'q>(Vec<(Cow<'q, str>, Cow<'q, str>)>);

impl<'q> Parameters<'q> {
    pub(super) fn of(head: &Head<'q>) -> Self {
        let query = head.query.unwrap_or_default();
        Self(form_urlencoded::parse(query.as_bytes()).collect())
    }

    /// Hands every parameter to `take`, which says whether it knows it.
    ///
    /// # Errors
    /// 400 for a parameter that nobody knows, `known` being those that are, and for one that is given
    /// twice: lists are written with commas. And what `take` says.
    pub(super) fn each(
        &self,
        known: &[&str],
        mut take: impl FnMut(&str, &str) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        // Not longer than `known`.
        let mut given: Vec<&str> = Vec::new();
        for (name, value) in &self.0 {
            if given.contains(&&**name) {
                return Err(Problem::bad_request(format!(
                    "{name} is given more than once; which one counts cannot be told"
                )));
            }
            if !take(name, value)? {
                let shown: String = name.chars().take(64).collect();
                let known = match known {
                    [] => "it takes none".to_owned(),
                    _ => format!("known are {}", known.join(", ")),
                };
                return Err(Problem::bad_request(format!(
                    "{shown:?} is no parameter of this; {known}"
                )));
            }
            given.push(name);
        }
        Ok(())
    }
}

impl Api {
    pub(super) async fn own(
        &self,
        own: Own<'_>,
        head: &Head<'_>,
        methods: &[&str],
        _body: Body,
    ) -> Answer {
        if head.method == Method::OPTIONS {
            return answer::options(methods, None);
        }
        if !methods.contains(&head.method.as_str()) {
            return method_not_allowed(head, methods);
        }
        let answered: Answered = match own {
            Own::History { app, id } => self.history(app.as_deref(), id.as_deref(), head).await,
            Own::Explain { app, id } => self.explain(&app, &id, head).await,
            Own::Drain { app, id } => self.hold(HoldKind::Drain, &app, &id, head).await,
            Own::Quarantine { app, id } => self.hold(HoldKind::Quarantine, &app, &id, head).await,
            Own::Overrides => self.overrides(head).await,
            Own::Registry => self.registry_at(head).await,
            Own::RegistryDiff => self.registry_diff(head).await,
            Own::Watch => self.watch(head),
            Own::Changes => self.changes(head).await,
            Own::Node => self.node(head).await,
            Own::OpenApi => self.openapi(head),
        };
        answered.unwrap_or_else(Problem::into_answer)
    }
}

/// 405 with the methods that there are.
pub(super) fn method_not_allowed(head: &Head<'_>, methods: &[&str]) -> Answer {
    let method: String = head.method.as_str().chars().take(64).collect();
    let detail = format!(
        "{method} is no method of this; there are {}",
        methods.join(", ")
    );
    let mut answer = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).into_answer();
    answer::allow(&mut answer, &methods.join(","));
    answer
}

/// 404 below a path of our own, with those that there are.
pub(super) fn no_such_path(paths: &str) -> Answer {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is nothing at this path; there are {paths}"),
    )
    .into_answer()
}

/// An answer in JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Answered {
    match serde_json::to_vec(value) {
        Ok(body) => Ok(answer::with_body(StatusCode::OK, "application/json", body)),
        Err(error) => Err(Problem::internal(format!(
            "the answer cannot be written: {error}"
        ))),
    }
}
