//! A memtable reads as the merge of what was applied, whole, in slices, and while it changes.

use super::*;
use crate::testing::{self, Shape, random_mutation, random_range};
use model::Token;
use mutation::page::{ColumnForm, Partitions, ReadCommand, SendRange};
use mutation::{
    ClusteringPosition, ClusteringRange, Direction, Fragment, FrozenMutation, RingBound, RowView,
};
use proptest::prelude::*;
use reader::{Budget, Slice, Source};
use std::collections::BTreeMap;
use stdx::Prng;

const SHAPE: Shape = Shape { keys: 4, rows: 6, timestamps: 30 };

fn whole_ring() -> KeyRange {
    let bound = |token, after| RingBound { token, key: None, after };
    KeyRange::Between(bound(Token::MIN, false), bound(Token::MAX, true))
}

/// The merged mutation of each partition, in ring order.
type Model = BTreeMap<DecoratedKey, FrozenMutation>;

fn apply(schema: &TableSchema, memtable: &Memtable, model: &mut Model, new: FrozenMutation) {
    let view = new.view().unwrap();
    let key = DecoratedKey::new(Bytes::copy_from(view.key()));
    memtable.apply(schema, key.clone(), &view);
    let merged = match model.get(&key) {
        Some(old) => mutation::frozen::merge(schema, old.view().unwrap(), view),
        None => new,
    };
    model.insert(key, merged);
}

fn drain(mut source: MemtableSource, budget: Budget, between: &mut dyn FnMut()) -> Vec<Fragment> {
    let mut out = Vec::new();
    loop {
        let before = out.len();
        source.try_fill(budget, &mut out).unwrap().unwrap();
        assert!(out.len() - before <= budget.fragments_max, "bounded");
        if out.len() == before {
            return out;
        }
        between();
    }
}

/// What the stream of a partition should be, by the mutation's own definition.
fn expected(schema: &TableSchema, frozen: &FrozenMutation, slice: &Slice) -> Vec<Fragment> {
    let order = &schema.order;
    let view = frozen.view().unwrap();
    let mut list = RangeTombstoneList::new();
    view.ranges().for_each(|range| list.insert(order, range));
    let key = DecoratedKey::new(Bytes::copy_from(view.key()));
    let mut out = vec![Fragment::PartitionStart { key, tombstone: view.tombstone() }];
    if let Some(row) = view.static_row().filter(|_| slice.with_static) {
        out.push(Fragment::StaticRow { row: Bytes::copy_from(row.bytes()) });
    }
    let direction = Direction::of(slice.reversed);
    let mut ranges = slice.ranges.clone();
    if slice.reversed {
        ranges.reverse();
    }
    for range in &ranges {
        let changes = list.changes(order, range, direction);
        let mut placed: Vec<Fragment> = changes.into_iter().map(Fragment::from).collect();
        let rows = view.rows().filter(|(key, _)| range.contains(order, (key, 0)));
        placed.extend(rows.map(|(key, row)| Fragment::Row {
            key: Bytes::copy_from(key),
            row: Bytes::copy_from(row.bytes()),
        }));
        placed.sort_by(|a, b| {
            let (a, b) = (a.clustering().unwrap(), b.clustering().unwrap());
            direction.apply(order.compare(a, b))
        });
        out.extend(placed);
    }
    out.push(Fragment::PartitionEnd);
    out
}

/// Disjoint ranges in table order, some that touch.
fn random_slice(prng: &mut Prng, schema: &TableSchema) -> Slice {
    let mut ranges: Vec<ClusteringRange> = Vec::new();
    for _ in 0..prng.below(4) {
        let new = random_range(prng, &schema.order, SHAPE);
        let apart = |old: &ClusteringRange| old.intersect(&schema.order, &new).is_none();
        if ranges.iter().all(apart) {
            ranges.push(new);
        }
    }
    if ranges.is_empty() {
        ranges.push(ClusteringRange::full());
    }
    ranges.sort_by(|a, b| a.start.compare(&schema.order, &b.start));
    let (reversed, with_static) = (prng.one_in(2), !prng.one_in(3));
    Slice { ranges, reversed, with_static, forwarding: false }
}

fn random_budget(prng: &mut Prng) -> Budget {
    Budget { fragments_max: 1 + prng.below(6) as usize, bytes_max: 1 + prng.below(4000) as usize }
}

