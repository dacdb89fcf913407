//! `IF ..`: conditions, and what a write has to read of its row.

use super::operation::Operation;
use crate::error::Error;
use crate::markers::Receiver;
use crate::metadata::{ColumnSpec, ResultMetadata};
use crate::restrictions::{contains_value, find, holds, like};
use crate::term::{Env, Evaluated, Inputs, Preparer, Term};
use crate::values::Value;
use model::{Column, ColumnId, ColumnKind, TableSchema, Type};
use mutation::page::ColumnForm;
use std::rc::Rc;
use syntax::ast;
use syntax::ast::{ColumnPath, Comparison, Condition, InValues, Relation, Subject};

/// A prepared `IF`.
#[derive(Debug)]
pub struct ConditionPlan {
    kind: Kind,
    /// The columns that it names, each once: those of the row, then static ones.
    pub named: Vec<ColumnId>,
    /// What the result tells of the row as it was: columns by id, in the order of the table's.
    pub shown: Vec<ColumnId>,
    pub metadata: Rc<ResultMetadata>,
}

#[derive(Debug)]
enum Kind {
    Exists,
    NotExists,
    All(Vec<Test>),
}

#[derive(Debug)]
struct Test {
    subject: Term,
    ty: Type,
    test: How,
}

#[derive(Debug)]
enum How {
    Compare(Comparison, Term),
    /// Whether it is among them (or, `false`, is not).
    In(Vec<Term>, bool),
    InWhole(Term, bool),
    Like(Term),
    Contains(Term),
    ContainsKey(Term),
}

/// Which columns conditions are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// On whether there is a row.
    Row,
    /// On static columns alone.
    Statics,
    /// On columns of the row too; the first of these.
    Regular(ColumnId),
}

/// Plans an `IF`; `inputs` collects what it needs of the row.
pub(super) fn prepare(
    table: &TableSchema,
    condition: &Condition,
    inputs: &mut Inputs,
    preparer: &mut Preparer<'_>,
) -> Result<Option<ConditionPlan>, Error> {
    let mut named: Vec<ColumnId> = Vec::new();
    let kind = match condition {
        Condition::None => return Ok(None),
        Condition::Exists => Kind::Exists,
        Condition::NotExists => Kind::NotExists,
        Condition::All(relations) => {
            let mut tests = Vec::with_capacity(relations.len());
            for relation in relations {
                tests.push(test(table, relation, inputs, preparer)?);
                if let Subject::Path(path) = &relation.subject {
                    let id = find(table, path.column())?.id;
                    if !named.contains(&id) {
                        named.push(id);
                    }
                }
            }
            Kind::All(tests)
        }
    };
    let is_static =
        |id: &ColumnId| table.column_by_id(*id).is_some_and(|it| it.kind == ColumnKind::Static);
    named.sort_by_key(is_static);
    let all = !matches!(kind, Kind::All(_));
    let shown = table.columns.iter().filter(|column| all || named.contains(&column.id));
    let shown: Vec<ColumnId> = shown.map(|column| column.id).collect();
    for column in shown.iter().filter_map(|id| table.column_by_id(*id)) {
        inputs.add(column, ColumnForm::Value);
    }
    let metadata = metadata_of(table, &shown);
    Ok(Some(ConditionPlan { kind, named, shown, metadata }))
}

/// What a conditional write answers: whether it was applied, and these columns as they were.
pub(super) fn metadata_of(table: &TableSchema, shown: &[ColumnId]) -> Rc<ResultMetadata> {
    let columns = table.columns.iter().filter(|column| shown.contains(&column.id));
    applied_with(table, columns)
}

/// `[applied]` and these columns.
pub fn applied_with<'t>(
    table: &TableSchema,
    columns: impl Iterator<Item = &'t Column>,
) -> Rc<ResultMetadata> {
    let mut specs = vec![spec(table, "[applied]", Type::Boolean)];
    specs.extend(columns.map(|column| spec(table, &column.name, column.ty.clone())));
    Rc::new(ResultMetadata::new(specs))
}

