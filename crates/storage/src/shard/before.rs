//! What is there of a partition before a write of it, for who derives from the write: in the step
//! in which it is asked for, or not at all.
//!
//! Invariants
//!  - *all-or-nothing*: a sink gets all that was asked for, or nothing. What an SSTable may have
//!    that the row cache does not know is not to be had.
//!  - *no-permit*: it takes no memory that readers have to ask for: nothing is copied.

use super::Shard;
use super::cached_page::{self, Wanted};
use crate::table::{Table, Tablet, Through};
use model::{DecoratedKey, TableId, TableSchema, Token};
use mutation::{ClusteringRange, Direction, PartitionSink};
use sstable::Lookup;

/// A partition as it is now.
#[derive(Clone, Copy)]
pub struct Before<'b> {
    table: &'b Table,
    tablet: &'b Tablet,
    key: &'b DecoratedKey,
}

impl<'b> Before<'b> {
    pub(super) fn new(table: &'b Table, tablet: &'b Tablet, key: &'b DecoratedKey) -> Before<'b> {
        debug_assert!(
            table.tablet_of(key.token).is_some_and(|own| std::ptr::eq(&*own, tablet)),
            "all-or-nothing: {key:?} is of another tablet"
        );
        Before { table, tablet, key }
    }

    /// Where the partition is.
    pub fn token(&self) -> Token {
        self.key.token
    }

    /// Gives `sink` the deletion of the partition, the rows in `ranges`, which ascend, with the
    /// range tombstones there, and the static row, in table order; of a partition that is not there
    /// nothing. Whether it is to be had at once.
    pub fn visit(
        &self,
        (ranges, with_static): (&[ClusteringRange], bool),
        sink: &mut dyn PartitionSink,
    ) -> bool {
        let schema = self.table.schema.borrow();
        debug_assert!(
            ranges.is_sorted_by(|a, b| {
                schema.order.compare(a.end.as_parts(), b.start.as_parts()).is_le()
            }),
            "all-or-nothing: not in table order: {ranges:?}"
        );
        if !self.table.broken.borrow().is_empty() {
            return false;
        }
        self.visit_cached(&schema, (ranges, with_static), sink)
            || self.visit_memtable((ranges, with_static), sink)
    }

    /// From one object of the cache, and the plain partition of one memtable.
    fn visit_cached(
        &self,
        schema: &TableSchema,
        (ranges, with_static): (&[ClusteringRange], bool),
        sink: &mut dyn PartitionSink,
    ) -> bool {
        let Before { table, tablet, key } = self;
        if tablet.sealed.borrow().is_empty() && tablet.sstables.borrow().is_empty() {
            return false;
        }
        let Some(cache) = table.cache_of(tablet, Through::Cache) else { return false };
        let mut held = tablet.in_memory(key);
        let more = held.next();
        if held.next().is_some() {
            return false;
        }
        let more = match &more {
            None => None,
            Some(partition) => match partition.plain() {
                None => return false,
                plain => plain,
            },
        };
        let wanted = Wanted { ranges, with_static, direction: Direction::Forward };
        let found = cache.with_whole(key, |whole| {
            cache.cache().count_rows(whole.run.row_count(), 0);
            cached_page::visit(&whole, more, &key.key, (schema, wanted), sink);
        });
        found.is_some()
    }

    /// From the memtable that is written to, where nothing else can have the partition.
    fn visit_memtable(
        &self,
        (ranges, with_static): (&[ClusteringRange], bool),
        sink: &mut dyn PartitionSink,
    ) -> bool {
        let Before { tablet, key, .. } = self;
        let sstables = tablet.sstables.borrow();
        let is_alone = tablet.sealed.borrow().is_empty() && {
            let lookup = (!sstables.is_empty()).then(|| Lookup::new(key.key.clone()));
            lookup.is_none_or(|it| !sstables.iter().any(|table| table.may_contain(&it)))
        };
        let memtable = tablet.active.borrow();
        if !is_alone || memtable.has_huge_rows(key) {
            return false;
        }
        debug_assert!(!memtable.is_sealed(), "all-or-nothing: a sealed memtable is written to");
        memtable.visit(key, (ranges, with_static), sink);
        true
    }
}

impl Shard {
    /// See [`crate::Storage::with_before`].
    pub(crate) fn with_before<R>(
        &self,
        id: TableId,
        key: &DecoratedKey,
        look: impl FnOnce(&Before<'_>) -> R,
    ) -> Option<R> {
        let table = self.table(id)?;
        let tablet = table.tablet_of(key.token)?;
        debug_assert!(!tablet.is_gone(), "all-or-nothing: another tablet has {key:?}");
        Some(look(&Before::new(&table, &tablet, key)))
    }
}
