//! Functions and aggregates from their rows.

use crate::schema::{Local, Schema};
use crate::schema_tables::stored::{Read, Reader, Stored};
use model::Type;
use model::schema::{NullInput, UserAggregate, UserFunction};

/// Adds the stored functions and aggregates of a keyspace, whose types are there.
pub(super) fn load<L: Local>(schema: &mut Schema<L>, stored: &Stored, keyspace: &str) -> Read<()> {
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

fn read_function<L: Local>(
    schema: &Schema<L>,
    row: &Reader<'_>,
    keyspace: &str,
) -> Read<UserFunction> {
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

fn read_aggregate<L: Local>(
    schema: &Schema<L>,
    row: &Reader<'_>,
    keyspace: &str,
) -> Read<UserAggregate> {
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

fn argument_types<L: Local>(
    schema: &Schema<L>,
    row: &Reader<'_>,
    keyspace: &str,
) -> Read<Vec<Type>> {
    row.texts("argument_types")?.iter().map(|text| ty(schema, row, keyspace, text)).collect()
}

fn ty<L: Local>(schema: &Schema<L>, row: &Reader<'_>, keyspace: &str, text: &str) -> Read<Type> {
    let resolve = |name: &str| schema.user_type(keyspace, name).map(|user| (**user).clone());
    let found = Type::from_cql(text, &resolve);
    found.map(|ty| ty.freeze()).ok_or_else(|| row.damaged(format!("the unknown type {text}")))
}
