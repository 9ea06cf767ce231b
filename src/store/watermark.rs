//! The watermark: what was acknowledged, kept outside the database.
//!
//! A damaged log can come back shorter than it was without any error; this file is how that is
//! noticed. It has two slots, written in turn and each with a checksum, in pages of their own, so
//! that a torn write leaves the other one. Writing in place needs no free space.
//!
//! It notes three positions, because a process and a machine die differently: `acknowledged` is
//! committed and survives the process; `synced` says up to where the log was on the disk;
//! `given_out` also counts what was answered before its commit (`durability = interval`). After a
//! reboot (another boot id, or none) only `synced` can be held against the log: with
//! [`Durability::Flush`](super::Durability::Flush) newer records may be gone, as configured. They
//! are no reason to stop, but their LSNs must not be given out again.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::store::StoreError;
use crate::types::{Lsn, Millis};

const MAGIC: [u8; 8] = *b"EURKWMRK";
const VERSION: u32 = 1;
/// Distance of the two slots, bytes: a page each.
const SLOT_STEP: u64 = 4096;
const SLOT_LEN: usize = 8 + 4 + 4 + 3 * 16 + 5 * 8 + 4;
/// Syncing this often bounds what a power loss can hide.
const SYNC_EVERY_MS: u64 = 1_000;
const SYNC_EVERY_RECORDS: u64 = 10_000;

/// What the watermark says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watermark {
    /// Counts the writes; the slot with the higher one is the newer.
    pub(super) sequence: u64,
    pub(super) node_id: u128,
    pub(super) incarnation: u128,
    /// Of the system, at the time of writing; 0 where it has none.
    pub(super) boot_id: u128,
    /// Some commits of this run were flushed only: a reboot may have taken them.
    pub(super) is_unsynced: bool,
    /// Highest LSN that was both committed and acknowledged.
    pub(super) acknowledged: Lsn,
    /// Highest LSN that was on the disk.
    pub(super) synced: Lsn,
    /// Highest LSN that anybody may have been told, committed or not.
    pub(super) given_out: Lsn,
    /// Wall time at which the node lived.
    pub(super) alive_at: Millis,
}

/// What is at the watermark's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// There is a file, but neither slot can be read.
    Unreadable,
    Watermark(Watermark),
}

