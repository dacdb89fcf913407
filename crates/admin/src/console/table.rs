//! The page of one table: its figures, its partitions, its SSTables with their deletions.

use super::views::TableCounts;
use crate::call::{Answer, Call};
use cluster::{Cluster, Schema, TableEntry, TableKind};
use serde_json::{Value, json};
use std::rc::Rc;
use storage::{SstableFacts, Storage, TableFacts};

/// SSTables that are listed, the largest ones.
const SSTABLES_MAX: usize = 200;

/// The table that a request names: `name=keyspace.table`.
pub(super) fn named(schema: &Schema, call: &Call) -> Result<Rc<TableEntry>, Answer> {
    let name = call.parameter("name").unwrap_or_default();
    let (keyspace, table) = name.split_once('.').unwrap_or((name, ""));
    let found = schema.table(keyspace, table).filter(|entry| entry.kind == TableKind::Stored);
    let unknown = || Answer::refused(404, format!("there is no table {name}"));
    found.cloned().ok_or_else(unknown)
}

/// What a shard says of a table.
type Told = Result<(TableCounts, TableFacts, Vec<SstableFacts>), String>;

/// Everything about a table but its history.
pub(super) async fn told(entry: &TableEntry) -> Result<Value, Answer> {
    let (id, options) = (entry.schema.id, &entry.schema.options);
    let asked = runtime::on_all_shards(move || async move {
        let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
        let cluster = runtime::local::try_get::<Cluster>().ok_or("the node stops")?;
        let facts = storage.sstable_facts(id).await.map_err(|error| error.to_string())?;
        Ok((TableCounts::of_shard(&storage, &cluster, id), storage.table_facts(id), facts))
    });
    let asked: Vec<Told> = asked.await;
    let (mut counts, mut facts) = (TableCounts::default(), TableFacts::default());
    let (mut sstables, mut shards) = (Vec::new(), Vec::new());
    for (shard, told) in asked.into_iter().enumerate() {
        let refused = |text| Answer::refused(503, format!("shard {shard}: {text}"));
        let (of_shard, its_facts, its_sstables) = told.map_err(refused)?;
        shards.push(of_shard.view(&entry.schema.keyspace, &entry.schema.name, ""));
        counts.add(&of_shard);
        facts.merge(&its_facts);
        sstables.extend(its_sstables.into_iter().map(|one| (shard, one)));
    }
    let mut view = counts.view(&entry.schema.keyspace, &entry.schema.name, &options.comment);
    let sum = |of: fn(&SstableFacts) -> u64| sstables.iter().map(|(_, one)| of(one)).sum::<u64>();
    view["tombstones"] = json!(sum(|one| one.tombstones));
    view["droppable"] = json!(sum(|one| one.droppable));
    view["rows"] = json!(sum(|one| one.rows));
    view["files_bytes"] = json!(sum(|one| one.disk_bytes));
    view["data_bytes"] = json!(facts.data_bytes);
    view["gc_grace_seconds"] = json!(options.gc_grace_seconds);
    view["partition_bytes"] = quantiles(&facts.partition_bytes);
    view["partition_bytes_max"] = json!(facts.partition_bytes_max);
    view["sstable_count"] = json!(sstables.len());
    sstables.sort_by_key(|(_, one)| std::cmp::Reverse(one.disk_bytes));
    let listed = sstables.iter().take(SSTABLES_MAX).map(|(shard, one)| sstable(*shard, one));
    view["files"] = Value::from_iter(listed);
    view["shards"] = shards.into();
    Ok(view)
}

/// p50, p95 and p99 of a histogram: bounds that ascend, and how often each was met.
fn quantiles(histogram: &[(i64, u64)]) -> Value {
    let count: u64 = histogram.iter().map(|(_, count)| count).sum();
    let of = |part: f64| {
        let rank = (part * count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = histogram.iter().find(|(_, count)| {
            below += count;
            rank <= below
        });
        found.map(|(bound, _)| *bound)
    };
    json!([of(0.5), of(0.95), of(0.99)])
}

fn sstable(shard: usize, one: &SstableFacts) -> Value {
    json!({
        "shard": shard,
        "generation": one.generation,
        "version": one.version.name(),
        "level": one.level,
        "made_at": one.made_at.map(|micros| micros.div_euclid(1000)),
        "disk_bytes": one.disk_bytes,
        "data_bytes": one.data_bytes,
        "partitions": one.partitions,
        "rows": one.rows,
        "tombstones": one.tombstones,
        "droppable": one.droppable,
        // Microseconds since 1970 by convention; clients may write others.
        "oldest": one.timestamps.0.to_string(),
        "newest": one.timestamps.1.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_partitions_are_told_by_rank() {
        let check = |histogram: &[(i64, u64)], expected: Value| {
            assert_eq!(quantiles(histogram), expected, "{histogram:?}");
        };
        check(&[], json!([null, null, null]));
        check(&[(10, 1)], json!([10, 10, 10]));
        check(&[(10, 94), (20, 4), (99, 2)], json!([10, 20, 99]));
    }
}
