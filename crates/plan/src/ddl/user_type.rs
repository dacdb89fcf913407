//! `CREATE`, `ALTER` and `DROP TYPE`. The registry lets tables and types follow a changed type.

use super::{
    Context, Decision, NAME_CHARS_MAX, named_keyspace, need_keyspace, refuse_system, types,
};
use crate::error::Error;
use cluster::{KeyspaceEntry, Schema, SchemaChange, TableEntry};
use model::{Type, UserType};
use std::rc::Rc;
use syntax::ast::{self, AlterType, AlterTypeAction, CreateType, Drop, Name};

/// Fields of a type at most: a field's index is stored in 16 bits, with a sign.
const FIELDS_MAX: usize = 1 << 15;

fn refuse<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(text.into()))
}

pub(super) fn create(schema: &Schema, it: &CreateType, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    let name = it.name.name.text.as_str();
    refuse_system(keyspace)?;
    let entry = need_keyspace(schema, keyspace)?;
    if name.is_empty() || NAME_CHARS_MAX < name.len() {
        return refuse(format!("\"{name}\" is not a valid type name"));
    }
    if entry.types.contains_key(name) {
        return match it.if_not_exists {
            true => Ok(Vec::new()),
            false => refuse(format!("A user type of name {keyspace}.{name} already exists")),
        };
    }
    let mut fields: Vec<(String, Type)> = Vec::with_capacity(it.fields.len());
    for (field, ty) in &it.fields {
        let field = field.text.as_str();
        if fields.iter().any(|(known, _)| known == field) {
            return refuse(format!("Duplicate field name {field} in type {name}"));
        }
        fields.push((field.to_owned(), field_type(schema, keyspace, ty)?));
    }
    check_count(name, fields.len())?;
    let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
    Ok(vec![SchemaChange::CreateType(UserType { keyspace, name, fields })])
}

pub(super) fn alter(schema: &Schema, it: &AlterType, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    let name = it.name.name.text.as_str();
    refuse_system(keyspace)?;
    let known = schema.user_type(keyspace, name);
    if it.if_exists && known.is_none() {
        return Ok(Vec::new());
    }
    let entry = need_keyspace(schema, keyspace)?;
    let Some(known) = known else { return unknown(keyspace, name) };
    let mut changed = (**known).clone();
    match &it.action {
        AlterTypeAction::Add { if_not_exists, field, ty } => {
            let field = field.text.as_str();
            if changed.field(field).is_some() {
                return match if_not_exists {
                    true => Ok(Vec::new()),
                    false => refuse(format!(
                        "Cannot add new field {field} to type {keyspace}.{name}: a field of the \
                         same name already exists"
                    )),
                };
            }
            let ty = field_type(schema, keyspace, ty)?;
            check_new_field(entry, known, field, &ty)?;
            changed.fields.push((field.to_owned(), ty));
            check_count(name, changed.fields.len())?;
        }
        AlterTypeAction::ChangeType { field, ty } => {
            let ty = field_type(schema, keyspace, ty)?;
            change_field(&mut changed, &field.text, ty)?;
        }
        AlterTypeAction::Rename { if_exists, fields } => {
            check_no_key(entry, known, "rename fields of")?;
            rename(&mut changed, fields, *if_exists)?;
        }
    }
    if changed == **known {
        return Ok(Vec::new());
    }
    Ok(vec![SchemaChange::AlterType(changed)])
}

pub(super) fn drop(schema: &Schema, it: &Drop, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    let name = it.name.name.text.as_str();
    refuse_system(keyspace)?;
    if schema.user_type(keyspace, name).is_none() {
        if it.if_exists {
            return Ok(Vec::new());
        }
        need_keyspace(schema, keyspace)?;
        return unknown(keyspace, name);
    }
    let entry = need_keyspace(schema, keyspace)?;
    if let Some(user) = used_by(entry, keyspace, name) {
        return refuse(format!(
            "Cannot drop user type {keyspace}.{name} as it is still used by {user}"
        ));
    }
    let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
    Ok(vec![SchemaChange::DropType { keyspace, name }])
}

fn unknown<T>(keyspace: &str, name: &str) -> Result<T, Error> {
    refuse(format!("No user type named {keyspace}.{name} exists"))
}

