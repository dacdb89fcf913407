//! Messages between nodes: requests, replies, one-way messages and streams of bytes, many at a time
//! over few connections.
//!
//! Lives on: every shard, which dials and serves its own connections. Sees: bytes; it knows no
//! schema, no mutation, no consensus.
//!
//! # In forty lines
//!
//! ```
//! use messaging::{CallError, Class, Config, HostId, Messaging, Payload, Plain, Target, ToShard};
//! use messaging::{Verb, Verbs};
//! use std::{net::SocketAddr, rc::Rc, time::Duration};
//!
//! const ECHO: Verb = Verb::new(1, "ECHO"); // has an answer
//! const NOTE: Verb = Verb::new(2, "NOTE"); // has none
//! const PULL: Verb = Verb::new(3, "PULL"); // is a stream
//!
//! fn begin(host: HostId, life: u64) -> Rc<Messaging> { // on each shard
//!     let mut verbs = Verbs::new();
//!     verbs.on_request(ECHO, |request| async move { Ok(request.take_payload().into()) });
//!     verbs.on_one_way(NOTE, |request| async move { drop(request.take_payload()) });
//!     verbs.on_stream(PULL, |_request, stream| async move {
//!         stream.send(b"chunk").await.map_err(|_| Vec::new()) // then it is finished
//!     });
//!     Messaging::start(Config::new("Test Cluster", host, life), verbs, Rc::new(Plain))
//! }
//!
//! async fn talk(messaging: &Messaging, seed: SocketAddr) -> Result<(), CallError> {
//!     let second = Duration::from_secs(1);
//!     let Ok(reached) = messaging.reach(seed).await else { return Ok(()) }; // who is there?
//!     messaging.set_peer(reached.host, seed); // on each shard that speaks to it
//!     let target = Target::statements(reached.host, ToShard::At(3)); // modulo how many it has
//!     match messaging.call(target, ECHO, b"hello"[..].into(), second).await {
//!         Ok(answer) => assert_eq!(answer, b"hello"),
//!         Err(error) if error.is_nothing_done() => {} // ask another one
//!         Err(CallError::Failed(_words)) => {}        // its handler says no
//!         Err(_) => {}                                // done, or not, or later
//!     }
//!     messaging.send(Target::control(reached.host), NOTE, Payload::empty(), second).await?;
//!     let bulk = Target { class: Class::Bulk, ..target };
//!     let stream = messaging.open(bulk, PULL, Payload::empty(), second).await?;
//!     while let Ok(Some(chunk)) = stream.recv().await {
//!         drop(chunk);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Beside these: `call_for` (without a future), `listen` (on one shard), `ban`, `forget_peer`,
//! `peers`, `changed`, `counters`, `end_callers`,
//! `stop`.
//!
//! # Rooms
//!
//! From the ground up: `names` (of nodes, classes, verbs), `error`, `algorithms`, [`frame`],
//! [`parcel`] and [`hello`] (the formats, pure), [`compress`]; values: `payload`, `config`,
//! `policy`, `budget`, `counters`, `complaints`; the parts of a connection: `intake` (bytes to
//! frames), `outbox` (what is to leave), `packing` (how it travels), `streams`, `calls` (what has
//! no answer yet), `verbs` (the registry), `services` (what connections share); `connection`
//! itself, `shake` (its greetings), `links` (those that we dial), `messaging` (the door).
//!
//! Invariants
//!  - *never-sent-never-handled*, *lost-is-unknown*: see `error`.
//!  - *both-check*: see [`hello`].
//!  - *foreign-is-damaged*: no bytes of another node make this one panic, loop, or reserve more
//!    than it has said that it takes; the connection that they came by ends.
//!  - *bounded-memory*: see `budget`. *both-bounds*, *paused-is-not-dead*: see `connection`.

mod algorithms;
mod budget;
mod calls;
mod complaints;
pub mod compress;
mod config;
mod connection;
mod counters;
mod error;
pub mod frame;
pub mod hello;
mod intake;
mod links;
mod messaging;
mod names;
mod outbox;
mod packing;
pub mod parcel;
mod payload;
mod policy;
mod services;
mod shake;
mod streams;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod verbs;

pub use algorithms::{Algorithms, Compression, LONG_TERM, ZstdRules};
pub use calls::{Caller, Ticket};
pub use config::Config;
pub use counters::{Counters, Packed, PackedWay, VerbCounters};
pub use error::{CallError, Down, Lost, NotSent, Refusal, Refused};
pub use messaging::{Messaging, Peer, PeerState, Reached};
pub use names::{Class, HostId, Target, ToShard, Verb};
pub use payload::{Head, Payload};
pub use policy::{ClientConfig, Dialing, Encrypts, Names, Plain, Policy, ServerConfig};
pub use streams::{Stream, StreamError};
pub use verbs::{Reply, Request, Sender, Verbs};
