//! The source on a cache that is evicted from, updated, invalidated and read by others between
//! any two fills.

use super::*;
use crate::cache::{RowCache, Update, UpdateStep};
use crate::memtable::{KeyRange, Memtable, MemtableSource};
use model::TableSchema;
use mutation::page::Partitions;
use mutation::{FrozenMutation, Marker, MutationBuilder, RowBuilder, testing};
use reader::testing::{Model, SeenPartition, conformance, drain, everything, now, partitions};
use reader::{VecSource, merge};
use std::cell::RefCell;
use stdx::Prng;

const CACHE_BYTES: usize = 4 << 20;

/// What the SSTables hold, always read with a wait. It breaks after so many fills.
#[derive(Clone)]
struct Slow {
    mutations: Vec<FrozenMutation>,
    breaks_after: Option<usize>,
    /// Sources that were opened.
    opened: Rc<Cell<usize>>,
}

impl Slow {
    fn open(&self, partitions: &Partitions, slice: &Slice) -> Box<dyn Source> {
        self.opened.set(self.opened.get() + 1);
        let order = testing::schema().order;
        let fragments = Model::of(&self.mutations).fragments(partitions);
        let inner = VecSource::new(&order, fragments, slice);
        Box::new(SlowSource { inner, fills_left: self.breaks_after })
    }
}

impl Below for Slow {
    fn partition(&self, key: &DecoratedKey, slice: &Slice) -> Option<Box<dyn Source>> {
        Some(self.open(&Partitions::Key(key.key.to_vec()), slice))
    }
    fn range(
        &self,
        (start, end): (&RingBound, &RingBound),
        slice: &Slice,
    ) -> Option<Box<dyn Source>> {
        let (start, end) = (start.clone(), end.clone());
        Some(self.open(&Partitions::Range { start, end }, slice))
    }
}

struct SlowSource {
    inner: VecSource,
    fills_left: Option<usize>,
}

impl Source for SlowSource {
    fn try_fill(&mut self, _: Budget, _: &mut Vec<Fragment>) -> Option<Result<(), ReadError>> {
        None
    }
    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        if self.fills_left == Some(0) {
            return Box::pin(std::future::ready(Err(ReadError::TimedOut)));
        }
        self.fills_left = self.fills_left.map(|left| left - 1);
        self.inner.fill(budget, out)
    }
    fn next_partition(&mut self) {
        self.inner.next_partition();
    }
    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.inner.forward_partitions(start, end);
    }
    fn forward_rows(&mut self, range: ClusteringRange) {
        self.inner.forward_rows(range);
    }
}

/// A tablet without files.
struct Tablet {
    schema: Rc<TableSchema>,
    row_cache: Rc<RowCache>,
    cache: Rc<TabletCache>,
    sstables: RefCell<Vec<FrozenMutation>>,
    /// A sealed memtable, and what it is made of.
    sealed: RefCell<Option<(Rc<Memtable>, Vec<FrozenMutation>)>>,
    update: RefCell<Option<(Update, Vec<Fragment>)>>,
    /// Sources that were opened below.
    opened: Rc<Cell<usize>>,
}

impl Tablet {
    fn new(sstables: &[FrozenMutation], sealed: &[FrozenMutation]) -> Rc<Tablet> {
        let schema = Rc::new(testing::schema());
        let order = Rc::new(schema.order.clone());
        let row_cache = RowCache::new(CACHE_BYTES, CACHE_BYTES);
        let cache = row_cache.open(order.clone(), (Token::MIN, Token::MAX));
        let memtable = Memtable::new(order);
        for one in sealed {
            let view = one.view().unwrap();
            memtable.apply(&schema, DecoratedKey::new(Bytes::copy_from(view.key())), &view);
        }
        Rc::new(Tablet {
            schema,
            row_cache,
            cache,
            sstables: RefCell::new(sstables.to_vec()),
            sealed: RefCell::new(Some((Rc::new(memtable), sealed.to_vec()))),
            update: RefCell::new(None),
            opened: Rc::default(),
        })
    }

    /// What is there now, as one source (*one-view*).
    fn open(
        &self,
        slice: &Slice,
        scope: &PartitionScope,
        breaks_after: Option<usize>,
    ) -> Box<dyn Source> {
        let mutations = self.sstables.borrow().clone();
        let below = Slow { mutations, breaks_after, opened: self.opened.clone() };
        let order = Rc::new(self.schema.order.clone());
        let view = CacheView::of(&self.cache);
        let cached: Box<dyn Source> = match scope {
            PartitionScope::Key(key) if !slice.forwarding && !view.knows(key) => {
                let open = |below: &Slow, slice: &Slice| below.partition(key, slice);
                let below = (below, order);
                Box::new(FreshSource::new(view, below, key, slice.clone(), open).unwrap())
            }
            _ => Box::new(CacheSource::new(view, Rc::new(below), order, scope, slice.clone())),
        };
        let mut all: Vec<Box<dyn Source>> = vec![cached];
        if let Some((memtable, _)) = &*self.sealed.borrow() {
            let keys = match scope {
                PartitionScope::Key(key) => KeyRange::One(key.clone()),
                PartitionScope::Range { start, end } => {
                    KeyRange::Between(start.clone(), end.clone())
                }
            };
            all.push(Box::new(MemtableSource::new(memtable.clone(), keys, slice.clone())));
        }
        merge(self.schema.clone(), slice.direction(), all)
    }

