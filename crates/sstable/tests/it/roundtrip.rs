//! Random partitions of random tables come back as they were written. With `SSTABLE_DUMP` set to
//! a directory, every file is put there too, for the tools of other implementations.

use crate::support;
use crate::support::generate::{self, Generator};
use model::key::clustering_components;
use model::schema::Column;
use model::{ColumnId, ColumnKind, TableSchema, Type, value};
use mutation::{Cell, Fragment, Marker, RowBuilder, Tombstone};
use sstable::{
    Algorithm, Bases, Component, Compression, Generation, Version, Writer, WriterOptions,
};
use std::path::Path;
use std::rc::Rc;

/// The files of an SSTable, to the disk of the machine.
#[allow(clippy::disallowed_methods)]
async fn dump(table: &sstable::Table, seed: u64) {
    let Some(root) = std::env::var_os("SSTABLE_DUMP") else { return };
    let dir = Path::new(&root).join("ks").join(format!("t{seed}"));
    std::fs::create_dir_all(&dir).unwrap();
    let descriptor = table.descriptor();
    for component in Component::ALL {
        if let Ok(bytes) = runtime::io::fs::read_file(descriptor.path(table.dir(), component)).await
        {
            std::fs::write(descriptor.path(&dir, component), bytes).unwrap();
        }
    }
}

async fn check(seed: u64, compression: Compression, column_index_bytes: usize) {
    let mut generator = Generator::new(seed);
    let schema = generator.draw(&model::testing::table_schema());
    let fragments = generator.partitions(&schema, 12);
    if fragments.is_empty() {
        return;
    }
    let bases = match seed % 4 {
        0 => generate::BASES,
        _ => Bases::EPOCH,
    };
    let version = [Version::Me, Version::Ms, Version::Mt][(seed / 2 % 3) as usize];
    let options =
        WriterOptions { version, compression, column_index_bytes, bases, ..support::options() };
    check_fragments(seed, schema, fragments, options).await;
}

#[test]
fn statistics_bound_clustering_keys() {
    for seed in 0..300 {
        support::in_simulation(seed, async move {
            let mut generator = Generator::new(seed);
            let schema = loop {
                let schema = generator.draw(&model::testing::table_schema());
                if (1..=2).contains(&schema.clustering_count) {
                    break schema;
                }
            };
            let mut fragments = generator.partitions(&schema, 2 + seed % 2 * 4);
            // With a deletion of a partition there are none.
            for fragment in &mut fragments {
                if let Fragment::PartitionStart { tombstone, .. } = fragment {
                    *tombstone = Tombstone::NONE;
                }
            }
            if !fragments.is_empty() {
                check_fragments(seed, schema, fragments, support::options()).await;
            }
        });
    }
}

/// The least and the greatest value of each clustering column that every element has, from all of
/// them; nothing where a partition is deleted.
fn bounds_of(schema: &TableSchema, fragments: &[Fragment]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let deleted = |f: &Fragment| match f {
        Fragment::PartitionStart { tombstone, .. } => !tombstone.is_none(),
        _ => false,
    };
    if fragments.iter().any(deleted) {
        return Default::default();
    }
    let prefixes = fragments.iter().filter_map(Fragment::clustering);
    let prefixes = prefixes.map(|(prefix, _)| clustering_components(prefix).collect());
    let prefixes: Vec<Vec<&[u8]>> = prefixes.collect();
    let bounds = schema.clustering().iter().enumerate().map_while(|(index, column)| {
        let values: Option<Vec<&[u8]>> = prefixes.iter().map(|p| p.get(index).copied()).collect();
        let order = |a: &&[u8], b: &&[u8]| match value::compare(&column.ty, a, b) {
            order if column.reversed => order.reverse(),
            order => order,
        };
        let values = values?;
        let least = values.iter().copied().min_by(order)?;
        // Of equal ones both take the first.
        let greatest = values.iter().copied().rev().max_by(order)?;
        Some((least.to_vec(), greatest.to_vec()))
    });
    bounds.unzip()
}

async fn check_fragments(
    seed: u64,
    schema: TableSchema,
    fragments: Vec<Fragment>,
    options: WriterOptions,
) {
    let generation = Generation::Number(seed + 1);
    let schema = Rc::new(schema);
    let dir = Path::new(support::DIR);
    let class = runtime::io::IoClass::Flush;
    let writer = Writer::create(dir, generation, schema.clone(), options, class).await;
    let mut writer = writer.unwrap();
    for fragment in &fragments {
        writer.write(fragment).await.unwrap();
    }
    let sealed = writer.finish().await.unwrap().unwrap();
    let table = sstable::Table::open(dir, sealed.descriptor, schema.clone(), &support::cache())
        .await
        .unwrap();
    dump(&table, seed).await;
    table.verify(class).await.unwrap();
    let seen = support::read_all(&table).await.unwrap();
    for (index, (seen, written)) in seen.iter().zip(&fragments).enumerate() {
        assert_eq!(seen, written, "fragment {index}, seed {seed}, {schema:?}");
    }
    assert_eq!(seen.len(), fragments.len(), "seed {seed}");
    let elements =
        |f: &&Fragment| matches!(f, Fragment::Row { .. } | Fragment::RangeTombstoneChange { .. });
    assert_eq!(sealed.rows, fragments.iter().filter(elements).count() as u64);
    let stats = table.stats();
    let bounds = (stats.min_clustering.clone(), stats.max_clustering.clone());
    assert_eq!(bounds, bounds_of(&schema, &fragments), "seed {seed}, {schema:?}");
    sstable::store::remove(dir, sealed.descriptor).await.unwrap();
    assert!(sstable::store::list(dir).await.unwrap().tables.is_empty());
}

