//! Expressions to terms.

use super::call::fitted;
use super::constant::value_of;
use super::outline::Fit;
use super::preparer::{Prepared, Preparer, field_of, no_type, not_a_collection, position_of};
use super::{Path, Source, Term, literal};
use crate::error::Error;
use crate::markers::Receiver;
use crate::metadata::Slot;
use crate::types;
use functions::{Aggregate, Function};
use model::Type;
use mutation::page::ColumnForm;
use std::rc::Rc;
use syntax::ast::{CellAttribute, Expr, ExprKind, Name};

impl Preparer<'_> {
    /// The term of `expr` as a value for `receiver`.
    pub fn prepare(&mut self, expr: &Expr, receiver: Receiver<'_>) -> Prepared {
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
                let Receiver { name, .. } = receiver;
                let term = self.prepare(inner, Receiver { name, ty: &hinted })?;
                fitted(term, &hinted, receiver, |given, ty| {
                    format!("Cannot assign value of type {given} to {name} of type {ty}")
                })
            }
            ExprKind::Call(call) => {
                let (term, given) = self.call(expr, call, Some(receiver.ty))?;
                fitted(term, &given, receiver, |given, ty| {
                    format!(
                        "Type error: cannot assign result of function {} (type {given}) to {} \
                         (type {ty})",
                        call.function, receiver.name
                    )
                })
            }
            ExprKind::Arithmetic(_) | ExprKind::Negate(_) => {
                let (term, given) = self.arithmetic(expr, Some(receiver.ty))?;
                fitted(term, &given, receiver, |given, ty| {
                    format!(
                        "Type error: cannot assign result of {expr} (type {given}) to {} \
                             (type {ty})",
                        receiver.name
                    )
                })
            }
            _ => {
                let (term, given) = self.select(expr)?;
                fitted(term, &given, receiver, |given, ty| {
                    format!(
                        "Type error: cannot assign value of type {given} to {} of type {ty}",
                        receiver.name
                    )
                })
            }
        }
    }

    /// The variable of a marker.
    pub fn marker(&mut self, marker: u32, receiver: Receiver<'_>) -> Term {
        let slot = self.markers.slot(receiver);
        Term::Marker(self.markers.bind(marker, &slot), slot)
    }

    /// The terms of values for one receiver; `literal`: the elements of a literal of that kind, for
    /// that column. A list may have very many markers: what they stand for is found once.
    pub fn prepare_all(
        &mut self,
        items: &[Expr],
        receiver: Receiver<'_>,
        literal: Option<(&str, &str)>,
    ) -> Result<Vec<Term>, Error> {
        let mut terms = Vec::with_capacity(items.len());
        let mut slot = None;
        for item in items {
            terms.push(match (&item.kind, literal) {
                (ExprKind::Marker(marker), _) => self.marker_of_many(*marker, receiver, &mut slot),
                (_, Some(whole)) => self.part(item, receiver, whole)?,
                (_, None) => self.prepare(item, receiver)?,
            });
        }
        Ok(terms)
    }

    /// The variable of one of many markers for one receiver: `slot` is kept from one to the next.
    pub fn marker_of_many(
        &mut self,
        marker: u32,
        receiver: Receiver<'_>,
        slot: &mut Option<Rc<Slot>>,
    ) -> Term {
        let slot = slot.get_or_insert_with(|| self.markers.slot(receiver));
        Term::Marker(self.markers.bind(marker, slot), slot.clone())
    }

    /// The term of `expr` with the type that it has by itself.
    pub fn select(&mut self, expr: &Expr) -> Result<(Term, Type), Error> {
        match &expr.kind {
            ExprKind::Column(name) => self.column(name, ColumnForm::Value),
            ExprKind::Call(call) => self.call(expr, call, None),
            ExprKind::Arithmetic(_) | ExprKind::Negate(_) => self.arithmetic(expr, None),
            ExprKind::CountRows => self.aggregate(Aggregate::CountRows, None),
            ExprKind::Cast(inner, written) => self.cast(inner, written),
            ExprKind::Field(inner, name) => {
                let (term, ty) = self.select(inner)?;
                let (index, field) = field_of(&ty, name)?;
                Ok((Term::Field(Box::new(term), index), field))
            }
            ExprKind::Element(inner, key) => self.element(inner, key),
            ExprKind::Attribute(attribute, inner) => self.attribute(*attribute, inner),
            ExprKind::Slice(inner, from, to) => self.slice(inner, from.as_deref(), to.as_deref()),
            ExprKind::Tuple(items) if items.len() == 1 => self.select(&items[0]),
            _ => {
                let ty = self.infer(expr)?.ok_or_else(no_type)?;
                let term = self.prepare(expr, Receiver { name: "[selection]", ty: &ty })?;
                Ok((term, ty))
            }
        }
    }

    fn column(&mut self, name: &Name, form: ColumnForm) -> Result<(Term, Type), Error> {
        let (index, ty) = self.input(name, form)?;
        let ty = if ty == Type::Counter { Type::BigInt } else { ty };
        Ok((Term::Column(index), ty))
    }

    fn input(&mut self, name: &Name, form: ColumnForm) -> Result<(u16, Type), Error> {
        let column = self.column_of(name)?;
        let Some(inputs) = &mut self.row else {
            return Err(Error::Invalid(format!("Column {} cannot be used here", name.text)));
        };
        Ok((inputs.add(column, form), column.ty.clone()))
    }

    fn element(&mut self, inner: &Expr, key: &Expr) -> Result<(Term, Type), Error> {
        let (term, ty) = self.select(inner)?;
        let (key_type, element) = match &ty {
            Type::Map { key, value, .. } => ((**key).clone(), (**value).clone()),
            Type::Set { element, .. } => ((**element).clone(), (**element).clone()),
            Type::List { element, .. } | Type::Vector { element, .. } => {
                (Type::Int, (**element).clone())
            }
            _ => return Err(not_a_collection(inner, &ty)),
        };
        let name = match &inner.kind {
            ExprKind::Column(name) => format!("key({})", name.text),
            _ => "key".to_owned(),
        };
        let key = self.prepare(key, Receiver { name: &name, ty: &key_type })?;
        Ok((Term::Element(Box::new(term), Rc::new(ty), Box::new(key)), element))
    }

    /// `inner[from..to]`
    fn slice(
        &mut self,
        inner: &Expr,
        from: Option<&Expr>,
        to: Option<&Expr>,
    ) -> Result<(Term, Type), Error> {
        let (term, ty) = self.select(inner)?;
        let (bound, name) = match &ty {
            Type::Map { key, .. } => (key, format!("key({inner})")),
            Type::Set { element, .. } => (element, format!("value({inner})")),
            Type::List { .. } => {
                return Err(Error::Invalid(format!(
                    "Slice selection is only allowed on sets and maps, but {inner} is a list"
                )));
            }
            _ => {
                return Err(Error::Invalid(format!(
                    "Invalid slice selection: {inner} of type {} is not a collection",
                    ty.to_cql()
                )));
            }
        };
        let mut terms = vec![term];
        for end in [from, to].into_iter().flatten() {
            terms.push(self.prepare(end, Receiver { name: &name, ty: bound })?);
        }
        let (from, to) = (from.is_some(), to.is_some());
        let function = Function::Slice { ty: ty.clone(), from, to };
        Ok((Term::Call(Rc::new(function), terms), ty))
    }

    fn attribute(&mut self, attribute: CellAttribute, inner: &Expr) -> Result<(Term, Type), Error> {
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
                _ => return Err(Error::Invalid(format!("{word} takes a column"))),
            },
            _ => return Err(Error::Invalid(format!("{word} takes a column"))),
        };
        let (index, ty) = self.input(name, ColumnForm::ValueWithTimes)?;
        let source = self.row.as_deref().map(|inputs| inputs.get(index).source);
        if let Some(Source::PartitionKey(_) | Source::Clustering(_)) = source {
            return Err(Error::Invalid(format!(
                "Cannot use selection function {word} on PRIMARY KEY part {}",
                name.text
            )));
        }
        if ty.is_multi_cell() {
            if part.is_none() && attribute != CellAttribute::MaxWriteTime {
                return Err(Error::Invalid(format!(
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
                    return Err(Error::Invalid(format!(
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

    fn list(&mut self, items: &[Expr], receiver: Receiver<'_>) -> Prepared {
        let (kind, element) = match receiver.ty {
            Type::List { element, .. } => ("list", element),
            Type::Vector { element, dimension } => {
                if items.len() != *dimension as usize {
                    return Err(Error::Invalid(format!(
                        "Invalid vector literal for {}: expected {dimension} elements but got {}",
                        receiver.name,
                        items.len()
                    )));
                }
                ("vector", element)
            }
            _ => return Err(wrong_literal("list", receiver)),
        };
        let name = format!("value({})", receiver.name);
        let part = Receiver { name: &name, ty: element };
        let parts = self.prepare_all(items, part, Some((kind, receiver.name)))?;
        fold(Term::Parts(Rc::new(receiver.ty.clone()), parts))
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
        let parts = self.prepare_all(items, part, Some(("set", receiver.name)))?;
        fold(Term::Parts(Rc::new(receiver.ty.clone()), parts))
    }

    fn map(&mut self, entries: &[(Expr, Expr)], receiver: Receiver<'_>) -> Prepared {
        let Type::Map { key, value, .. } = receiver.ty else {
            return Err(wrong_literal("map", receiver));
        };
        let key_name = format!("key({})", receiver.name);
        let value_name = format!("value({})", receiver.name);
        let key = Receiver { name: &key_name, ty: key };
        let value = Receiver { name: &value_name, ty: value };
        let whole = ("map", receiver.name);
        let (mut key_slot, mut value_slot) = (None, None);
        let mut part = |expr: &Expr, receiver, slot: &mut _| match &expr.kind {
            ExprKind::Marker(marker) => Ok(self.marker_of_many(*marker, receiver, slot)),
            _ => self.part(expr, receiver, whole),
        };
        let mut terms = Vec::with_capacity(entries.len());
        for (key_expr, value_expr) in entries {
            let key = part(key_expr, key, &mut key_slot)?;
            terms.push((key, part(value_expr, value, &mut value_slot)?));
        }
        fold(Term::Map(Rc::new(receiver.ty.clone()), terms))
    }

    /// An element of a collection literal, which is of that kind and for that column.
    fn part(&mut self, item: &Expr, receiver: Receiver<'_>, whole: (&str, &str)) -> Prepared {
        if let ExprKind::Null = item.kind {
            return Err(Error::invalid("null is not supported inside collections"));
        }
        if self.fit(item, receiver.ty)? == Fit::No {
            let part = if receiver.name.starts_with("key(") { "key" } else { "value" };
            return Err(Error::Invalid(format!(
                "Invalid {} literal for {}: {part} {item} is not of type {}",
                whole.0,
                whole.1,
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
            return Err(Error::Invalid(format!(
                "Unknown field '{}' in value of user defined type {}",
                unknown.text, user.name
            )));
        }
        let mut parts = Vec::with_capacity(user.fields.len());
        for (field, ty) in &user.fields {
            let given = fields.iter().rev().find(|(name, _)| name.text == *field);
            let name = format!("{}.{field}", receiver.name);
            parts.push(match given {
                Some((_, expr)) if self.fit(expr, ty)? == Fit::No => {
                    return Err(Error::Invalid(format!(
                        "Invalid user type literal for {}: field {field} is not of type {}",
                        receiver.name,
                        ty.to_cql()
                    )));
                }
                Some((_, expr)) => self.prepare(expr, Receiver { name: &name, ty })?,
                None => Term::Null,
            });
        }
        fold(Term::Parts(Rc::new(receiver.ty.clone()), parts))
    }

    /// `(a, b)`, a tuple or a user type by the order of its fields; or `(a)`, where brackets may be
    /// no more than that.
    fn tuple(&mut self, items: &[Expr], receiver: Receiver<'_>) -> Prepared {
        let types: Vec<&Type> = match (receiver.ty, items) {
            (Type::Tuple(types), _) => types.iter().collect(),
            (Type::User(_), [only]) if self.fit(only, receiver.ty)? != Fit::No => {
                return self.prepare(only, receiver);
            }
            (Type::User(user), _) => user.fields.iter().map(|(_, ty)| ty).collect(),
            (_, [only]) => return self.prepare(only, receiver),
            _ => return Err(wrong_literal("tuple type", receiver)),
        };
        if types.len() < items.len() {
            return Err(Error::Invalid(format!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
                receiver.name,
                receiver.ty.to_cql(),
                types.len(),
                items.len()
            )));
        }
        let mut parts = Vec::with_capacity(items.len());
        for (index, (item, ty)) in items.iter().zip(&types).enumerate() {
            if self.fit(item, ty)? == Fit::No {
                return Err(Error::Invalid(format!(
                    "Invalid tuple literal for {}: component {index} is not of type {}",
                    receiver.name,
                    ty.to_cql()
                )));
            }
            let name = format!("{}[{index}]", receiver.name);
            parts.push(self.prepare(item, Receiver { name: &name, ty })?);
        }
        if matches!(receiver.ty, Type::User(_)) {
            parts.resize(types.len(), Term::Null);
        }
        fold(Term::Parts(Rc::new(receiver.ty.clone()), parts))
    }
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
    Ok(value_of(&term)?.map_or(Term::Null, Term::constant))
}

fn wrong_literal(kind: &str, receiver: Receiver<'_>) -> Error {
    Error::Invalid(format!(
        "Invalid {kind} literal for {} of type {}",
        receiver.name,
        receiver.ty.to_cql()
    ))
}
