//! Columns of results and bind markers, as the metadata of the protocol has them.

use model::Type;
use std::rc::Rc;
use std::sync::Arc;

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ColumnSpec {
    /// The table's keyspace.
    pub keyspace: Rc<str>,
    /// The table.
    pub table: Rc<str>,
    /// The column's name or alias; of a marker what it stands for.
    pub name: Rc<str>,
    /// The type of its values.
    pub ty: Type,
}

/// The columns of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultMetadata {
    /// Left to right.
    pub columns: Vec<ColumnSpec>,
    /// Changes when the columns do (version 5 and SCYLLA_USE_METADATA_ID).
    pub id: [u8; 16],
}

impl ResultMetadata {
    /// Computes the id.
    pub fn new(columns: Vec<ColumnSpec>) -> ResultMetadata {
        let id = metadata_id(&columns);
        ResultMetadata { columns, id }
    }

    /// The columns, as in the metadata.
    pub fn columns(&self) -> impl Iterator<Item = Column<'_>> + Clone {
        self.columns.iter().map(ColumnSpec::column)
    }
}

/// A column of a result, or of a bind variable, as in the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// The table's keyspace.
    pub keyspace: &'a str,
    /// The table.
    pub table: &'a str,
    /// The column's name or alias; of a marker its own name or what it stands for.
    pub name: &'a str,
    /// The type of its values.
    pub ty: &'a Type,
}

impl ColumnSpec {
    /// As in the metadata.
    fn column(&self) -> Column<'_> {
        let ColumnSpec { keyspace, table, name, ty } = self;
        Column { keyspace, table, name, ty }
    }
}

/// The bind markers of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMetadata {
    /// What each value is for; values of one list are for one and the same.
    pub slots: Vec<Rc<Slot>>,
    /// The names that the markers have themselves; empty where none has one.
    pub names: Vec<Option<Arc<str>>>,
    /// Which values make up the partition key, in order of its columns; empty unless all of its
    /// columns are bound by a marker each.
    pub partition_key: Vec<u16>,
}

impl BindMetadata {
    /// How many values are bound.
    #[inline]
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// What they are bound for, in order of the values.
    pub fn columns(&self) -> impl Iterator<Item = Column<'_>> + Clone {
        self.slots.iter().enumerate().map(|(variable, slot)| {
            let given = self.names.get(variable).and_then(Option::as_deref);
            let column = slot.column.column();
            Column { name: given.unwrap_or(column.name), ..column }
        })
    }
}

/// What bind markers stand for: one for all markers of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct Slot {
    /// The column, or the part of one, and the type that a value must be of.
    pub column: ColumnSpec,
    /// Whether sets or maps may occur in it, which clients send in any order.
    pub has_order: bool,
}

fn metadata_id(columns: &[ColumnSpec]) -> [u8; 16] {
    use md5::{Digest, Md5};
    let mut hash = Md5::new();
    for column in columns {
        for part in [&column.keyspace, &column.table, &column.name] {
            hash.update((part.len() as u32).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let class = column.ty.to_class_name();
        hash.update((class.len() as u32).to_be_bytes());
        hash.update(class);
    }
    hash.finalize().into()
}
