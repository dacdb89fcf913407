//! The row cache beside writes, flushes, truncations and disks that fail: whatever it keeps, a
//! read sees all of a write or nothing of it, and nothing that is gone.

use super::*;
use crate::SourceOptions;
use mutation::Fragment;
use reader::testing::everything;
use reader::{Budget, Slice};
use runtime::task::{Scope, yield_now};
use runtime::time::sleep;
use std::collections::BTreeSet;
use testkit::SimNode;

/// Rows of the partition that is read.
const ROWS: u32 = 40;

/// All of a partition's rows at that timestamp, half of them in each of two mutations.
fn batch(schema: &TableSchema, timestamp: i64) -> Vec<FrozenMutation> {
    let half = |from: u32| {
        let mut builder = MutationBuilder::new(schema, &key(1));
        for row in from..from + ROWS / 2 {
            let mut blob = RowBuilder::new(Vec::new());
            blob.marker(Marker::Live { timestamp });
            blob.cell(V, Cell::live(timestamp, &[b'v'; 200]));
            builder.row(&clustering(&[row, 0]), &blob.finish());
        }
        builder.freeze()
    };
    vec![half(0), half(ROWS / 2)]
}

#[test]
fn nobody_sees_half_of_a_batch_while_it_is_flushed() {
    runtime::sim::test(1, || async {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        storage.apply_all(batch(&schema, 1)).await.unwrap();
        let scope = Scope::new();
        let flushing = storage.clone();
        let id = schema.id;
        scope.spawn(async move {
            loop {
                flushing.flush(id).await.unwrap();
                sleep(Duration::from_micros(50)).await;
            }
        });
        let writing = storage.clone();
        scope.spawn(async move {
            for timestamp in 2.. {
                writing
                    .apply_all(batch(&crate::testing::schema(1, "t1"), timestamp))
                    .await
                    .unwrap();
                sleep(Duration::from_micros(80)).await;
            }
        });
        let mut seen = BTreeSet::new();
        for round in 0..400 {
            let found = rows(&storage, &schema, 1).await;
            let timestamps: BTreeSet<i64> =
                found.values().map(|(timestamp, _)| *timestamp).collect();
            assert_eq!((found.len(), timestamps.len()), (ROWS as usize, 1), "{timestamps:?}");
            assert!(seen.last() <= timestamps.first(), "back to {timestamps:?}");
            seen.extend(timestamps);
            if round % 16 == 0 {
                storage.drop_row_cache();
            }
            sleep(Duration::from_micros(30)).await;
        }
        scope.cancel().await;
        let stats = storage.row_cache_stats();
        assert!(10 < seen.len() && 0 < stats.partition_hits, "{} {stats:?}", seen.len());
        storage.stop().await.unwrap();
    });
}

#[test]
fn what_a_reader_had_open_comes_back_into_no_cache_after_a_truncation() {
    runtime::sim::test(2, || async {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        for partition in 0..100 {
            storage.apply(write(&schema, partition, 1, 1, &[b'v'; 300])).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
        for read_before in [1, 7, 40] {
            storage.drop_row_cache();
            let options = SourceOptions::QUERY;
            let opened = storage.open_source(schema.id, everything(), Slice::full(), options);
            let (mut source, mut seen) = (opened.unwrap(), Vec::new());
            let budget = Budget { fragments_max: read_before, ..Budget::BATCH };
            source.fill(budget, &mut seen).await.unwrap();
            storage.truncate(schema.id, 1).await.unwrap();
            loop {
                let before = seen.len();
                source.fill(budget, &mut seen).await.unwrap();
                if seen.len() == before {
                    break;
                }
                yield_now().await;
            }
            let starts = |one: &&Fragment| matches!(one, Fragment::PartitionStart { .. });
            assert_eq!(seen.iter().filter(starts).count(), 100, "it reads what it had opened");
            for partition in 0..100 {
                assert_eq!(rows(&storage, &schema, partition).await.len(), 0);
                let new = write(&schema, partition, 2, 2, &[b'w'; 300]);
                storage.apply(new).await.unwrap();
            }
            storage.flush(schema.id).await.unwrap();
            for partition in 0..100 {
                let found = rows(&storage, &schema, partition).await;
                assert_eq!(found.keys().copied().collect::<Vec<_>>(), [2]);
            }
        }
        storage.stop().await.unwrap();
    });
}

#[test]
fn what_a_failing_disk_broke_off_is_not_taken_for_all() {
    let mut node = SimNode::new(3, 1);
    let storage = || runtime::local::get::<Storage>();
    node.run(async move {
        open(config()).await;
        let schema = schema(1, "t1");
        for round in 0..3 {
            for partition in 0..8 {
                for row in 0..60 {
                    let new = write(&schema, partition, 3 * row + round, 1, &[b'v'; 400]);
                    storage().apply(new).await.unwrap();
                }
            }
            storage().flush(schema.id).await.unwrap();
        }
    });
    let (mut failed, mut read) = (0, 0);
    for round in 0..12 {
        node.disk().set_error_rate(if round % 3 == 2 { 0 } else { 12 });
        let (broke, came) = node.run(async move {
            let schema = schema(1, "t1");
            if round % 4 == 0 {
                storage().drop_row_cache();
            }
            let (mut broke, mut came) = (0, 0);
            for partition in 0..8 {
                let command = command(&schema, Partitions::Key(key(partition)));
                match storage().read(&command).await {
                    Err(error) => {
                        assert!(matches!(error, reader::ReadError::Io(_)), "{error}");
                        broke += 1;
                    }
                    Ok(page) => {
                        assert_eq!(page.row_count, 180, "round {round}, partition {partition}");
                        came += 1;
                    }
                }
            }
            (broke, came)
        });
        (failed, read) = (failed + broke, read + came);
    }
    assert!(5 < failed && 20 < read, "{failed} failed, {read} did not");
}

#[test]
fn what_is_flushed_of_a_table_that_is_being_filled_is_not_cached() {
    runtime::sim::test(3, || async {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        let write_all = async |row: u32| {
            for partition in 0..20 {
                let new = write(&schema, partition, row, 1, &[b'v'; 300]);
                storage.apply(new).await.unwrap();
            }
            storage.flush(schema.id).await.unwrap();
        };
        let cached = || storage.row_cache_stats().partitions;
        write_all(1).await;
        assert!(0 < cached(), "what is flushed of a table is cached");
        storage.set_filling(schema.id, true);
        for row in 2..5 {
            write_all(row).await;
            assert_eq!(cached(), 0, "filled-uncached");
            // What is read meanwhile is cached, and forgotten with the next flush.
            for partition in 0..20 {
                let found = rows(&storage, &schema, partition).await;
                assert_eq!(found.into_keys().collect::<Vec<_>>(), (1..=row).collect::<Vec<_>>());
            }
            assert!(0 < cached());
        }
        storage.set_filling(schema.id, false);
        write_all(5).await;
        assert!(0 < cached());
        for partition in 0..20 {
            assert_eq!(rows(&storage, &schema, partition).await.len(), 5);
        }
        storage.stop().await.unwrap();
    });
}
