//! What large rows and partitions become by a mutation, made before the mutation is applied.
//!
//! A mutation of a partition is applied in one step, and for some MiB that would be a long one. So
//! its large rows are merged with what is there ahead of it, on copies and piece by piece, and the
//! step puts what they have become into their places. A mutation of many rows is merged with its
//! whole partition in that way.
//!
//! Invariants
//!  - *same-row*: what is put into a place is the merge of the mutation with what is there at that
//!    moment: it is put only where the row, or the partition, is still the very one that it was
//!    merged with. That one is held meanwhile, so nobody changes it where it lies.
//!  - *unseen*: nobody sees any of it before the mutation is applied.
//!  - *small-steps*: between two yields no more than a piece is copied or merged. Values beside the
//!    collections of a row that lies in parts, and large rows among many, are copied at once.

use super::blob::Scratch;
use super::footprint::{Grown, blob_bytes};
use super::large::rebuild;
use super::row::Row;
use super::{Memtable, Partition};
use crate::large_data::Watch;
use model::{ColumnId, DecoratedKey, TableSchema};
use mutation::row::ColumnData;
use mutation::{CollectionView, CollectionWriter, FrozenView, RowBuilder, RowView, Tombstone};
use runtime::task::yield_if_needed;
use std::collections::VecDeque;
use std::rc::Rc;

/// Smaller rows are merged when the mutation is applied.
const LARGE_BYTES_MIN: usize = 64 << 10;
/// What is copied or merged between two looks at the clock.
const PIECE_BYTES: usize = 32 << 10;
/// Collections up to this size go with the rest of their row.
const WHOLE_BYTES_MAX: usize = 4 << 10;

/// A mutation of more rows is merged with all of its partition.
const ROWS_AT_ONCE: usize = 256;
/// Rows that are merged between two looks at the clock.
const ROWS_PER_STEP: usize = 16;

/// What is merged ahead takes a piece at least, and what goes with the rest of its row less.
const _: () = assert!(WHOLE_BYTES_MAX < PIECE_BYTES && PIECE_BYTES <= LARGE_BYTES_MIN);

/// Timestamps that are looked at between two looks at the clock.
const CELLS_PER_STEP: usize = 256;

/// What of a mutation is merged: of most nothing, and then it is passed on as a word.
#[derive(Default)]
pub(crate) struct Premerged(Option<Box<Ahead>>);

#[derive(Default)]
struct Ahead {
    whole: Option<Whole>,
    /// By their numbers among the rows of the mutation, of which the static row is the first.
    rows: VecDeque<(usize, Merged)>,
    passed: usize,
    /// The oldest timestamp of its data; `None`: nobody has looked.
    oldest: Option<i64>,
}

/// A partition that all of a mutation is merged into.
struct Whole {
    /// With what; `None`: with nothing.
    base: Option<Rc<Partition>>,
    /// Taken when it is put into its place.
    partition: Option<Partition>,
    added: usize,
    grown: Grown,
    scratch: Scratch,
}

/// A row that is merged.
pub(super) struct Merged {
    /// With what; `None`: with nothing.
    base: Option<Row>,
    row: Row,
    /// By how much the row is larger than what it was merged with.
    grown: Grown,
    /// What the merge leaves to be freed, and whether the row is put together in steps.
    scratch: Scratch,
}

impl Memtable {
    /// Merges what is large of a mutation ahead of it, with what is here now.
    pub(crate) async fn prepare(
        &self,
        schema: &TableSchema,
        key: &DecoratedKey,
        view: &FrozenView<'_>,
        watch: Watch,
    ) -> Premerged {
        let oldest = Some(oldest_of(view).await);
        let many = ROWS_AT_ONCE < view.row_count() + view.range_count();
        if many && watch.bytes == usize::MAX {
            let whole = Some(self.merge_whole(schema, key, view).await);
            return Premerged::of(Ahead { whole, oldest, ..Ahead::default() });
        }
        let mut rows = VecDeque::new();
        let first = view.static_row().map(|row| (None, row));
        let others = view.rows().map(|(key, row)| (Some(key), row));
        for (number, (clustering, row)) in first.into_iter().chain(others).enumerate() {
            if LARGE_BYTES_MIN < row.bytes().len() {
                let base = self.snapshot(key).and_then(|one| self.row_of(&one, clustering));
                rows.push_back((number, Merging::new(schema, base).run(row).await));
            }
        }
        debug_assert!(rows.len() <= view.row_count() + 1, "same-row: {} of them", rows.len());
        Premerged::of(Ahead { rows, oldest, ..Ahead::default() })
    }

