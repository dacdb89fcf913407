//! Where partitions are, and where rows are within large ones.
//!
//! In order from the ground up: [`block`] and `pages` (what steps answer, and what they are taken
//! on), [`ordinal`]; of the big format Index.db ([`entry`], [`promoted`], `feed`), its sample in
//! memory ([`summary`]), lookups in both ([`big`]) and in promoted indexes (`search`); of the trie
//! formats [`trie`]; blocks that a scan found (`scanned`). [`cursor`] finds blocks of rows whatever
//! the format, and this module partitions.
//!
//! Invariants
//!  - *confirmed*: a partition that is located with its key is the one that was asked for.

pub mod big;
pub mod block;
pub mod cursor;
pub mod entry;
mod feed;
pub mod ordinal;
mod pages;
pub mod promoted;
pub(crate) mod scanned;
pub(crate) mod search;
pub mod summary;
pub mod trie;

pub use big::{BigEntries, BigIndex};

use crate::cache::{Access, PromotedAt};
use crate::index::trie::{RowsAt, TrieEntries, TrieIndex};
use model::{DecoratedKey, Token, token};
use mutation::page::RingBound;
use reader::ReadError;
use std::rc::Rc;
use stdx::Bytes;

/// A partition key as it is looked up in many SSTables: hashed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The key with its token.
    pub key: DecoratedKey,
    /// Both words of its murmur3 hash, for filters.
    pub hash: (u64, u64),
}

impl Lookup {
    /// Hashes a key.
    #[inline]
    pub fn new(key: Bytes) -> Lookup {
        let hash = token::murmur3(&key);
        debug_assert!(Token::of_hash(hash) == Token::of(&key), "confirmed: a key's own token");
        Lookup { key: DecoratedKey { token: Token::of_hash(hash), key }, hash }
    }
}

/// What an index knows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The partition. `None` where the index cannot confirm it: then the head in Data.db decides,
    /// and another key there means that the partition asked for is absent.
    pub key: Option<DecoratedKey>,
    /// Where it starts in the uncompressed data.
    pub position: u64,
    /// Where it ends there, if that is known without more I/O.
    pub end: Option<u64>,
    /// The index of its rows, if it has one.
    pub rows: Option<RowIndex>,
}

/// Where the index of a partition's rows is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowIndex {
    /// In Index.db.
    Promoted(PromotedAt),
    /// In Rows.db.
    Trie(RowsAt),
}

/// The partition index of an SSTable. Clones share it.
#[derive(Clone, Debug)]
pub enum PartitionIndex {
    /// Index.db and its summary.
    Big(Rc<BigIndex>),
    /// Partitions.db and Rows.db.
    Trie(Rc<TrieIndex>),
}

impl PartitionIndex {
    /// The partition of a key, if the index does not rule it out.
    pub async fn find(
        &self,
        lookup: &Lookup,
        access: &Access,
    ) -> Result<Option<Located>, ReadError> {
        let located = match self {
            PartitionIndex::Big(index) => index.find(lookup, access).await?,
            PartitionIndex::Trie(index) => index.find(lookup, access).await?,
        };
        let key = located.as_ref().and_then(|located| located.key.as_ref());
        debug_assert!(key.is_none_or(|key| *key == lookup.key), "confirmed: {key:?} was found");
        Ok(located)
    }

    /// Where the first partition at or after a bound starts in the data; the data's length if
    /// there is none.
    pub async fn lower_bound(&self, bound: &RingBound, access: &Access) -> Result<u64, ReadError> {
        match self {
            PartitionIndex::Big(index) => index.lower_bound(bound, access).await,
            PartitionIndex::Trie(index) => index.lower_bound(bound, access).await,
        }
    }

    /// The partitions from the first one at or after a bound on, in ring order.
    pub fn entries(&self, start: &RingBound, access: &Access) -> Entries {
        match self {
            PartitionIndex::Big(index) => Entries::Big(BigEntries::new(index, start, access)),
            PartitionIndex::Trie(index) => {
                Entries::Trie(Box::new(TrieEntries::new(index, start, access)))
            }
        }
    }

    /// The first partition of the file.
    pub fn first_key(&self) -> &DecoratedKey {
        match self {
            PartitionIndex::Big(index) => &index.summary().first,
            PartitionIndex::Trie(index) => index.first(),
        }
    }

    /// The last partition of the file.
    pub fn last_key(&self) -> &DecoratedKey {
        match self {
            PartitionIndex::Big(index) => &index.summary().last,
            PartitionIndex::Trie(index) => index.last(),
        }
    }

    /// Bytes of memory it takes beside what is cached.
    pub fn memory_bytes(&self) -> usize {
        match self {
            PartitionIndex::Big(index) => index.summary().memory_bytes(),
            PartitionIndex::Trie(index) => index.memory_bytes(),
        }
    }

    /// Bytes of its files.
    pub fn file_bytes(&self) -> u64 {
        match self {
            PartitionIndex::Big(index) => index.file().len(),
            PartitionIndex::Trie(index) => {
                debug_assert!(!index.partitions().is_empty(), "a partition index of no byte");
                index.partitions().len() + index.rows().len()
            }
        }
    }

    /// Damage of the file that partitions are looked up in.
    pub fn damaged(&self, what: &str, at: u64) -> ReadError {
        match self {
            PartitionIndex::Big(index) => index.file().damaged(what, at),
            PartitionIndex::Trie(index) => index.partitions().damaged(what, at),
        }
    }
}

/// A walk over the partitions of an index.
#[derive(Debug)]
pub enum Entries {
    /// Of Index.db.
    Big(BigEntries),
    /// Of Partitions.db.
    Trie(Box<TrieEntries>),
}

impl Entries {
    /// The next partition; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Located>, ReadError> {
        match self {
            Entries::Big(entries) => entries.next().await,
            Entries::Trie(entries) => entries.next().await,
        }
    }
}
