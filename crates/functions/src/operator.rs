//! Arithmetic: `+ - * / %` of numbers, texts, and dates with durations; and the minus sign.
//!
//! Two numbers are computed with in the wider of their types: of two integers the one of more
//! bytes, `varint` being the widest; with a float among them in `float`, `double` or `decimal`, by
//! the greater size. Fixed-size integers wrap around.

use crate::error::{Error, Failure};
use crate::number::Number;
use model::Type;
use model::value::{self, Decimal, Duration, temporal};
use num_bigint::BigInt;
use syntax::ast::ArithmeticOperator;

/// An operator, of one operand or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The minus sign.
    Negate,
    /// Between two operands.
    Binary(ArithmeticOperator),
}

/// An operator with the types of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The operator.
    pub operator: Operator,
    /// Of the left one, or the only one.
    pub left: Type,
    /// For the minus sign that of its only operand.
    pub right: Type,
    /// Of the value.
    pub returns: Type,
}

/// The types that an operand may have.
const OPERANDS: [Type; 13] = [
    Type::TinyInt,
    Type::SmallInt,
    Type::Int,
    Type::BigInt,
    Type::Float,
    Type::Double,
    Type::Decimal,
    Type::Varint,
    Type::Text,
    Type::Ascii,
    Type::Timestamp,
    Type::Date,
    Type::Duration,
];

impl Operator {
    /// The types that operands may have, those of [`Operator::operations`].
    pub fn operands() -> &'static [Type] {
        &OPERANDS
    }

    /// Its sign.
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Negate => "-",
            Operator::Binary(operator) => operator.symbol(),
        }
    }

    /// The value's type where the operands have these types, by their places in
    /// [`Operator::operands`]; of the minus sign both are the same.
    pub fn returns(self, left: usize, right: usize) -> Option<Type> {
        use ArithmeticOperator::{Add, Subtract};
        let (left, right) = (&OPERANDS[left], &OPERANDS[right]);
        let Operator::Binary(operator) = self else {
            return (left == right && size(left).is_some()).then(|| left.clone());
        };
        match (operator, left, right) {
            (Add, Type::Ascii, Type::Ascii) => Some(Type::Ascii),
            (Add, Type::Ascii | Type::Text, Type::Ascii | Type::Text) => Some(Type::Text),
            (Add | Subtract, Type::Timestamp | Type::Date, Type::Duration) => Some(left.clone()),
            _ => wider(left, right),
        }
    }
}

/// The size of a type of numbers: bytes, or the greatest of all.
fn size(ty: &Type) -> Option<u32> {
    Some(match ty {
        Type::TinyInt => 1,
        Type::SmallInt => 2,
        Type::Int | Type::Float => 4,
        Type::BigInt | Type::Double => 8,
        Type::Varint | Type::Decimal => u32::MAX,
        _ => return None,
    })
}

fn wider(left: &Type, right: &Type) -> Option<Type> {
    let size = size(left)?.max(size(right)?);
    let is_float = |ty: &Type| matches!(ty, Type::Float | Type::Double | Type::Decimal);
    Some(match (is_float(left) || is_float(right), size) {
        (true, ..=4) => Type::Float,
        (true, 8) => Type::Double,
        (true, _) => Type::Decimal,
        (false, 1) => Type::TinyInt,
        (false, 2) => Type::SmallInt,
        (false, 4) => Type::Int,
        (false, 8) => Type::BigInt,
        (false, _) => Type::Varint,
    })
}

impl Operation {
    /// The value of two operands (the minus sign: of one); null of an empty value.
    pub(crate) fn call(&self, left: &[u8], right: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.compute(left, right).map_err(|reason| {
            let arguments = match self.operator {
                Operator::Negate => vec![self.left.to_cql()],
                Operator::Binary(_) => vec![self.left.to_cql(), self.right.to_cql()],
            };
            let function = self.operator.symbol().to_owned();
            Error::Failed(Failure { keyspace: String::new(), function, arguments, reason })
        })
    }

