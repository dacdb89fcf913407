//! Logs of changes. One that is attached comes with its base, as what gives it its options; by its
//! own name it is shown as a comment. One that is not is made by no statement, and not shown with
//! all others.

use super::{Entry, Scope};
use cluster::TableEntry;

impl Scope<'_> {
    /// The log of a table, as the statement that follows that of its base.
    pub(super) fn log(&self, base: &TableEntry) -> Option<Entry> {
        let log = &self.schema.table_by_id(base.log?)?.schema;
        Some(Entry {
            keyspace: Some(log.keyspace.clone()),
            kind: "table",
            name: log.name.clone(),
            create: log.to_cql_alter(),
        })
    }

    /// A log under its own name.
    pub(super) fn log_entry(&self, log: &TableEntry) -> Entry {
        let create = log.schema.describe(self.internals);
        let (keyspace, name) = (log.schema.keyspace.clone(), log.schema.name.clone());
        Entry {
            keyspace: Some(keyspace),
            kind: "table",
            name,
            create: format!(
                "/* Do NOT execute this statement! It's only for informational purposes.\n   A CDC \
                 log table is created automatically when creating the base with CDC\n   enabled \
                 option or creating the vector index on the base table's vector column.\n\n\
                 {create}\n*/"
            ),
        }
    }
}
