//! A mutation of one partition, serialized: what is logged, sent and applied.
//!
//! ```text
//! version:u8=1 table:16 key:vint_bytes flags:u8
//! [partition tombstone: ts be64, deletion_time be64]      flag 1
//! [static row: vint_bytes]                                 flag 2
//! [ranges: vint count, (start prefix vint_bytes, weight u8, end prefix vint_bytes, weight u8,
//!                       ts be64, deletion_time be64)*]     flag 4
//! rows: vint count, (clustering key vint_bytes, row vint_bytes)*
//! [attached: vint count, (mutation vint_bytes)*]           flag 8
//! ```
//! Weights are 0xff (before) or 0x01 (after).
//!
//! A mutation may carry others, of other tables: whoever made it knows what is to be written with
//! it. Who looks at its table, key and rows sees nothing of them; they go where it goes, and are
//! written with it, or not at all.
//!
//! Invariants
//!  - *sorted-rows*: rows ascend by clustering key, each key once; ranges are normalized
//!    ([`RangeTombstoneList`]). [`MutationBuilder`] sees to it; readers of foreign mutations who
//!    depend on it check it against the schema ([`FrozenView::check_order`]).
//!  - *vouched-for*: a [`FrozenMutation`] is sound: a builder has made it, or whoever took its
//!    bytes in from outside of the process has checked them with [`FrozenMutation::view`].
//!  - *carried-once*: what is attached ascends by its bytes, each once, and carries nothing itself.

mod attached;
mod build;
mod drops;
#[cfg(test)]
mod tests;

pub use attached::Attached;
pub use build::{MutationBuilder, merge, split};
pub use drops::{drop_times, newer_than_drops};

use crate::fragment::Fragment;
use crate::range::{
    ClusteringPosition, ClusteringRange, Direction, RangeTombstone, RangeTombstoneList,
};
use crate::row::RowView;
use crate::tombstone::Tombstone;
use model::{ClusteringOrder, DecoratedKey, TableId};
use stdx::{Bytes, Cursor, Damaged};

const VERSION: u8 = 1;
const HAS_TOMBSTONE: u8 = 0x01;
const HAS_STATIC: u8 = 0x02;
const HAS_RANGES: u8 = 0x04;
const HAS_ATTACHED: u8 = 0x08;
const FLAGS: u8 = HAS_TOMBSTONE | HAS_STATIC | HAS_RANGES | HAS_ATTACHED;

/// An owned frozen mutation; can be handed to another shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenMutation(pub Box<[u8]>);

impl FrozenMutation {
    /// Checks all of the bytes: for those from outside.
    pub fn view(&self) -> Result<FrozenView<'_>, Damaged> {
        FrozenView::parse(&self.0)
    }
    /// How long it is.
    pub fn size_bytes(&self) -> usize {
        self.0.len()
    }
}

/// A checked view of a frozen mutation.
#[derive(Clone, Copy, Debug)]
pub struct FrozenView<'a> {
    bytes: &'a [u8],
    table: TableId,
    key: &'a [u8],
    tombstone: Tombstone,
    static_row: Option<&'a [u8]>,
    range_count: u64,
    ranges: &'a [u8],
    row_count: u64,
    /// With what is attached behind them.
    rows: &'a [u8],
    has_attached: bool,
}

impl<'a> FrozenView<'a> {
    /// Checks all of `bytes`, rows and what is attached included, in one walk: use it where bytes
    /// enter.
    pub fn parse(bytes: &'a [u8]) -> Result<FrozenView<'a>, Damaged> {
        let view = FrozenView::trusted(bytes)?;
        if let Some(row) = view.static_row {
            RowView::parse(row).map_err(|damage| damage.from_base(offset_in(bytes, row)))?;
        }
        let mut cursor = Cursor::new(view.rows);
        for _ in 0..view.row_count {
            let (_, row) = read_row(&mut cursor)
                .map_err(|damage| damage.from_base(offset_in(bytes, view.rows)))?;
            RowView::parse(row).map_err(|damage| damage.from_base(offset_in(bytes, row)))?;
        }
        let end = match view.has_attached {
            true => attached::check(&mut cursor),
            false if cursor.is_empty() => Ok(()),
            false => Err(cursor.damaged("bytes after the last row of a mutation")),
        };
        end.map_err(|damage| damage.from_base(offset_in(bytes, view.rows)))?;
        Ok(view)
    }

    /// For bytes that `parse` or [`MutationBuilder`] has vouched for: does not look at the rows.
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> Result<FrozenView<'a>, Damaged> {
        match FrozenView::of_rows(bytes) {
            Some(view) => Ok(view),
            None => FrozenView::trusted_any(bytes),
        }
    }