    async fn merge_whole(
        &self,
        schema: &TableSchema,
        key: &DecoratedKey,
        view: &FrozenView<'_>,
    ) -> Whole {
        let base = self.snapshot(key);
        let mut partition = base.as_deref().cloned().unwrap_or_else(Partition::new);
        let (mut grown, mut scratch, mut added) = (Grown::default(), Scratch::default(), 0);
        partition.tombstone = partition.tombstone.merge(view.tombstone());
        if let Some(row) = view.static_row() {
            match &mut partition.static_row {
                Some(old) => old.merge(schema, row, &mut scratch, &mut grown),
                none => *none = Some(Row::new(row, &mut grown)),
            }
        }
        for range in view.ranges() {
            added += 1;
            partition.delete(&self.order, range, &mut grown);
            yield_if_needed().await;
        }
        for (number, (key, row)) in view.rows().enumerate() {
            let first = |grown: &mut Grown| Row::new(row, grown);
            match partition.rows.entry(&self.order, key, first, &mut grown) {
                Some(old) => old.merge(schema, row, &mut scratch, &mut grown),
                None => added += 1,
            }
            if number.is_multiple_of(ROWS_PER_STEP) {
                yield_if_needed().await;
            }
        }
        scratch.bytes = Vec::new();
        debug_assert!(added <= view.row_count() + view.range_count(), "same-row: {added} added");
        Whole { base, partition: Some(partition), added, grown, scratch }
    }

    /// The row of that clustering key; without one the static row.
    fn row_of(&self, partition: &Partition, clustering: Option<&[u8]>) -> Option<Row> {
        match clustering {
            None => partition.static_row.clone(),
            Some(key) => partition.rows.get(&self.order, key).cloned(),
        }
    }
}

/// The oldest timestamp of the data of a mutation, deletions left out.
async fn oldest_of(view: &FrozenView<'_>) -> i64 {
    let (mut oldest, mut seen) = (i64::MAX, 0usize);
    for row in view.static_row().into_iter().chain(view.rows().map(|(_, row)| row)) {
        for timestamp in row.live_timestamps() {
            oldest = oldest.min(timestamp);
            seen += 1;
            if seen.is_multiple_of(CELLS_PER_STEP) {
                yield_if_needed().await;
            }
        }
    }
    oldest
}

impl Premerged {
    fn of(ahead: Ahead) -> Premerged {
        Premerged(Some(Box::new(ahead)))
    }

    /// Puts the whole partition into its place, which is new or not, if it is merged with what is
    /// there; whether it did.
    #[inline]
    pub(super) fn put_whole(
        &mut self,
        (place, is_new): (&mut Rc<Partition>, bool),
        scratch: &mut Scratch,
        grown: &mut Grown,
    ) -> bool {
        let Some(Ahead { whole: Some(whole), rows, .. }) = self.0.as_deref_mut() else {
            return false;
        };
        let is_of_it = match &whole.base {
            None => is_new,
            Some(base) => Rc::ptr_eq(base, place),
        };
        match whole.partition.take().filter(|_| is_of_it) {
            Some(partition) => {
                debug_assert!(rows.is_empty(), "same-row: rows beside the whole partition");
                grown.merge(whole.grown);
                scratch.litter.append(&mut whole.scratch.litter);
                scratch.is_huge |= whole.scratch.is_huge;
                *place = Rc::new(partition);
                true
            }
            None => false,
        }
    }