fn spec(table: &TableSchema, name: &str, ty: Type) -> ColumnSpec {
    ColumnSpec {
        keyspace: Rc::from(table.keyspace.as_str()),
        table: Rc::from(table.name.as_str()),
        name: Rc::from(name),
        ty,
    }
}

/// Adds what operations change by what it is: lists whose elements they name, and numbers.
pub(super) fn add_lists<'o>(
    table: &TableSchema,
    operations: impl Iterator<Item = &'o Operation>,
    inputs: &mut Inputs,
) {
    for operation in operations.filter(|operation| operation.needs_read()) {
        if let Some(column) = table.column_by_id(operation.column) {
            let is_list = column.ty.is_multi_cell();
            inputs.add(column, if is_list { ColumnForm::Blob } else { ColumnForm::Value });
        }
    }
}

fn test(
    table: &TableSchema,
    relation: &Relation,
    inputs: &mut Inputs,
    preparer: &mut Preparer<'_>,
) -> Result<Test, Error> {
    let Subject::Path(path) = &relation.subject else {
        return Err(Error::invalid(
            "Conditions are only allowed on columns, their elements and fields",
        ));
    };
    let at = relation.at;
    let column = find(table, path.column())?;
    if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        return Err(Error::Invalid(format!(
            "PRIMARY KEY column '{}' cannot have IF conditions",
            column.name
        )));
    }
    let whole = Term::Column(inputs.add(column, ColumnForm::Value));
    let (subject, ty, name) = match path {
        ColumnPath::Column(_) => (whole, column.ty.clone(), column.name.clone()),
        ColumnPath::Field(_, field) => {
            let Type::User(user) = &column.ty else {
                let text = format!("Column {} is not a user type", column.name);
                return Err(Error::Invalid(text));
            };
            let index = user.fields.iter().position(|(name, _)| *name == field.text);
            let index = index.ok_or_else(|| {
                Error::Invalid(format!(
                    "UDT column {} does not have a field named {}",
                    column.name, field.text
                ))
            })?;
            let name = format!("{}.{}", column.name, field.text);
            (Term::Field(Box::new(whole), index), user.fields[index].1.clone(), name)
        }
        ColumnPath::Element(_, key) => {
            let (key_type, ty) = match &column.ty {
                Type::Map { key, value, .. } => ((**key).clone(), (**value).clone()),
                Type::List { element, .. } => (Type::Int, (**element).clone()),
                _ => {
                    let text = format!("Invalid element access of column {}", column.name);
                    return Err(Error::Invalid(text));
                }
            };
            let key_name = format!("key({})", column.name);
            let key = preparer.prepare(key, Receiver { name: &key_name, ty: &key_type })?;
            let name = format!("value({})", column.name);
            let whole_type = Rc::new(column.ty.clone());
            (Term::Element(Box::new(whole), whole_type, Box::new(key)), ty, name)
        }
    };
    let is_part = !matches!(path, ColumnPath::Column(_));
    if is_part && matches!(relation.test, ast::Test::Contains(_) | ast::Test::ContainsKey(_)) {
        let text = "no viable alternative at input 'CONTAINS'";
        return Err(Error::Syntax(format!("line {}:{} {text}", at.line, at.column)));
    }
    let receiver = Receiver { name: &name, ty: &ty };
    let test = how(&relation.test, receiver, preparer)?;
    Ok(Test { subject, ty, test })
}