#[test]
fn random_tables_come_back() {
    support::in_simulation(1, async {
        for seed in 0..300 {
            let compression = match seed / 6 % 3 {
                0 => Compression::None,
                1 => Compression::LZ4,
                _ => Compression::Chunks { algorithm: Algorithm::Snappy, chunk_bytes: 1024 },
            };
            let column_index_bytes = if seed % 2 == 0 { 65536 } else { 64 };
            check(seed, compression, column_index_bytes).await;
        }
    });
}

fn wide_schema() -> TableSchema {
    let mut schema = mutation::testing::schema();
    schema.columns.retain(|column| matches!(column.name.as_str(), "k" | "c" | "d" | "b"));
    schema.static_count = 0;
    schema
}

fn wide_partition(rows: i32, value: &str) -> Vec<Fragment> {
    let key = model::DecoratedKey::new(mutation::testing::partition_key(1).into());
    let mut out = vec![Fragment::PartitionStart { key, tombstone: Tombstone::NONE }];
    for number in 0..rows {
        let timestamp = 1_700_000_000_000_000 + number as i64;
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp });
        row.cell(ColumnId(3), Cell::live(timestamp, value.as_bytes()));
        let key = mutation::testing::clustering(number, "x");
        out.push(Fragment::Row { key: key.into(), row: row.finish().into() });
    }
    out.push(Fragment::PartitionEnd);
    out
}

#[test]
fn a_wide_partition_without_deletions_comes_back() {
    support::in_simulation(1, async {
        let deletion_time = i32::MAX as i64;
        let options = WriterOptions {
            bases: Bases { timestamp: 1_700_000_000_000_000, deletion_time, ttl: 0 },
            column_index_bytes: 4096,
            column_index_scale_bytes: 1000,
            compression: Compression::LZ4,
            ..support::options()
        };
        for version in [Version::Me, Version::Ms, Version::Mt] {
            let options = WriterOptions { version, ..options.clone() };
            let fragments = wide_partition(3000, "some text");
            check_fragments(1000, wide_schema(), fragments, options).await;
        }
    });
}

#[test]
fn counters_come_back() {
    support::in_simulation(1, async {
        let mut schema = wide_schema();
        schema.columns[3].ty = Type::Counter;
        let mut fragments = wide_partition(0, "");
        let end = fragments.pop().unwrap();
        for number in 0..50u64 {
            let mut shards = Vec::new();
            mutation::counter::write_all(
                (0..if number == 49 { 0 } else { 1 + number % 3 }).map(|id| {
                    mutation::counter::Shard {
                        id: *model::Uuid::from_u128(id as u128 + 1).as_bytes(),
                        clock: number as i64,
                        value: -(id as i64),
                    }
                }),
                &mut shards,
            );
            let mut row = RowBuilder::new(Vec::new());
            let state = mutation::cell::CellState::Counter { shards: &shards };
            row.cell(ColumnId(3), Cell { timestamp: 1_700_000_000_000_000, state });
            let key = mutation::testing::clustering(number as i32, "x");
            fragments.push(Fragment::Row { key: key.into(), row: row.finish().into() });
        }
        fragments.push(end);
        check_fragments(1001, schema, fragments, support::options()).await;
    });
}

/// Rows that are loaded and handed out in steps, before and behind others.
#[test]
fn values_of_some_mib_come_back() {
    support::in_simulation(1, async {
        let mut fragments = Vec::new();
        for (key, lengths) in [(1, vec![10, 3 << 20, 300 << 10, 10]), (2, vec![2 << 20, 5 << 20])] {
            let key = model::DecoratedKey::new(mutation::testing::partition_key(key).into());
            fragments.push(Fragment::PartitionStart { key, tombstone: Tombstone::NONE });
            for (number, length) in lengths.into_iter().enumerate() {
                let value: Vec<u8> = (0..length).map(|at: usize| (at % 251) as u8).collect();
                let timestamp = 1_700_000_000_000_000 + number as i64;
                let mut row = RowBuilder::new(Vec::new());
                if number % 2 == 0 {
                    row.marker(Marker::Live { timestamp });
                }
                row.cell(ColumnId(3), Cell::live(timestamp, &value));
                let key = mutation::testing::clustering(number as i32, "x");
                fragments.push(Fragment::Row { key: key.into(), row: row.finish().into() });
            }
            fragments.push(Fragment::PartitionEnd);
        }
        let key = |at: usize| match &fragments[at] {
            Fragment::PartitionStart { key, .. } => key.clone(),
            other => panic!("{other:?}"),
        };
        if key(6) < key(0) {
            fragments.rotate_left(6);
        }
        for compression in [Compression::None, Compression::LZ4] {
            for column_index_bytes in [4096, 1 << 30] {
                let options =
                    WriterOptions { compression, column_index_bytes, ..support::options() };
                check_fragments(1004, wide_schema(), fragments.clone(), options).await;
            }
        }
    });
}

