//! `c = c + n` and `c = c - n` of non-counter columns, in conditional writes.

use crate::error::Error;
use model::Type;
use model::value::{self, Decimal};

/// Whether columns of a type can be added to.
pub(super) fn is_number(ty: &Type) -> bool {
    matches!(
        ty,
        Type::TinyInt
            | Type::SmallInt
            | Type::Int
            | Type::BigInt
            | Type::Varint
            | Type::Float
            | Type::Double
            | Type::Decimal
    )
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Plus,
    Minus,
}

/// `present` with `more` added or taken away; both are valid values of `ty`, which is a number's.
/// `None` where one of them is the empty value.
pub fn sum(ty: &Type, present: &[u8], sign: Sign, more: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let overflow = || {
        let operator = if sign == Sign::Plus { "addition" } else { "subtraction" };
        Error::Invalid(format!("integer overflow in {operator} of type {}", ty.to_cql()))
    };
    if present.is_empty() || more.is_empty() {
        return Ok(None);
    }
    let float = |present: f64, more: f64| match sign {
        Sign::Plus => present + more,
        Sign::Minus => present - more,
    };
    let damaged = || Error::Server(format!("not a value of type {}", ty.to_cql()));
    let bytes = match ty {
        Type::Float => {
            let (a, b) =
                value::decode_f32(present).zip(value::decode_f32(more)).ok_or_else(damaged)?;
            let result = match sign {
                Sign::Plus => a + b,
                Sign::Minus => a - b,
            };
            result.to_be_bytes().to_vec()
        }
        Type::Double => {
            let (a, b) =
                value::decode_f64(present).zip(value::decode_f64(more)).ok_or_else(damaged)?;
            float(a, b).to_be_bytes().to_vec()
        }
        Type::Varint => {
            let (a, b) = value::decode_varint(present)
                .zip(value::decode_varint(more))
                .ok_or_else(damaged)?;
            value::encode_varint(&if sign == Sign::Plus { a + b } else { a - b })
        }
        Type::Decimal => {
            let (a, mut b) =
                Decimal::decode(present).zip(Decimal::decode(more)).ok_or_else(damaged)?;
            if sign == Sign::Minus {
                b.unscaled = -b.unscaled;
            }
            let too_far =
                || Error::invalid("the magnitudes of two decimals are too far apart to be added");
            a.add(&b).ok_or_else(too_far)?.encode()
        }
        _ => {
            let (a, b) = integer(present).zip(integer(more)).ok_or_else(damaged)?;
            let result = if sign == Sign::Plus { a + b } else { a - b };
            let bits = present.len() as u32 * 8;
            let limit = 1i128 << (bits - 1);
            if result < -limit || limit <= result {
                return Err(overflow());
            }
            result.to_be_bytes()[16 - present.len()..].to_vec()
        }
    };
    Ok(Some(bytes))
}

/// A big-endian integer of one to eight bytes.
fn integer(bytes: &[u8]) -> Option<i128> {
    Some(match bytes.len() {
        1 => value::decode_i8(bytes)?.into(),
        2 => value::decode_i16(bytes)?.into(),
        4 => value::decode_i32(bytes)?.into(),
        8 => value::decode_i64(bytes)?.into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_or_refused() {
        let check = |ty: Type, a: &[u8], sign: Sign, b: &[u8], expected: Option<&[u8]>| {
            let found = sum(&ty, a, sign, b).ok().flatten();
            assert_eq!(found.as_deref(), expected, "{ty:?} {a:?} {sign:?} {b:?}");
        };
        use Sign::{Minus, Plus};
        check(Type::TinyInt, &[127], Plus, &[1], None);
        check(Type::TinyInt, &[0x80], Minus, &[1], None);
        // -1 less the least number is the greatest.
        check(Type::TinyInt, &[0xff], Minus, &[0x80], Some(&[0x7f]));
        let (max, min) = (i64::MAX.to_be_bytes(), i64::MIN.to_be_bytes());
        check(Type::BigInt, &max, Plus, &1i64.to_be_bytes(), None);
        check(Type::BigInt, &(-1i64).to_be_bytes(), Minus, &min, Some(&max));
        check(
            Type::Int,
            &5i32.to_be_bytes(),
            Minus,
            &7i32.to_be_bytes(),
            Some(&(-2i32).to_be_bytes()),
        );
        check(Type::Varint, &[0x7f], Plus, &[1], Some(&[0, 0x80]));
        let (half, two) = (0.5f64.to_be_bytes(), 2f64.to_be_bytes());
        check(Type::Double, &two, Minus, &half, Some(&1.5f64.to_be_bytes()));
        let number = |text: &str| Decimal::parse(text).unwrap().encode();
        check(Type::Decimal, &number("1.50"), Minus, &number("0.5"), Some(&number("1.00")));
        check(Type::Decimal, &number("1e1000000000"), Plus, &number("1"), None);
        check(Type::Int, &[], Plus, &1i32.to_be_bytes(), None);
    }
}
