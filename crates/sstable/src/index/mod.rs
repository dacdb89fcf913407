//! Where partitions are: Index.db ([`entry`], [`promoted`]) and its sample in memory
//! ([`summary`]).

pub mod entry;
pub mod promoted;
pub mod reader;
pub mod summary;
pub mod trie;
