//! Everything that names a path: directories, renames, whole small files, locks.
//!
//! Nothing here is durable before [`sync_dir`] on the directory that changed.
//!
//! Invariants
//!  - *sorted-names*: the entries of a directory are in the order of their names, one each.

use super::{AlignedBuf, File, IoClass, IoError, OpenOptions};
use crate::core::{simulated, with};
pub use crate::driver::fs_op::{DirEntry, Metadata, Space};
use crate::driver::fs_op::{FsOp, FsOutput};
use crate::driver::op::{Fd, FdKind};
use crate::offload::offload;
use crate::time::sleep;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The largest single request of [`read_file`].
const READ_BYTES_MAX: u64 = 1 << 20;

/// Creates a directory and those above it that are missing.
pub async fn create_dir_all(path: impl AsRef<Path>) -> Result<(), IoError> {
    perform(FsOp::CreateDirAll(path.as_ref().into())).await.map(drop)
}

/// Makes the entries of a directory durable.
pub async fn sync_dir(path: impl AsRef<Path>) -> Result<(), IoError> {
    if with(|shard| shard.node.config.bypass_fsync) {
        return Ok(());
    }
    perform(FsOp::SyncDir(path.as_ref().into())).await.map(drop)
}

/// Renames a file or directory, replacing a file at `to`.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), IoError> {
    perform(FsOp::Rename(from.as_ref().into(), to.as_ref().into())).await.map(drop)
}

/// Removes a file.
pub async fn remove_file(path: impl AsRef<Path>) -> Result<(), IoError> {
    perform(FsOp::RemoveFile(path.as_ref().into())).await.map(drop)
}

/// Removes a directory and all it holds.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> Result<(), IoError> {
    perform(FsOp::RemoveDirAll(path.as_ref().into())).await.map(drop)
}

/// The entries of a directory, sorted by name.
pub async fn list_dir(path: impl AsRef<Path>) -> Result<Vec<DirEntry>, IoError> {
    match perform(FsOp::ListDir(path.as_ref().into())).await? {
        FsOutput::Entries(entries) => {
            debug_assert!(entries.is_sorted_by(|a, b| a.name < b.name), "sorted-names");
            Ok(entries)
        }
        other => unreachable!("listing gives entries, not {other:?}"),
    }
}

/// Whether the path names something.
pub async fn exists(path: impl AsRef<Path>) -> Result<bool, IoError> {
    match metadata(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is known of a path.
pub async fn metadata(path: impl AsRef<Path>) -> Result<Metadata, IoError> {
    match perform(FsOp::Metadata(path.as_ref().into())).await? {
        FsOutput::Metadata(metadata) => Ok(metadata),
        other => unreachable!("stat gives metadata, not {other:?}"),
    }
}

/// The space of the file system of `path`.
pub async fn space(path: impl AsRef<Path>) -> Result<Space, IoError> {
    match perform(FsOp::Space(path.as_ref().into())).await? {
        FsOutput::Space(space) => Ok(space),
        other => unreachable!("statvfs gives space, not {other:?}"),
    }
}

/// The size of a file, in bytes.
pub async fn len(path: impl AsRef<Path>) -> Result<u64, IoError> {
    Ok(metadata(path).await?.len)
}

/// The whole content of a file, for small ones.
pub async fn read_file(path: impl AsRef<Path>) -> Result<Vec<u8>, IoError> {
    let file = File::open(path, OpenOptions::read_only().buffered()).await?;
    let mut bytes = Vec::new();
    loop {
        let len = file.len().await?.saturating_sub(bytes.len() as u64).clamp(1, READ_BYTES_MAX);
        let part = file.read_at(IoClass::System, bytes.len() as u64, len as usize).await?;
        debug_assert!(part.len() as u64 <= len, "as-asked: {} bytes of {len}", part.len());
        if part.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&part);
        // The usual case: one request brought all there is.
        if file.len().await? == bytes.len() as u64 {
            return Ok(bytes);
        }
    }
}

/// Replaces a file by `bytes` such that a crash leaves the old or the new content: writes a
/// temporary file beside it, syncs, renames, syncs the directory.
pub async fn write_file_atomic(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), IoError> {
    let path = path.as_ref();
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let file = File::open(&temporary, OpenOptions::create().truncate().buffered()).await?;
    file.write_at(IoClass::System, 0, AlignedBuf::copy_from(bytes)).await?;
    file.fdatasync(IoClass::System).await?;
    file.close().await?;
    rename(&temporary, path).await?;
    match path.parent() {
        Some(parent) if parent != Path::new("") => sync_dir(parent).await,
        _ => sync_dir(".").await,
    }
}

/// Gives the file `existing` a second name.
pub async fn hard_link(existing: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<(), IoError> {
    perform(FsOp::HardLink(existing.as_ref().into(), new.as_ref().into())).await.map(drop)
}

/// An exclusive lock, held until dropped or until the process ends.
#[derive(Debug)]
pub struct FileLock {
    _fd: Rc<Fd>,
}

/// Why a lock could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockError {
    /// It is held: by the process id in its file, if that can be read.
    Held(Option<u32>),
    /// The file could not be opened or locked.
    Io(IoError),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held(Some(pid)) => write!(f, "held by process {pid}"),
            LockError::Held(None) => f.write_str("held by another process"),
            LockError::Io(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for LockError {}

/// Locks `path` (created when missing) against every other process and writes our process id
/// into it. Does not wait.
pub async fn lock_exclusive(path: impl AsRef<Path>) -> Result<FileLock, LockError> {
    match perform(FsOp::Lock(path.as_ref().into())).await {
        Ok(FsOutput::Locked(fd)) => {
            let kind = if simulated().is_some() { FdKind::Simulated } else { FdKind::File };
            Ok(FileLock { _fd: Fd::new(fd, kind) })
        }
        Ok(FsOutput::Held(pid)) => Err(LockError::Held(pid)),
        Ok(other) => unreachable!("locking gives a lock, not {other:?}"),
        Err(error) => Err(LockError::Io(error)),
    }
}

/// Carries a path operation out where it belongs.
async fn perform(op: FsOp) -> Result<FsOutput, IoError> {
    match simulated() {
        Some(machine) => {
            sleep(machine.path_time(&op)).await;
            machine.perform_path(&op)
        }
        None => offload(move || op.perform()).await,
    }
}
