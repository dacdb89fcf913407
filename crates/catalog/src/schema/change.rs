//! The changes that a schema can undergo, as values.

use crate::placement::{Division, TabletReplicas};
use crate::streams::Streams;
use model::schema::{UserAggregate, UserFunction};
use model::{Keyspace, TableId, TableSchema, Type, UserType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One change of the schema. What statements leave open (order of columns and options, a table's
/// version and tablets) is added when it is completed.
///
/// The creator of a table gives it an id and column ids; who alters one takes the present
/// `TableSchema`, changes it, and never uses a column id again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaChange {
    CreateKeyspace(Keyspace),
    AlterKeyspace(Keyspace),
    /// With all its tables and types.
    DropKeyspace(String),
    CreateTable(TableSchema),
    AlterTable(TableSchema),
    DropTable {
        keyspace: String,
        name: String,
    },
    CreateType(UserType),
    /// Tables and types that use it follow.
    AlterType(UserType),
    DropType {
        keyspace: String,
        name: String,
    },
    /// In the place of one with the same arguments, if there is one.
    CreateFunction(UserFunction),
    DropFunction {
        keyspace: String,
        name: String,
        arguments: Vec<Type>,
    },
    /// In the place of one with the same arguments, if there is one.
    CreateAggregate(UserAggregate),
    DropAggregate {
        keyspace: String,
        name: String,
        arguments: Vec<Type>,
    },
}

/// How the tables are divided that changes make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tablets(BTreeMap<TableId, Division>);

impl Tablets {
    /// The table of that id.
    pub fn of(&self, table: TableId) -> Option<&Division> {
        self.0.get(&table)
    }

    pub(super) fn add(&mut self, table: TableId, division: Division) {
        let before = self.0.insert(table, division);
        assert!(before.is_none(), "ids-for-life: table {table} was made twice");
    }
}

/// The tablets of a table after a change of some of them, or of their number; those that a table
/// without any is being given, or none where it is not after all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabletsAfter {
    pub table: TableId,
    pub replicas: TabletReplicas,
    pub changed: BTreeSet<usize>,
    /// Whether they end elsewhere than before.
    pub resized: bool,
}

/// Changes that name everything: whoever applies them to the snapshot that they were completed for
/// has the same next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complete {
    pub changes: Vec<SchemaChange>,
    pub tablets: Tablets,
    /// The streams of tables whose logs are attached by them, where they are others than before.
    pub streams: BTreeMap<TableId, Arc<Streams>>,
}
