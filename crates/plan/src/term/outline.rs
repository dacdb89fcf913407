//! How well expressions suit types, which decides among the overloads of functions and operators.
//!
//! Invariants
//!  - *once*: an expression's outline is made once from those of its parts, and asking it about a
//!    type looks at each part a bounded number of times: the effort is linear in the expression,
//!    however deeply calls and operators are nested.

mod choice;

use super::literal;
use super::preparer::{Preparer, accepts, field_of, no_type, not_a_collection};
use crate::error::Error;
use crate::types;
use choice::{Choice, OperationChoice};
use functions::{Argument, Found, Operation, Operator, Signature};
use model::Type;
use syntax::ast::{CellAttribute, Expr, ExprKind, Literal, Name};

/// How well an expression suits a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    No,
    Possible,
    Exact,
}

/// What can be said of an expression's type before one is expected.
pub(super) struct Outline<'e> {
    expr: &'e Expr,
    kind: Kind<'e>,
}

enum Kind<'e> {
    /// A bind marker, or null: of any type.
    Untyped,
    Literal(&'e Literal),
    List(Vec<Outline<'e>>),
    Set(Vec<Outline<'e>>),
    Map(Vec<(Outline<'e>, Outline<'e>)>),
    Tuple(Vec<Outline<'e>>),
    /// `(a)`: a tuple of one element where such is expected, else only brackets around `a`.
    Group(Box<Outline<'e>>),
    User(Vec<(&'e Name, Outline<'e>)>),
    Typed(Type),
    Call(Choice),
    Operation(Box<OperationChoice>),
    /// A function whose value is of whatever type is expected.
    Expected,
}

impl Preparer<'_> {
    /// How well `expr` suits `ty`.
    pub(super) fn fit(&self, expr: &Expr, ty: &Type) -> Result<Fit, Error> {
        Ok(match &expr.kind {
            ExprKind::Null | ExprKind::Marker(_) => Fit::Possible,
            ExprKind::Literal(constant) => fit_of_literal(constant, ty),
            _ => self.outline(expr)?.fit(ty),
        })
    }

    /// The type that an expression has by itself.
    pub(super) fn infer(&self, expr: &Expr) -> Result<Option<Type>, Error> {
        Ok(self.outline(expr)?.natural())
    }

    /// The outline of `expr`.
    pub(super) fn outline<'e>(&self, expr: &'e Expr) -> Result<Outline<'e>, Error> {
        let all = |items: &'e [Expr]| -> Result<Vec<Outline<'e>>, Error> {
            items.iter().map(|item| self.outline(item)).collect()
        };
        let kind = match &expr.kind {
            ExprKind::Null | ExprKind::Marker(_) => Kind::Untyped,
            ExprKind::Literal(constant) => Kind::Literal(constant),
            ExprKind::List(items) => Kind::List(all(items)?),
            ExprKind::Set(items) => Kind::Set(all(items)?),
            ExprKind::Tuple(items) => match &items[..] {
                [only] => Kind::Group(Box::new(self.outline(only)?)),
                _ => Kind::Tuple(all(items)?),
            },
            ExprKind::Map(entries) => {
                let mut outlines = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    outlines.push((self.outline(key)?, self.outline(value)?));
                }
                Kind::Map(outlines)
            }
            ExprKind::UserType(fields) => {
                let mut outlines = Vec::with_capacity(fields.len());
                for (name, value) in fields {
                    outlines.push((name, self.outline(value)?));
                }
                Kind::User(outlines)
            }
            ExprKind::Hint(written, _) | ExprKind::Cast(_, written) => {
                Kind::Typed(types::resolve(self.schema, self.keyspace, written)?)
            }
            ExprKind::Call(call) => match self.found(call)? {
                Found::Overloads(overloads) => {
                    let arguments = all(&call.arguments)?;
                    Kind::Call(Choice::new(call, overloads, &arguments))
                }
                Found::Factory(_) => match self.made(call, None) {
                    Ok(signature) => Kind::Typed(signature.returns),
                    Err(_) => Kind::Expected,
                },
            },
            ExprKind::Arithmetic(arithmetic) => {
                let operator = Operator::Binary(arithmetic.operator);
                let (left, right) = (&arithmetic.left, &arithmetic.right);
                let outlines = [self.outline(left)?, self.outline(right)?];
                Kind::Operation(Box::new(OperationChoice::new(operator, &outlines)))
            }
            ExprKind::Negate(of) => {
                let outlines = [self.outline(of)?];
                Kind::Operation(Box::new(OperationChoice::new(Operator::Negate, &outlines)))
            }
            _ => Kind::Typed(self.type_of_part(expr)?),
        };
        Ok(Outline { expr, kind })
    }

    /// The type of a column or of a part of one.
    fn type_of_part(&self, expr: &Expr) -> Result<Type, Error> {
        match &expr.kind {
            ExprKind::Column(name) => Ok(match &self.column_of(name)?.ty {
                Type::Counter => Type::BigInt,
                ty => ty.clone(),
            }),
            ExprKind::Field(inner, name) => Ok(field_of(&self.whole_of(inner)?, name)?.1),
            ExprKind::Element(inner, _) => match self.whole_of(inner)? {
                Type::Map { value, .. } => Ok(*value),
                Type::Set { element, .. }
                | Type::List { element, .. }
                | Type::Vector { element, .. } => Ok(*element),
                ty => Err(not_a_collection(inner, &ty)),
            },
            ExprKind::Slice(inner, ..) => self.whole_of(inner),
            ExprKind::Attribute(CellAttribute::Ttl, _) => Ok(Type::Int),
            _ => Ok(Type::BigInt),
        }
    }

    fn whole_of(&self, expr: &Expr) -> Result<Type, Error> {
        self.infer(expr)?.ok_or_else(no_type)
    }
}

