//! Expressions to terms.

use super::{Inputs, Marker, Path, Source, Term, literal};
use crate::error::CqlError;
use crate::functions::{Aggregate, Cast, Found, Function, Signature, find};
use crate::markers::Markers;
use crate::parameters::Value;
use crate::syntax::ast::{Call, CellAttribute, Expr, ExprKind, Name};
use crate::types;
use cluster::Schema;
use model::types::UserTypeRef;
use model::{TableSchema, Type};
use mutation::page::ColumnForm;
use std::rc::Rc;

/// What a term is for: a column, an argument, a part of those.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver<'a> {
    /// As errors and bind markers call it.
    pub(crate) name: &'a str,
    /// The type expected.
    pub(crate) ty: &'a Type,
}

/// Makes terms of the expressions of one statement.
pub(crate) struct Preparer<'a> {
    pub(crate) schema: &'a Schema,
    /// Where unqualified types are.
    pub(crate) keyspace: &'a str,
    /// The table of the statement, for `token`.
    pub(crate) table: Option<&'a TableSchema>,
    pub(crate) markers: &'a mut Markers,
    /// Where terms may refer to a row: what they need of it.
    pub(crate) row: Option<&'a mut Inputs>,
    /// Where aggregates may stand: those found, with their arguments.
    pub(crate) aggregates: Option<&'a mut Vec<(Aggregate, Option<Term>)>>,
}

/// How well an expression suits a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    No,
    Possible,
    Exact,
}

type Prepared = Result<Term, CqlError>;

