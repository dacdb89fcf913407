//! The relations of a `WHERE`, checked one by one and gathered per column.

use super::InList;
use super::filter::{Filter, Test};
use crate::error::CqlError;
use crate::syntax::ast;
use crate::syntax::ast::{
    ColumnPath, Comparison, Expr, ExprKind, InValues, Name, Relation, Subject,
};
use crate::term::{Inputs, Preparer, Receiver, Term};
use model::{Column, ColumnKind, TableSchema, Type};
use mutation::page::ColumnForm;

/// A bound of a range.
#[derive(Clone, Debug)]
pub(crate) struct Bound<T> {
    pub(crate) value: T,
    pub(crate) inclusive: bool,
}

/// What is said about one column.
#[derive(Clone, Debug)]
pub(super) enum Restriction<T> {
    Equal(T),
    In(InList),
    Slice { lower: Option<Bound<T>>, upper: Option<Bound<T>> },
}

/// The values for several columns.
#[derive(Clone, Debug)]
pub(crate) enum Tuple {
    /// One by one.
    Parts(Vec<Term>),
    /// One tuple.
    Whole(Term),
}

/// The value lists for several columns.
#[derive(Clone, Debug)]
pub(crate) enum TupleList {
    Tuples(Vec<Tuple>),
    /// A list of tuples.
    Whole(Term),
}

/// What is said about several clustering columns together.
#[derive(Clone, Debug)]
pub(super) enum MultiRestriction {
    Equal(Tuple),
    In(TupleList),
    Slice { lower: Option<Bound<Tuple>>, upper: Option<Bound<Tuple>> },
}

/// All that a `WHERE` says.
#[derive(Debug, Default)]
pub(super) struct Relations {
    /// By index of the table's columns.
    pub(super) single: Vec<Option<Restriction<Term>>>,
    /// The first clustering column and how many, with what is said.
    pub(super) multi: Vec<(usize, usize, MultiRestriction)>,
    pub(super) token: Option<Restriction<Term>>,
    /// What can only be filtered: CONTAINS, LIKE, elements.
    pub(super) filters: Vec<Filter>,
}

/// The most relations in one `WHERE`.
const RELATIONS_MAX: usize = 100;

pub(super) fn gather(
    table: &TableSchema,
    relations: &[Relation],
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
) -> Result<Relations, CqlError> {
    if RELATIONS_MAX < relations.len() {
        return Err(CqlError::Invalid(format!(
            "Number of relations in WHERE clause ({}) exceeds the maximum of {RELATIONS_MAX}",
            relations.len()
        )));
    }
    let mut out = Relations { single: vec![None; table.columns.len()], ..Relations::default() };
    for relation in relations {
        match &relation.subject {
            Subject::Path(ColumnPath::Column(name)) => {
                single(table, name, &relation.test, preparer, inputs, &mut out)?;
            }
            Subject::Path(ColumnPath::Element(name, key)) => {
                let column = find(table, name)?;
                out.filters.push(element(column, key, &relation.test, preparer, inputs)?);
            }
            Subject::Path(ColumnPath::Field(..)) => {
                return Err(CqlError::invalid(
                    "Restrictions on the fields of user types are not supported in WHERE",
                ));
            }
            Subject::Columns(names) => multi(table, names, &relation.test, preparer, &mut out)?,
            Subject::Token(names) => token(table, names, &relation.test, preparer, &mut out)?,
            Subject::Call(call) => {
                return Err(CqlError::Invalid(format!(
                    "Restrictions on the function {} are not supported yet",
                    call.function.name.text
                )));
            }
        }
    }
    Ok(out)
}

pub(crate) fn find<'t>(table: &'t TableSchema, name: &Name) -> Result<&'t Column, CqlError> {
    let unknown = || CqlError::Invalid(format!("Unrecognized name {}", name.text));
    table.column(&name.text).ok_or_else(unknown)
}

fn index_of(table: &TableSchema, column: &Column) -> usize {
    let found = table.columns.iter().position(|other| other.id == column.id);
    found.expect("a column of this table")
}

