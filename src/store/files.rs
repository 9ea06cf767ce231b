//! Small things about files: syncing directories, free space, the lock of the data directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::store::{Progress, StoreError};

/// Where a process may be stopped between two states of a data directory; tests look at each of them.
#[cfg(test)]
pub(super) mod steps {
    use std::cell::RefCell;
    use std::path::{Path, PathBuf};

    /// What comes next.
    #[derive(Debug)]
    pub(in crate::store) enum Step {
        Rename,
        /// File by file: any of them may be left.
        RemoveDir(PathBuf),
        Create,
        Sync,
    }

    type Watcher = Box<dyn FnMut(Step)>;

    thread_local! {
        static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
    }

    /// Runs something whose steps on this thread are told to `watcher`, each before it is done.
    pub(in crate::store) fn watched<T>(
        watcher: impl FnMut(Step) + 'static,
        call: impl FnOnce() -> T,
    ) -> T {
        WATCHER.set(Some(Box::new(watcher)));
        let called = call();
        WATCHER.set(None);
        called
    }

    pub(super) fn tell(step: Step) {
        // Taken out meanwhile, so that what a watcher does is not told to it.
        if let Some(mut watcher) = WATCHER.take() {
            watcher(step);
            WATCHER.set(Some(watcher));
        }
    }

    pub(super) fn removes(dir: &Path) -> Step {
        Step::RemoveDir(dir.to_path_buf())
    }
}

/// Renames a file or a directory.
pub(super) fn rename(from: &Path, to: &Path, attempt: &str) -> Result<(), StoreError> {
    #[cfg(test)]
    steps::tell(steps::Step::Rename);
    fs::rename(from, to).map_err(|error| StoreError::io(attempt, from, error))
}

/// Copies a file to a place where there is none.
pub(super) fn copy(from: &Path, to: &Path, attempt: &str) -> Result<(), StoreError> {
    #[cfg(test)]
    steps::tell(steps::Step::Create);
    fs::copy(from, to)
        .map(|_| ())
        .map_err(|error| StoreError::io(attempt, to, error))
}

/// Makes the names in a directory durable: new, renamed and removed files.
pub(super) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    #[cfg(test)]
    steps::tell(steps::Step::Sync);
    // Directories cannot be opened as files everywhere; where they cannot, the system keeps them.
    if cfg!(unix) {
        File::open(dir)
            .and_then(|handle| handle.sync_all())
            .map_err(|error| StoreError::io("sync the directory", dir, error))?;
    }
    Ok(())
}

/// Creates a directory with its parents, and makes that durable.
pub(super) fn create_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    #[cfg(test)]
    steps::tell(steps::Step::Create);
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        // What is there is not a directory.
        std::io::ErrorKind::AlreadyExists => StoreError::Unusable {
            path: dir.to_path_buf(),
            source: error,
        },
        _ => StoreError::io("create the directory", dir, error),
    })?;
    for parent in dir
        .ancestors()
        .skip(1)
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        // A parent that may not be opened was there before.
        if sync_dir(parent).is_err() {
            break;
        }
    }
    Ok(())
}

/// Removes a file that may be gone already.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove the file", path, error))
        }
        _ => Ok(()),
    }
}

/// The names in a directory that `wanted` picks; none if it is not there.
pub(super) fn list(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list the directory", dir, error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::io("list the directory", dir, error))?;
        if entry.file_name().to_str().is_some_and(&wanted) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// What the system says of a file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    /// Bytes that this user may still write.
    pub(super) free: u64,
    /// Bytes that it has in all.
    pub(super) total: u64,
}

/// The file system of `dir`; `None` if the system does not tell.
pub(super) fn volume(dir: &Path) -> Option<Volume> {
    #[cfg(unix)]
    {
        let facts = rustix::fs::statvfs(dir).ok()?;
        Some(Volume {
            free: facts.f_bavail.saturating_mul(facts.f_frsize),
            total: facts.f_blocks.saturating_mul(facts.f_frsize),
        })
    }
    #[cfg(not(unix))]
    {
        let _ = dir;
        None
    }
}

