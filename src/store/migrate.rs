//! Brings an older store to the schema that this version writes.
//!
//! Each step of the format is a file in `migrations/`, compiled in here. A migration runs in
//! batches that may be repeated; how far it got is kept in the `meta` tree, so that a node that is
//! stopped in between goes on where it was. A store of a newer schema is refused untouched.

use crate::store::db::{Database, damaged, guarded};
use crate::store::shared::keys;
use crate::store::{Progress, StoreError};

#[path = "../../migrations/0001_first_schema.rs"]
mod m0001_first_schema;

/// What a batch of a migration leaves to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is more; the bytes are handed to the next batch. Only tests have a migration of more
    /// than one batch so far.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the first migration has one batch")
    )]
    More(Vec<u8>),
    Done,
}

/// One step of the format.
struct Migration {
    /// The schema that it leads to; the one before is one less.
    version: u32,
    name: &'static str,
    /// Does one batch. The batch may be repeated after a crash and must not mind.
    step: fn(&Database, Option<&[u8]>) -> Result<Step, StoreError>,
}

const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: m0001_first_schema::NAME,
    step: m0001_first_schema::step,
}];

const PROGRESS: &str = "store/migration-progress";

/// Runs what is missing.
///
/// # Errors
/// [`StoreError::NewerSchema`] if a newer version wrote the store.
pub(super) fn run(
    database: &Database,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    run_all(MIGRATIONS, database, progress)
}

fn run_all(
    migrations: &[Migration],
    database: &Database,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let known = migrations.last().map_or(0, |last| last.version);
    let current = schema(database)?;
    if current > known {
        return Err(StoreError::NewerSchema {
            what: "the store".into(),
            found: current,
            known,
        });
    }
    for migration in migrations
        .iter()
        .filter(|migration| migration.version > current)
    {
        let mut done = 0;
        loop {
            progress(Progress::Migrating {
                name: migration.name,
                done,
            });
            let before = guarded("read the progress", || database.meta.get(PROGRESS))?;
            match (migration.step)(database, before.as_deref())? {
                Step::More(after) => {
                    guarded("note the progress", || {
                        database.meta.insert(PROGRESS, after)
                    })?;
                    database.flush()?;
                    done += 1;
                }
                Step::Done => break,
            }
        }
        let mut batch = sled::Batch::default();
        batch.remove(PROGRESS);
        batch.insert(keys::SCHEMA, &migration.version.to_le_bytes());
        guarded("note the schema", || database.meta.apply_batch(batch))?;
        database.flush()?;
        database.sync()?;
    }
    Ok(())
}

/// The schema of the store, 0 for an empty one.
fn schema(database: &Database) -> Result<u32, StoreError> {
    let Some(stored) = guarded("read the schema", || database.meta.get(keys::SCHEMA))? else {
        return Ok(0);
    };
    let bytes = stored.as_ref().try_into().map_err(|_| {
        damaged(
            "the meta tree",
            format!("a schema version of {} bytes", stored.len()),
        )
    })?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(dir: &tempfile::TempDir) -> Database {
        Database::open(&dir.path().join("log"), 1 << 20).unwrap()
    }

    #[test]
    fn an_empty_store_gets_the_newest_schema_and_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        let mut steps = Vec::new();
        run(&database, &mut |step| steps.push(step)).unwrap();
        assert_eq!(
            steps,
            [Progress::Migrating {
                name: "first schema",
                done: 0
            }]
        );
        assert_eq!(schema(&database).unwrap(), 1);
        run(&database, &mut |step| {
            panic!("nothing is left to do, but {step:?}")
        })
        .unwrap();
    }

    #[test]
    fn a_newer_schema_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        database
            .meta
            .insert(keys::SCHEMA, &7u32.to_le_bytes())
            .unwrap();
        let error = run(&database, &mut |_| {}).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the store has format 7, this eurekad knows formats up to 1: start the newer version \
             that wrote it, or use another data directory"
        );
        assert_eq!(schema(&database).unwrap(), 7);
    }

    #[test]
    fn somebody_elses_database_is_not_taken_for_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        database
            .db
            .open_tree("orders")
            .unwrap()
            .insert("a", "b")
            .unwrap();
        let error = run(&database, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("data in orders"), "{error}");
    }

    /// Counts up to three in batches of one, and fails once in the middle.
    fn counting_step(database: &Database, progress: Option<&[u8]>) -> Result<Step, StoreError> {
        let count = progress.map_or(0, |bytes| bytes[0]) + 1;
        let tree = guarded("open", || database.db.open_tree("counts"))?;
        guarded("insert", || tree.insert([count], &[count]))?;
        if count == 2 && tree.insert("failed", "once").unwrap().is_none() {
            return Err(StoreError::Closed);
        }
        Ok(if count < 3 {
            Step::More(vec![count])
        } else {
            Step::Done
        })
    }

    #[test]
    fn an_interrupted_migration_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        let migrations = [
            Migration {
                version: 1,
                name: "first schema",
                step: m0001_first_schema::step,
            },
            Migration {
                version: 2,
                name: "counting",
                step: counting_step,
            },
        ];
        assert!(matches!(
            run_all(&migrations, &database, &mut |_| {}),
            Err(StoreError::Closed)
        ));
        assert_eq!(schema(&database).unwrap(), 1);
        let mut steps = 0;
        run_all(&migrations, &database, &mut |_| steps += 1).unwrap();
        assert_eq!(steps, 2, "batches two and three, but not the first again");
        assert_eq!(schema(&database).unwrap(), 2);
        assert_eq!(database.meta.get(PROGRESS).unwrap(), None);
    }
}
