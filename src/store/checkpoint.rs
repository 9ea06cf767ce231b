//! Checkpoints: the whole state as of an LSN, in a plain file beside the database.
//!
//! A file is `checkpoint-<lsn, 20 digits>`: a header, blocks, a footer that proves that nothing is
//! missing; every part has a CRC-32, every entry is an enveloped record. It is written under
//! another name, synced and renamed, so a checkpoint is complete or not there. The two newest are
//! kept: if the newest is damaged later, the one before and a longer replay lead to the same state.
//! Which older ones are kept as bases of the past, [`super::bases`] says.
//! Byte by byte: `migrations/README.md`.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::store::intern::Interner;
use crate::store::record::{self, DecodeError, RECORD_MAX};
use crate::store::{BaseFacts, Checkpoint, CheckpointSource, StoreError, files};
use crate::types::{Lsn, Millis};

const MAGIC: [u8; 8] = *b"EURKCKPT";
/// The version of a file without holds, which older versions of this program read too.
const VERSION: u32 = 1;
/// The version of a file with holds.
const VERSION_HOLDS: u32 = 2;
const HEADER_LEN: usize = 8 + 4 + 8 + 8 + 8 + 4;
const BLOCK_HEAD_LEN: usize = 1 + 4 + 4;
/// A block is closed once it holds this many bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Longest block that is read: one largest entry on top of an almost full block.
const BLOCK_MAX: usize = BLOCK_BYTES + 4 + RECORD_MAX;
/// Strings that are remembered while a checkpoint is loaded, to share them.
const STRINGS: usize = 1 << 15;
const PREFIX: &str = "checkpoint-";

const LEASES: u8 = 1;
const OVERRIDES: u8 = 2;
const HOLDS: u8 = 3;
const FOOTER: u8 = 0xff;

/// Path of the checkpoint as of `lsn`.
pub(super) fn path(dir: &Path, lsn: Lsn) -> PathBuf {
    dir.join(format!("{PREFIX}{:020}", lsn.0))
}

/// The LSNs of the checkpoint files in `dir`, oldest first, good or not.
pub(super) fn list(dir: &Path) -> Result<Vec<Lsn>, StoreError> {
    let lsn = |name: &str| {
        name.strip_prefix(PREFIX)
            .filter(|digits| digits.len() == 20)?
            .parse()
            .ok()
            .map(Lsn)
    };
    let files = files::list(dir, |name| lsn(name).is_some())?;
    Ok(files
        .iter()
        .filter_map(|path| lsn(path.file_name()?.to_str()?))
        .collect())
}

