//! The door to merges, and to what is done to SSTables one by one.

use super::Storage;
use crate::compaction::pace::Pace;
use crate::compaction::report::{
    CompactionKind, CompactionStats, FinishedCompaction, RunningCompaction,
};
use crate::error::StorageError;
use crate::shard::compact::{self, Cleared, Invalid, Upkeep, UpkeepDone};
use crate::table::{Table, TokenRanges};
use model::{TableId, Token, Uuid};
use reader::ReadError;
use runtime::Erased;
use runtime::group;
use std::rc::Rc;

impl Storage {
    /// Whether the table is compacted without being asked for.
    pub fn auto_compaction(&self, id: TableId) -> bool {
        self.shard().table(id).is_some_and(|table| table.auto_compaction.get())
    }

    /// Whether the table is compacted without being asked for, from now until the node stops. An
    /// unknown table is ignored.
    pub fn set_auto_compaction(&self, id: TableId, wanted: bool) {
        if let Some(table) = self.shard().table(id) {
            table.auto_compaction.set(wanted);
            self.shard().compaction_wake.notify_one();
        }
    }

    /// Whether the table is being filled with what was there before it, as a view is that is being
    /// built, from now until somebody says otherwise or the node stops. What is flushed of it is
    /// not cached meanwhile, and its merges wait until many SSTables can be merged at once. An
    /// unknown table is ignored.
    pub fn set_filling(&self, id: TableId, filling: bool) {
        let Some(table) = self.shard().table(id) else { return };
        if table.filling.replace(filling) != filling {
            table.tablets().iter().for_each(|tablet| tablet.backlog.forget());
            self.shard().compaction_wake.notify_one();
        }
    }

    /// How many compactions of a table its options ask for now.
    pub fn pending_compactions(&self, id: TableId) -> usize {
        self.shard().table(id).map_or(0, |table| compact::pending(self.shard(), &table))
    }

    /// Lets the logs go on in other segments, so that the present ones are removed when all they
    /// hold is flushed: merges may forget no deletion that is newer than what a log has.
    pub fn close_log_segments(&self) {
        self.shard().logs().for_each(|log| log.close_segment());
    }

    /// When a repair had taken all deletions of a table between two tokens, these included, to all
    /// their replicas, in seconds since 1970: with `tombstone_gc` of mode `repair`, merges forget
    /// there those that are older. An unknown table is ignored.
    pub fn note_repair(&self, id: TableId, tokens: (Token, Token), at: i64) {
        if let Some(table) = self.shard().table(id) {
            table.repairs.borrow_mut().note(tokens, at);
            self.shard().compaction_wake.notify_one();
        }
    }

    /// When the part of a range was repaired whose repair is longest ago, in seconds since 1970;
    /// `None`: a part never was.
    pub fn repaired_at(&self, id: TableId, tokens: (Token, Token)) -> Option<i64> {
        debug_assert!(tokens.0 <= tokens.1, "a range from {:?} to {:?}", tokens.0, tokens.1);
        self.shard().table(id)?.repairs.borrow().least(tokens)
    }

    /// The second before which all deletions of a table between two tokens, these included, are old
    /// enough by now to be forgotten, as its options say, whether or not merges may forget them
    /// yet; `i64::MIN`: none is.
    pub fn deletions_before(&self, id: TableId, tokens: (Token, Token), now: i64) -> i64 {
        let table = self.shard().table(id);
        table.map_or(i64::MIN, |table| compact::deletions_before(&table, tokens, now))
    }

    /// How often what this shard has of a table between two tokens, these included, has changed,
    /// from some number on; of the same table it is the same later only if nothing has changed.
    pub fn changes(&self, id: TableId, tokens: (Token, Token)) -> Option<u64> {
        Some(self.shard().table(id)?.changes(tokens))
    }

    /// What is being merged on this shard.
    pub fn running_compactions(&self) -> Vec<RunningCompaction> {
        self.shard().compactions.running()
    }

    /// The merges of this shard in figures.
    pub fn compaction_stats(&self) -> CompactionStats {
        self.shard().compactions.stats()
    }

    /// How many SSTables of this shard were found damaged since they were opened: merges leave
    /// them alone.
    pub fn damaged_sstables(&self) -> usize {
        let tables = self.shard().tables.borrow();
        let damaged =
            |table: &Rc<Table>| table.sstables().iter().filter(|one| one.is_damaged()).count();
        tables.values().map(damaged).sum()
    }

    /// Says how fast merges may go, from now on.
    pub fn set_compaction_pace(&self, pace: Pace) {
        self.shard().compactions.pacer.set(pace);
    }

    /// The merges of this shard that have ended since they were taken last: each is told once.
    /// Those of which nobody has asked for long are forgotten.
    pub fn take_finished_compactions(&self) -> Vec<FinishedCompaction> {
        self.shard().compactions.take_finished()
    }

