//! `CAST(x AS type)`: conversions between numbers, times and text.

use super::scalar::{date_of_millis, millis};
use crate::error::CqlError;
use model::Type;
use model::value::{self, Decimal};
use num_bigint::BigInt;

/// A conversion that is known to exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cast {
    from: Type,
    to: Type,
}

impl Cast {
    /// The conversion, if there is one.
    pub(crate) fn between(from: &Type, to: &Type) -> Option<Cast> {
        use Type::*;
        let is_number = |ty: &Type| {
            matches!(
                ty,
                TinyInt | SmallInt | Int | BigInt | Float | Double | Decimal | Varint | Counter
            )
        };
        let exists = match (from, to) {
            _ if from == to => true,
            (_, Counter) => false,
            (from, to) if is_number(from) && is_number(to) => true,
            (Ascii, Text) | (Text, Ascii) => true,
            (Inet | Boolean | Date | Time | Timestamp | Uuid | TimeUuid, Text | Ascii) => true,
            (from, Text | Ascii) => is_number(from),
            (TimeUuid, Date | Timestamp) | (Timestamp, Date) | (Date, Timestamp) => true,
            _ => false,
        };
        exists.then(|| Cast { from: from.clone(), to: to.clone() })
    }

    /// Converts a value.
    pub(crate) fn convert(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, CqlError> {
        let same_bytes = |ty: &Type| matches!(ty, Type::Ascii | Type::Text);
        if self.from == self.to || (same_bytes(&self.from) && same_bytes(&self.to)) {
            return Ok(Some(bytes.to_vec()));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        match &self.to {
            Type::Ascii | Type::Text => Ok(Some(text(&self.from, bytes))),
            Type::Date => Ok(millis(&self.from, bytes).map(date_of_millis)),
            Type::Timestamp => {
                Ok(millis(&self.from, bytes).map(|millis| millis.to_be_bytes().to_vec()))
            }
            to => match Number::decode(&self.from, bytes) {
                Some(number) => number.encode(to).map(Some),
                None => Ok(None),
            },
        }
    }
}

fn text(from: &Type, bytes: &[u8]) -> Vec<u8> {
    let from = if *from == Type::Counter { &Type::BigInt } else { from };
    let literal = value::to_literal(from, bytes);
    let unquoted = literal.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    unquoted.map_or(literal.clone(), str::to_owned).into_bytes()
}

/// A number of any type.
enum Number {
    Integer(BigInt),
    Float(f64),
    Decimal(Decimal),
}

impl Number {
    fn decode(ty: &Type, bytes: &[u8]) -> Option<Number> {
        Some(match ty {
            Type::TinyInt => Number::Integer(value::decode_i8(bytes)?.into()),
            Type::SmallInt => Number::Integer(value::decode_i16(bytes)?.into()),
            Type::Int => Number::Integer(value::decode_i32(bytes)?.into()),
            Type::BigInt | Type::Counter => Number::Integer(value::decode_i64(bytes)?.into()),
            Type::Varint => Number::Integer(value::decode_varint(bytes)?),
            Type::Float => {
                let value = value::decode_f32(bytes)?;
                // By way of the text, so that 0.1f becomes the decimal 0.1.
                Number::Float(value as f64)
            }
            Type::Double => Number::Float(value::decode_f64(bytes)?),
            Type::Decimal => Number::Decimal(value::decode_decimal(bytes)?),
            _ => return None,
        })
    }

    fn encode(self, to: &Type) -> Result<Vec<u8>, CqlError> {
        let too_big = || CqlError::invalid("number out of the range of the type it is cast to");
        Ok(match to {
            Type::Float => (self.to_f64() as f32).to_be_bytes().to_vec(),
            Type::Double => self.to_f64().to_be_bytes().to_vec(),
            Type::Decimal => match self {
                Number::Integer(value) => Decimal::from_integer(value).encode(),
                Number::Float(value) => Decimal::from_f64(value).ok_or_else(too_big)?.encode(),
                Number::Decimal(value) => value.encode(),
            },
            Type::Varint => value::encode_varint(&self.to_integer().ok_or_else(too_big)?),
            // Fixed sizes: the low bits of integers; floats saturate.
            to => {
                let low = match &self {
                    Number::Float(value) => *value as i64,
                    _ => low_bits(&self.to_integer().ok_or_else(too_big)?),
                };
                match to {
                    Type::TinyInt => (low as i8).to_be_bytes().to_vec(),
                    Type::SmallInt => (low as i16).to_be_bytes().to_vec(),
                    Type::Int if matches!(self, Number::Float(_)) => {
                        (low.clamp(i32::MIN as i64, i32::MAX as i64) as i32).to_be_bytes().to_vec()
                    }
                    Type::Int => (low as i32).to_be_bytes().to_vec(),
                    _ => low.to_be_bytes().to_vec(),
                }
            }
        })
    }

    fn to_f64(&self) -> f64 {
        match self {
            Number::Integer(value) => Decimal::from_integer(value.clone()).to_f64(),
            Number::Float(value) => *value,
            Number::Decimal(value) => value.to_f64(),
        }
    }

    fn to_integer(&self) -> Option<BigInt> {
        match self {
            Number::Integer(value) => Some(value.clone()),
            Number::Float(value) => Decimal::from_f64(*value)?.to_integer(),
            Number::Decimal(value) => value.to_integer(),
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
