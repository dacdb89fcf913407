//! What storage opens as a source: memtables and SSTables as one stream.

use super::config;
use crate::{Log, SourceOptions, Storage};
use model::TabletMap;
use mutation::FrozenMutation;
use reader::testing::{Evicted, everything};
use reader::{EvictableSource, OpenSource, Slice, Source};
use std::rc::Rc;

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
        let order = Rc::new(mutation::testing::schema().order);
        reader::testing::conformance(15, async |mutations, slice: &Slice| {
            let table = fill(&storage, mutations).await;
            let storage = storage.clone();
            let open: OpenSource = Box::new(move |scope, slice| {
                storage.open_source(table, scope.clone(), slice.clone(), SourceOptions::QUERY)
            });
            let source = EvictableSource::new(order.clone(), everything(), slice.clone(), open);
            Box::new(Evicted::new(source, 1, 2)) as Box<dyn Source>
        })
        .await;
        storage.stop().await.unwrap();
    });
}
