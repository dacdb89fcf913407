//! What a write meets, as it lies in memory, is what a stream of the partition has.

use super::against_model::{read_all, start};
use super::*;
use crate::SourceOptions;
use model::DecoratedKey;
use mutation::{
    ClusteringPosition, ClusteringRange, Direction, Fragment, PartitionSink, RowView, Step,
    Tombstone, testing,
};
use reader::testing::{drain, partitions};
use reader::{Budget, PartitionScope, Slice};
use stdx::{Bytes, Prng};
use testkit::{Draw, SimNode};

/// What came, as fragments.
#[derive(Default)]
struct Seen(Vec<Fragment>);

impl Seen {
    fn add(&mut self, fragment: Fragment) -> Step {
        self.0.push(fragment);
        Step::Continue
    }
}

impl PartitionSink for Seen {
    fn begin(&mut self, key: &[u8], tombstone: Tombstone) -> Step {
        let key = DecoratedKey::new(Bytes::copy_from(key));
        self.add(Fragment::PartitionStart { key, tombstone })
    }
    fn static_row(&mut self, row: RowView<'_>) -> Step {
        self.add(Fragment::StaticRow { row: Bytes::copy_from(row.bytes()) })
    }
    fn row_blob(&mut self, key: &[u8], blob: &[u8]) -> Step {
        self.add(Fragment::Row { key: Bytes::copy_from(key), row: Bytes::copy_from(blob) })
    }
    fn change(&mut self, (prefix, weight): (&[u8], i8), tombstone: Tombstone) -> Step {
        let position = ClusteringPosition { prefix: Bytes::copy_from(prefix), weight };
        self.add(Fragment::RangeTombstoneChange { position, tombstone })
    }
    fn end(&mut self) -> Step {
        self.add(Fragment::PartitionEnd)
    }
}

/// How often a partition was to be had at once, by whether it has SSTables and a memtable.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    memtable: usize,
    cache: usize,
    both: usize,
    not: usize,
}

/// Compares what both ways give of a partition.
async fn compare(storage: &Storage, ranges: Vec<ClusteringRange>, k: i32, counts: &mut Counts) {
    let schema = testing::schema();
    let key = DecoratedKey::new(Bytes::copy_from(&testing::partition_key(k)));
    let mut seen = Seen::default();
    let with_static = ranges.len() % 2 == 1;
    let wanted = (&ranges[..], with_static);
    let at_once = storage.with_before(schema.id, &key, |it| it.visit(wanted, &mut seen));
    let table = storage.shard().table(schema.id).unwrap();
    let tablet = table.tablet_of(key.token).unwrap();
    let is_held = tablet.in_memory(&key).next().is_some();
    match (at_once, tablet.sstables.borrow().is_empty(), is_held) {
        (Some(true), true, _) => counts.memtable += 1,
        (Some(true), false, false) => counts.cache += 1,
        (Some(true), false, true) => counts.both += 1,
        _ => {
            assert!(seen.0.is_empty(), "all-or-nothing: {:?}", seen.0);
            counts.not += 1;
            return;
        }
    }
    let slice = Slice { ranges, reversed: false, with_static, forwarding: false };
    let scope = PartitionScope::Key(key);
    let mut source = storage.open_source(schema.id, scope, slice, SourceOptions::QUERY).unwrap();
    let fragments = drain(&mut *source, Budget::BATCH).await.unwrap();
    let by_stream = partitions(fragments, Direction::Forward);
    assert_eq!(partitions(seen.0, Direction::Forward), by_stream);
}

fn check(seed: u64, counts: &mut Counts) {
    let mut node = SimNode::at_epoch(seed, 1);
    let mut prng = Prng::from_seed(seed);
    let mut draw = Draw::of(&mut prng);
    let table = testing::schema().id;
    node.run(async { drop(start().await) });
    for _ in 0..60 {
        let storage = || runtime::local::get::<Storage>();
        match prng.below(12) {
            0 => node.run(async move { storage().flush(table).await.unwrap() }),
            // What was read is in the cache.
            1..4 => {
                node.run(async move { drop(read_all(&storage(), &testing::read_all()).await) });
            }
            4..9 => {
                let (ranges, k) = (draw.one(testing::ranges()), prng.below(4) as i32);
                let so_far = std::mem::take(counts);
                *counts = node.run(async move {
                    let mut counts = so_far;
                    compare(&storage(), ranges, k, &mut counts).await;
                    counts
                });
            }
            _ => {
                let some = draw.one(reader::testing::mutations());
                node.run(async move {
                    for one in some {
                        storage().apply(one).await.unwrap();
                    }
                });
            }
        }
    }
}

/// *all-or-nothing*.
#[test]
fn what_a_write_meets_is_what_a_stream_has() {
    let mut counts = Counts::default();
    for seed in 0..60 {
        check(seed, &mut counts);
    }
    let Counts { memtable, cache, both, not } = counts;
    let least = [memtable, cache, both, not].into_iter().min();
    assert!(least.is_some_and(|least| 20 < least), "{memtable} {cache} {both} {not}");
}
