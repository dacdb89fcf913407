//! For tests and fuzzing: parsers by name, and generators of schemas and rows.

use crate::compress::{Chunks, ChunksError};
use crate::filter::Filter;
use crate::index::entry::EntryHead;
use crate::index::promoted::PromotedIndex;
use crate::index::summary::Summary;
use crate::mx::header::SerializationHeader;
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
}

impl ComponentKind {
    /// All of them.
    pub const ALL: [ComponentKind; 7] = [
        ComponentKind::Summary,
        ComponentKind::Filter,
        ComponentKind::Statistics,
        ComponentKind::CompressionInfo,
        ComponentKind::Scylla,
        ComponentKind::Toc,
        ComponentKind::Index,
    ];
}

/// Parses the bytes of a component and forgets the result: must never panic, loop, or allocate
/// much more than `bytes`.
pub fn parse_component(kind: ComponentKind, bytes: &[u8]) -> Result<(), Damaged> {
    match kind {
        ComponentKind::Summary => Summary::parse(bytes, u64::MAX).map(drop),
        ComponentKind::Filter => Filter::parse(bytes).map(drop),
        ComponentKind::Statistics => Statistics::parse(bytes, Version::Me).map(drop),
        ComponentKind::CompressionInfo => match Chunks::parse(bytes, u64::MAX) {
            Err(ChunksError::Damaged(damaged)) => Err(damaged),
            _ => Ok(()),
        },
        ComponentKind::Scylla => Metadata::parse(bytes).map(drop),
        ComponentKind::Toc => match Toc::parse(bytes) {
            Some(_) => Ok(()),
            None => Err(Damaged::new("not a TOC", 0)),
        },
        ComponentKind::Index => parse_index(bytes),
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
            let promoted = PromotedIndex::parse(promoted.to_vec())?;
            for index in 0..promoted.count() {
                promoted.block(index, &[None])?;
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
