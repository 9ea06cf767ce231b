//! The stored form: round trips, golden bytes, hostile bytes.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::registry::change::{Actor, Change, ChangeKind, LeaseImage, Origin, OverrideEffect};
use crate::registry::hold::{Hold, HoldKind};
use crate::registry::instance::{ActionType, DataCenter, Instance, LeaseTerms, Metadata, Port};
use crate::registry::status::Status;
use crate::types::{AppName, InstanceId, Lsn, Millis};

type Text = Arc<str>;

fn text() -> impl Strategy<Value = Text> {
    "\\PC{0,24}".prop_map(Text::from)
}

fn maybe_text() -> impl Strategy<Value = Option<Text>> {
    prop::option::of(text())
}

fn app() -> impl Strategy<Value = AppName> {
    "\\PC{0,24}".prop_map(|name| AppName::new(&name))
}

fn status() -> impl Strategy<Value = Status> {
    prop::sample::select(Status::ALL.to_vec())
}

fn metadata() -> impl Strategy<Value = Metadata> {
    prop::collection::vec((text(), text()), 0..6).prop_map(|pairs| pairs.into_iter().collect())
}

fn data_center() -> impl Strategy<Value = DataCenter> {
    prop_oneof![
        Just(DataCenter::MyOwn),
        Just(DataCenter::Netflix),
        metadata().prop_map(|metadata| DataCenter::Amazon { metadata }),
    ]
}

fn port() -> impl Strategy<Value = Port> {
    (any::<i32>(), any::<bool>()).prop_map(|(number, enabled)| Port { number, enabled })
}

prop_compose! {
    fn instance()(
        (instance_id, app_group_name, sid, asg_name) in
            (maybe_text(), maybe_text(), maybe_text(), maybe_text()),
        (app, host_name, ip_addr) in (app(), text(), text()),
        (port, secure_port, country_id) in (port(), port(), any::<i32>()),
        (data_center, status, overridden_status) in (data_center(), status(), status()),
        (renewal_interval_secs, duration_secs) in (any::<i32>(), any::<i32>()),
        metadata in metadata(),
        (home_page_url, status_page_url, health_check_url, secure_health_check_url) in
            (maybe_text(), maybe_text(), maybe_text(), maybe_text()),
        (vip_address, secure_vip_address) in (maybe_text(), maybe_text()),
        (last_updated_timestamp, last_dirty_timestamp) in (any::<i64>(), any::<i64>()),
        action_type in prop::sample::select(vec![
            None,
            Some(ActionType::Added),
            Some(ActionType::Modified),
            Some(ActionType::Deleted),
        ]),
    ) -> Instance {
        Instance {
            instance_id, app, app_group_name, host_name, ip_addr, sid, port, secure_port,
            country_id, data_center, status, overridden_status,
            lease: LeaseTerms { renewal_interval_secs, duration_secs },
            metadata, home_page_url, status_page_url, health_check_url, secure_health_check_url,
            vip_address, secure_vip_address, asg_name, last_updated_timestamp,
            last_dirty_timestamp, action_type,
        }
    }
}

prop_compose! {
    fn image()(
        instance in instance(),
        reported in status(),
        duration_ms in any::<u64>(),
        times in any::<[u64; 4]>(),
    ) -> LeaseImage {
        let [registered_at, service_up_at, evicted_at, renewed_at] = times.map(Millis);
        LeaseImage {
            instance: Arc::new(instance),
            reported, duration_ms, registered_at, service_up_at, evicted_at, renewed_at,
        }
    }
}

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        Just(Origin::Client),
        Just(Origin::Operator),
        text().prop_map(Origin::Peer),
        Just(Origin::Timer),
    ]
}

fn effect() -> impl Strategy<Value = OverrideEffect> {
    prop_oneof![
        Just(OverrideEffect::Keep),
        status().prop_map(OverrideEffect::Set),
        Just(OverrideEffect::Remove),
    ]
}

fn hold() -> impl Strategy<Value = Hold> {
    let kind = prop::sample::select(HoldKind::ALL.to_vec());
    (kind, any::<(u64, u64, bool)>()).prop_map(|(kind, (until, at, is_released))| Hold {
        kind,
        until: Millis(until),
        at: Millis(at),
        is_released,
    })
}

