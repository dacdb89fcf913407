//! Making, merging and splitting frozen mutations.

use super::*;
use crate::row::{self, RowBuilder};
use model::TableSchema;
use std::borrow::Cow;
use std::ops::Range;
use stdx::Put;

/// Collects the changes of one partition and freezes them. Rows may come in any order; rows of
/// the same key are merged. A mutation of one row costs two allocations; one, when its row is
/// written in place ([`MutationBuilder::row_with`]) into a buffer that was used before.
#[derive(Clone, Debug)]
pub struct MutationBuilder<'s> {
    schema: &'s TableSchema,
    /// The mutation as it will be if there is nothing but rows, fewer than 128 and sorted:
    /// version, table, key, no flags, a one-byte row count, rows.
    out: Vec<u8>,
    /// Where the flags stand in `out`, behind the key.
    flags_at: usize,
    key_bytes: usize,
    row_count: usize,
    /// The key of the last row in `out`.
    last_key: Range<usize>,
    sorted: bool,
    tombstone: Tombstone,
    static_row: Option<Vec<u8>>,
    ranges: RangeTombstoneList,
}

/// A buffer of more bytes is not copied to be used again.
const REUSED_BYTES_MAX: usize = 64 << 10;

/// Row counts below this take one byte.
const SMALL_COUNT: usize = 128;

impl<'s> MutationBuilder<'s> {
    /// Of the partition `key`.
    pub fn new(schema: &'s TableSchema, key: &[u8]) -> MutationBuilder<'s> {
        MutationBuilder::reusing(schema, key, Vec::new())
    }
    /// The same; reuses `out` (cleared), which [`MutationBuilder::freeze_reused`] gives back.
    pub fn reusing(schema: &'s TableSchema, key: &[u8], mut out: Vec<u8>) -> MutationBuilder<'s> {
        let head_bytes = 1 + 16 + stdx::vint::size(key.len() as u64) + key.len();
        out.clear();
        out.reserve_exact(head_bytes + 2);
        out.put_u8(VERSION);
        out.put(schema.id.as_bytes());
        out.put_vint_bytes(key);
        out.put(&[0, 0]);
        MutationBuilder {
            schema,
            out,
            flags_at: head_bytes,
            key_bytes: key.len(),
            row_count: 0,
            last_key: 0..0,
            sorted: true,
            tombstone: Tombstone::NONE,
            static_row: None,
            ranges: RangeTombstoneList::new(),
        }
    }
    /// Deletes the partition.
    pub fn delete_partition(&mut self, tombstone: Tombstone) {
        self.tombstone = self.tombstone.merge(tombstone);
    }
    /// Adds to the static row. One that is given away is not copied.
    pub fn static_row<'r>(&mut self, row: impl Into<Cow<'r, [u8]>>) {
        let row = row.into();
        let Some(before) = &self.static_row else {
            if !RowView::trusted(&row).is_empty() {
                self.static_row = Some(row.into_owned());
            }
            return;
        };
        let mut merged = Vec::with_capacity(before.len() + row.len());
        let (before, row) = (RowView::trusted(before), RowView::trusted(&row));
        row::merge(self.schema, before, row, &mut merged);
        self.static_row = Some(merged);
    }
    /// Adds to the row of that full clustering key; a row that says nothing is left out.
    pub fn row(&mut self, clustering: &[u8], row: &[u8]) {
        if RowView::trusted(row).is_empty() {
            return;
        }
        let key_bytes = stdx::vint::size(clustering.len() as u64) + clustering.len();
        let bytes = key_bytes + stdx::vint::size(row.len() as u64) + row.len();
        if self.row_count == 0 {
            self.out.reserve_exact(bytes);
        }
        self.put_key(clustering);
        self.out.put_vint_bytes(row);
    }
    /// Adds to the row of that full clustering key what `build` writes, where it stays; a row that
    /// says nothing is left out. After an error of `build` the builder is good for nothing.
    pub fn row_with<E>(
        &mut self,
        clustering: &[u8],
        build: impl FnOnce(&mut RowBuilder) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = (self.out.len(), self.row_count, self.last_key.clone(), self.sorted);
        self.put_key(clustering);
        let row_at = self.out.len();
        let mut row = RowBuilder::append_to(std::mem::take(&mut self.out));
        build(&mut row)?;
        let is_empty = row.is_empty();
        self.out = row.finish();
        if is_empty {
            self.out.truncate(before.0);
            (_, self.row_count, self.last_key, self.sorted) = before;
            return Ok(());
        }
        // The length goes before the row, now that it is known.
        row::put_length_before(&mut self.out, row_at);
        Ok(())
    }

    /// Begins the next row.
    fn put_key(&mut self, clustering: &[u8]) {
        if 0 < self.row_count {
            let last = &self.out[self.last_key.clone()];
            let ascends = self.schema.order.compare((last, 0), (clustering, 0)).is_lt();
            self.sorted = self.sorted && ascends;
        }
        self.out.put_vint_bytes(clustering);
        self.last_key = self.out.len() - clustering.len()..self.out.len();
        self.row_count += 1;
    }

    /// Deletes a range of rows.
    pub fn delete_range(&mut self, range: RangeTombstone) {
        self.ranges.insert(&self.schema.order, range);
    }
    /// The partition.
    pub fn key(&self) -> &[u8] {
        &self.out[self.flags_at - self.key_bytes..self.flags_at]
    }
    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        let nothing = self.row_count == 0 && self.ranges.is_empty();
        nothing && self.tombstone.is_none() && self.static_row.is_none()
    }
    /// About how long the mutation is so far.
    pub fn size_bytes(&self) -> usize {
        let static_bytes = self.static_row.as_ref().map_or(0, Vec::len);
        self.out.len() + static_bytes + 64 * self.ranges.len()
    }

