//! Full disks, damaged files, pressure, drops: a clear error in one place, service everywhere else.

use super::*;
use crate::{StorageError, WriteError};
use reader::ReadError;
use testkit::SimNode;

fn id(table: u128) -> Uuid {
    Uuid::from_u128(table)
}

fn storage() -> Rc<Storage> {
    runtime::local::get::<Storage>()
}

async fn fill(table: u128, partitions: std::ops::Range<u64>, bytes: usize) {
    let schema = schema(table, "t");
    for partition in partitions {
        let value = vec![partition as u8; bytes];
        storage().apply(write(&schema, partition, 1, 1, &value)).await.unwrap();
    }
}

fn files(node: &mut SimNode, part: &str) -> Vec<String> {
    node.disk().files().into_iter().filter(|path| path.contains(part)).collect()
}

#[test]
fn a_damaged_sstable_stops_the_reads_of_its_table_alone_and_is_named() {
    for component in ["-Data.db", "-Statistics.db", "-Summary.db", "-Index.db"] {
        for cut in [false, true] {
            let mut node = SimNode::new(1, 1);
            node.run(async {
                open(config()).await;
                fill(1, 0..50, 300).await;
                fill(2, 0..50, 300).await;
                storage().flush_all().await.unwrap();
                storage().stop().await.unwrap();
            });
            node.crash();
            let [path] = &files(&mut node, component)[..1] else { panic!("no {component}") };
            assert!(path.contains("/t1-"));
            match cut {
                true => node.disk().truncate(path, 20),
                false => {
                    for offset in 0..200 {
                        node.disk().corrupt(path, offset, 0x55);
                    }
                }
            }
            let path = path.clone();
            node.run(async move {
                open(config()).await;
                storage().replay(Log::Data).await.unwrap();
                let mut read = command(&schema(1, "t1"), Partitions::Key(key(0)));
                let mut damaged = None;
                for partition in 0..50 {
                    read.partitions = Partitions::Key(key(partition));
                    damaged = damaged.or(storage().read(&read).await.err());
                }
                let Some(ReadError::Damaged { file, .. }) = damaged else {
                    panic!("{path}: {damaged:?}");
                };
                // The checksums of Data.db may be found wrong through another component.
                let generation = path.split("-big-").next().unwrap();
                assert!(file.starts_with(generation), "{file} for {path}");
                assert_eq!(rows(&storage(), &schema(2, "t2"), 7).await.len(), 1);
                fill(1, 60..61, 10).await;
                storage().flush(id(1)).await.unwrap();
            });
        }
    }
}

#[test]
fn a_truncation_takes_what_could_not_be_opened() {
    let mut node = SimNode::new(4, 1);
    node.run(async {
        open(config()).await;
        // Two of them: one that is known to be damaged must not hide the other.
        for partition in [1, 2] {
            fill(1, partition..partition + 1, 300).await;
            storage().flush(id(1)).await.unwrap();
        }
        storage().stop().await.unwrap();
    });
    node.crash();
    let statistics = files(&mut node, "-Statistics.db");
    assert_eq!(statistics.len(), 2);
    let whole = |node: &mut SimNode, path: &String| node.disk().read(path).unwrap();
    let before: Vec<_> = statistics.iter().map(|path| whole(&mut node, path)).collect();
    statistics.iter().for_each(|path| node.disk().truncate(path, 20));
    node.run(async {
        open(config()).await;
        storage().replay(Log::Data).await.unwrap();
        let read = command(&schema(1, "t1"), Partitions::Key(key(1)));
        assert!(matches!(storage().read(&read).await, Err(ReadError::Damaged { .. })));
        storage().truncate(id(1), 1).await.unwrap();
        assert_eq!(rows(&storage(), &schema(1, "t1"), 1).await.len(), 0);
    });
    // The disk is well again, and whatever of the files is still there with it.
    node.crash();
    for (path, bytes) in statistics.iter().zip(before) {
        if files(&mut node, path).is_empty() {
            continue;
        }
        node.disk().write(path, &bytes);
    }
    node.run(async {
        open(config()).await;
        storage().replay(Log::Data).await.unwrap();
        for partition in [1, 2] {
            assert_eq!(rows(&storage(), &schema(1, "t1"), partition).await.len(), 0);
        }
    });
    assert!(files(&mut node, "-Data.db").is_empty());
}

