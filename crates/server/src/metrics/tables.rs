//! What is counted of each table: of the node as a whole, or shard by shard.
//!
//! Invariants
//!  - *idle-is-cheap*: of a table that nobody reads or writes no latency is told.

use super::spans::{self, Steps};
use admin::metrics::Sheet;
use cluster::traffic::{Taken, Work};
use cluster::{Cluster, Schema, TableEntry, TableKind};
use runtime::task::yield_if_needed;
use std::collections::BTreeMap;
use storage::Storage;

/// All names of tables begin so.
const START: &str = "column_family_";
/// That of indexes, and what it tells.
const BY_INDEX: (&str, &str) = (
    "index_query_latencies",
    "How long pages took that were answered by the index, in microseconds.",
);

/// Which tables are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    /// None.
    No,
    /// Those of users, as sums over all shards; shard by shard where a request wants no sums.
    Summed,
    /// All, shard by shard.
    ByShard,
}

/// The gauges of a table.
const GAUGES: [(&str, &str); 8] = [
    ("column_family_live_disk_space", "Bytes on the disk of the SSTables that are in use."),
    ("column_family_total_disk_space", "Bytes on the disk of all SSTables."),
    ("column_family_live_sstable", "SSTables that are in use."),
    ("column_family_pending_compaction", "Pending compactions of the table."),
    ("column_family_memtable_bytes", "Bytes of memtables."),
    ("column_family_memtable_partitions", "Partitions of memtables."),
    (
        "column_family_partitions",
        "Estimated partitions; one in several SSTables counts several times.",
    ),
    ("column_family_tablet_count", "Tablets."),
];

/// The names of summary and histogram of each kind of work.
const LATENCIES: [(Work, &str, &str, &str); 5] = [
    (
        Work::Read,
        "column_family_read_latency_summary",
        "column_family_read_latency",
        "How long reads of one partition of the table took, in microseconds.",
    ),
    (
        Work::Write,
        "column_family_write_latency_summary",
        "column_family_write_latency",
        "How long writes to the table took, in microseconds.",
    ),
    (
        Work::Scan,
        "column_family_range_latency_summary",
        "column_family_range_latency",
        "How long reads of token ranges of the table took, in microseconds.",
    ),
    (
        Work::CasRead,
        "column_family_cas_read_latency_summary",
        "column_family_cas_read_latency",
        "How long reads of the table at a serial level took, in microseconds.",
    ),
    (
        Work::CasWrite,
        "column_family_cas_write_latency_summary",
        "column_family_cas_write_latency",
        "How long conditional writes to the table took, in microseconds.",
    ),
];

/// What one shard has of a table.
#[derive(Debug, Default)]
pub(super) struct Row {
    keyspace: String,
    name: String,
    gauges: [u64; GAUGES.len()],
    taken: [Option<Taken>; Work::ALL.len()],
    /// Where the table is a view that keeps an index that was asked: its name, and how long that
    /// took.
    by_index: Option<(String, Taken)>,
}

impl Row {
    fn of(table: &TableEntry, schema: &Schema, storage: &Storage) -> Row {
        let by_index = table.local.traffic.taken_by_index();
        let by_index = by_index.and_then(|taken| Some((index_of(table, schema)?, taken)));
        let id = table.schema.id;
        let stats = storage.table_stats(id).unwrap_or_default();
        let shard = runtime::shard_id();
        let tablets = table.tablets.shards().iter().filter(|owner| **owner == shard).count();
        Row {
            keyspace: table.schema.keyspace.clone(),
            name: table.schema.name.clone(),
            gauges: [
                stats.sstable_bytes,
                stats.sstable_bytes,
                stats.sstables,
                stats.pending_compactions,
                stats.memtable_bytes,
                stats.memtable_partitions,
                stats.partitions,
                tablets as u64,
            ],
            taken: Work::ALL.map(|work| table.local.traffic.taken(work)),
            by_index,
        }
    }

    /// With what another shard has of it.
    fn merge(&mut self, other: Row) {
        self.gauges.iter_mut().zip(other.gauges).for_each(|(mine, its)| *mine += its);
        for (mine, its) in self.taken.iter_mut().zip(other.taken) {
            match (mine, its) {
                (Some(mine), Some(its)) => mine.merge(&its),
                (mine @ None, its) => *mine = its,
                (Some(_), None) => {}
            }
        }
        match (&mut self.by_index, other.by_index) {
            (Some((_, mine)), Some((_, its))) => mine.merge(&its),
            (mine @ None, its) => *mine = its,
            (Some(_), None) => {}
        }
    }

