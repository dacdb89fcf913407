//! What a clear asks of the disk, who may end it, and what it leaves as it was.

use super::*;
use crate::{Cleared, CompactionKind, Pace, StorageError};
use model::Token;
use reader::ReadError;
use runtime::io::{IoClass, stats};
use runtime::task::join;
use runtime::time::{sleep, timeout};
use std::collections::BTreeSet;
use testkit::SimNode;

const PARTITIONS: u64 = 200;
/// A little more than half a megabyte in each SSTable.
const VALUE: [u8; 3000] = [7; 3000];

fn config() -> Config {
    let (memtable_bytes_max, commitlog_bytes_max) = (16 << 20, 16 << 20);
    Config { memtable_bytes_max, commitlog_bytes_max, ..super::config() }
}

fn storage() -> Rc<Storage> {
    runtime::local::get::<Storage>()
}

/// Not compressed, and nothing of it is merged.
fn plain(options: &[(&str, &str)]) -> TableSchema {
    let mut schema = schema(1, "t1");
    schema.options.compression = vec![("sstable_compression".to_string(), String::new())];
    let pairs = options.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    schema.options.compaction = pairs.collect();
    schema
}

async fn open_plain(options: &[(&str, &str)]) {
    let storage = Storage::open(config()).await.unwrap();
    let map = TabletMap::static_map(runtime::shard_count());
    storage.add_table(Rc::new(plain(options)), map, Log::Data).await.unwrap();
    storage.set_auto_compaction(plain(&[]).id, false);
    storage.replay(Log::Data).await.unwrap();
}

/// Four SSTables of one size, with all partitions in each.
async fn fill() {
    for row in 0..4 {
        for partition in 0..PARTITIONS {
            storage().apply(write(&plain(&[]), partition, row, 1, &VALUE)).await.unwrap();
        }
        storage().flush(plain(&[]).id).await.unwrap();
    }
}

fn sstables() -> Vec<Rc<sstable::Table>> {
    storage().shard().table(plain(&[]).id).unwrap().sstables()
}

fn names() -> BTreeSet<String> {
    sstables().iter().map(|one| format!("{:?}", one.descriptor())).collect()
}

fn is_low(partition: u64) -> bool {
    Token::of(&key(partition)) <= Token(0)
}

/// The lower half of the ring.
fn low() -> Vec<(Token, Token)> {
    vec![(Token::MIN, Token(0))]
}

async fn clear_low() -> Result<Cleared, StorageError> {
    storage().clear(plain(&[]).id, low()).await
}

/// Whether the upper half is all there, and how many rows of the lower one.
async fn check_high() -> usize {
    let mut count = 0;
    for partition in 0..PARTITIONS {
        let found = rows(&storage(), &plain(&[]), partition).await.len();
        match is_low(partition) {
            true => count += found,
            false => assert_eq!(found, 4, "{partition}"),
        }
    }
    count
}

fn all_low() -> usize {
    (0..PARTITIONS).filter(|one| is_low(*one)).count() * 4
}

/// Bytes that clears have read and written, and flushes written.
fn asked() -> u64 {
    let of = |class| {
        let stats = stats(class);
        stats.read_bytes + stats.write_bytes
    };
    of(IoClass::Maintenance) + of(IoClass::Flush)
}

/// Bytes on the disk.
fn used(node: &mut SimNode) -> u64 {
    let files = node.disk().files();
    let len = |path: &String| node.disk().read(path).map_or(0, |bytes| bytes.len() as u64);
    files.iter().map(len).sum()
}

