//! How fast merges go, and what they do when the disk has no room for them.

use super::*;
use crate::{CompactionKind, Invalid, Pace, ScrubMode, Upkeep};
use reader::ReadError;
use runtime::group;
use runtime::io::{IoClass, stats};
use runtime::on_all_shards;
use runtime::time::{Instant, sleep, timeout, wall_micros};
use testkit::SimNode;

const PARTITIONS: u64 = 200;
/// A little more than half a megabyte in each SSTable.
const VALUE: [u8; 3000] = [7; 3000];

fn config() -> Config {
    let (memtable_bytes_max, commitlog_bytes_max) = (16 << 20, 16 << 20);
    Config { memtable_bytes_max, commitlog_bytes_max, memory_bytes: 1 << 20, ..super::config() }
}

fn storage() -> Rc<Storage> {
    runtime::local::get::<Storage>()
}

fn plain(id: u128) -> TableSchema {
    let mut schema = schema(id, &format!("t{id}"));
    schema.options.compression = vec![("sstable_compression".to_string(), String::new())];
    schema
}

/// Opens tables 1 and 2, not compressed, nothing of which is merged.
async fn open() {
    let storage = Storage::open(config()).await.unwrap();
    for id in [1, 2] {
        let map = TabletMap::static_map(runtime::shard_count());
        storage.add_table(Rc::new(plain(id)), map, Log::Data).await.unwrap();
        storage.set_auto_compaction(plain(id).id, false);
    }
    storage.replay(Log::Data).await.unwrap();
}

/// Four SSTables of one size.
async fn fill(schema: &TableSchema, partitions: u64) {
    for row in 0..4 {
        for partition in 0..partitions {
            storage().apply(write(schema, partition, row, 1, &VALUE)).await.unwrap();
        }
        storage().flush(schema.id).await.unwrap();
    }
    assert_eq!(sstables(schema), 4);
}

fn sstables(schema: &TableSchema) -> u64 {
    storage().table_stats(schema.id).unwrap().sstables
}

async fn check_rows(schema: &TableSchema, partitions: u64) {
    for partition in 0..partitions {
        assert_eq!(rows(&storage(), schema, partition).await.len(), 4, "{partition}");
    }
}

async fn secs(secs: u64) {
    sleep(Duration::from_secs(secs)).await;
}

fn limit(bytes_per_second: u64) {
    storage().set_compaction_pace(Pace { bytes_per_second, ..Pace::default() });
}

fn asked() -> u64 {
    let stats = stats(IoClass::Compaction);
    stats.read_bytes + stats.write_bytes
}

/// Bytes on the disk.
fn used(node: &mut SimNode) -> u64 {
    let files = node.disk().files();
    let len = |path: &String| node.disk().read(path).map_or(0, |bytes| bytes.len() as u64);
    files.iter().map(len).sum()
}

#[test]
fn merges_keep_the_limit_of_bytes_a_second() {
    const PER_SECOND: u64 = 256 << 10;
    let run = || {
        SimNode::new(11, 1).run(async {
            open().await;
            fill(&plain(1), PARTITIONS).await;
            limit(PER_SECOND);
            let (begun, before) = (Instant::now(), asked());
            storage().set_auto_compaction(plain(1).id, true);
            while 1 < sstables(&plain(1)) {
                sleep(Duration::from_millis(10)).await;
                // A batch may take what its reads and writes take at once.
                let allowed = (begun.elapsed().as_secs_f64() + 0.25) * PER_SECOND as f64;
                assert!(asked() - before <= allowed as u64 + (2 << 20), "{}", asked() - before);
            }
            (begun.elapsed(), asked() - before)
        })
    };
    let (elapsed, bytes) = run();
    assert!(4 << 20 < bytes, "{bytes}");
    let least = (bytes - (2 << 20)) as f64 / PER_SECOND as f64;
    assert!(least <= elapsed.as_secs_f64(), "{bytes} in {elapsed:?}");
    assert!(elapsed.as_secs_f64() <= bytes as f64 / PER_SECOND as f64 + 2.0, "{elapsed:?}");
    assert_eq!(run(), (elapsed, bytes));
}

