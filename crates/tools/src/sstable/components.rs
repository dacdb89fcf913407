//! The dumps of components other than the data.

use super::Failure;
use super::as_json::decorated_key;
use super::files::{CLASS, Target};
use super::output::Output;
use super::values::{self, hex};
use model::{DecoratedKey, TableSchema};
use serde_json::{Map, Value, json};
use sstable::Component;
use sstable::index::summary::Summary;
use sstable::mx::layout::{DELETION_TIME_EPOCH, TIMESTAMP_EPOCH};
use sstable::scrub::Positions;
use sstable::scylla::{LargeRecord, Metadata, ShardingRange, features, read_schema_part};
use sstable::statistics::{CommitlogPosition, EstimatedHistogram, Statistics, Stats};
use std::rc::Rc;
use stdx::{Bytes, Cursor, Damaged};

/// Keys and positions, one by one.
pub(crate) async fn index(
    target: &Target,
    schema: &Rc<TableSchema>,
    out: &mut Output,
) -> Result<(), Failure> {
    let table = target.open(schema).await?;
    let mut positions = Positions::new(&table, CLASS);
    let mut separator = "[";
    while let Some((key, position)) = positions.next_with_key().await? {
        out.text(separator)?;
        separator = ",";
        let columns = schema.partition_key();
        let key = json!({
            "raw": values::partition_raw(columns, &key.key),
            "value": values::partition_text(columns, &key.key),
        });
        out.json(&json!({ "key": key, "pos": position }))?;
    }
    out.text(if separator == "[" { "[]" } else { "]" })
}

/// Summary.db; null for versions that have none.
pub(crate) async fn summary(
    target: &Target,
    schema: &Rc<TableSchema>,
    out: &mut Output,
) -> Result<(), Failure> {
    if target.descriptor.version.has_trie_index() {
        return out.json(&Value::Null);
    }
    let bytes = target.need(Component::Summary).await?;
    let at = |damaged| target.damaged(Component::Summary, damaged);
    let header = summary_header(&bytes).map_err(at)?;
    let index_bytes = runtime::io::fs::len(target.path(Component::Index)).await?;
    let summary = Summary::parse(&bytes, index_bytes).map_err(at)?;
    let columns = schema.partition_key();
    let key = |key: &DecoratedKey| {
        json!({
            "raw": values::partition_raw(columns, &key.key),
            "value": values::partition_text(columns, &key.key),
        })
    };
    let mut positions = Vec::new();
    let mut entries = Vec::new();
    // Where entries stand in the file: behind as many offsets.
    let mut at = 4 * summary.len() as u64;
    for index in 0..summary.len() {
        let (bytes, position) = summary.entry(index);
        positions.push(at);
        at += bytes.len() as u64 + 8;
        let key = DecoratedKey::new(Bytes::copy_from(bytes));
        entries.push(json!({ "key": decorated_key(schema, &key), "position": position }));
    }
    out.json(&json!({
        "header": header,
        "positions": positions,
        "entries": entries,
        "first_key": key(&summary.first),
        "last_key": key(&summary.last),
    }))
}

fn summary_header(bytes: &[u8]) -> Result<Value, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let cut = "summary header cut short";
    Ok(json!({
        "min_index_interval": cursor.u32(cut)?,
        "size": cursor.u32(cut)?,
        "memory_size": cursor.u64(cut)?,
        "sampling_level": cursor.u32(cut)?,
        "size_at_full_sampling": cursor.u32(cut)?,
    }))
}

/// Statistics.db.
pub(crate) async fn statistics(target: &Target, out: &mut Output) -> Result<(), Failure> {
    let bytes = target.need(Component::Statistics).await?;
    let at = |damaged| target.damaged(Component::Statistics, damaged);
    let statistics = Statistics::parse(&bytes, target.descriptor.version).map_err(at)?;
    let header = &statistics.header;
    let columns = |list: &[(String, String)]| -> Value {
        let column = |(name, class): &(String, String)| json!({ "name": name, "type_name": class });
        list.iter().map(column).collect()
    };
    let times = header.bases.timestamp.wrapping_sub(TIMESTAMP_EPOCH) as u64;
    let deletions = header.bases.deletion_time - i64::from(DELETION_TIME_EPOCH);
    out.json(&json!({
        "offsets": offsets(&bytes).map_err(at)?,
        "validation": {
            "partitioner": statistics.partitioner,
            "filter_chance": statistics.bloom_fp_chance,
        },
        "compaction": { "cardinality": statistics.cardinality },
        "stats": stats_json(&statistics.stats),
        "serialization_header": {
            "min_timestamp_base": times,
            "min_local_deletion_time_base": deletions as u64,
            "min_ttl_base": header.bases.ttl,
            "pk_type_name": header.partition_key,
            "clustering_key_types_names": header.clustering,
            "static_columns": columns(&header.statics),
            "regular_columns": columns(&header.regulars),
        },
    }))
}

