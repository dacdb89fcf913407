//! Who is at the other end of a connection.

use query::Session;
use runtime::net::NOWHERE;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A client over TCP, and where it is, by what its proxy says, if it has one.
    Client(SocketAddr),
    /// Somebody on this machine whom the maintenance socket lets in.
    Maintenance,
}

impl Peer {
    /// Where it is; nowhere for who came through the file system.
    pub(crate) fn ip(self) -> IpAddr {
        match self {
            Peer::Client(address) => address.ip(),
            Peer::Maintenance => NOWHERE.ip(),
        }
    }

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