#[test]
fn the_end_of_a_merge_is_foretold() {
    SimNode::new(11, 1).run(async {
        open().await;
        fill(&plain(1), PARTITIONS).await;
        storage().take_finished_compactions();
        limit(256 << 10);
        storage().set_auto_compaction(plain(1).id, true);
        let mut told = Vec::new();
        while 1 < sstables(&plain(1)) {
            sleep(Duration::from_millis(100)).await;
            told.extend(
                storage().running_compactions().into_iter().map(|job| (wall_micros(), job)),
            );
        }
        // All inputs have all partitions: a quarter of their number comes out.
        let done = storage().take_finished_compactions();
        let [done] = &done[..] else { panic!("one merge: {done:?}") };
        assert_eq!((done.job.partitions, done.job.partitions_done), (800, 200));
        assert_eq!(done.job.done_millionths, 1_000_000);
        let took = done.ended_micros - done.job.started_micros;
        assert!(told.is_sorted_by_key(|(_, job)| job.done_millionths) && 50 < told.len());
        // As much of it is done as of the time has gone by, but for a batch and what is read ahead.
        for (now, job) in told.iter().filter(|(_, job)| 0 < job.done_millionths) {
            let left = job.remaining(*now).unwrap().as_micros() as i64;
            let part = f64::from(job.done_millionths) / 1e6;
            let wrong = (now + left - done.ended_micros).abs() as f64 * part;
            assert!(wrong < took as f64 * 0.4, "{wrong} of {took} at {part}");
        }
        assert!(told.last().is_some_and(|(_, job)| 500_000 < job.done_millionths));
        storage().stop().await.unwrap();
    });
}

#[test]
fn scrubs_and_validations_keep_it_as_well_and_end_when_asked_to() {
    const PER_SECOND: u64 = 64 << 10;
    let maintenance = || {
        let stats = stats(IoClass::Maintenance);
        stats.read_bytes + stats.write_bytes
    };
    SimNode::new(11, 1).run(async move {
        open().await;
        let schema = plain(1);
        fill(&schema, PARTITIONS).await;
        let (files, data) = (sstables(&schema), storage().table_stats(schema.id).unwrap());
        limit(PER_SECOND);
        for what in [Upkeep::Validate(Invalid::Kept), Upkeep::Scrub(ScrubMode::Abort)] {
            let (begun, before) = (Instant::now(), maintenance());
            let done = storage().keep_up(schema.id, what).await.unwrap();
            assert_eq!((done.sstables, done.invalid.len()), (files, 0), "{what:?}");
            let (took, bytes) = (begun.elapsed().as_secs_f64(), maintenance() - before);
            // The last steps of each SSTable are not waited for.
            let least = bytes.saturating_sub(files * (256 << 10)) as f64 / PER_SECOND as f64;
            assert!(5.0 < least && least <= took, "{what:?}: {bytes} in {took}, {data:?}");
        }
        limit(1);
        let all = storage();
        let scrub = all.keep_up(schema.id, Upkeep::Scrub(ScrubMode::Abort));
        let stop = async {
            secs(100).await;
            let running = storage().running_compactions();
            let [job] = &running[..] else { panic!("one scrub: {running:?}") };
            assert!((1..1_000_000).contains(&job.done_millionths), "{job:?}");
            assert!(job.remaining(wall_micros()).is_some_and(|left| !left.is_zero()));
            storage().stop_compactions(CompactionKind::Scrub, None);
        };
        let (ended, ()) = runtime::task::join(scrub, stop).await;
        assert!(ended.unwrap_err().to_string().contains("stopped"));
        assert_eq!(sstables(&schema), files);
        check_rows(&schema, PARTITIONS).await;
        // Who wants the table to be quiet waits for the SSTable at hand, and not for the limit.
        let all = storage();
        let scrub = all.keep_up(schema.id, Upkeep::Scrub(ScrubMode::Abort));
        let truncate = async {
            secs(100).await;
            timeout(Duration::from_secs(5), storage().truncate(schema.id, 5)).await.unwrap()
        };
        let stop = async {
            secs(200).await;
            storage().stop_compactions(CompactionKind::Scrub, None);
        };
        let (_, (truncated, ())) =
            runtime::task::join(scrub, runtime::task::join(truncate, stop)).await;
        truncated.unwrap();
        assert_eq!(sstables(&schema), 0);
    });
}

