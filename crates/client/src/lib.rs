//! A client of the CQL binary protocol, version 4, for tools that ask much of a node: many
//! requests in flight on a connection, a connection to each shard, statements prepared where they
//! are needed.
//!
//! Lives on: the shard that opened it. Sees: requests and answers. It knows the wire form of both,
//! and nothing of files or of what rows mean.
//!
//! In reading order: [`target`] (where a node is, and how to log in), [`request`] (bodies of
//! requests), [`answer`] and `types` (bodies of answers), [`connection`] (one socket), [`pool`] (a
//! connection for each shard of a node).
//!
//! Invariants
//!  - *bounded*: a connection has at most [`connection::REQUESTS_MAX`] requests in flight; who asks
//!    for more waits.
//!  - *one-answer*: each request ends once, by its own answer or by the loss of its connection.
//!  - *checked*: what a server sends is read by a checked cursor; what breaks the protocol ends the
//!    connection.

pub mod answer;
pub mod connection;
pub mod pool;
pub mod request;
pub mod target;
mod types;

pub use answer::{Column, Prepared, Rows};
pub use connection::{Connection, Failure};
pub use pool::{Pool, Sharding};
pub use target::{Login, Target};
