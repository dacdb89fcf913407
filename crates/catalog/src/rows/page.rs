//! Reading whole system tables: the command, and its pages as rows by column name.
//!
//! Invariants
//!  - *forward*: the next page begins behind the one before.
//!  - *ring-order*: the partitions of a page come by token, then by key.
//!  - *all-columns*: a page has a value, or null, of every column that is no part of the key.

use super::{DamagedSchema, Row};
use model::key::{clustering_components, split_partition_key};
use model::{Column, TableSchema, Token};
use mutation::page::{ColumnForm, Page, PageColumns, PageView};
use mutation::page::{Partitions, ReadCommand, RingBound};

/// Bytes of a page, about.
const PAGE_BYTES: usize = 1 << 20;

/// A read of all live rows of a table, as of `now` in seconds.
pub fn read_all(schema: &TableSchema, now: i64) -> ReadCommand {
    let columns = schema.statics().iter().chain(schema.regulars());
    let of_no_key = schema.columns.len() - schema.partition_key_count - schema.clustering_count;
    debug_assert!(schema.static_count <= of_no_key, "all-columns: {}", schema.name);
    ReadCommand {
        columns: columns.map(|column| (column.id, ColumnForm::Value)).collect(),
        static_count: schema.static_count,
        bytes_max: if stdx::buggify!("system tables in small pages", 2) { 100 } else { PAGE_BYTES },
        static_only_rows: true,
        ..ReadCommand::all(schema.id, Partitions::all(), now)
    }
}

/// A read of all live rows of one partition of a table, as of `now` in seconds.
pub fn read_partition(schema: &TableSchema, key: &[u8], now: i64) -> ReadCommand {
    let partitions = Partitions::Key(key.to_vec());
    ReadCommand { partitions, ..read_all(schema, now) }
}

/// Makes `command` go on after `page`; false when nothing is left.
pub fn advance(command: &mut ReadCommand, page: &Page) -> bool {
    let Some(resume) = &page.resume else { return false };
    if let Partitions::Range { start, .. } = &mut command.partitions {
        let token = Token::of(&resume.key);
        assert!(start.token <= token, "forward: {token:?} after {:?}", start.token);
        *start = RingBound { token, key: Some(resume.key.clone()), after: resume.after.is_none() };
    }
    command.resume = resume.after.is_some().then(|| resume.clone());
    true
}

/// Appends the rows of a page of `command`, a [`read_all`] or [`read_partition`] of `schema`.
pub fn decode(
    schema: &TableSchema,
    command: &ReadCommand,
    page: &Page,
    out: &mut Vec<Row>,
) -> Result<(), DamagedSchema> {
    debug_assert!(command.table == schema.id, "a page of another table than {}", schema.name);
    let view = PageView::trusted(&page.bytes, command.layout());
    let mut last: Option<(Token, Vec<u8>)> = None;
    for partition in view.partitions() {
        if cfg!(debug_assertions) {
            let place = (Token::of(partition.key()), partition.key().to_vec());
            debug_assert!(last.as_ref() < Some(&place), "ring-order: {}", schema.name);
            last = Some(place);
        }
        let components = split_partition_key(partition.key(), schema.partition_key_count);
        let components = components.map_err(|damaged| DamagedSchema {
            table: format!("{}.{}", schema.keyspace, schema.name),
            what: damaged.to_string(),
        })?;
        let mut shared = Row::new();
        for (column, value) in schema.partition_key().iter().zip(components) {
            shared.insert(column.name.clone(), value.to_vec());
        }
        if let Some(statics) = partition.statics() {
            insert_all(&mut shared, schema.statics(), statics);
        }
        if partition.row_count() == 0 {
            out.push(shared);
            continue;
        }
        for row in partition.rows() {
            let mut values = shared.clone();
            let components = clustering_components(row.clustering());
            for (column, value) in schema.clustering().iter().zip(components) {
                values.insert(column.name.clone(), value.to_vec());
            }
            insert_all(&mut values, schema.regulars(), row.columns());
            out.push(values);
        }
    }
    Ok(())
}

fn insert_all(row: &mut Row, columns: &[Column], mut values: PageColumns<'_>) {
    for (column, value) in columns.iter().zip(values.by_ref()) {
        if let Some(value) = value.value {
            let before = row.insert(column.name.clone(), value.to_vec());
            debug_assert!(before.is_none(), "all-columns: {} has two values", column.name);
        }
    }
    debug_assert!(values.next().is_none(), "all-columns: a value of no column");
}
