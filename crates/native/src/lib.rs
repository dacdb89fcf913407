//! The CQL binary protocol, versions 3 to 5: frames, segments, connections, events, shard
//! awareness. The only crate that knows the wire formats and error codes of CQL clients.
//!
//! From the ground up: `wire`, `frame`, `compress` and `segment` (what carries bodies), `request`
//! and `response` (bodies), `supported` (what drivers are told), `ports` and [`proxy`] (where
//! clients come in, the PROXY protocol), `peer` (the client of a connection), `tally` (requests by
//! scheduling group), `handshake`, `unauthenticated` and `failed_logins` (limits of who is not
//! logged in), [`admission`] (admission control), `outbox` (the writing loop), `service` (what the
//! connections of a shard share), `connection` (one client: its reading loop, login, scheduling
//! group, the memory of its growing responses), [`server`] (listeners, the maintenance socket, and
//! the shard that serves a connection).
//!
//! Invariants
//!  - *nobody-else-notices*: invalid input of one client ends in an error to it, or the end of its
//!    connection; other clients are not affected.
//!  - *answered-once*: each request gets one response on its stream, or the connection ends.

pub mod admission;
mod compress;
mod connection;
mod failed_logins;
mod frame;
mod handshake;
mod outbox;
mod peer;
mod ports;
pub mod proxy;
mod request;
mod response;
mod segment;
pub mod server;
mod service;
mod supported;
mod tally;
#[doc(hidden)]
pub mod testing;
mod unauthenticated;
mod wire;

pub use admission::Limits;
pub use connection::Stage;
pub use ports::{Bound, Choice, PortKind, Ports};
pub use server::{Server, Socket};
pub use service::Config;
pub use tally::Served;