#[test]
fn what_is_cleared_frees_its_room_and_nothing_costs_nothing() {
    let mut node = SimNode::new(21, 1);
    node.run(async {
        open_plain(&[]).await;
        fill().await;
        let before = sstables().iter().map(|one| one.disk_bytes()).sum::<u64>();
        let cleared = clear_low().await.unwrap();
        assert_eq!((cleared.removed, cleared.rewritten, cleared.bytes_before), (0, 4, before));
        let after = sstables().iter().map(|one| one.disk_bytes()).sum::<u64>();
        assert_eq!(cleared.bytes_after, after);
        assert!((before / 3..before * 2 / 3).contains(&after), "{after} of {before}");
        assert_eq!(check_high().await, 0);
        let done = storage().take_finished_compactions();
        let [done] = &done[..] else { panic!("one job: {done:?}") };
        assert_eq!((done.job.kind, done.inputs.len(), done.outputs.len()), ("Cleanup", 4, 4));
        assert_eq!((done.job.bytes_in, done.bytes_out), (before, after));
    });
    let record = "/n/data/ks/t1-00000000000000000000000000000001/truncated-0";
    let written = node.disk().read(record).unwrap();
    node.run(async {
        // In memory there is something, outside.
        let high = (0..PARTITIONS).find(|one| !is_low(*one)).unwrap();
        storage().apply(write(&plain(&[]), high, 1, 2, b"new")).await.unwrap();
        let (names_before, asked_before) = (names(), asked());
        assert_eq!(clear_low().await.unwrap(), Cleared::default());
        assert_eq!(storage().clear(plain(&[]).id, Vec::new()).await.unwrap(), Cleared::default());
        assert_eq!((names(), asked()), (names_before, asked_before));
        assert_eq!(storage().table_stats(plain(&[]).id).unwrap().memtable_partitions, 1);
    });
    assert_eq!(node.disk().read(record).unwrap(), written);
    node.run(async {
        let whole = vec![(Token::MIN, Token::MAX)];
        let asked_before = stats(IoClass::Maintenance).write_bytes;
        let cleared = storage().clear(plain(&[]).id, whole).await.unwrap();
        // With what was in memory.
        assert_eq!((cleared.removed, cleared.rewritten, cleared.bytes_after), (5, 0, 0));
        assert_eq!(stats(IoClass::Maintenance).write_bytes, asked_before);
        assert!(sstables().is_empty());
    });
}

#[test]
fn what_is_written_again_keeps_level_and_run() {
    SimNode::new(22, 1).run(async {
        let leveled = [("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1")];
        open_plain(&leveled).await;
        fill().await;
        storage().compact_all(plain(&[]).id, Default::default()).await.unwrap();
        let facts = || -> Vec<_> {
            let of = |one: &Rc<sstable::Table>| (one.stats().level, one.scylla().run_id);
            sstables().iter().map(of).collect()
        };
        let before = facts();
        assert!(1 < before.len() && before.iter().all(|(level, _)| 0 < *level), "{before:?}");
        let cleared = clear_low().await.unwrap();
        assert!(0 < cleared.removed && cleared.rewritten == 1, "{cleared:?}");
        let after = facts();
        assert!(after.len() == before.len() - cleared.removed as usize);
        assert!(after.iter().all(|one| before.contains(one)), "{after:?} of {before:?}");
        assert_eq!(check_high().await, 0);
    });
}

#[test]
fn a_clear_that_is_stopped_leaves_what_there_was() {
    let mut node = SimNode::new(23, 1);
    node.run(async {
        open_plain(&[]).await;
        fill().await;
        storage().set_compaction_pace(Pace { bytes_per_second: 256 << 10, ..Pace::default() });
    });
    let files = node.disk().files();
    node.run(async {
        let before = names();
        let stop = async {
            sleep(Duration::from_secs(2)).await;
            storage().stop_compactions(CompactionKind::Major, None);
            sleep(Duration::from_secs(1)).await;
            let running = storage().running_compactions();
            assert!(running.len() == 1 && 100_000 < running[0].done_millionths, "{running:?}");
            storage().stop_compactions(CompactionKind::Cleanup, None);
        };
        let (cleared, ()) = join(clear_low(), stop).await;
        let Err(StorageError::Work(ReadError::Stopped)) = cleared else { panic!("{cleared:?}") };
        assert_eq!((names(), check_high().await), (before, all_low()));
        assert_eq!(storage().compaction_stats().failed, 0);
    });
    // Beside the record: all is in SSTables, so the log is not needed.
    let beside = |files: Vec<String>| -> Vec<String> {
        files.into_iter().filter(|path| path.contains("-big-")).collect()
    };
    assert_eq!(beside(node.disk().files()), beside(files));
    node.crash();
    node.run(async {
        open_plain(&[]).await;
        assert_eq!(check_high().await, all_low());
        clear_low().await.unwrap();
        assert_eq!(check_high().await, 0);
    });
}