    /// Merges so many fragments of the sealed memtable; at the end it becomes an SSTable.
    fn update(&self, fragments: usize) {
        let Some((_, mutations)) = self.sealed.borrow().clone() else { return };
        let mut update = self.update.borrow_mut();
        let (merging, left) = update.get_or_insert_with(|| {
            let mut left = Model::of(&mutations).fragments(&testing::read_all().partitions);
            left.reverse();
            (self.cache.begin_update(&self.schema), left)
        });
        let sstables = Model::of(&self.sstables.borrow());
        let surely_absent =
            |key: &DecoratedKey| sstables.fragments(&Partitions::Key(key.key.to_vec())).is_empty();
        for _ in 0..fragments {
            let Some(fragment) = left.pop() else { break };
            while merging.fragment(&fragment, &surely_absent) == UpdateStep::Again {}
        }
        if left.is_empty()
            && let Some((update, _)) = update.take()
        {
            self.sstables.borrow_mut().extend(mutations);
            *self.sealed.borrow_mut() = None;
            update.finish();
        }
    }

    /// Evicts what a few steps of the clock find cold.
    fn evict(&self, steps: usize) {
        self.row_cache.set_limit(0);
        for _ in 0..steps {
            self.row_cache.reclaim_step();
        }
        self.row_cache.set_limit(CACHE_BYTES);
    }

    /// Something happens.
    fn meddle(&self, prng: &mut Prng) {
        match prng.below(12) {
            0 | 1 => self.evict(1 + prng.below(3) as usize),
            2..5 => self.update(1 + prng.below(6) as usize),
            5 => self.cache.invalidate(),
            6 | 7 => self.read_a_little(prng),
            _ => {}
        }
    }

    /// Another read, of some of it.
    fn read_a_little(&self, prng: &mut Prng) {
        let mut slice = Slice { reversed: prng.one_in(2), ..Slice::full() };
        if prng.one_in(2) {
            let key = testing::clustering(prng.below(3) as i32, "a");
            slice.ranges = vec![ClusteringRange::of_prefix(key.into())];
        }
        let scope = if prng.one_in(2) { one(prng.below(4) as i32) } else { everything() };
        let mut source = self.open(&slice, &scope, None);
        let budget = Budget { fragments_max: 1 + prng.below(5) as usize, bytes_max: 1 << 20 };
        for _ in 0..prng.below(8) {
            now(source.fill(budget, &mut Vec::new())).unwrap();
        }
    }
}

/// Something happens before anything is asked of a source.
struct Meddled {
    tablet: Rc<Tablet>,
    prng: Prng,
    source: Box<dyn Source>,
}

impl Meddled {
    fn source(&mut self) -> &mut Box<dyn Source> {
        self.tablet.meddle(&mut self.prng);
        &mut self.source
    }
}

impl Source for Meddled {
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        self.source().try_fill(budget, out)
    }
    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        self.source().fill(budget, out)
    }
    fn next_partition(&mut self) {
        self.source().next_partition();
    }
    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        self.source().forward_partitions(start, end);
    }
    fn forward_rows(&mut self, range: ClusteringRange) {
        self.source().forward_rows(range);
    }
}

#[test]
fn a_cache_is_a_source_like_any_other_whatever_happens_to_it() {
    let mut prng = Prng::from_seed(11);
    now(conformance(400, async |mutations, slice: &Slice| {
        let split = prng.below(mutations.len() as u64 + 1) as usize;
        let tablet = Tablet::new(&mutations[..split], &mutations[split..]);
        for _ in 0..prng.below(6) {
            tablet.meddle(&mut prng);
        }
        let source = tablet.open(slice, &everything(), None);
        Box::new(Meddled { tablet, prng: prng.fork(), source }) as Box<dyn Source>
    }));
}

/// The partitions of a tablet, and how many sources were opened below for them.
fn read(tablet: &Tablet, slice: &Slice, scope: &PartitionScope) -> (Vec<SeenPartition>, usize) {
    let before = tablet.opened.get();
    let mut source = tablet.open(slice, scope, None);
    let seen = partitions(now(drain(&mut *source, Budget::BATCH)).unwrap(), slice.direction());
    (seen, tablet.opened.get() - before)
}

fn expected(mutations: &[FrozenMutation]) -> Vec<SeenPartition> {
    let fragments = Model::of(mutations).fragments(&testing::read_all().partitions);
    partitions(fragments, Direction::Forward)
}

