//! What makes the end of a merge that forgot deletions durable: a small text file in the table's
//! directory that names its inputs.
//!
//! ```text
//! nereid-compacted 1
//! sstable <name of its Data file>       one line each
//! ```
//! A merge that drops a deletion, and what it deleted, must not leave one of its inputs behind
//! without the other: the data would be back. So the inputs go all at once, with this file; that
//! they are removed one after the other is for later, and for the next start.

use crate::error::StorageError;
use model::Uuid;
use runtime::io::{IoError, fs};
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "nereid-compacted 1";
const PREFIX: &str = "compacted_";

/// A record that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obsolete {
    path: PathBuf,
    /// Names of data files: these SSTables are gone.
    pub(crate) sstables: Vec<String>,
}

impl Obsolete {
    /// Makes it durable that these SSTables are gone. `id` tells records of a directory apart.
    /// After an error they may be gone or not: see [`Obsolete::retract`].
    pub(crate) async fn store(
        dir: &Path,
        id: Uuid,
        sstables: Vec<String>,
    ) -> Result<Obsolete, IoError> {
        assert!(!sstables.is_empty(), "all-or-none: a record of nothing");
        debug_assert_eq!(parse(&print(&sstables)).as_ref(), Some(&sstables), "read back");
        let path = path_of(dir, id);
        fs::write_file_atomic(&path, print(&sstables).as_bytes()).await?;
        Ok(Obsolete { path, sstables })
    }

    /// Makes it durable that there is no record `id`, after [`Obsolete::store`] failed.
    pub(crate) async fn retract(dir: &Path, id: Uuid) -> Result<(), IoError> {
        match fs::remove_file(path_of(dir, id)).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        fs::sync_dir(dir).await
    }

    /// The records of a directory. Another shard may remove one, with its SSTables, meanwhile.
    pub(crate) async fn load(dir: &Path) -> Result<Vec<Obsolete>, StorageError> {
        let mut found = Vec::new();
        for entry in fs::list_dir(dir).await? {
            if id_of(&entry.name).is_none() {
                continue;
            }
            let path = dir.join(&entry.name);
            let bytes = match fs::read_file(&path).await {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            let Some(sstables) = std::str::from_utf8(&bytes).ok().and_then(parse) else {
                let what = "not a record of a compaction".to_string();
                return Err(StorageError::Damaged { file: path, what });
            };
            found.push(Obsolete { path, sstables });
        }
        Ok(found)
    }

    /// Removes what crashes left of records that were being made.
    pub(crate) async fn clean_up(dir: &Path) -> Result<(), IoError> {
        for entry in fs::list_dir(dir).await? {
            if entry.name.strip_suffix(".tmp").is_some_and(|name| id_of(name).is_some()) {
                fs::remove_file(dir.join(&entry.name)).await?;
            }
        }
        Ok(())
    }

    /// Forgets it, after its SSTables are removed.
    pub(crate) async fn remove(&self) -> Result<(), IoError> {
        fs::remove_file(&self.path).await
    }
}

fn path_of(dir: &Path, id: Uuid) -> PathBuf {
    let name = format!("{PREFIX}{}", id.simple());
    debug_assert_eq!(id_of(&name), Some(id), "all-or-none: {name} is no record");
    dir.join(name)
}

fn id_of(name: &str) -> Option<Uuid> {
    Uuid::try_parse(name.strip_prefix(PREFIX)?).ok()
}

fn print(sstables: &[String]) -> String {
    let lines = sstables.iter().map(|name| format!("sstable {name}\n"));
    lines.fold(format!("{FIRST_LINE}\n"), |text, line| text + &line)
}

fn parse(text: &str) -> Option<Vec<String>> {
    let mut lines = text.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    lines.map(|line| line.strip_prefix("sstable ").map(str::to_string)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_parsed() {
        let names = ["me-1-big-Data.db".to_string(), "ms-2-big-Data.db".to_string()];
        for count in 0..=2 {
            assert_eq!(parse(&print(&names[..count])).unwrap(), names[..count]);
        }
        for bad in ["", "nereid-compacted 2\n", "nereid-compacted 1\nfile x\n"] {
            assert_eq!(parse(bad), None);
        }
    }
}
