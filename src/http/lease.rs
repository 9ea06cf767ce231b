//! The mutations of one instance: register, renew, cancel, override, metadata (`protocol.md` 1.6
//! to 1.9). Each becomes a command; the replies become statuses.

use std::borrow::Cow;

use axum::body::Body;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use tracing::{debug, warn};

use super::answer::{self, Answer};
use super::body::BodyRefused;
use super::request;
use super::{Api, Head};
use crate::changelog::Request;
use crate::registry::change::Origin;
use crate::registry::command::{Command, Renewal, Reply};
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId};
use crate::wire::accept::{Negotiated, RequestType};
use crate::wire::{self, DecodeError, Dialect};

/// `lastDirtyTimestamp` of a request.
enum Dirty {
    Absent,
    At(i64),
    /// There, but not a number.
    Unreadable,
}

impl Dirty {
    fn of(query: Option<&str>) -> Self {
        match request::parameter(query, "lastDirtyTimestamp") {
            None => Self::Absent,
            Some(text) => text.parse().map_or(Self::Unreadable, Self::At),
        }
    }

    fn readable(&self) -> Option<i64> {
        match self {
            Self::At(time) => Some(*time),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

impl Api {
    pub(super) async fn register(
        &self,
        app: &str,
        request_type: RequestType,
        negotiated: Negotiated,
        head: &Head<'_>,
        body: Body,
    ) -> Answer {
        let limit = self.config.limits.body_bytes;
        let body = match self.bodies.read(head.headers, body, limit).await {
            Ok(body) => body,
            Err(refused) => return self.body_refused(refused, request_type, head),
        };
        let now = self.clock.now().wall.signed();
        let format = request_type.format;
        let (bytes, decoder, limits) = (body.bytes.clone(), self.decoder, self.limits);
        let decode = move || {
            let text = request_type.utf8(&bytes, decoder);
            wire::decode_registration(&text, format, decoder, &limits, now)
        };
        let draft = match self.bodies.decoding.of(body.bytes.len(), decode).await {
            Some(Ok(draft)) => draft,
            None => return answer::empty(StatusCode::INTERNAL_SERVER_ERROR),
            Some(Err(error)) => {
                debug!(app.name = app, address = %head.address, %error, "refused a registration of {app}: {error}");
                return self.undecodable(&error, request_type, head);
            }
        };
        let checks_id = self.config.registry.validate_data_center_id;
        let instance = match wire::validate(draft, app, checks_id) {
            Ok(instance) => instance,
            Err(refusal) => {
                return answer::with_body(
                    StatusCode::BAD_REQUEST,
                    negotiated.label,
                    refusal.to_string(),
                );
            }
        };
        let command = Command::Register(instance.into());
        match self.carry_out(command, head, Origin::Client).await {
            Ok(Reply::TooManyInstances(most)) => self.is_full(most, app, head),
            Ok(_) => answer::empty(StatusCode::NO_CONTENT),
            Err(refused) => refused,
        }
    }

    /// `eurekad.max-instances`: what is there may register again, nothing new comes in.
    fn is_full(&self, most: u64, app: &str, head: &Head<'_>) -> Answer {
        if let Some(refused) = self.refused_registrations.count(self.clock.now().mono) {
            warn!(
                app.name = app,
                address = %head.address,
                refused,
                most,
                "there are {most} instances, as many as eurekad.max-instances allows: refused {refused} \
                 registrations since this was told last, now one of {app} by {}",
                head.address,
            );
        }
        answer::not_taken(&format!(
            "there are {most} instances, as many as eurekad.max-instances allows"
        ))
    }

    /// The body does not decode. The original falls over a `null`.
    pub(super) fn undecodable(
        &self,
        error: &DecodeError,
        request_type: RequestType,
        head: &Head<'_>,
    ) -> Answer {
        if error.is_null_body() && !self.validates_first() {
            return answer::empty(self.bad_input());
        }
        self.unreadable(request_type, head)
    }

    /// The body cannot be read; the text is the original's. The type is that of what was understood,
    /// or, in the exact dialect, what the request said.
    pub(super) fn unreadable(&self, request_type: RequestType, head: &Head<'_>) -> Answer {
        let sent = request::text(head.headers, &CONTENT_TYPE);
        let label: Cow<'static, str> = match (self.decoder, sent) {
            (Dialect::Exact, Some(sent)) => sent.to_owned().into(),
            (Dialect::Exact | Dialect::Tolerant, _) => request_type.format.content_type().into(),
        };
        let text = wire::parse_error_body(request_type.exactly_json);
        answer::with_body(StatusCode::BAD_REQUEST, label, text)
    }

    pub(super) fn body_refused(
        &self,
        refused: BodyRefused,
        request_type: RequestType,
        head: &Head<'_>,
    ) -> Answer {
        match refused {
            BodyRefused(StatusCode::BAD_REQUEST) => self.unreadable(request_type, head),
            refused => refused.answer(),
        }
    }

    /// `protocol.md` 1.8.
    pub(super) async fn renew(
        &self,
        app: &str,
        id: &str,
        negotiated: Negotiated,
        head: &Head<'_>,
    ) -> Answer {
        let dirty = Dirty::of(head.query);
        let is_replication = request::is_replication(head.headers);
        let overridden = head
            .query
            .filter(|_| is_replication)
            .and_then(|query| request::parameter(Some(query), "overriddenstatus"));
        let is_unreadable = matches!(dirty, Dirty::Unreadable);
        if is_unreadable && self.validates_first() {
            let is_known = self.log.published().registry.lease(app, id).is_some();
            return answer::empty(if is_known {
                self.bad_input()
            } else {
                StatusCode::NOT_FOUND
            });
        }
        let renewal = Renewal {
            dirty: dirty.readable(),
            overridden: overridden.as_deref().and_then(Status::parse),
        };
        let reply = if let Ok(reply) = self.log.renew(app, id, renewal, is_replication) {
            reply
        } else {
            let (app, id) = (AppName::new(app), InstanceId::new(id));
            match self
                .carry_out(Command::Renew { app, id, renewal }, head, Origin::Client)
                .await
            {
                Ok(reply) => reply,
                Err(refused) => return refused,
            }
        };
        match reply {
            Reply::NotFound => answer::empty(StatusCode::NOT_FOUND),
            Reply::SenderIsNewer if overridden.is_some() && renewal.overridden.is_none() => {
                answer::empty(self.bad_input())
            }
            Reply::SenderIsNewer => answer::empty(StatusCode::NOT_FOUND),
            Reply::Conflict(lease) => self.instance(StatusCode::CONFLICT, &lease, negotiated),
            Reply::Held(hold) => answer::held(&hold),
            _ if is_unreadable => answer::empty(self.bad_input()),
            // The other replies are to other commands.
            Reply::Done
            | Reply::Evicted { .. }
            | Reply::TooManyHolds
            | Reply::TooMuchMetadata
            | Reply::TooManyInstances(_) => answer::empty(StatusCode::OK),
        }
    }

    pub(super) async fn cancel(&self, app: &str, id: &str, head: &Head<'_>) -> Answer {
        let command = Command::Cancel {
            app: AppName::new(app),
            id: InstanceId::new(id),
            version: None,
        };
        self.done_or_gone(command, head, Origin::Client).await
    }

    /// `protocol.md` 3.5. The original looks for the instance before it reads the parameters, and
    /// applies the status before it reads the timestamp.
    pub(super) async fn set_status(&self, app: &str, id: &str, head: &Head<'_>) -> Answer {
        let status = request::parameter(head.query, "value");
        let Some(status) = status.as_deref().and_then(Status::parse) else {
            return self.bad_or_gone(app, id);
        };
        let dirty = Dirty::of(head.query);
        if matches!(dirty, Dirty::Unreadable) {
            let is_same = self.status_of(app, id) == Some(status);
            if self.validates_first() || is_same && self.status_of(app, id).is_none() {
                return self.bad_or_gone(app, id);
            }
            let command = set_status(app, id, status, None);
            let answered = self.done_or_gone(command, head, Origin::Operator).await;
            return self.late_failure(answered, !is_same);
        }
        let command = set_status(app, id, status, dirty.readable());
        self.done_or_gone(command, head, Origin::Operator).await
    }

    /// `protocol.md` 3.6.
    pub(super) async fn delete_status(&self, app: &str, id: &str, head: &Head<'_>) -> Answer {
        let value = request::parameter(head.query, "value");
        let status = value.as_deref().and_then(Status::parse);
        if value.is_some() && status.is_none() {
            return self.bad_or_gone(app, id);
        }
        let dirty = Dirty::of(head.query);
        let is_unreadable = matches!(dirty, Dirty::Unreadable);
        if is_unreadable && self.validates_first() {
            return self.bad_or_gone(app, id);
        }
        let (app, id) = (AppName::new(app), InstanceId::new(id));
        let has_override = self
            .log
            .published()
            .registry
            .override_of(&app, &id)
            .is_some();
        let command = Command::DeleteOverride {
            app,
            id,
            status,
            dirty: dirty.readable(),
        };
        let answered = self.done_or_gone(command, head, Origin::Operator).await;
        if is_unreadable {
            self.late_failure(answered, has_override)
        } else {
            answered
        }
    }

    pub(super) async fn update_metadata(&self, app: &str, id: &str, head: &Head<'_>) -> Answer {
        let entries = request::parameters(head.query);
        let limits = &self.config.limits;
        let is_too_long = entries
            .iter()
            .any(|(key, value)| key.len() > limits.id_bytes || value.len() > limits.field_bytes);
        if is_too_long {
            return answer::empty(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let (app, id) = (AppName::new(app), InstanceId::new(id));
        let command = Command::UpdateMetadata { app, id, entries };
        self.done_or_gone(command, head, Origin::Operator).await
    }

    fn status_of(&self, app: &str, id: &str) -> Option<Status> {
        self.log
            .published()
            .registry
            .lease(app, id)
            .map(|lease| lease.instance().status)
    }

    /// Bad input about an instance that may not even be there.
    fn bad_or_gone(&self, app: &str, id: &str) -> Answer {
        let is_known = self.status_of(app, id).is_some();
        answer::empty(if is_known {
            self.bad_input()
        } else {
            StatusCode::NOT_FOUND
        })
    }

    /// The original's failure after the deed, where there was one.
    fn late_failure(&self, answered: Answer, has_acted: bool) -> Answer {
        if has_acted && answered.status() == StatusCode::OK {
            answer::empty(self.bad_input())
        } else {
            answered
        }
    }

    async fn done_or_gone(&self, command: Command, head: &Head<'_>, origin: Origin) -> Answer {
        match self.carry_out(command, head, origin).await {
            Ok(Reply::NotFound) => answer::empty(StatusCode::NOT_FOUND),
            Ok(Reply::Held(hold)) => answer::held(&hold),
            Ok(Reply::TooMuchMetadata) => answer::empty(StatusCode::PAYLOAD_TOO_LARGE),
            Ok(_) => answer::empty(StatusCode::OK),
            Err(refused) => refused,
        }
    }

    /// One command through the log; `Err` is the answer that it was not accepted.
    async fn carry_out(
        &self,
        command: Command,
        head: &Head<'_>,
        origin: Origin,
    ) -> Result<Reply, Answer> {
        let is_replication = request::is_replication(head.headers);
        let mut actor = request::actor(head.headers, head.address);
        if actor.reason.is_none() && takes_reason(&command) {
            actor.reason = request::reason(head.query);
        }
        let request = Request {
            commands: vec![command],
            origin: request::origin(head.headers, is_replication, head.address, origin),
            actors: actor.into(),
        };
        match self.log.submit(request).await {
            Ok(replies) => Ok(replies.into_iter().next().unwrap_or(Reply::Done)),
            Err(why) => Err(answer::unavailable(&why)),
        }
    }
}

/// Whether `?reason=` is a reason: with metadata each parameter is an entry, and registrations and
/// renewals are a client's own.
fn takes_reason(command: &Command) -> bool {
    match command {
        Command::Cancel { .. } | Command::SetStatus { .. } | Command::DeleteOverride { .. } => true,
        Command::Register(_)
        | Command::Renew { .. }
        | Command::UpdateMetadata { .. }
        | Command::Adopt(_)
        | Command::Expire { .. }
        | Command::Hold { .. }
        | Command::EndHolds(_)
        | Command::Evict(_) => false,
    }
}

fn set_status(app: &str, id: &str, status: Status, dirty: Option<i64>) -> Command {
    Command::SetStatus {
        app: AppName::new(app),
        id: InstanceId::new(id),
        status,
        dirty,
    }
}
