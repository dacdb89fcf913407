//! HTTP/1.1 over connections of the runtime: a thin coat for hyper, which parses and writes.
//!
//! In reading order: [`Socket`] (a connection as hyper wants it, for servers), [`Client`] (asks a
//! server, as tools ask the REST API of a node).
//!
//! Invariants
//!  - *one-each-way*: at most one read and one write of a connection are under way.
//!  - *bounded*: an answer has so many bytes and so much time, or it is none.
//!
//! This crate knows no database: neither what is asked nor what an answer means.

mod client;
mod socket;

pub use client::{Client, Method, Reply, Request, reason};
pub use socket::Socket;
