//! What nodes of our own kind ask of each other: renewals as numbers, digests, comparisons. The bodies
//! are theirs alone, so nothing here has to look like the original.

use axum::body::Body;
use bytes::Bytes;
use hyper::StatusCode;

use super::answer::{self, Answer};
use super::path::Between;
use super::{Api, Head, request};
use crate::changelog::Request;
use crate::registry::change::Origin;
use crate::registry::command::Renewal;
use crate::replication::inbound;
use crate::replication::reconcile::Comparison;

impl Api {
    pub(super) async fn between(
        &self,
        what: Between,
        head: &Head<'_>,
        methods: &'static [&'static str],
        body: Body,
    ) -> Answer {
        if *head.method != hyper::Method::POST {
            return answer::method_not_allowed(methods);
        }
        if !request::is_our_kind(head.headers) {
            return answer::empty(StatusCode::NOT_FOUND);
        }
        let limit = self.config.limits.batch_bytes;
        let bodies = self.bodies.of_our_kind();
        let body = match bodies.read(head.headers, body, limit).await {
            Ok(body) => body,
            Err(refused) => return refused.answer(),
        };
        match what {
            Between::Renewals => self.renewals(body.bytes).await,
            Between::Digest => self.digest(head, &body.bytes).await,
            Between::Compare => self.compare(head, body.bytes).await,
        }
    }

    /// The places of the leases that are not here in that version, four bytes each.
    async fn renewals(&self, digest: Bytes) -> Answer {
        if !digest.len().is_multiple_of(8) {
            return answer::empty(StatusCode::BAD_REQUEST);
        }
        let (log, fingerprints) = (self.log.clone(), self.fingerprints.clone());
        // The first digest goes through the whole registry.
        let unknown = tokio::task::spawn_blocking(move || {
            fingerprints.renew(&log.snapshot(), &digest, |app, id| {
                log.renew(app, id, Renewal::default(), true).ok()
            })
        });
        let Ok(unknown) = unknown.await else {
            return answer::empty(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let places: Vec<u8> = unknown
            .iter()
            .flat_map(|place| place.to_be_bytes())
            .collect();
        answer::with_body(StatusCode::OK, "application/octet-stream", places)
    }

    async fn digest(&self, head: &Head<'_>, body: &[u8]) -> Answer {
        let Ok(root) = serde_json::from_slice::<u64>(body) else {
            return answer::empty(StatusCode::BAD_REQUEST);
        };
        let state = self.log.snapshot();
        let digests = self.digests.clone();
        match tokio::task::spawn_blocking(move || digests.of(&state.registry)).await {
            Ok(digests) if digests.root == root => answer::empty(StatusCode::NO_CONTENT),
            Ok(digests) => as_json(head, &*digests).await,
            Err(_) => answer::empty(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    async fn compare(&self, head: &Head<'_>, body: Bytes) -> Answer {
        let length = body.len();
        let read = move || serde_json::from_slice::<Comparison>(&body);
        let Some(Ok(question)) = self.bodies.decoding.of(length, read).await else {
            return answer::empty(StatusCode::BAD_REQUEST);
        };
        let origin = request::origin(head.headers, true, head.address, Origin::Client);
        let asking = request::identity(head.headers);
        let told = asking.and_then(|asking| self.peers.told(&asking.node_id));
        let (state, own_id) = (self.log.snapshot(), self.own_id().to_owned());
        let (past, now) = (self.removals.clone(), self.clock.now());
        let compared = tokio::task::spawn_blocking(move || {
            inbound::compare(
                &state,
                &question,
                told,
                (&own_id, &*past),
                now,
                inbound::ANSWER_BYTES,
            )
        })
        .await;
        let Ok((compared, commands)) = compared else {
            return answer::empty(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let request = Request::of_each(commands, origin);
        match self.log.submit_in_pieces(request).await {
            Ok(()) => as_json(head, &compared).await,
            Err(why) => answer::unavailable(&why),
        }
    }
}

async fn as_json(head: &Head<'_>, value: &impl serde::Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => {
            let takes_gzip = request::takes_gzip(head.headers);
            answer::for_our_kind("application/json", body, takes_gzip).await
        }
        Err(_) => answer::empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}
