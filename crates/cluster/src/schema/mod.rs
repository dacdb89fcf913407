//! The schema of all keyspaces as one immutable snapshot, and the changes it can undergo.

mod apply;
mod image;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use apply::normalize_table;
pub(crate) use image::SchemaImage;

use crate::replication::Replication;
use crate::traffic::TableTraffic;
use model::schema::{UserAggregate, UserFunction};
use model::{Keyspace, TableId, TableSchema, TabletMap, Type, UserType, Uuid};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::HashMap;

/// Where a table's rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// From storage.
    Stored,
    /// Computed when they are asked for; cannot be written.
    Virtual,
}

/// A table with all that the way to its data needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    pub schema: Rc<TableSchema>,
    pub tablets: Rc<TabletMap>,
    pub replication: Rc<Replication>,
    pub kind: TableKind,
    /// What was recorded of it, under whichever version of its schema.
    pub traffic: Rc<TableTraffic>,
}

/// A keyspace with its tables, types, functions and aggregates, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceEntry {
    pub keyspace: Keyspace,
    pub replication: Rc<Replication>,
    pub tables: BTreeMap<String, Rc<TableEntry>>,
    pub types: BTreeMap<String, Rc<UserType>>,
    /// The functions of each name, which differ in the types of their arguments.
    pub functions: BTreeMap<String, Vec<Rc<UserFunction>>>,
    /// As functions.
    pub aggregates: BTreeMap<String, Vec<Rc<UserAggregate>>>,
}

impl KeyspaceEntry {
    /// The functions of that name.
    pub fn functions(&self, name: &str) -> &[Rc<UserFunction>] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }
    /// The function of that name which takes arguments of just these types.
    pub fn function(&self, name: &str, arguments: &[Type]) -> Option<&Rc<UserFunction>> {
        self.functions(name).iter().find(|function| function.takes(arguments))
    }
    /// The aggregates of that name.
    pub fn aggregates(&self, name: &str) -> &[Rc<UserAggregate>] {
        self.aggregates.get(name).map_or(&[], Vec::as_slice)
    }
    /// The aggregate of that name which takes arguments of just these types.
    pub fn aggregate(&self, name: &str, arguments: &[Type]) -> Option<&Rc<UserAggregate>> {
        self.aggregates(name).iter().find(|aggregate| aggregate.arguments == arguments)
    }
}

/// A snapshot of the schema. Entries that did not change are shared between snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Changes with every change of the schema; what drivers compare.
    pub version: Uuid,
    pub keyspaces: BTreeMap<String, Rc<KeyspaceEntry>>,
    pub(crate) by_id: HashMap<TableId, Rc<TableEntry>>,
}

impl Schema {
    /// The keyspace of that name.
    pub fn keyspace(&self, name: &str) -> Option<&Rc<KeyspaceEntry>> {
        self.keyspaces.get(name)
    }
    /// The table of that name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Rc<TableEntry>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }
    /// The table of that id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Rc<TableEntry>> {
        self.by_id.get(&id)
    }
    /// All tables, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &Rc<TableEntry>> {
        self.by_id.values()
    }
    /// The user type of that name.
    pub fn user_type(&self, keyspace: &str, name: &str) -> Option<&Rc<UserType>> {
        self.keyspaces.get(keyspace)?.types.get(name)
    }
    /// Whether the keyspace is part of the system: not to be altered or dropped.
    pub fn is_system(keyspace: &str) -> bool {
        matches!(
            keyspace,
            "system"
                | "system_schema"
                | "system_virtual_schema"
                | "system_distributed"
                | "system_traces"
                | "system_auth"
        )
    }
}

/// One change of the schema, complete: the registry adds nothing but a table's new version.
///
/// The creator of a table gives it an id ([`crate::Cluster::new_table_id`]) and column ids; who
/// alters one takes the present `TableSchema`, changes it, and never uses a column id again.
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
