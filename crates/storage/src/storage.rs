//! The door of the crate: one shard's tables and logs behind one object.

use crate::commitlog::LogStats;
use crate::{Config, Log, PartitionGuard, StartError, StorageError, WriteError};
use model::{TableId, TableSchema, TabletMap};
use mutation::FrozenMutation;
use mutation::page::{Page, ReadCommand};
use reader::ReadError;
use std::rc::Rc;

/// One shard's storage.
pub struct Storage {
    config: Config,
}

/// What a replay found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayStats {
    /// Files read.
    pub segments: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Entries applied.
    pub applied: u64,
    /// Entries skipped: their table was dropped.
    pub unknown_table: u64,
    /// Entries skipped: their table was truncated later.
    pub truncated: u64,
    /// Entries skipped: they are no mutations.
    pub invalid: u64,
    /// Bytes between valid data that could not be read.
    pub corrupt_bytes: u64,
    /// Files of which nothing could be read.
    pub broken_files: u64,
}

/// The state of a table on this shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Bytes of memtables, sealed ones included.
    pub memtable_bytes: u64,
    /// SSTables.
    pub sstables: u64,
    /// Bytes of the data files of the SSTables.
    pub sstable_bytes: u64,
    /// Estimated partitions, duplicates counted.
    pub partitions: u64,
}

impl Storage {
    /// Creates missing directories and lists the segments left by earlier runs. Also puts itself
    /// into this shard's slot of [`runtime::local`], where the replay finds it.
    pub async fn open(config: Config) -> Result<Rc<Storage>, StartError> {
        let _ = &config;
        todo!()
    }

    /// Makes a table known: creates its directory, opens its SSTables that intersect the tablets
    /// of this shard.
    ///
    /// A damaged SSTable is set aside with its name in the log; the table is served without it
    /// only if the configuration says so, and is otherwise refused here, the others not.
    pub async fn add_table(
        &self,
        schema: Rc<TableSchema>,
        tablets: TabletMap,
        log: Log,
    ) -> Result<(), StorageError> {
        let _ = (schema, tablets, log, &self.config);
        todo!()
    }

    /// Later writes and flushes use `schema`. An unknown table is ignored.
    pub fn alter_table(&self, schema: Rc<TableSchema>) {
        let _ = schema;
        todo!()
    }

    /// Forgets a table and removes its files on this shard. The caller has made the drop durable.
    /// With `snapshot`, the SSTables stay as `snapshots/<name>/`.
    pub async fn drop_table(
        &self,
        id: TableId,
        snapshot: Option<&str>,
    ) -> Result<(), StorageError> {
        let _ = (id, snapshot);
        todo!()
    }

    /// Removes what the table holds on this shard, for good once this returns.
    pub async fn truncate(&self, id: TableId, at_micros: i64) -> Result<(), StorageError> {
        let _ = (id, at_micros);
        todo!()
    }

    /// Applies what earlier runs logged; called once per log, on shard 0, when its tables are
    /// known on all shards and before anything is written to them. The old segments are removed
    /// when what they hold is flushed.
    pub async fn replay(&self, log: Log) -> Result<ReplayStats, StartError> {
        let _ = log;
        todo!()
    }

    /// Writes one mutation of a partition of this shard.
    pub async fn apply(&self, mutation: FrozenMutation) -> Result<(), WriteError> {
        let _ = mutation;
        todo!()
    }

    /// Writes mutations of partitions of this shard whose tables share a log: after a crash all
    /// are there, or none.
    pub async fn apply_all(&self, mutations: Vec<FrozenMutation>) -> Result<(), WriteError> {
        let _ = mutations;
        todo!()
    }

    /// Answers a page from memtables and SSTables of this shard.
    pub async fn read(&self, command: &ReadCommand) -> Result<Page, ReadError> {
        let _ = command;
        todo!()
    }

    /// Waits for the partition's lock. Serializes those who ask for it, nobody else.
    pub async fn lock_partition(&self, table: TableId, key: &[u8]) -> PartitionGuard {
        let _ = (table, key);
        todo!()
    }

    /// Writes the table's memtables to SSTables.
    pub async fn flush(&self, id: TableId) -> Result<(), StorageError> {
        let _ = id;
        todo!()
    }

    /// Flushes all tables.
    pub async fn flush_all(&self) -> Result<(), StorageError> {
        todo!()
    }

    /// Flushes, syncs and closes; later calls are refused. Empties the slot of
    /// [`runtime::local`].
    pub async fn stop(&self) -> Result<(), StorageError> {
        todo!()
    }

    /// The state of a table.
    pub fn table_stats(&self, id: TableId) -> Option<TableStats> {
        let _ = id;
        todo!()
    }

    /// Bytes of all memtables.
    pub fn dirty_bytes(&self) -> usize {
        todo!()
    }

    /// The state of a log; `None` for the schema log of a shard other than 0.
    pub fn log_stats(&self, log: Log) -> Option<LogStats> {
        let _ = log;
        todo!()
    }
}
