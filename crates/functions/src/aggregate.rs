//! Aggregate functions.

use crate::error::Error;
use crate::udf::{Calls, UserAggregate};
use model::Type;
use model::value::{self, Decimal};
use num_bigint::BigInt;
use std::rc::Rc;

/// An aggregate and the type of its argument.
#[derive(Clone, Debug)]
pub enum Aggregate {
    /// All rows.
    CountRows,
    /// Values that are not null.
    Count,
    /// The first row's value: what a plain column is beside aggregates.
    First(Type),
    /// The least value.
    Min(Type),
    /// The greatest value.
    Max(Type),
    /// The sum of numbers.
    Sum(Type),
    /// The mean of numbers.
    Average(Type),
    /// What a user has made; of several arguments as the fields of a tuple.
    User(Rc<UserAggregate>),
}

impl Aggregate {
    /// The type of its value.
    pub fn returns(&self) -> Type {
        match self {
            Aggregate::CountRows | Aggregate::Count => Type::BigInt,
            Aggregate::Sum(Type::Counter) | Aggregate::Average(Type::Counter) => Type::BigInt,
            Aggregate::Min(Type::Counter) | Aggregate::Max(Type::Counter) => Type::BigInt,
            Aggregate::First(ty)
            | Aggregate::Min(ty)
            | Aggregate::Max(ty)
            | Aggregate::Sum(ty)
            | Aggregate::Average(ty) => ty.clone(),
            Aggregate::User(user) => user.definition().returns.clone(),
        }
    }

    /// Starts again.
    pub fn begin(&self) -> Accumulator {
        let state = match self {
            Aggregate::CountRows | Aggregate::Count => State::Count(0),
            Aggregate::First(_) => State::First(None),
            Aggregate::Min(_) | Aggregate::Max(_) => State::Best(None),
            Aggregate::User(user) => State::User(user.begin()),
            Aggregate::Sum(ty) | Aggregate::Average(ty) => match ty {
                Type::Float | Type::Double => State::Float { sum: 0.0, lost: 0.0, count: 0 },
                Type::Decimal => State::Decimal(Decimal::zero(), 0),
                _ => State::Integer(BigInt::from(0), 0),
            },
        };
        Accumulator { aggregate: self.clone(), state }
    }
}

/// An aggregate of the rows so far.
#[derive(Clone, Debug)]
pub struct Accumulator {
    aggregate: Aggregate,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    /// Outer: whether there was a row.
    First(Option<Option<Vec<u8>>>),
    Best(Option<Vec<u8>>),
    Integer(BigInt, u64),
    /// Kahan's summation: `lost` is what rounding has taken from `sum`.
    Float {
        sum: f64,
        lost: f64,
        count: u64,
    },
    Decimal(Decimal, u64),
    User(Option<Vec<u8>>),
}