    fn compute(&self, left: &[u8], right: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let operator = match self.operator {
            Operator::Negate => return self.negated(left),
            Operator::Binary(operator) => operator,
        };
        match &self.left {
            Type::Text | Type::Ascii => return Ok(Some([left, right].concat())),
            Type::Timestamp | Type::Date => return self.moved(operator, left, right),
            _ => {}
        }
        if let (Some(left), Some(right)) = (fixed(&self.left, left), fixed(&self.right, right))
            && size(&self.returns).is_some_and(|size| size <= 8)
            && !matches!(self.returns, Type::Float | Type::Double)
        {
            let result = integers(operator, left, right)?;
            return Ok(Some(low(&self.returns, result)));
        }
        let operands = (Number::decode(&self.left, left), Number::decode(&self.right, right));
        let (Some(left), Some(right)) = operands else { return Ok(None) };
        let (left, right) = (left.widened(&self.returns)?, right.widened(&self.returns)?);
        let result = match (left, right) {
            (Number::Single(left), Number::Single(right)) => {
                Number::Single(singles(operator, left, right))
            }
            (Number::Double(left), Number::Double(right)) => {
                Number::Double(doubles(operator, left, right))
            }
            (Number::Integer(left), Number::Integer(right)) => {
                Number::Integer(varints(operator, left, right)?)
            }
            (Number::Decimal(left), Number::Decimal(right)) => {
                Number::Decimal(decimals(operator, &left, &right)?)
            }
            _ => return Ok(None),
        };
        result.encode(&self.returns).map(Some).map_err(|error| error.to_string())
    }

    fn negated(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        if let Some(value) = fixed(&self.left, bytes) {
            return Ok(Some(low(&self.returns, value.wrapping_neg())));
        }
        let Some(number) = Number::decode(&self.left, bytes) else { return Ok(None) };
        let result = match number {
            Number::Integer(value) => Number::Integer(-value),
            Number::Single(value) => Number::Single(-value),
            Number::Double(value) => Number::Double(-value),
            Number::Decimal(value) => {
                Number::Decimal(Decimal { unscaled: -value.unscaled, scale: value.scale })
            }
        };
        result.encode(&self.returns).map(Some).map_err(|error| error.to_string())
    }

    /// A date or timestamp after or before a duration.
    fn moved(
        &self,
        operator: ArithmeticOperator,
        left: &[u8],
        right: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        let Ok(duration) = Duration::decode(right) else { return Ok(None) };
        let backwards = operator == ArithmeticOperator::Subtract;
        let beyond = || "The result is out of range".to_owned();
        if self.left == Type::Date {
            let Some(date) = value::decode_date(left) else { return Ok(None) };
            if duration.nanos != 0 {
                return Err(format!("The duration must have a day precision. Was: {duration}"));
            }
            let date = temporal::add_to_date(date, duration, backwards).ok_or_else(beyond)?;
            return Ok(Some(date.to_be_bytes().to_vec()));
        }
        let Some(millis) = value::decode_i64(left) else { return Ok(None) };
        if duration.nanos % 1_000_000 != 0 {
            return Err(format!("The duration must have a millisecond precision. Was: {duration}"));
        }
        let millis = temporal::add_to_timestamp(millis, duration, backwards).ok_or_else(beyond)?;
        Ok(Some(millis.to_be_bytes().to_vec()))
    }
}

/// A fixed-size integer.
fn fixed(ty: &Type, bytes: &[u8]) -> Option<i64> {
    match ty {
        Type::TinyInt => value::decode_i8(bytes).map(i64::from),
        Type::SmallInt => value::decode_i16(bytes).map(i64::from),
        Type::Int => value::decode_i32(bytes).map(i64::from),
        Type::BigInt => value::decode_i64(bytes),
        _ => None,
    }
}

/// The low bytes of an integer, as many as the type has.
fn low(ty: &Type, value: i64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let size = size(ty).map_or(8, |size| size.min(8)) as usize;
    bytes[8 - size..].to_vec()
}

