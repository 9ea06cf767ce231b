//! Makes the answers: encodes an entity of a published state in one of its forms.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::fragment::{Encoded, Fragments, encode};
use super::gzip::{Member, Part};
use super::payload::{Payload, Version};
use super::view::{view_of, view_of_image};
use super::{Entity, Key};
use crate::changelog::Published;
use crate::registry::change::LeaseImage;
use crate::registry::lease::Lease;
use crate::registry::{Registry, hash_code_of};
use crate::types::AppName;
use crate::wire::{self, Detail, Format, InstanceView};

/// `versions__delta` of full lists: clients only need that it is not -1 (`protocol.md` 4.3).
const LIST_VERSION: &str = "1";
/// `versions__delta` of vip answers: no deltas for these.
const VIP_VERSION: &str = "-1";

/// Encodes, and keeps the fragments of `/apps`.
#[derive(Debug)]
pub(super) struct Builder {
    fragments: Fragments,
    own_instance_id: Arc<str>,
}

/// An application and its instances, ready to be written.
type Listed<'a> = (&'a AppName, Vec<InstanceView<'a>>);

impl Builder {
    pub(super) fn new(max_bytes: u64, expire_after: Duration, own_instance_id: Arc<str>) -> Self {
        Self {
            fragments: Fragments::new(max_bytes, expire_after, own_instance_id.clone()),
            own_instance_id,
        }
    }

    pub(super) fn run_pending_tasks(&self) {
        self.fragments.run_pending_tasks();
    }

    pub(super) fn weighted_size(&self) -> u64 {
        self.fragments.weighted_size()
    }

    /// The answer for `key`; `version` is that of its entity in `state`.
    pub(super) fn build(&self, key: &Key, state: &Published, version: Version) -> Payload {
        let (format, detail) = (key.format, key.detail);
        let text = match &key.entity {
            Entity::All => return self.stitch(key, state, version),
            Entity::Delta => self.delta(format, detail, state),
            Entity::App(name) => self.app(format, detail, state, name),
            Entity::Vip(address) => self.vip(format, detail, state, address, false),
            Entity::SecureVip(address) => self.vip(format, detail, state, address, true),
        };
        let pieces = if key.is_gzip {
            let mut member = Member::new();
            member.push(&Part::of(&text));
            member.finish()
        } else {
            vec![Bytes::from(text)]
        };
        let own_bytes = pieces.iter().map(Bytes::len).sum();
        Payload::new(version, pieces, own_bytes)
    }

    /// `/apps`: head, one fragment per application, tail.
    fn stitch(&self, key: &Key, state: &Published, version: Version) -> Payload {
        let registry = &state.registry;
        let form = Form {
            format: key.format,
            detail: key.detail,
            is_gzip: key.is_gzip,
        };
        let fragments = registry.apps().map(|(name, app)| {
            self.fragments
                .get(name, app, form.format, form.detail, form.is_gzip)
        });
        let (hash, is_empty) = (registry.hash_code(), registry.is_empty());
        stitch(form, version, &hash, is_empty, fragments)
    }

    fn app(&self, format: Format, detail: Detail, state: &Published, name: &AppName) -> Vec<u8> {
        let mut text = Vec::new();
        let app = state.registry.app(name.as_str());
        let views = app
            .into_iter()
            .flat_map(super::super::registry::Application::leases)
            .map(|lease| self.view(lease));
        wire::write_application(&mut text, format, detail, name.as_str(), views);
        text
    }

    fn vip(
        &self,
        format: Format,
        detail: Detail,
        state: &Published,
        address: &str,
        is_secure: bool,
    ) -> Vec<u8> {
        let registry = &state.registry;
        let members = registry.vip(address, is_secure).map(|(_, apps)| apps);
        let listed: Vec<Listed<'_>> = members
            .into_iter()
            .flatten()
            .map(|name| {
                let leases = registry
                    .app(name.as_str())
                    .into_iter()
                    .flat_map(super::super::registry::Application::leases);
                let has_vip = |lease: &&Arc<Lease>| {
                    lease.instance().vips(is_secure).any(|vip| vip == address)
                };
                (
                    name,
                    leases
                        .filter(has_vip)
                        .map(|lease| self.view(lease))
                        .collect(),
                )
            })
            .collect();
        let hash = hash_code_of(
            listed
                .iter()
                .flat_map(|(_, views)| views)
                .map(|v| &v.instance.status),
        );
        list(format, detail, VIP_VERSION, &hash, listed)
    }