/// Rows of a COMPACT STORAGE table may have fewer components than there are columns; those with
/// more follow them, in whatever fills they come.
#[test]
fn rows_of_short_keys_are_followed_by_longer_ones() {
    let schema = testing::schema(1, "t");
    for seed in 0..300 {
        let mut prng = Prng::from_seed(seed);
        let memtable = Rc::new(Memtable::new(Rc::new(schema.order.clone())));
        let mut model = Model::new();
        for _ in 0..1 + prng.below(12) {
            let mut builder = mutation::MutationBuilder::new(&schema, &testing::key(1));
            let place = [prng.below(3) as u32, prng.below(3) as u32];
            let count = 1 + prng.below(2) as usize;
            if prng.one_in(4) {
                let range = ClusteringRange::of_prefix(testing::clustering(&place[..count]).into());
                let tombstone = testing::random_tombstone(&mut prng, SHAPE);
                builder.delete_range(mutation::RangeTombstone { range, tombstone });
            } else {
                let row = testing::random_row(&mut prng, SHAPE);
                builder.row(&testing::clustering(&place[..count]), &row);
            }
            apply(&schema, &memtable, &mut model, builder.freeze());
        }
        for reversed in [false, true] {
            let slice = Slice { reversed, ..Slice::full() };
            let expected: Vec<Fragment> =
                model.values().flat_map(|frozen| expected(&schema, frozen, &slice)).collect();
            let mut source = MemtableSource::new(memtable.clone(), whole_ring(), slice);
            let mut found = Vec::new();
            loop {
                let before = found.len();
                source.try_fill(random_budget(&mut prng), &mut found).unwrap().unwrap();
                if found.len() == before {
                    break;
                }
            }
            assert_eq!(found, expected, "seed {seed}, reversed: {reversed}");
        }
    }
}

/// Checks order and that what is opened is closed.
fn check_well_formed(schema: &TableSchema, slice: &Slice, fragments: &[Fragment]) {
    let direction = Direction::of(slice.reversed);
    let mut last_key: Option<DecoratedKey> = None;
    let mut last: Option<ClusteringPosition> = None;
    let mut open = Tombstone::NONE;
    for fragment in fragments {
        match fragment {
            Fragment::PartitionStart { key, .. } => {
                assert!(last_key.as_ref().is_none_or(|last| last < key), "ordered");
                last_key = Some(key.clone());
                last = None;
            }
            Fragment::PartitionEnd => assert!(open.is_none(), "closed"),
            Fragment::StaticRow { .. } => assert!(last.is_none()),
            Fragment::Row { .. } | Fragment::RangeTombstoneChange { .. } => {
                let (prefix, weight) = fragment.clustering().unwrap();
                let place = ClusteringPosition { prefix: Bytes::copy_from(prefix), weight };
                if let Some(last) = &last {
                    let order = direction.apply(last.compare(&schema.order, &place));
                    assert!(order.is_lt() || (order.is_eq() && weight != 0), "ordered");
                }
                last = Some(place);
                if let Fragment::RangeTombstoneChange { tombstone, .. } = fragment {
                    open = *tombstone;
                }
            }
        }
    }
}

fn check_reads(seed: u64) {
    let mut prng = Prng::from_seed(seed);
    let schema = testing::schema(1, "t");
    let memtable = Rc::new(Memtable::new(Rc::new(schema.order.clone())));
    let mut model = Model::new();
    for _ in 0..prng.below(60) {
        apply(&schema, &memtable, &mut model, random_mutation(&mut prng, &schema, SHAPE));
        assert_eq!(memtable.partition_count(), model.len());
    }
    for _ in 0..6 {
        let slice = random_slice(&mut prng, &schema);
        let budget = random_budget(&mut prng);
        let source = MemtableSource::new(memtable.clone(), whole_ring(), slice.clone());
        let seen = drain(source, budget, &mut || {});
        check_well_formed(&schema, &slice, &seen);
        let all: Vec<_> = model.values().flat_map(|one| expected(&schema, one, &slice)).collect();
        assert_eq!(seen, all, "seed {seed}");
        for (key, one) in &model {
            let one_key = KeyRange::One(key.clone());
            let source = MemtableSource::new(memtable.clone(), one_key, slice.clone());
            let seen = drain(source, budget, &mut || {});
            assert_eq!(seen, expected(&schema, one, &slice), "seed {seed}");
        }
    }
}

