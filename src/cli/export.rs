//! `eurekad export`: the registry or the whole log, from a running node or a stopped store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::args::{ExportArgs, ExportFormat};
use super::client::{Call, Client, ServerEnvironment, Target};
use super::failure::{Exit, Failure, Outcome};
use super::holds::{self, Held, Key};
use super::lines::Lines;
use super::offline::Reading;
use super::past;
use super::screen::Screen;
use super::sink::Sink;
use super::text::clean;
use crate::changelog::{holds_of, leases_of, overrides_of};
use crate::history::times;
use crate::portable::{self, End, FORM, Head, PortableLine, State};
use crate::registry::Registry;
use crate::registry::change::{LeaseImage, Record};
use crate::registry::status::Status;
use crate::store::{Checkpoint, CheckpointLease, CheckpointOverride, LogReader};
use crate::types::{InstanceId, Lsn, Millis};
use crate::wire::{
    self, Detail, Draft, Format, InstanceView, LeaseTimes, Limits, decode_applications,
};

/// Records read at a time.
const CHUNK_RECORDS: usize = 1024;
const CHUNK_BYTES: usize = 8 << 20;

pub(super) fn run(
    arguments: &ExportArgs,
    environment: &ServerEnvironment,
    screen: &mut Screen,
) -> Outcome {
    if arguments.history && arguments.format != ExportFormat::Ndjson {
        return Err(Failure::usage("a history is exported in NDJSON only"));
    }
    let mut sink = Sink::open(&arguments.output)?;
    if let Some(dir) = &arguments.source.data_dir {
        let mut reading = Reading::open(dir, screen)?;
        if arguments.history {
            stored_history(&mut reading, &mut sink, screen)?;
        } else {
            stored_registry(&mut reading, arguments, &mut sink, screen)?;
        }
        reading.close()?;
    } else {
        let client = Client::new(&arguments.source.server, environment)?;
        super::wait(async {
            if arguments.history {
                served_history(&client, &mut sink, screen).await?;
            } else {
                served_registry(&client, arguments, &mut sink, screen).await?;
            }
            Ok(Exit::Done)
        })?;
    }
    sink.finish()?;
    if arguments.output != Path::new("-") {
        screen.note(&format!("wrote {}", arguments.output.display()));
    }
    Ok(Exit::Done)
}

async fn served_registry(
    client: &Client,
    arguments: &ExportArgs,
    sink: &mut Sink,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let target = match &arguments.at {
        Some(at) => Target::new("/registry").with("at", at),
        None => Target::new("/eureka/apps"),
    };
    let accept = match arguments.format {
        ExportFormat::Xml => "application/xml, application/problem+json;q=0.1",
        ExportFormat::Json | ExportFormat::Ndjson => {
            "application/json, application/problem+json;q=0.1"
        }
    };
    let mut reply = client.ask(Call::get(target).accept(accept)).await?;
    if let Some(note) = reply.header("x-eurekad-note") {
        screen.note(&clean(note));
    }
    if arguments.format != ExportFormat::Ndjson {
        while let Some(piece) = reply.piece().await? {
            sink.write(&piece, screen)?;
        }
        if arguments.at.is_none() {
            say_what_is_left_out(&holds::served(client).await?, screen);
        }
        return sink.write(b"\n", screen);
    }
    let at = reply.header("x-eurekad-at").map(ToOwned::to_owned);
    let body = reply.document().await?;
    let mut document = client.parse("/eureka/apps", &body)?;
    let apps = document["applications"]["application"].take();
    let listed: Vec<(Key, bool, Value)> = each(apps)
        .into_iter()
        .flat_map(|mut app| each(app["instance"].take()))
        .map(|instance| {
            let (key, is_overridden) = named(&instance);
            (key, is_overridden, instance)
        })
        .collect();
    // Asked for later than the list: what was released meanwhile is not put back by an import.
    let mut held = if arguments.at.is_some() {
        let at = at
            .and_then(|at| times::parse(&at, Millis::ZERO).ok())
            .ok_or_else(|| Failure::refused("the answer does not tell which moment it shows"))?;
        let overridden = listed.iter().filter(|(_, is_overridden, _)| *is_overridden);
        let keys: Vec<Key> = overridden.map(|(key, ..)| key.clone()).collect();
        holds::past(client, &keys, at).await?
    } else {
        holds::served(client).await?
    };
    for (key, _, instance) in listed {
        let mut line = serde_json::json!({ "instance": instance });
        if let Some(held) = held.remove(&key) {
            line["hold"] = held.to_json();
        }
        sink.line(&line.to_string(), screen)?;
    }
    lone(held, sink, screen)
}

