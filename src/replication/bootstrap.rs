//! The first copy of a registry: an empty node takes everything from the first peer that has
//! anything, whatever its status or data centre, before it answers reads (design 2). The original
//! copies only instances that are UP (`spring.md` 2).
//!
//! A copy is stored in pieces, and clients register meanwhile, so that the store of a node that ends
//! before it has opened is not empty and yet has no registry. A mark in the store tells ([`has_to_copy`]): it
//! lies before the first record, and is taken away, behind the last one of the copy, when the node opens.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::confirm::confirm;
use super::learned::learn;
use super::sender::Failure;
use super::skew::PeerClock;
use super::transport::{COPYING, Call};
use super::{Context, Listed};
use crate::config::{Config, ServiceUrl};
use crate::store::{LogReader, StoreError};
use crate::types::Millis;
use crate::wire;

/// Between two rounds through the peers.
const ROUND_PAUSE: Duration = Duration::from_secs(1);
/// Rounds after which peers that are all copying too have nobody to copy from.
const ROUNDS_TOGETHER: u32 = 5;
/// After how long a peer that refuses connections counts as one that is not there, ms. A node that is just
/// restarted refuses them too, and may be the only one that has the registry: it is given more time than that
/// takes. A peer that does not answer at all may be up and cut off, so that nothing but the configured wait ends
/// the waiting for it.
const GONE_AFTER_MS: u64 = 60_000;

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
#[derive(Debug)]
enum Had {
    Instances(usize),
    /// It answered, and has nothing.
    Nothing,
    /// It is copying itself, and has what clients have told it meanwhile.
    Copying,
    /// It is this very node.
    Ourselves,
    /// Nobody takes connections there, in words.
    Refused(String),
    /// Why there is no usable answer, or the copy was not stored.
    NoAnswer(String),
}

/// Whether the rounds through the peers so far allow to open without a copy.
#[derive(Debug, Default)]
struct Rounds {
    /// The peers that refuse connections, and since when they do without a break, monotonic.
    refused_since: BTreeMap<String, Millis>,
    /// Rounds in a row in which there was nobody to wait for.
    together: u32,
}

/// Why a node opens without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// Every peer has answered, and has nothing.
    Empty,
    /// The peers that are there have nothing to copy either, or look for it themselves.
    Together,
}

impl Rounds {
    /// Takes what the peers had in one round, which ended at `now`. `is_settled` says that there are no others.
    fn take(&mut self, heard: &[(String, Had)], is_settled: bool, now: Millis) -> Option<Opening> {
        let refused: BTreeMap<String, Millis> = heard
            .iter()
            .filter(|(_, had)| matches!(had, Had::Refused(_)))
            .map(|(name, _)| {
                let since = self.refused_since.get(name).copied();
                (name.clone(), since.unwrap_or(now))
            })
            .collect();
        self.refused_since = refused;
        let count = |is_it: fn(&Had) -> bool| heard.iter().filter(|(_, had)| is_it(had)).count();
        let ourselves = count(|had| matches!(had, Had::Ourselves));
        let empty = count(|had| matches!(had, Had::Nothing));
        let copying = count(|had| matches!(had, Had::Copying));
        if is_settled && empty + ourselves == heard.len() {
            return Some(Opening::Empty);
        }
        let is_gone = |since: &Millis| now.since(*since) >= GONE_AFTER_MS;
        let gone = self.refused_since.values().filter(|since| is_gone(since));
        let is_all = ourselves + empty + copying + gone.count() == heard.len();
        self.together = if is_settled && is_all && empty + copying > 0 {
            self.together + 1
        } else {
            0
        };
        (self.together >= ROUNDS_TOGETHER).then_some(Opening::Together)
    }
}

/// Says once what is wrong with a peer: there is a round a second.
fn say(said: &mut BTreeMap<String, String>, name: &str, had: &Had) {
    let (Had::NoAnswer(why) | Had::Refused(why)) = had else {
        said.remove(name);
        return;
    };
    let before = said.insert(name.to_owned(), why.clone());
    if before.as_ref() == Some(why) {
        debug!(peer.url = %name, "no copy from {name}: {why}");
    } else {
        warn!(peer.url = %name, "no copy from {name}, trying on: {why}");
    }
}