#[test]
fn a_limit_is_lifted_while_a_merge_waits_and_holds_up_no_truncation() {
    SimNode::new(11, 1).run(async {
        open().await;
        let [one, other] = [plain(1), plain(2)];
        for schema in [&one, &other] {
            fill(schema, PARTITIONS).await;
        }
        limit(1);
        storage().set_auto_compaction(one.id, true);
        secs(100).await;
        assert_eq!((sstables(&one), storage().compaction_stats().running), (4, 1));
        timeout(Duration::from_secs(5), storage().truncate(one.id, 5)).await.unwrap().unwrap();
        assert_eq!(sstables(&one), 0);
        storage().set_auto_compaction(other.id, true);
        secs(100).await;
        assert_eq!(sstables(&other), 4);
        limit(0);
        secs(5).await;
        assert_eq!(sstables(&other), 1);
        let stats = storage().compaction_stats();
        assert_eq!((stats.running, stats.finished, stats.failed), (0, 1, 0));
        assert!(stats.bytes_out <= stats.bytes_in && 2_000_000 < stats.bytes_out, "{stats:?}");
        check_rows(&other, PARTITIONS).await;
    });
}

#[test]
fn shares_follow_the_backlog() {
    SimNode::new(11, 1).run(async {
        open().await;
        let schema = plain(1);
        fill(&schema, PARTITIONS).await;
        let shares = || group::stats(group::COMPACTION).shares;
        secs(1).await;
        // Nobody merges it: nobody is behind.
        assert_eq!((shares(), storage().compaction_stats().pace.backlog), (50, 0.0));
        limit(1);
        storage().set_auto_compaction(schema.id, true);
        secs(1).await;
        // Some 2.4 MB beside a memory of 1 MiB.
        let pace = storage().compaction_stats().pace;
        assert!((2.0..2.6).contains(&pace.normalized), "{pace:?}");
        assert_eq!((pace.pending, pace.shares), (1, shares()));
        assert!((110..140).contains(&shares()), "{pace:?}");
        for (static_shares, shares_max, expected) in [(300, 0, 300), (0, 60, 60)] {
            let pace = Pace { static_shares, shares_max, bytes_per_second: 1 };
            storage().set_compaction_pace(pace);
            secs(1).await;
            assert_eq!(shares(), expected);
        }
        // What is merged is behind no more, also while the merge goes on.
        limit(128 << 10);
        secs(15).await;
        let less = storage().compaction_stats().pace.backlog;
        assert!(0.0 < less && less < pace.backlog * 0.75, "{less} of {}", pace.backlog);
        limit(0);
        secs(5).await;
        let pace = storage().compaction_stats().pace;
        assert_eq!((sstables(&schema), pace.pending, pace.backlog, shares()), (1, 0, 0.0, 50));
    });
}

#[test]
fn merges_stop_before_writes_when_the_disk_fills_and_go_on_by_themselves() {
    let mut node = SimNode::new(11, 1);
    let [large, small] = [plain(1), plain(2)];
    node.run(async {
        open().await;
        fill(&plain(1), PARTITIONS).await;
    });
    let capacity = used(&mut node) + (1 << 20);
    node.disk().set_capacity(Some(capacity));
    let large_too = large.clone();
    node.run(async move {
        storage().set_auto_compaction(large.id, true);
        secs(60).await;
        let stats = storage().compaction_stats();
        assert_eq!((stats.held, stats.running, stats.failed, stats.finished), (1, 0, 0, 0));
        assert_eq!(asked(), 0);
        // Somebody who asks for it is told.
        let refused = storage().compact_all(large.id, Default::default()).await;
        let Err(ReadError::Overloaded(why)) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("no room on the disk: ks.t1 needs 24"), "{why}");
        // Writes go on, and merges that fit.
        fill(&small, 3).await;
        storage().set_auto_compaction(small.id, true);
        secs(1).await;
        assert_eq!((sstables(&small), sstables(&large)), (1, 4));
        check_rows(&small, 3).await;
        assert_eq!(storage().compaction_stats().held, 1);
    });
    node.disk().set_capacity(None);
    node.run(async move {
        secs(15).await;
        let stats = storage().compaction_stats();
        assert_eq!((stats.held, stats.failed, stats.finished), (0, 0, 2));
        assert_eq!(sstables(&large_too), 1);
        check_rows(&large_too, PARTITIONS).await;
    });
}

