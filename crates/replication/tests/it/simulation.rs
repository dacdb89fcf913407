//! A simulated node under reads, batches and increments, with crashes.

use cluster::SchemaChange;
use model::{TableSchema, Token, Type};
use mutation::page::Partitions;
use replication::{BatchEntry, BatchKind, Consistency, Coordinator};
use replication::{ReadOptions, WriteError, WriteKind, WriteOptions};
use std::time::Duration;
use storage::SyncMode;
use testkit::SimNode;
use testkit::config::{change, entry, keyspace, table};
use testkit::rounds::Rounds;
use testkit::rows::*;
use testkit::writes::{Batches, Increments};

#[test]
fn a_scan_yields_every_row_once_in_ring_order() {
    for (seed, shards, tablets) in [(1, 1, None), (2, 3, None), (3, 3, Some(8)), (4, 2, Some(1))] {
        let mut node = SimNode::new(seed, shards);
        node.run(async move {
            let coordinator = start_with_tables(SyncMode::Batch, tablets).await;
            let table = ints();
            for pk in 0..40 {
                let options = write_options(WriteKind::Simple);
                let mutation = put(&table, pk, pk, 1);
                coordinator.write(&table, token(pk), mutation, &options).await.expect("a write");
            }
            let mut expected: Vec<i32> = (0..40).collect();
            expected.sort_by_key(|pk| token(*pk));
            for row_limit in [1, 3, 7, 1000] {
                let found = scan(&coordinator, &table, row_limit).await;
                let keys: Vec<i32> = found.iter().map(|(pk, _)| *pk).collect();
                assert_eq!(keys, expected, "pages of {row_limit}");
                assert!(found.iter().all(|(pk, value)| *value == pk.to_be_bytes()));
            }
            for pk in 0..40 {
                let options = read_options();
                let command = read_of(&table, Partitions::Key(key(pk).to_vec()), 10);
                let page = coordinator.read(&table, token(pk), &command, &options).await;
                let page = page.expect("a page");
                assert_eq!(pairs(&command, &page), [(pk, pk.to_be_bytes().to_vec())]);
            }
        });
    }
}

#[test]
fn too_few_copies_are_unavailable_and_virtual_tables_are_read_only() {
    let mut node = SimNode::new(5, 2);
    node.run(async {
        let coordinator = start_with_tables(SyncMode::Batch, None).await;
        change(|_| {
            vec![
                SchemaChange::CreateKeyspace(keyspace("three", 3, None)),
                SchemaChange::CreateTable(table("three", "t", Type::Int)),
            ]
        })
        .await;
        let table = entry("three", "t");
        let consistency = Consistency::Quorum;
        let quorum = WriteOptions { consistency, ..write_options(WriteKind::Simple) };
        let written = coordinator.write(&table, token(1), put(&table, 1, 1, 1), &quorum).await;
        let unavailable = WriteError::Unavailable { consistency, required: 2, alive: 1 };
        assert_eq!(written, Err(unavailable));
        let one = write_options(WriteKind::Simple);
        coordinator.write(&table, token(1), put(&table, 1, 1, 1), &one).await.expect("a write");

        let status = entry("system", "cluster_status");
        let options = read_options();
        let host = status.schema.column("host_id").expect("a column").id;
        let read = command(&status, whole_ring(), 10, vec![host]);
        let page = coordinator.read(&status, Token::MIN, &read, &options).await.expect("a page");
        assert_eq!(page.row_count, 1);
        let refused = coordinator.write(&status, token(1), put(&table, 1, 1, 1), &one).await;
        assert!(matches!(refused, Err(WriteError::Refused(_))));
    });
}

#[test]
fn drivers_find_the_system_in_its_own_tables() {
    let mut node = SimNode::new(6, 2);
    for _ in 0..2 {
        node.run(async {
            start_with_tables(SyncMode::Batch, None).await;
            // From the other shard, as a client there would.
            let ask = || async {
                let coordinator = runtime::local::get::<Coordinator>();
                let options = ReadOptions::new(Consistency::Quorum, TIMEOUT);
                let mut counts = Vec::new();
                let asked = [
                    ("system_schema", "keyspaces", "system"),
                    ("system_schema", "tables", "system_schema"),
                    ("system_schema", "tables", "ks"),
                    ("system_schema", "columns", "ks"),
                    ("system", "local", "local"),
                    ("system", "peers", "none"),
                ];
                for (keyspace, name, pk) in asked {
                    let table = entry(keyspace, name);
                    let partitions = Partitions::Key(pk.as_bytes().to_vec());
                    let read = command(&table, partitions, 1000, Vec::new());
                    let token = Token::of(pk.as_bytes());
                    let page = coordinator.read(&table, token, &read, &options).await;
                    counts.push(page.expect("a page").row_count);
                }
                counts
            };
            let counts = runtime::on_shard(1, ask).await;
            let own = |table: &&(TableSchema, _)| table.0.keyspace == "system_schema";
            let own = cluster::system_tables::tables().iter().filter(own).count() as u64;
            assert_eq!(counts, [1, own, 2, 4, 1, 0]);
        });
        node.crash();
    }
}

