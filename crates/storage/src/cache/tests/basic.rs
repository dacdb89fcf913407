//! The simple cases, by hand.

use super::super::*;
use crate::testing::{clustering, schema};
use mutation::{ClusteringPosition, Direction, Fragment};

fn key(number: u64) -> DecoratedKey {
    DecoratedKey::new(Bytes::from(crate::testing::key(number)))
}

fn tablet(limit: usize) -> (Rc<TableSchema>, Rc<RowCache>, Rc<TabletCache>) {
    let schema = Rc::new(schema(1, "t"));
    let cache = RowCache::new(64 << 20, limit);
    let tablet = cache.open(Rc::new(schema.order.clone()), (Token::MIN, Token::MAX));
    (schema, cache, tablet)
}

fn row(a: u32, b: u32) -> Fragment {
    let mut row = mutation::RowBuilder::new(Vec::new());
    row.marker(mutation::Marker::Live { timestamp: 1 });
    Fragment::Row { key: clustering(&[a, b]).into(), row: row.finish().into() }
}

#[test]
fn a_partition_that_was_read_whole_is_known_and_updated() {
    let (schema, _, tablet) = tablet(1 << 20);
    let phase = tablet.phase();
    let mut populate = tablet.populate(key(1), Tombstone::NONE, Bytes::new(), phase);
    populate.interval(ClusteringPosition::start());
    (0..5).for_each(|a| populate.fragment(&row(a, 0)));
    populate.reached(&ClusteringPosition::end());
    drop(populate);
    assert_eq!(tablet.with_whole(&key(1), |whole| whole.run.row_count()), Some(5));
    assert!(tablet.with_whole(&key(2), |_| ()).is_none());
    let mut update = tablet.begin_update(&schema);
    let start = |number| Fragment::PartitionStart { key: key(number), tombstone: Tombstone::NONE };
    // In the order of the ring.
    let mut fragments = vec![start(2), row(1, 0), Fragment::PartitionEnd];
    fragments.extend([start(1), row(1, 0), row(7, 7), Fragment::PartitionEnd]);
    for fragment in &fragments {
        while update.fragment(fragment, &|_| true) == UpdateStep::Again {}
    }
    update.finish();
    assert_eq!(tablet.with_whole(&key(1), |whole| whole.run.row_count()), Some(6));
    assert_eq!(tablet.with_whole(&key(2), |whole| whole.run.row_count()), Some(1));
    assert!(!tablet.may_populate(phase, Token::MAX));
}

#[test]
fn a_large_partition_has_runs_and_gaps() {
    let (_, _, tablet) = tablet(4 << 20);
    let mut populate = tablet.populate(key(1), Tombstone::NONE, Bytes::new(), tablet.phase());
    populate.interval(ClusteringPosition::start());
    (0..2000).for_each(|a| populate.fragment(&row(a, 0)));
    let end = ClusteringPosition::before(clustering(&[2000]).into());
    populate.reached(&end);
    let Found::Present(snapshot) = tablet.find(&key(1)) else { panic!("it is known") };
    let mut at = ClusteringPosition::start();
    let mut rows = 0;
    let mut runs = 0;
    while let Stretch::Known(run) = snapshot.next(at.as_parts(), Direction::Forward) {
        rows += run.view().row_count();
        runs += 1;
        at = run.view().interval().end;
    }
    assert_eq!((rows, &at), (2000, &end));
    assert!(5 < runs, "{runs}");
    let end = ClusteringPosition::end();
    let gap = snapshot.next(end.as_parts(), Direction::Reversed);
    assert!(matches!(gap, Stretch::Gap { from, to } if from == at && to == end));
}

/// A row that is there at that timestamp, of some bytes.
fn wide_row(a: u32, timestamp: i64) -> Fragment {
    let mut row = mutation::RowBuilder::new(Vec::new());
    row.marker(mutation::Marker::Live { timestamp });
    row.cell(crate::testing::V, mutation::Cell::live(timestamp, &[b'v'; 150]));
    Fragment::Row { key: clustering(&[a, 0]).into(), row: row.finish().into() }
}

