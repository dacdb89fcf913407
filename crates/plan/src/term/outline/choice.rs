//! Overload resolution of functions, and of the types that an operator takes.
//!
//! An overload whose arguments all match exactly is taken; else the only one that accepts them at
//! all. Where several are left, only those count whose result matches the expected type.

use super::super::preparer::accepts;
use super::{Fit, Outline};
use crate::error::Error;
use functions::{NATIVE_KEYSPACE, Operation, Operator, Signature};
use model::Type;
use syntax::ast::Call;

/// The overloads of a function, and how well the arguments of a call suit each.
pub(super) struct Choice {
    /// The function, as errors show it.
    name: String,
    overloads: Vec<Signature>,
    /// Of each overload; `None` where it takes another number of arguments.
    fits: Vec<Option<Fit>>,
    /// What is wrong with the call if the function has only one signature.
    refusal: Option<Error>,
}

impl Choice {
    pub(super) fn new(call: &Call, overloads: Vec<Signature>, arguments: &[Outline<'_>]) -> Choice {
        let keyspace = overloads.first().map_or(NATIVE_KEYSPACE, |overload| &overload.keyspace);
        let name = format!("{keyspace}.{}", call.function.name.text);
        let fit = |overload: &Signature| {
            let fits = arguments.iter().zip(&overload.arguments).map(|(a, ty)| a.fit(ty));
            let same = overload.arguments.len() == arguments.len();
            same.then(|| fits.min().unwrap_or(Fit::Exact))
        };
        let fits = overloads.iter().map(fit).collect();
        let refusal = match &overloads[..] {
            [only] => refusal(&name, only, arguments),
            _ => None,
        };
        Choice { name, overloads, fits, refusal }
    }

    /// The overload that is meant where a value of `receiver` is expected.
    pub(super) fn resolve(&self, receiver: Option<&Type>) -> Result<&Signature, Error> {
        if let [only] = &self.overloads[..] {
            return match &self.refusal {
                None => Ok(only),
                Some(refusal) => Err(refusal.clone()),
            };
        }
        let of_fit = |wanted: Fit| {
            let fits = self.overloads.iter().zip(&self.fits);
            fits.filter(move |(_, fit)| **fit == Some(wanted)).map(|(overload, _)| overload)
        };
        let found: Vec<&Signature> = match of_fit(Fit::Exact).next() {
            Some(_) => of_fit(Fit::Exact).collect(),
            None => of_fit(Fit::Possible).collect(),
        };
        let returns =
            |signature: &&Signature| receiver.is_none_or(|ty| accepts(ty, &signature.returns));
        let expected: Vec<&Signature> = found.iter().copied().filter(returns).collect();
        let best = if expected.is_empty() { found } else { expected };
        match best[..] {
            [only] => Ok(only),
            [] => Err(Error::Invalid(format!(
                "Invalid call to function {}, none of its type signatures match (known type \
                 signatures: {})",
                self.name,
                self.signatures(self.overloads.iter())
            ))),
            _ => Err(Error::Invalid(format!(
                "Ambiguous call to function {} (can be matched by following signatures: {}): use \
                 type casts to disambiguate",
                self.name,
                self.signatures(best.into_iter())
            ))),
        }
    }

    fn signatures<'o>(&self, overloads: impl Iterator<Item = &'o Signature>) -> String {
        let shown_one = |overload: &Signature| {
            let types: Vec<String> = overload.arguments.iter().map(Type::to_cql).collect();
            format!("{} : ({}) -> {}", self.name, types.join(", "), overload.returns.to_cql())
        };
        overloads.map(shown_one).collect::<Vec<_>>().join(", ")
    }
}

/// Why a call is none of a function's only signature.
fn refusal(name: &str, only: &Signature, arguments: &[Outline<'_>]) -> Option<Error> {
    if only.arguments.len() != arguments.len() {
        return Some(Error::Invalid(format!(
            "Invalid number of arguments in call to function {name}: {} required but {} provided",
            only.arguments.len(),
            arguments.len()
        )));
    }
    let pairs = arguments.iter().zip(&only.arguments).enumerate();
    let (index, (argument, ty)) = { pairs }.find(|(_, (a, ty))| a.fit(ty) == Fit::No)?;
    Some(Error::Invalid(format!(
        "Type error: {} cannot be passed as argument {index} of function {name} of type {}",
        argument.text(),
        ty.to_cql()
    )))
}

/// An operator, and how well its operands suit each type.
pub(super) struct OperationChoice {
    operator: Operator,
    left: Vec<Fit>,
    right: Vec<Fit>,
    has_marker: bool,
    /// The operands, as errors show them.
    texts: Vec<String>,
}

impl OperationChoice {
    pub(super) fn new(operator: Operator, operands: &[Outline<'_>]) -> OperationChoice {
        let fits = |operand: &Outline<'_>| {
            Operator::operands().iter().map(|ty| operand.fit(ty)).collect::<Vec<Fit>>()
        };
        OperationChoice {
            operator,
            left: operands.first().map(fits).unwrap_or_default(),
            right: operands.last().map(fits).unwrap_or_default(),
            has_marker: operands.iter().any(Outline::is_marker),
            texts: operands.iter().map(Outline::text).collect(),
        }
    }

    /// The operation that is meant where a value of `receiver` is expected.
    pub(super) fn resolve(&self, receiver: Option<&Type>) -> Result<Operation, Error> {
        let types = Operator::operands();
        // Counters are computed with as what they are read as.
        let receiver = receiver.map(|ty| if *ty == Type::Counter { &Type::BigInt } else { ty });
        let mut possible: Vec<Operation> = Vec::new();
        for (left, left_fit) in self.left.iter().enumerate() {
            for (right, right_fit) in self.right.iter().enumerate() {
                let fit = *left_fit.min(right_fit);
                if fit == Fit::No {
                    continue;
                }
                let Some(returns) = self.operator.returns(left, right) else { continue };
                if receiver.is_some_and(|ty| !accepts(ty, &returns)) {
                    continue;
                }
                let (left, right) = (types[left].clone(), types[right].clone());
                let operation = Operation { operator: self.operator, left, right, returns };
                if fit == Fit::Exact {
                    return Ok(operation);
                }
                possible.push(operation);
            }
        }
        match (&possible[..], receiver) {
            ([only], _) => return Ok(only.clone()),
            ([_, _, ..], Some(ty)) if !self.has_marker => {
                let same = possible.iter().find(|o| o.left == *ty && o.right == *ty);
                if let Some(same) = same {
                    return Ok(same.clone());
                }
            }
            _ => {}
        }
        let symbol = self.operator.symbol();
        Err(Error::Invalid(match (&self.texts[..], possible.is_empty()) {
            ([left, right], true) => {
                format!("the '{symbol}' operation is not supported between {left} and {right}")
            }
            ([left, right], false) => format!(
                "Ambiguous '{symbol}' operation with args {left} and {right}: use type hint to \
                 disambiguate, example '(int) ?'"
            ),
            (operands, true) => {
                format!("the '{symbol}' operation is not supported for {}", operands.join(", "))
            }
            (_, false) => "Ambiguous negation: use type casts to disambiguate".to_owned(),
        }))
    }
}
