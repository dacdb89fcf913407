//! Keys as bytes whose unsigned lexicographic order is the order of the keys: what the tries are
//! made of. The encodings are those that Cassandra 5 calls byte-comparable.
//!
//! A key is a sequence of components, each behind a separator, and a terminator. A separator is
//! 0x40; where a component is null or empty it stands alone, as one less than that (one more for
//! the empty value of a descending column). The terminator is 0x38 for a key itself, 0x20 for the
//! bound before all that it prefixes, and 0x60 for the bound behind.
//!
//! Invariants
//!  - *ordered*: for valid values, encodings compare as the values do; values that compare equal
//!    have one encoding.
//!  - *prefix-free*: behind an encoded value comes a byte from 0x20 to 0x60, which makes it less
//!    than every encoding that goes on, and no prefix of any.
//!
//! Known exception to *ordered*: inside a collection, tuple or vector, null and the empty value
//! of a type that is not a string have the same encoding, as in all files of others.

use crate::store::Version;
use model::key::{clustering_components, partition_key_component};
use model::value::collection::{Parts, fields, list_elements, map_parts, vector_elements};
use model::{ClusteringOrder, DecoratedKey, TableSchema, Token, Type, value};
use stdx::Put;

const SEPARATOR: u8 = 0x40;
const NULL: u8 = 0x3e;
const EMPTY: u8 = 0x3f;
const EMPTY_DESCENDING: u8 = 0x41;
const TERMINATOR: u8 = 0x38;

const _: () = assert!(BEFORE < TERMINATOR && TERMINATOR < NULL && NULL < EMPTY);
const _: () = assert!(EMPTY < SEPARATOR && SEPARATOR < EMPTY_DESCENDING);
const _: () = assert!(EMPTY_DESCENDING < AFTER && DAMAGED == EMPTY_DESCENDING);

const BEFORE: u8 = 0x20;
const AFTER: u8 = 0x60;
/// In the place of a separator, before bytes that are no part of a collection.
const DAMAGED: u8 = 0x41;

/// Bytes of an encoded token.
pub const TOKEN_BYTES: usize = 9;

/// How partition keys are encoded behind their tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Column by column, each by its type: the order of equal tokens is not that of the files.
    Columns(Vec<Type>),
    /// The serialized key as one string of bytes.
    Whole,
}

impl KeyForm {
    /// That of a version, for a table.
    pub fn of(version: Version, schema: &TableSchema) -> KeyForm {
        match version {
            Version::Ms => {
                let columns = schema.columns.iter();
                let columns = columns.filter(|c| c.kind == model::ColumnKind::PartitionKey);
                let mut columns: Vec<_> = columns.collect();
                columns.sort_by_key(|column| column.position);
                KeyForm::Columns(columns.iter().map(|column| column.ty.clone()).collect())
            }
            _ => KeyForm::Whole,
        }
    }
}

/// A token as all partition keys start with it.
pub fn token_bytes(token: Token) -> [u8; TOKEN_BYTES] {
    let mut out = [SEPARATOR; TOKEN_BYTES];
    out[1..].copy_from_slice(&token.biased().to_be_bytes());
    out
}

/// Appends the encoding of a partition key.
pub fn put_partition_key(key: &DecoratedKey, form: &KeyForm, out: &mut Vec<u8>) {
    put_partition_position(key.token, Some(&key.key), 0, form, out);
}

/// Appends the encoding of a place among the partitions: before (-1), at (0) or after (1) those
/// of a token, or of one key.
pub fn put_partition_position(
    token: Token,
    key: Option<&[u8]>,
    weight: i8,
    form: &KeyForm,
    out: &mut Vec<u8>,
) {
    out.put(&token_bytes(token));
    match (key, form) {
        (None, _) => {}
        (Some(key), KeyForm::Whole) => {
            out.put_u8(SEPARATOR);
            put_escaped(key, out);
        }
        (Some(key), KeyForm::Columns(types)) => {
            for (index, ty) in types.iter().enumerate() {
                let component = partition_key_component(key, types.len(), index);
                put_component(ty, component, Place::Column { descending: false }, out);
            }
        }
    }
    debug_assert!((-1..=1).contains(&weight), "ordered: a weight of {weight}");
    out.put_u8(terminator(weight));
}

