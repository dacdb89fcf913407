#![allow(unsafe_code)]
//! The system calls behind operations, made directly: for helper threads and for sockets that
//! never block. Results are counts or descriptors, or negated error numbers.

use std::os::fd::RawFd;

/// The kernel's answer as an operation's result.
pub(super) fn result(answer: isize) -> i32 {
    if 0 <= answer {
        return answer as i32;
    }
    -std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

pub(super) fn truncate(fd: RawFd, len: u64) -> i32 {
    // SAFETY: no memory is passed.
    result(unsafe { libc::ftruncate(fd, len as libc::off_t) } as isize)
}

/// The size of an open file, or an error number.
pub(crate) fn file_len(fd: RawFd) -> Result<u64, i32> {
    // SAFETY: a `stat` of zeros is valid, and the kernel fills it in.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is a valid place for the answer.
    match result(unsafe { libc::fstat(fd, &mut stat) } as isize) {
        0.. => Ok(stat.st_size as u64),
        errno => Err(-errno),
    }
}