/// What mentions a type, as messages call it.
fn used_by(entry: &KeyspaceEntry, keyspace: &str, name: &str) -> Option<String> {
    let mentions = |ty: &Type| ty.mentions_user_type(keyspace, name);
    let mut types = entry.types.values().filter(|other| other.name != name);
    if let Some(user) = types.find(|other| other.fields.iter().any(|(_, ty)| mentions(ty))) {
        return Some(format!("user type {keyspace}.{}", user.name));
    }
    let mut tables = entry.tables.values();
    let uses = |table: &&Rc<TableEntry>| table.schema.columns.iter().any(|it| mentions(&it.ty));
    if let Some(table) = tables.find(uses) {
        return Some(format!("table {keyspace}.{}", table.schema.name));
    }
    let mut functions = entry.functions.values().flatten();
    if let Some(function) = functions.find(|it| it.mentions_user_type(keyspace, name)) {
        return Some(format!("function {}", function.signature()));
    }
    let mut aggregates = entry.aggregates.values().flatten();
    let aggregate = aggregates.find(|it| it.mentions_user_type(keyspace, name))?;
    Some(format!("aggregate {}", aggregate.signature()))
}

/// The type of a field.
fn field_type(schema: &Schema, keyspace: &str, written: &ast::Type) -> Result<Type, Error> {
    match types::resolve(schema, keyspace, written)? {
        Type::Counter => refuse("A user type cannot contain counters"),
        Type::User(user) if !user.frozen => {
            refuse("A user type cannot contain non-frozen user type fields")
        }
        ty => Ok(ty),
    }
}

fn check_count(name: &str, count: usize) -> Result<(), Error> {
    if FIELDS_MAX <= count {
        return refuse(format!("The type {name} cannot have {count} fields"));
    }
    Ok(())
}

/// A new field changes how values compare, so a type in a partition key cannot get one; and no
/// type can contain itself.
fn check_new_field(
    entry: &KeyspaceEntry,
    known: &UserType,
    field: &str,
    ty: &Type,
) -> Result<(), Error> {
    let UserType { keyspace, name, .. } = known;
    if ty.mentions_user_type(keyspace, name) {
        return refuse(format!(
            "Cannot add new field {field} of type {} to type {keyspace}.{name} as this would \
             create a circular reference",
            ty.to_cql()
        ));
    }
    check_no_key(entry, known, "add new field to")?;
    for table in entry.tables.values() {
        for column in &table.schema.columns {
            let not_frozen =
                matches!(&column.ty, Type::User(user) if user.name == *name && !user.frozen);
            if not_frozen && ty.is_multi_cell() {
                return refuse(format!(
                    "Non-frozen UDTs with nested non-frozen collections are not supported for \
                     column {}",
                    column.name
                ));
            }
        }
    }
    Ok(())
}

/// An error if a type is part of a partition key; `what` cannot be done to it then.
fn check_no_key(entry: &KeyspaceEntry, known: &UserType, what: &str) -> Result<(), Error> {
    let UserType { keyspace, name, .. } = known;
    for table in entry.tables.values() {
        let mut key = table.schema.partition_key().iter();
        if let Some(column) = key.find(|column| column.ty.mentions_user_type(keyspace, name)) {
            let table = &table.schema.name;
            return refuse(format!(
                "Cannot {what} type {keyspace}.{name} because it is used in the partition key \
                 column {} of table {keyspace}.{table}",
                column.name
            ));
        }
    }
    Ok(())
}

fn change_field(changed: &mut UserType, field: &str, ty: Type) -> Result<(), Error> {
    let name = &changed.name;
    let Some((_, before)) = changed.fields.iter_mut().find(|(known, _)| known == field) else {
        return refuse(format!("Unknown field {field} in type {name}"));
    };
    if !ty.is_value_compatible_with(before) || !ty.is_order_compatible_with(before) {
        return refuse(format!(
            "Type {} is incompatible with previous type {} of field {field} in user type {name}",
            ty.to_cql(),
            before.to_cql()
        ));
    }
    *before = ty;
    Ok(())
}

fn rename(changed: &mut UserType, fields: &[(Name, Name)], if_exists: bool) -> Result<(), Error> {
    for (from, to) in fields {
        let (from, to) = (from.text.as_str(), to.text.as_str());
        let Some(index) = changed.field(from) else {
            if if_exists {
                continue;
            }
            return refuse(format!("Unknown field {from} in type {}", changed.name));
        };
        changed.fields[index].0 = to.to_owned();
        let same = changed.fields.iter().filter(|(known, _)| known == to).count();
        if 1 < same {
            return refuse(format!("Duplicate field name {to} in type {}", changed.name));
        }
    }
    Ok(())
}
