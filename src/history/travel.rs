//! The registry as of a position of the log: the newest usable base at or before it, and the records
//! behind that.
//!
//! It works on any [`LogReader`], that of a running node as well as of a store that was opened for a
//! look. What the log does not hold cannot be told: renewals are no changes, so the last renewal of
//! a past lease is the one that its last change, or the base, knew of.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use thiserror::Error;
use tracing::warn;

use super::horizon::lost_in_front;
use super::times;
use crate::changelog::replay::{replay, restore};
use crate::registry::Registry;
use crate::registry::rules::Rules;
use crate::store::{LogReader, SegmentFacts, StoreError};
use crate::types::{Lsn, Millis};

/// Leases that remembered registries may hold together.
const REMEMBERED_LEASES: u64 = 50_000;
/// How long an answer is remembered after it was asked for last.
const REMEMBERED_FOR: Duration = Duration::from_mins(1);

/// The registry of the past.
#[derive(Clone, Debug)]
pub struct Past {
    pub registry: Registry,
    /// LSNs that may have held changes before that position and that are lost: what was changed by
    /// them is not known.
    pub lost: Option<(Lsn, Lsn)>,
}

/// The first moment that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    pub lsn: Lsn,
    /// `None` if nothing is kept.
    pub at: Option<Millis>,
    /// First and last of the LSNs right before it, if they were lost with a damaged store.
    pub lost: Option<(Lsn, Lsn)>,
}

/// The words for a moment that cannot be told.
fn too_old(oldest: &Oldest) -> String {
    let at = oldest
        .at
        .map_or_else(String::new, |at| format!(", {}", times::format(at)));
    match oldest.lost {
        Some((first, last)) => format!(
            "LSN {first} to {last} were lost with a damaged store, and this is before what is kept, which \
             begins at LSN {}{at}; ask for a later moment",
            oldest.lsn
        ),
        None => format!(
            "this is older than what is kept, which begins at LSN {}{at}; ask for a later moment, or \
             keep more by eurekad.history-max-age and eurekad.history-max-bytes",
            oldest.lsn
        ),
    }
}

