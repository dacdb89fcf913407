//! Who is at the other end of a connection.

use query::Session;
use std::fmt;
use std::net::SocketAddr;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A client over TCP, and where it is.
    Client(SocketAddr),
    /// Somebody on this machine whom the maintenance socket lets in.
    Maintenance,
}

impl Peer {
    /// What it is to the processor.
    pub(crate) fn session(self) -> Session {
        match self {
            Peer::Client(address) => Session::new(address),
            Peer::Maintenance => Session::maintenance(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Client(address) => address.fmt(f),
            Peer::Maintenance => f.write_str("of the maintenance socket"),
        }
    }
}
