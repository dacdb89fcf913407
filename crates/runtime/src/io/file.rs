//! A file of one shard: positioned reads and writes, syncs, sizes.
//!
//! Invariants
//!  - *aligned-requests*: offsets and lengths of requests of a direct file are multiples of its
//!    alignment, which is a power of two.
//!  - *as-asked*: a request gives, or takes, no more than it was asked for.

use super::{ALIGNMENT, AlignedBuf, DmaBuf, IoClass, IoError};
use crate::config::DirectIo;
use crate::core::ops::submit;
use crate::core::{simulated, with};
use crate::driver::op::{Fd, FdKind, Op};
use crate::driver::sys;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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

    /// As the kernel's flags, without O_DIRECT.
    fn flags(self) -> i32 {
        let access = match (self.read, self.write) {
            (true, false) => libc::O_RDONLY,
            _ => libc::O_RDWR,
        };
        debug_assert!(!self.exclusive || self.create, "a new file is created");
        debug_assert!(!self.truncate || self.write, "an emptied file is written");
        let flag = |on, flag| if on { flag } else { 0 };
        access
            | libc::O_CLOEXEC
            | flag(self.create, libc::O_CREAT)
            | flag(self.exclusive, libc::O_EXCL)
            | flag(self.truncate, libc::O_TRUNC)
    }
}

/// An open file. Clones share it; it is closed with the last one.
#[derive(Clone, Debug)]
pub struct File {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    fd: Rc<Fd>,
    path: PathBuf,
    direct: bool,
    /// Of offsets and lengths of reads.
    read_alignment: usize,
}

impl File {
    /// Opens `path`.
    pub async fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<File, IoError> {
        let path = path.as_ref();
        let wanted = with(|shard| shard.node.config.direct_io) == DirectIo::Auto;
        if options.direct && wanted {
            match open(path, options.flags() | libc::O_DIRECT).await {
                // The file system knows no direct I/O; it may have created the file all the same.
                Err(error) if error.errno == libc::EINVAL => {}
                opened => return Ok(File::new(opened?, path, true)),
            }
            let fd = open(path, options.flags() & !libc::O_EXCL).await?;
            return Ok(File::new(fd, path, false));
        }
        Ok(File::new(open(path, options.flags()).await?, path, false))
    }

    fn new(fd: Rc<Fd>, path: &Path, direct: bool) -> File {
        let read_alignment = match direct {
            true if fd.is_simulated() => ALIGNMENT,
            // Small reads of a disk with small blocks should cost no more than they need.
            true => sys::direct_alignment(fd.raw(), ALIGNMENT),
            false => 1,
        };
        debug_assert!(
            read_alignment.is_power_of_two() && read_alignment <= ALIGNMENT,
            "aligned-requests: reads of {read_alignment}"
        );
        debug_assert!(direct || read_alignment == 1, "aligned-requests: through the page cache");
        let path = path.to_path_buf();
        File { inner: Rc::new(Inner { fd, path, direct, read_alignment }) }
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
        self.read_behind(class, offset, len, (buf, 0)).await
    }

    /// As [`File::read_into`], with [room](DmaBuf::room) for so many bytes before those that are
    /// read: a multiple of [`ALIGNMENT`].
    pub async fn read_behind(
        &self,
        class: IoClass,
        offset: u64,
        len: usize,
        (mut buf, room): (AlignedBuf, usize),
    ) -> Result<DmaBuf, IoError> {
        assert!(room.is_multiple_of(ALIGNMENT), "aligned-requests: {room} bytes of room");
        buf.clear();
        if len == 0 {
            return Ok(DmaBuf::new(buf, 0, 0));
        }
        let alignment = self.inner.read_alignment as u64;
        let start = offset - offset % alignment;
        let end = (offset + len as u64).next_multiple_of(alignment);
        debug_assert!(
            start <= offset && offset + len as u64 <= end,
            "as-asked: {start}..{end} for {len} bytes at {offset}"
        );
        let span = (end - start) as usize;
        buf.reserve(room + span);
        buf.resize(room, 0);
        let op = Op::Read { fd: self.inner.fd.clone(), buf, offset: start, len: span };
        let (result, op) = submit(op, Some(class)).await;
        let Op::Read { buf, .. } = op else { unreachable!("an operation comes back") };
        let read = self.check("read", result)? as usize;
        assert!(read <= span && room + read == buf.len(), "as-asked: {read} bytes of {span}");
        let skip = ((offset - start) as usize).min(read);
        Ok(DmaBuf::new(buf, room + skip, len.min(read - skip)))
    }

