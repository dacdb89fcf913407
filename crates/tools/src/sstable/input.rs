//! `write`: an SSTable of what `dump-data` prints of one, or of CQL statements.

use super::output::Output;
use super::scanner::Scanner;
use super::{Failure, Job, query, rewrite, values};
use model::{Column, ColumnKind, DecoratedKey, TableSchema, Type, value};
use mutation::cell::CellState;
use mutation::collection::CollectionWriter;
use mutation::counter::Shard;
use mutation::{Cell, ClusteringPosition, Fragment, Marker, RowBuilder, Tombstone};
use serde_json::{Map, Value};
use sstable::scrub::check::{OrderCheck, ROWS_OUT_OF_ORDER};
use sstable::{RowOrder, Writer};
use std::cmp::Ordering;
use stdx::{Bytes, Put};

/// `write`. Prints the generation.
pub(crate) async fn write(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    if !job.options.output_dir.is_dir() {
        let dir = job.options.output_dir.display();
        return Failure::operation(format!("no such directory: {dir}"));
    }
    if job.options.input_format == "cql" {
        return query::write(job, out).await;
    }
    let path = job.options.input_file.clone().unwrap_or_default();
    let mut scanner = Scanner::open(&path).await?;
    let schema = job.source.schema.clone();
    let mut target = rewrite::target(job, "write")?;
    target.options.rows = job.options.rows;
    let writer = target.create().await?;
    let order = OrderCheck::new(&schema.order);
    let rows = job.options.rows;
    let mut input = Input { schema: &schema, order, rows, writer, open: Tombstone::NONE };
    if let Err(failure) = input.document(&mut scanner).await {
        input.writer.abort().await?;
        return Err(failure);
    }
    match input.writer.finish().await? {
        Some(sealed) => out.line(&sealed.descriptor.generation.to_string()),
        None => Failure::operation("the input has no partitions: nothing was written"),
    }
}

struct Input<'a> {
    schema: &'a TableSchema,
    order: OrderCheck<'a>,
    rows: RowOrder,
    writer: Writer,
    /// The range tombstone that is open.
    open: Tombstone,
}

