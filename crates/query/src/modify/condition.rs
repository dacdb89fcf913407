//! `IF ..`, and what a write has to know of its row.

use super::operation::Operation;
use crate::error::CqlError;
use crate::response::{ColumnSpec, ResultMetadata};
use crate::restrictions::{contains_value, find, holds, like};
use crate::syntax::ast;
use crate::syntax::ast::{ColumnPath, Comparison, Condition, InValues, Relation, Subject};
use crate::term::{Env, Evaluated, Inputs, Preparer, Receiver, Term};
use model::{ColumnKind, TableSchema, Type};
use mutation::page::ColumnForm;
use std::borrow::Cow;
use std::rc::Rc;
use stdx::Put;

/// A prepared `IF`.
#[derive(Debug)]
pub(crate) struct ConditionPlan {
    kind: Kind,
    /// What the result tells of the row as it was.
    outputs: Vec<Term>,
    pub(super) metadata: Rc<ResultMetadata>,
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
    In(Vec<Term>),
    InWhole(Term),
    Like(Term),
    Contains(Term),
    ContainsKey(Term),
}

/// Plans an `IF`; `inputs` collects what it needs of the row.
pub(super) fn prepare(
    table: &TableSchema,
    condition: &Condition,
    only_statics: bool,
    inputs: &mut Inputs,
    preparer: &mut Preparer<'_>,
) -> Result<Option<ConditionPlan>, CqlError> {
    let mut shown: Vec<&model::Column> = Vec::new();
    let kind = match condition {
        Condition::None => return Ok(None),
        Condition::Exists => Kind::Exists,
        Condition::NotExists => Kind::NotExists,
        Condition::All(relations) => {
            let mut tests = Vec::with_capacity(relations.len());
            for relation in relations {
                tests.push(test(table, relation, inputs, preparer)?);
                if let Subject::Path(path) = &relation.subject {
                    shown.push(find(table, path.column())?);
                }
            }
            Kind::All(tests)
        }
    };
    let mut specs = vec![spec(table, "[applied]", Type::Boolean)];
    let mut outputs = Vec::new();
    for column in &table.columns {
        let wanted = match column.kind {
            ColumnKind::PartitionKey => true,
            ColumnKind::Clustering => !only_statics || !matches!(kind, Kind::All(_)),
            _ => !matches!(kind, Kind::All(_)) || shown.iter().any(|c| c.id == column.id),
        };
        if wanted {
            outputs.push(Term::Column(inputs.add(column, ColumnForm::Value)));
            specs.push(spec(table, &column.name, column.ty.clone()));
        }
    }
    let metadata = Rc::new(ResultMetadata::new(specs));
    Ok(Some(ConditionPlan { kind, outputs, metadata }))
}

fn spec(table: &TableSchema, name: &str, ty: Type) -> ColumnSpec {
    ColumnSpec {
        keyspace: Rc::from(table.keyspace.as_str()),
        table: Rc::from(table.name.as_str()),
        name: Rc::from(name),
        ty,
    }
}

/// Adds the lists whose elements operations name.
pub(super) fn add_lists<'o>(
    table: &TableSchema,
    operations: impl Iterator<Item = &'o Operation>,
    inputs: &mut Inputs,
) {
    for operation in operations.filter(|operation| operation.needs_read()) {
        if let Some(column) = table.column_by_id(operation.column) {
            inputs.add(column, ColumnForm::Blob);
        }
    }
}

