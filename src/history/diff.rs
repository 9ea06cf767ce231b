//! What two registries do not share: instances that came and went, and what changed of the others.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::entry::{FieldChange, differences};
use crate::registry::lease::Lease;
use crate::registry::status::Status;
use crate::registry::{OverrideKey, Registry};
use crate::types::{AppName, InstanceId};

/// One instance that is not the same in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Different<'a> {
    /// `None` only for an override that holds for every instance with that id.
    pub app: Option<&'a str>,
    pub instance: Cow<'a, str>,
    /// Where it is there in one of the two only: its status there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// What differs, by the names of the protocol's JSON, and `override`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: BTreeMap<String, FieldChange>,
}

/// Which way an instance differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Added,
    Removed,
    /// It is there in both, or it is an override of an instance that is there in neither.
    Changed,
}

type Overrides<'a> = BTreeMap<&'a OverrideKey, (Option<Status>, Option<Status>)>;

/// Hands every difference to `take`, by application and id; overrides without an instance come
/// last. Given `apps`, only those are compared.
///
/// A lease whose last change is the same in both is passed over without a look, so that what costs
/// is what changed.
pub fn compare<'a>(
    before: &'a Registry,
    after: &'a Registry,
    apps: &[AppName],
    take: &mut dyn FnMut(Sort, &Different<'a>),
) {
    let is_wanted = |app: &AppName| apps.is_empty() || apps.contains(app);
    let overrides = differing_overrides(before, after);
    let mut told: BTreeSet<&OverrideKey> = BTreeSet::new();
    let mut names: Vec<&AppName> = before.apps().map(|(name, _)| name).collect();
    names.extend(after.apps().map(|(name, _)| name));
    names.sort_unstable();
    names.dedup();
    for app in names.into_iter().filter(|app| is_wanted(app)) {
        let leases = |registry: &'a Registry| {
            registry
                .app(app.as_str())
                .into_iter()
                .flat_map(crate::registry::Application::leases)
        };
        for (was, is) in merged(leases(before), leases(after)) {
            let Some(lease) = is.or(was) else { continue };
            let id = lease.instance().id();
            let mut different = Different {
                app: Some(app.as_str()),
                instance: Cow::Borrowed(""),
                status: None,
                changes: BTreeMap::new(),
            };
            let sort = match (was, is) {
                (Some(was), Some(is)) => {
                    if was.lsn != is.lsn {
                        different.changes = differences(&was.image, &is.image);
                    }
                    Sort::Changed
                }
                (None, _) => Sort::Added,
                (_, None) => Sort::Removed,
            };
            if sort != Sort::Changed {
                different.status = Some(lease.instance().status.as_str());
            }
            if let Some((key, change)) = override_of(&overrides, app, &id) {
                told.insert(key);
                different.changes.insert("override".into(), change);
            }
            if sort != Sort::Changed || !different.changes.is_empty() {
                different.instance = Cow::Owned(id.as_str().to_owned());
                take(sort, &different);
            }
        }
    }
    for (key, change) in &overrides {
        let is_asked_for = match &key.app {
            Some(app) => is_wanted(app),
            None => apps.is_empty(),
        };
        if is_asked_for && !told.contains(key) {
            let different = Different {
                app: key.app.as_ref().map(AppName::as_str),
                instance: Cow::Borrowed(key.id.as_str()),
                status: None,
                changes: [("override".to_owned(), shown(*change))].into(),
            };
            take(Sort::Changed, &different);
        }
    }
}

fn differing_overrides<'a>(before: &'a Registry, after: &'a Registry) -> Overrides<'a> {
    let mut all: Overrides<'a> = before
        .overrides()
        .map(|(key, status)| (key, (Some(status), None)))
        .collect();
    for (key, status) in after.overrides() {
        all.entry(key).or_default().1 = Some(status);
    }
    all.retain(|_, (was, is)| was != is);
    all
}

/// The difference of the override that holds for an instance.
fn override_of<'a>(
    overrides: &Overrides<'a>,
    app: &AppName,
    id: &InstanceId,
) -> Option<(&'a OverrideKey, FieldChange)> {
    if overrides.is_empty() {
        return None;
    }
    [Some(app.clone()), None].into_iter().find_map(|app| {
        let key = OverrideKey {
            app,
            id: id.clone(),
        };
        let (key, change) = overrides.get_key_value(&key)?;
        Some((*key, shown(*change)))
    })
}

fn shown((was, is): (Option<Status>, Option<Status>)) -> FieldChange {
    let value = |status: Option<Status>| status.map_or(Value::Null, |s| json!(s.as_str()));
    FieldChange {
        before: value(was),
        after: value(is),
    }
}

/// Pairs the leases of one application by id; both come in the order of their ids.
fn merged<'a>(
    before: impl Iterator<Item = &'a Arc<Lease>>,
    after: impl Iterator<Item = &'a Arc<Lease>>,
) -> impl Iterator<Item = (Option<&'a Arc<Lease>>, Option<&'a Arc<Lease>>)> {
    let (mut before, mut after) = (before.peekable(), after.peekable());
    std::iter::from_fn(move || {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(was), Some(is)) => was.instance().id().cmp(&is.instance().id()),
        };
        Some((
            if order == Ordering::Greater {
                None
            } else {
                before.next()
            },
            if order == Ordering::Less {
                None
            } else {
                after.next()
            },
        ))
    })
}