#[test]
fn what_is_left_of_a_run_that_is_being_merged_is_forgotten() {
    let (schema, cache, tablet) = tablet(4 << 20);
    let mut populate = tablet.populate(key(1), Tombstone::NONE, Bytes::new(), tablet.phase());
    populate.interval(ClusteringPosition::start());
    (0..20).for_each(|a| populate.fragment(&wide_row(a, 1)));
    populate.reached(&ClusteringPosition::end());
    let mut update = tablet.begin_update(&schema);
    let mut merge = |fragment: Fragment| {
        while update.fragment(&fragment, &|_| false) == UpdateStep::Again {}
    };
    merge(Fragment::PartitionStart { key: key(1), tombstone: Tombstone::NONE });
    merge(wide_row(10, 2));
    let linked = cache.store.borrow().linked();
    let [whole] = linked[..] else { panic!("one object: {linked:?}") };
    cache.store.borrow_mut().mark_rows(whole, 10..11);
    assert!(cache.store.borrow_mut().shed(whole), "one row of twenty is much less");
    assert!(matches!(tablet.find(&key(1)), Found::Present(_)));
    merge(wide_row(11, 2));
    merge(Fragment::PartitionEnd);
    update.finish();
    assert!(matches!(tablet.find(&key(1)), Found::Unknown), "the row that was left is stale");
    cache.store.borrow_mut().audit();
}

#[test]
fn rows_that_are_read_stay_when_the_turn_of_their_run_comes() {
    let (schema, cache, tablet) = tablet(4 << 20);
    let mut populate = tablet.populate(key(1), Tombstone::NONE, Bytes::new(), tablet.phase());
    populate.interval(ClusteringPosition::start());
    (0..20).for_each(|a| populate.fragment(&wide_row(a, 1)));
    populate.reached(&ClusteringPosition::end());
    let wanted = clustering(&[7, 0]);
    let read = |whole: Whole<'_>| whole.run.find(&schema.order, &wanted).is_some();
    assert_eq!(tablet.with_whole(&key(1), read), Some(true));
    let linked = cache.store.borrow().linked();
    assert!(cache.store.borrow_mut().shed(linked[0]));
    let Found::Present(snapshot) = tablet.find(&key(1)) else { panic!("a row of it is known") };
    let at = ClusteringPosition::row(Bytes::copy_from(&wanted));
    let Stretch::Known(run) = snapshot.next(at.as_parts(), Direction::Forward) else {
        panic!("the row is known")
    };
    let neighbours = [clustering(&[6, 0]), clustering(&[8, 0])].map(Bytes::from);
    assert_eq!(run.view().row_count(), 1);
    assert_eq!(run.view().start(), (&*neighbours[0], 1), "nothing lies between the two rows");
    assert_eq!(run.view().end(), (&*neighbours[1], -1));
}

/// A row over what an object may have.
fn huge_row(a: u32) -> Fragment {
    let mut row = mutation::RowBuilder::new(Vec::new());
    row.cell(crate::testing::V, mutation::Cell::live(1, &vec![b'v'; 2 << 20]));
    Fragment::Row { key: clustering(&[a, 0]).into(), row: row.finish().into() }
}

