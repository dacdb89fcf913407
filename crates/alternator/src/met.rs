//! What a shard has met of requests of the API: how many there were of each operation, how long
//! they took, what they used; all together, and by table.
//!
//! Invariants
//!  - *counted-once*: a request is counted under its operation once, and once for each table that
//!    it has asked for, however it ends.
//!  - *as-many-as-tables*: what is counted of a table that is gone goes at the next look.

use crate::error::Kind;
use cluster::Schema;
use model::TableId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stdx::HashMap;
use stdx::histogram::{Histogram, Snapshot};

/// Of one operation.
#[derive(Debug, Default)]
struct OfOperation {
    count: Cell<u64>,
    latency: Box<Histogram>,
    /// Items of batches.
    items: Cell<u64>,
    /// Units of writes.
    units: Cell<u64>,
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get().saturating_add(more));
}

/// What is counted of all tables, and of each.
#[derive(Debug, Default)]
pub struct Counted {
    operations: RefCell<BTreeMap<&'static str, OfOperation>>,
    /// Half units of reads.
    read_halves: Cell<u64>,
    returned_items: Cell<u64>,
    reads_before_write: Cell<u64>,
    writes_by_rounds: Cell<u64>,
    failed_conditions: Cell<u64>,
}

impl Counted {
    fn of<R>(&self, operation: &'static str, with: impl FnOnce(&OfOperation) -> R) -> R {
        with(self.operations.borrow_mut().entry(operation).or_default())
    }

    fn ended(&self, operation: &'static str, took: Duration) {
        self.of(operation, |one| {
            add(&one.count, 1);
            one.latency.record(took.as_nanos().try_into().unwrap_or(u64::MAX));
        });
    }

    /// A read that consumed so many half units.
    pub(crate) fn read(&self, halves: usize) {
        add(&self.read_halves, halves as u64);
    }

    /// A write that consumed so many half units.
    pub(crate) fn written(&self, operation: &'static str, halves: usize) {
        self.of(operation, |one| add(&one.units, halves as u64 / 2));
    }

    /// A batch of so many items.
    pub(crate) fn batch(&self, operation: &'static str, items: usize) {
        self.of(operation, |one| add(&one.items, items as u64));
    }

    /// A query or a scan has answered so many items.
    pub(crate) fn returned(&self, items: u64) {
        add(&self.returned_items, items);
    }

    /// A write that reads before, or goes by rounds.
    pub(crate) fn began_write(&self, reads: bool, by_rounds: bool) {
        add(&self.reads_before_write, reads.into());
        add(&self.writes_by_rounds, by_rounds.into());
    }

    /// A condition did not hold.
    pub(crate) fn condition_failed(&self) {
        add(&self.failed_conditions, 1);
    }

    /// Names, how often, how long, items of batches, units of writes.
    pub fn operations(&self) -> Vec<(&'static str, u64, Snapshot, u64, u64)> {
        let operations = self.operations.borrow();
        let all = operations.iter().map(|(name, one)| {
            let OfOperation { count, latency, items, units } = one;
            (*name, count.get(), latency.snapshot(), items.get(), units.get())
        });
        all.collect()
    }

    /// Units of reads.
    pub fn read_units(&self) -> f64 {
        self.read_halves.get() as f64 / 2.0
    }

    pub fn returned_items(&self) -> u64 {
        self.returned_items.get()
    }

    pub fn reads_before_write(&self) -> u64 {
        self.reads_before_write.get()
    }

    pub fn writes_by_rounds(&self) -> u64 {
        self.writes_by_rounds.get()
    }

    pub fn failed_conditions(&self) -> u64 {
        self.failed_conditions.get()
    }
}

/// One shard's.
#[derive(Debug, Default)]
pub struct Met {
    pub all: Counted,
    tables: RefCell<HashMap<TableId, (String, Rc<Counted>)>>,
    pub unsupported: Cell<u64>,
    pub user_errors: Cell<u64>,
    pub system_errors: Cell<u64>,
    pub unauthenticated: Cell<u64>,
    pub unauthorized: Cell<u64>,
    /// Connections that ended because their clients said nothing.
    pub silent: Cell<u64>,
    /// Transactions, by how they ended.
    pub committed: Cell<u64>,
    pub cancelled: Cell<u64>,
}

impl Met {
    /// What is counted of a table.
    pub(crate) fn of_table(&self, id: TableId, name: &str) -> Rc<Counted> {
        let mut tables = self.tables.borrow_mut();
        tables.entry(id).or_insert_with(|| (name.to_owned(), Rc::default())).1.clone()
    }

    /// Counts for all, and for a table.
    pub(crate) fn count(&self, (id, name): (TableId, &str), count: impl Fn(&Counted)) {
        count(&self.all);
        count(&self.of_table(id, name));
    }

    /// A request has ended, which has asked for those tables. (*counted-once*)
    pub(crate) fn ended(&self, operation: &'static str, took: Duration, tables: &[Rc<Counted>]) {
        self.all.ended(operation, took);
        tables.iter().for_each(|table| table.ended(operation, took));
    }

    /// A request ends with an error.
    pub(crate) fn failed(&self, kind: Kind) {
        match kind {
            _ if 500 <= kind.status() => add(&self.system_errors, 1),
            Kind::ConditionalCheckFailed | Kind::DuplicateItem | Kind::TransactionCanceled => {}
            Kind::AccessDenied => {
                add(&self.unauthorized, 1);
                add(&self.user_errors, 1);
            }
            _ => add(&self.user_errors, 1),
        }
    }

    pub(crate) fn add(&self, counter: &Cell<u64>) {
        add(counter, 1);
    }

    /// Names of tables that are there, and what is counted of them (*as-many-as-tables*).
    pub fn tables(&self, schema: &Schema) -> Vec<(String, Rc<Counted>)> {
        let mut tables = self.tables.borrow_mut();
        tables.retain(|id, _| schema.table_by_id(*id).is_some());
        let mut all: Vec<_> = tables.values().cloned().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Requests of all operations, those that there are none of included.
    pub fn total(&self) -> u64 {
        let operations = self.all.operations.borrow();
        operations.values().map(|one| one.count.get()).sum::<u64>() + self.unsupported.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_for_all_and_for_its_tables() {
        let met = Met::default();
        let table = met.of_table(TableId::from_u128(1), "t");
        let took = Duration::from_millis(3);
        met.ended("GetItem", took, std::slice::from_ref(&table));
        met.ended("ListTables", took, &[]);
        let shown = |counted: &Counted| -> Vec<(&'static str, u64, u64)> {
            let all = counted.operations().into_iter();
            all.map(|(name, count, latency, ..)| (name, count, latency.count())).collect()
        };
        assert_eq!(shown(&met.all), [("GetItem", 1, 1), ("ListTables", 1, 1)]);
        assert_eq!(shown(&table), [("GetItem", 1, 1)]);
        met.add(&met.unsupported);
        assert_eq!(met.total(), 3);
    }

    #[test]
    fn errors_are_of_users_or_of_the_system() {
        let met = Met::default();
        for kind in [
            Kind::Validation,
            Kind::AccessDenied,
            Kind::ConditionalCheckFailed,
            Kind::InternalServer,
        ] {
            met.failed(kind);
        }
        let counted = [&met.user_errors, &met.system_errors, &met.unauthorized].map(Cell::get);
        assert_eq!(counted, [2, 1, 1]);
    }
}
