//! Which records a question is about.

use std::net::IpAddr;

use thiserror::Error;

use super::entry::{WORDS, reason, word};
use super::times::{self, BadTime};
use crate::registry::change::{Origin, Record};
use crate::types::{AppName, InstanceId, Millis};

/// Longest text of a filter, bytes: more cannot match anything that is kept.
const TEXT_MAX: usize = 1024;
/// Most values of one list.
const LIST_MAX: usize = 256;

/// Conditions that a record has to meet, all of them. The default is met by every record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Empty: every application.
    pub apps: Vec<AppName>,
    pub instance: Option<InstanceId>,
    /// Wall time of the first moment asked for.
    pub from: Option<Millis>,
    /// Wall time before which the change must have happened.
    pub to: Option<Millis>,
    /// Words of [`WORDS`]. Empty: every kind.
    pub kinds: Vec<&'static str>,
    /// Part of the reason, lower case.
    pub reason: Option<String>,
    /// Part of the principal or the user agent, lower case.
    pub actor: Option<String>,
    pub origin: Option<OriginFilter>,
    pub address: Option<Network>,
}

/// Where changes entered the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OriginFilter {
    Client,
    Operator,
    Timer,
    /// Any peer, or the one whose identity contains this text (lower case).
    Peer(Option<String>),
}

/// Addresses with a common beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A parameter that cannot be read; says which and what is allowed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{name}: {cause}")]
pub struct BadFilter {
    pub name: &'static str,
    pub cause: String,
}

impl BadFilter {
    /// `name` is the parameter.
    pub fn new(name: &'static str, cause: impl Into<String>) -> Self {
        Self {
            name,
            cause: cause.into(),
        }
    }
}

impl Filter {
    /// The parameters that [`Filter::set`] knows.
    pub const NAMES: [&'static str; 9] = [
        "app", "instance", "from", "to", "kind", "reason", "actor", "origin", "address",
    ];

    /// Takes one parameter of a query. Says whether it is one of ours. An empty value is no
    /// condition.
    ///
    /// # Errors
    /// [`BadFilter`] if the value cannot be read.
    pub fn set(&mut self, name: &str, value: &str, now: Millis) -> Result<bool, BadFilter> {
        let Some(name) = Self::NAMES.into_iter().find(|known| *known == name) else {
            return Ok(false);
        };
        if value.len() > TEXT_MAX {
            return Err(BadFilter::new(
                name,
                format!("{} bytes long, the limit is {TEXT_MAX}", value.len()),
            ));
        }
        // A time that is missing would ask for all times.
        if value.is_empty() && !matches!(name, "from" | "to") {
            return Ok(true);
        }
        let time = |value: &str| {
            times::parse(value, now)
                .map_err(|error: BadTime| BadFilter::new(name, error.to_string()))
        };
        match name {
            "app" => self.apps.extend(list(name, value)?.map(AppName::new)),
            "instance" => self.instance = Some(InstanceId::new(value)),
            "from" => self.from = Some(time(value)?),
            "to" => self.to = Some(time(value)?),
            "kind" => {
                for asked in list(name, value)? {
                    let known = WORDS.into_iter().find(|word| *word == asked);
                    self.kinds.push(known.ok_or_else(|| {
                        BadFilter::new(name, format!("{asked:?} is none of {}", WORDS.join(", ")))
                    })?);
                }
            }
            "reason" => self.reason = Some(value.to_lowercase()),
            "actor" => self.actor = Some(value.to_lowercase()),
            "origin" => self.origin = Some(OriginFilter::parse(value)?),
            _ => self.address = Some(Network::parse(value)?),
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from > to
        {
            return Err(BadFilter::new("from", "later than to"));
        }
        Ok(true)
    }

    /// Whether a record is asked for.
    pub fn matches(&self, record: &Record) -> bool {
        let change = &record.change;
        let contains = |text: Option<&str>, part: &str| {
            text.is_some_and(|text| text.to_lowercase().contains(part))
        };
        (self.apps.is_empty() || self.apps.contains(&change.app))
            && self.instance.as_ref().is_none_or(|id| *id == change.id)
            && self.from.is_none_or(|from| record.at >= from)
            && self.to.is_none_or(|to| record.at < to)
            && (self.kinds.is_empty() || self.kinds.contains(&word(change)))
            && self
                .reason
                .as_deref()
                .is_none_or(|part| contains(Some(reason(record)), part))
            && self.actor.as_deref().is_none_or(|part| {
                contains(record.actor.principal.as_deref(), part)
                    || contains(record.actor.user_agent.as_deref(), part)
            })
            && self
                .origin
                .as_ref()
                .is_none_or(|origin| origin.matches(&record.origin))
            && self.address.is_none_or(|network| {
                record
                    .actor
                    .address
                    .as_deref()
                    .is_some_and(|address| network.contains(address))
            })
    }
}

fn list<'v>(
    name: &'static str,
    value: &'v str,
) -> Result<impl Iterator<Item = &'v str>, BadFilter> {
    if value.split(',').count() > LIST_MAX {
        return Err(BadFilter::new(name, format!("more than {LIST_MAX} values")));
    }
    Ok(value
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty()))
}

