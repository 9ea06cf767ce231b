//! Where an export goes: standard output, or a file that is there only once it is complete.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::screen::Screen;

/// A target for bytes.
#[derive(Debug)]
pub(super) struct Sink {
    file: Option<Partial>,
}

#[derive(Debug)]
struct Partial {
    out: BufWriter<File>,
    path: PathBuf,
    target: PathBuf,
    is_done: bool,
}

impl Sink {
    /// `-` is standard output.
    pub(super) fn open(target: &Path) -> Result<Self, Failure> {
        if target == Path::new("-") {
            return Ok(Self { file: None });
        }
        let mut partial = target.as_os_str().to_owned();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).map_err(|error| {
            Failure::refused(format!("cannot write {}: {error}", partial.display()))
        })?;
        Ok(Self {
            file: Some(Partial {
                out: BufWriter::with_capacity(256 << 10, file),
                path: partial,
                target: target.to_path_buf(),
                is_done: false,
            }),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8], screen: &mut Screen) -> Result<(), Failure> {
        match &mut self.file {
            None => screen.bytes(bytes),
            Some(file) => file
                .out
                .write_all(bytes)
                .map_err(|error| file.failed(&error)),
        }
    }

    /// A line with its end.
    pub(super) fn line(&mut self, text: &str, screen: &mut Screen) -> Result<(), Failure> {
        self.write(text.as_bytes(), screen)?;
        self.write(b"\n", screen)
    }

    /// Puts the file in its place.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Some(mut file) = self.file else {
            return Ok(());
        };
        let moved = file
            .out
            .flush()
            .and_then(|()| file.out.get_ref().sync_all())
            .and_then(|()| fs::rename(&file.path, &file.target));
        moved.map_err(|error| file.failed(&error))?;
        file.is_done = true;
        Ok(())
    }
}

impl Partial {
    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::refused(format!("cannot write {}: {error}", self.target.display()))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_done {
            // Half an export is worth nothing; if it cannot be removed, its name tells.
            let _ = fs::remove_file(&self.path);
        }
    }
}
