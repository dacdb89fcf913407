//! Truncating and dropping tables.
//!
//! Order of a truncation: writers are cut off from what is there by sealing it; the record of the
//! truncation becomes durable; then memtables, log entries and SSTables go. A crash before the
//! record leaves all, a crash after it leaves nothing.
//!
//! Invariants
//!  - *cut-off*: what was written before is sealed, and its log entries lie before the place that
//!    the record names; what is written after is not, and they do not.
//!  - *dropped-is-gone*: a table that is dropped is not known afterwards, whatever its snapshot
//!    came to: that it is dropped is durable already.

use super::{Shard, snapshot};
use crate::commitlog::{ReplayPosition, files};
use crate::error::StorageError;
use crate::table::dir::prepare_dir;
use crate::table::truncation::{self, Truncation};
use crate::table::{GATE_UNITS, Table, quiet};
use model::{TableId, Token};
use runtime::io::fs;
use runtime::time::wall_micros;
use sstable::store::{self, Component};
use std::rc::Rc;

impl Shard {
    pub(crate) async fn truncate(
        &self,
        id: TableId,
        at_micros: i64,
    ) -> Result<Option<ReplayPosition>, StorageError> {
        let table = self.table(id).ok_or(StorageError::UnknownTable(id))?;
        if table.tablets().is_empty() {
            return Ok(None);
        }
        let _quiet = quiet(&table).await;
        let before = self.log_of(table.log).position();
        self.seal_all(&table);
        let (tablets, memtables) = (table.tablets(), table.sealed_memtables());
        assert!(
            tablets.iter().all(|tablet| tablet.active.borrow().is_empty()),
            "cut-off: writes that were there are not sealed"
        );
        assert!(
            memtables.iter().all(|one| one.newest_segment() <= Some(before.segment)),
            "cut-off: entries of what is truncated lie behind {before}"
        );
        let sstables = table.sstables();
        // What could not be opened now may be at the next start.
        let unopened: Vec<_> =
            table.broken.borrow().iter().filter_map(|one| one.descriptor).collect();
        let mut left = table.unremoved.borrow().clone();
        left.extend(&unopened);
        left.extend(table.let_go.borrow().iter().copied());
        let gone = sstables.iter().map(|one| one.descriptor()).chain(left);
        let record = Truncation {
            at_micros,
            before,
            old_base_max: self.replay_state(table.log).old_base_max.get(),
            tablets: tablets.iter().map(|tablet| tablet.range).collect(),
            // A ring is one tablet here.
            share: tablets.first().and_then(|tablet| tablet.share),
            sstables: gone.map(|one| one.file_name(Component::Data)).collect(),
        };
        assert!(
            record.tablets.is_sorted_by(|a, b| a.1 <= b.0),
            "tablets-in-order: {:?}",
            record.tablets
        );
        prepare_dir(&self.config.data_dir, &table).await?;
        files::mark(&self.log_dir(table.log), before.segment).await?;
        truncation::store(&table.dir, &record, &self.needed_beside(&table, &record)).await?;
        for memtable in &memtables {
            let had = tablets.iter().filter(|tablet| tablet.remove_sealed(memtable));
            if 0 < had.count() {
                self.let_go(&table, memtable);
            }
        }
        tablets.iter().for_each(|tablet| tablet.forget(|_| true));
        debug_assert!(table.sstables().is_empty(), "a truncation that leaves SSTables");
        table.truncations.borrow_mut().push(record);
        table.broken.borrow_mut().clear();
        // Other shards may have those as well, and do not truncate yet.
        let (shared, own): (Vec<_>, Vec<_>) =
            sstables.into_iter().partition(|one| table.is_shared(one));
        let shared = shared.iter().map(|one| one.descriptor());
        self.let_go_of(&table, shared.chain(unopened));
        for one in &own {
            table.remove_sstable(one.descriptor()).await;
        }
        Ok(Some(before))
    }

    /// Makes it durable that what the log has of these ranges before that place is gone: it is all
    /// in SSTables (`shard::compact::clear`). In the gate, and one after the other.
    pub(crate) async fn record_cleared(
        &self,
        table: &Table,
        ranges: Vec<(Token, Token)>,
        before: ReplayPosition,
    ) -> Result<(), StorageError> {
        debug_assert!(table.gate.available() < GATE_UNITS, "cut-off: nobody is in the gate");
        debug_assert!(table.clearing.available() == 0, "one-writer: two at a time");
        let record = Truncation {
            at_micros: wall_micros(),
            before,
            old_base_max: self.replay_state(table.log).old_base_max.get(),
            tablets: ranges,
            share: table.tablets().first().and_then(|tablet| tablet.share),
            sstables: Vec::new(),
        };
        let needed = self.needed_beside_cleared(table, &record);
        prepare_dir(&self.config.data_dir, table).await?;
        files::mark(&self.log_dir(table.log), before.segment).await?;
        truncation::store(&table.dir, &record, &needed).await?;
        let shard = before.segment.shard();
        let mut all = table.truncations.borrow_mut();
        all.retain(|one| one.before.segment.shard() != shard);
        all.extend(needed);
        all.push(record);
        Ok(())
    }

