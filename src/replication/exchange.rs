//! Requests to peers as bytes and their answers as outcomes, whatever carries them: the task of a peer
//! and the simulation of clusters both use these.

use hyper::Method;
use serde::Serialize;

use super::holds;
use super::inbound::Compared;
use super::learned::unheard;
use super::outbound::Item;
use super::past::{self, Past, Removed};
use super::reconcile::{self, Comparison, Digests};
use super::sender::{Ask, COMPARE_APPS, Failure, ItemResult, Kind, Outcome, differing};
use super::skew::Skew;
use crate::cache::view_for_peer;
use crate::changelog::Published;
use crate::registry::Registry;
use crate::registry::change::Actor;
use crate::registry::command::{Adoption, Command, Overrides};
use crate::registry::lease::Lease;
use crate::registry::status::Status;
use crate::registry::version::Version;
use crate::types::{AppName, InstanceId, Millis, Now};
use crate::wire::batch::{Action, OutgoingItem, decode_batch_response, write_batch};
use crate::wire::{self, Draft, Format, Limits, Refusal};

/// Below a peer's base URL: batches, of any kind of peer.
const BATCH_PATH: &str = "peerreplication/batch/";

/// Below a peer's base URL: what changed lately, of any kind of peer.
pub const DELTA_PATH: &str = "apps/delta";
/// Below a peer's base URL: what it says of itself, of any kind of peer.
pub const STATUS_PATH: &str = "status";

/// A request's path below the peer's base URL, and its body.
#[derive(Debug)]
pub struct Message {
    pub method: Method,
    pub path: &'static str,
    /// The format that the answer is to have.
    pub accept: Format,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    /// Whether the peer reads it compressed.
    pub packs: bool,
}

/// What an answer is read with.
#[derive(Debug)]
pub struct Reading<'a> {
    /// Our digests, as of the answer.
    pub digests: &'a Digests,
    /// The application that was compared last.
    pub compared: Option<&'a str>,
    /// The registry here, and what the log says of what is gone from it.
    pub registry: &'a Registry,
    pub past: &'a dyn Past,
    pub limits: Limits,
    /// Wall time, ms, for what the answer does not say.
    pub now: i64,
    /// How far the clock of the peer is ahead of that.
    pub skew: Skew,
}

/// What a comparison's repairs are made with.
#[derive(Debug)]
pub struct Repairing<'a> {
    pub registry: &'a Registry,
    pub past: &'a dyn Past,
    pub limits: Limits,
    /// Wall time, ms, for what an instance does not say.
    pub now: i64,
}

/// The request that asks for `ask`, at `now`.
pub fn message(
    ask: &Ask,
    kind: &Kind,
    state: &Published,
    digests: &Digests,
    own_id: &str,
    now: Now,
) -> Message {
    let json = |path, body| Message {
        method: Method::POST,
        path,
        accept: Format::Json,
        content_type: "application/json",
        body,
        // The original's servers do not.
        packs: kind.is_ours(),
    };
    let get = |path, accept| Message {
        method: Method::GET,
        path,
        accept,
        content_type: "",
        body: Vec::new(),
        packs: false,
    };
    match ask {
        Ask::Probe => json(BATCH_PATH, batch(&[], kind, own_id, now.mono)),
        Ask::Batch(items) => json(BATCH_PATH, batch(items, kind, own_id, now.mono)),
        Ask::Renewals(items) => Message {
            content_type: "application/octet-stream",
            // It is all chance.
            packs: false,
            ..json(super::RENEWALS_PATH, renewals(items))
        },
        // The original's servers fail to say it in JSON (`protocol.md` 1.10).
        Ask::Born => get(STATUS_PATH, Format::Xml),
        Ask::Recent => get(DELTA_PATH, Format::Json),
        Ask::Digests => json(super::DIGEST_PATH, to_json(&digests.root)),
        Ask::Compare {
            asked,
            answer_bytes,
        } => {
            let mut question = Comparison::of(&state.registry, asked, now);
            question.answer_bytes = Some(*answer_bytes);
            if let Some(holds) = &mut question.holds {
                holds::name_callers(holds, &state.delta);
            }
            json(super::COMPARE_PATH, to_json(&question))
        }
    }
}

