//! Unix domain sockets: the permissions of the file decide who may connect.
//!
//! Invariants
//!  - *never-too-open*: no client can connect before the file has its mode and its group.
//!  - *live-stays*: a file that a process listens on is left as it is; one that was left behind
//!    by a process that died is replaced.
//!  - *own-file*: closing removes the file that was made, not one that has taken its place.
//!
//! Operations on the file system run on a helper thread. A simulated node keeps such sockets
//! beside its disk: their names are not files there.
#![allow(unsafe_code, reason = "groups by name, and who is at the other end")]

use super::{NetError, TcpStream};
use crate::core::ops::submit;
use crate::core::simulated;
use crate::driver::op::{Fd, FdKind, Op};
use crate::offload::offload;
use socket2::{Domain, SockAddr, Socket, Type};
use std::ffi::CString;
use std::fmt;
use std::io::{Error, ErrorKind};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The longest path: the kernel has room for one byte more, which ends it.
pub const PATH_BYTES_MAX: usize = 107;
/// A group of thousands of members has more to say than its number.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// How to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixOptions {
    /// Who may connect, as `chmod` has it.
    pub mode: u32,
    /// The name or the number of the group that the file belongs to; `None`: that of the process.
    pub group: Option<String>,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
}

/// Why the socket cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnixError {
    /// So many bytes.
    TooLong(usize),
    /// The file is not a socket.
    NoSocket,
    /// Another process is listening on it.
    Live,
    /// There is no group of this name.
    NoGroup(String),
    /// What was tried, and the kernel's error number.
    Kernel(&'static str, i32),
}

impl UnixError {
    fn kernel(op: &'static str, error: &Error) -> UnixError {
        UnixError::Kernel(op, error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Display for UnixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnixError::TooLong(bytes) => {
                write!(
                    f,
                    "path of {bytes} bytes is longer than the limit of {PATH_BYTES_MAX} for sockets"
                )
            }
            UnixError::NoSocket => f.write_str("the file exists and is not a socket"),
            UnixError::Live => f.write_str("another process is listening on it"),
            UnixError::NoGroup(name) => write!(f, "there is no group {name}"),
            UnixError::Kernel(op, errno) => write!(f, "{op}: {}", Error::from_raw_os_error(*errno)),
        }
    }
}
impl std::error::Error for UnixError {}

/// The client of a connection, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub user: u32,
    pub process: i32,
}

/// A file's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// A listening socket.
#[derive(Debug)]
pub struct UnixListener {
    fd: Rc<Fd>,
    path: PathBuf,
    /// Of its file; `None` on a simulated node.
    identity: Option<Identity>,
}

