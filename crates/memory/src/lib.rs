//! Memory: the allocator of the process with its counters, and the arena of a shard's row cache.
//! Knows nothing of what it stores.
//!
//! [`Allocator`] is jemalloc that counts; [`counts`] tells what this thread asked for, and
//! [`backed_bytes`] what the system gave it for that. [`Arena`]
//! holds byte strings that may be moved, and gives whole segments back when told to hold less;
//! [`prefetch`] asks for a line of memory ahead of its use.

mod allocator;
mod arena;
mod heap;
mod prefetch;
mod region;

pub use allocator::{Allocator, Counts, counts, live_bytes};
pub use arena::{Age, Arena, ArenaStats, Handle, SEGMENT_BYTES, Verdict, Victim};
pub use heap::{backed_bytes, zeroed};
pub use prefetch::{prefetch, prefetch_all};
