//! Views and indexes as rows. `views`, `indexes` and `computed_columns` are for clients as well;
//! what these cannot hold is in `nereid_views`, `nereid_indexes` and `nereid_columns`.

use super::Writer;
use crate::rows::partition::{Value, boolean, map, text, uuid};
use crate::schema::Local;
use model::schema::{Computed, View, ViewCondition};
use model::value::collection::{write_collection, write_tuple};
use model::value::quote_json;
use model::{ColumnId, TableSchema};

/// What is computed for a column, and of which one, as it is stored.
pub(super) fn computed_parts(
    table: &TableSchema,
    id: ColumnId,
) -> (Option<&'static str>, Option<&str>) {
    let computed = table.view.as_ref().and_then(|view| view.computed(id));
    let parts = computed.map(Computed::parts);
    debug_assert!(parts.is_none_or(|(kind, _)| !kind.is_empty()), "round-trip: computed nothing");
    (parts.map(|(kind, _)| kind), parts.and_then(|(_, of)| of))
}

impl<L: Local> Writer<'_, L> {
    /// The rows of a view that only views have; `cells` are its options.
    pub(super) fn view(
        &mut self,
        table: &TableSchema,
        view: &View,
        mut cells: Vec<(&'static str, Option<Value>)>,
        timestamp: i64,
    ) {
        let TableSchema { keyspace, name, .. } = table;
        assert!(table.indexes.is_empty(), "round-trip: view {name} has indexes");
        cells.push(("base_table_id", uuid(view.base)));
        cells.push(("base_table_name", text(&view.base_name)));
        cells.push(("include_all_columns", boolean(view.includes_all)));
        cells.push(("where_clause", text(&view.where_clause)));
        let mut partition = self.partition("views", keyspace, timestamp);
        partition.row(&[name.as_bytes()], cells);
        self.push(partition);

        let mut partition = self.partition("nereid_views", keyspace, timestamp);
        let filter = (!view.filter.is_empty()).then(|| conditions(&view.filter));
        let synchronous = view.synchronous.and_then(boolean);
        let cells = vec![("filter", filter), ("is_synchronous", synchronous)];
        partition.row(&[name.as_bytes()], cells);
        self.push(partition);

        if view.computed.is_empty() {
            return;
        }
        let mut partition = self.partition("computed_columns", keyspace, timestamp);
        for computed in &view.computed {
            let column = table.column_by_id(computed.id);
            let column = column.expect("viewed: a computed column is there");
            let json = Value::Atomic(as_json(&computed.computed).into_bytes());
            let key = [name.as_bytes(), column.name.as_bytes()];
            partition.row(&key, vec![("computation", Some(json))]);
        }
        self.push(partition);
    }

    /// The indexes of a table.
    pub(super) fn indexes(&mut self, table: &TableSchema, timestamp: i64) {
        let TableSchema { keyspace, name, .. } = table;
        if table.indexes.is_empty() {
            return;
        }
        let mut shown = self.partition("indexes", keyspace, timestamp);
        let mut ours = self.partition("nereid_indexes", keyspace, timestamp);
        for index in &table.indexes {
            assert!(!index.name.is_empty(), "round-trip: an index of {name} has no name");
            let key = [name.as_bytes(), index.name.as_bytes()];
            let cells = vec![
                ("kind", text(table.index_kind(index))),
                ("options", map(&table.index_options(index))),
            ];
            shown.row(&key, cells);
            let cells = vec![
                ("class", index.class.as_deref().and_then(text)),
                ("column_name", text(&index.column)),
                ("is_local", boolean(index.is_local)),
                ("options", map(&index.options)),
                ("target", text(index.target.name())),
            ];
            ours.row(&key, cells);
        }
        self.push(shown);
        self.push(ours);
    }
}

/// A list of tuples of columns, operator and values.
fn conditions(filter: &[ViewCondition]) -> Value {
    let lists = filter.iter().map(|condition| {
        let count = condition.columns.len();
        let is_whole = condition.values.iter().all(|values| values.len() == count);
        assert!(is_whole, "round-trip: values of {count} columns in {condition:?}");
        let columns = list(condition.columns.iter().map(|name| name.as_bytes()));
        let values: Vec<Vec<u8>> =
            condition.values.iter().map(|values| list(values.iter().map(Vec::as_slice))).collect();
        let values = list(values.iter().map(Vec::as_slice));
        let operator = condition.operator.name().as_bytes();
        let mut tuple = Vec::new();
        let parts = [Some(&columns[..]), Some(operator), Some(&values[..])];
        write_tuple(parts.into_iter(), &mut tuple);
        tuple
    });
    let tuples: Vec<Vec<u8>> = lists.collect();
    Value::Atomic(list(tuples.iter().map(Vec::as_slice)))
}

fn list<'a>(elements: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_collection(elements, &mut bytes);
    bytes
}

/// As other tools know it. Names of columns are JSON strings.
fn as_json(computed: &Computed) -> String {
    let kind = match computed {
        Computed::Token => "token_v2",
        Computed::ElementKey(_) => "collection_keys",
        Computed::ElementValue(_) => "collection_values",
        Computed::ElementEntry(_) => "collection_entries",
        Computed::KeyOfValue(_) => "collection_keys_for_values",
        Computed::Attribute(_) => "map_value_if_type",
    };
    match computed.parts().1 {
        None => format!("{{\"type\":\"{kind}\"}}"),
        Some(column) => {
            let column = quote_json(column);
            format!("{{\"type\":\"{kind}\",\"collection_name\":{column}}}")
        }
    }
}
