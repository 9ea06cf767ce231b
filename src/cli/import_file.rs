//! What a file of `eurekad import` holds: NDJSON of our own, or the documents of `/eureka/apps` of any
//! Eureka server; and what can be made of it when and where it is imported.

use serde_json::Value;

use super::export::reported;
use super::failure::Failure;
use super::holds::{Held, Key};
use super::offline;
use crate::registry::hold::HoldKind;
use crate::registry::instance::Instance;
use crate::registry::status::Status;
use crate::types::Millis;
use crate::wire::{
    self, Dialect, Draft, Format, Limits, decode_applications, decode_applications_xml,
    decode_registration,
};

/// Complaints that are told one by one, and names in one note.
pub(super) const TOLD_MAX: usize = 10;

/// One registration to be made.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    pub(super) instance: Instance,
    /// The operator's word, which has no end.
    pub(super) override_: Option<Status>,
    /// The drain or quarantine, in place of an override.
    pub(super) hold: Option<Held>,
}

impl Registration {
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.instance.app, self.instance.id_text())
    }

    pub(super) fn key(&self) -> Key {
        (
            self.instance.app.as_str().to_owned(),
            self.instance.id_text().to_owned(),
        )
    }
}

/// What a file holds, and what of it cannot be taken.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) registrations: Vec<Registration>,
    /// Quarantines of ids that are not registered.
    pub(super) quarantines: Vec<(Key, Held)>,
    /// The form does not tell drains and quarantines from overrides.
    pub(super) hides_holds: bool,
    pub(super) refused: usize,
    pub(super) complaints: Vec<String>,
}

/// Reads NDJSON of registrations, or a list of applications in JSON or XML.
pub(super) fn parse(bytes: &[u8]) -> Result<Contents, Failure> {
    let text = bytes.trim_ascii_start();
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let now_ms = offline::now().signed();
    let limits = Limits::default();
    let refused =
        |error: wire::DecodeError| Failure::usage(format!("the file cannot be read: {error}"));
    let list = match text.first() {
        None => return Err(Failure::usage("the file is empty")),
        Some(b'<') => decode_applications_xml(text, &limits, now_ms).map_err(refused)?,
        Some(b'{') if is_lines(text) => return Ok(lines(text, &limits, now_ms)),
        Some(b'{') if is_application(text) => {
            let mut document = b"{\"applications\":".to_vec();
            document.extend_from_slice(text);
            document.push(b'}');
            decode_applications(&document, &limits, now_ms).map_err(refused)?
        }
        Some(_) => decode_applications(text, &limits, now_ms).map_err(refused)?,
    };
    let mut contents = Contents {
        refused: list.refused,
        hides_holds: true,
        ..Contents::default()
    };
    contents.complaints.extend(
        list.first_refusal
            .map(|error| format!("an instance cannot be read: {error}")),
    );
    for draft in list.drafts {
        contents.take(draft, None, None);
    }
    Ok(contents)
}

/// The first line, if it is a document of its own.
fn first_line(text: &[u8]) -> Option<Value> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

fn is_lines(text: &[u8]) -> bool {
    let names = ["instance", "hold", "eurekad"];
    first_line(text).is_some_and(|line| names.iter().any(|name| line.get(name).is_some()))
}

/// Whether it is one application instead of a list of them.
fn is_application(text: &[u8]) -> bool {
    let after = text[1..].trim_ascii_start();
    after.starts_with(b"\"application\"")
}

fn lines(text: &[u8], limits: &Limits, now_ms: i64) -> Contents {
    let mut contents = Contents::default();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let document: Value = match serde_json::from_slice(line) {
            Ok(document) => document,
            Err(error) => {
                contents.refuse(format!("line {}: {error}", at + 1));
                continue;
            }
        };
        if document.get("eurekad").is_some() {
            contents.refuse(
                "this is a history: eurekad import --history --data-dir DIR makes a store of it"
                    .to_owned(),
            );
            return contents;
        }
        if let Err(why) = contents.take_line(&document, limits, now_ms) {
            contents.refuse(format!("line {}: {why}", at + 1));
        }
    }
    contents
}

impl Contents {
    fn refuse(&mut self, complaint: String) {
        self.refused += 1;
        if self.complaints.len() < TOLD_MAX {
            self.complaints.push(complaint);
        }
    }

    /// Takes one line of our own form.
    fn take_line(&mut self, line: &Value, limits: &Limits, now_ms: i64) -> Result<(), String> {
        let hold = match line.get("hold") {
            None | Some(Value::Null) => None,
            Some(hold) => Some(Held::parse(hold)?),
        };
        if let (None, Some(held)) = (line.get("instance"), hold) {
            self.quarantines.push((Held::key(&line["hold"])?, held));
            return Ok(());
        }
        let said = line["reported"].as_str().and_then(Status::parse);
        let body = serde_json::json!({ "instance": line["instance"] }).to_string();
        let draft = decode_registration(
            body.as_bytes(),
            Format::Json,
            Dialect::Tolerant,
            limits,
            now_ms,
        )
        .map_err(|error| error.to_string())?;
        self.take(draft, said, hold);
        Ok(())
    }

