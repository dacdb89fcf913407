//! Writes to what is large: refused above the upper limits of their table, told above the lower
//! ones. What is known to be large, and the invariants, are in `large_data`.

use super::Shard;
use crate::error::WriteError;
use crate::large_data::{Exceeded, Found, Known, Measure, SizeLimits, Watch};
use crate::table::{Table, Tablet};
use model::{TableSchema, Token};
use mutation::{FrozenMutation, FrozenView};
use runtime::time::Instant;
use std::time::Duration;

/// The log is told of writes to what is large at most this often, for a table and a kind.
const TOLD_PERIOD: Duration = Duration::from_secs(1);

impl Tablet {
    /// What memtables and SSTables know of what a mutation touches.
    fn look(&self, schema: &TableSchema, view: &FrozenView<'_>) -> Found {
        let mut found = Found::default();
        self.known.borrow().look(schema, view, &mut found);
        self.active.borrow().known().look(schema, view, &mut found);
        for sealed in self.sealed.borrow().iter() {
            sealed.known().look(schema, view, &mut found);
        }
        found
    }

    fn knows_nothing(&self) -> bool {
        let nothing = |known: &Known| known.is_empty();
        nothing(&self.known.borrow())
            && nothing(&self.active.borrow().known())
            && self.sealed.borrow().iter().all(|sealed| nothing(&sealed.known()))
    }
}

impl Shard {
    /// From now on these are the limits.
    pub(crate) fn set_size_limits(&self, limits: SizeLimits) {
        let before = self.sstables.get();
        self.sstables.set(sstable::WriterDefaults { large: limits.recorded(), ..before });
        self.size_limits.set(limits);
        for table in self.tables.borrow().values() {
            self.set_watch(table);
        }
    }

    /// Has the memtables of a table note what its options ask for.
    pub(crate) fn set_watch(&self, table: &Table) {
        let watch = match table.schema.borrow().options.has_large_data_guardrails() {
            true => Watch::of(&self.size_limits.get()),
            false => Watch::NONE,
        };
        table.watch.set(watch);
    }

    /// Refuses a write to what is over an upper limit; says which lower ones it meets.
    pub(crate) fn check_sizes(&self, mutation: &FrozenMutation) -> Result<Exceeded, WriteError> {
        let view = FrozenView::trusted(&mutation.0).map_err(WriteError::Damaged)?;
        // What is no table of this shard the write itself finds out.
        let Some(table) = self.table(view.table()) else { return Ok(Exceeded::default()) };
        let unwatched = table.watch.get() == Watch::NONE;
        if unwatched || table.tablets().iter().all(|tablet| tablet.knows_nothing()) {
            return Ok(Exceeded::default());
        }
        let Some(tablet) = table.tablet_of(Token::of(view.key())) else {
            return Ok(Exceeded::default());
        };
        debug_assert!(table.watch.get() != Watch::NONE, "pays-who-asks");
        let schema = table.schema();
        let found = tablet.look(&schema, &view);
        let limits = self.size_limits.get();
        let mut writes = self.large_writes.get();
        if let Some((measure, limit)) = found.over(limits.hard).next() {
            writes.refused += 1;
            self.large_writes.set(writes);
            return Err(WriteError::OverLimit(found.tell(&schema, measure, "hard", limit)));
        }
        let mut exceeded = Exceeded::default();
        for (measure, limit) in found.over(limits.soft) {
            exceeded.add(measure);
            if table.is_to_be_told(measure) {
                let text = found.tell(&schema, measure, "soft", limit);
                tracing::warn!(target: "large_data", "{text}");
            }
        }
        if !exceeded.is_none() {
            writes.warned += 1;
            self.large_writes.set(writes);
        }
        Ok(exceeded)
    }
}

impl Table {
    /// Whether the log is to be told of a write to what is large; it is, then.
    fn is_to_be_told(&self, measure: Measure) -> bool {
        let now = Instant::now();
        let mut told = self.told.get();
        let last = &mut told[measure as usize];
        let due = last.is_none_or(|last| TOLD_PERIOD <= now - last);
        if due {
            *last = Some(now);
            self.told.set(told);
        }
        due
    }
}
