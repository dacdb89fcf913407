//! Names and signatures of functions.
//!
//! Invariants
//!  - *one-name-one-kind*: what a name of the keyspace `system` stands for is known without a
//!    schema; functions of users are found by keyspace and name, see [`super::user`].
//!
//! Native functions have the name of Cassandra 5, with underscores (`to_date`), and most of them
//! the older one without (`todate`).

use super::collection::CollectionFunction;
use super::factory::{self, Factory};
use super::mask::Mask;
use super::math::MathFunction;
use super::vector::Similarity;
use super::{Aggregate, Function, user};
use cluster::Schema;
use model::{TableSchema, Type};
use std::rc::Rc;
use syntax::ast::NativeType;

/// The keyspace of native functions.
pub(crate) const NATIVE_KEYSPACE: &str = "system";

/// One overload of a function.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Where it is: [`NATIVE_KEYSPACE`] or that of a user.
    pub(crate) keyspace: Rc<str>,
    pub(crate) arguments: Vec<Type>,
    pub(crate) returns: Type,
    pub(crate) body: Body,
}

/// What computes an overload's value.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// From the arguments of one row.
    Scalar(Function),
    /// From those of many rows.
    Aggregate(Aggregate),
}

impl Body {
    /// Whether it is a user's.
    pub(crate) fn is_of_user(&self) -> bool {
        matches!(self, Body::Scalar(Function::User(_)) | Body::Aggregate(Aggregate::User { .. }))
    }
}

impl Signature {
    /// An overload of a native function.
    pub(crate) fn native(arguments: Vec<Type>, returns: Type, function: Function) -> Signature {
        let body = Body::Scalar(function);
        Signature { keyspace: NATIVE_KEYSPACE.into(), arguments, returns, body }
    }

    /// A native aggregate of one argument.
    pub(crate) fn aggregate(argument: Type, aggregate: Aggregate) -> Signature {
        let returns = aggregate.returns();
        let (arguments, body) = (vec![argument], Body::Aggregate(aggregate));
        Signature { keyspace: NATIVE_KEYSPACE.into(), arguments, returns, body }
    }
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// One of these, whichever the arguments suit.
    Overloads(Vec<Signature>),
    /// A signature that depends on the types of the arguments, or on the type that is expected.
    Factory(Factory),
}

/// The functions of that name. Without a keyspace, native ones and those of users in `home`.
/// `token` takes the partition key of `table`.
pub(crate) fn find(
    schema: &Schema,
    (keyspace, name): (Option<&str>, &str),
    home: &str,
    table: Option<&TableSchema>,
) -> Option<Found> {
    let native = match keyspace {
        None | Some(NATIVE_KEYSPACE) => native(name, table),
        Some(_) => None,
    };
    let users = match keyspace {
        Some(NATIVE_KEYSPACE) => Vec::new(),
        _ => user::overloads(schema, keyspace.unwrap_or(home), name),
    };
    match native {
        Some(Found::Overloads(mut overloads)) => {
            overloads.extend(users);
            Some(Found::Overloads(overloads))
        }
        Some(factory) => Some(factory),
        None => (!users.is_empty()).then_some(Found::Overloads(users)),
    }
}

fn native(name: &str, table: Option<&TableSchema>) -> Option<Found> {
    let one = |arguments: &[Type], returns: Type, function: Function| {
        let signature = Signature::native(arguments.to_vec(), returns, function);
        Some(Found::Overloads(vec![signature]))
    };
    match name {
        "now" | "current_timeuuid" | "currenttimeuuid" => one(&[], Type::TimeUuid, Function::Now),
        "current_timestamp" | "currenttimestamp" => {
            one(&[], Type::Timestamp, Function::CurrentTimestamp)
        }
        "current_date" | "currentdate" => one(&[], Type::Date, Function::CurrentDate),
        "current_time" | "currenttime" => one(&[], Type::Time, Function::CurrentTime),
        "uuid" => one(&[], Type::Uuid, Function::Uuid),
        "min_timeuuid" | "mintimeuuid" => {
            one(&[Type::Timestamp], Type::TimeUuid, Function::MinTimeUuid)
        }
        "max_timeuuid" | "maxtimeuuid" => {
            one(&[Type::Timestamp], Type::TimeUuid, Function::MaxTimeUuid)
        }
        "dateof" => one(&[Type::TimeUuid], Type::Timestamp, Function::ToTimestamp(Type::TimeUuid)),
        "unixtimestampof" => {
            one(&[Type::TimeUuid], Type::BigInt, Function::ToUnixTimestamp(Type::TimeUuid))
        }
        "to_date" | "todate" => {
            of_times(&[Type::TimeUuid, Type::Timestamp], Type::Date, Function::ToDate)
        }
        "to_timestamp" | "totimestamp" => {
            of_times(&[Type::TimeUuid, Type::Date], Type::Timestamp, Function::ToTimestamp)
        }
        "to_unix_timestamp" | "tounixtimestamp" => of_times(
            &[Type::TimeUuid, Type::Timestamp, Type::Date],
            Type::BigInt,
            Function::ToUnixTimestamp,
        ),
        "token" => {
            let types: Vec<Type> = table?.partition_key().iter().map(|c| c.ty.clone()).collect();
            one(&types, Type::BigInt, Function::Token)
        }
        _ => factory(name)
            .map(Found::Factory)
            .or_else(|| math(name))
            .or_else(|| blob_conversion(name)),
    }
}

