//! Whether the index of a partition's rows leads to them.
//!
//! A promoted index is held against the rows block by block: each starts with the element that it
//! names, where it says, and with the range tombstone that is open there; the blocks end with the
//! rows. Of a trie, which has separators instead of keys: for each element it leads to no place
//! behind it, to the start of an element, and with the range tombstone that is open there.

use crate::cache::Access;
use crate::index::block::{Place, Widths};
use crate::index::cursor::PromotedCursor;
use crate::index::promoted::Block;
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
    walk: Walk,
    /// Where the partition starts in the data.
    start: u64,
}

enum Walk {
    Promoted(Box<Blocks>),
    Trie(Box<Separators>),
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
        let walk = match (rows, &table.index) {
            (RowIndex::Promoted(at), PartitionIndex::Big(index)) => {
                let widths = if exact { Widths::Exact } else { Widths::Loose };
                let place = (index.file().clone(), *at);
                let cursor = PromotedCursor::new(place, mapping, widths, None, access);
                Walk::Promoted(Box::new(Blocks {
                    cursor,
                    widths,
                    next: 0,
                    now: None,
                    then: None,
                    last: None,
                }))
            }
            (RowIndex::Trie(at), PartitionIndex::Trie(index)) => {
                let place = (index.rows().clone(), *at);
                let cursor = RowsCursor::open(place, mapping, exact, access).await?;
                Walk::Trie(Box::new(Separators { cursor, led_to: None, offsets: Vec::new() }))
            }
            _ => unreachable!("an index of rows is of the form of the index that led to it"),
        };
        Ok(RowsCheck { table: table.clone(), walk, start })
    }

    /// Takes the next element, which stands at `at` in the data and before which `held` is open;
    /// answers the breach. Elements come in order.
    pub(super) async fn element(
        &mut self,
        position: Place<'_>,
        at: u64,
        held: Tombstone,
    ) -> Option<ReadError> {
        debug_assert!(self.start < at, "an element at {at} of a partition at {}", self.start);
        let offset = at - self.start;
        let checked = match &mut self.walk {
            Walk::Promoted(blocks) => blocks.element(&self.table, position, offset, held).await,
            Walk::Trie(separators) => separators.element(position, offset, held).await,
        };
        self.breach(checked, at)
    }

    /// The partition ends at `at`; tells the breach.
    pub(super) async fn end(rows: Option<RowsCheck>, at: u64, tell: &mut impl FnMut(ReadError)) {
        let Some(mut rows) = rows else { return };
        let checked = match &mut rows.walk {
            Walk::Promoted(blocks) => blocks.end().await,
            Walk::Trie(_) => Ok(None),
        };
        rows.breach(checked, at).into_iter().for_each(tell);
    }

    fn breach(&self, checked: Checked, at: u64) -> Option<ReadError> {
        match checked {
            Ok(what) => what.map(|what| self.table.data.damaged(what, at)),
            Err(error) => Some(error),
        }
    }
}

/// The rule that was broken, if one was.
type Checked = Result<Option<&'static str>, ReadError>;

const POSITION: &str =
    "mismatching index/data: position mismatch: promoted index: no row starts at a block";
const OTHER_TOMBSTONE: &str = "mismatching index/data: another range tombstone is open at a block";
const NOT_FIRST: &str =
    "mismatching index/data: clustering element: a block of the promoted index starts with another";
const NOT_LAST: &str =
    "mismatching index/data: clustering element: a block of the promoted index ends with another";
const MORE_ROWS: &str =
    "mismatching index/data: promoted index has no more blocks, but partition has more rows";
const MORE_BLOCKS: &str =
    "mismatching index/data: promoted index has more blocks, but it is end of partition";

/// A walk over the blocks of a promoted index.
struct Blocks {
    cursor: PromotedCursor,
    widths: Widths,
    /// The number of the block behind `then`.
    next: u64,
    /// The block of the latest element, and the one behind it.
    now: Option<Block>,
    then: Option<Block>,
    /// The latest element.
    last: Option<(Vec<u8>, i8)>,
}

impl Blocks {
    async fn step(&mut self) -> Result<(), ReadError> {
        let following = self.cursor.whole_block(self.next).await?;
        self.next += 1;
        debug_assert!(self.then.is_some() || following.is_none() || self.next <= 2, "a gap");
        self.now = std::mem::replace(&mut self.then, following);
        Ok(())
    }

    async fn element(
        &mut self,
        table: &Table,
        position: Place<'_>,
        offset: u64,
        held: Tombstone,
    ) -> Checked {
        let mapping = table.mapping();
        let order = &mapping.schema.order;
        let same =
            |one: &(Vec<u8>, i8), other: Place<'_>| order.compare((&one.0, one.1), other).is_eq();
        let mut open = Tombstone::NONE;
        let starts = match (&self.now, &self.then) {
            (None, _) => {
                self.step().await?;
                self.step().await?;
                true
            }
            (Some(now), Some(then)) if then.offset <= offset => {
                open = now.open;
                let ends_otherwise = self.widths == Widths::Exact
                    && self.last.as_ref().is_some_and(|last| !same(&now.last, (&last.0, last.1)));
                if then.offset == offset && ends_otherwise {
                    return Ok(Some(NOT_LAST));
                }
                self.step().await?;
                true
            }
            (Some(now), None) if now.offset.saturating_add(now.width) <= offset => {
                return Ok(Some(MORE_ROWS));
            }
            _ => false,
        };
        self.last = Some((position.0.to_vec(), position.1));
        let Some(now) = &self.now else { return Ok(Some(MORE_ROWS)) };
        let what = match starts {
            true if now.offset != offset => Some(POSITION),
            true if !same(&now.first, position) => Some(NOT_FIRST),
            true if open != held => Some(OTHER_TOMBSTONE),
            _ => None,
        };
        Ok(what)
    }

    async fn end(&mut self) -> Checked {
        if self.now.is_none() {
            self.step().await?;
            self.step().await?;
            return Ok(self.now.as_ref().map(|_| MORE_BLOCKS));
        }
        Ok(self.then.as_ref().map(|_| MORE_BLOCKS))
    }
}

/// A walk over the trie of a partition's rows.
struct Separators {
    cursor: RowsCursor,
    /// Where the index led last.
    led_to: Option<u64>,
    /// Offsets of elements from there on.
    offsets: Vec<u64>,
}

impl Separators {
    async fn element(&mut self, position: Place<'_>, offset: u64, held: Tombstone) -> Checked {
        let skip = self.cursor.advance_to(position).await?;
        debug_assert!(self.offsets.last().is_none_or(|last| *last < offset), "at {offset} again");
        self.offsets.push(offset);
        let is_element = self.led_to == Some(skip.offset) || self.offsets.contains(&skip.offset);
        if offset < skip.offset {
            return Ok(Some(
                "mismatching index/data: position mismatch: a row lies before its block",
            ));
        }
        if !is_element {
            return Ok(Some("mismatching index/data: position mismatch: no row starts at a block"));
        }
        if skip.offset == offset && skip.open != held {
            return Ok(Some(OTHER_TOMBSTONE));
        }
        if self.led_to.replace(skip.offset) != Some(skip.offset) {
            self.offsets.retain(|other| skip.offset <= *other);
        }
        Ok(None)
    }
}
