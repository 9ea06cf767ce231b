//! Questions to DNS: addresses, SRV and TXT records, each with its time to live and within a bound of
//! time. What follows from the answers is [`super::membership`]'s affair.
//!
//! SRV and TXT go to the servers of `/etc/resolv.conf`, which is looked at for each question, so that
//! a change of it is heard without a restart. No answer stands in for a later one: whoever asks does so
//! when the time to live is over. Addresses come from the system's own resolver, which knows
//! `/etc/hosts`; only if servers are configured (`eurekad.dns-servers`) these are asked for addresses
//! too. For connections the addresses that a host had last are kept, and used when DNS does not answer or
//! not soon enough; not for longer than a minute once the answer is that there is no such name
//! ([`super::kept`]). The system's resolver does not tell that from a failure, so where it has no
//! addresses, the servers of `/etc/resolv.conf` are asked why.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
    ServerOrderingStrategy,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hyper_util::client::legacy::connect::dns::Name;

use super::kept::KeptAddresses;
use crate::clock::Clock;

/// How long a look-up may take, retries included.
pub(crate) const LOOK_UP_MAX: Duration = Duration::from_secs(5);
/// How long one server may take before the question is sent again.
const TRY_MAX: Duration = Duration::from_millis(1500);
/// How often a question is sent again.
const RETRIES: usize = 2;
/// How long a connection waits for a look-up if there are addresses of before. Short beside the time that
/// a peer is given to answer (0.4 s unless configured), which goes on meanwhile.
const CONNECTION_WAITS: Duration = Duration::from_millis(100);
/// More records of one answer are not read.
const RECORDS_MAX: usize = 1024;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookUpError {
    /// The answer is that there is no such name, or that it has no such records.
    #[error("the name is unknown, or has no records of that type")]
    Nobody,
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    #[error("{0}")]
    Failed(String),
}

/// The records of an answer; never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found<T> {
    pub(crate) records: Vec<T>,
    /// How long they are good for; `None` if nobody said.
    pub(crate) ttl: Option<Duration>,
}

/// The target of an SRV record. Weights are of no use here: every target is a peer. Ordered by
/// priority, so that the first copy of a registry tries the preferred ones first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) priority: u16,
    /// Without a dot at its end.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Who is asked for names.
pub(crate) trait Names: Send + Sync + 'static {
    /// The addresses of a host: of IPv4, or of IPv6 if there are none, unless the system's resolver
    /// gives both.
    fn addresses(
        &self,
        host: &str,
    ) -> impl Future<Output = Result<Found<IpAddr>, LookUpError>> + Send;

    /// The targets of SRV records.
    fn targets(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Found<Target>, LookUpError>> + Send;

    /// The texts of TXT records; a record of several texts counts as several.
    fn texts(&self, name: &str) -> impl Future<Output = Result<Found<String>, LookUpError>> + Send;
}

/// DNS as it is, or at the servers that are configured.
#[derive(Clone, Debug)]
pub(crate) struct Dns {
    /// Empty: the system's.
    servers: Arc<[SocketAddr]>,
    system: Arc<SystemServers>,
    within: Duration,
    /// For connections.
    kept: Arc<KeptAddresses>,
    clock: Arc<dyn Clock>,
}

impl Dns {
    /// `servers` are asked instead of the system's, if there are any; `clock` says how long a name has been
    /// gone.
    pub(crate) fn new(servers: &[SocketAddr], clock: Arc<dyn Clock>) -> Self {
        Self {
            servers: servers.into(),
            system: Arc::new(SystemServers::of("/etc/resolv.conf".into())),
            within: LOOK_UP_MAX,
            kept: Arc::default(),
            clock,
        }
    }

