//! The system calls behind operations, made directly: by helper threads, and on sockets without
//! ever blocking. Results are counts or descriptors, or negated error numbers.
//!
//! Invariants
//!  - *slab-owns* (of the crate): a [`RawOp`] points into an operation that stays where it is
//!    until its completion was taken in; so it may be carried out, by any thread, before that.
//!  - *valid-places*: where the kernel answers in memory of ours, that lives through the call and
//!    is as large as it is told.
#![allow(unsafe_code, reason = "system calls on memory of operations")]

use super::op::{Op, SEND_BYTES_MAX};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

/// The kernel's answer as an operation's result.
fn result(answer: isize) -> i32 {
    if 0 <= answer {
        debug_assert!(answer <= i32::MAX as isize, "a result tells of less than 2 GiB: {answer}");
        return answer as i32;
    }
    -std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// What offsets and lengths of direct reads of a file must be multiples of: what the kernel tells
/// of it, where that is less than `most`, and `most` elsewhere. Does not touch the disk.
pub(crate) fn direct_alignment(fd: RawFd, most: usize) -> usize {
    debug_assert!(most.is_power_of_two(), "aligned: at most {most}");
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let (of_fd, mask) = (libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN);
    // SAFETY: *valid-places*: the path is a terminated string, and the kernel writes one structure
    // of this type.
    let answer = unsafe { libc::statx(fd, c"".as_ptr(), of_fd, mask, found.as_mut_ptr()) };
    // SAFETY: *valid-places*: it is all integers, and was zeroed.
    let found = unsafe { found.assume_init() };
    let (offset, memory) = (found.stx_dio_offset_align, found.stx_dio_mem_align);
    let told = answer == 0 && found.stx_mask & mask != 0 && 0 < offset && 0 < memory;
    if !told || !offset.is_power_of_two() || most < memory as usize {
        return most;
    }
    let alignment = most.min(offset as usize);
    debug_assert!(most.is_multiple_of(alignment), "aligned: {alignment} does not divide {most}");
    alignment
}

/// An operation as the kernel sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum RawOp {
    Read {
        fd: RawFd,
        at: *mut u8,
        len: usize,
        offset: u64,
    },
    Write {
        fd: RawFd,
        at: *const u8,
        len: usize,
        offset: u64,
    },
    Sync {
        fd: RawFd,
    },
    Truncate {
        fd: RawFd,
        len: u64,
    },
    Allocate {
        fd: RawFd,
        offset: u64,
        len: u64,
    },
    Open {
        path: *const libc::c_char,
        flags: i32,
        mode: u32,
    },
    Close {
        fd: RawFd,
    },
    Accept {
        fd: RawFd,
    },
    Connect {
        fd: RawFd,
        address: *const libc::sockaddr,
        len: libc::socklen_t,
    },
    /// What became of a connect that was in flight.
    Connected {
        fd: RawFd,
    },
    Receive {
        fd: RawFd,
        at: *mut u8,
        len: usize,
    },
    Send {
        fd: RawFd,
        at: *const u8,
        len: usize,
    },
    SendParts {
        fd: RawFd,
        header: *const libc::msghdr,
    },
    Readable {
        fd: RawFd,
    },
}

// SAFETY: by *slab-owns* the pointers stay valid, and nobody else uses what they point to, while
// the operation is in flight.
unsafe impl Send for RawOp {}

impl RawOp {
    pub(super) fn new(op: &mut Op) -> RawOp {
        match op {
            Op::Read { fd, buf, offset, len } => {
                RawOp::Read { fd: fd.raw(), at: buf.spare(*len), len: *len, offset: *offset }
            }
            Op::Write { fd, buf, offset, skip } => {
                let (bytes, offset) = (&buf[*skip..], *offset + *skip as u64);
                RawOp::Write { fd: fd.raw(), at: bytes.as_ptr(), len: bytes.len(), offset }
            }
            Op::Sync { fd } => RawOp::Sync { fd: fd.raw() },
            Op::Truncate { fd, len } => RawOp::Truncate { fd: fd.raw(), len: *len },
            Op::Allocate { fd, offset, len } => {
                RawOp::Allocate { fd: fd.raw(), offset: *offset, len: *len }
            }
            Op::Open { path, flags, mode } => {
                RawOp::Open { path: path.as_ptr(), flags: *flags, mode: *mode }
            }
            Op::Close { fd } => RawOp::Close { fd: *fd },
            Op::Accept { fd } => RawOp::Accept { fd: fd.raw() },
            Op::Connect { fd, address } => {
                let (len, address) = (address.len(), address.as_ptr().cast());
                RawOp::Connect { fd: fd.raw(), address, len }
            }
            Op::Receive { fd, buf } => {
                let spare = buf.spare_capacity_mut();
                RawOp::Receive { fd: fd.raw(), at: spare.as_mut_ptr().cast(), len: spare.len() }
            }
            Op::Send { fd, buf, skip } => {
                let bytes = &buf[*skip..];
                let len = bytes.len().min(SEND_BYTES_MAX);
                RawOp::Send { fd: fd.raw(), at: bytes.as_ptr(), len }
            }
            Op::SendParts { fd, parts } => {
                RawOp::SendParts { fd: fd.raw(), header: parts.header() }
            }
            Op::Readable { fd } => RawOp::Readable { fd: fd.raw() },
        }
    }

