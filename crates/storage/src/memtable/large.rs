//! A row with collections too large to be copied at each write.
//!
//! Such a collection is kept in parts of neighbouring elements, in a tree by their paths. A write
//! merges its elements with the parts in which they fall; who reads puts the row together again.
//!
//! Invariants
//!  - *same-row*: put together, it is the row that merging blobs would have given.
//!  - *small-steps*: a write copies the parts that its elements fall in, none much over
//!    [`PART_BYTES_MAX`] unless one element is, and no others, however many there are.
//!  - *lazily-covered*: elements that a deletion covers may stay until the row is put together, or
//!    until all are covered.
//!  - *disjoint*: a part holds paths from its key on up to the next one's; the first one has the
//!    empty key, which comes before all others.

use super::blob::{PartNode, Scratch, collections, put};
use super::footprint::{Grown, blob_bytes, boxed_bytes};
use super::tree::Tree;
use model::{ColumnId, TableSchema, Type};
use mutation::collection::{self, compare_paths};
use mutation::row::{ColumnData, type_of};
use mutation::{CollectionView, CollectionWriter, RowBuilder, RowView, Tombstone};
use std::cmp::Ordering;
use std::rc::Rc;
use stdx::Bytes;

/// Rows up to this size are one blob.
const BLOB_BYTES_MAX: usize = 16 << 10;
/// Collections of larger rows up to this size stay in the head.
const WHOLE_BYTES_MAX: usize = 4 << 10;
/// The key of the first part: before all paths.
const FIRST: &[u8] = &[];
/// A part that grows beyond this is split.
const PART_BYTES_MAX: usize = 4 << 10;

/// What lies apart is of several parts, and a row too large for one blob may have such.
const _: () = assert!(PART_BYTES_MAX <= WHOLE_BYTES_MAX && WHOLE_BYTES_MAX < BLOB_BYTES_MAX);

/// A row in pieces.
#[derive(Clone)]
pub(super) struct LargeRow {
    /// All but the large collections.
    head: Rc<[u8]>,
    /// By column.
    collections: Vec<Parts>,
}

/// A large collection.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) column: ColumnId,
    pub(super) tomb: Tombstone,
    /// The greatest timestamp of any element.
    newest: i64,
    /// By the first path: blobs without a tombstone. `None`: no element.
    tree: Option<Tree<Rc<[u8]>>>,
    /// Elements, those that a deletion covers among them until they are gone.
    elements: usize,
    /// What the tree takes.
    bytes: usize,
}

impl LargeRow {
    /// A row in pieces, if it is large and has a large collection.
    pub(super) fn of(row: RowView<'_>, grown: &mut Grown) -> Option<LargeRow> {
        if row.bytes().len() <= BLOB_BYTES_MAX || !row.columns().any(|(_, one)| is_apart(one)) {
            return None;
        }
        let mut large = LargeRow { head: Rc::from([]), collections: Vec::new() };
        let rest = large.move_out(row, grown);
        grown.add(boxed_bytes::<LargeRow>() + blob_bytes(rest.len()));
        large.head = Rc::from(rest);
        debug_assert!(!large.collections.is_empty(), "a large row has a large collection");
        Some(large)
    }

    /// Merges a row into it.
    pub(super) fn merge(
        &mut self,
        schema: &TableSchema,
        row: RowView<'_>,
        scratch: &mut Scratch,
        grown: &mut Grown,
    ) {
        for (column, data) in row.columns() {
            if let ColumnData::Collection(view) = data
                && let Some(parts) = self.parts_of(column)
            {
                parts.merge(type_of(schema, column), view, scratch, grown);
            }
        }
        let rest = self.without_parts(row);
        if RowView::trusted(&rest).is_empty() {
            return;
        }
        let merged = &mut scratch.bytes;
        merged.clear();
        mutation::row::merge(schema, RowView::trusted(&self.head), RowView::trusted(&rest), merged);
        put(&mut self.head, merged, grown);
        let tombstone = RowView::trusted(&self.head).tombstone();
        for parts in &mut self.collections {
            parts.cover(tombstone, grown, scratch);
        }
        self.collections.retain(|parts| parts.tree.is_some() || !tombstone.subsumes(parts.tomb));
        if BLOB_BYTES_MAX < self.head.len() {
            let head = self.head.clone();
            let rest = self.move_out(RowView::trusted(&head), grown);
            drop(head);
            put(&mut self.head, &rest, grown);
        }
        debug_assert!(
            RowView::trusted(&self.head).columns().all(|(column, _)| !self.has_parts(column)),
            "same-row: a collection is in the head and in parts"
        );
    }

