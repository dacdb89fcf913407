//! SSTables from elsewhere: taken over whole or refused with the reason, whatever crashes.

use super::*;
use crate::{Checks, Loaded};
use mutation::Fragment;
use runtime::io::{IoClass, fs};
use runtime::{local, on_all_shards};
use sstable::{Component, Descriptor, Generation, Version, Writer, WriterOptions};
use std::cell::RefCell;
use std::future::Future;
use std::path::PathBuf;
use stdx::Prng;
use testkit::SimNode;
use testkit::archives;

const PARTITIONS: u64 = 24;

fn table() -> TableSchema {
    schema(1, "t1")
}

fn upload_dir() -> PathBuf {
    let dir = format!("ks/t1-{}/upload", table().id.simple());
    config().data_dir.join(dir)
}

/// A row of each partition whose number leaves `rest` when divided by `count`.
fn fragments(schema: &TableSchema, rest: u64, count: u64) -> Vec<Fragment> {
    let numbers = (0..PARTITIONS).filter(|number| number % count == rest);
    let mut keys: Vec<_> =
        numbers.map(|number| model::DecoratedKey::new(key(number).into())).collect();
    keys.sort();
    let mut out = Vec::new();
    for key in keys {
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp: 5 });
        if schema.columns[5] == table().columns[5] {
            let state = CellState::Live { value: b"there" };
            row.cell(V, Cell { timestamp: 5, state });
        }
        out.push(Fragment::PartitionStart { key, tombstone: mutation::Tombstone::NONE });
        out.push(Fragment::Row { key: clustering(&[7, 0]).into(), row: row.finish().into() });
        out.push(Fragment::PartitionEnd);
    }
    out
}

/// Writes an SSTable of a part of the partitions into `upload/`.
pub(super) async fn write_foreign(schema: &TableSchema, generation: u64, rest: u64, count: u64) {
    let dir = upload_dir();
    fs::create_dir_all(&dir).await.unwrap();
    let options = WriterOptions::of_schema(schema, "elsewhere").unwrap();
    let options = WriterOptions { level: 3, ..options };
    let generation = Generation::Number(generation);
    let shared = Rc::new(schema.clone());
    let writer = Writer::create(&dir, generation, shared, options, IoClass::Flush).await;
    let mut writer = writer.unwrap();
    for fragment in fragments(schema, rest, count) {
        writer.write(&fragment).await.unwrap();
    }
    writer.finish().await.unwrap();
}

pub(super) async fn start() -> Rc<Storage> {
    let storage = open(config()).await;
    while local::try_get::<Storage>().is_none() {
        runtime::time::sleep(Duration::from_micros(100)).await;
    }
    storage
}

/// Starts every shard, then runs `test` on shard 0.
pub(super) fn with_shards<F: Future<Output = ()> + 'static>(
    node: &mut SimNode,
    shards: u16,
    test: impl Fn(Rc<Storage>) -> F + 'static,
) {
    let (opened, done) = (Rc::new(std::cell::Cell::new(0)), Rc::new(std::cell::Cell::new(false)));
    let (all, ended, test) = (opened.clone(), done.clone(), Rc::new(test));
    node.start(move |shard| {
        let (opened, ended, test) = (all.clone(), ended.clone(), test.clone());
        async move {
            let storage = start().await;
            opened.set(opened.get() + 1);
            while opened.get() < shards {
                runtime::time::sleep(Duration::from_micros(100)).await;
            }
            if shard == 0 {
                storage.replay(Log::Data).await.unwrap();
                test(storage).await;
                ended.set(true);
            } else {
                std::future::pending::<()>().await;
            }
        }
    });
    assert!(node.run_until(|| done.get(), Duration::from_secs(600)));
    node.crash();
}

/// How many partitions have their row, over all shards.
async fn found() -> usize {
    let counts = on_all_shards(|| async {
        let storage = local::get::<Storage>();
        let map = TabletMap::static_map(runtime::shard_count());
        let mut count = 0;
        for number in 0..PARTITIONS {
            if map.shard_of(model::Token::of(&key(number))) == runtime::shard_id() {
                let rows = rows(&storage, &table(), number).await;
                count += rows.values().filter(|row| **row == (5, b"there".to_vec())).count();
            }
        }
        count
    });
    counts.await.into_iter().sum()
}