impl Watermark {
    fn encode(&self) -> [u8; SLOT_LEN] {
        let mut bytes = Vec::with_capacity(SLOT_LEN);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(u32::from(self.is_unsynced).to_le_bytes());
        for id in [self.node_id, self.incarnation, self.boot_id] {
            bytes.extend(id.to_le_bytes());
        }
        let positions = [self.acknowledged.0, self.synced.0, self.given_out.0];
        for number in [self.sequence]
            .into_iter()
            .chain(positions)
            .chain([self.alive_at.0])
        {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes.try_into().expect("the parts add up to SLOT_LEN")
    }

    fn decode(bytes: &[u8; SLOT_LEN]) -> Result<Option<Self>, u32> {
        let (body, sum) = bytes.split_at(SLOT_LEN - 4);
        if body[..8] != MAGIC || crc32fast::hash(body).to_le_bytes() != sum {
            return Ok(None);
        }
        let version = u32::from_le_bytes(part(body, 8));
        if version != VERSION {
            return Err(version);
        }
        let id = |at| u128::from_le_bytes(part(body, at));
        let number = |at| u64::from_le_bytes(part(body, at));
        Ok(Some(Self {
            is_unsynced: u32::from_le_bytes(part(body, 12)) != 0,
            node_id: id(16),
            incarnation: id(32),
            boot_id: id(48),
            sequence: number(64),
            acknowledged: Lsn(number(72)),
            synced: Lsn(number(80)),
            given_out: Lsn(number(88)),
            alive_at: Millis(number(96)),
        }))
    }

    /// The LSN that the log must reach if nothing that was promised is gone. `boot_id` is the
    /// system's present one.
    pub(super) fn promised(&self, boot_id: u128) -> Lsn {
        if self.is_same_boot(boot_id) {
            self.acknowledged
        } else {
            self.synced
        }
    }

    /// Whether newer records than the log holds may have been told to somebody, although a log
    /// that ends at `last` keeps every promise.
    pub(super) fn may_have_told_more(&self, last: Lsn, boot_id: u128) -> bool {
        self.given_out > last || (self.is_unsynced && !self.is_same_boot(boot_id))
    }

    fn is_same_boot(&self, boot_id: u128) -> bool {
        boot_id != 0 && boot_id == self.boot_id
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N]
        .try_into()
        .expect("offsets lie within a slot")
}

/// Reads the newer of the two slots of `<dir>/watermark`.
pub(super) fn read(dir: &Path) -> Result<Found, StoreError> {
    let path = dir.join("watermark");
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(file) => file
            .take(2 * SLOT_STEP)
            .read_to_end(&mut bytes)
            .map_err(|error| StoreError::io("read the watermark", &path, error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(StoreError::io("open the watermark", &path, error)),
    };
    let mut newest: Option<Watermark> = None;
    for start in [0, SLOT_STEP] {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let Some(slot) = bytes.get(start..).and_then(|rest| rest.first_chunk()) else {
            continue;
        };
        match Watermark::decode(slot) {
            Ok(Some(found)) if newest.is_none_or(|newest| found.sequence > newest.sequence) => {
                newest = Some(found);
            }
            Ok(_) => {}
            Err(found) => {
                return Err(StoreError::NewerSchema {
                    what: path.display().to_string(),
                    found,
                    known: VERSION,
                });
            }
        }
    }
    Ok(newest.map_or(Found::Unreadable, Found::Watermark))
}

/// The boot id of the running system, 0 where there is none.
pub(super) fn boot_id() -> u128 {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .and_then(|text| u128::from_str_radix(&text.trim().replace('-', ""), 16).ok())
        .unwrap_or(0)
}

/// The open file.
#[derive(Debug)]
pub(super) struct WatermarkFile {
    path: PathBuf,
    file: File,
    current: Watermark,
    /// What the last sync put on the disk.
    on_disk: Option<(Lsn, Millis)>,
}

impl WatermarkFile {
    /// Opens the file and notes `start` in it, durably.
    pub(super) fn open(dir: &Path, start: Watermark) -> Result<Self, StoreError> {
        let path = dir.join("watermark");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| StoreError::io("open the watermark", &path, error))?;
        let mut file = Self {
            path,
            file,
            current: start,
            on_disk: None,
        };
        // Both slots: from now on every write finds its space taken.
        file.write(start)?;
        file.write(start)?;
        file.sync()?;
        super::files::sync_dir(dir)?;
        Ok(file)
    }

    /// Notes positions; [`WatermarkFile::is_due`] says whether that should be synced. `told` is the
    /// highest acknowledged LSN, `committed` and `synced` the ends of what is safe.
    pub(super) fn note(
        &mut self,
        told: Lsn,
        committed: Lsn,
        synced: Lsn,
        now: Millis,
    ) -> Result<(), StoreError> {
        let next = Watermark {
            acknowledged: told.min(committed).max(self.current.acknowledged),
            synced: synced.max(self.current.synced),
            given_out: told.max(self.current.given_out),
            is_unsynced: self.current.is_unsynced || synced < committed,
            // The clock may have been stepped back; then the newer word counts.
            alive_at: now,
            ..self.current
        };
        if next == self.current {
            return Ok(());
        }
        self.write(next)
    }

    /// Whether so much happened since the last sync that another one is due.
    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.on_disk.is_none_or(|(lsn, at)| {
            self.current.acknowledged.0.saturating_sub(lsn.0) >= SYNC_EVERY_RECORDS
                || now.since(at) >= SYNC_EVERY_MS
                || now < at
        })
    }

    /// Notes that everything is on the disk and nothing was given out beyond it.
    pub(super) fn note_clean_end(&mut self, now: Millis) -> Result<(), StoreError> {
        let end = self.current.acknowledged;
        let next = Watermark {
            is_unsynced: false,
            synced: end,
            given_out: self.current.given_out,
            alive_at: now,
            ..self.current
        };
        self.write(next)?;
        self.sync()
    }

