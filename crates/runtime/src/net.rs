//! TCP, and Unix domain sockets ([`unix`], [`datagram`]).
//!
//! Invariants
//!  - *as-asked*: a request gives, or takes, no more than it was asked for; one that sends takes
//!    something.
//!  - *shut-at-once*: who drops a listener knows that its port is closed, whatever still waits at
//!    the kernel.
//!  - *one-machine* (of the driver): sockets of a simulated machine never reach the kernel.

pub mod datagram;
pub mod unix;

use crate::core::ops::{close, submit};
use crate::core::{simulated, with};
pub use crate::driver::op::Part;
use crate::driver::op::{Fd, FdKind, Op, SendParts};
pub use crate::error::NetError;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::IntoRawFd;
use std::rc::Rc;
use std::time::Duration;

/// The room a read makes where its buffer has none.
const READ_BYTES_MIN: usize = 4096;

/// The addresses of connections through the file system, which have none.
pub const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// How to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Lets several sockets, one per shard, share the address; the kernel spreads connections.
    pub reuse_port: bool,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
}

/// Keepalive: how silent peers are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Between two probes.
    pub interval: Duration,
    /// Probes without an answer.
    pub probes: u32,
}

/// A listening socket; it listens until it is dropped.
#[derive(Debug)]
pub struct TcpListener {
    fd: Rc<Fd>,
    local: SocketAddr,
}

impl TcpListener {
    /// Listens on `addr`; port 0 takes a free one.
    pub fn bind(addr: SocketAddr, options: ListenOptions) -> Result<TcpListener, NetError> {
        if let Some(machine) = simulated() {
            let (fd, local) = machine.bind(addr, options.reuse_port)?;
            return Ok(TcpListener { fd: Fd::new(fd, FdKind::Simulated), local });
        }
        let bound = bind_real(addr, options);
        let (fd, local) = bound.map_err(|error| NetError::new("bind", Some(addr), &error))?;
        debug_assert_ne!(local.port(), 0, "one-machine: a listener without a port");
        Ok(TcpListener { fd: Fd::new(fd, FdKind::Socket), local })
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next connection that is still there, with TCP_NODELAY set. An error is one of the
    /// listener, or of what the process may have.
    pub async fn accept(&self) -> Result<(TcpStream, SocketAddr), NetError> {
        loop {
            let (result, _) = submit(Op::Accept { fd: self.fd.clone() }, None).await;
            if result < 0 {
                if is_closed_already(-result) {
                    continue;
                }
                return Err(NetError { op: "accept", addr: Some(self.local), errno: -result });
            }
            let stream = if self.fd.is_simulated() {
                TcpStream::simulated(Fd::new(result, FdKind::Simulated))
            } else {
                match TcpStream::real(Fd::new(result, FdKind::Socket)) {
                    Err(error) if is_closed_already(error.errno) => continue,
                    stream => stream?,
                }
            };
            let peer = stream.peer;
            return Ok((stream, peer));
        }
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        // The descriptor lives until the kernel has given back an accept that was cancelled, and
        // would let clients in until then (*shut-at-once*).
        if !self.fd.is_simulated() {
            let shut = borrow(&self.fd).shutdown(Shutdown::Both);
            debug_assert!(shut.is_ok(), "shut-at-once: {} stays open: {shut:?}", self.local);
        }
    }
}

/// Whether an error in accepting is of a connection that was closed already, or that the network
/// has failed: a client that makes many of them must not slow down others. See accept(2).
fn is_closed_already(errno: i32) -> bool {
    use libc::{
        ECONNABORTED, ECONNRESET, EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENONET,
        ENOPROTOOPT, ENOTCONN, EPROTO, ETIMEDOUT,
    };
    let closed = [
        ECONNABORTED,
        ECONNRESET,
        EHOSTDOWN,
        EHOSTUNREACH,
        ENETDOWN,
        ENETUNREACH,
        ENONET,
        ENOPROTOOPT,
        ENOTCONN,
        EPROTO,
        ETIMEDOUT,
    ];
    closed.contains(&errno)
}

fn bind_real(addr: SocketAddr, options: ListenOptions) -> std::io::Result<(i32, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(options.backlog.min(i32::MAX as u32) as i32)?;
    let local = socket.local_addr()?.as_socket().unwrap_or(addr);
    Ok((socket.into_raw_fd(), local))
}

/// A connection, over TCP or through the file system. Reading and writing may go on at once; two
/// reads, or two writes, may not.
#[derive(Debug)]
pub struct TcpStream {
    fd: Rc<Fd>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl TcpStream {
    /// Connects to `addr`, with TCP_NODELAY set.
    pub async fn connect(addr: SocketAddr) -> Result<TcpStream, NetError> {
        let refused = |error: &std::io::Error| NetError::new("connect", Some(addr), error);
        let fd = match simulated() {
            Some(machine) => Fd::new(machine.socket(), FdKind::Simulated),
            None => {
                let domain = Domain::for_address(addr);
                let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP));
                Fd::new(socket.map_err(|e| refused(&e))?.into_raw_fd(), FdKind::Socket)
            }
        };
        let address = Box::new(SockAddr::from(addr));
        let (result, _) = submit(Op::Connect { fd: fd.clone(), address }, None).await;
        if result < 0 {
            return Err(NetError { op: "connect", addr: Some(addr), errno: -result });
        }
        if fd.is_simulated() {
            return Ok(TcpStream::simulated(fd));
        }
        TcpStream::real(fd)
    }

