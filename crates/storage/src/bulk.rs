//! Filling a table without its log, merging all of it, and parts of a shard alone: for tools that
//! make data sets, or measure one part.
//!
//! Invariants
//!  - *for-tools-alone*: what is applied here is lost by a crash before its flush. No statement of
//!    a client comes this way.

mod cache;
mod log;

pub use cache::LoneCache;
pub use log::{LoneEntries, LoneLog};

use crate::error::{StorageError, WriteError};
use crate::shard::compact;
use crate::shard::write::Target;
use crate::storage::Storage;
use model::TableId;
use mutation::FrozenMutation;
use reader::ReadError;
use runtime::Erased;
use sstable::WriterOptions;

/// How a merge of all SSTables of a table writes; what is `None` is as the table has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rewrite {
    /// Bytes of rows after which the index of a partition has a new block.
    pub column_index_bytes: Option<usize>,
    /// The format.
    pub version: Option<sstable::Version>,
}

impl Storage {
    /// Puts a mutation into its memtable without a log entry (*for-tools-alone*). Never waits: the
    /// caller flushes before memory runs out.
    pub fn apply_unlogged(&self, mutation: &FrozenMutation) -> Result<(), WriteError> {
        let shard = self.shard();
        let Target { table, tablet, key, view, .. } = shard.target(mutation)?;
        debug_assert!(!table.derives.get(), "nothing-underived: {} has views", table.id);
        let memtable = tablet.active.borrow().clone();
        tablet.changes.note(key.token);
        memtable.apply(&table.schema(), key, &view);
        Ok(())
    }

    /// The formats of a table's SSTables.
    pub fn sstable_versions(&self, id: TableId) -> Vec<sstable::Version> {
        let tables = self.shard().table(id).map(|table| table.sstables()).unwrap_or_default();
        tables.iter().map(|one| one.descriptor().version).collect()
    }

    /// Merges all SSTables of a table into one per tablet, whatever its compaction options say.
    pub fn compact_all(&self, id: TableId, how: Rewrite) -> Erased<'_, Result<(), ReadError>> {
        Erased::new(move || async move {
            let table = self
                .shard()
                .table(id)
                .ok_or_else(|| ReadError::Overloaded(StorageError::UnknownTable(id).to_string()))?;
            let adjust = move |options: &mut WriterOptions| {
                if let Some(bytes) = how.column_index_bytes {
                    options.column_index_bytes = bytes;
                }
                if let Some(version) = how.version {
                    options.version = version;
                }
            };
            let shard = self.shard().clone();
            let merges = async move { compact::merge_all(&shard, &table, &adjust).await };
            // A caller who leaves leaves no merge halfway (*not-by-halves*).
            let merged = self.scope().spawn_in(runtime::group::MAINTENANCE, merges).await;
            merged.unwrap_or_else(|_| Err(ReadError::Overloaded("the node stops".to_string())))
        })
    }
}
