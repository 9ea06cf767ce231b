//! Drains and quarantines in an exported registry: an override with an end, which must not become
//! one without.
//!
//! The documents of the protocol cannot say that an override ends; the lines of our own carry it as
//! `hold`, beside the instance or, for an id that is not registered, alone.

use std::collections::BTreeMap;

use hyper::Method;
use serde_json::{Value, json};

use super::changes::text;
use super::client::{Call, Client, Target};
use super::failure::Failure;
use crate::history::times;
use crate::registry::Registry;
use crate::registry::hold::{Hold, HoldKind};
use crate::types::Millis;

/// Application and id, as the server writes them.
pub(super) type Key = (String, String);

/// What an exported line says of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) kind: HoldKind,
    /// Wall time of its end.
    pub(super) until: Millis,
    /// Of a quarantine: when the drain ends that waits behind it.
    pub(super) drain_until: Option<Millis>,
}

impl Held {
    /// A hold that is in force, and the drain of the same instance.
    fn of(hold: &Hold, drain: Option<&Hold>) -> Self {
        Self {
            kind: hold.kind,
            until: hold.until,
            drain_until: drain
                .filter(|_| hold.kind == HoldKind::Quarantine)
                .map(|drain| drain.until),
        }
    }

    /// The drain that waits behind a quarantine.
    pub(super) fn drain(self) -> Option<Self> {
        self.drain_until.map(|until| Self {
            kind: HoldKind::Drain,
            until,
            drain_until: None,
        })
    }

    /// The member `hold` of a line.
    pub(super) fn to_json(self) -> Value {
        let mut hold = json!({ "kind": self.kind.as_str(), "until": times::format(self.until) });
        if let Some(until) = self.drain_until {
            hold["drain"] = json!({ "until": times::format(until) });
        }
        hold
    }

    /// The line of an id that is not registered.
    pub(super) fn line(self, (app, id): &Key) -> Value {
        let mut hold = self.to_json();
        hold["app"] = json!(app);
        hold["id"] = json!(id);
        json!({ "hold": hold })
    }

    /// Reads what [`Held::to_json`] wrote, and what the API says of a hold.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let kind = HoldKind::parse(text(value, "kind"))
            .ok_or_else(|| format!("a hold is a drain or a quarantine, not {}", value["kind"]))?;
        let drain = Some(&value["drain"]).filter(|drain| !drain.is_null());
        Ok(Self {
            kind,
            until: end_of(value)?,
            drain_until: drain.map(end_of).transpose()?,
        })
    }

    /// The key of a line of [`Held::line`].
    pub(super) fn key(value: &Value) -> Result<Key, String> {
        let (app, id) = (text(value, "app"), text(value, "id"));
        if app.is_empty() || id.is_empty() {
            return Err("a hold without an instance names app and id".to_owned());
        }
        Ok((app.to_owned(), id.to_owned()))
    }
}

/// The end of what an exported line says of a hold.
fn end_of(hold: &Value) -> Result<Millis, String> {
    // Spans count from now; the end of a hold is a moment.
    times::parse(text(hold, "until"), Millis::ZERO)
        .ok()
        .filter(|until| *until > Millis::ZERO)
        .ok_or_else(|| format!("a hold ends at a time, not at {}", hold["until"]))
}

/// The holds in force in a registry.
pub(super) fn stored(registry: &Registry) -> BTreeMap<Key, Held> {
    registry
        .holds()
        .filter_map(|(app, id, _)| {
            let key = (app.as_str().to_owned(), id.as_str().to_owned());
            let hold = registry.hold_of(app, id)?;
            Some((key, Held::of(hold, registry.drain_of(app, id))))
        })
        .collect()
}

/// The holds in force at a running server; none if it is of another kind.
pub(super) async fn served(client: &Client) -> Result<BTreeMap<Key, Held>, Failure> {
    let path = "/overrides";
    let reply = client.send(Call::get(Target::new(path))).await?;
    if reply.status == 404 {
        return Ok(BTreeMap::new());
    }
    if !(200..300).contains(&reply.status) {
        return Err(client.refusal(path, reply).await);
    }
    let document = client.parse(path, &reply.document().await?)?;
    let listed = document["overrides"].as_array();
    listed
        .into_iter()
        .flatten()
        .filter(|one| !one["hold"].is_null())
        .map(|one| {
            let key = (
                text(one, "app").to_owned(),
                text(one, "instance").to_owned(),
            );
            Ok((key, read(client, &one["hold"])?))
        })
        .collect()
}

/// The holds of some instances as of a moment, out of the history of a running server.
pub(super) async fn past(
    client: &Client,
    of: &[Key],
    at: Millis,
) -> Result<BTreeMap<Key, Held>, Failure> {
    let mut found = BTreeMap::new();
    for (app, id) in of {
        let target = Target::new("/history/apps")
            .segment(app)
            .segment(id)
            .with("kind", "drained,quarantined,released")
            .with("to", &times::format(at.plus(1)))
            .with("limit", WORDS);
        let document = client.json(Call::get(target)).await?;
        let entries = document["entries"].as_array();
        let mut words = Vec::new();
        for entry in entries.into_iter().flatten() {
            let hold = &entry["hold"];
            if !hold.is_null() {
                words.push((read(client, hold)?, hold["released"] == true));
            }
        }
        if let Some(held) = in_force(&words, at) {
            found.insert((app.clone(), id.clone()), held);
        }
    }
    Ok(found)
}

