//! `POST /peerreplication/batch`: what a peer sends, item by item and in order (`protocol.md` 7.4).
//! What the items mean is [`crate::replication::batch`]'s. The changes of a batch go to the log as one
//! request and are committed together; heartbeats that change nothing are answered on the way.

use axum::body::Body;
use hyper::StatusCode;
use tracing::debug;

use super::answer::{self, Answer};
use super::request;
use super::traffic::RefusedBatch;
use super::{Api, Head};
use crate::cache::view_for_peer;
use crate::changelog::Request;
use crate::config::XmlSingleStatus;
use crate::registry::change::{Actor, Origin};
use crate::replication::batch::{ItemOutcome, Known, Plan, Terms};
use crate::replication::outbound::Key;
use crate::replication::past::{self, Removed};
use crate::wire::Format;
use crate::wire::accept::{Negotiated, RequestType};
use crate::wire::batch::{BatchItem, ItemAnswer, decode_batch, write_batch_response};

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
            self.traffic.refuse_batch(RefusedBatch::Content);
            return self.unreadable(request_type, head);
        }
        let limit = self.config.limits.batch_bytes;
        let is_our_kind = request::is_our_kind(head.headers);
        let bodies = if is_our_kind {
            self.bodies.of_our_kind()
        } else {
            self.bodies.clone()
        };
        let body = match bodies.read(head.headers, body, limit).await {
            Ok(body) => body,
            Err(refused) => {
                self.traffic.refuse_batch(RefusedBatch::of(refused.0));
                return self.body_refused(refused, request_type, head);
            }
        };
        let now = self.clock.now().wall.signed();
        let (bytes, decoder, limits) = (body.bytes.clone(), self.decoder, self.limits);
        let decode =
            move || decode_batch(&request_type.utf8(&bytes, decoder), decoder, &limits, now);
        let decoded = self.bodies.decoding.of(body.bytes.len(), decode).await;
        let items = match decoded {
            Some(Ok(items)) => items,
            Some(Err(error)) => {
                debug!(address = %head.address, %error, "refused a replication batch: {error}");
                if error.has_too_many_items() {
                    self.traffic.refuse_batch(RefusedBatch::Items);
                    return answer::empty(StatusCode::PAYLOAD_TOO_LARGE);
                }
                self.traffic.refuse_batch(RefusedBatch::Content);
                return self.undecodable(&error, request_type, head);
            }
            None => return answer::empty(StatusCode::INTERNAL_SERVER_ERROR),
        };
        let items = items.and_then(|items| items.into_iter().collect::<Option<Vec<BatchItem>>>());
        let Some(items) = items else {
            self.traffic.refuse_batch(RefusedBatch::Content);
            return answer::empty(self.bad_input());
        };
        let terms = Terms {
            is_our_kind,
            validates_data_center_id: self.config.registry.validate_data_center_id,
        };
        let state = self.log.snapshot();
        let removed = if terms.is_our_kind {
            self.removed(past::unknown(&state.registry, Plan::asks_about(&items)))
                .await
        } else {
            Removed::default()
        };
        let origin = request::origin(head.headers, true, head.address, Origin::Client);
        let known = Known {
            state: &state,
            removed: &removed,
            sender: &origin,
        };
        let mut plan = Plan::of(items, terms, known, |app, id, renewal| {
            self.log.renew(app, id, renewal, true).ok()
        });
        // Our own kind says who asked it; its own connection tells nothing that its name does not.
        let sender = if terms.is_our_kind {
            Actor::UNKNOWN
        } else {
            request::actor(head.headers, head.address)
        };
        let request = Request {
            commands: std::mem::take(&mut plan.commands),
            origin,
            actors: plan.actors(sender),
        };
        let replies = match self.log.submit(request).await {
            Ok(replies) => replies,
            Err(why) => return answer::unavailable(&why),
        };
        let outcomes = plan.answers(&replies, &self.log.published().registry);
        let text = self.respond(&outcomes, is_our_kind, &negotiated);
        if is_our_kind {
            let takes_gzip = request::takes_gzip(head.headers);
            answer::for_our_kind(negotiated.label, text, takes_gzip).await
        } else {
            answer::with_body(StatusCode::OK, negotiated.label, text)
        }
    }

    /// What the log says of instances of which the registry knows nothing.
    async fn removed(&self, unknown: Vec<Key>) -> Removed {
        if unknown.is_empty() {
            return Removed::default();
        }
        let past = self.removals.clone();
        let asked = tokio::task::spawn_blocking(move || past.removals(&unknown));
        // It fails only when the runtime goes down.
        asked.await.unwrap_or_default()
    }

    fn respond(
        &self,
        outcomes: &[ItemOutcome],
        is_our_kind: bool,
        negotiated: &Negotiated,
    ) -> Vec<u8> {
        let own_id = self.own_id();
        let is_ours_at = is_our_kind.then(|| self.clock.now().mono);
        let shows_entities = self.config.registry.conflict_brings_instance;
        let answers = outcomes.iter().map(|outcome| ItemAnswer {
            status: outcome.status,
            entity: outcome
                .entity
                .as_deref()
                .filter(|_| shows_entities)
                .map(|lease| view_for_peer(lease, own_id, is_ours_at)),
        });
        let mut text = Vec::new();
        let is_v1 = self.config.compatibility.xml_single_status == XmlSingleStatus::V1;
        write_batch_response(&mut text, negotiated.content_type, answers, is_v1);
        text
    }
}