/// The newest checkpoint that can be loaded.
pub(super) fn newest_good(dir: &Path) -> Result<Option<Lsn>, StoreError> {
    for lsn in list(dir)?.into_iter().rev() {
        match load(dir, lsn) {
            Ok(_) => return Ok(Some(lsn)),
            Err(StoreError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether a file is a damaged checkpoint that was set aside.
pub(super) fn is_evidence(name: &str) -> bool {
    has_form(name, "damaged")
}

/// Whether a name is that of a checkpoint with this extension.
fn has_form(name: &str, extension: &str) -> bool {
    name.starts_with(PREFIX)
        && Path::new(name)
            .extension()
            .is_some_and(|found| found == extension)
}

/// Removes what an interrupted [`write()`] left.
pub(super) fn remove_leftovers(dir: &Path) -> Result<(), StoreError> {
    for path in files::list(dir, |name| has_form(name, "tmp"))? {
        files::remove(&path)?;
    }
    Ok(())
}

/// Writes a checkpoint and makes it durable.
pub(super) fn write(dir: &Path, source: CheckpointSource<'_>) -> Result<(), StoreError> {
    let target = path(dir, source.lsn);
    let partial = target.with_extension("tmp");
    let written = write_file(&partial, source).and_then(|()| {
        fs::rename(&partial, &target)
            .map_err(|error| StoreError::io("rename the checkpoint", &target, error))
    });
    if let Err(error) = written {
        // Best effort: the next start removes it otherwise, and the first error is the telling one.
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    files::sync_dir(dir)
}

fn write_file(path: &Path, source: CheckpointSource<'_>) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("write the checkpoint", path, error);
    let file = File::create(path).map_err(failed)?;
    let mut out = BlockWriter {
        path,
        out: BufWriter::with_capacity(BLOCK_BYTES, file),
        block: Vec::with_capacity(BLOCK_BYTES),
    };
    let mut header = Vec::with_capacity(HEADER_LEN);
    header.extend(MAGIC);
    let mut holds = source.holds.peekable();
    let version = match holds.peek() {
        Some(_) => VERSION_HOLDS,
        None => VERSION,
    };
    header.extend(version.to_le_bytes());
    for number in [source.lsn.0, source.at.0, source.expected_clients] {
        header.extend(number.to_le_bytes());
    }
    header.extend(crc32fast::hash(&header).to_le_bytes());
    out.out.write_all(&header).map_err(failed)?;

    let mut counts = [0u64; 3];
    for lease in source.leases {
        out.entry(LEASES, &record::encode_lease(&lease)?)?;
        counts[0] += 1;
    }
    out.finish_block(LEASES)?;
    for entry in source.overrides {
        out.entry(OVERRIDES, &record::encode_override(&entry)?)?;
        counts[1] += 1;
    }
    out.finish_block(OVERRIDES)?;
    for entry in holds {
        out.entry(HOLDS, &record::encode_hold(&entry)?)?;
        counts[2] += 1;
    }
    out.finish_block(HOLDS)?;
    for count in &counts[..counted(version)] {
        out.block.extend(count.to_le_bytes());
    }
    out.finish_block(FOOTER)?;
    let file = out
        .out
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)
}

/// Kinds of entries that the footer of a file counts.
fn counted(version: u32) -> usize {
    if version >= VERSION_HOLDS { 3 } else { 2 }
}

struct BlockWriter<'a> {
    path: &'a Path,
    out: BufWriter<File>,
    block: Vec<u8>,
}

impl BlockWriter<'_> {
    fn entry(&mut self, kind: u8, bytes: &[u8]) -> Result<(), StoreError> {
        let len = u32::try_from(bytes.len()).expect("entries are at most RECORD_MAX long");
        self.block.extend(len.to_le_bytes());
        self.block.extend(bytes);
        if self.block.len() >= BLOCK_BYTES {
            self.finish_block(kind)
        } else {
            Ok(())
        }
    }

    fn finish_block(&mut self, kind: u8) -> Result<(), StoreError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let len = u32::try_from(self.block.len()).expect("blocks are at most BLOCK_MAX long");
        let mut head = [0; BLOCK_HEAD_LEN];
        head[0] = kind;
        head[1..5].copy_from_slice(&len.to_le_bytes());
        let sum = block_sum(&head, &self.block);
        head[5..].copy_from_slice(&sum.to_le_bytes());
        self.out
            .write_all(&head)
            .and_then(|()| self.out.write_all(&self.block))
            .map_err(|error| StoreError::io("write the checkpoint", self.path, error))?;
        self.block.clear();
        Ok(())
    }
}

/// CRC-32 over kind, length and content of a block.
fn block_sum(head: &[u8; BLOCK_HEAD_LEN], block: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head[..5]);
    sum.update(block);
    sum.finalize()
}

/// Loads and checks a checkpoint.
///
/// # Errors
/// [`StoreError::Damaged`] for anything but the complete file that was written;
/// [`StoreError::NewerSchema`] if another version wrote it.
pub(super) fn load(dir: &Path, lsn: Lsn) -> Result<Checkpoint, StoreError> {
    let path = path(dir, lsn);
    let file =
        File::open(&path).map_err(|error| StoreError::io("open the checkpoint", &path, error))?;
    let mut loader = Loader {
        path: &path,
        input: BufReader::with_capacity(BLOCK_BYTES, file),
        strings: Interner::with_slots(STRINGS),
    };
    loader.load(lsn)
}

/// What the header and the system say of a checkpoint; the rest of the file is not looked at.
///
/// # Errors
/// As [`load`].
pub(super) fn facts(dir: &Path, lsn: Lsn) -> Result<BaseFacts, StoreError> {
    let path = path(dir, lsn);
    let failed = |error| StoreError::io("open the checkpoint", &path, error);
    let file = File::open(&path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut loader = Loader {
        path: &path,
        input: BufReader::with_capacity(HEADER_LEN, file),
        strings: Interner::default(),
    };
    let (_, header) = loader.header_of(lsn)?;
    Ok(BaseFacts {
        lsn,
        at: header.at,
        leases: header.expected_clients,
        bytes,
    })
}

struct Loader<'a> {
    path: &'a Path,
    input: BufReader<File>,
    strings: Interner,
}

