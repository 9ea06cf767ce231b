//! What is said about instances in every state.

use super::*;
use crate::history::entry::{LeaseFacts, Who};

const NOW: Millis = Millis(1_796_004_780_000);

fn entry(kind: &'static str, origin: &'static str, ago_ms: u64) -> Entry {
    Entry {
        lsn: Lsn(7),
        at: At(Millis(NOW.0 - ago_ms)),
        kind: kind.into(),
        app: "SHOP".into(),
        instance: "a".into(),
        reason: kind.replace('-', " "),
        origin: origin.into(),
        actor: Who {
            address: Some("10.0.0.9".into()),
            ..Who::default()
        },
        changes: std::collections::BTreeMap::new(),
        lease: Some(LeaseFacts {
            registered_at: At(Millis(NOW.0 - 500_000)),
            renewed_at: At(Millis(NOW.0 - 200_000)),
            renewal_age_ms: 95_000,
            duration_ms: 90_000,
        }),
        hold: None,
    }
}

fn lease(age_ms: u64) -> LeaseNow {
    LeaseNow {
        status: "UP".into(),
        reported: "UP".into(),
        registered_at: At(Millis(NOW.0 - 500_000)),
        renewed_at: At(Millis(NOW.0 - age_ms)),
        renewal_age_ms: age_ms,
        duration_ms: 90_000,
        remaining_ms: 90_000_u64.saturating_sub(age_ms),
        grace_ms: 0,
        renewal_interval_ms: 30_000,
    }
}

fn known() -> Known {
    Known {
        app: "SHOP".into(),
        instance: "a".into(),
        now: NOW,
        eviction_interval_ms: 60_000,
        oldest: Some(Millis(NOW.0 - 3_600_000)),
        ..Known::default()
    }
}

#[test]
fn an_instance_that_is_well() {
    let told = explain(Known {
        lease: Some(lease(12_000)),
        entries: vec![entry("registered", "client", 500_000)],
        ..known()
    });
    assert!(told.present);
    assert_eq!(
        told.summary,
        [
            "SHOP/a is registered since 2026-11-30T02:04:40.000Z (by a client at 10.0.0.9), with status \
             UP.",
            "It was renewed 12 s ago and its lease lasts 1 min 30 s: 1 min 18 s remain.",
        ]
    );
    assert_eq!(told.because.unwrap().kind, "registered");
    let next: Vec<_> = told.next.iter().map(|next| next.in_ms).collect();
    assert_eq!(next, [18_000, 78_000, 138_000]);
}

#[test]
fn an_instance_that_is_kept_by_self_preservation() {
    let told = explain(Known {
        lease: Some(lease(120_000)),
        protection: Protection {
            enabled: true,
            active: true,
            renewals_last_minute: 3,
            renewals_threshold: 17,
        },
        ..known()
    });
    assert!(told.summary[1].ends_with("the lease is over."));
    assert!(told.summary[2].contains("self-preservation is active: 3 renewals"));
    assert!(told.next.is_empty(), "{:?}", told.next);
}

#[test]
fn an_instance_that_expired() {
    let told = explain(Known {
        entries: vec![
            entry("evicted", "timer", 60_000),
            entry("registered", "client", 500_000),
        ],
        ..known()
    });
    assert!(!told.present);
    assert_eq!(
        told.summary,
        [
            "SHOP/a is not registered: it was evicted at 2026-11-30T02:12:00.000Z (its lease \
             expired: the last renewal was 1 min 35 s old, the lease lasts 1 min 30 s)."
        ]
    );
    assert_eq!(told.since, Some(At(Millis(NOW.0 - 60_000))));
}

#[test]
fn an_instance_that_expired_on_another_node() {
    let mut evicted = entry("evicted", "peer", 60_000);
    evicted.actor.peer = Some("http://b/eureka/".into());
    // A timer there, of whom nothing else is known.
    evicted.actor.address = None;
    let told = explain(Known {
        entries: vec![evicted, entry("registered", "client", 500_000)],
        ..known()
    });
    assert_eq!(
        told.summary,
        [
            "SHOP/a is not registered: it was evicted at 2026-11-30T02:12:00.000Z (its lease ran out on \
             another node, told by peer http://b/eureka/; no renewal that reached this one vouched for it, \
             the last was 1 min 35 s old)."
        ]
    );
}

#[test]
fn an_instance_that_somebody_cancelled_at_another_node() {
    let mut cancelled = entry("cancelled", "peer", 60_000);
    cancelled.actor.peer = Some("b".into());
    cancelled.actor.user_agent = Some("deployer/2".into());
    cancelled.reason = "scaled in".into();
    let told = explain(Known {
        entries: vec![cancelled, entry("registered", "client", 500_000)],
        ..known()
    });
    assert_eq!(
        told.summary,
        [
            "SHOP/a is not registered: it was cancelled at 2026-11-30T02:12:00.000Z (told by peer b, asked from \
             10.0.0.9 with deployer/2, reason: scaled in)."
        ]
    );
}

#[test]
fn an_instance_that_somebody_cancelled() {
    let mut cancelled = entry("cancelled", "operator", 60_000);
    cancelled.reason = "host is burning".into();
    let told = explain(Known {
        entries: vec![cancelled],
        ..known()
    });
    assert!(
        told.summary[0].ends_with("(by an operator at 10.0.0.9, reason: host is burning)."),
        "{:?}",
        told.summary
    );
}

