//! Space for a start that finds none. sled writes whenever it is opened: a list of all its pages, and where
//! the log goes on. So that a node on a full volume can still be started, and serve what it recovered, a
//! file in the data directory takes that much space while there is some. A start that finds less gives it
//! back before it opens the database, and sets aside again what is left of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::store::{StoreError, StoreOptions, files};

/// What opening takes whatever there is, bytes: some segments of sled's file, and what is ours.
const LEAST: u64 = 4 << 20;
/// sled's list of pages is a smaller part of its file than this one.
const PART_OF_FILE: u64 = 32;
/// Sizes are multiples of this, so that it does not grow with every record, bytes.
const STEP: u64 = 1 << 20;

/// Whether it is a store of a node, not a copy that is looked at.
pub(super) fn is_for(options: &StoreOptions) -> bool {
    options.min_free_bytes != Some(0)
}

/// The error of an opening that found no space, with what it takes.
pub(super) fn explain(error: StoreError, log: &Path) -> StoreError {
    match error {
        StoreError::NoSpace { path, cause } => {
            let mebibytes = wanted(log) >> 20;
            StoreError::NoSpace {
                path,
                cause: format!("{cause}; a start takes up to {mebibytes} MiB before it can serve"),
            }
        }
        other => other,
    }
}

/// What opening the database `log` may take.
fn wanted(log: &Path) -> u64 {
    let file_bytes = fs::metadata(log.join("db")).map_or(0, |facts| facts.len());
    (LEAST + file_bytes / PART_OF_FILE).next_multiple_of(STEP)
}

fn path(dir: &Path) -> PathBuf {
    dir.join("reserve")
}

fn has(dir: &Path) -> u64 {
    fs::metadata(path(dir)).map_or(0, |facts| facts.len())
}

/// Bytes that are still to be set aside in `dir`.
pub(super) fn missing(dir: &Path, log: &Path) -> u64 {
    wanted(log).saturating_sub(has(dir))
}

/// Sets aside what is missing, where a tenth of the volume stays free. A volume that does not take it is no
/// reason to stop.
pub(super) fn keep(dir: &Path, log: &Path) {
    let missing = missing(dir, log);
    let has_room = |volume: files::Volume| volume.free >= missing.saturating_add(volume.total / 10);
    if missing > 0 && files::volume(dir).is_some_and(has_room) {
        set_aside(dir, wanted(log));
    }
}

/// Gives the space back if opening may take more than is free; whether it did.
pub(super) fn give_back(dir: &Path, log: &Path) -> bool {
    let is_enough = files::volume(dir).is_none_or(|volume| volume.free >= wanted(log));
    if is_enough || has(dir) == 0 {
        return false;
    }
    if let Err(error) = files::remove(&path(dir)) {
        tracing::warn!(%error, "cannot give back the space that was set aside: {error}");
        return false;
    }
    true
}

/// Sets aside three quarters of what is free, as it was given back: a little is for the running node.
pub(super) fn keep_rest(dir: &Path, log: &Path) {
    if let Some(volume) = files::volume(dir) {
        set_aside(dir, (volume.free / 4 * 3).min(wanted(log)));
    }
}

fn set_aside(dir: &Path, bytes: u64) {
    let path = path(dir);
    let taken = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|file| take(&file, bytes))
        .and_then(|()| File::open(dir)?.sync_all());
    if let Err(error) = taken {
        tracing::debug!(%error, "cannot set aside {bytes} bytes in {}: {error}", path.display());
        // Half of it is of no use, and its space may be needed.
        let _ = fs::remove_file(&path);
    }
}

/// Makes the file so long, with space behind all of it.
fn take(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes).is_ok() {
        return file.sync_all();
    }
    let (mut file, mut has) = (file, file.metadata()?.len());
    let block = vec![0x5A; 64 << 10];
    while has < bytes {
        let piece = usize::try_from(bytes - has)
            .unwrap_or(block.len())
            .min(block.len());
        file.write_all(&block[..piece])?;
        has += piece as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_the_database_and_has_space_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        fs::create_dir(&log).unwrap();
        assert_eq!(missing(dir.path(), &log), LEAST);
        keep(dir.path(), &log);
        assert_eq!(missing(dir.path(), &log), 0);
        let db = File::create(log.join("db")).unwrap();
        db.set_len(100 << 20).unwrap();
        assert_eq!(missing(dir.path(), &log), 4 << 20);
        keep(dir.path(), &log);
        assert_eq!(has(dir.path()), 8 << 20);
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let facts = fs::metadata(path(dir.path())).unwrap();
            assert!(facts.blocks() * 512 >= facts.len(), "it takes no space");
        }
        assert!(!give_back(dir.path(), &log), "there is enough without it");
        assert_eq!(has(dir.path()), 8 << 20);
    }
}
