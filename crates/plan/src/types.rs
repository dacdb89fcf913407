//! Types as they are written, resolved against the schema.

use crate::error::Error;
use cluster::Schema;
use model::Type;
use model::types::UserTypeRef;
use syntax::ast;
use syntax::ast::TypeKind;

/// The type that `written` names. Unqualified user types are looked up in `keyspace`, and types of
/// another keyspace are refused.
pub(crate) fn resolve(schema: &Schema, keyspace: &str, written: &ast::Type) -> Result<Type, Error> {
    let inner = |ty: &ast::Type| resolve(schema, keyspace, ty).map(Box::new);
    Ok(match &written.kind {
        TypeKind::Native(native) => Type::native(native.name())
            .ok_or_else(|| Error::Invalid(format!("Unknown type {keyspace}.{}", native.name())))?,
        TypeKind::User(name) => {
            let from = name.keyspace.as_ref().map_or(keyspace, |name| name.text.as_str());
            if from != keyspace && !Schema::is_system(keyspace) {
                return Err(Error::Invalid(format!(
                    "Statement on keyspace {keyspace} cannot refer to a user type in keyspace \
                     {from}; user types can only be used in the keyspace they are defined in"
                )));
            }
            let unknown = || Error::Invalid(format!("Unknown type {from}.{}", name.name.text));
            let found = schema.user_type(from, &name.name.text).ok_or_else(unknown)?;
            Type::User(Box::new(UserTypeRef {
                keyspace: found.keyspace.clone(),
                name: found.name.clone(),
                fields: found.fields.clone(),
                frozen: false,
            }))
        }
        TypeKind::List(element) => Type::List { element: inner(element)?, frozen: false },
        TypeKind::Set(element) => Type::Set { element: inner(element)?, frozen: false },
        TypeKind::Map(key, value) => {
            Type::Map { key: inner(key)?, value: inner(value)?, frozen: false }
        }
        TypeKind::Tuple(elements) => {
            let elements: Result<Vec<Type>, Error> =
                elements.iter().map(|ty| resolve(schema, keyspace, ty)).collect();
            Type::Tuple(elements?).freeze()
        }
        TypeKind::Vector(element, dimension) => {
            let element = Box::new(inner(element)?.freeze());
            let dimension = vector_dimension(*dimension)?;
            Type::Vector { element, dimension }
        }
        TypeKind::Frozen(inside) => resolve(schema, keyspace, inside)?.freeze(),
        TypeKind::Custom(class) => match Type::from_class_name(class) {
            Some((ty, false)) if !ty.any(&|ty| matches!(ty, Type::Custom(_))) => ty,
            _ => return Err(Error::Invalid(format!("Unable to find comparator class {class}"))),
        },
    })
}

fn vector_dimension(dimension: u32) -> Result<u16, Error> {
    const DIMENSION_MAX: u32 = 16_000;
    match dimension {
        0 => Err(Error::invalid("Vectors must have a dimension greater than 0")),
        1..=DIMENSION_MAX => Ok(dimension as u16),
        _ => Err(Error::Invalid(format!(
            "Vectors must have a dimension less than or equal to {DIMENSION_MAX}"
        ))),
    }
}
