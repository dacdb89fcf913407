//! `abs`, `exp`, `log`, `log10` and `round`: each gives a number of its argument's own type.
//!
//! What has no exact result is computed in double precision, of decimals and varints too.

use crate::error::Error;
use crate::number::Number;
use model::Type;
use num_bigint::{BigInt, Sign};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathFunction {
    /// Without its sign.
    Absolute,
    /// e to that power.
    Exponential,
    /// The natural logarithm.
    Logarithm,
    /// The decimal logarithm.
    Logarithm10,
    /// The nearest integer; a half is rounded up.
    Round,
}

impl MathFunction {
    /// The function of that name.
    pub(crate) fn from_name(name: &str) -> Option<MathFunction> {
        Some(match name {
            "abs" => MathFunction::Absolute,
            "exp" => MathFunction::Exponential,
            "log" => MathFunction::Logarithm,
            "log10" => MathFunction::Logarithm10,
            "round" => MathFunction::Round,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            MathFunction::Absolute => "abs",
            MathFunction::Exponential => "exp",
            MathFunction::Logarithm => "log",
            MathFunction::Logarithm10 => "log10",
            MathFunction::Round => "round",
        }
    }

    /// Of the bytes of a number of that type; null of the empty value.
    pub(crate) fn call(self, ty: &Type, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(number) = Number::decode(ty, bytes) else { return Ok(None) };
        let result = match self {
            MathFunction::Absolute => absolute(number),
            MathFunction::Round => round(number),
            MathFunction::Exponential => Number::Double(number.to_f64().exp()),
            MathFunction::Logarithm => Number::Double(number.to_f64().ln()),
            MathFunction::Logarithm10 => Number::Double(number.to_f64().log10()),
        };
        let failure = |reason| Error::of_native(self.name(), vec![ty.to_cql()], reason);
        match ty {
            Type::Decimal | Type::Varint => {
                let exact = result.widened(&Type::Decimal).map_err(failure)?;
                exact.encode(ty).map(Some)
            }
            _ => result.encode(ty).map(Some),
        }
    }
}

fn absolute(number: Number) -> Number {
    match number {
        Number::Integer(value) => {
            Number::Integer(if value.sign() == Sign::Minus { -value } else { value })
        }
        Number::Single(value) => Number::Single(value.abs()),
        Number::Double(value) => Number::Double(value.abs()),
        Number::Decimal(mut value) => {
            value.unscaled = BigInt::from(value.unscaled.magnitude().clone());
            Number::Decimal(value)
        }
    }
}

fn round(number: Number) -> Number {
    match number {
        Number::Single(value) => Number::Single((value + 0.5).floor()),
        Number::Double(value) => Number::Double((value + 0.5).floor()),
        Number::Decimal(value) if 0 < value.scale => Number::Decimal(value.round_to_scale(0)),
        whole => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::value;

    #[test]
    fn functions_of_numbers() {
        let check = |function: &str, ty: Type, argument: &str, expected: &str| {
            let bytes = value::parse_scalar(&ty, argument).unwrap();
            let found = MathFunction::from_name(function).unwrap().call(&ty, &bytes).unwrap();
            let found = found.map_or("null".into(), |b| value::print_scalar(&ty, &b));
            assert_eq!(found, expected, "{function}({argument}) of {ty:?}");
        };
        check("abs", Type::Int, "-5", "5");
        check("abs", Type::TinyInt, "-128", "-128");
        check("abs", Type::Decimal, "-1.50", "1.50");
        check("abs", Type::Float, "-1.5", "1.5");
        check("abs", Type::Int, "", "null");
        check("exp", Type::Int, "2", "7");
        check("exp", Type::Double, "0", "1.0");
        check("exp", Type::Varint, "1", "2");
        check("log", Type::Double, "1", "0.0");
        check("log", Type::BigInt, "100", "4");
        check("log10", Type::SmallInt, "1000", "3");
        check("log10", Type::Decimal, "100", "2.0");
        check("round", Type::Double, "2.5", "3.0");
        check("round", Type::Double, "-2.5", "-2.0");
        check("round", Type::Decimal, "2.5", "3");
        check("round", Type::Decimal, "-2.51", "-3");
        check("round", Type::Int, "7", "7");
        let failed = MathFunction::Logarithm.call(&Type::Varint, &[0xff]);
        assert!(matches!(failed, Err(Error::Failed(_))));
    }
}