    /// The descriptor of a socket operation, and whether it waits to write; `None` for those
    /// that block.
    pub(super) fn socket(self) -> Option<(RawFd, Direction)> {
        match self {
            RawOp::Accept { fd } | RawOp::Receive { fd, .. } | RawOp::Readable { fd } => {
                Some((fd, Direction::In))
            }
            RawOp::Connect { fd, .. }
            | RawOp::Connected { fd }
            | RawOp::Send { fd, .. }
            | RawOp::SendParts { fd, .. } => Some((fd, Direction::Out)),
            _ => None,
        }
    }

    /// Carries it out. Socket operations do not block: -EAGAIN (or -EINPROGRESS for a connect)
    /// says to wait.
    pub(super) fn perform(self) -> i32 {
        const DONT_WAIT: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: *slab-owns*: all pointers are valid for the lengths beside them.
        let answer = unsafe {
            match self {
                RawOp::Read { fd, at, len, offset } => {
                    libc::pread(fd, at.cast(), len, offset as libc::off_t)
                }
                RawOp::Write { fd, at, len, offset } => {
                    libc::pwrite(fd, at.cast(), len, offset as libc::off_t)
                }
                RawOp::Sync { fd } => libc::fdatasync(fd) as isize,
                RawOp::Truncate { fd, len } => libc::ftruncate(fd, len as libc::off_t) as isize,
                RawOp::Allocate { fd, offset, len } => {
                    libc::fallocate(fd, 0, offset as libc::off_t, len as libc::off_t) as isize
                }
                RawOp::Open { path, flags, mode } => libc::open(path, flags, mode) as isize,
                RawOp::Close { fd } => libc::close(fd) as isize,
                RawOp::Accept { fd } => {
                    libc::accept4(fd, ptr::null_mut(), ptr::null_mut(), libc::SOCK_CLOEXEC) as isize
                }
                RawOp::Connect { fd, address, len } => libc::connect(fd, address, len) as isize,
                RawOp::Connected { fd } => return connect_result(fd),
                RawOp::Receive { fd, at, len } => libc::recv(fd, at.cast(), len, DONT_WAIT),
                RawOp::Send { fd, at, len } => libc::send(fd, at.cast(), len, DONT_WAIT),
                RawOp::SendParts { fd, header } => libc::sendmsg(fd, header, DONT_WAIT),
                RawOp::Readable { fd } => return readable(fd),
            }
        };
        result(answer)
    }
}

/// Which readiness a socket operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

fn connect_result(fd: RawFd) -> i32 {
    let mut error: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let at = (&raw mut error).cast();
    // SAFETY: *valid-places*: `error` and `len` are for the answer.
    let answer = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, at, &mut len) };
    match result(answer as isize) {
        0.. => -error,
        errno => errno,
    }
}

fn readable(fd: RawFd) -> i32 {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: *valid-places*: one entry.
    match result(unsafe { libc::poll(&mut poll, 1, 0) } as isize) {
        0 => -libc::EAGAIN,
        other => other,
    }
}

/// A descriptor that an operation or its shard keeps open during a call.
pub(super) fn borrow(fd: &RawFd) -> BorrowedFd<'_> {
    debug_assert!(0 <= *fd, "fd-outlives-ops: {fd} is no descriptor");
    // SAFETY: *fd-outlives-ops* (of the crate's operations): it is open while it is used here.
    unsafe { BorrowedFd::borrow_raw(*fd) }
}

/// Makes the calls on a descriptor return instead of block.
pub(super) fn set_nonblocking(fd: RawFd) {
    // SAFETY: *valid-places*: no memory is passed.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        debug_assert!(0 <= flags, "fd-outlives-ops: {fd} is not open");
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

pub(super) fn truncate(fd: RawFd, len: u64) -> i32 {
    RawOp::Truncate { fd, len }.perform()
}

/// The size of an open file, or an error number.
pub(crate) fn file_len(fd: RawFd) -> Result<u64, i32> {
    // SAFETY: *valid-places*: a `stat` of zeros is one, and the kernel fills it in.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: *valid-places*: `stat` is for the answer.
    match result(unsafe { libc::fstat(fd, &mut stat) } as isize) {
        0.. => Ok(stat.st_size as u64),
        errno => Err(-errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "no shard runs here")]
    fn the_alignment_of_direct_reads_divides_the_most() {
        let executable = std::fs::File::open("/proc/self/exe").unwrap();
        let alignment = direct_alignment(executable.as_raw_fd(), 4096);
        assert!(alignment.is_power_of_two() && alignment <= 4096, "{alignment}");
        // No file at all: nothing is known.
        assert_eq!(direct_alignment(-1, 4096), 4096);
    }
}