/// How long an answer to `ask` may be, bytes: what nobody could have to say is not read.
pub fn answer_max(ask: &Ask, limits: &Limits) -> usize {
    /// What any answer may be: the page of something that is no Eureka server.
    const SHORT: usize = 64 << 10;
    /// What an instance may have beside its metadata.
    const FIELDS: usize = 512 << 10;
    /// What a batch may be for most servers. A longer answer is an error, and the next batch smaller.
    const BATCH: usize = 10 << 20;
    /// The digests of some hundred thousand applications.
    const DIGESTS: usize = 16 << 20;
    /// Some ten thousand instances that changed within minutes.
    const RECENT: usize = 16 << 20;
    /// Holds, names, and who asked for what.
    const BESIDE_INSTANCES: usize = 16 << 20;
    // Its texts may be escaped.
    let instance = FIELDS + 2 * limits.metadata_bytes;
    match ask {
        Ask::Probe | Ask::Born => SHORT,
        Ask::Recent => RECENT,
        Ask::Batch(items) => SHORT + (items.len() * instance).min(BATCH.max(instance)),
        Ask::Renewals(items) => SHORT + 4 * items.len(),
        Ask::Digests => DIGESTS,
        Ask::Compare { answer_bytes, .. } => BESIDE_INSTANCES + 2 * answer_bytes + instance,
    }
}

/// What an answer to `ask` means. `kind` is what the answer says about the peer.
pub fn outcome(ask: &Ask, kind: Kind, status: u16, body: &[u8], reading: &Reading<'_>) -> Outcome {
    match (ask, status) {
        // It does not take this node for one of its kind: everything as items again.
        (Ask::Renewals(items), 404) => return Outcome::Unknown((0..items.len()).collect()),
        (Ask::Digests, 204) => return Outcome::Digests(Vec::new()),
        (Ask::Compare { .. }, 413) => return Outcome::TooLong,
        // It has no such thing, or does not give it to this node.
        (Ask::Born, 400..=500) => return Outcome::Born(None),
        (_, 200..=299) => {}
        (Ask::Recent, _) => return Outcome::Unread(Failure::Status(status)),
        (Ask::Batch(_) | Ask::Renewals(_), 400 | 413 | 500) => return Outcome::Refused(status),
        _ => return Outcome::Failed(Failure::Status(status)),
    }
    match ask {
        // Something else than a Eureka server may answer anything with 200.
        Ask::Probe => match batch_outcome(0, body, reading) {
            Outcome::Items(_) => Outcome::Known(kind),
            Outcome::WrongCount { got, .. } => {
                broken(&format!("an empty batch is answered with {got} items"))
            }
            other => other,
        },
        Ask::Batch(items) => batch_outcome(items.len(), body, reading),
        Ask::Renewals(_) => Outcome::Unknown(
            body.as_chunks::<4>()
                .0
                .iter()
                .map(|place| usize::try_from(u32::from_be_bytes(*place)).unwrap_or(usize::MAX))
                .collect(),
        ),
        Ask::Born => Outcome::Born(wire::decode_server_birth(body, &reading.limits).ok()),
        Ask::Recent => recent(body, reading),
        Ask::Digests => match serde_json::from_slice::<Digests>(body) {
            Ok(theirs) => Outcome::Digests(differing(
                reading.digests,
                Some(&theirs),
                reading.compared,
                COMPARE_APPS,
            )),
            Err(error) => broken(&error),
        },
        Ask::Compare { .. } => match serde_json::from_slice::<Compared>(body) {
            Ok(found) => Outcome::Compared(Box::new(found)),
            Err(error) => broken(&error),
        },
    }
}

