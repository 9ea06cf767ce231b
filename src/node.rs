//! The composition root: builds every part of a node from its configuration, in the order in which
//! they need each other, and takes them down in the reverse one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::cache::{self, ResponseCache};
use crate::changelog::{ChangeLog, StoreHealth, WriterSettings, recover};
use crate::clock::Clock;
use crate::config::{self, Config, OnDamagedStore, OnStoreFailure};
use crate::history::Index;
use crate::history::follow::follow;
use crate::http::server::{ServerSettings, serve};
use crate::http::{Api, Peering, Remembered};
use crate::registry::self_preservation::{RenewalMeter, Settings};
use crate::replication::past::{LogPast, Past};
use crate::replication::reconcile::DigestCache;
use crate::replication::state::PeerStates;
use crate::replication::transport::Identity;
use crate::replication::{self, ReadsGate};
use crate::stopping;
use crate::store::{self, Durability, OnDamage, Opened, Progress, StoreError, StoreOptions};
use crate::timers::Timers;
use crate::tls::TlsClient;
use crate::types::{Millis, millis};

/// Connections that may wait in the system for a place.
const BACKLOG: u32 = 1024;
/// How long a node that stops goes on telling its peers what they do not have yet.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// How long the store may take to close; what was acknowledged is safe before that.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// A running node.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    log: Arc<ChangeLog>,
    stop: CancellationToken,
    /// Cancelled when the peers are to be told the last of it, before anything else but serving stops.
    leave: CancellationToken,
    replicating: TaskTracker,
    /// Cancelled when requests may no longer come, before anything else stops.
    stop_serving: CancellationToken,
    /// Cancelled by whoever does not want a stop to wait for anybody.
    hurry: CancellationToken,
    serving: TaskTracker,
    tasks: TaskTracker,
    on_failure: OnStoreFailure,
}

