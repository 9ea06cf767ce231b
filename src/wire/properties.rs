//! Properties of the wire for arbitrary instances and arbitrary bytes.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use quick_xml::events::Event;

use super::batch::{
    Action, ItemAnswer, OutgoingItem, decode_batch, decode_batch_response, write_batch,
    write_batch_response,
};
use super::*;
use crate::registry::change::Actor;
use crate::registry::instance::{ActionType, DataCenter, LeaseTerms, Metadata, Port};
use crate::registry::status::Status;
use crate::types::AppName;

const ALL_FORMS: [(Format, Detail); 4] = [
    (Format::Json, Detail::Full),
    (Format::Json, Detail::Compact),
    (Format::Xml, Detail::Full),
    (Format::Xml, Detail::Compact),
];

/// Any characters, with those that mean something to a format more often than chance has them.
fn nasty() -> impl Strategy<Value = String> {
    let special = prop::sample::select(
        "\"\\/<>&'\r\n\t\0\u{1}\u{85}\u{FFFE}_$.- :;]{}[1é😀"
            .chars()
            .collect::<Vec<_>>(),
    );
    vec(
        prop_oneof![3 => special, 2 => any::<char>(), 3 => prop::char::range('a', 'z')],
        0..10,
    )
    .prop_map(|chars| chars.into_iter().collect())
}

fn any_actor() -> impl Strategy<Value = Actor> {
    let text = || option::of(nasty().prop_map(Arc::from));
    (text(), text(), text(), text()).prop_map(|(principal, address, user_agent, reason)| Actor {
        principal,
        address,
        user_agent,
        reason,
    })
}

fn shared() -> impl Strategy<Value = Arc<str>> {
    nasty().prop_map(Arc::from)
}

fn filled() -> impl Strategy<Value = Arc<str>> {
    nasty().prop_map(|text| format!("h{text}").into())
}

fn metadata() -> impl Strategy<Value = Metadata> {
    vec((shared(), shared()), 0..6).prop_map(|entries| {
        // The two keys that the decoders give a meaning.
        entries
            .into_iter()
            .filter(|(k, _)| !matches!(&**k, "@class" | "instanceId"))
            .collect()
    })
}

fn data_center() -> impl Strategy<Value = DataCenter> {
    prop_oneof![
        Just(DataCenter::MyOwn),
        Just(DataCenter::Netflix),
        (filled(), metadata()).prop_map(|(id, map)| DataCenter::Amazon {
            metadata: map.with([("instance-id".into(), id)])
        }),
    ]
}

fn port() -> impl Strategy<Value = Port> {
    (any::<i32>(), any::<bool>()).prop_map(|(number, enabled)| Port { number, enabled })
}

fn any_status() -> impl Strategy<Value = Status> {
    prop::sample::select(Status::ALL.to_vec())
}

fn times() -> impl Strategy<Value = LeaseTimes> {
    any::<[i64; 4]>().prop_map(
        |[registration, last_renewal, eviction, service_up]| LeaseTimes {
            registration,
            last_renewal,
            eviction,
            service_up,
            vouched_ms: None,
        },
    )
}

