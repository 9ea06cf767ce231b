//! Damage of every kind to a checkpoint file.

use std::fs;

use super::*;
use crate::store::suite::{OnSled, Place, checkpoint, put};
use crate::store::testing::lease;
use crate::store::{CheckpointLease, LogStore};
use crate::types::{AppName, InstanceId};

/// A directory with a checkpoint of `leases` leases at LSN 9, and the file's content.
fn written(leases: u64) -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let mut leases = (1..=leases).map(|number| CheckpointLease {
        app: AppName::new("SHOP"),
        id: InstanceId::new(&format!("host-{number}")),
        lsn: Lsn(number),
        image: lease("SHOP", &format!("host-{number}")),
    });
    write(
        dir.path(),
        CheckpointSource {
            lsn: Lsn(9),
            at: Millis(1),
            expected_clients: 2,
            leases: &mut leases,
            overrides: &mut std::iter::empty(),
            holds: &mut std::iter::empty(),
        },
    )
    .unwrap();
    let bytes = fs::read(path(dir.path(), Lsn(9))).unwrap();
    (dir, bytes)
}

#[test]
fn a_checkpoint_of_several_blocks_comes_back_whole_and_shares_its_strings() {
    let (dir, bytes) = written(3_000);
    assert!(bytes.len() > 3 * BLOCK_BYTES, "{} bytes", bytes.len());
    let loaded = load(dir.path(), Lsn(9)).unwrap();
    assert_eq!(loaded.leases.len(), 3_000);
    let (a, b) = (&loaded.leases[0], &loaded.leases[2_999]);
    assert_eq!(b.image, lease("SHOP", "host-3000"));
    assert!(std::sync::Arc::ptr_eq(a.app.shared(), b.app.shared()));
    let host = |lease: &CheckpointLease| lease.image.instance.host_name.clone();
    assert!(std::sync::Arc::ptr_eq(&host(a), &host(b)));
}

#[test]
fn a_checkpoint_that_lacks_any_part_is_damaged() {
    let (dir, good) = written(3);
    for len in 0..good.len() {
        fs::write(path(dir.path(), Lsn(9)), &good[..len]).unwrap();
        let error = load(dir.path(), Lsn(9)).unwrap_err();
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "cut at {len}: {error}"
        );
    }
    fs::write(path(dir.path(), Lsn(9)), [&good[..], b"x"].concat()).unwrap();
    assert!(matches!(
        load(dir.path(), Lsn(9)),
        Err(StoreError::Damaged { .. })
    ));
}

#[test]
fn a_checkpoint_with_any_flipped_bit_is_damaged() {
    let (dir, good) = written(3);
    for at in 0..good.len() {
        for bit in [0, 3, 7] {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            fs::write(path(dir.path(), Lsn(9)), &bad).unwrap();
            let error = load(dir.path(), Lsn(9)).unwrap_err();
            assert!(
                matches!(error, StoreError::Damaged { .. }),
                "bit {bit} of {at}: {error}"
            );
        }
    }
}

#[test]
fn a_checkpoint_under_the_wrong_name_or_of_a_newer_version_is_not_taken() {
    let (dir, mut bytes) = written(3);
    fs::write(path(dir.path(), Lsn(10)), &bytes).unwrap();
    let error = load(dir.path(), Lsn(10)).unwrap_err();
    assert!(
        error.to_string().contains("it holds lsn 9 under this name"),
        "{error}"
    );
    bytes[8] = 3;
    let sum = crc32fast::hash(&bytes[..HEADER_LEN - 4]).to_le_bytes();
    bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&sum);
    fs::write(path(dir.path(), Lsn(9)), &bytes).unwrap();
    let error = load(dir.path(), Lsn(9)).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerSchema {
                found: 3,
                known: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn only_the_two_newest_checkpoints_are_kept_and_leftovers_go() {
    let place = OnSled::new(|_| {});
    let dir = place.options.dir.clone();
    let mut opened = place.open();
    put(&mut *opened.store, 1..=30);
    for lsn in [5, 10, 20, 30] {
        checkpoint(&*opened.reader, lsn, 1).unwrap();
    }
    assert_eq!(list(&dir).unwrap(), [Lsn(20), Lsn(30)]);
    opened.store.close(Millis(1)).unwrap();
    let partial = dir.join("checkpoint-00000000000000000040.tmp");
    fs::write(&partial, b"half").unwrap();
    place.open();
    assert!(!partial.exists());
}

#[test]
fn a_failed_write_leaves_the_checkpoints_that_were_there() {
    let place = OnSled::new(|_| {});
    let dir = place.options.dir.clone();
    let mut opened = place.open();
    put(&mut *opened.store, 1..=30);
    checkpoint(&*opened.reader, 10, 1).unwrap();
    // The next one cannot be renamed into place.
    fs::create_dir(path(&dir, Lsn(20))).unwrap();
    checkpoint(&*opened.reader, 20, 1).unwrap_err();
    assert!(!dir.join("checkpoint-00000000000000000020.tmp").exists());
    assert_eq!(load(&dir, Lsn(10)).unwrap().leases.len(), 1);
    let store: &dyn LogStore = &*opened.store;
    assert_eq!(store.stats().checkpoint_lsn, Lsn(10));
}

#[test]
fn a_newest_checkpoint_that_was_damaged_falls_back_to_the_one_before() {
    let place = OnSled::new(|_| {});
    let dir = place.options.dir.clone();
    let mut opened = place.open();
    put(&mut *opened.store, 1..=30);
    checkpoint(&*opened.reader, 10, 1).unwrap();
    checkpoint(&*opened.reader, 20, 2).unwrap();
    opened.store.close(Millis(1)).unwrap();
    let newest = path(&dir, Lsn(20));
    let mut bytes = fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&newest, bytes).unwrap();

    let opened = place.open();
    let found = opened.checkpoint.unwrap();
    assert_eq!((found.lsn, found.leases.len()), (Lsn(10), 1));
    assert!(
        opened.notes[0].starts_with("set aside a damaged checkpoint"),
        "{:?}",
        opened.notes
    );
    assert_eq!(
        opened.reader.read(Lsn(11), 99, 1 << 20).unwrap().len(),
        20,
        "replayed from there"
    );
    checkpoint(&*opened.reader, 30, 1).unwrap();
    assert_eq!(list(&dir).unwrap(), [Lsn(10), Lsn(30)]);
    assert!(
        !newest.with_extension("damaged").exists(),
        "the evidence goes with the next one"
    );
}
