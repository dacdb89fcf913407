//! Snapshots: whole, listed with their sizes, put back, expired, and left by a dropped table.

use super::upload::{start, with_shards};
use super::*;
use crate::bulk::Rewrite;
use crate::{
    BACKUP_PREFIX, Checks, Memtables, OpenSnapshot, SnapshotError, SnapshotFilter, SnapshotOrder,
    SnapshotPlace, SnapshotTag,
};
use model::{DecoratedKey, TableId, Token};
use mutation::{Fragment, RingBound};
use reader::{Budget, PartitionScope, Slice};
use runtime::io::fs;
use runtime::{local, on_all_shards};
use std::path::PathBuf;
use std::rc::Rc;
use stdx::Bytes;
use testkit::{Fault, SimNode};

pub(super) const PARTITIONS: u64 = 12;

pub(super) fn table() -> TableSchema {
    schema(1, "t1")
}

pub(super) fn dir(tail: &str) -> PathBuf {
    config().data_dir.join(format!("ks/t1-{}/{tail}", table().id.simple()))
}

fn order(tag: &str) -> SnapshotOrder {
    let tag = SnapshotTag::new(tag).unwrap();
    SnapshotOrder { tag, memtables: Memtables::Flushed, ttl: None }
}

fn of_tag(tag: &str) -> SnapshotFilter {
    SnapshotFilter { tag: Some(tag.to_owned()), ..SnapshotFilter::default() }
}

/// Writes a row of each partition, on the shard that has it.
pub(super) async fn write_all(row: u32) {
    on_all_shards(move || async move {
        let storage = local::get::<Storage>();
        let map = TabletMap::static_map(runtime::shard_count());
        for partition in 0..PARTITIONS {
            if map.shard_of(Token::of(&key(partition))) == runtime::shard_id() {
                storage.apply(write(&table(), partition, row, 5, b"there")).await.unwrap();
            }
        }
    })
    .await;
}

/// How many rows there are, over all shards.
async fn count() -> usize {
    let counts = on_all_shards(|| async {
        let storage = local::get::<Storage>();
        let map = TabletMap::static_map(runtime::shard_count());
        let mut count = 0;
        for partition in 0..PARTITIONS {
            if map.shard_of(Token::of(&key(partition))) == runtime::shard_id() {
                count += rows(&storage, &table(), partition).await.len();
            }
        }
        count
    });
    counts.await.into_iter().sum()
}

async fn on_all(act: impl AsyncFn(&Storage, TableId) + Copy + Send + 'static) {
    on_all_shards(move || async move { act(&local::get::<Storage>(), table().id).await }).await;
}

/// The names of a snapshot's data files.
async fn data_files(tag: &str) -> Vec<String> {
    let entries = fs::list_dir(dir("snapshots").join(tag)).await.unwrap_or_default();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with("-Data.db")).collect()
}

#[test]
fn a_snapshot_is_listed_put_back_and_cleared() {
    for shards in [1, 3] {
        let mut node = SimNode::new(1, shards);
        with_shards(&mut node, shards, |storage| async move {
            write_all(1).await;
            let ids = vec![table().id];
            storage.take_snapshot(ids.clone(), order("one")).await.unwrap();
            let [listed] = &storage.snapshots().await.unwrap()[..] else { panic!("not one") };
            assert_eq!((&listed.keyspace[..], &listed.table[..]), ("ks", "t1"));
            assert_eq!((&listed.tag[..], listed.live_bytes), ("one", 0));
            assert!(listed.created_secs.is_some() && listed.expires_secs.is_none());
            let total = listed.total_bytes;
            assert!(total > 0);

            let again = storage.take_snapshot(vec![schema(2, "t2").id, ids[0]], order("one")).await;
            assert!(matches!(again, Err(SnapshotError::Exists(_))), "{again:?}");
            assert_eq!(storage.snapshots().await.unwrap().len(), 1, "nothing is done of it");

            // What is merged away is the snapshot's alone.
            write_all(2).await;
            on_all(async |storage, id| storage.flush(id).await.unwrap()).await;
            on_all(async |storage, id| {
                storage.compact_all(id, Rewrite::default()).await.unwrap();
            })
            .await;
            let [listed] = &storage.snapshots().await.unwrap()[..] else { panic!("not one") };
            assert_eq!((listed.total_bytes, listed.live_bytes), (total, total));
            assert_eq!(count().await, 2 * PARTITIONS as usize);

            on_all(async |storage, id| {
                storage.truncate(id, 9).await.unwrap();
            })
            .await;
            assert_eq!(count().await, 0);
            fs::create_dir_all(dir("upload")).await.unwrap();
            for entry in fs::list_dir(dir("snapshots/one")).await.unwrap() {
                if !matches!(&entry.name[..], "manifest.json" | "schema.cql") {
                    let to = dir("upload").join(&entry.name);
                    fs::hard_link(dir("snapshots/one").join(&entry.name), to).await.unwrap();
                }
            }
            let loaded = storage.load_new(ids[0], Checks::Verify).await.unwrap();
            assert_eq!((loaded.refused, count().await), (Vec::new(), PARTITIONS as usize));

            let named = format!("{BACKUP_PREFIX}7");
            let order = SnapshotOrder {
                tag: SnapshotTag::new(&named).unwrap(),
                memtables: Memtables::LeftOut,
                ttl: None,
            };
            storage.take_snapshot(vec![ids[0]], order).await.unwrap();
            assert_eq!(storage.clear_snapshots(of_tag("other")).await, Ok(0));
            let elsewhere = SnapshotFilter { keyspaces: vec!["k2".to_owned()], ..of_tag("one") };
            assert_eq!(storage.clear_snapshots(elsewhere).await, Ok(0));
            let all = SnapshotFilter::default();
            assert_eq!(storage.clear_snapshots(all).await, Ok(1), "a part of a backup stays");
            assert_eq!(storage.clear_snapshots(of_tag(&named)).await, Ok(1), "it was named");
            assert_eq!(storage.snapshots().await, Ok(Vec::new()));
            assert_eq!(count().await, PARTITIONS as usize);
        });
    }
}

