//! `eurekad drain`, `quarantine`, `release` and `overrides`: what operators do to instances.

use hyper::Method;
use serde_json::{Value, json};

use super::args::{HoldArgs, LiftArgs, ListArgs, ReleaseArgs};
use super::changes::text;
use super::client::{Call, Client, Target};
use super::failure::{Exit, Failure, Outcome};
use super::history::Subject;
use super::instances;
use super::screen::{Cell, Paint, Screen, Table};
use super::text::clean;

/// `drain` or `quarantine`.
pub(super) async fn hold(
    client: &Client,
    what: &'static str,
    arguments: &HoldArgs,
    screen: &mut Screen,
) -> Outcome {
    let (app, id) = Subject::instance(&arguments.instance)?;
    let target = Target::new(&format!("/{what}/apps"))
        .segment(&app)
        .segment(&id)
        .with("for", &arguments.duration);
    let call = Call::new(Method::POST, target).reason(arguments.reason.as_deref())?;
    let reply = client.ask(call).await?;
    let body = reply.document().await?;
    if arguments.json {
        return raw(&body, screen);
    }
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let until = [&answer["hold"], &answer]
        .into_iter()
        .map(|place| text(place, "until"))
        .find(|until| !until.is_empty())
        .map_or_else(String::new, |until| {
            format!(" until {}", screen.moments.show(until))
        });
    let done = if what == "drain" {
        "drained"
    } else {
        "in quarantine"
    };
    screen.line(&format!("{} is {done}{until}", clean(&arguments.instance)))?;
    Ok(Exit::Done)
}

/// Ends whichever of the two there is, and a drain that comes behind a quarantine.
pub(super) async fn release(
    client: &Client,
    arguments: &ReleaseArgs,
    screen: &mut Screen,
) -> Outcome {
    let (app, id) = Subject::instance(&arguments.instance)?;
    let call = |what: &str| {
        let target = Target::new(&format!("/{what}/apps"))
            .segment(&app)
            .segment(&id);
        Call::new(Method::DELETE, target).reason(arguments.reason.as_deref())
    };
    let mut refusal = None;
    for what in ["quarantine", "drain"] {
        let reply = client.send(call(what)?).await?;
        match reply.status {
            200..300 => {
                let body = reply.document().await?;
                let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
                if what == "quarantine" && !answer["drain"].is_null() {
                    let reply = client.send(call("drain")?).await?;
                    // It may have ended meanwhile.
                    if !matches!(reply.status, 200..300 | 404) {
                        return Err(client.refusal("/drain", reply).await);
                    }
                }
                return released(&body, arguments, screen);
            }
            // Not of this kind: it may be of the other.
            404 | 409 => refusal = Some(client.refusal(&format!("/{what}"), reply).await),
            _ => return Err(client.refusal(&format!("/{what}"), reply).await),
        }
    }
    Err(refusal.unwrap_or_else(|| Failure::new(Exit::No, "there is nothing to release")))
}

fn released(body: &[u8], arguments: &ReleaseArgs, screen: &mut Screen) -> Outcome {
    if arguments.json {
        return raw(body, screen);
    }
    screen.line(&format!("{} is released", clean(&arguments.instance)))?;
    Ok(Exit::Done)
}

/// `overrides lift`.
pub(super) async fn lift(client: &Client, arguments: &LiftArgs, screen: &mut Screen) -> Outcome {
    if arguments.app.is_empty() {
        return Err(Failure::usage("--app names no application"));
    }
    let target = Target::new("/overrides").with("app", &arguments.app);
    let call = Call::new(Method::DELETE, target).reason(arguments.reason.as_deref())?;
    let body = client.ask(call).await?.document().await?;
    if arguments.json {
        return raw(&body, screen);
    }
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let lifted = match &answer["lifted"] {
        Value::Array(all) => Some(all.len() as u64),
        other => other.as_u64(),
    };
    let app = clean(&arguments.app);
    screen.line(&match lifted {
        Some(0) => format!("{app} has no overrides"),
        Some(1) => format!("lifted 1 override of {app}"),
        Some(count) => format!("lifted {count} overrides of {app}"),
        None => format!("lifted the overrides of {app}"),
    })?;
    Ok(Exit::Done)
}

/// `overrides list`.
pub(super) async fn list(client: &Client, arguments: &ListArgs, screen: &mut Screen) -> Outcome {
    let document = client
        .json(Call::get(Target::new("/eureka/apps")).accept("application/json"))
        .await?;
    let wanted = arguments.app.as_deref().map(str::to_uppercase);
    let mut listed = instances::listed(&document);
    listed.retain(|one| {
        one.override_.is_some() && wanted.as_deref().is_none_or(|app| one.app == app)
    });
    if arguments.json {
        let all: Vec<Value> = listed
            .iter()
            .map(|one| {
                json!({
                    "app": one.app,
                    "instance": one.id,
                    "status": one.status,
                    "override": one.override_,
                })
            })
            .collect();
        return raw(Value::from(all).to_string().as_bytes(), screen);
    }
    if listed.is_empty() {
        screen.note("no status is overridden");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["INSTANCE", "OVERRIDE", "STATUS"]);
    for one in &listed {
        let override_ = one.override_.as_deref().unwrap_or_default();
        table.row([
            Cell::painted(format!("{}/{}", one.app, one.id), Paint::Bold),
            Cell::painted(override_, Paint::of_status(override_)),
            Cell::painted(&one.status, Paint::of_status(&one.status)),
        ]);
    }
    screen.table(&table)?;
    Ok(Exit::Done)
}

fn raw(body: &[u8], screen: &mut Screen) -> Outcome {
    screen.document(body)?;
    Ok(Exit::Done)
}
