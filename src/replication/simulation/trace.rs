//! Lines of the event log, to be read by people.

use crate::replication::sender::{Ask, Outcome};

pub(super) fn told(ask: &Ask) -> String {
    use std::fmt::Write as _;
    match ask {
        Ask::Probe => "probe".into(),
        Ask::Digests => "digests".into(),
        Ask::Born => "born?".into(),
        Ask::Recent => "recent?".into(),
        Ask::Compare {
            asked,
            answer_bytes,
        } => format!("compare {asked:?} in {answer_bytes} bytes"),
        Ask::Renewals(items) => format!("{} renewals", items.len()),
        Ask::Batch(items) => {
            let mut text = String::new();
            for item in items {
                use crate::replication::outbound::Item;
                let what = match item {
                    Item::Register { lease, .. } => {
                        let (dirty, updated) = version(lease.instance());
                        let o = lease.instance().overridden_status;
                        format!("register@{dirty}/{updated}/{o}")
                    }
                    Item::Heartbeat { lease, .. } => {
                        format!("beat@{}", version(lease.instance()).0)
                    }
                    Item::Cancel { lease, .. } => format!("cancel@{:?}", version(lease.instance())),
                    Item::SetStatus { status, .. } => format!("set {status}"),
                    Item::DeleteOverride(_) => "lift".into(),
                };
                let _ = write!(text, "[{} {what}]", item.id());
            }
            text
        }
    }
}

/// Relative to the start, to be read by people.
fn version(instance: &crate::registry::instance::Instance) -> (i64, i64) {
    let start = super::node::START.cast_signed();
    (
        instance.last_dirty_timestamp - start,
        instance.last_updated_timestamp - start,
    )
}

pub(super) fn heard(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Items(results) => {
            let statuses: Vec<u16> = results.iter().map(|result| result.status).collect();
            format!("{statuses:?}")
        }
        Outcome::Compared(found) => format!(
            "compared: wanted {:?} cancelled {:?} newer {}",
            found.wanted, found.cancelled, found.newer_count
        ),
        other => format!("{other:?}"),
    }
}

pub(super) fn recorded(record: &crate::registry::change::Record) -> String {
    let change = &record.change;
    let lease = change.lease.as_ref().map(|image| {
        let instance = &image.instance;
        format!(
            "{:?} {} over {}",
            version(instance),
            instance.status,
            instance.overridden_status
        )
    });
    format!(
        "@{} {}/{} {} by {:?}: {}",
        record.lsn,
        change.app,
        change.id,
        change.kind.as_str(),
        record.origin,
        lease.unwrap_or_default()
    )
}