    /// The view of a mutation of rows alone, fewer than 128, of a key of fewer bytes, as most are.
    #[inline]
    fn of_rows(bytes: &'a [u8]) -> Option<FrozenView<'a>> {
        let (version, rest) = bytes.split_first()?;
        let (table, rest) = rest.split_first_chunk::<16>()?;
        let (key_bytes, rest) = rest.split_first()?;
        let (key, behind) = rest.split_at_checked(*key_bytes as usize)?;
        let ([flags, row_count], rows) = behind.split_first_chunk::<2>()?;
        let others = (*key_bytes | *row_count) & 0x80 | (*flags & !HAS_ATTACHED);
        (*version == VERSION && others == 0).then_some(FrozenView {
            bytes,
            table: TableId::from_bytes(*table),
            key,
            tombstone: Tombstone::NONE,
            static_row: None,
            range_count: 0,
            ranges: &[],
            row_count: u64::from(*row_count),
            rows,
            has_attached: *flags & HAS_ATTACHED != 0,
        })
    }

    fn trusted_any(bytes: &'a [u8]) -> Result<FrozenView<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u8("mutation version")? != VERSION {
            return Err(Damaged::new("unknown version of a mutation", 0));
        }
        let table = TableId::from_bytes(cursor.array("table id")?);
        let key = cursor.vint_bytes("partition key")?;
        let flags = cursor.u8("mutation flags")?;
        if flags & !FLAGS != 0 {
            return Err(cursor.damaged("unknown mutation flags"));
        }
        let mut tombstone = Tombstone::NONE;
        if flags & HAS_TOMBSTONE != 0 {
            tombstone.timestamp = cursor.i64("partition tombstone timestamp")?;
            tombstone.deletion_time = cursor.i64("partition deletion time")?;
        }
        let mut static_row = None;
        if flags & HAS_STATIC != 0 {
            static_row = Some(cursor.vint_bytes("static row")?);
        }
        let (mut range_count, mut ranges) = (0, cursor.rest());
        if flags & HAS_RANGES != 0 {
            range_count = cursor.vint("range tombstone count")?;
            ranges = cursor.rest();
            for _ in 0..range_count {
                read_range(&mut cursor)?;
            }
        }
        let row_count = cursor.vint("row count")?;
        let rows = cursor.rest();
        let (range_count, bytes) = (range_count, bytes);
        Ok(FrozenView {
            bytes,
            table,
            key,
            tombstone,
            static_row,
            range_count,
            ranges,
            row_count,
            rows,
            has_attached: flags & HAS_ATTACHED != 0,
        })
    }

