//! What reading, holding and merging cost, where that is a number that does not depend on the
//! machine.

use super::super::*;
use mutation::{ClusteringPosition, Fragment};
use std::hint::black_box;

const ROW_COLUMNS: usize = 5;
const VALUE_BYTES: usize = 8;

/// A row of five small columns.
fn row() -> Bytes {
    let mut row = mutation::RowBuilder::new(Vec::new());
    row.marker(mutation::Marker::Live { timestamp: 1 });
    for column in 0..ROW_COLUMNS {
        let id = model::ColumnId(10 + column as u32);
        row.cell(id, mutation::Cell::live(1, &[7; VALUE_BYTES]));
    }
    row.finish().into()
}

fn key(number: u64) -> DecoratedKey {
    DecoratedKey::new(Bytes::from(crate::testing::key(number)))
}

fn tablet(limit: usize) -> (Rc<TableSchema>, Rc<TabletCache>) {
    let schema = Rc::new(crate::testing::schema(1, "t"));
    let cache = RowCache::new(1 << 30, limit);
    let tablet = cache.open(Rc::new(schema.order.clone()), (Token::MIN, Token::MAX));
    (schema, tablet)
}

fn populate(tablet: &Rc<TabletCache>, number: u64, rows: u32) {
    let head = (Tombstone::NONE, Bytes::new());
    let mut populate = tablet.populate(key(number), head.0, head.1, tablet.phase());
    populate.interval(ClusteringPosition::start());
    let row = row();
    for index in 0..rows {
        let key = Bytes::from(crate::testing::clustering(&[index, 0]));
        populate.fragment(&Fragment::Row { key, row: row.clone() });
    }
    populate.reached(&ClusteringPosition::end());
}

/// Bytes of the cache for each row, beside those of keys and values.
fn fixed_bytes(partitions: u64, rows: u32) -> usize {
    let (_, tablet) = tablet(1 << 30);
    (0..partitions).for_each(|number| populate(&tablet, number, rows));
    let store = tablet.cache().store.borrow();
    let stats = store.arena.stats();
    let objects = stats.live + 16 * stats.objects + 4 * stats.objects;
    let clustering = crate::testing::clustering(&[0, 0]).len();
    let own = partitions as usize * 8;
    let own = own + partitions as usize * rows as usize * (clustering + ROW_COLUMNS * VALUE_BYTES);
    let ghosts = store.ghosts.heap_bytes();
    (objects + store.heap_bytes - ghosts - own) / (partitions as usize * rows as usize)
}

#[test]
fn a_cached_row_costs_little_beside_its_keys_and_values() {
    let (single, many) = (fixed_bytes(2000, 1), fixed_bytes(2, 2000));
    assert!(single <= 100, "a row of its own partition: {single} bytes");
    assert!(many <= 40, "a row of a large partition: {many} bytes");
}

#[test]
fn a_row_of_a_whole_partition_is_read_without_an_allocation() {
    let (_, tablet) = tablet(1 << 20);
    populate(&tablet, 1, 20);
    let (present, absent) = (key(1), key(2));
    let wanted = crate::testing::clustering(&[7, 0]);
    let before = memory::counts();
    for _ in 0..100 {
        let found = tablet.with_whole(&present, |whole| {
            black_box(whole.run.find(&tablet.order(), &wanted)).is_some()
        });
        assert_eq!(found, Some(true));
        assert!(tablet.with_whole(&absent, |_| ()).is_none());
    }
    assert_eq!(memory::counts().allocations, before.allocations);
}

/// One row of each partition, and every row of a large one.
fn update(tablet: &Rc<TabletCache>, schema: &Rc<TableSchema>, partitions: u64, rows: u32) {
    let mut update = tablet.begin_update(schema);
    let row = row();
    let mut keys: Vec<DecoratedKey> = (0..partitions).map(key).collect();
    keys.sort();
    let mut merge = |fragment: Fragment| {
        while update.fragment(&fragment, &|_| false) == UpdateStep::Again {}
    };
    for key in keys {
        merge(Fragment::PartitionStart { key, tombstone: Tombstone::NONE });
        for index in 0..rows {
            let key = Bytes::from(crate::testing::clustering(&[index, 0]));
            merge(Fragment::Row { key, row: row.clone() });
        }
        merge(Fragment::PartitionEnd);
    }
    update.finish();
}

/// To be run under callgrind: `NEREID_COST_ROWS=100000`, which makes it worth it.
#[test]
fn a_memtable_is_merged_into_a_full_cache() {
    let rows = std::env::var("NEREID_COST_ROWS").ok();
    let rows = rows.and_then(|rows| rows.parse().ok()).unwrap_or(2000);
    let (schema, tablet) = tablet(1 << 30);
    (0..rows).for_each(|number| populate(&tablet, number, 1));
    update(&tablet, &schema, rows, 1);
    let (schema, wide) = self::tablet(1 << 30);
    populate(&wide, 0, rows as u32);
    update(&wide, &schema, 1, rows as u32);
    let found = (0..rows).filter(|&number| tablet.with_whole(&key(number), |_| ()).is_some());
    assert_eq!(found.count() as u64, rows);
}