fn any_instance() -> impl Strategy<Value = Instance> {
    let names = (
        option::of(shared()),
        nasty(),
        option::of(shared()),
        filled(),
        filled(),
    );
    let numbers = (port(), port(), any::<i32>(), any::<i64>(), any::<i64>());
    let terms = (1..i32::MAX, 1..i32::MAX);
    let states = (any_status(), any_status(), data_center(), metadata());
    let urls = vec(option::of(shared()), 7);
    let action = option::of(prop::sample::select(vec![
        ActionType::Added,
        ActionType::Modified,
        ActionType::Deleted,
    ]));
    (names, numbers, terms, states, urls, action).prop_map(
        |(names, numbers, terms, states, urls, action_type)| Instance {
            instance_id: names.0,
            app: AppName::new(&format!("a{}", names.1)),
            app_group_name: names.2.map(|group| AppName::new(&group).as_str().into()),
            host_name: names.3,
            ip_addr: names.4,
            sid: urls[0]
                .clone()
                .filter(|sid| !matches!(&**sid, "na" | "unknown")),
            port: numbers.0,
            secure_port: numbers.1,
            country_id: numbers.2,
            data_center: states.2,
            status: states.0,
            overridden_status: states.1,
            lease: LeaseTerms {
                renewal_interval_secs: terms.0,
                duration_secs: terms.1,
            },
            metadata: states.3,
            home_page_url: urls[1].clone(),
            status_page_url: urls[2].clone(),
            health_check_url: urls[3].clone(),
            secure_health_check_url: urls[4].clone(),
            vip_address: urls[5].clone(),
            secure_vip_address: urls[6].clone(),
            asg_name: urls[1].clone(),
            last_updated_timestamp: numbers.3,
            last_dirty_timestamp: numbers.4,
            action_type,
        },
    )
}

/// What XML can hold of a text.
fn in_xml(text: &str) -> Arc<str> {
    let is_legal = |c: char| !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    text.chars()
        .map(|c| if is_legal(c) { c } else { '\u{FFFD}' })
        .collect::<String>()
        .into()
}

fn map_in_xml(map: &Metadata) -> Metadata {
    map.iter()
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| (key.clone(), in_xml(value)))
        .collect()
}

/// The instance with every text as XML can hold it.
fn instance_in_xml(instance: &Instance) -> Instance {
    let text = |text: &Option<Arc<str>>| text.as_deref().map(in_xml);
    Instance {
        instance_id: text(&instance.instance_id),
        app: AppName::new(&in_xml(instance.app.as_str())),
        app_group_name: text(&instance.app_group_name),
        host_name: in_xml(&instance.host_name),
        ip_addr: in_xml(&instance.ip_addr),
        sid: text(&instance.sid),
        data_center: match &instance.data_center {
            DataCenter::Amazon { metadata } => DataCenter::Amazon {
                metadata: map_in_xml(metadata),
            },
            other => other.clone(),
        },
        metadata: map_in_xml(&instance.metadata),
        home_page_url: text(&instance.home_page_url),
        status_page_url: text(&instance.status_page_url),
        health_check_url: text(&instance.health_check_url),
        secure_health_check_url: text(&instance.secure_health_check_url),
        vip_address: text(&instance.vip_address),
        secure_vip_address: text(&instance.secure_vip_address),
        asg_name: text(&instance.asg_name),
        ..instance.clone()
    }
}

fn read_back(body: &[u8], format: Format, dialect: Dialect) -> (Instance, LeaseTimes) {
    let limits = Limits::default();
    let draft = decode_registration(body, format, dialect, &limits, 5).unwrap();
    let (app, times) = (draft.app.to_string(), draft.lease_times);
    (validate(draft, &app, false).unwrap(), times)
}

