//! Views and indexes. The view of an index is shown as the index; by its own name it is shown as
//! a comment.

use super::{Answer, Entry, Scope, missing};
use crate::error::CqlError;
use cluster::{KeyspaceEntry, Schema, TableEntry};
use model::schema::Index;
use plan::ddl::{indexed, is_of_index};
use std::rc::Rc;
use syntax::ast::QualifiedName;

impl Scope<'_> {
    /// The indexes and the views of a table.
    fn derived(&self, table: &TableEntry) -> Vec<Entry> {
        let mut entries = self.indexes(table);
        let views = table.views.iter().filter_map(|view| self.schema.table_by_id(*view));
        let mut views: Vec<_> = views.filter(|view| !is_of_index(self.schema, view)).collect();
        views.sort_by(|a, b| a.schema.name.cmp(&b.schema.name));
        entries.extend(views.into_iter().map(|view| self.view_entry(view)));
        entries
    }

    pub(super) fn indexes(&self, table: &TableEntry) -> Vec<Entry> {
        table.schema.indexes.iter().map(|index| self.index_entry(table, index)).collect()
    }

    fn index_entry(&self, table: &TableEntry, index: &Index) -> Entry {
        let base = &table.schema;
        let view = self.schema.table(&base.keyspace, &index.view_name());
        let view = view.filter(|view| is_of_index(self.schema, view)).map(|view| &*view.schema);
        Entry {
            keyspace: Some(base.keyspace.clone()),
            kind: "index",
            name: index.name.clone(),
            create: base.describe_index(index, view, self.internals),
        }
    }

    /// A view under its own name.
    pub(super) fn view_entry(&self, view: &TableEntry) -> Entry {
        let table = &view.schema;
        let create = match &table.view {
            Some(of) => table.describe_view(of, self.internals),
            None => table.describe(self.internals),
        };
        let create = match is_of_index(self.schema, view) {
            false => create,
            true => format!(
                "/* Do NOT execute this statement! It's only for informational purposes.\n   \
                 This materialized view is the underlying materialized view of a secondary\n   \
                 index. It can be restored via restoring the index.\n\n{create}\n*/"
            ),
        };
        let (keyspace, name) = (Some(table.keyspace.clone()), table.name.clone());
        Entry { keyspace, kind: "view", name, create }
    }

    /// The index of that name.
    pub(super) fn index(&self, keyspace: &KeyspaceEntry, name: &str) -> Option<Answer> {
        let table = indexed(self.schema, &keyspace.keyspace.name, name)?;
        let index = table.schema.index_named(name)?;
        Some(Answer::Statements(vec![self.index_entry(table, index)]))
    }

    pub(super) fn named_index(&self, name: &QualifiedName) -> Result<Answer, CqlError> {
        let (entry, name) = self.named(name)?;
        match self.index(entry, name) {
            Some(answer) => Ok(answer),
            None => missing("Table for existing index", name, "", entry),
        }
    }

    pub(super) fn named_view(&self, name: &QualifiedName) -> Result<Answer, CqlError> {
        let (entry, name) = self.named(name)?;
        match entry.tables.get(name).filter(|table| table.schema.view.is_some()) {
            Some(view) => Ok(Answer::Statements(vec![self.view_entry(view)])),
            None => missing("Materialized view", name, "keyspace ", entry),
        }
    }

    /// A table with its indexes and views, or a view.
    pub(super) fn table(&self, table: &Rc<TableEntry>) -> Answer {
        if table.schema.view.is_some() {
            return Answer::Statements(vec![self.view_entry(table)]);
        }
        if table.schema.log.is_some() {
            return Answer::Statements(vec![self.log_entry(table)]);
        }
        let mut entries = vec![super::table_entry(table, self.internals)];
        entries.extend(self.derived(table));
        entries.extend(self.log(table));
        Answer::Statements(entries)
    }
}

/// The views of a keyspace, by name, but those of indexes.
pub(super) fn views<'e>(schema: &Schema, entry: &'e KeyspaceEntry) -> Vec<&'e Rc<TableEntry>> {
    let views = entry.tables.values().filter(|table| table.schema.view.is_some());
    views.filter(|view| !is_of_index(schema, view)).collect()
}
