//! What is asked of the changes: from where, which, and how long to wait.

use std::time::Duration;

use serde_json::json;

use crate::history::feed::Selection;
use crate::history::filter::{BadFilter, Filter};
use crate::history::times;
use crate::http::Head;
use crate::http::own::Parameters;
use crate::http::own::problem::Problem;
use crate::types::{Lsn, Millis};

/// Longest wait of a long poll, ms.
const WAIT_MAX_MS: u64 = 60_000;
/// Changes in an answer to a poll, by default and at most.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The parameter that says the position, and the position after which changes are wanted.
    pub(super) after: Option<(&'static str, Lsn)>,
    pub(super) selection: Selection,
    pub(super) wait: Duration,
    pub(super) limit: usize,
}

impl Question {
    pub(super) fn of(
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
                "since" => since = Some(position(name, value)?),
                "from" => from = Some(position(name, value)?),
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
            // Whoever has not seen one yet.
            Some(text) if text.trim().is_empty() => None,
            Some(text) => Some(position("Last-Event-ID", text)?),
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

fn position(name: &'static str, text: &str) -> Result<Lsn, Problem> {
    let text = text.trim();
    let number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten();
    match number {
        Some(number) => Ok(Lsn(number)),
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

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, Method};

    use super::*;
    use crate::types::AppName;

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
        assert_eq!(after("", Some("")), Ok(None));
        assert_eq!(after("since=7", None), Ok(Some(("since", Lsn(7)))));
        assert_eq!(after("from=7", None), Ok(Some(("from", Lsn(6)))));
        assert_eq!(after("from=0", None), Ok(Some(("from", Lsn(0)))));
        assert_eq!(after("from=41", None), Ok(Some(("from", Lsn(40)))));
        let resumed = Ok(Some(("Last-Event-ID", Lsn(9))));
        assert_eq!(after("from=7", Some("9")), resumed);
        let question = ask("app=shop,cart&kind=evicted&wait=30s&limit=5", None).unwrap();
        assert_eq!(question.selection.apps, ["SHOP", "CART"].map(AppName::new));
        assert_eq!(question.selection.kinds, ["evicted"]);
        assert_eq!((question.wait.as_secs(), question.limit), (30, 5));
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_what_is_allowed() {
        for (query, seen, says) in [
            ("since=x", None, "since: "),
            ("since=-1", None, "whole number"),
            ("since=", None, "whole number"),
            ("from=", None, "whole number"),
            ("since=1&since=1", None, "more than once"),
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
}
