//! The places of a closed segment: pairs of key and record, sorted, in blocks of a file. Memory
//! holds the first key of each block and a sieve, so that a look-up reads one block, and none where
//! the segment does not hold the key. Byte by byte: `migrations/README.md`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::key::Key;
use super::sieve::Sieve;
use crate::store::SegmentFacts;
use crate::types::{Lsn, Millis};

const MAGIC: [u8; 8] = *b"EURKINDX";
const VERSION: u32 = 1;
/// Magic, version, facts of the segment, number of entries and of the sieve's words.
const HEAD_LEN: usize = 8 + 4 + 7 * 8 + 4 + 4;
/// Bytes of a block; its last four are a CRC-32.
const BLOCK: usize = 4096;
/// Bytes of an entry: the key and the distance from the segment's first record.
const ENTRY: usize = 12;
const PER_BLOCK: usize = (BLOCK - 4) / ENTRY;
/// Most entries of a table: two for each record of the largest segment that can be imagined.
const ENTRIES_MAX: usize = 1 << 27;

/// The places of one segment.
#[derive(Debug)]
pub(super) struct Table {
    facts: SegmentFacts,
    entries: usize,
    /// The first key of each block.
    fences: Vec<u64>,
    sieve: Sieve,
    blocks: Blocks,
}

#[derive(Debug)]
enum Blocks {
    Memory(Vec<u8>),
    /// Where they are, and at which byte they begin.
    File(PathBuf, u64),
}

impl Table {
    /// Sorts the places of a segment.
    pub(super) fn new(facts: SegmentFacts, mut entries: Vec<(u64, u32)>) -> Self {
        entries.sort_unstable();
        let mut keys: Vec<u64> = entries.iter().map(|(key, _)| *key).collect();
        let fences = keys.iter().step_by(PER_BLOCK).copied().collect();
        keys.dedup();
        let mut blocks = Vec::with_capacity(entries.len().div_ceil(PER_BLOCK) * BLOCK);
        for part in entries.chunks(PER_BLOCK) {
            let start = blocks.len();
            for (key, place) in part {
                blocks.extend(key.to_le_bytes());
                blocks.extend(place.to_le_bytes());
            }
            blocks.resize(start + BLOCK - 4, 0);
            let sum = crc32fast::hash(&blocks[start..]);
            blocks.extend(sum.to_le_bytes());
        }
        Self {
            facts,
            entries: entries.len(),
            fences,
            sieve: Sieve::of(&keys),
            blocks: Blocks::Memory(blocks),
        }
    }

    pub(super) fn facts(&self) -> &SegmentFacts {
        &self.facts
    }

    /// Memory that it takes, bytes.
    pub(super) fn bytes(&self) -> usize {
        let blocks = match &self.blocks {
            Blocks::Memory(bytes) => bytes.len(),
            Blocks::File(..) => 0,
        };
        blocks + (self.fences.len() + self.sieve.words().len()) * 8
    }

