//! The invariants of a snapshot ([`super`]), asserted. Tests, simulation and fuzzing run this after
//! every change; it looks at the keyspaces that the change concerns.

use super::{KeyspaceEntry, Schema, SchemaChange, TableEntry, TableKind};
use crate::system_tables::is_system_keyspace;
use model::{ColumnId, ColumnKind, TableSchema, TabletMap, Token, UserType};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The keyspace that a change concerns.
pub(super) fn keyspace_of(change: &SchemaChange) -> &str {
    match change {
        SchemaChange::CreateKeyspace(it) | SchemaChange::AlterKeyspace(it) => &it.name,
        SchemaChange::DropKeyspace(name) => name,
        SchemaChange::CreateTable(it) | SchemaChange::AlterTable(it) => &it.keyspace,
        SchemaChange::CreateType(it) | SchemaChange::AlterType(it) => &it.keyspace,
        SchemaChange::CreateFunction(it) => &it.keyspace,
        SchemaChange::CreateAggregate(it) => &it.keyspace,
        SchemaChange::DropTable { keyspace, .. }
        | SchemaChange::DropType { keyspace, .. }
        | SchemaChange::DropFunction { keyspace, .. }
        | SchemaChange::DropAggregate { keyspace, .. } => keyspace,
    }
}

impl<L> Schema<L> {
    /// Asserts *indexed*.
    pub(super) fn check_index(&self) {
        let mut count = 0;
        for table in self.keyspaces.values().flat_map(|it| it.tables.values()) {
            let found = self.by_id.get(&table.schema.id);
            let same = found.is_some_and(|found| Rc::ptr_eq(found, table));
            debug_assert!(same, "indexed: {} is another table by id", table.schema.name);
            count += 1;
        }
        debug_assert!(count == self.by_id.len(), "indexed: a table without a keyspace");
    }

    /// Asserts all that is to hold within a keyspace.
    pub(super) fn check_keyspace(&self, name: &str) {
        let Some(entry) = self.keyspaces.get(name) else {
            let lost = self.by_id.values().find(|table| table.schema.keyspace == name);
            debug_assert!(lost.is_none(), "indexed: {name} is gone, and not its tables");
            return;
        };
        debug_assert!(entry.keyspace.name == name, "indexed: {name} has another name");
        for (table_name, table) in &entry.tables {
            let schema = &table.schema;
            debug_assert!(schema.name == *table_name, "indexed: {table_name} has another name");
            debug_assert!(schema.keyspace == name, "indexed: {table_name} is not of {name}");
            let same = Rc::ptr_eq(&table.replication, &entry.replication);
            debug_assert!(same, "followed: {name}.{table_name} has another replication");
            check_kind(table);
            check_columns(schema);
            check_ids(schema);
            check_tablets(&table.tablets);
            check_replicas(table);
            self.check_views(table);
            self.check_log(table);
        }
        check_types(entry);
        check_functions(entry);
    }
}

impl<L> Schema<L> {
    /// *viewed*.
    fn check_views(&self, table: &TableEntry<L>) {
        let (name, id) = (&table.schema.name, table.schema.id);
        let is_view_of =
            |view: &TableSchema, base| view.view.as_ref().is_some_and(|it| it.base == base);
        for view in &*table.views {
            let view = self.by_id.get(view);
            let is_view = view.is_some_and(|view| is_view_of(&view.schema, id));
            debug_assert!(is_view, "viewed: {name} has a view that is none");
        }
        let Some(view) = &table.schema.view else { return };
        let base = self.by_id.get(&view.base);
        let is_known = base.is_some_and(|base| base.views.contains(&id));
        debug_assert!(is_known, "viewed: {name} is a view that its base does not know");
        let kind = |id: &ColumnId| table.schema.column_by_id(*id).map(|column| column.kind);
        let are_regular = view.hidden.iter().all(|id| kind(id) == Some(ColumnKind::Regular));
        debug_assert!(are_regular, "viewed: {name} hides what is no regular column");
        let are_there = view.computed.iter().all(|column| kind(&column.id).is_some());
        debug_assert!(are_there, "viewed: {name} computes a column that it does not have");
    }
}

