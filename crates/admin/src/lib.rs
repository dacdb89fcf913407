//! What operators ask of a node over HTTP: the REST API, for `nodetool` and harnesses too, and
//! metrics for Prometheus.
//!
//! In reading order: [`Server`] (listens, on shard 0), `http` (a connection), `call` (a request
//! and its answer), `guard` (what browsers send for other sites is refused), `rest` (which request
//! is what, and what it does), [`console`] (a page for operators), [`metrics`].
//!
//! Invariants
//!  - *asks-the-owner*: shard 0 serves; what belongs to shards is asked of each of them.
//!  - *bounded*: so many connections at a time, so many bytes of a request.
//!
//! This crate knows no CQL and no other node. It has no authentication: the loopback address
//! is where it belongs, and pages of other sites are kept away (`guard`).

pub mod console;
pub mod metrics;

mod call;
mod guard;
mod guests;
mod http;
mod rest;
mod server;
mod tasks;

pub use guard::Guard;
pub use rest::{Door, Giver, Handed, Handoff, Loggers, Mode, Moved, Moves, NodeMode, Rest, Taken};
pub use rest::{RepairJob, Repairs, Transport, Verified, ViewJob, Wanted};
pub use server::{Config, Server, Service};
