//! What single places hold of a partition.

use super::*;
use crate::SourceOptions;
use crate::testing::{Shape, random_mutation, random_range};
use model::DecoratedKey;
use mutation::{ClusteringRange, Fragment};
use reader::testing::everything;
use reader::{Budget, PartitionScope, Slice, Source};
use stdx::Prng;

async fn all(mut source: Box<dyn Source>) -> Vec<Fragment> {
    let mut out = Vec::new();
    loop {
        let before = out.len();
        // As many as one may be too few to notice what is lost between fills.
        let budget = Budget { fragments_max: 3, ..Budget::BATCH };
        match source.try_fill(budget, &mut out) {
            Some(filled) => filled.unwrap(),
            None => source.fill(budget, &mut out).await.unwrap(),
        }
        if out.len() == before {
            return out;
        }
        assert!(out.len() <= before + 3);
    }
}

fn names(storage: &Storage, schema: &TableSchema, partition: u64) -> Vec<String> {
    let key = DecoratedKey::new(key(partition).into());
    let holders = storage.holders(schema.id, &key).unwrap();
    let cut = |name: &str| name.split_inclusive(':').next().unwrap_or_default().to_owned();
    holders.iter().map(|holder| cut(holder.name())).collect()
}

#[test]
fn places_are_named_and_come_and_go() {
    runtime::sim::test(1, || async {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        assert_eq!(names(&storage, &schema, 1), Vec::<String>::new());
        storage.apply(write(&schema, 1, 1, 1, b"a")).await.unwrap();
        assert_eq!(names(&storage, &schema, 1), ["memtable:"]);
        storage.flush(schema.id).await.unwrap();
        assert_eq!(names(&storage, &schema, 1), ["row-cache", "sstable:"]);
        storage.drop_row_cache();
        assert_eq!(names(&storage, &schema, 1), ["sstable:"]);
        rows(&storage, &schema, 1).await;
        storage.apply(write(&schema, 1, 1, 2, b"b")).await.unwrap();
        assert_eq!(names(&storage, &schema, 1), ["memtable:", "row-cache", "sstable:"]);
        storage.flush(schema.id).await.unwrap();
        assert_eq!(names(&storage, &schema, 1), ["row-cache", "sstable:", "sstable:"]);
        let key = DecoratedKey::new(key(1).into());
        let holders = storage.holders(schema.id, &key).unwrap();
        let path = holders[1].name().strip_prefix("sstable:/n/").unwrap();
        assert!(path.ends_with("-Data.db"), "{path}");
        assert!(storage.holders(Uuid::from_u128(99), &key).is_err());
        storage.stop().await.unwrap();
    });
}

/// Where all is in SSTables and all was read, the cache holds what they hold; a place by itself
/// yields that, whatever part of it is asked for and in either direction.
#[test]
fn the_cache_alone_yields_what_the_sstables_hold() {
    let shape = Shape { keys: 4, rows: 6, timestamps: 20 };
    for seed in 0..12 {
        runtime::sim::test(seed, move || async move {
            let storage = open(config()).await;
            let schema = schema(1, "t1");
            let mut prng = Prng::from_seed(seed);
            for _ in 0..40 {
                storage.apply(random_mutation(&mut prng, &schema, shape)).await.unwrap();
            }
            storage.flush(schema.id).await.unwrap();
            let through = storage
                .open_source(schema.id, everything(), Slice::full(), SourceOptions::QUERY)
                .unwrap();
            all(through).await;
            let mut found = 0;
            for case in 0..80 {
                let key = DecoratedKey::new(key(prng.below(shape.keys)).into());
                let range = match case % 4 {
                    0 => ClusteringRange::full(),
                    _ => random_range(&mut prng, &schema.order, shape),
                };
                let (reversed, with_static) = (prng.one_in(2), prng.one_in(2));
                let ranges = vec![range];
                let slice = Slice { ranges, reversed, with_static, forwarding: false };
                let below = SourceOptions { bypass_cache: true, ..SourceOptions::QUERY };
                let scope = PartitionScope::Key(key.clone());
                let expected = storage.open_source(schema.id, scope, slice.clone(), below).unwrap();
                let expected = all(expected).await;
                let holders = storage.holders(schema.id, &key).unwrap();
                let cache = holders.iter().find(|holder| holder.name() == "row-cache");
                let Some(cache) = cache else { continue };
                let yielded = all(cache.open(slice.clone())).await;
                // A partition of which nothing is left may come empty or not at all.
                if 2 < expected.len() || 2 < yielded.len() {
                    assert_eq!(yielded, expected, "{slice:?}");
                    found += 1;
                }
            }
            assert!(20 < found, "{found}");
            storage.stop().await.unwrap();
        });
    }
}

/// What is not known is left out, and nothing is read for it.
#[test]
fn gaps_are_passed_over() {
    runtime::sim::test(1, || async {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        for row in 0..200 {
            storage.apply(write(&schema, 1, row, 1, &[b'v'; 200])).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
        storage.drop_row_cache();
        // One row in the middle.
        let mut one = command(&schema, Partitions::Key(key(1)));
        one.ranges = vec![mutation::SendRange::of_prefix(&clustering(&[100]))];
        storage.read(&one).await.unwrap();
        let key = DecoratedKey::new(key(1).into());
        let holders = storage.holders(schema.id, &key).unwrap();
        let cache = holders.iter().find(|holder| holder.name() == "row-cache").unwrap();
        let yielded = all(cache.open(Slice::full())).await;
        let is_row = |fragment: &&Fragment| matches!(fragment, Fragment::Row { .. });
        assert_eq!((yielded.len(), yielded.iter().filter(is_row).count()), (3, 1));
        storage.stop().await.unwrap();
    });
}
