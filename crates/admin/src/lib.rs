//! The administrative API: HTTP with JSON, for operators, `nodetool` and harnesses.
//!
//! In reading order: [`Server`] (listens, on shard 0), [`http`] (a connection), `rest` (which
//! request is what, and what it does).
//!
//! Invariants
//!  - *asks-the-owner*: shard 0 serves; what belongs to shards is asked of each of them.
//!  - *bounded*: so many connections at a time, so many bytes of a request.
//!
//! This crate knows no CQL and no other node. It has no authentication: it listens on the loopback
//! address unless the operator says otherwise.

mod http;
mod rest;
mod server;

pub use rest::Door;
pub use server::{Config, Server};