    /// Does that to each SSTable of a table that lies in a tablet of this shard. A caller who
    /// leaves leaves nothing halfway.
    pub fn keep_up(&self, id: TableId, what: Upkeep) -> Erased<'_, Result<UpkeepDone, ReadError>> {
        Erased::new(move || async move {
            let table = self.table_of(id)?;
            let (shard, of_task) = (self.shard().clone(), table.clone());
            let task = async move { compact::upkeep(&shard, &of_task, what).await };
            let done = self.scope().spawn_in(group::MAINTENANCE, task).await;
            let stops = || Err(ReadError::Overloaded("the node stops".to_string()));
            let mut done = done.unwrap_or_else(|_| stops())?;
            if matches!(what, Upkeep::Validate(_)) {
                done.invalid.extend(compact::not_opened(&table));
            }
            if what == Upkeep::Validate(Invalid::PutAside) {
                for name in &done.invalid {
                    self.quarantine(id, name)
                        .await
                        .map_err(|error| ReadError::Overloaded(error.to_string()))?;
                }
            }
            Ok(done)
        })
    }

    /// Does that to what lies in `quarantine/` of a table. What is scrubbed is in use again, on
    /// whatever shard it belongs to. On shard 0 alone.
    pub fn keep_up_quarantined(
        &self,
        id: TableId,
        what: Upkeep,
    ) -> Erased<'_, Result<UpkeepDone, ReadError>> {
        Erased::new(move || async move { self.shard().keep_up_quarantined(id, what).await })
    }

    /// Asks what is done to SSTables of this shard to end, of these tables, or of all.
    pub fn stop_compactions(&self, kind: CompactionKind, tables: Option<&[TableId]>) {
        self.shard().compactions.stop(kind, tables);
    }

    /// Asks one thing that is done to SSTables of this shard to end; whether it is under way here.
    pub fn stop_compaction(&self, id: Uuid) -> bool {
        self.shard().compactions.stop_one(id)
    }

    /// Waits until a merge of this shard has ended: whether it did what it was to do, and was not
    /// stopped nor met an error. `None`: it is neither under way nor one of the last that were.
    pub fn end_of_compaction(&self, id: Uuid) -> Erased<'_, Option<bool>> {
        Erased::new(move || async move { self.shard().compactions.end_of(id).await })
    }

    /// Has each tablet of this shard write its part of the SSTables of a table that lie in several
    /// tablets, as the shard does by itself when it comes to it. Where it is called on all shards,
    /// such SSTables are gone when all have ended. A caller who leaves leaves nothing halfway.
    pub fn reshard(&self, id: TableId) -> Erased<'_, Result<(), ReadError>> {
        Erased::new(move || async move {
            let table = self.table_of(id)?;
            let shard = self.shard().clone();
            let parts = async move {
                let written = compact::part_alone(&shard, &table).await;
                // Who has done last asks last.
                let is_left = shard.ask_for_removals().await;
                debug_assert!(
                    is_left || table.let_go.borrow().is_empty() || table.dropped.get(),
                    "let-go-is-not-gone: {} keeps what nobody asks for",
                    table.name()
                );
                written
            };
            let written = self.scope().spawn_in(group::MAINTENANCE, parts).await;
            written.unwrap_or_else(|_| Err(ReadError::Overloaded("the node stops".to_string())))
        })
    }

    /// Removes all of a table that lies in ranges of tokens from this shard: of ranges that the
    /// node does not own any more (`nodetool cleanup`), or before it receives them and may have had
    /// them in an earlier time. Each is after its first token, up to and including its second;
    /// after `Token::MIN` begins the ring. They ascend and share no token.
    ///
    /// Once this returns nothing that was written to them before it began is there, nor after any
    /// crash; the rest is as it was. A caller runs it on all shards, at the same time or one after
    /// the other, and sees to it that nobody writes to the ranges meanwhile: what is written may be
    /// there afterwards or not, each mutation as a whole, and may be back after a crash. Where it
    /// fails, or the node stops before it returns, the ranges have what they had, or a part of it:
    /// they are not to be read or received before it was called again. A caller who leaves leaves
    /// nothing halfway. Where there is nothing it costs nothing.
    ///
    /// It is listed as `Cleanup`, and `stop_compactions` of that kind ends it with
    /// [`ReadError::Stopped`].
    pub fn clear(
        &self,
        id: TableId,
        ranges: Vec<(Token, Token)>,
    ) -> Erased<'_, Result<Cleared, StorageError>> {
        Erased::new(move || async move {
            let table = self.shard().table(id).ok_or(StorageError::UnknownTable(id))?;
            let (shard, ranges) = (self.shard().clone(), TokenRanges::new(ranges));
            let task = async move { compact::clear(&shard, &table, ranges).await };
            let done = self.scope().spawn_in(group::MAINTENANCE, task).await;
            done.unwrap_or(Err(StorageError::Stopped))
        })
    }

    fn table_of(&self, id: TableId) -> Result<Rc<Table>, ReadError> {
        self.shard().table(id).ok_or_else(|| unknown(id))
    }
}

fn unknown(id: TableId) -> ReadError {
    ReadError::Overloaded(StorageError::UnknownTable(id).to_string())
}
