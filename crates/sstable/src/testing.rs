//! For tests and fuzzing: parsers by name, and tables made of headers.

mod components;

pub use components::{ComponentKind, parse_component};

use crate::mx::header::SerializationHeader;
use model::{ClusteringOrder, Column, ColumnId, ColumnKind, TableSchema, Type, Uuid};

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
        view: None,
        log: None,
        indexes: Vec::new(),
        order: ClusteringOrder { columns: order },
    })
}
