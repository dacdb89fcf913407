//! `CREATE` and `DROP` of functions and aggregates. Pure; whether a body is of its language is
//! asked before, of [`functions::Engine`].

use super::{Context, Decision, named_keyspace, need_keyspace, refuse_system};
use crate::error::Error;
use crate::markers::Receiver;
use crate::term;
use crate::types;
use cluster::{KeyspaceEntry, Schema, SchemaChange};
use model::Type;
use model::schema::{NullInput, UserAggregate, UserFunction};
use model::value::to_literal;
use syntax::ast::{self, CreateAggregate, CreateFunction, DropFunction, IfPresent, Name, TypeKind};

fn refuse<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(text.into()))
}

/// What a statement defines, as far as the schema has its types.
pub fn definition(
    schema: &Schema,
    it: &CreateFunction,
    context: &Context,
) -> Result<UserFunction, Error> {
    let keyspace = named_keyspace(&it.name, context)?;
    refuse_system(keyspace)?;
    need_keyspace(schema, keyspace)?;
    let mut arguments: Vec<(String, Type)> = Vec::with_capacity(it.arguments.len());
    for (name, written) in &it.arguments {
        if arguments.iter().any(|(known, _)| *known == name.text) {
            let names: Vec<&str> = it.arguments.iter().map(|(name, _)| &name.text[..]).collect();
            return refuse(format!(
                "duplicate argument names for given function {} with argument names {}",
                it.name.name.text,
                names.join(", ")
            ));
        }
        arguments.push((name.text.clone(), ty(schema, keyspace, written)?));
    }
    Ok(UserFunction {
        keyspace: keyspace.to_owned(),
        name: it.name.name.text.clone(),
        arguments,
        returns: ty(schema, keyspace, &it.returns)?,
        null_input: match it.null_input {
            ast::NullInput::Called => NullInput::Called,
            ast::NullInput::ReturnsNull => NullInput::ReturnsNull,
        },
        language: it.language.text.to_lowercase(),
        body: it.body.clone(),
    })
}

pub(super) fn create(schema: &Schema, it: &CreateFunction, context: &Context) -> Decision {
    let function = definition(schema, it, context)?;
    let entry = need_keyspace(schema, &function.keyspace)?;
    let types: Vec<Type> = function.argument_types().cloned().collect();
    if let Some(aggregate) = entry.aggregate(&function.name, &types) {
        return present(it.if_present, &aggregate.signature(), "aggregate");
    }
    if let Some(known) = entry.function(&function.name, &types) {
        if it.if_present != IfPresent::Replace {
            return present(it.if_present, &known.signature(), "function");
        }
        let changes = known.returns != function.returns;
        if changes && let Some(user) = user_of(entry, known) {
            return refuse(format!(
                "Cannot replace function {}, the new return type {} is not compatible with the \
                 return type {} of existing function, as it is used by user-defined aggregate {}",
                known.signature(),
                function.returns.to_cql(),
                known.returns.to_cql(),
                user.signature()
            ));
        }
    }
    Ok(vec![SchemaChange::CreateFunction(function)])
}

/// Where something of that name and those arguments is there already.
fn present(if_present: IfPresent, signature: &str, kind: &str) -> Decision {
    match if_present {
        IfPresent::Keep => Ok(Vec::new()),
        IfPresent::Refuse => refuse(format!("The function '{signature}' already exists")),
        IfPresent::Replace => refuse(format!("Cannot replace '{signature}', which is an {kind}")),
    }
}

/// An aggregate that calls this function.
fn user_of<'e>(entry: &'e KeyspaceEntry, function: &UserFunction) -> Option<&'e UserAggregate> {
    let mut aggregates = entry.aggregates.values().flatten();
    let calls = |aggregate: &UserAggregate| {
        let mut called = aggregate.functions().into_iter();
        called.any(|(name, types)| name == function.name && function.takes(&types))
    };
    aggregates.find(|aggregate| calls(aggregate)).map(|aggregate| &**aggregate)
}

pub(super) fn drop(schema: &Schema, it: &DropFunction, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    refuse_system(keyspace)?;
    let Some(entry) = schema.keyspace(keyspace) else { return absent_keyspace(it, keyspace) };
    let name = &it.name.name.text;
    let wanted = wanted(schema, it, keyspace)?;
    let functions = entry.functions(name).iter();
    let found: Vec<_> =
        functions.filter(|it| wanted.as_ref().is_none_or(|types| it.takes(types))).collect();
    match found[..] {
        [] => {
            let other = entry.aggregates(name).first().map(|it| it.signature());
            absent(it, keyspace, wanted, other, "function")
        }
        [function] => {
            if let Some(user) = user_of(entry, function) {
                return refuse(format!(
                    "Cannot delete function {}, as it is used by user-defined aggregate {}",
                    function.signature(),
                    user.signature()
                ));
            }
            let (keyspace, name) = (function.keyspace.clone(), function.name.clone());
            let arguments = function.argument_types().cloned().collect();
            Ok(vec![SchemaChange::DropFunction { keyspace, name, arguments }])
        }
        _ => refuse(format!("There are multiple functions named {keyspace}.{name}")),
    }
}

