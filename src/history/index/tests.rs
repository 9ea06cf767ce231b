//! The index against the log that it is made of: nothing missing, nothing wrong, whatever happens
//! to its files.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;

use super::*;
use crate::history::query::{Order, Question, Walk};
use crate::history::testing::{Random, Rig, entry, naive, question, walked};
use crate::history::{Entry, Filter};
use crate::store::testing::{CountingReader, options};

/// Every instance has the hash of every other one, and every application too.
fn one_hash(_: &str, _: Option<&str>) -> u64 {
    0x5555
}

/// Few hashes, so that some are shared.
fn few_hashes(app: &str, id: Option<&str>) -> u64 {
    key::stable_hash(app, id) % 8
}

fn catch_up(index: &Index, reader: &Arc<dyn LogReader>) {
    while index.catch_up(&**reader).unwrap() {}
}

fn ask(index: &Arc<Index>, rig: &Rig, question: &Question) -> Vec<Entry> {
    walked(
        &rig.reader(),
        index,
        question,
        (usize::MAX, usize::MAX),
        true,
    )
}

fn of_instance(app: &str, id: &str) -> Question {
    let filter = Filter {
        apps: vec![AppName::new(app)],
        instance: Some(InstanceId::new(id)),
        ..Filter::default()
    };
    Question {
        filter,
        order: Order::Newest,
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    files.sort();
    files
}

#[test]
fn every_question_is_answered_as_by_looking_at_every_record() {
    let dir = tempfile::tempdir().unwrap();
    let hashes: [KeyHash; 3] = [key::stable_hash, few_hashes, one_hash];
    for (seed, hash) in (1..=6).zip(hashes.into_iter().cycle()) {
        let mut rig = Rig::new(seed, 700);
        let mut random = Random(seed ^ 0xABCD);
        let path = dir.path().join(seed.to_string());
        let in_file = (seed % 2 == 0).then_some(path);
        let index = Arc::new(Index::with(in_file, hash, MEMORY_MAX));
        for round in 0..40 {
            if round % 8 == 3 {
                rig.append(60);
            }
            if round == 20 {
                rig.trim(3);
            }
            if random.below(3) == 0 {
                catch_up(&index, &rig.reader());
            }
            let question = question(&mut random, rig.kept());
            let found = ask(&index, &rig, &question);
            let expected = naive(rig.kept(), &question);
            assert_eq!(found, expected, "seed {seed}, round {round}: {question:?}");
        }
        assert!(
            rig.reader().segments().len() > 5,
            "too few segments to tell"
        );
    }
}

#[test]
fn files_are_made_once_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let rig = Rig::new(11, 600);
    let reader = Arc::new(CountingReader::new(rig.reader()));
    let shared: Arc<dyn LogReader> = reader.clone();
    let segments = rig.reader().segments();
    let open_records = {
        let open = segments.last().unwrap();
        open.last.0 - open.first.0 + 1
    };

    let index = Index::new(Some(path.clone()));
    catch_up(&index, &shared);
    assert_eq!(reader.take_count(), rig.source.log.len() as u64);
    assert_eq!(files(&path).len(), segments.len() - 1);
    let stats = index.stats();
    assert_eq!(stats.segments, segments.len() - 1);
    assert_eq!(stats.growing_records as u64, open_records);

    // Another life reads what has no file: the segment that grows.
    let again = Arc::new(Index::new(Some(path.clone())));
    catch_up(&again, &shared);
    assert_eq!(reader.take_count(), open_records);
    let question = of_instance("SHOP", "host-3");
    let expected = naive(rig.kept(), &question);
    assert!(!expected.is_empty());
    assert_eq!(ask(&again, &rig, &question), expected);
}

#[test]
fn a_segment_that_is_closed_gets_its_table_from_memory() {
    let mut rig = Rig::new(12, 40);
    let reader = Arc::new(CountingReader::new(rig.reader()));
    let shared: Arc<dyn LogReader> = reader.clone();
    let index = Index::new(None);
    catch_up(&index, &shared);
    for _ in 0..20 {
        rig.append(30);
        catch_up(&index, &shared);
    }
    assert!(index.stats().segments > 5);
    assert_eq!(
        reader.take_count(),
        rig.source.log.len() as u64,
        "each once"
    );
}

