//! What a driver is asked: operations on descriptors, as values.
//!
//! Invariants
//!  - *slab-owns* (of the crate): what an operation points to is its own, on the heap, so that it
//!    stays where it is while the operation is moved into the slab.
//!  - *fd-outlives-ops*: an operation holds its descriptor, so no descriptor is closed, and its
//!    number used again, while an operation on it is anywhere.
//!  - *one-machine*: descriptors of a simulated machine go to it, all others to the kernel.
#![allow(unsafe_code, reason = "descriptors and messages as the kernel reads them")]

use crate::buffer::AlignedBuf;
use std::ffi::CString;
use std::fmt;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// An open descriptor, real or simulated; closed with its last holder, by the shard that lets it go
/// (`core::ops`).
#[derive(Debug)]
pub(crate) struct Fd {
    raw: i32,
    kind: FdKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FdKind {
    /// A file of the kernel: closing may block, so the ring does it.
    File,
    /// A socket of the kernel.
    Socket,
    /// A number in a simulated world.
    Simulated,
}

impl Fd {
    pub(crate) fn new(raw: i32, kind: FdKind) -> Rc<Fd> {
        assert!(0 <= raw, "fd-outlives-ops: {raw} is no descriptor");
        Rc::new(Fd { raw, kind })
    }

    #[inline]
    pub(crate) fn raw(&self) -> i32 {
        self.raw
    }

    #[inline]
    pub(crate) fn kind(&self) -> FdKind {
        self.kind
    }

    #[inline]
    pub(crate) fn is_simulated(&self) -> bool {
        self.kind == FdKind::Simulated
    }

    /// Takes the descriptor out, if it is not shared.
    pub(crate) fn into_owned(this: Rc<Fd>) -> Result<i32, Rc<Fd>> {
        let fd = Rc::try_unwrap(this)?;
        let raw = fd.raw;
        std::mem::forget(fd);
        Ok(raw)
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        assert!(!self.is_simulated(), "one-machine: a simulated descriptor reached the kernel");
        // SAFETY: *fd-outlives-ops*: it stays open while we live.
        unsafe { BorrowedFd::borrow_raw(self.raw) }
    }
}

/// An address as the kernel reads it.
pub(crate) type Address = Box<socket2::SockAddr>;

/// A part of what is sent at once: bytes of its own, or some that others hold too and nobody
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Owned(Vec<u8>),
    Shared(Rc<Vec<u8>>),
}