fn how(
    test: &ast::Test,
    receiver: Receiver<'_>,
    preparer: &mut Preparer<'_>,
) -> Result<How, Error> {
    Ok(match test {
        ast::Test::Compare(comparison, value) => {
            check_order(*comparison, receiver)?;
            How::Compare(*comparison, preparer.prepare(value, receiver)?)
        }
        ast::Test::In(values) | ast::Test::NotIn(values) => {
            let among = matches!(test, ast::Test::In(_));
            match values {
                InValues::List(items) => {
                    How::In(preparer.prepare_all(items, receiver, None)?, among)
                }
                InValues::Marker(marker) => {
                    let list = Type::List { element: Box::new(receiver.ty.clone()), frozen: true };
                    let name = preparer.markers.list_name("IN", receiver.name);
                    let receiver = Receiver { name: &name, ty: &list };
                    How::InWhole(preparer.marker(*marker, receiver), among)
                }
            }
        }
        ast::Test::Like(_) if !matches!(receiver.ty, Type::Text | Type::Ascii) => {
            return Err(Error::Invalid(format!(
                "LIKE is allowed only on string types, which {} is not",
                receiver.name
            )));
        }
        ast::Test::Like(value) => How::Like(preparer.prepare(value, receiver)?),
        ast::Test::Contains(value) => {
            let ty = match receiver.ty {
                Type::List { element, .. } | Type::Set { element, .. } => element,
                Type::Map { value, .. } => value,
                _ => {
                    return Err(Error::Invalid(format!(
                        "Cannot use CONTAINS on non-collection column {}",
                        receiver.name
                    )));
                }
            };
            How::Contains(preparer.prepare(value, Receiver { name: receiver.name, ty })?)
        }
        ast::Test::ContainsKey(value) => {
            let Type::Map { key, .. } = receiver.ty else {
                return Err(Error::Invalid(format!(
                    "Cannot use CONTAINS KEY on non-map column {}",
                    receiver.name
                )));
            };
            How::ContainsKey(preparer.prepare(value, Receiver { name: receiver.name, ty: key })?)
        }
        _ => return Err(Error::invalid("Invalid operator in an IF condition")),
    })
}

/// Refuses an order on what has none.
fn check_order(comparison: Comparison, receiver: Receiver<'_>) -> Result<(), Error> {
    let has_order = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    if has_order || !references_duration(receiver.ty) {
        return Ok(());
    }
    let what = match receiver.ty {
        Type::Duration => {
            return Err(Error::Invalid(format!(
                "Duration type is unordered for {}",
                receiver.name
            )));
        }
        Type::Tuple(_) => "tuples",
        Type::User(_) => "UDTs",
        _ => "collections",
    };
    let text = format!("Slice conditions are not supported on {what} containing durations");
    Err(Error::Invalid(text))
}

fn references_duration(ty: &Type) -> bool {
    match ty {
        Type::Duration => true,
        Type::List { element, .. } | Type::Set { element, .. } | Type::Vector { element, .. } => {
            references_duration(element)
        }
        Type::Map { key, value, .. } => references_duration(key) || references_duration(value),
        Type::Tuple(types) => types.iter().any(references_duration),
        Type::User(user) => user.fields.iter().any(|(_, ty)| references_duration(ty)),
        _ => false,
    }
}

impl ConditionPlan {
    /// Whether it asks whether there is a row (or is none).
    pub fn is_about_existence(&self) -> bool {
        !matches!(self.kind, Kind::All(_))
    }

    /// Which columns it is on.
    pub fn on(&self, table: &TableSchema) -> On {
        if self.is_about_existence() {
            return On::Row;
        }
        let is_regular = |id: &&ColumnId| {
            table.column_by_id(**id).is_some_and(|column| column.kind == ColumnKind::Regular)
        };
        self.shown.iter().find(is_regular).map_or(On::Statics, |id| On::Regular(*id))
    }