fn tocs(node: &mut SimNode, upload: bool) -> usize {
    let files = node.disk().files();
    let here = files.iter().filter(|path| path.contains("/t1-") && path.ends_with("-TOC.txt"));
    here.filter(|path| path.contains("/upload/") == upload).count()
}

#[test]
fn what_is_taken_over_is_read_though_its_partitions_were_cached() {
    let mut node = SimNode::new(3, 1);
    with_shards(&mut node, 1, |storage| async move {
        for number in 0..PARTITIONS {
            storage.apply(write(&table(), number, 7, 1, b"before")).await.unwrap();
        }
        storage.flush(table().id).await.unwrap();
        // The second time from the cache.
        assert_eq!((found().await, found().await), (0, 0));
        assert!(0 < storage.row_cache_stats().partition_hits);
        write_foreign(&table(), 5, 0, 1).await;
        storage.load_new(table().id, Checks::Open).await.unwrap();
        assert_eq!(found().await, PARTITIONS as usize);
    });
}

#[test]
fn foreign_files_are_there_on_every_shard_and_after_a_restart() {
    for shards in [1, 3] {
        let mut node = SimNode::new(1, shards);
        with_shards(&mut node, shards, |storage| async move {
            write_foreign(&table(), 5, 0, 2).await;
            write_foreign(&table(), 17, 1, 2).await;
            let loaded = storage.load_new(table().id, Checks::Verify).await.unwrap();
            assert_eq!(loaded.refused, []);
            let names: Vec<&str> = loaded.loaded.iter().map(|one| one.from.as_str()).collect();
            assert_eq!(names, ["me-5-big-Data.db", "me-17-big-Data.db"]);
            assert!(loaded.loaded.iter().all(|one| one.partitions == PARTITIONS / 2));
            assert_eq!(found().await, PARTITIONS as usize);
            let again = storage.load_new(table().id, Checks::Open).await.unwrap();
            assert_eq!(again, Loaded { directory: upload_dir(), ..Loaded::default() });
            assert!(fs::list_dir(upload_dir()).await.unwrap().is_empty());
        });
        // What lies in several tablets may have become SSTables of each.
        let (waiting, taken) = (tocs(&mut node, true), tocs(&mut node, false));
        assert!(waiting == 0 && if shards == 1 { taken == 2 } else { 0 < taken });
        with_shards(&mut node, shards, |_| async move {
            assert_eq!(found().await, PARTITIONS as usize);
            on_all_shards(|| async {
                let here = local::get::<Storage>().shard().table(table().id).unwrap().sstables();
                assert!(!here.is_empty());
                for one in here {
                    assert_eq!((one.descriptor().version, one.stats().level), (Version::Me, 0));
                }
            })
            .await;
        });
    }
}

