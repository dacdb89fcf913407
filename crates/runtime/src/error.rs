//! What the kernel refused: the operation, what it was about, and the reason.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A failed file operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    /// What was tried: "open", "read", "fdatasync", ..
    pub op: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The kind of `errno`.
    pub kind: std::io::ErrorKind,
    /// The kernel's error number; 0 where it was not the kernel who refused.
    pub errno: i32,
}

impl IoError {
    /// The error `errno` of `op` on `path`.
    pub fn from_errno(op: &'static str, path: &Path, errno: i32) -> IoError {
        debug_assert!(0 < errno, "an error has the kernel's number, not {errno}");
        let kind = std::io::Error::from_raw_os_error(errno).kind();
        IoError { op, path: path.to_path_buf(), kind, errno }
    }

    /// No space is left on the device, or a quota is used up.
    pub fn is_full_disk(&self) -> bool {
        matches!(self.errno, libc::ENOSPC | libc::EDQUOT)
    }

    /// The path names nothing.
    pub fn is_not_found(&self) -> bool {
        self.errno == libc::ENOENT
    }

    /// The path exists and should not.
    pub fn is_already_exists(&self) -> bool {
        self.errno == libc::EEXIST
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.errno {
            0 => write!(f, "{} {path}: {}", self.op, self.kind),
            errno => {
                write!(f, "{} {path}: {}", self.op, std::io::Error::from_raw_os_error(errno))
            }
        }
    }
}
impl std::error::Error for IoError {}

/// A failed network operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetError {
    /// What was tried: "bind", "connect", "read", ..
    pub op: &'static str,
    /// The address concerned, where known.
    pub addr: Option<SocketAddr>,
    /// The kernel's error number.
    pub errno: i32,
}

impl NetError {
    pub(crate) fn new(
        op: &'static str,
        addr: Option<SocketAddr>,
        error: &std::io::Error,
    ) -> NetError {
        NetError { op, addr, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// The kind of the error.
    pub fn kind(&self) -> std::io::ErrorKind {
        std::io::Error::from_raw_os_error(self.errno).kind()
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op)?;
        if let Some(addr) = self.addr {
            write!(f, " {addr}")?;
        }
        write!(f, ": {}", std::io::Error::from_raw_os_error(self.errno))
    }
}
impl std::error::Error for NetError {}