impl Preparer<'_> {
    /// The term of `expr` as a value for `receiver`.
    pub(crate) fn prepare(&mut self, expr: &Expr, receiver: Receiver<'_>) -> Prepared {
        match &expr.kind {
            ExprKind::Null => Ok(Term::Null),
            ExprKind::Literal(constant) => {
                Ok(Term::constant(literal::bytes(constant, receiver.name, receiver.ty)?))
            }
            ExprKind::Marker(marker) => Ok(self.marker(*marker, receiver)),
            ExprKind::List(items) => self.list(items, receiver),
            ExprKind::Set(items) => self.set(items, receiver),
            ExprKind::Map(entries) => self.map(entries, receiver),
            ExprKind::UserType(fields) => self.user_type(fields, receiver),
            ExprKind::Tuple(items) => self.tuple(items, receiver),
            ExprKind::Hint(written, inner) => {
                let hinted = types::resolve(self.schema, self.keyspace, written)?;
                if !accepts(receiver.ty, &hinted) {
                    return Err(CqlError::Invalid(format!(
                        "Cannot assign value of type {} to {} of type {}",
                        hinted.to_cql(),
                        receiver.name,
                        receiver.ty.to_cql()
                    )));
                }
                self.prepare(inner, Receiver { name: receiver.name, ty: &hinted })
            }
            ExprKind::Call(call) => self.call(call, Some(receiver)).map(|(term, _)| term),
            ExprKind::Arithmetic(_) | ExprKind::Negate(_) => {
                Err(CqlError::invalid("Arithmetic is not supported yet"))
            }
            _ => {
                let (term, ty) = self.select(expr)?;
                if !accepts(receiver.ty, &ty) {
                    return Err(CqlError::Invalid(format!(
                        "Type error: cannot assign value of type {} to {} of type {}",
                        ty.to_cql(),
                        receiver.name,
                        receiver.ty.to_cql()
                    )));
                }
                Ok(term)
            }
        }
    }

    /// The variable of a marker.
    pub(crate) fn marker(&mut self, marker: u32, receiver: Receiver<'_>) -> Term {
        let ty = receiver.ty;
        let variable = self.markers.bind(marker, receiver.name, ty);
        let has_order = ty.any(&|ty| matches!(ty, Type::Set { .. } | Type::Map { .. }));
        Term::Marker(Rc::new(Marker {
            variable,
            ty: ty.clone(),
            name: Rc::from(receiver.name),
            has_order,
        }))
    }

    /// The term of `expr` with the type that it has by itself.
    pub(crate) fn select(&mut self, expr: &Expr) -> Result<(Term, Type), CqlError> {
        match &expr.kind {
            ExprKind::Column(name) => self.column(name, ColumnForm::Value),
            ExprKind::Call(call) => self.call(call, None),
            ExprKind::CountRows => self.aggregate(Aggregate::CountRows, None),
            ExprKind::Cast(inner, written) => {
                let (term, from) = self.select(inner)?;
                let to = types::resolve(self.schema, self.keyspace, written)?;
                let Some(cast) = Cast::between(&from, &to) else {
                    let text = format!("{} cannot be cast to {}", from.to_cql(), to.to_cql());
                    return Err(CqlError::Invalid(text));
                };
                Ok((Term::Call(Rc::new(Function::Cast(cast)), vec![term]), to))
            }
            ExprKind::Field(inner, name) => {
                let (term, ty) = self.select(inner)?;
                let (index, field) = field_of(&ty, name)?;
                Ok((Term::Field(Box::new(term), index), field))
            }
            ExprKind::Element(inner, key) => self.element(inner, key),
            ExprKind::Attribute(attribute, inner) => self.attribute(*attribute, inner),
            ExprKind::Slice(..) => Err(CqlError::invalid("Slices are not supported")),
            ExprKind::Tuple(items) if items.len() == 1 => self.select(&items[0]),
            _ => {
                let Some(ty) = self.infer(expr) else {
                    let text = "Cannot infer type for a value in the selection clause (try using \
                                a cast to force a type)";
                    return Err(CqlError::invalid(text));
                };
                let term = self.prepare(expr, Receiver { name: "[selection]", ty: &ty })?;
                Ok((term, ty))
            }
        }
    }

    fn column(&mut self, name: &Name, form: ColumnForm) -> Result<(Term, Type), CqlError> {
        let (index, ty) = self.input(name, form)?;
        let ty = if ty == Type::Counter { Type::BigInt } else { ty };
        Ok((Term::Column(index), ty))
    }

    fn input(&mut self, name: &Name, form: ColumnForm) -> Result<(u16, Type), CqlError> {
        let found = self.table.and_then(|table| table.column(&name.text));
        let column =
            found.ok_or_else(|| CqlError::Invalid(format!("Unrecognized name {}", name.text)))?;
        let Some(inputs) = &mut self.row else {
            return Err(CqlError::Invalid(format!("Column {} cannot stand here", name.text)));
        };
        Ok((inputs.add(column, form), column.ty.clone()))
    }

    fn element(&mut self, inner: &Expr, key: &Expr) -> Result<(Term, Type), CqlError> {
        let (term, ty) = self.select(inner)?;
        let (key_type, element) = match &ty {
            Type::Map { key, value, .. } => ((**key).clone(), (**value).clone()),
            Type::Set { element, .. } => ((**element).clone(), (**element).clone()),
            Type::List { element, .. } | Type::Vector { element, .. } => {
                (Type::Int, (**element).clone())
            }
            _ => {
                return Err(not_a_collection(inner, &ty));
            }
        };
        let name = match &inner.kind {
            ExprKind::Column(name) => format!("key({})", name.text),
            _ => "key".to_owned(),
        };
        let key = self.prepare(key, Receiver { name: &name, ty: &key_type })?;
        Ok((Term::Element(Box::new(term), Rc::new(ty), Box::new(key)), element))
    }

    fn attribute(
        &mut self,
        attribute: CellAttribute,
        inner: &Expr,
    ) -> Result<(Term, Type), CqlError> {
        let returns = match attribute {
            CellAttribute::Ttl => Type::Int,
            CellAttribute::WriteTime | CellAttribute::MaxWriteTime => Type::BigInt,
        };
        let word = match attribute {
            CellAttribute::Ttl => "TTL",
            CellAttribute::WriteTime => "WRITETIME",
            CellAttribute::MaxWriteTime => "MAXWRITETIME",
        };
        let (name, part) = match &inner.kind {
            ExprKind::Column(name) => (name, None),
            ExprKind::Element(column, _) | ExprKind::Field(column, _) => match &column.kind {
                ExprKind::Column(name) => (name, Some(inner)),
                _ => return Err(CqlError::Invalid(format!("{word} takes a column"))),
            },
            _ => return Err(CqlError::Invalid(format!("{word} takes a column"))),
        };
        let (index, ty) = self.input(name, ColumnForm::ValueWithTimes)?;
        let source = self.row.as_deref().map(|inputs| inputs.get(index).source);
        if let Some(Source::PartitionKey(_) | Source::Clustering(_)) = source {
            return Err(CqlError::Invalid(format!(
                "Cannot use selection function {word} on PRIMARY KEY part {}",
                name.text
            )));
        }
        if ty.is_multi_cell() {
            if part.is_none() && attribute != CellAttribute::MaxWriteTime {
                return Err(CqlError::Invalid(format!(
                    "Cannot use selection function {word} on non-frozen collections and UDTs ({})",
                    name.text
                )));
            }
            self.input(name, ColumnForm::Blob)?;
        }
        let path = match part.map(|part| &part.kind) {
            Some(ExprKind::Field(_, field)) => Some(Path::Field(field_of(&ty, field)?.0 as u16)),
            Some(ExprKind::Element(_, key)) => {
                if !ty.is_collection() {
                    return Err(not_a_collection(&name.text, &ty));
                }
                let is_list = matches!(ty, Type::List { .. });
                let Some(path) = ty.path_type().filter(|_| ty.is_multi_cell() && !is_list) else {
                    return Err(CqlError::Invalid(format!(
                        "Element selection in {word} is not supported for column {} of type {}",
                        name.text,
                        ty.to_cql()
                    )));
                };
                let receiver = Receiver { name: &format!("key({})", name.text), ty: &path };
                let key = self.prepare(key, receiver)?;
                Some(Path::Key(Rc::new(path), key))
            }
            _ => None,
        };
        Ok((Term::Attribute(attribute, index, path.map(Box::new)), returns))
    }

    fn aggregate(
        &mut self,
        aggregate: Aggregate,
        argument: Option<Term>,
    ) -> Result<(Term, Type), CqlError> {
        let Some(aggregates) = &mut self.aggregates else {
            return Err(CqlError::invalid(
                "Aggregation functions are not supported outside of the select clause",
            ));
        };
        let returns = aggregate.returns();
        aggregates.push((aggregate, argument));
        Ok((Term::Aggregate((aggregates.len() - 1) as u16), returns))
    }

    fn call(
        &mut self,
        call: &Call,
        receiver: Option<Receiver<'_>>,
    ) -> Result<(Term, Type), CqlError> {
        let name = call.function.name.text.as_str();
        let is_ours = call.function.keyspace.as_ref().is_none_or(|ks| ks.text == "system");
        let found = if is_ours { find(name, self.table) } else { None };
        let Some(found) = found else {
            return Err(CqlError::Invalid(format!("Unknown function '{}'", shown(call))));
        };
        let (term, returns) = match found {
            Found::Scalars(overloads) => self.scalar(call, &overloads)?,
            Found::Aggregate(make) => self.aggregate_call(call, make)?,
            Found::ToJson => {
                let [argument] = &call.arguments[..] else {
                    return Err(wrong_count(call, 1));
                };
                let (term, ty) = self.select(argument)?;
                (Term::Call(Rc::new(Function::ToJson(ty)), vec![term]), Type::Text)
            }
            Found::FromJson => {
                let ([argument], Some(receiver)) = (&call.arguments[..], receiver) else {
                    let text = "fromJson() takes one argument, where a value is expected";
                    return Err(CqlError::invalid(text));
                };
                let name = format!("arg0({})", shown(call));
                let text = self.prepare(argument, Receiver { name: &name, ty: &Type::Text })?;
                let function = Function::FromJson(receiver.ty.clone());
                (Term::Call(Rc::new(function), vec![text]), receiver.ty.clone())
            }
        };
        if let Some(receiver) = receiver
            && !accepts(receiver.ty, &returns)
        {
            return Err(CqlError::Invalid(format!(
                "Type error: cannot assign result of function {} (type {}) to {} (type {})",
                shown(call),
                returns.to_cql(),
                receiver.name,
                receiver.ty.to_cql()
            )));
        }
        Ok((term, returns))
    }

    fn aggregate_call(
        &mut self,
        call: &Call,
        make: fn(Type) -> Option<Aggregate>,
    ) -> Result<(Term, Type), CqlError> {
        let [argument] = &call.arguments[..] else { return Err(wrong_count(call, 1)) };
        if let ExprKind::Marker(_) = argument.kind {
            return Err(CqlError::Invalid(format!(
                "Invalid call to function {}: it is only valid when argument types are known",
                shown(call)
            )));
        }
        let outer = self.aggregates.take();
        let inner = self.select(argument);
        self.aggregates = outer;
        let (term, ty) = inner?;
        let Some(aggregate) = make(ty.clone()) else {
            return Err(CqlError::Invalid(format!(
                "Invalid call to function {}, none of its type signatures match (type {})",
                shown(call),
                ty.to_cql()
            )));
        };
        self.aggregate(aggregate, Some(term))
    }

    fn scalar(&mut self, call: &Call, overloads: &[Signature]) -> Result<(Term, Type), CqlError> {
        let chosen = self.choose(call, overloads)?;
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for (index, (argument, ty)) in call.arguments.iter().zip(&chosen.arguments).enumerate() {
            let name = format!("arg{index}({})", shown(call));
            arguments.push(self.prepare(argument, Receiver { name: &name, ty })?);
        }
        Ok((Term::Call(Rc::new(chosen.function.clone()), arguments), chosen.returns.clone()))
    }

    fn choose<'o>(
        &self,
        call: &Call,
        overloads: &'o [Signature],
    ) -> Result<&'o Signature, CqlError> {
        let count = call.arguments.len();
        if let [only] = overloads {
            if only.arguments.len() != count {
                return Err(wrong_count(call, only.arguments.len()));
            }
            for (index, (argument, ty)) in call.arguments.iter().zip(&only.arguments).enumerate() {
                if self.fit(argument, ty) == Fit::No {
                    if let ExprKind::Column(name) = &argument.kind
                        && self.table.is_some_and(|table| table.column(&name.text).is_none())
                    {
                        return Err(CqlError::Invalid(format!("Unrecognized name {}", name.text)));
                    }
                    return Err(CqlError::Invalid(format!(
                        "Type error: {} cannot be passed as argument {index} of function {} of \
                         type {}",
                        describe(argument),
                        shown(call),
                        ty.to_cql()
                    )));
                }
            }
            return Ok(only);
        }
        let mut best: Vec<&Signature> = Vec::new();
        let mut best_fit = Fit::Possible;
        for overload in overloads.iter().filter(|overload| overload.arguments.len() == count) {
            let fits = call.arguments.iter().zip(&overload.arguments);
            let fit = fits.map(|(argument, ty)| self.fit(argument, ty)).min();
            let fit = fit.unwrap_or(Fit::Exact);
            if best_fit < fit {
                best.clear();
                best_fit = fit;
            }
            if fit == best_fit {
                best.push(overload);
            }
        }
        match best[..] {
            [only] => Ok(only),
            [] => Err(CqlError::Invalid(format!(
                "Invalid call to function {}, none of its type signatures match (known type \
                 signatures: {})",
                shown(call),
                signatures(call, overloads.iter())
            ))),
            _ => Err(CqlError::Invalid(format!(
                "Ambiguous call to function {} (can be matched by following signatures: {}): use \
                 type casts to disambiguate",
                shown(call),
                signatures(call, best.into_iter())
            ))),
        }
    }

    fn fit(&self, expr: &Expr, ty: &Type) -> Fit {
        let all = |items: &[Expr], ty: &Type| match items.iter().all(|e| self.fit(e, ty) != Fit::No)
        {
            true => Fit::Possible,
            false => Fit::No,
        };
        match (&expr.kind, ty) {
            (ExprKind::Null | ExprKind::Marker(_), _) => Fit::Possible,
            (ExprKind::Literal(constant), _) if !literal::fits(constant.kind, ty) => Fit::No,
            (ExprKind::Literal(constant), _) if literal::natural_type(constant) == *ty => {
                Fit::Exact
            }
            (ExprKind::Literal(_), _) => Fit::Possible,
            (ExprKind::List(items), Type::List { element, .. } | Type::Vector { element, .. }) => {
                all(items, element)
            }
            (ExprKind::Set(items), Type::Set { element, .. }) => all(items, element),
            (ExprKind::Set(items), Type::Map { .. }) if items.is_empty() => Fit::Possible,
            (ExprKind::Map(_), Type::Map { .. }) | (ExprKind::UserType(_), Type::User(_)) => {
                Fit::Possible
            }
            (ExprKind::Tuple(items), Type::Tuple(_)) if !items.is_empty() => Fit::Possible,
            (ExprKind::Tuple(items), _) if items.len() == 1 => self.fit(&items[0], ty),
            _ => match self.infer(expr) {
                Some(own) if own == *ty => Fit::Exact,
                Some(own) if accepts(ty, &own) => Fit::Possible,
                _ => Fit::No,
            },
        }
    }

    /// The type that an expression has by itself.
    fn infer(&self, expr: &Expr) -> Option<Type> {
        match &expr.kind {
            ExprKind::Literal(constant) => Some(literal::natural_type(constant)),
            ExprKind::Hint(written, _) | ExprKind::Cast(_, written) => {
                types::resolve(self.schema, self.keyspace, written).ok()
            }
            ExprKind::Column(name) => {
                let ty = self.table?.column(&name.text)?.ty.clone();
                Some(if ty == Type::Counter { Type::BigInt } else { ty })
            }
            ExprKind::Field(inner, name) => Some(field_of(&self.infer(inner)?, name).ok()?.1),
            ExprKind::Element(inner, _) => match self.infer(inner)? {
                Type::Map { value, .. } => Some(*value),
                Type::Set { element, .. }
                | Type::List { element, .. }
                | Type::Vector { element, .. } => Some(*element),
                _ => None,
            },
            ExprKind::CountRows => Some(Type::BigInt),
            ExprKind::Attribute(CellAttribute::Ttl, _) => Some(Type::Int),
            ExprKind::Attribute(..) => Some(Type::BigInt),
            ExprKind::Call(call) => match find(&call.function.name.text, self.table)? {
                Found::Scalars(overloads) => {
                    Some(self.choose(call, &overloads).ok()?.returns.clone())
                }
                Found::Aggregate(make) => {
                    Some(make(self.infer(call.arguments.first()?)?)?.returns())
                }
                Found::ToJson => Some(Type::Text),
                Found::FromJson => None,
            },
            ExprKind::List(items) => {
                let element = Box::new(self.infer(items.first()?)?);
                Some(Type::List { element, frozen: true })
            }
            ExprKind::Set(items) => {
                let element = Box::new(self.infer(items.first()?)?);
                Some(Type::Set { element, frozen: true })
            }
            ExprKind::Map(entries) => {
                let (key, value) = entries.first()?;
                let (key, value) = (Box::new(self.infer(key)?), Box::new(self.infer(value)?));
                Some(Type::Map { key, value, frozen: true })
            }
            ExprKind::Tuple(items) => {
                let items: Option<Vec<Type>> = items.iter().map(|item| self.infer(item)).collect();
                Some(Type::Tuple(items?))
            }
            _ => None,
        }
    }

    fn list(&mut self, items: &[Expr], receiver: Receiver<'_>) -> Prepared {
        let element = match receiver.ty {
            Type::List { element, .. } => element,
            Type::Vector { element, dimension } => {
                if items.len() != *dimension as usize {
                    return Err(CqlError::Invalid(format!(
                        "Invalid vector literal for {}: expected {dimension} elements but got {}",
                        receiver.name,
                        items.len()
                    )));
                }
                element
            }
            _ => return Err(wrong_literal("list", receiver)),
        };
        let name = format!("value({})", receiver.name);
        let part = Receiver { name: &name, ty: element };
        let parts: Result<Vec<Term>, CqlError> =
            items.iter().map(|item| self.part(item, part, "list")).collect();
        fold(Term::Parts(Rc::new(receiver.ty.clone()), parts?))
    }

    fn set(&mut self, items: &[Expr], receiver: Receiver<'_>) -> Prepared {
        let element = match receiver.ty {
            Type::Set { element, .. } => element,
            Type::Map { .. } if items.is_empty() => {
                return fold(Term::Map(Rc::new(receiver.ty.clone()), Vec::new()));
            }
            _ => return Err(wrong_literal("set", receiver)),
        };
        let name = format!("value({})", receiver.name);
        let part = Receiver { name: &name, ty: element };
        let parts: Result<Vec<Term>, CqlError> =
            items.iter().map(|item| self.part(item, part, "set")).collect();
        fold(Term::Parts(Rc::new(receiver.ty.clone()), parts?))
    }

    fn map(&mut self, entries: &[(Expr, Expr)], receiver: Receiver<'_>) -> Prepared {
        let Type::Map { key, value, .. } = receiver.ty else {
            return Err(wrong_literal("map", receiver));
        };
        let key_name = format!("key({})", receiver.name);
        let value_name = format!("value({})", receiver.name);
        let mut terms = Vec::with_capacity(entries.len());
        for (key_expr, value_expr) in entries {
            let key = self.part(key_expr, Receiver { name: &key_name, ty: key }, "map")?;
            let value = self.part(value_expr, Receiver { name: &value_name, ty: value }, "map")?;
            terms.push((key, value));
        }
        fold(Term::Map(Rc::new(receiver.ty.clone()), terms))
    }

    fn part(&mut self, item: &Expr, receiver: Receiver<'_>, kind: &str) -> Prepared {
        if let ExprKind::Null = item.kind {
            return Err(CqlError::invalid("null is not supported inside collections"));
        }
        if self.fit(item, receiver.ty) == Fit::No && !matches!(item.kind, ExprKind::Literal(_)) {
            return Err(CqlError::Invalid(format!(
                "Invalid {kind} literal: {} is not of type {}",
                describe(item),
                receiver.ty.to_cql()
            )));
        }
        self.prepare(item, receiver)
    }

    fn user_type(&mut self, fields: &[(Name, Expr)], receiver: Receiver<'_>) -> Prepared {
        let Type::User(user) = receiver.ty else {
            return Err(wrong_literal("user type", receiver));
        };
        if let Some((unknown, _)) =
            fields.iter().find(|(name, _)| position_of(user, name).is_none())
        {
            return Err(CqlError::Invalid(format!(
                "Unknown field '{}' in value of user defined type {}",
                unknown.text, user.name
            )));
        }
        let mut parts = Vec::with_capacity(user.fields.len());
        for (field, ty) in &user.fields {
            let given = fields.iter().rev().find(|(name, _)| name.text == *field);
            let name = format!("{}.{field}", receiver.name);
            parts.push(match given {
                Some((_, expr)) => self.prepare(expr, Receiver { name: &name, ty })?,
                None => Term::Null,
            });
        }
        fold(Term::Parts(Rc::new(receiver.ty.clone()), parts))
    }

    fn tuple(&mut self, items: &[Expr], receiver: Receiver<'_>) -> Prepared {
        let Type::Tuple(types) = receiver.ty else {
            return match items {
                [only] => self.prepare(only, receiver),
                _ => Err(wrong_literal("tuple type", receiver)),
            };
        };
        if types.len() < items.len() {
            return Err(CqlError::Invalid(format!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
                receiver.name,
                receiver.ty.to_cql(),
                types.len(),
                items.len()
            )));
        }
        let mut parts = Vec::with_capacity(items.len());
        for (index, (item, ty)) in items.iter().zip(types).enumerate() {
            let name = format!("{}[{index}]", receiver.name);
            parts.push(self.prepare(item, Receiver { name: &name, ty })?);
        }
        fold(Term::Parts(Rc::new(receiver.ty.clone()), parts))
    }
}

