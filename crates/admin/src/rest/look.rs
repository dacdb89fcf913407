//! `/storage_service/{sstable_info,toppartitions,drop_quarantined_sstables}` and what of
//! `/column_family` is about one table: strategy, compression, deletions; who is asked most.

use super::Door;
use super::api::{Answered, Api, Kind, Operation};
use super::tables::{all, listed, one, set_tombstone_gc};
use crate::call::{Answer, Call};
use cluster::Schema;
use model::{TableId, TableSchema, key, value};
use runtime::{local, on_all_shards};
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;
use storage::{HotCounts, HotOrder, HotPartition, SstableFacts, Storage, hot_partitions};

/// The classes of compaction strategies.
const STRATEGIES: [&str; 5] = [
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "IncrementalCompactionStrategy",
    "NullCompactionStrategy",
];

pub(super) fn operations(api: &mut Api) {
    api.get("/storage_service/sstable_info", "The SSTables of tables", sstable_info)
        .takes("keyspace", Kind::Text, "Of a keyspace")
        .takes("cf", Kind::Text, "Of a table");
    let path = "/storage_service/drop_quarantined_sstables";
    api.post(path, "Removes the SSTables in quarantine/", drop_quarantined)
        .takes("keyspace", Kind::Text, "Of a keyspace")
        .takes("tables", Kind::Text, "Tables of it, with commas between");
    let path = "/storage_service/toppartitions/";
    sampling(api.get(path, "Samples requests, and reports the partitions with the most", hot))
        .takes("table_filters", Kind::Text, "Tables, keyspace:table, with commas between")
        .takes("keyspace_filters", Kind::Text, "Keyspaces, with commas between");
    let path = "/column_family/toppartitions/{name}";
    sampling(api.get(path, "The same of a table", async |door: &Rc<Door>, call: &Call| {
        let id = one(door, call)?.schema.id;
        sampled(door, call, Some(vec![id])).await
    }));
    of_one(api);
}

fn sampling(operation: &mut Operation) -> &mut Operation {
    operation
        .takes("duration", Kind::Integer, "Milliseconds")
        .takes("list_size", Kind::Integer, "How many are reported; 10 by default")
        .takes("capacity", Kind::Integer, "How many are tracked; 256 by default")
}

fn of_one(api: &mut Api) {
    let path = "/column_family/tombstone_gc/{name}";
    api.get(path, "Whether compaction purges tombstones", async |door: &Rc<Door>, call: &Call| {
        let table = one(door, call)?.schema.id;
        Ok(Answer::json(json!(local::get::<Storage>().tombstone_gc(table))))
    });
    api.post(
        path,
        "Enables the purge of tombstones by compaction",
        async |door: &Rc<Door>, call: &Call| {
            set_tombstone_gc(vec![one(door, call)?.schema.id], true).await
        },
    );
    api.delete(
        path,
        "Disables the purge of tombstones by compaction",
        async |door: &Rc<Door>, call: &Call| {
            set_tombstone_gc(vec![one(door, call)?.schema.id], false).await
        },
    );
    let path = "/column_family/compaction_strategy/{name}";
    api.get(path, "The class of its compaction strategy", async |door: &Rc<Door>, call: &Call| {
        let schema = one(door, call)?.schema.clone();
        let name = local::get::<Storage>().compaction_class(schema.id);
        Ok(Answer::json(json!(name.as_deref().and_then(|name| name.rsplit('.').next()))))
    });
    api.post(path, "Sets it on this node, until the schema of the table changes", set_strategy)
        .needs("class_name", Kind::Text, "The class");
    let path = "/column_family/compression_parameters/{name}";
    api.get(path, "How its SSTables are compressed", async |door: &Rc<Door>, call: &Call| {
        let table = one(door, call)?;
        let options = table.schema.options.compression.iter();
        let shown = options.map(|(name, value)| json!({ "key": name, "value": value }));
        Ok(Answer::json(shown.collect()))
    });
    let path = "/column_family/built_indexes/{name}";
    api.get(path, "Indexes that are built on this node", async |door: &Rc<Door>, call: &Call| {
        let table = one(door, call)?;
        let built = super::identity::rows_of(door, "IndexInfo").await;
        let is_built = |name: &str| {
            built.iter().any(|row| {
                let is =
                    |column, text: &str| row.get(column).is_some_and(|it| it == text.as_bytes());
                is("table_name", &table.schema.keyspace) && is("index_name", name)
            })
        };
        let indexes = table.schema.indexes.iter().map(|index| &index.name);
        Ok(Answer::json(indexes.filter(|name| is_built(name)).map(|it| json!(it)).collect()))
    });
    for (path, option, default) in [
        ("/column_family/minimum_compaction/{name}", "min_threshold", "4"),
        ("/column_family/maximum_compaction/{name}", "max_threshold", "32"),
    ] {
        let told = async move |door: &Rc<Door>, call: &Call| {
            let table = one(door, call)?;
            let found = table.schema.options.compaction.iter().find(|(name, _)| name == option);
            let text = found.map_or(default, |(_, value)| value.as_str());
            Ok(Answer::json(json!(text)))
        };
        api.get(path, "SSTables that one compaction takes, at least or at most", told);
    }
}

