//! `dump-data`, and the loops over files of the other dumps.

use super::components;
use super::files::{self, Target};
use super::options::Format;
use super::output::Output;
use super::values::{self, hex};
use super::{Failure, Job};
use model::value::plain_element;
use model::{ColumnKind, TableSchema, Type};
use mutation::cell::CellState;
use mutation::{
    Cell, ClusteringPosition, CollectionView, ColumnData, Direction, Fragment, Marker, RowView,
    Tombstone,
};
use reader::{Source, merge};
use runtime::io::fs;
use serde_json::{Map, Value, json};
use sstable::{Scope, Table};
use std::rc::Rc;

/// A component that has a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    Data,
    Index,
    Summary,
    Statistics,
    ScyllaMetadata,
    CompressionInfo,
}

impl Component {
    fn of(name: &str) -> Component {
        match name {
            "index" => Component::Index,
            "summary" => Component::Summary,
            "statistics" => Component::Statistics,
            "scylla-metadata" => Component::ScyllaMetadata,
            "compression-info" => Component::CompressionInfo,
            _ => Component::Data,
        }
    }
}

/// One component of each SSTable.
pub(crate) async fn each(
    job: &Job<'_>,
    out: &mut Output,
    component: Component,
) -> Result<(), Failure> {
    out.begin()?;
    for target in &job.targets {
        out.entry(&target.name())?;
        write(job, out, target, component).await?;
    }
    out.end()
}

/// Several components of each SSTable.
pub(crate) async fn all(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    out.begin()?;
    for target in &job.targets {
        out.entry(&target.name())?;
        for (index, name) in job.options.components.iter().enumerate() {
            out.text(if index == 0 { "{" } else { "," })?;
            out.json(&Value::from(name.as_str()))?;
            out.text(":")?;
            write(job, out, target, Component::of(name)).await?;
        }
        out.text("}")?;
    }
    out.end()
}

async fn write(
    job: &Job<'_>,
    out: &mut Output,
    target: &Target,
    component: Component,
) -> Result<(), Failure> {
    let schema = &job.source.schema;
    match component {
        Component::Data => {
            let table = target.open(schema).await?;
            let mut dump = JsonDump::new(schema, out);
            dump.begin()?;
            let mut source = files::read(&table, files::everything());
            files::pump(&mut *source, |fragment| dump.fragment(fragment)).await?;
            dump.end()
        }
        Component::Index => components::index(target, schema, out).await,
        Component::Summary => components::summary(target, schema, out).await,
        Component::Statistics => components::statistics(target, out).await,
        Component::ScyllaMetadata => components::scylla_metadata(target, out).await,
        Component::CompressionInfo => components::compression_info(target, out).await,
    }
}

/// `dump-data`.
pub(crate) async fn data(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    let schema = &job.source.schema;
    let keys = partition_keys(job).await?;
    let scopes = |table: &Rc<Table>| sources(table, &keys);
    let json = job.options.format == Format::Json;
    if json {
        out.begin()?;
    }
    if job.options.merge {
        let mut tables = Vec::new();
        for target in &job.targets {
            tables.push(target.open(schema).await?);
        }
        let count = keys.as_ref().map_or(1, Vec::len);
        let mut per_scope: Vec<Vec<Box<dyn Source>>> = (0..count).map(|_| Vec::new()).collect();
        for table in &tables {
            per_scope.iter_mut().zip(scopes(table)).for_each(|(list, source)| list.push(source));
        }
        let merged = per_scope.into_iter();
        let merged = merged.map(|list| merge(schema.clone(), Direction::Forward, list));
        dump_sources(schema, json, "anonymous", merged.collect(), out).await?;
    } else {
        for target in &job.targets {
            let table = target.open(schema).await?;
            dump_sources(schema, json, &target.name(), scopes(&table), out).await?;
        }
    }
    if json { out.end() } else { Ok(()) }
}

