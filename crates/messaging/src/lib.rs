//! Messages between nodes: requests, replies, one-way messages and streams of bytes, many at a time
//! over few connections.
//!
//! Lives on: every shard, which dials and serves its own connections. Sees: bytes; it knows no
//! schema, no mutation, no consensus.
//!
//! From the ground up: [`names`] (of nodes, classes, verbs), [`error`], [`frame`] and [`hello`] (the
//! formats, pure), [`compress`].
//!
//! Invariants
//!  - *never-sent-never-handled*, *lost-is-unknown*: see [`error`].
//!  - *both-check*: see [`hello`].
//!  - *foreign-is-damaged*: no bytes of another node make this one panic, loop, or reserve more than
//!    it has said that it takes; the connection that they came by ends.

pub mod compress;
pub mod error;
pub mod frame;
pub mod hello;
pub mod names;
#[doc(hidden)]
pub mod testing;

pub use error::{CallError, Down, Lost, NotSent, Refusal, Refused};
pub use hello::Compression;
pub use names::{Class, HostId, Target, ToShard, Verb};
