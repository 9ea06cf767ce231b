//! Who the peers are at this moment: the service URLs of the configuration, and what DNS makes of
//! them (design 4, `protocol.md` 7.7).
//!
//! Each entry of the configuration is a source: a URL that is one peer, a host name that may stand
//! for one at each of its addresses (a headless Kubernetes service), the name of SRV records, or the
//! TXT records of a region as the original has them. A source that looks something up does so again
//! when the time to live of the answer is over. If it gets no answer, or an empty one, what it last
//! stood for remains: a broken name server takes no cluster apart.
//!
//! Look-ups are [`super::dns`]'s, tasks are the caller's. A node leaves itself out by its names and
//! ports ([`PeersConfig::is_own`]); what it does not recognise, its task does, by the node's id.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};

use super::dns::{Found, LOOK_UP_MAX, LookUpError, Names, Target};
use crate::config::{DnsPeers, PeersByAddress, PeersConfig, ServiceUrl};

/// Least time between two look-ups of one source, however short its records live.
const REFRESH_MIN: Duration = Duration::from_secs(5);
/// Time to live where nobody tells one: the system's resolver does not.
const TTL_ASSUMED: Duration = Duration::from_secs(30);
/// A look-up that fails is repeated after `REFRESH_MIN`, then after twice that, up to this power of two.
const BACK_OFF_MAX: u32 = 4;
/// More peers than this are left out.
const PEERS_MAX: usize = 256;
/// More zones of a region than this are left out.
const ZONES_MAX: usize = 64;

/// One entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// One peer.
    Url(ServiceUrl),
    /// A host name that may stand for several peers.
    Host(ServiceUrl, PeersByAddress),
    /// `srv+http://`.
    Srv(ServiceUrl),
    /// `txt.REGION.NAME`, then `txt.ZONE.NAME` for each zone.
    Txt {
        dns: DnsPeers,
        region: String,
        /// The zone that comes first.
        own_zone: String,
    },
}

/// What a look-up of one entry has found.
type Seen = Found<ServiceUrl>;

/// How the last look-up of a source ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    Unasked,
    Answered,
    /// The answer was that there is nobody.
    Nobody,
    Failing,
}

/// What is known of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Of the last good answer.
    urls: Vec<ServiceUrl>,
    condition: Condition,
    /// Look-ups without a good answer since the last good one.
    failures: u32,
}

impl Known {
    /// Takes the result of a look-up. Whether the condition changed, which is worth a line in the log.
    fn take(&mut self, result: Result<Vec<ServiceUrl>, &LookUpError>) -> bool {
        let before = self.condition;
        match result {
            Ok(urls) => {
                self.urls = urls;
                self.failures = 0;
                self.condition = Condition::Answered;
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.condition = match error {
                    LookUpError::Nobody => Condition::Nobody,
                    LookUpError::TimedOut(_) | LookUpError::Failed(_) => Condition::Failing,
                };
            }
        }
        before != self.condition
    }

    /// How long until the next look-up: the time to live within bounds, or the back-off.
    fn pause(&self, ttl: Option<Duration>, interval: Duration) -> Duration {
        let least = REFRESH_MIN.min(interval);
        let pause = match self.failures {
            0 => ttl.unwrap_or(TTL_ASSUMED),
            failures => least * 2_u32.pow((failures - 1).min(BACK_OFF_MAX)),
        };
        pause.clamp(least, interval)
    }
}

#[derive(Debug)]
struct Source {
    entry: Arc<Entry>,
    known: Known,
    /// Of the next look-up; `None` if there is nothing to look up.
    due: Option<Instant>,
}

impl Source {
    fn new(entry: Entry) -> Self {
        let due = (!matches!(entry, Entry::Url(_))).then(Instant::now);
        Self {
            entry: entry.into(),
            known: Known::default(),
            due,
        }
    }

    /// What the source stands for now.
    fn urls(&self) -> &[ServiceUrl] {
        match (&*self.entry, self.known.condition) {
            (Entry::Url(url), _) => std::slice::from_ref(url),
            // A name that nobody has known yet stands for itself, so that the failure shows.
            (Entry::Host(url, _), Condition::Nobody | Condition::Failing)
                if self.known.urls.is_empty() =>
            {
                std::slice::from_ref(url)
            }
            _ => &self.known.urls,
        }
    }

    /// Whether it is known for whom it stands, if only that it is for nobody.
    fn is_settled(&self) -> bool {
        match &*self.entry {
            Entry::Url(_) => true,
            Entry::Host(..) => self.known.condition != Condition::Unasked,
            Entry::Srv(_) | Entry::Txt { .. } => {
                !self.known.urls.is_empty()
                    || matches!(
                        self.known.condition,
                        Condition::Answered | Condition::Nobody
                    )
            }
        }
    }

