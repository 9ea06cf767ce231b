//! The store of a stopped node: a copy is opened as a start opens it, read, and thrown away. The store
//! itself is never changed by reading, not even if it is damaged.

use std::path::Path;

use super::failure::Failure;
use super::screen::Screen;
use super::store::show_progress;
use crate::clock::{Clock as _, SystemClock};
use crate::store::{self, Opened, Scratch, StoreError, StoreOptions};
use crate::types::Millis;

/// How long to wait for a server that is just stopping, ms.
const LOCK_WAIT_MS: u64 = 1_000;
/// Free space that opening needs, bytes: the database writes a little then.
const MIN_FREE: u64 = 16 << 20;

/// How a store is opened.
pub(super) fn options(dir: &Path) -> StoreOptions {
    StoreOptions {
        lock_wait_ms: LOCK_WAIT_MS,
        min_free_bytes: Some(MIN_FREE),
        ..StoreOptions::new(dir)
    }
}

/// Wall time.
pub(super) fn now() -> Millis {
    SystemClock::new().now().wall
}

/// Refuses a directory without a store: opening would make one.
pub(super) fn check_there(dir: &Path) -> Result<(), Failure> {
    let is_there = ["log", "log.compacted", "watermark"]
        .iter()
        .any(|name| dir.join(name).exists());
    if is_there {
        Ok(())
    } else {
        Err(Failure::refused(format!(
            "there is no store in {}: --data-dir names the data directory",
            dir.display()
        )))
    }
}

/// Refuses to open somebody else's store as root: what is written would belong to root, and the
/// server, which runs as somebody else, could not open it any more.
pub(super) fn check_owner(dir: &Path) -> Result<(), Failure> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if let Ok(facts) = std::fs::metadata(dir)
            && rustix::process::geteuid().is_root()
            && facts.uid() != 0
        {
            return Err(Failure::usage(format!(
                "{} belongs to user {}, and root's files in it would keep the server out: run this as \
                 that user (sudo -u '#{}' eurekad ...)",
                dir.display(),
                facts.uid(),
                facts.uid()
            )));
        }
    }
    Ok(())
}

/// An open copy of a store that is closed again when this is dropped.
#[derive(Debug)]
pub(super) struct Reading {
    /// `None` once closed.
    opened: Option<Opened>,
    /// Goes after the store that is open in it.
    copy: Scratch,
}

impl Reading {
    /// Opens the store in `dir`, which must be there; damage that cannot be mended is an error.
    pub(super) fn open(dir: &Path, screen: &mut Screen) -> Result<Self, Failure> {
        check_there(dir)?;
        let temp_dir = std::env::temp_dir();
        let (copy, opened) = store::open_copy(&options(dir), now(), &temp_dir, &mut |step| {
            show_progress(&step, screen);
        })?;
        if let Some(lost) = &opened.lost {
            screen.note(&format!("the store is damaged: {lost}"));
        }
        Ok(Self {
            opened: Some(opened),
            copy,
        })
    }

    /// Where the copy is.
    pub(super) fn dir(&self) -> &Path {
        self.copy.path()
    }

    pub(super) fn opened(&mut self) -> &mut Opened {
        self.opened.as_mut().expect("only closing takes it")
    }

    /// Closes the copy.
    pub(super) fn close(mut self) -> Result<(), StoreError> {
        self.close_quietly()
    }

    fn close_quietly(&mut self) -> Result<(), StoreError> {
        let Some(opened) = self.opened.take() else {
            return Ok(());
        };
        let alive = opened.last_alive;
        drop(opened.reader);
        opened.store.close(alive)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Another error is on its way already, and the copy goes.
        let _ = self.close_quietly();
    }
}