#[test]
fn a_huge_row_is_a_gap() {
    for direction in [Direction::Forward, Direction::Reversed] {
        let (schema, cache, tablet) = tablet(32 << 20);
        let mut populate = tablet.populate(key(1), Tombstone::NONE, Bytes::new(), tablet.phase());
        match direction {
            Direction::Forward => populate.interval(ClusteringPosition::start()),
            Direction::Reversed => populate.interval_reversed(ClusteringPosition::end()),
        }
        let change = |position, tombstone| Fragment::RangeTombstoneChange { position, tombstone };
        let mut bounds = [ClusteringPosition::start(), ClusteringPosition::end()];
        let mut fragments = vec![wide_row(1, 1), huge_row(2), wide_row(3, 1)];
        if direction == Direction::Reversed {
            bounds.reverse();
            fragments.reverse();
        }
        let [first, last] = bounds;
        fragments.insert(0, change(first, Tombstone::new(1, 1)));
        fragments.push(change(last, Tombstone::NONE));
        fragments.iter().for_each(|fragment| populate.fragment(fragment));
        match direction {
            Direction::Forward => populate.reached(&ClusteringPosition::end()),
            Direction::Reversed => populate.reached_reversed(&ClusteringPosition::start()),
        }
        let Found::Present(snapshot) = tablet.find(&key(1)) else { panic!("two runs are known") };
        let huge = Bytes::from(clustering(&[2, 0]));
        let start = ClusteringPosition::start();
        let first = match snapshot.next(start.as_parts(), Direction::Forward) {
            Stretch::Known(run) => run,
            other => panic!("{other:?}"),
        };
        assert_eq!(first.view().end(), (&*huge, -1));
        assert_eq!(first.view().ranges().count(), 1);
        let gap = snapshot.next(first.view().end(), Direction::Forward);
        let Stretch::Gap { to, .. } = gap else { panic!("{gap:?}") };
        assert_eq!(to, ClusteringPosition::after(huge));
        let mut update = tablet.begin_update(&schema);
        let start = Fragment::PartitionStart { key: key(1), tombstone: Tombstone::NONE };
        for fragment in [start, huge_row(1), wide_row(3, 2), Fragment::PartitionEnd] {
            while update.fragment(&fragment, &|_| false) == UpdateStep::Again {}
        }
        update.finish();
        let Found::Present(snapshot) = tablet.find(&key(1)) else { panic!("one run is known") };
        let Stretch::Gap { to: after, .. } = snapshot.next((&[], -1), Direction::Forward) else {
            panic!("its row has become huge")
        };
        assert_eq!(after, to);
        cache.store.borrow_mut().audit();
    }
}

#[test]
fn a_deletion_that_a_compaction_forgot_covers_what_was_read_with_it() {
    let (_, _, tablet) = tablet(4 << 20);
    let middle = ClusteringPosition::before(clustering(&[5]).into());
    let deletion = Tombstone::new(9, 9);
    // The first reads after the compaction, the second read before it.
    let mut after = tablet.populate(key(1), Tombstone::NONE, Bytes::new(), tablet.phase());
    after.interval(middle.clone());
    after.reached(&ClusteringPosition::after(clustering(&[7]).into()));
    let mut before = tablet.populate(key(1), deletion, Bytes::new(), tablet.phase());
    before.interval(ClusteringPosition::start());
    before.fragment(&wide_row(1, 1));
    before.reached(&middle);
    let Found::Present(snapshot) = tablet.find(&key(1)) else { panic!("two runs are known") };
    assert_eq!(snapshot.tombstone, deletion);
}

#[test]
fn what_is_warmed_up_outlives_what_is_read_once() {
    let (_, _, tablet) = tablet(16 << 20);
    let read = |number| {
        let mut populate =
            tablet.populate(key(number), Tombstone::NONE, Bytes::new(), tablet.phase());
        populate.interval(ClusteringPosition::start());
        (0..10).for_each(|a| populate.fragment(&wide_row(a, 1)));
        populate.reached(&ClusteringPosition::end());
    };
    let (warm, cold) = (0..1_000, 1_000..20_000);
    for number in warm.clone() {
        read(number);
        tablet.warm_up(&key(number));
    }
    cold.clone().for_each(read);
    let known =
        |numbers: std::ops::Range<u64>| numbers.filter(|&it| tablet.knows(&key(it))).count();
    assert!(known(cold) < 10_000, "more than there is room for");
    assert_eq!(known(warm), 1_000);
}
