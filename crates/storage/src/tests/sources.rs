//! What storage opens as a source: memtables and SSTables as one stream.

use super::config;
use crate::{Log, SourceOptions, Storage};
use model::TabletMap;
use mutation::FrozenMutation;
use reader::multishard::{Demand, MultishardOptions, ReadAhead};
use reader::semaphore::Limits;
use reader::testing::{Evicted, everything};
use reader::{EvictableSource, OpenSource, PartitionScope, Slice, Source};
use std::rc::Rc;
use testkit::SimNode;

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

/// The table of the suite on every shard, with these mutations alone.
async fn fill_shards(mutations: &[FrozenMutation]) -> model::TableId {
    let schema = mutation::testing::schema();
    let id = schema.id;
    let map = TabletMap::tablets(12, runtime::shard_count());
    runtime::on_all_shards(move || async move {
        let storage = runtime::local::get::<Storage>();
        if storage.table_stats(id).is_some() {
            storage.drop_table(id, None).await.unwrap();
        }
    })
    .await;
    runtime::on_all_shards(move || async move {
        let storage = runtime::local::get::<Storage>();
        let schema = Rc::new(mutation::testing::schema());
        let map = TabletMap::tablets(12, runtime::shard_count());
        storage.add_table(schema, map, Log::Data).await.unwrap();
    })
    .await;
    for (index, one) in mutations.iter().enumerate() {
        let token = model::Token::of(one.view().unwrap().key());
        let bytes = one.0.to_vec();
        let apply = move || async move {
            let storage = runtime::local::get::<Storage>();
            storage.apply(FrozenMutation(bytes.into())).await.unwrap();
            if index % 3 == 1 {
                storage.flush(id).await.unwrap();
            }
        };
        runtime::on_shard(map.shard_of(token), apply).await;
    }
    id
}

#[test]
fn all_shards_are_a_source_like_any_other() {
    let mut node = SimNode::new(4, 3);
    node.run(async {
        runtime::on_all_shards(|| async {
            let storage = Storage::open(config()).await.unwrap();
            // One read at a time: whoever rests is given up for the next one.
            let streaming = storage.semaphores()[2];
            streaming.set_limits(Limits { count: 1, ..streaming.limits() });
        })
        .await;
        let mut case = 0u32;
        reader::testing::conformance(20, async |mutations, slice: &Slice| {
            let table = fill_shards(mutations).await;
            let PartitionScope::Range { start, end } = everything() else { unreachable!() };
            case += 1;
            let ahead =
                MultishardOptions { demand: Demand::Buffer(300), read_ahead: ReadAhead::NextShard };
            let how = if case.is_multiple_of(2) { ahead } else { MultishardOptions::EXACT };
            let storage = runtime::local::get::<Storage>();
            let options = SourceOptions::QUERY;
            let opened = storage.open_multishard(table, (start, end), slice.clone(), options, how);
            Box::new(opened.unwrap()) as Box<dyn Source>
        })
        .await;
        runtime::on_all_shards(|| async {
            runtime::local::get::<Storage>().stop().await.unwrap();
        })
        .await;
    });
}