fn fit_of_literal(constant: &Literal, ty: &Type) -> Fit {
    match literal::fits(constant.kind, ty) {
        false => Fit::No,
        true if literal::natural_type(constant) == *ty => Fit::Exact,
        true => Fit::Possible,
    }
}

impl Outline<'_> {
    /// How well it suits a type.
    pub(super) fn fit(&self, ty: &Type) -> Fit {
        match (&self.kind, ty) {
            (Kind::Untyped | Kind::Expected, _) => Fit::Possible,
            (Kind::Literal(constant), _) => fit_of_literal(constant, ty),
            (Kind::List(items), Type::List { element, .. }) => fit_of_all(items, element),
            (Kind::List(items), Type::Vector { element, dimension }) => {
                match items.len() == *dimension as usize {
                    true => fit_of_all(items, element),
                    false => Fit::No,
                }
            }
            (Kind::Set(items), Type::Set { element, .. }) => fit_of_all(items, element),
            (Kind::Set(items), Type::Map { .. }) if items.is_empty() => Fit::Possible,
            (Kind::Map(entries), Type::Map { key, value, .. }) => {
                let fits =
                    entries.iter().flat_map(|(k, v)| [k.fit_inside(key), v.fit_inside(value)]);
                fits.min().unwrap_or(Fit::Possible)
            }
            (Kind::Tuple(items), Type::Tuple(types)) => {
                fit_of_components(items.iter(), types.iter())
            }
            (Kind::Tuple(items), Type::User(user)) => {
                fit_of_components(items.iter(), user.fields.iter().map(|(_, ty)| ty))
            }
            (Kind::Group(only), Type::Tuple(types)) => {
                fit_of_components(std::iter::once(&**only), types.iter())
            }
            (Kind::Group(only), Type::User(user)) => {
                let fields = user.fields.iter().map(|(_, ty)| ty);
                only.fit(ty).max(fit_of_components(std::iter::once(&**only), fields))
            }
            (Kind::Group(only), _) => only.fit(ty),
            (Kind::User(fields), Type::User(user)) => {
                let fit = |(name, value): &(&Name, Outline<'_>)| {
                    let field = user.fields.iter().find(|(field, _)| *field == name.text);
                    field.map_or(Fit::No, |(_, ty)| value.fit(ty).min(Fit::Possible))
                };
                fields.iter().map(fit).min().unwrap_or(Fit::Possible)
            }
            (Kind::Typed(own), _) => fit_of_type(own, ty),
            (Kind::Call(choice), _) => match choice.resolve(None) {
                Ok(signature) if signature.returns == *ty => Fit::Exact,
                found => fit_of_choice(found, choice.resolve(Some(ty)), |s| &s.returns, ty),
            },
            (Kind::Operation(choice), _) => match choice.resolve(None) {
                Ok(operation) if operation.returns == *ty => Fit::Exact,
                found => fit_of_choice(found, choice.resolve(Some(ty)), |o| &o.returns, ty),
            },
            _ => Fit::No,
        }
    }

    /// How well it suits the type of a collection's element, which cannot be null.
    fn fit_inside(&self, ty: &Type) -> Fit {
        if matches!(self.expr.kind, ExprKind::Null) { Fit::No } else { self.fit(ty) }
    }

    /// The overload of a function that is meant where a value of `receiver` is expected.
    pub(super) fn signature(&self, receiver: Option<&Type>) -> Option<Result<Signature, Error>> {
        match &self.kind {
            Kind::Call(choice) => Some(choice.resolve(receiver).cloned()),
            Kind::Group(only) => only.signature(receiver),
            _ => None,
        }
    }

    /// The operation that is meant where a value of `receiver` is expected.
    pub(super) fn operation(&self, receiver: Option<&Type>) -> Option<Result<Operation, Error>> {
        match &self.kind {
            Kind::Operation(choice) => Some(choice.resolve(receiver)),
            Kind::Group(only) => only.operation(receiver),
            _ => None,
        }
    }

    /// Whether it is a bind marker.
    pub(super) fn is_marker(&self) -> bool {
        match &self.kind {
            Kind::Group(only) => only.is_marker(),
            _ => matches!(self.expr.kind, ExprKind::Marker(_)),
        }
    }

    /// As errors show it.
    pub(super) fn text(&self) -> String {
        match &self.kind {
            Kind::Group(only) => only.text(),
            _ => self.expr.to_string(),
        }
    }

    /// The type that it has by itself.
    pub(super) fn natural(&self) -> Option<Type> {
        let element = |items: &[Outline<'_>]| natural_of_all(items.iter()).map(Box::new);
        match &self.kind {
            Kind::Untyped | Kind::Expected | Kind::User(_) => None,
            Kind::Literal(constant) => Some(literal::natural_type(constant)),
            Kind::List(items) => Some(Type::List { element: element(items)?, frozen: true }),
            Kind::Set(items) => Some(Type::Set { element: element(items)?, frozen: true }),
            Kind::Map(entries) => {
                let key = Box::new(natural_of_all(entries.iter().map(|(key, _)| key))?);
                let value = Box::new(natural_of_all(entries.iter().map(|(_, value)| value))?);
                Some(Type::Map { key, value, frozen: true })
            }
            Kind::Tuple(items) => {
                let types: Option<Vec<Type>> = items.iter().map(Outline::natural).collect();
                Some(Type::Tuple(types?))
            }
            Kind::Group(only) => only.natural(),
            Kind::Typed(own) => Some(own.clone()),
            Kind::Call(choice) => Some(choice.resolve(None).ok()?.returns.clone()),
            Kind::Operation(choice) => Some(choice.resolve(None).ok()?.returns),
        }
    }
}

