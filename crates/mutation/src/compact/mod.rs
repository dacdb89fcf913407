//! Compacting a stream: what covers what, what expired, what may be purged; and, for queries, the
//! limits that end a page. Pure: fragments in, fragments (or a page) out.
//!
//! [`QueryCompactor`] writes a [`crate::page::Page`]; [`CompactionFilter`] keeps what flush and
//! compaction must keep.

mod columns;
mod filter;
mod purge;
mod query;
mod sink;
#[cfg(test)]
mod tests;

pub use filter::{CompactionFilter, OutsideOf};
pub use purge::{Outside, PurgeCounts};
pub use query::{QueryCompactor, RowSteps};
pub use sink::{PartitionSink, Step};
