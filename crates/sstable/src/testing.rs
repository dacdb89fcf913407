//! For tests and fuzzing: parsers by name, and generators of schemas and rows.

use crate::compress::{Chunks, ChunksError};
use crate::filter::Filter;
use crate::index::entry::EntryHead;
use crate::index::promoted::PromotedIndex;
use crate::index::summary::Summary;
use crate::index::trie::{parse_partitions, parse_rows};
use crate::mx::header::{SerializationHeader, Shape};
use crate::mx::layout::{Bases, DeletionForm};
use crate::mx::marker::read_marker_body;
use crate::mx::partition::{Head, Kind, PartitionHead};
use crate::mx::row::RowDecoder;
use crate::scylla::Metadata;
use crate::statistics::Statistics;
use crate::store::Version;
use crate::store::toc::Toc;
use model::{ClusteringOrder, Column, ColumnId, ColumnKind, TableSchema, Type, Uuid};
use stdx::{Cursor, Damaged};

/// A component whose parser takes all of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentKind {
    /// Summary.db.
    Summary,
    /// Filter.db.
    Filter,
    /// Statistics.db.
    Statistics,
    /// CompressionInfo.db.
    CompressionInfo,
    /// Scylla.db.
    Scylla,
    /// TOC.txt.
    Toc,
    /// Entries of Index.db, with their promoted indexes.
    Index,
    /// Partitions.db.
    Partitions,
    /// A row index of Rows.db; behind it, in four bytes, where its header stands.
    Rows,
    /// Partitions of Data.db, uncompressed, of a table with one column of each structure.
    Data,
}

impl ComponentKind {
    /// All of them.
    pub const ALL: [ComponentKind; 10] = [
        ComponentKind::Summary,
        ComponentKind::Filter,
        ComponentKind::Statistics,
        ComponentKind::CompressionInfo,
        ComponentKind::Scylla,
        ComponentKind::Toc,
        ComponentKind::Index,
        ComponentKind::Partitions,
        ComponentKind::Rows,
        ComponentKind::Data,
    ];
}

/// Parses the bytes of a component and forgets the result: must never panic, loop, or allocate
/// much more than `bytes`.
pub fn parse_component(kind: ComponentKind, bytes: &[u8]) -> Result<(), Damaged> {
    match kind {
        ComponentKind::Summary => Summary::parse(bytes, u64::MAX).map(drop),
        ComponentKind::Filter => Filter::parse(bytes, Version::Me.filter_form()).map(drop),
        ComponentKind::Statistics => Statistics::parse(bytes, Version::Me).map(drop),
        ComponentKind::CompressionInfo => match Chunks::parse(bytes, u64::MAX, Version::Me) {
            Err(ChunksError::Damaged(damaged)) => Err(damaged),
            _ => Ok(()),
        },
        ComponentKind::Scylla => Metadata::parse(bytes).map(drop),
        ComponentKind::Toc => match Toc::parse(bytes) {
            Some(_) => Ok(()),
            None => Err(Damaged::new("not a TOC", 0)),
        },
        ComponentKind::Index => parse_index(bytes),
        ComponentKind::Partitions => parse_partitions(bytes),
        ComponentKind::Rows => parse_rows(bytes),
        ComponentKind::Data => parse_data(bytes),
    }
}

fn parse_index(bytes: &[u8]) -> Result<(), Damaged> {
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        let head = EntryHead::parse(&mut cursor)?;
        let length = usize::try_from(head.promoted_bytes);
        let length = length.map_err(|_| cursor.damaged("promoted index past the end"))?;
        let promoted = cursor.take(length, "promoted index past the end")?;
        if !promoted.is_empty() {
            let promoted = PromotedIndex::parse(promoted.to_vec(), DeletionForm::Plain)?;
            for index in 0..promoted.count() {
                promoted.block(index, &[None])?;
            }
        }
    }
    Ok(())
}

/// The table of [`ComponentKind::Data`].
fn data_shape() -> Shape {
    let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
    let (int, text) = (class("Int32Type"), class("UTF8Type"));
    let map = format!("{}({int},{text})", class("MapType"));
    let header = SerializationHeader {
        bases: Bases::EPOCH,
        partition_key: int.clone(),
        clustering: vec![int.clone(), text.clone()],
        statics: vec![("s".to_string(), text)],
        regulars: vec![
            ("a".to_string(), int),
            ("b".to_string(), class("CounterColumnType")),
            ("c".to_string(), map),
        ],
    };
    let schema = schema_of_header(&header).expect("the classes are known");
    Shape::new(&header, &schema).expect("a schema made of a header fits it")
}

fn parse_data(bytes: &[u8]) -> Result<(), Damaged> {
    let shape = data_shape();
    let (mut prefix, mut decoder) = (Vec::new(), RowDecoder::default());
    let mut rest = bytes;
    while !rest.is_empty() {
        let head = PartitionHead::parse(rest, DeletionForm::Plain)?;
        rest = &rest[head.bytes..];
        loop {
            let head = Head::parse(rest, &shape, &mut prefix)?;
            let total = usize::try_from(head.total_bytes()).unwrap_or(usize::MAX);
            let body = rest.get(head.head_bytes..total);
            let body = body.ok_or(Damaged::new("element past the end", 0))?;
            rest = &rest[total..];
            match head.kind {
                Kind::End => break,
                Kind::Static(flags) => {
                    decoder.decode(flags, body, &shape.statics, &shape.bases)?;
                }
                Kind::Row(flags) => {
                    decoder.decode(flags, body, &shape.regulars, &shape.bases)?;
                }
                Kind::Marker(kind) => {
                    read_marker_body(kind, body, &shape.bases)?;
                }
            }
        }
    }
    Ok(())
}

/// A table that holds what a file with this header has. The header has no names of key columns:
/// they are `pk0`, `ck0` and so on. `None` when it has a class that cannot be parsed.
pub fn schema_of_header(header: &SerializationHeader) -> Option<TableSchema> {
    let mut columns = Vec::new();
    let mut push = |name: String, kind, position: usize, class: &str| {
        let (ty, reversed) = Type::from_class_name(class)?;
        let id = ColumnId(columns.len() as u32);
        columns.push(Column { id, name, kind, position: position as u16, ty, reversed });
        Some(())
    };
    let key = header.partition_key_classes();
    for (index, class) in key.iter().enumerate() {
        push(format!("pk{index}"), ColumnKind::PartitionKey, index, class)?;
    }
    for (index, class) in header.clustering.iter().enumerate() {
        push(format!("ck{index}"), ColumnKind::Clustering, index, class)?;
    }
    let parts = [(ColumnKind::Static, &header.statics), (ColumnKind::Regular, &header.regulars)];
    for (kind, list) in parts {
        let mut list: Vec<_> = list.iter().collect();
        list.sort();
        for (index, (name, class)) in list.into_iter().enumerate() {
            push(name.clone(), kind, index, class)?;
        }
    }
    let order = columns.iter().filter(|column| column.kind == ColumnKind::Clustering);
    let order = order.map(|column| (column.ty.clone(), column.reversed)).collect();
    Some(TableSchema {
        id: Uuid::nil(),
        version: Uuid::nil(),
        keyspace: "unknown".to_string(),
        name: "unknown".to_string(),
        partition_key_count: key.len(),
        clustering_count: header.clustering.len(),
        static_count: header.statics.len(),
        next_column_id: columns.len() as u32,
        index: model::schema::ColumnIndex::of(&columns),
        columns,
        dropped: Vec::new(),
        options: model::schema::TableOptions::new(),
        compact_storage: false,
        order: ClusteringOrder { columns: order },
    })
}
