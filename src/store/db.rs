//! sled behind one fence: how it is opened, how its errors and panics become [`StoreError`]s, and
//! how it is let go.
//!
//! sled 0.34 panics instead of failing on some damaged files, so every call that reads or writes
//! pages runs inside [`guarded`], and what the panic says goes to the log at level debug: an operator
//! is told which file is damaged and what can be done. `flush()` on Linux does not reach the disk (no `fsync`), hence the
//! second handle on its file, on which the store calls `fdatasync` itself.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Once, mpsc};
use std::time::Duration;

use sled::{Db, Tree};

use crate::store::{StoreError, files};

/// How often sled's own thread flushes, ms. It is also the only one that reclaims space.
const FLUSH_EVERY_MS: u64 = 500;
/// How long to wait for sled to end its threads. One that died of a panic is waited for without
/// end otherwise.
const DROP_WAIT: Duration = Duration::from_secs(20);

/// The open database.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) db: Db,
    pub(super) meta: Tree,
    /// The database file, for `fdatasync`.
    file: File,
    path: PathBuf,
}

/// Shorthand for damage that only the operator can decide about.
pub(super) fn damaged(place: impl Into<String>, cause: impl Into<String>) -> StoreError {
    StoreError::Damaged {
        place: place.into(),
        cause: cause.into(),
        way_out: "`eurekad store check` tells what can still be read of a stopped store, and \
                  `eurekad store repair` keeps it"
            .into(),
    }
}

thread_local! {
    /// Whether this thread runs something of sled's whose panic is caught.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the panics of sled from standard error: those inside [`guarded`], which become errors, and
/// those of its own threads, which show as errors wherever the database is asked next.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_GUARDED.get() || is_of_sled(info) {
                tracing::debug!("sled panicked: {info}");
            } else {
                before(info);
            }
        }));
    });
}

/// Whether a panic comes out of sled's sources (`.../sled-0.34.7/src/...`).
fn is_of_sled(info: &PanicHookInfo<'_>) -> bool {
    info.location().is_some_and(|location| {
        Path::new(location.file()).components().any(|part| {
            let name = part.as_os_str().to_string_lossy();
            name == "sled" || name.starts_with("sled-")
        })
    })
}

/// Puts [`IS_GUARDED`] back to what it was.
struct Guard(bool);

impl Drop for Guard {
    fn drop(&mut self) {
        IS_GUARDED.set(self.0);
    }
}

/// Runs something that calls sled and files what goes wrong.
pub(super) fn guarded<T>(
    attempt: &str,
    call: impl FnOnce() -> sled::Result<T>,
) -> Result<T, StoreError> {
    quiet_panics();
    let guard = Guard(IS_GUARDED.replace(true));
    let called = catch_unwind(AssertUnwindSafe(call));
    drop(guard);
    match called {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(from_sled(attempt, error)),
        // The hook has logged what it says.
        Err(_) => Err(damaged(
            "the database",
            format!("cannot {attempt}: its file log/db makes no sense"),
        )),
    }
}

fn from_sled(attempt: &str, error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(source)
            if matches!(
                source.kind(),
                std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidData
            ) =>
        {
            damaged("the database", format!("cannot {attempt}: {source}"))
        }
        sled::Error::Io(source) => StoreError::io(attempt, Path::new("log/db"), source),
        sled::Error::Corruption { at: Some(at), .. } => damaged(
            "the database",
            format!("cannot {attempt}: corruption at {at:?}"),
        ),
        sled::Error::Corruption { at: None, .. } => {
            damaged("the database", format!("cannot {attempt}: corruption"))
        }
        sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_) => {
            damaged("the database", format!("cannot {attempt}: {error}"))
        }
    }
}

/// Tries to open a database whose last handle is still going down.
const BUSY_TRIES: u32 = 500;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

