//! `CAST(x AS type)`: conversions between numbers, times and text.

use crate::error::Error;
use crate::number::Number;
use crate::time::{date_of_millis, millis};
use model::Type;
use model::value;

/// A conversion that is known to exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    from: Type,
    to: Type,
}

impl Cast {
    /// The conversion, if there is one.
    pub fn between(from: &Type, to: &Type) -> Option<Cast> {
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
    pub(crate) fn convert(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
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
