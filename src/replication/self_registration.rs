//! The node as an instance in its own registry, as the Java server registers itself at its peers
//! (`register-with-eureka`): Java peers list it as available by that. It goes through the log like
//! any client's registration, and so reaches the peers.

use std::sync::Arc;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Context;
use crate::changelog::Request;
use crate::config::Config;
use crate::registry::change::{Actor, Origin};
use crate::registry::command::{Command, Renewal, Reply};
use crate::registry::instance::Instance;

/// Registers, renews at the configured interval, and cancels when the node leaves.
pub(super) async fn run(context: Arc<Context>, config: Arc<Config>, leave: CancellationToken) {
    let started = context.clock.now().wall.signed();
    let own = crate::own_instance::describe(&config.instance, started);
    let (app, id) = (own.app.clone(), own.id());
    if register(&context, own.clone()).await {
        info!(app.name = %app, instance.id = %id, "registered this node as {app}/{id}");
    }
    let mut interval = tokio::time::interval(config.instance.renewal_interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = leave.cancelled() => break,
            _ = interval.tick() => {}
        }
        let renewal = Renewal {
            dirty: Some(own.last_dirty_timestamp),
            overridden: None,
        };
        match context.log.renew(app.as_str(), id.as_str(), renewal, false) {
            Ok(Reply::NotFound | Reply::SenderIsNewer) | Err(_) => {
                register(&context, own.clone()).await;
            }
            Ok(_) => {}
        }
    }
    if config.peers.unregister_on_shutdown {
        let command = Command::Cancel {
            app,
            id,
            version: None,
        };
        submit(&context, command).await;
    }
}

/// Says whether it is registered now; the log has been told why not.
async fn register(context: &Context, own: Instance) -> bool {
    submit(context, Command::Register(own.into())).await
}

async fn submit(context: &Context, command: Command) -> bool {
    let request = Request {
        commands: vec![command],
        origin: Origin::Client,
        actors: Actor {
            principal: Some("eurekad".into()),
            ..Actor::default()
        }
        .into(),
    };
    match context.log.submit(request).await {
        Ok(replies) => {
            let [Reply::TooManyInstances(most)] = replies[..] else {
                return true;
            };
            warn!(
                most,
                "this node is not registered itself: there are {most} instances, as many as \
                 eurekad.max-instances allows"
            );
        }
        Err(why) => warn!(reason = %why, "the node's own registration was not stored: {why}"),
    }
    false
}