    /// With another bound on the time that a look-up may take.
    #[cfg(test)]
    fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    fn resolver(&self) -> Result<TokioResolver, LookUpError> {
        let provider = TokioRuntimeProvider::default();
        let mut builder = if self.servers.is_empty() {
            let (config, options) = self.system.read()?;
            let mut builder = TokioResolver::builder_with_config(config, provider);
            *builder.options_mut() = options;
            builder
        } else {
            let servers = self.servers.iter().map(name_server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            let mut builder = TokioResolver::builder_with_config(config, provider);
            builder.options_mut().attempts = RETRIES;
            builder
        };
        let options = builder.options_mut();
        options.timeout = options.timeout.min(TRY_MAX);
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        builder.build().map_err(|error| failed(&error))
    }

    /// One question, with as many records of the answer as `read` takes.
    async fn ask<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&RData) -> Vec<T>,
    ) -> Result<Found<T>, LookUpError> {
        let answer = self
            .resolver()?
            .lookup(name, kind)
            .await
            .map_err(|error| match &error {
                NetError::Dns(dns) if is_nobody(dns) => LookUpError::Nobody,
                _ => failed(&error),
            })?;
        found(&answer, read)
    }

    /// Within the bound of time.
    async fn bounded<T>(
        &self,
        look_up: impl Future<Output = Result<Found<T>, LookUpError>>,
    ) -> Result<Found<T>, LookUpError> {
        tokio::time::timeout(self.within, look_up)
            .await
            .unwrap_or(Err(LookUpError::TimedOut(self.within)))
    }

    async fn system_addresses(host: &str) -> Result<Found<IpAddr>, LookUpError> {
        let addresses = tokio::net::lookup_host((host, 0))
            .await
            .map_err(|error| LookUpError::Failed(error.to_string()))?;
        let records: Vec<IpAddr> = addresses
            .map(|address| address.ip())
            .take(RECORDS_MAX)
            .collect();
        if records.is_empty() {
            return Err(LookUpError::Nobody);
        }
        Ok(Found { records, ttl: None })
    }

    /// The addresses of a host at the servers.
    async fn server_addresses(&self, host: &str) -> Result<Found<IpAddr>, LookUpError> {
        let address = |data: &RData| data.ip_addr().into_iter().collect();
        match self.ask(host, RecordType::A, address).await {
            Err(LookUpError::Nobody) => self.ask(host, RecordType::AAAA, address).await,
            answer => answer,
        }
    }

    /// Why the system's resolver has no addresses of a host: it knows more sources than DNS, and its `error`
    /// does not say whether there is no such name or nobody could be asked. What servers have for the name
    /// is not what the system would connect to.
    async fn explained(&self, host: &str, error: LookUpError) -> LookUpError {
        match self.server_addresses(host).await {
            Err(LookUpError::Nobody) => LookUpError::Nobody,
            Ok(_) | Err(_) => error,
        }
    }
}

/// The servers that the system asks. The file is small and on a local disk; what it says is kept as
/// long as it stays the same, since reading it warns of each word that is not understood.
#[derive(Debug)]
struct SystemServers {
    path: PathBuf,
    last: Mutex<Option<(Vec<u8>, ResolverConfig, ResolverOpts)>>,
}

impl SystemServers {
    fn of(path: PathBuf) -> Self {
        Self {
            path,
            last: Mutex::new(None),
        }
    }

    fn read(&self) -> Result<(ResolverConfig, ResolverOpts), LookUpError> {
        let path = self.path.display();
        let text = std::fs::read(&self.path)
            .map_err(|error| LookUpError::Failed(format!("read {path}: {error}")))?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, config, options)) = &*last
            && *read == text
        {
            return Ok((config.clone(), options.clone()));
        }
        let (config, options) = parse_resolv_conf(&text)
            .map_err(|error| LookUpError::Failed(format!("understand {path}: {error}")))?;
        *last = Some((text, config.clone(), options.clone()));
        Ok((config, options))
    }
}

impl Names for Dns {
    async fn addresses(&self, host: &str) -> Result<Found<IpAddr>, LookUpError> {
        self.bounded(async {
            if !self.servers.is_empty() {
                return self.server_addresses(host).await;
            }
            match Self::system_addresses(host).await {
                Err(error) => Err(self.explained(host, error).await),
                found => found,
            }
        })
        .await
    }