async fn dump_sources(
    schema: &TableSchema,
    json: bool,
    name: &str,
    sources: Vec<Box<dyn Source>>,
    out: &mut Output,
) -> Result<(), Failure> {
    if json {
        out.entry(name)?;
        let mut dump = JsonDump::new(schema, out);
        dump.begin()?;
        for mut source in sources {
            files::pump(&mut *source, |fragment| dump.fragment(fragment)).await?;
        }
        return dump.end();
    }
    out.line(&format!("sstable {name}"))?;
    for mut source in sources {
        let print = |fragment: &Fragment| out.line(&line(schema, fragment));
        files::pump(&mut *source, print).await?;
    }
    Ok(())
}

/// What is wanted of a table: all of it, or some partitions in ring order.
pub(crate) fn sources(table: &Rc<Table>, keys: &Option<Vec<Vec<u8>>>) -> Vec<Box<dyn Source>> {
    let scopes: Vec<Scope> = match keys {
        None => vec![files::everything()],
        Some(keys) => keys.iter().map(|key| files::of_key(key)).collect(),
    };
    scopes.into_iter().map(|scope| files::read(table, scope)).collect()
}

/// The partitions that the options name, in ring order; `None` where they name none.
pub(crate) async fn partition_keys(job: &Job<'_>) -> Result<Option<Vec<Vec<u8>>>, Failure> {
    let mut given: Vec<String> = job.options.partitions.clone();
    if let Some(path) = &job.options.partitions_file {
        let text = fs::read_file(path).await;
        let text = text.map_err(|error| Failure::Arguments(error.to_string()))?;
        given.extend(String::from_utf8_lossy(&text).split_whitespace().map(str::to_string));
    }
    if given.is_empty() {
        return Ok(None);
    }
    let columns = job.source.schema.partition_key();
    let mut keys = Vec::with_capacity(given.len());
    for raw in given {
        keys.push(values::partition_of_raw(columns, &raw).map_err(Failure::Arguments)?);
    }
    keys.sort_by_cached_key(|key| (model::Token::of(key), key.clone()));
    keys.dedup();
    Ok(Some(keys))
}

/// Writes fragments as JSON partitions, one element of a partition at a time.
pub(crate) struct JsonDump<'a> {
    schema: &'a TableSchema,
    out: &'a mut Output,
    partitions: u64,
    elements: u64,
}

impl<'a> JsonDump<'a> {
    pub(crate) fn new(schema: &'a TableSchema, out: &'a mut Output) -> JsonDump<'a> {
        JsonDump { schema, out, partitions: 0, elements: 0 }
    }

    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        self.out.text("[")
    }

    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        self.out.text("]")
    }

    pub(crate) fn fragment(&mut self, fragment: &Fragment) -> Result<(), Failure> {
        let schema = self.schema;
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                self.out.text(if self.partitions == 0 { "{\"key\":" } else { ",{\"key\":" })?;
                self.partitions += 1;
                self.elements = 0;
                self.out.json(&decorated_key(schema, key))?;
                if !tombstone.is_none() {
                    self.out.text(",\"tombstone\":")?;
                    self.out.json(&tombstone_json(*tombstone))?;
                }
                Ok(())
            }
            Fragment::StaticRow { row } => {
                self.out.text(",\"static_row\":")?;
                self.out.json(&columns_json(schema, RowView::trusted(row)))
            }
            Fragment::Row { key, row } => {
                self.element(&row_json(schema, key, RowView::trusted(row)))
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.element(&change_json(schema, position, *tombstone))
            }
            Fragment::PartitionEnd => self.out.text(if self.elements == 0 { "}" } else { "]}" }),
        }
    }

    fn element(&mut self, element: &Value) -> Result<(), Failure> {
        let before = if self.elements == 0 { ",\"clustering_elements\":[" } else { "," };
        self.elements += 1;
        self.out.text(before)?;
        self.out.json(element)
    }
}

