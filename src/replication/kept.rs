//! The addresses that peers' hosts had last, for connections that are made while DNS does not answer. A
//! peer that can be reached is not to be cut off by a reset during an outage of DNS; that is what
//! [`super::membership`] does for the list of peers, done for the way to each of them.
//!
//! That DNS does not answer, fails or takes too long says nothing about the host, so its addresses are kept
//! until the next answer, however long that takes. The answer that there is no such name does say
//! something: an address that has lost its name may become that of a node of another cluster, into which
//! this node must not replicate. As such an answer may be a slip (zones are reloaded, services restarted),
//! the addresses outlive it for [`NOBODY_KEEPS`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use tracing::{info, warn};

use super::dns::LookUpError;
use crate::types::Millis;

/// More hosts than there can be peers ([`super::membership`]); beyond, the one that was not asked for
/// the longest is forgotten.
const HOSTS_MAX: usize = 512;
/// Addresses of one host.
const ADDRESSES_MAX: usize = 64;
/// How long the addresses of a host are kept after the answer that there is no such name, ms. What comes
/// of look-ups that fail meanwhile changes nothing about it; addresses end it.
pub(super) const NOBODY_KEEPS: u64 = 60_000;

#[derive(Debug)]
struct Host {
    /// Of the last good answer; never none.
    addresses: Vec<IpAddr>,
    /// Whether the last look-up failed.
    is_failing: bool,
    /// When it was answered first, since the last good answer, that there is no such name; monotonic.
    nobody_since: Option<Millis>,
    /// Whether a look-up is on its way.
    is_asked: bool,
    /// When it was asked for last, counted in questions.
    used: u64,
}

/// Addresses by host.
#[derive(Debug, Default)]
pub(super) struct KeptAddresses {
    hosts: Mutex<(u64, HashMap<String, Host>)>,
}

impl KeptAddresses {
    /// What a host had last, and whether a look-up of it is on its way; if not, the caller makes one.
    pub(super) fn ask(&self, host: &str) -> Option<(Vec<IpAddr>, bool)> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let (questions, hosts) = &mut *hosts;
        *questions += 1;
        let known = hosts.get_mut(host)?;
        known.used = *questions;
        let was_asked = std::mem::replace(&mut known.is_asked, true);
        Some((known.addresses.clone(), was_asked))
    }

    /// Takes the end of a look-up at `now` of the monotonic clock. Whether there are addresses to connect
    /// to.
    pub(super) fn take(
        &self,
        host: &str,
        found: Result<&[IpAddr], &LookUpError>,
        now: Millis,
    ) -> bool {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let (questions, hosts) = &mut *hosts;
        let is_known = match (found, hosts.get_mut(host)) {
            (Ok(found), known) => {
                if known.is_some_and(|known| known.is_failing) {
                    info!(host, "{host} can be looked up again");
                }
                let host = host.to_owned();
                hosts.insert(
                    host,
                    Host {
                        addresses: found.iter().take(ADDRESSES_MAX).copied().collect(),
                        is_failing: false,
                        nobody_since: None,
                        is_asked: false,
                        used: *questions,
                    },
                );
                true
            }
            (Err(error), Some(known)) => {
                known.is_asked = false;
                let addresses = known.addresses.len();
                if !std::mem::replace(&mut known.is_failing, true) {
                    warn!(
                        host, %error, addresses,
                        "looking up {host}: {error}; connecting to the {addresses} addresses that it had last"
                    );
                }
                let is_over = *error == LookUpError::Nobody && {
                    let since = *known.nobody_since.get_or_insert(now);
                    now.since(since) >= NOBODY_KEEPS
                };
                if is_over {
                    warn!(
                        host, %error, addresses,
                        "looking up {host}: {error}, as it has been for {} s; forgetting the {addresses} addresses that it had last",
                        NOBODY_KEEPS / 1000
                    );
                    hosts.remove(host);
                }
                !is_over
            }
            (Err(_), None) => false,
        };
        if hosts.len() > HOSTS_MAX {
            let oldest = hosts.iter().min_by_key(|(_, known)| known.used);
            if let Some(host) = oldest.map(|(host, _)| host.clone()) {
                hosts.remove(&host);
            }
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)];
    const START: Millis = Millis(3_600_000);

    #[test]
    fn what_a_host_had_last_outlives_failures_and_goes_with_the_next_answer() {
        let kept = KeptAddresses::default();
        let other = [IpAddr::from([192, 0, 2, 1])];
        assert!(!kept.take("a", Err(&LookUpError::Nobody), START));
        assert_eq!(kept.ask("a"), None, "nothing was ever known");
        assert!(kept.take("a", Ok(&ONE), START));
        assert_eq!(kept.ask("a"), Some((ONE.to_vec(), false)));
        assert_eq!(kept.ask("a"), Some((ONE.to_vec(), true)), "one look-up");
        for error in [
            LookUpError::Nobody,
            LookUpError::Failed("broken".to_owned()),
        ] {
            assert!(kept.take("a", Err(&error), START));
            assert_eq!(kept.ask("a"), Some((ONE.to_vec(), false)));
        }
        assert!(kept.take("a", Ok(&other), START));
        assert_eq!(kept.ask("a"), Some((other.to_vec(), false)));
    }

    #[test]
    fn a_name_that_has_been_gone_for_a_minute_is_forgotten() {
        let kept = KeptAddresses::default();
        let after = |seconds: u64| START.plus(seconds * 1000);
        let nobody = |seconds| kept.take("a", Err(&LookUpError::Nobody), after(seconds));
        let failed = |seconds| {
            let error = LookUpError::TimedOut(std::time::Duration::from_secs(5));
            kept.take("a", Err(&error), after(seconds))
        };
        assert!(kept.take("a", Ok(&ONE), START));
        assert!(failed(0) && failed(1_000_000), "nobody has said anything");
        assert!(nobody(1_000_000) && nobody(1_000_059));
        // Addresses begin it anew.
        assert!(kept.take("a", Ok(&ONE), after(1_000_060)));
        assert!(nobody(1_000_061) && nobody(1_000_120));
        assert!(failed(1_000_121), "that is for an answer to say");
        assert_eq!(kept.ask("a"), Some((ONE.to_vec(), false)));
        assert!(!nobody(1_000_122));
        assert_eq!(kept.ask("a"), None);
        assert!(!failed(1_000_123) && !nobody(1_000_124));
        assert!(kept.take("a", Ok(&ONE), after(1_000_125)));
        assert_eq!(kept.ask("a"), Some((ONE.to_vec(), false)));
    }

    #[test]
    fn hosts_and_addresses_have_a_bound() {
        let kept = KeptAddresses::default();
        let many: Vec<IpAddr> = (0..=255).map(|n| IpAddr::from([10, 0, 0, n])).collect();
        for n in 0..HOSTS_MAX + 100 {
            // What is used stays.
            kept.ask("host-0");
            kept.take(&format!("host-{n}"), Ok(&many), START);
        }
        assert_eq!(kept.hosts.lock().unwrap().1.len(), HOSTS_MAX);
        assert_eq!(kept.ask("host-0").unwrap().0.len(), ADDRESSES_MAX);
        assert_eq!(kept.ask("host-1"), None);
    }
}