#[test]
fn what_does_not_fit_stays_and_is_named() {
    let mut node = SimNode::new(2, 1);
    with_shards(&mut node, 1, |storage| async move {
        let dir = upload_dir();
        let mut other_type = table();
        other_type.columns[5].ty = model::Type::Int;
        let mut other_column = table();
        other_column.columns[5].name = "w".into();
        let mut other_key = table();
        other_key.columns[0].ty = model::Type::Blob;
        let mut other_order = table();
        other_order.columns[1].reversed = true;
        other_order.order.columns[0].1 = true;
        let schemas = [other_column, other_key, other_order, other_type];
        for (index, schema) in schemas.iter().enumerate() {
            write_foreign(schema, 1 + index as u64, 0, 1).await;
        }
        let path = |generation, component| {
            let generation = Generation::Number(generation);
            Descriptor { version: Version::Me, generation }.path(&dir, component)
        };
        for generation in 5..9 {
            write_foreign(&table(), generation, 0, 1).await;
        }
        fs::remove_file(path(5, Component::Toc)).await.unwrap();
        fs::remove_file(path(6, Component::Filter)).await.unwrap();
        let data = fs::read_file(path(7, Component::Data)).await.unwrap();
        let damaged: Vec<u8> = data.iter().map(|byte| byte ^ 1).collect();
        fs::write_file_atomic(path(7, Component::Data), &damaged).await.unwrap();
        fs::write_file_atomic(path(8, Component::Toc), b"\xff").await.unwrap();
        for name in ["la-9-big-Data.db", "ks-t1-ka-9-Data.db", "zz-1-big-Data.db"] {
            fs::write_file_atomic(dir.join(name), b"").await.unwrap();
        }
        let before = fs::list_dir(&dir).await.unwrap();
        let loaded = storage.load_new(table().id, Checks::Verify).await.unwrap();
        assert_eq!(loaded.loaded, []);
        assert_eq!(fs::list_dir(&dir).await.unwrap(), before);
        let expected = [
            ("ks-t1-ka-9-Data.db", "SSTable version ka"),
            ("la-9-big-Data.db", "SSTable version la"),
            ("zz-1-big-Data.db", "SSTable version zz is not supported"),
            ("me-1-big-Data.db", "column w of the file is not in the table"),
            ("me-2-big-Data.db", "column k is blob in the file and bigint in the table"),
            ("me-3-big-Data.db", "column a is in the other order in the file"),
            ("me-4-big-Data.db", "column v is int in the file and text in the table"),
            ("me-5-big-Data.db", "it has no TOC.txt"),
            ("me-6-big-Data.db", "its TOC.txt names Filter.db, which is not there"),
            ("me-7-big-Data.db", "me-7-big-Data.db"),
            ("me-8-big-Data.db", "its TOC.txt is no list of components"),
        ];
        assert_eq!(loaded.refused.len(), expected.len(), "{:#?}", loaded.refused);
        for ((name, why), (file, text)) in loaded.refused.iter().zip(expected) {
            assert_eq!(name, file);
            assert!(why.contains(text), "{name}: {why}");
        }
        assert_eq!(found().await, 0);
    });
}

/// Whether the taking over was over before the crash.
fn crash_while_loading(seed: u64) -> bool {
    const FILES: usize = 3;
    let mut prng = Prng::from_seed(seed);
    let mut node = SimNode::new(seed, 1);
    with_shards(&mut node, 1, |_| async move {
        for number in 0..FILES as u64 {
            write_foreign(&table(), number, number, FILES as u64).await;
        }
        for dir in upload_dir().ancestors() {
            fs::sync_dir(dir).await.unwrap();
        }
    });
    assert_eq!(tocs(&mut node, true), FILES);
    let done = Rc::new(std::cell::Cell::new(false));
    let ended = done.clone();
    node.start(move |_| {
        let ended = ended.clone();
        async move {
            let storage = start().await;
            storage.replay(Log::Data).await.unwrap();
            storage.load_new(table().id, Checks::Open).await.unwrap();
            ended.set(true);
        }
    });
    node.run_for(Duration::from_micros(prng.below(160_000)));
    node.crash();
    let seen = Rc::new(RefCell::new((0, 0)));
    let out = seen.clone();
    with_shards(&mut node, 1, move |storage| {
        let out = out.clone();
        async move {
            let before = storage.table_stats(table().id).unwrap().sstables;
            storage.load_new(table().id, Checks::Verify).await.unwrap();
            let after = storage.table_stats(table().id).unwrap().sstables;
            assert_eq!(found().await, PARTITIONS as usize);
            assert!(fs::list_dir(upload_dir()).await.unwrap().is_empty());
            out.replace((before, after));
        }
    });
    let (before, after) = seen.take();
    assert_eq!(after, FILES as u64, "seed {seed}: {before} before");
    assert_eq!((tocs(&mut node, true), tocs(&mut node, false)), (0, FILES), "seed {seed}");
    assert!(!done.get() || before == FILES as u64, "seed {seed}: taken over and lost");
    done.get()
}

#[test]
fn a_crash_while_loading_loses_and_doubles_nothing() {
    let done: Vec<bool> = (0..60).map(crash_while_loading).collect();
    assert!(done.contains(&true) && done.contains(&false), "all too early or too late");
}