impl Accumulator {
    /// Adds a row in which the argument has this value. After an error it is of no use.
    pub fn add(&mut self, value: Option<&[u8]>, calls: Option<&Calls>) -> Result<(), Error> {
        let aggregate = &self.aggregate;
        if let (State::Count(count), Aggregate::CountRows) = (&mut self.state, aggregate) {
            *count += 1;
            return Ok(());
        }
        if let State::First(first) = &mut self.state {
            if first.is_none() {
                *first = Some(value.map(<[u8]>::to_vec));
            }
            return Ok(());
        }
        if let (State::User(state), Aggregate::User(user)) = (&mut self.state, aggregate) {
            *state = add_to_state(user, state.take(), value, calls)?;
            return Ok(());
        }
        let Some(bytes) = value else { return Ok(()) };
        match (&mut self.state, aggregate) {
            (State::Count(count), _) => *count += 1,
            (State::Best(best), Aggregate::Min(ty) | Aggregate::Max(ty)) => {
                let better = best.as_deref().is_none_or(|best| {
                    let order = value::compare(ty, bytes, best);
                    if matches!(aggregate, Aggregate::Min(_)) {
                        order.is_lt()
                    } else {
                        order.is_gt()
                    }
                });
                if better {
                    *best = Some(bytes.to_vec());
                }
            }
            (State::Integer(sum, count), Aggregate::Sum(ty) | Aggregate::Average(ty)) => {
                if let Some(number) = integer(ty, bytes) {
                    *sum += number;
                    *count += 1;
                }
            }
            (State::Float { sum, lost, count }, Aggregate::Sum(ty) | Aggregate::Average(ty)) => {
                let number = match ty {
                    Type::Float => value::decode_f32(bytes).map(f64::from),
                    _ => value::decode_f64(bytes),
                };
                if let Some(number) = number {
                    let next = number - *lost;
                    let total = *sum + next;
                    *lost = if total.is_finite() { (total - *sum) - next } else { 0.0 };
                    *sum = total;
                    *count += 1;
                }
            }
            (State::Decimal(sum, count), _) => {
                if let Some(number) = Decimal::decode(bytes) {
                    let too_long = || Error::invalid("sum of decimals has too many digits");
                    *sum = sum.add(&number).ok_or_else(too_long)?;
                    *count += 1;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of all rows; null where there is none.
    pub fn finish(self, calls: Option<&Calls>) -> Result<Option<Vec<u8>>, Error> {
        let average = matches!(self.aggregate, Aggregate::Average(_));
        let ty = self.aggregate.returns();
        Ok(match self.state {
            State::Count(count) => Some(count.to_be_bytes().to_vec()),
            State::First(first) => first.flatten(),
            State::Best(best) => best,
            State::User(state) => match &self.aggregate {
                Aggregate::User(user) => user.finish(state, calls)?,
                _ => state,
            },
            State::Integer(sum, count) => {
                let value = if average && 0 < count { sum / BigInt::from(count) } else { sum };
                Some(encode_integer(&ty, value)?)
            }
            State::Float { sum, count, .. } => {
                let value = if average && 0 < count { sum / count as f64 } else { sum };
                Some(match ty {
                    Type::Float => (value as f32).to_be_bytes().to_vec(),
                    _ => value.to_be_bytes().to_vec(),
                })
            }
            State::Decimal(sum, count) => {
                let value = if average && 0 < count { sum.divide_by_count(count) } else { sum };
                Some(value.encode())
            }
        })
    }
}

/// The state of a user's aggregate after a row; several arguments are the fields of a tuple.
fn add_to_state(
    aggregate: &UserAggregate,
    state: Option<Vec<u8>>,
    value: Option<&[u8]>,
    calls: Option<&Calls>,
) -> Result<Option<Vec<u8>>, Error> {
    match aggregate.definition().arguments.len() {
        0 => aggregate.add(state, &[], calls),
        1 => aggregate.add(state, &[value], calls),
        _ => {
            let fields = value::fields(value.unwrap_or_default());
            let arguments: Vec<Option<&[u8]>> = fields.map_while(Result::ok).collect();
            aggregate.add(state, &arguments, calls)
        }
    }
}

fn integer(ty: &Type, bytes: &[u8]) -> Option<BigInt> {
    Some(match ty {
        Type::TinyInt => value::decode_i8(bytes)?.into(),
        Type::SmallInt => value::decode_i16(bytes)?.into(),
        Type::Int => value::decode_i32(bytes)?.into(),
        Type::Varint => value::decode_varint(bytes)?,
        _ => value::decode_i64(bytes)?.into(),
    })
}

fn encode_integer(ty: &Type, value: BigInt) -> Result<Vec<u8>, Error> {
    let overflow = || Error::Invalid(format!("Sum of {} overflowed", ty.to_cql()));
    let small = || i64::try_from(value.clone()).map_err(|_| overflow());
    Ok(match ty {
        Type::TinyInt => i8::try_from(small()?).map_err(|_| overflow())?.to_be_bytes().to_vec(),
        Type::SmallInt => i16::try_from(small()?).map_err(|_| overflow())?.to_be_bytes().to_vec(),
        Type::Int => i32::try_from(small()?).map_err(|_| overflow())?.to_be_bytes().to_vec(),
        Type::Varint => value::encode_varint(&value),
        _ => small()?.to_be_bytes().to_vec(),
    })
}
