//! What the list of a Java node has as news is asked for, instance by instance, before it is taken over.
//!
//! Lists come out of a cache and may be minutes old; meanwhile the word may have been taken back, by this node even.
//! The answer about a single instance comes from the registry itself (`protocol.md` 3.7).

use std::time::Duration;

use tracing::debug;

use super::Context;
use super::learned::{Learned, Unheard};
use super::sender::Failure;
use super::skew::PeerClock;
use super::transport::{Call, Wait};
use crate::config::ServiceUrl;
use crate::wire::{self, Dialect, Format, path_segment};

/// Longest answer about an instance, bytes.
const INSTANCE_MAX: usize = 4 << 20;
/// How long it may take.
const INSTANCE_WAIT: Duration = Duration::from_secs(5);

/// Asks for instances and takes over what is new of them. How many that were.
///
/// # Errors
/// Why the rest was not asked for, or not stored.
pub(super) async fn confirm(
    context: &Context,
    url: &ServiceUrl,
    clock: &PeerClock,
    unheard: Vec<Unheard>,
) -> Result<usize, String> {
    let mut taken = 0;
    for one in unheard {
        let path = format!(
            "apps/{}/{}",
            path_segment(one.key.0.as_str()),
            path_segment(one.key.1.as_str())
        );
        let call = Call {
            answer_max: INSTANCE_MAX,
            ..Call::get(&path, Wait::of(INSTANCE_WAIT))
        };
        let asked = context.clock.now().wall;
        let sent = context.transport.send(url, call).await;
        let answer = sent.map_err(|failure| failure.to_string())?;
        if answer.identity().is_some() {
            // Another node is there by now, which is compared.
            return Ok(taken);
        }
        if !matches!(answer.status, 200 | 404) {
            return Err(Failure::Status(answer.status).to_string());
        }
        let answered = context.clock.now().wall;
        let skew = clock.heard(answer.skew(asked, answered), answered);
        let (log, past, limits) = (context.log.clone(), context.past.clone(), context.limits);
        let judging = tokio::task::spawn_blocking(move || {
            let there = if answer.status == 404 {
                None
            } else {
                let (body, now) = (&answer.body, answered.signed());
                let read =
                    wire::decode_registration(body, Format::Json, Dialect::Tolerant, &limits, now);
                Some(read.map_err(|error| format!("an instance cannot be read: {error}"))?)
            };
            let registry = &log.snapshot().registry;
            Ok::<Learned, String>(one.confirmed(there, skew, registry, &*past))
        });
        let learned = judging.await.map_err(|error| error.to_string())??;
        if learned.refused > 0 {
            debug!(peer.url = %url, "{path} at {url} is no valid instance");
        }
        if learned.commands.is_empty() {
            continue;
        }
        let stored = context.store_of(url, learned.commands).await;
        stored.map_err(|why| format!("what is newer there was not stored: {why}"))?;
        context.states.count_repaired(&url.to_string(), 1);
        taken += 1;
    }
    Ok(taken)
}
