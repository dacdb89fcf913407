//! The catalog's snapshots as a shard of this node has them: with its counters on each table.

use crate::traffic::TableTraffic;
use std::rc::Rc;

/// What a shard hangs on a table.
#[derive(Debug, Default)]
pub struct ShardLocal {
    /// What was recorded of the table, under whichever version of its schema.
    pub traffic: TableTraffic,
}

/// No part of what a table is: any two are equal.
impl PartialEq for ShardLocal {
    fn eq(&self, _: &ShardLocal) -> bool {
        true
    }
}

impl Eq for ShardLocal {}

/// A snapshot of the schema. Entries that did not change are shared between snapshots.
pub type Schema = catalog::Schema<Rc<ShardLocal>>;
/// A keyspace with its tables, types, functions and aggregates, by name.
pub type KeyspaceEntry = catalog::KeyspaceEntry<Rc<ShardLocal>>;
/// A table with all that the way to its data needs.
pub type TableEntry = catalog::TableEntry<Rc<ShardLocal>>;
/// Schema, roles and grants, service levels.
pub(crate) type Catalog = catalog::Catalog<Rc<ShardLocal>>;
