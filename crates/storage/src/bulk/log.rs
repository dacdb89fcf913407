//! The log of a shard without tables.

use crate::commitlog::{self, Commitlog, ENTRY_HEADER, HeldEntries, LogStats, Refusal};
use crate::config::{Config, Log};
use crate::error::{StartError, WriteError};
use crate::shard::start::open_log;
use model::{TableId, Uuid};
use runtime::Erased;
use runtime::io::fs;
use runtime::sync::Notify;
use runtime::task::Scope;
use runtime::time::{Instant, timeout};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

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
    pub fn open(config: &Config) -> Erased<'_, Result<LoneLog, StartError>> {
        Erased::new(move || async move {
            fs::create_dir_all(&config.commitlog_dir).await?;
            let pressure = Rc::new(Notify::new());
            let log = open_log(config, Log::Data, &pressure).await?;
            let scope = Scope::new();
            commitlog::start(&log, &scope);
            let (held, wait_max) = (RefCell::default(), config.write_wait_max);
            Ok(LoneLog { log, held, pressure, wait_max, scope })
        })
    }

    /// Appends an entry, and waits until it is as durable as the mode promises. Waits for room as
    /// long as a write does; `payload` may have [`LoneLog::entry_bytes_max`].
    pub async fn append(&self, payload: &[u8]) -> Result<(), WriteError> {
        let deadline = Instant::now() + self.wait_max;
        if self.log.cuts(payload.len() + ENTRY_HEADER) {
            let turn = self.log.turn_to_cut(deadline).await?;
            let entries = [(Self::TABLE, payload)];
            let pieces = self.log.append_in_pieces(&entries, turn, deadline).await?;
            assert!(!pieces.segments().is_empty(), "released-after-durable: in no segment");
            pieces.segments().iter().for_each(|id| self.held.borrow_mut().add(*id, 1));
            return self.log.committed(pieces.applied()).await;
        }
        let appended = loop {
            match self.log.append(&[(Self::TABLE, payload)]) {
                Ok(appended) => {
                    self.held.borrow_mut().add(appended.position.segment, 1);
                    break appended;
                }
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Full(what)) => {
                    let left = deadline - Instant::now();
                    let waited = timeout(left, self.log.room_made()).await;
                    waited.map_err(|_| WriteError::Overloaded(what))?;
                }
            }
        };
        self.log.committed(appended).await
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
        self.log.discard(Self::TABLE, &entries.0, i64::MAX);
    }

    /// What the log did and holds.
    pub fn stats(&self) -> LogStats {
        self.log.stats()
    }

    /// Writes and syncs what was appended, and ends.
    pub fn stop(&self) -> Erased<'_, ()> {
        Erased::new(move || async move {
            self.log.stop().await;
            self.scope.cancel().await;
        })
    }
}
