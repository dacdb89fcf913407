//! The resources that access statements name.

use crate::error::Error;
use crate::types;
use auth::Resource;
use cluster::Schema;
use model::Type;
use syntax::ast;
use syntax::ast::QualifiedName;

/// The functions and aggregates of that name.
pub fn of_keyspace(schema: &Schema, keyspace: &str, name: &str) -> Vec<Resource> {
    let Some(entry) = schema.keyspace(keyspace) else { return Vec::new() };
    let functions = entry.functions(name).iter().map(|it| {
        let types: Vec<Type> = it.argument_types().cloned().collect();
        Resource::function(keyspace, name, &types)
    });
    let aggregates = entry.aggregates(name).iter();
    let aggregates = aggregates.map(|it| Resource::function(keyspace, name, &it.arguments));
    functions.chain(aggregates).collect()
}

/// The keyspace of a name: its own, or the one in use.
pub fn home<'a>(name: &'a QualifiedName, keyspace: Option<&'a str>) -> Result<&'a str, Error> {
    let said = name.keyspace.as_ref().map(|keyspace| keyspace.text.as_str()).or(keyspace);
    said.ok_or_else(|| {
        Error::invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename",
        )
    })
}

/// The resource, whether there is one or not.
pub fn named(
    schema: &Schema,
    keyspace: Option<&str>,
    written: &ast::Resource,
) -> Result<Resource, Error> {
    Ok(match written {
        ast::Resource::AllKeyspaces => Resource::AllKeyspaces,
        ast::Resource::Keyspace(name) => Resource::Keyspace(name.text.clone()),
        ast::Resource::Table(name) => Resource::table(home(name, keyspace)?, &name.name.text),
        ast::Resource::AllRoles => Resource::AllRoles,
        ast::Resource::Role(name) => Resource::Role(name.text.clone()),
        ast::Resource::AllFunctions => Resource::AllFunctions,
        ast::Resource::FunctionsIn(name) => Resource::FunctionsIn(name.text.clone()),
        ast::Resource::Function(name, written) => {
            let owner = home(name, keyspace)?;
            // The types of a keyspace that does not exist are unknown.
            let types = match schema.keyspace(owner) {
                None => Vec::new(),
                Some(_) => written
                    .iter()
                    .map(|ty| Ok(types::resolve(schema, owner, ty)?.freeze()))
                    .collect::<Result<Vec<Type>, Error>>()?,
            };
            Resource::function(owner, &name.name.text, &types)
        }
    })
}

/// An error if there is no such resource, or nothing can be granted on it. Roles are left to who
/// decides on them.
pub fn check(schema: &Schema, resource: &Resource) -> Result<(), Error> {
    let is_there = match resource {
        Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions => true,
        Resource::Role(_) => true,
        Resource::FunctionsIn(keyspace) | Resource::Function { keyspace, .. }
            if Schema::is_system(keyspace) =>
        {
            return Err(Error::invalid(
                "Altering permissions on builtin functions is not supported",
            ));
        }
        Resource::Keyspace(keyspace) | Resource::FunctionsIn(keyspace) => {
            schema.keyspace(keyspace).is_some()
        }
        Resource::Table { keyspace, table } => schema.table(keyspace, table).is_some(),
        Resource::Function { keyspace, name, .. } => {
            of_keyspace(schema, keyspace, name).contains(resource)
        }
    };
    match is_there {
        true => Ok(()),
        false => Err(Error::Invalid(format!("{resource} doesn't exist."))),
    }
}