/// `{"token", "raw", "value"}`
pub(crate) fn decorated_key(schema: &TableSchema, key: &model::DecoratedKey) -> Value {
    let columns = schema.partition_key();
    json!({
        "token": key.token.0.to_string(),
        "raw": values::partition_raw(columns, &key.key),
        "value": values::partition_text(columns, &key.key),
    })
}

fn clustering_key(schema: &TableSchema, prefix: &[u8]) -> Value {
    json!({ "raw": hex(prefix), "value": values::clustering_text(schema.clustering(), prefix) })
}

/// A change of range tombstones.
pub(crate) fn change_json(
    schema: &TableSchema,
    position: &ClusteringPosition,
    tombstone: Tombstone,
) -> Value {
    let mut element = Map::new();
    element.insert("type".to_string(), json!("range-tombstone-change"));
    if !position.prefix.is_empty() {
        element.insert("key".to_string(), clustering_key(schema, &position.prefix));
    }
    element.insert("weight".to_string(), json!(position.weight));
    element.insert("tombstone".to_string(), tombstone_json(tombstone));
    Value::Object(element)
}

/// `{}` for none.
pub(crate) fn tombstone_json(tombstone: Tombstone) -> Value {
    match tombstone.is_none() {
        true => json!({}),
        false => json!({
            "timestamp": tombstone.timestamp,
            "deletion_time": values::time(tombstone.deletion_time),
        }),
    }
}

/// A clustering row.
pub(crate) fn row_json(schema: &TableSchema, key: &[u8], row: RowView<'_>) -> Value {
    let mut out = Map::new();
    out.insert("type".to_string(), json!("clustering-row"));
    out.insert("key".to_string(), clustering_key(schema, key));
    if !row.shadowable().is_none() {
        out.insert("tombstone".to_string(), tombstone_json(row.tombstone()));
        out.insert("shadowable_tombstone".to_string(), tombstone_json(row.shadowable()));
    }
    if let Some(marker) = row.marker() {
        out.insert("marker".to_string(), marker_json(marker));
    }
    out.insert("columns".to_string(), columns_json(schema, row));
    Value::Object(out)
}

fn marker_json(marker: Marker) -> Value {
    match marker {
        Marker::Live { timestamp } => json!({ "timestamp": timestamp }),
        Marker::Expiring { timestamp, expiry, ttl } => json!({
            "timestamp": timestamp,
            "ttl": format!("{ttl}s"),
            "expiry": values::time(expiry),
        }),
        Marker::Dead { timestamp, deletion_time } => json!({
            "timestamp": timestamp,
            "deletion_time": values::time(deletion_time),
        }),
    }
}

/// The cells of a row, by column.
pub(crate) fn columns_json(schema: &TableSchema, row: RowView<'_>) -> Value {
    let mut out = Map::new();
    for (id, data) in row.columns() {
        let Some(column) = schema.column_by_id(id) else { continue };
        let value = match data {
            ColumnData::Atomic(cell) => cell_json(&column.ty, cell),
            ColumnData::Collection(view) => collection_json(&column.ty, view),
        };
        out.insert(column.name.clone(), value);
    }
    Value::Object(out)
}

