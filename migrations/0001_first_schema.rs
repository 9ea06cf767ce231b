//! Schema 1: the first one. There is nothing older to bring along, so this only sees to it that a
//! database without a schema version is really an empty one, and not somebody else's.

use super::{Database, Step, StoreError, damaged, guarded};

pub(super) const NAME: &str = "first schema";

/// One batch of the migration; there is only one.
pub(super) fn step(database: &Database, _progress: Option<&[u8]>) -> Result<Step, StoreError> {
    let foreign = guarded("list the trees", || {
        let mut names: Vec<String> = database
            .db
            .tree_names()
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .filter(|name| name != "__sled__default" && name != "meta")
            .collect();
        if database.db.iter().next().transpose()?.is_some() {
            names.push("__sled__default".into());
        }
        if database.meta.iter().next().transpose()?.is_some() {
            names.push("meta".into());
        }
        Ok(names)
    })?;
    if foreign.is_empty() {
        return Ok(Step::Done);
    }
    Err(damaged(
        "the meta tree",
        format!(
            "there is no schema version, but there is data in {}",
            foreign.join(", ")
        ),
    ))
}
