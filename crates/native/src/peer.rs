//! The client at the other end of a connection.

use query::Session;
use runtime::net::NOWHERE;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The client at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A client over TCP, and its address, as its proxy reports it, if it has one.
    Client(SocketAddr),
    /// A client of the maintenance socket, on this machine.
    Maintenance,
}

impl Peer {
    /// Its address; none for clients of the maintenance socket.
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
