//! The encoded piece of `/apps` that belongs to one application, plain or compressed. Cached on its
//! own, so that a change elsewhere leaves it alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use moka::sync::Cache;

use super::gzip::Part;
use super::view::view_of;
use crate::registry::Application;
use crate::registry::lease::Lease;
use crate::types::{AppName, Lsn};
use crate::wire::{self, Detail, Format, InstanceView};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FragmentKey {
    app: AppName,
    format: Format,
    detail: Detail,
    is_gzip: bool,
}

/// A fragment as of a position of the log.
#[derive(Clone, Debug)]
struct Fragment {
    lsn: Lsn,
    encoded: Encoded,
}

/// The bytes of a fragment.
#[derive(Clone, Debug)]
pub(super) enum Encoded {
    Plain(Bytes),
    Deflated(Part),
}

impl Encoded {
    fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Deflated(part) => part.bytes.len(),
        }
    }
}

/// Encodes the fragment of an application; `view` says what is shown of a lease.
pub(super) fn encode<'a>(
    name: &AppName,
    app: &'a Application,
    format: Format,
    detail: Detail,
    is_gzip: bool,
    view: impl Fn(&'a Arc<Lease>) -> InstanceView<'a>,
) -> Encoded {
    let mut text = Vec::with_capacity(app.len() * 1280);
    wire::list_fragment(
        &mut text,
        format,
        detail,
        name.as_str(),
        app.leases().map(view),
    );
    if is_gzip {
        Encoded::Deflated(Part::of(&text))
    } else {
        text.shrink_to_fit();
        Encoded::Plain(text.into())
    }
}

/// The fragments of all applications.
#[derive(Debug)]
pub(super) struct Fragments {
    cache: Cache<FragmentKey, Arc<Fragment>>,
    own_instance_id: Arc<str>,
}

impl Fragments {
    pub(super) fn new(max_bytes: u64, expire_after: Duration, own_instance_id: Arc<str>) -> Self {
        let cache = Cache::builder()
            .weigher(|key: &FragmentKey, fragment: &Arc<Fragment>| {
                let bytes = fragment.encoded.len() + key.app.as_str().len() + 160;
                u32::try_from(bytes).unwrap_or(u32::MAX)
            })
            .max_capacity(max_bytes)
            .time_to_live(expire_after)
            .eviction_policy(moka::policy::EvictionPolicy::lru())
            .build();
        Self {
            cache,
            own_instance_id,
        }
    }

    /// The fragment of an application as it is now, encoded if nobody has yet.
    pub(super) fn get(
        &self,
        name: &AppName,
        app: &Application,
        format: Format,
        detail: Detail,
        is_gzip: bool,
    ) -> Encoded {
        let key = FragmentKey {
            app: name.clone(),
            format,
            detail,
            is_gzip,
        };
        // A newer one would not do either: the head's hash code is of this state.
        let is_stale = |fragment: &Arc<Fragment>| fragment.lsn != app.lsn();
        let entry = self.cache.entry(key).or_insert_with_if(
            || {
                Arc::new(Fragment {
                    lsn: app.lsn(),
                    encoded: encode(name, app, format, detail, is_gzip, |lease| {
                        view_of(lease, &self.own_instance_id)
                    }),
                })
            },
            is_stale,
        );
        entry.into_value().encoded.clone()
    }

    pub(super) fn run_pending_tasks(&self) {
        self.cache.run_pending_tasks();
    }

    pub(super) fn weighted_size(&self) -> u64 {
        self.cache.weighted_size()
    }
}
