//! What is saved of a database that was damaged on purpose, and what is said of the rest.

use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;

use super::*;
use crate::store::shared::keys;
use crate::store::suite::{OnSled, Place, all, checkpoint, lsns, put};
use crate::store::testing::registered;
use crate::store::{OnDamage, StoreOptions, migrate};

/// A segment of a damaged log.
#[derive(Clone, Debug)]
struct Piece {
    /// LSNs that were left out on purpose in front of it.
    skipped: u64,
    /// The checkpoint that led over those, seen from the record before them; `None`: none was needed.
    base: Option<u64>,
    /// Whether each of its records can be read.
    readable: Vec<bool>,
    /// Whether its facts can be read.
    has_facts: bool,
}

/// A piece as it was laid out.
#[derive(Debug)]
struct Laid {
    after: u64,
    first: u64,
    base: u64,
    last: u64,
    piece: Piece,
}

fn lay_out(begin: u64, pieces: &[Piece]) -> Vec<Laid> {
    let mut last = begin;
    let lay = |piece: &Piece| {
        let after = last;
        let first = after + piece.skipped + 1;
        last = first + piece.readable.len() as u64 - 1;
        let led_over = piece.base.filter(|_| piece.skipped > 0);
        Laid {
            after,
            first,
            base: led_over.map_or(0, |base| after + base.min(piece.skipped)),
            last,
            piece: piece.clone(),
        }
    };
    pieces.iter().map(lay).collect()
}

fn empty() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path(), 1 << 20).unwrap();
    migrate::run(&database, &mut |_| {}).unwrap();
    (dir, database)
}

fn write(laid: &[Laid], to: &Database) {
    for one in laid {
        let tree = to.db.open_tree(tree_name(Lsn(one.first))).unwrap();
        for (lsn, is_readable) in (one.first..).zip(&one.piece.readable) {
            let mut bytes = record::encode(&registered(lsn, 1_000 + lsn)).unwrap();
            if !is_readable {
                bytes.truncate(bytes.len() / 2);
            }
            let mut batch = sled::Batch::default();
            segment::insert(&mut batch, Lsn(lsn), &bytes);
            tree.apply_batch(batch).unwrap();
        }
        let facts = SegmentV1 {
            first: one.first,
            after: one.after,
            base: one.base,
            last: one.last,
            bytes: 0,
            earliest: 0,
            latest: 0,
        };
        let mut facts = record::encode_segment(&facts).unwrap();
        if !one.piece.has_facts {
            facts.truncate(5);
        }
        to.meta.insert(segment_key(Lsn(one.first)), facts).unwrap();
    }
}