    /// All but the large collections.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }
    /// The large collections, by column.
    pub(super) fn collections(&self) -> &[Parts] {
        &self.collections
    }
    /// About how many bytes the whole row has.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.collections.iter().map(|parts| parts.bytes).sum::<usize>()
    }

    /// Its collections with how many elements they have.
    pub(super) fn elements(&self) -> Vec<(ColumnId, u64)> {
        let parts = self.collections.iter().map(|parts| (parts.column, parts.elements as u64));
        collections(RowView::trusted(&self.head)).chain(parts).collect()
    }

    /// The trees of its parts, to be taken apart.
    pub(super) fn into_nodes(self) -> impl Iterator<Item = Rc<PartNode>> {
        self.collections.into_iter().filter_map(|parts| parts.tree).map(Tree::into_root)
    }

    pub(super) fn has_parts(&self, column: ColumnId) -> bool {
        self.collections.binary_search_by_key(&column, |parts| parts.column).is_ok()
    }

    fn parts_of(&mut self, column: ColumnId) -> Option<&mut Parts> {
        let at = self.collections.binary_search_by_key(&column, |parts| parts.column).ok()?;
        self.collections.get_mut(at)
    }

    /// What a row says beside the collections that are in parts here.
    fn without_parts(&self, row: RowView<'_>) -> Vec<u8> {
        rebuild(row, |_, column| column.is_some_and(|id| !self.has_parts(id)))
    }

    /// Moves large collections out of what is to be the head, and gives the rest of it.
    fn move_out(&mut self, head: RowView<'_>, grown: &mut Grown) -> Vec<u8> {
        for (column, data) in head.columns() {
            if let ColumnData::Collection(view) = data
                && is_apart(data)
            {
                let at = self.collections.partition_point(|parts| parts.column < column);
                grown.add(size_of::<Parts>());
                self.collections.insert(at, Parts::of(column, view, grown));
                debug_assert!(
                    self.collections.is_sorted_by(|a, b| a.column < b.column),
                    "same-row: {column:?} is in parts already"
                );
            }
        }
        self.without_parts(head)
    }
}

/// Whether it is kept apart, in a large row.
fn is_apart(data: ColumnData<'_>) -> bool {
    matches!(data, ColumnData::Collection(view) if WHOLE_BYTES_MAX < view.bytes().len())
}

/// Writes a row anew. `visit` is called before each column, and at the end, with what it may put
/// before it; it says whether the column stays.
pub(super) fn rebuild(
    row: RowView<'_>,
    mut visit: impl FnMut(&mut RowBuilder, Option<ColumnId>) -> bool,
) -> Vec<u8> {
    let mut builder = RowBuilder::new(Vec::new());
    builder.tombstone(row.tombstone());
    builder.shadowable(row.shadowable());
    if let Some(marker) = row.marker() {
        builder.marker(marker);
    }
    for (column, data) in row.columns() {
        if visit(&mut builder, Some(column)) {
            match data {
                ColumnData::Atomic(cell) => builder.cell(column, cell),
                ColumnData::Collection(view) => builder.collection(column, view.bytes()),
            }
        }
    }
    visit(&mut builder, None);
    builder.finish()
}

impl Parts {
    fn of(column: ColumnId, view: CollectionView<'_>, grown: &mut Grown) -> Parts {
        let newest = view.iter().map(|(_, cell)| cell.timestamp).max().unwrap_or(i64::MIN);
        let tomb = view.tomb();
        let mut parts = Parts { column, tomb, newest, tree: None, elements: 0, bytes: 0 };
        collection::split(view, PART_BYTES_MAX, |path, blob| {
            match parts.tree {
                None => parts.insert(|_| Ordering::Less, FIRST, blob, grown),
                // In the order in which the blob has them: each goes behind the last one.
                Some(_) => parts.insert(|_| Ordering::Less, path, blob, grown),
            }
        });
        debug_assert_eq!(parts.elements, view.len(), "same-row: elements of {column:?}");
        parts
    }