/// The lines of holds of ids that are not registered.
fn lone(
    held: impl IntoIterator<Item = (Key, Held)>,
    sink: &mut Sink,
    screen: &mut Screen,
) -> Result<(), Failure> {
    for (key, held) in held {
        sink.line(&held.line(&key).to_string(), screen)?;
    }
    Ok(())
}

fn say_what_is_left_out<T>(held: &BTreeMap<Key, T>, screen: &mut Screen) {
    if !held.is_empty() {
        screen.note(&format!(
            "this form cannot say that {} drains and quarantines end: where it is imported they are \
             overrides without an end; --format ndjson keeps them",
            held.len()
        ));
    }
}

/// Application and id of an instance of a list, and whether its status is overridden.
fn named(instance: &Value) -> (Key, bool) {
    let text = |name: &str| instance[name].as_str().unwrap_or_default();
    let id = match text("instanceId") {
        "" => text("hostName"),
        id => id,
    };
    let status = ["overriddenStatus", "overriddenstatus"]
        .into_iter()
        .map(text)
        .find(|status| !status.is_empty());
    let key = (text("app").to_uppercase(), id.to_owned());
    (key, status.is_some_and(|status| status != "UNKNOWN"))
}

fn each(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        one => vec![one],
    }
}

fn stored_registry(
    reading: &mut Reading,
    arguments: &ExportArgs,
    sink: &mut Sink,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let registry = past::registry(reading.opened(), arguments.at.as_deref(), screen)?;
    let mut held = holds::stored(&registry);
    if arguments.format != ExportFormat::Ndjson {
        say_what_is_left_out(&held, screen);
    }
    match arguments.format {
        ExportFormat::Json => sink.write(&list(&registry, None, Format::Json), screen)?,
        ExportFormat::Xml => sink.write(&list(&registry, None, Format::Xml), screen)?,
        ExportFormat::Ndjson => {
            for lease in registry.leases() {
                let image = lease.to_image();
                let mut line = Vec::new();
                wire::write_instance(&mut line, Format::Json, &view(&image), false);
                // What it said of itself, which the protocol's form does not tell.
                line.pop();
                line.extend_from_slice(b",\"reported\":\"");
                line.extend_from_slice(image.reported.as_str().as_bytes());
                line.push(b'"');
                let instance = &image.instance;
                let key = (
                    instance.app.as_str().to_owned(),
                    instance.id_text().to_owned(),
                );
                if let Some(held) = held.remove(&key) {
                    line.extend_from_slice(b",\"hold\":");
                    line.extend_from_slice(held.to_json().to_string().as_bytes());
                }
                line.extend_from_slice(b"}\n");
                sink.write(&line, screen)?;
            }
            return lone(held, sink, screen);
        }
    }
    sink.write(b"\n", screen)
}

fn view(image: &LeaseImage) -> InstanceView<'_> {
    InstanceView {
        instance: &image.instance,
        times: LeaseTimes {
            registration: image.registered_at.signed(),
            last_renewal: image.renewed_at.signed(),
            eviction: image.evicted_at.signed(),
            service_up: image.service_up_at.signed(),
            vouched_ms: None,
        },
        is_coordinating: false,
    }
}

/// The document of `/eureka/apps`, of all applications or one.
pub(super) fn list(registry: &Registry, only: Option<&str>, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    let version = registry.lsn().to_string();
    let hash = registry.hash_code();
    let is_wanted = |name: &str| only.is_none_or(|only| only.eq_ignore_ascii_case(name));
    let apps: Vec<_> = registry
        .apps()
        .filter(|(name, _)| is_wanted(name.as_str()))
        .collect();
    let is_empty = apps.is_empty();
    wire::list_head(&mut out, format, Detail::Full, &version, &hash, is_empty);
    for (at, (name, app)) in apps.into_iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(wire::list_separator(format, Detail::Full));
        }
        let images: Vec<LeaseImage> = app.leases().map(|lease| lease.to_image()).collect();
        wire::list_fragment(
            &mut out,
            format,
            Detail::Full,
            name.as_str(),
            images.iter().map(view),
        );
    }
    wire::list_tail(&mut out, format, Detail::Full, &version, &hash, is_empty);
    out
}

