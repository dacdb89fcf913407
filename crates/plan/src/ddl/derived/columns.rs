//! The columns of views.
//!
//! Invariants: *whole-key*, *same-columns* and *hidden-where-needed* of [`super`].

use super::refuse;
use crate::error::Error;
use model::schema::{Computed, ComputedColumn, TableBuilder, View};
use model::{Column, ColumnKind, TableSchema, Type};

/// A view that is being made, or that gets more columns.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) builder: TableBuilder,
    /// Columns that nobody sees.
    pub(super) hidden: Vec<String>,
    pub(super) computed: Vec<(String, Computed)>,
}

impl Layout {
    /// Without columns.
    pub(super) fn new(builder: TableBuilder) -> Layout {
        Layout { builder, hidden: Vec::new(), computed: Vec::new() }
    }

    /// Adds a column of the base to the clustering key, in the order that it has there; `reversed`
    /// says otherwise.
    pub(super) fn clustering(&mut self, column: &Column, reversed: Option<bool>) {
        let ty = column.ty.clone();
        let is_reversed = reversed.unwrap_or(column.reversed);
        self.change(|builder| match is_reversed {
            true => builder.clustering_descending(&column.name, ty),
            false => builder.clustering(&column.name, ty),
        });
    }

    /// Adds a computed column to the key.
    pub(super) fn computed(&mut self, kind: ColumnKind, name: &str, ty: Type, computed: Computed) {
        self.change(|builder| match kind {
            ColumnKind::PartitionKey => builder.partition_key(name, ty),
            _ => builder.clustering(name, ty),
        });
        self.computed.push((name.to_owned(), computed));
    }

    /// Adds a regular column of the base whose values nobody asked for.
    pub(super) fn hide(&mut self, column: &Column) {
        self.change(|builder| builder.regular(&column.name, hidden_type(&column.ty)));
        self.hidden.push(column.name.clone());
    }

    pub(super) fn change(&mut self, change: impl FnOnce(TableBuilder) -> TableBuilder) {
        let empty = TableSchema::builder("", "", Default::default());
        self.builder = change(std::mem::replace(&mut self.builder, empty));
    }

    /// The view of that base, which is `view` apart from the columns that were added here.
    pub(super) fn build(self, base: &TableSchema, mut view: View) -> Result<TableSchema, Error> {
        let invalid = |invalid: model::value::Invalid| Error::Invalid(invalid.0);
        let table = self.builder.build().map_err(invalid)?;
        for column in &table.columns {
            let id = column.id;
            if self.hidden.contains(&column.name) {
                view.hidden.push(id);
            }
            if let Some((_, computed)) = self.computed.iter().find(|it| it.0 == column.name) {
                view.computed.push(ComputedColumn { id, computed: computed.clone() });
            }
        }
        view.hidden.sort();
        view.computed.sort_by_key(|column| column.id);
        let keys = &table.columns[..table.partition_key_count + table.clustering_count];
        view.lives_by_marker = View::must_live_by_marker(base, keys, &view);
        table.edit().view(view).build().map_err(invalid)
    }
}

/// The type that a column of that type has where only its life counts: a collection keeps its
/// elements' keys, which live one by one.
pub(super) fn hidden_type(ty: &Type) -> Type {
    let empty = || Box::new(Type::Empty);
    match ty {
        Type::Map { key, frozen: false, .. } => {
            Type::Map { key: key.clone(), value: empty(), frozen: false }
        }
        Type::List { frozen: false, .. } => Type::List { element: empty(), frozen: false },
        ty if ty.is_multi_cell() => ty.clone(),
        _ => Type::Empty,
    }
}

/// The column of the base of that name.
pub(super) fn of_base<'b>(base: &'b TableSchema, name: &str) -> Result<&'b Column, Error> {
    match base.column(name) {
        Some(column) => Ok(column),
        None => refuse(format!(
            "Unknown column name detected in CREATE MATERIALIZED VIEW statement: {name}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lives_on_its_own_is_kept_of_hidden_columns() {
        let check = |ty: &str, hidden: &str| {
            let ty = Type::from_cql(ty, &|_| None).unwrap();
            assert_eq!(hidden_type(&ty).to_cql(), hidden);
        };
        check("int", "empty");
        check("frozen<map<int, text>>", "empty");
        check("map<int, text>", "map<int, empty>");
        check("list<frozen<set<int>>>", "list<empty>");
        check("set<int>", "set<int>");
        check("vector<float, 3>", "empty");
    }
}
