//! What storage refuses, and what it finds broken.

use model::TableId;
use runtime::io::IoError;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

/// Why the shard's storage cannot start.
#[derive(Debug)]
pub enum StartError {
    /// A value of the configuration is out of range.
    Config(&'static str),
    /// A shard has too little memory.
    Memory {
        /// What it has, in bytes.
        bytes: usize,
        /// What it needs.
        needed: usize,
    },
    /// A directory or log file cannot be used.
    Io(IoError),
    /// Another shard could not do its part: its words.
    Shard(String),
}

/// Why an operation on a table failed.
#[derive(Debug)]
pub enum StorageError {
    /// No such table on this shard.
    UnknownTable(TableId),
    /// A file cannot be used.
    Io(IoError),
    /// A file breaks its own rules: which, where, what.
    Damaged {
        /// The file.
        file: PathBuf,
        /// The broken rule and its place.
        what: String,
    },
    /// A memtable could not be written; it stays in memory and is tried again.
    Flush(Rc<reader::ReadError>),
    /// Another shard could not do its part, or cannot yet: its words.
    Shard(String),
    /// SSTables could not be read, written or merged as they were to be.
    Work(reader::ReadError),
    /// The storage is stopping.
    Stopped,
}

/// Why a write was not done. It may be there all the same after [`WriteError::Log`].
#[derive(Clone, Debug)]
pub enum WriteError {
    /// No such table on this shard.
    UnknownTable(TableId),
    /// The bytes are no mutation.
    Damaged(stdx::Damaged),
    /// An entry over the limit of the log: its bytes and the limit.
    TooLarge {
        /// Bytes of the entry.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// What it writes to is larger than the table's limits allow: which, and by how much.
    OverLimit(String),
    /// Memtables or log are full and did not drain in time: what was waited for.
    Overloaded(&'static str),
    /// The disk is full: the file that found no space. Reads go on; writes are tried again.
    FullDisk(PathBuf),
    /// The disk has too little room for writes of clients (`shard::disk_space`), in bytes. Reads,
    /// deletions, DROP and TRUNCATE go on.
    NoRoom {
        /// Of the disk.
        free: u64,
        /// Of the disk.
        total: u64,
        /// What writes of clients leave free.
        reserve: u64,
    },
    /// The log could not be written; the write may or may not survive a restart.
    Log(IoError),
    /// Of partitions that were to be written together some are of another shard since a moment ago
    /// (`shard::hand_over`): nothing was written. Who goes by where they are now finds them.
    Moved,
    /// The storage is stopping.
    Stopped,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(what) => write!(f, "storage configuration: {what}"),
            StartError::Memory { bytes, needed } => {
                write!(f, "a shard of {bytes} bytes of memory cannot run: it needs {needed}")
            }
            StartError::Io(error) => error.fmt(f),
            StartError::Shard(what) => f.write_str(what),
        }
    }
}
impl std::error::Error for StartError {}
impl From<IoError> for StartError {
    fn from(error: IoError) -> StartError {
        StartError::Io(error)
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageError::UnknownTable(id) => write!(f, "no table {id} on this shard"),
            StorageError::Io(error) => error.fmt(f),
            StorageError::Damaged { file, what } => {
                write!(f, "{} is damaged: {what}", file.display())
            }
            StorageError::Flush(error) => write!(f, "flush: {error:?}"),
            StorageError::Shard(what) => f.write_str(what),
            StorageError::Work(error) => error.fmt(f),
            StorageError::Stopped => f.write_str("storage is stopping"),
        }
    }
}
impl std::error::Error for StorageError {}
impl From<IoError> for StorageError {
    fn from(error: IoError) -> StorageError {
        StorageError::Io(error)
    }
}
impl From<reader::ReadError> for StorageError {
    fn from(error: reader::ReadError) -> StorageError {
        StorageError::Work(error)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::UnknownTable(id) => write!(f, "no table {id} on this shard"),
            WriteError::Damaged(damaged) => write!(f, "not a mutation: {damaged}"),
            WriteError::TooLarge { bytes, bytes_max } => {
                write!(
                    f,
                    "Mutation of {bytes} bytes is too large for the maximum size of {bytes_max}"
                )
            }
            WriteError::OverLimit(what) => write!(f, "Write rejected: {what}"),
            WriteError::Overloaded(what) => write!(f, "overloaded: waited too long for {what}"),
            WriteError::FullDisk(path) => write!(f, "no space left on disk for {}", path.display()),
            WriteError::NoRoom { free, total, reserve } => {
                let [free, total, reserve] = [free, total, reserve].map(|bytes| bytes >> 20);
                write!(
                    f,
                    "the disk is full: {free} MiB of {total} MiB are free, and {reserve} MiB are a \
                     reserve for flushes, deletions, TRUNCATE and DROP; writes are accepted again \
                     when there is room"
                )
            }
            WriteError::Log(error) => write!(f, "commitlog: {error}"),
            WriteError::Moved => f.write_str("a tablet has gone to another shard meanwhile"),
            WriteError::Stopped => f.write_str("storage is stopping"),
        }
    }
}
impl std::error::Error for WriteError {}
