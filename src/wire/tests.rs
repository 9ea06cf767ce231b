//! The wire against recorded answers of the real server, `tests/fixtures/wire/`.

use serde_json::Value;

use super::accept::{Unsupported, negotiate, request_format};
use super::batch::{ItemAnswer, decode_batch, decode_batch_response, write_batch_response};
use super::*;
use crate::registry::instance::{ActionType, Instance};
use crate::registry::status;

/// The recordings were made around this time, ms; times near it are the server's clock.
const RECORDED_MS: i64 = 1_796_055_600_000;

fn cases(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).unwrap();
    let cases = file["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn registrations() -> Vec<Value> {
    cases(include_str!("../../tests/fixtures/wire/registrations.json"))
}

fn text<'c>(case: &'c Value, key: &str) -> &'c str {
    case[key]
        .as_str()
        .unwrap_or_else(|| panic!("no {key} in {case}"))
}

fn body(case: &Value) -> Vec<u8> {
    match case["body"].as_str() {
        Some(body) => body.as_bytes().to_vec(),
        None => base64(text(case, "body_base64")),
    }
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut out) = (0_u32, 0, Vec::new());
    for byte in text.bytes().filter(|b| *b != b'=') {
        let digit = DIGITS.iter().position(|d| *d == byte).unwrap();
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xFF).unwrap());
        }
    }
    out
}

/// The path's application, percent-decoded.
fn path_app(case: &Value) -> String {
    percent_encoding::percent_decode_str(text(case, "app"))
        .decode_utf8()
        .unwrap()
        .into_owned()
}

fn view(instance: &Instance, times: LeaseTimes) -> InstanceView<'_> {
    InstanceView {
        instance,
        times,
        is_coordinating: false,
    }
}

fn is_clock(ms: i64) -> bool {
    (ms - RECORDED_MS).abs() < 86_400_000
}

/// Times of the server's clock become 0, as number or string.
fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(mask),
        Value::Array(list) => list.iter_mut().for_each(mask),
        Value::String(text) if text.parse().is_ok_and(is_clock) => *text = "0".to_owned(),
        Value::Number(number) if number.as_i64().is_some_and(is_clock) => *value = 0.into(),
        _ => {}
    }
}

/// What a registration came to: the instance as a read would show it, or status and text.
fn register(case: &Value, dialect: Dialect) -> Result<Instance, (u64, Option<String>)> {
    let kind = match request_format(case["content_type"].as_str()) {
        Ok(kind) => kind,
        Err(Unsupported::Malformed(_)) => return Err((400, None)),
        Err(_) => return Err((415, None)),
    };
    let body = body(case);
    let body = kind.utf8(&body, dialect);
    let limits = Limits::default();
    let draft = decode_registration(&body, kind.format, dialect, &limits, RECORDED_MS);
    let draft = draft.map_err(|error| {
        let status = if error.is_null_body() { 500 } else { 400 };
        let text = (status == 400).then(|| parse_error_body(kind.exactly_json).to_owned());
        (status, text)
    })?;
    let strict_id = text(case, "id").starts_with("experimental");
    let mut instance = validate(draft, &path_app(case), strict_id)
        .map_err(|refusal| (400, Some(refusal.to_string())))?;
    let forced = Some(instance.overridden_status).filter(|s| *s != status::Status::Unknown);
    instance.status = status::effective(instance.status, forced, None, false);
    instance.action_type = Some(ActionType::Added);
    instance.last_updated_timestamp = RECORDED_MS;
    Ok(instance)
}

fn shown(instance: &Instance) -> Value {
    shown_with(instance, mask)
}

fn shown_with(instance: &Instance, mask: fn(&mut Value)) -> Value {
    let up = instance.status == status::Status::Up;
    let times = LeaseTimes {
        registration: RECORDED_MS,
        last_renewal: RECORDED_MS,
        eviction: 0,
        service_up: if up { RECORDED_MS } else { 0 },
        vouched_ms: None,
    };
    let mut out = Vec::new();
    write_instance(&mut out, Format::Json, &view(instance, times), false);
    let mut value = serde_json::from_slice(&out).unwrap();
    mask(&mut value);
    value
}

#[test]
fn exact_decoding_comes_to_every_recorded_answer() {
    let mut compared = 0;
    for case in registrations() {
        let id = text(&case, "id");
        match (
            case["status"].as_u64().unwrap(),
            register(&case, Dialect::Exact),
        ) {
            (204, Ok(instance)) => {
                if let Some(then) = case["then"].as_str() {
                    let mut recorded: Value = serde_json::from_str(then).unwrap();
                    mask(&mut recorded);
                    assert_eq!(shown(&instance), recorded, "{id}");
                    compared += 1;
                }
            }
            (406, _) => {}
            (status, Err((answered, answer))) => {
                assert_eq!(status, answered, "{id}");
                assert_eq!(case["text"].as_str(), answer.as_deref(), "{id}");
            }
            (status, Ok(_)) => panic!("{id} was taken where {status} is recorded"),
        }
    }
    assert!(compared > 100);
}

