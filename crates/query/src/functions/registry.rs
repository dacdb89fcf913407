//! Names and signatures of functions.

use super::{Aggregate, Function};
use crate::syntax::ast::NativeType;
use model::{TableSchema, Type};

/// One overload of a function.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) arguments: Vec<Type>,
    pub(crate) returns: Type,
    pub(crate) function: Function,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Functions of one row.
    Scalars(Vec<Signature>),
    /// A function of many rows, for whatever type its argument has.
    Aggregate(fn(Type) -> Option<Aggregate>),
    /// The argument's value as JSON.
    ToJson,
    /// JSON as a value of whatever type is expected.
    FromJson,
}

/// The function of that name. Words may be separated by underscores: `to_date` is `todate`.
/// `token` takes the partition key of `table`.
pub(crate) fn find(name: &str, table: Option<&TableSchema>) -> Option<Found> {
    let folded = name.replace('_', "");
    let one = |arguments: &[Type], returns: Type, function: Function| {
        Some(Found::Scalars(vec![Signature { arguments: arguments.to_vec(), returns, function }]))
    };
    match folded.as_str() {
        "now" | "currenttimeuuid" => one(&[], Type::TimeUuid, Function::Now),
        "currenttimestamp" => one(&[], Type::Timestamp, Function::CurrentTimestamp),
        "currentdate" => one(&[], Type::Date, Function::CurrentDate),
        "currenttime" => one(&[], Type::Time, Function::CurrentTime),
        "uuid" => one(&[], Type::Uuid, Function::Uuid),
        "mintimeuuid" => one(&[Type::Timestamp], Type::TimeUuid, Function::MinTimeUuid),
        "maxtimeuuid" => one(&[Type::Timestamp], Type::TimeUuid, Function::MaxTimeUuid),
        "dateof" => one(&[Type::TimeUuid], Type::Timestamp, Function::ToTimestamp(Type::TimeUuid)),
        "unixtimestampof" => {
            one(&[Type::TimeUuid], Type::BigInt, Function::ToUnixTimestamp(Type::TimeUuid))
        }
        "todate" => of_times(&[Type::TimeUuid, Type::Timestamp], Type::Date, Function::ToDate),
        "totimestamp" => {
            of_times(&[Type::TimeUuid, Type::Date], Type::Timestamp, Function::ToTimestamp)
        }
        "tounixtimestamp" => of_times(
            &[Type::TimeUuid, Type::Timestamp, Type::Date],
            Type::BigInt,
            Function::ToUnixTimestamp,
        ),
        "token" => {
            let types: Vec<Type> = table?.partition_key().iter().map(|c| c.ty.clone()).collect();
            one(&types, Type::BigInt, Function::Token)
        }
        "tojson" => Some(Found::ToJson),
        "fromjson" => Some(Found::FromJson),
        "count" => Some(Found::Aggregate(|_| Some(Aggregate::Count))),
        "min" => Some(Found::Aggregate(|ty| Some(Aggregate::Min(ty)))),
        "max" => Some(Found::Aggregate(|ty| Some(Aggregate::Max(ty)))),
        "sum" => Some(Found::Aggregate(|ty| Aggregate::sum(&ty))),
        "avg" => Some(Found::Aggregate(|ty| Aggregate::average(&ty))),
        _ => blob_conversion(&folded),
    }
}

fn of_times(arguments: &[Type], returns: Type, function: fn(Type) -> Function) -> Option<Found> {
    let overload = |ty: &Type| Signature {
        arguments: vec![ty.clone()],
        returns: returns.clone(),
        function: function(ty.clone()),
    };
    Some(Found::Scalars(arguments.iter().map(overload).collect()))
}

/// `<type>AsBlob` and `blobAs<Type>`.
fn blob_conversion(name: &str) -> Option<Found> {
    let native = |name: &str| {
        let known = NativeType::from_name(name)?;
        Type::native(known.name()).filter(|ty| !matches!(ty, Type::Counter | Type::Empty))
    };
    let signature = if let Some(ty) = name.strip_suffix("asblob").and_then(native) {
        Signature { arguments: vec![ty], returns: Type::Blob, function: Function::ToBlob }
    } else {
        let ty = name.strip_prefix("blobas").and_then(native)?;
        let function = Function::FromBlob(ty.clone());
        Signature { arguments: vec![Type::Blob], returns: ty, function }
    };
    Some(Found::Scalars(vec![signature]))
}