#[test]
fn a_clear_gives_way_to_a_truncation() {
    SimNode::new(24, 1).run(async {
        open_plain(&[]).await;
        fill().await;
        storage().set_compaction_pace(Pace { bytes_per_second: 1, ..Pace::default() });
        let truncate = async {
            sleep(Duration::from_secs(100)).await;
            assert_eq!(storage().running_compactions().len(), 1);
            let storage = storage();
            let truncated = storage.truncate(plain(&[]).id, 5);
            timeout(Duration::from_secs(5), truncated).await.unwrap().unwrap();
        };
        let (cleared, ()) = join(clear_low(), truncate).await;
        assert_eq!(cleared.unwrap(), Cleared::default());
        assert!(sstables().is_empty());
    });
}

#[test]
fn where_a_disk_is_nearly_full_sstables_go_one_by_one() {
    let mut node = SimNode::new(25, 1);
    node.run(async {
        open_plain(&[]).await;
        fill().await;
        // What the log takes goes first.
        storage().close_log_segments();
        sleep(Duration::from_secs(60)).await;
    });
    // Room for one, beside a reserve, and not for four.
    let capacity = used(&mut node) + (2 << 20);
    node.disk().set_capacity(Some(capacity));
    node.run(async {
        // Until the shard has seen it.
        sleep(Duration::from_secs(60)).await;
        let cleared = clear_low().await.unwrap();
        assert_eq!((cleared.removed, cleared.rewritten), (0, 4));
        assert_eq!(storage().take_finished_compactions().len(), 4);
        assert_eq!(check_high().await, 0);
    });
    assert!(used(&mut node) < capacity - (1 << 20));
}

#[test]
fn a_clear_on_a_full_disk_is_refused_and_loses_nothing() {
    let mut node = SimNode::new(26, 1);
    node.run(async {
        open_plain(&[]).await;
        fill().await;
        storage().take_finished_compactions();
    });
    let capacity = used(&mut node) + (64 << 10);
    node.disk().set_capacity(Some(capacity));
    node.run(async {
        let before = names();
        let Err(StorageError::Work(ReadError::Overloaded(why))) = clear_low().await else {
            panic!("it is not refused")
        };
        assert!(why.starts_with("no room on the disk: ks.t1 needs"), "{why}");
        assert_eq!((names(), check_high().await), (before, all_low()));
        // What need not be written goes.
        let whole = vec![(Token::MIN, Token::MAX)];
        storage().clear(plain(&[]).id, whole).await.unwrap();
        assert!(sstables().is_empty());
    });
}

#[test]
fn a_clear_on_a_disk_that_others_fill_leaves_nothing_behind() {
    let mut node = SimNode::new(27, 1);
    node.run(async {
        open_plain(&[]).await;
        fill().await;
        storage().set_compaction_pace(Pace { bytes_per_second: 256 << 10, ..Pace::default() });
        let cleared = timeout(Duration::from_secs(3), clear_low()).await;
        assert!(cleared.is_err(), "{cleared:?}");
    });
    // Who asked has left; it goes on, and now somebody else has filled the disk.
    let capacity = used(&mut node);
    node.disk().set_capacity(Some(capacity));
    node.run(async {
        storage().set_compaction_pace(Pace { bytes_per_second: 0, ..Pace::default() });
        sleep(Duration::from_secs(5)).await;
        let stats = storage().compaction_stats();
        assert_eq!((stats.running, stats.finished, stats.failed), (0, 0, 1));
        assert_eq!((names().len(), check_high().await), (4, all_low()));
    });
    let data = node.disk().files().iter().filter(|path| path.ends_with("-Data.db")).count();
    assert_eq!(data, 4);
    node.disk().set_capacity(None);
    node.run(async {
        clear_low().await.unwrap();
        assert_eq!(check_high().await, 0);
    });
}

#[test]
fn a_clear_before_the_replay_is_refused() {
    SimNode::new(28, 1).run(async {
        let storage = Storage::open(config()).await.unwrap();
        let map = TabletMap::static_map(1);
        storage.add_table(Rc::new(plain(&[])), map, Log::Data).await.unwrap();
        let Err(StorageError::Shard(why)) = clear_low().await else { panic!("it is done") };
        assert!(why.contains("replay"), "{why}");
        let unknown = storage.clear(Uuid::from_u128(99), low()).await;
        assert!(matches!(unknown, Err(StorageError::UnknownTable(_))), "{unknown:?}");
    });
}