/// Rows that are written in steps, between others.
#[test]
fn rows_of_thousands_of_elements_come_back() {
    support::in_simulation(1, async {
        let schema = mutation::testing::schema();
        let map = schema.column("m").unwrap().id;
        let mut fragments = wide_partition(3, "some text");
        for (number, fragment) in fragments.iter_mut().enumerate() {
            let Fragment::Row { row, .. } = fragment else { continue };
            let tomb = if number == 2 { Tombstone::new(5, 7) } else { Tombstone::NONE };
            let mut elements = mutation::CollectionWriter::new(tomb);
            for key in 0..5000i32 {
                let timestamp = 1_700_000_000_000_000 + key as i64 % 3;
                let cell = match key % 7 {
                    0 => Cell::dead(timestamp, 1_700_000_000),
                    1 => Cell::expiring(timestamp, b"soon", 1_700_000_060, 60),
                    _ => Cell::live(timestamp, b"a text"),
                };
                elements.push(&key.to_be_bytes(), cell);
            }
            let mut builder = RowBuilder::new(Vec::new());
            builder.marker(Marker::Live { timestamp: 1_700_000_000_000_000 });
            builder.cell(ColumnId(3), Cell::live(1_700_000_000_000_000, b"before"));
            builder.collection(map, &elements.finish());
            *row = builder.finish().into();
            assert!(128 << 10 < row.len());
        }
        for compression in [Compression::None, Compression::LZ4] {
            let options = WriterOptions { compression, ..support::options() };
            check_fragments(1003, schema.clone(), fragments.clone(), options).await;
        }
    });
}

/// Over 64 columns and over 32 clustering columns, of which rows have few, many or all.
#[test]
fn many_columns_come_back() {
    support::in_simulation(1, async {
        let mut schema = wide_schema();
        let column = |kind, position: usize, id: usize| Column {
            id: ColumnId(id as u32),
            name: format!("{}{position:03}", if kind == ColumnKind::Regular { "r" } else { "c" }),
            kind,
            position: position as u16,
            ty: Type::Int,
            reversed: position % 2 == 1,
        };
        schema.columns.truncate(1);
        schema.columns.extend((0..40).map(|n| column(ColumnKind::Clustering, n, 100 + n)));
        schema.columns.extend((0..150).map(|n| column(ColumnKind::Regular, n, 1000 - n)));
        schema.clustering_count = 40;
        schema.order.columns = (0..40).map(|n| (Type::Int, n % 2 == 1)).collect();
        let mut generator = Generator::new(5);
        let fragments = generator.partitions(&schema, 12);
        check_fragments(1002, schema, fragments, support::options()).await;
    });
}

#[test]
fn dropped_columns_are_hidden() {
    support::in_simulation(1, async {
        let schema = Rc::new(wide_schema());
        let fragments = wide_partition(10, "v");
        let table = support::write(wide_schema(), &fragments, support::options()).await.unwrap();
        let mut dropped = wide_schema();
        let column = dropped.columns.pop().unwrap();
        let wrong = table.set_schema(Rc::new(dropped.clone()));
        assert!(wrong.unwrap_err().to_string().contains("column b of the file"), "no dropped b");
        dropped.dropped.push(model::schema::DroppedColumn {
            id: column.id,
            name: column.name.clone(),
            ty: column.ty.clone(),
            kind: column.kind,
            dropped_at: 1_700_000_000_000_004,
        });
        let cells = |fragments: &[Fragment]| -> usize {
            let rows = fragments.iter().filter_map(|fragment| match fragment {
                Fragment::Row { row, .. } => Some(mutation::RowView::parse(row).unwrap()),
                _ => None,
            });
            rows.map(|row| row.columns().count()).sum()
        };
        assert_eq!(cells(&support::read_all(&table).await.unwrap()), 10);
        table.set_schema(Rc::new(dropped.clone())).unwrap();
        assert_eq!(cells(&support::read_all(&table).await.unwrap()), 0);
        // Added again: what was written since the drop is of the new column.
        dropped.columns.push(Column { id: ColumnId(77), ..column });
        table.set_schema(Rc::new(dropped)).unwrap();
        assert_eq!(cells(&support::read_all(&table).await.unwrap()), 5);
        table.set_schema(schema).unwrap();
        assert_eq!(support::read_all(&table).await.unwrap(), fragments);
    });
}
