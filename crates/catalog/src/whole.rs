//! The whole catalog as rows, for a node that is given all of it at once.
//!
//! Invariants
//!  - *in-place-of*: what a catalog's rows are written over, after that was forgotten at the same
//!    time, does not show; what is written later does.

use crate::command::{self, Catalog};
use crate::schema::{Local, Schema, SchemaChange, Tablets};
use crate::schema_tables::write::Writer;
use crate::{access_tables, facts, topology};
use model::Uuid;
use mutation::FrozenMutation;

impl<L: Local> Catalog<L> {
    /// All that makes this snapshot durable, with the timestamp `at` and the one before, and facts
    /// by name.
    pub fn rows(&self, facts: &[(&str, &str)], at: i64) -> Vec<FrozenMutation> {
        assert!(0 < at, "in-place-of: rows of {at} come after nothing");
        let names = self.schema.keyspaces.keys().filter(|name| !Schema::<L>::is_system(name));
        let nothing = self.schema.without(names, Uuid::nil());
        let complete = self.schema.changes_since(&nothing);
        let mut writer = Writer::new(&*self.schema);
        complete.changes.iter().for_each(|change| writer.change(change, &complete.tablets, at));
        for (table, streams) in &complete.streams {
            writer.streams(*table, streams, at);
        }
        let mut rows = writer.finish();
        let access = self.access.changes();
        debug_assert!(
            auth::State::of(access.clone()).says_the_same(&self.access),
            "in-place-of: roles or grants are lost"
        );
        rows.append(&mut access_tables::mutations(&self.schema, &access, at));
        rows.push(topology::whole(&self.topology, at));
        if !self.topology.enabled().is_empty() {
            rows.push(command::enabled(&self.schema, &self.topology, at));
        }
        rows.extend(facts::version(&self.schema, self.schema.version, at));
        let changed_at = (facts::ACCESS_CHANGED_AT, &*at.to_string());
        for (name, value) in facts.iter().copied().chain([changed_at]) {
            rows.push(facts::fact(&self.schema, name, value, at));
        }
        rows
    }

    /// Deletes what makes this snapshot durable, before `at`: what is written at that time lives.
    /// Facts, the version of the schema, and nodes stay: [`Catalog::rows`] replaces them.
    pub fn forgotten(&self, at: i64) -> Vec<FrozenMutation> {
        let mut writer = Writer::new(&*self.schema);
        for name in self.schema.keyspaces.keys().filter(|name| !Schema::<L>::is_system(name)) {
            let dropped = SchemaChange::DropKeyspace(name.clone());
            debug_assert!(self.schema.keyspace(name).is_some(), "in-place-of: {name} is not there");
            writer.change(&dropped, &Tablets::default(), at);
        }
        let mut rows = writer.finish();
        rows.append(&mut access_tables::mutations(&self.schema, &self.access.undoing(), at));
        rows
    }
}

#[cfg(test)]
mod tests;