    /// The oldest timestamp of the data of the mutation, deletions left out, if anybody has looked.
    #[inline]
    pub(super) fn oldest(&self) -> Option<i64> {
        let ahead = self.0.as_deref()?;
        debug_assert!(
            ahead.oldest.is_some() || ahead.whole.is_none(),
            "same-row: nobody has looked"
        );
        ahead.oldest
    }

    /// How many rows of the whole partition are new, and range tombstones at most.
    pub(super) fn rows_added(&self) -> usize {
        let whole = self.0.as_ref().and_then(|ahead| ahead.whole.as_ref());
        whole.map_or(0, |whole| whole.added)
    }

    /// Whether nothing is left that was merged row by row.
    pub(super) fn is_used_up(&self) -> bool {
        self.0.as_ref().is_none_or(|ahead| ahead.rows.is_empty())
    }

    /// What the next row of the mutation has become, if it was merged ahead.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Merged> {
        let Ahead { rows, passed, .. } = self.0.as_deref_mut()?;
        let (number, _) = rows.front()?;
        *passed += 1;
        debug_assert!(*passed <= *number + 1, "same-row: {number} was passed over");
        if *number + 1 != *passed {
            return None;
        }
        rows.pop_front().map(|(_, merged)| merged)
    }
}

impl Merged {
    /// What it is where there is no row (*same-row*).
    pub(super) fn alone(self, scratch: &mut Scratch, grown: &mut Grown) -> Option<Row> {
        self.base.is_none().then(|| self.put(scratch, grown))
    }

    /// What `row` becomes, if that is what it was merged with (*same-row*).
    pub(super) fn instead_of(
        self,
        row: &Row,
        scratch: &mut Scratch,
        grown: &mut Grown,
    ) -> Option<Row> {
        let is_of_it = self.base.as_ref().is_some_and(|base| base.is(row));
        is_of_it.then(|| self.put(scratch, grown))
    }

    fn put(self, scratch: &mut Scratch, grown: &mut Grown) -> Row {
        debug_assert!(self.scratch.bytes.is_empty(), "unseen: what merging leaves");
        grown.merge(self.grown);
        scratch.litter.extend(self.scratch.litter);
        scratch.is_huge |= self.scratch.is_huge;
        self.row
    }
}

impl Row {
    /// As it was written first, where it may have been merged ahead.
    #[inline]
    pub(super) fn first(
        row: RowView<'_>,
        merged: Option<Merged>,
        scratch: &mut Scratch,
        grown: &mut Grown,
    ) -> Row {
        match merged.and_then(|merged| merged.alone(scratch, grown)) {
            Some(merged) => merged,
            None => Row::new(row, grown),
        }
    }

    /// Makes it the merge of itself and `row`, which may have been merged ahead.
    #[inline]
    pub(super) fn merge_or_put(
        &mut self,
        merged: Option<Merged>,
        (schema, row): (&TableSchema, RowView<'_>),
        scratch: &mut Scratch,
        grown: &mut Grown,
    ) {
        match merged.and_then(|merged| merged.instead_of(self, scratch, grown)) {
            Some(merged) => *self = merged,
            None => self.merge(schema, row, scratch, grown),
        }
    }
}

/// A row that is being merged.
struct Merging<'s> {
    schema: &'s TableSchema,
    base: Option<Row>,
    row: Option<Row>,
    grown: Grown,
    scratch: Scratch,
}