#[test]
fn damaged_old_and_foreign_files_are_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let rig = Rig::new(13, 500);
    catch_up(&Index::new(Some(path.clone())), &rig.reader());
    let whole = files(&path);
    let contents: Vec<Vec<u8>> = whole.iter().map(|file| fs::read(file).unwrap()).collect();
    let mut random = Random(99);
    let question = of_instance("CART", "host-1");
    let expected = naive(rig.kept(), &question);
    for round in 0..120 {
        let place = random.below(whole.len());
        let file = &whole[place];
        let length = contents[place].len();
        match random.below(5) {
            0 => fs::remove_file(file).unwrap(),
            1 => fs::write(file, &contents[(place + 1) % whole.len()]).unwrap(),
            2 => fs::write(file, &contents[place][..random.below(length)]).unwrap(),
            3 => fs::write(file, vec![0; length]).unwrap(),
            _ => {
                let mut file = OpenOptions::new().write(true).open(file).unwrap();
                let at = random.below(length);
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                file.write_all(&[contents[place][at] ^ (1 << random.below(8))])
                    .unwrap();
            }
        }
        let index = Arc::new(Index::new(Some(path.clone())));
        assert_eq!(ask(&index, &rig, &question), expected, "round {round}");
        // What was looked at is whole again; the rest is when it is.
        for file in &whole {
            let place = whole.iter().position(|other| other == file).unwrap();
            fs::write(file, &contents[place]).unwrap();
        }
    }
    // Damage under an index that is in use.
    let index = Arc::new(Index::new(Some(path.clone())));
    catch_up(&index, &rig.reader());
    for (file, content) in whole.iter().zip(&contents) {
        let mut worse = content.clone();
        let length = worse.len();
        worse[length - 4096..].fill(7);
        fs::write(file, worse).unwrap();
    }
    assert_eq!(ask(&index, &rig, &question), expected);
    for file in &whole {
        fs::remove_file(file).unwrap();
    }
    assert_eq!(ask(&index, &rig, &question), expected);
    assert!(!files(&path).is_empty(), "nothing was made anew");
    for file in files(&path) {
        let place = whole.iter().position(|other| *other == file).unwrap();
        assert_eq!(
            fs::read(&file).unwrap(),
            contents[place],
            "{}",
            file.display()
        );
    }
}

#[test]
fn tables_go_with_their_segments() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let mut rig = Rig::new(14, 600);
    let index = Arc::new(Index::new(Some(path.clone())));
    catch_up(&index, &rig.reader());
    let before = files(&path).len();
    fs::write(path.join("index-00000000000000000001.tmp"), b"half").unwrap();
    fs::write(path.join("notes.txt"), b"an operator's own").unwrap();
    rig.trim(4);
    catch_up(&index, &rig.reader());
    assert_eq!(index.stats().segments, before - 4);
    let left = files(&path);
    assert_eq!(left.len(), before - 4 + 1, "{left:?}");
    assert!(left.iter().any(|file| file.ends_with("notes.txt")));
}

#[test]
fn a_table_that_cannot_be_written_is_kept_in_memory_within_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("index");
    fs::write(&file, b"not a folder").unwrap();
    let rig = Rig::new(15, 600);
    let question = of_instance("SHOP", "host-2");
    let expected = naive(rig.kept(), &question);
    let index = Arc::new(Index::new(Some(file.clone())));
    assert_eq!(ask(&index, &rig, &question), expected);
    assert!(index.stats().segments > 5);

    let small = Arc::new(Index::with(Some(file), key::stable_hash, 20_000));
    let error = Walk::new(rig.reader(), small, question)
        .take(
            usize::MAX,
            usize::MAX,
            &mut |_, _| ControlFlow::Continue(()),
        )
        .unwrap_err();
    assert!(
        error.to_string().contains("index of the history"),
        "{error}"
    );
}

#[test]
fn a_question_about_an_instance_costs_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path().join("data"));
    options.segment_bytes = 64 << 10;
    let opened = crate::store::open(&options, Millis(1), &mut |_| {}).unwrap();
    let rig = Rig::on(opened, 16, 3000);
    let reader = Arc::new(CountingReader::new(rig.reader()));
    let shared: Arc<dyn LogReader> = reader.clone();
    let index = Arc::new(Index::in_data_dir(&options.dir));
    catch_up(&index, &shared);
    reader.take_count();
    for order in [Order::Newest, Order::Oldest] {
        let asked = Question {
            order,
            ..of_instance("RARE", "host-5")
        };
        let found = walked(&shared, &index, &asked, (usize::MAX, usize::MAX), true);
        assert_eq!(found, naive(rig.kept(), &asked));
        let (looks, answer) = (reader.take_count(), found.len() as u64);
        assert!(looks <= answer + 4, "{looks} looks for {answer} entries");

        let nobody = Question {
            order,
            ..of_instance("SHOP", "nobody")
        };
        assert_eq!(walked(&shared, &index, &nobody, (10, 1000), true), []);
        assert_eq!(reader.take_count(), 0, "looks for nothing");
    }
}

#[test]
fn a_question_before_anything_is_indexed_is_answered_piece_by_piece() {
    let rig = Rig::new(17, 900);
    let index = Arc::new(Index::new(None));
    let asked = of_instance("SHOP", "host-7");
    let mut walk = Walk::new(rig.reader(), index, asked.clone());
    let (mut found, mut turns) = (Vec::new(), 0);
    while walk.next().is_some() {
        let before = walk.looked_at();
        walk.take(usize::MAX, 50, &mut |record, before| {
            found.push(entry(record, before));
            ControlFlow::Continue(())
        })
        .unwrap();
        turns += 1;
        assert!(walk.looked_at() - before < 250, "a turn without an end");
    }
    assert_eq!(found, naive(rig.kept(), &asked));
    assert!(turns > 5, "{turns} turns");
}

use crate::types::Millis;
