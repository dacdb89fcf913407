//! Whether the index of a partition's rows leads to them: for each element, to no place behind it,
//! to the start of an element, and with the range tombstone that is open there.

use crate::cache::Access;
use crate::index::blocks::{BlockCursor, PromotedCursor, Widths};
use crate::index::trie::RowsCursor;
use crate::index::{PartitionIndex, RowIndex};
use crate::table::Table;
use mutation::Tombstone;
use reader::ReadError;
use runtime::io::IoClass;
use std::rc::Rc;

/// The index of one partition's rows, in step with the data.
pub(super) struct RowsCheck {
    table: Rc<Table>,
    cursor: BlockCursor,
    /// Where the partition starts in the data.
    start: u64,
    /// Where the index led last.
    led_to: Option<u64>,
    /// Offsets of elements from there on.
    offsets: Vec<u64>,
}

impl RowsCheck {
    pub(super) async fn open(
        table: &Rc<Table>,
        rows: &RowIndex,
        start: u64,
        class: IoClass,
    ) -> Result<RowsCheck, ReadError> {
        let exact = table.has_exact_widths();
        let (mapping, access) = (table.mapping(), Access::bypass(class));
        let cursor = match (rows, &table.index) {
            (RowIndex::Promoted(at), PartitionIndex::Big(index)) => {
                let widths = if exact { Widths::Exact } else { Widths::Loose };
                let place = (index.file().clone(), *at);
                let cursor = PromotedCursor::new(place, mapping, widths, None, access);
                BlockCursor::Promoted(cursor)
            }
            (RowIndex::Trie(at), PartitionIndex::Trie(index)) => {
                let place = (index.rows().clone(), *at);
                BlockCursor::Rows(RowsCursor::open(place, mapping, exact, access).await?)
            }
            _ => unreachable!("an index of rows is of the form of the index that led to it"),
        };
        let table = table.clone();
        Ok(RowsCheck { table, cursor, start, led_to: None, offsets: Vec::new() })
    }

    /// Takes the next element, which stands at `at` in the data and before which `held` is open;
    /// answers the breach. Elements come in order.
    pub(super) async fn element(
        &mut self,
        position: (&[u8], i8),
        at: u64,
        held: Tombstone,
    ) -> Option<ReadError> {
        let skip = match self.cursor.advance_to(position).await {
            Ok(skip) => skip,
            Err(error) => return Some(error),
        };
        let offset = at - self.start;
        self.offsets.push(offset);
        let is_element = self.led_to == Some(skip.offset) || self.offsets.contains(&skip.offset);
        let what = if offset < skip.offset {
            "mismatching index/data: position mismatch: promoted index: a row lies before its block"
        } else if !is_element {
            "mismatching index/data: position mismatch: promoted index: no row starts at a block"
        } else if skip.offset == offset && skip.open != held {
            "mismatching index/data: another range tombstone is open at a block"
        } else {
            if self.led_to.replace(skip.offset) != Some(skip.offset) {
                self.offsets.retain(|other| skip.offset <= *other);
            }
            return None;
        };
        Some(self.table.data.damaged(what, at))
    }
}
