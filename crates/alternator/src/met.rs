//! What a shard has met of requests of the API: how many there were of each operation, how long
//! they took, what they used and how large it was; all together, and by table.
//!
//! Invariants
//!  - *counted-once*: a request is counted under its operation once, and once for each table that
//!    it has asked for, however it ends.
//!  - *as-many-as-tables*: what is counted of a table that is gone goes at the next look.

use crate::error::Kind;
use cluster::Schema;
use model::TableId;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stdx::HashMap;
use stdx::histogram::{Histogram, Snapshot};
use stdx::sizes::Sizes;

/// The operations of the API: on tables and items first, in order of their names, then on streams.
pub(crate) const OPERATIONS: [&str; 52] = [
    "BatchExecuteStatement",
    "BatchGetItem",
    "BatchWriteItem",
    "CreateBackup",
    "CreateTable",
    "DeleteBackup",
    "DeleteItem",
    "DeleteTable",
    "DescribeBackup",
    "DescribeContinuousBackups",
    "DescribeContributorInsights",
    "DescribeEndpoints",
    "DescribeExport",
    "DescribeGlobalTable",
    "DescribeGlobalTableSettings",
    "DescribeImport",
    "DescribeKinesisStreamingDestination",
    "DescribeLimits",
    "DescribeTable",
    "DescribeTableReplicaAutoScaling",
    "DescribeTimeToLive",
    "ExecuteStatement",
    "ExecuteTransaction",
    "ExportTableToPointInTime",
    "GetItem",
    "GetResourcePolicy",
    "ImportTable",
    "ListBackups",
    "ListContributorInsights",
    "ListExports",
    "ListGlobalTables",
    "ListImports",
    "ListTables",
    "ListTagsOfResource",
    "PutItem",
    "Query",
    "RestoreTableFromBackup",
    "RestoreTableToPointInTime",
    "Scan",
    "TagResource",
    "TransactGetItems",
    "TransactWriteItems",
    "UntagResource",
    "UpdateContinuousBackups",
    "UpdateContributorInsights",
    "UpdateItem",
    "UpdateTable",
    "UpdateTimeToLive",
    "DescribeStream",
    "GetRecords",
    "GetShardIterator",
    "ListStreams",
];

/// How many of them are not on streams.
pub(crate) const NOT_ON_STREAMS: usize = 48;

/// An operation, by its place among [`OPERATIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op(u8);

impl Op {
    pub(crate) const BATCH_EXECUTE: Op = Op::named("BatchExecuteStatement");
    pub(crate) const BATCH_GET: Op = Op::named("BatchGetItem");
    pub(crate) const BATCH_WRITE: Op = Op::named("BatchWriteItem");
    pub(crate) const DELETE: Op = Op::named("DeleteItem");
    pub(crate) const GET: Op = Op::named("GetItem");
    pub(crate) const GET_RECORDS: Op = Op::named("GetRecords");
    pub(crate) const PUT: Op = Op::named("PutItem");
    pub(crate) const TRANSACT_WRITE: Op = Op::named("TransactWriteItems");
    pub(crate) const UPDATE: Op = Op::named("UpdateItem");

    /// Of a name that is known when this is compiled.
    const fn named(name: &str) -> Op {
        let mut at = 0;
        while !is_same(OPERATIONS[at].as_bytes(), name.as_bytes()) {
            at += 1;
        }
        Op(at as u8)
    }

    /// By its place.
    pub(crate) fn at(place: usize) -> Op {
        assert!(place < OPERATIONS.len(), "counted-once: there is no operation {place}");
        Op(place as u8)
    }

    pub(crate) fn name(self) -> &'static str {
        OPERATIONS[usize::from(self.0)]
    }
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Bounds of bytes, in units of a KiB: up to half a MiB.
const KIB_BOUNDS: usize = 32;
/// Bounds of numbers of items: up to 4096.
const ITEM_BOUNDS: usize = 44;

/// A histogram as it is: its bounds with how many values were at most as great, sum, number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    pub up_to: Vec<(u64, u64)>,
    pub sum: f64,
    pub count: u64,
}

impl Spread {
    /// `unit`: how much of the sum is one.
    fn of<const BOUNDS: usize>(sizes: &Sizes<BOUNDS>, unit: u64) -> Spread {
        let sum = sizes.sum() as f64 / unit as f64;
        Spread { up_to: sizes.up_to().collect(), sum, count: sizes.count() }
    }
}

/// Of one operation.
#[derive(Debug, Default)]
struct OfOperation {
    count: Cell<u64>,
    latency: Histogram,
    /// Items of batches.
    items: Cell<u64>,
    batches: OnceCell<Box<Sizes<ITEM_BOUNDS>>>,
    /// Units of writes.
    units: Cell<u64>,
    /// Bytes of items, or of an answer, in KiB.
    sizes: OnceCell<Box<Sizes<KIB_BOUNDS>>>,
}

/// What is shown of an operation.
#[derive(Clone, Debug)]
pub struct Shown {
    pub name: &'static str,
    pub count: u64,
    pub latency: Snapshot,
    /// Items of batches, all and of each one.
    pub items: u64,
    pub batches: Option<Spread>,
    /// Units of writes.
    pub units: u64,
    /// KiB of items, or of answers.
    pub sizes: Option<Spread>,
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get().saturating_add(more));
}

/// Of each operation that there was.
#[derive(Debug)]
struct ByOperation([OnceCell<Box<OfOperation>>; OPERATIONS.len()]);

impl Default for ByOperation {
    fn default() -> ByOperation {
        ByOperation(std::array::from_fn(|_| OnceCell::new()))
    }
}

