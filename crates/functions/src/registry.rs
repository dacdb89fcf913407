//! Names and signatures of functions.
//!
//! Invariants
//!  - *one-name-one-kind*: what a name of the keyspace `system` stands for is known without a
//!    schema; functions of users are found by keyspace and name.
//!
//! Native functions have the name of Cassandra 5, with underscores (`to_date`), and most of them
//! the older one without (`todate`).

use crate::NATIVE_KEYSPACE;
use crate::aggregate::Aggregate;
use crate::collection::CollectionFunction;
use crate::factory::{self, Factory};
use crate::mask::Mask;
use crate::math::MathFunction;
use crate::scalar::Function;
use crate::signature::{Body, Signature};
use crate::udf::{UserAggregate, UserFunction};
use crate::vector::Similarity;
use cluster::Schema;
use model::{TableSchema, Type};
use std::rc::Rc;
use syntax::ast::NativeType;

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Found {
    /// One of these, whichever the arguments suit.
    Overloads(Vec<Signature>),
    /// A signature that depends on the types of the arguments, or on the type that is expected.
    Factory(Factory),
}

/// The functions of that name. Without a keyspace, native ones and those of users in `home`.
/// `token` takes the partition key of `table`.
pub fn find(
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
        _ => of_users(schema, keyspace.unwrap_or(home), name),
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

/// The functions and aggregates of that name that users have made in a keyspace. An aggregate whose
/// functions do not fit is left out.
fn of_users(schema: &Schema, keyspace: &str, name: &str) -> Vec<Signature> {
    let Some(entry) = schema.keyspace(keyspace) else { return Vec::new() };
    let home: Rc<str> = Rc::from(entry.keyspace.name.as_str());
    let functions = entry.functions(name).iter().map(|function| Signature {
        keyspace: home.clone(),
        arguments: function.argument_types().cloned().collect(),
        returns: function.returns.clone(),
        body: Body::Scalar(Function::User(UserFunction::new(function.clone()))),
    });
    let aggregates = entry.aggregates(name).iter().filter_map(|aggregate| {
        let user = UserAggregate::new(entry, aggregate)?;
        Some(Signature {
            keyspace: home.clone(),
            arguments: aggregate.arguments.clone(),
            returns: aggregate.returns.clone(),
            body: Body::Aggregate(Aggregate::User(Rc::new(user))),
        })
    });
    functions.chain(aggregates).collect()
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
