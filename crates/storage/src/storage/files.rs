//! The door to files of tables: what comes from elsewhere, what other nodes give and get, what is
//! put aside, snapshots, backups.

use super::Storage;
use crate::cache::WarmPartition;
use crate::error::StorageError;
use crate::shard::carry::{Arrived, ArrivingSstable, Given};
use crate::shard::import::Import;
use crate::shard::snapshot::{
    OpenSnapshot, Snapshot, SnapshotError, SnapshotFilter, SnapshotOrder, SnapshotPlace,
    SnapshotTag,
};
use crate::shard::upload::{Checks, Loaded};
use crate::shard::warm::WarmPage;
use model::{Keyspace, TableId, TableSchema, Token};
use reader::ReadError;
use runtime::Erased;
use std::rc::Rc;
use std::time::Duration;

impl Storage {
    /// Takes over what is in `upload/` of a table, on any shard.
    pub fn load_new(
        &self,
        id: TableId,
        checks: Checks,
    ) -> Erased<'_, Result<Loaded, StorageError>> {
        Erased::new(move || async move { self.shard().load_new(id, checks).await })
    }

    /// Takes over the SSTables of a directory, on any shard. The error says why none was.
    pub fn import(&self, id: TableId, order: Import) -> Erased<'_, Result<Loaded, String>> {
        Erased::new(move || async move { self.shard().import(id, order).await })
    }

    /// Puts a damaged SSTable aside, on any shard: no shard reads it any more, and its files are
    /// in `quarantine/` of the table's directory. `name` is that of its data file. False where
    /// the table has no such file. Reads of the table that failed for this file go on without it.
    pub fn quarantine<'a>(
        &'a self,
        id: TableId,
        name: &'a str,
    ) -> Erased<'a, Result<bool, StorageError>> {
        Erased::new(move || async move { self.shard().quarantine(id, name).await })
    }

    /// Whether this shard makes incremental backups.
    pub fn incremental_backups(&self) -> bool {
        self.shard().incremental_backups.get()
    }

    /// Says whether this shard makes incremental backups of what is written or taken over from now
    /// on, until the node stops.
    pub fn set_incremental_backups(&self, wanted: bool) {
        self.shard().incremental_backups.set(wanted);
    }

    /// Takes a snapshot of each table, on any shard: all shards' part of it, in one directory. A
    /// table that is not there any more is passed over. Nothing is done where one of them has a
    /// snapshot of that name; what an error interrupts is cleared again.
    pub fn take_snapshot(
        &self,
        tables: Vec<TableId>,
        order: SnapshotOrder,
    ) -> Erased<'_, Result<(), SnapshotError>> {
        Erased::new(move || async move { self.shard().take_snapshot(tables, order).await })
    }

    /// Every snapshot in the data directory.
    pub fn snapshots(&self) -> Erased<'_, Result<Vec<Snapshot>, SnapshotError>> {
        Erased::new(move || async move { self.shard().snapshots().await })
    }

    /// Opens a snapshot on this shard, as rows of a table of that schema. `None`: there is none, or
    /// it was never finished.
    pub fn open_snapshot<'a>(
        &'a self,
        place: &'a SnapshotPlace,
        schema: Rc<TableSchema>,
    ) -> Erased<'a, Result<Option<OpenSnapshot>, StorageError>> {
        Erased::new(move || async move { self.shard().open_snapshot(place, schema).await })
    }

    /// Removes snapshots, on any shard; how many.
    pub fn clear_snapshots(
        &self,
        filter: SnapshotFilter,
    ) -> Erased<'_, Result<usize, SnapshotError>> {
        Erased::new(move || async move { self.shard().clear_snapshots(filter).await })
    }

    /// Clears snapshots whose time is over, on shard 0, as long as it is polled.
    pub fn expire_snapshots(&self) -> Erased<'_, ()> {
        Erased::new(move || async move {
            self.shard().expire_snapshots().await;
        })
    }

    /// On shard 0, when all shards have dropped a table ([`Storage::drop_table`]): completes the
    /// snapshot that they made of it, if they were told to make one, and removes what is left of
    /// its directory beside snapshots and backups. `keyspace` is the one that it was in, which may
    /// be gone too.
    pub fn complete_dropped<'a>(
        &'a self,
        schema: &'a TableSchema,
        keyspace: Option<&'a Keyspace>,
        made: Option<(&'a SnapshotTag, Option<Duration>)>,
    ) -> Erased<'a, Result<(), SnapshotError>> {
        Erased::new(
            move || async move { self.shard().complete_dropped(schema, keyspace, made).await },
        )
    }

    /// Gives another node what this one has of a table after the first token, up to and including
    /// the second, as files (`shard::carry`): all that was written before, of all shards. `None`
    /// where some of it lies in SSTables that have something else as well. On any shard. What is
    /// given takes room on the disk until it is released.
    pub fn give(
        &self,
        id: TableId,
        range: (Token, Token),
    ) -> Erased<'_, Result<Option<Given>, StorageError>> {
        Erased::new(move || async move { self.shard().give(id, range).await })
    }

    /// Begins an SSTable that another node gives, with its version and its TOC; `source` says what
    /// it was there. On the shard that is to write it.
    pub fn receive<'a>(
        &'a self,
        id: TableId,
        (version, source): (&'a str, String),
        toc: &'a [u8],
    ) -> Erased<'a, Result<ArrivingSstable, StorageError>> {
        Erased::new(move || async move { self.shard().receive(id, (version, source), toc).await })
    }

    /// What has arrived of a range is in the table from now on, on the shards that have its
    /// tablets, all of it; after an error nothing of it is, and its files are gone. On shard 0.
    pub fn join_arrived(
        &self,
        id: TableId,
        range: (Token, Token),
        arrived: Vec<Arrived>,
    ) -> Erased<'_, Result<(), StorageError>> {
        Erased::new(move || async move { self.shard().join_arrived(id, range, arrived).await })
    }

    /// Removes the files of what has arrived and is not to join, on any shard.
    pub fn drop_arrived(&self, id: TableId, arrived: Vec<Arrived>) -> Erased<'_, ()> {
        Erased::new(move || async move { self.shard().drop_arrived(id, &arrived).await })
    }

    /// What this shard's cache has of a table after the first token, up to and including the
    /// second, and was asked for again since it came: about so many bytes of keys and ranges at a
    /// time.
    pub fn warm_partitions(
        &self,
        id: TableId,
        range: (Token, Token),
        bytes_max: usize,
    ) -> Erased<'_, Result<WarmPage, ReadError>> {
        Erased::new(move || async move { self.shard().warm_partitions(id, range, bytes_max).await })
    }

    /// Reads partitions of this shard into its cache, where it knows nothing of them; how many were
    /// read. The ranges of each stand apart, in the table's order.
    pub fn warm_up(
        &self,
        id: TableId,
        partitions: Vec<WarmPartition>,
    ) -> Erased<'_, Result<usize, ReadError>> {
        Erased::new(move || async move { self.shard().warm_up(id, partitions).await })
    }

    /// From now on something may arrive on this shard that is older than what it has: merges forget
    /// no deletion of the table, as often as this was said and not taken back. An unknown table is
    /// ignored.
    pub fn begin_arrivals(&self, id: TableId) {
        if let Some(table) = self.shard().table(id) {
            table.arriving.set(table.arriving.get() + 1);
        }
    }

    /// Takes back what [`Storage::begin_arrivals`] said.
    pub fn end_arrivals(&self, id: TableId) {
        if let Some(table) = self.shard().table(id) {
            debug_assert!(0 < table.arriving.get(), "nothing-forgotten: more end than began");
            table.arriving.set(table.arriving.get().saturating_sub(1));
            self.shard().compaction_wake.notify_one();
        }
    }
}
