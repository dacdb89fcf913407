//! What is in the cache of one node is read ahead by another.

use super::*;
use crate::{WarmPage, WarmPartition};
use model::{DecoratedKey, Token};
use mutation::page::Resume;
use stdx::{Bytes, Prng};

const PARTITIONS: u64 = 60;
const ALL: (Token, Token) = (Token::MIN, Token::MAX);

async fn filled(rows: u32) -> (Rc<Storage>, TableSchema) {
    let storage = open(config()).await;
    let schema = schema(1, "t1");
    // Flushes put nothing into the cache.
    storage.set_filling(schema.id, true);
    for partition in 0..PARTITIONS {
        for row in 0..rows {
            let new = write(&schema, partition, row, 1, &[b'v'; 60]);
            storage.apply(new).await.unwrap();
        }
    }
    storage.flush(schema.id).await.unwrap();
    storage.set_filling(schema.id, false);
    storage.drop_row_cache();
    (storage, schema)
}

fn token(partition: u64) -> Token {
    DecoratedKey::new(Bytes::from(key(partition))).token
}

/// All of them, a few at a time.
async fn warm(
    storage: &Storage,
    schema: &TableSchema,
    (mut after, last): (Token, Token),
    bytes_max: usize,
) -> Vec<WarmPartition> {
    let mut all = Vec::new();
    loop {
        let found = storage.warm_partitions(schema.id, (after, last), bytes_max).await;
        let WarmPage { partitions, reached } = found.unwrap();
        all.extend(partitions);
        match reached {
            None => return all,
            Some(reached) => {
                assert!(after < reached && reached < last, "{after:?} {reached:?}");
                after = reached;
            }
        }
    }
}

fn numbers(warm: &[WarmPartition]) -> Vec<u64> {
    let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
    warm.iter().map(|warm| number(&warm.key)).collect()
}

#[test]
fn what_was_asked_for_again_is_told_and_read_ahead() {
    runtime::sim::test(4, || async {
        let (storage, schema) = filled(3).await;
        let mut prng = Prng::from_seed(7);
        let mut hot: Vec<u64> = (0..PARTITIONS).filter(|_| prng.one_in(3)).collect();
        hot.sort_by_key(|&partition| token(partition));
        for partition in 0..PARTITIONS {
            rows(&storage, &schema, partition).await;
        }
        assert_eq!(warm(&storage, &schema, ALL, 1 << 20).await, [], "each was read once");
        for &partition in &hot {
            rows(&storage, &schema, partition).await;
        }
        let told = warm(&storage, &schema, ALL, 1 << 20).await;
        assert_eq!(numbers(&told), hot);
        for bytes_max in [1, 100, 300] {
            assert_eq!(warm(&storage, &schema, ALL, bytes_max).await, told);
        }
        let (after, last) = (token(hot[3]), token(hot[7]));
        let some = warm(&storage, &schema, (after, last), 30).await;
        assert_eq!(numbers(&some), hot[4..=7]);

        storage.drop_row_cache();
        rows(&storage, &schema, hot[0]).await;
        let read = storage.warm_up(schema.id, told.clone()).await.unwrap();
        assert_eq!(read, hot.len() - 1, "known-stays");
        assert_eq!(warm(&storage, &schema, ALL, 1 << 20).await.len(), read, "it is warm here");
        let misses = || storage.row_cache_stats().reads_with_misses;
        let before = misses();
        for &partition in &hot {
            assert_eq!(rows(&storage, &schema, partition).await.len(), 3);
        }
        assert_eq!(misses(), before, "clients find it in memory");
        let cold = (0..PARTITIONS).filter(|partition| !hot.contains(partition));
        for (at, partition) in cold.enumerate() {
            rows(&storage, &schema, partition).await;
            assert_eq!(misses(), before + at as u64 + 1, "nobody asked for it");
        }
        storage.stop().await.unwrap();
    });
}

/// Reads some rows of partition 1.
async fn read_some(storage: &Storage, schema: &TableSchema, range: &SendRange) -> usize {
    let mut command = command(schema, Partitions::Key(key(1)));
    command.ranges = vec![range.clone()];
    command.bytes_max = 1 << 30;
    let page = storage.read(&command).await.unwrap();
    assert_eq!(page.resume, None::<Resume>);
    page.row_count as usize
}

fn between(first: u32, end: u32) -> SendRange {
    SendRange { start: (clustering(&[first]), -1), end: (clustering(&[end]), -1) }
}

#[test]
fn of_a_large_partition_it_is_some_of_its_rows() {
    runtime::sim::test(5, || async {
        let (storage, schema) = filled(1).await;
        for row in 0..2_000 {
            let new = write(&schema, 1, row, 1, &[b'v'; 60]);
            storage.apply(new).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
        storage.drop_row_cache();
        let hot = [between(100, 200), between(1_500, 1_900)];
        for range in [&hot[0], &hot[1], &between(800, 1_000), &hot[0], &hot[1]] {
            read_some(&storage, &schema, range).await;
        }
        let told = warm(&storage, &schema, ALL, 1 << 20).await;
        let [WarmPartition { key, ranges }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(key, &crate::testing::key(1));
        assert_eq!(ranges[..], hot, "and runs that follow each other are one range");

        storage.drop_row_cache();
        assert_eq!(storage.warm_up(schema.id, told).await.unwrap(), 1);
        let misses = || storage.row_cache_stats().reads_with_misses;
        let before = misses();
        assert_eq!(read_some(&storage, &schema, &hot[0]).await, 100);
        assert_eq!(read_some(&storage, &schema, &hot[1]).await, 400);
        assert_eq!(misses(), before);
        assert_eq!(read_some(&storage, &schema, &between(800, 1_000)).await, 200);
        assert_eq!(misses(), before + 1);
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_table_without_a_cache_has_nothing_warm() {
    runtime::sim::test(7, || async {
        let (storage, mut schema) = filled(1).await;
        let caching = ("enabled".to_owned(), "false".to_owned());
        schema.options.caching = vec![caching];
        storage.alter_table(Rc::new(schema.clone()));
        for partition in [1, 1, 1] {
            rows(&storage, &schema, partition).await;
        }
        assert_eq!(warm(&storage, &schema, ALL, 1 << 20).await, []);
        let told = vec![WarmPartition { key: key(1), ranges: Vec::new() }];
        assert_eq!(storage.warm_up(schema.id, told).await.unwrap(), 0);
        storage.stop().await.unwrap();
    });
}