/// Words about an instance that are looked at; those of one kind may hide the last one of the other.
const WORDS: &str = "100";

/// What is in force at a moment after these words, the newest first, each with whether it is a release.
fn in_force(words: &[(Held, bool)], at: Millis) -> Option<Held> {
    let last = |kind: HoldKind| words.iter().position(|(word, _)| word.kind == kind);
    let holds = |place: &usize| {
        let (word, is_release) = &words[*place];
        !is_release && word.until > at
    };
    // A quarantine ends the drains that were said before it.
    let quarantined = words
        .iter()
        .position(|(word, is_release)| word.kind == HoldKind::Quarantine && !is_release);
    let drain = last(HoldKind::Drain)
        .filter(|place| quarantined.is_none_or(|quarantined| *place < quarantined))
        .filter(holds)
        .map(|place| words[place].0);
    let quarantine = last(HoldKind::Quarantine).filter(holds).map(|place| Held {
        drain_until: drain.map(|drain| drain.until),
        ..words[place].0
    });
    quarantine.or(drain)
}

fn read(client: &Client, hold: &Value) -> Result<Held, Failure> {
    Held::parse(hold).map_err(|why| Failure::refused(format!("{}: {why}", client.url())))
}

/// Whether a server knows holds: one of our own kind.
pub(super) async fn are_known(client: &Client) -> Result<bool, Failure> {
    let reply = client.send(Call::get(Target::new("/node"))).await?;
    if reply.status != 200 {
        return Ok(false);
    }
    let body = reply.document().await?;
    Ok(serde_json::from_slice::<Value>(&body).is_ok_and(|node| node["node_id"].is_string()))
}

/// Puts a hold back at a running server, with what is left of its time.
pub(super) async fn put_back(
    client: &Client,
    (app, id): &Key,
    held: Held,
    now: Millis,
    reason: &str,
) -> Result<(), Failure> {
    let target = Target::new(&format!("/{}/apps", held.kind.as_str()))
        .segment(app)
        .segment(id)
        .with("for", &format!("{}ms", held.until.since(now)));
    let call = Call::new(Method::POST, target).reason(Some(reason))?;
    client.ask(call).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_anything_else_is_not() {
        let held = Held {
            kind: HoldKind::Quarantine,
            until: Millis(1_796_004_780_250),
            drain_until: Some(Millis(1_796_004_790_000)),
        };
        let alone = Held {
            drain_until: None,
            ..held
        };
        assert_eq!(Held::parse(&held.to_json()), Ok(held));
        assert_eq!(Held::parse(&alone.to_json()), Ok(alone));
        let key = ("A".to_owned(), "a/b".to_owned());
        let line = held.line(&key);
        assert_eq!(Held::parse(&line["hold"]), Ok(held));
        assert_eq!(Held::key(&line["hold"]), Ok(key));
        for bad in [
            json!(null),
            json!({"kind": "drain"}),
            json!({"kind": "quarantine", "until": "2026-11-30T02:13:00Z", "drain": {}}),
            json!({"kind": "drain", "until": "soon"}),
            json!({"kind": "drain", "until": "-5m"}),
            json!({"kind": "pause", "until": "2026-11-30T02:13:00Z"}),
        ] {
            assert!(Held::parse(&bad).is_err(), "{bad}");
        }
        assert!(Held::key(&json!({"app": "A"})).is_err());
    }
    #[test]
    fn of_the_words_about_an_instance_the_last_of_each_kind_counts() {
        let word = |kind, until: u64| Held {
            kind,
            until: Millis(until),
            drain_until: None,
        };
        let drain = |until| (word(HoldKind::Drain, until), false);
        let quarantine = |until| (word(HoldKind::Quarantine, until), false);
        let released = |(word, _): (Held, bool)| (word, true);
        let both = Held {
            drain_until: Some(Millis(20)),
            ..word(HoldKind::Quarantine, 30)
        };
        let alone = word(HoldKind::Quarantine, 30);
        let drained = word(HoldKind::Drain, 20);
        // Newest first.
        let cases = [
            (vec![], None),
            (vec![drain(20)], Some(drained)),
            (vec![drain(10)], None),
            (vec![released(drain(20))], None),
            (vec![quarantine(30), drain(20)], Some(alone)),
            (vec![drain(20), quarantine(30)], Some(both)),
            (
                vec![released(drain(20)), drain(20), quarantine(30)],
                Some(alone),
            ),
            (
                vec![released(quarantine(30)), drain(20), quarantine(30)],
                Some(drained),
            ),
            (
                vec![released(quarantine(30)), quarantine(30), drain(20)],
                None,
            ),
            (
                vec![drain(20), released(quarantine(30)), quarantine(30)],
                Some(drained),
            ),
        ];
        for (words, expected) in cases {
            assert_eq!(in_force(&words, Millis(10)), expected, "{words:?}");
        }
    }
}