/// Appends the encoding of a clustering position: a prefix and its weight.
pub fn put_position(order: &ClusteringOrder, (prefix, weight): (&[u8], i8), out: &mut Vec<u8>) {
    debug_assert!((-1..=1).contains(&weight), "ordered: a weight of {weight}");
    let mut components = clustering_components(prefix);
    for (ty, descending) in &order.columns {
        let component = components.next();
        match component {
            // A shorter key of its own, as compact tables have, names what it lacks.
            None if weight == 0 => out.put_u8(NULL),
            None => break,
            Some(_) => put_component(ty, component, Place::Column { descending: *descending }, out),
        }
    }
    out.put_u8(terminator(weight));
}

fn terminator(weight: i8) -> u8 {
    match weight {
        ..0 => BEFORE,
        0 => TERMINATOR,
        1.. => AFTER,
    }
}

/// Where a component stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a key.
    Column { descending: bool },
    /// In a collection, tuple or vector.
    Part,
}

fn put_component(ty: &Type, value: Option<&[u8]>, place: Place, out: &mut Vec<u8>) {
    let Some(value) = value else {
        return out.put_u8(NULL);
    };
    if value.is_empty() && !is_string(ty) {
        return out.put_u8(match place {
            Place::Column { descending: true } => EMPTY_DESCENDING,
            Place::Column { descending: false } => EMPTY,
            Place::Part => NULL,
        });
    }
    out.put_u8(SEPARATOR);
    let start = out.len();
    put_value(ty, value, out);
    if place == (Place::Column { descending: true }) {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Whether values compare as strings of bytes, among which the empty one is like any other.
fn is_string(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Ascii | Type::Text | Type::Blob | Type::Inet | Type::Duration | Type::Custom(_)
    )
}

/// Appends the encoding of a value that is not empty, but for those of strings.
fn put_value(ty: &Type, value: &[u8], out: &mut Vec<u8>) {
    match ty {
        Type::TinyInt => put_fixed(value, out, flip_sign::<1>),
        Type::SmallInt => put_fixed(value, out, flip_sign::<2>),
        Type::Int => put_fixed(value, out, flip_sign::<4>),
        Type::Timestamp => put_fixed(value, out, flip_sign::<8>),
        Type::Date => put_fixed::<4>(value, out, |bytes| bytes),
        Type::Time => put_fixed::<8>(value, out, |bytes| bytes),
        Type::Boolean => put_fixed(value, out, |[byte]| [u8::from(byte != 0)]),
        Type::Float => put_fixed(value, out, float_order),
        Type::Double => put_fixed(value, out, double_order),
        Type::Uuid => put_fixed(value, out, uuid_order),
        Type::TimeUuid => put_fixed(value, out, timeuuid_order),
        Type::BigInt | Type::Counter => match value::decode_i64(value) {
            Some(value) => put_integer(value, out),
            None => put_invalid(8, value, out),
        },
        Type::Varint => put_varint(value, out),
        Type::Decimal => match value::Decimal::decode(value) {
            Some(decimal) => put_decimal(&decimal, out),
            None => put_invalid(0, value, out),
        },
        Type::List { element, .. } | Type::Set { element, .. } => {
            put_parts(list_elements(value), |_| Some(&**element), out);
        }
        Type::Map { key, value: entry, .. } => {
            put_parts(map_parts(value), |i| Some(if i % 2 == 0 { &**key } else { &**entry }), out);
        }
        Type::Vector { element, dimension } => {
            put_parts(vector_elements(element, *dimension, value), |_| Some(&**element), out);
        }
        Type::Tuple(_) | Type::User(_) => put_parts(fields(value), |i| ty.field_type(i), out),
        Type::Ascii | Type::Text | Type::Blob | Type::Inet => put_escaped(value, out),
        Type::Duration | Type::Empty | Type::Custom(_) => put_escaped(value, out),
    }
}

/// Zero bytes end a string; those inside are marked by what follows them.
fn put_escaped(value: &[u8], out: &mut Vec<u8>) {
    out.reserve(value.len() + 2);
    let mut rest = value;
    while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
        let zeros = rest[zero..].iter().take_while(|byte| **byte == 0).count();
        out.put(&rest[..=zero]);
        out.resize(out.len() + zeros - 1, 0xfe);
        rest = &rest[zero + zeros..];
        out.put_u8(if rest.is_empty() { 0xfe } else { 0xff });
        if rest.is_empty() {
            return;
        }
    }
    out.put(rest);
    out.put_u8(0);
}

