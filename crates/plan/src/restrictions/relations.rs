//! The relations of a `WHERE`, checked one by one and collected per column.

use super::filter::{Filter, Test};
use super::lookup::{Found, Kind, Lookup};
use super::values::{Bound, InList, Tuple, TupleList, lower_comparison, upper_comparison};
use crate::error::Error;
use crate::markers::Receiver;
use crate::metadata::Slot;
use crate::term::{Inputs, Preparer, Term};
use model::{Column, ColumnKind, TableSchema, Type};
use mutation::page::ColumnForm;
use std::rc::Rc;
use syntax::ast;
use syntax::ast::{ColumnPath, Comparison, Expr, ExprKind, InValues, Name, Relation, Subject};

/// Which statement it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `SELECT`
    Select,
    /// `SELECT .. ALLOW FILTERING`
    SelectFiltering,
    /// `UPDATE`, `DELETE`
    Modify,
}

/// What is said about one column.
#[derive(Clone, Debug)]
pub(super) enum Restriction<T> {
    Equal(T),
    In(InList),
    Slice { lower: Option<Bound<T>>, upper: Option<Bound<T>> },
}

/// What is said about several clustering columns together.
#[derive(Clone, Debug)]
pub(super) struct Multi {
    /// The first of the clustering columns.
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) restriction: MultiRestriction,
}

#[derive(Clone, Debug)]
pub(super) enum MultiRestriction {
    Equal(Tuple),
    In(TupleList),
    Lower(Bound<Tuple>),
    Upper(Bound<Tuple>),
}

impl Multi {
    /// Whether it is about the clustering column `at`.
    pub(super) fn covers(&self, at: usize) -> bool {
        (self.first..self.first + self.count).contains(&at)
    }

    pub(super) fn is_slice(&self) -> bool {
        matches!(self.restriction, MultiRestriction::Lower(_) | MultiRestriction::Upper(_))
    }
}

/// All that a `WHERE` says.
#[derive(Debug, Default)]
pub(super) struct Relations {
    /// By index of the table's columns: what can name keys best.
    pub(super) single: Vec<Option<Restriction<Term>>>,
    /// What else is said about columns that have a restriction in `single`.
    pub(super) more: Vec<(usize, Test)>,
    pub(super) multi: Vec<Multi>,
    pub(super) token: Option<Restriction<Term>>,
    /// What can only be filtered: CONTAINS, LIKE, NOT IN, elements.
    pub(super) filters: Vec<Filter>,
    /// What of `filters` an index could look up.
    pub(super) searches: Vec<Found>,
    /// The columns, by index of the table's, in the order of the text.
    pub(super) order: Vec<usize>,
    /// The clustering column that one of `filters` is a CONTAINS of.
    pub(super) contains_of_clustering: Option<usize>,
    /// The clustering columns that `filters` have a NOT IN of, each as often as it has.
    pub(super) not_in_of_clustering: Vec<usize>,
    /// The columns that `filters` have a LIKE of, each as often as it has.
    pub(super) like_of: Vec<usize>,
}

pub(super) fn gather(
    table: &TableSchema,
    relations: &[Relation],
    purpose: Purpose,
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
) -> Result<Relations, Error> {
    let max = preparer.markers.options.max_relations_in_where_clause.get();
    if usize::try_from(max).is_ok_and(|max| max < relations.len()) {
        return Err(Error::Syntax(format!(
            "number of relations in WHERE clause exceeds the maximum of {max} (configured via \
             max_relations_in_where_clause)"
        )));
    }
    let mut out = Relations { single: vec![None; table.columns.len()], ..Relations::default() };
    for relation in relations {
        if let ast::Test::Compare(Comparison::NotEqual, _) = &relation.test {
            check_subject(table, &relation.subject)?;
            return Err(Error::Invalid(format!("Unsupported \"!=\" relation: {relation}")));
        }
        match &relation.subject {
            Subject::Path(ColumnPath::Column(name)) => {
                single(table, name, &relation.test, purpose, preparer, inputs, &mut out)?;
            }
            Subject::Path(ColumnPath::Element(name, key)) => {
                let column = find(table, name)?;
                let (filter, lookup) = element(column, key, &relation.test, preparer, inputs)?;
                out.add_search(index_of(table, column), filter, lookup.map(|it| (Kind::Entry, it)));
            }
            Subject::Path(ColumnPath::Field(..)) => {
                return Err(Error::invalid(
                    "Restrictions on the fields of user types are not supported in WHERE",
                ));
            }
            Subject::Columns(names) if as_single(table, names, &relation.test).is_some() => {
                let (name, test) = as_single(table, names, &relation.test).expect("asked above");
                single(table, name, &test, purpose, preparer, inputs, &mut out)?;
            }
            Subject::Columns(names) => multi(table, names, &relation.test, preparer, &mut out)?,
            Subject::Token(names) => token(table, names, &relation.test, preparer, &mut out)?,
            Subject::Call(call) => {
                return Err(Error::Invalid(format!(
                    "Restrictions on the function {} are not supported yet",
                    call.function.name.text
                )));
            }
        }
    }
    Ok(out)
}