    pub(super) fn has_holds(&self) -> bool {
        let mut registrations = self.registrations.iter();
        !self.quarantines.is_empty() || registrations.any(|one| one.hold.is_some())
    }

    /// Makes of holds what can be made of them now, and says what that is where they do not simply
    /// come back: of those that are over, and of all if the server does not know such.
    pub(super) fn settle(&mut self, now: Millis, are_known: bool) -> Vec<String> {
        let is_over = |held: &Held| held.until <= now;
        let (mut drained, mut free, mut fixed) = (Vec::new(), Vec::new(), Vec::new());
        let mut waiting = Vec::new();
        let waits = |held: &Held| held.drain_until.is_some_and(|until| until > now);
        self.registrations.retain_mut(|one| {
            match one.hold {
                Some(held) if is_over(&held) && held.kind == HoldKind::Drain => {
                    drained.push(one.name());
                    return false;
                }
                // It has come to the drain behind it.
                Some(held) if is_over(&held) && waits(&held) && are_known => {
                    one.hold = held.drain();
                }
                Some(held) if is_over(&held) => {
                    free.push(one.name());
                    one.hold = None;
                }
                Some(_) if !are_known => {
                    fixed.push(one.name());
                    one.hold = None;
                    one.override_ = Some(Status::OutOfService);
                }
                Some(held) if waits(&held) => waiting.push(one.name()),
                _ => {}
            }
            true
        });
        self.quarantines.retain(|(_, held)| !is_over(held));
        if are_known {
            let alone = self.quarantines.iter().filter(|(_, held)| waits(held));
            waiting.extend(alone.map(|((app, id), _)| format!("{app}/{id}")));
        }
        let lost: Vec<String> = if are_known {
            Vec::new()
        } else {
            let quarantines = self.quarantines.drain(..);
            quarantines
                .map(|((app, id), _)| format!("{app}/{id}"))
                .collect()
        };
        [
            (drained, "not registered, as their drain is over"),
            (free, "no longer in quarantine, as its time is over"),
            (
                waiting,
                "in quarantine but not drained behind it, as a server takes no drain of what is \
                 quarantined",
            ),
            (
                fixed,
                "OUT_OF_SERVICE until somebody lifts that, as this server knows no drain and no \
                 quarantine",
            ),
            (
                lost,
                "not in quarantine here, as this server knows none and they are not registered",
            ),
        ]
        .into_iter()
        .filter(|(names, _)| !names.is_empty())
        .map(|(names, what)| {
            let more = match names.len().saturating_sub(TOLD_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let names: Vec<&str> = names.iter().take(TOLD_MAX).map(String::as_str).collect();
            format!("{}{more}: {what}", names.join(", "))
        })
        .collect()
    }

    /// `said` is what the instance said of itself, and `hold` what holds it, where the file tells.
    fn take(&mut self, draft: Draft, said: Option<Status>, hold: Option<Held>) {
        let name = format!("{}/{}", draft.app, draft.id());
        let app = draft.app.clone();
        match wire::validate(draft, app.as_str(), false) {
            Ok(mut instance) => {
                let overridden = instance.overridden_status;
                instance.status = said.unwrap_or_else(|| reported(instance.status, overridden));
                // Set after the registration, with a reason of its own in the history.
                instance.overridden_status = Status::Unknown;
                instance.action_type = None;
                self.registrations.push(Registration {
                    instance,
                    override_: (overridden != Status::Unknown && hold.is_none())
                        .then_some(overridden),
                    hold,
                });
            }
            Err(refusal) => self.refuse(format!("{name}: {refusal}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(id: &str, status: &str, overridden: &str) -> Value {
        serde_json::json!({
            "instanceId": id, "hostName": "h", "app": "A", "ipAddr": "10.0.0.1", "status": status,
            "overriddenStatus": overridden, "port": {"$": 80, "@enabled": "true"},
            "dataCenterInfo": {
                "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo",
                "name": "MyOwn",
            },
        })
    }

    fn told(contents: &Contents) -> Vec<(String, Status, Option<Status>)> {
        let registrations = contents.registrations.iter();
        registrations
            .map(|one| (one.name(), one.instance.status, one.override_))
            .collect()
    }

    #[test]
    fn every_form_of_a_registry_is_read() {
        let (up, out) = (
            instance("a", "UP", "UNKNOWN"),
            instance("b", "OUT_OF_SERVICE", "OUT_OF_SERVICE"),
        );
        let expected = vec![
            ("A/a".to_owned(), Status::Up, None),
            ("A/b".to_owned(), Status::Up, Some(Status::OutOfService)),
        ];
        let app = serde_json::json!({"name": "A", "instance": [up, out]});
        let lines = format!(
            "{}\n\n{}\n",
            serde_json::json!({"instance": up}),
            serde_json::json!({"instance": out})
        );
        let xml = |id: &str, status: &str, overridden: &str| {
            format!(
                "<instance><instanceId>{id}</instanceId><hostName>h</hostName><app>A</app>\
                 <ipAddr>10.0.0.1</ipAddr><status>{status}</status>\
                 <overriddenstatus>{overridden}</overriddenstatus>\
                 <dataCenterInfo class=\"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo\">\
                 <name>MyOwn</name></dataCenterInfo></instance>"
            )
        };
        for text in [
            serde_json::json!({"applications": {"application": [app]}}).to_string(),
            serde_json::to_string_pretty(
                &serde_json::json!({"applications": {"application": [app]}}),
            )
            .unwrap(),
            serde_json::json!({"application": app}).to_string(),
            lines,
            format!(
                "<applications><application>{}{}</application></applications>",
                xml("a", "UP", "UNKNOWN"),
                xml("b", "OUT_OF_SERVICE", "OUT_OF_SERVICE")
            ),
        ] {
            let contents = parse(text.as_bytes()).unwrap();
            assert_eq!(
                told(&contents),
                expected,
                "{text}: {:?}",
                contents.complaints
            );
        }
    }

    #[test]
    fn what_an_instance_said_of_itself_wins_over_a_guess() {
        let line = serde_json::json!({
            "instance": instance("b", "OUT_OF_SERVICE", "OUT_OF_SERVICE"), "reported": "OUT_OF_SERVICE",
        });
        let contents = parse(line.to_string().as_bytes()).unwrap();
        assert_eq!(
            contents.registrations[0].instance.status,
            Status::OutOfService
        );
    }

    #[test]
    fn holds_come_back_unless_they_are_over_or_unknown_where_they_go() {
        let held = |id: &str, kind: HoldKind, until: u64| {
            let until = Millis(until);
            let drain_until = id.strip_suffix("-drained").map(|_| Millis(1_500));
            let held = Held {
                kind,
                until,
                drain_until,
            };
            let hold = held.to_json();
            serde_json::json!({"instance": instance(id, "OUT_OF_SERVICE", "OUT_OF_SERVICE"), "hold": hold})
                .to_string()
        };
        let lone = Held {
            kind: HoldKind::Quarantine,
            until: Millis(2_000),
            drain_until: None,
        };
        let text = [
            lone.line(&("A".to_owned(), "gone".to_owned())).to_string(),
            held("d", HoldKind::Drain, 2_000),
            held("d-over", HoldKind::Drain, 1_000),
            held("q", HoldKind::Quarantine, 2_000),
            held("q-over", HoldKind::Quarantine, 500),
            held("q-drained", HoldKind::Quarantine, 2_000),
            held("q-over-drained", HoldKind::Quarantine, 500),
            "{\"hold\":{\"kind\":\"pause\"}}".to_owned(),
        ]
        .join("\n");
        let now = Millis(1_000);
        let read = || parse(text.as_bytes()).unwrap();
        let mut contents = read();
        assert_eq!(contents.refused, 1);
        let notes = contents.settle(now, true);
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(
            notes[0].starts_with("A/d-over: not registered"),
            "{notes:?}"
        );
        assert!(
            notes[1].starts_with("A/q-over: no longer in quarantine"),
            "{notes:?}"
        );
        assert!(
            notes[2].starts_with("A/q-drained: in quarantine but not drained"),
            "{notes:?}"
        );
        let left: Vec<_> = contents
            .registrations
            .iter()
            .map(|one| (one.name(), one.override_, one.hold.map(|held| held.kind)))
            .collect();
        assert_eq!(
            left,
            [
                ("A/d".to_owned(), None, Some(HoldKind::Drain)),
                ("A/q".to_owned(), None, Some(HoldKind::Quarantine)),
                ("A/q-over".to_owned(), None, None),
                ("A/q-drained".to_owned(), None, Some(HoldKind::Quarantine)),
                ("A/q-over-drained".to_owned(), None, Some(HoldKind::Drain)),
            ]
        );
        assert_eq!(contents.quarantines.len(), 1);

        let mut contents = read();
        let notes = contents.settle(now, false);
        assert!(
            notes[2].starts_with("A/d, A/q, A/q-drained: OUT_OF_SERVICE until"),
            "{notes:?}"
        );
        assert!(
            notes[3].starts_with("A/gone: not in quarantine"),
            "{notes:?}"
        );
        let fixed = contents
            .registrations
            .iter()
            .filter(|one| one.override_ == Some(Status::OutOfService) && one.hold.is_none());
        assert_eq!(fixed.count(), 3);
        assert!(contents.quarantines.is_empty());
    }

    #[test]
    fn what_cannot_be_taken_is_told_and_costs_nothing_else() {
        let text = format!(
            "{}\nnonsense\n{{\"instance\":{{\"app\":\"A\"}}}}\n",
            serde_json::json!({"instance": instance("a", "UP", "UNKNOWN")})
        );
        let contents = parse(text.as_bytes()).unwrap();
        assert_eq!((contents.registrations.len(), contents.refused), (1, 2));
        assert!(contents.complaints[0].contains("line 2"));
        for bad in ["", "nonsense", "<html/>x", "[1]", "{\"a\":1}"] {
            let outcome = parse(bad.as_bytes());
            assert!(
                outcome.is_err() || outcome.is_ok_and(|c| c.registrations.is_empty()),
                "{bad}"
            );
        }
    }
}
