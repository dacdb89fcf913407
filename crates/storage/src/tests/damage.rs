//! Damage that only a checksum tells is not compacted into files that look whole.

use super::*;
use crate::Rewrite;
use model::Token;
use reader::ReadError;
use runtime::time::sleep;
use testkit::SimNode;

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
    let mut node = SimNode::new(4, 1);
    node.run(async {
        let (storage, _) = open_plain(0..3).await;
        storage.stop().await.unwrap();
    });
    node.crash();
    let files = node.disk().files();
    let data: Vec<&String> = files.iter().filter(|path| path.contains("-Data.db")).collect();
    assert_eq!(data.len(), 3);
    let content = node.disk().read(data[1]).unwrap();
    let value = content.windows(50).position(|bytes| bytes == [0x5a; 50]).unwrap();
    let generation = data[1].split("-Data.db").next().unwrap().to_string();
    node.disk().corrupt(data[1], value as u64 + 20, 0x01);
    node.run(async move {
        let (storage, schema) = open_plain(0..0).await;
        let changes = || storage.changes(schema.id, (Token::MIN, Token::MAX));
        let before = changes();
        assert_eq!(changes(), before);
        let error = storage.compact_all(schema.id, Rewrite::default()).await.unwrap_err();
        // Who knows that replicas have the same looks again.
        assert_ne!(changes(), before);
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
        assert_eq!(storage.damaged_sstables(), 1);
        for partition in [0, 1, 2, 10, 11, 12] {
            assert_eq!(rows(&storage, &schema, partition).await.len(), 1);
        }
        storage.stop().await.unwrap();
    });
}

fn count(storage: &Storage, schema: &TableSchema) -> u64 {
    storage.table_stats(schema.id).unwrap().sstables
}

/// Every merge of a second table, and of what else the first one has, goes on.
#[test]
fn a_damaged_sstable_fails_its_merge_by_name_and_no_other() {
    let mut node = SimNode::new(5, 1);
    node.run(async {
        let (storage, schema) = open_plain(0..0).await;
        storage.set_auto_compaction(schema.id, false);
        for partition in 0..4 {
            let value = [0x5a; 200];
            storage.apply(write(&schema, partition, 1, 1, &value)).await.unwrap();
            storage.flush(schema.id).await.unwrap();
        }
        storage.stop().await.unwrap();
    });
    node.crash();
    let files = node.disk().files();
    let data: Vec<&String> = files.iter().filter(|path| path.contains("-Data.db")).collect();
    let content = node.disk().read(data[1]).unwrap();
    let value = content.windows(50).position(|bytes| bytes == [0x5a; 50]).unwrap();
    node.disk().corrupt(data[1], value as u64 + 20, 0x01);
    // Each start tries once: damage may have been of a cable or of memory.
    for start in 0..3 {
        node.run(async move {
            let (storage, schema) = open_plain(0..0).await;
            let other = super::schema(2, "t2");
            let map = TabletMap::static_map(1);
            storage.add_table(Rc::new(other.clone()), map, Log::Data).await.unwrap();
            sleep(Duration::from_secs(100)).await;
            let stats = storage.compaction_stats();
            assert_eq!((stats.failed, stats.running), (1, 0), "start {start}");
            assert_eq!((storage.damaged_sstables(), count(&storage, &schema)), (1, 4));
            let value = [0x5a; 200];
            for row in 0..4 {
                let new = write(&other, 1, 4 * start as u32 + row, 1, &value);
                storage.apply(new).await.unwrap();
                storage.flush(other.id).await.unwrap();
            }
            sleep(Duration::from_secs(1)).await;
            assert!(count(&storage, &other) < 4);
            if start == 2 {
                // Enough of them are whole now.
                storage.apply(write(&schema, 10, 1, 1, &value)).await.unwrap();
                storage.flush(schema.id).await.unwrap();
                sleep(Duration::from_secs(1)).await;
                assert_eq!(count(&storage, &schema), 2);
                assert_eq!(rows(&storage, &schema, 10).await.len(), 1);
            }
            let stats = storage.compaction_stats();
            assert_eq!((stats.failed, 0 < stats.finished), (1, true), "start {start}");
            for partition in [0, 2, 3] {
                assert_eq!(rows(&storage, &schema, partition).await.len(), 1);
            }
            storage.stop().await.unwrap();
        });
        node.crash();
    }
}