/// What a Java node lists as changed lately and was not heard here.
fn recent(body: &[u8], reading: &Reading<'_>) -> Outcome {
    match wire::decode_applications(body, &reading.limits, reading.now) {
        Ok(list) => {
            let (registry, past) = (reading.registry, reading.past);
            Outcome::Recent(unheard(&list.drafts, reading.skew, registry, past))
        }
        Err(error) => Outcome::Unread(Failure::Broken(error.to_string())),
    }
}

fn broken(error: &impl std::fmt::Display) -> Outcome {
    Outcome::Failed(Failure::Broken(error.to_string()))
}

fn batch_outcome(sent: usize, body: &[u8], reading: &Reading<'_>) -> Outcome {
    match decode_batch_response(body, &reading.limits, reading.now) {
        Ok(replies) if replies.len() == sent => Outcome::Items(
            replies
                .into_iter()
                .map(|reply| ItemResult {
                    status: reply.status,
                    entity: reply.entity,
                })
                .collect(),
        ),
        Ok(replies) => Outcome::WrongCount {
            sent,
            got: replies.len(),
        },
        Err(error) => broken(&error),
    }
}

/// The commands that take over a peer's newer instance (`protocol.md` 7.5); none if what a Java peer
/// has is what was cancelled here meanwhile. Of our own kind's states the registry judges itself, with what
/// the log says in `removed`.
///
/// # Errors
/// Why it is no valid instance.
pub fn adoption(
    draft: Draft,
    is_our_kind: bool,
    overrides: Overrides,
    registry: &Registry,
    removed: &Removed,
) -> Result<Vec<Command>, Refusal> {
    let app = draft.app.to_string();
    let times = draft.lease_times;
    let instance = wire::validate(draft, &app, false)?;
    if is_our_kind {
        let recalled = removed.of(&(instance.app.clone(), instance.id()));
        let instance = instance.into();
        return Ok(vec![Command::Adopt(Adoption {
            instance,
            registered: times.registration,
            vouched_ms: times.vouched_ms,
            recalled,
            overrides,
        })]);
    }
    let (app, id) = (instance.app.clone(), instance.id());
    let stone = registry.tombstone(&app, &id);
    let dirty = instance.last_dirty_timestamp;
    if stone.is_some_and(|stone| stone.is_cancelled && dirty <= stone.version.dirty) {
        return Ok(Vec::new());
    }
    let overridden = instance.overridden_status;
    let mut commands = vec![Command::Register(instance.into())];
    if overridden != Status::Unknown {
        commands.push(Command::SetStatus {
            app,
            id,
            status: overridden,
            dirty: None,
        });
    }
    Ok(commands)
}

/// What a comparison asks of this side.
#[derive(Debug)]
pub struct Repaired {
    /// Each with who asked the peer for it.
    pub commands: Vec<(Command, Actor)>,
    /// How many instances could not be read.
    pub refused: usize,
}

