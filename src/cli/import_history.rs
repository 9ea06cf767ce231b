//! `eurekad import --history`: makes a store of an exported history, positions kept.
//!
//! The store is made in a directory beside its place and moved there when it is complete, so that an
//! import that is cut off leaves nothing that a server would take for a store.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::ImportArgs;
use super::failure::{Exit, Failure, Outcome};
use super::lines::LINE_MAX;
use super::offline;
use super::screen::Screen;
use super::store::show_progress;
use crate::changelog::{holds_of, leases_of, overrides_of};
use crate::portable::{self, End, FORM, PortableLine, State};
use crate::registry::Registry;
use crate::registry::change::Record;
use crate::registry::rules::Rules;
use crate::store::{
    self, CheckpointHold, CheckpointLease, CheckpointOverride, CheckpointSource, Durability,
    Opened, StoreOptions,
};
use crate::types::{Lsn, Millis};

/// Records of one batch.
const BATCH: usize = 256;

pub(super) fn run(dir: &Path, arguments: &ImportArgs, screen: &mut Screen) -> Outcome {
    if ["log", "log.compacted", "watermark"]
        .iter()
        .any(|name| dir.join(name).exists())
    {
        return Err(Failure::usage(format!(
            "{} holds a store already: a history is imported into a new one",
            dir.display()
        )));
    }
    let mut lines = Reader::open(&arguments.file)?;
    let Some(PortableLine::Head(head)) = lines.next()? else {
        return Err(Failure::usage(
            "the file is no history of eurekad export --history: its first line tells",
        ));
    };
    if head.what != "history" || head.form > FORM {
        return Err(Failure::usage(format!(
            "the file is a {} of form {}, this eurekad reads histories up to form {FORM}",
            head.what, head.form
        )));
    }
    let part = Part::create(dir)?;
    let mut import = Import {
        options: StoreOptions {
            min_free_bytes: Some(16 << 20),
            ..StoreOptions::new(&part.path)
        },
        opened: None,
        next: Lsn::ZERO,
        batch: Vec::new(),
        found: End::default(),
        last: Lsn(head.first_lsn.saturating_sub(1)),
        last_at: Millis::ZERO,
        replayed: (head.first_lsn <= 1).then(|| Registry::new(Arc::new(Rules::default()))),
        state: None,
        settled: None,
        leases: Vec::new(),
        overrides: Vec::new(),
        holds: Vec::new(),
    };
    loop {
        let at = lines.number;
        let Some(line) = lines.next()? else {
            return Err(Failure::usage(format!(
                "the file is cut off after line {at}: its last line is missing"
            )));
        };
        match line {
            PortableLine::Record(record) => import.record(*record, at + 1, screen)?,
            PortableLine::State(state) => {
                import.settle()?;
                import.state = Some(state);
            }
            PortableLine::Lease(held) => {
                portable::check_lease(&held.image).map_err(|why| bad_line(at + 1, &why))?;
                import.found.leases += 1;
                import.leases.push(*held);
            }
            PortableLine::Override(held) => {
                import.found.overrides += 1;
                import.overrides.push(held);
            }
            PortableLine::Hold(held) => {
                import.found.holds += 1;
                import.holds.push(held);
            }
            PortableLine::Head(_) => return Err(bad_line(at + 1, "a second beginning")),
            PortableLine::End(end) if end == import.found => break,
            PortableLine::End(end) => {
                return Err(Failure::usage(format!(
                    "lines are missing in the file: it says {end:?}, and has {:?}",
                    import.found
                )));
            }
        }
    }
    let found = import.found;
    let summary = format!(
        "{} records up to lsn {}, {} leases, {} overrides",
        found.records, import.last, found.leases, found.overrides
    );
    import.finish(screen)?;
    if arguments.dry_run {
        screen.line(&format!("{summary}: the file is whole"))?;
        return Ok(Exit::Done);
    }
    part.put_in_place()?;
    screen.line(&format!("{summary}: imported into {}", dir.display()))?;
    Ok(Exit::Done)
}

fn bad_line(number: u64, why: &str) -> Failure {
    Failure::usage(format!("line {number} of the file cannot be taken: {why}"))
}

struct Import {
    options: StoreOptions,
    opened: Option<Opened>,
    /// The next record of the open store.
    next: Lsn,
    batch: Vec<Arc<Record>>,
    found: End,
    last: Lsn,
    last_at: Millis,
    /// The state that the records lead to, if they go back to the beginning.
    replayed: Option<Registry>,
    /// The state whose lines are being read.
    state: Option<State>,
    /// The newest checkpoint that is written.
    settled: Option<Lsn>,
    leases: Vec<CheckpointLease>,
    overrides: Vec<CheckpointOverride>,
    holds: Vec<CheckpointHold>,
}

impl Import {
    fn record(&mut self, record: Record, line: u64, screen: &mut Screen) -> Result<(), Failure> {
        portable::check(&record).map_err(|why| bad_line(line, &why))?;
        self.settle()?;
        if record.lsn <= self.last {
            let why = format!("lsn {} after lsn {}", record.lsn, self.last);
            return Err(bad_line(line, &why));
        }
        if record.lsn != self.last.next() && !self.batch.is_empty() {
            self.write()?;
        }
        if let Some(registry) = &mut self.replayed {
            registry.evolve(&record, Millis::ZERO);
        }
        self.last = record.lsn;
        self.last_at = self.last_at.max(record.at);
        self.found.records += 1;
        self.batch.push(Arc::new(record));
        if self.batch.len() >= BATCH {
            self.write()?;
            screen.progress(&format!("{} records", self.found.records));
        }
        Ok(())
    }

