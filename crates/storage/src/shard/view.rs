//! What a read sees of a tablet, taken in one step (*one-view*), and the sources of it.
//!
//! What lies below the memtables is the row cache, and below that one object, [`SsTables`]: it
//! opens sources when they are needed, of the SSTables that there were when the view was taken.

use crate::cache::TabletCache;
use crate::cache::source::{Below, CacheSource, CacheView, FreshSource};
use crate::memtable::{KeyRange, Memtable, MemtableSource};
use crate::table::{Held, Tablet};
use model::{ClusteringOrder, DecoratedKey, RingShare, TableSchema};
use mutation::RingBound;
use reader::{PartitionScope, Slice, Source};
use sstable::{Access, Lookup, Scope};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// What a tablet holds, as one read sees it.
pub(crate) struct View {
    schema: Rc<TableSchema>,
    order: Rc<ClusteringOrder>,
    memtables: Vec<Rc<Memtable>>,
    /// `None`: SSTables are read without it.
    cache: Option<CacheView>,
    sstables: SsTables,
    /// The same for sources of the cache, made for the first of them.
    shared: OnceCell<Rc<SsTables>>,
}

/// The SSTables of a tablet, as one read sees them.
#[derive(Clone)]
pub(crate) struct SsTables {
    schema: Rc<TableSchema>,
    all: Rc<Vec<Rc<sstable::Table>>>,
    /// What the tablet has of its range.
    share: Option<RingShare>,
    access: Access,
    /// How many were opened for single partitions.
    opened: Cell<u64>,
}

impl View {
    /// Of what there is now.
    pub(crate) fn of(
        tablet: &Tablet,
        schema: &Rc<TableSchema>,
        access: Access,
        cache: Option<&Rc<TabletCache>>,
    ) -> View {
        debug_assert!(!tablet.is_gone(), "one-view: others have what it had");
        debug_assert!(!tablet.active.borrow().is_sealed(), "one-view: a sealed one is active");
        debug_assert!(
            tablet.sealed.borrow().iter().all(|memtable| memtable.is_sealed()),
            "one-view: one that is written to is sealed"
        );
        let sstables = SsTables {
            schema: schema.clone(),
            all: tablet.sstables.borrow().clone(),
            share: tablet.share,
            access,
            opened: Cell::new(0),
        };
        View {
            schema: schema.clone(),
            order: tablet.order.borrow().clone(),
            memtables: tablet.memtables().collect(),
            cache: cache.map(CacheView::of),
            sstables,
            shared: OnceCell::new(),
        }
    }

    /// How many SSTables were opened for single partitions.
    pub(crate) fn opened(&self) -> u64 {
        let shared = self.shared.get().map_or(0, |sstables| sstables.opened.get());
        self.sstables.opened.get() + shared
    }

    /// A source of one partition. Memtables without it take no part.
    pub(crate) fn partition(&self, lookup: &Lookup, slice: Slice) -> Box<dyn Source> {
        let holders = self.memtables.iter().filter(|memtable| memtable.contains(&lookup.key));
        let mut all = memtable_sources(holders, &KeyRange::One(lookup.key.clone()), &slice);
        let direction = slice.direction();
        match &self.cache {
            None => match self.sstables.source(lookup, slice) {
                Some(only) if all.is_empty() => return only,
                source => all.extend(source),
            },
            Some(view) if !slice.forwarding && !view.knows(&lookup.key) => {
                match self.fresh(view, lookup, slice) {
                    Some(only) if all.is_empty() => return only,
                    source => all.extend(source),
                }
            }
            Some(_) if self.sstables.may_contain(lookup) => {
                all.extend(self.cached(&PartitionScope::Key(lookup.key.clone()), &slice));
            }
            Some(_) => {}
        }
        reader::merge(self.schema.clone(), direction, all)
    }

    /// A source of a partition of which the cache knows nothing; `None`: it is not there.
    fn fresh(&self, view: &CacheView, lookup: &Lookup, slice: Slice) -> Option<Box<dyn Source>> {
        debug_assert!(!slice.forwarding, "rows of a fresh partition come as they are");
        let below = (self.sstables.clone(), self.order.clone());
        let open = |_: &SsTables, slice: &Slice| self.sstables.source(lookup, slice.clone());
        let source = FreshSource::new(view.clone(), below, &lookup.key, slice, open);
        source.map(|source| -> Box<dyn Source> { Box::new(source) })
    }