/// What a salvage came to: what it says, what is in the new log, and the facts of its segments.
fn saved(laid: &[Laid], covered: u64) -> (Salvaged, Vec<u64>, Vec<SegmentV1>) {
    let ((_from_dir, from), (_to_dir, to)) = (empty(), empty());
    write(laid, &from);
    let salvaged = salvage(&from, &to, Lsn(covered), 1 << 20, &mut |_| {}).unwrap();
    let (mut copied, mut facts) = (Vec::new(), Vec::new());
    for entry in to.meta.scan_prefix(keys::SEGMENT) {
        let one = record::decode_segment(&entry.unwrap().1).unwrap();
        let tree = to.db.open_tree(tree_name(Lsn(one.first))).unwrap();
        let all = (Lsn::ZERO, Lsn(u64::MAX));
        let _ = segment::walk(&tree, all, Direction::Up, &mut |lsn, _| {
            copied.push(lsn.0);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        facts.push(one);
    }
    (salvaged, copied, facts)
}

fn sound(skipped: u64, base: Option<u64>, records: usize) -> Piece {
    Piece {
        skipped,
        base,
        readable: vec![true; records],
        has_facts: true,
    }
}

#[test]
fn a_hole_in_front_of_lsns_that_were_left_out_ends_where_those_begin() {
    let mut before = sound(0, None, 10);
    before.readable[7..].fill(false);
    let laid = lay_out(0, &[before, sound(20_000, Some(4), 5)]);
    // The checkpoint that led over what was lost then leads over what cannot be read now.
    let (salvaged, copied, facts) = saved(&laid, 14);
    assert_eq!(salvaged.holes, [(Lsn(8), Lsn(10))]);
    assert_eq!(salvaged.cut_at, None);
    assert_eq!(copied, (1..=7).chain(20_011..=20_015).collect::<Vec<_>>());
    assert_eq!((facts[1].after, facts[1].base), (7, 14));
    // An older one does not.
    let (salvaged, copied, _) = saved(&laid, 13);
    assert_eq!(salvaged.holes, []);
    assert_eq!(salvaged.cut_at, Some(Lsn(20_011)));
    assert_eq!(copied, (1..=7).collect::<Vec<_>>());
}

#[test]
fn a_log_whose_first_facts_cannot_be_read_has_no_hole_in_front() {
    let mut front = sound(0, None, 10);
    front.has_facts = false;
    let laid = lay_out(0, &[front, sound(0, None, 10)]);
    let (salvaged, copied, facts) = saved(&laid, 0);
    assert_eq!((salvaged.holes.len(), salvaged.cut_at), (0, None));
    assert_eq!(copied, (1..=20).collect::<Vec<_>>());
    assert_eq!((facts[0].after, facts[0].base), (0, 0));
}

/// A name that others put, of which there are enough for many pages.
fn cursor(number: u64) -> String {
    format!("cursor/{number:05}")
}

fn told_by(number: u64) -> Vec<u8> {
    format!("where peer {number:05} is{}", " and more".repeat(20)).into_bytes()
}

/// A store whose `meta` tree takes many pages, both for the facts of segments and for what others put.
fn with_much_meta() -> OnSled {
    let place = OnSled::new(|options| options.segment_bytes = 1);
    let mut opened = place.open();
    for lsn in 1..=300 {
        put(&mut *opened.store, lsn..=lsn);
    }
    for number in 0..1_000 {
        opened
            .reader
            .meta_put(&cursor(number), &told_by(number))
            .unwrap();
    }
    checkpoint(&*opened.reader, 299, 0).unwrap();
    checkpoint(&*opened.reader, 300, 0).unwrap();
    opened.store.close(Millis(2_000)).unwrap();
    // What is read of the log at the next start begins behind all this.
    place.open().store.close(Millis(2_000)).unwrap();
    place
}

/// The facts of a segment, as they are stored.
fn stored_facts(place: &OnSled, first: u64) -> Vec<u8> {
    let database = Database::open(&place.options.dir.join("log"), 1 << 20).unwrap();
    let stored = database.meta.get(segment_key(Lsn(first))).unwrap().unwrap();
    database.let_go(Vec::new()).unwrap();
    stored.to_vec()
}

/// Changes a byte of these bytes wherever the database has them.
fn damage(place: &OnSled, needles: &[Vec<u8>]) {
    let path = place.options.dir.join("log").join("db");
    let mut bytes = fs::read(&path).unwrap();
    for needle in needles {
        let found: Vec<usize> = bytes
            .windows(needle.len())
            .enumerate()
            .filter(|(_, window)| window == needle)
            .map(|(at, _)| at)
            .collect();
        assert!(!found.is_empty());
        for at in found {
            bytes[at] ^= 0x20;
        }
    }
    fs::write(&path, bytes).unwrap();
}

/// Segments whose trees sled finds in a copy of the database.
fn trees_that_sled_finds(place: &OnSled) -> usize {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(place.options.dir.join("log")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let Ok(database) = Database::open(copy.path(), 1 << 20) else {
        return 0;
    };
    let names = database.db.tree_names();
    let segments = names
        .iter()
        .filter_map(|name| segment::parse_tree_name(name));
    let count = segments.count();
    database.let_go(Vec::new()).unwrap();
    count
}

/// A store in which the facts of a segment and what was put of a peer are damaged, but nothing that sled
/// reads when it opens: it drops all from there on, and what that is depends on when its own threads wrote.
fn with_damaged_meta() -> OnSled {
    for _ in 0..50 {
        let place = with_much_meta();
        let facts = stored_facts(&place, 150);
        damage(&place, &[facts, told_by(500)]);
        if trees_that_sled_finds(&place) >= 300 {
            return place;
        }
    }
    panic!("sled reads all of it whenever it opens");
}

#[test]
fn what_is_kept_by_name_is_saved_around_the_pages_that_cannot_be_read() {
    let place = with_damaged_meta();
    let options = StoreOptions {
        on_damage: OnDamage::Refuse,
        ..place.options.clone()
    };
    let opened = crate::store::open(&options, Millis(9_000), &mut |_| {}).unwrap();
    // The trees of the segments are there, whatever became of their facts.
    assert_eq!(lsns(&all(&*opened.reader)), (1..=300).collect::<Vec<_>>());
    let kept: BTreeSet<String> = opened
        .reader
        .meta_list("cursor/")
        .unwrap()
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    let missing: Vec<u64> = (0..1_000)
        .filter(|number| !kept.contains(&cursor(*number)))
        .collect();
    let (Some(first), Some(last)) = (missing.first(), missing.last()) else {
        panic!("nothing was damaged");
    };
    assert!(missing.contains(&500) && missing.len() < 50, "{missing:?}");
    assert_eq!(
        last - first + 1,
        missing.len() as u64,
        "one page: {missing:?}"
    );
    let gap = format!(
        "between user/{} and user/{}",
        cursor(first - 1),
        cursor(last + 1)
    );
    let told = opened.notes.iter().filter(|note| note.contains(&gap));
    assert_eq!(told.count(), 1, "{:?}", opened.notes);
    // What lies between the two pages is saved too.
    assert!(kept.contains(&cursor(0)));
    opened.store.close(Millis(9_000)).unwrap();
    let again = place.open();
    assert_eq!((again.lost, again.notes), (None, Vec::<String>::new()));
}

fn piece() -> impl Strategy<Value = Piece> {
    (
        prop_oneof![3 => Just(0_u64), 2 => 1_u64..9],
        prop::option::of(0_u64..9),
        prop::collection::vec(prop::bool::weighted(0.7), 1..6),
        prop::bool::weighted(0.8),
    )
        .prop_map(|(skipped, base, readable, has_facts)| Piece {
            skipped,
            base,
            readable,
            has_facts,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Everything that can be read is saved as far as a checkpoint leads over what cannot, and what is told
    /// to be missing is what is missing.
    #[test]
    fn holes_are_what_was_there_and_cannot_be_read(
        begin in prop_oneof![Just(0_u64), 1_u64..30],
        pieces in prop::collection::vec(piece(), 1..5),
        covered in 0_u64..70,
    ) {
        let laid = lay_out(begin, &pieces);
        // Nobody knows of LSNs that were left out if the facts are gone that say so.
        let mut lost: BTreeSet<u64> = BTreeSet::new();
        let mut readable: Vec<(u64, u64)> = Vec::new();
        let mut needed = 0;
        for (place, one) in laid.iter().enumerate() {
            if one.piece.has_facts {
                needed = needed.max(one.base);
            } else if place > 0 {
                lost.extend(one.after + 1..one.first);
            }
            for (lsn, is_readable) in (one.first..).zip(&one.piece.readable) {
                if *is_readable {
                    let missing = lost.range(..lsn).next_back().copied();
                    readable.push((lsn, needed.max(missing.unwrap_or_default())));
                } else {
                    lost.insert(lsn);
                }
            }
        }
        let kept: Vec<u64> = readable
            .iter()
            .take_while(|(_, needed)| *needed <= covered)
            .map(|(lsn, _)| *lsn)
            .collect();
        let cut = readable.get(kept.len()).map(|(lsn, _)| Lsn(*lsn));
        let end = kept.last().copied().unwrap_or_default();
        let (salvaged, copied, facts) = saved(&laid, covered);
        prop_assert_eq!(&copied, &kept);
        prop_assert_eq!(salvaged.records, kept.len() as u64);
        prop_assert_eq!(salvaged.cut_at, cut);
        for (first, last) in &salvaged.holes {
            prop_assert!(first <= last, "{:?}", salvaged.holes);
        }
        let told: Vec<u64> = salvaged.holes.iter().flat_map(|(f, l)| f.0..=l.0).collect();
        prop_assert_eq!(told, lost.range(..end).copied().collect::<Vec<_>>());
        let mut before = None;
        for one in &facts {
            prop_assert!(before.is_none_or(|last| last == one.after), "{:?}", facts);
            prop_assert!(one.base <= covered, "{:?}", facts);
            before = Some(one.last);
        }
    }
}