#[test]
fn a_damaged_sstable_is_put_aside_and_the_others_are_read() {
    let mut node = SimNode::new(3, 2);
    with_shards(&mut node, 2, |storage| async move {
        write_foreign(&table(), 1, 0, 2).await;
        write_foreign(&table(), 2, 1, 2).await;
        let loaded = storage.load_new(table().id, Checks::Open).await.unwrap();
        let [one, _] = &loaded.loaded[..] else { panic!("{loaded:?}") };
        let dir = upload_dir().parent().unwrap().to_path_buf();
        let statistics = one.to.replace("Data.db", "Statistics.db");
        fs::write_file_atomic(dir.join(statistics), b"").await.unwrap();
    });
    with_shards(&mut node, 2, |storage| async move {
        let command = command(&table(), Partitions::Key(key(1)));
        let error = on_all_shards(move || {
            let command = command.clone();
            async move { local::get::<Storage>().read(&command).await.err().map(|e| e.to_string()) }
        });
        let error = error.await.into_iter().flatten().next().expect("a table with damage");
        let start = error.find("me-").expect("the error names the file");
        let name = error[start..].split(['"', ' ', ':']).next().unwrap().to_string();
        assert!(name.ends_with("Statistics.db"), "{error}");
        let name = name.replace("Statistics.db", "Data.db");
        assert!(storage.quarantine(table().id, &name).await.unwrap());
        assert!(!storage.quarantine(table().id, &name).await.unwrap());
        assert!(!storage.quarantine(table().id, "Data.db").await.unwrap());
        assert_eq!(found().await, PARTITIONS as usize / 2);
        let aside = upload_dir().parent().unwrap().join("quarantine");
        let aside = sstable::store::list(&aside).await.unwrap().tables;
        assert_eq!(aside.len(), 1);
        assert_eq!(aside[0].descriptor.file_name(Component::Data), name);
    });
    with_shards(&mut node, 2, |_| async move {
        assert_eq!(found().await, PARTITIONS as usize / 2);
    });
}

/// What `pack` has of a table of Cassandra, as a table of ours with the same columns.
fn cassandra_table(files: &[(PathBuf, Vec<u8>)], name: &str, version: Version) -> TableSchema {
    let is_statistics = |path: &PathBuf| {
        path.starts_with(name) && path.to_string_lossy().ends_with("Statistics.db")
    };
    let (_, bytes) = files.iter().find(|(path, _)| is_statistics(path)).unwrap();
    let statistics = sstable::statistics::Statistics::parse(bytes, version).unwrap();
    let schema = sstable::testing::schema_of_header(&statistics.header).unwrap();
    TableSchema { id: Uuid::from_u128(77), keyspace: "ks".into(), name: name.into(), ..schema }
}

#[test]
fn tables_of_cassandra_are_taken_over() {
    let tables = ["types", "ckall", "colls", "statics", "counters", "wide", "comp_zstd"];
    for version in [Version::Nb, Version::Oa, Version::Da] {
        let mut node = SimNode::new(4, 2);
        with_shards(&mut node, 2, move |storage| async move {
            let files = archives::files(&format!("cassandra/{}", version.name()));
            for name in tables {
                let schema = cassandra_table(&files, name, version);
                let add = schema.clone();
                on_all_shards(move || {
                    let schema = Rc::new(add.clone());
                    async move {
                        let map = TabletMap::static_map(runtime::shard_count());
                        let storage = local::get::<Storage>();
                        storage.add_table(schema, map, Log::Data).await.unwrap();
                    }
                })
                .await;
                let dir = format!("ks/{name}-{}/upload", schema.id.simple());
                let dir = config().data_dir.join(dir);
                fs::create_dir_all(&dir).await.unwrap();
                for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with(name)) {
                    let path = dir.join(path.file_name().unwrap());
                    fs::write_file_atomic(path, bytes).await.unwrap();
                }
                let loaded = storage.load_new(schema.id, Checks::Verify).await.unwrap();
                assert_eq!(loaded.refused, [], "{version:?} {name}");
                let [one] = &loaded.loaded[..] else { panic!("{loaded:?}") };
                assert!(one.to.starts_with(version.name()) && 0 < one.partitions, "{one:?}");
                assert_eq!(fs::list_dir(&dir).await.unwrap(), []);
                let id = schema.id;
                let opened = on_all_shards(move || async move {
                    let storage = local::get::<Storage>();
                    let opened = storage.table_stats(id).unwrap().sstables;
                    storage.drop_table(id, None).await.unwrap();
                    opened
                });
                assert!(0 < opened.await.iter().sum::<u64>(), "{version:?} {name}");
            }
        });
    }
}
