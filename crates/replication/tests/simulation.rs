//! A simulated node under reads, batches and increments, with crashes.

use cluster::{BootConfig, Cluster, NodeConfig, SchemaChange, TableEntry};
use model::{Column, ColumnId, ColumnKind, Keyspace, TableSchema, Token, Type, Uuid};
use mutation::cell::CellState;
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand, RingBound, SendRange};
use mutation::{Cell, FrozenMutation, Marker, MutationBuilder, RowBuilder};
use replication::{BatchEntry, BatchKind, Config, Consistency, Coordinator};
use replication::{ReadOptions, WriteError, WriteKind, WriteOptions};
use runtime::sim::{Options, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;
use storage::SyncMode;

const TIMEOUT: Duration = Duration::from_secs(20);

fn boot_config(sync: SyncMode) -> BootConfig {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut storage = storage::Config::new("/node", Uuid::nil());
    storage.sync = sync;
    storage.segment_bytes = 1 << 20;
    storage.commitlog_bytes_max = 16 << 20;
    storage.memtable_bytes_max = 4 << 20;
    BootConfig {
        node: NodeConfig {
            cluster_name: "test".into(),
            data_center: "dc1".into(),
            rack: "r1".into(),
            listen_address: address,
            broadcast_address: address,
            rpc_address: address,
            listen_port: 7000,
            rpc_port: Some(9042),
            num_tokens: 1,
            initial_tokens: Vec::new(),
        },
        storage,
    }
}

/// Starts a node and makes the tables `ks.t (pk int, v int)` and `ks.c (pk int, v counter)`.
async fn start(sync: SyncMode, tablets: Option<u32>) -> Rc<Coordinator> {
    cluster::boot(boot_config(sync)).await.expect("a start");
    let batch_memory = match sync {
        SyncMode::Batch => Duration::ZERO,
        SyncMode::Periodic { period } => period * 2,
    };
    Coordinator::start(Config { batch_memory }).await.expect("a start");
    let create = move |schema: &cluster::Schema| {
        if schema.keyspace("ks").is_some() {
            return Ok::<_, ()>(Vec::new());
        }
        Ok(vec![
            SchemaChange::CreateKeyspace(keyspace("ks", "1", tablets)),
            SchemaChange::CreateTable(table("ks", "t", Type::Int)),
            SchemaChange::CreateTable(table("ks", "c", Type::Counter)),
        ])
    };
    let cluster = runtime::local::get::<Cluster>();
    cluster.change_schema(create).await.expect("tables");
    runtime::local::get::<Coordinator>()
}

fn keyspace(name: &str, factor: &str, initial_tablets: Option<u32>) -> Keyspace {
    Keyspace {
        name: name.to_owned(),
        replication: vec![
            ("class".into(), "SimpleStrategy".into()),
            ("replication_factor".into(), factor.into()),
        ],
        durable_writes: true,
        initial_tablets,
        storage: Vec::new(),
    }
}

fn table(keyspace: &str, name: &str, ty: Type) -> TableSchema {
    let column = |id: u32, name: &str, kind, ty| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        kind,
        position: 0,
        ty,
        reversed: false,
    };
    TableSchema {
        id: Cluster::new_table_id(),
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        columns: vec![
            column(0, "pk", ColumnKind::PartitionKey, Type::Int),
            column(1, "v", ColumnKind::Regular, ty),
        ],
        next_column_id: 2,
        ..cluster::system_tables::table("system", "local")
    }
}

fn entry(keyspace: &str, name: &str) -> Rc<TableEntry> {
    let schema = runtime::local::get::<Cluster>().schema();
    schema.table(keyspace, name).expect("the table").clone()
}

fn key(pk: i32) -> [u8; 4] {
    pk.to_be_bytes()
}

fn token(pk: i32) -> Token {
    Token::of(&key(pk))
}

/// Sets `v` of a row to `value`, at `timestamp`.
fn put(table: &TableEntry, pk: i32, value: i32, timestamp: i64) -> FrozenMutation {
    let value = value.to_be_bytes();
    cell(table, pk, timestamp, CellState::Live { value: &value })
}

