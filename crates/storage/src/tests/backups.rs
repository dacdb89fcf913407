//! Incremental backups: what is linked and what is not, whole after crashes and errors, and enough
//! to put back all that was written.

use super::snapshot::{PARTITIONS, dir, table, write_all};
use super::upload::{with_shards, write_foreign};
use super::*;
use crate::bulk::Rewrite;
use crate::{Checks, Memtables, SnapshotFilter, SnapshotOrder, SnapshotTag};
use runtime::io::fs;
use runtime::{local, on_all_shards};
use sstable::store::name::{Parsed, parse_file_name};
use sstable::store::toc::Toc;
use sstable::{Component, Descriptor};
use std::cell::Cell as StdCell;
use std::path::Path;
use testkit::SimNode;

/// The files of SSTables in a directory, with what is in them.
type Files = BTreeMap<String, Vec<u8>>;

async fn files(tail: &str) -> Files {
    let mut files = Files::new();
    for entry in fs::list_dir(dir(tail)).await.unwrap_or_default() {
        if matches!(parse_file_name(&entry.name), Parsed::Known(..)) {
            let content = fs::read_file(dir(tail).join(&entry.name)).await.unwrap();
            files.insert(entry.name, content);
        }
    }
    files
}

/// Those of `all` that are not in `old`.
fn new_in(all: &Files, old: &Files) -> Files {
    let new = all.iter().filter(|(name, _)| !old.contains_key(*name));
    new.map(|(name, content)| (name.clone(), content.clone())).collect()
}

async fn set_wanted(wanted: bool) {
    on_all_shards(move || async move {
        let storage = local::get::<Storage>();
        storage.set_incremental_backups(wanted);
        assert_eq!(storage.incremental_backups(), wanted);
    })
    .await;
}

/// Writes a row of each partition, on the shard that has it, and flushes.
async fn flush_row(row: u32) {
    write_all(row).await;
    on_all_shards(|| async { local::get::<Storage>().flush(table().id).await.unwrap() }).await;
}

async fn merge_all() {
    on_all_shards(|| async {
        local::get::<Storage>().compact_all(table().id, Rewrite::default()).await.unwrap();
    })
    .await;
}

#[test]
fn what_is_flushed_is_linked_while_that_is_wanted_and_stays() {
    for shards in [1, 3] {
        let mut node = SimNode::new(1, shards);
        let kept = Rc::new(std::cell::RefCell::new(Files::new()));
        let keep = kept.clone();
        with_shards(&mut node, shards, move |_| {
            let keep = keep.clone();
            async move {
                flush_row(1).await;
                let before = files("").await;
                assert!(!before.is_empty() && !fs::exists(dir("backups")).await.unwrap());
                set_wanted(true).await;
                flush_row(2).await;
                let new = new_in(&files("").await, &before);
                assert!(new.keys().any(|name| name.ends_with("-TOC.txt")));
                assert_eq!(files("backups").await, new);

                set_wanted(false).await;
                flush_row(3).await;
                assert_eq!(files("backups").await, new);

                set_wanted(true).await;
                merge_all().await;
                let merged = files("").await;
                assert!(new.keys().all(|name| !merged.contains_key(name)), "all are merged");
                assert_eq!(files("backups").await, new, "merges link nothing");
                // Somebody takes them away, with the directory.
                fs::remove_dir_all(dir("backups")).await.unwrap();
                flush_row(4).await;
                let newer = new_in(&files("").await, &merged);
                assert!(!newer.is_empty());
                assert_eq!(files("backups").await, newer);
                *keep.borrow_mut() = newer;
            }
        });
        with_shards(&mut node, shards, move |_| {
            let kept = kept.clone();
            async move {
                assert_eq!(files("backups").await, *kept.borrow(), "a start leaves them alone");
                let bytes = on_all_shards(|| async {
                    let storage = local::get::<Storage>();
                    storage.table_stats(table().id).unwrap().sstable_bytes
                });
                let counted = ["-Data.db", "-Index.db"];
                let own = files("").await.into_iter();
                let own = own.filter(|(name, _)| counted.iter().any(|end| name.ends_with(end)));
                let own: u64 = own.map(|(_, content)| content.len() as u64).sum();
                assert_eq!(bytes.await.into_iter().sum::<u64>(), own);
            }
        });
    }
}

#[test]
fn what_is_taken_over_is_linked_as_it_is_in_the_table() {
    let mut node = SimNode::new(2, 1);
    with_shards(&mut node, 1, |storage| async move {
        write_foreign(&table(), 5, 0, 2).await;
        storage.load_new(table().id, Checks::Verify).await.unwrap();
        let before = files("").await;
        set_wanted(true).await;
        write_foreign(&table(), 7, 1, 2).await;
        let loaded = storage.load_new(table().id, Checks::Verify).await.unwrap();
        assert_eq!(loaded.loaded.len(), 1);
        let new = new_in(&files("").await, &before);
        assert!(new.contains_key(&loaded.loaded[0].to));
        assert_eq!(files("backups").await, new);
    });
}

