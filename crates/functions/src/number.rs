//! A number of any type, while it is computed with.

use crate::error::Error;
use model::Type;
use model::value::{self, Decimal};
use num_bigint::BigInt;

/// A number of any type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(BigInt),
    Single(f32),
    Double(f64),
    Decimal(Decimal),
}

impl Number {
    /// Nothing, of any type.
    pub(crate) fn zero() -> Number {
        Number::Integer(BigInt::from(0))
    }

    /// The number of these bytes; `None` of the empty value and of what is no number.
    pub(crate) fn decode(ty: &Type, bytes: &[u8]) -> Option<Number> {
        Some(match ty {
            Type::TinyInt => Number::Integer(value::decode_i8(bytes)?.into()),
            Type::SmallInt => Number::Integer(value::decode_i16(bytes)?.into()),
            Type::Int => Number::Integer(value::decode_i32(bytes)?.into()),
            Type::BigInt | Type::Counter => Number::Integer(value::decode_i64(bytes)?.into()),
            Type::Varint => Number::Integer(value::decode_varint(bytes)?),
            Type::Float => Number::Single(value::decode_f32(bytes)?),
            Type::Double => Number::Double(value::decode_f64(bytes)?),
            Type::Decimal => Number::Decimal(value::decode_decimal(bytes)?),
            _ => return None,
        })
    }

    /// The number as the conversion of `CAST` makes it: integers keep their low bits, floats
    /// saturate.
    pub(crate) fn encode(&self, to: &Type) -> Result<Vec<u8>, Error> {
        let too_big = || Error::invalid("number out of the range of the type it is cast to");
        Ok(match to {
            Type::Float => self.to_f32().to_be_bytes().to_vec(),
            Type::Double => self.to_f64().to_be_bytes().to_vec(),
            Type::Decimal => self.to_decimal().ok_or_else(too_big)?.encode(),
            Type::Varint => value::encode_varint(&self.to_integer().ok_or_else(too_big)?),
            // Fixed sizes: the low bits of integers; floats saturate.
            to => {
                let float = match self {
                    Number::Single(value) => Some(f64::from(*value)),
                    Number::Double(value) => Some(*value),
                    _ => None,
                };
                let low = match float {
                    Some(value) if matches!(to, Type::BigInt | Type::Counter) => value as i64,
                    Some(value) => i64::from(value as i32),
                    None => low_bits(&self.to_integer().ok_or_else(too_big)?),
                };
                match to {
                    Type::TinyInt => (low as i8).to_be_bytes().to_vec(),
                    Type::SmallInt => (low as i16).to_be_bytes().to_vec(),
                    Type::Int => (low as i32).to_be_bytes().to_vec(),
                    _ => low.to_be_bytes().to_vec(),
                }
            }
        })
    }

    /// The number as an operand that is computed with in `to`, a wider type of numbers or the
    /// same one. Floats that are no numbers have no decimal.
    pub(crate) fn widened(self, to: &Type) -> Result<Number, String> {
        Ok(match to {
            Type::Float => Number::Single(self.to_f32()),
            Type::Double => Number::Double(self.to_f64()),
            Type::Decimal => match (self.to_decimal(), self.to_f64().is_nan()) {
                (Some(value), _) => Number::Decimal(value),
                (None, true) => return Err("A NaN cannot be converted into a decimal".into()),
                (None, false) => {
                    return Err("An infinite number cannot be converted into a decimal".into());
                }
            },
            _ => self,
        })
    }

    pub(crate) fn to_f32(&self) -> f32 {
        match self {
            Number::Single(value) => *value,
            Number::Double(value) => *value as f32,
            Number::Integer(value) => Decimal::from_integer(value.clone()).to_f32(),
            Number::Decimal(value) => value.to_f32(),
        }
    }

    pub(crate) fn to_f64(&self) -> f64 {
        match self {
            Number::Integer(value) => match i64::try_from(value) {
                Ok(small) => small as f64,
                Err(_) => Decimal::from_integer(value.clone()).to_f64(),
            },
            Number::Single(value) => f64::from(*value),
            Number::Double(value) => *value,
            Number::Decimal(value) => value.to_f64(),
        }
    }

    /// `None` of floats that are no numbers. A float becomes the shortest decimal that is it.
    pub(crate) fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Number::Integer(value) => Some(Decimal::from_integer(value.clone())),
            Number::Single(value) => Decimal::from_f32(*value),
            Number::Double(value) => Decimal::from_f64(*value),
            Number::Decimal(value) => Some(value.clone()),
        }
    }

    /// The integer part; `None` of floats that are no numbers, and of too many digits.
    pub(crate) fn to_integer(&self) -> Option<BigInt> {
        match self {
            Number::Integer(value) => Some(value.clone()),
            other => other.to_decimal()?.to_integer(),
        }
    }
}

fn low_bits(value: &BigInt) -> i64 {
    let bytes = value.to_signed_bytes_be();
    let fill = if value.sign() == num_bigint::Sign::Minus { 0xff } else { 0 };
    let mut low = [fill; 8];
    let count = bytes.len().min(8);
    low[8 - count..].copy_from_slice(&bytes[bytes.len() - count..]);
    i64::from_be_bytes(low)
}
