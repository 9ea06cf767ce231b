//! One suite for every store: what [`LogStore`] and [`LogReader`](super::LogReader) promise.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::registry::change::Record;
use crate::registry::hold::{Hold, HoldKind};
use crate::registry::status::Status;
use crate::store::testing::{lease, options, registered};
use crate::store::{
    CheckpointHold, CheckpointLease, CheckpointOverride, CheckpointSource, Durability, LogReader,
    LogStore, MemDisk, Opened, StoreError, StoreOptions,
};
use crate::types::{AppName, InstanceId, Lsn, Millis};

/// A place where stores can be opened again and again.
pub(super) trait Place {
    fn new(change: impl FnOnce(&mut StoreOptions)) -> Self;
    fn open(&self) -> Opened;
}

#[derive(Debug)]
pub(super) struct OnSled {
    _dir: tempfile::TempDir,
    pub(super) options: StoreOptions,
}

/// Copies a directory with everything in it.
pub(super) fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl OnSled {
    /// Another place with the same files: what a process leaves that is killed now.
    pub(super) fn copied(&self) -> Self {
        let copy = Self::new(|options| {
            *options = StoreOptions {
                dir: std::mem::take(&mut options.dir),
                ..self.options.clone()
            }
        });
        copy_dir(&self.options.dir, &copy.options.dir);
        copy
    }
}

impl Place for OnSled {
    fn new(change: impl FnOnce(&mut StoreOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path().join("data"));
        change(&mut options);
        Self { _dir: dir, options }
    }

    fn open(&self) -> Opened {
        super::open(&self.options, Millis(1_000), &mut |_| {}).unwrap()
    }
}

impl Place for MemDisk {
    fn new(change: impl FnOnce(&mut StoreOptions)) -> Self {
        let mut options = options("mem");
        change(&mut options);
        Self::new(options)
    }

    fn open(&self) -> Opened {
        self.open(Millis(1_000))
    }
}

pub(super) fn batch(lsns: std::ops::RangeInclusive<u64>) -> Vec<Arc<Record>> {
    lsns.map(|lsn| Arc::new(registered(lsn, 1_000 + lsn)))
        .collect()
}

pub(super) fn put(store: &mut dyn LogStore, lsns: std::ops::RangeInclusive<u64>) {
    let end = Lsn(*lsns.end());
    store.append(&batch(lsns)).unwrap();
    store.commit(Durability::Disk).unwrap();
    store.touch_watermark(end, Millis(2_000)).unwrap();
}

pub(super) fn lsns(records: &[Arc<Record>]) -> Vec<u64> {
    records.iter().map(|record| record.lsn.0).collect()
}

/// Everything that a reader finds, read in small bites.
pub(super) fn all(reader: &dyn LogReader) -> Vec<Arc<Record>> {
    let mut found: Vec<Arc<Record>> = Vec::new();
    let mut from = reader.first_lsn();
    loop {
        let bite = reader.read(from, 7, 1 << 20).unwrap();
        let Some(last) = bite.last() else {
            return found;
        };
        from = last.lsn.next();
        found.extend(bite);
    }
}

fn hold() -> CheckpointHold {
    CheckpointHold {
        app: AppName::new("SHOP"),
        id: InstanceId::new("host-1"),
        hold: Hold {
            kind: HoldKind::Quarantine,
            until: Millis(9_000),
            at: Millis(5_000),
            is_released: false,
        },
    }
}

pub(super) fn checkpoint(reader: &dyn LogReader, lsn: u64, leases: u64) -> Result<(), StoreError> {
    let mut leases = (1..=leases).map(|number| CheckpointLease {
        app: AppName::new("SHOP"),
        id: InstanceId::new(&format!("host-{number}")),
        lsn: Lsn(number),
        image: lease("SHOP", &format!("host-{number}")),
    });
    let mut overrides =
        [Some(AppName::new("SHOP")), None]
            .into_iter()
            .map(|app| CheckpointOverride {
                app,
                id: InstanceId::new("host-1"),
                status: Status::OutOfService,
            });
    reader.write_checkpoint(CheckpointSource {
        lsn: Lsn(lsn),
        at: Millis(5_000),
        expected_clients: 42,
        leases: &mut leases,
        overrides: &mut overrides,
        holds: &mut std::iter::once(hold()),
    })
}