/// What follows here from a comparison.
///
/// Where something happened to an instance after its registration, the lack of an override means that
/// it was lifted; right after a registration that node may not have heard of it. May wait for the disk.
pub fn repairs(found: &Compared, overrides: Overrides, with: &Repairing<'_>) -> Repaired {
    let registry = with.registry;
    // Holds first: they decide what becomes of the states behind them.
    let callers = found.callers();
    let asked = |command: Command| {
        let caller = command.key().and_then(|key| callers.get(&key).cloned());
        (command, caller.unwrap_or_default())
    };
    let news = holds::news(registry, &found.holds, with.now);
    let news = news.map(|(command, caller)| match caller {
        Some(caller) => (command, caller),
        None => asked(command),
    });
    let mut commands: Vec<(Command, Actor)> = news.collect();
    let ended = |(app, id, dirty, updated): &(String, String, i64, i64)| {
        let (dirty, updated) = (*dirty, *updated);
        let version = Version { dirty, updated };
        (AppName::new(app), InstanceId::new(id), version)
    };
    let endings = reconcile::endings(
        found.cancelled.iter().map(ended),
        found.expired.iter().map(ended),
    );
    commands.extend(endings.map(asked));
    let Some(list) = &found.newer else {
        return Repaired {
            commands,
            refused: 0,
        };
    };
    let Ok(list) = wire::decode_applications(list.get().as_bytes(), &with.limits, with.now) else {
        return Repaired {
            commands,
            refused: found.newer_count,
        };
    };
    let mut refused = list.refused;
    let keys = list
        .drafts
        .iter()
        .map(|draft| (draft.app.clone(), InstanceId::new(draft.id())));
    let removed = past::removals(with.past, registry, keys);
    for draft in list.drafts {
        let overrides = if draft.is_untouched() {
            Overrides::Merged
        } else {
            overrides
        };
        match adoption(draft, true, overrides, registry, &removed) {
            Ok(adopting) => commands.extend(adopting.into_iter().map(asked)),
            Err(_) => refused += 1,
        }
    }
    Repaired { commands, refused }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    // Plain structs of texts and numbers always serialize.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Renewals as numbers: eight bytes each instead of some hundred and fifty.
fn renewals(items: &[Item]) -> Vec<u8> {
    let fingerprint = |item: &Item| match item {
        Item::Heartbeat { lease, .. } => reconcile::fingerprint(lease),
        Item::Register { .. }
        | Item::Cancel { .. }
        | Item::SetStatus { .. }
        | Item::DeleteOverride(_) => 0,
    };
    items
        .iter()
        .flat_map(|item| fingerprint(item).to_be_bytes())
        .collect()
}

fn batch(items: &[Item], kind: &Kind, own_id: &str, now: Millis) -> Vec<u8> {
    let mut body = Vec::new();
    write_batch(
        &mut body,
        items.iter().map(|item| outgoing(item, kind, own_id, now)),
    );
    body
}

fn outgoing<'a>(item: &'a Item, kind: &Kind, own_id: &str, now: Millis) -> OutgoingItem<'a> {
    match item {
        Item::Register { lease, caller } => OutgoingItem {
            caller: caller_for(kind, caller),
            instance: Some(view_for_peer(lease, own_id, kind.is_ours().then_some(now))),
            ..of(lease, Action::Register)
        },
        Item::Heartbeat { lease, overridden } => OutgoingItem {
            // To our own kind the state itself tells it, and a late heartbeat is no news.
            overridden_status: overridden.filter(|_| !kind.is_ours()),
            ..of(lease, Action::Heartbeat)
        },
        Item::SetStatus { lease, status } => OutgoingItem {
            status: Some(*status),
            ..of(lease, Action::StatusUpdate)
        },
        Item::DeleteOverride(lease) => of(lease, Action::DeleteStatusOverride),
        // What exactly was cancelled, Java peers neither say nor ask.
        Item::Cancel { lease, caller } => OutgoingItem {
            caller: caller_for(kind, caller),
            status: None,
            instance: kind
                .is_ours()
                .then(|| view_for_peer(lease, own_id, Some(now))),
            ..of(lease, Action::Cancel)
        },
    }
}

fn of(lease: &Lease, action: Action) -> OutgoingItem<'_> {
    let instance = lease.instance();
    OutgoingItem {
        app: instance.app.as_str(),
        id: instance.id_text(),
        last_dirty_timestamp: Some(instance.last_dirty_timestamp),
        overridden_status: None,
        status: Some(instance.status),
        instance: None,
        action,
        caller: None,
    }
}

/// Java peers refuse a batch with a key that they do not know.
fn caller_for<'a>(kind: &Kind, caller: &'a Actor) -> Option<&'a Actor> {
    kind.is_ours().then_some(caller)
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