fn add(table: &TableEntry, pk: i32, delta: i64) -> FrozenMutation {
    cell(table, pk, runtime::time::wall_micros(), CellState::CounterUpdate { delta })
}

fn cell(table: &TableEntry, pk: i32, timestamp: i64, state: CellState<'_>) -> FrozenMutation {
    let mut row = RowBuilder::new(Vec::new());
    if matches!(state, CellState::Live { .. }) {
        row.marker(Marker::Live { timestamp });
    }
    row.cell(ColumnId(1), Cell { timestamp, state });
    let mut builder = MutationBuilder::new(&table.schema, &key(pk));
    builder.row(&[], &row.finish());
    builder.freeze()
}

fn write_options(kind: WriteKind) -> WriteOptions {
    WriteOptions { consistency: Consistency::One, timeout: TIMEOUT, kind }
}

fn command(table: &TableEntry, partitions: Partitions, row_limit: u64) -> ReadCommand {
    ReadCommand {
        table: table.schema.id,
        partitions,
        ranges: vec![SendRange::full()],
        reversed: false,
        columns: vec![(ColumnId(1), ColumnForm::Value)],
        static_count: 0,
        row_limit,
        per_partition_limit: u64::MAX,
        partition_limit: u64::MAX,
        bytes_max: 1 << 20,
        static_only_rows: true,
        tombstone_limit: u64::MAX,
        now: runtime::time::wall_micros() / 1_000_000,
        bypass_cache: false,
        shape: mutation::RowShape::Whole,
        resume: None,
    }
}

fn whole_ring() -> Partitions {
    let bound = |token, after| RingBound { token, key: None, after };
    Partitions::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) }
}

/// Keys and values of a page.
fn pairs(command: &ReadCommand, page: &Page) -> Vec<(i32, Vec<u8>)> {
    let view = PageView::parse(&page.bytes, command.layout()).expect("a page");
    let pairs = view.partitions().map(|partition| {
        let pk = i32::from_be_bytes(partition.key().try_into().expect("an int"));
        let row = partition.rows().next().expect("a row");
        let value = row.columns().next().and_then(|column| column.value).unwrap_or_default();
        (pk, value.to_vec())
    });
    pairs.collect()
}

/// All rows of a table, in pages of `row_limit`.
async fn scan(
    coordinator: &Coordinator,
    table: &TableEntry,
    row_limit: u64,
) -> Vec<(i32, Vec<u8>)> {
    let options = ReadOptions::new(Consistency::One, TIMEOUT);
    let mut command = command(table, whole_ring(), row_limit);
    let mut found = Vec::new();
    loop {
        let page = coordinator.read(table, Token::MIN, &command, &options).await;
        let page = page.expect("a page");
        assert!(page.row_count <= row_limit);
        found.extend(pairs(&command, &page));
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return found,
        }
    }
}

#[test]
fn a_scan_yields_every_row_once_in_ring_order() {
    for (seed, shards, tablets) in [(1, 1, None), (2, 3, None), (3, 3, Some(8)), (4, 2, Some(1))] {
        let mut world = World::new(Options::new(seed));
        let node = world.add_node(shards);
        world.block_on(node, 0, async move {
            let coordinator = start(SyncMode::Batch, tablets).await;
            let table = entry("ks", "t");
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
                let options = ReadOptions::new(Consistency::One, TIMEOUT);
                let command = command(&table, Partitions::Key(key(pk).to_vec()), 10);
                let page = coordinator.read(&table, token(pk), &command, &options).await;
                let page = page.expect("a page");
                assert_eq!(pairs(&command, &page), [(pk, pk.to_be_bytes().to_vec())]);
            }
        });
    }
}