/// Where the parts stand.
fn offsets(bytes: &[u8]) -> Result<Value, Damaged> {
    const NAMES: [&str; 4] = ["validation", "compaction", "stats", "serialization_header"];
    let mut cursor = Cursor::new(bytes);
    let cut = "statistics contents cut short";
    let mut out = Map::new();
    for _ in 0..cursor.u32(cut)? {
        let kind = cursor.u32(cut)?;
        let name = NAMES.get(kind as usize).map_or_else(|| kind.to_string(), ToString::to_string);
        out.insert(name, json!(cursor.u32(cut)?));
    }
    Ok(Value::Object(out))
}

fn stats_json(stats: &Stats) -> Value {
    let histogram = |histogram: &EstimatedHistogram| -> Value {
        let bucket = |(offset, value)| json!({ "offset": offset, "value": value });
        histogram.buckets().map(bucket).collect()
    };
    let position = |at: CommitlogPosition| json!({ "id": at.segment, "pos": at.offset });
    let drops = stats.tombstones.bins().iter();
    let drops: Map<String, Value> =
        drops.map(|(point, count)| (format!("{point:.0}"), json!(count))).collect();
    let bound = |values: &[Vec<u8>]| -> Vec<String> { values.iter().map(|v| hex(v)).collect() };
    let intervals = stats.commitlog_intervals.iter();
    let intervals: Vec<Value> = intervals
        .map(|(start, end)| json!({ "start": position(*start), "end": position(*end) }))
        .collect();
    let mut out = json!({
        "estimated_partition_size": histogram(&stats.partition_sizes),
        "estimated_cells_count": histogram(&stats.cell_counts),
        "position": position(stats.commitlog_upper),
        "min_timestamp": stats.min_timestamp,
        "max_timestamp": stats.max_timestamp,
        "min_local_deletion_time": stats.min_deletion_time,
        "max_local_deletion_time": stats.max_deletion_time,
        "min_ttl": stats.min_ttl,
        "max_ttl": stats.max_ttl,
        "compression_ratio": stats.compression_ratio,
        "estimated_tombstone_drop_time": drops,
        "sstable_level": stats.level,
        "repaired_at": stats.repaired_at,
        "min_column_names": bound(&stats.min_clustering),
        "max_column_names": bound(&stats.max_clustering),
        "has_legacy_counter_shards": stats.legacy_counter_shards,
        "columns_count": stats.columns_count,
        "rows_count": stats.rows_count,
        "commitlog_lower_bound": position(stats.commitlog_lower),
        "commitlog_intervals": intervals,
    });
    if let (Some(id), Some(out)) = (stats.host_id, out.as_object_mut()) {
        out.insert("originating_host_id".to_string(), json!(id.hyphenated().to_string()));
    }
    out
}

/// Scylla.db; null where there is none.
pub(crate) async fn scylla_metadata(target: &Target, out: &mut Output) -> Result<(), Failure> {
    let Some(bytes) = target.component(Component::Scylla).await? else {
        return out.json(&Value::Null);
    };
    let at = |damaged| target.damaged(Component::Scylla, damaged);
    let metadata = Metadata::parse(&bytes).map_err(at)?;
    let mut json = known_parts(&metadata);
    if !metadata.schema.is_empty() {
        json.insert("schema".to_string(), schema_json(&metadata.schema).map_err(at)?);
    }
    out.json(&Value::Object(json))
}

/// All of it but the schema.
fn known_parts(metadata: &Metadata) -> Map<String, Value> {
    let mut json = Map::new();
    let mut put = |name: &str, value: Value| {
        json.insert(name.to_string(), value);
    };
    let id = |id: model::Uuid| json!(id.hyphenated().to_string());
    put("sharding", metadata.sharding.iter().map(range_json).collect());
    put("features", features_json(metadata.features));
    let extensions = metadata.extensions.iter();
    let extensions = extensions.map(|(name, value)| (name.clone(), json!(value)));
    put("extension_attributes", Value::Object(extensions.collect()));
    if let Some(run) = metadata.run_id {
        put("run_identifier", id(run));
    }
    let large = metadata.large_data.iter().map(|(kind, large)| {
        let (most, threshold, above) = (large.max, large.threshold, large.above);
        let numbers =
            json!({ "max_value": most, "threshold": threshold, "above_threshold": above });
        (large_kind(*kind), numbers)
    });
    put("large_data_stats", Value::Object(large.collect()));
    put("sstable_origin", json!(metadata.origin));
    put("scylla_build_id", json!(metadata.build_id));
    put("scylla_version", json!(metadata.version));
    let timestamps = metadata.timestamps.iter();
    let timestamps = timestamps.map(|(kind, at)| (timestamp_kind(*kind), json!(at)));
    put("ext_timestamp_stats", Value::Object(timestamps.collect()));
    if let Some(own) = metadata.sstable_id {
        put("sstable_identifier", id(own));
    }
    let digests = metadata.digests.iter();
    let digests = digests.map(|(number, digest)| (component_name(*number), json!(digest)));
    put("components_digests", Value::Object(digests.collect()));
    if !metadata.large_records.is_empty() {
        put("large_data_records", metadata.large_records.iter().map(record_json).collect());
    }
    json
}