/// Makes a row of a partition large, or a static row if the table had such collections.
fn add_elements(prng: &mut Prng, schema: &TableSchema, memtable: &Memtable, model: &mut Model) {
    let mut set = mutation::CollectionWriter::new(Tombstone::NONE);
    let first = prng.below(2000) as u32;
    for path in first..first + 400 {
        let timestamp = 10 + prng.below(20) as i64;
        set.push(&path.to_be_bytes(), mutation::Cell::live(timestamp, &[7; 200]));
    }
    let mut row = mutation::RowBuilder::new(Vec::new());
    row.collection(testing::C, &set.finish());
    let mut builder = mutation::MutationBuilder::new(schema, &testing::key(prng.below(2)));
    let place = [prng.below(2) as u32, prng.below(SHAPE.rows) as u32];
    builder.row(&testing::clustering(&place), &row.finish());
    apply(schema, memtable, model, builder.freeze());
}

/// Rows that are put together in steps come whole and in their place, as they were when the source
/// came to their partition, while the memtable changes at each step.
async fn check_huge_rows(seed: u64) -> usize {
    let mut prng = Prng::from_seed(seed);
    let schema = Rc::new(testing::schema(1, "t"));
    let memtable = Rc::new(Memtable::new(Rc::new(schema.order.clone())));
    let mut model = Model::new();
    for _ in 0..30 {
        apply(&schema, &memtable, &mut model, random_mutation(&mut prng, &schema, SHAPE));
        add_elements(&mut prng, &schema, &memtable, &mut model);
    }
    let mut waits = 0;
    let keys: Vec<_> = model.keys().cloned().collect();
    for key in &keys {
        let slice = random_slice(&mut prng, &schema);
        let budget = random_budget(&mut prng);
        let one_key = KeyRange::One(key.clone());
        let mut source = MemtableSource::new(memtable.clone(), one_key, slice.clone());
        let one = model[key].clone();
        let mut seen = Vec::new();
        loop {
            let before = seen.len();
            match source.try_fill(budget, &mut seen) {
                Some(filled) => filled.unwrap(),
                None => {
                    assert_eq!(seen.len(), before, "yielded and then wanted to wait");
                    assert!(memtable.has_huge_rows(key));
                    waits += 1;
                    add_elements(&mut prng, &schema, &memtable, &mut model);
                    if prng.one_in(8) {
                        source.next_partition();
                        seen.clear();
                        break;
                    }
                    source.fill(budget, &mut seen).await.unwrap();
                    assert_eq!(seen.len(), before + 1);
                }
            }
            if seen.len() == before {
                break;
            }
        }
        if seen.is_empty() {
            let mut rest = Vec::new();
            source.fill(budget, &mut rest).await.unwrap();
            assert!(rest.is_empty(), "a partition that was skipped goes on");
            continue;
        }
        check_well_formed(&schema, &slice, &seen);
        assert!(seen == expected(&schema, &one, &slice), "seed {seed}");
    }
    waits
}

#[test]
fn rows_that_are_put_together_in_steps_come_whole() {
    let mut node = testkit::SimNode::new(1, 1);
    let waits = node.run(async {
        let mut waits = 0;
        for seed in 0..30 {
            waits += check_huge_rows(seed).await;
        }
        waits
    });
    assert!(30 < waits, "{waits} rows were put together in steps");
}

fn check_changing(seed: u64) {
    let mut prng = Prng::from_seed(seed);
    let schema = testing::schema(1, "t");
    let memtable = Rc::new(Memtable::new(Rc::new(schema.order.clone())));
    let mut model = Model::new();
    for _ in 0..20 {
        apply(&schema, &memtable, &mut model, random_mutation(&mut prng, &schema, SHAPE));
    }
    let slice = random_slice(&mut prng, &schema);
    let budget = random_budget(&mut prng);
    let source = MemtableSource::new(memtable.clone(), whole_ring(), slice.clone());
    let mut left = 200;
    let seen = drain(source, budget, &mut || {
        left -= 1;
        if 0 < left {
            apply(&schema, &memtable, &mut model, random_mutation(&mut prng, &schema, SHAPE));
        }
    });
    check_well_formed(&schema, &slice, &seen);
}