    fn simulated(fd: Rc<Fd>) -> TcpStream {
        debug_assert!(fd.is_simulated(), "one-machine: {fd:?} is of the kernel");
        let machine = simulated().expect("a simulated socket is used on a simulated shard");
        let (local, peer) = machine.addresses(fd.raw());
        TcpStream { fd, local, peer }
    }

    /// A connection through the file system.
    fn nowhere(fd: Rc<Fd>) -> TcpStream {
        TcpStream { fd, local: NOWHERE, peer: NOWHERE }
    }

    /// The address for errors.
    fn named(&self) -> Option<SocketAddr> {
        (self.peer != NOWHERE).then_some(self.peer)
    }

    /// Whether the kernel speaks TCP for it.
    fn is_tcp(&self) -> bool {
        !self.fd.is_simulated() && self.peer != NOWHERE
    }

    fn real(fd: Rc<Fd>) -> Result<TcpStream, NetError> {
        debug_assert!(!fd.is_simulated(), "one-machine: {fd:?} is simulated");
        let socket = borrow(&fd);
        let looked = socket
            .set_tcp_nodelay(true)
            .and_then(|()| Ok((socket.local_addr()?.as_socket(), socket.peer_addr()?.as_socket())));
        match looked {
            Ok((Some(local), Some(peer))) => Ok(TcpStream { fd, local, peer }),
            Ok(_) => Err(NetError { op: "getsockname", addr: None, errno: libc::EAFNOSUPPORT }),
            // The peer may have disconnected already.
            Err(error) => Err(NetError::new("getpeername", None, &error)),
        }
    }

    /// Appends what has arrived, at least one byte, to the spare capacity of `buf` (at least 4 KiB
    /// are made where it has none); 0 when the peer has ended. The buffer comes back in any case.
    pub async fn read(&self, mut buf: Vec<u8>) -> (Result<usize, NetError>, Vec<u8>) {
        if buf.capacity() == buf.len() {
            buf.reserve(READ_BYTES_MIN);
        }
        let before = buf.len();
        let (result, op) = submit(Op::Receive { fd: self.fd.clone(), buf }, None).await;
        let Op::Receive { buf, .. } = op else { unreachable!("an operation comes back") };
        debug_assert!(
            buf.len() == before + result.max(0) as usize,
            "as-asked: {result} for {} bytes",
            buf.len() - before
        );
        // The length was moved as the operation came back.
        (self.check("read", result), buf)
    }

