//! TLS 1.2 and 1.3 over connections of the runtime, by rustls.
//!
//! Lives on: the shard of the connection. Sees: bytes, and files of certificates and keys.
//!
//! In reading order: [`options`] (what an operator asks for), `priority` (versions and ciphers),
//! `files` (PEM), [`config`] (both as rustls wants them), [`service`] (which configuration a shard
//! uses now, and its change without a restart), `session` (bytes in, bytes out, no I/O),
//! [`handshake`], [`stream`] (what users hold), [`peer`] (whom a certificate names).
//!
//! Invariants
//!  - *plain-is-free*: a plain [`Stream`] does what its connection does, and nothing more.
//!  - *bounded-handshake*: until its handshake is done a peer holds at most
//!    [`handshake::BYTES_MAX`] of input, and the time that it is given.
//!  - *aside*: the cryptography of a handshake is a helper thread's. Records are the shard's, in
//!    pieces between which others have their turn.
//!  - *sealed-in-order*: what was sealed first leaves first, and all of it before anything else.
//!
//! Keys and nonces come from the operating system's source of random numbers, not from the
//! runtime's, which can be foretold.

pub mod config;
mod files;
pub mod handshake;
pub mod options;
pub mod peer;
mod priority;
pub mod service;
mod session;
pub mod stream;
#[doc(hidden)]
pub mod testing;

pub use options::{ClientAuth, Options};
pub use service::Keeper;
pub use session::Agreed;
pub use stream::Stream;
