//! Numbers of any size inside Lua: `varint` and `decimal` as values with operators.
//!
//! With an integer they stay what they are, with a decimal the result is one, with a float it is a
//! float. `/` divides as floats do, `//` and `%` are of integers and round down.

use mlua::{Error, FromLuaMulti, Lua, MetaMethod, Result, UserData, UserDataMethods, Value};
use model::value::{Decimal, varint};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// Bits of a result at most: the memory behind numbers is not counted with that of a script.
const BITS_MAX: u64 = 8192;

/// A `varint` or a `decimal`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Varint(BigInt),
    Decimal(Decimal),
}

/// What an operator takes.
#[derive(Clone, Debug)]
enum Operand {
    Integer(BigInt),
    Decimal(Decimal),
    Float(f64),
}

impl Number {
    /// As text.
    pub(super) fn print(&self) -> String {
        match self {
            Number::Varint(value) => value.to_string(),
            Number::Decimal(value) => value.to_string(),
        }
    }
    /// The nearest float.
    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Number::Varint(value) => Decimal::from_integer(value.clone()).to_f64(),
            Number::Decimal(value) => value.to_f64(),
        }
    }
    /// The integer that it is, if it is one.
    pub(super) fn to_integer(&self) -> Option<BigInt> {
        match self {
            Number::Varint(value) => Some(value.clone()),
            Number::Decimal(value) => {
                let integer = value.to_integer()?;
                let whole = Decimal::from_integer(integer.clone());
                whole.compare(value).is_eq().then_some(integer)
            }
        }
    }
}

impl Operand {
    fn of(lua: &Lua, value: &Value) -> Result<Operand> {
        let refused =
            || Error::runtime(format!("attempt to perform arithmetic on a {}", value.type_name()));
        match value {
            Value::Integer(value) => Ok(Operand::Integer((*value).into())),
            Value::Number(value) => Ok(Operand::Float(*value)),
            Value::UserData(data) => match &*data.borrow::<Number>()? {
                Number::Varint(value) => Ok(Operand::Integer(value.clone())),
                Number::Decimal(value) => Ok(Operand::Decimal(value.clone())),
            },
            Value::String(text) => {
                if let Some(integer) = text.to_str().ok().and_then(|it| varint::parse(&it).ok()) {
                    return Ok(Operand::Integer(integer));
                }
                let float = lua.coerce_number(value.clone())?;
                float.map(Operand::Float).ok_or_else(refused)
            }
            _ => Err(refused()),
        }
    }

    fn to_f64(&self) -> f64 {
        match self {
            Operand::Integer(value) => Decimal::from_integer(value.clone()).to_f64(),
            Operand::Decimal(value) => value.to_f64(),
            Operand::Float(value) => *value,
        }
    }

    fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Operand::Integer(value) => Some(Decimal::from_integer(value.clone())),
            Operand::Decimal(value) => Some(value.clone()),
            Operand::Float(_) => None,
        }
    }
}

fn too_large() -> Error {
    Error::runtime("number too large")
}

/// The value of a result that is small enough.
fn checked(lua: &Lua, number: Option<Number>) -> Result<Value> {
    let number = number.ok_or_else(too_large)?;
    let bits = match &number {
        Number::Varint(value) => value.bits(),
        Number::Decimal(value) => value.unscaled.bits(),
    };
    if BITS_MAX < bits {
        return Err(too_large());
    }
    Ok(Value::UserData(lua.create_userdata(number)?))
}

/// One of `+`, `-` and `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
}