/// Other shards look at the schema of a table by themselves, so each makes its own change.
async fn set_strategy(door: &Rc<Door>, call: &Call) -> Answered {
    let id = one(door, call)?.schema.id;
    let class = call.parameter("class_name").unwrap_or_default();
    let known = |name: &&&str| class.rsplit('.').next() == Some(**name);
    let Some(class) = STRATEGIES.iter().find(known) else {
        let text = format!("unable to find compaction strategy {class}");
        return Err(Answer::refused(500, text));
    };
    let class = *class;
    on_all_shards(move || async move {
        if let Some(storage) = local::try_get::<Storage>() {
            storage.set_compaction_class(id, class);
        }
    })
    .await;
    Ok(Answer::done())
}

/// The tables that `keyspace` and `table` name; all where they do not.
fn wanted(schema: &Schema, call: &Call) -> Vec<TableId> {
    let is_wanted = |id: &TableId| {
        schema.table_by_id(*id).is_some_and(|entry| {
            call.given("keyspace").is_none_or(|name| name == entry.schema.keyspace)
                && call.given("cf").is_none_or(|name| name == entry.schema.name)
        })
    };
    all(schema).into_iter().filter(is_wanted).collect()
}

async fn sstable_info(door: &Rc<Door>, call: &Call) -> Answered {
    let schema = door.cluster.schema();
    let mut shown = Vec::new();
    for id in wanted(&schema, call) {
        let asked = on_all_shards(move || async move {
            let storage = local::try_get::<Storage>().ok_or("the node stops")?;
            storage.sstable_facts(id).await.map_err(|error| error.to_string())
        });
        let mut sstables = Vec::new();
        for (shard, facts) in asked.await.into_iter().enumerate() {
            let refused = |text| Answer::refused(500, format!("shard {shard}: {text}"));
            sstables.extend(facts.map_err(refused)?.iter().map(sstable));
        }
        if let Some(entry) = schema.table_by_id(id) {
            shown.push(json!({
                "keyspace": entry.schema.keyspace,
                "table": entry.schema.name,
                "sstables": sstables,
            }));
        }
    }
    Ok(Answer::json(shown.into()))
}

fn sstable(facts: &SstableFacts) -> Value {
    let made_at = facts.made_at.unwrap_or(0).div_euclid(1000);
    json!({
        "size": facts.disk_bytes,
        "data_size": facts.data_bytes,
        "index_size": facts.index_bytes,
        "filter_size": facts.filter_bytes,
        "timestamp": super::dates::time(Some(made_at)),
        "generation": facts.generation,
        "level": facts.level,
        "version": facts.version.name(),
        "properties": [],
        "extended_properties": [],
    })
}

async fn drop_quarantined(door: &Rc<Door>, call: &Call) -> Answered {
    let tables = match call.given("keyspace") {
        Some(keyspace) => listed(door, call, keyspace, "tables")?,
        None => all(&door.cluster.schema()),
    };
    let dropped = local::get::<Storage>().drop_quarantined(&tables).await;
    let count = dropped.map_err(|error| Answer::refused(500, error.to_string()))?;
    tracing::info!(target: "sstable", "{count} quarantined SSTables were removed");
    Ok(Answer::done())
}

async fn hot(door: &Rc<Door>, call: &Call) -> Answered {
    let schema = door.cluster.schema();
    let (tables, keyspaces) = (call.names("table_filters"), call.names("keyspace_filters"));
    if tables.is_empty() && keyspaces.is_empty() {
        return sampled(door, call, None).await;
    }
    let is_wanted = |id: &TableId| {
        schema.table_by_id(*id).is_some_and(|entry| {
            let (keyspace, name) = (&entry.schema.keyspace, &entry.schema.name);
            keyspaces.contains(keyspace) || tables.contains(&format!("{keyspace}:{name}"))
        })
    };
    let wanted = all(&schema).into_iter().filter(is_wanted).collect();
    sampled(door, call, Some(wanted)).await
}

async fn sampled(door: &Door, call: &Call, tables: Option<Vec<TableId>>) -> Answered {
    let order = HotOrder {
        tables,
        duration: Duration::from_millis(call.number("duration", Some(1000))?),
        capacity: call.number("capacity", Some(256))?,
        listed: call.number("list_size", Some(10))?,
    };
    let hot = hot_partitions(order).await.map_err(|why| Answer::refused(400, why))?;
    let schema = door.cluster.schema();
    let side = |counts: &HotCounts| -> Value {
        let shown = counts.top.iter().map(|one| {
            json!({
                "partition": partition(&schema, &one.key),
                "count": one.count,
                "error": one.error,
            })
        });
        shown.collect()
    };
    Ok(Answer::json(json!({
        "read_cardinality": hot.reads.partitions,
        "read": side(&hot.reads),
        "write_cardinality": hot.writes.partitions,
        "write": side(&hot.writes),
    })))
}

/// `(keyspace:table) key`, the parts of the key with colons between.
fn partition(schema: &Schema, found: &HotPartition) -> String {
    let Some(entry) = schema.table_by_id(found.table) else { return found.token.0.to_string() };
    let (keyspace, name) = (&entry.schema.keyspace, &entry.schema.name);
    let parts = printed(&entry.schema, found).unwrap_or_else(|| found.token.0.to_string());
    format!("({keyspace}:{name}) {parts}")
}

fn printed(schema: &TableSchema, found: &HotPartition) -> Option<String> {
    if !found.is_whole {
        return None;
    }
    let parts = key::split_partition_key(&found.key, schema.partition_key_count).ok()?;
    let columns = schema.partition_key().iter();
    let parts = columns.zip(parts).map(|(column, part)| value::print_scalar(&column.ty, part));
    Some(parts.collect::<Vec<_>>().join(":"))
}