pub(super) fn an_empty_store_begins_with_lsn_one<P: Place>() {
    let place = P::new(|_| {});
    let opened = place.open();
    assert_eq!((opened.last_lsn, opened.next_lsn), (Lsn(0), Lsn(1)));
    assert_eq!(
        (opened.reader.first_lsn(), opened.reader.last_lsn()),
        (Lsn(1), Lsn(0))
    );
    assert_eq!(opened.last_alive, Millis(0));
    assert!(opened.checkpoint.is_none() && opened.lost.is_none() && opened.notes.is_empty());
    assert_eq!(opened.reader.read(Lsn(1), 10, 10).unwrap(), []);
    assert_eq!(opened.reader.read_back(Lsn(u64::MAX), 10, 10).unwrap(), []);
    assert_eq!(opened.reader.segments(), []);
}

pub(super) fn what_was_committed_is_read_back_as_it_was<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    put(&mut *opened.store, 1..=100);
    put(&mut *opened.store, 101..=300);
    assert_eq!(all(&*opened.reader), batch(1..=300));
    assert_eq!(opened.reader.last_lsn(), Lsn(300));
    assert!(
        opened.reader.segments().len() > 1,
        "the log is cut into segments"
    );
}

pub(super) fn readers_see_nothing_before_the_commit<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    put(&mut *opened.store, 1..=3);
    opened.store.append(&batch(4..=6)).unwrap();
    assert_eq!(lsns(&all(&*opened.reader)), [1, 2, 3]);
    assert_eq!(
        lsns(&opened.reader.read_back(Lsn(6), 9, 1 << 20).unwrap()),
        [3, 2, 1]
    );
    assert_eq!(opened.reader.last_lsn(), Lsn(3));
    opened.store.commit(Durability::Flush).unwrap();
    assert_eq!(lsns(&all(&*opened.reader)), [1, 2, 3, 4, 5, 6]);
}

pub(super) fn lsns_have_to_be_the_next_ones<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    for wrong in [2..=3, 0..=1] {
        let error = opened.store.append(&batch(wrong)).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::OutOfOrder {
                    expected: Lsn(1),
                    ..
                }
            ),
            "{error}"
        );
    }
    let mut gap = batch(1..=2);
    gap.push(Arc::new(registered(4, 4)));
    assert!(matches!(
        opened.store.append(&gap),
        Err(StoreError::OutOfOrder {
            expected: Lsn(3),
            found: Lsn(4)
        })
    ));
    put(&mut *opened.store, 1..=2);
    assert_eq!(lsns(&all(&*opened.reader)), [1, 2]);
}

pub(super) fn reads_are_bounded_by_count_and_by_bytes_but_never_empty<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    put(&mut *opened.store, 1..=300);
    let reader = &*opened.reader;
    assert_eq!(
        lsns(&reader.read(Lsn(10), 3, 1 << 20).unwrap()),
        [10, 11, 12]
    );
    assert_eq!(lsns(&reader.read(Lsn(10), 100, 1).unwrap()), [10]);
    assert_eq!(
        lsns(&reader.read_back(Lsn(10), 3, 1 << 20).unwrap()),
        [10, 9, 8]
    );
    assert_eq!(lsns(&reader.read_back(Lsn(10), 100, 1).unwrap()), [10]);
    assert_eq!(reader.read(Lsn(10), 0, 100).unwrap(), []);
    assert_eq!(reader.read_back(Lsn(10), 0, 100).unwrap(), []);
    assert_eq!(reader.read(Lsn(301), 3, 100).unwrap(), []);
    let some = reader.read(Lsn(1), 1_000, 4_000).unwrap().len();
    assert!(
        (2..100).contains(&some),
        "{some} records within 4,000 bytes"
    );
    let backwards = reader.read_back(Lsn(u64::MAX), 1_000, 1 << 30).unwrap();
    let expected: Vec<u64> = (1..=300).rev().collect();
    assert_eq!(lsns(&backwards), expected, "over all segments");
}

pub(super) fn a_store_that_is_opened_again_goes_on<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    let (node, incarnation) = (opened.node_id.clone(), opened.incarnation.clone());
    put(&mut *opened.store, 1..=100);
    opened.store.close(Millis(3_000)).unwrap();
    assert!(matches!(
        opened.reader.read(Lsn(1), 1, 1),
        Err(StoreError::Closed)
    ));

    let mut opened = place.open();
    assert_eq!((opened.last_lsn, opened.next_lsn), (Lsn(100), Lsn(101)));
    assert_eq!((opened.node_id, opened.incarnation), (node, incarnation));
    assert_eq!(opened.last_alive, Millis(3_000));
    assert!(
        opened.lost.is_none() && opened.notes.is_empty(),
        "{:?}",
        opened.notes
    );
    put(&mut *opened.store, 101..=120);
    assert_eq!(all(&*opened.reader), batch(1..=120));
}