fn assert_well_formed(format: Format, document: &[u8]) {
    if format == Format::Json {
        serde_json::from_slice::<serde_json::Value>(document).unwrap();
        return;
    }
    let text = std::str::from_utf8(document).unwrap();
    let mut reader = quick_xml::Reader::from_str(text);
    let mut depth = 0_i32;
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                assert!(
                    !start.name().as_ref().is_empty(),
                    "an element without name: {text}"
                );
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            Event::GeneralRef(reference) => {
                let c = reference.resolve_char_ref().unwrap();
                assert!(c.is_none_or(|c| c >= ' ' || c == '\r'), "{c:?}");
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    assert!(
        !text.contains(|c: char| c < ' ' && !matches!(c, '\n' | '\t')),
        "{text:?}"
    );
}

proptest! {
    #[test]
    fn an_instance_comes_back_from_json_as_it_went(instance in any_instance(), times in times()) {
        let mut out = Vec::new();
        let view = InstanceView { instance: &instance, times, is_coordinating: true };
        write_instance(&mut out, Format::Json, &view, true);
        for dialect in [Dialect::Exact, Dialect::Tolerant] {
            prop_assert_eq!(&read_back(&out, Format::Json, dialect), &(instance.clone(), times));
        }
    }

    #[test]
    fn an_instance_comes_back_from_xml_as_xml_can_hold_it(
        instance in any_instance(),
        times in times(),
    ) {
        let mut out = Vec::new();
        let view = InstanceView { instance: &instance, times, is_coordinating: false };
        write_instance(&mut out, Format::Xml, &view, false);
        let expected = (instance_in_xml(&instance), times);
        for dialect in [Dialect::Exact, Dialect::Tolerant] {
            prop_assert_eq!(&read_back(&out, Format::Xml, dialect), &expected);
        }
    }

    #[test]
    fn every_document_is_well_formed_whatever_it_holds(
        instances in vec(any_instance(), 0..3),
        name in nasty(),
        version in nasty(),
    ) {
        let times = LeaseTimes::default();
        let views = || {
            instances
                .iter()
                .map(|instance| InstanceView { instance, times, is_coordinating: false })
        };
        for (format, detail) in ALL_FORMS {
            let mut list = Vec::new();
            list_head(&mut list, format, detail, &version, &name, false);
            list_fragment(&mut list, format, detail, &name, views());
            list.extend_from_slice(list_separator(format, detail));
            list_fragment(&mut list, format, detail, &name, views());
            list_tail(&mut list, format, detail, &version, &name, false);
            assert_well_formed(format, &list);
            let mut application = Vec::new();
            write_application(&mut application, format, detail, &name, views());
            assert_well_formed(format, &application);
            let mut batch = Vec::new();
            let answers = views().map(|view| ItemAnswer { status: 409, entity: Some(view) });
            write_batch_response(&mut batch, format, answers, true);
            assert_well_formed(format, &batch);
        }
    }

    #[test]
    fn a_list_comes_back_with_its_instances_and_their_lease_times(
        instances in vec(any_instance(), 0..4),
        times in times(),
    ) {
        let mut list = Vec::new();
        list_head(&mut list, Format::Json, Detail::Full, "7", "UP_1_", false);
        for (at, instance) in instances.iter().enumerate() {
            if at > 0 {
                list.extend_from_slice(list_separator(Format::Json, Detail::Full));
            }
            let view = InstanceView { instance, times, is_coordinating: false };
            let name = instance.app.as_str();
            list_fragment(&mut list, Format::Json, Detail::Full, name, [view]);
        }
        list_tail(&mut list, Format::Json, Detail::Full, "7", "UP_1_", false);
        let read = decode_applications(&list, &Limits::default(), 0).unwrap();
        prop_assert_eq!((read.version.as_deref(), read.hash.as_deref()), (Some("7"), Some("UP_1_")));
        prop_assert_eq!(read.refused, 0);
        prop_assert_eq!(read.drafts.len(), instances.len());
        for (draft, instance) in read.drafts.into_iter().zip(&instances) {
            prop_assert_eq!(draft.lease_times, times);
            let app = draft.app.to_string();
            prop_assert_eq!(&validate(draft, &app, false).unwrap(), instance);
        }
    }

    #[test]
    fn a_batch_comes_back_as_it_went(
        instance in option::of(any_instance()),
        app in nasty(),
        id in nasty(),
        dirty in option::of(any::<i64>()),
        status in option::of(any_status()),
        action in prop::sample::select(Action::ALL.to_vec()),
        caller in option::of(any_actor()),
    ) {
        let times = LeaseTimes::default();
        let item = OutgoingItem {
            app: &app,
            id: &id,
            last_dirty_timestamp: dirty,
            overridden_status: status,
            status,
            instance: instance.as_ref().map(|instance| InstanceView {
                instance,
                times,
                is_coordinating: false,
            }),
            action,
            caller: caller.as_ref(),
        };
        let mut out = Vec::new();
        write_batch(&mut out, [item, item]);
        for dialect in [Dialect::Exact, Dialect::Tolerant] {
            let list = decode_batch(&out, dialect, &Limits::default(), 0).unwrap().unwrap();
            prop_assert_eq!(list.len(), 2);
            let read = list.into_iter().next_back().unwrap().unwrap();
            prop_assert_eq!(read.app.as_deref(), Some(app.as_str()));
            prop_assert_eq!(read.id.as_deref(), Some(id.as_str()));
            prop_assert_eq!(read.last_dirty_timestamp, dirty);
            prop_assert_eq!(read.status.as_deref(), status.map(Status::as_str));
            prop_assert_eq!(read.overridden_status.as_deref(), status.map(Status::as_str));
            prop_assert_eq!(read.action, Some(action));
            let known = caller.clone().filter(|caller| *caller != Actor::UNKNOWN);
            prop_assert_eq!(read.caller, known);
            let back = read.instance.map(|draft| {
                let app = draft.app.to_string();
                validate(draft, &app, false).unwrap()
            });
            prop_assert_eq!(back.as_ref(), instance.as_ref());
        }
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..300)) {
        decode_everything(&bytes);
    }

    #[test]
    fn no_mutation_of_a_body_makes_a_decoder_panic(
        instance in any_instance(),
        kind in 0..3,
        cuts in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0..4), 1..6),
    ) {
        let view =
            InstanceView { instance: &instance, times: LeaseTimes::default(), is_coordinating: false };
        let mut body = Vec::new();
        match kind {
            0 => write_instance(&mut body, Format::Json, &view, false),
            1 => write_instance(&mut body, Format::Xml, &view, false),
            _ => {
                let answers = [ItemAnswer { status: 409, entity: Some(view) }];
                write_batch_response(&mut body, Format::Json, answers, false);
            }
        }
        for (from, to, byte, how) in cuts {
            let (a, b) = (from.index(body.len() + 1), to.index(body.len() + 1));
            let (a, b) = (a.min(b), a.max(b));
            match how {
                0 => {
                    body.drain(a..b);
                }
                1 => body.insert(a, byte),
                2 => {
                    let piece = body[a..b.min(a + 200)].to_vec();
                    body.splice(a..a, piece);
                }
                _ => {
                    if let Some(place) = body.get_mut(a) {
                        *place = b"\"{}[]:,<>/&;0x"[usize::from(byte) % 14];
                    }
                }
            }
            decode_everything(&body);
        }
    }

    #[test]
    fn no_header_makes_negotiation_panic(header in "[ -~]{0,40}|[a-z*/;,=.0-9 qjsonxml]{0,40}") {
        for dialect in [Dialect::Exact, Dialect::Tolerant] {
            let _ = accept::negotiate(Some(&header), dialect);
            let _ = accept::accepts_gzip(Some(&header), dialect);
        }
        let _ = accept::request_format(Some(&header));
    }
}

