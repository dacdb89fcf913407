//! A file of one shard: positioned reads and writes, syncs, sizes.

use super::{ALIGNMENT, AlignedBuf, DmaBuf, IoClass, IoError};
use std::path::Path;
use std::rc::Rc;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
    pub(crate) direct: bool,
}

impl OpenOptions {
    /// For reading an existing file, past the page cache where the configuration allows.
    pub const fn read_only() -> OpenOptions {
        OpenOptions {
            read: true,
            write: false,
            create: false,
            exclusive: false,
            truncate: false,
            direct: true,
        }
    }

    /// For reading and writing an existing file.
    pub const fn read_write() -> OpenOptions {
        OpenOptions { write: true, ..OpenOptions::read_only() }
    }

    /// For reading and writing a file, created when missing.
    pub const fn create() -> OpenOptions {
        OpenOptions { create: true, ..OpenOptions::read_write() }
    }

    /// For reading and writing a file that must not exist yet.
    pub const fn create_new() -> OpenOptions {
        OpenOptions { exclusive: true, ..OpenOptions::create() }
    }

    /// The same, emptying the file first.
    pub const fn truncate(self) -> OpenOptions {
        OpenOptions { truncate: true, ..self }
    }

    /// The same, through the page cache: any offset and length may be written.
    pub const fn buffered(self) -> OpenOptions {
        OpenOptions { direct: false, ..self }
    }
}

/// An open file. Clones share it; it is closed with the last one.
#[derive(Clone, Debug)]
pub struct File {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: std::path::PathBuf,
    direct: bool,
}

impl File {
    /// Opens `path`.
    pub async fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<File, IoError> {
        let _ = (path.as_ref(), options);
        todo!()
    }

    /// Reads up to `len` bytes at `offset`, both of any alignment, by exactly one request; short
    /// only where the file ends.
    pub async fn read_at(
        &self,
        class: IoClass,
        offset: u64,
        len: usize,
    ) -> Result<DmaBuf, IoError> {
        self.read_into(class, offset, len, AlignedBuf::new()).await
    }

    /// As [`File::read_at`], into memory that is used again.
    pub async fn read_into(
        &self,
        class: IoClass,
        offset: u64,
        len: usize,
        buf: AlignedBuf,
    ) -> Result<DmaBuf, IoError> {
        let _ = (class, offset, len, buf);
        todo!()
    }

    /// Writes the whole buffer at `offset` and gives it back. For a direct file, offset and
    /// length are multiples of [`File::alignment`].
    pub async fn write_at(
        &self,
        class: IoClass,
        offset: u64,
        buf: AlignedBuf,
    ) -> Result<AlignedBuf, IoError> {
        let _ = (class, offset, buf);
        todo!()
    }

    /// Writes a buffer of any length at an aligned offset, as the end of the file: whole blocks
    /// first, then the file is cut to `offset + buf.len()`.
    pub async fn write_tail(
        &self,
        class: IoClass,
        offset: u64,
        buf: AlignedBuf,
    ) -> Result<AlignedBuf, IoError> {
        let _ = (class, offset, buf);
        todo!()
    }

    /// Makes content and size durable. Covers the writes that had ended when it was called.
    pub async fn fdatasync(&self, class: IoClass) -> Result<(), IoError> {
        let _ = class;
        todo!()
    }

    /// Sets the size of the file.
    pub async fn truncate(&self, len: u64) -> Result<(), IoError> {
        let _ = len;
        todo!()
    }

    /// Reserves space on the disk and grows the file to at least `offset + len` bytes.
    pub async fn allocate(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let _ = (offset, len);
        todo!()
    }

    /// The size of the file, in bytes.
    pub async fn len(&self) -> Result<u64, IoError> {
        todo!()
    }

    /// Closes the file, reporting what the kernel says; other clones keep it open.
    pub async fn close(self) -> Result<(), IoError> {
        todo!()
    }

    /// Offsets and lengths of writes are multiples of this; 1 for a buffered file.
    pub fn alignment(&self) -> usize {
        if self.inner.direct { ALIGNMENT } else { 1 }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}
