//! `eurekad diff`: what differs between the registries of two moments, asked of a running node.

use serde_json::Value;

use super::args::DiffArgs;
use super::changes;
use super::client::{Call, Client, Target};
use super::failure::{Exit, Failure, Outcome};
use super::screen::{Cell, Paint, Screen, Table};
use super::text::clean;

pub(super) async fn run(client: &Client, arguments: &DiffArgs, screen: &mut Screen) -> Outcome {
    let target = Target::new("/registry/diff")
        .with("from", &arguments.from)
        .with("to", &arguments.to)
        .with_some("app", arguments.app.as_deref());
    let body = client.ask(Call::get(target)).await?.document().await?;
    let document = client.parse("/registry/diff", &body)?;
    if arguments.json {
        screen.document(&body)?;
    } else {
        show(&document, screen)?;
    }
    Ok(verdict(&document, arguments.exit_code))
}

/// What the exit code says of a difference.
pub(super) fn verdict(document: &Value, tells_by_code: bool) -> Exit {
    if tells_by_code && !is_empty(document) {
        Exit::No
    } else {
        Exit::Done
    }
}

fn list<'a>(document: &'a Value, name: &str) -> &'a [Value] {
    document[name].as_array().map_or(&[], Vec::as_slice)
}

fn is_empty(document: &Value) -> bool {
    ["added", "removed", "changed"]
        .iter()
        .all(|name| list(document, name).is_empty())
}

/// Shows the document of `/registry/diff`.
pub(super) fn show(document: &Value, screen: &mut Screen) -> Result<(), Failure> {
    let end = |name: &str, screen: &Screen| {
        let end = &document[name];
        format!(
            "{} (lsn {})",
            screen.moments.show(changes::text(end, "at")),
            clean(&end["lsn"].to_string())
        )
    };
    let (from, to) = (end("from", screen), end("to", screen));
    let note = changes::text(document, "note");
    if !note.is_empty() {
        screen.note(&clean(note));
    }
    if is_empty(document) {
        screen.note(&format!("nothing differs between {from} and {to}"));
        return Ok(());
    }
    screen.note(&format!("from {from} to {to}"));
    let mut table = Table::new(&["", "INSTANCE", "WHAT"]);
    for (name, sign, paint) in [
        ("removed", "-", Paint::Red),
        ("added", "+", Paint::Green),
        ("changed", "~", Paint::Yellow),
    ] {
        for one in list(document, name) {
            let what = match changes::text(one, "status") {
                "" => changes::changes(one),
                status => status.to_owned(),
            };
            table.row([
                Cell::painted(sign, paint),
                Cell::painted(changes::instance(one), Paint::Bold),
                Cell::new(what),
            ]);
        }
    }
    screen.table(&table)
}