    /// A source of the partitions between two bounds; `None`: there are none.
    pub(crate) fn range(
        &self,
        (start, end): (&RingBound, &RingBound),
        slice: &Slice,
    ) -> Option<Box<dyn Source>> {
        let keys = KeyRange::Between(start.clone(), end.clone());
        let mut all = memtable_sources(self.memtables.iter(), &keys, slice);
        if self.cache.is_none() {
            self.sstables.open_range((start, end), slice, &mut all);
        } else if self.sstables.all.iter().any(|table| meets(table, start, end)) {
            let scope = PartitionScope::Range { start: start.clone(), end: end.clone() };
            all.extend(self.cached(&scope, slice));
        }
        (!all.is_empty()).then(|| self.merge(slice, all))
    }

    fn cached(&self, scope: &PartitionScope, slice: &Slice) -> Option<Box<dyn Source>> {
        let (view, order) = (self.cache.clone()?, self.order.clone());
        let below = self.shared.get_or_init(|| Rc::new(self.sstables.clone())).clone();
        Some(Box::new(CacheSource::new(view, below, order, scope, slice.clone())))
    }

    fn merge(&self, slice: &Slice, sources: Vec<Box<dyn Source>>) -> Box<dyn Source> {
        reader::merge(self.schema.clone(), slice.direction(), sources)
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

impl SsTables {
    /// Whether a partition may be there: false is certain.
    fn may_contain(&self, lookup: &Lookup) -> bool {
        self.all.iter().any(|table| table.may_contain(lookup))
    }

    fn open(&self, table: &Rc<sstable::Table>, lookup: &Lookup, slice: Slice) -> Box<dyn Source> {
        debug_assert!(table.may_contain(lookup), "an SSTable is opened in vain");
        self.opened.set(self.opened.get() + 1);
        Box::new(table.read(Scope::Key(lookup.clone()), slice, self.access.clone()))
    }

    /// A source of one partition; `None`: it is not there. Makes a list only of several.
    fn source(&self, lookup: &Lookup, slice: Slice) -> Option<Box<dyn Source>> {
        debug_assert!(
            self.share.is_none_or(|share| share.holds(lookup.key.token)),
            "own-alone: {:?} is of another shard",
            lookup.key
        );
        let mut holders = self.all.iter().filter(|table| table.may_contain(lookup));
        let first = holders.next()?;
        let Some(second) = holders.next() else { return Some(self.open(first, lookup, slice)) };
        let holders = [first, second].into_iter().chain(holders);
        let all = holders.map(|table| self.open(table, lookup, slice.clone())).collect();
        Some(reader::merge(self.schema.clone(), slice.direction(), all))
    }

    fn open_range(
        &self,
        (start, end): (&RingBound, &RingBound),
        slice: &Slice,
        all: &mut Vec<Box<dyn Source>>,
    ) {
        for table in self.all.iter().filter(|table| meets(table, start, end)) {
            let scope = Scope::Range { start: start.clone(), end: end.clone() };
            let whole = Box::new(table.read(scope, slice.clone(), self.access.clone()));
            all.push(Held::part_of(self.share, table, whole));
        }
    }

    fn merge(&self, slice: &Slice, all: Vec<Box<dyn Source>>) -> Option<Box<dyn Source>> {
        let merge = |all| reader::merge(self.schema.clone(), slice.direction(), all);
        Some(all).filter(|all| !all.is_empty()).map(merge)
    }
}

impl Below for SsTables {
    fn partition(&self, key: &DecoratedKey, slice: &Slice) -> Option<Box<dyn Source>> {
        self.source(&Lookup::new(key.key.clone()), slice.clone())
    }

    fn range(&self, bounds: (&RingBound, &RingBound), slice: &Slice) -> Option<Box<dyn Source>> {
        let mut all = Vec::new();
        self.open_range(bounds, slice, &mut all);
        self.merge(slice, all)
    }
}

/// Whether an SSTable may have partitions between two bounds.
pub(crate) fn meets(table: &sstable::Table, start: &RingBound, end: &RingBound) -> bool {
    let (first, last) = (table.first_key(), table.last_key());
    start.place(last.token, &last.key).is_gt() && end.place(first.token, &first.key).is_lt()
}