/// That its column exists.
fn check_subject(table: &TableSchema, subject: &Subject) -> Result<(), Error> {
    match subject {
        Subject::Path(path) => find(table, path.column()).map(drop),
        Subject::Columns(names) | Subject::Token(names) => {
            names.iter().try_for_each(|name| find(table, name).map(drop))
        }
        Subject::Call(_) => Ok(()),
    }
}

/// The column of that name, if it is one that anybody sees.
pub fn find<'t>(table: &'t TableSchema, name: &Name) -> Result<&'t Column, Error> {
    let unknown = || Error::Invalid(format!("Unrecognized name {}", name.text));
    let seen = |column: &&Column| !table.is_hidden(column.id);
    table.column(&name.text).filter(seen).ok_or_else(unknown)
}

impl Relations {
    /// Whether keys say all of it, but for what rows named by them are tested with.
    pub(super) fn are_all_planned(&self) -> bool {
        self.filters.is_empty() && self.multi.is_empty() && self.single.iter().all(Option::is_none)
    }

    /// A filter, and what an index would look up instead.
    fn add_search(&mut self, column: usize, filter: Filter, lookup: Option<(Kind, Lookup)>) {
        let at = self.filters.len();
        let found = lookup.map(|(kind, lookup)| Found::search(column, kind, lookup, at));
        self.searches.extend(found);
        self.order.push(column);
        self.filters.push(filter);
    }
}

fn index_of(table: &TableSchema, column: &Column) -> usize {
    let found = table.columns.iter().position(|other| other.id == column.id);
    found.expect("a column of this table")
}

fn single(
    table: &TableSchema,
    name: &Name,
    test: &ast::Test,
    purpose: Purpose,
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
    out: &mut Relations,
) -> Result<(), Error> {
    let column = find(table, name)?;
    check_type(column, test)?;
    let receiver = Receiver { name: &column.name, ty: &column.ty };
    let said = match test {
        ast::Test::Compare(Comparison::Equal, value) => {
            let term = preparer.prepare(value, receiver)?;
            if let Term::Marker(variable, _) = &term
                && column.kind == ColumnKind::PartitionKey
            {
                preparer.markers.is_key(*variable, column.position as usize);
            }
            Restriction::Equal(term)
        }
        ast::Test::Compare(comparison, value) => {
            let value = preparer.prepare(value, receiver)?;
            add_bound(None, *comparison, value, &column.name)?
        }
        ast::Test::In(values) => Restriction::In(in_list(values, "IN", receiver, preparer)?),
        ast::Test::NotIn(values) => {
            let test = Test::NotIn(in_list(values, "NOT IN", receiver, preparer)?);
            let subject = Term::Column(inputs.add(column, ColumnForm::Value));
            if column.kind == ColumnKind::Clustering {
                out.not_in_of_clustering.push(column.position as usize);
            }
            out.filters.push(Filter::new(subject, column.ty.clone(), &column.name, test));
            return Ok(());
        }
        ast::Test::IsNotNull => {
            return Err(Error::Invalid(format!(
                "restriction '{name} IS NOT null' is only supported in materialized view creation"
            )));
        }
        ast::Test::IsNull => {
            return Err(Error::Invalid(format!("Unsupported relation: {name} IS NULL")));
        }
        ast::Test::Contains(_) | ast::Test::ContainsKey(_) | ast::Test::Like(_) => {
            if !matches!(test, ast::Test::Like(_)) && column.kind == ColumnKind::Clustering {
                out.contains_of_clustering = Some(column.position as usize);
            }
            if matches!(test, ast::Test::Like(_)) {
                out.like_of.push(index_of(table, column));
            }
            let (filter, lookup) = search(column, test, preparer, inputs)?;
            out.add_search(index_of(table, column), filter, lookup);
            return Ok(());
        }
    };
    let index = index_of(table, column);
    out.order.push(index);
    let slot = &mut out.single[index];
    *slot = Some(match slot.take() {
        None => said,
        Some(present) if purpose == Purpose::Modify => merge_once(present, said, &column.name)?,
        Some(present) => {
            let (best, rest) = merge(present, said);
            out.more.extend(rest.into_iter().map(|test| (index, test)));
            best
        }
    });
    Ok(())
}

