//! The trie index of `ms`, `mt` and `da`: Partitions.db from keys to partitions, and in Rows.db,
//! for each partition of two blocks or more, a trie from clustering positions to blocks
//! (storage-format reference, section 12). Nothing of it is held in memory but its footer.
//!
//! In reading order: [`node`] (bytes of a node), [`key`] (keys whose bytes are ordered), [`build`]
//! (tries written from sorted keys, page by page), `walk` (steps from entry to entry), [`rows`]
//! (Rows.db) with `cursor`, [`partitions`] (Partitions.db),
//! and `whole` for fuzzing.

pub mod build;
mod cursor;
pub mod key;
pub mod node;
pub mod partitions;
pub mod rows;
mod walk;
mod whole;

pub use cursor::RowsCursor;
pub use partitions::{TrieEntries, TrieIndex};
pub use rows::RowsAt;
pub(crate) use whole::{parse_partitions, parse_rows};