    /// Merges another blob of the column.
    fn merge(
        &mut self,
        ty: Option<&Type>,
        view: CollectionView<'_>,
        scratch: &mut Scratch,
        grown: &mut Grown,
    ) {
        self.cover(view.tomb(), grown, scratch);
        self.tomb = self.tomb.merge(view.tomb());
        let mut elements = view.iter().peekable();
        while let Some((first, _)) = elements.peek() {
            let first = *first;
            let Some(tree) = &self.tree else {
                let mut rest = CollectionWriter::new(Tombstone::NONE);
                elements.for_each(|(path, cell)| rest.push(path, cell));
                let fresh = Parts::of(self.column, CollectionView::trusted(&rest.finish()), grown);
                (self.tree, self.newest) = (fresh.tree, fresh.newest);
                (self.elements, self.bytes) = (fresh.elements, fresh.bytes);
                return;
            };
            let (key, part, next) = tree.floor(|stored| place(ty, stored, first));
            let (key, part, is_last) = (key.clone(), part.clone(), next.is_none());
            let next = next.cloned();
            let mut some = CollectionWriter::new(Tombstone::NONE);
            let falls_here = |path: &[u8]| {
                next.as_ref().is_none_or(|next| compare_paths(ty, path, next).is_lt())
            };
            while let Some((path, cell)) = elements.next_if(|(path, _)| falls_here(path)) {
                self.newest = self.newest.max(cell.timestamp);
                some.push(path, cell);
            }
            let some = some.finish();
            let count = CollectionView::trusted(&some).len();
            assert!(0 < count, "disjoint: {first:?} is in no part");
            self.merge_part(ty, (&key, part, is_last), (first, &some), scratch, grown);
        }
    }

    /// Merges elements, the first of them at `first`, with the part that they fall in.
    fn merge_part(
        &mut self,
        ty: Option<&Type>,
        (key, part, is_last): (&[u8], Rc<[u8]>, bool),
        (first, some): (&[u8], &[u8]),
        scratch: &mut Scratch,
        grown: &mut Grown,
    ) {
        let old = CollectionView::trusted(&part);
        // What is appended leaves full parts behind.
        if is_last && PART_BYTES_MAX < part.len() + some.len() {
            let last = old.iter().last();
            if last.is_some_and(|(last, _)| compare_paths(ty, last, first).is_lt()) {
                let some = CollectionView::trusted(some);
                return collection::split(some, PART_BYTES_MAX, |path, blob| {
                    self.insert(|stored| place(ty, stored, path), path, blob, grown);
                });
            }
        }
        let merged = &mut scratch.bytes;
        merged.clear();
        collection::merge(ty, old, CollectionView::trusted(some), merged);
        debug_assert!(
            {
                let (old, some) = (old.len(), CollectionView::trusted(some).len());
                let merged = CollectionView::trusted(merged).len();
                old.max(some) <= merged && merged <= old + some
            },
            "same-row: elements of a merged part"
        );
        drop(part);
        if merged.len() <= PART_BYTES_MAX {
            return self.insert(|stored| place(ty, stored, key), key, merged, grown);
        }
        let mut of_key = Some(key);
        collection::split(CollectionView::trusted(merged), PART_BYTES_MAX, |path, blob| {
            let key = of_key.take().unwrap_or(path);
            self.insert(|stored| place(ty, stored, key), key, blob, grown);
        });
    }

    /// Puts a part where it belongs, in the place of one with that key.
    fn insert(
        &mut self,
        place: impl Fn(&[u8]) -> Ordering,
        key: &[u8],
        blob: &[u8],
        grown: &mut Grown,
    ) {
        debug_assert!(!CollectionView::trusted(blob).is_empty(), "disjoint: a part of no element");
        let before = grown.bytes();
        let tree = self.tree.get_or_insert_with(|| Tree::of_few(Vec::new(), grown));
        let mut made = None;
        let make = || {
            made = Some(blob_bytes(key.len()) + blob_bytes(blob.len()));
            (Bytes::copy_from(key), Rc::from(blob))
        };
        let part = tree.entry(place, make, grown);
        let count = |blob: &[u8]| CollectionView::trusted(blob).len();
        let before_it = if made.is_some() { 0 } else { count(part) };
        debug_assert!(before_it <= self.elements, "same-row: {before_it} of {}", self.elements);
        self.elements = self.elements - before_it + count(blob);
        match made {
            Some(bytes) => grown.add(bytes),
            None => put(part, blob, grown),
        }
        self.bytes = self.bytes.saturating_add_signed(grown.bytes() - before);
    }

    /// Forgets all elements if a deletion covers all of them.
    fn cover(&mut self, tombstone: Tombstone, grown: &mut Grown, scratch: &mut Scratch) {
        debug_assert_eq!(self.tree.is_some(), 0 < self.elements, "same-row: {}", self.elements);
        if tombstone.covers(self.newest)
            && let Some(tree) = self.tree.take()
        {
            self.elements = 0;
            let bytes = std::mem::take(&mut self.bytes);
            grown.change(bytes, 0);
            scratch.litter.push((tree.into_root(), bytes));
        }
    }