pub(super) fn a_record_of_a_megabyte_is_kept_and_three_are_refused<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    let big = |lsn, size: usize| {
        let mut record = registered(lsn, 7);
        record.actor.reason = Some("x".repeat(size).into());
        Arc::new(record)
    };
    let records: Vec<_> = (1..=5).map(|lsn| big(lsn, 1 << 20)).collect();
    opened.store.append(&records).unwrap();
    let error = opened.store.append(&[big(6, 3 << 20)]).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::TooLarge {
                limit: 2_097_152,
                ..
            }
        ),
        "{error}"
    );
    opened.store.append(&[big(6, 10)]).unwrap();
    opened.store.commit(Durability::Disk).unwrap();
    assert_eq!(opened.store.stats().blob_files, 0);
    opened.store.close(Millis(1)).unwrap();
    let opened = place.open();
    let found = opened.reader.read(Lsn(1), 10, 1 << 30).unwrap();
    assert_eq!(found[..5], records);
    assert_eq!(lsns(&found), [1, 2, 3, 4, 5, 6]);
    assert_eq!(
        lsns(&opened.reader.read_back(Lsn(9), 10, 1 << 30).unwrap()),
        [6, 5, 4, 3, 2, 1]
    );
}

pub(super) fn a_checkpoint_comes_back_with_everything<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    put(&mut *opened.store, 1..=30);
    checkpoint(&*opened.reader, 20, 1_000).unwrap();
    checkpoint(&*opened.reader, 30, 3).unwrap();
    assert_eq!(opened.store.stats().checkpoint_lsn, Lsn(30));
    opened.store.close(Millis(1)).unwrap();
    let found = place.open().checkpoint.unwrap();
    assert_eq!(
        (found.lsn, found.at, found.expected_clients),
        (Lsn(30), Millis(5_000), 42)
    );
    assert_eq!(found.leases.len(), 3);
    assert_eq!(found.leases[1].image, lease("SHOP", "host-2"));
    assert_eq!(found.leases[1].lsn, Lsn(2));
    let apps: Vec<_> = found
        .overrides
        .iter()
        .map(|entry| entry.app.clone())
        .collect();
    assert_eq!(apps, [Some(AppName::new("SHOP")), None]);
    assert_eq!(found.overrides[0].status, Status::OutOfService);
    assert_eq!(found.holds, [hold()]);
}

pub(super) fn a_checkpoint_is_neither_ahead_of_the_log_nor_behind_another<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    put(&mut *opened.store, 1..=30);
    opened.store.append(&batch(31..=40)).unwrap();
    assert!(matches!(
        checkpoint(&*opened.reader, 31, 1),
        Err(StoreError::OutOfOrder {
            expected: Lsn(30),
            found: Lsn(31)
        })
    ));
    checkpoint(&*opened.reader, 30, 1).unwrap();
    checkpoint(&*opened.reader, 30, 2).unwrap();
    assert!(matches!(
        checkpoint(&*opened.reader, 29, 1),
        Err(StoreError::OutOfOrder {
            expected: Lsn(30),
            found: Lsn(29)
        })
    ));
}

pub(super) fn trimming_drops_whole_old_segments_that_nobody_needs<P: Place>() {
    let place = P::new(|options| options.history_max_age_ms = 10_000);
    let mut opened = place.open();
    for start in (1..=2_000).step_by(100) {
        put(&mut *opened.store, start..=start + 99);
    }
    let late = Millis(1_000_000);
    let before = opened.reader.segments();
    assert!(before.len() >= 8, "{} segments", before.len());
    let trimmed = opened.store.trim(Lsn(2_001), late).unwrap();
    assert_eq!(
        trimmed.segments, 0,
        "without checkpoints a restart needs all of it"
    );
    checkpoint(&*opened.reader, 600, 1).unwrap();
    assert_eq!(opened.store.trim(Lsn(2_001), late).unwrap().segments, 0);
    checkpoint(&*opened.reader, 1_900, 1).unwrap();

    let trimmed = opened.store.trim(Lsn(2_001), Millis(11_150)).unwrap();
    assert_eq!(
        (trimmed.segments, trimmed.first_lsn),
        (0, Lsn(1)),
        "what is young is told from what is old, until a checkpoint takes over"
    );
    let trimmed = opened.store.trim(Lsn(201), Millis(21_150)).unwrap();
    assert_eq!(
        (trimmed.segments, trimmed.first_lsn),
        (2, Lsn(201)),
        "at most twice as long; then what is young has nothing to be told from"
    );
    while opened.store.trim(Lsn(300), late).unwrap().segments > 0 {}
    assert!(
        opened.reader.first_lsn() <= Lsn(300),
        "a reader needs it from 300 on"
    );
    while opened.store.trim(Lsn(2_001), late).unwrap().segments > 0 {}
    let first = opened.reader.first_lsn();
    assert!(
        first > Lsn(300) && first <= Lsn(601),
        "the older checkpoint needs 601, not {first}"
    );
    checkpoint(&*opened.reader, 2_000, 1).unwrap();
    checkpoint(&*opened.reader, 2_000, 1).unwrap();
    while opened.store.trim(Lsn(9_999), late).unwrap().segments > 0 {}
    let first = opened.reader.first_lsn();
    let kept: Vec<u64> = (first.0..=2_000).collect();
    assert_eq!(lsns(&all(&*opened.reader)), kept);
    assert!(matches!(
        opened.reader.read(Lsn(5), 1, 1),
        Err(StoreError::Trimmed { asked: Lsn(5), .. })
    ));
    assert_eq!(opened.store.stats().first_lsn, first);
}

