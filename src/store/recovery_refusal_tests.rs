//! Starts that are refused, checkpoints that are set aside, stores that stop, space that is used again,
//! stores of older formats.

use super::*;

#[test]
fn a_record_that_does_not_decode_is_damage_and_a_newer_one_is_refused() {
    for (byte, value) in [(0, 9), (2, 9), (1, 9), (10, 0xff)] {
        let place = filled(10);
        behind_its_back(&place, |database| {
            let tree = database.db.open_tree(tree_name(Lsn(1))).unwrap();
            let mut bytes = tree.get(key(Lsn(5), 0)).unwrap().unwrap().to_vec();
            bytes[byte] = value;
            tree.insert(key(Lsn(5), 0), bytes).unwrap();
        });
        let error = try_open(&place, OnDamage::MoveAside);
        if value == 9 && byte != 1 {
            let error = error.unwrap_err();
            assert!(
                matches!(error, StoreError::NewerSchema { found: 9, .. }),
                "{error}"
            );
        } else {
            assert!(matches!(
                error.unwrap().lost.unwrap().cause,
                LossCause::MovedAside(_)
            ));
        }
    }
}

/// A place with two checkpoints, the newer one damaged, and no snapshot of the database that could be read.
fn with_a_damaged_checkpoint() -> OnSled {
    let place = filled(100);
    let opened = place.open();
    checkpoint(&*opened.reader, 80, 8).unwrap();
    checkpoint(&*opened.reader, 100, 10).unwrap();
    opened.store.close(Millis(1)).unwrap();
    fs::write(checkpoint::path(&place.options.dir, Lsn(100)), b"damaged").unwrap();
    place
}

#[test]
fn a_checkpoint_that_is_set_aside_is_told_even_if_the_log_is_mended_too() {
    let place = with_a_damaged_checkpoint();
    let snapshots = files::list(&place.options.dir.join("log"), |n| n.starts_with("snap."));
    for snapshot in snapshots.unwrap() {
        let mut bytes = fs::read(&snapshot).unwrap();
        bytes[0] ^= 0x21;
        fs::write(&snapshot, bytes).unwrap();
    }
    let opened = try_open(&place, OnDamage::Refuse).unwrap();
    assert_eq!(all(&*opened.reader), batch(1..=100));
    let told = |start: &str| opened.notes.iter().filter(|n| n.starts_with(start)).count();
    assert_eq!(
        (
            told("mended the database by"),
            told("set aside a damaged checkpoint")
        ),
        (1, 1),
        "{:?}",
        opened.notes
    );
}

#[test]
fn a_checkpoint_is_set_aside_and_told_by_the_start_that_goes_on_and_by_no_other() {
    let place = with_a_damaged_checkpoint();
    // What the start wants behind the older checkpoint is not there.
    behind_its_back(&place, |database| {
        let tree = database.db.open_tree(tree_name(Lsn(1))).unwrap();
        assert!(tree.remove(key(Lsn(90), 0)).unwrap().is_some());
    });
    let damaged = checkpoint::path(&place.options.dir, Lsn(100));
    let aside = damaged.with_extension("damaged");
    for _ in 0..2 {
        try_open(&place, OnDamage::Refuse).unwrap_err();
        assert!(
            damaged.exists() && !aside.exists(),
            "refused, and changed nothing"
        );
    }
    let opened = try_open(&place, OnDamage::KeepRest).unwrap();
    let told = |note: &&String| note.starts_with("set aside a damaged checkpoint");
    assert_eq!(
        opened.notes.iter().filter(told).count(),
        1,
        "{:?}",
        opened.notes
    );
    assert!(!damaged.exists() && aside.exists());
    opened.store.close(Millis(1)).unwrap();
    let again = place.open();
    assert_eq!(again.notes, [""; 0]);
}

#[test]
fn a_store_of_a_newer_schema_is_refused_and_never_moved() {
    let place = filled(10);
    behind_its_back(&place, |database| {
        database
            .meta
            .insert(keys::SCHEMA, &2u32.to_le_bytes())
            .unwrap();
    });
    let error = try_open(&place, OnDamage::MoveAside).unwrap_err();
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
    behind_its_back(&place, |database| {
        database
            .meta
            .insert(keys::SCHEMA, &1u32.to_le_bytes())
            .unwrap();
    });
    assert_eq!(all(&*place.open().reader), batch(1..=10));
}

#[test]
fn two_stores_on_one_directory_are_refused_with_the_pid_of_the_first() {
    let place = OnSled::new(|options| options.lock_wait_ms = 150);
    let first = place.open();
    let mut waits = Vec::new();
    let second = super::super::open(&place.options, Millis(1), &mut |step| waits.push(step));
    let (pid, dir) = (std::process::id(), place.options.dir.display().to_string());
    assert_eq!(
        second.unwrap_err().to_string(),
        format!(
            "another eurekad (pid {pid}) uses {dir}: stop it, or give this node a data directory \
             of its own"
        )
    );
    assert_eq!(waits, [Progress::WaitingForLock { pid: Some(pid) }]);
    let reader = first.reader.clone();
    first.store.close(Millis(1)).unwrap();
    place.open();
    assert!(
        matches!(reader.meta_get("x"), Err(StoreError::Closed)),
        "readers do not keep it"
    );
}