fn integers(operator: ArithmeticOperator, left: i64, right: i64) -> Result<i64, String> {
    let by_zero = || "/ by zero".to_owned();
    Ok(match operator {
        ArithmeticOperator::Add => left.wrapping_add(right),
        ArithmeticOperator::Subtract => left.wrapping_sub(right),
        ArithmeticOperator::Multiply => left.wrapping_mul(right),
        ArithmeticOperator::Divide if right == 0 => return Err(by_zero()),
        ArithmeticOperator::Modulo if right == 0 => return Err(by_zero()),
        ArithmeticOperator::Divide => left.wrapping_div(right),
        ArithmeticOperator::Modulo => left.wrapping_rem(right),
    })
}

fn singles(operator: ArithmeticOperator, left: f32, right: f32) -> f32 {
    match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Modulo => left % right,
    }
}

fn doubles(operator: ArithmeticOperator, left: f64, right: f64) -> f64 {
    match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Modulo => left % right,
    }
}

fn varints(operator: ArithmeticOperator, left: BigInt, right: BigInt) -> Result<BigInt, String> {
    let divides = matches!(operator, ArithmeticOperator::Divide | ArithmeticOperator::Modulo);
    if divides && right == BigInt::from(0) {
        return Err("BigInteger divide by zero".to_owned());
    }
    Ok(match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Modulo => left % right,
    })
}