    /// Its parts, in order.
    pub(super) fn blobs(&self) -> Vec<Rc<[u8]>> {
        let parts = self.tree.as_ref().map(Tree::values).unwrap_or_default();
        debug_assert_eq!(
            parts.iter().map(|part| CollectionView::trusted(part).len()).sum::<usize>(),
            self.elements,
            "same-row: elements"
        );
        debug_assert!(
            parts.iter().all(|part| {
                let mut elements = CollectionView::trusted(part).iter();
                elements.all(|(_, cell)| cell.timestamp <= self.newest)
            }),
            "lazily-covered: an element newer than {}",
            self.newest
        );
        parts.into_iter().cloned().collect()
    }
}

/// How the key of a part stands to a path, or to the key of another part.
fn place(ty: Option<&Type>, stored: &[u8], wanted: &[u8]) -> Ordering {
    match (stored.is_empty(), wanted.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, _) => compare_paths(ty, stored, wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::super::assembly::Assembly;
    use super::super::row::Row;
    use super::*;
    use crate::testing::{C, V, schema};
    use mutation::{Cell, CellState, Marker};
    use proptest::prelude::*;
    use stdx::Prng;

    fn element(path: u32, timestamp: i64, value: &[u8]) -> (Vec<u8>, i64, Vec<u8>) {
        (path.to_be_bytes().to_vec(), timestamp, value.to_vec())
    }

    /// A row that sets elements, in path order.
    fn adds(tomb: Tombstone, elements: &[(Vec<u8>, i64, Vec<u8>)]) -> Vec<u8> {
        let mut set = CollectionWriter::new(tomb);
        for (path, timestamp, value) in elements {
            set.push(path, Cell { timestamp: *timestamp, state: CellState::Live { value } });
        }
        let mut row = RowBuilder::new(Vec::new());
        row.collection(C, &set.finish());
        row.finish()
    }

    fn random_row(prng: &mut Prng, timestamp: i64) -> Vec<u8> {
        match prng.below(12) {
            0 => {
                let mut row = RowBuilder::new(Vec::new());
                row.marker(Marker::Live { timestamp });
                row.cell(V, Cell { timestamp, state: CellState::Live { value: b"other" } });
                row.finish()
            }
            1 if prng.one_in(2) => {
                let mut row = RowBuilder::new(Vec::new());
                row.tombstone(Tombstone::new(timestamp - 20, 1));
                row.finish()
            }
            kind => {
                let many = if kind < 4 { prng.below(400) } else { prng.below(4) };
                let path = |prng: &mut Prng| prng.below(3000) as u32;
                let mut paths: Vec<u32> = (0..many).map(|_| path(prng)).collect();
                paths.sort_unstable();
                paths.dedup();
                let elements = paths.iter().map(|path| {
                    let value = vec![*path as u8; prng.below(120) as usize];
                    element(*path, timestamp - prng.below(15) as i64, &value)
                });
                let elements: Vec<_> = elements.collect();
                let overwrites = prng.one_in(8);
                let tomb = Tombstone::new(timestamp - prng.below(20) as i64, 1);
                adds(if overwrites { tomb } else { Tombstone::NONE }, &elements)
            }
        }
    }

    /// What it becomes in steps of a few parts.
    fn in_steps(row: &Row, parts_max: usize) -> Bytes {
        let Row::Large(large) = row else { return row.bytes() };
        let mut assembly = Assembly::new(large.clone());
        let mut steps = 0;
        loop {
            steps += 1;
            if let Some(bytes) = assembly.step(parts_max) {
                let parts: usize = large.collections().iter().map(|one| one.blobs().len()).sum();
                assert!(2 * (parts / parts_max) <= steps, "{steps} steps for {parts} parts");
                return bytes;
            }
        }
    }

    fn check(seed: u64) {
        let schema = schema(1, "t");
        let mut prng = Prng::from_seed(seed);
        let (mut scratch, mut grown) = (Scratch::default(), Grown::default());
        let first = random_row(&mut prng, 30);
        let mut row = Row::new(RowView::trusted(&first), &mut grown);
        let mut expected = first;
        let mut snapshots = Vec::new();
        let mut was_large = false;
        for step in 0..60 {
            let new = random_row(&mut prng, 30 + step);
            let new = RowView::parse(&new).unwrap();
            row.merge(&schema, new, &mut scratch, &mut grown);
            let mut merged = Vec::new();
            mutation::row::merge(&schema, RowView::trusted(&expected), new, &mut merged);
            expected = merged;
            assert_eq!(row.bytes()[..], expected[..], "seed {seed} step {step}");
            let parts_max = 1 + prng.below(9) as usize;
            assert_eq!(in_steps(&row, parts_max)[..], expected[..], "seed {seed} step {step}");
            was_large |= matches!(row, Row::Large(_));
            if prng.one_in(10) {
                snapshots.push((row.clone(), expected.clone()));
            }
        }
        assert!(was_large || seed != 1, "a row gets large");
        for (row, expected) in snapshots {
            assert_eq!(row.bytes()[..], expected[..], "seed {seed}");
        }
        assert!(0 < grown.bytes(), "seed {seed}: {grown:?}");
    }

    /// Bytes that appending to a row allocates: in all, and at most for one element.
    fn append_work(count: u32, path_of: impl Fn(u32) -> u32) -> (u64, u64) {
        let schema = schema(1, "t");
        let (mut scratch, mut grown) = (Scratch::default(), Grown::default());
        let first = adds(Tombstone::NONE, &[element(path_of(0), 1, b"value")]);
        let mut row = Row::new(RowView::trusted(&first), &mut grown);
        let (before, mut most) = (memory::counts().bytes, 0);
        for number in 1..count {
            let new = adds(Tombstone::NONE, &[element(path_of(number), 1, b"value")]);
            let start = memory::counts().bytes;
            row.merge(&schema, RowView::trusted(&new), &mut scratch, &mut grown);
            most = most.max(memory::counts().bytes - start);
        }
        let all = memory::counts().bytes - before;
        let blob = row.bytes();
        let Some((_, ColumnData::Collection(view))) = RowView::trusted(&blob).columns().next()
        else {
            panic!("a collection")
        };
        assert_eq!(view.len() as u32, count);
        assert_eq!(row.collections(), [(C, u64::from(count))]);
        assert!(row.len().abs_diff(blob.len()) < blob.len(), "{} {}", row.len(), blob.len());
        (all, most)
    }

    #[test]
    fn appends_one_by_one_cost_the_same_however_many_there_are() {
        type Order = (&'static str, fn(u32) -> u32);
        let orders: [Order; 3] = [
            ("ascending", |number| number),
            ("descending", |number| u32::MAX / 2 - number),
            ("scattered", |number| number.wrapping_mul(0x9e37_79b1) >> 1),
        ];
        for (name, path_of) in orders {
            let (some, _) = append_work(1_500, path_of);
            let (more, most) = append_work(6_000, path_of);
            assert!(more < some * 5, "{name}: {some} bytes for 1500, {more} for 6000");
            assert!(more < 6_000 * 8_192, "{name}: {more} bytes for 6000");
            // The step in which a blob of 16 KiB becomes parts takes the most.
            assert!(most < 256 << 10, "{name}: {most} bytes in one step");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 24, failure_persistence: None, ..Default::default()
        })]
        #[test]
        fn a_large_row_is_the_row_that_merging_gives(seed: u64) {
            check(seed);
        }
    }

    #[test]
    fn a_deletion_of_all_elements_leaves_the_work_of_freeing_them() {
        let schema = schema(1, "t");
        let (mut scratch, mut grown) = (Scratch::default(), Grown::default());
        let elements: Vec<_> = (0..5_000).map(|path| element(path, 1, b"value")).collect();
        let first = adds(Tombstone::NONE, &elements[..1]);
        let mut row = Row::new(RowView::trusted(&first), &mut grown);
        for some in elements[1..].chunks(100) {
            let new = adds(Tombstone::NONE, some);
            row.merge(&schema, RowView::trusted(&new), &mut scratch, &mut grown);
        }
        let (before, live) = (grown.bytes(), memory::live_bytes());
        let new = adds(Tombstone::new(2, 1), &[element(7, 3, b"new")]);
        row.merge(&schema, RowView::trusted(&new), &mut scratch, &mut grown);
        let [(_, bytes)] = &scratch.litter[..] else { panic!("one collection") };
        let shrunk = before - grown.bytes();
        assert!(0 < shrunk && shrunk as usize <= *bytes && *bytes < shrunk as usize + 4096);
        assert!(5_000 * 12 < *bytes, "{bytes}");
        // Nothing of it was freed in that step.
        assert!(live <= memory::live_bytes());
        assert_eq!(row.bytes()[..], new[..]);
    }

    #[test]
    fn rows_get_large_in_this_test() {
        check(1);
    }
}