    /// Puts what was noted on the disk.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        self.file
            .sync_data()
            .map_err(|error| StoreError::io("sync the watermark", &self.path, error))?;
        self.on_disk = Some((self.current.acknowledged, self.current.alive_at));
        Ok(())
    }

    fn write(&mut self, mut next: Watermark) -> Result<(), StoreError> {
        next.sequence = self.current.sequence.saturating_add(1);
        let slot = (next.sequence % 2) * SLOT_STEP;
        self.file
            .seek(SeekFrom::Start(slot))
            .and_then(|_| self.file.write_all(&next.encode()))
            .map_err(|error| StoreError::io("write the watermark", &self.path, error))?;
        self.current = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(acknowledged: u64) -> Watermark {
        Watermark {
            sequence: 3,
            node_id: 1,
            incarnation: 2,
            boot_id: boot_id(),
            acknowledged: Lsn(acknowledged),
            synced: Lsn(acknowledged / 2),
            given_out: Lsn(acknowledged),
            is_unsynced: false,
            alive_at: Millis(77),
        }
    }

    #[test]
    fn the_newest_note_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), Found::Nothing);
        let mut file = WatermarkFile::open(dir.path(), mark(10)).unwrap();
        for lsn in 11..20 {
            file.note(Lsn(lsn), Lsn(lsn), Lsn(lsn - 1), Millis(100 + lsn))
                .unwrap();
        }
        let Found::Watermark(found) = read(dir.path()).unwrap() else {
            panic!("no watermark")
        };
        assert_eq!((found.acknowledged, found.synced), (Lsn(19), Lsn(18)));
        assert_eq!(
            (found.alive_at, found.node_id, found.incarnation),
            (Millis(119), 1, 2)
        );
    }

    #[test]
    fn a_torn_write_leaves_the_note_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = WatermarkFile::open(dir.path(), mark(10)).unwrap();
        file.note(Lsn(11), Lsn(11), Lsn(11), Millis(1)).unwrap();
        file.note(Lsn(12), Lsn(12), Lsn(12), Millis(2)).unwrap();
        let path = dir.path().join("watermark");
        let good = std::fs::read(&path).unwrap();
        let newer = usize::try_from((file.current.sequence % 2) * SLOT_STEP).unwrap();
        for at in 0..SLOT_LEN {
            let mut torn = good.clone();
            torn[newer + at] ^= 0x40;
            std::fs::write(&path, &torn).unwrap();
            let Found::Watermark(found) = read(dir.path()).unwrap() else {
                panic!("at {at}")
            };
            assert_eq!(found.acknowledged, Lsn(11), "byte {at}");
            torn[(newer + 4096) % 8192 + at] ^= 1;
            std::fs::write(&path, &torn).unwrap();
            assert_eq!(read(dir.path()).unwrap(), Found::Unreadable);
        }
        std::fs::write(&path, b"EURK").unwrap();
        assert_eq!(read(dir.path()).unwrap(), Found::Unreadable);
    }

    #[test]
    fn positions_never_go_back_but_the_time_follows_the_clock() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = WatermarkFile::open(dir.path(), mark(10)).unwrap();
        file.note(Lsn(4), Lsn(4), Lsn(2), Millis(5)).unwrap();
        assert_eq!(
            (file.current.acknowledged, file.current.synced),
            (Lsn(10), Lsn(5))
        );
        assert_eq!(file.current.alive_at, Millis(5));
    }

    #[test]
    fn a_sync_is_due_each_second_or_ten_thousand_records_or_when_the_clock_went_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = WatermarkFile::open(dir.path(), mark(10)).unwrap();
        assert!(!file.is_due(Millis(77 + 999)));
        assert!(file.is_due(Millis(77 + 1_000)));
        assert!(file.is_due(Millis(76)));
        file.note(Lsn(10_010), Lsn(10_010), Lsn(10), Millis(77))
            .unwrap();
        assert!(file.is_due(Millis(77)));
        file.sync().unwrap();
        assert!(!file.is_due(Millis(77)));
    }

    #[test]
    fn after_a_reboot_only_what_was_synced_is_promised() {
        let mark = Watermark {
            boot_id: 5,
            ..mark(10)
        };
        assert_eq!(mark.promised(5), Lsn(10));
        assert_eq!(mark.promised(6), Lsn(5));
        assert_eq!(mark.promised(0), Lsn(5));
    }

    #[test]
    fn what_was_told_beyond_the_log_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = WatermarkFile::open(dir.path(), mark(10)).unwrap();
        file.note(Lsn(30), Lsn(20), Lsn(20), Millis(80)).unwrap();
        let found = file.current;
        assert_eq!((found.acknowledged, found.given_out), (Lsn(20), Lsn(30)));
        assert!(found.may_have_told_more(Lsn(29), boot_id()));
        assert!(!found.may_have_told_more(Lsn(30), boot_id()));
        file.note(Lsn(30), Lsn(30), Lsn(20), Millis(80)).unwrap();
        assert!(
            file.current.may_have_told_more(Lsn(30), 1),
            "flushed only, then rebooted"
        );
        file.note_clean_end(Millis(81)).unwrap();
        assert!(!file.current.may_have_told_more(Lsn(30), 1));
    }

    #[test]
    fn a_watermark_of_a_newer_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = mark(10).encode();
        bytes[8] = 2;
        let sum = crc32fast::hash(&bytes[..SLOT_LEN - 4]).to_le_bytes();
        bytes[SLOT_LEN - 4..].copy_from_slice(&sum);
        std::fs::write(dir.path().join("watermark"), bytes).unwrap();
        let error = read(dir.path()).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::NewerSchema {
                    found: 2,
                    known: 1,
                    ..
                }
            ),
            "{error}"
        );
    }
}
