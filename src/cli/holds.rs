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
}

impl Held {
    fn of(hold: &Hold) -> Self {
        Self {
            kind: hold.kind,
            until: hold.until,
        }
    }

    /// The member `hold` of a line.
    pub(super) fn to_json(self) -> Value {
        json!({ "kind": self.kind.as_str(), "until": times::format(self.until) })
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
        let until = text(value, "until");
        // Spans count from now; the end of a hold is a moment.
        let until = times::parse(until, Millis::ZERO)
            .ok()
            .filter(|until| *until > Millis::ZERO)
            .ok_or_else(|| format!("a hold ends at a time, not at {}", value["until"]))?;
        Ok(Self { kind, until })
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

/// The holds in force in a registry.
pub(super) fn stored(registry: &Registry) -> BTreeMap<Key, Held> {
    registry
        .holds()
        .filter(|(.., hold)| hold.is_active())
        .map(|(app, id, hold)| {
            let key = (app.as_str().to_owned(), id.as_str().to_owned());
            (key, Held::of(hold))
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
            .with("limit", "1");
        let document = client.json(Call::get(target)).await?;
        let hold = &document["entries"][0]["hold"];
        if hold.is_null() || hold["released"] == true {
            continue;
        }
        let held = read(client, hold)?;
        if held.until > at {
            found.insert((app.clone(), id.clone()), held);
        }
    }
    Ok(found)
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
        };
        assert_eq!(Held::parse(&held.to_json()), Ok(held));
        let key = ("A".to_owned(), "a/b".to_owned());
        let line = held.line(&key);
        assert_eq!(Held::parse(&line["hold"]), Ok(held));
        assert_eq!(Held::key(&line["hold"]), Ok(key));
        for bad in [
            json!(null),
            json!({"kind": "drain"}),
            json!({"kind": "drain", "until": "soon"}),
            json!({"kind": "drain", "until": "-5m"}),
            json!({"kind": "pause", "until": "2026-11-30T02:13:00Z"}),
        ] {
            assert!(Held::parse(&bad).is_err(), "{bad}");
        }
        assert!(Held::key(&json!({"app": "A"})).is_err());
    }
}