impl UnixListener {
    /// Listens at `path`.
    pub async fn bind(path: &Path, options: UnixOptions) -> Result<UnixListener, UnixError> {
        debug_assert!(options.mode <= 0o777, "never-too-open: mode {:o}", options.mode);
        let bytes = path.as_os_str().len();
        if PATH_BYTES_MAX < bytes {
            return Err(UnixError::TooLong(bytes));
        }
        let path = path.to_path_buf();
        if let Some(machine) = simulated() {
            let fd = machine.bind_path(&path).ok_or(UnixError::Live)?;
            return Ok(UnixListener { fd: Fd::new(fd, FdKind::Simulated), path, identity: None });
        }
        let at = path.clone();
        let (socket, identity) = offload(move || bind_real(&at, &options)).await?;
        let fd = Fd::new(socket.into_raw_fd(), FdKind::Socket);
        Ok(UnixListener { fd, path, identity: Some(identity) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection. Its addresses are [`super::NOWHERE`].
    pub async fn accept(&self) -> Result<TcpStream, NetError> {
        let (result, _) = submit(Op::Accept { fd: self.fd.clone() }, None).await;
        if result < 0 {
            return Err(NetError { op: "accept", addr: None, errno: -result });
        }
        let kind = if self.fd.is_simulated() { FdKind::Simulated } else { FdKind::Socket };
        Ok(TcpStream::nowhere(Fd::new(result, kind)))
    }

    /// Listens no longer, and removes the file (*own-file*).
    pub async fn close(self) {
        let is_file = !self.fd.is_simulated();
        debug_assert_eq!(
            self.identity.is_some(),
            is_file,
            "own-file: nobody knows {:?}",
            self.path
        );
        let Some(identity) = self.identity else {
            if let Some(machine) = simulated() {
                machine.unlink_path(&self.path);
            }
            return;
        };
        let path = self.path.clone();
        offload(move || {
            if identity_of(&path).is_ok_and(|found| found == identity) {
                // If it was removed meanwhile, nothing is left to do.
                let _ = std::fs::remove_file(&path);
            }
        })
        .await;
    }
}

impl TcpStream {
    /// Connects to the socket at `path`.
    pub async fn connect_unix(path: &Path) -> Result<TcpStream, NetError> {
        let refused = |errno| NetError { op: "connect", addr: None, errno };
        let (fd, address) = match simulated() {
            Some(machine) => {
                let address = machine.address_of_path(path).ok_or(refused(libc::ENOENT))?;
                (Fd::new(machine.socket(), FdKind::Simulated), SockAddr::from(address))
            }
            None => {
                let failed = |error: Error| NetError::new("connect", None, &error);
                let address = SockAddr::unix(path).map_err(failed)?;
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
                (Fd::new(socket.into_raw_fd(), FdKind::Socket), address)
            }
        };
        let connect = Op::Connect { fd: fd.clone(), address: Box::new(address) };
        let (result, _) = submit(connect, None).await;
        if result < 0 { Err(refused(-result)) } else { Ok(TcpStream::nowhere(fd)) }
    }

    /// Who is at the other end of a socket in the file system; `None` where that is not known.
    pub fn credentials(&self) -> Option<Credentials> {
        if self.fd.is_simulated() || self.peer != super::NOWHERE {
            return None;
        }
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: *fd-outlives-ops*: the descriptor is open; the kernel writes at most `bytes`
        // bytes, which is what `found` has.
        let answer = unsafe {
            let at = (&raw mut found).cast();
            libc::getsockopt(self.fd.raw(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut bytes)
        };
        debug_assert_eq!(bytes as usize, size_of::<libc::ucred>(), "fd-outlives-ops: another kind");
        (answer == 0).then_some(Credentials { user: found.uid, process: found.pid })
    }
}

fn identity_of(path: &Path) -> std::io::Result<Identity> {
    let found = std::fs::symlink_metadata(path)?;
    Ok(Identity { device: found.dev(), inode: found.ino() })
}

fn bind_real(path: &Path, options: &UnixOptions) -> Result<(OwnedFd, Identity), UnixError> {
    let failed = |op| move |error: Error| UnixError::kernel(op, &error);
    let group = options.group.as_deref().map(group_number).transpose()?;
    make_room(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed("socket"))?;
    let address = SockAddr::unix(path).map_err(failed("bind"))?;
    socket.bind(&address).map_err(failed("bind"))?;
    // *never-too-open*: who connects before `listen` is refused.
    let opened = chown(path, None, group).map_err(failed("chown")).and_then(|()| {
        let mode = std::fs::Permissions::from_mode(options.mode);
        std::fs::set_permissions(path, mode).map_err(failed("chmod"))?;
        let backlog = options.backlog.min(i32::MAX as u32) as i32;
        socket.listen(backlog).map_err(failed("listen"))?;
        identity_of(path).map_err(failed("stat"))
    });
    match opened {
        Ok(identity) => Ok((socket.into(), identity)),
        Err(error) => {
            let _ = std::fs::remove_file(path);
            Err(error)
        }
    }
}

/// *live-stays*.
fn make_room(path: &Path) -> Result<(), UnixError> {
    let failed = |op| move |error: Error| UnixError::kernel(op, &error);
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(UnixError::kernel("stat", &error)),
        Ok(found) if !found.file_type().is_socket() => return Err(UnixError::NoSocket),
        Ok(_) => {}
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed("socket"))?;
    probe.set_nonblocking(true).map_err(failed("socket"))?;
    let address = SockAddr::unix(path).map_err(failed("connect"))?;
    match probe.connect(&address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed("remove the socket of a dead process"))
        }
        // Its backlog is full, so it is there.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(UnixError::Live),
        Err(error) => Err(UnixError::kernel("connect", &error)),
        Ok(()) => Err(UnixError::Live),
    }
}

/// The number of a group, given by name or by number.
fn group_number(group: &str) -> Result<u32, UnixError> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let none = || UnixError::NoGroup(group.to_owned());
    let name = CString::new(group).map_err(|_| none())?;
    let mut room = vec![0u8; 4096];
    loop {
        // SAFETY: *valid-places* (of the driver's calls): a `group` of zeros is an empty one.
        let mut found: libc::group = unsafe { std::mem::zeroed() };
        let mut result = std::ptr::null_mut();
        // SAFETY: *valid-places*: all pointers are valid during the call, `room` for as many bytes
        // as are told; of what is written only the number is used.
        let errno = unsafe {
            let (at, bytes) = (room.as_mut_ptr().cast(), room.len());
            libc::getgrnam_r(name.as_ptr(), &raw mut found, at, bytes, &raw mut result)
        };
        match errno {
            libc::ERANGE if room.len() < GROUP_BYTES_MAX => room.resize(2 * room.len(), 0),
            0 if !result.is_null() => return Ok(found.gr_gid),
            0 | libc::ENOENT | libc::ESRCH => return Err(none()),
            errno => return Err(UnixError::Kernel("getgrnam", errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_known_by_name_and_by_number() {
        assert_eq!(group_number("root"), Ok(0));
        assert_eq!(group_number("77"), Ok(77));
        for unknown in ["no such group", "", "a\0b", "-1"] {
            assert_eq!(group_number(unknown), Err(UnixError::NoGroup(unknown.to_owned())));
        }
    }
}