/// Both restrictions of a column in one, where each says something new.
fn merge_once(
    present: Restriction<Term>,
    said: Restriction<Term>,
    name: &str,
) -> Result<Restriction<Term>, Error> {
    match (present, said) {
        (present, Restriction::Slice { lower, upper }) => {
            let (bound, comparison) = match (lower, upper) {
                (Some(lower), _) => {
                    let comparison = lower_comparison(lower.inclusive);
                    (lower, comparison)
                }
                (None, Some(upper)) => {
                    let comparison = upper_comparison(upper.inclusive);
                    (upper, comparison)
                }
                (None, None) => return Ok(present),
            };
            add_bound(Some(present), comparison, bound.value, name)
        }
        (_, Restriction::Equal(_)) => Err(more_than_one(name, "an Equal")),
        (_, Restriction::In(_)) => Err(more_than_one(name, "a IN")),
    }
}

/// Of two restrictions of a column the one that names its values best, and tests for the rest.
fn merge(present: Restriction<Term>, said: Restriction<Term>) -> (Restriction<Term>, Vec<Test>) {
    let rank = |restriction: &Restriction<Term>| match restriction {
        Restriction::Equal(_) => 2,
        Restriction::In(_) => 1,
        Restriction::Slice { .. } => 0,
    };
    match (present, said) {
        (
            Restriction::Slice { mut lower, mut upper },
            Restriction::Slice { lower: more_lower, upper: more_upper },
        ) => {
            let mut rest = Vec::new();
            if let Some(bound) = more_lower {
                match lower {
                    None => lower = Some(bound),
                    Some(_) => rest.push(Test::lower(bound)),
                }
            }
            if let Some(bound) = more_upper {
                match upper {
                    None => upper = Some(bound),
                    Some(_) => rest.push(Test::upper(bound)),
                }
            }
            (Restriction::Slice { lower, upper }, rest)
        }
        (present, said) if rank(&present) < rank(&said) => (said, present.tests()),
        (present, said) => (present, said.tests()),
    }
}

impl Restriction<Term> {
    /// What it says, value by value.
    pub(super) fn tests(self) -> Vec<Test> {
        match self {
            Restriction::Equal(term) => vec![Test::Compare(Comparison::Equal, term)],
            Restriction::In(list) => vec![Test::In(list)],
            Restriction::Slice { lower, upper } => {
                lower.map(Test::lower).into_iter().chain(upper.map(Test::upper)).collect()
            }
        }
    }
}

fn check_type(column: &Column, test: &ast::Test) -> Result<(), Error> {
    let operator = match test {
        ast::Test::Compare(comparison, _) => symbol(*comparison),
        ast::Test::In(_) => "IN",
        ast::Test::NotIn(_) => "NOT IN",
        _ => return Ok(()),
    };
    let is_slice = matches!(operator, "<" | "<=" | ">" | ">=");
    if is_slice && column.ty.mentions_duration() {
        let what = match &column.ty {
            Type::User(_) => "UDTs containing durations",
            Type::Tuple(_) => "tuples containing durations",
            ty if ty.is_collection() => "collections containing durations",
            _ => "duration columns",
        };
        return Err(Error::Invalid(format!("Slice restrictions are not supported on {what}")));
    }
    if column.ty.is_multi_cell() && column.ty.is_collection() {
        return Err(Error::Invalid(format!(
            "Collection column '{}' ({}) cannot be restricted by a '{operator}' relation",
            column.name,
            column.ty.to_cql()
        )));
    }
    Ok(())
}

pub fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

