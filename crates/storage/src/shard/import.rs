//! SSTables of any directory of this machine, taken over into a table.
//!
//! Their files get second names in a directory below `upload/` of the table, or are copied there,
//! and are taken over from it as from `upload/` itself.
//!
//! Invariants
//!  - *source-last*: what is moved is removed from where it came from when the table has it. A
//!    crash before leaves it there, and importing it again does no harm.
//!  - *told-once*: each SSTable is taken over or refused, once.
//!  - *own-files-stay*: nothing that is a table's or a snapshot's of this node is moved away;
//!    snapshots and backups are copied.

use super::Shard;
use super::upload::{Checks, Loaded, load_from, prepare, started};
use model::TableId;
use runtime::io::{IoClass, IoError, fs};
use runtime::{local, on_shard};
use sstable::store::dir::{Found, State};
use sstable::store::output::copy_file;
use sstable::{Component, store};
use std::path::{Component as Part, Path, PathBuf};
use std::rc::Rc;

/// The directory, in `upload/`, from which they are taken over.
const STAGING: &str = "import";

/// What becomes of the files that are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// They go, once the table has them.
    Moved,
    /// They stay; the table has copies.
    Copied,
}

/// An import that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Where they are: an absolute path.
    pub directory: PathBuf,
    /// What is done before.
    pub checks: Checks,
    pub source: Source,
}

impl Shard {
    /// See [`crate::Storage::import`].
    pub(crate) async fn import(&self, id: TableId, order: Import) -> Result<Loaded, String> {
        let imported = on_shard(0, move || async move {
            let shard = local::try_get::<Shard>().ok_or("the node stops")?;
            import(&shard, id, &order).await
        });
        imported.await
    }
}

async fn import(shard: &Rc<Shard>, id: TableId, order: &Import) -> Result<Loaded, String> {
    let directory = &order.directory;
    check_place(&shard.config.data_dir, order)?;
    let told = |error: IoError| format!("{}: {error}", directory.display());
    let listing = store::list(directory).await.map_err(told)?;
    let table = started(shard, id).map_err(|error| error.to_string())?;
    let _alone = table.loading.acquire(1).await;
    assert!(runtime::shard_id() == 0, "shard 0 takes over files");
    let upload = prepare(shard, &table).await.map_err(|error| error.to_string())?;
    let staging = upload.join(STAGING);
    // What a crash has left.
    clear(&staging).await.map_err(told)?;
    fs::create_dir_all(&staging).await.map_err(told)?;
    for found in &listing.tables {
        if let Err(error) = stage(directory, &staging, found, order.source).await {
            clear(&staging).await.map_err(told)?;
            return Err(told(error));
        }
    }
    let loaded = load_from(shard, &table, &staging, order.checks).await;
    clear(&staging).await.map_err(told)?;
    let mut loaded = loaded.map_err(|error| error.to_string())?;
    assert!(
        loaded.loaded.len() + loaded.refused.len() <= listing.tables.len(),
        "told-once: {} of {} SSTables",
        loaded.loaded.len() + loaded.refused.len(),
        listing.tables.len()
    );
    loaded.directory.clone_from(directory);
    let (staged, given) = (staging.display().to_string(), directory.display().to_string());
    loaded.refused.iter_mut().for_each(|(_, why)| *why = why.replace(&staged, &given));
    loaded.refused.extend(unreadable(&listing.unreadable));
    if order.source == Source::Moved {
        let is_loaded = |found: &&Found| {
            let name = found.descriptor.file_name(Component::Data);
            loaded.loaded.iter().any(|one| one.from == name)
        };
        let is_refused = |from: &str| loaded.refused.iter().any(|(name, _)| name == from);
        debug_assert!(
            !loaded.loaded.iter().any(|one| is_refused(&one.from)),
            "source-last: what the table does not have is to go: {:?}",
            loaded.refused
        );
        debug_assert!(
            !directory.starts_with(&shard.config.data_dir),
            "own-files-stay: {} is the node's",
            directory.display()
        );
        for found in listing.tables.iter().filter(is_loaded) {
            store::remove(directory, found.descriptor).await.map_err(told)?;
        }
    }
    Ok(loaded)
}

/// Removes a directory, if it is there.
async fn clear(directory: &Path) -> Result<(), IoError> {
    match fs::remove_dir_all(directory).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Of files of versions that cannot be read: those that stand for an SSTable, and why.
fn unreadable(names: &[String]) -> impl Iterator<Item = (String, String)> {
    let data = names.iter().filter(|name| name.ends_with("-Data.db"));
    data.map(|name| (name.clone(), "its format cannot be read".to_owned()))
}

/// Refuses what is no directory of an operator (*own-files-stay*).
fn check_place(data_dir: &Path, order: &Import) -> Result<(), String> {
    let directory = &order.directory;
    let shown = directory.display();
    let is_plain = |part: Part<'_>| matches!(part, Part::RootDir | Part::Normal(_));
    if !directory.is_absolute() || !directory.components().all(is_plain) {
        return Err(format!("{shown}: an absolute path on the node's machine is needed"));
    }
    // Below it: keyspace, table, and what a table has beside its SSTables.
    match directory.strip_prefix(data_dir).map(|rest| rest.components().count()) {
        Ok(0..=2) => {
            Err(format!("{shown} is a data directory of this node: its SSTables are in use"))
        }
        Ok(_) if order.source == Source::Moved => {
            Err(format!("{shown} belongs to a table of this node: import it with --copy-data"))
        }
        _ => Ok(()),
    }
}

/// Gives the files of an SSTable a place below `upload/`. The TOC goes last: without it the others
/// are no SSTable.
async fn stage(from: &Path, to: &Path, found: &Found, source: Source) -> Result<(), IoError> {
    if found.state != State::Complete {
        // It is refused from there, with the reason.
        return stage_file(from, to, found, Component::Data.suffix(), source).await;
    }
    let toc = Component::Toc.suffix();
    for suffix in found.suffixes.iter().filter(|suffix| *suffix != toc) {
        stage_file(from, to, found, suffix, source).await?;
    }
    stage_file(from, to, found, toc, source).await
}

async fn stage_file(
    from: &Path,
    to: &Path,
    found: &Found,
    suffix: &str,
    source: Source,
) -> Result<(), IoError> {
    let name = found.descriptor.file_name_of(suffix);
    let (from, to) = (from.join(&name), to.join(&name));
    // A file that changes later must not change with the table's, so only what goes is linked; on
    // another file system there are no links.
    if source == Source::Moved && fs::hard_link(&from, &to).await.is_ok() {
        return Ok(());
    }
    match copy_file(&from, &to, IoClass::Maintenance).await {
        Err(error) if error.is_not_found() && found.state != State::Complete => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_node_stay() {
        let check = |directory: &str, source, expected: bool| {
            let order = Import { directory: directory.into(), checks: Checks::Open, source };
            let checked = check_place(Path::new("/var/data"), &order);
            assert_eq!(checked.is_ok(), expected, "{directory} {source:?} {checked:?}");
        };
        for source in [Source::Moved, Source::Copied] {
            check("/backup/t", source, true);
            check("/var/database/ks/t", source, true);
            check("backup/t", source, false);
            check("/backup/../var/data/ks/t", source, false);
            check("/var/data", source, false);
            check("/var/data/ks/t-1", source, false);
            check("/var/data/ks/t-1/", source, false);
        }
        check("/var/data/ks/t-1/snapshots/one", Source::Copied, true);
        check("/var/data/ks/t-1/snapshots/one", Source::Moved, false);
        check("/var/data/ks/t-1/backups", Source::Moved, false);
    }
}