impl Input<'_> {
    /// `[partition, ..]`, or a whole dump of one SSTable.
    async fn document(&mut self, scanner: &mut Scanner) -> Result<(), Failure> {
        if scanner.peek().await? == Some(b'{') {
            scanner.expect(b'{').await?;
            scanner.name().await?;
            scanner.expect(b'{').await?;
            scanner.name().await?;
            self.partitions(scanner).await?;
            scanner.expect(b'}').await?;
            scanner.expect(b'}').await?;
        } else {
            self.partitions(scanner).await?;
        }
        match scanner.peek().await? {
            None => Ok(()),
            Some(_) => Failure::operation("something follows the partitions"),
        }
    }

    async fn partitions(&mut self, scanner: &mut Scanner) -> Result<(), Failure> {
        scanner.expect(b'[').await?;
        let mut first = true;
        while scanner.item(b']', first).await? {
            first = false;
            self.partition(scanner).await?;
        }
        Ok(())
    }

    async fn partition(&mut self, scanner: &mut Scanner) -> Result<(), Failure> {
        scanner.expect(b'{').await?;
        let (mut key, mut tombstone, mut started) = (None, Tombstone::NONE, false);
        let mut first = true;
        while scanner.item(b'}', first).await? {
            first = false;
            let name = scanner.name().await?;
            match name.as_str() {
                "key" => key = Some(self.partition_key(&scanner.value().await?)?),
                "tombstone" if started => {
                    return Failure::operation("the tombstone of a partition after its rows");
                }
                "tombstone" => tombstone = read_tombstone(&scanner.value().await?)?,
                "static_row" => {
                    self.start(&key, tombstone, &mut started).await?;
                    let value = scanner.value().await?;
                    let row = self.row(ColumnKind::Static, &Map::new(), &value)?;
                    self.put(Fragment::StaticRow { row }).await?;
                }
                "clustering_elements" => {
                    self.start(&key, tombstone, &mut started).await?;
                    self.elements(scanner).await?;
                }
                _ => {
                    scanner.value().await?;
                }
            }
        }
        self.start(&key, tombstone, &mut started).await?;
        self.put(Fragment::PartitionEnd).await
    }

    async fn start(
        &mut self,
        key: &Option<DecoratedKey>,
        tombstone: Tombstone,
        started: &mut bool,
    ) -> Result<(), Failure> {
        if std::mem::replace(started, true) {
            return Ok(());
        }
        let Some(key) = key.clone() else {
            return Failure::operation("a partition without a key before its rows");
        };
        self.open = Tombstone::NONE;
        self.put(Fragment::PartitionStart { key, tombstone }).await
    }

    async fn elements(&mut self, scanner: &mut Scanner) -> Result<(), Failure> {
        scanner.expect(b'[').await?;
        let mut first = true;
        while scanner.item(b']', first).await? {
            first = false;
            let value = scanner.value().await?;
            let fragment = self.element(&value)?;
            self.put(fragment).await?;
        }
        Ok(())
    }

    fn element(&self, value: &Value) -> Result<Fragment, Failure> {
        let object = object(value, "an element of a partition")?;
        match text(object, "type") {
            Some("clustering-row") => {
                let key = self.clustering_key(object.get("key"))?;
                let count = model::key::clustering_components(&key).count();
                if count != self.schema.clustering_count {
                    return Failure::operation(format!("a row without its whole key: {value}"));
                }
                let empty = Value::Object(Map::new());
                let columns = object.get("columns").unwrap_or(&empty);
                let row = self.row(ColumnKind::Regular, object, columns)?;
                Ok(Fragment::Row { key, row })
            }
            Some("range-tombstone-change") => {
                let prefix = self.clustering_key(object.get("key"))?;
                let weight = object.get("weight").and_then(Value::as_i64);
                let weight = weight.filter(|weight| matches!(weight, -1 | 1));
                let Some(weight) = weight else {
                    return Failure::operation(
                        "a range tombstone change of weight neither -1 nor 1",
                    );
                };
                let tombstone = match object.get("tombstone") {
                    Some(value) => read_tombstone(value)?,
                    None => Tombstone::NONE,
                };
                let position = ClusteringPosition { prefix, weight: weight as i8 };
                Ok(Fragment::RangeTombstoneChange { position, tombstone })
            }
            _ => Failure::operation(format!("an element of unknown type: {value}")),
        }
    }

    /// Checks the order, and writes.
    async fn put(&mut self, fragment: Fragment) -> Result<(), Failure> {
        let broken = self.order.check(&fragment);
        let is_let_in = self.rows == RowOrder::Unchecked && broken == Some(ROWS_OUT_OF_ORDER);
        if let Some(what) = broken
            && !is_let_in
        {
            return Failure::operation(format!("{what}: {fragment:?}"));
        }
        match &fragment {
            Fragment::RangeTombstoneChange { tombstone, .. } => self.open = *tombstone,
            Fragment::PartitionEnd if !self.open.is_none() => {
                return Failure::operation("a range tombstone is open at the end of a partition");
            }
            _ => {}
        }
        self.writer.write(&fragment).await?;
        Ok(())
    }

    fn partition_key(&self, value: &Value) -> Result<DecoratedKey, Failure> {
        let columns = self.schema.partition_key();
        let key = match (value["raw"].as_str(), value["value"].as_str()) {
            (Some(raw), _) => values::partition_of_raw(columns, raw),
            (None, Some(text)) => values::partition_of_values(columns, text),
            (None, None) => Err(format!("a partition key without raw or value: {value}")),
        };
        let key = key.map_err(Failure::Operation)?;
        Ok(DecoratedKey::new(Bytes::copy_from(&key)))
    }

    /// Empty for no key.
    fn clustering_key(&self, value: Option<&Value>) -> Result<Bytes, Failure> {
        let Some(value) = value else { return Ok(Bytes::new()) };
        let columns = self.schema.clustering();
        let prefix = match (value["raw"].as_str(), value["value"].as_str()) {
            (Some(raw), _) => values::clustering_of_raw(columns.len(), raw),
            (None, Some(text)) => values::clustering_of_values(columns, text),
            (None, None) => Err(format!("a clustering key without raw or value: {value}")),
        };
        Ok(Bytes::copy_from(&prefix.map_err(Failure::Operation)?))
    }

    /// A row of what stands in `object` beside its columns, and of its columns.
    fn row(
        &self,
        kind: ColumnKind,
        object: &Map<String, Value>,
        columns: &Value,
    ) -> Result<Bytes, Failure> {
        let mut row = RowBuilder::new(Vec::new());
        if let Some(marker) = object.get("marker") {
            row.marker(read_marker(marker)?);
        }
        let tombstone = |name: &str| object.get(name).map_or(Ok(Tombstone::NONE), read_tombstone);
        let (regular, shadowable) = (tombstone("tombstone")?, tombstone("shadowable_tombstone")?);
        if !regular.is_none() {
            row.tombstone(regular);
        }
        // A dump has both, where the row has but one.
        if shadowable != regular {
            row.shadowable(shadowable);
        }
        let mut given: Vec<(&Column, &Value)> = Vec::new();
        for (name, value) in object_of(columns, "the columns of a row")? {
            let column = self.schema.column(name).filter(|column| column.kind == kind);
            let Some(column) = column else {
                return Failure::operation(format!("the table has no such column here: {name}"));
            };
            given.push((column, value));
        }
        given.sort_by_key(|(column, _)| column.id);
        for (column, value) in given {
            let within = |failure: Failure| match failure {
                Failure::Operation(why) => {
                    Failure::Operation(format!("column {}: {why}", column.name))
                }
                other => other,
            };
            if column.ty.is_multi_cell() {
                let blob = read_collection(&column.ty, value).map_err(within)?;
                row.collection(column.id, &blob);
            } else {
                let mut bytes = Vec::new();
                let cell = read_cell(&column.ty, value, &mut bytes).map_err(within)?;
                row.cell(column.id, cell);
            }
        }
        Ok(Bytes::copy_from(&row.finish()))
    }
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, Failure> {
    match value {
        Value::Object(object) => Ok(object),
        other => Failure::operation(format!("{what} is no object: {other}")),
    }
}