    /// The delta: entries and hash code from one position; its version is that position, counted
    /// from 1 as in the original, so that it moves whenever something new is told, restarts
    /// included.
    fn delta(&self, format: Format, detail: Detail, state: &Published) -> Vec<u8> {
        let registry = &state.registry;
        let version = registry.visible_lsn().0.saturating_add(1).to_string();
        let net: Vec<(AppName, Vec<LeaseImage>)> = state.delta.net(registry);
        let listed = net
            .iter()
            .map(|(name, images)| {
                let views = images
                    .iter()
                    .map(|image| view_of_image(image, &self.own_instance_id));
                (name, views.collect())
            })
            .collect();
        list(format, detail, &version, &registry.hash_code(), listed)
    }

    fn view<'a>(&self, lease: &'a Lease) -> InstanceView<'a> {
        view_of(lease, &self.own_instance_id)
    }
}

/// The forms that a list is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub format: Format,
    pub detail: Detail,
    pub is_gzip: bool,
}

/// What is shown as the last renewal of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewals {
    /// That of the lease's clock.
    Clock,
    /// That of the lease's last change: the clock of a registry of the past does not run.
    Image,
}

/// The list of a registry that is asked for once: as `/apps`, or of some applications (of all if
/// `apps` is empty), with the hash code of what is listed. Nothing of it is kept.
pub fn list_of(
    registry: &Registry,
    apps: &[AppName],
    form: Form,
    renewals: Renewals,
    own_instance_id: &str,
) -> Payload {
    let listed: Vec<_> = registry
        .apps()
        .filter(|(name, _)| apps.is_empty() || apps.contains(name))
        .collect();
    let hash = if apps.is_empty() {
        registry.hash_code()
    } else {
        let leases = listed.iter().flat_map(|(_, app)| app.leases());
        hash_code_of(leases.map(|lease| &lease.instance().status))
    };
    let fragments = listed.iter().map(|(name, app)| {
        encode(
            name,
            app,
            form.format,
            form.detail,
            form.is_gzip,
            |lease| match renewals {
                Renewals::Clock => view_of(lease, own_instance_id),
                Renewals::Image => view_of_image(&lease.image, own_instance_id),
            },
        )
    });
    let version = Version::at(registry.visible_lsn());
    stitch(form, version, &hash, listed.is_empty(), fragments)
}

/// Head, one fragment per application, tail.
fn stitch(
    form: Form,
    version: Version,
    hash: &str,
    is_empty: bool,
    fragments: impl Iterator<Item = Encoded>,
) -> Payload {
    let (format, detail) = (form.format, form.detail);
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    wire::list_head(&mut head, format, detail, LIST_VERSION, hash, is_empty);
    wire::list_tail(&mut tail, format, detail, LIST_VERSION, hash, is_empty);
    let separator = wire::list_separator(format, detail);
    let own_bytes = head.len() + tail.len() + 64;

    if form.is_gzip {
        let separator = Part::stored(separator);
        let mut member = Member::new();
        member.push(&Part::stored(&head));
        for (place, fragment) in fragments.enumerate() {
            if place > 0 {
                member.push(&separator);
            }
            if let Encoded::Deflated(part) = &fragment {
                member.push(part);
            }
        }
        member.push(&Part::stored(&tail));
        return Payload::new(version, member.finish(), own_bytes);
    }
    let separator = Bytes::from_static(separator);
    let mut pieces = vec![Bytes::from(head)];
    for (place, fragment) in fragments.enumerate() {
        if place > 0 && !separator.is_empty() {
            pieces.push(separator.clone());
        }
        if let Encoded::Plain(bytes) = fragment {
            pieces.push(bytes);
        }
    }
    pieces.push(Bytes::from(tail));
    Payload::new(version, pieces, own_bytes)
}

fn list(
    format: Format,
    detail: Detail,
    version: &str,
    hash: &str,
    listed: Vec<Listed<'_>>,
) -> Vec<u8> {
    let mut text = Vec::new();
    let is_empty = listed.is_empty();
    wire::list_head(&mut text, format, detail, version, hash, is_empty);
    for (place, (name, views)) in listed.into_iter().enumerate() {
        if place > 0 {
            text.extend_from_slice(wire::list_separator(format, detail));
        }
        wire::list_fragment(&mut text, format, detail, name.as_str(), views);
    }
    wire::list_tail(&mut text, format, detail, version, hash, is_empty);
    text
}
