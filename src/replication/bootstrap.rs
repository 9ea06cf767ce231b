//! The first copy of a registry: an empty node takes everything from the first peer that has
//! anything, whatever its status or data centre, before it answers reads (design 2). The original
//! copies only instances that are UP (`spring.md` 2).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Context;
use super::dns::Names;
use super::exchange::adoption;
use super::membership::Membership;
use super::past::Removed;
use super::sender::Failure;
use super::transport::{COPYING, Call, Wait};
use crate::changelog::Request;
use crate::config::{Config, ServiceUrl};
use crate::registry::change::{Actor, Origin};
use crate::registry::command::{Command, Overrides};
use crate::types::Millis;
use crate::wire;

/// Between two rounds through the peers.
const ROUND_PAUSE: Duration = Duration::from_secs(1);
/// Rounds after which peers that are all copying too have nobody to copy from.
const ROUNDS_TOGETHER: u32 = 5;

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

/// Copies from the first peer that has anything. Ends without a copy when every peer has said that it
/// is empty too or is looking for one to copy from itself, when DNS says that there is none, or when the
/// wait that is configured is over.
pub(super) async fn copy<N: Names>(
    context: &Arc<Context>,
    config: &Config,
    membership: &mut Membership<N>,
    gate: &ReadsGate,
    stop: &CancellationToken,
) {
    info!("the store is empty: copying the registry from a peer");
    let mut rounds_together = 0;
    let mut told = Told {
        context,
        names: BTreeSet::new(),
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = membership.refresh() => {}
        }
        let urls = membership.urls();
        told.follow(&urls);
        let (mut empty, mut copying) = (0, 0);
        for url in &urls {
            let had = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                had = copy_from(context, config, url) => had,
            };
            told.heard(url, &had);
            match had {
                Had::Instances(count) => {
                    info!(peer.url = %url, instances = count, "copied {count} instances from {url}");
                    return;
                }
                Had::Nothing | Had::Ourselves => empty += 1,
                Had::Copying => copying += 1,
                Had::NoAnswer(_) => {}
            }
        }
        if empty == urls.len() && membership.is_settled() {
            info!(peers = empty, "no peer has anything to copy: opening");
            return;
        }
        let is_all = copying > 0 && empty + copying == urls.len() && membership.is_settled();
        rounds_together = if is_all { rounds_together + 1 } else { 0 };
        if rounds_together == ROUNDS_TOGETHER {
            info!(
                peers = copying,
                "the peers have empty stores too: opening, and putting together what clients tell"
            );
            return;
        }
        if gate.is_open(context.clock.now().mono) {
            let waited = config.registry.wait_when_sync_empty.as_secs();
            warn!("no peer had a registry to copy within {waited} s: opening without one");
            return;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ROUND_PAUSE) => {}
        }
    }
}

async fn copy_from(context: &Context, config: &Config, url: &ServiceUrl) -> Had {
    let (connect, next) = (
        context.peers.copy_connect_timeout,
        context.peers.copy_read_timeout,
    );
    let head = connect + next;
    // A copy that moves on goes on, as long as one may be waited for.
    let whole = head.max(config.registry.wait_when_sync_empty);
    let call = Call::get("apps/", Wait { head, next, whole });
    let answer = match context.transport.send(url, call).await {
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
    let is_our_kind = answer.identity().is_some();
    let is_copying = answer.headers.contains_key(&COPYING);
    let now = context.clock.now().wall.signed();
    let list = match wire::decode_applications(&answer.body, &config.limits.of_decoders(), now) {
        Ok(list) => list,
        Err(error) => return Had::NoAnswer(format!("its registry cannot be read: {error}")),
    };
    if list.drafts.is_empty() {
        return Had::Nothing;
    }
    if is_copying {
        // It will have more in a moment, if there is anybody to copy from.
        return Had::Copying;
    }
    let mut commands: Vec<Command> = Vec::new();
    let mut refused = list.refused;
    let state = context.log.snapshot();
    for mut draft in list.drafts {
        // Whether it lives, the list does not say: a renewal will.
        draft.lease_times.vouched_ms = Some(0);
        match adoption(
            draft,
            is_our_kind,
            Overrides::Whole,
            &state.registry,
            &Removed::default(),
        ) {
            Ok(adopting) => commands.extend(adopting),
            Err(_) => refused += 1,
        }
    }
    if refused > 0 {
        warn!(peer.url = %url, refused, "{refused} instances of {url} cannot be taken over");
    }
    let count = commands.len();
    let request = Request {
        commands,
        origin: Origin::Peer(url.to_string().into()),
        actors: Actor::default().into(),
    };
    if let Err(why) = context.log.submit_in_pieces(request).await {
        return Had::NoAnswer(format!("the copy was not stored: {why}"));
    }
    Had::Instances(count)
}