#[test]
fn an_instance_that_nobody_knows() {
    let told = explain(known());
    assert_eq!(
        told.summary,
        [
            "SHOP/a is not registered, and nothing is known of it in a log that goes back to \
             2026-11-30T01:13:00.000Z."
        ]
    );
}

#[test]
fn an_instance_that_is_drained_while_a_peer_is_away() {
    let told = explain(Known {
        lease: Some(LeaseNow {
            status: "OUT_OF_SERVICE".into(),
            ..lease(1_000)
        }),
        overridden: Some("OUT_OF_SERVICE".into()),
        hold: Some(HoldFacts {
            kind: "drain".into(),
            until: At(NOW.plus(245_000)),
            released: false,
        }),
        entries: vec![
            Entry {
                changes: [(
                    "override".to_owned(),
                    crate::history::entry::FieldChange {
                        before: serde_json::Value::Null,
                        after: "OUT_OF_SERVICE".into(),
                    },
                )]
                .into(),
                ..entry("drained", "operator", 5_000)
            },
            entry("registered", "client", 500_000),
        ],
        peers: vec![PeerNow {
            peer: "http://b:8761/eureka/".into(),
            reachable: false,
            in_sync: false,
            lag_records: 3,
            cursor: Lsn(4),
            error: Some("connection refused".into()),
        }],
        ..known()
    });
    assert_eq!(
        told.summary[2..],
        [
            "An override makes it OUT_OF_SERVICE, set at 2026-11-30T02:12:55.000Z by an operator \
             at 10.0.0.9; the instance itself reports UP.",
            "It is being drained until 2026-11-30T02:17:05.000Z (4 min 5 s from now); it is \
             cancelled then.",
            "Peer http://b:8761/eureka/ cannot be reached and has not been told of the last change \
             (connection refused).",
        ]
    );
    assert_eq!(told.hold.unwrap().remaining_ms, 245_000);
    assert_eq!(told.because.unwrap().kind, "drained");
}

/// A change with an override as what it brings.
fn overriding(entry: Entry) -> Entry {
    let change = crate::history::entry::FieldChange {
        before: serde_json::Value::Null,
        after: "OUT_OF_SERVICE".into(),
    };
    Entry {
        changes: [("override".to_owned(), change)].into(),
        ..entry
    }
}

#[test]
fn what_an_instance_shows_is_because_of_the_change_that_made_it_so() {
    let out = |status: &str, kind: Option<&'static str>, entries: Vec<Entry>| {
        let told = explain(Known {
            lease: Some(LeaseNow {
                status: status.into(),
                ..lease(1_000)
            }),
            overridden: Some("OUT_OF_SERVICE".into()),
            hold: kind.map(|kind| HoldFacts {
                kind: kind.into(),
                until: At(NOW.plus(245_000)),
                released: false,
            }),
            entries,
            ..known()
        });
        let set = told.overridden.unwrap().set.map(|entry| entry.kind);
        (told.because.map(|entry| entry.kind), set)
    };
    let registered = || entry("registered", "client", 5_000);
    let both = |kind: &'static str| (Some(kind.into()), Some(kind.into()));
    // It came back under the quarantine, and got the override from that.
    let under = vec![
        overriding(registered()),
        entry("quarantined", "operator", 9_000),
    ];
    assert_eq!(
        out("OUT_OF_SERVICE", Some("quarantine"), under),
        both("quarantined")
    );
    // A drain that another node accepted waits behind a quarantine.
    let behind = vec![
        entry("drained", "peer", 3_000),
        entry("quarantined", "operator", 4_000),
        registered(),
    ];
    assert_eq!(
        out("OUT_OF_SERVICE", Some("quarantine"), behind),
        both("quarantined")
    );
    let set = || vec![overriding(entry("override-set", "operator", 9_000))];
    assert_eq!(out("OUT_OF_SERVICE", None, set()), both("override-set"));
    // What is not known is not made up.
    assert_eq!(
        out("OUT_OF_SERVICE", None, vec![registered()]),
        (None, None)
    );
    // It shows what it reports itself.
    let mut entries = set();
    entries.push(registered());
    assert_eq!(
        out("DOWN", None, entries),
        (Some("registered".into()), Some("override-set".into()))
    );
}

#[test]
fn an_id_that_was_never_there() {
    let entries = || {
        vec![
            entry("released", "operator", 1_000),
            entry("quarantined", "operator", 9_000),
        ]
    };
    let told = |entries, are_all| {
        let told = explain(Known {
            entries,
            are_all,
            ..known()
        });
        assert_eq!((told.because, told.since), (None, None));
        told.summary[0].clone()
    };
    let never = "SHOP/a is not registered and never was in a log that goes back to \
                 2026-11-30T01:13:00.000Z.";
    assert_eq!(told(entries(), true), never);
    assert_eq!(told(Vec::new(), true), never);
    assert!(told(entries(), false).contains("when it went is not known"));
}

#[test]
fn spans_are_said_in_two_units() {
    for (ms, said) in [
        (0, "0 ms"),
        (999, "999 ms"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (12_000_000, "3 h 20 min"),
        (187_200_000, "2 d 4 h"),
    ] {
        assert_eq!(span(ms), said);
    }
}