fn single(
    table: &TableSchema,
    name: &Name,
    test: &ast::Test,
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
    out: &mut Relations,
) -> Result<(), CqlError> {
    let column = find(table, name)?;
    check_type(column, test)?;
    let receiver = Receiver { name: &column.name, ty: &column.ty };
    let slot = &mut out.single[index_of(table, column)];
    match test {
        ast::Test::Compare(Comparison::NotEqual, _) => {
            return Err(CqlError::Invalid(format!(
                "Unsupported \"!=\" relation: {} !=",
                name.text
            )));
        }
        ast::Test::Compare(Comparison::Equal, value) => {
            if slot.is_some() {
                return Err(more_than_one(&column.name, "an Equal"));
            }
            let term = preparer.prepare(value, receiver)?;
            if let Term::Marker(marker) = &term
                && column.kind == ColumnKind::PartitionKey
            {
                preparer.markers.is_key(marker.variable, column.position as usize);
            }
            *slot = Some(Restriction::Equal(term));
        }
        ast::Test::Compare(comparison, value) => {
            let term = preparer.prepare(value, receiver)?;
            *slot = Some(add_bound(slot.take(), *comparison, term, &column.name)?);
        }
        ast::Test::In(values) => {
            if slot.is_some() {
                return Err(more_than_one(&column.name, "a IN"));
            }
            *slot = Some(Restriction::In(in_list(values, receiver, preparer)?));
        }
        ast::Test::NotIn(_) => return Err(CqlError::invalid("NOT IN is not supported yet")),
        ast::Test::IsNotNull | ast::Test::IsNull => {
            return Err(CqlError::Invalid(format!(
                "restriction '{} IS NOT NULL' is only supported in materialized view creation",
                name.text
            )));
        }
        ast::Test::Contains(_) | ast::Test::ContainsKey(_) | ast::Test::Like(_) => {
            out.filters.push(search(column, test, preparer, inputs)?);
        }
    }
    Ok(())
}

fn check_type(column: &Column, test: &ast::Test) -> Result<(), CqlError> {
    let operator = match test {
        ast::Test::Compare(comparison, _) => symbol(*comparison),
        ast::Test::In(_) => "IN",
        _ => return Ok(()),
    };
    if column.ty.is_multi_cell() && column.ty.is_collection() {
        return Err(CqlError::Invalid(format!(
            "Collection column '{}' ({}) cannot be restricted by a '{operator}' relation",
            column.name,
            column.ty.to_cql()
        )));
    }
    if column.ty.is_multi_cell() {
        return Err(CqlError::Invalid(format!(
            "Non-frozen UDT column '{}' ({}) cannot be restricted by a '{operator}' relation",
            column.name,
            column.ty.to_cql()
        )));
    }
    let is_slice = matches!(operator, "<" | "<=" | ">" | ">=");
    if is_slice && column.ty.mentions_duration() {
        return Err(CqlError::invalid("Slice restrictions are not supported on duration columns"));
    }
    Ok(())
}

pub(crate) fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

fn more_than_one(name: &str, what: &str) -> CqlError {
    CqlError::Invalid(format!(
        "{name} cannot be restricted by more than one relation if it includes {what}"
    ))
}

fn add_bound<T>(
    present: Option<Restriction<T>>,
    comparison: Comparison,
    value: T,
    name: &str,
) -> Result<Restriction<T>, CqlError> {
    let (mut lower, mut upper) = match present {
        None => (None, None),
        Some(Restriction::Slice { lower, upper }) => (lower, upper),
        Some(Restriction::Equal(_)) => return Err(more_than_one(name, "an Equal")),
        Some(Restriction::In(_)) => return Err(more_than_one(name, "a IN")),
    };
    let inclusive = matches!(comparison, Comparison::LessOrEqual | Comparison::GreaterOrEqual);
    let is_lower = matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
    let (slot, which) = if is_lower { (&mut lower, "start") } else { (&mut upper, "end") };
    if slot.is_some() {
        return Err(CqlError::Invalid(format!(
            "More than one restriction was found for the {which} bound on {name}"
        )));
    }
    *slot = Some(Bound { value, inclusive });
    Ok(Restriction::Slice { lower, upper })
}

fn in_list(
    values: &InValues,
    receiver: Receiver<'_>,
    preparer: &mut Preparer<'_>,
) -> Result<InList, CqlError> {
    match values {
        InValues::List(items) => {
            let terms: Result<Vec<Term>, CqlError> =
                items.iter().map(|item| preparer.prepare(item, receiver)).collect();
            Ok(InList::Terms(terms?))
        }
        InValues::Marker(marker) => {
            let list = Type::List { element: Box::new(receiver.ty.clone()), frozen: true };
            let name = preparer.markers.list_name("IN", receiver.name);
            let term = preparer.marker(*marker, Receiver { name: &name, ty: &list });
            Ok(InList::Whole(term))
        }
    }
}