#[test]
fn a_memtable_is_a_source_like_any_other() {
    let schema = mutation::testing::schema();
    reader::testing::now(reader::testing::conformance(150, async |mutations, slice| {
        let memtable = Memtable::new(Rc::new(schema.order.clone()));
        for mutation in mutations {
            let view = mutation.view().unwrap();
            let key = DecoratedKey::new(Bytes::copy_from(view.key()));
            memtable.apply(&schema, key, &view);
        }
        let source = MemtableSource::new(Rc::new(memtable), whole_ring(), slice.clone());
        Box::new(source) as Box<dyn Source>
    }));
}

/// Rows of a partition as a stream gave them: clustering numbers.
fn numbers(fragments: &[Fragment]) -> Vec<u32> {
    let rows = fragments.iter().filter(|one| matches!(one, Fragment::Row { .. }));
    rows.map(|row| u32::from_be_bytes(row.clustering().unwrap().0[2..6].try_into().unwrap()))
        .collect()
}

fn write_rows(schema: &TableSchema, memtable: &Memtable, rows: &[u32], timestamp: i64) {
    let mut builder = mutation::MutationBuilder::new(schema, &testing::key(1));
    for row in rows {
        let mut blob = mutation::RowBuilder::new(Vec::new());
        blob.marker(mutation::Marker::Live { timestamp });
        builder.row(&testing::clustering(&[*row, 0]), &blob.finish());
    }
    let frozen = builder.freeze();
    let view = frozen.view().unwrap();
    memtable.apply(schema, DecoratedKey::new(Bytes::copy_from(view.key())), &view);
}

#[test]
fn a_reader_in_a_partition_sees_all_of_a_mutation_or_nothing() {
    let schema = testing::schema(1, "t");
    let key = DecoratedKey::new(Bytes::from(testing::key(1)));
    let few = Budget { fragments_max: 3, bytes_max: usize::MAX };
    for (count, keys) in [4u32, 8, 9, 200, 3000]
        .into_iter()
        .flat_map(|count| [(count, whole_ring()), (count, KeyRange::One(key.clone()))])
    {
        let memtable = Rc::new(Memtable::new(Rc::new(schema.order.clone())));
        let old: Vec<u32> = (0..count).map(|row| row * 2).collect();
        old.chunks(100).for_each(|rows| write_rows(&schema, &memtable, rows, 1));
        let mut source = MemtableSource::new(memtable.clone(), keys, Slice::full());
        let mut seen = Vec::new();
        source.try_fill(few, &mut seen).unwrap().unwrap();
        // Behind the reader and ahead of it, old rows and new ones.
        write_rows(&schema, &memtable, &[0, 1, count, 2 * count - 2, 2 * count + 1], 2);
        seen.extend(drain(source, few, &mut || {
            write_rows(&schema, &memtable, &[3, 2 * count + 3], 3);
        }));
        assert_eq!(numbers(&seen), old, "of {count}");
        for fragment in &seen {
            if let Fragment::Row { row, .. } = fragment {
                assert_eq!(RowView::trusted(row).last_update(), 1, "of {count}");
            }
        }
        let whole = MemtableSource::new(memtable.clone(), whole_ring(), Slice::full());
        let now = numbers(&drain(whole, few, &mut || {}));
        for new in [1, 3, 2 * count + 1, 2 * count + 3] {
            assert!(now.contains(&new), "{new} of {count}");
        }
    }
}

#[test]
fn partitions_between_bounds() {
    let mut prng = Prng::from_seed(9);
    let schema = testing::schema(1, "t");
    let memtable = Rc::new(Memtable::new(Rc::new(schema.order.clone())));
    let mut model = Model::new();
    let shape = Shape { keys: 40, ..SHAPE };
    for _ in 0..100 {
        apply(&schema, &memtable, &mut model, random_mutation(&mut prng, &schema, shape));
    }
    let keys: Vec<_> = model.keys().cloned().collect();
    let slice = Slice { ranges: Vec::new(), with_static: false, ..Slice::full() };
    for _ in 0..300 {
        let mut bound = || {
            let key = prng.pick(&keys).unwrap().clone();
            let with_key = prng.one_in(2);
            let key_bytes = with_key.then(|| key.key.to_vec());
            RingBound { token: key.token, key: key_bytes, after: prng.one_in(2) }
        };
        let (start, end) = (bound(), bound());
        let inside = |key: &&DecoratedKey| {
            start.place(key.token, &key.key).is_gt() && end.place(key.token, &key.key).is_lt()
        };
        let wanted: Vec<_> = keys.iter().filter(inside).cloned().collect();
        let range = KeyRange::Between(start.clone(), end.clone());
        let mut source = MemtableSource::new(memtable.clone(), range, slice.clone());
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        let budget = Budget { fragments_max: 1, bytes_max: 1 };
        while source.try_fill(budget, &mut out).is_some() && !out.is_empty() {
            for fragment in out.drain(..) {
                if let Fragment::PartitionStart { key, .. } = fragment {
                    seen.push(key);
                    source.next_partition();
                }
            }
        }
        assert_eq!(seen, wanted);
    }
}