/// What is counted of all tables, and of each.
#[derive(Debug, Default)]
pub struct Counted {
    operations: ByOperation,
    /// Half units of reads.
    read_halves: Cell<u64>,
    returned_items: Cell<u64>,
    pages: Sizes<ITEM_BOUNDS>,
    returned_records: Cell<u64>,
    reads_before_write: Cell<u64>,
    writes_by_rounds: Cell<u64>,
    failed_conditions: Cell<u64>,
}

impl Counted {
    fn of(&self, operation: Op) -> &OfOperation {
        self.operations.0[usize::from(operation.0)].get_or_init(Box::default)
    }

    fn ended(&self, operation: Op, took: Duration) {
        let one = self.of(operation);
        add(&one.count, 1);
        one.latency.record(took.as_nanos().try_into().unwrap_or(u64::MAX));
    }

    /// A read that consumed so many half units.
    pub(crate) fn read(&self, halves: usize) {
        add(&self.read_halves, halves as u64);
    }

    /// A write that consumed so many half units.
    pub(crate) fn written(&self, operation: Op, halves: usize) {
        add(&self.of(operation).units, halves as u64 / 2);
    }

    /// An item of so many bytes, or such an answer; nothing was there where there are none.
    pub(crate) fn sized(&self, operation: Op, bytes: usize) {
        if 0 < bytes {
            let sizes = self.of(operation).sizes.get_or_init(Box::default);
            sizes.record(bytes.div_ceil(1024) as u64, bytes as u64);
        }
    }

    /// A batch of so many items.
    pub(crate) fn batch(&self, operation: Op, items: usize) {
        let one = self.of(operation);
        add(&one.items, items as u64);
        one.batches.get_or_init(Box::default).record(items as u64, items as u64);
    }

    /// A query or a scan has answered so many items.
    pub(crate) fn returned(&self, items: u64) {
        add(&self.returned_items, items);
        self.pages.record(items, items);
    }

    /// So many records of a stream were answered.
    pub(crate) fn returned_records(&self, records: usize) {
        add(&self.returned_records, records as u64);
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

    /// Those that there were.
    pub fn operations(&self) -> Vec<Shown> {
        let all = OPERATIONS.iter().zip(&self.operations.0);
        let shown = |(name, one): (&&'static str, &OnceCell<Box<OfOperation>>)| {
            let one = one.get()?;
            Some(Shown {
                name,
                count: one.count.get(),
                latency: one.latency.snapshot(),
                items: one.items.get(),
                batches: one.batches.get().map(|batches| Spread::of(batches, 1)),
                units: one.units.get(),
                sizes: one.sizes.get().map(|sizes| Spread::of(sizes, 1024)),
            })
        };
        all.filter_map(shown).collect()
    }

    /// Units of reads.
    pub fn read_units(&self) -> f64 {
        self.read_halves.get() as f64 / 2.0
    }

    pub fn returned_items(&self) -> u64 {
        self.returned_items.get()
    }

    /// How many items each query and scan has answered; `None`: there was none of them.
    pub fn pages(&self) -> Option<Spread> {
        (0 < self.pages.count()).then(|| Spread::of(&self.pages, 1))
    }

    pub fn records(&self) -> u64 {
        self.returned_records.get()
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

/// One shard's. Stands in `runtime::local`: who leads the rounds of a partition counts, too.
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
    pub(crate) fn ended(&self, operation: Op, took: Duration, tables: &[Rc<Counted>]) {
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
        let known = self.all.operations.0.iter().filter_map(OnceCell::get);
        known.map(|one| one.count.get()).sum::<u64>() + self.unsupported.get()
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
        met.ended(Op::GET, took, std::slice::from_ref(&table));
        met.ended(Op::named("ListTables"), took, &[]);
        let shown = |counted: &Counted| -> Vec<(&'static str, u64, u64)> {
            let all = counted.operations().into_iter();
            all.map(|one| (one.name, one.count, one.latency.count())).collect()
        };
        assert_eq!(shown(&met.all), [("GetItem", 1, 1), ("ListTables", 1, 1)]);
        assert_eq!(shown(&table), [("GetItem", 1, 1)]);
        met.add(&met.unsupported);
        assert_eq!(met.total(), 3);
    }

    #[test]
    fn operations_have_their_names() {
        let named = [Op::GET, Op::GET_RECORDS, Op::TRANSACT_WRITE].map(Op::name);
        assert_eq!(named, ["GetItem", "GetRecords", "TransactWriteItems"]);
        let (others, of_streams) = OPERATIONS.split_at(NOT_ON_STREAMS);
        assert!(others.is_sorted() && of_streams.is_sorted());
        assert!(of_streams.iter().all(|name| !others.contains(name)));
    }

    #[test]
    fn sizes_are_in_kib_and_what_is_not_there_has_none() {
        let counted = Counted::default();
        counted.sized(Op::GET, 0);
        assert!(counted.operations().is_empty());
        [1, 1024, 1025, 1 << 20].into_iter().for_each(|bytes| counted.sized(Op::GET, bytes));
        let [only] = &counted.operations()[..] else { panic!("one operation") };
        let sizes = only.sizes.clone().unwrap();
        assert_eq!(sizes.up_to[..3], [(1, 2), (2, 3), (3, 3)]);
        assert_eq!(sizes.up_to.last(), Some(&(512, 3)));
        assert_eq!((sizes.count, sizes.sum), (4, 1026.0 + 2.0 / 1024.0));
        assert!(only.batches.is_none());
        counted.batch(Op::BATCH_GET, 100);
        counted.returned(0);
        let batches = counted.operations()[0].batches.clone().unwrap();
        let around = batches.up_to.iter().filter(|(bound, _)| (96..=112).contains(bound));
        assert_eq!(around.collect::<Vec<_>>(), [&(96, 0), &(112, 1)]);
        assert_eq!(counted.pages().unwrap().up_to[0], (1, 1));
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
