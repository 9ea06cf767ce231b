//! Which applications have instances under a vip or secure vip, and when that changed last, so that
//! a vip's answers are found without a scan and go stale exactly when they must: element by element
//! of the comma-separated address, old and new (`protocol.md` 6 lists what the original misses).

use std::sync::Arc;

use imbl::OrdMap;

use super::lease::Lease;
use crate::types::{AppName, Lsn};

/// One index for both kinds of address.
#[derive(Clone, Debug, Default)]
pub(super) struct VipIndex {
    plain: OrdMap<Arc<str>, VipEntry>,
    secure: OrdMap<Arc<str>, VipEntry>,
}

#[derive(Clone, Debug, Default)]
struct VipEntry {
    lsn: Lsn,
    /// Instances by application.
    apps: OrdMap<AppName, u64>,
}

impl VipIndex {
    pub(super) fn get(
        &self,
        address: &str,
        is_secure: bool,
    ) -> Option<(Lsn, impl Iterator<Item = &AppName>)> {
        let index = if is_secure { &self.secure } else { &self.plain };
        index
            .get(address)
            .map(|entry| (entry.lsn, entry.apps.keys()))
    }

    /// Takes `old` out and puts `new` in; `visible` says whether answers change.
    pub(super) fn replace(
        &mut self,
        app: &AppName,
        old: Option<&Lease>,
        new: Option<&Lease>,
        lsn: Lsn,
        visible: bool,
    ) {
        let lsn = if visible { lsn } else { Lsn::ZERO };
        for is_secure in [false, true] {
            let index = if is_secure {
                &mut self.secure
            } else {
                &mut self.plain
            };
            // In before out, so that an entry that stays never vanishes in between.
            for address in vips(new, is_secure) {
                put(index, address, app, lsn);
            }
            for address in vips(old, is_secure) {
                take(index, address, app, lsn);
            }
        }
    }

    /// Whether two indexes know the same members.
    pub(super) fn same_members(&self, other: &Self) -> Result<(), String> {
        for (mine, theirs) in [(&self.plain, &other.plain), (&self.secure, &other.secure)] {
            let is_same = mine.len() == theirs.len()
                && mine.iter().all(|(address, entry)| {
                    theirs
                        .get(address)
                        .is_some_and(|other| other.apps == entry.apps)
                });
            if !is_same {
                return Err("the vip index disagrees with the leases".into());
            }
        }
        Ok(())
    }
}

fn vips(lease: Option<&Lease>, is_secure: bool) -> impl Iterator<Item = &str> {
    lease
        .into_iter()
        .flat_map(move |lease| lease.instance().vips(is_secure))
}

/// One instance more under an address.
fn put(index: &mut OrdMap<Arc<str>, VipEntry>, address: &str, app: &AppName, lsn: Lsn) {
    if !index.contains_key(address) {
        index.insert(address.into(), VipEntry::default());
    }
    let Some(entry) = index.get_mut(address) else {
        return;
    };
    entry.lsn = entry.lsn.max(lsn);
    match entry.apps.get_mut(app) {
        Some(count) => *count += 1,
        None => {
            entry.apps.insert(app.clone(), 1);
        }
    }
}

/// One instance less under an address; the last one takes the entry with it.
fn take(index: &mut OrdMap<Arc<str>, VipEntry>, address: &str, app: &AppName, lsn: Lsn) {
    let Some(entry) = index.get_mut(address) else {
        return;
    };
    entry.lsn = entry.lsn.max(lsn);
    match entry.apps.get_mut(app) {
        Some(count) if *count > 1 => *count -= 1,
        _ => {
            entry.apps.remove(app);
        }
    }
    if entry.apps.is_empty() {
        index.remove(address);
    }
}
