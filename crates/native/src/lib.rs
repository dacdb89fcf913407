//! The CQL binary protocol, versions 3 to 5: frames, segments, connections, events, shard
//! awareness. The only crate that knows the wire formats and error codes of CQL clients.
//!
//! In reading order: [`server`] (listeners, and the shard that serves a connection), `ports` (the
//! ports), `proxied` and [`proxy`] (the PROXY protocol), `maintenance` (the maintenance socket),
//! `peer` (the client of a connection), `unauthenticated` (limits of unauthenticated connections),
//! `connection` (one client), `login` (authentication), `intake` (its reading loop), [`admission`]
//! (admission control), `response_memory` (the memory of growing responses), `outbox` (its writing
//! loop), `level` (the scheduling group of both), `request` and `response` (bodies), `frame`,
//! `segment` and `compress` (what carries them).
//!
//! Invariants
//!  - *nobody-else-notices*: invalid input of one client ends in an error to it, or the end of its
//!    connection; other clients are not affected.
//!  - *answered-once*: each request gets one response on its stream, or the connection ends.

pub mod admission;
mod compress;
mod connection;
mod frame;
mod handshake;
mod intake;
mod level;
mod login;
mod maintenance;
mod outbox;
mod peer;
mod ports;
mod proxied;
pub mod proxy;
mod request;
mod response;
mod response_memory;
mod segment;
pub mod server;
mod supported;
mod tally;
#[doc(hidden)]
pub mod testing;
mod unauthenticated;
mod wire;

pub use admission::Limits;
pub use maintenance::Socket;
pub use ports::{Bound, Choice, PortKind, Ports};
pub use server::{Config, Server};
pub use tally::Served;