#[test]
fn a_flush_that_fails_after_its_table_was_dropped_holds_nothing() {
    for micros in [0, 10, 20, 50, 100, 200] {
        let mut node = SimNode::new(9, 1);
        node.run(async {
            open(config()).await;
            fill(1, 0..60, 700).await;
        });
        node.disk().set_error_rate(1);
        node.run(async move {
            let dropping = async {
                runtime::time::sleep(Duration::from_micros(micros)).await;
                storage().drop_table(id(1), None).await.unwrap();
            };
            // It ends with the flush, or before, with the table.
            let _ = runtime::task::join(storage().flush(id(1)), dropping).await;
            runtime::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(storage().dirty_bytes(), 0, "dropped after {micros} us");
        });
    }
}

#[test]
fn a_flush_waits_for_space_and_reads_go_on() {
    let mut node = SimNode::new(2, 1);
    node.run(async {
        open(config()).await;
        fill(1, 0..60, 700).await;
    });
    let used: usize = node
        .disk()
        .files()
        .iter()
        .map(|path| node.disk().read(path).map_or(0, |bytes| bytes.len()))
        .sum();
    node.disk().set_capacity(Some(used as u64 + 1000));
    node.run(async {
        let failed = storage().flush(id(1)).await;
        let Err(StorageError::Flush(error)) = failed else { panic!("{failed:?}") };
        assert!(error.to_string().contains("/n/data/ks/t1-"), "{error}");
        assert_eq!(rows(&storage(), &schema(1, "t1"), 3).await.len(), 1);
    });
    node.disk().set_capacity(None);
    node.run(async {
        storage().flush(id(1)).await.unwrap();
        let stats = storage().table_stats(id(1)).unwrap();
        assert_eq!((stats.memtable_bytes, stats.sstables), (0, 1));
        assert_eq!(storage().dirty_bytes(), 0);
        assert_eq!(rows(&storage(), &schema(1, "t1"), 3).await.len(), 1);
    });
}

#[test]
fn writes_are_refused_by_name_when_memory_is_full_and_the_disk_too() {
    let mut node = SimNode::new(3, 1);
    node.disk().set_capacity(Some(600 << 10));
    node.run(async {
        open(Config { commitlog_bytes_max: 8 * SEGMENT as u64, ..config() }).await;
        let schema = schema(1, "t1");
        let mut refused = None;
        for partition in 0..2_000 {
            let new = write(&schema, partition, 1, 1, &[5; 3000]);
            refused = storage().apply(new).await.err();
            if refused.is_some() {
                break;
            }
        }
        assert!(matches!(refused, Some(WriteError::FullDisk(_))), "{refused:?}");
        assert_eq!(rows(&storage(), &schema, 0).await.len(), 1);
    });
}

#[test]
fn the_log_and_the_memtables_keep_their_limits() {
    SimNode::new(4, 1).run(async {
        let memtable_bytes_max = 900 << 10;
        open(Config { memtable_bytes_max, ..config() }).await;
        for round in 0..40 {
            fill(1, round * 25..(round + 1) * 25, 1500).await;
            let log = storage().log_stats(Log::Data).unwrap();
            assert!(log.disk_bytes <= config().commitlog_bytes_max, "{log:?}");
            assert!(storage().dirty_bytes() <= memtable_bytes_max + 4096);
        }
        let log = storage().log_stats(Log::Data).unwrap();
        assert!(log.released > 10 && log.flush_requests > 0, "{log:?}");
        // A table that is hardly written to does not pin old segments.
        fill(2, 0..1, 10).await;
        fill(1, 0..600, 1500).await;
        assert_eq!(storage().table_stats(id(2)).unwrap().sstables, 1);
        assert_eq!(rows(&storage(), &schema(1, "t1"), 999).await.len(), 1);
    });
}

#[test]
fn a_clean_stop_leaves_no_log_and_its_start_replays_nothing() {
    let mut node = SimNode::new(5, 1);
    node.run(async {
        open(config()).await;
        fill(1, 0..100, 500).await;
        storage().stop().await.unwrap();
        assert!(runtime::local::try_get::<Storage>().is_none());
    });
    node.crash();
    assert_eq!(files(&mut node, "CommitLog-"), Vec::<String>::new());
    node.run(async {
        let storage = open(config()).await;
        assert_eq!(storage.replay(Log::Data).await.unwrap(), Default::default());
        assert_eq!(rows(&storage, &schema(1, "t1"), 99).await.len(), 1);
    });
}

