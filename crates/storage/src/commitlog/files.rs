//! The files of a log: names, making, recycling, removing.
//!
//! Steps of recycling, each durable before the next: the file gets a name that replays ignore; its
//! first block is zeroed; it gets its new name. So whatever crash falls in between, the file is
//! ignored or reads as never written, and blocks of its past name another segment (*old-is-end*).
//!
//! Invariants
//!  - *one-name*: a segment has one name, which is read back as its id. What is being recycled, is
//!    damaged, or marks a truncation has a name that is none of a segment.

use super::layout::{BLOCK, VERSION};
use super::position::SegmentId;
use runtime::io::{AlignedBuf, File, IoClass, IoError, OpenOptions, fs};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const PREFIX: &str = "CommitLog-";
const RECYCLED: &str = "Recycled-";
const MARK: &str = "Truncated-";

fn recycled_path(dir: &Path, id: SegmentId) -> PathBuf {
    let name = format!("{RECYCLED}{PREFIX}{VERSION}-{}.log", id.0);
    debug_assert_eq!(id_of_name(&name), None, "one-name: {name}");
    dir.join(name)
}

/// Removes the files whose recycling a crash cut off: those that `mine` says.
pub(crate) async fn clean_up(dir: &Path, mine: impl Fn(SegmentId) -> bool) -> Result<(), IoError> {
    for entry in fs::list_dir(dir).await? {
        let id = entry.name.strip_prefix(RECYCLED).and_then(id_of_name);
        if id.is_some_and(&mine) {
            fs::remove_file(dir.join(&entry.name)).await?;
        }
    }
    Ok(())
}

/// The file of segment `id`.
pub(crate) fn path_of(dir: &Path, id: SegmentId) -> PathBuf {
    let name = format!("{PREFIX}{VERSION}-{}.log", id.0);
    debug_assert_eq!(id_of_name(&name), Some(id), "one-name: {name}");
    dir.join(name)
}

/// The segment that a file name names.
pub(crate) fn id_of_name(name: &str) -> Option<SegmentId> {
    let (version, id) = name.strip_prefix(PREFIX)?.strip_suffix(".log")?.split_once('-')?;
    if version.parse() != Ok(VERSION) {
        return None;
    }
    id.parse().ok().map(SegmentId)
}

/// The segment whose file is at `path`.
pub(crate) fn id_of_path(path: &Path) -> Option<SegmentId> {
    id_of_name(path.file_name()?.to_str()?)
}

/// The segments in `dir`, by base and shard.
pub(crate) async fn list(dir: &Path) -> Result<Vec<SegmentId>, IoError> {
    let entries = fs::list_dir(dir).await?;
    let mut ids: Vec<_> = entries.iter().filter_map(|entry| id_of_name(&entry.name)).collect();
    ids.sort_unstable_by_key(|id| (id.base(), id.shard()));
    Ok(ids)
}

/// Makes it durable that segment `id` was there: records of truncations speak of it when it is
/// gone, and no segment that is made later may seem to be older, whatever the clock says. Of a
/// shard the last such mark stays.
pub(crate) async fn mark(dir: &Path, id: SegmentId) -> Result<(), IoError> {
    let name = |id: SegmentId| format!("{MARK}{}", id.0);
    debug_assert_eq!(id_of_name(&name(id)), None, "one-name: {}", name(id));
    File::open(dir.join(name(id)), OpenOptions::create()).await?;
    fs::sync_dir(dir).await?;
    for other in marks(dir).await? {
        if other.shard() == id.shard() && other < id {
            // One that stays does no harm, and another truncation may remove it meanwhile.
            let _ = fs::remove_file(dir.join(name(other))).await;
        }
    }
    Ok(())
}

/// The segments that are marked.
pub(crate) async fn marks(dir: &Path) -> Result<Vec<SegmentId>, IoError> {
    let id_of = |name: &str| name.strip_prefix(MARK)?.parse().ok().map(SegmentId);
    Ok(fs::list_dir(dir).await?.iter().filter_map(|entry| id_of(&entry.name)).collect())
}

/// Whether a new segment has its space from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Reserved,
    /// A full disk is met when it is written to.
    None,
}

/// Makes the file of a new segment.
pub(crate) async fn create(
    dir: &Path,
    id: SegmentId,
    bytes: usize,
    space: Space,
) -> Result<File, IoError> {
    assert!(bytes.is_multiple_of(BLOCK), "a segment is of blocks: {bytes} bytes");
    let path = path_of(dir, id);
    let made = async {
        let file = File::open(&path, OpenOptions::create_new()).await?;
        let reserved = match space {
            Space::Reserved => file.allocate(0, bytes as u64).await,
            Space::None => file.truncate(bytes as u64).await,
        };
        match reserved {
            // A file system that cannot reserve space.
            Err(error) if error.kind == ErrorKind::Unsupported => {
                file.truncate(bytes as u64).await?;
            }
            other => other?,
        }
        file.fdatasync(IoClass::Commitlog).await?;
        fs::sync_dir(dir).await?;
        Ok(file)
    };
    match made.await {
        Ok(file) => Ok(file),
        Err(error) => {
            // Best effort: an unused file is removed at the next start anyway.
            let _ = fs::remove_file(&path).await;
            Err(error)
        }
    }
}

/// Makes a new segment of a released one.
pub(crate) async fn recycle(dir: &Path, old: SegmentId, id: SegmentId) -> Result<File, IoError> {
    assert!(old.shard() == id.shard() && old < id, "ids-ascend: {old:?} becomes {id:?}");
    let path = path_of(dir, id);
    let parked = recycled_path(dir, old);
    fs::rename(path_of(dir, old), &parked).await?;
    fs::sync_dir(dir).await?;
    {
        let file = File::open(&parked, OpenOptions::read_write()).await?;
        let mut zeros = AlignedBuf::with_capacity(BLOCK);
        zeros.resize(BLOCK, 0);
        file.write_at(IoClass::Commitlog, 0, zeros).await?;
        file.fdatasync(IoClass::Commitlog).await?;
    }
    fs::rename(&parked, &path).await?;
    fs::sync_dir(dir).await?;
    File::open(&path, OpenOptions::read_write()).await
}

/// Removes a segment; one that is not there is removed already.
pub(crate) async fn remove(dir: &Path, id: SegmentId) -> Result<(), IoError> {
    for path in [path_of(dir, id), recycled_path(dir, id)] {
        match fs::remove_file(path).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Gives a damaged segment a name under which it is neither replayed nor removed.
pub(crate) async fn set_aside(dir: &Path, id: SegmentId) -> Result<(), IoError> {
    let path = path_of(dir, id);
    let mut aside = path.clone().into_os_string();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    debug_assert_eq!(id_of_path(&aside), None, "one-name: {aside:?}");
    fs::rename(&path, aside).await
}
