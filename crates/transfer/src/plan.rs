//! From records to the values of a statement.
//!
//! Pure: what a load does with each record, once the table and the names of its fields are known.

use crate::csv::Fields;
use crate::feed::Records;
use crate::table::{Kind, Routing, Table};
use crate::values::{self, Formats};
use client::request::{self, Consistency};
use client::{Prepared, request::BatchKind};
use model::types::quote_identifier;
use model::{Token, Type, key};

/// What a null in a record means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// The column stays as it is: nothing is written, no tombstone either.
    Unset,
    /// The column is deleted.
    Delete,
}

/// How rows are sent together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Rows of one shard may go together; otherwise only rows of one partition.
    pub(crate) by_shard: bool,
    pub(crate) rows_max: u16,
    pub(crate) bytes_max: usize,
}

impl Policy {
    /// Servers with shards take batches over partitions of a shard as one write each, and warn of
    /// more than 128 KiB, each partition counted with 256 bytes. Others warn of 5 KiB and of many
    /// partitions.
    pub(crate) fn for_server(routing: &Routing, rows_max: Option<u16>) -> Policy {
        let policy = match routing {
            Routing::Unknown => Policy { by_shard: false, rows_max: 32, bytes_max: 4 << 10 },
            _ => Policy { by_shard: true, rows_max: 256, bytes_max: 96 << 10 },
        };
        Policy { rows_max: rows_max.unwrap_or(policy.rows_max), ..policy }
    }

    /// What a row counts beside its values, and what a value counts beside its bytes: about what
    /// the server adds to them.
    pub(crate) const ROW_BYTES: usize = 256;
    pub(crate) const VALUE_BYTES: usize = 12;
}

/// A statement, before it is prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) text: String,
    /// The field of each marker.
    sources: Vec<usize>,
    /// The column of each field; an empty name is a field that is left out.
    fields: Vec<String>,
    /// Which markers may not be null.
    is_key: Vec<bool>,
    pub(crate) is_counter: bool,
    /// Whether members of JSON objects without a column here are left out.
    pub(crate) takes_some: bool,
}

impl Statement {
    /// For records whose fields have those names. The error names the field.
    pub(crate) fn new(
        table: &Table,
        fields: &[String],
        ttl_secs: Option<u32>,
    ) -> Result<Statement, String> {
        let mut columns = Vec::new();
        for (index, name) in fields.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let column = table.column(name);
            let column = column.ok_or_else(|| format!("{} has no column {name}", table.cql()))?;
            if columns.iter().any(|(_, known): &(usize, &crate::table::Column)| *known == column) {
                return Err(format!("the column {name} is there twice"));
            }
            columns.push((index, column));
        }
        let keys = |kind: Kind| table.columns.iter().filter(move |column| column.kind == kind);
        for column in keys(Kind::PartitionKey).chain(keys(Kind::Clustering)) {
            let is_there = columns.iter().any(|(_, known)| *known == column);
            if !is_there && column.kind == Kind::PartitionKey {
                return Err(format!("no field has the key column {}", column.name));
            }
        }
        let is_counter = table.is_counter();
        if is_counter && ttl_secs.is_some() {
            return Err("counters have no TTL".to_string());
        }
        if is_counter {
            // The markers of an UPDATE stand in another order.
            columns.sort_by_key(|(_, column)| column.kind != Kind::Other);
        }
        let text = match is_counter {
            true => update(table, &columns),
            false => insert(table, &columns, ttl_secs),
        };
        let fields = fields
            .iter()
            .map(|name| table.column(name).map_or_else(String::new, |column| column.name.clone()));
        Ok(Statement {
            text,
            sources: columns.iter().map(|(index, _)| *index).collect(),
            fields: fields.collect(),
            is_key: columns.iter().map(|(_, column)| column.kind != Kind::Other).collect(),
            is_counter,
            takes_some: false,
        })
    }
}

fn insert(table: &Table, columns: &[(usize, &crate::table::Column)], ttl: Option<u32>) -> String {
    let names: Vec<String> = columns.iter().map(|(_, c)| quote_identifier(&c.name)).collect();
    let markers = vec!["?"; names.len()].join(", ");
    let using = ttl.map_or_else(String::new, |secs| format!(" USING TTL {secs}"));
    format!("INSERT INTO {} ({}) VALUES ({markers}){using}", table.cql(), names.join(", "))
}

fn update(table: &Table, columns: &[(usize, &crate::table::Column)]) -> String {
    let part = |is_key: bool, form: &dyn Fn(&str) -> String, between: &str| {
        let some = columns.iter().filter(|(_, column)| (column.kind != Kind::Other) == is_key);
        let some: Vec<String> = some.map(|(_, c)| form(&quote_identifier(&c.name))).collect();
        some.join(between)
    };
    let set = part(false, &|name| format!("{name} = {name} + ?"), ", ");
    let keys = part(true, &|name| format!("{name} = ?"), " AND ");
    format!("UPDATE {} SET {set} WHERE {keys}", table.cql())
}

/// All that the loading of records needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) statement: Statement,
    pub(crate) prepared: Prepared,
    pub(crate) records: Records,
    pub(crate) formats: Formats,
    pub(crate) nulls: Nulls,
    pub(crate) consistency: Consistency,
    pub(crate) timestamp: Option<i64>,
    pub(crate) routing: Routing,
    pub(crate) policy: Policy,
}

/// Why a record is not a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// Where in the record, where that is known.
    pub(crate) at: Option<usize>,
    pub(crate) why: String,
}

