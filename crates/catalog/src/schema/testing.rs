//! Schemas for tests.

use crate::system_tables;
use model::{Column, ColumnId, ColumnKind, Keyspace, TableSchema, Type, Uuid};

pub fn keyspace(name: &str, initial_tablets: Option<u32>) -> Keyspace {
    Keyspace {
        name: name.to_owned(),
        replication: vec![
            ("class".to_owned(), "org.apache.cassandra.locator.SimpleStrategy".to_owned()),
            ("replication_factor".to_owned(), "1".to_owned()),
        ],
        durable_writes: true,
        initial_tablets,
        storage: Vec::new(),
    }
}

pub fn table(
    keyspace: &str,
    name: &str,
    id: u128,
    columns: &[(&str, &str, ColumnKind)],
) -> TableSchema {
    let column = |(index, (name, ty, kind)): (usize, &(&str, &str, ColumnKind))| Column {
        id: ColumnId(index as u32),
        name: name.to_string(),
        kind: *kind,
        position: 0,
        ty: Type::from_cql(ty, &|_| None).expect("a type"),
        reversed: false,
    };
    system_tables::arrange(TableSchema {
        id: Uuid::from_u128(id),
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        columns: columns.iter().enumerate().map(column).collect(),
        next_column_id: columns.len() as u32,
        ..system_tables::table("system", "local")
    })
}