/// Copies from the first peer that has anything. Whether reads may be answered from then on; they may not
/// if the node leaves before.
///
/// Ends without a copy when every peer has said that it is empty too, or DNS that there is none; when those
/// that are there have nothing or look for it themselves, and the others have refused connections for
/// [`GONE_AFTER_MS`]; or when the wait that is configured is over. What clients and peers tell meanwhile is
/// taken and passed on all the while.
pub(super) async fn copy(
    context: &Context,
    config: &Config,
    mut list: watch::Receiver<Listed>,
    stop: &CancellationToken,
) -> bool {
    if context.log.published().registry.is_empty() {
        info!("the store is empty: copying the registry from a peer");
    } else {
        info!("no copy of the registry was finished before: copying it from a peer");
    }
    let (mut rounds, mut said) = (Rounds::default(), BTreeMap::new());
    loop {
        let Listed { urls, is_settled } = list.borrow_and_update().clone();
        let mut heard = Vec::new();
        for url in &urls {
            let had = tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                had = copy_from(context, config, url) => had,
            };
            let name = url.to_string();
            if let Had::Instances(count) = had {
                info!(peer.url = %url, instances = count, "copied {count} instances from {url}");
                return true;
            }
            say(&mut said, &name, &had);
            heard.push((name, had));
        }
        said.retain(|name, _| heard.iter().any(|(heard, _)| heard == name));
        let now = context.clock.now().mono;
        let peers = heard.len();
        match rounds.take(&heard, is_settled, now) {
            Some(Opening::Empty) => {
                info!(peers, "no peer has anything to copy: opening");
                return true;
            }
            Some(Opening::Together) => {
                let gone = rounds.refused_since.len();
                info!(
                    peers,
                    gone,
                    "the peers that are there have empty stores too: opening, and putting together what clients tell"
                );
                return true;
            }
            None => {}
        }
        if context.gate.is_open(now) {
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
    // A copy that moves on goes on, as long as one may be waited for.
    let wait = context.copy_wait(config.registry.wait_when_sync_empty);
    let call = Call::get("apps/", wait);
    let asked = context.clock.now().wall;
    let answer = match context.transport.send(url, call).await {
        Ok(answer) if answer.status == 200 => answer,
        Ok(answer) => return Had::NoAnswer(Failure::Status(answer.status).to_string()),
        Err(failure @ Failure::Refused(_)) => return Had::Refused(failure.to_string()),
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
    let answered = context.clock.now().wall;
    let clock = PeerClock::default();
    let skew = clock.heard(answer.skew(asked, answered), answered);
    let now = answered.signed();
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
        let registry = &log.snapshot().registry;
        let mut learned = learn(list.drafts, is_our_kind, skew, registry, &*past);
        learned.refused += refused;
        Ok((count, learned))
    });
    let (count, learned) = match reading.await {
        Ok(Ok(read)) => read,
        Ok(Err(had)) => return had,
        Err(error) => return Had::NoAnswer(format!("its registry cannot be read: {error}")),
    };
    let (refused, unjudged) = (learned.refused, learned.unjudged());
    if refused > 0 {
        warn!(peer.url = %url, refused, "{refused} instances of {url} cannot be taken over");
    }
    if let Err(why) = context.store_of(url, learned.commands).await {
        return Had::NoAnswer(format!("the copy was not stored: {why}"));
    }
    if let Some(why) = unjudged {
        return Had::NoAnswer(why);
    }
    // What clients and peers have told this node meanwhile.
    if let Err(why) = confirm(context, url, &clock, learned.unheard).await {
        return Had::NoAnswer(why);
    }
    Had::Instances(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter a peer: empty, copying, refused, silent, this node itself.
    fn heard(what: &str) -> Vec<(String, Had)> {
        let one = |(place, letter): (usize, char)| {
            let had = match letter {
                'e' => Had::Nothing,
                'c' => Had::Copying,
                'r' => Had::Refused(String::new()),
                's' => Had::NoAnswer(String::new()),
                _ => Had::Ourselves,
            };
            (place.to_string(), had)
        };
        what.chars().enumerate().map(one).collect()
    }

    /// After how many rounds of a second a node opens, and why, within the given number of them.
    fn opens(rounds: &mut Rounds, what: &str, within: u64) -> Option<(u64, Opening)> {
        (1..=within).find_map(|round| {
            let opening = rounds.take(&heard(what), true, Millis(round * 1000));
            opening.map(|opening| (round, opening))
        })
    }

    #[test]
    fn a_node_opens_at_once_when_all_peers_are_empty_or_there_is_none() {
        for what in ["", "e", "eee", "o", "oe"] {
            let opened = opens(&mut Rounds::default(), what, 1);
            assert_eq!(opened, Some((1, Opening::Empty)), "{what}");
            let unsettled = Rounds::default().take(&heard(what), false, Millis(1000));
            assert_eq!(unsettled, None, "there may be others");
        }
    }

    #[test]
    fn nodes_that_all_copy_open_together_after_some_rounds() {
        for what in ["c", "ce", "cco"] {
            let opened = opens(&mut Rounds::default(), what, 100);
            assert_eq!(opened, Some((5, Opening::Together)), "{what}");
        }
    }

    #[test]
    fn a_peer_that_refuses_connections_for_a_minute_keeps_nobody_that_has_others() {
        for what in ["cr", "er", "ccrr", "cro"] {
            let opened = opens(&mut Rounds::default(), what, 100);
            assert_eq!(opened, Some((65, Opening::Together)), "{what}");
        }
        for what in ["r", "rr", "ro"] {
            let opened = opens(&mut Rounds::default(), what, 1000);
            assert_eq!(opened, None, "{what}: nobody else has answered");
        }
    }

    #[test]
    fn a_peer_that_does_not_answer_or_was_there_meanwhile_is_waited_for() {
        for what in ["cs", "crs", "es"] {
            assert_eq!(opens(&mut Rounds::default(), what, 1000), None, "{what}");
        }
        let mut rounds = Rounds::default();
        for round in 1..1000 {
            // It restarts again and again.
            let what = if round % 50 == 0 { "cs" } else { "cr" };
            let opening = rounds.take(&heard(what), true, Millis(round * 1000));
            assert_eq!(opening, None, "{round}");
        }
    }
}