    /// The mutation.
    pub fn freeze(mut self) -> FrozenMutation {
        if self.is_as_it_stands() {
            return FrozenMutation(self.out.into_boxed_slice());
        }
        self.assemble()
    }
    /// The mutation, and the buffer that the builder was made with; of a large one another. The
    /// builder is good for nothing then.
    // Not moved, as who gives it away may have it among others.
    pub fn freeze_reused(&mut self) -> (FrozenMutation, Vec<u8>) {
        let frozen = match self.is_as_it_stands() {
            // Copied once less, where that takes longer than a new buffer.
            true if REUSED_BYTES_MAX < self.out.len() => {
                FrozenMutation(std::mem::take(&mut self.out).into_boxed_slice())
            }
            true => FrozenMutation(self.out.as_slice().into()),
            false => self.assemble(),
        };
        (frozen, std::mem::take(&mut self.out))
    }

    /// The bytes of the mutation where they were built, for who looks at it and does not keep it;
    /// [`MutationBuilder::into_buffer`] gives the buffer back. The builder is good for nothing else
    /// then.
    pub fn freeze_in_place(&mut self) -> &[u8] {
        if !self.is_as_it_stands() {
            self.out = self.assemble().0.into_vec();
        }
        &self.out
    }
    /// The buffer, for [`MutationBuilder::reusing`].
    pub fn into_buffer(self) -> Vec<u8> {
        self.out
    }

    /// Whether the buffer holds the mutation; if so, completes it.
    fn is_as_it_stands(&mut self) -> bool {
        let only_rows = self.tombstone.is_none() && self.ranges.is_empty();
        let only_rows = only_rows && self.static_row.is_none();
        if only_rows && self.sorted && self.row_count < SMALL_COUNT {
            self.out[self.flags_at + 1] = self.row_count as u8;
            return true;
        }
        false
    }

    fn assemble(&self) -> FrozenMutation {
        let mut out = Vec::with_capacity(self.size_bytes() + 32);
        out.put(&self.out[..self.flags_at]);
        let mut flags = if self.tombstone.is_none() { 0 } else { HAS_TOMBSTONE };
        flags |= if self.static_row.is_some() { HAS_STATIC } else { 0 };
        flags |= if self.ranges.is_empty() { 0 } else { HAS_RANGES };
        out.put_u8(flags);
        if !self.tombstone.is_none() {
            out.put_i64(self.tombstone.timestamp);
            out.put_i64(self.tombstone.deletion_time);
        }
        if let Some(row) = &self.static_row {
            out.put_vint_bytes(row);
        }
        if !self.ranges.is_empty() {
            out.put_vint(self.ranges.len() as u64);
            for RangeTombstone { range, tombstone } in self.ranges.iter() {
                put_bound(&mut out, &range.start);
                put_bound(&mut out, &range.end);
                out.put_i64(tombstone.timestamp);
                out.put_i64(tombstone.deletion_time);
            }
        }
        let rows = &self.out[self.flags_at + 2..];
        if self.sorted {
            out.put_vint(self.row_count as u64);
            out.put(rows);
        } else {
            self.put_sorted(rows, &mut out);
        }
        FrozenMutation(out.into_boxed_slice())
    }

