//! A write and what was there before it, side by side.
//!
//! Invariants
//!  - *each-once*: every row that is written, and every row before that a deletion of the write may
//!    cover, is derived from once, with all deletions that hold at its place.

use crate::change::{Change, Sink, derive, nothing};
use crate::out::{Buffers, DerivedList, Out};
use crate::place::{Partition, Place};
use crate::plan::ViewPlan;
use model::TableSchema;
use mutation::frozen::Rows;
use mutation::{FrozenView, PartitionSink, RangeTombstoneList, RowView, Step, Tombstone};
use smallvec::SmallVec;

/// Derives from one write. Takes what [`crate::need`] asked for, as the fragments of a stream in
/// the order of the table, or as they lie in memory ([`PartitionSink`]); the end of the partition
/// need not come. Nothing at all comes of a partition that is not there.
pub struct Deriver<'a> {
    base: &'a TableSchema,
    /// Those that the partition has rows in.
    plans: SmallVec<[&'a ViewPlan; 4]>,
    write: FrozenView<'a>,
    partition: Partition<'a>,
    now: i64,
    /// The next row that is written.
    next: Option<(&'a [u8], RowView<'a>)>,
    rest: Rows<'a>,
    ranges: RangeTombstoneList,
    /// Whether the static row has been derived from.
    has_statics: bool,
    /// What was there: the deletion of the partition, and of the range at hand.
    deleted: Tombstone,
    range: Tombstone,
    out: Out<'a>,
    scratch: Vec<u8>,
}

