//! `eurekad history`: who changed what, when and why, asked of a running node.

use serde_json::Value;

use super::args::HistoryArgs;
use super::changes;
use super::client::{Call, Client, Target};
use super::failure::{Exit, Failure, Outcome};
use super::lines::Lines;
use super::screen::Screen;

/// Most entries of one page of the API.
const PAGE_MAX: u64 = 1000;
const NDJSON: &str = "application/x-ndjson, application/problem+json";

/// An application, or one instance of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) app: String,
    pub(super) id: Option<String>,
}

impl Subject {
    /// Reads `APP` or `APP/ID`; everything behind the first slash is the id.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let (app, id) = match text.split_once('/') {
            Some((app, id)) => (app, Some(id)),
            None => (text, None),
        };
        if app.is_empty() || id == Some("") {
            return Err(Failure::usage(format!(
                "{text:?} names no instance: APP/ID, such as BILLING/billing-1"
            )));
        }
        Ok(Self {
            app: app.to_owned(),
            id: id.map(ToOwned::to_owned),
        })
    }

    /// Reads `APP/ID`.
    pub(super) fn instance(text: &str) -> Result<(String, String), Failure> {
        match Self::parse(text)? {
            Self { app, id: Some(id) } => Ok((app, id)),
            Self { app, id: None } => Err(Failure::usage(format!(
                "{app:?} names an application; an instance is APP/ID, such as BILLING/billing-1"
            ))),
        }
    }
}

/// The question, without its bounds and form.
fn target(arguments: &HistoryArgs) -> Result<Target, Failure> {
    let mut target = Target::new("/history");
    if let Some(of) = &arguments.of {
        let subject = Subject::parse(of)?;
        target = Target::new("/history/apps").segment(&subject.app);
        if let Some(id) = &subject.id {
            target = target.segment(id);
        }
    }
    let order = if arguments.oldest_first {
        "oldest"
    } else {
        "newest"
    };
    Ok(target
        .with_some("from", arguments.from.as_deref())
        .with_some("to", arguments.to.as_deref())
        .with_some("kind", arguments.kind.as_deref())
        .with_some("reason", arguments.reason.as_deref())
        .with_some("actor", arguments.actor.as_deref())
        .with_some("origin", arguments.origin.as_deref())
        .with_some("address", arguments.address.as_deref())
        .with("order", order))
}

pub(super) async fn run(client: &Client, arguments: &HistoryArgs, screen: &mut Screen) -> Outcome {
    let target = target(arguments)?.with_some("cursor", arguments.cursor.as_deref());
    if arguments.json {
        let call = Call::get(target.with("limit", &arguments.limit.to_string()));
        let body = client.ask(call).await?.document().await?;
        screen.document(&body)?;
        return Ok(Exit::Done);
    }
    if arguments.ndjson || arguments.all {
        let most = if arguments.all {
            u64::MAX
        } else {
            arguments.limit
        };
        return stream(client, target, most, arguments.ndjson, screen).await;
    }
    pages(client, target, arguments.limit, screen).await
}

/// Page after page until there are `most` entries.
async fn pages(client: &Client, target: Target, most: u64, screen: &mut Screen) -> Outcome {
    let mut left = most;
    let mut cursor: Option<String> = None;
    let mut is_first = true;
    let mut table = changes::table();
    loop {
        let page = left.min(PAGE_MAX);
        let asked = match &cursor {
            Some(cursor) => Target::clone(&target).with("cursor", cursor),
            None => target.clone(),
        };
        let call = Call::get(asked.with("limit", &page.to_string()));
        let document = client.json(call).await?;
        let entries = document["entries"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        for entry in entries {
            table.row(changes::row(screen, entry), screen)?;
        }
        if is_first && entries.is_empty() {
            screen.note("there are no such changes");
        }
        is_first = false;
        left = left.saturating_sub((entries.len() as u64).max(1));
        cursor = document["next"].as_str().map(ToOwned::to_owned);
        if left == 0 || cursor.is_none() {
            table.finish(screen)?;
            if cursor.is_some() {
                screen.flush()?;
                screen.note("there is more: --limit N, or --all");
            } else {
                say_what_is_kept(&document, screen)?;
            }
            return Ok(Exit::Done);
        }
    }
}

/// Everything, line by line as it comes.
async fn stream(
    client: &Client,
    target: Target,
    most: u64,
    is_raw: bool,
    screen: &mut Screen,
) -> Outcome {
    let mut target = target.with("format", "ndjson");
    if most <= PAGE_MAX {
        target = target.with("limit", &most.to_string());
    }
    let mut reply = client.ask(Call::get(target).accept(NDJSON)).await?;
    let is_complete = reply.header("x-eurekad-complete") != Some("false");
    let oldest = reply.header("x-eurekad-oldest").map(ToOwned::to_owned);
    let told_note = reply.header("x-eurekad-note").map(ToOwned::to_owned);
    let mut lines = Lines::default();
    let mut told = 0;
    let mut table = changes::table();
    let mut take = |line: &[u8], screen: &mut Screen| -> Result<(), Failure> {
        if line.is_empty() || told >= most {
            return Ok(());
        }
        told += 1;
        if is_raw {
            screen.document(line)
        } else {
            let entry = client.parse("/history", line)?;
            table.row(changes::row(screen, &entry), screen)
        }
    };
    while let Some(piece) = reply.piece().await? {
        lines.push(&piece, |line| take(line, screen))?;
    }
    if let Some(rest) = lines.finish() {
        take(&rest, screen)?;
    }
    table.finish(screen)?;
    if !is_complete {
        screen.flush()?;
        screen.note(&not_complete(
            told_note.as_deref(),
            oldest.as_deref(),
            screen,
        ));
    }
    Ok(Exit::Done)
}

fn say_what_is_kept(document: &Value, screen: &mut Screen) -> Result<(), Failure> {
    if document["complete"] == Value::Bool(false) {
        screen.flush()?;
        let note = not_complete(
            document["note"].as_str(),
            document["oldest"].as_str(),
            screen,
        );
        screen.note(&note);
    }
    Ok(())
}

/// What an answer cannot tell, and why: by age, unless the node's note says that it was lost.
pub(super) fn not_complete(note: Option<&str>, oldest: Option<&str>, screen: &Screen) -> String {
    if let Some(note) = note.filter(|note| note.contains("lost")) {
        return note.to_owned();
    }
    match oldest.filter(|oldest| !oldest.is_empty()) {
        Some(oldest) => format!(
            "what was before {} is no longer kept (eurekad.history-max-age, \
             eurekad.history-max-bytes)",
            screen.moments.show(oldest)
        ),
        None => "what was before is no longer kept".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_what_stands_behind_the_first_slash() {
        let subject = Subject::parse("BILLING/a/b").unwrap();
        assert_eq!(
            (subject.app.as_str(), subject.id.as_deref()),
            ("BILLING", Some("a/b"))
        );
        assert_eq!(Subject::parse("BILLING").unwrap().id, None);
        for bad in ["", "/", "/id", "APP/"] {
            assert!(Subject::parse(bad).is_err(), "{bad}");
        }
        assert!(Subject::instance("BILLING").is_err());
    }
}
