//! Calls of functions, operators and casts to terms.

use super::Term;
use super::constant::constant;
use super::preparer::{Prepared, Preparer, accepts};
use crate::error::Error;
use crate::markers::Receiver;
use crate::types;
use functions::udf::UserAggregate;
use functions::{
    Aggregate, Argument, Arguments, Body, Cast, Found, Function, NATIVE_KEYSPACE, Operation,
    Signature, find,
};
use model::Type;
use std::rc::Rc;
use syntax::ast::{self, Arithmetic, Call, Expr, ExprKind};

impl Preparer<'_> {
    /// What the name of a called function stands for.
    pub(super) fn found(&self, call: &Call) -> Result<Found, Error> {
        let keyspace = call.function.keyspace.as_ref().map(|name| name.text.as_str());
        let name = call.function.name.text.as_str();
        let found = find(self.schema, (keyspace, name), self.keyspace, self.table);
        found.and_then(|found| self.started(found)).ok_or_else(|| {
            let shown = keyspace.map_or_else(|| name.to_owned(), |ks| format!("{ks}.{name}"));
            Error::Invalid(format!("Unknown function '{shown}' called"))
        })
    }

    /// The same, users' aggregates with their first states; those whose literal is none of the
    /// state's type are left out.
    fn started(&self, found: Found) -> Option<Found> {
        let Found::Overloads(overloads) = found else { return Some(found) };
        let started = |mut overload: Signature| {
            if let Body::Aggregate(Aggregate::User(user)) = &mut overload.body {
                let definition = user.definition();
                let Some(literal) = &definition.initial else { return Some(overload) };
                let expr = syntax::parse_term(literal).ok()?;
                let receiver = Receiver { name: "initcond", ty: &definition.state_type };
                let initial = constant(self.schema, &definition.keyspace, &expr, receiver).ok()?;
                *user = Rc::new(UserAggregate::clone(user).starting_with(initial));
            }
            Some(overload)
        };
        let overloads: Vec<Signature> = overloads.into_iter().filter_map(started).collect();
        (!overloads.is_empty()).then_some(Found::Overloads(overloads))
    }

    /// The signature of a call whose function has as many as there are types of arguments.
    pub(super) fn made(&self, call: &Call, receiver: Option<&Type>) -> Result<Signature, Error> {
        let Found::Factory(factory) = self.found(call)? else {
            return Err(Error::Server("a function of fixed signatures".to_owned()));
        };
        let outlines: Result<Vec<_>, Error> =
            call.arguments.iter().map(|argument| self.outline(argument)).collect();
        let outlines = outlines?;
        let arguments: Vec<&dyn Argument> = outlines.iter().map(|o| o as &dyn Argument).collect();
        let name = &format!("{NATIVE_KEYSPACE}.{}", call.function.name.text);
        Ok(factory.signature(Arguments { name, of: &arguments, receiver })?)
    }

    /// The signature that a call means where a value of `receiver` is expected.
    fn signature(
        &self,
        expr: &Expr,
        call: &Call,
        receiver: Option<&Type>,
    ) -> Result<Signature, Error> {
        match self.outline(expr)?.signature(receiver) {
            Some(signature) => signature,
            None => self.made(call, receiver),
        }
    }

    /// The term of a call, and its type.
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        call: &Call,
        receiver: Option<&Type>,
    ) -> Result<(Term, Type), Error> {
        let Signature { keyspace, arguments: types, returns, body } =
            self.signature(expr, call, receiver)?;
        let shown = format!("{keyspace}.{}", call.function.name.text);
        if body.is_of_user() {
            let name = &call.function.name.text;
            self.markers.called.push(auth::Resource::function(&keyspace, name, &types));
        }
        let outer = match &body {
            Body::Aggregate(_) => Some(self.aggregates.take()),
            Body::Scalar(_) => None,
        };
        let terms: Result<Vec<Term>, Error> = call
            .arguments
            .iter()
            .zip(&types)
            .enumerate()
            .map(|(index, (argument, ty))| {
                // Counters are numbers to all but to what is made for them.
                if let ExprKind::Column(column) = &argument.kind
                    && *ty == Type::Counter
                    && self.column_of(column)?.ty != Type::Counter
                {
                    return Err(Error::Invalid(format!(
                        "Type error: {} cannot be passed as argument {index} of function {shown} \
                         of type counter",
                        column.text
                    )));
                }
                let name = &format!("arg{index}({shown})");
                self.prepare(argument, Receiver { name, ty })
            })
            .collect();
        if let Some(outer) = outer {
            self.aggregates = outer;
        }
        let mut terms = terms?;
        match body {
            Body::Scalar(function) => Ok((Term::Call(Rc::new(function), terms), returns)),
            Body::Aggregate(aggregate) => {
                let argument = match terms.len() {
                    0 | 1 => terms.pop(),
                    _ => Some(Term::Parts(Rc::new(Type::Tuple(types)), terms)),
                };
                self.aggregate(aggregate, argument)
            }
        }
    }

    /// An aggregate's value.
    pub(super) fn aggregate(
        &mut self,
        aggregate: Aggregate,
        argument: Option<Term>,
    ) -> Result<(Term, Type), Error> {
        let Some(aggregates) = &mut self.aggregates else {
            return Err(Error::invalid(
                "Aggregation functions are not supported outside of the select clause",
            ));
        };
        let returns = aggregate.returns();
        aggregates.push((aggregate, argument));
        Ok((Term::Aggregate((aggregates.len() - 1) as u16), returns))
    }

    /// The term of an operator with its operands, and its type.
    pub(super) fn arithmetic(
        &mut self,
        expr: &Expr,
        receiver: Option<&Type>,
    ) -> Result<(Term, Type), Error> {
        let Some(operation) = self.outline(expr)?.operation(receiver) else {
            return Err(Error::Server("not an operator".to_owned()));
        };
        let operation: Operation = operation?;
        let sign = operation.operator.symbol();
        let mut operand = |index: usize, of: &Expr, ty: &Type| {
            let name = &format!("arg{index}({sign})");
            self.prepare(of, Receiver { name, ty })
        };
        let operands = match &expr.kind {
            ExprKind::Arithmetic(arithmetic) => {
                let Arithmetic { left, right, .. } = &**arithmetic;
                vec![operand(0, left, &operation.left)?, operand(1, right, &operation.right)?]
            }
            ExprKind::Negate(of) => vec![operand(0, of, &operation.left)?],
            _ => Vec::new(),
        };
        let returns = operation.returns.clone();
        Ok((Term::Call(Rc::new(Function::Operation(operation)), operands), returns))
    }

    /// `CAST(of AS written)`
    pub(super) fn cast(&mut self, of: &Expr, written: &ast::Type) -> Result<(Term, Type), Error> {
        let to = types::resolve(self.schema, self.keyspace, written)?;
        if let ExprKind::Marker(_) = of.kind {
            let (name, title) = (to.to_cql(), title(&to));
            return Err(Error::Invalid(format!(
                "Ambiguous call to function {NATIVE_KEYSPACE}.castAs{title} (a bind marker can \
                 be of any type that can be cast to {name}): use type casts to disambiguate",
            )));
        }
        let (term, from) = self.select(of)?;
        let from = match &of.kind {
            ExprKind::Column(name) => self.column_of(name)?.ty.clone(),
            _ => from,
        };
        let Some(cast) = Cast::between(&from, &to) else {
            let text = format!("{} cannot be cast to {}", from.to_cql(), to.to_cql());
            return Err(Error::Invalid(text));
        };
        if from == to {
            return Ok((term, to));
        }
        Ok((Term::Call(Rc::new(Function::Cast(cast)), vec![term]), to))
    }

    /// What a selected expression is called by: casts of a value to its own type change nothing.
    pub fn without_needless_casts<'e>(&self, expr: &'e Expr) -> &'e Expr {
        let mut expr = expr;
        while let ExprKind::Cast(of, written) = &expr.kind {
            let to = types::resolve(self.schema, self.keyspace, written).ok();
            let from = match &of.kind {
                ExprKind::Column(name) => self.column_of(name).ok().map(|c| c.ty.clone()),
                _ => self.infer(of).ok().flatten(),
            };
            if from.is_none() || from != to {
                break;
            }
            expr = of;
        }
        expr
    }
}

fn title(ty: &Type) -> String {
    let name = ty.to_cql();
    let mut chars = name.chars();
    chars
        .next()
        .map(|first| first.to_ascii_uppercase().to_string() + chars.as_str())
        .unwrap_or(name)
}

/// A value of type `given` where one of the receiver's is expected: `refused` makes the error of
/// the types' names where it cannot stand there.
pub(super) fn fitted(
    term: Term,
    given: &Type,
    receiver: Receiver<'_>,
    refused: impl FnOnce(&str, &str) -> String,
) -> Prepared {
    if accepts(receiver.ty, given) {
        return Ok(term);
    }
    // An int is taken for a bigint, with its sign.
    if (receiver.ty, given) == (&Type::BigInt, &Type::Int)
        && let Some(cast) = Cast::between(given, receiver.ty)
    {
        return Ok(Term::Call(Rc::new(Function::Cast(cast)), vec![term]));
    }
    Err(Error::Invalid(refused(&given.to_cql(), &receiver.ty.to_cql())))
}