impl<'a> Deriver<'a> {
    /// For `write`, of the table `base` with these views, at second `now`.
    pub fn new(
        base: &'a TableSchema,
        plans: &'a [ViewPlan],
        write: FrozenView<'a>,
        now: i64,
    ) -> Deriver<'a> {
        Deriver::reusing(base, plans, write, now, Buffers::default())
    }

    /// The same; [`Deriver::finish_reused`] gives the buffers back.
    // Made where it stays: it is large.
    #[inline]
    pub fn reusing(
        base: &'a TableSchema,
        plans: &'a [ViewPlan],
        write: FrozenView<'a>,
        now: i64,
        mut buffers: Buffers,
    ) -> Deriver<'a> {
        assert!(write.table() == base.id, "a write of another table");
        let has_token = plans.iter().any(|plan| plan.has_token);
        let partition = Partition::new(write.key(), base.partition_key_count, has_token);
        let place = Place::new(&partition, &[]);
        let plans = plans.iter().filter(|plan| plan.filter.has_partition(&place)).collect();
        let mut rest = write.rows();
        let mut ranges = RangeTombstoneList::new();
        write.ranges().for_each(|range| ranges.insert(&base.order, range));
        Deriver {
            base,
            plans,
            write,
            partition,
            now,
            next: rest.next(),
            rest,
            ranges,
            has_statics: false,
            deleted: Tombstone::NONE,
            range: Tombstone::NONE,
            scratch: std::mem::take(&mut buffers.row),
            out: Out::of(write.bytes().len(), buffers),
        }
    }

    /// How many rows of views there are to take.
    pub fn rows(&self) -> usize {
        self.out.rows()
    }

    /// Takes what there is so far. A partition of a view may come in several parts.
    pub fn take(&mut self) -> DerivedList {
        self.out.take()
    }

    /// The rest.
    pub fn finish(mut self) -> DerivedList {
        self.finish_all();
        self.out.take()
    }

    /// The rest, and the buffers that it was made with, which it has no more.
    pub fn finish_reused(&mut self) -> (DerivedList, Buffers) {
        self.finish_all();
        let derived = self.out.take();
        let mut buffers = self.out.take_buffers();
        buffers.row = std::mem::take(&mut self.scratch);
        (derived, buffers.trimmed())
    }

    fn finish_all(&mut self) {
        self.delete_partitions();
        self.finish_statics();
        while let Some((key, row)) = self.next.take() {
            self.next = self.rest.next();
            self.derive(key, nothing(), row);
        }
    }

    /// Of views whose partitions are those of the base table: one deletion each.
    fn delete_partitions(&mut self) {
        let tombstone = self.write.tombstone();
        if tombstone.is_none() {
            return;
        }
        let place = Place::new(&self.partition, &[]);
        for plan in self.plans.iter().filter(|plan| plan.keeps_partitions) {
            self.out.delete_partition(plan, &place, tombstone);
        }
    }

    /// Derives from the static row, before any other.
    fn statics(&mut self, before: RowView<'_>) {
        debug_assert!(!self.has_statics, "each-once: two static rows");
        self.has_statics = true;
        let written = self.write.tombstone();
        let update = self.write.static_row();
        if update.is_none_or(|row| row.is_empty()) && written.is_none() {
            return;
        }
        let update = match update {
            Some(row) => row,
            None => nothing(),
        };
        let change = Change { before, update, existing: self.deleted, written };
        self.derive_each(&[], &change, true);
    }

    fn finish_statics(&mut self) {
        if self.has_statics {
            return;
        }
        match self.write.static_row().is_none() && self.write.tombstone().is_none() {
            true => self.has_statics = true,
            false => self.statics(nothing()),
        }
    }

    /// Derives from the rows that are written before a position, where nothing was.
    fn write_before(&mut self, position: (&[u8], i8)) {
        self.finish_statics();
        while let Some((key, row)) =
            self.next.take_if(|(key, _)| self.base.order.compare((key, 0), position).is_lt())
        {
            self.next = self.rest.next();
            self.derive(key, nothing(), row);
        }
    }

    /// Derives from a row that was there.
    fn existing(&mut self, key: &[u8], before: RowView<'_>) {
        let order = &self.base.order;
        let is_written = self.next.is_some_and(|(next, _)| order.compare_rows(next, key).is_eq());
        let update = match self.next.take_if(|_| is_written) {
            Some((_, row)) => {
                self.next = self.rest.next();
                row
            }
            None => nothing(),
        };
        self.derive(key, before, update);
    }

    fn derive(&mut self, key: &[u8], before: RowView<'_>, update: RowView<'_>) {
        let mut written = self.write.tombstone();
        if !self.ranges.is_empty() {
            written = written.merge(self.ranges.tombstone_at(&self.base.order, (key, 0)));
        }
        if update.is_empty() && written.is_none() {
            return;
        }
        let existing = self.deleted.merge(self.range);
        let change = Change { before, update, existing, written };
        self.derive_each(key, &change, false);
    }

    /// Derives for each view, of static rows or of the others.
    fn derive_each(&mut self, clustering: &[u8], change: &Change<'_>, is_static: bool) {
        let place = Place::new(&self.partition, clustering);
        let (base, now) = (self.base, self.now);
        for plan in self.plans.iter().filter(|plan| plan.is_of_statics() == is_static) {
            let sink = &mut Sink { base, now, out: &mut self.out, scratch: &mut self.scratch };
            derive(plan, &place, change, sink);
        }
    }
}

/// Takes what was there.
impl PartitionSink for Deriver<'_> {
    fn begin(&mut self, key: &[u8], tombstone: Tombstone) -> Step {
        assert!(key == self.write.key(), "each-once: another partition");
        self.deleted = tombstone;
        Step::Continue
    }

    fn static_row(&mut self, row: RowView<'_>) -> Step {
        self.statics(row);
        Step::Continue
    }

    fn row_blob(&mut self, key: &[u8], blob: &[u8]) -> Step {
        self.write_before((key, 0));
        self.existing(key, RowView::trusted(blob));
        Step::Continue
    }

    fn change(&mut self, position: (&[u8], i8), tombstone: Tombstone) -> Step {
        self.write_before(position);
        self.range = tombstone;
        Step::Continue
    }

    fn end(&mut self) -> Step {
        self.range = Tombstone::NONE;
        Step::Continue
    }
}
