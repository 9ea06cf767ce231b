//! What is left to do with a log that cannot be mended: begin a new one, or refuse and say what can be
//! done. Nothing is ever thrown away: what was damaged is kept in a directory of its own.

use std::path::{Path, PathBuf};

use super::{Recovery, SKIP, Started, Verdict};
use crate::store::{Loss, LossCause, OnDamage, StoreError, checkpoint, files};
use crate::types::Lsn;

/// What the names of directories for damaged stores begin with.
pub(super) const QUARANTINE: &str = "quarantine-";

impl Recovery<'_> {
    /// What is left to do with a log that cannot be mended.
    pub(super) fn give_up(&mut self, damage: StoreError) -> Result<Started, StoreError> {
        // Checkpoints that reach what was acknowledged are the whole registry: without the log it is
        // the history that is lost.
        let covered = checkpoint::newest_good(&self.options.dir)?.unwrap_or_default();
        let is_whole = self.mark.is_some_and(|mark| {
            covered > Lsn::ZERO && covered >= mark.promised(self.boot_id).max(mark.acknowledged)
        });
        match self.options.on_damage {
            _ if is_whole => self.begin_anew(&damage, Some(LossCause::HistoryOnly)),
            OnDamage::KeepRest => self.begin_anew(&damage, Some(LossCause::Accepted)),
            OnDamage::MoveAside => self.begin_anew(&damage, None),
            OnDamage::Refuse => Err(with_ways_out(damage, &self.options.dir)),
        }
    }

    /// Moves the damaged log into a directory of its own and opens an empty one; the checkpoints
    /// stay if a cause is given that lets them lead on, and go along otherwise.
    fn begin_anew(
        &mut self,
        damage: &StoreError,
        kept: Option<LossCause>,
    ) -> Result<Started, StoreError> {
        let dir = self.options.dir.clone();
        let keeps_state = kept.is_some();
        let checkpoints = checkpoint::list(&dir)?;
        let aside = self.quarantine()?;
        let is_ours = |name: &str| match name {
            "log" | "log.before-mending" => true,
            name => !keeps_state && name.starts_with("checkpoint-"),
        };
        if !keeps_state {
            // A copy: should this process end here, the next start knows by it who the node is and what was
            // acknowledged.
            let mark = dir.join("watermark");
            if mark.exists() {
                files::copy(&mark, &aside.join("watermark"), "copy the watermark")?;
            }
        }
        for path in files::list(&dir, is_ours)? {
            if let Some(name) = path.file_name() {
                files::rename(&path, &aside.join(name), "move aside")?;
            }
        }
        files::sync_dir(&aside)?;
        files::sync_dir(&dir)?;
        self.notes.push(format!(
            "moved the damaged {} to {} and began an empty one: {}",
            if keeps_state { "log" } else { "store" },
            aside.display(),
            told(damage)
        ));
        let mark = self.mark.unwrap_or_default();
        let last = checkpoints.into_iter().max().unwrap_or_default();
        let last = last.max(mark.given_out).max(mark.acknowledged);
        let log = self.log.clone();
        let (database, inspected) = self.attempt(&log).map_err(|failed| failed.error)?;
        let verdict = if let Some(cause) = kept {
            let mut verdict = self.accept(&inspected);
            if let Some(lost) = &mut verdict.lost {
                lost.cause = cause;
            }
            verdict
        } else {
            Verdict {
                end: Lsn(last.0.saturating_add(SKIP)),
                base: Lsn::ZERO,
                lost: Some(Loss {
                    first: Lsn(1),
                    last,
                    cause: LossCause::MovedAside(aside),
                }),
                holes: Vec::new(),
            }
        };
        Ok(Started {
            database,
            inspected,
            verdict,
        })
    }

    /// A new directory for what is damaged.
    pub(super) fn quarantine(&self) -> Result<PathBuf, StoreError> {
        // The clock may have been stepped back to a moment that has a quarantine already.
        let mut aside = self
            .options
            .dir
            .join(format!("{QUARANTINE}{}", self.now_wall));
        while aside.exists() {
            aside.as_mut_os_string().push("-again");
        }
        files::create_dir(&aside)?;
        Ok(aside)
    }
}

/// Damage in the words of a note: what to do about it has been done.
pub(super) fn told(damage: &StoreError) -> String {
    match damage {
        StoreError::Damaged { place, cause, .. } => format!("{place}: {cause}"),
        other => other.to_string(),
    }
}

/// Damage that a start refuses, with the ways out of it.
pub(super) fn with_ways_out(damage: StoreError, dir: &Path) -> StoreError {
    let StoreError::Damaged { place, cause, .. } = damage else {
        return damage;
    };
    let dir = dir.display();
    StoreError::Damaged {
        place,
        cause,
        way_out: format!(
            "nothing was given up; `eurekad store check --data-dir {dir}` tells what is left; start \
             once with --eurekad.on-damaged-store=keep-rest to keep what can be read, or with \
             =move-aside to begin anew (`eurekad store repair` does the same and ends)"
        ),
    }
}
