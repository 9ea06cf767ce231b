//! `eurekad history`, `at` and `diff` on the store of a stopped node: the same questions and the same
//! answers as over the API.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{AtArgs, DiffArgs, HistoryArgs};
use super::export::list;
use super::failure::{Exit, Failure, Outcome};
use super::history::{Subject, not_complete};
use super::offline::{Reading, now};
use super::screen::Screen;
use super::{at as at_command, changes, diff as diff_command};
use crate::history::diff::{Sort, compare};
use crate::history::position::{Moment, by_lsn, by_time};
use crate::history::travel::{Past, TravelError, registry_at};
use crate::history::{Before, Entry, Filter, Horizon, Index, Order, Question, Walk, times};
use crate::registry::Registry;
use crate::registry::rules::Rules;
use crate::store::Opened;
use crate::types::{AppName, InstanceId, Lsn, Millis};
use crate::wire::Format;

/// Most entries of a document.
const PAGE_MAX: usize = 1000;
/// Records that are looked at in one step.
const LOOKS: usize = 200_000;

/// `history`.
pub(super) fn history(dir: &Path, arguments: &HistoryArgs, screen: &mut Screen) -> Outcome {
    let question = Question {
        filter: filter(arguments)?,
        order: if arguments.oldest_first {
            Order::Oldest
        } else {
            Order::Newest
        },
    };
    let mut most = if arguments.all {
        usize::MAX
    } else {
        usize::try_from(arguments.limit).unwrap_or(usize::MAX)
    };
    if arguments.json {
        most = most.min(PAGE_MAX);
    }
    let mut reading = Reading::open(dir, screen)?;
    let reader = reading.opened().reader.clone();
    let horizon = Horizon::of(&*reader)?;
    let note = horizon.note(&question.filter);
    let index = Arc::new(Index::in_data_dir(reading.dir()));
    let mut walk = Walk::new(reader, index, question);
    let mut table = changes::table();
    let mut gathered: Vec<Value> = Vec::new();
    let mut told = 0;
    while walk.next().is_some() && told < most {
        let mut written = Ok(());
        walk.take(most - told, LOOKS, &mut |record, before| {
            let entry = Entry::new(record, Before::record(before.map(|it| &**it)));
            told += 1;
            if arguments.json {
                gathered.push(json!(entry));
            } else if arguments.ndjson {
                // Byte for byte as a running node tells it.
                written = match serde_json::to_string(&entry) {
                    Ok(line) => screen.line(&line),
                    Err(error) => Err(Failure::refused(format!(
                        "change {} cannot be written: {error}",
                        record.lsn
                    ))),
                };
            } else {
                written = table.row(changes::row(screen, &json!(entry)), screen);
            }
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        written?;
    }
    let has_more = walk.next().is_some();
    drop(walk);
    reading.close()?;
    let oldest = horizon.oldest.map(times::format);
    if arguments.json {
        let mut document = json!({
            "entries": gathered,
            "next": null,
            "oldest": oldest,
            "oldest_lsn": horizon.oldest_lsn,
            "complete": note.is_none(),
        });
        if let Some(note) = &note {
            document["note"] = note.as_str().into();
        }
        screen.document(document.to_string().as_bytes())?;
        return Ok(Exit::Done);
    }
    if told == 0 && !arguments.ndjson {
        screen.note("there are no such changes");
    }
    table.finish(screen)?;
    screen.flush()?;
    if has_more {
        screen.note("there is more: --limit N, or --all");
    } else if note.is_some() {
        let note = not_complete(note.as_deref(), oldest.as_deref(), screen);
        screen.note(&note);
    }
    Ok(Exit::Done)
}

fn filter(arguments: &HistoryArgs) -> Result<Filter, Failure> {
    let mut filter = Filter::default();
    if let Some(of) = &arguments.of {
        let subject = Subject::parse(of)?;
        filter.apps.push(AppName::new(&subject.app));
        filter.instance = subject.id.as_deref().map(InstanceId::new);
    }
    for (name, value) in [
        ("from", &arguments.from),
        ("to", &arguments.to),
        ("kind", &arguments.kind),
        ("reason", &arguments.reason),
        ("actor", &arguments.actor),
        ("origin", &arguments.origin),
        ("address", &arguments.address),
    ] {
        if let Some(value) = value {
            filter
                .set(name, value, now())
                .map_err(|error| Failure::usage(error.to_string()))?;
        }
    }
    Ok(filter)
}
/// Reads a time as the API does.
fn time(name: &str, text: &str) -> Result<Millis, Failure> {
    let now = now();
    let at = times::parse(text, now).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    if at > now {
        return Err(Failure::usage(format!("{name}: {text:?} is in the future")));
    }
    Ok(at)
}

impl From<TravelError> for Failure {
    fn from(error: TravelError) -> Self {
        match error {
            TravelError::TooOld(_) => Self::new(Exit::Trimmed, error.to_string()),
            TravelError::Future { .. } => Self::usage(error.to_string()),
            TravelError::Store(error) => error.into(),
        }
    }
}

/// The position of a time; the newest one stands for everything behind it.
fn position(opened: &Opened, at: Millis) -> Result<Moment, Failure> {
    Ok(by_time(&*opened.reader, at)?)
}

/// The registry as of a moment. Rules decide what changes, not what a record changes: any will do.
fn look(opened: &Opened, moment: Moment, hint: Option<&Past>) -> Result<Past, Failure> {
    let rules = Arc::new(Rules::default());
    Ok(registry_at(&*opened.reader, &rules, moment.lsn, hint)?)
}

/// The registry as of a moment, or as it was when the node stopped.
pub(super) fn registry(
    opened: &Opened,
    at: Option<&str>,
    screen: &mut Screen,
) -> Result<Registry, Failure> {
    let at = at.map_or(Ok(now()), |text| time("at", text))?;
    let moment = position(opened, at)?;
    let past = look(opened, moment, None)?;
    say_what_is_known(&moment, &past, screen);
    Ok(past.registry)
}

/// The registry behind everything that was ever written.
pub(super) fn end(opened: &Opened) -> Result<Registry, Failure> {
    let newest = opened
        .reader
        .bases()
        .last()
        .map_or(Lsn::ZERO, |base| base.lsn);
    let moment = Moment::whole(opened.reader.last_lsn().max(newest), opened.last_alive);
    Ok(look(opened, moment, None)?.registry)
}

/// Says what is not known of a moment, or that it lies before everything.
fn say_what_is_known(moment: &Moment, past: &Past, screen: &mut Screen) {
    let lost = moment.what_is_lost(Some(past));
    if let Some(note) = lost.or_else(|| moment.beginning()) {
        screen.note(&note);
    }
}

/// `at`.
pub(super) fn at(dir: &Path, arguments: &AtArgs, screen: &mut Screen) -> Outcome {
    let asked = match (arguments.lsn, &arguments.time) {
        (Some(lsn), _) => Ok(Lsn(lsn)),
        (None, Some(text)) => Err(time("at", text)?),
        (None, None) => Err(now()),
    };
    let mut reading = Reading::open(dir, screen)?;
    let moment = match asked {
        Ok(lsn) => by_lsn(&*reading.opened().reader, lsn)?,
        Err(at) => position(reading.opened(), at)?,
    };
    let past = look(reading.opened(), moment, None)?;
    reading.close()?;
    say_what_is_known(&moment, &past, screen);
    let only = arguments.app.as_deref();
    let format = if arguments.xml {
        Format::Xml
    } else {
        Format::Json
    };
    let document = list(&past.registry, only, format);
    if arguments.xml || arguments.json {
        screen.document(&document)?;
        return Ok(Exit::Done);
    }
    let document: Value = serde_json::from_slice(&document)
        .map_err(|error| Failure::refused(format!("the list is no JSON: {error}")))?;
    let (lsn, at) = (moment.lsn.to_string(), times::format(moment.at));
    at_command::show(&document, Some(&lsn), Some(&at), only, screen)
}

/// `diff`.
pub(super) fn diff(dir: &Path, arguments: &DiffArgs, screen: &mut Screen) -> Outcome {
    let (from, to) = (time("from", &arguments.from)?, time("to", &arguments.to)?);
    if from > to {
        return Err(Failure::usage("from: later than to"));
    }
    let mut reading = Reading::open(dir, screen)?;
    let opened = reading.opened();
    let (from, to) = (position(opened, from)?, position(opened, to)?);
    let before = look(opened, from, None)?;
    let after = look(opened, to, Some(&before))?;
    reading.close()?;
    let apps: Vec<AppName> = arguments.app.iter().map(|app| AppName::new(app)).collect();
    let mut lists: [Vec<Value>; 3] = Default::default();
    compare(
        &before.registry,
        &after.registry,
        &apps,
        &mut |sort, different| {
            let list = match sort {
                Sort::Added => 0,
                Sort::Removed => 1,
                Sort::Changed => 2,
            };
            lists[list].push(json!(different));
        },
    );
    let [added, removed, changed] = lists;
    let of = |moment: &Moment| json!({"at": times::format(moment.at), "lsn": moment.lsn.0});
    let is_complete = from
        .lost
        .or(before.lost)
        .or(to.lost)
        .or(after.lost)
        .is_none();
    let mut document = json!({
        "from": of(&from),
        "to": of(&to),
        "complete": is_complete,
        "added": added,
        "removed": removed,
        "changed": changed,
    });
    let known = [(&from, &before), (&to, &after)];
    let lost = known.map(|(moment, past)| moment.what_is_lost(Some(past)));
    let beginning = known.map(|(moment, _)| moment.beginning());
    if let Some(note) = lost.into_iter().chain(beginning).flatten().next() {
        document["note"] = json!(note);
    }
    if arguments.json {
        screen.document(document.to_string().as_bytes())?;
    } else {
        diff_command::show(&document, screen)?;
    }
    Ok(diff_command::verdict(&document, arguments.exit_code))
}
