//! The schema of all keyspaces as one immutable snapshot, and the changes it can undergo. Pure.
//!
//! A shard hangs something of its own on each table ([`Local`]): counters, for example. It stays
//! with the table, under whichever version of its schema, and is no part of what a table is.
//!
//! Invariants
//!  - *indexed*: `by_id` holds exactly the tables that `keyspaces` holds.
//!  - *followed*: no table or type mentions a user type with other fields than it has.
//!  - *ids-for-life*: the id of a table is that of no other one, before or after; the id of a
//!    column that of no other column of its table, dropped ones among them.
//!  - *versions-differ*: a changed table and a changed schema have another version than before.
//!  - *viewed*: `views` of a table are just the tables that name it as their base.
//!  - *logged*: `log` of a table is the log that names it as its base and is attached; there is one
//!    at most.
//!  - *covering*: every token of a table is in one tablet and no other.
//!  - *tablets-or-intended*: a table of a keyspace with tablets has some; one of another keyspace
//!    may have some that it is being given, and nobody goes by them
//!    ([`crate::placement::conversion`]).
//!  - *arranged*: columns are in order: partition key, clustering columns, static ones, others;
//!    each with its position among its kind.
//!
//! `check` asserts them.
//!
//! From the ground up: [`change`], [`apply`] (from one snapshot to the next), `convert` (tables
//! that are given tablets), [`image`], `difference` (from two snapshots to the changes between
//! them).

pub mod apply;
pub mod change;
mod check;
mod convert;
mod difference;
pub mod image;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub(crate) use apply::normalize_table;
pub use change::{Complete, SchemaChange, Tablets, TabletsAfter};
pub(crate) use check::check_tablets;
pub use image::SchemaImage;

use crate::placement::{Division, Replication, TabletReplicas};
use crate::streams::Streams;
use crate::system_tables::{BACKUPS, FORMER_ROLES, TRANSACTIONS, is_system_keyspace};
use model::schema::{UserAggregate, UserFunction};
use model::{Keyspace, TableId, TableSchema, TabletMap, Type, UserType, Uuid};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use stdx::HashMap;

/// Where a table's rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// From storage.
    Stored,
    /// Computed when they are asked for; cannot be written.
    Virtual,
}

/// What a shard hangs on a table: made with it, and shared by all its later versions.
pub trait Local: Clone + Default {}

impl<L: Clone + Default> Local for L {}

/// A table with all that the way to its data needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry<L = ()> {
    pub schema: Rc<TableSchema>,
    /// How this node divides it among its shards.
    pub tablets: Rc<TabletMap>,
    /// Who has each of its tablets, in a keyspace with tablets.
    pub replicas: Rc<TabletReplicas>,
    /// Who is to have each of those that it is being given, in a keyspace without tablets.
    pub intended: Rc<TabletReplicas>,
    pub replication: Rc<Replication>,
    pub kind: TableKind,
    /// Its views, those of its indexes among them, in order of ids.
    pub views: Rc<[TableId]>,
    /// The log that its changes go to.
    pub log: Option<TableId>,
    /// The streams of its log, where these are not those of the ring.
    pub streams: Arc<Streams>,
    /// What this shard hangs on it.
    pub local: L,
}

impl<L> TableEntry<L> {
    /// Whether it may get more tablets or fewer. A table with a log may not, nor may a log: each of
    /// the streams is of one tablet.
    pub fn may_be_resized(&self) -> bool {
        self.log.is_none() && self.schema.log.is_none()
    }

    /// Whether there is one copy of it in the whole cluster: no tablet has more, or is about to, or
    /// its keyspace wants no more.
    pub fn is_single(&self) -> bool {
        if !self.replicas.is_empty() {
            let is_alone = self.replicas.iter().all(|of| of.len() <= 1);
            return is_alone && self.replicas.moves().is_empty();
        }
        match &*self.replication {
            Replication::Local => true,
            Replication::Everywhere => false,
            spread => spread.total() <= 1,
        }
    }

    /// How it is divided.
    pub(crate) fn division(&self) -> Division {
        let (tablets, replicas) = ((*self.tablets).clone(), (*self.replicas).clone());
        Division { tablets, replicas, intended: (*self.intended).clone() }
    }
}

/// A keyspace with its tables, types, functions and aggregates, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceEntry<L = ()> {
    pub keyspace: Keyspace,
    pub replication: Rc<Replication>,
    pub tables: BTreeMap<String, Rc<TableEntry<L>>>,
    pub types: BTreeMap<String, Rc<UserType>>,
    /// The functions of each name, which differ in the types of their arguments.
    pub functions: BTreeMap<String, Vec<Rc<UserFunction>>>,
    /// As functions.
    pub aggregates: BTreeMap<String, Vec<Rc<UserAggregate>>>,
}

impl<L> KeyspaceEntry<L> {
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
pub struct Schema<L = ()> {
    /// Changes with every change of the schema; what drivers compare.
    pub version: Uuid,
    pub keyspaces: BTreeMap<String, Rc<KeyspaceEntry<L>>>,
    pub(crate) by_id: HashMap<TableId, Rc<TableEntry<L>>>,
}

impl<L> Schema<L> {
    /// The keyspace of that name.
    pub fn keyspace(&self, name: &str) -> Option<&Rc<KeyspaceEntry<L>>> {
        self.keyspaces.get(name)
    }
    /// The table of that name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Rc<TableEntry<L>>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }
    /// The table of that id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Rc<TableEntry<L>>> {
        self.by_id.get(&id)
    }
    /// All tables, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &Rc<TableEntry<L>>> {
        self.by_id.values()
    }
    /// The user type of that name.
    pub fn user_type(&self, keyspace: &str, name: &str) -> Option<&Rc<UserType>> {
        self.keyspaces.get(keyspace)?.types.get(name)
    }
    /// Whether the keyspace is part of the system: not to be altered or dropped.
    pub fn is_system(keyspace: &str) -> bool {
        is_system_keyspace(keyspace)
    }
    /// Whether the keyspace, and what is in it, is made and removed by nobody but the nodes.
    pub fn is_of_nodes(keyspace: &str) -> bool {
        is_system_keyspace(keyspace) || matches!(keyspace, BACKUPS | TRANSACTIONS)
    }
    /// Why nobody may drop a keyspace of the nodes, in the words that users know for each.
    pub fn why_not_dropped(keyspace: &str) -> String {
        match keyspace {
            FORMER_ROLES => format!("Cannot DROP <keyspace {keyspace}>"),
            _ => format!("{keyspace} keyspace is not user-modifiable."),
        }
    }
}