fn bases_of(opened: &Opened) -> Vec<u64> {
    let bases = opened.reader.bases();
    bases.iter().map(|base| base.lsn.0).collect()
}

pub(super) fn older_checkpoints_are_kept_at_a_distance_and_survive_a_restart<P: Place>() {
    let place = P::new(|options| {
        options.base_records = 100;
        options.history_max_age_ms = 10_000;
    });
    let mut opened = place.open();
    for end in (50..=1_000).step_by(50) {
        put(&mut *opened.store, end - 49..=end);
        checkpoint(&*opened.reader, end, 3).unwrap();
    }
    let kept = [100, 200, 300, 400, 500, 600, 700, 800, 900, 950, 1_000];
    assert_eq!(bases_of(&opened), kept);
    assert_eq!(opened.store.stats().bases, 9);
    let base = opened.reader.load_base(Lsn(300)).unwrap();
    assert_eq!((base.lsn, base.leases.len()), (Lsn(300), 3));
    assert!(matches!(
        opened.reader.load_base(Lsn(350)),
        Err(StoreError::Trimmed {
            asked: Lsn(350),
            ..
        })
    ));
    opened.store.close(Millis(1)).unwrap();

    let mut opened = place.open();
    assert_eq!(bases_of(&opened), kept);
    assert_eq!(opened.checkpoint.as_ref().unwrap().lsn, Lsn(1_000));
    // What is older than the base at 300 is too old.
    while opened
        .store
        .trim(Lsn(1_001), Millis(11_360))
        .unwrap()
        .segments
        > 0
    {}
    let first = opened.reader.first_lsn();
    assert!(first > Lsn(200) && first <= Lsn(301), "{first}");
    assert_eq!(bases_of(&opened), kept[2..]);
    opened.store.close(Millis(1)).unwrap();
    assert_eq!(bases_of(&place.open()), kept[2..]);
}

pub(super) fn trimming_by_bytes_keeps_the_newest<P: Place>() {
    let place = P::new(|options| options.history_max_bytes = 300 << 10);
    let mut opened = place.open();
    for start in (1..=2_000).step_by(100) {
        put(&mut *opened.store, start..=start + 99);
    }
    checkpoint(&*opened.reader, 1_999, 1).unwrap();
    checkpoint(&*opened.reader, 2_000, 1).unwrap();
    assert!(opened.store.stats().log_bytes > 400 << 10);
    while opened
        .store
        .trim(Lsn(2_001), Millis(1_000))
        .unwrap()
        .segments
        > 0
    {}
    let stats = opened.store.stats();
    assert!(
        stats.log_bytes <= 300 << 10 && stats.log_bytes > 200 << 10,
        "{stats:?}"
    );
}

pub(super) fn a_trimmed_store_opens_and_never_gives_an_lsn_twice<P: Place>() {
    let place = P::new(|options| options.history_max_age_ms = 0);
    let mut opened = place.open();
    for start in (1..=1_000).step_by(100) {
        put(&mut *opened.store, start..=start + 99);
    }
    checkpoint(&*opened.reader, 999, 2).unwrap();
    checkpoint(&*opened.reader, 1_000, 2).unwrap();
    while opened
        .store
        .trim(Lsn(1_001), Millis(9_000_000))
        .unwrap()
        .segments
        > 0
    {}
    let first = opened.reader.first_lsn();
    assert!(first > Lsn(500));
    opened.store.close(Millis(1)).unwrap();
    let opened = place.open();
    assert_eq!((opened.last_lsn, opened.next_lsn), (Lsn(1_000), Lsn(1_001)));
    assert_eq!(opened.reader.first_lsn(), first);
    assert!(
        opened.lost.is_none() && opened.notes.is_empty(),
        "{:?}",
        opened.notes
    );
}

