//! Directories for copies of a store, which are opened so that the store itself is left as it is.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::store::{Progress, StoreError, files};

/// Bytes copied between two reports of progress.
const STEP: u64 = 16 << 20;
/// Free space that has to be left beside a copy, bytes: opening it writes a little.
const SPARE: u64 = 32 << 20;

/// The files of a database and where they go, blobs included.
pub(super) fn database_files(log: &Path, to: &Path) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    let mut all = Vec::new();
    for path in files::list(log, |_| true)? {
        let Some(name) = path.file_name() else {
            continue;
        };
        let to = to.join(name);
        if path.is_dir() {
            all.extend(database_files(&path, &to)?);
        } else {
            all.push((path, to));
        }
    }
    Ok(all)
}

/// What their names begin with; behind it come the process and a number.
const PREFIX: &str = "eurekad-check-";

/// A directory of one's own, removed when dropped, or by the next one if the process was interrupted.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn create(parent: &Path) -> Result<Self, StoreError> {
        remove_abandoned(parent);
        let mut number = 0u32;
        loop {
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            {
                // A registry may hold what not everybody on the machine should read.
                use std::os::unix::fs::DirBuilderExt as _;
                builder.mode(0o700);
            }
            match builder.create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error)
                    if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 =>
                {
                    number += 1;
                }
                Err(error) => return Err(StoreError::io("create the directory", &path, error)),
            }
        }
    }

    /// Copies files, if there is space for them.
    pub(super) fn copy(
        &self,
        files: &[(PathBuf, PathBuf)],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), StoreError> {
        let of: u64 = files
            .iter()
            .filter_map(|(from, _)| fs::metadata(from).ok())
            .map(|facts| facts.len())
            .sum();
        let needed = of.saturating_add(SPARE);
        files::require_space(
            &self.path,
            needed,
            "needed for a copy of the store, for which TMPDIR names another place",
        )?;
        let mut done = 0;
        let mut buffer = vec![0; 1 << 20];
        for (from, to) in files {
            let to = self.path.join(to);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)
                    .map_err(|error| StoreError::io("create the directory", parent, error))?;
            }
            let failed_to_read = |error| StoreError::io("read", from, error);
            let failed_to_write = |error| StoreError::io("write", &to, error);
            let mut source = File::open(from).map_err(failed_to_read)?;
            let mut target = File::create(&to).map_err(failed_to_write)?;
            loop {
                let read = source.read(&mut buffer).map_err(failed_to_read)?;
                if read == 0 {
                    break;
                }
                target.write_all(&buffer[..read]).map_err(failed_to_write)?;
                let before = done / STEP;
                done += read as u64;
                if done / STEP != before {
                    progress(Progress::Copying { done, of });
                }
            }
        }
        Ok(())
    }
}

/// Removes what processes left that were interrupted. Those of others stay: there is no permission.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'))
            .and_then(|(process, _)| process.parse::<u32>().ok());
        let is_abandoned = owner.is_some_and(|process| {
            Path::new("/proc").is_dir() && !Path::new(&format!("/proc/{process}")).exists()
        });
        if is_abandoned {
            // Whoever else does the same at this moment has removed it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, "cannot remove {}", self.path.display());
        }
    }
}
