//! GET and HEAD: lists from the response cache, single instances from the registry itself.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::StatusCode;

use super::answer::{self, Answer};
use super::path::Route;
use super::request;
use super::{Api, Head};
use crate::cache::{Entity, Key, view_of};
use crate::config::XmlSingleStatus;
use crate::registry::lease::Lease;
use crate::types::AppName;
use crate::wire::accept::Negotiated;
use crate::wire::{self, Format};

impl Api {
    pub(super) async fn read(
        &self,
        route: Route<'_>,
        negotiated: Negotiated,
        head: &Head<'_>,
    ) -> Answer {
        let entity = match route {
            Route::Apps => Entity::All,
            Route::Delta => Entity::Delta,
            Route::App(name) => Entity::App(AppName::new(&name)),
            Route::Vip(address) => Entity::Vip(address.into()),
            Route::SecureVip(address) => Entity::SecureVip(address.into()),
            Route::Instance { app, id } => {
                let state = self.log.published();
                return self.single(state.registry.lease(&app, &id), negotiated);
            }
            Route::InstanceById(id) => {
                let state = self.log.published();
                return self.single(state.registry.lease_by_id(&id), negotiated);
            }
            Route::ServerStatus => return self.server_status(&negotiated, head),
            Route::StatusOverrides => return self.status_overrides(&negotiated),
            _ => return answer::empty(StatusCode::NOT_FOUND),
        };
        self.cached(entity, negotiated, head).await
    }

    async fn cached(&self, entity: Entity, negotiated: Negotiated, head: &Head<'_>) -> Answer {
        // A peer of our own kind is told that the registry is not together yet; it has to see that
        // nobody has one.
        if !self.are_reads_open() && !request::is_our_kind(head.headers) {
            return answer::empty(StatusCode::FORBIDDEN);
        }
        if entity == Entity::Delta && !self.config.registry.delta {
            return answer::empty(StatusCode::FORBIDDEN);
        }
        let is_list = matches!(entity, Entity::All | Entity::Delta);
        let is_gzip = self.wants_gzip(is_list, head.headers);
        // The original labels its compressed lists by what they are, everything else by what was
        // negotiated first (`protocol.md` 1.2).
        let content_type: Cow<'static, str> = if is_gzip && is_list {
            negotiated.body.content_type().into()
        } else {
            negotiated.label
        };
        let is_vip = matches!(entity, Entity::Vip(_) | Entity::SecureVip(_));
        let key = Key {
            entity,
            format: negotiated.body,
            detail: Self::detail(head.headers),
            is_gzip,
        };
        let state = self.log.snapshot();
        let payload = if let Some(at_hand) = self.cache.peek(&key, &state) {
            at_hand
        } else {
            let (cache, key) = (self.cache.clone(), key.clone());
            let built = tokio::task::spawn_blocking(move || cache.load(&key, &state)).await;
            let Ok(payload) = built else {
                return answer::empty(StatusCode::INTERNAL_SERVER_ERROR);
            };
            payload
        };
        match payload {
            Some(payload) => answer::payload(payload, content_type, is_gzip),
            None if is_vip => empty_vip(&key, content_type),
            None => answer::empty(StatusCode::NOT_FOUND),
        }
    }

    /// One instance; an expired lease counts as gone (`protocol.md` 1.6).
    fn single(&self, lease: Option<&Arc<Lease>>, negotiated: Negotiated) -> Answer {
        let state = self.log.published();
        let now = self.clock.now().mono;
        let is_gone = |lease: &Lease| {
            lease.is_expired(now, 0) && self.log.expiration_enabled(&state.registry)
        };
        match lease.filter(|lease| !is_gone(lease)) {
            Some(lease) => self.instance(StatusCode::OK, lease, negotiated),
            None => answer::empty(StatusCode::NOT_FOUND),
        }
    }

    /// An instance as the body of an answer.
    pub(super) fn instance(
        &self,
        status: StatusCode,
        lease: &Lease,
        negotiated: Negotiated,
    ) -> Answer {
        let is_v1 = self.config.compatibility.xml_single_status == XmlSingleStatus::V1;
        let mut body = Vec::with_capacity(1536);
        let view = view_of(lease, self.own_id());
        wire::write_instance(&mut body, negotiated.content_type, &view, is_v1);
        answer::with_body(status, negotiated.label, body)
    }

    /// `{"id":"STATUS"}` for every override; the output is by id alone (`protocol.md` 10.2).
    fn status_overrides(&self, negotiated: &Negotiated) -> Answer {
        if negotiated.content_type != Format::Json {
            return answer::empty(StatusCode::NOT_ACCEPTABLE);
        }
        let state = self.log.published();
        let all: serde_json::Map<String, serde_json::Value> = state
            .registry
            .overrides()
            .map(|(key, status)| (key.id.to_string(), status.as_str().into()))
            .collect();
        answer::with_body(
            StatusCode::OK,
            "application/json",
            serde_json::Value::from(all).to_string(),
        )
    }
}

/// Nobody has that vip: an empty list and not 404 (`protocol.md` 1.6). Not worth a cache entry.
fn empty_vip(key: &Key, content_type: Cow<'static, str>) -> Answer {
    let mut body = Vec::new();
    wire::list_head(&mut body, key.format, key.detail, "-1", "", true);
    wire::list_tail(&mut body, key.format, key.detail, "-1", "", true);
    answer::with_body(StatusCode::OK, content_type, body)
}
