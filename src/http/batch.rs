//! `POST /peerreplication/batch`: what a peer sends, item by item and in order (`protocol.md` 7.4).
//! The changes of a batch go to the log as one request and are committed together; heartbeats that
//! change nothing are answered on the way.

use std::sync::Arc;

use axum::body::Body;
use hyper::StatusCode;
use tracing::debug;

use super::answer::{self, Answer};
use super::request;
use super::{Api, Head};
use crate::cache::view_of;
use crate::changelog::Request;
use crate::config::XmlSingleStatus;
use crate::registry::change::Origin;
use crate::registry::command::{Command, Renewal, Reply};
use crate::registry::lease::Lease;
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId};
use crate::wire;
use crate::wire::Format;
use crate::wire::accept::{Negotiated, RequestType};
use crate::wire::batch::{Action, BatchItem, ItemAnswer, decode_batch, write_batch_response};

/// What an item comes to: an answer, or the place of its command among those for the log.
enum Planned {
    Answered(Outcome),
    Command {
        place: usize,
        has_bad_override: bool,
    },
}

/// The answer to one item.
struct Outcome {
    status: u16,
    entity: Option<Arc<Lease>>,
}

impl Outcome {
    fn of(status: u16) -> Self {
        Self {
            status,
            entity: None,
        }
    }
}

impl Api {
    pub(super) async fn batch(
        &self,
        request_type: RequestType,
        negotiated: Negotiated,
        head: &Head<'_>,
        body: Body,
    ) -> Answer {
        // Batches are JSON; the original's XML reader knows no such list.
        if request_type.format == Format::Xml {
            return self.unreadable(request_type, head);
        }
        let limit = self.config.limits.batch_bytes;
        let body = match self.bodies.read(head.headers, body, limit).await {
            Ok(body) => body,
            Err(refused) => return self.body_refused(refused, request_type, head),
        };
        let now = i64::try_from(self.clock.now().wall.0).unwrap_or(i64::MAX);
        let items = match decode_batch(
            &request_type.utf8(&body.bytes, self.decoder),
            self.decoder,
            &self.limits,
            now,
        ) {
            Ok(Some(items)) => items,
            Ok(None) => return answer::empty(self.bad_input()),
            Err(error) => {
                debug!(address = %head.address, %error, "refused a replication batch: {error}");
                return self.undecodable(&error, request_type, head);
            }
        };
        let Some(items) = items.into_iter().collect::<Option<Vec<BatchItem>>>() else {
            return answer::empty(self.bad_input());
        };
        let origin = request::origin(head.headers, true, head.address, Origin::Client);
        let is_our_kind = request::is_our_kind(head.headers);
        let mut commands = Vec::new();
        let plan: Vec<Planned> = items
            .into_iter()
            .map(|item| self.plan(item, is_our_kind, &mut commands))
            .collect();
        let request = Request {
            commands,
            origin,
            actor: request::actor(head.headers, head.address),
        };
        let replies = match self.log.submit(request).await {
            Ok(replies) => replies,
            Err(why) => return answer::unavailable(&why),
        };
        let mut outcomes = Vec::with_capacity(plan.len());
        for planned in plan {
            outcomes.push(match planned {
                Planned::Answered(outcome) => outcome,
                Planned::Command {
                    place,
                    has_bad_override,
                } => outcome_of(replies.get(place), has_bad_override),
            });
        }
        self.refresh_entities(&mut outcomes);
        self.respond(&outcomes, negotiated)
    }

    /// An entity is shown as it is after the whole batch, which may have changed it: the sender
    /// takes it over.
    fn refresh_entities(&self, outcomes: &mut [Outcome]) {
        let state = self.log.published();
        for entity in outcomes
            .iter_mut()
            .filter_map(|outcome| outcome.entity.as_mut())
        {
            let instance = entity.instance();
            let now = state
                .registry
                .lease(instance.app.as_str(), instance.id().as_str());
            if let Some(lease) = now {
                *entity = lease.clone();
            }
        }
    }

