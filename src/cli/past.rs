//! `eurekad history`, `at` and `diff` on the store of a stopped node: the same questions and the same
//! answers as over the API.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{AtArgs, DiffArgs, HistoryArgs};
use super::export::{each_record, list};
use super::failure::{Exit, Failure, Outcome};
use super::history::{Subject, not_complete};
use super::offline::{Reading, now};
use super::screen::Screen;
use super::{at as at_command, changes, diff as diff_command};
use crate::history::{Before, Entry, Filter, times};
use crate::registry::change::{LeaseImage, Record};
use crate::registry::rules::Rules;
use crate::registry::{OverrideKey, Registry};
use crate::store::{LogReader, Opened};
use crate::types::{AppName, InstanceId, Lsn, Millis};
use crate::wire::Format;

/// `history`.
pub(super) fn history(dir: &Path, arguments: &HistoryArgs, screen: &mut Screen) -> Outcome {
    let filter = filter(arguments)?;
    let most = if arguments.all {
        usize::MAX
    } else {
        usize::try_from(arguments.limit).unwrap_or(usize::MAX)
    };
    let mut reading = Reading::open(dir, screen)?;
    let reader = reading.opened().reader.clone();
    let oldest = oldest(&*reader);
    let oldest_lsn = reader.first_lsn();
    let is_complete = oldest_lsn <= Lsn(1)
        || filter
            .from
            .is_some_and(|from| oldest.is_some_and(|oldest| from >= oldest));
    let mut found: VecDeque<Entry> = VecDeque::new();
    let mut has_more = false;
    // Forwards, so that each change is beside the one before it; of the newest only as many are
    // kept as are wanted.
    let mut before: HashMap<(AppName, InstanceId), Arc<Record>> = HashMap::new();
    each_record(&*reader, |record| {
        let key = (record.change.app.clone(), record.change.id.clone());
        let previous = before.insert(key, Arc::new(record.clone()));
        if !filter.matches(record) {
            return Ok(());
        }
        if found.len() >= most {
            has_more = true;
            if arguments.oldest_first {
                return Ok(());
            }
            found.pop_front();
        }
        found.push_back(Entry::new(record, Before::record(previous.as_deref())));
        Ok(())
    })?;
    drop(before);
    drop(reader);
    reading.close()?;
    let mut entries: Vec<Value> = found.iter().map(|entry| json!(entry)).collect();
    if !arguments.oldest_first {
        entries.reverse();
    }
    let oldest = oldest.map(times::format);
    if arguments.json {
        let mut document = json!({
            "entries": entries,
            "next": null,
            "oldest": oldest,
            "oldest_lsn": oldest_lsn.0,
            "complete": is_complete,
        });
        if !is_complete {
            document["note"] = not_complete(oldest.as_deref(), screen).into();
        }
        screen.document(document.to_string().as_bytes())?;
        return Ok(Exit::Done);
    }
    if arguments.ndjson {
        for entry in &entries {
            screen.line(&entry.to_string())?;
        }
    } else if entries.is_empty() {
        screen.note("there are no such changes");
    } else {
        let table = changes::table(screen, &entries);
        screen.table(&table)?;
    }
    screen.flush()?;
    if has_more {
        screen.note("there is more: --limit N, or --all");
    } else if !is_complete {
        let note = not_complete(oldest.as_deref(), screen);
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

/// Wall time of the oldest change that is kept.
fn oldest(reader: &dyn LogReader) -> Option<Millis> {
    let segments = reader.segments();
    segments.iter().map(|segment| segment.earliest).min()
}

/// Reads a moment as the API does.
fn moment(name: &str, text: &str) -> Result<Millis, Failure> {
    let now = now();
    let at =
        times::parse(text, now).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    if at > now {
        return Err(Failure::usage(format!("{name}: {text:?} is in the future")));
    }
    Ok(at)
}

/// Where to stop.
#[derive(Clone, Copy, Debug)]
enum Until {
    Time(Millis),
    Lsn(Lsn),
    End,
}

/// The registry as of a moment, or as it was when the node stopped.
pub(super) fn registry(opened: &Opened, at: Option<&str>) -> Result<Registry, Failure> {
    let until = match at {
        Some(text) => Until::Time(moment("at", text)?),
        None => Until::End,
    };
    registry_until(opened, until)
}

fn registry_until(opened: &Opened, until: Until) -> Result<Registry, Failure> {
    let reader = &*opened.reader;
    let is_in = |record: &Record| match until {
        Until::Time(at) => record.at <= at,
        Until::Lsn(lsn) => record.lsn <= lsn,
        Until::End => true,
    };
    if let Until::Lsn(lsn) = until
        && lsn > reader.last_lsn()
    {
        return Err(Failure::usage(format!(
            "lsn {lsn} is in the future: the newest is {}",
            reader.last_lsn()
        )));
    }
    let mut registry = Registry::new(Arc::new(Rules::default()));
    let usable = opened.checkpoint.as_ref().filter(|checkpoint| match until {
        Until::Time(at) => checkpoint.at <= at,
        Until::Lsn(lsn) => checkpoint.lsn <= lsn,
        Until::End => true,
    });
    if let Some(checkpoint) = usable {
        for lease in &checkpoint.leases {
            let image = lease.image.clone();
            registry.restore_lease(&lease.app, &lease.id, image, lease.lsn, Millis::ZERO);
        }
        for held in &checkpoint.overrides {
            let key = OverrideKey {
                app: held.app.clone(),
                id: held.id.clone(),
            };
            registry.restore_override(key, held.status);
        }
        registry.restored_at(checkpoint.lsn);
    } else if reader.first_lsn() > Lsn(1) {
        return Err(Failure::new(
            Exit::Trimmed,
            format!(
                "this is older than what is kept, which begins at lsn {}{}",
                reader.first_lsn(),
                oldest(reader)
                    .map_or_else(String::new, |at| format!(", {}", times::format(at)))
            ),
        ));
    }
    // A clock that was stepped back: what counts is the last change up to the moment.
    let mut waiting: Vec<Record> = Vec::new();
    let from = registry.lsn();
    each_record(reader, |record| {
        if record.lsn > from {
            if is_in(record) {
                for record in waiting.drain(..) {
                    registry.evolve(&record, Millis::ZERO);
                }
                registry.evolve(record, Millis::ZERO);
            } else {
                waiting.push(record.clone());
            }
        }
        Ok(())
    })?;
    Ok(registry)
}

/// `at`.
pub(super) fn at(dir: &Path, arguments: &AtArgs, screen: &mut Screen) -> Outcome {
    let until = match (arguments.lsn, &arguments.time) {
        (Some(lsn), _) => Until::Lsn(Lsn(lsn)),
        (None, Some(time)) => Until::Time(moment("at", time)?),
        (None, None) => Until::End,
    };
    let mut reading = Reading::open(dir, screen)?;
    let registry = registry_until(reading.opened(), until)?;
    reading.close()?;
    let only = arguments.app.as_deref();
    let format = if arguments.xml {
        Format::Xml
    } else {
        Format::Json
    };
    let document = list(&registry, only, format);
    if arguments.xml || arguments.json {
        screen.document(&document)?;
        return Ok(Exit::Done);
    }
    let document: Value = serde_json::from_slice(&document)
        .map_err(|error| Failure::refused(format!("the list is no JSON: {error}")))?;
    let when = match until {
        Until::Time(at) => Some(times::format(at)),
        Until::Lsn(_) | Until::End => None,
    };
    let lsn = registry.lsn().to_string();
    at_command::show(&document, Some(&lsn), when.as_deref(), only, screen)
}

/// `diff`.
pub(super) fn diff(dir: &Path, arguments: &DiffArgs, screen: &mut Screen) -> Outcome {
    let (from, to) = (
        moment("from", &arguments.from)?,
        moment("to", &arguments.to)?,
    );
    if from > to {
        return Err(Failure::usage("from: later than to"));
    }
    let mut reading = Reading::open(dir, screen)?;
    let earlier = registry_until(reading.opened(), Until::Time(from))?;
    let later = registry_until(reading.opened(), Until::Time(to))?;
    reading.close()?;
    let document = compare(&earlier, &later, arguments.app.as_deref(), (from, to));
    if arguments.json {
        screen.document(document.to_string().as_bytes())?;
    } else {
        diff_command::show(&document, screen)?;
    }
    Ok(diff_command::verdict(&document, arguments.exit_code))
}

/// The document of `/registry/diff`.
fn compare(
    earlier: &Registry,
    later: &Registry,
    only: Option<&str>,
    (from, to): (Millis, Millis),
) -> Value {
    let all = |registry: &Registry| -> BTreeMap<(String, String), LeaseImage> {
        registry
            .apps()
            .filter(|(name, _)| only.is_none_or(|only| only.eq_ignore_ascii_case(name.as_str())))
            .flat_map(|(name, app)| {
                app.leases().map(|lease| {
                    let id = lease.instance().id_text().to_owned();
                    ((name.as_str().to_owned(), id), lease.to_image())
                })
            })
            .collect()
    };
    let (before, mut after) = (all(earlier), all(later));
    let (mut removed, mut changed) = (Vec::new(), Vec::new());
    for ((app, id), was) in before {
        match after.remove(&(app.clone(), id.clone())) {
            None => removed.push(json!({
                "app": app, "instance": id, "status": was.instance.status.as_str(),
            })),
            Some(is) => {
                let changes = crate::history::entry::differences(&was, &is);
                if !changes.is_empty() {
                    changed.push(json!({"app": app, "instance": id, "changes": changes}));
                }
            }
        }
    }
    let added: Vec<Value> = after
        .into_iter()
        .map(|((app, id), is)| {
            json!({"app": app, "instance": id, "status": is.instance.status.as_str()})
        })
        .collect();
    json!({
        "from": {"at": times::format(from), "lsn": earlier.lsn().0},
        "to": {"at": times::format(to), "lsn": later.lsn().0},
        "added": added,
        "removed": removed,
        "changed": changed,
    })
}