    /// Takes the result of a look-up, and says so where something has changed.
    fn take(&mut self, result: Result<Seen, LookUpError>, now: Instant, interval: Duration) {
        let name = self.entry.name();
        let ttl = result.as_ref().ok().and_then(|seen| seen.ttl);
        let first = self.known.condition == Condition::Unasked;
        match result {
            Ok(seen) => {
                let mut urls = self.entry.urls_of(seen.records, &self.known.urls);
                if urls.len() > PEERS_MAX && self.known.urls.len() < PEERS_MAX {
                    let found = urls.len();
                    warn!(
                        name,
                        found,
                        "{name} stands for {found} peers: going on with the first {PEERS_MAX}"
                    );
                }
                urls.truncate(PEERS_MAX);
                let changed = self.known.take(Ok(urls));
                if changed && !first {
                    info!(name, "{name} can be looked up again");
                }
            }
            Err(error) => {
                let changed = self.known.take(Err(&error));
                let left = self.urls().len();
                if changed {
                    warn!(
                        name, %error, peers = left,
                        "looking up {name}: {error}; going on with the {left} peers that are known"
                    );
                }
            }
        }
        self.due = Some(now + self.known.pause(ttl, interval));
    }
}

impl Entry {
    fn of_url(url: &ServiceUrl, by_address: PeersByAddress) -> Self {
        let host = url.host.trim_end_matches('.').to_ascii_lowercase();
        let is_fixed = host.parse::<IpAddr>().is_ok()
            || host == "localhost"
            || host.ends_with(".localhost")
            // Its certificate is for the name.
            || (url.secure && by_address == PeersByAddress::Auto)
            || by_address == PeersByAddress::Never;
        if url.by_srv {
            Self::Srv(url.clone())
        } else if is_fixed {
            Self::Url(url.clone())
        } else {
            Self::Host(url.clone(), by_address)
        }
    }

    /// For the log; without credentials.
    fn name(&self) -> String {
        match self {
            Self::Url(url) | Self::Host(url, _) | Self::Srv(url) => url.to_string(),
            Self::Txt { dns, region, .. } => format!("txt.{region}.{}", dns.name),
        }
    }

    /// The peers that an answer stands for, given those of the answer before.
    fn urls_of(&self, urls: Vec<ServiceUrl>, before: &[ServiceUrl]) -> Vec<ServiceUrl> {
        match self {
            Self::Host(url, PeersByAddress::Auto) => {
                // What has been several peers once remains that, else each restart of a peer would
                // make another one out of those that are left.
                let was_several = before.iter().any(|before| before.host != url.host);
                if urls.len() > 1 || was_several {
                    urls
                } else {
                    vec![url.clone()]
                }
            }
            Self::Url(_) | Self::Host(..) | Self::Srv(_) | Self::Txt { .. } => urls,
        }
    }

    /// Asks for what the entry names.
    async fn look_up(&self, names: &impl Names) -> Result<Seen, LookUpError> {
        match self {
            Self::Url(url) => Ok(Found {
                records: vec![url.clone()],
                ttl: None,
            }),
            Self::Host(url, _) => {
                let found = names.addresses(&url.host).await?;
                let urls = by_address(url, &found.records);
                some(urls, found.ttl)
            }
            Self::Srv(url) => {
                let found = names.targets(&url.host).await?;
                some(by_target(url, found.records), found.ttl)
            }
            Self::Txt {
                dns,
                region,
                own_zone,
            } => by_texts(names, dns, region, own_zone).await,
        }
    }
}

/// Nobody, if there is no URL.
fn some(urls: Vec<ServiceUrl>, ttl: Option<Duration>) -> Result<Seen, LookUpError> {
    if urls.is_empty() {
        return Err(LookUpError::Nobody);
    }
    Ok(Found { records: urls, ttl })
}

/// One URL at each address, in their order. Of one family only, for a node that has an address of each
/// is one peer: IPv4 if there is any.
fn by_address(url: &ServiceUrl, addresses: &[IpAddr]) -> Vec<ServiceUrl> {
    let usable: BTreeSet<IpAddr> = addresses
        .iter()
        .map(IpAddr::to_canonical)
        .filter(|address| !address.is_unspecified() && !address.is_multicast())
        .collect();
    let has_v4 = usable.iter().any(IpAddr::is_ipv4);
    usable
        .into_iter()
        .filter(|address| address.is_ipv4() == has_v4)
        .map(|address| url.at(address.to_string(), url.port))
        .collect()
}

/// One URL for each target, the preferred ones first.
fn by_target(url: &ServiceUrl, targets: Vec<Target>) -> Vec<ServiceUrl> {
    let targets: BTreeSet<Target> = targets.into_iter().collect();
    targets
        .into_iter()
        .filter(|target| ServiceUrl::is_host(&target.host))
        .map(|target| url.at(target.host, target.port))
        .collect()
}