impl Argument for Outline<'_> {
    fn natural(&self) -> Option<Type> {
        self.natural()
    }
    fn suits(&self, ty: &Type) -> bool {
        self.fit(ty) != Fit::No
    }
    fn list_length(&self) -> Option<usize> {
        match &self.kind {
            Kind::List(items) => Some(items.len()),
            _ => None,
        }
    }
    fn text(&self) -> String {
        self.text()
    }
}

/// A call or operator that has no meaning by itself, or another type by itself. If it has none for
/// `ty` either, the error is better shown where it is prepared.
fn fit_of_choice<T>(
    by_itself: Result<T, Error>,
    found: Result<T, Error>,
    returns: impl Fn(&T) -> &Type,
    ty: &Type,
) -> Fit {
    match (by_itself, found) {
        (_, Ok(found)) => fit_of_type(returns(&found), ty).min(Fit::Possible),
        (Ok(own), Err(_)) => fit_of_type(returns(&own), ty),
        (Err(_), Err(_)) => Fit::Possible,
    }
}

fn fit_of_type(own: &Type, ty: &Type) -> Fit {
    match () {
        () if own == ty => Fit::Exact,
        () if accepts(ty, own) => Fit::Possible,
        () => Fit::No,
    }
}

/// How well components suit the types of a tuple's, of which the last may be left out.
fn fit_of_components<'o, 'e: 'o, 't>(
    items: impl ExactSizeIterator<Item = &'o Outline<'e>>,
    types: impl ExactSizeIterator<Item = &'t Type>,
) -> Fit {
    if types.len() < items.len() {
        return Fit::No;
    }
    items.zip(types).map(|(item, ty)| item.fit(ty)).min().unwrap_or(Fit::No)
}

/// How well elements suit the type of their collection's elements.
fn fit_of_all(items: &[Outline<'_>], element: &Type) -> Fit {
    items.iter().map(|item| item.fit_inside(element)).min().unwrap_or(Fit::Possible)
}

/// The type of elements by themselves: that of one which suits the others too.
fn natural_of_all<'o, 'e: 'o>(items: impl Iterator<Item = &'o Outline<'e>>) -> Option<Type> {
    let mut natural: Option<Type> = None;
    for item in items {
        match &natural {
            Some(found) if item.fit(found) != Fit::No => {}
            _ => natural = item.natural().or(natural),
        }
    }
    natural
}
