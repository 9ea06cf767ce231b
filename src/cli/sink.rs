//! Where an export goes: standard output, a file that is there only once it is complete, or whatever
//! else has a name in the file system (a device, a FIFO), which is written into as it is.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::screen::Screen;

/// Symbolic links that are followed to a file that is not there yet; as many as Linux follows.
const LINKS_MAX: usize = 40;
/// Names that are tried for a file that grows beside its target.
const NAMES_MAX: usize = 100;
const BUFFER: usize = 256 << 10;

/// A target for bytes.
#[derive(Debug)]
pub(super) struct Sink {
    /// What was asked for, for texts.
    name: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Stdout,
    /// Written beside its target and put in its place at the end.
    Staged(Staged),
    /// Not a regular file: replacing it would destroy what it is.
    Direct(BufWriter<File>),
}

#[derive(Debug)]
struct Staged {
    out: BufWriter<File>,
    path: PathBuf,
    target: PathBuf,
    is_done: bool,
}

impl Sink {
    /// `-` is standard output. Symbolic links are followed, so that they stay.
    ///
    /// # Errors
    /// The target cannot be written.
    pub(super) fn open(target: &Path) -> Result<Self, Failure> {
        let place = if target == Path::new("-") {
            Place::Stdout
        } else {
            place(target).map_err(|error| cannot_write(target, &error))?
        };
        Ok(Self {
            name: target.to_path_buf(),
            place,
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8], screen: &mut Screen) -> Result<(), Failure> {
        let out = match &mut self.place {
            Place::Stdout => return screen.bytes(bytes),
            Place::Staged(staged) => &mut staged.out,
            Place::Direct(out) => out,
        };
        out.write_all(bytes)
            .map_err(|error| cannot_write(&self.name, &error))
    }

    /// A line with its end.
    pub(super) fn line(&mut self, text: &str, screen: &mut Screen) -> Result<(), Failure> {
        self.write(text.as_bytes(), screen)?;
        self.write(b"\n", screen)
    }

    /// Puts a file in its place, and hands on what is left for anything else.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let finished = match self.place {
            Place::Stdout => Ok(()),
            Place::Staged(staged) => staged.finish(),
            Place::Direct(mut out) => out.flush(),
        };
        finished.map_err(|error| cannot_write(&self.name, &error))
    }
}

fn cannot_write(name: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        // Whoever reads a FIFO has had enough, as with standard output.
        return Failure::PipeClosed;
    }
    Failure::refused(format!("cannot write {}: {error}", name.display()))
}

fn place(target: &Path) -> io::Result<Place> {
    match fs::metadata(target) {
        Ok(facts) if facts.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(facts) if facts.is_file() => {
            Staged::beside(&fs::canonicalize(target)?, Some(&facts)).map(Place::Staged)
        }
        Ok(_) => {
            let file = OpenOptions::new().write(true).open(target)?;
            Ok(Place::Direct(BufWriter::with_capacity(BUFFER, file)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Staged::beside(&end_of_links(target)?, None).map(Place::Staged)
        }
        Err(error) => Err(error),
    }
}

/// The file that a name stands for which leads to none yet: itself, or where its links end.
fn end_of_links(name: &Path) -> io::Result<PathBuf> {
    let mut name = name.to_path_buf();
    for _ in 0..LINKS_MAX {
        if !fs::symlink_metadata(&name).is_ok_and(|facts| facts.is_symlink()) {
            return Ok(name);
        }
        let next = fs::read_link(&name)?;
        // A link is relative to where it lies.
        name = name.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other("its symbolic links have no end"))
}

impl Staged {
    /// Begins a file beside `target` that will take its place. `facts` are those of the file that it
    /// replaces: who could read that can read the new one, nobody else.
    fn beside(target: &Path, facts: Option<&fs::Metadata>) -> io::Result<Self> {
        let (file, path) = new_file(target, facts.is_some())?;
        let staged = Self {
            out: BufWriter::with_capacity(BUFFER, file),
            path,
            target: target.to_path_buf(),
            is_done: false,
        };
        if let Some(facts) = facts {
            keep_access(staged.out.get_ref(), facts)?;
        }
        Ok(staged)
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.is_done = true;
        Ok(())
    }
}

/// A new file whose name says what it is for.
fn new_file(target: &Path, is_private: bool) -> io::Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if is_private {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    for number in 0..NAMES_MAX {
        let mut name = target.as_os_str().to_owned();
        name.push(match number {
            0 => ".part".to_owned(),
            number => format!(".{number}.part"),
        });
        let path = PathBuf::from(name);
        match options.open(&path) {
            // Of another export that is under way, or of one that was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, path)),
        }
    }
    Err(io::Error::other(
        "too many files of exports that were cut off lie beside it (*.part)",
    ))
}

/// Gives a file the access rights of another one.
fn keep_access(file: &File, facts: &fs::Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
        // Only root may give a file away; for everybody else it is their own, as a copy is.
        let _ = fchown(file, Some(facts.uid()), Some(facts.gid()));
        file.set_permissions(Permissions::from_mode(facts.mode() & 0o777))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, facts);
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_done {
            // Half an export is worth nothing; if it cannot be removed, its name tells.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
    use std::thread;

    use super::super::screen::tests::Paper;
    use super::*;

    fn write(target: &Path, text: &str) {
        let mut screen = Screen::to(Box::new(Paper::default()), false);
        let mut sink = Sink::open(target).unwrap();
        sink.line(text, &mut screen).unwrap();
        sink.finish().unwrap();
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_when_it_is_complete_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "before").unwrap();
        for mode in [0o640, 0o604] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let mut screen = Screen::to(Box::new(Paper::default()), false);
            let mut sink = Sink::open(&file).unwrap();
            sink.line("half", &mut screen).unwrap();
            drop(sink);
            assert_eq!(fs::read_to_string(&file).unwrap(), "before");
            write(&file, "before");
            fs::write(&file, "before").unwrap();
            let is = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(is & 0o777, mode);
        }
        assert_eq!(names(dir.path()), ["f"]);
    }

    #[test]
    fn links_stay_links_and_lead_to_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/there"), "before").unwrap();
        symlink("d/there", at("one")).unwrap();
        symlink("d/new", at("two")).unwrap();
        symlink("two", at("three")).unwrap();
        for (link, file) in [("one", "d/there"), ("three", "d/new"), ("two", "d/new")] {
            write(&at(link), link);
            assert_eq!(fs::read_to_string(at(file)).unwrap(), format!("{link}\n"));
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
        }
        assert_eq!(names(&at("d")), ["new", "there"]);
        symlink("round", at("round")).unwrap();
        assert!(Sink::open(&at("round")).is_err());
    }

    #[test]
    fn what_is_not_a_file_is_written_into() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
        )
        .unwrap();
        let reader = thread::spawn({
            let fifo = fifo.clone();
            move || {
                let mut text = String::new();
                File::open(fifo).unwrap().read_to_string(&mut text).unwrap();
                text
            }
        });
        write(&fifo, "through");
        assert_eq!(reader.join().unwrap(), "through\n");
        assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
        assert!(Sink::open(dir.path()).is_err());
        assert_eq!(names(dir.path()), ["fifo"]);
    }

    #[test]
    fn what_another_export_left_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(dir.path().join("f.part"), "of another").unwrap();
        write(&file, "mine");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
        let other = fs::read_to_string(dir.path().join("f.part")).unwrap();
        assert_eq!(other, "of another");
    }
}
