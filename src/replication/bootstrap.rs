//! The first copy of a registry: an empty node takes everything from the first peer that has
//! anything, whatever its status or data centre, before it answers reads (design 2). The original
//! copies only instances that are UP (`spring.md` 2).
//!
//! A copy is stored in pieces, and clients register meanwhile, so that the store of a node that ends
//! before it has opened is not empty and yet has no registry. A mark in the store tells ([`has_to_copy`]): it
//! lies before the first record, and is taken away, behind the last one of the copy, when the node opens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Context;
use super::dns::Names;
use super::learned::learn;
use super::membership::Membership;
use super::sender::Failure;
use super::transport::COPYING;
use crate::changelog::Request;
use crate::config::{Config, ServiceUrl};
use crate::registry::change::{Actor, Origin};
use crate::store::{LogReader, StoreError};
use crate::types::Millis;
use crate::wire;

/// Between two rounds through the peers.
const ROUND_PAUSE: Duration = Duration::from_secs(1);
/// Rounds after which peers that are all copying too have nobody to copy from.
const ROUNDS_TOGETHER: u32 = 5;

/// Key of the mark of a store whose node has not opened yet. Stores of before there were marks have none,
/// and count as opened.
const UNOPENED: &str = "unopened";

/// Whether the registry has to be copied from a peer before reads are answered, given whether the store is
/// empty and whether the node `copies` from peers at all. Marks the store if so: to be asked before anything
/// is written. May wait for the disk.
///
/// # Errors
/// The mark could not be read or written.
pub fn has_to_copy(
    reader: &dyn LogReader,
    is_empty: bool,
    copies: bool,
) -> Result<bool, StoreError> {
    if !copies {
        reader.meta_remove(UNOPENED)?;
        return Ok(false);
    }
    if is_empty {
        // Like the records behind it, it is durable with the first commit; without one there are none.
        reader.meta_put(UNOPENED, b"")?;
        return Ok(true);
    }
    Ok(reader.meta_get(UNOPENED)?.is_some())
}

/// Notes that the node has opened, and tries that until it is done or the node leaves: what is not noted
/// leads to another copy at the next start, and to nothing worse.
pub(super) async fn opened(context: &Context, leave: &CancellationToken) {
    loop {
        let reader = context.log.reader();
        let removal = tokio::task::spawn_blocking(move || reader.meta_remove(UNOPENED));
        match removal.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => debug!(%error, "noting that the registry is complete: {error}"),
            Err(error) => debug!(%error, "noting that the registry is complete: {error}"),
        }
        tokio::select! {
            biased;
            () = leave.cancelled() => return,
            () = tokio::time::sleep(ROUND_PAUSE) => {}
        }
    }
}

/// When the cached reads are answered; before that they get 403 (`protocol.md` 5.7).
#[derive(Debug)]
pub struct ReadsGate {
    /// Monotonic time.
    opens_at: AtomicU64,
}

impl ReadsGate {
    pub fn opening_at(at: Millis) -> Self {
        Self {
            opens_at: AtomicU64::new(at.0),
        }
    }

    pub fn is_open(&self, now: Millis) -> bool {
        self.opens_in(now) == 0
    }

    /// How long they stay closed at most, ms; 0 once they are open.
    pub fn opens_in(&self, now: Millis) -> u64 {
        self.opens_at.load(Ordering::Relaxed).saturating_sub(now.0)
    }

    /// Opens at once.
    pub fn open(&self) {
        self.opens_at.store(0, Ordering::Relaxed);
    }
}

/// What a peer had.
enum Had {
    Instances(usize),
    /// It answered, and has nothing.
    Nothing,
    /// It is copying itself, and has what clients have told it meanwhile.
    Copying,
    /// It is this very node.
    Ourselves,
    /// Why there is no usable answer, or the copy was not stored.
    NoAnswer(String),
}

/// What is said of the peers while nobody replicates to them yet: the same as later, in the same place.
struct Told<'c> {
    context: &'c Context,
    /// The peers that are in the states because of this.
    names: BTreeSet<String>,
}

impl Told<'_> {
    /// These are the peers.
    fn follow(&mut self, urls: &[ServiceUrl]) {
        let names: BTreeSet<String> = urls.iter().map(ToString::to_string).collect();
        for gone in self.names.difference(&names) {
            self.context.states.remove(gone);
        }
        for new in names.difference(&self.names) {
            self.context.states.update(new, |_| {});
        }
        self.names = names;
    }

    fn heard(&mut self, url: &ServiceUrl, had: &Had) {
        let (name, states) = (url.to_string(), &self.context.states);
        match had {
            Had::Ourselves => states.remove(&name),
            Had::NoAnswer(why) => {
                let mut is_news = false;
                states.update(&name, |state| {
                    is_news = state.error.as_ref() != Some(why);
                    state.is_reachable = false;
                    state.error = Some(why.clone());
                });
                // A round a second: once is enough.
                if is_news {
                    warn!(peer.url = %url, "no copy from {url}, trying on: {why}");
                } else {
                    debug!(peer.url = %url, "no copy from {url}: {why}");
                }
            }
            Had::Instances(_) | Had::Nothing | Had::Copying => {
                let now = self.context.clock.now().wall;
                states.update(&name, |state| {
                    state.is_reachable = true;
                    state.last_success = now;
                    state.error = None;
                });
            }
        }
    }
}

