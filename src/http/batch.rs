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
use crate::replication::REPAIR;
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

/// What kind of node sent a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SentBy {
    Java,
    OurKind,
    /// Our own kind, and not to tell what happened but to mend what differs.
    Repair,
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
        let sender = match (request::is_our_kind(head.headers), head.query) {
            (true, Some(REPAIR)) => SentBy::Repair,
            (true, _) => SentBy::OurKind,
            (false, _) => SentBy::Java,
        };
        let mut commands = Vec::new();
        let plan: Vec<Planned> = items
            .into_iter()
            .map(|item| self.plan(item, sender, &mut commands))
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

    fn plan(&self, item: BatchItem, sender: SentBy, commands: &mut Vec<Command>) -> Planned {
        let failed = || Planned::Answered(Outcome::of(500));
        let (Some(app), Some(action)) = (item.app, item.action) else {
            return failed();
        };
        let app_name = AppName::new(&app);
        let Some(id) = item.id else { return failed() };
        let id = InstanceId::from_shared(id);
        let is_about_present = match action {
            Action::Heartbeat | Action::StatusUpdate | Action::DeleteStatusOverride => {
                sender != SentBy::Java
            }
            Action::Register => sender == SentBy::Repair,
            Action::Cancel => false,
        };
        if is_about_present
            && self.is_cancelled(&app_name, &id, item.last_dirty_timestamp)
            && !commands.iter().any(|command| is_about(command, &id))
        {
            return Planned::Answered(Outcome::of(410));
        }
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
                dirty: item.last_dirty_timestamp.filter(|_| sender != SentBy::Java),
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

    /// Whether that version of a lease was cancelled here: what a peer still says of it is history, and
    /// must not bring it back.
    fn is_cancelled(&self, app: &AppName, id: &InstanceId, dirty: Option<i64>) -> bool {
        let state = self.log.published();
        let stone = state.registry.tombstone(app, id);
        stone.is_some_and(|stone| stone.is_cancelled && dirty.is_some_and(|d| d <= stone.dirty))
    }

    fn is_known(&self, app: &AppName, id: &InstanceId) -> bool {
        self.log
            .published()
            .registry
            .lease(app.as_str(), id.as_str())
            .is_some()
    }
}

/// Whether a command of the same batch is about this id, so that its present state is not known yet.
fn is_about(command: &Command, id: &InstanceId) -> bool {
    match command {
        Command::Register(instance) => instance.id() == *id,
        Command::Renew { id: of, .. }
        | Command::Cancel { id: of, .. }
        | Command::SetStatus { id: of, .. }
        | Command::DeleteOverride { id: of, .. }
        | Command::UpdateMetadata { id: of, .. } => of == id,
        Command::Evict(_) => false,
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
