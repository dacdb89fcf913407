//! Generators of types, values and table schemas, for the tests of this crate and those above.
//!
//! Invariants
//!  - *valid-and-normal*: every generated value is valid for its type and has its sets and maps
//!    sorted, so that it equals itself after a round trip through any layer.
//!  - *names-tell*: two user types of one name have the same fields, so that a type can be read
//!    back from its CQL text.

use crate::key::{compose_partition_key, push_clustering};
use crate::schema::{ColumnKind, TableSchema};
use crate::types::{Type, UserType, UserTypeRef};
use crate::value::{Decimal, Duration, encode_decimal, sort_map, sort_set, temporal};
use crate::value::{write_collection, write_map, write_tuple, write_vector};
use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;
use stdx::hash_one;
use uuid::Uuid;

/// The keyspace of generated user types and tables.
pub const KEYSPACE: &str = "ks";

/// A scalar type that a column can have; no counter.
pub fn scalar_type() -> impl Strategy<Value = Type> {
    let usable: Vec<Type> =
        Type::natives().filter(|ty| !matches!(ty, Type::Counter | Type::Empty)).collect();
    prop::sample::select(usable)
}

/// A type whose values are single cells: scalar, or frozen to the innermost.
pub fn value_type() -> impl Strategy<Value = Type> {
    scalar_type().prop_recursive(3, 12, 3, |inner| compound(inner).prop_map(|ty| ty.freeze()))
}

/// A [`value_type`] that can stand in a key.
pub fn key_type() -> impl Strategy<Value = Type> {
    let without_duration = |ty| if ty == Type::Duration { Type::Int } else { ty };
    scalar_type()
        .prop_map(without_duration)
        .prop_recursive(2, 6, 2, |inner| compound(inner).prop_map(|ty| ty.freeze()))
}

/// Any type of a regular column but a counter: multi-cell ones too.
pub fn column_type() -> impl Strategy<Value = Type> {
    prop_oneof![
        2 => value_type(),
        1 => compound(value_type().boxed()),
    ]
}

/// A collection, tuple, user type or vector of these types, multi-cell where that can be.
fn compound(inner: BoxedStrategy<Type>) -> BoxedStrategy<Type> {
    let key = inner.clone().prop_map(|ty| if ty.mentions_duration() { Type::Text } else { ty });
    let boxed = |ty: Type| Box::new(ty);
    let name = prop::sample::select(vec!["a", "b", "Upper", "has space", "quo\"te", "select"]);
    prop_oneof![
        inner.clone().prop_map(move |ty| Type::List { element: boxed(ty), frozen: false }),
        key.clone().prop_map(move |ty| Type::Set { element: boxed(ty), frozen: false }),
        (key, inner.clone()).prop_map(move |(key, value)| {
            Type::Map { key: boxed(key), value: boxed(value), frozen: false }
        }),
        vec(inner.clone(), 1..4).prop_map(Type::Tuple),
        (name, vec(inner.clone(), 1..4)).prop_map(|(name, types)| user_type(name, types)),
        (inner, 1u16..4)
            .prop_map(move |(ty, dimension)| { Type::Vector { element: boxed(ty), dimension } }),
    ]
    .boxed()
}

/// A multi-cell user type; its name tells the fields (see *names-tell*).
fn user_type(field: &str, types: Vec<Type>) -> Type {
    let named = |(index, ty)| (format!("{field}{index}"), ty);
    let fields: Vec<(String, Type)> = types.into_iter().enumerate().map(named).collect();
    let name = format!("{field}_{:x}", hash_one(&fields));
    let keyspace = KEYSPACE.to_owned();
    Type::User(Box::new(UserTypeRef { keyspace, name, fields, frozen: false }))
}

/// The definitions of all user types that a type mentions.
pub fn user_types_in(ty: &Type) -> Vec<UserType> {
    let mut found: Vec<UserType> = ty.children().into_iter().flat_map(user_types_in).collect();
    if let Type::User(user) = ty {
        let UserTypeRef { keyspace, name, fields, .. } = (**user).clone();
        found.push(UserType { keyspace, name, fields });
    }
    found
}

