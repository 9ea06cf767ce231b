//! What was said at a Java peer while nobody heard it here: the reading of its whole registry by a node that has one
//! itself, and the taking over of what changed there lately. Such a node replicates a change for half a minute, and
//! then never again; overrides and metadata that were put there would be missing here for good. What is taken
//! over, [`super::learned`] says.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Context;
use super::confirm::confirm;
use super::learned::{self, Learned, Unheard};
use super::sender::Failure;
use super::skew::PeerClock;
use super::transport::Call;
use crate::config::ServiceUrl;
use crate::wire;

/// Tries before a look is given up.
const TRIES: u32 = 5;
/// Between two of them.
const TRY_PAUSE: Duration = Duration::from_secs(30);
/// A try takes no longer.
const LOOK_MAX: Duration = Duration::from_mins(5);

/// Reads the registry of a peer and takes over what is newer there, beside what its sender does. One look of
/// a node at a time, so that there is memory for one answer only.
pub(super) async fn look(
    context: Arc<Context>,
    url: ServiceUrl,
    clock: Arc<PeerClock>,
    stop: CancellationToken,
) {
    let looking = async {
        for left in (0..TRIES).rev() {
            let looked = match context.looks.acquire().await {
                Ok(_permit) => look_once(&context, &url, &clock).await,
                // Nobody closes it.
                Err(error) => Err(error.to_string()),
            };
            match looked {
                Ok(()) => return,
                Err(why) if left == 0 => {
                    warn!(
                        peer.url = %url, error = %why,
                        "giving up reading the registry of {url}, overrides that were set there while nobody heard of \
                         it here may be missing: {why}"
                    );
                }
                Err(why) => {
                    debug!(peer.url = %url, error = %why, "reading the registry of {url} again: {why}");
                    tokio::time::sleep(TRY_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = context.finish.cancelled() => {}
        () = looking => {}
    }
}

async fn look_once(context: &Context, url: &ServiceUrl, clock: &PeerClock) -> Result<(), String> {
    let call = Call::get("apps/", context.copy_wait(LOOK_MAX));
    let asked = context.clock.now().wall;
    let answer = context
        .transport
        .send(url, call)
        .await
        .map_err(|failure| failure.to_string())?;
    if answer.status != 200 {
        return Err(Failure::Status(answer.status).to_string());
    }
    if answer.identity().is_some() {
        // Another node is there by now, which is compared.
        return Ok(());
    }
    let (log, past, limits) = (context.log.clone(), context.past.clone(), context.limits);
    let answered = context.clock.now().wall;
    let skew = clock.heard(answer.skew(asked, answered), answered);
    let now = answered.signed();
    let reading = tokio::task::spawn_blocking(move || {
        let list = wire::decode_applications(&answer.body, &limits, now)
            .map_err(|error| format!("it cannot be read: {error}"))?;
        drop(answer);
        let mut learned =
            learned::learn(list.drafts, false, skew, &log.snapshot().registry, &*past);
        learned.refused += list.refused;
        Ok::<Learned, String>(learned)
    });
    let learned = reading.await.map_err(|error| error.to_string())??;
    let unjudged = learned.unjudged();
    let Learned {
        instances,
        refused,
        commands,
        unheard,
        ..
    } = learned;
    if refused > 0 {
        warn!(peer.url = %url, refused, "{refused} instances of {url} cannot be read");
    }
    if let Some(why) = unjudged {
        return Err(why);
    }
    if !commands.is_empty() {
        let stored = context.store_of(url, commands).await;
        stored.map_err(|why| format!("what is newer there was not stored: {why}"))?;
        context
            .states
            .count_repaired(&url.to_string(), instances as u64);
    }
    let confirmed = confirm(context, url, clock, unheard).await?;
    let count = instances + confirmed;
    if count == 0 {
        debug!(peer.url = %url, "{url} has nothing that was not heard here");
    } else {
        said(url, count);
    }
    Ok(())
}

/// Takes over what changed lately at a Java peer and was not heard here, as far as the peer confirms it.
pub(super) async fn take_over(
    context: &Context,
    url: &ServiceUrl,
    clock: &PeerClock,
    unheard: Vec<Unheard>,
    stop: &CancellationToken,
) {
    let confirming = async {
        match confirm(context, url, clock, unheard).await {
            Ok(0) => {}
            Ok(count) => said(url, count),
            // What is not known yet is heard of again.
            Err(why) => {
                debug!(peer.url = %url, error = %why, "what changed lately at {url} is not confirmed: {why}");
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = context.finish.cancelled() => {}
        () = confirming => {}
    }
}

fn said(url: &ServiceUrl, count: usize) {
    info!(
        peer.url = %url, count,
        "{count} changes at {url} that nobody had heard of here are taken over"
    );
}