#[test]
fn memtables_may_be_left_out() {
    let mut node = SimNode::new(2, 1);
    with_shards(&mut node, 1, |storage| async move {
        write_all(1).await;
        let left_out = SnapshotOrder { memtables: Memtables::LeftOut, ..order("empty") };
        storage.take_snapshot(vec![table().id], left_out).await.unwrap();
        assert_eq!(data_files("empty").await, Vec::<String>::new());
        storage.take_snapshot(vec![table().id], order("full")).await.unwrap();
        assert_eq!(data_files("full").await.len(), 1);
        let text = fs::read_file(dir("snapshots/full/schema.cql")).await.unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\nCREATE TABLE ks.t1 (") && text.starts_with("-- "), "{text}");
    });
}

#[test]
fn a_snapshot_expires_also_after_a_restart() {
    let mut node = SimNode::new(3, 1);
    with_shards(&mut node, 1, |storage| async move {
        write_all(1).await;
        let ids = vec![table().id];
        for (tag, secs) in [("short", 5), ("long", 500), ("longer", 5000)] {
            let ttl = Some(Duration::from_secs(secs));
            let wanted = SnapshotOrder { ttl, ..order(tag) };
            storage.take_snapshot(ids.clone(), wanted).await.unwrap();
        }
        storage.take_snapshot(ids, order("always")).await.unwrap();
        let expiring = storage.clone();
        let scope = runtime::task::Scope::new();
        scope.spawn(async move { expiring.expire_snapshots().await });
        runtime::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(tags(&storage).await, ["always", "long", "longer"]);
        scope.cancel().await;
    });
    with_shards(&mut node, 1, |storage| async move {
        let expiring = storage.clone();
        let scope = runtime::task::Scope::new();
        scope.spawn(async move { expiring.expire_snapshots().await });
        runtime::time::sleep(Duration::from_secs(501)).await;
        assert_eq!(tags(&storage).await, ["always", "longer"]);
        // One that is taken later and expires first.
        let wanted = SnapshotOrder { ttl: Some(Duration::from_secs(2)), ..order("new") };
        storage.take_snapshot(vec![table().id], wanted).await.unwrap();
        runtime::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(tags(&storage).await, ["always", "longer"]);
        scope.cancel().await;
    });
}

async fn tags(storage: &Storage) -> Vec<String> {
    storage.snapshots().await.unwrap().into_iter().map(|one| one.tag).collect()
}

#[test]
fn a_dropped_table_leaves_its_snapshots() {
    for (taken, dropped, left) in [
        (false, false, &[][..]),
        (true, false, &["taken"]),
        (false, true, &["dropped"]),
        (true, true, &["dropped", "taken"]),
    ] {
        let mut node = SimNode::new(4, 2);
        with_shards(&mut node, 2, move |storage| async move {
            write_all(1).await;
            if taken {
                storage.take_snapshot(vec![table().id], order("taken")).await.unwrap();
            }
            on_all_shards(move || async move {
                let tag = dropped.then(|| SnapshotTag::new("dropped").unwrap());
                let storage = local::get::<Storage>();
                storage.drop_table(table().id, tag.as_ref()).await.unwrap();
            })
            .await;
            let tag = SnapshotTag::new("dropped").unwrap();
            let made = dropped.then_some((&tag, None));
            storage.complete_dropped(&table(), None, made).await.unwrap();
            assert_eq!(tags(&storage).await, left);
            let listed = storage.snapshots().await.unwrap();
            assert!(listed.iter().all(|one| one.created_secs.is_some()), "{listed:?}");
            assert!(listed.iter().all(|one| one.live_bytes == one.total_bytes));
            assert_eq!(fs::exists(dir("")).await.unwrap(), !left.is_empty());
            for (cleared, tag) in left.iter().enumerate() {
                assert!(fs::exists(dir("")).await.unwrap(), "{cleared} of {left:?} are cleared");
                assert_eq!(storage.clear_snapshots(of_tag(tag)).await, Ok(1));
            }
            assert!(!fs::exists(dir("")).await.unwrap(), "it goes with the last of {left:?}");
        });
    }
}

#[test]
fn a_table_is_dropped_though_its_snapshot_cannot_be_made() {
    for fault in [Fault::SmallDisk(1), Fault::DiskErrors(1)] {
        let mut node = SimNode::new(4, 1);
        node.run(async {
            start().await.replay(Log::Data).await.unwrap();
            write_all(1).await;
        });
        node.suffer(fault);
        node.run(async {
            let storage = local::get::<Storage>();
            let tag = SnapshotTag::new("dropped").unwrap();
            storage.drop_table(table().id, Some(&tag)).await.unwrap();
            assert!(storage.drop_table(table().id, None).await.is_err(), "it is known");
        });
        node.heal();
        node.run(async {
            let tag = SnapshotTag::new("dropped").unwrap();
            let made = Some((&tag, None));
            let storage = local::get::<Storage>();
            storage.complete_dropped(&table(), None, made).await.unwrap();
        });
    }
}

#[test]
fn a_dropped_table_whose_snapshots_were_cleared_leaves_nothing() {
    let mut node = SimNode::new(4, 2);
    with_shards(&mut node, 2, |storage| async move {
        write_all(1).await;
        storage.take_snapshot(vec![table().id], order("taken")).await.unwrap();
        assert_eq!(storage.clear_snapshots(of_tag("taken")).await, Ok(1));
        on_all_shards(|| async {
            local::get::<Storage>().drop_table(table().id, None).await.unwrap();
        })
        .await;
        assert!(!fs::exists(dir("")).await.unwrap());
    });
}

#[test]
fn only_what_a_drop_has_left_goes_with_the_last_snapshot() {
    let mut node = SimNode::new(5, 2);
    with_shards(&mut node, 2, |storage| async move {
        write_all(1).await;
        on_all(async |storage, id| {
            storage.truncate(id, 9).await.unwrap();
        })
        .await;
        fs::create_dir_all(dir("upload")).await.unwrap();
        fs::write_file_atomic(dir("upload/new"), b"1").await.unwrap();
        storage.take_snapshot(vec![table().id], order("taken")).await.unwrap();
        storage.take_snapshot(vec![table().id], order("other")).await.unwrap();
        assert_eq!(storage.clear_snapshots(of_tag("other")).await, Ok(1));
        on_all(async |storage, id| storage.drop_table(id, None).await.unwrap()).await;
        storage.complete_dropped(&table(), None, None).await.unwrap();
        let left = fs::list_dir(dir("")).await.unwrap();
        let left: Vec<_> = left.iter().map(|entry| &entry.name[..]).collect();
        assert_eq!(left, ["snapshots"]);

        fs::write_file_atomic(dir("mine"), b"1").await.unwrap();
        assert_eq!(storage.clear_snapshots(of_tag("taken")).await, Ok(1));
        assert!(!fs::exists(dir("snapshots")).await.unwrap());
        assert!(fs::exists(dir("mine")).await.unwrap(), "what somebody put there stays");
    });
}

/// The partitions of an open snapshot between two bounds, each with its rows.
async fn read_all(snapshot: &OpenSnapshot, scope: &PartitionScope) -> Vec<(Vec<u8>, usize)> {
    let mut source = snapshot.source(scope, Slice::full());
    let (mut found, mut batch) = (Vec::<(Vec<u8>, usize)>::new(), Vec::new());
    loop {
        source.fill(Budget::BATCH, &mut batch).await.unwrap();
        if batch.is_empty() {
            return found;
        }
        for fragment in batch.drain(..) {
            match fragment {
                Fragment::PartitionStart { key, .. } => found.push((key.key.to_vec(), 0)),
                Fragment::Row { .. } => found.last_mut().expect("within a partition").1 += 1,
                _ => {}
            }
        }
    }
}

/// *whole-or-refused*, *as-the-reader*
#[test]
fn a_snapshot_is_read_where_it_lies_when_its_table_is_gone() {
    for shards in [1, 3] {
        let mut node = SimNode::new(6, shards);
        with_shards(&mut node, shards, |storage| async move {
            write_all(1).await;
            on_all(async |storage, id| storage.flush(id).await.unwrap()).await;
            write_all(2).await;
            storage.take_snapshot(vec![table().id], order("taken")).await.unwrap();
            write_all(3).await;
            on_all_shards(|| async {
                local::get::<Storage>().drop_table(table().id, None).await.unwrap();
            })
            .await;
            storage.complete_dropped(&table(), None, None).await.unwrap();

            let tag = SnapshotTag::new("taken").unwrap();
            let (keyspace, name) = ("ks".to_owned(), "t1".to_owned());
            let place = SnapshotPlace { keyspace, table: name, table_id: table().id, tag };
            // As a table of another name and id.
            let reader = Rc::new(schema(9, "t9"));
            let opened = storage.open_snapshot(&place, reader.clone()).await.unwrap();
            let opened = opened.expect("it is there");
            let bound = |token, after| RingBound { token, key: None, after };
            let scope = |from, to| {
                let (start, end) = (bound(from, false), bound(to, true));
                PartitionScope::Range { start, end }
            };
            let all = read_all(&opened, &scope(Token::MIN, Token::MAX)).await;
            assert_eq!(all.len(), PARTITIONS as usize);
            assert!(all.iter().all(|(_, rows)| *rows == 2), "{all:?}");
            // Every partition is in one of two halves of the ring.
            let mut halves = read_all(&opened, &scope(Token::MIN, Token(-1))).await;
            halves.extend(read_all(&opened, &scope(Token(0), Token::MAX)).await);
            assert_eq!(halves, all);
            let one = PartitionScope::Key(DecoratedKey::new(Bytes::copy_from(&all[3].0)));
            assert_eq!(read_all(&opened, &one).await, all[3..4]);

            let other = SnapshotPlace { table_id: schema(2, "t2").id, ..place.clone() };
            assert!(storage.open_snapshot(&other, reader.clone()).await.unwrap().is_none());
            fs::remove_file(dir("snapshots/taken/manifest.json")).await.unwrap();
            let unfinished = storage.open_snapshot(&place, reader).await.unwrap();
            assert!(unfinished.is_none(), "whole-or-refused");
        });
    }
}

#[test]
fn the_directory_of_a_table_stays_without_snapshots() {
    let mut node = SimNode::new(6, 1);
    with_shards(&mut node, 1, |storage| async move {
        let left_out = SnapshotOrder { memtables: Memtables::LeftOut, ..order("empty") };
        storage.take_snapshot(vec![table().id], left_out).await.unwrap();
        assert_eq!(storage.clear_snapshots(of_tag("empty")).await, Ok(1));
        assert!(fs::exists(dir("")).await.unwrap());
        write_all(1).await;
        storage.flush(table().id).await.unwrap();
        assert_eq!(count().await, PARTITIONS as usize);
    });
}

#[test]
fn after_a_crash_a_snapshot_with_a_manifest_is_whole() {
    let (mut whole, mut unfinished) = (0, 0);
    for seed in 0..40 {
        let mut node = SimNode::new(seed, 1);
        let begun = std::rc::Rc::new(std::cell::Cell::new(false));
        let told = begun.clone();
        node.start(move |_| {
            let told = told.clone();
            async move {
                let storage = open(config()).await;
                storage.replay(Log::Data).await.unwrap();
                for row in 0..3 {
                    write_all(row).await;
                    storage.flush(table().id).await.unwrap();
                }
                told.set(true);
                storage.take_snapshot(vec![table().id], order("one")).await.unwrap();
                std::future::pending::<()>().await;
            }
        });
        assert!(node.run_until(|| begun.get(), Duration::from_secs(600)));
        node.run_for(Duration::from_micros(100 * seed * seed));
        node.crash();
        let found = node.run(async move {
            let storage = open(config()).await;
            let listed = storage.snapshots().await.unwrap();
            let created = listed.first().map(|one| one.created_secs.is_some());
            (created, data_files("one").await.len())
        });
        match found {
            (Some(true), files) => {
                assert_eq!(files, 3, "seed {seed}");
                whole += 1;
            }
            _ => unfinished += 1,
        }
    }
    assert!(0 < whole && 0 < unfinished, "{whole} whole, {unfinished} unfinished");
}

#[test]
fn tags_are_names_of_directories() {
    for text in ["", ".", "..", "a/b", "a\0", &"x".repeat(256)] {
        assert!(SnapshotTag::new(text).is_err(), "{text}");
    }
    for text in ["a", "...", "1763800000-t", "a b"] {
        assert_eq!(SnapshotTag::new(text).unwrap().as_str(), text);
    }
}