#[test]
fn tolerant_decoding_takes_all_that_exact_takes_and_says_the_same_of_it() {
    for case in registrations() {
        let id = text(&case, "id");
        let (exact, tolerant) = (
            register(&case, Dialect::Exact),
            register(&case, Dialect::Tolerant),
        );
        match (exact, tolerant) {
            (Ok(exact), Ok(tolerant)) => {
                // The quirk of a lease that is no object swallows the metadata after it.
                if text(&case, "tier") != "quirk" {
                    assert_eq!(exact, tolerant, "{id}");
                }
            }
            (Ok(_), Err(error)) => panic!("{id} was refused: {error:?}"),
            (Err(exact), Err(tolerant)) => assert_eq!(exact, tolerant, "{id}"),
            (Err(_), Ok(_)) => {}
        }
    }
}

#[test]
fn tolerant_decoding_takes_what_is_clear_and_only_that() {
    let mut taken: Vec<String> = registrations()
        .iter()
        .filter(|case| case["status"].as_u64() == Some(400))
        .filter(|case| register(case, Dialect::Tolerant).is_ok())
        .map(|case| text(case, "id").rsplit('/').next().unwrap().to_owned())
        .collect();
    taken.sort();
    let expected = [
        "01-port-number",
        "04-port-string",
        "130-unknown-array",
        "190-lease-array",
        "226-amazon-no-metadata",
        "238-dc-extra",
        "36-json-charset-latin1",
    ];
    assert_eq!(taken, expected);
}

/// Times of the server's clock become the text that stands for them in these recordings.
fn mask_with_word(value: &mut Value) {
    let is_now = match &*value {
        Value::Object(_) | Value::Array(_) => false,
        Value::String(text) => text.parse().is_ok_and(is_clock),
        other => other.as_i64().is_some_and(is_clock),
    };
    match value {
        Value::Object(map) => map.values_mut().for_each(mask_with_word),
        _ if is_now => *value = "{now}".into(),
        _ => {}
    }
}

#[test]
fn the_shapes_that_clients_send_come_to_their_recorded_answers() {
    let shapes = cases(include_str!("../../tests/fixtures/wire/tolerance.json"));
    for case in &shapes {
        let id = text(case, "id");
        match (
            case["status"].as_u64().unwrap(),
            register(case, Dialect::Exact),
        ) {
            (204, Ok(instance)) => {
                let Some(then) = case.get("then") else {
                    // The one that the original cannot show again.
                    assert_eq!(id, "dci Amazon default class");
                    continue;
                };
                assert_eq!(&shown_with(&instance, mask_with_word), then, "{id}");
            }
            (status, Err((answered, answer))) => {
                assert_eq!(status, answered, "{id}");
                assert_eq!(case["text"].as_str(), answer.as_deref(), "{id}");
            }
            (status, Ok(_)) => panic!("{id} was taken where {status} is recorded"),
        }
        // The only shape that the tolerant dialect takes less of: what the original makes of it,
        // `{"o":"{","x":"1"}`, is what nobody sent.
        if case["status"] == 204 && id != "metadata nested object" {
            assert!(register(case, Dialect::Tolerant).is_ok(), "{id}");
        }
    }
}