    /// Sends all of `buf`. The buffer comes back in any case.
    pub async fn write_all(&self, mut buf: Vec<u8>) -> (Result<(), NetError>, Vec<u8>) {
        let mut skip = 0;
        while skip < buf.len() {
            let (result, op) = submit(Op::Send { fd: self.fd.clone(), buf, skip }, None).await;
            let Op::Send { buf: back, .. } = op else { unreachable!("an operation comes back") };
            buf = back;
            debug_assert!(result <= (buf.len() - skip) as i32, "as-asked: {result} after {skip}");
            debug_assert_ne!(result, 0, "as-asked: nothing was sent of {}", buf.len());
            match self.check("write", result) {
                Ok(sent) => skip += sent,
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Sends at once what the kernel takes of `bytes`, without waiting: how many that were. Not
    /// while another write is in flight. A simulated network takes nothing that way.
    pub fn try_write(&self, bytes: &[u8]) -> Result<usize, NetError> {
        if self.fd.is_simulated() {
            return Ok(0);
        }
        let sent = borrow(&self.fd).send_with_flags(bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        match sent {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            Ok(sent) => {
                debug_assert!(sent <= bytes.len(), "as-asked: {sent} bytes of {}", bytes.len());
                Ok(sent)
            }
            Err(error) => Err(NetError::new("write", self.named(), &error)),
        }
    }

    /// Sends all of `bufs`, in order, in as few packets as possible.
    pub async fn write_all_vectored(&self, bufs: Vec<Part>) -> (Result<(), NetError>, Vec<Part>) {
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let mut parts = SendParts::new(bufs);
        let mut sent = 0;
        while sent < total {
            parts.aim(sent);
            let (result, op) = submit(Op::SendParts { fd: self.fd.clone(), parts }, None).await;
            let Op::SendParts { parts: back, .. } = op else { unreachable!("it comes back") };
            parts = back;
            debug_assert!(
                result as i64 <= (total - sent) as i64,
                "as-asked: {result} after {sent}"
            );
            debug_assert_ne!(result, 0, "as-asked: nothing was sent of {total}");
            match self.check("write", result) {
                Ok(more) => sent += more,
                Err(error) => return (Err(error), parts.bufs),
            }
        }
        (Ok(()), parts.bufs)
    }

    /// Ends our side: the peer reads to the end.
    pub fn shutdown(&self) -> Result<(), NetError> {
        self.shut(Shutdown::Write)
    }

    /// Ends both sides: pending reads and writes of this connection end.
    pub fn shutdown_both(&self) -> Result<(), NetError> {
        self.shut(Shutdown::Both)
    }

    fn shut(&self, how: Shutdown) -> Result<(), NetError> {
        if self.fd.is_simulated() {
            let machine = simulated().expect("a simulated socket is used on a simulated shard");
            return self.check("shutdown", machine.shutdown(self.fd.raw(), how)).map(drop);
        }
        let done = borrow(&self.fd).shutdown(how);
        done.map_err(|error| NetError::new("shutdown", self.named(), &error))
    }

    /// Sends small packets at once (the default), or waits to fill them.
    pub fn set_nodelay(&self, nodelay: bool) -> Result<(), NetError> {
        if !self.is_tcp() {
            return Ok(());
        }
        let done = borrow(&self.fd).set_tcp_nodelay(nodelay);
        done.map_err(|error| NetError::new("setsockopt", self.named(), &error))
    }

    /// Has the kernel ask a silent peer whether it is there, and end the connection when it is not,
    /// or takes nothing that is sent for as long. A simulated network tells by itself, and so does
    /// the file system.
    pub fn set_keepalive(&self, keepalive: Keepalive) -> Result<(), NetError> {
        if !self.is_tcp() {
            return Ok(());
        }
        let Keepalive { idle, interval, probes } = keepalive;
        let asked =
            TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(probes);
        let socket = borrow(&self.fd);
        let done = socket
            .set_tcp_keepalive(&asked)
            .and_then(|()| socket.set_tcp_user_timeout(Some(idle + interval * probes)));
        done.map_err(|error| NetError::new("setsockopt", self.named(), &error))
    }

    /// The address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Our address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Takes the connection off this shard, so that another one can [`DetachedStream::attach`]
    /// it. Panics when a read or write of it is in flight, an abandoned one included.
    pub fn detach(self) -> DetachedStream {
        let kind = if self.fd.is_simulated() { FdKind::Simulated } else { FdKind::Socket };
        if kind == FdKind::Socket {
            with(|shard| shard.driver.borrow_mut().forget_socket(self.fd.raw()));
        }
        let Ok(raw) = Fd::into_owned(self.fd) else {
            panic!("{} is detached while it is read or written", self.peer)
        };
        DetachedStream { raw, kind, local: self.local, peer: self.peer }
    }

    fn check(&self, op: &'static str, result: i32) -> Result<usize, NetError> {
        let addr = self.named();
        usize::try_from(result).map_err(|_| NetError { op, addr, errno: -result })
    }
}

/// What protocols are spoken over: a connection, or one that encrypts what goes through it.
/// Reading and writing may go on at once; two reads, or two writes, may not.
#[allow(async_fn_in_trait, reason = "a shard's futures are its own: none has to be Send")]
pub trait Stream: 'static {
    /// Appends what has arrived, at least one byte, to the spare capacity of `buf`, or to some that
    /// is made; 0 when the peer has ended. The buffer comes back in any case.
    async fn read(&self, buf: Vec<u8>) -> (Result<usize, NetError>, Vec<u8>);

    /// Sends all of `buf`. The buffer comes back in any case.
    async fn write_all(&self, buf: Vec<u8>) -> (Result<(), NetError>, Vec<u8>);

    /// Ends our side: the peer reads to the end.
    fn shutdown(&self) -> Result<(), NetError>;

    /// The address of the peer.
    fn peer_addr(&self) -> SocketAddr;
}

impl Stream for TcpStream {
    async fn read(&self, buf: Vec<u8>) -> (Result<usize, NetError>, Vec<u8>) {
        TcpStream::read(self, buf).await
    }

    async fn write_all(&self, buf: Vec<u8>) -> (Result<(), NetError>, Vec<u8>) {
        TcpStream::write_all(self, buf).await
    }

    fn shutdown(&self) -> Result<(), NetError> {
        TcpStream::shutdown(self)
    }

    fn peer_addr(&self) -> SocketAddr {
        TcpStream::peer_addr(self)
    }
}

/// A real descriptor as a socket, for calls that do not block.
fn borrow(fd: &Rc<Fd>) -> SockRef<'_> {
    SockRef::from(&**fd)
}

/// A connection that belongs to no shard; dropping it closes it.
#[derive(Debug)]
pub struct DetachedStream {
    raw: i32,
    kind: FdKind,
    local: SocketAddr,
    peer: SocketAddr,
}

impl DetachedStream {
    /// Makes it a connection of this shard.
    pub fn attach(self) -> TcpStream {
        debug_assert_eq!(
            self.kind == FdKind::Simulated,
            simulated().is_some(),
            "one-machine: {} is attached elsewhere",
            self.peer
        );
        let fd = Fd::new(self.raw, self.kind);
        let (local, peer) = (self.local, self.peer);
        std::mem::forget(self);
        TcpStream { fd, local, peer }
    }

    /// The address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }
}

impl Drop for DetachedStream {
    fn drop(&mut self) {
        close(self.raw, self.kind);
    }
}
