//! Partition and clustering keys as bytes.
//!
//! A partition key is what Cassandra stores: the value itself for one column, otherwise for each
//! component a 16-bit length, the value and a zero byte. A clustering prefix is, for each
//! component, a 16-bit length and the value; fewer components than the table has is a prefix.

use crate::token::Token;
use crate::types::Type;
use std::cmp::Ordering;
use stdx::Bytes;

/// A partition key with its token. Ordered by token, then by bytes: the order of the ring.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecoratedKey {
    pub token: Token,
    pub key: Bytes,
}

impl DecoratedKey {
    /// Hashes the key.
    pub fn new(key: Bytes) -> DecoratedKey {
        DecoratedKey { token: Token::of(&key), key }
    }
}

/// How the clustering prefixes of one table compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringOrder {
    /// Type and whether descending, per clustering column.
    pub columns: Vec<(Type, bool)>,
}

impl ClusteringOrder {
    /// Compares component by component; where one is a prefix of the other they are equal so far
    /// and the weights decide (-1 before all that it prefixes, 0 the row itself, +1 after).
    pub fn compare(&self, a: (&[u8], i8), b: (&[u8], i8)) -> Ordering {
        let _ = (a, b);
        todo!()
    }
}

/// Serializes the components of a partition key.
pub fn compose_partition_key<'a>(
    components: impl ExactSizeIterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    let _ = (components, out);
    todo!()
}

/// The components of a partition key with `count` columns.
pub fn split_partition_key(key: &[u8], count: usize) -> Result<Vec<&[u8]>, stdx::Damaged> {
    let _ = (key, count);
    todo!()
}

/// Appends one component to a clustering prefix.
pub fn push_clustering(component: &[u8], out: &mut Vec<u8>) {
    let _ = (component, out);
    todo!()
}

/// Iterates over the components of a clustering prefix; stops at a malformed length.
pub fn clustering_components(prefix: &[u8]) -> impl Iterator<Item = &[u8]> {
    let _ = prefix;
    std::iter::empty()
}
