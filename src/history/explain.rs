//! Why an instance is listed, or no longer is: what the registry, its timers and the log know of it, put
//! together in sentences. Plain data in, plain data out.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::entry::{Entry, HoldFacts};
use super::times::{self, At};
use crate::types::{Lsn, Millis};

/// What is known of an instance at one moment.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub app: String,
    pub instance: String,
    pub now: Millis,
    pub lease: Option<LeaseNow>,
    /// The override in force.
    pub overridden: Option<String>,
    pub hold: Option<HoldFacts>,
    pub protection: Protection,
    /// How often expired leases are looked for, ms.
    pub eviction_interval_ms: u64,
    pub peers: Vec<PeerNow>,
    /// Changes of the instance, newest first, as far as they were looked at.
    pub entries: Vec<Entry>,
    /// They are all that ever happened to it.
    pub are_all: bool,
    /// How far back the log goes.
    pub oldest: Option<Millis>,
}

/// A lease that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseNow {
    pub status: String,
    /// What the client itself reported last.
    pub reported: String,
    pub registered_at: At,
    pub renewed_at: At,
    pub renewal_age_ms: u64,
    pub duration_ms: u64,
    /// Until the lease is over, 0 if it is.
    pub remaining_ms: u64,
    /// What a restart of the node, or a clock that stood still, gave on top of the last renewal.
    pub grace_ms: u64,
    /// How often the client said that it renews.
    pub renewal_interval_ms: u64,
}

/// Self-preservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    pub enabled: bool,
    /// Nothing expires at present.
    pub active: bool,
    pub renewals_last_minute: u64,
    pub renewals_threshold: u64,
}

/// What a peer knows of the instance's last change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerNow {
    pub peer: String,
    pub reachable: bool,
    /// It has been told of everything that happened to the instance here.
    pub in_sync: bool,
    pub lag_records: u64,
    pub cursor: Lsn,
    pub error: Option<String>,
}

/// The override in force, and who set it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverrideNow {
    pub status: String,
    pub set: Option<Entry>,
}

/// A drain or quarantine in force, and who ordered it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldNow {
    pub kind: Cow<'static, str>,
    pub until: At,
    pub remaining_ms: u64,
    pub set: Option<Entry>,
}

/// Something that will happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    pub what: String,
    pub at: At,
    pub in_ms: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    pub app: String,
    pub instance: String,
    pub present: bool,
    /// The whole answer in sentences.
    pub summary: Vec<String>,
    /// Since when it is there, or not there; `None` if that is longer than the log goes back.
    pub since: Option<At>,
    /// The change that made what is shown of it what it is: that of the drain, quarantine or override if its
    /// status is that one's, otherwise its registration; of one that is not there, its removal.
    pub because: Option<Entry>,
    pub status: Option<String>,
    pub lease: Option<LeaseNow>,
    #[serde(rename = "override")]
    pub overridden: Option<OverrideNow>,
    pub hold: Option<HoldNow>,
    pub self_preservation: Protection,
    pub peers: Vec<PeerNow>,
    pub next: Vec<Next>,
}

/// Whether a change set an override.
fn sets_override(entry: &Entry) -> bool {
    entry
        .changes
        .get("override")
        .is_some_and(|change| !change.after.is_null())
        || matches!(&*entry.kind, "override-set" | "override-stored")
}

/// Whether a change ordered a hold that is in force.
fn sets_hold(entry: &Entry, hold: &HoldFacts) -> bool {
    match &*hold.kind {
        "drain" => entry.kind == "drained",
        _ => entry.kind == "quarantined",
    }
}

fn begins(entry: &Entry) -> bool {
    matches!(&*entry.kind, "registered" | "re-registered")
}

fn removes(entry: &Entry) -> bool {
    matches!(&*entry.kind, "cancelled" | "evicted")
}

