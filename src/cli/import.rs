//! `eurekad import`: registers every instance of a file with a running server, overrides included.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use hyper::Method;
use tokio::task::JoinSet;

use super::args::ImportArgs;
use super::client::{Call, Client, Target};
use super::failure::{Exit, Failure, Outcome};
use super::holds;
use super::import_file::{Contents, Registration, TOLD_MAX, parse};
use super::offline;
use super::screen::Screen;
use super::text::clean;
use crate::registry::hold::HoldKind;
use crate::wire::{self, Format, InstanceView, LeaseTimes};

/// Largest file that is taken, bytes.
const FILE_MAX: u64 = 1 << 30;
/// Instances between two reports of progress.
const REPORT_EVERY: usize = 100;

pub(super) async fn run(client: &Client, arguments: &ImportArgs, screen: &mut Screen) -> Outcome {
    let bytes = read(&arguments.file)?;
    let mut contents = parse(&bytes)?;
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
    if contents.has_holds() {
        let are_known = holds::are_known(client).await?;
        for note in contents.settle(offline::now(), are_known) {
            screen.note(&clean(&note));
        }
    }
    let mut done = Done {
        refused: contents.refused,
        ..Done::default()
    };
    let hides_holds = contents.hides_holds;
    let outcome = register_all(client, contents, arguments, &mut done, screen).await;
    let held = match done.holds {
        0 => String::new(),
        count => format!(", put back {count} drains and quarantines"),
    };
    screen.line(&format!(
        "registered {} instances with {}, set {} overrides, refused {}{held}",
        done.registered,
        client.url(),
        done.overrides,
        done.refused
    ))?;
    if hides_holds && done.overrides > 0 {
        screen.flush()?;
        screen.note(
            "the overrides have no end: this form does not tell drains and quarantines from them, \
             NDJSON of eurekad export does; eurekad overrides list shows them",
        );
    }
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
    holds: usize,
    refused: usize,
}

impl Done {
    /// Counts one that was refused, and tells the first of them.
    fn refuse(&mut self, told: &mut usize, name: &str, failure: &Failure, screen: &mut Screen) {
        self.refused += 1;
        if *told < TOLD_MAX {
            *told += 1;
            screen.note(&format!("{}: {failure}", clean(name)));
        }
    }
}

/// Sends them, so many at a time. Ends early if the server goes away.
async fn register_all(
    client: &Client,
    contents: Contents,
    arguments: &ImportArgs,
    done: &mut Done,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let total = contents.registrations.len();
    let mut left = contents.registrations.into_iter();
    let mut running = JoinSet::new();
    let mut told = 0;
    for (key, held) in contents.quarantines {
        let now = offline::now();
        match holds::put_back(client, &key, held, now, &arguments.reason).await {
            Ok(()) => done.holds += 1,
            Err(
                failure @ Failure::Told {
                    exit: Exit::Refused,
                    ..
                },
            ) => return Err(failure),
            Err(failure) => {
                done.refuse(&mut told, &format!("{}/{}", key.0, key.1), &failure, screen);
            }
        }
    }
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
                done.holds += usize::from(registration.hold.is_some());
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
            Err(failure) => done.refuse(&mut told, &registration.name(), &failure, screen),
        }
    }
}

async fn register(
    client: &Client,
    registration: &Registration,
    reason: &str,
) -> Result<(), Failure> {
    let instance = &registration.instance;
    let put_back = async |kind: HoldKind| match registration.hold {
        Some(held) if held.kind == kind => {
            let key = registration.key();
            holds::put_back(client, &key, held, offline::now(), reason).await
        }
        _ => Ok(()),
    };
    // Before the registration, so that it is not UP in between; only what is there can be drained.
    put_back(HoldKind::Quarantine).await?;
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
    put_back(HoldKind::Drain).await
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