impl Node {
    /// Recovers the store, then opens the port: nobody is answered before replay is done.
    ///
    /// # Errors
    /// The store cannot be used, or the port cannot be opened; the text says what to do.
    pub async fn start(mut config: Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let started = clock.now().mono;
        let tls = tls_for_peers(&config).await?;
        let rules = Arc::new(
            config
                .compatibility
                .rules(config.registry.sync_when_timestamp_differs, &config.limits),
        );
        let retention_ms = millis(config.registry.delta_retention);

        let options = store_options(&config);
        let copies = config.peers.has_peers() && config.peers.fetch_registry;
        let (recovered, has_to_copy) = {
            let (options, clock, rules) = (options.clone(), clock.clone(), rules.clone());
            // Without space for changes the node serves what it has, as one that runs does.
            let options = StoreOptions {
                opens_when_short: true,
                ..options
            };
            let recovery = move || -> Result<_, StoreError> {
                let opened = store::open(&options, clock.now().wall, &mut tell_progress)?;
                // At once: a start that is stopped here has mended all the same.
                for note in &opened.notes {
                    warn!("the store was mended: {note}");
                }
                if let Some(lost) = &opened.lost {
                    warn!(
                        first_lsn = %lost.first,
                        last_lsn = %lost.last,
                        "acknowledged changes are lost: {lost}"
                    );
                }
                let mut told = 0;
                let mut progress = |done: u64, total: u64| {
                    if done / 100_000 > told {
                        told = done / 100_000;
                        info!(done, total, "replayed {done} of {total} records");
                    }
                };
                let recovered = recover(opened, rules, retention_ms, clock.now(), &mut progress)?;
                let is_empty = recovered.facts.is_empty;
                // Nothing has been written yet: what comes lies behind the mark.
                let has_to_copy = replication::has_to_copy(&*recovered.reader, is_empty, copies)?;
                Ok((recovered, has_to_copy))
            };
            tokio::task::spawn_blocking(recovery)
                .await
                .context("the recovery panicked")?
        }
        .context("cannot start on this data directory")?;
        let facts = recovered.facts.clone();
        let instances = recovered.published.registry.len();
        let lsn = recovered.published.lsn();

        let listener = bind(SocketAddr::new(config.server.address, config.server.port))?;
        let address = listener
            .local_addr()
            .context("reading the port that was opened")?;
        if config.server.port == 0 {
            config.instance.set_port(address.port());
        }
        let config = Arc::new(config);

        let protection = protection_of(&config);
        let phantom = if facts.is_empty {
            config.registry.open_for_traffic_count
        } else {
            0
        };
        let meter = Arc::new(RenewalMeter::new(phantom));
        let (durability, commit_every) = match config.store.durability {
            config::Durability::Sync => (Some(Durability::Disk), None),
            config::Durability::Process => (Some(Durability::Flush), None),
            config::Durability::Interval(every) => (None, Some(every)),
        };
        let opener = {
            let (options, clock) = (options, clock.clone());
            Box::new(move || -> Result<Opened, StoreError> {
                store::open(&options, clock.now().wall, &mut tell_progress)
            })
        };
        // The leases' grace begins now that the node serves.
        let serving_since = clock.now().mono;
        for lease in recovered.published.registry.leases() {
            lease.clock.restart(serving_since);
        }
        let log = ChangeLog::start(
            recovered,
            WriterSettings { durability, opener },
            meter,
            protection,
            clock.clone(),
        )
        .context("starting the change log's writer")?;
        let cache = Arc::new(ResponseCache::new(cache::Settings {
            use_read_only: config.cache.read_only_level,
            early_refresh: config.compatibility.response_cache_early_refresh,
            expire_after: config.cache.expire_after,
            max_bytes: config.cache.max_bytes,
            own_instance_id: config.instance.instance_id.as_str().into(),
        }));
        let gate = Arc::new(ReadsGate::opening_at(reads_open_at(
            &config,
            facts.is_empty,
            has_to_copy,
            serving_since,
        )));
        let identity = Identity {
            node_id: config
                .store
                .node_id
                .clone()
                .unwrap_or_else(|| facts.node_id.clone()),
            boot: format!("{:x}-{:x}", clock.now().wall.0, std::process::id()),
        };
        let digests = Arc::new(DigestCache::default());
        let peer_states = Arc::new(PeerStates::default());
        let index = Arc::new(Index::in_data_dir(&config.store.data_dir));
        let past: Arc<dyn Past> = Arc::new(LogPast::new(log.clone(), index.clone()));
        let api = Arc::new(Api::new(
            config.clone(),
            log.clone(),
            cache.clone(),
            clock.clone(),
            Peering {
                gate: gate.clone(),
                states: peer_states.clone(),
                digests: digests.clone(),
                past: past.clone(),
                identity: identity.clone(),
            },
            Remembered {
                index: index.clone(),
                incarnation: facts.incarnation.clone(),
            },
        ));

        let [stop, stop_serving, hurry] = std::array::from_fn(|_| CancellationToken::new());
        let (serving, tasks) = (TaskTracker::new(), TaskTracker::new());
        let (leave, replicating) = (stop.child_token(), TaskTracker::new());
        Timers {
            config: config.clone(),
            log: log.clone(),
            cache,
            traveller: api.traveller(),
            clock: clock.clone(),
            checkpoint_lsn: facts.checkpoint_lsn,
            commit_every,
        }
        .start(&tasks, &stop);
        tasks.spawn(api.feed.clone().follow(stop_serving.clone()));
        if config.store.history_index {
            tasks.spawn(follow(log.clone(), index, stop.clone()));
        }
        serving.spawn(serve(
            listener,
            api,
            ServerSettings {
                max_connections: config.server.max_connections,
                header_timeout: config.server.header_timeout,
                idle_timeout: config.server.idle_timeout,
                max_header_bytes: config.server.max_header_bytes,
                grace: config.server.shutdown_grace,
            },
            stop_serving.clone(),
            hurry.clone(),
        ));

        // A node that is to register itself does so even if nobody else would hear of it.
        if config.peers.has_peers() || config.peers.register_with_eureka {
            replication::start(
                replication::Parts {
                    config: config.clone(),
                    log: log.clone(),
                    clock: clock.clone(),
                    states: peer_states,
                    digests,
                    past,
                    identity,
                    incarnation: facts.incarnation.clone(),
                    has_to_copy,
                    tls,
                    gate,
                },
                &replicating,
                &stop_serving,
                &leave,
                &stop,
            );
        }

        let duration_ms = clock.now().mono.since(started);
        info!(
            port = address.port(),
            data_dir = %config.store.data_dir.display(),
            instances,
            %lsn,
            checkpoint_lsn = %facts.checkpoint_lsn,
            replayed = facts.replayed,
            duration_ms,
            node_id = %facts.node_id,
            profile = config::Choice::as_str(config.compatibility.profile),
            "serving on port {}, {instances} instances recovered at LSN {lsn} from {} in {duration_ms} ms",
            address.port(),
            config.store.data_dir.display(),
        );
        Ok(Self {
            address,
            log,
            stop,
            leave,
            replicating,
            stop_serving,
            hurry,
            serving,
            tasks,
            on_failure: config.store.on_failure,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The change log, for tests and tools inside the process.
    pub fn log(&self) -> &Arc<ChangeLog> {
        &self.log
    }

    /// Waits for a failure that must end the node (`on-store-failure: exit`, or a dead writer).
    pub async fn failed(&self) -> String {
        let mut health = self.log.health();
        loop {
            let state = health.borrow_and_update().clone();
            match state {
                StoreHealth::Failed(reason)
                    if self.on_failure == OnStoreFailure::Exit || self.log.has_ended() =>
                {
                    return reason;
                }
                StoreHealth::Closed => return "the change log's writer has ended".into(),
                StoreHealth::Failed(_) | StoreHealth::Working => {}
            }
            if health.changed().await.is_err() {
                return "the change log is gone".into();
            }
        }
    }

    /// Whoever cancels this has [`Node::stop`] wait neither for requests nor for peers; the store is closed
    /// in order all the same.
    pub fn hurry(&self) -> CancellationToken {
        self.hurry.clone()
    }

    /// Stops accepting, lets requests finish, takes back its own registration and tells the peers what
    /// they do not have yet, stops the timers, commits and closes the store. Takes at most the configured
    /// grace and a few seconds.
    ///
    /// # Errors
    /// The store could not be closed cleanly; nothing that was acknowledged is lost by that.
    pub async fn stop(self) -> Result<()> {
        self.stop_serving.cancel();
        self.serving.close();
        self.serving.wait().await;
        self.leave.cancel();
        self.replicating.close();
        let tell = || {
            let most = LEAVE_MAX.as_secs();
            info!("telling the peers what they do not have yet, for up to {most} s");
        };
        if !stopping::wait(self.replicating.wait(), LEAVE_MAX, &self.hurry, tell).await {
            warn!(
                "stopping before every peer has heard everything: they hear the rest after the next start"
            );
        }
        self.stop.cancel();
        self.tasks.close();
        let closing = async {
            self.replicating.wait().await;
            self.tasks.wait().await;
            self.log.close().await
        };
        match tokio::time::timeout(CLOSE_MAX, closing).await {
            Ok(Ok(())) => {
                info!(lsn = %self.log.published().lsn(), "stopped");
                Ok(())
            }
            Ok(Err(reason)) => {
                error!(%reason, "closing the store: {reason}");
                bail!("closing the store: {reason}")
            }
            Err(_) => bail!("the store did not close within {} s", CLOSE_MAX.as_secs()),
        }
    }
}

/// `SO_REUSEADDR`, so that a restart does not wait for the connections of the life before.
fn bind(address: SocketAddr) -> Result<TcpListener> {
    let attempt = || {
        let socket = if address.is_ipv4() {
            tokio::net::TcpSocket::new_v4()?
        } else {
            tokio::net::TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    attempt().map_err(|error| {
        let advice = advice_on_bind(&error, address);
        anyhow::Error::new(error).context(format!("cannot open {address}: {advice}"))
    })
}

/// What can be done about a port that cannot be listened on.
fn advice_on_bind(error: &std::io::Error, address: SocketAddr) -> String {
    use std::io::ErrorKind as K;
    let (ip, port) = (address.ip(), address.port());
    match error.kind() {
        K::AddrInUse => format!(
            "another program listens on port {port}; stop it, or choose another port with --server.port"
        ),
        K::AddrNotAvailable => format!(
            "{ip} is no address of this machine; choose one of its own with --server.address, or \
             0.0.0.0 for all"
        ),
        K::PermissionDenied => format!(
            "this user may not listen on port {port} (those below 1024 want rights of their own); \
             choose another with --server.port, or grant CAP_NET_BIND_SERVICE"
        ),
        _ => "check --server.address and --server.port".to_owned(),
    }
}

/// What connections to peers over https are made with. The files are looked at before anything is
/// opened, and not at all where no URL is https.
async fn tls_for_peers(config: &Config) -> Result<TlsClient> {
    if !config.peers.uses_tls() {
        return TlsClient::without_roots().context("setting up TLS");
    }
    let files = config.peers.tls.clone();
    let tls = tokio::task::spawn_blocking(move || TlsClient::load(&files))
        .await
        .context("reading the files for TLS panicked")?
        .context(
            "cannot set up https to peers (eurekad.peer-ca-file, eurekad.peer-cert-file, \
             eurekad.peer-key-file)",
        )?;
    if tls.roots() == 0 {
        warn!(
            "no certification authority is trusted, so no peer over https can be reached: the system \
             has none; install its ca-certificates or name a file in eurekad.peer-ca-file"
        );
    }
    Ok(tls)
}

fn tell_progress(progress: Progress) {
    match progress {
        Progress::WaitingForLock { pid } => {
            let whose = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            warn!("another eurekad{whose} uses the data directory, waiting for it to end");
        }
        Progress::Copying { done, of } => info!(done, of, "copied {done} of {of} bytes"),
        Progress::Opening => info!("opening the store"),
        Progress::Mending(what) => warn!("mending the store: {what}"),
        Progress::Migrating { name, done } => info!(done, "migrating the store: {name}"),
        Progress::Salvaging { records } => info!(records, "saved {records} records"),
        Progress::Verifying { records } => info!(records, "verified {records} records"),
        Progress::LoadingCheckpoint { lsn } => info!(%lsn, "loading the checkpoint at LSN {lsn}"),
    }
}

/// When cached reads are answered at the latest (`protocol.md` 5.7): at once, unless the registry has to
/// be copied from a peer first, or nothing was recovered and the count given at opening is 0.
fn reads_open_at(config: &Config, is_empty: bool, has_to_copy: bool, now: Millis) -> Millis {
    if has_to_copy || (is_empty && config.registry.open_for_traffic_count == 0) {
        now.plus(millis(config.registry.wait_when_sync_empty))
    } else {
        Millis::ZERO
    }
}

fn store_options(config: &Config) -> StoreOptions {
    let settings = &config.store;
    StoreOptions {
        // Zero stands for no bound.
        history_max_age_ms: match millis(settings.history_max_age) {
            0 => u64::MAX,
            age => age,
        },
        history_max_bytes: match settings.history_max_bytes {
            0 => u64::MAX,
            bytes => bytes,
        },
        lock_wait_ms: millis(settings.lock_wait),
        min_free_bytes: settings.min_free_bytes,
        on_damage: match settings.on_damage {
            // Moving aside by itself takes peers to copy from.
            OnDamagedStore::Auto if config.peers.has_peers() => OnDamage::MoveAside,
            OnDamagedStore::Refuse | OnDamagedStore::Auto => OnDamage::Refuse,
            OnDamagedStore::MoveAside => OnDamage::MoveAside,
            OnDamagedStore::KeepRest => OnDamage::KeepRest,
        },
        ..StoreOptions::new(&settings.data_dir)
    }
}

fn protection_of(config: &Config) -> Settings {
    let registry = &config.registry;
    Settings {
        enabled: registry.self_preservation,
        renewal_percent_threshold: registry.renewal_percent_threshold,
        expected_client_renewal_interval_secs: registry.expected_client_renewal_interval.as_secs(),
        max_protection_ms: millis(registry.max_protection_time),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn each_cause_of_a_port_that_cannot_be_opened_has_its_own_advice() {
        let address = SocketAddr::from(([192, 0, 2, 1], 80));
        for (kind, advice) in [
            (ErrorKind::AddrInUse, "another program listens on port 80"),
            (
                ErrorKind::AddrNotAvailable,
                "192.0.2.1 is no address of this machine",
            ),
            (
                ErrorKind::PermissionDenied,
                "this user may not listen on port 80",
            ),
            (ErrorKind::Other, "check --server.address"),
        ] {
            let told = advice_on_bind(&Error::from(kind), address);
            assert!(told.starts_with(advice), "{told}");
        }
    }
}