/// Puts together what is known.
pub fn explain(known: Known) -> Explanation {
    let entries = &known.entries;
    let is_present = known.lease.is_some();
    let came_or_went = entries
        .iter()
        .find(|entry| {
            if is_present {
                begins(entry)
            } else {
                removes(entry)
            }
        })
        .cloned();
    let hold = known.hold.clone().map(|hold| HoldNow {
        remaining_ms: hold.until.0.since(known.now),
        set: entries
            .iter()
            .find(|entry| sets_hold(entry, &hold))
            .cloned(),
        kind: hold.kind,
        until: hold.until,
    });
    let overridden = known.overridden.clone().map(|status| OverrideNow {
        // Registrations that come under a hold have its override from it.
        set: match &hold {
            Some(hold) => hold.set.clone(),
            None => entries.iter().find(|entry| sets_override(entry)).cloned(),
        },
        status,
    });
    let since = match &known.lease {
        Some(lease) => Some(lease.registered_at),
        None => came_or_went.as_ref().map(|entry| entry.at),
    };
    let next = next_of(&known);
    let mut summary = Vec::new();
    summary.push(presence(&known, came_or_went.as_ref()));
    let because = match (&known.lease, &overridden) {
        (Some(lease), Some(overridden)) if lease.status == overridden.status => {
            overridden.set.clone()
        }
        _ => came_or_went,
    };
    summary.extend(lease_sentences(&known));
    if let Some(overridden) = &overridden {
        summary.push(override_sentence(overridden, known.lease.as_ref()));
    }
    if let Some(hold) = &hold {
        summary.push(hold_sentence(hold));
    }
    summary.extend(peer_sentences(&known.peers));
    Explanation {
        present: is_present,
        summary,
        since,
        because,
        status: known.lease.as_ref().map(|lease| lease.status.clone()),
        overridden,
        hold,
        self_preservation: known.protection,
        peers: known.peers,
        next,
        app: known.app,
        instance: known.instance,
        lease: known.lease,
    }
}

fn presence(known: &Known, because: Option<&Entry>) -> String {
    let name = format!("{}/{}", known.app, known.instance);
    if let Some(lease) = &known.lease {
        let since = times::format(lease.registered_at.0);
        let by = because.map_or_else(String::new, |entry| format!(" ({})", by(entry)));
        return format!(
            "{name} is registered since {since}{by}, with status {}.",
            lease.status
        );
    }
    match because {
        Some(entry) => {
            let at = times::format(entry.at.0);
            let how = match (&*entry.kind, &entry.lease) {
                ("evicted", Some(lease)) if entry.origin == "peer" => format!(
                    "its lease ran out on another node, {}; no renewal that reached this one vouched for it, \
                     the last was {} old",
                    by(entry),
                    span(lease.renewal_age_ms)
                ),
                ("evicted", Some(lease)) => format!(
                    "its lease expired: the last renewal was {} old, the lease lasts {}",
                    span(lease.renewal_age_ms),
                    span(lease.duration_ms)
                ),
                _ => by(entry),
            };
            format!(
                "{name} is not registered: it was {} at {at} ({how}).",
                entry.kind
            )
        }
        None if known.are_all && !known.entries.iter().any(begins) => format!(
            "{name} is not registered and never was{}.",
            back_to(known.oldest)
        ),
        None if known.entries.is_empty() => format!(
            "{name} is not registered, and nothing is known of it{}.",
            back_to(known.oldest)
        ),
        None => format!(
            "{name} is not registered; when it went is not known{}.",
            back_to(known.oldest)
        ),
    }
}

fn back_to(oldest: Option<Millis>) -> String {
    oldest.map_or_else(String::new, |oldest| {
        format!(" in a log that goes back to {}", times::format(oldest))
    })
}

/// Who did it and why.
fn by(entry: &Entry) -> String {
    let mut text = match (&*entry.origin, &entry.actor.peer) {
        ("peer", Some(peer)) => format!("told by peer {peer}"),
        ("timer", _) => "by a timer of this node".to_owned(),
        (origin, _) => format!("by {} {origin}", article(origin)),
    };
    if let Some(principal) = &entry.actor.principal {
        let _ = write!(text, " {principal}");
    }
    if let Some(address) = &entry.actor.address {
        let asked = if entry.origin == "peer" {
            ", asked from"
        } else {
            " at"
        };
        let _ = write!(text, "{asked} {address}");
    }
    if let Some(agent) = &entry.actor.user_agent {
        let _ = write!(text, " with {agent}");
    }
    if entry.reason.replace(' ', "-") != *entry.kind {
        let _ = write!(text, ", reason: {}", entry.reason);
    }
    text
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}