    /// Writes the whole buffer at `offset` and gives it back. For a direct file, offset and
    /// length are multiples of [`File::alignment`].
    pub async fn write_at(
        &self,
        class: IoClass,
        offset: u64,
        mut buf: AlignedBuf,
    ) -> Result<AlignedBuf, IoError> {
        let alignment = self.alignment();
        let aligned =
            offset.is_multiple_of(alignment as u64) && buf.len().is_multiple_of(alignment);
        assert!(aligned, "aligned-requests: a write of {} bytes at {offset}", buf.len());
        let mut skip = 0;
        while skip < buf.len() {
            let op = Op::Write { fd: self.inner.fd.clone(), buf, offset, skip };
            let (result, op) = submit(op, Some(class)).await;
            let Op::Write { buf: back, .. } = op else { unreachable!("an operation comes back") };
            buf = back;
            let written = self.check("write", result)? as usize;
            assert!(written <= buf.len() - skip, "as-asked: {written} bytes written after {skip}");
            // A nearly full disk takes a part first and refuses the rest.
            let written = written - written % alignment;
            if written == 0 {
                return Err(self.error("write", libc::ENOSPC));
            }
            skip += written;
        }
        debug_assert!(skip == buf.len(), "as-asked: {skip} bytes of {}", buf.len());
        Ok(buf)
    }

    /// Writes a buffer of any length at an aligned offset, as the end of the file: whole blocks
    /// first, then the file is cut to `offset + buf.len()`.
    pub async fn write_tail(
        &self,
        class: IoClass,
        offset: u64,
        mut buf: AlignedBuf,
    ) -> Result<AlignedBuf, IoError> {
        let len = buf.len();
        buf.resize(len.next_multiple_of(self.alignment()), 0);
        let mut buf = self.write_at(class, offset, buf).await?;
        debug_assert!(len <= buf.len(), "as-asked: {len} bytes of {}", buf.len());
        buf.truncate(len);
        self.truncate(offset + len as u64).await?;
        Ok(buf)
    }

    /// Makes content and size durable. Covers the writes that had ended when it was called.
    pub async fn fdatasync(&self, class: IoClass) -> Result<(), IoError> {
        if with(|shard| shard.node.config.bypass_fsync) {
            return Ok(());
        }
        let (result, _) = submit(Op::Sync { fd: self.inner.fd.clone() }, Some(class)).await;
        self.check("fdatasync", result).map(drop)
    }

    /// Sets the size of the file.
    pub async fn truncate(&self, len: u64) -> Result<(), IoError> {
        let (result, _) = submit(Op::Truncate { fd: self.inner.fd.clone(), len }, None).await;
        self.check("truncate", result).map(drop)
    }

    /// Reserves space on the disk and grows the file to at least `offset + len` bytes.
    pub async fn allocate(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let op = Op::Allocate { fd: self.inner.fd.clone(), offset, len };
        let (result, _) = submit(op, None).await;
        self.check("allocate", result).map(drop)
    }

    /// The size of the file, in bytes.
    #[allow(clippy::len_without_is_empty)] // It asks the kernel and may fail.
    pub async fn len(&self) -> Result<u64, IoError> {
        let fd = self.inner.fd.raw();
        if let Some(machine) = simulated() {
            return Ok(machine.file_len(fd));
        }
        // The inode of an open file is in memory: this does not block.
        sys::file_len(fd).map_err(|errno| self.error("stat", errno))
    }

    /// Closes the file, reporting what the kernel says; other clones keep it open.
    pub async fn close(self) -> Result<(), IoError> {
        let Ok(inner) = Rc::try_unwrap(self.inner) else { return Ok(()) };
        let Ok(fd) = Fd::into_owned(inner.fd) else { return Ok(()) };
        let (result, _) = submit(Op::Close { fd }, None).await;
        match result {
            0.. => Ok(()),
            errno => Err(IoError::from_errno("close", &inner.path, -errno)),
        }
    }

    /// Offsets and lengths of writes are multiples of this; 1 for a buffered file.
    pub fn alignment(&self) -> usize {
        if self.inner.direct { ALIGNMENT } else { 1 }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    fn error(&self, op: &'static str, errno: i32) -> IoError {
        IoError::from_errno(op, &self.inner.path, errno)
    }

    fn check(&self, op: &'static str, result: i32) -> Result<u32, IoError> {
        u32::try_from(result).map_err(|_| self.error(op, -result))
    }
}

/// Opens `path` with the kernel's flags.
async fn open(path: &Path, flags: i32) -> Result<Rc<Fd>, IoError> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(IoError::from_errno("open", path, libc::EINVAL));
    };
    let (result, _) = submit(Op::Open { path: name, flags, mode: 0o644 }, None).await;
    if result < 0 {
        return Err(IoError::from_errno("open", path, -result));
    }
    Ok(Fd::new(result, if simulated().is_some() { FdKind::Simulated } else { FdKind::File }))
}