#[test]
fn too_few_copies_are_unavailable_and_virtual_tables_are_read_only() {
    let mut world = World::new(Options::new(5));
    let node = world.add_node(2);
    world.block_on(node, 0, async {
        let coordinator = start(SyncMode::Batch, None).await;
        let create = |_: &cluster::Schema| {
            Ok::<_, ()>(vec![
                SchemaChange::CreateKeyspace(keyspace("three", "3", None)),
                SchemaChange::CreateTable(table("three", "t", Type::Int)),
            ])
        };
        runtime::local::get::<Cluster>().change_schema(create).await.expect("a table");
        let table = entry("three", "t");
        let consistency = Consistency::Quorum;
        let quorum = WriteOptions { consistency, ..write_options(WriteKind::Simple) };
        let written = coordinator.write(&table, token(1), put(&table, 1, 1, 1), &quorum).await;
        let unavailable = WriteError::Unavailable { consistency, required: 2, alive: 1 };
        assert_eq!(written, Err(unavailable));
        let one = write_options(WriteKind::Simple);
        coordinator.write(&table, token(1), put(&table, 1, 1, 1), &one).await.expect("a write");

        let status = entry("system", "cluster_status");
        let options = ReadOptions::new(Consistency::One, TIMEOUT);
        let host = status.schema.column("host_id").expect("a column").id;
        let mut read = command(&status, whole_ring(), 10);
        read.columns = vec![(host, ColumnForm::Value)];
        let page = coordinator.read(&status, Token::MIN, &read, &options).await.expect("a page");
        assert_eq!(page.row_count, 1);
        let refused = coordinator.write(&status, token(1), put(&table, 1, 1, 1), &one).await;
        assert!(matches!(refused, Err(WriteError::Refused(_))));
    });
}