    fn tell(&self, sheet: &mut Sheet) {
        let labels = &[("ks", self.keyspace.as_str()), ("cf", self.name.as_str())];
        for ((name, help), value) in GAUGES.into_iter().zip(self.gauges) {
            sheet.gauge(name, help, labels, value);
        }
        for (work, summary, histogram, help) in LATENCIES {
            let Some(taken) = &self.taken[work as usize] else { continue };
            spans::summary(sheet, (summary, help), labels, taken);
            let buckets = spans::buckets(&taken.spans, Steps::Coarse);
            sheet.histogram(histogram, help, labels, &buckets);
        }
        if let Some((index, taken)) = &self.by_index {
            let labels = &[("idx", index.as_str()), ("ks", self.keyspace.as_str())];
            let buckets = spans::buckets(&taken.spans, Steps::Coarse);
            sheet.histogram(BY_INDEX.0, BY_INDEX.1, labels, &buckets);
        }
    }
}

/// The index that a view keeps.
fn index_of(view: &TableEntry, schema: &Schema) -> Option<String> {
    let base = schema.table_by_id(view.schema.view.as_ref()?.base)?;
    let mut indexes = base.schema.indexes.iter();
    indexes.find(|index| index.view_name() == view.schema.name).map(|index| index.name.clone())
}

/// The tables of this shard. What is to be put together with that of other shards is returned.
pub(super) async fn of_shard(sheet: &mut Sheet, tables: Tables) -> Vec<Row> {
    let names = |start| sheet.filter().wants_any(start);
    if tables == Tables::No || !(names(START) || names(BY_INDEX.0)) {
        return Vec::new();
    }
    let (Some(cluster), Some(storage)) =
        (runtime::local::try_get::<Cluster>(), runtime::local::try_get::<Storage>())
    else {
        return Vec::new();
    };
    let is_wanted = |table: &TableEntry| {
        let of_system = Schema::is_system(&table.schema.keyspace);
        table.kind == TableKind::Stored && (tables == Tables::ByShard || !of_system)
    };
    let schema = cluster.schema();
    let sums = tables == Tables::Summed && sheet.filter().aggregates();
    let mut rows = Vec::new();
    for entry in schema.keyspaces.values() {
        for table in entry.tables.values().filter(|table| is_wanted(table)) {
            let row = Row::of(table, &schema, &storage);
            match sums {
                true => rows.push(row),
                false => row.tell(sheet),
            }
            yield_if_needed().await;
        }
    }
    rows
}

/// Adds the sums of what the shards have.
pub(super) async fn put_together(sheet: &mut Sheet, shards: Vec<Vec<Row>>) {
    let mut all: BTreeMap<(String, String), Row> = BTreeMap::new();
    for row in shards.into_iter().flatten() {
        match all.entry((row.keyspace.clone(), row.name.clone())) {
            std::collections::btree_map::Entry::Vacant(place) => _ = place.insert(row),
            std::collections::btree_map::Entry::Occupied(mut sum) => sum.get_mut().merge(row),
        }
        yield_if_needed().await;
    }
    for row in all.into_values() {
        row.tell(sheet);
        yield_if_needed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::metrics::Filter;
    use stdx::histogram::Histogram;

    fn taken_of(nanos: &[u64]) -> Taken {
        let histogram = Histogram::default();
        nanos.iter().for_each(|nanos| histogram.record(*nanos));
        let spans = histogram.snapshot();
        Taken { recent: spans.clone(), spans, ..Taken::default() }
    }

    fn taken(nanos: &[u64]) -> Option<Taken> {
        Some(taken_of(nanos))
    }

    #[test]
    fn shards_add_up() {
        let row = |value, taken| Row {
            keyspace: "k".to_owned(),
            name: "t".to_owned(),
            gauges: [value; GAUGES.len()],
            taken,
            by_index: Some(("i".to_owned(), taken_of(&[7_000]))),
        };
        let mut sum = row(1, [taken(&[1_000]), None, None, None, None]);
        sum.merge(row(2, [taken(&[3_000]), taken(&[5_000]), None, None, None]));
        assert_eq!(sum.gauges, [3; GAUGES.len()]);
        let count = |work: Work| sum.taken[work as usize].as_ref().map(|it| it.spans.count());
        assert_eq!(Work::ALL.map(count), [Some(2), Some(1), None, None, None]);
        let mut sheet = Sheet::new(&Filter::all("x"), None);
        sum.tell(&mut sheet);
        let text = format!("{sheet:?}");
        assert!(text.contains("x_column_family_live_sstable{ks=\\\"k\\\",cf=\\\"t\\\"} 3"));
        assert!(text.contains("x_column_family_read_latency_count{ks=\\\"k\\\",cf=\\\"t\\\"} 2"));
        assert!(text.contains("column_family_write_latency_summary"));
        assert!(text.contains("x_index_query_latencies_count{idx=\\\"i\\\",ks=\\\"k\\\"} 2"));
        assert!(!text.contains("column_family_cas"));
    }
}
