//! The log as part of a storage: what survives a restart, what is released, what is refused.

use super::*;
use crate::WriteError;
use crate::table::{GATE_UNITS, pass_gate};
use std::cell::Cell;
use testkit::{Fault, SimNode};

fn segments(node: &mut SimNode) -> Vec<String> {
    let files = node.disk().files();
    files.into_iter().filter(|path| path.contains("/commitlog/CommitLog-")).collect()
}

#[test]
fn what_was_acked_in_batch_mode_survives_a_crash() {
    let commitlog_bytes_max = 64 * SEGMENT as u64;
    let config = move || Config { commitlog_bytes_max, memtable_bytes_max: 4 << 20, ..config() };
    let mut node = SimNode::new(1, 1);
    node.run(async move {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        for row in 0..300 {
            let value = vec![row as u8; 500];
            storage.apply(write(&schema, row as u64 % 7, row, row as i64, &value)).await.unwrap();
        }
        assert!(1 < storage.log_stats(Log::Data).unwrap().segments);
    });
    for _ in 0..2 {
        node.crash();
        node.run(async move {
            let storage = open(config()).await;
            let stats = storage.replay(Log::Data).await.unwrap();
            assert_eq!((stats.applied, stats.corrupt_bytes, stats.broken_files), (300, 0, 0));
            let schema = schema(1, "t1");
            for partition in 0..7u64 {
                let seen = rows(&storage, &schema, partition).await;
                let expected = (0..300u32).filter(|row| *row as u64 % 7 == partition);
                assert_eq!(seen.keys().copied().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                for (row, (timestamp, value)) in seen {
                    assert_eq!((timestamp, value), (row as i64, vec![row as u8; 500]));
                }
            }
        });
    }
}

#[test]
fn a_periodic_log_is_written_promptly_and_synced_each_period() {
    let periodic = || {
        let sync = SyncMode::Periodic { period: Duration::from_secs(1) };
        Config { sync, ..config() }
    };
    for (wait, survives) in [(Duration::from_secs(2), true), (Duration::ZERO, false)] {
        let mut node = SimNode::new(3, 1);
        node.run(async move {
            let storage = open(periodic()).await;
            storage.apply(write(&schema(1, "t1"), 1, 1, 1, b"x")).await.unwrap();
            runtime::time::sleep(wait).await;
            let stats = storage.log_stats(Log::Data).unwrap();
            assert_eq!((0 < stats.cycles, 0 < stats.syncs), (survives, survives));
        });
        node.crash();
        node.run(async move {
            let storage = open(periodic()).await;
            let stats = storage.replay(Log::Data).await.unwrap();
            assert_eq!(stats.applied, survives as u64);
        });
    }
}

#[test]
fn entries_over_a_quarter_of_the_log_are_refused_by_size() {
    SimNode::new(4, 1).run(async {
        let storage = open(config()).await;
        let limit = 4 * SEGMENT;
        let large = write(&schema(1, "t1"), 1, 1, 1, &vec![0; limit]);
        let refused = storage.apply(large).await;
        let Err(WriteError::TooLarge { bytes_max, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(bytes_max, limit);
        let fits = write(&schema(1, "t1"), 1, 1, 1, &vec![0; limit - 200]);
        storage.apply(fits).await.unwrap();
        storage.apply(write(&schema(1, "t1"), 1, 2, 1, b"next")).await.unwrap();
    });
}

#[test]
fn what_is_larger_than_a_segment_survives_beside_small_writes() {
    let mut node = SimNode::new(14, 1);
    let large = |row: u32| vec![row as u8; 2 * SEGMENT + 1000 * row as usize];
    // So much that nothing is flushed.
    let roomy = || Config {
        memtable_bytes_max: 64 << 20,
        commitlog_bytes_max: 64 * SEGMENT as u64,
        ..config()
    };
    node.run(async move {
        let storage = open(roomy()).await;
        let writes = (0..12u32).map(|row| {
            let storage = storage.clone();
            async move {
                let schema = schema(1, "t1");
                let value = if row % 3 == 0 { large(row) } else { vec![row as u8; 100] };
                storage.apply(write(&schema, row as u64, row, 1, &value)).await.unwrap();
            }
        });
        runtime::task::join_all(writes).await;
        let group = [1, 2].map(|id| write(&schema(id, "t"), 100, 1, 1, &large(1)));
        storage.apply_all(group.to_vec()).await.unwrap();
        assert!(8 < storage.log_stats(Log::Data).unwrap().segments);
    });
    for _ in 0..2 {
        node.crash();
        node.run(async move {
            let storage = open(roomy()).await;
            let stats = storage.replay(Log::Data).await.unwrap();
            assert_eq!((stats.applied, stats.corrupt_bytes, stats.broken_files), (14, 0, 0));
            for row in 0..12u32 {
                let seen = rows(&storage, &schema(1, "t1"), row as u64).await;
                let value = if row % 3 == 0 { large(row) } else { vec![row as u8; 100] };
                assert!(seen[&row] == (1, value), "row {row}");
            }
            for id in [1, 2] {
                assert!(rows(&storage, &schema(id, "t"), 100).await[&1].1 == large(1));
            }
        });
    }
    // Once it is flushed no segment is held for its pieces.
    node.run(async move {
        let storage = runtime::local::get::<Storage>();
        storage.apply(write(&schema(1, "t1"), 1, 1, 2, &large(1))).await.unwrap();
        storage.flush_all().await.unwrap();
        runtime::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(storage.log_stats(Log::Data).unwrap().segments, 1);
    });
}

#[test]
fn what_is_being_flushed_for_the_log_is_not_flushed_again() {
    SimNode::new(16, 1).run(async {
        let storage = open(Config { memtable_bytes_max: 64 << 20, ..config() }).await;
        let table = storage.shard().table(schema(1, "t1").id).unwrap();
        // The disk is slow: a flush does not come to its end for as long as this is held.
        let gate = pass_gate(&table, GATE_UNITS).await;
        let write_segments = async |from: u64, more: u64| {
            for row in 0..1000 {
                if from + more <= storage.log_stats(Log::Data).unwrap().segments {
                    return;
                }
                let value = vec![row as u8; 5000];
                let new = write(&schema(1, "t1"), 1, row % 7, row as i64, &value);
                storage.apply(new).await.unwrap();
            }
            panic!("the log has {:?}", storage.log_stats(Log::Data));
        };
        // Beyond half of what the log may have.
        write_segments(0, 10).await;
        assert_eq!(table.sealed_memtables().len(), 1);
        storage.apply(write(&schema(2, "t2"), 1, 1, 1, b"late")).await.unwrap();
        write_segments(10, 4).await;
        assert_eq!(table.sealed_memtables().len(), 1, "what was written since is not in the way");
        let other = storage.shard().table(schema(2, "t2").id).unwrap();
        assert_eq!(other.sealed_memtables().len(), 0, "nor is what another table wrote late");
        drop(gate);
        runtime::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(table.sealed_memtables().len(), 0);
        let left = storage.log_stats(Log::Data).unwrap().segments;
        assert!((4..=7).contains(&left), "{left} segments are left of 14");
        // What was written since is flushed when it is the oldest, and at last what the other has.
        for _ in 0..2 {
            write_segments(0, 9).await;
            runtime::time::sleep(Duration::from_secs(1)).await;
            assert!(storage.log_stats(Log::Data).unwrap().segments <= 8);
        }
        let of_other = storage.table_stats(schema(2, "t2").id).unwrap();
        assert!(0 < of_other.sstable_bytes, "what it wrote late is the oldest now");
    });
}

#[test]
fn flushes_begin_above_what_was_set() {
    SimNode::new(17, 1).run(async {
        let memtable_bytes_max = 64 << 20;
        let commitlog_flush_bytes = Some(3 * SEGMENT as u64);
        let storage = open(Config { memtable_bytes_max, commitlog_flush_bytes, ..config() }).await;
        let table = storage.shard().table(schema(1, "t1").id).unwrap();
        let gate = pass_gate(&table, GATE_UNITS).await;
        for row in 0..1000 {
            let segments = storage.log_stats(Log::Data).unwrap().segments;
            assert_eq!(table.sealed_memtables().len(), usize::from(3 < segments), "{segments}");
            if 5 < segments {
                break;
            }
            storage.apply(write(&schema(1, "t1"), 1, row % 7, 1, &[7; 5000])).await.unwrap();
        }
        assert!(!table.sealed_memtables().is_empty(), "the log did not grow");
        drop(gate);
    });
}

#[test]
fn what_is_written_seldom_does_not_stay_in_the_log() {
    SimNode::new(18, 1).run(async {
        let lifetime = Duration::from_secs(100);
        let storage = open(Config { commitlog_lifetime: Some(lifetime), ..config() }).await;
        let flushed = |id| storage.table_stats(schema(id, "t").id).unwrap().sstable_bytes;
        storage.apply(write(&schema(1, "t1"), 1, 1, 1, b"once")).await.unwrap();
        runtime::time::sleep(lifetime / 2).await;
        assert_eq!(flushed(1), 0);
        runtime::time::sleep(lifetime).await;
        assert!(0 < flushed(1));
        assert_eq!(storage.log_stats(Log::Data).unwrap().released, 1);
        // What comes then has its own time.
        storage.apply(write(&schema(2, "t2"), 1, 1, 1, b"later")).await.unwrap();
        runtime::time::sleep(lifetime / 2).await;
        assert_eq!(flushed(2), 0);
        runtime::time::sleep(lifetime).await;
        assert!(0 < flushed(2));
    });
}

#[test]
fn who_gives_up_while_its_pieces_are_logged_holds_no_segment() {
    let mut node = SimNode::new(15, 1);
    node.run(async move {
        let storage = open(config()).await;
        let entries = [(Uuid::from_u128(1), &vec![7; 3 * SEGMENT][..])];
        let log = &storage.shard().data_log;
        let deadline = runtime::time::Instant::now() + Duration::from_secs(5);
        for _ in 0..20 {
            let turn = log.turn_to_cut(deadline).await.unwrap();
            drop(log.append_in_pieces(&entries, turn, deadline).await.unwrap());
        }
        runtime::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(storage.log_stats(Log::Data).unwrap().segments, 1);
    });
    node.crash();
    node.run(async move {
        let storage = open(config()).await;
        let stats = storage.replay(Log::Data).await.unwrap();
        assert_eq!((stats.corrupt_bytes, stats.broken_files), (0, 0));
    });
}

#[test]
fn a_dropped_table_is_skipped_and_counted() {
    let mut node = SimNode::new(5, 1);
    node.run(async {
        let storage = open(config()).await;
        for id in [1, 2] {
            storage.apply(write(&schema(id, "t"), 1, 1, 1, b"x")).await.unwrap();
        }
        let group = [1, 2].map(|id| write(&schema(id, "t"), 2, 1, 1, b"y"));
        storage.apply_all(group.to_vec()).await.unwrap();
    });
    node.crash();
    node.run(async {
        let storage = Storage::open(config()).await.unwrap();
        let schema = Rc::new(schema(2, "t2"));
        storage.add_table(schema.clone(), TabletMap::single(0), Log::Data).await.unwrap();
        let stats = storage.replay(Log::Data).await.unwrap();
        assert_eq!((stats.applied, stats.unknown_table), (2, 2));
        assert_eq!(rows(&storage, &schema, 2).await.len(), 1);
    });
}

#[test]
fn a_clock_that_goes_back_brings_no_write_under_a_truncation() {
    let mut node = SimNode::new(6, 1);
    let table = schema(1, "t1");
    node.run(async move {
        let storage = open(config()).await;
        storage.replay(Log::Data).await.unwrap();
        storage.truncate(schema(1, "t1").id, 1).await.unwrap();
        // All segments go.
        storage.stop().await.unwrap();
    });
    assert_eq!(segments(&mut node), Vec::<String>::new());
    node.crash();
    node.suffer(Fault::Clock(-1_000_000_000));
    for start in 0..2 {
        let table = table.clone();
        node.run(async move {
            let storage = open(config()).await;
            storage.replay(Log::Data).await.unwrap();
            assert_eq!(rows(&storage, &table, 1).await.len(), start);
            storage.apply(write(&table, 1, 1, 1, b"x")).await.unwrap();
        });
        node.crash();
    }
}

#[test]
fn a_clock_that_goes_back_repeats_no_segment() {
    let mut node = SimNode::new(6, 1);
    for round in 0..3 {
        node.suffer(Fault::Clock(-1_000_000_000 * (round as i64 + 1)));
        node.run(async move {
            let storage = open(config()).await;
            storage.replay(Log::Data).await.unwrap();
            storage.apply(write(&schema(1, "t1"), 1, round, 1, b"x")).await.unwrap();
            let all = rows(&storage, &schema(1, "t1"), 1).await;
            assert_eq!(all.len(), round as usize + 1);
        });
        assert_eq!(segments(&mut node).len(), round as usize + 1);
        node.crash();
    }
}

/// A disk on which three shards left 60 partitions in SSTables and 60 others in logs.
fn disk_of_three_shards() -> SimNode {
    let mut old = SimNode::new(7, 3);
    for shard in 0..3 {
        old.run_on(shard, async move {
            let storage = open(config()).await;
            let map = TabletMap::static_map(3);
            for partition in 0..120 {
                if map.shard_of(model::Token::of(&key(partition))) == shard {
                    let new = write(&schema(1, "t1"), partition, 1, 1, b"x");
                    storage.apply(new).await.unwrap();
                }
                if partition == 59 {
                    storage.flush_all().await.unwrap();
                }
            }
        });
    }
    old
}

async fn count_on_all_shards() -> usize {
    let counts = runtime::on_all_shards(|| async {
        let storage = runtime::local::get::<Storage>();
        let mut count = 0;
        for partition in 0..120 {
            count += rows(&storage, &schema(1, "t1"), partition).await.len();
        }
        count
    });
    counts.await.into_iter().sum()
}

#[test]
fn other_shard_counts_read_the_same_log_and_sstables() {
    let mut old = disk_of_three_shards();
    for shards in [1, 2, 5] {
        let mut new = SimNode::new(8, shards);
        for path in old.disk().files() {
            let bytes = old.disk().read(&path).unwrap();
            new.disk().write(&path, &bytes);
        }
        let start = |new: &mut SimNode| {
            for shard in (0..shards).rev() {
                new.run_on(shard, async move { drop(open(config()).await) });
            }
            new.run(async {
                let storage = runtime::local::get::<Storage>();
                (storage.replay(Log::Data).await.unwrap().applied, count_on_all_shards().await)
            })
        };
        for _ in 0..2 {
            // Segments also hold entries whose tablet was flushed already.
            let (applied, count) = start(&mut new);
            assert!((60..=120).contains(&applied), "{applied}");
            assert_eq!(count, 120);
            new.crash();
        }
        assert_eq!(start(&mut new).1, 120);
        let left = new.run(async {
            runtime::on_all_shards(|| async {
                let storage = runtime::local::get::<Storage>();
                storage.truncate(Uuid::from_u128(1), 5).await.unwrap();
            })
            .await;
            count_on_all_shards().await
        });
        assert_eq!(left, 0);
        new.crash();
        assert_eq!(start(&mut new), (0, 0));
    }
}

#[test]
fn a_full_disk_refuses_writes_and_serves_reads() {
    let mut node = SimNode::new(9, 1);
    let written = Rc::new(Cell::new(0));
    let count = written.clone();
    node.disk().set_capacity(Some(3 * SEGMENT as u64 + 9000));
    let refusal = node.run(async move {
        let storage = open(Config { memtable_bytes_max: 1 << 30, ..config() }).await;
        loop {
            let row = count.get();
            let new = write(&schema(1, "t1"), 1, row, 1, &[7; 3000]);
            match storage.apply(new).await {
                Ok(()) => count.set(row + 1),
                Err(error) => break error,
            }
        }
    });
    let WriteError::FullDisk(path) = refusal else { panic!("{refusal:?}") };
    assert!(path.starts_with("/n/commitlog"), "{path:?}");
    let seen = node.run(async {
        let storage = runtime::local::get::<Storage>();
        rows(&storage, &schema(1, "t1"), 1).await.len()
    });
    assert!(seen == written.get() as usize && 20 < seen, "{seen}");
    node.disk().set_capacity(None);
    node.run_for(Duration::from_secs(5));
    node.run(async {
        let storage = runtime::local::get::<Storage>();
        storage.apply(write(&schema(1, "t1"), 1, 0, 2, b"again")).await.unwrap();
    });
}

#[test]
fn writes_of_a_table_that_is_not_durable_leave_the_log_alone() {
    let mut node = SimNode::new(16, 1);
    node.run(async {
        let storage = open(config()).await;
        storage.set_durable_writes(Uuid::from_u128(1), false);
        let logged = || storage.log_stats(Log::Data).unwrap().entry_bytes;
        let of = |id, partition| write(&schema(id, "t"), partition, 1, 1, b"x");
        storage.apply(of(1, 1)).await.unwrap();
        storage.apply_all(vec![of(1, 2), of(1, 3)]).await.unwrap();
        assert_eq!(logged(), 0);
        storage.flush_all().await.unwrap();
        storage.apply(of(1, 4)).await.unwrap();
        // Of a group what is durable is logged.
        storage.apply_all(vec![of(1, 5), of(2, 5)]).await.unwrap();
        assert!(0 < logged());
        assert_eq!(rows(&storage, &schema(1, "t"), 5).await.len(), 1);
        assert_eq!(rows(&storage, &schema(1, "t"), 4).await.len(), 1);
    });
    node.crash();
    node.run(async {
        let storage = open(config()).await;
        assert_eq!(storage.replay(Log::Data).await.unwrap().applied, 1);
        for (id, partition, count) in [(1, 1, 1), (1, 3, 1), (1, 4, 0), (1, 5, 0), (2, 5, 1)] {
            let found = rows(&storage, &schema(id, "t"), partition).await.len();
            assert_eq!(found, count, "{id} {partition}");
        }
    });
}

#[test]
fn a_table_is_flushed_when_its_period_is_over() {
    let mut node = SimNode::new(17, 1);
    node.run(async {
        let storage = open(config()).await;
        let mut periodic = schema(1, "t1");
        periodic.options.memtable_flush_period_in_ms = 60_000;
        storage.alter_table(Rc::new(periodic));
        let held = |id| storage.table_stats(Uuid::from_u128(id)).unwrap().memtable_bytes;
        for _ in 0..2 {
            for id in [1, 2] {
                storage.apply(write(&schema(id, "t"), 1, 1, 1, b"x")).await.unwrap();
            }
            runtime::time::sleep(Duration::from_secs(50)).await;
            assert!(0 < held(1));
            runtime::time::sleep(Duration::from_secs(12)).await;
            assert!(held(1) == 0 && 0 < held(2));
        }
    });
}

/// *gathers-briefly*: clients that were answered by one sync ask again a little later, each at its
/// own time; the first of them does not go ahead alone.
#[test]
fn who_is_answered_together_shares_the_next_sync_too() {
    const CLIENTS: u64 = 8;
    const ROUNDS: u32 = 100;
    let mut node = SimNode::new(11, 1);
    node.disk().set_slowness(40);
    node.run(async {
        let sync = SyncMode::Periodic { period: Duration::from_secs(100) };
        let storage = open(Config { sync, ..config() }).await;
        let schema = schema(1, "t1");
        let ask = async |client: u64, round: u32| {
            let one = write(&schema, client, round, round.into(), b"x");
            storage.apply_durably(one).await.unwrap();
        };
        let syncs = || storage.log_stats(Log::Data).unwrap().syncs;
        let before = syncs();
        runtime::task::join_all((0..CLIENTS).map(async |client| {
            for round in 0..ROUNDS {
                ask(client, round).await;
                runtime::time::sleep(Duration::from_micros(10 * client)).await;
            }
        }))
        .await;
        let shared = syncs() - before;
        assert!(shared < u64::from(ROUNDS) * 5 / 4, "{shared} syncs of {ROUNDS} rounds");
        storage.stop().await.unwrap();
    });
}