/// What a scan looked up some partitions ahead must not hide those that come meanwhile.
#[test]
fn partitions_that_come_ahead_of_a_scan_are_seen() {
    let schema = testing::schema(1, "t");
    let slice = Slice { ranges: Vec::new(), with_static: false, ..Slice::full() };
    let budget = Budget { fragments_max: 1, bytes_max: 1 };
    let write = |memtable: &Memtable, number: u64| {
        let new = range_deleted(&schema, number, 1);
        let key = DecoratedKey::new(Bytes::copy_from(new.view().unwrap().key()));
        memtable.apply(&schema, key.clone(), &new.view().unwrap());
        key
    };
    for seed in 0..20 {
        let mut prng = Prng::from_seed(seed);
        let memtable = Rc::new(Memtable::new(Rc::new(schema.order.clone())));
        let mut wanted: Vec<_> = (0..60).map(|number| write(&memtable, number)).collect();
        wanted.sort();
        let mut source = MemtableSource::new(memtable.clone(), whole_ring(), slice.clone());
        let (mut out, mut seen, mut next) = (Vec::new(), Vec::new(), 60);
        while source.try_fill(budget, &mut out).is_some() && !out.is_empty() {
            for fragment in out.drain(..) {
                let Fragment::PartitionStart { key, .. } = fragment else { continue };
                if next < 200 && prng.one_in(2) {
                    let new = write(&memtable, next);
                    next += 1;
                    if key < new {
                        wanted.insert(wanted.binary_search(&new).unwrap_err(), new);
                    }
                }
                if prng.one_in(20) {
                    let from = prng.pick(&wanted).unwrap().clone();
                    let start = RingBound { token: from.token, key: None, after: false };
                    let end = RingBound { token: Token::MAX, key: None, after: true };
                    if key < from {
                        wanted.retain(|one| *one <= key || from <= *one);
                        source.forward_partitions(&start, &end);
                    }
                }
                seen.push(key);
            }
        }
        assert_eq!(seen, wanted, "seed {seed}");
    }
}

/// Fills a memtable and compares what it says that it takes with what was allocated, up to 15 %.
fn check_accounting(name: &str, write: impl Fn(&TableSchema, &mut Prng) -> FrozenMutation) {
    let schema = testing::schema(1, "t");
    let mut prng = Prng::from_seed(5);
    let memtable = Memtable::new(Rc::new(schema.order.clone()));
    let before = memory::live_bytes();
    for _ in 0..6_000 {
        let frozen = write(&schema, &mut prng);
        let view = frozen.view().unwrap();
        memtable.apply(&schema, DecoratedKey::new(Bytes::copy_from(view.key())), &view);
    }
    let allocated = memory::live_bytes() - before;
    let accounted = memtable.bytes();
    let off = 100 * accounted.abs_diff(allocated as usize) / allocated as usize;
    assert!(off <= 15, "{name}: {accounted} accounted, {allocated} allocated: {off} %");
}

#[test]
fn what_a_memtable_takes_is_what_it_allocates() {
    let one_row = |schema: &TableSchema, partition: u64, row: u32, value: &[u8]| {
        let mut builder = mutation::MutationBuilder::new(schema, &testing::key(partition));
        let mut blob = mutation::RowBuilder::new(Vec::new());
        let state = mutation::CellState::Live { value };
        blob.cell(testing::V, mutation::Cell { timestamp: 1, state });
        builder.row(&testing::clustering(&[row, 0]), &blob.finish());
        builder.freeze()
    };
    check_accounting("partitions of one row", |schema, prng| {
        one_row(schema, prng.below(u64::MAX), 1, &vec![7; prng.below(200) as usize])
    });
    check_accounting("one partition", |schema, prng| {
        one_row(schema, 1, prng.below(1 << 30) as u32, &vec![7; prng.below(200) as usize])
    });
    check_accounting("few rows, written again and again", |schema, prng| {
        let row = prng.below(7) as u32;
        one_row(schema, prng.below(300), row, &vec![7; prng.below(300) as usize])
    });
    check_accounting("range tombstones", |schema, prng| {
        let key = prng.below(20);
        range_deleted(schema, key, prng.below(1 << 30) as u32)
    });
}

