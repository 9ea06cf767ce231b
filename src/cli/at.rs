//! `eurekad at`: the registry as it was at a moment, asked of a running node.

use super::args::AtArgs;
use super::client::{Call, Client, Target};
use super::failure::{Exit, Outcome};
use super::instances;
use super::screen::Screen;
use super::text::clean;

pub(super) async fn run(client: &Client, arguments: &AtArgs, screen: &mut Screen) -> Outcome {
    let lsn = arguments.lsn.map(|lsn| lsn.to_string());
    let target = Target::new("/registry")
        .with_some("at", arguments.time.as_deref())
        .with_some("lsn", lsn.as_deref())
        .with_some("app", arguments.app.as_deref());
    let accept = if arguments.xml {
        "application/xml, application/problem+json;q=0.1"
    } else {
        "application/json, application/problem+json;q=0.1"
    };
    let reply = client.ask(Call::get(target).accept(accept)).await?;
    let header = |name: &str| reply.header(name).map(ToOwned::to_owned);
    let (lsn, at) = (header("x-eurekad-lsn"), header("x-eurekad-at"));
    if let Some(note) = header("x-eurekad-note") {
        screen.note(&clean(&note));
    }
    let body = reply.document().await?;
    if arguments.xml || arguments.json {
        screen.document(&body)?;
        return Ok(Exit::Done);
    }
    let document = client.parse("/registry", &body)?;
    show(
        &document,
        lsn.as_deref(),
        at.as_deref(),
        arguments.app.as_deref(),
        screen,
    )
}

/// Shows a `/eureka/apps` document of a moment.
pub(super) fn show(
    document: &serde_json::Value,
    lsn: Option<&str>,
    at: Option<&str>,
    app: Option<&str>,
    screen: &mut Screen,
) -> Outcome {
    let listed = instances::listed(document);
    let when = at.map_or_else(String::new, |at| format!(" at {}", screen.moments.show(at)));
    let lsn = lsn.map_or_else(String::new, |lsn| format!(", lsn {}", clean(lsn)));
    screen.note(&format!("{}{when}{lsn}", instances::count(&listed)));
    if listed.is_empty() {
        return Ok(if app.is_some() { Exit::No } else { Exit::Done });
    }
    screen.table(&instances::table(&listed))?;
    Ok(Exit::Done)
}