fn timestamp_kind(kind: u32) -> String {
    match kind {
        1 => "min_live_timestamp".to_string(),
        2 => "min_live_row_marker_timestamp".to_string(),
        other => other.to_string(),
    }
}

fn component_name(number: u32) -> String {
    let component = Component::ALL.into_iter().find(|it| it.number() == Some(number));
    component.map_or_else(|| number.to_string(), |it| it.suffix().to_string())
}

fn range_json(range: &ShardingRange) -> Value {
    let end = |(exclusive, token): &(bool, Vec<u8>)| {
        let token = match <[u8; 8]>::try_from(token.as_slice()) {
            Ok(bytes) => i64::from_be_bytes(bytes).to_string(),
            Err(_) => hex(token),
        };
        json!({ "exclusive": exclusive, "token": token })
    };
    json!({ "left": end(&range.left), "right": end(&range.right) })
}

fn features_json(mask: u64) -> Value {
    let names = features::NAMES.iter().enumerate();
    let names = names.filter(|(bit, _)| mask >> bit & 1 != 0).map(|(_, name)| *name);
    json!({ "mask": mask, "features": names.collect::<Vec<_>>() })
}

fn large_kind(kind: u32) -> String {
    match kind {
        1 => "partition_size".to_string(),
        2 => "row_size".to_string(),
        3 => "cell_size".to_string(),
        4 => "rows_in_partition".to_string(),
        5 => "elements_in_collection".to_string(),
        other => other.to_string(),
    }
}

fn record_json(record: &LargeRecord) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "type": large_kind(record.kind),
        "partition_key": text(&record.partition_key),
        "clustering_key": text(&record.clustering_key),
        "column_name": text(&record.column),
        "value": record.value,
        "elements_count": record.elements,
        "range_tombstones": record.range_tombstones,
        "dead_rows": record.dead_rows,
    })
}

fn schema_json(bytes: &[u8]) -> Result<Value, Damaged> {
    let part = read_schema_part(bytes)?;
    let id = |id: Option<model::Uuid>| id.map(|id| id.hyphenated().to_string());
    let columns = part.columns.iter().map(|column| {
        let kind = match column.kind {
            1 => "partition_key",
            2 => "clustering_key",
            3 => "static",
            _ => "regular",
        };
        json!({ "kind": kind, "name": column.name, "type": column.class })
    });
    Ok(json!({
        "id": id(part.id),
        "version": id(part.version),
        "keyspace_name": part.keyspace,
        "table_name": part.table,
        "columns": columns.collect::<Vec<_>>(),
    }))
}

/// CompressionInfo.db; null where there is none.
pub(crate) async fn compression_info(target: &Target, out: &mut Output) -> Result<(), Failure> {
    let Some(bytes) = target.component(Component::CompressionInfo).await? else {
        return out.json(&Value::Null);
    };
    let version = target.descriptor.version;
    let parsed = compression_json(&bytes, version.has_compressed_length_max());
    out.json(&parsed.map_err(|damaged| target.damaged(Component::CompressionInfo, damaged))?)
}

/// As it stands in the file, whatever the compressor.
fn compression_json(bytes: &[u8], has_length_max: bool) -> Result<Value, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut out = Map::new();
    let name = text(cursor.u16_bytes("compressor name cut short")?);
    out.insert("name".to_string(), json!(name));
    let mut options = Map::new();
    for _ in 0..cursor.u32("compressor options cut short")? {
        let key = text(cursor.u16_bytes("compressor options cut short")?);
        let value = cursor.u16_bytes("compressor options cut short")?;
        let printable = std::str::from_utf8(value).ok().filter(|it| !it.contains(char::is_control));
        options.insert(key, json!(printable.map_or_else(|| hex(value), str::to_string)));
    }
    out.insert("options".to_string(), Value::Object(options));
    out.insert("chunk_len".to_string(), json!(cursor.u32("chunk length cut short")?));
    if has_length_max {
        let most = cursor.u32("compressed length cut short")?;
        out.insert("max_compressed_len".to_string(), json!(most));
    }
    out.insert("data_len".to_string(), json!(cursor.u64("data length cut short")?));
    let count = cursor.u32("chunk count cut short")? as usize;
    if cursor.remaining() / 8 < count {
        return Err(cursor.damaged("fewer chunk offsets than it says"));
    }
    let mut offsets = Vec::with_capacity(count);
    for _ in 0..count {
        offsets.push(json!(cursor.u64("chunk offset cut short")?));
    }
    out.insert("offsets".to_string(), Value::Array(offsets));
    Ok(Value::Object(out))
}