    fn respond(&self, outcomes: &[Outcome], negotiated: Negotiated) -> Answer {
        let shows_entities = self.config.registry.conflict_brings_instance;
        let answers = outcomes.iter().map(|outcome| ItemAnswer {
            status: outcome.status,
            entity: outcome
                .entity
                .as_deref()
                .filter(|_| shows_entities)
                .map(|lease| view_of(lease, self.own_id())),
        });
        let mut text = Vec::new();
        let is_v1 = self.config.compatibility.xml_single_status == XmlSingleStatus::V1;
        write_batch_response(&mut text, negotiated.content_type, answers, is_v1);
        answer::with_body(StatusCode::OK, negotiated.label, text)
    }

    fn plan(&self, item: BatchItem, is_our_kind: bool, commands: &mut Vec<Command>) -> Planned {
        let failed = || Planned::Answered(Outcome::of(500));
        let (Some(app), Some(action)) = (item.app, item.action) else {
            return failed();
        };
        let app_name = AppName::new(&app);
        let Some(id) = item.id else { return failed() };
        let id = InstanceId::from_shared(id);
        let status = item.status.as_deref().and_then(Status::parse);
        let mut has_bad_override = false;
        let command = match action {
            Action::Register => {
                let Some(draft) = item.instance else {
                    return failed();
                };
                match wire::validate(draft, &app, self.config.registry.validate_data_center_id) {
                    Ok(instance) => Command::Register(instance.into()),
                    Err(refusal) => {
                        debug!(app.name = %app_name, instance.id = %id, %refusal, "a peer's registration is refused: {refusal}");
                        return Planned::Answered(Outcome::of(200));
                    }
                }
            }
            Action::Heartbeat => {
                let overridden = item.overridden_status.as_deref().map(Status::parse);
                has_bad_override = overridden == Some(None);
                let dirty = item.last_dirty_timestamp;
                let renewal = Renewal {
                    dirty,
                    overridden: overridden.flatten(),
                };
                // As long as nothing before it waits for the log, its place in the order is now.
                if commands.is_empty()
                    && let Ok(reply) = self
                        .log
                        .renew(app_name.as_str(), id.as_str(), renewal, true)
                {
                    return Planned::Answered(outcome_of(Some(&reply), has_bad_override));
                }
                Command::Renew {
                    app: app_name,
                    id,
                    renewal,
                }
            }
            Action::Cancel => Command::Cancel {
                app: app_name,
                id,
                dirty: item.last_dirty_timestamp.filter(|_| is_our_kind),
            },
            Action::StatusUpdate => match status {
                Some(status) => Command::SetStatus {
                    app: app_name,
                    id,
                    status,
                    dirty: item.last_dirty_timestamp,
                },
                None if self.is_known(&app_name, &id) => return failed(),
                None => return Planned::Answered(Outcome::of(404)),
            },
            Action::DeleteStatusOverride => {
                let is_bad = item.status.is_some() && status.is_none();
                if (is_bad || item.last_dirty_timestamp.is_none()) && self.is_known(&app_name, &id)
                {
                    return failed();
                }
                Command::DeleteOverride {
                    app: app_name,
                    id,
                    status,
                    dirty: item.last_dirty_timestamp,
                }
            }
        };
        commands.push(command);
        Planned::Command {
            place: commands.len() - 1,
            has_bad_override,
        }
    }

    fn is_known(&self, app: &AppName, id: &InstanceId) -> bool {
        self.log
            .published()
            .registry
            .lease(app.as_str(), id.as_str())
            .is_some()
    }
}

fn outcome_of(reply: Option<&Reply>, has_bad_override: bool) -> Outcome {
    match reply {
        Some(Reply::Done | Reply::Evicted { .. }) => Outcome::of(200),
        Some(Reply::SenderIsNewer) if has_bad_override => Outcome::of(500),
        Some(Reply::NotFound | Reply::SenderIsNewer) => Outcome::of(404),
        Some(Reply::Conflict(lease)) => Outcome {
            status: 409,
            entity: Some(lease.clone()),
        },
        None => Outcome::of(500),
    }
}