fn decode_everything(bytes: &[u8]) {
    let limits = Limits::default();
    for dialect in [Dialect::Exact, Dialect::Tolerant] {
        for format in [Format::Json, Format::Xml] {
            if let Ok(draft) = decode_registration(bytes, format, dialect, &limits, 0) {
                let app = draft.app.to_string();
                let _ = validate(draft, &app, true);
            }
        }
        let _ = decode_batch(bytes, dialect, &limits, 0);
    }
    let _ = decode_batch_response(bytes, &limits, 0);
    let _ = decode_applications(bytes, &limits, 0);
}

fn refusal(body: &str, format: Format) -> String {
    let mut messages = Vec::new();
    for dialect in [Dialect::Exact, Dialect::Tolerant] {
        let limits = Limits::default();
        let error = decode_registration(body.as_bytes(), format, dialect, &limits, 0);
        messages.push(error.unwrap_err().to_string());
    }
    messages.dedup();
    messages.join(" | ")
}

#[test]
fn what_exceeds_a_limit_is_refused_by_its_name() {
    let id = "x".repeat(10 * 1024);
    let long_id = format!("{{\"instance\":{{\"app\":\"A\",\"instanceId\":\"{id}\"}}}}");
    let message = refusal(&long_id, Format::Json);
    assert!(
        message.contains("instanceId") && message.contains("limit id_bytes"),
        "{message}"
    );
    let long_id = format!("<instance><instanceId>{id}</instanceId></instance>");
    let message = refusal(&long_id, Format::Xml);
    assert!(
        message.contains("instanceId") && message.contains("limit id_bytes"),
        "{message}"
    );

    let entries: Vec<String> = (0..1100).map(|n| format!("\"k{n}\":\"v\"")).collect();
    let many = format!(
        "{{\"instance\":{{\"metadata\":{{{}}}}}}}",
        entries.join(",")
    );
    assert!(refusal(&many, Format::Json).contains("limit metadata_entries"));
    let entries: Vec<String> = (0..1100).map(|n| format!("<k{n}>v</k{n}>")).collect();
    let many = format!(
        "<instance><metadata>{}</metadata></instance>",
        entries.concat()
    );
    assert!(refusal(&many, Format::Xml).contains("limit metadata_entries"));
    // Each value is short enough, together they are not.
    let value = "v".repeat(200 * 1024);
    let json = format!(
        "{{\"instance\":{{\"metadata\":{{\"a\":\"{value}\",\"b\":\"{value}\",\"c\":\"{value}\"}}}}}}"
    );
    assert!(refusal(&json, Format::Json).contains("limit metadata_bytes"));
    let xml = format!(
        "<instance><metadata><a>{value}</a><b>{value}</b><c>{value}</c></metadata></instance>"
    );
    assert!(refusal(&xml, Format::Xml).contains("limit metadata_bytes"));
    let elements = format!("<instance>{}</instance>", "<a/>".repeat(10_000));
    assert!(refusal(&elements, Format::Xml).contains("limit metadata_entries"));

    let deep = "<a>".repeat(100_000);
    assert!(refusal(&deep, Format::Xml).contains("limit depth"));
    assert!(refusal(&"[".repeat(100_000), Format::Json).contains("not an object"));
    let deep = format!("{{\"instance\":{}", "{\"a\":".repeat(100_000));
    assert!(refusal(&deep, Format::Json).contains("limit depth"));

    let limits = Limits {
        batch_items: 2,
        ..Limits::default()
    };
    let batch = br#"{"replicationList":[{},{},{}]}"#;
    let error = decode_batch(batch, Dialect::Tolerant, &limits, 0).unwrap_err();
    assert!(error.to_string().contains("limit batch_items"));
    let limits = Limits {
        list_instances: 0,
        ..Limits::default()
    };
    let list = br#"{"applications":{"application":{"instance":{"app":"A"}}}}"#;
    let error = decode_applications(list, &limits, 0).unwrap_err();
    assert!(error.to_string().contains("limit list_instances"));
}

