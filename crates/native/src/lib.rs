//! The CQL binary protocol, versions 3 to 5: frames, segments, connections, events, shard
//! awareness. The only crate that knows the wire formats and error codes of CQL clients.
//!
//! In reading order: [`server`] (listeners, where a connection goes), `doors` (the ports),
//! `introduction` and [`proxy`] (what proxies say of clients), `maintenance` (the socket without a
//! login), `peer` (who is at the other end), `connection` (one client), `login` (who it is),
//! `intake` (its reading loop), [`admission`] (what is let in), `gathering` (what requests gather
//! before they answer), `outbox` (its writing loop),
//! `level` (the scheduling group of both), `request` and `response` (bodies), `frame`, `segment`
//! and `compress` (what carries them).
//!
//! Invariants
//!  - *nobody-else-notices*: what one client sends wrong ends in an error to it, or the end of its
//!    connection; never more.
//!  - *answered-once*: each request gets one response on its stream, or the connection ends.

pub mod admission;
mod compress;
mod connection;
mod doors;
mod frame;
mod gathering;
mod handshake;
mod intake;
mod introduction;
mod level;
mod login;
mod maintenance;
mod outbox;
mod peer;
pub mod proxy;
mod request;
mod response;
mod segment;
pub mod server;
mod strangers;
mod supported;
mod tally;
#[doc(hidden)]
pub mod testing;
mod wire;

pub use admission::Limits;
pub use doors::{Bound, Choice, Door, Ports};
pub use maintenance::Socket;
pub use server::{Config, Server};
pub use tally::Served;
