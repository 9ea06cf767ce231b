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
        for is_secure in [false, true] {
            let index = if is_secure {
                &mut self.secure
            } else {
                &mut self.plain
            };
            // In before out, so that an entry that stays never vanishes in between.
            for address in new
                .into_iter()
                .flat_map(|lease| lease.instance().vips(is_secure))
            {
                let mut entry = index.get(address).cloned().unwrap_or_default();
                let count = entry.apps.get(app).copied().unwrap_or(0);
                entry.apps.insert(app.clone(), count + 1);
                if visible {
                    entry.lsn = entry.lsn.max(lsn);
                }
                index.insert(address.into(), entry);
            }
            for address in old
                .into_iter()
                .flat_map(|lease| lease.instance().vips(is_secure))
            {
                let Some(mut entry) = index.get(address).cloned() else {
                    continue;
                };
                match entry.apps.get(app).copied() {
                    Some(count) if count > 1 => {
                        entry.apps.insert(app.clone(), count - 1);
                    }
                    _ => {
                        entry.apps.remove(app);
                    }
                }
                if visible {
                    entry.lsn = entry.lsn.max(lsn);
                }
                if entry.apps.is_empty() {
                    index.remove(address);
                } else {
                    index.insert(address.into(), entry);
                }
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