#[test]
fn one_bad_instance_of_a_list_costs_only_itself() {
    let list = br#"{"applications":{"application":[{"name":"A","instance":[
        {"app":"A","hostName":"h1"},{"hostName":"h2"},{"app":"A","port":[1]},
        {"app":"A","hostName":"h3","unknown":{"a":[1]}}]}]}}"#;
    let read = decode_applications(list, &Limits::default(), 0).unwrap();
    let hosts: Vec<_> = read
        .drafts
        .iter()
        .filter_map(|d| d.host_name.as_deref())
        .collect();
    assert_eq!(hosts, ["h1", "h3"]);
    assert_eq!(read.refused, 2);
    assert!(read.first_refusal.unwrap().to_string().contains("\"app\""));
    let cut = &list[..list.len() - 10];
    assert!(decode_applications(cut, &Limits::default(), 0).is_err());
}

#[test]
fn the_tolerant_batch_skips_unknown_keys_and_refuses_nulls() {
    let limits = Limits::default();
    let batch = |body: &str, dialect| decode_batch(body.as_bytes(), dialect, &limits, 0);
    let unknown = r#"{"x":{"y":[1]},"replicationList":[{"appName":"A","new":{"a":1}}]}"#;
    assert!(batch(unknown, Dialect::Exact).is_err());
    let items = batch(unknown, Dialect::Tolerant).unwrap().unwrap();
    assert_eq!(items[0].as_ref().unwrap().app.as_deref(), Some("A"));
    for nothing in ["null", "{}", r#"{"replicationList":null}"#] {
        assert_eq!(batch(nothing, Dialect::Exact), Ok(None));
        assert!(batch(nothing, Dialect::Tolerant).is_err());
    }
    let null_item = r#"{"replicationList":[null]}"#;
    assert_eq!(batch(null_item, Dialect::Exact), Ok(Some(vec![None])));
    assert!(batch(null_item, Dialect::Tolerant).is_err());
}