fn decimals(
    operator: ArithmeticOperator,
    left: &Decimal,
    right: &Decimal,
) -> Result<Decimal, String> {
    let is_zero = right.unscaled == BigInt::from(0);
    match operator {
        ArithmeticOperator::Divide if is_zero => {
            return Err("BigInteger divide by zero".to_owned());
        }
        ArithmeticOperator::Modulo if is_zero => return Err("Division by zero".to_owned()),
        _ => {}
    }
    let result = match operator {
        ArithmeticOperator::Add => left.rounded_sum(right),
        ArithmeticOperator::Subtract => {
            let negated = Decimal { unscaled: -right.unscaled.clone(), scale: right.scale };
            left.rounded_sum(&negated)
        }
        ArithmeticOperator::Multiply => left.rounded_product(right),
        ArithmeticOperator::Divide => left.quotient(right),
        ArithmeticOperator::Modulo => left.remainder(right),
    };
    result.ok_or_else(|| "The result has too many digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ty: &Type) -> usize {
        OPERANDS.iter().position(|operand| operand == ty).unwrap()
    }

    /// `left operator right`, each with its type in front.
    fn check(left: &str, operator: ArithmeticOperator, right: &str, expected: &str) {
        let parse = |text: &str| {
            let (ty, value) = text.split_once(' ').unwrap();
            let ty = Type::from_cql(ty, &|_| None).unwrap();
            let bytes = value::parse_scalar(&ty, value).unwrap();
            (ty, bytes)
        };
        let ((left_ty, left_bytes), (right_ty, right_bytes)) = (parse(left), parse(right));
        let operator = Operator::Binary(operator);
        let found = match operator.returns(place(&left_ty), place(&right_ty)) {
            None => "none".to_owned(),
            Some(returns) => {
                let (left, right) = (left_ty, right_ty);
                let operation = Operation { operator, left, right, returns: returns.clone() };
                match operation.call(&left_bytes, &right_bytes) {
                    Ok(None) => "null".to_owned(),
                    Ok(Some(bytes)) => {
                        format!("{} {}", returns.to_cql(), value::print_scalar(&returns, &bytes))
                    }
                    Err(error) => error.to_string(),
                }
            }
        };
        assert_eq!(found, expected, "{left} {} {right}", operator.symbol());
    }

    #[test]
    fn numbers() {
        use ArithmeticOperator::*;
        check("tinyint 1", Add, "tinyint 2", "tinyint 3");
        check("tinyint 127", Add, "tinyint 1", "tinyint -128");
        check("int 2147483647", Add, "smallint 1", "int -2147483648");
        check("bigint 9223372036854775807", Multiply, "int 2", "bigint -2");
        check("int -7", Divide, "int 2", "int -3");
        check("int -7", Modulo, "int 2", "int -1");
        check("int -2147483648", Divide, "int -1", "int -2147483648");
        check("int 1", Add, "float 5.5", "float 6.5");
        check("bigint 1", Add, "float 5.5", "double 6.5");
        check("varint 7", Add, "float 5.5", "decimal 12.5");
        check("varint 7", Divide, "bigint 2", "varint 3");
        check("varint -7", Modulo, "int 2", "varint -1");
        check("decimal 8.5", Multiply, "int 1", "decimal 8.5");
        check("decimal 1", Divide, "int 4", "decimal 0.25");
        check("double 1", Divide, "int 0", "double Infinity");
        check("int 1", Add, "int ", "null");
    }

    #[test]
    fn texts_and_times() {
        use ArithmeticOperator::*;
        check("ascii a", Add, "ascii b", "ascii ab");
        check("ascii a", Add, "text \u{e9}", "text a\u{e9}");
        check("text a", Subtract, "text a", "none");
        check(
            "timestamp 2016-09-27 16:10Z",
            Subtract,
            "duration 10m",
            "timestamp 2016-09-27T16:00:00.000Z",
        );
        check("timestamp 2016-01-31", Add, "duration 1mo1d", "timestamp 2016-03-01T00:00:00.000Z");
        check("date 2016-10-04", Subtract, "duration 5d", "date 2016-09-29");
        check("date 2016-10-04", Multiply, "duration 5d", "none");
        check("duration 5d", Add, "date 2016-10-04", "none");
    }

    #[test]
    fn failures() {
        use ArithmeticOperator::*;
        let check_failure = |left: &str, operator, right: &str, pair: &str, reason: &str| {
            let text = format!("the operation '{pair}' failed: {reason}");
            check(left, operator, right, &text);
        };
        check_failure("int 1", Divide, "tinyint 0", "int / tinyint", "/ by zero");
        check_failure("int 1", Modulo, "int 0", "int % int", "/ by zero");
        let big = "BigInteger divide by zero";
        check_failure("varint 1", Divide, "int 0", "varint / int", big);
        check_failure("decimal 1", Divide, "int 0", "decimal / int", big);
        check_failure("decimal 1", Modulo, "decimal 0", "decimal % decimal", "Division by zero");
        let nan = "A NaN cannot be converted into a decimal";
        check_failure("decimal 1", Add, "double NaN", "decimal + double", nan);
        let infinite = "An infinite number cannot be converted into a decimal";
        check_failure("float -Infinity", Add, "varint 1", "float + varint", infinite);
        let coarse = "The duration must have a millisecond precision. Was: 10us";
        check_failure("timestamp 0", Subtract, "duration 10us", "timestamp - duration", coarse);
        let days = "The duration must have a day precision. Was: 10m";
        check_failure("date 1", Subtract, "duration 10m", "date - duration", days);
    }

    #[test]
    fn signs() {
        let negate = |ty: Type, text: &str| {
            let bytes = value::parse_scalar(&ty, text).unwrap();
            let place = place(&ty);
            let returns = Operator::Negate.returns(place, place)?;
            let (left, right) = (ty.clone(), ty.clone());
            let operation = Operation { operator: Operator::Negate, left, right, returns };
            let bytes = operation.call(&bytes, &[]).unwrap()?;
            Some(value::print_scalar(&ty, &bytes))
        };
        assert_eq!(negate(Type::TinyInt, "-128").as_deref(), Some("-128"));
        assert_eq!(negate(Type::BigInt, "5").as_deref(), Some("-5"));
        assert_eq!(negate(Type::Decimal, "8.50").as_deref(), Some("-8.50"));
        assert_eq!(negate(Type::Double, "1").as_deref(), Some("-1.0"));
        assert_eq!(negate(Type::Text, "1"), None);
        assert_eq!(negate(Type::Int, ""), None);
    }
}