/// What sort of cell it is.
pub(crate) fn kind_of(ty: &Type, cell: &Cell<'_>) -> &'static str {
    match cell.state {
        CellState::Counter { .. } => "counter-shards",
        CellState::CounterUpdate { .. } => "counter-update",
        _ if ty.is_collection() => "frozen-collection",
        _ => "regular",
    }
}

fn cell_json(ty: &Type, cell: Cell<'_>) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.to_string(), value);
    put("is_live", json!(!matches!(cell.state, CellState::Dead { .. })));
    put("type", json!(kind_of(ty, &cell)));
    put("timestamp", json!(cell.timestamp));
    match cell.state {
        CellState::Live { value } => {
            put("value", json!(values::text(ty, value)));
        }
        CellState::Expiring { value, expiry, ttl } => {
            put("ttl", json!(format!("{ttl}s")));
            put("expiry", json!(values::time(expiry)));
            put("value", json!(values::text(ty, value)));
        }
        CellState::Dead { deletion_time } => {
            put("deletion_time", json!(values::time(deletion_time)));
        }
        CellState::CounterUpdate { delta } => {
            put("value", json!(delta));
        }
        CellState::Counter { shards } => {
            let shards = mutation::counter::shards(shards).map(|shard| {
                let id = model::Uuid::from_bytes(shard.id).hyphenated().to_string();
                json!({ "id": id, "value": shard.value, "clock": shard.clock })
            });
            put("value", Value::Array(shards.collect()));
        }
    }
    Value::Object(out)
}

fn collection_json(ty: &Type, view: CollectionView<'_>) -> Value {
    let mut out = Map::new();
    if !view.tomb().is_none() {
        out.insert("tombstone".to_string(), tombstone_json(view.tomb()));
    }
    let cells = view.iter().map(|(path, cell)| {
        let (key, element) = plain_element(ty, path);
        json!({ "key": key, "value": cell_json(&element, cell) })
    });
    out.insert("cells".to_string(), Value::Array(cells.collect()));
    Value::Object(out)
}

/// A fragment as a line of text.
fn line(schema: &TableSchema, fragment: &Fragment) -> String {
    match fragment {
        Fragment::PartitionStart { key, tombstone } => {
            let text = values::partition_text(schema.partition_key(), &key.key);
            let raw = values::partition_raw(schema.partition_key(), &key.key);
            let token = key.token.0;
            format!("partition {text} token={token} raw={raw}{}", tombstone_text(*tombstone))
        }
        Fragment::StaticRow { row } => {
            format!("  static row{}", row_text(schema, RowView::trusted(row), ColumnKind::Static))
        }
        Fragment::Row { key, row } => {
            let text = values::clustering_text(schema.clustering(), key);
            let row = RowView::trusted(row);
            format!("  row {text}{}", row_text(schema, row, ColumnKind::Regular))
        }
        Fragment::RangeTombstoneChange { position, tombstone } => {
            let side = if position.weight < 0 { "before" } else { "after" };
            let key = match position.prefix.is_empty() {
                true => "all".to_string(),
                false => values::clustering_text(schema.clustering(), &position.prefix),
            };
            match tombstone.is_none() {
                true => format!("  range tombstone ends {side} {key}"),
                false => {
                    format!("  range tombstone starts {side} {key}{}", tombstone_text(*tombstone))
                }
            }
        }
        Fragment::PartitionEnd => "end of partition".to_string(),
    }
}

fn tombstone_text(tombstone: Tombstone) -> String {
    match tombstone.is_none() {
        true => String::new(),
        false => {
            let time = values::time(tombstone.deletion_time);
            format!(" deleted(timestamp={} at {time})", tombstone.timestamp)
        }
    }
}

fn row_text(schema: &TableSchema, row: RowView<'_>, kind: ColumnKind) -> String {
    let mut out = tombstone_text(row.tombstone());
    if row.shadowable() != row.tombstone() {
        out.push_str(&format!(" shadowable{}", tombstone_text(row.shadowable())));
    }
    if let Some(marker) = row.marker() {
        out.push_str(&format!(" marker{}", marker_json(marker)));
    }
    for (id, data) in row.columns() {
        let Some(column) = schema.column_by_id(id).filter(|column| column.kind == kind) else {
            continue;
        };
        let value = match data {
            ColumnData::Atomic(cell) => cell_json(&column.ty, cell),
            ColumnData::Collection(view) => collection_json(&column.ty, view),
        };
        out.push_str(&format!("\n    {}: {value}", column.name));
    }
    out
}