#[test]
fn logged_batches_are_whole_after_a_crash() {
    for seed in 0..12 {
        for sync in [SyncMode::Batch, SyncMode::Periodic { period: Duration::from_millis(5) }] {
            let rounds = Rounds { most: Duration::from_millis(40), ..Rounds::new(seed, 3) };
            let done = rounds.run(Batches::new(sync)).unwrap_or_else(|lost| panic!("{lost}"));
            assert!(5 < done.changes(), "seed {seed}: {} batches", done.changes());
        }
    }
}

#[test]
fn a_batch_that_fails_halfway_is_whole_after_a_restart() {
    let mut node = SimNode::new(8, 3);
    let sync = SyncMode::Periodic { period: Duration::from_millis(5) };
    node.run(async move {
        let coordinator = start_with_tables(sync, None).await;
        let table = ints();
        let stop = || async { runtime::local::get::<storage::Storage>().stop().await.is_ok() };
        assert!(runtime::on_shard(2, stop).await);
        let entry = |pk: i32| BatchEntry {
            table: table.clone(),
            token: token(pk),
            mutation: put(&table, pk, 1, 1),
        };
        let options = write_options(WriteKind::Batch);
        let entries = (0..10).map(entry).collect();
        let written = coordinator.write_batch(BatchKind::Logged, entries, &options).await;
        assert!(matches!(written, Err(WriteError::Failure { .. })), "{written:?}");
        // Tried again and again, and not forgotten.
        runtime::time::sleep(Duration::from_secs(3)).await;
    });
    node.crash();
    node.run(async move {
        let coordinator = start_with_tables(sync, None).await;
        assert_eq!(scan(&coordinator, &ints(), 100).await.len(), 10);
        // Done now: forgotten after the sync period.
        runtime::time::sleep(Duration::from_secs(1)).await;
        let log = entry("system", "batchlog");
        let read = command(&log, whole_ring(), 10, Vec::new());
        let options = read_options();
        let page = coordinator.read(&log, Token::MIN, &read, &options).await.expect("a page");
        assert_eq!(page.row_count, 0);
    });
}

#[test]
fn increments_count_once_across_crashes_and_from_every_shard() {
    for seed in 0..10 {
        let rounds = Rounds { most: Duration::from_millis(30), ..Rounds::new(seed, 3) };
        let done = rounds.run(Increments::default()).unwrap_or_else(|lost| panic!("{lost}"));
        assert!(0 < done.counted(), "seed {seed}: nothing was counted");
    }
}

#[test]
fn read_modify_writes_of_a_partition_exclude_each_other() {
    let mut node = SimNode::new(3, 3);
    node.run(async {
        let coordinator = start_with_tables(SyncMode::Batch, None).await;
        let table = ints();
        let increments = (0..20).map(|_| {
            let options = write_options(WriteKind::Simple);
            let (coordinator, table) = (coordinator.clone(), table.clone());
            async move {
                let change = move |owner: replication::Owner| async move {
                    let table = ints();
                    let command = read_of(&table, Partitions::Key(key(5).to_vec()), 1);
                    let page = owner.read(&command).await.expect("a page");
                    let present = pairs(&command, &page).first().map_or(0, |(_, value)| {
                        i32::from_be_bytes(value.as_slice().try_into().expect("an int"))
                    });
                    runtime::task::yield_now().await;
                    let update = put(&table, 5, present + 1, present as i64 + 1);
                    owner.apply(update).await.expect("a write");
                };
                let key = key(5);
                let done = coordinator.on_owner(&table, token(5), &key, &options, change);
                done.await.expect("a change");
            }
        });
        runtime::task::join_all(increments.collect::<Vec<_>>()).await;
        let found = scan(&coordinator, &table, 10).await;
        assert_eq!(found, [(5, 20i32.to_be_bytes().to_vec())]);
    });
}

#[test]
fn a_truncated_table_is_empty_and_stays_so() {
    let mut node = SimNode::new(9, 2);
    for round in 0..3 {
        node.run(async move {
            let coordinator = start_with_tables(SyncMode::Batch, None).await;
            let table = ints();
            assert_eq!(scan(&coordinator, &table, 10).await, [], "round {round}");
            for pk in 0..10 {
                let mutation = put(&table, pk, round, runtime::time::wall_micros());
                let options = write_options(WriteKind::Simple);
                coordinator.write(&table, token(pk), mutation, &options).await.expect("a write");
            }
            assert_eq!(scan(&coordinator, &table, 3).await.len(), 10);
            // The last time nobody waits for it, and it is done all the same.
            let patience = Duration::from_micros(if round == 2 { 1 } else { 60_000_000 });
            let truncated = coordinator.truncate(table.schema.id, patience).await;
            assert_eq!(matches!(truncated, Err(WriteError::Timeout { .. })), round == 2);
            while round == 2 && !scan(&coordinator, &table, 10).await.is_empty() {
                runtime::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(scan(&coordinator, &table, 10).await, []);
        });
        node.crash();
    }
}