/// Memory that records are encoded in, again and again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    fields: Fields,
    /// The values of the row, as requests have them.
    pub(crate) values: Vec<u8>,
    /// Where each value begins.
    starts: Vec<usize>,
    key: Vec<u8>,
}

impl Scratch {
    /// The partition key of the row.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Plan {
    pub(crate) fn batch_kind(&self) -> BatchKind {
        if self.statement.is_counter { BatchKind::Counter } else { BatchKind::Unlogged }
    }

    /// Counts the markers.
    pub(crate) fn markers(&self) -> u16 {
        self.prepared.markers.len() as u16
    }

    /// Encodes the values of a record: the shard of its row.
    pub(crate) fn encode(&self, record: &[u8], scratch: &mut Scratch) -> Result<u32, Bad> {
        scratch.values.clear();
        scratch.starts.clear();
        match &self.records {
            Records::Csv(dialect) => {
                dialect.fields(record, &mut scratch.fields);
                self.encode_fields(record, scratch)?;
            }
            Records::Json => self.encode_json(record, scratch)?,
        }
        self.find_key(scratch);
        Ok(self.routing.shard_of(Token::of(&scratch.key)))
    }

    fn encode_fields(&self, record: &[u8], scratch: &mut Scratch) -> Result<(), Bad> {
        let Scratch { fields, values, starts, .. } = scratch;
        let wanted = self.statement.fields.len();
        if fields.count() != wanted {
            let why = format!("{} fields where {wanted} are expected", fields.count());
            return Err(Bad { at: None, why });
        }
        let markers = self.prepared.markers.iter().zip(&self.statement.sources);
        for ((marker, source), is_key) in markers.zip(&self.statement.is_key) {
            let field = fields.get(record, *source);
            let field = field.ok_or_else(|| Bad { at: None, why: "a missing field".into() })?;
            starts.push(values.len());
            // A text is told from null by its quotes. What has no empty text is null then.
            let is_text = matches!(marker.ty, Type::Text | Type::Ascii);
            let null = self.formats.null.as_bytes();
            let is_nothing = field.bytes.is_empty() && !is_text && marker.ty != Type::Blob;
            let is_marked = field.bytes == null && !(field.is_quoted && is_text);
            if is_marked || field.raw == null || is_nothing {
                self.put_null(&marker.name, *is_key, values)
                    .map_err(|why| Bad { at: Some(field.at), why })?;
                continue;
            }
            values::put(&marker.ty, field.bytes, &self.formats, values).map_err(|why| Bad {
                at: Some(field.at),
                why: format!("{}: {why}", marker.name),
            })?;
        }
        Ok(())
    }

    fn put_null(&self, name: &str, is_key: bool, values: &mut Vec<u8>) -> Result<(), String> {
        match self.nulls {
            _ if is_key => return Err(format!("{name}: a null in the primary key")),
            _ if self.statement.is_counter => request::put_value(values, &0i64.to_be_bytes()),
            Nulls::Unset => request::put_unset(values),
            Nulls::Delete => request::put_null(values),
        }
        Ok(())
    }

    fn encode_json(&self, record: &[u8], scratch: &mut Scratch) -> Result<(), Bad> {
        let bad = |why: String| Bad { at: None, why };
        let text = std::str::from_utf8(record).map_err(|_| bad("not UTF-8".to_string()))?;
        let members = crate::json::members(text).map_err(bad)?;
        let known = |name: &str| {
            self.statement.takes_some || self.statement.fields.iter().any(|field| field == name)
        };
        if let Some((name, _)) = members.iter().find(|(name, _)| !known(name)) {
            return Err(bad(format!("the table has no column {name}")));
        }
        for (marker, is_key) in self.prepared.markers.iter().zip(&self.statement.is_key) {
            scratch.starts.push(scratch.values.len());
            let found = members.iter().rev().find(|(name, _)| *name == marker.name);
            let read = |json| crate::json::value(&marker.ty, json);
            let bytes = found.map_or(Ok(None), |(_, json)| read(json));
            match bytes.map_err(|why| bad(format!("{}: {why}", marker.name)))? {
                Some(bytes) => request::put_value(&mut scratch.values, &bytes),
                None => {
                    let done = self.put_null(&marker.name, *is_key, &mut scratch.values);
                    done.map_err(bad)?;
                }
            }
        }
        Ok(())
    }

    /// Finds the partition key among the values. A server that does not name its markers gets
    /// rows of no known key: all to one shard.
    fn find_key(&self, scratch: &mut Scratch) {
        let Scratch { values, starts, key, .. } = scratch;
        key.clear();
        let value = |index: &u16| {
            let start = starts.get(usize::from(*index))?;
            let (length, rest) = values.get(*start..)?.split_first_chunk::<4>()?;
            rest.get(..usize::try_from(i32::from_be_bytes(*length)).ok()?)
        };
        match &self.prepared.key[..] {
            [only] => key.extend_from_slice(value(only).unwrap_or_default()),
            several => {
                let parts: Option<Vec<&[u8]>> = several.iter().map(value).collect();
                let parts = parts.filter(|parts| parts.iter().all(|part| part.len() < 1 << 16));
                if let Some(parts) = parts {
                    key::compose_partition_key(parts.iter().copied(), key);
                }
            }
        }
    }
}

/// The names of fields: of the header, those that the operator gives, or all columns.
pub(crate) fn field_names(
    table: &Table,
    given: Option<&[String]>,
    header: Option<Vec<String>>,
) -> Vec<String> {
    match (given, header) {
        (Some(given), _) => given.to_vec(),
        (None, Some(header)) => header,
        (None, None) => table.columns.iter().map(|column| column.name.clone()).collect(),
    }
}