#[test]
fn drivers_find_the_system_in_its_own_tables() {
    let mut world = World::new(Options::new(6));
    let node = world.add_node(2);
    for _ in 0..2 {
        world.block_on(node, 0, async {
            start(SyncMode::Batch, None).await;
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
                    let read = command(&table, partitions, 1000);
                    let read = ReadCommand { columns: Vec::new(), ..read };
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
        world.crash(node);
    }
}

/// The value that every key of a group has, if it is the same for all.
fn agreed(found: &BTreeMap<i32, i32>, group: &[i32]) -> Result<Option<i32>, String> {
    let values: Vec<Option<i32>> = group.iter().map(|pk| found.get(pk).copied()).collect();
    match values.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(values[0]),
        false => Err(format!("{values:?}")),
    }
}

/// Writes logged batches over several shards, each setting a group of keys to one value, crashes,
/// and finds in every group one value, at least as new as the last one acknowledged.
fn crashing_batches(seed: u64, sync: SyncMode) {
    const GROUP: [i32; 6] = [1, 2, 3, 4, 5, 6];
    let mut world = World::new(Options::new(seed));
    let node = world.add_node(3);
    let acknowledged = Rc::new(RefCell::new(None::<i32>));
    let mut batches = 0;
    for round in 0..5 {
        let span = Duration::from_micros(world.random_u64() % 40_000);
        let known = acknowledged.clone();
        batches = world.block_on(node, 0, async move {
            let coordinator = start(sync, None).await;
            let table = entry("ks", "t");
            let found = scan(&coordinator, &table, 100).await;
            let found: BTreeMap<i32, i32> = found
                .into_iter()
                .map(|(pk, value)| (pk, i32::from_be_bytes(value.try_into().expect("an int"))))
                .collect();
            let value = agreed(&found, &GROUP).unwrap_or_else(|values| {
                panic!("seed {seed} round {round}: half a batch: {values}")
            });
            let last = *known.borrow();
            if sync == SyncMode::Batch {
                assert!(last <= value, "seed {seed} round {round}: {last:?} was lost: {value:?}");
            }
            let next = std::cell::Cell::new(value.unwrap_or(0).max(last.unwrap_or(0)) + 1);
            let writing = async {
                loop {
                    let value = next.replace(next.get() + 1);
                    let entry = |pk: &i32| BatchEntry {
                        table: table.clone(),
                        token: token(*pk),
                        mutation: put(&table, *pk, value, value as i64),
                    };
                    let entries = GROUP.iter().map(entry).collect();
                    let options = write_options(WriteKind::Batch);
                    let written = coordinator.write_batch(BatchKind::Logged, entries, &options);
                    written.await.expect("a batch");
                    *known.borrow_mut() = Some(value);
                }
            };
            runtime::time::timeout(span, writing).await.expect_err("it never ends");
            next.get()
        });
        world.crash(node);
    }
    assert!(5 < batches, "seed {seed}: {batches} batches");
}

#[test]
fn logged_batches_are_whole_after_a_crash() {
    for seed in 0..12 {
        crashing_batches(seed, SyncMode::Batch);
        crashing_batches(seed, SyncMode::Periodic { period: Duration::from_millis(5) });
    }
}

#[test]
fn a_batch_that_fails_halfway_is_whole_after_a_restart() {
    let mut world = World::new(Options::new(8));
    let node = world.add_node(3);
    let sync = SyncMode::Periodic { period: Duration::from_millis(5) };
    world.block_on(node, 0, async move {
        let coordinator = start(sync, None).await;
        let table = entry("ks", "t");
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
    world.crash(node);
    world.block_on(node, 0, async move {
        let coordinator = start(sync, None).await;
        assert_eq!(scan(&coordinator, &entry("ks", "t"), 100).await.len(), 10);
        // Done now: forgotten after the sync period.
        runtime::time::sleep(Duration::from_secs(1)).await;
        let log = entry("system", "batchlog");
        let read = ReadCommand { columns: Vec::new(), ..command(&log, whole_ring(), 10) };
        let options = ReadOptions::new(Consistency::One, TIMEOUT);
        let page = coordinator.read(&log, Token::MIN, &read, &options).await.expect("a page");
        assert_eq!(page.row_count, 0);
    });
}

#[test]
fn increments_count_once_across_crashes_and_from_every_shard() {
    for seed in 0..10 {
        let mut world = World::new(Options::new(seed));
        let node = world.add_node(3);
        // Acknowledged at least, attempted at most.
        let counted = Rc::new(RefCell::new((0i64, 0i64)));
        for round in 0..4 {
            let span = Duration::from_micros(world.random_u64() % 30_000);
            let known = counted.clone();
            world.block_on(node, 0, async move {
                let coordinator = start(SyncMode::Batch, None).await;
                let table = entry("ks", "c");
                let found = scan(&coordinator, &table, 100).await;
                let total = found.first().map_or(0, |(_, value)| {
                    i64::from_be_bytes(value.as_slice().try_into().expect("a counter"))
                });
                let (least, most) = *known.borrow();
                let allowed = least <= total && total <= most;
                assert!(allowed, "seed {seed} round {round}: {total} not in {least}..={most}");
                *known.borrow_mut() = (total, total);
                let counting = async {
                    loop {
                        let increments = (0..4).map(|_| {
                            known.borrow_mut().1 += 1;
                            let options = write_options(WriteKind::Counter);
                            let (coordinator, table) = (coordinator.clone(), table.clone());
                            let known = known.clone();
                            async move {
                                let update = add(&table, 7, 1);
                                let led = coordinator.increment(&table, token(7), update, &options);
                                led.await.expect("an increment");
                                known.borrow_mut().0 += 1;
                            }
                        });
                        runtime::task::join_all(increments.collect::<Vec<_>>()).await;
                    }
                };
                runtime::time::timeout(span, counting).await.expect_err("it never ends");
            });
            world.crash(node);
        }
        assert!(0 < counted.borrow().1, "seed {seed}: nothing was counted");
    }
}

#[test]
fn read_modify_writes_of_a_partition_exclude_each_other() {
    let mut world = World::new(Options::new(3));
    let node = world.add_node(3);
    world.block_on(node, 0, async {
        let coordinator = start(SyncMode::Batch, None).await;
        let table = entry("ks", "t");
        let increments = (0..20).map(|_| {
            let options = write_options(WriteKind::Simple);
            let (coordinator, table) = (coordinator.clone(), table.clone());
            async move {
                let change = move |owner: replication::Owner| async move {
                    let table = entry("ks", "t");
                    let command = command(&table, Partitions::Key(key(5).to_vec()), 1);
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
    let mut world = World::new(Options::new(9));
    let node = world.add_node(2);
    for round in 0..3 {
        world.block_on(node, 0, async move {
            let coordinator = start(SyncMode::Batch, None).await;
            let table = entry("ks", "t");
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
        world.crash(node);
    }
}
