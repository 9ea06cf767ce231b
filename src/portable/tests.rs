//! The portable form: round trips, the form itself, hostile documents.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::registry::instance::Instance;
use crate::registry::status::Status;
use crate::store::testing::registered;
use crate::store::{CheckpointLease, CheckpointOverride};
use crate::store::{any_record, testing};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_record_comes_back_as_it_was(record in any_record()) {
        let value = encode(&record);
        prop_assert_eq!(decode(&value), Ok(record.clone()));
        let line = PortableLine::Record(Box::new(record));
        let text = line.to_json();
        prop_assert!(!text.contains('\n'));
        prop_assert_eq!(serde_json::from_str::<PortableLine>(&text).unwrap(), line);
    }

    #[test]
    fn a_lease_and_an_override_come_back_as_they_were(record in any_record(), scoped: bool) {
        let change = record.change;
        let mut lines = vec![PortableLine::Override(CheckpointOverride {
            app: scoped.then(|| change.app.clone()),
            id: change.id.clone(),
            status: Status::OutOfService,
        })];
        lines.extend(change.lease.map(|image| {
            PortableLine::Lease(Box::new(CheckpointLease {
                app: change.app,
                id: change.id,
                lsn: record.lsn,
                image,
            }))
        }));
        for line in lines {
            prop_assert_eq!(serde_json::from_str::<PortableLine>(&line.to_json()).unwrap(), line);
        }
    }

    #[test]
    fn any_other_text_is_an_error_but_no_panic(text in "[{}\\[\\]\",:a-z0-9 ]{0,80}") {
        let _ = serde_json::from_str::<PortableLine>(&text);
    }
}

#[test]
fn the_form_never_changes_by_accident() {
    let record = registered(7, 1_500);
    let value = encode(&record);
    assert_eq!(value["lsn"], 7);
    assert_eq!(value["at"], 1_500);
    assert_eq!(value["kind"], "registered");
    assert!(value["origin"].is_string() || value["origin"]["peer"].is_string());
    let instance = &value["lease"]["instance"];
    for name in [
        "hostName",
        "ipAddr",
        "port",
        "securePort",
        "countryId",
        "dataCenter",
        "status",
        "overriddenStatus",
        "renewalIntervalSecs",
        "durationSecs",
        "lastUpdatedTimestamp",
        "lastDirtyTimestamp",
    ] {
        assert!(!instance[name].is_null(), "{name} in {instance}");
    }
    assert_eq!(value["lease"]["reported"], "UP");
}

#[test]
fn what_is_not_known_is_refused() {
    let good = encode(&registered(7, 1_500));
    let change = |path: &str, to: Value| {
        let mut value = good.clone();
        *value.pointer_mut(path).expect("the place") = to;
        decode(&value)
    };
    assert!(
        change("/kind", json!("renamed"))
            .unwrap_err()
            .contains("renamed")
    );
    assert!(change("/lease/instance/status", json!("up")).is_err());
    assert!(change("/lsn", json!(-1)).is_err());
    let mut unknown = good.clone();
    unknown["lease"]["colour"] = json!("red");
    assert!(decode(&unknown).unwrap_err().contains("colour"));
}

#[test]
fn what_no_log_can_hold_is_told() {
    let mut record = registered(7, 1_500);
    assert_eq!(check(&record), Ok(()));
    record.lsn = Lsn::ZERO;
    assert!(check(&record).is_err());
    record.lsn = Lsn(1);
    record.change.lease = None;
    assert!(check(&record).unwrap_err().contains("registered"));
    let mut image = testing::lease("A", "a");
    let mut instance = Instance::clone(&image.instance);
    instance.lease.duration_secs = 0;
    image.instance = Arc::new(instance);
    assert!(check_lease(&image).is_err());
}
