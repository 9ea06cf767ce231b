//! The requests of the [model](super::client_model) as bytes, and their answers in its words.

use serde_json::{Value, json};

use super::client_model::{Op, Reply};
use super::http::{Answer, request};
use super::instance::Registration;

/// The bytes of a request.
pub(crate) fn encode(writer: usize, op: &Op) -> Vec<u8> {
    let target = |id: &u64| {
        format!(
            "/eureka/apps/{}/{}",
            app(writer, *id),
            instance(writer, *id)
        )
    };
    match op {
        Op::Register { .. } => registration(writer, op).register(),
        Op::SetStatus { id, status, dirty } => {
            let target = format!(
                "{}/status?value={status}&lastDirtyTimestamp={dirty}",
                target(id)
            );
            request("PUT", &target, &[], b"")
        }
        Op::Lift { id, dirty } => {
            let target = format!("{}/status?lastDirtyTimestamp={dirty}", target(id));
            request("DELETE", &target, &[], b"")
        }
        Op::Metadata { id, key, value } => request(
            "PUT",
            &format!("{}/metadata?{key}={value}", target(id)),
            &[],
            b"",
        ),
        Op::Cancel { id } => request("DELETE", &target(id), &[], b""),
        Op::Beat { id } => request("PUT", &format!("{}?status=UP", target(id)), &[], b""),
        Op::Shared { value } => {
            let target = format!("/eureka/apps/SHARED/shared/metadata?w{writer}={value}");
            request("PUT", &target, &[], b"")
        }
        Op::Batch(items) => {
            let items: Vec<Value> = items.iter().map(|item| batch_item(writer, item)).collect();
            let body = json!({ "replicationList": items }).to_string();
            let headers = [
                "Accept: application/json",
                "x-netflix-discovery-replication: true",
            ];
            request(
                "POST",
                "/eureka/peerreplication/batch/",
                &headers,
                body.as_bytes(),
            )
        }
    }
}

fn batch_item(writer: usize, op: &Op) -> Value {
    let item = |id: u64, action: &str, dirty: i64| {
        json!({
            "appName": app(writer, id),
            "id": instance(writer, id),
            "lastDirtyTimestamp": dirty,
            "overriddenStatus": "UNKNOWN",
            "action": action,
        })
    };
    match op {
        Op::Register { id, dirty, .. } => {
            let mut item = item(*id, "Register", *dirty);
            item["status"] = "UP".into();
            item["instanceInfo"] = registration(writer, op).document();
            item
        }
        Op::SetStatus { id, status, dirty } => {
            let mut item = item(*id, "StatusUpdate", *dirty);
            item["status"] = (*status).into();
            item
        }
        Op::Lift { id, dirty } => item(*id, "DeleteStatusOverride", *dirty),
        Op::Cancel { id } => item(*id, "Cancel", 0),
        other => panic!("{other:?} is no item of a batch"),
    }
}

fn registration(writer: usize, op: &Op) -> Registration {
    let Op::Register {
        id,
        status,
        dirty,
        metadata,
    } = op
    else {
        panic!("{op:?} is no registration")
    };
    Registration {
        status,
        dirty: *dirty,
        metadata: metadata.clone(),
        ..Registration::new(&app(writer, *id), &instance(writer, *id))
    }
}

/// The answer in the words of the model.
pub(crate) fn decode(op: &Op, answer: &Answer) -> Reply {
    let Op::Batch(_) = op else {
        assert!(answer.body.is_empty(), "{op:?} was answered with a body");
        return Reply::One(answer.status);
    };
    assert_eq!(answer.status, 200, "{op:?}");
    let statuses = answer.json()["responseList"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| u16::try_from(item["statusCode"].as_u64().unwrap()).unwrap())
        .collect();
    Reply::Many(statuses)
}

/// Applications are shared by writers, instances are not.
pub(crate) fn app(_writer: usize, id: u64) -> String {
    format!("APP{}", id % 3)
}

pub(crate) fn instance(writer: usize, id: u64) -> String {
    format!("{writer}-{id}")
}
