//! Reads of virtual tables, from computed rows. Pure.
//!
//! Invariants
//!  - *by-column*: a row has one value, or null, per column of its schema, in the schema's order.
//!  - *ring-order*: partitions come by token, then by key, each of them whole.

use cluster::VirtualRow;
use model::key::{compose_partition_key, push_clustering};
use model::value::collection::{list_elements, map_entries};
use model::{Column, ColumnKind, DecoratedKey, TableSchema, Type};
use mutation::cell::CellState;
use mutation::collection::CollectionWriter;
use mutation::compact::{QueryCompactor, Step};
use mutation::page::{Page, Partitions, ReadCommand};
use mutation::range::Direction;
use mutation::{Cell, ClusteringRange, Fragment, FrozenMutation, Marker, MutationBuilder};
use mutation::{RowBuilder, Tombstone};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use stdx::Bytes;

/// The timestamp of computed cells.
const TIMESTAMP: i64 = 1;

/// One page of `rows`, as storage would answer it.
pub(crate) fn answer(schema: &TableSchema, rows: Vec<VirtualRow>, command: &ReadCommand) -> Page {
    let mut compactor = QueryCompactor::new(schema, command);
    debug_assert!(command.table == schema.id, "rows of another table than {}", schema.name);
    for (key, mutation) in partitions(schema, &rows, command) {
        let Ok(view) = mutation.view() else { continue };
        let fragments = view.fragments(&schema.order);
        let fragments = slice(schema, command, &key, fragments);
        for fragment in fragments {
            match compactor.consume(&fragment) {
                Step::Continue => {}
                Step::NextPartition => break,
                Step::Stop => return compactor.finish(),
            }
        }
    }
    compactor.finish()
}

/// The partitions of `rows` that the command reads, whole, in ring order.
pub(crate) fn partitions(
    schema: &TableSchema,
    rows: &[VirtualRow],
    command: &ReadCommand,
) -> BTreeMap<DecoratedKey, FrozenMutation> {
    let mut partitions = BTreeMap::<DecoratedKey, MutationBuilder<'_>>::new();
    for row in rows {
        let (values_count, columns) = (row.len(), schema.columns.len());
        assert!(values_count == columns, "by-column: {values_count} values of {columns} columns");
        let mut bytes = Vec::new();
        compose_partition_key(values(schema.partition_key(), row, 0), &mut bytes);
        let key = DecoratedKey::new(Bytes::from(bytes));
        if is_wanted(command, &key) {
            let builder = partitions.entry(key.clone());
            let builder = builder.or_insert_with(|| MutationBuilder::new(schema, &key.key));
            add(schema, row, builder);
        }
    }
    partitions.into_iter().map(|(key, builder)| (key, builder.freeze())).collect()
}

/// The values of adjacent columns, the first of which stands at `start`; null is empty.
fn values<'a>(
    columns: &'a [Column],
    row: &'a VirtualRow,
    start: usize,
) -> impl ExactSizeIterator<Item = &'a [u8]> {
    (start..start + columns.len())
        .map(move |index| row.get(index).and_then(Option::as_deref).unwrap_or_default())
}

fn is_wanted(command: &ReadCommand, key: &DecoratedKey) -> bool {
    match &command.partitions {
        Partitions::Key(wanted) => wanted[..] == key.key[..],
        Partitions::Range { start, end } => {
            start.place(key.token, &key.key) == Ordering::Greater
                && end.place(key.token, &key.key) == Ordering::Less
        }
    }
}

fn add(schema: &TableSchema, row: &VirtualRow, builder: &mut MutationBuilder<'_>) {
    let mut clustering = Vec::new();
    for value in values(schema.clustering(), row, schema.partition_key_count) {
        push_clustering(value, &mut clustering);
    }
    if let Some(statics) = encode(schema, row, ColumnKind::Static) {
        builder.static_row(&statics);
    }
    if let Some(regulars) = encode(schema, row, ColumnKind::Regular) {
        builder.row(&clustering, &regulars);
    }
}

/// The columns of a kind as a row blob; `None` for a static row of nulls.
fn encode(schema: &TableSchema, row: &VirtualRow, kind: ColumnKind) -> Option<Vec<u8>> {
    let mut cells: Vec<(&Column, &[u8])> = schema
        .columns
        .iter()
        .zip(row)
        .filter(|(column, _)| column.kind == kind)
        .filter_map(|(column, value)| Some((column, value.as_deref()?)))
        .collect();
    if kind == ColumnKind::Static && cells.is_empty() {
        return None;
    }
    cells.sort_by_key(|(column, _)| column.id);
    debug_assert!(cells.is_sorted_by(|a, b| a.0.id < b.0.id), "by-column: one has two values");
    let mut out = RowBuilder::new(Vec::new());
    if kind == ColumnKind::Regular {
        out.marker(Marker::Live { timestamp: TIMESTAMP });
    }
    for (column, value) in cells {
        if column.ty.is_multi_cell() {
            out.collection(column.id, &collection(&column.ty, value));
        } else {
            out.cell(column.id, cell(value));
        }
    }
    Some(out.finish())
}

fn cell(value: &[u8]) -> Cell<'_> {
    Cell { timestamp: TIMESTAMP, state: CellState::Live { value } }
}