/// Compares the free space of `dir` with what is needed there. `what` says in the error what needs it.
///
/// # Errors
/// [`StoreError::NoSpace`]; none if the system does not tell how much is free.
pub(super) fn require_space(dir: &Path, needed: u64, what: &str) -> Result<(), StoreError> {
    let Some(free) = volume(dir)
        .map(|volume| volume.free)
        .filter(|free| *free < needed)
    else {
        return Ok(());
    };
    Err(StoreError::NoSpace {
        path: dir.to_path_buf(),
        // Rounded apart: they are never the same number.
        cause: format!(
            "{} MiB are free, and {} MiB are {what}",
            free >> 20,
            needed.div_ceil(1 << 20)
        ),
    })
}

/// Removes a directory with everything in it; it may be gone already.
pub(super) fn remove_dir(dir: &Path) -> Result<(), StoreError> {
    #[cfg(test)]
    steps::tell(steps::removes(dir));
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove the directory", dir, error))
        }
        _ => Ok(()),
    }
}

/// The lock of a data directory; let go when dropped, and by the system if the process dies.
#[derive(Debug)]
pub(super) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Takes the lock, waiting up to `wait_ms` for another process to end.
    ///
    /// Nothing in the directory is touched before the lock is there: what looks like a leftover may
    /// be a file that the other process is just writing.
    pub(super) fn take(
        dir: &Path,
        wait_ms: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, StoreError> {
        const PAUSE_MS: u64 = 100;
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| StoreError::io("open the lock file", &path, error))?;
        let mut waited = 0;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let pid = read_pid(&mut file);
                    if waited >= wait_ms {
                        return Err(StoreError::Locked {
                            dir: dir.to_path_buf(),
                            pid,
                        });
                    }
                    if waited == 0 {
                        progress(Progress::WaitingForLock { pid });
                    }
                    std::thread::sleep(Duration::from_millis(PAUSE_MS));
                    waited += PAUSE_MS;
                }
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::io("lock the data directory", &path, error));
                }
            }
        }
        // The pid is for the message alone: a disk that is too full for it is no reason to stop.
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::debug!(%error, "cannot write the pid into {}", path.display());
        }
        Ok(Self { _file: file })
    }
}

/// A look at a data directory that keeps servers out and writes nothing.
#[derive(Debug)]
pub(super) struct Looking {
    _file: Option<File>,
}

impl DirLock {
    /// Keeps others from taking the lock, without taking it.
    ///
    /// # Errors
    /// Somebody has it, or the directory cannot be read.
    pub(super) fn look(dir: &Path) -> Result<Looking, StoreError> {
        let path = dir.join("lock");
        fs::read_dir(dir).map_err(|error| StoreError::io("read the directory", dir, error))?;
        let mut file = match File::open(&path) {
            Ok(file) => file,
            // Nobody ever took it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Looking { _file: None });
            }
            Err(error) => return Err(StoreError::io("open the lock file", &path, error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Looking { _file: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
                dir: dir.to_path_buf(),
                pid: read_pid(&mut file),
            }),
            Err(TryLockError::Error(error)) => {
                Err(StoreError::io("look at the lock file", &path, error))
            }
        }
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_space_says_where_how_much_and_what_for() {
        let dir = tempfile::tempdir().unwrap();
        require_space(dir.path(), 0, "needed").unwrap();
        let free = volume(dir.path()).unwrap().free;
        let needed = volume(dir.path()).unwrap().total.saturating_add(1);
        let error = require_space(dir.path(), needed, "to be left (a key)").unwrap_err();
        assert!(
            matches!(&error, StoreError::NoSpace { path, .. } if path == dir.path()),
            "{error:?}"
        );
        let text = error.to_string();
        let asked = format!(
            "MiB are free, and {} MiB are to be left (a key)",
            needed.div_ceil(1 << 20)
        );
        assert!(free < needed && text.contains(&asked), "{text}");
    }
}
