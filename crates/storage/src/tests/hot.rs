//! Which partitions are read and written most.

use super::*;
use crate::{Hot, HotCounts, HotOrder, hot_partitions};

fn of(counts: &HotCounts) -> Vec<(u64, u64)> {
    let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
    counts.top.iter().map(|one| (number(&one.key.key), one.count)).collect()
}

#[test]
fn reads_and_writes_are_counted_while_somebody_asks() {
    runtime::sim::test(1, || async {
        let storage = open(config()).await;
        let (other, schema) = (schema(2, "t2"), schema(1, "t1"));
        storage.apply(write(&schema, 1, 1, 1, b"before")).await.unwrap();
        let order = HotOrder {
            tables: Some(vec![schema.id]),
            duration: Duration::from_secs(5),
            capacity: 8,
            listed: 2,
        };
        let scope = runtime::task::Scope::new();
        let asked = scope.spawn(hot_partitions(order));
        runtime::time::sleep(Duration::from_secs(1)).await;
        storage.apply(write(&schema, 2, 1, 1, b"a")).await.unwrap();
        storage.apply_durably(write(&schema, 3, 1, 1, b"a")).await.unwrap();
        storage.apply_all(vec![write(&schema, 3, 2, 1, b"a")]).await.unwrap();
        storage.apply(write(&other, 9, 1, 1, b"a")).await.unwrap();
        // In memory, and below it.
        rows(&storage, &schema, 2).await;
        storage.flush(schema.id).await.unwrap();
        storage.drop_row_cache();
        rows(&storage, &schema, 2).await;
        rows(&storage, &schema, 3).await;
        let Hot { reads, writes } = asked.await.unwrap().unwrap();
        assert_eq!((of(&writes), writes.total), (vec![(3, 2), (2, 1)], 3));
        assert_eq!((of(&reads), reads.total), (vec![(2, 2), (3, 1)], 3));
        assert!(!storage.shard().sampler.is_on());
        storage.stop().await.unwrap();
    });
}