    /// What the file has to go on saying beside that ranges are cleared: what the log may bring
    /// back, and what could not be removed.
    fn needed_beside_cleared(&self, table: &Table, new: &Truncation) -> Vec<Truncation> {
        let oldest = self.log_of(table.log).oldest_segment();
        let old_gone = self.replay_state(table.log).old_gone.get();
        let mut staying = table.unremoved.borrow().clone();
        staying.extend(table.let_go.borrow().iter());
        let stays =
            |name: &String| staying.iter().any(|one| one.file_name(Component::Data) == *name);
        let is_needed = |one: &&Truncation| {
            let logged = !old_gone || oldest.is_some_and(|oldest| oldest <= one.before.segment);
            let is_older = one.before <= new.before && one.old_base_max <= new.old_base_max;
            one.sstables.iter().any(stays) || (logged && !(is_older && one.is_within(new)))
        };
        let all = table.truncations.borrow();
        let own = all.iter().filter(|one| one.before.segment.shard() == new.before.segment.shard());
        own.filter(is_needed).cloned().collect()
    }

    /// What the file of a truncation says already, and has to go on saying: segments are still
    /// there, of earlier runs or of this one, in which this shard had another part of the ring.
    fn needed_beside(&self, table: &Table, new: &Truncation) -> Vec<Truncation> {
        let oldest = self.log_of(table.log).oldest_segment();
        let old_gone = self.replay_state(table.log).old_gone.get();
        let is_needed = |one: &&Truncation| {
            let is_own = one.before.segment.shard() == new.before.segment.shard();
            let logged = !old_gone || oldest.is_some_and(|oldest| oldest <= one.before.segment);
            is_own && logged && !one.is_within(new)
        };
        table.truncations.borrow().iter().filter(is_needed).cloned().collect()
    }

    pub(crate) async fn drop_table(
        &self,
        id: TableId,
        tag: Option<&str>,
    ) -> Result<(), StorageError> {
        let table = self.table(id).ok_or(StorageError::UnknownTable(id))?;
        if let Some(name) = tag
            && let Err(error) = self.keep_before_drop(&table, name).await
        {
            let table = &table.schema.borrow().name;
            tracing::warn!("snapshot {name} of the dropped table {table} is incomplete: {error}");
        }
        self.tables.borrow_mut().remove(&id);
        table.dropped.set(true);
        self.seal_all(&table);
        let sealed = table.sealed_memtables();
        table.tablets().iter().for_each(|tablet| drop(tablet.sealed.take()));
        sealed.iter().for_each(|memtable| self.let_go(&table, memtable));
        // A flush that pauses after an error sees that it is not wanted any more.
        self.retry_now.notify_all();
        let _quiet = quiet(&table).await;
        let sstables = table.sstables();
        for tablet in table.tablets().iter() {
            assert!(tablet.sealed.borrow().is_empty(), "a dropped table with memtables");
            tablet.forget(|_| true);
        }
        let staying = snapshot::staying(&table.dir).await;
        let keep_dir = tag.is_some() || staying.map_or(true, |names| !names.is_empty());
        self.remove_files(&table, &sstables, keep_dir).await;
        debug_assert!(self.table(id).is_none(), "dropped-is-gone: {id} is there again");
        Ok(())
    }

    /// Links what a table has that is about to be dropped, which nothing stops: where its memtables
    /// cannot be written, what is in SSTables.
    async fn keep_before_drop(&self, table: &Rc<Table>, name: &str) -> Result<(), StorageError> {
        let flushed = self.flush_table(table).await;
        let _quiet = quiet(table).await;
        snapshot::link(&table.dir, &table.sstables(), name).await?;
        flushed
    }

    /// Best effort: what stays is in the directory of a table that is not known any more.
    async fn remove_files(&self, table: &Table, sstables: &[Rc<sstable::Table>], keep_dir: bool) {
        let removed = if keep_dir {
            let mut removed = Ok(());
            // What other shards have as well goes with what is left of the directory.
            for one in sstables.iter().filter(|one| !table.is_shared(one)) {
                removed = removed.and(store::remove(&table.dir, one.descriptor()).await);
            }
            removed
        } else {
            match fs::remove_dir_all(&table.dir).await {
                Err(error) if error.is_not_found() => Ok(()),
                other => other,
            }
        };
        if let Err(error) = removed {
            tracing::warn!("files of a dropped table stay: {error}");
        }
    }
}
