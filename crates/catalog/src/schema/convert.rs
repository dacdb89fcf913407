//! Tables that are given tablets, in a snapshot of a node.
//!
//! Invariants: *tablets-or-intended* of [`super`], *all-or-none* of
//! [`crate::placement::conversion`].

use super::{KeyspaceEntry, Local, Schema, TableEntry};
use crate::placement::{Division, Here, Replication, TabletReplicas};
use crate::topology::StorageMode;
use std::rc::Rc;

impl<L> KeyspaceEntry<L> {
    /// Why it cannot be given tablets; `None`: it can, as far as it is its own affair.
    pub(crate) fn why_not_converted(&self) -> Option<String> {
        let name = &self.keyspace.name;
        if self.keyspace.initial_tablets.is_some() {
            return Some(format!("keyspace {name} already uses tablets"));
        }
        if !matches!(*self.replication, Replication::PerDataCenter(_)) {
            return Some(format!(
                "keyspace {name} cannot be migrated to tablets: its replication has to be \
                 NetworkTopologyStrategy (ALTER KEYSPACE)"
            ));
        }
        if self.tables.is_empty() {
            return Some(format!("keyspace {name} has no tables to migrate"));
        }
        self.tables.values().find_map(|table| {
            let what = match &table.schema {
                it if it.view.is_some() => "is a view",
                it if it.log.is_some() => "is a log of changes",
                it if !table.views.is_empty() || !it.indexes.is_empty() => "has views or indexes",
                _ if table.log.is_some() => "has a log of changes",
                _ => return None,
            };
            let table = &table.schema.name;
            Some(format!("keyspace {name} cannot be migrated to tablets: {name}.{table} {what}"))
        })
    }
}

impl<L> TableEntry<L> {
    /// The tablets that are stored of it: those that it has, or is being given.
    pub fn stored_tablets(&self) -> &TabletReplicas {
        let has_both = !self.replicas.is_empty() && !self.intended.is_empty();
        debug_assert!(!has_both, "tablets-or-intended: {} has both", self.schema.name);
        if self.replicas.is_empty() { &self.intended } else { &self.replicas }
    }

    /// How this node stores it, as long as it is being given tablets.
    pub fn storage_mode(&self) -> StorageMode {
        let ends = self.tablets.last_tokens();
        let is_end = |last| ends.binary_search(last).is_ok();
        let intended = self.intended.last_tokens();
        match !intended.is_empty() && intended.iter().all(is_end) {
            true => StorageMode::Tablets,
            false => StorageMode::Ring,
        }
    }
}

impl<L: Clone> TableEntry<L> {
    /// The same in a keyspace that has tablets from now on: those that it was given.
    pub(super) fn converted(self) -> TableEntry<L> {
        if self.intended.is_empty() {
            return self;
        }
        let (name, mode) = (&self.schema.name, self.storage_mode());
        assert!(self.replicas.is_empty(), "tablets-or-intended: {name} has some already");
        assert!(mode == StorageMode::Tablets, "all-or-none: {name} has a ring here");
        TableEntry { replicas: self.intended, intended: Rc::default(), ..self }
    }
}

impl<L: Local> Schema<L> {
    /// As a node has it that starts, and stores tables that are being given tablets in that way.
    pub fn stored_by(mut self, mode: StorageMode, here: Here) -> Schema<L> {
        if mode == StorageMode::Ring {
            return self;
        }
        let given = self.by_id.values().filter(|table| !table.intended.is_empty());
        let given: Vec<Rc<TableEntry<L>>> = given.cloned().collect();
        for table in given {
            let Division { tablets, .. } = Division::of_tablets((*table.intended).clone(), here);
            let entry = TableEntry { tablets: Rc::new(tablets), ..(*table).clone() };
            debug_assert!(entry.storage_mode() == mode, "all-or-none: {}", entry.schema.name);
            self.put_entry(Rc::new(entry));
        }
        self
    }

    /// Whether a keyspace is one with tablets.
    pub(super) fn has_tablets(&self, keyspace: &str) -> bool {
        let entry = self.keyspaces.get(keyspace);
        debug_assert!(entry.is_some(), "indexed: no keyspace {keyspace}");
        entry.is_some_and(|entry| entry.keyspace.initial_tablets.is_some())
    }
}