    /// Appends what waits.
    fn write(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            return Ok(());
        };
        let next = last.lsn.next();
        let opened = self.open_at(first.lsn)?;
        opened.store.append(&batch)?;
        opened.store.commit(Durability::Flush)?;
        self.next = next;
        Ok(())
    }

    /// The store, its next record being `next`.
    fn open_at(&mut self, next: Lsn) -> Result<&mut Opened, Failure> {
        if self.next != next {
            self.close()?;
        }
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => store::open_at(&self.options, next, self.last_at, &mut |_| {})?,
        };
        self.next = next;
        Ok(self.opened.insert(opened))
    }

    fn close(&mut self) -> Result<(), Failure> {
        let Some(opened) = self.opened.take() else {
            return Ok(());
        };
        drop(opened.reader);
        opened.store.close(self.last_at)?;
        Ok(())
    }

    /// Writes the checkpoint whose lines are complete.
    fn settle(&mut self) -> Result<(), Failure> {
        let Some(state) = self.state.take() else {
            return Ok(());
        };
        let lsn = Lsn(state.lsn);
        if lsn < self.last {
            return Err(Failure::usage(format!(
                "a state in the file is of lsn {lsn}, but comes behind the record of lsn {}",
                self.last
            )));
        }
        self.write()?;
        // Where LSNs were skipped, the state may stand behind the last record.
        self.last = lsn;
        let leases = std::mem::take(&mut self.leases);
        let overrides = std::mem::take(&mut self.overrides);
        let holds = std::mem::take(&mut self.holds);
        let at = Millis(state.at);
        self.last_at = self.last_at.max(at);
        let opened = self.open_at(lsn.next())?;
        opened.store.commit(Durability::Disk)?;
        opened.reader.write_checkpoint(CheckpointSource {
            lsn,
            at,
            expected_clients: state.expected_clients,
            leases: &mut leases.into_iter(),
            overrides: &mut overrides.into_iter(),
            holds: &mut holds.into_iter(),
        })?;
        self.settled = Some(lsn);
        Ok(())
    }

    /// Writes what is left, and looks whether a server could start on it.
    fn finish(mut self, screen: &mut Screen) -> Result<(), Failure> {
        self.settle()?;
        self.write()?;
        if self.settled != Some(self.last) {
            let Some(registry) = self.replayed.take() else {
                return Err(Failure::usage(
                    "the file has no state at its end, and its records do not go back to the beginning",
                ));
            };
            self.leases = leases_of(&registry).collect();
            self.overrides = overrides_of(&registry).collect();
            self.holds = holds_of(&registry).collect();
            self.state = Some(State {
                lsn: self.last.0,
                at: self.last_at.0,
                expected_clients: registry.len(),
            });
            self.settle()?;
        }
        let (last, last_at) = (self.last, self.last_at);
        if let Some(opened) = &mut self.opened {
            opened.store.touch_watermark(last, last_at)?;
        }
        self.close()?;
        let opened = store::open(&self.options, offline::now(), &mut |step| {
            show_progress(&step, screen);
        })?;
        let is_whole = opened.lost.is_none() && opened.next_lsn == last.next();
        let alive = opened.last_alive;
        drop(opened.reader);
        opened.store.close(alive)?;
        if is_whole {
            Ok(())
        } else {
            Err(Failure::refused(
                "the store that was made is not whole: report this",
            ))
        }
    }
}

/// The lines of a file; `-` is standard input.
struct Reader {
    input: BufReader<Box<dyn Read>>,
    /// Lines that were read.
    number: u64,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, Failure> {
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(path).map_err(|error| {
                Failure::usage(format!("cannot read {}: {error}", path.display()))
            })?)
        };
        Ok(Self {
            input: BufReader::with_capacity(256 << 10, input),
            number: 0,
        })
    }

    fn next(&mut self) -> Result<Option<PortableLine>, Failure> {
        loop {
            let mut line = Vec::new();
            let most = LINE_MAX as u64 + 1;
            let read = self
                .input
                .by_ref()
                .take(most)
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::usage(format!("cannot read the file: {error}")))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if line.len() > LINE_MAX {
                return Err(bad_line(self.number, "it is too long"));
            }
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            return serde_json::from_slice(line)
                .map(Some)
                .map_err(|error| bad_line(self.number, &error.to_string()));
        }
    }
}

/// The store while it is being made; removed unless it was put in its place.
struct Part {
    path: PathBuf,
    dir: PathBuf,
}

impl Part {
    fn create(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join("import.part");
        let failed = |error| Failure::refused(format!("cannot make {}: {error}", path.display()));
        fs::create_dir_all(dir).map_err(failed)?;
        fs::create_dir(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Failure::refused(format!(
                "{} is there: another import runs, or one was cut off; remove it then",
                path.display()
            )),
            _ => failed(error),
        })?;
        Ok(Self {
            path,
            dir: dir.to_path_buf(),
        })
    }

    /// The watermark last: with it, a start would miss what has not been moved yet.
    fn put_in_place(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::refused(format!(
                "cannot move the store into {}: {error}",
                self.dir.display()
            ))
        };
        let mut names: Vec<_> = fs::read_dir(&self.path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(failed)?
            .into_iter()
            .map(|entry| entry.file_name())
            .filter(|name| name != "lock")
            .collect();
        names.sort_by_key(|name| (name == "watermark", name == "log"));
        for name in names {
            fs::rename(self.path.join(&name), self.dir.join(&name)).map_err(failed)?;
        }
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(failed)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // What is left there is in nobody's way, and its name tells what it is.
        let _ = fs::remove_dir_all(&self.path);
    }
}