/// The SSTables in `backups/` that have a TOC, each checked to be whole, and how many sets of
/// files have none.
fn on_disk(node: &mut SimNode) -> (Vec<Descriptor>, usize) {
    let disk = node.disk();
    let (mut whole, mut all) = (Vec::new(), std::collections::BTreeSet::new());
    for path in disk.files().into_iter().filter(|path| path.contains("/backups/")) {
        let path = Path::new(&path);
        let (dir, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        let Parsed::Known(descriptor, suffix) = parse_file_name(name) else {
            panic!("{name} is of no SSTable")
        };
        assert_ne!(suffix, Component::TemporaryToc.suffix(), "{name}");
        all.insert(descriptor);
        if suffix == Component::Toc.suffix() {
            let toc = Toc::parse(&disk.read(path).unwrap()).unwrap();
            for suffix in toc.suffixes() {
                let file = dir.join(descriptor.file_name_of(suffix));
                assert!(disk.read(&file).is_some(), "no {}", file.display());
            }
            whole.push(descriptor);
        }
    }
    let cut = all.len() - whole.len();
    (whole, cut)
}

/// How many SSTables of the table, of which none was merged, are in `backups/` and how many are
/// not; and how many sets of files there have no TOC.
fn linked_unlinked_and_cut(node: &mut SimNode) -> (usize, usize, usize) {
    let (whole, cut) = on_disk(node);
    let own = node.disk().files().into_iter().filter(|path| !path.contains("/backups/"));
    let own = own.filter(|path| path.contains("/t1-") && path.ends_with("-TOC.txt"));
    let is_linked = |path: &String| {
        whole.iter().any(|one| path.ends_with(&format!("/{}", one.file_name(Component::Toc))))
    };
    let (linked, unlinked): (Vec<_>, Vec<_>) = own.partition(is_linked);
    assert_eq!(linked.len(), whole.len(), "only what is sealed is linked");
    (linked.len(), unlinked.len(), cut)
}

#[test]
fn after_a_crash_backups_hold_all_that_was_flushed_and_nothing_by_halves() {
    let (mut cut_off, mut unlinked) = (0, 0);
    for seed in 0..60u64 {
        let mut node = SimNode::new(seed, 1);
        let acked = Rc::new(StdCell::new(0));
        let told = acked.clone();
        node.start(move |_| {
            let told = told.clone();
            async move {
                let storage = open(Config { incremental_backups: true, ..config() }).await;
                storage.replay(Log::Data).await.unwrap();
                storage.set_auto_compaction(table().id, false);
                for row in 0u32.. {
                    let partition = u64::from(row) % PARTITIONS;
                    storage.apply(write(&table(), partition, row, 5, b"there")).await.unwrap();
                    told.set(row + 1);
                    // So that the log lets go of it when it may.
                    storage.close_log_segments();
                    storage.flush(table().id).await.unwrap();
                }
            }
        });
        assert!(node.run_until(|| 2 <= acked.get(), Duration::from_secs(600)));
        node.run_for(Duration::from_micros(311 * seed));
        node.crash();
        // What is sealed and not linked yet is in the log.
        let (_, sealed, cut) = linked_unlinked_and_cut(&mut node);
        (cut_off, unlinked) = (cut_off + cut, unlinked + sealed);
        let acked = acked.get();
        node.run(async move {
            let storage = open(Config { incremental_backups: true, ..config() }).await;
            storage.replay(Log::Data).await.unwrap();
            storage.flush(table().id).await.unwrap();
            storage.set_incremental_backups(false);
            // From here on nothing is left but backups.
            storage.truncate(table().id, 9).await.unwrap();
            fs::create_dir_all(dir("upload")).await.unwrap();
            let backups = files("backups").await;
            for name in backups.keys() {
                let Parsed::Known(one, _) = parse_file_name(name) else { panic!("{name}") };
                if backups.contains_key(&one.file_name(Component::Toc)) {
                    let (from, to) = (dir("backups").join(name), dir("upload").join(name));
                    fs::hard_link(from, to).await.unwrap();
                }
            }
            let loaded = storage.load_new(table().id, Checks::Verify).await.unwrap();
            assert_eq!(loaded.refused, []);
            let mut found = std::collections::BTreeSet::new();
            for partition in 0..PARTITIONS {
                found.extend(rows(&storage, &table(), partition).await.into_keys());
            }
            let lost: Vec<u32> = (0..acked).filter(|row| !found.contains(row)).collect();
            assert!(lost.is_empty(), "seed {seed}: {lost:?} of {acked} are in no backup");
        });
    }
    assert!(0 < cut_off && 0 < unlinked, "{cut_off} cut off, {unlinked} not linked yet");
}

#[test]
fn what_cannot_be_linked_is_in_use_without() {
    let mut node = SimNode::new(3, 1);
    with_shards(&mut node, 1, |storage| async move {
        set_wanted(true).await;
        flush_row(1).await;
        fs::remove_dir_all(dir("backups")).await.unwrap();
        fs::write_file_atomic(dir("backups"), b"in the way").await.unwrap();
        let before = files("").await;
        flush_row(2).await;
        assert_ne!(files("").await, before);
        assert_eq!(rows(&storage, &table(), 3).await.len(), 2);
        let stats = storage.table_stats(table().id).unwrap();
        assert_eq!((stats.memtable_bytes, stats.sstables), (0, 2));

        fs::remove_file(dir("backups")).await.unwrap();
        let before = files("").await;
        flush_row(3).await;
        let new = new_in(&files("").await, &before);
        assert_eq!(files("backups").await, new);
        // A name that is taken already: what was linked before it goes.
        let data = new.keys().find(|name| name.ends_with("-Data.db")).unwrap();
        let Parsed::Known(one, _) = parse_file_name(data) else { panic!("{data}") };
        fs::remove_file(dir("backups").join(data)).await.unwrap();
        let left = files("backups").await;
        let suffixes = [Component::Toc, Component::Data].map(Component::suffix);
        sstable::store::link(&dir(""), "backups", one, suffixes).await.unwrap_err();
        assert_eq!(files("backups").await, left);
    });
}

#[test]
fn a_failing_disk_leaves_nothing_by_halves_with_a_toc() {
    let (mut linked, mut unlinked) = (0, 0);
    for seed in 0..8 {
        let mut node = SimNode::new(seed, 1);
        node.run(async {
            let storage = open(Config { incremental_backups: true, ..config() }).await;
            storage.replay(Log::Data).await.unwrap();
            storage.set_auto_compaction(table().id, false);
        });
        node.disk().set_error_rate(40);
        node.run(async {
            let storage = local::get::<Storage>();
            for row in 0..30 {
                // What is refused is tried again in the background.
                let _ = storage.apply(write(&table(), 1, row, 5, b"there")).await;
                let _ = storage.flush(table().id).await;
            }
        });
        node.crash();
        let (with, without, _) = linked_unlinked_and_cut(&mut node);
        (linked, unlinked) = (linked + with, unlinked + without);
    }
    assert!(0 < linked && 0 < unlinked, "{linked} are linked, {unlinked} are not");
}

#[test]
fn a_dropped_table_leaves_its_backups() {
    #[derive(Clone, Copy, PartialEq)]
    enum Left {
        Backups,
        BackupsAndSnapshot,
        SnapshotAlone,
        Nothing,
    }
    for left in [Left::Backups, Left::BackupsAndSnapshot, Left::SnapshotAlone, Left::Nothing] {
        let mut node = SimNode::new(4, 2);
        with_shards(&mut node, 2, move |storage| async move {
            set_wanted(true).await;
            flush_row(1).await;
            let backups = files("backups").await;
            let snapshot = matches!(left, Left::BackupsAndSnapshot | Left::SnapshotAlone);
            if snapshot {
                let tag = SnapshotTag::new("taken").unwrap();
                let order = SnapshotOrder { tag, memtables: Memtables::Flushed, ttl: None };
                storage.take_snapshot(vec![table().id], order).await.unwrap();
            }
            let taken_away = matches!(left, Left::SnapshotAlone | Left::Nothing);
            if taken_away {
                for name in backups.keys() {
                    fs::remove_file(dir("backups").join(name)).await.unwrap();
                }
            }
            on_all_shards(|| async {
                local::get::<Storage>().drop_table(table().id, None).await.unwrap();
            })
            .await;
            storage.complete_dropped(&table(), None, None).await.unwrap();
            let names = async || {
                let entries = fs::list_dir(dir("")).await.unwrap_or_default();
                entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
            };
            let expected: &[&str] = match left {
                Left::Backups => &["backups"],
                Left::BackupsAndSnapshot => &["backups", "snapshots"],
                Left::SnapshotAlone => &["snapshots"],
                Left::Nothing => &[],
            };
            assert_eq!(names().await, expected);
            assert_eq!(fs::exists(dir("")).await.unwrap(), left != Left::Nothing);
            let cleared = storage.clear_snapshots(SnapshotFilter::default()).await;
            assert_eq!(cleared, Ok(usize::from(snapshot)));
            assert_eq!(fs::exists(dir("")).await.unwrap(), !taken_away);
            if !taken_away {
                assert_eq!(names().await, ["backups"]);
                assert_eq!(files("backups").await, backups);
            }
        });
    }
}