fn range_deleted(schema: &TableSchema, key: u64, row: u32) -> FrozenMutation {
    let mut builder = mutation::MutationBuilder::new(schema, &testing::key(key));
    let position = Bytes::from(testing::clustering(&[row]));
    let start = ClusteringPosition::before(position.clone());
    let range = ClusteringRange { start, end: ClusteringPosition::after(position) };
    builder.delete_range(mutation::RangeTombstone { range, tombstone: Tombstone::new(1, 1_000) });
    builder.freeze()
}

#[test]
fn many_range_tombstones_are_freed_bit_by_bit() {
    let schema = testing::schema(1, "t");
    let mut memtable = Memtable::new(Rc::new(schema.order.clone()));
    for row in 0..3000 {
        let new = range_deleted(&schema, 1, row);
        let view = new.view().unwrap();
        memtable.apply(&schema, DecoratedKey::new(Bytes::copy_from(view.key())), &view);
    }
    let partitions = std::mem::take(memtable.partitions.get_mut());
    let mut remains = Remains::new(partitions, memtable.objects.get());
    let mut steps = 1;
    while remains.step() {
        steps += 1;
    }
    assert!(3000 / 24 <= steps && remains.steps <= 2 * steps, "{steps}, {}", remains.steps);
}

/// Any command of one partition.
fn random_command(prng: &mut Prng, schema: &TableSchema, key: &DecoratedKey) -> ReadCommand {
    let mut columns = vec![(testing::S, ColumnForm::Value)];
    columns.extend([(testing::C, ColumnForm::Value), (testing::V, ColumnForm::ValueWithTimes)]);
    let slice = random_slice(prng, schema);
    let limit = |prng: &mut Prng| if prng.one_in(2) { u64::MAX } else { 1 + prng.below(4) };
    ReadCommand {
        table: schema.id,
        partitions: Partitions::Key(key.key.to_vec()),
        ranges: slice.ranges.iter().map(SendRange::from).collect(),
        reversed: slice.reversed,
        columns,
        static_count: 1,
        row_limit: limit(prng),
        per_partition_limit: limit(prng),
        partition_limit: u64::MAX,
        bytes_max: if prng.one_in(4) { 40 } else { 1 << 20 },
        static_only_rows: prng.one_in(2),
        tombstone_limit: limit(prng),
        now: 5,
        bypass_cache: false,
        shape: mutation::RowShape::Whole,
        resume: None,
    }
}

fn check_pages(seed: u64) {
    let mut prng = Prng::from_seed(seed);
    let schema = testing::schema(1, "t");
    let memtable = Rc::new(Memtable::new(Rc::new(schema.order.clone())));
    let mut model = Model::new();
    for _ in 0..prng.below(60) {
        apply(&schema, &memtable, &mut model, random_mutation(&mut prng, &schema, SHAPE));
    }
    let absent = DecoratedKey::new(Bytes::copy_from(b"not there"));
    for key in model.keys().chain([&absent]) {
        let mut command = random_command(&mut prng, &schema, key);
        for _ in 0..40 {
            let slice = Slice::resumed(&command, &schema.order);
            let one = KeyRange::One(key.clone());
            let mut source = MemtableSource::new(memtable.clone(), one, slice);
            let expected = reader::read_page_now(&mut source, &schema, &command).unwrap().unwrap();
            assert_eq!(memtable.page(&schema, key, &command), expected, "seed {seed}");
            let Some(resume) = expected.resume else { break };
            command.resume = Some(resume);
        }
    }
}

fn few_cases() -> ProptestConfig {
    ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn reads_are_the_merge_of_what_was_applied(seed: u64) {
        check_reads(seed);
    }

    #[test]
    fn a_page_is_that_of_the_source(seed: u64) {
        check_pages(seed);
    }

    #[test]
    fn a_stream_stays_well_formed_while_the_memtable_changes(seed: u64) {
        check_changing(seed);
    }
}