#[test]
fn a_merge_that_finds_the_disk_full_leaves_nothing_and_is_tried_again() {
    let mut node = SimNode::new(11, 1);
    let merged_partly = async {
        open().await;
        fill(&plain(1), PARTITIONS).await;
        limit(256 << 10);
        storage().set_auto_compaction(plain(1).id, true);
        secs(6).await;
        assert_eq!(storage().compaction_stats().running, 1);
    };
    node.run(merged_partly);
    // Somebody else has filled it.
    let files = node.disk().files();
    let capacity = used(&mut node);
    node.disk().set_capacity(Some(capacity));
    node.run(async {
        limit(0);
        secs(100).await;
        let stats = storage().compaction_stats();
        assert_eq!((stats.held, stats.running, stats.finished), (1, 0, 0));
        assert_eq!(stats.failed, 1);
        check_rows(&plain(1), PARTITIONS).await;
    });
    let left = node.disk().files();
    let gone: Vec<_> = files.iter().filter(|path| !left.contains(path)).collect();
    assert!(!gone.is_empty() && left.len() < files.len(), "{gone:?}");
    node.disk().set_capacity(None);
    node.run(async {
        secs(15).await;
        let stats = storage().compaction_stats();
        assert_eq!((stats.held, stats.finished, sstables(&plain(1))), (0, 1, 1));
        check_rows(&plain(1), PARTITIONS).await;
    });
}

#[test]
fn shards_are_promised_room_one_after_the_other() {
    let mut node = SimNode::new(12, 2);
    node.run(async {
        on_all_shards(|| async {
            let storage = Storage::open(config()).await.unwrap();
            let (map, schema) = (TabletMap::static_map(2), plain(1));
            storage.add_table(Rc::new(schema.clone()), map, Log::Data).await.unwrap();
            storage.set_auto_compaction(schema.id, false);
        })
        .await;
        storage().replay(Log::Data).await.unwrap();
        on_all_shards(|| async {
            let schema = plain(1);
            for row in 0..4 {
                for partition in 0..2 * PARTITIONS {
                    // Those of the other shard are refused.
                    let _ = storage().apply(write(&schema, partition, row, 1, &VALUE)).await;
                }
                storage().flush(schema.id).await.unwrap();
            }
            assert_eq!(sstables(&schema), 4);
        })
        .await;
    });
    // Room for one of them, which need some 2.4 MB each.
    let capacity = used(&mut node) + (4 << 20);
    node.disk().set_capacity(Some(capacity));
    node.run(async {
        let stats = || on_all_shards(|| async { storage().compaction_stats() });
        // The disk is looked at once a second.
        secs(2).await;
        on_all_shards(|| async {
            limit(256 << 10);
            storage().set_auto_compaction(plain(1).id, true);
        })
        .await;
        secs(5).await;
        let now = stats().await;
        assert_eq!(now.iter().map(|one| one.running).sum::<usize>(), 1, "{now:?}");
        assert_eq!(now.iter().map(|one| one.held).sum::<usize>(), 1, "{now:?}");
        // The inputs of the first make room for the second.
        secs(100).await;
        for one in stats().await {
            assert_eq!((one.running, one.held, one.finished, one.failed), (0, 0, 1, 0));
        }
    });
}