#[test]
fn replayed_segments_go_when_what_they_held_is_durable() {
    let mut node = SimNode::new(6, 1);
    node.run(async {
        open(config()).await;
        fill(1, 0..30, 500).await;
    });
    node.crash();
    let old = files(&mut node, "CommitLog-");
    node.run(async {
        open(config()).await;
        assert_eq!(storage().replay(Log::Data).await.unwrap().applied, 30);
    });
    node.run_for(Duration::from_secs(3));
    assert_eq!(files(&mut node, "CommitLog-"), old);
    node.run(async { storage().flush(id(1)).await.unwrap() });
    node.run_for(Duration::from_secs(3));
    assert_eq!(files(&mut node, "CommitLog-"), Vec::<String>::new());
}

#[test]
fn a_corrupt_segment_is_counted_and_set_aside() {
    let mut node = SimNode::new(7, 1);
    node.run(async {
        open(config()).await;
        fill(1, 0..10, 500).await;
    });
    node.crash();
    let log = files(&mut node, "CommitLog-").swap_remove(0);
    node.disk().corrupt(&log, 3 * 4096 + 100, 1);
    node.run(async {
        open(config()).await;
        let stats = storage().replay(Log::Data).await.unwrap();
        assert_eq!((stats.applied, stats.corrupt_bytes), (9, 4096));
        storage().flush(id(1)).await.unwrap();
    });
    node.run_for(Duration::from_secs(3));
    assert_eq!(files(&mut node, "CommitLog-"), [format!("{log}.damaged")]);
}

#[test]
fn a_dropped_table_is_gone_but_for_its_snapshot() {
    for snapshot in [None, Some("before")] {
        let mut node = SimNode::new(8, 1);
        node.run(async move {
            open(config()).await;
            fill(1, 0..10, 500).await;
            storage().flush(id(1)).await.unwrap();
            fill(1, 10..20, 500).await;
            let tag = snapshot.map(|tag| crate::SnapshotTag::new(tag).unwrap());
            storage().drop_table(id(1), tag.as_ref()).await.unwrap();
            assert_eq!(storage().dirty_bytes(), 0);
            let gone = storage().apply(write(&schema(1, "t1"), 1, 1, 1, b"")).await;
            assert!(matches!(gone, Err(WriteError::UnknownTable(_))));
        });
        let left = files(&mut node, "/t1-");
        assert!(left.iter().all(|path| path.contains("/snapshots/before/")), "{left:?}");
        let data = left.iter().filter(|path| path.ends_with("-Data.db")).count();
        assert_eq!(data, if snapshot.is_some() { 2 } else { 0 });
    }
}

#[test]
fn sstables_of_one_size_are_merged() {
    let mut node = SimNode::new(10, 1);
    node.run(async {
        open(config()).await.replay(Log::Data).await.unwrap();
        for round in 0..9 {
            fill(1, round..round + 20, 300).await;
            storage().flush(id(1)).await.unwrap();
        }
    });
    node.run_for(Duration::from_secs(2));
    let check = async || {
        for partition in 0..28 {
            assert_eq!(rows(&storage(), &schema(1, "t1"), partition).await.len(), 1);
        }
        storage().table_stats(id(1)).unwrap().sstables
    };
    let merged = node.run(async move { check().await });
    assert!(merged < 4, "{merged} SSTables");
    node.crash();
    let again = node.run(async move {
        open(config()).await;
        check().await
    });
    assert_eq!(again, merged);
    assert_eq!(files(&mut node, "-Data.db").len() as u64, merged);
}

#[test]
fn a_failing_disk_is_reported_and_recovered_from() {
    let mut node = SimNode::new(9, 1);
    node.run(async { drop(open(config()).await) });
    node.disk().set_error_rate(10);
    let acked = node.run(async {
        let schema = schema(1, "t1");
        let mut acked = Vec::new();
        for partition in 0..200 {
            if storage().apply(write(&schema, partition, 1, 1, b"x")).await.is_ok() {
                acked.push(partition);
            }
            runtime::time::sleep(Duration::from_millis(100)).await;
        }
        acked
    });
    assert!(10 < acked.len() && acked.len() < 200, "{}", acked.len());
    node.disk().set_error_rate(0);
    node.crash();
    node.run(async {
        open(config()).await;
        storage().replay(Log::Data).await.unwrap();
        for partition in acked {
            assert_eq!(rows(&storage(), &schema(1, "t1"), partition).await.len(), 1, "{partition}");
        }
    });
}
