//! The runtime: one pinned reactor per shard, its tasks, timers, files and sockets.
//!
//! Nothing above this crate reads a clock, draws a random number, opens a file or a socket, or
//! starts a thread by any other way. So the same code runs on the machine and, unchanged, as many
//! nodes of many shards in one thread from one seed ([`sim`]).
//!
//! From the ground up: values (`error`, `buffer`, [`Erased`] futures, [`Config`]) and clocks;
//! `helpers` (threads for what blocks); [`sync`] (waiting for each other); `remote` (a shard as
//! other threads see it); `driver` (the back ends: io_uring, epoll, a simulated machine); `core` (a
//! shard's tasks, timers and operations); then what its tasks see: [`local`], `offload`, [`time`],
//! [`task`], [`group`], `random`, [`io`], [`net`], [`signal`], `cross` ([`on_shard`]), [`pieces`],
//! [`injection`], [`counters`]; and on top who makes shards: `shards` ([`run`]), [`sim`],
//! [`testing`].
//!
//! Invariants
//!  - *one-owner*: a task, a file, a socket belongs to one shard and is touched by it alone.
//!  - *slab-owns*: what the kernel may still read or write (buffers, paths, addresses,
//!    descriptors) lives in the shard's op slab until the operation's last completion.
//!  - *word-wakers*: a waker is a word (shard, generation, slot); a stale one is harmless.
//!
//! This crate knows no database: it never looks into the bytes that pass through it.

pub mod counters;
pub mod group;
pub mod injection;
pub mod io;
pub mod local;
pub mod net;
pub mod pieces;
pub mod signal;
pub mod sim;
pub mod sync;
pub mod task;
pub mod testing;
pub mod time;

mod buffer;
mod clock;
mod config;
mod core;
mod cross;
mod driver;
mod erased;
mod error;
mod helpers;
mod offload;
mod random;
mod remote;
mod shards;

pub use config::{Backend, Config, DirectIo, Pin, ShardId, StartError};
pub use cross::{on_all_shards, on_shard};
pub use erased::Erased;
pub use random::{random_secret, random_u64, with_prng};
pub use shards::{current_shard, run, shard_count, shard_id, stalls};
