//! Writes to what is large: before and after a flush, a compaction and a restart.

use super::*;
use crate::{SizeLimits, WriteError};
use mutation::{CollectionWriter, Tombstone};
use sstable::LargeLimits;
use testkit::SimNode;

use crate::testing::C;

const NONE: LargeLimits =
    LargeLimits { partition_bytes: 0, row_bytes: 0, cell_bytes: 0, rows: 0, elements: 0 };

/// Table 1 with limits, as they are asked for.
async fn guarded(config: Config) -> (Rc<Storage>, Rc<TableSchema>) {
    let storage = Storage::open(config).await.unwrap();
    let mut schema = schema(1, "t1");
    let name = model::schema::TableOptions::LARGE_DATA_GUARDRAILS.to_string();
    schema.options.extensions.push((name, b"true".to_vec()));
    let schema = Rc::new(schema);
    let map = TabletMap::static_map(runtime::shard_count());
    storage.add_table(schema.clone(), map, Log::Data).await.unwrap();
    (storage, schema)
}

/// Adds an element to the set of a row.
fn add(schema: &TableSchema, row: u32, element: u32, timestamp: i64) -> FrozenMutation {
    let mut set = CollectionWriter::new(Tombstone::NONE);
    set.push(&element.to_be_bytes(), Cell::live(timestamp, b""));
    let mut blob = RowBuilder::new(Vec::new());
    blob.collection(C, &set.finish());
    let mut builder = MutationBuilder::new(schema, &key(1));
    builder.row(&clustering(&[row, 0]), &blob.finish());
    builder.freeze()
}

/// What a write is told.
fn told(storage: &Storage, mutation: &FrozenMutation) -> Result<Vec<&'static str>, String> {
    match storage.check_sizes(mutation) {
        Ok(exceeded) => Ok(exceeded.measures().map(|measure| measure.name()).collect()),
        Err(WriteError::OverLimit(text)) => Err(text),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_many_writes_made_counts_before_and_after_the_flush() {
    runtime::sim::test(1, || async {
        let (storage, schema) = guarded(config()).await;
        storage.set_size_limits(SizeLimits {
            soft: LargeLimits { elements: 5, rows: 3, row_bytes: 2000, ..NONE },
            hard: LargeLimits { elements: 8, ..NONE },
        });
        let next = |row, element| add(&schema, row, element, 1);
        for element in 0..5 {
            assert_eq!(told(&storage, &next(1, element)), Ok(vec![]));
            storage.apply(next(1, element)).await.unwrap();
        }
        assert_eq!(told(&storage, &next(1, 5)), Ok(vec![]));
        storage.apply(next(1, 5)).await.unwrap();
        assert_eq!(told(&storage, &next(1, 6)), Ok(vec!["collection element count"]));
        assert_eq!(told(&storage, &next(2, 6)), Ok(vec![]));
        for element in 6..9 {
            storage.apply(next(1, element)).await.unwrap();
        }
        let refused = told(&storage, &next(1, 9)).unwrap_err();
        assert!(refused.contains("collection element count 9 elements exceeds hard"), "{refused}");
        assert!(refused.ends_with("(keyspace=ks, table=t1, column=c)"), "{refused}");
        for row in 2..5 {
            storage.apply(write(&schema, 1, row, 1, &[7; 3000])).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
        let mut after = vec!["partition row count", "row size"];
        assert_eq!(told(&storage, &write(&schema, 1, 2, 2, b"v")), Ok(after.clone()));
        after.pop();
        assert_eq!(told(&storage, &next(1, 9)).unwrap_err(), refused);
        assert_eq!(told(&storage, &write(&schema, 1, 1, 2, b"v")), Ok(after));
        assert_eq!(told(&storage, &write(&schema, 2, 2, 2, b"v")), Ok(vec![]));
        let writes = storage.large_writes();
        assert_eq!((writes.warned, writes.refused), (3, 2));
        // What is not there any more does not count.
        storage.truncate(schema.id, 10).await.unwrap();
        assert_eq!(told(&storage, &next(1, 9)), Ok(vec![]));
        storage.stop().await.unwrap();
    });
}

#[test]
fn tables_without_limits_are_not_looked_at() {
    runtime::sim::test(2, || async {
        let (storage, schema) = guarded(config()).await;
        let limits = LargeLimits { elements: 1, ..NONE };
        storage.set_size_limits(SizeLimits { soft: NONE, hard: limits });
        let mut free = (*schema).clone();
        free.options.extensions.clear();
        storage.alter_table(Rc::new(free));
        for element in 0..4 {
            storage.apply(add(&schema, 1, element, 1)).await.unwrap();
        }
        let next = add(&schema, 1, 9, 1);
        assert_eq!(told(&storage, &next), Ok(vec![]));
        storage.flush(schema.id).await.unwrap();
        assert_eq!(told(&storage, &next), Ok(vec![]));
        // The records are there when they are wanted.
        storage.alter_table(schema.clone());
        assert!(told(&storage, &next).is_err());
        storage.stop().await.unwrap();
    });
}

#[test]
fn what_is_large_is_known_after_a_restart() {
    let mut node = SimNode::new(3, 1);
    let limits = SizeLimits { soft: NONE, hard: LargeLimits { elements: 3, ..NONE } };
    node.run(async move {
        let (storage, schema) = guarded(config()).await;
        storage.set_size_limits(limits);
        for element in 0..5 {
            storage.apply(add(&schema, 1, element, 1)).await.unwrap();
        }
        storage.stop().await.unwrap();
    });
    node.run(async move {
        let (storage, schema) = guarded(config()).await;
        storage.replay(Log::Data).await.unwrap();
        storage.set_size_limits(limits);
        assert!(told(&storage, &add(&schema, 1, 9, 1)).is_err());
        storage.stop().await.unwrap();
    });
}