#[test]
fn a_bare_port_is_read_in_every_spelling_of_its_number() {
    for (port, expected) in [
        ("8080", Some(8080)),
        ("8080.0", Some(8080)),
        ("\"8080\"", Some(8080)),
        ("\" 8080.0 \"", Some(8080)),
        ("\"http\"", None),
        ("99999999999", None),
    ] {
        let body = format!(r#"{{"instance":{{"app":"A","port":{port}}}}}"#);
        let limits = Limits::default();
        let draft =
            decode_registration(body.as_bytes(), Format::Json, Dialect::Tolerant, &limits, 0);
        assert_eq!(
            draft.ok().map(|draft| draft.port.number),
            expected,
            "{port}"
        );
    }
}

#[test]
fn a_number_that_fits_nowhere_in_a_lease_hides_nothing_else_of_it() {
    let body = br#"{"instance":{"app":"A","leaseInfo":{"x":-3.5e187,"durationInSecs":7}}}"#;
    let limits = Limits::default();
    let draft = decode_registration(body, Format::Json, Dialect::Tolerant, &limits, 0).unwrap();
    assert_eq!(draft.lease.duration_secs, 7);
}

#[test]
fn every_refusal_says_what_was_wrong() {
    for case in registrations()
        .iter()
        .filter(|case| case["status"].as_u64() == Some(400))
    {
        let Ok(kind) = request_format(case["content_type"].as_str()) else {
            continue;
        };
        for dialect in [Dialect::Exact, Dialect::Tolerant] {
            let body = body(case);
            let error =
                decode_registration(&body, kind.format, dialect, &Limits::default(), RECORDED_MS);
            if let Err(error) = error {
                let message = error.to_string();
                assert!(message.len() > 10 && message.len() < 400, "{message}");
            }
        }
    }
}

#[test]
fn bodies_that_make_the_original_spin_are_refused() {
    let limits = Limits::default();
    for dialect in [Dialect::Exact, Dialect::Tolerant] {
        for body in [
            r#"{"instance":[]}"#,
            r#"{"instance":{"app":"A","metadata":[],"hostName":"h"}}"#,
            r#"{"instance":{"app":"A","foo":["#,
        ] {
            assert!(
                decode_registration(body.as_bytes(), Format::Json, dialect, &limits, 0).is_err()
            );
        }
    }
}

/// The drafts and lease times of a recorded JSON document of any kind.
fn drafts(document: &Value) -> Vec<Draft> {
    let body = text(document, "body");
    let list = match text(document, "kind") {
        "instance" => format!("{{\"applications\":{{\"application\":{body}}}}}"),
        "application" => format!("{{\"applications\":{body}}}"),
        _ => body.to_owned(),
    };
    let list = decode_applications(list.as_bytes(), &Limits::default(), 0).unwrap();
    assert_eq!(list.refused, 0, "{:?}", list.first_refusal);
    list.drafts
}

fn admitted(draft: &Draft) -> (Instance, LeaseTimes) {
    let app = draft.app.to_string();
    (
        validate(draft.clone(), &app, false).unwrap(),
        draft.lease_times,
    )
}

/// Where the instance stands in a document, `None` if it is not there.
fn place(document: &str, instance: &Instance) -> Option<usize> {
    let id = instance.id();
    document
        .find(&format!("\"instanceId\":\"{id}\""))
        .or_else(|| document.find(&format!("<instanceId>{id}</instanceId>")))
}

fn written(document: &Value, known: &[(Instance, LeaseTimes)]) -> Vec<u8> {
    let body = text(document, "body");
    let format = if document["format"] == "json" {
        Format::Json
    } else {
        Format::Xml
    };
    let detail = if document["compact"].as_bool().unwrap() {
        Detail::Compact
    } else {
        Detail::Full
    };
    let mut order: Vec<_> = known.iter().collect();
    if known
        .iter()
        .all(|(instance, _)| instance.instance_id.is_some())
    {
        order.retain(|(instance, _)| place(body, instance).is_some());
        order.sort_by_key(|(instance, _)| place(body, instance));
    }
    let views: Vec<_> = order
        .iter()
        .map(|(instance, times)| view(instance, *times))
        .collect();
    let mut out = Vec::new();
    match text(document, "kind") {
        "instance" => write_instance(&mut out, format, &views[0], true),
        "application" => {
            let name = views[0].instance.app.as_str();
            write_application(&mut out, format, detail, name, views.iter().copied());
        }
        _ => {
            let (version, hash) = (text(document, "version"), text(document, "hash"));
            list_head(&mut out, format, detail, version, hash, views.is_empty());
            for (at, app) in views
                .chunk_by(|a, b| a.instance.app == b.instance.app)
                .enumerate()
            {
                if at > 0 {
                    out.extend_from_slice(list_separator(format, detail));
                }
                let name = app[0].instance.app.as_str();
                list_fragment(&mut out, format, detail, name, app.iter().copied());
            }
            list_tail(&mut out, format, detail, version, hash, views.is_empty());
        }
    }
    out
}

#[test]
fn documents_are_written_as_recorded_to_the_byte() {
    let mut count = 0;
    for group in cases(include_str!("../../tests/fixtures/wire/documents.json")) {
        let shown = group["shown"].as_array().unwrap();
        let full = usize::try_from(group["full"].as_u64().unwrap()).unwrap();
        let mut known: Vec<(Instance, LeaseTimes)> = Vec::new();
        for document in &shown[..full] {
            for draft in drafts(document) {
                let (instance, times) = admitted(&draft);
                known.retain(|(k, _)| k.app != instance.app || k.id() != instance.id());
                known.push((instance, times));
            }
        }
        for document in shown {
            let out = String::from_utf8(written(document, &known)).unwrap();
            assert_eq!(out, text(document, "body"), "{}", text(document, "id"));
            count += 1;
        }
    }
    assert!(count > 80);
}

#[test]
fn groups_of_a_fragment_make_the_same_bytes_as_the_whole() {
    let file = cases(include_str!("../../tests/fixtures/wire/documents.json"));
    let several = file
        .iter()
        .find(|g| text(&g["shown"][0], "id").contains("several"))
        .unwrap();
    let known: Vec<_> = drafts(&several["shown"][0]).iter().map(admitted).collect();
    assert!(known.len() > 2);
    for (format, detail) in [
        (Format::Json, Detail::Full),
        (Format::Json, Detail::Compact),
        (Format::Xml, Detail::Full),
        (Format::Xml, Detail::Compact),
    ] {
        let views = || known.iter().map(|(instance, times)| view(instance, *times));
        let (mut whole, mut grouped) = (Vec::new(), Vec::new());
        list_fragment(&mut whole, format, detail, "A", views());
        fragment_open(&mut grouped, format, detail, "A");
        fragment_instances(&mut grouped, format, detail, views().take(2));
        grouped.extend_from_slice(instance_separator(format));
        fragment_instances(&mut grouped, format, detail, views().skip(2));
        fragment_close(&mut grouped, format, detail);
        assert_eq!(whole, grouped);
    }
}

#[test]
fn batches_are_read_and_answered_as_recorded() {
    let limits = Limits::default();
    for case in cases(include_str!("../../tests/fixtures/wire/batches.json")) {
        let id = text(&case, "id");
        let status = case["status"].as_u64().unwrap();
        let kind = match request_format(case["content_type"].as_str()) {
            Ok(kind) if kind.format == Format::Json => kind,
            Ok(_) => {
                assert_eq!(status, 400, "{id}");
                continue;
            }
            Err(_) => {
                assert_eq!(status, 415, "{id}");
                continue;
            }
        };
        assert!(kind.exactly_json);
        let batch = decode_batch(&body(&case), Dialect::Exact, &limits, RECORDED_MS);
        match (status, batch) {
            (400, batch) => assert!(batch.is_err(), "{id}"),
            (500, batch) => assert_eq!(batch, Ok(None), "{id}"),
            (_, batch) => {
                let items = batch.unwrap().unwrap();
                assert!(items.iter().all(Option::is_some), "{id}");
                answers_are_written_as_recorded(&case, items.len());
            }
        }
    }
}

fn answers_are_written_as_recorded(case: &Value, items: usize) {
    let answer = text(case, "answer");
    let format = negotiate(case["accept"].as_str(), Dialect::Exact)
        .unwrap()
        .content_type;
    if format == Format::Xml {
        if items == 0 {
            let mut out = Vec::new();
            write_batch_response(&mut out, format, [], true);
            assert_eq!(String::from_utf8(out).unwrap(), answer);
        }
        return;
    }
    let replies = decode_batch_response(answer.as_bytes(), &Limits::default(), 0).unwrap();
    assert_eq!(replies.len(), items);
    let entities: Vec<_> = replies
        .iter()
        .map(|reply| (reply.status, reply.entity.as_ref().map(admitted)))
        .collect();
    let answers = entities.iter().map(|(status, entity)| ItemAnswer {
        status: *status,
        entity: entity
            .as_ref()
            .map(|(instance, times)| view(instance, *times)),
    });
    let mut out = Vec::new();
    write_batch_response(&mut out, format, answers, true);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        answer,
        "{}",
        text(case, "id")
    );
}

#[test]
fn the_xml_answer_to_a_batch_is_written_as_recorded() {
    let file = cases(include_str!("../../tests/fixtures/wire/batches.json"));
    let case = file
        .iter()
        .find(|c| text(c, "id").ends_with("58-accept-xml-items"))
        .unwrap();
    let recorded = text(case, "answer");
    let from = recorded.find("<responseEntity>").unwrap();
    let to = recorded.find("</responseEntity>").unwrap();
    let entity = recorded[from..to].replace("responseEntity", "instance") + "</instance>";
    let draft = decode_registration(
        entity.as_bytes(),
        Format::Xml,
        Dialect::Exact,
        &Limits::default(),
        0,
    );
    let (instance, times) = admitted(&draft.unwrap());
    let mut out = Vec::new();
    let answers = [
        ItemAnswer {
            status: 200,
            entity: None,
        },
        ItemAnswer {
            status: 409,
            entity: Some(view(&instance, times)),
        },
    ];
    write_batch_response(&mut out, Format::Xml, answers, true);
    assert_eq!(String::from_utf8(out).unwrap(), recorded);
}
