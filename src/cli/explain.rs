//! `eurekad explain`: why an instance is there, or no longer there, in sentences.

use std::fmt::Write as _;

use serde_json::Value;

use super::args::ExplainArgs;
use super::changes::{self, text};
use super::client::{Call, Client, Target};
use super::failure::{Exit, Failure, Outcome};
use super::history::Subject;
use super::screen::{Paint, Screen};
use super::text::{clean, span};

/// Columns of a paragraph.
const WIDTH: usize = 96;

pub(super) async fn run(client: &Client, arguments: &ExplainArgs, screen: &mut Screen) -> Outcome {
    let (app, id) = Subject::instance(&arguments.instance)?;
    let target = Target::new("/explain/apps").segment(&app).segment(&id);
    let body = client.ask(Call::get(target)).await?.document().await?;
    let document = client.parse("/explain", &body)?;
    if arguments.json {
        screen.document(&body)?;
    } else {
        show(&document, screen)?;
    }
    Ok(if document["present"] == Value::Bool(true) {
        Exit::Done
    } else {
        Exit::No
    })
}

fn show(document: &Value, screen: &mut Screen) -> Result<(), Failure> {
    let mut head = screen.paint(&clean(&changes::instance(document)), Paint::Bold);
    let status = text(document, "status");
    if !status.is_empty() {
        let painted = screen.paint(&clean(status), Paint::of_status(status));
        let _ = write!(head, "  {painted}");
    }
    screen.line(&head)?;
    let summary = screen.moments.in_text(&sentences(&document["summary"]));
    paragraph(&summary, screen)?;
    let because = &document["because"];
    if because.is_object() {
        screen.line("")?;
        screen.line("It is so because of:")?;
        let line = changes::line(screen, because);
        screen.line(&format!("  {line}"))?;
    }
    let next = document["next"].as_array().map_or(&[][..], Vec::as_slice);
    if !next.is_empty() {
        screen.line("")?;
        screen.line("What comes next, if nothing happens:")?;
        for step in next {
            let when = match (step["in_ms"].as_u64(), text(step, "at")) {
                (Some(ms), _) => format!("in {}: ", span(ms)),
                (None, "") => String::new(),
                (None, at) => format!("{}: ", screen.moments.show(at)),
            };
            let what = screen.moments.in_text(&clean(text(step, "what")));
            screen.line(&format!("  {when}{what}"))?;
        }
    }
    let peers = document["peers"].as_array().map_or(&[][..], Vec::as_slice);
    if !peers.is_empty() {
        screen.line("")?;
        screen.line("Its peers:")?;
        for peer in peers {
            let line = peer_line(peer);
            screen.line(&format!("  {line}"))?;
        }
    }
    Ok(())
}

fn peer_line(peer: &Value) -> String {
    let mut line = clean(text(peer, "peer"));
    line.push_str(match peer["in_sync"] {
        Value::Bool(true) => ": knows it as it is here",
        Value::Bool(false) => ": does not know it as it is here yet",
        _ => "",
    });
    if let Some(lag) = peer["lag_records"].as_u64().filter(|lag| *lag > 0) {
        let _ = write!(line, ", {lag} changes behind");
    }
    line
}

fn sentences(value: &Value) -> String {
    match value {
        Value::Array(all) => all
            .iter()
            .filter_map(Value::as_str)
            .map(clean)
            .collect::<Vec<_>>()
            .join(" "),
        Value::String(one) => clean(one),
        _ => String::new(),
    }
}

/// Writes a text in lines of bounded length.
fn paragraph(text: &str, screen: &mut Screen) -> Result<(), Failure> {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            screen.line(&line)?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.is_empty() {
        Ok(())
    } else {
        screen.line(&line)
    }
}