    /// Whether its blocks are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.blocks, Blocks::Memory(_))
    }

    /// Writes it to a file, aside and renamed, and lets the blocks in memory go. Nothing waits for
    /// the disk: what a power loss takes is noticed and made anew.
    ///
    /// # Errors
    /// The file cannot be written; the table stays as it is.
    pub(super) fn store(&mut self, path: &Path) -> io::Result<()> {
        let Blocks::Memory(blocks) = &self.blocks else {
            return Ok(());
        };
        let head = self.head()?;
        let partial = path.with_extension("tmp");
        let written = File::create(&partial)
            .and_then(|mut file| {
                file.write_all(&head)?;
                file.write_all(blocks)
            })
            .and_then(|()| fs::rename(&partial, path));
        if let Err(error) = written {
            // The next start removes it otherwise, and the first error is the telling one.
            let _ = fs::remove_file(&partial);
            return Err(error);
        }
        self.blocks = Blocks::File(path.to_path_buf(), head.len() as u64);
        Ok(())
    }

    fn head(&self) -> io::Result<Vec<u8>> {
        let count = |number: usize| {
            u32::try_from(number).map_err(|_| io::Error::other("the segment has too many records"))
        };
        let words = self.sieve.words();
        let mut head = Vec::with_capacity(HEAD_LEN + (self.fences.len() + words.len()) * 8 + 4);
        head.extend(MAGIC);
        head.extend(VERSION.to_le_bytes());
        for number in numbers(&self.facts) {
            head.extend(number.to_le_bytes());
        }
        head.extend(count(self.entries)?.to_le_bytes());
        head.extend(count(words.len())?.to_le_bytes());
        for number in self.fences.iter().chain(words) {
            head.extend(number.to_le_bytes());
        }
        head.extend(crc32fast::hash(&head).to_le_bytes());
        Ok(head)
    }

    /// Loads the head of a table from its file.
    ///
    /// # Errors
    /// It is not there, not of this version, or not what was written.
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut head = vec![0; HEAD_LEN];
        file.read_exact(&mut head)?;
        let mut fields = Fields(&head);
        if fields.bytes(8) != MAGIC || fields.u32() != VERSION {
            return Err(damaged("not an index of this version"));
        }
        let facts = SegmentFacts {
            first: Lsn(fields.u64()),
            last: Lsn(fields.u64()),
            bytes: fields.u64(),
            earliest: Millis(fields.u64()),
            latest: Millis(fields.u64()),
            after: Lsn(fields.u64()),
            base: Lsn(fields.u64()),
        };
        let (entries, words) = (fields.u32() as usize, fields.u32() as usize);
        let blocks = entries.div_ceil(PER_BLOCK);
        let tail = (blocks as u64 + words as u64) * 8 + 4;
        let start = HEAD_LEN as u64 + tail;
        // Before anything is allocated: the file has to hold what it says.
        if entries > ENTRIES_MAX || start + (blocks * BLOCK) as u64 != length {
            return Err(damaged("the file has another length than it says"));
        }
        let tail = usize::try_from(tail).map_err(|_| damaged("the file is too large"))?;
        head.resize(HEAD_LEN + tail, 0);
        file.read_exact(&mut head[HEAD_LEN..])?;
        let (body, sum) = head.split_at(head.len() - 4);
        if crc32fast::hash(body).to_le_bytes() != sum {
            return Err(damaged("the head has the wrong checksum"));
        }
        let mut fields = Fields(&body[HEAD_LEN..]);
        let fences = (0..blocks).map(|_| fields.u64()).collect();
        let words = (0..words).map(|_| fields.u64()).collect();
        Ok(Self {
            facts,
            entries,
            fences,
            sieve: Sieve::from_words(words).ok_or_else(|| damaged("there is no sieve"))?,
            blocks: Blocks::File(path.to_path_buf(), start),
        })
    }

    /// The places of a key, as distances from the first record, ascending.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub(super) fn find(&self, key: Key) -> io::Result<Vec<u32>> {
        let key = key.0;
        if !self.sieve.may_hold(key) {
            return Ok(Vec::new());
        }
        // The block before the first that begins with the key may end with it.
        let from = self.fences.partition_point(|fence| *fence < key);
        let from = from.saturating_sub(1);
        let to = self.fences.partition_point(|fence| *fence <= key);
        if from >= to {
            return Ok(Vec::new());
        }
        let mut places = Vec::new();
        let mut take = |bytes: &[u8], place: usize| -> io::Result<()> {
            for entry in self.entries_of(bytes, place)? {
                let (found, offset) = entry;
                if found == key {
                    places.push(offset);
                }
            }
            Ok(())
        };
        match &self.blocks {
            Blocks::Memory(bytes) => {
                for place in from..to {
                    take(&bytes[place * BLOCK..(place + 1) * BLOCK], place)?;
                }
            }
            Blocks::File(path, start) => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(start + (from * BLOCK) as u64))?;
                let mut block = [0; BLOCK];
                for place in from..to {
                    file.read_exact(&mut block)?;
                    take(&block, place)?;
                }
            }
        }
        Ok(places)
    }

    /// The entries of a block.
    fn entries_of<'b>(
        &self,
        block: &'b [u8],
        place: usize,
    ) -> io::Result<impl Iterator<Item = (u64, u32)> + use<'b>> {
        let (body, sum) = block.split_at(BLOCK - 4);
        if crc32fast::hash(body).to_le_bytes() != sum {
            return Err(damaged("a block has the wrong checksum"));
        }
        let count = (self.entries - place * PER_BLOCK).min(PER_BLOCK);
        Ok(body.chunks_exact(ENTRY).take(count).map(|entry| {
            let mut fields = Fields(entry);
            (fields.u64(), fields.u32())
        }))
    }
}

/// The facts as they are written.
fn numbers(facts: &SegmentFacts) -> [u64; 7] {
    [
        facts.first.0,
        facts.last.0,
        facts.bytes,
        facts.earliest.0,
        facts.latest.0,
        facts.after.0,
        facts.base.0,
    ]
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Takes numbers off bytes whose length is known to suffice.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn bytes(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().expect("four bytes were taken"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().expect("eight bytes were taken"))
    }
}
