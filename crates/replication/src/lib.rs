//! Keeping replicas consistent: coordinated reads and writes, consistency levels, batches,
//! counters.
//!
//! One [`Coordinator`] per shard, in `runtime::local`. Knows mutations, not statements.
//!
//! Invariants
//!  - *owner-only*: a partition is read and written on the shard that its table's tablet map
//!    names, nowhere else.
//!  - *acknowledged-once-durable*: a write is acknowledged when storage has logged it as its sync
//!    mode promises; a batch when all of it is, or is certain to be.
//!  - *ring-order*: a range is read tablet by tablet, in token order.
//!
//!  - *acknowledged-at-level*, *said-uncertain*: what goes to several nodes; see
//!    [`coordinator::nodes`].
//!
//! In reading order: [`rate`], [`options`], [`error`], [`plan`], [`range`], [`counter`], [`paxos`],
//! [`transactions`] (pure); [`digest`], [`stretch`], [`reconcile`], [`sync`], [`wire`] (pure, of
//! several replicas); [`placement`],
//! [`hints`], `epochs` (requests under way), `flock`, `cursor`; [`coordinator`] with what is below
//! it, `sizes`; [`repair`], [`moves`] (nodes that join and leave), [`backups`]; `serve` (what other
//! nodes ask for); [`fragments`] (mutation fragments as they are stored).

pub mod backups;
mod batchlog;
pub mod coordinator;
pub mod counter;
mod cursor;
pub mod digest;
mod epochs;
mod error;
mod flock;
pub mod fragments;
pub mod hints;
pub mod moves;
pub mod options;
pub mod paxos;
pub mod placement;
pub mod plan;
mod planted;
pub mod range;
pub mod rate;
pub mod reconcile;
pub mod repair;
pub mod scan;
mod serve;
mod sizes;
pub mod stretch;
pub mod sync;
pub mod transactions;
mod virtual_read;
pub mod wire;

pub use coordinator::nodes::{Executor, Language, Owner, Proposed, Round};
pub use coordinator::{BatchEntry, Config, Coordinator};
pub use error::{ReadError, WriteError};
pub use options::{BatchKind, Consistency, ReadOptions, Room, Wanted, WriteKind, WriteOptions};
pub use paxos::TransactionId;
pub use rate::{Draw, Limit, Operation, RateLimited};
pub use reader::LocalFuture;
pub use serve::serve;
pub use storage::{AHEAD_MAX, Exceeded};
