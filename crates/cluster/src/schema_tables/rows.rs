//! Reading whole system tables: the command, and its pages as rows by column name.

use super::read::{DamagedSchema, Row};
use model::key::{clustering_components, split_partition_key};
use model::{Column, TableSchema, Token};
use mutation::page::{ColumnForm, Page, PageColumns, PageView};
use mutation::page::{Partitions, ReadCommand, RingBound, SendRange};

/// Bytes of a page, about.
const PAGE_BYTES: usize = 1 << 20;

/// A read of all live rows of a table, as of `now` in seconds.
pub(crate) fn read_all(schema: &TableSchema, now: i64) -> ReadCommand {
    let columns = schema.statics().iter().chain(schema.regulars());
    let bound = |token, after| RingBound { token, key: None, after };
    ReadCommand {
        table: schema.id,
        partitions: Partitions::Range {
            start: bound(Token::MIN, false),
            end: bound(Token::MAX, true),
        },
        ranges: vec![SendRange::full()],
        reversed: false,
        columns: columns.map(|column| (column.id, ColumnForm::Value)).collect(),
        static_count: schema.static_count,
        row_limit: u64::MAX,
        per_partition_limit: u64::MAX,
        partition_limit: u64::MAX,
        bytes_max: if stdx::buggify!("system tables in small pages", 2) { 100 } else { PAGE_BYTES },
        static_only_rows: true,
        tombstone_limit: u64::MAX,
        now,
        bypass_cache: false,
        shape: mutation::RowShape::Whole,
        resume: None,
    }
}

/// Makes `command` go on after `page`; false when nothing is left.
pub(crate) fn advance(command: &mut ReadCommand, page: &Page) -> bool {
    let Some(resume) = &page.resume else { return false };
    if let Partitions::Range { start, .. } = &mut command.partitions {
        *start = RingBound {
            token: Token::of(&resume.key),
            key: Some(resume.key.clone()),
            after: resume.after.is_none(),
        };
    }
    command.resume = resume.after.is_some().then(|| resume.clone());
    true
}

/// Appends the rows of a page of `command`, a [`read_all`] of `schema`.
pub(crate) fn decode(
    schema: &TableSchema,
    command: &ReadCommand,
    page: &Page,
    out: &mut Vec<Row>,
) -> Result<(), DamagedSchema> {
    let view = PageView::trusted(&page.bytes, command.layout());
    for partition in view.partitions() {
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

fn insert_all(row: &mut Row, columns: &[Column], values: PageColumns<'_>) {
    for (column, value) in columns.iter().zip(values) {
        if let Some(value) = value.value {
            row.insert(column.name.clone(), value.to_vec());
        }
    }
}