/// A row in each of some partitions.
fn rows(partitions: std::ops::Range<i32>, c: i32, timestamp: i64) -> Vec<FrozenMutation> {
    let schema = testing::schema();
    let write = |partition| {
        let key = testing::partition_key(partition);
        let mut builder = MutationBuilder::new(&schema, &key);
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp });
        builder.row(&testing::clustering(c, "a"), &row.finish());
        builder.freeze()
    };
    partitions.map(write).collect()
}

fn one(partition: i32) -> PartitionScope {
    PartitionScope::Key(DecoratedKey::new(testing::partition_key(partition).into()))
}

#[test]
fn what_was_read_once_is_not_read_below_again() {
    let mutations = [rows(0..20, 1, 1), rows(0..20, 2, 1)].concat();
    let reversed = Slice { reversed: true, ..Slice::full() };
    let key = testing::clustering(1, "a");
    let narrow = Slice { ranges: vec![ClusteringRange::of_prefix(key.into())], ..Slice::full() };
    let check = |first: (&Slice, PartitionScope), then: (&Slice, PartitionScope), opens: usize| {
        let tablet = Tablet::new(&mutations, &[]);
        tablet.update(usize::MAX);
        assert_eq!(read(&tablet, first.0, &first.1).1, 1);
        let seen = read(&tablet, then.0, &then.1);
        assert_eq!(seen.1, opens, "{first:?}, then {then:?}");
        assert!(!seen.0.is_empty());
    };
    let full = Slice::full();
    check((&full, everything()), (&full, everything()), 0);
    check((&full, everything()), (&reversed, everything()), 0);
    check((&reversed, everything()), (&narrow, everything()), 0);
    check((&full, everything()), (&full, one(7)), 0);
    check((&full, one(7)), (&reversed, one(7)), 0);
    check((&narrow, one(7)), (&narrow, one(7)), 0);
    // The gaps before and behind the row.
    check((&narrow, one(7)), (&full, one(7)), 2);
    // Which partitions there are is not learnt from a part of each.
    check((&narrow, everything()), (&full, everything()), 1);
}

#[test]
fn partitions_that_are_not_there_are_known_not_to_be() {
    let tablet = Tablet::new(&rows(0..5, 1, 1), &[]);
    assert_eq!(read(&tablet, &Slice::full(), &one(9)), (vec![], 1));
    assert_eq!(read(&tablet, &Slice::full(), &one(9)), (vec![], 0));
}

#[test]
fn what_was_read_before_a_flush_does_not_go_into_the_cache_after_it() {
    let (old, new) = (rows(0..5, 1, 1), rows(0..5, 2, 2));
    for reads_first in [0, 1, 4] {
        let tablet = Tablet::new(&old, &new);
        let mut source = tablet.open(&Slice::full(), &everything(), None);
        let mut seen = Vec::new();
        let few = Budget { fragments_max: 1, bytes_max: 1 };
        for _ in 0..reads_first {
            now(source.fill(few, &mut seen)).unwrap();
        }
        tablet.update(usize::MAX);
        seen.extend(now(drain(&mut *source, few)).unwrap());
        let all = [old.clone(), new.clone()].concat();
        assert_eq!(partitions(seen, Direction::Forward), expected(&all));
        assert_eq!(read(&tablet, &Slice::full(), &everything()).0, expected(&all));
    }
}

#[test]
fn a_source_that_breaks_leaves_nothing_in_the_cache() {
    let mutations: Vec<_> = (0..30).flat_map(|c| rows(0..1, c, 1)).collect();
    let tablet = Tablet::new(&mutations, &[]);
    for fills in 0..9 {
        let scope = if fills < 5 { one(0) } else { everything() };
        let mut source = tablet.open(&Slice::full(), &scope, Some(fills));
        let few = Budget { fragments_max: 2, bytes_max: 1 << 20 };
        assert!(now(drain(&mut *source, few)).is_err());
        drop(source);
        assert_eq!(tablet.row_cache.stats().row_insertions, 0);
    }
    assert_eq!(read(&tablet, &Slice::full(), &everything()).0, expected(&mutations));
}

#[test]
fn what_a_reader_leaves_before_its_end_is_known_so_far() {
    let mutations: Vec<_> = (0..30).flat_map(|c| rows(0..1, c, 1)).collect();
    let tablet = Tablet::new(&mutations, &[]);
    let mut source = tablet.open(&Slice::full(), &one(0), None);
    let few = Budget { fragments_max: 11, bytes_max: 1 << 20 };
    now(source.fill(few, &mut Vec::new())).unwrap();
    drop(source);
    let first = ClusteringRange {
        start: ClusteringPosition::start(),
        end: ClusteringPosition::after(testing::clustering(9, "a").into()),
    };
    let slice = Slice { ranges: vec![first], ..Slice::full() };
    let (seen, opened) = read(&tablet, &slice, &one(0));
    assert_eq!((seen[0].rows.len(), opened), (10, 0));
}