/// What is no value of its type comes after all that are: their encodings do not start with `ff`
/// so many times and once more.
fn put_invalid(length: usize, value: &[u8], out: &mut Vec<u8>) {
    out.resize(out.len() + length + 1, 0xff);
    put_escaped(value, out);
}

fn put_fixed<const N: usize>(
    value: &[u8],
    out: &mut Vec<u8>,
    order: impl FnOnce([u8; N]) -> [u8; N],
) {
    match <[u8; N]>::try_from(value) {
        Ok(bytes) => out.put(&order(bytes)),
        Err(_) => put_invalid(N, value, out),
    }
}

fn flip_sign<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes[0] ^= 0x80;
    bytes
}

/// Negative numbers with all bits flipped, others with that of the sign; one NaN after all.
fn float_order(bytes: [u8; 4]) -> [u8; 4] {
    let value = f32::from_be_bytes(bytes);
    let bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
    (bits ^ ((bits as i32 >> 31) as u32 | 1 << 31)).to_be_bytes()
}

fn double_order(bytes: [u8; 8]) -> [u8; 8] {
    let value = f64::from_be_bytes(bytes);
    let bits = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
    (bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)).to_be_bytes()
}

/// The version first; the time of version 1 in the order of significance.
fn uuid_order(bytes: [u8; 16]) -> [u8; 16] {
    let (high, low) = halves(bytes);
    let version = (high >> 12) & 0xf;
    let high = match version {
        1 => time_first(high),
        _ => version << 60 | (high >> 16) << 12 | high & 0x0fff,
    };
    ((high as u128) << 64 | low as u128).to_be_bytes()
}

/// The time in the order of significance; the rest as signed bytes.
fn timeuuid_order(bytes: [u8; 16]) -> [u8; 16] {
    let (high, low) = halves(bytes);
    let low = low ^ 0x8080_8080_8080_8080;
    ((time_first(high) as u128) << 64 | low as u128).to_be_bytes()
}

fn halves(bytes: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(bytes);
    ((whole >> 64) as u64, whole as u64)
}

fn time_first(high: u64) -> u64 {
    high << 48 | (high << 16) & 0xffff_0000_0000 | high >> 32
}

/// A signed integer in 1 to 9 bytes. Of a positive one: as many ones as there are bytes, a zero
/// and the number (nine bytes have no room for the zero). A negative one is the complement of the
/// complement's.
fn put_integer(value: i64, out: &mut Vec<u8>) {
    let (mask, number) = if value < 0 { (0xff, !value as u64) } else { (0, value as u64) };
    let bits = 64 - number.leading_zeros() as usize;
    // Of `n` bytes up to eight, `n` bits are ones and one is the zero.
    let bytes = (1..=8).find(|bytes| bits < 7 * bytes).unwrap_or(9);
    let ones = match bytes {
        9 => 0xff << 64 | 1 << 63,
        _ => (0xffu128 << (8 - bytes) & 0xff) << (8 * (bytes - 1)),
    };
    debug_assert!(ones & number as u128 == 0, "ordered: {value} in {bytes} bytes");
    let whole = (ones | number as u128).to_be_bytes();
    out.extend(whole[16 - bytes..].iter().map(|byte| byte ^ mask));
}

