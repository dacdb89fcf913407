//! Waiting for each other on one shard: no atomics, no locks.
//!
//! Invariants
//!  - *fifo*: who waits first is served first.
//!  - *no-lost-unit*: a waiter that is dropped after it was served gives its unit back.

mod channel;
mod gate;
mod notify;
mod semaphore;
mod waiters;

pub use channel::{Closed, Receiver, Sender, TrySend, channel};
pub use channel::{OneshotReceiver, OneshotSender, oneshot};
pub use gate::{Gate, GateClosed, GateGuard};
pub use notify::{Barrier, Notified, Notify};
pub use semaphore::{Acquire, AcquireError, Permit, Semaphore};