fn test(
    table: &TableSchema,
    relation: &Relation,
    inputs: &mut Inputs,
    preparer: &mut Preparer<'_>,
) -> Result<Test, CqlError> {
    let Subject::Path(path) = &relation.subject else {
        return Err(CqlError::invalid("Conditions are on columns, their elements and fields"));
    };
    let column = find(table, path.column())?;
    if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        return Err(CqlError::Invalid(format!(
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
                return Err(CqlError::Invalid(text));
            };
            let index = user.fields.iter().position(|(name, _)| *name == field.text);
            let index = index.ok_or_else(|| {
                CqlError::Invalid(format!(
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
                    return Err(CqlError::Invalid(text));
                }
            };
            let key_name = format!("key({})", column.name);
            let key = preparer.prepare(key, Receiver { name: &key_name, ty: &key_type })?;
            let name = format!("value({})", column.name);
            let whole_type = Rc::new(column.ty.clone());
            (Term::Element(Box::new(whole), whole_type, Box::new(key)), ty, name)
        }
    };
    let receiver = Receiver { name: &name, ty: &ty };
    let test = how(&relation.test, receiver, preparer)?;
    Ok(Test { subject, ty, test })
}

fn how(
    test: &ast::Test,
    receiver: Receiver<'_>,
    preparer: &mut Preparer<'_>,
) -> Result<How, CqlError> {
    Ok(match test {
        ast::Test::Compare(comparison, value) => {
            How::Compare(*comparison, preparer.prepare(value, receiver)?)
        }
        ast::Test::In(InValues::List(items)) => {
            let terms: Result<Vec<Term>, CqlError> =
                items.iter().map(|item| preparer.prepare(item, receiver)).collect();
            How::In(terms?)
        }
        ast::Test::In(InValues::Marker(marker)) => {
            let list = Type::List { element: Box::new(receiver.ty.clone()), frozen: true };
            let name = preparer.markers.list_name("IN", receiver.name);
            How::InWhole(preparer.marker(*marker, Receiver { name: &name, ty: &list }))
        }
        ast::Test::Like(value) => How::Like(preparer.prepare(value, receiver)?),
        ast::Test::Contains(value) => {
            let ty = match receiver.ty {
                Type::List { element, .. } | Type::Set { element, .. } => element,
                Type::Map { value, .. } => value,
                _ => return Err(CqlError::invalid("CONTAINS is for collections")),
            };
            How::Contains(preparer.prepare(value, Receiver { name: receiver.name, ty })?)
        }
        ast::Test::ContainsKey(value) => {
            let Type::Map { key, .. } = receiver.ty else {
                return Err(CqlError::invalid("CONTAINS KEY is for maps"));
            };
            How::ContainsKey(preparer.prepare(value, Receiver { name: receiver.name, ty: key })?)
        }
        _ => return Err(CqlError::invalid("Invalid operator in an IF condition")),
    })
}

impl ConditionPlan {
    /// Whether it holds of the row of `env`; `exists`: whether there is one.
    pub(super) fn holds(&self, exists: bool, env: &Env<'_>) -> Result<bool, CqlError> {
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

    /// The row of the result.
    pub(super) fn answer(
        &self,
        applied: bool,
        exists: bool,
        env: &Env<'_>,
    ) -> Result<Vec<u8>, CqlError> {
        let mut out = Vec::new();
        out.put_i32(1);
        out.put_u8(applied.into());
        for output in &self.outputs {
            match output.evaluate(env)?.bytes() {
                Some(bytes) if exists => out.put_u32_bytes(bytes),
                _ => out.put_i32(-1),
            }
        }
        Ok(out)
    }
}

impl Test {
    fn holds(&self, env: &Env<'_>) -> Result<bool, CqlError> {
        let present = self.subject.evaluate(env)?;
        let present = self.value(&present);
        match &self.test {
            How::Compare(comparison, term) => {
                let wanted = term.evaluate(env)?;
                if wanted == Evaluated::Unset {
                    return Ok(false);
                }
                self.compare(*comparison, present, self.value(&wanted))
            }
            How::In(terms) => {
                for term in terms {
                    let wanted = term.evaluate(env)?;
                    if self.compare(Comparison::Equal, present, self.value(&wanted))? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            How::InWhole(term) => {
                let list = term.evaluate(env)?;
                let Evaluated::Value(list) = list else { return Ok(false) };
                let list: Cow<'_, [u8]> = list;
                let mut parts = model::value::list_elements(&list).filter_map(Result::ok);
                Ok(parts
                    .any(|part| self.compare(Comparison::Equal, present, part).unwrap_or(false)))
            }
            How::Like(term) => {
                let pattern = term.evaluate(env)?;
                let (Some(text), Some(pattern)) = (present, pattern.bytes()) else {
                    return Ok(false);
                };
                Ok(like(text, pattern))
            }
            How::Contains(term) => {
                let wanted = term.evaluate(env)?;
                let (Some(whole), Some(wanted)) = (present, wanted.bytes()) else {
                    return Ok(false);
                };
                Ok(contains_value(&self.ty, whole, wanted))
            }
            How::ContainsKey(term) => {
                let wanted = term.evaluate(env)?;
                let (Some(whole), Some(wanted)) = (present, wanted.bytes()) else {
                    return Ok(false);
                };
                let Type::Map { key, .. } = &self.ty else { return Ok(false) };
                let mut entries = model::value::map_entries(whole);
                Ok(entries.any(|(found, _)| model::value::compare(key, found, wanted).is_eq()))
            }
        }
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
    ) -> Result<bool, CqlError> {
        match (comparison, present, wanted) {
            (Comparison::Equal, None, None) => Ok(true),
            (Comparison::NotEqual, None, None) => Ok(false),
            (Comparison::NotEqual, _, None) | (Comparison::NotEqual, None, _) => Ok(true),
            (Comparison::Equal, _, None) => Ok(false),
            (_, _, None) => Err(CqlError::Invalid(format!(
                "Invalid comparison with null for operator \"{}\"",
                crate::restrictions::symbol(comparison)
            ))),
            (_, None, _) => Ok(false),
            (_, Some(present), Some(wanted)) => {
                Ok(holds(comparison, model::value::compare(&self.ty, present, wanted)))
            }
        }
    }
}
