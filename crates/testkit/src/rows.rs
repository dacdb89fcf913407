//! Rows of one key and one value, written and read by a coordinator: what tests of reads and writes
//! need before there are statements.
//!
//! The tables are [`ints`] (`ks.t`) and [`counters`] (`ks.c`); a key is an int.

use crate::config::{boot_config, change, entry, keyspace, table};
use cluster::{BootConfig, SchemaChange, TableEntry};
use model::{ColumnId, Token, Type};
use mutation::cell::CellState;
use mutation::page::{ColumnForm, Page, PageView, Partitions, ReadCommand, RingBound};
use mutation::{Cell, FrozenMutation, Marker, MutationBuilder, RowBuilder};
use replication::{Config, Consistency, Coordinator, ReadOptions, WriteKind, WriteOptions};
use std::rc::Rc;
use std::time::Duration;
use storage::SyncMode;

/// Longer than any request of a test takes.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a node with a coordinator, on what is left of it after a crash.
pub async fn start(config: BootConfig) -> Rc<Coordinator> {
    let batch_memory = match config.storage.sync {
        SyncMode::Batch => Duration::ZERO,
        SyncMode::Periodic { period } => period * 2,
    };
    cluster::boot(config).await.expect("a start");
    Coordinator::start(Config::new(batch_memory)).await.expect("a start");
    runtime::local::get::<Coordinator>()
}

/// The same, with the tables `ks.t (pk int, v int)` and `ks.c (pk int, v counter)`.
pub async fn start_with_tables(sync: SyncMode, tablets: Option<u32>) -> Rc<Coordinator> {
    let coordinator = start(boot_config("/node", sync)).await;
    change(move |schema| {
        if schema.keyspace("ks").is_some() {
            return Vec::new();
        }
        vec![
            SchemaChange::CreateKeyspace(keyspace("ks", 1, tablets)),
            SchemaChange::CreateTable(table("ks", "t", Type::Int)),
            SchemaChange::CreateTable(table("ks", "c", Type::Counter)),
        ]
    })
    .await;
    coordinator
}

/// The bytes of a key.
pub fn key(pk: i32) -> [u8; 4] {
    pk.to_be_bytes()
}

/// Where a key is on the ring.
pub fn token(pk: i32) -> Token {
    Token::of(&key(pk))
}

/// Sets `v` of a row to `value`, at `timestamp`.
pub fn put(table: &TableEntry, pk: i32, value: i32, timestamp: i64) -> FrozenMutation {
    let value = value.to_be_bytes();
    cell(table, pk, timestamp, CellState::Live { value: &value })
}

/// Adds to a counter.
pub fn add(table: &TableEntry, pk: i32, delta: i64) -> FrozenMutation {
    cell(table, pk, runtime::time::wall_micros(), CellState::CounterUpdate { delta })
}

fn cell(table: &TableEntry, pk: i32, timestamp: i64, state: CellState<'_>) -> FrozenMutation {
    let mut row = RowBuilder::new(Vec::new());
    if matches!(state, CellState::Live { .. }) {
        row.marker(Marker::Live { timestamp });
    }
    row.cell(value_column(table), Cell { timestamp, state });
    let mut builder = MutationBuilder::new(&table.schema, &key(pk));
    builder.row(&[], &row.finish());
    builder.freeze()
}

/// The column `v`.
fn value_column(table: &TableEntry) -> ColumnId {
    table.schema.column("v").expect("the column").id
}

/// A write at ONE.
pub fn write_options(kind: WriteKind) -> WriteOptions {
    WriteOptions { consistency: Consistency::One, timeout: TIMEOUT, kind, limit: None }
}

/// A read at ONE.
pub fn read_options() -> ReadOptions<'static> {
    ReadOptions::new(Consistency::One, TIMEOUT)
}

/// A read of these columns.
pub fn command(
    table: &TableEntry,
    partitions: Partitions,
    row_limit: u64,
    columns: Vec<ColumnId>,
) -> ReadCommand {
    ReadCommand {
        columns: columns.into_iter().map(|column| (column, ColumnForm::Value)).collect(),
        row_limit,
        static_only_rows: true,
        ..ReadCommand::all(table.schema.id, partitions, runtime::time::wall_micros() / 1_000_000)
    }
}

/// A read of `v`.
pub fn read_of(table: &TableEntry, partitions: Partitions, row_limit: u64) -> ReadCommand {
    command(table, partitions, row_limit, vec![value_column(table)])
}

/// All partitions.
pub fn whole_ring() -> Partitions {
    let bound = |token, after| RingBound { token, key: None, after };
    Partitions::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) }
}

/// Keys and values of a page of [`read_of`].
pub fn pairs(command: &ReadCommand, page: &Page) -> Vec<(i32, Vec<u8>)> {
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
pub async fn scan(
    coordinator: &Coordinator,
    table: &TableEntry,
    row_limit: u64,
) -> Vec<(i32, Vec<u8>)> {
    let mut command = read_of(table, whole_ring(), row_limit);
    let mut found = Vec::new();
    loop {
        let page = coordinator.read(table, Token::MIN, &command, &read_options()).await;
        let page = page.expect("a page");
        assert!(page.row_count <= row_limit);
        found.extend(pairs(&command, &page));
        match page.resume {
            Some(resume) => command.resume = Some(resume),
            None => return found,
        }
    }
}

/// The table of ints that [`start_with_tables`] makes.
pub fn ints() -> Rc<TableEntry> {
    entry("ks", "t")
}

/// The table of counters.
pub fn counters() -> Rc<TableEntry> {
    entry("ks", "c")
}