fn search(
    column: &Column,
    test: &ast::Test,
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
) -> Result<Filter, CqlError> {
    let name = &column.name;
    let test = match test {
        ast::Test::Contains(value) => {
            let ty = match &column.ty {
                Type::List { element, .. } | Type::Set { element, .. } => element,
                Type::Map { value, .. } => value,
                _ => {
                    let text = format!("Cannot use CONTAINS on non-collection column \"{name}\"");
                    return Err(CqlError::Invalid(text));
                }
            };
            let receiver = format!("value({name})");
            Test::Contains(preparer.prepare(value, Receiver { name: &receiver, ty })?)
        }
        ast::Test::ContainsKey(value) => {
            let Type::Map { key, .. } = &column.ty else {
                let text = format!("Cannot use CONTAINS KEY on non-map column {name}");
                return Err(CqlError::Invalid(text));
            };
            let receiver = format!("key({name})");
            Test::ContainsKey(preparer.prepare(value, Receiver { name: &receiver, ty: key })?)
        }
        ast::Test::Like(value) => {
            if !matches!(column.ty, Type::Text | Type::Ascii) {
                return Err(CqlError::Invalid(format!(
                    "LIKE is allowed only on string types, which {name} is not"
                )));
            }
            Test::Like(preparer.prepare(value, Receiver { name, ty: &column.ty })?)
        }
        _ => return Err(CqlError::invalid("this relation cannot be filtered")),
    };
    let subject = Term::Column(inputs.add(column, ColumnForm::Value));
    Ok(Filter::new(subject, column.ty.clone(), name, test))
}

fn element(
    column: &Column,
    key: &Expr,
    test: &ast::Test,
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
) -> Result<Filter, CqlError> {
    let name = &column.name;
    let (key_type, value_type) = match &column.ty {
        Type::Map { key, value, .. } => (&**key, &**value),
        Type::List { element, .. } => (&Type::Int, &**element),
        _ => {
            let text = format!("Column {name} of type {} cannot be indexed", column.ty.to_cql());
            return Err(CqlError::Invalid(text));
        }
    };
    let key_name = format!("key({name})");
    let key = preparer.prepare(key, Receiver { name: &key_name, ty: key_type })?;
    let value_name = format!("value({name})");
    let receiver = Receiver { name: &value_name, ty: value_type };
    let test = match test {
        ast::Test::Compare(Comparison::NotEqual, _) => {
            return Err(CqlError::Invalid(format!("Unsupported \"!=\" relation: {name}[..] !=")));
        }
        ast::Test::Compare(comparison, value) => {
            Test::Compare(*comparison, preparer.prepare(value, receiver)?)
        }
        ast::Test::In(values) => Test::In(in_list(values, receiver, preparer)?),
        _ => return Err(CqlError::invalid("Unsupported relation on an element of a collection")),
    };
    let whole = Box::new(Term::Column(inputs.add(column, ColumnForm::Value)));
    let subject = Term::Element(whole, std::rc::Rc::new(column.ty.clone()), Box::new(key));
    Ok(Filter::new(subject, value_type.clone(), name, test))
}

fn multi(
    table: &TableSchema,
    names: &[Name],
    test: &ast::Test,
    preparer: &mut Preparer<'_>,
    out: &mut Relations,
) -> Result<(), CqlError> {
    let mut columns = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let column = find(table, name)?;
        if column.kind != ColumnKind::Clustering {
            return Err(CqlError::Invalid(format!(
                "Multi-column relations can only be applied to clustering columns but was \
                 applied to: {}",
                name.text
            )));
        }
        if names[..index].iter().any(|other| other.text == name.text) {
            return Err(CqlError::Invalid(format!(
                "Column \"{}\" appeared twice in a relation",
                name.text
            )));
        }
        if 0 < index && columns.last().is_some_and(|c: &&Column| c.position + 1 != column.position)
        {
            return Err(CqlError::invalid(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations",
            ));
        }
        columns.push(column);
    }
    let Some(first) = columns.first().map(|column| column.position as usize) else {
        return Err(CqlError::invalid("A relation on no columns"));
    };
    let ty = Type::Tuple(columns.iter().map(|column| column.ty.clone()).collect());
    let shown: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let name = format!("({})", shown.join(", "));
    let restriction = match test {
        ast::Test::Compare(Comparison::NotEqual, _) => {
            return Err(CqlError::Invalid(format!("Unsupported \"!=\" relation: {name} !=")));
        }
        ast::Test::Compare(Comparison::Equal, value) => {
            MultiRestriction::Equal(tuple(value, &columns, &ty, &name, preparer)?)
        }
        ast::Test::Compare(comparison, value) => {
            let value = tuple(value, &columns, &ty, &name, preparer)?;
            return add_multi_slice(out, first, &columns, *comparison, value);
        }
        ast::Test::In(InValues::List(items)) => {
            let tuples: Result<Vec<Tuple>, CqlError> =
                items.iter().map(|item| tuple(item, &columns, &ty, &name, preparer)).collect();
            MultiRestriction::In(TupleList::Tuples(tuples?))
        }
        ast::Test::In(InValues::Marker(marker)) => {
            let list = Type::List { element: Box::new(ty), frozen: true };
            let name = format!("in{name}");
            let term = preparer.marker(*marker, Receiver { name: &name, ty: &list });
            MultiRestriction::In(TupleList::Whole(term))
        }
        _ => return Err(CqlError::Invalid(format!("Unsupported relation on {name}"))),
    };
    if let Some((_, _, _)) =
        out.multi.iter().find(|(at, count, _)| *at < first + columns.len() && first < at + count)
    {
        return Err(more_than_one(&shown.join(", "), "an Equal or IN"));
    }
    out.multi.push((first, columns.len(), restriction));
    Ok(())
}

