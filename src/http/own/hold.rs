//! Taking instances out of service for a time, and lifting overrides: an operator's requests.

use hyper::Method;
use serde_json::{Value, json};

use super::problem::Problem;
use super::{Answered, Parameters, json};
use crate::changelog::Request;
use crate::history::times;
use crate::http::{Api, Head, request};
use crate::registry::change::{Actor, Origin};
use crate::registry::command::{Command, Reply};
use crate::registry::hold::{HOLDS_MAX, Hold, HoldKind};
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId, Millis};

/// Longest hold, ms: what is to stay away for longer should not be registered.
const LONGEST_MS: u64 = 366 * 86_400_000;
/// Overrides that are lifted in one step.
const AT_ONCE: usize = 1_000;

impl Api {
    /// `/drain/apps/{app}/{id}` and `/quarantine/apps/{app}/{id}`.
    pub(super) async fn hold(
        &self,
        kind: HoldKind,
        app: &str,
        id: &str,
        head: &Head<'_>,
    ) -> Answered {
        let (mut span, actor) = (None, asked_by(head));
        let is_post = *head.method == Method::POST;
        Parameters::of(head).each(&["for", "reason"], |name, value| {
            match name {
                "for" if is_post => span = Some(span_of(value)?),
                "reason" => {}
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let (app, id) = (AppName::new(app), InstanceId::new(id));
        // A drain that waits behind a quarantine is one that can be looked at and ended too.
        let known = self.log.published();
        let known = known.registry.known_hold(&app, &id, kind).copied();
        let known = known.filter(Hold::is_active);
        if matches!(*head.method, Method::GET | Method::HEAD) {
            return match known {
                Some(hold) => json(&self.shown(&app, &id, &hold)),
                None => Err(no_hold(kind, &app, &id)),
            };
        }
        if id.as_str().len() > self.config.limits.id_bytes {
            return Err(Problem::bad_request(format!(
                "the id is {} bytes long, the limit is {}",
                id.as_str().len(),
                self.config.limits.id_bytes
            )));
        }
        let hold = if is_post {
            let span = span.ok_or_else(|| {
                Problem::bad_request(format!(
                    "for is missing: say how long to {}, such as for=15m",
                    kind.as_str()
                ))
            })?;
            Hold {
                kind,
                until: self.clock.now().wall.plus(span),
                at: Millis::ZERO,
                is_released: false,
            }
        } else {
            match known {
                Some(hold) => Hold {
                    is_released: true,
                    ..hold
                },
                None => return Err(no_hold(kind, &app, &id)),
            }
        };
        let command = Command::Hold {
            app: app.clone(),
            id: id.clone(),
            hold,
        };
        match self.operate(vec![command], actor).await?.first() {
            Some(Reply::NotFound) if is_post => Err(Problem::new(
                hyper::StatusCode::NOT_FOUND,
                format!("{app}/{id} is not registered, there is nothing to drain"),
            )),
            Some(Reply::NotFound) => Err(no_hold(kind, &app, &id)),
            Some(Reply::Held(quarantine)) => Err(self.stays_quarantined(&app, &id, quarantine)),
            Some(Reply::TooManyHolds) => Err(Problem::new(
                hyper::StatusCode::CONFLICT,
                format!("there are {HOLDS_MAX} drains and quarantines already; release some"),
            )),
            _ => {
                let state = self.log.published();
                // It may have ended, and be forgotten, meanwhile.
                let now = state.registry.known_hold(&app, &id, kind);
                let now = now.unwrap_or(&hold);
                json(&self.shown(&app, &id, now))
            }
        }
    }

    /// `/overrides`: those in force, or lifting all of an application.
    pub(super) async fn overrides(&self, head: &Head<'_>) -> Answered {
        let (mut app, actor) = (None, asked_by(head));
        Parameters::of(head).each(&["app", "reason"], |name, value| {
            match name {
                "app" => app = Some(value.to_owned()).filter(|name| !name.is_empty()),
                "reason" if *head.method == Method::DELETE => {}
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let wanted = app.as_deref().filter(|name| *name != "*").map(AppName::new);
        let state = self.log.snapshot();
        let all = state.registry.leases().filter_map(|lease| {
            let instance = lease.instance();
            let (app, id) = (instance.app.clone(), instance.id());
            if wanted.as_ref().is_some_and(|wanted| *wanted != app) {
                return None;
            }
            let status = state.registry.override_of(&app, &id)?;
            let hold = state.registry.hold_of(&app, &id).copied();
            Some((app, id, status, hold))
        });
        if *head.method != Method::DELETE {
            // Ids in quarantine that are not registered are kept from being UP too.
            let holds = state.registry.holds().filter_map(|(app, id, hold)| {
                let is_wanted = wanted.as_ref().is_none_or(|wanted| wanted == app);
                let is_listed = state.registry.lease(app.as_str(), id.as_str()).is_some();
                (is_wanted && !is_listed && hold.is_active()).then(|| {
                    let (app, id) = (app.clone(), id.clone());
                    (app, id, Status::OutOfService, Some(*hold))
                })
            });
            let list: Vec<Value> = all
                .chain(holds)
                .map(|(app, id, status, hold)| {
                    json!({
                        "app": app.as_str(), "instance": id.as_str(), "status": status.as_str(),
                        "hold": hold.map(|hold| self.shown(&app, &id, &hold)),
                    })
                })
                .collect();
            return json(&json!({ "overrides": list, "lsn": state.lsn() }));
        }
        if app.is_none() {
            return Err(Problem::bad_request(
                "app is missing: name the application whose overrides are to be lifted, or app=* \
                 for all",
            ));
        }
        let (held, free): (Vec<_>, Vec<_>) = all.partition(|(.., hold)| hold.is_some());
        for chunk in free.chunks(AT_ONCE) {
            let lift = |(app, id, ..): &(AppName, InstanceId, _, _)| Command::DeleteOverride {
                app: app.clone(),
                id: id.clone(),
                status: None,
                dirty: None,
            };
            self.operate(chunk.iter().map(lift).collect(), actor.clone())
                .await?;
        }
        let kept: Vec<Value> = held
            .iter()
            .filter_map(|(app, id, _, hold)| Some(self.shown(app, id, hold.as_ref()?)))
            .collect();
        let lsn = self.log.published().lsn();
        json(&json!({ "lifted": free.len(), "kept": kept, "lsn": lsn }))
    }

    async fn operate(&self, commands: Vec<Command>, actor: Actor) -> Result<Vec<Reply>, Problem> {
        let request = Request {
            commands,
            origin: Origin::Operator,
            actors: actor.into(),
        };
        Ok(self.log.submit(request).await?)
    }

    /// 409 to a drain of what is quarantined.
    fn stays_quarantined(&self, app: &AppName, id: &InstanceId, quarantine: &Hold) -> Problem {
        let until = times::format(quarantine.until);
        Problem::new(
            hyper::StatusCode::CONFLICT,
            format!(
                "{app}/{id} is quarantined until {until}: it is out of service already, and a drain \
                 does not end a quarantine; to end it, DELETE /quarantine/apps/APP/ID (eurekad release)"
            ),
        )
        .with("hold", self.shown(app, id, quarantine))
    }

    /// A hold with its countdown, a quarantine with the drain that comes behind it.
    pub(super) fn shown(&self, app: &AppName, id: &InstanceId, hold: &Hold) -> Value {
        let mut shown = self.shown_alone(app, id, hold);
        if hold.kind == HoldKind::Quarantine
            && let Some(drain) = self.log.published().registry.drain_of(app, id)
        {
            shown["drain"] = self.shown_alone(app, id, drain);
        }
        shown
    }

    fn shown_alone(&self, app: &AppName, id: &InstanceId, hold: &Hold) -> Value {
        json!({
            "app": app.as_str(),
            "instance": id.as_str(),
            "kind": hold.kind.as_str(),
            "until": times::format(hold.until),
            "remaining_ms": if hold.is_released {
                0
            } else {
                hold.until.since(self.clock.now().wall)
            },
            "released": hold.is_released,
        })
    }
}

/// Who asks, with the reason of the header or else of the query.
fn asked_by(head: &Head<'_>) -> Actor {
    let actor = request::actor(head.headers, head.address);
    Actor {
        reason: actor.reason.clone().or_else(|| request::reason(head.query)),
        ..actor
    }
}

fn span_of(text: &str) -> Result<u64, Problem> {
    let span =
        times::parse_span(text).map_err(|error| Problem::bad_request(format!("for: {error}")))?;
    if span == 0 || span > LONGEST_MS {
        return Err(Problem::bad_request(format!(
            "for: {text:?} is not between a millisecond and 366 days"
        )));
    }
    Ok(span)
}

fn no_hold(kind: HoldKind, app: &AppName, id: &InstanceId) -> Problem {
    let word = match kind {
        HoldKind::Drain => "drained",
        HoldKind::Quarantine => "quarantined",
    };
    Problem::new(
        hyper::StatusCode::NOT_FOUND,
        format!("{app}/{id} is not {word}"),
    )
}
