//! What SSTables record as large: `system.large_partitions`, `large_rows` and `large_cells`; and
//! the limits of what writes may make large.
//!
//! The records stand in the SSTables themselves and go with them, when they are compacted away.
//! From which size on is said by `compaction_*_warning_threshold*`; where tables want it, writes
//! are refused from `*_fail_threshold*` on. All of these change while the node runs.

use cluster::{Cluster, Schema, Settings, TableKind, VirtualFuture, VirtualRow};
use model::key::{clustering_components, partition_key_component};
use model::value::to_literal;
use model::{TableId, TableSchema};
use query::Processor;
use sstable::scylla::LargeRecord;
use std::rc::Rc;
use storage::{LargeLimits, SizeLimits, Storage};

/// The options that say what is large.
const OPTIONS: [&str; 9] = [
    "compaction_large_partition_warning_threshold_mb",
    "compaction_large_row_warning_threshold_mb",
    "compaction_large_cell_warning_threshold_mb",
    "compaction_rows_count_warning_threshold",
    "compaction_collection_elements_count_warning_threshold",
    "large_partition_fail_threshold_mb",
    "large_row_fail_threshold_mb",
    "rows_count_fail_threshold",
    "large_collection_elements_fail_threshold",
];

/// Bytes of a key that is shown, at most.
const KEY_TEXT_MAX: usize = 16 << 10;

/// The three tables, with the kind of their records.
const TABLES: [(&str, u32); 3] = [("large_partitions", 1), ("large_rows", 2), ("large_cells", 3)];

/// Gives the tables their rows on this shard, and its storage the limits.
pub(crate) fn provide() {
    let cluster = runtime::local::get::<Cluster>();
    for (name, kind) in TABLES {
        let rows = move || -> VirtualFuture { Box::pin(rows(name, kind)) };
        cluster.provide(name, Rc::new(rows));
    }
    set_limits();
    let settings = Settings::of_shard();
    OPTIONS.iter().for_each(|name| settings.watch(name, Rc::new(set_limits)));
}

fn set_limits() {
    let (Some(processor), Some(storage)) =
        (runtime::local::try_get::<Processor>(), runtime::local::try_get::<Storage>())
    else {
        return;
    };
    let options = processor.options();
    let limit = |value: i64, factor: u64| (value.max(0) as u64).saturating_mul(factor);
    let mib = 1 << 20;
    let soft = LargeLimits {
        partition_bytes: limit(options.compaction_large_partition_warning_threshold_mb.get(), mib),
        row_bytes: limit(options.compaction_large_row_warning_threshold_mb.get(), mib),
        cell_bytes: limit(options.compaction_large_cell_warning_threshold_mb.get(), mib),
        rows: limit(options.compaction_rows_count_warning_threshold.get(), 1),
        elements: limit(options.compaction_collection_elements_count_warning_threshold.get(), 1),
    };
    let hard = LargeLimits {
        partition_bytes: limit(options.large_partition_fail_threshold_mb.get(), mib),
        row_bytes: limit(options.large_row_fail_threshold_mb.get(), mib),
        cell_bytes: limit(options.large_cell_fail_threshold_mb.get(), mib),
        rows: limit(options.rows_count_fail_threshold.get(), 1),
        elements: limit(options.large_collection_elements_fail_threshold.get(), 1),
    };
    storage.set_size_limits(SizeLimits { soft, hard });
}

/// A record with the file that it is from.
struct Found {
    table: TableId,
    sstable: String,
    /// When the file was written, milliseconds since the epoch.
    written_at: Option<i64>,
    record: LargeRecord,
}

async fn rows(name: &'static str, kind: u32) -> Vec<VirtualRow> {
    let found = runtime::on_all_shards(move || async move {
        let Some(storage) = runtime::local::try_get::<Storage>() else { return Vec::new() };
        let schema = runtime::local::get::<Cluster>().schema();
        let mut found = Vec::new();
        for table in stored(&schema) {
            for (descriptor, record) in storage.large_records(table) {
                if record.kind == kind {
                    let sstable = descriptor.file_name(sstable::Component::Data);
                    let written_at = match descriptor.generation {
                        sstable::Generation::Time(id) => model::value::timeuuid_millis(&id),
                        sstable::Generation::Number(_) => None,
                    };
                    found.push(Found { table, sstable, written_at, record });
                }
            }
        }
        found
    })
    .await;
    let schema = runtime::local::get::<Cluster>().schema();
    let Some(entry) = schema.table("system", name) else { return Vec::new() };
    let row = |found: Found| {
        let table = schema.table_by_id(found.table)?;
        Some(row(&entry.schema, kind, &table.schema, found))
    };
    found.into_iter().flatten().filter_map(row).collect()
}

fn stored(schema: &Schema) -> Vec<TableId> {
    let tables = schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
    let stored = tables.filter(|table| table.kind == TableKind::Stored);
    stored.map(|table| table.schema.id).collect()
}

fn row(columns: &TableSchema, kind: u32, table: &TableSchema, found: Found) -> VirtualRow {
    let Found { sstable, written_at, record, .. } = found;
    let number = |value: u64| (value.min(i64::MAX as u64) as i64).to_be_bytes().to_vec();
    let size = ["partition_size", "row_size", "cell_size"][kind.clamp(1, 3) as usize - 1];
    let mut values = vec![
        ("keyspace_name", table.keyspace.as_bytes().to_vec()),
        ("table_name", table.name.as_bytes().to_vec()),
        ("sstable_name", sstable.into_bytes()),
        (size, number(record.value)),
        ("partition_key", shortened(partition_key(table, &record.partition_key)).into_bytes()),
    ];
    if let Some(millis) = written_at {
        values.push(("compaction_time", millis.to_be_bytes().to_vec()));
    }
    if kind == 1 {
        values.push(("dead_rows", number(record.dead_rows)));
        values.push(("range_tombstones", number(record.range_tombstones)));
        values.push(("rows", number(record.elements)));
    } else {
        let key = clustering_key(table, &record.clustering_key);
        values.push(("clustering_key", shortened(key).into_bytes()));
    }
    if kind == 3 {
        values.push(("column_name", record.column));
        values.push(("collection_elements", number(record.elements)));
    }
    cluster::virtual_tables::row(columns, values)
}

/// As much of a text as a key of these tables can hold beside others: a blob as text is twice as
/// long as itself, and more than a key may be.
fn shortened(mut text: String) -> String {
    if KEY_TEXT_MAX < text.len() {
        text.truncate(text.floor_char_boundary(KEY_TEXT_MAX));
        text.push_str("..");
    }
    text
}

/// The components' literals between colons.
fn partition_key(table: &TableSchema, key: &[u8]) -> String {
    let columns = table.partition_key();
    let component = |at: usize| partition_key_component(key, columns.len(), at);
    let texts: Vec<String> = (0..columns.len())
        .filter_map(|at| Some(to_literal(&columns[at].ty, component(at)?)))
        .collect();
    texts.join(":")
}

fn clustering_key(table: &TableSchema, key: &[u8]) -> String {
    let components = clustering_components(key).zip(table.clustering());
    let texts: Vec<String> =
        components.map(|(bytes, column)| to_literal(&column.ty, bytes)).collect();
    texts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_no_key_can_hold_is_shortened() {
        assert_eq!(shortened("short".to_owned()), "short");
        let cut = shortened(format!("{}\u{e9}rest", "x".repeat(KEY_TEXT_MAX - 1)));
        assert_eq!(cut, format!("{}..", "x".repeat(KEY_TEXT_MAX - 1)));
    }
}