impl OriginFilter {
    fn parse(value: &str) -> Result<Self, BadFilter> {
        match value.split_once(':') {
            Some(("peer", name)) => Ok(Self::Peer(Some(name.to_lowercase()))),
            None if value == "client" => Ok(Self::Client),
            None if value == "operator" => Ok(Self::Operator),
            None if value == "timer" => Ok(Self::Timer),
            None if value == "peer" => Ok(Self::Peer(None)),
            _ => Err(BadFilter::new(
                "origin",
                format!("{value:?} is none of client, operator, timer, peer, peer:NAME"),
            )),
        }
    }

    fn matches(&self, origin: &Origin) -> bool {
        match (self, origin) {
            (Self::Client, Origin::Client)
            | (Self::Operator, Origin::Operator)
            | (Self::Timer, Origin::Timer)
            | (Self::Peer(None), Origin::Peer(_)) => true,
            (Self::Peer(Some(part)), Origin::Peer(peer)) => peer.to_lowercase().contains(part),
            _ => false,
        }
    }
}

impl Network {
    /// Reads `10.0.0.1` or `10.0.0.0/8`.
    fn parse(value: &str) -> Result<Self, BadFilter> {
        let bad = || {
            BadFilter::new(
                "address",
                format!("{value:?} is neither an address nor a network such as 10.0.0.0/8"),
            )
        };
        let (address, bits) = match value.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| bad())?)),
            None => (value, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(bad());
        }
        Ok(Self { address, bits })
    }

    fn contains(self, text: &str) -> bool {
        let Ok(other) = text.parse::<IpAddr>() else {
            return false;
        };
        let wide = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
            IpAddr::V6(address) => (address.to_bits(), false),
        };
        let ((mine, is_v4), (theirs, other_is_v4)) = (wide(self.address), wide(other));
        let mask = u128::MAX
            .checked_shl(128 - u32::from(self.bits))
            .unwrap_or(0);
        is_v4 == other_is_v4 && mine & mask == theirs & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, value: &str) -> String {
        Filter::default()
            .set(name, value, Millis(1_000))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        let network = Network::parse("10.1.0.0/16").unwrap();
        assert!(network.contains("10.1.2.3"));
        assert!(network.contains("::ffff:10.1.2.3"));
        assert!(!network.contains("10.2.0.1"));
        assert!(!network.contains("not an address"));
        assert!(!Network::parse("0.0.0.0/0").unwrap().contains("::1"));
        assert!(Network::parse("::/0").unwrap().contains("fe80::1"));
        assert!(Network::parse("::1").unwrap().contains("::1"));
        assert!(!Network::parse("::1").unwrap().contains("::2"));
    }

    #[test]
    fn values_that_cannot_be_read_say_what_is_allowed() {
        assert!(refused("kind", "exploded").contains("re-registered"));
        assert!(refused("from", "soon").starts_with("from: "));
        assert!(refused("origin", "mars").contains("peer:NAME"));
        assert!(refused("address", "10.0.0.0/33").contains("10.0.0.0/8"));
        assert!(refused("actor", &"x".repeat(2000)).contains("limit is 1024"));
        assert!(refused("app", &",".repeat(500)).contains("256"));
    }

    #[test]
    fn foreign_parameters_are_left_to_others_and_empty_ones_ask_for_nothing() {
        let mut filter = Filter::default();
        assert_eq!(filter.set("limit", "5", Millis::ZERO), Ok(false));
        assert_eq!(filter.set("actor", "", Millis::ZERO), Ok(true));
        for name in ["from", "to"] {
            assert!(filter.set(name, "", Millis::ZERO).is_err(), "{name}");
        }
        assert_eq!(filter, Filter::default());
        filter.set("from", "200", Millis::ZERO).unwrap();
        assert!(filter.set("to", "100", Millis::ZERO).is_err());
    }
}
