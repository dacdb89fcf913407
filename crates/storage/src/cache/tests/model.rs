//! Random lists of operations: writes, flushes that update the cache bit by bit, readers that
//! populate it bit by bit with what they saw when they began, evictions, invalidations; after each
//! one all that the cache claims to know is compared with what the SSTables hold.
//!
//! What a run may say: merged with the sealed memtable it is what SSTables and sealed memtable
//! are together; while no update runs, just what the SSTables hold.

use super::super::*;
use super::world::{self, Content, Shape};
use crate::memtable::Memtable;
use mutation::{
    ClusteringPosition, ClusteringRange, Direction, Fragment, FrozenMutation, MutationBuilder,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use stdx::Prng;

struct World {
    shape: Shape,
    schema: Rc<TableSchema>,
    cache: Rc<RowCache>,
    tablet: Rc<TabletCache>,
    keys: Vec<DecoratedKey>,
    /// What the SSTables hold.
    below: Rc<Content>,
    /// What the memtable holds whose SSTable is about to join.
    sealed: Rc<Content>,
    active: Content,
    update: Option<(Update, VecDeque<Fragment>)>,
    readers: Vec<Reader>,
    held: Vec<Held>,
    seen: Seen,
}

/// How often what the test is about has happened.
#[derive(Debug, Default)]
struct Seen {
    wholes: u64,
    larges: u64,
    runs: u64,
    absents: u64,
    known_next: u64,
    ends: u64,
    held_runs: u64,
    shed: u64,
    plain: u64,
}

/// Merges a partition of the memtable as it lies there, if it lies so.
fn merge_plain(
    update: &mut Update,
    schema: &TableSchema,
    (key, mutation): (&DecoratedKey, &FrozenMutation),
    surely_absent: &dyn Fn(&DecoratedKey) -> bool,
) -> bool {
    let memtable = Memtable::new(Rc::new(schema.order.clone()));
    memtable.apply(schema, key.clone(), &mutation.view().unwrap());
    memtable.next_few(None, 2, |few| update.plain_few(few, surely_absent)) == 1
}

/// A reader that populates.
struct Reader {
    phase: Phase,
    below: Rc<Content>,
    range: ClusteringRange,
    direction: Direction,
    /// The partitions that it is yet to read, and just after which one it stands.
    keys: VecDeque<DecoratedKey>,
    after: RingBound,
    scans: bool,
    at: Option<(Populate, VecDeque<Fragment>)>,
}

/// A snapshot, and what it gave when it was taken.
struct Held {
    key: DecoratedKey,
    snapshot: Snapshot,
    gave: Vec<(ClusteringRange, FrozenMutation)>,
}

fn bound(token: Token, after: bool) -> RingBound {
    RingBound { token, key: None, after }
}

fn beside(key: &DecoratedKey, after: bool) -> RingBound {
    RingBound { token: key.token, key: Some(key.key.to_vec()), after }
}

impl World {
    fn new(shape: Shape, limit: usize) -> World {
        let schema = Rc::new(shape.schema());
        let cache = RowCache::new(16 << 20, limit);
        let tablet = cache.open(Rc::new(schema.order.clone()), world::RING);
        World {
            shape,
            schema,
            cache,
            tablet,
            keys: world::keys(),
            below: Rc::default(),
            sealed: Rc::default(),
            active: Content::new(),
            update: None,
            readers: Vec::new(),
            held: Vec::new(),
            seen: Seen::default(),
        }
    }

    fn step(&mut self, prng: &mut Prng) {
        if self.cache.stats().bytes_limit == 0 && prng.one_in(6) {
            self.cache.set_limit(*prng.pick(&[300 << 10, 600 << 10, 4 << 20]).unwrap());
        }
        match prng.below(100) {
            0..12 => self.write(prng),
            12..18 => self.begin_update(),
            18..45 => self.step_update(prng),
            45..57 => self.open_reader(prng),
            57..78 => self.step_reader(prng),
            78..86 => self.shed(prng),
            86..91 => self.evict(prng),
            91..94 => self.hold(prng),
            94 => drop(self.held.pop()),
            95 => self.cache.store.borrow_mut().evict_all(),
            96 => {
                // Without memory nothing gets in, and what was known must not become wrong.
                self.cache.set_limit(0);
                while prng.one_in(2) && self.cache.reclaim_step() {}
            }
            97 => self.truncate(prng),
            98 => self.lose_partition(prng),
            _ => self.drop_update(prng),
        }
    }

    fn key(&self, prng: &mut Prng) -> DecoratedKey {
        prng.pick(&self.keys).unwrap().clone()
    }

    fn write(&mut self, prng: &mut Prng) {
        let key = self.key(prng);
        let mutation = world::mutation(prng, self.shape, &self.schema, &key);
        world::add(&self.schema, &mut self.active, &key, &mutation);
    }

    fn begin_update(&mut self) {
        if self.update.is_none() {
            self.sealed = Rc::new(std::mem::take(&mut self.active));
            let fragments = world::stream(&self.schema, &self.sealed);
            self.update = Some((self.tablet.begin_update(&self.schema), fragments.into()));
        }
    }

    fn step_update(&mut self, prng: &mut Prng) {
        let Some((update, left)) = &mut self.update else { return };
        let filters_lie = prng.one_in(4);
        let below = self.below.clone();
        let surely_absent = |key: &DecoratedKey| !filters_lie && !below.contains_key(key);
        for _ in 0..1 + prng.below(12) {
            let Some(fragment) = left.front() else {
                self.finish_update();
                return;
            };
            if let Fragment::PartitionStart { key, .. } = fragment
                && prng.one_in(2)
                && let Some(mutation) = self.sealed.get(key)
                && merge_plain(update, &self.schema, (key, mutation), &surely_absent)
            {
                let end = left.iter().position(|one| matches!(one, Fragment::PartitionEnd));
                left.drain(..=end.unwrap());
                self.seen.plain += 1;
                continue;
            }
            if update.fragment(fragment, &surely_absent) == UpdateStep::Done {
                left.pop_front();
            }
        }
    }

    fn finish_update(&mut self) {
        let Some((update, left)) = self.update.take() else { return };
        assert!(left.is_empty());
        update.finish();
        let mut below = (*self.below).clone();
        for (key, mutation) in &*self.sealed {
            world::add(&self.schema, &mut below, key, mutation);
        }
        self.below = Rc::new(below);
        self.sealed = Rc::default();
    }

    /// What failed to be flushed is written again later.
    fn drop_update(&mut self, prng: &mut Prng) {
        if self.update.is_some() && prng.one_in(2) {
            self.update = None;
            for (key, mutation) in &*self.sealed {
                world::add(&self.schema, &mut self.active, key, mutation);
            }
            self.sealed = Rc::default();
        }
    }

    fn truncate(&mut self, prng: &mut Prng) {
        if prng.one_in(3) {
            self.below = Rc::default();
            self.sealed = Rc::default();
            self.active = Content::new();
            self.tablet.invalidate();
        }
    }

    fn lose_partition(&mut self, prng: &mut Prng) {
        let key = self.key(prng);
        let mut below = (*self.below).clone();
        below.remove(&key);
        self.below = Rc::new(below);
        self.tablet.invalidate_partition(&key);
    }

    fn evict(&mut self, prng: &mut Prng) {
        let mut store = self.cache.store.borrow_mut();
        for _ in 0..prng.below(3) {
            while store.collect_step() {}
            let linked = store.linked();
            if let Some(&handle) = prng.pick(&linked) {
                store.evict(handle);
            }
        }
    }

    /// Of some runs only a few rows stay.
    fn shed(&mut self, prng: &mut Prng) {
        let mut store = self.cache.store.borrow_mut();
        while store.collect_step() {}
        for handle in store.linked() {
            let rows = store.row_count(handle) as u64;
            if rows == 0 || prng.one_in(2) {
                continue;
            }
            // The checks have read all rows.
            store.clear_marks(handle);
            let first = prng.below(rows);
            let last = first + prng.below(rows - first).min(1) + 1;
            store.mark_rows(handle, first as usize..last as usize);
            self.seen.shed += u64::from(store.shed(handle));
        }
    }

    fn open_reader(&mut self, prng: &mut Prng) {
        let order = &self.schema.order;
        let mut reader = Reader {
            phase: self.tablet.phase(),
            below: self.below.clone(),
            range: ClusteringRange::full(),
            direction: Direction::of(prng.one_in(2)),
            keys: VecDeque::new(),
            after: bound(Token::MIN, false),
            scans: prng.one_in(2),
            at: None,
        };
        if reader.scans {
            if prng.one_in(3) {
                reader.after = beside(&self.key(prng), prng.one_in(2));
            }
            let rest = reader.below.keys();
            let rest = rest.filter(|key| reader.after.place(key.token, &key.key).is_gt());
            reader.keys = rest.cloned().collect();
        } else {
            reader.range = world::range(prng, self.shape, order);
            reader.keys.push_back(self.key(prng));
        }
        self.readers.push(reader);
    }

    fn step_reader(&mut self, prng: &mut Prng) {
        if self.readers.is_empty() {
            return;
        }
        let index = prng.below(self.readers.len() as u64) as usize;
        let mut goes_on = true;
        for _ in 0..1 + prng.below(20) {
            goes_on = goes_on && self.readers[index].step(&self.tablet, &self.schema, prng);
        }
        if !goes_on || prng.one_in(30) {
            self.readers.swap_remove(index);
        }
    }

    fn hold(&mut self, prng: &mut Prng) {
        let key = self.key(prng);
        if let Found::Present(snapshot) = self.tablet.find(&key) {
            let gave = self.walk(&key, &snapshot, Direction::Forward);
            self.held.push(Held { key, snapshot, gave });
        }
    }

    /// What a snapshot knows, with each interval checked to follow on the one before.
    fn walk(
        &self,
        key: &DecoratedKey,
        snapshot: &Snapshot,
        direction: Direction,
    ) -> Vec<(ClusteringRange, FrozenMutation)> {
        let order = &self.schema.order;
        let (mut at, end) = match direction {
            Direction::Forward => (ClusteringPosition::start(), ClusteringPosition::end()),
            Direction::Reversed => (ClusteringPosition::end(), ClusteringPosition::start()),
        };
        let mut out = Vec::new();
        loop {
            let interval = match snapshot.next(at.as_parts(), direction) {
                Stretch::End => break,
                Stretch::Gap { from, to } => ClusteringRange { start: from, end: to },
                Stretch::Known(run) => {
                    let view = run.view();
                    out.push((view.interval(), content_of(&self.schema, key, &view)));
                    view.interval()
                }
            };
            let (first, last) = match direction {
                Direction::Forward => (&interval.start, &interval.end),
                Direction::Reversed => (&interval.end, &interval.start),
            };
            assert!(!interval.is_empty(order));
            assert!(at.compare(order, first).is_eq(), "{at:?} {interval:?}");
            at = last.clone();
        }
        assert_eq!(at, end);
        if direction == Direction::Reversed {
            out.reverse();
        }
        out
    }

    fn check(&mut self) {
        for key in self.keys.clone() {
            self.check_partition(&key);
        }
        self.check_ring();
        for held in &self.held {
            let gives = self.walk(&held.key, &held.snapshot, Direction::Forward);
            for given in &gives {
                assert!(held.gave.contains(given), "a snapshot has changed");
            }
            self.seen.held_runs += gives.len() as u64;
        }
        self.cache.store.borrow_mut().audit();
    }

    fn check_partition(&mut self, key: &DecoratedKey) {
        let tablet = self.tablet.clone();
        let schema = self.schema.clone();
        let exists = self.below.contains_key(key);
        let whole = tablet.with_whole(key, |whole| {
            if whole.is_absent() {
                assert!(!exists, "never-stale: {key:?} exists");
            }
            assert!(whole.run.is_whole());
            self.check_head(key, whole.tombstone, whole.static_row);
            let content = content_of(&schema, key, &whole.run);
            self.check_run(key, &ClusteringRange::full(), &content);
        });
        self.seen.wholes += u64::from(whole.is_some());
        match self.tablet.find(key) {
            Found::Unknown => assert!(whole.is_none()),
            Found::Absent => {
                assert!(!exists, "never-stale: {key:?} exists");
                self.seen.absents += 1;
            }
            Found::Present(snapshot) => {
                self.check_head(key, snapshot.tombstone, &snapshot.static_row);
                let known = self.walk(key, &snapshot, Direction::Forward);
                assert!(known == self.walk(key, &snapshot, Direction::Reversed));
                for (interval, content) in &known {
                    self.check_run(key, interval, content);
                }
                self.seen.larges += u64::from(whole.is_none());
                self.seen.runs += if whole.is_none() { known.len() as u64 } else { 0 };
            }
        }
    }

    fn check_head(&self, key: &DecoratedKey, tombstone: Tombstone, static_row: &[u8]) {
        let schema = &self.schema;
        let (sealed_tombstone, sealed_row) = world::parts_of_head(self.sealed.get(key));
        let (below_tombstone, below_row) = world::parts_of_head(self.below.get(key));
        let sealed = world::head_of(schema, key, sealed_tombstone, &sealed_row);
        let below = world::head_of(schema, key, below_tombstone, &below_row);
        let known = world::head_of(schema, key, tombstone, static_row);
        self.check_same(&known, &below, &sealed);
    }

    fn check_run(&self, key: &DecoratedKey, interval: &ClusteringRange, known: &FrozenMutation) {
        let sealed = world::slice(&self.schema, key, self.sealed.get(key), interval);
        let below = world::slice(&self.schema, key, self.below.get(key), interval);
        self.check_same(known, &below, &sealed);
    }

    fn check_same(&self, known: &FrozenMutation, below: &FrozenMutation, sealed: &FrozenMutation) {
        let with_sealed = |mutation: &FrozenMutation| {
            let (mutation, sealed) = (mutation.view().unwrap(), sealed.view().unwrap());
            mutation::frozen::merge(&self.schema, mutation, sealed)
        };
        assert!(with_sealed(known) == with_sealed(below), "never-stale: {known:?} {below:?}");
    }

    /// Walks the ring as a scan does.
    fn check_ring(&mut self) {
        let (mut at, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
        let between = |from: &RingBound, to: &RingBound| {
            let mut keys = self.below.keys();
            keys.any(|key| {
                let after = from.place(key.token, &key.key).is_gt();
                after && to.place(key.token, &key.key).is_lt()
            })
        };
        for _ in 0..50 {
            match self.tablet.next_key(&at, &end) {
                NextKey::Known(key) => {
                    assert!(
                        !between(&at, &beside(&key, false)),
                        "never-stale: a key before {key:?}"
                    );
                    at = beside(&key, true);
                    self.seen.known_next += 1;
                }
                NextKey::NothingKnown { until } if until == end => return,
                NextKey::NothingKnown { until } => at = until,
                NextKey::End => {
                    assert!(!between(&at, &end), "never-stale: a key after {at:?}");
                    self.seen.ends += 1;
                    return;
                }
            }
        }
        panic!("a scan makes progress");
    }
}

impl Reader {
    /// Reads a fragment; whether anything is left.
    fn step(&mut self, tablet: &Rc<TabletCache>, schema: &TableSchema, prng: &mut Prng) -> bool {
        let order = &schema.order;
        let Some((populate, left)) = &mut self.at else { return self.enter(tablet, schema, prng) };
        let Some(fragment) = left.pop_front() else {
            match self.direction {
                Direction::Forward => populate.reached(&self.range.end),
                Direction::Reversed => populate.reached_reversed(&self.range.start),
            }
            self.at = None;
            return true;
        };
        let (prefix, weight) = fragment.clustering().unwrap();
        if prng.one_in(6) {
            let before = match (weight, self.direction) {
                (0, Direction::Forward) => (prefix, -1),
                (0, Direction::Reversed) => (prefix, 1),
                other => (prefix, other.0),
            };
            let position = run::owned(before);
            match self.direction {
                Direction::Forward => populate.reached(&position),
                Direction::Reversed => populate.reached_reversed(&position),
            }
        }
        assert!(self.range.contains(order, (prefix, weight)) || weight != 0);
        populate.fragment(&fragment);
        true
    }

    fn enter(&mut self, tablet: &Rc<TabletCache>, schema: &TableSchema, prng: &mut Prng) -> bool {
        let next = self.keys.pop_front();
        if self.scans {
            let before = match &next {
                Some(key) => beside(key, false),
                None => bound(Token::MAX, true),
            };
            // The partition before is populated; this one is about to be, so it is called again.
            tablet.populate_continuous(&self.after, &before, self.phase);
        }
        let Some(key) = next else { return false };
        let content = self.below.get(&key);
        if content.is_none() && self.range == ClusteringRange::full() {
            tablet.populate_absent(&key, self.phase);
            return true;
        }
        if prng.one_in(8) {
            self.after = beside(&key, true);
            return true;
        }
        let (tombstone, static_row) = world::parts_of_head(content);
        let mut populate = tablet.populate(key.clone(), tombstone, static_row, self.phase);
        match self.direction {
            Direction::Forward => populate.interval(self.range.start.clone()),
            Direction::Reversed => populate.interval_reversed(self.range.end.clone()),
        }
        let content = world::slice(schema, &key, content, &self.range);
        let fragments = world::fragments(schema, &content, &self.range, self.direction);
        if self.scans {
            self.scan(tablet, populate, fragments, &key);
            return true;
        }
        self.at = Some((populate, fragments.into()));
        true
    }

    /// A scan populates a partition, then says what lies before it.
    fn scan(
        &mut self,
        tablet: &Rc<TabletCache>,
        mut populate: Populate,
        fragments: Vec<Fragment>,
        key: &DecoratedKey,
    ) {
        fragments.iter().for_each(|fragment| populate.fragment(fragment));
        match self.direction {
            Direction::Forward => populate.reached(&self.range.end),
            Direction::Reversed => populate.reached_reversed(&self.range.start),
        }
        tablet.populate_continuous(&self.after, &beside(key, false), self.phase);
        self.after = beside(key, true);
    }
}

/// What a run says, as a mutation.
fn content_of(schema: &TableSchema, key: &DecoratedKey, run: &RunView<'_>) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &key.key);
    let mut last: Option<&[u8]> = None;
    for (key, row) in run.all_rows() {
        assert!(last.is_none_or(|last| schema.order.compare_rows(last, key).is_lt()), "in-order");
        assert!(run.interval().contains(&schema.order, (key, 0)), "in-order");
        last = Some(key);
        builder.row(key, row);
    }
    run.ranges().for_each(|range| builder.delete_range(range));
    builder.freeze()
}

fn run_world(seed: u64, shape: Shape, steps: usize) -> World {
    let mut prng = Prng::from_seed(seed);
    let limit = *prng.pick(&[300 << 10, 600 << 10, 4 << 20]).unwrap();
    let mut world = World::new(shape, limit);
    let always_evicts = prng.one_in(8);
    for _ in 0..steps {
        world.step(&mut prng);
        world.check();
        if always_evicts {
            world.cache.store.borrow_mut().evict_all();
            world.check();
        }
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    })]
    #[test]
    fn the_cache_mirrors_what_lies_below(seed: u64, shape in prop::sample::select(&world::SHAPES)) {
        run_world(seed, shape, 120);
    }
}

/// What the property is about does happen.
#[test]
fn the_model_sees_every_kind_of_knowledge() {
    let mut worlds = (0..24).map(|seed| run_world(seed, Shape::Clustered, 120));
    let mut seen = Seen::default();
    for world in &mut worlds {
        seen.wholes += world.seen.wholes;
        seen.larges += world.seen.larges;
        seen.runs += world.seen.runs;
        seen.absents += world.seen.absents;
        seen.known_next += world.seen.known_next;
        seen.ends += world.seen.ends;
        seen.held_runs += world.seen.held_runs;
        seen.shed += world.seen.shed;
        seen.plain += world.seen.plain;
    }
    let least = [seen.wholes, seen.larges, seen.absents, seen.known_next, seen.ends];
    assert!(least.iter().all(|&count| 100 < count), "{seen:?}");
    assert!(seen.larges < seen.runs && 50 < seen.held_runs && 10 < seen.shed, "{seen:?}");
    assert!(10 < seen.plain, "{seen:?}");
}