fn hold_effect() -> impl Strategy<Value = HoldEffect> {
    prop_oneof![
        2 => Just(HoldEffect::Keep),
        1 => hold().prop_map(HoldEffect::Put),
    ]
}

prop_compose! {
    pub(crate) fn any_record()(
        (lsn, at) in any::<(u64, u64)>(),
        origin in origin(),
        (principal, address, user_agent, reason) in
            (maybe_text(), maybe_text(), maybe_text(), maybe_text()),
        (app, id) in (app(), text()),
        kind in prop::sample::select(ChangeKind::ALL.to_vec()),
        lease in prop::option::of(image()),
        override_effect in effect(),
        hold_effect in hold_effect(),
        visible in any::<bool>(),
    ) -> Record {
        Record {
            lsn: Lsn(lsn),
            at: Millis(at),
            origin,
            actor: Actor { principal, address, user_agent, reason },
            change: Change {
                app,
                id: InstanceId::from_shared(id),
                kind, lease, override_effect, hold_effect, visible,
            },
        }
    }
}

fn read(bytes: &[u8]) -> Result<Record, DecodeError> {
    decode(bytes, &mut Interner::default())
}

/// The entries of a metadata map in their order, which equality does not look at.
fn order(record: &Record) -> Vec<Text> {
    let lease = record.change.lease.as_ref();
    lease.map_or(Vec::new(), |l| {
        l.instance
            .metadata
            .iter()
            .map(|(key, _)| key.clone())
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_record_comes_back_as_it_was(record in any_record()) {
        let back = read(&encode(&record).unwrap()).unwrap();
        prop_assert_eq!(order(&back), order(&record));
        prop_assert_eq!(back, record);
    }

    #[test]
    fn a_checkpoint_entry_comes_back_as_it_was(
        image in image(), app in app(), id in text(), lsn in any::<u64>(),
        with_app in any::<bool>(), status in status(),
    ) {
        let id = InstanceId::from_shared(id);
        let strings = &mut Interner::default();
        let lease = CheckpointLease { app: app.clone(), id: id.clone(), lsn: Lsn(lsn), image };
        prop_assert_eq!(decode_lease(&encode_lease(&lease).unwrap(), strings).unwrap(), lease);
        let entry = CheckpointOverride { app: with_app.then_some(app), id, status };
        prop_assert_eq!(decode_override(&encode_override(&entry).unwrap(), strings).unwrap(), entry);
    }

    #[test]
    fn random_bytes_are_an_error_or_a_record_but_no_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let _ = read(&bytes);
        let mut enveloped = vec![ENVELOPE_VERSION, Kind::Change as u8, 1, 0];
        enveloped.extend(bytes);
        let _ = read(&enveloped);
    }

    #[test]
    fn changed_bytes_are_an_error_or_a_record_but_no_panic(
        record in any_record(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encode(&record).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(&bytes);
    }

    #[test]
    fn a_record_that_was_cut_or_lengthened_is_an_error(
        record in any_record(), at in any::<prop::sample::Index>(), more in any::<u8>(),
    ) {
        let mut bytes = encode(&record).unwrap();
        prop_assert!(read(&bytes[..at.index(bytes.len())]).is_err());
        bytes.push(more);
        prop_assert!(read(&bytes).is_err());
    }
}

#[test]
fn lengths_that_lie_allocate_nothing() {
    let mut bytes = vec![ENVELOPE_VERSION, Kind::Change as u8, 1, 0, 1, 1, 2];
    // The peer's name pretends to be 2^60 bytes long.
    bytes.push(253);
    bytes.extend((1u64 << 60).to_le_bytes());
    assert!(matches!(read(&bytes), Err(DecodeError::Damaged(_))));
    let long = vec![0; RECORD_MAX + 1];
    let error = read(&long).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2097153 bytes long, the limit is 2097152"
    );
}

#[test]
fn unknown_versions_are_called_newer_and_other_kinds_damaged() {
    let good = encode(&golden_records()[0].1).unwrap();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        read(&bytes)
    };
    assert_eq!(
        with(0, 2),
        Err(DecodeError::Newer {
            what: "envelope",
            found: 2,
            known: 1
        })
    );
    assert_eq!(
        with(2, 9),
        Err(DecodeError::Newer {
            what: "schema",
            found: 9,
            known: 2
        })
    );
    assert!(matches!(with(0, 0), Err(DecodeError::Damaged(_))));
    assert!(matches!(with(1, 2), Err(DecodeError::Damaged(_))));
    assert!(matches!(with(2, 0), Err(DecodeError::Damaged(_))));
    assert!(matches!(read(&good[..3]), Err(DecodeError::Damaged(_))));
}