pub(super) fn more_than_one(name: &str, what: &str) -> Error {
    Error::Invalid(format!(
        "{name} cannot be restricted by more than one relation if it includes {what}"
    ))
}

fn add_bound<T>(
    present: Option<Restriction<T>>,
    comparison: Comparison,
    value: T,
    name: &str,
) -> Result<Restriction<T>, Error> {
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
        return Err(twice_bound(which, name));
    }
    *slot = Some(Bound { value, inclusive });
    Ok(Restriction::Slice { lower, upper })
}

/// `operator`: as a marker for all values is named.
fn in_list(
    values: &InValues,
    operator: &str,
    receiver: Receiver<'_>,
    preparer: &mut Preparer<'_>,
) -> Result<InList, Error> {
    match values {
        InValues::List(items) => Ok(InList::Terms(preparer.prepare_all(items, receiver, None)?)),
        InValues::Marker(marker) => {
            let list = Type::List { element: Box::new(receiver.ty.clone()), frozen: true };
            let name = preparer.markers.list_name(operator, receiver.name);
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
) -> Result<(Filter, Option<(Kind, Lookup)>), Error> {
    let name = &column.name;
    let test = match test {
        ast::Test::Contains(value) => {
            let ty = match &column.ty {
                Type::List { element, .. } | Type::Set { element, .. } => element,
                Type::Map { value, .. } => value,
                _ => {
                    let text = format!("Cannot use CONTAINS on non-collection column \"{name}\"");
                    return Err(Error::Invalid(text));
                }
            };
            let receiver = format!("value({name})");
            Test::Contains(preparer.prepare(value, Receiver { name: &receiver, ty })?)
        }
        ast::Test::ContainsKey(value) => {
            let Type::Map { key, .. } = &column.ty else {
                let text = format!("Cannot use CONTAINS KEY on non-map column {name}");
                return Err(Error::Invalid(text));
            };
            let receiver = format!("key({name})");
            Test::ContainsKey(preparer.prepare(value, Receiver { name: &receiver, ty: key })?)
        }
        ast::Test::Like(value) => {
            if !matches!(column.ty, Type::Text | Type::Ascii) {
                return Err(Error::Invalid(format!(
                    "LIKE is allowed only on string types, which {name} is not"
                )));
            }
            Test::Like(preparer.prepare(value, Receiver { name, ty: &column.ty })?)
        }
        _ => return Err(Error::invalid("this relation cannot be filtered")),
    };
    let lookup = match &test {
        Test::Contains(term) => Some((Kind::Contains, Lookup::One(term.clone()))),
        Test::ContainsKey(term) => Some((Kind::ContainsKey, Lookup::One(term.clone()))),
        _ => None,
    };
    let subject = Term::Column(inputs.add(column, ColumnForm::Value));
    Ok((Filter::new(subject, column.ty.clone(), name, test), lookup))
}

fn element(
    column: &Column,
    key: &Expr,
    test: &ast::Test,
    preparer: &mut Preparer<'_>,
    inputs: &mut Inputs,
) -> Result<(Filter, Option<Lookup>), Error> {
    let name = &column.name;
    let (key_type, value_type) = match &column.ty {
        Type::Map { key, value, .. } => (&**key, &**value),
        Type::List { element, .. } => (&Type::Int, &**element),
        _ => {
            let text =
                format!("Column {name} of type {} cannot be subscripted", column.ty.to_cql());
            return Err(Error::Invalid(text));
        }
    };
    if matches!(column.ty, Type::Map { .. }) && !column.ty.is_multi_cell() {
        return Err(Error::Invalid(format!(
            "Map-entry equality predicates on frozen map column {name} are not supported"
        )));
    }
    let key_name = format!("key({name})");
    let key = preparer.prepare(key, Receiver { name: &key_name, ty: key_type })?;
    let value_name = format!("value({name})");
    let receiver = Receiver { name: &value_name, ty: value_type };
    let test = match test {
        ast::Test::Compare(comparison, value) => {
            Test::Compare(*comparison, preparer.prepare(value, receiver)?)
        }
        ast::Test::In(values) => Test::In(in_list(values, "IN", receiver, preparer)?),
        _ => return Err(Error::invalid("Unsupported relation on an element of a collection")),
    };
    let lookup = match &test {
        Test::Compare(Comparison::Equal, value) if matches!(column.ty, Type::Map { .. }) => {
            Some(Lookup::Entry { key: key.clone(), value: value.clone() })
        }
        _ => None,
    };
    let whole = Box::new(Term::Column(inputs.add(column, ColumnForm::Value)));
    let subject = Term::Element(whole, Rc::new(column.ty.clone()), Box::new(key));
    Ok((Filter::new(subject, value_type.clone(), name, test), lookup))
}

/// `(c) = (x)` of a clustering column is `c = x`.
fn as_single<'n>(
    table: &TableSchema,
    names: &'n [Name],
    test: &ast::Test,
) -> Option<(&'n Name, ast::Test)> {
    let ([name], ast::Test::Compare(Comparison::Equal, value)) = (names, test) else {
        return None;
    };
    let ExprKind::Tuple(items) = &value.kind else { return None };
    let ([item], Ok(column)) = (&items[..], find(table, name)) else { return None };
    let is_clustering = column.kind == ColumnKind::Clustering;
    is_clustering.then(|| (name, ast::Test::Compare(Comparison::Equal, item.clone())))
}

/// The columns of a relation on several clustering columns.
fn clustering_columns<'t>(
    table: &'t TableSchema,
    names: &[Name],
) -> Result<Vec<&'t Column>, Error> {
    let mut columns = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let column = find(table, name)?;
        if column.kind != ColumnKind::Clustering {
            return Err(Error::Invalid(format!(
                "Multi-column relations can only be applied to clustering columns but was \
                 applied to: {}",
                name.text
            )));
        }
        if names[..index].iter().any(|other| other.text == name.text) {
            return Err(Error::Invalid(format!(
                "Column \"{}\" appeared twice in a relation",
                name.text
            )));
        }
        if 0 < index && columns.last().is_some_and(|c: &&Column| c.position + 1 != column.position)
        {
            return Err(Error::invalid(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations",
            ));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn multi(
    table: &TableSchema,
    names: &[Name],
    test: &ast::Test,
    preparer: &mut Preparer<'_>,
    out: &mut Relations,
) -> Result<(), Error> {
    let columns = clustering_columns(table, names)?;
    let Some(first) = columns.first().map(|column| column.position as usize) else {
        return Err(Error::invalid("A relation on no columns"));
    };
    let ty = Type::Tuple(columns.iter().map(|column| column.ty.clone()).collect());
    let shown: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let name = format!("({})", shown.join(", "));
    let mut slots: Vec<(Rc<str>, Option<Rc<Slot>>)> =
        shown.iter().map(|name| (Rc::from(*name), None)).collect();
    let bound = |value, comparison: Comparison| {
        let inclusive = matches!(comparison, Comparison::LessOrEqual | Comparison::GreaterOrEqual);
        Bound { value, inclusive }
    };
    let restriction = match test {
        ast::Test::Compare(comparison, value) => {
            let value = tuple(value, &columns, &mut slots, (&name, &ty), preparer)?;
            match comparison {
                Comparison::Greater | Comparison::GreaterOrEqual => {
                    MultiRestriction::Lower(bound(value, *comparison))
                }
                Comparison::Less | Comparison::LessOrEqual => {
                    MultiRestriction::Upper(bound(value, *comparison))
                }
                _ => MultiRestriction::Equal(value),
            }
        }
        ast::Test::In(InValues::List(items)) => {
            let mut tuples = Vec::with_capacity(items.len());
            for item in items {
                tuples.push(tuple(item, &columns, &mut slots, (&name, &ty), preparer)?);
            }
            MultiRestriction::In(TupleList::Tuples(tuples))
        }
        ast::Test::In(InValues::Marker(marker)) => {
            let list = Type::List { element: Box::new(ty), frozen: true };
            let name = preparer.markers.list_name("IN", &shown.join(", "));
            let term = preparer.marker(*marker, Receiver { name: &name, ty: &list });
            MultiRestriction::In(TupleList::Whole(term))
        }
        _ => return Err(Error::Invalid(format!("Unsupported relation on {name}"))),
    };
    let said = Multi { first, count: columns.len(), restriction };
    check_multi(out, table, &said, &shown)?;
    out.multi.push(said);
    Ok(())
}

/// A value for each column once: bounds may be two, if they start with the same column.
fn check_multi(
    out: &Relations,
    table: &TableSchema,
    said: &Multi,
    shown: &[&str],
) -> Result<(), Error> {
    for other in &out.multi {
        let overlaps = other.covers(said.first) || said.covers(other.first);
        if !overlaps {
            continue;
        }
        if !said.is_slice() || !other.is_slice() {
            return Err(more_than_one(&shown.join(", "), "an Equal or IN"));
        }
        if other.first != said.first {
            let later = &table.clustering()[other.first.max(said.first)].name;
            return Err(not_the_same_start(later));
        }
        let is_lower = |multi: &Multi| matches!(multi.restriction, MultiRestriction::Lower(_));
        if is_lower(other) == is_lower(said) {
            let which = if is_lower(said) { "start" } else { "end" };
            return Err(twice_bound(which, &shared(said, other, table)));
        }
    }
    Ok(())
}

/// The columns that both are about.
fn shared(a: &Multi, b: &Multi, table: &TableSchema) -> String {
    let columns = table.clustering().iter().enumerate();
    let both = columns.filter(|(at, _)| a.covers(*at) && b.covers(*at));
    both.map(|(_, column)| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(super) fn not_the_same_start(name: &str) -> Error {
    Error::Invalid(format!(
        "Column \"{name}\" cannot be restricted by two inequalities not starting with the same \
         column"
    ))
}

pub(super) fn twice_bound(which: &str, names: &str) -> Error {
    Error::Invalid(format!("More than one restriction was found for the {which} bound on {names}"))
}

/// The values for these columns, together called `name`, of type `ty`. `slots`: the columns' names,
/// and what markers for them stand for, the same for each tuple of a list.
fn tuple(
    value: &Expr,
    columns: &[&Column],
    slots: &mut [(Rc<str>, Option<Rc<Slot>>)],
    (name, ty): (&str, &Type),
    preparer: &mut Preparer<'_>,
) -> Result<Tuple, Error> {
    match &value.kind {
        ExprKind::Marker(marker) => {
            Ok(Tuple::Whole(preparer.marker(*marker, Receiver { name, ty })))
        }
        ExprKind::Tuple(items) => {
            if items.len() != columns.len() {
                return Err(Error::Invalid(format!(
                    "Expected {} elements in value tuple, but got {}: {value}",
                    columns.len(),
                    items.len()
                )));
            }
            let mut parts = Vec::with_capacity(items.len());
            for ((item, column), (name, slot)) in items.iter().zip(columns).zip(slots) {
                let receiver = Receiver { name: &column.name, ty: &column.ty };
                let term = match &item.kind {
                    ExprKind::Marker(marker) => preparer.marker_of_many(*marker, receiver, slot),
                    _ => preparer.prepare(item, receiver)?,
                };
                parts.push((name.clone(), term));
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
) -> Result<(), Error> {
    check_token_columns(table, names)?;
    let receiver = Receiver { name: "partition key token", ty: &Type::BigInt };
    match test {
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
        ast::Test::In(_) | ast::Test::NotIn(_) => {
            Err(Error::invalid("IN cannot be used with the token function"))
        }
        _ => Err(Error::invalid("Only comparisons are supported on the token function")),
    }
}

/// Those of the partition key, each once, in its order.
fn check_token_columns(table: &TableSchema, names: &[Name]) -> Result<(), Error> {
    for name in names {
        find(table, name)?;
    }
    let keys = table.partition_key();
    if names.len() != keys.len() {
        return Err(Error::Invalid(format!(
            "Invalid number of arguments in call to function system.token: {} required but {} \
             provided",
            keys.len(),
            names.len()
        )));
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].iter().any(|other| other.text == name.text) {
            return Err(Error::invalid(
                "The token() function contains duplicate partition key components",
            ));
        }
    }
    if let Some(other) = names.iter().find(|name| !keys.iter().any(|key| key.name == name.text)) {
        return Err(Error::Invalid(format!(
            "The token() function must be applied to all partition key components or none of \
             them: {} is not one",
            other.text
        )));
    }
    let in_order = names.iter().map(|name| name.text.as_str());
    if !in_order.eq(keys.iter().map(|column| column.name.as_str())) {
        let expected: Vec<&str> = keys.iter().map(|column| column.name.as_str()).collect();
        return Err(Error::Invalid(format!(
            "The token function arguments must be in the partition key order: {}",
            expected.join(", ")
        )));
    }
    Ok(())
}
