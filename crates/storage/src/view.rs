//! What a read sees of a tablet, taken in one step (*one-view*), and the sources of it.
//!
//! What lies below the memtables is one object, [`Below`]: it opens sources when they are needed,
//! of the SSTables that there were when the view was taken.

use crate::memtable::{KeyRange, Memtable, MemtableSource};
use crate::table::Tablet;
use model::TableSchema;
use mutation::RingBound;
use reader::{Slice, Source};
use sstable::{Access, Lookup, Scope};
use std::cell::Cell;
use std::rc::Rc;

/// Memtables of a tablet, and what lies below them.
pub(crate) struct View {
    memtables: Vec<Rc<Memtable>>,
    below: Rc<Below>,
}

/// The SSTables of a tablet, as one read sees them.
pub(crate) struct Below {
    schema: Rc<TableSchema>,
    sstables: Rc<Vec<Rc<sstable::Table>>>,
    access: Access,
    /// How many were opened for single partitions.
    opened: Cell<u64>,
}

impl View {
    /// Of what there is now.
    pub(crate) fn of(tablet: &Tablet, schema: &Rc<TableSchema>, access: Access) -> View {
        let below = Below {
            schema: schema.clone(),
            sstables: tablet.sstables.borrow().clone(),
            access,
            opened: Cell::new(0),
        };
        View { memtables: tablet.memtables().collect(), below: Rc::new(below) }
    }

    /// What lies below the memtables.
    pub(crate) fn below(&self) -> &Rc<Below> {
        &self.below
    }

    /// A source of one partition. Memtables without it take no part.
    pub(crate) fn partition(&self, lookup: &Lookup, slice: &Slice) -> Box<dyn Source> {
        let holders = self.memtables.iter().filter(|memtable| memtable.contains(&lookup.key));
        let mut all = memtable_sources(holders, &KeyRange::One(lookup.key.clone()), slice);
        all.extend(self.below.partition(lookup, slice));
        self.merge(slice, all)
    }

    /// A source of the partitions between two bounds; `None`: there are none.
    pub(crate) fn range(
        &self,
        (start, end): (&RingBound, &RingBound),
        slice: &Slice,
    ) -> Option<Box<dyn Source>> {
        let keys = KeyRange::Between(start.clone(), end.clone());
        let mut all = memtable_sources(self.memtables.iter(), &keys, slice);
        all.extend(self.below.range((start, end), slice));
        (!all.is_empty()).then(|| self.merge(slice, all))
    }

    fn merge(&self, slice: &Slice, sources: Vec<Box<dyn Source>>) -> Box<dyn Source> {
        reader::merge(self.below.schema.clone(), slice.direction(), sources)
    }
}

fn memtable_sources<'m>(
    memtables: impl Iterator<Item = &'m Rc<Memtable>>,
    keys: &KeyRange,
    slice: &Slice,
) -> Vec<Box<dyn Source>> {
    let source = |memtable: &Rc<Memtable>| -> Box<dyn Source> {
        Box::new(MemtableSource::new(memtable.clone(), keys.clone(), slice.clone()))
    };
    memtables.map(source).collect()
}

impl Below {
    /// A source of one partition; `None`: it is not there.
    pub(crate) fn partition(&self, lookup: &Lookup, slice: &Slice) -> Option<Box<dyn Source>> {
        let mut all: Vec<Box<dyn Source>> = Vec::new();
        for table in self.sstables.iter().filter(|table| table.may_contain(lookup)) {
            let scope = Scope::Key(lookup.clone());
            all.push(Box::new(table.read(scope, slice.clone(), self.access.clone())));
        }
        self.opened.set(self.opened.get() + all.len() as u64);
        self.merge(slice, all)
    }

    /// A source of the partitions between two bounds; `None`: there are none.
    pub(crate) fn range(
        &self,
        (start, end): (&RingBound, &RingBound),
        slice: &Slice,
    ) -> Option<Box<dyn Source>> {
        let mut all: Vec<Box<dyn Source>> = Vec::new();
        for table in self.sstables.iter().filter(|table| meets(table, start, end)) {
            let scope = Scope::Range { start: start.clone(), end: end.clone() };
            all.push(Box::new(table.read(scope, slice.clone(), self.access.clone())));
        }
        self.merge(slice, all)
    }

    /// How many SSTables were opened for single partitions.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.get()
    }

    fn merge(&self, slice: &Slice, all: Vec<Box<dyn Source>>) -> Option<Box<dyn Source>> {
        let merge = |all| reader::merge(self.schema.clone(), slice.direction(), all);
        Some(all).filter(|all| !all.is_empty()).map(merge)
    }
}

/// Whether an SSTable may have partitions between two bounds.
fn meets(table: &sstable::Table, start: &RingBound, end: &RingBound) -> bool {
    let (first, last) = (table.first_key(), table.last_key());
    start.place(last.token, &last.key).is_gt() && end.place(first.token, &first.key).is_lt()
}
