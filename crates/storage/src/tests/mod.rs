//! Whole-storage tests on the simulated machine.

mod admission;
mod against_model;
mod backups;
mod before;
mod bulk;
mod cache_and_memtable;
mod cached;
mod carry;
mod clear;
mod clear_work;
mod compaction;
mod cost;
mod crash;
mod damage;
mod deriving;
mod dirty;
mod divide;
mod empty_key;
mod expiry;
mod facts;
mod faults;
mod formats;
mod full_disk;
mod groups;
mod hand_over;
mod holders;
mod hot;
mod large_data;
mod large_partition;
mod log;
mod multishard;
mod pace;
mod purge;
mod real;
mod reshard;
mod snapshot;
mod sources;
mod upkeep;
mod upload;
mod visits;
mod warm;

use crate::testing::{V, clustering, key, schema};
use crate::{Config, Log, Storage, SyncMode};
use model::{TableSchema, TabletMap, Uuid};
use mutation::page::PageView;
use mutation::{
    Cell, CellState, ColumnForm, FrozenMutation, Marker, MutationBuilder, Partitions, ReadCommand,
    RowBuilder, SendRange,
};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

pub(crate) const SEGMENT: usize = 64 << 10;

/// Small segments and memtables, batch mode.
pub(crate) fn config() -> Config {
    Config {
        sync: SyncMode::Batch,
        segment_bytes: SEGMENT,
        commitlog_bytes_max: 16 * SEGMENT as u64,
        memtable_bytes_max: 256 << 10,
        row_cache_bytes_max: 768 << 10,
        write_wait_max: Duration::from_secs(30),
        ..Config::new("/n", Uuid::from_u128(7))
    }
}

/// Opens this shard's storage with tables 1 and 2.
pub(crate) async fn open(config: Config) -> Rc<Storage> {
    let storage = Storage::open(config).await.unwrap();
    for id in [1, 2] {
        let map = TabletMap::static_map(runtime::shard_count());
        let schema = Rc::new(schema(id, &format!("t{id}")));
        storage.add_table(schema, map, Log::Data).await.unwrap();
    }
    storage
}

/// Whether requests are refused at random.
fn refuses(storage: &Storage) -> bool {
    storage.shard().config.refuse_one_in.is_some()
}

/// A write of `value` to one row.
pub(crate) fn write(
    schema: &TableSchema,
    partition: u64,
    row: u32,
    timestamp: i64,
    value: &[u8],
) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &key(partition));
    let mut blob = RowBuilder::new(Vec::new());
    blob.marker(Marker::Live { timestamp });
    blob.cell(V, Cell { timestamp, state: CellState::Live { value } });
    builder.row(&clustering(&[row, 0]), &blob.finish());
    builder.freeze()
}

pub(crate) fn command(schema: &TableSchema, partitions: Partitions) -> ReadCommand {
    ReadCommand {
        columns: vec![(V, ColumnForm::ValueWithTimes)],
        ..ReadCommand::all(schema.id, partitions, 1_000)
    }
}

/// The first clustering value, and timestamp and value of `v`, of each row of a partition.
pub(crate) async fn rows(
    storage: &Storage,
    schema: &TableSchema,
    partition: u64,
) -> BTreeMap<u32, (i64, Vec<u8>)> {
    let mut command = command(schema, Partitions::Key(key(partition)));
    command.bytes_max = 1 << 30;
    let page = loop {
        match storage.read(&command).await {
            Err(reader::ReadError::Overloaded(_)) if refuses(storage) => {}
            page => break page.unwrap(),
        }
    };
    assert_eq!(page.resume, None);
    let view = PageView::parse(&page.bytes, command.layout()).unwrap();
    let mut out = BTreeMap::new();
    for partition in view.partitions() {
        for row in partition.rows() {
            let number = row.clustering()[2..6].try_into().map(u32::from_be_bytes).unwrap();
            let column = row.columns().next().unwrap();
            let timestamp = column.times.unwrap().timestamp;
            out.insert(number, (timestamp, column.value.unwrap_or_default().to_vec()));
        }
    }
    out
}