#[test]
fn amazon_under_the_default_class_is_amazon_and_harmless() {
    let body = br#"{"instance":{"app":"A","hostName":"h","ipAddr":"i","dataCenterInfo":{
        "@class":"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo","name":"Amazon"}}}"#;
    for dialect in [Dialect::Exact, Dialect::Tolerant] {
        let (instance, _) = read_back(body, Format::Json, dialect);
        let DataCenter::Amazon { metadata } = &instance.data_center else {
            panic!("{:?}", instance.data_center);
        };
        assert_eq!(metadata.get("instance-id").map(|id| &**id), Some("h"));
    }
}

#[test]
fn a_lease_value_in_xml_that_is_no_number_is_ignored_or_loses_the_rest() {
    let body = b"<instance><app>A</app><hostName>h</hostName><ipAddr>i</ipAddr>\
        <leaseInfo><renewalIntervalInSecs>x</renewalIntervalInSecs>\
        <durationInSecs>7</durationInSecs></leaseInfo><vipAddress>v</vipAddress></instance>";
    let decode =
        |dialect| decode_registration(body, Format::Xml, dialect, &Limits::default(), 0).unwrap();
    let (exact, tolerant) = (decode(Dialect::Exact), decode(Dialect::Tolerant));
    assert_eq!(
        (exact.lease.duration_secs, exact.vip_address.as_deref()),
        (90, None)
    );
    assert_eq!(
        (
            tolerant.lease.duration_secs,
            tolerant.vip_address.as_deref()
        ),
        (7, Some("v"))
    );
}

#[test]
fn what_a_tolerant_decoder_refuses_it_explains() {
    for (field, said) in [
        (
            r#""metadata":{"k":{"a":"b"}}"#,
            "metadata value \"k\" is an object",
        ),
        (r#""hostName":["h"]"#, "hostName is an array"),
        (r#""port":"abc""#, "\"abc\" is not a port"),
        (r#""port":{"$":[1]}"#, "$ of a port is an array"),
        (
            r#""dataCenterInfo":{"name":"MyOwn"}"#,
            "dataCenterInfo has no @class",
        ),
        (
            r#""dataCenterInfo":{"@class":"x.Y"}"#,
            "unknown @class \"x.Y\"",
        ),
        (
            r#""countryId":99999999999"#,
            "\"99999999999\" does not fit 32 bits",
        ),
    ] {
        let body = format!("{{\"instance\":{{\"app\":\"A\",{field}}}}}");
        let limits = Limits::default();
        let error =
            decode_registration(body.as_bytes(), Format::Json, Dialect::Tolerant, &limits, 0);
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains(said) && message.contains("at byte"),
            "{message}"
        );
    }
}