/// A type of [`value_type`] and a value of it.
pub fn typed_value() -> impl Strategy<Value = (Type, Vec<u8>)> {
    value_type().prop_flat_map(|ty| {
        let value = value_of(&ty);
        (Just(ty), value)
    })
}

/// A value of any type; of a multi-cell type, the frozen form. Scalars are not empty, but texts
/// and blobs may be.
pub fn value_of(ty: &Type) -> BoxedStrategy<Vec<u8>> {
    match ty {
        Type::List { element, .. } => vec(value_of(element), 0..4)
            .prop_map(|elements| {
                let mut out = Vec::new();
                write_collection(elements.iter().map(Vec::as_slice), &mut out);
                out
            })
            .boxed(),
        Type::Set { element, .. } => set_of((**element).clone()),
        Type::Map { key, value, .. } => map_of((**key).clone(), value),
        Type::Tuple(elements) => tuple_of(elements),
        Type::User(user) => {
            tuple_of(&user.fields.iter().map(|(_, ty)| ty.clone()).collect::<Vec<_>>())
        }
        Type::Vector { element, dimension } => {
            let element_ty = (**element).clone();
            vec(value_of(element), *dimension as usize)
                .prop_map(move |elements| {
                    let mut out = Vec::new();
                    write_vector(&element_ty, elements.iter().map(Vec::as_slice), &mut out);
                    out
                })
                .boxed()
        }
        scalar => scalar_of(scalar),
    }
}

fn set_of(element: Type) -> BoxedStrategy<Vec<u8>> {
    vec(value_of(&element), 0..4)
        .prop_map(move |values| {
            let mut elements: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            sort_set(&element, &mut elements);
            let mut out = Vec::new();
            write_collection(elements.into_iter(), &mut out);
            out
        })
        .boxed()
}

fn map_of(key: Type, value: &Type) -> BoxedStrategy<Vec<u8>> {
    vec((value_of(&key), value_of(value)), 0..4)
        .prop_map(move |pairs| {
            let mut entries: Vec<(&[u8], &[u8])> =
                pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            sort_map(&key, &mut entries);
            let mut out = Vec::new();
            write_map(entries.into_iter(), &mut out);
            out
        })
        .boxed()
}

/// Fields may be null, the last ones missing.
fn tuple_of(types: &[Type]) -> BoxedStrategy<Vec<u8>> {
    let all: Vec<_> = types.iter().map(|ty| prop::option::weighted(0.8, value_of(ty))).collect();
    (all, 0..=types.len())
        .prop_map(|(values, missing)| {
            let present = values.len() - missing / 2;
            let mut out = Vec::new();
            write_tuple(values[..present].iter().map(Option::as_deref), &mut out);
            out
        })
        .boxed()
}

fn scalar_of(ty: &Type) -> BoxedStrategy<Vec<u8>> {
    let small = || vec(any::<u8>(), 0..12);
    match ty {
        Type::Ascii => "[ -~]{0,8}".prop_map(String::into_bytes).boxed(),
        Type::Text => "\\PC{0,8}".prop_map(String::into_bytes).boxed(),
        Type::Blob | Type::Custom(_) => small().boxed(),
        Type::Boolean => any::<bool>().prop_map(|value| vec![value.into()]).boxed(),
        Type::TinyInt => any::<[u8; 1]>().prop_map(Vec::from).boxed(),
        Type::SmallInt => any::<[u8; 2]>().prop_map(Vec::from).boxed(),
        Type::Int | Type::Date => prop_oneof![
            any::<[u8; 4]>().prop_map(Vec::from),
            (-3i32..3).prop_map(|value| value.to_be_bytes().to_vec()),
        ]
        .boxed(),
        Type::BigInt | Type::Counter | Type::Timestamp => prop_oneof![
            any::<[u8; 8]>().prop_map(Vec::from),
            (-3i64..3).prop_map(|value| value.to_be_bytes().to_vec()),
        ]
        .boxed(),
        Type::Time => {
            (0..temporal::NANOS_PER_DAY).prop_map(|nanos| nanos.to_be_bytes().to_vec()).boxed()
        }
        Type::Float => any::<f32>().prop_map(|value| value.to_be_bytes().to_vec()).boxed(),
        Type::Double => any::<f64>().prop_map(|value| value.to_be_bytes().to_vec()).boxed(),
        Type::Uuid => prop_oneof![versioned_uuid(1), versioned_uuid(4)].boxed(),
        Type::TimeUuid => versioned_uuid(1).boxed(),
        Type::Inet => prop_oneof![
            any::<[u8; 4]>().prop_map(Vec::from),
            any::<[u8; 16]>().prop_map(Vec::from),
        ]
        .boxed(),
        Type::Varint => vec(any::<u8>(), 1..20)
            .prop_map(|bytes| BigInt::from_signed_bytes_be(&bytes).to_signed_bytes_be())
            .boxed(),
        Type::Decimal => (any::<i64>(), -9i32..9)
            .prop_map(|(unscaled, scale)| {
                encode_decimal(&Decimal { unscaled: BigInt::from(unscaled), scale })
            })
            .boxed(),
        Type::Duration => (0i32..99, 0i32..99, 0i64..1 << 40, any::<bool>())
            .prop_map(|(months, days, nanos, negative)| {
                let sign = if negative { -1 } else { 1 };
                let days = days * sign;
                Duration { months: months * sign, days, nanos: nanos * i64::from(sign) }.encode()
            })
            .boxed(),
        _ => Just(Vec::new()).boxed(),
    }
}