fn lease_sentences(known: &Known) -> Vec<String> {
    let Some(lease) = &known.lease else {
        return Vec::new();
    };
    let mut said = Vec::new();
    let renewed = format!(
        "It was renewed {} ago and its lease lasts {}",
        span(lease.renewal_age_ms),
        span(lease.duration_ms)
    );
    if lease.remaining_ms > 0 {
        let grace = if lease.grace_ms > 0 {
            ", as a grace: no renewal has come since this node started or took it over"
        } else {
            ""
        };
        said.push(format!(
            "{renewed}: {} remain{grace}.",
            span(lease.remaining_ms)
        ));
        let is_late = lease.renewal_age_ms > 2 * lease.renewal_interval_ms;
        if is_late && lease.grace_ms == 0 {
            said.push(format!(
                "It renews every {}, so heartbeats have been missed.",
                span(lease.renewal_interval_ms)
            ));
        }
    } else {
        said.push(format!("{renewed}: the lease is over."));
        said.push(if known.protection.active {
            format!(
                "It is listed all the same, because self-preservation is active: {} renewals came in \
                 the last minute, more than {} are needed before anything is evicted.",
                known.protection.renewals_last_minute, known.protection.renewals_threshold
            )
        } else {
            "The next eviction run removes it.".to_owned()
        });
    }
    said
}

fn override_sentence(overridden: &OverrideNow, lease: Option<&LeaseNow>) -> String {
    let mut text = format!("An override makes it {}", overridden.status);
    if let Some(set) = &overridden.set {
        let _ = write!(text, ", set at {} {}", times::format(set.at.0), by(set));
    }
    if let Some(lease) = lease {
        let _ = write!(text, "; the instance itself reports {}", lease.reported);
        if lease.status != overridden.status {
            let _ = write!(text, ", which shows as {}", lease.status);
        }
    }
    text.push('.');
    text
}

fn hold_sentence(hold: &HoldNow) -> String {
    let (is, then) = match &*hold.kind {
        "drain" => ("It is being drained", "it is cancelled then"),
        _ => (
            "Its id is quarantined and cannot be UP",
            "its own status is back then",
        ),
    };
    format!(
        "{is} until {} ({} from now); {then}.",
        times::format(hold.until.0),
        span(hold.remaining_ms)
    )
}

fn peer_sentences(peers: &[PeerNow]) -> Vec<String> {
    peers
        .iter()
        .filter(|peer| !peer.in_sync || !peer.reachable)
        .map(|peer| {
            let mut text = format!("Peer {} ", peer.peer);
            text.push_str(match (peer.reachable, peer.in_sync) {
                (false, false) => "cannot be reached and has not been told of the last change",
                (false, true) => "cannot be reached; it had been told of the last change",
                _ => "has not been told of the last change yet",
            });
            if let Some(error) = peer.error.as_ref().filter(|_| !peer.reachable) {
                let _ = write!(text, " ({error})");
            }
            text.push('.');
            text
        })
        .collect()
}

fn next_of(known: &Known) -> Vec<Next> {
    let now = known.now;
    let mut next: Vec<Next> = Vec::new();
    let mut add = |what: &str, in_ms: u64| {
        next.push(Next {
            what: what.to_owned(),
            at: At(now.plus(in_ms)),
            in_ms,
        });
    };
    if let Some(lease) = &known.lease {
        if let Some(due) = lease
            .renewal_interval_ms
            .checked_sub(lease.renewal_age_ms)
            .filter(|due| *due > 0)
        {
            add("its next heartbeat is due", due);
        }
        if lease.remaining_ms > 0 {
            add(
                "its lease runs out unless it is renewed",
                lease.remaining_ms,
            );
        }
        if !known.protection.active {
            add(
                "an eviction run has removed it by then unless it is renewed",
                lease
                    .remaining_ms
                    .saturating_add(known.eviction_interval_ms),
            );
        }
    }
    if let Some(hold) = &known.hold {
        let remaining = hold.until.0.since(now);
        add(
            match &*hold.kind {
                "drain" => "the drain is over and it is cancelled",
                _ => "the quarantine is over",
            },
            remaining,
        );
    }
    next.sort_by_key(|one| one.in_ms);
    next
}

/// A span as people say it: `850 ms`, `12 s`, `4 min 5 s`, `3 h 20 min`, `2 d 4 h`.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => two(minutes, "min", seconds % 60, "s"),
        3_600_000..86_400_000 => two(hours, "h", minutes % 60, "min"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

fn two(more: u64, unit: &str, less: u64, smaller: &str) -> String {
    if less == 0 {
        format!("{more} {unit}")
    } else {
        format!("{more} {unit} {less} {smaller}")
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