fn factory(name: &str) -> Option<Factory> {
    Some(match name {
        "to_json" | "tojson" => Factory::ToJson,
        "from_json" | "fromjson" => Factory::FromJson,
        "count" => Factory::Count,
        "min" => Factory::Min,
        "max" => Factory::Max,
        "sum" => Factory::Sum,
        "avg" => Factory::Average,
        "set_intersection" => Factory::SetIntersection,
        "similarity_cosine" => Factory::Similarity(Similarity::Cosine),
        "similarity_euclidean" => Factory::Similarity(Similarity::Euclidean),
        "similarity_dot_product" => Factory::Similarity(Similarity::DotProduct),
        "map_keys" => Factory::Collection(CollectionFunction::MapKeys),
        "map_values" => Factory::Collection(CollectionFunction::MapValues),
        "collection_count" => Factory::Collection(CollectionFunction::Count),
        "collection_min" => Factory::Collection(CollectionFunction::Min),
        "collection_max" => Factory::Collection(CollectionFunction::Max),
        "collection_sum" => Factory::Collection(CollectionFunction::Sum),
        "collection_avg" => Factory::Collection(CollectionFunction::Average),
        "mask_null" => Factory::Mask(Mask::Null),
        "mask_default" => Factory::Mask(Mask::Default),
        "mask_replace" => Factory::Mask(Mask::Replace),
        "mask_inner" => Factory::Mask(Mask::Inner),
        "mask_outer" => Factory::Mask(Mask::Outer),
        _ => return None,
    })
}

fn of_times(arguments: &[Type], returns: Type, function: fn(Type) -> Function) -> Option<Found> {
    let overload =
        |ty: &Type| Signature::native(vec![ty.clone()], returns.clone(), function(ty.clone()));
    Some(Found::Overloads(arguments.iter().map(overload).collect()))
}

/// `abs`, `exp`, `log`, `log10` and `round` of every type of numbers.
fn math(name: &str) -> Option<Found> {
    let function = MathFunction::from_name(name)?;
    let overload = |ty: &Type| {
        Signature::native(vec![ty.clone()], ty.clone(), Function::Math(function, ty.clone()))
    };
    Some(Found::Overloads(factory::NUMBERS.iter().map(overload).collect()))
}

/// `<type>AsBlob` and `blobAs<Type>`, `<type>_as_blob` and `blob_as_<type>`.
fn blob_conversion(name: &str) -> Option<Found> {
    let native = |name: &str| {
        let known = NativeType::from_name(name)?;
        Type::native(known.name()).filter(|ty| !matches!(ty, Type::Empty))
    };
    let from = name.strip_suffix("_as_blob").or(name.strip_suffix("asblob"));
    let signature = if let Some(ty) = from.and_then(native) {
        Signature::native(vec![ty], Type::Blob, Function::ToBlob)
    } else {
        let to = name.strip_prefix("blob_as_").or(name.strip_prefix("blobas"));
        let ty = to.and_then(native)?;
        Signature::native(vec![Type::Blob], ty.clone(), Function::FromBlob(ty))
    };
    Some(Found::Overloads(vec![signature]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overloads(name: &str) -> Option<usize> {
        match native(name, None)? {
            Found::Overloads(overloads) => Some(overloads.len()),
            Found::Factory(_) => Some(0),
        }
    }

    #[test]
    fn names_of_both_kinds() {
        let check = |names: &[&str], expected: Option<usize>| {
            for name in names {
                assert_eq!(overloads(name), expected, "{name}");
            }
        };
        check(&["todate", "to_date"], Some(2));
        check(&["tounixtimestamp", "to_unix_timestamp"], Some(3));
        check(&["now", "currenttimeuuid", "current_timeuuid", "uuid"], Some(1));
        check(&["mintimeuuid", "min_timeuuid", "maxtimeuuid", "max_timeuuid"], Some(1));
        check(&["dateof", "unixtimestampof"], Some(1));
        check(&["abs", "exp", "log", "log10", "round"], Some(8));
        check(&["tojson", "to_json", "min", "similarity_cosine", "map_keys"], Some(0));
        check(&["t_o_date", "token", "nothing", "blobas", "asblob", "emptyasblob"], None);
        for ty in Type::natives().filter(|ty| !matches!(ty, Type::Empty)) {
            let name = ty.to_cql();
            let names = [format!("{name}asblob"), format!("{name}_as_blob")];
            check(&names.each_ref().map(String::as_str), Some(1));
            let names = [format!("blobas{name}"), format!("blob_as_{name}")];
            check(&names.each_ref().map(String::as_str), Some(1));
        }
    }
}
