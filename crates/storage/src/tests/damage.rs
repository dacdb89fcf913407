//! Damage that only a checksum tells is not compacted into files that look whole.

use super::*;
use crate::Rewrite;
use reader::ReadError;
use runtime::sim::{NodeId, Options, World};
use runtime::time::sleep;

const NODE: NodeId = NodeId(0);

/// One table, not compressed.
async fn open_plain(partitions: std::ops::Range<u64>) -> (Rc<Storage>, TableSchema) {
    let storage = Storage::open(config()).await.unwrap();
    let mut schema = schema(1, "t1");
    schema.options.compression = vec![("sstable_compression".to_string(), String::new())];
    let map = TabletMap::static_map(runtime::shard_count());
    storage.add_table(Rc::new(schema.clone()), map, Log::Data).await.unwrap();
    storage.replay(Log::Data).await.unwrap();
    for partition in partitions {
        let value = [0x5a; 200];
        storage.apply(write(&schema, partition, 1, 1, &value)).await.unwrap();
        storage.flush(schema.id).await.unwrap();
    }
    (storage, schema)
}

#[test]
fn a_damaged_sstable_is_left_alone_and_the_others_are_compacted() {
    let mut world = World::new(Options::new(4));
    assert_eq!(world.add_node(1), NODE);
    world.block_on(NODE, 0, async {
        let (storage, _) = open_plain(0..3).await;
        storage.stop().await.unwrap();
    });
    world.crash(NODE);
    let files = world.disk(NODE).files();
    let data: Vec<&String> = files.iter().filter(|path| path.contains("-Data.db")).collect();
    assert_eq!(data.len(), 3);
    let content = world.disk(NODE).read(data[1]).unwrap();
    let value = content.windows(50).position(|bytes| bytes == [0x5a; 50]).unwrap();
    let generation = data[1].split("-Data.db").next().unwrap().to_string();
    world.disk(NODE).corrupt(data[1], value as u64 + 20, 0x01);
    world.block_on(NODE, 0, async move {
        let (storage, schema) = open_plain(0..0).await;
        let error = storage.compact_all(schema.id, Rewrite::default()).await.unwrap_err();
        let ReadError::Damaged { file, what, .. } = &error else { panic!("{error}") };
        assert!(file.starts_with(&generation) && what.contains("CRC.db"), "{error}");
        assert_eq!(storage.table_stats(schema.id).unwrap().sstables, 3);
        // Enough of them for the policy, one of which may not be touched.
        for partition in 10..13 {
            storage.apply(write(&schema, partition, 1, 1, &[0x5a; 200])).await.unwrap();
            storage.flush(schema.id).await.unwrap();
        }
        for _ in 0..100 {
            sleep(Duration::from_secs(1)).await;
        }
        // The first four whole ones became one.
        assert_eq!(storage.table_stats(schema.id).unwrap().sstables, 3);
        for partition in [0, 1, 2, 10, 11, 12] {
            assert_eq!(rows(&storage, &schema, partition).await.len(), 1);
        }
        storage.stop().await.unwrap();
    });
}