fn add_multi_slice(
    out: &mut Relations,
    first: usize,
    columns: &[&Column],
    comparison: Comparison,
    value: Tuple,
) -> Result<(), CqlError> {
    let count = columns.len();
    let overlapping = out.multi.iter_mut().find(|(at, _, _)| *at == first);
    let is_lower = matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
    let inclusive = matches!(comparison, Comparison::LessOrEqual | Comparison::GreaterOrEqual);
    let bound = Some(Bound { value, inclusive });
    let Some((_, present_count, present)) = overlapping else {
        let slice = match is_lower {
            true => MultiRestriction::Slice { lower: bound, upper: None },
            false => MultiRestriction::Slice { lower: None, upper: bound },
        };
        out.multi.push((first, count, slice));
        return Ok(());
    };
    let shown: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let MultiRestriction::Slice { lower, upper } = present else {
        return Err(more_than_one(&shown.join(", "), "an Equal or IN"));
    };
    let (slot, which) = if is_lower { (lower, "start") } else { (upper, "end") };
    if slot.is_some() {
        return Err(CqlError::Invalid(format!(
            "More than one restriction was found for the {which} bound on {}",
            shown.join(", ")
        )));
    }
    *slot = bound;
    *present_count = count.max(*present_count);
    Ok(())
}

fn tuple(
    value: &Expr,
    columns: &[&Column],
    ty: &Type,
    name: &str,
    preparer: &mut Preparer<'_>,
) -> Result<Tuple, CqlError> {
    match &value.kind {
        ExprKind::Marker(marker) => {
            Ok(Tuple::Whole(preparer.marker(*marker, Receiver { name, ty })))
        }
        ExprKind::Tuple(items) => {
            if items.len() != columns.len() {
                return Err(CqlError::Invalid(format!(
                    "Expected {} elements in value tuple, but got {}",
                    columns.len(),
                    items.len()
                )));
            }
            let mut parts = Vec::with_capacity(items.len());
            for (item, column) in items.iter().zip(columns) {
                let receiver = Receiver { name: &column.name, ty: &column.ty };
                parts.push(preparer.prepare(item, receiver)?);
            }
            Ok(Tuple::Parts(parts))
        }
        _ => Ok(Tuple::Whole(preparer.prepare(value, Receiver { name, ty })?)),
    }
}

fn token(
    table: &TableSchema,
    names: &[Name],
    test: &ast::Test,
    preparer: &mut Preparer<'_>,
    out: &mut Relations,
) -> Result<(), CqlError> {
    for name in names {
        let column = find(table, name)?;
        if column.kind != ColumnKind::PartitionKey {
            return Err(CqlError::invalid(
                "The token() function must contains only partition key components",
            ));
        }
    }
    let keys = table.partition_key();
    let in_order = names.iter().map(|name| name.text.as_str());
    if !in_order.eq(keys.iter().map(|column| column.name.as_str())) {
        let expected: Vec<&str> = keys.iter().map(|column| column.name.as_str()).collect();
        return Err(CqlError::Invalid(format!(
            "The token function arguments must be in the partition key order: {}",
            expected.join(", ")
        )));
    }
    let receiver = Receiver { name: "partition key token", ty: &Type::BigInt };
    match test {
        ast::Test::Compare(Comparison::NotEqual, _) => {
            Err(CqlError::invalid("Unsupported \"!=\" relation on token()"))
        }
        ast::Test::Compare(Comparison::Equal, value) => {
            if out.token.is_some() {
                return Err(more_than_one("token", "an Equal"));
            }
            out.token = Some(Restriction::Equal(preparer.prepare(value, receiver)?));
            Ok(())
        }
        ast::Test::Compare(comparison, value) => {
            let term = preparer.prepare(value, receiver)?;
            out.token = Some(add_bound(out.token.take(), *comparison, term, "token")?);
            Ok(())
        }
        _ => Err(CqlError::invalid("Only comparisons are supported on the token function")),
    }
}
