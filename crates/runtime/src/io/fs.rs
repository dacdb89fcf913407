//! Everything that names a path: directories, renames, whole small files, locks.
//!
//! Nothing here is durable before [`sync_dir`] on the directory that changed.

use super::IoError;
use std::path::Path;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name within the directory.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_dir: bool,
    /// Its size in bytes; 0 for a directory.
    pub len: u64,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Its size in bytes; 0 for a directory.
    pub len: u64,
    /// Last change of its content, microseconds since 1970.
    pub modified_micros: i64,
}

/// Creates a directory and those above it that are missing.
pub async fn create_dir_all(path: impl AsRef<Path>) -> Result<(), IoError> {
    let _ = path.as_ref();
    todo!()
}

/// Makes the entries of a directory durable.
pub async fn sync_dir(path: impl AsRef<Path>) -> Result<(), IoError> {
    let _ = path.as_ref();
    todo!()
}

/// Renames a file or directory, replacing a file at `to`.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), IoError> {
    let _ = (from.as_ref(), to.as_ref());
    todo!()
}

/// Removes a file.
pub async fn remove_file(path: impl AsRef<Path>) -> Result<(), IoError> {
    let _ = path.as_ref();
    todo!()
}

/// Removes a directory and all it holds.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> Result<(), IoError> {
    let _ = path.as_ref();
    todo!()
}

/// The entries of a directory, sorted by name.
pub async fn list_dir(path: impl AsRef<Path>) -> Result<Vec<DirEntry>, IoError> {
    let _ = path.as_ref();
    todo!()
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
    let _ = path.as_ref();
    todo!()
}

/// The size of a file, in bytes.
pub async fn len(path: impl AsRef<Path>) -> Result<u64, IoError> {
    Ok(metadata(path).await?.len)
}

/// The whole content of a file, for small ones.
pub async fn read_file(path: impl AsRef<Path>) -> Result<Vec<u8>, IoError> {
    let _ = path.as_ref();
    todo!()
}

/// Replaces a file by `bytes` such that a crash leaves the old or the new content: writes a
/// temporary file beside it, syncs, renames, syncs the directory.
pub async fn write_file_atomic(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), IoError> {
    let _ = (path.as_ref(), bytes);
    todo!()
}

/// Gives the file `existing` a second name.
pub async fn hard_link(existing: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<(), IoError> {
    let _ = (existing.as_ref(), new.as_ref());
    todo!()
}

/// An exclusive lock, held until dropped or until the process ends.
#[derive(Debug)]
pub struct FileLock {}

/// Why a lock could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockError {
    /// Somebody holds it: the process id its file names, where it can be read.
    Held(Option<u32>),
    /// The file could not be opened or locked.
    Io(IoError),
}

/// Locks `path` (created when missing) against every other process and writes our process id
/// into it. Does not wait.
pub async fn lock_exclusive(path: impl AsRef<Path>) -> Result<FileLock, LockError> {
    let _ = path.as_ref();
    todo!()
}