fn object_of<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, Failure> {
    object(value, what)
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

fn need_timestamp(value: &Value) -> Result<i64, Failure> {
    match value["timestamp"].as_i64() {
        Some(timestamp) => Ok(timestamp),
        None => Failure::operation(format!("no timestamp: {value}")),
    }
}

fn need_time(value: &Value, name: &str) -> Result<i64, Failure> {
    match value[name].as_str().and_then(values::time_of) {
        Some(seconds) => Ok(seconds),
        None => Failure::operation(format!("no {name}, as YYYY-MM-DD HH:MM:SS: {value}")),
    }
}

/// `{}` is no tombstone.
fn read_tombstone(value: &Value) -> Result<Tombstone, Failure> {
    if object(value, "a tombstone")?.is_empty() {
        return Ok(Tombstone::NONE);
    }
    Ok(Tombstone::new(need_timestamp(value)?, need_time(value, "deletion_time")?))
}

fn read_marker(value: &Value) -> Result<Marker, Failure> {
    let timestamp = need_timestamp(value)?;
    if let Some(ttl) = ttl(value)? {
        let expiry = need_time(value, "expiry")?;
        return Ok(Marker::Expiring { timestamp, expiry, ttl });
    }
    match value.get("deletion_time") {
        Some(_) => {
            let deletion_time = need_time(value, "deletion_time")?;
            Ok(Marker::Dead { timestamp, deletion_time })
        }
        None => Ok(Marker::Live { timestamp }),
    }
}

fn ttl(value: &Value) -> Result<Option<i32>, Failure> {
    match &value["ttl"] {
        Value::Null => Ok(None),
        Value::String(text) if values::ttl_of(text).is_some() => Ok(values::ttl_of(text)),
        other => Failure::operation(format!("not a number of seconds: {other}")),
    }
}

/// A cell; `bytes` holds its value.
fn read_cell<'b>(ty: &Type, value: &Value, bytes: &'b mut Vec<u8>) -> Result<Cell<'b>, Failure> {
    let timestamp = need_timestamp(value)?;
    if value["is_live"] == Value::Bool(false) {
        return Ok(Cell::dead(timestamp, need_time(value, "deletion_time")?));
    }
    if value["type"] == "counter-shards" {
        mutation::counter::write_all(read_shards(&value["value"])?.into_iter(), bytes);
        return Ok(Cell { timestamp, state: CellState::Counter { shards: bytes } });
    }
    let Some(text) = value["value"].as_str() else {
        return Failure::operation(format!("a live cell without a value: {value}"));
    };
    *bytes = values::parse(ty, text).map_err(Failure::Operation)?;
    match ttl(value)? {
        Some(ttl) => Ok(Cell::expiring(timestamp, bytes, need_time(value, "expiry")?, ttl)),
        None => Ok(Cell::live(timestamp, bytes)),
    }
}