impl<L> Schema<L> {
    /// *logged*.
    fn check_log(&self, table: &TableEntry<L>) {
        let (name, id) = (&table.schema.name, table.schema.id);
        if let Some(log) = table.log {
            let log = self.by_id.get(&log).and_then(|log| log.schema.log.as_deref());
            let is_its = log.is_some_and(|log| log.attached && log.base == id);
            debug_assert!(is_its, "logged: {name} has a log that is none of it");
        }
        let streams = !table.streams.is_empty() || table.log.is_none() || table.replicas.is_empty();
        debug_assert!(streams, "logged: {name} has a log without streams");
        let Some(log) = table.schema.log.as_deref() else { return };
        debug_assert!(table.schema.view.is_none(), "logged: {name} is a view and a log");
        let base = self.by_id.get(&log.base);
        let knows = base.is_some_and(|base| (base.log == Some(id)) == log.attached);
        debug_assert!(knows, "logged: {name} is the log of a table that does not know it");
    }
}

fn check_kind<L>(table: &TableEntry<L>) {
    let is_system = is_system_keyspace(&table.schema.keyspace);
    let fits = table.kind == TableKind::Stored || is_system;
    debug_assert!(fits, "{} of a user is virtual", table.schema.name);
}

/// Keys first, then static columns, then others, each with its position among its kind.
fn check_columns(table: &TableSchema) {
    let TableSchema { name, columns, .. } = table;
    let in_order = columns.is_sorted_by_key(|column| (column.kind, column.position));
    debug_assert!(in_order, "arranged: the columns of {name} are out of order");
    let count = |kind| columns.iter().filter(|column| column.kind == kind).count();
    let keys = count(ColumnKind::PartitionKey);
    debug_assert!(0 < keys, "arranged: {name} has no partition key");
    debug_assert!(keys == table.partition_key_count, "arranged: {name} counts its key wrong");
    let clustering = count(ColumnKind::Clustering);
    debug_assert!(clustering == table.clustering_count, "arranged: clustering columns of {name}");
    let statics = count(ColumnKind::Static);
    debug_assert!(statics == table.static_count, "arranged: static columns of {name}");
    let ordered = table.order.columns.len();
    debug_assert!(ordered == clustering, "arranged: {name} orders {ordered} of {clustering}");
    for kind in [ColumnKind::PartitionKey, ColumnKind::Clustering] {
        let of_kind = columns.iter().filter(|column| column.kind == kind);
        let gapless = of_kind.enumerate().all(|(at, column)| usize::from(column.position) == at);
        debug_assert!(gapless, "arranged: positions of key columns of {name}");
    }
    let names: BTreeSet<&str> = columns.iter().map(|column| &column.name[..]).collect();
    debug_assert!(names.len() == columns.len(), "arranged: {name} has two columns of one name");
    let unreversed = columns.iter().filter(|it| it.kind != ColumnKind::Clustering);
    debug_assert!(unreversed.clone().all(|it| !it.reversed), "arranged: {name} reverses too much");
}

/// *ids-for-life*, of the columns of a table.
fn check_ids(table: &TableSchema) {
    let TableSchema { name, next_column_id, .. } = table;
    let mut ids = BTreeSet::<ColumnId>::new();
    let dropped = table.dropped.iter().map(|column| column.id);
    for id in table.columns.iter().map(|column| column.id).chain(dropped) {
        debug_assert!(ids.insert(id), "ids-for-life: {id:?} of {name} is of two columns");
        debug_assert!(id.0 < *next_column_id, "ids-for-life: {id:?} of {name} is given again");
    }
    let sorted = table.dropped.is_sorted_by(|a, b| a.id < b.id);
    debug_assert!(sorted, "arranged: dropped columns of {name} are out of order");
}

/// A table with tablets has no ring. Where they end, and where the parts of this node end, may
/// differ for a while.
fn check_replicas<L>(table: &TableEntry<L>) {
    let (name, replicas) = (&table.schema.name, &table.replicas);
    let fits = replicas.is_empty() || table.tablets.sharder().is_none();
    debug_assert!(fits, "covering: {name} has tablets and a ring");
    let has_one = replicas.is_empty() || table.intended.is_empty();
    debug_assert!(has_one, "tablets-or-intended: {name} has some and is given others");
}

