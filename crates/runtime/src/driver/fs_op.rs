//! What a back end is asked about paths, as values: carried out by a helper thread, or by a
//! simulated disk.

use crate::error::IoError;
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name within the directory.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_dir: bool,
    /// Whether it is a regular file: neither a directory nor a link, wherever that leads.
    pub is_file: bool,
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

/// The room of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this process may still write.
    pub free: u64,
    /// Bytes of all of it.
    pub total: u64,
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) enum FsOp {
    CreateDirAll(PathBuf),
    SyncDir(PathBuf),
    Rename(PathBuf, PathBuf),
    RemoveFile(PathBuf),
    RemoveDirAll(PathBuf),
    ListDir(PathBuf),
    Metadata(PathBuf),
    HardLink(PathBuf, PathBuf),
    Lock(PathBuf),
    Space(PathBuf),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum FsOutput {
    Done,
    Entries(Vec<DirEntry>),
    Metadata(Metadata),
    /// The descriptor that holds the lock.
    Locked(i32),
    Space(Space),
    /// Another process holds it: its id, if readable.
    Held(Option<u32>),
}

impl FsOp {
    /// Its name in errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            FsOp::CreateDirAll(_) => "create directory",
            FsOp::SyncDir(_) => "sync directory",
            FsOp::Rename(..) => "rename",
            FsOp::RemoveFile(_) => "remove",
            FsOp::RemoveDirAll(_) => "remove directory",
            FsOp::ListDir(_) => "list directory",
            FsOp::Metadata(_) => "stat",
            FsOp::HardLink(..) => "link",
            FsOp::Lock(_) => "lock",
            FsOp::Space(_) => "statvfs",
        }
    }

    /// The path that errors name.
    pub(crate) fn path(&self) -> &Path {
        match self {
            FsOp::CreateDirAll(path)
            | FsOp::SyncDir(path)
            | FsOp::Rename(path, _)
            | FsOp::RemoveFile(path)
            | FsOp::RemoveDirAll(path)
            | FsOp::ListDir(path)
            | FsOp::Metadata(path)
            | FsOp::HardLink(path, _)
            | FsOp::Lock(path)
            | FsOp::Space(path) => path,
        }
    }

    /// Carries it out, blocking: on a helper thread.
    pub(crate) fn perform(&self) -> Result<FsOutput, IoError> {
        self.perform_inner().map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(0);
            let path = self.path().to_path_buf();
            IoError { op: self.name(), path, kind: error.kind(), errno }
        })
    }

    fn perform_inner(&self) -> std::io::Result<FsOutput> {
        match self {
            FsOp::CreateDirAll(path) => fs::create_dir_all(path)?,
            FsOp::SyncDir(path) => open(path, fs::OpenOptions::new().read(true))?.sync_all()?,
            FsOp::Rename(from, to) => fs::rename(from, to)?,
            FsOp::RemoveFile(path) => fs::remove_file(path)?,
            FsOp::RemoveDirAll(path) => fs::remove_dir_all(path)?,
            FsOp::ListDir(path) => return list(path).map(FsOutput::Entries),
            FsOp::Metadata(path) => return metadata(path).map(FsOutput::Metadata),
            FsOp::HardLink(from, to) => fs::hard_link(from, to)?,
            FsOp::Lock(path) => return lock(path),
            FsOp::Space(path) => return space(path),
        }
        Ok(FsOutput::Done)
    }
}

fn open(path: &Path, options: &fs::OpenOptions) -> std::io::Result<fs::File> {
    options.open(path)
}

fn list(path: &Path) -> std::io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // The entry may be removed meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        let (is_dir, is_file) = (metadata.is_dir(), metadata.is_file());
        let name = entry.file_name().to_string_lossy().into_owned();
        let len = if is_dir { 0 } else { metadata.len() };
        entries.push(DirEntry { name, is_dir, is_file, len });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn metadata(path: &Path) -> std::io::Result<Metadata> {
    let metadata = fs::metadata(path)?;
    let modified = metadata.modified()?.duration_since(std::time::UNIX_EPOCH);
    let modified_micros = modified.map_or(0, |since| since.as_micros() as i64);
    let is_dir = metadata.is_dir();
    Ok(Metadata { is_dir, len: if is_dir { 0 } else { metadata.len() }, modified_micros })
}

fn space(path: &Path) -> std::io::Result<FsOutput> {
    let found = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(FsOutput::Space(Space { free: bytes(found.f_bavail), total: bytes(found.f_blocks) }))
}

fn lock(path: &Path) -> std::io::Result<FsOutput> {
    let mut options = fs::OpenOptions::new();
    let mut file = open(path, options.read(true).write(true).create(true).truncate(false))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            // Only a hint: whatever cannot be read is no process id.
            let _ = file.take(32).read_to_string(&mut text);
            return Ok(FsOutput::Held(text.trim().parse().ok()));
        }
        Err(error) => return Err(error.into()),
    }
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(FsOutput::Locked(OwnedFd::from(file).into_raw_fd()))
}
