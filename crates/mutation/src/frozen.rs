//! A mutation of one partition, serialized: what is logged, sent and applied.
//!
//! ```text
//! version:u8=1 table:16 key:vint_bytes flags:u8
//! [partition tombstone: ts be64, deletion_time be64]      flag 1
//! [static row: vint_bytes]                                 flag 2
//! ranges: vint count, (start prefix vint_bytes, weight u8, end prefix vint_bytes, weight u8,
//!                      ts be64, deletion_time be64)*       flag 4
//! rows: vint count, (clustering key vint_bytes, row vint_bytes)*   sorted, unique
//! ```

use crate::range::RangeTombstone;
use crate::row::RowView;
use crate::tombstone::Tombstone;
use model::{TableId, TableSchema};
use stdx::Damaged;

/// An owned frozen mutation; can be handed to another shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenMutation(pub Box<[u8]>);

impl FrozenMutation {
    /// Checks all of the bytes but the row blobs (rows are checked by `FrozenView::rows`).
    pub fn view(&self) -> Result<FrozenView<'_>, Damaged> {
        FrozenView::parse(&self.0)
    }
}

/// A checked view of a frozen mutation.
#[derive(Clone, Copy, Debug)]
pub struct FrozenView<'a> {
    bytes: &'a [u8],
}
impl<'a> FrozenView<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<FrozenView<'a>, Damaged> {
        Ok(FrozenView { bytes })
    }
    pub fn table(&self) -> TableId {
        todo!()
    }
    pub fn key(&self) -> &'a [u8] {
        let _ = self.bytes;
        todo!()
    }
    pub fn tombstone(&self) -> Tombstone {
        todo!()
    }
    pub fn static_row(&self) -> Option<RowView<'a>> {
        todo!()
    }
    pub fn ranges(&self) -> impl Iterator<Item = RangeTombstone> + 'a {
        std::iter::empty()
    }
    /// Clustering keys and rows, sorted.
    pub fn rows(&self) -> impl Iterator<Item = (&'a [u8], RowView<'a>)> + 'a {
        std::iter::empty()
    }
}

/// Collects the changes of one partition and freezes them. Rows may come in any order; rows of
/// the same key are merged.
pub struct MutationBuilder<'s> {
    schema: &'s TableSchema,
}
impl<'s> MutationBuilder<'s> {
    pub fn new(schema: &'s TableSchema, key: &[u8]) -> MutationBuilder<'s> {
        let _ = key;
        MutationBuilder { schema }
    }
    pub fn delete_partition(&mut self, tombstone: Tombstone) {
        let _ = (tombstone, self.schema);
        todo!()
    }
    pub fn static_row(&mut self, row: &[u8]) {
        let _ = row;
        todo!()
    }
    pub fn row(&mut self, clustering: &[u8], row: &[u8]) {
        let _ = (clustering, row);
        todo!()
    }
    pub fn delete_range(&mut self, range: RangeTombstone) {
        let _ = range;
        todo!()
    }
    pub fn freeze(self) -> FrozenMutation {
        todo!()
    }
}