impl Database {
    /// sled's own lock goes with the last of its threads, which may outlive a handle by a moment.
    /// Whoever comes here has the data directory's lock, so it is nobody else's: worth a wait.
    fn open_when_free(path: &Path, cache_bytes: u64) -> Result<Db, StoreError> {
        let mut tries = 0;
        loop {
            let opened = guarded("open the database", || {
                // Segment size and compression are the defaults and must stay so: sled refuses to
                // change them, and a lost `conf` is written anew from these settings.
                sled::Config::default()
                    .path(path)
                    .cache_capacity(cache_bytes)
                    .flush_every_ms(Some(FLUSH_EVERY_MS))
                    .open()
            });
            tries += 1;
            match opened {
                Err(StoreError::Io { source, .. })
                    if tries < BUSY_TRIES
                        && source.to_string().contains("could not acquire lock") =>
                {
                    std::thread::sleep(BUSY_PAUSE);
                }
                opened => return opened,
            }
        }
    }

    /// Opens the database in `path`, creating it if it is not there.
    pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let is_new = !path.join("db").exists();
        let place = |error| match error {
            StoreError::Io {
                attempt, source, ..
            } => StoreError::Io {
                attempt,
                source,
                path: path.to_path_buf(),
            },
            StoreError::Unusable { source, .. } => StoreError::Unusable {
                path: path.to_path_buf(),
                source,
            },
            StoreError::NoSpace { cause, .. } => StoreError::NoSpace {
                path: path.to_path_buf(),
                cause,
            },
            other => other,
        };
        let db = Self::open_when_free(path, cache_bytes).map_err(place)?;
        let meta = guarded("open the meta tree", || db.open_tree("meta")).map_err(place)?;
        let file_path = path.join("db");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&file_path)
            .map_err(|error| StoreError::io("open the database file", &file_path, error))?;
        let database = Self {
            db,
            meta,
            file,
            path: path.to_path_buf(),
        };
        if is_new {
            // sled syncs neither its settings nor the names of its files.
            database.flush()?;
            database.sync()?;
            let conf = path.join("conf");
            File::open(&conf)
                .and_then(|file| file.sync_all())
                .map_err(|error| StoreError::io("sync the settings", &conf, error))?;
            files::sync_dir(path)?;
            if let Some(parent) = path.parent() {
                files::sync_dir(parent)?;
            }
        }
        Ok(database)
    }

    /// Hands everything written so far to the operating system.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        guarded("flush the log", || self.db.flush()).map(|_| ())
    }

    /// Puts what was flushed on the disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file
            .sync_data()
            .map_err(|error| StoreError::io("sync the log", &self.path, error))
    }

    /// Size of the database file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |facts| facts.len())
    }

    /// Number of files that sled put beside its own, which our value sizes rule out.
    pub(super) fn blob_files(&self) -> u64 {
        files::list(&self.path.join("blobs"), |_| true).map_or(0, |blobs| blobs.len() as u64)
    }

    /// Lets the database go: writes what is left, ends sled's threads, frees its lock.
    ///
    /// # Errors
    /// sled did not end in time; its lock stays until the process ends.
    pub(super) fn let_go(self, trees: Vec<Tree>) -> Result<(), StoreError> {
        let path = self.path.clone();
        let (done, is_done) = mpsc::sync_channel(1);
        let spawned = std::thread::Builder::new()
            .name("store-close".into())
            .spawn(move || {
                let gone = catch_unwind(AssertUnwindSafe(move || {
                    drop(trees);
                    drop(self);
                }));
                let _ = done.send(gone.is_ok());
            });
        let stuck = |cause: &str| StoreError::Io {
            attempt: "close the database".into(),
            path: path.clone(),
            source: std::io::Error::other(cause.to_owned()),
        };
        // If the thread could not start, the closure was dropped right here, and the database too.
        if spawned.is_err() {
            return Ok(());
        }
        match is_done.recv_timeout(DROP_WAIT) {
            Ok(true) => Ok(()),
            Ok(false) => Err(stuck("sled panicked while closing")),
            Err(_) => Err(stuck("sled does not end; restart the process")),
        }
    }
}