fn read_shards(value: &Value) -> Result<Vec<Shard>, Failure> {
    let wrong = || Failure::Operation(format!("not the shards of a counter: {value}"));
    let shard = |value: &Value| {
        let id = model::Uuid::parse_str(value["id"].as_str()?).ok()?;
        let (clock, value) = (value["clock"].as_i64()?, value["value"].as_i64()?);
        Some(Shard { id: *id.as_bytes(), clock, value })
    };
    let shards: Option<Vec<Shard>> =
        value.as_array().ok_or_else(wrong)?.iter().map(shard).collect();
    let mut shards = shards.ok_or_else(wrong)?;
    shards.sort_by_key(|shard| shard.id);
    let unique = shards.windows(2).all(|pair| pair[0].id != pair[1].id);
    unique.then_some(shards).ok_or_else(wrong)
}

fn read_collection(ty: &Type, value: &Value) -> Result<Vec<u8>, Failure> {
    let tombstone = match value.get("tombstone") {
        Some(tombstone) => read_tombstone(tombstone)?,
        None => Tombstone::NONE,
    };
    let none = Vec::new();
    let cells = value["cells"].as_array().unwrap_or(&none);
    let mut elements = Vec::with_capacity(cells.len());
    for (index, element) in cells.iter().enumerate() {
        let key = element["key"].as_str().unwrap_or_default();
        let (path, element_type) = path_of(ty, key, index)?;
        elements.push((path, element_type, &element["value"]));
    }
    let path_type = ty.path_type().unwrap_or(Type::Blob);
    let order = |a: &[u8], b: &[u8]| match ty {
        Type::User(_) => a.cmp(b),
        _ => value::compare(&path_type, a, b),
    };
    elements.sort_by(|a, b| order(&a.0, &b.0));
    if elements.windows(2).any(|pair| order(&pair[0].0, &pair[1].0) == Ordering::Equal) {
        return Failure::operation("an element stands twice in a collection");
    }
    let mut writer = CollectionWriter::new(tombstone);
    for (path, element_type, value) in &elements {
        let mut bytes = Vec::new();
        let cell = read_cell(element_type, value, &mut bytes)?;
        if !tombstone.covers(cell.timestamp) {
            writer.push(path, cell);
        }
    }
    Ok(writer.finish())
}

/// The path of an element and the type of its value.
fn path_of(ty: &Type, key: &str, index: usize) -> Result<(Vec<u8>, Type), Failure> {
    if let Type::User(user) = ty {
        let named = user.fields.iter().position(|(name, _)| name == key);
        // Some dumps do not name fields: then they stand in order.
        let place = named.or_else(|| key.is_empty().then_some(index));
        let found = place.and_then(|place| Some((place, user.fields.get(place)?)));
        let Some((place, (_, field))) = found else {
            return Failure::operation(format!("type {} has no field {key}", user.name));
        };
        let mut path = Vec::new();
        path.put_u16(place as u16);
        return Ok((path, field.clone()));
    }
    let path_type = ty.path_type().unwrap_or(Type::Blob);
    let path = values::parse(&path_type, key).map_err(Failure::Operation)?;
    let element = match ty {
        Type::Set { .. } => Type::Blob,
        _ => ty.element_type().cloned().unwrap_or(Type::Blob),
    };
    Ok((path, element))
}