    /// Whether it holds of the row of `env`; `exists`: whether there is one.
    pub fn holds(&self, exists: bool, env: &Env<'_>) -> Result<bool, Error> {
        match &self.kind {
            Kind::Exists => Ok(exists),
            Kind::NotExists => Ok(!exists),
            Kind::All(tests) => {
                for test in tests {
                    if !test.holds(env)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

impl Test {
    fn holds(&self, env: &Env<'_>) -> Result<bool, Error> {
        let present = self.subject.evaluate(env)?;
        let present = self.value(&present);
        match &self.test {
            How::Compare(comparison, term) => {
                let wanted = set(term.evaluate(env)?)?;
                self.compare(*comparison, present, self.value(&wanted))
            }
            How::In(terms, among) => {
                for term in terms {
                    let wanted = term.evaluate(env)?;
                    if wanted == Evaluated::Unset {
                        continue;
                    }
                    if self.compare(Comparison::Equal, present, self.value(&wanted))? {
                        return Ok(*among);
                    }
                }
                Ok(!among)
            }
            How::InWhole(term, among) => Ok(self.is_in(term, present, env)? == *among),
            How::Like(term) => {
                let pattern = set(term.evaluate(env)?)?;
                let pattern = pattern.bytes().ok_or_else(|| null_for("LIKE"))?;
                Ok(present.is_some_and(|text| like(text, pattern)))
            }
            How::Contains(term) => {
                let wanted = term.evaluate(env)?;
                if wanted == Evaluated::Unset {
                    return Ok(false);
                }
                let wanted = wanted.bytes().ok_or_else(|| null_for("CONTAINS"))?;
                let Some(whole) = present else { return Ok(false) };
                Ok(contains_value(&self.ty, whole, wanted))
            }
            How::ContainsKey(term) => {
                let wanted = term.evaluate(env)?;
                if wanted == Evaluated::Unset {
                    return Ok(false);
                }
                let wanted = wanted.bytes().ok_or_else(|| null_for("CONTAINS KEY"))?;
                let Some(whole) = present else { return Ok(false) };
                let Type::Map { key, .. } = &self.ty else { return Ok(false) };
                let mut entries = model::value::map_entries(whole);
                Ok(entries.any(|(found, _)| model::value::compare(key, found, wanted).is_eq()))
            }
        }
    }

    /// Whether `present` is one of a bound list's values. They are not taken as a list, which has
    /// no nulls.
    fn is_in(&self, term: &Term, present: Option<&[u8]>, env: &Env<'_>) -> Result<bool, Error> {
        let bound = match term {
            Term::Marker(variable, _) => env.values.get(usize::from(*variable)),
            _ => None,
        };
        let list = match bound {
            Some(Value::Bytes(list)) => list,
            Some(Value::Unset) => return set(Evaluated::Unset).map(|_| false),
            _ => return Ok(false),
        };
        let invalid =
            |text: String| Error::Invalid(format!("Exception while binding an IN list: {text}"));
        for part in model::value::list_elements(list) {
            let part = part.map_err(|damaged| invalid(damaged.to_string()))?;
            let part = match part {
                None => None,
                Some(part) => {
                    let checked = model::value::validate(&self.ty, part);
                    checked.map_err(|refused| invalid(refused.0))?;
                    // Clients send sets and maps in any order.
                    Some(model::value::normalize(&self.ty, part))
                }
            };
            if self.compare(Comparison::Equal, present, part.as_deref())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The bytes; an empty multi-cell collection is null.
    fn value<'v>(&self, evaluated: &'v Evaluated<'_>) -> Option<&'v [u8]> {
        let empty = [0; 4];
        let is_void =
            |bytes: &&[u8]| self.ty.is_multi_cell() && self.ty.is_collection() && **bytes == empty;
        evaluated.bytes().filter(|bytes| !is_void(bytes))
    }

    fn compare(
        &self,
        comparison: Comparison,
        present: Option<&[u8]>,
        wanted: Option<&[u8]>,
    ) -> Result<bool, Error> {
        match (comparison, present, wanted) {
            (Comparison::Equal, None, None) => Ok(true),
            (Comparison::NotEqual, None, None) => Ok(false),
            (Comparison::NotEqual, _, None) | (Comparison::NotEqual, None, _) => Ok(true),
            (Comparison::Equal, _, None) => Ok(false),
            (_, _, None) => Err(null_for(crate::restrictions::symbol(comparison))),
            // A multi-cell collection without elements is null, and less than one with some.
            (_, None, Some(wanted)) if self.ty.is_multi_cell() && self.ty.is_collection() => {
                Ok(holds(comparison, model::value::compare(&self.ty, &[0; 4], wanted)))
            }
            (_, None, _) => Ok(false),
            (_, Some(present), Some(wanted)) => {
                Ok(holds(comparison, model::value::compare(&self.ty, present, wanted)))
            }
        }
    }
}

fn null_for(operator: &str) -> Error {
    Error::Invalid(format!("Invalid comparison with null for operator \"{operator}\""))
}

/// A value, which in a condition must be given.
fn set(value: Evaluated<'_>) -> Result<Evaluated<'_>, Error> {
    match value {
        Evaluated::Unset => Err(Error::invalid("Invalid unset value in condition")),
        value => Ok(value),
    }
}