    fn put_sorted(&self, rows: &[u8], out: &mut Vec<u8>) {
        let order = &self.schema.order;
        let mut cursor = Cursor::new(rows);
        let mut all = Vec::with_capacity(self.row_count);
        while let Ok(row) = read_row(&mut cursor) {
            all.push(row);
        }
        assert!(all.len() == self.row_count, "rows that the builder wrote itself");
        all.sort_by(|(a, _), (b, _)| order.compare((a, 0), (b, 0)));
        let groups = || all.chunk_by(|(a, _), (b, _)| order.compare((a, 0), (b, 0)).is_eq());
        out.put_vint(groups().count() as u64);
        for group in groups() {
            let (key, first) = group[0];
            out.put_vint_bytes(key);
            if group.len() == 1 {
                out.put_vint_bytes(first);
                continue;
            }
            let mut merged = first.to_vec();
            for (_, row) in &group[1..] {
                let before = std::mem::take(&mut merged);
                let (before, row) = (RowView::trusted(&before), RowView::trusted(row));
                row::merge(self.schema, before, row, &mut merged);
            }
            out.put_vint_bytes(&merged);
        }
    }
}

fn put_bound(out: &mut Vec<u8>, position: &ClusteringPosition) {
    assert!(position.weight != 0, "a range bound at a row: {position:?}");
    out.put_vint_bytes(&position.prefix);
    out.put_u8(position.weight as u8);
}

/// Both mutations of one partition as one, which carries what each of them carries. Panics when
/// they are of different partitions.
pub fn merge(schema: &TableSchema, a: FrozenView<'_>, b: FrozenView<'_>) -> FrozenMutation {
    let same = a.table() == b.table() && a.key() == b.key();
    assert!(same, "mutations of two partitions do not merge");
    let mut builder = MutationBuilder::new(schema, a.key());
    for view in [a, b] {
        builder.delete_partition(view.tombstone());
        if let Some(row) = view.static_row() {
            builder.static_row(row.bytes());
        }
        view.ranges().for_each(|range| builder.delete_range(range));
        view.rows().for_each(|(key, row)| builder.row(key, row.bytes()));
    }
    let merged = builder.freeze();
    match a.has_attached() || b.has_attached() {
        true => {
            let all = a.attached().chain(b.attached());
            merged.attach(all.map(|it| it.to_owned()).collect())
        }
        false => merged,
    }
}

/// The same changes as several mutations of about `bytes_max` at most (a row is never split).
/// Together, in any order, they merge to the whole. The first carries what is attached.
pub fn split(schema: &TableSchema, view: FrozenView<'_>, bytes_max: usize) -> Vec<FrozenMutation> {
    let mut out = Vec::new();
    let mut builder = MutationBuilder::new(schema, view.key());
    builder.delete_partition(view.tombstone());
    if let Some(row) = view.static_row() {
        builder.static_row(row.bytes());
    }
    for range in view.ranges() {
        out.extend(cut(schema, &mut builder, bytes_max.saturating_sub(64)));
        builder.delete_range(range);
    }
    for (key, row) in view.rows() {
        let row_bytes = key.len() + row.bytes().len();
        out.extend(cut(schema, &mut builder, bytes_max.saturating_sub(row_bytes)));
        builder.row(key, row.bytes());
    }
    if !builder.is_empty() || out.is_empty() {
        out.push(builder.freeze());
    }
    if view.has_attached() {
        let first = out.swap_remove(0);
        out.push(first.attach(view.attached().map(|it| it.to_owned()).collect()));
    }
    out
}

/// Freezes what was collected if it is over the limit; the builder starts anew.
fn cut<'s>(
    schema: &'s TableSchema,
    builder: &mut MutationBuilder<'s>,
    bytes_max: usize,
) -> Option<FrozenMutation> {
    if builder.is_empty() || builder.size_bytes() <= bytes_max {
        return None;
    }
    let next = MutationBuilder::new(schema, builder.key());
    Some(std::mem::replace(builder, next).freeze())
}