/// Whether a value of type `given` may stand where one of `expected` is.
pub(super) fn accepts(expected: &Type, given: &Type) -> bool {
    let (expected, given) = (expected.freeze(), given.freeze());
    expected == given
        || (expected == Type::Counter && given == Type::BigInt)
        || expected.is_value_compatible_with(&given)
}

/// A literal of constants is a constant.
fn fold(term: Term) -> Prepared {
    let constant = match &term {
        Term::Parts(_, parts) => parts.iter().all(Term::is_constant),
        Term::Map(_, entries) => entries.iter().all(|(k, v)| k.is_constant() && v.is_constant()),
        _ => false,
    };
    if !constant {
        return Ok(term);
    }
    let ids = crate::ids::Ids::new(0); // Constants ask for none.
    let values: [Value<'_>; 0] = [];
    let bytes = term.evaluate(&super::Env::new(&values, 0, &ids))?.bytes().map(<[u8]>::to_vec);
    Ok(bytes.map_or(Term::Null, Term::constant))
}

fn position_of(user: &UserTypeRef, name: &Name) -> Option<usize> {
    user.fields.iter().position(|(field, _)| *field == name.text)
}

/// The index and type of a user type's field.
pub(super) fn field_of(ty: &Type, name: &Name) -> Result<(usize, Type), CqlError> {
    let Type::User(user) = ty else {
        let text = format!("Invalid field selection: type {} is not a user type", ty.to_cql());
        return Err(CqlError::Invalid(text));
    };
    match position_of(user, name) {
        Some(index) => Ok((index, user.fields[index].1.clone())),
        None => Err(CqlError::Invalid(format!(
            "{} of type {} has no field {}",
            user.name, user.name, name.text
        ))),
    }
}

fn not_a_collection(what: impl std::fmt::Display, ty: &Type) -> CqlError {
    let ty = ty.to_cql();
    CqlError::Invalid(format!(
        "Invalid element selection: {what} is of type {ty}, not a collection"
    ))
}

fn wrong_literal(kind: &str, receiver: Receiver<'_>) -> CqlError {
    CqlError::Invalid(format!(
        "Invalid {kind} literal for {} of type {}",
        receiver.name,
        receiver.ty.to_cql()
    ))
}

fn wrong_count(call: &Call, required: usize) -> CqlError {
    CqlError::Invalid(format!(
        "Invalid number of arguments in call to function {}: {required} required but {} provided",
        shown(call),
        call.arguments.len()
    ))
}

fn shown(call: &Call) -> String {
    match &call.function.keyspace {
        Some(keyspace) => format!("{}.{}", keyspace.text, call.function.name.text),
        None => format!("system.{}", call.function.name.text),
    }
}

fn signatures<'o>(call: &Call, overloads: impl Iterator<Item = &'o Signature>) -> String {
    let shown_one = |overload: &Signature| {
        let types: Vec<String> = overload.arguments.iter().map(Type::to_cql).collect();
        format!("{} : ({}) -> {}", shown(call), types.join(", "), overload.returns.to_cql())
    };
    overloads.map(shown_one).collect::<Vec<_>>().join(", ")
}

/// An expression as errors show it.
fn describe(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Null => "null".to_owned(),
        ExprKind::Literal(constant) => constant.text.clone(),
        ExprKind::Marker(_) => "?".to_owned(),
        ExprKind::Column(name) => name.text.clone(),
        ExprKind::Call(call) => format!("{}(..)", call.function.name.text),
        ExprKind::List(_) => "[..]".to_owned(),
        ExprKind::Set(_) | ExprKind::Map(_) | ExprKind::UserType(_) => "{..}".to_owned(),
        ExprKind::Tuple(_) => "(..)".to_owned(),
        _ => "the expression".to_owned(),
    }
}
