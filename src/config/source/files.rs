//! Which files are read, and in which order: `application.*` here and in `config/`, or the files
//! that `--config` names, and after them those of the active profiles.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use super::{Document, java_properties, yaml};
use crate::config::error::ConfigError;

/// Larger files are no configuration.
const FILE_BYTES_MAX: usize = 4 << 20;

/// Where files are read from; relative paths belong to the working directory.
pub trait FileSource: Debug {
    /// The bytes of a file, or `None` if there is none of this name.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;
}

/// The file system, below a working directory.
#[derive(Clone, Debug)]
pub struct DiskFiles {
    pub cwd: PathBuf,
}

impl FileSource for DiskFiles {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(self.cwd.join(path)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Names without a profile, lowest precedence first, as Spring has it: `config/` over the working
/// directory, and there `.properties` over YAML.
pub(crate) fn default_names(profile: Option<&str>) -> Vec<PathBuf> {
    let stem = profile.map_or_else(|| "application".to_owned(), |p| format!("application-{p}"));
    let mut names = Vec::new();
    for folder in ["", "config"] {
        for extension in ["yaml", "yml", "properties"] {
            names.push(Path::new(folder).join(format!("{stem}.{extension}")));
        }
    }
    names
}

/// The documents of one file; none if the file is not there and need not be.
pub(crate) fn read(
    files: &dyn FileSource,
    path: &Path,
    must_exist: bool,
) -> Result<Vec<Document>, ConfigError> {
    let file = path.display().to_string();
    let fail = |why: String| ConfigError::File {
        file: file.clone(),
        why,
    };
    let bytes = match files.read(path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) if must_exist => return Err(fail("there is no such file".to_owned())),
        Ok(None) => return Ok(Vec::new()),
        Err(error) => return Err(fail(format!("cannot be read: {error}"))),
    };
    if bytes.len() > FILE_BYTES_MAX {
        return Err(fail(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail("not UTF-8 text".to_owned()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("properties") => Ok(java_properties::read(&file, text)),
        Some("yml" | "yaml") => yaml::read(&file, text),
        _ => Err(fail(
            "the name must end with .yml, .yaml or .properties".to_owned(),
        )),
    }
}
