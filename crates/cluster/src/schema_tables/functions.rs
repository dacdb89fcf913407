//! Functions and aggregates as rows, and back.

use super::partition::{boolean, text, texts};
use super::read::{Read, Reader, Stored};
use super::write::Writer;
use crate::schema::Schema;
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

impl Writer<'_> {
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

/// Adds the stored functions and aggregates of a keyspace, whose types are there.
pub(super) fn load(schema: &mut Schema, stored: &Stored, keyspace: &str) -> Read<()> {
    for row in stored.of("functions", keyspace.as_bytes(), "") {
        let function = read_function(schema, &row, keyspace)?;
        schema.insert_function(function);
    }
    for row in stored.of("aggregates", keyspace.as_bytes(), "") {
        let mut aggregate = read_aggregate(schema, &row, keyspace)?;
        for extra in stored.of("scylla_aggregates", keyspace.as_bytes(), "") {
            let same = |name| extra.optional(name) == row.optional(name);
            if same("aggregate_name") && same("argument_types") {
                aggregate.reduce_function = Some(extra.text("reduce_func")?);
            }
        }
        schema.insert_aggregate(aggregate);
    }
    Ok(())
}

fn read_function(schema: &Schema, row: &Reader<'_>, keyspace: &str) -> Read<UserFunction> {
    let types = argument_types(schema, row, keyspace)?;
    let names = row.texts("argument_names")?;
    if names.len() != types.len() {
        return Err(row.damaged("a function with more types than names, or fewer".to_owned()));
    }
    let called = row.optional("called_on_null_input").is_some_and(|bytes| bytes != [0]);
    Ok(UserFunction {
        keyspace: keyspace.to_owned(),
        name: row.text("function_name")?,
        arguments: names.into_iter().zip(types).collect(),
        returns: ty(schema, row, keyspace, &row.text("return_type")?)?,
        null_input: if called { NullInput::Called } else { NullInput::ReturnsNull },
        language: row.text("language")?,
        body: row.text("body")?,
    })
}

fn read_aggregate(schema: &Schema, row: &Reader<'_>, keyspace: &str) -> Read<UserAggregate> {
    let optional = |name| row.optional(name).map(|_| row.text(name)).transpose();
    Ok(UserAggregate {
        keyspace: keyspace.to_owned(),
        name: row.text("aggregate_name")?,
        arguments: argument_types(schema, row, keyspace)?,
        state_function: row.text("state_func")?,
        state_type: ty(schema, row, keyspace, &row.text("state_type")?)?,
        reduce_function: None,
        final_function: optional("final_func")?,
        initial: optional("initcond")?,
        returns: ty(schema, row, keyspace, &row.text("return_type")?)?,
    })
}

fn argument_types(schema: &Schema, row: &Reader<'_>, keyspace: &str) -> Read<Vec<Type>> {
    row.texts("argument_types")?.iter().map(|text| ty(schema, row, keyspace, text)).collect()
}

fn ty(schema: &Schema, row: &Reader<'_>, keyspace: &str, text: &str) -> Read<Type> {
    let resolve = |name: &str| schema.user_type(keyspace, name).map(|user| (**user).clone());
    let found = Type::from_cql(text, &resolve);
    found.map(|ty| ty.freeze()).ok_or_else(|| row.damaged(format!("the unknown type {text}")))
}
