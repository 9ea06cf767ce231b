//! One change of the history on one line, from the entry that the API gives.

use serde_json::Value;

use super::screen::{Cell, Flow, Paint, Screen};
use super::text::{clean, cut};

/// Longest value of a field that is shown.
const VALUE_MAX: usize = 60;

/// The head of the table of [`row`].
const HEAD: [&str; 7] = ["TIME", "LSN", "KIND", "INSTANCE", "CHANGES", "BY", "REASON"];

/// A table of entries that are shown as they come.
pub(super) fn table() -> Flow {
    Flow::new(&HEAD)
}

/// The cells of an entry.
pub(super) fn row(screen: &Screen, entry: &Value) -> [Cell; 7] {
    let kind = text(entry, "kind");
    [
        Cell::painted(screen.moments.show(text(entry, "at")), Paint::Dim),
        Cell::new(&entry["lsn"]),
        Cell::painted(kind, Paint::of_kind(kind)),
        Cell::painted(instance(entry), Paint::Bold),
        Cell::new(changes(entry)),
        Cell::new(by(entry)),
        Cell::new(reason(entry)),
    ]
}

/// An entry as one line that stands alone.
pub(super) fn line(screen: &Screen, entry: &Value) -> String {
    let kind = text(entry, "kind");
    let mut line = format!(
        "{}  {}  {}  {}",
        screen.paint(&screen.moments.show(text(entry, "at")), Paint::Dim),
        clean(&entry["lsn"].to_string()),
        screen.paint(&format!("{:<17}", clean(kind)), Paint::of_kind(kind)),
        screen.paint(&clean(&instance(entry)), Paint::Bold),
    );
    for part in [changes(entry), by(entry), reason(entry)] {
        if !part.is_empty() {
            line.push_str("  ");
            line.push_str(&clean(&part));
        }
    }
    line
}

/// `APP/ID`.
pub(super) fn instance(entry: &Value) -> String {
    format!("{}/{}", text(entry, "app"), text(entry, "instance"))
}

/// What changed: `status UP→DOWN, port 80→81`.
pub(super) fn changes(entry: &Value) -> String {
    let Some(changes) = entry["changes"].as_object() else {
        return String::new();
    };
    // The kind says that an instance came or went.
    let told: Vec<String> = changes
        .iter()
        .filter(|(name, _)| *name != "present")
        .map(|(name, change)| {
            let before = value(&change["before"]);
            let after = value(&change["after"]);
            format!("{name} {before}→{after}")
        })
        .collect();
    told.join(", ")
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => cut(text, VALUE_MAX),
        other => cut(&other.to_string(), VALUE_MAX),
    }
}

/// Who did it: `operator alice 10.0.0.1`, `peer eureka-2 10.0.0.1 (curl/8)`, `timer`.
pub(super) fn by(entry: &Value) -> String {
    let actor = &entry["actor"];
    let part = |name: &str| actor[name].as_str().filter(|text| !text.is_empty());
    let mut words = vec![text(entry, "origin").to_owned()];
    words.extend(
        ["peer", "principal", "address"]
            .into_iter()
            .filter_map(part)
            .map(ToOwned::to_owned),
    );
    if let Some(agent) = part("user_agent") {
        words.push(format!("({})", cut(agent, 40)));
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// The reason, unless it only repeats the kind.
fn reason(entry: &Value) -> String {
    let reason = text(entry, "reason");
    if reason.replace(' ', "-") == text(entry, "kind") {
        String::new()
    } else {
        reason.to_owned()
    }
}

/// A member that is a text; empty if it is none.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::screen::tests::Paper;
    use super::*;

    #[test]
    fn a_change_is_one_line() {
        let screen = Screen::to(Box::new(Paper::default()), false);
        let entry = json!({
            "lsn": 12, "at": "2026-11-30T21:11:42.123Z", "kind": "override-set",
            "app": "BILLING", "instance": "billing-1", "reason": "deploy\n4711", "origin": "operator",
            "actor": {"principal": "alice", "address": "10.0.0.1", "user_agent": "curl/8", "peer": null},
            "changes": {"status": {"before": "UP", "after": "OUT_OF_SERVICE"},
                        "metadata.v": {"before": null, "after": 2}},
        });
        assert_eq!(
            line(&screen, &entry),
            "2026-11-30 21:11:42.123Z  12  override-set       BILLING/billing-1  \
             metadata.v –→2, status UP→OUT_OF_SERVICE  operator alice 10.0.0.1 (curl/8)  deploy\\n4711"
        );
        let told = json!({
            "origin": "peer",
            "actor": {"principal": null, "address": "10.0.0.1", "user_agent": "curl/8", "peer": "eureka-2"},
        });
        assert_eq!(by(&told), "peer eureka-2 10.0.0.1 (curl/8)");
        let evicted = json!({
            "lsn": 13, "at": "2026-11-30T21:11:42.123Z", "kind": "evicted", "app": "A",
            "instance": "i", "reason": "lease expired", "origin": "timer", "actor": {},
            "changes": {"present": {"before": true, "after": false}},
        });
        assert!(line(&screen, &evicted).ends_with("A/i  timer  lease expired"));
    }

    #[test]
    fn an_entry_that_is_none_is_shown_without_a_panic() {
        let screen = Screen::to(Box::new(Paper::default()), false);
        for broken in [
            json!(null),
            json!([]),
            json!({"changes": {"a": 1}, "actor": 7}),
        ] {
            let _ = line(&screen, &broken);
        }
    }
}
