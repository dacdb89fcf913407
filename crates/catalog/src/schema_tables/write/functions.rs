//! Functions and aggregates as rows.

use super::Writer;
use crate::rows::partition::{boolean, text, texts};
use crate::schema::Local;
use model::Type;
use model::schema::{NullInput, UserAggregate, UserFunction};
use model::value::write_collection;

/// Argument types as they stand in a key: a list of texts.
fn key_of<'a>(types: impl Iterator<Item = &'a Type>) -> Vec<u8> {
    let texts: Vec<String> = types.map(Type::to_cql).collect();
    let mut bytes = Vec::new();
    write_collection(texts.iter().map(String::as_bytes), &mut bytes);
    bytes
}

impl<L: Local> Writer<'_, L> {
    /// The row of a function, in the place of what was there.
    pub(super) fn function(&mut self, function: &UserFunction, timestamp: i64) {
        let key = key_of(function.argument_types());
        let names: Vec<&str> = function.arguments.iter().map(|(name, _)| name.as_str()).collect();
        let mut partition = self.partition("functions", &function.keyspace, timestamp);
        let cells = vec![
            ("argument_names", texts(names.into_iter())),
            ("body", text(&function.body)),
            ("called_on_null_input", boolean(function.null_input == NullInput::Called)),
            ("language", text(&function.language)),
            ("return_type", text(&function.returns.to_cql())),
        ];
        partition.row(&[function.name.as_bytes(), &key], cells);
        self.push(partition);
    }

    pub(super) fn drop_function(
        &mut self,
        keyspace: &str,
        name: &str,
        arguments: &[Type],
        timestamp: i64,
    ) {
        let mut partition = self.partition("functions", keyspace, timestamp);
        partition.delete_rows(&[name.as_bytes(), &key_of(arguments.iter())]);
        self.push(partition);
    }

    /// The rows of an aggregate, in the place of what was there.
    pub(super) fn aggregate(&mut self, aggregate: &UserAggregate, timestamp: i64) {
        let UserAggregate { keyspace, name, .. } = aggregate;
        self.drop_aggregate(keyspace, name, &aggregate.arguments, timestamp);
        let key = key_of(aggregate.arguments.iter());
        let state_type = aggregate.state_type.to_cql();
        let mut partition = self.partition("aggregates", keyspace, timestamp);
        let cells = vec![
            ("final_func", aggregate.final_function.as_deref().and_then(text)),
            ("initcond", aggregate.initial.as_deref().and_then(text)),
            ("return_type", text(&aggregate.returns.to_cql())),
            ("state_func", text(&aggregate.state_function)),
            ("state_type", text(&state_type)),
        ];
        partition.row(&[name.as_bytes(), &key], cells);
        self.push(partition);
        let Some(reduce) = &aggregate.reduce_function else { return };
        let mut partition = self.partition("scylla_aggregates", keyspace, timestamp);
        let cells = vec![("reduce_func", text(reduce)), ("state_type", text(&state_type))];
        partition.row(&[name.as_bytes(), &key], cells);
        self.push(partition);
    }

    pub(super) fn drop_aggregate(
        &mut self,
        keyspace: &str,
        name: &str,
        arguments: &[Type],
        timestamp: i64,
    ) {
        let key = key_of(arguments.iter());
        for table in ["aggregates", "scylla_aggregates"] {
            let mut partition = self.partition(table, keyspace, timestamp);
            partition.delete_rows(&[name.as_bytes(), &key]);
            self.push(partition);
        }
    }
}
