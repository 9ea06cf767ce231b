//! The addresses that peers' hosts had last, for connections that are made while DNS does not answer. A
//! peer that can be reached is not to be cut off by a reset during an outage of DNS; that is what
//! [`super::membership`] does for the list of peers, done for the way to each of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use tracing::{info, warn};

use super::dns::LookUpError;

/// More hosts than there can be peers ([`super::membership`]); beyond, the one that was not asked for
/// the longest is forgotten.
const HOSTS_MAX: usize = 512;
/// Addresses of one host.
const ADDRESSES_MAX: usize = 64;

#[derive(Debug)]
struct Host {
    /// Of the last good answer; never none.
    addresses: Vec<IpAddr>,
    /// Whether the last look-up failed.
    is_failing: bool,
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

    /// Takes the end of a look-up.
    pub(super) fn take(&self, host: &str, found: Result<&[IpAddr], &LookUpError>) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let (questions, hosts) = &mut *hosts;
        match (found, hosts.get_mut(host)) {
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
                        is_asked: false,
                        used: *questions,
                    },
                );
            }
            (Err(error), Some(known)) => {
                known.is_asked = false;
                if !std::mem::replace(&mut known.is_failing, true) {
                    let addresses = known.addresses.len();
                    warn!(
                        host, %error, addresses,
                        "looking up {host}: {error}; connecting to the {addresses} addresses that it had last"
                    );
                }
            }
            (Err(_), None) => {}
        }
        if hosts.len() > HOSTS_MAX {
            let oldest = hosts.iter().min_by_key(|(_, known)| known.used);
            if let Some(host) = oldest.map(|(host, _)| host.clone()) {
                hosts.remove(&host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)];

    #[test]
    fn what_a_host_had_last_outlives_failures_and_goes_with_the_next_answer() {
        let kept = KeptAddresses::default();
        let other = [IpAddr::from([192, 0, 2, 1])];
        kept.take("a", Err(&LookUpError::Nobody));
        assert_eq!(kept.ask("a"), None, "nothing was ever known");
        kept.take("a", Ok(&ONE));
        assert_eq!(kept.ask("a"), Some((ONE.to_vec(), false)));
        assert_eq!(kept.ask("a"), Some((ONE.to_vec(), true)), "one look-up");
        for error in [
            LookUpError::Nobody,
            LookUpError::Failed("broken".to_owned()),
        ] {
            kept.take("a", Err(&error));
            assert_eq!(kept.ask("a"), Some((ONE.to_vec(), false)));
        }
        kept.take("a", Ok(&other));
        assert_eq!(kept.ask("a"), Some((other.to_vec(), false)));
    }

    #[test]
    fn hosts_and_addresses_have_a_bound() {
        let kept = KeptAddresses::default();
        let many: Vec<IpAddr> = (0..=255).map(|n| IpAddr::from([10, 0, 0, n])).collect();
        for n in 0..HOSTS_MAX + 100 {
            // What is used stays.
            kept.ask("host-0");
            kept.take(&format!("host-{n}"), Ok(&many));
        }
        assert_eq!(kept.hosts.lock().unwrap().1.len(), HOSTS_MAX);
        assert_eq!(kept.ask("host-0").unwrap().0.len(), ADDRESSES_MAX);
        assert_eq!(kept.ask("host-1"), None);
    }
}
