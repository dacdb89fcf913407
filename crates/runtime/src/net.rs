//! TCP.

use std::fmt;
use std::net::SocketAddr;

/// How to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Lets several sockets, one per shard, share the address; the kernel spreads connections.
    pub reuse_port: bool,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
}

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

/// A listening socket.
#[derive(Debug)]
pub struct TcpListener {}

impl TcpListener {
    /// Listens on `addr`; port 0 takes a free one.
    pub fn bind(addr: SocketAddr, options: ListenOptions) -> Result<TcpListener, NetError> {
        let _ = (addr, options);
        todo!()
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        todo!()
    }

    /// The next connection, with TCP_NODELAY set.
    pub async fn accept(&self) -> Result<(TcpStream, SocketAddr), NetError> {
        todo!()
    }
}

/// A connection. Reading and writing may go on at once; two reads, or two writes, may not.
#[derive(Debug)]
pub struct TcpStream {}

impl TcpStream {
    /// Connects to `addr`, with TCP_NODELAY set.
    pub async fn connect(addr: SocketAddr) -> Result<TcpStream, NetError> {
        let _ = addr;
        todo!()
    }

    /// Appends what has arrived, at least one byte, to the spare capacity of `buf` (at least 4 KiB
    /// are made where it has none); 0 when the peer has ended. The buffer comes back in any case.
    pub async fn read(&self, buf: Vec<u8>) -> (Result<usize, NetError>, Vec<u8>) {
        let _ = buf;
        todo!()
    }

    /// Sends all of `buf`. The buffer comes back in any case.
    pub async fn write_all(&self, buf: Vec<u8>) -> (Result<(), NetError>, Vec<u8>) {
        let _ = buf;
        todo!()
    }

    /// Sends all of `bufs`, in order, in as few packets as possible.
    pub async fn write_all_vectored(
        &self,
        bufs: Vec<Vec<u8>>,
    ) -> (Result<(), NetError>, Vec<Vec<u8>>) {
        let _ = bufs;
        todo!()
    }

    /// Ends our side: the peer reads to the end. With `shutdown_both`, pending reads end too.
    pub fn shutdown(&self) -> Result<(), NetError> {
        todo!()
    }

    /// Ends both sides: pending reads and writes of this connection end.
    pub fn shutdown_both(&self) -> Result<(), NetError> {
        todo!()
    }

    /// Sends small packets at once (the default), or waits to fill them.
    pub fn set_nodelay(&self, nodelay: bool) -> Result<(), NetError> {
        let _ = nodelay;
        todo!()
    }

    /// The address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        todo!()
    }

    /// Our address.
    pub fn local_addr(&self) -> SocketAddr {
        todo!()
    }

    /// Takes the connection off this shard, so that another one can [`DetachedStream::attach`]
    /// it. Nothing may be reading or writing it.
    pub fn detach(self) -> DetachedStream {
        todo!()
    }
}

/// A connection that belongs to no shard; dropping it closes it.
#[derive(Debug)]
pub struct DetachedStream {}

impl DetachedStream {
    /// Makes it a connection of this shard.
    pub fn attach(self) -> TcpStream {
        todo!()
    }
}