pub(super) fn a_segment_is_closed_by_age_too<P: Place>() {
    let place = P::new(|options| options.segment_age_ms = 1_000);
    let mut opened = place.open();
    for lsn in 1..=6 {
        opened
            .store
            .append(&[Arc::new(registered(lsn, lsn * 400))])
            .unwrap();
    }
    opened.store.commit(Durability::Disk).unwrap();
    let segments = opened.reader.segments();
    let ranges: Vec<_> = segments.iter().map(|s| (s.first.0, s.last.0)).collect();
    assert_eq!(ranges, [(1, 3), (4, 6)]);
    assert_eq!(
        (segments[1].earliest, segments[1].latest),
        (Millis(1_600), Millis(2_400))
    );
}

pub(super) fn small_values_are_kept_by_name<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    let reader = opened.reader.clone();
    reader.meta_put("cursor/a", b"1").unwrap();
    reader.meta_put("cursor/b", b"2").unwrap();
    reader.meta_put("cursor/b", b"3").unwrap();
    reader.meta_put("other", b"4").unwrap();
    reader.meta_put("gone", b"5").unwrap();
    reader.meta_remove("gone").unwrap();
    assert!(matches!(
        reader.meta_put("x", &[0; 4_097]),
        Err(StoreError::TooLarge { .. })
    ));
    opened.store.commit(Durability::Disk).unwrap();
    opened.store.close(Millis(1)).unwrap();
    let reader = place.open().reader;
    assert_eq!(
        reader.meta_get("cursor/b").unwrap().as_deref(),
        Some(&b"3"[..])
    );
    assert_eq!(reader.meta_get("gone").unwrap(), None);
    assert_eq!(
        reader.meta_list("cursor/").unwrap(),
        [
            ("cursor/a".to_owned(), b"1".to_vec()),
            ("cursor/b".to_owned(), b"3".to_vec())
        ]
    );
}

pub(super) fn figures_count_what_happened<P: Place>() {
    let place = P::new(|_| {});
    let mut opened = place.open();
    opened.store.append(&batch(1..=9)).unwrap();
    opened.store.commit(Durability::Flush).unwrap();
    let before = opened.store.stats();
    opened.store.append(&batch(10..=10)).unwrap();
    opened.store.commit(Durability::Disk).unwrap();
    let after = opened.store.stats();
    assert_eq!(
        after.syncs - before.syncs,
        1,
        "one sync for one durable commit"
    );
    assert_eq!(after.flushes - before.flushes, 1);
    assert_eq!((after.first_lsn, after.last_lsn), (Lsn(1), Lsn(10)));
    let records: u64 = opened
        .reader
        .segments()
        .iter()
        .map(|segment| segment.bytes)
        .sum();
    assert_eq!(after.log_bytes, records);
    assert!(after.log_bytes > before.log_bytes);
}

/// Runs every promise for a kind of store.
macro_rules! store_suite {
    ($name:ident, $place:ty, [$($promise:ident),+ $(,)?]) => {
        mod $name {
            $(
                #[test]
                fn $promise() {
                    crate::store::suite::$promise::<$place>();
                }
            )+
        }
    };
    ($name:ident, $place:ty) => {
        store_suite!($name, $place, [
            an_empty_store_begins_with_lsn_one,
            what_was_committed_is_read_back_as_it_was,
            readers_see_nothing_before_the_commit,
            lsns_have_to_be_the_next_ones,
            reads_are_bounded_by_count_and_by_bytes_but_never_empty,
            a_store_that_is_opened_again_goes_on,
            a_record_of_a_megabyte_is_kept_and_three_are_refused,
            a_checkpoint_comes_back_with_everything,
            a_checkpoint_is_neither_ahead_of_the_log_nor_behind_another,
            trimming_drops_whole_old_segments_that_nobody_needs,
            older_checkpoints_are_kept_at_a_distance_and_survive_a_restart,
            trimming_by_bytes_keeps_the_newest,
            a_trimmed_store_opens_and_never_gives_an_lsn_twice,
            a_segment_is_closed_by_age_too,
            small_values_are_kept_by_name,
            figures_count_what_happened,
        ]);
    };
}

store_suite!(on_sled, crate::store::suite::OnSled);
store_suite!(in_memory, crate::store::MemDisk);