    async fn targets(&self, name: &str) -> Result<Found<Target>, LookUpError> {
        let target = |data: &RData| match data {
            // A target "." says that the service is not to be had; no port is none either.
            RData::SRV(srv) if !srv.target.is_root() && srv.port != 0 => {
                let host = srv.target.to_ascii();
                vec![Target {
                    priority: srv.priority,
                    host: host.trim_end_matches('.').to_lowercase(),
                    port: srv.port,
                }]
            }
            _ => Vec::new(),
        };
        self.bounded(self.ask(name, RecordType::SRV, target)).await
    }

    async fn texts(&self, name: &str) -> Result<Found<String>, LookUpError> {
        let texts = |data: &RData| match data {
            RData::TXT(txt) => txt
                .txt_data
                .iter()
                .map(|text| String::from_utf8_lossy(text).into_owned())
                .collect(),
            _ => Vec::new(),
        };
        self.bounded(self.ask(name, RecordType::TXT, texts)).await
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let at = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = vec![at(ConnectionConfig::udp()), at(ConnectionConfig::tcp())];
    NameServerConfig::new(address.ip(), true, connections)
}

/// Whether a server has answered that there is nothing, as opposed to not answering.
fn is_nobody(error: &DnsError) -> bool {
    matches!(
        error,
        DnsError::NoRecordsFound(none)
            if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError)
    )
}

fn failed(error: &NetError) -> LookUpError {
    LookUpError::Failed(error.to_string())
}

/// The records that `read` takes, in the order of the answer.
fn found<T>(answer: &Lookup, read: impl Fn(&RData) -> Vec<T>) -> Result<Found<T>, LookUpError> {
    let records: Vec<T> = answer
        .answers()
        .iter()
        .take(RECORDS_MAX)
        .flat_map(|record| read(&record.data))
        .take(RECORDS_MAX)
        .collect();
    if records.is_empty() {
        return Err(LookUpError::Nobody);
    }
    // The aliases on the way to the records count as well.
    let ttl = answer.answers().iter().map(|record| record.ttl).min();
    Ok(Found {
        records,
        ttl: ttl.map(|seconds| Duration::from_secs(seconds.into())),
    })
}

impl Dns {
    /// The addresses to connect to: those that are found, or, if that fails or takes too long, those that
    /// were found last, unless the name has been gone for a while. The look-up goes on by itself then, so
    /// that its end is heard of.
    async fn ways_to(&self, host: String) -> Result<Vec<IpAddr>, LookUpError> {
        let kept = match self.kept.ask(&host) {
            // Another connection waits for it already.
            Some((addresses, true)) => return Ok(addresses),
            Some((addresses, false)) => Some(addresses),
            None => None,
        };
        let dns = self.clone();
        let look_up = tokio::spawn(async move {
            let (asking, name) = (dns.clone(), host.clone());
            // By itself, so that its end is told even if it panics.
            let asked = tokio::spawn(async move { asking.addresses(&name).await });
            let found = asked
                .await
                .unwrap_or_else(|error| Err(LookUpError::Failed(error.to_string())))
                .map(|found| found.records);
            let now = dns.clock.now().mono;
            let is_known = dns.kept.take(&host, found.as_deref(), now);
            (found, is_known)
        });
        let Some(kept) = kept else {
            // It fails only when the runtime goes down.
            let ended = look_up.await;
            return ended.map_or(Err(LookUpError::Nobody), |(found, _)| found);
        };
        let ended = tokio::time::timeout(CONNECTION_WAITS, look_up).await;
        match ended {
            Ok(Ok((Ok(found), _))) => Ok(found),
            Ok(Ok((Err(error), false))) => Err(error),
            Ok(_) | Err(_) => Ok(kept),
        }
    }
}

/// The same look-up for the connections of the HTTP client.
impl tower_service::Service<Name> for Dns {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, host: Name) -> Self::Future {
        let dns = self.clone();
        Box::pin(async move {
            let found = dns.ways_to(host.as_str().to_owned()).await;
            let found = found.map_err(|error| io::Error::other(error.to_string()))?;
            // The port is the connector's to set.
            let addresses: Vec<SocketAddr> = found
                .into_iter()
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            Ok(addresses.into_iter())
        })
    }
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
