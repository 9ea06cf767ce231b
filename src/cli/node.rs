//! `eurekad status` and `eurekad peers`: how a node is, and how its peers keep up with it.

use serde_json::{Map, Value};

use super::args::NodeArgs;
use super::client::{Call, Client, Target};
use super::failure::{Exit, Failure, Outcome};
use super::screen::{Cell, Paint, Screen, Table};
use super::text::{clean, size, span};

/// What [`peers`] shows first, and under which head.
const PEER_COLUMNS: [(&str, &str); 9] = [
    ("peer", "PEER"),
    ("kind", "KIND"),
    ("reachable", "REACHABLE"),
    ("lag_records", "LAG"),
    ("lag_ms", "LAG TIME"),
    ("cursor", "CURSOR"),
    ("last_success", "LAST SUCCESS"),
    ("failures", "FAILURES"),
    ("error", "ERROR"),
];

async fn ask(client: &Client) -> Result<(Vec<u8>, Value), Failure> {
    let body = client
        .ask(Call::get(Target::new("/node")))
        .await?
        .document()
        .await?;
    let document = client.parse("/node", &body)?;
    Ok((body, document))
}

pub(super) async fn status(client: &Client, arguments: &NodeArgs, screen: &mut Screen) -> Outcome {
    let (body, node) = ask(client).await?;
    if arguments.json {
        screen.document(&body)?;
        return Ok(Exit::Done);
    }
    let Value::Object(members) = &node else {
        return Err(Failure::refused("/node is no object"));
    };
    show_members("", members, screen)?;
    let peers = node["peers"].as_array().map_or(0, Vec::len);
    if peers > 0 {
        screen.line("")?;
        show_peers(&node["peers"], screen)?;
    }
    Ok(Exit::Done)
}

/// One line a member; those of objects carry the object's name in front.
fn show_members(
    before: &str,
    members: &Map<String, Value>,
    screen: &mut Screen,
) -> Result<(), Failure> {
    for (name, value) in members {
        // Peers are a table of their own.
        if before.is_empty() && name == "peers" {
            continue;
        }
        let name_in_full = format!("{before}{}", clean(name).replace('_', " "));
        match value {
            Value::Object(below) => show_members(&format!("{name_in_full} "), below, screen)?,
            value => {
                let shown = shown(name, value, screen);
                let label = screen.paint(&format!("{:<32}", label(&name_in_full)), Paint::Dim);
                screen.line(&format!("{label} {shown}"))?;
            }
        }
    }
    Ok(())
}

/// A name without the unit that [`shown`] writes out.
fn label(name: &str) -> &str {
    name.strip_suffix(" ms")
        .or_else(|| name.strip_suffix(" bytes"))
        .unwrap_or(name)
}

/// A value by the unit in its name.
fn shown(name: &str, value: &Value, screen: &Screen) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => match number.as_u64() {
            Some(ms) if name.ends_with("_ms") => span(ms),
            Some(bytes) if name.ends_with("bytes") => size(bytes),
            _ => number.to_string(),
        },
        Value::String(text) => {
            let shown = screen.moments.show(text);
            screen.paint(&shown, Paint::of_status(text))
        }
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        other => clean(&other.to_string()),
    }
}

pub(super) async fn peers(client: &Client, arguments: &NodeArgs, screen: &mut Screen) -> Outcome {
    let (_, node) = ask(client).await?;
    let peers = &node["peers"];
    if arguments.json {
        screen.document(peers.to_string().as_bytes())?;
        return Ok(Exit::Done);
    }
    if peers.as_array().is_none_or(Vec::is_empty) {
        screen.note("this node has no peers");
        return Ok(Exit::Done);
    }
    show_peers(peers, screen)?;
    Ok(Exit::Done)
}

fn show_peers(peers: &Value, screen: &mut Screen) -> Result<(), Failure> {
    let peers = peers.as_array().map_or(&[][..], Vec::as_slice);
    let has = |name: &str| peers.iter().any(|peer| !peer[name].is_null());
    let columns: Vec<(&str, &'static str)> = PEER_COLUMNS
        .into_iter()
        .filter(|(name, _)| has(name))
        .collect();
    let heads: Vec<&'static str> = columns.iter().map(|(_, head)| *head).collect();
    let mut table = Table::new(&heads);
    for peer in peers {
        table.row(columns.iter().map(|(name, _)| {
            let value = &peer[*name];
            let paint = match (*name, value) {
                ("reachable", Value::Bool(true)) => Paint::Green,
                ("reachable", Value::Bool(false)) | ("error", Value::String(_)) => Paint::Red,
                _ => Paint::Plain,
            };
            let text = match value {
                Value::String(text) => screen.moments.show(text),
                Value::Number(ms) if *name == "last_success" => match ms.as_u64() {
                    Some(ms) if ms > 0 => screen.moments.show_ms(ms),
                    _ => "never".to_owned(),
                },
                value => shown(name, value, screen),
            };
            Cell::painted(text, paint)
        }));
    }
    screen.table(&table)
}
