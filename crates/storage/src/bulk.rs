//! Filling a table without its log, merging all of it, and a log without tables: for tools that
//! make data sets, or measure one part of a shard alone.
//!
//! Invariants
//!  - *for-tools-alone*: what is applied here is lost by a crash before its flush. No statement of
//!    a client comes this way.

use crate::commitlog::{self, Commitlog, HeldEntries, LogStats, Refusal};
use crate::shard::{self, Target};
use crate::{Config, Log, StartError, Storage, StorageError, WriteError, compaction};
use model::{TableId, Uuid};
use mutation::FrozenMutation;
use reader::ReadError;
use runtime::io::fs;
use runtime::sync::Notify;
use runtime::task::Scope;
use runtime::time::{Instant, timeout};
use sstable::WriterOptions;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

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
        let Target { table, tablet, key, view } = shard.target(mutation)?;
        let memtable = tablet.active.borrow().clone();
        memtable.apply(&table.schema(), key, &view);
        Ok(())
    }

    /// The formats of a table's SSTables.
    pub fn sstable_versions(&self, id: TableId) -> Vec<sstable::Version> {
        let tables = self.shard().table(id).map(|table| table.sstables()).unwrap_or_default();
        tables.iter().map(|one| one.descriptor().version).collect()
    }

    /// Merges all SSTables of a table into one per tablet, whatever its compaction options say.
    pub async fn compact_all(&self, id: TableId, how: Rewrite) -> Result<(), ReadError> {
        let table = self
            .shard()
            .table(id)
            .ok_or_else(|| ReadError::Overloaded(StorageError::UnknownTable(id).to_string()))?;
        let adjust = |options: &mut WriterOptions| {
            if let Some(bytes) = how.column_index_bytes {
                options.column_index_bytes = bytes;
            }
            if let Some(version) = how.version {
                options.version = version;
            }
        };
        for tablet in &table.tablets {
            compaction::merge_all(self.shard(), &table, tablet, &adjust).await?;
        }
        Ok(())
    }
}

/// A data log whose entries are of no table (*for-tools-alone*). Stop it before it is dropped.
pub struct LoneLog {
    log: Rc<Commitlog>,
    /// What was appended and not released.
    held: RefCell<HeldEntries>,
    pressure: Rc<Notify>,
    wait_max: Duration,
    scope: Scope,
}

/// Entries that [`LoneLog::release`] lets go of.
pub struct LoneEntries(HeldEntries);

impl LoneLog {
    const TABLE: TableId = Uuid::nil();

    /// A new log in the directory of the configuration, with its limits and its mode.
    pub async fn open(config: &Config) -> Result<LoneLog, StartError> {
        fs::create_dir_all(&config.commitlog_dir).await?;
        let pressure = Rc::new(Notify::new());
        let log = shard::open_log(config, Log::Data, &pressure).await?;
        let scope = Scope::new();
        commitlog::start(&log, &scope);
        let (held, wait_max) = (RefCell::default(), config.write_wait_max);
        Ok(LoneLog { log, held, pressure, wait_max, scope })
    }

    /// Appends an entry, and waits until it is as durable as the mode promises. Waits for room as
    /// long as a write does; `payload` may have [`LoneLog::entry_bytes_max`].
    pub async fn append(&self, payload: &[u8]) -> Result<(), WriteError> {
        let deadline = Instant::now() + self.wait_max;
        let chunk = loop {
            match self.log.append(&[(Self::TABLE, payload)]) {
                Ok(appended) => {
                    self.held.borrow_mut().add(appended.position.segment, 1);
                    break appended.chunk;
                }
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Full(what)) => {
                    let left = deadline - Instant::now();
                    let waited = timeout(left, self.log.room_made()).await;
                    waited.map_err(|_| WriteError::Overloaded(what))?;
                }
            }
        };
        self.log.committed(chunk).await
    }

    /// The largest entry that is taken, its header included.
    pub fn entry_bytes_max(&self) -> usize {
        self.log.entry_bytes_max()
    }

    /// Waits until the log asks for memtables to be flushed, so that it can let go of segments:
    /// what it holds then.
    pub async fn flush_wanted(&self) -> LoneEntries {
        while self.log.take_flush_wanted().is_empty() {
            self.pressure.notified().await;
        }
        LoneEntries(self.held.take())
    }

    /// The entries need no log any more, as those of a memtable that was flushed.
    pub fn release(&self, entries: &LoneEntries) {
        self.log.discard(Self::TABLE, &entries.0);
    }

    /// What the log did and holds.
    pub fn stats(&self) -> LogStats {
        self.log.stats()
    }

    /// Writes and syncs what was appended, and ends.
    pub async fn stop(&self) {
        self.log.stop().await;
        self.scope.cancel().await;
    }
}
