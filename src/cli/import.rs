//! `eurekad import`: registers every instance of a file with a running server, overrides included.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use hyper::Method;
use serde_json::Value;
use tokio::task::JoinSet;

use super::args::ImportArgs;
use super::client::{Call, Client, Target};
use super::export::reported;
use super::failure::{Exit, Failure, Outcome};
use super::offline;
use super::screen::Screen;
use super::text::clean;
use crate::registry::instance::Instance;
use crate::registry::status::Status;
use crate::wire::{
    self, Dialect, Draft, Format, InstanceView, LeaseTimes, Limits, decode_applications,
    decode_applications_xml, decode_registration,
};

/// Largest file that is taken, bytes.
const FILE_MAX: u64 = 1 << 30;
/// Complaints that are told one by one.
const TOLD_MAX: usize = 10;
/// Instances between two reports of progress.
const REPORT_EVERY: usize = 100;

/// One registration to be made.
#[derive(Clone, Debug)]
struct Registration {
    instance: Instance,
    override_: Option<Status>,
}

impl Registration {
    fn name(&self) -> String {
        format!("{}/{}", self.instance.app, self.instance.id_text())
    }
}

/// What a file holds, and what of it cannot be taken.
#[derive(Debug, Default)]
struct Contents {
    registrations: Vec<Registration>,
    refused: usize,
    complaints: Vec<String>,
}

pub(super) async fn run(client: &Client, arguments: &ImportArgs, screen: &mut Screen) -> Outcome {
    let bytes = read(&arguments.file)?;
    let contents = parse(&bytes)?;
    for complaint in &contents.complaints {
        screen.note(&clean(complaint));
    }
    if contents.refused > contents.complaints.len() {
        screen.note(&format!(
            "... and {} more",
            contents.refused - contents.complaints.len()
        ));
    }
    if arguments.dry_run {
        screen.line(&format!(
            "{} instances can be registered, {} cannot",
            contents.registrations.len(),
            contents.refused
        ))?;
        return Ok(if contents.refused == 0 {
            Exit::Done
        } else {
            Exit::Usage
        });
    }
    let mut done = Done {
        refused: contents.refused,
        ..Done::default()
    };
    let outcome = register_all(client, contents.registrations, arguments, &mut done, screen).await;
    screen.line(&format!(
        "registered {} instances with {}, set {} overrides, refused {}",
        done.registered,
        client.url(),
        done.overrides,
        done.refused
    ))?;
    outcome?;
    Ok(if done.refused == 0 {
        Exit::Done
    } else {
        Exit::Usage
    })
}

#[derive(Debug, Default)]
struct Done {
    registered: usize,
    overrides: usize,
    refused: usize,
}

/// Sends them, so many at a time. Ends early if the server goes away.
async fn register_all(
    client: &Client,
    registrations: Vec<Registration>,
    arguments: &ImportArgs,
    done: &mut Done,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let total = registrations.len();
    let mut left = registrations.into_iter();
    let mut running = JoinSet::new();
    let mut told = 0;
    loop {
        while running.len() < usize::from(arguments.concurrency)
            && let Some(registration) = left.next()
        {
            let client = client.clone();
            let reason = arguments.reason.clone();
            running.spawn(async move {
                let registered = register(&client, &registration, &reason).await;
                (registration, registered)
            });
        }
        let Some(joined) = running.join_next().await else {
            return Ok(());
        };
        let (registration, registered) = joined
            .map_err(|error| Failure::refused(format!("a registration broke off: {error}")))?;
        match registered {
            Ok(()) => {
                done.registered += 1;
                done.overrides += usize::from(registration.override_.is_some());
                if done.registered.is_multiple_of(REPORT_EVERY) {
                    screen.progress(&format!("{} of {total} registered", done.registered));
                }
            }
            Err(Failure::Told {
                exit: exit @ Exit::Refused,
                text,
            }) => {
                return Err(Failure::new(
                    exit,
                    format!("{}: {text}", clean(&registration.name())),
                ));
            }
            Err(failure) => {
                done.refused += 1;
                if told < TOLD_MAX {
                    told += 1;
                    screen.note(&format!("{}: {failure}", clean(&registration.name())));
                }
            }
        }
    }
}

async fn register(
    client: &Client,
    registration: &Registration,
    reason: &str,
) -> Result<(), Failure> {
    let instance = &registration.instance;
    let mut body = Vec::new();
    let view = InstanceView {
        instance,
        times: LeaseTimes::default(),
        is_coordinating: false,
    };
    wire::write_instance(&mut body, Format::Json, &view, false);
    let target = Target::new("/eureka/apps").segment(instance.app.as_str());
    let call = Call::new(Method::POST, target)
        .reason(Some(reason))?
        .json(body);
    client.ask(call).await?;
    if let Some(status) = registration.override_ {
        let target = Target::new("/eureka/apps")
            .segment(instance.app.as_str())
            .segment(instance.id_text())
            .segment("status")
            .with("value", status.as_str());
        let call = Call::new(Method::PUT, target).reason(Some(reason))?;
        client.ask(call).await?;
    }
    Ok(())
}

/// The whole file; `-` is standard input.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let is_stdin = path == Path::new("-");
    let name = if is_stdin {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let failed = |error: std::io::Error| Failure::usage(format!("cannot read {name}: {error}"));
    let read = if is_stdin {
        std::io::stdin()
            .lock()
            .take(FILE_MAX + 1)
            .read_to_end(&mut bytes)
    } else {
        let file = File::open(path).map_err(failed)?;
        file.take(FILE_MAX + 1).read_to_end(&mut bytes)
    };
    if read.map_err(failed)? as u64 > FILE_MAX {
        return Err(Failure::usage(format!(
            "{name} is larger than {} MiB: import it in parts",
            FILE_MAX >> 20
        )));
    }
    Ok(bytes)
}

/// Reads NDJSON of registrations, or a list of applications in JSON or XML.
fn parse(bytes: &[u8]) -> Result<Contents, Failure> {
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
        ..Contents::default()
    };
    contents.complaints.extend(
        list.first_refusal
            .map(|error| format!("an instance cannot be read: {error}")),
    );
    for draft in list.drafts {
        contents.take(draft, None);
    }
    Ok(contents)
}

/// The first line, if it is a document of its own.
fn first_line(text: &[u8]) -> Option<Value> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

fn is_lines(text: &[u8]) -> bool {
    first_line(text)
        .is_some_and(|line| line.get("instance").is_some() || line.get("eurekad").is_some())
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
        let said = document["reported"].as_str().and_then(Status::parse);
        let body = serde_json::json!({ "instance": document["instance"] }).to_string();
        match decode_registration(
            body.as_bytes(),
            Format::Json,
            Dialect::Tolerant,
            limits,
            now_ms,
        ) {
            Ok(draft) => contents.take(draft, said),
            Err(error) => contents.refuse(format!("line {}: {error}", at + 1)),
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

    /// `said` is what the instance said of itself, where the file tells.
    fn take(&mut self, draft: Draft, said: Option<Status>) {
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
                    override_: (overridden != Status::Unknown).then_some(overridden),
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