impl Loader<'_> {
    fn damaged(&self, cause: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            place: self.path.display().to_string(),
            cause: cause.into(),
            way_out: "the checkpoint before it is used instead, if there is one".into(),
        }
    }

    fn undecodable(&self, error: &DecodeError) -> StoreError {
        match error {
            DecodeError::Newer { found, known, .. } => StoreError::NewerSchema {
                what: self.path.display().to_string(),
                found: (*found).into(),
                known: (*known).into(),
            },
            DecodeError::Damaged(cause) => self.damaged(cause.as_str()),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        self.input
            .read_exact(bytes)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => self.damaged("the file ends too early"),
                _ => StoreError::io("read the checkpoint", self.path, error),
            })
    }

    fn load(&mut self, lsn: Lsn) -> Result<Checkpoint, StoreError> {
        let (version, mut checkpoint) = self.header_of(lsn)?;
        let mut block = Vec::new();
        loop {
            match self.block(&mut block)? {
                LEASES => self.entries(&block, |loader, entry| {
                    let lease = record::decode_lease(entry, &mut loader.strings)?;
                    checkpoint.leases.push(lease);
                    Ok(())
                })?,
                OVERRIDES => self.entries(&block, |loader, entry| {
                    let entry = record::decode_override(entry, &mut loader.strings)?;
                    checkpoint.overrides.push(entry);
                    Ok(())
                })?,
                HOLDS => self.entries(&block, |loader, entry| {
                    let entry = record::decode_hold(entry, &mut loader.strings)?;
                    checkpoint.holds.push(entry);
                    Ok(())
                })?,
                FOOTER => break,
                kind => return Err(self.damaged(format!("unknown block {kind}"))),
            }
        }
        let counts = [
            checkpoint.leases.len(),
            checkpoint.overrides.len(),
            checkpoint.holds.len(),
        ];
        let expected: Vec<u8> = counts[..counted(version)]
            .iter()
            .flat_map(|count| (*count as u64).to_le_bytes())
            .collect();
        if block != expected {
            return Err(self.damaged("the footer counts other entries than there are"));
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(checkpoint),
            Ok(_) => Err(self.damaged("there are bytes behind the footer")),
            Err(error) => Err(StoreError::io("read the checkpoint", self.path, error)),
        }
    }

    fn header_of(&mut self, lsn: Lsn) -> Result<(u32, Checkpoint), StoreError> {
        let (version, header) = self.header()?;
        if header.lsn != lsn {
            return Err(self.damaged(format!("it holds lsn {} under this name", header.lsn)));
        }
        Ok((version, header))
    }

    /// The version of the file, and what its header says.
    fn header(&mut self) -> Result<(u32, Checkpoint), StoreError> {
        let mut header = [0; HEADER_LEN];
        self.fill(&mut header)?;
        let number = |at: usize| {
            let bytes = header[at..at + 8]
                .try_into()
                .expect("eight bytes within the header");
            u64::from_le_bytes(bytes)
        };
        let (body, sum) = header.split_at(HEADER_LEN - 4);
        if body[..8] != MAGIC || crc32fast::hash(body).to_le_bytes() != sum {
            return Err(self.damaged("the header is not that of a checkpoint"));
        }
        let version = u32::from_le_bytes(
            header[8..12]
                .try_into()
                .expect("four bytes within the header"),
        );
        if !(VERSION..=VERSION_HOLDS).contains(&version) {
            return Err(StoreError::NewerSchema {
                what: self.path.display().to_string(),
                found: version,
                known: VERSION_HOLDS,
            });
        }
        let checkpoint = Checkpoint {
            lsn: Lsn(number(12)),
            at: Millis(number(20)),
            leases: Vec::new(),
            overrides: Vec::new(),
            holds: Vec::new(),
            expected_clients: number(28),
        };
        Ok((version, checkpoint))
    }

    /// Reads the next block and gives its kind.
    fn block(&mut self, block: &mut Vec<u8>) -> Result<u8, StoreError> {
        let mut head = [0; BLOCK_HEAD_LEN];
        self.fill(&mut head)?;
        let [kind, length @ .., _, _, _, _] = head;
        let len = u32::from_le_bytes(length) as usize;
        if len > BLOCK_MAX {
            return Err(self.damaged(format!("a block of {len} bytes, the limit is {BLOCK_MAX}")));
        }
        block.resize(len, 0);
        self.fill(block)?;
        if block_sum(&head, block).to_le_bytes() != head[5..] {
            return Err(self.damaged("a block has the wrong checksum"));
        }
        Ok(kind)
    }

    fn entries(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(&mut Self, &[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), StoreError> {
        let mut rest = block;
        while !rest.is_empty() {
            let entry = rest
                .split_first_chunk::<4>()
                .and_then(|(len, after)| after.split_at_checked(u32::from_le_bytes(*len) as usize));
            let Some((entry, after)) = entry else {
                return Err(self.damaged("an entry is longer than its block"));
            };
            take(self, entry).map_err(|error| self.undecodable(&error))?;
            rest = after;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
