//! From two snapshots to the changes between them: for who has the next snapshot, and must do with
//! storage and clients what follows from the way there.
//!
//! Invariants
//!  - *there-and-back*: the first snapshot, with the changes applied, is the second one.
//!  - *what-differs*: what both have is not touched.

use super::change::TabletsAfter;
use super::{Complete, KeyspaceEntry, Local, Schema, SchemaChange, TableEntry, TableKind};
use model::schema::{UserAggregate, UserFunction};
use std::rc::Rc;

impl<L: Local> Schema<L> {
    /// The changes that lead from `before` to this snapshot. What goes comes first, then what a
    /// later change may mention, views and logs after their bases. A table that has another id is
    /// another table. Of a table that is in both [`Schema::tablets_since`] tells which tablets it
    /// has, and where.
    pub fn changes_since<M: Local>(&self, before: &Schema<M>) -> Complete {
        let mut complete = Complete::default();
        for (name, old) in &before.keyspaces {
            match self.keyspaces.get(name) {
                Some(new) => push_drops(old, new, &mut complete.changes),
                None => complete.changes.push(SchemaChange::DropKeyspace(name.clone())),
            }
        }
        for (name, new) in &self.keyspaces {
            let old = before.keyspaces.get(name);
            if old.is_none() {
                complete.changes.push(SchemaChange::CreateKeyspace(new.keyspace.clone()));
            } else if old.is_some_and(|old| old.keyspace != new.keyspace) {
                complete.changes.push(SchemaChange::AlterKeyspace(new.keyspace.clone()));
            }
            push_types(old.map(|old| &**old), new, &mut complete.changes);
            for is_derived in [false, true] {
                let tables = new.tables.values();
                for table in tables.filter(|it| it.schema.is_derived() == is_derived) {
                    push_table(before.by_id.get(&table.schema.id), table, &mut complete);
                }
            }
            push_functions(old.map(|old| &**old), new, &mut complete.changes);
        }
        debug_assert!(
            self.version != before.version || complete.changes.is_empty(),
            "versions-differ: two schemas of {}",
            self.version
        );
        complete
    }
}

impl<L: Local> Schema<L> {
    /// The tables of both snapshots whose tablets are others in this one, or elsewhere.
    pub fn tablets_since<M: Local>(&self, before: &Schema<M>) -> Vec<TabletsAfter> {
        let mut out = Vec::new();
        for (table, new) in &self.by_id {
            let Some(old) = before.by_id.get(table) else { continue };
            let (is, was) = (new.stored_tablets(), old.stored_tablets());
            if is != was {
                let changed = is.differing(was);
                debug_assert!(!changed.is_empty(), "there-and-back: no tablet differs");
                out.push(TabletsAfter {
                    table: *table,
                    replicas: is.clone(),
                    changed,
                    resized: is.last_tokens() != was.last_tokens(),
                });
            }
        }
        out
    }
}

/// What of a keyspace is not there any more.
fn push_drops<L, M>(old: &KeyspaceEntry<L>, new: &KeyspaceEntry<M>, out: &mut Vec<SchemaChange>) {
    let keyspace = || old.keyspace.name.clone();
    for aggregate in old.aggregates.values().flatten() {
        let UserAggregate { name, arguments, .. } = &**aggregate;
        if new.aggregate(name, arguments).is_none() {
            let (name, arguments) = (name.clone(), arguments.clone());
            out.push(SchemaChange::DropAggregate { keyspace: keyspace(), name, arguments });
        }
    }
    for function in old.functions.values().flatten() {
        let arguments: Vec<_> = function.argument_types().cloned().collect();
        if new.function(&function.name, &arguments).is_none() {
            let name = function.name.clone();
            out.push(SchemaChange::DropFunction { keyspace: keyspace(), name, arguments });
        }
    }
    for (name, table) in &old.tables {
        let same = |other: &Rc<TableEntry<M>>| other.schema.id == table.schema.id;
        if !new.tables.get(name).is_some_and(same) {
            out.push(SchemaChange::DropTable { keyspace: keyspace(), name: name.clone() });
        }
    }
    for name in old.types.keys().filter(|name| !new.types.contains_key(*name)) {
        out.push(SchemaChange::DropType { keyspace: keyspace(), name: name.clone() });
    }
}

fn push_types<L, M>(
    old: Option<&KeyspaceEntry<M>>,
    new: &KeyspaceEntry<L>,
    out: &mut Vec<SchemaChange>,
) {
    for (name, user) in &new.types {
        match old.and_then(|old| old.types.get(name)) {
            None => out.push(SchemaChange::CreateType((**user).clone())),
            Some(present) if present != user => {
                out.push(SchemaChange::AlterType((**user).clone()));
            }
            Some(_) => {}
        }
    }
}

fn push_table<L, M>(old: Option<&Rc<TableEntry<M>>>, new: &TableEntry<L>, complete: &mut Complete) {
    let same = |old: &&Rc<TableEntry<M>>| {
        (&old.schema.keyspace, &old.schema.name) == (&new.schema.keyspace, &new.schema.name)
    };
    match old.filter(same) {
        None => {
            assert!(new.kind == TableKind::Stored, "there-and-back: a new virtual table");
            complete.tablets.add(new.schema.id, new.division());
            complete.changes.push(SchemaChange::CreateTable((*new.schema).clone()));
            if !new.streams.is_empty() {
                complete.streams.insert(new.schema.id, new.streams.clone());
            }
        }
        Some(old) => {
            let (name, had) = (&new.schema.name, !old.replicas.is_empty());
            assert!(!had || !new.replicas.is_empty(), "there-and-back: {name} loses its tablets");
            let was_given = !new.replicas.is_empty() && !had && old.intended.is_empty();
            assert!(!was_given, "there-and-back: {name} has tablets that it was not given");
            if old.schema != new.schema {
                complete.changes.push(SchemaChange::AlterTable((*new.schema).clone()));
            }
            // Those that are gone went with their log.
            if old.streams != new.streams && !new.streams.is_empty() {
                complete.streams.insert(new.schema.id, new.streams.clone());
            }
        }
    }
}

fn push_functions<L, M>(
    old: Option<&KeyspaceEntry<M>>,
    new: &KeyspaceEntry<L>,
    out: &mut Vec<SchemaChange>,
) {
    let is_new = |function: &&Rc<UserFunction>| {
        let arguments: Vec<_> = function.argument_types().cloned().collect();
        old.and_then(|old| old.function(&function.name, &arguments)) != Some(*function)
    };
    let functions = new.functions.values().flatten().filter(is_new);
    out.extend(functions.map(|it| SchemaChange::CreateFunction((**it).clone())));
    let is_new = |aggregate: &&Rc<UserAggregate>| {
        let UserAggregate { name, arguments, .. } = &***aggregate;
        old.and_then(|old| old.aggregate(name, arguments)) != Some(*aggregate)
    };
    let aggregates = new.aggregates.values().flatten().filter(is_new);
    out.extend(aggregates.map(|it| SchemaChange::CreateAggregate((**it).clone())));
}

#[cfg(test)]
mod tests;