impl<'s> Merging<'s> {
    fn new(schema: &'s TableSchema, base: Option<Row>) -> Merging<'s> {
        let row = base.clone();
        Merging { schema, base, row, grown: Grown::default(), scratch: Scratch::default() }
    }

    async fn run(mut self, row: RowView<'_>) -> Merged {
        let (added, has_parts) = (row, row.columns().any(|(_, data)| collection(data).is_some()));
        let base = self.base.clone();
        match base.as_ref().map(Row::blob) {
            // In parts, or to be.
            Some(None) => self.merge_in_pieces(row).await,
            _ if has_parts => self.merge_in_pieces(row).await,
            None => self.put(row.bytes()).await,
            Some(Some(old)) if mutation::row::replaces(row, RowView::trusted(old)) => {
                self.put(row.bytes()).await;
            }
            Some(Some(old)) => {
                let mut merged = Vec::with_capacity(old.len() + row.bytes().len());
                mutation::row::merge(self.schema, RowView::trusted(old), row, &mut merged);
                yield_if_needed().await;
                match RowView::trusted(&merged).columns().any(|(_, one)| collection(one).is_some())
                {
                    true => self.merge_in_pieces(row).await,
                    false => self.put(&merged).await,
                }
            }
        }
        let row = self.row.take().expect("a row that something was merged into");
        debug_assert!(
            row.bytes()[..] == *merged_at_once(self.schema, base.as_ref(), added),
            "same-row: a row of {} bytes merged ahead",
            row.len()
        );
        self.scratch.bytes = Vec::new();
        Merged { base: self.base, row, grown: self.grown, scratch: self.scratch }
    }

    /// Makes it a copy of `bytes`.
    async fn put(&mut self, bytes: &[u8]) {
        let mut copy = memory::zeroed(bytes.len());
        for start in (0..bytes.len()).step_by(PIECE_BYTES) {
            let piece = start..bytes.len().min(start + PIECE_BYTES);
            let own = Rc::get_mut(&mut copy).expect("nobody else has it before it is whole");
            own[piece.clone()].copy_from_slice(&bytes[piece]);
            yield_if_needed().await;
        }
        debug_assert!(copy[..] == *bytes, "same-row: a copy");
        let before = self.row.as_ref().and_then(Row::blob).map_or(0, |old| blob_bytes(old.len()));
        self.grown.change(before, blob_bytes(copy.len()));
        self.row = Some(Row::Blob(copy));
    }

    async fn merge_in_pieces(&mut self, row: RowView<'_>) {
        let apart = row.columns().filter_map(|(id, data)| Some((id, collection(data)?)));
        let apart: Vec<_> = apart.collect();
        let stays = |id: ColumnId| apart.iter().all(|(own, _)| *own != id);
        self.merge(&rebuild(row, |_, column| column.is_some_and(stays)));
        for (column, view) in apart {
            yield_if_needed().await;
            let mut elements = view.iter().peekable();
            // The deletion comes with the first ones.
            let mut tomb = view.tomb();
            loop {
                let mut some = CollectionWriter::new(tomb);
                let mut bytes = 0;
                while bytes < PIECE_BYTES
                    && let Some((path, cell)) = elements.next()
                {
                    some.push(path, cell);
                    bytes += 8 + path.len() + cell.blob_bytes();
                }
                debug_assert!(
                    0 < bytes || !tomb.is_none() || view.is_empty(),
                    "small-steps: nothing"
                );
                let mut piece = RowBuilder::new(Vec::new());
                piece.collection(column, &some.finish());
                self.merge(&piece.finish());
                if elements.peek().is_none() {
                    break;
                }
                tomb = Tombstone::NONE;
                yield_if_needed().await;
            }
        }
    }

    fn merge(&mut self, row: &[u8]) {
        let row = RowView::trusted(row);
        match &mut self.row {
            None => self.row = Some(Row::new(row, &mut self.grown)),
            Some(own) => own.merge(self.schema, row, &mut self.scratch, &mut self.grown),
        }
    }
}

/// What merging blobs gives (*same-row*).
fn merged_at_once(schema: &TableSchema, base: Option<&Row>, row: RowView<'_>) -> Vec<u8> {
    let Some(base) = base else { return row.bytes().to_vec() };
    let mut merged = Vec::new();
    mutation::row::merge(schema, RowView::trusted(&base.bytes()), row, &mut merged);
    merged
}

/// A collection that is merged in pieces.
fn collection(data: ColumnData<'_>) -> Option<CollectionView<'_>> {
    match data {
        ColumnData::Collection(view) if WHOLE_BYTES_MAX < view.bytes().len() => Some(view),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