impl Deref for Part {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Part::Owned(bytes) => bytes,
            Part::Shared(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Part {
    fn from(bytes: Vec<u8>) -> Part {
        Part::Owned(bytes)
    }
}

/// The parts of a vectored send, as the kernel reads them.
pub(crate) struct SendParts {
    pub(crate) bufs: Vec<Part>,
    iovecs: Vec<libc::iovec>,
    header: libc::msghdr,
    skip: usize,
}

impl SendParts {
    /// The message of `bufs`, to be aimed.
    pub(crate) fn new(bufs: Vec<Part>) -> Box<SendParts> {
        // SAFETY: *slab-owns*: a `msghdr` of zeros points nowhere, and is valid.
        let header = unsafe { std::mem::zeroed() };
        Box::new(SendParts { iovecs: Vec::with_capacity(bufs.len()), bufs, header, skip: 0 })
    }

    /// Aims the message at what follows the first `skip` bytes: at most [`SEND_BYTES_MAX`] of it.
    pub(crate) fn aim(&mut self, mut skip: usize) {
        let total = self.bufs.iter().map(|buf| buf.len()).sum::<usize>();
        debug_assert!(skip < total, "slab-owns: aimed past {skip} of {total} bytes");
        self.skip = skip;
        self.iovecs.clear();
        let mut room = SEND_BYTES_MAX;
        for buf in &self.bufs {
            let from = skip.min(buf.len());
            skip -= from;
            let rest = &buf[from..];
            let rest = &rest[..rest.len().min(room)];
            if !rest.is_empty() && self.iovecs.len() < libc::UIO_MAXIOV as usize {
                let iov_base = rest.as_ptr() as *mut libc::c_void;
                self.iovecs.push(libc::iovec { iov_base, iov_len: rest.len() });
                room -= rest.len();
            }
        }
        debug_assert!(
            self.iovecs.len() == libc::UIO_MAXIOV as usize
                || self.iovecs.iter().map(|part| part.iov_len).sum::<usize>()
                    == (total - self.skip).min(SEND_BYTES_MAX),
            "slab-owns: the message is not the rest"
        );
        self.header.msg_iov = self.iovecs.as_mut_ptr();
        self.header.msg_iovlen = self.iovecs.len();
    }

    /// How many bytes lie before what it is aimed at.
    pub(crate) fn aimed_past(&self) -> usize {
        self.skip
    }

    pub(crate) fn header(&self) -> *const libc::msghdr {
        &self.header
    }
}

/// What a disk request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskKind {
    Read,
    Write,
    Sync,
}

/// An operation, with everything it needs (*slab-owns*). Results are as the kernel's: a count,
/// a descriptor or 0, or a negated error number.
pub(crate) enum Op {
    /// Reads `len` bytes at `offset` behind what `buf` has, whose capacity suffices.
    Read {
        fd: Rc<Fd>,
        buf: AlignedBuf,
        offset: u64,
        len: usize,
    },
    /// Writes the bytes of `buf` after `skip` at `offset + skip`.
    Write {
        fd: Rc<Fd>,
        buf: AlignedBuf,
        offset: u64,
        skip: usize,
    },
    Sync {
        fd: Rc<Fd>,
    },
    Truncate {
        fd: Rc<Fd>,
        len: u64,
    },
    Allocate {
        fd: Rc<Fd>,
        offset: u64,
        len: u64,
    },
    Open {
        path: CString,
        flags: i32,
        mode: u32,
    },
    Close {
        fd: i32,
    },
    Accept {
        fd: Rc<Fd>,
    },
    Connect {
        fd: Rc<Fd>,
        address: Address,
    },
    /// Appends to the spare capacity of `buf`.
    Receive {
        fd: Rc<Fd>,
        buf: Vec<u8>,
    },
    /// Sends of the bytes of `buf` after `skip` at most [`SEND_BYTES_MAX`].
    Send {
        fd: Rc<Fd>,
        buf: Vec<u8>,
        skip: usize,
    },
    SendParts {
        fd: Rc<Fd>,
        parts: Box<SendParts>,
    },
    /// Waits until the descriptor is readable.
    Readable {
        fd: Rc<Fd>,
    },
}

impl Op {
    /// *slab-owns*: what it points to has the room, and the bytes, that it claims.
    #[inline]
    pub(crate) fn check(&self) {
        match self {
            Op::Read { buf, len, .. } => {
                let room = buf.capacity() - buf.len();
                debug_assert!(*len <= room, "slab-owns: a read of {len} bytes into {room}");
                debug_assert!(*len <= i32::MAX as usize, "a result tells of less than 2 GiB");
            }
            Op::Write { buf, skip, .. } => {
                debug_assert!(*skip < buf.len(), "slab-owns: a write of {skip}..{}", buf.len());
                debug_assert!(buf.len() <= i32::MAX as usize, "a result tells of less than 2 GiB");
            }
            Op::Receive { buf, .. } => {
                debug_assert!(buf.len() < buf.capacity(), "slab-owns: no room to receive into");
            }
            Op::Send { buf, skip, .. } => {
                debug_assert!(*skip < buf.len(), "slab-owns: a send of {skip}..{}", buf.len());
            }
            Op::SendParts { parts, .. } => {
                debug_assert!(!parts.iovecs.is_empty(), "slab-owns: a message that is not aimed");
                debug_assert_eq!(
                    parts.header.msg_iov.cast_const(),
                    parts.iovecs.as_ptr(),
                    "slab-owns: a message that points elsewhere"
                );
            }
            Op::Close { fd } => debug_assert!(0 <= *fd, "fd-outlives-ops: {fd} is closed"),
            Op::Sync { .. }
            | Op::Truncate { .. }
            | Op::Allocate { .. }
            | Op::Open { .. }
            | Op::Accept { .. }
            | Op::Connect { .. }
            | Op::Readable { .. } => {}
        }
    }

