//! `dump-data`, and the loops over files of the other dumps.

use super::as_json::{
    cell_json, change_json, collection_json, columns_json, decorated_key, marker_json, row_json,
    tombstone_json,
};
use super::components;
use super::files::{self, Target};
use super::options::Format;
use super::output::Output;
use super::values;
use super::{Failure, Job};
use model::{ColumnKind, TableSchema};
use mutation::{ColumnData, Direction, Fragment, RowView, Tombstone};
use reader::{Source, merge};
use runtime::io::fs;
use serde_json::Value;
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