    /// Checks *sorted-rows* against the order of the table. What is attached is of other tables:
    /// it is checked against theirs.
    pub fn check_order(&self, order: &ClusteringOrder) -> Result<(), Damaged> {
        if self.row_count < 2 {
            return Ok(());
        }
        let mut last: Option<&[u8]> = None;
        for (key, _) in self.rows() {
            if last.is_some_and(|last| order.compare((key, 0), (last, 0)).is_le()) {
                let at = offset_in(self.bytes, key);
                return Err(Damaged::new("rows of a mutation out of order", at));
            }
            last = Some(key);
        }
        Ok(())
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    pub fn table(&self) -> TableId {
        self.table
    }
    /// The partition key.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }
    /// The deletion of the partition ([`Tombstone::NONE`] where there is none).
    pub fn tombstone(&self) -> Tombstone {
        self.tombstone
    }
    pub fn static_row(&self) -> Option<RowView<'a>> {
        self.static_row.map(RowView::trusted)
    }
    /// How many range tombstones there are.
    pub fn range_count(&self) -> usize {
        self.range_count as usize
    }
    /// Range tombstones in table order. Each allocates its bounds.
    pub fn ranges(&self) -> impl Iterator<Item = RangeTombstone> + use<'a> {
        let mut cursor = Cursor::new(self.ranges);
        (0..self.range_count).map_while(move |_| {
            let (start, end, tombstone) = read_range(&mut cursor).ok()?;
            let position =
                |(prefix, weight)| ClusteringPosition { prefix: Bytes::copy_from(prefix), weight };
            let range = ClusteringRange { start: position(start), end: position(end) };
            Some(RangeTombstone { range, tombstone })
        })
    }
    /// How many rows there are.
    pub fn row_count(&self) -> usize {
        self.row_count as usize
    }
    /// Clustering keys and rows, sorted.
    pub fn rows(&self) -> Rows<'a> {
        Rows { cursor: Cursor::new(self.rows), left: self.row_count }
    }
    /// Whether it changes nothing, and carries nothing.
    pub fn is_empty(&self) -> bool {
        let counts = self.range_count == 0 && self.row_count == 0 && !self.has_attached;
        counts && self.tombstone.is_none() && self.static_row.is_none()
    }

    /// The mutation, but for what is attached, as the fragments of a stream in table order.
    pub fn fragments(&self, order: &ClusteringOrder) -> Vec<Fragment> {
        let mut list = RangeTombstoneList::new();
        self.ranges().for_each(|range| list.insert(order, range));
        let key = DecoratedKey::new(Bytes::copy_from(self.key));
        let mut out = vec![Fragment::PartitionStart { key, tombstone: self.tombstone }];
        if let Some(row) = self.static_row {
            out.push(Fragment::StaticRow { row: Bytes::copy_from(row) });
        }
        let changes = list.changes(order, &ClusteringRange::full(), Direction::Forward);
        let mut changes = changes.into_iter().peekable();
        for (key, row) in self.rows() {
            while let Some(change) = changes
                .next_if(|change| order.compare(change.position.as_parts(), (key, 0)).is_lt())
            {
                out.push(change.into());
            }
            let (key, row) = (Bytes::copy_from(key), Bytes::copy_from(row.bytes()));
            out.push(Fragment::Row { key, row });
        }
        out.extend(changes.map(Fragment::from));
        out.push(Fragment::PartitionEnd);
        out
    }
}

/// Iterator of [`FrozenView::rows`].
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    cursor: Cursor<'a>,
    left: u64,
}

impl<'a> Iterator for Rows<'a> {
    type Item = (&'a [u8], RowView<'a>);
    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], RowView<'a>)> {
        self.left = self.left.checked_sub(1)?;
        let (key, row) = read_row(&mut self.cursor).ok()?;
        Some((key, RowView::trusted(row)))
    }
}

fn offset_in(outer: &[u8], inner: &[u8]) -> u64 {
    (inner.as_ptr() as usize).saturating_sub(outer.as_ptr() as usize) as u64
}

fn read_row<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [u8], &'a [u8]), Damaged> {
    let key = cursor.vint_bytes("clustering key")?;
    let row = cursor.vint_bytes("row")?;
    Ok((key, row))
}

type Bound<'a> = (&'a [u8], i8);

fn read_range<'a>(cursor: &mut Cursor<'a>) -> Result<(Bound<'a>, Bound<'a>, Tombstone), Damaged> {
    let start = read_bound(cursor)?;
    let end = read_bound(cursor)?;
    let timestamp = cursor.i64("range tombstone timestamp")?;
    let deletion_time = cursor.i64("range deletion time")?;
    Ok((start, end, Tombstone { timestamp, deletion_time }))
}

fn read_bound<'a>(cursor: &mut Cursor<'a>) -> Result<Bound<'a>, Damaged> {
    let prefix = cursor.vint_bytes("range bound")?;
    match cursor.u8("weight of a range bound")? {
        0x01 => Ok((prefix, 1)),
        0xff => Ok((prefix, -1)),
        _ => Err(cursor.damaged("a range bound neither before nor after")),
    }
}