pub(super) fn create_aggregate(
    schema: &Schema,
    it: &CreateAggregate,
    context: &Context,
) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    refuse_system(keyspace)?;
    let entry = need_keyspace(schema, keyspace)?;
    let arguments: Result<Vec<Type>, Error> =
        it.arguments.iter().map(|written| ty(schema, keyspace, written)).collect();
    let (arguments, state_type) = (arguments?, ty(schema, keyspace, &it.state_type)?);
    let name = &it.name.name.text;
    let mut aggregate = UserAggregate {
        keyspace: keyspace.to_owned(),
        name: name.clone(),
        arguments,
        state_function: it.state_function.text.clone(),
        state_type: state_type.clone(),
        reduce_function: it.reduce_function.as_ref().map(|name| name.text.clone()),
        final_function: it.final_function.as_ref().map(|name| name.text.clone()),
        initial: None,
        returns: state_type.clone(),
    };
    let find = |kind: &str, name: &Name, types: &[Type]| {
        let missing = || Error::Invalid(format!("{kind} function {} not found", name.text));
        entry.function(&name.text, types).ok_or_else(missing)
    };
    let of_state = |kind: &str, name: &Name, types: &[Type]| match find(kind, name, types)?.returns
        == state_type
    {
        true => Ok(()),
        false => refuse(format!("{kind} function '{}' doesn't return state", name.text)),
    };
    of_state("State", &it.state_function, &aggregate.state_arguments())?;
    if let Some(reduce) = &it.reduce_function {
        of_state("Reduce", reduce, &[state_type.clone(), state_type.clone()])?;
    }
    if let Some(name) = &it.final_function {
        aggregate.returns = find("Final", name, std::slice::from_ref(&state_type))?.returns.clone();
    }
    if let Some(initial) = &it.initial {
        let value = term::constant(
            schema,
            keyspace,
            initial,
            Receiver { name: "initcond", ty: &state_type },
        )?;
        aggregate.initial = value.map(|bytes| to_literal(&state_type, &bytes));
    }
    if let Some(function) = entry.function(name, &aggregate.arguments) {
        return present(it.if_present, &function.signature(), "function");
    }
    if let Some(known) = entry.aggregate(name, &aggregate.arguments)
        && it.if_present != IfPresent::Replace
    {
        return present(it.if_present, &known.signature(), "aggregate");
    }
    Ok(vec![SchemaChange::CreateAggregate(aggregate)])
}

pub(super) fn drop_aggregate(schema: &Schema, it: &DropFunction, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    refuse_system(keyspace)?;
    let Some(entry) = schema.keyspace(keyspace) else { return absent_keyspace(it, keyspace) };
    let name = &it.name.name.text;
    let wanted = wanted(schema, it, keyspace)?;
    let aggregates = entry.aggregates(name).iter();
    let found: Vec<_> = aggregates
        .filter(|it| wanted.as_ref().is_none_or(|types| it.arguments == *types))
        .collect();
    match found[..] {
        [] => {
            let other = entry.functions(name).first().map(|it| it.signature());
            absent(it, keyspace, wanted, other, "aggregate")
        }
        [aggregate] => {
            let (keyspace, name) = (aggregate.keyspace.clone(), aggregate.name.clone());
            let arguments = aggregate.arguments.clone();
            Ok(vec![SchemaChange::DropAggregate { keyspace, name, arguments }])
        }
        _ => refuse(format!("There are multiple functions named {keyspace}.{name}")),
    }
}

/// The argument types that a statement names.
fn wanted(schema: &Schema, it: &DropFunction, keyspace: &str) -> Result<Option<Vec<Type>>, Error> {
    let Some(written) = &it.arguments else { return Ok(None) };
    let types: Result<Vec<Type>, Error> = written
        .iter()
        .map(|written| Ok(types::resolve(schema, keyspace, written)?.freeze()))
        .collect();
    types.map(Some)
}

fn absent_keyspace(it: &DropFunction, keyspace: &str) -> Decision {
    match it.if_exists {
        true => Ok(Vec::new()),
        false => refuse(format!("Keyspace '{keyspace}' does not exist")),
    }
}

/// Where there is none of that kind; `other` is one of the other kind with that name.
fn absent(
    it: &DropFunction,
    keyspace: &str,
    wanted: Option<Vec<Type>>,
    other: Option<String>,
    kind: &str,
) -> Decision {
    let name = &it.name.name.text;
    match (it.if_exists, wanted, other) {
        (true, ..) => Ok(Vec::new()),
        (false, _, Some(other)) => refuse(format!("'{other}' is not a user defined {kind}")),
        (false, None, None) => refuse(format!("No function named {keyspace}.{name} found")),
        (false, Some(types), None) => {
            let types: Vec<String> = types.iter().map(Type::to_cql).collect();
            refuse(format!("User function {keyspace}.{name}({}) doesn't exist", types.join(", ")))
        }
    }
}

/// The type of an argument or a value. It is always frozen, so `frozen` need not be written, and
/// must not be for user types.
fn ty(schema: &Schema, keyspace: &str, written: &ast::Type) -> Result<Type, Error> {
    let ty = types::resolve(schema, keyspace, written)?.freeze();
    if let (TypeKind::Frozen(_), Type::User(_)) = (&written.kind, &ty) {
        return refuse("User defined argument and return types should not be frozen");
    }
    Ok(ty)
}