/// Why a moment cannot be told.
#[derive(Debug, Error)]
pub enum TravelError {
    #[error("{}", too_old(.0))]
    TooOld(Oldest),
    #[error("this is in the future; the newest LSN is {newest}")]
    Future { newest: Lsn },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The registry as of `lsn`, which must not be in the future. `hint` is an earlier one to go on
/// from, if that is nearer than the bases.
///
/// # Errors
/// [`TravelError::TooOld`] if no base and no record leads there; the log cannot be read.
pub fn registry_at(
    reader: &dyn LogReader,
    rules: &Arc<Rules>,
    lsn: Lsn,
    hint: Option<&Past>,
) -> Result<Past, TravelError> {
    let segments = reader.segments();
    let mut past = start(reader, &segments, rules, lsn, hint)?;
    let begin = past.registry.lsn();
    let first = match segments.first() {
        Some(front) if begin >= front.after => begin.next().max(front.first),
        _ => begin.next(),
    };
    past.lost = past.lost.or_else(|| lost_between(&segments, begin, lsn));
    let last = lsn.min(reader.last_lsn());
    match replay(
        &mut past.registry,
        reader,
        (first, last),
        Millis::ZERO,
        &mut |_, _| {},
    ) {
        Ok(_) => Ok(past),
        // The log was trimmed meanwhile.
        Err(StoreError::Trimmed { .. }) => Err(TravelError::TooOld(oldest(reader)?)),
        Err(error) => Err(error.into()),
    }
}

/// The state to begin with.
fn start(
    reader: &dyn LogReader,
    segments: &[SegmentFacts],
    rules: &Arc<Rules>,
    lsn: Lsn,
    hint: Option<&Past>,
) -> Result<Past, TravelError> {
    let hint = hint.filter(|past| past.registry.lsn() <= lsn);
    let bases = reader.bases();
    for base in bases.iter().rev().filter(|base| base.lsn <= lsn) {
        if let Some(hint) = hint.filter(|hint| hint.registry.lsn() >= base.lsn) {
            return Ok(hint.clone());
        }
        if !leads_to(segments, base.lsn, lsn) {
            break;
        }
        match reader.load_base(base.lsn) {
            Ok(checkpoint) => {
                let mut registry = Registry::new(rules.clone());
                restore(&mut registry, checkpoint, Millis::ZERO);
                return Ok(Past {
                    registry,
                    lost: None,
                });
            }
            // The one before and a longer replay give the same state.
            Err(error @ (StoreError::Damaged { .. } | StoreError::NewerSchema { .. })) => {
                warn!(%error, lsn = %base.lsn, "a checkpoint of the past cannot be used: {error}");
            }
            Err(StoreError::Trimmed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(hint) = hint {
        return Ok(hint.clone());
    }
    let is_empty_log = reader.last_lsn() == Lsn::ZERO && bases.is_empty();
    if is_empty_log || segments.first().is_some_and(SegmentFacts::begins_empty) {
        return Ok(Past {
            registry: Registry::new(rules.clone()),
            lost: None,
        });
    }
    let next = bases.iter().find(|base| base.lsn > lsn);
    Err(TravelError::TooOld(match next {
        Some(base) => Oldest {
            lsn: base.lsn,
            at: Some(base.at),
            lost: lost_in_front(reader),
        },
        None => oldest(reader)?,
    }))
}

/// Whether every record behind `base` up to `lsn` that was ever kept is still there.
fn leads_to(segments: &[SegmentFacts], base: Lsn, lsn: Lsn) -> bool {
    base == lsn || segments.first().is_some_and(|front| base >= front.after)
}

/// The changes that are missing on the way from one position to another: those of LSNs that were
/// lost while the registry knew of them, and those right in front of `to`.
fn lost_between(segments: &[SegmentFacts], from: Lsn, to: Lsn) -> Option<(Lsn, Lsn)> {
    segments
        .iter()
        .filter(|segment| segment.has_hole_before() && from < segment.first && to > segment.after)
        .find_map(|segment| {
            let first = segment.after.max(from).next();
            let last = if to < segment.first { to } else { segment.base };
            (first <= last).then_some((first, last))
        })
}

/// The first moment that can be told.
///
/// # Errors
/// The log cannot be read.
pub fn oldest(reader: &dyn LogReader) -> Result<Oldest, StoreError> {
    let segments = reader.segments();
    let bases = reader.bases();
    let lost = lost_in_front(reader);
    let Some(front) = segments.first() else {
        let base = bases.last();
        return Ok(Oldest {
            lsn: base.map_or_else(|| reader.first_lsn(), |base| base.lsn),
            at: base.map(|base| base.at),
            lost,
        });
    };
    let time_of = |lsn: Lsn| -> Result<Option<Millis>, StoreError> {
        match reader.read(lsn, 1, 1) {
            Ok(records) => Ok(records
                .first()
                .filter(|record| record.lsn == lsn)
                .map(|record| record.at)),
            Err(StoreError::Trimmed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    };
    if front.begins_empty() {
        return Ok(Oldest {
            lsn: front.first,
            at: time_of(front.first)?,
            lost: None,
        });
    }
    Ok(match bases.iter().find(|base| base.lsn >= front.after) {
        Some(base) => Oldest {
            lsn: base.lsn,
            at: Some(time_of(base.lsn)?.unwrap_or(base.at)),
            lost,
        },
        None => Oldest {
            lsn: reader.last_lsn().next(),
            at: None,
            lost,
        },
    })
}

/// Travels, remembering where it was lately: questions about one time come in groups.
#[derive(Debug)]
pub struct Traveller {
    remembered: Cache<Lsn, Arc<Past>>,
    rules: Arc<Rules>,
}

impl Traveller {
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            remembered: Cache::builder()
                .weigher(|_: &Lsn, past: &Arc<Past>| {
                    u32::try_from(past.registry.len()).unwrap_or(u32::MAX)
                })
                .max_capacity(REMEMBERED_LEASES)
                .time_to_idle(REMEMBERED_FOR)
                .build(),
            rules,
        }
    }

    /// The registry as of `lsn`; see [`registry_at`]. Nobody computes the same twice at a time.
    /// Takes up to a second: call it where blocking is allowed.
    ///
    /// # Errors
    /// As [`registry_at`].
    pub fn at(
        &self,
        reader: &dyn LogReader,
        lsn: Lsn,
        hint: Option<&Past>,
    ) -> Result<Arc<Past>, Arc<TravelError>> {
        self.remembered.try_get_with(lsn, || {
            registry_at(reader, &self.rules, lsn, hint).map(Arc::new)
        })
    }

    /// Lets go of what nobody asked for lately; without questions moka would keep it.
    pub fn run_pending_tasks(&self) {
        self.remembered.run_pending_tasks();
    }
}