fn calculate(lua: &Lua, operator: Operator, a: &Value, b: &Value) -> Result<Value> {
    let (a, b) = (Operand::of(lua, a)?, Operand::of(lua, b)?);
    if let (Operand::Integer(a), Operand::Integer(b)) = (&a, &b) {
        let value = match operator {
            Operator::Add => a + b,
            Operator::Subtract => a - b,
            Operator::Multiply => a * b,
        };
        return checked(lua, Some(Number::Varint(value)));
    }
    let (Some(x), Some(y)) = (a.to_decimal(), b.to_decimal()) else {
        let (a, b) = (a.to_f64(), b.to_f64());
        return Ok(Value::Number(match operator {
            Operator::Add => a + b,
            Operator::Subtract => a - b,
            Operator::Multiply => a * b,
        }));
    };
    let value = match operator {
        Operator::Add => x.add(&y),
        Operator::Subtract => x.add(&Decimal { unscaled: -y.unscaled, scale: y.scale }),
        Operator::Multiply => x
            .scale
            .checked_add(y.scale)
            .map(|scale| Decimal { unscaled: x.unscaled * y.unscaled, scale }),
    };
    checked(lua, value.map(Number::Decimal))
}

/// Quotient and remainder as `//` and `%` give them: the remainder has the sign of the divisor.
fn divide(lua: &Lua, a: &Value, b: &Value) -> Result<(BigInt, BigInt)> {
    let refused = || Error::runtime("only integers have an integer quotient");
    let (Operand::Integer(a), Operand::Integer(b)) = (Operand::of(lua, a)?, Operand::of(lua, b)?)
    else {
        return Err(refused());
    };
    if b.sign() == Sign::NoSign {
        return Err(Error::runtime("attempt to perform 'n//0'"));
    }
    let (quotient, rest) = (&a / &b, &a % &b);
    let down = rest.sign() != Sign::NoSign && rest.sign() != b.sign();
    Ok(if down { (quotient - 1, rest + b) } else { (quotient, rest) })
}

fn compare(lua: &Lua, a: &Value, b: &Value) -> Result<Option<Ordering>> {
    let (a, b) = (Operand::of(lua, a)?, Operand::of(lua, b)?);
    Ok(match (a.to_decimal(), b.to_decimal()) {
        (Some(a), Some(b)) => Some(a.compare(&b)),
        _ => a.to_f64().partial_cmp(&b.to_f64()),
    })
}

type Two = (Value, Value);

impl UserData for Number {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        let arithmetic = [
            (MetaMethod::Add, Operator::Add),
            (MetaMethod::Sub, Operator::Subtract),
            (MetaMethod::Mul, Operator::Multiply),
        ];
        for (name, operator) in arithmetic {
            methods.add_meta_function(name.name(), move |lua, (a, b): Two| {
                calculate(lua, operator, &a, &b)
            });
        }
        function(methods, MetaMethod::Div, |lua, (a, b): Two| {
            let (a, b) = (Operand::of(lua, &a)?, Operand::of(lua, &b)?);
            Ok(Value::Number(a.to_f64() / b.to_f64()))
        });
        function(methods, MetaMethod::IDiv, |lua, (a, b): Two| {
            checked(lua, Some(Number::Varint(divide(lua, &a, &b)?.0)))
        });
        function(methods, MetaMethod::Mod, |lua, (a, b): Two| {
            checked(lua, Some(Number::Varint(divide(lua, &a, &b)?.1)))
        });
        function(methods, MetaMethod::Unm, |lua, a: Value| {
            calculate(lua, Operator::Subtract, &Value::Integer(0), &a)
        });
        function(methods, MetaMethod::Eq, |lua, (a, b): Two| {
            Ok(Value::Boolean(compare(lua, &a, &b)? == Some(Ordering::Equal)))
        });
        function(methods, MetaMethod::Lt, |lua, (a, b): Two| {
            Ok(Value::Boolean(compare(lua, &a, &b)? == Some(Ordering::Less)))
        });
        function(methods, MetaMethod::Le, |lua, (a, b): Two| {
            Ok(Value::Boolean(compare(lua, &a, &b)?.is_some_and(Ordering::is_le)))
        });
        methods.add_meta_method(MetaMethod::ToString.name(), |_, this, ()| Ok(this.print()));
    }
}

fn function<M: UserDataMethods<Number>, A: FromLuaMulti + 'static>(
    methods: &mut M,
    name: MetaMethod,
    function: fn(&Lua, A) -> Result<Value>,
) {
    methods.add_meta_function(name.name(), function);
}