/// The servers of all zones of a region, the own zone's first. A zone without records has no servers;
/// a zone that cannot be looked up fails all, so that its servers stay.
async fn by_texts(
    names: &impl Names,
    dns: &DnsPeers,
    region: &str,
    own_zone: &str,
) -> Result<Seen, LookUpError> {
    let domain = dns.name.trim_matches('.');
    // Names as they stand, never with the machine's search list behind them.
    let found = names.texts(&format!("txt.{region}.{domain}.")).await?;
    let mut ttl = found.ttl;
    let mut urls = Vec::new();
    for zone in zones(&found.records, domain, own_zone) {
        match names.texts(&format!("txt.{zone}.")).await {
            Ok(found) => {
                ttl = ttl.into_iter().chain(found.ttl).min();
                let servers: BTreeSet<String> = words(&found.records).collect();
                urls.extend(servers.iter().filter_map(|server| server_url(server, dns)));
            }
            Err(LookUpError::Nobody) => {}
            Err(error) => return Err(error),
        }
    }
    some(urls, ttl)
}

/// The full names of the zones, each once, the own one first.
fn zones(texts: &[String], domain: &str, own_zone: &str) -> Vec<String> {
    let in_full = format!(".{}", domain.to_ascii_lowercase());
    let zones: BTreeSet<String> = words(texts)
        .map(|zone| {
            let zone = zone.trim_end_matches('.').to_ascii_lowercase();
            if zone.ends_with(&in_full) {
                zone
            } else {
                zone + &in_full
            }
        })
        .collect();
    let own = format!("{}{in_full}", own_zone.to_ascii_lowercase());
    let mut zones: Vec<String> = zones.into_iter().collect();
    zones.sort_by_key(|zone| *zone != own);
    zones.truncate(ZONES_MAX);
    zones
}

/// Names that stand in texts, between blanks or commas, without the quotes that some tools leave in.
fn words(texts: &[String]) -> impl Iterator<Item = String> {
    texts
        .iter()
        .flat_map(|text| text.split(|c: char| c.is_whitespace() || c == ',' || c == '"'))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// The URL of a server of a TXT record: a host, or a host and its port.
fn server_url(server: &str, dns: &DnsPeers) -> Option<ServiceUrl> {
    let server = server.trim_end_matches('.').to_ascii_lowercase();
    let context = &dns.context;
    // No path and no credentials of DNS's making.
    if server.contains(['/', '@']) {
        return None;
    }
    // A host alone, with the port that all share, or one that brings its own.
    ServiceUrl::parse(&format!("http://{server}:{}/{context}", dns.port))
        .or_else(|| ServiceUrl::parse(&format!("http://{server}/{context}")))
}

/// The peers of one node, kept up to date.
#[derive(Debug)]
pub(super) struct Membership<N> {
    names: Arc<N>,
    config: PeersConfig,
    /// In the order of the configuration, nearest zone first.
    sources: Vec<Source>,
}

impl<N: Names> Membership<N> {
    pub(super) fn new(config: &PeersConfig, names: N) -> Self {
        let entries: Vec<Entry> = match &config.dns {
            // As in the original, they take the place of the service URLs.
            Some(dns) => vec![Entry::Txt {
                dns: dns.clone(),
                region: config.region.clone(),
                own_zone: config.zones().first().copied().unwrap_or("").to_owned(),
            }],
            None => config
                .urls()
                .into_iter()
                .map(|url| Entry::of_url(url, config.by_address))
                .collect(),
        };
        Self {
            names: Arc::new(names),
            config: config.clone(),
            sources: entries.into_iter().map(Source::new).collect(),
        }
    }

    /// The peers as far as they are known, each once, without this node as far as its URL shows it.
    pub(super) fn urls(&self) -> Vec<ServiceUrl> {
        let mut seen = BTreeSet::new();
        self.sources
            .iter()
            .flat_map(Source::urls)
            .filter(|url| !self.config.is_own(url) && seen.insert(url.to_string()))
            .take(PEERS_MAX)
            .cloned()
            .collect()
    }

    /// Whether DNS has told who the peers are: if not, there may be more than [`Self::urls`] has.
    pub(super) fn is_settled(&self) -> bool {
        self.sources.iter().all(Source::is_settled)
    }

    /// Returns when something is to be looked up; never, if nothing ever is.
    pub(super) async fn due(&self) {
        match self.sources.iter().filter_map(|source| source.due).min() {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Looks up what is due, all of it at the same time, and takes at most [`LOOK_UP_MAX`].
    pub(super) async fn refresh(&mut self) {
        let mut look_ups = JoinSet::new();
        let now = Instant::now();
        for (place, source) in self.sources.iter_mut().enumerate() {
            if source.due.is_none_or(|due| due > now) {
                continue;
            }
            let (names, entry) = (self.names.clone(), source.entry.clone());
            // Holds if the look-up panics; else its result sets another one.
            source.due = Some(now + REFRESH_MIN);
            look_ups.spawn(async move {
                let look_up = tokio::time::timeout(LOOK_UP_MAX, entry.look_up(&*names));
                let result = look_up
                    .await
                    .unwrap_or(Err(LookUpError::TimedOut(LOOK_UP_MAX)));
                (place, result)
            });
        }
        while let Some(ended) = look_ups.join_next().await {
            if let Ok((place, result)) = ended
                && let Some(source) = self.sources.get_mut(place)
            {
                source.take(result, Instant::now(), self.config.update_interval);
            }
        }
    }
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
