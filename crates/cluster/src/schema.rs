//! The catalog's snapshots as a shard of this node has them: with its counters on each table, and
//! where its tablets are.
//!
//! Invariants
//!  - *now-not-then*: who holds a table of an earlier snapshot, as prepared statements do, finds
//!    its tablets as this shard shows them now, and where. They split, merge and move without a new
//!    version of the schema. The shards of this node that it names for tokens may have given them
//!    to others since: those send on what comes (`storage`, `shard::elsewhere`).

use crate::traffic::TableTraffic;
use catalog::placement::TabletReplicas;
use std::cell::RefCell;
use std::rc::Rc;

/// What a shard hangs on a table.
#[derive(Debug, Default)]
pub struct ShardLocal {
    /// What was recorded of the table, under whichever version of its schema.
    pub traffic: TableTraffic,
    /// Where its tablets are, if they were elsewhere when the table was made known.
    moved: RefCell<Option<Rc<TabletReplicas>>>,
}

impl ShardLocal {
    /// From now on the tablets are there.
    pub(crate) fn show(&self, replicas: Rc<TabletReplicas>) {
        assert!(!replicas.is_empty(), "now-not-then: a table loses its tablets");
        self.moved.replace(Some(replicas));
    }

    /// Where the tablets of a table are now (*now-not-then*).
    pub fn replicas_of(table: &TableEntry) -> Rc<TabletReplicas> {
        let moved = table.local.moved.borrow();
        moved.as_ref().unwrap_or(&table.replicas).clone()
    }

    /// Whether they are those.
    pub(crate) fn are_shown(table: &TableEntry, replicas: &Rc<TabletReplicas>) -> bool {
        Rc::ptr_eq(table.local.moved.borrow().as_ref().unwrap_or(&table.replicas), replicas)
    }
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
pub type Catalog = catalog::Catalog<Rc<ShardLocal>>;