/// Copies from the first peer that has anything. Whether reads may be answered from then on; they may not
/// if the node leaves before. Ends without a copy when every peer has said that it
/// is empty too or is looking for one to copy from itself, when DNS says that there is none, or when the
/// wait that is configured is over.
pub(super) async fn copy<N: Names>(
    context: &Arc<Context>,
    config: &Config,
    membership: &mut Membership<N>,
    gate: &ReadsGate,
    stop: &CancellationToken,
) -> bool {
    if context.log.published().registry.len() == 0 {
        info!("the store is empty: copying the registry from a peer");
    } else {
        info!("no copy of the registry was finished before: copying it from a peer");
    }
    let mut rounds_together = 0;
    let mut told = Told {
        context,
        names: BTreeSet::new(),
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = membership.refresh() => {}
        }
        let urls = membership.urls();
        told.follow(&urls);
        let (mut empty, mut copying) = (0, 0);
        for url in &urls {
            let had = tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                had = copy_from(context, config, url) => had,
            };
            told.heard(url, &had);
            match had {
                Had::Instances(count) => {
                    info!(peer.url = %url, instances = count, "copied {count} instances from {url}");
                    return true;
                }
                Had::Nothing | Had::Ourselves => empty += 1,
                Had::Copying => copying += 1,
                Had::NoAnswer(_) => {}
            }
        }
        if empty == urls.len() && membership.is_settled() {
            info!(peers = empty, "no peer has anything to copy: opening");
            return true;
        }
        let is_all = copying > 0 && empty + copying == urls.len() && membership.is_settled();
        rounds_together = if is_all { rounds_together + 1 } else { 0 };
        if rounds_together == ROUNDS_TOGETHER {
            info!(
                peers = copying,
                "the peers have empty stores too: opening, and putting together what clients tell"
            );
            return true;
        }
        if gate.is_open(context.clock.now().mono) {
            let waited = config.registry.wait_when_sync_empty.as_secs();
            warn!("no peer had a registry to copy within {waited} s: opening without one");
            return true;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(ROUND_PAUSE) => {}
        }
    }
}

async fn copy_from(context: &Context, config: &Config, url: &ServiceUrl) -> Had {
    let timeout = context.peers.copy_connect_timeout + context.peers.copy_read_timeout;
    let sent = context
        .transport
        .send(url, Method::GET, "apps/", "", Vec::new(), timeout)
        .await;
    let answer = match sent {
        Ok(answer) if answer.status == 200 => answer,
        Ok(answer) => return Had::NoAnswer(Failure::Status(answer.status).to_string()),
        Err(failure) => return Had::NoAnswer(failure.to_string()),
    };
    let is_ourselves = answer
        .identity()
        .is_some_and(|identity| identity == context.identity);
    if is_ourselves {
        return Had::Ourselves;
    }
    let (is_our_kind, limits) = (answer.identity().is_some(), config.limits.of_decoders());
    let is_copying = answer.headers.contains_key(&COPYING);
    let now = context.clock.now().wall.signed();
    let (log, past) = (context.log.clone(), context.past.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let list = wire::decode_applications(&answer.body, &limits, now)
            .map_err(|error| Had::NoAnswer(format!("its registry cannot be read: {error}")))?;
        drop(answer);
        if list.drafts.is_empty() {
            return Err(Had::Nothing);
        }
        if is_copying {
            // It will have more in a moment, if there is anybody to copy from.
            return Err(Had::Copying);
        }
        let (count, refused) = (list.drafts.len(), list.refused);
        let mut learned = learn(list.drafts, is_our_kind, &log.snapshot().registry, &*past);
        learned.refused += refused;
        Ok((count, learned))
    });
    let (count, learned) = match reading.await {
        Ok(Ok(read)) => read,
        Ok(Err(had)) => return had,
        Err(error) => return Had::NoAnswer(format!("its registry cannot be read: {error}")),
    };
    let refused = learned.refused;
    if refused > 0 {
        warn!(peer.url = %url, refused, "{refused} instances of {url} cannot be taken over");
    }
    let request = Request {
        commands: learned.commands,
        origin: Origin::Peer(url.to_string().into()),
        actors: Actor::default().into(),
    };
    if let Err(why) = context.log.submit_in_pieces(request).await {
        return Had::NoAnswer(format!("the copy was not stored: {why}"));
    }
    Had::Instances(count)
}
