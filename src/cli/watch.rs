//! `eurekad watch`: prints changes as they happen, and goes on where it was when the connection was
//! cut.

use std::time::Duration;

use hyper::header::HeaderValue;
use serde_json::Value;

use super::args::WatchArgs;
use super::changes;
use super::client::{Call, Client, Reply, Target};
use super::failure::{Exit, Failure, Outcome};
use super::lines::Lines;
use super::screen::Screen;

/// Wait before the first attempt to connect again; doubled with each one that fails.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(15);

/// What is left to do, and where it stands.
struct Watch<'a> {
    arguments: &'a WatchArgs,
    /// The last position that is known to be done with.
    position: Option<u64>,
    /// Changes that are still to be printed, if that is bounded.
    left: Option<u64>,
}

pub(super) async fn run(client: &Client, arguments: &WatchArgs, screen: &mut Screen) -> Outcome {
    let mut watch = Watch {
        arguments,
        position: None,
        left: arguments.count,
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Ok(Exit::Done),
        outcome = watch.follow(client, screen) => outcome,
    }
}

impl Watch<'_> {
    async fn follow(&mut self, client: &Client, screen: &mut Screen) -> Outcome {
        let mut backoff = BACKOFF_MIN;
        let mut has_begun = false;
        loop {
            let cut = match self.connect(client).await {
                Ok(reply) => {
                    has_begun = true;
                    backoff = BACKOFF_MIN;
                    match self.read(reply, screen).await? {
                        None => return Ok(Exit::Done),
                        Some(cut) => cut,
                    }
                }
                // What the server refuses, it will refuse again; and one that was never there may
                // be the wrong one.
                Err(failure) if !has_begun || !is_passing(&failure) => return Err(failure),
                Err(failure) => failure,
            };
            if self.arguments.no_reconnect {
                return Err(cut);
            }
            screen.note(&match self.position {
                Some(lsn) => format!("{cut}; going on behind lsn {lsn}"),
                None => format!("{cut}; going on"),
            });
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    async fn connect(&self, client: &Client) -> Result<Reply, Failure> {
        let mut target = Target::new("/watch")
            .with_some("app", self.arguments.app.as_deref())
            .with_some("kind", self.arguments.kind.as_deref());
        if let (Some(from), None) = (self.arguments.from, self.position) {
            target = target.with("from", &from.to_string());
        }
        let mut call = Call::get(target).accept("text/event-stream, application/problem+json");
        if let Some(lsn) = self.position {
            let value = HeaderValue::from_str(&lsn.to_string())
                .map_err(|error| Failure::usage(error.to_string()))?;
            call = call.header("last-event-id", value);
        }
        client.ask(call).await
    }

    /// Prints what comes. `None` if everything that was wanted has come, else why it ended.
    async fn read(
        &mut self,
        mut reply: Reply,
        screen: &mut Screen,
    ) -> Result<Option<Failure>, Failure> {
        let mut lines = Lines::default();
        let mut event = Event::default();
        loop {
            let piece = match reply.piece().await {
                Ok(Some(piece)) => piece,
                Ok(None) => {
                    return Ok(Some(Failure::refused("the server ended the connection")));
                }
                Err(cut) => return Ok(Some(cut)),
            };
            lines.push(&piece, |line| {
                if let Some(done) = event.take(line) {
                    self.tell(&done, screen)?;
                }
                Ok(())
            })?;
            screen.flush()?;
            if self.left == Some(0) {
                return Ok(None);
            }
        }
    }

    fn tell(&mut self, event: &Event, screen: &mut Screen) -> Result<(), Failure> {
        let id = event.id;
        let is_old = matches!((id, self.position), (Some(id), Some(position)) if id <= position);
        if let Some(data) = event
            .data
            .as_deref()
            .filter(|_| !is_old && self.left != Some(0))
        {
            let entry: Value = serde_json::from_str(data).map_err(|error| {
                Failure::refused(format!("the server sent a change that is no JSON: {error}"))
            })?;
            if self.arguments.json {
                screen.document(data.as_bytes())?;
            } else {
                let line = changes::line(screen, &entry);
                screen.line(&line)?;
            }
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
        if !is_old && id.is_some() {
            self.position = id;
        }
        Ok(())
    }
}

/// Whether it may go away by itself.
fn is_passing(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Told {
            exit: Exit::Refused,
            ..
        }
    )
}

/// A server-sent event while it is being read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Event {
    id: Option<u64>,
    data: Option<String>,
}

impl Event {
    /// Takes a line of the stream; the event that an empty line completes.
    fn take(&mut self, line: &[u8]) -> Option<Self> {
        if line.is_empty() {
            let done = std::mem::take(self);
            return (done != Self::default()).then_some(done);
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = value.parse().ok(),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments, the kind of event, and what other servers may say.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_with_their_position() {
        let stream = "id: 7\nevent: change\ndata: {\"a\":1}\n\n: heartbeat\n\nid: 9\n: heartbeat\n\n\
                      data:x\ndata: y\n\n";
        let mut event = Event::default();
        let events: Vec<Event> = stream
            .split_terminator('\n')
            .filter_map(|line| event.take(line.as_bytes()))
            .collect();
        let of = |id, data: Option<&str>| Event {
            id,
            data: data.map(ToOwned::to_owned),
        };
        assert_eq!(
            events,
            [
                of(Some(7), Some("{\"a\":1}")),
                of(Some(9), None),
                of(None, Some("x\ny"))
            ]
        );
    }
}