fn versioned_uuid(version: u8) -> impl Strategy<Value = Vec<u8>> {
    any::<[u8; 16]>().prop_map(move |mut bytes| {
        bytes[6] = (bytes[6] & 0x0f) | (version << 4);
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        bytes.to_vec()
    })
}

/// A table with 1 to 3 partition key columns, up to 3 clustering columns (some descending), static
/// columns where it has clustering ones, and up to 5 regular columns of any type.
pub fn table_schema() -> impl Strategy<Value = TableSchema> {
    let keys = (vec(key_type(), 1..4), vec((key_type(), any::<bool>()), 0..4));
    let others = (vec(column_type(), 0..3), vec(column_type(), 0..6));
    (keys, others, any::<[u8; 16]>()).prop_map(
        |((partition, clustering), (statics, regulars), id)| {
            let mut table = TableSchema::builder(KEYSPACE, "t", Uuid::from_bytes(id));
            for (index, ty) in partition.into_iter().enumerate() {
                table = table.partition_key(&format!("p{index}"), ty);
            }
            let has_clustering = !clustering.is_empty();
            for (index, (ty, descending)) in clustering.into_iter().enumerate() {
                let name = format!("c{index}");
                table = if descending {
                    table.clustering_descending(&name, ty)
                } else {
                    table.clustering(&name, ty)
                };
            }
            for (index, ty) in statics.into_iter().filter(|_| has_clustering).enumerate() {
                table = table.static_column(&format!("s{index}"), ty);
            }
            for (index, ty) in regulars.into_iter().enumerate() {
                table = table.regular(&format!("r{index}"), ty);
            }
            table.build().expect("a generated table is well-formed")
        },
    )
}

/// A partition key of a table, as bytes.
pub fn partition_key_of(table: &TableSchema) -> BoxedStrategy<Vec<u8>> {
    let single = table.partition_key_count == 1;
    key_components(table, ColumnKind::PartitionKey)
        .prop_filter("an empty key", move |components| !single || !components[0].is_empty())
        .prop_map(|components| {
            let mut out = Vec::new();
            compose_partition_key(components.iter().map(Vec::as_slice), &mut out);
            out
        })
        .boxed()
}

/// A full clustering key of a table, as bytes.
pub fn clustering_key_of(table: &TableSchema) -> BoxedStrategy<Vec<u8>> {
    key_components(table, ColumnKind::Clustering)
        .prop_map(|components| {
            let mut out = Vec::new();
            components.iter().for_each(|component| push_clustering(component, &mut out));
            out
        })
        .boxed()
}

fn key_components(
    table: &TableSchema,
    kind: ColumnKind,
) -> impl Strategy<Value = Vec<Vec<u8>>> + use<> {
    let columns = table.columns.iter().filter(|column| column.kind == kind);
    columns.map(|column| value_of(&column.ty)).collect::<Vec<_>>()
}
