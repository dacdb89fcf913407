//! Types in definitions of columns and fields: stricter than in expressions, as non-frozen types
//! are not allowed everywhere.

use crate::error::Error;
use cluster::Schema;
use model::Type;
use model::types::NESTING_MAX;
use syntax::ast::{self, QualifiedName, TypeKind};

/// The most elements of a vector.
const DIMENSION_MAX: u32 = 16_000;

/// Whether a type stands inside something that freezes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    Frozen,
}

/// The type that `written` means in `keyspace`.
pub(super) fn resolve(schema: &Schema, keyspace: &str, written: &ast::Type) -> Result<Type, Error> {
    Resolver { schema, keyspace }.resolve(written, Inside::Nothing, NESTING_MAX)
}

struct Resolver<'a> {
    schema: &'a Schema,
    keyspace: &'a str,
}

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Invalid(text))
}

impl Resolver<'_> {
    fn resolve(
        &self,
        written: &ast::Type,
        inside: Inside,
        depth_left: usize,
    ) -> Result<Type, Error> {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return refuse(format!("A type cannot be nested deeper than {NESTING_MAX} levels"));
        };
        let element = |ty: &ast::Type| self.element(written, ty, inside, depth_left);
        let ty = match &written.kind {
            TypeKind::Native(native) => return self.native(*native),
            TypeKind::Custom(class) => custom(class)?,
            TypeKind::User(name) => self.user(name)?,
            TypeKind::List(inner) => Type::List { element: element(inner)?, frozen: false },
            TypeKind::Set(inner) => {
                let inner = element(inner)?;
                refuse_duration(written, &inner, "inside sets")?;
                Type::Set { element: inner, frozen: false }
            }
            TypeKind::Map(key, value) => {
                let (key, value) = (element(key)?, element(value)?);
                refuse_duration(written, &key, "as map keys")?;
                Type::Map { key, value, frozen: false }
            }
            TypeKind::Tuple(elements) => {
                let inner = |ty| self.part(written, ty, "tuples", depth_left);
                Type::Tuple(elements.iter().map(inner).collect::<Result<_, _>>()?)
            }
            TypeKind::Vector(inner, dimension) => {
                let element = Box::new(self.part(written, inner, "vectors", depth_left)?);
                Type::Vector { element, dimension: checked_dimension(*dimension)? }
            }
            TypeKind::Frozen(inner) => {
                let ty = self.resolve(inner, Inside::Frozen, depth_left)?;
                if ty.is_native() {
                    return refuse(format!(
                        "frozen<> is only allowed on collections, tuples, and user-defined types \
                         (got {inner})"
                    ));
                }
                ty
            }
        };
        let frozen = inside == Inside::Frozen || matches!(written.kind, TypeKind::Frozen(_));
        Ok(if frozen { ty.freeze() } else { ty })
    }

    fn native(&self, native: ast::NativeType) -> Result<Type, Error> {
        let unknown =
            || Error::invalid(format!("Unknown type {}.{}", self.keyspace, native.name()));
        Type::native(native.name()).ok_or_else(unknown)
    }

    /// What stands inside a collection.
    fn element(
        &self,
        collection: &ast::Type,
        written: &ast::Type,
        inside: Inside,
        depth_left: usize,
    ) -> Result<Box<Type>, Error> {
        let ty = self.resolve(written, inside, depth_left)?;
        if ty == Type::Counter {
            return refuse(format!("Counters are not allowed inside collections: {collection}"));
        }
        if ty.is_multi_cell() {
            let what = if ty.is_collection() { "collections" } else { "UDTs" };
            return refuse(format!(
                "Non-frozen {what} are not allowed inside collections: {collection}"
            ));
        }
        Ok(Box::new(ty))
    }

    /// What stands inside a tuple or a vector, which freeze it.
    fn part(
        &self,
        whole: &ast::Type,
        written: &ast::Type,
        inside: &str,
        depth_left: usize,
    ) -> Result<Type, Error> {
        match self.resolve(written, Inside::Frozen, depth_left)? {
            Type::Counter => refuse(format!("Counters are not allowed inside {inside}: {whole}")),
            ty => Ok(ty),
        }
    }

    fn user(&self, name: &QualifiedName) -> Result<Type, Error> {
        let keyspace = self.keyspace;
        let from = name.keyspace.as_ref().map_or(keyspace, |name| name.text.as_str());
        if from != keyspace {
            return refuse(format!(
                "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {from}; \
                 user types can only be used in the keyspace they are defined in"
            ));
        }
        match self.schema.user_type(from, &name.name.text) {
            Some(user) => Ok(user.to_type()),
            None => refuse(format!("Unknown type {from}.{}", name.name.text)),
        }
    }
}

fn refuse_duration(whole: &ast::Type, ty: &Type, place: &str) -> Result<(), Error> {
    if ty.mentions_duration() {
        return refuse(format!("Durations are not allowed {place}: {whole}"));
    }
    Ok(())
}

/// A class by its name. One that we do not know has no values that we could check.
fn custom(class: &str) -> Result<Type, Error> {
    match Type::from_class_name(class) {
        Some((ty, false)) if !ty.any(&|ty| matches!(ty, Type::Custom(_))) => Ok(ty),
        _ => refuse(format!("Unable to find type {class}")),
    }
}

fn checked_dimension(dimension: u32) -> Result<u16, Error> {
    match dimension {
        0 => refuse("Vectors must have a dimension greater than 0".to_owned()),
        1..=DIMENSION_MAX => Ok(dimension as u16),
        _ => refuse(format!("Vectors must have a dimension less than or equal to {DIMENSION_MAX}")),
    }
}