    /// The descriptor that it is about, if it is one that lives on.
    pub(crate) fn descriptor(&self) -> Option<&Fd> {
        match self {
            Op::Read { fd, .. }
            | Op::Write { fd, .. }
            | Op::Sync { fd }
            | Op::Truncate { fd, .. }
            | Op::Allocate { fd, .. }
            | Op::Accept { fd }
            | Op::Connect { fd, .. }
            | Op::Receive { fd, .. }
            | Op::Send { fd, .. }
            | Op::SendParts { fd, .. }
            | Op::Readable { fd } => Some(fd),
            Op::Open { .. } | Op::Close { .. } => None,
        }
    }

    /// Whether the I/O queue decides when it goes.
    #[inline]
    pub(crate) fn is_disk_request(&self) -> bool {
        matches!(self, Op::Read { .. } | Op::Write { .. } | Op::Sync { .. })
    }

    /// Whether its result is a descriptor, and of which kind.
    #[inline]
    pub(crate) fn makes(&self) -> Option<FdKind> {
        match self {
            Op::Open { .. } => Some(FdKind::File),
            Op::Accept { .. } => Some(FdKind::Socket),
            _ => None,
        }
    }

    /// What kind of disk request it is.
    #[inline]
    pub(crate) fn disk_kind(&self) -> DiskKind {
        match self {
            Op::Read { .. } => DiskKind::Read,
            Op::Write { .. } => DiskKind::Write,
            _ => DiskKind::Sync,
        }
    }

    /// Bytes moved by a disk request.
    #[inline]
    pub(crate) fn disk_bytes(&self) -> usize {
        match self {
            Op::Read { len, .. } => *len,
            Op::Write { buf, skip, .. } => {
                debug_assert!(*skip <= buf.len(), "slab-owns: {skip} written of {}", buf.len());
                buf.len() - skip
            }
            _ => 0,
        }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Read { .. } => "read",
            Op::Write { .. } => "write",
            Op::Sync { .. } => "sync",
            Op::Truncate { .. } => "truncate",
            Op::Allocate { .. } => "allocate",
            Op::Open { .. } => "open",
            Op::Close { .. } => "close",
            Op::Accept { .. } => "accept",
            Op::Connect { .. } => "connect",
            Op::Receive { .. } => "receive",
            Op::Send { .. } => "send",
            Op::SendParts { .. } => "send parts",
            Op::Readable { .. } => "readable",
        })
    }
}

/// The kernel works on what it is handed to send before it returns: a millisecond for some MiB.
pub(crate) const SEND_BYTES_MAX: usize = 256 << 10;

/// An operation's name: its slot and the slot's generation. What the kernel hands back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpId(pub(crate) u64);

impl OpId {
    /// The largest generation: names are below those that drivers use for themselves.
    pub(crate) const GENERATION_MAX: u32 = 0x3fff_ffff;

    #[inline]
    pub(crate) fn new(slot: usize, generation: u32) -> OpId {
        debug_assert!(slot <= u32::MAX as usize, "slab-owns: slot {slot}");
        debug_assert!(generation <= OpId::GENERATION_MAX, "slab-owns: generation {generation}");
        OpId((generation as u64) << 32 | slot as u64)
    }

    #[inline]
    pub(crate) fn slot(self) -> usize {
        (self.0 & u32::MAX as u64) as usize
    }
}
