//! What storage opens as a source: memtables and SSTables as one stream.

use super::config;
use crate::{Log, SourceOptions, Storage};
use model::{TabletMap, Token};
use mutation::{FrozenMutation, RingBound};
use reader::{PartitionScope, Slice, Source};
use std::rc::Rc;

/// All partitions.
fn everything() -> PartitionScope {
    let bound = |token, after| RingBound { token, key: None, after };
    PartitionScope::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) }
}

/// A table of four tablets with these mutations alone: some in SSTables, some in memtables.
async fn fill(storage: &Storage, mutations: &[FrozenMutation]) -> model::TableId {
    let schema = mutation::testing::schema();
    if storage.table_stats(schema.id).is_some() {
        storage.drop_table(schema.id, None).await.unwrap();
    }
    let map = TabletMap::tablets(4, 1);
    storage.add_table(Rc::new(schema.clone()), map, Log::Data).await.unwrap();
    for (index, mutation) in mutations.iter().enumerate() {
        storage.apply(mutation.clone()).await.unwrap();
        if index % 3 == 1 {
            storage.flush(schema.id).await.unwrap();
        }
    }
    schema.id
}

#[test]
fn storage_is_a_source_like_any_other() {
    runtime::sim::test(1, || async {
        let storage = Storage::open(config()).await.unwrap();
        reader::testing::conformance(60, async |mutations, slice: &Slice| {
            let table = fill(&storage, mutations).await;
            let opened =
                storage.open_source(table, everything(), slice.clone(), SourceOptions::QUERY);
            opened.unwrap() as Box<dyn Source>
        })
        .await;
        storage.stop().await.unwrap();
    });
}