/// Every token is in exactly one tablet.
pub(crate) fn check_tablets(tablets: &TabletMap) {
    let last_tokens = tablets.last_tokens();
    if tablets.sharder().is_some() {
        debug_assert!(last_tokens.is_empty(), "covering: a ring with a sharder has tablets");
        return;
    }
    debug_assert!(last_tokens.last() == Some(&Token::MAX), "covering: the ring has an open end");
    let ascend = last_tokens.is_sorted_by(|a, b| a < b);
    debug_assert!(ascend, "covering: tablets overlap");
    let shards = tablets.shards().len();
    debug_assert!(shards == last_tokens.len(), "covering: tablets without a shard, or two");
}

/// *followed*.
fn check_types<L>(entry: &KeyspaceEntry<L>) {
    let KeyspaceEntry { keyspace, tables, types, .. } = entry;
    for (name, user) in types {
        debug_assert!(user.name == *name, "indexed: type {name} has another name");
        debug_assert!(
            user.keyspace == keyspace.name,
            "indexed: type {name} is of another keyspace"
        );
        let is_old = |ty: &model::Type| mentions_other_fields(ty, user);
        for other in types.values() {
            let follows = !other.fields.iter().any(|(_, ty)| is_old(ty));
            debug_assert!(follows, "followed: type {} has an old {name}", other.name);
        }
        for table in tables.values() {
            let follows = !table.schema.columns.iter().any(|column| is_old(&column.ty));
            debug_assert!(follows, "followed: table {} has an old {name}", table.schema.name);
        }
    }
}

/// Whether a type mentions a user type with other fields than it has.
fn mentions_other_fields(ty: &model::Type, user: &UserType) -> bool {
    ty.mentions_user_type(&user.keyspace, &user.name) && ty.with_user_type(user) != *ty
}

/// Overloads differ in their arguments, and are in order.
fn check_functions<L>(entry: &KeyspaceEntry<L>) {
    for (name, overloads) in &entry.functions {
        debug_assert!(!overloads.is_empty(), "indexed: no function of the name {name}");
        let all_named = overloads.iter().all(|function| function.name == *name);
        debug_assert!(all_named, "indexed: function {name} has another name");
        let differ = overloads.is_sorted_by(|a, b| a.signature() < b.signature());
        debug_assert!(differ, "two functions {name} of the same arguments");
    }
    for (name, overloads) in &entry.aggregates {
        debug_assert!(!overloads.is_empty(), "indexed: no aggregate of the name {name}");
        let all_named = overloads.iter().all(|aggregate| aggregate.name == *name);
        debug_assert!(all_named, "indexed: aggregate {name} has another name");
        let differ = overloads.is_sorted_by(|a, b| a.signature() < b.signature());
        debug_assert!(differ, "two aggregates {name} of the same arguments");
    }
}

/// Asserts that the next version of a table keeps *ids-for-life*: what was dropped stays dropped,
/// and what is new has a new id.
pub(super) fn check_alteration(before: &TableSchema, after: &TableSchema) {
    let name = &after.name;
    assert!(before.id == after.id, "ids-for-life: {name} has another id");
    let (given, next) = (before.next_column_id, after.next_column_id);
    assert!(given <= next, "ids-for-life: {name} goes back to column id {next}");
    let (was, is) = (before.dropped.len(), after.dropped.len());
    assert!(was <= is, "ids-for-life: a dropped column of {name} is forgotten");
    if cfg!(debug_assertions) {
        for column in &after.columns {
            let same = before.columns.iter().find(|other| other.id == column.id);
            let is_new = given <= column.id.0;
            let known = same.is_some_and(|other| other.kind == column.kind);
            debug_assert!(is_new || known, "ids-for-life: {:?} of {name} is reused", column.id);
        }
        for column in &before.columns {
            let live = after.columns.iter().any(|other| other.id == column.id);
            let dropped = after.dropped.iter().any(|other| other.id == column.id);
            debug_assert!(live != dropped, "ids-for-life: {:?} of {name} is lost", column.id);
        }
        for column in &before.dropped {
            let kept = after.dropped.iter().any(|other| other.id == column.id);
            debug_assert!(kept, "ids-for-life: dropped {:?} of {name} is lost", column.id);
        }
    }
}