/// Up to six bytes as an integer; a longer number behind its sign and its length.
fn put_varint(value: &[u8], out: &mut Vec<u8>) {
    let negative = value.first().is_some_and(|first| 0x80 <= *first);
    let sign = if negative { 0xff } else { 0 };
    let start = value.iter().position(|byte| *byte != sign).unwrap_or(value.len());
    let digits = &value[start..];
    if digits.len() <= 6 {
        let mut bytes = [sign; 8];
        bytes[8 - digits.len()..].copy_from_slice(digits);
        return put_integer(i64::from_be_bytes(bytes), out);
    }
    out.put_u8(!sign);
    let at = out.len();
    out.put_vint(digits.len() as u64 - 7);
    out[at..].iter_mut().for_each(|byte| *byte ^= sign);
    out.put(digits);
}

/// Sign, exponent to the base of 100, and digits to that base.
fn put_decimal(decimal: &value::Decimal, out: &mut Vec<u8>) {
    let text = decimal.unscaled.to_string();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits.as_bytes()),
        None => (false, text.as_bytes()),
    };
    if digits == b"0" {
        return out.put_u8(0x80);
    }
    let tens = digits.len() as i64 - i64::from(decimal.scale);
    let exponent = tens.div_euclid(2) + tens.rem_euclid(2);
    let signed = if negative { -exponent } else { exponent };
    let length = (64 - signed.unsigned_abs().leading_zeros() as usize).div_ceil(8);
    let sign = if negative { 0 } else { 0x80 };
    out.put_u8(match signed < 0 {
        true => sign + 0x40 - length as u8,
        false => sign + 0x40 + length as u8,
    });
    out.put(&signed.to_be_bytes()[8 - length..]);
    // A digit before the first where the number of decimal digits is odd.
    let odd = tens.rem_euclid(2) as usize;
    let digit = |at: usize| match at.checked_sub(odd).and_then(|at| digits.get(at)) {
        Some(digit) => digit - b'0',
        None => 0,
    };
    let pairs = (digits.len() + odd).div_ceil(2);
    let pair = |at: usize| digit(2 * at) * 10 + digit(2 * at + 1);
    let last = (0..pairs).rev().find(|at| pair(*at) != 0).unwrap_or(0);
    for at in 0..=last {
        // A negative number is rounded down, and what follows makes up for it.
        out.put_u8(match (negative, at == 0, at == last) {
            (false, _, _) => 0x80 + pair(at),
            (true, true, true) => 0x80 - pair(at),
            (true, true, false) => 0x80 - pair(at) - 1,
            (true, false, true) => 0x80 + 100 - pair(at),
            (true, false, false) => 0x80 + 99 - pair(at),
        });
    }
    out.put_u8(0);
}

/// The parts of a value behind separators; nulls at the end of a tuple are left out, as those
/// that are not there.
fn put_parts<'t>(
    mut parts: Parts<'_>,
    type_of: impl Fn(usize) -> Option<&'t Type>,
    out: &mut Vec<u8>,
) {
    let mut end = out.len();
    for index in 0.. {
        let Some(part) = parts.next() else { break };
        match (part, type_of(index)) {
            (Ok(None), Some(_)) => {
                out.put_u8(NULL);
                continue;
            }
            (Ok(part), Some(ty)) => put_component(ty, part, Place::Part, out),
            _ => {
                out.put_u8(DAMAGED);
                put_escaped(parts.rest(), out);
                end = out.len();
                break;
            }
        }
        end = out.len();
    }
    out.truncate(end);
    out.put_u8(TERMINATOR);
}

#[cfg(test)]
mod tests;
