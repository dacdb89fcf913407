//! The coordinator of one shard: takes reads and writes to where the data is.

use crate::error::{ReadError, WriteError};
use crate::options::{BatchKind, ReadOptions, WriteOptions};
use cluster::TableEntry;
use model::{TableId, TableSchema, Token};
use mutation::FrozenMutation;
use mutation::page::{Page, ReadCommand};
use std::future::Future;
use std::rc::Rc;

/// One mutation of a batch with its place.
pub struct BatchEntry {
    pub table: Rc<TableEntry>,
    pub token: Token,
    pub mutation: FrozenMutation,
}

/// Coordinates this shard's requests. Lives in `runtime::local`.
pub struct Coordinator {
    _private: (),
}

impl Coordinator {
    /// Writes one mutation of the partition at `token`.
    pub async fn write(
        &self,
        table: &TableEntry,
        token: Token,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let _ = (table, token, mutation, options);
        todo!()
    }

    /// Writes many. Logged: all or nothing, also across a crash. Unlogged: what belongs to one
    /// partition is written as one, the rest independently; the first error is returned.
    pub async fn write_batch(
        &self,
        kind: BatchKind,
        entries: Vec<BatchEntry>,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let _ = (kind, entries, options);
        todo!()
    }

    /// Adds to counters: cells of `mutation` are `CellState::CounterUpdate`.
    pub async fn increment(
        &self,
        table: &TableEntry,
        token: Token,
        mutation: FrozenMutation,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let _ = (table, token, mutation, options);
        todo!()
    }

    /// Reads one page: of one partition from its shard, of a range tablet by tablet until a limit
    /// of the command is reached. `token` is that of the key, for `Partitions::Key`; a range
    /// ignores it.
    pub async fn read(
        &self,
        table: &TableEntry,
        token: Token,
        command: ReadCommand,
        options: &ReadOptions,
    ) -> Result<Page, ReadError> {
        let _ = (table, token, command, options);
        todo!()
    }

    /// Runs a read-modify-write of the partition at `token` on the shard that owns it, while no
    /// other one of the same partition runs. The closure finds the services of that shard in
    /// `runtime::local`.
    pub async fn on_owner<F, Fut, R>(
        &self,
        table: &TableEntry,
        token: Token,
        options: &WriteOptions,
        change: F,
    ) -> Result<R, WriteError>
    where
        F: FnOnce(Owner) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
        R: Send + 'static,
    {
        let _ = (table, token, options, change);
        todo!()
    }

    /// Removes all rows of a table on all shards, those of writes in flight perhaps excepted.
    pub async fn truncate(&self, table: TableId) -> Result<(), WriteError> {
        let _ = table;
        todo!()
    }
}

/// A partition held for a read-modify-write, on the shard that owns it.
pub struct Owner {
    schema: Rc<TableSchema>,
}

impl Owner {
    /// The table, as this shard shows it now.
    pub fn schema(&self) -> &Rc<TableSchema> {
        &self.schema
    }
    /// Reads the partition as it is now.
    pub async fn read(&self, command: &ReadCommand) -> Result<Page, ReadError> {
        let _ = command;
        todo!()
    }
    /// Writes to the partition.
    pub async fn apply(&self, mutation: FrozenMutation) -> Result<(), WriteError> {
        let _ = mutation;
        todo!()
    }
}