fn head(first: Lsn, last: Lsn, node_id: Option<String>) -> PortableLine {
    PortableLine::Head(Head {
        what: "history".to_owned(),
        form: FORM,
        first_lsn: first.0,
        last_lsn: last.0,
        node_id,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Every record, and every checkpoint behind the record that it contains last: with them, the past of
/// a log that does not go back to the beginning can be told where it is imported too.
fn stored_history(
    reading: &mut Reading,
    sink: &mut Sink,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let opened = reading.opened();
    let reader = opened.reader.clone();
    let (first, last) = (reader.first_lsn(), reader.last_lsn());
    let begin = head(first, last, Some(opened.node_id.clone()));
    sink.line(&begin.to_json(), screen)?;
    let mut end = End::default();
    let mut bases = reader.bases().into_iter().map(|base| base.lsn).peekable();
    let mut told = Lsn::ZERO;
    each_record(&*reader, |record| {
        while let Some(base) = bases.next_if(|base| *base < record.lsn) {
            told = base;
            checkpoint(reader.load_base(base)?, &mut end, sink, screen)?;
        }
        end.records += 1;
        if end.records.is_multiple_of(10_000) {
            screen.progress(&format!("{} records", end.records));
        }
        let line = PortableLine::Record(Box::new(record.clone()));
        sink.line(&line.to_json(), screen)
    })?;
    for base in bases {
        told = base;
        checkpoint(reader.load_base(base)?, &mut end, sink, screen)?;
    }
    if told < last || end == End::default() {
        let registry = past::end(opened)?;
        let state = Checkpoint {
            lsn: registry.lsn(),
            at: opened.last_alive,
            leases: leases_of(&registry).collect(),
            overrides: overrides_of(&registry).collect(),
            holds: holds_of(&registry).collect(),
            expected_clients: registry.len(),
        };
        checkpoint(state, &mut end, sink, screen)?;
    }
    sink.line(&PortableLine::End(end).to_json(), screen)
}

/// A state with everything in it.
fn checkpoint(
    state: Checkpoint,
    end: &mut End,
    sink: &mut Sink,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let head = State {
        lsn: state.lsn.0,
        at: state.at.0,
        expected_clients: state.expected_clients,
    };
    sink.line(&PortableLine::State(head).to_json(), screen)?;
    for held in state.leases {
        end.leases += 1;
        sink.line(&PortableLine::Lease(Box::new(held)).to_json(), screen)?;
    }
    for held in state.overrides {
        end.overrides += 1;
        sink.line(&PortableLine::Override(held).to_json(), screen)?;
    }
    for held in state.holds {
        end.holds += 1;
        sink.line(&PortableLine::Hold(held).to_json(), screen)?;
    }
    Ok(())
}

/// Hands every record of a log to `take`, oldest first.
pub(super) fn each_record(
    reader: &dyn LogReader,
    mut take: impl FnMut(&Record) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut next = reader.first_lsn();
    loop {
        let chunk = reader.read(next, CHUNK_RECORDS, CHUNK_BYTES)?;
        let Some(newest) = chunk.last() else {
            return Ok(());
        };
        next = newest.lsn.next();
        for record in &chunk {
            take(record)?;
        }
    }
}

/// The whole history of a running node. The state at its end is taken from the list of
/// applications, which does not tell what an instance whose status is overridden said of itself: UP
/// is assumed.
async fn served_history(
    client: &Client,
    sink: &mut Sink,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let node = client.json(Call::get(Target::new("/node"))).await?;
    let number = |name: &str| {
        node[name]
            .as_u64()
            .ok_or_else(|| Failure::refused(format!("{} does not tell its {name}", client.url())))
    };
    let (last, first) = (Lsn(number("lsn")?), Lsn(number("oldest_lsn")?));
    let node_id = node["node_id"].as_str().map(ToOwned::to_owned);
    let target = Target::new("/history")
        .with("order", "oldest")
        .with("format", "ndjson")
        .with("full", "true");
    let call = Call::get(target).accept("application/x-ndjson, application/problem+json");
    let mut reply = client.ask(call).await?;
    sink.line(&head(first, last, node_id).to_json(), screen)?;
    let mut end = End::default();
    let mut newest = BTreeMap::new();
    let mut holds = Registry::new(Arc::default());
    let mut lines = Lines::default();
    let mut take = |line: &[u8], screen: &mut Screen| -> Result<(), Failure> {
        if line.is_empty() {
            return Ok(());
        }
        let entry = client.parse("/history", line)?;
        let record = portable::decode(&entry["record"]).map_err(|error| {
            Failure::refused(format!(
                "{} gives a record that cannot be read: {error}",
                client.url()
            ))
        })?;
        // What came in the meantime is not in the state any more.
        if record.lsn > last {
            return Ok(());
        }
        end.records += 1;
        if end.records.is_multiple_of(10_000) {
            screen.progress(&format!("{} records", end.records));
        }
        let key = (record.change.app.clone(), record.change.id.clone());
        holds.evolve_hold(&record.change, record.at);
        newest.insert(key, record.lsn);
        let line = PortableLine::Record(Box::new(record));
        sink.line(&line.to_json(), screen)
    };
    while let Some(piece) = reply.piece().await? {
        lines.push(&piece, |line| take(line, screen))?;
    }
    if let Some(rest) = lines.finish() {
        take(&rest, screen)?;
    }

    let target = Target::new("/registry").with("lsn", &last.to_string());
    let call = Call::get(target).accept("application/json, application/problem+json;q=0.1");
    let body = client.ask(call).await?.document().await?;
    let now = super::offline::now();
    let now_ms = now.signed();
    let listed = decode_applications(&body, &Limits::default(), now_ms)
        .map_err(|error| Failure::refused(format!("the registry cannot be read: {error}")))?;
    let mut state = Checkpoint {
        lsn: last,
        at: now,
        leases: Vec::new(),
        overrides: Vec::new(),
        holds: holds_of(&holds).collect(),
        expected_clients: listed.drafts.len() as u64,
    };
    for draft in listed.drafts {
        let (app, id) = (draft.app.clone(), InstanceId::new(draft.id()));
        let status = draft.overridden_status;
        if status != Status::Unknown {
            state.overrides.push(CheckpointOverride {
                app: Some(app.clone()),
                id: id.clone(),
                status,
            });
        }
        let lsn = newest
            .get(&(app.clone(), id.clone()))
            .copied()
            .unwrap_or(Lsn(first.0.saturating_sub(1)));
        let image = image(&draft).map_err(Failure::refused)?;
        state.leases.push(CheckpointLease {
            app,
            id,
            lsn,
            image,
        });
    }
    checkpoint(state, &mut end, sink, screen)?;
    sink.line(&PortableLine::End(end).to_json(), screen)
}

/// A lease as the list of applications shows it.
fn image(draft: &Draft) -> Result<LeaseImage, String> {
    let times = draft.lease_times;
    let ms = |time: i64| Millis(u64::try_from(time).unwrap_or(0));
    let app = draft.app.clone();
    let instance = wire::validate(draft.clone(), app.as_str(), false)
        .map_err(|refusal| format!("{app}/{}: {refusal}", draft.id()))?;
    let secs = u64::try_from(instance.lease.duration_secs).unwrap_or(0);
    Ok(LeaseImage {
        reported: reported(instance.status, instance.overridden_status),
        duration_ms: secs.saturating_mul(1000),
        registered_at: ms(times.registration),
        service_up_at: ms(times.service_up),
        evicted_at: Millis::ZERO,
        renewed_at: ms(times.last_renewal),
        instance: instance.into(),
    })
}

/// What an instance is most likely to have said of itself, whose status hides it.
pub(super) fn reported(status: Status, overridden: Status) -> Status {
    if overridden != Status::Unknown && status == overridden {
        Status::Up
    } else {
        status
    }
}