/// The blob of a collection given as a frozen value; of sets and maps, the others stay empty.
fn collection(ty: &Type, value: &[u8]) -> Vec<u8> {
    let mut writer = CollectionWriter::new(Tombstone::NONE);
    match ty {
        Type::Set { .. } => {
            for element in list_elements(value).flatten().flatten() {
                writer.push(element, cell(&[]));
            }
        }
        Type::Map { .. } => map_entries(value).for_each(|(key, value)| {
            writer.push(key, cell(value));
        }),
        _ => {}
    }
    writer.finish()
}

/// What of a partition's fragments the command reads, in its direction.
fn slice(
    schema: &TableSchema,
    command: &ReadCommand,
    key: &DecoratedKey,
    fragments: Vec<Fragment>,
) -> Vec<Fragment> {
    let resumes = command.resume.as_ref().is_some_and(|resume| resume.key[..] == key.key[..]);
    let ranges = match resumes {
        true => command.resumed_ranges(&schema.order),
        false => command.clustering_ranges(),
    };
    let starts = matches!(fragments.first(), Some(Fragment::PartitionStart { .. }));
    debug_assert!(starts, "ring-order: a partition without its start");
    let ends = matches!(fragments.last(), Some(Fragment::PartitionEnd));
    debug_assert!(ends, "ring-order: a partition without its end");
    let (mut rows, mut others) = (Vec::new(), Vec::new());
    for fragment in fragments {
        match &fragment {
            Fragment::Row { key, .. } if is_in(schema, &ranges, key) => rows.push(fragment),
            Fragment::Row { .. } => {}
            _ => others.push(fragment),
        }
    }
    if command.direction() == Direction::Reversed {
        rows.reverse();
    }
    let end = others.pop();
    others.append(&mut rows);
    others.extend(end);
    others
}

fn is_in(schema: &TableSchema, ranges: &[ClusteringRange], key: &[u8]) -> bool {
    let order = &schema.order;
    ranges.iter().any(|range| {
        order.compare(range.start.as_parts(), (key, 0)) != Ordering::Greater
            && order.compare((key, 0), range.end.as_parts()) == Ordering::Less
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::virtual_tables::row;
    use mutation::page::{ColumnForm, PageView, RingBound, SendRange};

    fn command(schema: &TableSchema, partitions: Partitions) -> ReadCommand {
        let columns = schema.statics().iter().chain(schema.regulars());
        ReadCommand {
            table: schema.id,
            partitions,
            ranges: vec![SendRange::full()],
            reversed: false,
            columns: columns.map(|column| (column.id, ColumnForm::Value)).collect(),
            static_count: schema.static_count,
            row_limit: 100,
            per_partition_limit: 100,
            partition_limit: 100,
            bytes_max: 10_000,
            static_only_rows: true,
            tombstone_limit: 100,
            now: 0,
            bypass_cache: false,
            shape: mutation::RowShape::Whole,
            resume: None,
        }
    }

    fn items(page: &Page, command: &ReadCommand) -> Vec<(String, String)> {
        let view = PageView::parse(&page.bytes, command.layout()).expect("a page");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let partitions = view.partitions().flat_map(|partition| {
            let key = text(partition.key());
            partition
                .rows()
                .map(move |row| (key.clone(), text(&row.clustering()[2..])))
                .collect::<Vec<_>>()
        });
        partitions.collect()
    }

    fn rows(schema: &TableSchema) -> Vec<VirtualRow> {
        let item = |group: &str, item: &str| {
            row(
                schema,
                vec![
                    ("group", group.as_bytes().to_vec()),
                    ("item", item.as_bytes().to_vec()),
                    ("value", b"1".to_vec()),
                ],
            )
        };
        vec![item("memory", "used"), item("generic", "load"), item("memory", "free")]
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
    }

    #[test]
    fn keys_slices_limits_and_directions_are_kept() {
        let schema = cluster::system_tables::table("system", "runtime_info");
        let mut read = command(&schema, Partitions::Key(b"memory".to_vec()));
        let page = answer(&schema, rows(&schema), &read);
        assert_eq!(items(&page, &read), pairs(&[("memory", "free"), ("memory", "used")]));
        read.reversed = true;
        read.row_limit = 1;
        let page = answer(&schema, rows(&schema), &read);
        assert_eq!(items(&page, &read), pairs(&[("memory", "used")]));
        read.resume = page.resume;
        let page = answer(&schema, rows(&schema), &read);
        assert_eq!(items(&page, &read), pairs(&[("memory", "free")]));
        let mut clustering = Vec::new();
        push_clustering(b"used", &mut clustering);
        let mut read = command(&schema, Partitions::Key(b"memory".to_vec()));
        read.ranges = vec![SendRange::of_prefix(&clustering)];
        let page = answer(&schema, rows(&schema), &read);
        assert_eq!(items(&page, &read), pairs(&[("memory", "used")]));
    }

    #[test]
    fn a_range_goes_by_token() {
        let schema = cluster::system_tables::table("system", "runtime_info");
        let bound = |token, after| RingBound { token, key: None, after };
        let start = bound(model::Token::MIN, false);
        let end = bound(model::Token::MAX, true);
        let read = command(&schema, Partitions::Range { start, end });
        let page = answer(&schema, rows(&schema), &read);
        let mut expected = pairs(&[("memory", "free"), ("memory", "used"), ("generic", "load")]);
        expected.sort_by_key(|(key, item)| (model::Token::of(key.as_bytes()), item.clone()));
        assert_eq!(items(&page, &read), expected);
    }
}