#[test]
fn paths_that_cannot_hold_a_store_are_refused_with_path_and_cause() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    let mut bad = vec![file.clone(), file.join("below")];
    if cfg!(target_os = "linux") {
        bad.push("/proc/eurekad-test".into());
    }
    for path in bad {
        let error = super::super::open(&options(&path), Millis(1), &mut |_| {}).unwrap_err();
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
        assert!(
            matches!(error, StoreError::Unusable { .. } | StoreError::Io { .. }),
            "{error:?}"
        );
    }
    // The database's own place is taken by a file.
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("log"), b"x").unwrap();
    let error = super::super::open(&options(&data), Millis(1), &mut |_| {}).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
}

#[test]
fn a_disk_that_is_almost_full_is_not_written_to() {
    let place = OnSled::new(|options| options.min_free_bytes = Some(u64::MAX));
    let error = try_open(&place, OnDamage::MoveAside).unwrap_err();
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("MiB are to be left (eurekad.store-min-free)"),
        "{error}"
    );
    assert!(!place.options.dir.join("log").exists());
}

#[test]
fn a_handle_that_failed_once_stays_failed_until_it_is_opened_again() {
    let place = filled(10);
    let dir = &place.options.dir;
    let lock = DirLock::take(dir, 0, &mut |_| {}).unwrap();
    let database = Database::open(&dir.join("log"), 1 << 20).unwrap();
    let inspected = inspect(&database, dir, &mut Vec::new(), &mut |_| {}).unwrap();
    let ends = (Lsn(10), Lsn(11));
    let shared = Arc::new(Shared::new(
        dir.clone(),
        database,
        inspected.segments,
        ends,
        Vec::new(),
        Vec::new(),
        Bounds::of(&place.options),
        lock,
    ));
    let mark = WatermarkFile::open(dir, Watermark::default()).unwrap();
    let mut store = SledStore::new(shared.clone(), mark, &place.options, ends, Lsn::ZERO);
    // The database goes away under the handle.
    shared.close().unwrap();
    assert!(matches!(
        store.append(&batch(11..=11)),
        Err(StoreError::Closed)
    ));
    assert!(matches!(
        store.append(&batch(11..=11)),
        Err(StoreError::Poisoned(_))
    ));
    assert!(matches!(
        store.commit(Durability::Disk),
        Err(StoreError::Poisoned(_))
    ));
    assert!(matches!(
        store.trim(Lsn(1), Millis(1)),
        Err(StoreError::Poisoned(_))
    ));
    assert!(matches!(
        store.touch_watermark(Lsn(10), Millis(1)),
        Err(StoreError::Poisoned(_))
    ));
    Box::new(store).close(Millis(1)).unwrap();
    let again = place.open();
    assert_eq!(all(&*again.reader), batch(1..=10));
}

#[test]
fn space_of_trimmed_segments_is_used_again() {
    let place = OnSled::new(|options| {
        options.segment_bytes = 256 << 10;
        options.history_max_bytes = 1 << 20;
    });
    let mut opened = place.open();
    let mut record = registered(0, 0);
    record.actor.reason = Some("r".repeat(1_500).into());
    let mut next = 1;
    let mut sizes: Vec<StoreStats> = Vec::new();
    for round in 0..30 {
        for _ in 0..4 {
            let records: Vec<_> = (next..next + 128)
                .map(|lsn| {
                    record.lsn = Lsn(lsn);
                    Arc::new(record.clone())
                })
                .collect();
            next += 128;
            opened.store.append(&records).unwrap();
            opened.store.commit(Durability::Flush).unwrap();
        }
        checkpoint(&*opened.reader, next - 2, 1).unwrap();
        checkpoint(&*opened.reader, next - 1, 1).unwrap();
        while opened
            .store
            .trim(Lsn(next), Millis(round))
            .unwrap()
            .segments
            > 0
        {}
        sizes.push(opened.store.stats());
    }
    let (middle, end) = (&sizes[9], &sizes[29]);
    let written = (next - 1) * 1_800;
    assert!(end.log_bytes <= (1 << 20) + (512 << 10), "{end:?}");
    assert!(
        end.file_bytes < written / 2,
        "{written} bytes were written: {end:?}"
    );
    assert!(
        end.file_bytes <= middle.file_bytes * 2,
        "{middle:?} {end:?}"
    );
    assert_eq!(end.blob_files, 0);
}

#[test]
fn a_store_that_format_one_wrote_still_opens() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store/v1/data");
    let place = OnSled::new(|_| {});
    copy_dir(&fixture, &place.options.dir);
    let opened = try_open(&place, OnDamage::Refuse).unwrap();
    assert_eq!(
        (opened.lost.clone(), opened.notes.len()),
        (None, 0),
        "{:?}",
        opened.notes
    );
    assert!(all(&*opened.reader) == batch(1..=40));
    let checkpoint = opened.checkpoint.unwrap();
    assert_eq!((checkpoint.lsn, checkpoint.leases.len()), (Lsn(30), 5));
    assert_eq!(checkpoint.overrides.len(), 2);
    assert_eq!(
        opened.reader.meta_get("cursor/peer").unwrap().as_deref(),
        Some(&b"17"[..])
    );
    assert_eq!(
        opened.last_alive,
        Millis(5_000),
        "the newest checkpoint is younger than the mark"
    );
    assert_eq!(opened.node_id.len(), 36);
}