/// Records that together use every variant and every field.
fn golden_records() -> Vec<(&'static str, Record)> {
    let text = |text: &str| Some(Text::from(text));
    let pairs = |list: &[(&str, &str)]| -> Metadata {
        list.iter()
            .map(|(key, value)| (Text::from(*key), Text::from(*value)))
            .collect()
    };
    let full = Instance {
        instance_id: text("host-1:shop:8080"),
        app: AppName::new("SHOP"),
        app_group_name: text("RETAIL"),
        host_name: "host-1".into(),
        ip_addr: "10.0.0.1".into(),
        sid: text("na"),
        port: Port {
            number: 8080,
            enabled: true,
        },
        secure_port: Port {
            number: 443,
            enabled: false,
        },
        country_id: 1,
        data_center: DataCenter::Amazon {
            metadata: pairs(&[("instance-id", "i-1"), ("availability-zone", "eu-1a")]),
        },
        status: Status::OutOfService,
        overridden_status: Status::OutOfService,
        lease: LeaseTerms {
            renewal_interval_secs: 30,
            duration_secs: 90,
        },
        metadata: pairs(&[("zone", "a"), ("größe", "Ü")]),
        home_page_url: text("http://host-1:8080/"),
        status_page_url: text("http://host-1:8080/info"),
        health_check_url: text("http://host-1:8080/health"),
        secure_health_check_url: text("https://host-1/health"),
        vip_address: text("shop"),
        secure_vip_address: text("shop-secure"),
        asg_name: text("asg"),
        last_updated_timestamp: 1_700_000_000_000,
        last_dirty_timestamp: -1,
        action_type: Some(ActionType::Modified),
    };
    let bare = Instance {
        instance_id: None,
        app_group_name: None,
        sid: None,
        data_center: DataCenter::MyOwn,
        status: Status::Starting,
        overridden_status: Status::Unknown,
        metadata: Metadata::default(),
        home_page_url: None,
        status_page_url: None,
        health_check_url: None,
        secure_health_check_url: None,
        vip_address: None,
        secure_vip_address: None,
        asg_name: None,
        action_type: None,
        ..full.clone()
    };
    let image = |instance: &Instance, reported| LeaseImage {
        instance: Arc::new(instance.clone()),
        reported,
        duration_ms: 90_000,
        registered_at: Millis(1_700_000_000_000),
        service_up_at: Millis(1_700_000_000_001),
        evicted_at: Millis(0),
        renewed_at: Millis(1_700_000_000_002),
    };
    let record = |lsn, origin, kind, lease, override_effect, visible| Record {
        lsn: Lsn(lsn),
        at: Millis(1_700_000_000_003),
        origin,
        actor: Actor::default(),
        change: Change {
            app: AppName::new("SHOP"),
            id: InstanceId::new("host-1:shop:8080"),
            kind,
            lease,
            override_effect,
            hold_effect: HoldEffect::Keep,
            visible,
        },
    };
    let mut set = record(
        u64::MAX,
        Origin::Operator,
        ChangeKind::OverrideSet,
        Some(image(&full, Status::Up)),
        OverrideEffect::Set(Status::OutOfService),
        true,
    );
    set.actor = Actor {
        principal: text("alice"),
        address: text("10.0.0.9"),
        user_agent: text("curl/8"),
        reason: text("maintenance"),
    };
    let mut records = vec![
        ("override-set-full", set),
        (
            "override-forgotten-no-lease",
            record(
                7,
                Origin::Peer("http://peer-2:8761/eureka/".into()),
                ChangeKind::OverrideForgotten,
                None,
                OverrideEffect::Remove,
                false,
            ),
        ),
    ];
    let names = [
        "registered",
        "re-registered",
        "override-set",
        "override-lifted",
        "override-stored",
        "override-forgotten",
        "status-restored",
        "metadata-updated",
        "cancelled",
        "evicted",
    ];
    let netflix = Instance {
        data_center: DataCenter::Netflix,
        ..bare.clone()
    };
    for (lsn, (kind, name)) in (1..).zip(ChangeKind::ALL.into_iter().zip(names)) {
        let origin = if kind == ChangeKind::Evicted {
            Origin::Timer
        } else {
            Origin::Client
        };
        let instance = if lsn % 2 == 0 { &bare } else { &netflix };
        let reported = Status::ALL[usize::try_from(lsn % 5).unwrap()];
        let lease = Some(image(instance, reported));
        records.push((
            name,
            record(lsn, origin, kind, lease, OverrideEffect::Keep, true),
        ));
    }
    records
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| u8::try_from(c.to_digit(16).unwrap()).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// The bytes of the first format. If this fails, the stored format has changed, and stores that are
/// out there cannot be read: undo it, or add a new version beside the old one.
#[test]
fn the_bytes_of_format_one_never_change() {
    let golden = include_str!("../../tests/fixtures/store/v1/records.txt");
    let golden: Vec<(&str, &str)> = golden
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let records = golden_records();
    let written = records
        .iter()
        .fold(String::new(), |mut text, (name, record)| {
            let _ = writeln!(text, "{name} {}", hex(&encode(record).unwrap()));
            text
        });
    assert_eq!(golden.len(), records.len(), "expected:\n{written}");
    for ((name, record), (golden_name, bytes)) in records.iter().zip(golden) {
        assert_eq!(*name, golden_name);
        assert_eq!(hex(&encode(record).unwrap()), bytes, "encoding of {name}");
        let back = read(&unhex(bytes)).unwrap();
        assert_eq!(back, *record, "decoding of {name}");
        assert_eq!(order(&back), order(record), "decoding of {name}");
    }
}

/// The bytes of what the second format added; see above.
#[test]
fn the_bytes_of_format_two_never_change() {
    let golden = include_str!("../../tests/fixtures/store/v2/records.txt");
    let hold = Hold {
        kind: HoldKind::Quarantine,
        until: Millis(1_700_000_900_000),
        at: Millis(1_700_000_000_000),
        is_released: false,
    };
    let released = Hold {
        kind: HoldKind::Drain,
        is_released: true,
        ..hold
    };
    let mut written = String::new();
    for (name, hold) in [("quarantined", hold), ("released", released)] {
        let (_, mut record) = golden_records().swap_remove(0);
        record.change.hold_effect = HoldEffect::Put(hold);
        let bytes = encode(&record).unwrap();
        assert_eq!(read(&bytes).unwrap(), record);
        let _ = writeln!(written, "{name} {}", hex(&bytes));
        let entry = CheckpointHold {
            app: AppName::new("SHOP"),
            id: InstanceId::new("host-1"),
            hold,
        };
        let bytes = encode_hold(&entry).unwrap();
        let back = decode_hold(&bytes, &mut Interner::default()).unwrap();
        assert_eq!(back, entry);
        let _ = writeln!(written, "{name}-hold {}", hex(&bytes));
    }
    assert_eq!(golden, written);
}

#[test]
fn the_facts_of_a_segment_come_back_and_keep_their_bytes() {
    let facts = SegmentV1 {
        first: 1,
        after: 300,
        base: 0,
        last: 70_000,
        bytes: 1 << 40,
        earliest: 5,
        latest: u64::MAX,
    };
    let bytes = encode_segment(&facts).unwrap();
    assert_eq!(decode_segment(&bytes), Ok(facts));
    assert_eq!(
        hex(&bytes),
        "0104010001fb2c0100fc70110100fd000000000001000005fdffffffffffffffff"
    );
}
